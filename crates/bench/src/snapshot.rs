//! `loxo bench snapshot`: what a consistent snapshot of several datanodes costs a short query while others commit.
//!
//! pgbench clients move money between accounts on two datanodes without a pause. Beside them one client reads eight accounts
//! over and over, by turns with `loxo.snapshot = consistent`, which needs a global snapshot, and with `local`, which does not. The
//! difference of the median times is what the global snapshot adds: asking the gtm, waiting for the commits under way, the snapshots.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use pgerror::{PgError, Result, SqlState};
use serde_json::{Value, json};

use crate::load::{Target, interruptible};
use crate::report::{grouped, median, text_table};
use crate::tools::sql;
use crate::tools::stock::{Pattern, WorkDir};

const ACCOUNTS: u32 = 10_000;

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

/// The outcome: one entry a round in each list.
#[derive(Clone, Debug, Default)]
pub struct SnapshotReport {
    options: Option<SnapshotOptions>,
    version: String,
    local: Vec<Latencies>,
    consistent: Vec<Latencies>,
}

/// Of the reads of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Latencies {
    median_ms: f64,
    p95_ms: f64,
    count: usize,
}

/// Runs the benchmark on the cluster that `start` brings up (or finds running).
///
/// # Errors
/// A server's or pgbench's error, or SQLSTATE 57014 after Ctrl-C; the writers are stopped in any case.
pub async fn run(options: &SnapshotOptions, start: impl AsyncFnOnce() -> Result<Target>) -> Result<SnapshotReport> {
    let target = start().await?;
    interruptible(measure(options, &target)).await
}

async fn measure(options: &SnapshotOptions, target: &Target) -> Result<SnapshotReport> {
    let (Some(uri), Some(datanode)) = (target.coordinators.first(), target.datanodes.first()) else {
        return Err(PgError::new(SqlState::CONFIG_FILE_ERROR, "the benchmark needs a coordinator and a datanode"));
    };
    let pattern = Pattern::of(&sql::connect(datanode).await?).await?;
    let work = format!("{}-bench-{}", target.dir.display(), std::process::id());
    let dir = pattern.make_dir(Path::new(&work))?;
    let client = sql::connect(uri).await?;
    sql::run(&client, "DROP TABLE IF EXISTS bench_snapshot").await?;
    sql::run(&client, "CREATE TABLE bench_snapshot (id int PRIMARY KEY, n bigint) DISTRIBUTE BY HASH (id)").await?;
    sql::run(&client, &format!("INSERT INTO bench_snapshot SELECT g, 1000 FROM generate_series(1, {ACCOUNTS}) g"))
        .await?;
    let bench = Bench { options, pgbench: pattern.program("pgbench"), uri, dir };
    let mut report = SnapshotReport {
        options: Some(options.clone()),
        version: pattern.version.clone(),
        ..SnapshotReport::default()
    };
    let mut writers = bench.start_writers()?;
    for round in 1..=options.rounds {
        for mode in MODES {
            let seen = bench.read(mode, round).await?;
            eprintln!("round {round}, {mode}: median {:.2} ms of {} reads", seen.median_ms, seen.count);
            let list = if mode == "local" { &mut report.local } else { &mut report.consistent };
            list.push(seen);
        }
        writers.must_run()?;
    }
    drop(writers);
    let sum = sql::number(&client, "SELECT sum(n) FROM bench_snapshot").await?;
    if sum != u64::from(ACCOUNTS) * 1000 {
        return Err(PgError::internal(format!("money was made or lost: the accounts hold {sum}")));
    }
    sql::run(&client, "DROP TABLE bench_snapshot").await?;
    Ok(report)
}

struct Bench<'a> {
    options: &'a SnapshotOptions,
    pgbench: PathBuf,
    uri: &'a str,
    dir: WorkDir,
}

impl Bench<'_> {
    fn start_writers(&self) -> Result<Writers> {
        if self.options.writers == 0 {
            return Ok(Writers(None));
        }
        let clients = self.options.writers.to_string();
        let script = self.script("transfer.sql", TRANSFER)?;
        // It is stopped at the end; the time is for the case that nobody is left to do so.
        let seconds = (self.options.seconds as usize * self.options.rounds * MODES.len() * 4 + 60).to_string();
        let mut command = Command::new(&self.pgbench);
        command.args(["--no-vacuum", "--jobs=2", "--client", &clients, "--time", &seconds, "--file"]);
        command.arg(script).arg(self.uri).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Writers(Some(command.spawn().map_err(|error| self.cannot_run(&error))?)))
    }

    async fn read(&self, mode: &str, round: usize) -> Result<Latencies> {
        let prefix = format!("{mode}-{round}");
        let mut command = Command::new(&self.pgbench);
        command
            .args(["--no-vacuum", "--client=1", "--log", "--time", &self.options.seconds.to_string(), "--file"])
            .arg(self.script("read.sql", READ)?)
            .arg(format!("--log-prefix={}", self.dir.path().join(&prefix).display()))
            .arg(self.uri)
            .env("PGOPTIONS", format!("-c loxo.snapshot={mode}"))
            .stdin(Stdio::null());
        let output = tokio::task::spawn_blocking(move || command.output())
            .await
            .map_err(|error| PgError::internal(error.to_string()))?
            .map_err(|error| self.cannot_run(&error))?;
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

/// Of pgbench's log: a line a transaction, its microseconds in the third column.
fn latencies(log: &str) -> Option<Latencies> {
    let mut times: Vec<u32> = log.lines().filter_map(|line| line.split(' ').nth(2)?.parse().ok()).collect();
    times.sort_unstable();
    let at = |share: f64| times.get((times.len() as f64 * share) as usize).map(|us| f64::from(*us) / 1000.0);
    Some(Latencies { median_ms: at(0.5)?, p95_ms: at(0.95)?, count: times.len() })
}

impl SnapshotReport {
    /// Median of the rounds' medians, in ms: local, consistent.
    fn medians(&self) -> [f64; 2] {
        [&self.local, &self.consistent].map(|list| median(&list.iter().map(|one| one.median_ms).collect::<Vec<_>>()))
    }

    /// The same facts as the text.
    pub fn to_json(&self) -> Value {
        let list = |list: &[Latencies]| -> Vec<Value> {
            let one =
                |seen: &Latencies| json!({"median_ms": seen.median_ms, "p95_ms": seen.p95_ms, "reads": seen.count});
            list.iter().map(one).collect()
        };
        let [local, consistent] = self.medians();
        let writers = self.options.as_ref().map(|options| options.writers);
        json!({
            "writers": writers, "server_version": self.version, "local": list(&self.local),
            "consistent": list(&self.consistent), "added_ms": consistent - local,
        })
    }
}

impl fmt::Display for SnapshotReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(SnapshotOptions { writers, seconds, .. }) = &self.options {
            writeln!(f, "a read of 8 accounts on two datanodes beside {writers} writers of two-node transactions,")?;
            writeln!(f, "rounds of {seconds} s in turn, PostgreSQL {}; milliseconds", self.version)?;
        }
        let head = ["round", "local: median", "p95", "reads", "consistent: median", "p95", "reads", "added"];
        let mut table = vec![head.map(str::to_owned).to_vec()];
        for (round, (local, consistent)) in self.local.iter().zip(&self.consistent).enumerate() {
            let mut row = vec![(round + 1).to_string()];
            for seen in [local, consistent] {
                let ms = |value: f64| format!("{value:.2}");
                row.extend([ms(seen.median_ms), ms(seen.p95_ms), grouped(seen.count as u64)]);
            }
            row.push(format!("{:.2}", consistent.median_ms - local.median_ms));
            table.push(row);
        }
        let [local, consistent] = self.medians();
        write!(f, "\n{}\na snapshot adds {:.2} ms to {local:.2} ms", text_table(&table), consistent - local)
    }
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
        let list =
            |medians: [f64; 3]| medians.map(|median_ms| Latencies { median_ms, ..Latencies::default() }).to_vec();
        let report = SnapshotReport {
            local: list([1.0, 9.0, 2.0]),
            consistent: list([3.0, 3.5, 0.1]),
            ..SnapshotReport::default()
        };
        assert_eq!(report.to_json()["added_ms"], 1.0);
    }
}
