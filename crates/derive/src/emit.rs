//! The implementation of `rightlink::Record`.
//!
//! Invariants: columns are in the order of the fields; the key is what the struct says, else the
//! fields that say so, in their order. Does not do: read attributes.

use proc_macro2::{Ident, TokenStream};
use quote::quote;

use crate::attributes::{Column, Index, Key, Table};

pub(crate) fn implementation(name: &Ident, table: &Table, columns: &[Column]) -> TokenStream {
    let table_name = &table.name;
    let names: Vec<&String> = columns.iter().map(|column| &column.name).collect();
    let fields: Vec<&Ident> = columns.iter().map(|column| &column.field).collect();
    let schema = schema(table, columns);
    quote! {
        #[automatically_derived]
        impl ::rightlink::Record for #name {
            const TABLE: &'static str = #table_name;
            const COLUMNS: &'static [&'static str] = &[#(#names),*];

            fn schema() -> ::rightlink::TableSchema {
                #schema
            }

            fn into_values(self) -> ::std::vec::Vec<::rightlink::Value> {
                ::std::vec![#(::rightlink::Field::into_value(self.#fields)),*]
            }

            fn from_values(
                values: ::std::vec::Vec<::rightlink::Value>,
            ) -> ::rightlink::Result<Self> {
                let mut values = ::rightlink::Fields::new(#table_name, values);
                ::std::result::Result::Ok(Self { #(#fields: values.take(#names)?),* })
            }
        }
    }
}

fn schema(table: &Table, columns: &[Column]) -> TokenStream {
    let name = &table.name;
    let columns_of = columns.iter().map(|column| {
        let (kind, name) = (&column.kind, &column.name);
        quote! { .field::<#kind>(#name) }
    });
    let marked = columns.iter().filter(|column| column.primary_key).map(|column| &column.name);
    let key: Vec<&String> = match table.primary_key.is_empty() {
        true => marked.collect(),
        false => table.primary_key.iter().collect(),
    };
    let key = (!key.is_empty()).then(|| quote! { .primary_key([#(#key),*]) });
    let indexes = table.indexes.iter().map(index);
    let unlogged = table.unlogged.then(|| quote! { .unlogged() });
    let fillfactor = table.fillfactor.map(|percent| quote! { .fillfactor(#percent) });
    quote! {
        ::rightlink::TableSchema::new(#name) #(#columns_of)* #key #(#indexes)* #unlogged #fillfactor
    }
}

fn index(index: &Index) -> TokenStream {
    let name = &index.name;
    let keys = index.keys.iter().map(|Key { column, descending, nulls_first }| {
        quote! {
            .key(::rightlink::KeyColumn {
                descending: #descending,
                nulls_first: #nulls_first,
                ..::rightlink::KeyColumn::ascending(#column)
            })
        }
    });
    let unique = index.unique.then(|| quote! { .unique() });
    let hash = index.hash.then(|| quote! { .method(::rightlink::IndexMethod::Hash) });
    quote! { .index(::rightlink::IndexSchema::new(#name) #(#keys)* #unique #hash) }
}
