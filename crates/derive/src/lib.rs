//! `#[derive(Record)]`: a struct with named fields is a row of a table.
//!
//! Use it through the engine's feature `derive`, as `rightlink::Record`; what can be written in
//! the attributes is told there.
//!
//! Invariants: what is wrong with a struct is said at the attribute or field that is wrong, when it
//! is compiled; names that only a database knows are checked by the database.
//! Does not do: anything at run time.

mod attributes;
mod emit;

use proc_macro::TokenStream;
use syn::{Data, DeriveInput, Error, Fields, parse_macro_input};

/// Implements `rightlink::Record` for a struct with named fields.
#[proc_macro_derive(Record, attributes(rightlink))]
pub fn derive_record(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    record(&input).unwrap_or_else(Error::into_compile_error).into()
}

fn record(input: &DeriveInput) -> syn::Result<proc_macro2::TokenStream> {
    let named = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => Some(&fields.named),
            _ => None,
        },
        _ => None,
    };
    let wants = || Error::new_spanned(&input.ident, "Record wants a struct with named fields");
    let fields = named.ok_or_else(wants)?;
    if let Some(parameter) = input.generics.params.first() {
        return Err(Error::new_spanned(parameter, "a Record has no parameters"));
    }
    let table = attributes::Table::of(input)?;
    let columns = fields.iter().map(attributes::Column::of).collect::<syn::Result<Vec<_>>>()?;
    if columns.is_empty() {
        return Err(wants());
    }
    Ok(emit::implementation(&input.ident, &table, &columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: &str) -> String {
        let input: DeriveInput = syn::parse_str(code).expect("a struct");
        match record(&input) {
            Ok(_) => "fine".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn wrong_structs_are_told_what_is_wrong() {
        assert_eq!(said("struct A { id: i64 }"), "fine");
        assert_eq!(said("struct A(i64);"), "Record wants a struct with named fields");
        assert_eq!(said("enum A { B }"), "Record wants a struct with named fields");
        assert_eq!(said("struct A {}"), "Record wants a struct with named fields");
        assert_eq!(said("struct A<T> { id: T }"), "a Record has no parameters");
        let primary = "#[rightlink(tabel = \"a\")] struct A { id: i64 }";
        assert_eq!(said(primary), "there are: table, primary_key, index, unlogged, fillfactor");
        let field = "struct A { #[rightlink(primary)] id: i64 }";
        assert_eq!(said(field), "there are: column, primary_key");
        let index = "#[rightlink(index(on(id)))] struct A { id: i64 }";
        assert_eq!(
            said(index),
            "an index has a name and columns: index(name = \"..\", on(a, b desc))"
        );
        let order = "#[rightlink(index(name = \"i\", on(id up)))] struct A { id: i64 }";
        assert_eq!(said(order), "after a column: asc, desc, nulls_first, nulls_last");
        let unknown = "#[rightlink(primary_key(ib))] struct A { id: i64 }";
        assert_eq!(
            said(unknown),
            "fine",
            "columns of other fields may be meant: the database says"
        );
    }
}
