//! A process of a cell: which of the four it is, where, and the cell's values.
//!
//! Does not do: anything of its own.

use std::path::Path;

use crate::Failure;
use crate::knobs::Cell;
use crate::load::{GROUP, fill, group, read, reopen};

/// Does what the words say: role, directory, then `name=value` of the cell. In a cell with a
/// control group the process goes there first.
pub(crate) fn run(words: &[String]) -> Result<(), Failure> {
    let [role, dir, values @ ..] = words else {
        return Err("this is for processes that the experiment starts".into());
    };
    let (dir, cell) = (Path::new(dir), Cell::parse(values)?);
    if let Ok(path) = cell.get::<String>(GROUP) {
        group::join(Path::new(&path))?;
    }
    match role.as_str() {
        "fill" => fill::run(&cell, dir),
        "reopen" => reopen::run(&cell, dir),
        "read" => read::single(&cell, dir),
        "batches" => read::batches(&cell, dir),
        role => Err(format!("there is no role {role}").into()),
    }
}
