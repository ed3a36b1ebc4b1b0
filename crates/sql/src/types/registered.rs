//! Objects of catalogs as values: `regclass` and its kind.
//!
//! Such a value is a number. It is shown as the name of the object, which is looked up when the
//! value is made (`expr::catalog`).
//!
//! Invariants: values compare by their numbers alone.
//! Does not do: looking names up.

use std::sync::Arc;

use crate::types::Datum;

/// Which catalog the numbers of a type are of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum RegKind {
    /// `regclass`: `pg_class`
    Class,
    /// `regtype`: `pg_type`
    Type,
    /// `regproc`: `pg_proc`, by name
    Proc,
    /// `regprocedure`: `pg_proc`, by name and arguments
    Procedure,
    /// `regoperator`: `pg_operator`, by name and operands
    Operator,
    /// `regnamespace`: `pg_namespace`
    Namespace,
    /// `regrole`: `pg_roles`
    Role,
}

impl RegKind {
    /// The number by which clients know the type.
    pub(crate) const fn oid(self) -> u32 {
        match self {
            RegKind::Class => 2205,
            RegKind::Type => 2206,
            RegKind::Proc => 24,
            RegKind::Procedure => 2202,
            RegKind::Operator => 2204,
            RegKind::Namespace => 4089,
            RegKind::Role => 4096,
        }
    }

    /// The name of the type.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            RegKind::Class => "regclass",
            RegKind::Type => "regtype",
            RegKind::Proc => "regproc",
            RegKind::Procedure => "regprocedure",
            RegKind::Operator => "regoperator",
            RegKind::Namespace => "regnamespace",
            RegKind::Role => "regrole",
        }
    }
}

/// The number of an object and the name that it is shown by.
#[derive(Clone, Debug)]
pub struct Registered {
    pub(crate) kind: RegKind,
    pub(crate) oid: u32,
    pub(crate) shown: String,
}

impl PartialEq for Registered {
    fn eq(&self, other: &Registered) -> bool {
        self.oid == other.oid
    }
}

impl Registered {
    /// A value that shows the number `oid` as `shown`; without a name as the number itself.
    pub(crate) fn datum(kind: RegKind, oid: u32, shown: Option<String>) -> Datum {
        let shown = shown.unwrap_or_else(|| if oid == 0 { "-".into() } else { oid.to_string() });
        Datum::Reg(Arc::new(Registered { kind, oid, shown }))
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Registered>() + self.shown.capacity()
    }
}
