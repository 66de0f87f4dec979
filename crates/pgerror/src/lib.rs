//! The one error type of Loxodonta: everything PostgreSQL can say in an ErrorResponse or NoticeResponse.
//!
//! An error is born either in a datanode (decoded from the wire, every field kept as bytes, whatever the encoding) or in
//! one of our rooms (built with [`PgError::new`] and the `detail`/`hint`/`position` builders). It travels unchanged
//! to the client, so no SQLSTATE, detail, hint, position or context is ever lost on the way.
//!
//! Invariants: a [`PgError`] always has a severity, a SQLSTATE and a message; fields are stored in wire order; the type is
//! three words wide, so `Result<T, PgError>` stays cheap to return.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

mod sqlstate;
pub use sqlstate::SqlState;

/// Field codes of ErrorResponse and NoticeResponse (PostgreSQL documentation, "Error and Notice Message Fields").
#[allow(missing_docs)]
pub mod field {
    pub const SEVERITY_LOCALIZED: u8 = b'S';
    pub const SEVERITY: u8 = b'V';
    pub const CODE: u8 = b'C';
    pub const MESSAGE: u8 = b'M';
    pub const DETAIL: u8 = b'D';
    pub const HINT: u8 = b'H';
    pub const POSITION: u8 = b'P';
    pub const INTERNAL_POSITION: u8 = b'p';
    pub const INTERNAL_QUERY: u8 = b'q';
    pub const WHERE: u8 = b'W';
    pub const SCHEMA: u8 = b's';
    pub const TABLE: u8 = b't';
    pub const COLUMN: u8 = b'c';
    pub const DATATYPE: u8 = b'd';
    pub const CONSTRAINT: u8 = b'n';
    pub const FILE: u8 = b'F';
    pub const LINE: u8 = b'L';
    pub const ROUTINE: u8 = b'R';
}

/// Shorthand used all over the workspace.
pub type Result<T, E = PgError> = std::result::Result<T, E>;

/// An error, warning or notice with all of PostgreSQL's fields.
#[derive(Clone, PartialEq, Eq)]
pub struct PgError {
    fields: Vec<(u8, Bytes)>,
}

impl PgError {
    /// A new error of severity `ERROR`.
    pub fn new(code: SqlState, message: impl Into<String>) -> Self {
        Self::with_severity("ERROR", code, message)
    }

    /// A new error of severity `FATAL`: the session ends with it.
    pub fn fatal(code: SqlState, message: impl Into<String>) -> Self {
        Self::with_severity("FATAL", code, message)
    }

    /// A message of any severity, e.g. `WARNING` or `NOTICE`.
    pub fn with_severity(severity: &'static str, code: SqlState, message: impl Into<String>) -> Self {
        let fields = vec![
            (field::SEVERITY_LOCALIZED, Bytes::from_static(severity.as_bytes())),
            (field::SEVERITY, Bytes::from_static(severity.as_bytes())),
            (field::CODE, Bytes::copy_from_slice(code.as_bytes())),
            (field::MESSAGE, Bytes::from(message.into())),
        ];
        Self { fields }
    }

    /// SQLSTATE 0A000 for a construct Loxodonta cannot run correctly (yet). Always add a [`hint`](Self::hint).
    pub fn unsupported(construct: impl fmt::Display) -> Self {
        Self::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{construct} is not supported on distributed tables"))
    }

    /// SQLSTATE XX000: an invariant of ours is broken.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(SqlState::INTERNAL_ERROR, message)
    }

    /// SQLSTATE 08006 for a broken connection to a peer.
    pub fn connection(message: impl Into<String>) -> Self {
        Self::new(SqlState::CONNECTION_FAILURE, message)
    }

    /// SQLSTATE 08P01.
    pub fn protocol(message: impl Into<String>) -> Self {
        Self::new(SqlState::PROTOCOL_VIOLATION, message)
    }

    /// Sets DETAIL.
    pub fn detail(self, text: impl Into<String>) -> Self {
        self.with(field::DETAIL, text.into())
    }

    /// Sets HINT.
    pub fn hint(self, text: impl Into<String>) -> Self {
        self.with(field::HINT, text.into())
    }

    /// Sets the 1-based character position in the statement text.
    pub fn position(self, characters: usize) -> Self {
        self.with(field::POSITION, characters.to_string())
    }

    /// Moves the position, if there is one: of a text that so many characters come before.
    pub fn moved(self, characters: usize) -> Self {
        match self.text(field::POSITION).parse::<usize>() {
            Ok(position) => self.position(position + characters),
            Err(_) => self,
        }
    }

    /// Sets CONTEXT (the `W` field).
    pub fn context(self, text: impl Into<String>) -> Self {
        self.with(field::WHERE, text.into())
    }

    /// Sets or replaces any field.
    pub fn with(mut self, code: u8, value: impl Into<Bytes>) -> Self {
        let value = value.into();
        match self.fields.iter_mut().find(|(c, _)| *c == code) {
            Some(slot) => slot.1 = value,
            None => self.fields.push((code, value)),
        }
        self
    }

    /// Removes a field, e.g. a position that refers to a fragment's text instead of the user's.
    pub fn without(mut self, code: u8) -> Self {
        self.fields.retain(|(c, _)| *c != code);
        self
    }

    /// The raw bytes of a field.
    pub fn get(&self, code: u8) -> Option<&[u8]> {
        self.fields.iter().find(|(c, _)| *c == code).map(|(_, v)| v.as_ref())
    }

    /// A field as text for logs and comparisons; bytes that are not UTF-8 are shown as U+FFFD.
    pub fn text(&self, code: u8) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.get(code).unwrap_or_default())
    }

    /// The primary message.
    pub fn message(&self) -> std::borrow::Cow<'_, str> {
        self.text(field::MESSAGE)
    }

    /// The SQLSTATE.
    pub fn code(&self) -> SqlState {
        self.get(field::CODE).and_then(SqlState::from_bytes).unwrap_or(SqlState::INTERNAL_ERROR)
    }

    /// True for FATAL and PANIC: the connection that said it is gone.
    pub fn is_fatal(&self) -> bool {
        matches!(self.get(field::SEVERITY).or(self.get(field::SEVERITY_LOCALIZED)), Some(b"FATAL" | b"PANIC"))
    }

    /// Ends a statement only: that a datanode ends its session, or does not begin one, is no reason to end the client's.
    #[must_use]
    pub fn of_a_statement(self) -> Self {
        match self.is_fatal() {
            true => self.with(field::SEVERITY, "ERROR").with(field::SEVERITY_LOCALIZED, "ERROR"),
            false => self,
        }
    }

    /// Appends the body of an ErrorResponse / NoticeResponse (without tag and length).
    pub fn encode_body(&self, out: &mut BytesMut) {
        for (code, value) in self.fields.iter() {
            out.put_u8(*code);
            out.put_slice(value);
            out.put_u8(0);
        }
        out.put_u8(0);
    }

    /// Decodes the body of an ErrorResponse / NoticeResponse. Unknown fields are kept.
    pub fn decode_body(mut body: Bytes) -> Self {
        let mut fields = Vec::with_capacity(10);
        while body.len() > 1 && body[0] != 0 {
            let code = body[0];
            let Some(end) = body[1..].iter().position(|b| *b == 0) else { break };
            fields.push((code, body.slice(1..1 + end)));
            body = body.slice(end + 2..);
        }
        let mut error = Self { fields };
        if error.get(field::CODE).is_none() {
            error = error.with(field::CODE, &b"XX000"[..]);
        }
        if error.get(field::MESSAGE).is_none() {
            error = error.with(field::MESSAGE, &b"(the server sent an error without a message)"[..]);
        }
        error
    }
}

impl fmt::Display for PgError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message())?;
        for (label, code) in [("detail", field::DETAIL), ("hint", field::HINT)] {
            if self.get(code).is_some() {
                write!(f, "\n  {label}: {}", self.text(code))?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for PgError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code(), self)
    }
}

impl std::error::Error for PgError {}

impl From<std::io::Error> for PgError {
    fn from(e: std::io::Error) -> Self {
        Self::connection(e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_survives_the_wire() {
        let error = PgError::new(SqlState::UNIQUE_VIOLATION, "dup")
            .detail("d")
            .hint("h")
            .position(7)
            .context("c")
            .with(field::CONSTRAINT, "pk")
            .with(b'?', &b"\xff\xfe"[..]);
        let mut wire = BytesMut::new();
        error.encode_body(&mut wire);
        assert_eq!(PgError::decode_body(wire.freeze()), error);
    }

    #[test]
    fn a_truncated_body_still_gives_code_and_message() {
        let error = PgError::decode_body(Bytes::from_static(b"SERR"));
        assert_eq!(error.code(), SqlState::INTERNAL_ERROR);
        assert!(!error.message().is_empty());
    }
}
