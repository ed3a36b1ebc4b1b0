//! Lists of SELECT and RETURNING: what is shown, and what it is called.
//!
//! Invariants: an item without a name is called as PostgreSQL calls it.
//! Does not do: order.

use sqlparser::ast::{self, SelectItem, SelectItemQualifiedWildcardKind, Spanned};
use sqlparser::tokenizer::Span;

use super::Binder;
use super::records::nested_star;
use super::scope::ScopeColumn;
use crate::error::{Result, SqlError, code};
use crate::expr::Typed;
use crate::parse::column_names::name_of;
use crate::parse::cursor::NO_COLUMNS;
use crate::parse::identifiers;
use crate::parse::stars::starred;
use crate::plan::{Column, Returning};
use crate::types::SqlType;

/// Most columns of a result, as in PostgreSQL: their number has 16 bits on the wire.
const MAX_COLUMNS: usize = 1_664;

/// Fails if a result has too many columns.
pub(crate) fn check_width(columns: usize) -> Result<()> {
    if columns <= MAX_COLUMNS {
        return Ok(());
    }
    let message = format!("target lists can have at most {MAX_COLUMNS} entries");
    Err(SqlError::new(code::TOO_MANY_COLUMNS, message))
}

/// An item of a list.
pub(crate) struct Target {
    pub(crate) value: Typed,
    pub(crate) name: String,
}

impl Target {
    /// The column of the result that it is.
    pub(crate) fn column(&self) -> Column {
        Column {
            name: self.name.clone(),
            ty: self.value.ty,
            modifier: self.value.modifier,
            collation: self.value.collated.of_result(),
            origin: self.value.source(),
        }
    }
}

impl Binder<'_> {
    /// Binds a list.
    pub(crate) fn targets(&mut self, items: &[SelectItem]) -> Result<Vec<Target>> {
        check_width(items.len())?;
        let mut targets = Vec::with_capacity(items.len());
        for item in items {
            // To PostgreSQL the parentheses around `t.*` mean nothing, and an alias of it neither.
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
                && let Some(name) = nested_star(expr)
            {
                self.star_of(name, None, &mut targets)?;
                continue;
            }
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
                && let Some(row) = starred(expr)
            {
                let fields = self.fields_of(&row)?.into_iter();
                targets.extend(fields.map(|(name, value)| Target { value, name }));
                continue;
            }
            match item {
                SelectItem::UnnamedExpr(ast::Expr::Identifier(name))
                    if name.value == NO_COLUMNS => {}
                SelectItem::UnnamedExpr(expr) => {
                    let name = name_of(expr);
                    targets.push(Target { value: self.expr(expr)?, name });
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    identifiers::check_alias(alias)
                        .map_err(|e| e.at(self.lines.position(alias.span)))?;
                    targets
                        .push(Target { value: self.expr(expr)?, name: identifiers::ident(alias) });
                }
                SelectItem::Wildcard(options) => {
                    if self.scope.shown.is_empty() && self.scope.relations.is_empty() {
                        return Err(SqlError::syntax(
                            "SELECT * with no tables specified is not valid",
                        ));
                    }
                    let written = self.star_in_view(None, &self.scope.shown);
                    star(&self.scope.shown, &mut targets);
                    self.note_star(Some(options.wildcard_token.0.span), written);
                }
                SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(name),
                    options,
                ) => {
                    let span = name.span().union(&options.wildcard_token.0.span);
                    self.star_of(name, Some(span), &mut targets)?;
                }
                other => return Err(SqlError::unsupported(format!("the select item {other}"))),
            }
        }
        check_width(targets.len())?;
        Ok(targets)
    }

    /// The columns of the source that `t.*` names. `span`: where it stands without parentheses,
    /// which would make one row of the columns.
    fn star_of(
        &mut self,
        name: &ast::ObjectName,
        span: Option<Span>,
        targets: &mut Vec<Target>,
    ) -> Result<()> {
        let relation = self.source_named(name)?;
        let parts = identifiers::parts(name)?;
        let written = self.star_in_view(Some(&parts), &relation.columns);
        star(&relation.columns, targets);
        self.note_star(span, written);
        Ok(())
    }

    /// A target that nothing gave a type is text.
    pub(crate) fn settle(&mut self, value: Typed) -> Result<Typed> {
        if value.ty != SqlType::Unknown {
            return Ok(value);
        }
        let (position, collated) = (value.position, value.collated.clone());
        let expr = self.coerce(value, SqlType::Text)?;
        Ok(Typed { collated, ..Typed::new(expr, SqlType::Text).at(position) })
    }

    /// Binds RETURNING over the scope.
    pub(crate) fn returning(&mut self, items: Option<&[SelectItem]>) -> Result<Option<Returning>> {
        let Some(items) = items else { return Ok(None) };
        let mut output = Vec::with_capacity(items.len());
        let mut columns = Vec::with_capacity(items.len());
        for target in self.targets(items)? {
            let target = Target { value: self.settle(target.value)?, ..target };
            columns.push(target.column());
            output.push(target.value.expr);
        }
        Ok(Some(Returning { output, columns }))
    }
}

/// What `*` stands for.
fn star(columns: &[ScopeColumn], targets: &mut Vec<Target>) {
    let shown = columns.iter().filter(|column| !column.hidden);
    targets.extend(shown.map(|c| Target { value: c.value(), name: c.name.clone() }));
}
