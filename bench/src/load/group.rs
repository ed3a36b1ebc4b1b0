//! One limit of memory for all processes of a cell: a control group of its own.
//!
//! Every engine gets the same limit: its allowance, a tenth more, and [`BESIDE`] for what a process
//! needs that is no cache. All that the kernel charges counts: what the process allocates, maps,
//! and the page cache of the files that it reads and writes. The processes of a cell come one after
//! the other into the same group, because what the page cache has of the files of one would be free
//! for the next one in another group.
//!
//! Groups are made at the root of the hierarchy of memory, version 1 or 2, as it is mounted here,
//! for which one must be root, or root in a container that lets it. Where it cannot be had,
//! `load::peers::limit` bounds the page cache of peers instead.
//!
//! Invariants: a process joins before it opens its engine; the group goes when the cell ends, well
//! or badly, after its processes. Of a run that was killed, the next run removes it.
//! Does not do: rates of devices. A buffered writer may be held up in a small group of version 1,
//! which cannot write back its own dirty pages first.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rightlink_env::thread;

use crate::Failure;

/// Bytes of a process that are no cache: code, stacks, tables of pages, buffers of a batch.
const BESIDE: u64 = 16 << 20;
const PREFIX: &str = "rightlink-load-";
/// Who was just waited for may still be on its way out of the group.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(10);

/// The two interfaces of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    /// What takes the limit.
    fn limit(self) -> &'static str {
        match self {
            Version::One => "memory.limit_in_bytes",
            Version::Two => "memory.max",
        }
    }

    /// What takes the limit of memory and swap together, or of swap, and which is none of it.
    fn swap(self, bytes: u64) -> (&'static str, u64) {
        match self {
            Version::One => ("memory.memsw.limit_in_bytes", bytes),
            Version::Two => ("memory.swap.max", 0),
        }
    }

    /// What tells how many processes were killed at the limit.
    fn kills(self) -> &'static str {
        match self {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        }
    }
}

/// A group; removed by its drop.
#[derive(Debug)]
pub(super) struct Group {
    path: PathBuf,
    version: Version,
    limit: u64,
}

/// Bytes that a group allows an engine that is told `memory`.
pub(super) fn limit_for(memory: u64) -> u64 {
    memory + memory / 10 + BESIDE
}

impl Group {
    /// A new group for an engine that is told `memory` bytes.
    pub(super) fn make(memory: u64) -> io::Result<Group> {
        let mounts = std::fs::read_to_string("/proc/self/mounts")?;
        let none = || io::Error::other("no hierarchy of control groups with memory is mounted");
        let (root, version) = hierarchy(&mounts).ok_or_else(none)?;
        if version == Version::Two {
            // Else groups below have no limits; it often is so already.
            let _ = std::fs::write(root.join("cgroup.subtree_control"), "+memory");
        }
        remove_forgotten(&root);
        Group::make_in(&root, version, limit_for(memory))
    }

    fn make_in(root: &Path, version: Version, limit: u64) -> io::Result<Group> {
        let path = root.join(format!("{PREFIX}{}", std::process::id()));
        std::fs::create_dir(&path)?;
        let group = Group { path, version, limit };
        std::fs::write(group.path.join(version.limit()), limit.to_string())?;
        let (swap, bytes) = version.swap(limit);
        let swap = group.path.join(swap);
        if swap.exists() {
            std::fs::write(swap, bytes.to_string())?;
        }
        Ok(group)
    }

    /// For [`join`].
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What to say if a process ended because the limit was reached.
    pub(super) fn verdict(&self) -> Option<String> {
        let told = std::fs::read_to_string(self.path.join(self.version.kills())).ok()?;
        let kills = told.lines().find_map(|line| line.strip_prefix("oom_kill "))?;
        let killed = kills.trim() != "0";
        killed.then(|| format!("the control group's {} MiB were too little", self.limit >> 20))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..TRIES {
            if std::fs::remove_dir(&self.path).is_ok() {
                return;
            }
            thread::sleep(PAUSE);
        }
        eprintln!("{} stays", self.path.display());
    }
}

/// Puts this process into the group at `path`.
pub(super) fn join(path: &Path) -> Result<(), Failure> {
    let failed = |error| format!("{} is not joined: {error}", path.display());
    // Zero is who writes.
    Ok(std::fs::write(path.join("cgroup.procs"), "0").map_err(failed)?)
}

/// Where groups with a limit of memory can be made, by the table of mounts.
fn hierarchy(mounts: &str) -> Option<(PathBuf, Version)> {
    let mut second = None;
    for line in mounts.lines() {
        let mut words = line.split(' ').skip(1);
        let (place, kind) = (PathBuf::from(words.next()?), words.next()?);
        match kind {
            "cgroup" if words.next()?.split(',').any(|word| word == "memory") => {
                return Some((place, Version::One));
            }
            "cgroup2" => second = Some((place, Version::Two)),
            _ => {}
        }
    }
    second
}

/// Removes groups of runs that are gone. One that has processes stays: only empty ones can go.
fn remove_forgotten(root: &Path) {
    let Ok(entries) = std::fs::read_dir(root) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_version_is_taken_where_it_has_memory() {
        let both = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                    cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n\
                    cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                    cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n";
        let first = (PathBuf::from("/sys/fs/cgroup/memory"), Version::One);
        assert_eq!(hierarchy(both), Some(first));
        let one = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
        assert_eq!(hierarchy(one), Some((PathBuf::from("/sys/fs/cgroup"), Version::Two)));
        assert_eq!(hierarchy("proc /proc proc rw 0 0\n"), None);
    }

    #[test]
    fn the_limit_leaves_room_beside_the_allowance() {
        assert_eq!(limit_for(100 << 20), (100 + 10 + 16) << 20);
    }
}
