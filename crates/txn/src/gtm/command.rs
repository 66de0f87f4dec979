//! What the task that keeps the connection to the gtm is asked for, by the gate and by statements.

use bytes::Bytes;
use pgerror::Result;
use tokio::sync::oneshot;

use crate::gate::Exposed;

/// What the background task is asked for.
pub(crate) enum Command {
    Invalidate { request: u64, ready: oneshot::Sender<Result<()>> },
    Finish { request: u64 },
    Snapshot { request: u64, answer: oneshot::Sender<Answer> },
    Taken { request: u64 },
    Unresolved(Exposed),
    Ask { request: u64, question: Bytes, replies: oneshot::Sender<Replies> },
}

/// The answers of all coordinators, and how many have given none.
pub(super) type Replies = (Vec<Bytes>, u16);

/// What becomes of a request.
pub(crate) enum Answer {
    Granted { generation: u64, barrier: u64, unresolved: Vec<u16> },
    Failed,
}
