//! Bytes of protocol version 3, to and from. Performs no I/O.

pub(crate) mod backend;
pub(crate) mod frontend;

/// The only version that is spoken.
pub(crate) const VERSION: u32 = 196_608;
/// Instead of a version: TLS, please.
pub(crate) const SSL_REQUEST: u32 = 80_877_103;
/// Instead of a version: GSSAPI encryption, please.
pub(crate) const GSS_REQUEST: u32 = 80_877_104;
/// Instead of a version: end what another connection runs.
pub(crate) const CANCEL_REQUEST: u32 = 80_877_102;
/// Bytes of a message's length, which count themselves.
pub(crate) const LENGTH: usize = 4;
