//! `loxo bench sysbench`: the OLTP scripts of the program sysbench, through a coordinator and straight to one stock server.
//!
//! sysbench makes tables and rows on the stock server; they are copied to the cluster, distributed by their key, so that both sides
//! begin with the same. Its statements name single rows, and ranges of a hundred, which lie on all datanodes; a transaction of
//! `oltp_read_write` changes rows of several datanodes.

use std::path::PathBuf;

use pgerror::{PgError, Result, SqlState};
use tokio::process::Command;
use tokio_postgres::Client;

use super::sheet::Measured;
use super::sides::{self, CLUSTER, DIRECT, Sides, TRANSFER, has_pgbouncer};
use super::twin;
use crate::load::Target;
use crate::suite::{Experiment, Figure, Readings, Samples, Sheet, Stage, Step, settings};
use crate::tools::program::{self, Address};
use crate::tools::sql;

/// In the cluster; the stock server has no other tables.
const SCHEMA: &str = "bench_sysbench";

/// Scripts that leave as many rows as there were.
pub const SCRIPTS: [&str; 6] = [
    "oltp_point_select",
    "oltp_read_only",
    "oltp_read_write",
    "oltp_update_index",
    "oltp_update_non_index",
    "oltp_write_only",
];

/// What to measure.
#[derive(Clone, Debug)]
pub struct SysbenchOptions {
    /// Some of [`SCRIPTS`].
    pub scripts: Vec<String>,
    /// Tables.
    pub tables: u32,
    /// Rows of each.
    pub rows: u32,
    /// Sessions, one run after the other.
    pub clients: Vec<u32>,
    /// Seconds of one run.
    pub seconds: u32,
    /// Rounds a side.
    pub rounds: usize,
    /// Also through PgBouncer.
    pub pgbouncer: bool,
}

impl SysbenchOptions {
    /// A million rows.
    pub fn full() -> Self {
        Self {
            scripts: ["oltp_point_select", "oltp_read_write", "oltp_update_index"].map(str::to_owned).to_vec(),
            tables: 4,
            rows: 250_000,
            clients: vec![1, 8, 64, 256],
            seconds: 10,
            rounds: 3,
            pgbouncer: has_pgbouncer(),
        }
    }

    /// Less than three minutes.
    pub fn quick() -> Self {
        Self { tables: 2, rows: 20_000, clients: vec![8, 64], seconds: 2, rounds: 2, ..Self::full() }
    }

    fn loads(&self) -> Vec<Load> {
        let of = |script: &String, clients: u32| {
            let label = match self.clients.len() {
                1 => script.clone(),
                _ => format!("{script}, {}", sides::by_clients(clients)),
            };
            Load { label, script: script.clone(), clients }
        };
        self.scripts.iter().flat_map(|script| self.clients.iter().map(move |clients| of(script, *clients))).collect()
    }

    fn labels(&self) -> Vec<String> {
        self.loads().into_iter().map(|load| load.label).collect()
    }
}

struct Load {
    label: String,
    script: String,
    clients: u32,
}

/// Where it is.
///
/// # Errors
/// SQLSTATE 42704 with the package that has it.
pub fn program() -> Result<PathBuf> {
    program::find("sysbench", &[]).ok_or_else(|| {
        PgError::new(SqlState::UNDEFINED_OBJECT, "sysbench is not installed")
            .hint("On Debian and Ubuntu: apt-get install sysbench")
    })
}

/// The experiment.
pub struct Sysbench(pub SysbenchOptions);

/// What a round needs.
pub struct Bench {
    options: SysbenchOptions,
    program: PathBuf,
    /// Within the schema.
    cluster: Client,
    sides: Sides,
}

impl Experiment for Sysbench {
    type Bench = Bench;

    fn name(&self) -> &'static str {
        "sysbench"
    }

    fn title(&self) -> String {
        "sysbench's OLTP scripts through a coordinator and straight to one stock server".to_owned()
    }

    fn about(&self) -> String {
        "sysbench goes by turns to a coordinator and to one stock PostgreSQL server with the datanodes' settings, there also through \
         PgBouncer if it is installed. Both sides begin with the same rows. The tables are distributed by their key, which every statement \
         names; its ranges of a hundred keys lie on all datanodes, and so do the rows that a transaction of oltp_read_write changes. \
         Beside each load, in a run of its own, sessions move money between datanodes and others sum it through another coordinator: no \
         sum may be wrong."
            .to_owned()
    }

    fn settings(&self) -> Vec<(String, String)> {
        let SysbenchOptions { scripts, tables, rows, clients, seconds, rounds, pgbouncer } = &self.0;
        let scripts = scripts.join(", ");
        let clients = clients.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        settings(&[
            ("scripts", &scripts),
            ("tables", tables),
            ("rows of a table", rows),
            ("clients", &clients),
            ("seconds of a round", seconds),
            ("rounds", rounds),
            ("through PgBouncer too", pgbouncer),
        ])
    }

    fn figures(&self) -> Vec<Figure> {
        let mut all = vec![
            Figure::rate("tps", "transactions/s"),
            Figure::cost("latency_ms", "ms"),
            Figure::cost("p50_ms", "ms"),
            Figure::cost("p99_ms", "ms"),
            Figure::fact("repeated", "transactions"),
        ];
        all.extend(sides::figures());
        all
    }

    fn stages(&self) -> Vec<Stage> {
        let names = sides::names(self.0.pgbouncer);
        let steps = sides::steps(&self.0.labels(), &names, self.0.rounds, f64::from(self.0.seconds) + 1.0);
        vec![Stage { steps, ..Stage::of(2, 2) }]
    }

    async fn prepare(&self, _: &Stage, target: &Target) -> Result<Bench> {
        let (program, options) = (program()?, self.0.clone());
        let most = options.clients.iter().copied().max().unwrap_or_default();
        let sides = Sides::start(target, most, options.pgbouncer).await?;
        let cluster = sql::connect(&sides.uri(CLUSTER, false)).await?;
        twin::make_schema(&cluster, SCHEMA).await?;
        let bench = Bench { options, program, cluster, sides };
        bench.fill().await?;
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
        for client in [&bench.sides.stock_client, &bench.cluster] {
            for table in self.0.table_names() {
                let rows = sql::number(client, &format!("SELECT count(*) FROM {table}")).await?;
                if rows != u64::from(self.0.rows) {
                    return Err(PgError::internal(format!("{table} has {rows} rows, not {}", self.0.rows)));
                }
            }
        }
        sql::run(&bench.cluster, &format!("DROP SCHEMA {SCHEMA} CASCADE")).await?;
        bench.sides.end().await?;
        Ok(Some("Every table has as many rows as before on both sides, and no money was made or lost.".to_owned()))
    }

    fn sheet(&self, samples: &Samples) -> Sheet {
        let measured = Measured {
            samples,
            by: "script",
            labels: self.0.labels(),
            sides: sides::names(self.0.pgbouncer),
            rate: ("tps", "tps", "transactions/s"),
        };
        let mut sheet = measured.sheet();
        sheet.tables.insert(1, measured.times("Milliseconds of a transaction", &[("", "")]));
        sheet
    }
}

impl SysbenchOptions {
    fn table_names(&self) -> impl Iterator<Item = String> {
        (1..=self.tables).map(|number| format!("sbtest{number}"))
    }
}

impl Bench {
    async fn fill(&self) -> Result<()> {
        let mut command = self.command(SCRIPTS[0], &self.sides.uri(DIRECT, false), None)?;
        // A table each.
        command.arg(format!("--threads={}", self.options.tables.min(8))).arg("prepare");
        program::output(command).await?;
        let names: Vec<String> = self.options.table_names().collect();
        let tables: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "DISTRIBUTE BY HASH (id)")).collect();
        twin::copy(&self.sides.stock_client, &self.cluster, &tables).await
    }

    async fn round(&self, load: &Load, side: &str) -> Result<Readings> {
        // It prepares its statements.
        let uri = self.sides.uri(side, true);
        let mut command = self.command(&load.script, &uri, (side == CLUSTER).then_some(SCHEMA))?;
        command.arg(format!("--threads={}", load.clients)).arg(format!("--time={}", self.options.seconds));
        command.args(["--histogram=on", "run"]);
        let (text, used) = self.sides.turn(side, program::output(command)).await?;
        let done = Done::read(&text).ok_or_else(|| program::failed("sysbench", &text))?;
        Ok(used
            .readings(done.transactions)
            .figure("tps", done.tps)
            .figure("latency_ms", done.mean_ms)
            .figure("p50_ms", done.p50_ms)
            .figure("p99_ms", done.p99_ms)
            .figure("repeated", done.repeated))
    }

    fn command(&self, script: &str, uri: &str, schema: Option<&str>) -> Result<Command> {
        let address = Address::of(uri)?;
        let mut command = Command::new(&self.program);
        // Keys of its own making: those of a sequence would be the server's.
        command.args([script, "--db-driver=pgsql", "--auto-inc=off"]);
        command.arg(format!("--pgsql-host={}", address.host)).arg(format!("--pgsql-port={}", address.port));
        command.arg(format!("--pgsql-user={}", address.user)).arg(format!("--pgsql-db={}", address.database));
        command.arg(format!("--tables={}", self.options.tables)).arg(format!("--table-size={}", self.options.rows));
        address.environment(&mut command, schema);
        Ok(command)
    }
}

/// What a run has done.
#[derive(Clone, Debug, Default, PartialEq)]
struct Done {
    transactions: f64,
    tps: f64,
    mean_ms: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// After a deadlock, or a row that another had inserted again.
    repeated: f64,
}

impl Done {
    fn read(text: &str) -> Option<Self> {
        let after = |mark: &str| text.lines().find_map(|line| line.trim().strip_prefix(mark));
        let first = |rest: &str| rest.split_whitespace().next()?.parse::<f64>().ok();
        let transactions = after("transactions:")?;
        let histogram = histogram(text);
        Some(Self {
            transactions: first(transactions)?,
            tps: first(transactions.split_once('(')?.1)?,
            mean_ms: first(after("avg:")?)?,
            p50_ms: percentile(&histogram, 0.5)?,
            p99_ms: percentile(&histogram, 0.99)?,
            repeated: first(after("ignored errors:")?)?,
        })
    }
}

/// Milliseconds, and how many transactions took so long.
fn histogram(text: &str) -> Vec<(f64, f64)> {
    let bar = |line: &str| {
        let (value, rest) = line.split_once('|')?;
        Some((value.trim().parse().ok()?, rest.split_whitespace().last()?.parse().ok()?))
    };
    text.lines().filter_map(bar).collect()
}

/// The smallest of its values that so great a share does not exceed.
fn percentile(histogram: &[(f64, f64)], share: f64) -> Option<f64> {
    let mut left = histogram.iter().map(|(_, count)| count).sum::<f64>() * share;
    histogram.iter().find_map(|(value, count)| {
        left -= count;
        (left <= 0.0).then_some(*value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
       1.142 |************                             60
       1.163 |****************************************  39
       9.731 |*                                        1

SQL statistics:
    transactions:                        100    (49.94 per sec.)
    queries:                             2000   (998.8 per sec.)
    ignored errors:                      3      (1.50 per sec.)

Latency (ms):
         min:                                    1.10
         avg:                                    1.25
         95th percentile:                        1.16
";

    #[test]
    fn what_a_run_has_done_is_read() {
        let done = Done { transactions: 100.0, tps: 49.94, mean_ms: 1.25, p50_ms: 1.142, p99_ms: 1.163, repeated: 3.0 };
        assert_eq!(Done::read(SAID), Some(done));
        assert_eq!(Done::read("FATAL: unable to connect"), None);
    }

    #[test]
    fn a_percentile_is_a_value_of_the_histogram() {
        assert_eq!(percentile(&[(1.0, 1.0), (2.0, 1.0)], 0.5), Some(1.0));
        assert_eq!((percentile(&[(1.0, 1.0), (2.0, 1.0)], 0.99), percentile(&[], 0.5)), (Some(2.0), None));
    }
}
