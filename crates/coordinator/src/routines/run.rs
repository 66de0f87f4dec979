//! From a plan that needs bodies to its answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use executor::{Call, Completion, Isolation, Scope, Spool};
use pgerror::{PgError, Result, field};
use planner::Statement;
use routine::{Ended, Pending};

use super::call::{Caller, own_path};
use super::parameters::{own_parameters, with_values};
use super::runner::{Routines, Runner, Wanted};
use super::signature::Signature;

impl Runner {
    /// Runs what a statement turned out to need.
    pub(crate) async fn run_wanted(&mut self, wanted: &Wanted, spool: Option<&mut Spool>) -> Result<Completion> {
        self.run_routine(&wanted.routine, &wanted.statement, &wanted.call, spool).await
    }

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
            let is_alone = !self.session().in_block();
            if is_alone {
                self.session().begin(isolation(routine), "", None);
            }
            let captured = self.rows_into(None);
            if self.routines().depth == 0 && self.routines().rows.is_none() {
                let portals = self.routines().portals;
                *self.routines() = Routines { portals, ..Routines::default() };
            }
            let may_end = std::mem::take(&mut self.routines().call_may_end);
            let is_call = matches!(routine, planner::Routine::Call(_));
            let caller = if is_alone || (may_end && is_call) { Caller::Alone } else { Caller::Inside };
            let outcome = match self.session().widen_for_body().await {
                Ok(()) => self.bodies(routine, statement, call, caller).await,
                Err(error) => Err(error),
            };
            self.rows_into(captured);
            let outcome = match outcome {
                Ok(rest) => self.rest(rest, statement, call, spool).await,
                Err(error) => Err(error),
            };
            if is_alone {
                return self.end_autocommit(outcome).await;
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
        let numbers = self.session().draw(&drawn.draws).await?;
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
                    self.block(source, &statement.sql, caller).await?;
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
                    // We become the owner ourselves, whatever body this is in.
                    let scope = self.session().enter_scope(Scope::default());
                    let role = self.set_for(&[("role".to_owned(), owner.clone())]).await;
                    self.session().enter_scope(scope);
                    let role = role?;
                    let completion = self.run_rest(&rest.in_place_of(statement).as_owner(), call, None).await?;
                    let scope = self.session().enter_scope(Scope::default());
                    let back = self.set_for(&role).await;
                    self.session().enter_scope(scope);
                    back?;
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
        let mut types = call.parameters.as_ref().map(|parameters| parameters.types.clone()).unwrap_or_default();
        // What calls before this one gave is bound beyond the statement's own: PostgreSQL finds no type for it in a text without it.
        types.truncate(statement.parameters);
        match self.routines().of_rows() {
            Some(_) => Ok(types),
            None => Ok(self.session().describe(&statement.sql, &types).await?.parameters),
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
                Rest::Explained(explained, tag, took) => self.explain_run(&explained, tag, took, call, spool).await,
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
                    let plan = self.session().plan(&rest, &with, None).await?;
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
    /// Such a statement, with the command tag of the whole if it is another.
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
