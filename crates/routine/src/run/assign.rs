//! Values of expressions, and what becomes of them when they are assigned.

use bytes::Bytes;
use pgerror::{PgError, Result, SqlState, field};

use crate::run::places::unknown;
use crate::run::resolve::{Bound, Spot, in_query};
use crate::run::{Run, with_context};
use crate::value::{
    BOOL, Cell, FIRST_USER_OID, Holds, INT4, RECORD, TEXT, Type, Typed, empty_cell, is_same_text, row_fields,
};
use crate::{Answer, Pending};
use plpgsql::ast::{Sql, Target};

impl<'a> Run<'a> {
    /// Runs a text of the body. `shown` is how CONTEXT shows it, if it does.
    pub(crate) fn statement<'s>(&'s mut self, sql: &'s Sql, shown: Option<&'s str>) -> Pending<'s, Answer> {
        Box::pin(async move {
            let resolved = self.resolve(sql).await.map_err(|error| self.shown(error, shown))?;
            if let (true, Some(changes)) = (self.routine.reads_only, resolved.changes) {
                let message = format!("{changes} is not allowed in a non-volatile function");
                return Err(self.shown(PgError::new(SqlState::FEATURE_NOT_SUPPORTED, message), shown));
            }
            let mut bound = self.bind(&resolved).await?;
            let context = match shown {
                Some(shown) => format!("{shown}\n{}", self.context()),
                None => self.context(),
            };
            let is_plain = sql.is_expression && resolved.is_plain;
            let is_constant = resolved.is_constant();
            let parameters = std::mem::take(&mut bound.parameters);
            self.host.run(&bound.sql, parameters, context).await.map_err(|error| {
                let error = in_query(error, &resolved, &bound);
                // PostgreSQL computes a plain expression by itself, but what is constant in it when it is planned.
                match is_plain && !(is_constant && error.get(field::WHERE).is_none()) {
                    true => error,
                    false => self.shown(error, shown),
                }
            })
        })
    }

    /// An error in a text that CONTEXT shows, unless its place in the text is known.
    fn shown(&self, error: PgError, shown: Option<&str>) -> PgError {
        match shown {
            Some(shown) if !is_about_text(&error) => with_context(error, shown),
            _ => error,
        }
    }

    /// The value of an expression.
    pub(crate) async fn value(&mut self, sql: &Sql) -> Result<Typed> {
        let shown = format!("SQL expression \"{}\"", sql.text);
        self.value_shown(sql, &shown).await
    }

    pub(crate) fn value_shown<'s>(&'s mut self, sql: &'s Sql, shown: &'s str) -> Pending<'s, Typed> {
        Box::pin(async move {
            if let Some(known) = self.at_once(&sql.text) {
                return Ok(known);
            }
            let answer = self.statement(sql, Some(shown)).await?;
            let columns = answer.columns.unwrap_or_default();
            let [(_, oid, modifier)] = columns.as_slice() else {
                let message = format!("query returned {} columns", columns.len());
                return Err(PgError::new(SqlState::SYNTAX_ERROR, message).context(format!("query: {}", sql.text)));
            };
            if answer.rows.len() > 1 {
                let code = SqlState::from_bytes(b"21000").unwrap_or(SqlState::INTERNAL_ERROR);
                return Err(
                    PgError::new(code, "query returned more than one row").context(format!("query: {}", sql.text))
                );
            }
            let value = answer.rows.into_iter().next().and_then(|row| row.into_iter().next().flatten());
            Ok(Typed { oid: *oid, modifier: *modifier, value })
        })
    }

    /// What needs no SQL: a variable by itself, and the plainest constants.
    fn at_once(&self, text: &str) -> Option<Typed> {
        let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if text.parse::<u16>().is_ok_and(|number| number.to_string() == text) {
            return Some(Typed { oid: INT4, modifier: -1, value: Some(Bytes::copy_from_slice(text.as_bytes())) });
        }
        match text.to_ascii_lowercase().as_str() {
            "null" => return Some(Typed::text(None)),
            "true" => return Some(Typed { oid: BOOL, modifier: -1, value: Some(Bytes::from_static(b"t")) }),
            "false" => return Some(Typed { oid: BOOL, modifier: -1, value: Some(Bytes::from_static(b"f")) }),
            _ => {}
        }
        if !text.chars().all(is_word) || text.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let spot = self.look_up(&[text.to_owned()])?;
        let variable = &self.scopes[spot.scope].variables[spot.at];
        match &variable.holds {
            Holds::Scalar(of) => Some(Typed { oid: of.oid, modifier: of.modifier, value: variable.value.clone() }),
            _ => None,
        }
    }

    /// A condition; NULL is false.
    pub(crate) async fn condition(&mut self, sql: &Sql) -> Result<bool> {
        let typed = self.value(sql).await?;
        let boolean = Type { oid: BOOL, modifier: -1, name: "pg_catalog.bool".to_owned(), fields: None, over: None };
        Ok(self.coerce(typed, &boolean).await?.as_deref() == Some(b"t"))
    }

    pub(crate) async fn integer(&mut self, sql: &Sql) -> Result<Option<i32>> {
        let typed = self.value(sql).await?;
        let integer = Type { oid: INT4, modifier: -1, name: "pg_catalog.int4".to_owned(), fields: None, over: None };
        let value = self.coerce(typed, &integer).await?;
        let parse = |text: Bytes| std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
        value.map(|text| parse(text).ok_or_else(|| PgError::internal("not an integer"))).transpose()
    }

    /// A value as another type, as PL/pgSQL assigns it: by a cast that may be used for that, else by way of its text.
    pub(crate) fn coerce<'s>(&'s mut self, from: Typed, to: &'s Type) -> Pending<'s, Option<Bytes>> {
        Box::pin(async move {
            let is_user = to.oid >= FIRST_USER_OID;
            if is_same_text(from.oid, from.modifier, to.oid, to.modifier) || (from.value.is_none() && !is_user) {
                return Ok(from.value);
            }
            let from = match to.over.as_deref() {
                // A cast to the domain would cut what is too long for it.
                Some(over) if over.modifier >= 0 || over.over.is_some() => {
                    Typed { oid: over.oid, modifier: over.modifier, value: self.coerce(from, over).await? }
                }
                _ => from,
            };
            let (source, is_same_type) = (from.oid, from.oid == to.oid);
            let has_cast = is_same_type || self.host.has_cast(source, to.oid).await?;
            let mut value = Bound::starting("");
            match source {
                // The text of a record, to a row type.
                RECORD => value.push(Typed { oid: TEXT, ..from }, None),
                _ => self.bind_value(&mut value, from).await?,
            }
            let Bound { sql, parameters, .. } = value;
            let value = if has_cast { sql } else { format!("CAST({sql} AS pg_catalog.text)") };
            let sql = format!("SELECT {}", to.assigned(&value));
            let context = self.context();
            let answer =
                self.host.run(&sql, parameters, context).await.map_err(|error| error.without(field::POSITION))?;
            Ok(answer.rows.into_iter().next().and_then(|row| row.into_iter().next().flatten()))
        })
    }

    pub(crate) fn spot(&self, name: &[String]) -> Result<Spot> {
        self.look_up(name).ok_or_else(|| unknown(name))
    }

    /// Assigns to a variable or a field.
    pub(crate) fn assign<'s>(&'s mut self, name: &'s [String], typed: Typed) -> Pending<'s, ()> {
        Box::pin(async move {
            let spot = self.spot(name)?;
            let variable = &self.scopes[spot.scope].variables[spot.at];
            if variable.constant {
                let code = SqlState::from_bytes(b"22005").unwrap_or(SqlState::INTERNAL_ERROR);
                return Err(PgError::new(code, format!("variable \"{}\" is declared CONSTANT", variable.name)));
            }
            match (&spot.field, &variable.holds) {
                (Some(field), _) => {
                    let cell = &variable.cell(field)?.typed;
                    let of = self.host.type_with(cell.oid, cell.modifier).await?;
                    let value = self.coerce(typed, &of).await?;
                    self.scopes[spot.scope].variables[spot.at].cell_mut(field)?.typed.value = value;
                }
                (None, Holds::Scalar(of)) => {
                    let (of, not_null, name) = (of.clone(), variable.not_null, variable.name.clone());
                    let value = self.coerce(typed, &of).await?;
                    if not_null && value.is_none() {
                        return Err(null_in(&name));
                    }
                    self.scopes[spot.scope].variables[spot.at].value = value;
                }
                (None, _) => {
                    let cells = self.cells_of(typed).await?;
                    self.assign_row(&spot, cells).await?;
                }
            }
            Ok(())
        })
    }

    /// The columns of a composite value; `None` for NULL.
    async fn cells_of(&mut self, typed: Typed) -> Result<Option<Vec<Cell>>> {
        if typed.value.is_none() {
            return Ok(None);
        }
        let of = match typed.oid {
            RECORD => None,
            oid => Some(self.host.type_with(oid, typed.modifier).await?),
        };
        let texts = |typed: &Typed| row_fields(typed.value.as_deref().unwrap_or_default());
        match of {
            None => {
                let cell = |value| Cell { name: String::new(), typed: Typed { oid: TEXT, modifier: -1, value } };
                Ok(Some(texts(&typed)?.into_iter().map(cell).collect()))
            }
            Some(Type { fields: Some(fields), .. }) => {
                let cells = fields.iter().zip(texts(&typed)?).map(|((name, of), value)| {
                    let mut cell = empty_cell(name, of);
                    cell.typed.value = value;
                    cell
                });
                Ok(Some(cells.collect()))
            }
            Some(_) => Err(PgError::new(
                SqlState::from_bytes(b"42804").unwrap_or(SqlState::INTERNAL_ERROR),
                "cannot assign non-composite value to a record variable",
            )),
        }
    }

    /// Assigns the columns of a row, one by one.
    async fn assign_row(&mut self, spot: &Spot, cells: Option<Vec<Cell>>) -> Result<()> {
        let of = match &self.scopes[spot.scope].variables[spot.at].holds {
            Holds::Row(of) => Some(of.clone()),
            _ => None,
        };
        let is_null = cells.is_none();
        let made = match (of, cells) {
            (None, Some(cells)) if cells.iter().any(|cell| cell.name.is_empty()) => {
                return Err(PgError::unsupported("the assignment of ROW(…) to a variable of type record")
                    .hint("Use SELECT … INTO, or a variable of a row type."));
            }
            (None, cells) => cells,
            (Some(of), cells) => {
                let fields = of.fields.clone().unwrap_or_default();
                let mut values = cells.unwrap_or_default().into_iter();
                let mut made = Vec::with_capacity(fields.len());
                for (name, of) in &fields {
                    let mut cell = empty_cell(name, of);
                    if let Some(value) = values.next() {
                        cell.typed.value = self.coerce(value.typed, of).await?;
                    }
                    made.push(cell);
                }
                Some(made)
            }
        };
        let variable = &mut self.scopes[spot.scope].variables[spot.at];
        (variable.cells, variable.is_null) = (made, is_null);
        Ok(())
    }

    /// The first row of an answer, or one of NULLs, into variables.
    pub(crate) fn into<'s>(
        &'s mut self,
        target: &'s Target,
        answer: &'s Answer,
        row: Option<&'s Vec<Option<Bytes>>>,
    ) -> Pending<'s, ()> {
        Box::pin(async move {
            let columns = answer.columns.as_deref().unwrap_or_default();
            if row.is_some() {
                self.check_width(target, columns.len()).await?;
            }
            let typed = |at: usize| match columns.get(at) {
                Some((_, oid, modifier)) => {
                    Typed { oid: *oid, modifier: *modifier, value: row.and_then(|row| row.get(at).cloned().flatten()) }
                }
                None => Typed::text(None),
            };
            if let Target::One(name) = target {
                let spot = self.spot(name)?;
                let is_row = !matches!(self.scopes[spot.scope].variables[spot.at].holds, Holds::Scalar(_));
                if is_row && spot.field.is_none() {
                    if let Some(refused) = &answer.refused {
                        return Err(refused.clone());
                    }
                    let cell =
                        |(at, (name, ..)): (usize, &(String, u32, i32))| Cell { name: name.clone(), typed: typed(at) };
                    let cells = columns.iter().enumerate().map(cell).collect();
                    return self.assign_row(&spot, Some(cells)).await;
                }
                return self.assign(name, typed(0)).await;
            }
            let Target::List(names) = target else { return Ok(()) };
            for (at, name) in names.iter().enumerate() {
                self.assign(name, typed(at)).await?;
            }
            Ok(())
        })
    }
}

/// Did PostgreSQL find it when it read the text? Then the place in the text is known, and CONTEXT does not repeat the text.
pub(crate) fn is_about_text(error: &PgError) -> bool {
    let of_names = [
        SqlState::UNDEFINED_COLUMN,
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_FUNCTION,
        SqlState::AMBIGUOUS_COLUMN,
        SqlState::GROUPING_ERROR,
    ];
    error.get(field::INTERNAL_QUERY).is_some()
        || (error.get(field::WHERE).is_none() && of_names.contains(&error.code()))
}

/// NULL where none may be.
pub(crate) fn null_in(name: &str) -> PgError {
    PgError::new(
        SqlState::from_bytes(b"22004").unwrap_or(SqlState::INTERNAL_ERROR),
        format!("null value cannot be assigned to variable \"{name}\" declared NOT NULL"),
    )
}
