//! The coordinator's side of the gtm: one background task keeps the connection and the lease, and shuts the gate when it is told to.
//!
//! Invariants: the lease is given up before the socket is closed, so the gtm that sees the end of the connection knows that
//! there is none; a gate that was said to be shut stays so for [`HOLD`] whatever becomes of the connection.

use std::borrow::Borrow;
use std::collections::{BTreeSet, HashMap};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use pgerror::{PgError, Result, SqlState};
use pgproto::tls::Mutual;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout_at};
use tracing::{debug, info, warn};

use super::PING_INTERVAL;
use super::command::{Answer, Command, Replies};
use super::message::Message;
use super::questions::QUESTIONS_MAX;
use super::welcome::{Link, Welcome, find_leader};
use crate::clock;
use crate::control_point;
use crate::datanodes::{Database, Datanodes};
use crate::deadlock::Sessions;
use crate::deadlock::word::Word;
use crate::gate::{Core, Exposed, Gate, HOLD, Pass, Seal};
use crate::marks;

/// Pause after all addresses were tried in vain: doubles from the first to the last.
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_millis(500);

/// May a cached catalog be used?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CatalogState {
    /// Yes, if it was read under this epoch.
    Valid {
        /// Grows whenever cached catalogs must be dropped.
        epoch: u64,
    },
    /// No: a DDL statement is about to commit. Wait with [`GtmClient::schema_changes_resolved`].
    Pending,
    /// Nobody would tell us of a change: the catalog's version must be checked on a datanode for each statement.
    Disconnected,
}

/// A coordinator's connection to the gtm; cheap to clone. It reconnects by itself for as long as a clone lives.
#[derive(Clone)]
pub struct GtmClient {
    pub(super) shared: Arc<Shared>,
    view: watch::Receiver<View>,
    pub(super) commands: mpsc::UnboundedSender<Command>,
    gate: Gate,
}

/// The right to commit a DDL statement: no coordinator uses a catalog from before it. Say [`finish`](Self::finish), or drop it,
/// when the transaction has ended, either way.
#[must_use]
pub struct InvalidationGuard {
    request: u64,
    commands: mpsc::UnboundedSender<Command>,
}

/// Addresses of all gtms, "host:port", in their order.
type Addresses = Arc<RwLock<Arc<[String]>>>;

pub(super) struct Shared {
    addresses: Addresses,
    /// How many of them are the configuration's.
    configured: usize,
    /// In which it serves; empty for the cluster's first one.
    pub(super) database: Database,
    /// The certificate to show; without one connections are not encrypted.
    pub(super) secured: Option<Mutual>,
    /// End of the lease, in µs of [`clock`].
    pub(super) lease_until_us: AtomicU64,
    pub(super) next_request: AtomicU64,
    /// Questions to all coordinators, whose answers may be long, take turns: what a gtm has to say besides is not to wait for them.
    pub(super) questions: Semaphore,
    /// For those of logins, which keep nobody from looking at sessions and ending them.
    pub(super) logins: Semaphore,
    /// For the gtm's questions about deadlocks.
    sessions: OnceLock<Arc<dyn Sessions>>,
}

/// What the background task knows, as of the last message.
#[derive(Clone, Default)]
struct View {
    epoch: u64,
    connected: bool,
    pending: BTreeSet<u64>,
    /// The newest that a gtm has told, be it connected or not; 0 for none.
    generation: u64,
}

impl GtmClient {
    /// Starts connecting in the background, on the current runtime, to whichever gtm of `addresses` ("host:port") leads. `name` is
    /// for the gtm's log. Not encrypted: for gtms of this machine. In the cluster's first database.
    pub fn connect(addresses: Vec<String>, name: impl Into<String>) -> Self {
        Self::connect_secured(addresses, name, None)
    }

    /// [`Self::connect`] with a certificate of the cluster, which gtms of other machines ask for.
    pub fn connect_secured(addresses: Vec<String>, name: impl Into<String>, secured: Option<Mutual>) -> Self {
        let (configured, addresses) = (addresses.len(), Arc::new(RwLock::new(addresses.into())));
        Self::connect_for(addresses, configured, name.into(), Database::default(), secured)
    }

    /// Another connection to the same gtms, in another database. What this client comes to know of them that one does too.
    #[must_use]
    pub fn in_database(&self, name: impl Into<String>, database: Database) -> Self {
        let Shared { addresses, configured, secured, .. } = &*self.shared;
        Self::connect_for(addresses.clone(), *configured, name.into(), database, secured.clone())
    }

    fn connect_for(
        addresses: Addresses,
        configured: usize,
        name: String,
        database: Database,
        secured: Option<Mutual>,
    ) -> Self {
        let (view_sender, view) = watch::channel(View::default());
        let (commands, inbox) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            configured,
            database,
            secured,
            addresses,
            lease_until_us: AtomicU64::new(0),
            next_request: AtomicU64::new(1),
            questions: Semaphore::new(QUESTIONS_MAX),
            logins: Semaphore::new(QUESTIONS_MAX),
            sessions: OnceLock::new(),
        });
        let core = Arc::<Core>::default();
        let task = Task {
            shared: shared.clone(),
            name,
            view: view_sender,
            commands: inbox,
            waiting: HashMap::new(),
            snapshots: HashMap::new(),
            questions: HashMap::new(),
            core: core.clone(),
            closing: None,
        };
        tokio::spawn(task.run());
        Self { shared, view, gate: Gate::new(core, commands.clone()), commands }
    }

    /// The cluster's metadata note these gtms, in their order. Where those of the configuration are that knows better.
    pub fn know(&self, noted: impl Iterator<Item = String>) {
        let configured = self.shared.configured;
        let known = self.shared.addresses();
        let now: Vec<String> = known.iter().take(configured).cloned().chain(noted.skip(configured)).collect();
        if *now != *known {
            *self.shared.addresses.write().unwrap_or_else(PoisonError::into_inner) = now.into();
        }
    }

    /// Every commit that publishes rows passes the gate: to be called right before the message that commits, with the nodes that
    /// have written. Waits while a barrier is on, a second at most.
    ///
    /// # Errors
    /// When one of them has to be marked ([`crate::marks`]) and cannot. `nodes`: how they are all reached; asked only then.
    pub async fn enter<N>(&self, writers: &[u16], nodes: impl Fn() -> N) -> Result<Pass>
    where
        N: Borrow<Datanodes>,
    {
        loop {
            if let Some((barrier, unmarked)) = self.unmarked(writers) {
                self.mark(barrier, &unmarked, nodes().borrow()).await?;
            }
            let pass = self.gate.enter().await;
            // The gate may have been opened too early just now.
            if self.unmarked(writers).is_none_or(|(_, unmarked)| unmarked.is_empty()) {
                return Ok(pass);
            }
        }
    }

    fn unmarked(&self, nodes: &[u16]) -> Option<(u64, Vec<u16>)> {
        self.gate.unmarked(self.known_generation(), nodes)
    }

    async fn mark(&self, barrier: u64, unmarked: &[u16], nodes: &Datanodes) -> Result<()> {
        for number in unmarked {
            let node = nodes.get(*number).ok_or_else(|| PgError::internal("an unknown datanode"))?;
            marks::mark(node, barrier).await?;
            self.gate.is_marked(barrier, *number);
        }
        Ok(())
    }

    /// Does a gtm count on this coordinator's gate? If not, a commit on a single node, too, must make sure that it is not fenced
    /// out, as [`commit`](crate::commit()) does.
    pub fn has_lease(&self) -> bool {
        self.shared.now_us() < self.shared.lease_until_us.load(Ordering::Acquire)
    }

    /// The newest generation that a gtm has told; 0 for none. Every datanode had it by then.
    pub fn known_generation(&self) -> u64 {
        self.view.borrow().generation
    }

    /// The generation under which this coordinator may decide, once it is above `known`; 57P03 if none is told in time.
    pub(crate) async fn generation_above(&self, known: u64, deadline: tokio::time::Instant) -> Result<u64> {
        let mut view = self.view.clone();
        match timeout_at(deadline, view.wait_for(|view| view.generation > known)).await {
            Ok(Ok(view)) => Ok(view.generation),
            _ => Err(self.shared.unreachable("Without it this coordinator may not decide transactions any more.")),
        }
    }

    /// Gives the client what knows this coordinator's sessions. To be called once; until then it has none as far as the gtm can
    /// tell.
    pub fn set_sessions(&self, sessions: Arc<dyn Sessions>) {
        let was_unset = self.shared.sessions.set(sessions).is_ok();
        debug_assert!(was_unset);
    }

    /// Cheap; to be asked before each statement.
    pub fn catalog_state(&self) -> CatalogState {
        let has_lease = self.has_lease();
        let view = self.view.borrow();
        match (view.connected && has_lease, view.pending.is_empty()) {
            (false, _) => CatalogState::Disconnected,
            (true, false) => CatalogState::Pending,
            (true, true) => CatalogState::Valid { epoch: view.epoch },
        }
    }

    /// Waits until the state is not [`CatalogState::Pending`]. Put a limit on it.
    pub async fn schema_changes_resolved(&self) {
        let mut view = self.view.clone();
        // An error means that the task has ended, which it does only after the last clone of this client.
        let _ = view.wait_for(|view| !view.connected || view.pending.is_empty()).await;
    }

    /// Waits until the gtm has welcomed this client. Put a limit on it.
    pub async fn connected(&self) {
        let mut view = self.view.clone();
        // As in `schema_changes_resolved`: an error cannot come while this client lives.
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
        sent.map_err(|_| self.shared.no_invalidation())?;
        answer.await.map_err(|_| self.shared.no_invalidation())??;
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
    pub(super) fn addresses(&self) -> Arc<[String]> {
        self.addresses.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn now_us(&self) -> u64 {
        clock::now().as_micros() as u64
    }

    /// 57P03; `why` says what cannot be done.
    pub(super) fn unreachable(&self, why: &str) -> PgError {
        let message = format!("the gtm at {} is not reachable", self.addresses().join(", "));
        PgError::new(SqlState::CANNOT_CONNECT_NOW, message)
            .detail(why.to_owned())
            .hint("Start it with `loxo up`, then repeat the statement.")
    }

    fn no_invalidation(&self) -> PgError {
        self.unreachable("Without it the other coordinators cannot be told that the catalog changes.")
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
    /// Requests for global snapshots that have not been answered.
    snapshots: HashMap<u64, oneshot::Sender<Answer>>,
    /// Questions to all coordinators that have not been answered.
    questions: HashMap<u64, oneshot::Sender<Replies>>,
    core: Arc<Core>,
    closing: Option<Closing>,
}

/// The barrier that this connection's gtm has on.
struct Closing {
    number: u64,
    seal: Seal,
    /// Until Closed is said.
    drained: Option<Pin<Box<dyn Future<Output = Vec<Exposed>> + Send>>>,
}

/// The last clone of the client is gone.
struct Over;

impl Task {
    async fn run(mut self) {
        let (mut backoff, mut told) = (BACKOFF_MIN, String::new());
        loop {
            let shared = self.shared.clone();
            let found = find_leader(&shared, &self.name).await;
            let trouble = match found {
                Ok(welcome) => {
                    backoff = BACKOFF_MIN;
                    let Welcome { mut link, pending, address } = welcome;
                    info!(gtm = %address, "connected to the gtm");
                    self.connected(pending);
                    let ended = self.attend(&mut link).await;
                    self.disconnect();
                    drop(link);
                    match ended {
                        Ok(Over) => return,
                        Err(error) => format!("lost the gtm at {address}: {}", error.message()),
                    }
                }
                Err(error) => error.message().into_owned(),
            };
            if trouble == told {
                debug!("{trouble}");
            } else {
                warn!("{trouble}");
                told = trouble;
            }
            if let Some(Over) = self.pause(backoff).await {
                return;
            }
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
    }

    fn connected(&self, pending: Vec<u64>) {
        self.view.send_modify(|view| {
            view.epoch += 1;
            view.connected = true;
            view.pending = pending.into_iter().collect();
        });
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
                overdue = drained(&mut self.closing) => self.closed(link, overdue).await?,
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
            Message::Resolved(id) => self.view.send_modify(|view| {
                if view.pending.remove(&id) {
                    view.epoch += 1;
                }
            }),
            Message::Ready(request) => {
                if let Some(ready) = self.waiting.remove(&request) {
                    let _ = ready.send(Ok(()));
                }
            }
            Message::Generation(generation) => {
                self.view.send_modify(|view| view.generation = generation);
                // There may be a lease from now on.
                link.send(Message::Ping(self.shared.now_us())).await?;
            }
            Message::Alive => {}
            Message::Close(number) => {
                let (core, seal) = (self.core.clone(), self.core.shut());
                let drained = Box::pin(async move { core.drained().await });
                self.closing = Some(Closing { number, seal, drained: Some(drained) });
            }
            Message::Open(number) => {
                if let Some(closing) = self.closing.take_if(|closing| closing.number == number) {
                    self.core.open(closing.seal, None);
                }
            }
            Message::OpenAjar(number) => {
                if let Some(closing) = self.closing.take_if(|closing| closing.number == number) {
                    self.core.open(closing.seal, Some(number));
                }
            }
            Message::Granted { request, generation, barrier, unresolved } => {
                self.answer_snapshot(request, Answer::Granted { generation, barrier, unresolved });
            }
            Message::SnapshotFailed(request) => self.answer_snapshot(request, Answer::Failed),
            Message::Deadlock(Word::Who { look, backends }) => {
                let owners = self.shared.sessions.get().map(|sessions| sessions.owners(&backends)).unwrap_or_default();
                link.send(Message::Deadlock(Word::Owners { look, owners })).await?;
            }
            Message::Asked { id, question } => {
                let answer = self.shared.sessions.get().map(|sessions| sessions.answer(&question)).unwrap_or_default();
                link.send(Message::Reply { id, answer }).await?;
            }
            Message::Replies { request, silent, answers } => {
                if let Some(waiting) = self.questions.remove(&request) {
                    // Sending fails if the asker has given up waiting, which is no error.
                    let _ = waiting.send((answers, silent));
                }
            }
            Message::Deadlock(Word::Break(chosen)) => {
                if let Some(sessions) = self.shared.sessions.get() {
                    sessions.carry_out(chosen);
                }
            }
            other => return Err(PgError::protocol(format!("the gtm said {other:?}"))),
        }
        Ok(())
    }

    fn answer_snapshot(&mut self, request: u64, answer: Answer) {
        if let Some(waiting) = self.snapshots.remove(&request) {
            // Sending fails if the session has given up; its guard has sent `Taken` then.
            let _ = waiting.send(answer);
        }
    }

    /// The gate is shut and drained, but for transactions that take too long.
    async fn closed(&mut self, link: &mut Link, overdue: Vec<Exposed>) -> Result<()> {
        control_point!("gate-drained");
        // Reports of those that have left were queued before they left.
        while let Ok(command) = self.commands.try_recv() {
            self.obey(link, command).await?;
        }
        for exposed in overdue {
            link.send(Message::Unresolved(exposed)).await?;
        }
        let Some(Closing { number, seal, .. }) = self.closing else { return Ok(()) };
        let core = self.core.clone();
        tokio::spawn(async move {
            sleep(HOLD).await;
            core.open(seal, Some(number));
        });
        link.send(Message::Closed(number)).await?;
        control_point!("closed-sent");
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
            Command::Snapshot { request, answer } => {
                self.snapshots.insert(request, answer);
                link.send(Message::SnapshotRequest(request)).await
            }
            Command::Taken { request } => {
                self.snapshots.remove(&request);
                link.send(Message::Taken(request)).await
            }
            Command::Unresolved(exposed) => link.send(Message::Unresolved(exposed)).await,
            Command::Ask { request, question, replies } => {
                self.questions.insert(request, replies);
                link.send(Message::Ask { request, question }).await
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
            let _ = ready.send(Err(self.shared.no_invalidation()));
        }
        self.snapshots.clear();
        self.questions.clear();
        // What was said to be shut stays shut until its time is over; what was not may open.
        if let Some(Closing { seal, drained: Some(_), .. }) = self.closing.take() {
            self.core.open(seal, None);
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
                        let _ = ready.send(Err(self.shared.no_invalidation()));
                    }
                    // A gtm that loses us, or begins to lead, looks for unresolved transactions by itself; a request for a global snapshot
                    // learns by the drop of its sender that there is no gtm, and so does a question.
                    Some(Command::Ask { .. } | Command::Finish { .. } | Command::Snapshot { .. } | Command::Taken { .. } | Command::Unresolved(_)) => {}
                    None => return Some(Over),
                }
            }
        }
    }
}

/// Comes when the barrier's gate is drained. Cancel-safe.
async fn drained(closing: &mut Option<Closing>) -> Vec<Exposed> {
    let Some(Closing { drained: slot @ Some(_), .. }) = closing else { return std::future::pending().await };
    let overdue = match slot {
        Some(drained) => drained.await,
        None => Vec::new(),
    };
    *slot = None;
    overdue
}
