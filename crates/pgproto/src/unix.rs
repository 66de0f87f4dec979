//! A Unix socket that is watched only for what is waited for.
//!
//! Each time the peer takes something out of a Unix socket, the kernel tells every process that has asked for room in it, even if
//! there was room all along (TCP does not). A stream of tokio's has always asked: with short statements a datanode's reading each
//! of them woke this process once more, for nothing, which is as much work as to pass an answer on. So here the reading half asks
//! for bytes only, and the writing half for room only while there is none.

use std::io::{self, ErrorKind, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;
use tokio::net::unix::pipe;

/// The reading half. Nothing in it is particular to pipes: it reads from a descriptor that it has watched for bytes, and nothing
/// else.
pub(crate) type Reading = pipe::Receiver;

/// The writing half.
pub(crate) struct Writing {
    stream: UnixStream,
    /// While there is no room: the same, watched for it.
    full: Option<pipe::Sender>,
}

/// Both halves of a stream that does not block. It is closed when both are dropped.
pub(crate) fn split(stream: UnixStream) -> io::Result<(Reading, Writing)> {
    let reading = pipe::Receiver::from_owned_fd_unchecked(OwnedFd::from(stream.try_clone()?))?;
    Ok((reading, Writing { stream, full: None }))
}

impl AsyncWrite for Writing {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            if let Some(full) = &mut self.full {
                let written = ready!(Pin::new(full).poll_write(context, bytes));
                self.full = None;
                return Poll::Ready(written);
            }
            match self.stream.write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.full = Some(pipe::Sender::from_owned_fd_unchecked(OwnedFd::from(self.stream.try_clone()?))?);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.stream.shutdown(Shutdown::Write))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn pair() -> ((Reading, Writing), (Reading, Writing)) {
        let (one, other) = UnixStream::pair().expect("a pair");
        let halves = |stream: UnixStream| {
            stream.set_nonblocking(true).expect("a mode");
            split(stream).expect("two halves")
        };
        (halves(one), halves(other))
    }

    #[tokio::test]
    async fn more_than_there_is_room_for_arrives_whole_and_in_order() {
        let ((_reading, mut writing), (mut reading, _writing)) = pair();
        let sent: Vec<u8> = (0..4_000_000_u32).map(|n| (n % 251) as u8).collect();
        let expected = sent.clone();
        let send = async move {
            writing.write_all(&sent).await.expect("room");
            assert!(writing.full.is_none(), "nobody asks for room that is there");
        };
        let mut received = vec![0; expected.len()];
        let (_, read) = tokio::join!(send, reading.read_exact(&mut received));
        read.expect("all bytes");
        assert!(received == expected);
    }

    #[tokio::test]
    async fn the_end_of_both_halves_is_the_end_of_the_stream() {
        let (near, (mut reading, mut writing)) = pair();
        drop(near);
        assert_eq!(reading.read(&mut [0; 8]).await.expect("an end"), 0);
        let error = writing.write_all(b"late").await.expect_err("nobody reads");
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    }
}
