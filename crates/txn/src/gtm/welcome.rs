//! How a coordinator finds the gtm that leads, and the connection to it. With certificates of the cluster both sides show theirs before
//! anything is said; a client without one is never heard.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::future::select_ok;
use pgerror::{PgError, Result};
use pgproto::tls::Mutual;
use pgproto::{FrameReader, FrameWriter};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::client::Shared;
use super::message::{Message, PROTOCOL_VERSION, Role};

/// Connecting and being welcomed must be over within this time.
const CONNECT_MAX: Duration = Duration::from_secs(2);

/// Does the gtm at this address ("host:port") lead? An error if there is none.
pub async fn leads(address: &str) -> Result<bool> {
    role(address, None).await.map(|role| role.leads)
}

/// What the gtm at this address tells of itself to one who has this certificate.
pub async fn role(address: &str, secured: Option<&Mutual>) -> Result<Role> {
    let ask = async {
        let (mut reader, mut writer) = connect(address, secured).await?;
        Message::AskRole.encode(writer.buffer());
        writer.flush().await?;
        match reader.next().await?.map(Message::decode) {
            Some(Ok(Message::Role(role))) => Ok(role),
            _ => Err(PgError::protocol(format!("there is no gtm of this version at {address}"))),
        }
    };
    let silent = |_| PgError::connection(format!("the gtm at {address} does not answer"));
    timeout(CONNECT_MAX, ask).await.map_err(silent)?
}

/// The connection and what keeps it alive.
pub(super) struct Link {
    pub(super) shared: Arc<Shared>,
    reader: FrameReader,
    writer: FrameWriter,
    pub(super) lease: Duration,
    pub(super) last_heard: Instant,
}

impl Drop for Link {
    fn drop(&mut self) {
        // Before the socket is closed, however that comes about.
        self.shared.lease_until_us.store(0, Ordering::Release);
    }
}

/// A gtm that leads.
pub(super) struct Welcome {
    pub(super) link: Link,
    pub(super) pending: Vec<u64>,
    pub(super) address: String,
}

/// Asks all gtms at once: one that stands still must not hold up the way to the one that leads.
pub(super) async fn find_leader(shared: &Arc<Shared>, name: &str) -> Result<Welcome> {
    let addresses = shared.addresses();
    if addresses.is_empty() {
        return Err(PgError::connection("no gtm is configured"));
    }
    let attempts = addresses.iter().map(|address| Box::pin(open(shared, address, name)));
    select_ok(attempts).await.map(|(welcome, _)| welcome)
}

/// Connects and is welcomed, within [`CONNECT_MAX`].
async fn open(shared: &Arc<Shared>, address: &str, name: &str) -> Result<Welcome> {
    let attempt = async {
        let (reader, writer) = connect(address, shared.secured.as_ref()).await?;
        let mut link =
            Link { shared: shared.clone(), reader, writer, lease: Duration::ZERO, last_heard: Instant::now() };
        link.send(Message::Hello {
            version: PROTOCOL_VERSION,
            name: name.to_owned(),
            database: shared.database.clone(),
        })
        .await?;
        match link.next().await? {
            Message::Welcome { lease_ms, pending } => {
                link.lease = Duration::from_millis(lease_ms);
                Ok(Welcome { link, pending, address: address.to_owned() })
            }
            Message::Standby => Err(PgError::protocol("it stands by for another gtm")),
            Message::Refused(text) => Err(PgError::protocol(text)),
            _ => Err(PgError::protocol("the gtm did not say welcome")),
        }
    };
    let error = match timeout(CONNECT_MAX, attempt).await {
        Ok(Ok(welcome)) => return Ok(welcome),
        Ok(Err(error)) => format!("could not connect to the gtm at {address}: {}", error.message()),
        Err(_) => format!("the gtm at {address} does not answer"),
    };
    Err(PgError::connection(error))
}

impl Link {
    pub(super) async fn send(&mut self, message: Message) -> Result<()> {
        message.encode(self.writer.buffer());
        let limit = self.lease.max(CONNECT_MAX);
        timeout(limit, self.writer.flush()).await.map_err(|_| PgError::connection("the gtm does not read"))?
    }

    /// The next message. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Message> {
        let frame = self.reader.next().await?.ok_or_else(|| PgError::connection("the gtm closed the connection"))?;
        self.last_heard = Instant::now();
        Message::decode(frame)
    }
}

/// To a gtm at "host:port".
async fn connect(address: &str, secured: Option<&Mutual>) -> Result<(FrameReader, FrameWriter)> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    match secured {
        Some(mutual) => Ok(mutual.connect(stream).await?),
        None => Ok(plain(stream)),
    }
}

/// The connection of a client.
pub(super) async fn accept(stream: TcpStream, secured: Option<&Mutual>) -> Result<(FrameReader, FrameWriter)> {
    stream.set_nodelay(true)?;
    match secured {
        Some(mutual) => Ok(mutual.accept(stream).await?),
        None => Ok(plain(stream)),
    }
}

fn plain(stream: TcpStream) -> (FrameReader, FrameWriter) {
    let (read, write) = stream.into_split();
    (FrameReader::new(read), FrameWriter::new(write))
}
