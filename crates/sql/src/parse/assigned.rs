//! Subscripts behind the names of columns that are assigned to, which sqlparser does not read.
//!
//! Before sqlparser reads a statement, the subscripts of its targets are taken out and read by
//! themselves. A mark stands for them, as a last part of the column's name. Behind sqlparser they
//! take the place of the mark, as the argument of a part that is a function.
//!
//! Targets are the columns of SET, in parentheses too, and those that INSERT names.
//!
//! Invariants: no text has the character that a mark begins with; positions are those of the text.
//! Does not do: what subscripts mean (`bind::elements`).

use sqlparser::ast::{
    self, AccessExpr, AssignmentTarget, FunctionArg, FunctionArgExpr, ObjectName, ObjectNamePart,
    ObjectNamePartFunction, OnConflictAction, OnInsert, SetExpr,
};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::cursor::is;
use super::{Lines, identifiers, run};
use crate::error::{Result, SqlError, code};

/// In front of the number of what was taken out.
const MARK: char = '\u{1}';

/// Most targets with subscripts, which is PostgreSQL's bound for all targets: assignments to one
/// column nest.
const MAX_TARGETS: usize = 1_664;

/// Subscripts behind one name.
type Subscripts = Vec<AccessExpr>;

/// A column that is assigned to.
pub(crate) struct Assigned<'n> {
    /// Its name.
    pub(crate) parts: Vec<String>,
    /// Those behind it; none: the column is assigned to as a whole.
    pub(crate) subscripts: &'n [AccessExpr],
}

/// The column that a name in SET or INSERT means.
pub(crate) fn assigned(name: &ObjectName) -> Result<Assigned<'_>> {
    if let [parts @ .., ObjectNamePart::Function(function)] = name.0.as_slice()
        && let [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] = function.args.as_slice()
        && let ast::Expr::CompoundFieldAccess { access_chain, .. } = argument
    {
        let parts = identifiers::parts(&ObjectName(parts.to_vec()))?;
        return Ok(Assigned { parts, subscripts: access_chain });
    }
    Ok(Assigned { parts: identifiers::parts(name)?, subscripts: &[] })
}

/// What stands between two parentheses or brackets.
#[derive(Clone, Copy, Default, PartialEq)]
enum List {
    #[default]
    Other,
    /// An UPDATE whose SET has not come.
    Update,
    /// Assignments of SET.
    Set,
    /// Columns.
    Columns,
}

/// Takes the subscripts behind targets out of a statement.
pub(super) fn take(tokens: &mut Vec<TokenWithSpan>, lines: &Lines) -> Result<Vec<Subscripts>> {
    let mut taken = Vec::new();
    if !tokens.iter().any(|token| token.token == Token::LBracket) {
        return Ok(taken);
    }
    let (mut around, mut list) = (Vec::new(), List::Other);
    // Where the columns of an INSERT begin.
    let mut columns = None;
    let mut at = 0;
    while at < tokens.len() {
        let begins = at == 0 || matches!(tokens[at - 1].token, Token::LParen | Token::RParen);
        // Does an item of the list begin behind this token?
        let mut is_before_item = false;
        match &tokens[at].token {
            Token::LParen | Token::LBracket => {
                let is_tuple = list == List::Set && is_item(tokens, at);
                around.push(list);
                is_before_item = is_tuple || columns == Some(at);
                list = if is_before_item { List::Columns } else { List::Other };
            }
            Token::RParen | Token::RBracket => list = around.pop().unwrap_or_default(),
            Token::Comma => is_before_item = matches!(list, List::Set | List::Columns),
            word if is(word, "update") && begins => list = List::Update,
            word if is(word, "insert") && begins => columns = columns_of_insert(tokens, at),
            word if is(word, "set") && is_set(tokens, at, list) => {
                (list, is_before_item) = (List::Set, true);
            }
            word if list == List::Set && (is(word, "where") || is(word, "returning")) => {
                list = List::Other;
            }
            _ => {}
        }
        at += 1;
        if is_before_item && let Some((from, to)) = subscripts(tokens, at, list) {
            if taken.len() == MAX_TARGETS {
                let message = format!("target lists can have at most {MAX_TARGETS} entries");
                return Err(SqlError::new(code::TOO_MANY_COLUMNS, message));
            }
            let span = tokens[from].span;
            let number = Token::make_word(&format!("{MARK}{}", taken.len()), Some('"'));
            let mark = [Token::Period, number].map(|token| TokenWithSpan { token, span });
            let chain: Vec<TokenWithSpan> = tokens.splice(from..to, mark).collect();
            taken.push(run(chain, lines, |parser| {
                let mut chain = Vec::new();
                parser.parse_multi_dim_subscript(&mut chain)?;
                Ok(chain)
            })?);
        }
    }
    Ok(taken)
}

/// Does an item of SET begin here?
fn is_item(tokens: &[TokenWithSpan], at: usize) -> bool {
    at > 0 && (tokens[at - 1].token == Token::Comma || is(&tokens[at - 1].token, "set"))
}

/// Is the word SET the one behind which assignments stand?
fn is_set(tokens: &[TokenWithSpan], at: usize, list: List) -> bool {
    let before = |back: usize, word: &str| {
        at.checked_sub(back).is_some_and(|place| is(&tokens[place].token, word))
    };
    // A table and its alias may have this name.
    let is_name = before(1, "update") || before(1, "only") || before(1, "as");
    let is_part = at > 0 && tokens[at - 1].token == Token::Period;
    before(1, "update") && before(2, "do") || list == List::Update && !is_name && !is_part
}

/// Where the parenthesis stands behind which INSERT names columns; none if it names none.
fn columns_of_insert(tokens: &[TokenWithSpan], insert: usize) -> Option<usize> {
    let token = |at: usize| tokens.get(at).map(|token| &token.token);
    if !token(insert + 1).is_some_and(|token| is(token, "into")) {
        return None;
    }
    let mut at = insert + 3;
    while token(at) == Some(&Token::Period) {
        at += 2;
    }
    if token(at).is_some_and(|token| is(token, "as")) {
        at += 2;
    }
    // Behind the parenthesis of a query stands no name that ends there.
    let ends_name = matches!(
        token(at + 2),
        Some(Token::Comma | Token::RParen | Token::LBracket | Token::Period)
    );
    let is_list = token(at) == Some(&Token::LParen) && is_name(token(at + 1)) && ends_name;
    is_list.then_some(at)
}

fn is_name(token: Option<&Token>) -> bool {
    matches!(token, Some(Token::Word(_)))
}

/// Where the subscripts behind the name of a target begin and end, if one begins at `at`.
fn subscripts(tokens: &[TokenWithSpan], at: usize, list: List) -> Option<(usize, usize)> {
    let token = |at: usize| tokens.get(at).map(|token| &token.token);
    let mut from = at + 1;
    while token(from) == Some(&Token::Period) && is_name(token(from + 1)) {
        from += 2;
    }
    if !is_name(token(at)) || token(from) != Some(&Token::LBracket) {
        return None;
    }
    let (mut to, mut depth) = (from, 0usize);
    while depth > 0 || token(to) == Some(&Token::LBracket) {
        match token(to)? {
            Token::LBracket => depth += 1,
            Token::RBracket => depth -= 1,
            _ => {}
        }
        to += 1;
    }
    let is_target = matches!(
        (list, token(to)),
        (List::Set, Some(Token::Eq)) | (List::Columns, Some(Token::Comma | Token::RParen))
    );
    is_target.then_some((from, to))
}

/// Puts what was taken out into the targets of a statement.
pub(super) fn put_back(statement: &mut ast::Statement, taken: &mut [Subscripts]) {
    if taken.is_empty() {
        return;
    }
    match statement {
        ast::Statement::Query(query) => {
            for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
                in_body(&mut cte.query.body, taken);
            }
            in_body(&mut query.body, taken);
        }
        ast::Statement::Update(update) => in_assignments(&mut update.assignments, taken),
        ast::Statement::Insert(insert) => {
            insert.columns.iter_mut().for_each(|name| in_name(name, taken));
            if let Some(OnInsert::OnConflict(conflict)) = &mut insert.on
                && let OnConflictAction::DoUpdate(update) = &mut conflict.action
            {
                in_assignments(&mut update.assignments, taken);
            }
        }
        _ => {}
    }
}

fn in_body(body: &mut SetExpr, taken: &mut [Subscripts]) {
    if let SetExpr::Update(statement) | SetExpr::Insert(statement) = body {
        put_back(statement, taken);
    }
}

fn in_assignments(assignments: &mut [ast::Assignment], taken: &mut [Subscripts]) {
    for assignment in assignments {
        match &mut assignment.target {
            AssignmentTarget::ColumnName(name) => in_name(name, taken),
            AssignmentTarget::Tuple(names) => {
                names.iter_mut().for_each(|name| in_name(name, taken));
            }
        }
    }
}

fn in_name(name: &mut ObjectName, taken: &mut [Subscripts]) {
    let Some(last) = name.0.last_mut() else { return };
    let ObjectNamePart::Identifier(mark) = last else { return };
    let number = mark.value.strip_prefix(MARK).and_then(|number| number.parse::<usize>().ok());
    let Some(chain) = number.and_then(|number| taken.get_mut(number)) else { return };
    let root = Box::new(ast::Expr::value(ast::Value::Null));
    let access_chain = std::mem::take(chain);
    let subscripts = ast::Expr::CompoundFieldAccess { root, access_chain };
    let args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(subscripts))];
    *last = ObjectNamePart::Function(ObjectNamePartFunction { name: mark.clone(), args });
}

#[cfg(test)]
mod tests {
    use crate::parse::{Stmt, parse};

    /// The statement as it is printed, with marks in front of subscripts.
    fn printed(text: &str) -> String {
        let parsed = parse(text, usize::MAX).unwrap().pop().unwrap();
        let Stmt::Sql(statement) = parsed.stmt else { panic!("{text}") };
        let printed = statement.to_string().replace('\u{1}', "$").replace(" SETTINGS ", "");
        printed.replace("\"(NULL", "").replace('"', "")
    }

    #[test]
    fn targets_have_subscripts() {
        for (text, expected) in [
            ("UPDATE t SET a[1] = 2, b = 3", "a.$0[1]) = 2, b = 3"),
            ("UPDATE t SET b = c[1], d[1:2] = '{}' WHERE a[1] = 2", "d.$0[1:2]) = '{}' WHERE"),
            ("UPDATE t SET (a[1], b) = (c[2], 3)", "(a.$0[1]), b) = (c[2], 3)"),
            ("UPDATE t SET a = 1 = ALL (ARRAY[2, 3]), b['x']['y'] = '1'", "b.$0['x']['y'])"),
            ("UPDATE t SET a = b IS DISTINCT FROM c, d[f(1, e[2])] = 1", "d.$0[f(1, e[2])]) = 1"),
            ("UPDATE t AS set SET set[1] = 2", "set.$0[1]) = 2"),
            ("INSERT INTO t (a[1], b) VALUES (c[1], 2)", "(a.$0[1]), b) VALUES (c[1], 2)"),
            ("INSERT INTO s.t AS u (b, a[1][2]) SELECT 1, x[2] = 3", "(b, a.$0[1][2])) SELECT 1"),
            (
                "INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET b[1] = 2 RETURNING 1, b[1]",
                "SET b.$0[1]) = 2 RETURNING 1, b[1]",
            ),
            (
                "WITH x AS (UPDATE t SET a[1] = 2 RETURNING 3, a[2] = 4) SELECT 5, a[6] = 7",
                "SET a.$0[1]) = 2 RETURNING 3, a[2] = 4) SELECT 5, a[6] = 7",
            ),
        ] {
            let printed = printed(text);
            assert!(printed.contains(expected), "{printed}");
        }
    }

    #[test]
    fn other_subscripts_stay() {
        for text in [
            "SELECT set, a[1] = 2 FROM t",
            "SELECT a, b[1] FROM t FOR UPDATE",
            "INSERT INTO t (SELECT a, b[1] FROM u)",
            "INSERT INTO t SELECT a, b[1] FROM u",
            "INSERT INTO t VALUES (1, ARRAY[1])",
            "UPDATE t SET a = (SELECT b, c[1] = 2)",
            "DELETE FROM t WHERE a = ANY(ARRAY[1, b[2]])",
        ] {
            assert_eq!(printed(text), text);
        }
        assert!(parse("update t set a[] = 1", usize::MAX).is_err());
        assert!(parse("update t set a[1 = 1", usize::MAX).is_err());
    }
}
