//! Messages a server sends: builders for the client side, decoders for the datanode side.

use bytes::{BufMut, Bytes, BytesMut};
use pgerror::{PgError, Result};

use crate::Oid;
use crate::frame::{Cursor, put_cstr, put_frame};

/// Message tags.
#[allow(missing_docs)]
pub mod tag {
    pub const AUTHENTICATION: u8 = b'R';
    pub const BACKEND_KEY_DATA: u8 = b'K';
    pub const BIND_COMPLETE: u8 = b'2';
    pub const CLOSE_COMPLETE: u8 = b'3';
    pub const COMMAND_COMPLETE: u8 = b'C';
    pub const COPY_DATA: u8 = b'd';
    pub const COPY_DONE: u8 = b'c';
    pub const COPY_IN: u8 = b'G';
    pub const COPY_OUT: u8 = b'H';
    pub const DATA_ROW: u8 = b'D';
    pub const EMPTY_QUERY: u8 = b'I';
    pub const ERROR: u8 = b'E';
    pub const FUNCTION_CALL_RESPONSE: u8 = b'V';
    pub const NEGOTIATE_VERSION: u8 = b'v';
    pub const NO_DATA: u8 = b'n';
    pub const NOTICE: u8 = b'N';
    pub const NOTIFICATION: u8 = b'A';
    pub const PARAMETER_DESCRIPTION: u8 = b't';
    pub const PARAMETER_STATUS: u8 = b'S';
    pub const PARSE_COMPLETE: u8 = b'1';
    pub const PORTAL_SUSPENDED: u8 = b's';
    pub const READY_FOR_QUERY: u8 = b'Z';
    pub const ROW_DESCRIPTION: u8 = b'T';
}

/// One column of a RowDescription.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Field {
    pub name: Bytes,
    pub table_oid: Oid,
    pub column_number: i16,
    pub type_oid: Oid,
    pub type_size: i16,
    pub type_modifier: i32,
    pub format: i16,
}

/// Authentication: `kind` 0 is Ok, 3 cleartext, 10/11/12 SASL, Continue, Final.
pub fn authentication(out: &mut BytesMut, kind: u32, body: &[u8]) {
    put_frame(out, tag::AUTHENTICATION, |out| {
        out.put_u32(kind);
        out.put_slice(body);
    });
}

/// ParameterStatus.
pub fn parameter_status(out: &mut BytesMut, name: &str, value: &str) {
    put_frame(out, tag::PARAMETER_STATUS, |out| {
        put_cstr(out, name.as_bytes());
        put_cstr(out, value.as_bytes());
    });
}

/// BackendKeyData.
pub fn backend_key_data(out: &mut BytesMut, process_id: i32, secret: i32) {
    put_frame(out, tag::BACKEND_KEY_DATA, |out| {
        out.put_i32(process_id);
        out.put_i32(secret);
    });
}

/// ReadyForQuery; `status` is `I`, `T` or `E`.
pub fn ready_for_query(out: &mut BytesMut, status: u8) {
    put_frame(out, tag::READY_FOR_QUERY, |out| out.put_u8(status));
}

/// NegotiateProtocolVersion: the newest minor version we speak and the options we do not know.
pub fn negotiate_version(out: &mut BytesMut, newest: u32, unknown_options: &[Bytes]) {
    put_frame(out, tag::NEGOTIATE_VERSION, |out| {
        out.put_u32(newest);
        out.put_u32(unknown_options.len() as u32);
        for option in unknown_options {
            put_cstr(out, option);
        }
    });
}

/// A message that has no body, by its tag (ParseComplete, BindComplete, NoData, …).
pub fn bare(out: &mut BytesMut, tag: u8) {
    put_frame(out, tag, |_| {});
}

/// ErrorResponse.
pub fn error(out: &mut BytesMut, error: &PgError) {
    put_frame(out, tag::ERROR, |out| error.encode_body(out));
}

/// NoticeResponse.
pub fn notice(out: &mut BytesMut, notice: &PgError) {
    put_frame(out, tag::NOTICE, |out| notice.encode_body(out));
}

/// CommandComplete.
pub fn command_complete(out: &mut BytesMut, command_tag: &str) {
    put_frame(out, tag::COMMAND_COMPLETE, |out| put_cstr(out, command_tag.as_bytes()));
}

/// FunctionCallResponse.
pub fn function_call_response(out: &mut BytesMut, value: Option<&[u8]>) {
    put_frame(out, tag::FUNCTION_CALL_RESPONSE, |out| match value {
        Some(value) => {
            out.put_u32(value.len() as u32);
            out.extend_from_slice(value);
        }
        None => out.put_i32(-1),
    });
}

/// RowDescription.
pub fn row_description(out: &mut BytesMut, fields: &[Field]) {
    put_frame(out, tag::ROW_DESCRIPTION, |out| {
        out.put_u16(fields.len() as u16);
        for field in fields {
            put_cstr(out, &field.name);
            out.put_u32(field.table_oid);
            out.put_i16(field.column_number);
            out.put_u32(field.type_oid);
            out.put_i16(field.type_size);
            out.put_i32(field.type_modifier);
            out.put_i16(field.format);
        }
    });
}

/// ParameterDescription.
pub fn parameter_description(out: &mut BytesMut, types: &[Oid]) {
    put_frame(out, tag::PARAMETER_DESCRIPTION, |out| {
        out.put_u16(types.len() as u16);
        for oid in types {
            out.put_u32(*oid);
        }
    });
}

/// DataRow of text values.
pub fn data_row<'a>(out: &mut BytesMut, values: impl ExactSizeIterator<Item = Option<&'a [u8]>>) {
    put_frame(out, tag::DATA_ROW, |out| {
        out.put_u16(values.len() as u16);
        for value in values {
            match value {
                None => out.put_i32(-1),
                Some(bytes) => {
                    out.put_i32(bytes.len() as i32);
                    out.put_slice(bytes);
                }
            }
        }
    });
}

/// CopyInResponse (`tag::COPY_IN`) or CopyOutResponse (`tag::COPY_OUT`).
pub fn copy_response(out: &mut BytesMut, tag: u8, binary: bool, columns: usize) {
    put_frame(out, tag, |out| {
        out.put_u8(u8::from(binary));
        out.put_u16(columns as u16);
        for _ in 0..columns {
            out.put_i16(i16::from(binary));
        }
    });
}

/// Decodes RowDescription.
pub fn decode_row_description(body: Bytes) -> Result<Vec<Field>> {
    let mut cursor = Cursor::new(body);
    let count = cursor.i16()? as u16;
    (0..count)
        .map(|_| {
            Ok(Field {
                name: cursor.cstr()?,
                table_oid: cursor.u32()?,
                column_number: cursor.i16()?,
                type_oid: cursor.u32()?,
                type_size: cursor.i16()?,
                type_modifier: cursor.i32()?,
                format: cursor.i16()?,
            })
        })
        .collect()
}

/// Decodes ParameterDescription.
pub fn decode_parameter_description(body: Bytes) -> Result<Vec<Oid>> {
    let mut cursor = Cursor::new(body);
    let count = cursor.i16()? as u16;
    (0..count).map(|_| cursor.u32()).collect()
}

/// Decodes CommandComplete: the tag text.
pub fn decode_command_complete(body: Bytes) -> Result<String> {
    Ok(String::from_utf8_lossy(&Cursor::new(body).cstr()?).into_owned())
}

/// Decodes ParameterStatus.
pub fn decode_parameter_status(body: Bytes) -> Result<(String, String)> {
    let mut cursor = Cursor::new(body);
    let (name, value) = (cursor.cstr()?, cursor.cstr()?);
    Ok((String::from_utf8_lossy(&name).into_owned(), String::from_utf8_lossy(&value).into_owned()))
}

/// Decodes CopyInResponse / CopyOutResponse: whole format and number of columns.
pub fn decode_copy_response(body: Bytes) -> Result<(bool, usize)> {
    let mut cursor = Cursor::new(body);
    Ok((cursor.u8()? == 1, cursor.i16()? as u16 as usize))
}

/// Decodes a DataRow body into its values.
pub fn decode_data_row(body: Bytes) -> Result<Vec<Option<Bytes>>> {
    let mut cursor = Cursor::new(body);
    let count = cursor.i16()? as u16;
    (0..count)
        .map(|_| match usize::try_from(cursor.i32()?) {
            Ok(length) => cursor.bytes(length).map(Some),
            Err(_) => Ok(None),
        })
        .collect()
}

/// A command tag: its words and, if it ends in one, its row count.
pub fn split_command_tag(tag: &str) -> (&str, Option<u64>) {
    match tag.rsplit_once(' ') {
        Some((words, count)) => match count.parse() {
            Ok(count) => (words, Some(count)),
            Err(_) => (tag, None),
        },
        None => (tag, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_tags_split() {
        assert_eq!(split_command_tag("INSERT 0 12"), ("INSERT 0", Some(12)));
        assert_eq!(split_command_tag("CREATE TABLE"), ("CREATE TABLE", None));
        assert_eq!(split_command_tag("BEGIN"), ("BEGIN", None));
    }

    #[test]
    fn rows_survive_the_wire() {
        let mut wire = BytesMut::new();
        data_row(&mut wire, [Some(&b"a"[..]), None, Some(&b""[..])].into_iter());
        let values = decode_data_row(wire.freeze().slice(5..)).unwrap();
        assert_eq!(values, [Some(Bytes::from_static(b"a")), None, Some(Bytes::new())]);
    }
}
