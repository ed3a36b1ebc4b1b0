//! tokio-postgres, the driver of Rust programs, against a server with a password, with TLS too.
//!
//! Certificate and key in `tls` are for this test alone.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::client::start_with;
use rightlink_server::{Config, Rules, Users, verifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::config::ChannelBinding::Require as Required;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_postgres::{AsyncMessage, Client, NoTls, Socket};
use tokio_rustls::TlsConnector;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tls");

/// TLS that trusts the test's certificate and no other.
#[derive(Clone)]
struct Tls {
    connector: TlsConnector,
    /// What the client says of the server's certificate; nothing without channel binding.
    binding: Option<Vec<u8>>,
}

/// A handshake that is to be made with the server of a name.
struct Handshake {
    tls: Tls,
    name: ServerName<'static>,
}

struct Encrypted {
    stream: tokio_rustls::client::TlsStream<Socket>,
    binding: Option<Vec<u8>>,
}

impl Tls {
    fn new() -> Tls {
        let mut roots = rustls::RootCertStore::empty();
        let path = Path::new(FOLDER).join("cert.pem");
        roots.add(CertificateDer::from_pem_file(path).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Tls { connector: TlsConnector::from(Arc::new(config)), binding: None }
    }

    /// With channel binding.
    fn binding(bytes: &[u8]) -> Tls {
        Tls { binding: Some(bytes.to_vec()), ..Tls::new() }
    }
}

impl MakeTlsConnect<Socket> for Tls {
    type Stream = Encrypted;
    type TlsConnect = Handshake;
    type Error = rustls::pki_types::InvalidDnsNameError;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Handshake, Self::Error> {
        Ok(Handshake { tls: self.clone(), name: ServerName::try_from(domain.to_owned())? })
    }
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Encrypted;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        let Tls { connector, binding } = self.tls;
        Box::pin(async move {
            let stream = connector.connect(self.name, socket).await?;
            Ok(Encrypted { stream, binding })
        })
    }
}

impl TlsStream for Encrypted {
    fn channel_binding(&self) -> ChannelBinding {
        let binding = self.binding.clone();
        binding.map_or_else(ChannelBinding::none, ChannelBinding::tls_server_end_point)
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

fn users() -> Option<Users> {
    Some(Users::parse(&format!("ann:{}", verifier("secret").unwrap())).unwrap())
}

fn settings(address: SocketAddr, password: &str) -> tokio_postgres::Config {
    let mut config = tokio_postgres::Config::new();
    config.host("localhost").hostaddr(address.ip()).port(address.port());
    config.user("ann").password(password).dbname("test");
    config
}

async fn connect(address: SocketAddr, password: &str) -> Result<Client, SqlState> {
    let connected = settings(address, password).connect(NoTls).await;
    let (client, connection) =
        connected.map_err(|error| error.code().expect("an answer of the server").clone())?;
    tokio::spawn(connection);
    Ok(client)
}

/// Roles get in by their own passwords, where rules let them, and may do what roles may.
#[tokio::test]
async fn roles_log_in_by_their_own_passwords() {
    let rules = "host all bob all reject\nhost all +staff all scram-sha-256\n";
    let rules = Some(Rules::parse(rules).unwrap());
    let server = start_with(Config { rules, ..Config::default() });
    let mut owner = rightlink_sql::Session::new(&server.db);
    let sql = "create role staff; create role eve login password 'pa ss' in role staff; \
               create role bob login password 'x' in role staff; \
               create role late login password 'y' valid until '2001-01-01' in role staff; \
               create role out login password 'z'; create table t (a int)";
    owner.execute(sql).unwrap();
    let log_in = async |user: &str, password: &str| {
        let mut settings = settings(server.address, password);
        settings.user(user);
        match settings.connect(NoTls).await {
            Ok((client, connection)) => {
                tokio::spawn(connection);
                Ok(client)
            }
            Err(error) => Err(error.code().expect("an answer of the server").clone()),
        }
    };
    let refused = SqlState::INVALID_AUTHORIZATION_SPECIFICATION;
    for (user, password, error) in [
        ("eve", "wrong", SqlState::INVALID_PASSWORD),
        ("late", "y", SqlState::INVALID_PASSWORD),
        ("bob", "x", refused.clone()),
        ("out", "z", refused),
    ] {
        assert_eq!(log_in(user, password).await.map(drop).unwrap_err(), error, "{user}");
    }
    let eve = log_in("eve", "pa ss").await.unwrap();
    let error = eve.query("select * from t", &[]).await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE));
    owner.execute("grant select on t to staff").unwrap();
    assert!(eve.query("select * from t", &[]).await.unwrap().is_empty());
    assert!(server.db.verify().unwrap().is_clean());
}

/// Settings of a server with a password, and with the test's certificate.
fn under_tls() -> Config {
    let folder = Path::new(FOLDER);
    let config = Config { users: users(), ..Config::default() };
    // A clone of the repository has the key for all to read, which the server refuses.
    let private = tempfile::tempdir().unwrap();
    let key = private.path().join("key.pem");
    std::fs::copy(folder.join("key.pem"), &key).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    config.with_tls(&folder.join("cert.pem"), &key).unwrap()
}

/// A client that asks for channel binding gets it, over TLS alone, and only with the certificate
/// that it sees.
#[tokio::test]
async fn channel_binding_names_the_certificate() {
    let server = start_with(under_tls());
    let certificate = CertificateDer::from_pem_file(Path::new(FOLDER).join("cert.pem")).unwrap();
    let hash = ring::digest::digest(&ring::digest::SHA256, &certificate);
    let mut other = hash.as_ref().to_vec();
    other[31] ^= 1;
    let mut settings = settings(server.address, "secret");
    settings.ssl_mode(SslMode::Require).channel_binding(Required);
    let (client, connection) = settings.connect(Tls::binding(hash.as_ref())).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("select 1").await.unwrap();
    for wrong in [&other[..], b"", &other[..31]] {
        let error = settings.connect(Tls::binding(wrong)).await.map(drop).unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION));
    }
    // The password is checked as before.
    let mut wrong = settings.clone();
    let error = wrong.password("wrong").connect(Tls::binding(hash.as_ref())).await.map(drop);
    assert_eq!(error.unwrap_err().code(), Some(&SqlState::INVALID_PASSWORD));
    // Without TLS it is not offered, and the client gives up.
    assert!(settings.clone().ssl_mode(SslMode::Disable).connect(NoTls).await.is_err());
}

#[tokio::test]
async fn the_same_under_tls() {
    let server = start_with(under_tls());
    let mut settings = settings(server.address, "secret");
    settings.ssl_mode(SslMode::Require);
    let (client, mut connection) = settings.connect(Tls::new()).await.unwrap();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut next = std::future::poll_fn(|context| connection.poll_message(context)).await;
        while let Some(Ok(message)) = next {
            if let AsyncMessage::Notification(one) = message {
                let _ = tell.send(format!("{} {}", one.channel(), one.payload()));
            }
            next = std::future::poll_fn(|context| connection.poll_message(context)).await;
        }
    });
    client.batch_execute("create table t (id int8 primary key, name text)").await.unwrap();
    // What others say comes to a client that waits, between questions and answers of any length.
    client.batch_execute("listen c").await.unwrap();
    let mut plain = settings.clone();
    let (speaker, connection) = plain.ssl_mode(SslMode::Disable).connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    for turn in 0..20 {
        let long = "y".repeat(40_000 * (turn % 2));
        client.query_one("select length($1)", &[&long]).await.unwrap();
        speaker.batch_execute(&format!("notify c, '{turn}'")).await.unwrap();
        assert_eq!(told.recv().await, Some(format!("c {turn}")));
    }
    // Rows of many records of TLS, both ways.
    let long = "x".repeat(100_000);
    let insert = client.prepare("insert into t values ($1, $2)").await.unwrap();
    for id in 0..10i64 {
        client.execute(&insert, &[&id, &long]).await.unwrap();
    }
    let rows = client.query("select name from t order by id", &[]).await.unwrap();
    assert_eq!(rows.len(), 10);
    assert!(rows.iter().all(|row| row.get::<_, &str>(0) == long));
    let token = client.cancel_token();
    // Again and again: the first may come before the statement does.
    let cancel = async {
        for _ in 0..100 {
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            token.cancel_query(Tls::new()).await.unwrap();
        }
    };
    let slept = tokio::select! {
        slept = client.query("select pg_sleep(60)", &[]) => slept,
        () = cancel => panic!("it is not cancelled"),
    };
    assert_eq!(slept.unwrap_err().code(), Some(&SqlState::QUERY_CANCELED));
    // The certificate is for another name than this.
    let mut strangers = tokio_postgres::Config::new();
    strangers.host("127.0.0.1").port(server.address.port()).user("ann").password("secret");
    strangers.ssl_mode(SslMode::Require);
    assert!(strangers.connect(Tls::new()).await.is_err());
}

#[tokio::test]
async fn a_rust_program_connects_writes_reads_and_cancels() {
    let server = start_with(Config { users: users(), ..Config::default() });
    let wrong = connect(server.address, "wrong").await;
    assert_eq!(wrong.map(|_| ()).unwrap_err(), SqlState::INVALID_PASSWORD);

    let mut client = connect(server.address, "secret").await.unwrap();
    client.batch_execute("create table t (id int8 primary key, name text)").await.unwrap();
    let insert = client.prepare("insert into t values ($1, $2)").await.unwrap();
    for id in 0..100i64 {
        client.execute(&insert, &[&id, &format!("n{id}")]).await.unwrap();
    }
    let found = client.query_one("select name from t where id = $1", &[&7i64]).await.unwrap();
    assert_eq!(found.get::<_, &str>(0), "n7");
    let again = client.execute(&insert, &[&7i64, &"again"]).await.unwrap_err();
    assert_eq!(again.code(), Some(&SqlState::UNIQUE_VIOLATION));

    let transaction = client.transaction().await.unwrap();
    let portal = transaction.bind("select id from t order by id", &[]).await.unwrap();
    assert_eq!(transaction.query_portal(&portal, 30).await.unwrap().len(), 30);
    assert_eq!(transaction.query_portal(&portal, 0).await.unwrap().len(), 70);
    transaction.execute("delete from t", &[]).await.unwrap();
    transaction.rollback().await.unwrap();
    let count = client.query_one("select count(*) from t", &[]).await.unwrap();
    assert_eq!(count.get::<_, i64>(0), 100);

    let token = client.cancel_token();
    // Again and again: the first may come before the statement does.
    let cancel = async {
        for _ in 0..100 {
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            token.cancel_query(NoTls).await.unwrap();
        }
    };
    let slept = tokio::select! {
        slept = client.query("select pg_sleep(60)", &[]) => slept,
        () = cancel => panic!("it is not cancelled"),
    };
    assert_eq!(slept.unwrap_err().code(), Some(&SqlState::QUERY_CANCELED));
}
