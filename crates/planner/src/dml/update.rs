//! UPDATE and DELETE: on the node the key is pinned to, on all nodes, on every copy, or by way of the home node.

use std::sync::Arc;

use catalog::{Distribution, Relation};
use pg_query::protobuf::{Alias, ColumnRef, MultiAssignRef, RangeSubselect, RangeVar, ResTarget, SubLink, UpdateStmt};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use super::staged_dml::{self, Clause, Draft, Kind};
use super::{Target, check_same_everywhere, is_replicated, returning_list};
use crate::context::Context;
use crate::dml::key_moves;
use crate::facts::{Facts, functions::facts};
use crate::parse::Statement;
use crate::plan::{Forward, Gather, Plan, Replicate, Scatter};
use crate::select::locality::{Analyzer, Env, Not, RowDistribution};
use crate::select::{self, refusal, terms::equal_sides};
use crate::tree::{self, Get, Syntax};
use crate::views;

/// Plans an UPDATE.
pub(crate) fn update(ctx: &Context<'_>, statement: &Statement) -> Result<Plan> {
    let tree = &*views::over_tables(ctx, statement)?;
    let NodeEnum::UpdateStmt(update) = tree else { return Err(PgError::internal("not an UPDATE")) };
    let facts = facts(ctx, tree)?;
    if facts.sizes
        && let Some(gather) = select::sizes::plan(ctx, tree)?
    {
        return Ok(Plan::Gather(Gather { writes: true, ..gather }));
    }
    let Some(name) = &update.relation else { return Err(PgError::internal("UPDATE without a target")) };
    let mut expressions = update.target_list.clone();
    expressions.extend(returning_list(update.returning_clause.as_ref()));
    let target = super::target(ctx, name, &facts)?;
    let (mut moves, mut may_differ) = (false, false);
    if let Target::Table(relation) = &target {
        moves = check_key(relation, &changing_targets(ctx, update)).is_err()
            && !key_moves::moves_afterwards(ctx.catalog, relation);
        may_differ = is_replicated(relation) && !update.from_clause.is_empty();
    }
    let write = Write {
        ctx,
        statement,
        tree,
        name,
        others: &update.from_clause,
        condition: update.where_clause.as_deref(),
        expressions,
        command: "UPDATE",
        set: Some(&update.target_list),
    };
    match target {
        Target::Table(relation) if moves => {
            let is_rooted = || staged_dml::rooted(ctx, name, &relation).is_some();
            if let Some(noted) = ctx.auto_replicates.filter(|_| is_rooted())
                && let Some(moves) = crate::distribution::auto_replicate::without_key(ctx, &relation)
            {
                noted.set(Some(moves));
            }
            write.change(&relation, "the row may have to move")
        }
        Target::Table(relation) if may_differ => {
            write.change(&relation, "if several rows match, the copies may take different ones")
        }
        target => write.plan(target, &facts),
    }
}

/// The assignments of an UPDATE that may give a column another value than it has.
pub(crate) fn changing_targets(ctx: &Context<'_>, update: &UpdateStmt) -> Vec<Node> {
    let condition = update.where_clause.as_deref().filter(|_| update.from_clause.is_empty());
    let alias = update.relation.as_ref().map_or("", tree::alias_of);
    let is_kept = |target: &Node| {
        let Some(target) = target.get::<ResTarget>() else { return false };
        let is_same = target.val.as_deref().is_some_and(|value| is_column(value, alias, &target.name));
        is_same || is_pinned_alike(ctx, target, alias, condition)
    };
    update.target_list.iter().filter(|target| !is_kept(target)).cloned().collect()
}

/// Plans a DELETE.
pub(crate) fn delete(ctx: &Context<'_>, statement: &Statement) -> Result<Plan> {
    let tree = &*views::over_tables(ctx, statement)?;
    let NodeEnum::DeleteStmt(delete) = tree else { return Err(PgError::internal("not a DELETE")) };
    let facts = facts(ctx, tree)?;
    let Some(name) = &delete.relation else { return Err(PgError::internal("DELETE without a target")) };
    let write = Write {
        ctx,
        statement,
        tree,
        name,
        others: &delete.using_clause,
        condition: delete.where_clause.as_deref(),
        expressions: returning_list(delete.returning_clause.as_ref()),
        command: "DELETE",
        set: None,
    };
    let target = super::target(ctx, name, &facts)?;
    write.plan(target, &facts)
}

/// The refusal of a change of the distribution key.
pub(super) fn key_change(relation: &Relation, column: &str) -> PgError {
    PgError::unsupported(format!("a change of distribution column \"{column}\" of table \"{}\"", relation.name))
        .hint("The row would have to move: DELETE it and INSERT it again.")
}

/// `SET key = …` is refused, but for `SET key = key`.
pub(crate) fn check_key(relation: &Relation, targets: &[Node]) -> Result<()> {
    let keys = relation.key_names();
    for target in targets {
        let Some(target) = target.get::<ResTarget>() else { continue };
        let is_same = target.val.as_deref().and_then(tree::bare_name) == Some(target.name.as_str());
        if keys.contains(&target.name.as_str()) && !is_same {
            return Err(key_change(relation, &target.name));
        }
    }
    Ok(())
}

/// `SET key = 5 … WHERE key = 5`, as programs write that save all columns of a row: the row's key is that already.
fn is_pinned_alike(ctx: &Context<'_>, target: &ResTarget, alias: &str, condition: Option<&Node>) -> bool {
    let Some(value) = target.val.as_deref().filter(|value| is_fixed(ctx, value) && target.indirection.is_empty())
    else {
        return false;
    };
    let is_column = |node: &Node| is_column(node, alias, &target.name);
    tree::conjuncts(condition).into_iter().flat_map(equal_sides).any(|(left, right)| {
        (is_column(left) && tree::same_expression(right, value))
            || (is_column(right) && tree::same_expression(left, value))
    })
}

/// Is it this column of the table that the statement calls so?
pub(crate) fn is_column(node: &Node, alias: &str, name: &str) -> bool {
    node.get::<ColumnRef>().is_some_and(|column| match column.fields.as_slice() {
        [own] => tree::text_of(own) == Some(name),
        [table, own] => tree::text_of(table) == Some(alias) && tree::text_of(own) == Some(name),
        _ => false,
    })
}

/// A constant or parameter. One cast to a user's type may be equal to other values than itself.
fn is_fixed(ctx: &Context<'_>, value: &Node) -> bool {
    match &value.node {
        Some(NodeEnum::AConst(constant)) => !constant.isnull,
        Some(NodeEnum::ParamRef(_)) => true,
        Some(NodeEnum::TypeCast(cast)) => {
            let of = cast.type_name.as_ref().and_then(|of| ctx.builtin_type(of));
            of.is_some() && cast.arg.as_deref().is_some_and(|value| is_fixed(ctx, value))
        }
        _ => false,
    }
}

struct Write<'a> {
    ctx: &'a Context<'a>,
    statement: &'a Statement,
    /// The statement over the tables under its views.
    tree: &'a NodeEnum,
    name: &'a RangeVar,
    others: &'a [Node],
    condition: Option<&'a Node>,
    expressions: Vec<Node>,
    /// The first word of the command tag.
    command: &'static str,
    set: Option<&'a [Node]>,
}

impl Write<'_> {
    fn plan(self, target: Target, facts: &Facts) -> Result<Plan> {
        if let (true, Target::Table(relation)) = (self.ctx.copies.is_some(), &target) {
            return self.change(relation, "other parts of its WITH change rows too");
        }
        let part = match (self.part(), &target) {
            (Ok(part), _) => part,
            (Err(Not::Local(reason)), Target::Table(relation)) => return self.change(relation, &reason),
            (Err(Not::Local(reason)), Target::Home) => {
                let gather = select::fallback(self.ctx, self.tree, facts, &reason)?;
                return Ok(Plan::Gather(Gather { writes: true, ..gather }));
            }
            (Err(not), _) => return Err(refusal(not, &format!("this {}", self.command))),
        };
        let home = self.ctx.home();
        let relation = match target {
            Target::Home => {
                self.check_functions(facts, &[home])?;
                return match part {
                    RowDistribution::Home => Ok(Plan::Forward(Forward::of(self.statement, vec![home], true))),
                    _ => Err(PgError::internal("a table of the home node elsewhere")),
                };
            }
            Target::Table(relation) => relation,
        };
        if is_replicated(&relation) {
            if let Err(error) = check_same_everywhere(facts, &relation.name) {
                return self.change(&relation, &error.message());
            }
            let nodes = self.ctx.primary_first(relation.distribution.nodes());
            self.check_functions(facts, &nodes)?;
            return match part {
                RowDistribution::Replicated(whole) if nodes.iter().all(|n| whole.contains(n)) => {
                    Ok(Plan::Replicate(Replicate::of(self.statement, nodes)))
                }
                _ => self.change(&relation, "it reads tables that are not on every node of the copies"),
            };
        }
        let is_home = matches!(&part, RowDistribution::Replicated(nodes) if nodes[0] == home && matches!(relation.distribution, Distribution::Replicated { .. }));
        if let Some(what) = facts.home.as_ref().filter(|_| !is_home) {
            return self.change(&relation, &format!("only the home node can evaluate {what}"));
        }
        if let (Some(what), RowDistribution::Partitioned(split)) = (&facts.moving, &part)
            && split.nodes.len() > 1
        {
            return self.change(&relation, &format!("{what} is another on every node"));
        }
        match part {
            RowDistribution::Partitioned(split) => {
                self.check_functions(facts, &split.nodes)?;
                if let (true, Some(tree)) = (split.nodes.len() > 1, self.statement.node()) {
                    crate::select::row_address::check_constants(tree)?;
                }
                Ok(Plan::Scatter(Scatter::of(self.statement, split.nodes, true)))
            }
            RowDistribution::Replicated(nodes) => {
                self.check_functions(facts, &nodes[..1])?;
                Ok(Plan::Forward(Forward::of(self.statement, nodes[..1].to_vec(), true)))
            }
            // All of it is on the home node, beside a table that only the home node has.
            RowDistribution::Home => Ok(Plan::Forward(Forward::of(self.statement, vec![home], true))),
            RowDistribution::Any => Err(PgError::internal("a distributed table that is on no node")),
        }
    }

    fn check_functions(&self, facts: &Facts, nodes: &[catalog::NodeId]) -> Result<()> {
        match &facts.function_nodes {
            Some(readable) if !nodes.iter().all(|n| readable.contains(n)) => {
                Err(PgError::unsupported(format!("a function that reads tables in this {}", self.command))
                    .hint("Replicate the tables it reads to all datanodes."))
            }
            _ => Ok(()),
        }
    }

    /// Where target rows and everything they are compared with meet.
    fn part(&self) -> Result<RowDistribution, Not> {
        let mut analyzer = Analyzer::new(self.ctx);
        let env = analyzer.with(tree::with_of(self.tree), &Env::default())?;
        let body = analyzer.write_body(self.name, self.others, self.condition, &self.expressions, &env)?;
        Ok(body.part)
    }

    /// By way of the home node.
    fn change(&self, relation: &Arc<Relation>, reason: &str) -> Result<Plan> {
        let (kind, values) = match self.set {
            Some(targets) => (Kind::Update, assignments(self.ctx, targets)?),
            None => (Kind::Delete, Vec::new()),
        };
        let mut from = vec![tree::node(NodeEnum::RangeVar(self.name.clone()))];
        from.extend(self.others.iter().cloned());
        Draft {
            ctx: self.ctx,
            statement: self.statement,
            command: self.command,
            name: self.name,
            relation: relation.clone(),
            from,
            condition: self.condition.cloned(),
            with: tree::with_of(self.tree).cloned(),
            returning: tree::returning_of(self.tree),
            clauses: vec![Clause { kind, matched: true, condition: None, values }],
            reason,
        }
        .plan()
    }
}

/// `SET a = x, (b, c) = (y, DEFAULT), (d, e) = (SELECT …)` as columns and values; no value is DEFAULT.
pub(super) fn assignments(ctx: &Context<'_>, targets: &[Node]) -> Result<Vec<(String, Option<Node>)>> {
    let refused = |what: &str| {
        Err(PgError::unsupported(format!("{what} in a change that needs rows of several nodes"))
            .hint("Set each column to a value of its own."))
    };
    let mut values = Vec::new();
    for target in targets {
        let Some(target) = target.get::<ResTarget>() else { continue };
        if !target.indirection.is_empty() {
            return refused("SET of a part of a column");
        }
        let of_query;
        let mut value = target.val.as_deref();
        if let Some(several) = value.and_then(|value| value.get::<MultiAssignRef>()) {
            value = match several.source.as_deref().and_then(|source| source.node.as_ref()) {
                Some(NodeEnum::RowExpr(row)) => {
                    usize::try_from(several.colno - 1).ok().and_then(|position| row.args.get(position))
                }
                Some(NodeEnum::SubLink(query)) if gives_one_row(ctx, query)? => {
                    of_query = column_of(query, several);
                    Some(&of_query)
                }
                _ => return refused("SET (…) = a sub-select that may give another row each time"),
            };
        }
        let value = match value.and_then(|value| value.node.as_ref()) {
            None => return Err(PgError::internal("SET without a value")),
            Some(NodeEnum::SetToDefault(_)) => None,
            Some(_) => value.cloned(),
        };
        values.push((target.name.clone(), value));
    }
    Ok(values)
}

/// Does a sub-select give the same row as often as it is evaluated?
fn gives_one_row(ctx: &Context<'_>, query: &SubLink) -> Result<bool> {
    let Some(select) = query.subselect.as_deref().and_then(|select| select.node.as_ref()) else { return Ok(false) };
    let facts = facts(ctx, select)?;
    Ok(facts.volatile.is_none() && facts.home.is_none() && facts.order_sensitive.is_none())
}

/// One column of a sub-select of several: `(SELECT loxo_s.c2 FROM (…) AS loxo_s (c1, c2))`.
fn column_of(query: &SubLink, several: &MultiAssignRef) -> Node {
    let name = |number: i32| format!("c{number}");
    let colnames = (1..=several.ncolumns).map(|number| tree::string(&name(number))).collect();
    let rows = RangeSubselect {
        lateral: false,
        subquery: query.subselect.clone(),
        alias: Some(Alias { aliasname: "loxo_s".to_owned(), colnames }),
    };
    let column = tree::target(tree::column(&["loxo_s", &name(several.colno)]), None);
    tree::scalar_sub_select(tree::select_from(vec![column], vec![rows.into_node()]))
}
