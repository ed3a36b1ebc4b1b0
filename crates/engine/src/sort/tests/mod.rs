//! Tests of the external sort: order, stability, memory, what is left behind.

use rightlink_aio::sim::{FaultKind, OpKind, Repeat};
use rightlink_aio::{Io, IoOptions, OpenMode, SimDisk};
use rightlink_env::{Env, Rng};

use super::*;

fn simulated() -> (Env, Io) {
    let env = Env::simulated(1);
    let io = Io::simulated(&env, SimDisk::new(1), IoOptions::default()).unwrap();
    (env, io)
}

type Record = (Vec<u8>, Vec<u8>);

/// Sorts `records` within `memory` bytes and gives back the result and the most memory used.
fn sort(io: &Io, records: &[Record], memory: usize) -> (Vec<Record>, usize) {
    let temp = TempFiles::open(io, &rightlink_env::Logger::silent()).unwrap();
    let budget = Budget::new(memory);
    let mut sorter = Sorter::new(&budget, &temp, memory).unwrap();
    for (key, payload) in records {
        sorter.push(key, payload).unwrap();
    }
    let runs = sorter.spilled_runs();
    let mut sorted = sorter.finish().unwrap();
    let mut out = Vec::new();
    while let Some((key, payload)) = sorted.next().unwrap() {
        out.push((key.to_vec(), payload.to_vec()));
    }
    assert!(sorted.next().unwrap().is_none());
    // Once more from the start, from the middle of it too.
    sorted.rewind().unwrap();
    for (key, payload) in out.iter().take(out.len() / 2) {
        assert!(sorted.next().unwrap() == Some((&key[..], &payload[..])));
    }
    sorted.rewind().unwrap();
    for (key, payload) in &out {
        assert!(sorted.next().unwrap() == Some((&key[..], &payload[..])));
    }
    assert!(sorted.next().unwrap().is_none());
    drop(sorted);
    assert_eq!(budget.used(), 0);
    assert_eq!(io.list("tmp").unwrap(), Vec::<String>::new(), "files stay");
    assert!(budget.peak() <= memory);
    (out, runs)
}

fn records(count: u32, keys: u64, longest: u64) -> Vec<Record> {
    let mut rng = Rng::from_seed(u64::from(count));
    let mut one = |no: u32| {
        let mut key = rng.below(keys).to_be_bytes().to_vec();
        key.extend(std::iter::repeat_n(7, rng.below(longest) as usize));
        (key, no.to_le_bytes().to_vec())
    };
    (0..count).map(&mut one).collect()
}

#[test]
fn every_amount_of_memory_gives_the_same_stable_order() {
    let (_env, io) = simulated();
    for (count, keys, longest) in [(0, 1, 1), (1, 1, 1), (30_000, 200, 3), (40_000, u64::MAX, 60)] {
        let records = records(count, keys, longest);
        let mut wanted = records.clone();
        wanted.sort_by(|a, b| a.0.cmp(&b.0));
        for memory in [MIN_MEMORY, 4 * MIN_MEMORY, 16 << 20] {
            let (sorted, runs) = sort(&io, &records, memory);
            assert!(sorted == wanted, "{count} records in {memory} bytes differ");
            let spills = count > 1 && memory < 1 << 20;
            assert_eq!(runs > 0, spills, "{count} records in {memory} bytes made {runs} runs");
            // The smallest sort needs more than one level of merging.
            assert!(memory > MIN_MEMORY || count < 2 || runs > 16, "{runs} runs");
        }
    }
}

#[test]
fn records_that_span_blocks_come_back_whole() {
    let (_env, io) = simulated();
    let mut rng = Rng::from_seed(5);
    let mut one = |_| {
        let mut key = vec![0; 1 + rng.index(3_000)];
        rng.fill(&mut key);
        (key, vec![1; rng.index(1_000)])
    };
    let records: Vec<_> = (0..300).map(&mut one).collect();
    let mut wanted = records.clone();
    wanted.sort();
    assert!(sort(&io, &records, MIN_MEMORY).0 == wanted);
}

#[test]
fn a_sort_takes_no_more_than_the_budget_has() {
    let (_env, io) = simulated();
    let temp = TempFiles::open(&io, &rightlink_env::Logger::silent()).unwrap();
    let budget = Budget::new(MIN_MEMORY + 1000);
    let mut sorter = Sorter::new(&budget, &temp, 1 << 20).unwrap();
    assert!(matches!(Sorter::new(&budget, &temp, 1 << 20), Err(Error::OutOfMemory(_))));
    assert!(matches!(sorter.push(&vec![0; 1 << 17], &[]), Err(Error::Limit(_))));
    for no in 0..10_000u32 {
        sorter.push(&no.to_be_bytes(), &[]).unwrap();
    }
    assert!(sorter.spilled_runs() > 0);
    drop(sorter);
    assert_eq!((budget.used(), io.list("tmp").unwrap().len()), (0, 0));
}

/// A sort that may use much, of a budget that has little: it gets by with what it has, in a few
/// runs and within its reservation, and refuses the record that does not fit.
#[test]
fn a_sort_that_gets_no_more_memory_makes_few_runs() {
    let (_env, io) = simulated();
    for wanted in [2 * MIN_MEMORY, 1 << 20, 16 << 20] {
        let temp = TempFiles::open(&io, &rightlink_env::Logger::silent()).unwrap();
        let budget = Budget::new(MIN_MEMORY + 1000);
        let mut sorter = Sorter::new(&budget, &temp, wanted).unwrap();
        for no in 0..10_000u32 {
            sorter.push(&no.reverse_bits().to_be_bytes(), &no.to_be_bytes()).unwrap();
            let entries = sorter.arena.entries.capacity() * size_of::<RecordEntry>();
            let chunks: usize = sorter.arena.chunks.iter().map(Vec::capacity).sum();
            assert!(entries + chunks <= sorter.memory_held());
        }
        assert!((1..50).contains(&sorter.spilled_runs()), "{} runs", sorter.spilled_runs());
        let refused = sorter.push(&[0; MIN_MEMORY], &[]);
        // Beyond what the sort may ever use, or only beyond what it has at this moment.
        match wanted == 2 * MIN_MEMORY {
            true => assert!(matches!(refused, Err(Error::Limit(_))), "{refused:?}"),
            false => assert!(matches!(refused, Err(Error::OutOfMemory(_))), "{refused:?}"),
        }
        let mut sorted = sorter.finish().unwrap();
        let mut last = Vec::new();
        for _ in 0..10_000 {
            let (key, _) = sorted.next().unwrap().expect("a record");
            assert!(last.as_slice() < key);
            last = key.to_vec();
        }
        assert!(sorted.next().unwrap().is_none());
        drop(sorted);
        assert_eq!((budget.used(), io.list("tmp").unwrap().len()), (0, 0));
    }
}

#[test]
fn what_an_earlier_process_left_is_removed_at_open() {
    let (_env, io) = simulated();
    io.create_dir("tmp").unwrap();
    io.open_buffered("tmp/00000000", OpenMode::CreateNew).unwrap();
    TempFiles::open(&io, &rightlink_env::Logger::silent()).unwrap();
    assert!(io.list("tmp").unwrap().is_empty());
}

/// Damage in a temporary file is an error that names it, never a wrong order or a panic.
#[test]
fn a_damaged_run_is_found() {
    let (_env, io) = simulated();
    let mut rng = Rng::from_seed(6);
    for _ in 0..200 {
        let temp = TempFiles::open(&io, &rightlink_env::Logger::silent()).unwrap();
        let mut writer = RunWriter::create(&temp, 4096).unwrap();
        for no in 0..1_000u32 {
            writer.push(&no.to_be_bytes(), b"payload").unwrap();
        }
        let run = writer.finish().unwrap();
        let name = io.list("tmp").unwrap().pop().unwrap();
        let file = io.open_buffered(&format!("tmp/{name}"), OpenMode::Existing).unwrap();
        let at = rng.below(file.len().unwrap());
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1 << rng.below(8)], at).unwrap();
        let mut merge = Merge::new(vec![run], 4096);
        let error = loop {
            match merge.as_mut().map(|merge| merge.next().map(|record| record.is_some())) {
                Ok(Ok(more)) => assert!(more, "byte {at} was damaged and no check noticed"),
                Ok(Err(error)) => break error.to_string(),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains("corruption in tmp/"), "{error}");
    }
}

/// A failing device ends the sort with its error; memory and files are given back.
#[test]
fn errors_of_the_device_leave_nothing_behind() {
    let faults = [
        (OpKind::Open, FaultKind::Io),
        (OpKind::Write, FaultKind::NoSpace),
        (OpKind::Read, FaultKind::Io),
        (OpKind::Read, FaultKind::FlippedRead),
    ];
    for (op, fault) in faults {
        for nth in [1, 2, 17] {
            let env = Env::simulated(1);
            let disk = SimDisk::new(1);
            let io = Io::simulated(&env, disk.clone(), IoOptions::default()).unwrap();
            let temp = TempFiles::open(&io, &env.logger).unwrap();
            let budget = Budget::new(MIN_MEMORY);
            disk.fail_nth(op, disk.calls(op) + nth, fault, Repeat::Once);
            let result = sort_all(Sorter::new(&budget, &temp, 0).unwrap());
            assert!(result.is_err(), "{op:?} {fault:?} {nth} went unnoticed");
            assert_eq!((budget.used(), io.list("tmp").unwrap().len()), (0, 0));
        }
    }
}

/// Files that an earlier process left, and that cannot be removed, keep nobody from opening, nor
/// later files from their names.
#[test]
fn temporary_files_that_stay_are_in_nobodys_way() {
    let env = Env::simulated(1);
    let disk = SimDisk::new(1);
    let io = Io::simulated(&env, disk.clone(), IoOptions::default()).unwrap();
    io.create_dir("tmp").unwrap();
    for name in ["tmp/00000000", "tmp/0000001f", "tmp/strange"] {
        io.open_file(name, OpenMode::CreateNew).unwrap();
    }
    disk.fail_nth(OpKind::Remove, 0, FaultKind::Io, Repeat::Forever);
    let (logger, lines) = rightlink_env::Logger::collecting();
    let temp = TempFiles::open(&io, &logger).unwrap();
    disk.clear_faults();
    assert_eq!(lines.containing("stays"), 3, "{:?}", lines.all());
    let budget = Budget::new(MIN_MEMORY);
    sort_all(Sorter::new(&budget, &temp, 0).unwrap()).unwrap();
    assert_eq!(io.list("tmp").unwrap().len(), 3);
    let _temp = TempFiles::open(&io, &logger).unwrap();
    assert_eq!(io.list("tmp").unwrap(), Vec::<String>::new());
}

fn sort_all(mut sorter: Sorter) -> Result<()> {
    for (key, payload) in records(20_000, u64::MAX, 9) {
        sorter.push(&key, &payload)?;
    }
    let mut sorted = sorter.finish()?;
    while sorted.next()?.is_some() {}
    Ok(())
}
