//! What a body needs of the session that it runs in, and what the bodies under way share.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use executor::{Call, Completion, Session, Spool};
use pgerror::{PgError, Result, field};
use pgproto::Frame;
use pgproto::backend::tag;
use planner::parse::{DeclareCursor, Transaction};
use planner::{Explained, Plan, Statement, TransitionTable};
use routine::Pending;

use super::signature::Signature;
use super::types::KnownTypes;

/// Work that cannot fail.
pub(crate) type Work<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs statements in a session's transaction. All that runs bodies is written as methods of this.
pub(crate) type Runner = dyn StatementRunner;

/// See the page.
pub(crate) trait StatementRunner: Send {
    /// The executor's session: descriptions, savepoints, settings, temp tables.
    fn session(&mut self) -> &mut Session;
    /// What the bodies under way share.
    fn routines(&mut self) -> &mut Routines;
    /// From now on rows go into this spool, or to the client; gives where they went.
    fn rows_into(&mut self, spool: Option<Spool>) -> Option<Spool>;

    /// The statements of a text.
    fn parsed<'a>(&'a mut self, sql: &'a [u8]) -> Pending<'a, Arc<Vec<Statement>>>;
    /// Runs a statement as one of the client's own is run; the block fails with it.
    fn execute<'a>(
        &'a mut self,
        statement: &'a Statement,
        call: &'a Call,
        spool: Option<&'a mut Spool>,
    ) -> Pending<'a, Completion>;
    /// Runs a statement of a body; the block fails with it.
    fn execute_inside<'a>(&'a mut self, statement: &'a Statement, call: &'a Call) -> Pending<'a, Completion>;
    /// Runs what is left of a statement, which may need bodies or more steps itself.
    fn run_rest<'a>(
        &'a mut self,
        rest: &'a Statement,
        call: &'a Call,
        spool: Option<&'a mut Spool>,
    ) -> Pending<'a, Completion>;
    /// Runs a plan.
    fn run_plan<'a>(
        &'a mut self,
        plan: &'a Plan,
        statement: &'a Statement,
        call: &'a Call,
        spool: Option<&'a mut Spool>,
    ) -> Pending<'a, Completion>;
    /// Runs a text as it is on the home node and passes its rows on.
    fn forward_home<'a>(&'a mut self, sql: &'a str, call: &'a Call) -> Pending<'a, Completion>;
    /// Answers EXPLAIN ANALYZE of a statement that has been run.
    fn explain_run<'a>(
        &'a mut self,
        explained: &'a Explained,
        tag: String,
        took: Duration,
        call: &'a Call,
        spool: Option<&'a mut Spool>,
    ) -> Pending<'a, Completion>;

    /// Sees to what a statement has left; the block fails if the statement did.
    fn after_statement(&mut self, failed: bool) -> Work<'_, ()>;
    /// The error with its place in the user's text, if PostgreSQL would show one.
    fn placed<'a>(&'a mut self, sql: &'a str, error: PgError) -> Work<'a, PgError>;
    /// Sends the client the notices so far.
    fn send_notices(&mut self);

    /// COMMIT and the like.
    fn transaction<'a>(&'a mut self, transaction: &'a Transaction) -> Pending<'a, Completion>;
    /// Ends the transaction of a statement that was none of a block.
    fn end_autocommit(&mut self, outcome: Result<Completion>) -> Pending<'_, Completion>;
    /// DECLARE. Errors have their places in the query.
    fn declare_cursor<'a>(
        &'a mut self,
        declare: &'a DeclareCursor,
        statement: &'a Statement,
        call: &'a Call,
    ) -> Pending<'a, Completion>;
    /// A loop has come to this row of those that its last FETCH gave.
    fn cursor_stands_on(&mut self, cursor: &str, row: usize);
    /// After ROLLBACK TO: cursors that were made since the savepoint are gone.
    fn forget_lost_cursors(&mut self) -> Pending<'_, ()>;
}

/// What the bodies under way share.
#[derive(Default)]
pub(crate) struct Routines {
    pub(super) depth: usize,
    /// How many triggers are under way in each other.
    pub(super) trigger_depth: usize,
    /// Those that the innermost body knows: the one of a trigger's function.
    pub(super) transition_tables: Vec<TransitionTable>,
    /// Cursors that the innermost trigger with such tables has opened over them.
    pub(super) cursors_over: Vec<String>,
    /// Cursors that the present bodies have opened, whose values records may have.
    pub(super) cursors_for_records: Vec<String>,
    /// CONTEXT of the statement that is being run.
    pub(super) context: String,
    pub(super) types: KnownTypes,
    /// A body has given a value of an enum type another name.
    pub(super) values_renamed: bool,
    /// Cursors without a name so far.
    pub(super) portals: usize,
    /// The statement to be run is a CALL in a body that may end transactions.
    pub(super) call_may_end: bool,
    /// Calls are made for the rows of a statement.
    pub(super) rows: Option<Rows>,
}

impl Routines {
    /// How many are under way in each other.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// A notice of a statement in a body, told as PostgreSQL tells it there; `None` if the statement is in none.
    pub(crate) fn with_context(&self, frame: &Frame) -> Option<Frame> {
        if self.context.is_empty() || frame.tag != tag::NOTICE {
            return None;
        }
        let notice = PgError::decode_body(frame.body.clone());
        let context = match notice.get(field::WHERE) {
            Some(inner) => format!("{}\n{}", String::from_utf8_lossy(inner), self.context),
            None => self.context.clone(),
        };
        let mut body = BytesMut::new();
        notice.context(context).encode_body(&mut body);
        Some(Frame { tag: frame.tag, body: body.freeze() })
    }

    /// Is the call that is to be made one for a row?
    pub(super) fn of_rows(&mut self) -> Option<&mut Rows> {
        self.rows.as_mut().filter(|rows| rows.depth == self.depth)
    }
}

/// What calls for the rows of one statement share.
pub(super) struct Rows {
    /// How many bodies were under way when the first was made: calls of bodies are none of them.
    pub(super) depth: usize,
    pub(super) signatures: HashMap<u32, Arc<Signature>>,
}

/// A plan whose bodies are to be run.
pub(crate) struct Wanted {
    pub(super) routine: planner::Routine,
    pub(super) statement: Statement,
    pub(super) call: Call,
}

impl Wanted {
    pub(crate) fn new(routine: &planner::Routine, statement: &Statement, call: &Call) -> Box<Self> {
        Box::new(Self { routine: routine.clone(), statement: statement.clone(), call: call.clone() })
    }

    pub(crate) fn statement(&self) -> &Statement {
        &self.statement
    }

    pub(crate) fn call(&self) -> &Call {
        &self.call
    }

    /// Does it leave nothing when it fails outside of a block? A procedure may have committed.
    pub(crate) fn is_undone_as_a_whole(&self) -> bool {
        !matches!(self.routine, planner::Routine::Call(_) | planner::Routine::Block { .. })
    }
}
