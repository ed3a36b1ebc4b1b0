//! Text in the order of languages: indexes against sorted vectors, uniqueness, what is read from an
//! index alone, and an index whose Unicode data is not the build's.
//!
//! Does not do: the order of keys itself (`collation::tests`), SQL.
#![cfg(feature = "icu")]

use std::path::Path;

use rightlink::internal::ids::{FileId, PageId};
use rightlink::internal::page::checksum;
use rightlink::{
    Collation, ColumnSchema, Condition, Database, Error, IndexMethod, IndexSchema, KeyColumn,
    OnConflict, Predicate, Result, ScanOptions, TableSchema, Transaction, Type, Value,
};
use rightlink_env::Rng;

use crate::fresh::{empty, run};

const PAGE: usize = 8192;
/// The catalog's heap.
const CATALOG: u32 = 2;

fn text(value: &str) -> Value {
    Value::Text(value.into())
}

fn collation(locale: &str, deterministic: bool) -> Collation {
    Collation::new(locale, deterministic).unwrap()
}

fn found(txn: &mut Transaction, table: &str, options: &ScanOptions) -> Vec<Vec<Value>> {
    txn.scan(table, options).unwrap().map(|row| row.unwrap().values).collect()
}

fn clean(db: &Database) {
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}

fn word(rng: &mut Rng) -> Value {
    if rng.chance(1, 20) {
        return Value::Null;
    }
    let letters = ['a', 'A', 'ä', 'Ä', 'b', 'B', 'z', 'å', 'ö', '-', ' ', '1', '\0', '\u{301}'];
    let len = rng.index(6);
    text(&(0..len).map(|_| *rng.pick(&letters).unwrap()).collect::<String>())
}

/// Nulls last, as an ascending index has them.
fn order(collation: &Collation, a: &Value, b: &Value) -> std::cmp::Ordering {
    match (a, b) {
        (Value::Text(a), Value::Text(b)) => collation.compare(a, b),
        (a, b) => a.is_null().cmp(&b.is_null()),
    }
}

/// An index against a sorted vector, while rows come, change and go.
#[test]
fn indexes_are_in_the_collations_order() {
    for (seed, locale, deterministic) in
        [(1, "sv", true), (2, "und-u-ks-level2", false), (3, "th-u-ks-level1", false)]
    {
        let (_dir, db) = empty();
        let by = collation(locale, deterministic);
        let schema = TableSchema::new("t")
            .column("id", Type::Int4)
            .with_column(ColumnSchema::new("w", Type::Text).nullable().collate(&by))
            .primary_key(["id"])
            .index(IndexSchema::new("up").on("w").on("id"))
            .index(IndexSchema::new("down").key(KeyColumn::descending("w")).on("id"))
            .index(IndexSchema::new("exact").on("w").method(IndexMethod::Hash));
        run(&db, |txn| txn.create_table(&schema)).unwrap();
        let mut rng = Rng::from_seed(seed);
        let mut rows: Vec<(i32, Value)> = Vec::new();
        for round in 0..6 {
            let mut txn = db.begin();
            for id in round * 400..(round + 1) * 400 {
                rows.push((id, word(&mut rng)));
                let (id, word) = rows.last().unwrap();
                txn.insert("t", &[Value::Int4(*id), word.clone()]).unwrap();
            }
            for _ in 0..150 {
                let at = rng.index(rows.len());
                let row = txn.get("t", &[Value::Int4(rows[at].0)]).unwrap().unwrap();
                if rng.chance(1, 3) {
                    assert!(txn.delete("t", row.id).unwrap());
                    rows.swap_remove(at);
                } else {
                    rows[at].1 = word(&mut rng);
                    assert!(txn.update("t", row.id, &[("w", rows[at].1.clone())]).unwrap());
                }
            }
            txn.commit().unwrap();
            rows.sort_by(|a, b| order(&by, &a.1, &b.1).then(a.0.cmp(&b.0)));
            check(&db, &by, &rows, &mut rng);
        }
        clean(&db);
        db.vacuum(Some("t")).unwrap();
        clean(&db);
        check(&db, &by, &rows, &mut rng);
    }
}

fn check(db: &Database, by: &Collation, rows: &[(i32, Value)], rng: &mut Rng) {
    let mut txn = db.begin();
    let ids = |found: Vec<Vec<Value>>| -> Vec<Value> {
        found.into_iter().map(|row| row[0].clone()).collect()
    };
    let wanted = |keep: &dyn Fn(&Value) -> bool| -> Vec<Value> {
        let kept = rows.iter().filter(|(_, word)| keep(word));
        kept.map(|(id, _)| Value::Int4(*id)).collect()
    };
    let all = wanted(&|_| true);
    let up = ScanOptions::index("up");
    assert_eq!(ids(found(&mut txn, "t", &up)), all);
    let mut back = ids(found(&mut txn, "t", &up.clone().backward()));
    back.reverse();
    assert_eq!(back, all);
    let mut down: Vec<_> = rows.to_vec();
    down.sort_by(|a, b| order(by, &b.1, &a.1).then(a.0.cmp(&b.0)));
    let down: Vec<Value> = down.into_iter().map(|(id, _)| Value::Int4(id)).collect();
    assert_eq!(ids(found(&mut txn, "t", &ScanOptions::index("down"))), down);
    for _ in 0..20 {
        let (Value::Text(low), Value::Text(high)) = (word(rng), word(rng)) else { continue };
        let between = |value: &Value| match value {
            Value::Text(v) => by.compare(v, &low).is_ge() && by.compare(v, &high).is_lt(),
            _ => false,
        };
        let condition = Condition::Between(
            std::ops::Bound::Included(text(&low)),
            std::ops::Bound::Excluded(text(&high)),
        );
        let range = up.clone().matching("w", condition);
        assert_eq!(ids(found(&mut txn, "t", &range)), wanted(&between), "{low:?} {high:?}");
        let equal = |value: &Value| matches!(value, Value::Text(v) if by.equal(v, &low));
        let mut exact =
            ids(found(&mut txn, "t", &ScanOptions::index("exact").equal(vec![text(&low)])));
        exact.sort();
        let mut same = wanted(&equal);
        same.sort();
        assert_eq!(exact, same, "{low:?}");
        let mut listed = ids(found(&mut txn, "t", &up.clone().equal(vec![text(&low)])));
        listed.sort();
        assert_eq!(listed, same, "{low:?}");
    }
}

fn people(name: &Collation) -> TableSchema {
    TableSchema::new("people")
        .with_column(ColumnSchema::new("name", Type::Text).collate(name))
        .column("n", Type::Int4)
        .primary_key(["name"])
        .index(IndexSchema::new("covering").on("n").include(["name"]))
        .index(IndexSchema::new("keyed").on("name").on("n"))
}

#[test]
fn what_a_collation_takes_for_equal_is_a_duplicate() {
    let (_dir, db) = empty();
    let nocase = collation("und-u-ks-level2", false);
    run(&db, |txn| txn.create_table(&people(&nocase))).unwrap();
    let row = |name: &str, n| vec![text(name), Value::Int4(n)];
    run(&db, |txn| txn.insert("people", &row("Anna", 1))).unwrap();
    let twice = run(&db, |txn| txn.insert("people", &row("ANNA", 2)));
    assert!(matches!(twice, Err(Error::UniqueViolation { index, .. }) if index == "people_pkey"));
    let both = run(&db, |txn| txn.insert_many("people", &[row("x", 2), row("X", 3)]));
    assert!(matches!(both, Err(Error::UniqueViolation { .. })));
    run(&db, |txn| {
        let merge = &mut |_: &[Value], proposed: &[Value]| Ok(Some(proposed.to_vec()));
        let rows = [row("aNNa", 7), row("Bo", 8)];
        txn.insert_into("people").or_update(OnConflict::Columns(&["name"]), &rows, merge).map(drop)
    })
    .unwrap();
    let mut txn = db.begin();
    let anna = txn.get("people", &[text("ANNA")]).unwrap().unwrap();
    assert_eq!(anna.values, row("aNNa", 7), "the row has its own letters");
    // Neither is taken from the key, which does not have them.
    let keyed = found(&mut txn, "people", &ScanOptions::index("keyed").columns(["name", "n"]));
    assert_eq!(keyed, [row("aNNa", 7), row("Bo", 8)]);
    let covering = ScanOptions::index("covering").columns(["name", "n"]);
    assert_eq!(found(&mut txn, "people", &covering), [row("aNNa", 7), row("Bo", 8)]);
    drop(txn);
    db.vacuum(Some("people")).unwrap();
    let mut txn = db.begin();
    let keyed = found(&mut txn, "people", &ScanOptions::index("keyed").columns(["n", "name"]));
    assert_eq!(keyed[0], [Value::Int4(7), text("aNNa")]);
    assert_eq!(found(&mut txn, "people", &covering), [row("aNNa", 7), row("Bo", 8)]);
    let behind = ScanOptions::index("keyed").columns(["n"]);
    assert_eq!(found(&mut txn, "people", &behind), [[Value::Int4(7)], [Value::Int4(8)]]);
    drop(txn);
    clean(&db);
}

#[test]
fn a_key_too_long_names_the_column() {
    let (_dir, db) = empty();
    run(&db, |txn| txn.create_table(&people(&collation("de", true)))).unwrap();
    let long = run(&db, |txn| txn.insert("people", &[text(&"ä".repeat(900)), Value::Int4(1)]));
    match long {
        Err(Error::RowTooLarge(what)) => {
            assert!(what.contains("key of ") && what.contains("column name takes "), "{what}");
        }
        other => panic!("{other:?}"),
    }
    clean(&db);
}

#[test]
fn checks_and_partial_indexes_compare_as_the_column_does() {
    let (_dir, db) = empty();
    let schema = TableSchema::new("t")
        .with_column(ColumnSchema::new("w", Type::Text).collate(&collation("sv", true)))
        .check("swedish", Predicate::new().at_most("w", text("ö")))
        .index(IndexSchema::new("late").on("w").only(Predicate::new().at_least("w", text("z"))))
        .index(IndexSchema::new("bytes").key(KeyColumn {
            collation: rightlink::KeyCollation::Bytes,
            ..KeyColumn::ascending("w")
        }));
    run(&db, |txn| txn.create_table(&schema)).unwrap();
    for word in ["a", "Z", "å", "ä", "ö"] {
        run(&db, |txn| txn.insert("t", &[text(word)])).unwrap();
    }
    let beyond = run(&db, |txn| txn.insert("t", &[text("öl")]));
    assert!(matches!(beyond, Err(Error::CheckViolation { .. })), "{beyond:?}");
    let mut txn = db.begin();
    let late = found(&mut txn, "t", &ScanOptions::index("late"));
    assert_eq!(late, [[text("Z")], [text("å")], [text("ä")], [text("ö")]]);
    let bytes = found(&mut txn, "t", &ScanOptions::index("bytes"));
    assert_eq!(bytes, [[text("Z")], [text("a")], [text("ä")], [text("å")], [text("ö")]]);
    let starts = Condition::StartsWith(b"a".to_vec());
    let prefix = ScanOptions::index("bytes").matching("w", starts.clone());
    assert_eq!(found(&mut txn, "t", &prefix), [[text("a")]]);
    let refused = txn.scan("t", &ScanOptions::index("late").matching("w", starts));
    assert!(matches!(refused.map(drop), Err(Error::Invalid(what)) if what.contains("filter")));
    drop(txn);
    clean(&db);
}

/// Makes indexes of a closed database look as if they were built with other data.
fn plant_other_data(dir: &Path) {
    let path = dir.join(format!("data/{CATALOG:08x}"));
    let mut bytes = std::fs::read(&path).unwrap();
    let mut planted = 0;
    for (block, page) in bytes.chunks_exact_mut(PAGE).enumerate() {
        let mark = b"icu4x-";
        let places: Vec<usize> =
            (0..PAGE - mark.len()).filter(|at| page[*at..].starts_with(mark)).collect();
        for at in &places {
            // icu4x-2.4 becomes icu4x-1.4.
            page[at + mark.len()] = b'1';
        }
        planted += places.len();
        if !places.is_empty() {
            let page: &mut [u8; PAGE] = page.try_into().unwrap();
            checksum::stamp(PageId::new(FileId(CATALOG), block as u32), page);
        }
    }
    assert!(planted > 0);
    std::fs::write(&path, bytes).unwrap();
}

fn is_stale<T: std::fmt::Debug>(result: Result<T>) {
    match result {
        Err(Error::Collation { of, what }) => {
            assert!(of.starts_with("index ") && of.ends_with(" of table people"), "{of}");
            assert!(what.contains("icu4x-1.4/") && what.contains("reindex"), "{what}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_index_of_other_data_is_reported_refused_and_mended() {
    let (dir, db) = empty();
    run(&db, |txn| txn.create_table(&people(&collation("sv", true)))).unwrap();
    let rows: Vec<_> = (0..500).map(|n| vec![text(&format!("å{n}")), Value::Int4(n)]).collect();
    run(&db, |txn| txn.insert_many("people", &rows)).unwrap();
    db.close().unwrap();
    plant_other_data(dir.path());

    let db = Database::open(dir.path()).unwrap();
    let report = db.verify().unwrap();
    let found_by: Vec<&str> = report.findings.iter().map(|finding| finding.check).collect();
    assert_eq!(found_by, ["X9", "X9"], "{:?}", report.findings);
    assert!(report.findings.iter().all(|finding| finding.what.contains("reindex")));
    let mut txn = db.begin();
    is_stale(txn.get("people", &[text("å7")]).map(drop));
    is_stale(txn.scan("people", &ScanOptions::index("keyed")).map(drop));
    // What does not go through them works.
    assert_eq!(found(&mut txn, "people", &ScanOptions::all()).len(), 500);
    let by_number = ScanOptions::index("covering").equal(vec![Value::Int4(3)]);
    let row = txn.scan("people", &by_number).unwrap().next().unwrap().unwrap();
    assert!(txn.delete("people", row.id).unwrap());
    txn.commit().unwrap();
    is_stale(run(&db, |txn| txn.insert("people", &[text("b"), Value::Int4(0)])));
    db.vacuum(Some("people")).unwrap();

    assert_eq!(db.reindex("people", None).unwrap(), 3);
    clean(&db);
    run(&db, |txn| txn.insert("people", &[text("b"), Value::Int4(0)])).unwrap();
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    clean(&db);
    let mut txn = db.begin();
    assert!(txn.get("people", &[text("å7")]).unwrap().is_some());
    assert!(txn.get("people", &[text("å3")]).unwrap().is_none());
    assert_eq!(found(&mut txn, "people", &ScanOptions::index("keyed")).len(), 500);
}

/// Definitions survive, and so do collations with names of their own.
#[test]
fn definitions_are_kept() {
    let (dir, db) = empty();
    let nocase = collation("und-u-ks-level2", false).named("nocase");
    run(&db, |txn| {
        txn.catalog().create_collation(&nocase)?;
        txn.create_table(&people(&nocase))
    })
    .unwrap();
    assert!(matches!(
        run(&db, |txn| txn.catalog().create_collation(&nocase)),
        Err(Error::AlreadyExists(_))
    ));
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut txn = db.begin();
    let known = txn.catalog().collation("nocase").unwrap().unwrap();
    assert!(known == nocase && known.name() == "nocase" && !known.is_deterministic());
    let info = txn.catalog().describe("people").unwrap();
    assert_eq!(info.columns[0].collation.as_ref(), Some(&nocase));
    assert_eq!(info.columns[0].collation.as_ref().unwrap().name(), "nocase");
    assert_eq!(info.columns[1].collation, None);
    let keyed = info.indexes.iter().find(|index| index.name == "keyed").unwrap();
    assert_eq!(keyed.columns[0].collation.given(), Some(&nocase));
    drop(txn);
    assert!(matches!(
        run(&db, |txn| txn.catalog().drop_collation("nocase")),
        Err(Error::Invalid(_))
    ));
    run(&db, |txn| txn.drop_table("people")).unwrap();
    run(&db, |txn| txn.catalog().drop_collation("nocase")).unwrap();
    assert!(run(&db, |txn| txn.catalog().collations()).unwrap().is_empty());
    clean(&db);
    let number = ColumnSchema::new("n", Type::Int4).collate(&nocase);
    let wrong = run(&db, |txn| txn.create_table(&TableSchema::new("x").with_column(number)));
    assert!(matches!(wrong, Err(Error::Invalid(_))), "{wrong:?}");
}
