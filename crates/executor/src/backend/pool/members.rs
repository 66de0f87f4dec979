//! Which datanodes there are, and where they are reached.
//!
//! The cluster's metadata say it (`loxo.node`), each catalog that is read anew. The configuration says where the first of them are,
//! and has the last word on the address of a node it names: that may be another than the one noted when the node was made. A node
//! of that name and another id is another node, which has come since the configuration was read.
//!
//! Invariant: a node that has left is no member from the next catalog on; ids have holes then.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use catalog::{Node, NodeId};
use tokio::sync::watch;

use crate::backend::pool::Address;

/// A datanode as the configuration names it.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Configured {
    pub id: NodeId,
    pub name: String,
    pub address: Address,
}

/// A datanode of the cluster.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: Arc<str>,
    pub(crate) address: Address,
}

/// See the module's page.
pub(crate) struct Members {
    configured: BTreeMap<(NodeId, String), Address>,
    present: RwLock<Arc<BTreeMap<NodeId, Member>>>,
    /// About to become members: statements of our own may go there, nothing else does.
    joining: RwLock<BTreeMap<NodeId, Address>>,
    changes: watch::Sender<()>,
}

impl Members {
    /// Until a catalog is read they are those of the configuration.
    pub(crate) fn new(configured: Vec<Configured>) -> Self {
        let by_id = configured
            .iter()
            .map(|node| (node.id, Member { name: node.name.as_str().into(), address: node.address.clone() }));
        Self {
            present: RwLock::new(Arc::new(by_id.collect())),
            configured: configured.into_iter().map(|node| ((node.id, node.name), node.address)).collect(),
            joining: RwLock::default(),
            changes: watch::Sender::default(),
        }
    }

    /// A copy of these members that follows another catalog.
    pub(crate) fn anew(&self) -> Self {
        Self {
            configured: self.configured.clone(),
            present: RwLock::new(self.present()),
            joining: RwLock::default(),
            changes: watch::Sender::default(),
        }
    }

    /// Those of the catalog.
    pub(crate) fn follow(&self, nodes: &[Node]) {
        let member = |node: &Node| {
            let noted = || Address { host: node.host.clone(), port: node.port };
            let address = self.configured.get(&(node.id, node.name.clone())).cloned().unwrap_or_else(noted);
            (node.id, Member { name: node.name.as_str().into(), address })
        };
        let now: BTreeMap<NodeId, Member> = nodes.iter().map(member).collect();
        let mut present = self.present.write().unwrap_or_else(PoisonError::into_inner);
        if **present != now {
            *present = Arc::new(now);
            self.changes.send_replace(());
        }
    }

    /// Tells when there are other members.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// By id.
    pub(crate) fn present(&self) -> Arc<BTreeMap<NodeId, Member>> {
        self.present.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Does the configuration say where this node is?
    pub(crate) fn is_configured(&self, node: &Node) -> bool {
        self.configured.contains_key(&(node.id, node.name.clone()))
    }

    /// Address of a member, or of a node that is about to become one.
    pub(crate) fn address(&self, node: NodeId) -> Option<Address> {
        let joining = || self.joining.read().unwrap_or_else(PoisonError::into_inner).get(&node).cloned();
        self.present().get(&node).map(|member| member.address.clone()).or_else(joining)
    }

    /// Name of a member; for another node words with its id.
    pub(crate) fn name(&self, node: NodeId) -> Arc<str> {
        self.present().get(&node).map_or_else(|| format!("datanode {}", node.0).into(), |member| member.name.clone())
    }

    /// From here on statements of our own reach this node.
    pub(crate) fn let_join(&self, node: NodeId, address: Address) {
        self.joining.write().unwrap_or_else(PoisonError::into_inner).insert(node, address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datanode_of_a_name_that_another_one_had_is_where_the_metadata_say() {
        let address = |port| Address { host: "h".to_owned(), port };
        let named = |name: &str| name.to_owned();
        let configured = |id, name, port| Configured { id: NodeId(id), name: named(name), address: address(port) };
        let node = |id, name, port| Node {
            id: NodeId(id),
            name: named(name),
            host: "h".to_owned(),
            port,
            primary: id == 0,
            preferred: false,
        };
        let members = Members::new(vec![configured(0, "dn1", 10), configured(3, "dn4", 13)]);
        members.follow(&[node(0, "dn1", 90), node(3, "dn4", 93)]);
        assert_eq!([0, 3].map(|id| members.address(NodeId(id)).map(|address| address.port)), [Some(10), Some(13)]);
        members.follow(&[node(0, "dn1", 90), node(4, "dn4", 94)]);
        assert_eq!([0, 3, 4].map(|id| members.address(NodeId(id)).map(|a| a.port)), [Some(10), None, Some(94)]);
        assert_eq!([3, 4].map(|id| members.name(NodeId(id)).to_string()), ["datanode 3", "dn4"]);
    }
}
