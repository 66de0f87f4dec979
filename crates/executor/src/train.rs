//! Executions of one prepared INSERT, one behind the other, that go to their nodes together.
//!
//! Drivers send a batch (executemany, addBatch) as many Bind and Execute without waiting for the answers. Run one by one
//! each costs a round trip to a datanode; here they wait for each other, as a train, and every node gets all of its own in one
//! message, with one Sync.
//!
//! Invariants: only INSERTs of one row without ON CONFLICT, inside a READ COMMITTED block: rows of different nodes cannot see
//! each other, so that it does not matter that nodes work at the same time; on each node they run in the client's order. After
//! the first error in that order nothing counts any more: the block has failed with it. What waits is bounded
//! ([`BYTES_MAX`]), so that no node's answers can block the sending.

use std::collections::BTreeMap;
use std::sync::Arc;

use catalog::NodeId;
use pgerror::{PgError, Result};
use pgproto::frontend::{self, Bind};
use planner::Plan;

use crate::basis::Basis;
use crate::call::{Call, Event, Parameters};
use crate::held::Held;
use crate::run::only_inserts;
use crate::session::{Mode, Session};
use crate::snapshot::Isolation;

/// Bytes of values that wait at most; well below what a socket takes without being read.
const BYTES_MAX: usize = 64 * 1024;
/// A value's share of a message besides its bytes, roughly.
const VALUE_OVERHEAD_BYTES: usize = 16;

/// What waits to be sent.
pub(crate) struct Train {
    sql: Arc<str>,
    call: Call,
    catalog_version: u64,
    basis: Option<Arc<Basis>>,
    cars: Vec<(NodeId, Arc<Parameters>)>,
    bytes: usize,
}

/// How far a train came.
pub struct Arrival {
    /// Command tags of the executions that count, in order.
    pub tags: Vec<String>,
    /// What became of the one behind them.
    pub error: Option<PgError>,
}

impl Session {
    /// Lets an execution wait for others of the same statement that may follow. False if it has to be run at once;
    /// what waits already goes first then.
    pub fn board(&mut self, sql: &Arc<str>, call: &Call) -> bool {
        let Some(parameters) = &call.parameters else { return false };
        let in_read_committed = self.isolation() == Some(Isolation::ReadCommitted) && self.status() == b'T';
        if !in_read_committed || self.is_read_only() || !only_inserts(sql) {
            return false;
        }
        let Some(quick) = self.plan_quickly(sql, call) else { return false };
        let Plan::Forward(forward) = &quick.plan else { return false };
        let &[node] = forward.nodes.as_slice() else { return false };
        let version = self.catalog_version;
        let basis = self.basis.take();
        let train = self.train.get_or_insert_with(|| Train {
            sql: sql.clone(),
            call: Call { parameters: None, ..call.clone() },
            catalog_version: version,
            basis,
            cars: Vec::new(),
            bytes: 0,
        });
        let is_like_it = Arc::ptr_eq(&train.sql, sql)
            && train.catalog_version == version
            && train.cars.first().is_none_or(|(_, first)| first.types == parameters.types);
        if !is_like_it {
            return false;
        }
        let bytes = |value: &Option<bytes::Bytes>| VALUE_OVERHEAD_BYTES + value.as_ref().map_or(0, bytes::Bytes::len);
        train.bytes += parameters.values.iter().map(bytes).sum::<usize>();
        train.cars.push((node, parameters.clone()));
        true
    }

    /// Does anything wait?
    pub fn has_train(&self) -> bool {
        self.train.is_some()
    }

    /// Should it not wait any longer?
    pub fn train_is_full(&self) -> bool {
        self.train.as_ref().is_some_and(|train| train.bytes >= BYTES_MAX)
    }

    /// Runs what waits. The block has failed if that ends with an error.
    pub async fn depart(&mut self) -> Result<Arrival> {
        let Some(train) = self.train.take() else { return Ok(Arrival { tags: Vec::new(), error: None }) };
        self.basis.clone_from(&train.basis);
        self.catalog_version = train.catalog_version;
        self.note_write(true);
        self.keep_sequence_state(&train.sql);
        let arrival = self.drive(train).await;
        let (arrival, result) = match arrival {
            Ok(arrival) if arrival.error.is_none() => (arrival, Ok(())),
            Ok(Arrival { tags, error }) => (Arrival { tags, error: None }, error.map_or(Ok(()), Err)),
            Err(error) => return self.conclude(Err(error)).await,
        };
        let error = self.conclude(result).await.err();
        Ok(Arrival { error, ..arrival })
    }

    async fn drive(&mut self, train: Train) -> Result<Arrival> {
        let order: Vec<NodeId> = train.cars.iter().map(|(node, _)| *node).collect();
        let mut by_node: BTreeMap<NodeId, Vec<Arc<Parameters>>> = BTreeMap::new();
        for (node, parameters) in train.cars {
            by_node.entry(node).or_default().push(parameters);
        }
        for (node, own) in by_node {
            self.hold_for(node, Mode::InBlock, true).await?;
            self.sight.touch(node);
            self.link(node)?.start_all(&train.sql, &train.call, own, train.catalog_version);
        }
        let work = self.held.iter_mut().filter(|(node, _)| order.contains(node));
        let results = futures_util::future::join_all(work.map(async |(node, held)| (*node, held.arrive().await))).await;
        let mut results: BTreeMap<NodeId, (std::vec::IntoIter<String>, Option<PgError>)> =
            results.into_iter().map(|(node, (tags, error))| (node, (tags.into_iter(), error))).collect();
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

impl Held {
    /// Queues executions of `sql` with each of these parameters, and one Sync.
    fn start_all(&mut self, sql: &str, call: &Call, all: Vec<Arc<Parameters>>, catalog_version: u64) {
        let Some(first) = all.first() else { return };
        let typed = Call { parameters: Some(first.clone()), ..call.clone() };
        let mut bind = self.bind(sql, &typed, first, catalog_version);
        for parameters in all {
            bind =
                Bind { parameter_formats: parameters.formats.clone(), parameters: parameters.values.clone(), ..bind };
            let out = self.link.connection.out();
            frontend::bind(out, &bind);
            frontend::execute(out, b"", 0);
        }
        self.link.connection.sync();
    }

    /// Sends what is queued and reads the command tags up to ReadyForQuery, or up to the first error.
    async fn arrive(&mut self) -> (Vec<String>, Option<PgError>) {
        let mut tags = Vec::new();
        if let Err(error) = self.flush().await {
            return (tags, Some(error));
        }
        loop {
            match self.next().await {
                Ok(Event::Complete(tag)) => tags.push(tag),
                Ok(Event::Done) => return (tags, None),
                Ok(_) => {}
                Err(error) => return (tags, Some(error)),
            }
        }
    }
}
