//! The datanode side of a client session: which connections it holds, and the transaction that ties them together.
//!
//! Outside a transaction block a link is held for one statement. Inside one it is held, with a transaction open on it,
//! until the end; a node that joins late gets the block's `BEGIN`, its `SET LOCAL`s and its savepoints replayed. A link
//! that carries session state PostgreSQL keeps in the backend (temp tables, cursors WITH HOLD) is *pinned* until the session ends;
//! of the values of sequences see [`crate::backend::sequence_values`].
//!
//! Invariants: at most one link a node; a link whose answers were not read to the end never goes back to the pool; when
//! the block has failed nothing but its end (or `ROLLBACK TO`) is sent.

pub(crate) mod catalog_load;
pub(crate) mod cluster_command;
pub(crate) mod commands;
pub(crate) mod context;
pub(crate) mod describe;
pub(crate) mod encoding;
pub(crate) mod listen;
pub(crate) mod long_texts;
pub(crate) mod own_settings;
pub(crate) mod plan_validity;
pub(crate) mod search_path;
pub(crate) mod temp_names;

use std::collections::BTreeMap;
use std::sync::Arc;

use catalog::{Leavings, NodeId};
use pgerror::{PgError, Result, SqlState};
use pgproto::Frame;
use pgproto::backend::tag;

use crate::backend::admission::Ticket;
use crate::backend::cancel::{CancelSet, Entry};
use crate::backend::leased::LeasedConnection;
use crate::backend::login::Login;
use crate::backend::pool::Identity;
use crate::backend::sequence_values::Drawn;
use crate::backend::settings::Settings;
use crate::engine::owner_reads::Lending;
use crate::session::catalog_load::Loaded;
use crate::session::context::Context;
use crate::session::listen::{Change, Listening};
use crate::session::plan_validity::PlanValidity;
use crate::session::search_path::Path;
use crate::session::temp_names::TempNames;
use crate::snapshot::causality::CausalityTracker;
use crate::snapshot::{Cut, Isolation};
use crate::transaction::serializable::Reach;
use crate::transaction::suspended::SuspendedTransaction;

/// A second session on the home node, for a transaction that may not write.
pub(crate) const BESIDE: NodeId = NodeId(u16::MAX);

/// A third one there: see the page of `cursor_holder`.
pub(crate) const CURSOR_HOLDER: NodeId = NodeId(u16::MAX - 1);

/// What a statement needs of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// A transaction of its own, ended by the node itself.
    Autocommit,
    /// Part of the session's transaction, which is opened on the node if it is not yet.
    InBlock,
}

/// The session's open transaction.
#[derive(Debug)]
pub(crate) struct Block {
    /// `BEGIN …` as it is sent to each node that joins.
    pub(crate) begin: String,
    /// What it says beside the isolation level.
    pub(crate) modes: String,
    /// Commands replayed on a node that joins: `SAVEPOINT`s and `SET`s, in order.
    pub(crate) replay: Vec<Replay>,
    /// Settings as they were at the start and at each savepoint, to go back to.
    pub(crate) settings_at_begin: Settings,
    /// The catalog as the transaction sees it after its own DDL.
    pub(crate) catalog: Option<Arc<Loaded>>,
    /// The transaction changed the catalog: others must be told at commit.
    pub(crate) schema_changed: bool,
    /// The temp objects may be others than before the block.
    pub(crate) names_changed: bool,
    /// So may the search path.
    pub(crate) path_changed: bool,
    pub(crate) failed: bool,
    /// It was made for one statement of a session that has none.
    pub(crate) is_own: bool,
    /// A connection with a part of the transaction is gone: nothing but ROLLBACK can end it.
    pub(crate) is_torn: bool,
    /// SET CONSTRAINTS was run.
    pub(crate) constraints_set: bool,
    /// The catalog's version is raised, and its row locked, already.
    pub(crate) version_raised: bool,
    pub(crate) read_only: bool,
    pub(crate) isolation: Isolation,
    pub(crate) cut: Cut,
    pub(crate) reach: Reach,
    /// It has, or may have, changed or locked something.
    pub(crate) wrote: bool,
    /// What is being run takes no snapshot (SHOW, LOCK TABLE).
    pub(crate) snapshotless: bool,
    /// A statement was run that takes a snapshot, on whatever links.
    pub(crate) has_queried: bool,
    /// LOCK TABLE was run before there was a snapshot.
    pub(crate) locked: bool,
    /// It has changed tables or locked them: no other session may look at them.
    pub(crate) ran_ddl: bool,
    /// So had it before the schema change that is under way.
    pub(crate) ran_ddl_before: bool,
    /// The table that CREATE TABLE AS has made is being filled.
    pub(crate) fills_table: bool,
    /// Its snapshot on the home node, for the session beside it.
    pub(crate) exported: Option<String>,
    /// The first node that was touched: the transaction's `now()` is that node's.
    pub(crate) clock: Option<NodeId>,
}

#[derive(Clone, Debug)]
pub(crate) enum Replay {
    Savepoint(String, Settings),
    /// A command, and whether it is about the transaction itself.
    Set(String, bool),
    /// A setting that no node is told of, and its value from here on.
    Own(&'static str, Option<String>),
    /// LISTEN or UNLISTEN, which counts from the commit on.
    Listen(Change),
}

/// See the module's page.
pub struct Session {
    pub(crate) context: Arc<Context>,
    pub(crate) identity: Identity,
    pub(crate) home: NodeId,
    pub(crate) leased: BTreeMap<NodeId, LeasedConnection>,
    pub(crate) block: Option<Block>,
    pub(crate) settings: Settings,
    pub(crate) cancel: Arc<CancelSet>,
    /// Where the gtm finds it.
    _entry: Entry,
    /// State lives in these nodes' backends: keep them until the session ends.
    pub(crate) pinned: std::collections::BTreeSet<NodeId>,
    /// See [`crate::backend::sequence_values`].
    pub(crate) drawn: Option<Arc<Drawn>>,
    /// Earlier ones were.
    pub(crate) drawn_were_lost: bool,
    /// While it holds connections.
    pub(crate) ticket: Option<Ticket>,
    /// Counts what is put aside.
    pub(crate) suspended_transactions: Arc<()>,
    /// Sessions whose snapshots are those of the open block, until they are needed.
    pub(crate) readers: Option<Box<SuspendedTransaction>>,
    /// NoticeResponses for the client that came beside the answers.
    pub(crate) notices: Vec<Frame>,
    /// Those that tell of triggers for the coordinator to run, and where they come from.
    pub(crate) trigger_events: Vec<(NodeId, Frame)>,
    /// A number of this session's own, to spread work over nodes.
    pub(crate) number: usize,
    /// Version of the catalog that the present statement was planned with.
    pub(crate) catalog_version: u64,
    /// What the present statement's plan was made from.
    pub(crate) validity: Option<Arc<PlanValidity>>,
    /// See [`Session::must_replan`].
    pub(crate) must_replan: bool,
    /// See [`Session::gathers`].
    pub(crate) gathers: bool,
    /// Where reads might go back in time.
    pub(crate) sight: CausalityTracker,
    /// `default_transaction_isolation` of the home node's backends.
    pub(crate) server_isolation: Isolation,
    /// An earlier SERIALIZABLE transaction had to leave its datanode: see [`serializable`](crate::transaction::serializable).
    pub(crate) goes_wide: bool,
    /// `statement_timeout` of the home node's backends.
    pub(crate) server_timeout: Option<std::time::Duration>,
    /// The catalog that the present statement was planned with has constraints or triggers that are INITIALLY DEFERRED.
    pub(crate) catalog_defers: bool,
    /// By that catalog, some roles may make no temp tables.
    pub(crate) withholds_temp: bool,
    /// What the query that runs reads with others' rights.
    pub(crate) lending: Option<Lending>,
    /// Whether this one may, under a version of the catalog and these settings.
    pub(crate) makes_temp: Option<((u64, u64), bool)>,
    /// Where gathered rows go: the home node, or [`BESIDE`] it.
    pub(crate) sink: NodeId,
    /// Names in `pg_temp`, if known.
    pub(crate) temp_relations: Option<Arc<TempNames>>,
    /// The open transaction's own search path under this version of the catalog: see the page of `search_path`.
    pub(crate) search_path: Option<(u64, Path)>,
    /// Whether texts are exact under these settings: see the page of `fixed_text`.
    pub(crate) plain_text: Option<(u64, bool)>,
    /// See [`Session::login`].
    pub(crate) login: Option<Arc<Login>>,
    pub(crate) scratch: crate::plan_cache::by_shape::Scratch,
    /// The present statement's shape, if it is to be learned.
    pub(crate) lesson: Option<crate::plan_cache::by_shape::Lesson>,
    /// What the present statement may leave in the backends that run it.
    pub(crate) leaves: Leavings,
    /// Executions that wait for more of their kind.
    pub(crate) pipeline: Option<crate::dml::insert_pipeline::InsertPipeline>,
    pub(crate) listening: Option<Listening>,
    /// The transaction, or the last statement, has notified.
    pub(crate) notified: bool,
}

impl Session {
    /// A session of `identity` with no connection yet.
    pub fn new(context: Arc<Context>, identity: Identity, settings: Settings) -> Self {
        let number = context.next_session_number();
        let home = context.home();
        let sight = CausalityTracker::new(context.nodes().len());
        let cancel = Arc::new(CancelSet::new(home));
        let _entry = context.sessions().enter(number as u64, &cancel);
        Self {
            home,
            context,
            identity,
            leased: BTreeMap::new(),
            block: None,
            settings,
            cancel,
            _entry,
            pinned: Default::default(),
            drawn: None,
            drawn_were_lost: false,
            ticket: None,
            suspended_transactions: Arc::default(),
            readers: None,
            notices: Vec::new(),
            trigger_events: Vec::new(),
            number,
            catalog_version: 0,
            validity: None,
            must_replan: false,
            gathers: false,
            sight,
            server_isolation: Isolation::default(),
            goes_wide: false,
            server_timeout: None,
            catalog_defers: false,
            withholds_temp: false,
            lending: None,
            makes_temp: None,
            sink: home,
            temp_relations: None,
            search_path: None,
            plain_text: None,
            login: None,
            scratch: Default::default(),
            lesson: None,
            leaves: Leavings::default(),
            pipeline: None,
            listening: None,
            notified: false,
        }
    }

    /// What is in `pg_temp` is asked again; once more when the block ends or goes back, since that may undo it.
    pub(crate) fn names_changed(&mut self) {
        self.temp_relations = None;
        if let Some(block) = &mut self.block {
            block.names_changed = true;
        }
    }

    /// After a block has ended or gone back to a savepoint.
    pub(crate) fn names_restored(&mut self) {
        self.search_path = None;
        if self.block.as_ref().is_some_and(|block| block.names_changed) {
            self.temp_relations = None;
        }
    }

    /// Queues a NOTICE or WARNING for the client.
    pub fn notice(&mut self, notice: &PgError) {
        let mut body = bytes::BytesMut::new();
        notice.encode_body(&mut body);
        self.notices.push(Frame { tag: tag::NOTICE, body: body.freeze() });
    }

    /// Notices that came since the last call, in order.
    pub fn take_notices(&mut self) -> Vec<Frame> {
        self.collect_notices();
        std::mem::take(&mut self.notices)
    }

    pub(crate) fn collect_notices(&mut self) {
        let nodes: Vec<NodeId> = self.leased.keys().copied().collect();
        for node in nodes {
            let frames = self.leased.get_mut(&node).map(|leased| leased.link.connection.take_notices());
            self.keep_notices(node, frames.unwrap_or_default());
        }
    }

    /// The shared part.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Version of the catalog that the last statement was planned with.
    pub fn catalog_version(&self) -> u64 {
        self.catalog_version
    }

    /// Who the session acts for.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    pub(crate) fn is_pinned(&self, node: NodeId) -> bool {
        self.pinned.contains(&node)
    }

    /// The handle a cancel request uses.
    pub fn cancel_set(&self) -> Arc<CancelSet> {
        self.cancel.clone()
    }

    /// The error that ends the present statement, if it is to end.
    pub fn check_cancel(&self) -> Result<()> {
        self.cancel.interrupt().check()
    }

    /// The home node: system catalogs, sequences, temp tables, final fragments.
    pub fn home(&self) -> NodeId {
        self.home
    }

    /// `I`, `T` or `E`.
    pub fn status(&self) -> u8 {
        match &self.block {
            None => b'I',
            Some(block) if block.failed => b'E',
            Some(_) => b'T',
        }
    }

    /// Is a transaction block open, failed or not?
    pub fn in_block(&self) -> bool {
        self.block.is_some()
    }

    /// The mode a plain statement runs in.
    pub fn mode(&self) -> Mode {
        if self.block.is_some() { Mode::InBlock } else { Mode::Autocommit }
    }

    /// Marks the block as failed; no effect outside one.
    pub fn fail(&mut self) {
        if let Some(block) = &mut self.block {
            block.failed = true;
        }
    }

    /// Keeps the link of `node` for the rest of the session.
    pub fn pin(&mut self, node: NodeId) {
        self.pinned.insert(node);
    }

    /// Lets go of all links that were kept for state in their backends; the backends end with their state.
    pub(crate) fn unpin_all(&mut self) {
        for node in std::mem::take(&mut self.pinned) {
            self.leased.remove(&node);
            // The connection is closed, so it does not matter whether a breaker is at work.
            let _ = self.cancel.remove(node);
        }
        self.names_changed();
        self.release();
    }

    /// The session's settings.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The settings that new links get.
    pub fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }

    /// The node whose `now()` the open block uses.
    pub(crate) fn clock(&self) -> Option<NodeId> {
        self.block.as_ref().and_then(|block| block.clock)
    }

    /// Does the session see what any other of its user, settings and search path sees? Not with temp tables, nor in a block
    /// that has changed the schema or settings.
    pub fn is_ordinary(&self) -> bool {
        let no_temp = !self.is_pinned(self.home)
            || self.temp_relations.as_ref().is_some_and(|temporary| temporary.all.is_empty());
        let unchanged = |block: &Block| !block.schema_changed && !block.has_settings();
        no_temp && self.block.as_ref().is_none_or(unchanged)
    }

    /// Opens a transaction of its own in a second session on the home node, with the block's settings, and lets gathered rows
    /// go there.
    pub(crate) async fn open_beside(&mut self, begin: &str) -> Result<()> {
        self.acquire(BESIDE, Mode::Autocommit).await?;
        let made = self.block.as_ref().map(Block::settings_made).unwrap_or_default();
        let begin = made.iter().fold(begin.to_owned(), |sql, command| format!("{sql}; {command}"));
        let leased = self.link(BESIDE)?;
        leased.begun = true;
        leased.link.connection.query(begin.as_bytes());
        leased.flush().await?;
        leased.finish().await?;
        self.cancel.set_in_transaction(BESIDE, true);
        self.sink = BESIDE;
        let lent = self.lend_on(&[BESIDE]).await;
        if lent.is_err() {
            self.close_beside().await;
        }
        lent
    }

    /// Undoes [`Session::open_beside`]; a link that cannot be rolled back is thrown away, which has the same effect.
    pub(crate) async fn close_beside(&mut self) {
        self.sink = self.home;
        if let Some(mut leased) = self.leased.remove(&BESIDE)
            && leased.link.connection.is_settled()
            && (!leased.begun || leased.link.connection.execute("ROLLBACK").await.is_ok())
        {
            self.give_back(BESIDE, leased);
        }
        let _ = self.cancel.remove(BESIDE);
    }

    /// PostgreSQL's error for modes that a transaction can have only before its first query. The nodes say the same, but may not have
    /// seen that query: it may have run on links beside the block's own.
    pub fn check_modes(&self, read_only: Option<bool>, isolation: Option<&str>, deferrable: bool) -> Result<()> {
        let Some(block) = self.block.as_ref().filter(|block| block.has_queried) else { return Ok(()) };
        let too_late = |message: &str| Err(PgError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        if isolation.is_some_and(|level| Isolation::named(level) != block.isolation) {
            return too_late("SET TRANSACTION ISOLATION LEVEL must be called before any query");
        }
        if read_only == Some(false) && block.read_only && !self.has_savepoints() {
            return too_late("transaction read-write mode must be set before any query");
        }
        if deferrable {
            return too_late("SET TRANSACTION [NOT] DEFERRABLE must be called before any query");
        }
        Ok(())
    }

    /// Is the block READ ONLY?
    pub fn is_read_only(&self) -> bool {
        self.block.as_ref().is_some_and(|block| block.read_only)
    }

    /// `SET TRANSACTION READ ONLY | READ WRITE` inside the block.
    pub fn set_read_only(&mut self, read_only: bool) {
        if let Some(block) = &mut self.block {
            block.read_only = read_only;
        }
    }

    pub(crate) fn has_savepoints(&self) -> bool {
        let steps = self.block.iter().flat_map(|block| &block.replay);
        steps.into_iter().any(|step| matches!(step, Replay::Savepoint(..)))
    }

    /// After a statement that may have made a temp table on the home node: its backend stays with the session.
    pub fn keep_temp_objects(&mut self) {
        let home = self.home;
        self.pin(home);
        if let Some(leased) = self.leased.get_mut(&home) {
            leased.temp = leased.begun;
        }
        self.names_changed();
    }

    /// A link held by [`Session::acquire`].
    pub(crate) fn link(&mut self, node: NodeId) -> Result<&mut LeasedConnection> {
        self.leased.get_mut(&node).ok_or_else(|| PgError::internal(format!("no link to node {} is held", node.0)))
    }

    /// Gives back what the session need not keep. To be called after each statement and after each block.
    pub fn release(&mut self) {
        self.statement_finished();
        let keep = self.block.is_some();
        let nodes: Vec<NodeId> = self.leased.keys().copied().collect();
        for node in nodes {
            let leased = &self.leased[&node];
            let broken = leased.link.connection.is_broken() || !leased.link.connection.is_settled();
            let is_asked = leased.left.is_nothing();
            if !broken && (keep || self.pinned.contains(&node) || !is_asked) {
                continue;
            }
            if broken {
                self.pinned.remove(&node);
                if let Some(block) = self.block.as_mut().filter(|_| leased.begun) {
                    block.is_torn = true;
                }
            }
            if let Some(mut leased) = self.leased.remove(&node) {
                self.keep_notices(node, leased.link.connection.take_notices());
                self.give_back(node, leased);
            }
        }
        self.leave_if_empty();
    }

    /// Gives a link back that no transaction is open on.
    pub(crate) fn let_go(&mut self, node: NodeId) {
        if let Some(leased) = self.leased.remove(&node) {
            self.give_back(node, leased);
        }
    }

    /// To the pool, unless a cancel may be under way to the backend, or nobody knows what is left in it.
    pub(crate) fn give_back(&self, node: NodeId, leased: LeasedConnection) {
        if self.cancel.remove(node) && leased.left.is_nothing() {
            self.context.pool.give_back(leased.link);
        }
    }

    /// Runs a statement that has no rows on each node, all at once; the first error wins. Used for SAVEPOINT and the like.
    pub(crate) async fn broadcast(&mut self, nodes: &[NodeId], sql: &str) -> Result<()> {
        for node in nodes {
            let leased = self.link(*node)?;
            leased.link.connection.query(sql.as_bytes());
        }
        let work = self.leased.iter_mut().filter(|(node, _)| nodes.contains(node)).map(|(_, leased)| async {
            leased.link.connection.flush().await?;
            leased.skip_preamble().await?;
            leased.link.connection.read_rows().await
        });
        let results = futures_util::future::join_all(work).await;
        results.into_iter().find_map(Result::err).map_or(Ok(()), Err)
    }

    pub(crate) fn begun(&self) -> Vec<NodeId> {
        self.leased.iter().filter(|(_, leased)| leased.begun).map(|(node, _)| *node).collect()
    }
}

/// Takes these links out of a map, in this order.
pub(crate) fn take_links(
    leased: &mut BTreeMap<NodeId, LeasedConnection>,
    nodes: &[NodeId],
) -> Result<Vec<(NodeId, LeasedConnection)>> {
    let lost = || PgError::internal("a link that a statement needs is not held");
    nodes.iter().map(|node| Ok((*node, leased.remove(node).ok_or_else(lost)?))).collect()
}
