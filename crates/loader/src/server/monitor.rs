//! What the servers do while a load runs: where the COPYs into its table wait and how many bytes each node has taken.
//!
//! Twice a second every datanode is asked for its own views, by way of a coordinator (`EXECUTE DIRECT`, which a superuser may), and
//! a stock server for its own. A user without that right sees nothing, and the summary says so.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pgerror::Result;
use pgproto::Connection;

use crate::options::literal;
use crate::server::session;
use crate::server::sql::{identifier, text};

const EVERY: Duration = Duration::from_millis(500);

/// The COPYs into a table of one server, with what each waits for.
fn copies(table: &str) -> String {
    format!(
        "SELECT p.pid, p.bytes_processed, coalesce(a.wait_event_type, ''), coalesce(a.wait_event, '') \
         FROM pg_catalog.pg_stat_progress_copy p JOIN pg_catalog.pg_stat_activity a ON a.pid OPERATOR(pg_catalog.=) p.pid \
         WHERE p.command OPERATOR(pg_catalog.=) 'COPY FROM' AND p.relid OPERATOR(pg_catalog.=) pg_catalog.to_regclass({})",
        literal(table)
    )
}

/// What a COPY on a datanode was seen at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// It computed.
    Processor,
    /// It waited for the next rows.
    Rows,
    /// It wrote WAL, or waited for others that did.
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
    /// In the nodes' order.
    pub nodes: Vec<Intake>,
}

/// What COPYs into one node were seen to process.
#[derive(Clone, Debug, Default)]
pub struct Intake {
    /// A stock server has none.
    pub name: String,
    bytes: u64,
    seconds: f64,
}

impl Intake {
    /// Megabytes a second; `None` if no COPY was seen to go on from one look to the next.
    pub fn rate(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.bytes as f64 / 1e6 / self.seconds)
    }

    /// Two looks at a node, so many seconds apart. Where a COPY has begun or ended in between, nobody knows how much it has processed.
    fn add(&mut self, before: &HashMap<String, u64>, now: &HashMap<String, u64>, seconds: f64) {
        let goes_on = |(pid, bytes): (&String, &u64)| before.get(pid).is_some_and(|known| known <= bytes);
        if !now.is_empty() && now.len() == before.len() && now.iter().all(goes_on) {
            self.bytes += now.values().sum::<u64>() - before.values().sum::<u64>();
            self.seconds += seconds;
        }
    }
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

/// Shared by the task that takes samples and those that report them.
#[derive(Debug)]
pub(crate) struct Monitor {
    /// Schema and name, quoted.
    table: String,
    seen: Mutex<Seen>,
}

impl Monitor {
    pub(crate) fn of(schema: &str, relation: &str) -> Self {
        Self { table: format!("{}.{}", identifier(schema), identifier(relation)), seen: Mutex::default() }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn result(&self) -> Seen {
        self.seen().clone()
    }

    /// `dn1 12, dn2 13` in megabytes a second; empty if nothing is known.
    pub(crate) fn rates(&self) -> String {
        let seen = self.seen();
        let rates = seen.nodes.iter().filter_map(|node| Some(format!("{} {:.0}", node.name, node.rate()?)));
        match seen.nodes.len() {
            0 | 1 => String::new(),
            _ => rates.collect::<Vec<_>>().join(", "),
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
        let copies = copies(&self.table);
        self.seen().nodes = nodes.iter().map(|name| Intake { name: name.clone(), ..Intake::default() }).collect();
        // When each node was looked at last, and what each of its COPYs had processed.
        let mut before = vec![(Instant::now(), HashMap::new()); nodes.len()];
        let mut tick = tokio::time::interval(EVERY);
        loop {
            tick.tick().await;
            for (index, name) in nodes.iter().enumerate() {
                let rows = connection.query_rows(&query(name, &copies)).await?;
                let (looked, mut now) = (Instant::now(), HashMap::new());
                let mut seen = self.seen();
                for row in &rows {
                    *seen.waits.entry(Wait::of(&text(row, 2)?, &text(row, 3)?)).or_default() += 1;
                    now.insert(text(row, 0)?, text(row, 1)?.parse().unwrap_or_default());
                }
                let (looked_before, known) = &before[index];
                seen.nodes[index].add(known, &now, (looked - *looked_before).as_secs_f64());
                before[index] = (looked, now);
            }
        }
    }
}

/// The datanodes; of a stock server one without a name.
async fn nodes(connection: &mut Connection) -> Result<Vec<String>> {
    if session::value(connection, "SELECT pg_catalog.to_regclass('pg_catalog.pgxc_node') IS NOT NULL").await? != "t" {
        return Ok(vec![String::new()]);
    }
    let sql =
        "SELECT node_name FROM pg_catalog.pgxc_node WHERE node_type OPERATOR(pg_catalog.=) 'D' ORDER BY node_name";
    connection.query_rows(sql).await?.iter().map(|row| text(row, 0)).collect()
}

fn query(node: &str, copies: &str) -> String {
    match node.is_empty() {
        true => copies.to_owned(),
        false => format!("EXECUTE DIRECT ON ({}) {}", identifier(node), literal(copies)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_copies_that_went_on() {
        let looked = |copies: &[(&str, u64)]| copies.iter().map(|(pid, bytes)| (pid.to_string(), *bytes)).collect();
        let mut node = Intake::default();
        node.add(&looked(&[]), &looked(&[("1", 9_000_000)]), 1.0);
        assert_eq!(node.rate(), None);
        node.add(&looked(&[("1", 9_000_000), ("2", 0)]), &looked(&[("1", 11_000_000), ("2", 1_000_000)]), 0.5);
        // The next COPY of the same session; one more session; one less.
        node.add(&looked(&[("1", 11_000_000)]), &looked(&[("1", 5)]), 1.0);
        node.add(&looked(&[("1", 5)]), &looked(&[("1", 50_000_000), ("3", 5)]), 1.0);
        node.add(&looked(&[("1", 5), ("3", 5)]), &looked(&[("1", 50_000_000)]), 1.0);
        assert_eq!(node.rate(), Some(6.0));
    }
}
