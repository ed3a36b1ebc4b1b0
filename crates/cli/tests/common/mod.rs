//! What tests of the command share: settings, `rightlink serve` as a process, and a client of a few
//! lines for its Unix socket.

#![allow(dead_code, reason = "every test file uses a part of it")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rightlink_env::sync::{Arc, Mutex};
use rightlink_env::thread::spawn;

pub(crate) const EXE: &str = env!("CARGO_BIN_EXE_rightlink");

/// An empty directory that goes with the value.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("rightlink-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).expect("temporary directories can be made");
        Self(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The number in an environment variable.
pub(crate) fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("it is a number"))
}

/// A server on `db` in a folder; killed when it goes out of scope.
pub(crate) struct Served {
    pub(crate) child: Child,
    pub(crate) folder: PathBuf,
    /// Where it listens by TCP.
    pub(crate) address: String,
    /// What it wrote to its standard error.
    pub(crate) log: Arc<Mutex<String>>,
}

impl Served {
    /// Starts `serve db` in `folder` with `options`, by a shell that runs `first` before.
    pub(crate) fn start(folder: &Path, first: &str, options: &[&str]) -> Served {
        let mut child = Command::new("sh")
            .args(["-c", &format!("{first} && exec \"$@\""), "sh", EXE, "serve", "db"])
            .args(["--listen", "127.0.0.1:0", "--socket", "."])
            .args(options)
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log: Arc<Mutex<String>> = Arc::default();
        let (errors, kept) = (BufReader::new(child.stderr.take().unwrap()), Arc::clone(&log));
        spawn("errors", move || {
            for line in errors.lines().map_while(Result::ok) {
                kept.lock().push_str(&format!("{line}\n"));
            }
        });
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut address = String::new();
        for line in lines.by_ref() {
            let line = line.unwrap();
            if let Some(by_tcp) = line.strip_prefix("listening on 127.") {
                address = format!("127.{by_tcp}");
            }
            // The socket is told last.
            if line.contains(".s.PGSQL.") {
                break;
            }
        }
        // The server never blocks on a full pipe.
        spawn("output", move || lines.for_each(drop));
        assert!(!address.is_empty(), "{}", log.lock());
        Served { child, folder: folder.to_owned(), address, log }
    }

    /// Fails if it has ended or logged an error of its own.
    pub(crate) fn check(&mut self) {
        let ended = self.child.try_wait().unwrap();
        let log = self.log.lock().clone();
        assert!(ended.is_none(), "the server has ended: {ended:?}\n{log}");
        for bad in ["panicked", "corruption", "takes no more writes"] {
            assert!(!log.contains(bad), "{log}");
        }
    }

    /// A client that comes through the socket.
    pub(crate) fn owner(&self) -> Client<UnixStream> {
        Client::start(UnixStream::connect(socket(&self.folder)).unwrap())
            .expect("the owner is let in")
    }

    /// A client by TCP; the code of the error if it is not let in.
    pub(crate) fn stranger(&self) -> Result<Client<TcpStream>, String> {
        Client::start(TcpStream::connect(&self.address).unwrap())
    }

    /// Ends it as an operator does.
    pub(crate) fn stop(&mut self) -> ExitStatus {
        self.signal("TERM");
        self.child.wait().unwrap()
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap();
        assert!(sent.success());
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The Unix socket of a server in `folder`.
pub(crate) fn socket(folder: &Path) -> PathBuf {
    folder.join(".s.PGSQL.5432")
}

/// A connection through a Unix socket. A busy machine may take its time to accept it.
pub(crate) fn connect(socket: &Path) -> UnixStream {
    for _ in 0..1_500 {
        if let Ok(stream) = UnixStream::connect(socket) {
            return stream;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("no connection through {}", socket.display());
}

/// Runs the command in `folder` to its end: exit code, standard output, standard error.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) fn run(folder: &Path, args: &[&str]) -> Ran {
    let output =
        Command::new(EXE).args(args).current_dir(folder).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ran { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
}

/// A client that speaks the simple protocol.
pub(crate) struct Client<S>(S);

pub(crate) trait Stream: Read + Write {
    fn patience(&self, time: Duration);
}

impl Stream for UnixStream {
    fn patience(&self, time: Duration) {
        self.set_read_timeout(Some(time)).unwrap();
    }
}

impl Stream for TcpStream {
    fn patience(&self, time: Duration) {
        self.set_read_timeout(Some(time)).unwrap();
    }
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind], &(body.len() as u32 + 4).to_be_bytes()[..], body].concat()
}

impl<S: Stream> Client<S> {
    /// Starts a session; the code of the error if it is refused, empty if it only ends.
    pub(crate) fn start(mut stream: S) -> Result<Client<S>, String> {
        stream.patience(Duration::from_secs(60));
        let body = [&196_608u32.to_be_bytes()[..], b"user\0ann\0database\0db\0\0"].concat();
        let packet = [&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat();
        if stream.write_all(&packet).is_err() {
            return Err("cannot write".into());
        }
        let mut client = Client(stream);
        match client.told().pop() {
            None => Ok(client),
            Some(code) => Err(code),
        }
    }

    pub(crate) fn send(&mut self, sql: &str) {
        self.0.write_all(&message(b'Q', &[sql.as_bytes(), b"\0"].concat())).unwrap();
    }

    /// First fields of rows, tags, and errors as codes.
    pub(crate) fn ask(&mut self, sql: &str) -> Vec<String> {
        self.send(sql);
        self.told()
    }

    /// As [`Client::ask`], for a question that was sent.
    pub(crate) fn told(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        loop {
            let mut head = [0; 5];
            if let Err(error) = self.0.read_exact(&mut head) {
                told.push(format!("{:?}", error.kind()));
                return told;
            }
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize - 4;
            let mut body = vec![0; length];
            self.0.read_exact(&mut body).unwrap();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            match head[0] {
                b'Z' => return told,
                b'E' => {
                    let mut fields = body.split(|byte| *byte == 0);
                    let code = fields.find_map(|field| field.strip_prefix(b"C"));
                    told.push(text(code.unwrap_or_default()));
                    if body.starts_with(b"SFATAL") {
                        return told;
                    }
                }
                b'C' => told.push(text(body.strip_suffix(b"\0").unwrap_or(&body))),
                b'D' => {
                    let length = u32::from_be_bytes(body[2..6].try_into().unwrap());
                    let field = body[6..].get(..length as usize).unwrap_or_default();
                    told.push(text(field));
                }
                _ => {}
            }
        }
    }
}
