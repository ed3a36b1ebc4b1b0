//! Clients whose text is in another encoding than the database's.

use crate::client::{Answer, Client, Running, bind, execute, message, parse, start, sync, text};

/// The first field of the first row, as bytes.
fn field(answers: &[Answer]) -> Vec<u8> {
    let row = answers.iter().find(|answer| answer.kind == 'D').expect("there is a row");
    row.body[6..].to_vec()
}

fn error(answers: &[Answer]) -> &Answer {
    answers.iter().find(|answer| answer.kind == 'E').expect("it fails")
}

fn latin9(server: &Running) -> Client {
    let mut client = Client::open(server.address);
    client.start(&[("user", "ann"), ("database", "test"), ("client_encoding", "latin9")]);
    let answers = client.answers();
    let told = answers.iter().any(|one| one.body == b"client_encoding\0LATIN9\0");
    assert!(told, "{answers:?}");
    client
}

/// The euro sign is byte a4 of LATIN9: in statements, parameters, rows and errors.
#[test]
fn statements_values_and_errors_are_converted() {
    let server = start();
    let mut client = latin9(&server);
    client.send(b'Q', b"select '\xa4'\0");
    assert_eq!(field(&client.answers()), b"\xa4");
    client.send(b'Q', b"select convert_to('\xa4', 'UTF8')\0");
    assert_eq!(field(&client.answers()), b"\\xe282ac");
    let mut bound = [text(""), text("")].concat();
    bound.extend(b"\0\0\0\x01\0\0\0\x01\xa4\0\0");
    let parsed = parse("", "select $1 || upper('x')");
    client.raw(&[parsed.clone(), message(b'B', &bound), execute("", 0), sync()].concat());
    assert_eq!(field(&client.answers()), b"\xa4X");
    // Text that is bound and asked for as bytes is text in the client's encoding, too.
    let mut bound = [text(""), text("")].concat();
    bound.extend(b"\0\x01\0\x01\0\x01\0\0\0\x01\xa4\0\x01\0\x01");
    client.raw(&[parsed, message(b'B', &bound), execute("", 0), sync()].concat());
    assert_eq!(field(&client.answers()), b"\xa4X");
    client.send(b'Q', b"select \"\xa4\"\0");
    let answers = client.answers();
    assert!(answers[0].body.windows(3).any(|part| part == b"\"\xa4\""), "{answers:?}");
}

/// A character that the client's encoding lacks fails the statement, and the connection goes on.
#[test]
fn a_character_that_the_client_cannot_read_is_an_error() {
    let server = start();
    let mut client = latin9(&server);
    let answers = client.query("select g, chr(g) from generate_series(8363, 8365) g");
    let error = error(&answers);
    assert_eq!(error.field(b'C'), "22P05");
    let expected = "character with byte sequence 0xe2 0x82 0xab in encoding \"UTF8\" has no \
                    equivalent in encoding \"LATIN9\"";
    assert_eq!(error.field(b'M'), expected);
    assert_eq!(client.told("select 1"), ["1", "SELECT 1"]);
    let answers = client.query("set client_encoding to utf8; select 1");
    assert!(answers.iter().any(|one| one.body == b"client_encoding\0UTF8\0"), "{answers:?}");
    assert_eq!(client.told("select chr(8363)"), ["\u{20ab}", "SELECT 1"]);
    assert_eq!(client.told("set client_encoding to klingon"), ["22023"]);
}

/// Rows of COPY are converted where a message cannot cut a character.
#[test]
fn rows_of_a_copy_are_converted() {
    let server = start();
    let mut client = latin9(&server);
    client.query("create table t (a text)");
    client.query("copy t from stdin");
    client.raw(&[message(b'd', b"\xa4\n"), message(b'c', b"")].concat());
    client.answers();
    assert_eq!(client.told("select count(*) from t where a = chr(8364)"), ["1", "SELECT 1"]);
    let answers = client.query("copy t to stdout");
    assert!(answers.iter().any(|one| one.kind == 'd' && one.body == b"\xa4\n"), "{answers:?}");
    client.query("set client_encoding to euc_jp");
    let copied = [parse("", "copy t from stdin"), bind("", "", &[]), execute("", 0)];
    client.raw(&copied.concat());
    let answers = client.answers();
    assert_eq!(answers.last().map(|one| one.kind), Some('G'));
    client.raw(&[message(b'd', b"\xb0\xa1\n"), message(b'c', b""), sync()].concat());
    assert_eq!(error(&client.answers()).field(b'C'), "22021");
}
