//! The engine's rooms lie on floors, and imports go strictly down.
//!
//! A path into another room must enter a lower floor; never the own floor, never above. The ground
//! floor is one room of several files, which may name each other as long as no ring closes. The
//! roof, `lib.rs`, may name everything; nobody below names its re-exports, because such a path
//! hides which room it enters. Test code may look anywhere.

use super::Complaints;
use crate::figures::largest_ring;
use crate::paths::production_paths;
use crate::source::Source;
use crate::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

const ENGINE: &str = "crates/engine/src/";

/// The rooms of the engine and the floor of each.
pub(super) const ROOMS: [(&str, u8); 22] = [
    ("lib", 9),
    ("db", 9),
    ("verify", 8),
    ("backup", 8),
    ("vacuum", 8),
    ("recovery", 8),
    ("catalog", 7),
    ("table", 6),
    ("heap", 5),
    ("index", 5),
    ("txn", 4),
    ("sort", 4),
    ("buffer", 3),
    ("wal", 2),
    ("page", 1),
    ("error", 0),
    ("ids", 0),
    ("datum", 0),
    ("collation", 0),
    ("keycode", 0),
    ("config", 0),
    ("schedules", 0),
];

/// Imports in the engine go strictly down.
pub(super) fn floors(tree: &Tree, complaints: &mut Complaints) {
    let mut ground: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in tree.sources.iter().filter(|source| source.path.starts_with(ENGINE)) {
        let Some(own) = source.room() else { continue };
        if source.is_test_file() || own == "lib" {
            continue;
        }
        let Some(floor) = floor(own) else {
            complaints.add(&source.path, 0, format!("room `{own}` has no floor in ROOMS"));
            continue;
        };
        let entered = climbs(source, own, floor, complaints);
        if floor == 0 {
            ground.entry(own.to_string()).or_default().extend(entered);
        }
    }
    if largest_ring(&ground) > 0 {
        complaints.add(ENGINE, 0, "the files of the ground floor import each other in a ring");
    }
}

/// Complains about each path that does not go down; gives the rooms the file enters.
fn climbs(source: &Source, own: &str, floor: u8, complaints: &mut Complaints) -> Vec<String> {
    let module = source.module().unwrap_or_default();
    let mut entered = Vec::new();
    for path in production_paths(source) {
        let Some(room) = path.room(&module).filter(|room| *room != own) else { continue };
        let named = path.parts.join("::");
        let text = match self::floor(room) {
            Some(below) if below < floor => None,
            Some(0) if floor == 0 => None,
            Some(other) => Some(format!("`{named}` leads from floor {floor} to floor {other}")),
            None => Some(format!("`{named}` names the roof or a room without floor")),
        };
        entered.push(room.to_string());
        text.into_iter().for_each(|text| complaints.add(&source.path, path.line, text));
    }
    entered
}

fn floor(room: &str) -> Option<u8> {
    ROOMS.iter().find(|(name, _)| *name == room).map(|(_, floor)| *floor)
}

#[cfg(test)]
mod tests {
    use super::super::complaints_of;
    use super::floors;

    fn found(path: &str, text: &str) -> usize {
        complaints_of(floors, &[(&format!("crates/engine/src/{path}"), text)]).len()
    }

    #[test]
    fn down_and_inside_is_allowed() {
        let good = "use crate::{page::P, ids::{A, B}, buffer::tests};\nuse super::insert;";
        assert_eq!(found("buffer/pool.rs", good), 0);
        assert_eq!(found("lib.rs", "pub use crate::db::D;"), 0);
        assert_eq!(found("heap/mod.rs", "#[cfg(test)]\nuse crate::table::T;"), 0);
        assert_eq!(found("heap/tests.rs", "use crate::table::T;"), 0);
    }

    #[test]
    fn up_sideways_and_the_roof_are_not() {
        assert_eq!(found("wal/mod.rs", "use crate::buffer::Pool;"), 1);
        assert_eq!(found("heap/mod.rs", "use crate::{page::P, index::{A, B}};"), 2);
        assert_eq!(found("heap/mod.rs", "fn f() { assert!(super::table::g()) }"), 1);
        assert_eq!(found("heap/tuple.rs", "use super::super::index::A;"), 1);
        assert_eq!(found("db.rs", "use crate::lib::X;"), 1);
        assert_eq!(found("heap/mod.rs", "use crate::Error;"), 1);
        assert_eq!(found("attic/mod.rs", ""), 1);
    }

    #[test]
    fn the_ground_floor_may_not_close_a_ring() {
        let error = ("crates/engine/src/error.rs", "use crate::ids::A;");
        let ids = ("crates/engine/src/ids.rs", "use crate::error::B;");
        assert!(complaints_of(floors, &[error]).is_empty());
        assert_eq!(complaints_of(floors, &[error, ids]).len(), 1);
    }
}
