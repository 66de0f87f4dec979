//! Tables of the stock server in the cluster: what another program has made there, with the same columns, keys, indexes and rows, in
//! a schema of its own, so that nobody's tables are in the way.

use std::pin::pin;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use pgerror::Result;
use tokio_postgres::Client;

use crate::tools::sql;

/// Tables by name, and the clause that says where their rows lie.
pub(super) type Layout<'a> = &'a [(&'a str, &'a str)];

/// Makes the schema anew. `cluster` is left within it.
pub(super) async fn make_schema(cluster: &Client, schema: &str) -> Result<()> {
    sql::run(cluster, &format!("DROP SCHEMA IF EXISTS {schema} CASCADE")).await?;
    sql::run(cluster, &format!("CREATE SCHEMA {schema}")).await?;
    sql::run(cluster, &format!("SET search_path = {schema}")).await
}

/// Copies tables that `stock` has and the schema of `cluster` lacks, and cleans up on both sides.
pub(super) async fn copy(stock: &Client, cluster: &Client, tables: Layout<'_>) -> Result<()> {
    for (table, clause) in tables {
        let columns = "string_agg(format('%I %s%s', attname, format_type(atttypid, atttypmod), \
                       CASE WHEN attnotnull THEN ' NOT NULL' END), ', ' ORDER BY attnum)";
        let of_table = format!("attrelid = '{table}'::regclass AND attnum > 0 AND NOT attisdropped");
        let columns = sql::scalar(stock, &format!("SELECT {columns} FROM pg_attribute WHERE {of_table}")).await?;
        let key = format!(
            "SELECT ', ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = '{table}'::regclass AND contype = 'p'"
        );
        let key = sql::table(stock, &key).await?.into_iter().skip(1).flatten().next().unwrap_or_default();
        sql::run(cluster, &format!("CREATE TABLE {table} ({columns}{key}) {clause}")).await?;
        copy_rows(stock, cluster, table).await?;
        // Without the schema, which is another one there.
        let indexes = format!(
            "SELECT pg_get_indexdef(indexrelid, 0, true) FROM pg_index WHERE indrelid = '{table}'::regclass AND NOT indisprimary"
        );
        for index in sql::table(stock, &indexes).await?.into_iter().skip(1).flatten() {
            sql::run(cluster, &index).await?;
        }
        for side in [stock, cluster] {
            sql::run(side, &format!("VACUUM ANALYZE {table}")).await?;
        }
    }
    Ok(())
}

async fn copy_rows(stock: &Client, cluster: &Client, table: &str) -> Result<()> {
    let mut rows = pin!(stock.copy_out(&format!("COPY {table} TO STDOUT")).await.map_err(sql::error)?);
    let copy = cluster.copy_in::<_, Bytes>(&format!("COPY {table} FROM STDIN")).await.map_err(sql::error)?;
    let mut sink = pin!(copy);
    while let Some(row) = rows.next().await {
        sink.feed(row.map_err(sql::error)?).await.map_err(sql::error)?;
    }
    sink.finish().await.map(drop).map_err(sql::error)
}
