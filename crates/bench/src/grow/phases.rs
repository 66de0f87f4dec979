//! The phases, one after the other.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pgerror::Result;
use tokio_postgres::Client;

use super::report::{Alone, GrowReport, Phase, Second};
use super::workload::{Shared, Workload};
use super::{Datanodes, GrowOptions};
use crate::lineitem::{Blocks, Columns, Format, estimated_rows};
use crate::load::{TABLE, Target};
use crate::tools::copy_in::{self, Cancel};
use crate::tools::progress::Progress;
use crate::tools::sql;
use crate::tools::stats::grouped;
use crate::tools::transfer::Accounts;
use crate::verify::ordered_md5;

const TABLES: &str = "bench_account, bench_lineitem";
/// Between two looks at the journal.
const STEP_LOOK: Duration = Duration::from_millis(20);
const SECOND: Duration = Duration::from_secs(1);

pub(crate) async fn measure<D: Datanodes>(
    options: &GrowOptions,
    target: &Target,
    datanodes: &D,
    keeps_cluster: bool,
) -> Result<GrowReport> {
    let mut bench = Bench::prepare(options, target, datanodes).await?;
    bench.beside_work().await?;
    bench.alone(keeps_cluster).await?;
    sql::run(&bench.client, &format!("DROP TABLE {TABLES}")).await?;
    Ok(bench.report)
}

struct Bench<'a, D> {
    target: &'a Target,
    datanodes: &'a D,
    client: Client,
    /// Where the journal of moves is.
    primary: Client,
    report: GrowReport,
}

impl<'a, D: Datanodes> Bench<'a, D> {
    async fn prepare(options: &GrowOptions, target: &'a Target, datanodes: &'a D) -> Result<Self> {
        let client = sql::connect(&target.coordinators[0]).await?;
        let primary = sql::connect(&target.datanodes[0]).await?;
        sql::run(&client, &format!("DROP TABLE IF EXISTS {TABLES}")).await?;
        Accounts::make(&client, options.accounts).await?;
        let lineitem =
            format!("CREATE TABLE {TABLE} {} DISTRIBUTE BY HASH (l_orderkey)", Columns::Sixteen.definition());
        sql::run(&client, &lineitem).await?;
        let rows = load(&client, options.scale_factor).await?;
        eprintln!("lineitem has {} rows; its primary key, statistics, MD5", grouped(rows));
        sql::run(&client, &format!("ALTER TABLE {TABLE} ADD PRIMARY KEY (l_orderkey, l_linenumber)")).await?;
        sql::run(&client, "ANALYZE").await?;
        let report = GrowReport {
            options: options.clone(),
            lineitem: rows,
            md5: vec![ordered_md5(&client, TABLE).await?],
            ..GrowReport::default()
        };
        Ok(Self { target, datanodes, client, primary, report })
    }

    /// The three phases with the workload, which goes on between them.
    async fn beside_work(&mut self) -> Result<()> {
        let options = self.report.options.clone();
        let began = Instant::now();
        let accounts = Accounts::find(&self.target.datanodes).await?;
        let sessions = (options.writers, options.readers);
        let workload = Workload::start(&self.target.coordinators, accounts, sessions, began).await?;
        let shared = workload.shared.clone();
        let watch = Watch { began, shared: &shared, state: Mutex::new("alone"), seconds: Mutex::default() };
        let watcher = sql::connect(&self.target.datanodes[0]).await?;
        let phases = async {
            self.phase("alone", &watch, async |_| {
                tokio::time::sleep(Duration::from_secs(options.seconds.into())).await;
                Ok(())
            })
            .await?;
            let mut name = String::new();
            self.phase("add a datanode", &watch, async |this| {
                watch.set("joining");
                name = this.datanodes.add().await?.0;
                watch.set("filling");
                this.datanodes.fill().await
            })
            .await?;
            self.phase("remove it", &watch, async |this| {
                watch.set("emptying");
                this.datanodes.remove(&name).await
            })
            .await
        };
        let done: Result<()> = tokio::select! {
            done = phases => done,
            broken = watch.every_second(&watcher) => broken.map(|never| match never {}),
        };
        done?;
        let Watch { seconds, .. } = watch;
        self.report.seconds = seconds.into_inner().unwrap_or_else(PoisonError::into_inner);
        let shared = workload.end().await?;
        self.close(&shared).await
    }

    /// What the sessions have seen in the phases, and whether all rows are there.
    async fn close(&mut self, shared: &Arc<Shared>) -> Result<()> {
        if let Some(last) = self.report.phases.last_mut() {
            // What was under way at its end belongs to it.
            last.to = last.to.max(shared.elapsed());
        }
        for phase in &mut self.report.phases {
            phase.writers = shared.writers.figures(phase.from, phase.to);
            phase.readers = shared.readers.figures(phase.from, phase.to);
            phase.queries = shared.queries.figures(phase.from, phase.to);
        }
        let all = [&shared.writers, &shared.readers, &shared.queries];
        self.report.troubles = all.iter().flat_map(|seen| seen.troubles()).collect();
        self.report.commits = shared.writers.count() as u64;
        self.report.unknown = shared.unknown.load(std::sync::atomic::Ordering::Relaxed);
        let sum = |column: &str| format!("SELECT sum({column})::bigint FROM bench_account");
        self.report.money = sql::number(&self.client, &sum("balance")).await?;
        self.report.changes = sql::number(&self.client, &sum("changes")).await?;
        self.report.accounts = sql::number(&self.client, "SELECT count(DISTINCT id) FROM bench_account").await?;
        self.report.md5.push(ordered_md5(&self.client, TABLE).await?);
        Ok(())
    }

    async fn phase(
        &mut self,
        name: &'static str,
        watch: &Watch<'_>,
        work: impl AsyncFnOnce(&Self) -> Result<()>,
    ) -> Result<()> {
        eprintln!("phase: {name}");
        let from = watch.began.elapsed();
        work(self).await?;
        let moved = match name {
            "alone" => (0, 0.0),
            _ => self.moved().await?,
        };
        let to = watch.began.elapsed();
        self.report.phases.push(Phase {
            name,
            from,
            to,
            rows_moved: moved.0,
            moving_seconds: moved.1,
            ..Phase::default()
        });
        Ok(())
    }

    /// Rows and seconds of the last rebalance.
    async fn moved(&self) -> Result<(u64, f64)> {
        let rows = sql::number(&self.primary, "SELECT rows_moved FROM pgxc_rebalance").await?;
        let took = "SELECT extract(epoch FROM changed - started) FROM pgxc_rebalance";
        Ok((rows, sql::scalar(&self.primary, took).await?.parse().unwrap_or_default()))
    }

    /// With nothing else running.
    async fn alone(&mut self, keeps_cluster: bool) -> Result<()> {
        eprintln!("phase: add a datanode, nothing else running");
        let (name, uri) = self.datanodes.add().await?;
        let mut steps = Vec::new();
        tokio::select! {
            filled = self.datanodes.fill() => filled?,
            broken = self.note_steps(&mut steps) => broken.map(|never| match never {})?,
        }
        let (rows_moved, seconds) = self.moved().await?;
        let lineitem = sql::number(&sql::connect(&uri).await?, &format!("SELECT count(*) FROM {TABLE}")).await?;
        self.report.alone = Alone { lineitem, rows_moved, seconds, steps };
        self.report.md5.push(ordered_md5(&self.client, TABLE).await?);
        if keeps_cluster {
            self.datanodes.remove(&name).await?;
        }
        Ok(())
    }

    /// When how many rows had moved, after each step or few.
    async fn note_steps(&self, steps: &mut Vec<(Instant, u64)>) -> Result<Infallible> {
        loop {
            let running = "SELECT rows_moved FROM pgxc_rebalance WHERE state = 'running'";
            let found = sql::table(&self.primary, running).await?;
            let moved = found.get(1).and_then(|row| row[0].parse().ok()).unwrap_or(0);
            if moved > steps.last().map_or(0, |(_, rows)| *rows) {
                steps.push((Instant::now(), moved));
            }
            tokio::time::sleep(STEP_LOOK).await;
        }
    }
}

async fn load(client: &Client, scale_factor: f64) -> Result<u64> {
    let (progress, cancel) = (Progress::new(), Cancel::default());
    let blocks = copy_in::generate(Blocks::new(scale_factor, 1, 1, Columns::Sixteen, Format::Csv));
    let copy = format!("COPY {TABLE} FROM STDIN {}", Format::Csv.options());
    tokio::select! {
        rows = copy_in::copy_blocks(client, &copy, blocks, &progress, &cancel) => rows,
        never = progress.show(estimated_rows(scale_factor)) => match never {},
    }
}

/// A line a second.
struct Watch<'s> {
    began: Instant,
    shared: &'s Arc<Shared>,
    state: Mutex<&'static str>,
    seconds: Mutex<Vec<Second>>,
}

impl Watch<'_> {
    fn set(&self, state: &'static str) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    async fn every_second(&self, primary: &Client) -> Result<Infallible> {
        let mut from = self.began.elapsed();
        let mut tick = tokio::time::interval_at(tokio::time::Instant::now() + SECOND, SECOND);
        loop {
            tick.tick().await;
            let to = self.began.elapsed();
            let moved = sql::table(primary, "SELECT rows_moved FROM pgxc_rebalance").await?;
            let second = Second {
                at: to,
                state: *self.state.lock().unwrap_or_else(PoisonError::into_inner),
                rows_moved: moved.get(1).and_then(|row| row[0].parse().ok()).unwrap_or(0),
                writers: self.shared.writers.figures(from, to),
                readers: self.shared.readers.figures(from, to),
            };
            eprintln!("{second}");
            self.seconds.lock().unwrap_or_else(PoisonError::into_inner).push(second);
            from = to;
        }
    }
}
