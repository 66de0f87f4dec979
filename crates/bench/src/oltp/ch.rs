//! `loxo bench ch`: CH-benCHmark, TPC-C's transactions and 22 analytical queries over the same tables, on a cluster and on one stock
//! server.
//!
//! Both sides begin with the same rows (`tpcc`). First sessions ask the queries alone, and every answer of the cluster is compared with
//! the stock server's. Then they ask them beside go-tpc's transactions, which end when the last query is answered.

use std::process::Stdio;
use std::time::Instant;

use futures_util::future::try_join_all;
use pgerror::{PgError, Result};
use rustix::process::{Pid, Signal, kill_process};
use tokio_postgres::Client;

use super::ch_report;
use super::gotpc::{self, Done, GoTpc};
use super::sides::{self, CLUSTER, DIRECT, Sides, TRANSFER, point};
use super::tpcc::{self, SCHEMA};
use super::twin;
use crate::load::Target;
use crate::suite::{Experiment, Figure, Readings, Samples, Sheet, Stage, Step, WRONG, settings};
use crate::tools::{program, sql};

/// How many queries there are.
pub(super) const COUNT: usize = 22;
/// What is measured.
pub(super) const ALONE: &str = "queries alone";
pub(super) const BESIDE: &str = "queries beside TPC-C";
/// Word of a sample: queries that the cluster has not answered, and why.
pub(super) const FAILED: &str = "failed";

/// Nobody waits longer for a query.
const TIMEOUT: &str = "SET statement_timeout = '300s'";
/// The transactions are ended before; this is for the case that nobody is left to do so.
const TRANSACTIONS_SECONDS: u32 = 3600;

/// Tables of the analytical part, which nobody changes.
const TABLES: [(&str, &str); 3] = [
    ("nation", "DISTRIBUTE BY REPLICATION"),
    ("region", "DISTRIBUTE BY REPLICATION"),
    ("supplier", "DISTRIBUTE BY REPLICATION"),
];

/// What to measure.
#[derive(Clone, Debug)]
pub struct ChOptions {
    /// Half a million rows each.
    pub warehouses: u32,
    /// Sessions of TPC-C.
    pub clients: u32,
    /// Sessions that ask the queries, each all of them.
    pub analysts: u32,
    /// Rounds a side.
    pub rounds: usize,
}

impl ChOptions {
    /// Ten warehouses.
    pub fn full() -> Self {
        Self { warehouses: 10, clients: 8, analysts: 1, rounds: 3 }
    }

    /// Less than three minutes.
    pub fn quick() -> Self {
        Self { warehouses: 2, clients: 2, rounds: 1, ..Self::full() }
    }
}

/// The experiment.
pub struct Ch(pub ChOptions);

/// What a round needs.
pub struct Bench {
    options: ChOptions,
    queries: Vec<String>,
    go_tpc: GoTpc,
    stock: Vec<Client>,
    cluster: Vec<Client>,
    sides: Sides,
}

impl Experiment for Ch {
    type Bench = Bench;

    fn name(&self) -> &'static str {
        "ch"
    }

    fn title(&self) -> String {
        "CH-benCHmark: TPC-C and 22 analytical queries over the same tables".to_owned()
    }

    fn about(&self) -> String {
        "The 22 queries are asked by turns of a coordinator and of one stock PostgreSQL server with the datanodes' settings: first alone, \
         when both sides have the same rows, and every answer is compared; then beside go-tpc's TPC-C, whose transactions end with the last \
         query. TPC-C's tables are distributed by the warehouse; items, suppliers, nations and regions are on every datanode. In a run of \
         its own sessions move money between datanodes beside both, and others sum it through another coordinator: no sum may be wrong."
            .to_owned()
    }

    fn settings(&self) -> Vec<(String, String)> {
        let ChOptions { warehouses, clients, analysts, rounds } = &self.0;
        settings(&[
            ("warehouses", warehouses),
            ("clients of TPC-C", clients),
            ("sessions that ask queries", analysts),
            ("rounds", rounds),
        ])
    }

    fn figures(&self) -> Vec<Figure> {
        let mut all = vec![Figure::rate("queries_per_hour", "queries/h")];
        all.extend((1..=COUNT).map(|number| Figure::cost(&milliseconds(number), "ms")));
        all.push(Figure::fact("failed_queries", "queries"));
        all.extend(gotpc::figures());
        all.extend(sides::figures());
        all
    }

    fn stages(&self) -> Vec<Stage> {
        let of = |what: &str, seconds: f64| {
            Step::by_turns(&[point(what, DIRECT), point(what, CLUSTER)], self.0.rounds, seconds)
        };
        let seconds = 1.5 * f64::from(self.0.warehouses);
        let mut steps = of(ALONE, seconds);
        steps.extend(of(BESIDE, 2.0 * seconds));
        steps.push(Step { point: point(BESIDE, TRANSFER), round: 1, seconds: 2.0 * seconds });
        vec![Stage { steps, ..Stage::of(2, 2) }]
    }

    async fn prepare(&self, _: &Stage, target: &Target) -> Result<Bench> {
        Bench::prepare(&self.0, target).await
    }

    async fn step(&self, bench: &mut Bench, step: &Step) -> Result<Readings> {
        match sides::parts(step)? {
            (ALONE, CLUSTER) => bench.compared().await,
            (ALONE, side) => Ok(bench.alone(side).await?.0),
            (_, TRANSFER) => bench.sides.transfer_sum(bench.beside(CLUSTER)).await,
            (_, side) => bench.beside(side).await,
        }
    }

    async fn finish(&self, bench: Bench) -> Result<Option<String>> {
        tpcc::check(&bench.go_tpc, bench.sides).await.map(Some)
    }

    fn sheet(&self, samples: &Samples) -> Sheet {
        ch_report::sheet(samples)
    }
}

/// Name of a figure.
pub(super) fn milliseconds(number: usize) -> String {
    format!("q{number}_ms")
}

/// In their order.
fn queries() -> Vec<String> {
    let text = include_str!("ch_queries.sql");
    text.split("\n-- Q").skip(1).filter_map(|query| Some(query.split_once('\n')?.1.trim().to_owned())).collect()
}

/// What one session got for one query.
struct Answer {
    number: usize,
    ms: f64,
    /// In any order: not all queries have one.
    rows: Result<Vec<Vec<String>>>,
}

impl Bench {
    async fn prepare(options: &ChOptions, target: &Target) -> Result<Self> {
        let go_tpc = GoTpc::of(options.warehouses)?;
        let sides = Sides::start(target, options.clients + options.analysts, false).await?;
        let filled = tpcc::fill(&go_tpc, &sides).await?;
        go_tpc.prepare("ch", &sides.uri(DIRECT, false)).await?;
        twin::copy(&sides.stock_client, &filled, &TABLES).await?;
        let view = sql::scalar(&sides.stock_client, "SELECT pg_get_viewdef('revenue1'::regclass, true)").await?;
        let view = format!("CREATE VIEW revenue1 (supplier_no, total_revenue) AS {view}");
        sql::run(&filled, &view).await?;
        let open = async |side: &str, schema: &str| {
            let client = sql::connect(&sides.uri(side, false)).await?;
            sql::run(&client, &format!("SET search_path = {schema}")).await?;
            sql::run(&client, TIMEOUT).await.map(|()| client)
        };
        let stock = try_join_all((0..options.analysts).map(|_| open(DIRECT, "public"))).await?;
        let cluster = try_join_all((0..options.analysts).map(|_| open(CLUSTER, SCHEMA))).await?;
        Ok(Self { options: options.clone(), queries: queries(), go_tpc, stock, cluster, sides })
    }

    /// The cluster's answers must be the stock server's, as long as nobody has changed rows.
    async fn compared(&self) -> Result<Readings> {
        let (readings, answers) = self.alone(CLUSTER).await?;
        let mut wrong = Vec::new();
        for answer in answers {
            let Ok(rows) = answer.rows else { continue };
            let expected = ask(&self.stock[0], answer.number, &self.queries[answer.number - 1]).await.rows?;
            if rows != expected {
                wrong.push(format!(
                    "Q{} ({} rows, the stock server has {})",
                    answer.number,
                    rows.len(),
                    expected.len()
                ));
            }
        }
        wrong.dedup();
        Ok(if wrong.is_empty() { readings } else { readings.word(WRONG, wrong.join(", ")) })
    }

    async fn alone(&self, side: &str) -> Result<(Readings, Vec<Answer>)> {
        let (answers, used) = self.sides.turn(side, self.ask_all(side)).await?;
        let (asked, per_hour) = answers;
        let readings = self.readings(used.readings(asked.len() as f64), side, &asked, per_hour)?;
        Ok((readings, asked))
    }

    /// Queries beside transactions: these run as long as those.
    async fn beside(&self, side: &str) -> Result<Readings> {
        let schema = (side == CLUSTER).then_some(SCHEMA);
        let uri = self.sides.uri(side, true);
        let mut command = self.go_tpc.run(&uri, schema, self.options.clients, TRANSACTIONS_SECONDS)?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let work = async {
            let child = command.spawn()?;
            let pid = child.id().and_then(|pid| Pid::from_raw(pid as i32));
            let mut ended = std::pin::pin!(child.wait_with_output());
            let asked = tokio::select! {
                asked = self.ask_all(side) => asked?,
                output = &mut ended => {
                    let output = output?;
                    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
                    return Err(program::failed("go-tpc ended too early:", &said.join("\n")));
                }
            };
            // It ends what it has begun, and tells what it has done.
            let pid = pid.ok_or_else(|| PgError::internal("a running program has no number"))?;
            kill_process(pid, Signal::INT).map_err(std::io::Error::from)?;
            let output = ended.await?;
            Ok((asked, Done::read(&String::from_utf8_lossy(&output.stdout))?))
        };
        let (((asked, per_hour), done), used) = self.sides.turn(side, work).await?;
        let readings = done.add_to(used.readings(done.transactions()));
        self.readings(readings, side, &asked, per_hour)
    }

    /// All queries by every session, each beginning with another one; answers, and how many an hour would be asked so.
    async fn ask_all(&self, side: &str) -> Result<(Vec<Answer>, f64)> {
        let sessions = if side == CLUSTER { &self.cluster } else { &self.stock };
        let began = Instant::now();
        let one = async |(at, client): (usize, &Client)| {
            let mut answers = Vec::new();
            for step in 0..COUNT {
                let number = (step + at * COUNT / sessions.len()) % COUNT + 1;
                answers.push(ask(client, number, &self.queries[number - 1]).await);
            }
            Ok::<_, PgError>(answers)
        };
        let answers =
            try_join_all(sessions.iter().enumerate().map(one)).await?.into_iter().flatten().collect::<Vec<_>>();
        let per_hour = answers.len() as f64 * 3600.0 / began.elapsed().as_secs_f64();
        Ok((answers, per_hour))
    }

    /// What the stock server does not answer is an error, what the cluster does not answer is part of the report.
    fn readings(&self, mut readings: Readings, side: &str, asked: &[Answer], per_hour: f64) -> Result<Readings> {
        let mut failed = Vec::new();
        for number in 1..=COUNT {
            let of_query = || asked.iter().filter(|answer| answer.number == number);
            match of_query().find_map(|answer| answer.rows.as_ref().err()) {
                Some(error) if side == DIRECT => return Err(error.clone()),
                Some(error) => failed.push(format!("Q{number}: {}", error.message())),
                None => {
                    let (sum, count) = of_query().fold((0.0, 0.0), |(sum, n), answer| (sum + answer.ms, n + 1.0));
                    readings = readings.figure(&milliseconds(number), sum / count);
                }
            }
        }
        readings = readings.figure("queries_per_hour", per_hour).figure("failed_queries", failed.len() as f64);
        Ok(if failed.is_empty() { readings } else { readings.word(FAILED, failed.join("; ")) })
    }
}

async fn ask(client: &Client, number: usize, query: &str) -> Answer {
    let began = Instant::now();
    let rows = sql::table(client, query).await;
    let ms = began.elapsed().as_secs_f64() * 1000.0;
    let in_order = |mut rows: Vec<Vec<String>>| {
        // The names of the columns come first.
        rows.get_mut(1..).unwrap_or_default().sort_unstable();
        rows
    };
    Answer { number, ms, rows: rows.map(in_order) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_22_queries() {
        let all = queries();
        assert_eq!(all.len(), COUNT);
        assert!(all.iter().all(|query| query.starts_with("select") && query.ends_with(';')), "{all:?}");
        assert!(all[14].contains("revenue1") && all[21].contains("c_phone"));
    }
}
