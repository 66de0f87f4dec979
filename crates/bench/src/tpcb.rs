//! `loxo bench tpcb`: pgbench's TPC-B-like transactions through a coordinator against the same pgbench straight to one stock
//! server.
//!
//! All tables are distributed by the branch, and every statement names its branch, so a transaction stays on one datanode:
//! what is measured is the way through the coordinator. (pgbench's own script has no branch in the WHERE of its
//! account; Postgres-XL's `pgbench -k` added it for the same reason.) Both sides get the same script, the same rows
//! and the same settings, and take turns (A B A B …); medians are compared. The processor seconds of servers
//! and coordinators are told beside, because on a busy machine they say more than transactions per second.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pgerror::{PgError, Result, SqlState};
use tokio_postgres::Client;

use crate::load::{Target, interruptible};
use crate::report::{TpcbMeasured, TpcbReport};
use crate::tools::cpu;
use crate::tools::sql;
use crate::tools::stock::{Pattern, StockServer, WorkDir};

/// Not pgbench's own names: a benchmark must not drop somebody's tables.
const TABLES: [(&str, &str); 4] = [
    ("bench_branches", "bid int PRIMARY KEY, bbalance int, filler char(88)"),
    ("bench_tellers", "tid int, bid int, tbalance int, filler char(84), PRIMARY KEY (tid, bid)"),
    ("bench_accounts", "aid int, bid int, abalance int, filler char(84), PRIMARY KEY (aid, bid)"),
    ("bench_history", "tid int, bid int, aid int, delta int, mtime timestamp, filler char(22)"),
];

const TRANSACTION: &str = "\
\\set bid random(1, :scale)
\\set aid (:bid - 1) * 100000 + random(1, 100000)
\\set tid (:bid - 1) * 10 + random(1, 10)
\\set delta random(-5000, 5000)
BEGIN;
UPDATE bench_accounts SET abalance = abalance + :delta WHERE aid = :aid AND bid = :bid;
SELECT abalance FROM bench_accounts WHERE aid = :aid AND bid = :bid;
UPDATE bench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid AND bid = :bid;
UPDATE bench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO bench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
";

const SELECT_ONLY: &str = "\
\\set bid random(1, :scale)
\\set aid (:bid - 1) * 100000 + random(1, 100000)
SELECT abalance FROM bench_accounts WHERE aid = :aid AND bid = :bid;
";

/// How pgbench sends its statements (`-M`).
pub const MODES: [&str; 3] = ["simple", "extended", "prepared"];

/// What to measure.
#[derive(Clone, Debug)]
pub struct TpcbOptions {
    /// Branches; 100,000 accounts each.
    pub scale: u32,
    /// Connections of pgbench.
    pub clients: u32,
    /// Seconds of one run.
    pub seconds: u32,
    /// Rounds a side; odd, for a real median.
    pub rounds: usize,
    /// Some of [`MODES`].
    pub modes: Vec<String>,
    /// Only read accounts, each in a transaction of its own.
    pub select_only: bool,
}

/// Runs the benchmark on the cluster that `start` brings up (or finds running).
///
/// # Errors
/// A server's or pgbench's error, or SQLSTATE 57014 after Ctrl-C; servers started here are stopped in any case.
pub async fn run(options: &TpcbOptions, start: impl AsyncFnOnce() -> Result<Target>) -> Result<TpcbReport> {
    let target = start().await?;
    interruptible(measure(options, &target)).await
}

/// Field order is drop order: the server stops before its directory goes.
struct Bench<'a> {
    options: &'a TpcbOptions,
    pgbench: PathBuf,
    script: PathBuf,
    stock: StockServer,
    stock_client: Client,
    datanodes: Vec<Client>,
    datanode_pids: Vec<u32>,
    coordinator_pids: Vec<u32>,
    coordinator: Client,
    coordinator_uri: String,
    version: String,
    _dir: WorkDir,
}

async fn measure(options: &TpcbOptions, target: &Target) -> Result<TpcbReport> {
    let bench = Bench::prepare(options, target).await?;
    bench.fill(&bench.stock_client, "").await?;
    bench.fill(&bench.coordinator, "DISTRIBUTE BY HASH (bid)").await?;
    let mut measured = Vec::new();
    for mode in &options.modes {
        let (mut direct, mut cluster) = (TpcbMeasured::default(), TpcbMeasured::default());
        for round in 1..=options.rounds {
            bench.round(mode, false, &mut direct).await?;
            bench.round(mode, true, &mut cluster).await?;
            let last = |side: &TpcbMeasured| side.tps.last().copied().unwrap_or_default();
            eprintln!("{mode}, round {round}: direct {:.0} tps, cluster {:.0} tps", last(&direct), last(&cluster));
        }
        measured.push((mode.clone(), direct, cluster));
    }
    bench.check().await?;
    for client in [&bench.stock_client, &bench.coordinator] {
        drop_tables(client).await?;
    }
    Ok(TpcbReport {
        scale: options.scale,
        clients: options.clients,
        seconds: options.seconds,
        select_only: options.select_only,
        server_version: bench.version.clone(),
        measured,
    })
}

impl<'a> Bench<'a> {
    async fn prepare(options: &'a TpcbOptions, target: &Target) -> Result<Self> {
        let (Some(coordinator_uri), Some(_)) = (target.coordinators.first(), target.datanodes.first()) else {
            return Err(PgError::new(SqlState::CONFIG_FILE_ERROR, "the benchmark needs a coordinator and a datanode"));
        };
        let (mut datanodes, mut patterns) = (Vec::new(), Vec::new());
        for uri in &target.datanodes {
            let datanode = sql::connect(uri).await?;
            patterns.push(Pattern::of(&datanode).await?);
            datanodes.push(datanode);
        }
        let pattern = &patterns[0];
        let work = format!("{}-bench-{}", target.dir.display(), std::process::id());
        let dir = pattern.make_dir(Path::new(&work))?;
        let script = dir.path().join("script.sql");
        std::fs::write(&script, if options.select_only { SELECT_ONLY } else { TRANSACTION })?;
        eprintln!("Starting a stock server with the datanodes' settings in {work}");
        let stock = StockServer::start(pattern, dir.path(), "stock")?;
        Ok(Self {
            options,
            pgbench: pattern.program("pgbench"),
            script,
            stock_client: sql::connect(&stock.uri).await?,
            stock,
            datanodes,
            datanode_pids: patterns.iter().map(|pattern| pattern.postmaster).collect(),
            coordinator_pids: cpu::find(&target.dir, &["coordinator", "gtm"])?,
            coordinator: sql::connect(coordinator_uri).await?,
            coordinator_uri: coordinator_uri.clone(),
            version: pattern.version.clone(),
            _dir: dir,
        })
    }

    async fn fill(&self, client: &Client, clause: &str) -> Result<()> {
        drop_tables(client).await?;
        for (table, columns) in TABLES {
            sql::run(client, &format!("CREATE TABLE {table} ({columns}) {clause}")).await?;
        }
        let scale = self.options.scale;
        let rows = [
            format!("bench_branches SELECT g, 0 FROM generate_series(1, {scale}) g"),
            format!("bench_tellers SELECT g, (g - 1) / 10 + 1, 0 FROM generate_series(1, {scale} * 10) g"),
            format!("bench_accounts SELECT g, (g - 1) / 100000 + 1, 0, '' FROM generate_series(1, {scale} * 100000) g"),
        ];
        for insert in rows {
            sql::run(client, &format!("INSERT INTO {insert}")).await?;
        }
        for (table, _) in TABLES {
            sql::run(client, &format!("VACUUM ANALYZE {table}")).await?;
        }
        Ok(())
    }

    async fn round(&self, mode: &str, through_cluster: bool, measured: &mut TpcbMeasured) -> Result<()> {
        for server in self.datanodes.iter().chain([&self.stock_client]) {
            sql::run(server, "CHECKPOINT").await?;
        }
        let uri = if through_cluster { &self.coordinator_uri } else { &self.stock.uri };
        let servers = if through_cluster { self.datanode_pids.clone() } else { vec![self.stock.postmaster] };
        let server_cpu = cpu::tree_seconds(&servers)?;
        let coordinator_cpu = cpu::tree_seconds(&self.coordinator_pids)?;
        let mut command = Command::new(&self.pgbench);
        let options = self.options;
        command
            .args(["--no-vacuum", "--jobs=2", "--protocol", mode, "--file"])
            .arg(&self.script)
            .args(["--scale", &options.scale.to_string(), "--client", &options.clients.to_string()])
            .args(["--time", &options.seconds.to_string(), uri])
            .stdin(Stdio::null());
        let output = tokio::task::spawn_blocking(move || command.output())
            .await
            .map_err(|e| PgError::internal(e.to_string()))?
            .map_err(|e| PgError::new(SqlState::IO_ERROR, format!("cannot run {}: {e}", self.pgbench.display())))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let (Some(transactions), Some(tps), true) =
            (number_after(&text, "actually processed: "), number_after(&text, "tps = "), output.status.success())
        else {
            let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(PgError::new(SqlState::INTERNAL_ERROR, "pgbench failed").detail(message));
        };
        measured.transactions.push(transactions);
        measured.tps.push(tps);
        measured.server_cpu.push(cpu::tree_seconds(&servers)? - server_cpu);
        measured.coordinator_cpu.push(cpu::tree_seconds(&self.coordinator_pids)? - coordinator_cpu);
        Ok(())
    }

    /// TPC-B's consistency condition, through the coordinator: all balances and the history add up to the same.
    async fn check(&self) -> Result<()> {
        let sums = "SELECT (SELECT sum(abalance) FROM bench_accounts), (SELECT sum(tbalance) FROM bench_tellers), \
                    (SELECT sum(bbalance) FROM bench_branches), (SELECT coalesce(sum(delta), 0) FROM bench_history)";
        for client in [&self.stock_client, &self.coordinator] {
            let rows = sql::table(client, sums).await?;
            let row = rows.get(1).ok_or_else(|| PgError::protocol("no row of sums"))?;
            if row.iter().any(|sum| *sum != row[0]) {
                return Err(PgError::internal(format!("the balances do not add up: {}", row.join(", "))));
            }
        }
        Ok(())
    }
}

async fn drop_tables(client: &Client) -> Result<()> {
    let names: Vec<&str> = TABLES.iter().map(|(table, _)| *table).collect();
    sql::run(client, &format!("DROP TABLE IF EXISTS {}", names.join(", "))).await
}

fn number_after(text: &str, mark: &str) -> Option<f64> {
    let rest = &text[text.find(mark)? + mark.len()..];
    rest.split(|c: char| !c.is_ascii_digit() && c != '.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_pgbench() {
        let text = "number of transactions actually processed: 5124\nlatency average = 1.2 ms\ntps = 2561.25 (without";
        assert_eq!(number_after(text, "actually processed: "), Some(5124.0));
        assert_eq!(number_after(text, "tps = "), Some(2561.25));
        assert_eq!(number_after("failed", "tps = "), None);
    }
}
