//! The parsed statement and its classification.

#![allow(missing_docs)]

use std::sync::Arc;

use pg_query::NodeEnum;
use pg_query::protobuf::TransactionStmtKind;

use super::Analysis;
use crate::tree;

/// One statement of a query string. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Statement {
    /// The statement's exact text: no surrounding blanks or comments, no final semicolon.
    pub sql: Arc<str>,
    /// Characters (not bytes) before `sql` in the query string: add it to a position a datanode reports for `sql`.
    pub offset: usize,
    /// What it is.
    pub kind: StatementKind,
    /// Highest `$n`, 0 without parameters.
    pub parameters: usize,
    /// `sql` with a distribution clause blanked out by spaces; equal to `sql` if there is none. Valid on a datanode.
    pub node_sql: Arc<str>,
    /// The distribution clause of CREATE TABLE.
    pub(crate) clause: Option<DistributeBy>,
    /// Rules have had their say: it is what they made of another statement.
    pub(crate) is_rewritten: bool,
    /// It stores rows for which triggers BEFORE … FOR EACH ROW have run.
    pub(crate) stores_rows: bool,
    /// It reads a view with the rights of its owner; the beginning of the names of [what lends them](crate::Lent).
    pub(crate) as_owner: Option<Arc<str>>,
    /// See [`Statement::as_owner`].
    pub(crate) is_owners: bool,
    /// PostgreSQL's tree of `node_sql`, or of what its analysis made of that. Absent for cluster commands.
    pub(crate) tree: Option<Arc<NodeEnum>>,
    /// Where `tree`, or that of the query in it, comes from, if PostgreSQL has analysed the statement.
    pub(crate) analysis: Option<Analysis>,
}

/// The classification: every raw statement of PostgreSQL 18's grammar has a place here, or parsing refuses it by name.
#[derive(Clone, Debug, PartialEq)]
pub enum StatementKind {
    /// SELECT, VALUES, TABLE (also with data-modifying WITH).
    Select,
    Insert,
    Update,
    Delete,
    Merge,
    Copy(Box<CopyStatement>),
    Explain(Box<ExplainStatement>),
    Transaction(Transaction),
    Set(SetStatement),
    Show(String),
    Discard(Discard),
    /// `SET CONSTRAINTS …`: runs on every node of the transaction.
    Constraints,
    /// `PREPARE name (types) AS inner`.
    Prepare {
        name: String,
        types: Vec<String>,
        inner: Box<Statement>,
    },
    /// `EXECUTE name (arguments)`; the arguments are SQL expressions.
    Execute {
        name: String,
        arguments: Vec<String>,
    },
    /// `None` for ALL.
    Deallocate(Option<String>),
    DeclareCursor(Box<DeclareCursor>),
    Fetch(Fetch),
    /// `None` for ALL.
    CloseCursor(Option<String>),
    Listen(String),
    Notify {
        channel: String,
        payload: String,
    },
    /// `None` for `*`.
    Unlisten(Option<String>),
    /// LOCK TABLE.
    Lock,
    Truncate,
    /// VACUUM and ANALYZE.
    Vacuum,
    /// CLUSTER, REINDEX, CHECKPOINT.
    Maintenance,
    /// CREATE TABLE and CREATE FOREIGN TABLE.
    CreateTable,
    /// CREATE TABLE AS, SELECT INTO, CREATE MATERIALIZED VIEW.
    CreateTableAs,
    RefreshMaterializedView,
    /// `ALTER TABLE …` and its kin for views, indexes, sequences, …
    AlterTable,
    /// `ALTER TABLE t DISTRIBUTE BY …` and so on.
    Redistribute(Box<Redistribution>),
    CreateIndex,
    Drop,
    Rename,
    /// Every other DDL statement. `planner::plan` decides by the tree which are allowed.
    Ddl,
    Do,
    Call,
    /// Ours, not PostgreSQL's.
    Cluster(Box<ClusterCommand>),
}

/// `BEGIN` and `START TRANSACTION`, `COMMIT`, …
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transaction {
    Begin(TransactionModes),
    Commit { chain: bool },
    Rollback { chain: bool },
    Savepoint(String),
    Release(String),
    RollbackTo(String),
    Prepare(String),
    CommitPrepared(String),
    RollbackPrepared(String),
}

/// Modes of a transaction; `None` where the statement does not say.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TransactionModes {
    /// Lower case: `serializable`, `repeatable read`, `read committed`, `read uncommitted`.
    pub isolation: Option<String>,
    /// READ ONLY or READ WRITE.
    pub read_only: Option<bool>,
    /// DEFERRABLE or NOT DEFERRABLE.
    pub deferrable: Option<bool>,
}

/// `SET` and `RESET`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetStatement {
    /// `SET [LOCAL] name = values`; the values as text, lists in order; `name` in lower case as PostgreSQL compares it.
    Value {
        name: String,
        values: Vec<String>,
        local: bool,
    },
    /// `SET [LOCAL] name TO DEFAULT`.
    Default {
        name: String,
        local: bool,
    },
    /// `SET TRANSACTION …`.
    Transaction(TransactionModes),
    /// `SET SESSION CHARACTERISTICS AS TRANSACTION …`.
    SessionCharacteristics(TransactionModes),
    /// `SET TRANSACTION SNAPSHOT 'id'`.
    Snapshot(String),
    Reset(String),
    ResetAll,
}

/// `DISCARD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    All,
    Plans,
    Sequences,
    Temp,
}

/// `EXPLAIN`.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainStatement {
    /// Lower-case names and their values as written (`ANALYZE` alone: no value).
    pub options: Vec<(String, Option<String>)>,
    /// ANALYZE is on: the statement runs.
    pub analyze: bool,
    /// What is explained.
    pub inner: Statement,
}

/// `DECLARE name CURSOR FOR query`.
#[derive(Clone, Debug, PartialEq)]
pub struct DeclareCursor {
    pub name: String,
    pub binary: bool,
    /// `None` if neither SCROLL nor NO SCROLL stands there.
    pub scroll: Option<bool>,
    pub hold: bool,
    pub inner: Statement,
}

/// `FETCH` and `MOVE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// The cursor's name.
    pub cursor: String,
    /// `MOVE`: no rows come back.
    pub is_move: bool,
    /// Which way.
    pub direction: FetchDirection,
    /// How many rows, or the position for ABSOLUTE and RELATIVE; `i64::MAX` for ALL.
    pub count: i64,
}

/// Direction of [`Fetch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchDirection {
    Forward,
    Backward,
    Absolute,
    Relative,
}

/// `COPY`.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyStatement {
    /// What is copied.
    pub subject: CopySubject,
    /// `FROM`, else `TO`.
    pub is_from: bool,
    /// The other end.
    pub source: CopyEndpoint,
    /// Options in order. The old spelling (`CSV HEADER`) arrives as the new one (`format` = `csv`, `header` without a value).
    pub options: Vec<(String, Option<CopyValue>)>,
    /// The text after WHERE.
    pub where_sql: Option<String>,
}

/// Subject of a COPY.
#[derive(Clone, Debug, PartialEq)]
pub enum CopySubject {
    /// A table with its column list (empty: all columns).
    Relation { schema: Option<String>, name: String, columns: Vec<String> },
    /// `COPY (query) TO`.
    Query(Box<Statement>),
}

/// The other end of a COPY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyEndpoint {
    /// STDIN or STDOUT: the client.
    Client,
    File(String),
    Program(String),
}

/// Value of a COPY option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyValue {
    Text(String),
    /// `HEADER 1` is not `HEADER '1'`.
    Integer(i64),
    List(Vec<String>),
    /// `*`, as in `FORCE_QUOTE *`.
    Star,
}

/// A distribution clause, from any of the three dialects.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DistributeBy {
    /// How; `None` if only TO NODE / TO GROUP stands there.
    pub kind: Option<DistributionKind>,
    /// Where; `None`: all datanodes.
    pub nodes: Option<NodeSelection>,
    /// `LIKE source INCLUDING DISTRIBUTE`, INCLUDING NODE and the like: which source, as `(schema, name)`, is copied.
    pub like: Option<(Option<String>, String)>,
}

/// The kind of distribution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DistributionKind {
    Hash(Vec<String>),
    Modulo(String),
    Replication,
    RoundRobin,
    /// `DISTSTYLE AUTO`: as if no clause were there.
    Default,
}

/// `TO NODE (…)` or `TO GROUP g`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeSelection {
    Nodes(Vec<String>),
    Group(String),
}

/// `ALTER TABLE t <actions>` where all actions are about distribution.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Redistribution {
    pub schema: Option<String>,
    pub name: String,
    pub if_exists: bool,
    pub clause: DistributeBy,
    /// `ADD NODE (…)`.
    pub add: Vec<String>,
    /// `DELETE NODE (…)`.
    pub delete: Vec<String>,
}

/// What ALTER NODE GROUP changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GroupChange {
    /// `ADD NODE (name, …)`.
    Add(Vec<String>),
    /// `DELETE NODE (name, …)`.
    Delete(Vec<String>),
    /// `WITH (name, …)`, as CREATE NODE GROUP has it.
    With(Vec<String>),
    /// `RENAME TO name`.
    Rename(String),
}

/// Commands of the cluster: those that PostgreSQL's grammar does not know, and those of databases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterCommand {
    /// `EXECUTE DIRECT ON (node, …) 'query'`.
    ExecuteDirect {
        nodes: Vec<String>,
        query: String,
    },
    CreateNode(String, NodeOptions),
    /// `ALTER [CLUSTER] NODE`.
    AlterNode(String, NodeOptions),
    DropNode(String),
    /// `DROP NODE name, … LOST`: they do not answer, and what they hold is given up.
    DropLostNodes(Vec<String>),
    CreateGroup {
        name: String,
        members: Vec<String>,
    },
    /// `ALTER NODE GROUP name …`: tables stay where they are.
    AlterGroup(String, GroupChange),
    DropGroup(String),
    /// CLEAN CONNECTION, for all databases and users, whatever it says of them.
    CleanConnection(CleanTarget),
    /// `ALTER CLUSTER REBALANCE [WITHOUT NODE (name, …)] [LEVEL] [RATE rows]`: spreads the buckets evenly over all datanodes but these.
    /// With `level` the rows of tables without a key too, each over its own nodes; `rate`: most rows a second.
    Rebalance {
        without: Vec<String>,
        level: bool,
        rate: Option<u32>,
    },
    /// `ALTER CLUSTER REBALANCE PAUSE | RESUME | CANCEL`.
    ControlRebalance(RebalanceControl),
    /// `ALTER CLUSTER REPAIR [schema.]table`: rows go to where they belong, copies become alike.
    Repair {
        schema: Option<String>,
        name: String,
    },
    CreateDatabase {
        name: String,
        template: Option<String>,
        sql: String,
    },
    DropDatabase {
        name: String,
        missing_ok: bool,
        force: bool,
        sql: String,
    },
    /// `ALTER DATABASE … RENAME TO`.
    RenameDatabase {
        name: String,
        new_name: String,
    },
    CreateBarrier,
    /// And UNPAUSE CLUSTER.
    PauseCluster,
}

/// `WITH (TYPE = 'datanode', HOST = …, PORT = …, PRIMARY, PREFERRED)`; `None` where nothing is said.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NodeOptions {
    /// `coordinator`, `datanode` or `gtm`.
    pub node_type: Option<String>,
    pub host: Option<String>,
    pub port: Option<u16>,
    pub primary: Option<bool>,
    pub preferred: Option<bool>,
}

/// What becomes of the rebalance that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RebalanceControl {
    Pause,
    Resume,
    Cancel,
}

/// `CLEAN CONNECTION TO …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CleanTarget {
    Coordinators(Vec<String>),
    Nodes(Vec<String>),
    All,
}

impl StatementKind {
    /// The first word of the command tag of a statement that reads or changes rows.
    pub fn row_command(&self) -> Option<&'static str> {
        Some(match self {
            Self::Select => "SELECT",
            Self::Insert => "INSERT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Merge => "MERGE",
            _ => return None,
        })
    }

    /// Does the session carry it out itself? It knows what it does.
    pub(crate) fn is_sessions_own(&self) -> bool {
        matches!(
            self,
            Self::Transaction(_)
                | Self::Set(_)
                | Self::Show { .. }
                | Self::Discard(_)
                | Self::Constraints
                | Self::Prepare { .. }
                | Self::Execute { .. }
                | Self::Deallocate { .. }
                | Self::Fetch(_)
                | Self::CloseCursor { .. }
                | Self::Listen { .. }
                | Self::Notify { .. }
                | Self::Unlisten { .. }
        )
    }
}

impl PartialEq for Statement {
    /// Same text, same meaning.
    fn eq(&self, other: &Self) -> bool {
        self.sql == other.sql && self.offset == other.offset
    }
}

impl Statement {
    /// A text that says all there is to say.
    pub(crate) fn of_text(sql: &str, kind: StatementKind) -> Self {
        Self {
            sql: Arc::from(sql),
            offset: 0,
            kind,
            parameters: 0,
            node_sql: Arc::from(sql),
            clause: None,
            is_rewritten: false,
            stores_rows: false,
            as_owner: None,
            is_owners: false,
            tree: None,
            analysis: None,
        }
    }

    /// Is it START TRANSACTION? BEGIN does the same under another name.
    pub fn is_start_transaction(&self) -> bool {
        matches!(self.node(), Some(NodeEnum::TransactionStmt(begin)) if begin.kind() == TransactionStmtKind::TransStmtStart)
    }

    /// The statement as what is left of another.
    pub fn in_place_of(self, whole: &Statement) -> Self {
        Self { is_rewritten: whole.is_rewritten, ..self }
    }

    /// The statement, which reads one view and nothing else, as one that does so with the rights of the view's owner, whatever those
    /// of the user. `prefix` is a name that no other session of the cluster uses at the same time.
    pub fn reading_as_owner(self, prefix: &str) -> Self {
        Self { as_owner: Some(Arc::from(prefix)), ..self }
    }

    /// The REFRESH of a materialized view as one that its owner runs, with nothing in it by which he could become another.
    pub fn as_owner(self) -> Self {
        Self { is_owners: true, ..self }
    }

    /// See [`Statement::as_owner`].
    pub fn runs_as_owner(&self) -> bool {
        self.is_owners
    }

    /// Is it what a client, or the body of a function, says?
    pub fn is_as_sent(&self) -> bool {
        !self.is_rewritten && !self.stores_rows && self.as_owner.is_none() && self.analysis.is_none()
    }

    /// See [`Statement::reading_as_owner`].
    pub fn reads_as_owner(&self) -> bool {
        self.as_owner.is_some()
    }

    /// The statement as one that stores rows for which triggers BEFORE … FOR EACH ROW, and rules, have run.
    pub fn storing_rows(self) -> Self {
        Self { is_rewritten: true, stores_rows: true, ..self }
    }

    /// The query of CREATE TABLE AS, SELECT INTO, EXPLAIN, DECLARE or PREPARE: what a datanode has to describe to give
    /// the column types of [`SessionFacts::describe`](crate::SessionFacts). `None` for other statements.
    pub fn query_to_describe(&self) -> Option<String> {
        match &self.kind {
            StatementKind::Explain(explain) if self.creates_table_as() => explain.inner.query_to_describe(),
            StatementKind::Explain(explain) => Some(explain.inner.sql.to_string()),
            StatementKind::DeclareCursor(declare) => Some(declare.inner.sql.to_string()),
            StatementKind::Prepare { inner, .. } => Some(inner.sql.to_string()),
            StatementKind::CreateTableAs => self.tree.as_deref().and_then(super::query_of_ctas),
            _ => None,
        }
    }

    /// Does it begin with WITH?
    pub fn has_with(&self) -> bool {
        self.node().is_some_and(|tree| tree::with_of(tree).is_some())
    }

    /// CREATE TABLE AS, or EXPLAIN of it: its plan needs the columns of its query.
    pub fn creates_table_as(&self) -> bool {
        let explained = if let StatementKind::Explain(explain) = &self.kind { &explain.inner } else { self };
        explained.kind == StatementKind::CreateTableAs
    }

    /// The statement that stands in this one: that of EXPLAIN, the query of a cursor or of COPY.
    pub(crate) fn inner(&self) -> Option<&Self> {
        match &self.kind {
            StatementKind::Explain(explain) => Some(&explain.inner),
            StatementKind::DeclareCursor(declare) => Some(&declare.inner),
            StatementKind::Copy(copy) => match &copy.subject {
                CopySubject::Query(query) => Some(query),
                CopySubject::Relation { .. } => None,
            },
            _ => None,
        }
    }

    /// [`Self::inner`], to be changed.
    pub(crate) fn inner_mut(&mut self) -> Option<&mut Self> {
        match &mut self.kind {
            StatementKind::Explain(explain) => Some(&mut explain.inner),
            StatementKind::DeclareCursor(declare) => Some(&mut declare.inner),
            StatementKind::Copy(copy) => match &mut copy.subject {
                CopySubject::Query(query) => Some(query),
                CopySubject::Relation { .. } => None,
            },
            _ => None,
        }
    }

    /// PostgreSQL's tree; cluster commands have none.
    pub fn node(&self) -> Option<&NodeEnum> {
        self.tree.as_deref()
    }
}
