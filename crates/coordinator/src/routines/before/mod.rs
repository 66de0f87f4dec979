//! Changes of tables with triggers BEFORE … FOR EACH ROW: see [`planner::BeforeRows`].

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use catalog::quote_identifier;
use executor::{Call, Completion, Parameters, Spool, TriggerEvent};
use pgerror::{PgError, Result, SqlState, field};
use planner::{BeforeRows, Conflict, Plan, Routine, Statement};
use routine::{Pending, array_text};

use self::checks::{
    Beside, alike, beside_triggers, changed_meanwhile, check_different, check_one_by_one, check_order, columns_to_set,
    distinct, hidden, in_order, key_of, met_twice,
};
use super::captured::text;
use super::parameters::own_parameters;
use super::runner::Runner;
use super::triggers::Trigger;

mod checks;
mod once;

/// How often a row that is met may be gone when it is to be updated.
const TRIES_MAX: usize = 100;
/// After so many tries a row that is met and not seen is hidden by a policy, and not gone each time.
const HIDDEN_MISSES: usize = 3;

/// OLD and NEW.
type Row = (Option<Bytes>, Option<Bytes>);

/// What has been stored so far.
#[derive(Default)]
struct Stored {
    count: u64,
    /// The rows, if RETURNING asks for them.
    rows: Vec<Option<Bytes>>,
    /// What triggers AFTER they fire.
    trigger_events: Vec<TriggerEvent>,
}

/// The way of the rows of one statement.
struct Passage {
    triggers: Vec<Trigger>,
    /// Those of DO UPDATE.
    of_update: Vec<Trigger>,
    beside: Vec<Beside>,
    /// The user's parameters.
    own: Parameters,
    stored: Stored,
    /// There is more than one row.
    are_several: bool,
    /// Keys of rows that ON CONFLICT has inserted or updated.
    met: HashSet<Vec<Option<Bytes>>>,
}

impl Runner {
    /// Makes the rows, runs the triggers for each, and stores what came of it; gives RETURNING, if there is one, and the
    /// command tag.
    pub(super) async fn before_rows(
        &mut self,
        change: &BeforeRows,
        statement: &Statement,
        call: &Call,
    ) -> Result<(Option<(Statement, Call)>, String)> {
        // What is made of the statement need not mention all parameters.
        let call = &self.with_types(statement, call).await?;
        self.session().may_change(change.command)?;
        if change.command != "COPY" {
            self.may_run(&statement.sql, call).await?;
        }
        let validity = self.session().plan_validity();
        self.fire_before(&change.before, statement, validity).await?;
        let rows = self.rows_of_change(&change.rows, call).await?;
        let stored = self.pass(change, rows, call).await?;
        let Stored { count, rows, trigger_events } = stored;
        self.captured_rows(&change.before, &change.after, trigger_events).await?;
        let tag = match change.command {
            "INSERT" => format!("INSERT 0 {count}"),
            other => format!("{other} {count}"),
        };
        let Some(returning) = &change.returning else { return Ok((None, tag)) };
        Ok((Some(super::instead::returning(returning, change.parameters, &rows, call)?), tag))
    }

    /// The rows pass the triggers and are stored.
    async fn pass(&mut self, change: &BeforeRows, rows: Vec<Vec<Option<Bytes>>>, call: &Call) -> Result<Stored> {
        let mut passage = self.passage(change, call).await?;
        let rows = distinct(change, rows)?;
        passage.are_several = rows.len() > 1;
        if change.one_by_one && passage.are_several {
            check_one_by_one(change, &passage.beside)?;
            check_different(change, &rows)?;
        }
        let mut waiting = Vec::new();
        for (old, new) in rows {
            self.session().check_cancel()?;
            let Some(row) = self.run_before(change, &passage.triggers, old, new).await? else { continue };
            match &change.conflict {
                Some(conflict) => self.insert_or_update(change, conflict, row, &mut passage).await?,
                None if change.one_by_one => self.store(change, vec![row], &mut passage).await.map(drop)?,
                None => waiting.push(row),
            }
        }
        let fires_without_rows = passage.beside.iter().any(|other| other.is_of_statement());
        if !waiting.is_empty() || fires_without_rows && passage.stored.count == 0 {
            self.store(change, waiting, &mut passage).await?;
        }
        Ok(passage.stored)
    }

    async fn passage(&mut self, change: &BeforeRows, call: &Call) -> Result<Passage> {
        let beside = self.beside(change).await?;
        check_order(change, &beside)?;
        let triggers = self.triggers(change).await?;
        let mut of_update = Vec::new();
        if let Some(conflict) = &change.conflict {
            check_order(&conflict.update, &beside)?;
            of_update = self.triggers(&conflict.update).await?;
        }
        let own = match change.operation {
            "INSERT" => own_parameters(call, change.parameters),
            _ => Parameters::default(),
        };
        Ok(Passage {
            triggers,
            of_update,
            beside,
            own,
            stored: Stored::default(),
            are_several: false,
            met: HashSet::new(),
        })
    }

    async fn triggers(&mut self, change: &BeforeRows) -> Result<Vec<Trigger>> {
        let mut triggers = Vec::with_capacity(change.triggers.len());
        for name in &change.triggers {
            triggers.push(self.trigger(&trigger_event(change, name, None, None)).await?);
        }
        Ok(triggers)
    }

    /// Inserts a row, or updates the one that it meets.
    async fn insert_or_update(
        &mut self,
        change: &BeforeRows,
        conflict: &Conflict,
        row: Row,
        passage: &mut Passage,
    ) -> Result<()> {
        let proposed = array_text(std::iter::once(row.1.as_deref()));
        let mut misses = 0;
        for _ in 0..TRIES_MAX {
            let inserted = self.store(change, vec![row.clone()], passage).await?;
            if let Some(inserted) = inserted.first() {
                passage.met.insert(key_of(conflict, inserted)?);
                return Ok(());
            }
            let mut own = passage.own.clone();
            add(&mut own, proposed.clone());
            let call = Call { parameters: Some(Arc::new(own)), ..Call::default() };
            let mut there = self.rows_of_change(&conflict.update.rows, &call).await?;
            let Some(mut there) = there.pop() else {
                misses += 1;
                let may_be_hidden = conflict.is_conditional || misses == HIDDEN_MISSES;
                if may_be_hidden && self.is_hidden(change, conflict, &proposed).await? {
                    return Err(hidden(change, conflict));
                }
                match conflict.is_conditional {
                    true => return Ok(()),
                    // Another session has just removed it.
                    false => continue,
                }
            };
            let (new, old) = (there.pop().flatten(), there.pop().flatten());
            if passage.met.contains(&key_of(conflict, &old)?) {
                return Err(met_twice());
            }
            let Some(row) = self.run_before(&conflict.update, &passage.of_update, old, new).await? else {
                return Ok(());
            };
            passage.met.extend([key_of(conflict, &row.0)?, key_of(conflict, &row.1)?]);
            let own = std::mem::take(&mut passage.own);
            let updated = self.store(&conflict.update, vec![row], passage).await;
            passage.own = own;
            return updated.map(drop);
        }
        Err(PgError::new(SqlState::SERIALIZATION_FAILURE, "could not serialize access due to concurrent update"))
    }

    /// Does a policy keep the user from seeing a row that meets the proposed one?
    async fn is_hidden(&mut self, change: &BeforeRows, conflict: &Conflict, proposed: &Bytes) -> Result<bool> {
        if !change.table.is_barrier {
            return Ok(false);
        }
        let table = change.table.qualified_name();
        let name = catalog::quote_literal(&table);
        let rows = self.asked(&format!("SELECT pg_catalog.row_security_active({name})")).await?;
        if rows.first().and_then(|row| row.first()?.as_deref()) != Some(b"t") {
            return Ok(false);
        }
        let equal = |column: &String| {
            let column = quote_identifier(column);
            format!("a.{column} = r.{column}")
        };
        let keys: Vec<String> = conflict.columns.iter().map(equal).collect();
        let seen = format!(
            "SELECT 1 FROM {table} AS a, pg_catalog.unnest(CAST($1 AS {table}[])) AS r WHERE {}",
            keys.join(" AND ")
        );
        let mut parameters = Parameters::default();
        add(&mut parameters, proposed.clone());
        let call = Call { parameters: Some(Arc::new(parameters)), one_off: true, ..Call::default() };
        let (_, (_, rows)) = self.captured(&seen, &call).await?;
        Ok(rows.is_empty())
    }

    /// The triggers one after the other, each with the row that the one before it gave; `None` if one gave none.
    async fn run_before(
        &mut self,
        change: &BeforeRows,
        triggers: &[Trigger],
        old: Option<Bytes>,
        mut new: Option<Bytes>,
    ) -> Result<Option<Row>> {
        for trigger in triggers {
            if self.when_holds(trigger, &[(old.as_deref(), new.as_deref())]).await? != [true] {
                continue;
            }
            let trigger_event = trigger_event(change, trigger.name(), old.clone(), new.clone());
            let Some(row) = self.run_making(trigger, trigger_event).await? else { return Ok(None) };
            new = new.is_some().then_some(row);
        }
        Ok(Some((old, new)))
    }

    /// Gives the rows as they are stored, if the change asks for them.
    async fn store(
        &mut self,
        change: &BeforeRows,
        rows: Vec<Row>,
        passage: &mut Passage,
    ) -> Result<Vec<Option<Bytes>>> {
        let set = columns_to_set(change, &rows, &passage.beside)?;
        let expected = rows.len() as u64;
        let rows = alike(change, rows)?;
        let mut parameters = passage.own.clone();
        let old = || array_text(rows.iter().map(|(old, _)| old.as_deref()));
        let new = || array_text(rows.iter().map(|(_, new)| new.as_deref()));
        match change.operation {
            "UPDATE" => [old(), new()].into_iter().for_each(|array| add(&mut parameters, array)),
            "DELETE" => add(&mut parameters, old()),
            _ => add(&mut parameters, new()),
        }
        if change.by_text() {
            add(&mut parameters, old());
        }
        let statement = planner::parse(&change.store(&set))?.into_iter().next();
        let statement = statement.ok_or_else(|| PgError::internal("nothing stores the rows"))?.storing_rows();
        let call = Call { parameters: Some(Arc::new(parameters)), describe: true, one_off: true, ..Call::default() };
        self.session().let_rows(&change.table, true).await?;
        let before = self.rows_into(Some(Spool::default().described()));
        let ended = self.stored(&statement, &call).await;
        let spool = self.rows_into(before).unwrap_or_default();
        let ended = ended.map_err(|error| error.without(field::POSITION));
        let (tag, trigger_events) = ended.map_err(|error| in_order(change, passage, error))?;
        self.session().let_rows(&change.table, false).await?;
        let count = tag.rsplit(' ').next().and_then(|count| count.parse::<u64>().ok());
        let count = count.ok_or_else(|| PgError::internal(format!("rows were stored by {tag}")))?;
        let are_skipped = passage.beside.iter().any(Beside::is_before_row);
        if change.operation != "INSERT" && !are_skipped && count < expected {
            return Err(changed_meanwhile(change.operation));
        }
        if change.by_text() && count > expected {
            return Err(PgError::new(
                SqlState::SERIALIZATION_FAILURE,
                "could not serialize access due to concurrent update",
            ));
        }
        let given: Vec<Option<Bytes>> =
            spool.into_rows()?.1.into_iter().filter_map(|row| row.into_iter().next()).collect();
        let stored = &mut passage.stored;
        stored.count += count;
        stored.trigger_events.extend(trigger_events);
        if change.returning.is_some() {
            stored.rows.extend(given.iter().cloned());
        }
        Ok(given)
    }

    /// Runs what stores rows; gives its command tag, and which triggers AFTER it has fired.
    fn stored<'s>(&'s mut self, statement: &'s Statement, call: &'s Call) -> Pending<'s, (String, Vec<TriggerEvent>)> {
        Box::pin(async move {
            let result = self.stored_unguarded(statement, call).await;
            let result = self.session().judged(result).await;
            self.after_statement(result.is_err()).await;
            result
        })
    }

    async fn stored_unguarded(&mut self, statement: &Statement, call: &Call) -> Result<(String, Vec<TriggerEvent>)> {
        let (plan, movable) = match self.session().plan(statement, call, None).await? {
            Plan::Routine(routine) => match *routine {
                Routine::TriggeredDml(change) => (change.plan, change.movable),
                _ => return Err(beside_triggers("what stores the rows calls functions")),
            },
            plan => (plan, Vec::new()),
        };
        self.session().lock_movable(&movable).await?;
        let done = Box::pin(self.run_plan(&plan, statement, call, None)).await?;
        self.session().follow_keys(&movable).await?;
        let trigger_events = self.session().take_trigger_events().await?;
        match done {
            Completion::Tag(tag) => Ok((tag, trigger_events)),
            Completion::Empty => Ok((String::new(), trigger_events)),
        }
    }

    /// The triggers of the table that the nodes run.
    async fn beside(&mut self, change: &BeforeRows) -> Result<Vec<Beside>> {
        let [schema, table] = [&change.table.schema, &change.table.name].map(|name| catalog::quote_literal(name));
        let sql = format!(
            "SELECT t.tgname, t.tgtype, t.tgattr FROM pg_catalog.pg_trigger t \
             JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
             WHERE n.nspname = {schema} AND c.relname = {table} AND NOT t.tgisinternal AND t.tgenabled <> 'D' \
             AND t.tgfoid NOT IN ('loxo.capture()'::pg_catalog.regprocedure, 'loxo.tell_row()'::pg_catalog.regprocedure)"
        );
        let rows = self.asked(&planner::own_text(&sql)?).await?;
        let beside = rows.into_iter().map(|row| {
            let mut values = row.into_iter().map(|value| text(value.unwrap_or_default()));
            let mut next = || values.next().unwrap_or_default();
            let (name, kind, columns) = (next(), next(), next());
            let columns: Option<Vec<i16>> = columns.split_whitespace().map(|number| number.parse().ok()).collect();
            Some(Beside { name, kind: kind.parse().ok()?, columns: columns? })
        });
        beside.collect::<Option<_>>().ok_or_else(|| PgError::internal("a trigger that is not described as expected"))
    }
}

/// An array whose type the text says.
fn add(parameters: &mut Parameters, array: Bytes) {
    parameters.types.push(0);
    parameters.formats.push(0);
    parameters.values.push(Some(array));
}

fn trigger_event(change: &BeforeRows, trigger: &str, old: Option<Bytes>, new: Option<Bytes>) -> TriggerEvent {
    TriggerEvent {
        schema: change.table.schema.clone(),
        table: change.table.name.clone(),
        trigger: trigger.to_owned(),
        operation: change.operation.to_owned(),
        old,
        new,
    }
}
