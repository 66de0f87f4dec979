//! A session's transaction and its connections while others work for it on the same nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use catalog::NodeId;

use crate::backend::leased::LeasedConnection;
use crate::session::{Block, Session};

/// Where a read over several nodes runs.
pub(crate) enum Read {
    /// In the session's block as it is.
    InBlock,
    /// In a transaction made for it, while the session's block, if there is one, is put aside.
    Own(Option<Box<SuspendedTransaction>>),
}

/// A session's block and its connections while others read for it.
pub(crate) struct SuspendedTransaction {
    pub(crate) block: Block,
    settings: crate::Settings,
    pub(crate) leased: BTreeMap<NodeId, LeasedConnection>,
    pinned: BTreeSet<NodeId>,
    _counted: Arc<()>,
}

impl Session {
    /// Rolls a transaction of our own back (nothing is to be kept, and that spares a flush of the log) and returns to the
    /// session's own.
    pub(crate) async fn end_read(&mut self, read: Read) {
        let Read::Own(aside) = read else { return };
        if self.in_block() {
            self.rollback().await;
        }
        if let Some(aside) = aside {
            self.resume(*aside);
        }
    }

    /// The block's own SETs hold in the other sessions for as long as their transaction.
    pub(crate) fn suspend(&mut self, block: Block) -> Box<SuspendedTransaction> {
        let settings = self.settings().clone();
        self.settings_mut().go_back_to(block.settings_at_begin());
        self.cancel.rest(&self.leased);
        let pinned = std::mem::take(&mut self.pinned);
        Box::new(SuspendedTransaction {
            block,
            settings,
            leased: std::mem::take(&mut self.leased),
            pinned,
            _counted: self.suspended_transactions.clone(),
        })
    }

    /// Undoes [`Session::suspend`].
    pub(crate) fn resume(&mut self, aside: SuspendedTransaction) {
        // Those that were not let go of: nobody will ask what is left in them.
        for (node, leased) in std::mem::take(&mut self.leased) {
            self.give_back(node, leased);
        }
        *self.settings_mut() = aside.settings;
        // What is left of the others is closed.
        self.leased.keys().for_each(|node| _ = self.cancel.remove(*node));
        self.block = Some(aside.block);
        self.cancel.wake(&aside.leased);
        self.leased = aside.leased;
        self.pinned = aside.pinned;
    }

    /// Does the session hold connections that rest?
    pub(crate) fn has_suspended(&self) -> bool {
        Arc::strong_count(&self.suspended_transactions) > 1
    }

    /// What rests works, and the other way round. No link joins either until they are swapped back.
    pub(crate) fn swap(&mut self, aside: &mut SuspendedTransaction) {
        std::mem::swap(&mut self.leased, &mut aside.leased);
        self.cancel.rest(&aside.leased);
        self.cancel.wake(&self.leased);
        std::mem::swap(&mut self.pinned, &mut aside.pinned);
        std::mem::swap(self.settings_mut(), &mut aside.settings);
        if let Some(block) = &mut self.block {
            std::mem::swap(block, &mut aside.block);
        }
    }
}
