//! Which changes of rows the coordinator follows with triggers, and what it runs once a statement, before and after it.
//!
//! For which rows a trigger fires the nodes say (see [`ddl::trigger`](crate::ddl)). Triggers of whole statements are known from
//! the statement: no node knows whether another has fired one.

use std::collections::HashSet;
use std::sync::Arc;

use catalog::{Captured, Event, Relation, RuleEvent};
use pg_query::protobuf::{CmdType, MergeStmt, MergeWhenClause, OnConflictAction, RangeVar};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use crate::context::{Context, Named};
use crate::ddl::trigger::ON_TRUNCATE;
use crate::dml::key_moves::{self, update_of};
use crate::dml::{changing_targets, one_view_down, table_behind};
use crate::facts::code;
use crate::parse::{Statement, StatementKind};
use crate::plan::{Movable, OfStatement, Plan, Routine, Triggered};
use crate::tree::{self, Ask, Get, Ref};
use crate::views::VIEW_DEPTH_MAX;

/// The plan as it is, or one with the triggers that the coordinator runs, and the rows that it moves.
pub(crate) fn with_triggers(ctx: &Context<'_>, statement: &Statement, plan: Plan) -> Result<Plan> {
    if !ctx.catalog.captures() && !ctx.catalog.has_foreign_keys() {
        return Ok(plan);
    }
    match &statement.kind {
        StatementKind::Explain(explain) if explain.analyze && captures(ctx, &explain.inner)? => {
            Err(PgError::unsupported("EXPLAIN ANALYZE of a change that fires triggers which the coordinator runs")
                .hint("Leave ANALYZE out, or disable the triggers meanwhile."))
        }
        StatementKind::Explain(explain) if explain.analyze && !movable(ctx, &explain.inner)?.is_empty() => {
            Err(PgError::unsupported("EXPLAIN ANALYZE of a change that gives rows another distribution key")
                .hint("Leave ANALYZE out."))
        }
        StatementKind::Explain(_) => Ok(plan),
        StatementKind::Truncate => {
            let (before, after) = of_truncate(ctx, statement)?;
            match before.is_empty() && after.is_empty() {
                true => Ok(plan),
                false => Ok(triggered(plan, before, after, Vec::new())),
            }
        }
        _ => {
            let movable = movable(ctx, statement)?;
            if movable.is_empty() && !captures(ctx, statement)? {
                return Ok(plan);
            }
            let (before, after) = of_statement(ctx, statement)?;
            Ok(triggered(plan, before, after, movable))
        }
    }
}

fn triggered(plan: Plan, before: Vec<OfStatement>, after: Vec<OfStatement>, movable: Vec<Movable>) -> Plan {
    Plan::Routine(Box::new(Routine::TriggeredDml(Box::new(Triggered { plan, before, after, movable }))))
}

/// The tables that a statement changes, with the nodes of the tree that say so.
pub(crate) fn changed<'s>(ctx: &Context<'_>, statement: &'s Statement) -> Result<Vec<(&'s RangeVar, Vec<Event>)>> {
    use StatementKind::{Delete, Insert, Merge, Select, Update};
    let mut found = Vec::new();
    match (&statement.kind, statement.node()) {
        (StatementKind::Copy(_), Some(NodeEnum::CopyStmt(copy))) if copy.is_from => {
            found.extend(copy.relation.iter().map(|name| (name, vec![Event::of(RuleEvent::Insert)])));
        }
        (Select | Insert | Update | Delete | Merge, Some(tree)) => {
            tree.each(|node| found.extend(tree::changed(node).map(|name| (name, events(ctx, node)))))?
        }
        _ => {}
    }
    Ok(found)
}

/// Does the statement change a table whose changes are captured? A view may be one over such a table.
fn captures(ctx: &Context<'_>, statement: &Statement) -> Result<bool> {
    if !ctx.catalog.captures() {
        return Ok(false);
    }
    for (name, _) in changed(ctx, statement)? {
        match ctx.resolve(name)? {
            Named::Distributed(table) if !code::captures(&table) => {}
            Named::Distributed(_) | Named::View(_) => return Ok(true),
            Named::Home(_) => {}
        }
    }
    Ok(false)
}

/// The tables with rows that may have to move.
fn movable(ctx: &Context<'_>, statement: &Statement) -> Result<Vec<Movable>> {
    let mut found = Vec::new();
    for (name, events) in changed(ctx, statement)? {
        match ctx.resolve(name)? {
            Named::Distributed(table) => found.extend(key_moves::movable(ctx.catalog, &table, &events)?),
            Named::View(view) => found.extend(movable_behind(ctx, statement, &view)?),
            Named::Home(_) => {}
        }
    }
    found.sort_by_key(|one| one.table.oid);
    found.dedup_by(|one, kept| {
        kept.is_target |= one.is_target && one.table.oid == kept.table.oid;
        one.table.oid == kept.table.oid
    });
    Ok(found)
}

/// The tables with rows that a change of a view may have to move.
fn movable_behind(ctx: &Context<'_>, statement: &Statement, view: &Arc<Relation>) -> Result<Vec<Movable>> {
    let mut next = Some(view.clone());
    let mut tree = statement.node().cloned();
    for _ in 0..VIEW_DEPTH_MAX {
        let (Some(view), Some(tree)) = (next.take(), tree.as_mut()) else { break };
        if one_view_down(ctx, &view, tree).is_err() {
            break;
        }
        let Some(root) = Ref::of(tree) else { break };
        let events = events(ctx, root);
        let Some(name) = tree::changed(root) else { break };
        match ctx.resolve(name)? {
            Named::Distributed(table) => return key_moves::movable(ctx.catalog, &table, &events),
            Named::View(view) => next = Some(view),
            Named::Home(_) => return Ok(Vec::new()),
        }
    }
    // A part of WITH, or a change that is refused.
    Ok(Vec::new())
}

/// The bit in `pg_trigger.tgtype` of a command that does this: DO UPDATE comes after its INSERT.
pub(crate) fn command(events: &[Event]) -> i16 {
    events.first().map_or(0, |event| event.kind.bit())
}

/// In the order in which PostgreSQL fires BEFORE triggers; AFTER triggers come the other way round.
fn events(ctx: &Context<'_>, node: Ref<'_>) -> Vec<Event> {
    match node {
        Ref::InsertStmt(insert) => {
            let conflict = insert.on_conflict_clause.as_ref();
            let update = conflict.filter(|clause| clause.action == OnConflictAction::OnconflictUpdate as i32);
            std::iter::once(Event::of(RuleEvent::Insert))
                .chain(update.map(|clause| update_of(&clause.target_list, &clause.target_list)))
                .collect()
        }
        Ref::UpdateStmt(update) => vec![update_of(&update.target_list, &changing_targets(ctx, update))],
        Ref::DeleteStmt(_) => vec![Event::of(RuleEvent::Delete)],
        Ref::MergeStmt(merge) => of_merge(merge),
        _ => Vec::new(),
    }
}

fn of_merge(merge: &MergeStmt) -> Vec<Event> {
    let clauses: Vec<_> = merge.merge_when_clauses.iter().filter_map(|node| node.get::<MergeWhenClause>()).collect();
    let with = |kind: CmdType| clauses.iter().filter(move |when| when.command_type == kind as i32);
    let inserts = with(CmdType::CmdInsert).next().map(|_| Event::of(RuleEvent::Insert));
    let targets: Vec<Node> = with(CmdType::CmdUpdate).flat_map(|when| when.target_list.clone()).collect();
    let updates = with(CmdType::CmdUpdate).next().map(|_| update_of(&targets, &targets));
    let deletes = with(CmdType::CmdDelete).next().map(|_| Event::of(RuleEvent::Delete));
    inserts.into_iter().chain(updates).chain(deletes).collect()
}

/// Triggers of TRUNCATE, before and after. Those of tables that only CASCADE leads to are told by nodes, and refused.
fn of_truncate(ctx: &Context<'_>, statement: &Statement) -> Result<(Vec<OfStatement>, Vec<OfStatement>)> {
    let (mut before, mut after, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
    let Some(NodeEnum::TruncateStmt(truncate)) = statement.node() else { return Ok((before, after)) };
    for name in truncate.relations.iter().filter_map(|node| node.get::<RangeVar>()) {
        let table = match ctx.resolve(name)? {
            Named::Distributed(table) => table,
            // PostgreSQL says so before anything fires.
            Named::Home(None) if !ctx.is_temporary(name) => return Ok((Vec::new(), Vec::new())),
            _ => continue,
        };
        if !seen.insert(table.oid) {
            continue;
        }
        let of = |is_before| fired(&table, is_before, "TRUNCATE", |one| i32::from(one.kind) & ON_TRUNCATE != 0);
        before.extend(of(true));
        after.extend(of(false));
    }
    Ok((before, after))
}

/// Such triggers of a table, in the order in which they fire.
fn fired(
    table: &Relation,
    is_before: bool,
    operation: &'static str,
    fires: impl Fn(&Captured) -> bool,
) -> Vec<OfStatement> {
    let is_such = |one: &&Captured| one.is_enabled && one.is_of_statement() && one.is_before() == is_before;
    let mut triggers: Vec<&Captured> = table.captured.iter().filter(is_such).filter(|one| fires(one)).collect();
    triggers.sort_by(|a, b| a.name.cmp(&b.name));
    let fired = |one: &Captured| OfStatement {
        schema: table.schema.clone(),
        table: table.name.clone(),
        trigger: one.name.clone(),
        operation,
    };
    triggers.into_iter().map(fired).collect()
}

/// What runs once, before and after.
pub(crate) fn of_statement(ctx: &Context<'_>, statement: &Statement) -> Result<(Vec<OfStatement>, Vec<OfStatement>)> {
    let changed = changed(ctx, statement)?;
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for (name, events) in &changed {
        let table = match ctx.resolve(name)? {
            Named::Distributed(table) => table,
            Named::View(view) => match table_behind(ctx, name, command(events))? {
                // Those of a table that the statement does not name.
                Some(table) if table.captured.iter().any(Captured::is_of_statement) => {
                    return Err(PgError::unsupported(format!("a change through view \"{}\"", view.name))
                        .detail(format!("Table \"{}\" has triggers FOR EACH STATEMENT.", table.name))
                        .hint("Change the table itself."));
                }
                _ => continue,
            },
            Named::Home(_) => continue,
        };
        let of = |is_before: bool, event: &Event| {
            fired(&table, is_before, event.kind.name(), |one| event.fires(&table, one))
        };
        before.extend(events.iter().flat_map(|event| of(true, event)));
        after.extend(events.iter().rev().flat_map(|event| of(false, event)));
        if table.has_children && table.captured.iter().any(|one| one.is_enabled && one.has_transition_table) {
            return Err(PgError::unsupported(format!("a change of table \"{}\"", table.name))
                .detail("It has children, and a trigger with REFERENCING.")
                .hint("Use a trigger FOR EACH ROW."));
        }
    }
    if changed.len() > 1 && !(before.is_empty() && after.is_empty()) {
        return Err(PgError::unsupported("a data change in WITH that fires triggers FOR EACH STATEMENT")
            .hint("Write one statement after the other."));
    }
    Ok((before, after))
}
