//! Functions that give rows: their names and types.
//!
//! Invariants: the binder makes a column of each call, so that none is evaluated as a value.
//! Does not do: making the rows (`exec::sets`).

use crate::expr::function::{JsonPart, JsonRows, Registry, SetFunction};
use crate::expr::json::path;
use crate::expr::operators::mismatch;
use crate::types::{RegKind, SqlType};

/// Adds them.
pub(super) fn register(registry: &mut Registry) {
    use SqlType as T;
    let mut add = |name, args: &[SqlType], result, rows| {
        registry.add(name, args, result, |values, _| mismatch(values)).rows = Some(rows);
    };
    for ty in [T::Int4, T::Int8, T::Numeric] {
        add("generate_series", &[ty, ty], ty, SetFunction::Series(ty));
        add("generate_series", &[ty, ty, ty], ty, SetFunction::Series(ty));
    }
    for ty in [T::Timestamp, T::Timestamptz] {
        add("generate_series", &[ty, ty, T::Interval], ty, SetFunction::Series(ty));
    }
    add("string_to_table", &[T::Text, T::Text], T::Text, SetFunction::TextParts);
    add("string_to_table", &[T::Text, T::Text, T::Text], T::Text, SetFunction::TextParts);
    add("pg_options_to_table", &[SqlType::texts()], T::Text, SetFunction::Options);
    add("pg_partition_tree", &[T::Reg(RegKind::Class)], T::Text, SetFunction::Partitions);
    add("pg_get_publication_tables", &[T::Text], T::Text, SetFunction::Publication);
    add("pg_listening_channels", &[], T::Text, SetFunction::Channels);
    for (name, ty, part, as_text) in [
        ("json_array_elements", T::Json, JsonPart::Items, false),
        ("json_array_elements_text", T::Json, JsonPart::Items, true),
        ("jsonb_array_elements", T::Jsonb, JsonPart::Items, false),
        ("jsonb_array_elements_text", T::Jsonb, JsonPart::Items, true),
        ("json_object_keys", T::Json, JsonPart::Keys, true),
        ("jsonb_object_keys", T::Jsonb, JsonPart::Keys, true),
        ("json_each", T::Json, JsonPart::Fields, false),
        ("json_each_text", T::Json, JsonPart::Fields, true),
        ("jsonb_each", T::Jsonb, JsonPart::Fields, false),
        ("jsonb_each_text", T::Jsonb, JsonPart::Fields, true),
    ] {
        let result = if as_text { T::Text } else { ty };
        add(name, &[ty], result, SetFunction::Json(JsonRows { name, part, as_text }));
    }
    for name in ["jsonb_path_query", "jsonb_path_query_tz"] {
        let rows = JsonRows { name, part: JsonPart::Path, as_text: false };
        for count in 2..=path::ARGUMENTS.len() {
            add(name, &path::ARGUMENTS[..count], T::Jsonb, SetFunction::Json(rows));
        }
    }
}
