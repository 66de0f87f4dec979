//! Roles: what they may do, their passwords, settings, memberships and rights on parameters.

use pgerror::Result;

use super::Join;
use super::programs::failed;
use crate::sql::{Session, identifier};

const ROLES_SQL: &str = "SELECT rolname FROM pg_roles WHERE rolname !~ '^pg_' ORDER BY 1";

/// Whatever about roles is copied. Parameters have rights of their own since PostgreSQL 15.
const STATE_SQL: &str = "SELECT 'role', r::text FROM pg_authid AS r UNION ALL SELECT 'member', m::text FROM pg_auth_members AS m \
     UNION ALL SELECT 'setting', s::text FROM pg_db_role_setting AS s ORDER BY 1, 2";

/// Memberships of roles: by whose grant, with the right to grant it on.
const MEMBERS_SQL: &str = "SELECT r.rolname, m.rolname, g.rolname, a.admin_option FROM pg_auth_members AS a \
     JOIN pg_roles AS r ON r.oid = a.roleid JOIN pg_roles AS m ON m.oid = a.member LEFT JOIN pg_roles AS g ON g.oid = a.grantor \
     ORDER BY 1, 2";

/// pg_dumpall makes every role, also those that are there.
const DUPLICATE_OBJECT: &str = "42710:";

/// Makes the roles of the primary datanode what they are there.
pub(super) async fn copy(join: &Join<'_>, server: &Session) -> Result<()> {
    let wanted = names(&join.primary).await?;
    let mut made = join.take_roles_made();
    drop_made(server, &made, &wanted).await?;
    made.retain(|name| wanted.contains(name));
    join.note_roles_made(made);
    let there = names(server).await?;
    for name in wanted.iter().filter(|name| !there.contains(name)) {
        server.run(&format!("CREATE ROLE {}", identifier(name))).await?;
        join.note_roles_made([name.clone()]);
    }
    let strange: Vec<&str> = there.iter().filter(|name| !wanted.contains(name)).map(String::as_str).collect();
    if !strange.is_empty() {
        join.progress.line(&format!(
            "{} has roles that the cluster has not: {}. Drop them there, or create them through a coordinator.",
            join.new.name,
            strange.join(", ")
        ));
    }
    revoke_more(&join.primary, server, &wanted).await?;
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

/// Differs when roles have changed.
pub(super) async fn state(session: &Session) -> Result<Vec<Vec<Option<String>>>> {
    session.rows(STATE_SQL).await
}

/// A dump takes no membership away: one that was revoked since the last copy is revoked here too.
async fn revoke_more(primary: &Session, server: &Session, wanted: &[String]) -> Result<()> {
    let of = |row: &[Option<String>]| [0, 1, 3].map(|at| row.get(at).cloned().flatten().unwrap_or_default());
    let there: Vec<_> = primary.rows(MEMBERS_SQL).await?.iter().map(|row| of(row)).collect();
    for row in server.rows(MEMBERS_SQL).await? {
        let [role, member, admin] = of(&row);
        let is_known = (wanted.contains(&role) || role.starts_with("pg_")) && wanted.contains(&member);
        if !is_known || there.contains(&[role.clone(), member.clone(), admin]) {
            continue;
        }
        let by = row.get(2).cloned().flatten().map_or(String::new(), |by| format!(" GRANTED BY {}", identifier(&by)));
        server.run(&format!("REVOKE {} FROM {}{by} CASCADE", identifier(&role), identifier(&member))).await?;
    }
    Ok(())
}

/// Drops the roles that this call has made and that the cluster has not any more.
pub(super) async fn drop_unwanted(join: &Join<'_>, primary: &Session, server: &Session) -> Result<()> {
    let made = join.take_roles_made();
    drop_made(server, &made, &names(primary).await?).await
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
