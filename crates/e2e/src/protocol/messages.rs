//! Messages of a client as bytes.

use bytes::{BufMut, BytesMut};

/// The bytes of one message.
pub type Message = Vec<u8>;

/// A message with any body.
pub fn message(tag: u8, body: &[u8]) -> Message {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[tag], &length[..], body].concat()
}

/// Query.
pub fn query(sql: &str) -> Message {
    message(b'Q', &[sql.as_bytes(), b"\0"].concat())
}

/// Parse.
pub fn parse(name: &str, sql: &str, types: &[u32]) -> Message {
    let mut body = names(&[name, sql]);
    body.put_u16(types.len() as u16);
    types.iter().for_each(|of| body.put_u32(*of));
    message(b'P', &body)
}

/// What Bind has besides names.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Values {
    pub formats: Vec<i16>,
    pub values: Vec<Option<Vec<u8>>>,
    pub result_formats: Vec<i16>,
}

/// Bind.
pub fn bind(portal: &str, statement: &str, values: &Values) -> Message {
    let mut body = names(&[portal, statement]);
    put_formats(&mut body, &values.formats);
    put_values(&mut body, &values.values);
    put_formats(&mut body, &values.result_formats);
    message(b'B', &body)
}

/// FunctionCall.
pub fn function_call(function: u32, values: &Values) -> Message {
    let mut body = BytesMut::new();
    body.put_u32(function);
    put_formats(&mut body, &values.formats);
    put_values(&mut body, &values.values);
    body.put_i16(values.result_formats.first().copied().unwrap_or(0));
    message(b'F', &body)
}

/// Execute.
pub fn execute(portal: &str, rows_max: i32) -> Message {
    let mut body = names(&[portal]);
    body.put_i32(rows_max);
    message(b'E', &body)
}

/// Describe (`D`) or Close (`C`) of a statement (`S`) or a portal (`P`).
pub fn of_target(tag: u8, kind: u8, name: &str) -> Message {
    message(tag, &[&[kind], name.as_bytes(), b"\0"].concat())
}

/// CopyFail.
pub fn copy_fail(why: &str) -> Message {
    message(b'f', &[why.as_bytes(), b"\0"].concat())
}

/// A message without a body.
pub fn bare(tag: u8) -> Message {
    message(tag, b"")
}

/// A startup packet, or a request in its place.
pub fn startup(version: u32, rest: &[u8]) -> Message {
    let length = (rest.len() as u32 + 8).to_be_bytes();
    [&length[..], &version.to_be_bytes(), rest].concat()
}

/// Parameters of a startup packet, with the terminator.
pub fn parameters(all: &[(&str, &str)]) -> Vec<u8> {
    let mut body = BytesMut::new();
    for (name, value) in all {
        body.put_slice(&names(&[name, value]));
    }
    body.put_u8(0);
    body.to_vec()
}

fn names(all: &[&str]) -> BytesMut {
    let mut body = BytesMut::new();
    for name in all {
        body.put_slice(name.as_bytes());
        body.put_u8(0);
    }
    body
}

fn put_formats(body: &mut BytesMut, formats: &[i16]) {
    body.put_u16(formats.len() as u16);
    formats.iter().for_each(|format| body.put_i16(*format));
}

fn put_values(body: &mut BytesMut, values: &[Option<Vec<u8>>]) {
    body.put_u16(values.len() as u16);
    for value in values {
        match value {
            None => body.put_i32(-1),
            Some(value) => {
                body.put_u32(value.len() as u32);
                body.put_slice(value);
            }
        }
    }
}

/// How a server sees the end of a client's bytes, if it reads every message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Every message is whole.
    Whole,
    /// A message that ends the session.
    Ends,
    /// The message that begins at `at` lacks so many bytes.
    Lacks {
        /// Where its type is.
        at: usize,
        /// How many bytes.
        missing: usize,
    },
}

/// Looks at lengths and types as PostgreSQL's `SocketBackend` does.
pub fn framing(bytes: &[u8]) -> Framing {
    const LARGE: usize = 0x3fff_fffe;
    const SMALL: usize = 10_000;
    let mut at = 0;
    while at < bytes.len() {
        let length_max = match bytes[at] {
            b'Q' | b'F' | b'B' | b'P' | b'd' => LARGE,
            b'C' | b'D' | b'E' | b'H' | b'S' | b'c' | b'f' => SMALL,
            _ => return Framing::Ends,
        };
        let Some(length) = bytes.get(at + 1..at + 5) else {
            return Framing::Lacks { at, missing: at + 5 - bytes.len() };
        };
        let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize;
        if !(4..=length_max).contains(&length) {
            return Framing::Ends;
        }
        if bytes.len() < at + 1 + length {
            return Framing::Lacks { at, missing: at + 1 + length - bytes.len() };
        }
        at += 1 + length;
    }
    Framing::Whole
}
