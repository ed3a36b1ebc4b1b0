//! Strings of bits: PostgreSQL's `bit(n)` and `bit varying(n)`.
//!
//! Stored bytes compare as the values do, which compare by their bytes and then by their lengths:
//! each byte has a one in front of it, and behind the last stand a zero and how many of its bits
//! count.
//!
//! Invariants: bits behind the last are zeros; there are as many bytes as the bits need.
//! Does not do: declared lengths (`declared`), functions (`expr::bits`).

use std::cmp::Ordering;

use super::SqlType;
use crate::error::{Result, SqlError, code};

/// Most bits of a value, as many as text of the largest size says.
const MAX_BITS: usize = i32::MAX as usize - 7;

/// A string of bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bits {
    bytes: Box<[u8]>,
    len: u32,
}

impl Bits {
    /// The first bits of `bytes`, zeros where these are fewer.
    pub(crate) fn new(mut bytes: Vec<u8>, len: usize) -> Bits {
        bytes.resize(len.div_ceil(8), 0);
        let unused = bytes.len() * 8 - len;
        if let Some(last) = bytes.last_mut() {
            *last &= u8::MAX << unused;
        }
        let len = u32::try_from(len).expect("lengths are limited");
        Bits { bytes: bytes.into_boxed_slice(), len }
    }

    /// The lowest bits of a number, the sign in front where they are more.
    pub(crate) fn of_number(number: i64, len: usize) -> Bits {
        let fill = if number < 0 { u8::MAX } else { 0 };
        let mut bytes = vec![fill; len.div_ceil(8).max(8)];
        let start = bytes.len() - 8;
        bytes[start..].copy_from_slice(&number.to_be_bytes());
        let whole = Bits::new(bytes, start * 8 + 64);
        whole.slice(whole.len() - len, len)
    }

    /// The bits as a number of so many bits; `None` if they are more.
    pub(crate) fn to_number(&self, width: usize) -> Option<i64> {
        if self.len() > width {
            return None;
        }
        let all = self.bytes.iter().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
        let number = all >> (self.bytes.len() * 8 - self.len());
        Some(if width == 32 { i64::from(number as u32 as i32) } else { number as i64 })
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// The bytes that hold them.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// One of them, counted from the left.
    pub(crate) fn get(&self, at: usize) -> bool {
        self.bytes[at / 8] & (0x80 >> (at % 8)) != 0
    }

    /// The same with another bit at this place.
    pub(crate) fn with(&self, at: usize, bit: bool) -> Bits {
        let mut changed = self.clone();
        let mask = 0x80 >> (at % 8);
        let byte = &mut changed.bytes[at / 8];
        *byte = if bit { *byte | mask } else { *byte & !mask };
        changed
    }

    /// So many bits from this place on.
    pub(crate) fn slice(&self, from: usize, len: usize) -> Bits {
        let (skipped, shift) = (&self.bytes[from / 8..], from % 8);
        let byte = |at: usize| u16::from(skipped.get(at).copied().unwrap_or(0));
        let both = |at: usize| ((byte(at) << 8 | byte(at + 1)) >> (8 - shift)) as u8;
        Bits::new((0..len.div_ceil(8)).map(both).collect(), len)
    }

    /// With others behind them.
    ///
    /// # Errors
    /// `54000` for more bits than a value has.
    pub(crate) fn joined(&self, other: &Bits) -> Result<Bits> {
        let len = self.len() + other.len();
        check_length(len)?;
        let mut bytes = self.bytes.to_vec();
        bytes.resize(len.div_ceil(8) + 1, 0);
        let (start, shift) = (self.len() / 8, self.len() % 8);
        for (at, byte) in other.bytes.iter().enumerate() {
            bytes[start + at] |= byte >> shift;
            bytes[start + at + 1] |= ((u16::from(*byte) << 8 >> shift) & 0xff) as u8;
        }
        Ok(Bits::new(bytes, len))
    }

    /// As many bits, each made of those of both at its place.
    pub(crate) fn combined(&self, other: &Bits, op: fn(u8, u8) -> u8) -> Bits {
        let pairs = self.bytes.iter().zip(&other.bytes);
        Bits::new(pairs.map(|(a, b)| op(*a, *b)).collect(), self.len())
    }

    /// How many bits of the last byte count.
    fn last_bits(&self) -> u8 {
        (self.len() - self.bytes.len().saturating_sub(1) * 8) as u8
    }

    /// What the store keeps.
    pub(crate) fn to_stored(&self) -> Vec<u8> {
        let mut out = Packer::default();
        for byte in &self.bytes {
            out.push(1, 1);
            out.push(*byte, 8);
        }
        out.push(0, 1);
        out.push(self.last_bits(), 4);
        out.finish()
    }

    /// The value that is stored so.
    pub(crate) fn from_stored(stored: &[u8]) -> Option<Bits> {
        let packed = Bits::new(stored.to_vec(), stored.len() * 8);
        let (mut bytes, mut at) = (Vec::new(), 0);
        while at + 5 <= packed.len() {
            if !packed.get(at) {
                let last = usize::from(packed.slice(at + 1, 4).bytes[0] >> 4);
                let len = (bytes.len().max(1) - 1) * 8 + last;
                return (len.div_ceil(8) == bytes.len()).then(|| Bits::new(bytes, len));
            }
            if at + 9 > packed.len() {
                return None;
            }
            bytes.push(packed.slice(at + 1, 8).bytes[0]);
            at += 9;
        }
        None
    }

    /// As on the wire.
    pub(crate) fn to_binary(&self) -> Vec<u8> {
        let mut out = self.len.to_be_bytes().to_vec();
        out.extend(&self.bytes);
        out
    }

    /// Reads what [`Bits::to_binary`] writes.
    ///
    /// # Errors
    /// `22P03` for bytes that are none.
    pub(crate) fn from_binary(bytes: &[u8]) -> Result<Bits> {
        let bad = |what: &str| SqlError::new(code::INVALID_BINARY, what);
        let Some((len, rest)) = bytes.split_first_chunk::<4>() else {
            return Err(SqlError::new("08P01", "insufficient data left in message"));
        };
        let len = i32::from_be_bytes(*len);
        let len = usize::try_from(len).ok().filter(|len| *len <= MAX_BITS);
        let len = len.ok_or_else(|| bad("invalid length in external bit string"))?;
        match rest.len().cmp(&len.div_ceil(8)) {
            Ordering::Less => Err(SqlError::new("08P01", "insufficient data left in message")),
            Ordering::Greater => Err(bad("incorrect binary data format")),
            Ordering::Equal => Ok(Bits::new(rest.to_vec(), len)),
        }
    }

    /// Reads ones and zeros, or hexadecimal digits behind an `x`.
    ///
    /// # Errors
    /// `22P02` for other digits.
    pub(crate) fn parse(text: &str) -> Result<Bits> {
        match text.split_at_checked(1) {
            Some(("b" | "B", digits)) => Bits::parse_digits(digits, 1),
            Some(("x" | "X", digits)) => Bits::parse_digits(digits, 4),
            _ => Bits::parse_digits(text, 1),
        }
    }

    /// Reads digits that have so many bits each.
    ///
    /// # Errors
    /// `22P02` for other digits.
    pub(crate) fn parse_digits(digits: &str, width: usize) -> Result<Bits> {
        check_length(digits.len() * width)?;
        let mut out = Packer::default();
        for digit in digits.chars() {
            match digit.to_digit(1 << width) {
                Some(value) => out.push(value as u8, width as u8),
                None => {
                    let base = if width == 1 { "binary" } else { "hexadecimal" };
                    let message = format!("\"{digit}\" is not a valid {base} digit");
                    return Err(SqlError::new(code::INVALID_TEXT, message));
                }
            }
        }
        Ok(Bits::new(out.finish(), digits.len() * width))
    }

    /// Ones and zeros.
    pub(crate) fn to_text(&self) -> String {
        (0..self.len()).map(|at| if self.get(at) { '1' } else { '0' }).collect()
    }

    /// As a column of a declared length holds it: a cast that is written cuts it or fills it up.
    ///
    /// # Errors
    /// `22026` and `22001` for another length, unless a cast is written.
    pub(crate) fn fit(self, ty: SqlType, length: usize, written: bool) -> Result<Bits> {
        let is_fixed = ty == SqlType::Bit;
        match self.len().cmp(&length) {
            Ordering::Equal => Ok(self),
            Ordering::Less if !is_fixed => Ok(self),
            _ if written => Ok(Bits::new(self.bytes.into_vec(), length)),
            _ if is_fixed => {
                let len = self.len();
                let message = format!("bit string length {len} does not match type bit({length})");
                Err(SqlError::new(code::LENGTH_MISMATCH, message))
            }
            _ => {
                let message = format!("bit string too long for type bit varying({length})");
                Err(SqlError::new(code::STRING_TOO_LONG, message))
            }
        }
    }
}

fn check_length(len: usize) -> Result<()> {
    if len > MAX_BITS {
        let message = format!("bit string length exceeds the maximum allowed ({MAX_BITS})");
        return Err(SqlError::new(code::PROGRAM_LIMIT, message));
    }
    Ok(())
}

impl PartialOrd for Bits {
    fn partial_cmp(&self, other: &Bits) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bits {
    fn cmp(&self, other: &Bits) -> Ordering {
        self.bytes.cmp(&other.bytes).then_with(|| self.len.cmp(&other.len))
    }
}

/// Puts bits one behind the other into bytes.
#[derive(Default)]
struct Packer {
    bytes: Vec<u8>,
    /// Bits of the last byte that are taken; 0 if all are.
    taken: u8,
}

impl Packer {
    /// The lowest bits of `value`, so many.
    fn push(&mut self, value: u8, width: u8) {
        let wide = u16::from(value) << (16 - width) >> self.taken;
        let [high, low] = wide.to_be_bytes();
        match self.bytes.last_mut() {
            Some(last) if self.taken > 0 => *last |= high,
            _ => self.bytes.push(high),
        }
        let taken = self.taken + width;
        if taken > 8 {
            self.bytes.push(low);
        }
        self.taken = taken % 8;
    }

    fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_bytes_compare_as_values_do_and_come_back() {
        let mut random = 5_u64;
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            random >> 33
        };
        let mut values = vec![Bits::new(Vec::new(), 0)];
        for _ in 0..500 {
            let len = (next() % 30) as usize;
            let bytes = (0..4).map(|_| [0, 0x80, 1, 0xff][(next() % 4) as usize]).collect();
            values.push(Bits::new(bytes, len));
        }
        for a in &values {
            assert_eq!(Bits::from_stored(&a.to_stored()), Some(a.clone()), "{a:?}");
            assert_eq!(Bits::from_binary(&a.to_binary()).ok(), Some(a.clone()));
            assert_eq!(Bits::parse(&a.to_text()).ok(), Some(a.clone()));
            for b in &values {
                assert_eq!(a.to_stored().cmp(&b.to_stored()), a.cmp(b), "{a:?} {b:?}");
                let joined = a.joined(b).unwrap();
                assert_eq!(joined.to_text(), a.to_text() + &b.to_text());
                assert_eq!(joined.slice(a.len(), b.len()), *b);
            }
        }
    }

    #[test]
    fn bytes_of_any_length_are_refused_or_read() {
        for len in 0..20 {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let _ = Bits::from_stored(&vec![byte; len]);
                let _ = Bits::from_binary(&vec![byte; len]);
            }
        }
    }
}
