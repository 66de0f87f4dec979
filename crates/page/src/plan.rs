//! EXPLAIN of a text, in a transaction that is rolled back.
//!
//! Only the planner runs. But it may call functions that the statement names and that are declared IMMUTABLE, with the rights of
//! the user who asks; so a text of somebody else is put before the user's eyes first, and the transaction is read only.

use tokio_postgres::Client;

use crate::client::{Failure, cut};
use crate::sessions::Trouble;

/// The words that EXPLAIN takes and that change nothing by being planned.
const BEGINNINGS: [&str; 7] = ["SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "WITH", "VALUES"];
/// Lines of a plan that are shown.
const LINES_MAX: usize = 2000;
/// Bytes of all lines together.
const PLAN_BYTES_MAX: usize = 1 << 20;

/// The plan's lines. A connection whose block cannot be ended is of no use any more.
pub(crate) async fn explain(client: &Client, text: &str) -> Result<Vec<String>, Trouble> {
    check(text)?;
    // Names mean what they mean to the role.
    let lines = match client.batch_execute("BEGIN READ ONLY; RESET search_path").await {
        Ok(()) => lines(client, text).await,
        Err(error) => Err(error.into()),
    };
    client.batch_execute("ROLLBACK").await.map_err(|_| Trouble::Over)?;
    Ok(lines?)
}

/// By the extended protocol, which takes one statement only.
async fn lines(client: &Client, text: &str) -> Result<Vec<String>, Failure> {
    let statement = client.prepare(&format!("EXPLAIN {text}")).await?;
    if !statement.params().is_empty() {
        // As texts of drivers have them.
        let mut failure = Failure::new("42P02", "the statement has parameters");
        failure.hint = Some("Write values in their place.".to_owned());
        return Err(failure);
    }
    let rows = client.query(&statement, &[]).await?;
    let (mut lines, mut bytes) = (Vec::new(), 0);
    for row in rows.iter().take(LINES_MAX) {
        let line = cut(row.try_get::<_, &str>(0)?);
        bytes += line.len();
        if bytes > PLAN_BYTES_MAX {
            break;
        }
        lines.push(line);
    }
    Ok(lines)
}

fn check(text: &str) -> Result<(), Failure> {
    let first = text.trim_start().split(|letter: char| !letter.is_ascii_alphabetic()).next().unwrap_or_default();
    if BEGINNINGS.iter().any(|word| first.eq_ignore_ascii_case(word)) {
        return Ok(());
    }
    let mut failure =
        Failure::new("0A000", "the page shows plans of SELECT, INSERT, UPDATE, DELETE, MERGE, WITH and VALUES only");
    failure.hint =
        Some("Leave out what stands before the first of these words; use psql for other statements.".to_owned());
    Err(failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_planned_is_taken() {
        for text in ["select 1", "  \n WITH a AS (SELECT 1) TABLE a", "VALUES(1)", "merge into t"] {
            assert!(check(text).is_ok(), "{text}");
        }
        for text in
            ["", "DROP TABLE t", "ANALYZE SELECT 1", "(ANALYZE) SELECT 1", "CREATE TABLE t AS SELECT 1", "SELECTED"]
        {
            assert!(check(text).is_err(), "{text}");
        }
    }
}
