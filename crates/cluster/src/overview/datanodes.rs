//! What a datanode tells of itself and of its standbys.

use pgerror::{Result, SqlState};
use serde::Serialize;
use tokio::time::timeout;

use crate::config::Config;
use crate::in_doubt::{self, InDoubt};
use crate::membership::Member;
use crate::overview::{ANSWER_MAX, LATE};
use crate::sql::Session;

/// A datanode and its standbys.
#[derive(Clone, Debug, Default, Serialize)]
#[allow(missing_docs)]
pub struct Datanode {
    pub name: String,
    pub id: u16,
    pub address: String,
    pub primary: bool,
    pub is_up: bool,
    pub version: Option<String>,
    pub up_seconds: Option<u64>,
    pub layout: Option<i32>,
    pub in_recovery: bool,
    pub standbys: Vec<Standby>,
    /// Why it does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// Who receives a datanode's log, by its `pg_stat_replication`.
#[derive(Clone, Debug, Default, Serialize)]
#[allow(missing_docs)]
pub struct Standby {
    pub name: String,
    pub address: String,
    pub state: String,
    pub sync: String,
    /// Of the log, that it has not replayed.
    pub behind_bytes: u64,
    /// `None`: it has replayed all, or says nothing.
    pub behind_seconds: Option<f64>,
}

const FACTS_SQL: &str = "SELECT pg_catalog.current_setting('server_version'), \
     extract(epoch FROM clock_timestamp() - pg_catalog.pg_postmaster_start_time())::int8, \
     pg_catalog.pg_is_in_recovery(), pg_catalog.to_regclass('loxo.identity')";

/// A backup is not behind.
const STANDBYS_SQL: &str = "SELECT application_name, coalesce(pg_catalog.host(client_addr), 'local'), state, sync_state, \
     greatest(pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), replay_lsn), 0)::int8, \
     pg_catalog.round(extract(epoch FROM replay_lag)::numeric, 3) \
     FROM pg_catalog.pg_stat_replication WHERE state <> 'backup' ORDER BY application_name, client_addr";

pub(super) async fn ask(config: &Config, member: &Member) -> (Datanode, Vec<InDoubt>) {
    let Member { id, name, host, port, is_primary } = member;
    let address = format!("{host}:{port}");
    let mut datanode = Datanode { name: name.clone(), id: *id, address, primary: *is_primary, ..Datanode::default() };
    let mut in_doubt = Vec::new();
    match timeout(ANSWER_MAX, facts(config, member, &mut datanode, &mut in_doubt)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            // One that has no connection to spare has answered.
            datanode.is_up |= error.code() == SqlState::TOO_MANY_CONNECTIONS;
            datanode.trouble = Some(error.message().into_owned());
        }
        Err(_) => datanode.trouble = Some(LATE.to_owned()),
    }
    (datanode, in_doubt)
}

async fn facts(config: &Config, at: &Member, datanode: &mut Datanode, in_doubt: &mut Vec<InDoubt>) -> Result<()> {
    let session = Session::connect(&config.endpoint(&at.host, at.port)?).await?;
    let mut facts = session.rows(FACTS_SQL).await?.into_iter().flatten();
    let mut fact = || facts.next().flatten();
    let version = fact().unwrap_or_default();
    datanode.version = Some(format!("PostgreSQL {}", version.split(' ').next().unwrap_or_default()));
    datanode.up_seconds = fact().and_then(|seconds| seconds.parse().ok());
    datanode.in_recovery = fact().as_deref() == Some("t");
    datanode.is_up = true;
    if fact().is_some() {
        let layout = session.value("SELECT layout FROM loxo.identity").await?;
        datanode.layout = layout.and_then(|layout| layout.parse().ok());
        in_doubt.extend(in_doubt::of_datanode(&at.name, &session).await?);
    }
    if !datanode.in_recovery {
        datanode.standbys = session.rows(STANDBYS_SQL).await?.into_iter().map(standby).collect();
    }
    Ok(())
}

fn standby(row: Vec<Option<String>>) -> Standby {
    let mut row = row.into_iter();
    let mut next = || row.next().flatten().unwrap_or_default();
    Standby {
        name: next(),
        address: next(),
        state: next(),
        sync: next(),
        behind_bytes: next().parse().unwrap_or(0),
        behind_seconds: next().parse().ok(),
    }
}
