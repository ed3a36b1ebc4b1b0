//! Statements about views that sqlparser does not know, spelled as ones that it does, and the
//! queries that are kept of views.
//!
//! - WITH CHECK OPTION behind the query becomes the option `check_option` in front of it.
//! - ALTER VIEW becomes ALTER TABLE with a mark.
//!
//! Invariants: what is kept of a view has at most [`MAX_VIEW_DEPTH`] levels.
//! Does not do: what options mean (`bind::ddl::view`).

use sqlparser::ast::{self, CreateTableOptions, SqlOption};

use super::cursor::Cursor;
use super::{Lines, depth, kept_tokens, run, too_complex};
use crate::error::{Result, SqlError};

/// The option that says whether rows which are written through a view must be in it.
pub(crate) const CHECK_OPTION: &str = "check_option";

/// Most levels of the query of a view, with those of the views that it reads: a message that names
/// the view may be short.
pub(crate) const MAX_VIEW_DEPTH: usize = 250;

/// Levels that a view counts for whatever its query is.
const OF_VIEW: usize = 5;

/// The query of a view, read again.
pub(crate) struct KeptQuery {
    pub(crate) query: Box<ast::Query>,
    /// Levels that it counts for.
    pub(crate) depth: usize,
}

/// What was taken out of a statement about a view.
#[derive(Debug, PartialEq)]
pub(crate) enum AboutView {
    Nothing,
    /// WITH CHECK OPTION, and which.
    Checks(&'static str),
    /// ALTER VIEW.
    Alters,
}

impl Cursor {
    /// Takes what sqlparser does not know out of a statement about a view.
    pub(crate) fn about_view(&mut self) -> Result<AboutView> {
        if self.is("alter") && self.is_at(1, "view") {
            self.respell(1, "TABLE");
            return Ok(AboutView::Alters);
        }
        let mut ahead = 1;
        if self.is_at(1, "or") && self.is_at(2, "replace") {
            ahead = 3;
        }
        let is_kind =
            |at: usize| ["temp", "temporary", "recursive"].iter().any(|word| self.is_at(at, word));
        while self.is("create") && is_kind(ahead) {
            if self.is_at(ahead, "recursive") {
                return Err(SqlError::unsupported("CREATE RECURSIVE VIEW"));
            }
            ahead += 1;
        }
        if !self.is("create") || !self.is_at(ahead, "view") {
            return Ok(AboutView::Nothing);
        }
        let end = self.left();
        if end < 6 || !self.is_at(end - 2, "check") || !self.is_at(end - 1, "option") {
            return Ok(AboutView::Nothing);
        }
        let (which, words) = match () {
            () if self.is_at(end - 3, "local") => ("local", 4),
            () if self.is_at(end - 3, "cascaded") => ("cascaded", 4),
            () => ("cascaded", 3),
        };
        if !self.is_at(end - words, "with") {
            return Ok(AboutView::Nothing);
        }
        self.cut_off(words);
        Ok(AboutView::Checks(which))
    }
}

/// Puts into the statement what was taken out of its tokens.
pub(super) fn put_back(statement: &mut ast::Statement, what: AboutView) {
    match (what, statement) {
        (AboutView::Checks(which), ast::Statement::CreateView(create)) => {
            let value = ast::Expr::value(ast::Value::SingleQuotedString(which.to_owned()));
            let option = SqlOption::KeyValue { key: ast::Ident::new(CHECK_OPTION), value };
            match &mut create.options {
                CreateTableOptions::With(options) => options.push(option),
                other => *other = CreateTableOptions::With(vec![option]),
            }
        }
        (AboutView::Alters, ast::Statement::AlterTable(alter)) => {
            // A place that this dialect has no other use for.
            alter.table_type = Some(ast::AlterTableType::External);
        }
        _ => {}
    }
}

/// Does ALTER TABLE stand for ALTER VIEW?
pub(crate) fn alters_view(alter: &ast::AlterTable) -> bool {
    alter.table_type.is_some()
}

/// A query as it is kept of a view.
pub(crate) fn kept_query(text: &str) -> Result<KeptQuery> {
    let (lines, tokens) = (Lines::of(text), kept_tokens(text)?);
    let depth = depth::of(&tokens) + OF_VIEW;
    if depth > MAX_VIEW_DEPTH {
        return Err(too_complex());
    }
    let query = run(tokens, &lines, |parser| parser.parse_query())?;
    Ok(KeptQuery { query, depth })
}
