//! Roles: what they may do, their passwords, settings, memberships and rights on parameters.

use pgerror::Result;

use super::Join;
use super::programs::failed;
use crate::sql::{Session, identifier};

const ROLES_SQL: &str = "SELECT rolname FROM pg_roles WHERE rolname !~ '^pg_' ORDER BY 1";

/// pg_dumpall makes every role, also those that are there.
const DUPLICATE_OBJECT: &str = "42710:";

/// Makes the roles of the primary datanode what they are there.
pub(super) async fn copy(join: &Join<'_>, server: &Session) -> Result<()> {
    let wanted = names(&join.primary).await?;
    drop_made(server, &join.take_roles_made(), &wanted).await?;
    let there = names(server).await?;
    for name in wanted.iter().filter(|name| !there.contains(name)) {
        server.run(&format!("CREATE ROLE {}", identifier(name))).await?;
        join.roles_made.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(name.clone());
    }
    let strange: Vec<&str> = there.iter().filter(|name| !wanted.contains(name)).map(String::as_str).collect();
    if !strange.is_empty() {
        join.progress.line(&format!(
            "{} has roles that the cluster has not: {}. Drop them there, or create them through a coordinator.",
            join.new.name,
            strange.join(", ")
        ));
    }
    let (from, to) = (&join.config.primary(), join.new);
    let from = join.config.endpoint(&from.host, from.port)?;
    let dump = join.programs.dump("pg_dumpall", &from, &["--roles-only"]).await?;
    let to = join.config.endpoint(&to.host, to.port)?;
    let (went_on, said) = join.programs.restore(&to, &["--set", "VERBOSITY=verbose"], dump).await?;
    let is_error = |line: &&str| ["ERROR:  ", "FATAL:  "].iter().any(|word| line.contains(word));
    let errors: Vec<&str> = said.lines().filter(is_error).filter(|line| !line.contains(DUPLICATE_OBJECT)).collect();
    if went_on && errors.is_empty() {
        return Ok(());
    }
    Err(failed(
        "the roles could not be copied",
        if errors.is_empty() { &said } else { &said[said.find(errors[0]).unwrap_or(0)..] },
    ))
}

/// Drops roles that a call of ours has made, but for those that are wanted.
pub(super) async fn drop_made(server: &Session, made: &[String], wanted: &[String]) -> Result<()> {
    for name in made.iter().filter(|name| !wanted.contains(name)) {
        server.run(&format!("DROP ROLE IF EXISTS {}", identifier(name))).await?;
    }
    Ok(())
}

async fn names(session: &Session) -> Result<Vec<String>> {
    Ok(session.rows(ROLES_SQL).await?.into_iter().flatten().flatten().collect())
}
