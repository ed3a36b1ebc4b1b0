//! Takes documents and doc comments apart into paragraphs and lines.
//!
//! A paragraph is a run of lines of prose, or one item of a list. Headings, tables, code blocks,
//! HTML and definitions of links are not prose. A word holds a letter or a digit. The width of a
//! line is what a reader sees of it: targets of links and URLs do not count.

use crate::source::Source;

/// The longest paragraph, in words.
pub(crate) const PARAGRAPH_WORDS: usize = 80;

/// The widest line, in columns.
pub(crate) const COLUMNS: usize = 100;

/// The longest module head, in lines.
pub(crate) const HEAD_LINES: usize = 25;

/// A paragraph: where it begins and how long it is.
#[derive(Debug, PartialEq)]
pub(crate) struct Paragraph {
    pub(crate) line: usize,
    pub(crate) words: usize,
}

/// A run of `///` or `//!` lines, without these marks.
pub(crate) struct DocComment {
    /// The line of its first line.
    pub(crate) line: usize,
    pub(crate) lines: usize,
    pub(crate) text: String,
    /// Is it the head of the file?
    pub(crate) is_head: bool,
}

/// What one line of a document is.
#[derive(Clone, Copy, PartialEq)]
enum Kind<'a> {
    /// The next line of a paragraph.
    Prose(&'a str),
    /// The first line of an item of a list.
    Item(&'a str),
    /// Blank, or a heading: ends a paragraph.
    Break,
    /// Table, code, HTML or a link's definition: ends a paragraph, and may be wide.
    Aside,
}

/// The paragraphs of a document.
pub(crate) fn paragraphs(text: &str) -> Vec<Paragraph> {
    let mut found: Vec<Paragraph> = Vec::new();
    let mut open = false;
    for (i, kind) in kinds(text).into_iter().enumerate() {
        match kind {
            Kind::Prose(prose) if open => {
                let last = found.last_mut().expect("a paragraph is open");
                last.words += words(prose);
            }
            Kind::Prose(prose) | Kind::Item(prose) => {
                found.push(Paragraph { line: i + 1, words: words(prose) });
                open = true;
            }
            Kind::Break | Kind::Aside => open = false,
        }
    }
    found
}

/// Lines of a document that are wider than `COLUMNS`, with their width.
pub(crate) fn wide_lines(text: &str) -> Vec<(usize, usize)> {
    let kinds = kinds(text);
    let lines = text.lines().zip(kinds).enumerate().filter(|(_, (_, kind))| *kind != Kind::Aside);
    let widths = lines.map(|(i, (line, _))| (i + 1, shown_width(line)));
    widths.filter(|(_, width)| *width > COLUMNS).collect()
}

/// Inline code of a document, with its lines; code blocks are left out.
pub(crate) fn inline_code(text: &str) -> Vec<(usize, &str)> {
    let lines = text.lines().zip(fenced(text)).enumerate().filter(|(_, (_, fenced))| !fenced);
    lines
        .flat_map(|(i, (line, _))| {
            line.split('`').skip(1).step_by(2).map(move |code| (i + 1, code))
        })
        .collect()
}

/// The doc comments of a Rust file.
pub(crate) fn doc_comments(source: &Source) -> Vec<DocComment> {
    let mut found: Vec<DocComment> = Vec::new();
    let mut mark = "";
    for (i, line) in source.mask.comments.lines().enumerate() {
        let line = line.trim();
        let here = ["//!", "///"].into_iter().find(|mark| line.starts_with(mark)).unwrap_or("");
        if here.is_empty() || line.starts_with("////") {
            mark = "";
            continue;
        }
        if here != mark {
            let is_head = i == 0 && here == "//!";
            found.push(DocComment { line: i + 1, lines: 0, text: String::new(), is_head });
        }
        mark = here;
        let run = found.last_mut().expect("a run is open");
        run.lines += 1;
        run.text.push_str(line[here.len()..].strip_prefix(' ').unwrap_or(&line[here.len()..]));
        run.text.push('\n');
    }
    found
}

fn words(prose: &str) -> usize {
    prose.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

/// Does each line belong to a fenced code block?
fn fenced(text: &str) -> Vec<bool> {
    let mut inside = false;
    let belongs = |line: &str| {
        let line = line.trim_start();
        let fence = line.starts_with("```") || line.starts_with("~~~");
        inside ^= fence;
        inside || fence
    };
    text.lines().map(belongs).collect()
}

/// The kind of each line.
fn kinds(text: &str) -> Vec<Kind<'_>> {
    let mut found: Vec<Kind> = Vec::new();
    let mut in_list = false;
    for (line, fenced) in text.lines().zip(fenced(text)) {
        let trimmed = line.trim();
        let indented = line.starts_with("    ") || line.starts_with('\t');
        let follows_prose = matches!(found.last(), Some(Kind::Prose(_) | Kind::Item(_)));
        let is_code = indented && !follows_prose && !in_list && !trimmed.is_empty();
        let kind = if fenced || is_code { Kind::Aside } else { unfenced(trimmed) };
        match kind {
            Kind::Item(_) => in_list = true,
            Kind::Prose(_) if !follows_prose => in_list &= line.starts_with(' '),
            _ => {}
        }
        found.push(kind);
    }
    assert_eq!(found.len(), text.lines().count());
    found
}

/// The kind of a trimmed line outside of code blocks.
fn unfenced(line: &str) -> Kind<'_> {
    let line = line.trim_start_matches("> ");
    let is_rule = line.len() > 2 && line.chars().all(|c| matches!(c, '-' | '*' | '_' | '='));
    if line.is_empty() || line == ">" || line.starts_with('#') || is_rule {
        Kind::Break
    } else if line.starts_with(['|', '<']) || (line.starts_with('[') && line.contains("]: ")) {
        Kind::Aside
    } else {
        item(line).map_or(Kind::Prose(line), Kind::Item)
    }
}

/// The text of an item of a list.
fn item(line: &str) -> Option<&str> {
    let digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
    if digits.len() < line.len() {
        return digits.strip_prefix(". ").or_else(|| digits.strip_prefix(") "));
    }
    ["- ", "* ", "+ "].into_iter().find_map(|mark| line.strip_prefix(mark))
}

/// Columns of a line without the targets of its links and without URLs.
fn shown_width(line: &str) -> usize {
    let mut width = 0;
    let mut rest = line;
    while let Some(at) = rest.find("](") {
        width += rest[..at].chars().count();
        let end = rest[at..].find(')').map_or(rest.len(), |end| at + end);
        rest = &rest[end..];
    }
    width += rest.chars().count();
    let urls = rest.split_whitespace().filter(|word| word.contains("://"));
    width - urls.map(|url| url.chars().count()).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::{Paragraph, doc_comments, paragraphs, wide_lines};
    use crate::source::Source;

    fn found(text: &str) -> Vec<(usize, usize)> {
        paragraphs(text).iter().map(|Paragraph { line, words }| (*line, *words)).collect()
    }

    #[test]
    fn paragraphs_end_at_blanks_headings_and_items() {
        let text = "# Head of all\none two\nthree\n\n- four five\n  six\n- seven\n\n  eight\n\
            1. nine — ten\n\n> eleven\n> twelve\n---\nlast\n";
        let expected = [(2, 3), (5, 3), (7, 1), (9, 1), (10, 2), (12, 2), (15, 1)];
        assert_eq!(found(text), expected);
    }

    #[test]
    fn tables_code_and_html_are_no_prose() {
        let text = "one\n| a | b |\n\n```text\nno prose\n- none\n```\n\n    code here\n\n\
            <img src=\"x\">\n[a]: https://example.org\ntwo three\n";
        assert_eq!(found(text), [(1, 1), (13, 2)]);
        assert_eq!(found("- a\n\n    b c\n\nd\n\n    code\n"), [(1, 1), (3, 2), (5, 1)]);
    }

    #[test]
    fn wide_lines_are_those_that_a_reader_sees() {
        let wide = "word ".repeat(21);
        let asides = format!("| {wide} |\n```\n{wide}\n```\n\n    {wide}\n");
        assert_eq!(wide_lines(&asides), []);
        let link = format!("A [link](https://example.org/{}) and a URL", "x".repeat(90));
        let url = format!("see https://example.org/{}", "x".repeat(90));
        assert_eq!(wide_lines(&format!("{link}\n{url}\n\n{wide}\n# {wide}")), [(4, 105), (5, 107)]);
        assert_eq!(wide_lines(&"ä".repeat(100)), []);
    }

    #[test]
    fn doc_comments_are_runs_of_one_mark() {
        let text = "//! Head.\n//!\n//! More.\n\n/// One\n/// two.\nfn f() {\n    // none\n    \
            let s = \"/// no\";\n}\n//// no\n/// Three.\nfn g() {}\n";
        let source = Source::new("a/src/x.rs", text);
        let runs: Vec<_> = doc_comments(&source)
            .into_iter()
            .map(|d| (d.line, d.lines, d.text, d.is_head))
            .collect();
        let expected = [
            (1, 3, "Head.\n\nMore.\n".to_string(), true),
            (5, 2, "One\ntwo.\n".to_string(), false),
            (12, 1, "Three.\n".to_string(), false),
        ];
        assert_eq!(runs, expected);
    }
}
