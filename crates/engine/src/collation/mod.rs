//! How text is compared where bytes do not decide: collations by locale, as ICU has them.
//!
//! A collation is a BCP 47 locale, whose `-u-` keywords say what else counts (`und-u-ks-level2`:
//! case does not), and whether strings that the locale takes for equal are told apart by their
//! bytes after all (deterministic) or are equal (nondeterministic). Keys hold sort keys, which
//! depend on the Unicode data that was built in: [`Collation::data_version`] names it, indexes
//! store it, and one made with other data is not used before it was built anew.
//!
//! Invariants: byte order of sort keys is the order of [`Collation::compare`], whatever the text; a
//! sort key of a strength below `identic` has no byte 0; whatever a definition on disk says,
//! opening it succeeds, and only use of the collation fails. Without the feature `icu` all of them
//! fail so.
//! Does not do: byte order, which is no collation (`None` wherever one could be); names of its own.

use std::cmp::Ordering;
use std::fmt;

use rightlink_env::sync::{Arc, OnceLock};

use crate::config::MAX_NAME_BYTES;
use crate::error::{Error, Result};

#[cfg(feature = "icu")]
mod icu;
#[cfg(not(feature = "icu"))]
mod none;

#[cfg(feature = "icu")]
use icu::Collator;
#[cfg(not(feature = "icu"))]
use none::Collator;

/// An order of text other than that of its bytes.
///
/// ```
/// # #[cfg(feature = "icu")] {
/// use rightlink::Collation;
/// let german = Collation::new("de-DE", true)?;
/// assert!(german.compare("Äpfel", "Zebra").is_lt());
/// let ignoring_case = Collation::new("und-u-ks-level2", false)?;
/// assert!(ignoring_case.compare("rightlink", "RightLink").is_eq());
/// # }
/// # Ok::<(), rightlink::Error>(())
/// ```
#[derive(Clone)]
pub struct Collation(Arc<Inner>);

struct Inner {
    name: String,
    locale: String,
    deterministic: bool,
    /// Or why there is none.
    collator: std::result::Result<Collator, String>,
    version: OnceLock<String>,
}

impl Collation {
    /// The collation of a BCP 47 locale such as `en-US` or `de-u-co-phonebk`. Keywords that are
    /// understood: `co`, `kf`, `kn`, `ks`, `ka`, `kc`, `kv`; `kk` changes nothing.
    ///
    /// # Errors
    /// `Invalid` for a locale that is not known, and for every locale without the feature `icu`.
    pub fn new(locale: &str, deterministic: bool) -> Result<Self> {
        let made = Self::stored(locale, locale, deterministic);
        made.check("a collation").map_err(|_| match &made.0.collator {
            Err(what) => Error::Invalid(format!("collation {locale:?}: {what}")),
            Ok(_) => unreachable!("a collation with a collator passes"),
        })?;
        Ok(made)
    }

    /// As [`Collation::new`], but a wrong locale is an error later: when a table or an index with
    /// this collation is created. Without the feature `icu` every locale is wrong.
    pub fn unchecked(locale: &str, deterministic: bool) -> Self {
        Self::stored(locale, locale, deterministic)
    }

    /// The same under the name that a layer above has for it; at most 63 bytes are kept.
    #[must_use]
    pub fn named(&self, name: &str) -> Self {
        let mut end = name.len().min(MAX_NAME_BYTES);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        Self::stored(&name[..end], &self.0.locale, self.0.deterministic)
    }

    /// The collation that a definition on disk names. This build may not know it.
    pub(crate) fn stored(name: &str, locale: &str, deterministic: bool) -> Self {
        let collator = Collator::new(locale);
        let locale = collator.as_ref().map_or(locale, |collator| collator.locale()).to_owned();
        let (name, version) = (name.to_owned(), OnceLock::new());
        Self(Arc::new(Inner { name, locale, deterministic, collator, version }))
    }

    /// Name of the collation: by default the locale as it was given.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The locale in its canonical form.
    pub fn locale(&self) -> &str {
        &self.0.locale
    }

    /// True if strings of different bytes are never equal.
    pub fn is_deterministic(&self) -> bool {
        self.0.deterministic
    }

    /// Version of the Unicode data behind its sort keys. Empty if this build does not know the
    /// collation.
    pub fn data_version(&self) -> &str {
        let version = || match &self.0.collator {
            Ok(collator) => collator.data_version(),
            Err(_) => String::new(),
        };
        self.0.version.get_or_init(version)
    }

    /// Fails where it cannot be used; `of` is what it belongs to.
    pub(crate) fn check(&self, of: &str) -> Result<()> {
        let error = |what: &String| {
            let what = format!("collation {} ({}): {what}", self.0.name, self.0.locale);
            Error::Collation { of: of.to_owned(), what }
        };
        self.0.collator.as_ref().map(drop).map_err(error)
    }

    /// Does this build know it?
    pub(crate) fn is_usable(&self) -> bool {
        self.0.collator.is_ok()
    }

    /// True if both are the same collation, by whatever name.
    pub fn is_same(&self, other: &Collation) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (&self.0.locale, self.0.deterministic) == (&other.0.locale, other.0.deterministic)
    }

    /// Compares two texts. Must not be asked of a collation that cannot be used.
    pub fn compare(&self, a: &str, b: &str) -> Ordering {
        if a == b {
            return Ordering::Equal;
        }
        let order = self.collator().compare(a, b);
        if self.0.deterministic { order.then_with(|| a.cmp(b)) } else { order }
    }

    /// True if two texts are equal under the collation.
    pub fn equal(&self, a: &str, b: &str) -> bool {
        a == b || (!self.0.deterministic && self.compare(a, b).is_eq())
    }

    /// Appends bytes that are equal where texts are equal, and order as the texts do: for sorting
    /// and hashing. One text's may begin with all of another's.
    pub fn sort_key(&self, text: &str, out: &mut Vec<u8>) {
        let (collator, start) = (self.collator(), out.len());
        collator.sort_key(text, out);
        if self.0.deterministic {
            if collator.may_hold_zeros() {
                let weights = out.split_off(start);
                escape(out, &weights);
            }
            out.push(0);
            out.extend_from_slice(text.as_bytes());
        }
    }

    /// Appends the sort key alone; does it perhaps hold zeros?
    pub(crate) fn push_weights(&self, text: &str, out: &mut Vec<u8>) -> bool {
        let collator = self.collator();
        collator.sort_key(text, out);
        collator.may_hold_zeros()
    }

    fn collator(&self) -> &Collator {
        self.0.collator.as_ref().expect("the caller has asked whether keys can be compared")
    }
}

/// Appends `bytes` so that no zero is among them and they order as before.
pub(crate) fn escape(out: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        match byte {
            0 => out.extend_from_slice(&[1, 1]),
            1 => out.extend_from_slice(&[1, 2]),
            byte => out.push(*byte),
        }
    }
}

/// By what they say, not by their names.
impl PartialEq for Collation {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other)
    }
}

impl Eq for Collation {}

impl fmt::Debug for Collation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.0.deterministic { "" } else { ", nondeterministic" };
        write!(f, "Collation({}{kind})", self.0.locale)
    }
}

/// As `describe` shows it and a schema file has it: `und-u-ks-level2 nondeterministic`.
impl fmt::Display for Collation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.0.deterministic { "" } else { " nondeterministic" };
        write!(f, "{}{kind}", self.0.locale)
    }
}

#[cfg(all(test, feature = "icu"))]
mod tests;
