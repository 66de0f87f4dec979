//! `loxo bench snapshot`: what a consistent snapshot of several datanodes costs a short query while others commit.
//!
//! pgbench clients move money between accounts on two datanodes without a pause. Beside them one client reads eight accounts
//! over and over, by turns with `loxo.snapshot = consistent`, which needs a global snapshot, and with `local`, which does not. The
//! difference of the median times is what the global snapshot adds: asking the gtm, waiting for the commits under way, the snapshots.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pgerror::{PgError, Result, SqlState};
use tokio_postgres::Client;

use crate::load::{Target, connect_all};
use crate::suite::{Cell, Chart, Experiment, Figure, Readings, Samples, Sheet, Stage, Step, Table, settings};
use crate::tools::sql;
use crate::tools::stock::{Pattern, WorkDir};

const ACCOUNTS: u32 = 10_000;
/// How long one waits at most for servers to give up what the writers were at.
const QUIET_MAX: Duration = Duration::from_secs(2);
const QUIET_LOOK: Duration = Duration::from_millis(10);

const TRANSFER: &str = "\
\\set from random(1, 10000)
\\set to random(1, 10000)
BEGIN;
UPDATE bench_snapshot SET n = n - 1 WHERE id = :from;
UPDATE bench_snapshot SET n = n + 1 WHERE id = :to;
COMMIT;
";

const READ: &str = "SELECT id, n FROM bench_snapshot WHERE id IN (1, 2, 3, 4, 5, 6, 7, 8);\n";

/// The values of `loxo.snapshot`.
const MODES: [&str; 2] = ["local", "consistent"];

/// What to measure.
#[derive(Clone, Debug)]
pub struct SnapshotOptions {
    /// Clients that write; 0 for none.
    pub writers: u32,
    /// Seconds of one run of the reader.
    pub seconds: u32,
    /// Runs of each mode, by turns.
    pub rounds: usize,
}

impl SnapshotOptions {
    /// Eight writers.
    pub fn full() -> Self {
        Self { writers: 8, seconds: 5, rounds: 3 }
    }

    /// Less than three minutes.
    pub fn quick() -> Self {
        Self { seconds: 3, ..Self::full() }
    }
}

/// Latencies of the reads of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Latencies {
    median_ms: f64,
    p95_ms: f64,
    count: usize,
}

/// The experiment.
pub struct Snapshot(pub SnapshotOptions);

/// What both modes need.
pub struct Bench {
    options: SnapshotOptions,
    client: Client,
    datanodes: Vec<Client>,
    pgbench: PathBuf,
    uri: String,
    dir: WorkDir,
}

impl Experiment for Snapshot {
    type Bench = Bench;

    fn name(&self) -> &'static str {
        "snapshot"
    }

    fn title(&self) -> String {
        "What a consistent snapshot adds to a read of two datanodes".to_owned()
    }

    fn about(&self) -> String {
        "pgbench clients move money between accounts on two datanodes without a pause. Beside them one client reads eight accounts over \
         and over, by turns with loxo.snapshot = local and consistent; the difference of the medians is what the snapshot adds."
            .to_owned()
    }

    fn settings(&self) -> Vec<(String, String)> {
        let SnapshotOptions { writers, seconds, rounds } = &self.0;
        settings(&[("writers", writers), ("seconds of a round", seconds), ("rounds", rounds)])
    }

    fn figures(&self) -> Vec<Figure> {
        vec![Figure::cost("median_ms", "ms"), Figure::cost("p95_ms", "ms"), Figure::rate("reads", "reads")]
    }

    fn stages(&self) -> Vec<Stage> {
        let seconds = f64::from(self.0.seconds) + 0.5;
        let steps = Step::by_turns(&MODES.map(str::to_owned), self.0.rounds, seconds);
        vec![Stage { steps, ..Stage::of(2, 2) }]
    }

    async fn prepare(&self, _: &Stage, target: &Target) -> Result<Bench> {
        Bench::prepare(&self.0, target).await
    }

    async fn step(&self, bench: &mut Bench, step: &Step) -> Result<Readings> {
        // Only now: those of another build's cluster would be in the way of this one's.
        let mut writers = bench.start_writers()?;
        let seen = bench.read(&step.point, step.round).await?;
        writers.must_run()?;
        drop(writers);
        bench.until_quiet().await?;
        Ok(Readings::default()
            .figure("median_ms", seen.median_ms)
            .figure("p95_ms", seen.p95_ms)
            .figure("reads", seen.count as f64))
    }

    async fn finish(&self, bench: Bench) -> Result<Option<String>> {
        let sum = sql::number(&bench.client, "SELECT sum(n) FROM bench_snapshot").await?;
        if sum != u64::from(ACCOUNTS) * 1000 {
            return Err(PgError::internal(format!("money was made or lost: the accounts hold {sum}")));
        }
        sql::run(&bench.client, "DROP TABLE bench_snapshot").await?;
        Ok(Some("The accounts hold as much as before.".to_owned()))
    }

    fn sheet(&self, samples: &Samples) -> Sheet {
        let mut table =
            Table::new("Milliseconds of a read", &["snapshot", "median", "95th percentile", "reads a round"]);
        for mode in MODES {
            let cells = [("median_ms", 2), ("p95_ms", 2), ("reads", 0)].map(|(name, n)| samples.cell(mode, name, n));
            table.push(std::iter::once(Cell::text(mode)).chain(cells).collect());
        }
        let [local, consistent] = MODES.map(|mode| samples.median(mode, "median_ms"));
        let added = local.zip(consistent).map(|(local, consistent)| {
            format!("A consistent snapshot adds {:.2} ms to {local:.2} ms.", consistent - local)
        });
        let names = ["median_ms", "p95_ms"].map(str::to_owned);
        let chart = Chart::bars("A read", "ms", &names, &MODES, |figure, mode| samples.values(mode, figure));
        Sheet { findings: added.into_iter().collect(), tables: vec![table], charts: vec![chart] }
    }
}

impl Bench {
    async fn prepare(options: &SnapshotOptions, target: &Target) -> Result<Self> {
        let (Some(uri), Some(_)) = (target.coordinators.first(), target.datanodes.first()) else {
            return Err(PgError::new(SqlState::CONFIG_FILE_ERROR, "the benchmark needs a coordinator and a datanode"));
        };
        let datanodes = connect_all(&target.datanodes).await?;
        let pattern = Pattern::of(&datanodes[0]).await?;
        let work = format!("{}-bench-{}", target.dir.display(), std::process::id());
        let dir = pattern.make_dir(Path::new(&work))?;
        let client = sql::connect(uri).await?;
        sql::run(&client, "DROP TABLE IF EXISTS bench_snapshot").await?;
        sql::run(&client, "CREATE TABLE bench_snapshot (id int PRIMARY KEY, n bigint) DISTRIBUTE BY HASH (id)").await?;
        sql::run(&client, &format!("INSERT INTO bench_snapshot SELECT g, 1000 FROM generate_series(1, {ACCOUNTS}) g"))
            .await?;
        let (options, pgbench, uri) = (options.clone(), pattern.program("pgbench"), uri.clone());
        Ok(Self { options, client, datanodes, pgbench, uri, dir })
    }

    fn start_writers(&self) -> Result<Writers> {
        if self.options.writers == 0 {
            return Ok(Writers(None));
        }
        let clients = self.options.writers.to_string();
        let script = self.script("transfer.sql", TRANSFER)?;
        // It is stopped after the read; the time is for the case that nobody is left to do so.
        let seconds = (self.options.seconds + 60).to_string();
        let mut command = Command::new(&self.pgbench);
        command.args(["--no-vacuum", "--jobs=2", "--client", &clients, "--time", &seconds, "--file"]);
        command.arg(script).arg(&self.uri).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Writers(Some(command.spawn().map_err(|error| self.cannot_run(&error))?)))
    }

    async fn read(&self, mode: &str, round: usize) -> Result<Latencies> {
        let prefix = format!("{mode}-{round}");
        let mut command = Command::new(&self.pgbench);
        command
            .args(["--no-vacuum", "--client=1", "--log", "--time", &self.options.seconds.to_string(), "--file"])
            .arg(self.script("read.sql", READ)?)
            .arg(format!("--log-prefix={}", self.dir.path().join(&prefix).display()))
            .arg(&self.uri)
            .env("PGOPTIONS", format!("-c loxo.snapshot={mode}"))
            .stdin(Stdio::null());
        let mut command = tokio::process::Command::from(command);
        let output = command.kill_on_drop(true).output().await.map_err(|error| self.cannot_run(&error))?;
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(PgError::new(SqlState::INTERNAL_ERROR, "pgbench failed").detail(message));
        }
        let mut log = String::new();
        for entry in std::fs::read_dir(self.dir.path())? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(&format!("{prefix}.")) {
                log.push_str(&std::fs::read_to_string(entry.path())?);
            }
        }
        latencies(&log).ok_or_else(|| PgError::internal("pgbench has logged no reads"))
    }

    /// Until the writers' transactions are gone: the next step must not pay for them. Others may use a cluster that goes on running.
    async fn until_quiet(&self) -> Result<()> {
        let active = "SELECT count(*) FROM pg_stat_activity \
                      WHERE backend_type = 'client backend' AND state <> 'idle' AND pid <> pg_backend_pid() \
                      AND application_name NOT LIKE 'loxo gtm%'";
        let until = Instant::now() + QUIET_MAX;
        for datanode in &self.datanodes {
            while sql::number(datanode, active).await? > 0 && Instant::now() < until {
                tokio::time::sleep(QUIET_LOOK).await;
            }
        }
        Ok(())
    }

    fn script(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text)?;
        Ok(path)
    }

    fn cannot_run(&self, error: &std::io::Error) -> PgError {
        PgError::new(SqlState::IO_ERROR, format!("cannot run {}: {error}", self.pgbench.display()))
    }
}

/// A running pgbench; the drop ends it.
struct Writers(Option<Child>);

impl Writers {
    fn must_run(&mut self) -> Result<()> {
        let Some(child) = &mut self.0 else { return Ok(()) };
        match child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(PgError::internal(format!("the writers' pgbench ended early: {status}"))),
        }
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // Both fail only if it has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Latencies from pgbench's log: a line a transaction, its microseconds in the third column.
fn latencies(log: &str) -> Option<Latencies> {
    let mut times: Vec<u32> = log.lines().filter_map(|line| line.split(' ').nth(2)?.parse().ok()).collect();
    times.sort_unstable();
    let at = |share: f64| times.get((times.len() as f64 * share) as usize).map(|us| f64::from(*us) / 1000.0);
    Some(Latencies { median_ms: at(0.5)?, p95_ms: at(0.95)?, count: times.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_from_pgbenchs_log() {
        let log = "0 1 900 0 1700000000 1\n0 2 3000 0 1700000000 2\n0 3 1000 0 1700000000 3\n";
        assert_eq!(latencies(log), Some(Latencies { median_ms: 1.0, p95_ms: 3.0, count: 3 }));
        assert_eq!(latencies(""), None);
    }

    #[test]
    fn what_a_snapshot_adds_is_the_difference_of_medians() {
        let sample = |(build, round, median_ms): (&str, usize, f64)| crate::suite::Sample {
            point: build.to_owned(),
            build: crate::suite::THIS.to_owned(),
            round,
            seconds: 1.0,
            others_cores: 0.0,
            readings: Readings::default().figure("median_ms", median_ms),
        };
        let all =
            [("local", 1, 1.0), ("local", 2, 9.0), ("local", 3, 2.0), ("consistent", 1, 3.0), ("consistent", 2, 3.5)];
        let samples = Samples::of(&all.map(sample), crate::suite::THIS);
        let sheet = Snapshot(SnapshotOptions { writers: 1, seconds: 1, rounds: 3 }).sheet(&samples);
        assert_eq!(sheet.findings, ["A consistent snapshot adds 1.25 ms to 2.00 ms."]);
    }
}
