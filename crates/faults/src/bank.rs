//! The bank: money moves between accounts on different datanodes, and every reader that adds it up must get the same sum.
//!
//! A transfer changes two accounts and writes one line for each into a log beside it (same key, same datanode). So in
//! every snapshot: the balances sum to what there was at first; the log sums to nothing; an account's balance is
//! its first balance plus its log. Readers ask in all the ways a statement can get a snapshot; at the end the log is held
//! against what the writers were told.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pgerror::{PgError, Result};
use testkit::{Cluster, Rng};

use crate::processes::failure;
use crate::session::{Outcome, Session};
use crate::tables;
use crate::until::{LONGER_MAX, Until};

/// What an account holds at first.
const BALANCE: i64 = 1000;
/// Once in so many transfers the client is gone before its COMMIT is answered.
const LEAVE_ONE_IN: usize = 30;
/// With fewer transfers nobody would have met anybody.
const COMMITTED_MIN: usize = 20;
/// Shown of each list of wrong things.
const SHOWN_MAX: usize = 10;

/// How much of it.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Options {
    pub accounts: i64,
    pub writers: usize,
    pub readers: usize,
    pub duration: Duration,
    pub seed: u64,
    /// Run in each session first.
    pub setup: String,
}

impl Options {
    /// 4 writers and 4 readers over all coordinators.
    pub fn new(duration: Duration, seed: u64) -> Self {
        Self { accounts: 24, writers: 4, readers: 4, duration, seed, setup: "SET lock_timeout = '5s'".into() }
    }
}

/// What happened; [`Report::check`] judges it.
#[derive(Debug, Default)]
pub struct Report {
    /// Transfers by what their writer was told.
    pub outcomes: HashMap<u64, Outcome>,
    /// Observations by kind of reader.
    pub observations: BTreeMap<&'static str, usize>,
    /// Observations that no snapshot explains, by kind of reader.
    pub wrong: BTreeMap<&'static str, usize>,
    /// The first of them.
    pub examples: Vec<String>,
    /// Errors by the kind of session that met them and SQLSTATE.
    pub errors: BTreeMap<String, usize>,
    /// The first error of each of those.
    pub error_examples: BTreeMap<String, String>,
    /// The longest time one statement took.
    pub slowest: Duration,
}

impl Report {
    /// How many transfers ended so.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.outcomes.values().filter(|o| **o == outcome).count()
    }

    /// # Errors
    /// What readers saw that no snapshot explains; or nothing was done at all.
    pub fn check(&self) -> Result<()> {
        if !self.wrong.is_empty() {
            return Err(failure(format!("{self}\n{}", self.examples.join("\n"))));
        }
        match self.is_enough() {
            true => Ok(()),
            false => Err(failure(format!("the bank did not do its work: {self}"))),
        }
    }

    /// Money was moved, and seen in every way.
    fn is_enough(&self) -> bool {
        READS.iter().all(|kind| self.observations.contains_key(kind)) && self.count(Outcome::Committed) >= COMMITTED_MIN
    }

    fn tell_error(&mut self, who: &str, error: &PgError) {
        let key = format!("{who} {}", error.code());
        self.error_examples.entry(key.clone()).or_insert_with(|| error.message().into_owned());
        *self.errors.entry(key).or_default() += 1;
    }

    fn tell_wrong(&mut self, kind: &'static str, what: String) {
        *self.wrong.entry(kind).or_default() += 1;
        if self.examples.len() < SHOWN_MAX {
            self.examples.push(format!("{kind}: {what}"));
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [committed, refused, unknown] =
            [Outcome::Committed, Outcome::Refused, Outcome::Unknown].map(|outcome| self.count(outcome));
        writeln!(f, "transfers: {committed} acknowledged, {refused} refused, {unknown} unknown")?;
        writeln!(f, "observations: {:?}; wrong: {:?}", self.observations, self.wrong)?;
        write!(f, "slowest statement: {:?}; errors: {:?} {:?}", self.slowest, self.errors, self.error_examples)
    }
}

/// Makes the tables, in place of those of an earlier run.
///
/// # Errors
/// A statement's.
pub fn create(cluster: &Cluster, options: &Options) -> Result<()> {
    tables::create(cluster, "account", "id int PRIMARY KEY, balance bigint NOT NULL", "id")?;
    let columns = "account int NOT NULL, id bigint NOT NULL, delta bigint NOT NULL, PRIMARY KEY (account, id)";
    tables::create(cluster, "transfer", columns, "account")?;
    let rows: Vec<String> = (0..options.accounts).map(|id| format!("({id}, {BALANCE})")).collect();
    cluster.connect(0)?.run(&format!("INSERT INTO account VALUES {}", rows.join(", "))).map(drop)
}

/// Transfers and sums for the time asked for, while `meanwhile` runs in this thread, and until there were enough of them.
pub fn run<T>(cluster: &Cluster, options: &Options, meanwhile: impl FnOnce(Instant) -> T) -> (Report, T) {
    let until = Until::new(options.duration);
    let (next_id, is_awaited) = (AtomicU64::new(1), AtomicBool::new(true));
    let bank = Bank { options, until, is_awaited, next_id, report: Mutex::new(Report::default()) };
    let ports = cluster.coordinators();
    let result = std::thread::scope(|scope| {
        // Also if it panics: the scope waits for all threads.
        let _awaited = Awaited(&bank.is_awaited);
        for number in 0..options.writers {
            let (bank, port) = (&bank, ports[number % ports.len()]);
            scope.spawn(move || bank.write(port, number as u64));
        }
        for number in 0..options.readers {
            let (bank, port) = (&bank, ports[number % ports.len()]);
            scope.spawn(move || bank.read(port, number));
        }
        meanwhile(until.end)
    });
    (bank.report.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()), result)
}

/// Holds the tables, as they are when all is quiet, against what the writers were told. Gives the transfers found.
///
/// # Errors
/// Everything that does not agree.
pub fn audit(cluster: &Cluster, options: &Options, report: &Report) -> Result<usize> {
    let mut client = cluster.connect(0)?;
    let mut lines: HashMap<u64, Vec<(i64, i64)>> = HashMap::new();
    for row in client.strings("SELECT id, account, delta FROM transfer")? {
        let numbers: Vec<i64> = row.iter().filter_map(|text| text.parse().ok()).collect();
        let [id, account, delta] = numbers[..] else { return Err(failure(format!("not a transfer: {row:?}"))) };
        lines.entry(id as u64).or_default().push((account, delta));
    }
    let mut wrong = Vec::new();
    for (id, outcome) in &report.outcomes {
        let found = lines.get(id).map_or(0, Vec::len);
        let fits = match outcome {
            Outcome::Committed => found == 2,
            Outcome::Refused => found == 0,
            Outcome::Unknown => found == 0 || found == 2,
        };
        if !fits {
            wrong.push(format!("transfer {id}, {outcome:?}, has {found} lines"));
        }
    }
    wrong.extend(lines.keys().filter(|id| !report.outcomes.contains_key(id)).map(|id| format!("{id} is of nobody")));
    let mut balances: HashMap<i64, i64> = (0..options.accounts).map(|id| (id, BALANCE)).collect();
    lines.values().flatten().for_each(|(account, delta)| *balances.entry(*account).or_default() += delta);
    for row in client.strings("SELECT id, balance FROM account")? {
        let (id, balance) = (row[0].parse().unwrap_or(-1), row[1].parse().ok());
        if balances.remove(&id) != balance {
            wrong.push(format!("account {id} holds {balance:?}, which is not what its log says"));
        }
    }
    wrong.extend(balances.keys().map(|id| format!("account {id} is gone")));
    wrong.sort();
    wrong.truncate(SHOWN_MAX);
    if wrong.is_empty() { Ok(lines.len()) } else { Err(failure(wrong.join("\n"))) }
}

/// What goes on beside the workload, until this is dropped.
struct Awaited<'a>(&'a AtomicBool);

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

struct Bank<'a> {
    options: &'a Options,
    until: Until,
    /// Something beside it has not come to its end.
    is_awaited: AtomicBool,
    next_id: AtomicU64,
    report: Mutex<Report>,
}

/// The ways to add up.
const READS: [&str; 6] = ["statement", "join", "gather", "block", "repeatable read", "point reads"];

const SUM: &str = "SELECT sum(balance) FROM account";
/// Accounts whose balance is not what their log says; computed on each datanode.
const DIFFERENCES: &str = "SELECT count(*) FROM account a LEFT JOIN \
    (SELECT account, sum(delta) AS delta FROM transfer GROUP BY account) t ON t.account = a.id \
    WHERE a.balance <> 1000 + coalesce(t.delta, 0)";
/// Whole balances and the log's sum in one statement that needs rows in one place.
const GATHERED: &str = "SELECT (SELECT sum(balance) FROM account) + (SELECT coalesce(sum(delta), 0) FROM transfer), count(DISTINCT id % 7) FROM account";

impl Bank<'_> {
    fn report(&self, change: impl FnOnce(&mut Report)) {
        change(&mut self.report.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
    }

    fn goes_on(&self) -> bool {
        let is_enough = || self.report.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).is_enough();
        self.is_awaited.load(Ordering::Relaxed) || self.until.goes_on(is_enough)
    }

    fn write(&self, port: u16, number: u64) {
        let mut session = Session::new(port, &self.options.setup);
        let mut rng = Rng::new(self.options.seed ^ (number + 1) << 32);
        while self.goes_on() && session.connect_until(Instant::now() + LONGER_MAX) {
            let id = self.next_id.fetch_add(1, Ordering::Relaxed);
            let begin = Instant::now();
            let (outcome, error) = self.transfer(&mut session, &mut rng, id);
            let took = begin.elapsed();
            if outcome != Outcome::Committed {
                session.abandon();
            }
            self.report(|report| {
                report.outcomes.insert(id, outcome);
                report.slowest = report.slowest.max(took);
                error.iter().for_each(|error| report.tell_error("writer", error));
            });
        }
    }

    /// Accounts in ascending order, so that transfers cannot wait for each other in a circle.
    fn transfer(&self, session: &mut Session, rng: &mut Rng, id: u64) -> (Outcome, Option<PgError>) {
        let accounts = self.options.accounts as usize;
        let (one, other) = (rng.below(accounts), rng.below(accounts - 1));
        let other = if other >= one { other + 1 } else { other };
        let (low, high, amount) = (one.min(other), one.max(other), rng.below(200) as i64 - 100);
        let level = ["READ COMMITTED", "REPEATABLE READ"][usize::from(rng.one_in(3))];
        let statements = [
            format!("BEGIN ISOLATION LEVEL {level}"),
            format!("UPDATE account SET balance = balance - {amount} WHERE id = {low}"),
            format!("UPDATE account SET balance = balance + {amount} WHERE id = {high}"),
            format!("INSERT INTO transfer VALUES ({low}, {id}, {}), ({high}, {id}, {amount})", -amount),
        ];
        for sql in &statements {
            if let Err(error) = session.run(sql) {
                return (Outcome::Refused, Some(error));
            }
        }
        match rng.one_in(LEAVE_ONE_IN) {
            true => (session.commit_and_leave(), None),
            false => session.commit("COMMIT"),
        }
    }

    fn read(&self, port: u16, number: usize) {
        let mut session = Session::new(port, &self.options.setup);
        let mut turn = number;
        while self.goes_on() && session.connect_until(Instant::now() + LONGER_MAX) {
            let kind = READS[turn % READS.len()];
            turn += 1;
            let begin = Instant::now();
            let observed = self.observe(&mut session, kind);
            let took = begin.elapsed();
            self.report(|report| {
                report.slowest = report.slowest.max(took);
                match &observed {
                    Ok(wrong) => {
                        *report.observations.entry(kind).or_default() += 1;
                        wrong.iter().for_each(|what| report.tell_wrong(kind, what.clone()));
                    }
                    Err(error) => report.tell_error(kind, error),
                }
            });
            if observed.is_err() {
                session.abandon();
            }
        }
    }

    /// One observation; says what is wrong with it.
    fn observe(&self, session: &mut Session, kind: &str) -> Result<Option<String>> {
        let total = self.options.accounts * BALANCE;
        let sums = match kind {
            "statement" => vec![session.number(SUM)?],
            "join" => vec![total + session.number(DIFFERENCES)?],
            "gather" => vec![session.number(GATHERED)?],
            "block" => in_block(session, "READ COMMITTED", |session| {
                Ok(vec![session.number(SUM)?, session.number(GATHERED)?, session.number(SUM)?])
            })?,
            "repeatable read" => in_block(session, "REPEATABLE READ", |session| {
                let differences = total + session.number(DIFFERENCES)?;
                Ok(vec![differences, session.number(GATHERED)?, session.number(SUM)?])
            })?,
            _ => in_block(session, "REPEATABLE READ", |session| {
                let one = |id| session.number(&format!("SELECT balance FROM account WHERE id = {id}"));
                let balances: Vec<i64> = (0..self.options.accounts).map(one).collect::<Result<_>>()?;
                Ok(vec![balances.iter().sum()])
            })?,
        };
        let is_wrong = sums.iter().any(|sum| *sum != total);
        Ok(is_wrong.then(|| format!("{sums:?} instead of {total}")))
    }
}

fn in_block<T>(session: &mut Session, level: &str, body: impl FnOnce(&mut Session) -> Result<T>) -> Result<T> {
    session.run(&format!("BEGIN ISOLATION LEVEL {level}"))?;
    let result = body(session)?;
    session.run("COMMIT")?;
    Ok(result)
}
