//! Which sessions may hold connections to datanodes at all.
//!
//! A session whose transaction is over several nodes holds connections to some while it waits for one to another. If all connections
//! are with such sessions each waits for the others, for ever. So a session is admitted before it takes its first connection, and
//! no more are admitted than can have one to *every* node:
//!
//! ```text
//!  on each node:   sessions in a transaction  +  sessions with one statement on this node alone  <=  slots
//! ```
//!
//! A session in a transaction then never waits for a first connection to a node. A statement on one node alone needs no other,
//! so it counts there only. A session that is not admitted waits in line and holds nothing, but for statements that turn out to
//! need a second node: these wait with the connection that they have, before all others. A part of the slots ([`PER_RESERVED`]) is
//! not for statements on one node, so that there is always a session that does not wait.
//!
//! Sessions are admitted in the order of arrival, with two exceptions. A statement on one node does not wait for one on another.
//! And as large a part of the slots is for statements on one node alone, which need not wait for those of many nodes that came
//! before them: what the latter take grows with the number of nodes, a read of one row takes a moment.
//!
//! The pool has some connections more, for second ones to a node (rows that are exchanged beside a transaction) and for the
//! coordinator itself: a session gives one of these back with its statement.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use catalog::NodeId;
use pgerror::{PgError, Result, SqlState};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout_at};

/// Longest wait in a line that does not move.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// One slot in so many is for sessions that may go to any node, and one at least; and one for statements on one node, if there are
/// so many.
const PER_RESERVED: usize = 8;

/// What a session is admitted for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Need {
    /// A statement on this node.
    One(NodeId),
    /// A connection to each node.
    Any,
}

/// See the module's page.
pub(crate) struct Admission {
    state: Mutex<State>,
    /// Somebody has given back the right to connections.
    left: Notify,
    /// Held by the task that gives the pool another size.
    pub(crate) fitting: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    slots: usize,
    /// The pool's own size, which is still the larger number while one that shrinks waits for sessions.
    room: usize,
    /// Admitted for any node.
    any: usize,
    /// Admitted for one.
    one: HashMap<NodeId, usize>,
    any_line: VecDeque<Waiting>,
    one_lines: HashMap<NodeId, VecDeque<Waiting>>,
    arrivals: u64,
    /// When somebody was last admitted out of a line.
    moved: HashMap<Need, Instant>,
    /// Those who are admitted for one node and need any.
    widening: VecDeque<(NodeId, oneshot::Sender<Ticket>)>,
}

struct Waiting {
    /// Lower than that of later sessions.
    arrival: u64,
    admit: oneshot::Sender<Ticket>,
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
        self.admission.left.notify_waiters();
        tell(admitted);
    }
}

fn tell(admitted: Vec<(Ticket, oneshot::Sender<Ticket>)>) {
    for (ticket, waiting) in admitted {
        // If the receiver is gone, dropping the ticket gives it back.
        let _ = waiting.send(ticket);
    }
}

fn reserved(slots: usize) -> usize {
    (slots / PER_RESERVED).max(1)
}

/// For statements on one node.
fn kept(slots: usize) -> usize {
    slots / PER_RESERVED
}

impl State {
    fn need(&self, node: NodeId, is_only: bool) -> Need {
        match is_only && reserved(self.slots) < self.slots {
            true => Need::One(node),
            false => Need::Any,
        }
    }

    /// Is there room for it now?
    fn fits(&self, need: Need) -> bool {
        let slots = self.slots;
        match need {
            Need::Any => self.any + kept(slots) < slots && self.any + self.most_on_one_node() < slots,
            Need::One(node) => {
                let there = self.admitted_for(node);
                self.any + there < slots && there + reserved(slots) < slots
            }
        }
    }

    fn admitted_for(&self, node: NodeId) -> usize {
        self.one.get(&node).copied().unwrap_or(0)
    }

    fn most_on_one_node(&self) -> usize {
        self.one.values().max().copied().unwrap_or(0)
    }

    /// Need a session that comes, or came, at `arrival` wait for no earlier one?
    fn is_next(&self, need: Need, arrival: u64) -> bool {
        let before = |line: &VecDeque<Waiting>| line.front().is_some_and(|waiting| waiting.arrival < arrival);
        match need {
            Need::Any => !before(&self.any_line) && !self.one_lines.values().any(before),
            Need::One(node) => {
                let is_first = !self.one_lines.get(&node).is_some_and(before);
                is_first && (!before(&self.any_line) || self.admitted_for(node) < kept(self.slots))
            }
        }
    }

    /// Takes a session that can be admitted now out of the lines.
    fn pop(&mut self) -> Option<(Need, oneshot::Sender<Ticket>)> {
        let fronts = (self.any_line.front().map(|waiting| (Need::Any, waiting.arrival)).into_iter())
            .chain(self.one_lines.iter().filter_map(|(node, line)| Some((Need::One(*node), line.front()?.arrival))));
        let mut fitting = fronts.filter(|(need, arrival)| self.fits(*need) && self.is_next(*need, *arrival));
        let (need, _) = fitting.next()?;
        let waiting = self.line(need).pop_front()?;
        Some((need, waiting.admit))
    }

    fn line(&mut self, need: Need) -> &mut VecDeque<Waiting> {
        match need {
            Need::Any => &mut self.any_line,
            Need::One(node) => self.one_lines.entry(node).or_default(),
        }
    }

    /// May one of those on this node go to any?
    fn grows(&self, node: NodeId) -> bool {
        let but_own = self.one.iter().map(|(of, count)| if *of == node { count.saturating_sub(1) } else { *count });
        // A session that holds a connection already is let on as long as the pool has one: others wait for it to end.
        self.any + but_own.max().unwrap_or(0) < self.room.max(self.slots)
    }

    /// Are more admitted than there would be room for now?
    fn is_overfull(&self) -> bool {
        self.any + self.most_on_one_node() > self.slots
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
        let slots = connections_max.max(1);
        let state = State { slots, room: slots, ..State::default() };
        Arc::new(Self { state: Mutex::new(state), left: Notify::new(), fitting: tokio::sync::Mutex::default() })
    }

    /// For a pool of another size from here on, once this one has that size.
    pub(crate) fn set_slots(self: &Arc<Self>, connections_max: usize) {
        let admitted = {
            let mut state = self.lock();
            state.slots = connections_max.max(1);
            self.admit(&mut state)
        };
        // Whoever waits for the size of before looks again.
        self.left.notify_waiters();
        tell(admitted);
    }

    /// Returns the size that the pool may have now: no more sessions are admitted than it has room for, each of which may need a
    /// connection to each node before it ends.
    pub(crate) async fn settled(&self) -> usize {
        loop {
            let left = self.left.notified();
            tokio::pin!(left);
            left.as_mut().enable();
            {
                let mut state = self.lock();
                if !state.is_overfull() {
                    state.room = state.slots;
                    return state.slots;
                }
            }
            left.await;
        }
    }

    /// How many stand in line.
    pub(crate) fn waiting(&self) -> usize {
        let state = self.lock();
        state.any_line.len() + state.one_lines.values().map(VecDeque::len).sum::<usize>() + state.widening.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those for whom there is room now.
    fn admit(self: &Arc<Self>, state: &mut State) -> Vec<(Ticket, oneshot::Sender<Ticket>)> {
        let (mut admitted, now) = (Vec::new(), Instant::now());
        while let Some((node, _)) = state.widening.front()
            && state.grows(*node)
        {
            let Some((_, waiting)) = state.widening.pop_front() else { break };
            state.count(Need::Any);
            state.moved.insert(Need::Any, now);
            admitted.push((Ticket { admission: self.clone(), need: Need::Any }, waiting));
        }
        while state.widening.is_empty()
            && let Some((need, waiting)) = state.pop()
        {
            state.count(need);
            state.moved.insert(need, now);
            admitted.push((Ticket { admission: self.clone(), need }, waiting));
        }
        admitted
    }

    async fn enter(self: &Arc<Self>, need: Need) -> Option<Ticket> {
        let waiting = {
            let mut state = self.lock();
            if let Some(ticket) = self.next(&mut state, need) {
                return Some(ticket);
            }
            let (admit, waiting) = oneshot::channel();
            let arrival = state.arrivals;
            state.line(need).push_back(Waiting { arrival, admit });
            waiting
        };
        waiting.await.ok()
    }

    /// A ticket for a session that comes now and need not wait.
    fn next(self: &Arc<Self>, state: &mut State, need: Need) -> Option<Ticket> {
        state.arrivals += 1;
        let can_enter = state.widening.is_empty() && state.fits(need);
        (can_enter && state.is_next(need, state.arrivals)).then(|| {
            state.count(need);
            Ticket { admission: self.clone(), need }
        })
    }

    /// [`admit`] of a session without a ticket; `None` if it has to wait.
    pub(crate) fn admit_at_once(self: &Arc<Self>, node: NodeId, is_only: bool) -> Option<Ticket> {
        let mut state = self.lock();
        let need = state.need(node, is_only);
        self.next(&mut state, need)
    }

    pub(crate) fn slots(&self) -> usize {
        self.lock().slots
    }
}

impl Admission {
    /// A second ticket for a session that is admitted for this node, and stays so until the other ticket is dropped.
    async fn grow(self: &Arc<Self>, node: NodeId) -> Option<Ticket> {
        let waiting = {
            let mut state = self.lock();
            if state.widening.is_empty() && state.grows(node) {
                state.count(Need::Any);
                return Some(Ticket { admission: self.clone(), need: Need::Any });
            }
            let (admit, waiting) = oneshot::channel();
            state.widening.push_back((node, admit));
            waiting
        };
        waiting.await.ok()
    }

    /// When a session that came at `came` and is still in line gives up. That others were many is no reason as long as they move
    /// on: the wait is then for the client to limit, by `statement_timeout`.
    fn patience_ends(&self, need: Need, came: Instant) -> Instant {
        let moved = self.lock().moved.get(&need).copied();
        moved.map_or(came, |moved| moved.max(came)) + WAIT_MAX
    }
}

/// To be called before a session takes a connection to a node, `is_only` if it holds none and needs it for one statement there only.
///
/// # Errors
/// 53300 after a long wait in which nobody else was admitted either.
pub(crate) async fn admit(
    admission: &Arc<Admission>,
    ticket: Option<&Ticket>,
    node: NodeId,
    is_only: bool,
    max: usize,
) -> Result<Option<Ticket>> {
    let need = admission.lock().need(node, is_only);
    let has = ticket.map(|ticket| ticket.need);
    if has.is_some_and(|has| [Need::Any, need].contains(&has)) {
        return Ok(None);
    }
    let enter = async {
        match has {
            Some(Need::One(node)) if need == Need::Any => admission.grow(node).await,
            _ => admission.enter(need).await,
        }
    };
    let mut enter = std::pin::pin!(enter);
    let came = Instant::now();
    loop {
        let end = admission.patience_ends(need, came);
        match timeout_at(end, &mut enter).await {
            Ok(Some(ticket)) => return Ok(Some(ticket)),
            Err(_) if end < admission.patience_ends(need, came) => {}
            _ => return Err(not_admitted(max)),
        }
    }
}

fn not_admitted(max: usize) -> PgError {
    PgError::new(SqlState::TOO_MANY_CONNECTIONS, format!("all {max} connections to the datanodes are in use"))
        .hint("Raise max_connections of the datanodes and pool_size of the coordinators, or use fewer clients.")
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
    fn statements_that_need_a_second_node_do_not_wait_for_each_other() {
        let (here, there) = (NodeId(0), NodeId(1));
        for slots in [2, 3, 4, 60] {
            let admission = Admission::new(slots);
            let enter = |need| admission.enter(need).now_or_never().flatten();
            let each = (0..slots - reserved(slots)).flat_map(|_| [here, there]);
            let tickets: Vec<Ticket> = each.map(|node| enter(Need::One(node)).expect("a slot")).collect();
            // All of them need another node, and somebody queues for a first one.
            let mut behind = Box::pin(admission.enter(Need::One(here)));
            assert!(behind.as_mut().now_or_never().is_none());
            let mut waiting: Vec<_> =
                tickets.into_iter().map(|ticket| (Box::pin(admission.grow(node_of(&ticket))), ticket)).collect();
            while !waiting.is_empty() {
                let before = waiting.len();
                waiting.retain_mut(|(grown, _)| grown.as_mut().now_or_never().is_none());
                assert!(waiting.len() < before, "{slots} slots: {before} wait for each other");
            }
            assert!(behind.now_or_never().flatten().is_some());
        }
    }

    #[test]
    fn statements_on_one_node_do_not_wait_for_all_that_need_many() {
        let admission = Admission::new(16);
        let enter = |need| admission.enter(need).now_or_never().flatten();
        let inside: Vec<Ticket> = (0..14).map(|_| enter(Need::Any).expect("a slot")).collect();
        let mut many: Vec<_> = (0..100).map(|_| Box::pin(admission.enter(Need::Any))).collect();
        assert!(many.iter_mut().all(|waiting| waiting.as_mut().now_or_never().is_none()));
        let first = enter(Need::One(NodeId(0)));
        let second = enter(Need::One(NodeId(0)));
        assert!(first.is_some() && second.is_some());
        // The next one waits for one of these two, as there are no more slots; on another node there are.
        let mut third = Box::pin(admission.enter(Need::One(NodeId(0))));
        assert!(third.as_mut().now_or_never().is_none());
        assert!(enter(Need::One(NodeId(1))).is_some());
        drop(second);
        assert!(third.now_or_never().flatten().is_some());
        // They have taken nothing from those that need many nodes.
        drop(inside);
        let admitted: Vec<Ticket> =
            many.iter_mut().filter_map(|waiting| waiting.as_mut().now_or_never().flatten()).collect();
        assert_eq!(admitted.len(), 14);
    }

    #[test]
    fn whoever_stands_in_a_line_that_moves_goes_on_waiting() {
        let admission = Admission::new(16);
        let enter = |need| admission.enter(need).now_or_never().flatten();
        let came = Instant::now();
        let ends = |need| admission.patience_ends(need, came);
        let inside: Vec<Ticket> = (0..14).map(|_| enter(Need::Any).expect("a slot")).collect();
        let mut waiting = Box::pin(admission.enter(Need::Any));
        assert!(waiting.as_mut().now_or_never().is_none());
        // A statement that need not stand in line says nothing of those that do.
        assert!(enter(Need::One(NodeId(0))).is_some());
        assert_eq!(ends(Need::Any), came + WAIT_MAX);
        drop(inside);
        assert!(waiting.now_or_never().flatten().is_some());
        assert!(ends(Need::Any) > came + WAIT_MAX);
        assert_eq!(ends(Need::One(NodeId(0))), came + WAIT_MAX);
    }

    fn node_of(ticket: &Ticket) -> NodeId {
        match ticket.need {
            Need::One(node) => node,
            Need::Any => panic!("it is admitted for any"),
        }
    }

    #[test]
    fn who_gives_up_waiting_leaves_the_line() {
        let admission = Admission::new(1);
        let first = admission.enter(Need::Any).now_or_never().flatten();
        assert!(admission.enter(Need::Any).now_or_never().is_none());
        drop(first);
        assert!(admission.enter(Need::Any).now_or_never().flatten().is_some());
    }

    #[test]
    fn who_is_inside_stays_when_there_are_fewer_slots() {
        let admission = Admission::new(3);
        let enter = || admission.enter(Need::Any).now_or_never().flatten();
        let mut inside: Vec<Ticket> = (0..3).map(|_| enter().expect("a slot")).collect();
        let mut waiting = Box::pin(admission.enter(Need::Any));
        assert!(waiting.as_mut().now_or_never().is_none());
        admission.set_slots(2);
        let mut smaller = Box::pin(admission.settled());
        assert!(smaller.as_mut().now_or_never().is_none());
        inside.pop();
        assert!(smaller.now_or_never().is_some());
        assert!(waiting.as_mut().now_or_never().is_none());
        admission.set_slots(3);
        assert_eq!(admission.settled().now_or_never(), Some(3));
        assert!(waiting.now_or_never().flatten().is_some());
    }
}
