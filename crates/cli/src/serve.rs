//! `serve`: the database for psql and other clients; `password`: who may connect.
//!
//! Invariants: SIGTERM and SIGINT let running statements finish, then the database is closed.
//! Does not do: running in the background.

use std::io::{self, BufRead};
use std::sync::Arc;
use std::time::Duration;

use rightlink_env::thread;
use rightlink_server::{Config, ConfigError, Rules, Server, Users};
use rustix::termios::{self, LocalModes, OptionalActions};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::{Common, ServeArgs};
use crate::failure::{Exit, Failure};
use crate::json::Json;
use crate::open;
use crate::output::Output;
use crate::remote::Served;

/// Where it listens when nothing is said.
const LISTEN: &str = "127.0.0.1:5432";

/// Serves until a signal ends it.
pub(crate) fn run(common: &Common, args: ServeArgs, output: &mut Output) -> Result<Exit, Failure> {
    let name = args.db.file_stem().map_or("rightlink".into(), |name| name.to_string_lossy());
    let name = name.into_owned();
    let (path, create) = (args.db.clone(), args.create);
    let config = config(args)?;
    let socket = config.socket.as_ref().map(|folder| folder.display().to_string());
    let (port, wanted) = (config.port, config.max_connections);
    let mut signals =
        Signals::new([SIGINT, SIGTERM]).map_err(|error| Failure::file("signals", &error))?;
    let db = open::wanted(common, &path, create)?;
    let config =
        Config { owner_socket: Some(path), commands: Some(Arc::new(Served(db.clone()))), ..config };
    let server = Server::bind(&db, name, config).map_err(refused)?;
    let room = server.max_connections();
    if room < wanted {
        eprintln!(
            "rightlink: at most {room} connections at a time: the limit of open files has no \
             room for {wanted}"
        );
    }
    for address in server.addresses() {
        let json = Json::Object(vec![("listen".to_owned(), address.to_string().into())]);
        output.either(&json, format_args!("listening on {address}"))?;
    }
    if let Some(folder) = socket {
        let path = format!("{folder}/.s.PGSQL.{port}");
        let json = Json::Object(vec![("socket".to_owned(), path.as_str().into())]);
        output.either(&json, format_args!("listening on {path}"))?;
    }
    output.flush()?;
    let (stopper, handle) = (server.stopper(), signals.handle());
    let stops = move || signals.forever().for_each(|_| stopper.stop());
    let waiting = thread::try_spawn("signals", stops)
        .map_err(|error| Failure::file("thread for signals", &error))?;
    let ended = server.run();
    handle.close();
    let _ = waiting.join();
    db.close()?;
    ended.map_err(|error| Failure::file("sockets", &error))?;
    Ok(Exit::Done)
}

fn config(args: ServeArgs) -> Result<Config, Failure> {
    let mut listen = args.listen;
    if listen.is_empty() && args.socket.is_none() {
        listen.push(LISTEN.parse().expect("an address"));
    }
    let users = args.users.as_deref().map(Users::read).transpose().map_err(refused)?;
    let rules = args.hba.as_deref().map(Rules::read).transpose().map_err(refused)?;
    let config = Config {
        listen,
        socket: args.socket,
        port: args.port,
        databases: args.database,
        users,
        rules,
        insecure: args.insecure,
        max_connections: args.max_connections,
        tcp_user_timeout: Duration::from_secs(args.tcp_user_timeout.into()),
        ..Config::default()
    };
    match (&args.tls_cert, &args.tls_key) {
        (Some(certificates), Some(key)) => config.with_tls(certificates, key).map_err(refused),
        _ => Ok(config),
    }
}

fn refused(error: ConfigError) -> Failure {
    match &error {
        ConfigError::Invalid(_) => Failure::usage(error.to_string()),
        ConfigError::Data(_) => Failure::new(Exit::BadData, error.to_string()),
        ConfigError::Io(what, io) => Failure::file(what, io),
    }
}

/// Prints the line that lets a user in.
pub(crate) fn password(name: &str, output: &mut Output) -> Result<Exit, Failure> {
    // The same verifier for every name: only the name can keep the line from being read back.
    let sample = rightlink_server::verifier("sample").expect("printable ASCII");
    if !Users::parse(&format!("{name}:{sample}")).is_ok_and(|users| users.has(name)) {
        return Err(Failure::usage(
            "a name is not empty, holds no colon and no line break, and has no # and no blank in \
             front",
        ));
    }
    let line = typed()?;
    let password = line.trim_end_matches(['\r', '\n']);
    let Some(verifier) = rightlink_server::verifier(password) else {
        return Err(Failure::usage("a password is not empty and of printable ASCII characters"));
    };
    let json = Json::Object(vec![
        ("user".to_owned(), name.into()),
        ("verifier".to_owned(), verifier.as_str().into()),
    ]);
    output.either(&json, format_args!("{name}:{verifier}"))?;
    Ok(Exit::Done)
}

/// A line of standard input, which a terminal does not show.
fn typed() -> Result<String, Failure> {
    let stdin = io::stdin();
    let before = termios::tcgetattr(&stdin).ok();
    if let Some(before) = &before {
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO);
        quiet.local_modes.insert(LocalModes::ECHONL);
        // Where it is shown all the same, it is still a password.
        let _ = termios::tcsetattr(&stdin, OptionalActions::Flush, &quiet);
        eprint!("Password: ");
    }
    let mut line = String::new();
    let read = stdin.lock().read_line(&mut line);
    if let Some(before) = &before {
        let _ = termios::tcsetattr(&stdin, OptionalActions::Flush, before);
    }
    read.map_err(|error| Failure::file("standard input", &error))?;
    Ok(line)
}
