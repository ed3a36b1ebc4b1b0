//! Tests of the slotted page alone: a model beside it, replay of what it recorded, damaged bytes.

use rightlink_env::Rng;

use crate::config::PAGE_SIZE;
use crate::heap::page::chain::{walk_chain, walk_chain_since};
use crate::heap::page::compact::Compaction;
use crate::heap::page::store::{
    self, choose_slots, how_many_fit, insert_tuples, put_header, put_xmax,
};
use crate::heap::page::tuple::{
    FLAGS, HEAP_ONLY, HINTS, HOT_UPDATED, LOCK_ONLY, TUPLE_HEADER, TupleHeader, UPDATED,
    XMAX_ABORTED, XMAX_COMMITTED, XMIN_COMMITTED,
};
use crate::heap::page::{HeapPage, MAX_SLOTS, PRUNE_XID, Slot};
use crate::ids::{BlockNo, FileId, PageId, RowId, Xid};
use crate::page::{PageBuf, PageMut, delta, header};

const ID: PageId = PageId { file: FileId(9), block: BlockNo(3) };

type Model = Vec<Option<(TupleHeader, Vec<u8>)>>;

/// A page, what it should hold, and a copy that only sees the recorded stores.
struct Twins {
    page: Box<PageBuf>,
    copy: Box<PageBuf>,
    model: Model,
    rng: Rng,
    next_xid: u64,
}

fn open(bytes: &[u8; PAGE_SIZE]) -> HeapPage<'_> {
    HeapPage::open(ID, bytes).expect("a sound page")
}

fn bytes_of(page: &mut PageBuf) -> [u8; PAGE_SIZE] {
    *PageMut::owned(page).bytes()
}

/// The page without its hints: what redo must reproduce (R1).
fn masked(bytes: &[u8; PAGE_SIZE]) -> [u8; PAGE_SIZE] {
    let (page, mut out) = (open(bytes), *bytes);
    for slot in 1..=page.slots() {
        if let Some(tuple) = page.tuple(slot).expect("a sound slot") {
            let at = usize::from(tuple.offset) + FLAGS;
            let flags = header::u16_at(bytes, at) & !HINTS;
            out[at..at + 2].copy_from_slice(&flags.to_le_bytes());
        }
    }
    out
}

impl Twins {
    fn new(seed: u64) -> Twins {
        let mut twins = Twins {
            page: PageBuf::zeroed(),
            copy: PageBuf::zeroed(),
            model: Vec::new(),
            rng: Rng::from_seed(seed),
            next_xid: 1 << 33,
        };
        let image = store::empty_image(Xid(1 << 33));
        twins.change(|page| page.replace(&image));
        twins
    }

    /// Makes a change and replays its record on the copy.
    fn change(&mut self, store: impl FnOnce(&mut PageMut<'_>)) {
        let mut record = Vec::new();
        store(&mut PageMut::recorded(&mut self.page, &mut record));
        delta::apply(&mut PageMut::owned(&mut self.copy), &record).expect("a recorded delta");
    }

    fn xid(&mut self) -> Xid {
        self.next_xid += self.rng.below(5);
        Xid(self.next_xid)
    }

    fn insert(&mut self) {
        let count = 1 + self.rng.index(6);
        let rows: Vec<Vec<u8>> = (0..count)
            .map(|_| {
                let len = if self.rng.chance(1, 20) { 3000 } else { self.rng.index(300) };
                let mut row = vec![0; len];
                self.rng.fill(&mut row);
                row
            })
            .collect();
        let bytes = bytes_of(&mut self.page);
        let page = open(&bytes);
        let slots = choose_slots(&page, count);
        let lens = rows.iter().map(|row| TUPLE_HEADER + row.len());
        let fit = how_many_fit(&page, &slots, 0, lens);
        if fit == 0 {
            return;
        }
        let flags = [0, UPDATED, HEAP_ONLY][self.rng.index(3)];
        let head = TupleHeader::new(self.xid(), flags);
        let versions: Vec<_> = rows[..fit].iter().map(|row| (head, row.as_slice())).collect();
        self.change(|page| insert_tuples(page, &slots[..fit], &versions));
        for (slot, row) in slots.iter().zip(&rows[..fit]) {
            let at = usize::from(*slot) - 1;
            if self.model.len() <= at {
                self.model.resize(at + 1, None);
            }
            assert!(self.model[at].is_none(), "a slot in use was given again");
            self.model[at] = Some((head, row.clone()));
        }
    }

    fn pick(&mut self) -> Option<usize> {
        let used: Vec<usize> = (0..self.model.len()).filter(|i| self.model[*i].is_some()).collect();
        self.rng.pick(&used).copied()
    }

    fn offset(&mut self, at: usize) -> u16 {
        let bytes = bytes_of(&mut self.page);
        open(&bytes).tuple(at as u16 + 1).expect("sound").expect("normal").offset
    }

    fn end_one(&mut self) {
        let (Some(at), xid) = (self.pick(), self.xid()) else { return };
        let offset = self.offset(at);
        let head = self.model[at].as_ref().expect("picked").0;
        let head = match self.rng.index(4) {
            0 => head.deleted(xid),
            1 => head.locked(xid, crate::txn::RowLock::Shared),
            2 => head.replaced(xid, RowId::new(8, 2), false),
            _ => TupleHeader { xmin: Xid::FROZEN, ..head.unlocked() },
        };
        let old = self.model[at].as_ref().expect("picked").0;
        if head.xmin == old.xmin {
            self.change(|page| put_xmax(page, offset, &head));
        } else {
            self.change(|page| put_header(page, offset, &old, &head));
        }
        self.model[at].as_mut().expect("picked").0 = head;
    }

    /// Hints are set on one of the two only.
    fn hint_one(&mut self) {
        let Some(at) = self.pick() else { return };
        let at = usize::from(self.offset(at)) + FLAGS;
        let flags = header::u16_at(&bytes_of(&mut self.page), at) | 1 << self.rng.index(4);
        PageMut::owned(&mut self.page).write_unlogged(at, &flags.to_le_bytes());
    }

    fn remove_some(&mut self) {
        let odds = 1 + self.rng.below(4);
        let bytes = bytes_of(&mut self.page);
        let page = open(&bytes);
        let mut keep: Vec<Slot> =
            (1..=page.slots()).map(|slot| page.slot(slot).expect("sound")).collect();
        // Most prunings remove one version or two.
        let few = self.rng.chance(1, 2);
        let mut gone = Vec::new();
        for (slot, place) in keep.iter_mut().zip(&mut self.model) {
            if self.rng.chance(odds, if few { 200 } else { 5 }) {
                if let Slot::Normal { offset, len } = *slot {
                    gone.push((offset, len));
                }
                (*slot, *place) = (Slot::Unused, None);
            }
        }
        let rewrite = Compaction::removing(&page, &keep, &gone).expect("a sound page");
        assert_eq!(rewrite, Compaction::by_sorting(&page, keep).expect("a sound page"));
        self.change(|page| rewrite.apply(page));
        while self.model.last() == Some(&None) {
            self.model.pop();
        }
    }

    fn check(&mut self) {
        let (bytes, copy) = (bytes_of(&mut self.page), bytes_of(&mut self.copy));
        assert!(masked(&bytes) == masked(&copy), "replay gives equal bytes, hints masked");
        let page = open(&bytes);
        assert_eq!(usize::from(page.slots()), self.model.len());
        for (slot, expected) in (1..).zip(&self.model) {
            let found = page.tuple(slot).expect("sound").map(|tuple| {
                let head = tuple.header;
                (TupleHeader { flags: head.flags & !HINTS, ..head }, tuple.row.to_vec())
            });
            let expected = expected
                .clone()
                .map(|(head, row)| (TupleHeader { flags: head.flags & !HINTS, ..head }, row));
            assert_eq!(found, expected, "slot {slot}");
        }
        assert!(bytes[page.lower()..page.upper()].iter().all(|byte| *byte == 0));
        let used: usize =
            self.model.iter().flatten().map(|(_, row)| TUPLE_HEADER + row.len()).sum();
        assert!(page.upper() + used <= PRUNE_XID);
    }
}

#[test]
fn a_page_equals_its_model_and_its_replay() {
    for seed in 0..60 {
        let mut twins = Twins::new(seed);
        for _ in 0..120 {
            match twins.rng.index(10) {
                0..5 => twins.insert(),
                5..7 => twins.end_one(),
                7..9 => twins.hint_one(),
                _ => twins.remove_some(),
            }
            twins.check();
        }
    }
}

#[test]
fn removal_gives_all_space_back() {
    let mut twins = Twins::new(1);
    let empty = open(&bytes_of(&mut twins.page)).room();
    for _ in 0..200 {
        twins.insert();
    }
    assert!(open(&bytes_of(&mut twins.page)).room() < 400);
    let count = twins.model.len();
    let rewrite =
        Compaction::by_sorting(&open(&bytes_of(&mut twins.page)), vec![Slot::Unused; count]);
    let rewrite = rewrite.expect("sound");
    twins.change(|page| rewrite.apply(page));
    assert_eq!(open(&bytes_of(&mut twins.page)).room(), empty);
}

#[test]
fn rebasing_keeps_every_xid_or_refuses() {
    let mut twins = Twins::new(2);
    for _ in 0..20 {
        twins.insert();
        twins.end_one();
    }
    for (base, possible) in [(1u64 << 33) - 2, 0, 1 << 34].into_iter().zip([true, false, false]) {
        let bytes = bytes_of(&mut twins.page);
        match store::rebased_image(&open(&bytes), base) {
            Ok(image) => {
                assert!(possible, "base {base}");
                twins.change(|page| page.replace(&image));
                twins.check();
                assert_eq!(open(&bytes_of(&mut twins.page)).base(), base);
            }
            Err(error) => assert!(!possible && matches!(error, crate::Error::Limit(_))),
        }
    }
}

/// Everything that reads a page, on whatever bytes: errors are fine, panics are not.
fn read_all(bytes: &[u8; PAGE_SIZE]) {
    let Ok(page) = HeapPage::open(ID, bytes) else { return };
    let mut keep = Vec::new();
    for slot in 0..=page.slots() + 1 {
        let _ = (page.slot(slot), page.tuple(slot).map(|tuple| tuple.is_some()));
        let _ = walk_chain(&page, slot, |_, tuple| Ok(tuple.row.len() < PAGE_SIZE));
        if (1..=page.slots()).contains(&slot) {
            keep.push(page.slot(slot).unwrap_or(Slot::Unused));
        }
    }
    let _ = choose_slots(&page, 3);
    let _ = store::rebased_image(&page, 5);
    let mut gone = Vec::new();
    for slot in keep.iter_mut().step_by(40) {
        if let Slot::Normal { offset, len } = *slot {
            gone.push((offset, len));
            *slot = Slot::Unused;
        }
    }
    for rewrite in [Compaction::removing(&page, &keep, &gone), Compaction::by_sorting(&page, keep)]
    {
        let Ok(rewrite) = rewrite else { continue };
        let mut copy = PageBuf::zeroed();
        let mut target = PageMut::owned(&mut copy);
        target.replace(bytes);
        rewrite.apply(&mut target);
    }
}

#[test]
fn damaged_pages_are_errors_and_never_panics() {
    for seed in 0..40 {
        let mut twins = Twins::new(seed);
        for _ in 0..60 {
            twins.insert();
            twins.end_one();
        }
        let sound = bytes_of(&mut twins.page);
        for _ in 0..400 {
            let mut bytes = sound;
            for _ in 0..1 + twins.rng.index(4) {
                let at = if twins.rng.chance(2, 3) {
                    twins.rng.index(400)
                } else {
                    twins.rng.index(PAGE_SIZE)
                };
                bytes[at] ^= 1 << twins.rng.index(8);
            }
            read_all(&bytes);
        }
        let mut noise = [0; PAGE_SIZE];
        twins.rng.fill(&mut noise);
        noise[..32].copy_from_slice(&sound[..32]);
        read_all(&noise);
    }
}

#[test]
fn line_pointers_round_trip_and_strange_bits_are_refused() {
    let all = [
        Slot::Unused,
        Slot::Normal { offset: 8191, len: 8000 },
        Slot::Redirect(MAX_SLOTS),
        Slot::Dead,
    ];
    for slot in all {
        assert_eq!(Slot::decode(u32::from_le_bytes(slot.encode())), Some(slot));
    }
    for word in [1u32, 1 << 28, 3 << 13 | 1, 2 << 13 | 1 << 15, 1 << 13 | 1 << 31] {
        assert_eq!(Slot::decode(word), None, "{word:x}");
    }
}

#[test]
fn a_zero_page_is_no_heap_page() {
    assert!(HeapPage::open(PageId::default(), &[0; PAGE_SIZE]).is_err());
}

/// A page whose versions are chained at random: hints or none, successors that are missing, of
/// another creator, not heap-only, in a ring.
fn chained(rng: &mut Rng) -> [u8; PAGE_SIZE] {
    const REPLACED: u16 = XMIN_COMMITTED | XMAX_COMMITTED | HOT_UPDATED;
    const OTHERS: [u16; 5] = [
        XMIN_COMMITTED | HOT_UPDATED,
        XMAX_COMMITTED | HOT_UPDATED,
        XMIN_COMMITTED | XMAX_ABORTED | HOT_UPDATED,
        XMIN_COMMITTED | LOCK_ONLY,
        0,
    ];
    let mut page = PageBuf::zeroed();
    let mut target = PageMut::owned(&mut page);
    target.replace(&store::empty_image(Xid(1 << 33)));
    let count = 2 + rng.index(30) as u16;
    let xid = |slot: u16| Xid((1 << 33) + u64::from(slot));
    for slot in 1..=count {
        let heap_only = if slot > 1 && !rng.chance(1, 40) { HEAP_ONLY } else { 0 };
        let created = if rng.chance(1, 40) { slot + 1 } else { slot };
        let mut head = TupleHeader::new(xid(created), heap_only);
        let others = *rng.pick(&OTHERS).expect("there are some");
        head.flags |= if rng.chance(9, 10) { REPLACED } else { others };
        head.xmax = xid(slot + 1);
        let to =
            if rng.chance(1, 30) { 1 + rng.index(usize::from(count)) as u16 } else { slot + 1 };
        let block = if rng.chance(1, 200) { BlockNo(7) } else { ID.block };
        head.next = Some(RowId { block, slot: to });
        insert_tuples(&mut target, &[slot], &[(head, b"row")]);
    }
    bytes_of(&mut page)
}

#[test]
fn only_versions_that_were_replaced_before_are_passed_over() {
    let mut rng = Rng::from_seed(11);
    let mut passed = 0;
    for _ in 0..4_000 {
        let bytes = chained(&mut rng);
        let page = open(&bytes);
        let before = Xid((1 << 33) + rng.below(40));
        let (mut all, mut met) = (Vec::new(), Vec::new());
        let whole = walk_chain(&page, 1, |slot, tuple| {
            all.push((slot, tuple.header));
            Ok(true)
        });
        let since = walk_chain_since(&page, 1, before, |slot, tuple| {
            met.push((slot, tuple.header));
            Ok(true)
        });
        if whole.is_err() {
            assert!(since.is_err(), "a chain that is damaged stays so");
            continue;
        }
        since.expect("a sound chain");
        assert!(all.ends_with(&met), "{all:?} {met:?}");
        let left_out = all.len() - met.len();
        for (_, head) in &all[..left_out] {
            assert!(head.has(XMIN_COMMITTED) && head.has(XMAX_COMMITTED) && head.xmax < before);
        }
        passed += left_out;
    }
    assert!(passed > 10_000, "{passed} versions were passed over");
}
