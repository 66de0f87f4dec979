//! Is a distributed table the same as one server's, and does every row sit where its hash says?

use std::fmt;
use std::pin::pin;

use futures_util::StreamExt;
use md5::{Digest, Md5};
use pgerror::{PgError, Result};
use tokio_postgres::Client;

use crate::tools::sql;
use crate::tools::stats::grouped;

/// What was found; [`Verification::check`] judges it.
#[derive(Clone, Debug)]
pub struct Verification {
    /// Rows that a coordinator counts.
    pub rows: u64,
    /// Rows that each datanode holds, in the order given.
    pub rows_by_node: Vec<u64>,
    /// Rows on a node that their hash does not name, by datanode.
    pub misplaced: Vec<u64>,
    /// MD5 over all rows in key order, as COPY text: through a coordinator.
    pub cluster_md5: String,
    /// MD5 over all rows of the single server.
    pub single_md5: String,
}

/// Reads a table of lineitem's columns through a coordinator, on every datanode directly, and on a single server with
/// the same rows. Without datanodes (a plain server in place of a cluster) their part is left out.
///
/// # Errors
/// A server's error.
pub async fn run(table: &str, coordinator: &str, datanodes: &[String], single: &str) -> Result<Verification> {
    let (coordinator, single) = (sql::connect(coordinator).await?, sql::connect(single).await?);
    let mut found = Verification {
        rows: sql::number(&coordinator, &format!("SELECT count(*) FROM {table}")).await?,
        rows_by_node: Vec::new(),
        misplaced: Vec::new(),
        cluster_md5: ordered_md5(&coordinator, table).await?,
        single_md5: ordered_md5(&single, table).await?,
    };
    for uri in datanodes {
        let datanode = sql::connect(uri).await?;
        found.rows_by_node.push(sql::number(&datanode, &format!("SELECT count(*) FROM {table}")).await?);
        found.misplaced.push(sql::number(&datanode, &misplaced_sql(table)).await?);
    }
    Ok(found)
}

/// The audit anyone can run on a datanode: rows whose bucket belongs to another node.
fn misplaced_sql(table: &str) -> String {
    format!(
        "WITH map AS MATERIALIZED (
             SELECT bucket - 1 AS bucket, node
             FROM loxo.class c JOIN loxo.bucket_map m ON m.id = c.map_id, unnest(m.nodes) WITH ORDINALITY AS u (node, bucket)
             WHERE c.relid = '{table}'::regclass)
         SELECT count(*)
         FROM {table} t LEFT JOIN map ON map.bucket = hashint8extended(t.l_orderkey, 0) & 4095
         WHERE map.node IS DISTINCT FROM (SELECT node_id FROM loxo.identity)"
    )
}

/// MD5 of lineitem's rows as COPY writes them, in the order of their keys.
pub(crate) async fn ordered_md5(client: &Client, table: &str) -> Result<String> {
    let copy = format!("COPY (SELECT * FROM {table} ORDER BY l_orderkey, l_linenumber) TO STDOUT");
    let mut stream = pin!(client.copy_out(&copy).await.map_err(sql::error)?);
    let mut md5 = Md5::new();
    while let Some(bytes) = stream.next().await {
        md5.update(bytes.map_err(sql::error)?);
    }
    Ok(md5.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

impl Verification {
    /// # Errors
    /// SQLSTATE XX000 naming the first thing that is wrong.
    pub fn check(&self) -> Result<()> {
        if self.cluster_md5 != self.single_md5 {
            let Self { cluster_md5, single_md5, .. } = self;
            return Err(PgError::internal(format!(
                "the cluster's rows have MD5 {cluster_md5}, one server's {single_md5}"
            )));
        }
        if let Some(node) = self.misplaced.iter().position(|rows| *rows > 0) {
            return Err(PgError::internal(format!(
                "{} rows on datanode {node} belong elsewhere",
                self.misplaced[node]
            )));
        }
        let sum: u64 = self.rows_by_node.iter().sum();
        if !self.rows_by_node.is_empty() && sum != self.rows {
            return Err(PgError::internal(format!(
                "the datanodes hold {sum} rows, a coordinator counts {}",
                self.rows
            )));
        }
        Ok(())
    }
}

impl fmt::Display for Verification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows", grouped(self.rows))?;
        if !self.rows_by_node.is_empty() {
            let nodes: Vec<String> = self.rows_by_node.iter().map(|rows| grouped(*rows)).collect();
            let misplaced: u64 = self.misplaced.iter().sum();
            write!(f, ", {} on the datanodes, {misplaced} of them misplaced", nodes.join(" + "))?;
        }
        write!(f, "; MD5 of the ordered rows {}, one server's {}", self.cluster_md5, self.single_md5)
    }
}
