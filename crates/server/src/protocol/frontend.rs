//! Messages of a client, read from their bytes.
//!
//! Invariants: every byte string is either a message or a [`Violation`]; nothing here panics and
//! nothing is allocated by a number that a client claims.
//! Does not do: reading from a socket.

use std::borrow::Cow;

use rightlink_sql::{Encoding, SqlError};

use super::LENGTH;

/// Bytes that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    sqlstate: &'static str,
    what: &'static str,
}

impl Violation {
    pub(crate) fn new(what: &'static str) -> Violation {
        Violation { sqlstate: "08P01", what }
    }
}

impl From<Violation> for SqlError {
    fn from(violation: Violation) -> SqlError {
        SqlError::new(violation.sqlstate, violation.what)
    }
}

type Parsed<T> = Result<T, Violation>;

/// What Describe and Close name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    Statement(&'a str),
    Portal(&'a str),
}

/// A message.
#[derive(Debug, PartialEq)]
pub(crate) enum Message<'a> {
    Query(&'a str),
    Parse {
        name: &'a str,
        sql: &'a str,
        types: Vec<u32>,
    },
    Bind(Bind<'a>),
    Describe(Target<'a>),
    Execute {
        portal: &'a str,
        limit: u64,
    },
    Close(Target<'a>),
    Sync,
    Flush,
    Terminate,
    CopyData(&'a [u8]),
    CopyDone,
    CopyFail(&'a str),
    /// An answer about authentication.
    Password(&'a [u8]),
    FunctionCall,
}

/// Bind: values for the parameters of a statement.
#[derive(Debug, PartialEq)]
pub(crate) struct Bind<'a> {
    pub(crate) portal: &'a str,
    pub(crate) statement: &'a str,
    pub(crate) formats: Shorts<'a>,
    pub(crate) values: Vec<Option<&'a [u8]>>,
    /// Of the columns of the results.
    pub(crate) results: Shorts<'a>,
}

/// A list of formats as it lies in a message: none, one for all, or one each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shorts<'a>(&'a [[u8; 2]]);

impl Shorts<'_> {
    pub(crate) fn len(self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = i16> {
        self.0.iter().map(|pair| i16::from_be_bytes(*pair))
    }

    /// The format of the `at`th value.
    pub(crate) fn at(self, at: usize) -> i16 {
        match self.0 {
            [all] => i16::from_be_bytes(*all),
            each => each.get(at).map_or(0, |pair| i16::from_be_bytes(*pair)),
        }
    }
}

/// The format of the `at`th of a list of formats.
pub(crate) fn format_at(formats: &[i16], at: usize) -> i16 {
    match formats {
        [] => 0,
        [all] => *all,
        each => each.get(at).copied().unwrap_or(0),
    }
}

/// The first whole message of `bytes`: its kind, its body, and the bytes it takes. `None` if more
/// bytes are needed.
pub(crate) fn frame(bytes: &[u8], longest: usize) -> Parsed<Option<(u8, &[u8], usize)>> {
    let [kind, a, b, c, d, rest @ ..] = bytes else { return Ok(None) };
    let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
    if length < LENGTH {
        return Err(Violation::new("invalid message length"));
    }
    if length > longest {
        return Err(Violation::new("message is too long"));
    }
    Ok(rest.get(..length - LENGTH).map(|body| (*kind, body, length + 1)))
}

/// The length that the first message of `bytes` claims, if that much is there.
pub(crate) fn claimed(bytes: &[u8]) -> Option<usize> {
    let [_, a, b, c, d, ..] = bytes else { return None };
    Some(u32::from_be_bytes([*a, *b, *c, *d]) as usize + 1)
}

/// What is left of a body.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn bytes(&mut self, count: usize) -> Parsed<&'a [u8]> {
        let (taken, rest) = self
            .0
            .split_at_checked(count)
            .ok_or(Violation::new("insufficient data left in message"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Parsed<u8> {
        self.bytes(1).map(|bytes| bytes[0])
    }

    fn short(&mut self) -> Parsed<u16> {
        self.bytes(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn long(&mut self) -> Parsed<u32> {
        self.bytes(4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
    }

    fn text(&mut self) -> Parsed<&'a str> {
        let end = self.0.iter().position(|byte| *byte == 0);
        let end = end.ok_or(Violation::new("invalid string in message"))?;
        let bytes = self.bytes(end)?;
        self.byte()?;
        let what = "invalid byte sequence for encoding \"UTF8\"";
        std::str::from_utf8(bytes).map_err(|_| Violation { sqlstate: "22021", what })
    }

    fn shorts(&mut self) -> Parsed<Shorts<'a>> {
        let count = usize::from(self.short()?);
        Ok(Shorts(self.bytes(count * 2)?.as_chunks().0))
    }

    fn target(&mut self) -> Parsed<Target<'a>> {
        match self.byte()? {
            b'S' => self.text().map(Target::Statement),
            b'P' => self.text().map(Target::Portal),
            _ => Err(Violation::new("invalid DESCRIBE or CLOSE message subtype")),
        }
    }

    fn end<T>(&self, parsed: T) -> Parsed<T> {
        if self.0.is_empty() { Ok(parsed) } else { Err(Violation::new("invalid message format")) }
    }
}

/// The body of a message whose statements and rows are in `encoding`, with these in the database's.
/// Names of statements and portals stay as they are, and so do rows of a COPY in an encoding of
/// several bytes a character, since messages may cut one.
///
/// # Errors
/// Bytes that are no text of `encoding`.
pub(crate) fn decoded(
    kind: u8,
    body: &[u8],
    encoding: Encoding,
) -> Result<Cow<'_, [u8]>, SqlError> {
    if encoding.is_same() {
        return Ok(Cow::Borrowed(body));
    }
    let whole = |text: Cow<'_, str>| Cow::Owned(text.into_owned().into_bytes());
    match kind {
        b'Q' | b'f' => encoding.decode(body).map(whole),
        b'd' if encoding.is_single_byte() => encoding.decode(body).map(whole),
        b'P' => {
            let mut ends = body.iter().enumerate().filter(|(_, byte)| **byte == 0);
            let Some((end, _)) = ends.nth(1) else { return Ok(Cow::Borrowed(body)) };
            let (texts, types) = body.split_at(end);
            let mut bytes = encoding.decode(texts)?.into_owned().into_bytes();
            bytes.extend_from_slice(types);
            Ok(Cow::Owned(bytes))
        }
        _ => Ok(Cow::Borrowed(body)),
    }
}

/// Reads a message from its kind and body.
pub(crate) fn message(kind: u8, body: &[u8]) -> Parsed<Message<'_>> {
    let mut body = Body(body);
    let parsed = match kind {
        b'Q' => Message::Query(body.text()?),
        b'P' => {
            let (name, sql) = (body.text()?, body.text()?);
            let count = usize::from(body.short()?);
            let types = body.bytes(count * 4)?.chunks_exact(4);
            let types = types.map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]])).collect();
            Message::Parse { name, sql, types }
        }
        b'B' => bind(&mut body)?,
        b'D' => Message::Describe(body.target()?),
        b'E' => Message::Execute { portal: body.text()?, limit: limit(body.long()?) },
        b'C' => Message::Close(body.target()?),
        b'S' => Message::Sync,
        b'H' => Message::Flush,
        b'X' => Message::Terminate,
        b'd' => return Ok(Message::CopyData(body.0)),
        b'c' => Message::CopyDone,
        b'f' => Message::CopyFail(body.text()?),
        b'p' => return Ok(Message::Password(body.0)),
        b'F' => return Ok(Message::FunctionCall),
        _ => return Err(Violation::new("invalid frontend message type")),
    };
    body.end(parsed)
}

/// A number of rows; none and less mean all.
fn limit(rows: u32) -> u64 {
    if rows > i32::MAX as u32 { 0 } else { u64::from(rows) }
}

fn bind<'a>(body: &mut Body<'a>) -> Parsed<Message<'a>> {
    let (portal, statement) = (body.text()?, body.text()?);
    let formats = body.shorts()?;
    let count = usize::from(body.short()?);
    // Each value takes the bytes of its length at least: a count that lies reserves little.
    let mut values = Vec::with_capacity(count.min(body.0.len() / LENGTH));
    for _ in 0..count {
        let length = body.long()?;
        let value = if length == u32::MAX { None } else { Some(body.bytes(length as usize)?) };
        values.push(value);
    }
    if formats.len() > 1 && formats.len() != count {
        return Err(Violation::new("bind message has the wrong number of parameter formats"));
    }
    let results = body.shorts()?;
    if formats.iter().chain(results.iter()).any(|format| !matches!(format, 0 | 1)) {
        return Err(Violation { sqlstate: "22023", what: "unsupported format code" });
    }
    Ok(Message::Bind(Bind { portal, statement, formats, values, results }))
}

/// The first packet of a connection.
#[derive(Debug, PartialEq)]
pub(crate) enum Startup<'a> {
    Ssl,
    Gss,
    Cancel {
        pid: u32,
        secret: u32,
    },
    /// Minor version, and options in pairs.
    Start {
        minor: u32,
        options: Vec<(&'a str, &'a str)>,
    },
}

/// The first packet and the bytes it takes; `None` if more bytes are needed.
pub(crate) fn startup(bytes: &[u8], longest: usize) -> Parsed<Option<(Startup<'_>, usize)>> {
    let Some(head) = bytes.first_chunk::<LENGTH>() else { return Ok(None) };
    let length = u32::from_be_bytes(*head) as usize;
    if length < LENGTH + 4 || length > longest {
        return Err(Violation::new("invalid length of startup packet"));
    }
    let Some(body) = bytes.get(LENGTH..length) else { return Ok(None) };
    let mut body = Body(body);
    let packet = match body.long()? {
        super::SSL_REQUEST => Startup::Ssl,
        super::GSS_REQUEST => Startup::Gss,
        super::CANCEL_REQUEST => Startup::Cancel { pid: body.long()?, secret: body.long()? },
        version if version >> 16 == super::VERSION >> 16 => {
            let mut options = Vec::new();
            while body.0.first().is_some_and(|byte| *byte != 0) {
                options.push((body.text()?, body.text()?));
            }
            if body.0 != [0] {
                return Err(Violation::new("invalid startup packet layout"));
            }
            Startup::Start { minor: version & 0xffff, options }
        }
        _ => return Err(Violation::new("unsupported frontend protocol")),
    };
    Ok(Some((packet, length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_arrives_in_pieces() {
        let bytes = b"Q\0\0\0\x0dselect 1\0S\0\0\0\x04";
        for cut in 0..14 {
            assert_eq!(frame(&bytes[..cut], 100), Ok(None));
        }
        let (kind, body, taken) = frame(bytes, 100).unwrap().unwrap();
        assert_eq!(message(kind, body), Ok(Message::Query("select 1")));
        let (kind, body, _) = frame(&bytes[taken..], 100).unwrap().unwrap();
        assert_eq!(message(kind, body), Ok(Message::Sync));
        assert!(frame(bytes, 12).is_err());
        assert!(frame(b"Q\0\0\0\x03", 100).is_err());
        assert_eq!(claimed(b"Q\xff\xff\xff\xff"), Some(u32::MAX as usize + 1));
    }

    #[test]
    fn counts_that_lie_are_violations() {
        assert!(message(b'P', b"\0\0\xff\xff").is_err());
        assert!(message(b'B', b"\0\0\0\0\xff\xff").is_err());
        assert!(message(b'B', b"\0\0\0\0\0\x01\x7f\xff\xff\xff").is_err());
        assert!(message(b'Q', b"no end").is_err());
        assert!(message(b'Q', b"\xff\0").is_err());
        assert!(message(b'S', b"x").is_err());
        assert!(message(b'?', b"").is_err());
    }

    #[test]
    fn a_bind_has_values_and_formats() {
        let body = b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x01x\xff\xff\xff\xff\0\0";
        let Ok(Message::Bind(bind)) = message(b'B', body) else { panic!("a bind") };
        assert_eq!((bind.portal, bind.statement), ("p", "s"));
        assert_eq!(bind.values, [Some(&b"x"[..]), None]);
        assert_eq!((bind.formats.at(1), bind.results.at(5)), (1, 0));
    }

    #[test]
    fn first_packets_are_told_apart() {
        let start = b"\0\0\0\x12\0\x03\0\0user\0ann\0\0x";
        let (packet, taken) = startup(start, 100).unwrap().unwrap();
        let options = vec![("user", "ann")];
        assert_eq!((packet, taken), (Startup::Start { minor: 0, options }, 18));
        assert!(startup(b"\0\0\0\x04", 100).is_err());
        assert!(startup(b"\x7f\0\0\0", 100).is_err());
        assert_eq!(startup(b"\0\0\0", 100), Ok(None));
    }

    /// Any bytes are read or refused.
    #[test]
    fn no_bytes_panic() {
        let mut state = 1u64;
        for round in 0..20_000 {
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) as u8
            };
            let bytes: Vec<u8> =
                (0..round % 40).map(|_| if next() % 3 == 0 { 0 } else { next() }).collect();
            for kind in b"QPBDECSHXdcfpF" {
                let _ = message(*kind, &bytes);
            }
            let _ = (startup(&bytes, 1_000), frame(&bytes, 1_000));
        }
    }
}
