//! Names of types: the full ones of SQL, the short ones of `pg_type`, and types by both.
//!
//! Invariants: `varchar` has a name and a number of its own, though its values are texts.
//! Does not do: names of types that users made, schemas (`catalog::types`).

use std::collections::HashMap;
use std::sync::OnceLock;

use super::SqlType;

/// The name of text with a limit, or declared as such.
pub(crate) const VARCHAR: &str = "character varying";
pub(crate) const VARCHAR_ARRAY: &str = "character varying[]";
pub(crate) const VARCHAR_OID: u32 = 1043;
/// Their arrays.
pub(crate) const VARCHAR_ARRAY_OID: u32 = 1015;

/// The type of a literal before it has one.
const UNKNOWN_OID: u32 = 705;

/// Types that no value here has, which the catalogs name: of what functions take and give, and of
/// columns of `information_schema`.
const PSEUDO: [(u32, &str); 29] = [
    (269, "table_am_handler"),
    (325, "index_am_handler"),
    (1263, "cstring[]"),
    (2249, "record"),
    (2275, "cstring"),
    (2276, "\"any\""),
    (2277, "anyarray"),
    (2278, "void"),
    (2279, "trigger"),
    (2280, "language_handler"),
    (2281, "internal"),
    (2283, "anyelement"),
    (2287, "record[]"),
    (2776, "anynonarray"),
    (3500, "anyenum"),
    (3838, "event_trigger"),
    (5077, "anycompatible"),
    (5078, "anycompatiblearray"),
    (5079, "anycompatiblenonarray"),
    (13_220, "information_schema.cardinal_number[]"),
    (13_221, "information_schema.cardinal_number"),
    (13_223, "information_schema.character_data[]"),
    (13_224, "information_schema.character_data"),
    (13_225, "information_schema.sql_identifier[]"),
    (13_226, "information_schema.sql_identifier"),
    (13_231, "information_schema.time_stamp[]"),
    (13_232, "information_schema.time_stamp"),
    (13_233, "information_schema.yes_or_no[]"),
    (13_234, "information_schema.yes_or_no"),
];

impl SqlType {
    /// Name in messages and in `pg_typeof`.
    pub const fn name(self) -> &'static str {
        match self {
            SqlType::Bool => "boolean",
            SqlType::Int2 => "smallint",
            SqlType::Int4 => "integer",
            SqlType::Int8 => "bigint",
            SqlType::Float4 => "real",
            SqlType::Float8 => "double precision",
            SqlType::Numeric => "numeric",
            SqlType::Text => "text",
            SqlType::Bpchar => "character",
            SqlType::Bytea => "bytea",
            SqlType::Uuid => "uuid",
            SqlType::Date => "date",
            SqlType::Timestamp => "timestamp without time zone",
            SqlType::Timestamptz => "timestamp with time zone",
            SqlType::Interval => "interval",
            SqlType::Time => "time without time zone",
            SqlType::Timetz => "time with time zone",
            SqlType::Json => "json",
            SqlType::Jsonb => "jsonb",
            SqlType::Jsonpath => "jsonpath",
            SqlType::Inet => "inet",
            SqlType::Cidr => "cidr",
            SqlType::Bit => "bit",
            SqlType::Varbit => "bit varying",
            SqlType::Lsn => "pg_lsn",
            SqlType::Tid => "tid",
            SqlType::Oid => "oid",
            SqlType::Name => "name",
            SqlType::Char => "\"char\"",
            SqlType::Reg(kind) => kind.name(),
            SqlType::Int2Vector => "int2vector",
            SqlType::OidVector => "oidvector",
            SqlType::Enum(ty) => ty.shown(),
            SqlType::Composite(ty) => ty.shown(),
            SqlType::Array(element) => element.array_name(),
            SqlType::Record => "record",
            SqlType::Void => "void",
            SqlType::Unknown => "unknown",
        }
    }

    /// The number and the full name of a type, `varchar` included, that a text names as
    /// `to_regtype` reads it.
    pub(crate) fn named(text: &str) -> Option<(u32, &'static str)> {
        let own = text.trim();
        let own = own.strip_prefix("pg_catalog.").unwrap_or(own);
        let quoted = own.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        if let Some(ty) = quoted.and_then(SqlType::of_short_name) {
            return Some((ty.oid(), ty.name()));
        }
        let lower = text.trim().to_ascii_lowercase();
        let name = lower.strip_prefix("pg_catalog.").unwrap_or(&lower);
        if let Some(pseudo) = PSEUDO.iter().find(|(_, known)| *known == name) {
            return Some(*pseudo);
        }
        if let Some(element) = name.strip_suffix("[]") {
            let (oid, _) = SqlType::named(element.trim_end_matches("[]"))?;
            if oid == VARCHAR_OID {
                return Some((VARCHAR_ARRAY_OID, VARCHAR_ARRAY));
            }
            let array = SqlType::array_of(SqlType::from_oid(oid)?)?;
            return Some((array.oid(), array.name()));
        }
        let full = |ty: &SqlType| ty.name() == name;
        let alias = match name {
            "varchar" | "character varying" => return Some((VARCHAR_OID, VARCHAR)),
            "int" => Some(SqlType::Int4),
            "decimal" => Some(SqlType::Numeric),
            "char" => Some(SqlType::Bpchar),
            "float" => Some(SqlType::Float8),
            _ => None,
        };
        let ty = alias
            .or_else(|| SqlType::of_short_name(name))
            .or_else(|| SqlType::ALL.into_iter().find(full))?;
        Some((ty.oid(), ty.name()))
    }

    /// The type with this short name, which is its name in `pg_type`.
    pub(crate) fn of_short_name(name: &str) -> Option<SqlType> {
        SqlType::every().find(|ty| ty.short_name() == name)
    }

    /// The number of the type with this name in `pg_type`, `varchar` included.
    pub(crate) fn number_of_short_name(name: &str) -> Option<u32> {
        match name {
            "varchar" => Some(VARCHAR_OID),
            "_varchar" => Some(VARCHAR_ARRAY_OID),
            _ => SqlType::of_short_name(name).map(SqlType::oid),
        }
    }

    /// As [`SqlType::of_short_name`], also of a type that no column can have.
    pub(crate) fn of_any_name(name: &str) -> Option<SqlType> {
        let pseudo = [SqlType::Record, SqlType::Void].into_iter().find(|ty| ty.name() == name);
        pseudo.or_else(|| SqlType::of_short_name(name))
    }

    /// The type with this full name.
    pub(crate) fn of_full_name(name: &str) -> Option<SqlType> {
        SqlType::every().find(|ty| ty.name() == name)
    }

    /// The full name of the type that has this number.
    pub(crate) fn name_of(oid: u32) -> Option<&'static str> {
        match oid {
            VARCHAR_OID => Some(VARCHAR),
            VARCHAR_ARRAY_OID => Some(VARCHAR_ARRAY),
            UNKNOWN_OID => Some("unknown"),
            _ => {
                static NAMES: OnceLock<HashMap<u32, &str>> = OnceLock::new();
                let all = || SqlType::every().map(|ty| (ty.oid(), ty.name())).collect();
                let known = NAMES.get_or_init(all).get(&oid).copied();
                known.or_else(|| SqlType::pseudo_name(oid))
            }
        }
    }

    /// The name of a type that no value here has.
    pub(crate) fn pseudo_name(oid: u32) -> Option<&'static str> {
        PSEUDO.iter().find(|(number, _)| *number == oid).map(|(_, name)| *name)
    }

    /// Short name: what an unnamed cast calls its column.
    pub(crate) const fn short_name(self) -> &'static str {
        match self {
            SqlType::Bool => "bool",
            SqlType::Int2 => "int2",
            SqlType::Int4 => "int4",
            SqlType::Int8 => "int8",
            SqlType::Float4 => "float4",
            SqlType::Float8 => "float8",
            SqlType::Timestamp => "timestamp",
            SqlType::Timestamptz => "timestamptz",
            SqlType::Time => "time",
            SqlType::Timetz => "timetz",
            SqlType::Bpchar => "bpchar",
            SqlType::Varbit => "varbit",
            SqlType::Char => "char",
            SqlType::Enum(ty) => ty.short(),
            SqlType::Composite(ty) => ty.short(),
            SqlType::Array(element) => element.array_short_name(),
            other => other.name(),
        }
    }
}
