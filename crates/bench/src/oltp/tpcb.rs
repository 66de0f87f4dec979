//! `loxo bench tpcb`: pgbench's TPC-B-like transactions through a coordinator against the same pgbench straight to one stock
//! server.
//!
//! All tables are distributed by the branch, and every statement names its branch, so a transaction stays on one datanode:
//! what is measured is the way through the coordinator. (pgbench's own script has no branch in the WHERE of its
//! account; Postgres-XL's `pgbench -k` added it for the same reason.) Both sides get the same script, the same rows
//! and the same settings, and take turns (A B A B …); medians are compared. The processor seconds of servers
//! and coordinators are told beside, because on a busy machine they say more than transactions per second. PgBouncer in front of the
//! stock server is a third side where it is installed: what a relay that plans nothing takes. Beside each load through the coordinator money moves
//! between the datanodes and is summed (`sides`).

use std::path::PathBuf;

use pgerror::{PgError, Result};
use tokio::process::Command;
use tokio_postgres::Client;

use super::sheet::Measured;
use super::sides::{self, CLUSTER, Sides, TRANSFER, has_pgbouncer};
use crate::load::Target;
use crate::suite::{Experiment, Figure, Readings, Samples, Sheet, Stage, Step, settings};
use crate::tools::{program, sql};

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

/// What a transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Three UPDATEs, a SELECT and an INSERT.
    TpcB,
    /// Reads one account.
    SelectOnly,
}

impl Kind {
    /// In the order in which they are measured.
    pub const ALL: [Kind; 2] = [Kind::TpcB, Kind::SelectOnly];

    fn name(self) -> &'static str {
        match self {
            Kind::TpcB => "TPC-B",
            Kind::SelectOnly => "select-only",
        }
    }

    fn script(self) -> &'static str {
        match self {
            Kind::TpcB => TRANSACTION,
            Kind::SelectOnly => SELECT_ONLY,
        }
    }
}

/// How pgbench sends its statements (`-M`).
pub const MODES: [&str; 3] = ["simple", "extended", "prepared"];

/// What to measure.
#[derive(Clone, Debug)]
pub struct TpcbOptions {
    /// Branches; 100,000 accounts each.
    pub scale: u32,
    /// Connections of pgbench, one run after the other.
    pub clients: Vec<u32>,
    /// Seconds of one run.
    pub seconds: u32,
    /// Rounds a side; odd, for a real median.
    pub rounds: usize,
    /// Some of [`MODES`].
    pub modes: Vec<String>,
    /// What transactions do.
    pub kinds: Vec<Kind>,
    /// Also through PgBouncer.
    pub pgbouncer: bool,
}

impl TpcbOptions {
    /// Ten seconds a round, and through PgBouncer if it is installed.
    pub fn full() -> Self {
        Self {
            scale: 10,
            clients: vec![1, 8, 64, 256],
            seconds: 10,
            rounds: 3,
            modes: MODES.map(str::to_owned).to_vec(),
            kinds: Kind::ALL.to_vec(),
            pgbouncer: has_pgbouncer(),
        }
    }

    /// Less than three minutes.
    pub fn quick() -> Self {
        let modes = ["simple", "prepared"].map(str::to_owned).to_vec();
        Self { scale: 2, clients: vec![8, 64], seconds: 3, rounds: 1, modes, ..Self::full() }
    }
}

/// The experiment.
pub struct Tpcb(pub TpcbOptions);

/// A way of sending by so many clients.
#[derive(Clone, Debug)]
struct Load {
    /// As tables call it.
    label: String,
    kind: Kind,
    mode: String,
    clients: u32,
}

impl TpcbOptions {
    fn loads(&self) -> Vec<Load> {
        let of = |kind: Kind, mode: &String, clients: u32| {
            let kind_name = (self.kinds.len() > 1).then(|| kind.name().to_owned());
            let by_clients = (self.clients.len() > 1).then(|| sides::by_clients(clients));
            let names: Vec<String> = kind_name.into_iter().chain([mode.clone()]).chain(by_clients).collect();
            Load { label: names.join(", "), kind, mode: mode.clone(), clients }
        };
        let mut loads = Vec::new();
        for kind in &self.kinds {
            for mode in &self.modes {
                loads.extend(self.clients.iter().map(|clients| of(*kind, mode, *clients)));
            }
        }
        loads
    }
}

/// What a round needs.
pub struct Bench {
    options: TpcbOptions,
    pgbench: PathBuf,
    sides: Sides,
}

impl Experiment for Tpcb {
    type Bench = Bench;

    fn name(&self) -> &'static str {
        "tpcb"
    }

    fn title(&self) -> String {
        let what = match self.0.kinds[..] {
            [Kind::TpcB] => "TPC-B-like transactions",
            [Kind::SelectOnly] => "Reads of an account",
            _ => "TPC-B-like transactions, and reads of an account,",
        };
        format!("{what} through a coordinator and straight to one stock server")
    }

    fn about(&self) -> String {
        "pgbench goes by turns to a coordinator and to one stock PostgreSQL server with the datanodes' settings, there also through \
         PgBouncer if it is installed. All tables are \
         distributed by the branch, and every statement names it, so a transaction stays on one datanode: what is measured is the way \
         through the coordinator. On one machine the coordinator takes its processor time from the servers; on machines of their own \
         it does not. Beside each load, in a run of its own, sessions move money between datanodes and others sum it through another \
         coordinator: no sum may be wrong."
            .to_owned()
    }

    fn settings(&self) -> Vec<(String, String)> {
        let TpcbOptions { scale, clients, seconds, rounds, modes, kinds, pgbouncer } = &self.0;
        let modes = modes.join(", ");
        let kinds = kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
        let clients = clients.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let all: [(&str, &dyn std::fmt::Display); 7] = [
            ("scale", scale),
            ("clients", &clients),
            ("seconds of a round", seconds),
            ("rounds", rounds),
            ("protocol", &modes),
            ("transactions", &kinds),
            ("through PgBouncer too", pgbouncer),
        ];
        settings(&all)
    }

    fn figures(&self) -> Vec<Figure> {
        let mut all = vec![
            Figure::rate("tps", "transactions/s"),
            Figure::cost("latency_ms", "ms"),
            Figure::cost("p50_ms", "ms"),
            Figure::cost("p99_ms", "ms"),
        ];
        all.extend(sides::figures());
        all
    }

    fn stages(&self) -> Vec<Stage> {
        let labels: Vec<String> = self.0.loads().into_iter().map(|load| load.label).collect();
        let names = sides::names(self.0.pgbouncer);
        let steps = sides::steps(&labels, &names, self.0.rounds, f64::from(self.0.seconds) + 1.0);
        vec![Stage { steps, ..Stage::of(2, 2) }]
    }

    async fn prepare(&self, _: &Stage, target: &Target) -> Result<Bench> {
        let bench = Bench::prepare(&self.0, target).await?;
        bench.fill(&bench.sides.stock_client, "").await?;
        bench.fill(&bench.sides.coordinator, "DISTRIBUTE BY HASH (bid)").await?;
        Ok(bench)
    }

    async fn step(&self, bench: &mut Bench, step: &Step) -> Result<Readings> {
        let (label, side) = sides::parts(step)?;
        let load = self.0.loads().into_iter().find(|load| load.label == label);
        let load = load.ok_or_else(|| PgError::internal(format!("no load is called \"{label}\"")))?;
        match side {
            TRANSFER => bench.sides.transfer_sum(bench.round(&load, CLUSTER)).await,
            _ => bench.round(&load, side).await,
        }
    }

    async fn finish(&self, bench: Bench) -> Result<Option<String>> {
        bench.check().await?;
        for client in [&bench.sides.stock_client, &bench.sides.coordinator] {
            drop_tables(client).await?;
        }
        bench.sides.end().await?;
        Ok(Some(
            "All balances and the history add up to the same on both sides, and no money was made or lost.".to_owned(),
        ))
    }

    fn sheet(&self, samples: &Samples) -> Sheet {
        let measured = Measured {
            samples,
            by: "load",
            labels: self.0.loads().into_iter().map(|load| load.label).collect(),
            sides: sides::names(self.0.pgbouncer),
            rate: ("tps", "tps", "transactions/s"),
        };
        let mut sheet = measured.sheet();
        sheet.tables.insert(1, measured.times("Milliseconds of a transaction", &[("", "")]));
        sheet
    }
}

impl Bench {
    async fn prepare(options: &TpcbOptions, target: &Target) -> Result<Self> {
        let most = options.clients.iter().copied().max().unwrap_or_default();
        let sides = Sides::start(target, most, options.pgbouncer).await?;
        for kind in Kind::ALL {
            std::fs::write(script(&sides, kind), kind.script())?;
        }
        Ok(Self { options: options.clone(), pgbench: sides.program("pgbench"), sides })
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

    async fn round(&self, load: &Load, side: &str) -> Result<Readings> {
        let options = &self.options;
        let mut command = Command::new(&self.pgbench);
        command
            .args(["--no-vacuum", "--jobs=2", "--protocol", &load.mode, "--log", "--file"])
            .arg(script(&self.sides, load.kind))
            .arg(format!("--log-prefix={}", self.sides.dir().join("transactions").display()))
            .args(["--scale", &options.scale.to_string(), "--client", &load.clients.to_string()])
            .args(["--time", &options.seconds.to_string(), &self.sides.uri(side, load.mode == "prepared")]);
        let (text, used) = self.sides.turn(side, program::output(command)).await?;
        let (Some(transactions), Some(tps)) =
            (number_after(&text, "actually processed: "), number_after(&text, "tps = "))
        else {
            return Err(program::failed("pgbench", &text));
        };
        let times = self.times()?;
        Ok(used
            .readings(transactions)
            .figure("tps", tps)
            .figure("latency_ms", number_after(&text, "latency average = ").unwrap_or_default())
            .figure("p50_ms", percentile(&times, 0.5))
            .figure("p99_ms", percentile(&times, 0.99)))
    }

    /// Milliseconds of each transaction, in order of size, from pgbench's logs, which are removed.
    fn times(&self) -> Result<Vec<f64>> {
        let mut times = Vec::new();
        for file in std::fs::read_dir(self.sides.dir())? {
            let path = file?.path();
            if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("transactions.")) {
                let text = std::fs::read_to_string(&path)?;
                // client, number, µs, script, time
                let micros = text.lines().filter_map(|line| line.split(' ').nth(2)?.parse::<f64>().ok());
                times.extend(micros.map(|micros| micros / 1000.0));
                std::fs::remove_file(&path)?;
            }
        }
        times.sort_by(f64::total_cmp);
        Ok(times)
    }

    /// TPC-B's consistency condition, through the coordinator: all balances and the history add up to the same.
    async fn check(&self) -> Result<()> {
        let sums = "SELECT (SELECT sum(abalance) FROM bench_accounts), (SELECT sum(tbalance) FROM bench_tellers), \
                    (SELECT sum(bbalance) FROM bench_branches), (SELECT coalesce(sum(delta), 0) FROM bench_history)";
        for client in [&self.sides.stock_client, &self.sides.coordinator] {
            let rows = sql::table(client, sums).await?;
            let row = rows.get(1).ok_or_else(|| PgError::protocol("no row of sums"))?;
            if row.iter().any(|sum| *sum != row[0]) {
                return Err(PgError::internal(format!("the balances do not add up: {}", row.join(", "))));
            }
        }
        Ok(())
    }
}

/// The file that pgbench reads.
fn script(sides: &Sides, kind: Kind) -> PathBuf {
    sides.dir().join(format!("{}.sql", kind.name()))
}

async fn drop_tables(client: &Client) -> Result<()> {
    let names: Vec<&str> = TABLES.iter().map(|(table, _)| *table).collect();
    sql::run(client, &format!("DROP TABLE IF EXISTS {}", names.join(", "))).await
}

/// The smallest of the values in order that so great a share of them does not exceed; 0 for none.
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

fn number_after(text: &str, mark: &str) -> Option<f64> {
    let rest = &text[text.find(mark)? + mark.len()..];
    rest.split(|c: char| !c.is_ascii_digit() && c != '.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_names_what_differs() {
        let labels = |options: TpcbOptions| options.loads().into_iter().map(|load| load.label).collect::<Vec<_>>();
        let options = TpcbOptions { modes: vec!["simple".to_owned()], ..TpcbOptions::quick() };
        assert_eq!(labels(options.clone())[1..3], ["TPC-B, simple, 64 clients", "select-only, simple, 8 clients"]);
        assert_eq!(labels(TpcbOptions { clients: vec![8], kinds: vec![Kind::TpcB], ..options }), ["simple"]);
    }

    #[test]
    fn percentiles() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!((percentile(&hundred, 0.5), percentile(&hundred, 0.99)), (50.0, 99.0));
        assert_eq!((percentile(&[7.0], 0.99), percentile(&[], 0.5)), (7.0, 0.0));
    }

    #[test]
    fn figures_of_pgbench() {
        let text = "number of transactions actually processed: 5124\nlatency average = 1.2 ms\ntps = 2561.25 (without";
        assert_eq!(number_after(text, "actually processed: "), Some(5124.0));
        assert_eq!(number_after(text, "tps = "), Some(2561.25));
        assert_eq!(number_after("failed", "tps = "), None);
    }
}
