//! Upper and lower case by the rules of a collation.
//!
//! | collation | rules |
//! |---|---|
//! | the default | one character for one, as the C library of a UTF-8 locale has them |
//! | by bytes with a name, as `"C"` | ASCII only |
//! | of a locale | one character may become several, and some languages have their own |
//!
//! Invariants: the length in characters stays the same but under a locale.
//! Does not do: Greek, Lithuanian and Armenian capitals and Dutch titles under their own locales:
//! refused.

use crate::error::{Result, SqlError};

/// What stands in for a locale where only ASCII is mapped.
pub(crate) const ASCII: &str = "C";

/// Characters between letters that do not end a word.
const WITHIN_WORDS: [char; 8] =
    ['\'', '.', ':', '\u{b7}', '\u{2018}', '\u{2019}', '\u{2024}', '\u{2027}'];

/// Which letters become which.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Casing {
    Simple,
    Ascii,
    Full,
    /// A dotless i has a capital of its own.
    Turkic,
}

impl Casing {
    /// The rules of a locale, or of [`ASCII`], for `what`.
    fn of(locale: &str, what: &str) -> Result<Casing> {
        let language = locale.split(['-', '_']).next().unwrap_or_default();
        match (language, what) {
            (ASCII, _) => Ok(Casing::Ascii),
            ("tr" | "az", _) => Ok(Casing::Turkic),
            ("el" | "hy", "upper" | "initcap") | ("lt", _) | ("nl", "initcap") => {
                Err(SqlError::unsupported(format!("{what} under the locale \"{locale}\"")))
            }
            _ => Ok(Casing::Full),
        }
    }

    pub(crate) fn upper(self, text: &str) -> String {
        match self {
            Casing::Simple => text.chars().map(simple_upper).collect(),
            Casing::Ascii => text.to_ascii_uppercase(),
            Casing::Full => text.to_uppercase(),
            Casing::Turkic => text.replace('i', "\u{130}").to_uppercase(),
        }
    }

    pub(crate) fn lower(self, text: &str) -> String {
        match self {
            Casing::Simple => text.chars().map(simple_lower).collect(),
            Casing::Ascii => text.to_ascii_lowercase(),
            Casing::Full => text.to_lowercase(),
            Casing::Turkic => {
                let dotted = text.replace("I\u{307}", "i").replace('\u{130}', "i");
                dotted.replace('I', "\u{131}").to_lowercase()
            }
        }
    }

    pub(crate) fn title(self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut inside = false;
        let mut word = String::new();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let belongs = match self {
                Casing::Ascii => c.is_ascii_alphanumeric(),
                Casing::Simple => c.is_alphanumeric(),
                Casing::Full | Casing::Turkic => {
                    let next = chars.peek().is_some_and(|next| next.is_alphanumeric());
                    is_of_word(c) || inside && next && WITHIN_WORDS.contains(&c)
                }
            };
            if belongs {
                word.push(c);
            } else {
                self.put_title(&word, &mut out);
                word.clear();
                out.push(c);
            }
            inside = belongs;
        }
        self.put_title(&word, &mut out);
        out
    }

    fn put_title(self, word: &str, out: &mut String) {
        let mut chars = word.chars();
        let Some(first) = chars.next() else { return };
        let first = first.to_string();
        let capital = self.upper(&first);
        match self {
            // Of a letter that becomes several only the first is a capital.
            Casing::Full | Casing::Turkic => {
                let mut letters = capital.chars();
                out.extend(letters.next());
                out.push_str(&self.lower(letters.as_str()));
            }
            _ => out.push_str(&capital),
        }
        out.push_str(&self.lower(chars.as_str()));
    }
}

/// Marks belong to the letter in front of them.
fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || matches!(c, '\u{300}'..='\u{36f}')
}

fn simple_upper(c: char) -> char {
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(one), None) => one,
        // Greek letters with an iota below have a capital with one beside.
        _ => match c {
            '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}' => {
                char::from_u32(c as u32 + 8).unwrap_or(c)
            }
            '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' => char::from_u32(c as u32 + 9).unwrap_or(c),
            other => other,
        },
    }
}

fn simple_lower(c: char) -> char {
    // İ alone becomes two characters.
    c.to_lowercase().next().unwrap_or(c)
}

/// The case that `what` means, of `text` under a locale.
pub(crate) fn under(what: &str, text: &str, locale: &str) -> Result<String> {
    let casing = Casing::of(locale, what)?;
    Ok(match what {
        "upper" => casing.upper(text),
        "lower" => casing.lower(text),
        _ => casing.title(text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_mapped_as_the_collation_says() {
        assert_eq!(Casing::Simple.upper("maß ﬁ ᾳ"), "MAß ﬁ ᾼ");
        assert_eq!(Casing::Full.upper("maß"), "MASS");
        assert_eq!(Casing::Simple.lower("ΤΙΣ İ"), "τισ i");
        assert_eq!(Casing::Full.lower("ΤΙΣ"), "τις");
        assert_eq!(Casing::Ascii.upper("jï"), "Jï");
        assert_eq!(Casing::Turkic.upper("ji"), "Jİ");
        assert_eq!(Casing::Turkic.lower("KI İ"), "kı i");
        assert_eq!(Casing::Full.title("d'été au-delà l' x"), "D'été Au-Delà L' X");
        assert_eq!(Casing::Simple.title("d'été"), "D'Été");
        assert_eq!(Casing::Ascii.title("été"), "éTé");
    }
}
