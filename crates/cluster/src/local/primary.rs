//! `loxo node primary` of a cluster on this machine.

use std::path::Path;

use pgerror::{PgError, Result, SqlState};

use super::lock::Lock;
use super::{Kind, Layout, Part, UpOptions, down, node, up};
use crate::membership;
use crate::postgres::OsUser;
use crate::proc::interrupted;
use crate::progress::Progress;

/// Makes a datanode the primary one. Coordinators and gtms are stopped for that, and started again, whatever came of it; `loxo` is
/// the binary that they run. The datanodes must run.
pub async fn hand_over(dir: &Path, name: &str, loxo: &Path, progress: &Progress) -> Result<()> {
    let layout = node::load(dir)?;
    let lock = Lock::take(layout.dir())?;
    membership::primary::finish(layout.config()).await?;
    node::correct(layout.dir(), progress).await?;
    let layout = node::load(dir)?;
    check_known(&layout, name)?;
    if layout.config().primary().name == name {
        // An earlier call may have been killed when nothing ran.
        drop(lock);
        return up(&UpOptions::new(layout.dir(), loxo), progress).await.map(drop);
    }
    let daemons: Vec<Part> = layout.parts().into_iter().filter(|part| part.kind != Kind::Datanode).collect();
    down::stop(&layout, &daemons, down::Stop::Orderly, progress).await?;
    let outcome = tokio::select! {
        outcome = without_daemons(layout.clone(), name, progress) => outcome,
        name = interrupted() => Err(PgError::new(SqlState::QUERY_CANCELED, format!("stopped by {name}"))),
    };
    drop(lock);
    let started = up(&UpOptions::new(layout.dir(), loxo), progress).await;
    outcome.and(started.map(drop))
}

async fn without_daemons(mut layout: Layout, name: &str, progress: &Progress) -> Result<()> {
    let pg_bin = layout.local().pg_bin.clone();
    let members = membership::primary::hand_over(layout.config(), name, Some(&pg_bin), progress).await?;
    node::follow(&mut layout, &members)?;
    node::write(&layout, OsUser::for_servers()?.as_ref())
}

/// Before anything is stopped.
fn check_known(layout: &Layout, name: &str) -> Result<()> {
    let names: Vec<&str> = layout.config().datanodes.iter().map(|node| node.name.as_str()).collect();
    match names.contains(&name) {
        true => Ok(()),
        false => Err(PgError::new(SqlState::UNDEFINED_OBJECT, format!("there is no datanode \"{name}\""))
            .hint(format!("The datanodes are: {}.", names.join(", ")))),
    }
}
