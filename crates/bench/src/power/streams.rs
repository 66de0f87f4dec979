//! Throughput: several sessions run all queries at the same time.

use std::collections::BTreeMap;
use std::time::Instant;

use futures_util::future::try_join_all;
use pgerror::Result;
use tokio_postgres::Client;

use super::options::PowerOptions;
use super::queries::{self, Query};
use super::tables::SCHEMA;
use crate::beside::{Beside, is_of_connection, timed};
use crate::suite::{Readings, WRONG};
use crate::tools::sql;

/// Rows of each query in an order of their own, or its error.
type Answers = BTreeMap<usize, std::result::Result<Vec<Vec<String>>, String>>;

/// Names of figures, and for people.
pub(super) const SIDES: [(&str, &str); 3] =
    [("stock", "stock"), ("stock_with_workers", "with workers"), ("cluster", "cluster")];

/// Word of a sample: what has failed on a side.
pub(super) fn failed_on(side: &str) -> String {
    format!("failed_on_{side}")
}

/// Word of a sample: which answers of a side are wrong.
pub(super) fn wrong_on(side: &str) -> String {
    format!("wrong_on_{side}")
}

/// On the stock server without and with workers, and on the cluster, one after the other; every answer is compared with one of the first.
pub(super) async fn measure(beside: &Beside, options: &PowerOptions) -> Result<Readings> {
    let common = Beside::settings(&options.work_mem, options.timeout_seconds);
    let workers = |count: u32| format!("{common}; SET max_parallel_workers_per_gather = {count}");
    let places = [
        (&beside.stock.uri, workers(0)),
        (&beside.stock.uri, workers(2)),
        (&beside.uri, format!("{common}; SET search_path = {SCHEMA}")),
    ];
    let (mut readings, mut expected, mut all_wrong) = (Readings::default(), None::<Answers>, Vec::new());
    for ((side, name), (uri, settings)) in SIDES.into_iter().zip(places) {
        let clients = try_join_all((0..options.streams).map(|_| connected(uri, &settings))).await?;
        let started = Instant::now();
        let streams = clients.iter().enumerate().map(|(number, client)| stream(client, options, number));
        let answers = try_join_all(streams).await?;
        let seconds = started.elapsed().as_secs_f64();
        let expected = expected.get_or_insert_with(|| answers[0].clone());
        let (wrong, failed) = compare(expected, &answers);
        readings = match failed.as_slice() {
            [] => readings.figure(side, seconds),
            // How long it took says nothing then.
            _ => readings.word(&failed_on(side), failed.join("; ")),
        };
        if !wrong.is_empty() {
            all_wrong.push(format!("{name}: {}", wrong.join("; ")));
            readings = readings.word(&wrong_on(side), wrong.join("; "));
        }
    }
    Ok(match all_wrong.as_slice() {
        [] => readings,
        _ => readings.word(WRONG, all_wrong.join("; ")),
    })
}

async fn connected(uri: &str, settings: &str) -> Result<Client> {
    let client = sql::connect(uri).await?;
    sql::run(&client, settings).await?;
    Ok(client)
}

/// All queries, each stream beginning at another one.
async fn stream(client: &Client, options: &PowerOptions, number: usize) -> Result<Answers> {
    let mut order = options.queries.clone();
    order.rotate_left(number * options.queries.len() / options.streams.max(1));
    let mut answers = Answers::new();
    for query in order {
        let query = queries::query(query, options.scale_factor, number)?;
        let answer = match answer(client, &query).await {
            Ok(rows) => Ok(rows),
            Err(error) if is_of_connection(&error) => return Err(error),
            Err(error) => Err(format!("{} ({})", error.message(), error.code())),
        };
        answers.insert(query.number, answer);
    }
    Ok(answers)
}

async fn answer(client: &Client, query: &Query) -> Result<Vec<Vec<String>>> {
    if let Some(statement) = &query.before {
        sql::run(client, statement).await?;
    }
    let found = timed(client, &query.sql).await;
    if let Some(statement) = &query.after {
        sql::run(client, statement).await?;
    }
    let mut rows = found?.rows;
    rows.sort();
    Ok(rows)
}

/// What differs, and what has failed, by query and stream. A query that one server did not answer is compared with nothing.
fn compare(expected: &Answers, streams: &[Answers]) -> (Vec<String>, Vec<String>) {
    let (mut wrong, mut failed) = (Vec::new(), Vec::new());
    for (number, answers) in streams.iter().enumerate() {
        for (query, answer) in answers {
            let named = |how: &str| format!("Q{query} in stream {}: {how}", number + 1);
            match (answer, expected.get(query)) {
                (Err(error), _) => failed.push(named(error)),
                (Ok(rows), Some(Ok(right))) if rows != right => wrong.push(named("not the rows of one server")),
                _ => {}
            }
        }
    }
    (wrong, failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stream_is_compared() {
        let rows = |text: &str| Ok(vec![vec![text.to_owned()]]);
        let right = Answers::from([(1, rows("a")), (2, rows("b")), (3, Err("no (57014)".to_owned()))]);
        let other = Answers::from([(1, rows("a")), (2, rows("c")), (3, rows("d"))]);
        let (wrong, failed) = compare(&right, &[right.clone(), other]);
        assert_eq!(wrong, ["Q2 in stream 2: not the rows of one server"]);
        assert_eq!(failed, ["Q3 in stream 1: no (57014)"]);
    }
}
