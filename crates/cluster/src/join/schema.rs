//! Everything in the database but rows, and but schema `loxo`.

use pgerror::Result;

use super::Join;
use super::programs::failed;

/// Subscriptions are a matter of one server, and would begin to fetch rows.
const DUMP: [&str; 3] = ["--schema-only", "--exclude-schema=loxo", "--no-subscriptions"];

/// Copies the primary datanode's schema, wholly or not at all.
pub(super) async fn copy(join: &Join<'_>) -> Result<()> {
    let (from, to) = (join.config.primary(), join.new);
    let from = join.config.endpoint(&from.host, from.port)?;
    let dump = join.programs.dump("pg_dump", &from, &DUMP).await?;
    let to = join.config.endpoint(&to.host, to.port)?;
    let arguments = ["--single-transaction", "--set", "ON_ERROR_STOP=1"];
    let (went_on, said) = join.programs.restore(&to, &arguments, dump).await?;
    if went_on {
        return Ok(());
    }
    Err(failed("the schema could not be copied", &said)
        .hint("What the primary datanode has and the new server lacks must be installed there first."))
}
