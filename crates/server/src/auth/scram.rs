//! SCRAM-SHA-256 and SCRAM-SHA-256-PLUS (RFC 5802, 7677), the server's side.
//!
//! Invariants: comparisons of secrets take the same time whatever they hold; every exchange has a
//! nonce of its own; a client that was told of no channel binding where it was offered is refused.
//! Does not do: other channel bindings than `tls-server-end-point` (`tls` makes it); passwords that
//! need normalising (outside of ASCII).

use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac, pbkdf2};

/// Rounds of new verifiers, as PostgreSQL has them.
const ITERATIONS: u32 = 4_096;
pub(crate) const KEY: usize = digest::SHA256_OUTPUT_LEN;
const SALT: usize = 16;

/// What everybody can see of a verifier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    pub(super) iterations: u32,
    /// Bytes of the salt.
    salt: usize,
}

/// The user that a client says it is.
#[derive(Clone, Copy)]
pub(crate) struct Claim<'a> {
    pub(crate) name: &'a str,
    /// `None` for a name that does not exist.
    pub(crate) verifier: Option<&'a Verifier>,
    /// Another user's, whose shape the answer for a name that does not exist has.
    pub(crate) model: Option<&'a Verifier>,
}

/// What verifies a password and does not tell it.
#[derive(Clone)]
pub(crate) struct Verifier {
    iterations: u32,
    salt: Vec<u8>,
    stored_key: [u8; KEY],
    server_key: [u8; KEY],
}

pub(super) fn mac(key: &[u8], data: &[u8]) -> [u8; KEY] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), data);
    tag.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

fn hash(data: &[u8]) -> [u8; KEY] {
    digest::digest(&digest::SHA256, data).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// Random bytes from the system.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).expect("the system has random bytes");
    bytes
}

/// Are the two equal? Takes as long wherever they differ.
fn same(a: &[u8; KEY], b: &[u8; KEY]) -> bool {
    a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

/// Makes what a file of users holds for a password; `None` for one that is empty or not of
/// printable ASCII characters.
///
/// ```
/// let line = format!("ann:{}", rightlink_server::verifier("secret").unwrap());
/// assert!(rightlink_server::Users::parse(&line).is_ok());
/// ```
pub fn verifier(password: &str) -> Option<String> {
    if password.is_empty() || !password.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return None;
    }
    Some(Verifier::new(password, &random::<SALT>()).to_text())
}

impl Verifier {
    fn new(password: &str, salt: &[u8]) -> Verifier {
        let mut salted = [0; KEY];
        let rounds = NonZeroU32::new(ITERATIONS).expect("not zero");
        let method = pbkdf2::PBKDF2_HMAC_SHA256;
        pbkdf2::derive(method, rounds, salt, password.as_bytes(), &mut salted);
        Verifier {
            iterations: ITERATIONS,
            salt: salt.to_vec(),
            stored_key: hash(&mac(&salted, b"Client Key")),
            server_key: mac(&salted, b"Server Key"),
        }
    }

    /// What stands in for a name that does not exist: always the same for one name, and of the
    /// shape that a name that does exist has.
    fn mock(name: &str, secret: &[u8; KEY], shape: Shape) -> Verifier {
        let mut salt = Vec::with_capacity(shape.salt);
        for round in 0u32.. {
            if salt.len() >= shape.salt {
                break;
            }
            salt.extend(mac(secret, &[&round.to_be_bytes()[..], name.as_bytes()].concat()));
        }
        salt.truncate(shape.salt);
        let iterations = shape.iterations;
        Verifier { iterations, salt, stored_key: [0; KEY], server_key: [0; KEY] }
    }

    /// What a client learns of it before it has proved anything.
    pub(super) fn shape(&self) -> Shape {
        Shape { iterations: self.iterations, salt: self.salt.len() }
    }

    pub(super) fn to_text(&self) -> String {
        let coded = |bytes: &[u8]| BASE64.encode(bytes);
        format!(
            "SCRAM-SHA-256${}:{}${}:{}",
            self.iterations,
            coded(&self.salt),
            coded(&self.stored_key),
            coded(&self.server_key)
        )
    }

    pub(crate) fn parse(text: &str) -> Option<Verifier> {
        let rest = text.strip_prefix("SCRAM-SHA-256$")?;
        let (head, keys) = rest.split_once('$')?;
        let (iterations, salt) = head.split_once(':')?;
        let (stored, server) = keys.split_once(':')?;
        let key = |text| BASE64.decode(text).ok()?.try_into().ok();
        Some(Verifier {
            iterations: iterations.parse().ok().filter(|n| *n > 0)?,
            salt: BASE64.decode(salt).ok()?,
            stored_key: key(stored)?,
            server_key: key(server)?,
        })
    }
}

/// An exchange after the client's first message.
pub(crate) struct Exchange {
    verifier: Verifier,
    known: bool,
    nonce: String,
    /// The header of the client's first message, and the channel binding that was chosen.
    bound: Vec<u8>,
    chosen: bool,
    first: String,
    answer: String,
}

/// How far server and client have come with channel binding before SCRAM begins.
#[derive(Clone, Copy)]
pub(crate) enum Binding<'a> {
    /// The server has none to offer.
    Absent,
    /// The server offered it, and the client chose the method without it.
    Offered,
    /// The client chose it. It must name these bytes.
    Chosen(&'a [u8]),
}

/// The client's first message of SCRAM.
#[derive(Clone, Copy)]
pub(crate) struct First<'a> {
    pub(crate) data: &'a [u8],
    pub(crate) binding: Binding<'a>,
}

/// Why an exchange ends early.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Malformed(&'static str),
    /// The channel is not the one that the client speaks of.
    Binding(&'static str),
    /// Name or password is wrong.
    Wrong,
}

fn text(bytes: &[u8]) -> Result<&str, Refusal> {
    std::str::from_utf8(bytes).map_err(|_| Refusal::Malformed("a SCRAM message is not UTF-8"))
}

/// Checks what the header of a client's first message says of channel binding.
fn check_header(header: &str, binding: Binding<'_>) -> Result<(), Refusal> {
    const TYPE: &str = "p=tls-server-end-point";
    let (flag, identity) = match header.split_once(',') {
        Some((flag, identity)) if !flag.is_empty() => (flag, identity),
        _ => return Err(Refusal::Malformed("a SCRAM message has no header")),
    };
    match (flag, binding) {
        ("n", Binding::Absent | Binding::Offered)
        | ("y", Binding::Absent)
        | (TYPE, Binding::Chosen(_)) => {}
        // Someone between them has taken the offer away.
        ("y", Binding::Offered) => {
            return Err(Refusal::Binding("SCRAM channel binding negotiation error"));
        }
        ("n" | "y", Binding::Chosen(_)) => {
            return Err(Refusal::Malformed("a SCRAM message has no channel binding"));
        }
        (other, Binding::Chosen(_)) if other.starts_with("p=") => {
            return Err(Refusal::Malformed("unsupported SCRAM channel-binding type"));
        }
        (other, _) if other.starts_with("p=") => {
            return Err(Refusal::Malformed("channel binding was not chosen"));
        }
        _ => return Err(Refusal::Malformed("a SCRAM message has no header")),
    }
    match identity {
        "," => Ok(()),
        _ => Err(Refusal::Malformed("authorization identities are not supported")),
    }
}

impl Exchange {
    /// Reads the client's first message; `secret` is the server's own.
    pub(crate) fn begin(
        first: First<'_>,
        claim: Claim<'_>,
        secret: &[u8; KEY],
    ) -> Result<Exchange, Refusal> {
        let message = text(first.data)?;
        let bare_at = message.match_indices(',').nth(1).map(|(at, _)| at + 1);
        let (header, bare) =
            message.split_at(bare_at.ok_or(Refusal::Malformed("a SCRAM message has no header"))?);
        check_header(header, first.binding)?;
        let client = bare
            .split(',')
            .nth(1)
            .and_then(|part| part.strip_prefix("r="))
            .filter(|nonce| !nonce.is_empty() && bare.starts_with("n="))
            .ok_or(Refusal::Malformed("a SCRAM message has no nonce"))?;
        let nonce = format!("{client}{}", BASE64.encode(random::<18>()));
        let known = claim.verifier.is_some();
        let usual = Shape { iterations: ITERATIONS, salt: SALT };
        let shape = claim.model.map_or(usual, Verifier::shape);
        let verifier =
            claim.verifier.cloned().unwrap_or_else(|| Verifier::mock(claim.name, secret, shape));
        let salt = BASE64.encode(&verifier.salt);
        let answer = format!("r={nonce},s={salt},i={}", verifier.iterations);
        let mut bound = header.as_bytes().to_vec();
        let chosen = match first.binding {
            Binding::Chosen(bytes) => {
                bound.extend(bytes);
                true
            }
            Binding::Absent | Binding::Offered => false,
        };
        Ok(Exchange { verifier, known, nonce, bound, chosen, first: bare.to_owned(), answer })
    }

    /// The server's first message.
    pub(crate) fn answer(&self) -> &str {
        &self.answer
    }

    /// Reads the client's final message and gives the server's.
    pub(crate) fn finish(&self, message: &[u8]) -> Result<String, Refusal> {
        let message = text(message)?;
        let (bare, proof) =
            message.rsplit_once(",p=").ok_or(Refusal::Malformed("a SCRAM message has no proof"))?;
        let mut parts = bare.split(',');
        let binding = parts.next().and_then(|part| part.strip_prefix("c="));
        if binding != Some(&*BASE64.encode(&self.bound)) {
            return Err(match self.chosen {
                true => Refusal::Binding("SCRAM channel binding check failed"),
                false => Refusal::Malformed("SCRAM channel binding differs"),
            });
        }
        if parts.next().and_then(|part| part.strip_prefix("r=")) != Some(&*self.nonce) {
            return Err(Refusal::Malformed("SCRAM nonce differs"));
        }
        let proof: [u8; KEY] = BASE64
            .decode(proof)
            .ok()
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or(Refusal::Malformed("a SCRAM proof has another length"))?;
        let signed = format!("{},{},{bare}", self.first, self.answer);
        let signature = mac(&self.verifier.stored_key, signed.as_bytes());
        let key: [u8; KEY] = std::array::from_fn(|at| proof[at] ^ signature[at]);
        let right = same(&hash(&key), &self.verifier.stored_key);
        if !(right & self.known) {
            return Err(Refusal::Wrong);
        }
        Ok(format!("v={}", BASE64.encode(mac(&self.verifier.server_key, signed.as_bytes()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The client's side.
    fn proof(password: &str, verifier: &Verifier, signed: &str) -> String {
        let mut salted = [0; KEY];
        let rounds = NonZeroU32::new(verifier.iterations).unwrap();
        let method = pbkdf2::PBKDF2_HMAC_SHA256;
        pbkdf2::derive(method, rounds, &verifier.salt, password.as_bytes(), &mut salted);
        let client = mac(&salted, b"Client Key");
        let signature = mac(&hash(&client), signed.as_bytes());
        let bytes: Vec<u8> = client.iter().zip(signature).map(|(a, b)| a ^ b).collect();
        BASE64.encode(bytes)
    }

    fn first<'a>(data: &'a str, binding: Binding<'a>) -> First<'a> {
        First { data: data.as_bytes(), binding }
    }

    fn try_password(password: &str, known: bool) -> Result<String, Refusal> {
        let verifier = Verifier::parse(&verifier("secret").unwrap()).unwrap();
        let claim = Claim { name: "ann", verifier: known.then_some(&verifier), model: None };
        let exchange = Exchange::begin(first("n,,n=,r=abc", Binding::Absent), claim, &[7; KEY])?;
        let bare = format!("c=biws,r={}", exchange.nonce);
        let signed = format!("n=,r=abc,{},{bare}", exchange.answer());
        let proof = proof(password, &exchange.verifier, &signed);
        exchange.finish(format!("{bare},p={proof}").as_bytes())
    }

    #[test]
    fn the_right_password_gets_in_and_no_other() {
        assert!(try_password("secret", true).unwrap().starts_with("v="));
        assert_eq!(try_password("Secret", true), Err(Refusal::Wrong));
        assert_eq!(try_password("secret", false), Err(Refusal::Wrong));
        assert_eq!(try_password("", false), Err(Refusal::Wrong));
    }

    #[test]
    fn a_verifier_reads_back() {
        let made = Verifier::new("secret", b"0123456789abcdef");
        assert_eq!(Verifier::parse(&made.to_text()).unwrap().stored_key, made.stored_key);
        assert!(Verifier::parse("SCRAM-SHA-256$0:c2FsdA==$AA==:AA==").is_none());
        assert!(verifier("naïve").is_none());
    }

    #[test]
    fn malformed_messages_are_refused() {
        let verifier = Verifier::new("x", b"salt");
        let claim = Claim { name: "ann", verifier: Some(&verifier), model: None };
        for message in ["", "n", "n,,", "n,,n=,r=", "p=tls-unique,,n=,r=a", "n,a=bob,n=,r=a", "x,,"]
        {
            for binding in [Binding::Absent, Binding::Offered, Binding::Chosen(b"hash")] {
                let begun = Exchange::begin(first(message, binding), claim, &[0; KEY]);
                assert!(matches!(begun, Err(Refusal::Malformed(_))), "{message}");
            }
        }
        let begun = Exchange::begin(first("y,,n=,r=a", Binding::Absent), claim, &[0; KEY]);
        let exchange = begun.unwrap();
        for message in ["", "c=biws,r=a,p=AAAA", "c=eSws,r=a,p=AAAA", ",p="] {
            assert!(exchange.finish(message.as_bytes()).is_err(), "{message}");
        }
    }

    /// Ends an exchange with a right password, and `bound` as the channel's binding.
    fn bind(header: &str, binding: Binding<'_>, bound: &[u8]) -> Result<String, Refusal> {
        let verifier = Verifier::parse(&verifier("secret").unwrap()).unwrap();
        let claim = Claim { name: "ann", verifier: Some(&verifier), model: None };
        let message = format!("{header}n=,r=abc");
        let exchange = Exchange::begin(first(&message, binding), claim, &[7; KEY])?;
        let bare = format!("c={},r={}", BASE64.encode(bound), exchange.nonce);
        let signed = format!("n=,r=abc,{},{bare}", exchange.answer());
        let proof = proof("secret", &exchange.verifier, &signed);
        exchange.finish(format!("{bare},p={proof}").as_bytes())
    }

    #[test]
    fn channel_binding_is_checked() {
        let header = "p=tls-server-end-point,,";
        let chosen = Binding::Chosen(b"hash");
        assert!(bind(header, chosen, b"p=tls-server-end-point,,hash").is_ok());
        for wrong in ["p=tls-server-end-point,,hush", header, "n,,"] {
            let refusal = Refusal::Binding("SCRAM channel binding check failed");
            assert_eq!(bind(header, chosen, wrong.as_bytes()), Err(refusal), "{wrong}");
        }
        // Without it in the method there is none in the message, and the other way round.
        for (header, binding) in [
            (header, Binding::Absent),
            (header, Binding::Offered),
            ("n,,", chosen),
            ("y,,", chosen),
            ("p=tls-unique,,", chosen),
        ] {
            let bound = bind(header, binding, header.as_bytes());
            assert!(matches!(bound, Err(Refusal::Malformed(_))), "{header}");
        }
        // A client that could, and was not offered it, says so.
        assert!(bind("n,,", Binding::Offered, b"n,,").is_ok());
        assert!(bind("y,,", Binding::Absent, b"y,,").is_ok());
        let refusal = Refusal::Binding("SCRAM channel binding negotiation error");
        assert_eq!(bind("y,,", Binding::Offered, b"y,,"), Err(refusal));
    }
}
