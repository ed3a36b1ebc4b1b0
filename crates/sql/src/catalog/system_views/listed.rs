//! Reads the lists of relations.
//!
//! A line is the name of a relation, its number in PostgreSQL, and its columns with their types.
//! Behind the number of a table are those of the type of its rows and of arrays of them, and
//! `shared` if all databases have it together; a view's follow its own. A type with `?` may be
//! null; in a view each may. A column of `information_schema` may have a domain for its type.
//!
//! Does not do: which rows a relation has (`catalog::views`).

use super::{Domain, Kind, Told, ToldColumn, View};
use crate::types::SqlType;

const fn domain(
    oid: u32,
    name: &'static str,
    base: &'static str,
    base_name: &'static str,
) -> Domain {
    Domain { oid, name, base, base_name }
}

/// Domains with the type that values of them have here.
const DOMAINS: [(Domain, SqlType); 5] = [
    (domain(13_221, "cardinal_number", "integer", "int4"), SqlType::Int4),
    (domain(13_224, "character_data", "character varying", "varchar"), SqlType::Text),
    (domain(13_226, "sql_identifier", "name", "name"), SqlType::Name),
    (domain(13_232, "time_stamp", "timestamp with time zone", "timestamptz"), SqlType::Timestamptz),
    (domain(13_234, "yes_or_no", "character varying", "varchar"), SqlType::Text),
];

/// Is it the number of a domain, or of the type of arrays of one, which is just before it?
pub(super) fn is_domain(number: u32) -> bool {
    DOMAINS.iter().any(|(domain, _)| (domain.oid - 1..=domain.oid).contains(&number))
}

/// The relations of a list.
pub(super) fn listed(text: &'static str, kind: fn(&str) -> Kind) -> Vec<View> {
    let mut lines = text.lines().peekable();
    let mut views = Vec::new();
    while let Some(line) = lines.next() {
        let (head, first) = line.split_once(':').expect("a line begins with a name");
        let mut pieces: Vec<&str> = first.split(',').collect();
        while let Some(more) = lines.next_if(|line| line.starts_with(' ')) {
            pieces.extend(more.split(','));
        }
        views.push(view(head, &pieces, kind));
    }
    views
}

fn view(head: &'static str, pieces: &[&'static str], kind: fn(&str) -> Kind) -> View {
    let mut words = head.split(' ');
    let name = words.next().expect("a line begins with a name");
    let number = |word: &str| word.parse::<u32>().expect("a number");
    let oid = number(words.next().expect("a number is behind the name"));
    let mut told = Told::view(oid);
    if let (Some(row_type), Some(array_type)) = (words.next(), words.next()) {
        told.is_table = true;
        (told.row_type, told.array_type) = (number(row_type), number(array_type));
        told.is_shared = words.next() == Some("shared");
    }
    let (mut columns, mut of_columns) = (Vec::new(), Vec::new());
    for piece in pieces {
        let Some((name, ty)) = piece.trim().split_once(' ') else { continue };
        let (ty, is_nullable) = match ty.strip_suffix('?') {
            Some(ty) => (ty, true),
            None => (ty, !told.is_table),
        };
        let domain = DOMAINS.iter().find(|(domain, _)| domain.name == ty);
        columns.push((name, domain.map_or_else(|| named_type(ty), |(_, ty)| *ty)));
        let domain = domain.map(|(domain, _)| *domain);
        of_columns.push(ToldColumn { is_required: !is_nullable, domain });
    }
    told.columns = of_columns.leak();
    View { name, oid, kind: kind(name), columns: columns.leak(), args: &[], told }
}

fn named_type(name: &str) -> SqlType {
    let known = |name| SqlType::of_short_name(name).expect("a type of this name");
    match name.strip_suffix("[]") {
        Some(element) => SqlType::array_of(known(element)).expect("arrays of this type"),
        None => known(name),
    }
}
