//! A blocking client for tests that shows everything a server says: types, tags, notices, every error field, the
//! transaction status; and that lets a test cut COPY data into frames wherever it likes.

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use pgerror::{PgError, Result, field};

/// A server that is silent for this long counts as hung.
const SILENCE_MAX: Duration = Duration::from_secs(180);

/// One column of a RowDescription. Table oid and attribute number are left out: they differ from server to server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Column {
    pub name: String,
    pub type_oid: u32,
    pub type_modifier: i32,
    pub type_size: i16,
    /// 0 text, 1 binary.
    pub format: i16,
}

/// A row as it came over the wire.
pub type Row = Vec<Option<Bytes>>;

/// All that a server said in answer to one statement.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// Types of `$1`, … (extended protocol only).
    pub parameter_types: Vec<u32>,
    /// `None` for statements that return no rows.
    pub columns: Option<Vec<Column>>,
    /// The rows.
    pub rows: Vec<Row>,
    /// Bytes of COPY TO STDOUT, frames joined.
    pub copied: Option<Vec<u8>>,
    /// How many bytes each frame had.
    pub copied_frames: Vec<usize>,
    /// Command tag; empty for an empty query.
    pub tag: Option<String>,
    /// The error that ended it.
    pub error: Option<PgError>,
    /// Notices and warnings in the order they came.
    pub notices: Vec<PgError>,
    /// Transaction status of ReadyForQuery: `I`, `T` or `E`.
    pub status: char,
}

/// What COPY FROM STDIN is to be fed with.
#[derive(Clone, Copy, Debug, Default)]
pub struct CopyInput<'a> {
    /// One CopyData message each, cut anywhere.
    pub frames: &'a [&'a [u8]],
    /// Sends CopyFail instead of CopyDone at the end.
    pub fail: bool,
}

/// A session.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    input: BytesMut,
    output: BytesMut,
    /// Values the server has reported, e.g. `TimeZone`.
    pub parameters: BTreeMap<String, String>,
    /// Key of a cancel request.
    pub backend_key: (u32, u32),
    /// Channel and payload of what was notified, in the order it came.
    pub notifications: VecDeque<(String, String)>,
}

impl Client {
    /// Connects to 127.0.0.1 as user `postgres` to database `postgres`.
    ///
    /// # Errors
    /// The server's refusal, or a connection error.
    pub fn connect(port: u16) -> Result<Self> {
        Self::connect_with(port, &[("user", "postgres"), ("database", "postgres")])
    }

    /// Connects with the given startup parameters. Trust authentication only.
    ///
    /// # Errors
    /// The server's refusal, or a connection error.
    pub fn connect_with(port: u16, parameters: &[(&str, &str)]) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        stream.set_write_timeout(Some(SILENCE_MAX))?;
        let (input, output) = (BytesMut::new(), BytesMut::new());
        let mut client = Self {
            stream,
            input,
            output,
            parameters: BTreeMap::new(),
            backend_key: (0, 0),
            notifications: VecDeque::new(),
        };
        client.startup(parameters)?;
        Ok(client)
    }

    /// How long the server may be silent before it counts as hung (the call then fails); three minutes at first.
    ///
    /// # Errors
    /// When the socket refuses it.
    pub fn set_silence_max(&mut self, limit: Duration) -> Result<()> {
        self.stream.set_read_timeout(Some(limit))?;
        Ok(self.stream.set_write_timeout(Some(limit))?)
    }

    fn startup(&mut self, parameters: &[(&str, &str)]) -> Result<()> {
        let mut body = BytesMut::new();
        body.put_u32(3 << 16);
        for (name, value) in parameters {
            put_text(&mut body, name);
            put_text(&mut body, value);
        }
        body.put_u8(0);
        self.output.put_u32(body.len() as u32 + 4);
        self.output.extend_from_slice(&body);
        self.flush()?;
        loop {
            let (tag, mut body) = self.receive()?;
            match tag {
                b'R' if body.len() >= 4 && body.get_u32() == 0 => {}
                b'R' => return Err(PgError::protocol("the server asks for a password; tests use trust")),
                b'K' if body.len() >= 8 => self.backend_key = (body.get_u32(), body.get_u32()),
                b'E' => return Err(PgError::decode_body(body)),
                b'Z' => return Ok(()),
                b'N' | b'v' => {}
                other => return Err(unexpected(other)),
            }
        }
    }

    /// Runs one or more statements by the simple protocol; one answer each. Every COPY FROM STDIN gets `copy`.
    ///
    /// # Errors
    /// Only when the connection breaks; a statement's error is in its [`Answer`].
    pub fn simple_all(&mut self, sql: &str, copy: CopyInput) -> Result<Vec<Answer>> {
        self.put(b'Q', |body| put_text(body, sql));
        self.flush()?;
        self.answers(copy, false)
    }

    /// Runs one statement by the simple protocol.
    ///
    /// # Errors
    /// Only when the connection breaks.
    pub fn simple(&mut self, sql: &str) -> Result<Answer> {
        self.simple_copy(sql, CopyInput::default())
    }

    /// Runs one statement by the simple protocol, with data for COPY FROM STDIN.
    ///
    /// # Errors
    /// Only when the connection breaks.
    pub fn simple_copy(&mut self, sql: &str, copy: CopyInput) -> Result<Answer> {
        Ok(self.simple_all(sql, copy)?.pop().unwrap_or_default())
    }

    /// Runs one statement as drivers do: Parse, Describe, Sync; then Bind, Execute, Sync. Parameters travel as text;
    /// `binary` says of which result types the binary format is asked for.
    ///
    /// # Errors
    /// Only when the connection breaks.
    pub fn extended(
        &mut self,
        sql: &str,
        parameters: &[Option<&str>],
        copy: CopyInput,
        binary: impl Fn(u32) -> bool,
    ) -> Result<Answer> {
        self.put(b'P', |body| {
            put_text(body, "");
            put_text(body, sql);
            body.put_u16(0);
        });
        self.put(b'D', |body| body.put_slice(b"S\0"));
        self.put(b'S', |_| {});
        self.flush()?;
        let prepared = self.answers(CopyInput::default(), false)?.pop().unwrap_or_default();
        if prepared.error.is_some() {
            return Ok(prepared);
        }
        let formats: Vec<i16> =
            prepared.columns.iter().flatten().map(|column| i16::from(binary(column.type_oid))).collect();
        self.put_bind(parameters, &formats);
        self.put(b'E', |body| body.put_slice(b"\0\0\0\0\0"));
        // The server ignores a Sync that arrives while it reads COPY data, so there it must come after the data.
        let is_copy = sql.trim_start().get(..4).is_some_and(|word| word.eq_ignore_ascii_case("copy"));
        self.put(if is_copy { b'H' } else { b'S' }, |_| {});
        self.flush()?;
        let mut answer = self.answers(copy, is_copy)?.pop().unwrap_or_default();
        if answer.columns.is_some() {
            return Err(PgError::protocol("a RowDescription that nobody asked for, in answer to Execute"));
        }
        answer.parameter_types = prepared.parameter_types;
        answer.columns = prepared.columns.map(|mut columns| {
            columns.iter_mut().zip(&formats).for_each(|(column, format)| column.format = *format);
            columns
        });
        answer.notices.splice(0..0, prepared.notices);
        Ok(answer)
    }

    /// Runs a statement that must succeed.
    ///
    /// # Errors
    /// The statement's error.
    pub fn run(&mut self, sql: &str) -> Result<Answer> {
        let answers = self.simple_all(sql, CopyInput::default())?;
        let mut last = Answer::default();
        for answer in answers {
            if let Some(error) = answer.error {
                return Err(error);
            }
            last = answer;
        }
        Ok(last)
    }

    /// Runs a query and gives its rows as text, NULL as `\N`.
    ///
    /// # Errors
    /// The statement's error.
    pub fn strings(&mut self, sql: &str) -> Result<Vec<Vec<String>>> {
        let text = |value: Option<Bytes>| value.map_or("\\N".into(), |v| String::from_utf8_lossy(&v).into_owned());
        Ok(self.run(sql)?.rows.into_iter().map(|row| row.into_iter().map(text).collect()).collect())
    }

    /// Runs a query of one row and one column.
    ///
    /// # Errors
    /// The statement's error, or no row.
    pub fn scalar(&mut self, sql: &str) -> Result<String> {
        let rows = self.strings(sql)?;
        rows.into_iter().flatten().next().ok_or_else(|| PgError::protocol(format!("no row from: {sql}")))
    }

    /// Sends `COPY … FROM STDIN` and part of its data, and leaves the COPY open: for tests of what happens in the middle.
    ///
    /// # Errors
    /// The server's refusal of the COPY.
    pub fn begin_copy(&mut self, sql: &str) -> Result<()> {
        self.put(b'Q', |body| put_text(body, sql));
        self.flush()?;
        loop {
            match self.receive()? {
                (b'G', _) => return Ok(()),
                (b'E', body) => return Err(PgError::decode_body(body)),
                (b'N', _) => {}
                (other, _) => return Err(unexpected(other)),
            }
        }
    }

    /// Sends one CopyData of a COPY begun by [`Client::begin_copy`].
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn send_copy(&mut self, frame: &[u8]) -> Result<()> {
        self.put(b'd', |body| body.put_slice(frame));
        self.flush()
    }

    /// Sends CopyDone and does not wait for the answer: for tests of what happens during the commit.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn send_copy_done(&mut self) -> Result<()> {
        self.put(b'c', |_| {});
        self.flush()
    }

    /// Ends a COPY begun by [`Client::begin_copy`].
    ///
    /// # Errors
    /// When the connection breaks.
    pub fn end_copy(&mut self) -> Result<Answer> {
        self.send_copy_done()?;
        Ok(self.answers(CopyInput::default(), false)?.pop().unwrap_or_default())
    }

    /// Sends a query and does not wait for the answer; [`Client::wait`] does.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn send_query(&mut self, sql: &str) -> Result<()> {
        self.put(b'Q', |body| put_text(body, sql));
        self.flush()
    }

    /// Waits for the answers to what was sent.
    ///
    /// # Errors
    /// When the connection breaks.
    pub fn wait(&mut self) -> Result<Vec<Answer>> {
        self.answers(CopyInput::default(), false)
    }

    /// Channel and payload of the next notification; waits for it.
    ///
    /// # Errors
    /// When the connection breaks, or nothing comes.
    pub fn notification(&mut self) -> Result<(String, String)> {
        loop {
            if let Some(notification) = self.notifications.pop_front() {
                return Ok(notification);
            }
            let (tag, _) = self.receive_or_hear()?;
            if tag != b'A' {
                return Err(unexpected(tag));
            }
        }
    }

    /// Waits for the error with which the server ends the session unasked.
    ///
    /// # Errors
    /// When the connection is closed without a word.
    pub fn last_words(&mut self) -> Result<PgError> {
        loop {
            if let (b'E', body) = self.receive()? {
                return Ok(PgError::decode_body(body));
            }
        }
    }

    /// Sends raw messages, tag and body each, in one write: for tests of pipelining. [`Client::wait`] reads the answers
    /// up to one ReadyForQuery.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn send_messages(&mut self, messages: &[(u8, &[u8])]) -> Result<()> {
        for (tag, bytes) in messages {
            self.put(*tag, |body| body.put_slice(bytes));
        }
        self.flush()
    }

    /// Asks the server on `port` to cancel what the session with this key runs.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub fn cancel(port: u16, (pid, secret): (u32, u32)) -> Result<()> {
        const CANCEL_REQUEST: u32 = 80_877_102;
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        let mut packet = BytesMut::new();
        [16, CANCEL_REQUEST, pid, secret].into_iter().for_each(|word| packet.put_u32(word));
        stream.write_all(&packet)?;
        // The server closes the connection when it has acted.
        stream.read_to_end(&mut Vec::new())?;
        Ok(())
    }

    fn put_bind(&mut self, parameters: &[Option<&str>], formats: &[i16]) {
        self.put(b'B', |body| {
            body.put_slice(b"\0\0");
            body.put_u16(0);
            body.put_u16(parameters.len() as u16);
            for parameter in parameters {
                match parameter {
                    Some(text) => {
                        body.put_u32(text.len() as u32);
                        body.put_slice(text.as_bytes());
                    }
                    None => body.put_i32(-1),
                }
            }
            body.put_u16(formats.len() as u16);
            formats.iter().for_each(|format| body.put_i16(*format));
        });
    }

    /// Reads answers until ReadyForQuery. `sync_later`: the caller has sent Flush, so a Sync is due once the statement
    /// has ended or its data is sent.
    fn answers(&mut self, copy: CopyInput, sync_later: bool) -> Result<Vec<Answer>> {
        let mut answers: Vec<Answer> = Vec::new();
        let mut current = Answer::default();
        let mut sync_due = sync_later;
        loop {
            let (tag, mut body) = self.receive()?;
            match tag {
                b'T' => current.columns = Some(columns(&mut body)?),
                b'D' => current.rows.push(row(&mut body)?),
                // The value of a function call has the form of a row's only one, without their number.
                b'V' => current.rows.push(row(&mut Bytes::from([&b"\0\x01"[..], &body].concat()))?),
                b't' => current.parameter_types = parameter_types(&mut body)?,
                b'N' => current.notices.push(PgError::decode_body(body)),
                b'G' => {
                    self.send_copy_input(copy, std::mem::take(&mut sync_due))?;
                }
                b'H' => current.copied = Some(Vec::new()),
                b'd' => {
                    current.copied.get_or_insert_default().extend_from_slice(&body);
                    current.copied_frames.push(body.len());
                }
                b'C' | b'I' | b's' | b'E' => {
                    match tag {
                        b'C' => current.tag = Some(text(&mut body)?),
                        b'E' => current.error = Some(PgError::decode_body(body)),
                        _ => current.tag = Some(String::new()),
                    }
                    answers.push(std::mem::take(&mut current));
                    self.sync_if(&mut sync_due)?;
                }
                b'Z' => {
                    let status = body.first().copied().map_or('?', char::from);
                    match answers.last_mut() {
                        Some(last) => last.notices.append(&mut current.notices),
                        None => answers.push(current),
                    }
                    answers.iter_mut().for_each(|answer| answer.status = status);
                    return Ok(answers);
                }
                b'1' | b'2' | b'3' | b'n' | b'c' => {}
                other => return Err(unexpected(other)),
            }
        }
    }

    fn sync_if(&mut self, due: &mut bool) -> Result<()> {
        if std::mem::take(due) {
            self.put(b'S', |_| {});
            self.flush()?;
        }
        Ok(())
    }

    fn send_copy_input(&mut self, copy: CopyInput, sync: bool) -> Result<()> {
        for frame in copy.frames {
            self.put(b'd', |body| body.put_slice(frame));
            // Small segments on purpose: message borders and packet borders both fall anywhere.
            if self.output.len() > 8192 {
                self.flush()?;
            }
        }
        match copy.fail {
            true => self.put(b'f', |body| put_text(body, "the test says so")),
            false => self.put(b'c', |_| {}),
        }
        if sync {
            self.put(b'S', |_| {});
        }
        self.flush()
    }

    fn put(&mut self, tag: u8, fill: impl FnOnce(&mut BytesMut)) {
        self.output.put_u8(tag);
        let start = self.output.len();
        self.output.put_u32(0);
        fill(&mut self.output);
        let length = (self.output.len() - start) as u32;
        self.output[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    fn flush(&mut self) -> Result<()> {
        let sent = self.stream.write_all(&self.output);
        self.output.clear();
        Ok(sent?)
    }

    /// The next message; ParameterStatus and notifications are taken in on the way.
    fn receive(&mut self) -> Result<(u8, Bytes)> {
        loop {
            let (tag, body) = self.receive_or_hear()?;
            if tag != b'A' {
                return Ok((tag, body));
            }
        }
    }

    /// The next message, or the tag of a notification that was taken in.
    fn receive_or_hear(&mut self) -> Result<(u8, Bytes)> {
        loop {
            if let Some((tag, mut body)) = self.buffered()? {
                if tag == b'A' && body.len() >= 4 {
                    body.advance(4);
                    let notification = (text(&mut body)?, text(&mut body)?);
                    self.notifications.push_back(notification);
                }
                if tag != b'S' {
                    return Ok((tag, body));
                }
                let (name, value) = (text(&mut body)?, text(&mut body)?);
                self.parameters.insert(name, value);
                continue;
            }
            let mut chunk = [0; 65536];
            match self.stream.read(&mut chunk)? {
                0 => return Err(PgError::connection("the server closed the connection")),
                count => self.input.extend_from_slice(&chunk[..count]),
            }
        }
    }

    fn buffered(&mut self) -> Result<Option<(u8, Bytes)>> {
        if self.input.len() < 5 {
            return Ok(None);
        }
        let length = u32::from_be_bytes([self.input[1], self.input[2], self.input[3], self.input[4]]) as usize;
        if length < 4 {
            return Err(PgError::protocol("a message shorter than its own length word"));
        }
        if self.input.len() < length + 1 {
            return Ok(None);
        }
        let mut message = self.input.split_to(length + 1).freeze();
        let tag = message.get_u8();
        message.advance(4);
        Ok(Some((tag, message)))
    }
}

/// A one-line form of an error with the fields that tests compare.
pub fn describe(error: &PgError) -> String {
    let mut line = format!("{} {}: {}", error.text(field::SEVERITY), error.code(), error.message());
    for (label, code) in [
        ("DETAIL", field::DETAIL),
        ("HINT", field::HINT),
        ("CONTEXT", field::WHERE),
        ("SCHEMA", field::SCHEMA),
        ("TABLE", field::TABLE),
        ("COLUMN", field::COLUMN),
        ("DATATYPE", field::DATATYPE),
        ("CONSTRAINT", field::CONSTRAINT),
    ] {
        if error.get(code).is_some() {
            line.push_str(&format!(" | {label}: {}", error.text(code)));
        }
    }
    line
}

fn unexpected(tag: u8) -> PgError {
    PgError::protocol(format!("unexpected message {:?} from the server", char::from(tag)))
}

fn put_text(body: &mut BytesMut, text: &str) {
    body.put_slice(text.as_bytes());
    body.put_u8(0);
}

fn short() -> PgError {
    PgError::protocol("a message ends too early")
}

fn text(body: &mut Bytes) -> Result<String> {
    let end = body.iter().position(|byte| *byte == 0).ok_or_else(short)?;
    let value = String::from_utf8_lossy(&body.split_to(end)).into_owned();
    body.advance(1);
    Ok(value)
}

fn columns(body: &mut Bytes) -> Result<Vec<Column>> {
    let count = body.try_get_u16().map_err(|_| short())?;
    (0..count)
        .map(|_| {
            let name = text(body)?;
            if body.len() < 18 {
                return Err(short());
            }
            body.advance(6);
            let (type_oid, type_size) = (body.get_u32(), body.get_i16());
            Ok(Column { name, type_oid, type_size, type_modifier: body.get_i32(), format: body.get_i16() })
        })
        .collect()
}

fn row(body: &mut Bytes) -> Result<Row> {
    let count = body.try_get_u16().map_err(|_| short())?;
    (0..count)
        .map(|_| {
            let length = body.try_get_i32().map_err(|_| short())?;
            match usize::try_from(length) {
                Err(_) => Ok(None),
                Ok(length) if length <= body.len() => Ok(Some(body.split_to(length))),
                Ok(_) => Err(short()),
            }
        })
        .collect()
}

fn parameter_types(body: &mut Bytes) -> Result<Vec<u32>> {
    let count = body.try_get_u16().map_err(|_| short())?;
    (0..count).map(|_| body.try_get_u32().map_err(|_| short())).collect()
}
