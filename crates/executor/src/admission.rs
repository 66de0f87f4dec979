//! Who may hold connections to datanodes at all.
//!
//! A session whose transaction is over several nodes holds connections to some while it waits for one to another. If all connections
//! are with such sessions each waits for the others, for ever. So a session is admitted before it takes its first connection, and
//! no more are admitted than can have one to *every* node:
//!
//! ```text
//!  on each node:   sessions in a transaction  +  sessions with one statement on this node alone  <=  slots
//! ```
//!
//! Whoever is in a transaction then never waits for a first connection to a node. A statement on one node alone needs no other,
//! so it counts there only. Who is not admitted waits in line and holds nothing meanwhile.
//!
//! The pool has some connections more, for second ones to a node (rows that are exchanged beside a transaction) and for the
//! coordinator itself: whoever has one of these gives it back with his statement.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use catalog::NodeId;
use pgerror::{PgError, Result, SqlState};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::session::Session;

/// Longest wait in line.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// What a session is admitted for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Need {
    /// A statement on this node.
    One(NodeId),
    /// A connection to each node.
    Any,
}

/// See the module's page.
pub(crate) struct Admission {
    slots: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Admitted for any node.
    any: usize,
    /// Admitted for one.
    one: HashMap<NodeId, usize>,
    line: VecDeque<(Need, oneshot::Sender<Ticket>)>,
}

/// The right to hold connections; the drop gives it back.
#[must_use]
pub(crate) struct Ticket {
    admission: Arc<Admission>,
    need: Need,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let admitted = {
            let mut state = self.admission.lock();
            match self.need {
                Need::Any => state.any -= 1,
                Need::One(node) => *state.one.entry(node).or_default() -= 1,
            }
            self.admission.admit(&mut state)
        };
        for (ticket, waiting) in admitted {
            // Who has gone meanwhile gives it back by this.
            let _ = waiting.send(ticket);
        }
    }
}

impl State {
    fn fits(&self, need: Need, slots: usize) -> bool {
        let busiest = match need {
            Need::Any => self.one.values().max().copied(),
            Need::One(node) => self.one.get(&node).copied(),
        };
        self.any + busiest.unwrap_or(0) < slots
    }

    fn count(&mut self, need: Need) {
        match need {
            Need::Any => self.any += 1,
            Need::One(node) => *self.one.entry(node).or_default() += 1,
        }
    }
}

impl Admission {
    /// For a pool of so many connections to each node.
    pub(crate) fn new(connections_max: usize) -> Arc<Self> {
        Arc::new(Self { slots: connections_max.max(1), state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those at the head of the line for whom there is room now, in the order in which they came.
    fn admit(self: &Arc<Self>, state: &mut State) -> Vec<(Ticket, oneshot::Sender<Ticket>)> {
        let mut admitted = Vec::new();
        while let Some((need, _)) = state.line.front()
            && state.fits(*need, self.slots)
        {
            let Some((need, waiting)) = state.line.pop_front() else { break };
            state.count(need);
            admitted.push((Ticket { admission: self.clone(), need }, waiting));
        }
        admitted
    }

    async fn enter(self: &Arc<Self>, need: Need) -> Option<Ticket> {
        let waiting = {
            let mut state = self.lock();
            if state.line.is_empty() && state.fits(need, self.slots) {
                state.count(need);
                return Some(Ticket { admission: self.clone(), need });
            }
            let (admit, waiting) = oneshot::channel();
            state.line.push_back((need, admit));
            waiting
        };
        waiting.await.ok()
    }
}

impl Session {
    /// To be called before a connection to a node is taken.
    pub(crate) async fn be_admitted(&mut self, node: NodeId) -> Result<()> {
        let is_first = self.held.is_empty() && !self.has_put_aside();
        let need = match self.block.is_none() && is_first {
            true => Need::One(self.place(node)),
            false => Need::Any,
        };
        if self.ticket.as_ref().is_some_and(|ticket| [Need::Any, need].contains(&ticket.need)) {
            return Ok(());
        }
        let enter = timeout(WAIT_MAX, self.context.admission.enter(need));
        match self.cancel.interrupt().or(enter).await? {
            Ok(Some(ticket)) => self.ticket = Some(ticket),
            _ => return Err(self.not_admitted()),
        }
        Ok(())
    }

    /// To be called when connections were given back.
    pub(crate) fn leave_if_empty(&mut self) {
        if self.block.is_none() && self.held.is_empty() && !self.has_put_aside() {
            self.ticket = None;
        }
    }

    fn not_admitted(&self) -> PgError {
        let max = self.context.pool.connections_max();
        PgError::new(SqlState::TOO_MANY_CONNECTIONS, format!("all {max} connections to the datanodes are in use"))
            .hint("Raise max_connections of the datanodes and pool_size of the coordinators, or use fewer clients.")
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn whoever_is_in_a_transaction_finds_a_connection_to_every_node() {
        let admission = Admission::new(2);
        let enter = |need| admission.enter(need).now_or_never().flatten();
        let (first, second) = (enter(Need::Any), enter(Need::One(NodeId(0))));
        assert!(first.is_some() && second.is_some());
        // On the second node there is room, but not for one that may go to the first.
        let third = enter(Need::One(NodeId(1)));
        assert!(third.is_some());
        let mut waiting = Box::pin(admission.enter(Need::Any));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(second);
        assert!(waiting.as_mut().now_or_never().is_none());
        // Nobody overtakes those in line.
        let mut behind = Box::pin(admission.enter(Need::One(NodeId(0))));
        assert!(behind.as_mut().now_or_never().is_none());
        drop(third);
        let fourth = waiting.now_or_never().flatten();
        assert!(fourth.is_some());
        drop(first);
        assert!(behind.now_or_never().flatten().is_some());
    }

    #[test]
    fn who_gives_up_waiting_leaves_the_line() {
        let admission = Admission::new(1);
        let first = admission.enter(Need::Any).now_or_never().flatten();
        assert!(admission.enter(Need::Any).now_or_never().is_none());
        drop(first);
        assert!(admission.enter(Need::Any).now_or_never().flatten().is_some());
    }
}
