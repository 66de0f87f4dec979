//! `loxo down`.

use std::path::Path;

use pgerror::{PgError, Result, SqlState};

use super::lock::Lock;
use super::{Kind, Layout, Part, daemon, datanode, node};
use crate::{Progress, disk};

/// Stops the cluster in `dir`; with `wipe` removes the directory with all data. Says what was done. No error if
/// nothing runs or nothing is there.
pub async fn down(dir: &Path, wipe: bool, progress: &Progress) -> Result<String> {
    let dir = disk::absolute(dir)?;
    let Some(layout) = Layout::load(&dir)? else {
        return match dir.exists() && wipe {
            true => Err(PgError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("\"{}\" is not the directory of a loxo cluster", dir.display()),
            )
            .hint("It was left alone; remove it yourself if you mean it.")),
            false => Ok(format!("no cluster in {}: nothing to do", dir.display())),
        };
    };
    let _lock = Lock::take(&dir)?;
    let ran = layout.is_running();
    // Servers whose data go anyway need not write them down first.
    let how = if wipe { Stop::AtOnce } else { Stop::Orderly };
    stop(&layout, &layout.parts(), how, progress).await?;
    node::stop_joining(&layout).await?;
    if wipe {
        progress.step(&format!("removing {}", dir.display()), disk::remove_all(&dir)).await?;
        return Ok(format!("the cluster in {} is removed", dir.display()));
    }
    let verb = if ran { "is stopped" } else { "was not running" };
    Ok(format!("the cluster in {} {verb}", dir.display()))
}

/// How a datanode is stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// After a checkpoint, so that the next start has nothing to recover.
    Orderly,
    /// Without one.
    AtOnce,
}

/// Stops parts: first the coordinators, then the gtm, then the datanodes, each kind at the same time. Every part is
/// tried; the first error is returned.
pub(super) async fn stop(layout: &Layout, parts: &[Part], how: Stop, progress: &Progress) -> Result<()> {
    let mut outcome = Ok(());
    for kind in [Kind::Coordinator, Kind::Gtm, Kind::Datanode] {
        let mut tasks = tokio::task::JoinSet::new();
        for part in parts.iter().filter(|p| p.kind == kind).cloned() {
            let layout = layout.clone();
            tasks.spawn(async move {
                match (kind, how) {
                    (Kind::Datanode, Stop::Orderly) => datanode::stop(&layout, &part.name).await,
                    (Kind::Datanode, Stop::AtOnce) => datanode::stop_at_once(&layout, &part.name).await,
                    (Kind::Gtm | Kind::Coordinator, _) => daemon::stop(&layout, &part).await,
                }
            });
        }
        let results = progress.step(&format!("stopping the {kind}s"), tasks.join_all()).await;
        outcome = results.into_iter().fold(outcome, |outcome, result| outcome.and(result));
    }
    outcome
}
