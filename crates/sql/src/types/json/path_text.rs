//! Reading paths of SQL/JSON.
//!
//! Grammar, in the order of binding: `||`, `&&`, comparisons, `+ -`, `* / %`, signs, members.
//!
//! Invariants: what is refused is refused with `42601`, as PostgreSQL's `jsonpath_gram.y` does.
//! Does not do: the words of PostgreSQL's complaints beyond the place.

use super::MAX_DEPTH;
use super::parse::is_number;
use super::path::{
    Accessor, Arithmetic, Comparison, Condition, Flags, JsonPath, Level, Method, Sign, Step,
};
use crate::error::{Result, SqlError, code};
use crate::types::numeric;

/// What is read: a value, or something that is true, false or unknown.
enum Read {
    Step(Step),
    Condition(Condition),
}

impl JsonPath {
    /// Reads a path.
    ///
    /// # Errors
    /// `42601` for text that is none, `0A000` for what is not built.
    pub fn parse(text: &str) -> Result<JsonPath> {
        Reader::read(text)
    }
}

/// Reads a path from left to right.
struct Reader<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
    /// Filters around what is read: there `@` means something.
    filters: usize,
    /// Subscripts around it: there `last` does.
    subscripts: usize,
}

impl<'t> Reader<'t> {
    fn read(text: &'t str) -> Result<JsonPath> {
        if text.trim().is_empty() {
            let message = format!("invalid input syntax for type jsonpath: \"{text}\"");
            return Err(SqlError::new(code::INVALID_TEXT, message));
        }
        let mut reader = Reader { text, at: 0, depth: 0, filters: 0, subscripts: 0 };
        let strict = reader.word("strict");
        if !strict {
            reader.word("lax");
        }
        let root = match reader.either()? {
            Read::Step(step) => step,
            Read::Condition(condition) => Step::Condition(Box::new(condition)),
        };
        reader.skip_blanks();
        match reader.at == text.len() {
            true => Ok(JsonPath { strict, root }),
            false => Err(reader.unexpected()),
        }
    }

    fn unexpected(&mut self) -> SqlError {
        self.skip_blanks();
        let rest = &self.text[self.at..];
        let message = match rest.chars().next() {
            None => "syntax error at end of jsonpath input".to_owned(),
            Some(first) => {
                let is_word = |c: char| c.is_alphanumeric() || c == '_';
                let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                let length = length.max(first.len_utf8());
                format!("syntax error at or near \"{}\" of jsonpath input", &rest[..length])
            }
        };
        SqlError::new(code::SYNTAX_ERROR, message)
    }

    /// Steps over blanks and comments.
    fn skip_blanks(&mut self) {
        loop {
            let rest = &self.text[self.at..];
            let blanks = rest.len() - rest.trim_start().len();
            self.at += blanks;
            let rest = &self.text[self.at..];
            match rest.strip_prefix("/*").and_then(|inner| inner.find("*/")) {
                Some(end) => self.at += end + 4,
                None => return,
            }
        }
    }

    /// Steps over a sign if it is next.
    fn sign(&mut self, sign: &str) -> bool {
        self.skip_blanks();
        let is_next = self.text[self.at..].starts_with(sign);
        self.at += if is_next { sign.len() } else { 0 };
        is_next
    }

    fn expect(&mut self, sign: &str) -> Result<()> {
        if self.sign(sign) { Ok(()) } else { Err(self.unexpected()) }
    }

    /// Steps over a word if it is next, in any case.
    fn word(&mut self, word: &str) -> bool {
        self.skip_blanks();
        let found = self.peek_word().eq_ignore_ascii_case(word);
        self.at += if found { word.len() } else { 0 };
        found
    }

    /// The word that is next.
    fn peek_word(&self) -> &'t str {
        let rest = &self.text[self.at..];
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
        let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        &rest[..length]
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == MAX_DEPTH {
            return Err(too_deep());
        }
        self.depth += 1;
        let done = read(self);
        self.depth -= 1;
        done
    }

    /// `a || b`
    fn either(&mut self) -> Result<Read> {
        self.deeper(|reader| {
            let mut left = reader.both()?;
            while reader.sign("||") {
                let (a, b) = (reader.truth(left)?, reader.both()?);
                let b = reader.truth(b)?;
                left = Read::Condition(Condition::Or(Box::new(a), Box::new(b)));
            }
            Ok(left)
        })
    }

    /// `a && b`
    fn both(&mut self) -> Result<Read> {
        let mut left = self.comparison()?;
        while self.sign("&&") {
            let (a, b) = (self.truth(left)?, self.comparison()?);
            let b = self.truth(b)?;
            left = Read::Condition(Condition::And(Box::new(a), Box::new(b)));
        }
        Ok(left)
    }

    fn truth(&mut self, read: Read) -> Result<Condition> {
        match read {
            Read::Condition(condition) => Ok(condition),
            Read::Step(_) => Err(self.unexpected()),
        }
    }

    fn value(&mut self, read: Read) -> Result<Step> {
        match read {
            Read::Step(step) => Ok(step),
            Read::Condition(_) => Err(self.unexpected()),
        }
    }

    fn comparison(&mut self) -> Result<Read> {
        if self.sign("!") {
            let of = match self.word("exists") {
                true => self.exists()?,
                false => {
                    self.expect("(")?;
                    let inner = self.either()?;
                    self.expect(")")?;
                    self.truth(inner)?
                }
            };
            return Ok(Read::Condition(Condition::Not(Box::new(of))));
        }
        if self.word("exists") {
            return Ok(Read::Condition(self.exists()?));
        }
        let left = match self.sum()? {
            Read::Step(step) => step,
            done => return Ok(done),
        };
        for (sign, how) in [
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<>", Comparison::NotEqual),
            ("<=", Comparison::LessOrEqual),
            ("<", Comparison::Less),
            (">=", Comparison::GreaterOrEqual),
            (">", Comparison::Greater),
        ] {
            if self.sign(sign) {
                let right = self.sum()?;
                let right = self.value(right)?;
                let compare = Condition::Compare(Box::new(left), how, Box::new(right));
                return Ok(Read::Condition(compare));
            }
        }
        if self.word("starts") {
            if !self.word("with") {
                return Err(self.unexpected());
            }
            self.skip_blanks();
            let right = match self.text[self.at..].chars().next() {
                Some('"') => Step::String(self.string()?),
                Some('$') => self.root()?,
                _ => return Err(self.unexpected()),
            };
            let starts = Condition::StartsWith(Box::new(left), Box::new(right));
            return Ok(Read::Condition(starts));
        }
        if self.word("like_regex") {
            return self.like_regex(left).map(Read::Condition);
        }
        Ok(Read::Step(left))
    }

    fn exists(&mut self) -> Result<Condition> {
        self.expect("(")?;
        let inner = self.either()?;
        let inner = self.value(inner)?;
        self.expect(")")?;
        Ok(Condition::Exists(Box::new(inner)))
    }

    fn like_regex(&mut self, of: Step) -> Result<Condition> {
        self.skip_blanks();
        let pattern = self.string()?;
        let mut flags = Flags::default();
        if self.word("flag") {
            self.skip_blanks();
            for flag in self.string()?.chars() {
                match flag {
                    'i' => flags.ignore_case = true,
                    's' => flags.dot_all = true,
                    'm' => flags.lines = true,
                    'q' => flags.literal = true,
                    'x' => {
                        let message = "XQuery \"x\" flag (expanded regular expressions) is not \
                                       implemented";
                        return Err(SqlError::new(code::FEATURE_NOT_SUPPORTED, message));
                    }
                    other => {
                        let message = "invalid input syntax for type jsonpath";
                        let detail = format!(
                            "Unrecognized flag character \"{other}\" in LIKE_REGEX predicate."
                        );
                        return Err(SqlError::new(code::SYNTAX_ERROR, message).detail(detail));
                    }
                }
            }
        }
        Ok(Condition::LikeRegex { of: Box::new(of), pattern, flags })
    }

    /// `a + b`
    fn sum(&mut self) -> Result<Read> {
        let signs = [("+", Arithmetic::Add), ("-", Arithmetic::Subtract)];
        self.calculations(&signs, Self::product)
    }

    /// `a * b`
    fn product(&mut self) -> Result<Read> {
        let signs =
            [("*", Arithmetic::Multiply), ("/", Arithmetic::Divide), ("%", Arithmetic::Remainder)];
        self.calculations(&signs, Self::signed)
    }

    /// Operands with these signs between them, from left to right.
    fn calculations(
        &mut self,
        signs: &[(&str, Arithmetic)],
        operand: fn(&mut Self) -> Result<Read>,
    ) -> Result<Read> {
        let mut left = operand(self)?;
        while let Some((_, op)) = signs.iter().find(|(sign, _)| self.sign(sign)) {
            let (a, b) = (self.value(left)?, operand(self)?);
            let b = self.value(b)?;
            left = Read::Step(Step::Calculation(Box::new(a), *op, Box::new(b)));
        }
        Ok(left)
    }

    fn signed(&mut self) -> Result<Read> {
        let sign = if self.sign("+") {
            Sign::Plus
        } else if self.sign("-") {
            Sign::Minus
        } else {
            return self.primary();
        };
        let of = self.deeper(Self::signed)?;
        let of = self.value(of)?;
        Ok(Read::Step(match (sign, of) {
            (Sign::Plus, of @ Step::Number(_)) => of,
            (Sign::Minus, Step::Number(text)) => {
                Step::Number(numeric::negate(&numeric::parse(&text)?).to_string())
            }
            (sign, of) => Step::Sign(sign, Box::new(of)),
        }))
    }

    /// A value with its members.
    fn primary(&mut self) -> Result<Read> {
        self.skip_blanks();
        let first = self.text[self.at..].chars().next();
        let step = match first {
            Some('(') => {
                self.at += 1;
                let inner = self.either()?;
                self.expect(")")?;
                match inner {
                    Read::Condition(condition) if self.word("is") => {
                        return match self.word("unknown") {
                            true => {
                                let of = Box::new(condition);
                                Ok(Read::Condition(Condition::IsUnknown(of)))
                            }
                            false => Err(self.unexpected()),
                        };
                    }
                    Read::Condition(condition) => {
                        if !self.has_member() {
                            return Ok(Read::Condition(condition));
                        }
                        Step::Condition(Box::new(condition))
                    }
                    Read::Step(step) => step,
                }
            }
            Some('$') => self.root()?,
            Some('@') if self.filters > 0 => {
                self.at += 1;
                Step::Current
            }
            Some('@') => {
                let message = "@ is not allowed in root expressions";
                return Err(SqlError::new(code::SYNTAX_ERROR, message));
            }
            Some('"') => Step::String(self.string()?),
            Some(c) if c.is_ascii_digit() || c == '.' => Step::Number(self.number()?),
            _ => self.named()?,
        };
        self.members(step).map(Read::Step)
    }

    fn has_member(&mut self) -> bool {
        self.skip_blanks();
        matches!(self.text[self.at..].chars().next(), Some('.' | '[' | '?'))
    }

    fn root(&mut self) -> Result<Step> {
        self.at += 1;
        if self.text[self.at..].starts_with('"') {
            return self.string().map(Step::Variable);
        }
        let name = self.peek_word();
        self.at += name.len();
        Ok(if name.is_empty() { Step::Root } else { Step::Variable(name.to_owned()) })
    }

    /// A word that stands for a value.
    fn named(&mut self) -> Result<Step> {
        let word = self.peek_word();
        let step = match word {
            "null" => Step::Null,
            "true" => Step::Bool(true),
            "false" => Step::Bool(false),
            "last" if self.subscripts > 0 => Step::Last,
            "last" => {
                let message = "LAST is allowed only in array subscripts";
                return Err(SqlError::new(code::SYNTAX_ERROR, message));
            }
            _ => return Err(self.unexpected()),
        };
        self.at += word.len();
        Ok(step)
    }

    fn number(&mut self) -> Result<String> {
        let rest = &self.text[self.at..];
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let mut length = digits(rest);
        if rest[length..].starts_with('.') && !rest[length..].starts_with("..") {
            let fraction = digits(&rest[length + 1..]);
            // A point after a number may begin the name of a member.
            length += if fraction > 0 || length > 0 { 1 + fraction } else { 0 };
        }
        if let Some(exponent) = rest[length..].strip_prefix(['e', 'E']) {
            let sign = usize::from(exponent.starts_with(['+', '-']));
            let count = digits(&exponent[sign..]);
            length += if count > 0 { 1 + sign + count } else { 0 };
        }
        let text = &rest[..length];
        let full = match text {
            text if text.starts_with('.') => format!("0{text}"),
            text => text.trim_end_matches('.').to_owned(),
        };
        let follows = rest[length..].chars().next();
        if !is_number(&full) || follows.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            let message = format!(
                "trailing junk after numeric literal at or near \"{text}\" of \
                                   jsonpath input"
            );
            return Err(SqlError::new(code::SYNTAX_ERROR, message));
        }
        self.at += length;
        Ok(numeric::parse(&full)?.to_string())
    }

    /// A string in quotes, which is next, with JSON's escapes and some more.
    fn string(&mut self) -> Result<String> {
        let rest = &self.text[self.at..];
        if !rest.starts_with('"') {
            return Err(self.unexpected());
        }
        let mut escaped = false;
        let end = rest.bytes().enumerate().skip(1).find(|(_, byte)| {
            let is_end = *byte == b'"' && !escaped;
            escaped = *byte == b'\\' && !escaped;
            is_end
        });
        let Some((end, _)) = end else {
            let message = "unterminated quoted string at end of jsonpath input";
            return Err(SqlError::new(code::SYNTAX_ERROR, message));
        };
        self.at += end + 1;
        unescaped(&rest[1..end])
    }

    fn members(&mut self, of: Step) -> Result<Step> {
        let (mut members, around) = (Vec::new(), self.depth);
        loop {
            if self.has_member() {
                if self.depth == MAX_DEPTH {
                    return Err(too_deep());
                }
                self.depth += 1;
            }
            if self.sign(".**") {
                members.push(self.levels()?);
            } else if self.sign(".*") {
                members.push(Accessor::AnyKey);
            } else if self.sign(".") {
                members.push(self.key_or_method()?);
            } else if self.sign("[") {
                members.push(self.items()?);
            } else if self.sign("?") {
                self.expect("(")?;
                self.filters += 1;
                let inner = self.either()?;
                let inner = self.truth(inner)?;
                self.filters -= 1;
                self.expect(")")?;
                members.push(Accessor::Filter(inner));
            } else {
                self.depth = around;
                return Ok(match members.is_empty() {
                    true => of,
                    false => Step::Members(Box::new(of), members),
                });
            }
        }
    }

    fn level(&mut self) -> Result<Level> {
        if self.word("last") {
            return Ok(Level::Last);
        }
        self.skip_blanks();
        let word = self.peek_word();
        let number = word.parse().map_err(|_| self.unexpected())?;
        self.at += word.len();
        Ok(Level::Number(number))
    }

    fn levels(&mut self) -> Result<Accessor> {
        if !self.sign("{") {
            return Ok(Accessor::AnyLevel { first: Level::Number(0), last: Level::Last });
        }
        let first = self.level()?;
        let last = if self.word("to") { self.level()? } else { first };
        self.expect("}")?;
        Ok(Accessor::AnyLevel { first, last })
    }

    fn key_or_method(&mut self) -> Result<Accessor> {
        self.skip_blanks();
        if self.text[self.at..].starts_with('"') {
            return self.string().map(Accessor::Key);
        }
        let word = self.peek_word();
        if word.is_empty() || word.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(self.unexpected());
        }
        self.at += word.len();
        let behind = self.at;
        if self.sign("(") {
            let method = Method::ALL.into_iter().find(|method| method.name() == word);
            if let Some(method) = method {
                self.expect(")")?;
                return Ok(Accessor::Method(method));
            }
            if word == "datetime" {
                return Err(SqlError::unsupported("the jsonpath method datetime()"));
            }
            self.at = behind;
            return Err(self.unexpected());
        }
        Ok(Accessor::Key(word.to_owned()))
    }

    fn items(&mut self) -> Result<Accessor> {
        if self.sign("*") {
            self.expect("]")?;
            return Ok(Accessor::AnyItem);
        }
        self.subscripts += 1;
        let mut places = Vec::new();
        loop {
            let first = self.deeper(Self::sum)?;
            let first = self.value(first)?;
            let last = match self.word("to") {
                true => {
                    let last = self.sum()?;
                    Some(self.value(last)?)
                }
                false => None,
            };
            places.push((first, last));
            if !self.sign(",") {
                break;
            }
        }
        self.subscripts -= 1;
        self.expect("]")?;
        Ok(Accessor::Items(places))
    }
}

fn too_deep() -> SqlError {
    SqlError::new(code::TOO_COMPLEX, "stack depth limit exceeded")
        .detail(format!("A path has at most {MAX_DEPTH} levels."))
}

/// What a string says whose escapes are JSON's, `\v`, `\xHH` and `\u{H..}`.
fn unescaped(inner: &str) -> Result<String> {
    let invalid = || {
        let message = format!("invalid escape sequence in \"{inner}\" of jsonpath input");
        SqlError::new(code::SYNTAX_ERROR, message)
    };
    let mut units: Vec<u16> = Vec::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            units.extend(c.encode_utf16(&mut [0; 2]).iter());
            continue;
        }
        let number = match chars.next().ok_or_else(invalid)? {
            'b' => 8,
            'f' => 12,
            'n' => 10,
            'r' => 13,
            't' => 9,
            'v' => 11,
            'x' => hex(&mut chars, 2).ok_or_else(invalid)?,
            'u' => match chars.clone().next() {
                Some('{') => {
                    chars.next();
                    let digits: String = chars.by_ref().take_while(|c| *c != '}').collect();
                    u32::from_str_radix(&digits, 16).map_err(|_| invalid())?
                }
                _ => hex(&mut chars, 4).ok_or_else(invalid)?,
            },
            other => u32::from(other),
        };
        match (u16::try_from(number), char::from_u32(number)) {
            (Ok(0), _) => {
                let message = "unsupported Unicode escape sequence";
                let error = SqlError::new(code::UNTRANSLATABLE_CHARACTER, message);
                return Err(error.detail("\\u0000 cannot be converted to text."));
            }
            // Half of a character is put together with the other one.
            (Ok(unit), _) => units.push(unit),
            (Err(_), Some(c)) => units.extend(c.encode_utf16(&mut [0; 2]).iter()),
            (Err(_), None) => return Err(invalid()),
        }
    }
    String::from_utf16(&units).map_err(|_| invalid())
}

/// The number that so many hexadecimal digits are.
fn hex(chars: &mut std::str::Chars<'_>, count: usize) -> Option<u32> {
    (0..count).try_fold(0, |number, _| Some(number * 16 + chars.next()?.to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_printed_as_postgresql_prints_it() {
        for (text, shown) in [
            ("$", "$"),
            ("lax $.a.b", "$.\"a\".\"b\""),
            ("strict $.a[*]", "strict $.\"a\"[*]"),
            ("$.a[0, 2 to last, last - 1]", "$.\"a\"[0,2 to last,last - 1]"),
            ("$.** ? (@.a == 1)", "$.**?(@.\"a\" == 1)"),
            ("$.**{2}.**{1 to last}", "$.**{2}.**{1 to last}"),
            (
                "$ ? (@.a > 1 && (@.b < 2 || @.c == \"x\"))",
                "$?(@.\"a\" > 1 && (@.\"b\" < 2 || @.\"c\" == \"x\"))",
            ),
            ("($.a + 1) * -2", "(($.\"a\" + 1) * -2)"),
            ("$.a ? (!(@ == 1)).size()", "$.\"a\"?(!(@ == 1)).size()"),
            ("$ ? ((@ > 1) is unknown)", "$?((@ > 1) is unknown)"),
            ("$ ? (exists (@.x))", "$?(exists (@.\"x\"))"),
            (
                "$ ? (@ starts with \"a\" && @ like_regex \"^b\" flag \"iq\")",
                "$?(@ starts with \"a\" && @ like_regex \"^b\" flag \"iq\")",
            ),
            ("$x.y", "$\"x\".\"y\""),
            ("$.a == 1 && !($.b == 2)", "($.\"a\" == 1 && !($.\"b\" == 2))"),
            ("1 + 2 * 3 - 4", "((1 + 2 * 3) - 4)"),
            ("-(-$.a)", "(-(-$.\"a\"))"),
            ("- - 1", "1"),
            ("(1).type()", "(1).type()"),
            ("\"\\x41\\u{1F600}\\ud83d\\ude00\"", "\"A😀😀\""),
        ] {
            let path = JsonPath::parse(text).unwrap();
            assert_eq!(path.to_string(), shown, "{text}");
            assert_eq!(JsonPath::parse(&path.to_string()).unwrap(), path, "{text}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for text in ["a", "$.", "$[", "$ ? (@", "@", "last", "$ ? (1)", "1 == 1 == 1", "$.1a"] {
            assert_eq!(JsonPath::parse(text).unwrap_err().sqlstate, "42601", "{text}");
        }
        let deep = "(".repeat(100_000);
        assert_eq!(JsonPath::parse(&deep).unwrap_err().sqlstate, "54001");
    }
}
