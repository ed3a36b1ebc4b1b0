//! The simulated disk: what survives a power cut, what a fault does, and that a seed decides it
//! all.
#![cfg(not(feature = "shuttle"))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use rightlink_aio::sim::{CrashChoice, FaultKind, OpKind, PendingKind, Repeat, Tear};
use rightlink_aio::{
    AlignedBuf, File, Io, IoError, IoErrorKind, IoOptions, Method, OpenMode, SimDisk,
};
use rightlink_env::sync::{Arc, Mutex};
use rightlink_env::{Env, Rng};
use std::collections::BTreeSet;

/// An `Io` on `disk`, whose operations complete within submit.
fn io_on(disk: &SimDisk) -> Io {
    let options = IoOptions::with_method(Method::Sync);
    Io::simulated(&Env::simulated(1), disk.clone(), options).unwrap()
}

fn create(io: &Io, name: &str) -> File {
    io.open_file(name, OpenMode::CreateNew).unwrap()
}

/// A disk whose file `f` holds `bytes`, all of it durable.
fn disk_with(bytes: &[u8]) -> (SimDisk, Io, File) {
    let disk = SimDisk::new(3);
    let io = io_on(&disk);
    let file = create(&io, "f");
    file.write_all_at(bytes, 0).unwrap();
    file.sync_all().unwrap();
    io.sync_dir("").unwrap();
    (disk, io, file)
}

/// The bytes of `f` after a power cut; none if the file is gone.
fn after(disk: &SimDisk, choice: &CrashChoice) -> Option<Vec<u8>> {
    let left = disk.crash_image(choice);
    let (name, len) = left.files().into_iter().find(|(name, _)| name == "f")?;
    Some(left.peek(&name, 0, len as usize))
}

fn kinds(disk: &SimDisk) -> Vec<PendingKind> {
    disk.pending().kinds()
}

// ---- What a power cut leaves.

#[test]
fn what_was_synced_survives_every_choice() {
    let (disk, ..) = disk_with(b"durable");
    assert!(disk.pending().is_empty());
    assert_eq!(disk.pending().choices(1), [CrashChoice::AllLost]);
    for choice in [CrashChoice::AllLost, CrashChoice::AllKept, CrashChoice::Subset(4)] {
        assert_eq!(after(&disk, &choice).unwrap(), b"durable");
    }
}

#[test]
fn a_synced_file_without_a_synced_name_is_gone() {
    let disk = SimDisk::new(3);
    let io = io_on(&disk);
    let file = create(&io, "f");
    file.write_all_at(b"bytes", 0).unwrap();
    file.sync_all().unwrap();
    assert_eq!(kinds(&disk), [PendingKind::Entry]);
    assert_eq!(after(&disk, &CrashChoice::AllLost), None);
    assert_eq!(after(&disk, &CrashChoice::LostEntries), None);
    assert_eq!(after(&disk, &CrashChoice::AllKept).unwrap(), b"bytes");
    io.sync_dir("").unwrap();
    assert_eq!(after(&disk, &CrashChoice::AllLost).unwrap(), b"bytes");
}

#[test]
fn a_synced_name_without_a_synced_file_is_empty() {
    let disk = SimDisk::new(3);
    let io = io_on(&disk);
    create(&io, "f").write_all_at(b"bytes", 0).unwrap();
    io.sync_dir("").unwrap();
    assert_eq!(kinds(&disk), [PendingKind::Grow, PendingKind::Write]);
    assert_eq!(after(&disk, &CrashChoice::AllLost).unwrap(), b"");
    assert_eq!(after(&disk, &CrashChoice::LostGrowth).unwrap(), b"");
    assert_eq!(after(&disk, &CrashChoice::ZeroTails).unwrap(), [0; 5]);
    let garbage = after(&disk, &CrashChoice::GarbageTails(1)).unwrap();
    assert!(garbage.len() == 5 && garbage != b"bytes" && garbage != [0; 5], "{garbage:?}");
}

#[test]
fn a_file_in_a_lost_directory_is_lost() {
    let disk = SimDisk::new(3);
    let io = io_on(&disk);
    io.create_dir("d").unwrap();
    let file = create(&io, "d/f");
    file.write_all_at(b"bytes", 0).unwrap();
    file.sync_all().unwrap();
    io.sync_dir("d").unwrap();
    assert_eq!(kinds(&disk), [PendingKind::Entry]);
    assert!(disk.crash_image(&CrashChoice::AllLost).files().is_empty());
    io.sync_dir("").unwrap();
    let files = disk.crash_image(&CrashChoice::AllLost).files();
    assert_eq!(files, [("d/f".to_string(), 5)]);
}

#[test]
fn pending_writes_are_independent() {
    let (disk, _io, file) = disk_with(&[b'-'; 6]);
    for (index, byte) in [b"a", b"b", b"c"].into_iter().enumerate() {
        file.write_all_at(byte, 2 * index as u64).unwrap();
    }
    let text = |choice| String::from_utf8(after(&disk, &choice).unwrap()).unwrap();
    assert_eq!(text(CrashChoice::AllLost), "------");
    assert_eq!(text(CrashChoice::AllKept), "a-b-c-");
    assert_eq!(text(CrashChoice::DropOnly(1)), "a---c-");
    assert_eq!(text(CrashChoice::KeepOnly(1)), "--b---");
    assert_eq!(text(CrashChoice::Prefix(2)), "a-b---");
    let subsets: BTreeSet<String> = (0..64).map(|seed| text(CrashChoice::Subset(seed))).collect();
    assert_eq!(subsets.len(), 8, "64 seeds find all subsets of three: {subsets:?}");
    assert_eq!(text(CrashChoice::Subset(5)), text(CrashChoice::Subset(5)));
    // The process that did not crash still sees everything.
    assert_eq!(disk.peek("f", 0, 6), b"a-b-c-");
}

#[test]
fn files_are_synced_each_for_itself() {
    let (disk, io, file) = disk_with(b"old");
    let other = create(&io, "g");
    other.write_all_at(b"new", 0).unwrap();
    file.write_all_at(b"new", 0).unwrap();
    file.sync_data().unwrap();
    let left = disk.crash_image(&CrashChoice::AllLost);
    assert_eq!(left.files(), [("f".to_string(), 3)]);
    assert_eq!(left.peek("f", 0, 3), b"new");
}

#[test]
fn a_torn_write_is_cut_at_sectors() {
    let (disk, _io, file) = disk_with(&[0; 16384]);
    file.write_all_at(&[1; 8192], 4096).unwrap();
    let torn = |sector, tear| {
        let choice = CrashChoice::Torn { index: 0, sector, tear, others: false };
        let bytes = after(&disk, &choice).unwrap();
        assert!(bytes.chunks(sector).all(|piece| piece.iter().all(|b| *b == piece[0])));
        let pieces: Vec<u8> = bytes.chunks(sector).map(|piece| piece[0]).collect();
        pieces
    };
    assert_eq!(torn(4096, Tear::First(1)), [0, 1, 0, 0]);
    assert_eq!(torn(4096, Tear::Last(1)), [0, 0, 1, 0]);
    let first = torn(512, Tear::First(3));
    assert_eq!(first.iter().position(|b| *b == 1), Some(8));
    assert_eq!(first.iter().filter(|b| **b == 1).count(), 3);
    let last = torn(512, Tear::Last(5));
    assert_eq!(last.iter().rposition(|b| *b == 1), Some(23));
    assert_eq!(last.iter().filter(|b| **b == 1).count(), 5);
    let random = torn(512, Tear::Random(2)).iter().filter(|b| **b == 1).count();
    assert!((1..16).contains(&random));
}

#[test]
fn an_unaligned_write_is_torn_at_the_files_sectors() {
    let (disk, _io, file) = disk_with(&[0; 2048]);
    file.write_all_at(&[1; 600], 500).unwrap();
    let choice = CrashChoice::Torn { index: 0, sector: 512, tear: Tear::First(1), others: false };
    let bytes = after(&disk, &choice).unwrap();
    assert_eq!(bytes.iter().filter(|b| **b == 1).count(), 12);
    let choice = CrashChoice::Torn { index: 0, sector: 512, tear: Tear::Last(1), others: false };
    let bytes = after(&disk, &choice).unwrap();
    assert_eq!(bytes.iter().filter(|b| **b == 1).count(), 76);
}

#[test]
fn a_rename_is_whole_or_not_there() {
    let (disk, io, _file) = disk_with(b"old");
    let new = create(&io, "tmp");
    new.write_all_at(b"new!", 0).unwrap();
    new.sync_all().unwrap();
    io.rename("tmp", "f").unwrap();
    let mut seen = BTreeSet::new();
    for choice in disk.pending().choices(9) {
        seen.insert(after(&disk, &choice).expect("one of the two is there"));
        assert!(disk.crash_image(&choice).files().len() <= 2);
    }
    assert_eq!(seen, BTreeSet::from([b"old".to_vec(), b"new!".to_vec()]));
    io.sync_dir("").unwrap();
    assert_eq!(after(&disk, &CrashChoice::AllLost).unwrap(), b"new!");
}

#[test]
fn a_rename_between_directories_needs_both_synced() {
    let (disk, io, _file) = disk_with(b"x");
    io.create_dir("d").unwrap();
    io.sync_dir("").unwrap();
    io.rename("f", "d/f").unwrap();
    io.sync_dir("d").unwrap();
    assert_eq!(kinds(&disk), [PendingKind::Entry]);
    io.sync_dir("").unwrap();
    assert!(disk.pending().is_empty());
    assert_eq!(disk.crash_image(&CrashChoice::AllLost).files(), [("d/f".to_string(), 1)]);
}

#[test]
fn cuts_allocations_and_removals_wait_too() {
    let (disk, io, file) = disk_with(&[7; 5000]);
    file.set_len(10).unwrap();
    file.allocate(0, 20).unwrap();
    assert_eq!(kinds(&disk), [PendingKind::Cut, PendingKind::Allocate]);
    assert_eq!(after(&disk, &CrashChoice::AllLost).unwrap(), [7; 5000]);
    let kept = after(&disk, &CrashChoice::AllKept).unwrap();
    assert_eq!(kept, [[7; 10], [0; 10]].concat());
    io.remove("f").unwrap();
    assert_eq!(after(&disk, &CrashChoice::LostEntries).unwrap().len(), 20);
    io.sync_dir("").unwrap();
    assert_eq!(after(&disk, &CrashChoice::AllKept), None);
}

/// Temporary files come and go by the thousand; nothing of them may stay behind.
#[test]
fn removed_files_leave_nothing_pending() {
    let (disk, io, _file) = disk_with(b"x");
    let temporary = create(&io, "t");
    temporary.write_all_at(&[1; 9000], 0).unwrap();
    io.sync_dir("").unwrap();
    io.remove("t").unwrap();
    assert_eq!(kinds(&disk).len(), 3);
    io.sync_dir("").unwrap();
    assert!(disk.pending().is_empty());
    // A file that is synced before its name is keeps its bytes.
    let file = create(&io, "g");
    file.write_all_at(b"kept", 0).unwrap();
    file.sync_all().unwrap();
    io.create_dir("d").unwrap();
    io.rename("g", "d/g").unwrap();
    io.sync_dir("d").unwrap();
    assert!(disk.crash_image(&CrashChoice::AllKept).peek("d/g", 0, 4) == b"kept");
    io.sync_dir("").unwrap();
    assert!(disk.crash_image(&CrashChoice::AllLost).peek("d/g", 0, 4) == b"kept");
}

#[test]
fn a_failed_sync_gives_up_what_it_should_have_written() {
    let (disk, _io, file) = disk_with(b"old");
    file.write_all_at(b"new", 0).unwrap();
    disk.fail_nth(OpKind::Sync, 0, FaultKind::Io, Repeat::Once);
    assert_eq!(file.sync_data().unwrap_err().os, Some(5));
    file.sync_data().unwrap();
    // The second sync proved nothing: the pages were marked clean by the first.
    assert_eq!(after(&disk, &CrashChoice::AllLost).unwrap(), b"old");
    assert_eq!(disk.peek("f", 0, 3), b"new");
    // Written once more, it can be made durable.
    file.write_all_at(b"new", 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(after(&disk, &CrashChoice::AllLost).unwrap(), b"new");
}

#[test]
fn an_unnamed_image_is_at_rest() {
    let (disk, ..) = disk_with(b"x");
    disk.fail_at(0, FaultKind::Io, Repeat::Forever);
    disk.crash_at(1);
    let image = disk.crash_image(&CrashChoice::AllLost);
    assert_eq!((image.op_count(), image.is_crashed()), (0, false));
    let io = io_on(&image);
    let file = io.open_file("f", OpenMode::Existing).unwrap();
    file.write_all_at(b"y", 0).unwrap();
    create(&io, "g").write_all_at(b"z", 0).unwrap();
    assert_eq!(disk.peek("f", 0, 1), b"x", "the images are apart");
    assert_eq!(image.peek("g", 0, 1), b"z");
}

// ---- Power cuts and recordings.

#[test]
fn after_the_power_cut_every_call_fails() {
    let (disk, io, file) = disk_with(b"x");
    let ops = disk.op_count();
    disk.crash_at(ops + 1);
    file.write_all_at(b"y", 0).unwrap();
    assert!(disk.is_crashed());
    let crashed = |error: IoError| assert_eq!(error.kind, IoErrorKind::Crashed, "{error}");
    crashed(file.write_all_at(b"z", 0).unwrap_err());
    crashed(file.sync_all().unwrap_err());
    crashed(file.len().unwrap_err());
    crashed(file.read_at(&mut [0], 0).unwrap_err());
    crashed(io.open_file("g", OpenMode::Create).unwrap_err());
    crashed(io.list("").unwrap_err());
    crashed(io.sync_dir("").unwrap_err());
    crashed(io.exists("f").unwrap_err());
    crashed(io.lock("LOCK").unwrap_err());
    assert_eq!(disk.op_count(), ops + 1);
    assert_eq!(after(&disk, &CrashChoice::AllKept).unwrap(), b"y");
}

/// A small workload: writes, syncs, renames and cuts in two directories.
fn workload(io: &Io, seed: u64) -> Result<(), IoError> {
    let mut rng = Rng::from_seed(seed);
    io.create_dir("d")?;
    io.sync_dir("")?;
    for round in 0..8 {
        let name = format!("d/{}", rng.below(3));
        let file = io.open_file(&name, OpenMode::Create)?;
        let mut bytes = vec![0; rng.index(9000) + 1];
        rng.fill(&mut bytes);
        file.write_all_at(&bytes, rng.below(20_000))?;
        match rng.below(6) {
            0 => file.set_len(rng.below(10_000))?,
            1 => io.sync_dir("d")?,
            2 => io.rename(&name, "d/renamed")?,
            3 => io.remove(&name)?,
            _ => file.sync_data()?,
        }
        assert!(round < 8);
    }
    Ok(())
}

/// The state at any moment, built from the log of one whole run, is the one that a run cut off
/// at that moment leaves. This is what makes enumerating crashes cheap, so it must be exact.
#[test]
fn a_recording_agrees_with_runs_that_were_cut_off() {
    for seed in 0..12 {
        let disk = SimDisk::recorded(seed);
        workload(&io_on(&disk), seed).unwrap();
        let recording = disk.recording();
        let mut moments = Vec::new();
        recording.for_each_moment(|op, state| {
            moments.push(op);
            let cut = SimDisk::new(seed);
            cut.crash_at(op);
            // The last moment is the end of the run: nothing is cut off there.
            assert_eq!(workload(&io_on(&cut), seed).is_ok(), op == recording.end());
            assert_eq!(cut.pending().kinds(), state.kinds());
            for choice in state.choices(seed) {
                let one = recording.crash(state, &choice).image_hash();
                assert_eq!(one, cut.crash_image(&choice).image_hash(), "{op} {choice:?}");
            }
        });
        assert_eq!(moments, recording.moments());
        let (last, middle) = (recording.end(), moments[moments.len() / 2]);
        assert_eq!(recording.state_at(last).kinds(), disk.pending().kinds());
        assert!(recording.state_at(middle).len() < 40);
    }
}

#[test]
fn crash_states_differ_and_all_choices_are_counted() {
    let disk = SimDisk::recorded(5);
    workload(&io_on(&disk), 5).unwrap();
    let recording = disk.recording();
    let (mut images, mut states) = (BTreeSet::new(), 0);
    recording.for_each_moment(|_, state| {
        for choice in state.choices(5) {
            images.insert(recording.crash(state, &choice).image_hash());
            states += 1;
        }
    });
    assert!(states > 400 && images.len() > states / 6, "{} of {states}", images.len());
    let counts = disk.fault_counts();
    for name in ["torn write", "lost growth", "zero tail", "garbage tail", "lost entries"] {
        assert!(counts.get(name).is_some_and(|count| *count > 0), "{name}: {counts:?}");
    }
}

// ---- Faults.

#[test]
fn each_fault_happens_once_or_for_ever() {
    let (disk, _io, file) = disk_with(&[1; 100]);
    disk.fail_nth(OpKind::Read, 1, FaultKind::Io, Repeat::Once);
    let read = || file.read_at(&mut [0; 10], 0).map_err(|error| error.os);
    assert_eq!([read(), read(), read()], [Ok(10), Err(Some(5)), Ok(10)]);
    disk.fail_nth(OpKind::Write, 1, FaultKind::NoSpace, Repeat::Forever);
    let write = || file.write_all_at(b"x", 0).map_err(|error| error.kind);
    let full = Err(IoErrorKind::NoSpace);
    assert_eq!([write(), write(), write()], [Ok(()), full, full]);
    disk.clear_faults();
    assert_eq!(write(), Ok(()));
    let next = disk.op_count();
    disk.fail_at(next, FaultKind::Io, Repeat::Once);
    assert_eq!(file.sync_all().unwrap_err().kind, IoErrorKind::Other);
    let counts = disk.fault_counts();
    assert_eq!((counts["EIO"], counts["ENOSPC"]), (2, 2));
}

/// Short transfers and a few interruptions are none of the caller's business.
#[test]
fn short_and_interrupted_transfers_go_on() {
    let mut bytes = vec![0; 40_000];
    Rng::from_seed(1).fill(&mut bytes);
    let (disk, _io, file) = disk_with(&[0]);
    for kind in [FaultKind::ShortWrite, FaultKind::Interrupted] {
        disk.fail_nth(OpKind::Write, 0, kind, Repeat::Once);
    }
    disk.fail_nth(OpKind::Read, 0, FaultKind::ShortRead, Repeat::Forever);
    file.write_all_at(&bytes, 0).unwrap();
    let mut back = vec![0; bytes.len()];
    file.read_exact_at(&mut back, 0).unwrap();
    assert_eq!(back, bytes);
    let counts = disk.fault_counts();
    assert!(counts["short read"] > 1 && counts["short write"] == 1, "{counts:?}");
    disk.clear_faults();
    disk.fail_nth(OpKind::Write, 0, FaultKind::Interrupted, Repeat::Once);
    file.write_all_at(&bytes, 0).unwrap();
    assert_eq!(disk.fault_counts()["EINTR"], 1);
    disk.fail_nth(OpKind::Write, 0, FaultKind::Interrupted, Repeat::Forever);
    assert_eq!(file.write_all_at(b"x", 0).unwrap_err().kind, IoErrorKind::Interrupted);
}

/// A signal in between any call is none of the caller's business either.
#[test]
fn interrupted_calls_are_made_again() {
    let quiet = SimDisk::new(4);
    workload(&io_on(&quiet), 4).unwrap();
    for op in 0..quiet.op_count() {
        let disk = SimDisk::new(4);
        disk.fail_at(op, FaultKind::Interrupted, Repeat::Once);
        workload(&io_on(&disk), 4).unwrap();
        assert_eq!(disk.op_count(), quiet.op_count() + 1);
        assert_eq!(disk.image_hash(), quiet.image_hash());
    }
    let disk = SimDisk::new(4);
    disk.fail_nth(OpKind::SyncDir, 0, FaultKind::Interrupted, Repeat::Forever);
    let error = workload(&io_on(&disk), 4).unwrap_err();
    assert_eq!((error.op, error.kind), ("sync", IoErrorKind::Interrupted));
}

/// Every call of a run fails once with each error: the error names the call, and comes back.
#[test]
fn every_call_returns_its_error() {
    let quiet = SimDisk::new(6);
    workload(&io_on(&quiet), 6).unwrap();
    for op in 0..quiet.op_count() {
        for (kind, os) in [(FaultKind::Io, 5), (FaultKind::NoSpace, 28)] {
            let disk = SimDisk::new(6);
            disk.fail_at(op, kind, Repeat::Forever);
            let result = workload(&io_on(&disk), 6);
            let hits = disk.fault_counts().get(kind.name()).copied().unwrap_or(0);
            assert_eq!(result.is_err(), hits == 1, "call {op}");
            assert!(result.is_ok() || result.unwrap_err().os == Some(os));
        }
    }
}

/// Whoever asks for a length, or whether a file is there, may not be told. Such calls have numbers
/// among their own kind only, so that no moment of a run is counted twice.
#[test]
fn questions_about_files_fail_too() {
    let (disk, io, file) = disk_with(b"x");
    let ops = disk.op_count();
    for (kind, os) in [(FaultKind::Io, 5), (FaultKind::NoSpace, 28)] {
        disk.fail_nth(OpKind::Stat, 1, kind, Repeat::Once);
        assert_eq!(file.len(), Ok(1));
        let error = io.exists("f").unwrap_err();
        assert_eq!((error.op, error.file.as_str(), error.os), ("stat", "f", Some(os)));
        disk.fail_nth(OpKind::Stat, 0, kind, Repeat::Forever);
        assert_eq!(file.len().unwrap_err().os, Some(os));
        assert_eq!(file.len().unwrap_err().os, Some(os));
        disk.clear_faults();
    }
    for _ in 0..2 {
        disk.fail_nth(OpKind::Stat, 0, FaultKind::Interrupted, Repeat::Once);
        assert_eq!(file.len(), Ok(1), "made again");
        assert_eq!(io.exists("g"), Ok(false), "made again");
    }
    disk.fail_at(ops, FaultKind::Io, Repeat::Once);
    assert_eq!(file.len(), Ok(1), "it has no number among all calls");
    assert_eq!(disk.op_count(), ops);
    assert!(disk.calls(OpKind::Stat) > 10);
}

#[test]
fn lost_and_misdirected_writes_report_success() {
    let (disk, _io, file) = disk_with(&[b'-'; 3 * 8192]);
    let at = |offset| disk.peek("f", offset, 1)[0];
    disk.fail_nth(OpKind::Write, 0, FaultKind::LostWrite, Repeat::Once);
    disk.fail_nth(OpKind::Write, 1, FaultKind::MisdirectedWrite, Repeat::Once);
    file.write_all_at(b"a", 0).unwrap();
    assert_eq!(at(0), b'-');
    file.write_all_at(b"b", 0).unwrap();
    assert_eq!((at(0), at(8192)), (b'-', b'b'));
    file.write_all_at(b"c", 0).unwrap();
    assert_eq!((at(0), at(8192)), (b'c', b'b'));
}

/// A write that fails half-way is an error, with half of it there; the next one is well.
#[test]
fn a_torn_write_fails_and_leaves_its_first_half() {
    let (disk, _io, file) = disk_with(&[b'-'; 8192]);
    disk.fail_nth(OpKind::Write, 0, FaultKind::TornWrite, Repeat::Once);
    assert_eq!(file.write_all_at(&[b'a'; 8192], 0).unwrap_err().os, Some(5));
    assert_eq!(disk.peek("f", 0, 8192), [[b'a'; 4096], [b'-'; 4096]].concat());
    file.write_all_at(&[b'b'; 8192], 0).unwrap();
    assert_eq!(disk.peek("f", 0, 8192), [b'b'; 8192]);
}

#[test]
fn a_flipped_read_leaves_the_disk_alone() {
    let (disk, _io, file) = disk_with(&[0; 8192]);
    disk.fail_nth(OpKind::Read, 0, FaultKind::FlippedRead, Repeat::Once);
    let mut bytes = [0; 8192];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes.iter().map(|b| b.count_ones()).sum::<u32>(), 1);
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes, [0; 8192]);
}

#[test]
fn a_full_disk_refuses_and_recovers() {
    let disk = SimDisk::new(1);
    disk.capacity(4 * 4096);
    let io = io_on(&disk);
    let file = create(&io, "f");
    file.allocate(0, 3 * 4096).unwrap();
    file.write_all_at(&[1; 3 * 4096], 0).unwrap();
    assert_eq!(file.write_all_at(&[1; 8192], 3 * 4096).unwrap_err().kind, IoErrorKind::NoSpace);
    assert_eq!(file.allocate(0, 5 * 4096).unwrap_err().kind, IoErrorKind::NoSpace);
    assert_eq!(file.len(), Ok(3 * 4096));
    create(&io, "g").write_all_at(&[2; 4096], 0).unwrap();
    io.remove("g").unwrap();
    file.write_all_at(&[1; 4096], 3 * 4096).unwrap();
    file.set_len(0).unwrap();
    create(&io, "h").write_all_at(&[1; 4 * 4096], 0).unwrap();
    assert_eq!(disk.fault_counts()["capacity reached"], 2);
}

#[test]
fn damage_is_visible_at_once_and_durable() {
    let (disk, _io, file) = disk_with(&[0; 3 * 8192]);
    let old = disk.snapshot();
    file.write_all_at(&[1; 8192], 8192).unwrap();
    file.sync_all().unwrap();
    disk.flip_bit("f", 5, 3);
    disk.misdirect("f", 8192, "f", 16384, 8192);
    disk.make_stale("f", 8192, 8192, &old);
    let durable = disk.crash_image(&CrashChoice::AllLost);
    for disk in [&disk, &durable] {
        assert_eq!(disk.peek("f", 5, 1), [8]);
        assert_eq!(disk.peek("f", 8192, 8192), [0; 8192]);
        assert_eq!(disk.peek("f", 16384, 8192), [1; 8192]);
    }
    let counts = disk.fault_counts();
    let damage = ["flipped bit", "stale block", "misdirected block"].map(|name| counts[name]);
    assert_eq!(damage, [1, 1, 1]);
}

// ---- Determinism.

/// A run with asynchronous operations on a disk that fails now and then.
fn asynchronous_run(seed: u64) -> (u64, u64, Vec<u64>) {
    let disk = SimDisk::new(seed);
    let env = Env::simulated(seed);
    let io = Io::simulated(&env, disk.clone(), IoOptions::default()).unwrap();
    disk.fail_at(20, FaultKind::Io, Repeat::Once);
    let (file, mut rng) = (create(&io, "f"), env.rng("test"));
    let order = Arc::new(Mutex::new(Vec::new()));
    for number in 0..60u64 {
        let mut buf = AlignedBuf::zeroed(4096);
        rng.fill(&mut buf);
        let order = Arc::clone(&order);
        let then = move |_buf, result: Result<usize, IoError>| {
            order.lock().push(if result.is_ok() { number } else { number + 1000 });
        };
        io.write_owned(&file, number * 4096, buf, then);
        io.reap(false);
    }
    io.wait_for(|| order.lock().len() == 60);
    let order = order.lock().clone();
    (disk.op_log_hash(), disk.live_hash(), order)
}

#[test]
fn one_seed_is_one_run() {
    let mut runs = BTreeSet::new();
    for seed in 0..20 {
        let (log, image, order) = asynchronous_run(seed);
        assert_eq!((log, image, order.clone()), asynchronous_run(seed));
        assert!(!order.is_sorted(), "completions come out of order");
        assert_eq!(order.iter().filter(|number| **number >= 1000).count(), 1);
        runs.insert(log);
    }
    assert_eq!(runs.len(), 20, "other seeds are other runs");
}
