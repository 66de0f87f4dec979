//! Partition buffers: rows that wait for the nodes they go to.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use catalog::NodeId;
use pgerror::{PgError, Result};

use crate::backend::request::frame_bodies;
use crate::engine::mover::rows::{FRAME_BYTES, put_row};
use crate::engine::row_router::{Destination, RowRouter};

/// See the module's page.
pub(crate) struct Partitions<'r> {
    router: RowRouter<'r>,
    waiting: BTreeMap<NodeId, Waiting>,
    /// Rows that all of these nodes get, and do not have in their buffers yet.
    common: (BytesMut, &'r [NodeId]),
    rows: usize,
    bytes: usize,
}

#[derive(Default)]
struct Waiting {
    own: BytesMut,
    /// Shared with the other nodes of a broadcast.
    shared: Vec<Bytes>,
    shared_bytes: usize,
}

impl<'r> Partitions<'r> {
    pub(crate) fn new(router: RowRouter<'r>, targets: impl IntoIterator<Item = NodeId>) -> Self {
        let waiting = targets.into_iter().map(|node| (node, Waiting::default())).collect();
        Self { router, waiting, common: Default::default(), rows: 0, bytes: 0 }
    }

    /// Takes a run of DataRow frames; gives the number of its rows and their bytes.
    pub(crate) fn add(&mut self, run: &Bytes) -> Result<(usize, usize)> {
        let (mut rows, mut bytes) = (0, 0);
        for body in frame_bodies(run) {
            let buffer = match self.router.destination(body)? {
                Destination::One(node) => {
                    let lost = || PgError::internal("rows for a node that takes no part in an exchange");
                    &mut self.waiting.get_mut(&node).ok_or_else(lost)?.own
                }
                Destination::All(nodes) => {
                    self.common.1 = nodes;
                    &mut self.common.0
                }
            };
            put_row(body, self.router.is_binary(), buffer)?;
            rows += 1;
            bytes += body.len();
        }
        if self.common.0.len() >= FRAME_BYTES {
            self.share();
        }
        self.rows += rows;
        self.bytes += bytes;
        Ok((rows, bytes))
    }

    fn share(&mut self) {
        let rows = self.common.0.split().freeze();
        for (_, waiting) in self.waiting.iter_mut().filter(|(node, _)| self.common.1.contains(node)) {
            waiting.shared_bytes += rows.len();
            waiting.shared.push(rows.clone());
        }
    }

    /// Bytes that wait for a node.
    pub(crate) fn waiting(&self, node: NodeId) -> usize {
        let common = if self.common.1.contains(&node) { self.common.0.len() } else { 0 };
        self.waiting.get(&node).map_or(0, |waiting| waiting.own.len() + waiting.shared_bytes + common)
    }

    /// Bytes that wait for the node that has most of them.
    pub(crate) fn most(&self) -> usize {
        self.waiting.keys().map(|node| self.waiting(*node)).max().unwrap_or(0)
    }

    /// What waits for a node.
    pub(crate) fn take(&mut self, node: NodeId) -> Vec<Bytes> {
        if self.common.1.contains(&node) && !self.common.0.is_empty() {
            self.share();
        }
        let Some(waiting) = self.waiting.get_mut(&node) else { return Vec::new() };
        let mut rows = std::mem::take(&mut waiting.shared);
        waiting.shared_bytes = 0;
        if !waiting.own.is_empty() {
            rows.push(waiting.own.split().freeze());
        }
        rows
    }

    /// How many rows like those so far make up so many bytes.
    pub(crate) fn rows_for(&self, bytes: usize) -> usize {
        bytes / self.bytes.checked_div(self.rows).unwrap_or(0).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use planner::Route;

    fn run(keys: impl Iterator<Item = i64>) -> Bytes {
        let mut rows = BytesMut::new();
        for key in keys {
            pgproto::backend::data_row(&mut rows, [Some(&key.to_be_bytes()[..])].into_iter());
        }
        rows.freeze()
    }

    #[test]
    fn a_repartitioned_row_waits_for_one_node_and_a_broadcast_one_for_all() {
        let map = std::sync::Arc::new(placement::BucketMap::round_robin(&[0, 1]));
        let nodes = vec![NodeId(0), NodeId(1)];
        let key = vec![(planner::KeySource::Column(0), placement::KeyType::Int8)];
        let hash = Route::Hash { key, map, nodes: nodes.clone() };
        let mut partitions = Partitions::new(RowRouter::new(&hash, true, 0), nodes.clone());
        let row_bytes = 2 + 4 + 8;
        assert_eq!(partitions.add(&run(0..1000)).unwrap(), (1000, 1000 * row_bytes));
        assert_eq!(partitions.rows_for(8 << 20), (8 << 20) / row_bytes);
        let sizes: Vec<usize> = nodes.iter().map(|node| partitions.waiting(*node)).collect();
        assert_eq!(sizes.iter().sum::<usize>(), 1000 * row_bytes);
        assert!(sizes.iter().all(|size| *size > 300 * row_bytes), "{sizes:?}");
        assert_eq!(partitions.take(nodes[0]).concat().len(), sizes[0]);
        assert_eq!((partitions.waiting(nodes[0]), partitions.most()), (0, sizes[1]));

        let all = Route::Replicated { nodes: nodes.clone() };
        let mut partitions = Partitions::new(RowRouter::new(&all, true, 0), nodes.clone());
        partitions.add(&run(0..10)).unwrap();
        for node in nodes {
            assert_eq!(partitions.waiting(node), 10 * row_bytes);
            assert_eq!(partitions.take(node).concat().len(), 10 * row_bytes);
        }
        assert_eq!(partitions.most(), 0);
        assert!(Partitions::new(RowRouter::new(&hash, true, 0), []).add(&run(0..10)).is_err());
    }
}
