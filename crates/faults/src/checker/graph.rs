//! The graph of moments and its cycles.

use std::collections::{HashMap, HashSet, VecDeque};

use super::{Anomaly, Key, Kind, Level, Span, Transaction};
use crate::session::Outcome;

/// Starting points that are tried for the shortest cycle of a tangle.
const STARTS_MAX: usize = 200;

/// Why one moment was before another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Link {
    Program,
    Ww(Key),
    Wr(Key),
    Rw(Key),
    /// [`Link::Rw`] where the read may miss the write although what came after the write is over already; see the parent.
    EarlyRw(Key),
    /// One transaction of a session before the next.
    Session,
    RealTime,
}

/// A node of the graph.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// The snapshot of a statement, by transaction and statement.
    Snapshot(usize, usize),
    Commit(usize),
    /// Everything before it was over before everything behind it began.
    Barrier,
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    to: usize,
    link: Link,
}

/// See the module's parent.
#[derive(Debug)]
pub(super) struct Graph {
    moments: Vec<Moment>,
    edges: Vec<Vec<Edge>>,
    /// By transaction: the snapshot of each statement.
    snapshots: Vec<Vec<usize>>,
    commits: Vec<usize>,
    levels: Vec<Level>,
}

impl Graph {
    /// The moments with program order and real time.
    pub(super) fn new(transactions: &[Transaction]) -> Self {
        let levels = transactions.iter().map(|transaction| transaction.level).collect();
        let (moments, edges, snapshots, commits) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut graph = Self { moments, edges, snapshots, commits, levels };
        let mut spans = Vec::new();
        for (number, transaction) in transactions.iter().enumerate() {
            graph.add(number, transaction, &mut spans);
        }
        graph.sessions(transactions);
        graph.real_time(&spans);
        graph
    }

    /// One node for each transaction.
    pub(super) fn of_whole(transactions: &[Transaction]) -> Self {
        let mut graph = Self::new(&[]);
        for (number, transaction) in transactions.iter().enumerate() {
            let node = graph.node(Moment::Commit(number));
            graph.snapshots.push(vec![node; transaction.statements.len()]);
            graph.commits.push(node);
            graph.levels.push(transaction.level);
        }
        graph
    }

    fn node(&mut self, moment: Moment) -> usize {
        self.moments.push(moment);
        self.edges.push(Vec::new());
        self.moments.len() - 1
    }

    fn edge(&mut self, from: usize, to: usize, link: Link) {
        self.edges[from].push(Edge { to, link });
    }

    fn add(&mut self, number: usize, transaction: &Transaction, spans: &mut Vec<(usize, Span)>) {
        let mut snapshots: Vec<usize> = Vec::new();
        for (index, statement) in transaction.statements.iter().enumerate() {
            match (transaction.level, snapshots.last().copied()) {
                (Level::RepeatableRead | Level::Serializable, Some(first)) => snapshots.push(first),
                (_, before) => {
                    let node = self.node(Moment::Snapshot(number, index));
                    spans.push((node, statement.span));
                    before.iter().for_each(|before| self.edge(*before, node, Link::Program));
                    snapshots.push(node);
                }
            }
        }
        let commit = self.node(Moment::Commit(number));
        spans.push((commit, transaction.commit));
        snapshots.last().iter().for_each(|last| self.edge(**last, commit, Link::Program));
        self.snapshots.push(snapshots);
        self.commits.push(commit);
    }

    /// What a session has seen or committed is before what it does next.
    fn sessions(&mut self, transactions: &[Transaction]) {
        let mut in_order: Vec<usize> = (0..transactions.len()).collect();
        in_order.sort_unstable_by_key(|number| {
            let transaction = &transactions[*number];
            let begin = transaction.statements.first().map_or(transaction.commit.begin, |first| first.span.begin);
            (transaction.session, begin)
        });
        for pair in in_order.windows(2) {
            let (before, next) = (pair[0], pair[1]);
            let is_session = transactions[before].session.is_some();
            if !is_session || transactions[before].session != transactions[next].session {
                continue;
            }
            let to = self.snapshots[next].first().copied().unwrap_or(self.commits[next]);
            let committed = transactions[before].outcome == Outcome::Committed;
            let from = if committed { Some(self.commits[before]) } else { self.snapshots[before].last().copied() };
            if let Some(from) = from {
                self.edge(from, to, Link::Session);
            }
        }
    }

    /// One chain of barriers instead of an edge for each pair of moments.
    fn real_time(&mut self, spans: &[(usize, Span)]) {
        let mut ended: Vec<(u64, usize)> =
            spans.iter().filter(|(_, span)| span.end != u64::MAX).map(|(node, span)| (span.end, *node)).collect();
        ended.sort_unstable();
        let mut barriers: Vec<usize> = Vec::with_capacity(ended.len());
        for (_, node) in &ended {
            let barrier = self.node(Moment::Barrier);
            self.edge(*node, barrier, Link::RealTime);
            barriers.last().copied().iter().for_each(|before| self.edge(*before, barrier, Link::RealTime));
            barriers.push(barrier);
        }
        for (node, span) in spans {
            let over = ended.partition_point(|(end, _)| *end < span.begin);
            if let Some(last) = over.checked_sub(1) {
                self.edge(barriers[last], *node, Link::RealTime);
            }
        }
    }

    /// `next`'s statement appended behind `one`.
    pub(super) fn write_after(&mut self, one: usize, next: usize, statement: usize, key: Key) {
        // READ COMMITTED goes on after it has got the row lock; REPEATABLE READ must have seen what it appends to.
        let snapshots = &self.snapshots[next];
        let seen_by = match self.levels[next] {
            Level::ReadCommitted => snapshots.get(statement + 1),
            Level::RepeatableRead | Level::Serializable => snapshots.first(),
        };
        let (from, to) = (self.commits[one], [seen_by.copied(), Some(self.commits[next])]);
        to.into_iter().flatten().for_each(|to| self.edge(from, to, Link::Ww(key)));
    }

    /// The snapshot of the reader's statement shows the writer's commit.
    pub(super) fn shows(&mut self, writer: usize, reader: usize, statement: usize, key: Key) {
        self.edge(self.commits[writer], self.snapshots[reader][statement], Link::Wr(key));
    }

    /// The snapshot of the reader's statement does not show the writer's commit.
    pub(super) fn misses(&mut self, reader: usize, statement: usize, writer: usize, link: Link) {
        self.edge(self.snapshots[reader][statement], self.commits[writer], link);
    }

    /// One cycle of each tangle, looked for with more and more kinds of edges.
    pub(super) fn cycles(&self) -> Vec<Anomaly> {
        let stages: [fn(Link) -> bool; 5] = [
            |link| matches!(link, Link::Program | Link::Ww(_)),
            |link| matches!(link, Link::Program | Link::Ww(_) | Link::Wr(_)),
            |link| !matches!(link, Link::Session | Link::RealTime),
            |link| link != Link::RealTime,
            |link| !matches!(link, Link::EarlyRw(_)),
        ];
        // A tangle of an earlier stage is one of all later stages too.
        let found = stages.iter().map(|allowed| {
            let tangles = self.tangles(*allowed);
            tangles.iter().filter_map(|tangle| self.shortest(tangle, *allowed)).collect::<Vec<_>>()
        });
        let cycles = found.into_iter().find(|cycles| !cycles.is_empty()).unwrap_or_default();
        let anomaly = |cycle: &Vec<_>| {
            let transactions = self.transactions(cycle);
            Anomaly { kind: kind(cycle), text: self.describe(cycle), transactions }
        };
        cycles.iter().map(anomaly).collect()
    }

    /// Strongly connected components of more than one node (Tarjan's algorithm, without recursion).
    fn tangles(&self, allowed: fn(Link) -> bool) -> Vec<Vec<usize>> {
        const UNSEEN: usize = usize::MAX;
        let count = self.moments.len();
        let (mut order, mut low, mut on_stack) = (vec![UNSEEN; count], vec![0; count], vec![false; count]);
        let (mut stack, mut next, mut tangles) = (Vec::new(), 0, Vec::new());
        for root in 0..count {
            // Node and the edge of its to be followed next.
            let mut path = if order[root] == UNSEEN { vec![(root, 0)] } else { Vec::new() };
            while let Some((node, position)) = path.pop() {
                if position == 0 {
                    (order[node], low[node], on_stack[node]) = (next, next, true);
                    stack.push(node);
                    next += 1;
                }
                let edges = &self.edges[node];
                let unseen = (position..edges.len()).find(|i| allowed(edges[*i].link) && order[edges[*i].to] == UNSEEN);
                if let Some(i) = unseen {
                    path.push((node, i + 1));
                    path.push((edges[i].to, 0));
                    continue;
                }
                let reached = edges.iter().filter(|edge| allowed(edge.link) && on_stack[edge.to]);
                low[node] = reached.map(|edge| low[edge.to]).fold(low[node], usize::min);
                if low[node] == order[node] {
                    let begin = stack.iter().rposition(|on| *on == node).unwrap_or_default();
                    let tangle = stack.split_off(begin);
                    tangle.iter().for_each(|node| on_stack[*node] = false);
                    if tangle.len() > 1 {
                        tangles.push(tangle);
                    }
                }
            }
        }
        tangles
    }

    /// The cycle in a tangle with the fewest missed writes, of those the shortest: pairs of a node and the link that
    /// leads on from it.
    fn shortest(&self, tangle: &[usize], allowed: fn(Link) -> bool) -> Option<Vec<(usize, Link)>> {
        let inside: HashSet<usize> = tangle.iter().copied().collect();
        let starts = tangle.iter().filter(|node| !matches!(self.moments[**node], Moment::Barrier)).take(STARTS_MAX);
        let cycles = starts.filter_map(|start| self.cycle_through(*start, &inside, allowed));
        cycles.min_by_key(|cycle| (misses(cycle), cycle.len()))
    }

    /// Breadth first, links that miss a write counting more than any number of others.
    fn cycle_through(
        &self,
        start: usize,
        inside: &HashSet<usize>,
        allowed: fn(Link) -> bool,
    ) -> Option<Vec<(usize, Link)>> {
        let mut came_from: HashMap<usize, (usize, Link)> = HashMap::new();
        let leaving = |node: usize| self.edges[node].iter().map(move |edge| (node, *edge));
        let is_miss = |edge: &Edge| matches!(edge.link, Link::Rw(_) | Link::EarlyRw(_));
        // What can be reached without one more missed write, and with one more.
        let (mut later, now): (Vec<_>, Vec<_>) = leaving(start).partition(|(_, edge)| is_miss(edge));
        let mut queue = VecDeque::from(now);
        loop {
            while let Some((from, edge)) = queue.pop_front() {
                let (is_new, counts) =
                    (!came_from.contains_key(&edge.to), allowed(edge.link) && inside.contains(&edge.to));
                if !is_new || !counts {
                    continue;
                }
                came_from.insert(edge.to, (from, edge.link));
                if edge.to == start {
                    return Some(backwards(start, &came_from));
                }
                let (dear, cheap): (Vec<_>, Vec<_>) = leaving(edge.to).partition(|(_, edge)| is_miss(edge));
                queue.extend(cheap);
                later.extend(dear);
            }
            if later.is_empty() {
                return None;
            }
            queue.extend(later.drain(..));
        }
    }

    fn transactions(&self, cycle: &[(usize, Link)]) -> Vec<usize> {
        let mut transactions: Vec<usize> = Vec::new();
        for (node, _) in cycle {
            match self.moments[*node] {
                Moment::Snapshot(number, _) | Moment::Commit(number) if !transactions.contains(&number) => {
                    transactions.push(number);
                }
                Moment::Snapshot(..) | Moment::Commit(_) | Moment::Barrier => {}
            }
        }
        transactions
    }

    fn describe(&self, cycle: &[(usize, Link)]) -> String {
        let steps = cycle.iter().map(|(node, link)| match self.moments[*node] {
            Moment::Snapshot(transaction, statement) => format!("T{transaction}.{statement} -{link:?}->"),
            Moment::Commit(transaction) => format!("T{transaction}.commit -{link:?}->"),
            Moment::Barrier => "|".to_owned(),
        });
        let mut steps: Vec<String> = steps.collect();
        steps.dedup_by(|one, other| one == "|" && other == "|");
        steps.join(" ")
    }
}

fn backwards(start: usize, came_from: &HashMap<usize, (usize, Link)>) -> Vec<(usize, Link)> {
    let mut cycle = Vec::new();
    let mut node = start;
    while let Some((before, link)) = came_from.get(&node) {
        cycle.push((*before, *link));
        node = *before;
        if node == start {
            break;
        }
    }
    cycle.reverse();
    cycle
}

fn misses(cycle: &[(usize, Link)]) -> usize {
    cycle.iter().filter(|(_, link)| matches!(link, Link::Rw(_) | Link::EarlyRw(_))).count()
}

fn kind(cycle: &[(usize, Link)]) -> Kind {
    let has = |wanted: fn(&Link) -> bool| cycle.iter().any(|(_, link)| wanted(link));
    if has(|link| matches!(link, Link::Session | Link::RealTime)) {
        return Kind::Stale;
    }
    match misses(cycle) {
        0 if has(|link| matches!(link, Link::Wr(_))) => Kind::InformationCycle,
        0 => Kind::WriteCycle,
        1 => Kind::TornRead,
        _ => Kind::LongFork,
    }
}
