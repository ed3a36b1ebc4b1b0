//! Pages of a hash index as bytes.
//!
//! | file | content |
//! |---|---|
//! | `hash_code` | hash codes, positions of entries, numbers of buckets |
//! | `bucket` | a page of entries: layout, reading, searching |
//! | `edit` | images of such pages, and changes in place |
//! | `directory` | a page of the directory |
//! | `meta` | the meta page, free pages |
//!
//! Invariants: bad bytes are damage, never a panic. Every change is checked before the first store.
//! Does not do: latches, pins, the log, the list of pages.

mod bucket;
pub(crate) mod directory;
pub(crate) mod edit;
pub(crate) mod hash_code;
pub(crate) mod meta;

pub(crate) use bucket::{
    Bucket, DEAD, HAS_DEAD, INCOMPLETE, PageMatch, SLOT, is_bucket, match_page,
};
pub(crate) use directory::{BUCKETS_PER_PAGE, DirectoryEntry, MAX_BUCKETS, MAX_PAGES};
pub(crate) use edit::{BucketEntry, BucketHeader};
pub(crate) use hash_code::{
    CODE_BYTES, bit_count, bucket_code, bucket_number, bucket_start, entry_position, hash_code,
    key_position, parent_bucket, separator_code, separator_position, split_code,
};
pub(crate) use meta::{FIRST, Meta};
