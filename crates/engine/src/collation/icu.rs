//! Collations by `icu_collator`.
//!
//! Invariants: the data version changes whenever a sort key does: it names the release that sort
//! keys come from, and hashes those of a sample of all scripts under this locale, which catches
//! data that was mended within a release.
//! Does not do: keywords whose effect the collator cannot give (`kb`, `kr`, `vt`): refused.

use std::cmp::Ordering;

use icu_collator::options::{AlternateHandling, CaseLevel, CollatorOptions, MaxVariable, Strength};
use icu_collator::{CollatorBorrowed, CollatorPreferences};
use icu_locale_core::Locale;
use xxhash_rust::xxh3::Xxh3;

/// The release of `icu_collator` that `Cargo.toml` asks for: its algorithm and Unicode data.
pub(super) const RELEASE: &str = "icu4x-2.4";
/// Every so many code points are in the sample.
const STRIDE: usize = 61;
/// Beyond this there is nothing with weights of its own.
const LAST: u32 = 0x3_2000;

/// One collator with everything that its locale says.
pub(super) struct Collator {
    locale: String,
    collator: CollatorBorrowed<'static>,
    identical: bool,
}

impl Collator {
    pub(super) fn new(locale: &str) -> Result<Collator, String> {
        // As PostgreSQL does, which takes `en_US` for `en-US` and nothing or `root` for the root.
        let tag = match locale.replace('_', "-") {
            tag if tag.is_empty() || tag.eq_ignore_ascii_case("root") => "und".to_owned(),
            tag => tag,
        };
        let parsed = Locale::try_from_str(&tag).map_err(|error| error.to_string())?;
        let options = options(&parsed)?;
        let preferences = CollatorPreferences::from(&parsed);
        let collator = CollatorBorrowed::try_new(preferences, options);
        let collator = collator.map_err(|error| error.to_string())?;
        let identical = options.strength == Some(Strength::Identical);
        Ok(Collator { locale: parsed.to_string(), collator, identical })
    }

    pub(super) fn locale(&self) -> &str {
        &self.locale
    }

    pub(super) fn data_version(&self) -> String {
        let (mut hash, mut key) = (Xxh3::new(), Vec::new());
        for c in sample() {
            let mut text = [0; 4];
            key.clear();
            self.sort_key(c.encode_utf8(&mut text), &mut key);
            hash.update(&key);
            hash.update(&[0]);
        }
        format!("{RELEASE}/{:016x}", hash.digest())
    }

    /// By sort keys, as indexes do. The collator's own comparison differs where marks follow
    /// control characters or shifted punctuation in a prefix that both texts share.
    pub(super) fn compare(&self, a: &str, b: &str) -> Ordering {
        let (mut x, mut y) = (Vec::new(), Vec::new());
        self.sort_key(a, &mut x);
        self.sort_key(b, &mut y);
        x.cmp(&y)
    }

    /// The collator's own comparison.
    #[cfg(test)]
    pub(super) fn compare_without_keys(&self, a: &str, b: &str) -> Ordering {
        self.collator.compare(a, b)
    }

    pub(super) fn sort_key(&self, text: &str, out: &mut Vec<u8>) {
        let Ok(()) = self.collator.write_sort_key_to(text, out);
    }

    /// The last level of `identic` is the text itself.
    pub(super) fn may_hold_zeros(&self) -> bool {
        self.identical
    }
}

/// Latin letters, which most locales change, and a few of everything else.
fn sample() -> impl Iterator<Item = char> {
    (0x20..0x250).chain((0x250..LAST).step_by(STRIDE)).filter_map(char::from_u32)
}

/// What the keywords say that are no preferences of the collator's own.
fn options(locale: &Locale) -> Result<CollatorOptions, String> {
    let mut options = CollatorOptions::default();
    for (key, value) in locale.extensions.unicode.keywords.iter() {
        let value = value.to_string();
        let unknown = || format!("keyword {key} cannot be {value:?}");
        match key.as_str() {
            "ks" => options.strength = Some(strength(&value).ok_or_else(unknown)?),
            "ka" => {
                options.alternate_handling = Some(match value.as_str() {
                    "noignore" => AlternateHandling::NonIgnorable,
                    "shifted" => AlternateHandling::Shifted,
                    _ => return Err(unknown()),
                });
            }
            "kc" => {
                options.case_level = Some(match value.as_str() {
                    "" | "true" => CaseLevel::On,
                    "false" => CaseLevel::Off,
                    _ => return Err(unknown()),
                });
            }
            "kv" => {
                options.max_variable = Some(match value.as_str() {
                    "space" => MaxVariable::Space,
                    "punct" => MaxVariable::Punctuation,
                    "symbol" => MaxVariable::Symbol,
                    "currency" => MaxVariable::Currency,
                    _ => return Err(unknown()),
                });
            }
            // Texts are normalised whatever this says.
            "kk" => {}
            "co" => {}
            "kn" if matches!(value.as_str(), "" | "true" | "false") => {}
            "kf" if matches!(value.as_str(), "upper" | "lower" | "false") => {}
            "kn" | "kf" => return Err(unknown()),
            "kb" | "kh" | "kr" | "vt" => return Err(format!("keyword {key} is not supported")),
            // About calendars and the like.
            _ => {}
        }
    }
    Ok(options)
}

fn strength(value: &str) -> Option<Strength> {
    Some(match value {
        "level1" | "primary" => Strength::Primary,
        "level2" | "secondary" => Strength::Secondary,
        "level3" | "tertiary" => Strength::Tertiary,
        "level4" | "quaternary" => Strength::Quaternary,
        "identic" | "identical" => Strength::Identical,
        _ => return None,
    })
}
