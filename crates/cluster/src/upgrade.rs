//! Metadata of an earlier version become those of this one: in each database on all datanodes or on none, while no coordinator and no
//! gtm runs.
//!
//! `sql/upgrade/N.sql` leads from layout N - 1 to layout N. All that are needed run in one transaction on each datanode; the gid of
//! their two-phase commit is `loxo_upgrade_<layout>`, and the decision is the first datanode's commit: a later call finds a
//! prepared leftover, looks at the first datanode's layout, and commits or rolls back accordingly.

use pgerror::{PgError, Result, SqlState};
use txn::decision::LAYOUT;

use crate::config::{Config, Datanode};
use crate::init::at;
use crate::membership::databases;
use crate::sql::Session;

/// The scripts, by the layout they lead to.
const STEPS: [(i32, &str); 6] = [
    (
        7,
        concat!(
            include_str!("../sql/upgrade/7.sql"),
            include_str!("../sql/sessions.sql"),
            include_str!("../sql/statistics.sql")
        ),
    ),
    (8, include_str!("../sql/upgrade/8.sql")),
    (9, include_str!("../sql/upgrade/9.sql")),
    (10, include_str!("../sql/upgrade/10.sql")),
    (11, include_str!("../sql/upgrade/11.sql")),
    (12, include_str!("../sql/upgrade/12.sql")),
];

/// A leading gtm holds it, and a coordinator has sessions.
const IN_USE_SQL: &str = "SELECT count(*) FROM pg_catalog.pg_stat_activity \
     WHERE application_name IN ('loxo', 'loxo gtm') AND pid <> pg_catalog.pg_backend_pid()";

/// Upgrades the metadata if they are older than this program; gives the layout they had then.
///
/// # Errors
/// 55000 when they are too old or newer, or when coordinators or gtms run; the datanodes' own.
pub async fn upgrade(config: &Config) -> Result<Option<i32>> {
    // The first database, which knows the others, as the first.
    let mut oldest = upgrade_one(config).await?;
    for config in databases(config).await?.iter().skip(1) {
        oldest = upgrade_one(config).await?.into_iter().chain(oldest).min();
    }
    Ok(oldest)
}

async fn upgrade_one(config: &Config) -> Result<Option<i32>> {
    let mut nodes: Vec<(&Datanode, Session)> = Vec::with_capacity(config.datanodes.len());
    for datanode in &config.datanodes {
        let session = Session::connect(&config.endpoint(&datanode.host, datanode.port)?).await;
        nodes.push((datanode, session.map_err(|e| at(datanode, e))?));
    }
    let Some((_, first)) = nodes.first() else { return Ok(None) };
    finish_interrupted(&nodes, layout_of(first).await?).await?;
    let mut layouts = Vec::with_capacity(nodes.len());
    for (datanode, session) in &nodes {
        layouts.push(layout_of(session).await.map_err(|e| at(datanode, e))?);
    }
    let oldest = layouts.iter().copied().min().unwrap_or(LAYOUT);
    if layouts.iter().any(|layout| *layout > LAYOUT) {
        let text = format!("the metadata have layout {}, this program works with {LAYOUT}", layouts[0]);
        return Err(PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text).hint("Use a newer loxo."));
    }
    if oldest == LAYOUT {
        return Ok(None);
    }
    if oldest + 1 < STEPS[0].0 {
        let text = format!("the metadata have layout {oldest}; the oldest that can be upgraded is {}", STEPS[0].0 - 1);
        return Err(PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text)
            .hint("Dump with pg_dump through the loxo that made the cluster, and restore into a new one."));
    }
    let outcome = prepare_all(&nodes, &layouts).await;
    let decision = if outcome.is_ok() { "COMMIT" } else { "ROLLBACK" };
    for (datanode, session) in &nodes {
        // After an error a node may have nothing prepared; a later call sees to what stays behind.
        let ended = session.run(&format!("{decision} PREPARED '{}'", gid())).await;
        if outcome.is_ok() {
            ended.map_err(|e| at(datanode, e))?;
        }
    }
    outcome.map(|()| Some(oldest))
}

fn gid() -> String {
    format!("loxo_upgrade_{LAYOUT}")
}

async fn layout_of(session: &Session) -> Result<i32> {
    let layout = session.value("SELECT layout FROM loxo.identity").await?;
    layout.and_then(|layout| layout.parse().ok()).ok_or_else(|| PgError::internal("loxo.identity is empty"))
}

async fn prepare_all(nodes: &[(&Datanode, Session)], layouts: &[i32]) -> Result<()> {
    for ((datanode, session), layout) in nodes.iter().zip(layouts) {
        refuse_in_use(session).await.map_err(|e| at(datanode, e))?;
        let steps: Vec<&str> = STEPS.iter().filter(|(to, _)| to > layout).map(|(_, sql)| *sql).collect();
        let script = format!(
            "BEGIN;\nSET LOCAL client_min_messages = warning;\nSET LOCAL lock_timeout = '10s';\n{}\n\
             UPDATE loxo.identity SET layout = {LAYOUT};\nPREPARE TRANSACTION '{}';",
            steps.join("\n"),
            gid()
        );
        if let Err(error) = session.run(&script).await {
            // The connection may still be inside the failed transaction.
            let _ = session.run("ROLLBACK").await;
            return Err(at(datanode, error));
        }
    }
    Ok(())
}

async fn refuse_in_use(session: &Session) -> Result<()> {
    match session.value(IN_USE_SQL).await?.as_deref() {
        Some("0") => Ok(()),
        _ => Err(PgError::new(SqlState::OBJECT_IN_USE, "coordinators or gtms of the cluster run")
            .hint("Stop all of them, upgrade, and start those of the new version.")),
    }
}

/// Ends what an interrupted call has left prepared, as the first datanode has decided.
async fn finish_interrupted(nodes: &[(&Datanode, Session)], layout_of_first: i32) -> Result<()> {
    let find = format!(
        "SELECT count(*) FROM pg_catalog.pg_prepared_xacts WHERE gid = '{}' AND database = current_database()",
        gid()
    );
    let decision = if layout_of_first == LAYOUT { "COMMIT" } else { "ROLLBACK" };
    for (datanode, session) in nodes {
        if session.value(&find).await?.as_deref() != Some("0") {
            session.run(&format!("{decision} PREPARED '{}'", gid())).await.map_err(|e| at(datanode, e))?;
        }
    }
    Ok(())
}
