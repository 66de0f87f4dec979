//! Where can the rows of a query be computed without moving any? The heart of the planner.
//!
//! Every query level gets a [`RowDistribution`], bottom-up: `Any` (no table: any node), `Replicated` (complete on each of some nodes:
//! replicated tables, or partitioned ones pinned to one node by their key), `Home`, or `Partitioned`: the rows are the disjoint
//! union of what each node computes from its own rows. Two split parts may meet only if their whole distribution keys are
//! known to be equal and are placed by the same map and hash class; then matching rows are on one node.
//! When that cannot be shown the answer is [`Not::Local`] with the reason, and the caller gathers rows instead.
//!
//! Invariant: a wrong "local" is a wrong answer, a wrong "not local" is only slow. All doubts end in the latter.

mod changes;
mod equalities;
mod from;
mod join;
mod steady;
mod sub_selects;

use catalog::{Distribution, MapId, NodeId};
use pg_query::protobuf::{
    ColumnRef, CommonTableExpr, JoinExpr, JoinType, List, RangeSubselect, RangeVar, ResTarget, SelectStmt,
    SetOperation, SubLink, SubLinkType, WithClause,
};
use pg_query::{Node, NodeEnum};
use pgerror::PgError;
use placement::KeyType;

use super::terms::{self, Equalities, Leaf, LeafColumn, Scope, Term};
use super::{exact, shape};
use crate::context::{Context, Named, intersect};
use crate::facts::builtins;
use crate::facts::constant::{self, Constant};
use crate::tree::{self, Ask, Get, Ref};

pub(crate) use steady::depends_on_order;

/// Leaf number of a [`Block`]'s own output columns in its part's key.
const OUTPUT: usize = usize::MAX;

/// Why there is no local plan.
#[derive(Clone, Debug)]
pub(crate) enum Not {
    /// It needs rows of other nodes; the reason for EXPLAIN and for refusals.
    Local(String),
    /// It cannot be run at all.
    Refused(PgError),
}

impl From<PgError> for Not {
    fn from(error: PgError) -> Self {
        Not::Refused(error)
    }
}

pub(crate) type Local<T> = Result<T, Not>;

fn not_local<T>(reason: impl Into<String>) -> Local<T> {
    Err(Not::Local(reason.into()))
}

/// Where rows can be computed.
#[derive(Clone, Debug)]
pub(crate) enum RowDistribution {
    Any,
    /// All rows on each of these nodes.
    Replicated(Vec<NodeId>),
    Home,
    Partitioned(Split),
}

/// Rows spread over nodes.
#[derive(Clone, Debug)]
pub(crate) struct Split {
    pub nodes: Vec<NodeId>,
    /// `None` if a row's node cannot be told from its columns.
    space: Option<Space>,
    /// The key columns, empty if they are not visible (any more).
    pub key: Vec<Term>,
}

impl Split {
    /// Is a [`Block`]'s key just these output columns, in order?
    pub fn has_key_at(&self, positions: &[usize]) -> bool {
        !self.key.is_empty()
            && self.key.len() == positions.len()
            && self.key.iter().zip(positions).all(|(key, position)| *key == (OUTPUT, *position))
    }

    /// The output column that is a column of a [`Block`]'s key.
    pub fn output_key(&self, at: usize) -> Option<usize> {
        self.key.get(at).filter(|term| term.0 == OUTPUT).map(|term| term.1)
    }

    /// Is a table of this distribution co-located with these rows, if the keys are equal?
    pub fn is_in_space_of(&self, distribution: &Distribution) -> bool {
        self.space.is_some() && self.space == Space::of(distribution)
    }
}

impl Space {
    fn of(distribution: &Distribution) -> Option<Self> {
        let (map, modulo) = match distribution {
            Distribution::Hash { map_id, .. } => (*map_id, false),
            Distribution::Modulo { map_id, .. } => (*map_id, true),
            _ => return None,
        };
        Some(Self { map, modulo, classes: distribution.key().iter().map(|k| k.key_type.hash_class()).collect() })
    }
}

/// Keys of one space with equal values are on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Space {
    map: MapId,
    modulo: bool,
    classes: Vec<KeyType>,
}

/// A sub-select, CTE or set operation as seen from outside; the key counts in output columns.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub part: RowDistribution,
    pub columns: Option<Vec<LeafColumn>>,
}

/// A query level after FROM and WHERE.
pub(crate) struct Body {
    pub scope: Scope,
    pub equal: Equalities,
    pub part: RowDistribution,
}

/// An enclosing query level, for correlated sub-selects.
#[derive(Clone, Copy)]
struct Outer<'o> {
    scope: &'o Scope,
    equal: &'o Equalities,
    part: &'o RowDistribution,
    next: Option<&'o Outer<'o>>,
}

/// What a query level sees of its surroundings.
#[derive(Clone, Default)]
pub(crate) struct Env<'o> {
    ctes: Vec<(String, Block)>,
    outer: Option<&'o Outer<'o>>,
}

/// One item of an inner join.
enum Item<'t> {
    Leaf(usize),
    Lateral(&'t RangeSubselect),
    Join(JoinType, Box<Region<'t>>, Box<Region<'t>>, Vec<Condition<'t>>),
}

/// Items joined by inner joins only, with all conditions.
#[derive(Default)]
struct Region<'t> {
    items: Vec<Item<'t>>,
    conditions: Vec<Condition<'t>>,
}

#[derive(Clone, Copy)]
enum Condition<'t> {
    Expression(&'t Node),
    Same(Term, Term),
}

/// Analyses one statement. Leaves of all levels live in one list, so a [`Term`] means the same everywhere.
pub(crate) struct Analyzer<'a> {
    pub ctx: &'a Context<'a>,
    pub leaves: Vec<Leaf>,
    parts: Vec<RowDistribution>,
    /// Do constants that a key is equal to narrow the nodes?
    narrows: bool,
}

impl<'a> Analyzer<'a> {
    pub fn new(ctx: &'a Context<'a>) -> Self {
        Self { ctx, leaves: Vec::new(), parts: Vec::new(), narrows: true }
    }

    /// Leaves rows that are pinned to one node by their key [`RowDistribution::Partitioned`], so that the key stays known.
    pub fn of_all_nodes(ctx: &'a Context<'a>) -> Self {
        Self { narrows: false, ..Self::new(ctx) }
    }

    /// The CTEs of a WITH clause, added to what is visible.
    pub fn with<'o>(&mut self, with: Option<&WithClause>, env: &Env<'o>) -> Local<Env<'o>> {
        let mut env = env.clone();
        let Some(with) = with else { return Ok(env) };
        for cte in tree::with_items(Some(with)) {
            let block = self.cte(cte, with.recursive, &env)?;
            env.ctes.push((cte.ctename.clone(), block));
        }
        Ok(env)
    }

    /// The CTEs of a whole query. A WITH item of the home node that nothing reads does not bring the query there, and its text
    /// means nothing elsewhere.
    pub fn with_of_query<'o>(&mut self, select: &SelectStmt, env: &Env<'o>) -> Local<Env<'o>> {
        let env = self.with(select.with_clause.as_ref(), env)?;
        let own = select.with_clause.as_ref().map_or(0, |with| with.ctes.len());
        for (name, block) in &env.ctes[env.ctes.len() - own..] {
            if matches!(block.part, RowDistribution::Home) && !mentions(select, name)? {
                return not_local("a WITH item of the home node that nothing reads");
            }
        }
        Ok(env)
    }

    /// A WITH item that is a query.
    pub fn cte(&mut self, cte: &CommonTableExpr, recursive: bool, env: &Env<'_>) -> Local<Block> {
        let Some(query) = cte.ctequery.get::<SelectStmt>() else { return not_local("a data-modifying WITH") };
        let mut env = env.clone();
        if recursive {
            env.ctes.push((cte.ctename.clone(), Block { part: RowDistribution::Any, columns: None }));
        }
        let mut block = self.block(query, &env)?;
        if recursive && matches!(block.part, RowDistribution::Partitioned(_)) && mentions(query, &cte.ctename)? {
            return not_local("WITH RECURSIVE over a partitioned table");
        }
        rename(&mut block, &cte.aliascolnames);
        if cte.search_clause.is_some() || cte.cycle_clause.is_some() {
            block.columns = None;
        }
        Ok(block)
    }

    /// A complete sub-select: everything in it must be local.
    pub fn block(&mut self, select: &SelectStmt, env: &Env<'_>) -> Local<Block> {
        let env = self.with_of_query(select, env)?;
        let block = match tree::is_operation(select) {
            true => self.set_operation(select, &env)?,
            false => self.plain_block(select, &env)?,
        };
        self.steady(select, block)
    }

    fn plain_block(&mut self, select: &SelectStmt, env: &Env<'_>) -> Local<Block> {
        let body = self.body(select, env)?;
        if let RowDistribution::Partitioned(split) = &body.part {
            if !select.sort_clause.is_empty() {
                return not_local("ORDER BY in a sub-select over a partitioned table");
            }
            if !tree::is_unlimited(select) {
                return not_local("LIMIT in a sub-select over a partitioned table");
            }
            if let Some(reason) = self.incomplete(select, &body, split)? {
                return not_local(reason);
            }
        }
        Ok(self.shown(select, body))
    }

    /// The rows as the select list shows them.
    fn shown(&self, select: &SelectStmt, body: Body) -> Block {
        let outputs = self.outputs(select, &body);
        let part = match body.part {
            RowDistribution::Partitioned(split) => {
                RowDistribution::Partitioned(export(split, outputs.as_deref(), &body.equal))
            }
            other => other,
        };
        Block { part, columns: outputs.map(|o| o.into_iter().map(|(column, _)| column).collect()) }
    }

    /// FROM, WHERE and every sub-select of one level.
    pub fn body(&mut self, select: &SelectStmt, env: &Env<'_>) -> Local<Body> {
        let mut scope = Scope::default();
        let mut region = Region::default();
        for item in &select.from_clause {
            self.register(item, &mut scope, &mut region, env)?;
        }
        region
            .conditions
            .extend(tree::conjuncts(select.where_clause.as_deref()).into_iter().map(Condition::Expression));
        let mut equal = env.outer.map(|o| o.equal.clone()).unwrap_or_default();
        self.learn(&region.conditions, &scope, env, &mut equal);
        let mut part = self.region(&region, &scope, env, &equal)?;
        if let RowDistribution::Partitioned(split) = &part
            && follows(split, &equal, env.outer)
        {
            part = RowDistribution::Any;
        }
        let part = self.sub_selects(select, &scope, env, &equal, part)?;
        self.refuse_outer_aggregates(select, &scope, env)?;
        Ok(Body { scope, equal, part })
    }

    /// UPDATE … FROM and DELETE … USING are joins of the target and the other items.
    pub fn write_body(
        &mut self,
        target: &RangeVar,
        others: &[Node],
        where_clause: Option<&Node>,
        expressions: &[Node],
        env: &Env<'_>,
    ) -> Local<Body> {
        let mut from = vec![tree::node(NodeEnum::RangeVar(target.clone()))];
        from.extend(others.iter().cloned());
        let select = SelectStmt {
            target_list: expressions.to_vec(),
            from_clause: from,
            where_clause: where_clause.map(|w| Box::new(w.clone())),
            ..tree::empty_select()
        };
        self.body(&select, env)
    }

    fn set_operation(&mut self, select: &SelectStmt, env: &Env<'_>) -> Local<Block> {
        let (Some(left), Some(right)) = (&select.larg, &select.rarg) else { return not_local("half a set operation") };
        let (left, right) = (self.block(left, env)?, self.block(right, env)?);
        let is_union_all = select.op == SetOperation::SetopUnion as i32 && select.all;
        let part = match (left.part, right.part) {
            (RowDistribution::Partitioned(l), RowDistribution::Partitioned(r)) => {
                let keyed = l.space.is_some() && l.space == r.space && !l.key.is_empty() && l.key == r.key;
                if !keyed && !is_union_all {
                    return not_local("a set operation whose branches do not both show their distribution key");
                }
                if tree::is_ordered(select) {
                    return not_local("ORDER BY or LIMIT in a set operation over partitioned tables");
                }
                let key = if keyed { l.key } else { Vec::new() };
                RowDistribution::Partitioned(Split {
                    nodes: union(&l.nodes, &r.nodes),
                    space: l.space.filter(|_| keyed),
                    key,
                })
            }
            (RowDistribution::Partitioned(_), _) | (_, RowDistribution::Partitioned(_)) => {
                return not_local("a set operation of a partitioned and another source");
            }
            (l, r) => self.meet(l, r, &Equalities::default())?,
        };
        Ok(Block { part, columns: either_side(left.columns, right.columns) })
    }

    /// Why the level's grouping, DISTINCT or windows need rows of other nodes; `None` if each node's result is complete.
    pub fn incomplete(&self, select: &SelectStmt, body: &Body, split: &Split) -> Local<Option<&'static str>> {
        let env = Env::default();
        let covers = |expressions: &[&Node]| {
            let terms: Vec<Term> = expressions.iter().filter_map(|e| self.term(e, &body.scope, &env)).collect();
            !split.key.is_empty() && split.key.iter().all(|k| terms.iter().any(|t| body.equal.same(*t, *k)))
        };
        if shape::is_aggregated(self.ctx, select)? {
            let group = shape::plain_group(select);
            if !group.is_some_and(|g| covers(&g)) {
                return Ok(Some("aggregation over rows of several nodes"));
            }
        }
        if !select.distinct_clause.is_empty() && !covers(&shape::distinct_expressions(select)) {
            return Ok(Some("DISTINCT over rows of several nodes"));
        }
        for window in shape::windows(select)? {
            if !window.is_some_and(|partition| covers(&partition)) {
                return Ok(Some("a window function over rows of several nodes"));
            }
        }
        Ok(None)
    }

    /// Output columns with the terms they show. `None` if a star hides some.
    pub fn outputs(&self, select: &SelectStmt, body: &Body) -> Option<Vec<(LeafColumn, Option<Term>)>> {
        if let Some(row) = select.values_lists.first().and_then(|row| row.get::<List>()) {
            let names = (1..=row.items.len()).map(|i| (LeafColumn::unknown(&format!("column{i}")), None));
            return Some(names.collect());
        }
        let mut outputs = Vec::new();
        for entry in &select.target_list {
            let target = entry.get::<ResTarget>()?;
            let value = target.val.as_deref()?;
            if tree::shows_star(entry) {
                // By the words of a statement, from which templates are learned, or in a query of our own.
                let [leaf] = body.scope.leaves[..] else { return None };
                let columns = value.get::<ColumnRef>().and_then(|_| self.leaves[leaf].columns.as_ref())?;
                outputs.extend(columns.iter().enumerate().map(|(at, column)| (column.clone(), Some((leaf, at)))));
                continue;
            }
            let name = tree::output_name(target);
            match self.term(value, &body.scope, &Env::default()) {
                Some(term) => {
                    let column = self.leaves[term.0].columns.as_ref()?.get(term.1)?;
                    outputs.push((LeafColumn { name, ..column.clone() }, Some(term)));
                }
                None => {
                    let mut column = LeafColumn::unknown(&name);
                    // Integer or numeric, either will do: only exactness is asked for.
                    if exact::is_exact(self, body, value) {
                        column.type_oid = builtins::NUMERIC;
                    }
                    outputs.push((column, None));
                }
            }
        }
        Some(outputs)
    }
}

/// Columns of a set operation. Where the sides differ PostgreSQL looks for a type and a collation that do for both.
fn either_side(left: Option<Vec<LeafColumn>>, right: Option<Vec<LeafColumn>>) -> Option<Vec<LeafColumn>> {
    let mut columns = left?;
    for (at, column) in columns.iter_mut().enumerate() {
        let other = right.as_ref().and_then(|right| right.get(at));
        if other.is_none_or(|other| other.type_oid != column.type_oid) {
            column.type_oid = 0;
        }
        column.bytewise &= other.is_some_and(|other| other.bytewise);
    }
    Some(columns)
}

fn query_of(sub: &RangeSubselect) -> Local<&SelectStmt> {
    sub.subquery.get().map_or_else(|| not_local("an unknown sub-select in FROM"), Ok)
}

fn mentions(query: &SelectStmt, name: &str) -> Result<bool, PgError> {
    query.any(|node| matches!(node, Ref::RangeVar(range) if range.schemaname.is_empty() && range.relname == name))
}

/// Applies an alias's column names.
fn rename(block: &mut Block, names: &[Node]) {
    if let Some(columns) = &mut block.columns {
        for (column, name) in columns.iter_mut().zip(names.iter().filter_map(tree::text_of)) {
            column.name = name.to_owned();
        }
    }
}

/// The key of a level in terms of its output columns.
fn export(split: Split, outputs: Option<&[(LeafColumn, Option<Term>)]>, equal: &Equalities) -> Split {
    let position = |key: &Term| {
        outputs?.iter().position(|(_, term)| term.is_some_and(|t| equal.same(t, *key))).map(|p| (OUTPUT, p))
    };
    let key: Option<Vec<Term>> = split.key.iter().map(position).collect();
    Split { key: key.unwrap_or_default(), ..split }
}

/// Is every inner row on the node of its outer row, because the keys are equal?
fn follows(split: &Split, equal: &Equalities, mut outer: Option<&Outer<'_>>) -> bool {
    while let Some(level) = outer {
        if let RowDistribution::Partitioned(part) = level.part
            && colocated(split, part, equal)
        {
            return true;
        }
        outer = level.next;
    }
    false
}

fn colocated(a: &Split, b: &Split, equal: &Equalities) -> bool {
    a.space.is_some()
        && a.space == b.space
        && !a.key.is_empty()
        && a.key.len() == b.key.len()
        && a.key.iter().zip(&b.key).all(|(x, y)| equal.same(*x, *y))
}

fn union(a: &[NodeId], b: &[NodeId]) -> Vec<NodeId> {
    let mut nodes = [a, b].concat();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}
