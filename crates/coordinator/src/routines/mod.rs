//! Functions, procedures and DO blocks whose bodies the coordinator runs, statement by statement (crate `routine`).
//!
//! Each statement of a body takes the way of any other statement of the session, in the same transaction: a block that is open,
//! or one of its own. Its rows are captured instead of being sent. A statement that calls such functions is run after them,
//! with their values as parameters. A change of rows comes before the [`triggers`] that it fires; one that has [`rules`] is run
//! as what they made of it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use executor::{Call, Completion, Isolation, Output, Parameters, Spool};
use pgerror::{PgError, Result, SqlState, field};
use pgproto::Frame;
use pgproto::backend::tag;
use planner::{Argument, RoutineCall, Statement};
use routine::{Ended, Pending, Type, array_text};

use crate::protocol::client::{Client, output};
use crate::stack;

mod before;
mod host;
mod instead;
mod lifted;
mod of_rows;
mod per_row;
mod rules;
mod signature;
mod triggers;

use host::ClientHost;
use signature::Signature;

/// Calls inside each other, if the stack is large enough.
const DEPTH_MAX: usize = 1000;
/// Most bytes of a thread's stack in use when a body is begun; it has 8 MiB, and in a body a statement needs some too.
const STACK_BYTES_MAX: usize = 4 << 20;

/// What the bodies under way share.
#[derive(Default)]
pub(crate) struct Routines {
    depth: usize,
    /// How many triggers are under way in each other.
    trigger_depth: usize,
    /// Those of the innermost one.
    transition_tables: Vec<String>,
    /// CONTEXT of the statement that is being run.
    context: String,
    types: HashMap<(u32, i32), Type>,
    expressions: HashMap<String, Type>,
    casts: HashMap<(u32, u32), bool>,
    /// What the statement that is being run turned out to need. It is run when the way there has been left, so that bodies that
    /// call each other need little of the stack.
    pub(crate) wanted: Option<Box<Wanted>>,
    /// Cursors without a name so far.
    portals: usize,
    /// The statement to be run is a CALL in a body that may end transactions.
    call_may_end: bool,
    /// Calls are made for the rows of a statement.
    rows: Option<Rows>,
}

impl Routines {
    /// How many are under way in each other.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// A notice of a statement in a body, told as PostgreSQL tells it there; `None` if the statement is in none.
    pub(crate) fn with_context(&self, frame: &Frame) -> Option<Frame> {
        if self.context.is_empty() || frame.tag != tag::NOTICE {
            return None;
        }
        let notice = PgError::decode_body(frame.body.clone());
        let context = match notice.get(field::WHERE) {
            Some(inner) => format!("{}\n{}", String::from_utf8_lossy(inner), self.context),
            None => self.context.clone(),
        };
        let mut body = BytesMut::new();
        notice.context(context).encode_body(&mut body);
        Some(Frame { tag: frame.tag, body: body.freeze() })
    }

    /// Is the call that is to be made one for a row?
    fn of_rows(&mut self) -> Option<&mut Rows> {
        self.rows.as_mut().filter(|rows| rows.depth == self.depth)
    }
}

/// What calls for the rows of one statement share.
struct Rows {
    /// How many bodies were under way when the first was made: calls of bodies are none of them.
    depth: usize,
    signatures: HashMap<u32, Arc<Signature>>,
}

/// A plan whose bodies are to be run.
pub(crate) struct Wanted {
    routine: planner::Routine,
    statement: Statement,
    call: Call,
}

impl Wanted {
    pub(crate) fn new(routine: &planner::Routine, statement: &Statement, call: &Call) -> Box<Self> {
        Box::new(Self { routine: routine.clone(), statement: statement.clone(), call: call.clone() })
    }
}

/// Where a routine is called from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Caller {
    /// A statement of the client's own that opened no transaction before, or CALL in the body of such a one: the body may end transactions.
    Alone,
    Inside,
}

impl Client {
    /// Runs what a plan says, in the open block or in a transaction of its own.
    pub(crate) fn run_routine<'s>(
        &'s mut self,
        routine: &'s planner::Routine,
        statement: &'s Statement,
        call: &'s Call,
        spool: Option<&'s mut Spool>,
    ) -> Pending<'s, Completion> {
        Box::pin(async move {
            if call.parameters.is_none() && statement.parameters > 0 {
                // PostgreSQL says that there is no such parameter.
                return self.forward_home(&statement.sql, call).await;
            }
            if let planner::Routine::Drawn(drawn) = routine {
                return self.drawn(drawn, statement, call, spool).await;
            }
            let is_alone = !self.session.in_block();
            if is_alone {
                self.session.begin(isolation(routine), "", None);
            }
            let captured = self.capture.take();
            if self.routines.depth == 0 && self.routines.rows.is_none() {
                let portals = self.routines.portals;
                self.routines = Routines { portals, ..Routines::default() };
            }
            let may_end = std::mem::take(&mut self.routines.call_may_end);
            let is_call = matches!(routine, planner::Routine::Call(_));
            let caller = if is_alone || (may_end && is_call) { Caller::Alone } else { Caller::Inside };
            let outcome = match self.session.reach_for_body().await {
                Ok(()) => self.bodies(routine, statement, call, caller).await,
                Err(error) => Err(error),
            };
            self.capture = captured;
            let outcome = match outcome {
                Ok(rest) => self.rest(rest, statement, call, spool).await,
                Err(error) => Err(error),
            };
            if is_alone {
                return self.end_alone(outcome).await;
            }
            outcome
        })
    }

    /// An INSERT whose numbers of sequences are drawn first. As in PostgreSQL they are used up, whatever becomes of it.
    async fn drawn(
        &mut self,
        drawn: &planner::Drawn,
        statement: &Statement,
        call: &Call,
        spool: Option<&mut Spool>,
    ) -> Result<Completion> {
        self.accepted(statement, call).await?;
        let mut parameters = own_parameters(call, statement.parameters);
        let numbers = self.session.draw(&drawn.draws).await?;
        parameters.types.extend(numbers.iter().map(|_| 0));
        parameters.formats.extend(numbers.iter().map(|_| 0));
        parameters.values.extend(numbers);
        let with = Call { parameters: Some(Arc::new(parameters)), ..call.clone() };
        match self.run_rest(&drawn.rest, &with, spool).await {
            // Positions are those of another text.
            Err(error) => Err(self.placed(&statement.sql, error.without(field::POSITION)).await),
            done => done,
        }
    }

    async fn end_alone(&mut self, outcome: Result<Completion>) -> Result<Completion> {
        let ended = match &outcome {
            Ok(_) => self.commit().await.map(|_| ()),
            Err(_) => {
                self.session.fail();
                self.session.rollback().await;
                Ok(())
            }
        };
        self.transaction_ended(outcome.is_ok() && ended.is_ok());
        self.report_settings();
        ended.and(outcome)
    }

    /// Runs the bodies; gives what is left to do.
    fn bodies<'s>(
        &'s mut self,
        routine: &'s planner::Routine,
        statement: &'s Statement,
        call: &'s Call,
        caller: Caller,
    ) -> Pending<'s, Rest> {
        Box::pin(async move {
            match routine {
                planner::Routine::Block { source } => {
                    self.block(source, caller).await?;
                    Ok(Rest::Tag("DO"))
                }
                planner::Routine::Call(one) => {
                    self.accepted(statement, call).await?;
                    let (signature, ended) = self.called(one, call, caller).await?;
                    Ok(match signature.columns.is_empty() {
                        true => Rest::Tag("CALL"),
                        false => Rest::Row(signature, ended),
                    })
                }
                planner::Routine::TriggeredDml(change) => Ok(Rest::TriggeredDml(change.clone())),
                planner::Routine::Rewritten(rewritten) => Ok(Rest::Rewritten(rewritten.clone())),
                planner::Routine::Lifted(lifted) => {
                    let (rest, call) = self.lifted(lifted, statement, call).await?;
                    Ok(Rest::Whole(rest, call))
                }
                planner::Routine::PerRow(plan) => {
                    let (rest, call, tag) = self.per_row(plan, statement, call).await?;
                    Ok(Rest::Tagged(rest, call, tag))
                }
                planner::Routine::Each(each) => self.each(each, statement, call).await.map(Rest::Done),
                planner::Routine::Instead(change) => {
                    let (rest, tag) = self.instead(change, statement, call).await?;
                    Ok(match rest {
                        Some((rest, call)) => Rest::Tagged(rest, call, Some(tag)),
                        None => Rest::Done(tag),
                    })
                }
                planner::Routine::Before(change) => {
                    let (rest, tag) = self.before_rows(change, statement, call).await?;
                    Ok(match rest {
                        Some((rest, call)) => Rest::Tagged(rest, call, Some(tag)),
                        None => Rest::Done(tag),
                    })
                }
                planner::Routine::Rows(of) => {
                    let rows = self.kept_rows(&of.query, call).await?;
                    Ok(match &of.fills {
                        Some(plan) => Rest::Plan(Box::new(planner::OfRows::filled(plan, &rows))),
                        None => Rest::Statement(planner::OfRows::copied(statement, &rows)?, Call::simple()),
                    })
                }
                planner::Routine::As { owner, sql } => {
                    let rest = planner::parse(sql)?.into_iter().next();
                    let rest = rest.ok_or_else(|| PgError::internal("a statement is lost with its role"))?;
                    let path = self.set_for(&[own_path()]).await?;
                    let role = self.set_for(&[("role".to_owned(), owner.clone())]).await?;
                    let completion = self.run_rest(&rest.in_place_of(statement).as_owner(), call, None).await?;
                    self.set_for(&role).await?;
                    self.set_for(&path).await?;
                    Ok(match completion {
                        Completion::Tag(tag) => Rest::Done(tag),
                        Completion::Empty => Rest::Done(String::new()),
                    })
                }
                planner::Routine::Explained(explained) => {
                    let began = Instant::now();
                    let with = Call { describe: true, result_formats: Vec::new(), ..call.clone() };
                    let (tag, _) = self.captured_of(std::slice::from_ref(&explained.statement), &with).await?;
                    Ok(Rest::Explained(explained.clone(), tag, began.elapsed()))
                }
                planner::Routine::Drawn(_) => Err(PgError::internal("numbers are drawn without a body")),
                planner::Routine::Inside { calls, rest } => {
                    // What is bound beyond the statement's own parameters stands for nothing.
                    let mut own = own_parameters(call, statement.parameters);
                    // The calls and the rest need not mention all of them.
                    for (of, known) in own.types.iter_mut().zip(self.accepted(statement, call).await?) {
                        *of = if *of == 0 { known } else { *of };
                    }
                    let mut call = Call { parameters: Some(Arc::new(own)), ..call.clone() };
                    for one in calls {
                        let (_, ended) = self.called(one, &call, Caller::Inside).await?;
                        call.parameters = Some(Arc::new(with_values(&call, one.wanted, ended)));
                    }
                    Ok(Rest::Statement(rest.as_ref().clone(), call))
                }
            }
        })
    }

    /// PostgreSQL finds the function by its name and arguments, or says why not; gives the types of the parameters. It has been
    /// asked about calls for rows.
    async fn accepted(&mut self, statement: &Statement, call: &Call) -> Result<Vec<u32>> {
        let types = call.parameters.as_ref().map(|parameters| parameters.types.clone()).unwrap_or_default();
        match self.routines.of_rows() {
            Some(_) => Ok(types),
            None => Ok(self.session.describe(&statement.sql, &types).await?.parameters),
        }
    }

    /// What comes after the bodies.
    fn rest<'s>(
        &'s mut self,
        rest: Rest,
        statement: &'s Statement,
        call: &'s Call,
        spool: Option<&'s mut Spool>,
    ) -> Pending<'s, Completion> {
        Box::pin(async move {
            match rest {
                Rest::TriggeredDml(change) => self.change(&change, statement, call, spool).await,
                Rest::Rewritten(rewritten) => self.rewritten(&rewritten, statement, call, spool).await,
                Rest::Plan(plan) => {
                    Box::pin(self.run_plan(&planner::Plan::Ddl(plan), statement, &Call::default(), spool)).await
                }
                Rest::Explained(explained, tag, took) => {
                    let mut output = match spool {
                        Some(spool) => Output::spool(spool),
                        None => output(&mut self.capture, &mut self.writer),
                    };
                    self.session.explain_run(&explained.explain, tag, took, call, &mut output).await
                }
                Rest::Tag(tag) => Ok(Completion::tag(tag)),
                Rest::Done(tag) => Ok(Completion::Tag(tag)),
                Rest::Row(signature, ended) => {
                    let (sql, parameters) = signature.row(ended);
                    let call = Call { parameters: Some(Arc::new(parameters)), ..call.clone() };
                    self.forward_home(&sql, &call).await?;
                    Ok(Completion::tag("CALL"))
                }
                Rest::Whole(rest, with) => {
                    let with = Call { describe: call.describe, result_formats: call.result_formats.clone(), ..with };
                    self.run_rest(&rest, &with, spool).await.map_err(|error| error.without(field::POSITION))
                }
                Rest::Tagged(rest, with, tag) => {
                    let with = Call { describe: call.describe, result_formats: call.result_formats.clone(), ..with };
                    self.run_tagged(&rest, &with, tag, spool).await
                }
                Rest::Statement(rest, with) => {
                    let plan = self.session.plan(&rest, &with, None).await?;
                    let with = Call { describe: call.describe, result_formats: call.result_formats.clone(), ..with };
                    match &plan {
                        planner::Plan::Routine(routine) => match routine.as_ref() {
                            planner::Routine::TriggeredDml(change) => self.change(change, &rest, &with, spool).await,
                            routine => self.run_routine(routine, &rest, &with, spool).await,
                        },
                        plan => Box::pin(self.run_plan(plan, &rest, &with, spool)).await,
                    }
                }
            }
        })
    }

    /// DO.
    async fn block(&mut self, source: &str, caller: Caller) -> Result<()> {
        if let Some(text) = routine::compile_only(source)? {
            self.asked(&format!("DO {}", catalog::quote_literal(&text))).await?;
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
            callers: self.routines.context.clone(),
        };
        self.enter(&routine, &body).await.map(drop)
    }

    /// Runs a body, one level deeper.
    fn enter<'s>(&'s mut self, routine: &'s routine::Routine, body: &'s routine::ast::Body) -> Pending<'s, Ended> {
        Box::pin(async move {
            if self.routines.depth >= DEPTH_MAX || stack::used() > STACK_BYTES_MAX {
                return Err(PgError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
                    .detail(format!("{} bodies are under way in each other.", self.routines.depth))
                    .hint("Use a loop instead of recursion."));
            }
            self.routines.depth += 1;
            let outside = std::mem::take(&mut self.routines.context);
            let mut host = ClientHost { client: self };
            let ended = routine::run(&mut host, routine, body).await;
            self.routines.context = outside;
            self.routines.depth -= 1;
            ended
        })
    }

    /// Runs the body of a function or procedure with its arguments.
    fn called<'s>(
        &'s mut self,
        one: &'s RoutineCall,
        call: &'s Call,
        caller: Caller,
    ) -> Pending<'s, (Arc<Signature>, Ended)> {
        Box::pin(async move {
            let signature = self.known_signature(one).await?;
            signature.check(one, self.session.keeps_snapshot())?;
            let values = self.arguments(&signature, &one.arguments, call).await?;
            if signature.is_strict && signature.has_null(&values) {
                let row = vec![None; signature.columns.len()];
                let rows = if signature.is_set { Vec::new() } else { vec![row] };
                return Ok((signature, Ended { rows }));
            }
            let body = signature.body()?;
            let mut routine = signature.routine(values, caller == Caller::Alone, self.routines.context.clone());
            let before = self.set_for(&signature.settings).await?;
            if !before.is_empty() {
                let sql = format!("SELECT {}::pg_catalog.regprocedure::pg_catalog.text", one.function);
                let rows = self.asked(&sql).await?;
                routine.signature = rows.into_iter().flatten().flatten().next().map_or_else(String::new, text);
            }
            let ended = self.enter(&routine, &body).await?;
            self.set_for(&before).await?;
            Ok((signature, ended))
        })
    }

    async fn known_signature(&mut self, one: &RoutineCall) -> Result<Arc<Signature>> {
        let known = self.routines.of_rows().and_then(|rows| rows.signatures.get(&one.function).cloned());
        if let Some(known) = known {
            return Ok(known);
        }
        let signature = Arc::new(self.signature(one).await?);
        if let Some(rows) = self.routines.of_rows() {
            rows.signatures.insert(one.function, signature.clone());
        }
        Ok(signature)
    }

    /// SET clauses of a function; gives what the settings were. After an error the transaction takes them back.
    async fn set_for(&mut self, settings: &[(String, String)]) -> Result<Vec<(String, String)>> {
        let mut before = Vec::with_capacity(settings.len());
        for (name, value) in settings {
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
        let parameters = Some(call.parameters.clone().unwrap_or_default());
        let (_, (_, rows)) = self
            .captured(&format!("SELECT {}", list.join(", ")), &Call { parameters, describe: true, ..Call::default() })
            .await?;
        let mut values = rows.into_iter().next().unwrap_or_default().into_iter();
        Ok(expressions.iter().map(|expression| expression.as_ref().and_then(|_| values.next().flatten())).collect())
    }

    /// A statement of a body.
    async fn execute_inside(&mut self, statement: &Statement, call: &Call) -> Result<Completion> {
        self.refuse_in_failed_block(&statement.kind)?;
        let result = match self.prepared_for(statement, call).await {
            Ok(Some(completion)) => Ok(completion),
            Ok(None) => self.run_wanted(None).await,
            Err(error) => Err(error),
        };
        let result = self.all_fired(result);
        let result = self.session.judged(result).await;
        self.after_statement(result.is_err()).await;
        result
    }

    /// Runs the statement unless it calls a body: `None` then. In a frame of its own, which is gone when the body is run.
    fn prepared_for<'s>(&'s mut self, statement: &'s Statement, call: &'s Call) -> Pending<'s, Option<Completion>> {
        Box::pin(async move {
            let completion = self.execute_unguarded(statement, call, None).await?;
            Ok(self.routines.wanted.is_none().then_some(completion))
        })
    }

    /// Runs the body that the last statement turned out to need.
    pub(crate) fn run_wanted<'s>(&'s mut self, spool: Option<&'s mut Spool>) -> Pending<'s, Completion> {
        Box::pin(async move {
            let wanted = self.routines.wanted.take().ok_or_else(|| PgError::internal("no body is wanted"))?;
            self.run_routine(&wanted.routine, &wanted.statement, &wanted.call, spool).await
        })
    }

    /// Rows of a text on the home node.
    fn asked<'s>(&'s mut self, sql: &'s str) -> Pending<'s, Vec<Vec<Option<Bytes>>>> {
        Box::pin(async move {
            let before = self.capture.replace(Spool::default().described());
            let ended = self.forward_home(sql, &Call::simple()).await;
            let spool = std::mem::replace(&mut self.capture, before).unwrap_or_default();
            ended?;
            Ok(spool.into_rows()?.1)
        })
    }

    /// Runs a text as any other of the session; gives its rows.
    pub(crate) fn captured<'s>(&'s mut self, sql: &'s str, call: &'s Call) -> Pending<'s, (String, executor::Rows)> {
        Box::pin(async move {
            let statements = self.parsed(sql.as_bytes()).await?;
            self.captured_of(&statements, call).await
        })
    }

    /// The same of statements.
    fn captured_of<'s>(
        &'s mut self,
        statements: &'s [Statement],
        call: &'s Call,
    ) -> Pending<'s, (String, executor::Rows)> {
        Box::pin(async move {
            let before = self.capture.replace(Spool::default().described());
            let mut ended = Ok(Completion::Empty);
            for statement in statements.iter() {
                self.capture = Some(Spool::default().described());
                ended = self.execute_inside(statement, call).await;
                if ended.is_err() {
                    break;
                }
            }
            let spool = std::mem::replace(&mut self.capture, before).unwrap_or_default();
            let tag = match ended? {
                Completion::Tag(tag) => tag,
                Completion::Empty => String::new(),
            };
            let (fields, rows) = spool.into_rows()?;
            let types: Vec<u32> = fields.iter().flatten().map(|field| field.type_oid).collect();
            if !rows.is_empty() {
                self.session.require_plain_text("a function or block that is run by the coordinator,", types).await?;
            }
            Ok((tag, (fields, rows)))
        })
    }
}

/// A parameter of type void stands for what a function gives, and is no argument: the JDBC driver sends such ones
/// (`ParseFuncOrColumn` in PostgreSQL's `parse_func.c`).
fn is_void_parameter(sql: &str, call: &Call) -> bool {
    let number: Option<usize> = sql.strip_prefix('$').and_then(|number| number.parse().ok());
    let types = call.parameters.as_ref().map(|parameters| parameters.types.as_slice()).unwrap_or_default();
    number.and_then(|number| types.get(number.checked_sub(1)?)) == Some(&signature::VOID)
}

/// What follows the bodies.
enum Rest {
    Tag(&'static str),
    /// Nothing: this is the command tag.
    Done(String),
    /// The values of a procedure's OUT parameters.
    Row(Arc<Signature>, Ended),
    Statement(Statement, Call),
    /// A statement that may need as much as the first.
    Whole(Statement, Call),
    /// The same, with the command tag of the whole if it is another.
    Tagged(Statement, Call, Option<String>),
    /// A table that is made, and filled with the rows.
    Plan(Box<planner::DdlPlan>),
    /// A change of rows, and its triggers after it.
    TriggeredDml(Box<planner::Triggered>),
    /// What rules made of a change.
    Rewritten(Box<planner::Rewritten>),
    /// The statement has been run: with this tag, in this time.
    Explained(Box<planner::Explained>, String, Duration),
}

fn text(bytes: Bytes) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The setting under which nothing of a user's is found that looks like PostgreSQL's own.
fn own_path() -> (String, String) {
    ("search_path".to_owned(), planner::OWN_PATH.to_owned())
}

/// Functions that are not VOLATILE see one moment.
fn isolation(routine: &planner::Routine) -> Option<Isolation> {
    match routine {
        planner::Routine::Inside { calls, .. } if calls.iter().all(|call| !call.is_volatile) => {
            Some(Isolation::RepeatableRead)
        }
        planner::Routine::Rows(of) if !of.is_volatile => Some(Isolation::RepeatableRead),
        planner::Routine::Lifted(lifted) if lifted.of_views => Some(Isolation::RepeatableRead),
        planner::Routine::PerRow(plan) if !plan.is_volatile && !plan.changes_first => Some(Isolation::RepeatableRead),
        _ => None,
    }
}

/// So many parameters, each with a type and a format.
fn own_parameters(call: &Call, count: usize) -> Parameters {
    let mut parameters = call.parameters.as_deref().cloned().unwrap_or_default();
    let all = match parameters.formats.as_slice() {
        [all] => *all,
        _ => 0,
    };
    if parameters.formats.len() < 2 {
        parameters.formats = vec![all; count];
    }
    parameters.formats.resize(count, 0);
    parameters.types.resize(count, 0);
    parameters.values.resize(count, None);
    parameters
}

/// The statement's parameters and those that a call adds.
fn with_values(call: &Call, wanted: planner::Wanted, ended: Ended) -> Parameters {
    let mut parameters = call.parameters.as_deref().cloned().unwrap_or_default();
    let values: Vec<Option<Bytes>> = match wanted {
        planner::Wanted::Nothing => Vec::new(),
        planner::Wanted::Values(columns) => ended.rows.into_iter().next().unwrap_or_else(|| vec![None; columns]),
        planner::Wanted::Arrays(columns) => (0..columns)
            .map(|at| Some(array_text(ended.rows.iter().map(|row| row.get(at).and_then(Option::as_deref)))))
            .collect(),
    };
    parameters.types.extend(values.iter().map(|_| 0));
    parameters.formats.extend(values.iter().map(|_| 0));
    parameters.values.extend(values);
    parameters
}
