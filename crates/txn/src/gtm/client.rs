//! The coordinator's side of the gtm: one background task keeps the connection and the lease.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use pgerror::{PgError, Result, SqlState};
use pgproto::{FrameReader, FrameWriter};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tracing::{info, warn};

use super::PING_INTERVAL;
use super::message::{Message, PROTOCOL_VERSION};
use crate::deadlock::Sessions;
use crate::deadlock::word::Word;

/// Connecting and being welcomed must be over within this time.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// Pause before the next attempt to connect: doubles from the first to the last.
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// May a cached catalog be used?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CatalogState {
    /// Yes, if it was read under this epoch.
    Valid {
        /// Grows whenever cached catalogs must be dropped.
        epoch: u64,
    },
    /// No: a DDL statement is about to commit. Wait with [`GtmClient::settled`].
    Pending,
    /// Nobody would tell us of a change: the catalog's version must be checked on a datanode for each statement.
    Disconnected,
}

/// A coordinator's connection to the gtm; cheap to clone. It reconnects by itself for as long as a clone lives.
#[derive(Clone)]
pub struct GtmClient {
    shared: Arc<Shared>,
    view: watch::Receiver<View>,
    commands: mpsc::UnboundedSender<Command>,
}

/// The right to commit a DDL statement: no coordinator uses a catalog from before it. Say [`finish`](Self::finish), or drop it,
/// when the transaction has ended, either way.
#[must_use]
pub struct InvalidationGuard {
    request: u64,
    commands: mpsc::UnboundedSender<Command>,
}

struct Shared {
    address: String,
    /// Zero of this client's clock.
    origin: Instant,
    /// End of the lease, in µs since `origin`.
    lease_until_us: AtomicU64,
    next_request: AtomicU64,
    /// For the gtm's questions about deadlocks.
    sessions: OnceLock<Arc<dyn Sessions>>,
}

/// What the background task knows, as of the last message.
#[derive(Clone, Default)]
struct View {
    epoch: u64,
    connected: bool,
    pending: BTreeSet<u64>,
}

enum Command {
    Invalidate { request: u64, ready: oneshot::Sender<Result<()>> },
    Finish { request: u64 },
}

impl GtmClient {
    /// Starts connecting to `addr` ("host:port") in the background, on the current runtime. `name` is for the gtm's log.
    pub fn connect(addr: impl Into<String>, name: impl Into<String>) -> Self {
        let (view_sender, view) = watch::channel(View::default());
        let (commands, inbox) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            address: addr.into(),
            origin: Instant::now(),
            lease_until_us: AtomicU64::new(0),
            next_request: AtomicU64::new(1),
            sessions: OnceLock::new(),
        });
        let task = Task {
            shared: shared.clone(),
            name: name.into(),
            view: view_sender,
            commands: inbox,
            waiting: HashMap::new(),
        };
        tokio::spawn(task.run());
        Self { shared, view, commands }
    }

    /// Says who knows this coordinator's sessions. To be called once; until then it has none as far as the gtm can tell.
    pub fn set_sessions(&self, sessions: Arc<dyn Sessions>) {
        let was_unset = self.shared.sessions.set(sessions).is_ok();
        debug_assert!(was_unset);
    }

    /// Cheap; to be asked before each statement.
    pub fn catalog_state(&self) -> CatalogState {
        let has_lease = self.shared.now_us() < self.shared.lease_until_us.load(Ordering::Acquire);
        let view = self.view.borrow();
        match (view.connected && has_lease, view.pending.is_empty()) {
            (false, _) => CatalogState::Disconnected,
            (true, false) => CatalogState::Pending,
            (true, true) => CatalogState::Valid { epoch: view.epoch },
        }
    }

    /// Waits until the state is not [`CatalogState::Pending`]. Put a limit on it.
    pub async fn settled(&self) {
        let mut view = self.view.clone();
        // An error means that the task has ended, which it does only after the last clone of this client.
        let _ = view.wait_for(|view| !view.connected || view.pending.is_empty()).await;
    }

    /// Waits until the gtm has welcomed this client. Put a limit on it.
    pub async fn connected(&self) {
        let mut view = self.view.clone();
        // As in `settled`: an error cannot come while this client lives.
        let _ = view.wait_for(|view| view.connected).await;
    }

    /// Has every coordinator drop its catalog; to be called by a DDL statement right before its commit, while it
    /// holds the lock on the metadata. Takes up to the lease and half a second if a coordinator does not answer.
    ///
    /// Errors: 57P03 if the gtm is not reachable, or goes away meanwhile.
    pub async fn invalidate_catalogs(&self) -> Result<InvalidationGuard> {
        let request = self.shared.next_request.fetch_add(1, Ordering::Relaxed);
        // Made first, so that a caller that is cancelled while it waits gives the invalidation up.
        let guard = InvalidationGuard { request, commands: self.commands.clone() };
        let (ready, answer) = oneshot::channel();
        let sent = self.commands.send(Command::Invalidate { request, ready });
        sent.map_err(|_| self.shared.unreachable())?;
        answer.await.map_err(|_| self.shared.unreachable())??;
        Ok(guard)
    }
}

impl InvalidationGuard {
    /// The transaction has ended.
    pub fn finish(self) {}
}

impl Drop for InvalidationGuard {
    fn drop(&mut self) {
        let _ = self.commands.send(Command::Finish { request: self.request });
    }
}

impl Shared {
    fn now_us(&self) -> u64 {
        self.origin.elapsed().as_micros() as u64
    }

    fn unreachable(&self) -> PgError {
        let message = format!("the gtm at {} is not reachable", self.address);
        PgError::new(SqlState::CANNOT_CONNECT_NOW, message)
            .detail("Without it the other coordinators cannot be told that the catalog changes.")
            .hint("Start it with `loxo up`, then repeat the statement.")
    }
}

/// The background task.
struct Task {
    shared: Arc<Shared>,
    name: String,
    view: watch::Sender<View>,
    commands: mpsc::UnboundedReceiver<Command>,
    /// Invalidations that have not been answered.
    waiting: HashMap<u64, oneshot::Sender<Result<()>>>,
}

/// The last clone of the client is gone.
struct Over;

/// The connection and what keeps it alive.
struct Link {
    reader: FrameReader,
    writer: FrameWriter,
    lease: Duration,
    last_heard: Instant,
}

impl Task {
    async fn run(mut self) {
        let mut backoff = BACKOFF_MIN;
        loop {
            match timeout(CONNECT_MAX, self.open()).await {
                Ok(Ok(mut link)) => {
                    backoff = BACKOFF_MIN;
                    info!(gtm = self.shared.address, "connected to the gtm");
                    match self.attend(&mut link).await {
                        Ok(Over) => return,
                        Err(error) => warn!(gtm = self.shared.address, %error, "lost the gtm"),
                    }
                    self.disconnect();
                }
                Ok(Err(error)) => warn!(gtm = self.shared.address, %error, "could not connect to the gtm"),
                Err(_) => warn!(gtm = self.shared.address, "the gtm does not answer"),
            }
            if let Some(Over) = self.pause(backoff).await {
                return;
            }
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
    }

    /// Connects and is welcomed.
    async fn open(&mut self) -> Result<Link> {
        let stream = TcpStream::connect(&self.shared.address).await?;
        stream.set_nodelay(true)?;
        let (read, write) = stream.into_split();
        let (reader, writer) = (FrameReader::new(read), FrameWriter::new(write));
        let mut link = Link { reader, writer, lease: Duration::ZERO, last_heard: Instant::now() };
        link.send(Message::Hello { version: PROTOCOL_VERSION, name: self.name.clone() }).await?;
        match link.next().await? {
            Message::Welcome { lease_ms, pending } => {
                link.lease = Duration::from_millis(lease_ms);
                self.view.send_modify(|view| {
                    view.epoch += 1;
                    view.connected = true;
                    view.pending = pending.into_iter().collect();
                });
                Ok(link)
            }
            Message::Refused(text) => Err(PgError::protocol(text)),
            _ => Err(PgError::protocol("the gtm did not say welcome")),
        }
    }

    /// Serves an open connection until it breaks.
    async fn attend(&mut self, link: &mut Link) -> Result<Over> {
        let mut ping = interval(PING_INTERVAL.min(link.lease / 4).max(Duration::from_millis(1)));
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                message = link.next() => self.hear(link, message?).await?,
                command = self.commands.recv() => match command {
                    Some(command) => self.obey(link, command).await?,
                    None => {
                        self.shared.lease_until_us.store(0, Ordering::Release);
                        link.send(Message::Goodbye).await?;
                        return Ok(Over);
                    }
                },
                _ = ping.tick() => {
                    if link.last_heard.elapsed() > link.lease {
                        return Err(PgError::connection("the gtm has not been heard of for the length of a lease"));
                    }
                    link.send(Message::Ping(self.shared.now_us())).await?;
                }
            }
        }
    }

    async fn hear(&mut self, link: &mut Link, message: Message) -> Result<()> {
        match message {
            Message::Pong(sent_us) => {
                let until = sent_us + link.lease.as_micros() as u64;
                self.shared.lease_until_us.fetch_max(until, Ordering::AcqRel);
            }
            Message::Pending(id) => {
                self.view.send_modify(|view| {
                    view.epoch += 1;
                    view.pending.insert(id);
                });
                // Only now: the ack says that no statement sees the old catalog as valid any more.
                link.send(Message::Ack(id)).await?;
            }
            Message::Settled(id) => self.view.send_modify(|view| {
                if view.pending.remove(&id) {
                    view.epoch += 1;
                }
            }),
            Message::Ready(request) => {
                if let Some(ready) = self.waiting.remove(&request) {
                    let _ = ready.send(Ok(()));
                }
            }
            Message::Deadlock(Word::Who { look, backends }) => {
                let owners = self.shared.sessions.get().map(|sessions| sessions.owners(&backends)).unwrap_or_default();
                link.send(Message::Deadlock(Word::Owners { look, owners })).await?;
            }
            Message::Deadlock(Word::Break(verdict)) => {
                if let Some(sessions) = self.shared.sessions.get() {
                    sessions.carry_out(verdict);
                }
            }
            other => return Err(PgError::protocol(format!("the gtm said {other:?}"))),
        }
        Ok(())
    }

    async fn obey(&mut self, link: &mut Link, command: Command) -> Result<()> {
        match command {
            Command::Invalidate { request, ready } => {
                self.waiting.insert(request, ready);
                link.send(Message::Invalidate(request)).await
            }
            Command::Finish { request } => {
                self.waiting.remove(&request);
                link.send(Message::Finish(request)).await
            }
        }
    }

    /// The lease and every cached catalog are given up, and nobody waits in vain.
    fn disconnect(&mut self) {
        self.shared.lease_until_us.store(0, Ordering::Release);
        self.view.send_modify(|view| {
            view.epoch += 1;
            view.connected = false;
            view.pending.clear();
        });
        for (_, ready) in self.waiting.drain() {
            let _ = ready.send(Err(self.shared.unreachable()));
        }
    }

    /// Waits before the next attempt; commands are refused meanwhile.
    async fn pause(&mut self, length: Duration) -> Option<Over> {
        let pause = sleep(length);
        tokio::pin!(pause);
        loop {
            tokio::select! {
                () = &mut pause => return None,
                command = self.commands.recv() => match command {
                    Some(Command::Invalidate { ready, .. }) => {
                        let _ = ready.send(Err(self.shared.unreachable()));
                    }
                    Some(Command::Finish { .. }) => {}
                    None => return Some(Over),
                }
            }
        }
    }
}

impl Link {
    async fn send(&mut self, message: Message) -> Result<()> {
        message.encode(self.writer.buffer());
        let limit = self.lease.max(CONNECT_MAX);
        timeout(limit, self.writer.flush()).await.map_err(|_| PgError::connection("the gtm does not read"))?
    }

    /// The next message. Cancel-safe.
    async fn next(&mut self) -> Result<Message> {
        let frame = self.reader.next().await?.ok_or_else(|| PgError::connection("the gtm closed the connection"))?;
        self.last_heard = Instant::now();
        Message::decode(frame)
    }
}
