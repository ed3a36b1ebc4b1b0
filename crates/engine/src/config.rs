//! Limits of the store, stated once.
//!
//! Invariants: a limit is enforced before any change is made; on-disk sizes never depend on the
//! machine.
//! Does not do: options of an open database (`db`).

/// Bytes of a page.
pub const PAGE_SIZE: usize = 8192;
/// Version of the format on disk, in every page and in the control file.
pub const FORMAT_VERSION: u8 = 2;
/// Largest encoded index key, row id included: a third of a page less its header.
pub(crate) const MAX_KEY_BYTES: usize = 2704;
/// Largest row, encoded, with its header. Longer values go to overflow pages.
pub(crate) const MAX_ROW_BYTES: usize = 8000;
/// Longest value, in overflow pages.
pub const MAX_VALUE_BYTES: u32 = 1 << 30;
/// Most columns of a table.
pub const MAX_COLUMNS: usize = 1600;
/// Most key columns of an index.
pub(crate) const MAX_KEY_COLUMNS: usize = 32;
/// Longest name of a table, column or index, in bytes.
pub(crate) const MAX_NAME_BYTES: usize = 63;
/// Longest note of a layer above with a table or column, in bytes: a definition is one row of the
/// catalog.
pub(crate) const MAX_NOTE_BYTES: usize = 7 << 10;
/// Smallest buffer pool, in pages.
pub const MIN_POOL_PAGES: usize = 16;
