//! Expressions.
//!
//! Invariants: what follows an operand, as IS NULL, casts and AT TIME ZONE do, is bound in a loop,
//! so that rows of them cost no stack here: binding recurses only where parsing does.
//! Does not do: operators (`infix`), calls of functions (`call`).

use std::cmp::Ordering;

use sqlparser::ast::{self, Spanned, UnaryOperator, Value};
use sqlparser::tokenizer::Span;

use super::rows::{asks_of_row, is_row};
use super::scope::{self, Lookup};
use super::{Binder, padded, trimmed};
use crate::error::{Result, SqlError, code};
use crate::expr::registry::{self, Function};
use crate::expr::{Expr, Typed, bits, collation_of, records};
use crate::parse::chain::prefix_name;
use crate::parse::identifiers;
use crate::types::cast::{self, CastContext};
use crate::types::collate::Collated;
use crate::types::declared::{Declared, Modifier};
use crate::types::{Bits, Datum, SqlType, literal};

impl Binder<'_> {
    /// Position of a piece of syntax.
    pub(crate) fn position(&self, node: &impl Spanned) -> Option<usize> {
        self.lines.position(node.span())
    }

    /// Where an expression begins, found without the stack that its span costs.
    pub(super) fn start(&self, node: &ast::Expr) -> Option<usize> {
        let mut first = node;
        loop {
            first = match first {
                ast::Expr::BinaryOp { left, .. } => left,
                ast::Expr::UnaryOp { expr, .. } | ast::Expr::Nested(expr) => expr,
                ast::Expr::Function(call) => return self.position(&call.name),
                other => match operand_of(other) {
                    Some(inner) => inner,
                    None => return self.position(first),
                },
            };
        }
    }

    /// Binds an expression.
    pub(crate) fn expr(&mut self, node: &ast::Expr) -> Result<Typed> {
        let mut links = Vec::new();
        let mut first = node;
        while let Some(inner) = operand_of(first) {
            links.push(first);
            first = inner;
        }
        let row = if links.is_empty() { None } else { self.row(first)? };
        let mut value = match (row, self.cast_array(first, links.last())?) {
            (Some(row), _) => match links.pop_if(|link| asks_of_row(link)) {
                Some(link) => self.link_of_row(link, row)?,
                None => self.row_value(row)?,
            },
            (None, Some(array)) => array,
            (None, None) => self.operand(first)?,
        };
        if !links.is_empty() {
            let start = self.start(first);
            let mut open_ended = false;
            while let Some(link) = links.pop() {
                match matched_by(link) {
                    Some((word, _)) if open_ended => {
                        let message = format!("syntax error at or near \"{word}\"");
                        return Err(SqlError::syntax(message));
                    }
                    matched => open_ended = matched.is_some_and(|(_, open_ended)| open_ended),
                }
                value = self.link(link, value, start)?;
            }
        }
        Ok(value)
    }

    /// What follows `value` in `node`, which begins at `start`.
    fn link(&mut self, node: &ast::Expr, value: Typed, start: Option<usize>) -> Result<Typed> {
        match node {
            ast::Expr::Cast { data_type, .. } => self.cast(value, data_type, start),
            ast::Expr::Between { negated, low, high, .. } => {
                self.between(value, (low, high), *negated)
            }
            ast::Expr::InList { list, negated, .. } => self.in_list(value, list, *negated),
            ast::Expr::IsNull(_) => self.is_null(value, false),
            ast::Expr::IsNotNull(_) => self.is_null(value, true),
            ast::Expr::IsTrue(_) => self.is(value, Some(true), false),
            ast::Expr::IsNotTrue(_) => self.is(value, Some(true), true),
            ast::Expr::IsFalse(_) => self.is(value, Some(false), false),
            ast::Expr::IsNotFalse(_) => self.is(value, Some(false), true),
            ast::Expr::IsUnknown(_) => self.is(value, None, false),
            ast::Expr::IsNotUnknown(_) => self.is(value, None, true),
            ast::Expr::IsDistinctFrom(_, other) => self.distinct(value, other, false),
            ast::Expr::IsNotDistinctFrom(_, other) => self.distinct(value, other, true),
            ast::Expr::Like { any, negated, pattern, escape_char, .. } => {
                let name = if *negated { "!~~" } else { "~~" };
                match any {
                    true => self.like_any(name, value, pattern),
                    false => self.like(name, value, pattern, escape_char.as_deref()),
                }
            }
            ast::Expr::ILike { any, negated, pattern, escape_char, .. } => {
                let name = if *negated { "!~~*" } else { "~~*" };
                match any {
                    true => self.like_any(name, value, pattern),
                    false => self.like(name, value, pattern, escape_char.as_deref()),
                }
            }
            ast::Expr::Collate { collation, .. } => self.collate(value, collation, start),
            ast::Expr::AtTimeZone { time_zone, .. } => {
                let zone = self.expr(time_zone)?;
                let local = self.named("timezone", vec![zone, value]);
                local.map(|typed| typed.at(start)).map_err(|error| error.at(start))
            }
            ast::Expr::AnyOp { .. } | ast::Expr::AllOp { .. } => self.any(node, value, start),
            ast::Expr::InSubquery { subquery, negated, .. } => {
                self.in_subquery(vec![value], subquery, *negated).map(|typed| typed.at(start))
            }
            ast::Expr::SimilarTo { negated, pattern, escape_char, .. } => {
                let name = if *negated { "!~" } else { "~" };
                let mut args = vec![self.expr(pattern)?];
                if let Some(escape) = escape_char {
                    args.push(self.expr(escape)?);
                }
                let pattern = self.named("similar_to_escape", args)?;
                self.operator(name, vec![value, pattern])
                    .map(|typed| typed.at(start))
                    .map_err(|error| error.at(start))
            }
            _ => unreachable!("it has no operand in front"),
        }
    }

    fn operand(&mut self, node: &ast::Expr) -> Result<Typed> {
        match node {
            ast::Expr::BinaryOp { .. } => self.chain(node),
            ast::Expr::UnaryOp { op: UnaryOperator::Not, expr } => self.negation(expr),
            ast::Expr::UnaryOp { op, .. } if prefix_name(*op).is_some() => self.chain(node),
            ast::Expr::UnaryOp { op, .. } => {
                let message = format!("operator {op}");
                Err(SqlError::unsupported(message).at(self.position(node)))
            }
            ast::Expr::Nested(inner) => self.expr(inner),
            ast::Expr::Identifier(name) => match keyword_function(name) {
                Some("current_schema") => self.about_schemas("current_schema", Vec::new()),
                Some(function) => self.named(function, Vec::new()),
                None => self.column(None, None, name),
            },
            ast::Expr::CompoundIdentifier(path) => self.path(path),
            ast::Expr::QualifiedWildcard(name, _) => {
                let position = self.position(name);
                let row = self.row_of_source(name).map_err(|error| error.at(position))?;
                Ok(row.at(position))
            }
            ast::Expr::Value(value) => {
                let position = self.lines.position(value.span);
                self.value(&value.value).map(|typed| typed.at(position))
            }
            ast::Expr::TypedString(typed) => self.typed_string(typed),
            ast::Expr::Interval(interval) => self.interval(interval),
            ast::Expr::Case { operand, conditions, else_result, .. } => self
                .without_sets("set-returning functions are not allowed in CASE", |binder| {
                    binder.case(operand.as_deref(), conditions, else_result.as_deref())
                }),
            ast::Expr::Subquery(query) => {
                let position = self.position(node);
                let value = self.scalar_subquery(query).map_err(|error| error.at(position))?;
                Ok(Typed { position, ..value })
            }
            ast::Expr::Exists { subquery, negated } => {
                let position = self.position(node);
                self.exists(subquery, *negated).map(|typed| typed.at(position))
            }
            // Rows of values; one value is an operand in front of a link.
            ast::Expr::InSubquery { expr, subquery, negated } => {
                let values = self.row_values(expr)?;
                self.in_subquery(values, subquery, *negated)
            }
            ast::Expr::AnyOp { left, compare_op, right, .. }
            | ast::Expr::AllOp { left, compare_op, right } => {
                let all = matches!(node, ast::Expr::AllOp { .. });
                let values = self.row_values(left)?;
                match right.as_ref() {
                    ast::Expr::Subquery(query) => self.quantified(values, compare_op, query, all),
                    _ => Err(SqlError::unsupported("ANY or ALL of this")),
                }
            }
            _ => self.call(node),
        }
    }

    /// The operator `name` over its operands.
    pub(crate) fn operator(&mut self, name: &str, operands: Vec<Typed>) -> Result<Typed> {
        let name = if name == "!=" { "<>" } else { name };
        // A document has operators of its own over lists of keys.
        let is_document = |ty| matches!(ty, SqlType::Json | SqlType::Jsonb) && name != "||";
        let of_document = operands.first().is_some_and(|left| is_document(left.ty));
        if !of_document && operands.iter().any(|operand| operand.ty.is_array()) {
            return self.array_operator(name, operands);
        }
        let operands = self.without_blanks(name, operands)?;
        let types: Vec<SqlType> = operands.iter().map(|operand| operand.ty).collect();
        // Two literals are compared as text.
        let text = types.iter().all(|ty| *ty == SqlType::Unknown) && types.len() == 2;
        let found = match text && registry::resolve(name, &[SqlType::Text; 2]).is_ok() {
            true => registry::resolve(name, &[SqlType::Text; 2]),
            false => registry::resolve_operator(name, &types),
        };
        let function = found.map_err(|miss| registry::no_operator(name, &types, &miss))?;
        if let Some(compared) = self.collated(function, &operands)? {
            return Ok(compared);
        }
        self.apply(function, operands)
    }

    /// Operands of a comparison of `char(n)`, as texts without the blanks they end in. That is how
    /// `char(n)` and `varchar` compare; with `text`, blanks at the end of the text count.
    fn without_blanks(&mut self, name: &str, operands: Vec<Typed>) -> Result<Vec<Typed>> {
        let compares = matches!(name, "=" | "<>" | "<" | "<=" | ">" | ">=");
        let fixed = |operand: &Typed| operand.ty == SqlType::Bpchar;
        let known = |operand: &Typed| {
            matches!(operand.ty, SqlType::Bpchar | SqlType::Unknown) || operand.is_varchar()
        };
        if !compares || !operands.iter().any(fixed) || !operands.iter().all(known) {
            return Ok(operands);
        }
        let mut texts = Vec::with_capacity(operands.len());
        for operand in operands {
            let (position, collated) = (operand.position, operand.collated.clone());
            let expr = match operand.ty {
                SqlType::Text => trimmed(operand.expr),
                _ => trimmed(self.coerce(operand, SqlType::Bpchar)?),
            };
            texts.push(Typed { collated, ..Typed::new(expr, SqlType::Text).at(position) });
        }
        Ok(texts)
    }

    /// `function` over arguments that it takes.
    pub(crate) fn apply(&mut self, function: &'static Function, args: Vec<Typed>) -> Result<Typed> {
        let last = function.args.last().copied().unwrap_or(SqlType::Unknown);
        let collated = collation_of(&args)?;
        let under = match function.name {
            "upper" => "upper under",
            "lower" => "lower under",
            "initcap" => "initcap under",
            _ => "",
        };
        if !under.is_empty()
            && let Some(locale) = collated.letters(&format!("{}() function", function.name))?
        {
            let found = registry::resolve(under, &[SqlType::Text; 2]);
            let Ok(found) = found else { unreachable!("{under} is registered") };
            let locale = Typed::new(Expr::Const(Datum::Text(locale)), SqlType::Text);
            let args = args.into_iter().chain([locale]).collect();
            return self.apply(found, args);
        }
        let mut bound = Vec::with_capacity(args.len());
        for (at, arg) in args.into_iter().enumerate() {
            let wanted = function.args.get(at).copied().unwrap_or(last);
            // A value of any type does not decide the type of a parameter.
            let is_any = function.variadic && wanted == SqlType::Unknown;
            if is_any && arg.ty == SqlType::Unknown && matches!(arg.expr, Expr::Param(_)) {
                bound.push(arg.expr);
                continue;
            }
            let wanted = match (wanted, arg.ty) {
                (SqlType::Unknown, SqlType::Unknown) => SqlType::Text,
                (SqlType::Unknown, ty) => ty,
                (wanted, _) => wanted,
            };
            bound.push(self.coerce(arg, wanted)?);
        }
        let value = match function.rows {
            Some(rows) => self.set_call(rows, bound, function.result)?,
            None => Typed::new(Expr::Call(function, bound), function.result),
        };
        Ok(if value.ty == SqlType::Text { Typed { collated, ..value } } else { value })
    }

    fn negation(&mut self, inner: &ast::Expr) -> Result<Typed> {
        let value = self.expr(inner)?;
        let value = self.condition(value, "NOT")?;
        let position = self.start(inner);
        Ok(Typed::new(Expr::Not(Box::new(value)), SqlType::Bool).at(position))
    }

    /// A column by name, and its source's name if it is said.
    pub(super) fn column(
        &mut self,
        schema: Option<&str>,
        source: Option<&str>,
        name: &ast::Ident,
    ) -> Result<Typed> {
        let position = self.lines.position(name.span);
        let wanted = identifiers::ident(name);
        let mut has_source = false;
        for scope in std::iter::once(&self.scope).chain(self.outer.iter().rev()) {
            let found = scope.find(schema, source, &wanted).map_err(|error| error.at(position))?;
            match found {
                Lookup::Found(column) => {
                    self.mentions.push((name.span, Some(column.id)));
                    return Ok(column.value().at(position));
                }
                Lookup::NoColumn => {
                    has_source = true;
                    break;
                }
                Lookup::NoSource => {}
            }
        }
        if source.is_none()
            && let Some(row) = self.whole_row(&wanted).map_err(|error| error.at(position))?
        {
            return Ok(row.at(position));
        }
        if let Some(source) = source.filter(|_| !has_source) {
            let argument = self.arguments.as_ref().and_then(|all| all.named(source));
            if let Some(row) = argument {
                return self.field_of(row, name);
            }
            let message = format!("missing FROM-clause entry for table \"{source}\"");
            return Err(SqlError::new(code::UNDEFINED_TABLE, message).at(position));
        }
        let message = format!("column {} does not exist", scope::shown(source, &wanted));
        Err(SqlError::new(code::UNDEFINED_COLUMN, message).at(position))
    }

    fn path(&mut self, path: &[ast::Ident]) -> Result<Typed> {
        let position = path.first().and_then(|first| self.lines.position(first.span));
        let (schema, source, column) = match path {
            [source, column] => (None, identifiers::ident(source), column),
            [schema, source, column] => {
                (Some(identifiers::ident(schema)), identifiers::ident(source), column)
            }
            _ => return Err(SqlError::unsupported("a name of so many parts").at(position)),
        };
        self.mentions.push((path[path.len() - 2].span, None));
        self.qualifiers.insert(Span::new(path[0].span.start, column.span.start));
        self.leave_out_schema(path);
        let typed = self.column(schema.as_deref(), Some(&source), column);
        let typed = typed.map_err(|error| match error.sqlstate {
            code::UNDEFINED_TABLE | code::AMBIGUOUS_ALIAS => SqlError { position, ..error },
            _ => error,
        })?;
        Ok(Typed { position, ..typed })
    }

    fn value(&mut self, value: &Value) -> Result<Typed> {
        let literal = |text: &str| {
            Ok(Typed::new(Expr::Const(Datum::Text(text.to_owned())), SqlType::Unknown))
        };
        let of_digits = |digits: &str, width| {
            let value = Datum::Bit(Bits::parse_digits(digits, width)?);
            Ok(Typed::new(Expr::Const(value), SqlType::Bit))
        };
        match value {
            Value::Number(digits, _) => number(digits),
            Value::SingleQuotedString(text)
            | Value::EscapedStringLiteral(text)
            | Value::UnicodeStringLiteral(text)
            | Value::NationalStringLiteral(text) => literal(text),
            Value::DollarQuotedString(text) => literal(&text.value),
            Value::Boolean(value) => {
                Ok(Typed::new(Expr::Const(Datum::Bool(*value)), SqlType::Bool))
            }
            Value::Null => Ok(Typed::null()),
            Value::Placeholder(name) => {
                let number = name.strip_prefix('$').and_then(|digits| digits.parse().ok());
                self.parameter(number.ok_or_else(|| {
                    SqlError::syntax(format!("syntax error at or near \"{name}\""))
                })?)
            }
            Value::HexStringLiteral(digits) => of_digits(digits, 4),
            Value::SingleQuotedByteStringLiteral(digits) => of_digits(digits, 1),
            other => Err(SqlError::syntax(format!("syntax error at or near \"{other}\""))),
        }
    }

    fn cast(
        &mut self,
        value: Typed,
        kind: &ast::DataType,
        position: Option<usize>,
    ) -> Result<Typed> {
        let declared = identifiers::data_type(kind, self).map_err(|error| error.at(position))?;
        self.cast_to(value, declared, position)
    }

    /// The function that makes bits of a number, over a number of this type.
    fn bits_of_number(&mut self, value: Typed, length: Typed) -> Result<Expr> {
        let found = registry::resolve(bits::OF_NUMBER, &[value.ty, length.ty]);
        let Ok(found) = found else { unreachable!("{} is registered", bits::OF_NUMBER) };
        Ok(self.apply(found, vec![value, length])?.expr)
    }

    pub(super) fn cast_to(
        &mut self,
        value: Typed,
        declared: Declared,
        position: Option<usize>,
    ) -> Result<Typed> {
        let text = |ty| matches!(ty, SqlType::Text | SqlType::Bpchar);
        let collated = match text(value.ty) && text(declared.ty) {
            true => value.collated.clone(),
            false => Collated::Default,
        };
        let expr = match (&value.expr, declared) {
            // Of no length: blanks at the end stay what they are.
            (_, Declared { ty: SqlType::Bpchar, modifier: None, .. })
                if value.ty == SqlType::Bpchar =>
            {
                value.expr
            }
            (_, Declared { ty: SqlType::Bpchar, modifier: None, .. }) => {
                self.coerce_checked(value, SqlType::Text, CastContext::Explicit)?
            }
            // What a number in the text counts depends on the parts.
            (
                Expr::Const(Datum::Text(literal)),
                Declared { modifier: Some(Modifier::Interval(fields, _)), .. },
            ) if value.ty == SqlType::Unknown && declared.ty == SqlType::Interval => {
                let at = value.position.or(position);
                Expr::Const(self.interval_literal(literal, fields, at)?)
            }
            // The lowest bits, where others are cut behind the first.
            (_, Declared { ty: SqlType::Bit, modifier: Some(Modifier::Bits(_, length)), .. })
                if matches!(value.ty, SqlType::Int4 | SqlType::Int8) =>
            {
                let length = Expr::Const(Datum::Int4(length as i32));
                self.bits_of_number(value, Typed::new(length, SqlType::Int4))?
            }
            _ => self.coerce_checked(value, declared.ty, CastContext::Explicit)?,
        };
        let expr = match declared.modifier {
            Some(modifier) => Expr::Fit(Box::new(expr), modifier, true),
            None => expr,
        };
        let modifier = declared.modifier;
        let expr = match declared.domain {
            Some(domain) => self.in_domain(expr, domain)?,
            None => expr,
        };
        let expr = padded(expr, modifier);
        Ok(Typed { modifier, collated, ..Typed::new(expr, declared.ty).at(position) })
    }

    fn typed_string(&mut self, typed: &ast::TypedString) -> Result<Typed> {
        let position = self.lines.position(typed.value.span);
        let declared = match &typed.data_type {
            // Of a literal it declares no length.
            ast::DataType::Bit(None) => Declared::plain(SqlType::Bit),
            other => identifiers::data_type(other, self)?,
        };
        let value = self.value(&typed.value.value)?.at(position);
        self.cast_to(value, declared, position)
    }

    fn interval(&mut self, interval: &ast::Interval) -> Result<Typed> {
        let position = self.position(&*interval.value);
        let ast::Expr::Value(value) = &*interval.value else {
            return Err(SqlError::syntax("an interval is a string").at(position));
        };
        let (Value::SingleQuotedString(literal) | Value::EscapedStringLiteral(literal)) =
            &value.value
        else {
            return Err(SqlError::syntax("an interval is a string").at(position));
        };
        let value = identifiers::interval_parts(interval).and_then(|modifier| match modifier {
            Modifier::Interval(fields, _) => {
                modifier.fit(self.interval_literal(literal, fields, position)?, true)
            }
            _ => unreachable!("parts of an interval"),
        });
        let value = value.map_err(|error| error.at(position))?;
        Ok(Typed::new(Expr::Const(value), SqlType::Interval).at(position))
    }

    pub(super) fn is_null(&mut self, value: Typed, negated: bool) -> Result<Typed> {
        if matches!(value.ty, SqlType::Record | SqlType::Composite(_)) {
            let function = if negated { records::is_not_null() } else { records::is_null() };
            return Ok(Typed::new(Expr::Call(function, vec![value.expr]), SqlType::Bool));
        }
        let value = if value.ty == SqlType::Unknown {
            self.coerce(value, SqlType::Text)?
        } else {
            value.expr
        };
        Ok(Typed::new(Expr::IsNull(Box::new(value), negated), SqlType::Bool))
    }

    fn is(&mut self, value: Typed, wanted: Option<bool>, negated: bool) -> Result<Typed> {
        let value = self.condition(value, "IS")?;
        Ok(Typed::new(Expr::Is(Box::new(value), wanted, negated), SqlType::Bool))
    }

    fn distinct(&mut self, a: Typed, b: &ast::Expr, negated: bool) -> Result<Typed> {
        let b = self.expr(b)?;
        let (a, b) = self.comparable(a, b)?;
        Ok(Typed::new(Expr::Distinct(Box::new(a), Box::new(b), negated), SqlType::Bool))
    }

    /// Both sides as the types that `=` compares.
    pub(crate) fn comparable(&mut self, a: Typed, b: Typed) -> Result<(Expr, Expr)> {
        match self.operator("=", vec![a, b])?.expr {
            Expr::Call(_, mut args) => {
                let (b, a) = (args.pop(), args.pop());
                Ok((a.expect("two operands"), b.expect("two operands")))
            }
            _ => unreachable!("an operator is a call"),
        }
    }

    fn case(
        &mut self,
        operand: Option<&ast::Expr>,
        arms: &[ast::CaseWhen],
        rest: Option<&ast::Expr>,
    ) -> Result<Typed> {
        let mut conditions = Vec::with_capacity(arms.len());
        let mut results = Vec::with_capacity(arms.len() + 1);
        let operand = operand.map(|operand| self.expr(operand)).transpose()?;
        let (operand, switched) = operand.map_or((None, None), |operand| operand.operand());
        for arm in arms {
            conditions.push(match &operand {
                Some(operand) => {
                    let value = self.expr(&arm.condition)?;
                    self.operator("=", vec![operand.clone(), value])?.expr
                }
                None => {
                    let condition = self.expr(&arm.condition)?;
                    self.condition(condition, "CASE/WHEN")?
                }
            });
            results.push(self.expr(&arm.result)?);
        }
        // The last value decides first of which type the result is.
        let rest = match rest {
            Some(rest) => self.expr(rest)?,
            None => Typed::null(),
        };
        results.insert(0, rest);
        let modifier = varchar_of(&results);
        let collated = collation_of(&results)?;
        let (mut results, ty) = self.unified(results, "CASE")?;
        let rest = results.remove(0);
        let arms = conditions.into_iter().zip(results).collect();
        let case = match switched {
            Some(operand) => Expr::Switch(Box::new(operand), arms, Box::new(rest)),
            None => Expr::Case(arms, Box::new(rest)),
        };
        Ok(Typed { modifier, collated, ..Typed::new(case, ty) })
    }

    /// All values as their common type.
    pub(crate) fn unified(
        &mut self,
        values: Vec<Typed>,
        what: &str,
    ) -> Result<(Vec<Expr>, SqlType)> {
        let types: Vec<SqlType> = values.iter().map(|value| value.ty).collect();
        let mut known = types.iter().filter(|ty| **ty != SqlType::Unknown);
        if known.next() == Some(&SqlType::Bpchar)
            && known.all(|ty| matches!(ty, SqlType::Bpchar | SqlType::Text))
        {
            // Texts become `char` of any length as they are, blanks included.
            let list = values.into_iter().map(|value| match (value.ty, value.expr) {
                (SqlType::Unknown, Expr::Param(at)) => {
                    self.coerce(Typed::new(Expr::Param(at), SqlType::Unknown), SqlType::Bpchar)
                }
                (_, expr) => Ok(expr),
            });
            return Ok((list.collect::<Result<_>>()?, SqlType::Bpchar));
        }
        let Some(ty) = cast::common(&types) else {
            let known: Vec<&SqlType> = types.iter().filter(|ty| **ty != SqlType::Unknown).collect();
            let other = known.iter().find(|ty| cast::common(&[*known[0], ***ty]).is_none());
            let (a, b) = (known[0], other.unwrap_or(&known[0]));
            let message = format!("{what} types {} and {} cannot be matched", a.name(), b.name());
            let odd = values.iter().find(|value| value.ty == **b);
            let position = odd.and_then(|value| value.position);
            return Err(SqlError::new(code::DATATYPE_MISMATCH, message).at(position));
        };
        let list = values.into_iter().map(|value| self.coerce(value, ty)).collect::<Result<_>>()?;
        Ok((list, ty))
    }

    fn between(
        &mut self,
        value: Typed,
        (low, high): (&ast::Expr, &ast::Expr),
        negated: bool,
    ) -> Result<Typed> {
        let (low, high) = (self.expr(low)?, self.expr(high)?);
        let (first, second) = if negated { ("<", ">") } else { (">=", "<=") };
        let twin = self.copy(&value)?;
        let a = self.operator(first, vec![twin, low])?.expr;
        let b = self.operator(second, vec![value, high])?.expr;
        let joined = if negated { Expr::Or(vec![a, b]) } else { Expr::And(vec![a, b]) };
        Ok(Typed::new(joined, SqlType::Bool))
    }

    /// IN: several items that name no column are compared as one list of their common type, all
    /// others each by itself, as PostgreSQL does.
    fn in_list(&mut self, value: Typed, list: &[ast::Expr], negated: bool) -> Result<Typed> {
        let mut items = Vec::with_capacity(list.len());
        for item in list {
            items.push(self.expr(item)?);
        }
        let (of_row, mut fixed): (Vec<Typed>, Vec<Typed>) =
            items.into_iter().partition(|item| self.names_column(&item.expr));
        let mut single = Vec::new();
        let types = fixed.iter().map(|item| item.ty).chain([value.ty]).collect::<Vec<_>>();
        if fixed.len() < 2 || cast::common(&types).is_none() {
            single.append(&mut fixed);
        }
        single.extend(of_row);
        let mut tests = Vec::with_capacity(single.len() + 1);
        if !fixed.is_empty() {
            // The value has a say in the common type, but is not made that type.
            let voter = Typed { expr: Expr::null(), ..value.clone() };
            fixed.insert(0, voter);
            let items = self.list_of(fixed, "IN")?.split_off(1);
            let value = self.copy(&value)?;
            tests.push(self.equals_any(value, items, negated)?);
        }
        let name = if negated { "<>" } else { "=" };
        for item in single {
            let value = self.copy(&value)?;
            tests.push(self.operator(name, vec![value, item])?.expr);
        }
        let joined = match tests.len() {
            1 => tests.remove(0),
            _ if negated => Expr::And(tests),
            _ => Expr::Or(tests),
        };
        Ok(Typed::new(joined, SqlType::Bool))
    }

    /// Does an expression name a column, in an aggregate or outside?
    fn names_column(&self, expr: &Expr) -> bool {
        let mut found = false;
        expr.walk(&mut |inner| match inner {
            Expr::Column(_) | Expr::Subquery(_) => found = true,
            Expr::Aggregate(at) => {
                let aggregate = &self.aggregates[*at];
                let parts = aggregate.args.iter().chain(&aggregate.filter);
                parts.for_each(|part| {
                    part.walk(&mut |inner| {
                        found |= matches!(inner, Expr::Column(_) | Expr::Subquery(_));
                    });
                });
            }
            _ => {}
        });
        found
    }

    /// Values as their common type.
    pub(super) fn list_of(&mut self, values: Vec<Typed>, what: &str) -> Result<Vec<Typed>> {
        let modifier = varchar_of(&values);
        let collated = collation_of(&values)?;
        let (list, ty) = self.unified(values, what)?;
        let typed = |expr| Typed { modifier, collated: collated.clone(), ..Typed::new(expr, ty) };
        Ok(list.into_iter().map(typed).collect())
    }

    /// Does `value` equal one of `items`, which are of one type? The operator is that of the two
    /// types.
    pub(super) fn equals_any(
        &mut self,
        value: Typed,
        items: Vec<Typed>,
        negated: bool,
    ) -> Result<Expr> {
        // After the first comparison only the value's type is still needed.
        let rest = Typed { expr: Expr::null(), ..value.clone() };
        let mut value = Some(value);
        let mut needle = Expr::null();
        let mut list = Vec::with_capacity(items.len());
        for item in items {
            let first = value.take();
            let is_first = first.is_some();
            let left = first.unwrap_or_else(|| rest.clone());
            let Expr::Call(function, mut pair) = self.operator("=", vec![left, item])?.expr else {
                unreachable!("an operator is a call")
            };
            let whole = |ty: &SqlType| matches!(ty, SqlType::Int2 | SqlType::Int4 | SqlType::Int8);
            if function.args[0] != function.args[1] && !function.args.iter().all(whole) {
                // Floats of two widths.
                pair = pair.into_iter().map(widened).collect();
            }
            list.push(pair.pop().expect("two operands"));
            if is_first {
                needle = pair.pop().expect("two operands");
            }
        }
        Ok(Expr::In(Box::new(needle), list, negated))
    }

    fn like(
        &mut self,
        name: &str,
        mut value: Typed,
        pattern: &ast::Expr,
        escape: Option<&ast::Expr>,
    ) -> Result<Typed> {
        if value.ty == SqlType::Bpchar {
            // The blanks of char(n) count here.
            value.ty = SqlType::Text;
        }
        let mut pattern = self.expr(pattern)?;
        if let Some(escape) = escape {
            let escape = self.expr(escape)?;
            let function = registry::resolve("like_escape", &[SqlType::Text, SqlType::Text]);
            let Ok(function) = function else { unreachable!("like_escape is registered") };
            pattern = self.apply(function, vec![pattern, escape])?;
        }
        self.operator(name, vec![value, pattern])
    }

    /// Largest or smallest of a list.
    pub(crate) fn extreme(&mut self, args: Vec<Typed>, wanted: Ordering) -> Result<Typed> {
        let what = if wanted.is_gt() { "GREATEST" } else { "LEAST" };
        let modifier = varchar_of(&args);
        let collated = collation_of(&args)?;
        if collated.used()?.is_some() {
            return Err(SqlError::unsupported(format!("{what} of texts under a collation")));
        }
        let (list, ty) = self.unified(args, what)?;
        let expr = match ty {
            // Compared without the blanks that the values have.
            SqlType::Bpchar => {
                let name = if wanted.is_gt() { "greatest" } else { "least" };
                let Ok(function) = registry::resolve(name, &vec![ty; list.len()]) else {
                    unreachable!("{name} of char(n) is registered")
                };
                Expr::Call(function, list)
            }
            _ => Expr::Extreme(list, wanted),
        };
        Ok(Typed { modifier, collated, ..Typed::new(expr, ty) })
    }
}

/// A function that is called by a word alone, which names no column unless it is in quotes.
fn keyword_function(name: &ast::Ident) -> Option<&'static str> {
    if name.quote_style.is_some() {
        return None;
    }
    let known = ["current_schema", "current_role"];
    known.into_iter().find(|word| name.value.eq_ignore_ascii_case(word))
}

/// A float as the wider one.
fn widened(expr: Expr) -> Expr {
    match expr {
        Expr::Const(Datum::Float4(value)) => Expr::Const(Datum::Float8(f64::from(value))),
        Expr::Const(value) if !value.is_null() => Expr::Const(value),
        other => Expr::Cast(Box::new(other), SqlType::Float8),
    }
}

/// The word of a link that is not associative, as PostgreSQL's grammar has it, and whether the link
/// ends with an expression that the next one could belong to.
fn matched_by(link: &ast::Expr) -> Option<(&'static str, bool)> {
    match link {
        ast::Expr::Between { .. } => Some(("between", true)),
        ast::Expr::Like { .. } => Some(("like", true)),
        ast::Expr::ILike { .. } => Some(("ilike", true)),
        ast::Expr::InList { .. } | ast::Expr::InSubquery { .. } => Some(("in", false)),
        _ => None,
    }
}

/// What stands in front in an expression of which the rest is what follows it.
fn operand_of(node: &ast::Expr) -> Option<&ast::Expr> {
    match node {
        ast::Expr::InSubquery { expr, .. } if is_row(expr) => None,
        ast::Expr::AnyOp { left, .. } | ast::Expr::AllOp { left, .. } if is_row(left) => None,
        ast::Expr::InSubquery { expr, .. }
        | ast::Expr::Cast { expr, format: None, .. }
        | ast::Expr::Between { expr, .. }
        | ast::Expr::InList { expr, .. }
        | ast::Expr::Like { expr, .. }
        | ast::Expr::ILike { expr, .. }
        | ast::Expr::Collate { expr, .. }
        | ast::Expr::IsNull(expr)
        | ast::Expr::IsNotNull(expr)
        | ast::Expr::IsTrue(expr)
        | ast::Expr::IsNotTrue(expr)
        | ast::Expr::IsFalse(expr)
        | ast::Expr::IsNotFalse(expr)
        | ast::Expr::IsUnknown(expr)
        | ast::Expr::IsNotUnknown(expr)
        | ast::Expr::IsDistinctFrom(expr, _)
        | ast::Expr::IsNotDistinctFrom(expr, _)
        | ast::Expr::SimilarTo { expr, .. }
        | ast::Expr::AtTimeZone { timestamp: expr, .. }
        | ast::Expr::AnyOp { left: expr, .. }
        | ast::Expr::AllOp { left: expr, .. } => Some(expr),
        _ => None,
    }
}

/// `varchar` of no declared length if the common type of `values` is that: of several types of text
/// the first is it.
pub(crate) fn varchar_of(values: &[Typed]) -> Option<Modifier> {
    let mut known = values.iter().filter(|value| value.ty != SqlType::Unknown);
    known.next().is_some_and(Typed::is_varchar).then_some(Modifier::Varchar(0))
}

/// A number, of the type that its digits ask for.
pub(super) fn number(digits: &str) -> Result<Typed> {
    let value = literal::number(digits)?;
    let ty = value.type_of().unwrap_or(SqlType::Numeric);
    Ok(Typed::new(Expr::Const(value), ty))
}
