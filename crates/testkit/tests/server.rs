//! A server answers while it is held and is gone, with its directory, when it is dropped.

use testkit::wire::{Client, CopyInput};
use testkit::{Server, ServerOptions};

#[test]
fn a_server_lives_as_long_as_it_is_held() {
    let settings = vec![("work_mem".to_owned(), "5MB".to_owned())];
    let server = Server::start(&ServerOptions { settings, ..ServerOptions::default() }).expect("a server");
    let mut client = server.connect().expect("a session");
    assert_eq!(client.scalar("SHOW work_mem").expect("a setting"), "5MB");
    let (port, dir) = (server.port(), server.dir().to_owned());
    drop(server);
    assert!(Client::connect(port).is_err());
    assert!(!dir.exists());
}

#[test]
fn the_client_shows_all_that_the_server_says() {
    let server = Server::start(&ServerOptions::default()).expect("a server");
    let mut client = server.connect().expect("a session");
    let answers = client.simple_all("SELECT 1 AS one, NULL; CREATE TABLE t (a int); SELECT 1/0", CopyInput::default());
    let answers = answers.expect("answers");
    assert_eq!(answers[0].columns.as_ref().expect("columns")[0].name, "one");
    assert_eq!(answers[0].rows, [[Some("1".into()), None]]);
    assert_eq!(answers[1].tag.as_deref(), Some("CREATE TABLE"));
    assert_eq!(answers[2].error.as_ref().expect("an error").code().as_str(), "22012");
    let dropped = client.simple("DROP TABLE IF EXISTS t").expect("an answer");
    assert_eq!((dropped.notices.len(), dropped.status), (1, 'I'), "the error undid the CREATE TABLE before it");
    let answer =
        client.extended("SELECT $1::int + 1", &[Some("41")], CopyInput::default(), |oid| oid == 23).expect("an answer");
    assert_eq!((answer.parameter_types, answer.rows), (vec![23], vec![vec![Some(vec![0, 0, 0, 42].into())]]));
    let begun = client.run("BEGIN; CREATE TABLE t (a int, b text)").expect("a table");
    assert_eq!(begun.status, 'T');
    let input = CopyInput { frames: &[b"1\tx", b"\n2\t\\N\n"], fail: false };
    assert_eq!(client.simple_copy("COPY t FROM STDIN", input).expect("an answer").tag.as_deref(), Some("COPY 2"));
    let out = client.simple("COPY t TO STDOUT").expect("an answer");
    assert_eq!(out.copied.as_deref(), Some(&b"1\tx\n2\t\\N\n"[..]));
}
