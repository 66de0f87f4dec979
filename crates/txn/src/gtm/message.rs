//! Messages between coordinators and the gtm, in the frames of PostgreSQL's protocol (tag, length, body; big-endian).
//!
//! Most messages are a tag and one number. A peer that sends anything else is disconnected; a new kind of message needs a
//! new [`PROTOCOL_VERSION`].

use bytes::{Buf, BufMut, Bytes, BytesMut};
use pgerror::{PgError, Result};
use pgproto::Frame;
use pgproto::frame::put_frame;

use crate::deadlock::word::Word;

/// Both sides must speak the same version; a cluster runs one version of loxo.
pub const PROTOCOL_VERSION: u32 = 2;

/// Everything that is said, in both directions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Coordinator, first: who it is.
    Hello {
        /// [`PROTOCOL_VERSION`] of the coordinator.
        version: u32,
        /// For the gtm's log.
        name: String,
    },
    /// The gtm's answer to Hello.
    Welcome {
        /// Length of a lease in milliseconds.
        lease_ms: u64,
        /// Invalidations under way; each will be settled.
        pending: Vec<u64>,
    },
    /// The gtm will not talk to this peer; the text says why.
    Refused(String),
    /// Coordinator: asks to extend its lease; the number is its own clock when it sent this.
    Ping(u64),
    /// The gtm: echoes a Ping.
    Pong(u64),
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
    Settled(u64),
    /// Both ways: who waits for whom, and who must give way.
    Deadlock(Word),
    /// Coordinator: ends in good order and holds no lease any more.
    Goodbye,
}

mod tag {
    pub const ACK: u8 = b'A';
    pub const DEADLOCK: u8 = b'w';
    pub const FINISH: u8 = b'F';
    pub const GOODBYE: u8 = b'X';
    pub const HELLO: u8 = b'H';
    pub const INVALIDATE: u8 = b'I';
    pub const PENDING: u8 = b'N';
    pub const PING: u8 = b'p';
    pub const PONG: u8 = b'P';
    pub const READY: u8 = b'R';
    pub const REFUSED: u8 = b'E';
    pub const SETTLED: u8 = b'S';
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
            Message::Settled(id) => number(tag::SETTLED, *id),
            Message::Deadlock(word) => put_frame(out, tag::DEADLOCK, |body| word.encode(body)),
            Message::Goodbye => put_frame(out, tag::GOODBYE, |_| {}),
            Message::Refused(text) => put_frame(out, tag::REFUSED, |body| body.put_slice(text.as_bytes())),
            Message::Hello { version, name } => put_frame(out, tag::HELLO, |body| {
                body.put_u32(*version);
                body.put_slice(name.as_bytes());
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
            tag::SETTLED => Message::Settled(number(&mut body)?),
            tag::DEADLOCK => Message::Deadlock(Word::decode(&mut body).ok_or_else(malformed)?),
            tag::GOODBYE => Message::Goodbye,
            tag::REFUSED => Message::Refused(text(&mut body)?),
            tag::HELLO => {
                let version = body.try_get_u32().map_err(|_| malformed())?;
                Message::Hello { version, name: text(&mut body)? }
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

fn number(body: &mut Bytes) -> Result<u64> {
    body.try_get_u64().map_err(|_| malformed())
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
            Message::Hello { version: 7, name: "coord1".into() },
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
            Message::Settled(8),
            Message::Deadlock(Word::Who { look: 9, backends: vec![] }),
            Message::Goodbye,
        ] {
            assert_eq!(round_trip(&message).unwrap(), message);
        }
    }

    #[test]
    fn a_body_of_the_wrong_length_is_an_error() {
        for (tag, body) in [(tag::PING, &b"1234567"[..]), (tag::ACK, b"123456789"), (tag::GOODBYE, b"x"), (b'?', b"")] {
            assert!(Message::decode(Frame { tag, body: Bytes::from_static(body) }).is_err());
        }
    }
}
