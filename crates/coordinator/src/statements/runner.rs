//! The session that bodies run in.

use std::sync::Arc;
use std::time::Duration;

use executor::{Call, Completion, Session, Spool};
use pgerror::{PgError, Result};
use planner::parse::{DeclareCursor, Transaction};
use planner::{Explained, Plan, Statement};
use routine::Pending;

use super::Statements;
use crate::routines::{Routines, StatementRunner, Work};

impl StatementRunner for Statements {
    fn session(&mut self) -> &mut Session {
        &mut self.own.session
    }

    fn routines(&mut self) -> &mut Routines {
        &mut self.routines
    }

    fn rows_into(&mut self, spool: Option<Spool>) -> Option<Spool> {
        self.own.socket.rows_into(spool)
    }

    fn parsed<'a>(&'a mut self, sql: &'a [u8]) -> Pending<'a, Arc<Vec<Statement>>> {
        Box::pin(Statements::parsed(self, sql))
    }

    fn execute<'a>(
        &'a mut self,
        statement: &'a Statement,
        call: &'a Call,
        spool: Option<&'a mut Spool>,
    ) -> Pending<'a, Completion> {
        Box::pin(Statements::execute(self, statement, call, spool))
    }

    fn execute_inside<'a>(&'a mut self, statement: &'a Statement, call: &'a Call) -> Pending<'a, Completion> {
        Statements::execute_inside(self, statement, call)
    }

    fn run_rest<'a>(
        &'a mut self,
        rest: &'a Statement,
        call: &'a Call,
        mut spool: Option<&'a mut Spool>,
    ) -> Pending<'a, Completion> {
        Box::pin(async move {
            let ran = Box::pin(self.execute_unguarded(rest, call, spool.as_deref_mut())).await?;
            self.finished(ran, spool).await
        })
    }

    fn run_plan<'a>(
        &'a mut self,
        plan: &'a Plan,
        statement: &'a Statement,
        call: &'a Call,
        mut spool: Option<&'a mut Spool>,
    ) -> Pending<'a, Completion> {
        Box::pin(async move {
            let ran = Box::pin(Statements::run_plan(self, plan, statement, call, spool.as_deref_mut())).await?;
            self.finished(ran, spool).await
        })
    }

    fn forward_home<'a>(&'a mut self, sql: &'a str, call: &'a Call) -> Pending<'a, Completion> {
        Box::pin(self.own.forward_home(sql, call))
    }

    fn explain_run<'a>(
        &'a mut self,
        explained: &'a Explained,
        tag: String,
        took: Duration,
        call: &'a Call,
        spool: Option<&'a mut Spool>,
    ) -> Pending<'a, Completion> {
        Box::pin(async move {
            let (_, mut output) = self.own.socket.split(spool);
            self.own.session.explain_run(&explained.explain, tag, took, call, &mut output).await
        })
    }

    fn after_statement(&mut self, failed: bool) -> Work<'_, ()> {
        Box::pin(Statements::after_statement(self, failed))
    }

    fn placed<'a>(&'a mut self, sql: &'a str, error: PgError) -> Work<'a, PgError> {
        Box::pin(Statements::placed(self, sql, error))
    }

    fn send_notices(&mut self) {
        Statements::send_notices(self);
    }

    fn transaction<'a>(&'a mut self, transaction: &'a Transaction) -> Pending<'a, Completion> {
        Box::pin(self.own.transaction(transaction))
    }

    fn end_autocommit(&mut self, outcome: Result<Completion>) -> Pending<'_, Completion> {
        Box::pin(self.own.end_autocommit(outcome))
    }

    fn declare_cursor<'a>(
        &'a mut self,
        declare: &'a DeclareCursor,
        statement: &'a Statement,
        call: &'a Call,
    ) -> Pending<'a, Completion> {
        Box::pin(Statements::declare_cursor(self, declare, statement, call))
    }

    fn cursor_stands_on(&mut self, cursor: &str, row: usize) {
        self.own.cursor_stands_on(cursor, row);
    }

    fn forget_lost_cursors(&mut self) -> Pending<'_, ()> {
        Box::pin(self.own.forget_lost_cursors())
    }
}
