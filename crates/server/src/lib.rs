//! The PostgreSQL wire protocol over a Rightlink database.
//!
//! ```no_run
//! use rightlink::Database;
//! use rightlink_server::{Config, Server};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let db = Database::open("shop.db")?;
//! let config = Config { listen: vec!["127.0.0.1:5432".parse()?], ..Config::default() };
//! let server = Server::bind(&db, "shop", config)?;
//! let stopper = server.stopper();
//! // Hand `stopper` to whoever ends the server, for example to a handler of signals.
//! server.run()?;
//! # Ok(())
//! # }
//! ```
//!
//! | file | hides |
//! |---|---|
//! | `server` | listening, connections and their limit, stopping |
//! | `config`, `config_error` | settings of a server, and what is wrong with them |
//! | `origin` | where connections come from |
//! | `peers` | who is connected; cancel, timeouts, clients that are gone |
//! | `connection` | one client: messages in, answers out |
//! | `bell` | wakes a connection that waits for its client |
//! | `commands`, `owner` | commands that a server runs for its owner; both sides |
//! | `descriptors` | how many connections the limit of open files has room for |
//! | `startup` | from the first byte to the first query: TLS, options, authentication |
//! | `auth/` | users, SCRAM-SHA-256 |
//! | `tls` | certificate and key, and their channel binding |
//! | `sink` | results as messages |
//! | `transport` | sockets with and without TLS |
//! | `protocol/` | bytes of messages, to and from; no I/O |
//!
//! Invariants: one thread serves one client and blocks where it reads, so that a statement costs
//! one read and one write and nothing else; another thread looks after all of them (`peers`).
//! Before authentication a client gets ten thousand bytes and ten seconds. No byte of a client
//! leads to a panic. Memory for long messages comes from the database's budget.
//! Does not do: replication, GSSAPI, function calls.
//!
//! *Considered instead:* the crate pgwire (0.42.1). Its decoders read counts and numbers without
//! asking whether the message is long enough, which ends in a panic; its handlers are async, flush
//! after every message, and hand a statement to another thread where it blocks.

mod auth;
mod bell;
mod commands;
mod config;
mod config_error;
mod connection;
mod descriptors;
mod origin;
mod owner;
mod peers;
mod protocol;
mod server;
mod sink;
mod startup;
mod tls;
mod transport;

pub use auth::{InvalidRules, InvalidUsers, Rules, Users, verifier};
pub use commands::{Call, Channel, Commands, Ending};
pub use config::{Config, OWNER_PLACES};
pub use config_error::ConfigError;
pub use owner::{Canceller, CommandError, Owner};
pub use server::{Server, Stopper};
pub use tls::Tls;

/// The examples of the README, compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
