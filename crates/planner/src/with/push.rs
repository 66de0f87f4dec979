//! Statements whose parts all run on one node, or on each node with its own rows: every node gets the user's text.

use catalog::{Distribution, NodeId, Relation};
use pg_query::protobuf::WithClause;
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use super::{changes, query_of, returned_by, statement_of, target_of, with_items, with_of};
use crate::context::{Context, Named, intersect};
use crate::dml;
use crate::facts::{Facts, functions::facts};
use crate::parse::Statement;
use crate::plan::{Forward, Plan, Scatter};
use crate::select::locality::{Analyzer, Block, Env, Local, Not, RowDistribution};
use crate::select::shape;
use crate::tree;

/// The plan, or none if rows of different nodes have to meet.
pub(super) fn push_down(
    ctx: &Context<'_>,
    statement: &Statement,
    with: &WithClause,
    main: &NodeEnum,
) -> Result<Option<Plan>> {
    let parts = match places(ctx, with, main) {
        Ok(parts) => parts,
        Err(Not::Local(_)) => return Ok(None),
        Err(Not::Refused(error)) => return Err(error),
    };
    let mut facts = facts(ctx, main)?;
    for item in with_items(Some(with)).filter_map(query_of) {
        facts = joined(facts, crate::facts::functions::facts(ctx, item)?);
    }
    facts.check()?;
    Ok(match together(ctx, &parts, &facts) {
        Some(nodes) if nodes.len() == 1 => Some(Plan::Forward(Forward::of(statement, nodes, true))),
        Some(nodes) => Some(Plan::Scatter(Scatter::of(statement, nodes, true))),
        None => None,
    })
}

/// What matters of two parts' facts.
fn joined(a: Facts, b: Facts) -> Facts {
    let function_nodes = match (a.function_nodes, b.function_nodes) {
        (Some(a), Some(b)) => Some(intersect(&a, &b)),
        (a, b) => a.or(b),
    };
    Facts {
        home: a.home.or(b.home),
        volatile: a.volatile.or(b.volatile),
        system_column: a.system_column.or(b.system_column),
        locking: a.locking || b.locking,
        function_nodes,
        refused: a.refused.or(b.refused),
        ..Facts::default()
    }
}

/// The nodes for the whole text.
fn together(ctx: &Context<'_>, parts: &[RowDistribution], facts: &Facts) -> Option<Vec<NodeId>> {
    let home = ctx.home();
    let mut common: Option<Vec<NodeId>> = None;
    let mut splits = 0;
    for part in parts {
        let nodes = match part {
            RowDistribution::Any => continue,
            RowDistribution::Home => vec![home],
            RowDistribution::Replicated(nodes) => nodes.clone(),
            RowDistribution::Partitioned(split) => {
                splits += 1;
                split.nodes.clone()
            }
        };
        common = Some(match common {
            Some(known) if splits > 0 => (known == nodes).then_some(nodes)?,
            Some(known) => intersect(&known, &nodes),
            None => nodes,
        });
    }
    let mut nodes = common?;
    if splits > 0 {
        // A part without rows of the node's own would run once on every node.
        let each_by_itself = splits == parts.len()
            && facts.home.is_none()
            && facts.volatile.is_none()
            && facts.system_column.as_deref() != Some("tableoid")
            && nodes.iter().all(|node| facts.has_what_functions_read(*node));
        return each_by_itself.then_some(nodes);
    }
    if facts.home.is_some() {
        nodes.retain(|node| *node == home);
    }
    nodes.retain(|node| facts.has_what_functions_read(*node));
    nodes.truncate(1);
    (!nodes.is_empty()).then_some(nodes)
}

/// Where each data change and the main statement run.
fn places(ctx: &Context<'_>, with: &WithClause, main: &NodeEnum) -> Local<Vec<RowDistribution>> {
    let mut analyzer = Analyzer::new(ctx);
    let mut env = Env::default();
    let mut parts = Vec::new();
    for item in with_items(Some(with)) {
        let Some(query) = query_of(item) else { return Err(elsewhere()) };
        let block = match changes(item) {
            true => {
                let block = change(ctx, &mut analyzer, query, &env)?;
                parts.push(block.part.clone());
                block
            }
            false => analyzer.cte(item, with.recursive, &env)?,
        };
        env.add(&item.ctename, block, &item.aliascolnames);
    }
    parts.push(match main {
        NodeEnum::SelectStmt(_) => read(&mut analyzer, main, &env)?,
        _ => change(ctx, &mut analyzer, main, &env)?.part,
    });
    Ok(parts)
}

fn elsewhere() -> Not {
    Not::Local("a change of rows of several nodes".to_owned())
}

/// The main statement, if it is a query.
fn read(analyzer: &mut Analyzer<'_>, main: &NodeEnum, env: &Env<'_>) -> Local<RowDistribution> {
    let NodeEnum::SelectStmt(select) = main else { return Err(elsewhere()) };
    let ordered = tree::is_ordered(select);
    if tree::is_operation(select) {
        let part = analyzer.block(&shape::below_order(select), env)?.part;
        return if ordered && matches!(part, RowDistribution::Partitioned(_)) { Err(elsewhere()) } else { Ok(part) };
    }
    let body = analyzer.body(select, env)?;
    if let RowDistribution::Partitioned(split) = &body.part
        && (ordered || analyzer.incomplete(select, &body, split)?.is_some())
    {
        return Err(elsewhere());
    }
    Ok(body.part)
}

/// A data change where its rows are. One of a replicated table has to be repeated on other nodes, so it is none.
fn change(ctx: &Context<'_>, analyzer: &mut Analyzer<'_>, query: &NodeEnum, env: &Env<'_>) -> Local<Block> {
    let Some(target) = target_of(query) else { return Err(elsewhere()) };
    // A WITH of its own, which may be only a part's.
    if with_of(query).is_some() {
        return Err(elsewhere());
    }
    let is_replicated = |table: &Relation| matches!(table.distribution, Distribution::Replicated { .. });
    let relation = match ctx.resolve(target)? {
        Named::Distributed(table) if table.rules.is_empty() && !is_replicated(&table) => Some(table),
        Named::Home(_) => None,
        _ => return Err(elsewhere()),
    };
    let returning = returned_by(query);
    match query {
        NodeEnum::UpdateStmt(update) => {
            if relation.is_some_and(|relation| dml::check_key(&relation, &update.target_list).is_err()) {
                return Err(elsewhere());
            }
            let condition = update.where_clause.as_deref();
            analyzer.changed(target, &update.from_clause, condition, &update.target_list, returning, env)
        }
        NodeEnum::DeleteStmt(delete) => {
            analyzer.changed(target, &delete.using_clause, delete.where_clause.as_deref(), &[], returning, env)
        }
        NodeEnum::InsertStmt(insert) => {
            let mut block = analyzer.changed(target, &[], None, &[], returning, env)?;
            if relation.is_none() {
                let source = insert.select_stmt.as_deref().map(own_block);
                return match source.map(|select| analyzer.block(&select?, env)).transpose()?.map(|block| block.part) {
                    None | Some(RowDistribution::Any | RowDistribution::Home) => Ok(block),
                    Some(RowDistribution::Replicated(nodes)) if nodes.contains(&ctx.home()) => Ok(block),
                    _ => Err(elsewhere()),
                };
            }
            match (dml::place_of_insert(ctx, &statement_of(query)?, env)?, &mut block.part) {
                (Some(RowDistribution::Partitioned(source)), RowDistribution::Partitioned(split)) => {
                    split.nodes = source.nodes
                }
                (Some(part @ RowDistribution::Replicated(_)), _) => block.part = part,
                _ => return Err(elsewhere()),
            }
            Ok(block)
        }
        _ => Err(elsewhere()),
    }
}

fn own_block(source: &Node) -> Result<pg_query::protobuf::SelectStmt> {
    match &source.node {
        Some(NodeEnum::SelectStmt(select)) => Ok(select.as_ref().clone()),
        other => {
            let kind = other.as_ref().map_or_else(String::new, tree::kind_name);
            Err(PgError::internal(format!("INSERT from {kind}")))
        }
    }
}
