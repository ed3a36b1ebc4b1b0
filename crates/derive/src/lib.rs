//! `#[derive(Record)]`: a struct with named fields is a row of a table.
//!
//! Use it through the engine's feature `derive`, as `rightlink::Record`; what can be written in
//! the attributes is told there.
//!
//! Invariants: what is wrong with a struct is said at the attribute or field that is wrong, when it
//! is compiled; names that only a database knows are checked by the database.
//! Does not do: anything at run time.

mod attributes;
mod conditions;
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
    emit::implementation(&input.ident, &table, &columns)
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
        let known = "field id: there are: column, primary_key, default, generated, collate, check";
        assert_eq!(said(field), known);
        let index = "#[rightlink(index(on(id)))] struct A { id: i64 }";
        assert_eq!(
            said(index),
            "an index has a name and columns: index(name = \"..\", on(a, b desc))"
        );
        let order = "#[rightlink(index(name = \"i\", on(id up)))] struct A { id: i64 }";
        let known = "after a column: asc, desc, nulls_first, nulls_last, bytes, collate(..)";
        assert_eq!(said(order), known);
        let unknown = "#[rightlink(primary_key(ib))] struct A { id: i64 }";
        assert_eq!(
            said(unknown),
            "fine",
            "columns of other fields may be meant: the database says"
        );
    }

    #[test]
    fn wrong_attributes_are_told_with_their_field() {
        let of_field = |words: &str| said(&format!("struct A {{ #[rightlink({words})] a: i32 }}"));
        for fine in [
            "default = 5",
            "default = -5, check(-5..=5)",
            "default(now), check(1..)",
            "generated",
            "generated(always), check(..9)",
            "collate = \"de\"",
            "collate(\"und-u-ks-level2\", nondeterministic)",
        ] {
            assert_eq!(of_field(fine), "fine", "{fine}");
        }
        let range = "field a: a check is a range of constants: check(0..=150), check(1..), \
                     check(..100)";
        let default = "field a: a default is a constant or a call: default = 5, default(now)";
        for (words, wanted) in [
            ("check(5)", range),
            ("check(..)", range),
            ("check(1..=)", range),
            ("default = ", default),
            ("default(never)", "field a: there are: default(now), default(uuid)"),
            ("generated(never)", "field a: there are: generated, generated(always)"),
            ("collate(\"de\", weak)", "field a: after a locale: nondeterministic"),
            ("default = 5, generated", "field a: what is generated has no default"),
        ] {
            assert_eq!(of_field(words), wanted, "{words}");
        }
    }

    #[test]
    fn conditions_of_indexes_name_fields_of_the_struct() {
        let only = |terms: &str| {
            let index = format!("index(name = \"i\", on(a), where({terms}))");
            said(&format!("#[rightlink({index})] struct A {{ a: i32, b: Option<String> }}"))
        };
        for fine in ["a = 5", "a >= -5, a < 7, b is null", "b is not null", "b != \"x\""] {
            assert_eq!(only(fine), "fine", "{fine}");
        }
        let unknown = "after `a`: = != < <= > >= and a constant, or: is null, is not null";
        for (terms, wanted) in [
            ("a", unknown),
            ("a is old", unknown),
            ("a + 5", unknown),
            ("a =", "`a` is compared with nothing"),
            ("c = 5", "no field stands for column `c`"),
        ] {
            assert_eq!(only(terms), wanted, "{terms}");
        }
    }
}
