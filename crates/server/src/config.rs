//! What a server is told before it starts.
//!
//! Invariants: a configuration that would let strangers in is refused unless it says so.
//! Does not do: files of settings.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rightlink_env::{Level, Logger};

use crate::auth::{Rules, Users};
use crate::commands::Commands;
use crate::config_error::ConfigError;
use crate::peers::Limits;
use crate::tls::Tls;

/// Where and for whom a server listens, and its limits.
#[derive(Clone)]
pub struct Config {
    /// Addresses of TCP.
    pub listen: Vec<SocketAddr>,
    /// Folder for a Unix socket, named as PostgreSQL's clients look for it. Only its owner may
    /// connect there, without a password.
    pub socket: Option<PathBuf>,
    /// Directory of the database, where another Unix socket is made for its owner, which
    /// [`Owner`](crate::Owner) and `psql -h DIRECTORY` find.
    pub owner_socket: Option<PathBuf>,
    /// What runs the commands of the owner, who asks by one of the Unix sockets.
    pub commands: Option<Arc<dyn Commands>>,
    /// Port that names the Unix socket.
    pub port: u16,
    /// Further names of the database, beside its own and `postgres`.
    pub databases: Vec<String>,
    /// Who may connect by TCP; `None` lets everyone in.
    pub users: Option<Users>,
    /// Who may connect by TCP from where, and whether with a password: of [`Config::users`] or of
    /// a role. Without rules there is a password if there are users.
    pub rules: Option<Rules>,
    /// Certificate chain and key for TLS.
    pub tls: Option<Tls>,
    /// Listens on other addresses than loopback without users and TLS, and lets connections
    /// without TLS in.
    pub insecure: bool,
    /// Clients at a time that have logged in. The owner, who comes through the Unix socket, has
    /// [`OWNER_PLACES`] more to himself.
    pub max_connections: usize,
    /// Connections of one address that have not logged in after a second. Beyond it, the oldest of
    /// them is ended.
    pub max_waiting_per_address: usize,
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
    /// Are tables analyzed when enough of their rows have changed?
    pub auto_analyze: bool,
    /// Where failed logins are told.
    pub logger: Logger,
}

/// Connections that have not logged in yet where all places are taken; they are told so.
const WAITING: usize = 32;
/// Places for clients that only the Unix socket's owner can take.
pub const OWNER_PLACES: usize = 8;

impl Default for Config {
    fn default() -> Self {
        Config {
            listen: Vec::new(),
            socket: None,
            owner_socket: None,
            commands: None,
            port: 5432,
            databases: Vec::new(),
            users: None,
            rules: None,
            tls: None,
            insecure: false,
            max_connections: 2_000,
            max_waiting_per_address: 100,
            max_message: 64 << 20,
            startup_timeout: Duration::from_secs(10),
            tcp_user_timeout: Duration::ZERO,
            grace: Duration::from_secs(30),
            auto_analyze: true,
            logger: Logger::stderr(Level::Warn),
        }
    }
}

impl Config {
    /// Reads certificate chain and key from files in PEM.
    ///
    /// # Errors
    /// Files that cannot be read, hold nothing, or do not belong together.
    pub fn with_tls(mut self, certificates: &Path, key: &Path) -> Result<Config, ConfigError> {
        self.tls = Some(Tls::read(certificates, key)?);
        Ok(self)
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits {
            clients: self.max_connections,
            for_owner: OWNER_PLACES,
            waiting: WAITING,
            waiting_per_address: self.max_waiting_per_address,
        }
    }

    /// Refuses what would let strangers in.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.listen.is_empty() && self.socket.is_none() {
            return Err(ConfigError::Invalid("neither an address nor a socket".into()));
        }
        let open = self.listen.iter().find(|address| !address.ip().is_loopback());
        let asks = match &self.rules {
            Some(rules) => rules.asks_strangers(),
            None => self.users.is_some(),
        };
        match open {
            Some(address) if !self.insecure && (!asks || self.tls.is_none()) => {
                Err(ConfigError::Invalid(format!(
                    "{address} can be reached from other machines: give users, or rules that trust \
                     none of them, and a certificate, or allow it explicitly"
                )))
            }
            _ => Ok(()),
        }
    }
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
    fn users_that_others_can_read_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users");
        let line = format!("ann:{}\n", crate::verifier("secret").unwrap());
        std::fs::write(&path, line).unwrap();
        let read = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            Users::read(&path)
        };
        assert!(matches!(read(0o644), Err(ConfigError::Invalid(_))));
        assert!(matches!(read(0o602), Err(ConfigError::Invalid(_))));
        assert!(read(0o600).is_ok_and(|users| users.has("ann") && !users.has("bob")));
        std::fs::write(&path, "ann\n").unwrap();
        assert!(matches!(read(0o600), Err(ConfigError::Data(_))));
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
