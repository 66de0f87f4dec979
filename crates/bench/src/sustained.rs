//! `loxo bench sustained`: the same load again and again without truncating, past the memory of the servers.
//!
//! Rows go over connections, so that what was sent is known at every moment; checkpoints are counted at the datanodes beside it.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use pgerror::{PgError, Result, SqlState};
use tokio_postgres::Client;

use crate::lineitem::{Columns, Format};
use crate::load::{Target, connect_all};
use crate::suite::{
    Axis, Cell, Chart, Experiment, Figure, Mark, Point, Readings, Samples, Series, Sheet, Stage, Step, Table, settings,
};
use crate::tools::copy_in::copy_file;
use crate::tools::files::write_files;
use crate::tools::progress::Progress;
use crate::tools::sql;
use crate::tools::stats::{grouped, median};
use crate::tools::stock::{Pattern, WorkDir};

const TABLE: &str = "bench_sustained";
const POINT: &str = "load";
/// Between two looks at how much was sent.
const LOOK: Duration = Duration::from_millis(500);
/// A load takes about so many seconds a scale factor.
const STEP_SECONDS: f64 = 4.0;

/// What to measure.
#[derive(Clone, Debug)]
pub struct SustainedOptions {
    /// TPC-H scale factor of one load.
    pub scale_factor: f64,
    /// How often.
    pub loads: usize,
    /// Concurrent COPYs.
    pub streams: usize,
    /// Datanodes of the cluster.
    pub datanodes: u16,
    /// `shared_buffers` of each datanode: so that even a small machine's table is larger.
    pub shared_buffers: String,
    /// `max_wal_size` of each datanode: how much WAL there is between two checkpoints.
    pub max_wal_size: String,
}

impl SustainedOptions {
    /// 300 million rows, 20 GB.
    pub fn full() -> Self {
        Self {
            scale_factor: 1.0,
            loads: 50,
            streams: 4,
            datanodes: 2,
            shared_buffers: "128MB".to_owned(),
            max_wal_size: "1GB".to_owned(),
        }
    }

    /// 10 million rows.
    pub fn quick() -> Self {
        Self {
            scale_factor: 0.2,
            loads: 8,
            shared_buffers: "32MB".to_owned(),
            max_wal_size: "128MB".to_owned(),
            ..Self::full()
        }
    }
}

/// The experiment.
pub struct Sustained(pub SustainedOptions);

/// What all loads share.
pub struct Bench {
    began: Instant,
    options: SustainedOptions,
    client: Client,
    streams: Vec<Client>,
    datanodes: Vec<Client>,
    checkpoints: &'static str,
    files: Vec<PathBuf>,
    rows: u64,
    bytes: u64,
    _dir: WorkDir,
}

impl Experiment for Sustained {
    type Bench = Bench;

    fn name(&self) -> &'static str {
        "sustained"
    }

    fn title(&self) -> String {
        "Sustained load rate".to_owned()
    }

    fn about(&self) -> String {
        "The same rows of lineitem are loaded again and again into one logged table, without truncating, until it is many times as large as \
         the servers' buffers; the line is what was sent each half second, checkpoints of any datanode are marked. To let the table \
         outgrow the system's page cache too, run it under a memory limit (systemd-run --scope -p MemoryMax=1G loxo bench sustained …)."
            .to_owned()
    }

    fn settings(&self) -> Vec<(String, String)> {
        let SustainedOptions { scale_factor, loads, streams, datanodes, shared_buffers, max_wal_size } = &self.0;
        settings(&[
            ("scale factor of a load", scale_factor),
            ("loads", loads),
            ("streams", streams),
            ("datanodes", datanodes),
            ("shared_buffers of a datanode", shared_buffers),
            ("max_wal_size of a datanode", max_wal_size),
        ])
    }

    fn figures(&self) -> Vec<Figure> {
        vec![
            Figure::rate("rows_per_second", "rows/s"),
            Figure::fact("table_mib", "MiB"),
            Figure::fact("checkpoints", "checkpoints"),
        ]
    }

    fn stages(&self) -> Vec<Stage> {
        let SustainedOptions { scale_factor, loads, datanodes, shared_buffers, max_wal_size, .. } = &self.0;
        let steps = Step::by_turns(&[POINT.to_owned()], *loads, 0.5 + STEP_SECONDS * scale_factor);
        let set = [("shared_buffers", shared_buffers), ("max_wal_size", max_wal_size)];
        let set = set.map(|(name, value)| (name.to_owned(), value.clone())).to_vec();
        vec![Stage { steps, set, ..Stage::of(*datanodes, 2) }]
    }

    /// A new cluster's table would not hold what was loaded before.
    fn is_resumable(&self) -> bool {
        false
    }

    async fn prepare(&self, _: &Stage, target: &Target) -> Result<Bench> {
        Bench::prepare(&self.0, target).await
    }

    async fn step(&self, bench: &mut Bench, step: &Step) -> Result<Readings> {
        bench.load(step.round).await
    }

    async fn finish(&self, bench: Bench) -> Result<Option<String>> {
        let found = sql::number(&bench.client, &format!("SELECT count(*) FROM {TABLE}")).await?;
        let sent = bench.rows * self.0.loads as u64;
        if found != sent {
            return Err(PgError::internal(format!("{sent} rows were sent and {found} are there")));
        }
        sql::run(&bench.client, &format!("DROP TABLE {TABLE}")).await?;
        Ok(Some(format!("All {} rows were counted at the end.", grouped(sent))))
    }

    fn sheet(&self, samples: &Samples) -> Sheet {
        let columns = ["loads", "rows/s", "table, MiB", "checkpoints meanwhile"];
        let mut table = Table::new("Each load", &columns);
        let (mut line, mut marks) = (Vec::new(), Vec::new());
        for sample in samples.at(POINT) {
            let figure = |name: &str| sample.readings.figures.get(name).copied().unwrap_or(f64::NAN);
            table.push(vec![
                Cell::text(sample.round.to_string()),
                Cell::number(figure("rows_per_second"), 0),
                Cell::number(figure("table_mib"), 0),
                Cell::number(figure("checkpoints"), 0),
            ]);
            let of = |name: &str| sample.readings.lines.get(name).cloned().unwrap_or_default();
            line.extend(of("rate").into_iter().map(|(x, y)| Point { x, y, range: None }));
            marks.extend(of("checkpoints").into_iter().map(|(at, _)| Mark { at, label: "checkpoint".to_owned() }));
        }
        let chart = Chart {
            title: "Rows sent per second".to_owned(),
            x: Axis::linear("seconds"),
            y: Axis::linear("rows/s"),
            series: vec![Series { name: "rows/s".to_owned(), points: line, dashed: false }],
            marks,
            ..Chart::default()
        };
        Sheet {
            findings: findings(&samples.values(POINT, "rows_per_second")),
            tables: vec![table],
            charts: vec![chart],
        }
    }
}

/// Is the last third as fast as the first?
fn findings(rates: &[f64]) -> Vec<String> {
    let third = rates.len() / 3;
    if third == 0 {
        return Vec::new();
    }
    let (first, last) = (median(&rates[..third]), median(&rates[rates.len() - third..]));
    vec![format!(
        "The last {third} loads ran at {:.2} of the rate of the first {third} ({} and {} rows/s).",
        last / first,
        grouped(last as u64),
        grouped(first as u64)
    )]
}

impl Bench {
    async fn prepare(options: &SustainedOptions, target: &Target) -> Result<Self> {
        if target.coordinators.is_empty() || target.datanodes.is_empty() {
            return Err(PgError::new(SqlState::CONFIG_FILE_ERROR, "the benchmark needs a coordinator and a datanode"));
        }
        let datanodes = connect_all(&target.datanodes).await?;
        let pattern = Pattern::of(&datanodes[0]).await?;
        let dir = pattern.make_dir(Path::new(&format!("{}-bench-{}", target.dir.display(), std::process::id())))?;
        let (files, rows, bytes) =
            write_files(options.scale_factor, Columns::Seven, Format::Csv, dir.path(), options.streams).await?;
        let client = sql::connect(&target.coordinators[0]).await?;
        let clause = if target.distributed { "DISTRIBUTE BY HASH (l_orderkey)" } else { "" };
        sql::run(&client, &format!("DROP TABLE IF EXISTS {TABLE}")).await?;
        sql::run(&client, &format!("CREATE TABLE {TABLE} {} {clause}", Columns::Seven.definition())).await?;
        let has_own_view = sql::number(&datanodes[0], "SELECT count(to_regclass('pg_stat_checkpointer'))").await? == 1;
        let uris: Vec<String> = target.coordinators.iter().cycle().take(options.streams).cloned().collect();
        Ok(Self {
            began: Instant::now(),
            options: options.clone(),
            client,
            streams: connect_all(&uris).await?,
            datanodes,
            checkpoints: match has_own_view {
                true => "SELECT num_timed + num_requested FROM pg_stat_checkpointer",
                false => "SELECT checkpoints_timed + checkpoints_req FROM pg_stat_bgwriter",
            },
            files,
            rows: rows.iter().sum(),
            bytes,
            _dir: dir,
        })
    }

    async fn load(&self, round: usize) -> Result<Readings> {
        let (progress, mut seen) = (Progress::new(), Seen::default());
        let before = self.count_checkpoints().await?;
        let copy = format!("COPY {TABLE} FROM STDIN {}", Format::Csv.options());
        let copies = self.streams.iter().zip(&self.files);
        let copies = try_join_all(copies.map(|(client, file)| copy_file(client, &copy, file, Some(&progress))));
        let began = Instant::now();
        let rows: u64 = tokio::select! {
            rows = copies => rows?.iter().sum(),
            broken = self.look(&progress, before, &mut seen) => broken.map(|never| match never {})?,
        };
        let seconds = began.elapsed().as_secs_f64();
        if rows != self.rows {
            return Err(PgError::internal(format!("{rows} rows were loaded instead of {}", self.rows)));
        }
        let mut bytes = 0;
        for datanode in &self.datanodes {
            bytes += sql::number(datanode, &format!("SELECT pg_table_size('{TABLE}')")).await?;
        }
        debug_assert!(round <= self.options.loads);
        Ok(Readings::default()
            .figure("rows_per_second", rows as f64 / seconds)
            .figure("table_mib", bytes as f64 / f64::from(1 << 20))
            .figure("checkpoints", (self.count_checkpoints().await? - before) as f64)
            .line("rate", seen.rate)
            .line("checkpoints", seen.checkpoints))
    }

    /// Checkpoints of all datanodes, since they were started.
    async fn count_checkpoints(&self) -> Result<u64> {
        let counts = try_join_all(self.datanodes.iter().map(|datanode| sql::number(datanode, self.checkpoints)));
        Ok(counts.await?.iter().sum())
    }

    async fn look(&self, progress: &Progress, before: u64, seen: &mut Seen) -> Result<Infallible> {
        let (mut sent, mut at, mut checkpoints) = (0, Instant::now(), before);
        let rows_a_byte = self.rows as f64 / self.bytes as f64;
        loop {
            tokio::time::sleep(LOOK).await;
            let (now_sent, now) = (progress.bytes(), Instant::now());
            let since = self.began.elapsed().as_secs_f64();
            let rate = (now_sent - sent) as f64 * rows_a_byte / (now - at).as_secs_f64();
            seen.rate.push((since, rate));
            let counted = self.count_checkpoints().await?;
            if counted > checkpoints {
                seen.checkpoints.push((since, counted as f64));
            }
            (sent, at, checkpoints) = (now_sent, now, counted);
        }
    }
}

/// Over the seconds since the first load.
#[derive(Default)]
struct Seen {
    rate: Vec<(f64, f64)>,
    checkpoints: Vec<(f64, f64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_loads_are_compared_with_the_first() {
        let found = findings(&[100.0, 120.0, 90.0, 80.0, 55.0, 55.0]);
        assert_eq!(found, ["The last 2 loads ran at 0.50 of the rate of the first 2 (55 and 110 rows/s)."]);
        assert!(findings(&[1.0, 2.0]).is_empty());
    }
}
