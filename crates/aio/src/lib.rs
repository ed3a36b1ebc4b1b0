//! Files and asynchronous I/O.
/// skeleton
#[derive(Clone, Debug)]
pub struct IoError;
impl std::fmt::Display for IoError { fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { write!(f, "io") } }
/// skeleton
#[derive(Clone)]
pub struct Io;
