//! What the planner knows of the tables of a statement, and which operators it may choose.
//!
//! Does not do: choosing (`lower`, `join`, `path`).

use std::sync::Arc;

use crate::plan::Table;
use crate::settings::planner::Switches;
use crate::statistics::Statistics;

/// What is known about the tables of a statement.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    tables: Vec<(Arc<Table>, Option<Arc<Statistics>>)>,
    /// What the planner may choose.
    switches: Switches,
}

impl Known {
    /// Nothing about tables yet.
    pub(crate) fn with(switches: Switches) -> Known {
        Known { tables: Vec::new(), switches }
    }

    /// Is the table known?
    pub(crate) fn has(&self, table: &Arc<Table>) -> bool {
        self.tables.iter().any(|(known, _)| known.info.id == table.info.id)
    }

    pub(crate) fn add(&mut self, table: &Arc<Table>, statistics: Option<Arc<Statistics>>) {
        self.tables.push((Arc::clone(table), statistics));
    }

    pub(super) fn switches(&self) -> Switches {
        self.switches
    }

    pub(super) fn statistics(&self, table: &Table) -> Option<Arc<Statistics>> {
        let found = self.tables.iter().find(|(known, _)| known.info.id == table.info.id);
        found.and_then(|(_, statistics)| statistics.clone())
    }

    pub(super) fn tables(&self) -> Vec<Arc<Table>> {
        self.tables.iter().map(|(table, _)| Arc::clone(table)).collect()
    }
}
