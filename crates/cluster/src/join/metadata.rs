//! Schema `loxo` on the new server: what is in it on every datanode, and who it is.

use std::fmt::Write;

use pgerror::{PgError, Result, SqlState};
use txn::decision::{LAYOUT, SCHEMA_SQL};

use crate::init::METADATA_SQL;
use crate::sql::{Session, literal};

/// Tables whose rows are the same on every datanode.
const COPIED: [&str; 7] =
    ["node", "next_datanode", "node_group", "bucket_map", "catalog_version", "seal", "capture_token"];

/// Writes the metadata, but for the distribution of tables that are not there yet.
pub(super) async fn copy(primary: &Session, server: &Session, id: u16) -> Result<()> {
    let mut found =
        primary.rows("SELECT cluster_id, layout FROM loxo.identity").await?.into_iter().next().unwrap_or_default();
    let (layout, cluster) = (found.pop().flatten().unwrap_or_default(), found.pop().flatten().unwrap_or_default());
    if layout != LAYOUT.to_string() {
        let text = format!("the cluster's metadata have layout {layout}, this program works with {LAYOUT}");
        return Err(PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text)
            .hint("Use the loxo binary that the cluster's coordinators run."));
    }
    let mut script = format!("BEGIN;\nSET LOCAL client_min_messages = warning;\n{METADATA_SQL}\n{SCHEMA_SQL}\n");
    for table in COPIED {
        for row in
            primary.rows(&format!("SELECT t::text FROM loxo.{table} AS t")).await?.into_iter().flatten().flatten()
        {
            let row = literal(&row);
            writeln!(script, "INSERT INTO loxo.{table} SELECT ({row}::loxo.{table}).*;").expect("a String takes all");
        }
    }
    // The gtm raises it from there on.
    let generation = primary.value("SELECT last_value FROM loxo.generation").await?.unwrap_or_default();
    write!(
        script,
        "INSERT INTO loxo.identity (node_id, cluster_id, layout, system_identifier)
             SELECT {id}, {}, {LAYOUT}, system_identifier FROM pg_catalog.pg_control_system();
         SELECT pg_catalog.setval('loxo.generation', {generation});
         COMMIT;",
        literal(&cluster)
    )
    .expect("a String takes all");
    server.run(&script).await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table that is added to the metadata has to be thought of here.
    #[test]
    fn every_table_is_copied_or_a_node_s_own() {
        // loxo.class follows when the tables are there; transactions are decided where they are, and the journal of a
        // rebalance and what was given up are the primary datanode's; the others stay empty.
        let own = [
            "class",
            "identity",
            "committing",
            "serializable",
            "database",
            "decision",
            "fence",
            "finishing",
            "lost_datanode",
            "prepared_transaction",
            "rebalance",
        ];
        let text = format!("{METADATA_SQL}{SCHEMA_SQL}");
        let tables = text.lines().filter_map(|line| line.strip_prefix("CREATE TABLE loxo.")?.split([' ', '(']).next());
        let tables: std::collections::BTreeSet<&str> = tables.collect();
        assert_eq!(tables, COPIED.into_iter().chain(own).collect());
    }
}
