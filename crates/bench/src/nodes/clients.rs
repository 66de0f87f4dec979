//! Clients at the same time: a few writers, and a crowd far larger than the pools.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use pgerror::{PgError, Result};
use tokio::task::JoinSet;
use tokio_postgres::Client;

use super::NodesOptions;
use super::measure::timed;
use crate::load::Target;
use crate::tools::{cpu, sql};

/// Between two looks at the datanodes' connections.
const LOOK: Duration = Duration::from_millis(200);

/// What a crowd of clients has seen, and what it took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Crowd {
    /// Most connections of the coordinator to one datanode.
    pub connections: u64,
    /// Transactions over two datanodes, each with a sum over all.
    pub transactions_per_second: f64,
    /// Reads of one row, by the other half of the clients.
    pub reads_per_second: f64,
    /// Slowest of all statements.
    pub longest_ms: f64,
    /// Memory of all processes, while the clients were connected.
    pub memory_mib: f64,
}

/// Half of the clients move money between two datanodes and sum all accounts, the others read single rows; without a pause.
pub(super) async fn crowd(
    options: &NodesOptions,
    target: &Target,
    keys: &[Vec<u64>],
    processes: &[u32],
) -> Result<Crowd> {
    let uri = &target.coordinators[0];
    let clients = try_join_all((0..options.clients).map(|_| sql::connect(uri))).await?;
    let mut datanodes = try_join_all(target.datanodes.iter().map(|uri| sql::connect(uri))).await?;
    let (begun, end) = (Instant::now(), Duration::from_secs(u64::from(options.seconds)));
    let mut sessions = JoinSet::new();
    for (number, client) in clients.into_iter().enumerate() {
        let texts = match number % 2 {
            0 => transfer_and_sum(keys, number / 2),
            _ => vec![format!("SELECT v FROM bench_nodes WHERE k = {}", number as u64 * 977 % options.rows + 1)],
        };
        sessions.spawn(session(client, texts, begun, end));
    }
    let mut crowd = Crowd::default();
    while begun.elapsed() < end {
        crowd.connections = crowd.connections.max(most_connections(&mut datanodes).await?);
        tokio::time::sleep(LOOK).await;
    }
    let (mut transactions, mut reads) = (0, 0);
    crowd.memory_mib = cpu::tree_memory(processes)?;
    while let Some(ended) = sessions.join_next().await {
        let seen = ended.map_err(|error| PgError::internal(error.to_string()))??;
        *if seen.is_read { &mut reads } else { &mut transactions } += seen.rounds;
        crowd.longest_ms = crowd.longest_ms.max(seen.longest_ms);
    }
    let seconds = begun.elapsed().as_secs_f64();
    crowd.transactions_per_second = transactions as f64 / seconds;
    crowd.reads_per_second = reads as f64 / seconds;
    Ok(crowd)
}

/// Between two accounts on neighbouring datanodes that few others use; in the order of the keys, so that no two wait for each other.
fn transfer(keys: &[Vec<u64>], number: usize) -> Vec<String> {
    let key = |node: usize, n: usize| {
        let here = &keys[node % keys.len()];
        here[n % here.len()]
    };
    let (from, to) = (key(number, 2 * number), key(number + 1, 2 * number + 1));
    let change = |by: i32, key: u64| format!("UPDATE bench_nodes_account SET n = n + ({by}) WHERE k = {key}");
    let mut changes = [(from, change(-1, from)), (to, change(1, to))];
    changes.sort();
    let [(_, first), (_, second)] = changes;
    vec!["BEGIN".to_owned(), first, second, "COMMIT".to_owned()]
}

fn transfer_and_sum(keys: &[Vec<u64>], number: usize) -> Vec<String> {
    let mut texts = transfer(keys, number);
    texts.insert(1, "SELECT sum(n) FROM bench_nodes_account".to_owned());
    texts
}

struct Seen {
    is_read: bool,
    rounds: u64,
    longest_ms: f64,
}

/// Runs the statements again and again until the time is up. An error ends the benchmark: everybody must get an answer.
async fn session(client: Client, texts: Vec<String>, begun: Instant, end: Duration) -> Result<Seen> {
    let mut seen = Seen { is_read: texts.len() == 1, rounds: 0, longest_ms: 0.0 };
    while begun.elapsed() < end {
        for text in &texts {
            seen.longest_ms = timed(&client, text).await?.max(seen.longest_ms);
        }
        seen.rounds += 1;
    }
    Ok(seen)
}

/// Without the gtm's and ours.
async fn most_connections(datanodes: &mut [Client]) -> Result<u64> {
    let count = "SELECT count(*) FROM pg_stat_activity \
                 WHERE backend_type = 'client backend' AND application_name <> 'loxo gtm' AND pid <> pg_backend_pid()";
    let counts = try_join_all(datanodes.iter().map(|datanode| sql::number(datanode, count))).await?;
    Ok(counts.into_iter().max().unwrap_or_default())
}

/// Sessions that move money between two datanodes without a pause; the drop ends them.
pub(super) struct Writers {
    stop: Arc<AtomicBool>,
    sessions: JoinSet<Result<()>>,
}

impl Writers {
    pub(super) async fn start(uri: &str, keys: &[Vec<u64>], number: usize) -> Result<Self> {
        let (stop, mut sessions) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
        for n in 0..number {
            let (client, stop, texts) = (sql::connect(uri).await?, stop.clone(), transfer(keys, n));
            sessions.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    for text in &texts {
                        sql::run(&client, text).await?;
                    }
                }
                Ok(())
            });
        }
        Ok(Self { stop, sessions })
    }

    pub(super) async fn stop(mut self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.sessions.join_next().await {
            ended.map_err(|error| PgError::internal(error.to_string()))??;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_locks_accounts_in_their_order() {
        let texts = transfer(&[vec![7, 9], vec![3, 4]], 0);
        assert!(texts[1].ends_with("k = 4") && texts[2].ends_with("k = 7"), "{texts:?}");
        // One datanode has both.
        let texts = transfer(&[vec![5, 6]], 1);
        assert!(texts[1].ends_with("n + (-1) WHERE k = 5") && texts[2].ends_with("n + (1) WHERE k = 6"), "{texts:?}");
    }
}
