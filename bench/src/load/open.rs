//! Which engines are built in, and how the one of a cell is opened.
//!
//! Does not do: what engines do (`engine`).

use std::path::Path;

use crate::Failure;
use crate::knobs::Cell;
use crate::load::engine::{Engine, OURS, Role, Setup};
use crate::load::ours::Ours;

/// Opens the engine of `cell` in `dir`; for reads, with nothing of it in the page cache.
pub(crate) fn open(cell: &Cell, dir: &Path, role: Role) -> Result<Box<dyn Engine>, Failure> {
    let name: String = cell.get("engine")?;
    if name == OURS {
        return Ok(Box::new(Ours::open(cell, dir, role)?));
    }
    let setup = Setup::of(cell)?;
    #[cfg(feature = "peers")]
    return crate::load::peers::open(&name, setup, dir, role);
    #[cfg(not(feature = "peers"))]
    Err(format!("{name} with {} indexes is not built in", setup.indexes).into())
}

/// The engines that are built in, ours first.
pub(crate) fn names() -> Vec<&'static str> {
    #[cfg(feature = "peers")]
    return [&[OURS], crate::load::peers::NAMES].concat();
    #[cfg(not(feature = "peers"))]
    vec![OURS]
}
