//! `loxo status`: what runs, how far a rebalance is, and which distributed transactions are in doubt.

use std::path::{Path, PathBuf};

use pgerror::{PgError, Result, SqlState};
use serde::Serialize;

use super::{Kind, Layout, Part, daemon};
use crate::disk;
use crate::in_doubt::{self, InDoubt};
use crate::membership::{self, Rebalance};
use crate::sql::Session;

/// A cluster's state.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Status {
    pub dir: PathBuf,
    /// `None` until the cluster has been up once.
    pub cluster_id: Option<String>,
    /// Running or dead if every process is, else degraded.
    pub state: State,
    pub processes: Vec<PartStatus>,
    /// Connection URIs of all coordinators, running or not.
    pub coordinators: Vec<String>,
    /// Addresses of their live pages.
    pub pages: Vec<String>,
    /// The one that runs, is paused or has failed, as the primary datanode says.
    pub rebalance: Option<Rebalance>,
    /// Where that is, if it is not the first database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebalance_database: Option<String>,
    pub in_doubt: Vec<InDoubt>,
}

/// A process' state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It answers.
    Running,
    /// There is no such process.
    Dead,
    /// There is a process, but it does not answer (yet).
    Starting,
    /// Some processes of the cluster run, some do not.
    Degraded,
}

/// One process.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct PartStatus {
    pub name: String,
    pub kind: String,
    pub host: String,
    pub port: u16,
    pub pid: Option<i32>,
    pub state: State,
    /// Version of PostgreSQL, or of loxo; `None` if the process does not answer.
    pub version: Option<String>,
    /// Role of a gtm that answers: leader or standby.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    pub log: PathBuf,
}

/// Looks at the cluster in `dir`; changes nothing.
pub async fn status(dir: &Path) -> Result<Status> {
    let dir = disk::absolute(dir)?;
    let layout = Layout::load(&dir)?.ok_or_else(|| {
        PgError::new(SqlState::UNDEFINED_OBJECT, format!("there is no cluster in \"{}\"", dir.display()))
            .hint("Start one with \"loxo up\", or name its directory with --dir.")
    })?;
    let mut processes = Vec::new();
    let (mut rebalance, mut in_doubt) = (None, Vec::new());
    let mut rebalance_database = None;
    for part in layout.parts() {
        let status = part_status(&layout, &part).await;
        if part.kind == Kind::Datanode && status.state == State::Running {
            let session = Session::connect(&layout.endpoint(&part)?).await?;
            if part.name == layout.config().primary().name {
                rebalance = membership::unfinished(&session).await?;
                if rebalance.is_none() {
                    (rebalance, rebalance_database) = unfinished_elsewhere(&layout).await?.unzip();
                }
            }
            in_doubt.extend(in_doubt::of_datanode(&part.name, &session).await?);
        }
        processes.push(status);
    }
    let all = |state| processes.iter().all(|p: &PartStatus| p.state == state);
    let state = match (all(State::Running), all(State::Dead)) {
        (true, _) => State::Running,
        (_, true) => State::Dead,
        _ => State::Degraded,
    };
    let (cluster_id, coordinators) = (layout.cluster_id(), layout.config().coordinator_uris()?);
    let pages = layout.config().coordinators.iter().filter_map(|coordinator| coordinator.page.as_ref());
    let pages = pages.map(|address| format!("http://{address}/")).collect();
    Ok(Status { cluster_id, state, processes, coordinators, pages, rebalance, rebalance_database, in_doubt, dir })
}

/// In the first of the other databases that has one.
async fn unfinished_elsewhere(layout: &Layout) -> Result<Option<(Rebalance, String)>> {
    for config in membership::other_databases(layout.config()).await? {
        let session = membership::primary(&config).await?;
        if let Some(rebalance) = membership::unfinished(&session).await? {
            return Ok(Some((rebalance, config.cluster.database)));
        }
    }
    Ok(None)
}

async fn part_status(layout: &Layout, part: &Part) -> PartStatus {
    let pid = layout.pid(part);
    let version = match pid {
        None => None,
        Some(_) => version(layout, part).await.ok(),
    };
    let role = match (part.kind, &version) {
        (Kind::Gtm, Some(_)) => daemon::role(part).await.ok(),
        _ => None,
    };
    let state = match (pid, &version) {
        (None, _) => State::Dead,
        (Some(_), Some(_)) => State::Running,
        (Some(_), None) => State::Starting,
    };
    PartStatus {
        name: part.name.clone(),
        kind: part.kind.to_string(),
        host: "127.0.0.1".to_owned(),
        port: part.port,
        pid,
        state,
        version,
        role,
        log: layout.log_file(&part.name),
    }
}

/// Asks the part; fails if it does not answer.
async fn version(layout: &Layout, part: &Part) -> Result<String> {
    if part.kind != Kind::Datanode {
        daemon::answers(layout, part).await?;
        return Ok(format!("loxo {}", env!("CARGO_PKG_VERSION")));
    }
    let session = Session::connect(&layout.endpoint(part)?).await?;
    let version = session.value("SHOW server_version").await?.unwrap_or_default();
    Ok(format!("PostgreSQL {}", version.split(' ').next().unwrap_or_default()))
}
