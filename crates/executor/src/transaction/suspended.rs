//! A session's transaction and its connections while others work for it on the same nodes.

use crate::block::Block;
use crate::block::suspended::{Read, SuspendedTransaction};
use crate::session::Session;

impl Session {
    /// Rolls a transaction of our own back (nothing is to be kept, and that spares a flush of the log) and returns to the
    /// session's own.
    pub(crate) async fn end_read(&mut self, read: Read) {
        let Read::Own(suspended) = read else { return };
        if self.in_block() {
            self.rollback().await;
        }
        if let Some(suspended) = suspended {
            self.resume(*suspended);
        }
    }

    /// The block's own SETs hold in the other sessions for as long as their transaction.
    pub(crate) fn suspend(&mut self, block: Block) -> Box<SuspendedTransaction> {
        let links = self.links.suspend(block.settings_at_begin());
        Box::new(SuspendedTransaction { block, links })
    }

    /// Undoes [`Session::suspend`].
    pub(crate) fn resume(&mut self, suspended: SuspendedTransaction) {
        self.links.resume(suspended.links);
        self.block = Some(suspended.block);
    }

    /// Swaps the active and the suspended connections, with their blocks. Neither set gains a link until they are swapped back.
    pub(crate) fn swap(&mut self, suspended: &mut SuspendedTransaction) {
        self.links.swap(&mut suspended.links);
        if let Some(block) = &mut self.block {
            std::mem::swap(block, &mut suspended.block);
        }
    }
}
