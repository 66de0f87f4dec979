//! Case files for several sessions at once: which of them waits, for how long, and what each gets is what one PostgreSQL says.
//!
//! ```sql
//! -- @a
//! BEGIN;
//! SELECT * FROM t WHERE k = 1 FOR UPDATE;
//! -- @b
//! UPDATE t SET v = 'b' WHERE k = 1;
//! -- @a
//! COMMIT;
//! ```
//! - `-- @name`: what follows is sent by the session of that name, which is there from its first statement on.
//! - `-- deadlock` before a statement that closes a circle of waits: one of the waiting sessions must get its error.
//! - `-- hears` before a statement: a notification must come to its session, with its answer or afterwards.
//! - `-- differs`, in all layouts or in those after a colon: the cluster's answer is another, or it waits where one server does
//!   not; the comment in front says why. That it does not differ is a failure too.
//! - `-- may differ`, likewise, where the answer depends on what the coordinator had to find out first.
//!
//! Everything else is as in the other case files. A script goes on when each session has its answer or waits for a lock, which the
//! servers' `pg_locks` say.
//!
//! ```text
//! script ─ statement ─► thread of its session ─► server or coordinator
//!    ▲                         │ answer
//!    └── all answered or ──────┴── pg_locks of the server or of all datanodes
//! ```
//! Invariant: no statement is sent while it is open whether another one waits or has its answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use pgerror::{Result, SqlState};
use testkit::wire::{Client, CopyInput};
use testkit::{Cluster, Server};

use crate::differential::{clean_up, diff, set_alike, set_up, summary, without_places};
use crate::script::{self, Statement, Variant};

/// A session that has neither an answer nor a lock to wait for after that long is stuck.
const REST_MAX: Duration = Duration::from_secs(30);
/// Between two looks at the locks.
const LOOK_PAUSE: Duration = Duration::from_millis(5);
/// Looks that must show the same, since one look takes the datanodes one after the other.
const SAME_LOOKS: usize = 2;
/// Backends that wait for a lock, and the holders wait too or do nothing: that will last, unless it is one of the
/// coordinator's own attempts, which it gives up after 20 ms.
const WAITING: &str = "SELECT DISTINCT l.pid FROM pg_locks l WHERE NOT l.granted \
     AND l.waitstart < clock_timestamp() - interval '300 ms' AND NOT EXISTS (\
     SELECT FROM pg_stat_activity a WHERE a.pid = ANY (pg_blocking_pids(l.pid)) AND a.state = 'active' \
     AND NOT EXISTS (SELECT FROM pg_locks o WHERE o.pid = a.pid AND NOT o.granted))";
/// A test that hangs ends all the same.
const LOCK_TIMEOUT: &str = "SET lock_timeout = '60s'";

/// What one run of one script gave.
#[derive(Debug)]
pub struct Report {
    /// Statements compared.
    pub compared: usize,
    /// Statements that had to wait on one server.
    pub waited: usize,
    /// Where the cluster differs without the script saying so, or the other way round.
    pub differences: Vec<String>,
}

/// Runs a script in one layout.
///
/// # Errors
/// When a session breaks, or is stuck.
pub fn run(cluster: &Cluster, reference: &Server, file: &str, source: &str, variant: &Variant) -> Result<Report> {
    let statements = with_sessions(script::parse(source));
    let schema = format!("e2e_{file}_{}", variant.tag());
    let datanodes: Vec<u16> = cluster.datanodes().to_vec();
    let mut one = Side::new(&[reference.port()], &[reference.port()], &schema)?;
    let mut many = Side::new(cluster.coordinators(), &datanodes, &schema)?;
    let mut table = 0;
    for (number, statement) in statements.iter().enumerate() {
        let distributed = script::distribute(&statement.text, variant, &mut table);
        let sql = if cluster.is_distributed() { &distributed } else { &statement.text };
        let place = format!("{file}.sql:{}", statement.line);
        one.step(number, statement, &statement.text).map_err(|error| error.context(format!("{place}, one server")))?;
        many.step(number, statement, sql).map_err(|error| error.context(format!("{place}, the cluster")))?;
    }
    let mut report = Report { compared: statements.len(), waited: 0, differences: Vec::new() };
    let (expected, actual) = (one.end()?, many.end()?);
    for (number, statement) in statements.iter().enumerate() {
        let texts = [&expected[&number], &actual[&number]].map(|outcome| outcome.text());
        report.waited += usize::from(expected[&number].waited);
        let is_for_this = |tags: &Option<Vec<String>>| {
            let tags = tags.as_ref().filter(|_| cluster.is_distributed());
            tags.is_some_and(|tags| tags.is_empty() || tags.contains(&variant.tag()))
        };
        let (must_differ, may_differ) = (is_for_this(&statement.differs), is_for_this(&statement.may_differ));
        let place = format!("{file}.sql:{}: {}", statement.line, statement.text);
        match (texts[0] == texts[1], must_differ) {
            (true, true) => report.differences.push(format!("{place}\n    does not differ, but the script says so")),
            (false, false) if !may_differ => {
                report.differences.push(format!("{place}\n{}", diff(&texts[0], &texts[1])))
            }
            _ => {}
        }
    }
    Ok(report)
}

/// Each statement with its session's name.
fn with_sessions(mut statements: Vec<Statement>) -> Vec<Statement> {
    let mut current = "a".to_owned();
    for statement in &mut statements {
        current = statement.session.take().unwrap_or(current);
        statement.session = Some(current.clone());
    }
    statements
}

/// What came of a statement on one side.
#[derive(Debug)]
struct Outcome {
    waited: bool,
    answer: String,
}

impl Outcome {
    fn text(&self) -> String {
        format!("{}{}", if self.waited { "  waits for a lock\n" } else { "" }, self.answer)
    }
}

/// A backend of one of the servers: its number and its process id.
type Backend = (usize, String);

/// One server, or the cluster.
struct Side {
    coordinators: Vec<u16>,
    /// Sessions that look at the locks of the servers.
    servers: Vec<Client>,
    schema: String,
    sessions: BTreeMap<String, Session>,
    outcomes: BTreeMap<usize, Outcome>,
}

/// A session, whose thread waits for its answers.
struct Session {
    orders: Sender<Order>,
    answers: Receiver<Result<String>>,
    /// The statement without answer.
    open: Option<usize>,
    waited: bool,
    /// Backends that wait for a lock on its behalf.
    waiting: BTreeSet<Backend>,
}

struct Order {
    sql: String,
    copy_data: Option<String>,
    ordered: bool,
    hears: bool,
}

impl Side {
    fn new(coordinators: &[u16], servers: &[u16], schema: &str) -> Result<Self> {
        let coordinators = coordinators.to_vec();
        set_up(&mut Client::connect(coordinators[0])?, schema)?;
        let servers = servers.iter().map(|port| Client::connect(*port)).collect::<Result<_>>()?;
        Ok(Self {
            coordinators,
            servers,
            schema: schema.to_owned(),
            sessions: BTreeMap::new(),
            outcomes: BTreeMap::new(),
        })
    }

    /// Sends a statement and waits until every session has its answer or waits.
    fn step(&mut self, number: usize, statement: &Statement, sql: &str) -> Result<()> {
        let name = statement.session.clone().unwrap_or_default();
        if !self.sessions.contains_key(&name) {
            let coordinator = self.coordinators[self.sessions.len() % self.coordinators.len()];
            self.sessions.insert(name.clone(), Session::start(coordinator, &self.schema)?);
        }
        let is_open = |side: &Self| side.sessions[&name].open.is_some();
        self.until("the session's last answer", |side| Ok(!is_open(side)))?;
        if let Some(session) = self.sessions.get_mut(&name) {
            session.send(number, statement, sql);
        }
        let open = self.sessions.values().filter(|session| session.open.is_some()).count();
        if statement.deadlock {
            let has_left = |side: &Self| side.sessions.values().filter(|session| session.open.is_some()).count() < open;
            self.until("the end of a deadlock", |side| Ok(has_left(side)))?;
        }
        let mut same_looks = 0;
        self.until("an answer or a lock that is waited for", |side| {
            same_looks = if side.is_at_rest()? { same_looks + 1 } else { 0 };
            Ok(same_looks == SAME_LOOKS)
        })?;
        self.sessions.values_mut().for_each(|session| session.waited = session.open.is_some());
        Ok(())
    }

    /// Takes in answers until it is true.
    fn until(&mut self, what: &str, mut is_true: impl FnMut(&mut Self) -> Result<bool>) -> Result<()> {
        let since = Instant::now();
        loop {
            self.take_answers()?;
            if is_true(self)? {
                return Ok(());
            }
            if since.elapsed() > REST_MAX {
                return Err(pgerror::PgError::new(SqlState::IO_ERROR, format!("{what} did not come")));
            }
            std::thread::sleep(LOOK_PAUSE);
        }
    }

    fn take_answers(&mut self) -> Result<()> {
        for session in self.sessions.values_mut() {
            let Some(number) = session.open else { continue };
            if let Ok(answer) = session.answers.try_recv() {
                self.outcomes.insert(number, Outcome { waited: session.waited, answer: answer? });
                (session.open, session.waited) = (None, false);
                session.waiting.clear();
            }
        }
        Ok(())
    }

    /// Does every session without answer wait for a lock?
    fn is_at_rest(&mut self) -> Result<bool> {
        let waiting = self.waiting()?;
        let owned: BTreeSet<Backend> = self.sessions.values().flat_map(|session| session.waiting.clone()).collect();
        let mut unowned: BTreeSet<Backend> = waiting.difference(&owned).cloned().collect();
        let mut at_rest = true;
        for session in self.sessions.values_mut().filter(|session| session.open.is_some()) {
            session.waiting.retain(|backend| waiting.contains(backend));
            if session.waiting.is_empty() && !unowned.is_empty() {
                session.waiting = std::mem::take(&mut unowned);
            }
            at_rest &= !session.waiting.is_empty();
        }
        Ok(at_rest)
    }

    /// All backends that wait.
    fn waiting(&mut self) -> Result<BTreeSet<Backend>> {
        let mut waiting = BTreeSet::new();
        for (number, server) in self.servers.iter_mut().enumerate() {
            let rows = server.strings(WAITING)?;
            waiting.extend(rows.into_iter().flatten().map(|pid| (number, pid)));
        }
        Ok(waiting)
    }

    /// Ends all sessions; what came of each statement.
    fn end(mut self) -> Result<BTreeMap<usize, Outcome>> {
        self.until("the last answers", |side| Ok(side.sessions.values().all(|session| session.open.is_none())))?;
        self.sessions.clear();
        clean_up(&mut Client::connect(self.coordinators[0])?)?;
        Ok(self.outcomes)
    }
}

impl Session {
    fn start(port: u16, schema: &str) -> Result<Self> {
        let mut client = Client::connect(port)?;
        set_alike(&mut client)?;
        client.run(LOCK_TIMEOUT)?;
        client.run(&format!("SET search_path = {schema}"))?;
        let (orders, received) = channel::<Order>();
        let (answered, answers) = channel();
        std::thread::spawn(move || {
            for order in received {
                if answered.send(answer(&mut client, &order)).is_err() {
                    break;
                }
            }
        });
        Ok(Self { orders, answers, open: None, waited: false, waiting: BTreeSet::new() })
    }

    fn send(&mut self, number: usize, statement: &Statement, sql: &str) {
        let Statement { copy_data, ordered, hears, .. } = statement.clone();
        self.open = Some(number);
        // A thread that has ended is told by its answers.
        let _ = self.orders.send(Order { sql: sql.to_owned(), copy_data, ordered, hears });
    }
}

/// Everything that has to be the same.
fn answer(client: &mut Client, order: &Order) -> Result<String> {
    let data = order.copy_data.as_deref().unwrap_or_default().as_bytes();
    let frames = [data];
    let mut answer = client.simple_copy(&order.sql, CopyInput { frames: &frames, fail: order.copy_data.is_none() })?;
    // Process ids and numbers of locks are each server's own.
    if let Some(error) = answer.error.as_mut().filter(|error| error.code() == SqlState::DEADLOCK_DETECTED) {
        *error = pgerror::PgError::new(error.code(), error.message().into_owned());
    }
    let mut text = without_places(&summary(&answer, order.ordered));
    if order.hears && client.notifications.is_empty() {
        let heard = client.notification()?;
        client.notifications.push_back(heard);
    }
    for (channel, payload) in client.notifications.drain(..) {
        text.push_str(&format!("  hears {channel:?}: {payload:?}\n"));
    }
    Ok(text)
}
