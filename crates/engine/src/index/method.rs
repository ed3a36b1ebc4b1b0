//! The list of index methods: the only file that names each of them.
//!
//! Invariants: a method orders its entries by
//! [`IndexMethod::place`] and row id. Ranges of scans, a bulk build and all comparisons with an
//! index use these bytes.
//! Does not do: the work.

use rightlink_env::sync::Arc;

use crate::buffer::BufferPool;
use crate::error::Result;
use crate::ids::FileId;
use crate::index::am::{AccessMethod, IndexBuilder, IndexMethod};
use crate::index::btree::{self, BTree, TreeOptions};
use crate::index::hash::{self, HashIndex, HashOptions};
use crate::page::PageKind;

/// What an index is to be like, whatever its method; none of it is on disk.
#[derive(Clone, Copy, Debug)]
pub struct IndexOptions {
    /// May rows of one key share an item? Never with included columns.
    pub deduplicate: bool,
}

impl IndexMethod {
    /// All methods.
    pub const ALL: [IndexMethod; 2] = [IndexMethod::BTree, IndexMethod::Hash];

    /// The number on disk.
    pub const fn tag(self) -> u8 {
        self as u8
    }

    /// The method of a number read from disk.
    pub fn from_tag(tag: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.tag() == tag)
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            IndexMethod::BTree => "btree",
            IndexMethod::Hash => "hash",
        }
    }

    /// The method called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name().eq_ignore_ascii_case(name))
    }

    /// Does it keep keys in their own order? If not, it finds whole keys only, and no key before or
    /// after another.
    pub const fn is_ordered(self) -> bool {
        matches!(self, IndexMethod::BTree)
    }

    /// Where the entries of an encoded key are in the method's order.
    pub fn place(self, key: &[u8]) -> Vec<u8> {
        match self {
            IndexMethod::BTree => key.to_vec(),
            IndexMethod::Hash => hash::key_position(key),
        }
    }

    /// The key of a place.
    pub fn key_of(self, place: &[u8]) -> Option<&[u8]> {
        match self {
            IndexMethod::BTree => Some(place),
            IndexMethod::Hash => hash::key_of(place),
        }
    }

    /// Kind of the first page of a file.
    pub const fn meta_kind(self) -> PageKind {
        match self {
            IndexMethod::BTree => PageKind::BtreeMeta,
            IndexMethod::Hash => PageKind::HashMeta,
        }
    }

    /// Kinds of the other pages.
    pub const fn page_kinds(self) -> [PageKind; 3] {
        use PageKind::{BtreeFree, BtreeInner, BtreeLeaf, HashBucket, HashDirectory, HashFree};
        match self {
            IndexMethod::BTree => [BtreeLeaf, BtreeInner, BtreeFree],
            IndexMethod::Hash => [HashBucket, HashDirectory, HashFree],
        }
    }

    /// Makes an empty index in `file`, which exists and is empty.
    pub fn create(
        self,
        pool: &Arc<BufferPool>,
        file: FileId,
        options: IndexOptions,
    ) -> Result<Arc<dyn AccessMethod>> {
        Ok(match self {
            IndexMethod::BTree => Arc::new(BTree::create(pool, file, tree_options(options))?),
            IndexMethod::Hash => Arc::new(HashIndex::create(pool, file, HashOptions::default())?),
        })
    }

    /// Opens the index in `file`, which the pool knows.
    pub fn open(
        self,
        pool: &Arc<BufferPool>,
        file: FileId,
        options: IndexOptions,
    ) -> Result<Arc<dyn AccessMethod>> {
        Ok(match self {
            IndexMethod::BTree => Arc::new(BTree::open(pool, file, tree_options(options))?),
            IndexMethod::Hash => Arc::new(HashIndex::open(pool, file, HashOptions::default())?),
        })
    }

    /// A bulk build into `file`, which exists and is empty.
    pub fn builder(
        self,
        pool: &Arc<BufferPool>,
        file: FileId,
        options: IndexOptions,
    ) -> Result<Box<dyn IndexBuilder>> {
        Ok(match self {
            IndexMethod::BTree => {
                Box::new(btree::build::Builder::new(pool, file, tree_options(options))?)
            }
            IndexMethod::Hash => {
                Box::new(hash::build::Builder::new(pool, file, HashOptions::default())?)
            }
        })
    }
}

fn tree_options(IndexOptions { deduplicate }: IndexOptions) -> TreeOptions {
    TreeOptions { deduplicate, ..TreeOptions::default() }
}
