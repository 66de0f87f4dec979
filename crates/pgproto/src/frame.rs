//! Framing: one tag byte, a big-endian length that counts itself, the body.

use bytes::{Buf, Bytes, BytesMut};
use pgerror::{PgError, Result, SqlState};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// PostgreSQL's own limit for a message is 1 GiB less one byte (`PQ_LARGE_MESSAGE_LIMIT`, `MaxAllocSize`).
pub const FRAME_BYTES_MAX: usize = 0x3fff_ffff;

/// Bytes asked of the socket at once. PostgreSQL writes 8 KiB pieces; larger reads take several of them in one call, and
/// 64 KiB stays below the allocator's threshold for mapping fresh pages.
pub const READ_BYTES: usize = 64 * 1024;
/// … until once as much has come as was asked for: most clients send little, and there may be thousands.
const FIRST_READ_BYTES: usize = 8 * 1024;

/// Tag and length.
pub const HEADER_BYTES: usize = 5;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Frame {
    pub tag: u8,
    pub body: Bytes,
}

/// Reads frames from a byte stream.
pub struct FrameReader {
    io: Box<dyn AsyncRead + Send + Sync + Unpin>,
    buffer: BytesMut,
    /// Bytes asked of the stream at once.
    read_bytes: usize,
    ended: bool,
    frame_bytes_max: usize,
    length_max: fn(u8) -> Result<usize>,
    /// The peer is a client, whose connection ends at a length that cannot be.
    is_client: bool,
    is_out_of_step: bool,
    /// By [`Self::break_off`].
    is_broken_off: bool,
}

/// What is known of a frame of which at least the tag is there.
enum Extent {
    /// Bytes with the header; all are there.
    Whole(usize),
    Part,
    WrongLength,
}

impl FrameReader {
    /// Wraps the reading half of a stream.
    pub fn new(io: impl AsyncRead + Send + Sync + Unpin + 'static) -> Self {
        Self {
            io: Box::new(io),
            buffer: BytesMut::with_capacity(FIRST_READ_BYTES),
            read_bytes: FIRST_READ_BYTES,
            ended: false,
            frame_bytes_max: FRAME_BYTES_MAX,
            length_max: |_| Ok(FRAME_BYTES_MAX),
            is_client: false,
            is_out_of_step: false,
            is_broken_off: false,
        }
    }

    /// Asks from here on how long a client's message of a tag may be. A tag that nobody knows is an error at once: what follows it is no
    /// length that one could wait for (PostgreSQL: `SocketBackend`). A length that cannot be is the end of the stream, without a word.
    pub fn expect(&mut self, length_max: fn(u8) -> Result<usize>) {
        self.length_max = length_max;
        self.frame_bytes_max = FRAME_BYTES_MAX;
        self.is_client = true;
    }

    /// Has the stream ended at a length that cannot be?
    pub fn is_out_of_step(&self) -> bool {
        self.is_out_of_step
    }

    /// Reads nothing more: what comes cannot be understood. [`Self::in_step`] is an error from now on.
    pub fn break_off(&mut self) {
        self.buffer.clear();
        (self.ended, self.is_broken_off) = (true, true);
    }

    /// PostgreSQL's last words to a client that was broken off in the middle of a message.
    pub fn in_step(&self) -> Result<()> {
        match self.is_broken_off {
            false => Ok(()),
            true => Err(PgError::fatal(
                SqlState::PROTOCOL_VIOLATION,
                "terminating connection because protocol synchronization was lost",
            )),
        }
    }

    /// Refuses longer frames from here on: of a peer that nobody knows yet, say.
    pub fn limit(&mut self, frame_bytes_max: usize) {
        self.frame_bytes_max = frame_bytes_max.min(FRAME_BYTES_MAX);
    }

    /// Reads more bytes; 0 at the end of the stream. Cancel-safe: bytes that were read are in the buffer.
    pub async fn fill(&mut self) -> Result<usize> {
        if self.ended {
            return Ok(0);
        }
        if self.buffer.capacity() - self.buffer.len() < self.read_bytes / 2 {
            self.buffer.reserve(self.read_bytes);
        }
        let spare = self.buffer.capacity() - self.buffer.len();
        let count = match self.io.read_buf(&mut self.buffer).await {
            // A peer that left without TLS's goodbye: messages have an end of their own.
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => 0,
            read => read?,
        };
        self.ended = count == 0;
        if count == spare {
            self.read_bytes = READ_BYTES;
        }
        Ok(count)
    }

    /// Reads ahead until the peer closes the stream or `bytes_max` are waiting; then it never returns (in the second
    /// case) or returns (in the first). For `select!` beside the work done for this peer.
    pub async fn closed(&mut self, bytes_max: usize) -> PgError {
        while self.buffer.len() < bytes_max {
            match self.fill().await {
                Ok(0) => return PgError::connection("the client closed the connection"),
                Ok(_) => {}
                Err(error) => return error,
            }
        }
        std::future::pending().await
    }

    /// The next whole frame if it is in the buffer already.
    pub fn try_next(&mut self) -> Result<Option<Frame>> {
        self.in_step()?;
        if self.buffer.is_empty() {
            return Ok(None);
        }
        let total = match self.extent(0)? {
            Extent::Whole(total) => total,
            Extent::Part => return Ok(None),
            Extent::WrongLength if self.is_client => {
                self.buffer.clear();
                (self.ended, self.is_out_of_step) = (true, true);
                return Ok(None);
            }
            Extent::WrongLength => return Err(wrong_length()),
        };
        let tag = self.buffer[0];
        let mut whole = self.buffer.split_to(total);
        whole.advance(HEADER_BYTES);
        Ok(Some(Frame { tag, body: whole.freeze() }))
    }

    /// The next frame; `None` when the stream ended between two frames. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Frame>> {
        loop {
            if let Some(frame) = self.try_next()? {
                return Ok(Some(frame));
            }
            if self.fill().await? == 0 {
                return match self.buffer.is_empty() {
                    true => Ok(None),
                    false => Err(PgError::connection("the connection ended in the middle of a message")),
                };
            }
        }
    }

    /// Tag of the frame at the head of the buffer.
    pub fn peek_tag(&self) -> Option<u8> {
        self.buffer.first().copied()
    }

    /// Is this frame the next one? `None` while its beginning is there and nothing else.
    pub fn begins_with(&self, frame: &[u8]) -> Option<bool> {
        let there = self.buffer.len().min(frame.len());
        match self.buffer[..there] == frame[..there] {
            true => (there == frame.len()).then_some(true),
            false => Some(false),
        }
    }

    /// Whole frames of this tag at the head of the buffer, headers included, and how many they are.
    pub fn take_run(&mut self, tag: u8) -> Result<Option<(Bytes, usize)>> {
        let (mut end, mut count) = (0, 0);
        while self.buffer.get(end) == Some(&tag) {
            match self.extent(end)? {
                Extent::Whole(bytes) => end += bytes,
                Extent::Part => break,
                Extent::WrongLength => return Err(wrong_length()),
            }
            count += 1;
        }
        Ok((count > 0).then(|| (self.buffer.split_to(end).freeze(), count)))
    }

    /// Raw access for the startup packet, which has no tag.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Extent of the frame whose tag is at `at`; makes room for what is missing of it.
    fn extent(&mut self, at: usize) -> Result<Extent> {
        let length_max = (self.length_max)(self.buffer[at])?.min(self.frame_bytes_max);
        let Some(header) = self.buffer.get(at..at + HEADER_BYTES) else { return Ok(Extent::Part) };
        let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
        if !(4..=length_max).contains(&length) {
            return Ok(Extent::WrongLength);
        }
        let total = length + 1;
        if self.buffer.len() - at >= total {
            return Ok(Extent::Whole(total));
        }
        let missing = at + total - self.buffer.len();
        if at == 0 && missing > READ_BYTES {
            self.buffer.reserve(missing);
        }
        Ok(Extent::Part)
    }
}

/// Writes bytes; messages are put into [`FrameWriter::buffer`] by the builders and sent by [`FrameWriter::flush`].
pub struct FrameWriter {
    io: Box<dyn AsyncWrite + Send + Sync + Unpin>,
    buffer: BytesMut,
    /// What was about to leave the buffer, or has passed it by, in bytes.
    sent: u64,
}

/// A buffer that has grown beyond this is given back after a flush.
const BUFFER_BYTES_KEPT: usize = 256 * 1024;

impl FrameWriter {
    /// Wraps the writing half of a stream.
    pub fn new(io: impl AsyncWrite + Send + Sync + Unpin + 'static) -> Self {
        Self { io: Box::new(io), buffer: BytesMut::with_capacity(8 * 1024), sent: 0 }
    }

    /// Where the writer stands: unchanged if nothing was written meanwhile, neither to the client nor into the buffer.
    pub fn position(&self) -> u64 {
        self.sent + self.buffer.len() as u64
    }

    /// Drops what was put behind this position, if none of it has left the buffer; says whether it has done so.
    pub fn take_back(&mut self, position: u64) -> bool {
        let kept = position.checked_sub(self.sent).and_then(|kept| usize::try_from(kept).ok());
        let kept = kept.filter(|kept| *kept <= self.buffer.len());
        kept.is_some_and(|kept| {
            self.buffer.truncate(kept);
            true
        })
    }

    /// Where the builders write.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Sends all that is in the buffer, and what TLS holds back below.
    pub async fn flush(&mut self) -> Result<()> {
        if !self.buffer.is_empty() {
            self.sent += self.buffer.len() as u64;
            // Not cancel-safe by itself: `write_all_buf` advances the buffer by what was sent, so a cancelled flush goes on
            // where it stopped.
            self.io.write_all_buf(&mut self.buffer).await?;
            if self.buffer.capacity() > BUFFER_BYTES_KEPT {
                self.buffer = BytesMut::with_capacity(8 * 1024);
            }
        }
        Ok(self.io.flush().await?)
    }

    /// Sends the buffer, then `bytes`, without copying `bytes` when they are many.
    pub async fn write_through(&mut self, bytes: &[u8]) -> Result<()> {
        const COPY_BELOW: usize = 4 * 1024;
        if bytes.len() < COPY_BELOW {
            self.buffer.extend_from_slice(bytes);
            if self.buffer.len() >= 2 * COPY_BELOW {
                self.flush().await?;
            }
            return Ok(());
        }
        self.flush().await?;
        self.sent += bytes.len() as u64;
        self.io.write_all(bytes).await?;
        Ok(())
    }

    /// Flushes and says goodbye to the stream.
    pub async fn shutdown(&mut self) -> Result<()> {
        self.flush().await?;
        self.io.shutdown().await?;
        Ok(())
    }
}

/// Writes a frame whose body `fill` appends; the length is put in afterwards.
pub fn put_frame(out: &mut BytesMut, tag: u8, fill: impl FnOnce(&mut BytesMut)) {
    out.extend_from_slice(&[tag, 0, 0, 0, 0]);
    let start = out.len() - 4;
    fill(out);
    debug_assert!(i32::try_from(out.len() - start).is_ok(), "a message of more than 2 GiB");
    let length = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// Appends a NUL-terminated string.
pub(crate) fn put_cstr(out: &mut BytesMut, text: &[u8]) {
    debug_assert!(!text.contains(&0));
    out.extend_from_slice(text);
    out.extend_from_slice(&[0]);
}

/// Cuts typed values off the front of a message body; every method fails on a short body.
pub struct Cursor {
    rest: Bytes,
}

impl Cursor {
    /// Starts at the head of `body`.
    pub fn new(body: Bytes) -> Self {
        Self { rest: body }
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8> {
        self.need(1)?;
        Ok(self.rest.get_u8())
    }

    /// Big-endian 16 bits.
    pub fn i16(&mut self) -> Result<i16> {
        self.need(2)?;
        Ok(self.rest.get_i16())
    }

    /// Big-endian 32 bits.
    pub fn i32(&mut self) -> Result<i32> {
        self.need(4)?;
        Ok(self.rest.get_i32())
    }

    /// Big-endian unsigned 32 bits.
    pub fn u32(&mut self) -> Result<u32> {
        self.need(4)?;
        Ok(self.rest.get_u32())
    }

    /// `count` bytes, shared with the message.
    pub fn bytes(&mut self, count: usize) -> Result<Bytes> {
        self.need(count)?;
        Ok(self.rest.split_to(count))
    }

    /// A NUL-terminated string without its NUL.
    pub fn cstr(&mut self) -> Result<Bytes> {
        let end = self.rest.iter().position(|b| *b == 0);
        let end = end.ok_or_else(|| PgError::protocol("invalid string in message"))?;
        let text = self.rest.split_to(end);
        self.rest.advance(1);
        Ok(text)
    }

    /// What is left.
    pub fn rest(self) -> Bytes {
        self.rest
    }

    /// `value`, if there is nothing left (PostgreSQL: `pq_getmsgend`).
    pub fn end<T>(&self, value: T) -> Result<T> {
        if self.rest.is_empty() { Ok(value) } else { Err(PgError::protocol("invalid message format")) }
    }

    fn need(&self, count: usize) -> Result<()> {
        if self.rest.len() < count { Err(short()) } else { Ok(()) }
    }
}

fn wrong_length() -> PgError {
    PgError::fatal(SqlState::PROTOCOL_VIOLATION, "invalid message length")
}

fn short() -> PgError {
    PgError::protocol("insufficient data left in message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_come_out_whole_however_they_are_cut() {
        let mut wire = BytesMut::new();
        put_frame(&mut wire, b'D', |out| out.extend_from_slice(b"one"));
        put_frame(&mut wire, b'D', |out| out.extend_from_slice(b""));
        put_frame(&mut wire, b'C', |out| out.extend_from_slice(b"SELECT 2\0"));
        for cut in 1..wire.len() {
            let (head, tail) = (wire[..cut].to_vec(), wire[cut..].to_vec());
            let stream = AsyncReadExt::chain(std::io::Cursor::new(head), std::io::Cursor::new(tail));
            let mut reader = FrameReader::new(stream);
            let mut seen = Vec::new();
            while let Some(frame) = reader.next().await.unwrap() {
                seen.push((frame.tag, frame.body.to_vec()));
            }
            assert_eq!(seen, [(b'D', b"one".to_vec()), (b'D', vec![]), (b'C', b"SELECT 2\0".to_vec())]);
        }
    }

    #[tokio::test]
    async fn a_run_stops_before_another_tag() {
        let mut wire = BytesMut::new();
        for _ in 0..3 {
            put_frame(&mut wire, b'D', |out| out.extend_from_slice(b"row"));
        }
        put_frame(&mut wire, b'C', |out| out.extend_from_slice(b"x\0"));
        let mut reader = FrameReader::new(std::io::Cursor::new(wire.to_vec()));
        reader.fill().await.unwrap();
        let (run, count) = reader.take_run(b'D').unwrap().unwrap();
        assert_eq!((run.len(), count), (3 * 8, 3));
        assert_eq!(reader.next().await.unwrap().unwrap().tag, b'C');
    }

    #[tokio::test]
    async fn what_has_not_left_can_be_taken_back() {
        let mut writer = FrameWriter::new(tokio::io::sink());
        writer.buffer().extend_from_slice(b"before");
        let position = writer.position();
        writer.write_through(b"rows").await.unwrap();
        assert!(writer.take_back(position));
        assert_eq!(&writer.buffer()[..], b"before");
        writer.flush().await.unwrap();
        assert!(writer.take_back(position), "nothing behind it was sent");
        writer.write_through(&[b'r'; 10_000]).await.unwrap();
        writer.write_through(b"more").await.unwrap();
        assert!(!writer.take_back(position));
        assert_eq!(&writer.buffer()[..], b"more");
    }

    #[tokio::test]
    async fn an_absurd_length_is_refused() {
        let mut reader = FrameReader::new(&b"D\xff\xff\xff\xff...."[..]);
        assert!(reader.next().await.is_err());
    }
}
