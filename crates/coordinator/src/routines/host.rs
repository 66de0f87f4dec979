//! The session behind a body.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use executor::{Call, Parameters};
use pgerror::{PgError, Result, SqlState};
use planner::{InTrigger, StatementKind};
use routine::{Answer, Host, Opening, Pending, Type, Typed};

use super::object_names::is_of_several;
use super::runner::Runner;
use super::types::KnownTypes;

/// A client whose session runs a body.
pub(super) struct BodyHost<'r> {
    pub(super) runner: &'r mut Runner,
    /// How many bodies are under way in each other, with this one.
    pub(super) depth: usize,
}

/// Command tags of statements after which types are what they were.
const CHANGES_NO_TYPES: [&str; 12] =
    ["SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "FETCH", "MOVE", "CLOSE", "SET", "LOCK", "EXPLAIN", "SAVEPOINT"];

/// Undone at once: PostgreSQL was only asked.
const ASKED: &str = "loxo_asked";

impl BodyHost<'_> {
    async fn run_text(&mut self, sql: &str, parameters: Vec<Typed>, context: String) -> Result<Answer> {
        // The time may have been up between two statements.
        self.runner.session().check_cancel()?;
        let call = call_with(self.parameters(sql, parameters).await?);
        let in_trigger = self.in_trigger(sql)?;
        let outside = std::mem::replace(&mut self.runner.routines().context, context);
        let captured = self.runner.captured(text_of(&in_trigger, sql), &call).await;
        self.runner.routines().context = outside;
        let (tag, (fields, rows)) = captured.map_err(|error| placed(&in_trigger, error))?;
        let given = fields.as_deref().unwrap_or_default();
        let refused = self.unfit_for_records(text_of(&in_trigger, sql), &call, given).await?;
        let columns: Option<Vec<(String, u32, i32)>> = fields.map(|fields| {
            let column = |field: pgproto::backend::Field| {
                (String::from_utf8_lossy(&field.name).into_owned(), field.type_oid, field.type_modifier)
            };
            fields.into_iter().map(column).collect()
        });
        if !CHANGES_NO_TYPES.contains(&tag.split(' ').next().unwrap_or_default()) {
            self.runner.routines().types = KnownTypes::default();
            self.runner.routines().values_renamed |= tag == "ALTER TYPE" && planner::renames_value(sql);
        }
        if tag == "DECLARE CURSOR" {
            // It may have the name of one that was asked about, and is closed.
            self.runner.routines().cursors_for_records.clear();
        }
        let rows = self.kept_rows(columns.as_deref().unwrap_or_default(), rows).await?;
        Ok(Answer { columns, rows, tag, refused })
    }

    /// Why what a statement gives may not be kept in a record, by the types that it is described with, if so. A cursor of a body was asked
    /// about when it was opened; of another nobody knows what it gives.
    async fn unfit_for_records(
        &mut self,
        sql: &str,
        call: &Call,
        fields: &[pgproto::backend::Field],
    ) -> Result<Option<PgError>> {
        if fields.is_empty() || !self.runner.session().has_domain_that_calls().await? {
            return Ok(None);
        }
        let statements = planner::parse(sql)?;
        let kept = match statements.as_slice() {
            [one] => match &one.kind {
                StatementKind::Fetch(fetch) if self.runner.routines().cursors_for_records.contains(&fetch.cursor) => {
                    return Ok(None);
                }
                kind if matches!(kind, StatementKind::Select) || kind.row_command().is_some() => {
                    self.runner.session().refuse_users_code_given(sql, call, fields).await
                }
                StatementKind::Fetch(_) | StatementKind::Execute { .. } | StatementKind::Call => {
                    self.runner.session().refuse_users_code_hidden(fields).await
                }
                _ => return Ok(None),
            },
            _ => self.runner.session().refuse_users_code_hidden(fields).await,
        };
        match kept {
            Ok(()) => Ok(None),
            Err(error) if error.code() == SqlState::FEATURE_NOT_SUPPORTED => Ok(Some(error)),
            Err(error) => Err(error),
        }
    }

    /// With names for the ids of objects, unless the home node evaluates them by itself. Those without a type are named in a cast,
    /// and are ready.
    async fn parameters(&mut self, sql: &str, mut parameters: Vec<Typed>) -> Result<Vec<Typed>> {
        for typed in parameters.iter().filter(|typed| typed.value.is_some()) {
            self.check_values(typed.oid)?;
        }
        let mut have_names = false;
        for typed in parameters.iter().filter(|typed| typed.oid != 0 && typed.value.is_some()) {
            let has_names = self.runner.has_names(typed.oid).await;
            have_names |= self.runner.session().judged(has_names).await?;
        }
        if !have_names || self.is_for_home(sql).await? {
            return Ok(parameters);
        }
        for typed in &mut parameters {
            if typed.oid != 0 && typed.value.is_some() {
                typed.value = self.as_sent(typed.clone()).await?;
            }
        }
        Ok(parameters)
    }

    /// Is it an expression of what PostgreSQL has by itself?
    async fn is_for_home(&mut self, sql: &str) -> Result<bool> {
        if !planner::references(sql).is_ok_and(|references| references.is_plain) {
            return Ok(false);
        }
        let loaded = self.runner.session().catalog().await?;
        let statements = planner::parse(sql)?;
        let is_of_home = |statement: &planner::Statement| {
            matches!(statement.kind, StatementKind::Select) && statement.is_plain(&loaded.catalog)
        };
        Ok(statements.iter().all(is_of_home))
    }

    /// With the ids of objects for their names.
    async fn kept_rows(
        &mut self,
        columns: &[(String, u32, i32)],
        mut rows: Vec<Vec<Option<Bytes>>>,
    ) -> Result<Vec<Vec<Option<Bytes>>>> {
        for (at, (_, oid, modifier)) in columns.iter().enumerate() {
            let values = || rows.iter().map(|row| row.get(at).cloned().flatten());
            if values().all(|value| value.is_none()) {
                continue;
            }
            let has_names = self.runner.has_names(*oid).await;
            if !self.runner.session().judged(has_names).await? {
                continue;
            }
            let values = values().collect();
            let of = self.runner.find_type(*oid, *modifier).await?;
            let kept = self.runner.kept(&of, values).await;
            let kept = self.runner.session().judged(kept).await?;
            for (row, value) in rows.iter_mut().zip(kept) {
                row.get_mut(at).into_iter().for_each(|place| place.clone_from(&value));
            }
        }
        Ok(rows)
    }

    /// Variables hold the names of values of enum types.
    fn check_values(&mut self, oid: u32) -> Result<()> {
        match oid >= catalog::FIRST_USER_OID && self.runner.routines().values_renamed {
            false => Ok(()),
            true => Err(PgError::unsupported(
                "a variable of a type of the user's after ALTER TYPE … RENAME VALUE in the same body or one it calls",
            )
            .hint("Rename the value in a statement of its own.")),
        }
    }

    async fn as_kept(&mut self, typed: Typed) -> Result<Option<Bytes>> {
        let of = self.runner.find_type(typed.oid, typed.modifier).await?;
        let kept = self.runner.kept_within(&of, vec![typed.value]).await;
        Ok(self.runner.session().judged(kept).await?.pop().flatten())
    }

    async fn as_sent(&mut self, typed: Typed) -> Result<Option<Bytes>> {
        self.check_values(typed.oid)?;
        let has_names = self.runner.has_names(typed.oid).await;
        if !self.runner.session().judged(has_names).await? {
            return Ok(typed.value);
        }
        let of = self.runner.find_type(typed.oid, typed.modifier).await?;
        let sent = self.runner.sent(&of, vec![typed.value]).await;
        Ok(self.runner.session().judged(sent).await?.pop().flatten())
    }

    /// The statement as the nodes get it, if the body is that of a trigger or called by one, and the text is another then.
    fn in_trigger(&mut self, sql: &str) -> Result<Option<InTrigger>> {
        let routines = self.runner.routines();
        match routines.trigger_depth {
            0 => Ok(None),
            depth => planner::in_trigger(sql, depth, &routines.transition_tables),
        }
    }

    async fn ask_about(&mut self, sql: &str, types: &[u32]) -> Result<()> {
        let in_trigger = self.in_trigger(sql)?;
        self.runner.session().savepoint(ASKED).await?;
        let described = self.runner.session().describe(text_of(&in_trigger, sql), types).await;
        self.runner.session().rollback_to(ASKED).await?;
        self.runner.session().release_savepoint(ASKED).await?;
        described.map(drop).map_err(|error| placed(&in_trigger, error))
    }

    async fn names_in(&mut self, sql: &str) -> Result<Option<HashSet<String>>> {
        let in_trigger = self.in_trigger(sql)?;
        self.runner.session().names_in_from(text_of(&in_trigger, sql)).await
    }

    async fn roll_back_to(&mut self, savepoint: &str) -> Result<()> {
        self.runner.session().fail();
        self.runner.session().release();
        self.runner.session().rollback_to(savepoint).await?;
        self.runner.forget_lost_cursors().await?;
        self.runner.session().release_savepoint(savepoint).await
    }

    async fn end(&mut self, commit: bool, chain: bool) -> Result<()> {
        let kind = match commit {
            true => planner::parse::Transaction::Commit { chain },
            false => planner::parse::Transaction::Rollback { chain },
        };
        self.runner.transaction(&kind).await?;
        if !self.runner.session().in_block() {
            self.runner.session().begin(None, "", None);
        }
        self.runner.session().widen_for_body().await
    }

    async fn open_cursor(&mut self, opening: Opening) -> Result<String> {
        let name = match opening.name {
            Some(name) => name,
            None => {
                self.runner.routines().portals += 1;
                format!("<unnamed portal {}>", self.runner.routines().portals)
            }
        };
        let scroll = match opening.scroll {
            Some(true) => "SCROLL ",
            Some(false) => "NO SCROLL ",
            None => "",
        };
        let quoted = catalog::quote_identifier(&name);
        let in_trigger = self.in_trigger(&opening.sql)?;
        let sql = format!("DECLARE {quoted} {scroll}CURSOR FOR {}", text_of(&in_trigger, &opening.sql));
        let statements = planner::parse(&sql)?;
        let Some((statement, StatementKind::DeclareCursor(declare))) =
            statements.first().map(|statement| (statement, &statement.kind))
        else {
            return Err(PgError::new(state(b"42P11"), "cannot open this query as cursor"));
        };
        let call = call_with(self.parameters(&opening.sql, opening.parameters).await?);
        if self.runner.session().has_domain_that_calls().await? {
            let types = call.parameters.as_ref().map(|parameters| parameters.types.clone()).unwrap_or_default();
            let query = text_of(&in_trigger, &opening.sql);
            let given = self.runner.session().describe(query, &types).await;
            let given = given.map_err(|error| placed(&in_trigger, error))?.fields.unwrap_or_default();
            self.unfit_for_records(query, &call, &given).await?.map_or(Ok(()), Err)?;
        }
        match self.runner.declare_cursor(declare, statement, &Call { describe: false, ..call }).await {
            Ok(_) => {
                self.note_cursor(&name, text_of(&in_trigger, &opening.sql));
                self.runner.routines().cursors_for_records.push(name.clone());
                Ok(name)
            }
            Err(error) if error.code() == SqlState::DUPLICATE_CURSOR => {
                Err(PgError::new(SqlState::DUPLICATE_CURSOR, format!("cursor \"{name}\" already in use")))
            }
            Err(error) => Err(placed(&in_trigger, error)),
        }
    }

    /// One over transition tables ends with them.
    fn note_cursor(&mut self, name: &str, query: &str) {
        let routines = self.runner.routines();
        routines.cursors_over.retain(|open| open != name);
        if routines.transition_tables.iter().any(|table| query.contains(&table.table)) {
            routines.cursors_over.push(name.to_owned());
        }
    }
}

fn text_of<'s>(in_trigger: &'s Option<InTrigger>, sql: &'s str) -> &'s str {
    in_trigger.as_ref().map_or(sql, |one| &one.sql)
}

fn placed(in_trigger: &Option<InTrigger>, error: PgError) -> PgError {
    match in_trigger {
        Some(one) => one.placed(error),
        None => error,
    }
}

fn state(code: &[u8; 5]) -> SqlState {
    SqlState::from_bytes(code).unwrap_or(SqlState::INTERNAL_ERROR)
}

fn call_with(parameters: Vec<Typed>) -> Call {
    if parameters.is_empty() {
        return Call::simple();
    }
    let types = parameters.iter().map(|typed| typed.oid).collect();
    let values = parameters.into_iter().map(|typed| typed.value).collect();
    let parameters = Parameters { types, formats: Vec::new(), values };
    Call { parameters: Some(Arc::new(parameters)), describe: true, ..Call::default() }
}

impl Host for BodyHost<'_> {
    fn run<'a>(&'a mut self, sql: &'a str, parameters: Vec<Typed>, context: String) -> Pending<'a, Answer> {
        Box::pin(self.run_text(sql, parameters, context))
    }

    fn printed(&mut self, typed: Typed) -> Pending<'_, Option<Bytes>> {
        Box::pin(async move {
            if typed.value.is_some() {
                self.check_values(typed.oid)?;
            }
            let has_names = typed.value.is_some() && self.runner.has_names(typed.oid).await?;
            match typed.value {
                Some(value) if is_of_several(typed.oid, &value) => Ok(Some(value)),
                Some(value) if has_names || !self.runner.session().prints_exactly().await? => {
                    let of = self.runner.named(typed.oid).await?;
                    self.runner.session().as_set(of, value).await.map(Some)
                }
                value => Ok(value),
            }
        })
    }

    fn kept(&mut self, typed: Typed) -> Pending<'_, Option<Bytes>> {
        Box::pin(self.as_kept(typed))
    }

    fn sent(&mut self, typed: Typed) -> Pending<'_, Option<Bytes>> {
        Box::pin(self.as_sent(typed))
    }

    fn ask(&mut self, sql: String) -> Pending<'_, Vec<Vec<Option<Bytes>>>> {
        Box::pin(async move {
            let asked = self.runner.asked(&sql).await;
            self.runner.session().judged(asked).await
        })
    }

    fn may_make(&mut self, oid: u32) -> Pending<'_, ()> {
        Box::pin(self.runner.session().refuse_users_code_of(oid))
    }

    fn analyse<'a>(&'a mut self, sql: &'a str, types: Vec<u32>) -> Pending<'a, ()> {
        Box::pin(async move { self.ask_about(sql, &types).await })
    }

    fn names_in_from<'a>(&'a mut self, sql: &'a str) -> Pending<'a, Option<HashSet<String>>> {
        Box::pin(self.names_in(sql))
    }

    fn type_of<'a>(&'a mut self, expression: &'a str) -> Pending<'a, Type> {
        Box::pin(self.runner.find_type_of(expression))
    }

    fn type_with(&mut self, oid: u32, modifier: i32) -> Pending<'_, Type> {
        Box::pin(self.runner.find_type(oid, modifier))
    }

    fn has_cast(&mut self, from: u32, to: u32) -> Pending<'_, bool> {
        Box::pin(self.runner.find_cast(from, to))
    }

    fn pause(&mut self) -> Pending<'_, ()> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            self.runner.session().check_cancel()
        })
    }

    fn notice(&mut self, notice: PgError) {
        self.runner.session().notice(&notice);
        self.runner.send_notices();
    }

    fn savepoint<'a>(&'a mut self, name: &'a str) -> Pending<'a, ()> {
        Box::pin(self.runner.session().savepoint(name))
    }

    fn cancel_caught<'a>(&'a mut self, error: &'a PgError) -> Pending<'a, ()> {
        Box::pin(async move {
            self.runner.session().cancel_caught(error).await;
            Ok(())
        })
    }

    fn undo<'a>(&'a mut self, savepoint: &'a str) -> Pending<'a, ()> {
        Box::pin(self.roll_back_to(savepoint))
    }

    fn release<'a>(&'a mut self, savepoint: &'a str) -> Pending<'a, ()> {
        Box::pin(self.runner.session().release_savepoint(savepoint))
    }

    fn end_transaction(&mut self, commit: bool, chain: bool) -> Pending<'_, ()> {
        Box::pin(self.end(commit, chain))
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn call_targets<'a>(&'a mut self, call: &'a str) -> Pending<'a, Vec<Option<Vec<String>>>> {
        Box::pin(async move {
            let loaded = self.runner.session().catalog().await?;
            planner::call_targets(call, &loaded.catalog)
        })
    }

    fn calls(&mut self, may_end: bool) {
        self.runner.routines().call_may_end = may_end;
    }

    fn names_bound_cursors(&mut self) -> Pending<'_, bool> {
        Box::pin(async move { Ok(self.runner.session().catalog().await?.catalog.server_version() < 160_000) })
    }

    fn open(&mut self, opening: Opening) -> Pending<'_, String> {
        Box::pin(self.open_cursor(opening))
    }

    fn stands_on(&mut self, cursor: &str, row: usize) {
        self.runner.cursor_stands_on(cursor, row);
    }
}
