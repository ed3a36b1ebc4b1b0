//! Statements that give space back work on a disk that has no room for another segment of the log.

use rightlink::Database;
use rightlink_aio::sim::CrashChoice;
use rightlink_aio::{Io, IoOptions, Method, SimDisk};
use rightlink_env::Env;
use rightlink_sql::{Result, Session};

const SEGMENT: u64 = 64 << 10;
/// Room that is left: for small files, and for no segment.
const SLACK: u64 = SEGMENT - 8192;

fn open(disk: &SimDisk) -> Database {
    let options = Database::options().memory(8 << 20).pool_pages(96);
    let options = options.log_segment_bytes(SEGMENT).max_log_bytes(4 << 20);
    options.simulation(Env::simulated(1), disk.clone()).open("").unwrap()
}

fn run(session: &mut Session, sql: &str) -> Result<String> {
    Ok(session.execute(sql)?.pop().expect("one statement").tag)
}

fn code(session: &mut Session, sql: &str) -> String {
    let error = run(session, sql).expect_err("it is refused");
    error.sqlstate.to_string()
}

/// Where the control file says that redo begins.
fn redo_position(disk: &SimDisk) -> u64 {
    let word = |copy: u64, at: u64| {
        let bytes = disk.peek("control", copy * 4096 + at, 8);
        u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
    };
    let newer = u64::from(word(1, 16) > word(0, 16));
    word(newer, 32)
}

/// A database as a kill left it, with the one segment of the log that redo begins in, near its
/// start: the rest of it is what a full disk leaves.
fn full() -> SimDisk {
    let disk = SimDisk::new(1);
    let db = open(&disk);
    let mut session = Session::new(&db);
    for table in ["t", "other"] {
        run(&mut session, &format!("create table {table} (id int primary key, pad text)")).unwrap();
        let rows: Vec<_> = (1..=200).map(|n| format!("({n}, 'padding')")).collect();
        run(&mut session, &format!("insert into {table} values {}", rows.join(", "))).unwrap();
    }
    run(&mut session, "create table child (id int references t on delete cascade)").unwrap();
    run(&mut session, "insert into child values (1), (2), (150)").unwrap();
    // What ends where redo begins has begun in the same segment.
    for id in 1000.. {
        let sql = format!("insert into t values ({id}, repeat('x', 1000))");
        run(&mut session, &sql).unwrap();
        db.checkpoint().unwrap();
        if (SEGMENT / 8..SEGMENT / 4).contains(&(redo_position(&disk) % SEGMENT)) {
            break;
        }
    }
    let last = redo_position(&disk) / SEGMENT;
    let disk = disk.crash_image(&CrashChoice::AllKept);
    let options = IoOptions::with_method(Method::Sync);
    let io = Io::simulated(&Env::simulated(1), disk.clone(), options).unwrap();
    for (name, _) in disk.files() {
        let number = name.strip_prefix("wal/").and_then(|n| u64::from_str_radix(n, 16).ok());
        if number.is_some_and(|number| number != last) {
            io.remove(&name).unwrap();
        }
    }
    disk.capacity(disk.allocated() + SLACK);
    disk
}

/// DELETE asked for as much log as an INSERT, so a full disk could not be freed by SQL.
#[test]
fn rows_and_tables_leave_a_full_disk() {
    let disk = full();
    let db = open(&disk);
    let mut session = Session::new(&db);
    let insert = "insert into other values (9999, 'x')";
    assert_eq!(code(&mut session, insert), "53100");
    assert_eq!(code(&mut session, "update t set pad = 'y' where id = 3"), "53100");
    assert_eq!(run(&mut session, "delete from t where id < 10").unwrap(), "DELETE 9");
    let deleted = session.execute("delete from t where id = 11 returning id").unwrap();
    assert_eq!(deleted[0].rows.len(), 1);
    let left = session.execute("select id from child").unwrap();
    assert_eq!(left[0].rows.len(), 1, "what refers to the rows goes with them");
    assert_eq!(code(&mut session, insert), "53100", "it is still full");
    assert_eq!(run(&mut session, "truncate other").unwrap(), "TRUNCATE TABLE");
    assert_eq!(run(&mut session, "drop table t cascade").unwrap(), "DROP TABLE");
    assert_eq!(run(&mut session, insert).unwrap(), "INSERT 0 1");
    drop(session);
    assert!(db.verify().unwrap().is_clean());
}
