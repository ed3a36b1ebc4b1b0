//! Read streams: orders, duplicates, errors, tiny pools.

use rightlink_aio::sim::{FaultKind, OpKind, Repeat};
use rightlink_env::Rng;

use super::{FILE, filled, page};
use crate::buffer::testing::{TestPool, pool};
use crate::buffer::{Delivery, Prefetch, ReadStream, StreamOptions, StreamStats};
use crate::error::{Error, Result};
use crate::ids::PageId;
use crate::page::header;

fn options(delivery: Delivery, max_distance: u32) -> StreamOptions {
    StreamOptions { delivery, max_distance, ..StreamOptions::ORDERED }
}

/// A cold pool over a file of `blocks` pages.
fn cold(frames: usize, blocks: u32, seed: u64) -> TestPool {
    let test = pool(frames, seed);
    filled(&test, blocks);
    test.pool.evict_all().expect("nothing is pinned");
    test
}

/// Blocks as they are handed over, each checked against its bytes and its tag.
fn drain(stream: &mut ReadStream<'_, u32>) -> Result<Vec<u32>> {
    let mut blocks = Vec::new();
    while let Some((pin, tag)) = stream.next()? {
        assert_eq!(pin.page(), page(tag));
        assert_eq!(header::u64_at(pin.shared().bytes(), 4096), u64::from(tag));
        blocks.push(tag);
    }
    Ok(blocks)
}

fn over(blocks: Vec<u32>) -> impl FnMut() -> Result<Option<(PageId, u32)>> {
    let mut blocks = blocks.into_iter();
    move || Ok(blocks.next().map(|block| (page(block), block)))
}

fn run(test: &TestPool, delivery: Delivery, blocks: &[u32]) -> (Vec<u32>, StreamStats) {
    let source = over(blocks.to_vec());
    let mut stream = ReadStream::new(&test.pool, options(delivery, 32), source);
    let got = drain(&mut stream).expect("no read fails");
    (got, stream.stats())
}

#[test]
fn a_sequential_scan_joins_neighbours() {
    let test = cold(256, 200, 1);
    let blocks: Vec<u32> = (0..200).collect();
    let (got, stats) = run(&test, Delivery::Ordered, &blocks);
    assert_eq!(got, blocks);
    assert_eq!(stats.reads + stats.joined, 200, "{stats:?}");
    assert!(stats.reads < 40 && stats.wasted == 0, "{stats:?}");
    let calls = test.pool.stats().read_calls;
    assert_eq!(calls, stats.reads);
    // Everything is in memory now: nothing is read, nothing is waited for.
    let (_, stats) = run(&test, Delivery::Ordered, &blocks);
    assert_eq!((stats.reads, stats.waits, stats.distance_sum), (0, 0, 200));
}

#[test]
fn random_orders_keep_their_order_or_hand_over_everything_once() {
    let test = cold(256, 250, 2);
    let mut blocks: Vec<u32> = (0..250).collect();
    Rng::from_seed(3).shuffle(&mut blocks);
    let (got, stats) = run(&test, Delivery::Ordered, &blocks);
    assert_eq!(got, blocks);
    assert!(stats.waits < 100 && stats.distance_sum > 250 * 8, "{stats:?}");
    test.pool.evict_all().unwrap();
    let (mut got, stats) = run(&test, Delivery::AnyOrder, &blocks);
    assert_ne!(got, blocks, "what arrives first is handed over first");
    got.sort_unstable();
    assert_eq!(got, (0..250).collect::<Vec<u32>>());
    assert_eq!((stats.delivered, stats.wasted), (250, 0));
}

#[test]
fn duplicates_in_the_window_are_read_once() {
    let test = cold(256, 64, 4);
    let blocks: Vec<u32> = (0..640).map(|i| i / 20 * 2 % 64 + i % 2).collect();
    let (got, stats) = run(&test, Delivery::Ordered, &blocks);
    assert_eq!(got, blocks);
    assert_eq!(stats.reads + stats.joined, 64, "{stats:?}");
    assert_eq!(test.pool.stats().reads, 64);
}

#[test]
fn one_row_reads_one_page() {
    let test = cold(64, 64, 5);
    let mut stream =
        ReadStream::new(&test.pool, options(Delivery::Ordered, 32), over((0..64).collect()));
    assert_eq!(stream.next().unwrap().unwrap().1, 0);
    assert_eq!(test.pool.stats().reads, 1);
}

#[test]
fn a_tiny_pool_is_enough_for_several_streams() {
    let test = cold(16, 120, 6);
    let blocks: Vec<u32> = (0..120).collect();
    let stream = || {
        let source = over(blocks.clone());
        ReadStream::new(&test.pool, options(Delivery::Ordered, 64), source)
    };
    let mut streams: Vec<_> = (0..6).map(|_| stream()).collect();
    for expected in 0..120 {
        // Each consumer keeps its current page while the others go on.
        let mut current = Vec::new();
        for stream in &mut streams {
            let (pin, tag) = stream.next().unwrap().unwrap();
            assert_eq!(tag, expected);
            current.push(pin);
        }
    }
    assert!(streams.iter_mut().all(|stream| stream.next().unwrap().is_none()));
}

#[test]
fn an_error_reaches_the_row_that_needs_the_page_and_repeats() {
    let test = cold(256, 64, 7);
    test.disk.flip_bit("data/00000046", 20 * 8192 + 7, 1);
    let mut stream =
        ReadStream::new(&test.pool, options(Delivery::Ordered, 32), over((0..64).collect()));
    for expected in 0..20 {
        assert_eq!(stream.next().unwrap().unwrap().1, expected);
    }
    for _ in 0..3 {
        let found = stream.next();
        assert!(matches!(found, Err(Error::Corruption { block: Some(20), .. })));
    }
    test.disk.flip_bit("data/00000046", 20 * 8192 + 7, 1);
    assert_eq!(drain(&mut stream).unwrap(), (20..64).collect::<Vec<u32>>());
}

/// A check for damage gets every page in its turn; no page is left out or comes twice.
#[test]
fn damage_can_be_passed() {
    let test = cold(256, 64, 7);
    for block in [0, 20, 21, 63] {
        test.disk.flip_bit("data/00000046", block * 8192 + 7, 1);
    }
    for delivery in [Delivery::Ordered, Delivery::AnyOrder] {
        test.pool.evict_all().unwrap();
        let mut stream =
            ReadStream::new(&test.pool, options(delivery, 32), over((0..64).collect()));
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        while let Some((tried, block)) = stream.next_tried().unwrap() {
            if tried.is_ok() { good.push(block) } else { bad.push(block) }
        }
        good.sort_unstable();
        bad.sort_unstable();
        assert_eq!((good.len(), bad), (60, vec![0, 20, 21, 63]));
        assert!(good.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(stream.stats().delivered, 64);
    }
}

#[test]
fn a_device_that_fails_for_a_while_loses_no_row() {
    let test = cold(256, 64, 8);
    for delivery in [Delivery::Ordered, Delivery::AnyOrder] {
        test.pool.evict_all().unwrap();
        test.disk.fail_nth(OpKind::Read, 3, FaultKind::Io, Repeat::Forever);
        let mut stream =
            ReadStream::new(&test.pool, options(delivery, 32), over((0..64).collect()));
        let mut got = Vec::new();
        let mut errors = 0;
        loop {
            match stream.next() {
                Ok(Some((_, block))) => got.push(block),
                Ok(None) => break,
                Err(error) => {
                    assert!(matches!(error, Error::Io(_)));
                    errors += 1;
                    if errors == 2 {
                        test.disk.clear_faults();
                    }
                }
            }
        }
        got.sort_unstable();
        assert_eq!((got, errors), ((0..64).collect::<Vec<u32>>(), 2));
    }
}

#[test]
fn an_error_of_the_source_comes_in_its_turn_and_repeats() {
    let test = cold(64, 8, 9);
    let mut blocks = 0..4;
    let source = || match blocks.next() {
        Some(block) => Ok(Some((page(block), block))),
        None => Err(Error::Cancelled("enough".to_string())),
    };
    let mut stream = ReadStream::new(&test.pool, options(Delivery::Ordered, 32), source);
    for expected in 0..4 {
        assert_eq!(stream.next().unwrap().unwrap().1, expected);
    }
    for _ in 0..2 {
        assert!(matches!(stream.next(), Err(Error::Cancelled(_))));
    }
}

#[test]
fn reset_forgets_what_was_asked_for() {
    let test = cold(256, 200, 10);
    let mut stream =
        ReadStream::new(&test.pool, options(Delivery::Ordered, 4), over((0..200).collect()));
    for expected in 0..50 {
        assert_eq!(stream.next().unwrap().unwrap().1, expected);
    }
    let before = stream.stats();
    stream.reset();
    let after = stream.next().unwrap().unwrap().1;
    assert!(after > 50, "what was asked for is forgotten");
    assert!(stream.stats().wasted > before.wasted);
    drop(stream);
    assert_eq!(test.pool.blocks(FILE), 200);
}

/// A stream that is left, or begins elsewhere, waits for none of the reads that it has started.
#[test]
fn reset_and_drop_do_not_wait_for_reads() {
    let test = cold(256, 250, 10);
    test.pool.set_prefetch(Prefetch::Fixed(40));
    let blocks = || over((0..250).map(|i| i * 7 % 250).collect());
    let in_flight = || test.pool.io().in_flight();
    let mut stream = ReadStream::new(&test.pool, options(Delivery::Ordered, 64), blocks());
    assert!(stream.next().unwrap().is_some());
    let before = in_flight();
    assert!(before > 4, "{before} reads are on their way");
    stream.reset();
    assert_eq!(in_flight(), before, "none was waited for");
    let (pin, next) = stream.next().unwrap().unwrap();
    assert_eq!(header::u64_at(pin.shared().bytes(), 4096), u64::from(next));
    let before = in_flight();
    drop(stream);
    assert!(before > 4 && in_flight() == before, "{before} reads are on their way");
}

/// What a window holds is reserved as far as there is memory, and given back; a stream that gets
/// none goes on with a small window.
#[test]
fn windows_stay_within_the_budget() {
    let test = cold(2048, 600, 12);
    let budget = test.pool.budget();
    let before = budget.used();
    test.pool.set_prefetch(Prefetch::Fixed(64));
    let blocks: Vec<u32> = (0..12_000).map(|i| i / 20).collect();
    let widest = |taken: &mut usize| {
        test.pool.evict_all().unwrap();
        let source = over(blocks.clone());
        let mut stream = ReadStream::new(&test.pool, options(Delivery::Ordered, 64), source);
        let mut got = 0;
        while stream.next().unwrap().is_some() {
            got += 1;
            *taken = (*taken).max(budget.used() - before);
        }
        assert_eq!(got, 12_000);
        stream.stats().reads
    };
    let mut taken = 0;
    let wide = widest(&mut taken);
    assert!((10_000..1 << 20).contains(&taken), "{taken} bytes for the window");
    assert_eq!(budget.used(), before, "all of it was given back");
    let all = budget.try_reserve(budget.available());
    let narrow = widest(&mut 0);
    assert!(narrow > 2 * wide, "{narrow} reads without memory, {wide} with it");
    drop(all);
}

/// Whatever is asked for comes once and whole: any distance, any pool, any order, some pages bad.
#[test]
fn every_distance_hands_over_everything_once() {
    let mut rng = Rng::from_seed(11);
    for frames in [16, 40, 256] {
        let test = cold(frames, 150, 12);
        for policy in [
            Prefetch::None,
            Prefetch::Simple,
            Prefetch::Adaptive,
            Prefetch::Fixed(1),
            Prefetch::Fixed(3),
            Prefetch::Fixed(7),
            Prefetch::Fixed(61),
        ] {
            for delivery in [Delivery::Ordered, Delivery::AnyOrder] {
                test.pool.set_prefetch(policy);
                test.pool.evict_all().unwrap();
                let fuzz = 1 + rng.below(60);
                let blocks: Vec<u32> =
                    (0..400).map(|i| ((i / 4 + rng.below(fuzz)) % 150) as u32).collect();
                let (mut got, stats) = run(&test, delivery, &blocks);
                let mut wanted = blocks;
                if delivery == Delivery::AnyOrder {
                    got.sort_unstable();
                    wanted.sort_unstable();
                }
                assert_eq!(got, wanted, "{frames} {policy:?} {delivery:?}");
                assert_eq!(stats.delivered, 400);
            }
        }
    }
}

/// Reads of a window are joined, though its blocks are asked for in no order: the stretch that the
/// device likes is read as such.
#[test]
fn reads_of_a_fuzzy_order_are_joined() {
    let test = cold(2048, 600, 13);
    let mut rng = Rng::from_seed(14);
    let mut rows: Vec<(u64, u32)> = (0..12_000u64).map(|i| (i + rng.below(256), 0)).collect();
    rows.iter_mut().enumerate().for_each(|(i, row)| row.1 = i as u32 / 20);
    rows.sort_unstable();
    let blocks: Vec<u32> = rows.into_iter().map(|(_, block)| block).collect();
    let (got, stats) = run(&test, Delivery::Ordered, &blocks);
    assert_eq!(got, blocks);
    assert_eq!((stats.reads + stats.joined, stats.wasted), (600, 0), "each block once");
    assert!(stats.reads < 80, "{stats:?}");
    test.pool.evict_all().unwrap();
    test.pool.set_prefetch(Prefetch::Simple);
    let (_, simple) = run(&test, Delivery::Ordered, &blocks);
    assert!(simple.reads > 2 * stats.reads, "{simple:?}");
}

/// What the consumer says it wants bounds what is asked for.
#[test]
fn no_more_is_asked_for_than_is_wanted() {
    let test = cold(256, 200, 15);
    test.pool.set_prefetch(Prefetch::Fixed(31));
    for wanted in [1, 2, 5, 33] {
        test.pool.evict_all().unwrap();
        let before = test.pool.stats().reads;
        let source = over((0..200).map(|i| i * 7 % 200).collect());
        let mut stream = ReadStream::new(&test.pool, options(Delivery::Ordered, 64), source);
        for left in (1..=wanted).rev() {
            stream.want(left);
            assert!(stream.next().unwrap().is_some());
        }
        drop(stream);
        assert_eq!(test.pool.stats().reads - before, wanted);
    }
}

/// Entries that need no page pass in their turn.
#[test]
fn entries_without_a_page_keep_their_place() {
    let test = cold(64, 60, 16);
    let mut at = 0;
    let source = move || {
        at += 1;
        Ok((at <= 120).then(|| ((at % 2 == 0).then(|| page(at / 2 - 1)), at, 1)))
    };
    let mut stream = ReadStream::sparse(&test.pool, StreamOptions::ORDERED, source);
    let mut expected = 1;
    while let Some((pin, at)) = stream.next_entry().unwrap() {
        assert_eq!((pin.is_some(), at), (at % 2 == 0, expected));
        expected += 1;
    }
    assert_eq!(expected, 121);
    drop(stream);
    assert_eq!(test.pool.stream_stats().delivered, 120);
}

/// Insertions beside each other look ahead less if the pool cannot hold their pages, and whoever is
/// alone again as far as before. All pages come in either case.
#[test]
fn insertions_that_the_pool_cannot_hold_share_the_device() {
    let test = cold(1024, 600, 17);
    test.pool.set_device_depth(8);
    let ahead = |inserts| {
        test.pool.evict_all().unwrap();
        let options = StreamOptions { expected: u32::MAX, inserts, ..StreamOptions::ORDERED };
        let scattered = (0..600).map(|at| at * 7 % 600).collect();
        let mut stream = ReadStream::new(&test.pool, options, over(scattered));
        assert_eq!(drain(&mut stream).unwrap().len(), 600);
        stream.stats().mean_distance()
    };
    let _own = test.pool.begin_insertion(5000);
    // It is up to twice the depth of 8.
    assert!(ahead(true) > 12.0, "it is alone");
    {
        let _others: Vec<_> = (0..3).map(|_| test.pool.begin_insertion(5000)).collect();
        assert!(ahead(true) <= 2.0, "four share a depth of eight");
        assert!(ahead(false) > 12.0, "a scan keeps its distance");
    }
    assert!(ahead(true) > 12.0, "it is alone again");
}
