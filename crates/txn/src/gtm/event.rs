//! What the hub hears of: from coordinators, the upkeep, the watch for deadlocks and the election of a leader.

use tokio::sync::mpsc;

use super::deadlock::Request;
use super::global_snapshots::Seen;
use super::message::Message;
use crate::gid::Gid;

pub(super) type ClientId = u64;

pub(super) enum Event {
    Joined {
        client: ClientId,
        name: String,
        outbox: mpsc::Sender<Message>,
    },
    Said {
        client: ClientId,
        message: Message,
    },
    Left {
        client: ClientId,
        end: End,
    },
    /// The upkeep has raised the generation of all datanodes.
    Bumped {
        generation: u64,
    },
    /// … and recovery has finished what it could of what was decided before, all but these.
    Fenced {
        fences: u64,
        unresolved: Vec<(Gid, u16)>,
    },
    /// A pass of recovery is over.
    Seen(Seen),
    /// What the watch for deadlocks wants.
    Deadlock(Request),
    /// This gtm led at some time after the look of this number was asked for.
    Leading {
        look: u64,
    },
}

/// How a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The coordinator has said goodbye.
    Goodbye,
    /// The coordinator closed it; a lease it gives up before that.
    ByPeer,
    /// By us, or nobody knows: it may go on for as long as it has a lease.
    ByUs,
}
