//! Constants and conditions that attributes tell: ranges for checks, terms of partial indexes.
//!
//! Invariants: a constant is passed on as it is written, with its place, so that the compiler says
//! there what is wrong with its type. Does not do: values; the engine makes them for the field's
//! type.

use proc_macro2::{TokenStream, TokenTree};
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{Error, Ident, Token, parenthesized, token};

/// `0..=150`, `1..`, `..100`.
pub(crate) struct Range {
    pub(crate) low: Option<TokenStream>,
    pub(crate) high: Option<TokenStream>,
    /// Is the high end in the range?
    pub(crate) closed: bool,
}

/// `column < constant` or `column is null`.
pub(crate) struct Term {
    pub(crate) column: Ident,
    pub(crate) test: Test,
}

pub(crate) enum Test {
    Null,
    NotNull,
    /// A variant of the engine's `Comparison`, and the constant.
    Compare(TokenStream, TokenStream),
}

impl Parse for Range {
    fn parse(input: ParseStream<'_>) -> syn::Result<Range> {
        let whole: TokenStream = input.parse()?;
        let wants = || {
            let what = "a check is a range of constants: check(0..=150), check(1..), check(..100)";
            Error::new_spanned(&whole, what)
        };
        let tokens: Vec<TokenTree> = whole.clone().into_iter().collect();
        let at = tokens.windows(2).position(|two| two.iter().all(|it| is(it, '.')));
        let (low, rest) = tokens.split_at(at.ok_or_else(wants)?);
        let closed = rest.get(2).is_some_and(|it| is(it, '='));
        let high = &rest[2 + usize::from(closed)..];
        if high.is_empty() && (low.is_empty() || closed) {
            return Err(wants());
        }
        Ok(Range { low: some(low), high: some(high), closed })
    }
}

fn is(token: &TokenTree, letter: char) -> bool {
    matches!(token, TokenTree::Punct(found) if found.as_char() == letter)
}

fn some(tokens: &[TokenTree]) -> Option<TokenStream> {
    (!tokens.is_empty()).then(|| tokens.iter().cloned().collect())
}

impl Parse for Term {
    fn parse(input: ParseStream<'_>) -> syn::Result<Term> {
        let column: Ident = input.parse()?;
        if input.peek(Ident) {
            return Ok(Term { test: null(input, &column)?, column });
        }
        let comparison = comparison(input, &column)?;
        let constant = constant(input);
        if constant.is_empty() {
            return Err(Error::new(column.span(), format!("`{column}` is compared with nothing")));
        }
        Ok(Term { column, test: Test::Compare(comparison, constant) })
    }
}

/// `is null` or `is not null`.
fn null(input: ParseStream<'_>, column: &Ident) -> syn::Result<Test> {
    let mut words = Vec::new();
    while input.peek(Ident) {
        words.push(input.parse::<Ident>()?.to_string());
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["is", "null"] => Ok(Test::Null),
        ["is", "not", "null"] => Ok(Test::NotNull),
        _ => Err(Error::new(column.span(), unknown(column))),
    }
}

fn comparison(input: ParseStream<'_>, column: &Ident) -> syn::Result<TokenStream> {
    let kind = if input.peek(Token![=]) {
        input.parse::<Token![=]>().map(|_| quote!(Equal))
    } else if input.peek(Token![!=]) {
        input.parse::<Token![!=]>().map(|_| quote!(NotEqual))
    } else if input.peek(Token![<=]) {
        input.parse::<Token![<=]>().map(|_| quote!(AtMost))
    } else if input.peek(Token![>=]) {
        input.parse::<Token![>=]>().map(|_| quote!(AtLeast))
    } else if input.peek(Token![<]) {
        input.parse::<Token![<]>().map(|_| quote!(Less))
    } else if input.peek(Token![>]) {
        input.parse::<Token![>]>().map(|_| quote!(Greater))
    } else {
        Err(Error::new(column.span(), unknown(column)))
    };
    kind.map(|kind| quote!(::rightlink::Comparison::#kind))
}

fn unknown(column: &Ident) -> String {
    format!("after `{column}`: = != < <= > >= and a constant, or: is null, is not null")
}

/// All up to the next comma.
pub(crate) fn constant(input: ParseStream<'_>) -> TokenStream {
    let mut tokens = Vec::new();
    while !input.is_empty() && !input.peek(Token![,]) {
        match input.parse::<TokenTree>() {
            Ok(token) => tokens.push(token),
            Err(_) => break,
        }
    }
    tokens.into_iter().collect()
}

/// What stands in the parentheses that come now, if some do.
pub(crate) fn in_parentheses(input: ParseStream<'_>) -> syn::Result<Option<Vec<String>>> {
    if !input.peek(token::Paren) {
        return Ok(None);
    }
    let content;
    parenthesized!(content in input);
    let words = content.parse_terminated(<Ident as syn::ext::IdentExt>::parse_any, Token![,])?;
    Ok(Some(words.iter().map(Ident::to_string).collect()))
}
