//! Pairs: each transaction writes one row on each of two datanodes, and nobody may ever see one row of a pair alone.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pgerror::{PgError, Result};
use testkit::{Cluster, Rng};

use crate::processes::failure;
use crate::session::{Outcome, Session};
use crate::{aftermath, tables};

/// A coordinator that does not come back within this is reported by the task that waits for it.
const CONNECT_MAX: Duration = Duration::from_secs(2);

/// Ways to write a pair, and those in which the client leaves, or commits in two phases of its own.
const WAYS: usize = 13;
const LEAVES: usize = 9;
const TWO_PHASES: std::ops::Range<usize> = 10..13;

/// The table, and a key of its on each of two datanodes.
#[derive(Debug)]
pub struct Table {
    keys: [i32; 2],
    next_id: AtomicU64,
}

/// What one run saw.
#[derive(Debug, Default)]
pub struct Seen {
    /// Pairs by what their writer was told.
    pub outcomes: HashMap<u64, Outcome>,
    /// Looks at the whole table that found whole pairs only.
    pub looks: usize,
    /// Half pairs that a reader saw.
    pub halves: Vec<String>,
    /// Errors that a reader or writer met.
    pub errors: Vec<PgError>,
}

/// What a run's threads and its [`Table::run`] caller tell each other.
#[derive(Debug, Default)]
pub struct Control {
    writers_stop: AtomicBool,
    readers_stop: AtomicBool,
    looks: AtomicUsize,
}

impl Control {
    /// No new pair after this; readers go on.
    pub fn stop_writers(&self) {
        self.writers_stop.store(true, Ordering::SeqCst);
    }

    /// Looks so far that were answered.
    pub fn looks(&self) -> usize {
        self.looks.load(Ordering::SeqCst)
    }
}

impl Table {
    /// Makes the table, in place of one of an earlier run.
    ///
    /// # Errors
    /// A statement's; or there are no two datanodes.
    pub fn create(cluster: &Cluster) -> Result<Self> {
        tables::create(cluster, "pair", "key int NOT NULL, id bigint NOT NULL", "key")?;
        let keys = tables::keys_apart(cluster, "pair", "SELECT k, 0")?;
        cluster.connect(0)?.run("DELETE FROM pair")?;
        Ok(Self { keys, next_id: AtomicU64::new(1) })
    }

    /// Writers (two on `port`, one on each of `others`) and a reader on each of `others`, as long as `meanwhile` runs in
    /// this thread.
    pub fn run<T>(&self, port: u16, others: &[u16], meanwhile: impl FnOnce(&Control) -> T) -> (Seen, T) {
        let (control, seen) = (Control::default(), Mutex::new(Seen::default()));
        let first = self.next_id.load(Ordering::Relaxed);
        let result = std::thread::scope(|scope| {
            let (control, seen) = (&control, &seen);
            for port in [port, port].into_iter().chain(others.iter().copied()) {
                scope.spawn(move || self.write(port, control, seen));
            }
            for port in others {
                scope.spawn(move || self.read(*port, first, control, seen));
            }
            let result = meanwhile(control);
            control.stop_writers();
            control.readers_stop.store(true, Ordering::SeqCst);
            result
        });
        (seen.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()), result)
    }

    fn write(&self, port: u16, control: &Control, seen: &Mutex<Seen>) {
        let mut session = Session::new(port, "");
        let mut rng = Rng::new(u64::from(port));
        while !control.writers_stop.load(Ordering::SeqCst) {
            if !session.connect_until(Instant::now() + CONNECT_MAX) {
                continue;
            }
            let id = self.next_id.fetch_add(1, Ordering::Relaxed);
            let (outcome, error) = self.insert(&mut session, id, rng.below(WAYS));
            if outcome != Outcome::Committed {
                session.abandon();
            }
            let mut seen = lock(seen);
            seen.outcomes.insert(id, outcome);
            seen.errors.extend(error);
        }
    }

    /// In a block of either isolation level, or in one statement; now and then the client leaves in the middle of the commit.
    fn insert(&self, session: &mut Session, id: u64, way: usize) -> (Outcome, Option<PgError>) {
        let [one, other] = self.keys;
        let level = match way {
            0..3 => return session.commit(&format!("INSERT INTO pair VALUES ({one}, {id}), ({other}, {id})")),
            3..6 => "READ COMMITTED",
            _ => "REPEATABLE READ",
        };
        let statements = [
            format!("BEGIN ISOLATION LEVEL {level}"),
            format!("INSERT INTO pair VALUES ({other}, {id})"),
            format!("INSERT INTO pair VALUES ({one}, {id})"),
        ];
        for sql in &statements {
            if let Err(error) = session.run(sql) {
                return (Outcome::Refused, Some(error));
            }
        }
        match way {
            LEAVES => (session.commit_and_leave(), None),
            _ if TWO_PHASES.contains(&way) => commit_in_two_phases(session, id),
            _ => session.commit("COMMIT"),
        }
    }

    fn read(&self, port: u16, first: u64, control: &Control, seen: &Mutex<Seen>) {
        let mut session = Session::new(port, "");
        let sql = format!("SELECT id, min(key) FROM pair WHERE id >= {first} GROUP BY id HAVING count(*) <> 2");
        while !control.readers_stop.load(Ordering::SeqCst) {
            if !session.connect_until(Instant::now() + CONNECT_MAX) {
                continue;
            }
            let looked = session.strings(&sql);
            control.looks.fetch_add(usize::from(looked.is_ok()), Ordering::SeqCst);
            let mut seen = lock(seen);
            match looked {
                Ok(rows) if rows.is_empty() => seen.looks += 1,
                Ok(rows) => {
                    seen.halves.extend(rows.into_iter().map(|row| format!("pair {} at key {}", row[0], row[1])))
                }
                Err(error) => seen.errors.push(error),
            }
        }
    }

    /// Asks the datanodes themselves, when all is quiet: acknowledged pairs are there once, refused ones are not, unknown
    /// ones are whole or not there.
    ///
    /// # Errors
    /// Everything that does not agree.
    pub fn audit(&self, cluster: &Cluster, seen: &Seen) -> Result<()> {
        let mut found: HashMap<u64, Vec<i32>> = HashMap::new();
        for node in 0..cluster.datanodes().len() {
            for row in cluster.connect_datanode(node)?.strings("SELECT id, key FROM pair")? {
                let numbers = (row[0].parse(), row[1].parse());
                let (Ok(id), Ok(key)) = numbers else { return Err(failure(format!("not a row of pair: {row:?}"))) };
                found.entry(id).or_default().push(key);
            }
        }
        let mut wrong = Vec::new();
        for (id, outcome) in &seen.outcomes {
            let mut keys = found.remove(id).unwrap_or_default();
            keys.sort_unstable();
            let mut both = self.keys;
            both.sort_unstable();
            let fits = match outcome {
                Outcome::Committed => keys == both,
                Outcome::Refused => keys.is_empty(),
                Outcome::Unknown => keys.is_empty() || keys == both,
            };
            if !fits {
                wrong.push(format!("pair {id}, {outcome:?}, has rows at keys {keys:?}"));
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(failure(wrong.join("\n"))) }
    }
}

/// What is left prepared, [`aftermath`] commits in the end.
fn commit_in_two_phases(session: &mut Session, id: u64) -> (Outcome, Option<PgError>) {
    let name = aftermath::user_gid(id);
    let (verb, outcome) =
        if id.is_multiple_of(4) { ("ROLLBACK", Outcome::Refused) } else { ("COMMIT", Outcome::Committed) };
    let prepared = session.run(&format!("PREPARE TRANSACTION '{name}'"));
    match prepared.and_then(|_| session.run(&format!("{verb} PREPARED '{name}'"))) {
        Ok(_) => (outcome, None),
        Err(error) => (Outcome::Unknown, Some(error)),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
