//! Triggers that the coordinator runs, since their functions read or write tables.
//!
//! ```text
//!  change of rows ── nodes ──> trigger events (which row, which trigger) ── one after the other ──> body of the trigger's function
//! ```
//!
//! The nodes decide for which rows a trigger fires, and say so while the change runs (`executor::TriggerEvent`). When it is done, in
//! the same transaction, the function runs for each, as PostgreSQL fires AFTER triggers: with OLD, NEW and the TG variables,
//! every statement in it an ordinary one of the session. One that changes rows fires the triggers of these first. Triggers FOR
//! EACH STATEMENT run once, as the planner says; their transition tables are temp tables of the home node, with names of ours.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use bytes::Bytes;
use executor::{Call, Completion, Parameters, Spool, TriggerEvent};
use pgerror::{PgError, Result, SqlState, field};
use planner::parse::StatementKind;
use planner::{Condition, OfStatement, RoutineCall, Statement, TransitionTable, Triggered, Wanted};
use routine::{Parameter, Pending, Type, array_text};

use super::captured::text;
use super::runner::Runner;
use super::signature::Signature;

const NAME: u32 = 19;
const INT4: u32 = 23;
const TEXT: u32 = 25;
const OID: u32 = 26;
const TEXT_ARRAY: u32 = 1009;

/// `TRIGGER_TYPE_ROW` and `TRIGGER_TYPE_BEFORE` of `pg_trigger.h`.
const FOR_EACH_ROW: u32 = 1;
const BEFORE: u32 = 2;
const INSTEAD: u32 = 64;

/// A trigger as the home node knows it, with its function.
pub(super) struct Trigger {
    table: String,
    schema: String,
    name: String,
    relid: String,
    kind: u32,
    arguments: Vec<Vec<u8>>,
    transition_tables: TransitionTables,
    /// The condition of WHEN.
    condition: Option<Condition>,
    /// What captures for it has WHEN too.
    nodes_evaluate: bool,
    row: Type,
    signature: Signature,
    body: routine::ast::Body,
}

/// What REFERENCING calls the rows, or empty.
struct TransitionTables {
    old: String,
    new: String,
}

impl TransitionTables {
    /// The temp tables for the old and the new rows, in a trigger inside of so many others.
    fn at(&self, depth: usize) -> [Option<TransitionTable>; 2] {
        [(&self.old, "old"), (&self.new, "new")].map(|(name, rows)| {
            let table = TransitionTable { name: name.clone(), table: format!("loxo_{rows}_{depth}") };
            Some(table).filter(|table| !table.name.is_empty())
        })
    }
}

/// OLD and NEW.
type Row<'r> = (Option<&'r [u8]>, Option<&'r [u8]>);

/// Rows for which WHEN is evaluated at once.
const ROWS_MAX: usize = 256;

impl Runner {
    /// Runs a plan that changes rows, and the triggers that it fires.
    pub(super) fn change<'s>(
        &'s mut self,
        change: &'s Triggered,
        statement: &'s Statement,
        call: &'s Call,
        spool: Option<&'s mut Spool>,
    ) -> Pending<'s, Completion> {
        Box::pin(async move {
            let validity = self.session().plan_validity();
            self.session().lock_movable(&change.movable).await?;
            if statement.kind == StatementKind::Truncate {
                self.lock_emptied(&change.before).await?;
            }
            self.fire_before(&change.before, statement, validity).await?;
            let completion = Box::pin(self.run_plan(&change.plan, statement, call, spool)).await?;
            self.session().follow_keys(&change.movable).await?;
            let trigger_events = self.session().take_trigger_events().await?;
            self.captured_rows(&change.before, &change.after, trigger_events).await?;
            Ok(completion)
        })
    }

    /// What TRUNCATE empties is nobody else's before the first trigger looks at it.
    async fn lock_emptied(&mut self, before: &[OfStatement]) -> Result<()> {
        for one in before {
            let table = [&one.schema, &one.table].map(|name| catalog::quote_identifier(name)).join(".");
            self.captured(&format!("LOCK TABLE ONLY {table} IN ACCESS EXCLUSIVE MODE"), &Call::simple()).await?;
        }
        Ok(())
    }

    /// What the nodes have captured: rows of transition tables, and rows each of which fires a trigger.
    pub(super) async fn captured_rows(
        &mut self,
        before: &[OfStatement],
        after: &[OfStatement],
        trigger_events: Vec<TriggerEvent>,
    ) -> Result<()> {
        let is_of = |one: &OfStatement, trigger_event: &TriggerEvent| {
            one.trigger == trigger_event.trigger
                && one.table == trigger_event.table
                && one.schema == trigger_event.schema
        };
        let once = |trigger_event: &TriggerEvent| before.iter().chain(after).any(|one| is_of(one, trigger_event));
        let (collected, of_rows): (Vec<TriggerEvent>, Vec<TriggerEvent>) = trigger_events.into_iter().partition(once);
        let mut due = Vec::with_capacity(after.len());
        for one in after {
            // As in PostgreSQL what a row's trigger does comes too late for WHEN.
            due.extend(self.due(one).await?.map(|trigger| (one, trigger)));
        }
        let captured = self.rows_into(None);
        let fired = self.fire(of_rows).await;
        self.rows_into(captured);
        fired?;
        for (one, trigger) in due {
            let rows = collected
                .iter()
                .filter(|trigger_event| is_of(one, trigger_event) && trigger_event.operation == one.operation);
            self.fire_once(one, &trigger, rows.collect()).await?;
        }
        Ok(())
    }

    /// A trigger BEFORE … FOR EACH STATEMENT.
    pub(super) async fn once(&mut self, one: &OfStatement) -> Result<()> {
        match self.due(one).await? {
            Some(trigger) => self.fire_once(one, &trigger, Vec::new()).await,
            None => Ok(()),
        }
    }

    /// A trigger FOR EACH STATEMENT, if it is to fire.
    async fn due(&mut self, one: &OfStatement) -> Result<Option<Trigger>> {
        if self.is_replica().await? {
            return Ok(None);
        }
        let trigger = self.trigger(&of_statement(one)).await?;
        let fires = self.when_holds(&trigger, &[(None, None)]).await?;
        Ok((fires == [true]).then_some(trigger))
    }

    /// With its transition tables.
    async fn fire_once(&mut self, one: &OfStatement, trigger: &Trigger, rows: Vec<&TriggerEvent>) -> Result<()> {
        let captured = self.rows_into(None);
        let fired = self.with_transition_tables(trigger, of_statement(one), &rows).await;
        self.rows_into(captured);
        fired
    }

    /// Triggers that are neither ENABLE ALWAYS nor REPLICA, which the coordinator runs none of, do not fire then.
    async fn is_replica(&mut self) -> Result<bool> {
        let sql = "SELECT pg_catalog.current_setting('session_replication_role')";
        let rows = self.asked(sql).await?;
        Ok(rows.first().and_then(|row| row.first()?.as_deref()) == Some(b"replica"))
    }

    async fn with_transition_tables(
        &mut self,
        trigger: &Trigger,
        trigger_event: TriggerEvent,
        rows: &[&TriggerEvent],
    ) -> Result<()> {
        let old: Vec<_> = rows.iter().map(|row| row.old.as_deref()).collect();
        let new: Vec<_> = rows.iter().map(|row| row.new.as_deref()).collect();
        let tables = trigger.transition_tables.at(self.routines().trigger_depth);
        let mut made = Vec::new();
        for (of, rows) in tables.iter().zip([old, new]) {
            if let Some(of) = of {
                self.transition_table(trigger, &of.table, &rows).await?;
                made.push(format!("pg_temp.{}", catalog::quote_identifier(&of.table)));
            }
        }
        let outer = std::mem::take(&mut self.routines().cursors_over);
        let ran = self.run_trigger(trigger, trigger_event).await;
        let cursors = std::mem::replace(&mut self.routines().cursors_over, outer);
        ran?;
        for cursor in cursors {
            if self.session().node_of_cursor(&cursor).await?.is_some() {
                self.captured(&format!("CLOSE {}", catalog::quote_identifier(&cursor)), &Call::simple()).await?;
            }
        }
        if !made.is_empty() {
            self.asked(&format!("DROP TABLE {}", made.join(", "))).await?;
            self.session().keep_temp_objects();
        }
        Ok(())
    }

    /// A temp table on the home node with these rows.
    async fn transition_table(&mut self, trigger: &Trigger, name: &str, rows: &[Option<&[u8]>]) -> Result<()> {
        let of = &trigger.row.name;
        let shape = format!("SELECT (t.r).* FROM (SELECT CAST(NULL AS {of}) AS r) AS t");
        self.session().refuse_users_code_of(trigger.row.oid).await?;
        self.session().create_temp_like(name, &[format!("LIKE {of}")], &shape).await?;
        self.session().keep_temp_objects();
        let name = catalog::quote_identifier(name);
        let sql = format!("INSERT INTO pg_temp.{name} SELECT r.* FROM pg_catalog.unnest(CAST($1 AS {of}[])) AS r");
        let rows = Some(array_text(rows.iter().copied()));
        let parameters = Parameters { types: vec![0], formats: Vec::new(), values: vec![rows] };
        let call = Call { parameters: Some(Arc::new(parameters)), one_off: true, ..Call::default() };
        self.forward_home(&sql, &call).await.map(drop)
    }

    async fn fire(&mut self, trigger_events: Vec<TriggerEvent>) -> Result<()> {
        let mut known: BTreeMap<[String; 3], Trigger> = BTreeMap::new();
        for trigger_event in &trigger_events {
            if let Entry::Vacant(unknown) = known.entry(key(trigger_event)) {
                unknown.insert(self.trigger(trigger_event).await?);
            }
        }
        let fires = self.fires(&known, &trigger_events).await?;
        let firing = trigger_events.into_iter().zip(fires).filter(|(_, fires)| *fires);
        let mut trigger_events: Vec<TriggerEvent> = firing.map(|(trigger_event, _)| trigger_event).collect();
        self.keep_rows(&known, &mut trigger_events).await?;
        for trigger_event in trigger_events {
            match known.get(&key(&trigger_event)).filter(|trigger| trigger.is_of_row()) {
                Some(trigger) => self.run_trigger(trigger, trigger_event).await.map(drop)?,
                None => return Err(reached(&trigger_event)),
            }
        }
        Ok(())
    }

    /// The rows as variables hold them, before a function changes what the names in them mean.
    async fn keep_rows(
        &mut self,
        known: &BTreeMap<[String; 3], Trigger>,
        trigger_events: &mut [TriggerEvent],
    ) -> Result<()> {
        for (of, trigger) in known {
            if !self.has_names(trigger.row.oid).await? {
                continue;
            }
            let mut events: Vec<&mut TriggerEvent> =
                trigger_events.iter_mut().filter(|trigger_event| key(trigger_event) == *of).collect();
            for part in events.chunks_mut(ROWS_MAX) {
                let rows = part.iter_mut().flat_map(|one| [one.old.take(), one.new.take()]).collect();
                let mut kept = self.kept(&trigger.row, rows).await?.into_iter();
                for one in part {
                    (one.old, one.new) = (kept.next().flatten(), kept.next().flatten());
                }
            }
        }
        Ok(())
    }

    /// For which of the events is WHEN true? As in PostgreSQL that is found before the first trigger runs.
    async fn fires(
        &mut self,
        known: &BTreeMap<[String; 3], Trigger>,
        trigger_events: &[TriggerEvent],
    ) -> Result<Vec<bool>> {
        let mut fires = vec![true; trigger_events.len()];
        for (of, trigger) in known.iter().filter(|(_, trigger)| !trigger.is_judged_by_nodes()) {
            let events: Vec<usize> = (0..fires.len()).filter(|at| key(&trigger_events[*at]) == *of).collect();
            if trigger.is_outermost() {
                // The nodes have evaluated the rest of the condition.
                let is_outermost = self.routines().trigger_depth == 0;
                events.iter().for_each(|at| fires[*at] = is_outermost);
                continue;
            }
            for part in events.chunks(ROWS_MAX) {
                let row = |at: &usize| (trigger_events[*at].old.as_deref(), trigger_events[*at].new.as_deref());
                let rows: Vec<Row<'_>> = part.iter().map(row).collect();
                // One FOR EACH STATEMENT that the statement has not fired itself a foreign key has.
                let holds = self.when_holds_at(trigger, usize::from(!trigger.is_of_row()), &rows).await?;
                if self.may_be_reached(trigger).await? && self.when_holds_at(trigger, 1, &rows).await? != holds {
                    return Err(reached_at_depth(trigger));
                }
                part.iter().zip(holds).for_each(|(at, holds)| fires[*at] = holds);
            }
        }
        Ok(fires)
    }

    /// May an event of the trigger be one that a foreign key's action has fired? PostgreSQL evaluates WHEN inside of the key's trigger then.
    async fn may_be_reached(&mut self, trigger: &Trigger) -> Result<bool> {
        if !trigger.is_of_row() {
            return Ok(false);
        }
        let loaded = self.session().catalog().await?;
        let catalog = &loaded.catalog;
        let mut tables: Vec<_> = catalog.relation(&trigger.schema, &trigger.table).into_iter().collect();
        while let Some(table) = tables.pop() {
            if table.foreign_keys.iter().any(|key| key.acts) {
                return Ok(true);
            }
            tables.extend(table.parents.iter().filter_map(|parent| catalog.relation_by_oid(*parent)));
        }
        Ok(false)
    }

    /// Is WHEN true of these rows?
    pub(super) async fn when_holds(&mut self, trigger: &Trigger, rows: &[Row<'_>]) -> Result<Vec<bool>> {
        self.when_holds_at(trigger, 0, rows).await
    }

    /// Inside of so many triggers more.
    async fn when_holds_at(&mut self, trigger: &Trigger, inside: usize, rows: &[Row<'_>]) -> Result<Vec<bool>> {
        let Some(condition) = &trigger.condition else { return Ok(vec![true; rows.len()]) };
        let mut sql = format!("SELECT {}", condition.sql);
        let mut parameters = Parameters::default();
        if trigger.is_of_row() {
            self.session().refuse_users_code_of(trigger.row.oid).await?;
            let of = &trigger.row.name;
            let row = |name: &str, at: usize| {
                format!(", LATERAL pg_catalog.unnest(ARRAY[(CAST(${at} AS {of}[]))[loxo_n]]) AS {name}")
            };
            sql.push_str(&format!(" FROM pg_catalog.generate_series(1, {}) AS loxo_n", rows.len()));
            sql.push_str(&[row("old", 1), row("new", 2), " ORDER BY loxo_n".to_owned()].concat());
            let (old, new) = (rows.iter().map(|row| row.0), rows.iter().map(|row| row.1));
            let values = vec![Some(array_text(old)), Some(array_text(new))];
            parameters = Parameters { types: vec![0; 2], formats: vec![0; 2], values };
        }
        let call = Call { parameters: Some(Arc::new(parameters)), describe: true, ..Call::default() };
        let in_trigger = planner::in_trigger(&sql, self.routines().trigger_depth + inside, &[])?;
        let sql = in_trigger.map_or(sql, |one| one.sql);
        let (_, (_, found)) = self.captured(&sql, &call).await.map_err(|error| error.without(field::POSITION))?;
        let mut holds: Vec<bool> =
            found.iter().map(|row| row.first().and_then(Option::as_deref) == Some(b"t")).collect();
        // Without rows in it the condition is evaluated once.
        holds.resize(rows.len(), !trigger.is_of_row() && holds == [true]);
        Ok(holds)
    }

    /// A trigger whose row goes on as the function returned it: BEFORE or INSTEAD OF … FOR EACH ROW.
    pub(super) async fn run_making(
        &mut self,
        trigger: &Trigger,
        mut trigger_event: TriggerEvent,
    ) -> Result<Option<Bytes>> {
        self.session().refuse_users_code_of(trigger.row.oid).await?;
        // Before the function's own search path is set.
        let rows = vec![trigger_event.old.take(), trigger_event.new.take()];
        let mut rows = self.kept(&trigger.row, rows).await?;
        (trigger_event.new, trigger_event.old) = (rows.pop().flatten(), rows.pop().flatten());
        let makes_row = trigger_event.new.is_some();
        let given = self.run_trigger(trigger, trigger_event).await?;
        match makes_row {
            true => Ok(self.sent(&trigger.row, vec![given]).await?.pop().flatten()),
            false => Ok(given),
        }
    }

    /// With rows as variables hold them; gives the row that the function returned in the same way.
    async fn run_trigger(&mut self, trigger: &Trigger, trigger_event: TriggerEvent) -> Result<Option<Bytes>> {
        let routine = trigger.routine(trigger_event, self.routines().context.clone());
        let before = self.set_for(&trigger.signature.settings).await?;
        let tables = trigger.transition_tables.at(self.routines().trigger_depth);
        let outer = std::mem::replace(&mut self.routines().transition_tables, tables.into_iter().flatten().collect());
        self.routines().trigger_depth += 1;
        let ended = self.enter(&routine, &trigger.body, trigger.signature.is_definer).await;
        self.routines().trigger_depth -= 1;
        self.routines().transition_tables = outer;
        let ended = ended?;
        self.set_for(&before).await?;
        Ok(ended.rows.into_iter().flatten().flatten().next())
    }

    pub(super) async fn trigger(&mut self, trigger_event: &TriggerEvent) -> Result<Trigger> {
        let quoted = [&trigger_event.schema, &trigger_event.table, &trigger_event.trigger]
            .map(|name| catalog::quote_literal(name));
        let [schema, table, name] = &quoted;
        let sql = format!(
            "SELECT t.tgfoid, p.proname, c.oid, c.reltype, t.tgtype, pg_catalog.encode(t.tgargs, 'hex'), \
             t.tgoldtable, t.tgnewtable, CASE WHEN t.tgqual IS NOT NULL THEN pg_catalog.pg_get_triggerdef(t.oid) END, \
             EXISTS (SELECT FROM pg_catalog.pg_trigger k WHERE k.tgrelid = t.tgrelid \
             AND k.tgname = 'loxo:' || t.tgname AND k.tgqual IS NOT NULL) \
             FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid \
             JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid \
             WHERE n.nspname = {schema} AND c.relname = {table} AND t.tgname = {name}"
        );
        let rows = self.asked(&planner::own_text(&sql)?).await?;
        let row = rows.into_iter().next().ok_or_else(|| {
            let message = format!("trigger \"{}\" of table \"{}\" is gone", trigger_event.trigger, trigger_event.table);
            PgError::new(SqlState::UNDEFINED_OBJECT, message)
        })?;
        let mut values = row.into_iter().map(|value| text(value.unwrap_or_default()));
        let mut next = || values.next().unwrap_or_default();
        let (function, function_name, relid, row_type) = (number(&next())?, next(), next(), number(&next())?);
        let (kind, arguments, old, new) = (number(&next())?, next(), next(), next());
        let (definition, nodes_evaluate) = (next(), next() == "t");
        let one = RoutineCall {
            function,
            name: function_name,
            is_volatile: true,
            is_bare: false,
            arguments: Vec::new(),
            wanted: Wanted::Nothing,
        };
        let signature = self.signature(&one).await?;
        signature.check_body(&one, self.session().keeps_snapshot())?;
        let row = self.find_type(row_type, -1).await?;
        let qualified =
            [&trigger_event.schema, &trigger_event.table].map(|name| catalog::quote_identifier(name)).join(".");
        Ok(Trigger {
            table: trigger_event.table.clone(),
            schema: trigger_event.schema.clone(),
            name: trigger_event.trigger.clone(),
            relid,
            kind,
            arguments: arguments_of(&arguments),
            transition_tables: TransitionTables { old, new },
            condition: if definition.is_empty() { None } else { planner::trigger_condition(&definition)? },
            nodes_evaluate,
            // Whatever the search path: the function may set one.
            row: Type { name: qualified, ..row },
            body: signature.body()?,
            signature,
        })
    }
}

/// What fires a trigger FOR EACH STATEMENT.
fn of_statement(one: &OfStatement) -> TriggerEvent {
    TriggerEvent {
        schema: one.schema.clone(),
        table: one.table.clone(),
        trigger: one.trigger.clone(),
        operation: one.operation.to_owned(),
        old: None,
        new: None,
    }
}

fn key(trigger_event: &TriggerEvent) -> [String; 3] {
    [&trigger_event.schema, &trigger_event.table, &trigger_event.trigger].map(String::clone)
}

/// PostgreSQL fires it as often as a foreign key's action runs, which nobody here counts.
fn reached(trigger_event: &TriggerEvent) -> PgError {
    let what = format!("trigger \"{}\" FOR EACH STATEMENT on table \"{}\"", trigger_event.trigger, trigger_event.table);
    PgError::unsupported(format!("{what}, reached by a foreign key,"))
        .hint("Change that table first, by its own statement.")
}

/// Nobody says whether the statement or a foreign key has changed the row.
fn reached_at_depth(trigger: &Trigger) -> PgError {
    let what = format!(
        "trigger \"{}\" on table \"{}\", whose WHEN depends on whether a foreign key",
        trigger.name, trigger.table
    );
    PgError::unsupported(format!("{what} has changed the row,"))
        .hint("Let the condition of WHEN begin with pg_trigger_depth() = 0 AND, or ask for the depth in the function.")
}

impl Trigger {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Does a row fire it outside of all triggers only, and is the rest of WHEN true of the rows that the nodes have captured?
    fn is_outermost(&self) -> bool {
        self.is_of_row()
            && self.nodes_evaluate
            && self.condition.as_ref().is_some_and(|condition| condition.is_outermost)
    }

    /// Has PostgreSQL evaluated WHEN, where it has fired the trigger?
    fn is_judged_by_nodes(&self) -> bool {
        self.is_of_row() && self.condition.as_ref().is_none_or(|condition| !condition.asks_depth)
    }

    fn is_of_row(&self) -> bool {
        self.kind & FOR_EACH_ROW != 0
    }

    fn routine(&self, trigger_event: TriggerEvent, callers: String) -> routine::Routine {
        let scalar = |name: &str, oid: u32, of: &str, value: Option<Bytes>| Parameter {
            name: Some(name.to_owned()),
            of: Type { oid, modifier: -1, name: of.to_owned(), fields: None, over: None },
            is_out: false,
            value,
            tableoid: None,
        };
        let is_of_view = self.kind & INSTEAD != 0;
        let row = |name: &str, value, table: &str| Parameter {
            name: Some(name.to_owned()),
            of: self.row.clone(),
            is_out: false,
            value,
            tableoid: (!is_of_view).then(|| Bytes::from(table.to_owned())),
        };
        // A row that is not stored yet is in no table.
        let table_of_new = if self.kind & BEFORE != 0 { "0" } else { self.relid.as_str() };
        let word = |name: &str, value: &str| scalar(name, TEXT, "text", Some(Bytes::from(value.to_owned())));
        let named = |name: &str, value: &str| scalar(name, NAME, "name", Some(Bytes::from(value.to_owned())));
        let level = if self.is_of_row() { "ROW" } else { "STATEMENT" };
        let when = match (self.kind & INSTEAD != 0, self.kind & BEFORE != 0) {
            (true, _) => "INSTEAD OF",
            (false, true) => "BEFORE",
            (false, false) => "AFTER",
        };
        let count = Bytes::from(self.arguments.len().to_string());
        let parameters = vec![
            row("new", trigger_event.new, table_of_new),
            row("old", trigger_event.old, &self.relid),
            named("tg_name", &self.name),
            word("tg_when", when),
            word("tg_level", level),
            word("tg_op", &trigger_event.operation),
            scalar("tg_relid", OID, "oid", Some(Bytes::from(self.relid.clone()))),
            named("tg_relname", &self.table),
            named("tg_table_name", &self.table),
            named("tg_table_schema", &self.schema),
            scalar("tg_nargs", INT4, "integer", Some(count)),
            scalar("tg_argv", TEXT_ARRAY, "text[]", self.argument_array()),
        ];
        routine::Routine { parameters, is_trigger: true, ..self.signature.routine(Vec::new(), false, callers) }
    }

    /// Counted from 0; NULL if there are none.
    fn argument_array(&self) -> Option<Bytes> {
        let last = self.arguments.len().checked_sub(1)?;
        let array = array_text(self.arguments.iter().map(|argument| Some(argument.as_slice())));
        Some([format!("[0:{last}]=").as_bytes(), &array].concat().into())
    }
}

fn number(text: &str) -> Result<u32> {
    text.parse().map_err(|_| PgError::internal(format!("\"{text}\" in pg_trigger is not a number")))
}

/// `tgargs` in hexadecimal: each argument ends with a zero byte.
fn arguments_of(hex: &str) -> Vec<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(0) as u8;
    let bytes: Vec<u8> =
        hex.as_bytes().chunks(2).map(|pair| pair.iter().fold(0, |sum, byte| sum << 4 | digit(*byte))).collect();
    bytes.split_inclusive(|byte| *byte == 0).map(|argument| argument[..argument.len() - 1].to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::arguments_of;

    #[test]
    fn arguments_are_cut_at_zero_bytes() {
        assert_eq!(arguments_of("61620000c3a900"), [b"ab".to_vec(), Vec::new(), "é".as_bytes().to_vec()]);
        assert!(arguments_of("").is_empty());
    }
}
