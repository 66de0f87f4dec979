//! `loxo bench small`: short queries over small tables, on a cluster and on one stock server.
//!
//! Here nothing counts but what a query costs before its first row: planning, snapshots, messages, temp tables. A star of
//! eight tables, each distributed by a key of its own, so that few joins are local.

use std::path::Path;
use std::time::Instant;

use pgerror::{PgError, Result};
use tokio_postgres::Client;

use crate::load::Target;
use crate::suite::{Cell, Chart, Experiment, Figure, Readings, Samples, Sheet, Stage, Step, Table, settings};
use crate::tools::sql;
use crate::tools::stock::{Pattern, StockServer, WorkDir};

const TABLES: &str = "\
CREATE TABLE small_day (day int PRIMARY KEY, year int, month int);
CREATE TABLE small_item (item int PRIMARY KEY, brand text, category text, price numeric(10,2));
CREATE TABLE small_store (store int PRIMARY KEY, region text);
CREATE TABLE small_customer (customer int PRIMARY KEY, city text, since int);
CREATE TABLE small_sale (sale int PRIMARY KEY, item int, customer int, store int, day int, amount numeric(10,2));
CREATE TABLE small_web (sale int PRIMARY KEY, item int, customer int, day int, amount numeric(10,2));
CREATE TABLE small_mail (sale int PRIMARY KEY, item int, customer int, day int, amount numeric(10,2));
CREATE TABLE small_return (ticket int PRIMARY KEY, sale int, reason text, amount numeric(10,2));
INSERT INTO small_day SELECT g, 2020 + g / 100, g % 12 + 1 FROM generate_series(1, 300) g;
INSERT INTO small_item SELECT g, 'brand ' || g % 7, 'category ' || g % 5, g * 1.5 FROM generate_series(1, 100) g;
INSERT INTO small_store SELECT g, 'region ' || g % 3 FROM generate_series(1, 10) g;
INSERT INTO small_customer SELECT g, 'city ' || g % 9, g % 300 + 1 FROM generate_series(1, 200) g;
INSERT INTO small_sale SELECT g, g % 100 + 1, g % 200 + 1, g % 10 + 1, g % 300 + 1, g % 97 FROM generate_series(1, 1000) g;
INSERT INTO small_web SELECT g, g % 99 + 1, g % 199 + 1, g % 300 + 1, g % 89 FROM generate_series(1, 400) g;
INSERT INTO small_mail SELECT g, g % 98 + 1, g % 198 + 1, g % 300 + 1, g % 83 FROM generate_series(1, 300) g;
INSERT INTO small_return SELECT g, g * 7, 'reason ' || g % 4, g % 20 FROM generate_series(1, 100) g";

const NAMES: &str =
    "small_day, small_item, small_store, small_customer, small_sale, small_web, small_mail, small_return";

/// Each with what it is about.
const QUERIES: [(&str, &str); 9] = [
    ("sum", "SELECT count(*), sum(amount), min(day) FROM small_sale"),
    ("groups", "SELECT store, count(*), avg(amount) FROM small_sale GROUP BY store ORDER BY store"),
    ("first 10", "SELECT sale, amount FROM small_sale ORDER BY amount DESC, sale LIMIT 10"),
    (
        "2 tables",
        "SELECT c.city, count(*) FROM small_sale s JOIN small_customer c USING (customer) GROUP BY 1 ORDER BY 1",
    ),
    (
        "5 tables",
        "SELECT i.brand, t.region, d.year, sum(s.amount) FROM small_sale s JOIN small_item i USING (item) \
         JOIN small_store t USING (store) JOIN small_day d USING (day) JOIN small_customer c USING (customer) \
         WHERE d.year = 2021 AND c.city <> 'city 3' GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2 LIMIT 20",
    ),
    (
        "7 tables",
        "SELECT i.category, t.region, r.reason, count(*), sum(r.amount) FROM small_sale s JOIN small_item i USING (item) \
         JOIN small_store t USING (store) JOIN small_day d ON d.day = s.day JOIN small_customer c USING (customer) \
         JOIN small_return r ON r.sale = s.sale JOIN small_day f ON f.day = c.since WHERE f.year <= d.year \
         GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
    ),
    (
        "3 channels",
        "WITH all_sales AS (SELECT 'store' AS channel, item, customer, day, amount FROM small_sale \
         UNION ALL SELECT 'web', item, customer, day, amount FROM small_web \
         UNION ALL SELECT 'mail', item, customer, day, amount FROM small_mail) \
         SELECT a.channel, i.category, d.year, count(*), sum(a.amount) FROM all_sales a JOIN small_item i USING (item) \
         JOIN small_day d USING (day) JOIN small_customer c USING (customer) WHERE c.city = 'city 1' \
         GROUP BY ROLLUP (1, 2, 3) ORDER BY 1, 2, 3",
    ),
    (
        "2 years",
        "WITH totals AS (SELECT c.customer, c.city, d.year, sum(s.amount) AS total FROM small_customer c \
         JOIN small_sale s USING (customer) JOIN small_day d USING (day) GROUP BY 1, 2, 3) \
         SELECT a.customer, a.city, a.total, b.total FROM totals a JOIN totals b USING (customer) \
         WHERE a.year = 2020 AND b.year = 2021 AND b.total > a.total ORDER BY 1 LIMIT 50",
    ),
    (
        "no partner",
        "SELECT c.city, count(*) FROM small_customer c WHERE EXISTS (SELECT FROM small_sale s WHERE s.customer = c.customer) \
         AND NOT EXISTS (SELECT FROM small_web w JOIN small_item i USING (item) \
         WHERE w.customer = c.customer AND i.price > 100) GROUP BY 1 ORDER BY 1",
    ),
];

/// What to measure.
#[derive(Clone, Debug)]
pub struct SmallOptions {
    /// Runs of each query on either side, by turns, after one that does not count.
    pub rounds: usize,
    /// Datanodes of a new cluster.
    pub datanodes: u16,
}

impl SmallOptions {
    /// Twenty rounds.
    pub fn full() -> Self {
        Self { rounds: 20, datanodes: 2 }
    }

    /// Five.
    pub fn quick() -> Self {
        Self { rounds: 5, ..Self::full() }
    }
}

/// The experiment.
pub struct Small(pub SmallOptions);

/// *exchanged*: the same cluster with `loxo.few_rows = 0`, as if the tables were large.
const SIDES: [(&str, &str); 3] = [("stock", "stock_ms"), ("exchanged", "exchanged_ms"), ("cluster", "cluster_ms")];

/// Field order is drop order: the server stops before its directory goes.
pub struct Bench {
    stock: Client,
    exchanging: Client,
    cluster: Client,
    _server: StockServer,
    _dir: WorkDir,
}

impl Experiment for Small {
    type Bench = Bench;

    fn name(&self) -> &'static str {
        "small"
    }

    fn title(&self) -> String {
        "Short queries over small tables".to_owned()
    }

    fn about(&self) -> String {
        "A star of eight tables of 10 to 1,000 rows, each distributed by a key of its own, so that few joins are local. Nothing counts \
         but what a query costs before its first row. \"exchanged\" is the cluster with loxo.few_rows = 0, where every table that moves \
         costs a temp table on every node."
            .to_owned()
    }

    fn settings(&self) -> Vec<(String, String)> {
        settings(&[("rounds", &self.0.rounds), ("datanodes", &self.0.datanodes)])
    }

    fn figures(&self) -> Vec<Figure> {
        [2, 0, 1].map(|side: usize| Figure::cost(SIDES[side].1, "ms")).to_vec()
    }

    fn stages(&self) -> Vec<Stage> {
        let queries = QUERIES.map(|(name, _)| name.to_owned());
        vec![Stage { steps: Step::by_turns(&queries, self.0.rounds, 0.05), ..Stage::of(self.0.datanodes, 1) }]
    }

    async fn prepare(&self, _: &Stage, target: &Target) -> Result<Bench> {
        Bench::prepare(target).await
    }

    async fn step(&self, bench: &mut Bench, step: &Step) -> Result<Readings> {
        let query = QUERIES.iter().find(|(name, _)| *name == step.point).map_or("", |(_, query)| query);
        let sides = [&bench.stock, &bench.exchanging, &bench.cluster];
        let mut readings = Readings::default();
        for (client, (_, figure)) in sides.into_iter().zip(SIDES) {
            readings = readings.figure(figure, timed(client, query).await?.1);
        }
        Ok(readings)
    }

    async fn finish(&self, bench: Bench) -> Result<Option<String>> {
        sql::run(&bench.cluster, &format!("DROP TABLE {NAMES}")).await?;
        Ok(Some("The cluster's answers are those of one server.".to_owned()))
    }

    fn sheet(&self, samples: &Samples) -> Sheet {
        let columns = ["query", "stock", "exchanged", "cluster", "cluster / stock"];
        let mut table = Table::new("Milliseconds", &columns);
        for (query, _) in QUERIES {
            let [stock, exchanged, cluster] = SIDES.map(|(_, figure)| samples.cell(query, figure, 2));
            let [of_stock, of_cluster] = ["stock_ms", "cluster_ms"].map(|figure| samples.median(query, figure));
            table.push(vec![Cell::text(query), stock, exchanged, cluster, Cell::ratio(of_cluster, of_stock)]);
        }
        let queries = QUERIES.map(|(name, _)| name.to_owned());
        let chart = Chart::bars("A query", "ms", &queries, &SIDES.map(|(side, _)| side), |query, side| {
            samples.values(query, &format!("{side}_ms"))
        });
        Sheet { findings: Vec::new(), tables: vec![table], charts: vec![chart] }
    }
}

impl Bench {
    /// Fills the tables, and asks everything once on every side, which does not count.
    async fn prepare(target: &Target) -> Result<Self> {
        let uri = target.coordinators.first().ok_or_else(|| PgError::internal("a cluster without a coordinator"))?;
        let datanode = target.datanodes.first().ok_or_else(|| PgError::internal("a cluster without a datanode"))?;
        let pattern = Pattern::of(&sql::connect(datanode).await?).await?;
        let dir = pattern.make_dir(Path::new(&format!("{}-bench-{}", target.dir.display(), std::process::id())))?;
        let server = StockServer::start(&pattern, dir.path(), "stock")?;
        let (stock, cluster) = (sql::connect(&server.uri).await?, sql::connect(uri).await?);
        let exchanging = sql::connect(uri).await?;
        sql::run(&exchanging, "SET loxo.few_rows = 0").await?;
        for client in [&stock, &cluster] {
            sql::run(client, &format!("DROP TABLE IF EXISTS {NAMES}")).await?;
            sql::run(client, TABLES).await?;
            sql::run(client, "ANALYZE").await?;
        }
        for (name, query) in QUERIES {
            let (expected, _) = timed(&stock, query).await?;
            for client in [&cluster, &exchanging] {
                if timed(client, query).await?.0 != expected {
                    return Err(PgError::internal(format!("the cluster's answer to \"{name}\" is another one")));
                }
            }
        }
        Ok(Self { stock, exchanging, cluster, _server: server, _dir: dir })
    }
}

async fn timed(client: &Client, query: &str) -> Result<(Vec<Vec<String>>, f64)> {
    let began = Instant::now();
    let rows = sql::table(client, query).await?;
    Ok((rows, began.elapsed().as_secs_f64() * 1000.0))
}
