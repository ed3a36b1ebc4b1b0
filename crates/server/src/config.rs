//! What a server is told before it starts.
//!
//! Invariants: a configuration that would let strangers in is refused unless it says so.
//! Does not do: files of settings.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::auth::Users;

/// Where and for whom a server listens, and its limits.
#[derive(Clone)]
pub struct Config {
    /// Addresses of TCP.
    pub listen: Vec<SocketAddr>,
    /// Folder for a Unix socket, named as PostgreSQL's clients look for it. Only its owner may
    /// connect there, without a password.
    pub socket: Option<PathBuf>,
    /// Port that names the Unix socket.
    pub port: u16,
    /// Who may connect by TCP; `None` lets everyone in.
    pub users: Option<Users>,
    /// Certificate chain and key for TLS.
    pub tls: Option<Arc<ServerConfig>>,
    /// Listens on other addresses than loopback without users and TLS, and lets connections
    /// without TLS in.
    pub insecure: bool,
    /// Connections at a time, those that have not authenticated included.
    pub max_connections: usize,
    /// Longest message of an authenticated client, in bytes.
    pub max_message: usize,
    /// Time from the connection to the end of the authentication.
    pub startup_timeout: Duration,
    /// How long a client of TCP may leave what it was sent unacknowledged, or its own buffers full;
    /// zero leaves that to the system, which gives up a peer without power after many minutes and
    /// one that only does not read never.
    pub tcp_user_timeout: Duration,
    /// Time that statements get to finish when the server stops.
    pub grace: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            listen: Vec::new(),
            socket: None,
            port: 5432,
            users: None,
            tls: None,
            insecure: false,
            max_connections: 2_000,
            max_message: 64 << 20,
            startup_timeout: Duration::from_secs(10),
            tcp_user_timeout: Duration::ZERO,
            grace: Duration::from_secs(30),
        }
    }
}

/// Why a server does not start.
#[derive(Debug)]
pub enum ConfigError {
    /// The configuration contradicts itself or lets strangers in.
    Invalid(String),
    /// The system refused something named.
    Io(String, io::Error),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Invalid(what) => f.write_str(what),
            ConfigError::Io(what, error) => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Reads certificate chain and key from files in PEM.
    ///
    /// # Errors
    /// Files that cannot be read, hold nothing, or do not belong together.
    pub fn with_tls(mut self, certificates: &Path, key: &Path) -> Result<Config, ConfigError> {
        let broken = |path: &Path, error: &dyn fmt::Display| {
            ConfigError::Invalid(format!("{}: {error}", path.display()))
        };
        let chain = CertificateDer::pem_file_iter(certificates)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| broken(certificates, &error))?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| broken(key, &error))?;
        private_key_is_private(key)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private))
            .map_err(|error| broken(certificates, &error))?;
        self.tls = Some(Arc::new(config));
        Ok(self)
    }

    /// Refuses what would let strangers in.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.listen.is_empty() && self.socket.is_none() {
            return Err(ConfigError::Invalid("neither an address nor a socket".into()));
        }
        let open = self.listen.iter().find(|address| !address.ip().is_loopback());
        match open {
            Some(address) if !self.insecure && (self.users.is_none() || self.tls.is_none()) => {
                Err(ConfigError::Invalid(format!(
                    "{address} can be reached from other machines: give users and a certificate, \
                     or allow it explicitly"
                )))
            }
            _ => Ok(()),
        }
    }
}

/// A key that others can read is no secret. As in PostgreSQL, one of root's may have a group.
fn private_key_is_private(key: &Path) -> Result<(), ConfigError> {
    let name = key.display().to_string();
    let file = std::fs::metadata(key).map_err(|error| ConfigError::Io(name.clone(), error))?;
    let forbidden = if file.uid() == 0 { 0o027 } else { 0o077 };
    if file.is_file() && file.mode() & forbidden != 0 {
        let what = "group or others can read or write the key: its mode must be 0600, or 0640 if \
                    it belongs to root";
        return Err(ConfigError::Invalid(format!("{name}: {what}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_that_others_can_read_is_refused() {
        let tls = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls");
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key.pem");
        std::fs::copy(tls.join("key.pem"), &key).unwrap();
        let read = |mode| {
            std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
            Config::default().with_tls(&tls.join("cert.pem"), &key)
        };
        assert!(matches!(read(0o644), Err(ConfigError::Invalid(_))));
        assert!(matches!(read(0o660), Err(ConfigError::Invalid(_))));
        assert!(read(0o600).is_ok());
    }

    #[test]
    fn an_open_address_needs_users_and_tls() {
        let open = Config { listen: vec!["0.0.0.0:0".parse().unwrap()], ..Config::default() };
        assert!(matches!(open.check(), Err(ConfigError::Invalid(_))));
        assert!(Config { insecure: true, ..open }.check().is_ok());
        let home = Config { listen: vec!["[::1]:0".parse().unwrap()], ..Config::default() };
        assert!(home.check().is_ok());
        assert!(Config::default().check().is_err());
    }
}
