//! The modules of the engine and those of SQL form layers, and imports go strictly down.
//!
//! A path into another module must enter a lower layer; never the own layer, never a higher one.
//! Layer 0 is the exception: its modules may name each other as long as no ring closes. `lib.rs`
//! may name everything. No module names the re-exports of `lib.rs`, because such a path hides which
//! module it enters. Test code may import anything.

use crate::complaint::Complaints;
use crate::figures::largest_ring;
use crate::paths::production_paths;
use crate::source::Source;
use crate::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

/// Top modules of a crate, and the layer of each.
type Layers = &'static [(&'static str, u8)];

/// The crates whose modules have layers.
const CRATES: [(&str, Layers); 2] =
    [("crates/engine/src/", LAYERS), ("crates/sql/src/", LAYERS_OF_SQL)];

/// The top modules of SQL.
#[rustfmt::skip]
const LAYERS_OF_SQL: Layers = &[
    ("lib", 13), ("session", 12), ("exec", 11), ("bind", 10), ("copy", 10), ("plan", 9),
    ("expr", 8), ("catalog", 7), ("activity", 6), ("roles", 6), ("user_types", 6),
    ("settings", 5), ("schemas", 5),
    ("statistics", 5), ("interrupt", 4), ("notes", 4), ("parse", 4), ("types", 3),
    ("encoding", 2), ("error", 1), ("names", 0), ("oids", 0), ("privileges", 0),
];

/// The top modules of the engine.
pub(crate) const LAYERS: Layers = &[
    ("lib", 10),
    ("internal", 10),
    ("db", 10),
    ("upkeep", 9),
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

/// Imports of crates with layers go strictly down.
pub(super) fn layers(tree: &Tree, complaints: &mut Complaints) {
    for (folder, layers) in CRATES {
        check_crate(tree, folder, layers, complaints);
    }
}

fn check_crate(tree: &Tree, folder: &str, layers: Layers, complaints: &mut Complaints) {
    let mut lowest: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in tree.sources.iter().filter(|source| source.path.starts_with(folder)) {
        let Some(own) = source.top_module() else { continue };
        if source.is_test_file() || own == "lib" {
            continue;
        }
        let Some(layer) = layer_of(layers, own) else {
            complaints.add(&source.path, 0, format!("module `{own}` has no layer"));
            continue;
        };
        let entered = check_imports(source, layers, layer, complaints);
        if layer == 0 {
            lowest.entry(own.to_string()).or_default().extend(entered);
        }
    }
    if largest_ring(&lowest) > 0 {
        complaints.add(folder, 0, "the modules of layer 0 import each other in a ring");
    }
}

/// Complains about each path that does not go down; returns the modules that the file enters.
fn check_imports(
    source: &Source,
    layers: Layers,
    layer: u8,
    complaints: &mut Complaints,
) -> Vec<String> {
    let (module, own) = (source.module().unwrap_or_default(), source.top_module());
    let mut entered = Vec::new();
    for path in production_paths(source) {
        let Some(target) = path.top_module(&module).filter(|entered| Some(*entered) != own) else {
            continue;
        };
        let named = path.parts.join("::");
        let text = match layer_of(layers, target) {
            Some(below) if below < layer => None,
            Some(0) if layer == 0 => None,
            Some(other) => Some(format!("`{named}` leads from layer {layer} to layer {other}")),
            None => {
                Some(format!("`{named}` names a re-export of `lib.rs` or a module without layer"))
            }
        };
        entered.push(target.to_string());
        text.into_iter().for_each(|text| complaints.add(&source.path, path.line, text));
    }
    entered
}

fn layer_of(layers: Layers, module: &str) -> Option<u8> {
    layers.iter().find(|(name, _)| *name == module).map(|(_, layer)| *layer)
}

#[cfg(test)]
mod tests {
    use super::super::complaints_of;
    use super::layers;

    fn found(path: &str, text: &str) -> usize {
        complaints_of(layers, &[(&format!("crates/engine/src/{path}"), text)]).len()
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
    fn up_sideways_and_re_exports_are_not() {
        assert_eq!(found("wal/mod.rs", "use crate::buffer::Pool;"), 1);
        assert_eq!(found("heap/mod.rs", "use crate::{page::P, index::{A, B}};"), 2);
        assert_eq!(found("heap/mod.rs", "fn f() { assert!(super::table::g()) }"), 1);
        assert_eq!(found("heap/tuple.rs", "use super::super::index::A;"), 1);
        assert_eq!(found("db.rs", "use crate::lib::X;"), 1);
        assert_eq!(found("heap/mod.rs", "use crate::Error;"), 1);
        assert_eq!(found("attic/mod.rs", ""), 1);
    }

    #[test]
    fn sql_has_layers_too() {
        let found =
            |text: &str| complaints_of(layers, &[("crates/sql/src/plan/rel.rs", text)]).len();
        assert_eq!(found("use crate::{expr::Expr, catalog::listed};"), 0);
        assert_eq!(found("use crate::{exec::Execution, bind::Binder};"), 2);
    }

    #[test]
    fn layer_0_may_not_close_a_ring() {
        let error = ("crates/engine/src/error.rs", "use crate::ids::A;");
        let ids = ("crates/engine/src/ids.rs", "use crate::error::B;");
        assert!(complaints_of(layers, &[error]).is_empty());
        assert_eq!(complaints_of(layers, &[error, ids]).len(), 1);
    }
}
