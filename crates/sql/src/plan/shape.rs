//! Rows narrowed to the columns that are used, so that a scan reads no others.
//!
//! Invariants: done once more, it changes nothing.
//! Does not do: choosing an index.

use crate::expr::Expr;
use crate::plan::TableScan;

/// Keeps the columns that the scan's filter and `users` name, and renumbers them there.
pub(crate) fn narrow_scan(scan: &mut TableScan, users: &mut [&mut Expr]) {
    let width = scan.columns.len();
    let mut used = vec![false; width + 1];
    let mut note = |expr: &Expr| {
        if let Expr::Column(at) = expr {
            used[*at] = true;
        }
    };
    let asked = scan.asked.iter().flatten();
    scan.filter.iter().chain(asked).for_each(|filter| filter.walk(&mut note));
    users.iter().for_each(|user| user.walk(&mut note));
    let mut places = vec![usize::MAX; width + 1];
    let mut kept = Vec::new();
    for at in (0..width).filter(|at| used[*at]) {
        places[at] = kept.len();
        kept.push(scan.columns[at]);
    }
    // The row's place stands after the columns.
    places[width] = kept.len();
    assert!(scan.with_tid || !used[width], "only a scan with ctid has a place for it");
    scan.with_tid = used[width];
    scan.columns = kept;
    let mut renumber = |expr: &mut Expr| {
        if let Expr::Column(at) = expr {
            *at = places[*at];
        }
        true
    };
    let asked = scan.asked.iter_mut().flatten();
    scan.filter.iter_mut().chain(asked).for_each(|filter| filter.change(&mut renumber));
    users.iter_mut().for_each(|user| user.change(&mut renumber));
}
