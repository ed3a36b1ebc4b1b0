//! Encodings of text: what clients send and get, and what `convert_to` and `convert_from` read.
//!
//! The database itself is in UTF8. LATIN1 is mapped byte by byte; the crate `encoding_rs` knows the
//! others, which are those of the WHATWG: bytes that an encoding leaves undefined are control
//! characters there, and EUC_CN and EUC_KR contain their extensions.
//!
//! Invariants: a text is encoded as a whole or not at all.
//! Does not do: EUC_TW, EUC_JIS_2004, SHIFT_JIS_2004, MULE_INTERNAL, JOHAB, LATIN5.

use std::borrow::Cow;

use encoding_rs::{self as rs, EncoderResult};

use crate::error::{Result, SqlError, code};

/// An encoding by PostgreSQL's name and number.
#[derive(Clone, Copy, Debug)]
pub struct Encoding {
    name: &'static str,
    number: i32,
    mapping: Mapping,
}

#[derive(Clone, Copy, Debug)]
enum Mapping {
    /// As the database has it: UTF8, and SQL_ASCII, which asks for no conversion.
    Same,
    Latin1,
    Known(&'static rs::Encoding),
}

const fn known(name: &'static str, number: i32, encoding: &'static rs::Encoding) -> Encoding {
    Encoding { name, number, mapping: Mapping::Known(encoding) }
}

static ENCODINGS: [Encoding; 36] = [
    Encoding::UTF8,
    Encoding { name: "SQL_ASCII", number: 0, mapping: Mapping::Same },
    Encoding { name: "LATIN1", number: 8, mapping: Mapping::Latin1 },
    known("EUC_JP", 1, rs::EUC_JP),
    known("EUC_CN", 2, rs::GBK),
    known("EUC_KR", 3, rs::EUC_KR),
    known("LATIN2", 9, rs::ISO_8859_2),
    known("LATIN3", 10, rs::ISO_8859_3),
    known("LATIN4", 11, rs::ISO_8859_4),
    known("LATIN6", 13, rs::ISO_8859_10),
    known("LATIN7", 14, rs::ISO_8859_13),
    known("LATIN8", 15, rs::ISO_8859_14),
    known("LATIN9", 16, rs::ISO_8859_15),
    known("LATIN10", 17, rs::ISO_8859_16),
    known("WIN1256", 18, rs::WINDOWS_1256),
    known("WIN1258", 19, rs::WINDOWS_1258),
    known("WIN866", 20, rs::IBM866),
    known("WIN874", 21, rs::WINDOWS_874),
    known("KOI8R", 22, rs::KOI8_R),
    known("WIN1251", 23, rs::WINDOWS_1251),
    known("WIN1252", 24, rs::WINDOWS_1252),
    known("ISO_8859_5", 25, rs::ISO_8859_5),
    known("ISO_8859_6", 26, rs::ISO_8859_6),
    known("ISO_8859_7", 27, rs::ISO_8859_7),
    known("ISO_8859_8", 28, rs::ISO_8859_8),
    known("WIN1250", 29, rs::WINDOWS_1250),
    known("WIN1253", 30, rs::WINDOWS_1253),
    known("WIN1254", 31, rs::WINDOWS_1254),
    known("WIN1255", 32, rs::WINDOWS_1255),
    known("WIN1257", 33, rs::WINDOWS_1257),
    known("KOI8U", 34, rs::KOI8_U),
    known("SJIS", 35, rs::SHIFT_JIS),
    known("BIG5", 36, rs::BIG5),
    known("GBK", 37, rs::GBK),
    known("UHC", 38, rs::EUC_KR),
    known("GB18030", 39, rs::GB18030),
];

/// Other names, without all but letters and digits.
const ALIASES: [(&str, &str); 34] = [
    ("unicode", "UTF8"),
    ("iso88591", "LATIN1"),
    ("iso88592", "LATIN2"),
    ("iso88593", "LATIN3"),
    ("iso88594", "LATIN4"),
    ("iso885910", "LATIN6"),
    ("iso885913", "LATIN7"),
    ("iso885914", "LATIN8"),
    ("iso885915", "LATIN9"),
    ("iso885916", "LATIN10"),
    ("koi8", "KOI8R"),
    ("mskanji", "SJIS"),
    ("shiftjis", "SJIS"),
    ("win932", "SJIS"),
    ("windows932", "SJIS"),
    ("win950", "BIG5"),
    ("windows950", "BIG5"),
    ("abc", "WIN1258"),
    ("tcvn", "WIN1258"),
    ("tcvn5712", "WIN1258"),
    ("vscii", "WIN1258"),
    ("alt", "WIN866"),
    ("win", "WIN1251"),
    ("windows866", "WIN866"),
    ("windows874", "WIN874"),
    ("windows1250", "WIN1250"),
    ("windows1251", "WIN1251"),
    ("windows1252", "WIN1252"),
    ("windows1253", "WIN1253"),
    ("windows1254", "WIN1254"),
    ("windows1255", "WIN1255"),
    ("windows1256", "WIN1256"),
    ("windows1257", "WIN1257"),
    ("windows1258", "WIN1258"),
];

impl Encoding {
    /// That of the database.
    pub const UTF8: Encoding = Encoding { name: "UTF8", number: 6, mapping: Mapping::Same };

    /// The encoding of a name, of which only letters and digits count, as in PostgreSQL.
    pub fn named(name: &str) -> Option<Encoding> {
        let plain = |name: &str| -> String {
            let kept = name.chars().filter(char::is_ascii_alphanumeric);
            kept.map(|letter| letter.to_ascii_lowercase()).collect()
        };
        let wanted = plain(name);
        let alias = ALIASES.iter().find(|(alias, _)| *alias == wanted).map(|(_, name)| *name);
        ENCODINGS.iter().find(|one| Some(one.name) == alias || plain(one.name) == wanted).copied()
    }

    /// The encoding of PostgreSQL's number for it.
    pub(crate) fn numbered(number: i64) -> Option<Encoding> {
        ENCODINGS.iter().find(|one| i64::from(one.number) == number).copied()
    }

    /// PostgreSQL's name.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// PostgreSQL's number.
    pub(crate) fn number(self) -> i32 {
        self.number
    }

    /// Is text in it as it is in the database?
    pub fn is_same(self) -> bool {
        matches!(self.mapping, Mapping::Same)
    }

    /// Is each character one byte, so that text may be cut anywhere?
    pub fn is_single_byte(self) -> bool {
        match self.mapping {
            Mapping::Same => false,
            Mapping::Latin1 => true,
            Mapping::Known(encoding) => encoding.is_single_byte(),
        }
    }

    /// Bytes of this encoding as text.
    ///
    /// # Errors
    /// 22021 for bytes that are no text of this encoding.
    pub fn decode(self, bytes: &[u8]) -> Result<Cow<'_, str>> {
        let text = match self.mapping {
            Mapping::Same => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
            Mapping::Latin1 => Some(rs::mem::decode_latin1(bytes)),
            Mapping::Known(encoding) => {
                encoding.decode_without_bom_handling_and_without_replacement(bytes)
            }
        };
        text.ok_or_else(|| {
            // SQL_ASCII promises nothing; the database's own rule is broken.
            let name = if self.is_same() { Encoding::UTF8.name } else { self.name };
            let message = format!("invalid byte sequence for encoding \"{name}\"");
            SqlError::new(code::BAD_CHARACTER, message)
        })
    }

    /// Text in this encoding.
    ///
    /// # Errors
    /// 22P05 for a character that it does not have.
    pub fn encode(self, text: &str) -> Result<Cow<'_, [u8]>> {
        // Nearly all clients speak UTF8, and every value of theirs comes by here.
        if self.is_same() || text.is_ascii() {
            return Ok(Cow::Borrowed(text.as_bytes()));
        }
        match self.mapping {
            Mapping::Same => unreachable!("looked at above"),
            Mapping::Latin1 => {
                let byte = |letter: char| {
                    u8::try_from(u32::from(letter)).map_err(|_| self.untranslatable(letter))
                };
                text.chars().map(byte).collect::<Result<Vec<u8>>>().map(Cow::Owned)
            }
            Mapping::Known(encoding) => self.encode_known(encoding, text).map(Cow::Owned),
        }
    }

    /// Text in this encoding, with a question mark for each character that it does not have.
    pub fn encode_lossy(self, text: &str) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(text.len());
        let mut letter = [0; 4];
        for each in text.chars() {
            match self.encode(each.encode_utf8(&mut letter)) {
                Ok(encoded) => bytes.extend_from_slice(&encoded),
                Err(_) => bytes.push(b'?'),
            }
        }
        bytes
    }

    fn encode_known(self, encoding: &'static rs::Encoding, text: &str) -> Result<Vec<u8>> {
        let mut encoder = encoding.new_encoder();
        let most = encoder.max_buffer_length_from_utf8_without_replacement(text.len());
        let mut bytes = Vec::with_capacity(most.unwrap_or(text.len()));
        let (result, _) =
            encoder.encode_from_utf8_to_vec_without_replacement(text, &mut bytes, true);
        match result {
            EncoderResult::InputEmpty => Ok(bytes),
            EncoderResult::Unmappable(letter) => Err(self.untranslatable(letter)),
            EncoderResult::OutputFull => unreachable!("the buffer has room for the longest result"),
        }
    }

    fn untranslatable(self, letter: char) -> SqlError {
        let mut bytes = [0; 4];
        let bytes = letter.encode_utf8(&mut bytes).bytes();
        let bytes: Vec<String> = bytes.map(|byte| format!("0x{byte:02x}")).collect();
        let message = format!(
            "character with byte sequence {} in encoding \"UTF8\" has no equivalent in encoding \
             \"{}\"",
            bytes.join(" "),
            self.name
        );
        SqlError::new(code::UNTRANSLATABLE_CHARACTER, message)
    }
}

impl PartialEq for Encoding {
    fn eq(&self, other: &Encoding) -> bool {
        self.number == other.number
    }
}

impl Eq for Encoding {}

impl Default for Encoding {
    fn default() -> Encoding {
        Encoding::UTF8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every character that an encoding has comes back, and every other one is refused.
    #[test]
    fn what_is_encoded_is_decoded_to_the_same() {
        for encoding in ENCODINGS {
            assert_eq!(Encoding::named(encoding.name), Some(encoding));
            assert_eq!(Encoding::numbered(i64::from(encoding.number)), Some(encoding));
            let mut had = 0;
            for letter in (0..0x3_0000).filter_map(char::from_u32) {
                let text = letter.to_string();
                match encoding.encode(&text) {
                    Ok(bytes) => {
                        had += 1;
                        let back = encoding.decode(&bytes);
                        // Some characters of Japan's encodings share their bytes with another one,
                        // and so do private ones of China's.
                        let is_shared = matches!(letter, '¥' | '‾' | '−' | '\u{e000}'..='\u{f8ff}');
                        assert!(
                            is_shared || back.as_deref() == Ok(&text),
                            "{letter:?} {encoding:?}"
                        );
                    }
                    Err(error) => {
                        assert_eq!(error.sqlstate, code::UNTRANSLATABLE_CHARACTER);
                        assert_eq!(encoding.encode_lossy(&text), b"?");
                    }
                }
            }
            assert!(had >= 128, "{encoding:?} has ASCII");
        }
    }

    #[test]
    fn a_name_is_known_by_its_letters_and_digits() {
        for (name, known) in [
            ("utf-8", "UTF8"),
            ("Unicode", "UTF8"),
            ("iso_8859_15", "LATIN9"),
            ("euc-jp", "EUC_JP"),
            ("shift_jis", "SJIS"),
            ("WINDOWS-1252", "WIN1252"),
        ] {
            assert_eq!(Encoding::named(name).map(Encoding::name), Some(known), "{name}");
        }
        assert_eq!(Encoding::named("klingon"), None);
        assert_eq!(Encoding::named(""), None);
    }
}
