//! `loxo bench concurrency`: what more processes that load at the same time bring, on one stock server and on the cluster.
//!
//! Each process loads as many rows as each other. With nothing in each other's way, n processes are n times as fast as one, up to the
//! number of cores: the theory line. What the backends were seen to do says what is in the way.

mod report;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use futures_util::future::try_join_all;
use pgerror::{PgError, Result, SqlState};
use tokio_postgres::Client;

use crate::lineitem::{Columns, Format, estimated_rows};
use crate::load::{Target, connect_all};
use crate::profile;
use crate::suite::{Experiment, Figure, Readings, Samples, Sheet, Stage, Step, settings};
use crate::tools::cpu;
use crate::tools::files::write_files;
use crate::tools::sql;
use crate::tools::stock::{Pattern, StockServer, WorkDir};
use crate::tools::waits::Watch;

/// Rows of an INSERT, or of a transaction of INSERTs.
const BATCH: usize = 1000;
/// Rows that a process loads by INSERT are so many times fewer.
const INSERT_SHARE: u64 = 10;
/// Connections to a server beside those of the processes: for samples, for checkpoints, and what the cluster needs.
const OTHER_CONNECTIONS: u64 = 15;

/// What to measure.
#[derive(Clone, Debug)]
pub struct ConcurrencyOptions {
    /// Rows of a process, by COPY.
    pub rows: u64,
    /// Numbers of processes.
    pub processes: Vec<u16>,
    /// Measurements of each.
    pub rounds: usize,
    /// Datanodes of the cluster.
    pub datanodes: u16,
}

impl ConcurrencyOptions {
    /// Up to 16 processes of 300,000 rows.
    pub fn full() -> Self {
        Self { rows: 300_000, processes: vec![1, 2, 4, 8, 12, 16], rounds: 3, datanodes: 2 }
    }

    /// Less than three minutes.
    pub fn quick() -> Self {
        Self { rows: 100_000, processes: vec![1, 2, 4, 8], rounds: 1, ..Self::full() }
    }
}

/// How rows are loaded, and where to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    OneTable,
    TableEach,
    TableEachNoWal,
    Indexed,
    Inserts,
    Transactions,
}

impl Method {
    const ALL: [Method; 6] = [
        Method::OneTable,
        Method::TableEach,
        Method::TableEachNoWal,
        Method::Indexed,
        Method::Inserts,
        Method::Transactions,
    ];

    fn name(self) -> &'static str {
        match self {
            Method::OneTable => "COPY, one table",
            Method::TableEach => "COPY, a table each",
            Method::TableEachNoWal => "COPY, a table each, no WAL",
            Method::Indexed => "COPY, one table with an index",
            Method::Inserts => "INSERTs of 1,000 rows",
            Method::Transactions => "transactions of 1,000 INSERTs",
        }
    }

    fn is_copy(self) -> bool {
        !matches!(self, Method::Inserts | Method::Transactions)
    }

    fn has_table_each(self) -> bool {
        matches!(self, Method::TableEach | Method::TableEachNoWal)
    }
}

/// The side that stores the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Stock,
    Cluster,
}

impl Side {
    const ALL: [Side; 2] = [Side::Stock, Side::Cluster];

    fn name(self) -> &'static str {
        match self {
            Side::Stock => "one server",
            Side::Cluster => "cluster",
        }
    }
}

fn point(method: Method, processes: u16, side: Side) -> String {
    format!("{}, {processes} processes: {}", method.name(), side.name())
}

/// The experiment.
pub struct Concurrency(pub ConcurrencyOptions);

impl Concurrency {
    fn cases(&self) -> impl Iterator<Item = (Method, u16)> {
        Method::ALL.into_iter().flat_map(|method| self.0.processes.iter().map(move |processes| (method, *processes)))
    }
}

impl Experiment for Concurrency {
    type Bench = Bench;

    fn name(&self) -> &'static str {
        "concurrency"
    }

    fn title(&self) -> String {
        "More processes that load at the same time, on one server and on the cluster".to_owned()
    }

    fn about(&self) -> String {
        "Each process loads as many rows of lineitem as each other: by COPY into one table, into a table each, into a table each that its \
         transaction has truncated (BEGIN; TRUNCATE; COPY; COMMIT, which writes no WAL with wal_level = minimal), into one table with an \
         index on l_partkey; and by INSERT, a tenth of the rows. The theory line is the rate of one process times the number of \
         processes, up to the number of cores. One server and cluster take turns, with the settings of the profile bulk on the same cores: \
         a cluster of machines has theirs besides."
            .to_owned()
    }

    fn settings(&self) -> Vec<(String, String)> {
        let ConcurrencyOptions { rows, processes, rounds, datanodes } = &self.0;
        let processes = processes.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
        settings(&[
            ("rows of a process", rows),
            ("processes", &processes),
            ("rounds", rounds),
            ("datanodes", datanodes),
        ])
    }

    fn figures(&self) -> Vec<Figure> {
        vec![
            Figure::rate("rows_per_second", "rows/s"),
            Figure::cost("server_cpu_per_million", "CPU s"),
            Figure::cost("coordinator_cpu_per_million", "CPU s"),
            Figure::fact("rows", "rows"),
        ]
    }

    fn stages(&self) -> Vec<Stage> {
        let seconds = |processes: u16| 0.5 + self.0.rows as f64 * f64::from(processes) / 1e6;
        let of_case = |(method, processes): (Method, u16)| {
            let points = Side::ALL.map(|side| point(method, processes, side));
            Step::by_turns(&points, self.0.rounds, seconds(processes))
        };
        vec![Stage { steps: self.cases().flat_map(of_case).collect(), ..Stage::of(self.0.datanodes, 2) }]
    }

    async fn prepare(&self, _: &Stage, target: &Target) -> Result<Bench> {
        Bench::prepare(&self.0, target).await
    }

    async fn step(&self, bench: &mut Bench, step: &Step) -> Result<Readings> {
        let all = self.cases().flat_map(|(method, processes)| Side::ALL.map(|side| (method, processes, side)));
        let found = all.into_iter().find(|(method, processes, side)| point(*method, *processes, *side) == step.point);
        let (method, processes, side) = found.ok_or_else(|| PgError::internal(format!("no case {}", step.point)))?;
        bench.round(method, usize::from(processes), side).await
    }

    async fn finish(&self, _: Bench) -> Result<Option<String>> {
        Ok(Some("Every load was counted: as many rows as were sent.".to_owned()))
    }

    fn sheet(&self, samples: &Samples) -> Sheet {
        report::sheet(self, samples)
    }
}

/// Where rows go, and whose work that is.
struct Place {
    /// By turns.
    uris: Vec<String>,
    servers: Vec<String>,
    postmasters: Vec<u32>,
    coordinators: Vec<u32>,
    clause: &'static str,
}

/// Field order is drop order: the server stops before its directory goes.
pub struct Bench {
    stock: Place,
    cluster: Place,
    /// One a process, with as many rows each, give or take an order's.
    files: Vec<PathBuf>,
    /// Rows of each file.
    rows: Vec<u64>,
    /// Rows that INSERT stores of a file.
    insert_rows: u64,
    _server: StockServer,
    _dir: WorkDir,
}

impl Bench {
    async fn prepare(options: &ConcurrencyOptions, target: &Target) -> Result<Self> {
        if target.coordinators.is_empty() || target.datanodes.is_empty() {
            return Err(PgError::new(SqlState::CONFIG_FILE_ERROR, "the benchmark needs a coordinator and a datanode"));
        }
        let most = options.processes.iter().copied().max().unwrap_or(1);
        let mut patterns = Vec::new();
        for datanode in connect_all(&target.datanodes).await? {
            must_bear(&datanode, most).await?;
            patterns.push(Pattern::of(&datanode).await?);
        }
        let dir = patterns[0].make_dir(Path::new(&format!("{}-bench-{}", target.dir.display(), std::process::id())))?;
        let server = StockServer::start(&patterns[0], dir.path(), "stock")?;
        let scale_factor = (options.rows * u64::from(most)) as f64 / estimated_rows(1.0) as f64;
        let (files, rows, _) =
            write_files(scale_factor, Columns::Seven, Format::Csv, dir.path(), usize::from(most)).await?;
        let stock = Place {
            uris: vec![server.uri.clone()],
            servers: vec![server.uri.clone()],
            postmasters: vec![server.postmaster],
            coordinators: Vec::new(),
            clause: "",
        };
        let cluster = Place {
            uris: target.coordinators.clone(),
            servers: target.datanodes.clone(),
            postmasters: patterns.iter().map(|pattern| pattern.postmaster).collect(),
            coordinators: cpu::find(&target.dir, &["coordinator", "gtm"])?,
            clause: if target.distributed { "DISTRIBUTE BY HASH (l_orderkey)" } else { "" },
        };
        let insert_rows = options.rows / INSERT_SHARE;
        Ok(Self { stock, cluster, files, rows, insert_rows, _server: server, _dir: dir })
    }

    async fn round(&self, method: Method, processes: usize, side: Side) -> Result<Readings> {
        let place = if side == Side::Stock { &self.stock } else { &self.cluster };
        let uris: Vec<String> = place.uris.iter().cycle().take(processes).cloned().collect();
        let clients = connect_all(&uris).await?;
        let tables = if method.has_table_each() { processes } else { 1 };
        for number in 0..tables {
            make_table(&clients[0], place, method, number).await?;
        }
        for server in connect_all(&place.servers).await? {
            sql::run(&server, "CHECKPOINT").await?;
        }
        let texts = self.texts(method, processes)?;
        let watch = Watch::begin(&place.servers).await?;
        let used =
            || Ok::<_, PgError>((cpu::tree_seconds(&place.postmasters)?, cpu::tree_seconds(&place.coordinators)?));
        let (before, began) = (used()?, Instant::now());
        try_join_all(clients.iter().zip(&texts).map(|(client, texts)| run_all(client, texts))).await?;
        let seconds = began.elapsed().as_secs_f64();
        let (after, waits) = (used()?, watch.end().await?);
        let mut rows = 0;
        for number in 0..tables {
            rows += sql::number(&clients[0], &format!("SELECT count(*) FROM {}", table(number))).await?;
            sql::run(&clients[0], &format!("DROP TABLE {}", table(number))).await?;
        }
        let sent = self.sent(method, processes);
        if rows != sent {
            return Err(PgError::internal(format!("{sent} rows were sent and {rows} are there")));
        }
        let per_million = 1e6 / rows as f64;
        let readings = Readings::default()
            .figure("rows_per_second", rows as f64 / seconds)
            .figure("rows", rows as f64)
            .figure("server_cpu_per_million", (after.0 - before.0) * per_million)
            .figure("coordinator_cpu_per_million", (after.1 - before.1) * per_million);
        Ok(profile::add(readings, &waits))
    }

    /// Rows of all processes together.
    fn sent(&self, method: Method, processes: usize) -> u64 {
        let most = if method.is_copy() { u64::MAX } else { self.insert_rows };
        self.rows.iter().take(processes).map(|rows| most.min(*rows)).sum()
    }

    /// What each process sends.
    fn texts(&self, method: Method, processes: usize) -> Result<Vec<Vec<String>>> {
        let of_process = |(number, file): (usize, &PathBuf)| {
            let table = table(if method.has_table_each() { number } else { 0 });
            let name = file.display().to_string().replace('\'', "''");
            let copy = format!("COPY {table} FROM '{name}' {}", Format::Csv.options());
            match method {
                Method::OneTable | Method::TableEach | Method::Indexed => Ok(vec![copy]),
                Method::TableEachNoWal => {
                    Ok(vec!["BEGIN".to_owned(), format!("TRUNCATE {table}"), copy, "COMMIT".to_owned()])
                }
                Method::Inserts | Method::Transactions => {
                    let lines = std::fs::read_to_string(file)?;
                    let lines: Vec<&str> = lines.lines().take(self.insert_rows as usize).collect();
                    Ok(lines.chunks(BATCH).flat_map(|batch| inserts(&table, batch, method)).collect())
                }
            }
        };
        self.files.iter().take(processes).enumerate().map(of_process).collect()
    }
}

/// The stock server has the datanode's settings; there every process has a connection of its own.
async fn must_bear(datanode: &Client, processes: u16) -> Result<()> {
    let allowed = sql::number(datanode, "SHOW max_connections").await?.saturating_sub(OTHER_CONNECTIONS);
    match u64::from(processes) <= allowed {
        true => Ok(()),
        false => Err(PgError::new(
            SqlState::TOO_MANY_CONNECTIONS,
            format!("{processes} processes are more than max_connections of the servers allows: {allowed} at most"),
        )),
    }
}

fn table(number: usize) -> String {
    format!("bench_concurrency_{number}")
}

async fn make_table(client: &Client, place: &Place, method: Method, number: usize) -> Result<()> {
    let (name, columns, clause) = (table(number), Columns::Seven.definition(), place.clause);
    sql::run(client, &format!("DROP TABLE IF EXISTS {name}")).await?;
    sql::run(client, &format!("CREATE TABLE {name} {columns} {clause}")).await?;
    match method {
        Method::Indexed => sql::run(client, &format!("CREATE INDEX ON {name} (l_partkey)")).await,
        _ => Ok(()),
    }
}

async fn run_all(client: &Client, texts: &[String]) -> Result<()> {
    for text in texts {
        sql::run(client, text).await?;
    }
    Ok(())
}

/// One INSERT of all lines, or a transaction of one INSERT each.
fn inserts(table: &str, lines: &[&str], method: Method) -> Vec<String> {
    let values = |line: &str| {
        let mut text = String::from("(");
        for (column, value) in line.split(',').enumerate() {
            // Four numbers, two dates and a text without quotes. A String takes whatever is written to it.
            let _ = match column {
                0 => write!(text, "{value}"),
                1..4 => write!(text, ", {value}"),
                _ => write!(text, ", '{value}'"),
            };
        }
        text + ")"
    };
    let all = lines.iter().map(|line| values(line));
    if method == Method::Inserts {
        return vec![format!("INSERT INTO {table} VALUES {}", all.collect::<Vec<_>>().join(", "))];
    }
    let begin = std::iter::once("BEGIN".to_owned());
    let each = all.map(|values| format!("INSERT INTO {table} VALUES {values}"));
    begin.chain(each).chain(["COMMIT".to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_file_become_inserts() {
        let lines = ["1,2,3,4,1996-01-02,1996-01-03,NONE", "5,6,7,8,1996-01-02,1996-01-03,TAKE BACK"];
        assert_eq!(
            inserts("t", &lines, Method::Inserts),
            ["INSERT INTO t VALUES (1, 2, 3, 4, '1996-01-02', '1996-01-03', 'NONE'), \
              (5, 6, 7, 8, '1996-01-02', '1996-01-03', 'TAKE BACK')"]
        );
        let texts = inserts("t", &lines, Method::Transactions);
        assert_eq!((texts.len(), texts[0].as_str(), texts[3].as_str()), (4, "BEGIN", "COMMIT"));
    }
}
