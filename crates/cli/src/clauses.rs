//! What an index has beyond its key, as it is typed and as `describe` shows it:
//! `include (a, b) nulls not distinct where c > 0 and d is not null`.
//!
//! Invariants: words count outside of quotes only; what `describe` shows is read back as the same.
//! Does not do: expressions beyond comparisons with constants that must all hold.

use rightlink::{Comparison, Predicate, Term, Test, Type, Value};

/// The parts of a definition, each as text.
#[derive(Debug, PartialEq, Default)]
pub(crate) struct Parts<'t> {
    pub(crate) key: &'t str,
    pub(crate) include: Option<&'t str>,
    pub(crate) nulls_not_distinct: bool,
    pub(crate) only: Option<&'t str>,
}

/// A piece of a text: a word, a sign or a quoted constant.
#[derive(Clone, Debug, PartialEq)]
struct Piece<'t> {
    at: usize,
    text: &'t str,
    /// The constant between the quotes, if it is one.
    quoted: Option<String>,
}

impl Piece<'_> {
    fn is(&self, word: &str) -> bool {
        self.quoted.is_none() && self.text.eq_ignore_ascii_case(word)
    }
}

/// Cuts a text into pieces; `None` if a quote does not end.
fn pieces(text: &str) -> Option<Vec<Piece<'_>>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let len = match first {
            '\'' => quoted_len(rest)?,
            '<' | '>' | '=' | '!' => rest.find(|c| !"<>=!".contains(c)).unwrap_or(rest.len()),
            ',' | '(' | ')' => 1,
            c if c.is_whitespace() => {
                at += c.len_utf8();
                continue;
            }
            _ => {
                let ends = |c: char| c.is_whitespace() || "'<>=!,()".contains(c);
                rest.find(ends).unwrap_or(rest.len())
            }
        };
        let text = &rest[..len];
        let quoted = (first == '\'').then(|| text[1..len - 1].replace("''", "'"));
        found.push(Piece { at, text, quoted });
        at += len;
    }
    Some(found)
}

/// Bytes of the constant that `text` begins with, quotes included; two quotes stand for one.
fn quoted_len(text: &str) -> Option<usize> {
    let mut end = 1;
    loop {
        end += text[end..].find('\'')? + 1;
        if !text[end..].starts_with('\'') {
            return Some(end);
        }
        end += 1;
    }
}

/// Cuts the definition of an index into its parts; `None` if they do not fit each other.
pub(crate) fn parts(text: &str) -> Option<Parts<'_>> {
    let pieces = pieces(text)?;
    let at = |words: &[&str]| {
        pieces.windows(words.len()).position(|run| run.iter().zip(words).all(|(p, w)| p.is(w)))
    };
    let mut parts = Parts::default();
    let mut end = text.len();
    if let Some(place) = at(&["where"]) {
        parts.only = Some(text[pieces[place].at + "where".len()..].trim());
        end = pieces[place].at;
    }
    let before = |place: &usize, end: usize| pieces[*place].at < end;
    if let Some(place) = at(&["nulls", "not", "distinct"]).filter(|place| before(place, end)) {
        let last = &pieces[place + 2];
        if !text[last.at + last.text.len()..end].trim().is_empty() {
            return None;
        }
        parts.nulls_not_distinct = true;
        end = pieces[place].at;
    }
    if let Some(place) = at(&["include"]).filter(|place| before(place, end)) {
        let list = text[pieces[place].at + "include".len()..end].trim();
        parts.include = Some(list.strip_prefix('(')?.strip_suffix(')')?);
        end = pieces[place].at;
    }
    parts.key = text[..end].trim();
    Some(parts)
}

/// Reads `a >= 5 and b is not null`; the types of columns are for `kind` to say.
///
/// # Errors
/// The piece that does not fit.
pub(crate) fn predicate(
    text: &str,
    kind: &dyn Fn(&str) -> Option<Type>,
) -> Result<Predicate, String> {
    let pieces = pieces(text).ok_or_else(|| text.to_owned())?;
    let terms = pieces.split(|piece| piece.is("and")).map(|term| {
        let read = read_term(term, kind);
        read.ok_or_else(|| term.iter().map(|piece| piece.text).collect::<Vec<_>>().join(" "))
    });
    Ok(Predicate { terms: terms.collect::<Result<_, _>>()? })
}

fn read_term(pieces: &[Piece<'_>], kind: &dyn Fn(&str) -> Option<Type>) -> Option<Term> {
    let [column, rest @ ..] = pieces else { return None };
    if column.quoted.is_some() {
        return None;
    }
    let ty = kind(column.text)?;
    let test = match rest {
        [is, null] if is.is("is") && null.is("null") => Test::Null,
        [is, not, null] if is.is("is") && not.is("not") && null.is("null") => Test::NotNull,
        [sign, constant] if !constant.is("null") => {
            let comparison = comparison(sign.text)?;
            let text = constant.quoted.as_deref().unwrap_or(constant.text);
            Test::Compare(comparison, Value::parse(ty, text).ok()?)
        }
        _ => return None,
    };
    Some(Term { column: column.text.to_owned(), test })
}

fn comparison(sign: &str) -> Option<Comparison> {
    Some(match sign {
        "=" => Comparison::Equal,
        "<>" | "!=" => Comparison::NotEqual,
        "<" => Comparison::Less,
        "<=" => Comparison::AtMost,
        ">" => Comparison::Greater,
        ">=" => Comparison::AtLeast,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(column: &str) -> Option<Type> {
        match column {
            "a" => Some(Type::Int4),
            "b" => Some(Type::Text),
            "day" => Some(Type::Date),
            _ => None,
        }
    }

    #[test]
    fn parts_are_found_outside_of_quotes() {
        let read =
            parts("a, b desc nulls last include (c, d) NULLS NOT DISTINCT where b = ' where '");
        let expected = Parts {
            key: "a, b desc nulls last",
            include: Some("c, d"),
            nulls_not_distinct: true,
            only: Some("b = ' where '"),
        };
        assert_eq!(read, Some(expected));
        assert_eq!(parts("a"), Some(Parts { key: "a", ..Parts::default() }));
        let only = parts("hash(a) where a is null");
        assert_eq!(only.and_then(|read| read.only), Some("a is null"));
        for bad in ["a include b", "a include (b", "a where b = 'x", "a nulls not distinct b"] {
            assert_eq!(parts(bad), None, "{bad}");
        }
    }

    #[test]
    fn predicates_are_read_as_they_are_shown() {
        let all = Predicate::new()
            .compare("a", Comparison::AtLeast, Value::Int4(-5))
            .compare("b", Comparison::NotEqual, Value::Text("it's and".into()))
            .not_null("b")
            .null("day")
            .compare("day", Comparison::Less, Value::parse(Type::Date, "2026-02-28").unwrap());
        assert_eq!(predicate(&all.to_string(), &kind), Ok(all));
        let spaced = predicate("a>=1 AND a != 3", &kind).expect("good");
        assert_eq!(spaced.to_string(), "a >= 1 and a <> 3");
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (text, wrong) in [
            ("a = 1 and c = 2", "c = 2"),
            ("a = one", "a = one"),
            ("a = null", "a = null"),
            ("a == 1", "a == 1"),
            ("a", "a"),
            ("a = 1 and", ""),
            ("a between 1 and 2", "a between 1"),
        ] {
            assert_eq!(predicate(text, &kind), Err(wrong.to_owned()), "{text}");
        }
    }
}
