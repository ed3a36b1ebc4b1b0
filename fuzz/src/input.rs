//! Bytes read as choices: numbers, values, lengths.
//!
//! Invariants: never fails; when the bytes are used up everything reads as zero, so short inputs
//! mean short runs.

use rightlink::{Decimal, Interval, Type, Value};

/// A cursor over the bytes of an input.
#[derive(Clone, Debug)]
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// Is nothing left?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next `N` bytes, zeroes where there are none.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        let taken = self.bytes(N);
        out[..taken.len()].copy_from_slice(taken);
        out
    }

    /// At most `len` bytes.
    pub fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (head, tail) = self.0.split_at(len.min(self.0.len()));
        self.0 = tail;
        head
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    /// Two bytes as a number.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        assert!(limit > 0, "some number is below the limit");
        if limit <= 256 {
            usize::from(self.byte()) % limit
        } else {
            usize::from(self.u16()) % limit
        }
    }

    /// A type.
    pub fn kind(&mut self) -> Type {
        Type::ALL[self.below(Type::ALL.len())]
    }

    /// A value of `kind`, or null.
    pub fn value(&mut self, kind: Type) -> Value {
        match self.byte() {
            0 => Value::Null,
            _ => self.present(kind),
        }
    }

    /// A value of `kind`.
    pub fn present(&mut self, kind: Type) -> Value {
        match kind {
            Type::Bool => Value::Bool(self.byte() & 1 == 1),
            Type::Int2 => Value::Int2(i16::from_le_bytes(self.array())),
            Type::Int4 => Value::Int4(i32::from_le_bytes(self.array())),
            Type::Int8 => Value::Int8(i64::from_le_bytes(self.array())),
            Type::Float4 => Value::Float4(f32::from_le_bytes(self.array())),
            Type::Float8 => Value::Float8(f64::from_le_bytes(self.array())),
            Type::Text => Value::Text(self.text()),
            Type::Bytes => Value::Bytes(self.sized().to_vec()),
            Type::Uuid => Value::Uuid(self.array()),
            Type::Date => Value::Date(i32::from_le_bytes(self.array())),
            Type::Timestamp => Value::Timestamp(i64::from_le_bytes(self.array())),
            Type::TimestampTz => Value::TimestampTz(i64::from_le_bytes(self.array())),
            Type::Decimal => {
                let (unscaled, scale) = (i128::from_le_bytes(self.array()), u16::from(self.byte()));
                Value::Decimal(Decimal::from_unscaled(unscaled, scale).expect("a small scale"))
            }
            Type::Interval => Value::Interval(Interval {
                months: i32::from_le_bytes(self.array()),
                days: i32::from_le_bytes(self.array()),
                micros: i64::from_le_bytes(self.array()),
            }),
            Type::Time => Value::Time(i64::from(u32::from_le_bytes(self.array())) * 20),
            Type::Json => Value::Json(format!("[{}]", self.byte())),
            other => unreachable!("{other} is missing here"),
        }
    }

    /// Text, bad bytes replaced.
    pub fn text(&mut self) -> String {
        String::from_utf8_lossy(self.sized()).into_owned()
    }

    fn sized(&mut self) -> &'a [u8] {
        let len = usize::from(self.byte());
        self.bytes(len)
    }
}
