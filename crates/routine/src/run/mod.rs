//! Runs a body: what it holds at the moment, and how it ends.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use pgerror::{PgError, Result, SqlState, field};

use crate::value::{BOOL, Cell, OID, Type, Typed, Variable};
use crate::{Host, Pending};
use plpgsql::ast::{Body, Conflict, Cursor};

mod assign;
mod block;
mod checks;
mod control;
mod cursors;
mod errors;
mod places;
mod resolve;
mod returns;
mod statements;

use resolve::Resolved;

/// Most bytes of rows that a function may give.
const RESULT_BYTES_MAX: usize = 256 * 1024 * 1024;

/// What is run, and with what.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Routine {
    /// As CONTEXT names it.
    pub signature: String,
    /// Before a parameter's name.
    pub name: String,
    /// Parameters in order: name, type, value; those of RETURNS TABLE too.
    pub parameters: Vec<Parameter>,
    /// Columns of what is returned; none for void.
    pub columns: Vec<(String, Type)>,
    /// They are OUT parameters.
    pub by_parameters: bool,
    pub is_set: bool,
    /// A SQL function.
    pub is_sql: bool,
    /// It may not end transactions.
    pub is_atomic: bool,
    /// Not VOLATILE: it must not change rows.
    pub reads_only: bool,
    /// It is called by a trigger: it gives a row, or NULL.
    pub is_trigger: bool,
    /// CONTEXT of what called it.
    pub callers: String,
}

/// A parameter and its value at the start.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Parameter {
    pub name: Option<String>,
    pub of: Type,
    pub is_out: bool,
    pub value: Option<Bytes>,
    /// Id of the table whose row a trigger is given.
    pub tableoid: Option<Bytes>,
}

/// What a body gave.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Ended {
    pub rows: Vec<Vec<Option<Bytes>>>,
}

/// Runs a body to its end.
pub fn run<'a>(host: &'a mut dyn Host, routine: &'a Routine, body: &'a Body) -> Pending<'a, Ended> {
    Box::pin(async move {
        let mut run = Run {
            host,
            routine,
            conflict: body.conflict,
            prints_parameters: body.prints_parameters,
            checks: None,
            scopes: vec![outer_scope(routine)],
            place: Place { line: 0, at: "during function entry" },
            resolved: HashMap::new(),
            ended: Ended::default(),
            bytes: 0,
            returned: false,
            row_count: 0,
            caught: Vec::new(),
            is_traced: false,
            savepoints: 0,
            loops_over_changes: 0,
        };
        match run.whole(body).await {
            Ok(()) => Ok(run.ended),
            Err(error) => Err(run.traced(error)),
        }
    })
}

fn outer_scope<'a>(routine: &Routine) -> Scope<'a> {
    let mut scope = Scope { label: Some(routine.name.clone()), ..Scope::default() };
    for (at, parameter) in routine.parameters.iter().enumerate() {
        let number = format!("${}", at + 1);
        let name = parameter.name.clone().unwrap_or_else(|| number.clone());
        if name != number && !routine.is_trigger {
            scope.aliases.push((number, vec![name.clone()]));
        }
        let tableoid = parameter.tableoid.clone().map(|id| Cell {
            name: "tableoid".to_owned(),
            typed: Typed { oid: OID, modifier: -1, value: parameter.value.as_ref().map(|_| id) },
        });
        scope.variables.push(Variable { tableoid, ..Variable::new(name, Some(parameter.of.clone())) });
    }
    let boolean = Type { oid: BOOL, modifier: -1, name: "boolean".to_owned(), fields: None, over: None };
    scope.variables.push(Variable::scalar("found", boolean, Some(Bytes::from_static(b"f"))));
    scope
}

/// Names of a block, a loop or the function itself.
#[derive(Default)]
pub(crate) struct Scope<'a> {
    label: Option<String>,
    variables: Vec<Variable>,
    aliases: Vec<(String, Vec<String>)>,
    /// Queries of bound cursors.
    cursors: Vec<(String, &'a Cursor)>,
}

/// Where the run is, for CONTEXT.
#[derive(Clone, Copy)]
struct Place {
    line: usize,
    at: &'static str,
}

/// How a statement ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Next,
    Exit(Option<String>),
    Continue(Option<String>),
    Return,
}

pub(crate) struct Run<'a> {
    host: &'a mut dyn Host,
    routine: &'a Routine,
    conflict: Conflict,
    prints_parameters: Option<bool>,
    checks: Option<checks::Checks>,
    scopes: Vec<Scope<'a>>,
    place: Place,
    resolved: HashMap<usize, Arc<Resolved>>,
    ended: Ended,
    /// Bytes of the rows returned.
    bytes: usize,
    /// RETURN has given the value.
    returned: bool,
    row_count: u64,
    /// Errors that handlers are at work on.
    caught: Vec<PgError>,
    /// The error under way has its CONTEXT already.
    is_traced: bool,
    savepoints: usize,
    /// Loops under way over the rows of data changes: PostgreSQL keeps no such portal over the end of a transaction.
    loops_over_changes: usize,
}

impl<'a> Run<'a> {
    async fn whole(&mut self, body: &'a Body) -> Result<()> {
        for at in 0..self.routine.parameters.len() {
            let parameter = &self.routine.parameters[at];
            if parameter.value.is_some() {
                let (scope, value) = (0, parameter.value.clone());
                self.fill(scope, at, value).await?;
            }
        }
        let flow = self.block(&body.block).await?;
        if flow == Flow::Return {
            return Ok(());
        }
        if self.routine.is_sql {
            return Ok(());
        }
        self.place = Place { line: 0, at: "" };
        let gives = !self.routine.columns.is_empty() && !self.routine.by_parameters && !self.routine.is_set;
        if gives || self.routine.is_trigger {
            let what = if self.routine.is_trigger { "trigger procedure" } else { "function" };
            let code = SqlState::from_bytes(b"2F005").unwrap_or(SqlState::INTERNAL_ERROR);
            return Err(PgError::new(code, format!("control reached end of {what} without RETURN")));
        }
        self.returned_by_parameters()
    }

    /// Puts the text of a value into a variable.
    async fn fill(&mut self, scope: usize, at: usize, value: Option<Bytes>) -> Result<()> {
        let variable = &mut self.scopes[scope].variables[at];
        variable.is_null = value.is_none();
        match (&mut variable.cells, value) {
            (Some(cells), Some(text)) => {
                let values = crate::value::row_fields(&text)?;
                cells.iter_mut().zip(values).for_each(|(cell, value)| cell.typed.value = value);
            }
            (Some(cells), None) => cells.iter_mut().for_each(|cell| cell.typed.value = None),
            (None, value) => variable.value = value,
        }
        Ok(())
    }

    /// The line of CONTEXT for where the run is.
    fn line(&self) -> String {
        let (signature, Place { line, at }) = (&self.routine.signature, self.place);
        match (line, at) {
            _ if self.routine.is_sql => format!("SQL function \"{}\" statement {line}", self.routine.name),
            (_, "") => format!("PL/pgSQL function {signature}"),
            (0, at) => format!("PL/pgSQL function {signature} {at}"),
            (line, at) if at.starts_with("during ") => format!("PL/pgSQL function {signature} line {line} {at}"),
            (line, at) => format!("PL/pgSQL function {signature} line {line} at {at}"),
        }
    }

    /// All of CONTEXT, with the callers.
    fn context(&self) -> String {
        match self.routine.callers.as_str() {
            "" => self.line(),
            callers => format!("{}\n{callers}", self.line()),
        }
    }

    fn traced(&mut self, error: PgError) -> PgError {
        match std::mem::take(&mut self.is_traced) {
            true => error,
            false => with_context(error, &self.line()),
        }
    }
}

/// One more line of CONTEXT.
fn with_context(error: PgError, line: &str) -> PgError {
    let context = match error.get(field::WHERE) {
        Some(known) => format!("{}\n{line}", String::from_utf8_lossy(known)),
        None => line.to_owned(),
    };
    error.context(context)
}
