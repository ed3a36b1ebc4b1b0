//! The implementation of `rightlink::Record`.
//!
//! Invariants: columns are in the order of the fields; the key is what the struct says, else the
//! fields that say so, in their order. What a field's type cannot have is refused by an assertion
//! that names the field when the struct is compiled. Does not do: read attributes.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::Error;

use crate::attributes::{Collation, Column, Index, Initial, Key, KeyCollation, Table};
use crate::conditions::{Range, Term, Test};

pub(crate) fn implementation(
    name: &Ident,
    table: &Table,
    columns: &[Column],
) -> syn::Result<TokenStream> {
    let table_name = &table.name;
    let names: Vec<&String> = columns.iter().map(|column| &column.name).collect();
    let fields: Vec<&Ident> = columns.iter().map(|column| &column.field).collect();
    let generated = columns.iter().filter(|column| column.generated.is_some());
    let generated = generated.map(|column| &column.name);
    let assertions = columns.iter().map(assertions);
    let schema = schema(table, columns)?;
    Ok(quote! {
        #(#assertions)*

        #[automatically_derived]
        impl ::rightlink::Record for #name {
            const TABLE: &'static str = #table_name;
            const COLUMNS: &'static [&'static str] = &[#(#names),*];
            const GENERATED: &'static [&'static str] = &[#(#generated),*];

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
    })
}

fn schema(table: &Table, columns: &[Column]) -> syn::Result<TokenStream> {
    let name = &table.name;
    let columns_of = columns.iter().map(column);
    let marked = columns.iter().filter(|column| column.primary_key).map(|column| &column.name);
    let key: Vec<&String> = match table.primary_key.is_empty() {
        true => marked.collect(),
        false => table.primary_key.iter().collect(),
    };
    let key = (!key.is_empty()).then(|| quote! { .primary_key([#(#key),*]) });
    let indexes = table.indexes.iter().map(|it| index(it, columns));
    let indexes = indexes.collect::<syn::Result<Vec<_>>>()?;
    let checks = columns.iter().filter_map(|column| check(name, column));
    let unlogged = table.unlogged.then(|| quote! { .unlogged() });
    let fillfactor = table.fillfactor.map(|percent| quote! { .fillfactor(#percent) });
    Ok(quote! {
        ::rightlink::TableSchema::new(#name)
            #(#columns_of)* #key #(#indexes)* #(#checks)* #unlogged #fillfactor
    })
}

/// What only some types can have.
fn assertions(column: &Column) -> TokenStream {
    let (kind, field) = (&column.kind, column.field.to_string());
    let of = |what: &str| format!("field {field}: {what}");
    let is = |variants: TokenStream, what: String| {
        quote! {
            const _: () =
                ::std::assert!(
                    ::std::matches!(<#kind as ::rightlink::Field>::TYPE, #variants),
                    #what,
                );
        }
    };
    let ty = quote!(::rightlink::Type);
    let generated = column.generated.map(|_| {
        let integers = quote!(#ty::Int2 | #ty::Int4 | #ty::Int8);
        let (kinds, nullable) = (of("only integers are generated"), of("no Option is generated"));
        let integer = is(integers, kinds);
        quote! {
            #integer
            const _: () = ::std::assert!(!<#kind as ::rightlink::Field>::NULLABLE, #nullable);
        }
    });
    let text =
        column.collation.as_ref().map(|_| is(quote!(#ty::Text), of("only text is collated")));
    let default = match column.default {
        Some(Initial::Now) => {
            let times = quote!(#ty::Date | #ty::Time | #ty::Timestamp | #ty::TimestampTz);
            Some(is(times, of("default(now) is for dates and times")))
        }
        Some(Initial::RandomUuid) => {
            Some(is(quote!(#ty::Uuid), of("default(uuid) is for uuids, [u8; 16]")))
        }
        _ => None,
    };
    quote! { #generated #text #default }
}

fn column(column: &Column) -> TokenStream {
    let (kind, name) = (&column.kind, &column.name);
    let default = column.default.as_ref().map(|default| {
        let default = match default {
            Initial::Value(constant) => {
                let value = value(column, constant);
                quote! { Value(#value) }
            }
            Initial::Now => quote! { Now },
            Initial::RandomUuid => quote! { RandomUuid },
        };
        quote! { .default(::rightlink::ColumnDefault::#default) }
    });
    let generated = column.generated.map(|always| match always {
        true => quote! { .generated_always() },
        false => quote! { .generated() },
    });
    let collation = column.collation.as_ref().map(|collation| {
        let collation = self::collation(collation);
        quote! { .collate(&#collation) }
    });
    if default.is_none() && generated.is_none() && collation.is_none() {
        return quote! { .field::<#kind>(#name) };
    }
    quote! {
        .with_column(::rightlink::ColumnSchema::of::<#kind>(#name) #default #generated #collation)
    }
}

/// A constant as a value of the column's type.
fn value(column: &Column, constant: &TokenStream) -> TokenStream {
    let kind = &column.kind;
    quote! { ::rightlink::Constant::<#kind>::into_constant(#constant) }
}

fn collation(Collation { locale, deterministic }: &Collation) -> TokenStream {
    quote! { ::rightlink::Collation::unchecked(#locale, #deterministic) }
}

/// The check of one column, called as SQL calls such ones.
fn check(table: &str, column: &Column) -> Option<TokenStream> {
    let Range { low, high, closed } = column.check.as_ref()?;
    let (name, called) = (&column.name, format!("{table}_{}_check", column.name));
    let low = low.as_ref().map(|low| {
        let low = value(column, low);
        quote! { .at_least(#name, #low) }
    });
    let high = high.as_ref().map(|high| {
        let high = value(column, high);
        match closed {
            true => quote! { .at_most(#name, #high) },
            false => quote! { .compare(#name, ::rightlink::Comparison::Less, #high) },
        }
    });
    Some(quote! { .check(#called, ::rightlink::Predicate::new() #low #high) })
}

fn index(index: &Index, columns: &[Column]) -> syn::Result<TokenStream> {
    let name = &index.name;
    let keys = index.keys.iter().map(key);
    let unique = index.unique.then(|| match index.nulls_not_distinct {
        true => quote! { .unique_nulls() },
        false => quote! { .unique() },
    });
    let hash = index.hash.then(|| quote! { .method(::rightlink::IndexMethod::Hash) });
    let included = &index.included;
    let included = (!included.is_empty()).then(|| quote! { .include([#(#included),*]) });
    let terms = index.only.iter().map(|it| term(it, columns)).collect::<syn::Result<Vec<_>>>()?;
    let only =
        (!terms.is_empty()).then(|| quote! { .only(::rightlink::Predicate::new() #(#terms)*) });
    Ok(quote! {
        .index(::rightlink::IndexSchema::new(#name) #(#keys)* #unique #hash #included #only)
    })
}

fn key(key: &Key) -> TokenStream {
    let Key { column, descending, nulls_first, collation } = key;
    let collation = match collation {
        KeyCollation::OfColumn => None,
        KeyCollation::Bytes => Some(quote! { Bytes }),
        KeyCollation::Given(given) => {
            let given = self::collation(given);
            Some(quote! { Given(#given) })
        }
    };
    let collation =
        collation.map(|collation| quote! { collation: ::rightlink::KeyCollation::#collation, });
    quote! {
        .key(::rightlink::KeyColumn {
            descending: #descending,
            nulls_first: #nulls_first,
            #collation
            ..::rightlink::KeyColumn::ascending(#column)
        })
    }
}

/// Its constant is one of the field's type, so the field must be one of this struct.
fn term(Term { column, test }: &Term, columns: &[Column]) -> syn::Result<TokenStream> {
    let name = column.to_string();
    let none = || Error::new(column.span(), format!("no field stands for column `{name}`"));
    let field = columns.iter().find(|field| field.name == name).ok_or_else(none)?;
    Ok(match test {
        Test::Null => quote! { .null(#name) },
        Test::NotNull => quote! { .not_null(#name) },
        Test::Compare(comparison, constant) => {
            let value = value(field, constant);
            quote! { .compare(#name, #comparison, #value) }
        }
    })
}
