//! Numbers by which clients know what the store has numbered.
//!
//! Invariants: numbers below [`FIRST`] are PostgreSQL's own; an object keeps its number until it is
//! dropped. Does not do: numbers of what the store gives none (`catalog`).

/// The number of the schema `public`, as PostgreSQL has it.
pub(crate) const PUBLIC_OID: u32 = 2_200;
/// The first number that PostgreSQL gives to an object of a user.
const FIRST: u32 = 16_384;
/// Where the numbers of types of rows begin: a relation and the type of its rows are two objects.
const ROW_TYPES: u32 = 1 << 29;
/// Where the numbers of types of arrays begin, of elements that were made.
const ARRAY_TYPES: u32 = 1 << 30;

/// Where the numbers of constraints begin that indexes stand for.
const KEYS: u32 = 3 << 29;

/// The number of the table, index or sequence to which the store has given `id`, and of the enum,
/// domain or relation of a composite type of which that is the entry.
pub(crate) fn relation_oid(id: u32) -> u32 {
    FIRST + id
}

/// What the store has given to the object of this number.
pub(crate) fn relation_id(oid: u32) -> Option<u32> {
    oid.checked_sub(FIRST).filter(|id| *id < ROW_TYPES - FIRST)
}

/// The number of the type of the rows of the relation to whose entry the store has given `id`.
pub(crate) fn row_type_oid(id: u32) -> u32 {
    ROW_TYPES + id
}

/// The number of the type of arrays of the type to whose entry the store has given `id`.
pub(crate) fn array_type_oid(id: u32) -> u32 {
    ARRAY_TYPES + id
}

/// The number of the constraint for which the index stands to which the store has given `id`.
pub(crate) fn key_oid(id: u32) -> u32 {
    KEYS + id
}

/// The number of the index that stands for a constraint.
pub(crate) fn relation_of_key(number: u32) -> Option<u32> {
    (KEYS..1 << 31).contains(&number).then(|| relation_oid(number - KEYS))
}
