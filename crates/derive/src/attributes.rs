//! What `#[rightlink(..)]` says, on the struct and on its fields.
//!
//! Invariants: every word that is not known is refused. Does not do: produce code.

use proc_macro2::{Span, TokenStream};
use syn::meta::ParseNestedMeta;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Attribute, DeriveInput, Error, Field, Ident, LitInt, LitStr, Token, Type};

use crate::conditions::{Range, Term, constant, in_parentheses};

/// The struct's attributes.
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) primary_key: Vec<String>,
    pub(crate) indexes: Vec<Index>,
    pub(crate) unlogged: bool,
    pub(crate) fillfactor: Option<u8>,
}

/// An index as the struct's attributes tell it.
#[derive(Default)]
pub(crate) struct Index {
    pub(crate) name: String,
    pub(crate) keys: Vec<Key>,
    pub(crate) unique: bool,
    /// Are two nulls the same for `unique`?
    pub(crate) nulls_not_distinct: bool,
    pub(crate) hash: bool,
    /// Columns beside the key.
    pub(crate) included: Vec<String>,
    /// Which rows it holds; empty: all.
    pub(crate) only: Vec<Term>,
}

/// A key column.
pub(crate) struct Key {
    pub(crate) column: String,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
    pub(crate) collation: KeyCollation,
}

/// How the text of a key column compares.
pub(crate) enum KeyCollation {
    OfColumn,
    Bytes,
    Given(Collation),
}

/// A locale, and whether strings of different bytes are never equal.
pub(crate) struct Collation {
    pub(crate) locale: LitStr,
    pub(crate) deterministic: bool,
}

/// What inserts give a column that do not name it.
pub(crate) enum Initial {
    Value(TokenStream),
    Now,
    RandomUuid,
}

/// A field and the column it stands for.
pub(crate) struct Column {
    pub(crate) field: Ident,
    pub(crate) kind: Type,
    pub(crate) name: String,
    pub(crate) primary_key: bool,
    pub(crate) default: Option<Initial>,
    /// Numbered by a sequence; true: always.
    pub(crate) generated: Option<bool>,
    pub(crate) collation: Option<Collation>,
    pub(crate) check: Option<Range>,
}

fn each(
    attributes: &[Attribute],
    mut read: impl FnMut(&ParseNestedMeta<'_>) -> syn::Result<()>,
) -> syn::Result<()> {
    let ours = attributes.iter().filter(|attribute| attribute.path().is_ident("rightlink"));
    ours.into_iter().try_for_each(|attribute| attribute.parse_nested_meta(|meta| read(&meta)))
}

fn text(meta: &ParseNestedMeta<'_>) -> syn::Result<String> {
    Ok(meta.value()?.parse::<LitStr>()?.value())
}

impl Table {
    pub(crate) fn of(input: &DeriveInput) -> syn::Result<Table> {
        let mut table = Table {
            name: snake_case(&input.ident.to_string()),
            primary_key: Vec::new(),
            indexes: Vec::new(),
            unlogged: false,
            fillfactor: None,
        };
        each(&input.attrs, |meta| {
            let word = meta.path.get_ident().map(Ident::to_string).unwrap_or_default();
            match word.as_str() {
                "table" => table.name = text(meta)?,
                "primary_key" => table.primary_key = names(meta)?,
                "index" => table.indexes.push(Index::of(meta)?),
                "unlogged" => table.unlogged = true,
                "fillfactor" => {
                    table.fillfactor = Some(meta.value()?.parse::<LitInt>()?.base10_parse()?);
                }
                _ => {
                    let known = "there are: table, primary_key, index, unlogged, fillfactor";
                    return Err(meta.error(known));
                }
            }
            Ok(())
        })?;
        Ok(table)
    }
}

fn parenthesized<T>(
    meta: &ParseNestedMeta<'_>,
    read: impl FnOnce(ParseStream<'_>) -> syn::Result<T>,
) -> syn::Result<T> {
    let content;
    syn::parenthesized!(content in meta.input);
    read(&content)
}

/// `(a, b)`.
fn names(meta: &ParseNestedMeta<'_>) -> syn::Result<Vec<String>> {
    let names = parenthesized(meta, Punctuated::<Ident, Token![,]>::parse_terminated)?;
    Ok(names.iter().map(Ident::to_string).collect())
}

impl Index {
    fn of(meta: &ParseNestedMeta<'_>) -> syn::Result<Index> {
        let mut index = Index::default();
        meta.parse_nested_meta(|part| {
            let word = part.path.get_ident().map(Ident::to_string).unwrap_or_default();
            match word.as_str() {
                "name" => index.name = text(&part)?,
                "on" => {
                    let keys = |input: ParseStream<'_>| {
                        Punctuated::<Key, Token![,]>::parse_terminated_with(input, Key::parse)
                    };
                    index.keys = parenthesized(&part, keys)?.into_iter().collect();
                }
                "unique" => index.unique = true,
                "unique_nulls" => (index.unique, index.nulls_not_distinct) = (true, true),
                "hash" => index.hash = true,
                "include" => index.included = names(&part)?,
                "where" => {
                    let terms = |input: ParseStream<'_>| {
                        Punctuated::<Term, Token![,]>::parse_terminated(input)
                    };
                    index.only = parenthesized(&part, terms)?.into_iter().collect();
                }
                _ => {
                    let known = "there are: name, on, unique, unique_nulls, hash, include, where";
                    return Err(part.error(known));
                }
            }
            Ok(())
        })?;
        if index.name.is_empty() || index.keys.is_empty() {
            let wants = "an index has a name and columns: index(name = \"..\", on(a, b desc))";
            return Err(meta.error(wants));
        }
        Ok(index)
    }
}

impl Key {
    fn parse(input: ParseStream<'_>) -> syn::Result<Key> {
        let column = input.parse::<Ident>()?.to_string();
        let (mut descending, mut nulls_first) = (false, None);
        let mut collation = KeyCollation::OfColumn;
        while !input.is_empty() && !input.peek(Token![,]) {
            let word: Ident = input.parse()?;
            match word.to_string().as_str() {
                "asc" => descending = false,
                "desc" => descending = true,
                "nulls_first" => nulls_first = Some(true),
                "nulls_last" => nulls_first = Some(false),
                "bytes" => collation = KeyCollation::Bytes,
                "collate" => {
                    let content;
                    syn::parenthesized!(content in input);
                    collation = KeyCollation::Given(Collation::parse(&content)?);
                }
                _ => {
                    let known =
                        "after a column: asc, desc, nulls_first, nulls_last, bytes, collate(..)";
                    return Err(Error::new(word.span(), known));
                }
            }
        }
        Ok(Key { column, descending, nulls_first: nulls_first.unwrap_or(descending), collation })
    }
}

impl Collation {
    /// `"de"` or `"und-u-ks-level2", nondeterministic`.
    fn parse(input: ParseStream<'_>) -> syn::Result<Collation> {
        let locale = input.parse()?;
        if input.is_empty() {
            return Ok(Collation { locale, deterministic: true });
        }
        input.parse::<Token![,]>()?;
        let word: Ident = input.parse()?;
        match word == "nondeterministic" && input.is_empty() {
            true => Ok(Collation { locale, deterministic: false }),
            false => Err(Error::new(word.span(), "after a locale: nondeterministic")),
        }
    }
}

impl Initial {
    /// `= constant`, `(now)` or `(uuid)`.
    fn of(meta: &ParseNestedMeta<'_>) -> syn::Result<Initial> {
        let wants = || meta.error("a default is a constant or a call: default = 5, default(now)");
        let Some(words) = in_parentheses(meta.input)? else {
            let constant = constant(meta.value()?);
            return if constant.is_empty() { Err(wants()) } else { Ok(Initial::Value(constant)) };
        };
        match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["now"] => Ok(Initial::Now),
            ["uuid"] => Ok(Initial::RandomUuid),
            _ => Err(meta.error("there are: default(now), default(uuid)")),
        }
    }
}

impl Column {
    /// What is wrong is said with the field's name.
    pub(crate) fn of(field: &Field) -> syn::Result<Column> {
        let unnamed = || Error::new(Span::call_site(), "a field has a name");
        let ident = field.ident.clone().ok_or_else(unnamed)?;
        let name = ident.to_string();
        let name = name.strip_prefix("r#").unwrap_or(&name).to_owned();
        let called = name.clone();
        let mut column = Column {
            field: ident,
            kind: field.ty.clone(),
            name,
            primary_key: false,
            default: None,
            generated: None,
            collation: None,
            check: None,
        };
        let read = each(&field.attrs, |meta| column.take(meta));
        read.and_then(|()| column.is_sound())
            .map_err(|error| Error::new(error.span(), format!("field {called}: {error}")))?;
        Ok(column)
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let word = meta.path.get_ident().map(Ident::to_string).unwrap_or_default();
        match word.as_str() {
            "column" => self.name = text(meta)?,
            "primary_key" => self.primary_key = true,
            "default" => self.default = Some(Initial::of(meta)?),
            "generated" => self.generated = Some(generated(meta)?),
            "collate" => self.collation = Some(collation(meta)?),
            "check" => self.check = Some(parenthesized(meta, Range::parse)?),
            _ => {
                let known = "there are: column, primary_key, default, generated, collate, check";
                return Err(meta.error(known));
            }
        }
        Ok(())
    }

    fn is_sound(&self) -> syn::Result<()> {
        if self.default.is_some() && self.generated.is_some() {
            return Err(Error::new(self.field.span(), "what is generated has no default"));
        }
        Ok(())
    }
}

/// Alone, or with `(always)`.
fn generated(meta: &ParseNestedMeta<'_>) -> syn::Result<bool> {
    let Some(words) = in_parentheses(meta.input)? else { return Ok(false) };
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["always"] => Ok(true),
        _ => Err(meta.error("there are: generated, generated(always)")),
    }
}

/// `= "de"`, or in parentheses with what else is said.
fn collation(meta: &ParseNestedMeta<'_>) -> syn::Result<Collation> {
    if meta.input.peek(syn::token::Paren) {
        return parenthesized(meta, Collation::parse);
    }
    Ok(Collation { locale: meta.value()?.parse()?, deterministic: true })
}

/// `FlightLeg` is `flight_leg`.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for (at, letter) in name.char_indices() {
        if letter.is_uppercase() && at > 0 {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_called_after_structs() {
        assert_eq!(snake_case("Flight"), "flight");
        assert_eq!(snake_case("FlightLeg"), "flight_leg");
    }
}
