//! IF, CASE and loops.

use bytes::Bytes;
use pgerror::{PgError, Result, SqlState};

use crate::run::{Flow, Run, Scope};
use crate::value::{INT4, Type, Typed, Variable};
use crate::{Answer, Pending};
use plpgsql::ast::{Kind, Rows, Sql, Statement, Target};

/// Rows that a loop over a cursor takes at once.
const FETCH_ROWS: usize = 50;

fn null_value(message: &str) -> PgError {
    PgError::new(SqlState::from_bytes(b"22004").unwrap_or(SqlState::INTERNAL_ERROR), message)
}

impl<'a> Run<'a> {
    pub(crate) fn control<'s>(&'s mut self, kind: &'a Kind) -> Pending<'s, Flow> {
        Box::pin(async move {
            match kind {
                Kind::If { branches, otherwise } => self.choose(branches, otherwise).await,
                Kind::Case { subject, branches, otherwise } => {
                    let depth = self.scopes.len();
                    let flow = self.case(subject.as_ref(), branches, otherwise.as_deref()).await?;
                    self.scopes.truncate(depth);
                    Ok(flow)
                }
                Kind::Loop { label, body } => loop {
                    if let Some(flow) = self.turn(label.as_ref(), body).await? {
                        return Ok(flow);
                    }
                },
                Kind::While { label, condition, body } => {
                    let place = self.place;
                    while self.condition(condition).await? {
                        if let Some(flow) = self.turn(label.as_ref(), body).await? {
                            return Ok(flow);
                        }
                        self.place = place;
                    }
                    Ok(Flow::Next)
                }
                Kind::ForInteger { label, variable, lower, upper, step, reverse, body } => {
                    let depth = self.scopes.len();
                    let bounds = (lower, upper, step.as_ref());
                    let flow = self.count(label.as_ref(), variable, bounds, *reverse, body).await?;
                    self.scopes.truncate(depth);
                    Ok(flow)
                }
                Kind::ForRows { label, target, rows, body } => {
                    let depth = self.scopes.len();
                    self.scopes.push(Scope { label: label.clone(), ..Scope::default() });
                    let flow = self.each_row(label.as_ref(), target, rows, body).await?;
                    self.scopes.truncate(depth);
                    Ok(flow)
                }
                Kind::ForEach { label, target, slice, array, body } => {
                    if *slice > 0 {
                        return Err(PgError::unsupported("FOREACH with SLICE").hint("Loop over the subscripts."));
                    }
                    self.each_element(label.as_ref(), target, array, body).await
                }
                Kind::Exit { is_exit, label, when } => {
                    let is_met = match when {
                        Some(when) => self.condition(when).await?,
                        None => true,
                    };
                    Ok(match (is_met, is_exit) {
                        (false, _) => Flow::Next,
                        (true, true) => Flow::Exit(label.clone()),
                        (true, false) => Flow::Continue(label.clone()),
                    })
                }
                _ => Err(PgError::internal("not a statement of control")),
            }
        })
    }

    async fn choose(
        &mut self,
        branches: &'a [(usize, Sql, Vec<Statement>)],
        otherwise: &'a [Statement],
    ) -> Result<Flow> {
        for (_, condition, body) in branches {
            if self.condition(condition).await? {
                return self.statements(body).await;
            }
        }
        self.statements(otherwise).await
    }

    async fn case(
        &mut self,
        subject: Option<&'a Sql>,
        branches: &'a [(usize, Sql, Vec<Statement>)],
        otherwise: Option<&'a [Statement]>,
    ) -> Result<Flow> {
        if let Some(subject) = subject {
            let typed = self.value(subject).await?;
            let of = self.host.type_with(typed.oid, typed.modifier).await?;
            let variable = Variable::scalar(plpgsql::CASE_SUBJECT, of, typed.value);
            self.scopes.push(Scope { variables: vec![variable], ..Scope::default() });
        }
        for (_, condition, body) in branches {
            if self.condition(condition).await? {
                return self.statements(body).await;
            }
        }
        match otherwise {
            Some(body) => self.statements(body).await,
            None => {
                Err(PgError::new(SqlState::from_bytes(b"20000").unwrap_or(SqlState::INTERNAL_ERROR), "case not found")
                    .hint("CASE statement is missing ELSE part."))
            }
        }
    }

    /// Once through the body of a loop; `Some`: the loop is over.
    async fn turn(&mut self, label: Option<&String>, body: &'a [Statement]) -> Result<Option<Flow>> {
        self.host.pause().await?;
        let depth = self.scopes.len();
        let flow = self.statements(body).await?;
        self.scopes.truncate(depth);
        Ok(match flow {
            Flow::Next | Flow::Continue(None) => None,
            Flow::Exit(None) => Some(Flow::Next),
            Flow::Continue(Some(name)) if label == Some(&name) => None,
            Flow::Exit(Some(name)) if label == Some(&name) => Some(Flow::Next),
            flow => Some(flow),
        })
    }

    async fn count(
        &mut self,
        label: Option<&String>,
        variable: &str,
        (lower, upper, step): (&Sql, &Sql, Option<&Sql>),
        reverse: bool,
        body: &'a [Statement],
    ) -> Result<Flow> {
        let mut value =
            self.integer(lower).await?.ok_or_else(|| null_value("lower bound of FOR loop cannot be null"))?;
        let last = self.integer(upper).await?.ok_or_else(|| null_value("upper bound of FOR loop cannot be null"))?;
        let step = match step {
            Some(step) => self.integer(step).await?.ok_or_else(|| null_value("BY value of FOR loop cannot be null"))?,
            None => 1,
        };
        if step <= 0 {
            let message = "BY value of FOR loop must be greater than zero";
            return Err(PgError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        let of = Type { oid: INT4, modifier: -1, name: "integer".to_owned(), fields: None, over: None };
        let variables = vec![Variable::scalar(variable, of, None)];
        self.scopes.push(Scope { label: label.cloned(), variables, ..Scope::default() });
        let at = self.scopes.len() - 1;
        let mut found = false;
        let mut over = Flow::Next;
        while if reverse { value >= last } else { value <= last } {
            found = true;
            self.scopes[at].variables[0].value = Some(Bytes::from(value.to_string()));
            if let Some(flow) = self.turn(label, body).await? {
                over = flow;
                break;
            }
            let next = if reverse { value.checked_sub(step) } else { value.checked_add(step) };
            let Some(next) = next else { break };
            value = next;
        }
        self.set_found(found);
        Ok(over)
    }

    async fn each_row(
        &mut self,
        label: Option<&String>,
        target: &'a Target,
        rows: &'a Rows,
        body: &'a [Statement],
    ) -> Result<Flow> {
        match rows {
            Rows::Query(query) => {
                let answer = self.statement(query, None).await?;
                self.each_of_all(label, target, &answer, body).await
            }
            Rows::Dynamic { query, using } => {
                let answer = self.dynamic(query, using, None, false).await?;
                self.each_of_all(label, target, &answer, body).await
            }
            Rows::Cursor { name, arguments } => {
                let was_named = self.portal(name).is_ok();
                let portal = self.open_bound(name, arguments).await?;
                if let Target::One(variable) = target
                    && let [variable] = variable.as_slice()
                {
                    self.scope().variables.push(Variable::new(variable, None));
                }
                let sql = format!("FETCH FORWARD {FETCH_ROWS} FROM {}", quoted(&portal));
                let mut found = false;
                let over = loop {
                    let context = self.context();
                    let answer = self.host.run(&sql, Vec::new(), context).await?;
                    let last = answer.rows.len() < FETCH_ROWS;
                    found |= !answer.rows.is_empty();
                    let (flow, broke) = self.each_of(label, target, &answer, Some(&portal), body).await?;
                    if broke || last {
                        break flow;
                    }
                };
                let context = self.context();
                self.host.run(&format!("CLOSE {}", quoted(&portal)), Vec::new(), context).await?;
                if !was_named {
                    self.assign(name, Typed::text(None)).await?;
                }
                self.set_found(found);
                Ok(over)
            }
        }
    }

    /// A loop over all rows of a statement.
    async fn each_of_all(
        &mut self,
        label: Option<&String>,
        target: &'a Target,
        answer: &Answer,
        body: &'a [Statement],
    ) -> Result<Flow> {
        let changes = usize::from(!answer.tag.starts_with("SELECT"));
        self.loops_over_changes += changes;
        let done = self.each_of(label, target, answer, None, body).await;
        self.loops_over_changes -= changes;
        done.map(|(flow, _)| flow)
    }

    /// The body for each row, which may be one of a cursor; `true` if it left the loop.
    async fn each_of(
        &mut self,
        label: Option<&String>,
        target: &'a Target,
        answer: &Answer,
        cursor: Option<&str>,
        body: &'a [Statement],
    ) -> Result<(Flow, bool)> {
        let place = self.place;
        let mut ended = (Flow::Next, false);
        if answer.rows.is_empty() {
            self.into(target, answer, None).await?;
        }
        for (number, row) in answer.rows.iter().enumerate() {
            if let Some(cursor) = cursor {
                self.host.stands_on(cursor, number);
            }
            self.place = place;
            self.into(target, answer, Some(row)).await?;
            if let Some(flow) = self.turn(label, body).await? {
                ended = (flow, true);
                break;
            }
        }
        self.place = place;
        self.set_found(!answer.rows.is_empty());
        Ok(ended)
    }

    async fn each_element(
        &mut self,
        label: Option<&String>,
        target: &'a Target,
        array: &'a Sql,
        body: &'a [Statement],
    ) -> Result<Flow> {
        let typed = self.value(array).await?;
        if typed.value.is_none() {
            return Err(null_value("FOREACH expression must not be null"));
        }
        let of = self.host.type_with(typed.oid, typed.modifier).await?;
        if !of.name.ends_with("[]") {
            let code = SqlState::from_bytes(b"42804").unwrap_or(SqlState::INTERNAL_ERROR);
            let [shown] = self.shown_types([(typed.oid, -1)]).await?;
            return Err(PgError::new(code, format!("FOREACH expression must yield an array, not type {shown}")));
        }
        // A row goes as a whole to one variable, and field by field to a list of them.
        let (start, end) = match target {
            Target::One(_) => ("SELECT pg_catalog.unnest(", ")"),
            Target::List(_) => ("SELECT element.* FROM pg_catalog.unnest(", ") AS element"),
        };
        let mut bound = crate::run::resolve::Bound::starting(start);
        self.bind_value(&mut bound, typed).await?;
        bound.sql.push_str(end);
        let context = self.context();
        let answer = self.host.run(&bound.sql, bound.parameters, context).await?;
        let place = self.place;
        let (oid, modifier) =
            answer.columns.iter().flatten().next().map_or((0, -1), |(_, oid, modifier)| (*oid, *modifier));
        let mut ended = Flow::Next;
        for row in &answer.rows {
            self.place = place;
            match target {
                Target::One(name) => {
                    let value = row.first().cloned().flatten();
                    self.assign(name, Typed { oid, modifier, value }).await?;
                }
                Target::List(_) => self.into(target, &answer, Some(row)).await?,
            }
            if let Some(flow) = self.turn(label, body).await? {
                ended = flow;
                break;
            }
        }
        self.place = place;
        self.set_found(!answer.rows.is_empty());
        Ok(ended)
    }

    pub(crate) fn set_found(&mut self, found: bool) {
        let variables = &mut self.scopes[0].variables;
        if let Some(variable) = variables.last_mut() {
            variable.value = Some(Bytes::from_static(if found { b"t" } else { b"f" }));
        }
    }
}

/// A name as SQL.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
