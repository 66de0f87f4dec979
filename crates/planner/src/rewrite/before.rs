//! Changes of tables with triggers BEFORE … FOR EACH ROW that the coordinator runs, since their functions read or write tables.
//!
//! ```text
//! UPDATE t SET a = 1 WHERE b > 2 RETURNING a
//!   rows   see `made_rows`; those of a table are locked
//!   each   the triggers in the order of their names, with OLD and NEW
//!   store  UPDATE t SET a = n1, c = n3 FROM unnest($1::t[]), unnest($2::t[]) WHERE t.id = o1 RETURNING ROW(…)::t
//!   then   SELECT a FROM unnest($1::t[]) AS t
//! ```
//!
//! What stores the rows is an ordinary change of the table: it routes them, checks constraints, and fires triggers AFTER. It is one
//! statement, so that these see what they see in PostgreSQL, unless the functions may look at the table itself: then each row
//! is stored before the triggers of the next are run.
//!
//! - Rows to be changed are found again by a key without NULL, or by their text: those that are alike must come out alike.
//! - On every other road to the table `loxo.capture()` of the datanodes refuses the rows; what is known to end there is refused here.

use std::collections::HashSet;
use std::sync::Arc;

use catalog::{Captured, Column, Event, Function, Relation, RuleEvent, quote_identifier};
use pg_query::protobuf::{
    InferClause, InsertStmt, OnConflictAction, OnConflictClause, OverridingKind, RangeVar, ReturningClause, UpdateStmt,
};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use crate::context::{Context, Named};
use crate::ddl::trigger::{is_outermost, when_asks_depth};
use crate::dml;
use crate::facts::used;
use crate::parse::Statement;
use crate::plan::{BeforeRows, Conflict, Routine};
use crate::rewrite::made_rows::Change;
use crate::rewrite::per_row::{may_touch, read_only};
use crate::rewrite::triggers::{changed, command, of_statement};
use crate::tree::{self, Syntax};

/// The rows in the statement that stores them.
const ROWS: &str = "loxo_r";

/// How the statement is run if it fires such triggers.
pub(crate) fn plan(ctx: &Context<'_>, statement: &Statement) -> Result<Option<Routine>> {
    if !ctx.catalog.captures() {
        return Ok(None);
    }
    let all = changed(ctx, statement)?;
    for (name, events) in &all {
        match ctx.resolve(name)? {
            Named::Distributed(table) => {
                if !events.iter().any(|event| !fired(&table, event).is_empty()) {
                    continue;
                }
                return match (statement.node(), all.as_slice()) {
                    (Some(tree), [_]) => Statements { ctx, statement, tree, events }.plan(name, &table).map(Some),
                    _ => Err(of_table(&table, "a change in WITH of")),
                };
            }
            Named::View(view) => refuse_view(ctx, name, &view, events)?,
            Named::Home(_) => {}
        }
    }
    Ok(None)
}

/// The triggers BEFORE … FOR EACH ROW that the coordinator runs at this event, in order.
fn fired<'t>(table: &'t Relation, event: &Event) -> Vec<&'t Captured> {
    let is_fired = |one: &&Captured| one.is_enabled && one.is_before_row() && event.fires(table, one);
    let mut triggers: Vec<&Captured> = table.captured.iter().filter(is_fired).collect();
    triggers.sort_by(|a, b| a.name.cmp(&b.name));
    triggers
}

/// A statement that does not take this road.
fn of_table(table: &Relation, what: &str) -> PgError {
    PgError::unsupported(format!("{what} table \"{}\"", table.name))
        .detail("It has a trigger BEFORE … FOR EACH ROW that reads or writes tables, or may give rows another key.")
        .hint(
            "Use an INSERT, UPDATE, DELETE or COPY of this table by itself, or make the trigger AFTER … FOR EACH ROW.",
        )
}

/// A change through a view ends at a table that the statement does not name.
fn refuse_view(ctx: &Context<'_>, name: &RangeVar, view: &Relation, events: &[Event]) -> Result<()> {
    let Some(table) = dml::table_behind(ctx, name, command(events))? else { return Ok(()) };
    let of_event = |event: &Event| {
        let mut triggers = table.captured.iter().filter(|one| one.is_enabled && one.is_before_row());
        triggers.any(|one| one.kind & event.kind.bit() != 0)
    };
    match events.iter().any(of_event) {
        true => Err(of_table(&table, &format!("a change through view \"{}\" of", view.name))),
        false => Ok(()),
    }
}

/// A statement that changes one such table.
struct Statements<'a> {
    ctx: &'a Context<'a>,
    statement: &'a Statement,
    tree: &'a NodeEnum,
    events: &'a [Event],
}

impl<'a> Statements<'a> {
    fn plan(&self, name: &RangeVar, table: &Arc<Relation>) -> Result<Routine> {
        let change = Change {
            catalog: self.ctx.catalog,
            relation: table,
            target: name,
            has_analysis: self.ctx.analysis.is_some(),
        };
        match self.tree {
            NodeEnum::MergeStmt(_) => return Err(of_table(table, "MERGE into")),
            NodeEnum::SelectStmt(_) => return Err(of_table(table, "a change in WITH of")),
            _ => {}
        }
        if table.has_children || table.is_partition {
            return Err(change.refused("It is a partition, or has children."));
        }
        let parameters = self.statement.parameters;
        let returning = tree::returning_of(self.tree);
        let returning = returning.map(|clause| change.returning(clause, parameters, self.tree)).transpose()?;
        let [event, others @ ..] = self.events else { return Err(PgError::internal("a change without an event")) };
        let (before, after) = of_statement(self.ctx, self.statement)?;
        let mut plan = BeforeRows { returning, before, after, ..self.of_event(&change, event, self.tree)? };
        if let NodeEnum::CopyStmt(_) = self.tree {
            plan.command = "COPY";
            let insert = InsertStmt { relation: Some(name.clone()), ..InsertStmt::default() };
            plan.insert = self.insert(&insert, &change, false)?;
        }
        if let NodeEnum::InsertStmt(insert) = self.tree {
            let mut insert = insert.as_ref().clone();
            // Row by row, none may meet one that is stored already: that is an error of the whole statement.
            let is_apart = |event: &&Event| plan.one_by_one || !fired(table, event).is_empty();
            if let Some(event) = others.iter().find(is_apart) {
                let mut conflict = self.conflict(&change, &mut insert, event)?;
                conflict.update.returning.clone_from(&plan.returning);
                plan.one_by_one = true;
                plan.conflict = Some(Box::new(conflict));
            }
            plan.insert = self.insert(&insert, &change, plan.returning.is_some() || plan.conflict.is_some())?;
        }
        Ok(Routine::Before(Box::new(plan)))
    }

    /// The rows of one event; nothing of the statement as a whole.
    fn of_event(&self, change: &Change<'_>, event: &Event, tree: &NodeEnum) -> Result<BeforeRows> {
        let table = change.relation;
        let triggers = fired(table, event);
        let functions = self.functions(table, &triggers);
        let one_by_one = may_touch(self.ctx, &functions, change.target)?;
        let is_insert = event.kind == RuleEvent::Insert;
        Ok(BeforeRows {
            table: table.clone(),
            operation: event.kind.name(),
            command: event.kind.name(),
            triggers: triggers.iter().map(|one| one.name.clone()).collect(),
            rows: change.made_rows(tree)?,
            one_by_one,
            checks_old: one_by_one && !is_insert && !read_only(self.ctx, &functions)?,
            returning: None,
            parameters: self.statement.parameters,
            before: Vec::new(),
            after: Vec::new(),
            conflict: None,
            set: event.columns.clone(),
            key: if is_insert { Vec::new() } else { key(change, tree)? },
            insert: String::new(),
            target: format!("{} AS {}", table.qualified_name(), quote_identifier(change.alias())),
            alias: quote_identifier(change.alias()),
            whole: change.whole(change.alias()),
        })
    }

    /// Takes DO UPDATE out of an INSERT.
    fn conflict(&self, change: &Change<'_>, insert: &mut InsertStmt, event: &Event) -> Result<Conflict> {
        let lost = || PgError::internal("ON CONFLICT is lost");
        let clause = insert.on_conflict_clause.as_mut().ok_or_else(lost)?;
        let columns = arbiter(change, clause.infer.as_deref())?;
        let update = take_update(change, clause, &columns, self.statement.parameters)?;
        let is_conditional = clause.where_clause.take().is_some();
        Ok(Conflict { update: self.of_event(change, event, &update)?, columns, is_conditional })
    }

    /// The functions of these triggers, and of those that they may fire by what they change.
    fn functions(&self, table: &Relation, triggers: &[&Captured]) -> Vec<&'a Function> {
        let catalog = self.ctx.catalog;
        let of = |triggers: &[&Captured]| {
            let is_of = |function: &&Function| triggers.iter().any(|one| one.function == function.oid);
            catalog.all_functions().filter(is_of).collect::<Vec<_>>()
        };
        let mut functions = of(triggers);
        let mut seen = HashSet::from([table.oid]);
        let mut next = 0;
        while let Some(function) = functions.get(next).copied() {
            next += 1;
            for other in catalog.relations().filter(|other| !other.captured.is_empty()) {
                if !seen.contains(&other.oid) && used::function_may_use(function, other, catalog) {
                    seen.insert(other.oid);
                    functions.extend(of(&other.captured.iter().collect::<Vec<_>>()));
                }
            }
        }
        functions
    }

    /// The INSERT over the rows that the triggers gave.
    fn insert(&self, insert: &InsertStmt, change: &Change<'_>, returns: bool) -> Result<String> {
        let table = change.relation;
        let has_identity = table.columns.iter().any(|column| column.generated.is_identity());
        if has_identity && insert.r#override() == OverridingKind::OverridingUserValue {
            return Err(change.refused("It has OVERRIDING USER VALUE."));
        }
        let names: Vec<String> = table.columns.iter().map(|column| alias_of('n', column)).collect();
        let stored = dml::stored_columns(table);
        let values: Vec<String> = stored.iter().map(|column| format!("{ROWS}.{}", alias_of('n', column))).collect();
        let query = format!(
            "SELECT {} FROM pg_catalog.unnest(CAST(${} AS {}[])) AS {ROWS} ({})",
            values.join(", "),
            self.statement.parameters + 1,
            table.qualified_name(),
            names.join(", ")
        );
        let overriding =
            if has_identity { OverridingKind::OverridingSystemValue } else { OverridingKind::OverridingNotSet };
        let returning_clause = match returns {
            true => Some(ReturningClause {
                options: Vec::new(),
                exprs: vec![tree::target(tree::parse_expression(&change.whole(change.alias()))?, None)],
            }),
            false => None,
        };
        let query = tree::parse_select(&query)?.into_tree();
        tree::deparse(
            &InsertStmt {
                cols: stored.iter().map(|column| tree::target_name_only(&column.name)).collect(),
                select_stmt: Some(Box::new(Node { node: Some(query) })),
                with_clause: None,
                r#override: overriding as i32,
                returning_clause,
                ..insert.clone()
            }
            .into_tree(),
        )
    }
}

/// The columns by which a row meets another.
fn arbiter(change: &Change<'_>, infer: Option<&InferClause>) -> Result<Vec<String>> {
    let refused =
        || change.refused("Its ON CONFLICT DO UPDATE names no plain columns, and its rows are stored one by one.");
    let infer = infer.filter(|infer| infer.where_clause.is_none()).ok_or_else(refused)?;
    if !infer.conname.is_empty() {
        let key = change.relation.unique_keys.iter().find(|key| key.name == infer.conname).ok_or_else(refused)?;
        return Ok(Column::names(change.relation.columns_at(&key.columns)));
    }
    let name = |element: &Node| match &element.node {
        Some(NodeEnum::IndexElem(element))
            if element.expr.is_none() && element.collation.is_empty() && element.opclass.is_empty() =>
        {
            Some(element.name.clone())
        }
        _ => None,
    };
    infer.index_elems.iter().map(name).collect::<Option<_>>().ok_or_else(refused)
}

/// The UPDATE that ON CONFLICT would make of the row that is there; the clause does nothing from now on.
fn take_update(
    change: &Change<'_>,
    clause: &mut OnConflictClause,
    columns: &[String],
    parameters: usize,
) -> Result<NodeEnum> {
    let of = change.relation.qualified_name();
    let rows = format!("SELECT FROM pg_catalog.unnest(CAST(${} AS {of}[])) AS excluded", parameters + 1);
    let mut conditions = Vec::new();
    for name in columns {
        let name = quote_identifier(name);
        let alias = quote_identifier(change.alias());
        conditions.push(tree::parse_expression(&format!("{alias}.{name} = excluded.{name}"))?);
    }
    conditions.extend(clause.where_clause.as_deref().cloned());
    clause.action = OnConflictAction::OnconflictNothing as i32;
    Ok(UpdateStmt {
        relation: Some(change.target.clone()),
        target_list: std::mem::take(&mut clause.target_list),
        where_clause: tree::conjunction(conditions).map(Box::new),
        from_clause: tree::parse_select(&rows)?.from_clause,
        ..UpdateStmt::default()
    }
    .into_tree())
}

/// By which columns rows are found again.
fn key(change: &Change<'_>, tree: &NodeEnum) -> Result<Vec<String>> {
    match change.relation.row_key() {
        Some(key) => Ok(Column::names(key)),
        None if tree::reads_others(tree) => {
            Err(change.refused("It has other tables in FROM or USING, and this table has no primary key."))
        }
        None => Ok(Vec::new()),
    }
}

/// The name of a column among the rows: of OLD (`o`) or of NEW (`n`).
fn alias_of(row: char, column: &Column) -> String {
    format!("{row}{}", column.number)
}

impl BeforeRows {
    /// Are rows found again by the whole of their text?
    pub fn by_text(&self) -> bool {
        self.operation != "INSERT" && (self.checks_old || self.key.is_empty())
    }

    /// Does what stores rows give them?
    pub fn gives_rows(&self) -> bool {
        self.returning.is_some() || self.conflict.is_some()
    }

    /// Stores rows. Of an UPDATE or DELETE the parameters are arrays: OLD, NEW if there is one, and OLD once more as
    /// texts if rows are found by these. An UPDATE sets these columns.
    pub fn store(&self, set: &[String]) -> String {
        let of = self.table.qualified_name();
        let returning = self.returning.as_ref().map_or(String::new(), |_| format!(" RETURNING {}", self.whole));
        match self.operation {
            "UPDATE" => {
                let column = |name: &String| {
                    let column = self.table.column(name)?;
                    Some(format!("{} = {ROWS}.{}", quote_identifier(name), alias_of('n', column)))
                };
                let set: Vec<String> = set.iter().filter_map(column).collect();
                let (rows, condition) = (self.rows_by_number(&of, &['o', 'n']), self.condition());
                format!("UPDATE {} SET {} FROM {rows} WHERE {condition}{returning}", self.target, set.join(", "))
            }
            "DELETE" => {
                let (rows, condition) = (self.rows_by_number(&of, &['o']), self.condition());
                format!("DELETE FROM {} USING {rows} WHERE {condition}{returning}", self.target)
            }
            _ => self.insert.clone(),
        }
    }

    /// An item of FROM: the rows next to each other.
    fn rows_by_number(&self, of: &str, rows: &[char]) -> String {
        let mut names = Vec::new();
        let mut arrays = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            names.extend(self.table.columns.iter().map(|column| alias_of(*row, column)));
            arrays.push(format!("pg_catalog.unnest(CAST(${} AS {of}[]))", at + 1));
        }
        if self.by_text() {
            names.push("t".to_owned());
            arrays.push(format!("pg_catalog.unnest(CAST(${} AS pg_catalog.text[]))", rows.len() + 1));
        }
        format!("ROWS FROM ({}) AS {ROWS} ({})", arrays.join(", "), names.join(", "))
    }

    /// Which row it is.
    fn condition(&self) -> String {
        let equal = |name: &String| {
            let column = self.table.column(name)?;
            Some(format!("{}.{} = {ROWS}.{}", self.alias, quote_identifier(name), alias_of('o', column)))
        };
        let mut conditions: Vec<String> = self.key.iter().filter_map(equal).collect();
        if self.by_text() {
            conditions.push(format!("CAST({} AS pg_catalog.text) = {ROWS}.t", self.whole));
        }
        conditions.join(" AND ")
    }
}

/// The condition of WHEN.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Condition {
    pub sql: String,
    /// It calls `pg_trigger_depth()`, so that no node can tell.
    pub asks_depth: bool,
    /// It is true outside of all triggers only, also of those of foreign keys.
    pub is_outermost: bool,
}

/// The condition in the text of a trigger (`pg_get_triggerdef`).
pub fn trigger_condition(definition: &str) -> Result<Option<Condition>> {
    match tree::parse_one(definition).map_err(|error| PgError::internal(error.to_string()))? {
        Some(NodeEnum::CreateTrigStmt(trigger)) => {
            let of = |when: &Node| {
                let (sql, asks_depth) = (tree::deparse_expression(when)?, when_asks_depth(&trigger)?);
                Ok(Condition { sql, asks_depth, is_outermost: is_outermost(when) })
            };
            trigger.when_clause.as_deref().map(of).transpose()
        }
        _ => Err(PgError::internal("a trigger that is defined by another statement")),
    }
}
