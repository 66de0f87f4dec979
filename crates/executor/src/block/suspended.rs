//! A session's transaction and its connections while others work for it on the same nodes.

use crate::backend::links::SuspendedLinks;
use crate::block::Block;

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
    pub(crate) links: SuspendedLinks,
}
