//! Documents of many rows: `json_agg`, `json_object_agg` and their siblings for `jsonb`.
//!
//! Invariants: what is gathered is the text of the document without its end; a `jsonb` is made of
//! the whole text.
//! Does not do: distinct values, orders (`aggregate`).

use super::convert::{write_key, write_value};
use crate::error::Result;
use crate::types::json::{Jsonb, bytes_to_read};
use crate::types::{Datum, SqlType, Times};

/// What is made of the rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum JsonAgg {
    /// An array of their values.
    Items,
    /// An object of their keys and values.
    Fields,
}

impl JsonAgg {
    /// The aggregate that gives a value of type `result`.
    pub(crate) fn name(self, result: SqlType) -> &'static str {
        match (self, result) {
            (JsonAgg::Items, SqlType::Json) => "json_agg",
            (JsonAgg::Items, _) => "jsonb_agg",
            (JsonAgg::Fields, SqlType::Json) => "json_object_agg",
            (JsonAgg::Fields, _) => "jsonb_object_agg",
        }
    }

    /// Takes a row in; with `feeds` items have lines of their own, as those that are arrays do.
    /// Returns by how many bytes the text has grown, with what it will take to make
    /// a `jsonb` of it.
    ///
    /// # Errors
    /// `22023` for a key that is null or not plain.
    pub(crate) fn add(
        self,
        text: &mut Datum,
        [first, second]: [&Datum; 2],
        result: SqlType,
        feeds: bool,
    ) -> Result<usize> {
        let mut all = match std::mem::take(text) {
            Datum::Text(all) => all,
            _ => String::new(),
        };
        let before = all.len();
        let begin = if self == JsonAgg::Items { "[" } else { "{ " };
        all.push_str(if before == 0 { begin } else { ", " });
        match self {
            JsonAgg::Items => {
                if before > 0 && feeds && !first.is_null() {
                    all.push_str("\n ");
                }
                write_value(first, &Times::utc(), &mut all);
            }
            JsonAgg::Fields => {
                write_key(first, &Times::utc(), &mut all)?;
                all.push_str(" : ");
                write_value(second, &Times::utc(), &mut all);
            }
        }
        let new = &all[before..];
        let to_read = if result == SqlType::Jsonb { bytes_to_read(new) } else { 0 };
        let grown = new.len() + to_read;
        *text = Datum::Text(all);
        Ok(grown)
    }

    /// The document of the rows that were taken in.
    pub(crate) fn finish(self, text: Datum, result: SqlType) -> Result<Datum> {
        let Datum::Text(mut all) = text else { return Ok(Datum::Null) };
        all.push_str(if self == JsonAgg::Items { "]" } else { " }" });
        match result {
            SqlType::Jsonb => Jsonb::parse(&all).map(Datum::Jsonb),
            _ => Ok(Datum::Json(all)),
        }
    }
}
