//! Statements that neither branch nor return.

use pgerror::{PgError, Result, SqlState, field};

use crate::run::assign::is_about_text;
use crate::run::resolve::in_text;
use crate::run::{Run, with_context};
use crate::value::Typed;
use crate::{Answer, Pending};
use plpgsql::ast::{Kind, Sql, Target};

/// Where a row of INTO comes from.
enum Source<'s> {
    Query(&'s Sql),
    /// RETURNING.
    Change(&'s Sql),
    /// EXECUTE, with these parameters.
    Made(Vec<Typed>),
}

impl<'a> Run<'a> {
    pub(crate) fn plain<'s>(&'s mut self, kind: &'a Kind) -> Pending<'s, ()> {
        Box::pin(async move {
            match kind {
                Kind::Assign { target, value, whole } => {
                    let shown = format!("PL/pgSQL assignment \"{whole}\"");
                    let assigned = match self.is_inside(target) {
                        true => self.assign_inside(target, &[], value, &shown).await,
                        false => match self.value_shown(value, &shown).await {
                            Ok(typed) => self.assign(target, typed).await,
                            Err(error) => Err(error),
                        },
                    };
                    assigned.map_err(|error| in_assignment(error, whole, &value.text))
                }
                Kind::AssignElement { target, path, value, whole } => {
                    let shown = format!("PL/pgSQL assignment \"{whole}\"");
                    let assigned = self.assign_inside(target, path, value, &shown).await;
                    assigned.map_err(|error| in_assignment(error, whole, &value.text))
                }
                Kind::Step { sql, is_last } => {
                    let answer = self.statement(sql, None).await?;
                    if *is_last { self.sql_result(answer).await } else { Ok(()) }
                }
                Kind::Sql { sql, into } => self.sql(sql, into.as_ref()).await,
                Kind::Perform(sql) => {
                    let answer = self.statement(sql, Some(&shown(sql))).await?;
                    self.counted(answer.rows.len() as u64);
                    Ok(())
                }
                Kind::Call(sql) => self.call(sql).await,
                Kind::Execute { query, using, into } => {
                    let mut given = Vec::new();
                    let answer = self.dynamic(query, using, Some(&mut given), true).await?;
                    if let Some((target, strict)) = into {
                        self.first_row(target, *strict, Source::Made(given), &answer).await?;
                    }
                    self.row_count = answer.count();
                    Ok(())
                }
                Kind::ReturnNext(value) => self.return_next(value.as_ref()).await,
                Kind::ReturnQuery(query) => {
                    let shown = shown(query);
                    let answer = self.statement(query, Some(&shown)).await?;
                    self.return_rows(answer).await.map_err(|error| with_context(error, &shown))
                }
                Kind::ReturnExecute { query, using } => {
                    let answer = self.dynamic(query, using, None, true).await?;
                    self.return_rows(answer).await
                }
                Kind::Raise(raise) => self.raise(raise).await,
                Kind::Assert { condition, message } => self.assert(condition, message.as_ref()).await,
                Kind::Diagnostics { stacked, items } => self.diagnostics(*stacked, items).await,
                Kind::Open { cursor, opened } => self.open(cursor, opened).await,
                Kind::Fetch(fetch) => self.fetch(fetch).await,
                Kind::Close(cursor) => self.close(cursor).await,
                Kind::End { commit, chain } => self.end(*commit, *chain).await,
                _ => Err(PgError::internal("not a plain statement")),
            }
        })
    }

    async fn sql(&mut self, sql: &Sql, into: Option<&(Target, bool)>) -> Result<()> {
        let answer = self.statement(sql, Some(&shown(sql))).await?;
        let verb = answer.tag.split(' ').next().unwrap_or_default();
        if ["SELECT", "INSERT", "UPDATE", "DELETE", "MERGE"].contains(&verb) {
            // INTO without STRICT fetches one row.
            let is_one = verb == "SELECT" && matches!(into, Some((_, false)));
            self.counted(if is_one { answer.count().min(1) } else { answer.count() });
        } else {
            self.row_count = 0;
            // SET may be about these.
            self.checks = None;
        }
        match into {
            Some((target, strict)) => {
                let source = if verb == "SELECT" { Source::Query(sql) } else { Source::Change(sql) };
                self.first_row(target, *strict, source, &answer).await
            }
            None if answer.columns.is_some() => {
                let error = PgError::new(SqlState::SYNTAX_ERROR, "query has no destination for result data");
                Err(match verb {
                    "SELECT" => error.hint("If you want to discard the results of a SELECT, use PERFORM instead."),
                    _ => error,
                })
            }
            None => Ok(()),
        }
    }

    fn counted(&mut self, count: u64) {
        self.row_count = count;
        self.set_found(count > 0);
    }

    /// INTO: the first row, or NULLs; STRICT and data changes allow no more than one.
    async fn first_row(&mut self, target: &Target, strict: bool, source: Source<'_>, answer: &Answer) -> Result<()> {
        if answer.columns.is_none() {
            return Err(PgError::new(SqlState::SYNTAX_ERROR, "INTO used with a command that cannot return data"));
        }
        let error = match (answer.rows.len(), &source) {
            (0, _) if strict => Some(PgError::new(state(b"P0002"), "query returned no rows")),
            (0 | 1, _) => None,
            (_, Source::Made(_)) if !strict => None,
            (_, Source::Query(_)) if !strict => {
                self.found_many_rows().await?;
                None
            }
            (_, source) => {
                let error = PgError::new(state(b"P0003"), "query returned more than one row");
                Some(match source {
                    Source::Made(_) => error,
                    _ => error.hint("Make sure the query returns a single row, or use LIMIT 1."),
                })
            }
        };
        let Some(error) = error else { return self.into(target, answer, answer.rows.first()).await };
        let given = match source {
            Source::Query(sql) | Source::Change(sql) => self.variables_in(sql).await?,
            Source::Made(given) => {
                given.into_iter().enumerate().map(|(at, value)| (format!("${}", at + 1), value)).collect()
            }
        };
        Err(self.with_parameters(error, given).await?)
    }

    /// CALL: what the procedure gives goes into the arguments that are OUT or INOUT.
    async fn call(&mut self, sql: &Sql) -> Result<()> {
        self.host.calls(!self.routine.is_atomic && self.savepoints == 0);
        let answer = self.statement(sql, Some(&shown(sql))).await?;
        let (Some(columns), Some(row)) = (&answer.columns, answer.rows.first()) else { return Ok(()) };
        let targets = self.host.call_targets(&sql.text).await?;
        for ((target, (_, oid, modifier)), value) in targets.into_iter().zip(columns).zip(row) {
            let Some(name) = target else {
                return Err(PgError::unsupported("an OUT argument of CALL that is not a variable")
                    .hint("Pass variables for the OUT and INOUT parameters, in their order."));
            };
            self.assign(&name, Typed { oid: *oid, modifier: *modifier, value: value.clone() }).await?;
        }
        Ok(())
    }

    /// EXECUTE: a statement that was made at run time, and what it is `given`.
    pub(crate) fn dynamic<'s>(
        &'s mut self,
        query: &'s Sql,
        using: &'s [Sql],
        given: Option<&'s mut Vec<Typed>>,
        is_shown: bool,
    ) -> Pending<'s, Answer> {
        Box::pin(async move {
            let text = self
                .value(query)
                .await?
                .value
                .ok_or_else(|| PgError::new(state(b"22004"), "query string argument of EXECUTE is null"))?;
            let text = String::from_utf8_lossy(&text).into_owned();
            let mut parameters = Vec::with_capacity(using.len());
            for value in using {
                parameters.push(self.value(value).await?);
            }
            if let Some(given) = given {
                given.clone_from(&parameters);
            }
            let shown = format!("SQL statement \"{text}\"");
            let checked = self.check_dynamic(&text);
            let answer = match checked {
                Ok(()) => {
                    let context = format!("{shown}\n{}", self.context());
                    self.host.run(&text, parameters, context).await
                }
                Err(error) => return Err(error),
            };
            answer.map_err(|error| {
                let error = match error.text(field::POSITION).parse() {
                    Ok(position) => in_text(error, &text, Some(position)),
                    Err(_) => error,
                };
                match is_shown && !is_about_text(&error) {
                    true => with_context(error, &shown),
                    false => error,
                }
            })
        })
    }

    fn check_dynamic(&self, text: &str) -> Result<()> {
        // What cannot be parsed gets its error where it is run.
        let Ok(references) = planner::references(text) else { return Ok(()) };
        let refused = |message: String| Err(PgError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        match (references.forbidden, references.changes) {
            (Some(message), _) if message.contains("transaction") => {
                refused("EXECUTE of transaction commands is not implemented".to_owned())
            }
            (Some(message), _) => refused(message.to_owned()),
            (None, Some(changes)) if self.routine.reads_only => {
                refused(format!("{changes} is not allowed in a non-volatile function"))
            }
            _ => Ok(()),
        }
    }

    async fn end(&mut self, commit: bool, chain: bool) -> Result<()> {
        let word = if commit { "commit" } else { "roll back" };
        if self.savepoints > 0 {
            let message = format!("cannot {word} while a subtransaction is active");
            return Err(PgError::new(SqlState::INVALID_TRANSACTION_TERMINATION, message));
        }
        if self.routine.is_atomic {
            return Err(PgError::new(SqlState::INVALID_TRANSACTION_TERMINATION, "invalid transaction termination"));
        }
        if self.loops_over_changes > 0 {
            let message = "cannot perform transaction commands inside a cursor loop that is not read-only";
            return Err(PgError::new(state(b"55000"), message));
        }
        self.host.end_transaction(commit, chain).await
    }
}

pub(crate) fn state(code: &[u8; 5]) -> SqlState {
    SqlState::from_bytes(code).unwrap_or(SqlState::INTERNAL_ERROR)
}

fn shown(sql: &Sql) -> String {
    format!("SQL statement \"{}\"", sql.text)
}

/// PostgreSQL reads an assignment as one text, with its target.
fn in_assignment(error: PgError, whole: &str, value: &str) -> PgError {
    match whole.strip_suffix(value).filter(|_| error.text(field::INTERNAL_QUERY) == value) {
        Some(target) => {
            let place = error.text(field::INTERNAL_POSITION).parse::<usize>().ok();
            in_text(error, whole, place.map(|place| place + target.chars().count()))
        }
        None => error,
    }
}
