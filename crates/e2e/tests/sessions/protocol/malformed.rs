//! Messages that no driver sends, and first bytes of connections that no client sends: PostgreSQL has an answer to each, or ends the connection
//! without one. (`tests/fuzz/protocol_fuzz.rs` makes more of them up.)

use e2e::protocol::messages::{
    Message, Values, bare, bind, copy_fail, execute, message, of_target, parameters, parse, query, startup,
};
use e2e::protocol::stream::Said;
use e2e::protocol::{converse, knock};

use crate::{Both, create};

const SSL: u32 = (1234 << 16) | 5679;
const CANCEL: u32 = (1234 << 16) | 5678;
const VERSION: u32 = 3 << 16;

fn same(both: &Both, what: &str, act: impl Fn(u16) -> Vec<Said>) {
    let list = |said: Vec<Said>| said.iter().map(|said| format!("{said}\n")).collect::<String>();
    let (expected, actual) = (list(act(both.reference.port())), list(act(both.cluster.coordinators()[0])));
    assert_eq!(actual, expected, "{what}\n(left: the cluster, right: one server)");
}

/// A message with a length of its own.
fn with_length(tag: u8, length: u32, body: &[u8]) -> Message {
    [&[tag], &length.to_be_bytes()[..], body].concat()
}

/// Bind of a statement with one parameter and two columns.
fn bound(formats: &[i16], values: usize, result_formats: &[i16]) -> Vec<Message> {
    let values = Values {
        formats: formats.to_vec(),
        values: vec![Some(b"1".to_vec()); values],
        result_formats: result_formats.to_vec(),
    };
    vec![
        parse("", "SELECT k, v FROM wrong WHERE k = $1", &[]),
        bind("", "", &values),
        execute("", 0),
        bare(b'S'),
        query("SELECT 1"),
    ]
}

/// A COPY by either protocol, a message in the middle of it, and what follows.
fn in_a_copy(odd: &Message) -> [Vec<Message>; 2] {
    let copy = "COPY wrong FROM STDIN";
    let simple = vec![query(copy), message(b'd', b"7\tx\n"), odd.clone(), bare(b'c'), query("SELECT 1")];
    let begin = vec![query("BEGIN"), parse("", copy, &[]), bind("", "", &Values::default()), execute("", 0)];
    let rest = vec![message(b'd', b"8\tx\n"), odd.clone(), bare(b'c'), bare(b'S'), query("SELECT 1")];
    [simple, [begin, rest].concat()]
}

/// What has been done and not been committed when a function call is wrong.
fn before_a_wrong_call(call: &Message) -> [Vec<Message>; 3] {
    let count = query("SELECT count(*) FROM wrong");
    let done = |sql| vec![parse("", sql, &[]), bind("", "", &Values::default()), execute("", 0)];
    let in_block = vec![query("BEGIN"), query("INSERT INTO wrong VALUES (901, 'f')"), call.clone(), query("SELECT 1")];
    let copied = vec![message(b'd', b"903\tf\n"), bare(b'c'), call.clone(), count.clone()];
    [
        [in_block, vec![query("COMMIT"), count.clone()]].concat(),
        [done("INSERT INTO wrong VALUES (902, 'f')"), vec![call.clone(), count]].concat(),
        [done("COPY wrong FROM STDIN"), copied].concat(),
    ]
}

/// Executions of one INSERT, and what comes behind them.
fn inserted(keys: &[usize], behind: Message) -> Vec<Message> {
    let mut all = vec![parse("row", "INSERT INTO wrong VALUES ($1, $2)", &[]), bare(b'S')];
    for key in keys {
        let values = vec![Some(key.to_string().into_bytes()), Some(b"row".to_vec())];
        all.extend([bind("", "row", &Values { values, ..Values::default() }), execute("", 0)]);
    }
    all.extend([behind, bare(b'S'), query("SELECT count(*) FROM wrong"), of_target(b'C', b'S', "row"), bare(b'S')]);
    all
}

pub fn messages(both: &Both) {
    create(&mut both.pair(), "wrong");
    let missing = [&b"\0nosuch\0"[..], b"\0\x01"].concat();
    let mut cases = vec![
        bound(&[0, 0], 1, &[]),
        bound(&[0, 0], 2, &[]),
        bound(&[], 0, &[]),
        bound(&[7], 1, &[]),
        bound(&[], 1, &[0, 0, 0]),
        bound(&[], 1, &[1, 0]),
        vec![message(b'B', &missing), bare(b'S')],
        vec![message(b'F', &[&953u32.to_be_bytes()[..], b"\0\0\0\0\0\0"].concat()), query("SELECT 1")],
        vec![message(b'F', &[&953u32.to_be_bytes()[..], b"\0"].concat()), query("SELECT 1")],
        vec![
            parse("", "SELECT 1", &[]),
            bind("p", "", &Values::default()),
            message(b'B', b"p\0\0\0\0\0\0\0"),
            bare(b'S'),
        ],
    ];
    for body in
        [&b""[..], b"\0", &[&953u32.to_be_bytes()[..], b"\0\0\0\0\0\0"].concat(), b"\0\0\x03\xb9\0\0\0\x01\0\0\0\x04"]
    {
        cases.extend(before_a_wrong_call(&message(b'F', body)));
    }
    cases.extend([
        // Types that were declared as none of a statement that PostgreSQL does not analyse.
        vec![parse("", "SAVEPOINT a", &[0]), bare(b'S')],
        vec![parse("", "SAVEPOINT a", &[23]), bind("", "", &Values::default()), bare(b'S')],
        vec![parse("", "", &[0]), bind("", "", &Values::default()), bare(b'S')],
        // A statement that is missed when it is run.
        vec![parse("", "EXECUTE nosuch", &[]), of_target(b'D', b'S', ""), bare(b'S')],
        vec![
            parse("e", "EXECUTE later", &[]),
            parse("later", "SELECT 1", &[]),
            bind("", "e", &Values::default()),
            of_target(b'D', b'P', ""),
            execute("", 0),
            bare(b'S'),
        ],
        // What has no name stays.
        vec![
            parse("", "DEALLOCATE ALL", &[]),
            bind("", "", &Values::default()),
            execute("", 0),
            bind("p", "", &Values::default()),
            bare(b'S'),
        ],
        vec![parse("", "DISCARD ALL", &[]), bind("", "", &Values::default()), execute("", 0), bare(b'H'), bare(b'S')],
        // What had no name is gone, also when nothing comes of the next.
        vec![parse("", "SELECT 1", &[]), parse("", "SELEC 1", &[]), bare(b'S'), of_target(b'D', b'S', ""), bare(b'S')],
        // Executions that wait for more of their kind are answered in front of the error of the next one, which undoes them.
        inserted(&[5, 6], message(b'B', b"\0row\0\0\0\0\x02\0\0\0\x01")),
        inserted(&[5, 5], message(b'B', b"\0row\0\0\0\0\x01\0\0\0\x01")),
        inserted(&[5, 6], message(b'D', b"P")),
        // The Sync is none of this COPY's, which a later error undoes.
        vec![
            parse("", "COPY wrong FROM STDIN", &[]),
            bind("", "", &Values::default()),
            execute("", 0),
            bare(b'S'),
            message(b'd', b"70\tundone\n"),
            bare(b'c'),
            query("SELECT 1/0"),
        ],
        vec![parse("nothing", ";", &[]), query("EXECUTE nothing")],
        // More than belongs there.
        vec![query("BEGIN"), message(b'S', b"x"), query("SELECT 1"), message(b'S', b""), query("SELECT 2")],
        vec![parse("", "SELECT 1", &[]), message(b'H', b"x"), bare(b'S')],
        vec![of_target(b'D', b'x', ""), bare(b'S'), of_target(b'C', b'x', ""), bare(b'S')],
        vec![message(b'C', b"\0\0more"), bare(b'S'), message(b'D', b"S"), bare(b'S')],
        vec![query("SELECT 1"), with_length(b'S', 10_001, b"")],
        vec![query("SELECT 1"), with_length(b'p', 4, b"")],
        // All at once: what was answered is sent, though the connection ends with the next message.
        vec![query("SELECT 1"), parse("", "SELECT 2", &[]), bare(b'S'), with_length(b'S', 0, b"")],
        vec![parse("", "SELEC 1", &[]), with_length(b'S', 0, b"")],
    ]);
    // What is no whole Sync commits nothing; nor is a portal run that has no rows to move in.
    for (key, end) in
        [message(b'S', b"xy"), with_length(b'S', 4_100, b""), query("MOVE 1 FROM p")].into_iter().enumerate()
    {
        let insert = format!("INSERT INTO wrong VALUES (8{key}, 'cut')");
        cases.push(vec![parse("", &insert, &[]), bind("p", "", &Values::default()), execute("p", 0), end.clone()]);
        cases.push(vec![parse("", &insert, &[]), bind("p", "", &Values::default()), end]);
    }
    for length in [0, 3, 0x3fff_ffff, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
        cases.push(vec![parse("", "SELECT 1", &[]), bare(b'H'), with_length(b'Q', length, b"SELECT 1\0")]);
        cases.extend(in_a_copy(&with_length(b'd', length, b"9\tx\n")));
    }
    for odd in [query("SELECT 2"), bare(b'X'), message(b'f', b"no end"), copy_fail("enough"), bare(b'S'), bare(b'z')] {
        cases.extend(in_a_copy(&odd));
    }
    for case in cases {
        let shown: Vec<String> = case.iter().map(|message| message.escape_ascii().to_string()).collect();
        same(both, &format!("{shown:#?}"), |port| converse(port, &case.concat(), usize::MAX));
    }
    same(both, "what has been stored", |port| converse(port, &query("SELECT * FROM wrong ORDER BY k"), usize::MAX));
}

pub fn packets(both: &Both) {
    let usual = [("user", "postgres"), ("database", "postgres")];
    let login = || startup(VERSION, &parameters(&usual));
    let of = |parameters_of: &[(&str, &str)]| startup(VERSION, &parameters(parameters_of));
    let long = |length: usize| {
        let rest = startup(VERSION, &parameters(&[usual[0], usual[1], ("application_name", "")])).len();
        of(&[usual[0], usual[1], ("application_name", &"x".repeat(length - rest))])
    };
    let cases: [Vec<Message>; 22] = [
        vec![startup(SSL, b""), login()],
        vec![startup(SSL, b""), startup(SSL, b""), login()],
        vec![[startup(SSL, b""), login()].concat()],
        vec![startup(CANCEL, b"1234567")],
        vec![startup(CANCEL, b"12345678")],
        vec![startup(VERSION + 2, &parameters(&usual))],
        vec![startup(2 << 16, &[0; 288])],
        vec![startup(0, &parameters(&usual))],
        vec![of(&[usual[0], usual[1], ("options", "-c")])],
        vec![startup(4 << 16, &parameters(&usual))],
        vec![b"GET / HTTP/1.1\r\n\r\n".to_vec()],
        vec![b"\0\0\0\x07\0\x03\0".to_vec()],
        vec![startup(VERSION, b"")],
        vec![startup(VERSION, b"user\0postgres\0database")],
        vec![startup(VERSION, b"user\0postgres\0database\0postgres\0")],
        vec![startup(VERSION, b"user\0postgres\0database\0postgres\0\0more")],
        vec![of(&[usual[1]])],
        vec![of(&[("user", "nosuch"), usual[1]])],
        vec![of(&[usual[0], ("database", "nosuch")])],
        vec![of(&[usual[0], usual[1], ("nosuch", "1")])],
        vec![long(10_004)],
        vec![long(10_005)],
    ];
    for case in cases {
        let shown: Vec<String> = case.iter().map(|packet| packet.escape_ascii().to_string()).collect();
        same(both, &format!("{shown:#?}"), |port| knock(port, &case));
    }
}
