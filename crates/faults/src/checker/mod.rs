//! Judges a recorded history of list appends: is there one order of all commits and snapshots, as on one PostgreSQL, that
//! explains what every statement saw?
//!
//! Each row holds a list; a write appends an element that nobody else writes. So a list that was read shows which writes came
//! before it and in which order, and the lists at the end show the order of all writes of a row.
//!
//! In PostgreSQL every statement sees what had committed at one moment, its snapshot's; under REPEATABLE READ all statements of a
//! transaction share one. The checker makes these moments and those of the commits the nodes of a graph, with an edge wherever
//! one must have been before another:
//!
//! | edge | because |
//! | --- | --- |
//! | snapshot → next snapshot → commit, of one transaction | program order |
//! | commit of W → snapshot | it shows W's element (wr) |
//! | snapshot → commit of W | it does not show W's element (rw) |
//! | commit of V → commit of W | W appended behind V, so W had to wait for V's row lock (ww) |
//! | commit of V → snapshot of W's next statement | the same, W is READ COMMITTED and went on afterwards |
//! | commit of V → snapshot of W | the same, W is REPEATABLE READ: else it gets 40001 (lost update) |
//! | moment → later moment of the same session | program order again |
//! | moment → later moment | one was over, for its client, before the other was asked for (real time) |
//!
//! The history is right exactly if the graph has no cycle. This is snapshot isolation and READ COMMITTED in one, with real
//! time, and each statement atomic. Write skew makes no cycle, as two overlapping snapshots may each precede the other's commit;
//! a torn read (G-single), a long fork, G0 and G1c do. The cycle is named by its edges.
//!
//! One thing is allowed, as `docs/consistency.md` says ("Between sessions only what is acknowledged, …"): while a transaction becomes
//! visible on its datanodes one after the other, what others have seen of it on one datanode binds their own sessions, not those
//! that read another datanode alone. So a read of one datanode may miss a transaction over several that nobody knew to be
//! committed when the read began, but from what one datanode showed; such an edge is part of no cycle with real time.
//!
//! SERIALIZABLE asks for more: each transaction as a whole before or after each other. [`check_serializable`] makes all moments
//! of a transaction that committed one node, without real time (Adya's G2); then write skew is a cycle.

mod graph;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use crate::session::Outcome;
use graph::Graph;
pub use graph::Link;

/// A row.
pub type Key = u32;
/// What is appended; unique to one statement.
pub type Element = u64;

/// From asking to the answer, in nanoseconds since the run began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct Span {
    pub begin: u64,
    /// `u64::MAX` if there was no answer.
    pub end: u64,
}

/// Isolation level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Level {
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

/// What a statement did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Read these lists, in one statement.
    Read(Vec<(Key, Vec<Element>)>),
    /// Appended one element to these, in one statement.
    Append(Vec<Key>, Element),
}

impl Statement {
    fn keys(&self) -> Vec<Key> {
        match &self.step {
            Step::Read(rows) => rows.iter().map(|(key, _)| *key).collect(),
            Step::Append(keys, _) => keys.clone(),
        }
    }
}

/// A statement that was answered without an error, or an append whose answer is lost.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct Statement {
    pub span: Span,
    pub step: Step,
}

/// A transaction as its client saw it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct Transaction {
    /// Transactions of one number ran one after the other in one session.
    pub session: Option<usize>,
    pub level: Level,
    pub statements: Vec<Statement>,
    pub outcome: Outcome,
    /// Time of the COMMIT, or of the statement that is its own transaction.
    pub commit: Span,
}

impl Transaction {
    fn written(&self) -> Vec<Key> {
        let appends = self.statements.iter().filter(|statement| matches!(statement.step, Step::Append(..)));
        appends.flat_map(Statement::keys).collect()
    }
}

/// All transactions of a run, and the lists at its end.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct History {
    pub transactions: Vec<Transaction>,
    pub finals: BTreeMap<Key, Vec<Element>>,
    /// The datanode of each row, if there are several.
    pub homes: BTreeMap<Key, usize>,
}

impl History {
    fn is_over_several(&self, keys: Vec<Key>) -> bool {
        let homes: HashSet<_> = keys.iter().filter_map(|key| self.homes.get(key)).collect();
        homes.len() > 1
    }

    /// By transaction: when one was first known to be committed on all its datanodes, by its answer or from a read over several.
    fn known_at(&self, origins: &HashMap<Element, Origin>) -> Vec<u64> {
        let acknowledged = |t: &Transaction| if t.outcome == Outcome::Committed { t.commit.end } else { u64::MAX };
        let mut known: Vec<u64> = self.transactions.iter().map(acknowledged).collect();
        for (number, transaction) in self.transactions.iter().enumerate() {
            for statement in &transaction.statements {
                let Step::Read(rows) = &statement.step else { continue };
                let shown = rows.iter().flat_map(|(_, list)| list).filter_map(|element| origins.get(element));
                let others = shown.map(|origin| origin.transaction).filter(|other| *other != number);
                if self.is_over_several(statement.keys()) {
                    others.for_each(|other| known[other] = known[other].min(statement.span.end));
                }
            }
        }
        known
    }

    /// The transaction in few words.
    pub fn tell(&self, number: usize) -> String {
        let Some(Transaction { session, level, statements, outcome, commit }) = self.transactions.get(number) else {
            return String::new();
        };
        let home = |key: &Key| self.homes.get(key).map_or("?".into(), |node| format!("{key}@{node}"));
        let homes = |keys: &mut dyn Iterator<Item = &Key>| keys.map(home).collect::<Vec<_>>().join(" ");
        let statements = statements.iter().map(|Statement { span, step }| match step {
            Step::Read(rows) => format!("{span:?} read {}", homes(&mut rows.iter().map(|(key, _)| key))),
            Step::Append(keys, element) => format!("{span:?} append {element} to {}", homes(&mut keys.iter())),
        });
        let statements: Vec<String> = statements.collect();
        format!("T{number} session {session:?}, {level:?}, {outcome:?}, commit {commit:?}: {}", statements.join("; "))
    }
}

/// Names of what can be wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// Two lists of one row that are not one the beginning of the other, or an element twice or from nowhere.
    Garbled,
    /// An acknowledged append is not there at the end, or one of two of the same transaction.
    Lost,
    /// An element of a transaction that was refused (G1a).
    AbortedRead,
    /// An element that its transaction appended to again, without what came next (G1b).
    IntermediateRead,
    /// A transaction does not see its own append, or not at the end.
    NotOwnWrite,
    /// A cycle of writes only (G0).
    WriteCycle,
    /// A cycle of writes and reads of what was written (G1c).
    InformationCycle,
    /// A cycle with one read that missed a write: a torn snapshot, a lost update (G-single).
    TornRead,
    /// A cycle with several such reads, of different snapshots.
    LongFork,
    /// A cycle of whole transactions, of which each alone saw one moment (G2).
    WriteSkew,
    /// A cycle only with real time: something that was over was not seen, or the future was.
    Stale,
}

/// Something wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct Anomaly {
    pub kind: Kind,
    pub text: String,
    /// Those of the cycle.
    pub transactions: Vec<usize>,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.text)
    }
}

/// Everything wrong with a history; of each tangle of cycles the shortest one.
pub fn check(history: &History) -> Vec<Anomaly> {
    let mut checker = Checker::new(history, Graph::new(&history.transactions));
    checker.finals();
    checker.outcomes();
    checker.reads(|_| true);
    let mut anomalies = checker.anomalies;
    anomalies.extend(checker.graph.cycles());
    anomalies
}

/// Cycles of the transactions that were committed, whatever their level was: is there an order in which they might have run
/// one after the other? What [`check`] finds is not looked for.
pub fn check_serializable(history: &History) -> Vec<Anomaly> {
    let mut checker = Checker::new(history, Graph::of_whole(&history.transactions));
    checker.finals();
    // What a transaction was shown that could not be committed need not fit.
    checker.reads(|transaction| transaction.outcome == Outcome::Committed);
    let cycles = checker.graph.cycles();
    cycles.into_iter().map(|cycle| Anomaly { kind: Kind::WriteSkew, ..cycle }).collect()
}

/// Where an element was appended.
#[derive(Clone, Copy)]
struct Origin {
    transaction: usize,
    statement: usize,
}

struct Checker<'h> {
    history: &'h History,
    origins: HashMap<Element, Origin>,
    /// Places of the elements in each final list.
    places: HashMap<(Key, Element), usize>,
    known_at: Vec<u64>,
    graph: Graph,
    anomalies: Vec<Anomaly>,
}

impl<'h> Checker<'h> {
    fn new(history: &'h History, graph: Graph) -> Self {
        let mut origins = HashMap::new();
        for (transaction, t) in history.transactions.iter().enumerate() {
            for (statement, s) in t.statements.iter().enumerate() {
                if let Step::Append(_, element) = &s.step {
                    origins.insert(*element, Origin { transaction, statement });
                }
            }
        }
        let places = history
            .finals
            .iter()
            .flat_map(|(key, list)| list.iter().enumerate().map(|(place, element)| ((*key, *element), place)));
        let (places, known_at) = (places.collect(), history.known_at(&origins));
        Self { history, origins, places, known_at, graph, anomalies: Vec::new() }
    }

    fn tell(&mut self, kind: Kind, text: String) {
        self.anomalies.push(Anomaly { kind, text, transactions: Vec::new() });
    }

    /// The order of writes of each row.
    fn finals(&mut self) {
        for (key, list) in &self.history.finals {
            let mut known = HashSet::new();
            for element in list {
                if !self.origins.contains_key(element) || !known.insert(element) {
                    self.tell(Kind::Garbled, format!("row {key} holds {element} twice, or from nowhere"));
                }
            }
            let writers: Vec<Origin> = list.iter().filter_map(|element| self.origins.get(element).copied()).collect();
            for (one, next) in writers.iter().zip(writers.iter().skip(1)) {
                if one.transaction != next.transaction {
                    self.graph.write_after(one.transaction, next.transaction, next.statement, *key);
                }
            }
        }
    }

    /// Is what was acknowledged there, what was refused not, and what is unknown there as a whole or not?
    fn outcomes(&mut self) {
        for (number, transaction) in self.history.transactions.iter().enumerate() {
            let appends = transaction.statements.iter().filter_map(|statement| match &statement.step {
                Step::Append(keys, element) => Some(keys.iter().map(|key| (*key, *element))),
                Step::Read(_) => None,
            });
            let (there, missing): (Vec<_>, Vec<_>) = appends.flatten().partition(|at| self.places.contains_key(at));
            if !there.is_empty() && transaction.outcome == Outcome::Refused {
                self.tell(Kind::AbortedRead, format!("T{number} was refused, but left {there:?}"));
            } else if !missing.is_empty() && (!there.is_empty() || transaction.outcome == Outcome::Committed) {
                let outcome = transaction.outcome;
                self.tell(Kind::Lost, format!("T{number} ({outcome:?}) left {there:?}, but not {missing:?}"));
            }
        }
    }

    fn reads(&mut self, counts: impl Fn(&Transaction) -> bool) {
        let transactions = self.history.transactions.iter().enumerate();
        for (number, transaction) in transactions.filter(|(_, transaction)| counts(transaction)) {
            // What the transaction itself has appended so far, by row.
            let mut own: HashMap<Key, Vec<Element>> = HashMap::new();
            for (index, statement) in transaction.statements.iter().enumerate() {
                match &statement.step {
                    Step::Append(keys, element) => {
                        keys.iter().for_each(|key| own.entry(*key).or_default().push(*element));
                    }
                    Step::Read(rows) => {
                        for (key, list) in rows {
                            self.read(Origin { transaction: number, statement: index }, *key, list, own.get(key));
                        }
                    }
                }
            }
        }
    }

    fn read(&mut self, reader: Origin, key: Key, list: &[Element], own: Option<&Vec<Element>>) {
        let (number, own) = (reader.transaction, own.map_or(&[][..], Vec::as_slice));
        let Some(seen) = list.strip_suffix(own) else {
            return self.tell(Kind::NotOwnWrite, format!("T{number} appended {own:?} to row {key} and read {list:?}"));
        };
        if let Some(refused) = seen.iter().find(|element| self.is_refused(**element)) {
            return self
                .tell(Kind::AbortedRead, format!("T{number} read {refused} in row {key}; its writer was refused"));
        }
        let order = self.history.finals.get(&key).map_or(&[][..], Vec::as_slice);
        if !order.starts_with(seen) {
            return self.tell(Kind::Garbled, format!("T{number} read {seen:?} in row {key}, which ended as {order:?}"));
        }
        let writer =
            |place: usize| order.get(place).and_then(|element| self.origins.get(element)).map(|o| o.transaction);
        let last = seen.len().checked_sub(1).and_then(writer);
        // Own appends stand behind what was seen; transactions after them were not seen either.
        let own_is_there = writer(seen.len()) == Some(number);
        let next = writer(seen.len() + if own_is_there { own.len() } else { 0 });
        if last.is_some() && last == next {
            let text = format!("T{number} read {seen:?} in row {key}, to which the same transaction appended more");
            return self.tell(Kind::IntermediateRead, text);
        }
        if let Some(last) = last {
            self.graph.shows(last, number, reader.statement, key);
        }
        if let Some(next) = next {
            let link = if self.may_miss(reader, next) { Link::EarlyRw(key) } else { Link::Rw(key) };
            self.graph.misses(number, reader.statement, next, link);
        }
    }

    /// Is this a read of one datanode, with a snapshot of its own, before anybody knew the writer to be committed everywhere?
    fn may_miss(&self, reader: Origin, writer: usize) -> bool {
        let transaction = &self.history.transactions[reader.transaction];
        let statement = &transaction.statements[reader.statement];
        transaction.level == Level::ReadCommitted
            && !self.history.is_over_several(statement.keys())
            && self.history.is_over_several(self.history.transactions[writer].written())
            && self.known_at[writer] >= statement.span.begin
    }

    fn is_refused(&self, element: Element) -> bool {
        let origin = self.origins.get(&element);
        origin.is_some_and(|o| self.history.transactions[o.transaction].outcome == Outcome::Refused)
    }
}
