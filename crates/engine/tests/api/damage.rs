//! Damage met by a statement names the table or index, its file and its block.
#![expect(clippy::unwrap_used, reason = "a test that fails panics")]

use std::collections::BTreeSet;
use std::path::Path;

use rightlink::{
    Database, Error, IndexSchema, Result, ScanOptions, TableSchema, Transaction, Type, Value,
};

const PAGE: usize = 8192;

fn row(id: i64) -> Vec<Value> {
    vec![Value::Int8(id), Value::Text(format!("{:0100}", id * 7919 % 3000))]
}

fn build(dir: &Path) {
    let db = Database::open(dir).unwrap();
    let mut txn = db.begin();
    let schema = TableSchema::new("t")
        .column("id", Type::Int8)
        .column("name", Type::Text)
        .primary_key(["id"])
        .index(IndexSchema::new("t_name").on("name"));
    txn.create_table(&schema).unwrap();
    txn.insert_many("t", &(0..3000).map(row).collect::<Vec<_>>()).unwrap();
    txn.commit().unwrap();
    db.close().unwrap();
}

/// Changes a byte of block `block` of every file of a user's table that has one.
fn damage(dir: &Path, block: usize) {
    for entry in std::fs::read_dir(dir.join("data")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        if (64..1 << 31).contains(&u32::from_str_radix(name, 16).unwrap())
            && bytes.len() > block * PAGE
        {
            bytes[block * PAGE + 5000] ^= 1;
            std::fs::write(&path, bytes).unwrap();
        }
    }
}

/// What a statement that meets damage says: relation, file, block.
fn said<T>(result: Result<T>) -> (String, String, u32) {
    match result {
        Err(Error::Corruption { relation: Some(relation), file, block: Some(block), .. }) => {
            (relation, file, block)
        }
        Err(error) => panic!("damage that names its place, not {error:?}"),
        Ok(_) => panic!("the damage was not met"),
    }
}

fn all(txn: &mut Transaction, options: &ScanOptions) -> Result<usize> {
    let rows: Result<Vec<_>> = txn.scan("t", options)?.collect();
    rows.map(|rows| rows.len())
}

/// The message used to be "corruption in data/00000040, block 6": which table is that?
#[test]
fn every_statement_names_the_relation_that_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    build(dir.path());
    damage(dir.path(), 3);
    let db = Database::open(dir.path()).unwrap();
    let mut txn = db.begin();
    let heap = said(all(&mut txn, &ScanOptions::all()));
    assert_eq!((heap.0.as_str(), heap.2), ("table t", 3));
    let index = said(all(&mut txn, &ScanOptions::index("t_name").columns(["name"])));
    assert_eq!(index.0, "index t_name of table t");
    let mut places = BTreeSet::new();
    for id in 0..3000 {
        let key = [Value::Int8(id)];
        if let Err(error) = txn.get("t", &key) {
            places.insert(said::<()>(Err(error)).0);
        }
    }
    assert!(places.remove("index t_pkey of table t"), "{places:?}");
    places.remove("table t");
    assert_eq!(places, BTreeSet::new(), "all are named");
    let twice: Vec<_> = (0..3000).map(row).collect();
    let written = said(txn.insert_many("t", &twice));
    assert!(written.0.ends_with("table t"), "{written:?}");
    assert!(said(db.vacuum(Some("t"))).0.ends_with("table t"));
    assert_eq!(said(db.inspect("t_name", None)).0, "index t_name of table t");
    assert_eq!(said(db.inspect("t", None)), heap);
    let text = all(&mut db.begin(), &ScanOptions::all()).unwrap_err().to_string();
    let start = format!("corruption in table t, {}, block 3: ", heap.1);
    assert!(heap.1.starts_with("data/") && text.starts_with(&start), "{text}");
}

/// A table whose first page is damaged cannot even be opened; the error still says which it is.
#[test]
fn a_table_that_cannot_be_opened_is_named() {
    let dir = tempfile::tempdir().unwrap();
    build(dir.path());
    damage(dir.path(), 0);
    let db = Database::open(dir.path()).unwrap();
    let (relation, file, block) = said(db.describe("t"));
    assert!(relation.ends_with("table t"), "{relation}");
    assert!(file.starts_with("data/"), "{file}");
    assert_eq!(block, 0);
}

/// Three tables, each with the files of its own; the number of the first file of each.
fn three_tables(dir: &Path) -> [u32; 3] {
    let db = Database::open(dir).unwrap();
    let mut firsts = [0; 3];
    for (at, name) in ["a", "b", "c"].into_iter().enumerate() {
        let before = files(dir);
        let mut txn = db.begin();
        let schema = TableSchema::new(name).column("id", Type::Int8).column("name", Type::Text);
        let by_name = IndexSchema::new(format!("{name}_name")).on("name");
        txn.create_table(&schema.primary_key(["id"]).index(by_name)).unwrap();
        txn.insert_many(name, &(0..50).map(row).collect::<Vec<_>>()).unwrap();
        txn.commit().unwrap();
        firsts[at] = *files(dir).difference(&before).next().unwrap();
    }
    db.close().unwrap();
    firsts
}

fn files(dir: &Path) -> BTreeSet<u32> {
    let names = std::fs::read_dir(dir.join("data")).unwrap();
    let number = |name: std::ffi::OsString| u32::from_str_radix(name.to_str().unwrap(), 16);
    names.map(|entry| number(entry.unwrap().file_name()).unwrap()).collect()
}

fn path(file: u32) -> String {
    format!("data/{file:08x}")
}

/// It was an input/output error that named no table.
#[test]
fn a_missing_file_is_damage_of_its_table_alone() {
    // Heap, overflow pages, indexes.
    let (pkey, by_name) = ("index b_pkey of table b", "index b_name of table b");
    for (offset, owner) in [(0, "table b"), (3, "table b"), (4, pkey), (5, by_name)] {
        let dir = tempfile::tempdir().unwrap();
        let [_, first, _] = three_tables(dir.path());
        let lost = path(first + offset);
        std::fs::remove_file(dir.path().join(&lost)).unwrap();

        let offline = Database::verify_offline(dir.path()).unwrap();
        let db = Database::open(dir.path()).unwrap();
        let mut txn = db.begin();
        match txn.scan("b", &ScanOptions::all()).map(drop) {
            Err(Error::Corruption { relation, file, block: None, what }) => {
                let found = (relation.as_deref(), file.as_str(), what.as_str());
                assert_eq!(found, (Some(owner), lost.as_str(), "the file is missing"));
            }
            other => panic!("{owner}: damage, not {other:?}"),
        }
        // The others are not concerned.
        for table in ["a", "c"] {
            txn.insert(table, &row(1000)).unwrap();
            assert_eq!(txn.scan(table, &ScanOptions::all()).unwrap().count(), 51);
        }
        txn.commit().unwrap();
        let mut txn = db.begin();
        let gone = txn.scan("c", &ScanOptions::all()).unwrap().next().unwrap().unwrap();
        assert!(txn.delete("c", gone.id).unwrap());
        txn.commit().unwrap();
        let vacuumed = db.vacuum(None).map(drop);
        assert!(matches!(&vacuumed, Err(Error::Corruption { .. })), "{vacuumed:?}");
        let figures = db.table_figures().unwrap();
        let of_c = figures.iter().find(|of| of.name == "c").unwrap();
        assert_eq!(of_c.garbage, 0, "what comes after the damaged table was vacuumed, too");
        let names: Vec<_> =
            db.tables().unwrap().into_iter().map(|table| table.schema.name).collect();
        assert_eq!(names, ["a", "b", "c"]);
        let online = db.verify().unwrap();
        for report in [&offline, &online] {
            let found = |f: &&rightlink::Finding| f.check == "X6" && f.file == first + offset;
            assert_eq!(report.findings.iter().filter(found).count(), 1, "{:?}", report.findings);
            let of_b = |f: &rightlink::Finding| f.relation.starts_with('b');
            assert!(report.findings.iter().all(of_b), "{:?}", report.findings);
            assert!(report.rows >= 100, "the other tables were checked: {report:?}");
        }
        // Neither is there a whole copy, nor does one say it is.
        let copied = db.backup(tempfile::tempdir().unwrap().path().join("copy"));
        assert!(
            matches!(&copied, Err(Error::Corruption { relation: Some(of), .. }) if of == owner)
        );

        let mut txn = db.begin();
        txn.drop_table("b").unwrap();
        assert!(matches!(txn.catalog().describe("b"), Err(Error::NotFound(_))));
        txn.commit().unwrap();
        assert!(db.verify().unwrap().is_clean());
        db.close().unwrap();
        let db = Database::open(dir.path()).unwrap();
        assert!(files(dir.path()).range(first..first + 6).next().is_none(), "its files are gone");
        let mut txn = db.begin();
        txn.create_table(&TableSchema::new("b").column("id", Type::Int8)).unwrap();
        txn.commit().unwrap();
        assert!(db.verify().unwrap().is_clean());
    }
}

/// A drop that is undone leaves the damage as it was, for everybody.
#[test]
fn a_damaged_table_whose_drop_is_undone_stays() {
    let dir = tempfile::tempdir().unwrap();
    let [_, first, _] = three_tables(dir.path());
    std::fs::remove_file(dir.path().join(path(first))).unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut txn = db.begin();
    txn.drop_table("b").unwrap();
    txn.rollback();
    let mut txn = db.begin();
    let met = txn.scan("b", &ScanOptions::all()).map(drop);
    assert!(matches!(met, Err(Error::Corruption { .. })), "{met:?}");
    assert_eq!(txn.catalog().definition("b").unwrap().columns.len(), 2);
    drop(txn);
    assert!(files(dir.path()).contains(&(first + 1)), "the other files are there");
}

/// The same for the file of a sequence: rows can be read, numbers cannot be drawn.
#[test]
fn a_missing_sequence_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let before = files(dir.path());
    let mut txn = db.begin();
    txn.create_sequence(&rightlink::SequenceSchema::new("tickets")).unwrap();
    txn.commit().unwrap();
    let file = *files(dir.path()).difference(&before).next().unwrap();
    db.close().unwrap();
    std::fs::remove_file(dir.path().join(path(file))).unwrap();
    let db = Database::open(dir.path()).unwrap();
    let mut txn = db.begin();
    match txn.next_value("tickets") {
        Err(Error::Corruption { relation, file: found, block: None, .. }) => {
            let wanted = (Some("sequence tickets".to_owned()), path(file));
            assert_eq!((relation, found), wanted);
        }
        other => panic!("damage, not {other:?}"),
    }
    drop(txn);
    let report = db.verify().unwrap();
    let found: Vec<_> = report.findings.iter().map(|f| (f.check, f.relation.as_str())).collect();
    assert_eq!(found, [("X6", "tickets")]);
}

/// A file of outcomes is missing: whoever opened the database nevertheless would take what was
/// committed for rolled back. It is told before anything is changed, so that the file can come
/// back.
#[test]
fn a_missing_file_of_outcomes_is_told_and_can_come_back() {
    let dir = tempfile::tempdir().unwrap();
    build(dir.path());
    let lost = "data/80000000";
    std::fs::rename(dir.path().join(lost), dir.path().join("lost")).unwrap();
    for _ in 0..2 {
        match Database::open(dir.path()).map(drop) {
            Err(Error::Corruption { file, block: None, what, .. }) => {
                assert_eq!(file, lost);
                assert!(what.contains("outcomes of transactions is missing"), "{what}");
            }
            other => panic!("damage, not {other:?}"),
        }
    }
    let report = Database::verify_offline(dir.path()).unwrap();
    let found = |f: &rightlink::Finding| f.check == "R1" && f.file == 1 << 31;
    assert!(report.findings.iter().any(found), "{:?}", report.findings);
    std::fs::rename(dir.path().join("lost"), dir.path().join(lost)).unwrap();
    let db = Database::open(dir.path()).unwrap();
    assert_eq!(all(&mut db.begin(), &ScanOptions::all()).unwrap(), 3000);
    assert!(db.verify().unwrap().is_clean());
}

/// "os error 20" said neither what is there nor what is wanted.
#[test]
fn a_path_that_is_no_directory_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("flights.csv");
    std::fs::write(&file, "id\n").unwrap();
    let name = file.display();
    let is_file = format!("{name} is a file, and not the directory of a database");
    let inside = format!("{name} is a file, so there is no directory {name}/db");
    let empty = "the path of the database is empty".to_owned();
    let sound = dir.path().join("sound");
    Database::open(&sound).unwrap().close().unwrap();
    for (path, said) in [(file.clone(), is_file), (file.join("db"), inside), ("".into(), empty)] {
        let refused = [
            Database::open(&path).map(drop),
            Database::options().create(false).open(&path).map(drop),
            Database::verify_offline(&path).map(drop),
            Database::restore(&path, dir.path().join("new")).map(drop),
            Database::restore(&sound, &path).map(drop),
        ];
        for refused in refused {
            assert!(matches!(&refused, Err(Error::Invalid(what)) if *what == said), "{refused:?}");
        }
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "id\n");
}
