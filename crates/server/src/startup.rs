//! From the first byte of a connection to its first query.
//!
//! Invariants: nothing is done for a client before it has authenticated; bytes that arrived before
//! TLS are never taken for bytes inside of it. A long packet is refused by its length.
//! Does not do: deciding who may connect at all (`server`).

use std::sync::Arc;
use std::time::Duration;

use rightlink_env::thread;
use rightlink_sql::{Session, SqlError};

use crate::auth::failures::{Failures, Login};
use crate::auth::rules::{Client, Method};
use crate::auth::scram::{Binding, Claim, Exchange, First, Refusal, Verifier};
use crate::config::Config;
use crate::peers::{End, Peer, Peers};
use crate::protocol::backend::Out;
use crate::protocol::frontend::{self, Message, Startup, Violation};
use crate::transport::{Input, Transport};

/// Longest packet before authentication, as in PostgreSQL.
const MAX_PACKET: usize = 10_000;
/// Packets that ask for something else than a start, at most.
const MAX_REQUESTS: usize = 3;

const AUTH_OK: u32 = 0;
const AUTH_SASL: u32 = 10;
const AUTH_CONTINUE: u32 = 11;
const AUTH_FINAL: u32 = 12;

/// How a connection ends before it has begun.
pub(crate) enum Refused {
    /// Without a word.
    Silently,
    /// With a last message.
    With(SqlError),
}

impl From<Violation> for Refused {
    fn from(violation: Violation) -> Self {
        Refused::With(violation.into())
    }
}

impl From<std::io::Error> for Refused {
    fn from(_: std::io::Error) -> Self {
        Refused::Silently
    }
}

impl From<SqlError> for Refused {
    fn from(error: SqlError) -> Self {
        Refused::With(error)
    }
}

/// A client between its first byte and its first query.
pub(crate) struct Starting<'s> {
    pub(crate) transport: Transport,
    pub(crate) input: Input,
    pub(crate) out: Out,
    pub(crate) config: &'s Config,
    pub(crate) peers: &'s Peers,
    /// The server's own secret.
    pub(crate) secret: &'s [u8; 32],
    pub(crate) peer: &'s Peer,
    pub(crate) failures: &'s Failures,
    pub(crate) roles: Roles<'s>,
}

/// What the database knows of its roles.
#[derive(Clone, Copy)]
pub(crate) struct Roles<'s> {
    /// What verifies the password of a role, if there is such a role and it has one.
    pub(crate) password: &'s dyn Fn(&str) -> Option<Verifier>,
    /// Is the first one a member of the second?
    pub(crate) is_member: &'s dyn Fn(&str, &str) -> bool,
}

/// Names and values that a client starts with.
type Options = Vec<(String, String)>;

impl Starting<'_> {
    /// Does all of it; gives the client's options.
    pub(crate) fn run(mut self) -> (Self, Result<Options, Refused>) {
        let result = self.start();
        (self, result)
    }

    fn start(&mut self) -> Result<Options, Refused> {
        let mut requests = 0;
        while requests < MAX_REQUESTS {
            let packet = frontend::startup(self.input.waiting(), MAX_PACKET)?;
            let Some((packet, taken)) = packet else {
                if !self.input.read(&mut self.transport, 0)? {
                    return Err(Refused::Silently);
                }
                continue;
            };
            requests += 1;
            match packet {
                Startup::Ssl => {
                    self.input.take(taken);
                    self.encrypt()?;
                }
                Startup::Gss => {
                    self.input.take(taken);
                    self.refuse_encryption()?;
                }
                Startup::Cancel { pid, secret } => {
                    self.peers.cancel(pid, secret);
                    return Err(Refused::Silently);
                }
                Startup::Start { minor, options } => {
                    let options: Options = options
                        .into_iter()
                        .map(|(name, value)| (name.to_owned(), value.to_owned()))
                        .collect();
                    self.input.take(taken);
                    return self.greet(minor, options);
                }
            }
        }
        Err(Refused::Silently)
    }

    fn flush(&mut self) -> Result<(), Refused> {
        self.transport.send(self.out.bytes())?;
        self.out.clear();
        Ok(())
    }

    fn refuse_encryption(&mut self) -> Result<(), Refused> {
        self.out.raw(b'N');
        self.flush()
    }

    fn encrypt(&mut self) -> Result<(), Refused> {
        let config = match &self.config.tls {
            Some(tls) if !self.transport.is_encrypted() => Arc::clone(&tls.config),
            _ => return self.refuse_encryption(),
        };
        self.out.raw(b'S');
        self.flush()?;
        if !self.input.waiting().is_empty() {
            let message = "received unencrypted data after SSL request";
            return Err(Refused::With(SqlError::new("08P01", message)));
        }
        let Transport::Plain(socket) = &self.transport else { return Err(Refused::Silently) };
        self.transport = Transport::Plain(socket.clone()).encrypt(&config)?;
        Ok(())
    }

    fn greet(&mut self, minor: u32, options: Options) -> Result<Options, Refused> {
        let unknown: Vec<&str> = options
            .iter()
            .map(|(name, _)| name.as_str())
            .filter(|name| name.starts_with("_pq_."))
            .collect();
        if minor > 0 || !unknown.is_empty() {
            self.out.negotiate(&unknown);
        }
        if self.must_encrypt() {
            let message = "connections from other machines must be encrypted";
            return Err(Refused::With(SqlError::new("28000", message)));
        }
        let user = options.iter().find(|(name, _)| name == "user").map(|(_, user)| user.clone());
        let Some(user) = user.filter(|user| !user.is_empty()) else {
            let message = "no PostgreSQL user name specified in startup packet";
            return Err(Refused::With(SqlError::new("28000", message)));
        };
        if !self.transport.socket().is_local_file() {
            self.let_in(&user, &options)?;
        }
        self.out.authentication(AUTH_OK, &[]);
        Ok(options)
    }

    /// Lets a client of TCP in, or asks it for its password first.
    fn let_in(&mut self, user: &str, options: &Options) -> Result<(), Refused> {
        let Some(rules) = &self.config.rules else {
            return match self.config.users {
                Some(_) => self.authenticate(user),
                None => Ok(()),
            };
        };
        let database = options.iter().find(|(name, _)| name == "database");
        let database = database.map_or(user, |(_, name)| name);
        let Some(address) = self.peer.address().map(|address| address.ip()) else {
            return Err(Refused::Silently);
        };
        let is_encrypted = self.transport.is_encrypted();
        let is_member = |role: &str| (self.roles.is_member)(user, role);
        let client = Client { address, is_encrypted, database, user, is_member: &is_member };
        match rules.method(&client) {
            Some(Method::Trust) => Ok(()),
            Some(Method::Password) => self.authenticate(user),
            other => {
                let what = match other {
                    Some(_) => "a rule rejects connections from",
                    None => "there is no rule for connections from",
                };
                let how = if is_encrypted { "SSL encryption" } else { "no encryption" };
                let message = format!(
                    "{what} host \"{address}\", user \"{user}\", database \"{database}\", {how}"
                );
                Err(Refused::With(SqlError::new("28000", message)))
            }
        }
    }

    fn must_encrypt(&self) -> bool {
        self.config.tls.is_some()
            && !self.config.insecure
            && !self.transport.is_encrypted()
            && self.transport.socket().is_remote()
    }

    fn authenticate(&mut self, user: &str) -> Result<(), Refused> {
        let end_point = self.end_point();
        let methods: &[u8] = match end_point {
            Some(_) => b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0",
            None => b"SCRAM-SHA-256\0\0",
        };
        self.out.authentication(AUTH_SASL, methods);
        let first = self.password()?;
        let first = initial(&first, end_point.as_deref())?;
        let users = self.config.users.as_ref();
        let of_role = match users.and_then(|users| users.find(user)) {
            Some(_) => None,
            None => (self.roles.password)(user),
        };
        let claim = Claim {
            name: user,
            verifier: users.and_then(|users| users.find(user)).or(of_role.as_ref()),
            model: users.and_then(|users| users.model(user, self.secret)),
        };
        let exchange = Exchange::begin(first, claim, self.secret)
            .map_err(|refusal| refused(&refusal, user))?;
        self.out.authentication(AUTH_CONTINUE, exchange.answer().as_bytes());
        let last = self.password()?;
        let answer = exchange.finish(&last).map_err(|refusal| {
            if refusal == Refusal::Wrong {
                self.wait_after_failure(user);
            }
            refused(&refusal, user)
        })?;
        self.out.authentication(AUTH_FINAL, answer.as_bytes());
        Ok(())
    }

    /// What channel binding says of this connection's certificate, if it can be asked for.
    fn end_point(&self) -> Option<Arc<[u8]>> {
        let tls = self.config.tls.as_ref().filter(|_| self.transport.is_encrypted())?;
        tls.end_point.clone()
    }

    /// Keeps the answer to a failed login back, also from a client that has gone: its place stays
    /// taken as long.
    fn wait_after_failure(&self, user: &str) {
        const STEP: Duration = Duration::from_millis(20);
        self.peer.fail();
        let address = self.peer.address();
        let client = address.map_or_else(|| "the socket".to_owned(), |one| one.to_string());
        let login = Login { user, now: self.peers.now() };
        let delay = self.failures.failed(self.peer.origin, &client, &login);
        while self.peers.now().since(login.now) < delay && self.peer.end() == End::None {
            thread::sleep(STEP);
        }
    }

    /// Waits for the client's answer about authentication.
    fn password(&mut self) -> Result<Vec<u8>, Refused> {
        self.flush()?;
        loop {
            if let Some((kind, body, taken)) = frontend::frame(self.input.waiting(), MAX_PACKET)? {
                let Message::Password(answer) = frontend::message(kind, body)? else {
                    return Err(Violation::new("expected an answer about authentication").into());
                };
                let answer = answer.to_vec();
                self.input.take(taken);
                return Ok(answer);
            }
            if !self.input.read(&mut self.transport, 0)? {
                return Err(Refused::Silently);
            }
        }
    }
}

/// Reads the client's first answer: the name of a method, a length and the data of SCRAM.
/// `end_point` is there if the method with channel binding was offered.
fn initial<'a>(body: &'a [u8], end_point: Option<&'a [u8]>) -> Result<First<'a>, Refused> {
    let malformed = || Refused::from(Violation::new("invalid SASL response"));
    let (binding, rest) = match (body.strip_prefix(b"SCRAM-SHA-256-PLUS\0"), end_point) {
        (Some(rest), Some(end_point)) => (Binding::Chosen(end_point), rest),
        (_, offered) => {
            let rest = body.strip_prefix(b"SCRAM-SHA-256\0").ok_or_else(malformed)?;
            (if offered.is_some() { Binding::Offered } else { Binding::Absent }, rest)
        }
    };
    let (length, data) = rest.split_first_chunk::<4>().ok_or_else(malformed)?;
    if u32::from_be_bytes(*length) as usize != data.len() {
        return Err(malformed());
    }
    Ok(First { data, binding })
}

fn refused(refusal: &Refusal, user: &str) -> Refused {
    Refused::With(match refusal {
        Refusal::Malformed(what) => SqlError::new("08P01", *what),
        Refusal::Binding(what) => SqlError::new("28000", *what),
        Refusal::Wrong => {
            let message = format!("password authentication failed for user \"{user}\"");
            SqlError::new("28P01", message)
        }
    })
}

/// Sets what a client asks for when it starts.
pub(crate) fn apply(session: &mut Session, options: &[(String, String)]) -> Result<(), SqlError> {
    for (name, value) in options {
        match name.as_str() {
            "user" | "database" | "replication" => {}
            "options" => {
                for (name, value) in switches(value)? {
                    session.set_option(&name, &value)?;
                }
            }
            name if name.starts_with("_pq_.") => {}
            name => session.set_option(name, value)?,
        }
    }
    Ok(())
}

/// Settings written as `-c name=value` or `--name=value`; a backslash keeps a blank.
fn switches(text: &str) -> Result<Options, SqlError> {
    let mut words = vec![String::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let last = words.len() - 1;
        match c {
            '\\' => words[last].extend(chars.next()),
            c if c.is_whitespace() => words.push(String::new()),
            c => words[last].push(c),
        }
    }
    let mut words = words.into_iter().filter(|word| !word.is_empty());
    let mut options = Vec::new();
    while let Some(word) = words.next() {
        let setting = match word.strip_prefix("-c") {
            Some("") => words.next(),
            Some(rest) => Some(rest.to_owned()),
            None => word.strip_prefix("--").map(str::to_owned),
        };
        let pair = setting.as_deref().and_then(|setting| setting.split_once('='));
        let Some((name, value)) = pair else {
            let message = format!("invalid command-line argument for server process: {word}");
            return Err(SqlError::new("42601", message));
        };
        options.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_are_read_as_by_postgres() {
        let read = |text| switches(text).unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            read("-c lock_timeout=5 --statement-timeout=7 -cx=a\\ b"),
            [pair("lock_timeout", "5"), pair("statement_timeout", "7"), pair("x", "a b")]
        );
        assert!(switches("-c").is_err());
        assert!(switches("nonsense").is_err());
    }
}
