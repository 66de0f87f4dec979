//! Batches of one prepared INSERT: their executions wait for each other as long as the client's next message is one more.
//!
//! What the client is to read between two answers (BindComplete, NoData) is in the output already when they come; so each
//! waiting execution remembers the place in the output where its answer goes.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use executor::{Call, Cost};
use pgerror::{PgError, Result};
use pgproto::frontend::{self, Target, tag};
use pgproto::{Frame, backend};
use planner::parse::StatementKind;

use super::connection::Client;
use crate::protocol::prepared::Prepared;

/// The executions that wait.
#[derive(Default)]
pub(crate) struct Waiting {
    /// What they execute.
    prepared: Option<Arc<Prepared>>,
    /// Offsets in the output, in order.
    places: Vec<usize>,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

impl Client {
    /// Lets this execution wait, if it may. What waits already stays ahead of it.
    pub(crate) fn wait_for_more(&mut self, prepared: &Arc<Prepared>, call: &Call) -> bool {
        let Some(statement) = &prepared.statement else { return false };
        let may_wait = statement.kind == StatementKind::Insert && prepared.description.fields.is_none();
        if !may_wait || !self.own().session.board(&statement.sql, call) {
            return false;
        }
        self.waiting.prepared = Some(prepared.clone());
        self.waiting.places.push(self.statements.own.socket.buffer().len());
        true
    }

    /// Is the message about one more execution of the statement whose executions wait?
    pub(crate) fn goes_on(&self, frame: &Frame) -> bool {
        let name = |skipped: usize| frame.body.get(skipped..).and_then(|rest| rest.split(|byte| *byte == 0).next());
        let is_it =
            |prepared: &Arc<Prepared>| self.waiting.prepared.as_ref().is_some_and(|own| Arc::ptr_eq(own, prepared));
        let own = &self.statements.own;
        if own.session.pipeline_is_full() {
            return false;
        }
        match frame.tag {
            tag::BIND => {
                let statement = name(0).and_then(|portal| name(portal.len() + 1));
                statement.is_some_and(|statement| own.prepared.get(statement).is_some_and(is_it))
            }
            tag::EXECUTE => name(0).is_some_and(|portal| own.portals.get(portal).is_some_and(|p| is_it(&p.prepared))),
            tag::DESCRIBE => match frontend::decode_describe(frame.body.clone()) {
                Ok((Target::Portal, portal)) => own.portals.get(&portal).is_some_and(|portal| is_it(&portal.prepared)),
                _ => false,
            },
            _ => false,
        }
    }

    /// Runs what waits and puts the answers into the output. An error makes the client's further messages be skipped up to
    /// Sync.
    pub(crate) async fn depart(&mut self) -> Result<()> {
        if !self.own().session.has_pipeline() {
            return Ok(());
        }
        let places = std::mem::take(&mut self.waiting).places;
        let (began, text) = (Instant::now(), self.own().session.pipeline_text());
        self.own().session.statement_begins().await;
        let cancel = self.own().session.cancel_set();
        let own = &mut self.statements.own;
        let result = own.socket.watch().during(&cancel, pin!(own.session.depart())).await;
        let (tags, result) = match result {
            Ok(arrival) => (arrival.tags, arrival.error.map_or(Ok(()), Err)),
            Err(error) => (Vec::new(), Err(error)),
        };
        let result = self.own().session.judged(result).await;
        self.own().session.statement_ends().await;
        let done = tags.len() as u64;
        let took = if done == 0 { Duration::ZERO } else { began.elapsed() };
        let cost = Cost { calls: done, errors: u64::from(result.is_err()), took, rows: done, ..Cost::default() };
        text.into_iter().for_each(|sql| self.own().session.batch_ended(&sql, cost));
        debug_assert!(places.is_sorted() && tags.len() <= places.len(), "one place for each answer, in their order");
        let first = places.first().copied().unwrap_or_default();
        let behind = self.own().socket.buffer().split_off(first);
        self.statements.after_statement(result.is_err()).await;
        for (index, tag) in tags.iter().enumerate() {
            backend::command_complete(self.own().socket.buffer(), tag);
            let end = places.get(index + 1).map_or(behind.len(), |place| place - first);
            self.own().socket.buffer().extend_from_slice(&behind[places[index] - first..end]);
        }
        match result {
            Ok(()) => Ok(()),
            Err(error) => self.fail_to_sync(error).await,
        }
    }

    /// An error of the extended protocol.
    pub(crate) async fn fail_to_sync(&mut self, error: PgError) -> Result<()> {
        if error.is_fatal() {
            return Err(error);
        }
        self.own().session.fail();
        self.own().session.give_up_locks().await;
        self.own().socket.send_error(error, 0);
        self.skip_to_sync = true;
        Ok(())
    }
}
