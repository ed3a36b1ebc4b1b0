//! The order of keys against that of the collator, locales, and the data version.
//!
//! Does not do: indexes (`tests/collations.rs`).

use rightlink_env::Rng;

use super::Collation;
use crate::datum::{Type, Value};
use crate::keycode::tests::pairs;
use crate::keycode::{KeyColumn, column_len, decode_column, encode_column};

const LOCALES: [&str; 12] = [
    "und",
    "en-US",
    "de-u-co-phonebk",
    "sv",
    "fr-CA",
    "ja",
    "zh",
    "th",
    "und-u-ks-level1",
    "und-u-ks-level2",
    "und-u-ka-shifted",
    "en-u-kn-kf-upper",
];

/// Letters, marks, signs, digits, controls, zero, whole scripts, limits of the code.
fn random_char(rng: &mut Rng) -> char {
    let range = match rng.below(16) {
        0 => (0x00, 0x1F),
        1 => (0x300, 0x36F),
        2 => (0xC0, 0x24F),
        3 => (0x20, 0x2F),
        4 => (0x30, 0x39),
        5 => (0x3040, 0x30FF),
        6 => (0xE01, 0xE4E),
        7 => (0x4E00, 0x4EFF),
        8 => (0xAC00, 0xAC40),
        9 => (0x1F600, 0x1F640),
        10 => (0x0, 0x10_FFFF),
        11 => (0xFF00, 0xFFFF),
        _ => (0x41, 0x7A),
    };
    let code = range.0 + rng.below(u64::from(range.1 - range.0) + 1) as u32;
    char::from_u32(code).unwrap_or('\u{0}')
}

fn random_text(rng: &mut Rng) -> String {
    let len = rng.index(6) * (1 + rng.index(3));
    (0..len).map(|_| random_char(rng)).collect()
}

/// Another text like this one: with one character changed, added, doubled or decomposed.
fn like(rng: &mut Rng, text: &str) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    let at = rng.index(chars.len() + 1);
    match rng.below(5) {
        0 => chars.insert(at, random_char(rng)),
        1 if at < chars.len() => chars[at] = random_char(rng),
        2 if at < chars.len() => chars.splice(at..=at, chars[at].to_uppercase()).for_each(drop),
        3 if at < chars.len() => chars.splice(at..=at, chars[at].to_lowercase()).for_each(drop),
        _ => chars.truncate(at),
    }
    chars.into_iter().collect()
}

/// Of what the collator's own comparison agrees about with its sort keys: no marks, no controls.
fn is_letter(c: char) -> bool {
    matches!(c, '0'..='9' | 'A'..='Z' | 'a'..='z' | '\u{C0}'..='\u{24F}')
        || matches!(c, '\u{3041}'..='\u{3096}' | '\u{4E00}'..='\u{4EFF}' | '\u{AC00}'..='\u{AC40}')
}

fn check_pair(column: &KeyColumn, a: &str, b: &str) {
    let collation = column.collation.as_ref().unwrap();
    let encode = |text: &str| {
        let mut key = Vec::new();
        encode_column(&mut key, column, &Value::Text(text.to_owned()));
        key
    };
    let (x, y) = (encode(a), encode(b));
    let mut wanted = collation.compare(a, b);
    let (mut s, mut t) = (Vec::new(), Vec::new());
    collation.sort_key(a, &mut s);
    collation.sort_key(b, &mut t);
    assert_eq!(s.cmp(&t), wanted, "{collation:?} {a:?} {b:?}");
    if a.chars().chain(b.chars()).all(is_letter) {
        let own = collation.collator().compare_without_keys(a, b);
        let own = if collation.is_deterministic() { own.then_with(|| a.cmp(b)) } else { own };
        assert_eq!(own, wanted, "{collation:?} {a:?} {b:?}");
    }
    if column.descending {
        wanted = wanted.reverse();
    }
    assert_eq!(x.cmp(&y), wanted, "{collation:?} {a:?} {b:?} {x:02x?} {y:02x?}");
    assert!(
        wanted.is_eq() || !x.starts_with(&y) && !y.starts_with(&x),
        "{collation:?} {a:?} {b:?}"
    );
    assert_eq!(column_len(column, &x), Ok(x.len()), "{collation:?} {a:?}");
    let mut rest = x.as_slice();
    let decoded = decode_column(column, &mut rest);
    assert!(rest.is_empty() && decoded.is_ok());
    if collation.is_deterministic() {
        assert_eq!(decoded, Ok(Value::Text(a.to_owned())));
    }
}

/// Random pairs: the order of keys is that of the collator, the longest common prefix included.
#[test]
fn keys_are_in_the_collators_order() {
    let mut rng = Rng::from_seed(77);
    let mut columns = Vec::new();
    for locale in LOCALES {
        for deterministic in [true, false] {
            let collation = Collation::new(locale, deterministic).unwrap();
            let descending = columns.len() % 3 == 2;
            let base = KeyColumn { descending, ..KeyColumn::ascending(Type::Text) };
            columns.push(KeyColumn { collation: Some(collation), ..base });
        }
    }
    for _ in 0..pairs() / columns.len() + 1 {
        for column in &columns {
            let a = random_text(&mut rng);
            let b = if rng.chance(3, 4) { like(&mut rng, &a) } else { random_text(&mut rng) };
            check_pair(column, &a, &b);
        }
    }
}

/// The last level is the text itself, which may hold zeros.
#[test]
fn identical_strength_is_escaped() {
    let mut rng = Rng::from_seed(78);
    for deterministic in [true, false] {
        let collation = Some(Collation::new("und-u-ks-identic", deterministic).unwrap());
        let column = KeyColumn { collation, ..KeyColumn::ascending(Type::Text) };
        for (a, b) in [("", "\0"), ("a\0", "a\0\0"), ("\0\u{1}", "\u{1}\0"), ("a", "a\0b")] {
            check_pair(&column, a, b);
        }
        for _ in 0..20_000 {
            let a = random_text(&mut rng);
            let b = like(&mut rng, &a);
            check_pair(&column, &a, &b);
        }
    }
}

/// No sort key of one code point has a zero in it, whatever it is.
#[test]
fn sort_keys_have_no_zeros() {
    for locale in ["und", "ja", "und-u-ka-shifted-ks-level4"] {
        let collation = Collation::new(locale, true).unwrap();
        let mut key = Vec::new();
        for c in (0..=0x10_FFFF).filter_map(char::from_u32) {
            key.clear();
            let mut text = [0; 4];
            assert!(!collation.push_weights(c.encode_utf8(&mut text), &mut key));
            assert!(!key.contains(&0), "{locale} {c:?} {key:02x?}");
        }
    }
}

#[test]
fn locales_are_read_as_postgres_reads_them() {
    for (given, canonical) in [
        ("", "und"),
        ("root", "und"),
        ("en_US", "en-US"),
        ("EN-us-u-KS-level2", "en-US-u-ks-level2"),
        ("de-u-co-phonebk", "de-u-co-phonebk"),
        ("und-u-kc-true", "und-u-kc"),
    ] {
        assert_eq!(Collation::new(given, true).unwrap().locale(), canonical, "{given:?}");
    }
    for wrong in ["x y", "en-u-ks-level9", "en-u-kr-latn", "en-u-kb", "e", "en-u-ka-both"] {
        assert!(Collation::new(wrong, true).is_err(), "{wrong}");
    }
    let german = Collation::new("de-DE", true).unwrap();
    assert!(german.compare("Zebra", "Äpfel").is_gt() && "Zebra" < "Äpfel");
    let named = german.named("de_DE");
    assert_eq!((named.name(), named.locale(), named == german), ("de_DE", "de-DE", true));
}

/// What is stored with indexes. Fails with other data: users are to be told to run `reindex` then,
/// and [`super::icu::RELEASE`] is that of the lock file.
#[test]
fn the_data_version_is_that_of_the_build() {
    let version = |locale| Collation::new(locale, true).unwrap().data_version().to_owned();
    let lock = include_str!("../../../../../Cargo.lock");
    let built = lock.split("name = \"icu_collator\"\nversion = \"").nth(1).unwrap();
    let minor = built.split('"').next().unwrap().rsplit_once('.').unwrap().0;
    assert_eq!(super::icu::RELEASE, format!("icu4x-{minor}"));
    assert_eq!(version("und"), "icu4x-2.4/ff41f3c7388a6111");
    assert_eq!(version("en-US"), version("und"), "no tailoring");
    assert_eq!(version("sv"), "icu4x-2.4/e30a5160c7c47ca2");
}
