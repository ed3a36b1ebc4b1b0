//! Statistics in memory, once for all plans of all sessions that were made by them: a plan keeps
//! the
//! statistics of its tables, which are tens of kilobytes, and a session keeps hundreds of plans.
//!
//! Invariants: nothing is kept here that no plan uses.
//! Does not do: tell when statistics change (`edition`).

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use rightlink_env::sync::{Arc, Mutex, OnceLock, Weak};

use super::Statistics;

/// Names a text by its length and two hashes of it: not even by intent are two texts likely to have
/// the same, and then a plan would be worse than it could be, not wrong.
#[derive(PartialEq, Eq, Hash)]
struct Name {
    len: usize,
    hashes: [u64; 2],
}

impl Name {
    fn of(text: &str) -> Name {
        let hash = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            (salt, text).hash(&mut hasher);
            hasher.finish()
        };
        Name { len: text.len(), hashes: [hash(0), hash(1)] }
    }
}

type Known = HashMap<Name, Weak<Statistics>>;

fn known() -> &'static Mutex<Known> {
    static KNOWN: OnceLock<Mutex<Known>> = OnceLock::new();
    KNOWN.get_or_init(Mutex::default)
}

/// The statistics that `text` encodes: those that somebody else has decoded, if they are in use.
pub(super) fn decode(text: &str) -> Option<Arc<Statistics>> {
    let name = Name::of(text);
    if let Some(found) = known().lock().get(&name).and_then(Weak::upgrade) {
        return Some(found);
    }
    let fresh = Arc::new(Statistics::decode(text)?);
    let mut known = known().lock();
    // Another may have been faster.
    if let Some(found) = known.get(&name).and_then(Weak::upgrade) {
        return Some(found);
    }
    known.retain(|_, statistics| statistics.strong_count() > 0);
    known.insert(name, Arc::downgrade(&fresh));
    Some(fresh)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_statistics_are_shared_as_long_as_they_are_used() {
        let text = "table\t1\t2\n";
        let first = decode(text).unwrap();
        assert!(Arc::ptr_eq(&first, &decode(text).unwrap()));
        let other = decode("table\t3\t2\n").unwrap();
        assert!(!Arc::ptr_eq(&first, &other) && other.rows == 3.0);
        let gone = Arc::downgrade(&first);
        drop(first);
        assert!(gone.upgrade().is_none());
        assert_eq!(decode(text).unwrap().rows, 1.0);
        assert!(decode("no statistics").is_none());
    }
}
