//! What `#[rightlink(..)]` says, on the struct and on its fields.
//!
//! Invariants: every word that is not known is refused. Does not do: produce code.

use proc_macro2::Span;
use syn::meta::ParseNestedMeta;
use syn::parse::ParseStream;
use syn::punctuated::Punctuated;
use syn::{Attribute, DeriveInput, Error, Field, Ident, LitInt, LitStr, Token, Type};

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
    pub(crate) hash: bool,
}

/// A key column.
pub(crate) struct Key {
    pub(crate) column: String,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

/// A field and the column it stands for.
pub(crate) struct Column {
    pub(crate) field: Ident,
    pub(crate) kind: Type,
    pub(crate) name: String,
    pub(crate) primary_key: bool,
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
                "primary_key" => {
                    let names =
                        parenthesized(meta, Punctuated::<Ident, Token![,]>::parse_terminated)?;
                    table.primary_key = names.iter().map(Ident::to_string).collect();
                }
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
                "hash" => index.hash = true,
                _ => return Err(part.error("there are: name, on, unique, hash")),
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
        while !input.is_empty() && !input.peek(Token![,]) {
            let word: Ident = input.parse()?;
            match word.to_string().as_str() {
                "asc" => descending = false,
                "desc" => descending = true,
                "nulls_first" => nulls_first = Some(true),
                "nulls_last" => nulls_first = Some(false),
                _ => {
                    let known = "after a column: asc, desc, nulls_first, nulls_last";
                    return Err(Error::new(word.span(), known));
                }
            }
        }
        Ok(Key { column, descending, nulls_first: nulls_first.unwrap_or(descending) })
    }
}

impl Column {
    pub(crate) fn of(field: &Field) -> syn::Result<Column> {
        let unnamed = || Error::new(Span::call_site(), "a field has a name");
        let ident = field.ident.clone().ok_or_else(unnamed)?;
        let name = ident.to_string();
        let name = name.strip_prefix("r#").unwrap_or(&name).to_owned();
        let mut column = Column { field: ident, kind: field.ty.clone(), name, primary_key: false };
        each(&field.attrs, |meta| {
            let word = meta.path.get_ident().map(Ident::to_string).unwrap_or_default();
            match word.as_str() {
                "column" => column.name = text(meta)?,
                "primary_key" => column.primary_key = true,
                _ => return Err(meta.error("there are: column, primary_key")),
            }
            Ok(())
        })?;
        Ok(column)
    }
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
