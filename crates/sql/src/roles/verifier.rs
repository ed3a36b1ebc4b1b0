//! What is kept of a password: what verifies it by SCRAM-SHA-256 and does not tell it (RFC 5803).
//!
//! Invariants: two roles with the same password have different verifiers.
//! Does not do: verifying (the server does); passwords outside of printable ASCII, which would have
//! to be normalised.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::error::{Result, SqlError, code};

/// Rounds of new verifiers, as PostgreSQL has them.
const ITERATIONS: u32 = 4_096;
/// In front of every verifier.
const MARK: &str = "SCRAM-SHA-256$";
const SALT: usize = 16;
const KEY: usize = 32;

/// Is the text a verifier already, as dumps have them?
pub(crate) fn is_verifier(text: &str) -> bool {
    let Some(rest) = text.strip_prefix(MARK) else { return false };
    let key = |text: &str| BASE64.decode(text).is_ok_and(|key| key.len() == KEY);
    let parts = rest
        .split_once('$')
        .and_then(|(head, keys)| Some((head.split_once(':')?, keys.split_once(':')?)));
    parts.is_some_and(|((iterations, salt), (stored, server))| {
        iterations.parse::<u32>().is_ok_and(|count| count > 0)
            && BASE64.decode(salt).is_ok()
            && key(stored)
            && key(server)
    })
}

/// A verifier of a password.
///
/// # Errors
/// `0A000` for characters other than printable ones of ASCII.
pub(crate) fn of_password(password: &str) -> Result<String> {
    if !password.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return Err(SqlError::unsupported("a password outside of printable ASCII characters"));
    }
    let mut salt = [0; SALT];
    getrandom::fill(&mut salt)
        .map_err(|_| SqlError::new(code::INTERNAL, "could not generate random salt"))?;
    Ok(with_salt(password, &salt))
}

fn with_salt(password: &str, salt: &[u8]) -> String {
    let salted: [u8; KEY] =
        pbkdf2::pbkdf2_hmac_array::<Sha256, KEY>(password.as_bytes(), salt, ITERATIONS);
    let client = mac(&salted, b"Client Key");
    let stored = BASE64.encode(Sha256::digest(client));
    let server = BASE64.encode(mac(&salted, b"Server Key"));
    format!("{MARK}{ITERATIONS}:{}${stored}:{server}", BASE64.encode(salt))
}

fn mac(key: &[u8], data: &[u8]) -> [u8; KEY] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length will do");
    mac.update(data);
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys of the exchange in RFC 7677, section 3.
    #[test]
    fn verifiers_are_those_of_the_standard() {
        let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let verifier = with_salt("pencil", &salt);
        assert_eq!(
            verifier,
            "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$\
             WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
             wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
        );
        assert!(is_verifier(&verifier));
    }

    #[test]
    fn passwords_are_no_verifiers() {
        for text in ["", "SCRAM-SHA-256$", "SCRAM-SHA-256$4096:x$a:b", "secret"] {
            assert!(!is_verifier(text), "{text}");
        }
        let (a, b) = (of_password("secret").unwrap(), of_password("secret").unwrap());
        assert!(is_verifier(&a) && a != b);
        assert_eq!(of_password("é").unwrap_err().sqlstate, "0A000");
    }
}
