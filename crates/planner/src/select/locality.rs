//! Where can the rows of a query be computed without moving any? The heart of the planner.
//!
//! Every query level gets a [`Part`], bottom-up: `Free` (no table: any node), `Whole` (complete on each of some nodes:
//! replicated tables, or partitioned ones pinned to one node by their key), `Home`, or `Split`: the rows are the disjoint
//! union of what each node computes from its own rows. Two split parts may meet only if their whole distribution keys are
//! known to be equal and are placed by the same map and hash class; then matching rows are on one node.
//! When that cannot be shown the answer is [`Not::Local`] with the reason, and the caller gathers rows instead.
//!
//! Invariant: a wrong "local" is a wrong answer, a wrong "not local" is only slow. All doubts end in the latter.

use catalog::{Distribution, MapId, NodeId};
use pg_query::protobuf::{
    CommonTableExpr, JoinExpr, JoinType, RangeSubselect, RangeVar, SelectStmt, SetOperation, SubLink, SubLinkType,
};
use pg_query::{Node, NodeEnum};
use pgerror::PgError;
use placement::KeyType;

use super::shape;
use super::terms::{self, Equalities, Leaf, LeafColumn, Scope, Term};
use crate::constant::{self, Constant};
use crate::context::{Context, Named, intersect};
use crate::tree::{self, Ref, Walk};

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
pub(crate) enum Part {
    Free,
    /// All rows on each of these nodes.
    Whole(Vec<NodeId>),
    Home,
    Split(Split),
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
    /// Of a [`Block`]: is the key just these output columns, in order?
    pub fn has_key_at(&self, positions: &[usize]) -> bool {
        !self.key.is_empty()
            && self.key.len() == positions.len()
            && self.key.iter().zip(positions).all(|(key, position)| *key == (OUTPUT, *position))
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
    pub part: Part,
    pub columns: Option<Vec<LeafColumn>>,
}

/// A query level after FROM and WHERE.
pub(crate) struct Body {
    pub scope: Scope,
    pub equal: Equalities,
    pub part: Part,
}

/// An enclosing query level, for correlated sub-selects.
#[derive(Clone, Copy)]
struct Outer<'o> {
    scope: &'o Scope,
    equal: &'o Equalities,
    part: &'o Part,
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
    Lateral(usize, &'t RangeSubselect),
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
    parts: Vec<Part>,
}

impl<'a> Analyzer<'a> {
    pub fn new(ctx: &'a Context<'a>) -> Self {
        Self { ctx, leaves: Vec::new(), parts: Vec::new() }
    }

    /// The CTEs of a WITH clause, added to what is visible.
    pub fn with<'o>(&mut self, select: &SelectStmt, env: &Env<'o>) -> Local<Env<'o>> {
        let mut env = env.clone();
        let Some(with) = &select.with_clause else { return Ok(env) };
        for cte in with.ctes.iter().filter_map(|n| n.node.as_ref()) {
            let NodeEnum::CommonTableExpr(cte) = cte else { return not_local("an unknown WITH item") };
            let block = self.cte(cte, with.recursive, &env)?;
            env.ctes.push((cte.ctename.clone(), block));
        }
        Ok(env)
    }

    fn cte(&mut self, cte: &CommonTableExpr, recursive: bool, env: &Env<'_>) -> Local<Block> {
        let Some(NodeEnum::SelectStmt(query)) = cte.ctequery.as_deref().and_then(|q| q.node.as_ref()) else {
            return not_local("a data-modifying WITH");
        };
        let mut env = env.clone();
        if recursive {
            env.ctes.push((cte.ctename.clone(), Block { part: Part::Free, columns: None }));
        }
        let mut block = self.block(query, &env)?;
        if recursive && matches!(block.part, Part::Split(_)) && mentions(query, &cte.ctename)? {
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
        let env = self.with(select, env)?;
        if select.op != SetOperation::SetopNone as i32 {
            return self.set_operation(select, &env);
        }
        let body = self.body(select, &env)?;
        if let Part::Split(split) = &body.part {
            if !select.sort_clause.is_empty() {
                return not_local("ORDER BY in a sub-select over a partitioned table");
            }
            if select.limit_count.is_some() || select.limit_offset.is_some() {
                return not_local("LIMIT in a sub-select over a partitioned table");
            }
            if let Some(reason) = self.incomplete(select, &body, split)? {
                return not_local(reason);
            }
        }
        let outputs = self.outputs(select, &body);
        let part = match body.part {
            Part::Split(split) => Part::Split(export(split, outputs.as_deref(), &body.equal)),
            other => other,
        };
        Ok(Block { part, columns: outputs.map(|o| o.into_iter().map(|(column, _)| column).collect()) })
    }

    /// FROM, WHERE and every sub-select of one level.
    pub fn body(&mut self, select: &SelectStmt, env: &Env<'_>) -> Local<Body> {
        let mut scope = Scope::default();
        let mut region = Region::default();
        for item in &select.from_clause {
            self.from_item(item, &mut scope, &mut region, env)?;
        }
        region
            .conditions
            .extend(tree::conjuncts(select.where_clause.as_deref()).into_iter().map(Condition::Expression));
        let mut equal = env.outer.map(|o| o.equal.clone()).unwrap_or_default();
        self.learn(&region.conditions, &scope, env, &mut equal);
        let mut part = self.region(&region, &scope, env, &equal)?;
        if let Part::Split(split) = &part {
            if follows(split, &equal, env.outer) {
                part = Part::Free;
            }
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
            (Part::Split(l), Part::Split(r)) => {
                let keyed = l.space.is_some() && l.space == r.space && !l.key.is_empty() && l.key == r.key;
                if !keyed && !is_union_all {
                    return not_local("a set operation whose branches do not both show their distribution key");
                }
                if !select.sort_clause.is_empty() || select.limit_count.is_some() || select.limit_offset.is_some() {
                    return not_local("ORDER BY or LIMIT in a set operation over partitioned tables");
                }
                let key = if keyed { l.key } else { Vec::new() };
                Part::Split(Split { nodes: union(&l.nodes, &r.nodes), space: l.space.filter(|_| keyed), key })
            }
            (Part::Split(_), _) | (_, Part::Split(_)) => {
                return not_local("a set operation of a partitioned and another source");
            }
            (l, r) => self.meet(l, r, &Equalities::default())?,
        };
        Ok(Block { part, columns: left.columns })
    }

    /// Registers an item of FROM.
    fn from_item<'t>(
        &mut self,
        item: &'t Node,
        scope: &mut Scope,
        region: &mut Region<'t>,
        env: &Env<'_>,
    ) -> Local<()> {
        match item.node.as_ref() {
            Some(NodeEnum::RangeVar(name)) => {
                let leaf = self.table(name, scope, env)?;
                region.items.push(Item::Leaf(leaf));
            }
            Some(NodeEnum::RangeSubselect(sub)) => self.sub_select_item(sub, scope, region, env)?,
            Some(NodeEnum::JoinExpr(join)) => self.join_item(join, scope, region, env)?,
            Some(NodeEnum::RangeFunction(f)) => {
                let name = match f.functions.first().and_then(function_name) {
                    Some(name) if f.alias.is_none() => name,
                    _ => String::new(),
                };
                let leaf = self.leaf(scope, f.alias.as_ref().map_or(name, |a| a.aliasname.clone()), None, Part::Free);
                region.items.push(Item::Leaf(leaf));
            }
            Some(NodeEnum::RangeTableFunc(f)) => {
                let alias = f.alias.as_ref().map_or_else(String::new, |a| a.aliasname.clone());
                let leaf = self.leaf(scope, alias, None, Part::Free);
                region.items.push(Item::Leaf(leaf));
            }
            Some(NodeEnum::JsonTable(f)) => {
                let alias = f.alias.as_ref().map_or_else(String::new, |a| a.aliasname.clone());
                let leaf = self.leaf(scope, alias, None, Part::Free);
                region.items.push(Item::Leaf(leaf));
            }
            Some(NodeEnum::RangeTableSample(sample)) => match sample.relation.as_deref() {
                Some(relation) => self.from_item(relation, scope, region, env)?,
                None => return not_local("TABLESAMPLE without a table"),
            },
            _ => return not_local("an unknown item in FROM"),
        }
        Ok(())
    }

    fn leaf(&mut self, scope: &mut Scope, alias: String, columns: Option<Vec<LeafColumn>>, part: Part) -> usize {
        let leaf = self.leaves.len();
        self.leaves.push(Leaf { alias, columns });
        self.parts.push(part);
        scope.leaves.push(leaf);
        leaf
    }

    fn table(&mut self, name: &RangeVar, scope: &mut Scope, env: &Env<'_>) -> Local<usize> {
        let alias = name.alias.as_ref();
        let alias_name = alias.map_or_else(|| name.relname.clone(), |a| a.aliasname.clone());
        let given = alias.map_or(&[][..], |a| &a.colnames);
        if name.schemaname.is_empty() {
            if let Some((_, block)) = env.ctes.iter().rev().find(|(cte, _)| *cte == name.relname) {
                let mut block = block.clone();
                rename(&mut block, given);
                return Ok(self.block_leaf(scope, alias_name, block));
            }
        }
        let (part, columns) = match self.ctx.resolve(name)? {
            Named::Home(_) => (Part::Home, None),
            Named::View(view) => {
                let error = PgError::unsupported(format!("view \"{}\" under a name that WITH also defines", view.name));
                return Err(Not::Refused(error.hint("Rename the WITH item.")));
            }
            Named::Distributed(relation) => {
                let mut columns = terms::table_columns(self.ctx, &relation);
                for (column, name) in columns.iter_mut().zip(given.iter().filter_map(tree::text_of)) {
                    column.name = name.to_owned();
                }
                let leaf = self.leaves.len();
                (self.table_part(&relation, leaf), Some(columns))
            }
        };
        Ok(self.leaf(scope, alias_name, columns, part))
    }

    fn table_part(&self, relation: &catalog::Relation, leaf: usize) -> Part {
        let distribution = &relation.distribution;
        match distribution {
            Distribution::Replicated { nodes } => return Part::Whole(nodes.clone()),
            Distribution::RoundRobin { nodes } => {
                return Part::Split(Split { nodes: nodes.clone(), space: None, key: Vec::new() });
            }
            Distribution::Hash { .. } | Distribution::Modulo { .. } => {}
            Distribution::CatalogNode | Distribution::Temporary | Distribution::View => return Part::Home,
        }
        let position = |number| relation.columns.iter().position(|c| c.number == number);
        let key: Option<Vec<Term>> = distribution.key().iter().map(|k| Some((leaf, position(k.number)?))).collect();
        Part::Split(Split {
            nodes: distribution.nodes(),
            space: Space::of(distribution).filter(|_| key.is_some()),
            key: key.unwrap_or_default(),
        })
    }

    fn block_leaf(&mut self, scope: &mut Scope, alias: String, block: Block) -> usize {
        let leaf = self.leaves.len();
        let part = match block.part {
            Part::Split(mut split) => {
                split.key.iter_mut().for_each(|term| term.0 = leaf);
                Part::Split(split)
            }
            other => other,
        };
        self.leaf(scope, alias, block.columns, part)
    }

    fn sub_select_item<'t>(
        &mut self,
        sub: &'t RangeSubselect,
        scope: &mut Scope,
        region: &mut Region<'t>,
        env: &Env<'_>,
    ) -> Local<()> {
        let alias = sub.alias.as_ref().map_or_else(String::new, |a| a.aliasname.clone());
        if sub.lateral {
            let leaf = self.leaf(scope, alias, None, Part::Free);
            region.items.push(Item::Lateral(leaf, sub));
            return Ok(());
        }
        let mut block = self.block(query_of(sub)?, env)?;
        rename(&mut block, sub.alias.as_ref().map_or(&[][..], |a| &a.colnames));
        let leaf = self.block_leaf(scope, alias, block);
        region.items.push(Item::Leaf(leaf));
        Ok(())
    }

    fn join_item<'t>(
        &mut self,
        join: &'t JoinExpr,
        scope: &mut Scope,
        region: &mut Region<'t>,
        env: &Env<'_>,
    ) -> Local<()> {
        let kind = JoinType::try_from(join.jointype).unwrap_or(JoinType::Undefined);
        let (Some(left), Some(right)) = (join.larg.as_deref(), join.rarg.as_deref()) else {
            return not_local("half a join");
        };
        let (mut left_region, mut right_region) = (Region::default(), Region::default());
        let (mut left_scope, mut right_scope) = (Scope::default(), Scope::default());
        self.from_item(left, &mut left_scope, &mut left_region, env)?;
        self.from_item(right, &mut right_scope, &mut right_region, env)?;
        let mut on: Vec<Condition<'t>> =
            tree::conjuncts(join.quals.as_deref()).into_iter().map(Condition::Expression).collect();
        self.merge_columns(join, kind, &left_scope, &right_scope, scope, &mut on);
        scope.has_merged |= left_scope.has_merged || right_scope.has_merged;
        for (side, leaves) in [(left_scope.merged, left_scope.leaves), (right_scope.merged, right_scope.leaves)] {
            for merged in side {
                if !scope.merged.iter().any(|(name, _)| *name == merged.0) {
                    scope.merged.push(merged);
                }
            }
            scope.leaves.extend(leaves);
        }
        if let Some(alias) = &join.alias {
            self.leaf(scope, alias.aliasname.clone(), None, Part::Free);
        }
        match kind {
            JoinType::JoinInner => {
                region.items.extend(left_region.items);
                region.items.extend(right_region.items);
                region.conditions.extend(left_region.conditions);
                region.conditions.extend(right_region.conditions);
                region.conditions.extend(on);
            }
            JoinType::JoinLeft | JoinType::JoinRight | JoinType::JoinFull => {
                region.items.push(Item::Join(kind, Box::new(left_region), Box::new(right_region), on));
            }
            _ => return not_local("an unknown kind of join"),
        }
        Ok(())
    }

    /// USING and NATURAL: which columns are equated, and what the merged column is.
    fn merge_columns(
        &self,
        join: &JoinExpr,
        kind: JoinType,
        left: &Scope,
        right: &Scope,
        scope: &mut Scope,
        on: &mut Vec<Condition<'_>>,
    ) {
        let mut names = tree::names_of(&join.using_clause);
        if join.is_natural {
            names = self.common_names(left, right);
        }
        scope.has_merged |= !names.is_empty() || join.is_natural;
        for name in names {
            let find = |side: &Scope| {
                let fields = vec![tree::string(&name)];
                terms::resolve_here(&self.leaves, side, &pg_query::protobuf::ColumnRef { fields, location: -1 })
                    .ok()
                    .flatten()
            };
            let (l, r) = (find(left), find(right));
            if let (Some(l), Some(r)) = (l, r) {
                if self.comparable(l, r) {
                    on.push(Condition::Same(l, r));
                }
            }
            let merged = match kind {
                JoinType::JoinInner | JoinType::JoinLeft => l,
                JoinType::JoinRight => r,
                _ => None,
            };
            scope.merged.push((name, merged));
        }
    }

    /// Names on both sides of a NATURAL join, as far as columns are known; unknown ones equate nothing here, which is safe.
    fn common_names(&self, left: &Scope, right: &Scope) -> Vec<String> {
        let names = |scope: &Scope| -> Vec<String> {
            let columns = scope.leaves.iter().filter_map(|l| self.leaves[*l].columns.as_ref()).flatten();
            columns.map(|c| c.name.clone()).collect()
        };
        let right = names(right);
        let mut common: Vec<String> = names(left).into_iter().filter(|name| right.contains(name)).collect();
        common.dedup();
        common
    }

    fn comparable(&self, a: Term, b: Term) -> bool {
        let class = |(leaf, column): Term| self.leaves[leaf].columns.as_ref().and_then(|c| c.get(column)?.class);
        class(a).is_some() && class(a) == class(b)
    }

    /// The term of a column, at this level or (second value false) an outer one.
    fn resolve(&self, column: &pg_query::protobuf::ColumnRef, scope: &Scope, env: &Env<'_>) -> Option<(Term, bool)> {
        match terms::resolve_here(&self.leaves, scope, column) {
            Ok(term) => term.map(|t| (t, true)),
            Err(()) => {
                let mut outer = env.outer;
                while let Some(level) = outer {
                    match terms::resolve_here(&self.leaves, level.scope, column) {
                        Ok(term) => return term.map(|t| (t, false)),
                        Err(()) => outer = level.next,
                    }
                }
                None
            }
        }
    }

    /// The term behind an expression: a column, perhaps under casts that keep the hash class.
    fn term(&self, node: &Node, scope: &Scope, env: &Env<'_>) -> Option<Term> {
        let (column, class) = terms::peel(node)?;
        let (term, _) = self.resolve(column, scope, env)?;
        let own = self.leaves[term.0].columns.as_ref()?.get(term.1)?.class;
        (class.is_none() || class == own).then_some(term)
    }

    fn learn(&self, conditions: &[Condition<'_>], scope: &Scope, env: &Env<'_>, equal: &mut Equalities) {
        if self.ctx.catalog.has_user_operator("=") {
            return;
        }
        for condition in conditions {
            match condition {
                Condition::Same(a, b) => equal.join(*a, *b),
                Condition::Expression(e) => self.learn_expression(e, scope, env, equal),
            }
        }
    }

    fn learn_expression(&self, condition: &Node, scope: &Scope, env: &Env<'_>, equal: &mut Equalities) {
        let constant = |node: &Node| Constant::of(node, self.ctx.session);
        for (left, right) in terms::equal_sides(condition) {
            match (self.term(left, scope, env), self.term(right, scope, env)) {
                (Some(a), Some(b)) if self.comparable(a, b) => equal.join(a, b),
                (Some(term), None) => {
                    if let Some(value) = constant(right) {
                        equal.pin(term, value);
                    }
                }
                (None, Some(term)) => {
                    if let Some(value) = constant(left) {
                        equal.pin(term, value);
                    }
                }
                _ => {}
            }
        }
        if let Some((left, items)) = terms::in_list(condition) {
            let values: Option<Vec<Constant>> = items.iter().map(constant).collect();
            if let (Some(term), Some(values)) = (self.term(left, scope, env), values) {
                equal.pin_list(term, values);
            }
        }
    }

    /// Joins the items of a region.
    fn region(&mut self, region: &Region<'_>, scope: &Scope, env: &Env<'_>, equal: &Equalities) -> Local<Part> {
        let mut all = Part::Free;
        for item in &region.items {
            let part = match item {
                Item::Leaf(leaf) => self.pinned(self.parts[*leaf].clone(), equal),
                Item::Lateral(leaf, sub) => self.lateral(*leaf, sub, scope, env, equal, &all)?,
                Item::Join(kind, left, right, on) => self.outer_join(*kind, left, right, on, scope, env, equal)?,
            };
            all = self.meet(all, part, equal)?;
        }
        Ok(all)
    }

    fn lateral(
        &mut self,
        leaf: usize,
        sub: &RangeSubselect,
        scope: &Scope,
        env: &Env<'_>,
        equal: &Equalities,
        part: &Part,
    ) -> Local<Part> {
        let outer = Outer { scope, equal, part, next: env.outer };
        let inner = Env { ctes: env.ctes.clone(), outer: Some(&outer) };
        let mut block = self.block(query_of(sub)?, &inner)?;
        rename(&mut block, sub.alias.as_ref().map_or(&[][..], |a| &a.colnames));
        Ok(match block.part {
            Part::Split(mut split) => {
                split.key.iter_mut().for_each(|term| term.0 = leaf);
                // The leaf's columns are not known to conditions learnt before: its key must not be matched by name.
                split.key.clear();
                Part::Split(split)
            }
            other => other,
        })
    }

    #[allow(clippy::too_many_arguments)]
    fn outer_join(
        &mut self,
        kind: JoinType,
        left: &Region<'_>,
        right: &Region<'_>,
        on: &[Condition<'_>],
        scope: &Scope,
        env: &Env<'_>,
        equal: &Equalities,
    ) -> Local<Part> {
        // Equalities from above are strict: they also hold for every row that survives them.
        let mut matching = equal.clone();
        self.learn(on, scope, env, &mut matching);
        let (nullable_left, nullable_right) = (kind == JoinType::JoinRight, kind == JoinType::JoinLeft);
        let left_part = self.side(left, if nullable_left { &matching } else { equal }, scope, env)?;
        let right_part = self.side(right, if nullable_right { &matching } else { equal }, scope, env)?;
        self.learn(&left.conditions, scope, env, &mut matching);
        self.learn(&right.conditions, scope, env, &mut matching);
        match kind {
            JoinType::JoinLeft => self.preserve(left_part, right_part, &matching),
            JoinType::JoinRight => self.preserve(right_part, left_part, &matching),
            _ => match (left_part, right_part) {
                (Part::Split(l), Part::Split(r)) if colocated(&l, &r, &matching) => {
                    // A row may lack either side's key.
                    Ok(Part::Split(Split { nodes: union(&l.nodes, &r.nodes), space: None, key: Vec::new() }))
                }
                (Part::Split(_), _) | (_, Part::Split(_)) => not_local("FULL JOIN of tables that are not co-located"),
                (l, r) => self.meet(l, r, &matching),
            },
        }
    }

    /// One side of an outer join. ON narrows only a side that is not preserved.
    fn side(&mut self, region: &Region<'_>, equal: &Equalities, scope: &Scope, env: &Env<'_>) -> Local<Part> {
        let mut known = equal.clone();
        self.learn(&region.conditions, scope, env, &mut known);
        self.region(region, scope, env, &known)
    }

    /// LEFT JOIN with the preserved side first.
    fn preserve(&self, kept: Part, other: Part, matching: &Equalities) -> Local<Part> {
        match (kept, other) {
            (Part::Split(kept), Part::Split(other)) if colocated(&kept, &other, matching) => Ok(Part::Split(kept)),
            (Part::Split(_), Part::Split(_)) => not_local("an outer join of tables that are not co-located"),
            (_, Part::Split(_)) => not_local("an outer join that preserves rows every node has"),
            (kept, other) => self.meet(kept, other, matching),
        }
    }

    /// Inner join of two parts.
    fn meet(&self, a: Part, b: Part, equal: &Equalities) -> Local<Part> {
        let home = self.ctx.home();
        match (a, b) {
            (Part::Free, other) | (other, Part::Free) => Ok(other),
            (Part::Home, Part::Home) => Ok(Part::Home),
            (Part::Home, Part::Whole(nodes)) | (Part::Whole(nodes), Part::Home) if nodes.contains(&home) => {
                Ok(Part::Home)
            }
            (Part::Whole(a), Part::Whole(b)) => match intersect(&a, &b) {
                common if common.is_empty() => not_local("tables that no node has all of"),
                common => Ok(Part::Whole(common)),
            },
            (Part::Whole(whole), Part::Split(split)) | (Part::Split(split), Part::Whole(whole)) => {
                if split.nodes.iter().all(|n| whole.contains(n)) {
                    Ok(Part::Split(split))
                } else {
                    not_local("a join with a table that is not on all of the nodes")
                }
            }
            (Part::Split(a), Part::Split(b)) if colocated(&a, &b, equal) => {
                let nodes = intersect(&a.nodes, &b.nodes);
                // Contradicting constants: nothing matches, any node can say so.
                let nodes = if nodes.is_empty() { a.nodes[..1].to_vec() } else { nodes };
                Ok(single(Split { nodes, ..a }))
            }
            (Part::Split(_), Part::Split(_)) => not_local("a join of tables that are not co-located"),
            (Part::Home, _) | (_, Part::Home) => not_local("a join of a distributed table with one of the home node"),
        }
    }

    /// Narrows a split part by the constants its key is equal to.
    fn pinned(&self, part: Part, equal: &Equalities) -> Part {
        let Part::Split(mut split) = part else { return part };
        if split.key.is_empty() || split.space.is_none() {
            return single(split);
        }
        if let Some(nodes) = self.nodes_of_key(&split, equal) {
            let kept = intersect(&split.nodes, &nodes);
            split.nodes = if kept.is_empty() { split.nodes[..1].to_vec() } else { kept };
        }
        single(split)
    }

    fn nodes_of_key(&self, split: &Split, equal: &Equalities) -> Option<Vec<NodeId>> {
        let space = split.space.as_ref()?;
        let map = self.ctx.catalog.map(space.map)?;
        let types: Option<Vec<KeyType>> = split
            .key
            .iter()
            .map(|(leaf, column)| self.leaves[*leaf].columns.as_ref().and_then(|c| c.get(*column)?.key_type))
            .collect();
        let distribution = constant::distribution_like(&types?, space.modulo, space.map, map.clone())?;
        let node_of = |values: &[&Constant]| constant::node_of_key(&distribution, values);
        let singles: Option<Vec<NodeId>> = {
            let first: Option<Vec<&Constant>> =
                split.key.iter().map(|k| equal.constants(*k).find(|c| **c != Constant::Null)).collect();
            first.and_then(|values| node_of(&values)).map(|n| vec![n])
        };
        if singles.is_some() || split.key.len() != 1 {
            return singles;
        }
        let list = equal.lists(split.key[0]).next()?;
        let mut nodes: Vec<NodeId> =
            list.iter().filter(|c| **c != Constant::Null).map(|c| node_of(&[c])).collect::<Option<_>>()?;
        nodes.sort_unstable();
        nodes.dedup();
        Some(nodes)
    }

    /// Every sub-select in the level's expressions must see the rows it needs.
    fn sub_selects(
        &mut self,
        select: &SelectStmt,
        scope: &Scope,
        env: &Env<'_>,
        equal: &Equalities,
        part: Part,
    ) -> Local<Part> {
        let conditions = shape::inner_conditions(select);
        let mut links: Vec<(&SubLink, bool)> = Vec::new();
        for link in shape::sub_links(select)? {
            links.push((link, conditions.iter().any(|c| is_link(c, link))));
        }
        let mut result = part;
        for (link, is_condition) in links {
            let Some(NodeEnum::SelectStmt(query)) = link.subselect.as_deref().and_then(|s| s.node.as_ref()) else {
                return not_local("an unknown sub-select");
            };
            let outer = Outer { scope, equal, part: &result, next: env.outer };
            let inner = Env { ctes: env.ctes.clone(), outer: Some(&outer) };
            let block = self.block(query, &inner)?;
            result = match (&result, block.part) {
                (Part::Split(split), Part::Split(sub)) => {
                    if !(is_condition && self.is_local_in(link, &sub, split, scope, env, equal)) {
                        return not_local(
                            "a sub-select on a partitioned table that is not tied to the outer row's key",
                        );
                    }
                    result
                }
                (_, Part::Split(_)) => return not_local("a sub-select on a partitioned table"),
                (_, other) => self.meet(result, other, equal)?,
            };
        }
        Ok(result)
    }

    /// `key IN (SELECT key …)` as a condition: rows that can match are on the same node.
    fn is_local_in(
        &self,
        link: &SubLink,
        sub: &Split,
        outer: &Split,
        scope: &Scope,
        env: &Env<'_>,
        equal: &Equalities,
    ) -> bool {
        let is_in = link.sub_link_type == SubLinkType::AnySublink as i32
            && (link.oper_name.is_empty() || tree::operator_name(&link.oper_name) == Some("="))
            && !self.ctx.catalog.has_user_operator("=");
        if !is_in || sub.space.is_none() || sub.space != outer.space || sub.key.is_empty() || outer.key.is_empty() {
            return false;
        }
        let tests: Vec<&Node> = match link.testexpr.as_deref() {
            Some(Node { node: Some(NodeEnum::RowExpr(row)) }) => row.args.iter().collect(),
            Some(test) => vec![test],
            None => return false,
        };
        sub.key.iter().zip(&outer.key).all(|((leaf, position), key)| {
            debug_assert_eq!(*leaf, OUTPUT);
            tests.get(*position).and_then(|t| self.term(t, scope, env)).is_some_and(|t| equal.same(t, *key))
        })
    }

    /// An aggregate in a sub-select whose argument has only outer columns belongs to the outer level: too subtle to split.
    fn refuse_outer_aggregates(&self, select: &SelectStmt, scope: &Scope, env: &Env<'_>) -> Local<()> {
        if env.outer.is_none() {
            return Ok(());
        }
        for call in shape::aggregates(self.ctx, select)? {
            let mut own = false;
            let mut outer = false;
            call.walk(&mut |node| {
                if let Ref::ColumnRef(column) = node {
                    match self.resolve(column, scope, env) {
                        Some((_, false)) => outer = true,
                        _ => own = true,
                    }
                }
                Ok(true)
            })?;
            if outer && !own {
                return not_local("an aggregate over the outer query's columns");
            }
        }
        Ok(())
    }

    /// Why the level's grouping, DISTINCT or windows need rows of other nodes; `None` if each node's result is complete.
    pub fn incomplete(&self, select: &SelectStmt, body: &Body, split: &Split) -> Local<Option<&'static str>> {
        let env = Env::default();
        let covers = |expressions: &[&Node]| {
            let terms: Vec<Term> = expressions.iter().filter_map(|e| self.term(e, &body.scope, &env)).collect();
            !split.key.is_empty() && split.key.iter().all(|k| terms.iter().any(|t| body.equal.same(*t, *k)))
        };
        if shape::is_aggregated(self.ctx, select)? {
            let group = shape::plain_group(select, |name| self.is_input_column(name, body));
            if !group.is_some_and(|g| covers(&g)) {
                return Ok(Some("aggregation over rows of several nodes"));
            }
        }
        if !select.distinct_clause.is_empty() {
            let distinct = shape::distinct_expressions(select, |name| self.is_input_column(name, body));
            if !covers(&distinct) {
                return Ok(Some("DISTINCT over rows of several nodes"));
            }
        }
        for window in shape::windows(select)? {
            if !window.is_some_and(|partition| covers(&partition)) {
                return Ok(Some("a window function over rows of several nodes"));
            }
        }
        Ok(None)
    }

    /// Does a bare name mean an input column (and not just an output alias)?
    pub fn is_input_column(&self, name: &str, body: &Body) -> bool {
        let fields = vec![tree::string(name)];
        terms::resolve_here(&self.leaves, &body.scope, &pg_query::protobuf::ColumnRef { fields, location: -1 }).is_ok()
    }

    /// Output columns with the terms they show. `None` if a star hides columns we do not know.
    pub fn outputs(&self, select: &SelectStmt, body: &Body) -> Option<Vec<(LeafColumn, Option<Term>)>> {
        if let Some(NodeEnum::List(row)) = select.values_lists.first().and_then(|r| r.node.as_ref()) {
            let names = (1..=row.items.len()).map(|i| (LeafColumn::unknown(&format!("column{i}")), None));
            return Some(names.collect());
        }
        let mut outputs = Vec::new();
        for target in &select.target_list {
            let Some(NodeEnum::ResTarget(target)) = &target.node else { return None };
            let value = target.val.as_deref()?;
            if let Some(leaves) = self.star(value, &body.scope) {
                for leaf in leaves? {
                    let columns = self.leaves[leaf].columns.as_ref()?;
                    outputs.extend(columns.iter().enumerate().map(|(i, c)| (c.clone(), Some((leaf, i)))));
                }
                continue;
            }
            let name = tree::output_name(target);
            match self.term(value, &body.scope, &Env::default()) {
                Some(term) => {
                    let column = self.leaves[term.0].columns.as_ref()?.get(term.1)?;
                    outputs.push((LeafColumn { name, ..column.clone() }, Some(term)));
                }
                None => outputs.push((LeafColumn::unknown(&name), None)),
            }
        }
        Some(outputs)
    }

    /// The leaves of `*` or `alias.*`. `None`: not a star. `Some(None)`: a star we cannot expand.
    pub fn star(&self, value: &Node, scope: &Scope) -> Option<Option<Vec<usize>>> {
        let Some(NodeEnum::ColumnRef(column)) = &value.node else { return None };
        if !matches!(column.fields.last()?.node, Some(NodeEnum::AStar(_))) {
            return None;
        }
        match column.fields.as_slice() {
            [_] => Some((!scope.has_merged).then(|| scope.leaves.clone())),
            [.., alias, _] => {
                let alias = tree::text_of(alias)?;
                Some(scope.leaves.iter().find(|l| self.leaves[**l].alias == alias).map(|l| vec![*l]))
            }
            [] => None,
        }
    }
}

fn is_link(condition: &Node, link: &SubLink) -> bool {
    matches!(&condition.node, Some(NodeEnum::SubLink(l)) if std::ptr::eq(&**l, link))
}

fn query_of(sub: &RangeSubselect) -> Local<&SelectStmt> {
    match sub.subquery.as_deref().and_then(|q| q.node.as_ref()) {
        Some(NodeEnum::SelectStmt(query)) => Ok(query),
        _ => not_local("an unknown sub-select in FROM"),
    }
}

fn function_name(item: &Node) -> Option<String> {
    match &item.node {
        Some(NodeEnum::List(list)) => list.items.first().and_then(function_name),
        Some(NodeEnum::FuncCall(call)) => call.funcname.last().and_then(tree::text_of).map(str::to_owned),
        _ => None,
    }
}

fn mentions(query: &SelectStmt, name: &str) -> Result<bool, PgError> {
    let mut found = false;
    query.walk(&mut |node| {
        if let Ref::RangeVar(range) = node {
            found |= range.schemaname.is_empty() && range.relname == name;
        }
        Ok(true)
    })?;
    Ok(found)
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
        if let Part::Split(part) = level.part {
            if colocated(split, part, equal) {
                return true;
            }
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

/// All rows on one node: complete there.
fn single(split: Split) -> Part {
    if split.nodes.len() == 1 { Part::Whole(split.nodes) } else { Part::Split(split) }
}

fn union(a: &[NodeId], b: &[NodeId]) -> Vec<NodeId> {
    let mut nodes = [a, b].concat();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}
