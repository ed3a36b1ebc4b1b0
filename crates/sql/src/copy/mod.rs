//! COPY: rows in and out as text, CSV or binary, in pieces of any size.
//!
//! | file | hides |
//! |---|---|
//! | `read`, `write` | rows from and to bytes |
//! | `csv` | fields of a CSV record |
//!
//! Does not do: the statement (`parse::copy`); files and programs on the server, since the caller
//! moves the bytes.

pub(crate) mod csv;
pub(crate) mod read;
pub(crate) mod write;
