//! Messages as events of `tracing`. No other test runs meanwhile, because a subscriber of one
//! thread changes what is enabled for all.

#![cfg(feature = "tracing")]

use std::fmt;

use rightlink::{Database, TableSchema, Type, Value};
use rightlink_env::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// A subscriber that keeps the messages of our events.
#[derive(Clone, Default)]
struct Keeper(Arc<Mutex<Vec<String>>>);

struct Message<'a>(&'a Keeper);

impl Visit for Message<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0.0.lock().push(format!("{value:?}"));
        }
    }
}

impl Subscriber for Keeper {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "rightlink"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Message(self));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn recovery_is_an_event() {
    let _alone = crate::alone();
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("copy");
    let db = Database::open(dir.path().join("db")).unwrap();
    let mut txn = db.begin();
    txn.create_table(&TableSchema::new("t").column("id", Type::Int8)).unwrap();
    txn.insert("t", &[Value::Int8(1)]).unwrap();
    txn.commit().unwrap();
    // A copy is a database as a crash would leave it.
    db.backup(&copy).unwrap();
    let keeper = Keeper::default();
    let db = tracing::subscriber::with_default(keeper.clone(), || Database::open(&copy));
    let db = db.unwrap();
    let messages = keeper.0.lock().clone();
    assert!(messages.iter().any(|message| message.contains("records of log")), "{messages:?}");
    assert!(db.verify().unwrap().is_clean());
}
