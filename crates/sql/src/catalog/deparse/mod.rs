//! Definitions as PostgreSQL tells them back: expressions with the casts of its analysis, in the
//! spelling of its `ruleutils.c`.
//!
//! A definition keeps the text that was written. Here it is parsed, analysed by PostgreSQL's rules
//! over PostgreSQL's catalogs and printed. Texts that older versions have kept are shown so, too,
//! and a column that is renamed needs no second text.
//!
//! | file | hides |
//! |---|---|
//! | `analyse`, `calls` | which casts an expression has |
//! | `choose` | which operators and functions it means |
//! | `tree` | the analysed expression |
//! | `print` | its text |
//! | `query`, `layout` | the query of a view; its lines |
//!
//! Invariants: the text means the same as the kept one; what is not known here has the kept one.
//! Does not do: what an expression gives, for which the binder has trees of its own.

mod analyse;
mod calls;
mod choose;
mod layout;
mod print;
mod query;
mod tree;

use rightlink::{ColumnSchema, TableInfo};
use sqlparser::ast;

use super::objects::{How, Objects};
use super::relations::{base_oid, type_oid};
use super::rules;
use super::type_objects::DomainObject;
use crate::names::{SearchPath, identifier};
use crate::notes::ColumnNotes;
use crate::notes::view::ViewSource;
use crate::parse;
use crate::types::declared::{Modifier, format_type};
use analyse::{Analyzer, Columns};
use choose::Types;
use tree::{ColumnName, Kind, Node, TypeRef};

/// How types are written.
type TypeText<'p> = &'p dyn Fn(TypeRef) -> String;

/// The columns that an expression can name.
#[derive(Clone, Copy)]
pub(super) enum Names<'o> {
    Nothing,
    Table(&'o TableInfo),
    /// The value of a domain.
    Domain(&'o DomainObject),
}

/// The names of a view's columns and its sources, beside its text.
#[derive(Clone, Copy)]
pub(super) struct View<'v> {
    pub(super) columns: &'v [String],
    pub(super) sources: &'v [ViewSource],
}

/// An expression that was analysed, and how it is to be shown.
pub(super) struct Shown {
    pub(super) text: String,
    /// Does an index take it without parentheses?
    pub(super) is_call: bool,
}

struct Scope<'o> {
    objects: &'o Objects,
    names: Names<'o>,
}

impl Columns for Scope<'_> {
    fn column(&self, parts: &[String]) -> Option<Node> {
        let name = parts.last()?;
        let (shown, column) = match (&self.names, parts) {
            (Names::Table(table), _) => {
                let column = rules::columns(table).find(|column| column.name == *name)?;
                (identifier(name), column)
            }
            (Names::Domain(domain), [name]) if name == "value" => {
                ("VALUE".to_owned(), &domain.column)
            }
            _ => return None,
        };
        let notes = ColumnNotes::decode(&column.note);
        let modifier = match notes.domain {
            Some(_) => -1,
            None => notes.modifier.map_or(-1, Modifier::number),
        };
        let oid = type_oid(column, &notes, self.objects);
        let column = ColumnName { text: shown, name: name.clone() };
        Node::new(Kind::Column(column), TypeRef { oid, modifier })
    }
}

impl Objects {
    /// The name of a type as an expression has it, by a path.
    fn type_text(&self, ty: TypeRef, path: &SearchPath) -> String {
        let made = || self.shown_type(ty.oid, path);
        format_type(ty.oid, Some(ty.modifier)).or_else(made).unwrap_or_else(|| "???".to_owned())
    }

    /// The text of an expression that was kept, in PostgreSQL's spelling; `None` where that is not
    /// known.
    pub(super) fn deparsed(&self, text: &str, names: Names<'_>, how: How<'_>) -> Option<Shown> {
        let scope = Scope { objects: self, names };
        let node = parse::expression(text).ok()?;
        let analyzer = Analyzer::new(Types(self, how.path), &scope, 0);
        self.printed(&analyzer.expr(&node)?, how)
    }

    /// The expression that a column of a table is generated from, in PostgreSQL's spelling.
    pub(super) fn deparsed_generation(
        &self,
        text: &str,
        table: &TableInfo,
        column: &ColumnSchema,
        how: How<'_>,
    ) -> Option<String> {
        let notes = ColumnNotes::decode(&column.note);
        // PostgreSQL has no parentheses below the cast to a domain.
        let to = TypeRef {
            oid: base_oid(column, &notes, self),
            modifier: notes.modifier.map_or(-1, Modifier::number),
        };
        let scope = Scope { objects: self, names: Names::Table(table) };
        let analyzer = Analyzer::new(Types(self, how.path), &scope, 0);
        let value = analyzer.expr(&parse::expression(text).ok()?)?;
        Some(self.printed(&analyzer.assigned(value, to)?, how)?.text)
    }

    /// The columns of a table that an expression names; `None` where that is not known.
    pub(super) fn named_columns(&self, text: &str, table: &TableInfo) -> Option<Vec<String>> {
        let scope = Scope { objects: self, names: Names::Table(table) };
        let node = parse::expression(text).ok()?;
        let (mut found, path) = (Vec::new(), SearchPath::default());
        let types = Types(self, &path);
        Analyzer::new(types, &scope, 0).expr(&node)?.add_columns(&mut found);
        Some(found)
    }

    /// The same of several between commas, as catalogs have the expressions of an index.
    pub(super) fn deparsed_list(
        &self,
        text: &str,
        names: Names<'_>,
        how: How<'_>,
    ) -> Option<String> {
        let scope = Scope { objects: self, names };
        let ast::Expr::Tuple(nodes) = parse::expression(&format!("({text})")).ok()? else {
            return None;
        };
        let analyzer = Analyzer::new(Types(self, how.path), &scope, 0);
        let shown = nodes.iter().map(|node| Some(self.printed(&analyzer.expr(node)?, how)?.text));
        Some(shown.collect::<Option<Vec<_>>>()?.join(", "))
    }

    fn printed(&self, node: &Node, how: How<'_>) -> Option<Shown> {
        let types = |ty| self.type_text(ty, how.path);
        let text = print::expression(node, how.is_pretty, &types);
        // Of a literal alone the text does not tell the type.
        (!node.is_unknown()).then(|| Shown { text, is_call: print::looks_like_call(node) })
    }

    /// The query of a view in PostgreSQL's layout. In the text types and sequences are named by the
    /// path of those who set none. `None` where the layout is not known.
    pub(super) fn deparsed_view(&self, text: &str, view: View<'_>, how: How<'_>) -> Option<String> {
        let parsed = parse::view::kept_query(text).ok()?;
        let query = query::Level::new(self, how.path, view.sources).query_of(&parsed.query)?;
        let types = |ty| self.type_text(ty, how.path);
        (query.columns.len() == view.columns.len())
            .then(|| layout::view(&query, view.columns, how.is_pretty, &types))
    }
}
