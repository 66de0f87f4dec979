//! Random messages of clients: to one PostgreSQL and to a coordinator, and what both say to them. `tests/fuzz/protocol_fuzz.rs`
//! runs it.
//!
//! * [`messages`]: messages as bytes; [`texts`]: the statements in them.
//! * [`sequence`]: random sequences of them for a session, some spoiled; [`startup`]: the first bytes of connections.
//! * [`stream`]: a connection that notes all that is said; [`mod@compare`]: whether it is the same.
//!
//! Behind each sequence comes an epilogue, CopyFail, Sync, ROLLBACK and a query whose row says that all is answered; then
//! Terminate. Bytes that a spoiled length lacks are made up, if they are few; if they are many the epilogue comes in front of that message,
//! and the client hangs up in the middle of it.
//!
//! # What is compared
//! Types of messages, errors with severity, SQLSTATE and message text, columns, rows, command tags, transaction status, when the connection
//! ends; and what the tables hold afterwards. Not ParameterStatus, notices and notifications, keys of cancel requests,
//! numbers of tables and attributes in RowDescription, which bytes of a wrong character an error shows, which fault of a message with several, and whether a
//! pipeline is called one or a block (25001).
//!
//! # What may differ
//! From the first such place on nothing of the sequence is compared.
//! * The cluster refuses a statement (0A000).
//! * PostgreSQL may be built with GSSAPI and take a request for its encryption; a coordinator answers N.
//! * A connection ends while PostgreSQL has answers in its buffer, for want of Sync or Flush: it drops them. A coordinator sends
//!   them as soon as it waits for the client.
//! * PostgreSQL reads the values of parameters at Bind, a coordinator has the datanode read them that runs the statement:
//!   BindComplete comes in front of the error, and a portal that is never executed has none.
//! * An error in the data of a COPY: PostgreSQL tells at once, and reads what the client sends after that as ordinary messages. A
//!   coordinator finds it on a datanode, and reads data up to CopyDone or CopyFail, as drivers send them.
//! * A Query that fails in a block leaves its unnamed portal in PostgreSQL, and a portal of MOVE or CLOSE can name itself: errors other than "does not
//!   exist" (34000) come of both, or, of Execute of the former, a crash of PostgreSQL 15. No client can do anything with such portals.
//! * Of a role and a database that both do not exist PostgreSQL tells of the role, a coordinator of the database.
//! * PostgreSQL's own internal errors (XX000), as of EXECUTE of a prepared RELEASE.
//! * A coordinator takes no startup parameter that is not UTF-8 (08P01): it could not quote it to the datanodes.

use pgerror::Result;
use testkit::wire::{Client, CopyInput};
use testkit::{Cluster, Rng, Server};

pub mod compare;
pub mod messages;
pub mod sequence;
pub mod startup;
pub mod stream;
pub mod texts;

use compare::{Comparison, compare};
use messages::{Framing, Message, bare, copy_fail, framing, parameters, query};
use stream::{Said, Stream};

/// More missing bytes than this are not made up.
const MADE_UP_MAX: usize = 20_000;
/// What the row of the epilogue holds.
const EPILOGUE: &str = "this is all";

/// A stock server and a cluster with the tables.
#[derive(Debug)]
pub struct Both {
    /// The stock server.
    pub reference: Server,
    /// The cluster.
    pub cluster: Cluster,
}

/// What a case was, in case it has to be shown, and what came of it.
#[derive(Debug)]
pub struct Outcome {
    /// How many messages were sent.
    pub messages: usize,
    /// What came of it.
    pub comparison: Comparison,
}

impl Both {
    /// Makes the tables.
    ///
    /// # Errors
    /// When a server refuses them.
    pub fn set_up(&self) -> Result<()> {
        let (mut reference, mut cluster) = (self.reference.connect()?, self.cluster.connect(0)?);
        for (table, distribution) in texts::TABLES {
            reference.run(table)?;
            let clause =
                if self.cluster.is_distributed() { format!(" DISTRIBUTE BY {distribution}") } else { String::new() };
            cluster.run(&format!("{table}{clause}"))?;
        }
        for client in [&mut reference, &mut cluster] {
            client.run(texts::FILL)?;
        }
        Ok(())
    }

    /// The first bytes of a connection, made from the seed.
    pub fn startup_case(&self, seed: u64) -> (Vec<Message>, Outcome) {
        let packets = startup::packets(&mut Rng::new(seed));
        let act = |port| knock(port, &packets);
        let (reference, cluster) = self.both(act);
        (packets.clone(), Outcome { messages: packets.len(), comparison: compare(&reference, &cluster) })
    }

    /// Sends a sequence to both.
    pub fn sequence_case(&self, sequence: &[Message], piece: usize) -> Outcome {
        let bytes = sequence.concat();
        let (reference, cluster) = self.both(|port| converse(port, &bytes, piece));
        Outcome { messages: sequence.len() + 4, comparison: compare(&reference, &cluster) }
    }

    fn both(&self, act: impl Fn(u16) -> Vec<Said> + Sync) -> (Vec<Said>, Vec<Said>) {
        let (one, other) = (self.reference.port(), self.cluster.coordinators()[0]);
        std::thread::scope(|scope| {
            let reference = scope.spawn(|| act(one));
            let cluster = act(other);
            (reference.join().expect("the other thread reads too"), cluster)
        })
    }

    /// Looks at the tables after a sequence, and gives them back the rows they began with; what differs, if anything may not.
    ///
    /// # Errors
    /// When a connection breaks.
    pub fn tables_differ(
        &self,
        looks: &mut [Client; 2],
        comparison: &Comparison,
        full: &Contents,
    ) -> Result<Option<String>> {
        let mut found = Vec::new();
        for look in looks.iter_mut() {
            found.push(contents(look)?);
        }
        let differ = found[0] != found[1] && *comparison == Comparison::Same;
        for (look, found) in looks.iter_mut().zip(&found) {
            if found != full {
                look.run(texts::FILL)?;
            }
        }
        Ok(differ.then(|| format!("  the tables of one server: {:?}\n  of the cluster: {:?}\n", found[0], found[1])))
    }
}

/// Rows of the tables.
pub type Contents = Vec<Vec<Vec<Option<bytes::Bytes>>>>;

/// What the tables hold.
///
/// # Errors
/// When the connection breaks, or the tables cannot be read.
pub fn contents(client: &mut Client) -> Result<Contents> {
    let answers = client.simple_all(texts::CONTENTS, CopyInput::default())?;
    answers.into_iter().map(|answer| answer.error.map_or(Ok(answer.rows), Err)).collect()
}

/// Leaves out messages as long as the two still differ.
pub fn shrink(sequence: Vec<Message>, mut differs: impl FnMut(&[Message]) -> bool) -> Vec<Message> {
    let mut small = sequence;
    let mut at = small.len();
    while at > 0 {
        at -= 1;
        let mut fewer = small.clone();
        fewer.remove(at);
        if differs(&fewer) {
            small = fewer;
        }
    }
    small
}

fn log_in(port: u16) -> Option<Stream> {
    let mut stream = Stream::open(port).ok()?;
    let all = parameters(&[("user", "postgres"), ("database", "postgres")]);
    stream.send(&messages::startup(3 << 16, &all), usize::MAX);
    let is_in = stream.until(|said| said.last().is_some_and(|last| last.tag == b'Z'));
    stream.said.clear();
    is_in.then_some(stream)
}

/// What a server says to a session from its first message to its last. The bytes are sent in pieces of at most so many.
pub fn converse(port: u16, bytes: &[u8], piece: usize) -> Vec<Said> {
    let Some(mut stream) = log_in(port) else { return Vec::new() };
    let epilogue =
        [copy_fail("the end"), bare(b'S'), query("ROLLBACK"), query(&format!("SELECT '{EPILOGUE}'"))].concat();
    let all_is_said = |said: &[Said]| {
        let row = said.len().checked_sub(3).map(|at| &said[at]);
        said.last().is_some_and(|last| last.tag == b'Z')
            && row.is_some_and(|row| row.tag == b'D' && row.text.ends_with(EPILOGUE))
    };
    match framing(bytes) {
        Framing::Lacks { at, missing } if missing > MADE_UP_MAX => {
            stream.send(&[&bytes[..at], &epilogue].concat(), piece);
            if stream.until(all_is_said) {
                stream.send(&bytes[at..], usize::MAX);
                stream.no_more();
            }
        }
        framing => {
            let missing = if let Framing::Lacks { missing, .. } = framing { missing } else { 0 };
            stream.send(&[bytes, &vec![0; missing], &epilogue].concat(), piece);
            if stream.until(all_is_said) {
                stream.send(&bare(b'X'), usize::MAX);
            }
        }
    }
    stream.to_the_end();
    stream.said
}

/// What a server says to the beginning of a connection, which ends as soon as it has become a session. Each packet but the last is a request
/// that is answered with one byte.
pub fn knock(port: u16, packets: &[Message]) -> Vec<Said> {
    let Ok(mut stream) = Stream::open(port) else { return Vec::new() };
    let (last, requests) = packets.split_last().expect("one packet at least");
    for request in requests {
        stream.send(request, usize::MAX);
        if let Some(said) = refused(&mut stream) {
            return said;
        }
    }
    stream.send(last, usize::MAX);
    let length = last.get(..4).map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]) as usize);
    let is_request = startup::is_request(last);
    if length.is_none_or(|length| length > last.len() || is_request && length == last.len()) {
        stream.no_more();
    }
    if is_request && let Some(said) = refused(&mut stream) {
        return said;
    }
    if stream.until(|said| said.last().is_some_and(|last| last.tag == b'Z')) {
        stream.send(&bare(b'X'), usize::MAX);
    }
    stream.to_the_end();
    stream.said
}

/// Reads the answer to a request for encryption; unless it is a plain no, gives all that is said.
fn refused(stream: &mut Stream) -> Option<Vec<Said>> {
    match stream.one_byte() {
        Some(b'N') => None,
        // A server that is built for it waits for the client's part of the encryption now.
        Some(b'G') => Some(vec![Said::encrypted()]),
        other => {
            other.into_iter().for_each(|byte| stream.put_back(byte));
            stream.to_the_end();
            Some(std::mem::take(&mut stream.said))
        }
    }
}
