//! Storage parameters as catalogs show them.
//!
//! Does not do: reading them (`bind::ddl::storage`).

use rightlink::AutoVacuum;

use super::AnalyzeAfter;

/// Rows that a block is taken to hold.
pub(crate) const ROWS_OF_BLOCK: f64 = 100.0;

/// The parameters of a table that are not the store's usual ones, as catalogs show them.
pub(crate) fn shown(fillfactor: u8, vacuum: AutoVacuum, analyze: AnalyzeAfter) -> Vec<String> {
    let (usual, mut shown) = (AutoVacuum::default(), Vec::new());
    if fillfactor != 100 {
        shown.push(format!("fillfactor={fillfactor}"));
    }
    if vacuum.enabled != usual.enabled {
        shown.push(format!("autovacuum_enabled={}", vacuum.enabled));
    }
    if vacuum.least != usual.least {
        shown.push(format!("autovacuum_vacuum_threshold={}", vacuum.least));
    }
    if vacuum.per_block != usual.per_block {
        let factor = f64::from(vacuum.per_block) / ROWS_OF_BLOCK;
        shown.push(format!("autovacuum_vacuum_scale_factor={factor}"));
    }
    let least = analyze.least.map(|least| format!("autovacuum_analyze_threshold={least}"));
    let factor = analyze.factor.map(|factor| format!("autovacuum_analyze_scale_factor={factor}"));
    shown.extend(least.into_iter().chain(factor));
    shown
}
