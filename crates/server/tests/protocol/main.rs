//! The wire protocol: raw messages of a client of a few lines, and a driver of other people's.

mod client;
mod driver;
mod encodings;
mod errors;
mod meeting;
mod portals;
mod wire;
