//! The server that shall become a datanode: is it fit, is it empty, was a call like this one interrupted on it?

use pgerror::{PgError, Result, SqlState};

use super::strays;
use crate::check::{Level, check_new};
use crate::config::{Config, DATANODES_MAX, Datanode};
use crate::init::{at, check_empty};
use crate::progress::Progress;
use crate::sql::{Session, literal};

const NEXT_ID_SQL: &str = "SELECT id FROM loxo.next_datanode";

/// A database like the primary datanode's.
const CREATE_DATABASE_SQL: &str = "
    SELECT format('CREATE DATABASE %I TEMPLATE template0 ENCODING %L LC_COLLATE %L LC_CTYPE %L', d.datname,
                  pg_encoding_to_char(d.encoding), d.datcollate, d.datctype)
        || CASE d.datlocprovider
           WHEN 'i' THEN format(' LOCALE_PROVIDER icu ICU_LOCALE %L', coalesce(j ->> 'datlocale', j ->> 'daticulocale'))
               || coalesce(format(' ICU_RULES %L', j ->> 'daticurules'), '')
           WHEN 'b' THEN format(' LOCALE_PROVIDER builtin BUILTIN_LOCALE %L', j ->> 'datlocale')
           ELSE ' LOCALE_PROVIDER libc' END
    FROM pg_database AS d CROSS JOIN LATERAL to_jsonb(d) AS j WHERE d.datname = current_database()";

/// Fails if a table of users holds a row.
pub(super) const NO_ROWS_SQL: &str = "
    DO $$
    DECLARE one regclass; holds bool;
    BEGIN
        FOR one IN SELECT c.oid FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
            WHERE c.relkind = 'r' AND c.oid >= 16384 AND n.nspname <> 'loxo' AND n.nspname !~ '^pg_'
                AND NOT EXISTS (SELECT FROM pg_depend AS d WHERE d.objid = c.oid AND d.deptype = 'e')
        LOOP
            EXECUTE format('SELECT EXISTS (SELECT FROM ONLY %s)', one) INTO holds;
            IF holds THEN
                RAISE object_not_in_prerequisite_state USING
                    MESSAGE = format('the server carries this cluster''s id, is none of its datanodes, and table %s has rows', one),
                    HINT = 'Look at what it holds. If none of it is needed, drop the database and make it again.';
            END IF;
        END LOOP;
    END $$";

/// What speaks against the databases' extensions and tablespaces.
const EXTENSIONS_SQL: &str = "SELECT extname, extversion FROM pg_extension ORDER BY 1";
const AVAILABLE_SQL: &str = "SELECT name, version FROM pg_available_extension_versions";
const TABLESPACES_SQL: &str = "SELECT spcname FROM pg_tablespace WHERE spcname !~ '^pg_' ORDER BY 1";

/// The id that the next datanode gets.
pub(super) async fn next_id(primary: &Session) -> Result<u16> {
    let id = primary.value(NEXT_ID_SQL).await?.and_then(|id| id.parse().ok()).unwrap_or(0);
    if usize::from(id) < DATANODES_MAX {
        return Ok(id);
    }
    Err(PgError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, format!("there are no ids left below {DATANODES_MAX}")))
}

/// A session on the server's database, which is empty: made if it is missing, and emptied of what an interrupted call has
/// left. Any other content is refused.
pub(super) async fn emptied(config: &Config, primary: &Session, new: &Datanode) -> Result<Session> {
    let endpoint = config.endpoint(&new.host, new.port)?;
    let session = match Session::connect(&endpoint).await {
        Err(error) if error.code() == SqlState::INVALID_CATALOG_NAME => {
            create_database(config, primary, new, false).await.map_err(|e| at(new, e))?;
            Session::connect(&endpoint).await
        }
        other => other,
    };
    let session = session.map_err(|e| at(new, e))?;
    if !is_left_over(primary, &session).await.map_err(|e| at(new, e))? {
        check_empty(&session).await.map_err(|e| at(new, e))?;
        return Ok(session);
    }
    session.run(NO_ROWS_SQL).await.map_err(|e| at(new, e))?;
    drop(session);
    create_database(config, primary, new, true).await.map_err(|e| at(new, e))?;
    Session::connect(&endpoint).await.map_err(|e| at(new, e))
}

/// Did a call that was interrupted, or a removal, leave this cluster's metadata there?
async fn is_left_over(primary: &Session, server: &Session) -> Result<bool> {
    let identity = "SELECT node_id, cluster_id FROM loxo.identity";
    if server.value("SELECT to_regclass('loxo.identity')").await?.is_none() {
        return Ok(false);
    }
    let mut found = server.rows(identity).await?.into_iter().next().unwrap_or_default().into_iter().flatten();
    let (Some(id), Some(cluster)) = (found.next(), found.next()) else { return Ok(false) };
    if primary.value("SELECT cluster_id FROM loxo.identity").await?.as_ref() != Some(&cluster) {
        return Ok(false);
    }
    refuse_id(primary, &id).await.map(|()| true)
}

/// Fails if the server's metadata say that it is one of the datanodes there are.
pub(super) async fn refuse_member(primary: &Session, server: &Session) -> Result<()> {
    match server.value("SELECT node_id FROM loxo.identity").await? {
        Some(id) => refuse_id(primary, &id).await,
        None => Ok(()),
    }
}

async fn refuse_id(primary: &Session, id: &str) -> Result<()> {
    let member = format!("SELECT name FROM loxo.node WHERE type = 'D' AND id = {}", literal(id));
    let Some(name) = primary.value(&member).await? else { return Ok(()) };
    let error =
        PgError::new(SqlState::DUPLICATE_OBJECT, format!("the server says that it is datanode {name} of this cluster"));
    Err(error.hint("\"loxo node list\" says where the datanodes are; another server must be empty."))
}

async fn create_database(config: &Config, primary: &Session, new: &Datanode, is_there: bool) -> Result<()> {
    let mut endpoint = config.endpoint(&new.host, new.port)?;
    let database = std::mem::replace(&mut endpoint.database, "template1".to_owned());
    let create = primary.value(CREATE_DATABASE_SQL).await?.unwrap_or_default();
    let session = Session::connect(&endpoint).await?;
    if is_there {
        strays::drop_database(&session, &database).await?;
    }
    session.run(&create).await
}

/// Is the server, which is empty, fit to stand beside the others? Says warnings, and fails on errors.
pub(super) async fn check(
    config: &Config,
    primary: &Session,
    new: &Datanode,
    server: &Session,
    progress: &Progress,
) -> Result<()> {
    let mut findings = Vec::new();
    for finding in check_new(config, (config.primary(), primary), (new, server)).await? {
        match finding.level {
            Level::Error => findings.push((format!("{}: {}", finding.subject, finding.text), finding.hint)),
            Level::Warning => progress.line(&format!("{}: {}. {}", finding.subject, finding.text, finding.hint)),
        }
    }
    let available = server.rows(AVAILABLE_SQL).await?;
    for row in primary.rows(EXTENSIONS_SQL).await?.into_iter().filter(|row| !available.contains(row)) {
        let words: Vec<String> = row.into_iter().flatten().collect();
        let hint = "Install the same packages of extensions as on the other datanodes.";
        findings.push((format!("{}: extension {} is not available", new.name, words.join(" ")), hint.to_owned()));
    }
    let there = server.rows(TABLESPACES_SQL).await?;
    for row in primary.rows(TABLESPACES_SQL).await?.into_iter().filter(|row| !there.contains(row)) {
        let name: String = row.into_iter().flatten().collect();
        let hint = format!("CREATE TABLESPACE {name} LOCATION '…' on the new server.");
        findings.push((format!("{}: there is no tablespace {name}", new.name), hint));
    }
    if findings.is_empty() {
        return Ok(());
    }
    let (texts, hints): (Vec<String>, Vec<String>) = findings.into_iter().unzip();
    let error =
        PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "the server cannot be a datanode of this cluster");
    Err(error.detail(texts.join("\n")).hint(hints.join("\n")))
}
