//! Messages a client sends: builders for the datanode side, decoders for the client side.

use bytes::{BufMut, Bytes, BytesMut};
use pgerror::{PgError, Result, SqlState};

use crate::Oid;
use crate::frame::{Cursor, FRAME_BYTES_MAX, put_cstr, put_frame};

/// Protocol version 3.0.
pub const PROTOCOL_3_0: u32 = 3 << 16;
/// Request codes that stand in place of a version.
#[allow(missing_docs)]
pub mod request {
    pub const CANCEL: u32 = (1234 << 16) | 5678;
    pub const SSL: u32 = (1234 << 16) | 5679;
    pub const GSS_ENCRYPTION: u32 = (1234 << 16) | 5680;
}

/// Message tags.
#[allow(missing_docs)]
pub mod tag {
    pub const BIND: u8 = b'B';
    pub const CLOSE: u8 = b'C';
    pub const COPY_DATA: u8 = b'd';
    pub const COPY_DONE: u8 = b'c';
    pub const COPY_FAIL: u8 = b'f';
    pub const DESCRIBE: u8 = b'D';
    pub const EXECUTE: u8 = b'E';
    pub const FLUSH: u8 = b'H';
    pub const FUNCTION_CALL: u8 = b'F';
    pub const PARSE: u8 = b'P';
    pub const PASSWORD: u8 = b'p';
    pub const QUERY: u8 = b'Q';
    pub const SYNC: u8 = b'S';
    pub const TERMINATE: u8 = b'X';
}

/// The greatest length that a message of this tag may have, as PostgreSQL's `SocketBackend` has it; an error that ends the session for
/// a tag that no client sends once it is let in. For [`FrameReader::expect`](crate::frame::FrameReader::expect).
pub fn length_max(tag: u8) -> Result<usize> {
    const SMALL: usize = 10_000;
    const LARGE: usize = FRAME_BYTES_MAX - 1;
    match tag {
        tag::QUERY | tag::FUNCTION_CALL | tag::BIND | tag::PARSE | tag::COPY_DATA => Ok(LARGE),
        tag::CLOSE | tag::DESCRIBE | tag::EXECUTE | tag::FLUSH | tag::SYNC | tag::TERMINATE => Ok(SMALL),
        tag::COPY_DONE | tag::COPY_FAIL => Ok(SMALL),
        other => Err(PgError::fatal(SqlState::PROTOCOL_VIOLATION, format!("invalid frontend message type {other}"))),
    }
}

/// A prepared statement or a portal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Target {
    Statement,
    Portal,
}

impl Target {
    fn letter(self) -> u8 {
        match self {
            Target::Statement => b'S',
            Target::Portal => b'P',
        }
    }

    fn from_letter(letter: u8, message: &str) -> Result<Self> {
        match letter {
            b'S' => Ok(Target::Statement),
            b'P' => Ok(Target::Portal),
            other => Err(PgError::protocol(format!("invalid {message} message subtype {other}"))),
        }
    }
}

/// Parse.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Parse {
    pub name: Bytes,
    pub sql: Bytes,
    pub parameter_types: Vec<Oid>,
}

/// Bind. Formats are 0 (text) or 1 (binary); an empty list means all text, a single one stands for all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)]
pub struct Bind {
    pub portal: Bytes,
    pub statement: Bytes,
    pub parameter_formats: Vec<i16>,
    pub parameters: Vec<Option<Bytes>>,
    pub result_formats: Vec<i16>,
}

impl Bind {
    /// Format code of a parameter.
    pub fn parameter_format(&self, index: usize) -> i16 {
        match self.parameter_formats.as_slice() {
            [] => 0,
            [all] => *all,
            each => each.get(index).copied().unwrap_or(0),
        }
    }
}

/// Builds a startup packet (no tag).
pub fn startup(out: &mut BytesMut, parameters: &[(&str, &str)]) {
    let start = out.len();
    out.put_u32(0);
    out.put_u32(PROTOCOL_3_0);
    for (name, value) in parameters {
        put_cstr(out, name.as_bytes());
        put_cstr(out, value.as_bytes());
    }
    out.put_u8(0);
    let length = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// Builds a CancelRequest (no tag).
pub fn cancel_request(out: &mut BytesMut, process_id: i32, secret: &[u8]) {
    out.put_u32(12 + secret.len() as u32);
    out.put_u32(request::CANCEL);
    out.put_i32(process_id);
    out.put_slice(secret);
}

/// Simple query.
pub fn query(out: &mut BytesMut, sql: &[u8]) {
    put_frame(out, tag::QUERY, |out| put_cstr(out, sql));
}

/// Parse.
pub fn parse(out: &mut BytesMut, name: &[u8], sql: &[u8], parameter_types: &[Oid]) {
    put_frame(out, tag::PARSE, |out| {
        put_cstr(out, name);
        put_cstr(out, sql);
        out.put_u16(parameter_types.len() as u16);
        for oid in parameter_types {
            out.put_u32(*oid);
        }
    });
}

/// Bind.
pub fn bind(out: &mut BytesMut, bind: &Bind) {
    put_frame(out, tag::BIND, |out| {
        put_cstr(out, &bind.portal);
        put_cstr(out, &bind.statement);
        put_formats(out, &bind.parameter_formats);
        out.put_u16(bind.parameters.len() as u16);
        put_values(out, &bind.parameters);
        put_formats(out, &bind.result_formats);
    });
}

/// Bind to the unnamed portal, of the parameters of several rows, for a statement without results.
pub fn bind_rows<'v>(
    out: &mut BytesMut,
    statement: &[u8],
    formats: &[i16],
    rows: impl Iterator<Item = &'v [Option<Bytes>]> + Clone,
) {
    put_frame(out, tag::BIND, |out| {
        put_cstr(out, b"");
        put_cstr(out, statement);
        put_formats(out, formats);
        out.put_u16(rows.clone().map(<[_]>::len).sum::<usize>() as u16);
        rows.for_each(|row| put_values(out, row));
        put_formats(out, &[]);
    });
}

fn put_values(out: &mut BytesMut, values: &[Option<Bytes>]) {
    for value in values {
        match value {
            None => out.put_i32(-1),
            Some(value) => {
                out.put_i32(value.len() as i32);
                out.put_slice(value);
            }
        }
    }
}

fn put_formats(out: &mut BytesMut, formats: &[i16]) {
    out.put_u16(formats.len() as u16);
    for format in formats {
        out.put_i16(*format);
    }
}

/// Describe.
pub fn describe(out: &mut BytesMut, target: Target, name: &[u8]) {
    put_frame(out, tag::DESCRIBE, |out| {
        out.put_u8(target.letter());
        put_cstr(out, name);
    });
}

/// Execute; `rows_max` 0 is no limit.
pub fn execute(out: &mut BytesMut, portal: &[u8], rows_max: i32) {
    put_frame(out, tag::EXECUTE, |out| {
        put_cstr(out, portal);
        out.put_i32(rows_max);
    });
}

/// Close.
pub fn close(out: &mut BytesMut, target: Target, name: &[u8]) {
    put_frame(out, tag::CLOSE, |out| {
        out.put_u8(target.letter());
        put_cstr(out, name);
    });
}

/// Sync.
pub fn sync(out: &mut BytesMut) {
    put_frame(out, tag::SYNC, |_| {});
}

/// Flush.
pub fn flush(out: &mut BytesMut) {
    put_frame(out, tag::FLUSH, |_| {});
}

/// Terminate.
pub fn terminate(out: &mut BytesMut) {
    put_frame(out, tag::TERMINATE, |_| {});
}

/// PasswordMessage, SASLInitialResponse and SASLResponse share a tag.
pub fn password(out: &mut BytesMut, body: &[u8]) {
    put_frame(out, tag::PASSWORD, |out| out.put_slice(body));
}

/// Header of a CopyData frame of `body_bytes`.
pub fn copy_data_header(body_bytes: usize) -> [u8; 5] {
    let length = (body_bytes as u32 + 4).to_be_bytes();
    [tag::COPY_DATA, length[0], length[1], length[2], length[3]]
}

/// CopyData.
pub fn copy_data(out: &mut BytesMut, body: &[u8]) {
    out.put_slice(&copy_data_header(body.len()));
    out.put_slice(body);
}

/// CopyData of a body in pieces.
pub fn copy_data_parts(out: &mut BytesMut, parts: &[&[u8]]) {
    out.put_slice(&copy_data_header(parts.iter().map(|part| part.len()).sum()));
    for part in parts {
        out.put_slice(part);
    }
}

/// CopyDone.
pub fn copy_done(out: &mut BytesMut) {
    put_frame(out, tag::COPY_DONE, |_| {});
}

/// CopyFail.
pub fn copy_fail(out: &mut BytesMut, reason: &[u8]) {
    put_frame(out, tag::COPY_FAIL, |out| put_cstr(out, reason));
}

/// Decodes Query: the text without its NUL.
pub fn decode_query(body: Bytes) -> Result<Bytes> {
    let mut cursor = Cursor::new(body);
    let sql = cursor.cstr()?;
    cursor.end(sql)
}

/// Decodes Parse.
pub fn decode_parse(body: Bytes) -> Result<Parse> {
    let mut cursor = Cursor::new(body);
    let (name, sql) = (cursor.cstr()?, cursor.cstr()?);
    // PostgreSQL reads counts without a sign: up to 65,535 parameters.
    let count = cursor.i16()? as u16;
    let parameter_types = (0..count).map(|_| cursor.u32()).collect::<Result<_>>()?;
    cursor.end(Parse { name, sql, parameter_types })
}

/// Decodes the names at the head of Bind: portal and statement. PostgreSQL looks the statement up before it reads the rest.
pub fn decode_bind_names(body: Bytes) -> Result<(Bytes, Bytes)> {
    let mut cursor = Cursor::new(body);
    Ok((cursor.cstr()?, cursor.cstr()?))
}

/// Decodes what Bind has in front of its values: their formats and their number, which PostgreSQL looks at before it reads them.
pub fn decode_bind_counts(body: Bytes) -> Result<(Vec<i16>, usize)> {
    let mut cursor = Cursor::new(body);
    let _names = (cursor.cstr()?, cursor.cstr()?);
    let formats = take_formats(&mut cursor)?;
    Ok((formats, usize::from(cursor.i16()? as u16)))
}

/// Decodes Bind.
pub fn decode_bind(body: Bytes) -> Result<Bind> {
    let mut cursor = Cursor::new(body);
    let (portal, statement) = (cursor.cstr()?, cursor.cstr()?);
    let parameter_formats = take_formats(&mut cursor)?;
    let parameters = take_values(&mut cursor)?;
    let result_formats = take_formats(&mut cursor)?;
    cursor.end(Bind { portal, statement, parameter_formats, parameters, result_formats })
}

/// A FunctionCall message.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct FunctionCall {
    /// The function's object id.
    pub function: u32,
    /// Formats of the arguments: none (all text), one for all, or one each.
    pub formats: Vec<i16>,
    pub arguments: Vec<Option<Bytes>>,
    pub result_format: i16,
}

/// Decodes which function a FunctionCall is for.
pub fn decode_called_function(body: Bytes) -> Result<u32> {
    Cursor::new(body).u32()
}

/// Decodes FunctionCall.
pub fn decode_function_call(body: Bytes) -> Result<FunctionCall> {
    let mut cursor = Cursor::new(body);
    let function = cursor.u32()?;
    let (formats, arguments) = (take_formats(&mut cursor)?, take_values(&mut cursor)?);
    let result_format = cursor.i16()?;
    cursor.end(FunctionCall { function, formats, arguments, result_format })
}

fn take_values(cursor: &mut Cursor) -> Result<Vec<Option<Bytes>>> {
    let count = cursor.i16()? as u16;
    let mut values = Vec::with_capacity(usize::from(count).min(1024));
    for _ in 0..count {
        let length = cursor.i32()?;
        // Any other negative length is more than there is.
        let is_null = length == -1;
        values.push(if is_null { None } else { Some(cursor.bytes(usize::try_from(length).unwrap_or(usize::MAX))?) });
    }
    Ok(values)
}

fn take_formats(cursor: &mut Cursor) -> Result<Vec<i16>> {
    let count = cursor.i16()? as u16;
    (0..count).map(|_| cursor.i16()).collect()
}

/// Decodes Describe.
pub fn decode_describe(body: Bytes) -> Result<(Target, Bytes)> {
    decode_target(body, "DESCRIBE")
}

/// Decodes Close.
pub fn decode_close(body: Bytes) -> Result<(Target, Bytes)> {
    decode_target(body, "CLOSE")
}

fn decode_target(body: Bytes, message: &str) -> Result<(Target, Bytes)> {
    let mut cursor = Cursor::new(body);
    let (letter, name) = (cursor.u8()?, cursor.cstr()?);
    cursor.end(())?;
    Ok((Target::from_letter(letter, message)?, name))
}

/// Decodes Sync and Flush, which have no body.
pub fn decode_bare(body: Bytes) -> Result<()> {
    Cursor::new(body).end(())
}

/// Decodes Execute: portal and row limit.
pub fn decode_execute(body: Bytes) -> Result<(Bytes, i32)> {
    let mut cursor = Cursor::new(body);
    let (portal, rows_max) = (cursor.cstr()?, cursor.i32()?);
    cursor.end((portal, rows_max))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(wire: BytesMut) -> Bytes {
        wire.freeze().slice(5..)
    }

    #[test]
    fn bind_survives_the_wire() {
        let sent = Bind {
            portal: Bytes::from_static(b"p"),
            statement: Bytes::from_static(b"s"),
            parameter_formats: vec![1],
            parameters: vec![None, Some(Bytes::from_static(b"\0\x01"))],
            result_formats: vec![0, 1],
        };
        let mut wire = BytesMut::new();
        bind(&mut wire, &sent);
        let got = decode_bind(body(wire)).unwrap();
        assert_eq!((got.parameters, got.result_formats), (sent.parameters, sent.result_formats));
    }

    #[test]
    fn only_minus_one_is_null() {
        let with_length = |length: i32| [&b"\0\0\0\0\0\x01"[..], &length.to_be_bytes(), b"\0\0"].concat();
        assert_eq!(decode_bind(with_length(-1).into()).unwrap().parameters, [None]);
        assert!(decode_bind(with_length(-2).into()).is_err());
    }

    #[test]
    fn a_short_bind_is_an_error_not_a_panic() {
        let mut wire = BytesMut::new();
        bind(&mut wire, &Bind { parameters: vec![Some(Bytes::from_static(b"abc"))], ..Bind::default() });
        let whole = body(wire);
        for cut in 0..whole.len() {
            assert!(decode_bind(whole.slice(..cut)).is_err());
        }
    }
}
