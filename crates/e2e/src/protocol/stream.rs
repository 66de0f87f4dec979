//! A connection of bytes: sends what it is told, and takes in all that the server says to it until the server has said the last.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use bytes::{Buf, Bytes};
use pgerror::{PgError, field};

/// A server that is silent for this long while it has something to answer counts as hung.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// A message of a server, as far as it is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Its type; [`END`] when the connection has ended, [`HUNG`] when the server is silent, [`RAW`] for bytes that are no message.
    pub tag: u8,
    /// SQLSTATE of an error.
    pub code: String,
    /// What of its body counts.
    pub text: String,
    /// An error that says that bytes are missing.
    pub is_short: bool,
}

/// The server has closed the connection.
pub const END: u8 = b'.';
/// It has not said what is due for [`SILENCE_MAX`].
pub const HUNG: u8 = b'!';
/// The server has agreed to encryption, which is not followed up.
pub const ENCRYPTED: u8 = b'%';
/// Bytes in front of [`END`] that are no whole message.
pub const RAW: u8 = b'?';

impl Said {
    fn bare(tag: u8) -> Self {
        Self { tag, code: String::new(), text: String::new(), is_short: false }
    }

    /// The server has agreed to encryption.
    pub(super) fn encrypted() -> Self {
        Self::bare(ENCRYPTED)
    }

    fn new(tag: u8, body: Bytes) -> Self {
        let mut said = Self::bare(tag);
        match tag {
            b'E' => {
                let error = PgError::decode_body(body);
                said.code = error.code().to_string();
                // Which bytes of a wrong character are shown is not compared, nor which of a message's faults is told of, nor whether
                // a pipeline is called a block.
                let is_left_out = ["22021", "08P01", "25001"].contains(&said.code.as_str()) && !error.is_fatal();
                let message = if is_left_out { "…".into() } else { error.message() };
                said.is_short = error.message().ends_with("data left in message");
                said.text = format!("{} {} {message}", error.text(field::SEVERITY), said.code);
            }
            b'T' => said.text = columns(body),
            _ => said.text = body.escape_ascii().to_string(),
        }
        said
    }

    /// Is it compared? Not what comes when it likes or differs from server to server: ParameterStatus, notices, notifications,
    /// the key of cancel requests.
    fn counts(&self) -> bool {
        !matches!(self.tag, b'S' | b'N' | b'A' | b'K')
    }
}

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = match self.tag {
            END => "the connection ends",
            HUNG => "nothing for 30 s",
            RAW => "bytes",
            _ => "",
        };
        write!(f, "{} {what}{}", char::from(self.tag), self.text)
    }
}

/// Columns of a RowDescription without what differs from server to server: table and attribute number.
fn columns(mut body: Bytes) -> String {
    let mut columns = Vec::new();
    body.advance(2);
    while let Some(end) = body.iter().position(|byte| *byte == 0) {
        let name = body.split_to(end);
        body.advance(1 + 6);
        let (of, size, modifier, format) = (body.get_u32(), body.get_i16(), body.get_i32(), body.get_i16());
        columns.push(format!("{}:{of}:{size}:{modifier}:{format}", name.escape_ascii()));
    }
    columns.join(", ")
}

/// See the page.
pub struct Stream {
    stream: TcpStream,
    input: Vec<u8>,
    /// What has been said.
    pub said: Vec<Said>,
}

impl Stream {
    /// Connects to 127.0.0.1 and says nothing yet.
    ///
    /// # Errors
    /// The operating system's.
    pub fn open(port: u16) -> std::io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        stream.set_write_timeout(Some(SILENCE_MAX))?;
        Ok(Self { stream, input: Vec::new(), said: Vec::new() })
    }

    /// Sends bytes in pieces of at most so many. A server that has closed the connection takes no more, which [`Self::until`] finds.
    pub fn send(&mut self, bytes: &[u8], piece: usize) {
        for piece in bytes.chunks(piece.max(1)) {
            if self.stream.write_all(piece).is_err() {
                return;
            }
        }
    }

    /// Says that no more will come.
    pub fn no_more(&mut self) {
        // Fails when the server has closed the connection, which is found by reading.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// One byte that is no message: the answer to a request for encryption. `None` at the end of the connection.
    pub fn one_byte(&mut self) -> Option<u8> {
        while self.input.is_empty() {
            if !self.fill() {
                return None;
            }
        }
        Some(self.input.remove(0))
    }

    /// Takes back a byte that was the beginning of a message.
    pub fn put_back(&mut self, byte: u8) {
        self.input.insert(0, byte);
    }

    /// Notes what the server says until this is true of the message that was said last; false if the connection has ended, or the
    /// server hangs, before.
    pub fn until(&mut self, mut is_last: impl FnMut(&[Said]) -> bool) -> bool {
        if matches!(self.said.last(), Some(Said { tag: END | HUNG, .. })) {
            return false;
        }
        loop {
            while let Some(said) = self.next_message() {
                if !said.counts() {
                    continue;
                }
                self.said.push(said);
                if is_last(&self.said) {
                    return true;
                }
            }
            if !self.fill() {
                return false;
            }
        }
    }

    /// Notes all that is said until the connection ends.
    pub fn to_the_end(&mut self) {
        self.until(|_| false);
    }

    fn next_message(&mut self) -> Option<Said> {
        let header = self.input.get(..5)?;
        let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
        if length < 4 || self.input.len() < length + 1 {
            return None;
        }
        let body = Bytes::copy_from_slice(&self.input[5..=length]);
        let tag = self.input[0];
        self.input.drain(..=length);
        Some(Said::new(tag, body))
    }

    /// Reads more; false when no more comes, which is noted.
    fn fill(&mut self) -> bool {
        let mut chunk = [0; 65536];
        let last = match self.stream.read(&mut chunk) {
            Ok(0) => END,
            Ok(count) => {
                self.input.extend_from_slice(&chunk[..count]);
                return true;
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => HUNG,
            // The server had not read all when it closed the connection.
            Err(_) => END,
        };
        if !self.input.is_empty() {
            let text = std::mem::take(&mut self.input).escape_ascii().to_string();
            self.said.push(Said { text, ..Said::bare(RAW) });
        }
        self.said.push(Said::bare(last));
        false
    }
}
