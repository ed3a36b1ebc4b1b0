//! Order-preserving key bytes: comparing two encoded keys as bytes compares the values.
//!
//! | part of a column | bytes |
//! |---|---|
//! | null, where nulls come first / last | 00 / 02, nothing more |
//! | not null | 01, then the value |
//! | bool, integers, dates, timestamps | big-endian, sign bit flipped |
//! | floats | -0.0 and NaN normalised; sign bit flipped, negative ones complemented |
//! | uuid | as it is |
//! | interval | all of it in microseconds, 16 bytes, as an integer |
//! | decimal | kind, then unless 0 or special: exponent + 2^23 in three bytes, pairs of digits |
//! | | plus 1 each, a terminator 00, all this complemented below zero |
//! | text, bytes | 00 becomes 01 01, 01 becomes 01 02, then a terminator 00 |
//! | collated text | sort key, a terminator 00; if deterministic then the text as above |
//! | descending column | the value's bytes complemented, the null byte not |
//!
//! Invariants: no key of a layout is a proper prefix of another, so a row id that is appended never
//! changes the order of different keys. The same values give the same bytes.
//!
//! Decoding gives values equal to the encoded ones, and the *same* ones only for types that
//! [`is_reversible`] names. A key does not keep -0.0, kinds of NaN, the scale of decimals, the
//! parts of intervals, and collated text. A sort key has no byte 0; where it might (strength
//! `identic`), it is written as bytes are.
//!
//! Does not do: row ids (the access method appends them), bytes of included columns.

mod decode;
mod encode;
mod key_range;
mod key_set;
mod range;

pub use decode::{Malformed, column_len, decode, decode_column};
pub use encode::{encode, encode_column, encode_prefix};
pub use key_range::{KeyRange, successor};
pub use key_set::{Condition, Direction, KeySet, Standing};
pub use range::{ColumnRange, prefix_range};

use crate::collation::Collation;
use crate::config::MAX_KEY_BYTES;
use crate::datum::Type;
use crate::ids::RowId;

/// Longest encoded key without its row id.
pub const MAX_ENCODED: usize = MAX_KEY_BYTES - RowId::SIZE;

const NULL_FIRST: u8 = 0x00;
const PRESENT: u8 = 0x01;
const NULL_LAST: u8 = 0x02;
/// Ends text and bytes; smaller than every byte that can stand in its place.
const TERMINATOR: u8 = 0x00;
/// Stands before [`ESCAPED_ZERO`] or [`ESCAPED_ONE`].
const ESCAPE: u8 = 0x01;
const ESCAPED_ZERO: u8 = 0x01;
const ESCAPED_ONE: u8 = 0x02;
/// Makes exponents of decimals positive.
const DECIMAL_BIAS: i32 = 1 << 23;

/// How one column of a key is ordered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyColumn {
    /// Type of the values.
    pub ty: Type,
    /// Largest first?
    pub descending: bool,
    /// Do nulls come before all values (whatever the direction)?
    pub nulls_first: bool,
    /// How text compares; `None`: by its bytes.
    pub collation: Option<Collation>,
}

impl KeyColumn {
    /// Ascending, nulls last.
    pub const fn ascending(ty: Type) -> Self {
        Self { ty, descending: false, nulls_first: false, collation: None }
    }

    /// Descending, nulls first: the exact reverse of [`KeyColumn::ascending`].
    pub const fn descending(ty: Type) -> Self {
        Self { ty, descending: true, nulls_first: true, collation: None }
    }

    /// Does decoding give back exactly the encoded value?
    pub const fn is_reversible(&self) -> bool {
        is_reversible(self.ty) && self.collation.is_none()
    }

    const fn null_byte(&self) -> u8 {
        if self.nulls_first { NULL_FIRST } else { NULL_LAST }
    }

    /// What every byte of a value is combined with.
    const fn mask(&self) -> u8 {
        if self.descending { 0xFF } else { 0x00 }
    }
}

/// Does decoding give back exactly the encoded value, so that an index-only scan may return it?
pub const fn is_reversible(ty: Type) -> bool {
    !matches!(ty, Type::Float4 | Type::Float8 | Type::Decimal | Type::Interval)
}

#[cfg(test)]
pub(crate) mod tests;
