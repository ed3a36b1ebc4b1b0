//! Certificate and key of a server, and what channel binding says of the certificate.
//!
//! Channel binding of the type `tls-server-end-point` (RFC 5929) is a hash of the certificate, by
//! the hash of the certificate's signature; SHA-256 stands in for MD5 and SHA-1.
//!
//! Invariants: lengths in a certificate are checked before they are used.
//! Does not do: checking certificates (rustls); a binding of certificates whose signature names no
//! hash of its own (Ed25519, RSA-PSS), for which clients of PostgreSQL know none either.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use ring::digest;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::config_error::{ConfigError, check_secret};

/// Certificate chain and key of a server: [`Config::with_tls`](crate::Config::with_tls) reads
/// them.
#[derive(Clone)]
pub struct Tls {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) end_point: Option<Arc<[u8]>>,
}

impl Tls {
    pub(crate) fn read(certificates: &Path, key: &Path) -> Result<Tls, ConfigError> {
        let broken = |path: &Path, error: &dyn fmt::Display| {
            ConfigError::Invalid(format!("{}: {error}", path.display()))
        };
        let chain = CertificateDer::pem_file_iter(certificates)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| broken(certificates, &error))?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| broken(key, &error))?;
        check_secret(key, "the key")?;
        let end_point = chain.first().and_then(|certificate| end_point(certificate));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private))
            .map_err(|error| broken(certificates, &error))?;
        Ok(Tls { config: Arc::new(config), end_point })
    }
}

/// An element of DER and what follows it.
struct Element<'a> {
    tag: u8,
    content: &'a [u8],
    rest: &'a [u8],
}

const SEQUENCE: u8 = 0x30;
const OBJECT_ID: u8 = 0x06;

/// Reads the first element of `bytes`; `None` if it is not whole.
fn element(bytes: &[u8]) -> Option<Element<'_>> {
    let (&[tag, first], mut rest) = bytes.split_first_chunk()?;
    let mut length = usize::from(first);
    if first & 0x80 != 0 {
        let octets = usize::from(first & 0x7F);
        if octets > 4 {
            return None;
        }
        let (digits, after) = rest.split_at_checked(octets)?;
        length = digits.iter().fold(0, |sum, digit| (sum << 8) | usize::from(*digit));
        rest = after;
    }
    let (content, rest) = rest.split_at_checked(length)?;
    Some(Element { tag, content, rest })
}

/// The content of the first element of `bytes`, if it has this tag.
fn content(bytes: &[u8], tag: u8) -> Option<&[u8]> {
    element(bytes).filter(|found| found.tag == tag).map(|found| found.content)
}

/// The object identifier of a certificate's signature algorithm.
fn signature_algorithm(certificate: &[u8]) -> Option<&[u8]> {
    let signed = element(content(certificate, SEQUENCE)?)?;
    content(content(signed.rest, SEQUENCE)?, OBJECT_ID)
}

/// The hash that a signature algorithm contains, as RFC 5929 wants it for channel binding.
fn binding_hash(algorithm: &[u8]) -> Option<&'static digest::Algorithm> {
    // 1.2.840.113549.1.1.N: RSA (PKCS #1 v1.5).
    const RSA: [u8; 8] = [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01];
    // 1.2.840.10045.4.N: ECDSA.
    const ECDSA: [u8; 6] = [0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x04];
    if let Some(number) = algorithm.strip_prefix(&RSA) {
        return match number {
            // MD5, SHA-1, SHA-256.
            [4 | 5 | 11] => Some(&digest::SHA256),
            [12] => Some(&digest::SHA384),
            [13] => Some(&digest::SHA512),
            _ => None,
        };
    }
    match algorithm.strip_prefix(&ECDSA)? {
        // SHA-1, SHA-256.
        [1] | [3, 2] => Some(&digest::SHA256),
        [3, 3] => Some(&digest::SHA384),
        [3, 4] => Some(&digest::SHA512),
        _ => None,
    }
}

/// The channel binding `tls-server-end-point` of a certificate in DER; `None` if it has none.
fn end_point(certificate: &[u8]) -> Option<Arc<[u8]>> {
    let hash = binding_hash(signature_algorithm(certificate)?)?;
    Some(digest::digest(hash, certificate).as_ref().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Certificates of the tests and their bindings.
    const FINGERPRINTS: [(&str, Option<&str>); 6] = [
        ("cert.pem", Some("714FA3CEAE50DE8B7FF2DF0881BFC02018F91B6BAAC03004751F23114AB7411B")),
        ("sha1.pem", Some("1C34B2B360A4659F7B94C6C45242D59796C19EE765946BDCEDF1A4CC3CA1C4C6")),
        (
            "sha384.pem",
            Some(
                "2A38D12133BB202D61FB5DD8CBBF6F2B4E16B8AC25A3704D13CC53FB1EBE6646\
                 ABE31BA4971034C519B941989AD2EA1B",
            ),
        ),
        (
            "sha512.pem",
            Some(
                "1E7C8716F6EC316D2BA05466672F9D93B63E79AD7D63D8FBE65439B61187E387\
                 40FD564CC89B9EB2C76795E2546743B4B55298E040501F997F71CE56E1F86DFB",
            ),
        ),
        (
            "rsa-sha512.pem",
            Some(
                "BFCC14EE21D10367BC25BE63DA8B6F5261A76EB5F3BA51810A313F6EFEF8C290\
                 0757951A1B1647B34BC386AF928F81ABA860909A549F8F092EC10203BDF08B2E",
            ),
        ),
        ("ed25519.pem", None),
    ];

    /// A certificate of `tests/tls`.
    fn certificate(name: &str) -> CertificateDer<'static> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls");
        CertificateDer::from_pem_file(folder.join(name)).unwrap()
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02X}")).collect()
    }

    /// The fingerprints are those that `openssl x509 -fingerprint` prints with these hashes.
    #[test]
    fn the_hash_of_the_signature_hashes_the_certificate() {
        for (name, fingerprint) in FINGERPRINTS {
            let found = end_point(&certificate(name));
            assert_eq!(found.map(|bytes| hex(&bytes)).as_deref(), fingerprint, "{name}");
        }
    }

    #[test]
    fn bytes_that_are_no_certificate_have_no_binding() {
        let whole = certificate("cert.pem");
        for end in 0..whole.len() {
            assert!(end_point(&whole[..end]).is_none(), "{end} bytes");
        }
        for at in 0..whole.len() {
            let mut bytes = whole.to_vec();
            bytes[at] ^= 0xFF;
            // It must not panic, whatever it finds.
            let _ = end_point(&bytes);
        }
        assert!(end_point(&[SEQUENCE, 0x84, 0xFF, 0xFF, 0xFF, 0xFF, 0]).is_none());
        assert!(end_point(&[SEQUENCE, 0x89, 1, 1, 1, 1, 1, 1, 1, 1, 1]).is_none());
    }
}
