//! One statement of a session, from its text to its completion.
//!
//! ```text
//!  text ── by shape, planned before ─────────────────────────────────────┐
//!     └─ parse ── the session's own? ── plan ── run, by a new plan if a schema change came between ──> Completion
//!                                         └── a body? ── routines ── statements of the body ── (from the start)
//! ```
//!
//! * [`Statements`]: executes one, and sees to what it leaves: triggers, notices, a failed block.
//! * [`plans`]: plans, runs and replans; [`commands`]: commands of the session's own that run other statements.
//! * [`runner`]: what [`crate::routines`] asks for.
//!
//! Invariants: a statement that fails fails its block; what runs ends when the client hangs up, except a commit that is decided;
//! a body is run when the frames of the way to it are gone, so that bodies in each other need little of the stack.

mod commands;
mod plans;
mod runner;

use std::sync::Arc;
use std::time::Instant;

use executor::{Call, Completion, Session, Spool};
use pgerror::{PgError, Result, SqlState};
use planner::parse::Statement;
use routine::Pending;

use crate::protocol::socket::Socket;
use crate::protocol::text;
use crate::routines::{Routines, Runner, Wanted};
use crate::session_commands::ClientSession;
use crate::shared::Shared;

pub(crate) use plans::Quickly;

/// See the page.
pub(crate) struct Statements {
    pub(crate) own: ClientSession,
    /// Functions and blocks that the coordinator runs.
    routines: Routines,
    shared: Arc<Shared>,
    /// The client is pg_dump: our own schema is hidden from it.
    is_dump: bool,
}

/// What a plan came to.
enum Ran {
    Done(Completion),
    /// A body is to be run, when the way here has been left.
    Wanted(Box<Wanted>),
}

impl Statements {
    pub(crate) fn new(shared: Arc<Shared>, socket: Socket, session: Box<Session>, is_dump: bool) -> Self {
        let own = ClientSession::new(shared.clone(), socket, session);
        Self { own, routines: Routines::default(), shared, is_dump }
    }

    /// Runs one statement in the session's transaction state. The block, if there is one, fails with it.
    pub(crate) async fn execute(
        &mut self,
        statement: &Statement,
        call: &Call,
        mut spool: Option<&mut Spool>,
    ) -> Result<Completion> {
        self.own.refuse_in_failed_block(&statement.kind)?;
        let ran = self.execute_unguarded(statement, call, spool.as_deref_mut()).await;
        self.ended(ran, spool).await
    }

    /// [`Self::execute`] of a statement that the client has sent, whose cost is counted.
    pub(crate) async fn execute_for_client(
        &mut self,
        statement: &Statement,
        call: &Call,
        spool: Option<&mut Spool>,
    ) -> Result<Completion> {
        let began = Instant::now();
        let result = self.execute(statement, call, spool).await;
        let sql = plans::is_shown(&statement.kind).then_some(&*statement.sql);
        self.own.session.statement_ended(sql, began.elapsed(), &result);
        result
    }

    /// Runs a statement of a body.
    fn execute_inside<'s>(&'s mut self, statement: &'s Statement, call: &'s Call) -> Pending<'s, Completion> {
        Box::pin(async move {
            self.own.refuse_in_failed_block(&statement.kind)?;
            // In a frame of its own, which is gone when a body is run.
            let ran = Box::pin(self.execute_unguarded(statement, call, None)).await;
            self.ended(ran, None).await
        })
    }

    /// Runs the body that the statement turned out to need, and sees to what is left.
    async fn ended(&mut self, ran: Result<Ran>, spool: Option<&mut Spool>) -> Result<Completion> {
        let result = match ran {
            Ok(ran) => self.finished(ran, spool).await,
            Err(error) => Err(error),
        };
        let result = self.all_fired(result).await;
        let mut result = self.own.session.judged(result).await;
        if result.is_ok() && self.own.session.scope().is_body {
            result = self.own.session.ask_left().await.and(result);
        }
        self.after_statement(result.is_err()).await;
        result
    }

    fn finished<'s>(&'s mut self, ran: Ran, spool: Option<&'s mut Spool>) -> Pending<'s, Completion> {
        match ran {
            Ran::Done(completion) => Box::pin(std::future::ready(Ok(completion))),
            Ran::Wanted(wanted) if self.own.session.in_block() || spool.is_some() || !wanted.is_undone_as_a_whole() => {
                Box::pin(async move { self.runner().run_wanted(&wanted, spool).await })
            }
            Ran::Wanted(wanted) => Box::pin(self.finished_apart(wanted)),
        }
    }

    /// Runs the body of a statement that is its own transaction: by new plans until one holds, as long as the client has got nothing.
    async fn finished_apart(&mut self, mut wanted: Box<Wanted>) -> Result<Completion> {
        let before = self.own.socket.position();
        let mut tries = 1;
        loop {
            match self.runner().run_wanted(&wanted, None).await {
                Err(error)
                    if executor::is_outdated(&error)
                        && tries < plans::NEW_PLANS_MAX
                        && self.own.socket.position() == before
                        && plans::keeps_columns(wanted.statement(), wanted.call()) =>
                {
                    tries += 1;
                    self.own.session.release();
                    self.own.session.no_trigger_events(true)?;
                    let ran = Box::pin(self.execute_unguarded(wanted.statement(), wanted.call(), None)).await?;
                    match ran {
                        Ran::Done(completion) => return Ok(completion),
                        Ran::Wanted(again) => wanted = again,
                    }
                }
                ended => return ended,
            }
        }
    }

    /// No trigger is left that should have run.
    async fn all_fired<T>(&mut self, result: Result<T>) -> Result<T> {
        let fired = self.own.session.all_fired(result.is_err()).await;
        result.and_then(|value| fired.map(|()| value))
    }

    fn runner(&mut self) -> &mut Runner {
        self
    }

    pub(crate) async fn after_statement(&mut self, failed: bool) {
        if failed {
            self.own.session.fail();
            self.own.session.release();
            self.own.session.give_up_locks().await;
        }
        self.ask_left().await;
        self.send_notices();
    }

    pub(crate) fn send_notices(&mut self) {
        for frame in self.own.session.take_notices() {
            match self.routines.with_context(&frame) {
                Some(frame) => self.own.socket.send_frame(&frame),
                None => self.own.socket.send_frame(&frame),
            }
        }
    }

    /// Whatever the statement has left in the backends is seen to. If that fails, they are closed: of the statement there is
    /// nothing to say any more.
    async fn ask_left(&mut self) {
        if let Err(error) = self.own.session.ask_left().await {
            self.own.session.fail();
            self.own.session.notice(&PgError::with_severity("WARNING", error.code(), error.message().into_owned()));
        }
    }

    /// To be called before ReadyForQuery: what others have notified meanwhile, and the session itself.
    pub(crate) async fn deliver_notifications(&mut self) -> Result<()> {
        self.ask_left().await;
        for frame in self.own.session.notifications().await? {
            self.own.socket.send_frame(&frame);
        }
        Ok(())
    }

    /// The statements of a text.
    pub(crate) async fn parsed(&mut self, sql: &[u8]) -> Result<Arc<Vec<Statement>>> {
        let sql = text(sql)?;
        if !sql.is_ascii()
            && let Some(encoding) = self.own.session.foreign_encoding()
        {
            let text = format!("a statement beyond ASCII in client encoding \"{encoding}\"");
            return Err(PgError::unsupported(text).hint("SET client_encoding TO 'UTF8'."));
        }
        let (shared, is_dump) = (self.shared.clone(), self.is_dump);
        let hidden = if is_dump { Vec::new() } else { self.own.session.hidden_catalogs(sql).await? };
        let parse = move |sql: &str| match is_dump {
            true => planner::parse_for_dump(sql).map(Arc::new),
            false if hidden.is_empty() => shared.statements().parse(sql),
            false => planner::parse_beside(sql, &hidden).map(Arc::new),
        };
        let parsed = match executor::is_lengthy(sql.len()) {
            true => {
                let (cancel, own) = (self.own.session.cancel_set(), sql.to_owned());
                let parsed = self.shared.apart().run(&cancel, move || parse(&own)).await;
                parsed.and_then(|parsed| parsed)
            }
            false => parse(sql),
        };
        match parsed {
            Err(error) if error.code() == SqlState::SYNTAX_ERROR => {
                Err(self.own.session.as_read_by_home(sql, error).await)
            }
            parsed => parsed,
        }
    }
}
