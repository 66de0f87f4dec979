//! Random transactions over lists, recorded for the [checker](crate::checker).
//!
//! Clients of all coordinators read and append to a few rows that lie on different datanodes, in one statement or in blocks of
//! either isolation level, or all in SERIALIZABLE ones, one row or several a statement. Every so often the rows in use give way to fresh ones, so
//! that lists stay short.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pgerror::{PgError, Result};
use testkit::{Cluster, Rng};

use crate::checker::{Element, History, Key, Level, Span, Statement, Step, Transaction};
use crate::processes::failure;
use crate::session::{Outcome, Session};
use crate::tables;
use crate::until::Until;

/// Rows in use at a time.
const KEYS_IN_USE: usize = 8;
/// Transactions before other rows are used.
const TRANSACTIONS_PER_KEYS: u64 = 120;
/// All rows; when they are used up it begins anew with the first.
const KEYS: usize = 4000;
/// Statements of a block.
const STATEMENTS_MAX: usize = 4;

/// How much of it.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Options {
    pub clients: usize,
    pub duration: Duration,
    /// Not fewer shall commit: on a slow machine, or after faults, it takes longer than asked for.
    pub transactions: usize,
    pub seed: u64,
    /// Run in each session first.
    pub setup: String,
    /// Level of all transactions; else statements alone, and blocks of READ COMMITTED and REPEATABLE READ.
    pub level: Option<Level>,
}

impl Options {
    /// Six clients over all coordinators.
    pub fn new(duration: Duration, seed: u64) -> Self {
        // Rows are not locked in one order: waits in a circle over several datanodes end by this.
        Self { clients: 6, duration, transactions: 200, seed, setup: "SET lock_timeout = '100ms'".into(), level: None }
    }

    /// All transactions of one level, also statements alone. They wait for whole transactions of others.
    #[must_use]
    pub fn at(self, level: Level) -> Self {
        let setup = format!("SET default_transaction_isolation = '{}'; SET lock_timeout = '300ms'", name(level));
        Self { setup, level: Some(level), ..self }
    }
}

/// What was recorded.
#[derive(Debug, Default)]
pub struct Recording {
    /// For the checker.
    pub history: History,
    /// Errors by SQLSTATE.
    pub errors: BTreeMap<String, usize>,
}

impl Recording {
    /// How many transactions ended so.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.history.transactions.iter().filter(|t| t.outcome == outcome).count()
    }
}

/// Makes the table, in place of one of an earlier run.
///
/// # Errors
/// A statement's.
pub fn create(cluster: &Cluster) -> Result<()> {
    tables::create(cluster, "list", "key int PRIMARY KEY, elements text NOT NULL", "key")?;
    let rows = format!("INSERT INTO list SELECT k, '' FROM generate_series(0, {}) k", KEYS - 1);
    cluster.connect(0)?.run(&rows).map(drop)
}

/// Random transactions for the time asked for, and until enough have committed, while `meanwhile` runs in this thread. The [end](History::end) is to be added when
/// all is quiet.
pub fn run<T>(cluster: &Cluster, options: &Options, meanwhile: impl FnOnce(Instant) -> T) -> (Recording, T) {
    let until = Until::new(options.duration);
    let workload = Workload {
        setup: &options.setup,
        level: options.level,
        begin: Instant::now(),
        until,
        at_least: options.transactions,
        transactions: AtomicU64::new(0),
        elements: AtomicU64::new(1),
        recording: Mutex::new(Recording::default()),
    };
    let ports = cluster.coordinators();
    let result = std::thread::scope(|scope| {
        for number in 0..options.clients {
            let (workload, port) = (&workload, ports[number % ports.len()]);
            let rng = Rng::new(options.seed ^ ((number as u64 + 1) << 40));
            scope.spawn(move || workload.client(number, port, rng));
        }
        meanwhile(until.end)
    });
    (workload.recording.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()), result)
}

impl History {
    /// Adds the lists as the datanodes hold them.
    ///
    /// # Errors
    /// When one cannot be asked, or two hold the same row.
    pub fn end(&mut self, cluster: &Cluster) -> Result<()> {
        for node in 0..cluster.datanodes().len() {
            let rows = cluster.connect_datanode(node)?.strings("SELECT key, elements FROM list")?;
            for (key, list) in lists(rows)? {
                if self.homes.insert(key, node).is_some() {
                    return Err(failure(format!("row {key} is on two datanodes")));
                }
                if !list.is_empty() {
                    self.finals.insert(key, list);
                }
            }
        }
        Ok(())
    }
}

fn lists(rows: Vec<Vec<String>>) -> Result<Vec<(Key, Vec<Element>)>> {
    let list = |row: &Vec<String>| -> Option<(Key, Vec<Element>)> {
        let elements = row[1].split_terminator(',').map(|element| element.parse().ok());
        Some((row[0].parse().ok()?, elements.collect::<Option<_>>()?))
    };
    rows.iter().map(|row| list(row).ok_or_else(|| failure(format!("not a list: {row:?}")))).collect()
}

struct Workload<'a> {
    setup: &'a str,
    level: Option<Level>,
    begin: Instant,
    until: Until,
    at_least: usize,
    transactions: AtomicU64,
    elements: AtomicU64,
    recording: Mutex<Recording>,
}

/// A statement to be.
enum Plan {
    Read(Vec<Key>),
    Append(Vec<Key>),
}

impl Workload<'_> {
    fn client(&self, number: usize, port: u16, mut rng: Rng) {
        let mut session = Session::new(port, self.setup);
        while self.goes_on() && session.connect_until(self.until.latest) {
            let id = number << 32 | session.connections();
            let (mut transaction, error) = match (rng.below(5), self.level) {
                (0, level) => self.single(&mut session, &mut rng, level.unwrap_or(Level::ReadCommitted)),
                (_, Some(level)) => self.block(&mut session, &mut rng, level),
                (1 | 2, None) => self.block(&mut session, &mut rng, Level::ReadCommitted),
                (_, None) => self.block(&mut session, &mut rng, Level::RepeatableRead),
            };
            // One that connected again in the middle is of no session.
            transaction.session = (id == (number << 32 | session.connections())).then_some(id);
            if transaction.outcome != Outcome::Committed {
                session.abandon();
            }
            let mut recording = self.recording.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            recording.history.transactions.push(transaction);
            if let Some(error) = error {
                *recording.errors.entry(error.code().to_string()).or_default() += 1;
            }
        }
    }

    fn goes_on(&self) -> bool {
        let committed =
            || self.recording.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).count(Outcome::Committed);
        self.until.goes_on(|| committed() >= self.at_least)
    }

    /// A statement that is its own transaction.
    fn single(&self, session: &mut Session, rng: &mut Rng, level: Level) -> (Transaction, Option<PgError>) {
        let begin = self.now();
        let (mut statements, outcome, error) = match self.plan(rng) {
            Plan::Read(keys) => match self.read(session, &keys) {
                Ok(statement) => (vec![statement], Outcome::Committed, None),
                Err(error) => (Vec::new(), Outcome::Refused, Some(error)),
            },
            Plan::Append(keys) => {
                let (element, sql) = self.append_sql(&keys);
                let (outcome, error) = session.commit(&sql);
                let span = Span { begin, end: self.now() };
                (vec![Statement { span, step: Step::Append(keys, element) }], outcome, error)
            }
        };
        let end = if outcome == Outcome::Unknown { u64::MAX } else { self.now() };
        let span = Span { begin, end };
        statements.iter_mut().for_each(|statement| statement.span = span);
        (Transaction { session: None, level, statements, outcome, commit: span }, error)
    }

    fn block(&self, session: &mut Session, rng: &mut Rng, level: Level) -> (Transaction, Option<PgError>) {
        let nothing = Span { begin: self.now(), end: u64::MAX };
        let mut transaction =
            Transaction { session: None, level, statements: Vec::new(), outcome: Outcome::Refused, commit: nothing };
        if let Err(error) = session.run(&format!("BEGIN ISOLATION LEVEL {}", name(level))) {
            return (transaction, Some(error));
        }
        for _ in 0..1 + rng.below(STATEMENTS_MAX) {
            let done = match self.plan(rng) {
                Plan::Read(keys) => self.read(session, &keys),
                Plan::Append(keys) => self.append(session, keys),
            };
            match done {
                Ok(statement) => transaction.statements.push(statement),
                Err(error) => return (transaction, Some(error)),
            }
        }
        let begin = self.now();
        let (outcome, error) = session.commit("COMMIT");
        let end = if outcome == Outcome::Unknown { u64::MAX } else { self.now() };
        (Transaction { outcome, commit: Span { begin, end }, ..transaction }, error)
    }

    /// Three of five are reads; of one row, of some or of all in use.
    fn plan(&self, rng: &mut Rng) -> Plan {
        let turn = self.transactions.fetch_add(1, Ordering::Relaxed) / TRANSACTIONS_PER_KEYS;
        let first = (turn as usize * KEYS_IN_USE) % KEYS;
        let count = [1, 1, 2, 3, KEYS_IN_USE][rng.below(5)];
        let mut keys: Vec<Key> = (first..first + KEYS_IN_USE).map(|key| key as Key).collect();
        while keys.len() > count {
            keys.swap_remove(rng.below(keys.len()));
        }
        if rng.below(5) < 3 { Plan::Read(keys) } else { Plan::Append(keys) }
    }

    fn read(&self, session: &mut Session, keys: &[Key]) -> Result<Statement> {
        let begin = self.now();
        let rows = session.strings(&format!("SELECT key, elements FROM list WHERE key {}", among(keys)))?;
        let span = Span { begin, end: self.now() };
        let lists = lists(rows)?;
        match lists.len() == keys.len() {
            true => Ok(Statement { span, step: Step::Read(lists) }),
            false => Err(failure(format!("{} rows instead of {}", lists.len(), keys.len()))),
        }
    }

    fn append(&self, session: &mut Session, keys: Vec<Key>) -> Result<Statement> {
        let begin = self.now();
        let (element, sql) = self.append_sql(&keys);
        session.run(&sql)?;
        Ok(Statement { span: Span { begin, end: self.now() }, step: Step::Append(keys, element) })
    }

    fn append_sql(&self, keys: &[Key]) -> (Element, String) {
        let element = self.elements.fetch_add(1, Ordering::Relaxed);
        (element, format!("UPDATE list SET elements = elements || '{element},' WHERE key {}", among(keys)))
    }

    fn now(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }
}

fn name(level: Level) -> &'static str {
    match level {
        Level::ReadCommitted => "read committed",
        Level::RepeatableRead => "repeatable read",
        Level::Serializable => "serializable",
    }
}

/// One row by `=`, as an application asks for it.
fn among(keys: &[Key]) -> String {
    match keys {
        [key] => format!("= {key}"),
        _ => format!("IN ({})", keys.iter().map(Key::to_string).collect::<Vec<_>>().join(", ")),
    }
}
