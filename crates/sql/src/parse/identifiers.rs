//! Identifiers and names of types.
//!
//! Invariants: a name without quotes is in lower case. Does not do: what names mean (`schemas`).

use rightlink::internal::datum::IntervalFields;
use sqlparser::ast::{
    self, ArrayElemTypeDef, CharacterLength, DataType, ExactNumberInfo, Ident, ObjectName,
    ObjectNamePart, Spanned, TimezoneInfo,
};
use sqlparser::tokenizer::{Span, Token};

use crate::error::{Result, SqlError, code};
use crate::names::CATALOGS;
use crate::types::collate::no_collation;
use crate::types::declared::{Declared, Modifier};
use crate::types::{RegKind, SqlType};

/// Who knows the types that users made.
pub(crate) trait TypeNames {
    /// The type that these parts name, which stand at `span`, if it is one that was made.
    fn type_named(&mut self, parts: &[String], span: Span) -> Result<Option<Declared>>;
}

/// An identifier as it is meant.
pub(crate) fn ident(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}

/// A word as the name that it is meant as.
pub(super) fn name(token: &Token) -> Option<String> {
    match token {
        Token::Word(word) => Some(match word.quote_style {
            Some(_) => word.value.clone(),
            None => word.value.to_lowercase(),
        }),
        _ => None,
    }
}

/// Fails if an alias is a string, which sqlparser takes for one.
pub(crate) fn check_alias(alias: &Ident) -> Result<()> {
    match alias.quote_style {
        Some('\'') => {
            let text = &alias.value;
            Err(SqlError::syntax(format!("syntax error at or near \"'{text}'\"")))
        }
        _ => Ok(()),
    }
}

/// The parts of a name with dots.
pub(crate) fn parts(name: &ObjectName) -> Result<Vec<String>> {
    let part = |part: &ObjectNamePart| match part {
        ObjectNamePart::Identifier(name) => Ok(ident(name)),
        ObjectNamePart::Function(_) => Err(SqlError::unsupported("a function as a name")),
    };
    name.0.iter().map(part).collect()
}

/// The name of something that is in `public` only.
pub(crate) fn of_public(parts: &[String]) -> Result<String> {
    match parts {
        [name] => Ok(name.clone()),
        [schema, name] if schema == "public" => Ok(name.clone()),
        [schema, name] if schema == "pg_catalog" || schema == "information_schema" => {
            Err(SqlError::unsupported(format!("catalog \"{schema}.{name}\"")))
        }
        [schema, _] => {
            let message = format!("schema \"{schema}\" does not exist");
            Err(SqlError::new(code::INVALID_SCHEMA, message))
        }
        _ => Err(SqlError::unsupported("a name with a database in front")),
    }
}

/// The name of a function, with `pg_catalog` taken off.
pub(crate) fn function(name: &ObjectName) -> Result<String> {
    let parts = parts(name)?;
    match parts.as_slice() {
        [name] => Ok(name.clone()),
        [schema, name] if schema == "pg_catalog" => Ok(name.clone()),
        [schema, _] if schema == "information_schema" => Ok(parts.join(".")),
        _ => {
            let message = format!("function {}() does not exist", parts.join("."));
            Err(SqlError::new(code::UNDEFINED_FUNCTION, message))
        }
    }
}

/// The name of a collation, in `public` or `pg_catalog`.
pub(crate) fn collation(name: &ObjectName) -> Result<String> {
    let parts = parts(name)?;
    match parts.as_slice() {
        [name] => Ok(name.clone()),
        [schema, name] if schema == "public" || schema == "pg_catalog" => Ok(name.clone()),
        _ => Err(no_collation(&parts.join("."))),
    }
}

/// The name of an operator class, with `pg_catalog` taken off. There are none elsewhere.
pub(crate) fn operator_class(name: &ObjectName) -> Result<String> {
    let parts = parts(name)?;
    match parts.as_slice() {
        [schema, name] if schema == "pg_catalog" => Ok(name.clone()),
        _ => Ok(parts.join(".")),
    }
}

/// The type that the declaration of a column names.
pub(crate) fn column_type(kind: &DataType, types: &mut dyn TypeNames) -> Result<Declared> {
    let declared = data_type(kind, types)?;
    match declared.modifier {
        _ if is_of_rows(declared.ty) => {
            let what = format!("a column of type {}, the row type of a table", declared.ty.name());
            Err(SqlError::unsupported(what))
        }
        // Its values would have to keep the blanks they end in and yet be equal without them.
        None if declared.ty == SqlType::Bpchar => {
            Err(SqlError::unsupported("a column of type character without a length")
                .hint("Declare char(n), or text."))
        }
        _ => Ok(declared),
    }
}

/// Is it the type of the rows of a table, or of arrays of them?
pub(crate) fn is_of_rows(ty: SqlType) -> bool {
    matches!(ty.element().unwrap_or(ty), SqlType::Composite(own) if own.is_of_rows())
}

/// The type that a declaration names.
pub(crate) fn data_type(kind: &DataType, types: &mut dyn TypeNames) -> Result<Declared> {
    let ty = match kind {
        DataType::Bool | DataType::Boolean => SqlType::Bool,
        DataType::Int2(None) | DataType::SmallInt(None) => SqlType::Int2,
        DataType::Int4(None) | DataType::Int(None) | DataType::Integer(None) => SqlType::Int4,
        DataType::Int8(None) | DataType::BigInt(None) => SqlType::Int8,
        DataType::Float4 | DataType::Real => SqlType::Float4,
        DataType::Float8 | DataType::DoublePrecision => SqlType::Float8,
        DataType::Float(info) => float(info)?,
        DataType::Numeric(info) | DataType::Decimal(info) | DataType::Dec(info) => {
            return numeric(info);
        }
        DataType::Text => SqlType::Text,
        DataType::Varchar(None)
        | DataType::CharacterVarying(None)
        | DataType::CharVarying(None) => return Ok(Declared::varchar()),
        DataType::Varchar(Some(length))
        | DataType::CharacterVarying(Some(length))
        | DataType::CharVarying(Some(length)) => return Declared::text(false, count(length)?),
        DataType::Char(Some(length)) | DataType::Character(Some(length)) => {
            return Declared::text(true, count(length)?);
        }
        DataType::Char(None) | DataType::Character(None) => return Declared::text(true, 1),
        DataType::Bytea => SqlType::Bytea,
        DataType::Uuid => SqlType::Uuid,
        DataType::Bit(length) => return Declared::bits(SqlType::Bit, length.unwrap_or(1)),
        DataType::BitVarying(Some(length)) | DataType::VarBit(Some(length)) => {
            return Declared::bits(SqlType::Varbit, *length);
        }
        DataType::BitVarying(None) | DataType::VarBit(None) => SqlType::Varbit,
        DataType::JSON => SqlType::Json,
        DataType::JSONB => SqlType::Jsonb,
        DataType::Regclass => SqlType::Reg(RegKind::Class),
        DataType::Date => SqlType::Date,
        DataType::Timestamp(digits, zone) => {
            return Ok(seconds([SqlType::Timestamp, SqlType::Timestamptz], *zone, *digits));
        }
        DataType::Time(digits, zone) => {
            return Ok(seconds([SqlType::Time, SqlType::Timetz], *zone, *digits));
        }
        DataType::Interval { fields: None, precision: None } => SqlType::Interval,
        DataType::Interval { fields, precision } => {
            let modifier = interval(fields.as_ref(), *precision)?;
            return Ok(Declared::modified(SqlType::Interval, Some(modifier)));
        }
        DataType::Custom(name, modifiers) if modifiers.is_empty() => return custom(name, types),
        DataType::Array(
            ArrayElemTypeDef::SquareBracket(element, _) | ArrayElemTypeDef::Qualified(element, _),
        ) => return array(element, types),
        DataType::Custom(name, modifiers) if shown(kind).starts_with("bpchar(") => {
            let lengths: Vec<_> = modifiers.iter().map(|one| one.parse()).collect();
            return match lengths.as_slice() {
                [Ok(length)] => Declared::text(true, *length),
                _ => Err(SqlError::unsupported(format!("type {name} of this form"))),
            };
        }
        // Words of other dialects are names like others.
        other if is_word(&shown(other)) => {
            return custom(&ObjectName::from(vec![ast::Ident::new(shown(other))]), types);
        }
        other => return Err(SqlError::unsupported(format!("type {}", shown(other)))),
    };
    Ok(Declared::plain(ty))
}

/// The type without a zone or that with one, perhaps with so many digits of seconds.
fn seconds([plain, zoned]: [SqlType; 2], zone: TimezoneInfo, digits: Option<u64>) -> Declared {
    let ty = match zone {
        TimezoneInfo::None | TimezoneInfo::WithoutTimeZone => plain,
        TimezoneInfo::WithTimeZone | TimezoneInfo::Tz => zoned,
    };
    // More digits than there are mean all.
    let digits = digits.map(|digits| u32::try_from(digits).unwrap_or(6).min(6));
    Declared::modified(ty, digits.map(|digits| Modifier::Seconds(ty, digits)))
}

/// An array: how many dimensions it is declared with, and how long they are, says nothing.
fn array(element: &DataType, types: &mut dyn TypeNames) -> Result<Declared> {
    let mut element = element;
    while let DataType::Array(ArrayElemTypeDef::SquareBracket(inner, _)) = element {
        element = inner;
    }
    let Declared { ty, modifier, domain } = data_type(element, types)?;
    if domain.is_some() {
        return Err(SqlError::unsupported("an array of a domain"));
    }
    let array = SqlType::array_of(ty).ok_or_else(|| {
        let message = format!("type \"{}[]\" does not exist", ty.name());
        SqlError::new(code::UNDEFINED_OBJECT, message)
    })?;
    Ok(Declared::modified(array, modifier))
}

fn count(length: &CharacterLength) -> Result<u64> {
    match length {
        CharacterLength::IntegerLength { length, unit: None } => Ok(*length),
        _ => Err(SqlError::unsupported("a length of this form")),
    }
}

fn shown(kind: &DataType) -> String {
    kind.to_string().to_lowercase()
}

fn is_word(text: &str) -> bool {
    text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

fn float(info: &ExactNumberInfo) -> Result<SqlType> {
    match info {
        ExactNumberInfo::None => Ok(SqlType::Float8),
        ExactNumberInfo::Precision(1..=24) => Ok(SqlType::Float4),
        ExactNumberInfo::Precision(25..=53) => Ok(SqlType::Float8),
        _ => Err(SqlError::new(
            code::INVALID_PARAMETER,
            "precision for type float must be between 1 and 53 bits",
        )),
    }
}

fn interval(fields: Option<&ast::IntervalFields>, precision: Option<u64>) -> Result<Modifier> {
    let named = fields.map_or(Some(IntervalFields::All), |fields| {
        IntervalFields::named(&fields.to_string().to_ascii_lowercase())
    });
    let named = named.ok_or_else(|| SqlError::unsupported("an interval of these parts"))?;
    // More digits than there are mean all.
    let digits = precision.map(|digits| u32::try_from(digits).unwrap_or(6).min(6));
    Ok(Modifier::Interval(named, digits))
}

/// What stands behind the text of an interval.
pub(crate) fn interval_parts(literal: &ast::Interval) -> Result<Modifier> {
    use ast::DateTimeField as D;
    let name = |field: &D| match field {
        D::Year => "year",
        D::Month => "month",
        D::Day => "day",
        D::Hour => "hour",
        D::Minute => "minute",
        D::Second => "second",
        _ => "",
    };
    let first = literal.leading_field.as_ref().map(name);
    let last = literal.last_field.as_ref().map(name);
    let words = [first, last].into_iter().flatten().collect::<Vec<_>>().join(" to ");
    let fields = IntervalFields::named(&words);
    let (digits, other) = match last {
        None => (literal.leading_precision, literal.fractional_seconds_precision),
        Some(_) => (literal.fractional_seconds_precision, literal.leading_precision),
    };
    let ends_in_seconds = words.ends_with("second");
    let Some(fields) = fields.filter(|_| other.is_none() && (digits.is_none() || ends_in_seconds))
    else {
        let field = literal.leading_field.as_ref().map(ToString::to_string).unwrap_or_default();
        let near = field.to_lowercase();
        return Err(SqlError::syntax(format!("syntax error at or near \"{near}\"")));
    };
    let digits = digits.map(|digits| u32::try_from(digits).unwrap_or(6).min(6));
    Ok(Modifier::Interval(fields, digits))
}

fn numeric(info: &ExactNumberInfo) -> Result<Declared> {
    let (precision, scale) = match info {
        ExactNumberInfo::None => return Ok(Declared::plain(SqlType::Numeric)),
        ExactNumberInfo::Precision(precision) => (*precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
    };
    if !(1..=1_000).contains(&precision) {
        let message = format!("NUMERIC precision {precision} must be between 1 and 1000");
        return Err(SqlError::new(code::INVALID_PARAMETER, message));
    }
    if !(-1_000..=1_000).contains(&scale) {
        let message = format!("NUMERIC scale {scale} must be between -1000 and 1000");
        return Err(SqlError::new(code::INVALID_PARAMETER, message));
    }
    let modifier = Some(Modifier::Numeric(precision as u32, scale as i32));
    Ok(Declared::modified(SqlType::Numeric, modifier))
}

/// PostgreSQL's types that are not there.
const REFUSED: [&str; 19] = [
    "tsvector",
    "tsquery",
    "money",
    "xml",
    "point",
    "box",
    "circle",
    "line",
    "lseg",
    "path",
    "polygon",
    "macaddr",
    "macaddr8",
    "int4range",
    "int8range",
    "numrange",
    "tsrange",
    "tstzrange",
    "daterange",
];

/// Types that sqlparser has no word for; those that are there without being made come first.
fn custom(name: &ObjectName, types: &mut dyn TypeNames) -> Result<Declared> {
    let parts = parts(name)?;
    let last = parts.last().map_or("", String::as_str);
    let is_built_in = matches!(parts.as_slice(), [_]) || parts[0] == CATALOGS[0];
    if let Some(ty) = SqlType::of_any_name(last).filter(|_| is_built_in) {
        return Ok(Declared::plain(ty));
    }
    if let Some(made) = types.type_named(&parts, name.span())? {
        return Ok(made);
    }
    match last {
        name if REFUSED.contains(&name) => Err(SqlError::unsupported(format!("type {name}"))),
        _ => {
            let message = format!("type \"{}\" does not exist", parts.join("."));
            Err(SqlError::new(code::UNDEFINED_OBJECT, message))
        }
    }
}
