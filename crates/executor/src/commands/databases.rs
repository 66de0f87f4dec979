//! CREATE and DROP DATABASE: on all datanodes or on none.
//!
//! Neither runs in a transaction, so `loxo.database` in the cluster's first database is the journal (page `databases` of the gtm):
//!
//! ```text
//!  CREATE   row 'creating' ─ CREATE DATABASE on each node, as the user ─ schema loxo on each, as the service user ─ 'ready'
//!  DROP     row 'leaving' ─ every coordinator leaves the database ─ 'dropping' ─ DROP DATABASE on each node ─ the row goes
//! ```
//!
//! A database of the cluster can be the template of another: nobody may be in it, so it is 'leaving' for as long. The copies have the
//! metadata of its tables, and only another identity.
//!
//! Clients may connect while the row is 'ready', and wait while it is 'leaving'. A coordinator that dies in between leaves a row
//! that a gtm finds without its lock: what was half made, or half dropped, is dropped; what was only to be left is ready again.
//! Another name is a page of its own ([`rename_database`](super::rename_database)).
//!
//! A datanode lets everybody into each of these databases: coordinators and gtms have to come in. Clients do not come into one without
//! ALLOW_CONNECTIONS, which the stored limit of connections says (`loxo.stored_limit`).
//!
//! The first node makes it first: most errors show there. A name that any datanode has already is refused before, so what is
//! dropped after an error is never somebody else's.

use std::time::Duration;

use bytes::Bytes;
use catalog::{NodeId, quote_literal};
use futures_util::future::{join_all, try_join_all};
use pgerror::{PgError, Result, SqlState};
use pgproto::{ConnectOptions, Connection};
use tokio::time::{Instant, sleep};
use txn::decision::{LAYOUT, SCHEMA_SQL};

use crate::backend::cancel::Question;
use crate::backend::pool::Link;
use crate::backend::pool::cluster::Cluster;
use crate::commands::all_sessions::{RIGHTS, Rights, question};
use crate::session::Session;
use crate::session::encoding::is_foreign;

/// Longest wait for recovery to end what is in doubt in a database that is to be dropped, and between two looks.
const RESOLVE_MAX: Duration = Duration::from_secs(3);
/// Longest wait for sessions that are told to end, and for those that may end by themselves (`CountOtherDBBackends`).
const END_MAX: Duration = Duration::from_secs(10);
const STAY_MAX: Duration = Duration::from_secs(5);
const RESOLVE_LOOK: Duration = Duration::from_millis(50);

/// What is said of a database that is not ready.
pub(super) const IN_WORK: &str = "It is being created, copied, renamed or dropped.";

/// While somebody holds it, no gtm takes rows for left by the dead; and no datanode comes or goes.
const LOCK: &str = "BEGIN; SET LOCAL lock_timeout = '30s'; LOCK TABLE loxo.database IN ROW SHARE MODE";

/// Rows of `loxo` that a new database begins with.
const COPIED: [&str; 6] = [
    "loxo.node",
    "loxo.next_datanode",
    "loxo.node_group",
    "loxo.seal",
    "loxo.capture_token",
    // The one over all datanodes; others are made as they are needed.
    "loxo.bucket_map WHERE id OPERATOR(pg_catalog.=) 1",
];

/// What a template knows of its own transactions.
const FORGET_PAST: &str =
    "DELETE FROM loxo.decision; DELETE FROM loxo.finishing; DELETE FROM loxo.prepared_transaction";

/// May the user create databases?
pub(super) const MAY_CREATE: &str =
    "SELECT rolcreatedb OR rolsuper FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) current_user";

/// The row of one database in the journal, and the lock that says that somebody works on it.
pub(super) struct Job {
    lock: Box<Link>,
    pub(super) journal: Box<Link>,
    name: String,
}

impl Job {
    pub(super) async fn begin(first: &Cluster, name: &str) -> Result<Self> {
        let mut lock = first.service_link(first.home()).await?;
        lock.connection.query_rows(LOCK).await?;
        Ok(Self { lock, journal: first.service_link(first.home()).await?, name: name.to_owned() })
    }

    /// Without the lock a gtm may have taken the job for left.
    pub(super) async fn has_lock(&mut self) -> Result<()> {
        self.lock.connection.query_rows("SELECT 1").await.map(drop)
    }

    pub(super) async fn state(&mut self) -> Result<Option<String>> {
        let sql = format!("SELECT state FROM loxo.database WHERE {}", self.is_it());
        let rows = self.journal.connection.query_rows(&sql).await?;
        Ok(rows.into_iter().flatten().flatten().next().map(|state| String::from_utf8_lossy(&state).into_owned()))
    }

    /// Gives the new database's id; fails if it has a row.
    async fn enter(&mut self) -> Result<String> {
        let name = quote_literal(&self.name);
        let sql = format!("INSERT INTO loxo.database (name, state) VALUES ({name}, 'creating') RETURNING id");
        let entered = self.journal.connection.query_rows(&sql).await;
        let rows = entered.map_err(|error| match error.code() {
            SqlState::UNIQUE_VIOLATION => exists(&self.name),
            _ => error,
        })?;
        let id = rows.into_iter().flatten().flatten().next().unwrap_or_default();
        Ok(String::from_utf8_lossy(&id).into_owned())
    }

    /// False if it has not this row any more.
    pub(super) async fn becomes(&mut self, state: &str, from: &str) -> Result<bool> {
        let sql = format!(
            "UPDATE loxo.database SET state = '{state}' WHERE {} AND state OPERATOR(pg_catalog.=) '{from}' RETURNING 1",
            self.is_it()
        );
        Ok(!self.journal.connection.query_rows(&sql).await?.is_empty())
    }

    async fn forget(&mut self) -> Result<()> {
        let sql = format!("DELETE FROM loxo.database WHERE {}", self.is_it());
        self.journal.connection.query_rows(&sql).await.map(drop)
    }

    pub(super) fn end(self, first: &Cluster) {
        first.pool.give_back(self.journal);
    }

    fn is_it(&self) -> String {
        format!("name OPERATOR(pg_catalog.=) {}", quote_literal(&self.name))
    }
}

impl Session {
    pub(crate) async fn create_database(&mut self, name: &str, template: Option<&str>, sql: &str) -> Result<()> {
        self.not_in_a_block(sql).await?;
        let for_nodes = self.for_nodes(sql).await?;
        let sql = for_nodes.as_deref().unwrap_or(sql);
        if self.rows_on(self.home, MAY_CREATE).await?.into_iter().flatten().flatten().next().as_deref() != Some(b"t") {
            return Err(PgError::new(SqlState::INSUFFICIENT_PRIVILEGE, "permission denied to create database"));
        }
        let context = self.context.clone();
        let first = context.first();
        // Through this session's connections it is made on the nodes of this session's database.
        let _held = self.shared_objects_of(&context.nodes()).await?;
        let mut job = Job::begin(first, name).await?;
        refuse_known(first, name).await?;
        let id = job.enter().await?;
        // Sessions of an earlier database of that name, whose end this coordinator may not have been told.
        first.sessions().forget(name);
        let (mut made, mut source) = (Vec::new(), None);
        let outcome = match self.leave_template(template, &mut source).await {
            Ok(()) => self.make_database(name, &id, sql, source.as_ref(), &mut made).await,
            Err(error) => Err(error),
        };
        if let Some(mut source) = source {
            source.becomes("ready", "leaving").await?;
            source.end(first);
        }
        if let Err(error) = outcome {
            // A gtm goes on with it if this does not work. If the row has gone, what there is may be another's.
            if job.state().await?.as_deref() == Some("creating") && drop_on(first, &made, name).await.is_ok() {
                job.forget().await?;
            }
            return Err(error);
        }
        if !job.becomes("ready", "creating").await? {
            return Err(PgError::internal(format!("the note of database \"{name}\" is lost")));
        }
        job.end(first);
        Ok(())
    }

    /// Has everybody leave the template if it is a database of the cluster that the user may copy: `source` is its note then.
    async fn leave_template(&mut self, template: Option<&str>, source: &mut Option<Job>) -> Result<()> {
        let Some(name) = template else { return Ok(()) };
        let context = self.context.clone();
        let first = context.first();
        let may_copy = format!(
            "SELECT datistemplate OR pg_catalog.pg_has_role(datdba, 'USAGE') FROM pg_catalog.pg_database \
             WHERE datname OPERATOR(pg_catalog.=) {}",
            quote_literal(name)
        );
        let is_allowed = self.rows_on(self.home, &may_copy).await?.into_iter().flatten().flatten().next();
        let is_allowed = is_allowed.as_deref() == Some(b"t");
        if is_allowed && (name == first.service().database || name == self.links.identity().database) {
            let text = "CREATE DATABASE with the cluster's first database, or the session's own, as its template";
            return Err(
                PgError::unsupported(text).hint("Fill a new one by pg_dump and psql, or connect to another one.")
            );
        }
        let mut job = Job::begin(first, name).await?;
        if !is_allowed || job.state().await?.is_none() {
            // PostgreSQL says what is wrong, if anything is.
            return Ok(());
        }
        if !job.becomes("leaving", "ready").await? {
            return Err(source_in_use(name, IN_WORK));
        }
        *source = Some(job);
        self.leave_to_nobody(name).await.map_err(|error| match error.code() {
            SqlState::OBJECT_IN_USE => source_in_use(name, &error.text(pgerror::field::DETAIL)),
            _ => error,
        })
    }

    /// Fails if somebody stays in a database that is 'leaving', or something in it is prepared.
    pub(super) async fn leave_to_nobody(&mut self, name: &str) -> Result<()> {
        let context = self.context.clone();
        // Again when it is known that nothing is prepared: a session that was about to come when all were counted is there by now.
        for _ in 0..2 {
            match self.have_all_leave(name, false).await? {
                0 => used_by_none(context.first(), name).await?,
                count => return Err(in_use(name, &there_are(count, "other session"))),
            }
        }
        Ok(())
    }

    /// On one node.
    async fn make_database_on(&mut self, name: &str, node: NodeId, sql: &str, source: Option<&Job>) -> Result<()> {
        let context = self.context.clone();
        let first = context.first();
        let made = self.run_only_on(node, sql);
        match source {
            Some(source) => while_kept_out(first, node, &source.name, made).await?,
            None => made.await?,
        };
        let sql = format!(
            "UPDATE pg_catalog.pg_database SET datallowconn = true, datconnlimit = loxo.stored_limit(loxo.connection_limit(datconnlimit), true) \
             WHERE datname OPERATOR(pg_catalog.=) {} AND NOT datallowconn",
            quote_literal(name)
        );
        first.query_as_service(node, &sql).await.map(drop)
    }

    /// `made`: where there may be a database then that was not there before.
    async fn make_database(
        &mut self,
        name: &str,
        id: &str,
        sql: &str,
        source: Option<&Job>,
        made: &mut Vec<NodeId>,
    ) -> Result<()> {
        let context = self.context.clone();
        let first = context.first();
        let home = self.home;
        let others = first.nodes().into_iter().filter(|node| *node != home);
        for node in std::iter::once(home).chain(others) {
            let done = self.make_database_on(name, node, sql, source).await;
            // Somebody else has made it there just now.
            if !done.as_ref().is_err_and(|error| error.code() == SqlState::DUPLICATE_DATABASE) {
                made.push(node);
            }
            done?;
            if node == home {
                self.check_made(name).await?;
            }
        }
        let rows = rows_of(first).await?;
        let there = first.own_options().in_database(name);
        let install = async |(node, options): (u16, &ConnectOptions)| {
            if source.is_some() {
                let id = quote_literal(id);
                let script = format!("BEGIN; {FORGET_PAST}; UPDATE loxo.identity SET cluster_id = {id}; COMMIT");
                return Connection::connect(options).await?.query_rows(&script).await.map(drop);
            }
            let script = format!(
                "BEGIN;\nSET LOCAL client_min_messages = warning;\n{}\n{SCHEMA_SQL}\n{rows}\n\
                 INSERT INTO loxo.catalog_version (version) VALUES (1);\n\
                 INSERT INTO loxo.identity (node_id, cluster_id, layout, system_identifier)\n\
                 SELECT {node}, {}, {LAYOUT}, system_identifier FROM pg_catalog.pg_control_system();\nCOMMIT;",
                first.metadata,
                quote_literal(id),
            );
            Connection::connect(options).await?.query_rows(&script).await.map(drop)
        };
        try_join_all(there.iter().map(install)).await.map(drop).map_err(|error| match error.code() {
            SqlState::DUPLICATE_SCHEMA => {
                PgError::unsupported("CREATE DATABASE with a template that has metadata of another cluster")
                    .hint("Create it without, and fill it by pg_dump and psql.")
            }
            _ => error,
        })
    }

    /// Coordinators hash texts as they come, in UTF-8.
    async fn check_made(&mut self, name: &str) -> Result<()> {
        let sql = format!(
            "SELECT pg_catalog.pg_encoding_to_char(encoding) FROM pg_catalog.pg_database \
             WHERE datname OPERATOR(pg_catalog.=) {}",
            quote_literal(name)
        );
        let encoding = self.rows_on(self.home, &sql).await?.into_iter().flatten().flatten().next().unwrap_or_default();
        let encoding = String::from_utf8_lossy(&encoding);
        match is_foreign(&encoding) {
            false => Ok(()),
            true => Err(PgError::unsupported(format!("CREATE DATABASE with encoding {encoding}"))
                .hint("Use ENCODING 'UTF8' with TEMPLATE template0; clients may have any client_encoding.")),
        }
    }

    pub(crate) async fn drop_database(&mut self, name: &str, missing_ok: bool, force: bool, sql: &str) -> Result<()> {
        self.not_in_a_block(sql).await?;
        let context = self.context.clone();
        let first = context.first();
        let of_it = format!(
            "SELECT CASE WHEN NOT pg_catalog.pg_has_role(datdba, 'USAGE') THEN 'other' WHEN datistemplate THEN 'template' ELSE 'own' END \
             FROM pg_catalog.pg_database WHERE datname OPERATOR(pg_catalog.=) {}",
            quote_literal(name)
        );
        self.refuse_read_only("DROP DATABASE").await?;
        let mut job = Job::begin(first, name).await?;
        let (found, state) = (self.rows_on(self.home, &of_it).await?, job.state().await?);
        match (found.into_iter().flatten().flatten().next(), &state) {
            (None, None) if missing_ok => {
                let text = format!("{}, skipping", missing(name).message());
                self.notice(&PgError::with_severity("NOTICE", SqlState::SUCCESSFUL_COMPLETION, text));
                return Ok(());
            }
            (None, None) => return Err(missing(name)),
            (Some(is_whose), _) if is_whose == "other" => return Err(not_owner(name)),
            (Some(is_whose), _) if is_whose == "template" => {
                return Err(PgError::new(SqlState::WRONG_OBJECT_TYPE, "cannot drop a template database"));
            }
            (Some(_), _) if *name == self.links.identity().database => {
                return Err(PgError::new(SqlState::OBJECT_IN_USE, "cannot drop the currently open database"));
            }
            (Some(_), Some(state)) if state == "ready" => {}
            (_, Some(_)) => return Err(in_use(name, IN_WORK)),
            (Some(_), None) => {
                return Err(PgError::unsupported(
                    "DROP DATABASE of the cluster's first database, or of one that is not the cluster's",
                )
                .hint("A database that was made on the datanodes themselves is dropped there."));
            }
        }
        if force {
            self.may_end_sessions_in(name).await?;
        }
        if !job.becomes("leaving", "ready").await? {
            return Err(in_use(name, "Another session drops it."));
        }
        let left = match self.have_all_leave(name, force).await {
            Ok(0) => used_by_none(first, name).await,
            Ok(count) => Err(in_use(name, &there_are(count, "other session"))),
            Err(error) => Err(error),
        };
        if let Err(error) = left {
            job.becomes("ready", "leaving").await?;
            return Err(error);
        }
        if !job.becomes("dropping", "leaving").await? {
            return Err(in_use(name, "Another session drops it."));
        }
        drop_on(first, &first.nodes(), name).await.map_err(|error| {
            error.hint(format!("A gtm goes on to drop database \"{name}\"; nobody can connect to it any more."))
        })?;
        job.forget().await?;
        job.end(first);
        Ok(())
    }

    /// PostgreSQL says why it cannot run there.
    async fn not_in_a_block(&mut self, sql: &str) -> Result<()> {
        if !self.in_block() {
            return Ok(());
        }
        self.run_on(self.home, sql).await?;
        Err(PgError::internal("a database was created or dropped in a transaction block"))
    }

    pub(super) async fn refuse_read_only(&mut self, what: &str) -> Result<()> {
        let read_only = self.rows_on(self.home, "SHOW transaction_read_only").await?;
        match read_only.into_iter().flatten().flatten().next().as_deref() {
            Some(b"on") => {
                let text = format!("cannot execute {what} in a read-only transaction");
                Err(PgError::new(SqlState::READ_ONLY_SQL_TRANSACTION, text))
            }
            _ => Ok(()),
        }
    }

    async fn may_end_sessions_in(&mut self, name: &str) -> Result<()> {
        let rights = Rights::read(&self.rows_on(self.home, RIGHTS).await?)?;
        let all = self.all_sessions().await?;
        match all.iter().filter(|session| session.datname == name).all(|session| rights.signals(session)) {
            true => Ok(()),
            false => Err(PgError::new(SqlState::INSUFFICIENT_PRIVILEGE, "permission denied to terminate process")),
        }
    }

    /// No coordinator uses the database any more, unless a session does that is not to be ended, or does not end in time: gives the
    /// number of sessions there.
    async fn have_all_leave(&mut self, name: &str, ends: bool) -> Result<usize> {
        let patience = Instant::now() + if ends { END_MAX } else { STAY_MAX };
        loop {
            let question = question(&Question::Leave { database: name.to_owned(), ends })?;
            let answers = self.context.first().gtm.ask_all(question).await?;
            let counts = answers.iter().map(|answer| std::str::from_utf8(answer).ok()?.parse::<usize>().ok());
            let count = counts.sum::<Option<usize>>();
            match count.ok_or_else(|| PgError::protocol("another coordinator is not understood"))? {
                count if count > 0 && Instant::now() < patience => {
                    self.links.cancel().interrupt().or(sleep(RESOLVE_LOOK)).await?;
                }
                count => return Ok(count),
            }
        }
    }
}

/// The metadata that are the same in every database.
async fn rows_of(first: &Cluster) -> Result<String> {
    let mut script = String::new();
    for of in COPIED {
        let table = of.split(' ').next().unwrap_or(of);
        let rows = first
            .query_as_service(first.home(), &format!("SELECT {}::pg_catalog.text FROM {of}", &table["loxo.".len()..]))
            .await?;
        for row in rows.into_iter().flatten().flatten() {
            let row = quote_literal(&String::from_utf8_lossy(&row));
            script.push_str(&format!("INSERT INTO {table} SELECT ({row}::{table}).*;\n"));
        }
    }
    Ok(script)
}

/// As the service user, which may end any session that is connected; nothing of it is left then, or an error tells of the first
/// node where something is. A CREATE DATABASE that nobody waits for any more is waited for: it holds its lock to its end.
async fn drop_on(first: &Cluster, nodes: &[NodeId], name: &str) -> Result<()> {
    on_each(first, nodes, &txn::drop_database_sql(name)).await
}

/// As the service user; an error tells of the first node where it did not work.
pub(super) async fn on_each(first: &Cluster, nodes: &[NodeId], steps: &[String; 2]) -> Result<()> {
    let run = async |node: &NodeId| {
        for step in steps {
            first.query_as_service(*node, step).await?;
        }
        Ok(())
    };
    join_all(nodes.iter().map(run)).await.into_iter().collect()
}

/// Does something that PostgreSQL does to a database only while nobody is connected to it on this node. What coordinators and gtms still
/// have open there, and open again, is ended until PostgreSQL keeps it out.
pub(super) async fn while_kept_out<T>(
    first: &Cluster,
    node: NodeId,
    name: &str,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let end = format!(
        "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity \
         WHERE datname OPERATOR(pg_catalog.=) {} AND application_name IN ('loxo', 'loxo gtm')",
        quote_literal(name)
    );
    let mut work = std::pin::pin!(work);
    loop {
        let ending = async {
            // If this does not work, PostgreSQL says who is in the way.
            let _ = first.query_as_service(node, &end).await;
            sleep(RESOLVE_LOOK).await;
        };
        tokio::select! {
            done = &mut work => return done,
            () = ending => {}
        }
    }
}

/// No datanode may have a database of this name, whoever made it.
pub(super) async fn refuse_known(first: &Cluster, name: &str) -> Result<()> {
    let here =
        format!("SELECT FROM pg_catalog.pg_database WHERE datname OPERATOR(pg_catalog.=) {}", quote_literal(name));
    let found = try_join_all(first.nodes().into_iter().map(|node| first.query_as_service(node, &here))).await?;
    if found.iter().any(|rows| !rows.is_empty()) { Err(exists(name)) } else { Ok(()) }
}

/// What no DROP DATABASE gets past, since some nodes would drop it and others not: prepared transactions (ours are ended by recovery
/// within a moment, those of users are theirs to end), and logical replication.
async fn used_by_none(first: &Cluster, name: &str) -> Result<()> {
    let sql = format!(
        "SELECT (SELECT pg_catalog.count(*) FROM pg_catalog.pg_prepared_xacts WHERE database OPERATOR(pg_catalog.=) d.datname), \
           (SELECT pg_catalog.count(*) FROM pg_catalog.pg_replication_slots AS s WHERE s.database OPERATOR(pg_catalog.=) d.datname AND s.active) \
             OPERATOR(pg_catalog.+) (SELECT pg_catalog.count(*) FROM pg_catalog.pg_subscription AS s WHERE s.subdbid OPERATOR(pg_catalog.=) d.oid) \
         FROM pg_catalog.pg_database AS d WHERE d.datname OPERATOR(pg_catalog.=) {}",
        quote_literal(name)
    );
    let patience = Instant::now() + RESOLVE_MAX;
    loop {
        let found = try_join_all(first.nodes().into_iter().map(|node| first.query_as_service(node, &sql))).await?;
        let most = |column: usize| {
            let count = |row: &Vec<Option<Bytes>>| std::str::from_utf8(row.get(column)?.as_deref()?).ok()?.parse().ok();
            found.iter().flatten().filter_map(count).max().unwrap_or(0)
        };
        match (most(0), most(1)) {
            (0, 0) => return Ok(()),
            (_, 1..) => {
                return Err(in_use(name, "Logical replication uses it: a slot that is active, or a subscription."));
            }
            (count, 0) if Instant::now() > patience => {
                return Err(in_use(name, &there_are(count, "prepared transaction")));
            }
            _ => sleep(RESOLVE_LOOK).await,
        }
    }
}

fn there_are(count: usize, what: &str) -> String {
    match count {
        1 => format!("There is 1 {what} using the database."),
        _ => format!("There are {count} {what}s using the database."),
    }
}

pub(super) fn missing(name: &str) -> PgError {
    PgError::new(SqlState::INVALID_CATALOG_NAME, format!("database \"{name}\" does not exist"))
}

pub(super) fn not_owner(name: &str) -> PgError {
    PgError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("must be owner of database {name}"))
}

pub(super) fn exists(name: &str) -> PgError {
    PgError::new(SqlState::DUPLICATE_DATABASE, format!("database \"{name}\" already exists"))
}

fn source_in_use(name: &str, detail: &str) -> PgError {
    let text = format!("source database \"{name}\" is being accessed by other users");
    PgError::new(SqlState::OBJECT_IN_USE, text).detail(detail.to_owned())
}

pub(super) fn in_use(name: &str, detail: &str) -> PgError {
    PgError::new(SqlState::OBJECT_IN_USE, format!("database \"{name}\" is being accessed by other users"))
        .detail(detail)
}
