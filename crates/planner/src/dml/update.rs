//! UPDATE and DELETE: on the node the key is pinned to, on all nodes, or on every copy.

use catalog::Relation;
use pg_query::protobuf::{RangeVar, SelectStmt, WithClause};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use super::{Target, check_same_everywhere, is_replicated, key_names, returning_list};
use crate::context::Context;
use crate::functions::{Facts, facts};
use crate::parse::Statement;
use crate::plan::{Forward, Plan, Replicate, Scatter};
use crate::select::locality::{Analyzer, Env, Part};
use crate::select::refusal;
use crate::tree;
use crate::views;

/// Plans an UPDATE.
pub(crate) fn update(ctx: &Context<'_>, statement: &Statement) -> Result<Plan> {
    let Some(original) = statement.node() else { return Err(PgError::internal("UPDATE without a tree")) };
    let expanded = views::expand(ctx, original)?;
    let tree = expanded.as_ref().unwrap_or(original);
    let NodeEnum::UpdateStmt(update) = tree else { return Err(PgError::internal("not an UPDATE")) };
    let facts = facts(ctx, tree)?;
    let Some(name) = &update.relation else { return Err(PgError::internal("UPDATE without a target")) };
    let mut expressions = update.target_list.clone();
    expressions.extend(returning_list(update.returning_clause.as_ref()));
    let target = super::target(ctx, name, &facts)?;
    if let Target::Table(relation) = &target {
        check_key(relation, &update.target_list)?;
        if is_replicated(relation) && !update.from_clause.is_empty() {
            return Err(PgError::unsupported(format!("UPDATE … FROM of replicated table \"{}\"", relation.name))
                .detail("If several rows match, the copies may take different ones.")
                .hint("Use a scalar sub-select: UPDATE t SET c = (SELECT …)."));
        }
    }
    let write = Write {
        ctx,
        statement,
        name,
        others: &update.from_clause,
        condition: update.where_clause.as_deref(),
        expressions,
        with: update.with_clause.as_ref(),
        what: "this UPDATE",
    };
    write.plan(target, &facts)
}

/// Plans a DELETE.
pub(crate) fn delete(ctx: &Context<'_>, statement: &Statement) -> Result<Plan> {
    let Some(original) = statement.node() else { return Err(PgError::internal("DELETE without a tree")) };
    let expanded = views::expand(ctx, original)?;
    let tree = expanded.as_ref().unwrap_or(original);
    let NodeEnum::DeleteStmt(delete) = tree else { return Err(PgError::internal("not a DELETE")) };
    let facts = facts(ctx, tree)?;
    let Some(name) = &delete.relation else { return Err(PgError::internal("DELETE without a target")) };
    let write = Write {
        ctx,
        statement,
        name,
        others: &delete.using_clause,
        condition: delete.where_clause.as_deref(),
        expressions: returning_list(delete.returning_clause.as_ref()),
        with: delete.with_clause.as_ref(),
        what: "this DELETE",
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
pub(super) fn check_key(relation: &Relation, targets: &[Node]) -> Result<()> {
    let keys = key_names(relation);
    for target in targets {
        let Some(NodeEnum::ResTarget(target)) = &target.node else { continue };
        let is_same = target.val.as_deref().and_then(crate::select::shape::bare_name) == Some(target.name.as_str());
        if keys.contains(&target.name.as_str()) && !is_same {
            return Err(key_change(relation, &target.name));
        }
    }
    Ok(())
}

struct Write<'a> {
    ctx: &'a Context<'a>,
    statement: &'a Statement,
    name: &'a RangeVar,
    others: &'a [Node],
    condition: Option<&'a Node>,
    expressions: Vec<Node>,
    with: Option<&'a WithClause>,
    what: &'static str,
}

impl Write<'_> {
    fn plan(self, target: Target, facts: &Facts) -> Result<Plan> {
        let part = self.part()?;
        let sql = self.statement.sql.to_string();
        let home = self.ctx.home();
        let relation = match target {
            Target::Home => {
                return match part {
                    Part::Home => Ok(Plan::Forward(Forward { nodes: vec![home], sql, writes: true })),
                    _ => Err(PgError::internal("a table of the home node elsewhere")),
                };
            }
            Target::Table(relation) => relation,
        };
        if is_replicated(&relation) {
            check_same_everywhere(facts, &relation.name)?;
            let nodes = self.ctx.primary_first(relation.distribution.nodes());
            self.check_functions(facts, &nodes)?;
            return match part {
                Part::Whole(whole) if nodes.iter().all(|n| whole.contains(n)) => {
                    Ok(Plan::Replicate(Replicate { nodes, sql }))
                }
                _ => Err(PgError::unsupported(format!("{} of replicated table \"{}\"", self.what, relation.name))
                    .detail("It reads tables that are not on every node of the copies.")
                    .hint("Use replicated tables only, or send the values as constants.")),
            };
        }
        if let Some(what) = &facts.home {
            return Err(PgError::unsupported(format!("{what} in {}", self.what))
                .hint("Only the home node can evaluate it: select the value first and send it as a constant."));
        }
        match part {
            Part::Split(split) => {
                self.check_functions(facts, &split.nodes)?;
                Ok(Plan::Scatter(Scatter { nodes: split.nodes, sql, writes: true }))
            }
            Part::Whole(nodes) => {
                self.check_functions(facts, &nodes[..1])?;
                Ok(Plan::Forward(Forward { nodes: nodes[..1].to_vec(), sql, writes: true }))
            }
            Part::Free | Part::Home => Err(PgError::internal("a distributed table that is on no node")),
        }
    }

    fn check_functions(&self, facts: &Facts, nodes: &[catalog::NodeId]) -> Result<()> {
        match &facts.function_nodes {
            Some(readable) if !nodes.iter().all(|n| readable.contains(n)) => {
                Err(PgError::unsupported(format!("a function that reads tables in {}", self.what))
                    .hint("Replicate the tables it reads to all datanodes."))
            }
            _ => Ok(()),
        }
    }

    /// Where target rows and everything they are compared with meet.
    fn part(&self) -> Result<Part> {
        let mut analyzer = Analyzer::new(self.ctx);
        let with = SelectStmt { with_clause: self.with.cloned(), ..tree::empty_select() };
        let planned = analyzer
            .with(&with, &Env::default())
            .and_then(|env| analyzer.write_body(self.name, self.others, self.condition, &self.expressions, &env));
        planned.map(|body| body.part).map_err(|not| refusal(not, self.what))
    }
}
