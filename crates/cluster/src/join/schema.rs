//! Everything in the database but rows, and but schema `loxo`.

use pgerror::Result;

use super::programs::{Programs, failed};
use crate::config::{Config, Datanode};

/// Subscriptions are a matter of one server, and would begin to fetch rows.
const DUMP: [&str; 3] = ["--schema-only", "--exclude-schema=loxo", "--no-subscriptions"];

/// Copies the primary datanode's schema, wholly or not at all.
pub(super) async fn copy(programs: &Programs, config: &Config, new: &Datanode) -> Result<()> {
    let from = config.primary();
    let from = config.endpoint(&from.host, from.port)?;
    let dump = programs.dump("pg_dump", &from, &DUMP).await?;
    let to = config.endpoint(&new.host, new.port)?;
    let arguments = ["--single-transaction", "--set", "ON_ERROR_STOP=1"];
    let (went_on, said) = programs.restore(&to, &arguments, dump).await?;
    if went_on {
        return Ok(());
    }
    Err(failed("the schema could not be copied", &said)
        .hint("What the primary datanode has and the new server lacks must be installed there first."))
}
