//! Clients that meet: notifications that come by themselves, and the ends of others.

use crate::client::{Answer, Client, kinds, start, sync, text, told};

/// A notification as a line.
fn said(answer: &Answer) -> String {
    assert_eq!(answer.kind, 'A', "{answer:?}");
    let pid = u32::from_be_bytes(answer.body[..4].try_into().unwrap());
    let mut texts = answer.body[4..].split(|byte| *byte == 0);
    let mut next = || String::from_utf8_lossy(texts.next().unwrap()).into_owned();
    format!("{pid} {} {}", next(), next())
}

fn pid(client: &Client) -> u32 {
    u32::from_be_bytes(client.key[..4].try_into().unwrap())
}

#[test]
fn a_client_that_waits_hears_what_others_say() {
    let server = start();
    let (mut listener, mut speaker) = (server.client(), server.client());
    assert_eq!(listener.told("listen c; listen \"C\""), ["LISTEN", "LISTEN"]);
    let from = pid(&speaker);
    for text in ["", "one", "two"] {
        speaker.query(&format!("notify c, '{text}'"));
        // It waits for nothing but this.
        assert_eq!(said(&listener.answer().unwrap()), format!("{from} c {text}"));
    }
    // In a block they wait for its end, and come before the client may ask again.
    listener.query("begin");
    speaker.query("select pg_notify('C', 'three'), pg_notify('c', 'four')");
    assert_eq!(kinds(&listener.query("select 1")), "TDCZ");
    let answers = listener.query("commit");
    assert_eq!(kinds(&answers), "CAAZ");
    assert_eq!(said(&answers[1]), format!("{from} C three"));
    // What it says itself comes with the answer.
    let own = pid(&listener);
    let answers = listener.query("begin; notify c, 'own'; rollback; notify c, 'mine'");
    assert_eq!(kinds(&answers), "CCCCAZ");
    assert_eq!(said(&answers[4]), format!("{own} c mine"));
    listener.query("unlisten *");
    speaker.query("notify c, 'nobody'");
    assert_eq!(kinds(&listener.query("select 1")), "TDCZ");
    // Half of a message does not keep them back.
    listener.query("listen c");
    let question = crate::client::message(b'Q', &text("select 7"));
    listener.raw(&question[..6]);
    speaker.query("notify c, 'five'");
    assert_eq!(said(&listener.answer().unwrap()), format!("{from} c five"));
    listener.raw(&question[6..]);
    assert_eq!(told(&listener.answers()), ["7", "SELECT 1"]);
}

#[test]
fn a_session_is_ended_by_another() {
    let server = start();
    let mut admin = server.client();
    let sleep = "select pg_sleep(100)";
    let idle: [&str; 2] = ["", "begin"];
    for before in idle {
        let mut client = server.client();
        client.query(before);
        let sql = format!("select pg_terminate_backend({}, 20000)", pid(&client));
        assert_eq!(admin.told(&sql), ["t", "SELECT 1"], "{before}");
        let answers = client.answers();
        assert_eq!(told(&answers), ["57P01"]);
        assert_eq!(answers[0].field(b'S'), "FATAL");
        assert!(client.answer().is_none(), "the connection is closed");
    }
    for extended in [false, true] {
        let mut client = server.client();
        match extended {
            false => client.send(b'Q', &text(sleep)),
            true => {
                let pipeline = [
                    crate::client::parse("", sleep),
                    crate::client::bind("", "", &[]),
                    crate::client::execute("", 0),
                    sync(),
                ];
                client.raw(&pipeline.concat());
            }
        }
        let active = format!(
            "select count(*) from pg_stat_activity where pid = {} and state = 'active'",
            pid(&client)
        );
        while admin.told(&active) != ["1", "SELECT 1"] {}
        let sql = format!("select pg_terminate_backend({})", pid(&client));
        assert_eq!(admin.told(&sql), ["t", "SELECT 1"]);
        let answers = client.answers();
        let last = answers.last().unwrap();
        assert_eq!([last.field(b'S'), last.field(b'C')], ["FATAL", "57P01"], "{answers:?}");
        assert!(client.answer().is_none());
    }
    // Itself.
    let mut client = server.client();
    let answers = client.query("select pg_terminate_backend(pg_backend_pid())");
    assert_eq!(answers.last().unwrap().field(b'C'), "57P01", "{answers:?}");
}
