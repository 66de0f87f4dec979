//! The gtm's server: a hub task that owns the whole state, and one task per coordinator that moves frames.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use pgerror::{PgError, Result};
use pgproto::{ConnectOptions, FrameReader, FrameWriter};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{info, warn};

use super::deadlock::{self, Answers, Request};
use super::message::{Message, PROTOCOL_VERSION};
use super::{LEASE, MARGIN};
use crate::deadlock::word::Word;
use crate::recovery;

/// A new connection must say Hello within this time.
const HELLO_MAX: Duration = Duration::from_secs(5);
/// Messages that may wait for one coordinator; one that falls further behind is disconnected.
const OUTBOX_MESSAGES_MAX: usize = 256;
/// Messages that may wait for the hub; the connections then stop reading.
const EVENTS_MAX: usize = 1024;

/// What a gtm must know.
#[derive(Clone, Debug)]
pub struct GtmOptions {
    /// The datanodes by node id, with a superuser, for recovery. The database is where `loxo.decision` lives.
    pub datanodes: Vec<ConnectOptions>,
    /// Pause between two passes of recovery.
    pub recovery_interval: Duration,
    /// How long a coordinator may trust its cached catalog without hearing from the gtm. The same on every gtm of a cluster.
    pub lease: Duration,
}

impl GtmOptions {
    /// Recovery every second, leases of 2 s.
    pub fn new(datanodes: Vec<ConnectOptions>) -> Self {
        Self { datanodes, recovery_interval: Duration::from_secs(1), lease: LEASE }
    }
}

/// Serves coordinators, runs recovery and watches for deadlocks, for ever. Dropping the future stops everything it started.
///
/// Errors: only if one of its own tasks panicked.
pub async fn serve(listener: TcpListener, options: GtmOptions) -> Result<()> {
    let (events, inbox) = mpsc::channel(EVENTS_MAX);
    let mut tasks = JoinSet::new();
    tasks.spawn(Hub::new(options.lease).run(inbox));
    tasks.spawn(deadlock::watch(options.datanodes.clone(), events.clone()));
    tasks.spawn(recovery::run(options.datanodes, options.recovery_interval));
    let mut next_client = 0;
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    next_client += 1;
                    tasks.spawn(attend(stream, next_client, events.clone(), options.lease));
                }
                Err(error) => {
                    // Out of file descriptors, most likely: it passes, and accept would fail again at once.
                    warn!(%error, "could not accept a coordinator's connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            Some(ended) = tasks.join_next() => {
                ended.map_err(|error| PgError::internal(format!("a task of the gtm ended: {error}")))?;
            }
        }
    }
}

pub(super) type ClientId = u64;

pub(super) enum Event {
    Joined { client: ClientId, name: String, outbox: mpsc::Sender<Message> },
    Said { client: ClientId, message: Message },
    Left { client: ClientId },
    Deadlock(Request),
}

/// Attends to one connection from its Hello to its end.
async fn attend(stream: TcpStream, client: ClientId, events: mpsc::Sender<Event>, lease: Duration) {
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let (read, write) = stream.into_split();
    let (mut reader, mut writer) = (FrameReader::new(read), FrameWriter::new(write));
    let first = match timeout(HELLO_MAX, reader.next()).await {
        Ok(Ok(Some(frame))) => Message::decode(frame),
        _ => return,
    };
    let name = match first {
        Ok(Message::Hello { version: PROTOCOL_VERSION, name }) => name,
        Ok(Message::Hello { version, .. }) => {
            let text = format!("the gtm speaks version {PROTOCOL_VERSION} of its protocol, the coordinator {version}");
            Message::Refused(text).encode(writer.buffer());
            let _ = timeout(lease, writer.flush()).await;
            return;
        }
        _ => return,
    };
    let (outbox, outgoing) = mpsc::channel(OUTBOX_MESSAGES_MAX);
    if events.send(Event::Joined { client, name, outbox }).await.is_err() {
        return;
    }
    if let Err(error) = carry(&mut reader, &mut writer, client, &events, outgoing, lease).await {
        info!(client, %error, "a coordinator's connection ended");
    }
    let _ = events.send(Event::Left { client }).await;
}

/// Moves messages both ways until either side ends.
async fn carry(
    reader: &mut FrameReader,
    writer: &mut FrameWriter,
    client: ClientId,
    events: &mpsc::Sender<Event>,
    mut outgoing: mpsc::Receiver<Message>,
    lease: Duration,
) -> Result<()> {
    loop {
        tokio::select! {
            frame = reader.next() => {
                let Some(frame) = frame? else { return Ok(()) };
                let message = Message::decode(frame)?;
                if events.send(Event::Said { client, message }).await.is_err() {
                    return Ok(());
                }
            }
            message = outgoing.recv() => {
                // The hub has dropped this client.
                let Some(message) = message else { return Ok(()) };
                message.encode(writer.buffer());
                timeout(lease, writer.flush()).await.map_err(|_| PgError::connection("the coordinator does not read"))??;
            }
        }
    }
}

struct Client {
    name: String,
    outbox: mpsc::Sender<Message>,
    /// When a pong was last sent: its lease ends within `lease` of that.
    last_pong: Instant,
}

/// One DDL statement between its Invalidate and its Finish.
struct Invalidation {
    owner: ClientId,
    request: u64,
    /// Who has not acked yet.
    waiting: HashSet<ClientId>,
    /// Whoever is still waited for then is disconnected.
    deadline: Instant,
    answered: bool,
}

/// All state of the gtm.
struct Hub {
    lease: Duration,
    clients: HashMap<ClientId, Client>,
    invalidations: BTreeMap<u64, Invalidation>,
    next_invalidation: u64,
    /// Until then there may be leases of coordinators that are not connected here.
    strangers_until: Instant,
    /// Where coordinators' answers to the last question about sessions go.
    owners: Option<Answers>,
}

impl Hub {
    fn new(lease: Duration) -> Self {
        Self {
            lease,
            clients: HashMap::new(),
            invalidations: BTreeMap::new(),
            next_invalidation: 1,
            // An earlier gtm, now dead, may have given leases until just now.
            strangers_until: Instant::now() + lease + MARGIN,
            owners: None,
        }
    }

    async fn run(mut self, mut inbox: mpsc::Receiver<Event>) {
        loop {
            let wake = self.next_deadline();
            tokio::select! {
                event = inbox.recv() => match event {
                    Some(event) => self.handle(event),
                    None => return,
                },
                () = async { sleep_until(wake.unwrap_or_else(Instant::now)).await }, if wake.is_some() => {}
            }
            self.drop_stuck();
            self.answer_ready();
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Joined { client, name, outbox } => self.join(client, name, outbox),
            Event::Said { client, message } => self.hear(client, message),
            Event::Left { client } => self.leave(client, false),
            Event::Deadlock(Request::Tell { client, word }) => self.tell(client, Message::Deadlock(word)),
            Event::Deadlock(Request::Ask { word, told, answers }) => {
                let clients: Vec<ClientId> = self.clients.keys().copied().collect();
                self.owners = Some(answers);
                clients.iter().for_each(|client| self.tell(*client, Message::Deadlock(word.clone())));
                // Fails only if the gtm is ending.
                let _ = told.send(clients);
            }
        }
    }

    fn join(&mut self, client: ClientId, name: String, outbox: mpsc::Sender<Message>) {
        info!(client, name, "a coordinator has connected");
        self.clients.insert(client, Client { name, outbox, last_pong: Instant::now() });
        let pending = self.invalidations.keys().copied().collect();
        self.tell(client, Message::Welcome { lease_ms: self.lease.as_millis() as u64, pending });
    }

    fn hear(&mut self, client: ClientId, message: Message) {
        let Some(known) = self.clients.get_mut(&client) else { return };
        match message {
            Message::Ping(clock) => {
                known.last_pong = Instant::now();
                self.tell(client, Message::Pong(clock));
            }
            Message::Invalidate(request) => self.invalidate(client, request),
            Message::Ack(id) => {
                if let Some(invalidation) = self.invalidations.get_mut(&id) {
                    invalidation.waiting.remove(&client);
                }
            }
            Message::Finish(request) => self.settle(|i| i.owner == client && i.request == request),
            Message::Deadlock(Word::Owners { look, owners }) => {
                // Nobody waits for an answer that comes too late.
                let _ = self.owners.as_ref().map(|answers| answers.send((client, look, owners)));
            }
            Message::Goodbye => self.leave(client, true),
            other => {
                warn!(client, message = ?other, "a coordinator said what only a gtm says");
                self.leave(client, false);
            }
        }
    }

    fn invalidate(&mut self, owner: ClientId, request: u64) {
        let id = self.next_invalidation;
        self.next_invalidation += 1;
        let waiting: HashSet<ClientId> = self.clients.keys().copied().collect();
        let deadline = Instant::now() + self.lease + MARGIN;
        // Entered before anyone is told: a client that is dropped while being told is then no longer waited for.
        self.invalidations
            .insert(id, Invalidation { owner, request, waiting: waiting.clone(), deadline, answered: false });
        waiting.into_iter().for_each(|client| self.tell(client, Message::Pending(id)));
    }

    /// Ends the invalidations chosen and tells everyone.
    fn settle(&mut self, chosen: impl Fn(&Invalidation) -> bool) {
        let ids: Vec<u64> = self.invalidations.iter().filter(|(_, i)| chosen(i)).map(|(id, _)| *id).collect();
        for id in ids {
            self.invalidations.remove(&id);
            let clients: Vec<ClientId> = self.clients.keys().copied().collect();
            clients.into_iter().for_each(|client| self.tell(client, Message::Settled(id)));
        }
    }

    /// `in_good_order`: it has given its lease back.
    fn leave(&mut self, client: ClientId, in_good_order: bool) {
        let Some(gone) = self.clients.remove(&client) else { return };
        info!(client, name = gone.name, in_good_order, "a coordinator has left");
        if !in_good_order {
            self.strangers_until = self.strangers_until.max(gone.last_pong + self.lease + MARGIN);
        }
        self.invalidations.values_mut().for_each(|i| {
            i.waiting.remove(&client);
        });
        self.settle(|i| i.owner == client);
    }

    fn drop_stuck(&mut self) {
        let now = Instant::now();
        let late = self.invalidations.values().filter(|i| i.deadline <= now).flat_map(|i| i.waiting.iter().copied());
        for client in late.collect::<HashSet<_>>() {
            warn!(client, "a coordinator does not answer and is disconnected");
            self.leave(client, false);
        }
    }

    fn answer_ready(&mut self) {
        if Instant::now() < self.strangers_until {
            return;
        }
        let mut ready = Vec::new();
        for invalidation in self.invalidations.values_mut().filter(|i| !i.answered && i.waiting.is_empty()) {
            invalidation.answered = true;
            ready.push((invalidation.owner, invalidation.request));
        }
        ready.into_iter().for_each(|(owner, request)| self.tell(owner, Message::Ready(request)));
    }

    /// When something happens without any message.
    fn next_deadline(&self) -> Option<Instant> {
        let unanswered = self.invalidations.values().filter(|i| !i.answered);
        unanswered.map(|i| if i.waiting.is_empty() { self.strangers_until } else { i.deadline }).min()
    }

    /// Queues a message; a client with a full queue is dropped.
    fn tell(&mut self, client: ClientId, message: Message) {
        let Some(known) = self.clients.get(&client) else { return };
        if known.outbox.try_send(message).is_err() {
            self.leave(client, false);
        }
    }
}
