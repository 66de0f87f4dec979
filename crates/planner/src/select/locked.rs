//! FOR UPDATE and its kin over rows of several nodes.
//!
//! A node that runs the user's text locks what it finds: too many rows if there is a LIMIT, since no node knows of the others', and not those
//! that have come from another node after it was asked. So the rows are found first, without locks, by a query that is planned like any other and
//! says for each row where it lies; then they are locked one after the other, by their addresses, in the order of the query. A row that is not
//! what it was when it was found has the whole done again ([`Locked`]). Where one node has all rows nothing of this is needed.
//!
//! The address is computed where the row is: in the text of a node, if the query is local, else in the fragment that gathers the table.

use std::collections::HashSet;

use catalog::{Distribution, NodeId, Relation};
use pg_query::protobuf::{LimitOption, LockClauseStrength, LockWaitPolicy, LockingClause, RangeVar, SelectStmt};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use super::fallback;
use super::names::names_row;
use crate::context::{Context, Named};
use crate::facts::{Facts, functions::facts};
use crate::parse::{self, Statement};
use crate::plan::{FinalSql, Gather, LockTarget, LockWait, Locked, LockedBy, Merge, Plan, Scatter};
use crate::tree::{self, Ask, Get, Ref, Syntax};

/// The column of a gathered table that says where its rows are.
pub(super) const COLUMN: &str = "loxo_place";

/// Stands for the node's number in a text that is still to be planned.
const HERE: &str = "loxo_this_node";

/// Rows that are asked for beyond LIMIT: as many may be locked by others, or forbidden, before all have to be asked for.
const SPARE_ROWS: usize = 50;

/// A table of FROM that the query locks.
struct Target {
    alias: String,
    plan: LockTarget,
}

/// The plan; `None` if the query is not of this kind.
pub(super) fn plan(ctx: &Context<'_>, original: &str, select: &SelectStmt, facts: &Facts) -> Result<Option<Plan>> {
    let is_plain = !tree::is_operation(select)
        && select.limit_option != LimitOption::WithTies as i32
        && !facts.writes
        && !facts.modifying_cte
        && facts.volatile.is_none()
        && facts.system_column.is_none()
        && nested(select)? == 0;
    if !is_plain {
        return Ok(None);
    }
    let Some(targets) = targets(ctx, select, by)? else { return Ok(None) };
    let leaves_out = targets.iter().any(|target| target.plan.wait == LockWait::Skip || target.plan.has_policies);
    let unlimited = SelectStmt { limit_count: None, limit_offset: None, ..select.clone() };
    let is_limited = select.limit_count.is_some();
    let spare = if leaves_out { SPARE_ROWS } else { 0 };
    let limited = if is_limited { with_limit(select, spare as i64) } else { unlimited.clone() };
    let Some(query) = query(ctx, &limited, &targets)? else { return Ok(None) };
    let all = if is_limited && leaves_out { self::query(ctx, &unlimited, &targets)? } else { None };
    let text = |node: &Option<Box<Node>>| node.as_deref().map(tree::deparse_expression).transpose();
    Ok(Some(Plan::Locked(Box::new(Locked {
        original: original.to_owned(),
        query,
        all,
        spare,
        limit: text(&select.limit_count)?,
        offset: text(&select.limit_offset)?,
        keeps_places: false,
        targets: targets.into_iter().map(|target| target.plan).collect(),
    }))))
}

/// A query that locks rows of one node, with their places as last columns; `None` if it does not, or locks something else.
pub(crate) fn with_places(
    ctx: &Context<'_>,
    statement: &Statement,
    node: NodeId,
) -> Result<Option<(String, Vec<LockTarget>)>> {
    let Some(NodeEnum::SelectStmt(select)) = statement.node() else { return Ok(None) };
    if select.locking_clause.is_empty() || nested(select)? > 0 {
        return Ok(None);
    }
    // Places are not shown to a user with rights on some columns only.
    let by = |ctx: &Context<'_>, name: &RangeVar, relation: &Relation| {
        (!ctx.catalog.has_column_grants(relation.oid)).then(|| address(name, relation))
    };
    let Some(targets) = targets(ctx, select, by)? else { return Ok(None) };
    let mut placed = select.as_ref().clone();
    for target in &targets {
        let place = place(&target.alias, &target.plan.by, &catalog::quote_literal(&node.0.to_string()));
        placed.target_list.push(tree::target(tree::parse_expression(&place)?, None));
    }
    let targets = targets.into_iter().map(|target| target.plan).collect();
    Ok(Some((tree::deparse(&placed.into_tree())?, targets)))
}

/// Locking clauses below the top level.
fn nested(select: &SelectStmt) -> Result<usize> {
    Ok(select.count(|node| matches!(node, Ref::LockingClause(_)))? - select.locking_clause.len())
}

/// The tables to be locked; `None` if rows of something else are.
fn targets(
    ctx: &Context<'_>,
    select: &SelectStmt,
    by: impl Fn(&Context<'_>, &RangeVar, &Relation) -> Option<LockedBy>,
) -> Result<Option<Vec<Target>>> {
    let clauses: Vec<&LockingClause> =
        select.locking_clause.iter().filter_map(|node| node.get::<LockingClause>()).collect();
    let ctes = select.with_names()?;
    let (mut tables, mut others) = (Vec::new(), Vec::new());
    select.from_clause.iter().for_each(|item| items(item, &mut tables, &mut others));
    let names = |clause: &LockingClause| -> Vec<String> {
        clause.locked_rels.iter().filter_map(|node| node.get::<RangeVar>().map(|name| name.relname.clone())).collect()
    };
    let locks = |clause: &LockingClause, alias: &str| {
        let names = names(clause);
        names.is_empty() || names.iter().any(|name| name == alias)
    };
    if others.iter().any(|alias| clauses.iter().any(|clause| locks(clause, alias))) {
        return Ok(None);
    }
    let mut targets = Vec::new();
    for name in tables {
        let alias = tree::alias_of(name).to_owned();
        let meant: Vec<&&LockingClause> = clauses.iter().filter(|clause| locks(clause, &alias)).collect();
        // One of WITH is not locked.
        if meant.is_empty() || (name.schemaname.is_empty() && ctes.contains(&name.relname)) {
            continue;
        }
        let Named::Distributed(relation) = ctx.resolve(name)? else { return Ok(None) };
        let Some(by) = by(ctx, name, &relation) else { return Ok(None) };
        let plan = LockTarget {
            table: if name.inh { relation.qualified_name() } else { format!("ONLY {}", relation.qualified_name()) },
            strength: strength(&meant),
            wait: wait(&meant),
            by,
            has_policies: relation.is_barrier,
        };
        targets.push(Target { alias, plan });
    }
    Ok((!targets.is_empty()).then_some(targets))
}

/// The tables of FROM, and the names of what else is there.
fn items<'s>(item: &'s Node, tables: &mut Vec<&'s RangeVar>, others: &mut Vec<String>) {
    match &item.node {
        Some(NodeEnum::RangeVar(name)) => tables.push(name),
        // Its name hides the tables'.
        Some(NodeEnum::JoinExpr(join)) if let Some(alias) = &join.alias => others.push(alias.aliasname.clone()),
        Some(NodeEnum::JoinExpr(join)) => {
            [&join.larg, &join.rarg].into_iter().flatten().for_each(|side| items(side, tables, others));
        }
        Some(NodeEnum::RangeSubselect(sub)) => {
            others.push(sub.alias.as_ref().map(|alias| alias.aliasname.clone()).unwrap_or_default());
        }
        // Rows of functions are not locked.
        _ => {}
    }
}

fn by(ctx: &Context<'_>, name: &RangeVar, relation: &Relation) -> Option<LockedBy> {
    let Distribution::Replicated { nodes } = &relation.distribution else {
        return Some(address(name, relation));
    };
    let [column] = relation.primary_key()?.try_into().ok()?;
    let node = ctx.primary_first(nodes.clone()).first().copied()?;
    Some(LockedBy::Key { node, column: column.name.clone(), type_name: column.type_name.clone() })
}

fn address(name: &RangeVar, relation: &Relation) -> LockedBy {
    LockedBy::Address { names_table: name.inh && relation.has_children }
}

/// The strongest one counts.
fn strength(clauses: &[&&LockingClause]) -> &'static str {
    let strongest = clauses.iter().map(|clause| clause.strength).max().unwrap_or_default();
    match LockClauseStrength::try_from(strongest) {
        Ok(LockClauseStrength::LcsForkeyshare) => "KEY SHARE",
        Ok(LockClauseStrength::LcsForshare) => "SHARE",
        Ok(LockClauseStrength::LcsFornokeyupdate) => "NO KEY UPDATE",
        _ => "UPDATE",
    }
}

/// NOWAIT counts before SKIP LOCKED.
fn wait(clauses: &[&&LockingClause]) -> LockWait {
    let has = |policy| clauses.iter().any(|clause| clause.wait_policy() == policy);
    if has(LockWaitPolicy::LockWaitError) {
        LockWait::Error
    } else if has(LockWaitPolicy::LockWaitSkip) {
        LockWait::Skip
    } else {
        LockWait::Block
    }
}

/// LIMIT counts what OFFSET leaves out, and what may be skipped.
fn with_limit(select: &SelectStmt, spare: i64) -> SelectStmt {
    let mut limited = SelectStmt { limit_offset: None, ..select.clone() };
    let count = |node: &Node| tree::integer_of(node).map(i64::from);
    let Some(limit) = select.limit_count.as_deref() else { return limited };
    let offset = select.limit_offset.as_deref();
    let sum = match (count(limit), offset.map(count)) {
        (Some(limit), None) => limit.checked_add(spare),
        (Some(limit), Some(Some(offset))) => limit.checked_add(offset).and_then(|sum| sum.checked_add(spare)),
        _ => None,
    };
    // What is not known here is not limited: few such statements lock much.
    limited.limit_count = sum.filter(|sum| *sum >= 0).map(|sum| Box::new(tree::integer(sum)));
    if limited.limit_count.is_none() {
        limited.limit_option = LimitOption::Default as i32;
    }
    limited
}

/// The query without locks, with a column for each target.
fn query(ctx: &Context<'_>, select: &SelectStmt, targets: &[Target]) -> Result<Option<Plan>> {
    let plain = SelectStmt { locking_clause: Vec::new(), ..select.clone() };
    let mut local = plain.clone();
    for (number, target) in targets.iter().enumerate() {
        let here = catalog::quote_literal(HERE);
        let place = tree::parse_expression(&place(&target.alias, &target.plan.by, &here))?;
        local.target_list.push(tree::target(place, Some(&format!("{COLUMN}_{}", number + 1))));
    }
    if let Some(plan) = local_query(ctx, local)? {
        return Ok(Some(plan));
    }
    let mut gathered = plain;
    // A row as a whole would have the place in it, and so would `*`, as gathered tables have a column more.
    if has_rows(&gathered)? {
        return Ok(None);
    }
    for (number, target) in targets.iter().enumerate() {
        let column = tree::column(&[&target.alias, COLUMN]);
        gathered.target_list.push(tree::target(column, Some(&format!("{COLUMN}_{}", number + 1))));
    }
    let query = gathered.into_tree();
    let facts = facts(ctx, &query)?;
    let gathering = Context { copies: Some("loxo_"), ..*ctx };
    fallback(&gathering, &query, &facts, "its rows are locked").map(Plan::Gather).map(Some)
}

/// Is a row as a whole, `t` or `t.*`, a value in it?
fn has_rows(select: &SelectStmt) -> Result<bool> {
    let tables: HashSet<&str> = select.tables()?.into_iter().map(tree::alias_of).collect();
    Ok(names_row(select, |name| tables.contains(name))? || select.any(|node| matches!(node, Ref::AStar(_)))?)
}

/// The plan if each node finds its rows by itself, with its number in the texts.
fn local_query(ctx: &Context<'_>, select: SelectStmt) -> Result<Option<Plan>> {
    let query = select.into_tree();
    let statement = parse::build(&tree::deparse(&query)?, query)?;
    let here = catalog::quote_literal(HERE);
    let numbered = |sql: &str| sql.replace(&here, NODE);
    match super::plan(ctx, &statement) {
        Ok(Plan::Scatter(scatter)) => Ok(Some(Plan::Scatter(Scatter { sql: numbered(&scatter.sql), ..scatter }))),
        Ok(Plan::Gather(gather)) if is_of_rows(&gather, &here) => {
            let inputs = gather.inputs.into_iter().map(|input| crate::Input { sql: numbered(&input.sql), ..input });
            let merge = gather.merge.map(|merge| Box::new(Merge { rest: numbered(&merge.rest), ..*merge }));
            Ok(Some(Plan::Gather(Gather { inputs: inputs.collect(), merge, ..gather })))
        }
        Ok(_) => Ok(None),
        Err(error) if error.code() == pgerror::SqlState::FEATURE_NOT_SUPPORTED => Ok(None),
        Err(error) => Err(error),
    }
}

/// Does every row come with its place from its node?
fn is_of_rows(gather: &Gather, here: &str) -> bool {
    let FinalSql { text, .. } = &gather.final_sql;
    let [input] = gather.inputs.as_slice() else { return false };
    input.exchange_plan.is_none() && !text.contains(here) && input.sql.contains(here)
}

/// The node's own number.
const NODE: &str = "(SELECT node_id::pg_catalog.text FROM loxo.identity)";

/// Says where a row is.
fn place(alias: &str, by: &LockedBy, node: &str) -> String {
    let alias = catalog::quote_identifier(alias);
    match by {
        LockedBy::Address { names_table: false } => {
            format!("pg_catalog.concat_ws(' ', {node}, {alias}.ctid, {alias}.xmin)")
        }
        LockedBy::Address { names_table: true } => format!(
            "pg_catalog.concat_ws(' ', {node}, {alias}.ctid, {alias}.xmin, {alias}.tableoid::pg_catalog.regclass)"
        ),
        LockedBy::Key { column, .. } => format!(
            "pg_catalog.concat_ws(' ', pg_catalog.md5({alias}::pg_catalog.text), {alias}.{})",
            catalog::quote_identifier(column)
        ),
    }
}

/// [`COLUMN`] of a gathered table.
pub(super) fn gathered_place(ctx: &Context<'_>, name: &RangeVar, relation: &Relation) -> Result<Node> {
    let alias = tree::alias_of(name);
    let by = by(ctx, name, relation).unwrap_or_else(|| address(name, relation));
    tree::parse_expression(&place(alias, &by, NODE))
}
