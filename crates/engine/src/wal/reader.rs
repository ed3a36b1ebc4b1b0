//! Reads the log from an LSN to its end, and decides where the log ends (R16).
//!
//! At the first broken frame the reader searches the rest, byte by byte, for the header of a frame
//! that states a durable LSN above the hole. If there is one, or the control file states one,
//! acknowledged records are damaged: [`Error::Corruption`], for good. If there is none, the frame
//! was never acknowledged: it is a torn tail, and the log ends there.
//!
//! Invariants: no length is trusted before its checksum; after an error every call returns the same
//! error; a record is returned only from a whole frame.
//! Does not do: make the tail durable (`Wal::open` does); read beside a running writer, except up
//! to a limit that was durable at the start.

use rightlink_aio::Io;
use rightlink_env::Broken;
use rightlink_env::points::broken;
use rightlink_env::{Env, Level};

use super::block::{BLOCK, FRAME_HEADER, HEADER, advance, block_of, content, frame_start};
use super::frame::{FrameHeader, MAGIC, records_sum};
use super::source::LogSource;
use super::{control, record};
use crate::error::{Error, Result};
use crate::ids::Lsn;
use crate::wal::Record;

/// A frame with valid checksums.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameSpan {
    /// Where its header is.
    pub(super) start: u64,
    /// Where its last record ends.
    pub(super) end: u64,
    /// The durable end of the log that it states.
    pub(super) durable: u64,
}

/// Iterates over the records of a log.
pub struct Reader {
    env: Env,
    source: LogSource,
    /// Records that end here or before are skipped.
    from: u64,
    /// Stop here: everything below is durable. `None`: read to the end of the log.
    limit: Option<u64>,
    /// Highest durable LSN stated by the control file or a frame.
    durable: u64,
    /// End of the last whole frame.
    end: u64,
    frame: Option<FrameSpan>,
    /// Records of the frame, and how far they are decoded.
    body: Vec<u8>,
    used: usize,
    dropped: u64,
    state: ReadState,
}

enum ReadState {
    /// Nothing read yet.
    Fresh,
    Reading,
    Ended,
    Failed(Error),
}

impl Reader {
    /// Reads from `from`, the end of some record (such as `Control::redo`), to the end of the log.
    pub fn open(env: &Env, io: &Io, from: Lsn) -> Result<Reader> {
        let stored = control::read(io)?;
        let source = LogSource::new(io, stored.segment_bytes, stored.control.database);
        Ok(Reader::new(env, source, from.0, stored.control.durable.0))
    }

    /// Reads from `from` to `limit`, which is durable: works while the log is being written.
    pub fn open_until(env: &Env, io: &Io, from: Lsn, limit: Lsn) -> Result<Reader> {
        assert!(from <= limit, "a range of the log");
        let mut reader = Reader::open(env, io, from)?;
        reader.limit = Some(limit.0);
        reader.durable = reader.durable.max(limit.0);
        Ok(reader)
    }

    pub(super) fn new(env: &Env, source: LogSource, from: u64, durable: u64) -> Reader {
        Reader {
            env: env.clone(),
            source,
            from,
            limit: None,
            // The caller has `from` from a durable record.
            durable: durable.max(from),
            end: from,
            frame: None,
            body: Vec::new(),
            used: 0,
            dropped: 0,
            state: ReadState::Fresh,
        }
    }

    /// The next record, or nothing at the end of the log.
    #[expect(clippy::should_implement_trait, reason = "fallible, and the error is sticky")]
    pub fn next(&mut self) -> Result<Option<Record>> {
        let result = self.step();
        if let Err(error) = &result {
            self.state = ReadState::Failed(error.clone());
        }
        result
    }

    /// End of the last whole frame: after the last record, the place where the log goes on.
    pub fn end(&self) -> Lsn {
        Lsn(self.end)
    }

    /// At the end: how many bytes behind it were written and never acknowledged.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    fn step(&mut self) -> Result<Option<Record>> {
        loop {
            match &self.state {
                ReadState::Failed(error) => return Err(error.clone()),
                ReadState::Ended => return Ok(None),
                ReadState::Fresh => {
                    self.state = ReadState::Reading;
                    let start = self.locate(self.from)?;
                    self.next_frame(start)?;
                }
                ReadState::Reading if self.used == self.body.len() => self.next_frame(self.end)?,
                ReadState::Reading => {
                    let record = self.next_record()?;
                    if record.end.0 > self.from {
                        return Ok(Some(record));
                    }
                }
            }
        }
    }

    /// Decodes the next record of the frame at hand.
    fn next_record(&mut self) -> Result<Record> {
        let frame = self.frame.expect("there are bytes of a frame to decode");
        let body = frame.start + FRAME_HEADER;
        let start = content(advance(body, self.used as u64));
        let (mut record, len) = record::decode(&self.body[self.used..]).map_err(|what| {
            self.corrupt(start, format!("log record at LSN {}: {what}", Lsn(start)))
        })?;
        self.used += len;
        (record.start, record.end) = (Lsn(start), Lsn(advance(body, self.used as u64)));
        Ok(record)
    }

    /// Goes to the frame that follows `end`, or ends.
    fn next_frame(&mut self, end: u64) -> Result<()> {
        (self.frame, self.used) = (None, 0);
        self.body.clear();
        if self.limit.is_some_and(|limit| end >= limit) {
            self.state = ReadState::Ended;
            return Ok(());
        }
        let start = if end == 0 { frame_start(0) } else { frame_start(end) };
        match self.read_frame(start)? {
            Some(frame) => {
                self.durable = self.durable.max(frame.durable);
                self.end = frame.end;
                self.frame = Some(frame);
                Ok(())
            }
            None => self.finish(end),
        }
    }

    /// The frame at `start`, its records in `body`, if it is whole.
    fn read_frame(&mut self, start: u64) -> Result<Option<FrameSpan>> {
        let database = self.source.database();
        let Some((_, block)) = self.source.block(block_of(start))? else { return Ok(None) };
        let at = (start % BLOCK) as usize;
        let Some(header) = FrameHeader::decode(&block[at..], database, start) else {
            return Ok(None);
        };
        let body = start + FRAME_HEADER;
        let end = advance(body, u64::from(header.len));
        let mut sum = records_sum(database, start);
        let mut at = body;
        while at < end {
            let first = at.is_multiple_of(BLOCK);
            at = content(at);
            let Some((found, block)) = self.source.block(block_of(at))? else { return Ok(None) };
            if first && found.cover != start {
                return Ok(None);
            }
            let stop = (block_of(at) + BLOCK).min(end);
            let piece = &block[(at % BLOCK) as usize..(at % BLOCK + stop - at) as usize];
            sum.update(piece);
            self.body.extend_from_slice(piece);
            at = stop;
        }
        if sum.digest() == header.sum && header.durable <= start {
            return Ok(Some(FrameSpan { start, end, durable: header.durable }));
        }
        self.body.clear();
        Ok(None)
    }

    /// Start of the last frame known to start at or before `lsn`. The reader walks on from there.
    fn locate(&mut self, lsn: u64) -> Result<u64> {
        let at = block_of(lsn);
        let Some((header, _)) = self.source.block(at)? else {
            // At a boundary the block may not have been begun; elsewhere bytes before `lsn` are
            // gone, and the walk from the block's start will say so.
            return Ok(at);
        };
        let first = at + u64::from(header.first_frame);
        Ok(match (header.first_frame, header.cover) {
            (1.., _) if first <= lsn => first,
            (_, 0) => first,
            (_, cover) => cover,
        })
    }

    /// No whole frame follows `end`: decides between a torn tail and damage (R16).
    fn finish(&mut self, end: u64) -> Result<()> {
        self.body.clear();
        if self.durable > end && !broken(Broken::StatedLogEndIgnored) {
            return Err(self.hole(end, self.durable));
        }
        let behind = self.search(end)?;
        if !broken(Broken::LogNotSearchedBehindHole) && behind.durable > end {
            return Err(self.hole(end, behind.durable));
        }
        self.dropped = behind.written.saturating_sub(end);
        if self.dropped > 0 {
            let line =
                format!("log ends at {}, {} unacknowledged bytes dropped", Lsn(end), self.dropped);
            self.env.logger.log(Level::Info, &line);
        }
        // The log goes on at the end of the last frame, or at `from`, not at the padding behind.
        assert!(self.end <= end.max(self.from), "the log ends before the hole");
        self.state = ReadState::Ended;
        Ok(())
    }

    fn hole(&self, at: u64, durable: u64) -> Error {
        let what = format!(
            "the log is damaged at LSN {}, but was durable up to {}",
            Lsn(at),
            Lsn(durable)
        );
        self.corrupt(at, what)
    }

    fn corrupt(&self, lsn: u64, what: String) -> Error {
        let (file, block) = self.source.place(lsn);
        Error::Corruption { relation: None, file, block: Some(block), what }
    }

    /// Searches everything behind `hole` for frames and blocks of this log.
    fn search(&mut self, hole: u64) -> Result<Behind> {
        let mut behind = Behind { durable: 0, written: 0 };
        let (segment, limit) = (self.source.segment_bytes(), self.source.limit()?);
        let mut at = block_of(hole);
        while at < limit {
            if at.is_multiple_of(segment) && at > hole + segment && !self.in_use(at)? {
                at += segment;
                continue;
            }
            self.search_block(at, hole, &mut behind)?;
            at += BLOCK;
        }
        Ok(behind)
    }

    /// Does the segment at `start` hold anything of this log? Then its first blocks do. Many
    /// segments wait to be used again, and a search should not read them all.
    fn in_use(&mut self, start: u64) -> Result<bool> {
        Ok(self.source.block(start)?.is_some() || self.source.block(start + BLOCK)?.is_some())
    }

    fn search_block(&mut self, at: u64, hole: u64, behind: &mut Behind) -> Result<()> {
        let database = self.source.database();
        let ours = self.source.block(at)?.is_some();
        let Some(bytes) = self.source.raw(at)? else { return Ok(()) };
        let from = hole.saturating_sub(at).max(HEADER) as usize;
        if ours {
            // Bytes beyond the sector of the hole may be older than this use of the segment.
            let until = if hole > at { (from + 1).next_multiple_of(4096) } else { bytes.len() };
            if let Some(last) = bytes[from.min(until)..until].iter().rposition(|&byte| byte != 0) {
                behind.written = at + (from + last + 1) as u64;
            }
        }
        for (offset, header) in frames(bytes, from, database, at) {
            behind.durable = behind.durable.max(header.durable);
            behind.written = behind.written.max(at + offset as u64 + FRAME_HEADER);
        }
        Ok(())
    }

    /// The frame that ends at `end`, the end of the log. Its absence is damage.
    pub(super) fn last_frame(mut self, end: u64) -> Result<FrameSpan> {
        assert!(end > 0, "an empty log has no last frame");
        let mut start = self.locate(end - 1)?;
        loop {
            self.body.clear();
            match self.read_frame(frame_start(start))? {
                Some(frame) if frame.end == end => return Ok(frame),
                Some(frame) if frame.end < end => start = frame.end,
                _ => {
                    let what = format!("no log frame ends at LSN {}", Lsn(end));
                    return Err(self.corrupt(end - 1, what));
                }
            }
        }
    }

    /// Copies the bytes `from..to` (whole sectors of valid blocks) into `out`.
    pub(super) fn copy(source: &mut LogSource, from: u64, out: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < out.len() {
            let at = from + done as u64;
            let place = source.place(at);
            let Some(bytes) = source.raw(block_of(at))? else {
                let what = "the end of the log vanished while it was opened".to_string();
                let (file, block) = (place.0, Some(place.1));
                return Err(Error::Corruption { relation: None, file, block, what });
            };
            let bytes = &bytes[(at % BLOCK) as usize..];
            let len = bytes.len().min(out.len() - done);
            out[done..done + len].copy_from_slice(&bytes[..len]);
            done += len;
        }
        Ok(())
    }
}

/// Bytes behind a hole.
struct Behind {
    /// Highest durable LSN that a frame there states.
    durable: u64,
    /// End of the last byte that was written there.
    written: u64,
}

/// Every frame header in the block at `at` from offset `from` on, wherever it starts: one damaged
/// header must not hide the frames behind it.
fn frames(
    bytes: &[u8],
    from: usize,
    database: u64,
    at: u64,
) -> impl Iterator<Item = (usize, FrameHeader)> + '_ {
    let candidates = bytes.windows(MAGIC.len()).enumerate().skip(from);
    let candidates = candidates.filter(|(_, window)| *window == MAGIC);
    candidates.filter_map(move |(offset, _)| {
        let header = FrameHeader::decode(&bytes[offset..], database, at + offset as u64)?;
        Some((offset, header))
    })
}
