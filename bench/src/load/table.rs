//! The table of the experiment, its rows, and how the database under it is opened.
//!
//! Invariants: a row is a function of its `id`, so any process knows any key.
//! Does not do: inserting.

use rightlink::{Database, IndexSchema, Options, TableSchema, Type, Value};
use rightlink_env::Rng;

use crate::Failure;
use crate::knobs::Cell;

pub(crate) const TABLE: &str = "t";
pub(crate) const UUIDS: usize = 5;
const PAGE_BYTES: u64 = 8192;
/// The smallest pool that opens.
const MIN_POOL_PAGES: u64 = rightlink::MIN_POOL_PAGES as u64;
const MIN_MEMORY: u64 = 32 << 20;

/// Bytes of a row's values and of its keys in all indexes.
pub(crate) fn row_and_key_bytes(indexes: u32) -> u32 {
    let row = 8 + 16 * UUIDS as u32;
    row + 8 + 16 * indexes
}

/// The table with its first `indexes` uuids indexed.
pub(crate) fn schema(indexes: u32) -> TableSchema {
    assert!(indexes as usize <= UUIDS, "there are five columns to index");
    let mut schema = TableSchema::new(TABLE).column("id", Type::Int8).primary_key(["id"]);
    for column in 0..UUIDS {
        schema = schema.column(format!("u{column}"), Type::Uuid);
    }
    for column in 0..indexes {
        schema = schema.index(IndexSchema::new(format!("t_u{column}")).on(format!("u{column}")));
    }
    schema
}

/// The row called `id`.
pub(crate) fn row(id: u64) -> Vec<Value> {
    let mut values = vec![key(id)];
    values.extend(uuids(id).map(Value::Uuid));
    values
}

/// The uuids of the row called `id`.
pub(crate) fn uuids(id: u64) -> [[u8; 16]; UUIDS] {
    let mut rng = Rng::from_seed(id);
    let mut uuids = [[0; 16]; UUIDS];
    uuids.iter_mut().for_each(|uuid| rng.fill(uuid));
    uuids
}

/// What to say when the row called `id` is missing or another.
pub(crate) fn another(id: u64) -> Failure {
    format!("row {id} is not what was inserted").into()
}

/// The primary key of row `id`.
pub(crate) fn key(id: u64) -> Value {
    Value::Int8(i64::try_from(id).expect("rows are counted in an int8"))
}

/// Bytes that `rows` rows and their index entries will take, roughly.
fn expected_bytes(rows: u64, indexes: u64) -> u64 {
    rows * (140 + 30 + 50 * indexes)
}

/// Bytes of memory for a pool that holds everything.
fn ample_memory(expected: u64) -> u64 {
    (expected * 2).max(MIN_MEMORY)
}

/// Pages of a pool for a tenth.
fn scarce_pages(expected: u64) -> u64 {
    (expected / 10 / PAGE_BYTES).max(MIN_POOL_PAGES)
}

/// Bytes that the data of a cell will take, roughly.
pub(crate) fn expected(cell: &Cell) -> Result<u64, String> {
    Ok(expected_bytes(cell.get("rows")?, cell.get("indexes")?))
}

/// Bytes of memory that a cell allows for everything.
pub(crate) fn memory(cell: &Cell) -> Result<u64, String> {
    let expected = expected(cell)?;
    Ok(match cell.get("fits_memory")? {
        true => ample_memory(expected),
        false => (scarce_pages(expected) * PAGE_BYTES * 4 / 3).max(MIN_MEMORY),
    })
}

/// How the database of a cell is opened: a pool for everything, or direct I/O and a pool for a
/// tenth.
pub(crate) fn options(cell: &Cell) -> Result<Options, String> {
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let mut options = Database::options().memory(size(memory(cell)?));
    let threads = cell.get("threads")?;
    if threads > 0 {
        options = options.insert_threads(threads);
    }
    if cell.get("fits_memory")? {
        return Ok(options);
    }
    Ok(options.direct(true).pool_pages(size(scarce_pages(expected(cell)?))))
}

/// Pages of the pool that [`options`] asks for; about nine tenths of ample memory become pool.
pub(crate) fn pool_pages(cell: &Cell) -> Result<u64, String> {
    let expected = expected(cell)?;
    match cell.get("fits_memory")? {
        true => Ok(ample_memory(expected) / 10 * 8 / PAGE_BYTES),
        false => Ok(scarce_pages(expected)),
    }
}

/// Pages of the table and its indexes.
pub(crate) fn pages(db: &Database) -> rightlink::Result<u64> {
    let info = db.describe(TABLE)?;
    let indexes: u64 = info.indexes.iter().map(|index| u64::from(index.blocks)).sum();
    Ok(u64::from(info.heap_blocks) + indexes)
}
