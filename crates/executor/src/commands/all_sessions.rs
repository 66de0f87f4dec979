//! Statements that ask for the sessions of the whole cluster: `pg_stat_activity`, `pg_locks`, `pg_blocking_pids()`,
//! `pg_backend_pid()`, and `pg_cancel_backend()` and `pg_terminate_backend()`, which mean sessions and no backends; and for figures of all
//! nodes: sizes, `pg_stat_user_tables` and other views of statistics.
//!
//! In their place stand functions of schema `loxo` (`sessions.sql`, `statistics.sql`). Before such a statement runs, this coordinator
//! asks all coordinators, by way of the gtm, for their sessions, and all datanodes for what their backends wait for. Views of
//! statistics are read in the session's own backends, so each node shows in them what the role may see there. What it may see of all
//! that is put into a setting of the home node's backend, which the functions read, until the statement is done. Whom to cancel or to
//! end the functions say in notices, which are taken out when the statement has run, and judged once more: anybody can raise such a
//! notice, so it does nothing for a role without the right to.
//!
//! Invariant: what the role may not see never reaches its backend; without the setting the functions refuse (0A000).

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use bytes::Bytes;
use catalog::{NodeId, quote_literal};
use futures_util::future::join_all;
use pgerror::{PgError, Result, SqlState};
use planner::Plan;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::backend::activity::Told;
use crate::backend::call::Call;
use crate::backend::cancel::Question;
use crate::backend::slot::Slot;
use crate::block::{About, Mode, Replay};
use crate::commands::statistics::Figures;
use crate::engine::output::Output;
use crate::engine::run::Completion;
use crate::engine::sorted_merge::unhex;
use crate::session::Session;
use crate::transaction::GTM_WAIT;

/// What a node answers, text by column.
pub(super) type Rows = Vec<Vec<Option<Bytes>>>;

/// A datanode that does not answer by then is left out, which the client is told.
const NODE_MAX: Duration = Duration::from_secs(2);

/// What the role may see and do, as PostgreSQL judges it in `pg_stat_get_activity()` and `pg_signal_backend()`.
pub(super) const RIGHTS: &str = "SELECT pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE'), pg_catalog.pg_has_role('pg_signal_backend', 'USAGE'), \
     (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) current_user), \
     pg_catalog.encode(pg_catalog.convert_to(pg_catalog.json_build_array( \
       ARRAY(SELECT rolname FROM pg_catalog.pg_roles WHERE pg_catalog.pg_has_role(oid, 'USAGE')), \
       ARRAY(SELECT rolname FROM pg_catalog.pg_roles WHERE rolsuper), \
       ARRAY(SELECT datname FROM pg_catalog.pg_database WHERE pg_catalog.has_database_privilege(oid, 'CONNECT') \
         OR pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE')))::pg_catalog.text, 'UTF8'), 'hex')";

const WAITS: &str = "SELECT pid, wait_event_type, wait_event, state, \
     CASE WHEN wait_event_type = 'Lock' THEN pg_catalog.array_to_json(pg_catalog.pg_blocking_pids(pid)) END \
     FROM pg_catalog.pg_stat_activity WHERE backend_type = 'client backend'";

/// Object ids are each node's own, so names travel.
const LOCKS: &str = "SELECT l.pid, pg_catalog.to_jsonb(l) || pg_catalog.jsonb_build_object( \
       'database', CASE WHEN l.database = 0 THEN '0' ELSE d.datname END, \
       'relation', CASE WHEN c.oid IS NOT NULL THEN pg_catalog.format('%I.%I', n.nspname, c.relname) END) \
     FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_database d ON d.oid = l.database \
     LEFT JOIN pg_catalog.pg_class c ON c.oid = l.relation AND d.datname = pg_catalog.current_database() LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
     WHERE l.pid IS DISTINCT FROM pg_catalog.pg_backend_pid()";

/// What an idle session waits for, as PostgreSQL names it.
const CLIENT_WAIT: (&str, &str) = ("Client", "ClientRead");
/// What an active one waits for that has a backend on a datanode which does not say it.
const DATANODE_WAIT: (&str, &str) = ("IPC", "DatanodeAnswer");

const SET: &str = "SET LOCAL loxo.sessions";

/// SQLSTATE of the notices that say which process to signal.
const SIGNAL: &str = "LX010";
/// In such a notice in place of a process id: what statements have cost is to be forgotten.
const FORGET: i32 = 0;

pub(super) struct Rights {
    sees_all: bool,
    signals_all: bool,
    is_superuser: bool,
    /// Roles whose rights it has.
    roles: HashSet<String>,
    superusers: HashSet<String>,
    /// Databases whose sizes it may know.
    pub(super) databases: HashSet<String>,
}

impl Rights {
    pub(super) fn read(rows: &[Vec<Option<Bytes>>]) -> Result<Self> {
        let lost = || PgError::internal("a datanode does not say what a role may do");
        let [row] = rows else { return Err(lost()) };
        let is = |at: usize| row.get(at).and_then(Option::as_deref) == Some(b"t");
        let names = row.get(3).and_then(Option::as_deref).ok_or_else(lost)?;
        let [roles, superusers, databases] = in_utf8(names).ok_or_else(lost)?;
        Ok(Self { sees_all: is(0), signals_all: is(1), is_superuser: is(2), roles, superusers, databases })
    }

    /// Does it see what this role does?
    pub(super) fn sees_of(&self, role: &str) -> bool {
        self.sees_all || self.roles.contains(role)
    }

    pub(super) fn signals(&self, session: &Told) -> bool {
        match self.superusers.contains(&session.usename) {
            true => self.is_superuser,
            false => self.signals_all || self.roles.contains(&session.usename),
        }
    }
}

/// Reads JSON that a node gives in hexadecimal digits of UTF-8: the session's own backend would give text in the client's encoding.
pub(super) fn in_utf8<T: DeserializeOwned>(digits: &[u8]) -> Option<T> {
    let mut json = Vec::new();
    unhex(digits, &mut json).ok()?;
    serde_json::from_slice(&json).ok()
}

impl Session {
    /// Runs a plan of which some part asks for all sessions.
    pub(crate) async fn dispatch_among_sessions(
        &mut self,
        plan: &Plan,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        self.atomically(async |session| {
            let home = session.home;
            // What others are asked for does not know the tables of this transaction.
            if session.leaves.asks.sizes && session.block.as_ref().is_some_and(|block| block.hides_schema()) {
                return Err(PgError::unsupported("sizes of tables in a transaction block that has changed the schema")
                    .hint("Ask after COMMIT, or for one table by its name: pg_table_size('name')."));
            }
            let rights = Rights::read(&session.rows_on(home, RIGHTS).await?)?;
            let all = match session.leaves.asks.sessions {
                true => session.all_sessions().await?,
                false => Vec::new(),
            };
            let locks = match session.leaves.asks.locks {
                true => session.all_locks(&all).await?,
                false => Vec::new(),
            };
            let figures = session.figures(&rights).await?;
            let snapshot = match session.leaves.asks.snapshot {
                true => Some(session.export_snapshot().await?),
                false => None,
            };
            let shown = session.shown(&all, locks, figures, snapshot, &rights);
            let set = format!("{SET} = {}", quote_literal(&in_ascii(&shown)));
            session.command_in(home, Mode::InBlock, &set).await?;
            session.on_others_begun(&set).await?;
            // Wherever the last step runs.
            if let Some(block) = &mut session.block {
                block.replay.push(Replay::Set(set, About::Setting));
            }
            let done = Box::pin(session.dispatch(plan, call, output)).await;
            if let Some(block) = &mut session.block {
                block.replay.retain(|step| !matches!(step, Replay::Set(sql, _) if sql.starts_with(SET)));
            }
            let signals = session.take_signals();
            session.send_signals(&signals, &all, &rights).await?;
            let done = done?;
            if !session.block.as_ref().is_some_and(|block| block.is_own) {
                let clear = format!("{SET} = ''");
                session.command_in(home, Mode::InBlock, &clear).await?;
                session.on_others_begun(&clear).await?;
            }
            Ok(done)
        })
        .await
    }

    /// Nodes that are in the block already.
    async fn on_others_begun(&mut self, sql: &str) -> Result<()> {
        let home = Slot::from(self.home);
        for slot in self.links.begun().into_iter().filter(|slot| *slot != home) {
            self.command_in(slot, Mode::InBlock, sql).await?;
        }
        Ok(())
    }

    /// Those of all coordinators, with what they wait for.
    pub(super) async fn all_sessions(&mut self) -> Result<Vec<Told>> {
        let (answers, waits) = tokio::join!(self.ask_coordinators(&Question::Sessions), self.on_all_nodes(WAITS));
        let not_understood = |_| PgError::protocol("another coordinator is not understood");
        let mut all = Vec::new();
        for answer in answers? {
            all.extend(serde_json::from_slice::<Vec<Told>>(&answer).map_err(not_understood)?);
        }
        all.sort_by_key(|session| session.pid);
        if let Some(twice) = all.windows(2).find(|two| two[0].pid == two[1].pid) {
            let message = format!("two coordinators have a session with process id {}", twice[0].pid);
            return Err(
                PgError::internal(message).hint("Give each coordinator a name of its own in the configuration.")
            );
        }
        let silent: HashSet<u16> = waits.iter().filter(|(_, rows)| rows.is_err()).map(|(node, _)| node.0).collect();
        let pids = pids(&all);
        let places: HashMap<i32, usize> = all.iter().enumerate().map(|(at, session)| (session.pid, at)).collect();
        for (node, row) in self.answered(waits) {
            let [Some(pid), kind, event, state, blockers] = row.as_slice() else { continue };
            let Some(at) = number(pid).and_then(|pid| pids.get(&(node.0, pid)).copied()) else { continue };
            let Some(session) = places.get(&at).and_then(|at| all.get_mut(*at)) else { continue };
            let (kind, event) = (text(kind.as_ref()), text(event.as_ref()));
            // A lock is what counts; what a backend waits for that has nothing to do does not.
            if kind.as_deref() == Some("Lock")
                || session.wait_event_type.is_none() && state.as_deref() == Some(b"active")
            {
                (session.wait_event_type, session.wait_event) = (kind, event);
            }
            let blockers: Vec<i32> =
                blockers.as_ref().and_then(|list| serde_json::from_slice(list).ok()).unwrap_or_default();
            let own = session.pid;
            let blocked_by = blockers.iter().map(|pid| pids.get(&(node.0, *pid)).copied().unwrap_or(0));
            session.blocked_by.extend(blocked_by.filter(|pid| *pid != own));
        }
        for session in &mut all {
            session.blocked_by.sort_unstable();
            session.blocked_by.dedup();
            if session.wait_event_type.is_none() {
                let is_active = session.state.as_deref() == Some("active");
                let wait = match is_active {
                    true if session.backends.iter().any(|(node, _)| silent.contains(node)) => Some(DATANODE_WAIT),
                    true => None,
                    false => session.state.as_ref().map(|_| CLIENT_WAIT),
                };
                let (kind, event) = wait.unzip();
                (session.wait_event_type, session.wait_event) = (kind.map(str::to_owned), event.map(str::to_owned));
            }
        }
        Ok(all)
    }

    /// What all coordinators answer.
    pub(super) async fn ask_coordinators(&self, asked: &Question) -> Result<Vec<Bytes>> {
        let (gtm, question) = (self.context.first().gtm.clone(), question(asked)?);
        let is_login = matches!(asked, Question::Count { .. });
        let ask = async || match is_login {
            true => gtm.ask_all_at_login(question.clone()).await,
            false => gtm.ask_all(question.clone()).await,
        };
        match ask().await {
            // A coordinator, or the gtm, may have stood still for a moment, or left the other for another connection.
            Err(error) if error.code() == SqlState::CANNOT_CONNECT_NOW => {
                let _ = tokio::time::timeout(GTM_WAIT, gtm.connected()).await;
                ask().await
            }
            asked => asked,
        }
    }

    /// The locks on all nodes, by the sessions that have them or want them.
    async fn all_locks(&mut self, sessions: &[Told]) -> Result<Vec<Value>> {
        let (pids, locks) = (pids(sessions), self.on_all_nodes(LOCKS).await);
        let lock = |(node, row): (NodeId, Vec<Option<Bytes>>)| {
            let not_read = || PgError::protocol("a datanode's locks are not understood");
            let [pid, Some(lock)] = row.as_slice() else { return Err(not_read()) };
            let mut lock: Value = serde_json::from_slice(lock).map_err(|_| not_read())?;
            lock["pid"] = json!(pid.as_ref().and_then(number).and_then(|pid| pids.get(&(node.0, pid))));
            Ok(lock)
        };
        self.answered(locks).into_iter().map(lock).collect()
    }

    pub(super) async fn on_all_nodes(&self, sql: &str) -> Vec<(NodeId, Result<Rows>)> {
        let ask = |node: NodeId| async move {
            let slow = |_| PgError::connection("it did not answer within 2 s");
            let asked = tokio::time::timeout(NODE_MAX, self.context.query_as_service(node, sql)).await;
            (node, asked.map_err(slow).and_then(|rows| rows))
        };
        join_all(self.context.nodes().into_iter().map(ask)).await
    }

    fn answered(&mut self, nodes: Vec<(NodeId, Result<Rows>)>) -> Vec<(NodeId, Vec<Option<Bytes>>)> {
        let mut all = Vec::new();
        for (node, rows) in nodes {
            match rows {
                Ok(rows) => all.extend(rows.into_iter().map(|row| (node, row))),
                Err(error) => {
                    let message = format!("datanode {} is left out: {}", node.0, error.message());
                    self.notice(&PgError::with_severity("WARNING", SqlState::CONNECTION_FAILURE, message));
                }
            }
        }
        all
    }

    fn shown(
        &self,
        all: &[Told],
        locks: Vec<Value>,
        figures: Figures,
        snapshot: Option<String>,
        rights: &Rights,
    ) -> String {
        let seen = |session: &Told| match rights.sees_of(&session.usename) {
            true => session.clone(),
            false => session.clone().for_strangers(),
        };
        let sessions: Vec<Told> = all.iter().map(seen).collect();
        let own = self.links.cancel().activity().pid();
        let Figures { sizes, databases, views } = figures;
        json!({
            "self": own, "sessions": sessions, "locks": locks, "sizes": sizes, "databases": databases, "views": views,
            "snapshot": snapshot,
        })
        .to_string()
    }

    /// Process ids, those with a minus before them of sessions that are to end.
    fn take_signals(&mut self) -> Vec<i32> {
        self.collect_notices();
        let mut signals = Vec::new();
        self.notices.retain(|frame| {
            let notice = PgError::decode_body(frame.body.clone());
            let is_signal = notice.code().as_str() == SIGNAL;
            if is_signal {
                signals.extend(notice.message().parse::<i32>());
            }
            !is_signal
        });
        signals
    }

    async fn send_signals(&mut self, signals: &[i32], all: &[Told], rights: &Rights) -> Result<()> {
        for signal in signals {
            if *signal == FORGET && rights.is_superuser {
                self.context.first().gtm.ask_all(question(&Question::ForgetStatements)?).await?;
            }
            let (pid, ends) = (signal.saturating_abs(), *signal < 0);
            let meant = all.iter().find(|session| session.pid == pid);
            if let Some(session) = meant.filter(|session| rights.signals(session)) {
                let signal = Question::Signal { pid, backend_start: session.backend_start, ends };
                self.context.first().gtm.ask_all(question(&signal)?).await?;
            }
        }
        Ok(())
    }
}

pub(super) fn question(question: &Question) -> Result<Bytes> {
    let lost = |_| PgError::internal("a question cannot be written");
    serde_json::to_vec(question).map(Bytes::from).map_err(lost)
}

/// JSON in ASCII, whatever the client encoding of a link is: what others have written could end the literal in some.
fn in_ascii(json: &str) -> String {
    let mut ascii = String::with_capacity(json.len());
    for character in json.chars() {
        match character.is_ascii() {
            true => ascii.push(character),
            false => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    ascii.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    ascii
}

/// Whose backends they are.
fn pids(sessions: &[Told]) -> HashMap<(u16, i32), i32> {
    let of_one = |session: &Told| {
        let pid = session.pid;
        session.backends.iter().map(move |backend| (*backend, pid)).collect::<Vec<_>>()
    };
    sessions.iter().flat_map(of_one).collect()
}

fn text(value: Option<&Bytes>) -> Option<String> {
    value.map(|value| String::from_utf8_lossy(value).into_owned())
}

fn number(value: &Bytes) -> Option<i32> {
    std::str::from_utf8(value).ok()?.parse().ok()
}
