//! Functions of the user's that a datanode calls by itself when it reads or changes the rows of a table, and what policies read.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use pgerror::PgError;

use crate::{AttNum, Oid, Relation, RuleEvent};

/// The functions, by object id. What their bodies do is for the planner to judge; it does so once, at the first statement
/// that concerns the table, so that the facts is about the bodies of this very catalog.
#[derive(Clone, Debug, Default)]
pub struct Code {
    /// Functions of triggers that the nodes fire: the table's, and those of children and of cascading foreign keys.
    pub triggers: Vec<Oid>,
    /// In constraints, defaults, generated columns, indexes and domains, the children's too.
    pub expressions: Vec<Oid>,
    /// In policies.
    pub policies: Vec<Oid>,
    /// Tables that policies read.
    pub policy_tables: Vec<Oid>,
    /// Among all these triggers there are some that the coordinator runs.
    pub captures: bool,
    /// A row of a table that its changes lead to may get another distribution key, and is moved by the coordinator.
    pub moves: bool,
    /// Among them there are some BEFORE … FOR EACH ROW that nodes fire: what they make of a row may be another on each node.
    pub makes_rows: bool,
    /// What the planner found.
    pub facts: OnceLock<CodeFacts>,
}

/// Why the rows of a table cannot be changed, or not even be read.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct CodeFacts {
    pub change: Option<PgError>,
    /// No constraint, default or index is computed for a row that goes.
    pub delete: Option<PgError>,
    /// Because of a trigger that a node fires.
    pub by_trigger: bool,
    pub read: Option<PgError>,
}

/// A trigger that the coordinator runs.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Captured {
    pub name: String,
    pub function: Oid,
    /// `pg_trigger.tgtype`.
    pub kind: i16,
    /// Columns of UPDATE OF.
    pub columns: Vec<AttNum>,
    /// REFERENCING names one.
    pub has_transition_table: bool,
    pub is_enabled: bool,
}

impl Captured {
    /// FOR EACH STATEMENT.
    pub fn is_of_statement(&self) -> bool {
        self.kind & 1 == 0
    }

    /// BEFORE.
    pub fn is_before(&self) -> bool {
        self.kind & 2 != 0
    }

    /// INSTEAD OF.
    pub fn is_instead(&self) -> bool {
        self.kind & 64 != 0
    }

    /// BEFORE … FOR EACH ROW.
    pub fn is_before_row(&self) -> bool {
        self.is_before() && !self.is_of_statement()
    }
}

/// What is done to a table, and of an UPDATE to which columns.
#[derive(Clone, Debug)]
pub struct Event {
    /// Whatever a rule may be about a trigger may be fired by.
    pub kind: RuleEvent,
    /// Those that an UPDATE names.
    pub columns: Vec<String>,
    /// Those of the columns that may get another value than they have.
    pub changing: Vec<String>,
}

impl Event {
    /// Not of columns.
    pub fn of(kind: RuleEvent) -> Self {
        Self { kind, columns: Vec::new(), changing: Vec::new() }
    }

    /// Does it fire the trigger of the table, if that is enabled?
    pub fn fires(&self, table: &Relation, trigger: &Captured) -> bool {
        let is_of_columns = self.kind == RuleEvent::Update && !trigger.columns.is_empty();
        let mut columns = self.columns.iter().filter_map(|name| table.column(name));
        trigger.kind & self.kind.bit() != 0
            && (!is_of_columns || columns.any(|column| trigger.columns.contains(&column.number)))
    }
}

/// What a backend may hold after it has run a piece of code, for as long as its session lasts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leavings {
    /// What the home node's backend keeps for PostgreSQL's own functions and tells nobody, but for the values of sequences.
    pub at_home: bool,
    /// The last values that were drawn from sequences, in the home node's backend.
    pub drawn: bool,
    /// It leaves nothing by this, but wants these values.
    pub reads_drawn: bool,
    /// It leaves something wherever the code runs: what a language or a library keeps.
    pub hidden: bool,
    /// Temporary objects, locks, cursors, prepared statements, channels, the role: PostgreSQL tells which.
    pub told: bool,
    /// Settings of these names.
    pub settings: BTreeSet<String>,
    /// Settings of any name.
    pub any_setting: bool,
    /// It may notify.
    pub notifies: bool,
    /// It leaves nothing by this, but wants to know something of the whole cluster.
    pub asks: Asks,
}

/// What of the cluster, and of the session, no datanode knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asks {
    /// The session's number.
    pub own: bool,
    /// All sessions of the cluster.
    pub sessions: bool,
    /// The locks of these sessions.
    pub locks: bool,
    /// The sizes of tables on all nodes.
    pub sizes: bool,
    /// The sizes of databases.
    pub databases: bool,
    /// The transaction's snapshot, for other sessions.
    pub snapshot: bool,
    /// What all nodes show in these views of PostgreSQL.
    pub views: BTreeSet<String>,
}

impl Asks {
    /// Nothing?
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    fn add(&mut self, other: &Self) {
        self.own |= other.own;
        self.sessions |= other.sessions;
        self.locks |= other.locks;
        self.sizes |= other.sizes;
        self.databases |= other.databases;
        self.snapshot |= other.snapshot;
        self.views.extend(other.views.iter().cloned());
    }
}

impl Leavings {
    /// Those of code that nobody can read.
    pub fn anything() -> Self {
        Self {
            at_home: true,
            drawn: true,
            reads_drawn: true,
            hidden: true,
            any_setting: true,
            notifies: true,
            ..Self::told()
        }
    }

    /// What PostgreSQL can be asked about.
    pub fn told() -> Self {
        Self { told: true, ..Self::default() }
    }

    /// Is the backend as it was before?
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Both.
    pub fn add(&mut self, other: &Self) {
        self.at_home |= other.at_home;
        self.drawn |= other.drawn;
        self.reads_drawn |= other.reads_drawn;
        self.hidden |= other.hidden;
        self.told |= other.told;
        self.settings.extend(other.settings.iter().cloned());
        self.any_setting |= other.any_setting;
        self.notifies |= other.notifies;
        self.asks.add(&other.asks);
    }
}
