//! MERGE: where target and source are both whole on the nodes that run it.

use pg_query::NodeEnum;
use pg_query::protobuf::{MergeMatchKind, SelectStmt};
use pgerror::{PgError, Result};

use super::{Target, check_same_everywhere, is_replicated, returning_list};
use crate::context::Context;
use crate::functions::facts;
use crate::parse::Statement;
use crate::plan::{Forward, Plan, Replicate, Scatter};
use crate::select::locality::{Analyzer, Env, Part};
use crate::select::refusal;
use crate::tree;
use crate::views;

/// Plans a MERGE. Over a partitioned target it may update and delete, but not insert: a row that no node matches would
/// be inserted by each of them.
pub(crate) fn merge(ctx: &Context<'_>, statement: &Statement) -> Result<Plan> {
    let Some(original) = statement.node() else { return Err(PgError::internal("MERGE without a tree")) };
    let expanded = views::expand(ctx, original)?;
    let tree = expanded.as_ref().unwrap_or(original);
    let NodeEnum::MergeStmt(merge) = tree else { return Err(PgError::internal("not a MERGE")) };
    let facts = facts(ctx, tree)?;
    let Some(name) = &merge.relation else { return Err(PgError::internal("MERGE without a target")) };
    let target = super::target(ctx, name, &facts)?;
    let others: Vec<_> = merge.source_relation.as_deref().cloned().into_iter().collect();
    let mut expressions = returning_list(merge.returning_clause.as_ref());
    let mut only_matched = true;
    for clause in &merge.merge_when_clauses {
        let Some(NodeEnum::MergeWhenClause(when)) = &clause.node else { continue };
        only_matched &= when.match_kind == MergeMatchKind::MergeWhenMatched as i32;
        expressions.extend(when.condition.as_deref().map(|c| tree::target(c.clone(), None)));
        expressions.extend(when.target_list.iter().cloned());
        expressions.extend(when.values.iter().map(|v| tree::target(v.clone(), None)));
        if let Target::Table(relation) = &target {
            super::update::check_key(relation, &when.target_list)
                .or_else(|e| if when.values.is_empty() { Err(e) } else { Ok(()) })?;
        }
    }
    let mut analyzer = Analyzer::new(ctx);
    let with = SelectStmt { with_clause: merge.with_clause.clone(), ..tree::empty_select() };
    let part = analyzer
        .with(&with, &Env::default())
        .and_then(|env| analyzer.write_body(name, &others, merge.join_condition.as_deref(), &expressions, &env))
        .map(|body| body.part)
        .map_err(|not| refusal(not, "this MERGE"))?;
    let sql = statement.sql.to_string();
    match (target, part) {
        (Target::Home, Part::Home) => Ok(Plan::Forward(Forward { nodes: vec![ctx.home()], sql, writes: true })),
        (Target::Table(relation), Part::Whole(whole)) if is_replicated(&relation) => {
            check_same_everywhere(&facts, &relation.name)?;
            let nodes = ctx.primary_first(relation.distribution.nodes());
            if !nodes.iter().all(|n| whole.contains(n)) || facts.function_nodes.is_some() {
                return Err(refused());
            }
            Ok(Plan::Replicate(Replicate { nodes, sql }))
        }
        (Target::Table(_), Part::Split(split))
            if only_matched && facts.home.is_none() && facts.function_nodes.is_none() =>
        {
            Ok(Plan::Scatter(Scatter { nodes: split.nodes, sql, writes: true }))
        }
        (Target::Table(_), Part::Whole(nodes))
            if only_matched && facts.home.is_none() && facts.function_nodes.is_none() =>
        {
            Ok(Plan::Forward(Forward { nodes: nodes[..1].to_vec(), sql, writes: true }))
        }
        _ => Err(refused()),
    }
}

fn refused() -> PgError {
    PgError::unsupported("this MERGE")
        .detail("WHEN NOT MATCHED on a partitioned table would be decided by each node on its own.")
        .hint("Use INSERT … ON CONFLICT DO UPDATE, or UPDATE and INSERT in one transaction.")
}
