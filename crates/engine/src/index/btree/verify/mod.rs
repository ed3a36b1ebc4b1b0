//! Checks of the structure, with writers running or not.
//!
//! | check | what |
//! |---|---|
//! | P3 P4 | header, slots, items inside the page and not overlapping |
//! | B1 | meta page, root and levels agree; only the root says that it is |
//! | B2 B3 | keys ascend, and lie between the fences |
//! | B4 B5 | neighbours share a fence and point at each other |
//! | B6 B7 | a child is one level down and has the fences its downlinks say |
//! | B8 | every page but the root has one downlink, or its left sibling is flagged |
//! | B9 B10 | no ring, all pages reached; no downlink to a free page, no half-dead page |
//! | B11 | prefix and separators are what the fences say; the first inner entry has no key |
//! | B12 B13 | posting lists can be read; no two live rows with one key (unique indexes) |
//! | B14 | keys are found from the root |
//! | B15 B16 | no free page in a chain, no page outside; bytes add up |
//!
//! Siblings are compared under both latches, a child with its parent while the parent's version
//! stands still. What seems lost is looked up again before it is reported. The walk is registered
//! (R6).
//!
//! Invariants: damage that can be described is a finding, never a panic; an error is an I/O error.
//! Does not do: compare with the heap (`crate::verify`). PostgreSQL: `amcheck`.

mod page_checks;

use rightlink_env::Broken;
use rightlink_env::points::{self, broken};

use crate::buffer::{Pin, ReadStream, StreamOptions};
use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::index::Direction;
use crate::index::am::{HeapOracle, VerifyStats};
use crate::index::btree::page::entries::Entries;
use crate::index::btree::page::meta;
use crate::index::btree::page::node::{HALF_DEAD, INCOMPLETE, Node, ROOT, is_node};
use crate::index::btree::page::tree_key::split_key;
use crate::index::btree::search::SearchTarget;
use crate::index::btree::search::prefetch::LeafPrefetch;
use crate::index::btree::tree::Tree;
use crate::index::btree::verify::page_checks::{check_node, compare_siblings};
use crate::index::structure_check::StructureCheck;
use crate::keycode::KeyRange;
use crate::page::header::KIND;
use crate::page::{PageFinding, PageKind};

type Page = Box<[u8; PAGE_SIZE]>;

/// A page of the walk, copied.
struct PageCopy {
    block: u32,
    page: Page,
}

/// A verification under way.
struct Verifier<'a> {
    tree: &'a Tree,
    check: StructureCheck<'a>,
    /// Blocks met along some level.
    chained: Vec<bool>,
    /// Blocks that some downlink names.
    downlinked: Vec<bool>,
    root: (u32, u8),
    /// Leaves that are read ahead of the walk.
    prefetch: LeafPrefetch,
}

fn set_bit(bits: &mut Vec<bool>, block: u32) -> bool {
    let at = block as usize;
    if bits.len() <= at {
        bits.resize(at + 1, false);
    }
    std::mem::replace(&mut bits[at], true)
}

fn copy_page(pin: &Pin) -> Page {
    Box::new(*pin.shared().bytes())
}

impl Tree {
    /// See [`crate::index::am::AccessMethod::verify`].
    pub(crate) fn verify(
        &self,
        oracle: Option<&dyn HeapOracle>,
        report: &mut dyn FnMut(PageFinding),
    ) -> Result<VerifyStats> {
        let _registered = self.registrations.register();
        let mut verifier = Verifier {
            tree: self,
            check: StructureCheck::new(oracle, report),
            chained: Vec::new(),
            downlinked: Vec::new(),
            root: (0, 0),
            prefetch: LeafPrefetch::default(),
        };
        if verifier.meta()? {
            for level in (0..=verifier.root.1).rev() {
                verifier.level(level)?;
            }
            verifier.blocks()?;
        }
        Ok(verifier.check.finish(u32::from(verifier.root.1) + 1))
    }
}

impl Verifier<'_> {
    fn meta(&mut self) -> Result<bool> {
        let pin = self.tree.pool.pin(self.tree.page(0))?;
        loop {
            let meta = match meta::parse(&copy_page(&pin)) {
                Ok(meta) => meta,
                Err(what) => {
                    self.check.add(0, "B1", what);
                    return Ok(false);
                }
            };
            self.root = (meta.root, meta.level);
            let blocks = self.tree.pool.blocks(self.tree.file);
            if meta.root >= blocks {
                self.check.add(0, "B1", "the root is outside the file");
                return Ok(false);
            }
            // A block beyond the end is fine: growth that no record formatted may be lost.
            if meta.free.contains(&0) {
                self.check.add(0, "B15", "the free list names the meta page");
            }
            points::hit("btree.verify.meta");
            let page = copy_page(&self.tree.pool.pin(self.tree.page(meta.root))?);
            let node = Node::open(&*page);
            if node.is_ok_and(|node| node.level == meta.level && node.left == 0) {
                return Ok(true);
            }
            // The root may have split since, and the old root been merged away.
            let now = meta::parse(&copy_page(&pin));
            if now.is_ok_and(|now| now.root != meta.root) && !broken(Broken::SplitRootReported) {
                continue;
            }
            self.check.add(meta.root, "B1", "the root page is not what the meta page says");
            return Ok(false);
        }
    }

    /// Walks along one level.
    fn level(&mut self, level: u8) -> Result<()> {
        let leftmost = self.arrive(SearchTarget::At(&[]), level);
        let Some(leftmost) = self.check.sound(leftmost, "B6")? else { return Ok(()) };
        let Some(mut here) = leftmost else {
            self.check.add(0, "B1", format!("there is no level {level}"));
            return Ok(());
        };
        if Node::open(&*here.page).is_ok_and(|node| node.left != 0) {
            self.check.add(here.block, "B5", "the leftmost page of a level has a left sibling");
        }
        self.check.last = None;
        let mut walked = Vec::new();
        loop {
            if set_bit(&mut walked, here.block) {
                self.check.add(here.block, "B9", "the right links of a level form a ring");
                return Ok(());
            }
            set_bit(&mut self.chained, here.block);
            if !self.page(&here, level)? {
                return Ok(());
            }
            match self.next(&here, level)? {
                Some(next) => here = next,
                None => return Ok(()),
            }
        }
    }

    /// The right neighbour, compared with this page under both latches.
    fn next(&mut self, here: &PageCopy, level: u8) -> Result<Option<PageCopy>> {
        loop {
            let pin = self.tree.pin_linked(here.block)?;
            let right = match Node::open(&*copy_page(&pin)) {
                Ok(node) if node.level == level => node.right,
                _ => return self.rejoin(here, level),
            };
            if right == 0 {
                return Ok(None);
            }
            if level == 0 {
                self.look_ahead(&here.page, right);
            }
            let neighbour = self.tree.pin_linked(right);
            let Some(neighbour) = self.check.sound(neighbour, "B5")? else { return Ok(None) };
            let left_page = pin.shared();
            let right_page = neighbour.shared();
            let left = Node::open(left_page.bytes());
            if !left.is_ok_and(|node| node.right == right) {
                continue;
            }
            let (left, neighbour) = (left_page.bytes(), right_page.bytes());
            let findings = compare_siblings(here.block, left, neighbour);
            let next = PageCopy { block: right, page: Box::new(*right_page.bytes()) };
            drop((left_page, right_page));
            let readable = is_node(&*next.page);
            for (check, what) in findings {
                self.check.add(right, check, what);
            }
            return Ok(readable.then_some(next));
        }
    }

    /// Has the leaves read that follow the one on `page`, whose right neighbour is `right`.
    fn look_ahead(&mut self, page: &Page, right: u32) {
        let near = self.tree.pool.is_resident(self.tree.page(right));
        self.prefetch.note_step(near, &self.tree.pool);
        let high = Node::open(&**page).ok().and_then(|node| node.high());
        let rest = KeyRange { low: high.unwrap_or_default(), high: None };
        self.prefetch.advance(self.tree, &rest, Direction::Forward);
    }

    /// The page that a descent leads to. If it was merged before it could be copied, the descent is
    /// repeated.
    fn arrive(&self, target: SearchTarget<'_>, level: u8) -> Result<Option<PageCopy>> {
        let mut tries = 0;
        loop {
            let Some(pin) = self.tree.descend(target, level)? else { return Ok(None) };
            let here = PageCopy { block: pin.page().block.0, page: copy_page(&pin) };
            tries += 1;
            if here.page[KIND] != PageKind::BtreeFree as u8 || tries == 8 {
                return Ok(Some(here));
            }
        }
    }

    /// The page has left the tree: the walk continues where it ended.
    fn rejoin(&mut self, here: &PageCopy, level: u8) -> Result<Option<PageCopy>> {
        let Some(high) = Node::open(&*here.page).ok().and_then(|node| node.high()) else {
            return Ok(None);
        };
        let here = self.arrive(SearchTarget::At(&high), level);
        Ok(self.check.sound(here, "B9")?.flatten())
    }

    /// Checks one page; false if the walk cannot continue from it.
    fn page(&mut self, here: &PageCopy, level: u8) -> Result<bool> {
        let block = here.block;
        let node = match Node::open(&*here.page) {
            Ok(node) => node,
            Err(what) => {
                self.check.add(block, "P3", what);
                return Ok(false);
            }
        };
        if node.level != level {
            self.check.add(
                block,
                "B6",
                format!("level {} among pages of level {level}", node.level),
            );
            return Ok(false);
        }
        if node.flags & ROOT != 0 && block != self.root.0 && self.tree.root().0 != block {
            self.check.add(block, "B1", "a page that is not the root says it is");
        }
        if node.flags & HALF_DEAD != 0 {
            self.check.add(block, "B10", "a half-dead page");
        }
        for (check, what) in check_node(&node) {
            self.check.add(block, check, what);
        }
        match level {
            0 => self.leaf(block, &node)?,
            _ => self.children(block)?,
        }
        Ok(true)
    }

    fn leaf(&mut self, block: u32, node: &Node<&[u8; PAGE_SIZE]>) -> Result<()> {
        self.check.stats.leaves += 1;
        let mut members = Vec::new();
        for i in 0..node.count {
            // What cannot be read is a finding already.
            if node.members(i, &mut members).is_ok() {
                let dead = members.iter().filter(|member| member.dead).count();
                self.check.count_entries(members.len(), dead);
            }
        }
        self.check.used_bytes +=
            (PAGE_SIZE - node.free_bytes()).saturating_sub(node.garbage) as u64;
        let mut entries = Entries::default();
        if entries.append_page(node).is_err() {
            return Ok(());
        }
        self.uniqueness(block, &entries);
        let probes = [0, entries.len() / 2, entries.len().saturating_sub(1)];
        for at in probes.into_iter().filter(|at| *at < entries.len()) {
            self.find_again(block, entries.key(at))?;
        }
        Ok(())
    }

    /// B14. A key that is not found may have been deleted: then it is not on its page either.
    fn find_again(&mut self, block: u32, key: &[u8]) -> Result<()> {
        // If it was deleted before the search and inserted again before the copy, the next attempt
        // finds it.
        if !self.attempt(|verifier| verifier.is_found(block, key))? {
            self.check.add(block, "B14", "a key of this page is not found from the root");
        }
        Ok(())
    }

    /// Looks again while the answer is no, since other threads may change pages between two looks.
    fn attempt(&mut self, mut look: impl FnMut(&mut Self) -> Result<bool>) -> Result<bool> {
        for _ in 0..8 {
            if look(self)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Is the key found from the root, or no longer on its page?
    fn is_found(&mut self, block: u32, key: &[u8]) -> Result<bool> {
        let tree = self.tree;
        let found = tree.read_leaf(SearchTarget::At(key), || {}, |_, _, found| Ok(found));
        match found {
            Ok(found) if found.exact => Ok(true),
            Ok(_) => {
                let page = copy_page(&tree.pin_linked(block)?);
                let there = Node::open(&*page).is_ok_and(|node| {
                    node.search(key).is_ok_and(|found| found.exact)
                        || (0..node.count).any(|i| node.key(i).is_ok_and(|k| k == key))
                });
                Ok(!there)
            }
            Err(error) => self.check.add_damage(error, "B14").map(|()| true),
        }
    }

    /// B13, for neighbours in key order.
    fn uniqueness(&mut self, block: u32, entries: &Entries) {
        if !self.check.checks_unique() {
            return;
        }
        for i in 0..entries.len() {
            let Ok((key, first)) = split_key(entries.key(i)) else { return };
            let rows = match entries.checked_members(i) {
                Ok(members) => members.iter().map(|member| member.row).collect(),
                Err(_) => vec![first],
            };
            for row in rows {
                self.check.check_unique(block, key, row);
            }
        }
    }

    /// Checks the downlinks of an inner page, while its version stands still.
    fn children(&mut self, block: u32) -> Result<()> {
        self.check.stats.inner += 1;
        for _ in 0..8 {
            let pin = self.tree.pin_linked(block)?;
            let (page, version) = {
                let page = pin.shared();
                (Box::new(*page.bytes()), page.version())
            };
            let Ok(node) = Node::open(&*page) else { return Ok(()) };
            let mut entries = Entries::default();
            if node.is_leaf() || entries.append_page(&node).is_err() {
                return Ok(());
            }
            let mut findings = Vec::new();
            let mut moved = false;
            for i in 0..entries.len() {
                self.tree
                    .prefetch_children(i, |i| (i < entries.len()).then(|| entries.value(i).child));
                let finding = self.child(block, &node, &entries, i)?;
                moved = pin.version() != version;
                if moved {
                    break;
                }
                findings.extend(finding);
            }
            if !moved {
                for PageFinding { block, check, what } in findings {
                    self.check.add(block, check, what);
                }
                return Ok(());
            }
        }
        Ok(())
    }

    /// One downlink of the inner page at `block`.
    fn child(
        &mut self,
        block: u32,
        parent: &Node<&[u8; PAGE_SIZE]>,
        entries: &Entries,
        i: usize,
    ) -> Result<Option<PageFinding>> {
        let child = entries.value(i).child;
        if child == 0 || child >= self.tree.pool.blocks(self.tree.file) {
            return Ok(Some(PageFinding::new(block, "B7", "a downlink leads outside the file")));
        }
        set_bit(&mut self.downlinked, child);
        let pin = self.tree.pin_linked(child);
        let Some(pin) = self.check.sound(pin, "P2")? else { return Ok(None) };
        let page = copy_page(&pin);
        let found = |check, what: &str| Ok(Some(PageFinding::new(child, check, what)));
        if page[KIND] == PageKind::BtreeFree as u8 {
            return found("B10", "a downlink to a free page");
        }
        let Ok(node) = Node::open(&*page) else {
            return found("P3", "a downlink to something else than a page");
        };
        if node.level + 1 != parent.level {
            return found("B6", &format!("level {} below level {}", node.level, parent.level));
        }
        if node.low() != entries.key(i) {
            return found("B7", "the low fence is not the separator of its downlink");
        }
        let (bound, next) = if i + 1 < entries.len() {
            (Some(entries.key(i + 1).to_vec()), Some(entries.value(i + 1).child))
        } else {
            (parent.high(), None)
        };
        let incomplete = node.flags & INCOMPLETE != 0;
        if !incomplete && node.high() != bound {
            return found("B7", "the high key is not the next separator");
        }
        if !incomplete && next.is_some_and(|next| next != node.right) {
            return found("B8", "the right sibling has no downlink");
        }
        Ok(None)
    }

    /// Checks all blocks: none is outside the tree unless it is free, and every page of a level has
    /// a downlink.
    fn blocks(&mut self) -> Result<()> {
        let tree = self.tree;
        let mut next = 0;
        // The file may grow meanwhile: the number of blocks is asked anew each time.
        let mut stream = ReadStream::new(&tree.pool, StreamOptions::ORDERED, || {
            next += 1;
            Ok((next < tree.pool.blocks(tree.file)).then(|| (tree.page(next), next)))
        });
        while let Some((tried, block)) = stream.next_tried()? {
            let Some(pin) = self.check.sound(tried, "P2")? else { continue };
            let page = copy_page(&pin);
            if !is_node(&*page) {
                self.check.stats.free += 1;
                let kind = page[KIND];
                if kind != PageKind::BtreeFree as u8 && kind != 0 {
                    self.check.add(block, "B15", "a page that belongs to no tree");
                }
                continue;
            }
            let at = block as usize;
            let chained = self.chained.get(at).copied().unwrap_or(false);
            let linked = self.downlinked.get(at).copied().unwrap_or(false);
            if !chained && !self.attempt(|verifier| verifier.arrives_at(block))? {
                self.check.add(block, "B9", "a page that its level does not lead to");
            } else if !linked
                && block != self.root.0
                && !self.attempt(|verifier| verifier.sees_downlink(block))?
            {
                self.check.add(block, "B8", "a page without a downlink");
            }
        }
        Ok(())
    }

    /// Does a descent for its low fence arrive at this page, or has it left the tree? A page that
    /// was merged between descent and copy is gone at the next attempt.
    fn arrives_at(&mut self, block: u32) -> Result<bool> {
        let page = copy_page(&self.tree.pin_linked(block)?);
        let Ok(node) = Node::open(&*page) else { return Ok(!is_node(&*page)) };
        let low = node.low();
        let mut found = match self.tree.descend(SearchTarget::At(&low), node.level) {
            Ok(Some(pin)) => pin,
            Ok(None) => return Ok(self.tree.root().0 == block),
            Err(error) => return self.check.add_damage(error, "B9").map(|()| true),
        };
        for _ in 0..64 {
            let here = copy_page(&found);
            let Ok(node) = Node::open(&*here) else { return Ok(false) };
            if found.page().block.0 == block {
                return self.attempt(|verifier| verifier.is_linked(block));
            }
            if node.right == 0 || node.high().is_none_or(|high| low < high) {
                return Ok(false);
            }
            found = self.tree.pin_linked(node.right)?;
        }
        Ok(false)
    }

    /// Does the left sibling's right link lead to this page?
    fn is_linked(&mut self, block: u32) -> Result<bool> {
        let page = copy_page(&self.tree.pin_linked(block)?);
        let Ok(node) = Node::open(&*page) else { return Ok(true) };
        if node.left == 0 {
            return Ok(true);
        }
        let left = self.tree.pin_linked(node.left);
        let Some(left) = self.check.sound(left, "B5")? else { return Ok(true) };
        // A split or merge of the left sibling between the two copies is over at the next attempt.
        Ok(Node::open(&*copy_page(&left)).is_ok_and(|left| left.right == block))
    }

    /// Has this page a downlink, or is one still to come, or has the page left the tree? Page, left
    /// sibling and parent are copied one after the other. A split in between makes them disagree;
    /// it is over at the next attempt.
    fn sees_downlink(&mut self, block: u32) -> Result<bool> {
        let page = copy_page(&self.tree.pin_linked(block)?);
        let Ok(node) = Node::open(&*page) else { return Ok(true) };
        if node.left != 0 {
            let left = copy_page(&self.tree.pin_linked(node.left)?);
            if Node::open(&*left).is_ok_and(|left| left.flags & INCOMPLETE != 0) {
                return Ok(true);
            }
        }
        let low = node.low();
        let target = SearchTarget::At(&low);
        let mut parent = match self.tree.descend(target, node.level + 1) {
            Ok(Some(pin)) => copy_page(&pin),
            Ok(None) => return Ok(self.tree.root().0 == block),
            Err(error) => return self.check.add_damage(error, "B8").map(|()| true),
        };
        // The parent may have been split, and its own parent not have the downlink yet.
        for _ in 0..64 {
            let Ok(here) = Node::open(&*parent) else { return Ok(false) };
            if here.is_leaf() {
                return Ok(false);
            }
            if here.right == 0 || here.high().is_none_or(|high| low < high) {
                let child =
                    here.search(&low).ok().and_then(|found| here.child_index(found, target));
                return Ok(child.is_some_and(|i| here.child(i) == Ok(block)));
            }
            let right = here.right;
            parent = copy_page(&self.tree.pin_linked(right)?);
        }
        Ok(false)
    }
}
