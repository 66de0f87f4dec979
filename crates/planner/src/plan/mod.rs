//! What the planner gives: [`Plan`], the orders for the executor. `Display` prints a plan as an indented tree; tests
//! and `EXPLAIN` read the same text.
//!
//! Conventions that hold for every plan:
//! - Texts keep the user's `$n` numbering; whoever runs a fragment passes all of the statement's parameters with their
//!   declared types, used or not.
//! - `writes` means "run it in the transaction's own session on that node": the text changes rows, locks rows
//!   (`FOR UPDATE`), or calls something that may write.
//! - Node lists are in id order and never empty, except where it is said.

pub(crate) mod display;

mod ddl;
mod locked;
mod merge;

use std::fmt;
use std::sync::Arc;

use catalog::{NodeId, Oid, Relation};
use pgerror::Result;
use placement::{BucketMap, KeyType};

use crate::facts::tables::{Clauses, Tables};
use crate::parse::ClusterCommand;
use crate::rewrite::owner_reads::Lent;
use crate::rewrite::routine::Routine;
pub use crate::with::plan::{CteStep, Kept, SequencedCtes};
pub use ddl::{DdlKind, DdlPlan, Effect, Elsewhere, Fill, MapRequest, Placement, Redistribute};
pub use locked::{LockTarget, LockWait, Locked, LockedBy};
pub use merge::{KeyForm, Merge, MergeKey, RowCount};

/// One planned statement.
#[derive(Clone, Debug)]
pub enum Plan {
    /// The whole statement on one node, bytes passed through.
    Forward(Forward),
    /// The same text on several nodes: rows are concatenated in any order, the counts of command tags are added.
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
    pub(crate) fn does_the_same(&self, other: &Forward) -> bool {
        self.nodes == other.nodes && self.sql == other.sql && self.writes == other.writes
    }
}

/// See [`Plan::Scatter`].
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Scatter {
    pub nodes: Vec<NodeId>,
    pub sql: String,
    pub writes: bool,
    /// The tables in `sql`, where that is known; only a plan by template says so.
    pub tables: Option<Arc<Tables>>,
}

impl Scatter {
    /// The tables in `sql`.
    pub fn tables(&self) -> Result<Arc<Tables>> {
        match &self.tables {
            Some(tables) => Ok(tables.clone()),
            None => Tables::in_text(&self.sql).map(Arc::new),
        }
    }
}

/// See [`Plan::Replicate`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replicate {
    /// Run (and lock) on the first, then on all others. The first is the primary datanode if it has a copy.
    pub nodes: Vec<NodeId>,
    /// The text for every node.
    pub sql: String,
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
    /// The same rows in the same order without the temp table, for whoever passes them on as they come.
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
    /// Tables that only the block's own sessions can read as they should be: each of `nodes` gives its rows to the session
    /// beside it.
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
    /// Of the primary key.
    pub is_key: bool,
}

impl Index {
    /// What makes it. The table's name is SQL.
    pub fn create_sql(&self, table: &str) -> String {
        let columns =
            self.columns.iter().map(|column| catalog::quote_identifier(column)).collect::<Vec<_>>().join(", ");
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
            (Plan::Forward(one), Plan::Forward(other)) => one.does_the_same(other),
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

/// See [`Plan::InsertSplit`]: each part on its node, in one distributed transaction; counts are added, rows come in the order of
/// VALUES.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InsertSplit {
    /// Node and complete INSERT text, in node id order.
    pub parts: Vec<(NodeId, String)>,
    /// For each part the numbers (from 0) of its rows in the user's VALUES.
    pub places: Vec<Vec<u64>>,
    /// Of each part.
    pub clauses: Clauses,
    /// As [`Forward::is_snapshot_independent`].
    pub is_snapshot_independent: bool,
}

/// See [`Plan::InsertStaged`]. Steps of the executor:
/// 1. make and fill `inputs` (as for [`Gather`]) on `node`; 2. make the stage there; 3. run `fill` there;
/// 4. read `stage.read_sql` (binary) and route each row by `stage.route`; 5. write the rows on their nodes with
///    [`InsertStaged::copy_sql`] if there is no tail, else with batches of [`InsertStaged::insert_sql`].
///
/// With [`Route::Replicated`] every row goes to all nodes; count and RETURNING rows are those of one of them.
///
/// Steps 1–4 need a session other than the writing ones: a transaction that touched temp tables cannot be PREPAREd.
#[derive(Clone, Debug)]
pub struct InsertStaged {
    /// The home node.
    pub node: NodeId,
    /// Sources of `fill`; empty for VALUES.
    pub inputs: Vec<Input>,
    /// The temp copy of the target and where its rows go.
    pub stage: Stage,
    /// `INSERT INTO loxo_stage (…) …`, run on `node`.
    pub fill: FinalSql,
    /// The target as it stands after INSERT INTO: qualified, with the user's alias if any.
    pub target_sql: String,
    /// `ON CONFLICT …` and `RETURNING …` in the user's words, empty if there are none.
    pub tail: String,
    /// What is in the tail.
    pub clauses: Clauses,
    /// Highest `$n` of the statement; the row values of `insert_sql` are numbered after it.
    pub parameters: usize,
    /// The rows of the only input may go straight to their nodes if they have the types of these columns and, in the key, their
    /// modifiers: else a value that is not yet as it will be stored would say where.
    pub direct: Option<Direct>,
    /// The statement's text.
    pub original: String,
    /// The user's own text, where his rights may be others than those that this takes: on a view, or on some columns. The home node
    /// says whether he may.
    pub rights_sql: Option<String>,
    /// The target is a view that has to check the rows.
    pub through: Option<Through>,
}

/// A view that rows of a stage go through.
#[derive(Clone, Debug)]
pub struct Through {
    /// What it calls the stage's columns.
    pub columns: Vec<String>,
}

/// Rows that need no stage.
#[derive(Clone, Debug)]
pub struct Direct {
    /// The columns of a row; all others have no default.
    pub columns: Vec<RowColumn>,
    /// Where a row goes (positions count in `columns`).
    pub route: Route,
    /// `COPY target (columns) FROM STDIN (FORMAT binary)`.
    pub copy_sql: String,
}

impl InsertStaged {
    /// Must the rows be written by INSERT? COPY does not write to a table whose policies hold for the user.
    pub fn needs_insert(&self) -> bool {
        !self.tail.is_empty() || self.through.is_some() || self.stage.target.is_barrier
    }

    /// `COPY target (columns) FROM STDIN (FORMAT binary)`. Only right when no INSERT is needed.
    pub fn copy_sql(&self) -> String {
        self.stage.copy_sql()
    }

    /// A multi-row INSERT with a placeholder for each value of `rows` rows; the user's own parameters come first.
    pub fn insert_sql(&self, rows: usize) -> String {
        let columns = &self.stage.columns;
        let names = self.through.as_ref().map_or_else(|| column_list(columns), |through| names_list(&through.columns));
        let mut text = format!("INSERT INTO {} ({names})", self.target_sql);
        text.push_str(" OVERRIDING SYSTEM VALUE VALUES ");
        for row in 0..rows {
            text.push_str(if row == 0 { "(" } else { ", (" });
            for (i, column) in columns.iter().enumerate() {
                let number = self.parameters + row * columns.len() + i + 1;
                let comma = if i == 0 { "" } else { ", " };
                text.push_str(&format!("{comma}${number}::{}", column.type_name));
            }
            text.push(')');
        }
        if !self.tail.is_empty() {
            text.push(' ');
            text.push_str(&self.tail);
        }
        text
    }
}

/// See [`Plan::StagedDml`]. Steps of the executor:
/// 1. have `original` described, so that PostgreSQL's complaints are about the user's own text; 2. make and fill `inputs`
///    (as for [`Gather`]) on `node`; 3. make the stage and run every one of `fills` there: each row of the stage is one row
///    to be changed, with the number of its action (`loxo_action`), its node and address (`loxo_node`, `loxo_table`, `loxo_ctid`,
///    NULL for new rows) and `columns`; 4. all DELETEs, then all UPDATEs, then all INSERTs.
///
/// Between 2 and 4 nobody else may change the target's rows unnoticed: REPEATABLE READ, or a lock.
#[derive(Clone, Debug)]
pub struct StagedDml {
    /// The home node.
    pub node: NodeId,
    /// The user's text.
    pub original: String,
    /// `UPDATE`, `DELETE` or `MERGE`.
    pub command: &'static str,
    /// What the fills read.
    pub inputs: Vec<Input>,
    /// The table itself.
    pub target: Arc<Relation>,
    /// What the user's expressions call it.
    pub alias: String,
    /// The stage's columns as CREATE TABLE has them.
    pub definitions: Vec<String>,
    /// `INSERT INTO loxo_stage …`, one for each action.
    pub fills: Vec<FinalSql>,
    /// By their number.
    pub actions: Vec<StagedAction>,
    /// The columns of the stage after the first four.
    pub columns: Vec<RowColumn>,
    /// Where a new or moved row goes (positions count in `columns`).
    pub route: Route,
    /// ` RETURNING …` over the target's columns and `returned` ones of `loxo_v`, or empty.
    pub returning: String,
    /// Columns of other tables that RETURNING gives, at the end of the stage; the home node says their types by `returned_sql`.
    pub returned: Vec<RowColumn>,
    /// A query over the inputs with these columns; empty if there are none.
    pub returned_sql: String,
    /// Highest `$n` of the statement; the values of rows are numbered after it.
    pub parameters: usize,
    /// Why no row may move to another node.
    pub rooted: Option<&'static str>,
    /// A text about a view in whose place this is done: the home node says whether the user may.
    pub rights_sql: Option<String>,
}

/// What happens to a row of the stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StagedAction {
    /// It is deleted.
    Delete,
    /// It gets the values of these columns (0-based).
    Update {
        /// Positions in [`StagedDml::columns`].
        columns: Vec<usize>,
        /// One of them is of the key: the row may belong to another node then.
        moves: bool,
    },
    /// It is new.
    Insert,
}

/// A temp table on the home node with the target's columns and defaults, but none of its constraints: PostgreSQL
/// evaluates defaults, casts and sequences there, the real table on the real node checks the constraints.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Bare name of the temp table.
    pub table: String,
    /// Its columns as CREATE TABLE has them.
    pub definitions: Vec<String>,
    /// `SELECT <columns> FROM loxo_stage`, in the order of insertion.
    pub read_sql: String,
    /// The real table.
    pub target: Arc<Relation>,
    /// All columns but generated ones, in table order: what `read_sql` gives.
    pub columns: Vec<RowColumn>,
    /// Where a row of `read_sql` goes.
    pub route: Route,
}

impl Stage {
    /// The stage of a table.
    pub fn of(relation: &Arc<Relation>) -> Self {
        crate::dml::stage::stage(relation, None)
    }

    /// `COPY target (columns) FROM STDIN (FORMAT binary)` for a datanode.
    pub fn copy_sql(&self) -> String {
        format!("COPY {} ({}) FROM STDIN (FORMAT binary)", self.target.qualified_name(), column_list(&self.columns))
    }
}

/// A column of a row in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct RowColumn {
    pub name: String,
    pub type_oid: Oid,
    pub type_modifier: i32,
    /// Ready to be put after `::`.
    pub type_name: String,
}

fn names_list(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| catalog::quote_identifier(name)).collect();
    names.join(", ")
}

pub(crate) fn column_list(columns: &[RowColumn]) -> String {
    let names: Vec<String> = columns.iter().map(|c| catalog::quote_identifier(&c.name)).collect();
    names.join(", ")
}

/// Which node gets a row.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Route {
    /// `map.node(hash(key) & 4095)`.
    Hash { key: Vec<(KeySource, KeyType)>, map: Arc<BucketMap>, nodes: Vec<NodeId> },
    /// `map.node(value & 4095)`.
    Modulo { key: (KeySource, KeyType), map: Arc<BucketMap>, nodes: Vec<NodeId> },
    /// Any node, evenly; the executor chooses where to start.
    RoundRobin { nodes: Vec<NodeId> },
    /// Every node.
    Replicated { nodes: Vec<NodeId> },
    /// One node, whatever the row.
    Single { node: NodeId },
}

impl Route {
    /// Positions of the columns that say where a row goes.
    pub fn key_columns(&self) -> Vec<usize> {
        let position = |(source, _): &(KeySource, KeyType)| match source {
            KeySource::Column(at) => Some(*at),
            KeySource::Null => None,
        };
        match self {
            Route::Hash { key, .. } => key.iter().filter_map(position).collect(),
            Route::Modulo { key, .. } => position(key).into_iter().collect(),
            Route::RoundRobin { .. } | Route::Replicated { .. } | Route::Single { .. } => Vec::new(),
        }
    }

    /// Does it bring every row to the same places?
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Route::Hash { key, map, nodes }, Route::Hash { key: k, map: m, nodes: n }) => {
                key == k && Arc::ptr_eq(map, m) && nodes == n
            }
            (Route::Replicated { nodes }, Route::Replicated { nodes: other }) => nodes == other,
            (Route::Single { node }, Route::Single { node: other }) => node == other,
            _ => false,
        }
    }
}

/// Where a key value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// 0-based position in the row.
    Column(usize),
    /// The column is not in the row and has no default.
    Null,
}

/// See [`Plan::CopyFrom`]. Options, source and line-level details are in the statement's
/// [`CopyStatement`](crate::parse::CopyStatement).
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

impl Plan {
    /// The plan itself, or the change of rows that triggers are to follow.
    pub fn change(&self) -> &Plan {
        match self {
            Plan::Routine(routine) => match routine.as_ref() {
                Routine::TriggeredDml(change) => change.plan.change(),
                _ => self,
            },
            Plan::FirstCopy(first) => &first.plan,
            _ => self,
        }
    }

    /// Do rows of tables leave their nodes before the statement is done with them?
    pub fn moves_rows(&self) -> bool {
        match self.change() {
            Plan::Gather(_) | Plan::ExchangePlan(_) | Plan::Locked(_) | Plan::InsertStaged(_) | Plan::StagedDml(_) => {
                true
            }
            Plan::SequencedCtes(_) => true,
            Plan::CopyTo(CopyTo { source: CopySource::ExchangePlan(_) | CopySource::Gather(_) }) => true,
            Plan::Explain(explain) => explain.inner.moves_rows(),
            Plan::DeclareCursor(inner) => inner.moves_rows(),
            Plan::FirstCopy(first) => first.plan.moves_rows(),
            _ => false,
        }
    }

    /// The exchanges of a plan, wherever they are in it.
    pub fn exchange_plan(&self) -> Option<&ExchangePlan> {
        let inputs = match self.change() {
            Plan::ExchangePlan(exchange_plan) => return Some(exchange_plan),
            Plan::CopyTo(CopyTo { source: CopySource::ExchangePlan(exchange_plan) }) => return Some(exchange_plan),
            Plan::Explain(explain) => return explain.inner.exchange_plan(),
            Plan::DeclareCursor(inner) => return inner.exchange_plan(),
            Plan::Gather(gather) | Plan::CopyTo(CopyTo { source: CopySource::Gather(gather) }) => &gather.inputs,
            Plan::InsertStaged(insert) => &insert.inputs,
            Plan::StagedDml(change) => &change.inputs,
            _ => return None,
        };
        inputs.iter().find_map(|input| input.exchange_plan.as_deref())
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::plan::display::write_plan(f, self)
    }
}
