//! Splits Rust text into what is code and what is comment, line by line.
//!
//! Both results have the lines and columns of the text they came from: what belongs to the other
//! side, and what stands inside string and character literals, is blank. So a rule about words in
//! comments never stumbles over a string, and a count of code lines never counts prose.
//! It knows no grammar; `source` asks `syn` for that.

/// The two sides of one text.
pub(crate) struct Mask {
    /// The code; literals are kept as their quotes only.
    pub(crate) code: String,
    /// The comments, slashes included.
    pub(crate) comments: String,
}

/// Where a character goes.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Code,
    Comment,
    Neither,
}

struct Scanner {
    chars: Vec<char>,
    at: usize,
    mask: Mask,
}

/// Separates comments and literals from code.
pub(crate) fn mask(text: &str) -> Mask {
    let mask = Mask { code: String::new(), comments: String::new() };
    let mut scanner = Scanner { chars: text.chars().collect(), at: 0, mask };
    scanner.scan();
    assert_eq!(scanner.mask.code.chars().count(), scanner.chars.len(), "every character is put");
    assert_eq!(scanner.mask.code.lines().count(), scanner.mask.comments.lines().count());
    scanner.mask
}

impl Scanner {
    fn scan(&mut self) {
        while let Some(c) = self.ahead(0) {
            match (c, self.ahead(1)) {
                ('/', Some('/')) => self.line_comment(),
                ('/', Some('*')) => self.block_comment(),
                ('"', _) => self.string(),
                ('\'', _) => self.quote(),
                _ if c.is_alphabetic() || c == '_' => self.word(),
                _ => self.put(Side::Code),
            }
        }
    }

    fn ahead(&self, distance: usize) -> Option<char> {
        self.chars.get(self.at + distance).copied()
    }

    /// Sends the current character to one side and a blank to the other.
    fn put(&mut self, side: Side) {
        let Some(c) = self.ahead(0) else { return };
        let on = |wanted| if c == '\n' || side == wanted { c } else { ' ' };
        let (code, comment) = (on(Side::Code), on(Side::Comment));
        self.mask.code.push(code);
        self.mask.comments.push(comment);
        self.at += 1;
    }

    fn put_many(&mut self, count: usize, side: Side) {
        (0..count).for_each(|_| self.put(side));
    }

    fn line_comment(&mut self) {
        while self.ahead(0).is_some_and(|c| c != '\n') {
            self.put(Side::Comment);
        }
    }

    /// Block comments nest.
    fn block_comment(&mut self) {
        let mut depth = 0;
        while let Some(c) = self.ahead(0) {
            let step = match (c, self.ahead(1)) {
                ('/', Some('*')) => 1,
                ('*', Some('/')) => -1,
                _ => 0,
            };
            depth += step;
            self.put_many(if step == 0 { 1 } else { 2 }, Side::Comment);
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        assert_eq!(self.ahead(0), Some('"'));
        self.put(Side::Code);
        while let Some(c) = self.ahead(0) {
            match c {
                '\\' => self.put_many(2, Side::Neither),
                '"' => return self.put(Side::Code),
                _ => self.put(Side::Neither),
            }
        }
    }

    fn raw_string(&mut self, hashes: usize) {
        assert_eq!(self.ahead(hashes), Some('"'), "the caller saw the quote");
        self.put_many(hashes + 1, Side::Code);
        while let Some(c) = self.ahead(0) {
            let closes = c == '"' && (1..=hashes).all(|i| self.ahead(i) == Some('#'));
            if closes {
                return self.put_many(hashes + 1, Side::Code);
            }
            self.put(Side::Neither);
        }
    }

    /// A character literal, or the apostrophe of a lifetime.
    fn quote(&mut self) {
        assert_eq!(self.ahead(0), Some('\''));
        let literal = self.ahead(1) == Some('\\') || self.ahead(2) == Some('\'');
        self.put(Side::Code);
        if !literal {
            return;
        }
        loop {
            match self.ahead(0) {
                Some('\\') => self.put_many(2, Side::Neither),
                Some('\'') | None => return self.put(Side::Code),
                Some(_) => self.put(Side::Neither),
            }
        }
    }

    /// An identifier, which may turn out to be the prefix of a raw string.
    fn word(&mut self) {
        let start = self.at;
        while self.ahead(0).is_some_and(|c| c.is_alphanumeric() || c == '_') {
            self.put(Side::Code);
        }
        let word: String = self.chars[start..self.at].iter().collect();
        let hashes = self.chars[self.at..].iter().take_while(|c| **c == '#').count();
        if matches!(word.as_str(), "r" | "br" | "cr") && self.ahead(hashes) == Some('"') {
            self.raw_string(hashes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::mask;

    #[test]
    fn comments_and_literals_are_kept_apart() {
        let both = mask("let a = \"// no\"; // yes 'x\nlet b = 'c'; /* one /* two */ three */ d");
        assert_eq!(both.code.lines().next().map(str::trim_end), Some("let a = \"     \";"));
        assert!(both.comments.contains("// yes 'x") && !both.comments.contains("no"));
        assert!(both.code.ends_with(" d") && both.comments.contains("three"));
    }

    #[test]
    fn raw_strings_escapes_and_lifetimes_do_not_derail_it() {
        let code = mask("f::<'a>(r#\"a \" // b\"#, '\\'', b'\"', \"\\\"\", r#type) // end").code;
        let squeezed: String = code.split_whitespace().collect();
        assert_eq!(squeezed, "f::<'a>(r#\"\"#,'',b'',\"\",r#type)");
    }
}
