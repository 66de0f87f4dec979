//! `loxo bench small`: short queries over small tables, on a cluster and on one stock server.
//!
//! Here nothing counts but what a query costs before its first row: planning, snapshots, messages, temp tables. A star of
//! eight tables, each distributed by a key of its own, so that few joins are local.

use std::fmt;
use std::path::Path;
use std::time::Instant;

use pgerror::{PgError, Result};
use serde_json::{Value, json};
use tokio_postgres::Client;

use crate::load::{Target, interruptible};
use crate::report::{median, text_table};
use crate::tools::sql;
use crate::tools::stock::{Pattern, StockServer};

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
}

/// Times of the queries.
#[derive(Clone, Debug, Default)]
pub struct SmallReport {
    version: String,
    datanodes: usize,
    queries: Vec<Times>,
}

/// Milliseconds of each run.
#[derive(Clone, Debug, Default)]
struct Times {
    name: String,
    stock: Vec<f64>,
    /// With `loxo.few_rows = 0`: as if the tables were large.
    exchanged: Vec<f64>,
    cluster: Vec<f64>,
}

/// Runs the benchmark on the cluster that `start` brings up (or finds running).
///
/// # Errors
/// A server's error, or XX000 if the two sides answer differently.
pub async fn run(options: &SmallOptions, start: impl AsyncFnOnce() -> Result<Target>) -> Result<SmallReport> {
    let target = start().await?;
    interruptible(measure(options, &target)).await
}

async fn measure(options: &SmallOptions, target: &Target) -> Result<SmallReport> {
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
    let mut report =
        SmallReport { version: pattern.version.clone(), datanodes: target.datanodes.len(), queries: Vec::new() };
    for (name, query) in QUERIES {
        let mut times = Times { name: name.to_owned(), ..Times::default() };
        let (expected, _) = timed(&stock, query).await?;
        for client in [&cluster, &exchanging] {
            if timed(client, query).await?.0 != expected {
                return Err(PgError::internal(format!("the cluster's answer to \"{name}\" is another one")));
            }
        }
        for _ in 0..options.rounds {
            times.stock.push(timed(&stock, query).await?.1);
            times.exchanged.push(timed(&exchanging, query).await?.1);
            times.cluster.push(timed(&cluster, query).await?.1);
        }
        report.queries.push(times);
    }
    sql::run(&cluster, &format!("DROP TABLE {NAMES}")).await?;
    Ok(report)
}

async fn timed(client: &Client, query: &str) -> Result<(Vec<Vec<String>>, f64)> {
    let began = Instant::now();
    let rows = sql::table(client, query).await?;
    Ok((rows, began.elapsed().as_secs_f64() * 1000.0))
}

impl SmallReport {
    /// The same facts as the text.
    pub fn to_json(&self) -> Value {
        let query = |times: &Times| {
            json!({
                "query": times.name, "stock_ms": median(&times.stock), "exchanged_ms": median(&times.exchanged),
                "cluster_ms": median(&times.cluster),
            })
        };
        let queries: Vec<Value> = self.queries.iter().map(query).collect();
        json!({"server_version": self.version, "datanodes": self.datanodes, "queries": queries})
    }
}

impl fmt::Display for SmallReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} datanodes, PostgreSQL {}; medians, milliseconds", self.datanodes, self.version)?;
        let mut table = vec![["query", "stock", "exchanged", "cluster"].map(str::to_owned).to_vec()];
        for times in &self.queries {
            let ms = |times: &[f64]| format!("{:.2}", median(times));
            table.push(vec![times.name.clone(), ms(&times.stock), ms(&times.exchanged), ms(&times.cluster)]);
        }
        write!(f, "\n{}", text_table(&table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_has_the_median_of_its_runs() {
        let times =
            Times { name: "sum".to_owned(), stock: vec![3.0, 1.0, 2.0], exchanged: vec![8.0], cluster: vec![5.0, 9.0] };
        let report = SmallReport { queries: vec![times], ..SmallReport::default() };
        let json = report.to_json();
        assert_eq!((&json["queries"][0]["stock_ms"], &json["queries"][0]["cluster_ms"]), (&json!(2.0), &json!(7.0)));
    }
}
