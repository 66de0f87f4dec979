//! The gtm's server: one task that stands by or leads, and one per coordinator that moves frames. While it leads, a hub owns the
//! whole state of coordinators, catalogs and global snapshots; the upkeep ([`super::upkeep`]) sees to the datanodes.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pgerror::{PgError, Result};
use pgproto::frame::FRAME_BYTES_MAX;
use pgproto::tls::Mutual;
use pgproto::{FrameReader, FrameWriter};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{info, warn};

use super::databases::Databases;
use super::deadlock::{self, Answers, Request};
use super::event::{ClientId, End, Event};
use super::global_snapshots::{GlobalSnapshots, Order, Step};
use super::leader::Leadership;
use super::message::{self, Message, PROTOCOL_VERSION};
use super::questions::Questions;
use super::{LEASE, MARGIN, upkeep, welcome};
use crate::control_point;
use crate::datanodes::Datanodes;
use crate::deadlock::word::Word;
use crate::figures;
use crate::identity::Roster;
use crate::members::Members;
use crate::recovery;

/// A new connection must say Hello within this time.
const HELLO_MAX: Duration = Duration::from_secs(5);
/// Longest first message.
const HELLO_BYTES_MAX: usize = 1024;
/// Messages that may wait for one coordinator; one that falls further behind is disconnected.
const OUTBOX_MESSAGES_MAX: usize = 256;
/// Messages that may wait for the hub; the connections then stop reading.
const EVENTS_MAX: usize = 1024;

/// What a gtm must know.
#[derive(Clone, Debug)]
pub struct GtmOptions {
    /// The datanodes, with a superuser, for recovery. The database is where `loxo.decision` lives. On the primary datanode gtms
    /// agree who of them leads.
    /// Which others there are is in `loxo.node`; what it says of those in here does not count but that they are there.
    pub datanodes: Datanodes,
    /// Proves that a server is a datanode which is not in `datanodes`; without it any is taken.
    pub roster: Option<Arc<Roster>>,
    /// Coordinators must show a certificate of the cluster; without this any client that can connect is heard.
    pub secured: Option<Mutual>,
    /// Pause between two passes of recovery.
    pub recovery_interval: Duration,
    /// How long a coordinator may trust its cached catalog without hearing from the gtm. The same on every gtm of a cluster.
    pub lease: Duration,
}

impl GtmOptions {
    /// Recovery every second, leases of 2 s.
    pub fn new(datanodes: Datanodes) -> Self {
        Self { datanodes, roster: None, secured: None, recovery_interval: Duration::from_secs(1), lease: LEASE }
    }
}

/// Serves coordinators whenever it leads, watches for deadlocks then, and runs recovery, for ever; in each database apart (page `databases`).
/// Dropping the future stops everything it started.
///
/// Errors: only if one of its own tasks panicked.
pub async fn serve(listener: TcpListener, options: GtmOptions) -> Result<()> {
    let (databases, wanted) = Databases::new(&options);
    tokio::select! {
        ended = accept(listener, &databases, options.secured.clone(), options.lease) => ended,
        never = databases.serve(wanted, &options) => match never {},
    }
}

/// Where coordinators' messages go; `None` while another gtm leads.
pub(super) type Role = Option<mpsc::Sender<Event>>;

async fn accept(
    listener: TcpListener,
    databases: &Arc<Databases>,
    secured: Option<Mutual>,
    lease: Duration,
) -> Result<()> {
    let (mut tasks, mut next_client, started) = (JoinSet::new(), 0, Instant::now());
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    next_client += 1;
                    let (client, databases, secured) = (next_client, databases.clone(), secured.clone());
                    tasks.spawn(async move {
                        match timeout(HELLO_MAX, welcome::accept(stream, secured.as_ref())).await {
                            Ok(Ok((reader, writer))) => attend(reader, writer, client, &databases, (lease, started)).await,
                            Ok(Err(error)) => warn!(%peer, "a connection was refused: {}", error.message()),
                            Err(_) => warn!(%peer, "a connection was refused: no handshake came in time"),
                        }
                    });
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

/// In the database of `datanodes`, for as long as there is such a database: for ever in the cluster's first one.
pub(super) async fn stand_by_and_lead(options: GtmOptions, role: watch::Sender<Role>, is_first: bool) {
    let GtmOptions { datanodes, roster, recovery_interval, lease, .. } = options;
    let members = Members::new(datanodes, roster);
    loop {
        // Recovery needs no leader, and the primary datanode, where one is chosen, may be the only one that is down.
        let acquired = tokio::select! {
            acquired = Leadership::acquire(&members, is_first) => acquired,
            never = recovery::run(&members, recovery_interval) => match never {},
        };
        let Some((leadership, mut datanodes)) = acquired else { return };
        info!(datanodes = datanodes.iter().len(), database = members.database(), "this gtm leads");
        let (events, inbox) = mpsc::channel(EVENTS_MAX);
        let (orders, ordered) = watch::channel(Order::default());
        let (draws, drawing) = mpsc::channel(1);
        let (looks, looking) = watch::channel(0);
        role.send_replace(Some(events.clone()));
        let leads = |leads: bool| is_first.then(|| figures::LEADS.store(u64::from(leads), Ordering::Relaxed));
        leads(true);
        let keep = async {
            let mut progress = upkeep::Progress::default();
            loop {
                let (ordered, draws, events) = (ordered.clone(), draws.clone(), events.clone());
                let upkeep =
                    upkeep::run(&members, &datanodes, &mut progress, recovery_interval, ordered, draws, events.clone());
                // The locks of all databases are looked at from the first one, to which every coordinator is connected.
                let now = tokio::select! {
                    () = deadlock::watch(&datanodes, events), if is_first => break PgError::internal("the watch for deadlocks has ended"),
                    now = upkeep => now,
                };
                datanodes = now;
                info!(datanodes = datanodes.iter().len(), "there are other datanodes now");
            }
        };
        let error = tokio::select! {
            () = Hub::new(lease, orders, looks).run(inbox) => PgError::internal("nobody talks to the gtm any more"),
            error = keep => error,
            error = leadership.hold(drawing, looking, events.clone()) => error,
        };
        role.send_replace(None);
        leads(false);
        warn!(%error, database = members.database(), "this gtm does not lead any more");
    }
}

/// Attends to one connection from its Hello to its end.
async fn attend(
    mut reader: FrameReader,
    mut writer: FrameWriter,
    client: ClientId,
    databases: &Databases,
    (lease, started): (Duration, Instant),
) {
    reader.limit(HELLO_BYTES_MAX);
    let first = match timeout(HELLO_MAX, reader.next()).await {
        Ok(Ok(Some(frame))) => Message::decode(frame),
        _ => return,
    };
    let Ok(first) = first else { return };
    let (name, attended) = match (&first, databases.attend(&first)) {
        (Message::Hello { version: PROTOCOL_VERSION, name, .. }, Some(attended)) => (name.clone(), attended),
        (_, attended) => {
            if let Some(answer) = turn_away(first, attended.is_some(), started) {
                answer.encode(writer.buffer());
                let _ = timeout(lease, writer.flush()).await;
            }
            return;
        }
    };
    let events = &attended.events;
    reader.limit(FRAME_BYTES_MAX);
    let (outbox, outgoing) = mpsc::channel(OUTBOX_MESSAGES_MAX);
    if events.send(Event::Joined { client, name, outbox }).await.is_err() {
        return;
    }
    let end = carry(&mut reader, &mut writer, client, events, outgoing, lease).await;
    let _ = events.send(Event::Left { client, end }).await;
}

/// The answer to a first message that does not make its sender a client of this gtm.
fn turn_away(first: Message, leads: bool, started: Instant) -> Option<Message> {
    match first {
        Message::Hello { version: PROTOCOL_VERSION, .. } => Some(Message::Standby),
        Message::Hello { version, .. } => Some(Message::Refused(format!(
            "the gtm speaks version {PROTOCOL_VERSION} of its protocol, the coordinator {version}"
        ))),
        Message::AskRole => Some(Message::Role(message::Role {
            leads,
            up_seconds: started.elapsed().as_secs(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        })),
        _ => None,
    }
}

/// Moves messages both ways until either side ends.
async fn carry(
    reader: &mut FrameReader,
    writer: &mut FrameWriter,
    client: ClientId,
    events: &mpsc::Sender<Event>,
    mut outgoing: mpsc::Receiver<Message>,
    lease: Duration,
) -> End {
    loop {
        tokio::select! {
            frame = reader.next() => {
                let message = match frame.map(|frame| frame.map(Message::decode)) {
                    Ok(Some(Ok(message))) => message,
                    Ok(Some(Err(error))) => {
                        warn!(client, %error, "a coordinator is not understood");
                        return End::ByUs;
                    }
                    Ok(None) => return End::ByPeer,
                    // A reset need not come from the coordinator.
                    Err(_) => return End::ByUs,
                };
                if events.send(Event::Said { client, message }).await.is_err() {
                    return End::ByUs;
                }
            }
            message = outgoing.recv() => {
                // The hub has dropped this client.
                let Some(message) = message else { return End::ByUs };
                message.encode(writer.buffer());
                if !matches!(timeout(lease, writer.flush()).await, Ok(Ok(()))) {
                    return End::ByUs;
                }
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
    /// Coordinators that have not acked yet.
    waiting: HashSet<ClientId>,
    /// Coordinators that are still waited for then are disconnected.
    deadline: Instant,
    /// Asked for once nobody is waited for any more.
    look: Option<u64>,
    answered: bool,
}

/// All state of the gtm.
pub(super) struct Hub {
    lease: Duration,
    clients: HashMap<ClientId, Client>,
    invalidations: BTreeMap<u64, Invalidation>,
    next_invalidation: u64,
    /// Until then there may be leases of coordinators that are not connected here.
    strangers_until: Instant,
    snapshots: GlobalSnapshots,
    /// Coordinators to be welcomed, but not in the middle of a barrier.
    arriving: Vec<(ClientId, Client)>,
    orders: watch::Sender<Order>,
    /// Pings that are answered after the look of this number.
    pings: VecDeque<(u64, ClientId, u64)>,
    /// The number of the last look that was asked for.
    looks: watch::Sender<u64>,
    looked: u64,
    /// Where coordinators' answers to the last question about sessions go.
    owners: Option<Answers>,
    questions: Questions,
    /// They could not be told something. They leave when everybody has been told.
    deaf: Vec<ClientId>,
}

impl Drop for Hub {
    fn drop(&mut self) {
        figures::COORDINATORS.fetch_sub(self.clients.len() as u64, Ordering::Relaxed);
    }
}

impl Hub {
    pub fn new(lease: Duration, orders: watch::Sender<Order>, looks: watch::Sender<u64>) -> Self {
        Self {
            lease,
            clients: HashMap::new(),
            invalidations: BTreeMap::new(),
            next_invalidation: 1,
            // An earlier gtm, now dead, may have given leases until just now.
            strangers_until: Instant::now() + lease + MARGIN,
            snapshots: GlobalSnapshots::new(Instant::now() + lease + MARGIN),
            arriving: Vec::new(),
            orders,
            pings: VecDeque::new(),
            looks,
            looked: 0,
            owners: None,
            questions: Questions::default(),
            deaf: Vec::new(),
        }
    }

    async fn run(mut self, mut inbox: mpsc::Receiver<Event>) {
        loop {
            self.go_on().await;
            let wake = self.next_deadline();
            tokio::select! {
                event = inbox.recv() => match event {
                    Some(event) => self.handle(event),
                    None => return,
                },
                () = async { sleep_until(wake.unwrap_or_else(Instant::now)).await }, if wake.is_some() => {}
            }
        }
    }

    /// Does what can be done now without another event.
    pub async fn go_on(&mut self) {
        self.drop_stuck();
        self.answer_ready();
        self.advance_snapshots().await;
        self.drop_deaf();
        self.answer_questions();
    }

    async fn advance_snapshots(&mut self) {
        loop {
            let step = self.snapshots.advance();
            match step {
                Step::Grant => {
                    self.snapshots.grant();
                    figures::GRANTED.count();
                    control_point!("snapshot-granted");
                }
                Step::Open => {
                    control_point!("before-open");
                    for client in self.snapshots.open() {
                        warn!(client, "a coordinator does not shut its gate and is disconnected");
                        self.leave(client, End::ByUs);
                    }
                }
                Step::Rest => {}
            }
            if self.snapshots.admits() {
                std::mem::take(&mut self.arriving).into_iter().for_each(|(id, client)| self.welcome(id, client));
            }
            for (client, message) in std::mem::take(&mut self.snapshots.outbox) {
                self.tell(client, message);
            }
            if step == Step::Rest {
                break;
            }
        }
        let order = self.snapshots.order();
        self.orders.send_if_modified(|known| std::mem::replace(known, order) != order);
    }

    pub fn handle(&mut self, event: Event) {
        match event {
            Event::Joined { client, name, outbox } => {
                self.arriving.push((client, Client { name, outbox, last_pong: Instant::now() }));
            }
            Event::Said { client, message } => self.hear(client, message),
            Event::Left { client, end } => self.leave(client, end),
            Event::Bumped { generation } => self.snapshots.fence_bumped(generation),
            Event::Fenced { fences, unresolved } => self.snapshots.fence_done(fences, unresolved),
            Event::Seen(seen) => self.snapshots.seen(&seen),
            Event::Leading { look } => self.pong(look),
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

    /// Asks for a look at the leader's lock; gives its number.
    fn look(&self) -> u64 {
        self.looks.send_modify(|number| *number += 1);
        *self.looks.borrow()
    }

    /// Extends the leases that were asked for before the look of this number: of those who were told a generation. Others would
    /// commit on single nodes unchecked, while a former leader, which does not know of them, may still grant global snapshots under the generation
    /// that the nodes have.
    fn pong(&mut self, look: u64) {
        self.looked = look;
        let answered = self.pings.partition_point(|(number, ..)| *number <= look);
        for (_, client, clock) in self.pings.drain(..answered).collect::<Vec<_>>() {
            let Some(known) = self.clients.get_mut(&client) else { continue };
            if self.snapshots.is_told(client) {
                known.last_pong = Instant::now();
                self.tell(client, Message::Pong(clock));
            } else {
                self.tell(client, Message::Alive);
            }
        }
    }

    fn welcome(&mut self, id: ClientId, client: Client) {
        info!(client = id, name = client.name, "a coordinator has connected");
        self.clients.insert(id, client);
        figures::COORDINATORS.fetch_add(1, Ordering::Relaxed);
        let pending = self.invalidations.keys().copied().collect();
        self.tell(id, Message::Welcome { lease_ms: self.lease.as_millis() as u64, pending });
        if !self.deaf.contains(&id) {
            self.snapshots.join(id);
        }
    }

    fn hear(&mut self, client: ClientId, message: Message) {
        if !self.clients.contains_key(&client) {
            return;
        }
        let Some(message) = self.snapshots.hear(client, message) else { return };
        match message {
            Message::Ping(clock) => {
                let look = self.look();
                self.pings.push_back((look, client, clock));
            }
            Message::Invalidate(request) => self.invalidate(client, request),
            Message::Ack(id) => {
                if let Some(invalidation) = self.invalidations.get_mut(&id) {
                    invalidation.waiting.remove(&client);
                }
            }
            Message::Finish(request) => self.resolve(|i| i.owner == client && i.request == request),
            Message::Deadlock(Word::Owners { look, owners }) => {
                // Nobody waits for an answer that comes too late.
                let _ = self.owners.as_ref().map(|answers| answers.send((client, look, owners)));
            }
            Message::Ask { request, question } => {
                let all: Vec<ClientId> = self.clients.keys().copied().collect();
                let id = self.questions.ask(client, request, all.iter().copied().collect());
                all.into_iter().for_each(|one| self.tell(one, Message::Asked { id, question: question.clone() }));
            }
            Message::Reply { id, answer } => self.questions.reply(client, id, answer),
            Message::Goodbye => self.leave(client, End::Goodbye),
            other => {
                warn!(client, message = ?other, "a coordinator said what only a gtm says");
                self.leave(client, End::ByUs);
            }
        }
    }

    fn invalidate(&mut self, owner: ClientId, request: u64) {
        let id = self.next_invalidation;
        self.next_invalidation += 1;
        let waiting: HashSet<ClientId> = self.clients.keys().copied().collect();
        let deadline = Instant::now() + self.lease + MARGIN;
        self.invalidations.insert(
            id,
            Invalidation { owner, request, waiting: waiting.clone(), deadline, look: None, answered: false },
        );
        waiting.into_iter().for_each(|client| self.tell(client, Message::Pending(id)));
    }

    /// Ends the invalidations chosen and tells everyone.
    fn resolve(&mut self, chosen: impl Fn(&Invalidation) -> bool) {
        let ids: Vec<u64> = self.invalidations.iter().filter(|(_, i)| chosen(i)).map(|(id, _)| *id).collect();
        for id in ids {
            self.invalidations.remove(&id);
            let clients: Vec<ClientId> = self.clients.keys().copied().collect();
            clients.into_iter().for_each(|client| self.tell(client, Message::Resolved(id)));
        }
    }

    fn leave(&mut self, client: ClientId, end: End) {
        self.arriving.retain(|(arriving, _)| *arriving != client);
        let Some(gone) = self.clients.remove(&client) else { return };
        figures::COORDINATORS.fetch_sub(1, Ordering::Relaxed);
        info!(client, name = gone.name, ?end, "a coordinator has left");
        let lease_until = gone.last_pong + self.lease + MARGIN;
        if end != End::Goodbye {
            self.strangers_until = self.strangers_until.max(lease_until);
        }
        self.snapshots.leave(client, end == End::Goodbye, (end == End::ByUs).then_some(lease_until));
        self.invalidations.values_mut().for_each(|i| {
            i.waiting.remove(&client);
        });
        self.resolve(|i| i.owner == client);
        self.questions.leave(client);
    }

    fn drop_stuck(&mut self) {
        let now = Instant::now();
        let late = self.invalidations.values().filter(|i| i.deadline <= now).flat_map(|i| i.waiting.iter().copied());
        for client in late.collect::<HashSet<_>>() {
            warn!(client, "a coordinator does not answer and is disconnected");
            self.leave(client, End::ByUs);
        }
    }

    fn answer_ready(&mut self) {
        if Instant::now() < self.strangers_until {
            return;
        }
        let acked = |i: &&mut Invalidation| !i.answered && i.waiting.is_empty();
        if self.invalidations.values_mut().filter(acked).any(|i| i.look.is_none()) {
            let look = self.look();
            self.invalidations.values_mut().filter(acked).for_each(|i| _ = i.look.get_or_insert(look));
        }
        let mut ready = Vec::new();
        for invalidation in self.invalidations.values_mut().filter(acked) {
            if invalidation.look <= Some(self.looked) {
                invalidation.answered = true;
                ready.push((invalidation.owner, invalidation.request));
            }
        }
        ready.into_iter().for_each(|(owner, request)| self.tell(owner, Message::Ready(request)));
    }

    fn answer_questions(&mut self) {
        self.questions.ended().into_iter().for_each(|(asker, replies)| self.tell(asker, replies));
    }

    /// When something happens without any message.
    fn next_deadline(&self) -> Option<Instant> {
        let unlooked = self.invalidations.values().filter(|i| i.look.is_none());
        let invalidation = unlooked.map(|i| if i.waiting.is_empty() { self.strangers_until } else { i.deadline });
        invalidation.chain(self.snapshots.next_deadline()).chain(self.questions.next_deadline()).min()
    }

    /// Queues a message; a client with a full queue, or gone, is dropped. Not at once: its leaving tells the others things of which
    /// they may have to be told something else first, as that an invalidation is resolved of which they do not know yet.
    fn tell(&mut self, client: ClientId, message: Message) {
        let Some(known) = self.clients.get(&client) else { return };
        if known.outbox.try_send(message).is_err() {
            self.deaf.push(client);
        }
    }

    fn drop_deaf(&mut self) {
        while let Some(client) = self.deaf.pop() {
            self.leave(client, End::ByUs);
        }
    }
}
