//! The types that a client declares for the parameters of a statement, with their numbers.
//!
//! Several numbers may stand for one type: `varchar` is a text. A client such as pgjdbc gives up
//! where the server tells it another number than it declared. So the types keep their numbers.
//!
//! Does not do: finding the type of a number (`prepared`).

use crate::types::SqlType;

/// Declared types; of a parameter without one the type is unknown.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct DeclaredTypes {
    types: Vec<SqlType>,
    oids: Vec<u32>,
}

impl FromIterator<(SqlType, u32)> for DeclaredTypes {
    fn from_iter<I: IntoIterator<Item = (SqlType, u32)>>(all: I) -> DeclaredTypes {
        let (types, oids) = all.into_iter().unzip();
        DeclaredTypes { types, oids }
    }
}

impl DeclaredTypes {
    pub(super) fn types(&self) -> &[SqlType] {
        &self.types
    }

    /// The numbers by which a client is told the types of its parameters: the declared number where
    /// it stands for the type.
    pub(super) fn oids_of(&self, bound: &[SqlType]) -> Vec<u32> {
        let told = |(at, ty): (usize, &SqlType)| {
            let declared = self.oids.get(at).copied();
            declared.filter(|oid| SqlType::from_oid(*oid) == Some(*ty)).unwrap_or(ty.oid())
        };
        bound.iter().enumerate().map(told).collect()
    }
}
