//! What the cluster looks like: datanodes, groups, tables with their columns and distribution, types, functions.
//!
//! A [`Catalog`] is an immutable snapshot with a version. A room that needs it holds an `Arc<Catalog>` for as long as one
//! statement lives; a DDL statement makes a new one. Reading the rows off a datanode is the executor's work (this crate
//! does no I/O); [`Builder`] turns those rows into a snapshot.
//!
//! Invariants: names are stored as PostgreSQL stores them (already folded, unquoted); object ids are those of the
//! *catalog node* (the primary datanode) and mean nothing on another datanode; a relation that is absent here does not
//! exist for the planner.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use placement::BucketMap;

mod builder;
mod builtins;
mod code;
mod columns;
mod distribution;
mod generated;
mod look_alikes;
pub mod meaning;
mod moved;
mod quote;
mod rule;
pub mod system_views;
mod user_types;
pub use builder::Builder;
pub use builtins::{BuiltinAggregate, BuiltinFunction, BuiltinOperator, BuiltinType, Builtins};
pub use code::{Asks, Captured, Code, CodeFacts, Event, Leavings};
pub use distribution::{Distribution, KeyColumn, MapId};
pub use generated::Generated;
pub use look_alikes::LookAlikes;
pub use meaning::Meaning;
pub use rule::{Rule, RuleEvent, RuleState};
pub use user_types::UserType;
pub use {moved::WrittenMap, quote::quote_identifier, quote::quote_literal};

/// A datanode's place in [`Catalog::nodes`]; small, dense, stable for the life of a node. Also the value that a
/// [`BucketMap`] holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u16);

/// 1-based column number as in `pg_attribute.attnum`.
pub type AttNum = i16;

/// A PostgreSQL object id on the catalog node.
pub type Oid = u32;

/// First object id that is not built in (`FirstNormalObjectId`).
pub const FIRST_USER_OID: Oid = 16384;

/// One datanode.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Node {
    pub id: NodeId,
    pub name: String,
    pub host: String,
    pub port: u16,
    /// Written first for replicated tables; home of sequences and system catalogs. Exactly one node has it.
    pub primary: bool,
    pub preferred: bool,
}

/// `CREATE NODE GROUP`.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Group {
    pub name: String,
    pub members: Vec<NodeId>,
}

/// `pg_class.relkind`, as far as the planner tells them apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum RelationKind {
    Table,
    PartitionedTable,
    View,
    MaterializedView,
    Sequence,
    ForeignTable,
    Composite,
}

/// `pg_class.relpersistence`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Persistence {
    Permanent,
    Unlogged,
    Temporary,
}

/// A column that exists (dropped ones are left out).
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Column {
    pub number: AttNum,
    pub name: String,
    pub type_oid: Oid,
    /// `atttypmod`, -1 for none.
    pub type_modifier: i32,
    /// `format_type(atttypid, atttypmod)` with an empty search path: can be put into SQL as it is.
    pub type_name: String,
    pub not_null: bool,
    /// `pg_get_expr` of the default, the column's own or else its type's, with an empty search path; also the expression of a
    /// generated column.
    pub default: Option<String>,
    /// The default is absent or made of immutable/stable built-ins only (no sequence, no volatile function).
    pub default_is_stable: bool,
    pub generated: Generated,
    /// The column's collation is the type's default one or deterministic: equal means equal bytes.
    pub deterministic: bool,
    /// The column's collation, if it has one, is the type's default one.
    pub default_collation: bool,
    /// Its values are texts that are sorted by their bytes: the collation is C, POSIX or one that gives the same order.
    pub bytewise: bool,
}

/// An index or constraint that says "these columns together are unique".
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct UniqueKey {
    pub name: String,
    pub columns: Vec<AttNum>,
    pub primary: bool,
}

/// A foreign key of a relation.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct ForeignKey {
    pub name: String,
    pub columns: Vec<AttNum>,
    pub referenced: Oid,
    pub referenced_columns: Vec<AttNum>,
    /// ON DELETE or ON UPDATE changes rows.
    pub acts: bool,
    /// ON UPDATE CASCADE.
    pub cascades: bool,
    /// Columns that SET NULL and SET DEFAULT give another value.
    pub resets: Vec<AttNum>,
    /// `pg_constraint.confdeltype` and `confupdtype`.
    pub on_delete: char,
    pub on_update: char,
}

/// A table, view, sequence, … with what the planner must know of it.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Relation {
    pub oid: Oid,
    pub schema: String,
    pub name: String,
    pub kind: RelationKind,
    pub persistence: Persistence,
    pub columns: Vec<Column>,
    pub distribution: Distribution,
    /// Nobody has chosen the distribution: it may give way to constraints that it does not allow.
    pub by_default: bool,
    /// `pg_get_viewdef` with an empty search path, without the final semicolon, for views.
    pub view_definition: Option<String>,
    /// A view with an operator of a user's that its text may leave out, as PostgreSQL prints `USING` and `NULLIF`.
    pub hides_operator: bool,
    /// `security_barrier` or row level security: conditions must not be moved past it.
    pub is_barrier: bool,
    /// A view WITH CHECK OPTION.
    pub check_option: bool,
    pub unique_keys: Vec<UniqueKey>,
    /// Plain columns of what else keeps rows apart and says less: unique indexes over some of the rows, with expressions, or
    /// under which other values are equal than by the column's own equality.
    pub other_unique: Vec<Vec<AttNum>>,
    /// Of each EXCLUDE constraint the columns that it compares by PostgreSQL's own equality.
    pub exclusions: Vec<Vec<AttNum>>,
    pub foreign_keys: Vec<ForeignKey>,
    /// Parent of a partition, or the parents of an inheritance child; all are distributed alike.
    pub parents: Vec<Oid>,
    pub is_partition: bool,
    pub has_children: bool,
    /// User triggers (not those of foreign keys).
    pub has_triggers: bool,
    /// Among them there are others than BEFORE … FOR EACH ROW that the coordinator runs.
    pub has_other_triggers: bool,
    /// Triggers that the coordinator runs.
    pub captured: Vec<Captured>,
    /// By name, as PostgreSQL takes them.
    pub rules: Vec<Rule>,
    /// Functions that the nodes call by themselves when rows are read or changed.
    pub code: Option<Arc<Code>>,
    /// `pg_class.reltuples` summed over the nodes, at least 0. An estimate.
    pub rows: f64,
}

impl Relation {
    /// Does a view have triggers INSTEAD OF for one of these events (bits of `pg_trigger.tgtype`)? Then it is not what lies under it
    /// that is changed. Of a temporary view's triggers no more is known than that there are some.
    pub fn is_changed_instead(&self, events: i16) -> bool {
        match self.captured.is_empty() {
            true => self.has_triggers,
            false => self.captured.iter().any(|one| one.is_instead() && one.kind & events != 0),
        }
    }

    /// `"schema"."name"`, quoted only where needed.
    pub fn qualified_name(&self) -> String {
        format!("{}.{}", quote_identifier(&self.schema), quote_identifier(&self.name))
    }
}

/// What a user-defined function may do, as far as its body tells.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Function {
    pub oid: Oid,
    pub schema: String,
    pub name: String,
    pub language: String,
    /// `pg_proc.provolatile`: `i`, `s`, `v`.
    pub volatility: char,
    /// `pg_proc.prokind`: `f`unction, `p`rocedure, `a`ggregate, `w`indow.
    pub kind: char,
    /// Anyone may call it.
    pub is_public: bool,
    /// `pg_get_functiondef`; of C functions the library, empty for aggregates.
    pub definition: String,
    /// The user-defined functions that an aggregate is made of.
    pub parts: Vec<Oid>,
    /// PARALLEL SAFE: by its author's word it touches nothing that belongs to the session.
    pub is_parallel_safe: bool,
    /// It returns `trigger`.
    pub is_trigger: bool,
    /// It has a clause SET search_path.
    pub sets_path: bool,
    /// `SECURITY DEFINER`: its owner may use other schemas of the search path, and have one of his name.
    pub is_definer: bool,
    /// With how many arguments it can be called: the fewest, and the most if there is such a number.
    pub arguments: (usize, Option<usize>),
    /// What the planner found.
    pub leavings: OnceLock<Leavings>,
}

impl Function {
    /// May it be called with so many arguments?
    pub fn takes(&self, count: usize) -> bool {
        let (least, most) = self.arguments;
        least <= count && most.is_none_or(|most| count <= most)
    }
}

/// One consistent view of the cluster's metadata.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    version: u64,
    schema_version: u64,
    nodes: Vec<Node>,
    coordinators: Vec<Node>,
    gtms: Vec<Node>,
    groups: Vec<Group>,
    maps: HashMap<MapId, Arc<BucketMap>>,
    /// The transactions that wrote the maps.
    maps_written: HashMap<MapId, u32>,
    /// … and that moved rows of tables without a key last.
    scattered_by: HashMap<Oid, u32>,
    relations: HashMap<Oid, Arc<Relation>>,
    by_name: HashMap<String, HashMap<String, Oid>>,
    functions: HashMap<String, Vec<Function>>,
    types: HashMap<Oid, UserType>,
    types_by_name: HashMap<String, Vec<Oid>>,
    operators: HashMap<String, Vec<(String, Oid)>>,
    nondeterministic_collations: HashSet<String>,
    system_names: HashSet<String>,
    builtins: Arc<Builtins>,
    /// Names of operators that users have made for PostgreSQL's own types.
    own_operators: HashSet<String>,
    look_alikes: LookAlikes,
    server_version: u32,
    defers_constraints: bool,
    withholds_temp: bool,
    rows_move: bool,
    captures: bool,
    has_foreign_keys: bool,
    has_rules: bool,
    column_grants: HashSet<Oid>,
    view_owners: HashMap<Oid, String>,
    unnamed_functions: HashSet<Oid>,
    unnamed_leavings: OnceLock<Leavings>,
    /// Views as tables, as far as they were asked for.
    shown: OnceLock<HashMap<Oid, OnceLock<Option<Arc<Relation>>>>>,
}

impl Catalog {
    /// Grows by at least one with every DDL statement.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Another one whenever anything but places of rows has changed: what PostgreSQL has said of names and types holds for as long as it
    /// is the same.
    pub fn schema_version(&self) -> u64 {
        self.schema_version
    }

    /// All datanodes in id order. One that has left leaves a hole.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Coordinators, for `pgxc_node`.
    pub fn coordinators(&self) -> &[Node] {
        &self.coordinators
    }

    /// A datanode by name.
    pub fn node_by_name(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|n| n.name == name)
    }

    /// The primary datanode.
    pub fn primary(&self) -> NodeId {
        self.nodes.iter().find(|n| n.primary).map_or(NodeId(0), |n| n.id)
    }

    /// All datanode ids.
    pub fn all_nodes(&self) -> Vec<NodeId> {
        self.nodes.iter().map(|n| n.id).collect()
    }

    /// All gtms in id order.
    pub fn gtms(&self) -> &[Node] {
        &self.gtms
    }

    /// Node groups.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// A bucket map by id.
    pub fn map(&self, id: MapId) -> Option<&Arc<BucketMap>> {
        self.maps.get(&id)
    }

    /// All bucket maps.
    pub fn maps(&self) -> impl Iterator<Item = (MapId, &Arc<BucketMap>)> {
        self.maps.iter().map(|(id, map)| (*id, map))
    }

    /// Have no rows of the table moved between this catalog and the other one? If they are where they were they may have been
    /// elsewhere meanwhile, and those of a table without a key may be on any of its nodes.
    pub fn placed_alike(&self, other: &Catalog, relation: &Relation) -> bool {
        match &relation.distribution {
            Distribution::Hash { map_id, .. } | Distribution::Modulo { map_id, .. } => {
                self.maps_written.get(map_id) == other.maps_written.get(map_id)
            }
            Distribution::RoundRobin { .. } => {
                self.scattered_by.get(&relation.oid) == other.scattered_by.get(&relation.oid)
            }
            _ => true,
        }
    }

    /// Relation by exact schema and name.
    pub fn relation(&self, schema: &str, name: &str) -> Option<&Arc<Relation>> {
        self.by_name.get(schema)?.get(name).and_then(|oid| self.relations.get(oid))
    }

    /// Relation by object id on the catalog node.
    pub fn relation_by_oid(&self, oid: Oid) -> Option<&Arc<Relation>> {
        self.relations.get(&oid)
    }

    /// All user relations, in no order.
    pub fn relations(&self) -> impl Iterator<Item = &Arc<Relation>> {
        self.relations.values()
    }

    /// Does a user schema of this name hold relations, or is it known at all?
    pub fn has_schema(&self, schema: &str) -> bool {
        self.by_name.contains_key(schema)
    }

    /// User-defined functions of this name, in any schema.
    pub fn functions(&self, name: &str) -> &[Function] {
        self.functions.get(name).map_or(&[], Vec::as_slice)
    }

    /// All user-defined functions, in no order.
    pub fn all_functions(&self) -> impl Iterator<Item = &Function> {
        self.functions.values().flatten()
    }

    /// User-defined functions by object id on the catalog node, in no order.
    pub fn functions_by_oid<'a>(&'a self, oids: &'a [Oid]) -> impl Iterator<Item = &'a Function> {
        self.all_functions().filter(|function| oids.contains(&function.oid))
    }

    /// Is there a user-defined operator of this name in any schema?
    pub fn has_user_operator(&self, name: &str) -> bool {
        self.operators.contains_key(name)
    }

    /// What is PostgreSQL's own.
    pub fn builtins(&self) -> &Builtins {
        &self.builtins
    }

    /// PostgreSQL's own operators of a name; none if users have made others for the same types.
    pub fn builtin_operators(&self, name: &str) -> &[BuiltinOperator] {
        if self.own_operators.contains(name) { &[] } else { self.builtins.operators(name) }
    }

    /// Names that both an object of PostgreSQL's and one of a user's have.
    pub fn look_alikes(&self) -> &LookAlikes {
        &self.look_alikes
    }

    /// All user-defined operators of this name: their schemas, and the functions behind them.
    pub fn operator_functions(&self, name: &str) -> &[(String, Oid)] {
        self.operators.get(name).map_or(&[], Vec::as_slice)
    }

    /// Does reading the catalog wait for sessions that have locked a table? Definitions of views, rules and generated columns
    /// are printed under a lock.
    pub fn prints_under_locks(&self) -> bool {
        self.has_rules
            || self.relations.values().any(|relation| {
                relation.view_definition.is_some()
                    || relation.columns.iter().any(|column| column.generated.is_computed())
            })
    }

    /// Is there a constraint or a constraint trigger that is INITIALLY DEFERRED, on any table?
    pub fn defers_constraints(&self) -> bool {
        self.defers_constraints
    }

    /// Does a change of any table make the coordinator run a trigger?
    pub fn captures(&self) -> bool {
        self.captures
    }

    /// Has any table a foreign key?
    pub fn has_foreign_keys(&self) -> bool {
        self.has_foreign_keys
    }

    /// With whose rights a view is read; `None` if with those of its reader.
    pub fn view_owner(&self, view: Oid) -> Option<&str> {
        self.view_owners.get(&view).map(String::as_str)
    }

    /// Have no rows of any table that is in both moved since the other was read?
    pub fn places_as(&self, other: &Catalog) -> bool {
        let alike = |(id, by): (&MapId, &u32)| other.maps_written.get(id).is_none_or(|other| other == by);
        let scattered = |(oid, by): (&Oid, &u32)| other.scattered_by.get(oid).is_none_or(|other| other == by);
        self.maps_written.iter().all(alike) && self.scattered_by.iter().all(scattered)
    }

    /// Is a rebalance under way? Bucket maps change often then.
    pub fn rows_move(&self) -> bool {
        self.rows_move
    }

    /// Are there roles without the right to make temp tables? A role that was granted it has it all the same.
    pub fn withholds_temp(&self) -> bool {
        self.withholds_temp
    }

    /// Has somebody been granted rights on some columns of the relation?
    pub fn has_column_grants(&self, relation: Oid) -> bool {
        self.column_grants.contains(&relation)
    }

    /// Has any table or view a rule?
    pub fn has_rules(&self) -> bool {
        self.has_rules
    }

    /// User functions that a statement may call without naming them or a table: those of operators, casts, types and operator
    /// classes.
    pub fn unnamed_functions(&self) -> &HashSet<Oid> {
        &self.unnamed_functions
    }

    /// A view as a table, if each node can show its part of the view's rows by itself. Found out once.
    pub fn shown(&self, view: Oid, find: impl FnOnce() -> Option<Arc<Relation>>) -> Option<Arc<Relation>> {
        let views = || self.relations.values().filter(|relation| relation.kind == RelationKind::View);
        let shown = self.shown.get_or_init(|| views().map(|view| (view.oid, OnceLock::new())).collect());
        shown.get(&view)?.get_or_init(find).clone()
    }

    /// What these leave: found by `find` when it is asked for first.
    pub fn unnamed_leavings(&self, find: impl FnOnce() -> Leavings) -> &Leavings {
        self.unnamed_leavings.get_or_init(find)
    }

    /// Relations of this name, in any schema.
    pub fn relations_named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Arc<Relation>> {
        let oids = self.by_name.values().filter_map(move |names| names.get(name));
        oids.filter_map(|oid| self.relations.get(oid))
    }

    /// Is this relation's name one of `pg_catalog` too?
    pub fn is_system_name(&self, name: &str) -> bool {
        self.system_names.contains(name)
    }

    /// Is there a relation whose name is one of `pg_catalog` too?
    pub fn has_system_names(&self) -> bool {
        !self.system_names.is_empty()
    }

    /// Is there a nondeterministic collation of this name in any schema? With `None`: of any name?
    pub fn has_nondeterministic_collation(&self, name: Option<&str>) -> bool {
        let collations = &self.nondeterministic_collations;
        name.map_or(!collations.is_empty(), |name| collations.contains(name))
    }

    /// `server_version_num` of the oldest datanode, e.g. 150018.
    pub fn server_version(&self) -> u32 {
        self.server_version
    }
}
