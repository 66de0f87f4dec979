//! The datanode side of a client session: which connections it holds, and the transaction that ties them together.
//!
//! * Here: its parts; [`acquire`]: a link made ready for a statement; [`ask`]: short questions and commands to nodes.
//! * [`statement`]: the present statement's plan and its end; [`describe`]: what PostgreSQL says of one; [`leftovers`]: what
//!   statements leave in backends; [`pipeline`], [`lending`]: what waits or is lent meanwhile.
//! * [`slow`]: slow statements in the log.
//! * [`set`], [`own_settings`], [`encoding`]: settings; [`search_path`], [`temp_names`]: what names mean; [`listen`]: notifications.
//!
//! Outside a transaction block a link is held for one statement. Inside one it is held, with a transaction open on it,
//! until the end; a node that joins late gets the block's `BEGIN`, its `SET LOCAL`s and its savepoints replayed. A link
//! that carries session state PostgreSQL keeps in the backend (temp tables, cursors WITH HOLD) is *pinned* until the session ends;
//! of the values of sequences see [`crate::backend::pool::sequence_values`].
//!
//! Invariants: at most one link a node; a link whose answers were not read to the end never goes back to the pool; when
//! the block has failed nothing but its end (or `ROLLBACK TO`) is sent.

pub(crate) mod acquire;
pub(crate) mod ask;
pub(crate) mod describe;
pub(crate) mod encoding;
pub(crate) mod leftovers;
pub(crate) mod lending;
pub(crate) mod listen;
pub(crate) mod own_settings;
pub(crate) mod pipeline;
pub(crate) mod search_path;
pub(crate) mod set;
pub(crate) mod slow;
pub(crate) mod statement;
pub(crate) mod temp_names;

use std::collections::BTreeSet;
use std::sync::Arc;

use catalog::{Leavings, NodeId, Oid};
use pgerror::{PgError, Result, SqlState};
use pgproto::Frame;
use pgproto::backend::tag;

use crate::backend::cancel::CancelSet;
use crate::backend::isolation::Isolation;
use crate::backend::links::Links;
use crate::backend::pool::{Identity, Link};
use crate::backend::settings::Settings;
use crate::backend::slot::Slot;
use crate::block::causality::CausalityTracker;
use crate::block::suspended::SuspendedTransaction;
use crate::block::table_locks::LockedCopies;
use crate::block::{Block, Mode, Replay};
use crate::session::lending::Lending;
use crate::session::listen::Listening;
use crate::session::temp_names::TempNames;
use crate::shared::context::Context;
use crate::shared::plan_validity::PlanValidity;
use crate::shared::search_paths::Path;

/// See the module's page.
pub struct Session {
    pub(crate) context: Arc<Context>,
    pub(crate) home: NodeId,
    pub(crate) links: Links,
    pub(crate) block: Option<Block>,
    /// The lock of an open block that changes what all databases share: page `ddl::shared_objects`.
    pub(crate) shared_objects: Option<Box<Link>>,
    /// Sessions whose snapshots are those of the open block, until they are needed.
    pub(crate) readers: Option<Box<SuspendedTransaction>>,
    /// NoticeResponses for the client that came beside the answers.
    pub(crate) notices: Vec<Frame>,
    /// Those that tell of triggers for the coordinator to run, and where they come from.
    pub(crate) trigger_events: Vec<(NodeId, Frame)>,
    /// Version of the catalog that the present statement was planned with.
    pub(crate) catalog_version: u64,
    /// Version of the catalog's schema, by which datanodes' prepared statements and descriptions are kept.
    pub(crate) schema_version: u64,
    /// What the present statement's plan was made from.
    pub(crate) validity: Option<Arc<PlanValidity>>,
    /// See [`Session::must_replan`].
    pub(crate) must_replan: bool,
    /// The plan before did not hold to the end.
    pub(crate) was_overtaken: bool,
    /// See [`Session::gathers`].
    pub(crate) gathers: bool,
    /// Where reads might go back in time.
    pub(crate) causality: CausalityTracker,
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
    pub(crate) judged_domains: JudgedDomains,
    /// Where gathered rows go: the home node, or beside it.
    pub(crate) sink: Slot,
    /// Names in `pg_temp`, if known.
    pub(crate) temp_relations: Option<Arc<TempNames>>,
    /// The open transaction's own search path under this version of the catalog: see the page of `search_path`.
    pub(crate) search_path: Option<(u64, Path)>,
    /// Whether texts are exact under these settings: see the page of `fixed_text`.
    pub(crate) plain_text: Option<(u64, bool)>,
    pub(crate) scratch: crate::shared::templates::Scratch,
    /// What the client is to be told of its settings.
    pub(crate) reported: crate::backend::settings::Reported,
    /// What the present statement of the client's has come to.
    pub(crate) spent: crate::backend::statement_figures::Spent,
    /// The present statement's shape, or those of its kinds of rows, if they are to be learned.
    pub(crate) lessons: Vec<crate::shared::templates::Lesson>,
    /// What PostgreSQL has said of the last statement that it analysed holds for all sessions that ask the same.
    pub(crate) analysis_is_common: bool,
    /// Where the present statement stands.
    pub(crate) scope: crate::backend::settings::Scope,
    /// A body has set `statement_timeout`, and the nodes do not know yet.
    pub(crate) timeout_is_late: bool,
    /// What the present statement may leave in the backends that run it.
    pub(crate) leaves: Leavings,
    /// What the present statement is to lock before rows.
    pub(crate) copies_to_lock: LockedCopies,
    /// Executions that wait for more of their kind.
    pub(crate) pipeline: Option<crate::session::pipeline::InsertPipeline>,
    pub(crate) listening: Option<Listening>,
    /// The transaction, or the last statement, has notified.
    pub(crate) notified: bool,
}

/// What nodes have said of domains and types to a session.
#[derive(Default)]
pub(crate) struct JudgedDomains {
    /// The catalog's version, and the settings, under which it was asked.
    pub(crate) of: (u64, u64),
    /// All domains that call functions may be trusted.
    pub(crate) trusts: Option<bool>,
    /// Types that lead to none that may not, by the numbers they have there.
    pub(crate) harmless: BTreeSet<(NodeId, Oid)>,
}

impl Session {
    /// A session of `identity` with no connection yet.
    pub fn new(context: Arc<Context>, identity: Identity, settings: Settings) -> Self {
        let home = context.home();
        let causality = CausalityTracker::default();
        Self {
            home,
            links: Links::new(context.cluster().clone(), identity, settings),
            context,
            block: None,
            shared_objects: None,
            readers: None,
            notices: Vec::new(),
            trigger_events: Vec::new(),
            catalog_version: 0,
            schema_version: 0,
            validity: None,
            must_replan: false,
            was_overtaken: false,
            gathers: false,
            causality,
            server_isolation: Isolation::default(),
            goes_wide: false,
            server_timeout: None,
            catalog_defers: false,
            withholds_temp: false,
            lending: None,
            makes_temp: None,
            judged_domains: JudgedDomains::default(),
            sink: home.into(),
            temp_relations: None,
            search_path: None,
            plain_text: None,
            scratch: Default::default(),
            reported: Default::default(),
            spent: Default::default(),
            lessons: Vec::new(),
            analysis_is_common: false,
            scope: Default::default(),
            timeout_is_late: false,
            leaves: Leavings::default(),
            copies_to_lock: LockedCopies::default(),
            pipeline: None,
            listening: None,
            notified: false,
        }
    }

    /// What is in `pg_temp` is asked again; once more when the block ends or goes back, since that may undo it.
    pub(crate) fn names_changed(&mut self) {
        self.names_shown_otherwise();
        self.forget_prepared_over_temp();
        if let Some(block) = &mut self.block {
            block.temp_changed = true;
        }
    }

    /// The search path alone has changed: it is part of what prepared statements are known by.
    pub(crate) fn names_shown_otherwise(&mut self) {
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
        if self.block.as_ref().is_some_and(|block| block.temp_changed) {
            self.forget_prepared_over_temp();
        }
    }

    fn forget_prepared_over_temp(&mut self) {
        if self.links.is_pinned(self.home)
            && let Some(leased) = self.links.get_mut(self.home)
        {
            leased.link.statements.temp_names_changed();
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
        let notices: Vec<(NodeId, Vec<Frame>)> =
            self.links.iter_mut().map(|(slot, leased)| (slot.node(), leased.link.connection.take_notices())).collect();
        notices.into_iter().for_each(|(node, frames)| self.keep_notices(node, frames));
    }

    /// The shared part.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Version of the catalog that the last statement was planned with.
    pub fn catalog_version(&self) -> u64 {
        self.catalog_version
    }

    /// Version of its schema.
    pub fn schema_version(&self) -> u64 {
        self.schema_version
    }

    /// That of the database in the cluster; empty in the first one. Another one for one that is made again.
    pub fn database_id(&self) -> &str {
        &self.context.database_id
    }

    /// The user for whom the session acts.
    pub fn identity(&self) -> &Identity {
        self.links.identity()
    }

    /// The handle a cancel request uses.
    pub fn cancel_set(&self) -> Arc<CancelSet> {
        self.links.cancel().clone()
    }

    /// What the session tells others of itself.
    pub fn activity(&self) -> &crate::backend::activity::Activity {
        self.links.cancel().activity()
    }

    /// The error that ends the present statement, if it is to end.
    pub fn check_cancel(&self) -> Result<()> {
        self.links.cancel().interrupt().check()
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

    /// A statement has failed: so has the block, if one is open, and the read barriers that nobody has answered.
    pub fn fail(&mut self) {
        self.causality.failed();
        self.links.read_barriers_failed();
        if let Some(block) = &mut self.block {
            block.failed = true;
        }
    }

    /// Keeps the link of `node` for the rest of the session.
    pub fn pin(&mut self, node: NodeId) {
        self.links.pin(node);
    }

    /// Lets go of all links that were kept for state in their backends; the backends end with their state.
    pub(crate) fn unpin_all(&mut self) {
        self.links.unpin_all();
        self.names_changed();
        self.release();
    }

    /// The session's settings.
    pub(crate) fn settings(&self) -> &Settings {
        self.links.settings()
    }

    /// The settings that new links get.
    pub fn settings_mut(&mut self) -> &mut Settings {
        self.links.settings_mut()
    }

    /// The node whose `now()` the open block uses.
    pub(crate) fn clock(&self) -> Option<NodeId> {
        self.block.as_ref().and_then(|block| block.clock)
    }

    /// Does the session see what any other of its user, settings and search path sees? Not with temp tables, nor in a block
    /// that has changed the schema or settings.
    pub fn is_ordinary(&self) -> bool {
        let no_temp = !self.links.is_pinned(self.home)
            || self.temp_relations.as_ref().is_some_and(|temporary| temporary.is_empty());
        let unchanged = |block: &Block| !block.schema_changed && !block.has_settings();
        no_temp && self.block.as_ref().is_none_or(unchanged)
    }

    /// The session beside the home node.
    pub(crate) fn beside_home(&self) -> Slot {
        Slot::beside(self.home)
    }

    /// The one that keeps the rows of a READ ONLY block's cursors.
    pub(crate) fn cursor_holder(&self) -> Slot {
        Slot::cursor_holder(self.home)
    }

    /// Opens a transaction of its own in a second session on the home node, with the block's settings, and lets gathered rows
    /// go there.
    pub(crate) async fn open_beside(&mut self, begin: &str) -> Result<()> {
        let beside = self.beside_home();
        self.acquire(beside, Mode::Autocommit).await?;
        let made = self.block.as_ref().map(Block::settings_made).unwrap_or_default();
        let begin = made.iter().fold(begin.to_owned(), |sql, command| format!("{sql}; {command}"));
        let leased = self.links.link(beside)?;
        leased.begun = true;
        leased.link.connection.query(begin.as_bytes());
        leased.flush().await?;
        leased.finish().await?;
        self.links.cancel().set_in_transaction(beside, true);
        self.sink = beside;
        let lent = self.lend_on(&[beside]).await;
        if lent.is_err() {
            self.close_beside().await;
        }
        lent
    }

    /// Undoes [`Session::open_beside`].
    pub(crate) async fn close_beside(&mut self) {
        self.sink = self.home.into();
        self.collect_notices();
        self.links.end_one(self.beside_home()).await;
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
        self.links.pin(home);
        if let Some(leased) = self.links.get_mut(home) {
            leased.temp = leased.begun;
        }
        self.names_changed();
    }

    /// Gives back what the session need not keep. To be called after each statement and after each block.
    pub fn release(&mut self) {
        self.statement_finished();
        let (notices, is_torn) = self.links.release(self.block.is_some());
        if let Some(block) = &mut self.block {
            block.is_torn |= is_torn;
        }
        notices.into_iter().for_each(|(slot, frames)| self.keep_notices(slot.node(), frames));
    }
}
