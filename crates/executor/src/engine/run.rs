//! Runs a plan: sends its texts, merges the answers, keeps the transaction right.
//!
//! All nodes work at the same time; rows go to the client as they come, in whole runs of frames, and a client that reads
//! slowly slows the nodes down (nothing is buffered beyond one read of each socket). The first error cancels the other
//! nodes, whose answers are read to their end so that their links stay usable.

use std::collections::BTreeMap;

use bytes::Bytes;
use catalog::NodeId;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use pgerror::{PgError, Result};
use pgproto::CancelKey;
use pgproto::backend::{self, split_command_tag};
use planner::Plan;
use tracing::Instrument;

use crate::backend::call::Call;
use crate::backend::isolation::Isolation;
use crate::backend::leased::LeasedConnection;
use crate::backend::pool::sequence_values::without_own_context;
use crate::backend::request::Event;
use crate::backend::slot::Slot;
use crate::block::Mode;
use crate::engine::output::Output;
use crate::session::Session;

/// How a statement ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completion {
    /// CommandComplete with this tag.
    Tag(String),
    /// EmptyQueryResponse.
    Empty,
}

impl Completion {
    /// CommandComplete with this tag.
    pub fn tag(tag: impl Into<String>) -> Self {
        Completion::Tag(tag.into())
    }

    /// How many rows it says.
    pub(crate) fn rows(&self) -> Option<u64> {
        match self {
            Completion::Tag(tag) => split_command_tag(tag).1,
            Completion::Empty => None,
        }
    }

    /// How many rows it says to have changed.
    pub(crate) fn rows_changed(&self) -> u64 {
        match self {
            Completion::Tag(tag) if !tag.starts_with("SELECT") => self.rows().unwrap_or(0),
            Completion::Tag(_) | Completion::Empty => 0,
        }
    }
}

/// The operator at the root of a plan, for the log. What it computes is not told: its texts have constants of the user's.
fn operator(plan: &Plan) -> String {
    plan.to_string().split_whitespace().next().unwrap_or_default().to_owned()
}

impl Session {
    /// Runs a planned statement and sends its rows to `output`. On an error the block, if one is open, has failed.
    pub async fn run(&mut self, plan: &Plan, call: &Call, output: &mut Output<'_>) -> Result<Completion> {
        self.count_statement(plan);
        let began = std::time::Instant::now();
        let told = self.notices.len();
        let keeps_rows = self.is_to_keep_rows(plan);
        self.notified |= self.leaves.notifies;
        self.note_write(plan.facts().writes);
        let ready = match self.widen_for(plan).await {
            Ok(()) => self.lock_copies_first().await,
            Err(error) => Err(error),
        };
        let result = match ready {
            Ok(()) => {
                let span = tracing::debug_span!("operator", plan = operator(plan));
                match !self.leaves.asks.is_nothing() {
                    _ if keeps_rows => self.dispatch_with_rows_kept(plan, call, output).instrument(span).await,
                    false => Box::pin(self.dispatch(plan, call, output)).instrument(span).await,
                    true => Box::pin(self.dispatch_among_sessions(plan, call, output)).instrument(span).await,
                }
            }
            Err(error) => Err(error),
        };
        let result = result.map_err(|error| self.links.drawn().explained(error, &self.leaves));
        self.gathers = result.as_ref().is_err_and(|error| self.was_early(plan, error, output.is_untouched()));
        let result = match self.gathers && self.in_block() {
            true => {
                self.release();
                result
            }
            false => self.conclude(result).await,
        };
        if self.gathers {
            // It is run again, and has done nothing so far.
            self.notices.truncate(told);
            self.no_trigger_events(true)?;
        }
        let result = match result {
            Err(error) if !self.in_block() => Err(self.with_deadlock_report(error).await),
            result => result,
        };
        self.note_failure(result.as_ref().err(), || output.take_back());
        self.log_run(plan, call, began.elapsed(), result.as_ref().err());
        // LOCK TABLE is no query; the home node sees every schema change.
        if let Some(block) = self.block.as_mut().filter(|_| !matches!(plan, Plan::Ddl(_))) {
            block.has_queried = true;
        }
        result
    }

    /// What goes to one node is in this future itself. All else is boxed: the future of each statement is copied once, so it is to be small.
    pub(crate) async fn dispatch(&mut self, plan: &Plan, call: &Call, output: &mut Output<'_>) -> Result<Completion> {
        match plan {
            Plan::Forward(forward) => {
                let node = self.choose(&forward.nodes);
                let part = vec![(node, forward.sql.clone())];
                let done = match forward.writes {
                    true if forward.is_snapshot_independent && self.in_block() => {
                        self.insert_independent(node, &forward.sql, call, output).await
                    }
                    true => self.write_on_one_node(part, call, output).await,
                    false => self.scatter(self.mode(), part, call, output).await,
                };
                self.one_node_answered();
                done
            }
            Plan::Scatter(scatter) => {
                let parts: Vec<_> = scatter.nodes.iter().map(|node| (*node, scatter.sql.clone())).collect();
                match (scatter.writes, parts.len()) {
                    (writes, 1) => {
                        let done = match writes {
                            true => self.write_on_one_node(parts, call, output).await,
                            false => self.scatter(self.mode(), parts, call, output).await,
                        };
                        self.one_node_answered();
                        done
                    }
                    (true, _) => Box::pin(self.write_on_several_nodes(scatter, parts, call, output)).await,
                    (false, _) => Box::pin(self.read_several_nodes(scatter, parts, call, output)).await,
                }
            }
            Plan::InsertSplit(insert) => Box::pin(self.insert_split(insert, call, output)).await,
            Plan::FirstCopy(plan) => Box::pin(self.write_first_copy(plan, call, output)).await,
            Plan::Replicate(replicate) => Box::pin(self.write_copies(replicate, call, output)).await,
            Plan::Gather(gather) => Box::pin(self.gather(gather, call, output)).await,
            Plan::InsertStaged(insert) => Box::pin(self.write_staged(insert, call, output)).await,
            Plan::StagedDml(change) => Box::pin(self.write_staged_dml(change, call, output)).await,
            Plan::SequencedCtes(ctes) => Box::pin(self.write_sequenced_ctes(ctes, call, output)).await,
            Plan::ExchangePlan(exchange_plan) => Box::pin(self.exchange_plan(exchange_plan, call, output)).await,
            Plan::Locked(locked) => Box::pin(self.locked(locked, call, output)).await,
            Plan::Explain(explain) => Box::pin(self.explain(explain, call, output)).await,
            Plan::Ddl(ddl) => {
                // It changes what would be compared. What it reads is planned later.
                self.validity = None;
                Box::pin(self.ddl(ddl)).await
            }
            Plan::Redistribute(moves) => Box::pin(self.redistribute(moves)).await,
            Plan::Cluster(command) => Box::pin(self.cluster_command(command, call, output)).await,
            Plan::Routine(_) => Err(PgError::unsupported("a function or block that is run by the coordinator, here,")
                .hint("Run it in a statement of its own and store what it gives.")),
            Plan::CopyFrom(_)
            | Plan::CopyHome(_)
            | Plan::CopyTo(_)
            | Plan::DeclareCursor(_)
            | Plan::AutoReplicate(_)
            | Plan::Session => Err(PgError::internal("this statement is not run by Session::run")),
        }
    }

    /// All of a statement's answer came from one node, whose locks and snapshot it had when its plan was found to hold.
    fn one_node_answered(&mut self) {
        self.validity = self.validity.take().map(|validity| validity.under_snapshot());
    }

    /// One of several nodes that would all do: the one that has worked longest for this session, so that a block reads a table again
    /// where it has locked it; else, to spread the load, any.
    pub(crate) fn choose(&self, nodes: &[NodeId]) -> NodeId {
        let leased = nodes.iter().filter_map(|node| Some((self.links.get(*node)?.earlier, *node)));
        leased
            .min()
            .map(|(_, node)| node)
            .unwrap_or_else(|| nodes.get(self.links.number() % nodes.len().max(1)).copied().unwrap_or(self.home))
    }

    /// Runs `work` inside the open block, or in a block of its own that is committed or rolled back at once.
    pub(crate) async fn atomically<T>(&mut self, work: impl AsyncFnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.in_block() {
            return work(self).await;
        }
        self.begin_own(Isolation::ReadCommitted, Vec::new(), false);
        let worked = work(self).await;
        match self.with_checked_plan(worked).await {
            Ok(value) => {
                self.commit().await?;
                Ok(value)
            }
            Err(error) => {
                self.fail();
                self.rollback().await;
                Err(error)
            }
        }
    }

    /// A write on several nodes. New rows go to all at once; rows that exist are changed (and so locked) node by node, in the
    /// order of the nodes: two statements over the same rows then wait for each other at the first node instead of
    /// deadlocking across two, which no PostgreSQL would notice.
    pub(crate) async fn write_in_order(
        &mut self,
        parts: Vec<(NodeId, String)>,
        only_inserts: bool,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        if only_inserts {
            return self.scatter(Mode::InBlock, parts, call, output).await;
        }
        let mut total = Total::default();
        for part in parts {
            if let Completion::Tag(tag) = self.scatter(Mode::InBlock, vec![part], call, output).await? {
                total.add(&tag);
            }
            // The next node is not to know less than this one has shown.
            self.statement_finished();
        }
        Ok(total.completion())
    }

    /// Each text on its node, all at once; rows are passed on, counts added.
    pub(crate) async fn scatter(
        &mut self,
        mode: Mode,
        parts: Vec<(impl Into<Slot>, String)>,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        let parts: Vec<(Slot, String)> = parts.into_iter().map(|(slot, sql)| (slot.into(), sql)).collect();
        let extended = call.parameters.is_some();
        if let [(node, sql)] = parts.as_slice() {
            self.acquire_for(*node, mode, extended).await?;
            return self.run_leased(*node, sql, call, output).await;
        }
        let version = self.schema_version;
        self.connect_to(&parts.iter().map(|(slot, _)| *slot).collect::<Vec<_>>()).await?;
        for (node, sql) in &parts {
            self.acquire_for(*node, mode, extended).await?;
            self.causality.touch(node.node());
            self.links.link(*node)?.start(sql, call, version);
        }
        self.answers_of(&parts, call, output).await
    }

    /// The answers of nodes that have been sent their parts.
    pub(crate) async fn answers_of(
        &mut self,
        parts: &[(impl Copy + Into<Slot>, String)],
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        let nodes: Vec<Slot> = parts.iter().map(|(slot, _)| (*slot).into()).collect();
        self.answers_on(&nodes, call, output).await
    }

    /// The answers of these nodes, whatever they have been sent.
    pub(crate) async fn answers_on(
        &mut self,
        nodes: &[impl Copy + Into<Slot>],
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        let mut links = self.links.take(nodes)?;
        let result = match &call.order {
            Some(order) => self.merge_sorted(&mut links, order, output).await,
            None => self.merge(&mut links, output).await,
        };
        self.links.put_back(links);
        result
    }

    /// A statement in a block that looks at nothing but the rows it brings.
    async fn insert_independent(
        &mut self,
        node: NodeId,
        sql: &str,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        self.acquire_for_independent(node, call.parameters.is_some()).await?;
        self.run_leased(node.into(), sql, call, output).await
    }

    /// Runs a statement on a link that is held for it.
    async fn run_leased(&mut self, slot: Slot, sql: &str, call: &Call, output: &mut Output<'_>) -> Result<Completion> {
        self.causality.touch(slot.node());
        let version = self.schema_version;
        self.links.link(slot)?.start(sql, call, version);
        let mut links = self.links.take(&[slot])?;
        let result = self.answer(slot.node(), &mut links[0].1, output).await;
        self.links.put_back(links);
        result
    }

    /// Passes the answer of one link on.
    async fn answer(
        &mut self,
        node: NodeId,
        leased: &mut LeasedConnection,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        leased.flush().await?;
        let mut total = Total::default();
        let mut failure = None;
        // The statement may get a new plan for as long as the client knows nothing; a block that has changed the schema has a
        // catalog of its own, which is compared at the end. A node that describes rows has taken its snapshot.
        let mut unchecked =
            self.validity.clone().filter(|_| !self.block.as_ref().is_some_and(|block| block.schema_changed));
        loop {
            let event = match leased.next().await {
                Ok(event) => event,
                Err(error) => return Err(failure.unwrap_or(error)),
            };
            let holds = match unchecked.take() {
                Some(validity) => validity.holds(&self.context, self.links.cancel()).await,
                None => Ok(()),
            };
            let outcome = match event {
                Event::Done => return failure.map_or(Ok(total.completion()), Err),
                _ if failure.is_some() => Ok(()),
                _ if holds.is_err() => holds,
                Event::Rows(run, count) => output.rows(run, count).await,
                Event::Description(body) => self.describe_rows(body, node, 0, output).await,
                Event::Complete(tag) => {
                    total.add(&tag);
                    Ok(())
                }
                Event::Empty => Ok(()),
                other => Err(PgError::protocol(format!("unexpected answer {other:?}"))),
            };
            if let Err(error) = outcome {
                failure = Some(error);
                // Waited for: a cancel that comes late would hit the next statement.
                leased.link.connection.cancel_key().cancel().await;
            }
        }
    }

    /// Reads the answers of several links until all are done.
    pub(crate) async fn merge(
        &mut self,
        links: &mut [(Slot, LeasedConnection)],
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        let mut total = Total::default();
        let mut failure = None;
        let mut running: BTreeMap<Slot, CancelKey> =
            links.iter().map(|(node, leased)| (*node, leased.link.connection.cancel_key().clone())).collect();
        let mut steps = FuturesUnordered::new();
        for (node, leased) in links.iter_mut() {
            steps.push(step(*node, leased, true));
        }
        while let Some((node, leased, event)) = steps.next().await {
            let (outcome, over) = match event {
                Ok(Event::Done) => (Ok(()), true),
                Ok(_) if failure.is_some() => (Ok(()), false),
                Ok(Event::Rows(run, count)) => (output.rows(run, count).await, false),
                Ok(Event::Description(body)) => (self.describe_rows(body, node.node(), 0, output).await, false),
                Ok(Event::Complete(tag)) => {
                    total.add(&tag);
                    (Ok(()), false)
                }
                Ok(Event::Empty) => (Ok(()), false),
                Ok(other) => (Err(PgError::protocol(format!("unexpected answer {other:?}"))), false),
                // The link is drained (or broken): nothing more is read from it.
                Err(error) => (Err(error), true),
            };
            if over {
                running.remove(&node);
            }
            if let Err(error) = outcome
                && failure.is_none()
            {
                failure = Some(error);
                // Waited for: a cancel that comes late would hit the next statement.
                futures_util::future::join_all(running.values().map(CancelKey::cancel)).await;
            }
            if !over {
                steps.push(step(node, leased, false));
            }
        }
        match failure {
            Some(error) => Err(error),
            None => Ok(total.completion()),
        }
    }

    /// Passes a RowDescription on, but for the first columns if they are keys of ours.
    pub(crate) async fn describe_rows(
        &mut self,
        body: Bytes,
        node: NodeId,
        keys: usize,
        output: &mut Output<'_>,
    ) -> Result<()> {
        if !output.wants_description() {
            return Ok(());
        }
        let mut fields = backend::decode_row_description(body)?;
        fields.drain(..keys.min(fields.len()));
        self.as_at_home(&mut fields, node).await?;
        output.description(&fields);
        Ok(())
    }

    /// A write to every copy of a replicated table: the first node alone, so that writers queue up there and cannot
    /// deadlock each other, then the others at once. Their row counts must agree.
    pub(crate) async fn replicate(
        &mut self,
        nodes: &[NodeId],
        sql: &str,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        let (first, others) = nodes.split_first().ok_or_else(|| PgError::internal("a write without nodes"))?;
        let completion = self.scatter(Mode::InBlock, vec![(*first, sql.to_owned())], call, output).await?;
        let version = self.schema_version;
        self.statement_finished();
        self.connect_to(others).await?;
        for node in others {
            self.acquire(*node, Mode::InBlock).await?;
            self.causality.touch(*node);
            self.links.link(*node)?.start(sql, call, version);
        }
        let tags = self.links.finish_all(others).await?;
        self.keep_notices_of_text(*first, others, sql).await?;
        for tag in tags {
            if let (Completion::Tag(expected), Some(got)) = (&completion, tag)
                && *expected != got
            {
                return Err(PgError::internal(format!(
                    "the copies of a replicated table differ: one node answered {expected}, another {got}"
                ))
                .hint("Compare the table on the datanodes; the statement was rolled back."));
            }
        }
        Ok(completion)
    }

    /// Numbers of sequences, which the session's own backend remembers as its last; each expression so many times.
    pub async fn draw(&mut self, draws: &[(String, usize)]) -> Result<Vec<Option<Bytes>>> {
        self.leaves.drawn = true;
        self.note_write(true);
        let mut numbers = Vec::new();
        for (draw, count) in draws {
            let sql = format!("SELECT {draw} FROM pg_catalog.generate_series(1, {count})");
            let rows = self.rows_on(self.home, &sql).await.map_err(without_own_context)?;
            numbers.extend(rows.into_iter().flatten());
            self.links.note_drawn(self.home);
        }
        Ok(numbers)
    }
}

/// Waits for the next event of one link; the first time it also sends what is queued.
async fn step(node: Slot, leased: &mut LeasedConnection, first: bool) -> (Slot, &mut LeasedConnection, Result<Event>) {
    let event = match first {
        true => match leased.flush().await {
            Ok(()) => leased.next().await,
            Err(error) => Err(error),
        },
        false => leased.next().await,
    };
    (node, leased, event)
}

/// Adds up command tags.
#[derive(Default)]
pub(crate) struct Total {
    words: Option<String>,
    count: Option<u64>,
}

impl Total {
    pub(crate) fn add(&mut self, tag: &str) {
        let (words, count) = split_command_tag(tag);
        self.words = Some(words.to_owned());
        if let Some(count) = count {
            self.count = Some(self.count.unwrap_or(0) + count);
        }
    }

    pub(crate) fn completion(self) -> Completion {
        match (self.words, self.count) {
            (None, _) => Completion::Empty,
            (Some(words), None) => Completion::Tag(words),
            (Some(words), Some(count)) => Completion::Tag(format!("{words} {count}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_command_tags_are_added() {
        let mut total = Total::default();
        total.add("INSERT 0 2");
        total.add("INSERT 0 3");
        assert_eq!(total.completion(), Completion::Tag("INSERT 0 5".into()));
        let mut total = Total::default();
        total.add("CREATE TABLE");
        assert_eq!(total.completion(), Completion::Tag("CREATE TABLE".into()));
        assert_eq!(Total::default().completion(), Completion::Empty);
    }
}
