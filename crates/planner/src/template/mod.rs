//! Plans for the next statements of the same [`Shape`]: parse and plan once, then only find the node.
//!
//! ```text
//!  text ── Shape::scan ──> shape text ── (executor's cache) ──> Template ── constants at the key's places ──> node
//!                           constants ───────────────────────────────────────────────────┘
//! ```
//!
//! Two kinds of plans are kept: the whole statement on the one node that its key names, or on all nodes of a table if it names none. For which
//! statements does the node depend on the constants through the key alone? For those where nothing else could decide: rows come from one table
//! distributed by a key, no sub-select, no WITH, no set operation, each key column pinned by one `key = constant` among the ANDs of WHERE and
//! mentioned nowhere else in it, or given in an INSERT's one row. It runs on all nodes whatever the constants are if WHERE mentions no key column
//! and there is no clause in which a number may mean something else (`GROUP BY 1`). An INSERT … SELECT goes where its source's rows are
//! ([`copied`]). And what the planner finds out by walking the tree (functions, casts, locks) is the same for every statement of the shape; the
//! strings that say otherwise (`'now'`) have no shape.
//!
//! An INSERT of many rows is placed row by row with a template for each kind of row in it ([`ManyRows`]). Of one that looks at
//! nothing but its row several can go as one ([`Repeated`]).
//!
//! Invariants: a template comes from a fresh plan, which it must reproduce; it holds for one catalog version, one search
//! path and a session without temp tables (the cache sees to that); a constant it is not sure of is planned afresh. A test
//! compares both ways over all case files and random constants.

mod clock_places;
mod completed;
mod copied;
mod parameters;
mod rows;
mod snapshot_independent;

use std::sync::{Arc, OnceLock};

use catalog::{Catalog, Column, Distribution, NodeId, Relation};
use pg_query::protobuf::{AExpr, AExprKind, ColumnRef, FuncCall, InsertStmt, List, RangeVar, ResTarget, SelectStmt};
use pg_query::{Node, NodeEnum};

use crate::context::{Context, Named};
use crate::dml::{check_key, is_column};
use crate::facts::clock;
use crate::facts::constant::{self, Constant};
use crate::facts::{effects::leavings, functions::facts};
use crate::parse::shape::{Literal, LiteralKind};
use crate::parse::{self, Shape, Statement};
use crate::plan::tables::{Clauses, Tables};
use crate::plan::{Forward, Plan, Scatter};
use crate::session::{Moment, Parameter, SessionFacts};
use crate::tree::{self, Ask, Get, Ref, Walk};

use clock_places::ClockPlaces;
pub use completed::Completion;
use copied::Copied;
pub use parameters::Parameterised;
use parameters::Parameters;
pub use rows::{Learned, ManyRows};
pub use snapshot_independent::Repeated;

/// See the module's page.
#[derive(Debug)]
pub struct Template {
    /// The table whose key it is.
    relation: Arc<Relation>,
    place: Place,
    /// Clauses of an INSERT: the key is that of a new row.
    insert: Option<Clauses>,
    is_snapshot_independent: bool,
    writes: bool,
    reads_clock: bool,
    /// Where its words do, if no default does. Bodies of functions read that of their node.
    clock_places: Option<ClockPlaces>,
    parameters: Option<Parameters>,
    /// All statements of the shape are the same text.
    is_constant_free: bool,
    /// See [`Template::repeated`]; made when it is first asked for.
    repeated: OnceLock<Option<Repeated>>,
}

/// Where statements of the shape run.
#[derive(Debug)]
enum Place {
    /// On the node of this key.
    Key(Vec<KeySource>),
    /// Wherever the table has rows.
    Everywhere(Arc<Tables>),
}

/// Where the value of a key column stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeySource {
    Literal(usize),
    Parameter(usize),
}

impl Template {
    /// The template of a statement that has this shape, if it can have one that says what the planner would.
    pub(crate) fn learned(ctx: &Context<'_>, sql: &str, shape: &Shape) -> Option<Self> {
        let statement = single(sql)?;
        // A default may read the clock.
        if crate::dml::sets_default(&statement) {
            return None;
        }
        // After a statement that leaves something in its backends the session has to do something about it.
        if !ctx.session.temp_relations.is_empty() || !leavings(&statement, ctx.catalog).is_nothing() {
            return None;
        }
        let template = Self::of_tree(ctx, sql, statement.node()?, shape)?;
        // Inside a block and outside of one: a template serves both.
        let agrees = [false, true].into_iter().all(|in_transaction| {
            let session = SessionFacts { in_transaction, clock: None, now: None, ..ctx.session.clone() };
            template.agrees(&Context { session: &session, ..*ctx }, sql, shape, &statement)
        });
        agrees.then_some(template)
    }

    fn of_tree(ctx: &Context<'_>, sql: &str, tree: &NodeEnum, shape: &Shape) -> Option<Self> {
        if has_sub_query(tree)? {
            return None;
        }
        let facts = facts(ctx, tree).ok()?;
        let is_plain = facts.home.is_none()
            && facts.refused.is_none()
            && facts.function_nodes.is_none()
            && !facts.modifying_cte
            && !facts.current_of;
        let target = target(tree)?;
        let relation = keyed(ctx, target.name)?;
        // With other constants a key that is set to what it is may be set to something else.
        let sets_key =
            matches!(tree, NodeEnum::UpdateStmt(update) if check_key(&relation, &update.target_list).is_err());
        if !is_plain || sets_key {
            return None;
        }
        let by_default = |default: &str| clock::default_reads(ctx, default);
        let default_reads_clock =
            matches!(tree, NodeEnum::InsertStmt(insert) if defaults_of(insert, &relation).any(by_default));
        let reads_clock = facts.clock.is_some() || default_reads_clock;
        let is_clock = |call: &FuncCall| clock::is_of_postgresql(call, ctx.catalog);
        let clock_places = if default_reads_clock { None } else { ClockPlaces::of(tree, sql, shape, is_clock) };
        let template = Self {
            relation: relation.clone(),
            place: Place::Everywhere(Arc::default()),
            insert: None,
            is_snapshot_independent: false,
            writes: !matches!(tree, NodeEnum::SelectStmt(_)) || facts.writes || facts.locking,
            reads_clock,
            clock_places,
            parameters: None,
            is_constant_free: shape.is_constant_free(),
            repeated: OnceLock::new(),
        };
        let places = Places { catalog: ctx.catalog, relation: &relation, shape };
        Some(match &target.rows {
            Rows::Inserted(insert) => Self {
                place: Place::Key(places.in_values(insert)?),
                insert: Some(Clauses::of(insert)),
                is_snapshot_independent: snapshot_independent::is_snapshot_independent(insert, &relation),
                parameters: Parameters::of(tree, sql, shape, &relation, is_clock),
                ..template
            },
            Rows::Copied(copied) => {
                let source = keyed(ctx, copied.source)?;
                let place =
                    Places { catalog: ctx.catalog, relation: &source, shape }.of_source(copied, &relation, tree)?;
                Self { relation: source, place, ..template }
            }
            Rows::Matching(condition) => match condition.and_then(|c| places.in_condition(target.name, c)) {
                Some(key) => {
                    let parameters = Parameters::of(tree, sql, shape, &relation, is_clock);
                    Self { place: Place::Key(key), parameters, ..template }
                }
                None => Self { place: places.everywhere(*condition, tree)?, ..template },
            },
        })
        .filter(|template| matches!(template.place, Place::Key(_)) || !template.reads_clock)
    }

    fn agrees(&self, ctx: &Context<'_>, sql: &str, shape: &Shape, statement: &Statement) -> bool {
        let Some(mine) = self.plan(sql, shape, ctx.session.parameters) else { return false };
        ctx.planner.plan(ctx, statement).is_ok_and(|fresh| fresh.does_the_same(&mine))
    }

    /// The plan of a statement that has the shape this template was learned from. `None`: plan it afresh.
    pub fn plan(&self, sql: &str, shape: &Shape, parameters: &[Parameter<'_>]) -> Option<Plan> {
        let (sql_text, writes) = (sql.to_owned(), self.writes);
        Some(match &self.place {
            Place::Key(_) => {
                let nodes = vec![self.place(sql, shape, parameters)?];
                Plan::Forward(Forward {
                    nodes,
                    sql: sql_text,
                    writes,
                    is_snapshot_independent: self.is_snapshot_independent,
                })
            }
            Place::Everywhere(tables) => {
                let (nodes, tables) = (self.relation.distribution.nodes(), tables.clone());
                Plan::Scatter(Scatter { nodes, sql: sql_text, writes, tables })
            }
        })
    }

    /// The one node of that plan.
    pub fn place(&self, sql: &str, shape: &Shape, parameters: &[Parameter<'_>]) -> Option<NodeId> {
        let Place::Key(key) = &self.place else { return None };
        let constant = |source: &KeySource| match source {
            KeySource::Literal(index) => literal(sql, shape.literals().get(*index)?),
            KeySource::Parameter(index) => Constant::of_parameter(parameters.get(*index)?),
        };
        let values: Vec<Constant> = key.iter().map(constant).collect::<Option<_>>()?;
        let values: Vec<&Constant> = values.iter().collect();
        self.node(&values)
    }

    fn node(&self, values: &[&Constant]) -> Option<NodeId> {
        if values.contains(&&Constant::Null) {
            return None;
        }
        match self.insert.is_some() {
            true => constant::node_of_row(&self.relation.distribution, values),
            false => constant::node_of_key(&self.relation.distribution, values),
        }
    }

    /// The statement with its numbers as parameters, if that makes no difference.
    pub fn parameterise(&self, sql: &str, shape: &Shape) -> Option<Parameterised> {
        self.parameters.as_ref()?.apply(sql, shape, None)
    }

    /// The statement with the time of `moment` where it reads the clock, and its numbers as parameters if it has none of its own and
    /// that makes no difference. `own`: how many parameters it has, if it came with any; the time is one behind them then. `None` if
    /// [`Template::takes_moment`] is false.
    pub fn at_one_moment(
        &self,
        sql: &str,
        shape: &Shape,
        moment: &Moment,
        own: Option<usize>,
    ) -> Option<Parameterised> {
        let clock = self.clock_places.as_ref().filter(|_| sql.is_ascii())?;
        let places = |parameter| clock_places::Places { sql, shape, places: clock, moment, parameter };
        let as_parameter = |before: usize| places(Some(before + 1));
        let with_numbers = || {
            let parameters = self.parameters.as_ref()?;
            parameters.apply(sql, shape, Some(&as_parameter(shape.literals().len())))
        };
        let with_parameters = own.map_or_else(with_numbers, |own| as_parameter(own).apply());
        match with_parameters {
            Some(mut text) => {
                text.moments = places(None).moments();
                Some(text)
            }
            None => places(None).apply(),
        }
    }

    /// Can another node's time stand in this statement of the shape, by its text alone?
    pub fn takes_moment(&self, sql: &str) -> bool {
        self.clock_places.is_some() && sql.is_ascii()
    }

    /// Is it an INSERT of rows that it brings itself?
    pub fn brings_rows(&self) -> bool {
        self.insert.is_some()
    }

    /// Is it one that does nothing else?
    pub fn only_inserts(&self) -> bool {
        self.insert.is_some_and(Clauses::only_inserts)
    }

    /// Does the statement read the time, so that inside a transaction block it matters whose?
    pub fn reads_clock(&self) -> bool {
        self.reads_clock
    }
}

fn single(sql: &str) -> Option<Statement> {
    let mut statements = parse::parse(sql).ok()?;
    let statement = statements.pop()?;
    (statements.is_empty() && *statement.sql == *sql && statement.node_sql == statement.sql).then_some(statement)
}

/// The constant as [`Constant::of`] would read it off the tree.
fn literal(sql: &str, literal: &Literal) -> Option<Constant> {
    let text = &sql[literal.range.clone()];
    match literal.kind {
        // Zeros in front are not kept by the parser.
        LiteralKind::Integer | LiteralKind::Decimal if text.len() > 1 && text.starts_with('0') => None,
        LiteralKind::Integer | LiteralKind::Decimal => Some(Constant::Number(text.to_owned())),
        LiteralKind::String { doubled: true } => None,
        LiteralKind::String { doubled: false } => Some(Constant::Untyped(text[1..text.len() - 1].to_owned())),
    }
}

/// Anything that reads a second source of rows. `None` if the tree cannot be walked.
fn has_sub_query(tree: &NodeEnum) -> Option<bool> {
    let (mut found, mut queries) = (false, 0);
    tree.walk(&mut |node| {
        match node {
            Ref::SubLink(_) | Ref::CommonTableExpr(_) | Ref::RangeSubselect(_) | Ref::RangeFunction(_) => found = true,
            Ref::SelectStmt(_) => queries += 1,
            _ => {}
        }
        Ok(!found)
    })
    .ok()?;
    Some(found || queries > 1)
}

/// A table distributed by a key.
fn keyed(ctx: &Context<'_>, name: &RangeVar) -> Option<Arc<Relation>> {
    let Named::Distributed(relation) = ctx.resolve(name).ok()? else { return None };
    matches!(relation.distribution, Distribution::Hash { .. } | Distribution::Modulo { .. }).then_some(relation)
}

struct Target<'t> {
    name: &'t RangeVar,
    rows: Rows<'t>,
}

enum Rows<'t> {
    /// New ones.
    Inserted(&'t InsertStmt),
    /// New ones, out of another table.
    Copied(Copied<'t>),
    Matching(Option<&'t Node>),
}

/// The one table of a statement, and what picks its rows.
fn target(tree: &NodeEnum) -> Option<Target<'_>> {
    Some(match tree {
        NodeEnum::SelectStmt(select) => {
            let name = only_table(select)?;
            Target { name, rows: Rows::Matching(select.where_clause.as_deref()) }
        }
        NodeEnum::UpdateStmt(update) if update.from_clause.is_empty() && update.with_clause.is_none() => {
            Target { name: update.relation.as_ref()?, rows: Rows::Matching(update.where_clause.as_deref()) }
        }
        NodeEnum::DeleteStmt(delete) if delete.using_clause.is_empty() && delete.with_clause.is_none() => {
            Target { name: delete.relation.as_ref()?, rows: Rows::Matching(delete.where_clause.as_deref()) }
        }
        NodeEnum::InsertStmt(insert) if insert.with_clause.is_none() => {
            let rows = Copied::of(insert).map_or(Rows::Inserted(insert), Rows::Copied);
            Target { name: insert.relation.as_ref()?, rows }
        }
        _ => return None,
    })
}

/// The table of a query that reads just one.
fn only_table(select: &SelectStmt) -> Option<&RangeVar> {
    let is_plain = !tree::is_operation(select)
        && select.with_clause.is_none()
        && select.into_clause.is_none()
        && select.values_lists.is_empty();
    match select.from_clause.as_slice() {
        [Node { node: Some(NodeEnum::RangeVar(name)) }] if is_plain => Some(name),
        _ => None,
    }
}

struct Places<'a> {
    catalog: &'a Catalog,
    relation: &'a Relation,
    shape: &'a Shape,
}

impl Places<'_> {
    /// Where each key column's value stands in the one row of an INSERT.
    fn in_values(&self, insert: &InsertStmt) -> Option<Vec<KeySource>> {
        let query = insert.select_stmt.get::<SelectStmt>()?;
        let [Node { node: Some(NodeEnum::List(row)) }] = query.values_lists.as_slice() else { return None };
        let given = given_columns(insert, self.relation)?;
        let source = |number| {
            let column = self.relation.column_at(number)?;
            let mut positions = given.iter().enumerate().filter(|(_, name)| **name == column.name);
            let (position, _) = positions.next()?;
            // A value may have to be cut to fit varchar(n).
            let (_, modifier) = self.catalog.value_type(column.type_oid, column.type_modifier);
            let is_kept = modifier == -1 && positions.next().is_none();
            is_kept.then(|| self.source(row.items.get(position)?)).flatten()
        };
        self.relation.distribution.key().iter().map(|key| source(key.number)).collect()
    }

    /// Where each key column's value stands in a condition.
    fn in_condition(&self, table: &RangeVar, condition: &Node) -> Option<Vec<KeySource>> {
        let alias = tree::alias_of(table);
        if table.alias.as_ref().is_some_and(|alias| !alias.colnames.is_empty()) {
            return None;
        }
        let conjuncts = tree::conjuncts(Some(condition));
        let source = |name: &str| {
            let pins: Vec<KeySource> = conjuncts.iter().filter_map(|c| self.pin(c, alias, name)).collect();
            match (pins.as_slice(), mentions(condition, name)) {
                ([pin], Some(1)) => Some(*pin),
                _ => None,
            }
        };
        self.relation.key_names().into_iter().map(source).collect()
    }

    /// The statement runs on all nodes whatever its constants are.
    fn everywhere(&self, condition: Option<&Node>, tree: &NodeEnum) -> Option<Place> {
        let mentions_key = |name: &str| condition.is_some_and(|condition| mentions(condition, name) != Some(0));
        let may = parameters::is_simple(tree, |_| false)? && !self.relation.key_names().into_iter().any(mentions_key);
        may.then(|| Tables::of(tree).map(Arc::new).map(Place::Everywhere))?.ok()
    }

    /// `name = constant`, either way round.
    fn pin(&self, condition: &Node, alias: &str, name: &str) -> Option<KeySource> {
        let comparison = condition.get::<AExpr>()?;
        let [operator] = comparison.name.as_slice() else { return None };
        if comparison.kind != AExprKind::AexprOp as i32 || tree::text_of(operator) != Some("=") {
            return None;
        }
        let (left, right) = (comparison.lexpr.as_deref()?, comparison.rexpr.as_deref()?);
        match (is_column(left, alias, name), is_column(right, alias, name)) {
            (true, false) => self.source(right),
            (false, true) => self.source(left),
            _ => None,
        }
    }

    /// A bare constant or parameter. One with a sign or a cast stands elsewhere in the text than its literal.
    fn source(&self, value: &Node) -> Option<KeySource> {
        match value.node.as_ref()? {
            NodeEnum::AConst(constant) => {
                let start = usize::try_from(constant.location).ok()?;
                let found = self.shape.literals().iter().position(|literal| literal.range.start == start);
                found.map(KeySource::Literal)
            }
            NodeEnum::ParamRef(parameter) => {
                usize::try_from(parameter.number).ok()?.checked_sub(1).map(KeySource::Parameter)
            }
            _ => None,
        }
    }
}

/// The columns of an INSERT, in order.
fn given_columns<'a>(insert: &'a InsertStmt, relation: &'a Relation) -> Option<Vec<&'a str>> {
    match insert.cols.is_empty() {
        true => Some(relation.columns.iter().map(|column| column.name.as_str()).collect()),
        false => insert.cols.iter().map(plain_column).collect(),
    }
}

/// The defaults of the columns that an INSERT gives no values for, or for which it asks. [`sets_default`](crate::sets_default) tells
/// of those in its ON CONFLICT.
fn defaults_of<'a>(insert: &'a InsertStmt, relation: &'a Relation) -> impl Iterator<Item = &'a str> {
    let rows = insert.select_stmt.get().and_then(tree::width).unwrap_or(0);
    let names: Vec<&str> = match insert.cols.is_empty() {
        true => relation.columns.iter().take(rows).map(|column| column.name.as_str()).collect(),
        false => insert.cols.iter().filter_map(tree::name_of).collect(),
    };
    let values = insert.select_stmt.get::<SelectStmt>().map(|query| query.values_lists.as_slice()).unwrap_or_default();
    let is_default = |row: &Node, at: usize| {
        let value = row.get::<List>().and_then(|row| row.items.get(at)?.node.as_ref());
        matches!(value, Some(NodeEnum::SetToDefault(_)))
    };
    let is_given = |at: &usize| !values.iter().any(|row| is_default(row, *at));
    let given: Vec<&str> = (0..names.len()).filter(is_given).map(|at| names[at]).collect();
    let is_left_out = move |column: &&'a Column| !given.contains(&column.name.as_str());
    relation.columns.iter().filter(is_left_out).filter_map(|column| column.default.as_deref())
}

fn plain_column(target: &Node) -> Option<&str> {
    target.get::<ResTarget>().filter(|target| target.indirection.is_empty()).map(|target| target.name.as_str())
}

/// How often a column of this name, or a whole row that may hold it, is mentioned.
fn mentions(condition: &Node, name: &str) -> Option<usize> {
    let may_be = |column: &ColumnRef| tree::last_name(&column.fields).is_none_or(|own| own == name);
    condition.count(|node| matches!(node, Ref::ColumnRef(column) if may_be(column))).ok()
}
