//! What is wrong with a configuration, or with a file that it names.
//!
//! Does not do: settings (`config`), the file of users (`auth`).

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Why a server does not start.
#[derive(Debug)]
pub enum ConfigError {
    /// The configuration contradicts itself or lets strangers in.
    Invalid(String),
    /// A file holds something else than it should.
    Data(String),
    /// The system refused something named.
    Io(String, io::Error),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Invalid(what) | ConfigError::Data(what) => f.write_str(what),
            ConfigError::Io(what, error) => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for ConfigError {}

/// Refuses a file that others than its owner can read or write. As in PostgreSQL, one of root's may
/// have a group.
pub(crate) fn check_secret(path: &Path, what: &str) -> Result<(), ConfigError> {
    let name = path.display().to_string();
    let file = std::fs::metadata(path).map_err(|error| ConfigError::Io(name.clone(), error))?;
    let forbidden = if file.uid() == 0 { 0o027 } else { 0o077 };
    if file.is_file() && file.mode() & forbidden != 0 {
        return Err(ConfigError::Invalid(format!(
            "{name}: group or others can read or write {what}: its mode must be 0600, or 0640 if \
             it belongs to root"
        )));
    }
    Ok(())
}
