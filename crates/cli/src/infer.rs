//! Column types from a sample of a CSV file.
//!
//! Invariants: every value of the sample can be read as the type chosen, and loses nothing by it:
//! a number with a leading zero stays text, an integer beyond int8 does not become a float.
//! Does not do: a promise about rows beyond the sample; those are refused by name when they do not
//! fit.

use rightlink::{Type, Value};

/// Narrowest first; the first that holds the whole sample is taken.
const LADDER: [Type; 8] = [
    Type::Bool,
    Type::Int4,
    Type::Int8,
    Type::Uuid,
    Type::Float8,
    Type::Date,
    Type::Timestamp,
    Type::TimestampTz,
];

/// The types of `columns` columns, where `null` is no value. A column without a value is text.
pub(crate) fn types(columns: usize, sample: &[&[String]], null: &str) -> Vec<Type> {
    let mut ladders = vec![LADDER.to_vec(); columns];
    let mut seen = vec![false; columns];
    for record in sample {
        assert_eq!(record.len(), columns, "the sample has rows of the right length only");
        for (position, field) in record.iter().enumerate().filter(|(_, field)| *field != null) {
            seen[position] = true;
            ladders[position].retain(|ty| could_be(*ty, field));
        }
    }
    let first = |(ladder, seen): (&Vec<Type>, bool)| {
        if seen { ladder.first().copied().unwrap_or(Type::Text) } else { Type::Text }
    };
    ladders.iter().zip(seen).map(first).collect()
}

/// Would a person call this a value of type `ty`?
fn could_be(ty: Type, field: &str) -> bool {
    let looks_right = match ty {
        Type::Bool => matches!(field.to_ascii_lowercase().as_str(), "true" | "false"),
        Type::Int4 | Type::Int8 => !has_leading_zero(field),
        Type::Float8 => !has_leading_zero(field) && is_short_number(field),
        // "infinity" and the like are words until a schema says otherwise.
        Type::Date | Type::Timestamp | Type::TimestampTz => field.starts_with(is_digit),
        _ => true,
    };
    looks_right && Value::parse(ty, field).is_ok()
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit()
}

/// 007 is a name, 0.7 is a number.
fn has_leading_zero(field: &str) -> bool {
    let digits = field.trim_start_matches(['+', '-']);
    digits.strip_prefix('0').is_some_and(|rest| rest.starts_with(is_digit))
}

/// A float loses digits of an integer beyond int8, and "nan" is a word.
fn is_short_number(field: &str) -> bool {
    let digits = field.trim_start_matches(['+', '-']);
    let starts = digits.starts_with(|c: char| is_digit(c) || c == '.');
    starts && (field.contains(['.', 'e', 'E']) || field.parse::<i64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(fields: &[&str]) -> Type {
        let rows: Vec<[String; 1]> = fields.iter().map(|field| [(*field).to_owned()]).collect();
        types(1, &rows.iter().map(|row| row.as_slice()).collect::<Vec<_>>(), "")[0]
    }

    #[test]
    fn the_narrowest_type_that_holds_all_is_taken() {
        assert_eq!(of(&["1", "-2"]), Type::Int4);
        assert_eq!(of(&["1", "3000000000"]), Type::Int8);
        assert_eq!(of(&["1", "2.5"]), Type::Float8);
        assert_eq!(of(&["1", "x"]), Type::Text);
        assert_eq!(of(&["true", "False"]), Type::Bool);
        assert_eq!(of(&["2013-01-01"]), Type::Date);
        assert_eq!(of(&["2013-01-01", "2013-01-01 10:00"]), Type::Timestamp);
        assert_eq!(of(&["2013-01-01T10:00:00Z"]), Type::TimestampTz);
        assert_eq!(of(&["6b29fc40-ca47-1067-b31d-00dd010662da"]), Type::Uuid);
    }

    #[test]
    fn empty_fields_say_nothing() {
        assert_eq!(of(&["", "7", ""]), Type::Int4);
        assert_eq!(of(&["", ""]), Type::Text);
        assert_eq!(of(&[]), Type::Text);
    }

    #[test]
    fn nothing_is_lost() {
        assert_eq!(of(&["00501"]), Type::Text);
        assert_eq!(of(&["-007"]), Type::Text);
        assert_eq!(of(&["0", "0.5"]), Type::Float8);
        assert_eq!(of(&["123456789012345678901"]), Type::Text);
        assert_eq!(of(&["12345678901234567890123456789012"]), Type::Uuid);
        assert_eq!(of(&["nan"]), Type::Text);
        assert_eq!(of(&["infinity"]), Type::Text);
        assert_eq!(of(&["1", "0"]), Type::Int4);
    }

    #[test]
    fn columns_do_not_mix() {
        let rows = [["1".to_owned(), "a".to_owned()], ["2".to_owned(), String::new()]];
        assert_eq!(types(2, &[&rows[0][..], &rows[1][..]], ""), [Type::Int4, Type::Text]);
    }
}
