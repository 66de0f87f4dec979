//! Executions of one prepared INSERT, one behind the other, that go to their nodes together.
//!
//! Drivers send a batch (executemany, addBatch) as many Bind and Execute without waiting for the answers. Run one by one
//! each costs a round trip to a datanode; here they wait for each other, as a pipeline, and every node gets all of its own in one
//! message, with one Sync; several rows in one statement where that makes no difference (see [`crate::dml::row_batch`]). Only the first
//! is planned: the others differ in their key, and so perhaps in their node.
//!
//! Invariants: only INSERTs of one row without ON CONFLICT, inside a READ COMMITTED block: rows of different nodes cannot see
//! each other, so that it does not matter that nodes work at the same time; on each node they run in the client's order. After
//! the first error in that order nothing counts any more: the block has failed with it. What waits is bounded
//! ([`BYTES_MAX`]), so that no node's answers can block the sending.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use catalog::NodeId;
use pgerror::{PgError, Result};
use planner::Plan;

use crate::backend::call::Call;
use crate::backend::isolation::Isolation;
use crate::block::Mode;
use crate::dml::row_batch::Load;
use crate::session::Session;
use crate::session::pipeline::InsertPipeline;

/// Bytes of values that wait at most; well below what a socket takes without being read.
const BYTES_MAX: usize = 64 * 1024;
/// A value's share of a message besides its bytes, roughly.
const VALUE_OVERHEAD_BYTES: usize = 16;

/// How far a pipeline came.
pub struct Arrival {
    /// Command tags of the executions that count, in order.
    pub tags: Vec<Cow<'static, str>>,
    /// What became of the one behind them.
    pub error: Option<PgError>,
}

impl Session {
    /// Lets an execution wait for others of the same statement that may follow. False if it has to be run at once;
    /// what waits already goes first then.
    pub fn board(&mut self, sql: &Arc<str>, call: &Call) -> bool {
        let Some(parameters) = call.parameters.as_ref().filter(|_| !self.gives_moments(call)) else { return false };
        let Some(mut pipeline) = self.pipeline.take().or_else(|| self.new_pipeline(sql, call)) else { return false };
        let clock = self.clock().or(pipeline.clock());
        let node = match pipeline.is_like(sql, parameters) {
            true => self.place_again(&pipeline.again, sql, call, clock),
            false => None,
        };
        if let Some(node) = node {
            let bytes =
                |value: &Option<bytes::Bytes>| VALUE_OVERHEAD_BYTES + value.as_ref().map_or(0, bytes::Bytes::len);
            pipeline.bytes += parameters.values.iter().map(bytes).sum::<usize>();
            pipeline.rows.push((node, parameters.clone()));
        }
        self.pipeline = Some(pipeline).filter(|pipeline| !pipeline.rows.is_empty());
        node.is_some()
    }

    /// A pipeline for executions of this statement, still empty, if they may wait.
    fn new_pipeline(&mut self, sql: &Arc<str>, call: &Call) -> Option<InsertPipeline> {
        let in_read_committed = self.isolation().is_some_and(Isolation::renews_snapshot) && self.status() == b'T';
        if !in_read_committed || self.is_read_only() {
            return None;
        }
        let quick = self.plan_quickly(sql, call)?;
        let Plan::Forward(_) = quick.plan else { return None };
        let again = self.again(&quick).filter(|again| again.template.only_inserts())?;
        Some(InsertPipeline {
            sql: sql.clone(),
            call: Call { parameters: None, ..call.clone() },
            schema_version: self.schema_version,
            again,
            rows: Vec::new(),
            bytes: 0,
        })
    }

    /// Does anything wait?
    pub fn has_pipeline(&self) -> bool {
        self.pipeline.is_some()
    }

    /// The text of what waits.
    pub fn pipeline_text(&self) -> Option<Arc<str>> {
        self.pipeline.as_ref().map(|pipeline| pipeline.sql.clone())
    }

    /// Should it not wait any longer?
    pub fn pipeline_is_full(&self) -> bool {
        self.pipeline.as_ref().is_some_and(|pipeline| pipeline.bytes >= BYTES_MAX)
    }

    /// Runs what waits. The block has failed if that ends with an error.
    pub async fn depart(&mut self) -> Result<Arrival> {
        let Some(pipeline) = self.pipeline.take() else { return Ok(Arrival { tags: Vec::new(), error: None }) };
        self.validity = Some(pipeline.again.validity.clone());
        self.schema_version = pipeline.schema_version;
        self.note_write(true);
        let arrival = self.drive(pipeline).await;
        let (arrival, result) = match arrival {
            Ok(arrival) if arrival.error.is_none() => (arrival, Ok(())),
            Ok(Arrival { tags, error }) => (Arrival { tags, error: None }, error.map_or(Ok(()), Err)),
            Err(error) => return self.conclude(Err(error)).await,
        };
        let error = self.conclude(result).await.err();
        Ok(Arrival { error, ..arrival })
    }

    async fn drive(&mut self, mut pipeline: InsertPipeline) -> Result<Arrival> {
        let rows = std::mem::take(&mut pipeline.rows);
        let order: Vec<NodeId> = rows.iter().map(|(node, _)| *node).collect();
        let mut loads: BTreeMap<NodeId, Load> = BTreeMap::new();
        for (node, parameters) in rows {
            loads.entry(node).or_default().rows.push(parameters);
        }
        self.connect_to(&loads.keys().copied().collect::<Vec<_>>()).await?;
        for (node, load) in &mut loads {
            match pipeline.again.template.is_snapshot_independent() {
                true => self.acquire_for_independent_rows(*node, true).await?,
                false => self.acquire_for(*node, Mode::InBlock, true).await?,
            }
            self.causality.touch(*node);
            self.links.link(*node)?.start_load(&pipeline, load);
        }
        let work =
            self.links.iter_mut().filter_map(|(slot, leased)| Some((slot.node(), leased, loads.get(&slot.node())?)));
        let arrivals = work.map(async |(node, leased, load)| (node, leased.arrive(&pipeline, load).await));
        let results = futures_util::future::join_all(arrivals).await;
        let mut results: BTreeMap<NodeId, _> =
            results.into_iter().map(|(node, arrival)| (node, (arrival.tags.into_iter(), arrival.error))).collect();
        let mut tags = Vec::with_capacity(order.len());
        for node in order {
            let Some((own, error)) = results.get_mut(&node) else { continue };
            match own.next() {
                Some(tag) => tags.push(tag),
                None => {
                    let error = error.take();
                    let lost = || PgError::internal("a datanode has answered less than it was asked");
                    return Ok(Arrival { tags, error: Some(error.unwrap_or_else(lost)) });
                }
            }
        }
        // An error behind the last answer, e.g. of the commit of what the node does at its Sync.
        let error = results.into_values().find_map(|(_, error)| error);
        Ok(Arrival { tags, error })
    }
}
