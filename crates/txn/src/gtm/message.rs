//! Messages between coordinators and the gtm, in the frames of PostgreSQL's protocol (tag, length, body; big-endian).
//!
//! Most messages are a tag and one number. Those of catalogs are explained on the page of [`crate::gtm`], those of global snapshots on that of
//! [`crate::gate`]. A peer that sends anything else is disconnected; a new kind of message needs a
//! new [`PROTOCOL_VERSION`].

use bytes::{Buf, BufMut, Bytes, BytesMut};
use pgerror::{PgError, Result};
use pgproto::Frame;
use pgproto::frame::put_frame;

use crate::datanodes::Database;
use crate::deadlock::word::Word;
use crate::gate::Exposed;

/// Both sides must speak the same version; a cluster runs one version of loxo.
pub const PROTOCOL_VERSION: u32 = 7;

/// Everything that is said, in both directions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Coordinator, first: who it is.
    Hello {
        /// [`PROTOCOL_VERSION`] of the coordinator.
        version: u32,
        /// For the gtm's log.
        name: String,
        /// In which database it wants to work; with an empty name for the cluster's first one.
        database: Database,
    },
    /// The gtm's answer to Hello.
    Welcome {
        /// Length of a lease in milliseconds.
        lease_ms: u64,
        /// Invalidations under way; each will be resolved.
        pending: Vec<u64>,
    },
    /// The gtm will not talk to this peer; the text says why.
    Refused(String),
    /// Coordinator: asks to extend its lease; the number is its own clock when it sent this.
    Ping(u64),
    /// The gtm: echoes a Ping, which extends the lease.
    Pong(u64),
    /// The gtm, to a Ping: it is heard, but there is no generation yet under which leases are given.
    Alive,
    /// Coordinator: wants all catalogs dropped; the number is its own.
    Invalidate(u64),
    /// The gtm: the invalidation of this number is done, the DDL may commit.
    Ready(u64),
    /// Coordinator: the DDL of its invalidation of this number has committed or aborted.
    Finish(u64),
    /// The gtm: drop your catalog for the invalidation of this (the gtm's) number.
    Pending(u64),
    /// Coordinator: has dropped it.
    Ack(u64),
    /// The gtm: the DDL of this (the gtm's) number is over.
    Resolved(u64),
    /// Both ways: who waits for whom, and who must give way.
    Deadlock(Word),
    /// Coordinator: ends in good order and holds no lease any more.
    Goodbye,
    /// The gtm, to Hello: another gtm leads; ask there.
    Standby,
    /// Anyone, first: who are you, and do you lead? (For `loxo status`.)
    AskRole,
    /// The gtm's answer to AskRole.
    Role(Role),
    /// The gtm: this coordinator may decide under this generation.
    Generation(u64),
    /// Coordinator: wants a global snapshot; the number is its own.
    SnapshotRequest(u64),
    /// The gtm: shut the gate for the barrier of this (the gtm's) number.
    Close(u64),
    /// Coordinator: it is shut and drained.
    Closed(u64),
    /// The gtm: all gates are shut for the SnapshotRequest of this number.
    Granted {
        /// The coordinator's number.
        request: u64,
        /// No datanode of the global snapshot may have answered less,
        generation: u64,
        /// nor as much as this, the barrier's number.
        barrier: u64,
        /// Datanodes that cannot be in the global snapshot.
        unresolved: Vec<u16>,
    },
    /// The gtm: no global snapshot for this request; ask again.
    SnapshotFailed(u64),
    /// Coordinator: the snapshots of its request are taken, or given up.
    Taken(u64),
    /// The gtm: the barrier of this (the gtm's) number is over.
    Open(u64),
    /// The gtm: that barrier is over, but somebody may still be taking snapshots in it.
    OpenAjar(u64),
    /// Coordinator: a transaction may be visible on some nodes and not yet on these.
    Unresolved(Exposed),
    /// Coordinator: a question of its own to all coordinators, itself among them; the number is its own.
    Ask {
        /// The coordinator's number.
        request: u64,
        /// What only coordinators understand.
        question: Bytes,
    },
    /// The gtm: the question of another, or of this one, under the gtm's number.
    Asked {
        /// The gtm's number.
        id: u64,
        /// As it came.
        question: Bytes,
    },
    /// Coordinator: its answer to the question of this (the gtm's) number.
    Reply {
        /// The gtm's number.
        id: u64,
        /// What only coordinators understand.
        answer: Bytes,
    },
    /// The gtm, to the coordinator that asked: what all have said.
    Replies {
        /// The asker's number.
        request: u64,
        /// Number of coordinators that have not answered in time.
        silent: u16,
        /// In no order.
        answers: Vec<Bytes>,
    },
}

/// What a gtm tells of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// Or it stands by.
    pub leads: bool,
    /// So long has it been there.
    pub up_seconds: u64,
    /// Of the program.
    pub version: String,
}

mod tag {
    pub const ACK: u8 = b'A';
    pub const ALIVE: u8 = b'a';
    pub const ASK: u8 = b'Q';
    pub const ASKED: u8 = b'K';
    pub const ASK_ROLE: u8 = b'q';
    pub const CLOSE: u8 = b'c';
    pub const CLOSED: u8 = b'd';
    pub const SNAPSHOT_FAILED: u8 = b'f';
    pub const SNAPSHOT_REQUEST: u8 = b'C';
    pub const DEADLOCK: u8 = b'w';
    pub const FINISH: u8 = b'F';
    pub const GENERATION: u8 = b'G';
    pub const GOODBYE: u8 = b'X';
    pub const GRANTED: u8 = b'g';
    pub const HELLO: u8 = b'H';
    pub const INVALIDATE: u8 = b'I';
    pub const OPEN: u8 = b'o';
    pub const OPEN_AJAR: u8 = b'j';
    pub const PENDING: u8 = b'N';
    pub const PING: u8 = b'p';
    pub const PONG: u8 = b'P';
    pub const READY: u8 = b'R';
    pub const REFUSED: u8 = b'E';
    pub const REPLIES: u8 = b'L';
    pub const REPLY: u8 = b'l';
    pub const ROLE: u8 = b'r';
    pub const RESOLVED: u8 = b'S';
    pub const STANDBY: u8 = b'B';
    pub const TAKEN: u8 = b't';
    pub const UNRESOLVED: u8 = b'U';
    pub const WELCOME: u8 = b'W';
}

impl Message {
    /// Appends the whole frame.
    pub fn encode(&self, out: &mut BytesMut) {
        let mut number = |tag, number| put_frame(out, tag, |body| body.put_u64(number));
        match self {
            Message::Ping(clock) => number(tag::PING, *clock),
            Message::Pong(clock) => number(tag::PONG, *clock),
            Message::Invalidate(request) => number(tag::INVALIDATE, *request),
            Message::Ready(request) => number(tag::READY, *request),
            Message::Finish(request) => number(tag::FINISH, *request),
            Message::Pending(id) => number(tag::PENDING, *id),
            Message::Ack(id) => number(tag::ACK, *id),
            Message::Resolved(id) => number(tag::RESOLVED, *id),
            Message::Generation(generation) => number(tag::GENERATION, *generation),
            Message::SnapshotRequest(request) => number(tag::SNAPSHOT_REQUEST, *request),
            Message::Close(barrier) => number(tag::CLOSE, *barrier),
            Message::Closed(barrier) => number(tag::CLOSED, *barrier),
            Message::SnapshotFailed(request) => number(tag::SNAPSHOT_FAILED, *request),
            Message::Taken(request) => number(tag::TAKEN, *request),
            Message::Open(barrier) => number(tag::OPEN, *barrier),
            Message::OpenAjar(barrier) => number(tag::OPEN_AJAR, *barrier),
            Message::Deadlock(word) => put_frame(out, tag::DEADLOCK, |body| word.encode(body)),
            Message::Goodbye => put_frame(out, tag::GOODBYE, |_| {}),
            Message::Standby => put_frame(out, tag::STANDBY, |_| {}),
            Message::Alive => put_frame(out, tag::ALIVE, |_| {}),
            Message::AskRole => put_frame(out, tag::ASK_ROLE, |_| {}),
            Message::Granted { request, generation, barrier, unresolved } => put_frame(out, tag::GRANTED, |body| {
                body.put_u64(*request);
                body.put_u64(*generation);
                body.put_u64(*barrier);
                unresolved.iter().for_each(|node| body.put_u16(*node));
            }),
            Message::Unresolved(Exposed { gid, nodes }) => put_frame(out, tag::UNRESOLVED, |body| {
                body.put_u16(nodes.len() as u16);
                nodes.iter().for_each(|node| body.put_u16(*node));
                body.put_slice(gid.to_string().as_bytes());
            }),
            Message::Ask { request, question } => put_numbered(out, tag::ASK, *request, question),
            Message::Asked { id, question } => put_numbered(out, tag::ASKED, *id, question),
            Message::Reply { id, answer } => put_numbered(out, tag::REPLY, *id, answer),
            Message::Replies { request, silent, answers } => put_frame(out, tag::REPLIES, |body| {
                body.put_u64(*request);
                body.put_u16(*silent);
                for answer in answers {
                    body.put_u32(answer.len() as u32);
                    body.put_slice(answer);
                }
            }),
            Message::Role(role) => put_frame(out, tag::ROLE, |body| {
                body.put_u8(u8::from(role.leads));
                body.put_u64(role.up_seconds);
                body.put_slice(role.version.as_bytes());
            }),
            Message::Refused(text) => put_frame(out, tag::REFUSED, |body| body.put_slice(text.as_bytes())),
            Message::Hello { version, name, database } => put_frame(out, tag::HELLO, |body| {
                body.put_u32(*version);
                body.put_slice(name.as_bytes());
                for text in [&database.name, &database.id] {
                    body.put_u8(0);
                    body.put_slice(text.as_bytes());
                }
            }),
            Message::Welcome { lease_ms, pending } => put_frame(out, tag::WELCOME, |body| {
                body.put_u64(*lease_ms);
                pending.iter().for_each(|id| body.put_u64(*id));
            }),
        }
    }

    /// Reads a frame; 08P01 for an unknown tag or a body of the wrong length.
    pub fn decode(frame: Frame) -> Result<Self> {
        let Frame { tag, mut body } = frame;
        let message = match tag {
            tag::PING => Message::Ping(number(&mut body)?),
            tag::PONG => Message::Pong(number(&mut body)?),
            tag::INVALIDATE => Message::Invalidate(number(&mut body)?),
            tag::READY => Message::Ready(number(&mut body)?),
            tag::FINISH => Message::Finish(number(&mut body)?),
            tag::PENDING => Message::Pending(number(&mut body)?),
            tag::ACK => Message::Ack(number(&mut body)?),
            tag::RESOLVED => Message::Resolved(number(&mut body)?),
            tag::GENERATION => Message::Generation(number(&mut body)?),
            tag::SNAPSHOT_REQUEST => Message::SnapshotRequest(number(&mut body)?),
            tag::CLOSE => Message::Close(number(&mut body)?),
            tag::CLOSED => Message::Closed(number(&mut body)?),
            tag::SNAPSHOT_FAILED => Message::SnapshotFailed(number(&mut body)?),
            tag::TAKEN => Message::Taken(number(&mut body)?),
            tag::OPEN => Message::Open(number(&mut body)?),
            tag::OPEN_AJAR => Message::OpenAjar(number(&mut body)?),
            tag::DEADLOCK => Message::Deadlock(Word::decode(&mut body).ok_or_else(malformed)?),
            tag::GOODBYE => Message::Goodbye,
            tag::STANDBY => Message::Standby,
            tag::ALIVE => Message::Alive,
            tag::ASK_ROLE => Message::AskRole,
            tag::GRANTED => {
                let (request, generation, barrier) = (number(&mut body)?, number(&mut body)?, number(&mut body)?);
                let count = body.len() / 2;
                Message::Granted { request, generation, barrier, unresolved: nodes(&mut body, count)? }
            }
            tag::UNRESOLVED => {
                let count = usize::from(body.try_get_u16().map_err(|_| malformed())?);
                let nodes = nodes(&mut body, count)?;
                let gid = text(&mut body)?.parse().map_err(|_| malformed())?;
                Message::Unresolved(Exposed { gid, nodes })
            }
            tag::ASK => Message::Ask { request: number(&mut body)?, question: body.split_to(body.len()) },
            tag::ASKED => Message::Asked { id: number(&mut body)?, question: body.split_to(body.len()) },
            tag::REPLY => Message::Reply { id: number(&mut body)?, answer: body.split_to(body.len()) },
            tag::REPLIES => {
                let (request, silent) = (number(&mut body)?, body.try_get_u16().map_err(|_| malformed())?);
                Message::Replies { request, silent, answers: answers(&mut body)? }
            }
            tag::ROLE => {
                let leads = body.try_get_u8().map_err(|_| malformed())? == 1;
                Message::Role(Role { leads, up_seconds: number(&mut body)?, version: text(&mut body)? })
            }
            tag::REFUSED => Message::Refused(text(&mut body)?),
            tag::HELLO => {
                let version = body.try_get_u32().map_err(|_| malformed())?;
                let said = text(&mut body)?;
                // Older versions say no database; they are told of the version.
                let mut said = said.split('\0').map(str::to_owned);
                let mut next = || said.next().unwrap_or_default();
                Message::Hello { version, name: next(), database: Database { name: next(), id: next() } }
            }
            tag::WELCOME => {
                let lease_ms = number(&mut body)?;
                let mut pending = Vec::with_capacity(body.len() / 8);
                while !body.is_empty() {
                    pending.push(number(&mut body)?);
                }
                Message::Welcome { lease_ms, pending }
            }
            _ => return Err(malformed()),
        };
        if body.is_empty() { Ok(message) } else { Err(malformed()) }
    }
}

fn put_numbered(out: &mut BytesMut, tag: u8, number: u64, rest: &Bytes) {
    put_frame(out, tag, |body| {
        body.put_u64(number);
        body.put_slice(rest);
    });
}

fn answers(body: &mut Bytes) -> Result<Vec<Bytes>> {
    let mut answers = Vec::new();
    while !body.is_empty() {
        let length = body.try_get_u32().map_err(|_| malformed())? as usize;
        if length > body.len() {
            return Err(malformed());
        }
        answers.push(body.split_to(length));
    }
    Ok(answers)
}

fn number(body: &mut Bytes) -> Result<u64> {
    body.try_get_u64().map_err(|_| malformed())
}

fn nodes(body: &mut Bytes, count: usize) -> Result<Vec<u16>> {
    (0..count).map(|_| body.try_get_u16().map_err(|_| malformed())).collect()
}

fn text(body: &mut Bytes) -> Result<String> {
    let rest = body.split_to(body.len());
    String::from_utf8(rest.to_vec()).map_err(|_| malformed())
}

fn malformed() -> PgError {
    PgError::protocol("malformed message between coordinator and gtm")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(message: &Message) -> Result<Message> {
        let mut wire = BytesMut::new();
        message.encode(&mut wire);
        Message::decode(Frame { tag: wire[0], body: wire.freeze().slice(5..) })
    }

    #[test]
    fn messages_survive_the_wire() {
        for message in [
            Message::Hello { version: 7, name: "coord1".into(), database: Database::new("d", "1") },
            Message::Welcome { lease_ms: 2000, pending: vec![1, u64::MAX] },
            Message::Welcome { lease_ms: 2000, pending: vec![] },
            Message::Refused("no".into()),
            Message::Ping(1),
            Message::Pong(2),
            Message::Invalidate(3),
            Message::Ready(4),
            Message::Finish(5),
            Message::Pending(6),
            Message::Ack(7),
            Message::Resolved(8),
            Message::Deadlock(Word::Who { look: 9, backends: vec![] }),
            Message::Goodbye,
            Message::Alive,
            Message::Standby,
            Message::AskRole,
            Message::Role(Role { leads: true, up_seconds: 7, version: "1.0".into() }),
            Message::Generation(9),
            Message::SnapshotRequest(10),
            Message::Close(11),
            Message::Closed(12),
            Message::Granted { request: 13, generation: 14, barrier: 15, unresolved: vec![0, u16::MAX] },
            Message::Granted { request: 13, generation: 14, barrier: 15, unresolved: vec![] },
            Message::SnapshotFailed(15),
            Message::Taken(16),
            Message::Open(17),
            Message::OpenAjar(18),
            Message::Ask { request: 19, question: "who?".into() },
            Message::Asked { id: 20, question: Bytes::new() },
            Message::Reply { id: 20, answer: "me".into() },
            Message::Replies { request: 19, silent: 1, answers: vec!["me".into(), Bytes::new()] },
            Message::Unresolved(Exposed { gid: "loxo_1_0_700_00000000000000ff_1".parse().unwrap(), nodes: vec![1, 2] }),
        ] {
            assert_eq!(round_trip(&message).unwrap(), message);
        }
    }

    #[test]
    fn a_body_of_the_wrong_length_is_an_error() {
        for (tag, body) in [
            (tag::PING, &b"1234567"[..]),
            (tag::ACK, b"123456789"),
            (tag::GOODBYE, b"x"),
            (b'?', b""),
            (tag::GRANTED, b"12345678"),
            (tag::GRANTED, b"123456781234567812345678x"),
            (tag::REPLIES, b"12345678\0\0\0\0\0\x02x"),
            (tag::UNRESOLVED, b"\0\x02\0\x01"),
            (tag::UNRESOLVED, b"\0\x01\0\x01not a gid"),
        ] {
            assert!(Message::decode(Frame { tag, body: Bytes::from_static(body) }).is_err());
        }
    }
}
