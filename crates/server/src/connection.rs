//! One client: messages in, answers out.
//!
//! Invariants: answers are sent when the client is waited for, asks for it, or when they are many,
//! so a short pipelined sequence costs one send. After an error of the extended protocol everything
//! up to the next Sync is skipped. A connection that ends, in whatever way, rolls its transaction
//! back.
//! Does not do: bytes of messages (`protocol`), SQL.

use std::collections::HashMap;

use rightlink::{Database, Reservation};
use rightlink_sql::{
    Column, Datum, Encoding, Execution, Session, SqlError, SqlType, Times, TransactionStatus,
};

use crate::bell::Bell;
use crate::config::Config;
use crate::peers::{End, Peer, Phase};
use crate::protocol::backend::Out;
use crate::protocol::frontend::{self, Bind, Message, Shorts, Target, Violation};
use crate::sink::{Client, FULL, check_count, lost};
use crate::transport::{Input, Transport};

/// Messages longer than this are counted against the database's memory budget.
const LONG: usize = 64 << 10;
/// Bytes in memory for each byte of an array, whose shortest elements have two.
const ELEMENT: usize = 16;

/// Messages whose contents may be wrong without more being wrong.
const KINDS: &[u8] = b"QPBDECHcdf";

/// Is the client sending rows, and in which protocol did it ask to?
#[derive(Clone, Copy, PartialEq, Eq)]
enum Copying {
    No,
    Simple,
    Extended,
}

/// A connection after its start.
pub(crate) struct Connection<'s> {
    input: Input,
    core: Core<'s>,
}

/// Everything but the bytes that have arrived, so that a message can be handled where it lies.
struct Core<'s> {
    session: Session,
    transport: Transport,
    out: Out,
    peer: &'s Peer,
    formats: Formats,
    /// Is everything skipped until Sync?
    skip: bool,
    copying: Copying,
    /// Changes of settings that the client was told of.
    told: u64,
    reported: Vec<(&'static str, String)>,
    /// Wakes the connection when a notification comes; there from the first LISTEN on.
    bell: Option<Bell>,
}

/// Formats of the results of portals.
#[derive(Default)]
struct Formats {
    /// Of the portal without a name, which most clients use alone.
    unnamed: Vec<i16>,
    named: HashMap<String, Vec<i16>>,
}

impl Formats {
    fn of(&self, portal: &str) -> &[i16] {
        match portal {
            "" => &self.unnamed,
            name => self.named.get(name).map_or(&[][..], Vec::as_slice),
        }
    }

    fn set(&mut self, portal: &str, formats: Shorts<'_>) {
        match portal {
            "" => {
                self.unnamed.clear();
                self.unnamed.extend(formats.iter());
            }
            name => drop(self.named.insert(name.to_owned(), formats.iter().collect())),
        }
    }

    fn remove(&mut self, portal: &str) {
        match portal {
            "" => self.unnamed.clear(),
            name => drop(self.named.remove(name)),
        }
    }

    fn clear(&mut self) {
        self.unnamed.clear();
        self.named.clear();
    }
}

/// Does the connection go on?
enum Flow {
    On,
    End,
}

type Handled = Result<Flow, SqlError>;

impl<'s> Connection<'s> {
    /// A connection whose client has authenticated.
    pub(crate) fn new(
        session: Session,
        transport: Transport,
        input: Input,
        out: Out,
        peer: &'s Peer,
    ) -> Self {
        let core = Core {
            told: u64::MAX,
            reported: Vec::new(),
            bell: None,
            session,
            transport,
            out,
            peer,
            formats: Formats::default(),
            skip: false,
            copying: Copying::No,
        };
        Connection { input, core }
    }

    /// Serves the client until one of both ends it.
    pub(crate) fn serve(mut self, config: &Config) {
        self.core.out.key(self.core.peer.pid, self.core.peer.secret);
        self.core.ready();
        if let Err(error) = self.run(config) {
            self.core.out.error(&error, "FATAL");
            // The client may be gone.
            let _ = self.core.flush();
        }
    }

    fn run(&mut self, config: &Config) -> Result<(), SqlError> {
        let mut memory: Option<Reservation> = None;
        loop {
            let waiting = self.input.waiting();
            let frame = frontend::frame(waiting, config.max_message)?;
            if let Some((kind, body, taken)) = frame {
                if let Flow::End = self.core.handle(kind, body)? {
                    return Ok(());
                }
                self.input.take(taken);
                memory = None;
                // A short message may have a long answer, and many of them lie in one read.
                if self.core.out.bytes().len() > FULL {
                    self.core.flush()?;
                }
                continue;
            }
            let claimed = frontend::claimed(waiting).unwrap_or(0);
            if claimed > LONG && memory.is_none() {
                memory = Some(reserve(self.core.session.database(), claimed)?);
            }
            self.core.flush()?;
            self.core.await_client()?;
            match self.input.read(&mut self.core.transport, claimed) {
                Ok(true) => {}
                Ok(false) => return self.core.ended(),
                Err(error) => return Err(lost(&error)),
            }
        }
    }
}

fn reserve(db: &Database, bytes: usize) -> Result<Reservation, SqlError> {
    db.budget().try_reserve(bytes).ok_or_else(|| {
        SqlError::new("53200", format!("out of memory for a message of {bytes} bytes"))
    })
}

impl Core<'_> {
    fn flush(&mut self) -> Result<(), SqlError> {
        if !self.out.bytes().is_empty() {
            self.transport.send(self.out.bytes()).map_err(|error| lost(&error))?;
            self.out.clear();
        }
        Ok(())
    }

    /// Waits for bytes of the client, and sends it the notifications that come meanwhile.
    fn await_client(&mut self) -> Result<(), SqlError> {
        loop {
            let Some(bell) = &self.bell else { return Ok(()) };
            if self.transport.has_arrived() {
                return Ok(());
            }
            let has_come = bell.wait(self.transport.socket()).map_err(|error| lost(&error))?;
            if self.deliver() {
                self.flush()?;
            }
            if has_come {
                return Ok(());
            }
        }
    }

    /// Hands the client the notifications that have come. True: there were any.
    fn deliver(&mut self) -> bool {
        if self.bell.is_none() && self.session.is_listening() {
            // Without a descriptor for a bell, notifications come with the next answer.
            self.bell = Bell::new().ok();
            if let Some(bell) = &self.bell {
                self.session.on_notification(bell.ringer());
            }
        }
        let all = self.session.take_notifications();
        all.iter().for_each(|one| self.out.notification(one));
        !all.is_empty()
    }

    /// Is the error the last message, because another session has terminated this one?
    fn is_last(&self, error: &SqlError) -> bool {
        error.sqlstate == "57P01" && self.peer.end() == End::Shutdown
    }

    /// No more bytes come: somebody may have seen to that.
    fn ended(&self) -> Result<(), SqlError> {
        match self.peer.end() {
            End::None | End::Startup | End::Crowded => Ok(()),
            End::Shutdown => {
                Err(SqlError::new("57P01", "terminating connection due to administrator command"))
            }
            End::IdleInTransaction => Err(SqlError::new(
                "25P03",
                "terminating connection due to idle-in-transaction timeout",
            )),
        }
    }

    /// Tells the client that it may ask again, and what settings have changed.
    fn ready(&mut self) {
        let changes = self.session.setting_changes();
        if changes != self.told {
            self.told = changes;
            let now = self.session.reported_settings();
            for (at, (name, value)) in now.iter().enumerate() {
                if self.reported.get(at).is_none_or(|(_, old)| old != value) {
                    self.out.setting(name, value);
                }
            }
            self.reported = now;
            self.out.set_encoding(self.session.client_encoding());
            let idle = self.session.millis_setting("idle_in_transaction_session_timeout");
            self.peer.set_idle_millis(idle.unwrap_or(0));
        }
        self.deliver();
        let status = self.session.status();
        self.out.ready(status);
        self.peer.enter(match status {
            TransactionStatus::Idle => Phase::Idle,
            TransactionStatus::Block | TransactionStatus::Failed => Phase::IdleInTransaction,
        });
    }

    /// Handles a message; an error ends the connection.
    fn handle(&mut self, kind: u8, body: &[u8]) -> Handled {
        self.peer.busy();
        let encoding = match kind {
            b'd' => self.out.copy_encoding(),
            _ => self.out.encoding(),
        };
        let decoded = match frontend::decoded(kind, body, encoding) {
            Ok(decoded) => decoded,
            Err(error) => return self.malformed(kind, error),
        };
        let message = match frontend::message(kind, &decoded) {
            Ok(message) => message,
            Err(what) => return self.malformed(kind, what.into()),
        };
        if self.copying != Copying::No {
            return self.copy_in(&message);
        }
        match message {
            Message::Terminate => return Ok(Flow::End),
            Message::Sync => self.sync(),
            _ if self.skip => {}
            Message::Query(sql) => self.query(sql)?,
            Message::Flush => self.flush()?,
            // What a client sent before it heard that its COPY has failed.
            Message::CopyData(_) | Message::CopyDone | Message::CopyFail(_) => {}
            Message::Password(_) => return Err(Violation::new("unexpected password").into()),
            Message::FunctionCall => {
                let what = "function calls of the protocol are not supported";
                self.fail(&SqlError::new("0A000", what));
                self.ready();
            }
            other => {
                if let Err(error) = self.extended(other) {
                    if self.is_last(&error) {
                        return Err(error);
                    }
                    self.fail(&error);
                    self.skip = true;
                }
            }
        }
        Ok(Flow::On)
    }

    /// A message that is not what its kind says. Where the next one begins is known all the same,
    /// so only what nobody expects ends the connection.
    fn malformed(&mut self, kind: u8, error: SqlError) -> Handled {
        match (self.copying, kind) {
            (Copying::No, _) => {}
            (_, b'c' | b'd' | b'f') => {
                // The reason is told below.
                let _ = self.session.copy_fail("");
                return self.copy_ended(Err(error));
            }
            (_, b'H' | b'S' | b'X') => {}
            _ => return Err(unexpected()),
        }
        match kind {
            b'X' => return Ok(Flow::End),
            b'S' => {
                self.fail(&error);
                self.sync();
            }
            _ if !KINDS.contains(&kind) => return Err(error),
            _ if self.skip => {}
            b'c' | b'd' | b'f' => {}
            b'Q' => {
                self.fail(&error);
                self.ready();
            }
            _ => {
                self.fail(&error);
                self.skip = true;
            }
        }
        Ok(Flow::On)
    }

    /// An error that the session did not find itself.
    fn fail(&mut self, error: &SqlError) {
        let error = self.session.refuse(error.clone());
        self.out.error(&error, "ERROR");
    }

    /// An error ends the connection.
    fn query(&mut self, sql: &str) -> Result<(), SqlError> {
        let mut sink = Client {
            out: &mut self.out,
            transport: &mut self.transport,
            formats: None,
            binary: false,
            any: false,
            copying_out: false,
        };
        match self.session.run(sql, &mut sink) {
            Ok(()) if self.session.is_copying() => {
                self.copying = Copying::Simple;
                return Ok(());
            }
            Ok(()) if !sink.any => self.out.plain(b'I'),
            Ok(()) => {}
            Err(error) if self.is_last(&error) => return Err(error),
            Err(error) => self.out.error(&error, "ERROR"),
        }
        self.ready();
        Ok(())
    }

    fn sync(&mut self) {
        self.skip = false;
        if let Err(error) = self.session.sync() {
            self.out.error(&error, "ERROR");
        }
        if self.session.status() == TransactionStatus::Idle {
            // No portal outlives its transaction.
            self.formats.clear();
        }
        self.ready();
    }

    fn extended(&mut self, message: Message<'_>) -> Result<(), SqlError> {
        match message {
            Message::Parse { name, sql, types } => self.parse(name, sql, &types)?,
            Message::Bind(bind) => self.bind(&bind)?,
            Message::Describe(Target::Statement(name)) => {
                let out = &mut self.out;
                self.session.with_description(name, |description| {
                    check_count(description.parameters.len())?;
                    check_count(description.columns.as_ref().map_or(0, Vec::len))?;
                    out.parameters(&description.parameter_oids);
                    match &description.columns {
                        Some(columns) => out.columns(columns, &[]),
                        None => out.plain(b'n'),
                    }
                    Ok::<(), SqlError>(())
                })??;
            }
            Message::Describe(Target::Portal(name)) => {
                let formats = self.formats.of(name);
                let out = &mut self.out;
                self.session.with_portal(name, |columns| {
                    check_count(columns.map_or(0, <[Column]>::len))?;
                    match columns {
                        Some(columns) => out.columns(columns, formats),
                        None => out.plain(b'n'),
                    }
                    Ok::<(), SqlError>(())
                })??;
            }
            Message::Execute { portal, limit } => self.execute(portal, limit)?,
            Message::Close(Target::Statement(name)) => {
                self.session.close_statement(name);
                self.out.plain(b'3');
            }
            Message::Close(Target::Portal(name)) => {
                self.session.close_portal(name);
                self.formats.remove(name);
                self.out.plain(b'3');
            }
            other => unreachable!("handled before: {other:?}"),
        }
        Ok(())
    }

    fn parse(&mut self, name: &str, sql: &str, oids: &[u32]) -> Result<(), SqlError> {
        self.session.prepare_numbered(name, sql, oids)?;
        self.out.plain(b'1');
        Ok(())
    }

    fn bind(&mut self, bind: &Bind<'_>) -> Result<(), SqlError> {
        let (db, times) = (self.session.database().clone(), self.session.times());
        let encoding = self.out.encoding();
        let values = self.session.with_description(bind.statement, |description| {
            check_formats(bind, description.columns.as_deref())?;
            values(bind, &description.parameters, &Reading { db: &db, times: &times, encoding })
        });
        self.session.bind(bind.portal, bind.statement, values??)?;
        self.formats.set(bind.portal, bind.results);
        self.out.plain(b'2');
        Ok(())
    }

    fn execute(&mut self, portal: &str, limit: u64) -> Result<(), SqlError> {
        let formats = self.formats.of(portal);
        let mut sink = Client {
            out: &mut self.out,
            transport: &mut self.transport,
            formats: Some(formats),
            binary: false,
            any: false,
            copying_out: false,
        };
        match self.session.execute_portal(portal, limit, &mut sink)? {
            Execution::Complete(tag) => {
                sink.end_copy();
                self.out.complete(&tag);
            }
            Execution::Suspended => self.out.plain(b's'),
            Execution::Empty => self.out.plain(b'I'),
            Execution::Copying => self.copying = Copying::Extended,
        }
        Ok(())
    }

    /// A message while the client sends rows.
    fn copy_in(&mut self, message: &Message<'_>) -> Handled {
        let ended = match message {
            Message::CopyData(bytes) => match self.session.copy_data(bytes) {
                Ok(()) => return Ok(Flow::On),
                Err(error) => Err(error),
            },
            Message::CopyDone => self.session.copy_done(),
            Message::CopyFail(reason) => Err(self.session.copy_fail(reason)),
            // The client sent them before it knew that a COPY begins.
            Message::Flush | Message::Sync => return Ok(Flow::On),
            Message::Terminate => return Ok(Flow::End),
            _ => return Err(unexpected()),
        };
        self.copy_ended(ended)
    }

    fn copy_ended(&mut self, ended: Result<String, SqlError>) -> Handled {
        let was = std::mem::replace(&mut self.copying, Copying::No);
        match ended {
            Ok(tag) => self.out.complete(&tag),
            Err(error) => {
                self.out.error(&error, "ERROR");
                self.skip = was == Copying::Extended;
            }
        }
        if was == Copying::Simple {
            self.ready();
        }
        Ok(Flow::On)
    }
}

fn unexpected() -> SqlError {
    Violation::new("unexpected message during COPY").into()
}

/// Formats of results are none, one for all, or one each.
fn check_formats(bind: &Bind<'_>, columns: Option<&[Column]>) -> Result<(), SqlError> {
    let (formats, columns) = (bind.results.len(), columns.map(<[Column]>::len));
    match columns {
        Some(columns) if formats > 1 && formats != columns => {
            let what = format!(
                "bind message has {formats} result formats but query has {columns} columns"
            );
            Err(SqlError::new("08P01", what))
        }
        _ => Ok(()),
    }
}

/// What it takes to read values of parameters.
struct Reading<'r> {
    db: &'r Database,
    times: &'r Times,
    encoding: Encoding,
}

/// The values of a Bind, as the types that the statement's parameters have.
fn values(
    bind: &Bind<'_>,
    types: &[SqlType],
    reading: &Reading<'_>,
) -> Result<Vec<Datum>, SqlError> {
    let Reading { db, times, encoding } = *reading;
    let value = |(at, bytes): (usize, &Option<&[u8]>)| {
        let ty = types.get(at).copied().unwrap_or(SqlType::Text);
        let Some(bytes) = bytes else { return Ok(Datum::Null) };
        let is_long = ty.is_array() && bytes.len() > LONG;
        // The text's memory while it is read; the session counts the value that it becomes.
        let _memory = is_long.then(|| reserve(db, bytes.len() * ELEMENT)).transpose()?;
        if bind.formats.at(at) == 1 {
            return Datum::from_binary_in(ty, bytes, encoding);
        }
        let text = encoding.decode(bytes)?;
        if text.contains('\0') {
            let name = encoding.name();
            let message = format!("invalid byte sequence for encoding \"{name}\": 0x00");
            return Err(SqlError::new("22021", message));
        }
        Datum::from_text_in(ty, &text, times)
    };
    let mut values = Vec::with_capacity(bind.values.len());
    for each in bind.values.iter().enumerate() {
        values.push(value(each)?);
    }
    Ok(values)
}
