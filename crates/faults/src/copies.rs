//! Replicated tables: whatever happens, all datanodes hold the same rows, and the same as a distributed table beside them.
//!
//! `original` is distributed by hash, `copied` and `noted` are replicated. A count in `original` and the one in `copied` change
//! in the same transaction, so in every snapshot they agree, whichever datanode's copy is read. The other changes of the
//! copies depend on the rows they find (predicates, `ON CONFLICT`, `INSERT … SELECT count(*)`): if two coordinators'
//! statements could meet in different orders on two datanodes, the copies would part.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pgerror::{PgError, Result};
use testkit::{Cluster, Rng};

use crate::processes::failure;
use crate::session::{Outcome, Session};
use crate::tables;
use crate::until::Until;

const KEYS: usize = 12;
/// Run in each session: waits in a circle over several datanodes end by it.
const SETUP: &str = "SET lock_timeout = '300ms'";
const WRITERS: usize = 4;
const READERS: usize = 2;
/// Shown of what is wrong.
const SHOWN_MAX: usize = 5;

/// What was done and seen.
#[derive(Debug, Default)]
#[allow(missing_docs)]
pub struct Report {
    pub committed: usize,
    /// Observations of both tables that agreed.
    pub looks: usize,
    /// And that did not.
    pub wrong: Vec<String>,
    /// Errors by SQLSTATE, with the first one's text.
    pub errors: BTreeMap<String, (usize, String)>,
}

impl Report {
    /// With less, nobody would have met anybody.
    pub fn is_enough(&self) -> bool {
        self.committed > 20 && self.looks > 20
    }

    fn tell(&mut self, error: &PgError) {
        let entry = self.errors.entry(error.code().to_string()).or_insert((0, error.message().into_owned()));
        entry.0 += 1;
    }
}

/// Makes the tables, in place of those of an earlier run.
///
/// # Errors
/// A statement's.
pub fn create(cluster: &Cluster) -> Result<()> {
    tables::create(cluster, "original", "key int PRIMARY KEY, n bigint NOT NULL", "key")?;
    tables::create_replicated(cluster, "copied", "key int PRIMARY KEY, n bigint NOT NULL, m bigint NOT NULL")?;
    tables::create_replicated(cluster, "noted", "id bigint PRIMARY KEY, seen bigint NOT NULL")?;
    let mut client = cluster.connect(0)?;
    client.run(&format!("INSERT INTO original SELECT k, 0 FROM generate_series(1, {KEYS}) k"))?;
    client.run(&format!("INSERT INTO copied SELECT k, 0, k FROM generate_series(1, {KEYS}) k")).map(drop)
}

/// Writers and readers through all coordinators for the time asked for, and until they have done enough, while `meanwhile` runs in this thread.
pub fn run<T>(cluster: &Cluster, duration: Duration, seed: u64, meanwhile: impl FnOnce(Instant) -> T) -> (Report, T) {
    let until = Until::new(duration);
    let work = Work { until, next_id: AtomicU64::new(1), report: Mutex::new(Report::default()) };
    let ports = cluster.coordinators();
    let result = std::thread::scope(|scope| {
        for number in 0..WRITERS + READERS {
            let (work, session) = (&work, Session::new(ports[number % ports.len()], SETUP));
            let rng = Rng::new(seed ^ ((number as u64 + 1) << 33));
            scope.spawn(move || match number < WRITERS {
                true => work.write(session, rng),
                false => work.read(session),
            });
        }
        meanwhile(until.end)
    });
    (work.report.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()), result)
}

/// Compares the datanodes, when all is quiet.
///
/// # Errors
/// The first rows that differ.
pub fn audit(cluster: &Cluster) -> Result<()> {
    let mut counts = Vec::new();
    for table in ["copied", "noted"] {
        let dump = |node: usize| cluster.connect_datanode(node)?.strings(&format!("SELECT * FROM {table} ORDER BY 1"));
        let first = dump(0)?;
        for node in 1..cluster.datanodes().len() {
            let other = dump(node)?;
            if other != first {
                let differ = first.iter().zip(&other).find(|(one, other)| one != other);
                return Err(failure(format!(
                    "the copies of {table} differ: {} rows on the first datanode, {} on datanode {node}; first: {differ:?}",
                    first.len(),
                    other.len()
                )));
            }
        }
        counts.push(first);
    }
    let copied: Vec<Vec<String>> = counts.swap_remove(0).into_iter().map(|row| row[..2].to_vec()).collect();
    let original = cluster.connect(0)?.strings("SELECT key, n FROM original ORDER BY key")?;
    let differ = original.iter().zip(&copied).find(|(original, copy)| original != copy);
    match differ {
        Some(differ) => Err(failure(format!("a count and its copy differ: {differ:?}"))),
        None if original.len() != copied.len() => Err(failure("a count or its copy is gone".to_owned())),
        None => Ok(()),
    }
}

struct Work {
    until: Until,
    next_id: AtomicU64,
    report: Mutex<Report>,
}

impl Work {
    fn report(&self, change: impl FnOnce(&mut Report)) {
        change(&mut self.report.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
    }

    fn goes_on(&self) -> bool {
        self.until.goes_on(|| self.report.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).is_enough())
    }

    fn write(&self, mut session: Session, mut rng: Rng) {
        while self.goes_on() && session.connect_until(self.until.latest) {
            let (outcome, error) = self.change(&mut session, &mut rng);
            if outcome != Outcome::Committed {
                session.abandon();
            }
            self.report(|report| {
                report.committed += usize::from(outcome == Outcome::Committed);
                error.iter().for_each(|error| report.tell(error));
            });
        }
    }

    fn change(&self, session: &mut Session, rng: &mut Rng) -> (Outcome, Option<PgError>) {
        let (key, rest, id) = (1 + rng.below(KEYS), rng.below(3), self.next_id.fetch_add(1, Ordering::Relaxed));
        let single = match rng.below(8) {
            0 => format!("UPDATE copied SET m = (m * 2 + 1) % 1000003 WHERE (m + key) % 3 = {rest}"),
            1 => format!(
                "INSERT INTO copied VALUES ({key}, 0, 0) ON CONFLICT (key) DO UPDATE SET m = (copied.m * 3 + 1) % 1000003"
            ),
            2 => format!("INSERT INTO noted SELECT {id}, count(*) FROM noted"),
            3 => format!("DELETE FROM noted WHERE id % 3 = {rest} AND seen % 3 > 0"),
            _ => return counted(session, rng, key),
        };
        session.commit(&single)
    }

    fn read(&self, mut session: Session) {
        let sql = "SELECT count(*), coalesce(min(o.key), 0) FROM original o JOIN copied c USING (key) WHERE o.n <> c.n";
        while self.goes_on() && session.connect_until(self.until.latest) {
            let seen = session.strings(sql);
            self.report(|report| match &seen {
                Ok(rows) if rows.iter().all(|row| row[0] == "0") => report.looks += 1,
                Ok(rows) if report.wrong.len() < SHOWN_MAX => {
                    report.wrong.push(format!("a count is not its copy: {rows:?}"))
                }
                Ok(_) => {}
                Err(error) => report.tell(error),
            });
            if seen.is_err() {
                session.abandon();
            }
        }
    }
}

/// Counts one up in both tables.
fn counted(session: &mut Session, rng: &mut Rng, key: usize) -> (Outcome, Option<PgError>) {
    let level = ["READ COMMITTED", "REPEATABLE READ"][usize::from(rng.one_in(4))];
    let statements = [
        format!("BEGIN ISOLATION LEVEL {level}"),
        format!("UPDATE original SET n = n + 1 WHERE key = {key}"),
        format!("UPDATE copied SET n = n + 1 WHERE key = {key}"),
    ];
    for sql in &statements {
        if let Err(error) = session.run(sql) {
            return (Outcome::Refused, Some(error));
        }
    }
    session.commit("COMMIT")
}
