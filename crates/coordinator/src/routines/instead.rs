//! Changes of views with INSTEAD OF triggers: see [`planner::Instead`].

use std::sync::Arc;

use bytes::Bytes;
use executor::{Call, TriggerEvent};
use pgerror::{PgError, Result, field};
use planner::{Instead, MadeRows, Statement};
use routine::array_text;

use super::parameters::own_parameters;
use super::runner::Runner;
use super::triggers::Trigger;

impl Runner {
    /// Runs the triggers for each row; gives RETURNING, if there is one, and the command tag.
    pub(super) async fn instead(
        &mut self,
        change: &Instead,
        statement: &Statement,
        call: &Call,
    ) -> Result<(Option<(Statement, Call)>, String)> {
        let call = &self.with_types(statement, call).await?;
        // PostgreSQL checks rights on the view when the statement is about to run, and so for EXPLAIN.
        self.may_run(&statement.sql, call).await?;
        let rows = self.rows_of_change(&change.rows, call).await?;
        let mut triggers = Vec::with_capacity(change.triggers.len());
        for name in &change.triggers {
            triggers.push(self.trigger(&trigger_event(change, name, None, None)).await?);
        }
        let mut changed = Vec::new();
        for mut row in rows {
            let (new, old) = (row.pop().flatten(), row.pop().flatten());
            let is_delete = change.operation == "DELETE";
            let old = old.filter(|_| change.operation != "INSERT");
            let given = self.run_each(change, &triggers, old.clone(), new.filter(|_| !is_delete)).await?;
            changed.extend(given.map(|given| if is_delete { old } else { Some(given) }));
        }
        let count = changed.len();
        let tag = match change.operation {
            "INSERT" => format!("INSERT 0 {count}"),
            other => format!("{other} {count}"),
        };
        let Some(clause) = &change.returning else { return Ok((None, tag)) };
        Ok((Some(returning(clause, change.parameters, &changed, call)?), tag))
    }

    /// OLD and NEW of each row. The table is gone when the triggers run, which may change such a view themselves.
    pub(super) async fn rows_of_change(&mut self, rows: &MadeRows, call: &Call) -> Result<Vec<Vec<Option<Bytes>>>> {
        self.session().create_temp_at_home(&rows.table, &rows.definitions).await?;
        self.session().keep_temp_objects();
        let filling = Call { describe: true, result_formats: Vec::new(), ..call.clone() };
        self.captured(&rows.fill, &filling).await.map_err(|error| error.without(field::POSITION))?;
        let (_, (_, made)) = self.captured(&rows.read, &Call::simple()).await?;
        self.asked(&rows.drop).await?;
        self.session().keep_temp_objects();
        Ok(made)
    }

    /// The triggers one after the other, each with the row that the one before it gave; `None` if one gave none.
    async fn run_each(
        &mut self,
        change: &Instead,
        triggers: &[Trigger],
        old: Option<Bytes>,
        mut new: Option<Bytes>,
    ) -> Result<Option<Bytes>> {
        let mut given = None;
        for trigger in triggers {
            given = self.run_making(trigger, trigger_event(change, trigger.name(), old.clone(), new)).await?;
            let Some(row) = &given else { return Ok(None) };
            new = (change.operation != "DELETE").then(|| row.clone());
        }
        Ok(given)
    }
}

/// RETURNING over these rows.
pub(super) fn returning(
    sql: &str,
    parameters: usize,
    rows: &[Option<Bytes>],
    call: &Call,
) -> Result<(Statement, Call)> {
    let mut parameters = own_parameters(call, parameters);
    parameters.types.push(0);
    parameters.formats.push(0);
    parameters.values.push(Some(array_text(rows.iter().map(Option::as_deref))));
    let rest = planner::parse(sql)?.into_iter().next();
    let rest = rest.ok_or_else(|| PgError::internal("RETURNING is lost"))?;
    let call = Call { parameters: Some(Arc::new(parameters)), one_off: true, ..call.clone() };
    Ok((rest, call))
}

fn trigger_event(change: &Instead, trigger: &str, old: Option<Bytes>, new: Option<Bytes>) -> TriggerEvent {
    TriggerEvent {
        schema: change.schema.clone(),
        table: change.view.clone(),
        trigger: trigger.to_owned(),
        operation: change.operation.to_owned(),
        old,
        new,
    }
}
