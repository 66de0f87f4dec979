//! One cluster, one figure after the other.

use std::time::Instant;

use bytes::Bytes;
use futures_util::SinkExt;
use futures_util::future::try_join_all;
use pgerror::{PgError, Result};
use tokio_postgres::Client;

use super::NodesOptions;
use super::clients::{Writers, crowd};
use crate::load::Target;
use crate::suite::Readings;
use crate::tools::stats::median;
use crate::tools::{cpu, sql};

/// Sessions that write while snapshots are measured.
const WRITERS: usize = 4;
/// Queries that take long are run so many times less often.
const PER_LONG: usize = 5;
const BLOCK_BYTES: usize = 256 << 10;

const TABLES: &str = "\
DROP TABLE IF EXISTS bench_nodes, bench_nodes_account;
CREATE TABLE bench_nodes (k bigint PRIMARY KEY, v bigint, n int, pad text) DISTRIBUTE BY HASH (k);
CREATE TABLE bench_nodes_account (k int PRIMARY KEY, n bigint) DISTRIBUTE BY HASH (k);
INSERT INTO bench_nodes_account SELECT g, 1000 FROM generate_series(1, 10000) g";

const SUM: &str = "SELECT sum(n) FROM bench_nodes_account";

/// A tenth of the rows looks for its partners on other nodes.
const JOIN: &str = "SELECT count(*) FROM bench_nodes a JOIN bench_nodes b ON a.k = b.v WHERE b.n < 10";

pub(super) async fn measure(options: &NodesOptions, target: &Target) -> Result<Readings> {
    let processes = cpu::find(&target.dir, &["coordinator", "gtm", "-D"])?;
    let (bench, statements) = (Bench::prepare(options, target).await?, options.statements);
    let mut readings = Readings::default()
        .figure("memory_mib", cpu::tree_memory(&processes)?)
        .figure("copy_rows_per_s", bench.copy().await?)
        .figure("point_ms", bench.median_of(statements, |n| bench.point_read(n)).await?)
        .figure("sum_ms", bench.median_of(statements, |_| SUM.to_owned()).await?)
        .figure("join_ms", bench.median_of(statements.div_ceil(PER_LONG), |_| JOIN.to_owned()).await?);
    let one_each: Vec<u64> = bench.keys.iter().map(|keys| keys[0]).collect();
    if let [one, other, ..] = one_each[..] {
        readings = readings.figure("commit_two_ms", bench.commit(&[one, other]).await?);
    }
    readings = readings.figure("commit_all_ms", bench.commit(&one_each).await?).figure("ddl_ms", bench.ddl().await?);
    let (local, consistent) = bench.snapshots().await?;
    let crowd = crowd(options, target, &bench.keys, &processes).await?;
    let money = sql::number(&bench.client, SUM).await?;
    let changes = bench.changes.get() + 10_000 * 1000;
    if money != changes {
        return Err(PgError::internal(format!("the accounts hold {money} and not {changes}")));
    }
    sql::run(&bench.client, "DROP TABLE bench_nodes, bench_nodes_account").await?;
    Ok(readings
        .figure("local_ms", local)
        .figure("consistent_ms", consistent)
        .figure("snapshot_ms", consistent - local)
        .figure("connections", crowd.connections as f64)
        .figure("transactions_per_s", crowd.transactions_per_second)
        .figure("reads_per_s", crowd.reads_per_second)
        .figure("longest_ms", crowd.longest_ms)
        .figure("memory_clients_mib", crowd.memory_mib))
}

struct Bench<'a> {
    options: &'a NodesOptions,
    target: &'a Target,
    client: Client,
    /// Accounts by datanode.
    keys: Vec<Vec<u64>>,
    /// What was added to accounts, and not taken from others.
    changes: std::cell::Cell<u64>,
}

impl<'a> Bench<'a> {
    async fn prepare(options: &'a NodesOptions, target: &'a Target) -> Result<Self> {
        let client = sql::connect(&target.coordinators[0]).await?;
        for command in TABLES.split(';') {
            sql::run(&client, command).await?;
        }
        let here = async |uri: &String| {
            let datanode = sql::connect(uri).await?;
            let rows = sql::table(&datanode, "SELECT k FROM bench_nodes_account ORDER BY k").await?;
            let keys: Vec<u64> = rows.iter().skip(1).filter_map(|row| row.first()?.parse().ok()).collect();
            match keys.is_empty() {
                true => Err(PgError::internal(format!("there are no accounts at {uri}"))),
                false => Ok(keys),
            }
        };
        let keys = try_join_all(target.datanodes.iter().map(here)).await?;
        Ok(Self { options, target, client, keys, changes: std::cell::Cell::default() })
    }

    /// Rows a second; made before the clock runs.
    async fn copy(&self) -> Result<f64> {
        let rows = self.options.rows;
        let mut blocks = vec![Vec::with_capacity(BLOCK_BYTES)];
        for k in 1..=rows {
            let line = format!("{k}\t{}\t{}\tsome text of a row\n", k * 7919 % rows + 1, k % 100);
            if blocks.last().is_some_and(|block: &Vec<u8>| block.len() + line.len() > BLOCK_BYTES) {
                blocks.push(Vec::with_capacity(BLOCK_BYTES));
            }
            blocks.last_mut().expect("one at least").extend_from_slice(line.as_bytes());
        }
        let started = Instant::now();
        let copy = self.client.copy_in::<_, Bytes>("COPY bench_nodes FROM STDIN").await.map_err(sql::error)?;
        let mut sink = Box::pin(copy);
        for block in blocks {
            sink.send(block.into()).await.map_err(sql::error)?;
        }
        let copied = sink.as_mut().finish().await.map_err(sql::error)?;
        let seconds = started.elapsed().as_secs_f64();
        if copied != rows {
            return Err(PgError::internal(format!("{copied} of {rows} rows were loaded")));
        }
        sql::run(&self.client, "ANALYZE bench_nodes").await?;
        sql::run(&self.client, "ANALYZE bench_nodes_account").await?;
        Ok(rows as f64 / seconds)
    }

    fn point_read(&self, n: usize) -> String {
        format!("SELECT v FROM bench_nodes WHERE k = {}", n as u64 * 7919 % self.options.rows + 1)
    }

    /// Milliseconds. The first run, which opens connections and plans, does not count.
    async fn median_of(&self, rounds: usize, text: impl Fn(usize) -> String) -> Result<f64> {
        let mut times = Vec::with_capacity(rounds);
        for n in 0..=rounds {
            times.push(timed(&self.client, &text(n)).await?);
        }
        Ok(median(&times[1..]))
    }

    /// Milliseconds of the COMMIT of a transaction that has changed these accounts.
    async fn commit(&self, keys: &[u64]) -> Result<f64> {
        let list: Vec<String> = keys.iter().map(u64::to_string).collect();
        let update = format!("UPDATE bench_nodes_account SET n = n + 1 WHERE k IN ({})", list.join(", "));
        let mut times = Vec::with_capacity(self.options.statements);
        for _ in 0..self.options.statements {
            sql::run(&self.client, "BEGIN").await?;
            sql::run(&self.client, &update).await?;
            times.push(timed(&self.client, "COMMIT").await?);
            self.changes.set(self.changes.get() + keys.len() as u64);
        }
        Ok(median(&times))
    }

    /// CREATE TABLE and DROP TABLE.
    async fn ddl(&self) -> Result<f64> {
        let mut times = Vec::new();
        for _ in 0..self.options.statements.div_ceil(PER_LONG) {
            let created = timed(&self.client, "CREATE TABLE bench_nodes_new (k int PRIMARY KEY, v text)").await?;
            times.push(created + timed(&self.client, "DROP TABLE bench_nodes_new").await?);
        }
        Ok(median(&times))
    }

    /// The sum over all accounts without and with a consistent snapshot, by turns, while others write.
    async fn snapshots(&self) -> Result<(f64, f64)> {
        let writers = Writers::start(&self.target.coordinators[0], &self.keys, WRITERS).await?;
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..self.options.statements {
            for (mode, times) in ["local", "consistent"].into_iter().zip(&mut times) {
                sql::run(&self.client, &format!("SET loxo.snapshot = {mode}")).await?;
                times.push(timed(&self.client, SUM).await?);
            }
        }
        writers.stop().await?;
        Ok((median(&times[0]), median(&times[1])))
    }
}

/// Milliseconds.
pub(super) async fn timed(client: &Client, text: &str) -> Result<f64> {
    let started = Instant::now();
    sql::run(client, text).await?;
    Ok(started.elapsed().as_secs_f64() * 1000.0)
}
