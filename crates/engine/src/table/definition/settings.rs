//! Settings of a table that change nothing about its rows.
//!
//! Invariants: plain data; whatever it says is possible.
//! Does not do: acting on it (`db`).

/// Thresholds of the automatic vacuum of a table. It begins when the table has `least` row versions
/// that may be dead, and `per_block` more for each block of its heap.
///
/// ```
/// use rightlink::{AutoVacuum, TableSchema, Type};
/// let often = AutoVacuum { least: 100, per_block: 1, ..AutoVacuum::default() };
/// let schema = TableSchema::new("queue").column("id", Type::Int8).auto_vacuum(often);
/// assert!(schema.auto_vacuum.enabled);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AutoVacuum {
    /// True if the table is vacuumed automatically. Entries of pruned rows leave the indexes in any
    /// case.
    pub enabled: bool,
    /// Fewest dead row versions that start a vacuum. Default 1,000.
    pub least: u32,
    /// Further dead row versions for each block of the heap (8 KiB). Default 10: about a tenth of
    /// the rows.
    pub per_block: u32,
}

impl Default for AutoVacuum {
    fn default() -> Self {
        Self { enabled: true, least: 1000, per_block: 10 }
    }
}

impl AutoVacuum {
    /// Garbage that is enough in a table of so many blocks.
    pub(crate) fn enough(&self, blocks: u32) -> u64 {
        (u64::from(self.least) + u64::from(self.per_block) * u64::from(blocks)).max(1)
    }

    /// Is a table of so many blocks with so much garbage due?
    pub(crate) fn is_due(&self, blocks: u32, garbage: u64) -> bool {
        self.enabled && garbage >= self.enough(blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_due_by_its_own_thresholds() {
        let usual = AutoVacuum::default();
        assert!(!usual.is_due(10, 1099) && usual.is_due(10, 1100));
        let never = AutoVacuum { enabled: false, ..usual };
        assert!(!never.is_due(0, u64::MAX));
        let always = AutoVacuum { least: 0, per_block: 0, enabled: true };
        assert!(always.is_due(u32::MAX, 1) && !always.is_due(0, 0), "never for nothing");
        let most = AutoVacuum { least: u32::MAX, per_block: u32::MAX, enabled: true };
        assert!(!most.is_due(u32::MAX, u64::from(u32::MAX)));
    }
}
