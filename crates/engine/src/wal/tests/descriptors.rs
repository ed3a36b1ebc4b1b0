//! Segments are opened before records go into them: no flush opens a file, and a process that can
//! open none is told so before anything is appended.

use super::*;

fn no_file_opens(disk: &SimDisk) {
    disk.fail_nth(OpKind::Open, 0, FaultKind::Io, Repeat::Forever);
}

/// New segments and recycled ones, and never more than three of them open between two flushes.
#[test]
fn a_flush_opens_no_file() {
    let disk = SimDisk::new(23);
    let wal = create(&disk).unwrap();
    let mut last = Lsn(0);
    for i in 0..2000 {
        wal.admit(Admission::Begin).unwrap();
        no_file_opens(&disk);
        last = append(&wal, i).unwrap();
        wal.flush(last).unwrap();
        disk.clear_faults();
        assert!(wal.segments.open_files() <= 3, "after record {i}");
        if wal.needs_checkpoint() {
            wal.write_control(&Control { redo: last, ..control() }).unwrap();
        }
    }
    let stats = wal.stats();
    assert!(stats.recycled > 3, "{stats:?}");
    drop(wal);
    let redo = Wal::read_control(&sim_io(&disk)).unwrap().redo;
    let (records, end) = read(&sim_io(&disk), redo).unwrap();
    assert_eq!(end, last);
    assert_is(records.last().unwrap(), 1999);
}

/// As on a full disk: work that begins is refused, work under way goes on, and who ignores both is
/// refused with nothing appended. When files open again so does everything.
#[test]
fn who_can_open_no_file_is_told_and_loses_nothing() {
    let disk = SimDisk::new(24);
    let wal = create(&disk).unwrap();
    no_file_opens(&disk);
    let (refused, mut i) = begin_until_refused(&wal);
    assert!(matches!(&refused, Error::Io(error) if error.op == "open"), "{refused}");
    assert!(wal.has_room(Admission::GoOn) && wal.admit(Admission::GoOn).is_ok());
    let refused = loop {
        match append(&wal, i) {
            Ok(_) => i += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(&refused, Error::Io(error) if error.op == "open"), "{refused}");
    wal.flush(wal.end()).unwrap();
    wal.write_control(&Control { durable: wal.end(), ..control() }).unwrap();
    disk.clear_faults();
    wal.admit(Admission::Begin).unwrap();
    append(&wal, i).unwrap();
    wal.flush(wal.end()).unwrap();
    let cut = disk.crash_image(&rightlink_aio::sim::CrashChoice::AllLost);
    assert_eq!(recover(&cut).unwrap().records.len() as u64, i + 1);
}

/// A segment is made, and stays open, under another name than it has when something fails.
#[test]
fn an_error_names_the_segment() {
    for op in [OpKind::Write, OpKind::Sync] {
        let disk = SimDisk::new(25);
        let wal = create(&disk).unwrap();
        let end = append(&wal, 0).unwrap();
        disk.fail_nth(op, 0, FaultKind::Io, Repeat::Once);
        let error = wal.flush(end).unwrap_err().to_string();
        assert!(error.contains("\"wal/00000000\""), "{error}");
    }
}
