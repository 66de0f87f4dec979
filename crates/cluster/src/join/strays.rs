//! Databases of this cluster that a server has and should not: of a call that was interrupted, of a removal, or dropped or renamed
//! meanwhile.

use std::collections::BTreeSet;

use pgerror::Result;

use super::server::{NO_ROWS_SQL, refuse_member};
use crate::config::{Config, Datanode};
use crate::init::at;
use crate::sql::{Endpoint, Session, literal};

/// Reads a token that all databases of a cluster share, and no other cluster has.
const TOKEN_SQL: &str = "SELECT token FROM loxo.capture_token";

/// A database by its id and its name.
pub(super) type Known = (String, String);

/// The databases beside the first, in whatever state; of one that is being renamed both names.
pub(super) async fn known(primary: &Session) -> Result<BTreeSet<Known>> {
    const SQL: &str = "SELECT d.id, n.name FROM loxo.database AS d, unnest(ARRAY[d.name, d.new_name]) AS n (name) WHERE n.name IS NOT NULL";
    let mut known = BTreeSet::new();
    for row in primary.rows(SQL).await? {
        let mut row = row.into_iter().flatten();
        known.extend(row.next().zip(row.next()));
    }
    Ok(known)
}

/// Is the server a datanode of the first database? Then it may have databases of this cluster with its id in them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Server {
    Member,
    Stranger,
}

/// One that may be a template.
pub(super) async fn drop_database(server: &Session, name: &str) -> Result<()> {
    for step in txn::drop_database_sql(name) {
        server.run(&step).await?;
    }
    Ok(())
}

/// Drops those on the server that are not among `kept`; never the first one, one of somebody else's, or one with rows.
pub(super) async fn drop_all_but(
    kept: impl AsyncFnOnce() -> Result<BTreeSet<Known>>,
    (primary, config): (&Session, &Config),
    new: &Datanode,
    is: Server,
) -> Result<()> {
    let there = config.endpoint(&new.host, new.port)?;
    let in_template = Endpoint { database: "template1".to_owned(), ..there.clone() };
    let server = Session::connect(&in_template).await.map_err(|e| at(new, e))?;
    let token = primary.value(TOKEN_SQL).await?;
    let sql = format!(
        "SELECT datname FROM pg_database WHERE datallowconn AND datname NOT IN ('template1', {})",
        literal(&config.cluster.database)
    );
    let mut ours = Vec::new();
    for name in server.rows(&sql).await?.into_iter().flatten().flatten() {
        let session = Session::connect(&Endpoint { database: name.clone(), ..there.clone() }).await?;
        if session.value("SELECT to_regclass('loxo.capture_token')").await?.is_none()
            || session.value(TOKEN_SQL).await? != token
        {
            continue;
        }
        if is == Server::Stranger {
            refuse_member(primary, &session).await.map_err(|e| at(new, e))?;
        }
        let id = session.value("SELECT cluster_id FROM loxo.identity").await?.unwrap_or_default();
        ours.push(((id, name), session));
    }
    // Asked afterwards: what somebody is just creating has its row already.
    let kept = kept().await?;
    for ((_, name), session) in ours.into_iter().filter(|(known, _)| !kept.contains(known)) {
        session.run(NO_ROWS_SQL).await.map_err(|e| at(new, e))?;
        drop(session);
        drop_database(&server, &name).await?;
    }
    Ok(())
}
