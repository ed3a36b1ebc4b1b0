//! CREATE, ALTER and DROP TYPE and DOMAIN, read from their tokens; names of types in texts that are
//! kept.
//!
//! Does not do: what the names mean (`bind::ddl::types`).

use sqlparser::ast;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use crate::error::{Result, SqlError};
use crate::parse::cursor::Cursor;
use crate::parse::{identifiers, kept_tokens, replaced, tokens};

/// A statement about a type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TypeStatement {
    CreateEnum {
        name: Vec<String>,
        labels: Vec<String>,
    },
    CreateComposite {
        name: Vec<String>,
        fields: Vec<ast::ColumnDef>,
    },
    AlterComposite {
        name: Vec<String>,
        changes: Vec<FieldChange>,
    },
    /// With its one column, which has the type, the default and the constraints.
    CreateDomain {
        name: Vec<String>,
        column: Box<ast::ColumnDef>,
    },
    Alter {
        name: Vec<String>,
        change: TypeChange,
    },
    AlterDomain {
        name: Vec<String>,
        change: DomainChange,
    },
    Drop {
        names: Vec<Vec<String>>,
        of_domains: bool,
        if_exists: bool,
        cascade: bool,
    },
    /// COMMENT ON TYPE, `None` is NULL.
    Comment {
        name: Vec<String>,
        text: Option<String>,
    },
}

/// What ALTER TYPE does to a field of a composite type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FieldChange {
    Add(Box<ast::ColumnDef>),
    Drop {
        name: String,
        if_exists: bool,
    },
    /// A field of this name gets another type.
    Retype(Box<ast::ColumnDef>),
    Rename {
        from: String,
        to: String,
    },
}

/// What ALTER DOMAIN does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum DomainChange {
    /// `None` is none.
    Default(Option<Box<ast::Expr>>),
    NotNull(bool),
    AddCheck {
        name: Option<String>,
        condition: Box<ast::Expr>,
        is_valid: bool,
    },
    DropCheck {
        name: String,
        if_exists: bool,
    },
    RenameCheck {
        from: String,
        to: String,
    },
    Validate(String),
    /// As of any type.
    Type(TypeChange),
}

/// What ALTER TYPE does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TypeChange {
    AddValue { label: String, if_not_exists: bool, place: LabelPlace },
    RenameValue { from: String, to: String },
    Rename(String),
    SetSchema(String),
}

/// Where a new label goes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LabelPlace {
    Last,
    Before(String),
    After(String),
}

/// Reads a statement about a type, if it is one.
pub(super) fn statement(cursor: &mut Cursor) -> Result<Option<TypeStatement>> {
    let commented = ["type", "domain"].iter().any(|word| cursor.is_at(2, word));
    if cursor.is("comment") && cursor.is_at(1, "on") && commented {
        return comment(cursor).map(Some);
    }
    if cursor.is_at(1, "domain") {
        return match cursor.take_any(&["create", "alter", "drop"]) {
            Some("create") => create_domain(cursor).map(Some),
            Some("alter") => alter_domain(cursor).map(Some),
            Some(_) => drop(cursor).map(Some),
            None => Ok(None),
        };
    }
    if !cursor.is_at(1, "type") {
        return Ok(None);
    }
    match cursor.take_any(&["create", "alter", "drop"]) {
        Some("create") => create(cursor).map(Some),
        Some("alter") => alter(cursor).map(Some),
        Some(_) => drop(cursor).map(Some),
        None => Ok(None),
    }
}

fn create(cursor: &mut Cursor) -> Result<TypeStatement> {
    cursor.expect("type")?;
    let name = cursor.qualified()?;
    if cursor.is_end() {
        return Err(SqlError::unsupported("a type without a definition"));
    }
    if !cursor.take("as") {
        return match cursor.take_token(&Token::LParen) {
            true => Err(SqlError::unsupported("a base type")),
            false => Err(cursor.unexpected()),
        };
    }
    if cursor.take("range") {
        return Err(SqlError::unsupported("a range type"));
    }
    if !cursor.take("enum") {
        let fields = cursor.parse(|parser| {
            parser.expect_token(&Token::LParen)?;
            let mut fields = Vec::new();
            if !parser.consume_token(&Token::RParen) {
                fields = parser.parse_comma_separated(field)?;
                parser.expect_token(&Token::RParen)?;
            }
            Ok(fields)
        })?;
        check_fields(&fields)?;
        return Ok(TypeStatement::CreateComposite { name, fields });
    }
    cursor.expect_token(&Token::LParen)?;
    let mut labels = Vec::new();
    if !cursor.take_token(&Token::RParen) {
        loop {
            labels.push(string(cursor)?);
            if !cursor.take_token(&Token::Comma) {
                break;
            }
        }
        cursor.expect_token(&Token::RParen)?;
    }
    Ok(TypeStatement::CreateEnum { name, labels })
}

/// The name and the type of a field, and a collation that it may say.
fn field(parser: &mut Parser<'_>) -> std::result::Result<ast::ColumnDef, ParserError> {
    let (name, data_type) = (parser.parse_identifier()?, parser.parse_data_type()?);
    let mut options = Vec::new();
    if parser.parse_keyword(Keyword::COLLATE) {
        let option = ast::ColumnOption::Collation(parser.parse_object_name(false)?);
        options.push(ast::ColumnOptionDef { name: None, option });
    }
    Ok(ast::ColumnDef { name, data_type, options })
}

/// Fails for what is not built of fields.
fn check_fields<'f>(fields: impl IntoIterator<Item = &'f ast::ColumnDef>) -> Result<()> {
    match fields.into_iter().all(|field| field.options.is_empty()) {
        true => Ok(()),
        false => Err(SqlError::unsupported("COLLATE of a field of a composite type")),
    }
}

/// What is done to a field.
fn field_change(parser: &mut Parser<'_>) -> std::result::Result<FieldChange, ParserError> {
    let word = parser.parse_identifier()?.value.to_lowercase();
    let own = parser.parse_identifier()?;
    if own.quote_style.is_some() || !own.value.eq_ignore_ascii_case("attribute") {
        return parser.expected_ref("attribute", parser.peek_token_ref());
    }
    let change = match word.as_str() {
        "add" => FieldChange::Add(Box::new(field(parser)?)),
        "drop" => {
            let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
            FieldChange::Drop { name: identifiers::ident(&parser.parse_identifier()?), if_exists }
        }
        "alter" => {
            let name = parser.parse_identifier()?;
            if parser.parse_keyword(Keyword::SET) {
                parser.expect_keyword(Keyword::DATA)?;
            }
            parser.expect_keyword(Keyword::TYPE)?;
            let (data_type, options) = (parser.parse_data_type()?, Vec::new());
            FieldChange::Retype(Box::new(ast::ColumnDef { name, data_type, options }))
        }
        "rename" => {
            let from = identifiers::ident(&parser.parse_identifier()?);
            parser.expect_keyword(Keyword::TO)?;
            FieldChange::Rename { from, to: identifiers::ident(&parser.parse_identifier()?) }
        }
        _ => return parser.expected_ref("a change of a field", parser.peek_token_ref()),
    };
    let _ = parser.parse_one_of_keywords(&[Keyword::CASCADE, Keyword::RESTRICT]);
    Ok(change)
}

fn string(cursor: &mut Cursor) -> Result<String> {
    cursor.string().ok_or_else(|| cursor.unexpected())
}

fn alter(cursor: &mut Cursor) -> Result<TypeStatement> {
    cursor.expect("type")?;
    let name = cursor.qualified()?;
    if cursor.is_at(1, "attribute") {
        let changes = cursor.parse(|parser| parser.parse_comma_separated(field_change))?;
        check_fields(changes.iter().filter_map(|change| match change {
            FieldChange::Add(field) | FieldChange::Retype(field) => Some(&**field),
            _ => None,
        }))?;
        return Ok(TypeStatement::AlterComposite { name, changes });
    }
    let change = match cursor.take_any(&["add", "rename", "set"]) {
        Some("add") if cursor.take("value") => add_value(cursor)?,
        Some("rename") if cursor.take("value") => {
            let from = string(cursor)?;
            cursor.expect("to")?;
            TypeChange::RenameValue { from, to: string(cursor)? }
        }
        Some("rename") if cursor.take("to") => TypeChange::Rename(cursor.name()?),
        Some("set") if cursor.take("schema") => TypeChange::SetSchema(cursor.name()?),
        Some(_) if cursor.take_token(&Token::LParen) => {
            return Err(SqlError::unsupported("ALTER TYPE of a base type"));
        }
        _ => return Err(cursor.unexpected()),
    };
    Ok(TypeStatement::Alter { name, change })
}

fn add_value(cursor: &mut Cursor) -> Result<TypeChange> {
    let if_not_exists = cursor.take("if");
    if if_not_exists {
        cursor.expect("not")?;
        cursor.expect("exists")?;
    }
    let label = string(cursor)?;
    let place = match cursor.take_any(&["before", "after"]) {
        Some("before") => LabelPlace::Before(string(cursor)?),
        Some(_) => LabelPlace::After(string(cursor)?),
        None => LabelPlace::Last,
    };
    Ok(TypeChange::AddValue { label, if_not_exists, place })
}

/// The name of the column of the entry of a domain: VALUE.
const VALUE: &str = "value";

fn create_domain(cursor: &mut Cursor) -> Result<TypeStatement> {
    cursor.expect("domain")?;
    let name = cursor.qualified()?;
    cursor.take("as");
    let (data_type, options) = cursor.parse(|parser| {
        let data_type = parser.parse_data_type()?;
        let mut options = Vec::new();
        loop {
            let name = match parser.parse_keyword(Keyword::CONSTRAINT) {
                true => Some(parser.parse_identifier()?),
                false => None,
            };
            match parser.parse_optional_column_option()? {
                Some(option) => options.push(ast::ColumnOptionDef { name, option }),
                None => return Ok((data_type, options)),
            }
        }
    })?;
    for option in &options {
        let what = match &option.option {
            ast::ColumnOption::Null
            | ast::ColumnOption::NotNull
            | ast::ColumnOption::Default(_)
            | ast::ColumnOption::Check(_) => continue,
            ast::ColumnOption::Collation(_) => {
                return Err(SqlError::unsupported("COLLATE of a domain"));
            }
            ast::ColumnOption::PrimaryKey(_) => "primary key",
            ast::ColumnOption::Unique(_) => "unique",
            ast::ColumnOption::ForeignKey(_) => "foreign key",
            other => return Err(SqlError::syntax(format!("syntax error at or near \"{other}\""))),
        };
        let message = format!("{what} constraints not possible for domains");
        return Err(SqlError::syntax(message));
    }
    let column = ast::ColumnDef { name: ast::Ident::new(VALUE), data_type, options };
    Ok(TypeStatement::CreateDomain { name, column: Box::new(column) })
}

fn alter_domain(cursor: &mut Cursor) -> Result<TypeStatement> {
    cursor.expect("domain")?;
    let name = cursor.qualified()?;
    let change = match cursor.take_any(&["set", "drop", "add", "rename", "validate"]) {
        Some("set") if cursor.take("default") => {
            DomainChange::Default(Some(Box::new(cursor.parse(|parser| parser.parse_expr())?)))
        }
        Some("drop") if cursor.take("default") => DomainChange::Default(None),
        Some(word @ ("set" | "drop")) if cursor.take("not") => {
            cursor.expect("null")?;
            DomainChange::NotNull(word == "set")
        }
        Some("set") if cursor.take("schema") => {
            DomainChange::Type(TypeChange::SetSchema(cursor.name()?))
        }
        Some("drop") if cursor.take("constraint") => {
            let if_exists = cursor.take("if");
            if if_exists {
                cursor.expect("exists")?;
            }
            let name = cursor.name()?;
            cursor.take_any(&["restrict", "cascade"]);
            DomainChange::DropCheck { name, if_exists }
        }
        Some("add") => add_check(cursor)?,
        Some("rename") if cursor.take("constraint") => {
            let from = cursor.name()?;
            cursor.expect("to")?;
            DomainChange::RenameCheck { from, to: cursor.name()? }
        }
        Some("rename") if cursor.take("to") => {
            DomainChange::Type(TypeChange::Rename(cursor.name()?))
        }
        Some("validate") if cursor.take("constraint") => DomainChange::Validate(cursor.name()?),
        _ => return Err(cursor.unexpected()),
    };
    Ok(TypeStatement::AlterDomain { name, change })
}

fn add_check(cursor: &mut Cursor) -> Result<DomainChange> {
    let name = if cursor.take("constraint") { Some(cursor.name()?) } else { None };
    if !cursor.is("check") {
        return match cursor.is("not") {
            true => {
                Err(SqlError::unsupported("ADD NOT NULL of a domain").hint("Use SET NOT NULL."))
            }
            false => Err(cursor.unexpected()),
        };
    }
    cursor.expect("check")?;
    let (condition, is_valid) = cursor.parse(|parser| {
        parser.expect_token(&Token::LParen)?;
        let condition = parser.parse_expr()?;
        parser.expect_token(&Token::RParen)?;
        let not_valid = parser.parse_keywords(&[Keyword::NOT, Keyword::VALID]);
        Ok((condition, !not_valid))
    })?;
    Ok(DomainChange::AddCheck { name, condition: Box::new(condition), is_valid })
}

fn drop(cursor: &mut Cursor) -> Result<TypeStatement> {
    let of_domains = cursor.take("domain");
    if !of_domains {
        cursor.expect("type")?;
    }
    let if_exists = cursor.take("if");
    if if_exists {
        cursor.expect("exists")?;
    }
    let mut names = vec![cursor.qualified()?];
    while cursor.take_token(&Token::Comma) {
        names.push(cursor.qualified()?);
    }
    let cascade = cursor.take_any(&["cascade", "restrict"]) == Some("cascade");
    Ok(TypeStatement::Drop { names, of_domains, if_exists, cascade })
}

fn comment(cursor: &mut Cursor) -> Result<TypeStatement> {
    for word in ["comment", "on"] {
        cursor.expect(word)?;
    }
    cursor.take_any(&["type", "domain"]);
    let name = cursor.qualified()?;
    cursor.expect("is")?;
    let text = if cursor.take("null") { None } else { Some(string(cursor)?) };
    Ok(TypeStatement::Comment { name, text })
}

/// A text with types behind `::` spelled as PostgreSQL shows them: sqlparser writes words of some
/// in capitals.
pub(crate) fn in_small_letters(text: &str) -> Result<String> {
    const WORDS: [&str; 10] = [
        "CHARACTER",
        "VARYING",
        "DOUBLE",
        "PRECISION",
        "TIME",
        "TIMESTAMP",
        "WITH",
        "WITHOUT",
        "ZONE",
        "BIT",
    ];
    let (mut edits, mut in_type) = (Vec::new(), false);
    for token in tokens(text)? {
        in_type = match &token.token {
            Token::DoubleColon => true,
            Token::Word(word) if in_type && word.quote_style.is_none() => {
                if WORDS.contains(&word.value.as_str()) {
                    edits.push((token.span, word.value.to_lowercase()));
                }
                true
            }
            // The precision of a time stands among its words.
            Token::LParen | Token::RParen | Token::Number(..) => in_type,
            _ => false,
        };
    }
    Ok(replaced(text, &edits))
}

/// Where a text that is kept names types, and the parts of the names: behind `::`, behind AS of a
/// cast, in front of a literal.
pub(crate) fn names(text: &str) -> Result<Vec<(Span, Vec<String>)>> {
    named(text, |behind, ahead| {
        let casts = match behind {
            Some(Token::DoubleColon) => true,
            Some(Token::Word(word)) => word.value.eq_ignore_ascii_case("as"),
            _ => false,
        };
        let literal =
            matches!(ahead, Some(Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_)));
        casts || literal
    })
}

/// Where a text that is kept has names in front of parentheses, as it has those of functions.
pub(crate) fn called_names(text: &str) -> Result<Vec<(Span, Vec<String>)>> {
    named(text, |_, ahead| ahead == Some(&Token::LParen))
}

/// Where a text that is kept has names, by the tokens behind and ahead of them.
fn named(
    text: &str,
    is_it: impl Fn(Option<&Token>, Option<&Token>) -> bool,
) -> Result<Vec<(Span, Vec<String>)>> {
    let tokens = kept_tokens(text)?;
    let word = |at: usize| match tokens.get(at).map(|one| &one.token) {
        Some(Token::Word(word)) => Some(match word.quote_style {
            Some(_) => word.value.clone(),
            None => word.value.to_lowercase(),
        }),
        _ => None,
    };
    let is = |at: usize, wanted: &Token| tokens.get(at).is_some_and(|one| one.token == *wanted);
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let start = at;
        let Some(first) = word(at) else {
            at += 1;
            continue;
        };
        let mut parts = vec![first];
        while is(at + 1, &Token::Period)
            && let Some(next) = word(at + 2)
        {
            parts.push(next);
            at += 2;
        }
        at += 1;
        let behind = start.checked_sub(1).and_then(|at| tokens.get(at));
        let ahead = tokens.get(at);
        if is_it(behind.map(|one| &one.token), ahead.map(|one| &one.token)) {
            found.push((Span::new(tokens[start].span.start, tokens[at - 1].span.end), parts));
        }
    }
    Ok(found)
}

/// A text that is kept, in which other names stand for types, where `other` gives one for the parts
/// of a name.
pub(crate) fn with_types(
    text: &str,
    other: impl Fn(&[String]) -> Option<String>,
) -> Result<String> {
    Ok(with_names(text, names(text)?, other))
}

/// As [`with_types`], for names of functions.
pub(crate) fn with_functions(
    text: &str,
    other: impl Fn(&[String]) -> Option<String>,
) -> Result<String> {
    Ok(with_names(text, called_names(text)?, other))
}

fn with_names(
    text: &str,
    named: Vec<(Span, Vec<String>)>,
    other: impl Fn(&[String]) -> Option<String>,
) -> String {
    let edit = |(span, parts): (Span, Vec<String>)| Some((span, other(&parts)?));
    let edits: Vec<(Span, String)> = named.into_iter().filter_map(edit).collect();
    replaced(text, &edits)
}

/// Where a text that is kept has this string.
pub(crate) fn strings(text: &str, wanted: &str) -> Result<Vec<Span>> {
    let is_it = |one: &TokenWithSpan| match &one.token {
        Token::SingleQuotedString(found) | Token::EscapedStringLiteral(found) => found == wanted,
        _ => false,
    };
    Ok(kept_tokens(text)?.iter().filter(|one| is_it(one)).map(|one| one.span).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_types_are_found_where_types_stand() {
        let named = |text| -> Vec<String> {
            names(text).unwrap().into_iter().map(|(_, parts)| parts.join(".")).collect()
        };
        assert_eq!(named("m > 'a'::mood AND x.y = CAST(b AS s.\"Mood\"[])"), ["mood", "s.Mood"]);
        assert_eq!(named("mood 'sad' < b"), ["mood"]);
        assert_eq!(named("mood.a + mood"), Vec::<String>::new());
    }
}
