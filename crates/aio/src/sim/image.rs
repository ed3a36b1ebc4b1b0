//! The contents of a disk: names and bytes, in shared pages. A clone costs nothing; a change copies
//! the page, the chunk and the maps on its way if somebody else shares them.

use rightlink_env::sync::{Arc, OnceLock};
use std::collections::{BTreeMap, BTreeSet};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

/// Bytes per page.
pub(crate) const PAGE: usize = 4096;
/// Pages per chunk.
const CHUNK: usize = 64;
const CHUNK_BYTES: u64 = (PAGE * CHUNK) as u64;
/// The largest file: a mistaken offset must not take the machine's memory.
pub(crate) const MAX_FILE: u64 = 64 << 30;

/// Names a file's content for as long as the disk exists.
pub(crate) type Ino = u64;

/// A page, and its hash once somebody asked.
#[derive(Clone, Debug)]
struct Page {
    bytes: [u8; PAGE],
    hash: OnceLock<u64>,
}

impl Page {
    fn zero() -> Page {
        Page { bytes: [0; PAGE], hash: OnceLock::new() }
    }

    fn hash(&self) -> u64 {
        *self.hash.get_or_init(|| xxh3_64(&self.bytes))
    }
}

fn zero_page_hash() -> u64 {
    static HASH: OnceLock<u64> = OnceLock::new();
    *HASH.get_or_init(|| xxh3_64(&[0; PAGE]))
}

/// Neighbouring pages; none is a hole.
#[derive(Clone, Debug)]
struct Chunk {
    pages: [Option<Arc<Page>>; CHUNK],
    hash: OnceLock<u64>,
}

impl Chunk {
    fn empty() -> Chunk {
        Chunk { pages: [const { None }; CHUNK], hash: OnceLock::new() }
    }

    fn hash(&self) -> u64 {
        *self.hash.get_or_init(|| {
            let mut hash = Xxh3Default::new();
            for page in &self.pages {
                let page = page.as_ref().map_or_else(zero_page_hash, |page| page.hash());
                hash.update(&page.to_le_bytes());
            }
            hash.digest()
        })
    }
}

fn empty_chunk_hash() -> u64 {
    static HASH: OnceLock<u64> = OnceLock::new();
    *HASH.get_or_init(|| Chunk::empty().hash())
}

/// The bytes of one file. Bytes past the length are zero.
#[derive(Clone, Debug, Default)]
pub(crate) struct Content {
    len: u64,
    chunks: Vec<Option<Arc<Chunk>>>,
    pages: u64,
}

impl Content {
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Pages that take space.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    /// Passes the bytes of `offset..offset + len`, as far as the file goes, to `sink` in pieces,
    /// and returns how many there were.
    pub(crate) fn read(&self, offset: u64, len: usize, mut sink: impl FnMut(&[u8])) -> usize {
        let end = self.len.min(offset.saturating_add(len as u64));
        let mut at = offset;
        while at < end {
            let within = (at % PAGE as u64) as usize;
            let bytes = (PAGE - within).min((end - at) as usize);
            match self.page(at) {
                Some(page) => sink(&page.bytes[within..within + bytes]),
                None => sink(&[0; PAGE][..bytes]),
            }
            at += bytes as u64;
        }
        end.saturating_sub(offset) as usize
    }

    fn page(&self, at: u64) -> Option<&Page> {
        let chunk = self.chunks.get((at / CHUNK_BYTES) as usize)?.as_ref()?;
        chunk.pages[page_index(at)].as_deref()
    }

    fn page_mut(&mut self, at: u64) -> &mut Page {
        let index = (at / CHUNK_BYTES) as usize;
        if self.chunks.len() <= index {
            self.chunks.resize(index + 1, None);
        }
        let chunk = self.chunks[index].get_or_insert_with(|| Arc::new(Chunk::empty()));
        let chunk = Arc::make_mut(chunk);
        chunk.hash.take();
        let slot = &mut chunk.pages[page_index(at)];
        if slot.is_none() {
            self.pages += 1;
        }
        let page = Arc::make_mut(slot.get_or_insert_with(|| Arc::new(Page::zero())));
        page.hash.take();
        page
    }

    /// Pages that writing `offset..offset + len` would add.
    pub(crate) fn new_pages(&self, offset: u64, len: u64) -> u64 {
        let pages = offset / PAGE as u64..(offset + len).div_ceil(PAGE as u64);
        pages.filter(|page| self.page(page * PAGE as u64).is_none()).count() as u64
    }

    /// Overwrites bytes within the length; what lies past it is dropped.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let end = self.len.min(offset.saturating_add(bytes.len() as u64));
        let mut at = offset;
        while at < end {
            let within = (at % PAGE as u64) as usize;
            let count = (PAGE - within).min((end - at) as usize);
            let from = (at - offset) as usize;
            let page = self.page_mut(at);
            page.bytes[within..within + count].copy_from_slice(&bytes[from..from + count]);
            at += count as u64;
        }
    }

    /// Takes space for the pages of a range.
    pub(crate) fn allocate(&mut self, offset: u64, len: u64) {
        let mut at = offset / PAGE as u64 * PAGE as u64;
        while at < offset + len {
            let _taken = self.page_mut(at);
            at += PAGE as u64;
        }
    }

    /// Extends the file by zeros, if `len` is more than it has.
    pub(crate) fn grow(&mut self, len: u64) {
        assert!(len <= MAX_FILE, "the caller has checked the size");
        self.len = self.len.max(len);
    }

    /// Cuts or extends the file.
    pub(crate) fn set_len(&mut self, len: u64) {
        if len < self.len {
            self.cut(len);
        }
        self.len = len;
    }

    fn cut(&mut self, len: u64) {
        self.chunks.truncate(len.div_ceil(CHUNK_BYTES) as usize);
        let edge = len / CHUNK_BYTES;
        if let Some(Some(chunk)) = self.chunks.get_mut(edge as usize) {
            let chunk = Arc::make_mut(chunk);
            chunk.hash.take();
            let keep = (len % CHUNK_BYTES).div_ceil(PAGE as u64) as usize;
            chunk.pages[keep..].fill(None);
        }
        let within = (len % PAGE as u64) as usize;
        if within > 0 && self.page(len).is_some() {
            self.page_mut(len).bytes[within..].fill(0);
        }
        let chunks = self.chunks.iter().flatten();
        self.pages = chunks.map(|chunk| chunk.pages.iter().flatten().count() as u64).sum();
    }

    fn hash(&self) -> u64 {
        let mut hash = Xxh3Default::new();
        hash.update(&self.len.to_le_bytes());
        let full = self.len.div_ceil(CHUNK_BYTES) as usize;
        for index in 0..full {
            let chunk = self.chunks.get(index).and_then(Option::as_ref);
            let chunk = chunk.map_or_else(empty_chunk_hash, |chunk| chunk.hash());
            hash.update(&chunk.to_le_bytes());
        }
        hash.digest()
    }
}

fn page_index(at: u64) -> usize {
    (at % CHUNK_BYTES) as usize / PAGE
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Dir,
    File(Ino),
}

impl Node {
    pub(crate) fn ino(self) -> Option<Ino> {
        match self {
            Node::File(ino) => Some(ino),
            Node::Dir => None,
        }
    }
}

/// A whole disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Image {
    names: Arc<BTreeMap<Arc<str>, Node>>,
    files: Arc<BTreeMap<Ino, Arc<Content>>>,
}

/// The directory that holds `name`; the root is the empty name.
pub(crate) fn parent(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(parent, _)| parent)
}

impl Image {
    pub(crate) fn node(&self, name: &str) -> Option<Node> {
        if name.is_empty() { Some(Node::Dir) } else { self.names.get(name).copied() }
    }

    /// A file's bytes, if the file is there.
    pub(crate) fn file(&self, name: &str) -> Option<(Ino, &Content)> {
        match self.node(name)? {
            Node::File(ino) => Some((ino, self.content(ino)?)),
            Node::Dir => None,
        }
    }

    pub(crate) fn content(&self, ino: Ino) -> Option<&Content> {
        self.files.get(&ino).map(|content| &**content)
    }

    /// A file's bytes, to be changed; an unknown file begins empty.
    pub(crate) fn content_mut(&mut self, ino: Ino) -> &mut Content {
        Arc::make_mut(Arc::make_mut(&mut self.files).entry(ino).or_default())
    }

    /// Enters a name. A file that nobody has written yet begins empty.
    pub(crate) fn set(&mut self, name: Arc<str>, node: Node) {
        assert!(!name.is_empty(), "the root has no entry");
        if let Node::File(ino) = node {
            Arc::make_mut(&mut self.files).entry(ino).or_default();
        }
        Arc::make_mut(&mut self.names).insert(name, node);
    }

    /// Takes a name away, if it stands for `node`.
    pub(crate) fn unset(&mut self, name: &str, node: Node) {
        if self.names.get(name) == Some(&node) {
            Arc::make_mut(&mut self.names).remove(name);
        }
    }

    /// Takes every name of a file away.
    pub(crate) fn unset_file(&mut self, ino: Ino) {
        Arc::make_mut(&mut self.names).retain(|_, node| *node != Node::File(ino));
    }

    pub(crate) fn is_named(&self, ino: Ino) -> bool {
        self.names.values().any(|node| *node == Node::File(ino))
    }

    /// Forgets a file's bytes.
    pub(crate) fn forget(&mut self, ino: Ino) {
        Arc::make_mut(&mut self.files).remove(&ino);
    }

    /// The names within a directory, without its own.
    pub(crate) fn list(&self, dir: &str) -> Vec<String> {
        let inside = |name: &&Arc<str>| parent(name) == dir;
        let own = |name: &Arc<str>| name.rsplit('/').next().unwrap_or(name).to_string();
        self.names.keys().filter(inside).map(own).collect()
    }

    /// Every name and what it stands for.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&Arc<str>, Node)> {
        self.names.iter().map(|(name, node)| (name, *node))
    }

    /// Pages that take space.
    pub(crate) fn pages(&self) -> u64 {
        self.files.values().map(|content| content.pages()).sum()
    }

    /// Drops what no name leads to: entries of directories that are not there, and nameless files.
    pub(crate) fn prune(&mut self) {
        // Parents sort before their children, so one pass sees every loss.
        let mut lost: Vec<Arc<str>> = Vec::new();
        for name in self.names.keys() {
            let parent = parent(name);
            let reachable = parent.is_empty()
                || self.names.get(parent) == Some(&Node::Dir)
                    && !lost.iter().any(|l| **l == *parent);
            if !reachable {
                lost.push(Arc::clone(name));
            }
        }
        if !lost.is_empty() {
            Arc::make_mut(&mut self.names).retain(|name, _| !lost.contains(name));
        }
        self.drop_nameless();
    }

    fn drop_nameless(&mut self) {
        let named: BTreeSet<Ino> = self.names.values().filter_map(|node| node.ino()).collect();
        self.retain_files(|ino| named.contains(&ino));
    }

    /// Forgets the bytes of the files that are not to be kept.
    pub(crate) fn retain_files(&mut self, keep: impl Fn(Ino) -> bool) {
        if self.files.keys().any(|ino| !keep(*ino)) {
            Arc::make_mut(&mut self.files).retain(|ino, _| keep(*ino));
        }
    }

    /// One number for names, lengths and bytes.
    pub(crate) fn hash(&self) -> u64 {
        self.hash_under("")
    }

    /// The same for the names that begin with `prefix`.
    pub(crate) fn hash_under(&self, prefix: &str) -> u64 {
        let mut hash = Xxh3Default::new();
        for (name, node) in self.names.iter().filter(|(name, _)| name.starts_with(prefix)) {
            // Both are of fixed length, so that no two lists of names run together alike.
            let node = match node {
                Node::Dir => u64::MAX,
                Node::File(ino) => self.content(*ino).map_or(0, Content::hash),
            };
            hash.update(&xxh3_64(name.as_bytes()).to_le_bytes());
            hash.update(&node.to_le_bytes());
        }
        hash.digest()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(content: &Content) -> Vec<u8> {
        let mut out = Vec::new();
        let count = content.read(0, usize::MAX, |piece| out.extend_from_slice(piece));
        assert_eq!(count, out.len());
        out
    }

    #[test]
    fn content_behaves_as_a_vector() {
        let mut rng = rightlink_env::Rng::from_seed(5);
        let (mut content, mut model) = (Content::default(), Vec::new());
        for step in 0..400 {
            let offset = rng.index(600_000);
            if rng.chance(1, 5) {
                content.set_len(offset as u64);
                model.resize(offset, 0);
            } else {
                let mut data = vec![0; rng.index(9_000)];
                rng.fill(&mut data);
                content.grow((offset + data.len()) as u64);
                content.write(offset as u64, &data);
                model.resize(model.len().max(offset + data.len()), 0);
                model[offset..offset + data.len()].copy_from_slice(&data);
            }
            assert_eq!(bytes(&content), model, "step {step}");
        }
    }

    #[test]
    fn equal_contents_hash_equal_and_clones_are_apart() {
        let mut one = Content::default();
        one.grow(20_000);
        let mut two = one.clone();
        two.allocate(0, 20_000);
        assert_eq!((one.hash(), one.pages(), two.pages()), (two.hash(), 0, 5));
        two.write(9_999, b"x");
        assert_ne!(one.hash(), two.hash());
        two.write(9_999, b"\0");
        assert_eq!(one.hash(), two.hash());
        assert_eq!(one.new_pages(4_095, 2), 2);
        assert_eq!(two.new_pages(4_095, 2), 0);
    }

    #[test]
    fn pruning_drops_what_cannot_be_reached() {
        let mut image = Image::default();
        image.set("a/b".into(), Node::Dir);
        image.set("a/b/f".into(), Node::File(1));
        image.set("g".into(), Node::File(2));
        image.prune();
        assert_eq!(image.list(""), ["g"]);
        assert!(image.content(1).is_none() && image.content(2).is_some());
    }
}
