//! Log records and the page deltas in them: bad bytes are refused, good ones replay exactly.

use rightlink::internal::ids::{FileId, PageId, Xid};
use rightlink::internal::page::{PageBuf, PageMut, delta};
use rightlink::internal::wal::{PagePart, Record, RecordKind, record};

use crate::input::Input;

const PAGE: usize = rightlink::PAGE_SIZE;

/// The first byte chooses: bytes of records, or stores whose delta must replay to the same page.
pub fn target(data: &[u8]) {
    let mut input = Input(data);
    match input.byte() % 2 {
        0 => read_records(input.0),
        _ => replay(&mut input),
    }
}

/// Decodes records until the bytes end or are refused, and replays what they hold.
fn read_records(mut bytes: &[u8]) {
    let mut page = PageBuf::zeroed();
    while let Ok((record, len)) = record::decode(bytes) {
        assert!(len > 0 && len <= bytes.len(), "a record lies inside its bytes");
        same_again(&record);
        for (_, delta) in &record.parts {
            // An error leaves the page partly changed, and the next delta must cope.
            let _ = delta::apply(&mut PageMut::owned(&mut page), delta);
        }
        bytes = &bytes[len..];
    }
    let _ = delta::apply(&mut PageMut::owned(&mut page), bytes);
}

/// What was decoded, encoded again, decodes to the same.
fn same_again(record: &Record) {
    let part = |(page, delta): &(PageId, Vec<u8>)| (*page, delta.clone());
    let owned: Vec<_> = record.parts.iter().map(part).collect();
    let parts: Vec<_> = owned.iter().map(|(page, delta)| PagePart { page: *page, delta }).collect();
    let mut bytes = Vec::new();
    record::encode(record.kind, record.xid, &parts, |piece| bytes.extend_from_slice(piece));
    assert_eq!(bytes.len(), record::encoded_len(record.xid, &parts));
    let (again, len) = record::decode(&bytes).expect("an encoded record decodes");
    assert_eq!((again.kind, again.xid, again.parts), (record.kind, record.xid, owned));
    assert_eq!(len, bytes.len());
}

fn replay(input: &mut Input<'_>) {
    let (mut page, mut copy) = (PageBuf::zeroed(), PageBuf::zeroed());
    let mut delta = Vec::new();
    let mut target = PageMut::recorded(&mut page, &mut delta);
    while !input.is_empty() {
        store(&mut target, input);
    }
    let expected = *target.bytes();
    delta::apply(&mut PageMut::owned(&mut copy), &delta).expect("a recorded delta applies");
    assert!(PageMut::owned(&mut copy).bytes() == &expected, "replay gives the same page");
}

fn store(target: &mut PageMut<'_>, input: &mut Input<'_>) {
    let kind = input.byte();
    let (at, to) = (16 + input.below(PAGE - 16), 16 + input.below(PAGE - 16));
    let len = input.below(PAGE) % (PAGE - at.max(to)).max(1);
    match kind % 4 {
        0 => target.write(at, input.bytes(len.min(64))),
        1 => target.copy_within(at, len, to),
        2 => target.fill(at, len, input.byte()),
        _ => {
            let mut image = Box::new([0; PAGE]);
            let piece = input.bytes((PAGE - at).min(64));
            image[at..at + piece.len()].copy_from_slice(piece);
            target.replace(&image);
        }
    }
}

/// A record of every kind of delta, and a few stores.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut page = PageBuf::zeroed();
    let mut delta = Vec::new();
    let mut target = PageMut::recorded(&mut page, &mut delta);
    target.write(300, b"some bytes");
    target.fill(40, 500, 7);
    target.copy_within(40, 200, 100);
    let mut image = Vec::new();
    delta::push_image(&mut image, target.bytes());
    let page = PageId::new(FileId(64), 3);
    let parts = [PagePart { page, delta: &delta }, PagePart { page, delta: &image }];
    let mut records = vec![0];
    for kind in [RecordKind::HeapInsert, RecordKind::IndexSplit, RecordKind::Commit] {
        let parts = if kind == RecordKind::Commit { &[][..] } else { &parts[..] };
        record::encode(kind, Xid(1 << 33), parts, |piece| records.extend_from_slice(piece));
    }
    let stores = [&[1, 0, 40, 0, 0, 0, 20, 0][..], &[9; 20], &[1, 0, 40, 0, 60, 0, 30, 0]].concat();
    vec![records, [&[0][..], &delta].concat(), [&[1][..], &stores].concat(), vec![1, 2, 3, 4, 5]]
}
