//! `stat --bloat`: what of each relation is garbage or empty, and how large it would be anew.
//!
//! An estimate from what every page says of itself: the bytes in use, less those of dead items, on
//! pages as full as a new relation has them.
//!
//! Invariants: reads every page of the database once. Does not do: changing anything.

use rightlink::{Database, Error, PageInfo};
use rightlink_sql::shown_text;

use crate::failure::{Exit, Failure};
use crate::figures::count;
use crate::grid::Grid;
use crate::json::{Json, object};
use crate::names;
use crate::output::Output;
use crate::work::Work;

/// Percent of a leaf that building an index fills.
const INDEX_FILL: u64 = 90;

/// A relation, summed up.
#[derive(Default, Debug, PartialEq)]
struct Bloat {
    relation: String,
    blocks: u64,
    /// Pages that hold nothing.
    free: u64,
    live: u64,
    dead: u64,
    /// Percent of the bytes of pages that hold something.
    fill: u64,
    /// Blocks that it would have, built anew.
    anew: u64,
}

impl Bloat {
    /// `fill`: percent of a page that is filled when the relation is built.
    fn of(relation: &str, pages: &[PageInfo], fill: u64) -> Bloat {
        let mut bloat = Bloat { relation: relation.to_owned(), ..Bloat::default() };
        let (mut used, mut size, mut garbage, mut beside) = (0, 0, 0, 0);
        for page in pages {
            bloat.blocks += 1;
            let items = page.live_items + page.dead_items;
            match page.kind {
                'm' | 'n' => beside += 1,
                'd' | '-' => bloat.free += 1,
                // Inner pages name pages; they shrink as those do.
                _ if page.level > 0 => {}
                _ if items == 0 => bloat.free += 1,
                _ => {
                    bloat.live += u64::from(page.live_items);
                    bloat.dead += u64::from(page.dead_items);
                    used += u64::from(page.page_size - page.free_size.min(page.page_size));
                    garbage += u64::from(page.dead_items) * u64::from(page.avg_item_size);
                    size += u64::from(page.page_size);
                }
            }
        }
        bloat.fill = (used * 100).checked_div(size).unwrap_or(0);
        let one = pages.iter().map(|page| u64::from(page.page_size)).max().unwrap_or(0);
        let leaves = (used.saturating_sub(garbage) * 100).checked_div(one * fill).unwrap_or(0);
        bloat.anew = (leaves + 1 + beside).min(bloat.blocks);
        bloat
    }

    /// Percent of its blocks that building it anew would spare.
    fn percent(&self) -> u64 {
        ((self.blocks - self.anew) * 100).checked_div(self.blocks).unwrap_or(0)
    }

    fn json(&self) -> Json {
        object([
            ("relation", self.relation.as_str().into()),
            ("blocks", self.blocks.into()),
            ("free_blocks", self.free.into()),
            ("live", self.live.into()),
            ("dead", self.dead.into()),
            ("fill_percent", self.fill.into()),
            ("blocks_anew", self.anew.into()),
            ("bloat_percent", self.percent().into()),
        ])
    }
}

/// Shows the bloat of every table and index.
pub(crate) fn run(work: &Work<'_>, output: &mut Output) -> Result<Exit, Failure> {
    let db = work.db;
    let mut all = Vec::new();
    for table in names::tables(db)? {
        work.go_on()?;
        all.extend(relation(db, &table.name, u64::from(table.fillfactor))?);
        for index in &table.indexes {
            work.go_on()?;
            all.extend(relation(db, &index.name, INDEX_FILL)?);
        }
    }
    if output.json() {
        all.iter().try_for_each(|bloat| output.line(bloat.json()))?;
        return Ok(Exit::Done);
    }
    let heads = ["relation", ">blocks", ">free", ">live", ">dead", ">fill %", ">anew", ">bloat %"];
    let mut grid = Grid::new(heads);
    for bloat in &all {
        let figures = [bloat.blocks, bloat.free, bloat.live, bloat.dead, bloat.fill, bloat.anew];
        let mut cells = vec![bloat.relation.clone()];
        cells.extend(figures.map(count));
        cells.push(count(bloat.percent()));
        grid.row(cells, output)?;
    }
    grid.finish(output)?;
    Ok(Exit::Done)
}

/// `None`: it was dropped meanwhile.
fn relation(db: &Database, name: &str, fill: u64) -> Result<Option<Bloat>, Failure> {
    match db.inspect(name, None) {
        Err(Error::NotFound(_)) => Ok(None),
        pages => Ok(Some(Bloat::of(&shown_text(name), &pages?, fill))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(live: u32, dead: u32, free: u32) -> PageInfo {
        let (page_size, avg_item_size) = (8192, 16);
        let kind = 'l';
        PageInfo {
            live_items: live,
            dead_items: dead,
            free_size: free,
            page_size,
            avg_item_size,
            kind,
            ..PageInfo::default()
        }
    }

    #[test]
    fn half_empty_pages_are_half_bloat() {
        let meta = PageInfo { kind: 'm', page_size: 8192, ..PageInfo::default() };
        let mut pages = vec![meta];
        pages.extend((0..100).map(|_| leaf(200, 0, 4096)));
        let bloat = Bloat::of("i", &pages, INDEX_FILL);
        assert_eq!((bloat.blocks, bloat.live, bloat.fill), (101, 20_000, 50));
        assert!((43..=45).contains(&bloat.percent()), "{bloat:?}");
    }

    #[test]
    fn dead_items_and_free_pages_count() {
        let deleted = PageInfo { kind: 'd', page_size: 8192, ..PageInfo::default() };
        let pages = [leaf(100, 400, 100), deleted, leaf(100, 400, 100)];
        let bloat = Bloat::of("i", &pages, INDEX_FILL);
        assert_eq!((bloat.free, bloat.dead, bloat.anew), (1, 800, 1));
        assert_eq!(Bloat::of("i", &[], INDEX_FILL).percent(), 0);
    }
}
