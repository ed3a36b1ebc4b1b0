//! A root directory that can be written to without being changed: what is written stays in memory,
//! on top of a directory that is only read. A database is checked this way as it would be after
//! recovery.
//!
//! Invariants:
//! - Nothing of the directory below is created, written, cut, renamed or removed.
//! - Memory is taken from a budget; when it is used up, writes fail as on a full device.
//! - What was written is read back, whatever file it was renamed to meanwhile.
//!
//! Does not do: keep anything; syncs have nothing to do.

use crate::buf::IoBufs;
use crate::error::{IoError, RawError, number};
use crate::file::File;
use crate::io::{Io, LockFile};
use crate::options::OpenMode;
use rightlink_env::sync::{Arc, Mutex, RwLock};
use rightlink_env::{Budget, Reservation};
use std::collections::{BTreeMap, BTreeSet};

type Raw<T> = Result<T, RawError>;

/// Bytes that are kept or not kept together.
const PAGE: usize = 4096;
/// What a kept page costs besides its bytes.
const PAGE_COST: usize = PAGE + 64;

/// The directory below and what was done on top of it.
#[derive(Debug)]
pub(crate) struct Overlay {
    base: Io,
    names: Mutex<Names>,
    memory: Arc<Mutex<Reservation>>,
}

#[derive(Debug, Default)]
struct Names {
    /// Files that were opened, made or renamed here.
    files: BTreeMap<String, Arc<Shadow>>,
    dirs: BTreeSet<String>,
    /// Names of the directory below that no longer count.
    gone: BTreeSet<String>,
}

/// One file.
#[derive(Debug)]
struct Shadow {
    base: Option<File>,
    content: RwLock<Content>,
    memory: Arc<Mutex<Reservation>>,
}

#[derive(Debug)]
struct Content {
    len: u64,
    /// Up to here, what is not kept is read from below; behind it is zero.
    base_len: u64,
    pages: BTreeMap<u64, Box<[u8; PAGE]>>,
}

/// An open file.
#[derive(Debug)]
pub(crate) struct OverlayFile {
    shadow: Arc<Shadow>,
    read_only: bool,
}

fn raw(error: IoError) -> RawError {
    RawError { kind: error.kind, os: error.os }
}

fn refused<T>(os: i32) -> Raw<T> {
    Err(RawError::from_os(os))
}

fn parent(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(parent, _)| parent)
}

impl Overlay {
    /// Nothing was written yet; what will be takes memory from `budget`.
    pub(crate) fn new(base: &Io, budget: &Budget) -> Overlay {
        let none = budget.try_reserve(0).expect("no bytes always fit");
        let memory = Arc::new(Mutex::new(none));
        Overlay { base: base.clone(), names: Mutex::default(), memory }
    }

    /// The directory below.
    pub(crate) fn base(&self) -> &Io {
        &self.base
    }

    pub(crate) fn open(&self, name: &str, mode: OpenMode) -> Raw<OverlayFile> {
        let read_only = mode == OpenMode::ReadOnly;
        let mut names = self.names.lock();
        if let Some(shadow) = self.find(&mut names, name)? {
            let exists = mode == OpenMode::CreateNew;
            return if exists {
                refused(number::EXIST)
            } else {
                Ok(OverlayFile { shadow, read_only })
            };
        }
        if matches!(mode, OpenMode::ReadOnly | OpenMode::Existing) || !self.is_dir(&names, name)? {
            return refused(number::NOENT);
        }
        let shadow = self.shadow(None, 0);
        names.files.insert(name.to_string(), Arc::clone(&shadow));
        Ok(OverlayFile { shadow, read_only })
    }

    /// The file `name`, opened below if it was not yet.
    fn find(&self, names: &mut Names, name: &str) -> Raw<Option<Arc<Shadow>>> {
        if let Some(shadow) = names.files.get(name) {
            return Ok(Some(Arc::clone(shadow)));
        }
        if names.gone.contains(name) || !self.base.exists(name).map_err(raw)? {
            return Ok(None);
        }
        let base = self.base.open_buffered(name, OpenMode::ReadOnly).map_err(raw)?;
        let len = base.len().map_err(raw)?;
        let shadow = self.shadow(Some(base), len);
        names.files.insert(name.to_string(), Arc::clone(&shadow));
        Ok(Some(shadow))
    }

    fn shadow(&self, base: Option<File>, len: u64) -> Arc<Shadow> {
        let content = Content { len, base_len: len, pages: BTreeMap::new() };
        let memory = Arc::clone(&self.memory);
        Arc::new(Shadow { base, content: RwLock::new(content), memory })
    }

    /// Does the directory exist that `name` is to be made in?
    fn is_dir(&self, names: &Names, name: &str) -> Raw<bool> {
        let dir = parent(name);
        Ok(dir.is_empty() || names.dirs.contains(dir) || self.base.exists(dir).map_err(raw)?)
    }

    pub(crate) fn exists(&self, name: &str) -> Raw<bool> {
        let names = self.names.lock();
        if names.files.contains_key(name) || names.dirs.contains(name) {
            return Ok(true);
        }
        Ok(!names.gone.contains(name) && self.base.exists(name).map_err(raw)?)
    }

    pub(crate) fn remove(&self, name: &str) -> Raw<()> {
        if !self.exists(name)? {
            return refused(number::NOENT);
        }
        let mut names = self.names.lock();
        names.files.remove(name);
        names.dirs.remove(name);
        names.gone.insert(name.to_string());
        Ok(())
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> Raw<()> {
        let mut names = self.names.lock();
        let Some(shadow) = self.find(&mut names, from)? else { return refused(number::NOENT) };
        names.files.remove(from);
        names.gone.insert(from.to_string());
        names.files.insert(to.to_string(), shadow);
        Ok(())
    }

    pub(crate) fn list(&self, dir: &str) -> Raw<Vec<String>> {
        let names = self.names.lock();
        let below = dir.is_empty() || self.base.exists(dir).map_err(raw)?;
        let mut found: BTreeSet<String> = match below {
            true => self.base.list(dir).map_err(raw)?.into_iter().collect(),
            false if names.dirs.contains(dir) => BTreeSet::new(),
            false => return refused(number::NOENT),
        };
        let full = |name: &str| if dir.is_empty() { name.into() } else { format!("{dir}/{name}") };
        found.retain(|name| !names.gone.contains(&full(name)));
        let own = names.files.keys().chain(&names.dirs).filter(|name| parent(name) == dir);
        found.extend(own.filter_map(|name| name.rsplit('/').next().map(str::to_string)));
        Ok(found.into_iter().collect())
    }

    pub(crate) fn create_dir(&self, name: &str) -> Raw<()> {
        if !self.exists(name)? {
            self.names.lock().dirs.insert(name.to_string());
        }
        Ok(())
    }

    /// Keeps others from opening the directory below, if its lock file is there.
    pub(crate) fn lock(&self, name: &str) -> Result<LockFile, IoError> {
        self.base.lock_existing(name)
    }
}

impl OverlayFile {
    pub(crate) fn read(&self, bufs: &IoBufs, skip: usize, offset: u64) -> Raw<usize> {
        let (mut at, mut moved) = (offset, 0);
        for mut slice in bufs.slices_mut(skip) {
            let got = self.shadow.read(&mut slice, at)?;
            (at, moved) = (at + got as u64, moved + got);
            if got < slice.len() {
                break;
            }
        }
        Ok(moved)
    }

    pub(crate) fn write(&self, bufs: &IoBufs, skip: usize, offset: u64) -> Raw<usize> {
        self.check_writable()?;
        let (mut at, mut moved) = (offset, 0);
        for slice in bufs.slices(skip) {
            self.shadow.write(&slice, at)?;
            (at, moved) = (at + slice.len() as u64, moved + slice.len());
        }
        Ok(moved)
    }

    pub(crate) fn len(&self) -> u64 {
        self.shadow.content.read().len
    }

    pub(crate) fn set_len(&self, len: u64) -> Raw<()> {
        self.check_writable()?;
        self.shadow.set_len(len);
        Ok(())
    }

    pub(crate) fn allocate(&self, offset: u64, len: u64) -> Raw<()> {
        self.check_writable()?;
        let mut content = self.shadow.content.write();
        content.len = content.len.max(offset + len);
        Ok(())
    }

    fn check_writable(&self) -> Raw<()> {
        if self.read_only { refused(number::BADF) } else { Ok(()) }
    }
}

impl Shadow {
    fn read(&self, out: &mut [u8], offset: u64) -> Raw<usize> {
        let content = self.content.read();
        let len = content.len.saturating_sub(offset).min(out.len() as u64) as usize;
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            done += self.read_piece(&content, &mut out[done..len], at)?;
        }
        Ok(len)
    }

    /// Reads as many bytes as lie together: kept ones, ones from below, or zeros.
    fn read_piece(&self, content: &Content, out: &mut [u8], at: u64) -> Raw<usize> {
        let (page, within) = (at / PAGE as u64, (at % PAGE as u64) as usize);
        if let Some(kept) = content.pages.get(&page) {
            let len = out.len().min(PAGE - within);
            out[..len].copy_from_slice(&kept[within..within + len]);
            return Ok(len);
        }
        let next = content.pages.range(page..).next().map_or(u64::MAX, |(next, _)| *next);
        let run = next.saturating_mul(PAGE as u64).saturating_sub(at);
        let len = run.min(out.len() as u64) as usize;
        let below = content.base_len.saturating_sub(at).min(len as u64) as usize;
        let Some(base) = self.base.as_ref().filter(|_| below > 0) else {
            out[..len].fill(0);
            return Ok(len);
        };
        let got = base.read_at(&mut out[..below], at).map_err(raw)?;
        out[got..len].fill(0);
        Ok(len)
    }

    fn write(&self, bytes: &[u8], offset: u64) -> Raw<()> {
        let mut content = self.content.write();
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let (page, within) = (at / PAGE as u64, (at % PAGE as u64) as usize);
            let piece = &bytes[done..bytes.len().min(done + PAGE - within)];
            done += piece.len();
            let is_hole =
                !content.pages.contains_key(&page) && content.base_len <= page * PAGE as u64;
            if !(is_hole && piece.iter().all(|byte| *byte == 0)) {
                let kept = self.keep(&mut content, page)?;
                kept[within..within + piece.len()].copy_from_slice(piece);
            }
            content.len = content.len.max(at + piece.len() as u64);
        }
        Ok(())
    }

    /// The page, from now on kept.
    fn keep<'a>(&self, content: &'a mut Content, page: u64) -> Raw<&'a mut [u8; PAGE]> {
        if !content.pages.contains_key(&page) {
            let mut bytes = Box::new([0; PAGE]);
            let at = page * PAGE as u64;
            let len = content.len.saturating_sub(at).min(PAGE as u64) as usize;
            let mut done = 0;
            while done < len {
                done += self.read_piece(content, &mut bytes[done..len], at + done as u64)?;
            }
            if !self.memory.lock().grow(PAGE_COST) {
                return refused(number::NOSPC);
            }
            content.pages.insert(page, bytes);
        }
        Ok(content.pages.get_mut(&page).expect("kept above"))
    }

    fn set_len(&self, len: u64) {
        let mut content = self.content.write();
        if len < content.len {
            content.base_len = content.base_len.min(len);
            let cut = content.pages.split_off(&len.div_ceil(PAGE as u64));
            self.memory.lock().shrink(cut.len() * PAGE_COST);
            if let Some(last) = content.pages.get_mut(&(len / PAGE as u64)) {
                last[(len % PAGE as u64) as usize..].fill(0);
            }
        }
        content.len = len;
    }
}

impl Drop for Shadow {
    fn drop(&mut self) {
        let kept = self.content.read().pages.len();
        self.memory.lock().shrink(kept * PAGE_COST);
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::error::IoErrorKind;
    use crate::options::{IoOptions, Method};
    use crate::sim::SimDisk;
    use rightlink_env::{Env, Rng};

    fn base() -> (SimDisk, Io) {
        let disk = SimDisk::new(1);
        let io =
            Io::simulated(&Env::simulated(1), disk.clone(), IoOptions::with_method(Method::Sync));
        (disk, io.expect("a fresh disk"))
    }

    /// The same random calls on a plain disk and on an overlay of a copy of it: same answers, and
    /// the copy is what it was.
    #[test]
    fn behaves_as_the_disk_below_and_leaves_it_alone() {
        let (_, plain) = base();
        plain.create_dir("d").unwrap();
        let file = plain.open_file("d/a", OpenMode::Create).unwrap();
        file.write_all_at(&[7; 20_000], 0).unwrap();
        let (disk, below) = base();
        below.create_dir("d").unwrap();
        let below_file = below.open_file("d/a", OpenMode::Create).unwrap();
        below_file.write_all_at(&[7; 20_000], 0).unwrap();
        let before = disk.live_hash();
        let budget = Budget::new(1 << 20);
        let over = Io::overlay(&Env::simulated(1), &below, &budget);
        let over_file = over.open_file("d/a", OpenMode::Existing).unwrap();
        let mut rng = Rng::from_seed(5);
        for round in 0..2000u32 {
            let (at, len) = (rng.below(40_000), rng.below(9_000) as usize);
            match rng.below(8) {
                0 => {
                    file.set_len(at).unwrap();
                    over_file.set_len(at).unwrap();
                }
                1..=3 => {
                    let fill = if rng.chance(1, 4) { 0 } else { round as u8 };
                    file.write_all_at(&vec![fill; len], at).unwrap();
                    over_file.write_all_at(&vec![fill; len], at).unwrap();
                }
                _ => {
                    let (mut a, mut b) = (vec![1; len], vec![1; len]);
                    let got = file.read_at(&mut a, at).unwrap();
                    assert_eq!(got, over_file.read_at(&mut b, at).unwrap(), "round {round}");
                    assert_eq!(a[..got], b[..got], "round {round}");
                }
            }
            assert_eq!(file.len().unwrap(), over_file.len().unwrap());
        }
        over.rename("d/a", "d/b").unwrap();
        assert_eq!(over.list("d").unwrap(), ["b"]);
        assert!(!over.exists("d/a").unwrap() && over.exists("d/b").unwrap());
        let kind = over.open_file("d/a", OpenMode::Existing).unwrap_err().kind;
        assert_eq!(kind, IoErrorKind::NotFound);
        drop((file, below_file, over_file, over));
        assert_eq!(disk.live_hash(), before);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_used_up_budget_is_a_full_device() {
        let (_, below) = base();
        let over = Io::overlay(&Env::simulated(1), &below, &Budget::new(10_000));
        let file = over.open_file("x", OpenMode::CreateNew).unwrap();
        file.write_all_at(&[1; 8192], 0).unwrap();
        assert_eq!(file.write_all_at(&[1; 8192], 8192).unwrap_err().kind, IoErrorKind::NoSpace);
        file.write_all_at(&[2; 8192], 0).unwrap();
    }
}
