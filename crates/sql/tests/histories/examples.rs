//! Histories made by hand, sound ones and one for each anomaly: what the checker is held to.

use super::check::{Anomaly, check};
use super::record::{Event, History, Keyed, Level, Object, Outcome, Statement, Transaction};

const RC: Level = Level::Committed;
const RR: Level = Level::Repeatable;

/// Nothing is found.
const SOUND: [Anomaly; 0] = [];
/// Two objects.
const X: Object = 1;
const Y: Object = 2;

/// A history as its statements come one after the other.
struct Script {
    history: History,
    tick: u64,
}

impl Script {
    fn new(levels: &[Level]) -> Script {
        let transaction = |level: &Level| Transaction {
            level: *level,
            outcome: Outcome::Aborted,
            statements: Vec::new(),
            end_sent: 0,
            end_answered: 0,
        };
        let transactions = levels.iter().map(transaction).collect();
        Script { history: History { transactions, last: Vec::new() }, tick: 0 }
    }

    fn tick(&mut self) -> u64 {
        self.tick += 1;
        self.tick
    }

    fn add(&mut self, of: usize, events: Vec<Event>, undoes: Option<usize>) -> &mut Script {
        let (sent, answered) = (self.tick(), self.tick());
        let statement = Statement { sent, answered, events, failed: false, undoes };
        self.history.transactions[of].statements.push(statement);
        self
    }

    fn put(&mut self, of: usize, object: Object, value: i64) -> &mut Script {
        self.add(of, vec![Event::Put { object, value, replaced: None }], None)
    }

    fn set(&mut self, of: usize, object: Object, value: i64, replaced: i64) -> &mut Script {
        self.add(of, vec![Event::Put { object, value, replaced: Some(replaced) }], None)
    }

    fn list(&mut self, of: usize, object: Object, seen: &[i64]) -> &mut Script {
        self.add(of, vec![Event::List { object, seen: seen.to_vec() }], None)
    }

    fn register(&mut self, of: usize, object: Object, value: i64) -> &mut Script {
        self.add(of, vec![Event::Register { object, value }], None)
    }

    fn insert(&mut self, of: usize, object: Object, id: i64) -> &mut Script {
        self.add(of, vec![Event::Insert { object, id }], None)
    }

    fn delete(&mut self, of: usize, id: i64) -> &mut Script {
        self.add(of, vec![Event::Delete { id }], None)
    }

    fn members(&mut self, of: usize, object: Object, ids: &[i64]) -> &mut Script {
        self.add(of, vec![Event::Members { object, ids: ids.to_vec() }], None)
    }

    fn undo(&mut self, of: usize, from: usize) -> &mut Script {
        self.add(of, Vec::new(), Some(from))
    }

    fn end(&mut self, of: usize, outcome: Outcome) -> &mut Script {
        let (sent, answered) = (self.tick(), self.tick());
        let transaction = &mut self.history.transactions[of];
        transaction.outcome = outcome;
        (transaction.end_sent, transaction.end_answered) = (sent, answered);
        self
    }

    fn commit(&mut self, of: usize) -> &mut Script {
        self.end(of, Outcome::Committed)
    }

    fn last(&mut self, event: Event) -> &mut Script {
        self.history.last.push(event);
        self
    }

    fn last_list(&mut self, object: Object, seen: &[i64]) -> &mut Script {
        self.last(Event::List { object, seen: seen.to_vec() })
    }

    fn last_members(&mut self, object: Object, ids: &[i64]) -> &mut Script {
        self.last(Event::Members { object, ids: ids.to_vec() })
    }

    /// The anomalies that are found, each once.
    fn found(&self) -> Vec<Anomaly> {
        let mut found: Vec<_> = check(&self.history).iter().map(|it| it.anomaly).collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

#[test]
fn one_after_the_other_is_sound() {
    for level in [RC, RR] {
        let mut script = Script::new(&[level; 3]);
        script.list(0, X, &[]).put(0, X, 1).list(0, X, &[1]).put(0, X, 2).commit(0);
        script.list(1, X, &[1, 2]).put(1, X, 3).put(1, Y, 4).commit(1);
        script.list(2, Y, &[4]).list(2, X, &[1, 2, 3]).commit(2);
        script.last_list(X, &[1, 2, 3]).last_list(Y, &[4]);
        assert_eq!(script.found(), SOUND);
    }
}

#[test]
fn what_came_after_a_snapshot_is_not_in_it() {
    for (level, expected) in [(RC, vec![]), (RR, vec![Anomaly::GSingle])] {
        let mut script = Script::new(&[level, RR]);
        script.list(0, X, &[]);
        script.put(1, X, 1).put(1, Y, 2).commit(1);
        script.list(0, Y, &[2]).commit(0);
        script.last_list(X, &[1]).last_list(Y, &[2]);
        assert_eq!(script.found(), expected, "{level:?}");
    }
}

#[test]
fn one_statement_has_one_snapshot() {
    let mut script = Script::new(&[RC, RR]);
    let both = [(X, vec![]), (Y, vec![2])].map(|(object, seen)| Event::List { object, seen });
    script.put(1, X, 1).put(1, Y, 2);
    script.history.transactions[0].statements.push(Statement {
        sent: 1,
        answered: 100,
        events: both.to_vec(),
        failed: false,
        undoes: None,
    });
    script.commit(1).end(0, Outcome::Aborted).last_list(X, &[1]).last_list(Y, &[2]);
    assert_eq!(script.found(), [Anomaly::GSingle]);
}

#[test]
fn a_snapshot_may_be_old_and_whole() {
    let mut script = Script::new(&[RR, RR]);
    script.list(0, X, &[]).put(1, X, 1).put(1, Y, 2).commit(1);
    script.list(0, Y, &[]).put(0, 3, 5).commit(0);
    script.last_list(X, &[1]).last_list(Y, &[2]).last_list(3, &[5]);
    assert_eq!(script.found(), SOUND);
}

#[test]
fn write_skew_is_allowed() {
    let mut script = Script::new(&[RR, RR]);
    script.list(0, X, &[]).list(1, Y, &[]).put(0, Y, 1).put(1, X, 2).commit(0).commit(1);
    script.last_list(X, &[2]).last_list(Y, &[1]);
    assert_eq!(script.found(), SOUND);
}

#[test]
fn a_lost_update_is_found() {
    for (level, expected) in [(RC, vec![]), (RR, vec![Anomaly::LostUpdate])] {
        let mut script = Script::new(&[level, RR]);
        script.list(0, X, &[]).put(1, X, 1).commit(1).put(0, X, 2).commit(0);
        script.last_list(X, &[1, 2]);
        assert_eq!(script.found(), expected, "{level:?}");
    }
    // Two updates of a register that say what they replaced: at any level.
    let mut script = Script::new(&[RC, RC]);
    script.set(0, X, 1, 0).set(1, X, 2, 0).commit(0).commit(1);
    script.last(Event::Register { object: X, value: 2 });
    assert!(script.found().contains(&Anomaly::LostUpdate));
}

#[test]
fn registers_are_like_lists_whose_end_is_seen() {
    let mut script = Script::new(&[RR, RR, RC]);
    script.set(0, X, 1, 0).set(0, X, 2, 1).register(0, X, 2).commit(0);
    script.register(1, X, 2).set(2, X, 3, 2).commit(2).register(1, X, 2).commit(1);
    script.last(Event::Register { object: X, value: 3 });
    assert_eq!(script.found(), SOUND);
    script.history.transactions[1].statements[1].events =
        vec![Event::Register { object: X, value: 3 }];
    assert_eq!(script.found(), [Anomaly::GSingle]);
    script.history.transactions[1].statements[1].events =
        vec![Event::Register { object: X, value: 1 }];
    assert!(script.found().contains(&Anomaly::G1b));
}

#[test]
fn dirty_writes_and_reads_in_a_circle_are_found() {
    let mut script = Script::new(&[RC, RC]);
    script.put(0, X, 1).put(1, X, 2).put(1, Y, 3).put(0, Y, 4).commit(0).commit(1);
    script.last_list(X, &[1, 2]).last_list(Y, &[3, 4]);
    assert_eq!(script.found(), [Anomaly::G0]);
    let mut script = Script::new(&[RC, RC]);
    script.put(0, X, 1).put(1, Y, 2).list(0, Y, &[2]).list(1, X, &[1]).commit(0).commit(1);
    script.last_list(X, &[1]).last_list(Y, &[2]);
    let found = script.found();
    assert!(found == [Anomaly::G1c] || found == [Anomaly::Stale], "{found:?}");
}

#[test]
fn aborted_and_intermediate_reads_are_found() {
    let mut script = Script::new(&[RC, RC]);
    script.put(0, X, 1).list(1, X, &[1]).end(0, Outcome::Aborted).commit(1).last_list(X, &[]);
    assert_eq!(script.found(), [Anomaly::G1a]);
    let mut script = Script::new(&[RC, RC]);
    script.put(0, X, 1).undo(0, 0).put(0, X, 2).commit(0).list(1, X, &[1]).commit(1);
    script.last_list(X, &[2]);
    assert_eq!(script.found(), [Anomaly::G1a], "what a savepoint undid");
    let mut script = Script::new(&[RC]);
    script.put(0, X, 1).end(0, Outcome::Aborted).last_list(X, &[1]);
    assert_eq!(script.found(), [Anomaly::G1a], "it stayed");
    let mut script = Script::new(&[RC, RC]);
    script.put(0, X, 1).put(0, X, 2).commit(0).list(1, X, &[1]).commit(1).last_list(X, &[1, 2]);
    assert!(script.found().contains(&Anomaly::G1b));
}

#[test]
fn own_writes_are_seen_and_undone_ones_are_not() {
    for level in [RC, RR] {
        let mut script = Script::new(&[level]);
        script.put(0, X, 1).list(0, X, &[]).commit(0).last_list(X, &[1]);
        assert_eq!(script.found(), [Anomaly::Own]);
        let mut script = Script::new(&[level]);
        script.put(0, X, 1).put(0, X, 2).undo(0, 1).list(0, X, &[1]).commit(0).last_list(X, &[1]);
        assert_eq!(script.found(), SOUND);
        let mut script = Script::new(&[level]);
        script.insert(0, X, 1).members(0, X, &[]).commit(0).last_members(X, &[1]);
        assert_eq!(script.found(), [Anomaly::Own]);
        let mut script = Script::new(&[level, level]);
        script.insert(0, X, 1).commit(0).delete(1, 1).members(1, X, &[1]).commit(1);
        script.last_members(X, &[]);
        assert_eq!(script.found(), [Anomaly::Own]);
    }
}

#[test]
fn a_committed_write_must_stay_and_be_seen() {
    let mut script = Script::new(&[RC, RR]);
    script.put(0, X, 1).commit(0).list(1, X, &[]).commit(1).last_list(X, &[1]);
    assert_eq!(script.found(), [Anomaly::Stale]);
    let mut script = Script::new(&[RC]);
    script.put(0, X, 1).commit(0).last_list(X, &[]);
    assert_eq!(script.found(), [Anomaly::Lost]);
    let mut script = Script::new(&[RC]);
    script.insert(0, X, 7).commit(0).last_members(X, &[]);
    assert_eq!(script.found(), [Anomaly::Lost]);
    let mut script = Script::new(&[RC, RC]);
    script.insert(0, X, 7).commit(0).delete(1, 7).commit(1).last_members(X, &[7]);
    assert_eq!(script.found(), [Anomaly::Lost]);
}

#[test]
fn who_was_not_answered_may_have_committed_or_not() {
    for (last, seen) in [(&[1][..], &[1][..]), (&[][..], &[][..])] {
        let mut script = Script::new(&[RR, RR]);
        script.put(0, X, 1).end(0, Outcome::Unknown).list(1, X, seen).commit(1);
        script.last_list(X, last);
        assert_eq!(script.found(), SOUND);
    }
    let mut script = Script::new(&[RR, RR]);
    script.put(0, X, 1).end(0, Outcome::Unknown).list(1, X, &[1]).commit(1).last_list(X, &[]);
    assert_eq!(script.found(), [Anomaly::G1a], "seen, and then it was not there");
    let mut script = Script::new(&[RR, RR]);
    script.put(0, X, 1).put(0, Y, 2).end(0, Outcome::Unknown).commit(1);
    script.last_list(X, &[1]).last_list(Y, &[]);
    assert_eq!(script.found(), [Anomaly::Lost], "a half of it");
}

#[test]
fn phantoms_are_found() {
    for (level, expected) in [(RC, vec![]), (RR, vec![Anomaly::GSingle])] {
        let mut script = Script::new(&[level, RR]);
        script.members(0, X, &[]).insert(1, X, 1).commit(1).members(0, X, &[1]).commit(0);
        script.last_members(X, &[1]);
        assert_eq!(script.found(), expected, "{level:?}");
        let mut script = Script::new(&[level, RR, RR]);
        script.insert(1, X, 1).commit(1).members(0, X, &[1]);
        script.delete(2, 1).insert(2, X, 2).commit(2).members(0, X, &[2]).commit(0);
        script.last_members(X, &[2]);
        assert_eq!(script.found(), expected, "{level:?}");
    }
}

#[test]
fn a_key_is_there_once_but_for_an_own_row_in_an_old_snapshot() {
    let keyed = |id| Keyed { id, key: 5 };
    let both = vec![Event::Keys { rows: vec![keyed(1), keyed(2)] }];
    for (level, expected) in [(RC, vec![Anomaly::Duplicate]), (RR, vec![])] {
        let mut script = Script::new(&[RR, level, RR]);
        script.insert(0, X, 1).commit(0).members(1, X, &[1]).delete(2, 1).commit(2);
        script.insert(1, X, 2).add(1, both.clone(), None).commit(1);
        script.last_members(X, &[2]);
        assert_eq!(script.found(), expected, "{level:?}");
    }
    let mut script = Script::new(&[RR, RR, RR]);
    script.insert(0, X, 1).commit(0).insert(1, X, 2).commit(1).add(2, both, None).commit(2);
    script.last_members(X, &[1, 2]);
    assert_eq!(script.found(), [Anomaly::Duplicate]);
}

#[test]
fn orphans_are_found() {
    let event = |parents: &[i64]| Event::References {
        children: vec![Keyed { id: 9, key: 5 }],
        parents: parents.to_vec(),
    };
    let mut script = Script::new(&[RR]);
    script.add(0, vec![event(&[5])], None).commit(0);
    assert_eq!(script.found(), SOUND);
    script.last(event(&[4]));
    assert_eq!(script.found(), [Anomaly::Orphan]);
}

#[test]
fn values_from_nowhere_are_found() {
    let mut script = Script::new(&[RR]);
    script.list(0, X, &[8]).commit(0).last_list(X, &[]);
    assert_eq!(script.found(), [Anomaly::Order]);
    let mut script = Script::new(&[RR, RR]);
    script.put(0, X, 1).put(0, X, 2).commit(0).list(1, X, &[2, 1]).commit(1);
    script.last_list(X, &[1, 2]);
    assert_eq!(script.found(), [Anomaly::Order]);
}
