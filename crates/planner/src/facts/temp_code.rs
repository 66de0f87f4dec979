//! Functions that the home node calls by itself when it changes rows of the session's temporary tables: in triggers, constraints,
//! defaults, generated columns, indexes and domains. The node runs them as they stand, and it has not all rows: a change that
//! leads to a function that reads or writes distributed tables is refused. Only the session's backend knows these tables and the
//! functions in `pg_temp`.

use catalog::{Function, Oid};
use pg_query::protobuf::{AlterTableStmt, AlterTableType, IndexStmt, RangeVar, SelectStmt};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use crate::context::Context;
use crate::facts::functions::{Facts, facts, function_facts_at_home};
use crate::rewrite::views;
use crate::tree::{self, Ref, Walk};

const HINT: &str = "Use a permanent table, or call the function in the statement.";

/// What a temporary table, or one that its changes lead to, calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TempCode {
    /// The name of the table or view in `pg_temp`.
    pub relation: String,
    /// For a row that is inserted, updated or deleted.
    pub on_change: Vec<Oid>,
    /// By triggers ON TRUNCATE.
    pub on_truncate: Vec<Oid>,
}

/// May rows of what this name means be changed, if it is temporary?
pub(crate) fn check_change(ctx: &Context<'_>, name: &RangeVar) -> Result<()> {
    check(ctx, name, |code| &code.on_change)
}

/// May it be emptied?
pub(crate) fn check_truncate(ctx: &Context<'_>, name: &RangeVar) -> Result<()> {
    check(ctx, name, |code| &code.on_truncate)
}

/// May the home node compute values for the rows that are there?
pub(crate) fn check_alter(ctx: &Context<'_>, name: &RangeVar, alter: &AlterTableStmt) -> Result<()> {
    for command in &alter.cmds {
        let Some(NodeEnum::AlterTableCmd(command)) = &command.node else { continue };
        if command.subtype() == AlterTableType::AtAlterColumnType {
            check_change(ctx, name)?;
        }
        let constraint = |node: &Node| match &node.node {
            Some(NodeEnum::Constraint(constraint)) => constraint.raw_expr.as_deref().cloned(),
            _ => None,
        };
        let expressions = match command.def.as_deref() {
            Some(Node { node: Some(NodeEnum::ColumnDef(column)) }) => {
                column.constraints.iter().filter_map(constraint).chain(column.raw_default.as_deref().cloned()).collect()
            }
            Some(other) => constraint(other).into_iter().collect(),
            None => Vec::new(),
        };
        check_expressions(ctx, expressions)?;
    }
    Ok(())
}

/// The same for an index.
pub(crate) fn check_index(ctx: &Context<'_>, index: &IndexStmt) -> Result<()> {
    let columns = index.index_params.iter().filter_map(|column| match &column.node {
        Some(NodeEnum::IndexElem(column)) => column.expr.as_deref().cloned(),
        _ => None,
    });
    check_expressions(ctx, columns.chain(index.where_clause.as_deref().cloned()).collect())
}

fn check_expressions(ctx: &Context<'_>, expressions: Vec<Node>) -> Result<()> {
    let target_list = expressions.into_iter().map(|expression| tree::target(expression, None)).collect();
    match facts(ctx, &SelectStmt { target_list, ..tree::empty_select() })?.refused {
        Some(refused) => Err(refused.hint(HINT)),
        None => Ok(()),
    }
}

fn check(ctx: &Context<'_>, name: &RangeVar, of: impl Fn(&TempCode) -> &Vec<Oid>) -> Result<()> {
    for oid in called(ctx, name, of)? {
        let function = function(ctx, oid);
        let fault = match function {
            Some(function) => fault(ctx, &function_facts_at_home(ctx, function)?),
            None => Some("Nothing is known of it".to_owned()),
        };
        if let Some(fault) = fault {
            let called = function.map_or("unknown", |function| &function.name);
            let what = format!(
                "temporary table \"{}\" with a trigger, constraint or default that calls function {called}()",
                name.relname
            );
            return Err(PgError::unsupported(what).detail(format!("{fault}.")).hint(HINT));
        }
    }
    Ok(())
}

/// Why the home node cannot run a function for a row of its own.
fn fault(ctx: &Context<'_>, facts: &Facts) -> Option<String> {
    let lacks = facts.function_nodes.as_ref().is_some_and(|nodes| !nodes.contains(&ctx.home()));
    match &facts.refused {
        Some(refused) => Some(refused.message().into_owned()),
        None if lacks => Some("It reads tables that the home node does not have".to_owned()),
        None if facts.locking && facts.function_nodes.is_some() => {
            Some("It locks rows of replicated tables".to_owned())
        }
        None => None,
    }
}

/// The functions that a change of what the name means leads to, through views too.
pub(crate) fn on_change(ctx: &Context<'_>, name: &RangeVar) -> Result<Vec<Oid>> {
    called(ctx, name, |code| &code.on_change)
}

fn called(ctx: &Context<'_>, name: &RangeVar, of: impl Fn(&TempCode) -> &Vec<Oid>) -> Result<Vec<Oid>> {
    let session = ctx.session;
    let mut called = Vec::new();
    if session.temp_code.is_empty() || !ctx.is_temporary(name) {
        return Ok(called);
    }
    let (mut names, mut at) = (vec![name.relname.clone()], 0);
    while let Some(name) = names.get(at).cloned() {
        at += 1;
        let code = session.temp_code.iter().filter(|code| code.relation == name);
        called.extend(code.flat_map(&of).copied());
        let Some(view) = session.temp_views.iter().find(|view| view.name == name) else { continue };
        views::definition(view)?.walk(&mut |node| {
            if let Ref::RangeVar(below) = node
                && ctx.is_temporary(below)
                && !names.contains(&below.relname)
            {
                names.push(below.relname.clone());
            }
            Ok(true)
        })?;
    }
    Ok(called)
}

/// A function of the catalog's, or in `pg_temp`.
pub(crate) fn function<'a>(ctx: &Context<'a>, oid: Oid) -> Option<&'a Function> {
    let is_meant = |function: &&Function| function.oid == oid;
    ctx.session.temp_functions.iter().find(is_meant).or_else(|| ctx.catalog.all_functions().find(is_meant))
}
