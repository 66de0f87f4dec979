//! Calls for each row of a statement: see [`planner::PerRow`].

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use executor::{Call, Completion, Parameters, Spool, check_memory};
use pgerror::{PgError, Result, SqlState, field};
use planner::{Each, Enough, PerRow, RowCall, Statement};
use routine::array_text;

use super::parameters::own_parameters;
use super::runner::{Rows, Runner};

const TEXT: u32 = 25;
const TEXT_ARRAY: u32 = 1009;
const RECORD: u32 = 2249;
const RECORD_ARRAY: u32 = 2287;

/// The texts with the names of types in them.
struct Texts {
    calls: Vec<RowCall>,
    enough: Option<Enough>,
    rest: String,
}

impl Runner {
    /// Gets the rows and makes the calls; gives what is left, and the rows' own command tag if that is the statement's.
    pub(super) async fn per_row(
        &mut self,
        plan: &PerRow,
        statement: &Statement,
        call: &Call,
    ) -> Result<(Statement, Call, Option<String>)> {
        let mut own = own_parameters(call, plan.parameters);
        let known = self.session().describe(&statement.sql, &own.types).await?.parameters;
        // A part need not mention all of them.
        for (of, known) in own.types.iter_mut().zip(known) {
            *of = if *of == 0 { known } else { *of };
        }
        let with = Call { parameters: Some(Arc::new(own.clone())), describe: true, ..Call::default() };
        let (tag, (fields, rows)) = self.captured(&plan.rows, &with).await.map_err(outside)?;
        let fields = fields.unwrap_or_default();
        self.session().refuse_users_code_given(&plan.rows, &with, &fields).await?;
        let texts = self.texts(plan, &own, fields).await?;
        let rest = planner::parse(&texts.rest)?.into_iter().next();
        let rest = rest.ok_or_else(|| PgError::internal("nothing is left of a statement"))?.in_place_of(statement);
        let shared = Rows { depth: self.routines().depth, signatures: HashMap::new() };
        let outside = self.routines().rows.replace(shared);
        let called = self.calls(plan, &texts, &rest, rows, &own).await;
        self.routines().rows = outside;
        let (columns, changed) = called?;
        let call = over_rows(&own, &columns, call);
        // Rows that were changed one by one are none of the rest any more, but it has its command tag.
        let tag = if plan.changes_first { Some(tag) } else { changed.tag() };
        Ok((rest, call, tag))
    }

    /// The calls for all rows; gives the values of all slots.
    async fn calls(
        &mut self,
        plan: &PerRow,
        texts: &Texts,
        rest: &Statement,
        rows: Vec<Vec<Option<Bytes>>>,
        own: &Parameters,
    ) -> Result<(Vec<Vec<Option<Bytes>>>, Changed)> {
        let limit = match &texts.enough {
            Some(enough) => self.number(&enough.count, own).await?,
            None => None,
        };
        let slots = plan.columns + plan.calls.iter().map(|call| call.columns).sum::<usize>();
        let mut columns: Vec<Vec<Option<Bytes>>> = vec![Vec::with_capacity(rows.len()); slots];
        let (mut passed, mut bytes) = (0, 0);
        let (mut once, mut changed) = (HashMap::new(), Changed::default());
        for row in rows {
            if limit.is_some_and(|limit| passed >= limit) {
                break;
            }
            self.session().check_cancel()?;
            let values = self.calls_for(&texts.calls, row, own, slots, &mut once).await?;
            if let Some(enough) = &texts.enough {
                passed += i64::from(self.holds(enough.when.as_deref(), &values, own).await?);
            }
            bytes += values.iter().flatten().map(Bytes::len).sum::<usize>();
            check_memory(bytes)?;
            columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
            if plan.one_by_one {
                bytes = 0;
                let with = over_rows(own, &columns, &Call::default());
                changed.add(&self.captured_rest(rest, &with).await.map_err(plain)?);
                columns.iter_mut().for_each(Vec::clear);
            }
        }
        Ok((columns, changed))
    }

    /// Runs the statements of single rows; gives the command tag of them all.
    pub(super) async fn each(&mut self, each: &Each, statement: &Statement, call: &Call) -> Result<String> {
        let call = self.with_types(statement, call).await?;
        let mut changed = Changed::default();
        for one in &each.statements {
            self.session().check_cancel()?;
            changed.add(&self.captured_rest(one, &call).await.map_err(plain)?);
        }
        Ok(changed.tag().unwrap_or_default())
    }

    /// Runs the rest for one row; gives its command tag.
    async fn captured_rest(&mut self, rest: &Statement, call: &Call) -> Result<String> {
        let before = self.rows_into(Some(Spool::default().described()));
        let done = self.execute_inside(rest, call).await;
        self.rows_into(before);
        match done? {
            Completion::Tag(tag) => Ok(tag),
            Completion::Empty => Ok(String::new()),
        }
    }

    /// The calls for one row; gives the values of all slots.
    async fn calls_for(
        &mut self,
        calls: &[RowCall],
        mut values: Vec<Option<Bytes>>,
        own: &Parameters,
        slots: usize,
        once: &mut HashMap<usize, Option<Bytes>>,
    ) -> Result<Vec<Option<Bytes>>> {
        values.reserve(slots - values.len());
        for (at, one) in calls.iter().enumerate() {
            if !self.holds(one.when.as_deref(), &values, own).await? {
                values.resize(values.len() + one.columns, None);
                continue;
            }
            if let Some(value) = once.get(&at) {
                values.push(value.clone());
                continue;
            }
            let (_, (_, rows)) = self.captured(&one.sql, &of_row(own, &values)).await.map_err(plain)?;
            match one.is_set {
                true => {
                    let column = |at| Some(array_text(rows.iter().map(|row| row.get(at).and_then(Option::as_deref))));
                    values.extend((0..one.columns).map(column));
                }
                false => {
                    let row = rows.into_iter().next().unwrap_or_default();
                    values.extend(row.into_iter().chain(std::iter::repeat(None)).take(one.columns));
                    if one.once {
                        once.insert(at, values.last().cloned().flatten());
                    }
                }
            }
        }
        Ok(values)
    }

    async fn holds(&mut self, when: Option<&str>, values: &[Option<Bytes>], own: &Parameters) -> Result<bool> {
        let Some(when) = when else { return Ok(true) };
        let (_, (_, rows)) = self.captured(when, &of_row(own, values)).await.map_err(plain)?;
        Ok(rows.first().and_then(|row| row.first()?.as_deref()) == Some(b"t"))
    }

    /// The value of LIMIT and the like; `None` for NULL.
    async fn number(&mut self, sql: &str, own: &Parameters) -> Result<Option<i64>> {
        let (_, (_, rows)) = self.captured(sql, &of_row(own, &[])).await.map_err(plain)?;
        let text = rows.into_iter().flatten().flatten().next();
        Ok(text.and_then(|text| String::from_utf8_lossy(&text).parse().ok()))
    }

    /// PostgreSQL says of which type a call's values are, the next call's may depend on it.
    async fn texts(&mut self, plan: &PerRow, own: &Parameters, fields: Vec<pgproto::backend::Field>) -> Result<Texts> {
        let mut names = Vec::new();
        for field in fields {
            names.push(self.name_of(&field).await?);
        }
        if names.len() != plan.columns {
            return Err(PgError::internal(format!("rows of {} columns instead of {}", names.len(), plan.columns)));
        }
        let mut calls = Vec::with_capacity(plan.calls.len());
        for one in &plan.calls {
            let when = one.when.as_deref().map(|when| named(when, &names));
            let sql = named(&one.sql, &names);
            let types = extended(own.clone(), TEXT, vec![None; names.len()]).types;
            let fields = self.session().describe(&sql, &types).await.map_err(plain)?.fields.unwrap_or_default();
            let call = of_row(own, &vec![None; names.len()]);
            self.session().refuse_users_code_given(&sql, &call, &fields).await?;
            if fields.len() != one.columns {
                return Err(PgError::internal(format!(
                    "a call of {} columns instead of {}",
                    fields.len(),
                    one.columns
                )));
            }
            for field in fields {
                names.push(self.name_of(&field).await?);
            }
            calls.push(RowCall { sql, when, ..one.clone() });
        }
        let enough = plan.enough.as_ref().map(|enough| Enough {
            when: enough.when.as_deref().map(|when| named(when, &names)),
            count: enough.count.clone(),
        });
        Ok(Texts { calls, enough, rest: named(&plan.rest, &names) })
    }

    async fn name_of(&mut self, field: &pgproto::backend::Field) -> Result<String> {
        refuse_record(field)?;
        let of = self.find_type(field.type_oid, field.type_modifier).await?;
        Ok(of.name)
    }

    /// What is left, whose answer has the tag of the change that went before it.
    pub(super) async fn run_tagged(
        &mut self,
        rest: &Statement,
        call: &Call,
        tag: Option<String>,
        spool: Option<&mut Spool>,
    ) -> Result<Completion> {
        let done = self.run_rest(rest, call, spool).await.map_err(plain)?;
        Ok(tag.map_or(done, Completion::Tag))
    }
}

/// The command tags of all rows in one: `INSERT 0 1`, `UPDATE 1`.
#[derive(Default)]
struct Changed {
    command: Option<String>,
    rows: u64,
}

impl Changed {
    fn add(&mut self, tag: &str) {
        let Some((command, count)) = tag.rsplit_once(' ') else { return };
        self.command = Some(command.to_owned());
        self.rows += count.parse::<u64>().unwrap_or(0);
    }

    fn tag(self) -> Option<String> {
        self.command.map(|command| format!("{command} {}", self.rows))
    }
}

/// The rest with the rows so far.
fn over_rows(own: &Parameters, columns: &[Vec<Option<Bytes>>], call: &Call) -> Call {
    let arrays = columns.iter().map(|column| Some(array_text(column.iter().map(Option::as_deref))));
    let parameters = extended(own.clone(), TEXT_ARRAY, arrays.collect());
    Call { parameters: Some(Arc::new(parameters)), one_off: true, ..call.clone() }
}

fn named(text: &str, names: &[String]) -> String {
    names.iter().enumerate().fold(text.to_owned(), |text, (slot, name)| text.replace(&PerRow::type_marker(slot), name))
}

/// The user's parameters and the values of slots so far.
fn of_row(own: &Parameters, values: &[Option<Bytes>]) -> Call {
    let parameters = extended(own.clone(), TEXT, values.to_vec());
    Call { parameters: Some(Arc::new(parameters)), describe: true, ..Call::default() }
}

fn extended(mut parameters: Parameters, of: u32, values: Vec<Option<Bytes>>) -> Parameters {
    parameters.types.extend(values.iter().map(|_| of));
    parameters.formats.extend(values.iter().map(|_| 0));
    parameters.values.extend(values);
    parameters
}

/// A place in one of our own texts says nothing.
fn plain(error: PgError) -> PgError {
    error.without(field::POSITION)
}

/// By themselves the rows are not valid: what stands before a call refers to more.
fn outside(error: PgError) -> PgError {
    match error.code() {
        SqlState::UNDEFINED_TABLE => PgError::unsupported("a function called for each row of this statement")
            .hint("Call it in the select list of a query over a sub-select."),
        _ => plain(error),
    }
}

/// What it is made of goes with the text of it.
pub(super) fn refuse_record(field: &pgproto::backend::Field) -> Result<()> {
    match [RECORD, RECORD_ARRAY].contains(&field.type_oid) {
        true => Err(PgError::unsupported("a record without a type beside a function called for each row")
            .hint("Cast it to a type, or give its fields one by one.")),
        false => Ok(()),
    }
}
