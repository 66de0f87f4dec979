//! CREATE RULE, and switching rules on and off.
//!
//! All nodes have a rule, so that it holds on to what it names and is shown as it was made. None follows it: on a table it is
//! a rule for replicas (`ENABLE REPLICA`), and sessions on datanodes are none; a view's never meets a statement. Queries that
//! name `pg_rewrite` see rules as they are meant (`loxo.pg_rewrite()` in `metadata.sql`).

use catalog::{Relation, RuleState, quote_identifier};
use pg_query::NodeEnum;
use pg_query::protobuf::{AlterTableStmt, AlterTableType, CmdType, Constraint, InsertStmt, RuleStmt, SelectStmt};
use pgerror::{PgError, Result};

use super::{as_it_stands, boxed, everywhere, is_temporary, temporary};
use crate::context::{Context, Named};
use crate::parse::Statement;
use crate::plan::{DdlKind, DdlPlan, Effect, Plan};
use crate::tree::{self, Ask, Get};

/// CREATE RULE.
pub(super) fn create(ctx: &Context<'_>, statement: &Statement, rule: &RuleStmt) -> Result<Plan> {
    let Some(name) = &rule.relation else { return Err(PgError::internal("a rule without a table")) };
    let refused =
        |what: &str, hint: &str| Err(PgError::unsupported(format!("rule \"{}\" {what}", rule.rulename)).hint(hint));
    if rule.event == CmdType::CmdSelect as i32 {
        return refused("ON SELECT", "Use CREATE VIEW.");
    }
    if is_temporary(ctx, name) {
        if ctx.session.temp_views.iter().any(|view| view.name == name.relname) {
            return refused("on a temporary view", "Use a permanent view.");
        }
        return match mentions(rule, |name| Ok(!matches!(ctx.resolve(name)?, Named::Home(_))))? {
            true => refused("on a temporary table, about others,", "Write the statements one after the other."),
            false => Ok(boxed(temporary(ctx, statement, DdlKind::Schema))),
        };
    }
    check_actions(rule)?;
    if mentions(rule, |name| Ok(is_temporary(ctx, name)))? {
        return refused("that names a temporary table", "Use a permanent table.");
    }
    let mut plan = as_it_stands(statement, everywhere(ctx), DdlKind::Schema);
    match ctx.resolve(name)? {
        Named::Distributed(table) => {
            if rule.event != CmdType::CmdInsert as i32 && table.foreign_keys.iter().any(|key| key.acts) {
                return refused(
                    &format!("ON UPDATE or DELETE of table \"{}\", which a foreign key changes,", table.name),
                    "Declare the foreign key without ON DELETE or ON UPDATE.",
                );
            }
            let known = table.rules.iter().find(|known| known.name == rule.rulename);
            // CREATE OR REPLACE leaves a rule switched off that is.
            if known.is_none_or(|known| known.state != RuleState::Disabled) {
                plan.effects.push(keep_from_nodes(&table, &rule.rulename));
            }
        }
        // There is no such table, as PostgreSQL will say.
        Named::View(_) | Named::Home(None) => {}
        Named::Home(Some(relation)) => {
            return refused(&format!("on \"{}\"", relation.name), "Create it on a table or view.");
        }
    }
    Ok(boxed(plan))
}

fn mentions(rule: &RuleStmt, is_meant: impl Fn(&pg_query::protobuf::RangeVar) -> Result<bool>) -> Result<bool> {
    let actions = rule.actions.iter().filter(|action| !matches!(action.node, Some(NodeEnum::NotifyStmt(_))));
    let parts = actions.chain(rule.where_clause.as_deref());
    crate::try_any(parts, |part| crate::try_any(part.tables()?, &is_meant))
}

/// No datanode follows it.
fn keep_from_nodes(table: &Relation, rule: &str) -> Effect {
    let rule = quote_identifier(rule);
    Effect::Run(format!("ALTER TABLE {} ENABLE REPLICA RULE {rule}", table.qualified_name()))
}

/// ALTER TABLE … ENABLE and DISABLE RULE, of tables and views.
pub(super) fn switch(alter: &AlterTableStmt, relation: &Relation, plan: &mut DdlPlan) -> Result<()> {
    use AlterTableType as Type;
    for command in tree::commands(alter) {
        match command.subtype() {
            Type::AtEnableRule if relation.view_definition.is_none() => {
                plan.effects.push(keep_from_nodes(relation, &command.name));
            }
            Type::AtEnableAlwaysRule | Type::AtEnableReplicaRule => {
                return Err(PgError::unsupported(format!("this state of rule \"{}\"", command.name))
                    .hint("Use ENABLE RULE or DISABLE RULE."));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Has it actions that change rows of the table it is on?
pub(super) fn acts(foreign_key: &Constraint) -> bool {
    [&foreign_key.fk_del_action, &foreign_key.fk_upd_action].iter().any(|act| matches!(act.as_str(), "c" | "n" | "d"))
}

/// A foreign key whose actions change the rows of a table on the nodes: they would not follow its rules.
pub(super) fn check_foreign_key(table: &Relation, constraint: &Constraint) -> Result<()> {
    match acts(constraint) && table.rules.iter().any(|rule| rule.event != catalog::RuleEvent::Insert) {
        true => Err(PgError::unsupported(format!(
            "a foreign key that changes rows of table \"{}\", which has rules,",
            table.name
        ))
        .hint("Declare it without ON DELETE or ON UPDATE, or drop the rules.")),
        false => Ok(()),
    }
}

/// Are its actions such as we can follow?
pub(crate) fn check_actions(rule: &RuleStmt) -> Result<()> {
    for action in rule.actions.iter().filter_map(|action| action.node.as_ref()) {
        let fault = match action {
            NodeEnum::InsertStmt(insert) => fault_of_insert(insert),
            NodeEnum::UpdateStmt(update) => update.with_clause.is_some().then_some("WITH"),
            NodeEnum::DeleteStmt(delete) => delete.with_clause.is_some().then_some("WITH"),
            NodeEnum::NotifyStmt(_) => None,
            NodeEnum::SelectStmt(_) => Some("SELECT"),
            _ => Some("a statement that changes no rows"),
        };
        if let Some(fault) = fault {
            return Err(PgError::unsupported(format!(
                "rule \"{}\" with {fault} as its action, or in it,",
                rule.rulename
            ))
            .hint("INSERT, UPDATE, DELETE, NOTIFY and NOTHING work, also several of them."));
        }
    }
    Ok(())
}

fn fault_of_insert(insert: &InsertStmt) -> Option<&'static str> {
    let select = insert.select_stmt.get::<SelectStmt>()?;
    let is_set = select.op != tree::empty_select().op;
    match (insert.with_clause.is_some() || select.with_clause.is_some(), is_set) {
        (true, _) => Some("WITH"),
        (false, true) => Some("UNION, INTERSECT or EXCEPT"),
        (false, false) => None,
    }
}
