//! What the planner gives: [`Plan`], the orders for the executor. `Display` prints a plan as an indented tree; tests
//! and `EXPLAIN` read the same text.
//!
//! Conventions that hold for every plan:
//! - Texts keep the user's `$n` numbering; the executor of a fragment passes all of the statement's parameters with their
//!   declared types, used or not.
//! - `writes` means "run it in the transaction's own session on that node": the text changes rows, locks rows
//!   (`FOR UPDATE`), or calls something that may write.
//! - Node lists are in id order and never empty, except where it is said.

pub(crate) mod display;

mod ddl;
mod facts;
mod locked;
mod merge;
mod per_row;
mod rewritten;
mod routine;
mod rows;
mod sequenced;
mod staged;
pub(crate) mod tables;
mod triggered;

use std::fmt;
use std::sync::Arc;

use catalog::{NodeId, Relation};

use crate::parse::{ClusterCommand, Statement};
pub use ddl::{DdlKind, DdlPlan, Effect, Elsewhere, Fill, MapRequest, Placement, Redistribute};
pub use facts::PlanFacts;
pub use locked::{CurrentOf, LockTarget, LockWait, Locked, LockedBy};
pub use merge::{KeyForm, Merge, MergeKey, RowCount};
pub use per_row::{Each, Enough, PerRow, RowCall};
pub use rewritten::{OfOwner, Rewritten, Step};
pub use routine::{Argument, Drawn, Explained, Lifted, OfRows, Routine, RoutineCall, Wanted};
pub use rows::{KeySource, Route, RowColumn};
pub(crate) use rows::{column_list, names_list};
pub use sequenced::{CteStep, Kept, SequencedCtes};
pub(crate) use staged::values_list;
pub use staged::{Direct, InsertStaged, STAGE, Stage, StagedAction, StagedDml, Through};
pub use tables::{Clauses, Tables, gives_plain_values, reads_only};
pub use triggered::{BeforeRows, Conflict, Instead, MadeRows, Movable, OfStatement, Triggered};

/// One planned statement.
#[derive(Clone, Debug)]
pub enum Plan {
    /// The whole statement on one node, bytes passed through.
    Forward(Forward),
    /// One text on several nodes: rows are concatenated in any order, the counts of command tags are added.
    Scatter(Scatter),
    /// A write to a replicated table: the same text on every copy, rows and count from the first.
    Replicate(Replicate),
    /// A change of replicated tables that one copy makes; the others get the rows that came of it.
    FirstCopy(Box<FirstCopy>),
    /// Rows are gathered into temp tables on the home node, where the rest of the statement runs.
    Gather(Gather),
    /// Rows of several nodes are found, and then locked.
    Locked(Box<Locked>),
    /// Rows are exchanged between the nodes first; then a plan over what they have now.
    ExchangePlan(Box<ExchangePlan>),
    /// `INSERT … VALUES` whose rows go to several nodes, split by the planner.
    InsertSplit(InsertSplit),
    /// `INSERT` whose rows are evaluated on the home node and routed by the executor.
    InsertStaged(Box<InsertStaged>),
    /// `UPDATE`, `DELETE` or `MERGE` whose effect on each row the home node works out.
    StagedDml(Box<StagedDml>),
    /// A statement whose WITH items change rows, part after part.
    SequencedCtes(Box<SequencedCtes>),
    /// `COPY table FROM`.
    CopyFrom(Box<CopyFrom>),
    /// `COPY table FROM` of what only the home node has.
    CopyHome(CopyHome),
    /// `COPY {table | (query)} TO`.
    CopyTo(CopyTo),
    /// `EXPLAIN`: show (and with `analyze` run) the inner plan.
    Explain(Explain),
    /// `DECLARE … CURSOR FOR`: the inner plan makes the rows. Name and options are in the statement's kind.
    DeclareCursor(Box<Plan>),
    /// Something that runs on all datanodes and may change the catalog: DDL, TRUNCATE, VACUUM, GRANT, …
    Ddl(Box<DdlPlan>),
    /// No plan of the statement: these tables must lose their key first, then it is planned anew. Only [`plan`](crate::plan()) gives
    /// it, never as a part of another.
    AutoReplicate(Vec<Redistribute>),
    /// `ALTER TABLE t DISTRIBUTE BY … | TO NODE … | ADD NODE … | DELETE NODE …`, of a table and all below it.
    Redistribute(Vec<Redistribute>),
    /// `CREATE NODE`, `EXECUTE DIRECT`, `CLEAN CONNECTION`, …: the executor's own commands.
    Cluster(Box<ClusterCommand>),
    /// A function, procedure or block that no node can run by itself: its body is run statement by statement.
    Routine(Box<Routine>),
    /// The session's own business (BEGIN, SET, SHOW, PREPARE, EXECUTE, FETCH, LISTEN, …): what it is stands in
    /// [`Statement::kind`](crate::Statement::kind).
    Session,
}

/// See [`Plan::Forward`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// Any one of these will do. Several stand here for reads of replicated tables (the home node comes first if it is
    /// one) and for INSERT into a round-robin table (take another one each time).
    pub nodes: Vec<NodeId>,
    /// The user's own text unless it had to be rewritten.
    pub sql: String,
    /// Changes or locks rows.
    pub writes: bool,
    /// Known to look at nothing but the rows it brings (`template/snapshot_independent.rs`); only a plan by template says so.
    pub is_snapshot_independent: bool,
}

impl Forward {
    pub(crate) fn of(statement: &Statement, nodes: Vec<NodeId>, writes: bool) -> Self {
        Self { nodes, sql: statement.sql.to_string(), writes, is_snapshot_independent: false }
    }
}

/// See [`Plan::Scatter`].
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Scatter {
    pub nodes: Vec<NodeId>,
    pub sql: String,
    pub writes: bool,
    /// Those in `sql`.
    pub tables: Arc<Tables>,
}

impl Scatter {
    pub(crate) fn of(statement: &Statement, nodes: Vec<NodeId>, writes: bool) -> Self {
        Self { nodes, sql: statement.sql.to_string(), writes, tables: Tables::of_statement(statement) }
    }
}

/// See [`Plan::Replicate`].
#[derive(Clone, Debug)]
pub struct Replicate {
    /// Run (and lock) on the first, then on all others. The first is the primary datanode if it has a copy.
    pub nodes: Vec<NodeId>,
    /// The text for every node.
    pub sql: String,
    /// Those in `sql`.
    pub tables: Arc<Tables>,
}

impl Replicate {
    pub(crate) fn of(statement: &Statement, nodes: Vec<NodeId>) -> Self {
        Self { nodes, sql: statement.sql.to_string(), tables: Tables::of_statement(statement) }
    }
}

/// See [`Plan::FirstCopy`].
#[derive(Clone, Debug)]
pub struct FirstCopy {
    /// The change, in which the tables are on `copies.first` alone.
    pub plan: Plan,
    /// Where the rows go then.
    pub copies: Copies,
    /// All nodes that may take part.
    pub nodes: Vec<NodeId>,
    /// The tables, qualified.
    pub written: Vec<String>,
    /// Those in the statement.
    pub tables: Arc<Tables>,
}

impl FirstCopy {
    /// Is it an INSERT of rows that it brings itself?
    pub fn brings_rows(&self) -> bool {
        matches!(self.plan, Plan::Forward(_)) && self.tables.brings_rows()
    }
}

/// Where the copies of tables are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copies {
    /// The copy that is changed first.
    pub first: NodeId,
    /// The others.
    pub others: Vec<NodeId>,
    /// The tables that the statement changes, partitions and children too, as schema and name. Others are changed by what
    /// foreign keys do on every copy.
    pub tables: Vec<(String, String)>,
}

/// See [`Plan::Gather`]. The executor makes every input's temp table, then runs `final_sql` on `node`.
#[derive(Clone, Debug)]
pub struct Gather {
    /// The home node.
    pub node: NodeId,
    /// May be filled side by side; no input reads another.
    pub inputs: Vec<Input>,
    /// Reads the inputs' temp tables by their bare names.
    pub final_sql: FinalSql,
    /// `final_sql` itself changes something on the home node (`INSERT INTO temp_table SELECT …`, `nextval`).
    pub writes: bool,
    /// A plan for these rows in this order without the temp table, for callers that pass them on as they come.
    pub merge: Option<Box<Merge>>,
    /// What has to be lent on all of its nodes while it runs.
    pub lent: Vec<Lent>,
}

/// See [`Plan::ExchangePlan`]. Everything runs in one REPEATABLE READ transaction on each node, which is rolled back at the end:
/// 1. the local copies; 2. the exchanges in order; a fragment may read the tables of earlier ones by their bare names; 3. `last`.
///
/// It changes nothing but its temp tables. Inside a transaction block these are other sessions than the block's own.
#[derive(Clone, Debug)]
pub struct ExchangePlan {
    /// Every node that takes part. All of them get all temp tables, filled or not, so that any text is valid on any node.
    pub nodes: Vec<NodeId>,
    /// Tables that only the block's own sessions can read as they should be: each of `nodes` gives its rows to the session beside it.
    pub local_copies: Vec<Input>,
    /// In order.
    pub exchanges: Vec<Exchange>,
    /// A [`Forward`], [`Scatter`] or [`Gather`].
    pub last: Plan,
    /// Type markers in the texts of `last` that nodes run (of a [`Gather`]: in those of its inputs); see [`FinalSql`].
    pub last_types: Vec<(usize, usize)>,
    /// The exchanges (0-based) that the inputs of these markers stand for.
    pub last_inputs: Vec<usize>,
    /// Texts whose number of rows (as the home node's EXPLAIN gives it) would have made a better plan.
    pub estimates_wanted: Vec<String>,
}

/// A fragment, and where its rows go.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The temp table, unique within the plan: `loxo_x1`, `loxo_x2`, …
    pub table: String,
    /// Its columns' names; the types are those of the fragment.
    pub columns: Vec<String>,
    /// Nodes whose rows are wanted.
    pub nodes: Vec<NodeId>,
    /// A SELECT, valid on every node of the plan.
    pub sql: FinalSql,
    /// The exchanges (0-based) that the inputs of `sql`'s markers stand for.
    pub inputs: Vec<usize>,
    /// Where the rows go.
    pub route: Route,
    /// For every node once the rows are there.
    pub indexes: Vec<Index>,
    /// How the rows are read then depends on what is in them, not just on how many there are.
    pub is_analysed: bool,
}

/// What makes a temp table of these columns. The names are SQL.
pub fn create_temp_table(table: &str, definitions: &[String]) -> String {
    format!("CREATE TEMP TABLE {table} ({}) ON COMMIT DROP", definitions.join(", "))
}

/// An index of a temp table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// Names.
    pub columns: Vec<String>,
    /// It is the primary key.
    pub is_key: bool,
}

impl Index {
    /// What makes it. The table's name is SQL.
    pub fn create_sql(&self, table: &str) -> String {
        let columns = names_list(&self.columns);
        match self.is_key {
            true => format!("ALTER TABLE {table} ADD PRIMARY KEY ({columns})"),
            false => format!("CREATE INDEX ON {table} ({columns})"),
        }
    }
}

/// One temp table on the home node and the fragment that fills it:
/// `CREATE TEMP TABLE <table> ON COMMIT DROP AS <sql> WITH NO DATA` there, then the rows of `sql` on all `nodes`.
#[derive(Clone, Debug)]
pub struct Input {
    /// Unique within the plan: `loxo_g1`, `loxo_g2`, …
    pub table: String,
    /// Nodes whose rows are wanted. One of several copies of a replicated table is already chosen here.
    pub nodes: Vec<NodeId>,
    /// A SELECT, valid on every node, also on the home node even if that is not one of `nodes`.
    pub sql: String,
    /// For the home node once the rows are there.
    pub indexes: Vec<Index>,
    /// How to get the rows if `sql` is not to be run on each node: it only says then what they look like.
    pub exchange_plan: Option<Arc<ExchangePlan>>,
}

/// SQL text in which a word `loxo_type_of_<input>_<column>` (both 1-based) stands for the full type name of that column of
/// the input's temp table (`format_type(atttypid, atttypmod)`), which only a server knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinalSql {
    /// The template.
    pub text: String,
    /// The markers that occur, so that nobody has to search: `(input, column)`, 1-based.
    pub types: Vec<(usize, usize)>,
}

impl FinalSql {
    /// A text without markers.
    pub fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), types: Vec::new() }
    }

    /// The marker's spelling.
    pub fn marker(input: usize, column: usize) -> String {
        format!("loxo_type_of_{input}_{column}")
    }

    /// The text with every marker replaced. `type_name` gets 1-based input and column.
    pub fn resolve(&self, mut type_name: impl FnMut(usize, usize) -> String) -> String {
        let mut markers = self.types.clone();
        // Longest number first: `…_1_1` is a prefix of `…_1_12`.
        markers.sort_unstable_by(|a, b| b.cmp(a));
        markers.iter().fold(self.text.clone(), |text, &(input, column)| {
            text.replace(&Self::marker(input, column), &type_name(input, column))
        })
    }
}

impl Plan {
    /// Is this the same plan, but for how our own texts are spelt?
    pub fn does_the_same(&self, other: &Plan) -> bool {
        let spelt = |sql: &str| crate::tree::deparse(crate::parse(sql).ok()?.first()?.node()?).ok();
        match (self, other) {
            (Plan::Forward(one), Plan::Forward(other)) => {
                one.nodes == other.nodes && one.sql == other.sql && one.writes == other.writes
            }
            (Plan::Scatter(one), Plan::Scatter(other)) => {
                one.nodes == other.nodes && one.sql == other.sql && one.writes == other.writes
            }
            (Plan::InsertSplit(one), Plan::InsertSplit(other)) => {
                let same = |((node, sql), (other_node, other_sql)): (&(NodeId, String), &(NodeId, String))| {
                    node == other_node && spelt(sql) == spelt(other_sql)
                };
                one.places == other.places && one.parts.iter().zip(&other.parts).all(same)
            }
            _ => false,
        }
    }
}

/// See [`Plan::InsertSplit`]: each part on its node, in one distributed transaction; counts are added, rows come in the order of VALUES.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InsertSplit {
    /// Node and complete INSERT text, in node id order.
    pub parts: Vec<(NodeId, String)>,
    /// For each part the numbers (from 0) of its rows in the user's VALUES.
    pub places: Vec<Vec<u64>>,
    /// Clauses of each part.
    pub clauses: Clauses,
    /// As [`Forward::is_snapshot_independent`].
    pub is_snapshot_independent: bool,
}

/// See [`Plan::CopyFrom`]. Options, source and line-level details are in the statement's [`CopyStatement`](crate::parse::CopyStatement).
#[derive(Clone, Debug)]
pub struct CopyFrom {
    /// The table.
    pub target: Arc<Relation>,
    /// Columns of a line, in order.
    pub columns: Vec<RowColumn>,
    /// Where a line goes (positions count in `columns`).
    pub route: Route,
    /// Set when lines cannot go to the nodes as they are (a default that only the home node can evaluate, a WHERE
    /// clause on such a table, `DEFAULT` markers): COPY into the stage table on the home node, read it back, route.
    pub stage: Option<Stage>,
    /// The home node, for `stage`.
    pub node: NodeId,
    /// The text after WHERE. Each node may apply it itself.
    pub where_sql: Option<String>,
    /// Only the first copy of a replicated table gets the lines; the others get the rows that came of them.
    pub copies: Option<Copies>,
}

/// See [`Plan::CopyHome`]. The input goes there as it is.
#[derive(Clone, Debug)]
pub struct CopyHome {
    /// The home node.
    pub node: NodeId,
    /// The temp table or catalog, with the column list if there is one.
    pub what: String,
    /// The text after WHERE.
    pub where_sql: Option<String>,
}

/// See [`Plan::CopyTo`].
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct CopyTo {
    pub source: CopySource,
    /// The query is a change of rows with RETURNING.
    pub writes: bool,
}

/// Where the rows of a COPY TO come from; `what` is put between `COPY` and `TO STDOUT`: `s.t (a, b)` or `(SELECT …)`.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum CopySource {
    /// Any one of the nodes has all rows.
    One { nodes: Vec<NodeId>, what: String },
    /// All nodes' rows together.
    All { nodes: Vec<NodeId>, what: String },
    /// The rows of the last step.
    ExchangePlan(Box<ExchangePlan>),
    /// `COPY (<final_sql>) TO STDOUT` on the home node.
    Gather(Gather),
}

/// See [`Plan::Explain`].
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Explain {
    /// Lower-case names and their values as written, e.g. `("format", Some("json"))`.
    pub options: Vec<(String, Option<String>)>,
    pub analyze: bool,
    pub inner: Box<Plan>,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::plan::display::write_at(f, self, 0)
    }
}

/// A table that is read with another's rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lent {
    /// The name of our view on it, in schema `loxo`.
    pub view: String,
    /// With which the names of all begin.
    pub prefix: String,
    /// The role whose rights are lent.
    pub owner: String,
    /// The table, qualified and quoted.
    pub table: String,
    /// As in `FROM ONLY`.
    pub only: bool,
}
