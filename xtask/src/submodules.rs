//! Imports between the submodules of one module: against their layers, and in both directions.
//!
//! A submodule is a file or a folder beside others. A module's own file (`mod.rs`) is no submodule;
//! a name that it takes from a submodule and hands on counts as that submodule's. Test code is left
//! out. Layers are kept as those between the modules of the engine are: a path into another
//! submodule must enter a lower layer. Modules that stand in no table have no layers inside.

use crate::complaint::Complaints;
use crate::paths::{Named, production_paths};
use crate::source::Source;
use crate::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

/// Submodules of one module with their layers, lowest 0.
type Layers = &'static [(&'static str, u8)];

/// The modules that have layers inside: path of the folder, submodules. A submodule that is not
/// named is an error.
#[rustfmt::skip]
const LAYERS_INSIDE: &[(&str, Layers)] = &[
    ("crates/engine/src/index/", &[
        ("search_key", 0), ("tries", 0), ("build_file", 0),
        ("leaf_batch", 1), ("dead_marks", 2), ("am", 3),
        ("dead_rows", 4), ("removal", 4), ("structure_check", 4),
        ("btree", 5), ("hash", 5), ("method", 6),
    ]),
    ("crates/engine/src/index/btree/", &[
        ("counters", 0), ("optimisations", 0), ("page", 1), ("tree", 2), ("search", 3),
        ("insert", 4), ("scan", 4), ("vacuum", 5), ("verify", 6), ("build", 6), ("inspect", 6),
    ]),
    ("crates/engine/src/index/btree/page/", &[
        ("read", 0), ("node", 1), ("posting", 2), ("tree_key", 2),
        ("entries", 3), ("search", 3), ("edit", 4), ("meta", 5), ("remove", 5),
    ]),
    ("crates/engine/src/index/hash/", &[
        ("page", 0), ("state", 1), ("search", 2), ("insert", 3), ("scan", 3),
        ("vacuum", 4), ("verify", 5), ("build", 5), ("inspect", 5),
    ]),
    ("crates/engine/src/index/hash/page/", &[
        ("hash_code", 0), ("directory", 0), ("bucket", 1), ("meta", 1), ("edit", 2),
    ]),
    ("crates/engine/src/heap/", &[
        ("counters", 0), ("page", 0), ("overflow", 0), ("space", 1), ("visibility", 1),
        ("latch", 2), ("read", 3), ("prune", 4), ("write", 5), ("garbage", 6), ("verify", 6),
    ]),
    ("crates/engine/src/txn/", &[
        ("xid", 0), ("status", 1), ("lock", 2), ("manager", 3), ("snapshot", 4),
        ("transaction", 5),
    ]),
    ("crates/engine/src/txn/lock/", &[
        ("row_lock", 0), ("table_lock", 0), ("prepared", 1), ("state", 2), ("wakeup", 3),
        ("multixact", 3), ("row_wait_queue", 3), ("writer_priority", 3), ("deadlock", 3),
    ]),
    ("crates/engine/src/buffer/", &[
        ("announce", 0), ("insertions", 0), ("locality", 0), ("planned_reads", 0),
        ("prefetch_policy", 0), ("latch", 0), ("latched", 0), ("own_changes", 0), ("stats", 0),
        ("data_file", 1), ("stream_window", 0), ("double_write", 2), ("frame", 1), ("prefetch", 1),
        ("page_table", 2), ("replacement", 3), ("core", 4), ("pin", 5), ("write_plan", 5),
        ("pool", 6), ("cache_lines", 7), ("evict", 7), ("mtr", 7), ("reading", 7), ("redo", 7),
        ("write_back", 7), ("experiments", 8), ("load", 8), ("read_ahead", 8), ("read_stream", 9),
        ("testing", 10),
    ]),
    ("crates/engine/src/wal/", &[
        ("block", 0), ("record", 0), ("stats", 1), ("frame", 1),
        ("segment", 1), ("group", 2), ("control", 2), ("source", 2), ("reader", 3), ("copy", 3),
    ]),
    ("crates/engine/src/upkeep/", &[
        ("idle", 0), ("schedule", 0), ("tracing_events", 0), ("vacuum_runs", 0), ("watch", 0),
        ("prepared_list", 0), ("counters", 1), ("options", 1), ("device", 2), ("engine", 3),
        ("admission", 4), ("prepared", 4),
        ("checkpoint", 4), ("close", 4), ("open", 4), ("threads", 4), ("vacuum", 4),
        ("backup", 5), ("verify_offline", 5),
    ]),
    ("crates/engine/src/table/", &[
        ("definition", 0), ("sequence", 1), ("read", 1), ("write", 2), ("build", 3),
    ]),
];

/// One import of a submodule by another.
#[derive(Debug)]
struct Import<'a> {
    from: &'a str,
    to: &'a str,
    path: &'a str,
    line: usize,
}

/// Each import that leads to the own or to a higher layer, and each submodule without a layer.
pub(crate) fn against_layers(tree: &Tree) -> Complaints {
    check_layers(tree, LAYERS_INSIDE)
}

/// Each pair of submodules that import each other, of the folders that `wanted` accepts.
pub(crate) fn mutual_imports(tree: &Tree, wanted: fn(&str) -> bool) -> Complaints {
    let mut found = Complaints::default();
    for (folder, sources) in folders(tree).iter().filter(|(folder, _)| wanted(folder)) {
        let imports = imports(folder, sources);
        for one in imports.iter().filter(|one| one.from < one.to) {
            let back = imports.iter().find(|other| other.from == one.to && other.to == one.from);
            let Some(back) = back else { continue };
            let text = format!("`{}` and `{}` import each other", one.from, one.to);
            let text = format!("{text} (back at {}:{})", back.path, back.line);
            found.add(one.path, one.line, text);
        }
    }
    found
}

fn check_layers(tree: &Tree, tables: &[(&str, Layers)]) -> Complaints {
    let mut found = Complaints::default();
    let folders = folders(tree);
    for (folder, layers) in tables {
        let Some(sources) = folders.get(*folder) else {
            found.add(folder, 0, "has layers in LAYERS_INSIDE, but no submodules");
            continue;
        };
        let layer_of = |name: &str| layers.iter().find(|(it, _)| *it == name).map(|(_, at)| *at);
        for (name, source) in
            sources.iter().filter(|(name, _)| !name.is_empty() && layer_of(name).is_none())
        {
            found.add(&source.path, 0, format!("`{name}` has no layer in LAYERS_INSIDE"));
        }
        for Import { from, to, path, line } in imports(folder, sources) {
            if let (Some(own), Some(other)) = (layer_of(from), layer_of(to))
                && other >= own
            {
                let text = format!("`{from}` of layer {own} imports `{to}` of layer {other}");
                found.add(path, line, text);
            }
        }
    }
    found
}

/// The production sources of each folder below a `src`, with the submodule that each belongs to;
/// empty for the folder's own file.
fn folders(tree: &Tree) -> BTreeMap<String, Vec<(&str, &Source)>> {
    let mut found: BTreeMap<String, Vec<(&str, &Source)>> = BTreeMap::new();
    for source in tree.sources.iter().filter(|source| !source.is_test_file()) {
        let Some(module) = source.module() else { continue };
        let below: Vec<&str> = source.path.split('/').collect();
        let root = below.iter().position(|part| *part == "src").expect("a module lies in `src`");
        for end in root + 1..below.len() {
            let folder = format!("{}/", below[..end].join("/"));
            let submodule = module.get(end - root - 1).copied().unwrap_or("");
            found.entry(folder).or_default().push((submodule, source));
        }
    }
    found
}

/// The first import of each submodule by each other one.
fn imports<'a>(folder: &str, sources: &[(&'a str, &'a Source)]) -> Vec<Import<'a>> {
    let names: BTreeSet<&'a str> =
        sources.iter().map(|(name, _)| *name).filter(|name| !name.is_empty()).collect();
    let parts = folder.split_terminator('/');
    let prefix: Vec<&str> = parts.skip_while(|part| *part != "src").skip(1).collect();
    let handed_on = handed_on(sources, &names);
    let mut found: Vec<Import> = Vec::new();
    for (from, source) in sources.iter().filter(|(from, _)| !from.is_empty()) {
        let module = source.module().unwrap_or_default();
        for path in production_paths(source) {
            let Some(parts) = path.path_from_root(&module) else { continue };
            let Some(next) = parts.strip_prefix(prefix.as_slice()).and_then(<[_]>::first) else {
                continue;
            };
            let to = names.get(*next).or_else(|| handed_on.get(*next));
            let Some(to) = to.copied().filter(|to| to != from) else { continue };
            if !found.iter().any(|other| other.from == *from && other.to == to) {
                found.push(Import { from, to, path: &source.path, line: path.line });
            }
        }
    }
    found
}

/// The names that the folder's own file takes from its submodules.
fn handed_on<'a>(
    sources: &[(&str, &'a Source)],
    names: &BTreeSet<&'a str>,
) -> BTreeMap<String, &'a str> {
    let mut found = BTreeMap::new();
    let own_files = sources.iter().filter(|(name, _)| name.is_empty());
    for Named { parts, .. } in own_files.flat_map(|(_, source)| production_paths(source)) {
        let below = parts.strip_prefix(&["self".to_string()][..]).unwrap_or(&parts);
        if let [first, .., last] = below
            && let Some(name) = names.get(first.as_str())
        {
            found.insert(last.clone(), *name);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{check_layers, mutual_imports};
    use crate::tree::Tree;

    const FILES: [(&str, &str); 6] = [
        ("a/src/lib.rs", "mod tree;\nmod other;"),
        ("a/src/other.rs", "use crate::tree::split::B;"),
        ("a/src/tree/mod.rs", "mod insert;\nmod split;\nmod page;\npub(crate) use split::B;"),
        ("a/src/tree/insert.rs", "use super::B;\nuse crate::page::X;"),
        ("a/src/tree/split.rs", "fn f() { super::insert::g(crate::tree::page::P) }"),
        ("a/src/tree/page.rs", "use super::Tree;\n#[cfg(test)]\nuse super::split::B;"),
    ];

    fn of(complaints: crate::complaint::Complaints) -> Vec<String> {
        complaints.0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn pairs_that_import_each_other_are_told_once() {
        let found = of(mutual_imports(&Tree::of(&FILES), |_| true));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("a/src/tree/insert.rs:1:"), "{found:?}");
        assert!(found[0].ends_with("(back at a/src/tree/split.rs:1)"), "{found:?}");
        assert!(of(mutual_imports(&Tree::of(&FILES), |_| false)).is_empty());
    }

    #[test]
    fn layers_inside_are_kept_where_there_is_a_table() {
        let tree = Tree::of(&FILES);
        let folder = "a/src/tree/";
        let found = |layers| of(check_layers(&tree, &[(folder, layers)]));
        let one = found(&[("page", 0), ("split", 1), ("insert", 2)]);
        assert_eq!(one, ["a/src/tree/split.rs:1: `split` of layer 1 imports `insert` of layer 2"]);
        assert_eq!(found(&[("page", 1), ("split", 1), ("insert", 0)]).len(), 2);
        assert_eq!(found(&[("split", 1), ("insert", 2)]).len(), 2);
        assert_eq!(of(check_layers(&tree, &[("a/src/gone/", &[])])).len(), 1);
    }
}
