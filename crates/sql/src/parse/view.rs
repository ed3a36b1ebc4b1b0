//! Statements about views that sqlparser does not know, spelled as ones that it does, and the
//! queries that are kept of views.
//!
//! - WITH CHECK OPTION behind the query becomes the option `check_option` in front of it.
//! - ALTER VIEW and ALTER MATERIALIZED VIEW become ALTER TABLE with a mark.
//! - WITH NO DATA behind the query of a materialized view becomes a mark.
//!
//! The columns of a view are called as its query calls them ([`with_names`]).
//!
//! Invariants: what is kept of a view has at most [`MAX_VIEW_DEPTH`] levels.
//! Does not do: what options mean (`bind::ddl::view`).

use sqlparser::ast::{self, CreateTableOptions, SqlOption};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::cursor::{Cursor, is};
use super::{
    Lines, depth, frame, grouping, identifiers, kept_tokens, replaced, run, tokens, too_complex,
};
use crate::error::{Result, SqlError, code};
use crate::names::identifier;

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

/// What ALTER says that a relation is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Said {
    Table,
    View,
    MaterializedView,
}

impl Said {
    /// As statements and messages have it.
    pub(crate) const fn noun(self) -> &'static str {
        match self {
            Said::Table => "table",
            Said::View => "view",
            Said::MaterializedView => "materialized view",
        }
    }

    /// The tag of ALTER.
    pub(crate) const fn altered(self) -> &'static str {
        match self {
            Said::Table => "ALTER TABLE",
            Said::View => "ALTER VIEW",
            Said::MaterializedView => "ALTER MATERIALIZED VIEW",
        }
    }
}

/// What was taken out of a statement about a view.
#[derive(Debug, PartialEq)]
pub(crate) enum AboutView {
    Nothing,
    /// WITH CHECK OPTION, and which.
    Checks(&'static str),
    /// ALTER VIEW.
    Alters,
    /// ALTER MATERIALIZED VIEW.
    AltersMaterialized,
    /// WITH NO DATA.
    WithoutData,
}

impl Cursor {
    /// Takes what sqlparser does not know out of a statement about a view.
    pub(crate) fn about_view(&mut self) -> Result<AboutView> {
        if self.is("alter") && self.is_at(1, "view") {
            self.respell(1, "TABLE");
            return Ok(AboutView::Alters);
        }
        if self.is("alter") && self.is_at(1, "materialized") && self.is_at(2, "view") {
            self.respell(2, "TABLE");
            self.take_out(1);
            return Ok(AboutView::AltersMaterialized);
        }
        if self.is("create") && self.is_at(1, "unlogged") && self.is_at(2, "materialized") {
            let message = "materialized views cannot be unlogged";
            return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
        }
        if self.is("create") && self.is_at(1, "materialized") {
            return Ok(self.without_data());
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
        if self.is("create") && self.is_at(ahead, "materialized") {
            let before = ["create", "or", "replace", "temp", "temporary"];
            while self.take_any(&before).is_some() {}
            return Err(self.unexpected());
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

    /// Takes WITH DATA or WITH NO DATA from the end.
    fn without_data(&mut self) -> AboutView {
        let end = self.left();
        let ends = |words: &[&str]| {
            let from = end.checked_sub(words.len());
            from.is_some_and(|from| words.iter().zip(from..).all(|(word, at)| self.is_at(at, word)))
        };
        if ends(&["with", "no", "data"]) {
            self.cut_off(3);
            return AboutView::WithoutData;
        }
        if ends(&["with", "data"]) {
            self.cut_off(2);
        }
        AboutView::Nothing
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
        (AboutView::AltersMaterialized, ast::Statement::AlterTable(alter)) => {
            alter.table_type = Some(ast::AlterTableType::Dynamic);
        }
        (AboutView::WithoutData, ast::Statement::CreateView(create)) => {
            // This one, too.
            create.with_no_schema_binding = true;
        }
        _ => {}
    }
}

/// The kind of relation that a statement which became ALTER TABLE named.
pub(crate) fn altered_kind(alter: &ast::AlterTable) -> Said {
    match alter.table_type {
        Some(ast::AlterTableType::External) => Said::View,
        Some(ast::AlterTableType::Dynamic) => Said::MaterializedView,
        _ => Said::Table,
    }
}

/// A query as it is kept of a view.
pub(crate) fn kept_query(text: &str) -> Result<KeptQuery> {
    query_of(kept_tokens(text)?, text)
}

/// What the body of a function is.
pub(crate) enum FunctionBody {
    Empty,
    Query(KeptQuery),
    /// Several statements, or one that is no query.
    Statements,
}

/// Reads the body of a function, as far as it is one query.
pub(crate) fn function_body(text: &str) -> Result<FunctionBody> {
    let tokens = kept_tokens(text)?;
    let mut statements = tokens.split(|token| token.token == Token::SemiColon);
    let one = statements.by_ref().find(|one| !one.is_empty());
    let Some(one) = one else { return Ok(FunctionBody::Empty) };
    let is_query = ["select", "values", "with", "table"].iter().any(|word| is(&one[0].token, word));
    match statements.all(<[_]>::is_empty) && (is_query || one[0].token == Token::LParen) {
        true => query_of(one.to_vec(), text).map(FunctionBody::Query),
        false => Ok(FunctionBody::Statements),
    }
}

fn query_of(tokens: Vec<TokenWithSpan>, text: &str) -> Result<KeptQuery> {
    let lines = Lines::of(text);
    let depth = depth::of(&tokens) + OF_VIEW;
    if depth > MAX_VIEW_DEPTH {
        return Err(too_complex());
    }
    let query = run(tokens, &lines, |parser| parser.parse_query())?;
    Ok(KeptQuery { query, depth })
}

/// The text that is kept of the query of a view. It is SQL that every reader knows: what stands for
/// clauses that sqlparser does not read is spelled as these clauses again.
pub(crate) fn kept_text(query: &ast::Query) -> Result<String> {
    let text = query.to_string();
    let tokens = tokens(&text)?;
    let mut edits = frame::unmarked(&tokens);
    edits.extend(grouping::unmarked(&tokens).into_iter().map(|(span, text)| (span, text.into())));
    edits.extend(
        super::stars::unmarked(&tokens).into_iter().map(|(span, text)| (span, text.into())),
    );
    edits.sort_by_key(|(span, _)| span.start);
    Ok(replaced(&text, &edits))
}

/// The query of a view whose columns it calls `before`, with `names` for them.
pub(crate) fn with_names(text: &str, before: &[String], names: &[String]) -> Result<String> {
    let mut query = kept_query(text)?.query;
    if rename_columns(&mut query, before, names) {
        return kept_text(&query);
    }
    let names: Vec<String> = names.iter().map(|name| identifier(name)).collect();
    let names = names.join(", ");
    Ok(format!("SELECT {names} FROM ({text}) AS renamed ({names})"))
}

/// Gives the columns of a query these names in its list. False if it has no list, or if that could
/// change what the query means: then it stays as it is.
fn rename_columns(query: &mut ast::Query, before: &[String], names: &[String]) -> bool {
    let is_same = before == names;
    let captures = |name: &String| !before.contains(name) && names.contains(name);
    if !is_same && order_names(query).iter().any(|one| captures(&one.name)) {
        return false;
    }
    let select = first_select(&mut query.body).filter(|one| one.projection.len() == names.len());
    let Some(select) = select else { return is_same };
    if !is_same && names_own_list(select, before, names) {
        return false;
    }
    for (item, name) in select.projection.iter_mut().zip(names) {
        call(item, name);
    }
    for OrderName { name, item } in order_names(query) {
        let at = before.iter().position(|known| *known == name);
        if let Some(at) = at.filter(|at| before[*at] != names[*at]) {
            item.expr = ast::Expr::value(ast::Value::Number((at + 1).to_string(), false));
        }
    }
    true
}

/// An item of ORDER BY that is a name.
struct OrderName<'q> {
    name: String,
    item: &'q mut ast::OrderByExpr,
}

fn order_names<'q>(query: &'q mut ast::Query) -> Vec<OrderName<'q>> {
    let Some(ast::OrderBy { kind: ast::OrderByKind::Expressions(items), .. }) = &mut query.order_by
    else {
        return Vec::new();
    };
    let named = |item: &'q mut ast::OrderByExpr| match &item.expr {
        ast::Expr::Identifier(name) => Some(OrderName { name: identifiers::ident(name), item }),
        _ => None,
    };
    items.iter_mut().filter_map(named).collect()
}

/// The SELECT whose list names the columns of a query.
fn first_select(body: &mut ast::SetExpr) -> Option<&mut ast::Select> {
    let mut body = body;
    loop {
        match body {
            ast::SetExpr::Select(select) => return Some(select),
            ast::SetExpr::SetOperation { left, .. } => body = left,
            _ => return None,
        }
    }
}

/// May clauses of a SELECT, but for ORDER BY, name items of its list that get other names?
fn names_own_list(select: &ast::Select, before: &[String], names: &[String]) -> bool {
    if matches!(select.distinct, Some(ast::Distinct::On(_))) {
        return true;
    }
    let ast::GroupByExpr::Expressions(keys, _) = &select.group_by else { return true };
    let changes = |key: &ast::Ident| {
        let key = identifiers::ident(key);
        let mut items = select.projection.iter().zip(before.iter().zip(names));
        items.any(|(item, (old, new))| {
            *old == key && old != new && column_of(item) != Some(key.clone())
        })
    };
    keys.iter().any(|key| match key {
        ast::Expr::Identifier(name) => changes(name),
        ast::Expr::Nested(_)
        | ast::Expr::Tuple(_)
        | ast::Expr::Rollup(_)
        | ast::Expr::Cube(_)
        | ast::Expr::GroupingSets(_) => true,
        _ => false,
    })
}

/// The name of the column that an item of a list is.
fn column_of(item: &ast::SelectItem) -> Option<String> {
    match item {
        ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. } => {
            match expr {
                ast::Expr::Identifier(own) => Some(identifiers::ident(own)),
                ast::Expr::CompoundIdentifier(path) => path.last().map(identifiers::ident),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Gives an item of a list a name, unless it is a column of that name.
fn call(item: &mut ast::SelectItem, name: &str) {
    let own = column_of(item);
    let (ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. }) = item
    else {
        return;
    };
    let expr = std::mem::replace(expr, ast::Expr::value(ast::Value::Null));
    let quote_style = (identifier(name) != name).then_some('"');
    let alias = ast::Ident { quote_style, ..ast::Ident::new(name) };
    *item = match own.as_deref() == Some(name) {
        true => ast::SelectItem::UnnamedExpr(expr),
        false => ast::SelectItem::ExprWithAlias { expr, alias },
    };
}
