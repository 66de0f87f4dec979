//! A relay in front of a server that counts what is asked through it.
//!
//! Invariant: it never changes what goes through, nor its order.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use pgerror::Result;

/// A relay; its threads end with the test's process.
#[derive(Debug)]
pub struct Relay {
    port: u16,
    requests: Arc<AtomicU64>,
}

impl Relay {
    /// In front of a server on a port of this machine. Queries with the text `besides` in them are not counted: a process asks them
    /// from time to time, whatever its clients do. Nor are the first `opening` requests of each connection: a pool opens one when all
    /// others are in use, also for such a query.
    ///
    /// # Errors
    /// When no port is free.
    pub fn start(to: u16, besides: &'static str, opening: u64) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let relay = Self { port: listener.local_addr()?.port(), requests: Arc::default() };
        let requests = relay.requests.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let requests = requests.clone();
                thread::spawn(move || connect(client, to, Messages::new(besides, opening), &requests));
            }
        });
        Ok(relay)
    }

    /// Its own port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Messages so far that an answer is due to: Query, Sync, Flush, FunctionCall.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }
}

/// Both directions of a connection, until it ends.
fn connect(client: TcpStream, to: u16, mut messages: Messages, requests: &AtomicU64) -> std::io::Result<()> {
    let server = TcpStream::connect(("127.0.0.1", to))?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
    }
    let back = (server.try_clone()?, client.try_clone()?);
    thread::spawn(move || pass(back.0, back.1, |_| ()));
    pass(client, server, |bytes| messages.take(bytes, requests));
    Ok(())
}

fn pass(mut from: TcpStream, mut to: TcpStream, mut see: impl FnMut(&[u8])) {
    let mut buffer = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        see(&buffer[..count]);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

/// The messages of a client, cut anywhere.
struct Messages {
    besides: &'static str,
    /// How many requests of this connection still belong to its opening.
    opening: u64,
    is_started: bool,
    head: Vec<u8>,
    body: Vec<u8>,
    /// Bytes of the message's body still to come.
    rest: usize,
}

impl Messages {
    fn new(besides: &'static str, opening: u64) -> Self {
        Self { besides, opening, is_started: false, head: Vec::new(), body: Vec::new(), rest: 0 }
    }

    fn take(&mut self, mut bytes: &[u8], requests: &AtomicU64) {
        /// Code of a startup packet of protocol 3; others ask for encryption, or to cancel.
        const PROTOCOL_3: [u8; 2] = [0, 3];
        while !bytes.is_empty() {
            // Tag and length; before the startup packet is through, length and code without a tag.
            let head_bytes = if self.is_started { 5 } else { 8 };
            if self.head.len() < head_bytes {
                let taken = (head_bytes - self.head.len()).min(bytes.len());
                self.head.extend_from_slice(&bytes[..taken]);
                bytes = &bytes[taken..];
                if self.head.len() < head_bytes {
                    return;
                }
                let tag_bytes = usize::from(self.is_started);
                let length = self.head[tag_bytes..].iter().take(4).fold(0, |sum, byte| sum << 8 | usize::from(*byte));
                self.rest = (tag_bytes + length).saturating_sub(head_bytes);
            }
            let taken = self.rest.min(bytes.len());
            self.rest -= taken;
            self.body.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if self.rest == 0 {
                if self.is_started && matches!(self.head[0], b'Q' | b'S' | b'H' | b'F') {
                    match self.opening {
                        0 if self.is_besides() => {}
                        0 => _ = requests.fetch_add(1, Ordering::SeqCst),
                        _ => self.opening -= 1,
                    }
                }
                self.is_started |= self.head[4..].starts_with(&PROTOCOL_3);
                self.head.clear();
                self.body.clear();
            }
        }
    }

    fn is_besides(&self) -> bool {
        !self.besides.is_empty() && self.body.windows(self.besides.len()).any(|text| text == self.besides.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_however_the_bytes_are_cut() {
        let mut bytes = b"\0\0\0\x08\x04\xd2\x16\x2f\0\0\0\x0e\0\x03\0\0user\0\0".to_vec();
        bytes.extend(b"Q\0\0\0\x0bSELECT\0P\0\0\0\x08SSS\0S\0\0\0\x04H\0\0\0\x04X\0\0\0\x04");
        for length in 1..bytes.len() {
            for (besides, opening, expected) in [("", 0, 3), ("LEC", 0, 2), ("SSS", 0, 3), ("", 2, 1), ("LEC", 1, 2)] {
                let (mut messages, requests) = (Messages::new(besides, opening), AtomicU64::new(0));
                bytes.chunks(length).for_each(|chunk| messages.take(chunk, &requests));
                assert_eq!(
                    requests.into_inner(),
                    expected,
                    "pieces of {length} bytes, besides {besides:?}, opening {opening}"
                );
            }
        }
    }
}
