//! `loxo bench insert`: rows as applications write them, through a coordinator against straight to one stock server, and against a
//! bare relay before that server ([`relay`]): what a hop costs in any case.
//!
//! Each client sends transactions of 1,000 rows in one of four shapes ([`Shape`]), whose rows are all of one key, and so of
//! one datanode, or each of a key of its own ([`Spread`]). Sides take turns; medians are compared, and the processor time of
//! servers and coordinators is told beside, as it says more than rows per second on a machine that has other work. The client
//! is this process itself: text and messages are the same for both sides.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use conninfo::Target as Place;
use futures_util::future::try_join_all;
use pgerror::{PgError, Result, SqlState};
use pgproto::{Connection, frontend};
use tokio_postgres::Client;

use crate::load::Target;
use crate::suite::{Experiment, Figure, Readings, Samples, Sheet, Stage, Step, settings};
use crate::tools::cpu;
use crate::tools::sql;
use crate::tools::stock::{Pattern, StockServer, WorkDir};

use relay::Relay;

mod relay;
mod report;

/// Rows of a transaction.
const ROWS: u64 = 1000;
/// Transactions' worth of rows in the table that `INSERT … SELECT` reads.
const BATCHES: u64 = 100;
/// Ids of one client in a run; none comes near its end.
const IDS_OF_A_CLIENT: u64 = 1_000_000_000;

const COLUMNS: &str = "key int, id bigint, amount numeric(12,2), name text, PRIMARY KEY (key, id)";

/// How a transaction's rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One INSERT with 1,000 rows of constants.
    Values,
    /// BEGIN, 1,000 INSERTs of constants, each awaited, COMMIT.
    Each,
    /// A prepared INSERT, bound and executed 1,000 times without awaiting: executemany and batches of drivers.
    Pipeline,
    /// INSERT … SELECT from a table with the same distribution.
    Select,
}

impl Shape {
    /// All of them with their names.
    pub const NAMED: [(&'static str, Shape); 4] =
        [("values", Shape::Values), ("each", Shape::Each), ("pipeline", Shape::Pipeline), ("select", Shape::Select)];

    fn name(self) -> &'static str {
        Self::NAMED.iter().find(|(_, shape)| *shape == self).map_or("", |(name, _)| name)
    }
}

/// Where the rows of one transaction go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spread {
    OneKey,
    ManyKeys,
}

impl Spread {
    /// The key of the row `id` of a transaction that begins with the id `first`.
    fn key(self, first: u64, id: u64) -> u64 {
        let number = match self {
            Spread::OneKey => first / ROWS,
            Spread::ManyKeys => id,
        };
        number % i32::MAX as u64
    }

    fn name(self) -> &'static str {
        match self {
            Spread::OneKey => "one node",
            Spread::ManyKeys => "all nodes",
        }
    }

    /// The table that `INSERT … SELECT` reads.
    fn source(self) -> &'static str {
        match self {
            Spread::OneKey => "bench_insert_source_one",
            Spread::ManyKeys => "bench_insert_source_many",
        }
    }
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct InsertOptions {
    /// Concurrent sessions.
    pub clients: u32,
    /// Seconds of one run.
    pub seconds: u32,
    /// Rounds a side; odd, for a real median.
    pub rounds: usize,
    /// Ways to write.
    pub shapes: Vec<Shape>,
    /// Datanodes of clusters, one after the other.
    pub nodes: Vec<u16>,
}

impl InsertOptions {
    /// All shapes, two datanodes.
    pub fn full() -> Self {
        let shapes = Shape::NAMED.map(|(_, shape)| shape).to_vec();
        Self { clients: 2, seconds: 4, rounds: 3, shapes, nodes: vec![2] }
    }

    /// Less than three minutes.
    pub fn quick() -> Self {
        Self { seconds: 1, rounds: 2, ..Self::full() }
    }
}

/// The experiment.
pub struct Insert(pub InsertOptions);

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    datanodes: u16,
    shape: Shape,
    spread: Spread,
}

const DIRECT: &str = "direct";
const RELAY: &str = "relay";
const CLUSTER: &str = "cluster";
const SIDES: [&str; 3] = [DIRECT, RELAY, CLUSTER];

impl Line {
    fn point(self, side: &str) -> String {
        let Self { datanodes, shape, spread } = self;
        format!("{}, rows on {}, {datanodes} datanodes: {side}", shape.name(), spread.name())
    }
}

impl Insert {
    fn lines(&self, datanodes: u16) -> impl Iterator<Item = Line> {
        let of_shape = move |shape: &Shape| {
            let shape = *shape;
            [Spread::OneKey, Spread::ManyKeys].map(|spread| Line { datanodes, shape, spread })
        };
        self.0.shapes.iter().flat_map(of_shape)
    }

    fn all_lines(&self) -> impl Iterator<Item = Line> {
        self.0.nodes.iter().flat_map(|datanodes| self.lines(*datanodes))
    }
}

impl Experiment for Insert {
    type Bench = Bench;

    fn name(&self) -> &'static str {
        "insert"
    }

    fn title(&self) -> String {
        "Rows written by INSERT".to_owned()
    }

    fn about(&self) -> String {
        "Clients send transactions of 1,000 rows by turns to one stock PostgreSQL server with the datanodes' settings, to a bare TCP relay \
         before that server, which passes bytes on and looks at nothing, and to a coordinator: one INSERT of 1,000 rows (values), awaited INSERTs of one row (each), a prepared INSERT executed without awaiting \
         (pipeline), INSERT … SELECT (select). All rows of a transaction have one key, and so one datanode, or each its own. The critical \
         path is the processor time of the busiest datanode, of coordinators and gtm: what is left if every datanode has a machine of \
         its own."
            .to_owned()
    }

    fn settings(&self) -> Vec<(String, String)> {
        let InsertOptions { clients, seconds, rounds, shapes, nodes } = &self.0;
        let shapes = shapes.iter().map(|shape| shape.name()).collect::<Vec<_>>().join(", ");
        let nodes = nodes.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
        settings(&[
            ("clients", clients),
            ("seconds of a round", seconds),
            ("rounds", rounds),
            ("datanodes", &nodes),
            ("shapes", &shapes),
            ("rows of a transaction", &ROWS),
        ])
    }

    fn figures(&self) -> Vec<Figure> {
        vec![
            Figure::rate("rows_per_second", "rows/s"),
            Figure::cost("server_cpu_us", "µs"),
            Figure::cost("busiest_server_cpu_us", "µs"),
            Figure::cost("coordinator_cpu_us", "µs"),
        ]
    }

    fn stages(&self) -> Vec<Stage> {
        let seconds = f64::from(self.0.seconds) + 0.5;
        let stage = |datanodes: &u16| {
            let of_line = |line: Line| Step::by_turns(&SIDES.map(|side| line.point(side)), self.0.rounds, seconds);
            Stage { steps: self.lines(*datanodes).flat_map(of_line).collect(), ..Stage::of(*datanodes, 2) }
        };
        self.0.nodes.iter().map(stage).collect()
    }

    async fn prepare(&self, _: &Stage, target: &Target) -> Result<Bench> {
        Bench::prepare(&self.0, target).await
    }

    async fn step(&self, bench: &mut Bench, step: &Step) -> Result<Readings> {
        let is_it = |line: &Line| SIDES.iter().any(|side| line.point(side) == step.point);
        let line = self.all_lines().find(is_it).ok_or_else(|| PgError::internal(format!("no line {}", step.point)))?;
        let of_side = |(side, server): (&str, _)| (line.point(side) == step.point).then_some(server);
        let sides = [(DIRECT, &bench.direct), (RELAY, &bench.relayed), (CLUSTER, &bench.cluster)];
        let server = sides.into_iter().find_map(of_side).ok_or_else(|| PgError::internal("a side is missing"))?;
        bench.round(line, server).await
    }

    async fn finish(&self, bench: Bench) -> Result<Option<String>> {
        for server in [&bench.direct, &bench.cluster] {
            server.drop_tables().await?;
        }
        Ok(None)
    }

    fn sheet(&self, samples: &Samples) -> Sheet {
        report::sheet(&self.all_lines().collect::<Vec<_>>(), samples)
    }
}

/// One of the sides.
struct Server {
    uri: String,
    client: Client,
    /// For CHECKPOINT.
    postgres: Vec<Client>,
    postmasters: Vec<u32>,
    coordinators: Vec<u32>,
    /// Through which the client goes.
    relay: Option<Relay>,
}

/// Field order is drop order: the server stops before its directory goes.
pub struct Bench {
    options: InsertOptions,
    direct: Server,
    /// The same server and tables.
    relayed: Server,
    cluster: Server,
    _stock: StockServer,
    _dir: WorkDir,
}

impl Bench {
    async fn prepare(options: &InsertOptions, target: &Target) -> Result<Self> {
        let Some(uri) = target.coordinators.first() else {
            return Err(PgError::new(SqlState::CONFIG_FILE_ERROR, "the benchmark needs a coordinator"));
        };
        let (mut datanodes, mut patterns) = (Vec::new(), Vec::new());
        for uri in &target.datanodes {
            let datanode = sql::connect(uri).await?;
            patterns.push(Pattern::of(&datanode).await?);
            datanodes.push(datanode);
        }
        let Some(pattern) = patterns.first() else {
            return Err(PgError::new(SqlState::CONFIG_FILE_ERROR, "the benchmark needs a datanode"));
        };
        let work = format!("{}-bench-{}", target.dir.display(), std::process::id());
        let dir = pattern.make_dir(Path::new(&work))?;
        eprintln!("Starting a stock server with the datanodes' settings in {work}");
        let stock = StockServer::start(pattern, dir.path(), "stock")?;
        let relay = Relay::start((std::net::Ipv4Addr::LOCALHOST, stock.port).into())?;
        let before_stock = async |uri: String, relay| -> Result<Server> {
            Ok(Server {
                uri,
                client: sql::connect(&stock.uri).await?,
                postgres: vec![sql::connect(&stock.uri).await?],
                postmasters: vec![stock.postmaster],
                coordinators: Vec::new(),
                relay,
            })
        };
        let direct = before_stock(stock.uri.clone(), None).await?;
        let uri_of_relay = format!("postgresql://postgres@127.0.0.1:{}/postgres", relay.port());
        let relayed = before_stock(uri_of_relay, Some(relay)).await?;
        let cluster = Server {
            uri: uri.clone(),
            client: sql::connect(uri).await?,
            postgres: datanodes,
            postmasters: patterns.iter().map(|pattern| pattern.postmaster).collect(),
            coordinators: cpu::find(&target.dir, &["coordinator", "gtm"])?,
            relay: None,
        };
        direct.make_tables("").await?;
        cluster.make_tables("DISTRIBUTE BY HASH (key)").await?;
        Ok(Self { options: options.clone(), direct, relayed, cluster, _stock: stock, _dir: dir })
    }

    async fn round(&self, line: Line, server: &Server) -> Result<Readings> {
        let Line { shape, spread, .. } = line;
        sql::run(&server.client, "TRUNCATE bench_insert").await?;
        for postgres in &server.postgres {
            sql::run(postgres, "CHECKPOINT").await?;
        }
        let connect = (0..self.options.clients).map(|number| Writer::connect(server, u64::from(number), shape, spread));
        let mut writers = try_join_all(connect).await?;
        let before = server.processor_seconds()?;
        let begin = Instant::now();
        let until = begin + Duration::from_secs(u64::from(self.options.seconds));
        let counts = try_join_all(writers.iter_mut().map(|writer| writer.write_until(until))).await?;
        let seconds = begin.elapsed().as_secs_f64();
        let rows = ROWS * counts.iter().sum::<u64>();
        let after = server.processor_seconds()?;
        let used = after.iter().zip(&before).map(|(after, before)| (after - before) * 1e6 / rows.max(1) as f64);
        let stored = sql::number(&server.client, "SELECT count(*) FROM bench_insert").await?;
        match stored == rows {
            true => Ok(report::readings(rows as f64 / seconds, &used.collect::<Vec<_>>(), server.postmasters.len())),
            false => Err(PgError::internal(format!("{rows} rows were acknowledged and {stored} are there"))),
        }
    }
}

impl Server {
    /// Processor seconds of each postmaster with its backends, then of each coordinator and gtm, or of the relay.
    fn processor_seconds(&self) -> Result<Vec<f64>> {
        let roots: Vec<u32> = self.postmasters.iter().chain(&self.coordinators).copied().collect();
        let mut all = cpu::each_seconds(&roots)?;
        if let Some(relay) = &self.relay {
            all.push(relay.processor_seconds()?);
        }
        Ok(all)
    }

    async fn make_tables(&self, clause: &str) -> Result<()> {
        self.drop_tables().await?;
        sql::run(&self.client, &format!("CREATE TABLE bench_insert ({COLUMNS}) {clause}")).await?;
        for (spread, key) in [(Spread::OneKey, format!("g / {ROWS}")), (Spread::ManyKeys, "g".to_owned())] {
            let source = spread.source();
            sql::run(&self.client, &format!("CREATE TABLE {source} (batch int, {COLUMNS}) {clause}")).await?;
            sql::run(
                &self.client,
                &format!(
                    "INSERT INTO {source} SELECT g / {ROWS}, {key}, g, g / 100.0, 'name of ' || g \
                     FROM generate_series(0, {} - 1) g",
                    BATCHES * ROWS
                ),
            )
            .await?;
            sql::run(&self.client, &format!("CREATE INDEX ON {source} (batch)")).await?;
            sql::run(&self.client, &format!("VACUUM ANALYZE {source}")).await?;
        }
        Ok(())
    }

    async fn drop_tables(&self) -> Result<()> {
        let [one, many] = [Spread::OneKey, Spread::ManyKeys].map(Spread::source);
        sql::run(&self.client, &format!("DROP TABLE IF EXISTS bench_insert, {one}, {many}")).await
    }
}

/// A client.
struct Writer {
    connection: Connection,
    shape: Shape,
    spread: Spread,
    /// Id of the next row.
    id: u64,
    text: String,
}

impl Writer {
    async fn connect(server: &Server, number: u64, shape: Shape, spread: Spread) -> Result<Self> {
        let mut connection = Connection::connect(&Place::parse(&server.uri)?.options()?).await?;
        if shape == Shape::Pipeline {
            frontend::parse(connection.out(), b"row", b"INSERT INTO bench_insert VALUES ($1, $2, $3, $4)", &[]);
            connection.sync();
            connection.flush().await?;
            connection.drain().await?;
        }
        Ok(Self { connection, shape, spread, id: number * IDS_OF_A_CLIENT, text: String::new() })
    }

    /// Gives the number of transactions.
    async fn write_until(&mut self, end: Instant) -> Result<u64> {
        let mut count = 0;
        while Instant::now() < end {
            match self.shape {
                Shape::Values => self.values().await?,
                Shape::Each => self.each().await?,
                Shape::Pipeline => self.pipeline().await?,
                Shape::Select => self.select().await?,
            }
            count += 1;
            self.id += ROWS;
        }
        Ok(count)
    }

    fn put_row(text: &mut String, spread: Spread, first: u64, id: u64) -> std::fmt::Result {
        let key = spread.key(first, id);
        write!(text, "({key}, {id}, {}.{:02}, 'name of {id}')", id % 10_000, id % 100)
    }

    async fn values(&mut self) -> Result<()> {
        self.text.clear();
        self.text.push_str("INSERT INTO bench_insert VALUES ");
        for id in self.id..self.id + ROWS {
            Self::put_row(&mut self.text, self.spread, self.id, id).map_err(|e| PgError::internal(e.to_string()))?;
            self.text.push(if id + 1 < self.id + ROWS { ',' } else { ';' });
        }
        self.connection.execute(&self.text).await.map(drop)
    }

    async fn each(&mut self) -> Result<()> {
        self.connection.execute("BEGIN").await?;
        for id in self.id..self.id + ROWS {
            self.text.clear();
            self.text.push_str("INSERT INTO bench_insert VALUES ");
            Self::put_row(&mut self.text, self.spread, self.id, id).map_err(|e| PgError::internal(e.to_string()))?;
            self.connection.execute(&self.text).await?;
        }
        self.connection.execute("COMMIT").await.map(drop)
    }

    async fn pipeline(&mut self) -> Result<()> {
        self.connection.query(b"BEGIN");
        for id in self.id..self.id + ROWS {
            let key = self.spread.key(self.id, id);
            let amount = format!("{}.{:02}", id % 10_000, id % 100);
            let values = [key.to_string(), id.to_string(), amount, format!("name of {id}")];
            let bind = frontend::Bind {
                statement: Bytes::from_static(b"row"),
                parameters: values.into_iter().map(|value| Some(Bytes::from(value))).collect(),
                ..frontend::Bind::default()
            };
            frontend::bind(self.connection.out(), &bind);
            frontend::execute(self.connection.out(), b"", 0);
        }
        self.connection.sync();
        self.connection.query(b"COMMIT");
        self.connection.flush().await?;
        self.connection.drain().await
    }

    async fn select(&mut self) -> Result<()> {
        let (source, batch) = (self.spread.source(), (self.id / ROWS) % BATCHES);
        let offset = self.id;
        let sql = match self.spread {
            Spread::OneKey => format!(
                "INSERT INTO bench_insert SELECT key, id + {offset}, amount, name FROM {source} WHERE key = {batch}"
            ),
            Spread::ManyKeys => format!(
                "INSERT INTO bench_insert SELECT key, id + {offset}, amount, name FROM {source} WHERE batch = {batch}"
            ),
        };
        self.connection.execute(&sql).await.map(drop)
    }
}
