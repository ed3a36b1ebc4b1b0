//! The directory gets an entry for each bucket that a split begins.
//!
//! A bucket begins in two steps, each a log record of its own. A split flags the left page
//! (incomplete split). Then the directory gets the entry, and the flag is cleared. The next writer
//! that meets the flag finishes the split.
//!
//! Invariants: the entry of bucket 0 is never empty. Buckets beyond [`MAX_BUCKETS`] have no entry,
//! and their split is complete at once.
//! Does not do: split pages; remove entries (`vacuum/merge`).

use rightlink_env::points::hit;

use crate::buffer::{Mtr, Pin};
use crate::config::PAGE_SIZE;
use crate::error::Result;
use crate::ids::Xid;
use crate::index::Tries;
use crate::index::hash::page::{
    BUCKETS_PER_PAGE, Bucket, INCOMPLETE, MAX_BUCKETS, bit_count, bucket_number, directory,
    is_bucket, meta,
};
use crate::index::hash::search::directory::BucketStart;
use crate::index::hash::state::Index;
use crate::page::Checked;
use crate::page::header::{self, FLAGS};
use crate::wal::RecordKind;

impl Index {
    /// The directory's page with the entry of `bucket`, pinned. It is made if there is none yet.
    pub(crate) fn directory_page(&self, bucket: u32) -> Result<Pin> {
        let mut tries = Tries::default();
        loop {
            let block = self.directory_block(bucket);
            if block != 0 {
                return self.pin_directory(block);
            }
            self.extend_directory(bucket)?;
            tries.again(&self.pool, self.page(0), "the directory does not grow")?;
        }
    }

    fn extend_directory(&self, bucket: u32) -> Result<()> {
        let chosen = self.choose_free_block()?;
        let mut mtr = Mtr::new(&self.pool);
        let Some(taken) = self.take_block(&mut mtr, chosen)? else {
            drop(mtr);
            rightlink_env::thread::yield_now();
            return Ok(());
        };
        let at = (bucket / BUCKETS_PER_PAGE) as usize;
        let now = meta::parse(mtr.bytes(taken.meta)).map_err(|what| self.corrupt(0, what))?;
        let mut block = now.directory[at];
        if block == 0 {
            block = taken.block;
            mtr.page(taken.page).replace(&directory::image(&[]));
            meta::store_directory(&mut mtr.page(taken.meta), at, block);
            taken.mark_used(&mut mtr);
        }
        mtr.commit(RecordKind::IndexMeta, Xid::NONE)?;
        self.note_directory_block(bucket, block);
        Ok(())
    }

    /// Finishes the split of the page at `block`, if it is incomplete. The caller holds no latch.
    pub(crate) fn finish_split(&self, block: u32) -> Result<()> {
        let damage = |what| self.corrupt(block, what);
        let pin = self.pool.pin(self.page(block))?;
        let incomplete = incomplete_split(pin.shared().bytes()).map_err(damage)?;
        let Some(BucketStart { code, .. }) = incomplete else { return Ok(()) };
        let bucket = bucket_number(code);
        let directory = self.directory_page(bucket)?;
        let meta = self.pool.pin(self.page(0))?;
        let mut mtr = Mtr::new(&self.pool);
        let left = mtr.latch(pin);
        let now = incomplete_split(mtr.bytes(left)).map_err(damage)?;
        let Some(start) = now.filter(|start| start.code == code) else { return Ok(()) };
        assert!(bucket < MAX_BUCKETS, "only such a split is flagged");
        let entries = mtr.latch(directory);
        let depth = bit_count(bucket);
        if depth > self.depth() {
            let meta = mtr.latch(meta);
            let known = meta::parse(mtr.bytes(meta)).map_err(|what| self.corrupt(0, what))?;
            if depth > known.depth {
                meta::store_depth(&mut mtr.page(meta), depth);
            }
        }
        directory::store(&mut mtr.page(entries), bucket, start.block);
        let flags = header::u16_at(mtr.bytes(left), FLAGS) & !INCOMPLETE;
        mtr.page(left).put_u16(FLAGS, flags);
        mtr.commit(RecordKind::IndexFinishSplit, Xid::NONE)?;
        self.note_depth(depth);
        hit("hash.split.finished");
        Ok(())
    }
}

/// The bucket to the right of this page that has no entry in the directory yet.
fn incomplete_split(page: &[u8; PAGE_SIZE]) -> Checked<Option<BucketStart>> {
    if !is_bucket(page) {
        return Ok(None);
    }
    let bucket = Bucket::open(page)?;
    if bucket.flags & INCOMPLETE == 0 {
        return Ok(None);
    }
    let code = bucket.next_bucket().filter(|code| bucket_number(*code) < MAX_BUCKETS);
    let code = code.ok_or("a flag for a bucket that does not begin here")?;
    Ok(Some(BucketStart { code, block: bucket.right }))
}
