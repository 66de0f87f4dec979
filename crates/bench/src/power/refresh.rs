//! TPC-H's refresh functions: a thousandth of the orders comes (RF1), as many go (RF2).
//!
//! The generator makes no refresh data. TPC-H numbers orders sparsely, eight of every 32 keys, and leaves the others to them: so the new
//! orders are rows of the generator with keys from those gaps. The old ones are taken from the other end of the table, so that no new one
//! is among them.

use std::time::Instant;

use pgerror::{PgError, Result};
use tokio_postgres::Client;
use tpchgen::csv::{LineItemCsv, OrderCsv};
use tpchgen::generators::{LineItemGenerator, OrderGenerator};

use super::tables::{TABLES, in_blocks};
use crate::beside::{Beside, copy_csv};
use crate::suite::{Readings, WRONG};
use crate::tools::sql;

/// One of so many parts of the orders is refreshed at once.
const PARTS: i32 = 1000;
/// In the keys of the generator's orders this bit is 0.
const GAP: i64 = 8;

/// RF1, part `round`, on both sides.
pub(super) async fn insert(beside: &Beside, scale_factor: f64, round: usize) -> Result<Readings> {
    let part = part_of(round)?;
    both(beside, async |client| {
        sql::run(client, "BEGIN").await?;
        let orders = OrderGenerator::new(scale_factor, part, PARTS).iter().map(|mut order| {
            order.o_orderkey |= GAP;
            OrderCsv::new(order)
        });
        copy_csv(client, "orders", Box::new(in_blocks(orders))).await?;
        let lines = LineItemGenerator::new(scale_factor, part, PARTS).iter().map(|mut line| {
            line.l_orderkey |= GAP;
            LineItemCsv::new(line)
        });
        copy_csv(client, "lineitem", Box::new(in_blocks(lines))).await?;
        sql::run(client, "COMMIT").await
    })
    .await
}

/// RF2, part `round` from the end, on both sides.
pub(super) async fn delete(beside: &Beside, scale_factor: f64, round: usize) -> Result<Readings> {
    let (first, last) = keys(scale_factor, PARTS + 1 - part_of(round)?);
    both(beside, async |client| {
        let delete = |table, key| format!("DELETE FROM {table} WHERE {key} BETWEEN {first} AND {last}");
        let (lines, orders) = (delete("lineitem", "l_orderkey"), delete("orders", "o_orderkey"));
        for statement in ["BEGIN", &lines, &orders, "COMMIT"] {
            sql::run(client, statement).await?;
        }
        Ok(())
    })
    .await
}

fn part_of(round: usize) -> Result<i32> {
    // Beyond the middle, old orders would be among the new ones.
    let part = i32::try_from(round).ok().filter(|part| (1..=PARTS / 2).contains(part));
    part.ok_or_else(|| PgError::internal(format!("no part {round} of the orders")))
}

/// First and last key of a part; an empty range if it has no orders, as the smallest scale factors do.
fn keys(scale_factor: f64, part: i32) -> (i64, i64) {
    let orders = OrderGenerator::new(scale_factor, part, PARTS);
    let keys = || orders.iter().map(|order| order.o_orderkey);
    (keys().next().unwrap_or(1), keys().last().unwrap_or(0))
}

/// On one side after the other; then both must hold the same.
async fn both(beside: &Beside, change: impl AsyncFn(&Client) -> Result<()>) -> Result<Readings> {
    let mut readings = Readings::default();
    for (name, client) in [("stock", &beside.plain), ("cluster", &beside.cluster)] {
        let started = Instant::now();
        change(client).await?;
        readings = readings.figure(name, started.elapsed().as_secs_f64());
    }
    for table in ["orders", "lineitem"] {
        let (expected, found) = (digest(&beside.plain, table).await?, digest(&beside.cluster, table).await?);
        if expected != found {
            return Ok(readings.word(WRONG, format!("{table}: count and checksum {found}, on one server {expected}")));
        }
    }
    Ok(readings)
}

/// The number of rows, and a sum of hashes of all their columns.
async fn digest(client: &Client, table: &str) -> Result<String> {
    let columns = TABLES.iter().find(|known| known.name == table).map(|known| known.column_names().join(", "));
    let columns = columns.ok_or_else(|| PgError::internal(format!("no table {table}")))?;
    let hash = format!("hashtextextended(concat_ws('|', {columns}), 0)::numeric");
    let rows = sql::table(client, &format!("SELECT count(*), sum({hash}) FROM {table}")).await?;
    Ok(rows.into_iter().nth(1).unwrap_or_default().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_orders_are_in_no_one_elses_way() {
        let all: Vec<i64> = OrderGenerator::new(0.01, 1, 1).iter().map(|order| order.o_orderkey).collect();
        assert!(all.iter().all(|key| key & GAP == 0));
        let new: Vec<i64> = OrderGenerator::new(0.01, 1, PARTS).iter().map(|order| order.o_orderkey | GAP).collect();
        assert_eq!(new.len(), 15);
        assert!(new.iter().all(|key| !all.contains(key)));
        let (first, last) = keys(0.01, PARTS);
        assert_eq!(all.iter().filter(|key| (first..=last).contains(*key)).count(), 15);
        assert!(new.iter().all(|key| !(first..=last).contains(key)));
        assert!(part_of(0).is_err() && part_of(501).is_err() && part_of(500).is_ok());
    }
}
