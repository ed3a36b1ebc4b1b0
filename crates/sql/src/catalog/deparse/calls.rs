//! Calls of functions and aggregates, and what has a syntax of its own.
//!
//! Does not do: functions that users made of which several may be meant, named arguments, VARIADIC,
//! frames of windows, WITHIN GROUP.

use sqlparser::ast::{
    self, CeilFloorKind, FunctionArg, FunctionArgExpr, FunctionArguments, TrimWhereField,
};

use super::analyse::Analyzer;
use super::choose::{Chosen, TEXT, Types};
use super::tree::{
    Aggregate, Kind, Node, SortBy, SortKey, Subquery, Syntax, Test, TypeRef, Window,
};
use crate::catalog::builtin;
use crate::catalog::functions::{FunctionObject, type_of};
use crate::names::identifier;
use crate::parse::identifiers;
use crate::types::SqlType;
use crate::user_types::kept_name;

/// Words that are calls without parentheses, with their types.
const WORDS: [(&str, SqlType); 11] = [
    ("current_date", SqlType::Date),
    ("current_time", SqlType::Timetz),
    ("current_timestamp", SqlType::Timestamptz),
    ("localtime", SqlType::Time),
    ("localtimestamp", SqlType::Timestamp),
    ("current_role", SqlType::Name),
    ("current_user", SqlType::Name),
    ("user", SqlType::Name),
    ("session_user", SqlType::Name),
    ("current_catalog", SqlType::Name),
    ("current_schema", SqlType::Name),
];

impl Analyzer<'_> {
    /// A word that is a call by itself.
    pub(super) fn word(&self, name: &ast::Ident) -> Option<Node> {
        let (word, ty) = WORDS.iter().find(|(word, _)| name.value.eq_ignore_ascii_case(word))?;
        Node::new(Kind::Word(word.to_uppercase()), TypeRef::plain(ty.oid()))
    }

    pub(super) fn call_like(&self, node: &ast::Expr) -> Option<Node> {
        use ast::Expr as E;
        const NO_FIELD: CeilFloorKind =
            CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime);
        let of = |inner: &ast::Expr| self.expr(inner);
        match node {
            E::Function(call) => self.function(call),
            E::Ceil { expr, field } if *field == NO_FIELD => self.call("ceil", vec![of(expr)?]),
            E::Floor { expr, field } if *field == NO_FIELD => self.call("floor", vec![of(expr)?]),
            E::AtTimeZone { timestamp, time_zone } => {
                let args = vec![of(time_zone)?, of(timestamp)?];
                self.syntax(Syntax::AtTimeZone, "timezone", args)
            }
            E::Extract { field, expr, .. } => {
                let field = field.to_string().trim_matches('\'').to_lowercase();
                let field = Node::new(Kind::Const(Some(field)), TypeRef::plain(TEXT))?;
                self.syntax(Syntax::Extract, "extract", vec![field, of(expr)?])
            }
            E::Position { expr, r#in } => {
                self.syntax(Syntax::Position, "position", vec![of(r#in)?, of(expr)?])
            }
            E::Substring { expr, substring_from, substring_for, special, shorthand } => {
                let mut args = vec![of(expr)?];
                for arg in substring_from.iter().chain(substring_for) {
                    args.push(of(arg)?);
                }
                match (special, substring_from) {
                    (true, _) if *shorthand => self.call("substr", args),
                    (true, _) => self.call("substring", args),
                    (false, Some(_)) => self.syntax(Syntax::Substring, "substring", args),
                    (false, None) => None,
                }
            }
            E::Trim { trim_where, trim_what, expr, trim_characters } => {
                let (side, name) = match trim_where {
                    Some(TrimWhereField::Leading) => ("LEADING", "ltrim"),
                    Some(TrimWhereField::Trailing) => ("TRAILING", "rtrim"),
                    _ => ("BOTH", "btrim"),
                };
                let mut args = vec![of(expr)?];
                for arg in trim_what.as_deref().into_iter().chain(trim_characters.iter().flatten())
                {
                    args.push(of(arg)?);
                }
                self.syntax(Syntax::Trim(side), name, args)
            }
            E::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
                let mut args = vec![of(expr)?, of(overlay_what)?, of(overlay_from)?];
                args.extend(match overlay_for {
                    Some(length) => Some(of(length)?),
                    None => None,
                });
                self.syntax(Syntax::Overlay, "overlay", args)
            }
            _ => None,
        }
    }

    /// The function of this name, with its arguments as it takes them.
    fn chosen(&self, name: &str, args: Vec<Node>) -> Option<(Vec<Node>, TypeRef)> {
        let types: Vec<u32> = args.iter().map(|arg| arg.ty.oid).collect();
        let Chosen { operands, result } = self.types.function(name, b'f', &types)?;
        Some((self.coerce_all(args, &operands)?, TypeRef::plain(result)))
    }

    pub(super) fn call(&self, name: &str, args: Vec<Node>) -> Option<Node> {
        let (args, ty) = self.chosen(name, args)?;
        Node::new(Kind::Call(identifier(name), args), ty)
    }

    fn syntax(&self, syntax: Syntax, name: &str, args: Vec<Node>) -> Option<Node> {
        let (args, ty) = self.chosen(name, args)?;
        Node::new(Kind::Syntax(syntax, args), ty)
    }

    fn function(&self, call: &ast::Function) -> Option<Node> {
        let parts = identifiers::parts(&call.name).ok()?;
        let is_system = matches!(parts.as_slice(), [_]) || parts.first()? == "pg_catalog";
        let is_users = !is_system && parts.len() == 2;
        let is_plain = call.null_treatment.is_none()
            && matches!(call.parameters, FunctionArguments::None)
            && call.within_group.is_empty();
        if !(is_system || is_users) || !is_plain {
            return None;
        }
        let name = parts.last()?;
        if is_system && let FunctionArguments::List(list) = &call.args {
            let one = |kind| self.aggregate(name, kind, list, call.filter.as_deref());
            if let Some(over) = &call.over {
                return self.window(one(b'w').or_else(|| one(b'a'))?, over);
            }
            if is_aggregate(name) {
                let Called { call, ty } = one(b'a')?;
                return Node::new(Kind::Aggregate(Box::new(call)), ty);
            }
        }
        if call.filter.is_some() || call.over.is_some() {
            return None;
        }
        let is_quoted = call.name.0.last()?.as_ident()?.quote_style.is_some();
        let list = match &call.args {
            FunctionArguments::None if !is_quoted => {
                return self.word(call.name.0.last()?.as_ident()?);
            }
            FunctionArguments::Subquery(query) if name == "array" && !is_quoted => {
                let query = self.columns.query(query)?;
                let [column] = query.columns.as_slice() else { return None };
                let ty = TypeRef::plain(self.types.array(column.ty.oid)?);
                let one = Subquery { query, test: Test::Array };
                return Node::new(Kind::Subquery(Box::new(one)), ty);
            }
            FunctionArguments::List(list) => list,
            _ => return None,
        };
        if list.duplicate_treatment.is_some() || !list.clauses.is_empty() {
            return None;
        }
        let mut args = Vec::with_capacity(list.args.len());
        for arg in &list.args {
            let FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) = arg else { return None };
            args.push(self.expr(arg)?);
        }
        match (name.as_str(), is_quoted) {
            ("coalesce", false) => self.keyword("COALESCE", args),
            ("greatest", false) => self.keyword("GREATEST", args),
            ("least", false) => self.keyword("LEAST", args),
            ("nullif", false) => self.null_if(args),
            ("current_time" | "current_timestamp" | "localtime" | "localtimestamp" | "row", _) => {
                None
            }
            _ if is_users => self.call_of_user(&parts, args),
            _ => {
                let types: Vec<u32> = args.iter().map(|arg| arg.ty.oid).collect();
                match self.types.has_function(name, &types) {
                    false if parts.len() == 1 => match self.call_of_user(&parts, args.clone()) {
                        None => self.call_or_cast(name, args),
                        call => call,
                    },
                    _ => self.call_or_cast(name, args),
                }
            }
        }
    }

    /// The call of a function that a user made, if these parts name one with so many arguments.
    fn call_of_user(&self, parts: &[String], args: Vec<Node>) -> Option<Node> {
        let stored = kept_name(parts)?;
        let Types(objects, path) = self.types;
        let takes = |one: &&FunctionObject| {
            one.stored == stored
                && one.inputs().count() >= args.len()
                && one.inputs().skip(args.len()).all(|part| part.default.is_some())
        };
        let wanted = |one: &FunctionObject| -> Vec<u32> {
            one.inputs().take(args.len()).map(|part| type_of(part).0).collect()
        };
        let mut found: Vec<&FunctionObject> = objects.functions().iter().filter(takes).collect();
        if found.len() > 1 {
            let given: Vec<u32> = args.iter().map(|arg| arg.ty.oid).collect();
            found.retain(|one| wanted(one) == given);
        }
        let [function] = found.as_slice() else { return None };
        let types = wanted(function);
        let args = self.coerce_all(args, &types)?;
        Node::new(Kind::Call(function.spelled(path), args), TypeRef::plain(function.result().0))
    }

    /// An aggregate, or by its letter a window function, without ORDER BY.
    fn aggregate(
        &self,
        name: &str,
        kind: u8,
        list: &ast::FunctionArgumentList,
        filter: Option<&ast::Expr>,
    ) -> Option<Called> {
        let is_distinct = match list.duplicate_treatment {
            None | Some(ast::DuplicateTreatment::All) => false,
            Some(ast::DuplicateTreatment::Distinct) => true,
        };
        let (mut args, mut is_of_rows) = (Vec::with_capacity(list.args.len()), false);
        for arg in &list.args {
            match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Wildcard) if list.args.len() == 1 => {
                    is_of_rows = true;
                }
                FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) => args.push(self.expr(arg)?),
                _ => return None,
            }
        }
        if !list.clauses.is_empty() {
            return None;
        }
        let filter = match filter {
            Some(filter) => Some(self.condition(filter)?),
            None => None,
        };
        let types: Vec<u32> = args.iter().map(|arg| arg.ty.oid).collect();
        let Chosen { operands, result } = self.types.function(name, kind, &types)?;
        let args = self.coerce_all(args, &operands)?;
        let name = name.to_owned();
        let call = Aggregate { name, is_of_rows, is_distinct, args, order: Vec::new(), filter };
        Some(Called { call, ty: TypeRef::plain(result) })
    }

    /// A call over a window that has no frame and no name.
    fn window(&self, called: Called, over: &ast::WindowType) -> Option<Node> {
        let ast::WindowType::WindowSpec(spec) = over else { return None };
        if spec.window_name.is_some() || spec.window_frame.is_some() {
            return None;
        }
        let key = |expr: &ast::Expr| match expr {
            ast::Expr::Value(_) => None,
            expr => self.decided(self.expr(expr)?),
        };
        let partition = spec.partition_by.iter().map(key).collect::<Option<Vec<_>>>()?;
        let mut order = Vec::with_capacity(spec.order_by.len());
        for one in &spec.order_by {
            let by = SortBy::Value(key(&one.expr)?);
            order.push(SortKey { by, order: order_of(&one.options)? });
        }
        let Called { call, ty } = called;
        Node::new(Kind::Window(Box::new(Window { call, partition, order })), ty)
    }

    fn keyword(&self, word: &'static str, args: Vec<Node>) -> Option<Node> {
        let (args, ty) = self.unified(args)?;
        Node::new(Kind::Keyword(word, args), ty)
    }

    fn null_if(&self, args: Vec<Node>) -> Option<Node> {
        match self.operator("=", args)?.kind {
            Kind::Operator(_, pair) => {
                let ty = pair.first()?.ty;
                Node::new(Kind::Keyword("NULLIF", pair), ty)
            }
            _ => None,
        }
    }

    /// A call; one that names a type is a cast of its argument where no function takes it.
    fn call_or_cast(&self, name: &str, args: Vec<Node>) -> Option<Node> {
        let types: Vec<u32> = args.iter().map(|arg| arg.ty.oid).collect();
        let is_type = SqlType::of_short_name(name).is_some() && args.len() == 1;
        if is_type && !self.types.has_function(name, &types) {
            // The casts of a call depend on its arguments.
            return None;
        }
        self.call(name, args)
    }
}

/// Is it the name of an aggregate?
fn is_aggregate(name: &str) -> bool {
    builtin::functions_named(name).any(|one| one.kind == b'a')
}

/// A call of an aggregate, and what it gives.
struct Called {
    call: Aggregate,
    ty: TypeRef,
}

/// DESC and NULLS as PostgreSQL writes them, with blanks in front.
pub(super) fn order_of(options: &ast::OrderByOptions) -> Option<String> {
    let descending = match &options.sort {
        None | Some(ast::OrderBySort::Asc) => false,
        Some(ast::OrderBySort::Desc) => true,
        Some(_) => return None,
    };
    let nulls = match (descending, options.nulls_first.unwrap_or(descending)) {
        (false, true) => " NULLS FIRST",
        (true, false) => " NULLS LAST",
        _ => "",
    };
    Some(format!("{}{nulls}", if descending { " DESC" } else { "" }))
}
