//! What the servers do while a load runs: where their COPYs wait and how many bytes each node has taken.
//!
//! Twice a second every datanode is asked for its own views, by way of a coordinator (`EXECUTE DIRECT`, which a superuser may), and
//! a stock server for its own. Who is not allowed to sees nothing, and the summary says so.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pgerror::Result;
use pgproto::Connection;

use crate::journal::{identifier, text};
use crate::options::literal;
use crate::session;

const EVERY: Duration = Duration::from_millis(500);

/// All COPYs into tables of one server, with what each waits for.
const COPIES: &str = "SELECT p.pid, p.bytes_processed, coalesce(a.wait_event_type, ''), coalesce(a.wait_event, '') \
                      FROM pg_catalog.pg_stat_progress_copy p JOIN pg_catalog.pg_stat_activity a USING (pid) \
                      WHERE p.command = 'COPY FROM'";

/// What a COPY on a datanode was seen at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// It computed.
    Processor,
    /// It waited for the next rows.
    Rows,
    /// It wrote WAL, or waited for those who did.
    Wal,
    /// It read or wrote data files.
    Disk,
    /// It waited for others.
    Locks,
    /// Something else.
    Other,
}

impl Wait {
    fn of(kind: &str, event: &str) -> Self {
        match kind {
            "" => Wait::Processor,
            "Client" if event == "ClientRead" => Wait::Rows,
            "IO" | "LWLock" if event.starts_with("WAL") || event.starts_with("Wal") => Wait::Wal,
            "IO" => Wait::Disk,
            "Lock" | "LWLock" | "BufferPin" => Wait::Locks,
            _ => Wait::Other,
        }
    }
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// How often a COPY was seen at what.
    pub waits: HashMap<Wait, u64>,
    /// Bytes that COPYs into each node were seen to process; in the nodes' order. A stock server has no name.
    pub nodes: Vec<(String, u64)>,
}

impl Seen {
    /// How often any COPY was seen.
    pub fn samples(&self) -> u64 {
        self.waits.values().sum()
    }

    /// Part of the COPYs' time.
    pub fn share(&self, wait: Wait) -> f64 {
        self.waits.get(&wait).copied().unwrap_or_default() as f64 / self.samples().max(1) as f64
    }
}

/// Shared by the task that looks and those who tell.
#[derive(Debug, Default)]
pub(crate) struct Monitor {
    seen: Mutex<Seen>,
}

impl Monitor {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn result(&self) -> Seen {
        self.seen().clone()
    }

    /// `dn1 12, dn2 13` in megabytes a second; empty if nothing is known.
    pub(crate) fn rates(&self, seconds: f64) -> String {
        let seen = self.seen();
        let one = |(name, bytes): &(String, u64)| format!("{name} {:.0}", *bytes as f64 / 1e6 / seconds.max(1e-3));
        match seen.nodes.len() {
            0 | 1 => String::new(),
            _ => seen.nodes.iter().map(one).collect::<Vec<_>>().join(", "),
        }
    }

    /// Looks until the future is dropped, or nothing can be seen.
    pub(crate) async fn watch(&self, uri: &str) -> Infallible {
        // That it cannot look is no reason for the load to fail.
        if let Ok(mut connection) = session::connect(uri).await {
            let _ = self.look_on(&mut connection).await;
        }
        std::future::pending().await
    }

    async fn look_on(&self, connection: &mut Connection) -> Result<()> {
        let nodes = nodes(connection).await?;
        // What each backend had processed when it was seen last.
        let mut before: Vec<HashMap<String, u64>> = vec![HashMap::new(); nodes.len()];
        let mut tick = tokio::time::interval(EVERY);
        loop {
            tick.tick().await;
            for (index, name) in nodes.iter().enumerate() {
                let rows = connection.query_rows(&query(name)).await?;
                let now: Vec<(String, u64, Wait)> = rows
                    .iter()
                    .map(|row| {
                        let bytes = text(row, 1)?.parse().unwrap_or_default();
                        Ok((text(row, 0)?, bytes, Wait::of(&text(row, 2)?, &text(row, 3)?)))
                    })
                    .collect::<Result<_>>()?;
                let mut seen = self.seen();
                if seen.nodes.is_empty() {
                    seen.nodes = nodes.iter().map(|name| (name.clone(), 0)).collect();
                }
                for (pid, bytes, wait) in &now {
                    *seen.waits.entry(*wait).or_default() += 1;
                    // The next COPY of the same session begins at zero.
                    let known = before[index].get(pid).copied().filter(|known| known <= bytes).unwrap_or(0);
                    seen.nodes[index].1 += bytes - known;
                }
                before[index] = now.into_iter().map(|(pid, bytes, _)| (pid, bytes)).collect();
            }
        }
    }
}

/// The datanodes; of a stock server one without a name.
async fn nodes(connection: &mut Connection) -> Result<Vec<String>> {
    if session::value(connection, "SELECT to_regclass('pg_catalog.pgxc_node') IS NOT NULL").await? != "t" {
        return Ok(vec![String::new()]);
    }
    let sql = "SELECT node_name FROM pg_catalog.pgxc_node WHERE node_type = 'D' ORDER BY node_name";
    connection.query_rows(sql).await?.iter().map(|row| text(row, 0)).collect()
}

fn query(node: &str) -> String {
    match node.is_empty() {
        true => COPIES.to_owned(),
        false => format!("EXECUTE DIRECT ON ({}) {}", identifier(node), literal(COPIES)),
    }
}
