//! Functions that a datanode calls by itself when it reads or changes rows: in triggers, constraints, defaults, generated
//! columns, indexes, domains and policies. They must not look at rows that other nodes have.
//!
//! A function may be replaced after it has come into use, and what it calls may be made later still. So they are judged by
//! what the catalog of the statement says, not when the trigger or constraint is made; a catalog keeps the facts.
//!
//! PostgreSQL's own functions do not change: what it stores with a table is judged once, when that is done.
//!
//! What the session has in `pg_temp` lies on the home node alone, and functions that this calls for it may use that too, but no
//! tables of which it has not all rows. Only the session's own backend knows what they are.

use catalog::{BuiltinFunction, Catalog, Code, CodeFacts, Distribution, Function, Meaning, Oid, Relation};
use pg_query::protobuf::{AlterTableStmt, AlterTableType, Constraint, IndexElem, IndexStmt, RangeVar};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use crate::context::{Context, Named};
use crate::facts::Facts;
use crate::facts::builtins::{Class, class_of};
use crate::facts::definitions::definition;
use crate::facts::functions::{body_facts, facts as facts_of, function_facts, function_facts_at_home};
use crate::facts::key_setters::may_set_key;
use crate::plan::tables::named_relations;
use crate::session::{Exchanges, SessionFacts, Stop, TempCode};
use crate::tree::{self, Ask, Get, Ref, Walk};

const TRIGGER_HINT: &str =
    "Create the trigger again: the coordinator runs those whose functions in PL/pgSQL read or write tables.";
/// What [`may_set_key`] finds.
pub(crate) const SETS_KEY: &str =
    "It may give the row another distribution key, and the row would lie on the wrong node";
pub(crate) const KEY_HINT: &str =
    "Compute the key in the statement or in its DEFAULT, or use DISTRIBUTE BY REPLICATION.";
const TEMPORARY_HINT: &str = "Use a permanent table, or call the function in the statement.";
const POLICY_FUNCTION_HINT: &str = "The function may compute, but not read or write tables.";
const EXPRESSION_HINT: &str = "The function may compute and may read tables that are replicated on all nodes.";

const STORED_HINT: &str =
    "Let a trigger BEFORE … FOR EACH ROW in PL/pgSQL compute or check it: its queries see the rows of all nodes.";

/// What a policy may read.
pub(crate) const POLICY_HINT: &str = "Use the row's columns, settings, and tables that are replicated on all nodes.";

/// May the rows of this table be changed where they are?
pub(crate) fn check_change(ctx: &Context<'_>, relation: &Relation) -> Result<()> {
    facts(ctx, relation).and_then(|facts| facts.change.clone()).map_or(Ok(()), Err)
}

/// May they be deleted there?
pub(crate) fn check_delete(ctx: &Context<'_>, relation: &Relation) -> Result<()> {
    facts(ctx, relation).and_then(|facts| facts.delete.clone()).map_or(Ok(()), Err)
}

/// Does a trigger do what the nodes that fire it cannot do?
pub(crate) fn is_hindered(ctx: &Context<'_>, relation: &Relation) -> bool {
    facts(ctx, relation).is_some_and(|facts| facts.by_trigger)
}

/// May the rows of this table be read where they are?
pub(crate) fn check_read(ctx: &Context<'_>, relation: &Relation) -> Result<()> {
    facts(ctx, relation).and_then(|facts| facts.read.clone()).map_or(Ok(()), Err)
}

/// Checks the table of this name; what the home node alone has is its own affair.
pub(crate) fn check_named(
    ctx: &Context<'_>,
    name: &RangeVar,
    check: fn(&Context<'_>, &Relation) -> Result<()>,
) -> Result<()> {
    ctx.distributed(name)?.map_or(Ok(()), |relation| check(ctx, &relation))
}

/// Do nodes fire triggers of any table?
pub(crate) fn nodes_fire_triggers(catalog: &Catalog) -> bool {
    catalog.relations().any(|relation| relation.code.as_ref().is_some_and(|code| !code.triggers.is_empty()))
}

fn facts<'r>(ctx: &Context<'_>, relation: &'r Relation) -> Option<&'r CodeFacts> {
    let code = relation.code.as_deref()?;
    Some(code.facts.get_or_init(|| judge(ctx, relation, code)))
}

/// Without a search path or anything else of a session: the facts is for all of them.
fn judge(ctx: &Context<'_>, relation: &Relation, code: &Code) -> CodeFacts {
    let catalog = ctx.catalog;
    let session = SessionFacts {
        home: catalog.primary(),
        search_path: &[],
        temp_relations: &[],
        temp_views: &[],
        temp_code: &[],
        temp_functions: &[],
        temp_types: &[],
        parameters: &[],
        describe: None,
        in_transaction: false,
        clock: None,
        now: None,
        exchanges: Exchanges::No,
        estimates: None,
        few_rows: 0.0,
        stop: Stop::default(),
        depends: None,
    };
    let ctx = Context::new(ctx.planner, catalog, &session, None);
    let judge = Judge { ctx: &ctx, table: &relation.name };
    let fault = |facts: &Facts| trigger_fault(catalog, facts, relation);
    let of_trigger = || judge.first(&code.triggers, "a trigger", TRIGGER_HINT, fault);
    let of_key = || judge.key(&code.triggers, relation);
    let beyond = |facts: &Facts| refused(facts).or_else(|| facts.reads_part.clone());
    let of_expression = || judge.first(&code.expressions, "a constraint, default or index", EXPRESSION_HINT, beyond);
    let of_policy = judge.first(&code.policies, "a policy", POLICY_FUNCTION_HINT, beyond_computing);
    let of_policy = of_policy.or_else(|| judge.policy_tables(&code.policy_tables));
    let of_trigger = of_trigger();
    let by_trigger = of_trigger.is_some();
    let delete = of_trigger.or_else(of_key);
    CodeFacts {
        by_trigger,
        change: delete.clone().or_else(of_expression).or_else(|| of_policy.clone()),
        delete: delete.or_else(|| of_policy.clone()),
        read: of_policy,
    }
}

struct Judge<'a> {
    ctx: &'a Context<'a>,
    table: &'a str,
}

impl Judge<'_> {
    /// What is wrong with the first function that is not as it must be.
    fn first(
        &self,
        functions: &[Oid],
        caller: &str,
        hint: &str,
        fault: impl Fn(&Facts) -> Option<String>,
    ) -> Option<PgError> {
        functions.iter().find_map(|oid| {
            let function = self.ctx.catalog.all_functions().find(|function| function.oid == *oid);
            let name = function.map_or("unknown", |function| &function.name);
            let fault = self.facts(function).map_or_else(|error| Some(error.message().into_owned()), |f| fault(&f))?;
            let what = format!("table \"{}\" with {caller} that calls function {name}()", self.table);
            Some(PgError::unsupported(what).detail(format!("{fault}.")).hint(hint))
        })
    }

    /// A trigger must leave a row where it is.
    fn key(&self, functions: &[Oid], table: &Relation) -> Option<PgError> {
        let mut called = self.ctx.catalog.functions_by_oid(functions);
        let name = &called.find(|function| may_set_key(function, table))?.name;
        let what = format!("table \"{}\" with a trigger that calls function {name}()", self.table);
        Some(PgError::unsupported(what).detail(format!("{SETS_KEY}.")).hint(KEY_HINT))
    }

    /// Each node decides by its own rows.
    fn policy_tables(&self, tables: &[Oid]) -> Option<PgError> {
        let catalog = self.ctx.catalog;
        let name = tables.iter().find_map(|oid| match catalog.relation_by_oid(*oid) {
            Some(table) if is_on_all_nodes(catalog, table) => None,
            table => Some(table.map_or("unknown", |table| &table.name)),
        })?;
        let what = format!("table \"{}\" with a policy that reads table \"{name}\"", self.table);
        Some(PgError::unsupported(what).detail("That is not replicated on all nodes.").hint(POLICY_HINT))
    }

    fn facts(&self, function: Option<&Function>) -> Result<Facts> {
        let function = function.ok_or_else(|| PgError::internal("The function is not in the catalog"))?;
        function_facts(self.ctx, function)
    }
}

/// Why a node that holds a row of this table cannot run a trigger's function for it. It does so once for a row, so the function
/// may read what every node has. Of a replicated table the first copy does it, which is on the primary datanode if any is:
/// there the function may use what only that node has.
pub(crate) fn trigger_fault(catalog: &Catalog, facts: &Facts, table: &Relation) -> Option<String> {
    let is_on_primary = || match &table.distribution {
        Distribution::Replicated { nodes } => nodes.contains(&catalog.primary()),
        _ => false,
    };
    if facts.refused.is_none() && !facts.locking && (facts.home.is_none() || is_on_primary()) {
        return facts.reads_part.clone();
    }
    beyond_computing(facts)
}

/// May rows of what this name means be changed, if it is temporary?
pub(crate) fn check_temporary(ctx: &Context<'_>, name: &RangeVar) -> Result<()> {
    check_called(ctx, name, |code| &code.on_change)
}

/// May it be emptied?
pub(crate) fn check_truncate(ctx: &Context<'_>, name: &RangeVar) -> Result<()> {
    check_called(ctx, name, |code| &code.on_truncate)
}

/// May the home node compute values for the rows that are there?
pub(crate) fn check_alter(ctx: &Context<'_>, name: &RangeVar, alter: &AlterTableStmt) -> Result<()> {
    for command in tree::commands(alter) {
        if command.subtype() == AlterTableType::AtAlterColumnType {
            check_temporary(ctx, name)?;
        }
        let constraint =
            |node: &Node| node.get::<Constraint>().and_then(|constraint| constraint.raw_expr.as_deref().cloned());
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

/// May the home node compute an index's expressions for the rows that are there?
pub(crate) fn check_index(ctx: &Context<'_>, index: &IndexStmt) -> Result<()> {
    let columns = index
        .index_params
        .iter()
        .filter_map(|column| column.get::<IndexElem>().and_then(|column| column.expr.as_deref().cloned()));
    check_expressions(ctx, columns.chain(index.where_clause.as_deref().cloned()).collect())
}

fn check_expressions(ctx: &Context<'_>, expressions: Vec<Node>) -> Result<()> {
    match facts_of(ctx, &expressions)?.refused {
        Some(refused) => Err(refused.hint(TEMPORARY_HINT)),
        None => Ok(()),
    }
}

fn check_called(ctx: &Context<'_>, name: &RangeVar, of: impl Fn(&TempCode) -> &Vec<Oid>) -> Result<()> {
    for oid in called(ctx, name, of)? {
        let function = known_function(ctx, oid);
        let fault = match function {
            Some(function) => home_fault(ctx, &function_facts_at_home(ctx, function)?),
            None => Some("Nothing is known of it".to_owned()),
        };
        if let Some(fault) = fault {
            let called = function.map_or("unknown", |function| &function.name);
            let what = format!(
                "temporary table \"{}\" with a trigger, constraint or default that calls function {called}()",
                name.relname
            );
            return Err(PgError::unsupported(what).detail(format!("{fault}.")).hint(TEMPORARY_HINT));
        }
    }
    Ok(())
}

/// Why the home node cannot run a function for a row of its own.
fn home_fault(ctx: &Context<'_>, facts: &Facts) -> Option<String> {
    let lacks = !facts.has_what_functions_read(ctx.home());
    let locks = facts.locking && facts.function_nodes.is_some();
    let reads = lacks.then_some("It reads tables that the home node does not have");
    let fault = reads.or(locks.then_some("It locks rows of replicated tables"));
    refused(facts).or_else(|| fault.map(str::to_owned))
}

/// The functions that a change of what the name means leads to, through views too.
pub(crate) fn called_on_change(ctx: &Context<'_>, name: &RangeVar) -> Result<Vec<Oid>> {
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
        definition(view)?.each(|node| {
            if let Ref::RangeVar(below) = node
                && ctx.is_temporary(below)
                && !names.contains(&below.relname)
            {
                names.push(below.relname.clone());
            }
        })?;
    }
    Ok(called)
}

/// A function of the catalog's, or in `pg_temp`.
pub(crate) fn known_function<'a>(ctx: &Context<'a>, oid: Oid) -> Option<&'a Function> {
    let is_meant = |function: &&Function| function.oid == oid;
    ctx.session.temp_functions.iter().find(is_meant).or_else(|| ctx.catalog.all_functions().find(is_meant))
}

/// Does a change of this table, or what it leads to, make the coordinator run a trigger?
pub(crate) fn captures(relation: &Relation) -> bool {
    relation.code.as_ref().is_some_and(|code| code.captures)
}

/// What a function does beyond computing.
pub(crate) fn beyond_computing(facts: &Facts) -> Option<String> {
    let read = refused(facts).or_else(|| facts.reads.clone());
    read.or_else(|| facts.home.as_ref().map(|what| format!("It needs {what}")))
}

fn refused(facts: &Facts) -> Option<String> {
    facts.refused.as_ref().map(|error| error.message().into_owned())
}

/// Do policies of the tables in a statement read other tables, which the statement does not name?
pub(crate) fn policies_read(ctx: &Context<'_>, statement: &NodeEnum) -> Result<bool> {
    let reads = |relation: &Relation| relation.code.as_ref().is_some_and(|code| !code.policy_tables.is_empty());
    ctx.names(statement, |named| matches!(named, Named::Distributed(relation) if reads(relation)))
}

/// Is a table replicated on all nodes?
pub(crate) fn is_on_all_nodes(catalog: &Catalog, relation: &Relation) -> bool {
    matches!(&relation.distribution, Distribution::Replicated { nodes } if nodes.len() == catalog.nodes().len())
}

/// Is what a name may mean, under whatever search path, replicated on all nodes?
pub(crate) fn is_everywhere(catalog: &Catalog, name: &RangeVar) -> bool {
    let mut meant = named_relations(catalog, name).peekable();
    meant.peek().is_some() && meant.all(|relation| is_on_all_nodes(catalog, relation))
}

/// Does the statement, or an item of a WITH in it, change rows?
pub(crate) fn changes_rows(statement: &impl Walk) -> Result<bool> {
    statement.any(|node| tree::changed(node).is_some())
}

/// The side that evaluates a stored expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// The home node in most cases, once for a row: it has the sequences and what else is the primary datanode's.
    Default,
    /// Every node, for its own rows.
    Condition,
    /// Every node too: WHEN of a permanent table's trigger. The coordinator runs it if it asks for `pg_trigger_depth()`.
    OfTrigger,
}

/// Refuses an expression that calls one of these functions of PostgreSQL's and would be another thing on each node.
///
/// # Errors
/// 0A000 that names the expression and the function.
pub(crate) fn check_stored(ctx: &Context<'_>, what: &str, stored: Stored, functions: &[Oid]) -> Result<()> {
    let builtins = ctx.catalog.builtins();
    for (name, function) in functions.iter().filter_map(|oid| builtins.function_of(*oid)) {
        if let Some(hint) = stored_fault(ctx, stored, function)? {
            let what = format!("{what} that calls function {name}()");
            let detail = "A node that evaluates it would see its own rows and its own server only.";
            return Err(PgError::unsupported(what).detail(detail).hint(hint));
        }
    }
    Ok(())
}

/// Why it may not stand there, as a hint.
fn stored_fault(ctx: &Context<'_>, stored: Stored, function: &BuiltinFunction) -> Result<Option<&'static str>> {
    if stored == Stored::OfTrigger && function.meaning == Some(Meaning::TriggerDepth) {
        return Ok(None);
    }
    let is_condition = stored != Stored::Default;
    // What STABLE functions read that parallel workers may call is in the catalogs, which all nodes have alike.
    let is_of_catalogs = function.volatility == 's' && function.parallel == 's';
    Ok(match class_of(ctx.catalog.builtins(), function) {
        Class::Refused(hint) => Some(hint),
        Class::Size => Some(STORED_HINT),
        Class::Home | Class::HomeWrite => (is_condition && !is_of_catalogs).then_some(STORED_HINT),
        Class::Body(body) => {
            let facts = body_facts(ctx, "sql", body)?;
            let beyond = beyond_computing(&facts).filter(|_| is_condition && !is_of_catalogs);
            (facts.refused.is_some() || beyond.is_some()).then_some(STORED_HINT)
        }
        Class::Anywhere | Class::Volatile | Class::Clock | Class::VolatileClock | Class::OrderSensitive => None,
    })
}
