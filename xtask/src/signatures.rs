//! Reads a function's signature: tuples among its parameters, its arguments when tuples are taken
//! apart, and the parts of a tuple that it returns.
//!
//! References and parentheses around a tuple change nothing. Of generic types only `Result` and
//! `Option` are looked into, and only in a returned type. `self` is not an argument.

use syn::{FnArg, GenericArgument, Pat, PathArguments, ReturnType, Type};

/// The tuples of one signature.
#[derive(Debug, PartialEq)]
pub(crate) struct Signature {
    /// Parameters that are tuples, by pattern or by type.
    pub(crate) tuple_parameters: usize,
    /// Arguments, where a tuple counts its parts.
    pub(crate) flattened: usize,
    /// Parts of the returned tuple; 0 if something else is returned.
    pub(crate) returned_parts: usize,
}

impl Signature {
    /// Reads a parsed signature.
    pub(crate) fn new(sig: &syn::Signature) -> Signature {
        let mut signature = Signature { tuple_parameters: 0, flattened: 0, returned_parts: 0 };
        for input in &sig.inputs {
            let FnArg::Typed(typed) = input else { continue };
            let is_tuple = tuple(&typed.ty).is_some() || is_tuple_pattern(&typed.pat);
            signature.tuple_parameters += usize::from(is_tuple);
            signature.flattened += parts(&typed.ty);
        }
        if let ReturnType::Type(_, ty) = &sig.output {
            signature.returned_parts = tuple(carried(ty)).map_or(0, |tuple| tuple.elems.len());
        }
        assert!(signature.tuple_parameters <= sig.inputs.len());
        signature
    }
}

/// The type as a tuple with parts.
fn tuple(ty: &Type) -> Option<&syn::TypeTuple> {
    match ty {
        Type::Tuple(tuple) if !tuple.elems.is_empty() => Some(tuple),
        Type::Reference(inner) => tuple(&inner.elem),
        Type::Paren(inner) => tuple(&inner.elem),
        Type::Group(inner) => tuple(&inner.elem),
        _ => None,
    }
}

fn is_tuple_pattern(pat: &Pat) -> bool {
    match pat {
        Pat::Tuple(_) => true,
        Pat::Reference(inner) => is_tuple_pattern(&inner.pat),
        Pat::Paren(inner) => is_tuple_pattern(&inner.pat),
        _ => false,
    }
}

/// How many values a parameter of this type passes.
fn parts(ty: &Type) -> usize {
    tuple(ty).map_or(1, |tuple| tuple.elems.iter().map(parts).sum())
}

/// What a `Result` or an `Option` carries, else the type itself.
fn carried(ty: &Type) -> &Type {
    let Type::Path(path) = ty else { return ty };
    let Some(last) = path.path.segments.last() else { return ty };
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return ty };
    match arguments.args.first() {
        Some(GenericArgument::Type(inner)) if last.ident == "Result" || last.ident == "Option" => {
            carried(inner)
        }
        _ => ty,
    }
}

#[cfg(test)]
mod tests {
    use super::Signature;

    fn read(text: &str) -> (usize, usize, usize) {
        let sig: syn::Signature = syn::parse_str(text).expect("a signature");
        let read = Signature::new(&sig);
        (read.tuple_parameters, read.flattened, read.returned_parts)
    }

    #[test]
    fn tuples_among_parameters_are_taken_apart() {
        assert_eq!(read("fn f(&self, a: u8, b: [u8; 2])"), (0, 2, 0));
        assert_eq!(read("fn f(a: u8, (b, c): (u8, u16))"), (1, 3, 0));
        assert_eq!(read("fn f(pair: &(u8, (u8, u8)), &(a, b): &(u8, u8))"), (2, 5, 0));
        assert_eq!(read("fn f(unit: (), all: &[(u8, u8)], run: impl Fn((u8, u8)))"), (0, 3, 0));
        assert_eq!(read("fn f((a, b): Pair, Wrapper(c): Wrapper)"), (1, 2, 0));
    }

    #[test]
    fn a_returned_tuple_is_found_in_a_result() {
        assert_eq!(read("fn f() -> (u8, u8, u8)"), (0, 0, 3));
        assert_eq!(read("fn f() -> io::Result<Option<(u8, u8, u8, u8)>>"), (0, 0, 4));
        assert_eq!(read("fn f() -> Result<u8, (u8, u8, u8)>"), (0, 0, 0));
        assert_eq!(read("fn f() -> Vec<(u8, u8, u8)>"), (0, 0, 0));
        assert_eq!(read("fn f() -> ()"), (0, 0, 0));
    }
}
