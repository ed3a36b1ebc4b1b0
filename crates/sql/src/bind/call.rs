//! Calls of functions, with the spellings that SQL has for some of them.
//!
//! Does not do: aggregates (`aggregate`), window functions (`window`), functions that give rows
//! (`sets`).

use std::cmp::Ordering;

use sqlparser::ast::{
    self, CeilFloorKind, FunctionArg, FunctionArgExpr, FunctionArguments, Spanned, TrimWhereField,
};

use super::Binder;
use super::expr::varchar_of;
use super::overloads::Given;
use super::populate::is_populate;
use super::window::is_window_function;
use crate::catalog::functions_named;
use crate::error::{Result, SqlError, code};
use crate::expr::{Expr, Typed, aggregate, collation_of, registry};
use crate::names::{self, CATALOGS};
use crate::parse::{identifiers, named_arguments};
use crate::types::cast;
use crate::types::declared::{Declared, Modifier};
use crate::types::{
    Array, Datum, ElementType, RegKind, Registered, SqlType, VARCHAR, VARCHAR_ARRAY,
};
use crate::user_types::functions::UserFunction;

/// The type that a call names in place of a function: no word that begins a declaration of a type.
fn cast_of(call: &ast::Function, name: &str) -> Option<SqlType> {
    const WORDS: [&str; 7] = ["bit", "char", "interval", "numeric", "time", "timestamp", "record"];
    let last = call.name.0.last().and_then(|part| part.as_ident())?;
    let is_word = last.quote_style.is_none() && WORDS.contains(&name);
    SqlType::of_short_name(name).filter(|ty| !is_word && !ty.is_array())
}

impl Binder<'_> {
    /// Binds what looks like a call.
    pub(crate) fn call(&mut self, node: &ast::Expr) -> Result<Typed> {
        let position = self.start(node);
        let around = std::mem::replace(&mut self.sets.at, position);
        let result = match node {
            ast::Expr::Function(function) => {
                let around = std::mem::replace(&mut self.callee, function.name.span());
                let value = self.function(function);
                self.callee = around;
                value
            }
            ast::Expr::Extract { field, expr, .. } => {
                let field = literal(&field.to_string().trim_matches('\'').to_lowercase());
                let value = self.expr(expr)?;
                self.named("extract", vec![field, value])
            }
            ast::Expr::Ceil {
                expr,
                field: CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime),
            } => {
                let value = self.expr(expr)?;
                self.named("ceil", vec![value])
            }
            ast::Expr::Floor {
                expr,
                field: CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime),
            } => {
                let value = self.expr(expr)?;
                self.named("floor", vec![value])
            }
            ast::Expr::Position { expr, r#in } => {
                let (part, source) = (self.expr(expr)?, self.expr(r#in)?);
                self.named("position", vec![source, part])
            }
            ast::Expr::Substring { expr, substring_from, substring_for, .. } => {
                self.substring(expr, substring_from.as_deref(), substring_for.as_deref())
            }
            ast::Expr::Trim { trim_where, trim_what, expr, trim_characters } => {
                self.trim(*trim_where, trim_what.as_deref(), (expr, trim_characters.as_deref()))
            }
            ast::Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
                let mut args =
                    vec![self.expr(expr)?, self.expr(overlay_what)?, self.expr(overlay_from)?];
                if let Some(len) = overlay_for {
                    args.push(self.expr(len)?);
                }
                self.named("overlay", args)
            }
            ast::Expr::Array(array) if array.named => self.array(array, None),
            ast::Expr::Array(_) => Err(SqlError::syntax("syntax error at or near \"[\"")),
            ast::Expr::Tuple(parts) => {
                let values = parts.iter().map(|part| self.expr(part)).collect::<Result<_>>()?;
                self.row_value(values)
            }
            ast::Expr::CompoundFieldAccess { root, access_chain } => {
                self.subscripts(root, access_chain)
            }
            other => Err(SqlError::unsupported(format!("the expression {other}"))),
        };
        self.sets.at = around;
        result.map(|typed| typed.at(position)).map_err(|error| error.at(position))
    }

    fn substring(
        &mut self,
        inner: &ast::Expr,
        from: Option<&ast::Expr>,
        len: Option<&ast::Expr>,
    ) -> Result<Typed> {
        let mut args = vec![self.expr(inner)?];
        args.push(match from {
            Some(from) => self.expr(from)?,
            None => Typed::new(Expr::Const(Datum::Int4(1)), SqlType::Int4),
        });
        if let Some(len) = len {
            args.push(self.expr(len)?);
        }
        self.named("substring", args)
    }

    fn trim(
        &mut self,
        side: Option<TrimWhereField>,
        what: Option<&ast::Expr>,
        (inner, characters): (&ast::Expr, Option<&[ast::Expr]>),
    ) -> Result<Typed> {
        let mut args = vec![self.expr(inner)?];
        for extra in what.into_iter().chain(characters.unwrap_or_default()) {
            args.push(self.expr(extra)?);
        }
        let name = match side {
            Some(TrimWhereField::Leading) => "ltrim",
            Some(TrimWhereField::Trailing) => "rtrim",
            _ => "btrim",
        };
        self.named(name, args)
    }

    /// The function `name` over `args`.
    pub(crate) fn named(&mut self, name: &str, args: Vec<Typed>) -> Result<Typed> {
        let types: Vec<SqlType> = args.iter().map(|arg| arg.ty).collect();
        let function = registry::resolve(name, &types)
            .map_err(|miss| registry::no_function(name, &types, &miss))?;
        self.apply(function, args)
    }

    fn function(&mut self, call: &ast::Function) -> Result<Typed> {
        let parts = identifiers::parts(&call.name)?;
        if let Some(functions) = self.functions_of_schema(&parts)? {
            let given = self.plain_arguments(parts.last().map_or("", String::as_str), call)?;
            let chosen = self.chosen(&functions, &parts, given)?;
            return self.user_call(chosen);
        }
        let name = identifiers::function(&call.name)?;
        let plain =
            call.null_treatment.is_none() && matches!(call.parameters, FunctionArguments::None);
        if !plain {
            return Err(SqlError::unsupported("such a function call"));
        }
        if let Some(over) = &call.over {
            return self.window_call(&name, call, over);
        }
        if Self::is_grouping(call) {
            return self.grouping_call(call);
        }
        if !call.within_group.is_empty() || aggregate::exists(&name) {
            return self.aggregate(&name, call);
        }
        if aggregate::ordered_set(&name).is_some_and(|set| set.is_hypothetical())
            && has_arguments(call)
        {
            let message = format!("WITHIN GROUP is required for ordered-set aggregate {name}");
            return Err(SqlError::new(code::WRONG_OBJECT_TYPE, message));
        }
        if is_window_function(&name) {
            let message = format!("window function {name} requires an OVER clause");
            return Err(SqlError::new(code::WRONG_OBJECT_TYPE, message));
        }
        if let Some(value) = self.call_by_names(&name, call)? {
            return Ok(value);
        }
        let mut args = match &call.args {
            FunctionArguments::None => Vec::new(),
            FunctionArguments::Subquery(query) if name == "array" => {
                return self.array_subquery(query);
            }
            FunctionArguments::Subquery(_) => {
                return Err(SqlError::unsupported("a query as the arguments of a function"));
            }
            FunctionArguments::List(list) => {
                if list.duplicate_treatment.is_some()
                    || !list.clauses.is_empty()
                    || call.filter.is_some()
                {
                    let message = format!("{name} is not an aggregate function");
                    return Err(SqlError::new(code::WRONG_OBJECT_TYPE, message));
                }
                if matches!(
                    name.as_str(),
                    "nextval" | "currval" | "setval" | "lastval" | "pg_sequence_last_value"
                ) {
                    let node = |arg: &FunctionArg| match arg {
                        FunctionArg::Unnamed(FunctionArgExpr::Expr(node)) => Ok(node.clone()),
                        _ => Err(SqlError::unsupported("such an argument of a sequence")),
                    };
                    let nodes = list.args.iter().map(node).collect::<Result<Vec<_>>>()?;
                    return self.sequence_call(&name, &nodes);
                }
                match name.as_str() {
                    "coalesce" => self.without_sets(
                        "set-returning functions are not allowed in COALESCE",
                        |b| b.arguments(&list.args),
                    )?,
                    "make_interval" => self.interval_parts(&list.args)?,
                    "row" => self.row_arguments(&list.args)?,
                    _ => self.arguments(&list.args)?,
                }
            }
        };
        // A parameter of no type stands for none, as drivers give results of functions.
        args.retain(|arg| arg.ty != SqlType::Void || !matches!(arg.expr, Expr::Param(_)));
        if let (Some(ty), [arg]) = (cast_of(call, &name), args.as_slice())
            && self.is_cast(&name, ty, arg)
        {
            let position = args[0].position;
            let value = args.into_iter().next().expect("there is one");
            return self.cast_to(value, Declared::plain(ty), position);
        }
        self.special(&name, args)
    }

    /// Is the call of a function that is named like a type a cast of its argument?
    fn is_cast(&self, name: &str, ty: SqlType, arg: &Typed) -> bool {
        if arg.ty == SqlType::Unknown {
            return true;
        }
        let is_function = registry::resolve(name, &[arg.ty]).is_ok();
        !is_function && cast::context(arg.ty, ty).is_some()
    }

    /// The arguments of `make_interval`, which is the one function whose arguments have names.
    fn interval_parts(&mut self, args: &[FunctionArg]) -> Result<Vec<Typed>> {
        const NAMES: [&str; 7] = ["years", "months", "weeks", "days", "hours", "mins", "secs"];
        let mut parts: Vec<Typed> = Vec::new();
        for (at, arg) in args.iter().enumerate() {
            let Some((name, node)) = named_arguments::named(arg) else {
                if parts.len() != at {
                    return Err(named_arguments::misplaced());
                }
                parts.extend(self.arguments(std::slice::from_ref(arg))?);
                continue;
            };
            let place = NAMES.iter().position(|known| *known == name);
            let Some(place) = place.filter(|place| *place >= at) else {
                let message = format!("function make_interval({name} => ...) does not exist");
                return Err(SqlError::new(code::UNDEFINED_FUNCTION, message));
            };
            let nothing = || Typed::new(Expr::Const(Datum::Int4(0)), SqlType::Int4);
            while parts.len() <= place {
                parts.push(nothing());
            }
            parts[place] = self.expr(node)?;
        }
        Ok(parts)
    }

    pub(super) fn arguments(&mut self, args: &[FunctionArg]) -> Result<Vec<Typed>> {
        let mut bound = Vec::with_capacity(args.len());
        for arg in args {
            match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => bound.push(self.expr(expr)?),
                FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(name)) => {
                    bound.push(self.row_of_source(name)?);
                }
                FunctionArg::Unnamed(_) => {
                    return Err(SqlError::syntax("syntax error at or near \"*\""));
                }
                _ => return Err(SqlError::unsupported("named arguments")),
            }
        }
        Ok(bound)
    }

    /// Functions whose types the table of functions cannot say.
    fn special(&mut self, name: &str, mut args: Vec<Typed>) -> Result<Typed> {
        match (name, args.len()) {
            ("coalesce", 1..) => {
                let modifier = varchar_of(&args);
                let collated = collation_of(&args)?;
                let (list, ty) = self.unified(args, "COALESCE")?;
                Ok(Typed { modifier, collated, ..Typed::new(Expr::Coalesce(list), ty) })
            }
            ("greatest", 1..) => self.extreme(args, Ordering::Greater),
            ("least", 1..) => self.extreme(args, Ordering::Less),
            ("nullif", 2) => {
                let (a, b) = (args.remove(0), args.remove(0));
                self.null_if(a, b)
            }
            ("pg_typeof", 1) => {
                let is_varchar = matches!(args[0].modifier, Some(Modifier::Varchar(_)));
                let name = match args[0].ty {
                    SqlType::Text if is_varchar => VARCHAR,
                    ty if is_varchar && ty.element() == Some(SqlType::Text) => VARCHAR_ARRAY,
                    ty => ty.name(),
                };
                let oid = match args[0].ty {
                    SqlType::Text | SqlType::Array(_) if is_varchar => {
                        SqlType::named(name).map_or(705, |(oid, _)| oid)
                    }
                    ty => ty.oid(),
                };
                let value = Registered::datum(RegKind::Type, oid, Some(name.to_owned()));
                Ok(Typed::new(Expr::Const(value), SqlType::Reg(RegKind::Type)))
            }
            ("enum_first" | "enum_last" | "enum_range", _) => self.of_enum(name, args),
            ("current_schema" | "current_schemas", _) => self.about_schemas(name, args),
            ("row", _) => self.row_value(args),
            (name, _) if is_populate(name) => self.populated(name, args),
            ("unnest", _) => self.unnested(args),
            (names::EXPANDED, _) => self.numbered_elements(name, args),
            ("generate_subscripts", _) => self.subscript_numbers(name, args),
            _ => match self.array_function(name, args)? {
                Ok(found) => Ok(found),
                Err(args) => self.made_or_named(name, args),
            },
        }
    }

    /// A function of the system, or else one that a user made.
    fn made_or_named(&mut self, name: &str, args: Vec<Typed>) -> Result<Typed> {
        let types: Vec<SqlType> = args.iter().map(|arg| arg.ty).collect();
        match registry::resolve(name, &types) {
            Ok(function) => self.apply(function, args),
            Err(miss) => {
                let functions = self.users_functions(&[name.to_owned()])?;
                if functions.is_empty() {
                    return Err(registry::no_function(name, &types, &miss));
                }
                let chosen = self.chosen(&functions, &[name.to_owned()], Given::plain(args))?;
                self.user_call(chosen)
            }
        }
    }

    /// The functions that a name with a schema names, if that is none of the system.
    fn functions_of_schema(&mut self, parts: &[String]) -> Result<Option<Vec<UserFunction>>> {
        match parts {
            [schema, _] if !CATALOGS.contains(&schema.as_str()) => {
                Ok(Some(self.users_functions(parts)?).filter(|all| !all.is_empty()))
            }
            _ => Ok(None),
        }
    }

    /// A call with names of arguments, of a function that a user made.
    fn call_by_names(&mut self, name: &str, call: &ast::Function) -> Result<Option<Typed>> {
        let FunctionArguments::List(list) = &call.args else { return Ok(None) };
        let is_plain = |arg: &FunctionArg| matches!(arg, FunctionArg::Unnamed(_));
        if list.args.iter().all(is_plain) || name == "make_interval" {
            return Ok(None);
        }
        let functions = self.users_functions(&[name.to_owned()])?;
        if functions.is_empty() && functions_named(name).next().is_some() {
            return Ok(None);
        }
        let given = self.plain_arguments(name, call)?;
        let chosen = self.chosen(&functions, &[name.to_owned()], given)?;
        self.user_call(chosen).map(Some)
    }

    /// The arguments of a call that has nothing else.
    fn plain_arguments(&mut self, name: &str, call: &ast::Function) -> Result<Given> {
        let list = match &call.args {
            FunctionArguments::List(list) => list,
            FunctionArguments::None => return Ok(Given::default()),
            FunctionArguments::Subquery(_) => {
                return Err(SqlError::unsupported("a query as the arguments of a function"));
            }
        };
        let is_plain = list.duplicate_treatment.is_none() && list.clauses.is_empty();
        if !is_plain || call.filter.is_some() || !call.within_group.is_empty() {
            let message = format!("{name} is not an aggregate function");
            return Err(SqlError::new(code::WRONG_OBJECT_TYPE, message));
        }
        if call.over.is_some() {
            let message = format!(
                "OVER specified, but {name} is not a window function nor an aggregate function"
            );
            return Err(SqlError::new(code::WRONG_OBJECT_TYPE, message));
        }
        self.given(&list.args)
    }

    /// Functions of an enum, which its labels tell.
    fn of_enum(&mut self, name: &str, args: Vec<Typed>) -> Result<Typed> {
        let types: Vec<SqlType> = args.iter().map(|arg| arg.ty).collect();
        let missing = || registry::no_function(name, &types, &registry::Miss::None);
        let count = if name == "enum_range" { 1..=2 } else { 1..=1 };
        if !count.contains(&args.len()) {
            return Err(missing());
        }
        let known = types.iter().copied().find(|ty| *ty != SqlType::Unknown);
        let Some(ty @ SqlType::Enum(made)) = known else { return Err(missing()) };
        if types.iter().any(|other| *other != ty && *other != SqlType::Unknown) {
            return Err(missing());
        }
        let element = ElementType::of(ty).expect("labels are elements");
        let all = || Array::of(element, made.values().collect());
        let empty = || {
            let message = format!("enum {} contains no values", made.shown());
            SqlError::new(code::NOT_IN_STATE, message)
        };
        let end = match name {
            "enum_first" => made.values().next().ok_or_else(empty)?,
            "enum_last" => made.values().next_back().ok_or_else(empty)?,
            _ if args.len() == 1 => {
                return Ok(Typed::new(Expr::Const(all()?.into()), SqlType::Array(element)));
            }
            _ => {
                let mut bound = vec![Expr::Const(all()?.into())];
                for arg in args {
                    bound.push(self.coerce(arg, ty)?);
                }
                return self.labels_between(bound, element);
            }
        };
        Ok(Typed::new(Expr::Const(end), ty))
    }

    /// What depends on the search path and on what is there: good for once.
    pub(super) fn about_schemas(&mut self, name: &str, args: Vec<Typed>) -> Result<Typed> {
        self.once = true;
        let text = |value: Option<String>| {
            let value = value.map_or(Datum::Null, Datum::Text);
            Ok(Typed::new(Expr::Const(value), SqlType::Name))
        };
        let values: Vec<&Expr> = args.iter().map(|arg| &arg.expr).collect();
        match (name, values.as_slice()) {
            ("current_schema", []) => {
                let mut all = self.catalog.schemas()?.into_iter();
                text(all.find(|schema| schema != "pg_catalog"))
            }
            ("current_schemas", [Expr::Const(Datum::Bool(implicit))]) => {
                let mut all = self.catalog.schemas()?;
                if *implicit && !all.iter().any(|schema| schema == "pg_catalog") {
                    all.insert(0, "pg_catalog".to_owned());
                }
                let names = all.into_iter().map(Datum::Text).collect();
                let element = ElementType::of(SqlType::Name).expect("names are elements");
                let names = Expr::Const(Array::of(element, names)?.into());
                Ok(Typed::new(names, SqlType::Array(element)))
            }
            ("current_schemas", [_]) => {
                Err(SqlError::unsupported(format!("{name} of anything but a constant")))
            }
            _ => {
                let types: Vec<SqlType> = args.iter().map(|arg| arg.ty).collect();
                Err(registry::no_function(name, &types, &registry::Miss::None))
            }
        }
    }

    /// `nullif(a, b)`: of the type that the comparison makes of `a`.
    fn null_if(&mut self, a: Typed, b: Typed) -> Result<Typed> {
        use SqlType as T;
        let types = (a.ty, b.ty);
        let blanks = a.is_varchar() && b.ty == T::Bpchar || a.ty == T::Bpchar && b.is_varchar();
        let collated = a.collated.clone();
        let twin = self.copy(&a)?;
        let equal = self.operator("=", vec![twin, b])?.expr;
        if blanks || matches!(types, (T::Bpchar, T::Bpchar | T::Unknown) | (T::Unknown, T::Bpchar))
        {
            // The comparison leaves blanks out that the value has.
            let value = if a.ty == T::Text { a.expr } else { self.coerce(a, T::Bpchar)? };
            let case = Expr::Case(vec![(equal, Expr::null())], Box::new(value));
            return Ok(Typed { collated, ..Typed::new(case, T::Bpchar) });
        }
        if matches!(&equal, Expr::Call(_, pair) if matches!(pair[0], Expr::Weights(..))) {
            let value = self.coerce(a, T::Text)?;
            let case = Expr::Case(vec![(equal, Expr::null())], Box::new(value));
            return Ok(Typed { collated, ..Typed::new(case, T::Text) });
        }
        let Expr::Call(function, mut pair) = equal else { unreachable!("an operator is a call") };
        let (b, a) = (pair.pop().expect("two operands"), pair.pop().expect("two operands"));
        // PostgreSQL compares these without making one the other's type.
        let kin = |list: &[SqlType]| list.contains(&types.0) && list.contains(&types.1);
        let ty = match function.args.first() {
            _ if kin(&[T::Int2, T::Int4, T::Int8])
                || kin(&[T::Float4, T::Float8])
                || kin(&[T::Date, T::Timestamp, T::Timestamptz]) =>
            {
                types.0
            }
            Some(T::Unknown) | None => T::Text,
            Some(ty) => *ty,
        };
        let null_if = Expr::NullIf(Box::new(a), Box::new(b));
        Ok(Typed { collated, ..Typed::new(Expr::Cast(Box::new(null_if), ty), ty) })
    }
}

fn has_arguments(call: &ast::Function) -> bool {
    matches!(&call.args, FunctionArguments::List(list) if !list.args.is_empty())
}

fn literal(text: &str) -> Typed {
    Typed::new(Expr::Const(Datum::Text(text.to_owned())), SqlType::Text)
}
