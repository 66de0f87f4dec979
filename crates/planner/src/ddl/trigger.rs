//! Triggers: which side runs them.
//!
//! A trigger whose function computes runs on the node that holds the row. One whose function reads or writes tables is run by
//! the coordinator: on the nodes it is disabled, and beside it lies one that captures the rows for it (`loxo.capture()` in
//! `metadata.sql`), with the same events, columns and, if the nodes can tell whether it is true, condition. To switch it on or off is to switch that one.
//!
//! BEFORE … FOR EACH ROW the coordinator makes the rows and runs the triggers, then stores what came of them (see
//! [`before`](crate::rewrite::before)); what lies beside such a trigger refuses all other rows. Since they fire in the order of their
//! names, the coordinator runs all of a table, or none.

use std::sync::Arc;

use catalog::{Function, Meaning, Relation, RelationKind, meaning, quote_identifier};
use pg_query::protobuf::{
    AExprKind, AlterTableCmd, AlterTableStmt, AlterTableType, BoolExprType, CreateTrigStmt, FuncCall, RenameStmt,
};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use super::{as_it_stands, boxed, everywhere, is_temporary, temporary};
use crate::context::{Context, Named};
use crate::distribution::auto_replicate;
use crate::dml::is_replicated;
use crate::facts::code;
use crate::facts::key_setters::may_set_key;
use crate::facts::{Facts, functions};
use crate::parse::Statement;
use crate::plan::{DdlKind, DdlPlan, Effect, Plan, Redistribute};
use crate::tree::{self, Ask, Get, Ref, Syntax};

/// Before the name of the trigger that is captured for.
const PREFIX: &str = "loxo:";
/// Most bytes of a name in PostgreSQL.
const NAME_BYTES_MAX: usize = 63;
/// `TRIGGER_TYPE_…` of `pg_trigger.h`.
const BEFORE: i32 = 2;
const INSTEAD: i32 = 64;
const ON_INSERT: i32 = 4;
const ON_UPDATE: i32 = 16;
pub(crate) const ON_TRUNCATE: i32 = 32;

/// CREATE TRIGGER.
pub(super) fn create(ctx: &Context<'_>, statement: &Statement, trigger: &CreateTrigStmt) -> Result<Plan> {
    let table = match trigger.relation.as_ref() {
        Some(name) if is_temporary(ctx, name) => return Ok(boxed(temporary(ctx, statement, DdlKind::Schema))),
        Some(name) => ctx.resolve(name)?,
        None => return Err(PgError::internal("a trigger without a table")),
    };
    let mut plan = as_it_stands(statement, everywhere(ctx), DdlKind::Schema);
    let table = match table {
        Named::Distributed(table) => table,
        // There is no such table, as PostgreSQL will say.
        Named::Home(None) => return Ok(boxed(plan)),
        // The coordinator runs it.
        Named::View(_) if trigger.timing & INSTEAD != 0 => {
            let functions = meant(ctx, trigger);
            return match functions.iter().any(|function| function.language != "plpgsql") {
                true => Err(refused(trigger, "It is not in PL/pgSQL", "Write the function in PL/pgSQL.")),
                false => Ok(boxed(plan)),
            };
        }
        Named::View(_) | Named::Home(Some(_)) => {
            return match fault(ctx, trigger, code::beyond_computing)? {
                Some(fault) => Err(refused(trigger, &fault, "It may compute, but not read or write tables.")),
                None => Ok(boxed(plan)),
            };
        }
    };
    let fires_on_each = !trigger.row && table.distribution.is_partitioned();
    let of_each = fires_on_each.then(|| "It would fire once on every node".to_owned());
    let table_fault = |facts: &Facts| code::trigger_fault(ctx.catalog, facts, &table);
    let of_depth =
        when_asks_depth(trigger)?.then(|| "Its WHEN calls pg_trigger_depth(), which no node knows".to_owned());
    let found = fault(ctx, trigger, table_fault)?.or(of_each).or(of_depth);
    let mut found = found.or_else(|| beside(ctx, trigger, &table));
    if found.is_none() {
        match auto_replicate(ctx, trigger, &table) {
            Ok(moves) => plan.moves = moves,
            Err(refused) if check_captured(ctx, trigger, &table, code::SETS_KEY).is_err() => return Err(refused),
            Err(_) => found = Some(code::SETS_KEY.to_owned()),
        }
    }
    match found {
        Some(fault) => {
            check_captured(ctx, trigger, &table, &fault)?;
            plan.effects = capture(trigger, &table)?;
            if is_before_row(trigger) {
                plan.effects.push(Effect::CaptureOthers { table: table.qualified_name() });
            }
        }
        None if is_captured(&table, &trigger.trigname) => {
            plan.effects
                .push(Effect::UntieCapture { table: table.qualified_name(), trigger: trigger.trigname.clone() });
        }
        None => {}
    }
    tend_copies(&table, &mut plan);
    Ok(boxed(plan))
}

fn is_before_row(trigger: &CreateTrigStmt) -> bool {
    trigger.row && trigger.timing & BEFORE != 0
}

/// Another trigger BEFORE … FOR EACH ROW that the coordinator runs, so that it has to run this one as well. What is not in
/// PL/pgSQL comes after those that are, or the change is refused.
fn beside(ctx: &Context<'_>, trigger: &CreateTrigStmt, table: &Relation) -> Option<String> {
    let functions = meant(ctx, trigger);
    let is_readable = !functions.is_empty() && functions.iter().all(|function| function.language == "plpgsql");
    let mut others = table.captured.iter().filter(|one| one.is_before_row() && one.name != trigger.trigname);
    let other = others.next().filter(|_| is_before_row(trigger) && is_readable)?;
    Some(format!("The coordinator runs trigger \"{}\" of the same table", other.name))
}

/// Triggers of a replicated table fire on its first copy: see [`first_copy`](crate::first_copy).
fn tend_copies(table: &Relation, plan: &mut DdlPlan) {
    if is_replicated(table) || !plan.moves.is_empty() {
        plan.effects.push(Effect::TendCopy { table: table.qualified_name() });
    }
}

/// A table whose key the trigger may set goes on without one, or becomes replicated, if it may.
fn auto_replicate(ctx: &Context<'_>, trigger: &CreateTrigStmt, table: &Arc<Relation>) -> Result<Vec<Redistribute>> {
    let functions = meant(ctx, trigger);
    let makes_rows = is_before_row(trigger) && trigger.events & (ON_INSERT | ON_UPDATE) != 0;
    if !makes_rows || !functions.iter().any(|function| may_set_key(function, table)) {
        return Ok(Vec::new());
    }
    let refused = || refused(trigger, code::SETS_KEY, code::KEY_HINT);
    let replicated = || auto_replicate::replicated(ctx, table);
    auto_replicate::without_key(ctx, table).or_else(replicated).ok_or_else(refused)
}

/// The first thing that is wrong with functions of the trigger's name.
fn fault(ctx: &Context<'_>, trigger: &CreateTrigStmt, of: impl Fn(&Facts) -> Option<String>) -> Result<Option<String>> {
    for function in meant(ctx, trigger) {
        if let Some(fault) = of(&functions::function_facts(ctx, function)?) {
            return Ok(Some(fault));
        }
    }
    Ok(None)
}

/// The functions that the trigger may call: they take no arguments, and the first schema of the search path that has one counts.
fn meant<'a>(ctx: &Context<'a>, trigger: &CreateTrigStmt) -> Vec<&'a Function> {
    let by_words = ctx.of_body();
    let mut named = by_words.named_functions(&trigger.funcname);
    named.retain(|function| function.takes(0));
    if trigger.funcname.len() > 1 {
        return named;
    }
    let in_schema = |schema: &String| {
        let there: Vec<&Function> = named.iter().copied().filter(|function| function.schema == *schema).collect();
        (!there.is_empty()).then_some(there)
    };
    let found = ctx.session.search_path.iter().find_map(in_schema);
    found.unwrap_or(named)
}

fn refused(trigger: &CreateTrigStmt, fault: &str, hint: &str) -> PgError {
    let function = tree::last_name(&trigger.funcname).unwrap_or_default();
    PgError::unsupported(format!("a trigger that calls function {function}()")).detail(format!("{fault}.")).hint(hint)
}

/// Is it one that the coordinator can run?
fn check_captured(ctx: &Context<'_>, trigger: &CreateTrigStmt, table: &Relation, fault: &str) -> Result<()> {
    let refuse = |hint: &str| Err(refused(trigger, fault, hint));
    let is_alone = table.kind == RelationKind::Table && !table.has_children && !table.is_partition;
    if trigger.events & ON_TRUNCATE != 0 && !is_alone {
        return refuse("Leave TRUNCATE out: it works for tables without partitions and children.");
    }
    if is_before_row(trigger) && !is_alone {
        return refuse("Make it AFTER … FOR EACH ROW: BEFORE works for tables without partitions and children.");
    }
    if !trigger.transition_rels.is_empty() && (trigger.row || !is_alone) {
        return refuse(
            "Leave REFERENCING out: it works FOR EACH STATEMENT, for tables without partitions and children.",
        );
    }
    if trigger.deferrable || trigger.initdeferred {
        return refuse("Leave DEFERRABLE out.");
    }
    if !matches!(table.kind, RelationKind::Table | RelationKind::PartitionedTable) {
        return refuse("Create it on a table.");
    }
    if meant(ctx, trigger).iter().any(|function| function.language != "plpgsql") {
        return refuse("Write the function in PL/pgSQL.");
    }
    Ok(())
}

/// What makes the coordinator run it.
fn capture(trigger: &CreateTrigStmt, table: &Relation) -> Result<Vec<Effect>> {
    let has_transition_table = !trigger.transition_rels.is_empty();
    // The coordinator evaluates WHEN where the nodes cannot, and that of whole statements once for all nodes. A change by a statement
    // is inside of no trigger that a node knows of, one by a foreign key is.
    let is_outermost = trigger.when_clause.as_deref().is_some_and(is_outermost);
    let is_judged_here = !trigger.row || when_asks_depth(trigger)? && !is_outermost;
    let capture = CreateTrigStmt {
        when_clause: trigger.when_clause.clone().filter(|_| !is_judged_here),
        // What is in a transition table are the rows.
        row: trigger.row || has_transition_table,
        transition_rels: Vec::new(),
        trigname: captured_name(&trigger.trigname)?,
        funcname: vec![tree::string("loxo"), tree::string("capture")],
        args: Vec::new(),
        ..trigger.clone()
    };
    let (name, table) = (&trigger.trigname, table.qualified_name());
    Ok(vec![Effect::Run(tree::deparse(&capture.into_tree())?), Effect::TieCapture { table, trigger: name.clone() }])
}

/// No node fires it.
fn keep_off(name: &str, table: &str) -> Effect {
    Effect::Run(format!("ALTER TABLE {table} DISABLE TRIGGER {}", quote_identifier(name)))
}

fn is_captured(table: &Relation, trigger: &str) -> bool {
    table.kind != RelationKind::View && table.captured.iter().any(|one| one.name == trigger)
}

fn captured_name(name: &str) -> Result<String> {
    let captured = format!("{PREFIX}{name}");
    match captured.len() <= NAME_BYTES_MAX {
        true => Ok(captured),
        false => Err(PgError::unsupported(format!(
            "trigger \"{name}\", which reads or writes tables and has such a long name,"
        ))
        .hint(format!("Give it a name of at most {} bytes.", NAME_BYTES_MAX - PREFIX.len()))),
    }
}

/// ALTER TABLE … ENABLE and DISABLE TRIGGER.
pub(super) fn switch(alter: &AlterTableStmt, table: &Relation, plan: &mut DdlPlan) -> Result<()> {
    use AlterTableType as Type;
    let mut alter = alter.clone();
    let (mut is_changed, mut switches) = (false, false);
    for command in alter.cmds.iter_mut().filter_map(|node| node.get_mut::<AlterTableCmd>()) {
        let is_captured = is_captured(table, &command.name);
        switches |= (Type::AtEnableTrig as i32..=Type::AtDisableTrigUser as i32).contains(&command.subtype);
        match command.subtype() {
            Type::AtEnableTrig | Type::AtDisableTrig if is_captured => {
                command.name = captured_name(&command.name)?;
                is_changed = true;
            }
            Type::AtEnableAlwaysTrig | Type::AtEnableReplicaTrig if is_captured => {
                return Err(PgError::unsupported(format!("this state of trigger \"{}\"", command.name))
                    .detail("The coordinator runs it: its function reads or writes tables, or may set the distribution key.")
                    .hint("Use ENABLE TRIGGER or DISABLE TRIGGER."));
            }
            Type::AtEnableTrigAll | Type::AtEnableTrigUser => {
                let names = table.captured.iter().map(|trigger| &trigger.name);
                plan.effects.extend(names.map(|name| keep_off(name, &table.qualified_name())));
            }
            _ => {}
        }
    }
    if switches {
        tend_copies(table, plan);
    }
    if is_changed {
        plan.node_sql = tree::deparse(&NodeEnum::AlterTableStmt(alter))?;
    }
    Ok(())
}

/// ALTER TRIGGER … RENAME.
pub(super) fn rename(rename: &RenameStmt, table: &Relation, plan: &mut DdlPlan) -> Result<()> {
    if is_captured(table, &rename.subname) {
        let names = [&rename.subname, &rename.newname].map(|name| captured_name(name));
        let [old, new] = names.map(|name| name.map(|name| quote_identifier(&name)));
        let sql = format!("ALTER TRIGGER {} ON {} RENAME TO {}", old?, table.qualified_name(), new?);
        plan.effects.push(Effect::Run(sql));
    }
    Ok(())
}

/// Does the condition of WHEN depend on how many triggers are under way?
pub(crate) fn when_asks_depth(trigger: &CreateTrigStmt) -> Result<bool> {
    trigger.when_clause.any(|node| matches!(node, Ref::FuncCall(call) if asks_depth(call)))
}

/// Is a condition false inside of any trigger: `pg_trigger_depth() = 0`, `< 1`, or this and something else?
pub(crate) fn is_outermost(when: &Node) -> bool {
    match when.node.as_ref() {
        Some(NodeEnum::BoolExpr(all)) if all.boolop() == BoolExprType::AndExpr => all.args.iter().any(is_outermost),
        Some(NodeEnum::AExpr(compared)) if compared.kind() == AExprKind::AexprOp => {
            let is_depth = compared.lexpr.get::<FuncCall>().is_some_and(asks_depth);
            let bound = compared.rexpr.as_deref().and_then(tree::integer_of);
            let operator = tree::own_name(&compared.name);
            is_depth && matches!((operator, bound), (Some("=" | "<="), Some(0)) | (Some("<"), Some(1)))
        }
        _ => false,
    }
}

/// Does a call ask how many triggers it is in?
pub(crate) fn asks_depth(call: &FuncCall) -> bool {
    let name = tree::own_name(&call.funcname).filter(|_| call.args.is_empty());
    name.and_then(meaning::without_arguments) == Some(Meaning::TriggerDepth)
}
