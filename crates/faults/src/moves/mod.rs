//! Rows that move between datanodes while others read and write them: one datanode is emptied and filled again, over and over.

use std::fmt;
use std::time::{Duration, Instant};

use pgerror::Result;
use testkit::Cluster;

use crate::processes::failure;
use crate::session::Session;

pub mod killed;

/// A rebalance of few rows is over so soon, also if its coordinator dies meanwhile.
const DONE_MAX: Duration = Duration::from_secs(60);
/// Between two looks at the journal.
const POLL: Duration = Duration::from_millis(50);

/// What has moved.
#[derive(Debug, Default)]
#[allow(missing_docs)]
pub struct Report {
    pub rebalances: usize,
    pub buckets: i64,
    pub rows: i64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rebalances moved {} buckets and {} rows", self.rebalances, self.buckets, self.rows)
    }
}

/// Empties the last datanode and fills it again while this is to go on. It holds its share of the rows when this returns.
///
/// # Errors
/// When a rebalance does not come to its end.
pub fn back_and_forth(cluster: &Cluster, goes_on: impl Fn() -> bool) -> Result<Report> {
    let last = format!("dn{}", cluster.datanodes().len());
    let mut sessions: Vec<Session> = cluster.coordinators().iter().map(|port| Session::new(*port, "")).collect();
    let mut report = Report::default();
    while goes_on() || report.rebalances % 2 == 1 {
        if report.rebalances % 2 == 0 {
            scatter(&mut sessions, &last)?;
        }
        let sql = match report.rebalances % 2 {
            0 => format!("ALTER CLUSTER REBALANCE WITHOUT NODE ({last})"),
            _ => "ALTER CLUSTER REBALANCE".to_owned(),
        };
        let (buckets, rows) = rebalance(&mut sessions, &sql)?;
        report.rebalances += 1;
        report.buckets += buckets;
        report.rows += rows;
    }
    Ok(report)
}

/// Has rows on the datanode that no bucket holds.
fn scatter(sessions: &mut [Session], node: &str) -> Result<()> {
    for sql in [
        "CREATE TABLE IF NOT EXISTS moved_scattered (k int) DISTRIBUTE BY ROUNDROBIN".to_owned(),
        format!("ALTER TABLE moved_scattered ADD NODE ({node})"),
        "INSERT INTO moved_scattered SELECT generate_series(1, 300)".to_owned(),
    ] {
        let deadline = Instant::now() + DONE_MAX;
        while let Err(error) = try_any(sessions, &sql) {
            if Instant::now() > deadline {
                return Err(error);
            }
            std::thread::sleep(POLL);
        }
    }
    Ok(())
}

fn try_any(sessions: &mut [Session], sql: &str) -> Result<()> {
    let mut refusal = failure("no session to try".to_owned());
    for session in sessions {
        match session.run(sql) {
            Ok(_) => return Ok(()),
            Err(error) => {
                session.abandon();
                refusal = error;
            }
        }
    }
    Err(refusal)
}

/// Asks for it until somebody takes it down, and waits for its end.
fn rebalance(sessions: &mut [Session], sql: &str) -> Result<(i64, i64)> {
    let deadline = Instant::now() + DONE_MAX;
    let mut asked = false;
    let mut last = String::new();
    while Instant::now() < deadline {
        for session in &mut *sessions {
            let looked = match asked {
                false => session.run(sql).map(|_| Vec::new()),
                true => session.strings("SELECT state, buckets_done, rows_moved, message FROM pgxc_rebalance"),
            };
            match looked {
                Ok(rows) => {
                    asked = true;
                    if let [state, buckets, moved, _] = rows.into_iter().next().unwrap_or_default().as_slice()
                        && state == "done"
                    {
                        return Ok((buckets.parse().unwrap_or(0), moved.parse().unwrap_or(0)));
                    }
                    break;
                }
                Err(error) => {
                    last = error.to_string();
                    session.abandon();
                }
            }
        }
        std::thread::sleep(POLL);
    }
    let shown = sessions[0].strings("SELECT * FROM pgxc_rebalance");
    Err(failure(format!("{sql}: not done within {} s; {shown:?} {last}", DONE_MAX.as_secs())))
}
