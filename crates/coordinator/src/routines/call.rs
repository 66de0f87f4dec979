//! One body with its arguments, a level deeper than its caller.

use std::sync::Arc;

use bytes::Bytes;
use executor::{Call, STATEMENT_TIMEOUT, Scope};
use pgerror::{PgError, Result, SqlState, field};
use planner::{Argument, RoutineCall};
use routine::{Ended, Pending};

use super::captured::text;
use super::host::BodyHost;
use super::runner::Runner;
use super::signature::{Signature, VOID};
use crate::stack;

/// Calls inside each other, if the stack is large enough.
const DEPTH_MAX: usize = 1000;
/// Most bytes of a thread's stack in use when a body is begun; it has 8 MiB, and in a body a statement needs some too.
const STACK_BYTES_MAX: usize = 4 << 20;

/// Where a routine is called from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
    /// A statement of the client's own that opened no transaction before, or CALL in the body of such a one: the body may end transactions.
    Alone,
    Inside,
}

impl Runner {
    /// DO, as this statement.
    pub(super) async fn block(&mut self, source: &str, statement: &str, caller: Caller) -> Result<()> {
        if let Some(text) = routine::compile_only(source)? {
            let quote = dollar_quote(&text);
            let compiled = self.asked(&format!("DO {quote}{text}{quote}")).await;
            let before = "DO ".len() + quote.len() + routine::BEFORE_COMPILED.len();
            compiled.map_err(|error| placed_in(statement, source, before, error))?;
        }
        let body = routine::body(source)?;
        let routine = routine::Routine {
            signature: "inline_code_block".to_owned(),
            name: "inline_code_block".to_owned(),
            parameters: Vec::new(),
            columns: Vec::new(),
            by_parameters: false,
            is_set: false,
            is_sql: false,
            is_atomic: caller == Caller::Inside,
            reads_only: false,
            is_trigger: false,
            callers: self.routines().context.clone(),
        };
        self.enter(&routine, &body, false).await.map(drop)
    }

    /// Runs a body, one level deeper.
    pub(super) fn enter<'s>(
        &'s mut self,
        routine: &'s routine::Routine,
        body: &'s routine::ast::Body,
        is_definer: bool,
    ) -> Pending<'s, Ended> {
        Box::pin(async move {
            if self.routines().depth >= DEPTH_MAX || stack::used() > STACK_BYTES_MAX {
                return Err(PgError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
                    .detail(format!("{} bodies are under way in each other.", self.routines().depth))
                    .hint("Use a loop instead of recursion."));
            }
            if self.routines().depth == 0 {
                self.routines().cursors_for_records.clear();
            }
            // What the nodes have told so far is no statement's of this body.
            self.send_notices();
            self.routines().depth += 1;
            let outside = std::mem::take(&mut self.routines().context);
            let tables = self.routines().transition_tables.clone();
            if !routine.is_trigger {
                // The trigger's function knows them, and what it calls does not.
                self.routines().transition_tables.clear();
            }
            let depth = self.routines().depth;
            let around = self.session().scope();
            let scope = Scope { is_body: true, is_definer: around.is_definer || is_definer };
            self.session().enter_scope(scope);
            let mut host = BodyHost { runner: self, depth };
            let ended = routine::run(&mut host, routine, body).await;
            self.session().enter_scope(around);
            self.routines().context = outside;
            self.routines().transition_tables = tables;
            debug_assert_eq!(self.routines().depth, depth, "bodies inside this one have ended");
            self.routines().depth -= 1;
            ended
        })
    }

    /// Runs the body of a function or procedure with its arguments.
    pub(super) fn called<'s>(
        &'s mut self,
        one: &'s RoutineCall,
        call: &'s Call,
        caller: Caller,
    ) -> Pending<'s, (Arc<Signature>, Ended)> {
        Box::pin(async move {
            let signature = self.known_signature(one).await?;
            signature.check(one, self.session().keeps_snapshot())?;
            for (_, of) in &signature.columns {
                self.session().refuse_users_code_of(of.oid).await?;
            }
            let values = self.arguments(&signature, &one.arguments, call).await?;
            if signature.is_strict && signature.has_null(&values) {
                let row = vec![None; signature.columns.len()];
                let rows = if signature.is_set { Vec::new() } else { vec![row] };
                return Ok((signature, Ended { rows }));
            }
            let body = signature.body()?;
            let mut routine = signature.routine(values, caller == Caller::Alone, self.routines().context.clone());
            let before = self.set_for(&signature.settings).await?;
            if !before.is_empty() {
                let sql = format!("SELECT {}::pg_catalog.regprocedure::pg_catalog.text", one.function);
                let rows = self.asked(&sql).await?;
                routine.signature = rows.into_iter().flatten().flatten().next().map_or_else(String::new, text);
            }
            let ended = self.enter(&routine, &body, signature.is_definer).await?;
            self.set_for(&before).await?;
            let ended = self.sent_rows(&signature, ended).await?;
            Ok((signature, ended))
        })
    }

    /// What a body gave, as a statement may have it.
    async fn sent_rows(&mut self, signature: &Signature, ended: Ended) -> Result<Ended> {
        let mut rows = ended.rows;
        for (at, (_, of)) in signature.columns.iter().enumerate() {
            if self.has_names(of.oid).await? {
                let values = rows.iter().map(|row| row.get(at).cloned().flatten()).collect();
                let sent = self.sent(of, values).await?;
                for (row, value) in rows.iter_mut().zip(sent) {
                    row.get_mut(at).into_iter().for_each(|place| place.clone_from(&value));
                }
            }
        }
        Ok(Ended { rows })
    }

    async fn known_signature(&mut self, one: &RoutineCall) -> Result<Arc<Signature>> {
        let known = self.routines().of_rows().and_then(|rows| rows.signatures.get(&one.function).cloned());
        if let Some(known) = known {
            return Ok(known);
        }
        let signature = Arc::new(self.signature(one).await?);
        if let Some(rows) = self.routines().of_rows() {
            rows.signatures.insert(one.function, signature.clone());
        }
        Ok(signature)
    }

    /// SET clauses of a function; gives what the settings were. After an error the transaction takes them back. A `statement_timeout` would
    /// count from the client's next statement on, when it is gone again.
    pub(super) async fn set_for(&mut self, settings: &[(String, String)]) -> Result<Vec<(String, String)>> {
        let mut before = Vec::with_capacity(settings.len());
        for (name, value) in settings.iter().filter(|(name, _)| name != STATEMENT_TIMEOUT) {
            let (name_text, value) = (catalog::quote_literal(name), catalog::quote_literal(value));
            let rows = self.asked(&format!("SELECT pg_catalog.current_setting({name_text})")).await?;
            let old = rows.into_iter().flatten().flatten().next().unwrap_or_default();
            before.push((name.clone(), text(old)));
            self.captured(&format!("SELECT pg_catalog.set_config({name_text}, {value}, true)"), &Call::simple())
                .await?;
        }
        Ok(before)
    }

    /// Arguments as texts of the parameters' types, in the order of the parameters.
    async fn arguments(
        &mut self,
        signature: &Signature,
        arguments: &[Argument],
        call: &Call,
    ) -> Result<Vec<Option<Bytes>>> {
        let given: Vec<Argument> =
            arguments.iter().filter(|argument| !is_void_parameter(&argument.sql, call)).cloned().collect();
        let expressions = signature.expressions(&given)?;
        if expressions.iter().all(Option::is_none) {
            return Ok(vec![None; expressions.len()]);
        }
        let list: Vec<&str> = expressions.iter().flatten().map(String::as_str).collect();
        if signature.types().any(|of| of.oid >= catalog::FIRST_USER_OID) {
            self.session().refuse_users_code_passed(&list.join(", "), call).await?;
        }
        let parameters = Some(call.parameters.clone().unwrap_or_default());
        let (_, (_, rows)) = self
            .captured(&format!("SELECT {}", list.join(", ")), &Call { parameters, describe: true, ..Call::default() })
            .await?;
        let given = rows.into_iter().next().unwrap_or_default().into_iter();
        let (mut values, mut given) = (Vec::with_capacity(expressions.len()), given);
        for (expression, of) in expressions.iter().zip(signature.types()) {
            let value = expression.as_ref().and_then(|_| given.next().flatten());
            // Before the function's own search path is set.
            values.push(self.kept(of, vec![value]).await?.pop().flatten());
        }
        Ok(values)
    }
}

/// `$…$`, which is not in the text.
fn dollar_quote(text: &str) -> String {
    let mut quotes = (0..).map(|number| format!("$loxo{number}$"));
    quotes.find(|quote| !text.contains(quote)).unwrap_or_default()
}

/// An error in the body of a statement, found so many characters further on than the body begins.
fn placed_in(statement: &str, body: &str, before: usize, error: PgError) -> PgError {
    let Ok(position) = error.text(field::POSITION).parse::<usize>() else { return error };
    // What follows the body is not the client's.
    let at = position.checked_sub(before + 1).map(|at| at.min(body.chars().count()));
    match at.and_then(|at| routine::place_in(statement, body, at)) {
        Some(place) => error.with(field::POSITION, (place + 1).to_string()),
        None => error.without(field::POSITION),
    }
}

/// A parameter of type void stands for what a function gives, and is no argument: the JDBC driver sends such ones
/// (`ParseFuncOrColumn` in PostgreSQL's `parse_func.c`).
fn is_void_parameter(sql: &str, call: &Call) -> bool {
    let number: Option<usize> = sql.strip_prefix('$').and_then(|number| number.parse().ok());
    let types = call.parameters.as_ref().map(|parameters| parameters.types.as_slice()).unwrap_or_default();
    number.and_then(|number| types.get(number.checked_sub(1)?)) == Some(&VOID)
}

/// The setting under which nothing of a user's is found that looks like PostgreSQL's own.
pub(super) fn own_path() -> (String, String) {
    ("search_path".to_owned(), planner::OWN_PATH.to_owned())
}
