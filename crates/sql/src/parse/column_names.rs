//! PostgreSQL's name of a column for which a query says none.
//!
//! Does not do: names that a query says, names of the columns of `*`.

use sqlparser::ast;
use sqlparser::tokenizer::Span;

use crate::error::Result;
use crate::parse::identifiers::{self, TypeNames};
use crate::types::SqlType;
use crate::types::declared::Declared;

/// PostgreSQL's name of a column of this expression.
pub(crate) fn name_of(expr: &ast::Expr) -> String {
    strong_name(expr).or_else(|| weak_name(expr)).unwrap_or_else(|| "?column?".to_owned())
}

fn strong_name(expr: &ast::Expr) -> Option<String> {
    let fixed = match expr {
        ast::Expr::Identifier(name) => return Some(identifiers::ident(name)),
        ast::Expr::CompoundIdentifier(path) => return path.last().map(identifiers::ident),
        ast::Expr::Nested(inner) | ast::Expr::Collate { expr: inner, .. } => {
            return strong_name(inner);
        }
        ast::Expr::Cast { expr: inner, .. } => return strong_name(inner),
        ast::Expr::Function(call) => return identifiers::parts(&call.name).ok()?.pop(),
        ast::Expr::Extract { .. } => "extract",
        ast::Expr::Ceil { .. } => "ceil",
        ast::Expr::Floor { .. } => "floor",
        ast::Expr::Position { .. } => "position",
        ast::Expr::Substring { shorthand: true, .. } => "substr",
        ast::Expr::Substring { .. } => "substring",
        ast::Expr::Overlay { .. } => "overlay",
        ast::Expr::AtTimeZone { .. } => "timezone",
        ast::Expr::Trim { trim_where, .. } => match trim_where {
            Some(ast::TrimWhereField::Leading) => "ltrim",
            Some(ast::TrimWhereField::Trailing) => "rtrim",
            _ => "btrim",
        },
        ast::Expr::Case { else_result: Some(rest), .. } => return strong_name(rest),
        ast::Expr::Exists { negated: false, .. } => "exists",
        ast::Expr::Array(_) => "array",
        ast::Expr::Tuple(_) => "row",
        ast::Expr::BinaryOp { op: ast::BinaryOperator::Overlaps, .. } => "overlaps",
        ast::Expr::CompoundFieldAccess { root, access_chain } => {
            let named = access_chain.iter().rev().find_map(|access| match access {
                ast::AccessExpr::Dot(ast::Expr::Identifier(name)) => Some(identifiers::ident(name)),
                _ => None,
            });
            return named.or_else(|| strong_name(root));
        }
        ast::Expr::Subquery(query) => return name_of_query(query),
        _ => return None,
    };
    Some(fixed.to_owned())
}

/// The name of the one column of a query.
fn name_of_query(query: &ast::Query) -> Option<String> {
    let ast::SetExpr::Select(select) = query.body.as_ref() else { return None };
    match select.projection.first()? {
        ast::SelectItem::UnnamedExpr(expr) => Some(name_of(expr)),
        ast::SelectItem::ExprWithAlias { alias, .. } => Some(identifiers::ident(alias)),
        _ => None,
    }
}

/// Names of types alone.
struct OnlyNames(Option<String>);

impl TypeNames for OnlyNames {
    fn type_named(&mut self, parts: &[String], _: Span) -> Result<Option<Declared>> {
        self.0 = parts.last().cloned();
        Ok(None)
    }
}

/// The name that a cast to a type gives a column: an array has that of its elements.
fn name_of_type(kind: &ast::DataType) -> Option<String> {
    let mut made = OnlyNames(None);
    let known = identifiers::data_type(kind, &mut made).ok();
    let element = |ty: SqlType| ty.element().unwrap_or(ty).short_name().to_owned();
    known.map(|declared| element(declared.ty)).or(made.0)
}

/// A name that a name from deeper inside takes precedence over.
fn weak_name(expr: &ast::Expr) -> Option<String> {
    match expr {
        ast::Expr::Nested(inner) => weak_name(inner),
        ast::Expr::Cast { expr: inner, data_type, .. } => {
            weak_name(inner).filter(|name| name == "case").or_else(|| name_of_type(data_type))
        }
        ast::Expr::TypedString(typed) => name_of_type(&typed.data_type),
        ast::Expr::Interval(_) => Some("interval".to_owned()),
        ast::Expr::Case { .. } => Some("case".to_owned()),
        _ => None,
    }
}
