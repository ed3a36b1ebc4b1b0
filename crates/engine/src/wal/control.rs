//! The control file `control`: where recovery starts. Two copies of a sector are written in turn,
//! so that a torn write never loses both.
//!
//! Invariants:
//! - A copy is overwritten only while the other one is durable (R17). The valid copy with the
//!   higher generation counts.
//! - Magic, version and checksum keep their places in every version, so that a file of another
//!   version is told from a damaged one.
//! - The file is created under another name and renamed when both copies are durable (R18).
//!
//! Does not do: keep the log that it points to.

use rightlink_aio::{AlignedBuf, DeviceFigures, File, Io, IoError, OpenMode};
use rightlink_env::Broken;
use rightlink_env::points::{broken, hit};
use xxhash_rust::xxh3::xxh3_64;

use super::block::{BLOCK, SECTOR};
use super::{Control, RedoSpeed};
use crate::config::{FORMAT_VERSION, PAGE_SIZE};
use crate::error::{Error, Result};
use crate::ids::{Lsn, Xid};

/// Name of the control file.
pub(super) const FILE: &str = "control";
/// A control file in the making.
pub(crate) const UNFINISHED: &str = "control.new";
const MAGIC: [u8; 8] = *b"RLcontrl";
const COPY: usize = SECTOR as usize;
const SUM: usize = COPY - 8;

/// A copy of the control file, 4 KiB on disk. Integers are little-endian:
///
/// | offset | bytes | field |
/// |---|---|---|
/// | 0 | 8 | magic |
/// | 8 | 4 | format version |
/// | 12 | 4 | page size |
/// | 16 | 8 | generation: the valid copy with the higher one counts |
/// | 24 | 8 | database id |
/// | 32 | 8 | redo LSN |
/// | 40 | 8 | next xid |
/// | 48 | 4 | next file |
/// | 52 | 4 | 1 if closed cleanly |
/// | 56 | 8 | durable LSN |
/// | 64 | 8 | bytes of a log segment |
/// | 72 | 8 | measured redo: bytes of log per second, 0 if unknown |
/// | 80 | 8 | measured redo: pages per second, 0 if unknown |
/// | 88 | 4 | reads that the device serves at once, 0 if unknown |
/// | 92 | 4 | blocks a second that it reads anywhere, 0 if unknown |
/// | 96 | 8 | stamp of the newest pages of outcomes at a clean close, 0 if unknown |
/// | 104 | 8 | oldest xid whose outcome is kept |
/// | 112 | 4 | blocks a second that it reads in order, 0 if unknown |
/// | 4088 | 8 | checksum of everything before |
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    /// The fields that the caller of the log gives.
    pub(super) control: Control,
    /// Bytes of a segment, fixed when the log was created.
    pub(super) segment_bytes: u64,
    /// Counts the writes.
    pub(super) generation: u64,
}

enum Copy {
    Good(Stored),
    Other(u32),
    Bad(&'static str),
}

fn encode(stored: &Stored, out: &mut [u8]) {
    assert_eq!(out.len(), COPY, "a copy is one sector");
    let control = &stored.control;
    out.fill(0);
    out[..8].copy_from_slice(&MAGIC);
    out[8..12].copy_from_slice(&u32::from(FORMAT_VERSION).to_le_bytes());
    out[12..16].copy_from_slice(&(PAGE_SIZE as u32).to_le_bytes());
    out[48..52].copy_from_slice(&control.next_file.to_le_bytes());
    out[52..56].copy_from_slice(&u32::from(control.clean).to_le_bytes());
    let device = &control.device;
    for (at, half) in
        [(88, device.depth), (92, device.scattered_per_s), (112, device.in_order_per_s)]
    {
        out[at..at + 4].copy_from_slice(&half.to_le_bytes());
    }
    let words = [
        (16, stored.generation),
        (24, control.database),
        (32, control.redo.0),
        (40, control.next_xid.0),
        (56, control.durable.0),
        (64, stored.segment_bytes),
        (72, control.redo_speed.bytes_per_s),
        (80, control.redo_speed.pages_per_s),
        (96, control.outcomes),
        (104, control.oldest_xid.0),
    ];
    for (at, word) in words {
        out[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    let sum = xxh3_64(&out[..SUM]);
    out[SUM..].copy_from_slice(&sum.to_le_bytes());
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn half(bytes: &[u8], at: usize) -> u32 {
    (word(bytes, at) & u64::from(u32::MAX)) as u32
}

fn decode(bytes: &[u8]) -> Copy {
    assert_eq!(bytes.len(), COPY, "a copy is one sector");
    if bytes[..8] != MAGIC {
        return Copy::Bad("no magic");
    }
    if xxh3_64(&bytes[..SUM]) != word(bytes, SUM) {
        return Copy::Bad("wrong checksum");
    }
    match half(bytes, 8) {
        0 => Copy::Bad("version 0"),
        version if version != u32::from(FORMAT_VERSION) => Copy::Other(version),
        _ => decode_fields(bytes),
    }
}

fn decode_fields(bytes: &[u8]) -> Copy {
    let control = Control {
        database: word(bytes, 24),
        redo: Lsn(word(bytes, 32)),
        next_xid: Xid(word(bytes, 40)),
        next_file: half(bytes, 48),
        durable: Lsn(word(bytes, 56)),
        clean: half(bytes, 52) == 1,
        redo_speed: RedoSpeed { bytes_per_s: word(bytes, 72), pages_per_s: word(bytes, 80) },
        device: DeviceFigures {
            depth: half(bytes, 88),
            scattered_per_s: half(bytes, 92),
            in_order_per_s: half(bytes, 112),
        },
        outcomes: word(bytes, 96),
        oldest_xid: Xid(word(bytes, 104)),
    };
    let (generation, segment_bytes) = (word(bytes, 16), word(bytes, 64));
    if half(bytes, 12) != PAGE_SIZE as u32 {
        return Copy::Bad("another page size");
    }
    if segment_bytes < 8 * BLOCK || !segment_bytes.is_multiple_of(BLOCK) {
        return Copy::Bad("impossible segment size");
    }
    if control.redo > control.durable {
        return Copy::Bad("redo lies beyond the durable log");
    }
    Copy::Good(Stored { control, segment_bytes, generation })
}

/// Both copies, zeroes where the file is shorter.
fn read_copies(io: &Io) -> Result<AlignedBuf> {
    let file = io.open_file(FILE, OpenMode::ReadOnly).map_err(Error::Io)?;
    let mut bytes = AlignedBuf::zeroed(2 * COPY);
    let len = file.read_at(&mut bytes, 0).map_err(Error::Io)?;
    bytes[len..].fill(0);
    Ok(bytes)
}

/// Reads both copies and returns the one that counts.
pub(super) fn read(io: &Io) -> Result<Stored> {
    let bytes = read_copies(io)?;
    let mut best: Option<Stored> = None;
    let mut faults = Vec::new();
    for copy in bytes.chunks(COPY) {
        match decode(copy) {
            Copy::Good(stored)
                if best.as_ref().is_none_or(|b| b.generation < stored.generation) =>
            {
                best = Some(stored);
            }
            Copy::Good(_) => {}
            Copy::Other(version) => return Err(refused(version)),
            Copy::Bad(what) => faults.push(what),
        }
    }
    let damaged =
        || Error::corrupt_file(FILE, format!("both copies are damaged: {}", faults.join(", ")));
    best.ok_or_else(damaged)
}

/// Which copies (0 and 1) are damaged, and how.
pub(super) fn faults(io: &Io) -> Result<Vec<(u32, &'static str)>> {
    let bytes = read_copies(io)?;
    let fault = |(number, copy)| match decode(copy) {
        Copy::Bad(what) => Some((number, what)),
        Copy::Good(_) | Copy::Other(_) => None,
    };
    Ok((0..).zip(bytes.chunks(COPY)).filter_map(fault).collect())
}

/// Why a sound database of another version is not opened, and how its rows can be had all the same.
fn refused(version: u32) -> Error {
    let has = format!(
        "the database has format version {version}, and this program reads version \
         {FORMAT_VERSION} only"
    );
    Error::Invalid(match version < u32::from(FORMAT_VERSION) {
        true => format!(
            "{has}: write each table to a file with the program that made the database \
             (`rightlink export`), and load the files into a new database with this one \
             (`rightlink load`); what a table has beside columns, keys and indexes must be \
             created there by SQL before"
        ),
        false => format!("{has}: open it with the program that made it"),
    })
}

/// The control file, open for writing.
pub(super) struct ControlFile {
    file: File,
    stored: Stored,
}

impl ControlFile {
    /// Creates the file with both copies, durably: it exists whole or not at all (R18).
    pub(super) fn create(io: &Io, control: &Control, segment_bytes: u64) -> Result<ControlFile> {
        if io.exists(FILE).map_err(Error::Io)? {
            return Err(Error::AlreadyExists("there is a database already".to_string()));
        }
        let file = io.open_file(UNFINISHED, OpenMode::Create).map_err(Error::Io)?;
        let stored = Stored { control: control.clone(), segment_bytes, generation: 0 };
        let mut this = ControlFile { file, stored };
        this.write(control).and_then(|()| this.write(control)).map_err(Error::Io)?;
        this.file.sync_all().map_err(Error::Io)?;
        io.rename(UNFINISHED, FILE).map_err(Error::Io)?;
        io.sync_dir("").map_err(Error::Io)?;
        Ok(this)
    }

    /// Opens the file, and writes the newer copy once more. After a failed sync that copy may be in
    /// the page cache only, and the other one is overwritten next (R17).
    pub(super) fn open(io: &Io) -> Result<ControlFile> {
        let stored = read(io)?;
        let file = io.open_file(FILE, OpenMode::Existing).map_err(Error::Io)?;
        let this = ControlFile { file, stored };
        if !broken(Broken::ControlCopyNotSynced) {
            this.put().map_err(Error::Io)?;
        }
        Ok(this)
    }

    /// The copy that was written last.
    pub(super) fn stored(&self) -> &Stored {
        &self.stored
    }

    /// Writes `control` over the older copy, durably. After an error the state on disk is unknown.
    pub(super) fn write(&mut self, control: &Control) -> std::result::Result<(), IoError> {
        assert_eq!(control.database, self.stored.control.database, "one database");
        assert!(control.redo <= control.durable, "redo starts in the durable log");
        self.stored.control = control.clone();
        self.stored.generation += 1;
        self.put()
    }

    /// Writes and syncs the copy of this generation; the other copy is durable (R17).
    fn put(&self) -> std::result::Result<(), IoError> {
        let mut copy = AlignedBuf::zeroed(COPY);
        encode(&self.stored, &mut copy);
        let turn = if broken(Broken::OneControlCopy) { 0 } else { self.stored.generation % 2 };
        let at = turn * SECTOR;
        self.file.write_all_at(&copy, at)?;
        hit("wal.control.before-sync");
        if broken(Broken::ControlFileNotSynced) {
            return Ok(());
        }
        self.file.sync_data()
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use rightlink_aio::{IoOptions, Method, SimDisk};
    use rightlink_env::Env;

    fn stored() -> Stored {
        let (redo, next_xid, oldest_xid, durable) = (Lsn(5), Xid(6), Xid(4), Lsn(9));
        let redo_speed = RedoSpeed { bytes_per_s: 11, pages_per_s: 12 };
        let control = Control {
            database: 3,
            redo,
            next_xid,
            oldest_xid,
            next_file: 70,
            durable,
            clean: true,
            redo_speed,
            device: DeviceFigures { depth: 13, scattered_per_s: 14, in_order_per_s: 15 },
            outcomes: 0x1122_3344_5566_7788,
        };
        Stored { control, segment_bytes: 8 * BLOCK, generation: 4 }
    }

    #[test]
    fn a_copy_comes_back_and_a_flipped_bit_does_not_pass() {
        let mut bytes = [0; COPY];
        encode(&stored(), &mut bytes);
        assert!(matches!(decode(&bytes), Copy::Good(found) if found == stored()));
        for at in 0..COPY {
            bytes[at] ^= 1;
            assert!(matches!(decode(&bytes), Copy::Bad(_)), "byte {at}");
            bytes[at] ^= 1;
        }
    }

    /// A sound file of another version is refused by name of both versions, not called damaged. One
    /// of an older version is not read as if it were of this one.
    #[test]
    fn another_version_is_named() {
        for (version, said) in [(77u32, "program that made it"), (1, "`rightlink export`")] {
            let text = refusal_of(version);
            assert!(text.contains(&format!("version {version}, ")), "{text}");
            assert!(text.contains("version 2 only") && text.contains(said), "{text}");
        }
    }

    /// What is said of a database of version `version`.
    fn refusal_of(version: u32) -> String {
        let io_options = IoOptions::with_method(Method::Sync);
        let io = Io::simulated(&Env::simulated(1), SimDisk::new(1), io_options).unwrap();
        ControlFile::create(&io, &Control { redo: Lsn(0), ..stored().control }, 8 * BLOCK).unwrap();
        let mut bytes = [0; COPY];
        encode(&stored(), &mut bytes);
        bytes[8..12].copy_from_slice(&version.to_le_bytes());
        let sum = xxh3_64(&bytes[..SUM]);
        bytes[SUM..].copy_from_slice(&sum.to_le_bytes());
        let file = io.open_file(FILE, OpenMode::Existing).unwrap();
        file.write_all_at(&bytes, SECTOR).unwrap();
        let error = read(&io).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)));
        error.to_string()
    }
}
