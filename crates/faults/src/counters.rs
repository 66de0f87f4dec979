//! Two tests of the order of single observations.
//!
//! *Long fork*: two counters on two datanodes are counted up independently, through different coordinators. A session that reads
//! both in one snapshot gets a pair; of any two such pairs one must be the older in both counters. If one reader saw the first
//! counter's step without the second's and another one the opposite, no order of commits explains both.
//!
//! *Monotonic reads*: one transaction sets both counters to the same new number. A session that reads one after the other
//! must never get a smaller number than before, wherever they are.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pgerror::Result;
use testkit::Cluster;

use crate::processes::failure;
use crate::session::Session;
use crate::tables;
use crate::until::Until;

/// A test looks until it has seen so many different values.
pub const VALUES_MIN: usize = 30;

/// The counters' table, and a key on each of two datanodes.
#[derive(Debug)]
pub struct Counters {
    keys: [i32; 2],
}

/// What was seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// How often it was looked.
    pub looks: usize,
    /// Different values seen: if there are few, little was tested.
    pub values: usize,
    /// Observations that contradict each other.
    pub wrong: Vec<String>,
}

impl Counters {
    /// Makes the table, in place of one of an earlier run.
    ///
    /// # Errors
    /// A statement's; or there are no two datanodes.
    pub fn create(cluster: &Cluster) -> Result<Self> {
        tables::create(cluster, "counter", "key int PRIMARY KEY, n bigint NOT NULL", "key")?;
        Ok(Self { keys: tables::keys_apart(cluster, "counter", "SELECT k, 0")? })
    }

    /// Reads both counters in one statement, and in two of one REPEATABLE READ block, while each is counted up.
    ///
    /// # Errors
    /// Any session's: nothing is killed here.
    pub fn long_fork(&self, cluster: &Cluster, duration: Duration, setup: &str) -> Result<Seen> {
        let ports = cluster.coordinators();
        let watch = Watch::new(duration);
        let pairs = Mutex::new(BTreeSet::new());
        std::thread::scope(|scope| {
            let writers = [0, 1].map(|i| {
                let (watch, key, port) = (&watch, self.keys[i], ports[i % ports.len()]);
                scope.spawn(move || watch.count_up(Session::new(port, setup), key))
            });
            let readers = [0, 1, 2, 3].map(|i| {
                let (watch, pairs, port) = (&watch, &pairs, ports[i % ports.len()]);
                scope.spawn(move || self.read_pairs(Session::new(port, setup), i / 2 == 0, watch, pairs))
            });
            let ends = readers.into_iter().chain(writers).map(|thread| thread.join().expect("no panic"));
            ends.collect::<Vec<_>>().into_iter().collect::<Result<()>>()
        })?;
        let pairs = pairs.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        let forks = pairs.iter().zip(pairs.iter().skip(1)).filter(|(older, newer)| older.1 > newer.1);
        let wrong = forks.map(|(older, newer)| format!("one reader saw {older:?}, another {newer:?}")).collect();
        Ok(Seen { looks: watch.looks.into_inner(), values: pairs.len(), wrong })
    }

    fn read_pairs(
        &self,
        mut session: Session,
        in_one: bool,
        watch: &Watch,
        pairs: &Mutex<BTreeSet<(i64, i64)>>,
    ) -> Result<()> {
        let [one, other] = self.keys;
        while watch.goes_on() {
            let pair = match in_one {
                true => {
                    let sql = format!("SELECT n FROM counter WHERE key IN ({one}, {other}) ORDER BY key = {other}");
                    let rows = session.strings(&sql)?;
                    (parse(&rows[0][0])?, parse(&rows[1][0])?)
                }
                false => {
                    session.run("BEGIN ISOLATION LEVEL REPEATABLE READ")?;
                    let read = |session: &mut Session, key| {
                        session.number(&format!("SELECT n FROM counter WHERE key = {key}"))
                    };
                    let pair = (read(&mut session, one)?, read(&mut session, other)?);
                    session.run("COMMIT")?;
                    pair
                }
            };
            let is_new = pairs.lock().unwrap_or_else(PoisonError::into_inner).insert(pair);
            watch.note(is_new);
        }
        Ok(())
    }

    /// Sessions read the counters in turn, each by itself, while transactions count up both at once.
    ///
    /// # Errors
    /// Any session's: nothing is killed here.
    pub fn monotonic_reads(&self, cluster: &Cluster, duration: Duration, setup: &str) -> Result<Seen> {
        let ports = cluster.coordinators();
        let watch = &Watch::new(duration);
        cluster.connect(0)?.run("UPDATE counter SET n = 0")?;
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| self.count_both(Session::new(ports[0], setup), watch));
            let readers = [0, 1, 2, 3].map(|i| {
                let port = ports[i % ports.len()];
                scope.spawn(move || self.read_in_turn(Session::new(port, setup), i / 2 == 0, watch))
            });
            let mut wrong = Vec::new();
            for reader in readers {
                wrong.extend(reader.join().expect("a reader does not panic")?);
            }
            writer.join().expect("the writer does not panic")?;
            let [looks, values] = [&watch.looks, &watch.values].map(|count| count.load(Ordering::SeqCst));
            Ok(Seen { looks, values, wrong })
        })
    }

    fn count_both(&self, mut session: Session, watch: &Watch) -> Result<()> {
        // The first one written is the commit point: each datanode is it in turn.
        let [one, other] = self.keys;
        for turn in 0.. {
            if !watch.goes_on() {
                break;
            }
            let order = if turn % 2 == 0 { [one, other] } else { [other, one] };
            session.run("BEGIN")?;
            for key in order {
                session.run(&format!("UPDATE counter SET n = n + 1 WHERE key = {key}"))?;
            }
            session.run("COMMIT")?;
        }
        Ok(())
    }

    fn read_in_turn(&self, mut session: Session, in_block: bool, watch: &Watch) -> Result<Vec<String>> {
        let (mut wrong, mut last) = (Vec::new(), 0);
        while watch.goes_on() {
            if in_block {
                session.run("BEGIN")?;
            }
            for key in self.keys {
                let now = session.number(&format!("SELECT n FROM counter WHERE key = {key}"))?;
                watch.note(now != last);
                if now < last {
                    wrong.push(format!("{now} at key {key} after {last} (block: {in_block})"));
                }
                last = now;
            }
            if in_block {
                session.run("COMMIT")?;
            }
        }
        Ok(wrong)
    }
}

/// What all of a test's threads look at: has enough been seen?
struct Watch {
    until: Until,
    looks: AtomicUsize,
    values: AtomicUsize,
}

impl Watch {
    fn new(duration: Duration) -> Self {
        Self { until: Until::new(duration), looks: AtomicUsize::default(), values: AtomicUsize::default() }
    }

    fn goes_on(&self) -> bool {
        self.until.goes_on(|| self.values.load(Ordering::SeqCst) >= VALUES_MIN)
    }

    fn note(&self, is_new: bool) {
        self.looks.fetch_add(1, Ordering::SeqCst);
        self.values.fetch_add(usize::from(is_new), Ordering::SeqCst);
    }

    fn count_up(&self, mut session: Session, key: i32) -> Result<()> {
        while self.goes_on() {
            session.run(&format!("UPDATE counter SET n = n + 1 WHERE key = {key}"))?;
        }
        Ok(())
    }
}

fn parse(text: &str) -> Result<i64> {
    text.parse().map_err(|_| failure(format!("not a number: {text}")))
}
