//! `loxo bench tpcb`: pgbench's TPC-B-like transactions through a coordinator against the same pgbench straight to one stock
//! server.
//!
//! All tables are distributed by the branch, and every statement names its branch, so a transaction stays on one datanode:
//! what is measured is the way through the coordinator. (pgbench's own script has no branch in the WHERE of its
//! account; Postgres-XL's `pgbench -k` added it for the same reason.) Both sides get the same script, the same rows
//! and the same settings, and take turns (A B A B …); medians are compared. The processor seconds of servers
//! and coordinators are told beside, because on a busy machine they say more than transactions per second.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use pgerror::{PgError, Result, SqlState};
use tokio::process::Command;
use tokio_postgres::Client;

use crate::load::Target;
use crate::suite::{Cell, Chart, Experiment, Figure, Readings, Samples, Sheet, Stage, Step, Table, settings};
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

impl TpcbOptions {
    /// Ten seconds a round.
    pub fn full() -> Self {
        let modes = MODES.map(str::to_owned).to_vec();
        Self { scale: 10, clients: 8, seconds: 10, rounds: 3, modes, select_only: false }
    }

    /// Less than three minutes.
    pub fn quick() -> Self {
        Self { scale: 2, seconds: 4, rounds: 2, ..Self::full() }
    }
}

/// The experiment.
pub struct Tpcb(pub TpcbOptions);

const SIDES: [&str; 2] = ["direct", "cluster"];

/// Field order is drop order: the server stops before its directory goes.
pub struct Bench {
    options: TpcbOptions,
    pgbench: PathBuf,
    script: PathBuf,
    stock: StockServer,
    stock_client: Client,
    datanodes: Vec<Client>,
    datanode_pids: Vec<u32>,
    coordinator_pids: Vec<u32>,
    coordinator: Client,
    coordinator_uri: String,
    _dir: WorkDir,
}

impl Experiment for Tpcb {
    type Bench = Bench;

    fn name(&self) -> &'static str {
        "tpcb"
    }

    fn title(&self) -> String {
        let what = if self.0.select_only { "Reads of an account" } else { "TPC-B-like transactions" };
        format!("{what} through a coordinator and straight to one stock server")
    }

    fn about(&self) -> String {
        "pgbench goes by turns to a coordinator and to one stock PostgreSQL server with the datanodes' settings. All tables are \
         distributed by the branch, and every statement names it, so a transaction stays on one datanode: what is measured is the way \
         through the coordinator. On one machine the coordinator takes its processor time from the servers; on machines of their own \
         it does not."
            .to_owned()
    }

    fn settings(&self) -> Vec<(String, String)> {
        let TpcbOptions { scale, clients, seconds, rounds, modes, select_only } = &self.0;
        let modes = modes.join(", ");
        let all: [(&str, &dyn std::fmt::Display); 6] = [
            ("scale", scale),
            ("clients", clients),
            ("seconds of a round", seconds),
            ("rounds", rounds),
            ("protocol", &modes),
            ("select only", select_only),
        ];
        settings(&all)
    }

    fn figures(&self) -> Vec<Figure> {
        vec![
            Figure::rate("tps", "transactions/s"),
            Figure::cost("latency_ms", "ms"),
            Figure::cost("server_cpu_us", "µs"),
            Figure::cost("coordinator_cpu_us", "µs"),
            Figure::fact("transactions", "transactions"),
        ]
    }

    fn stages(&self) -> Vec<Stage> {
        let of_mode = |mode: &String| SIDES.map(|side| format!("{mode}: {side}")).to_vec();
        let seconds = f64::from(self.0.seconds) + 1.0;
        let steps = self.0.modes.iter().flat_map(|mode| Step::by_turns(&of_mode(mode), self.0.rounds, seconds));
        vec![Stage { steps: steps.collect(), ..Stage::of(2, 2) }]
    }

    async fn prepare(&self, _: &Stage, target: &Target) -> Result<Bench> {
        let bench = Bench::prepare(&self.0, target).await?;
        bench.fill(&bench.stock_client, "").await?;
        bench.fill(&bench.coordinator, "DISTRIBUTE BY HASH (bid)").await?;
        Ok(bench)
    }

    async fn step(&self, bench: &mut Bench, step: &Step) -> Result<Readings> {
        let (mode, side) = step.point.split_once(": ").unwrap_or_default();
        bench.round(mode, side == "cluster").await
    }

    async fn finish(&self, bench: Bench) -> Result<Option<String>> {
        bench.check().await?;
        for client in [&bench.stock_client, &bench.coordinator] {
            drop_tables(client).await?;
        }
        Ok(Some("All balances and the history add up to the same on both sides.".to_owned()))
    }

    fn sheet(&self, samples: &Samples) -> Sheet {
        let columns = [
            "protocol",
            "direct tps",
            "cluster tps",
            "ratio",
            "CPU µs: stock",
            "CPU µs: datanodes",
            "CPU µs: coordinator",
            "latency, ms: direct",
            "latency, ms: cluster",
        ];
        let mut table = Table::new("Transactions per second, and processor time of a transaction", &columns);
        for mode in &self.0.modes {
            let [direct, cluster] = SIDES.map(|side| format!("{mode}: {side}"));
            table.push(vec![
                Cell::text(mode),
                samples.cell(&direct, "tps", 0),
                samples.cell(&cluster, "tps", 0),
                samples.ratio("tps", &cluster, &direct),
                samples.cell(&direct, "server_cpu_us", 0),
                samples.cell(&cluster, "server_cpu_us", 0),
                samples.cell(&cluster, "coordinator_cpu_us", 0),
                samples.cell(&direct, "latency_ms", 2),
                samples.cell(&cluster, "latency_ms", 2),
            ]);
        }
        let chart = Chart::bars("Transactions per second", "transactions/s", &self.0.modes, &SIDES, |mode, side| {
            samples.values(&format!("{mode}: {side}"), "tps")
        });
        Sheet { findings: Vec::new(), tables: vec![table], charts: vec![chart] }
    }
}

impl Bench {
    async fn prepare(options: &TpcbOptions, target: &Target) -> Result<Self> {
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
            options: options.clone(),
            pgbench: pattern.program("pgbench"),
            script,
            stock_client: sql::connect(&stock.uri).await?,
            stock,
            datanodes,
            datanode_pids: patterns.iter().map(|pattern| pattern.postmaster).collect(),
            coordinator_pids: cpu::find(&target.dir, &["coordinator", "gtm"])?,
            coordinator: sql::connect(coordinator_uri).await?,
            coordinator_uri: coordinator_uri.clone(),
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

    async fn round(&self, mode: &str, through_cluster: bool) -> Result<Readings> {
        for server in self.datanodes.iter().chain([&self.stock_client]) {
            sql::run(server, "CHECKPOINT").await?;
        }
        let uri = if through_cluster { &self.coordinator_uri } else { &self.stock.uri };
        let servers = if through_cluster { self.datanode_pids.clone() } else { vec![self.stock.postmaster] };
        let used = || Ok::<_, PgError>((cpu::tree_seconds(&servers)?, cpu::tree_seconds(&self.coordinator_pids)?));
        let (server_cpu, coordinator_cpu) = used()?;
        let options = &self.options;
        let mut command = Command::new(&self.pgbench);
        command
            .args(["--no-vacuum", "--jobs=2", "--protocol", mode, "--file"])
            .arg(&self.script)
            .args(["--scale", &options.scale.to_string(), "--client", &options.clients.to_string()])
            .args(["--time", &options.seconds.to_string(), uri])
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let output = command
            .output()
            .await
            .map_err(|e| PgError::new(SqlState::IO_ERROR, format!("cannot run {}: {e}", self.pgbench.display())))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let (Some(transactions), Some(tps), true) =
            (number_after(&text, "actually processed: "), number_after(&text, "tps = "), output.status.success())
        else {
            let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(PgError::new(SqlState::INTERNAL_ERROR, "pgbench failed").detail(message));
        };
        let (server_after, coordinator_after) = used()?;
        let micros = |seconds: f64| seconds * 1e6 / transactions.max(1.0);
        Ok(Readings::default()
            .figure("tps", tps)
            .figure("latency_ms", number_after(&text, "latency average = ").unwrap_or_default())
            .figure("transactions", transactions)
            .figure("server_cpu_us", micros(server_after - server_cpu))
            .figure("coordinator_cpu_us", micros(coordinator_after - coordinator_cpu)))
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
