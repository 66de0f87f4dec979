//! The wait-for graph, and the circles in it. Pure.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::look::Wait;
use super::{Backend, DeadlockVictim, Owner};

/// A session of a coordinator, or a backend that stands for itself (see the page of [`super`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Vertex {
    /// A session of the coordinator that is this client of the gtm.
    Session {
        client: u64,
        session: u64,
    },
    Backend(Backend),
}

/// `from` waits, through one of its backends, for `to`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Edge {
    from: Vertex,
    to: Vertex,
    /// The backend that waits.
    backend: Backend,
    waiter: i32,
    since_us: i64,
    what: String,
    /// The backend that is waited for.
    blocker: Backend,
}

/// A circle with the session that has to give way.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Deadlock {
    /// The victim's coordinator, as a client of the gtm.
    pub(crate) client: u64,
    pub(crate) chosen: DeadlockVictim,
}

/// What one look has found.
#[derive(Default)]
pub(crate) struct Graph {
    edges: BTreeSet<Edge>,
    began_us: BTreeMap<Vertex, u64>,
}

impl Graph {
    /// `owners` with the client that knows them.
    pub(crate) fn new(waits: &[Wait], owners: &[(u64, Owner)]) -> Self {
        let mut graph = Self::default();
        let mut owned = BTreeMap::new();
        for (client, owner) in owners {
            let vertex = Vertex::Session { client: *client, session: owner.session };
            graph.began_us.insert(vertex, owner.began_us);
            owned.extend(owner.backends.iter().map(|(backend, in_transaction)| (*backend, (vertex, *in_transaction))));
        }
        for wait in waits {
            let holder = |backend: Backend| match owned.get(&backend) {
                Some((session, in_transaction)) if *in_transaction || wait.is_advisory => *session,
                _ => Vertex::Backend(backend),
            };
            let node = wait.backend.node;
            let blockers: Vec<Backend> = wait.blockers.iter().map(|pid| Backend { node, pid: *pid }).collect();
            // The session depends on its backend's wait, and so does a session that waits for that backend alone.
            let waiting = [Some(Vertex::Backend(wait.backend)), owned.get(&wait.backend).map(|(session, _)| *session)];
            for from in waiting.into_iter().flatten() {
                graph.edges.extend(blockers.iter().map(|blocker| Edge::new(wait, from, holder(*blocker), *blocker)));
            }
        }
        graph
    }

    /// Without the sessions that give way in these: what is left of their waits at the next look is none to break again. All others are
    /// remembered, however many circles there are elsewhere.
    pub(crate) fn without_victims(mut self, found: &[Deadlock]) -> Self {
        let victims: BTreeSet<Vertex> = found
            .iter()
            .map(|deadlock| Vertex::Session { client: deadlock.client, session: deadlock.chosen.session })
            .collect();
        self.edges.retain(|edge| !victims.contains(&edge.from) && !victims.contains(&edge.to));
        self
    }

    /// Those circles that `earlier` had already, each with a victim: the transaction that began last. Each circle has one
    /// victim, and none a second that the first one's end would spare.
    pub(crate) fn deadlocks(&self, earlier: &Graph) -> Vec<Deadlock> {
        let mut edges: BTreeSet<Edge> = self.edges.intersection(&earlier.edges).cloned().collect();
        let mut found = Vec::new();
        loop {
            drop_dead_ends(&mut edges);
            let Some(circle) = walk_a_circle(&edges) else { return found };
            let youngest = circle.iter().max_by_key(|edge| (self.began_us.get(&edge.from), edge.from));
            match youngest {
                Some(Edge {
                    from: victim @ Vertex::Session { client, session }, backend, waiter, since_us, ..
                }) if !is_local(&circle) => {
                    let detail = detail(&circle);
                    let (backend, waiter, since_us) = (*backend, *waiter, *since_us);
                    let chosen = DeadlockVictim { session: *session, backend, waiter, since_us, detail };
                    found.push(Deadlock { client: *client, chosen });
                    edges.retain(|edge| edge.from != *victim && edge.to != *victim);
                }
                // PostgreSQL's own business.
                _ => edges.retain(|edge| !circle.contains(edge)),
            }
        }
    }
}

impl Edge {
    fn new(wait: &Wait, from: Vertex, to: Vertex, blocker: Backend) -> Self {
        let Wait { backend, waiter, since_us, what, .. } = wait;
        Self { from, to, backend: *backend, waiter: *waiter, since_us: *since_us, what: what.clone(), blocker }
    }
}

/// Leaves only edges from which a circle can be reached. Linear in their number: a queue behind one row may be long.
fn drop_dead_ends(edges: &mut BTreeSet<Edge>) {
    let mut ways_out: BTreeMap<Vertex, usize> = BTreeMap::new();
    let mut comes_from: BTreeMap<Vertex, Vec<Vertex>> = BTreeMap::new();
    for edge in edges.iter() {
        *ways_out.entry(edge.from).or_default() += 1;
        ways_out.entry(edge.to).or_default();
        comes_from.entry(edge.to).or_default().push(edge.from);
    }
    let is_end = |ways: &usize| *ways == 0;
    let mut ends: VecDeque<Vertex> = ways_out.iter().filter(|(_, ways)| is_end(ways)).map(|(v, _)| *v).collect();
    while let Some(end) = ends.pop_front() {
        for vertex in comes_from.remove(&end).unwrap_or_default() {
            if let Some(ways) = ways_out.get_mut(&vertex) {
                *ways -= 1;
                if is_end(ways) {
                    ends.push_back(vertex);
                }
            }
        }
    }
    edges.retain(|edge| ways_out.get(&edge.to).is_some_and(|ways| !is_end(ways)));
}

/// Follows edges until a vertex comes again. There must be no dead ends.
fn walk_a_circle(edges: &BTreeSet<Edge>) -> Option<Vec<Edge>> {
    let next: BTreeMap<Vertex, &Edge> = edges.iter().rev().map(|edge| (edge.from, edge)).collect();
    let mut path: Vec<&Edge> = vec![edges.first()?];
    loop {
        let at = path.last()?.to;
        if let Some(start) = path.iter().position(|edge| edge.from == at) {
            return Some(path.split_off(start).into_iter().cloned().collect());
        }
        path.push(next.get(&at)?);
    }
}

/// Can one server see it all? Yes if everybody is waited for at the very backend that waits.
fn is_local(circle: &[Edge]) -> bool {
    let after = circle.iter().cycle().skip(1);
    circle.iter().zip(after).all(|(edge, next)| edge.blocker == next.backend)
}

/// In PostgreSQL's words, with the node to each process.
fn detail(circle: &[Edge]) -> String {
    let line = |edge: &Edge| {
        let Edge { backend: Backend { node, pid }, what, blocker, .. } = edge;
        format!("Process {pid} of datanode {node} waits for {what}; blocked by process {}.", blocker.pid)
    };
    circle.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backend(node: u16, pid: i32) -> Backend {
        Backend { node, pid }
    }

    fn wait(node: u16, pid: i32, blockers: &[i32]) -> Wait {
        Wait {
            backend: backend(node, pid),
            waiter: pid,
            since_us: 1000,
            what: "ShareLock on transaction 7".into(),
            is_advisory: false,
            blockers: blockers.to_vec(),
        }
    }

    /// Session `n` of coordinator 1 began at `n` and has backend `n` on nodes 0 to 2, all in its transaction.
    fn sessions(numbers: &[u64]) -> Vec<(u64, Owner)> {
        let owner = |n: &u64| {
            let backends = (0..3).map(|node| (backend(node, *n as i32), true)).collect();
            (1, Owner { session: *n, began_us: *n, backends })
        };
        numbers.iter().map(owner).collect()
    }

    fn victims(waits: &[Wait], owners: &[(u64, Owner)]) -> Vec<(u64, Backend)> {
        let graph = || Graph::new(waits, owners);
        graph().deadlocks(&graph()).into_iter().map(|d| (d.chosen.session, d.chosen.backend)).collect()
    }

    #[test]
    fn the_youngest_of_a_circle_over_nodes_gives_way() {
        let waits = [wait(0, 2, &[1]), wait(1, 1, &[2])];
        assert_eq!(victims(&waits, &sessions(&[1, 2])), [(2, backend(0, 2))]);
        let three = [wait(0, 2, &[1]), wait(1, 3, &[2]), wait(2, 1, &[3])];
        assert_eq!(victims(&three, &sessions(&[1, 2, 3])), [(3, backend(1, 3))]);
        let graph = || Graph::new(&waits, &sessions(&[1, 2]));
        assert_eq!(
            graph().deadlocks(&graph())[0].chosen.detail,
            "Process 1 of datanode 1 waits for ShareLock on transaction 7; blocked by process 2.\n\
             Process 2 of datanode 0 waits for ShareLock on transaction 7; blocked by process 1."
        );
    }

    #[test]
    fn queues_and_trees_are_no_circles() {
        let queue: Vec<Wait> = (2..300).map(|n| wait(0, n, &(1..n).collect::<Vec<_>>())).collect();
        let all: Vec<u64> = (1..300).collect();
        assert!(victims(&queue, &sessions(&all)).is_empty());
        assert!(victims(&[wait(0, 2, &[1]), wait(1, 3, &[1, 2]), wait(2, 4, &[3])], &sessions(&all)).is_empty());
    }

    #[test]
    fn a_circle_within_one_server_is_its_own_business() {
        let local = [wait(0, 1, &[2]), wait(0, 2, &[1])];
        assert!(victims(&local, &sessions(&[1, 2])).is_empty());
        // One beside it is found all the same.
        let both = [local.as_slice(), &[wait(1, 3, &[4]), wait(2, 4, &[3])]].concat();
        assert_eq!(victims(&both, &sessions(&[1, 2, 3, 4])), [(4, backend(2, 4))]);
    }

    #[test]
    fn two_backends_of_one_session_can_stand_in_each_others_way() {
        let mut owners = sessions(&[1]);
        owners[0].1.backends.push((backend(0, 50), true));
        assert_eq!(victims(&[wait(0, 50, &[1])], &owners), [(1, backend(0, 50))]);
    }

    #[test]
    fn a_statement_in_autocommit_ends_by_itself() {
        let mut owners = sessions(&[1, 2]);
        let waits = [wait(0, 2, &[1]), wait(1, 1, &[2])];
        // Session 1's backend on node 0 is in no transaction: session 2 waits for that backend only.
        owners[0].1.backends[0].1 = false;
        assert!(victims(&waits, &owners).is_empty());
        // But if that backend waits itself, both are stuck.
        let stuck = [waits.as_slice(), &[wait(0, 1, &[3])], &[wait(1, 3, &[2])]].concat();
        let owners = [owners, sessions(&[3])].concat();
        assert_eq!(victims(&stuck, &owners), [(3, backend(1, 3))]);
        // An advisory lock may belong to the backend's session.
        let mut advisory = waits;
        advisory[0].is_advisory = true;
        assert_eq!(victims(&advisory, &owners), [(2, backend(0, 2))]);
    }

    #[test]
    fn every_wait_must_have_been_there_before() {
        let waits = [wait(0, 2, &[1]), wait(1, 1, &[2])];
        let mut earlier = waits.clone();
        earlier[1].since_us -= 1;
        let graph = |waits: &[Wait]| Graph::new(waits, &sessions(&[1, 2]));
        assert!(graph(&waits).deadlocks(&graph(&earlier)).is_empty());
        assert!(graph(&waits).deadlocks(&Graph::default()).is_empty());
        assert_eq!(graph(&waits).deadlocks(&graph(&waits)).len(), 1);
    }

    #[test]
    fn circles_that_share_a_session_have_one_victim() {
        let waits = [wait(0, 1, &[3]), wait(1, 3, &[1, 2]), wait(2, 2, &[3])];
        assert_eq!(victims(&waits, &sessions(&[1, 2, 3])), [(3, backend(1, 3))]);
    }
}
