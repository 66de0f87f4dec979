//! `loxo status --config`: the whole of a cluster of real hosts, as far as it is seen from here.
//!
//! Everything is asked at once, and what does not answer is part of the answer: [`Overview::wrong`] says in words what a person
//! should see to. Nothing is changed.

use std::time::Duration;

use futures_util::future::join_all;
use pgerror::{PgError, Result, SqlState};
use serde::Serialize;
use tokio::time::timeout;
use txn::decision::LAYOUT;

use crate::check::{Process, process_of_coordinator, process_of_gtm};
use crate::config::{Config, gtm_name};
use crate::in_doubt::InDoubt;
use crate::membership::{self, Member, Rebalance};

mod datanodes;

pub use datanodes::Datanode;

/// Longest wait for all that one process or server says.
const ANSWER_MAX: Duration = Duration::from_secs(15);
const LATE: &str = "no answer within 15 s";

/// Recovery looks every second: a transaction that stays in doubt for so long has a reason.
const IN_DOUBT_MAX_SECONDS: u64 = 30;

/// See the page.
#[derive(Clone, Debug, Default, Serialize)]
#[allow(missing_docs)]
pub struct Overview {
    pub name: String,
    /// As the primary datanode has it.
    pub cluster_id: Option<String>,
    /// Of the metadata, there.
    pub layout: Option<i32>,
    pub gtms: Vec<Named>,
    pub coordinators: Vec<Named>,
    pub datanodes: Vec<Datanode>,
    pub databases: Vec<String>,
    /// What is under way, has been paused or has failed, in one line each.
    pub jobs: Vec<String>,
    pub in_doubt: Vec<InDoubt>,
    /// Nothing: all is well.
    pub wrong: Vec<String>,
}

/// A gtm or a coordinator.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Named {
    pub name: String,
    pub address: String,
    #[serde(flatten)]
    pub process: Process,
}

/// Asks everybody.
///
/// # Errors
/// None of those that are asked: only when the configuration cannot be used, for example its password file.
pub async fn overview(config: &Config) -> Result<Overview> {
    let mut seen = Overview { name: config.cluster.name.clone(), ..Overview::default() };
    config.endpoint(&config.primary().host, config.primary().port)?;
    let gtms = join_all(config.gtms.iter().map(|gtm| process_of_gtm(config, gtm)));
    let coordinators = join_all(config.coordinators.iter().map(|own| async move {
        let late = |_| Process { is_up: Some(false), trouble: Some(LATE.to_owned()), ..Process::default() };
        timeout(ANSWER_MAX, process_of_coordinator(config, own)).await.unwrap_or_else(late)
    }));
    let (gtms, coordinators, ()) = tokio::join!(gtms, coordinators, of_datanodes(config, &mut seen));
    let addresses = config.gtm_addresses().into_iter().enumerate();
    seen.gtms =
        addresses.zip(gtms).map(|((at, address), process)| Named { name: gtm_name(at), address, process }).collect();
    let named = |(own, process): (&crate::Coordinator, _)| Named {
        name: own.name.clone(),
        address: own.listen.clone(),
        process,
    };
    seen.coordinators = config.coordinators.iter().zip(coordinators).map(named).collect();
    judge(&mut seen);
    Ok(seen)
}

/// Of those that are members by the metadata; without them, of those of the configuration.
async fn of_datanodes(config: &Config, seen: &mut Overview) {
    let late = || PgError::new(SqlState::CONNECTION_FAILURE, LATE);
    let found = timeout(ANSWER_MAX, of_primary(config, seen)).await.unwrap_or_else(|_| Err(late()));
    let members = match &found {
        Ok(members) => members.clone(),
        Err(_) => {
            let member = |(id, node): (u16, &crate::config::Datanode)| {
                let (name, host) = (node.name.clone(), node.host.clone());
                Member { id, name, host, port: node.port, is_primary: node.primary }
            };
            config.datanodes_by_id().map(member).collect()
        }
    };
    let asked = join_all(members.iter().map(|member| datanodes::ask(config, member))).await;
    for (datanode, in_doubt) in asked {
        seen.datanodes.push(datanode);
        seen.in_doubt.extend(in_doubt);
    }
    // That it does not answer, or has no metadata of this version, is said of it as of all others.
    if let Err(error) = found
        && seen.datanodes.iter().any(|one| one.primary && one.layout == Some(LAYOUT))
    {
        seen.wrong.push(format!("{}: {}", config.primary().name, error.message()));
    }
}

/// What only the primary datanode knows.
async fn of_primary(config: &Config, seen: &mut Overview) -> Result<Vec<Member>> {
    let primary = membership::primary(config).await?;
    let identity = primary.rows("SELECT cluster_id, layout FROM loxo.identity").await?;
    if let Some([id, layout]) = identity.into_iter().next().as_deref_mut() {
        (seen.cluster_id, seen.layout) = (id.take(), layout.take().and_then(|layout| layout.parse().ok()));
    }
    let members = membership::read_members(config, &primary).await?;
    let databases = membership::databases(config).await?;
    for config in &databases {
        let database = &config.cluster.database;
        if let Some(rebalance) = membership::unfinished(&membership::primary(config).await?).await? {
            seen.jobs.push(job(database, &rebalance));
            if rebalance.state == "failed" {
                seen.wrong.push(format!("the rebalance of database {database} has failed"));
            }
        }
    }
    seen.databases = databases.into_iter().map(|config| config.cluster.database).collect();
    let unready = "SELECT name || ': ' || state FROM loxo.database WHERE state <> 'ready' ORDER BY name";
    seen.jobs.extend(primary.rows(unready).await?.into_iter().flatten().flatten().map(|job| format!("database {job}")));
    Ok(members)
}

fn job(database: &str, rebalance: &Rebalance) -> String {
    format!("rebalance of database {database} {}", rebalance.line())
}

fn judge(seen: &mut Overview) {
    let mut wrong = Vec::new();
    for Named { name, address, process } in seen.gtms.iter().chain(&seen.coordinators) {
        match process {
            Process { is_up: Some(false), trouble: Some(trouble), .. } => {
                wrong.push(format!("{name}: does not answer at {address}: {trouble}"));
            }
            Process { is_up: Some(true), trouble: Some(trouble), .. } => wrong.push(format!("{name}: {trouble}")),
            _ => {}
        }
    }
    let roles_are_known = seen.gtms.iter().all(|gtm| gtm.process.leads.is_some() || gtm.process.is_up != Some(true));
    if roles_are_known && !seen.gtms.iter().any(|gtm| gtm.process.leads == Some(true)) {
        wrong.push(
            "no gtm leads: nothing commits on several datanodes, and no coordinator trusts its catalog".to_owned(),
        );
    }
    for datanode in &seen.datanodes {
        let why = match (&datanode.trouble, datanode.layout) {
            (Some(trouble), _) => trouble.clone(),
            (None, None) => "has no metadata of a cluster; \"loxo init\" makes it one".to_owned(),
            (None, Some(layout)) if layout != LAYOUT => {
                format!("its metadata have layout {layout}, this program works with {LAYOUT}")
            }
            _ if datanode.in_recovery => "takes no writes: it is a standby".to_owned(),
            _ => continue,
        };
        wrong.push(format!("{}: {why}", datanode.name));
    }
    let old = seen.in_doubt.iter().filter(|one| one.age_seconds > IN_DOUBT_MAX_SECONDS);
    wrong.extend(old.map(|one| format!("{}: {} is in doubt for {} s", one.node, one.gid, one.age_seconds)));
    seen.wrong.splice(0..0, wrong);
}
