//! Unsafe production code stands in named files only, and each place gives its reason.
//!
//! Test code needs the reason, not the name. An entry whose file has no unsafe code any more is an
//! error too, so the list stays the truth.

use crate::complaint::Complaints;
use crate::tree::Tree;

/// The files that may hold unsafe code.
const FILES: &[&str] = &[
    "bench/src/count.rs",
    "bench/src/descent/stores.rs",
    "bench/src/load/peers/limit.rs",
    "bench/src/load/peers/lmdb.rs",
    "crates/aio/src/buf.rs",
    "crates/aio/src/owned.rs",
    "crates/aio/src/uring.rs",
    "crates/engine/src/buffer/frame.rs",
    "crates/engine/src/buffer/pin.rs",
    "crates/engine/src/page/buf.rs",
];

/// Unsafe code only in `FILES`, and reasoned.
pub(super) fn unsafety(tree: &Tree, complaints: &mut Complaints) {
    check(tree, FILES, complaints);
}

fn check(tree: &Tree, allowed: &[&str], complaints: &mut Complaints) {
    for source in &tree.sources {
        let named = allowed.contains(&source.path.as_str());
        let mut sites = 0;
        for pair in source.tokens.windows(2).filter(|pair| pair[0].text == "unsafe") {
            if pair[1].text == "(" {
                continue; // an attribute such as `#[unsafe(no_mangle)]`
            }
            let line = pair[0].line;
            let production = !source.is_test_line(line);
            sites += usize::from(production);
            if production && !named {
                complaints.add(&source.path, line, "unsafe code in a file not named in FILES");
            } else if pair[1].text != "fn" && !source.has_safety_reason(line) {
                complaints.add(&source.path, line, "unsafe code without a `// SAFETY:` reason");
            }
        }
        if named && sites == 0 {
            complaints.add(&source.path, 0, "named in FILES, but has no unsafe code");
        }
    }
    for path in allowed.iter().filter(|path| !tree.entries.contains(**path)) {
        complaints.add(path, 0, "named in FILES, but does not exist");
    }
}

#[cfg(test)]
mod tests {
    use super::super::complaints_of;
    use super::check;

    const REASONED: &str = "fn f() {\n    // SAFETY: R11.\n    unsafe { g() }\n}";

    #[test]
    fn only_in_named_files() {
        let one = |tree: &_, out: &mut _| check(tree, &["a.rs"], out);
        assert_eq!(complaints_of(one, &[("a.rs", REASONED)]).len(), 0);
        assert_eq!(complaints_of(one, &[("a.rs", REASONED), ("b.rs", REASONED)]).len(), 1);
        assert_eq!(complaints_of(one, &[("a.rs", "fn f() {}")]).len(), 1);
        assert_eq!(complaints_of(one, &[("a.rs", REASONED), ("tests/b.rs", REASONED)]).len(), 0);
        assert_eq!(complaints_of(one, &[]).len(), 1);
    }

    #[test]
    fn each_place_is_reasoned() {
        let one = |tree: &_, out: &mut _| check(tree, &["a.rs"], out);
        let found = |text: &str| complaints_of(one, &[("a.rs", text)]).len();
        assert_eq!(found("fn f() {\n    // Fast.\n    unsafe { g() }\n}"), 1);
        assert_eq!(found("unsafe impl Send for A {}"), 1);
        assert_eq!(found(&format!("{REASONED}\n#[cfg(test)]\nunsafe impl Send for A {{}}")), 1);
        assert_eq!(found("// SAFETY: no state.\n#[rustfmt::skip]\nunsafe impl Send for A {}"), 0);
        assert_eq!(
            found("fn f() {\n    unsafe {\n        // SAFETY: R11.\n        g()\n    }\n}"),
            0
        );
        assert_eq!(found("// SAFETY: far away.\nfn e() {}\nunsafe impl Send for A {}"), 1);
    }
}
