//! Addresses of hosts and networks: PostgreSQL's `inet` and `cidr`.
//!
//! Texts are read and written as by PostgreSQL's `inet_net_pton.c`, `inet_cidr_ntop.c` and
//! `inet_net_ntop.c`, which differ from other readers of addresses: `10.1/16` is a network.
//!
//! Stored bytes compare as the values do: the family, the network without the bits of hosts, the
//! length of the mask, and the bits of the host without zeros at the end.
//!
//! Invariants: no bit behind the address is set, and of a `cidr` none behind the mask; the mask is
//! no longer than the address.
//! Does not do: names of hosts.

use std::cmp::Ordering;
use std::fmt::Write;

use super::{Datum, SqlType};
use crate::error::{Result, SqlError, code};

/// In front of the binary form and of the stored one.
const FAMILY_V4: u8 = 2;
const FAMILY_V6: u8 = 3;

/// An address and the length of a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    is_v6: bool,
    bits: u8,
    /// One of four bytes stands in front.
    bytes: [u8; 16],
}

impl Network {
    /// # Panics
    /// For a mask that is longer than the address.
    pub(crate) fn new(is_v6: bool, bits: u8, address: u128) -> Network {
        let network = Network { is_v6, bits, bytes: address.to_be_bytes() };
        assert!(bits <= network.max_bits(), "a mask covers no more than the address");
        network
    }

    pub(crate) fn is_v6(self) -> bool {
        self.is_v6
    }

    /// Length of the mask.
    pub(crate) fn bits(self) -> u8 {
        self.bits
    }

    /// Bits of the address.
    pub(crate) fn max_bits(self) -> u8 {
        if self.is_v6 { 128 } else { 32 }
    }

    /// The address, whose first bit is the highest.
    pub(crate) fn address(self) -> u128 {
        u128::from_be_bytes(self.bytes)
    }

    /// The bits of so long a mask.
    pub(crate) fn mask_of(bits: u8) -> u128 {
        u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0)
    }

    /// The bits of its mask.
    pub(crate) fn mask(self) -> u128 {
        Network::mask_of(self.bits)
    }

    /// All bits that the address has.
    pub(crate) fn whole_mask(self) -> u128 {
        Network::mask_of(self.max_bits())
    }

    /// The address with another mask.
    pub(crate) fn masked(self, bits: u8) -> Network {
        Network::new(self.is_v6, bits, self.address())
    }

    /// The network that it lies in.
    pub(crate) fn network(self) -> Network {
        Network::new(self.is_v6, self.bits, self.address() & self.mask())
    }

    /// Are the first bits of the two addresses, so many, the same?
    pub(crate) fn agrees(self, other: Network, bits: u8) -> bool {
        self.is_v6 == other.is_v6
            && (self.address() ^ other.address()) & Network::mask_of(bits) == 0
    }

    fn octets(&self) -> &[u8] {
        &self.bytes[..if self.is_v6 { 16 } else { 4 }]
    }

    /// What the store keeps.
    pub(crate) fn to_stored(self) -> Vec<u8> {
        let network = self.network();
        let host = (self.address() & !self.mask()).to_be_bytes();
        let host = &host[..self.octets().len()];
        let zeros = host.iter().rev().take_while(|byte| **byte == 0).count();
        let mut out = vec![if self.is_v6 { FAMILY_V6 } else { FAMILY_V4 }];
        out.extend(network.octets());
        out.push(self.bits);
        out.extend(&host[..host.len() - zeros]);
        out
    }

    /// The value that is stored so.
    pub(crate) fn from_stored(bytes: &[u8]) -> Option<Network> {
        let (family, rest) = bytes.split_first()?;
        let is_v6 = match *family {
            FAMILY_V4 => false,
            FAMILY_V6 => true,
            _ => return None,
        };
        let (network, rest) = rest.split_at_checked(if is_v6 { 16 } else { 4 })?;
        let (bits, host) = rest.split_first()?;
        let wide = |bytes: &[u8]| {
            let mut all = [0; 16];
            all.get_mut(..bytes.len())?.copy_from_slice(bytes);
            Some(u128::from_be_bytes(all))
        };
        let address = wide(network)? | wide(host)?;
        let fits = host.len() <= network.len() && *bits <= if is_v6 { 128 } else { 32 };
        fits.then(|| Network::new(is_v6, *bits, address))
    }

    /// As on the wire.
    pub(crate) fn to_binary(self, is_cidr: bool) -> Vec<u8> {
        let family = if self.is_v6 { FAMILY_V6 } else { FAMILY_V4 };
        let octets = self.octets();
        let mut out = vec![family, self.bits, u8::from(is_cidr), octets.len() as u8];
        out.extend(octets);
        out
    }

    /// Reads what [`Network::to_binary`] writes.
    ///
    /// # Errors
    /// `22P03` for bytes that are none.
    pub(crate) fn from_binary(bytes: &[u8], ty: SqlType) -> Result<Network> {
        let bad = |what: &str| {
            let message = format!("invalid {what} in external \"{}\" value", ty.name());
            Err(SqlError::new(code::INVALID_BINARY, message))
        };
        let short = || SqlError::new("08P01", "insufficient data left in message");
        let [family, bits, _, len, octets @ ..] = bytes else { return Err(short()) };
        let is_v6 = match *family {
            FAMILY_V4 => false,
            FAMILY_V6 => true,
            _ => return bad("address family"),
        };
        let wanted = if is_v6 { 16 } else { 4 };
        if usize::from(*bits) > 8 * wanted {
            return bad("bits");
        }
        if usize::from(*len) != wanted {
            return bad("length");
        }
        if octets.len() < wanted {
            return Err(short());
        }
        if octets.len() > wanted {
            return Err(SqlError::new(code::INVALID_BINARY, "incorrect binary data format"));
        }
        let mut all = [0; 16];
        all[..wanted].copy_from_slice(octets);
        let found = Network { is_v6, bits: *bits, bytes: all };
        if ty == SqlType::Cidr && found.network() != found {
            let message = "invalid external \"cidr\" value";
            return Err(SqlError::new(code::INVALID_BINARY, message).detail(BITS_BEHIND));
        }
        Ok(found)
    }

    /// Reads the text of an `inet` or a `cidr`.
    ///
    /// # Errors
    /// `22P02` for text that is none.
    pub(crate) fn parse(text: &str, ty: SqlType) -> Result<Network> {
        let found = match (text.contains(':'), ty) {
            (true, _) => v6(text.as_bytes()),
            (false, SqlType::Cidr) => v4_network(text.as_bytes()),
            (false, _) => v4(text.as_bytes()),
        };
        let Some(found) = found else {
            let message = format!("invalid input syntax for type {}: \"{text}\"", ty.name());
            return Err(SqlError::new(code::INVALID_TEXT, message));
        };
        if ty == SqlType::Cidr && found.network() != found {
            let message = format!("invalid cidr value: \"{text}\"");
            return Err(SqlError::new(code::INVALID_TEXT, message).detail(BITS_BEHIND));
        }
        Ok(found)
    }

    /// The address alone.
    pub(crate) fn host(self) -> String {
        if self.is_v6 { v6_text(self.bytes) } else { decimals(self.octets()) }
    }

    /// With the mask, which is left out where it covers the whole address unless `always`.
    pub(crate) fn to_text(self, always: bool) -> String {
        match always || self.bits != self.max_bits() {
            true => format!("{}/{}", self.host(), self.bits),
            false => self.host(),
        }
    }

    /// A network without the octets that its mask leaves out.
    pub(crate) fn abbreviated(self) -> String {
        let text = if self.is_v6 { self.short_v6() } else { self.short_v4() };
        format!("{text}/{}", self.bits)
    }

    fn short_v4(self) -> String {
        let network = self.network();
        let shown = usize::from(self.bits.div_ceil(8)).max(1);
        decimals(&network.octets()[..shown])
    }

    fn short_v6(self) -> String {
        if self.bits == 0 {
            return "::".to_owned();
        }
        let bytes = self.network().bytes;
        let words: Vec<u16> = words(bytes).collect();
        let shown = usize::from(self.bits.div_ceil(16)).max(2);
        let zeros = short_zeros(&words[..shown]);
        let holds_v4 = match zeros.len() {
            6 => true,
            5 => words[5] == 0xffff,
            7 => bytes[14] != 0 && bytes[15] != 1,
            _ => false,
        };
        let is_v4 = zeros.len() != shown && zeros.start == 0 && holds_v4;
        let mut out = String::new();
        for (at, word) in words[..shown].iter().enumerate() {
            if zeros.contains(&at) {
                out.extend((at == zeros.start).then_some(':'));
                out.extend((at == shown - 1).then_some(':'));
            } else if is_v4 && at > 5 {
                let [high, low] = word.to_be_bytes();
                out.push(if at == 6 { ':' } else { '.' });
                push(&mut out, format_args!("{high}"));
                if at != 7 || self.bits > 120 {
                    push(&mut out, format_args!(".{low}"));
                }
            } else {
                out.extend((!out.is_empty()).then_some(':'));
                push(&mut out, format_args!("{word:x}"));
            }
        }
        out
    }
}

const BITS_BEHIND: &str = "Value has bits set to right of mask.";

impl PartialOrd for Network {
    fn partial_cmp(&self, other: &Network) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Network {
    /// The families, the bits that both masks cover, the masks, all bits.
    fn cmp(&self, other: &Network) -> Ordering {
        let common = Network::mask_of(self.bits.min(other.bits));
        let (a, b) = (self.address(), other.address());
        let families = self.is_v6.cmp(&other.is_v6);
        families
            .then_with(|| (a & common).cmp(&(b & common)))
            .then_with(|| self.bits.cmp(&other.bits))
            .then_with(|| a.cmp(&b))
    }
}

impl Datum {
    /// The address, if it is one.
    pub(crate) fn as_network(&self) -> Option<Network> {
        match self {
            Datum::Inet(network) | Datum::Cidr(network) => Some(*network),
            _ => None,
        }
    }
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to a string succeeds");
}

fn decimals(octets: &[u8]) -> String {
    let all: Vec<String> = octets.iter().map(u8::to_string).collect();
    all.join(".")
}

fn words(bytes: [u8; 16]) -> impl Iterator<Item = u16> {
    (0..8).map(move |at| u16::from_be_bytes([bytes[2 * at], bytes[2 * at + 1]]))
}

/// The run of zeros that `abbrev` leaves out. A run that is no longer than one before counts on in
/// the next one, as in PostgreSQL.
fn short_zeros(words: &[u16]) -> std::ops::Range<usize> {
    let (mut best, mut run) = (0..0, 0..0);
    for (at, word) in words.iter().enumerate() {
        if *word == 0 {
            let start = if run.is_empty() { at } else { run.start };
            run = start..start + run.len() + 1;
        } else if best.len() < run.len() {
            best = run;
            run = 0..0;
        }
    }
    if best.len() < run.len() { run } else { best }
}

/// The longest run of zeros, of two words at least.
fn zeros(words: &[u16]) -> std::ops::Range<usize> {
    let mut best = 0..0;
    let mut start = 0;
    for (at, word) in words.iter().enumerate() {
        if *word != 0 {
            start = at + 1;
        } else if at + 1 - start > best.len() {
            best = start..at + 1;
        }
    }
    if best.len() < 2 { 0..0 } else { best }
}

fn v6_text(bytes: [u8; 16]) -> String {
    let words: Vec<u16> = words(bytes).collect();
    let zeros = zeros(&words);
    let holds_v4 = zeros.start == 0 && (zeros.len() == 6 || zeros.len() == 5 && words[5] == 0xffff);
    let mut out = String::new();
    for (at, word) in words.iter().enumerate() {
        if zeros.contains(&at) {
            out.extend((at == zeros.start).then_some(':'));
            continue;
        }
        out.extend((at != 0).then_some(':'));
        if at == 6 && holds_v4 {
            out.push_str(&decimals(&bytes[12..]));
            return out;
        }
        push(&mut out, format_args!("{word:x}"));
    }
    out.extend((zeros.end == 8).then_some(':'));
    out
}

/// Digits at the start of `rest`, as a number of at most `most`, and how many they are.
fn number(rest: &[u8], most: u32) -> Option<(u32, usize)> {
    let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let digit = |value: u32, byte: &u8| {
        let value = value.checked_mul(10)?.checked_add(u32::from(byte - b'0'))?;
        (value <= most).then_some(value)
    };
    rest[..len].iter().try_fold(0, digit).filter(|_| len > 0).map(|value| (value, len))
}

/// The mask of an address of four bytes, which ends the text.
fn v4_mask(rest: &[u8]) -> Option<u8> {
    let (bits, len) = number(rest, 32)?;
    (len == rest.len()).then_some(bits as u8)
}

/// Octets between dots, and what is behind them; a dot at the end counts as none.
fn octets(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (mut octets, mut rest) = (Vec::new(), text);
    while rest.first().is_some_and(u8::is_ascii_digit) {
        let (octet, len) = number(rest, 255)?;
        octets.push(octet as u8);
        rest = &rest[len..];
        match rest {
            [b'.', after @ ..] => rest = after,
            _ => break,
        }
    }
    (1..=4).contains(&octets.len()).then_some((octets, rest))
}

fn of_octets(octets: &[u8], bits: u8) -> Network {
    let mut bytes = [0; 16];
    bytes[..octets.len()].copy_from_slice(octets);
    Network { is_v6: false, bits, bytes }
}

/// An `inet` of four bytes: fewer are enough for what the mask covers.
fn v4(text: &[u8]) -> Option<Network> {
    let (octets, rest) = octets(text)?;
    let bits = match rest {
        [] if octets.len() == 4 => 32,
        [b'/', mask @ ..] => v4_mask(mask)?,
        _ => return None,
    };
    (usize::from(bits / 8) <= octets.len()).then(|| of_octets(&octets, bits))
}

/// A `cidr` of four bytes, in decimals or hexadecimal. Without a mask its class decides.
fn v4_network(text: &[u8]) -> Option<Network> {
    let (octets, rest) = match text {
        [b'0', b'x' | b'X', digits @ ..] if digits.first().is_some_and(u8::is_ascii_hexdigit) => {
            hex_octets(digits)?
        }
        _ => {
            let found = octets(text)?;
            let read = text.len() - found.1.len();
            if text[..read].ends_with(b".") {
                return None;
            }
            found
        }
    };
    let bits = match rest {
        [] => class_bits(&octets),
        [b'/', mask @ ..] => v4_mask(mask)?,
        _ => return None,
    };
    Some(of_octets(&octets, bits))
}

/// Bytes in hexadecimal, and what is behind them.
fn hex_octets(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let len = text.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let (digits, rest) = text.split_at(len);
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(0) as u8;
    let pair = |pair: &[u8]| digit(pair[0]) << 4 | pair.get(1).map_or(0, |low| digit(*low));
    let octets: Vec<u8> = digits.chunks(2).map(pair).collect();
    (octets.len() <= 4).then_some((octets, rest))
}

/// The mask of the class that the first octet tells, or of the octets if that is longer.
fn class_bits(octets: &[u8]) -> u8 {
    let of_class = match octets[0] {
        240.. => 32,
        224.. => 8,
        192.. => 24,
        128.. => 16,
        _ => 8,
    };
    match of_class.max(octets.len() as u8 * 8) {
        8 if octets[0] == 224 => 4,
        bits => bits,
    }
}

/// The mask of an address of sixteen bytes, or of four inside of one.
fn v6_mask(text: &[u8]) -> Option<u8> {
    let (bits, len) = number(text, 128)?;
    let leading_zero = len > 1 && text[0] == b'0';
    (len == text.len() && !leading_zero).then_some(bits as u8)
}

/// Four bytes in decimals at the end of an address of sixteen, perhaps with a mask.
fn v4_inside(text: &[u8]) -> Option<([u8; 4], Option<u8>)> {
    let (address, mask) = match text.iter().position(|byte| *byte == b'/') {
        Some(at) => (&text[..at], Some(v6_mask(&text[at + 1..])?)),
        None => (text, None),
    };
    let mut out = [0; 4];
    let parts: Vec<&[u8]> = address.split(|byte| *byte == b'.').collect();
    for (at, part) in parts.iter().enumerate() {
        // The last may be missing in front of a mask.
        let is_missing = part.is_empty() && (at + 1 < parts.len() || mask.is_some());
        let value = match number(part, 255) {
            Some((value, len)) if len == part.len() && (len == 1 || part[0] != b'0') => value,
            None if is_missing => 0,
            _ => return None,
        };
        *out.get_mut(at)? = value as u8;
    }
    Some((out, mask))
}

/// What was read of an address of sixteen bytes.
#[derive(Default)]
struct V6 {
    bytes: Vec<u8>,
    /// Where zeros are left out.
    gap: Option<usize>,
    bits: Option<u8>,
}

impl V6 {
    fn word(&mut self, digits: &[u8]) -> Option<()> {
        let text = std::str::from_utf8(digits).ok()?;
        let word = u16::from_str_radix(text, 16).ok()?;
        self.bytes.extend(word.to_be_bytes());
        (self.bytes.len() <= 16).then_some(())
    }

    fn address(self) -> Option<Network> {
        let mut bytes = [0; 16];
        match self.gap {
            Some(_) if self.bytes.len() >= 16 => return None,
            Some(gap) => {
                let (front, back) = self.bytes.split_at(gap);
                bytes[..gap].copy_from_slice(front);
                bytes[16 - back.len()..].copy_from_slice(back);
            }
            None => bytes = self.bytes.try_into().ok()?,
        }
        Some(Network { is_v6: true, bits: self.bits.unwrap_or(128), bytes })
    }
}

fn v6(text: &[u8]) -> Option<Network> {
    let mut rest = match text {
        [b':', b':', ..] => &text[1..],
        [b':', ..] => return None,
        _ => text,
    };
    let mut read = V6::default();
    while !rest.is_empty() {
        let len = rest.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let (digits, behind) = rest.split_at(len);
        if len > 4 {
            return None;
        }
        match behind {
            [b':', after @ ..] if len == 0 => {
                if read.gap.replace(read.bytes.len()).is_some() {
                    return None;
                }
                rest = after;
            }
            [b':'] => return None,
            [b':', after @ ..] => {
                read.word(digits)?;
                rest = after;
            }
            [b'.', ..] => {
                let (octets, mask) = v4_inside(rest)?;
                read.bytes.extend(octets);
                read.bits = mask;
                break;
            }
            [b'/', mask @ ..] => {
                if len > 0 {
                    read.word(digits)?;
                }
                read.bits = Some(v6_mask(mask)?);
                break;
            }
            [] => {
                read.word(digits)?;
                break;
            }
            _ => return None,
        }
    }
    (read.bytes.len() <= 16).then(|| read.address())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, ty: SqlType) -> Option<Network> {
        Network::parse(text, ty).ok()
    }

    #[test]
    fn stored_bytes_compare_as_values_do_and_come_back() {
        let mut random = 11_u64;
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            random >> 33
        };
        let mut values = Vec::new();
        for _ in 0..600 {
            let is_v6 = next() % 2 == 0;
            let most = if is_v6 { 128 } else { 32 };
            // Few bits, so that networks meet each other.
            let address = (0..4).fold(0_u128, |all, _| all | 1 << (127 - next() % most));
            let address = if next() % 3 == 0 { address } else { address & (7 << 120) };
            values.push(Network::new(is_v6, (next() % (most + 1)) as u8, address));
        }
        for a in &values {
            assert_eq!(Network::from_stored(&a.to_stored()), Some(*a));
            assert_eq!(Network::from_binary(&a.to_binary(false), SqlType::Inet).ok(), Some(*a));
            assert_eq!(read(&a.to_text(false), SqlType::Inet), Some(*a), "{}", a.to_text(false));
            let network = a.network();
            let short = network.abbreviated();
            if !a.is_v6() {
                assert_eq!(read(&short, SqlType::Cidr), Some(network), "{short}");
            }
            for b in &values {
                assert_eq!(a.to_stored().cmp(&b.to_stored()), a.cmp(b), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn bytes_of_any_length_are_refused_or_read() {
        for len in 0..40 {
            for byte in [0, 2, 3, 4, 16, 128, 255] {
                let bytes = vec![byte; len];
                let _ = Network::from_stored(&bytes);
                let _ = Network::from_binary(&bytes, SqlType::Cidr);
            }
        }
    }
}
