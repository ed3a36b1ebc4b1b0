//! Output of a script: rows, pages, figures, findings.

use std::fmt::Debug;

use rightlink::{PageInfo, Value, VerifyReport};

/// Items of a page that are printed at most.
const MOST_ITEMS: usize = 12;

/// The values, separated by blanks.
pub(crate) fn row(values: &[Value]) -> String {
    values.iter().map(value).collect::<Vec<_>>().join(" ")
}

fn value(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Int4(number) => number.to_string(),
        Value::Int8(number) => number.to_string(),
        Value::Text(text) => shorten(text),
        other => format!("{other:?}"),
    }
}

/// Letters that are repeated are counted: `abbbbbbbb` is `ab*8`.
fn shorten(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    let runs = letters.chunk_by(|one, next| one == next);
    let run = |run: &[char]| match run.len() {
        count if count >= 8 => format!("{}*{count}", run[0]),
        _ => run.iter().collect(),
    };
    runs.map(run).collect()
}

/// The figures of a report that are not 0.
pub(crate) fn figures(report: &impl Debug) -> String {
    let text = format!("{report:?}");
    let inside = text.split_once("{ ").map_or("", |(_, rest)| rest).trim_end_matches(" }");
    let parts = inside.split(", ").filter(|part| !part.ends_with(": 0"));
    let parts: Vec<String> = parts.map(|part| part.replace('_', " ")).collect();
    if parts.is_empty() { "nothing to do".to_owned() } else { parts.join(", ") }
}

/// What `verify` found.
pub(crate) fn verification(report: &VerifyReport) -> Vec<String> {
    if report.is_clean() {
        return vec!["clean".to_owned()];
    }
    report.findings.iter().map(|finding| format!("{finding:?}")).collect()
}

/// A line for each page, and one for each of its items if there are any.
pub(crate) fn pages(pages: &[PageInfo]) -> Vec<String> {
    pages.iter().flat_map(page).collect()
}

fn page(page: &PageInfo) -> Vec<String> {
    let mut parts = vec![kind(page)];
    if matches!(page.kind, 'l' | 'i' | 'r' | 'h') {
        parts.push(format!("{} items", page.live_items));
        if page.dead_items > 0 {
            parts.push(format!("{} dead", page.dead_items));
        }
        parts.push(format!("{} bytes free", page.free_size));
    }
    parts.extend(page.left.map(|block| format!("left {block}")));
    parts.extend(page.right.map(|block| format!("right {block}")));
    parts.extend(page.high_key.as_deref().map(|key| format!("high key {}", bytes(key))));
    parts.extend(page.root.map(|(block, level)| format!("root {block} at level {level}")));
    let head = format!("block {}: {}", page.block, parts.join(", "));
    let entry = |entry: &rightlink::EntryInfo| {
        let rows = match entry.rows.as_slice() {
            [first, .., last] if entry.rows.len() > 8 => {
                format!(" {first} to {last}, {} rows", entry.rows.len())
            }
            few => few.iter().map(|row| format!(" {row}")).collect::<String>(),
        };
        let child = entry.child.map_or(String::new(), |child| format!(" child {child}"));
        let dead = if entry.dead { " dead" } else { "" };
        format!("  {}{rows}{child}{dead}", bytes(&entry.key))
    };
    let items: Vec<String> = match page.entries.is_empty() {
        true => page.items.iter().map(|item| format!("  {}", without_offset(item))).collect(),
        false => page.entries.iter().map(entry).collect(),
    };
    std::iter::once(head).chain(abridge(items)).collect()
}

/// The first and last of many lines.
fn abridge(mut lines: Vec<String>) -> Vec<String> {
    let hidden = lines.len().saturating_sub(MOST_ITEMS);
    if hidden > 0 {
        let more = format!("  .. {} more ..", hidden + 1);
        lines.splice(MOST_ITEMS - 3..lines.len() - 2, [more]);
    }
    lines
}

fn kind(page: &PageInfo) -> String {
    let flag = |bit: u16, name| if page.flags & bit != 0 { name } else { "" };
    match page.kind {
        'm' => "meta".to_owned(),
        'l' => "leaf".to_owned(),
        'i' => format!("inner, level {}", page.level),
        'r' => format!("root, level {}", page.level),
        'd' => "free".to_owned(),
        'h' => format!("heap{}{}", flag(1, ", all visible"), flag(2, ", all frozen")),
        _ => "never used".to_owned(),
    }
}

/// A key in hexadecimal as text, where it is text; a key of one `int8` as a number.
fn bytes(hex: &str) -> String {
    let byte = |digits: &str| u8::from_str_radix(digits, 16).expect("hexadecimal");
    let bytes: Vec<u8> = hex.split_whitespace().map(byte).collect();
    match <[u8; 9]>::try_from(bytes.as_slice()) {
        _ if bytes.is_empty() => "(lowest)".to_owned(),
        Ok([1, sign @ (0x7f | 0x80), rest @ ..]) => {
            let mut number = [sign ^ 0x80; 8];
            number[1..].copy_from_slice(&rest);
            i64::from_be_bytes(number).to_string()
        }
        _ => shorten(&bytes.escape_ascii().to_string()),
    }
}

/// A line pointer without the offset of its version, which says little.
fn without_offset(item: &str) -> String {
    match item.split_once("offset ").and_then(|(head, rest)| Some((head, rest.split_once(", ")?))) {
        Some((head, (_, rest))) => format!("{head}{rest}"),
        None => item.to_owned(),
    }
}
