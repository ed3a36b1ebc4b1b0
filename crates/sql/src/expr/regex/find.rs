//! Where a pattern matches a text, and what its groups hold, by PostgreSQL's rules.
//!
//! The crate `regex` prefers the alternative that stands first, as Perl does. In PostgreSQL a match
//! is the longest one at the first place where there is one, or the shortest, if the first thing
//! that the pattern repeats is to be repeated rarely.
//!
//! A match is then taken apart, as in `regexec.c`: of two parts that follow each other the first
//! gets as much as it prefers. Both ways agree where nothing can match in two ways ([`is_plain`]),
//! and there the answer of `regex` is taken.
//!
//! Invariants: only parts with groups are taken apart; memory for their programs is bounded.
//! Does not do: back-references.

use regex::Regex;
use regex_automata::nfa::thompson::pikevm::{Cache, PikeVM};
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind};
use regex_syntax::ast::parse::ParserBuilder;
use regex_syntax::ast::{Ast, GroupKind, Repetition, RepetitionKind, RepetitionRange};

use crate::error::Result;
use crate::expr::Context;

use super::translate::Source;
use super::{invalid, too_complex};

/// Deepest nesting of a pattern.
pub(super) const MAX_DEPTH: u32 = 200;
/// Most bytes that the programs of a pattern's parts take.
const MAX_PARTS: usize = 8 << 20;

/// Bytes of a text, from the first to the one behind the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
}

/// A match: its own span, and those of the groups that took part.
pub(super) struct Found {
    pub(super) whole: Span,
    pub(super) groups: Vec<Option<Span>>,
}

/// A pattern that says where texts match it.
#[derive(Debug)]
pub(super) struct Finder {
    /// Finds where a match begins.
    regex: Regex,
    /// The pattern and its parts; `None` if the crate finds the same match.
    parts: Option<Parts>,
}

/// A pattern in parts; the last one is the whole.
#[derive(Debug, Default)]
struct Parts {
    all: Vec<Part>,
    bytes: usize,
}

/// A part of a pattern.
#[derive(Debug)]
struct Part {
    /// Matches it as long or short as it can.
    program: PikeVM,
    prefers_short: bool,
    shape: Shape,
}

/// What a part is made of, as far as that has groups.
#[derive(Debug)]
enum Shape {
    /// It has no groups.
    Plain,
    /// What follows each other: the first one and the rest.
    Pair(usize, usize),
    AnyOf(Vec<usize>),
    /// Any number of times up to `most`.
    Repeated {
        of: usize,
        most: usize,
    },
    Group {
        of: usize,
        number: usize,
    },
}

impl Finder {
    pub(super) fn new(regex: Regex, source: &Source) -> Result<Finder> {
        let parsed = ParserBuilder::new().nest_limit(MAX_DEPTH).build().parse(&source.text);
        let ast = parsed.map_err(|_| invalid("quantifier operand invalid"))?;
        if is_plain(&ast) {
            return Ok(Finder { regex, parts: None });
        }
        let mut parts = Parts::default();
        parts.add(&ast, source)?;
        Ok(Finder { regex, parts: Some(parts) })
    }

    /// What programs of its parts take.
    pub(super) fn bytes(&self) -> usize {
        self.parts.as_ref().map_or(0, |parts| parts.bytes)
    }

    /// Groups in the pattern.
    pub(super) fn groups(&self) -> usize {
        self.regex.captures_len() - 1
    }

    /// The first match that begins at `from` or later.
    pub(super) fn find(&self, text: &str, from: usize, context: &Context) -> Result<Option<Found>> {
        context.spend(1)?;
        let Some(parts) = &self.parts else {
            let Some(captures) = self.regex.captures_at(text, from) else { return Ok(None) };
            let span = |number: usize| {
                captures.get(number).map(|one| Span { start: one.start(), end: one.end() })
            };
            let whole = span(0).expect("a match has a span");
            let groups = (1..captures.len()).map(span).collect();
            return Ok(Some(Found { whole, groups }));
        };
        let Some(first) = self.regex.find_at(text, from) else { return Ok(None) };
        let groups = vec![None; self.groups()];
        let caches = parts.all.iter().map(|_| None).collect();
        let mut search = Search { parts, text, context, caches, groups };
        let root = parts.all.len() - 1;
        let within = Span { start: first.start(), end: text.len() };
        let end = search.preferred(root, within)?.expect("a match begins there");
        let whole = Span { end, ..within };
        search.take_apart(root, whole)?;
        Ok(Some(Found { whole, groups: search.groups }))
    }
}

/// Is there one way at most to match a text from its start? So it is if at most one thing is
/// repeated and nothing is a choice.
fn is_plain(ast: &Ast) -> bool {
    repetitions(ast).is_some_and(|count| count <= 1)
}

/// How often something is repeated; `None` if there is a choice.
fn repetitions(ast: &Ast) -> Option<usize> {
    match ast {
        Ast::Alternation(_) => None,
        Ast::Concat(list) => list.asts.iter().map(repetitions).sum(),
        Ast::Group(group) => repetitions(&group.ast),
        Ast::Repetition(one) => Some(repetitions(&one.ast)? + 1),
        _ => Some(0),
    }
}

/// Does a part prefer to be short? `None` if it has no preference.
fn prefers_short(ast: &Ast) -> Option<bool> {
    match ast {
        Ast::Alternation(_) => Some(false),
        Ast::Concat(list) => list.asts.iter().find_map(prefers_short),
        Ast::Group(group) => prefers_short(&group.ast),
        Ast::Repetition(one) => match &one.op.kind {
            RepetitionKind::Range(RepetitionRange::Exactly(_)) => prefers_short(&one.ast),
            _ => Some(!one.greedy),
        },
        _ => None,
    }
}

fn has_groups(ast: &Ast) -> bool {
    match ast {
        Ast::Alternation(list) => list.asts.iter().any(has_groups),
        Ast::Concat(list) => list.asts.iter().any(has_groups),
        Ast::Group(group) => {
            matches!(group.kind, GroupKind::CaptureIndex(_)) || has_groups(&group.ast)
        }
        Ast::Repetition(one) => has_groups(&one.ast),
        _ => false,
    }
}

impl Parts {
    /// Adds a part behind the parts of it, and says where it is.
    fn add(&mut self, ast: &Ast, source: &Source) -> Result<usize> {
        let shape = match ast {
            _ if !has_groups(ast) => Shape::Plain,
            Ast::Concat(list) => return self.add_sequence(&list.asts, source),
            Ast::Alternation(list) => {
                let parts = list.asts.iter().map(|one| self.add(one, source));
                Shape::AnyOf(parts.collect::<Result<_>>()?)
            }
            Ast::Group(group) => {
                let of = self.add(&group.ast, source)?;
                match group.kind {
                    GroupKind::CaptureIndex(number) => Shape::Group { of, number: number as usize },
                    _ => return Ok(of),
                }
            }
            Ast::Repetition(one) => match Bounds::of(one) {
                // Once and nothing said of its length: it is what it repeats.
                Bounds { least: 1, most: Some(1) }
                    if prefers_short(ast) == prefers_short(&one.ast) =>
                {
                    return self.add(&one.ast, source);
                }
                Bounds { least: 0, most } => {
                    let most = most.map_or(usize::MAX, |most| most as usize);
                    Shape::Repeated { of: self.add(&one.ast, source)?, most }
                }
                // Groups hold what the last time gave them.
                Bounds { least, most } => {
                    let (least, most) = (least - 1, most.map(|most| most - 1));
                    let most = most.map_or(String::new(), |most| most.to_string());
                    let mark = if one.greedy { "" } else { "?" };
                    let before = format!("(?:{}){{{least},{most}}}{mark}", one.ast);
                    let first = self.push(before, prefers_short(ast), Shape::Plain, source)?;
                    Shape::Pair(first, self.add(&one.ast, source)?)
                }
            },
            _ => Shape::Plain,
        };
        self.push(ast.to_string(), prefers_short(ast), shape, source)
    }

    /// Adds parts that follow each other, each with the rest behind it, from the last on.
    fn add_sequence(&mut self, list: &[Ast], source: &Source) -> Result<usize> {
        let Some((last, before)) = list.split_last() else {
            return self.push(String::new(), None, Shape::Plain, source);
        };
        let mut rest = self.add(last, source)?;
        let mut text = last.to_string();
        let mut rest_prefers = prefers_short(last);
        for ast in before.iter().rev() {
            let first = self.add(ast, source)?;
            text.insert_str(0, &ast.to_string());
            rest_prefers = prefers_short(ast).or(rest_prefers);
            rest = self.push(text.clone(), rest_prefers, Shape::Pair(first, rest), source)?;
        }
        Ok(rest)
    }

    fn push(
        &mut self,
        text: String,
        prefers_short: Option<bool>,
        shape: Shape,
        source: &Source,
    ) -> Result<usize> {
        let flags = source.flags;
        let syntax = syntax::Config::new()
            .case_insensitive(flags.ignore_case)
            .dot_matches_new_line(flags.dot_all)
            .multi_line(flags.lines)
            .nest_limit(MAX_DEPTH);
        let built = PikeVM::builder()
            .configure(PikeVM::config().match_kind(MatchKind::All))
            .syntax(syntax)
            .build(&text);
        let program = built.map_err(|_| too_complex())?;
        self.bytes += program.get_nfa().memory_usage();
        if self.bytes > MAX_PARTS {
            return Err(too_complex());
        }
        let prefers_short = prefers_short.unwrap_or(false);
        self.all.push(Part { program, prefers_short, shape });
        Ok(self.all.len() - 1)
    }
}

/// How often something is repeated.
struct Bounds {
    least: u32,
    most: Option<u32>,
}

impl Bounds {
    fn of(one: &Repetition) -> Bounds {
        let (least, most) = match one.op.kind {
            RepetitionKind::ZeroOrOne => (0, Some(1)),
            RepetitionKind::ZeroOrMore => (0, None),
            RepetitionKind::OneOrMore => (1, None),
            RepetitionKind::Range(RepetitionRange::Exactly(count)) => (count, Some(count)),
            RepetitionKind::Range(RepetitionRange::AtLeast(least)) => (least, None),
            RepetitionKind::Range(RepetitionRange::Bounded(least, most)) => (least, Some(most)),
        };
        Bounds { least, most }
    }
}

/// A match of one text that is taken apart.
struct Search<'s> {
    parts: &'s Parts,
    text: &'s str,
    context: &'s Context,
    /// What programs work with, made when they run first.
    caches: Vec<Option<Cache>>,
    groups: Vec<Option<Span>>,
}

impl Search<'_> {
    /// Where a part ends that begins where `within` does: as late as can be, or as soon.
    fn end(&mut self, part: usize, within: Span, is_short: bool) -> Result<Option<usize>> {
        self.context.spend(1 + (within.end - within.start) / 8)?;
        let parts = self.parts;
        let program = &parts.all[part].program;
        let cache = self.caches[part].get_or_insert_with(|| program.create_cache());
        let input = Input::new(self.text).span(within.start..within.end);
        let input = input.anchored(Anchored::Yes).earliest(is_short);
        let mut slots = [None, None];
        program.search_slots(cache, &input, &mut slots);
        Ok(slots[1].map(|end| end.get()))
    }

    /// The end that the part prefers.
    fn preferred(&mut self, part: usize, within: Span) -> Result<Option<usize>> {
        self.end(part, within, self.parts.all[part].prefers_short)
    }

    /// Does the part match all of this?
    fn is_all(&mut self, part: usize, span: Span) -> Result<bool> {
        Ok(self.end(part, span, false)? == Some(span.end))
    }

    /// The next best end behind `last` for a part that prefers it short, or before it.
    fn next_end(&mut self, part: usize, within: Span, last: usize) -> Result<Option<usize>> {
        if !self.parts.all[part].prefers_short {
            let Some(end) = self.before(last).filter(|end| *end >= within.start) else {
                return Ok(None);
            };
            return self.end(part, Span { end, ..within }, false);
        }
        let mut end = last;
        while let Some(next) = self.after(end).filter(|next| *next <= within.end) {
            if self.is_all(part, Span { start: within.start, end: next })? {
                return Ok(Some(next));
            }
            end = next;
        }
        Ok(None)
    }

    /// The beginning of the character before a place.
    fn before(&self, at: usize) -> Option<usize> {
        self.text[..at].char_indices().next_back().map(|(start, _)| start)
    }

    /// The end of the character behind a place.
    fn after(&self, at: usize) -> Option<usize> {
        self.text[at..].chars().next().map(|c| at + c.len_utf8())
    }

    /// Notes what the groups of a part hold that matches `span`.
    fn take_apart(&mut self, part: usize, span: Span) -> Result<()> {
        let parts = self.parts;
        let (mut part, mut span) = (part, span);
        loop {
            match &parts.all[part].shape {
                Shape::Plain => return Ok(()),
                Shape::Group { of, number } => {
                    self.groups[*number - 1] = Some(span);
                    part = *of;
                }
                Shape::AnyOf(list) => {
                    let mut chosen = None;
                    for one in list {
                        if self.is_all(*one, span)? {
                            chosen = Some(*one);
                            break;
                        }
                    }
                    part = chosen.expect("one of them matches");
                }
                Shape::Pair(first, rest) => {
                    let at = self.split(*first, *rest, span)?;
                    self.take_apart(*first, Span { end: at, ..span })?;
                    (part, span) = (*rest, Span { start: at, ..span });
                }
                Shape::Repeated { of, most } => return self.take_repeated(*of, *most, span),
            }
        }
    }

    /// Where the first part ends and the rest begins.
    fn split(&mut self, first: usize, rest: usize, span: Span) -> Result<usize> {
        let mut end = self.preferred(first, span)?;
        while let Some(at) = end {
            if self.is_all(rest, Span { start: at, ..span })? {
                return Ok(at);
            }
            end = self.next_end(first, span, at)?;
        }
        unreachable!("the two match the whole of it")
    }

    /// Groups of a repeated part hold what the last time gave them, of as many as it takes if each
    /// gets what it prefers.
    fn take_repeated(&mut self, of: usize, most: usize, span: Span) -> Result<()> {
        if span.start == span.end {
            // Never would do, but once is preferred, as it fills the groups.
            return if self.is_all(of, span)? { self.take_apart(of, span) } else { Ok(()) };
        }
        // Ends of the times before, behind the beginning of the first.
        let mut ends = vec![span.start];
        let mut next = self.preferred(of, span)?;
        loop {
            let start = *ends.last().expect("the beginning stays");
            next = match next {
                Some(end) if end == span.end => return self.take_apart(of, Span { start, end }),
                Some(end) if end > start && ends.len() < most => {
                    ends.push(end);
                    self.preferred(of, Span { start: end, ..span })?
                }
                Some(end) => self.next_end(of, Span { start, ..span }, end)?,
                None => {
                    let last = ends.pop().expect("the beginning stays");
                    let start = *ends.last().expect("the part matches the whole of it");
                    self.next_end(of, Span { start, ..span }, last)?
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use rightlink_env::rng::Rng;

    use super::super::translate::Source;
    use super::super::{Options, compile};
    use super::*;

    fn finder(pattern: &str, in_parts: bool) -> Finder {
        let source = Source::of(pattern, Options::usual()).unwrap();
        let mut finder = Finder::new(compile(pattern, &source).unwrap(), &source).unwrap();
        if in_parts && finder.parts.is_none() {
            let ast = ParserBuilder::new().build().parse(&source.text).unwrap();
            let mut parts = Parts::default();
            parts.add(&ast, &source).unwrap();
            finder.parts = Some(parts);
        }
        finder
    }

    /// Where the crate's answer is taken, taking the match apart gives the same.
    #[test]
    fn plain_patterns_match_in_one_way() {
        let context = Context::outside();
        let mut rng = Rng::from_seed(1);
        let mut tried = 0;
        for _ in 0..3_000 {
            let atoms = ["a", "b", "(a)", "(ab)", "(a(b))", ".", "[ab]", "(?:ab)", "^", "$", r"\y"];
            let marks = ["*", "+", "?", "*?", "+?", "{2}", "{1,2}", "{1,2}?", "{2,}"];
            let repeated = rng.below(4);
            let mut pattern = String::new();
            for at in 0..1 + rng.below(3) {
                let atom = *rng.pick(&atoms).expect("some");
                pattern.push_str(atom);
                if at == repeated && !["^", "$", r"\y"].contains(&atom) {
                    pattern.push_str(rng.pick(&marks).expect("some"));
                }
            }
            let text: String =
                (0..rng.below(8)).map(|_| if rng.chance(1, 2) { 'a' } else { 'b' }).collect();
            let (fast, slow) = (finder(&pattern, false), finder(&pattern, true));
            assert!(fast.parts.is_none(), "{pattern} is plain");
            let [fast, slow] = [fast, slow].map(|finder| finder.find(&text, 0, &context).unwrap());
            let spans = |found: Option<Found>| found.map(|found| (found.whole, found.groups));
            tried += usize::from(fast.is_some());
            assert_eq!(spans(fast), spans(slow), "{pattern} in {text}");
        }
        assert!(tried > 500, "{tried} matched");
    }
}
