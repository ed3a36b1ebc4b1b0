//! `inspect`: the pages of a heap or an index, in the columns of pgsql-hackers' page tables.
//!
//! Invariants: one line a page, in the order the engine gives. Does not do: changing anything.

use std::collections::HashSet;

use rightlink::{Database, Error, PageInfo};
use rightlink_sql::shown_text;

use crate::failure::Exit;
use crate::failure::Failure;
use crate::grid::Grid;
use crate::json::{Json, object};
use crate::names;
use crate::output::Output;
use crate::work::Work;

const HEADS: [&str; 13] = [
    ">level",
    ">l_item",
    ">blkno",
    ">left",
    ">right",
    ">flags",
    "type",
    ">live",
    ">dead",
    ">avg_item_size",
    ">page_size",
    ">free_size",
    "highkey",
];

/// Shows the pages of a relation, or one block with its items.
pub(crate) fn run(
    work: &Work<'_>,
    relation: &str,
    block: Option<u32>,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let db = work.db;
    let relation = names::stored(db, relation)?;
    let mut pages = pages(db, &relation, block)?;
    if let (Some(_), [page]) = (block, pages.as_mut_slice()) {
        number(db, &relation, page);
    }
    if output.json() {
        pages.iter().try_for_each(|page| output.line(json(page)))?;
        return Ok(Exit::Done);
    }
    let mut grid = Grid::new(HEADS);
    for page in &pages {
        grid.row(cells(page), output)?;
    }
    grid.finish(output)?;
    let items = pages.iter().flat_map(|page| &page.items);
    if block.is_some() {
        output.line("")?;
    }
    for item in items {
        output.line(format_args!("  {}", crate::grid::one_line(item)))?;
    }
    Ok(Exit::Done)
}

fn pages(db: &Database, relation: &str, block: Option<u32>) -> Result<Vec<PageInfo>, Failure> {
    match db.inspect(relation, block) {
        Err(Error::NotFound(what)) => Err(missing(db, relation, &what)?),
        other => Ok(other?),
    }
}

/// Gives a page of a tree that is shown alone its number within the level, by its left siblings;
/// none where one of them cannot be read.
fn number(db: &Database, relation: &str, page: &mut PageInfo) {
    if !matches!(page.kind, 'l' | 'i' | 'r') {
        return;
    }
    let (mut seen, mut left) = (HashSet::from([page.block]), page.left);
    while let Some(block) = left {
        match db.inspect(relation, Some(block)) {
            Ok(pages) if seen.insert(block) => left = pages.first().and_then(|page| page.left),
            _ => return,
        }
    }
    page.item = seen.len() as u32;
}

/// Lists what can be inspected, unless it is only the block that does not exist.
fn missing(db: &Database, relation: &str, what: &str) -> Result<Failure, Failure> {
    let tables = names::tables(db)?;
    let names = tables.iter().flat_map(|table| {
        let indexes = table.indexes.iter().map(|index| &index.name);
        std::iter::once(&table.name).chain(indexes)
    });
    let names: Vec<String> = names.map(|name| shown_text(name)).collect();
    let wanted = shown_text(relation);
    if names.contains(&wanted) {
        return Ok(Failure::from(Error::NotFound(what.to_owned())));
    }
    Ok(names::unknown("table or index", &wanted, "", names.iter().map(String::as_str)))
}

fn cells(page: &PageInfo) -> Vec<String> {
    let optional = |number: Option<u32>| number.map(|it| it.to_string()).unwrap_or_default();
    vec![
        page.level.to_string(),
        page.item.to_string(),
        page.block.to_string(),
        optional(page.left),
        optional(page.right),
        page.flags.to_string(),
        page.kind.to_string(),
        page.live_items.to_string(),
        page.dead_items.to_string(),
        page.avg_item_size.to_string(),
        page.page_size.to_string(),
        page.free_size.to_string(),
        page.high_key.as_deref().map(spaced).unwrap_or_default(),
    ]
}

/// Hexadecimal digits in pairs, long keys cut.
fn spaced(hex: &str) -> String {
    const SHOWN: usize = 32;
    let digits: Vec<char> = hex.chars().filter(char::is_ascii_hexdigit).collect();
    let pairs: Vec<String> = digits.chunks(2).map(|pair| pair.iter().collect()).collect();
    let dots = if pairs.len() > SHOWN { " ..." } else { "" };
    format!("{}{dots}", pairs[..pairs.len().min(SHOWN)].join(" "))
}

fn json(page: &PageInfo) -> Json {
    let mut fields = object([
        ("level", page.level.into()),
        ("l_item", page.item.into()),
        ("blkno", page.block.into()),
        ("left", page.left.into()),
        ("right", page.right.into()),
        ("flags", page.flags.into()),
        ("type", page.kind.to_string().into()),
        ("live", page.live_items.into()),
        ("dead", page.dead_items.into()),
        ("avg_item_size", page.avg_item_size.into()),
        ("page_size", page.page_size.into()),
        ("free_size", page.free_size.into()),
        ("highkey", page.high_key.clone().into()),
    ]);
    if let (Json::Object(fields), false) = (&mut fields, page.items.is_empty()) {
        fields.push(("items".to_owned(), page.items.clone().into()));
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn high_keys_are_shown_in_bytes() {
        assert_eq!(spaced("11000a"), "11 00 0a");
        assert_eq!(spaced("11 00 0a"), "11 00 0a");
        assert!(spaced(&"00".repeat(40)).ends_with("00 ..."));
    }

    #[test]
    fn a_page_has_a_cell_for_every_head() {
        assert_eq!(cells(&PageInfo::default()).len(), HEADS.len());
    }
}
