//! Changes of replicated tables that are made on one copy, the first; the others get the rows that came of them.
//!
//! ```text
//!  statement ── first copy: as it stands, its triggers fire ── rows as they were and are ──> other copies: plain values
//! ```
//!
//! A change runs as the same text on every copy ([`Replicate`](crate::Plan::Replicate)) only if it provably does the same there.
//! For all others the tables are taken to be on their first copy alone, and the statement is planned as for any node.
//! What reads other tables than those on that node is worked out by the home node, as ever.
//!
//! Invariant: triggers BEFORE … FOR EACH ROW of a replicated table fire on its first copy only, so every change of the table, and
//! of those whose foreign keys change it, comes this way.

use std::sync::Arc;

use catalog::{Oid, Relation};
use pg_query::NodeEnum;
use pgerror::{PgError, Result, SqlState};

use crate::context::{Context, Named};
use crate::dml::{is_replicated, table_behind};
use crate::parse::{Statement, StatementKind};
use crate::plan::{Copies, FirstCopy, Forward, Plan, Replicate, Tables};
use crate::rewrite::{per_row, triggers};
use crate::tree;
use crate::with;

mod proof;

/// Plans a statement, on the first copies of its replicated tables if that is needed.
pub(crate) fn plan(ctx: &Context<'_>, statement: &Statement) -> Result<Plan> {
    let tables = match ctx.on_first {
        None => replicated(ctx, statement)?,
        Some(_) => Vec::new(),
    };
    if tables.is_empty() {
        return ctx.planner.plan_inlined(ctx, statement);
    }
    if !tables.iter().any(|table| makes_rows(table)) {
        match ctx.planner.plan_inlined(&Context { on_first: Some(&[]), ..*ctx }, statement) {
            Ok(plan) if does_the_same(ctx, statement, &tables, &plan)? => return Ok(plan),
            Err(error) if error.code() != SqlState::FEATURE_NOT_SUPPORTED => return Err(error),
            _ => {}
        }
    }
    let family = families(ctx, &tables);
    let oids: Vec<Oid> = family.iter().map(|table| table.oid).collect();
    let plan = ctx.planner.plan_inlined(&Context { on_first: Some(&oids), ..*ctx }, statement)?;
    let mut places = tables.iter().map(|table| ctx.primary_first(table.distribution.nodes()));
    let nodes = places.next().unwrap_or_default();
    if places.any(|other| other != nodes) {
        return Err(PgError::unsupported("a change of replicated tables that are not on the same nodes")
            .hint("Write one statement after the other."));
    }
    let names = family.iter().map(|table| (table.schema.clone(), table.name.clone())).collect();
    let written = tables.iter().map(|table| table.qualified_name()).collect();
    Ok(on_first(ctx, statement, plan, Copies { first: nodes[0], others: nodes[1..].to_vec(), tables: names }, written))
}

fn on_first(ctx: &Context<'_>, statement: &Statement, plan: Plan, copies: Copies, written: Vec<String>) -> Plan {
    match plan {
        Plan::CopyFrom(mut copy) => {
            copy.copies = Some(copies);
            Plan::CopyFrom(copy)
        }
        Plan::Redistribute(_) | Plan::Session => plan,
        plan => {
            let plan = match plan {
                Plan::Replicate(Replicate { nodes, sql, .. }) => {
                    Plan::Forward(Forward { nodes, sql, writes: true, is_snapshot_independent: false })
                }
                Plan::SequencedCtes(mut ctes) => {
                    ctes.copies = Some(copies.clone());
                    Plan::SequencedCtes(ctes)
                }
                other => other,
            };
            let is_alone = matches!(plan, Plan::Forward(_));
            let mut nodes: Vec<_> = match is_alone {
                true => std::iter::once(copies.first).chain(copies.others.iter().copied()).collect(),
                false => ctx.catalog.nodes().iter().map(|node| node.id).collect(),
            };
            nodes.sort_unstable();
            Plan::FirstCopy(Box::new(FirstCopy {
                plan,
                copies,
                nodes,
                written,
                tables: Tables::of_statement(statement),
            }))
        }
    }
}

/// The tables that [`plan`] may take to be on their first copy alone.
pub(crate) fn may_be_taken(ctx: &Context<'_>, statement: &Statement) -> Result<Vec<Oid>> {
    let tables = replicated(ctx, statement)?;
    Ok(families(ctx, &tables).iter().map(|table| table.oid).collect())
}

/// The tables with all that they inherit from and their partitions and children.
fn families(ctx: &Context<'_>, tables: &[Arc<Relation>]) -> Vec<Arc<Relation>> {
    tables.iter().flat_map(|table| ctx.family(&root(ctx, table))).collect()
}

/// The tables with several copies that a statement changes.
fn replicated(ctx: &Context<'_>, statement: &Statement) -> Result<Vec<Arc<Relation>>> {
    if statement.kind == StatementKind::Select && !with::changes_rows(statement) {
        return Ok(Vec::new());
    }
    let mut tables: Vec<Arc<Relation>> = Vec::new();
    for (name, events) in triggers::changed(ctx, statement)? {
        if let Some(table) = table_behind(ctx, name, triggers::command(&events))?
            && is_replicated(&table)
            && tables.iter().all(|known| known.oid != table.oid)
        {
            tables.push(table);
        }
    }
    Ok(tables)
}

/// The parent of all, of a partition or child.
fn root(ctx: &Context<'_>, table: &Arc<Relation>) -> Arc<Relation> {
    let mut root = table.clone();
    while let Some(parent) = root.parents.first().and_then(|oid| ctx.catalog.relation_by_oid(*oid)) {
        root = parent.clone();
    }
    root
}

/// May a node make other rows of those that come, by triggers or by functions in generated columns?
fn makes_rows(table: &Relation) -> bool {
    let generates = || table.columns.iter().any(|column| column.generated.is_computed());
    table.code.as_ref().is_some_and(|code| code.makes_rows || (!code.expressions.is_empty() && generates()))
}

/// Is every copy given the same by this plan?
fn does_the_same(ctx: &Context<'_>, statement: &Statement, tables: &[Arc<Relation>], plan: &Plan) -> Result<bool> {
    let target = match (statement.node(), tables) {
        (Some(tree), [table]) if changes_itself(ctx, tree, table) => Some((tree, table)),
        _ => None,
    };
    Ok(match plan {
        Plan::Replicate(_) => target.is_some_and(|(tree, table)| proof::does_the_same(ctx, tree, table)),
        // On the first copy such a function sees the rows that are stored before its own.
        Plan::InsertStaged(_) if per_row::is_filled_by_readers(ctx, statement)? => false,
        // The rows are made once, but what they meet is dealt with by each copy.
        Plan::InsertStaged(_) => match target {
            Some((NodeEnum::InsertStmt(insert), table)) => proof::conflict_does_the_same(ctx, insert, table),
            _ => !matches!(statement.node(), Some(NodeEnum::InsertStmt(insert)) if insert.on_conflict_clause.is_some()),
        },
        Plan::SequencedCtes(ctes) => ctes.steps.iter().all(|step| match &step.plan {
            Plan::Replicate(_) => false,
            Plan::InsertStaged(insert) => insert.tail.is_empty() || !is_replicated(&insert.stage.target),
            _ => true,
        }),
        _ => true,
    })
}

/// Does a statement name the table itself, not a view over it?
fn changes_itself(ctx: &Context<'_>, tree: &NodeEnum, table: &Relation) -> bool {
    let name = tree::target_of(tree).filter(|_| !matches!(tree, NodeEnum::MergeStmt(_)));
    let named = name.and_then(|name| ctx.resolve(name).ok());
    matches!(named, Some(Named::Distributed(named)) if named.oid == table.oid)
}
