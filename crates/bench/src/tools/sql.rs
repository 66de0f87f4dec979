//! The client side: crate `tokio-postgres`, with its errors turned into ours.

use std::error::Error;

use conninfo::Target;
use pgerror::{PgError, Result, SqlState};
use tokio_postgres::{Client, SimpleQueryMessage};

/// Connects and lets the connection run in the background until the client is dropped.
pub(crate) async fn connect(uri: &str) -> Result<Client> {
    let target = Target::parse(uri)?;
    target.connect().await.map_err(|e| error(e).hint(format!("Is there a server at {uri}?")))
}

/// Runs statements that return nothing of interest.
pub(crate) async fn run(client: &Client, sql: &str) -> Result<()> {
    client.batch_execute(sql).await.map_err(error)
}

/// Runs a query; column names first, then rows as text, NULL as an empty one.
pub(crate) async fn table(client: &Client, sql: &str) -> Result<Vec<Vec<String>>> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for message in client.simple_query(sql).await.map_err(error)? {
        match message {
            SimpleQueryMessage::RowDescription(columns) => {
                rows.push(columns.iter().map(|column| column.name().to_owned()).collect());
            }
            SimpleQueryMessage::Row(row) => {
                rows.push((0..row.len()).map(|i| row.get(i).unwrap_or_default().to_owned()).collect());
            }
            _ => {}
        }
    }
    Ok(rows)
}

/// Runs a query of one row and one column.
pub(crate) async fn scalar(client: &Client, sql: &str) -> Result<String> {
    let rows = table(client, sql).await?;
    rows.into_iter()
        .nth(1)
        .and_then(|row| row.into_iter().next())
        .ok_or_else(|| PgError::protocol(format!("no row from: {sql}")))
}

/// Runs a query of one row and one column, a whole number.
pub(crate) async fn number(client: &Client, sql: &str) -> Result<u64> {
    let text = scalar(client, sql).await?;
    text.parse().map_err(|_| PgError::protocol(format!("not a number: {text} from: {sql}")))
}

/// Keeps SQLSTATE, detail, hint and context.
pub(crate) fn error(error: tokio_postgres::Error) -> PgError {
    let Some(server) = error.as_db_error() else {
        let source = error.source().map_or(String::new(), |source| format!(": {source}"));
        return PgError::connection(format!("{error}{source}"));
    };
    let code = SqlState::from_bytes(server.code().code().as_bytes()).unwrap_or(SqlState::INTERNAL_ERROR);
    let mut ours = PgError::new(code, server.message());
    if let Some(detail) = server.detail() {
        ours = ours.detail(detail);
    }
    if let Some(hint) = server.hint() {
        ours = ours.hint(hint);
    }
    match server.where_() {
        Some(context) => ours.context(context),
        None => ours,
    }
}
