//! A link while a session holds it, and what goes to its node ahead of a statement.
//!
//! A node that joins a block is sent BEGIN first, and one that may know less than the session has seen must pass a read barrier. Both are
//! *own* statements, which every backend has prepared from the start, so they cost no parsing; they travel with the statement
//! in one write. In front of a statement of the extended protocol they have no Sync of their own either, so that the node answers
//! all of it at once: with short statements, what a node does for one more answer is a good part of all its work. BEGIN never has one:
//! a request to cancel may hit it, and what follows would be a transaction by itself.
//!
//! ```text
//!  extended    BEGIN  barrier  Bind Execute Sync                        one answer
//!  others      barrier Sync  BEGIN  Query                               two
//!  with modes  barrier Sync  BEGIN  Query of SET TRANSACTION …  Query   three
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use catalog::Leavings;
use futures_util::future::BoxFuture;
use pgerror::{PgError, Result, SqlState};
use pgproto::backend::tag;
use pgproto::connection::unexpected;
use pgproto::frontend;

use crate::backend::cancel::CancelSet;
use crate::backend::own_statements::Own;
use crate::backend::pool::cluster::Cluster;
use crate::backend::pool::{Link, StatementKey};
use crate::backend::type_ids::AnswerIds;

/// The transaction's id here, if it has something to commit. Deferred constraints run first: they may wait for rows of others, and
/// a transaction that is prepared somewhere must not wait for anyone.
const WROTE: &[u8] = b"SET CONSTRAINTS ALL IMMEDIATE; SELECT pg_catalog.pg_current_xact_id_if_assigned()";

/// [`WROTE`] for a node that has to pass a read barrier first.
const READ_BARRIER_AND_WROTE: &[u8] =
    b"SET CONSTRAINTS ALL IMMEDIATE; SELECT pg_catalog.pg_current_xact_id_if_assigned(), \
    (SELECT loxo.read_barrier() FROM pg_catalog.pg_prepared_xact() LIMIT 1)";

/// What lets a statement commit by itself.
#[derive(Clone)]
pub(crate) struct Gating {
    /// Cancel set of the session that waits at the gate.
    pub(crate) cancel: Arc<CancelSet>,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) condition: Option<Arc<dyn Condition>>,
}

/// What has to hold when a statement has run and is about to commit.
pub(crate) trait Condition: Send + Sync {
    /// # Errors
    /// If it does not hold.
    fn holds<'a>(&'a self, cancel: &'a CancelSet) -> BoxFuture<'a, Result<()>>;

    /// Is that plain without a wait?
    fn holds_plainly(&self) -> bool;
}

/// A link while the session holds it.
pub(crate) struct LeasedConnection {
    pub(crate) link: Box<Link>,
    /// A transaction is open on it.
    pub(crate) begun: bool,
    /// The settings of the block that it surely has, if it is the holder of cursors: see [`Session::settings_now`](crate::session::Session).
    pub(crate) settled: Option<u64>,
    /// How many the session leased before.
    pub(crate) earlier: u64,
    /// What was queued before the statement, and is to be read first. While a BEGIN is the last of it, a Sync is counted as owed.
    preamble: VecDeque<Ahead>,
    /// A read barrier is under way: with it the doubts about the node that are over once its answer is there.
    read_barrier: Option<u64>,
    /// Since then.
    read_barrier_since: Option<Instant>,
    /// How long nodes took to answer such since this was asked last.
    read_barrier_waits: Duration,
    /// One was not passed, and the session does not know of it yet.
    lost_read_barrier: bool,
    /// Statements of this transaction have not waited at a read barrier: COMMIT has to.
    pub(crate) owes_read_barrier: bool,
    /// Own statements whose answers come before that of the statement, without a ReadyForQuery.
    pub(crate) own_answers: u32,
    /// [`WROTE`] is queued or sent, its answer not read yet.
    pub(crate) asked_whether_wrote: bool,
    /// The backend has temp tables of this transaction: it cannot be PREPAREd.
    pub(crate) temp: bool,
    /// Temp tables of ours, that the user knows nothing of, are or were among them.
    pub(crate) gathered: bool,
    /// See [`Session::withholds_temp`](crate::session::Session::withholds_temp).
    pub(crate) withholds_temp: bool,
    /// What the statements since the backend was asked last may have left there: see the page of `left`.
    pub(crate) left: Leavings,
    /// Some of it may be settings that the other nodes of the block have not heard of.
    pub(crate) asks_settings: bool,
    /// None of it is to be the session's: PostgreSQL would have taken it back.
    pub(crate) forgets_settings: bool,
    /// Parses whose success is not known yet, in order; `None`: of a statement that is not kept.
    pub(crate) parsing: VecDeque<Option<StatementKey>>,
    /// Portals whose statements are kept, by their names, and the names of these.
    pub(crate) portal_statements: Vec<(Bytes, Bytes)>,
    /// The block has made settings, by which PostgreSQL may read constants and names: statements prepared before mean something else,
    /// and what is prepared now does after the block.
    pub(crate) has_settings_of_block: bool,
    /// The error of the answer being read.
    pub(crate) failure: Option<PgError>,
    /// Ids of types in the rows of the answer being read, if they are to be looked at.
    pub(crate) ids: Option<Box<AnswerIds>>,
    /// CopyData is on its way from the node.
    pub(crate) copying_out: bool,
    /// Sync, which commits the statement, waits for the gate.
    pub(crate) gate: Option<Gating>,
    /// Held from before Sync until its answer.
    pub(crate) pass: Option<txn::Pass>,
    /// Sync of a statement that commits by itself was sent: until its answer is there nobody knows whether it did.
    pub(crate) committing: bool,
    /// The log's, of what the node has been given to do, until it is done.
    pub(crate) span: tracing::Span,
}

/// What gives a backend a session's settings.
pub(crate) struct Replay {
    pub(crate) commands: String,
    /// How they are known then.
    pub(crate) settings: u64,
    /// Another session may have left something there, which is gone then.
    pub(crate) is_foreign: bool,
    /// What is planned now means the same to other sessions, as far as the backend says how it reads.
    pub(crate) keeps_plans: bool,
}

/// Something that was queued before a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ahead {
    /// [`Own::Begin`], without a Sync.
    Begin,
    /// Up to a ReadyForQuery.
    Answer,
}

impl LeasedConnection {
    pub(crate) async fn replay(&mut self, replay: &Replay) -> Result<()> {
        let link = &mut *self.link;
        let earlier = link.connection.take_notices();
        link.connection.execute(&replay.commands).await?;
        if link.reads_otherwise() || (link.has_others_plans && !replay.keeps_plans) {
            link.connection.execute("DISCARD PLANS").await?;
            (link.planned_at, link.has_others_plans) = (link.connection.readings(), false);
        }
        if !replay.keeps_plans {
            link.planned_at = u64::MAX;
        }
        // What these commands say is no news of a statement.
        link.connection.take_notices();
        link.connection.put_back_notices(earlier);
        self.link.applied_settings = replay.settings;
        if replay.is_foreign {
            self.link.left_by = None;
        }
        Ok(())
    }

    pub(crate) fn new(link: Box<Link>) -> Self {
        Self {
            link,
            begun: false,
            settled: None,
            preamble: VecDeque::new(),
            read_barrier: None,
            read_barrier_since: None,
            read_barrier_waits: Duration::ZERO,
            lost_read_barrier: false,
            own_answers: 0,
            owes_read_barrier: false,
            asked_whether_wrote: false,
            temp: false,
            gathered: false,
            withholds_temp: false,
            left: Leavings::default(),
            asks_settings: false,
            forgets_settings: false,
            parsing: VecDeque::new(),
            portal_statements: Vec::new(),
            has_settings_of_block: false,
            failure: None,
            ids: None,
            earlier: 0,
            copying_out: false,
            gate: None,
            pass: None,
            committing: false,
            span: tracing::Span::none(),
        }
    }

    /// Queues own statements ahead of the next one, which is to be one of the extended protocol, in one answer with it.
    pub(crate) fn queue_merged(&mut self, own: &[Own]) {
        own.iter().for_each(|own| own.queue(&mut self.link.connection));
        self.own_answers += own.len() as u32;
    }

    /// Queues an own statement ahead of the next one, in a transaction of its own if there is none.
    pub(crate) fn queue_apart(&mut self, own: Own) {
        own.queue(&mut self.link.connection);
        self.queue_sync();
    }

    /// A read barrier is about to be queued.
    pub(crate) fn passes_read_barrier(&mut self, doubt: u64) {
        self.read_barrier = Some(doubt);
        self.read_barrier_since = Some(Instant::now());
    }

    /// The node has waited for what it had prepared.
    pub(crate) fn read_barrier_answered(&mut self) {
        self.read_barrier_waits += self.read_barrier_since.take().map_or(Duration::ZERO, |since| since.elapsed());
    }

    /// How long that took since this was asked last.
    pub(crate) fn take_read_barrier_waits(&mut self) -> Duration {
        std::mem::take(&mut self.read_barrier_waits)
    }

    /// Doubts about the node that are over, once what is under way has ended well.
    pub(crate) fn read_barrier_at(&self) -> u64 {
        self.read_barrier.unwrap_or(self.link.read_barrier_at)
    }

    /// All that was sent was answered, without an error.
    pub(crate) fn read_barrier_passed(&mut self) {
        self.read_barrier_answered();
        if let Some(doubt) = self.read_barrier.take() {
            self.link.read_barrier_at = doubt;
            self.owes_read_barrier = false;
        }
    }

    /// It is not known whether the read barrier was passed.
    pub(crate) fn read_barrier_failed(&mut self) {
        self.read_barrier_answered();
        self.lost_read_barrier |= self.read_barrier.take().is_some();
    }

    /// Was one not passed since this was asked last?
    pub(crate) fn take_lost_read_barrier(&mut self) -> bool {
        if self.link.connection.is_broken() || !self.link.connection.is_drained() {
            self.read_barrier_failed();
        }
        std::mem::take(&mut self.lost_read_barrier)
    }

    /// Queues BEGIN ahead of the next statement. It has no Sync, so that the server drops what follows if it fails: that would be a
    /// transaction by itself.
    pub(crate) fn queue_begin(&mut self) {
        Own::Begin.queue(&mut self.link.connection);
        self.link.connection.owe_sync();
        self.preamble.push_back(Ahead::Begin);
    }

    fn queue_sync(&mut self) {
        match self.owes_sync() {
            true => frontend::sync(self.link.connection.out()),
            false => self.link.connection.sync(),
        }
        self.preamble.push_back(Ahead::Answer);
    }

    /// Queues what COMMIT wants to know of every node, unless that is done: behind a statement that COMMIT follows at once it
    /// needs no wait of its own.
    pub(crate) fn ask_whether_wrote(&mut self) {
        if !self.asked_whether_wrote {
            self.asked_whether_wrote = true;
            let owed = std::mem::take(&mut self.owes_read_barrier);
            self.link.connection.query(if owed { READ_BARRIER_AND_WROTE } else { WROTE });
        }
    }

    /// Queues a text ahead of the next statement.
    pub(crate) fn queue_query(&mut self, sql: &str) {
        self.link.connection.query(sql.as_bytes());
        if self.owes_sync() {
            self.link.connection.forgive_sync();
        }
        self.preamble.push_back(Ahead::Answer);
    }

    fn owes_sync(&self) -> bool {
        self.preamble.back() == Some(&Ahead::Begin)
    }

    /// Is a read barrier what comes first?
    pub(crate) fn waits_first(&self) -> bool {
        self.preamble.front() == Some(&Ahead::Answer)
    }

    /// Is anything queued before the statement, or not answered?
    pub(crate) fn has_preamble(&self) -> bool {
        !self.preamble.is_empty()
    }

    /// Nothing is to be answered any more: what was to be prepared then, and was not, is not there.
    pub(crate) fn forget_unanswered(&mut self) {
        self.own_answers = 0;
        for key in self.parsing.drain(..).flatten() {
            self.link.statements.remove(&key);
        }
    }

    /// A backend that has lost what was prepared there (DEALLOCATE in a function) is of no use to anyone any more.
    pub(crate) fn give_up_without_statements(&mut self, error: &PgError) {
        if error.code() == SqlState::INVALID_SQL_STATEMENT_NAME {
            self.link.connection.mark_broken();
        }
    }

    /// Reads the answers to what was queued before the statement. If BEGIN has failed, the server drops what follows, and the connection
    /// is of no more use; nor is it if the barrier ahead of BEGIN has. Cancel-safe.
    pub(crate) async fn skip_preamble(&mut self) -> Result<()> {
        let answers = self.preamble.iter().filter(|ahead| **ahead == Ahead::Answer).count();
        if self.owes_sync() && self.link.connection.syncs_owed() as usize == answers + 1 {
            // No statement follows.
            self.queue_sync();
            self.flush().await?;
        }
        while let Some(next) = self.preamble.front() {
            let frame = self.link.connection.recv().await?;
            match (frame.tag, next) {
                (tag::READY_FOR_QUERY, Ahead::Answer) => {
                    if self.own_answers == 0 {
                        self.read_barrier_passed();
                    }
                    self.preamble.pop_front();
                }
                (tag::COMMAND_COMPLETE, Ahead::Begin) => {
                    if self.owes_sync() {
                        self.link.connection.forgive_sync();
                    }
                    self.preamble.pop_front();
                }
                (tag::BIND_COMPLETE | tag::COMMAND_COMPLETE | tag::ROW_DESCRIPTION | tag::DATA_ROW, _) => {}
                (tag::ERROR, _) => {
                    self.read_barrier_failed();
                    let error = PgError::decode_body(frame.body);
                    if self.preamble.contains(&Ahead::Begin) {
                        // Nobody is to wait for an answer that does not come, nor for a statement that runs on behind its barrier. Of the block
                        // nothing has happened here: it goes on with another link.
                        self.begun = false;
                        self.link.connection.mark_broken();
                        self.link.connection.cancel_key().give_up();
                    } else if self.begun {
                        // What follows fails at once, as part of a transaction that has. ROLLBACK TO may be next.
                        self.preamble.clear();
                        let _ = self.link.connection.drain().await;
                        (self.asked_whether_wrote, self.copying_out) = (false, false);
                        (self.ids, self.failure) = (None, None);
                        self.forget_unanswered();
                    }
                    return Err(error);
                }
                (other, _) => return Err(unexpected(other, "the start of a transaction")),
            }
        }
        Ok(())
    }

    /// Reads all that is still to come. False: nothing more can be done on this connection.
    pub(crate) async fn drain(&mut self) -> bool {
        let _ = self.flush().await;
        // What has failed is known, or nobody asks any more: with each error there is less to read.
        while !self.link.connection.is_broken() && self.has_preamble() {
            let _ = self.skip_preamble().await;
        }
        // What was to be prepared, and perhaps was not, is not there.
        self.forget_unanswered();
        let connection = &mut self.link.connection;
        !connection.is_broken() && (connection.drain().await.is_ok() || !connection.is_broken())
    }
}
