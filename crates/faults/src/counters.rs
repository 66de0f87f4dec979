//! Two tests of the order of single observations.
//!
//! *Long fork*: two counters on two datanodes are counted up independently, through different coordinators. Whoever reads both in
//! one snapshot gets a pair; of any two such pairs one must be the older in both counters. If one reader saw the first
//! counter's step without the second's and another one the opposite, no order of commits explains both.
//!
//! *Monotonic reads*: one transaction sets both counters to the same new number. A session that reads one after the other
//! must never get a smaller number than before, wherever they are.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use pgerror::Result;
use testkit::Cluster;

use crate::processes::failure;
use crate::session::Session;
use crate::tables;

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
        let end = Instant::now() + duration;
        let ports = cluster.coordinators();
        let (pairs, looks) = std::thread::scope(|scope| -> Result<_> {
            let writers = [0, 1].map(|i| {
                let (key, port) = (self.keys[i], ports[i % ports.len()]);
                scope.spawn(move || count_up(Session::new(port, setup), key, end))
            });
            let readers = [0, 1, 2, 3].map(|i| {
                let port = ports[i % ports.len()];
                scope.spawn(move || self.read_pairs(Session::new(port, setup), i / 2 == 0, end))
            });
            let (mut pairs, mut looks) = (BTreeSet::new(), 0);
            for reader in readers {
                let seen = reader.join().expect("a reader does not panic")?;
                looks += seen.len();
                pairs.extend(seen);
            }
            for writer in writers {
                writer.join().expect("a writer does not panic")?;
            }
            Ok((pairs, looks))
        })?;
        let forks = pairs.iter().zip(pairs.iter().skip(1)).filter(|(older, newer)| older.1 > newer.1);
        let wrong = forks.map(|(older, newer)| format!("one reader saw {older:?}, another {newer:?}")).collect();
        Ok(Seen { looks, values: pairs.len(), wrong })
    }

    fn read_pairs(&self, mut session: Session, in_one: bool, end: Instant) -> Result<Vec<(i64, i64)>> {
        let [one, other] = self.keys;
        let mut pairs = Vec::new();
        while Instant::now() < end {
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
            pairs.push(pair);
        }
        Ok(pairs)
    }

    /// Sessions read the counters in turn, each by itself, while transactions count up both at once.
    ///
    /// # Errors
    /// Any session's: nothing is killed here.
    pub fn monotonic_reads(&self, cluster: &Cluster, duration: Duration, setup: &str) -> Result<Seen> {
        let end = Instant::now() + duration;
        let ports = cluster.coordinators();
        cluster.connect(0)?.run("UPDATE counter SET n = 0")?;
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| self.count_both(Session::new(ports[0], setup), end));
            let readers = [0, 1, 2, 3].map(|i| {
                let port = ports[i % ports.len()];
                scope.spawn(move || self.read_in_turn(Session::new(port, setup), i / 2 == 0, end))
            });
            let mut seen = Seen::default();
            for reader in readers {
                let one = reader.join().expect("a reader does not panic")?;
                seen.looks += one.looks;
                seen.values += one.values;
                seen.wrong.extend(one.wrong);
            }
            writer.join().expect("the writer does not panic")?;
            Ok(seen)
        })
    }

    fn count_both(&self, mut session: Session, end: Instant) -> Result<()> {
        // The first one written is the commit point: each datanode is it in turn.
        let [one, other] = self.keys;
        for turn in 0.. {
            if Instant::now() >= end {
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

    fn read_in_turn(&self, mut session: Session, in_block: bool, end: Instant) -> Result<Seen> {
        let (mut seen, mut last) = (Seen::default(), 0);
        while Instant::now() < end {
            if in_block {
                session.run("BEGIN")?;
            }
            for key in self.keys {
                let now = session.number(&format!("SELECT n FROM counter WHERE key = {key}"))?;
                seen.looks += 1;
                seen.values += usize::from(now != last);
                if now < last {
                    seen.wrong.push(format!("{now} at key {key} after {last} (block: {in_block})"));
                }
                last = now;
            }
            if in_block {
                session.run("COMMIT")?;
            }
        }
        Ok(seen)
    }
}

fn count_up(mut session: Session, key: i32, end: Instant) -> Result<()> {
    while Instant::now() < end {
        session.run(&format!("UPDATE counter SET n = n + 1 WHERE key = {key}"))?;
    }
    Ok(())
}

fn parse(text: &str) -> Result<i64> {
    text.parse().map_err(|_| failure(format!("not a number: {text}")))
}
