//! RETURN in its forms.

use bytes::Bytes;
use pgerror::{PgError, Result, SqlState, field};

use crate::run::resolve::Bound;
use crate::run::statements::state;
use crate::run::{Flow, Place, RESULT_BYTES_MAX, Run};
use crate::value::{Holds, RECORD, TEXT, Type, Typed, array_text, row_text};
use crate::{Answer, Pending};
use plpgsql::ast::Sql;

impl<'a> Run<'a> {
    /// RETURN.
    pub(crate) fn give_back<'s>(&'s mut self, value: Option<&'s Sql>) -> Pending<'s, Flow> {
        Box::pin(async move {
            if let (Some(value), true) = (value, self.routine.is_trigger) {
                return self.give_row(value).await;
            }
            let is_value = !self.routine.is_set && !self.routine.by_parameters && !self.routine.columns.is_empty();
            if let (Some(value), true) = (value, is_value) {
                let typed = self.returned_value(value).await?;
                let of = self.routine.columns[0].1.clone();
                let place = std::mem::replace(
                    &mut self.place,
                    Place { line: 0, at: "while casting return value to function's return type" },
                );
                let value = self.cast_to_result(typed, &of).await?;
                self.place = place;
                self.add_row(vec![value])?;
            } else {
                self.returned_by_parameters()?;
            }
            self.returned = true;
            Ok(Flow::Return)
        })
    }

    /// RETURN of a trigger.
    async fn give_row(&mut self, value: &Sql) -> Result<Flow> {
        let typed = self.returned_value(value).await?;
        let is_row = typed.value.is_none()
            || typed.oid == RECORD
            || self.host.type_with(typed.oid, typed.modifier).await?.fields.is_some();
        if !is_row {
            let message = "cannot return non-composite value from function returning composite type";
            return Err(PgError::new(state(b"42804"), message));
        }
        // What ROW(…) gives comes without types: it becomes one of the table's rows.
        let of = self.routine.parameters.first().map(|new| (new.of.oid, new.of.modifier));
        let value = match of {
            Some((oid, modifier)) => self.host.kept(Typed { oid, modifier, value: typed.value }).await?,
            None => typed.value,
        };
        self.add_row(vec![value])?;
        Ok(Flow::Return)
    }

    /// The value of OUT parameters, unless each row was given by itself.
    pub(crate) fn returned_by_parameters(&mut self) -> Result<()> {
        if self.routine.by_parameters && !self.routine.is_set && !self.returned {
            let row = self.out_values();
            self.add_row(row)?;
        }
        Ok(())
    }

    fn out_values(&self) -> Vec<Option<Bytes>> {
        let all = self.routine.parameters.iter().zip(&self.scopes[0].variables);
        all.filter(|(parameter, _)| parameter.is_out)
            .map(|(_, variable)| match &variable.cells {
                Some(cells) => Some(row_text(cells.iter().map(|cell| cell.typed.value.as_deref()))),
                None => variable.value.clone(),
            })
            .collect()
    }

    /// A row variable is taken as it is.
    async fn returned_value(&mut self, value: &Sql) -> Result<Typed> {
        let name = value.text.trim().to_lowercase();
        if let Some(spot) = self.look_up(&[name])
            && spot.field.is_none()
        {
            let variable = &self.scopes[spot.scope].variables[spot.at];
            if !matches!(variable.holds, Holds::Scalar(_)) {
                return Ok(Typed { oid: RECORD, modifier: -1, value: variable.row() });
            }
        }
        self.value(value).await
    }

    async fn cast_to_result(&mut self, typed: Typed, of: &Type) -> Result<Option<Bytes>> {
        match (&of.fields, typed.oid == RECORD || typed.oid == of.oid) {
            (Some(_), false) if typed.value.is_some() => {
                let message = "cannot return non-composite value from function returning composite type";
                Err(PgError::new(state(b"42804"), message))
            }
            _ => self.coerce(typed, of).await,
        }
    }

    pub(crate) async fn return_next(&mut self, value: Option<&Sql>) -> Result<()> {
        if !self.routine.is_set {
            return Err(PgError::new(state(b"42804"), "cannot use RETURN NEXT in a non-SETOF function"));
        }
        let Some(value) = value else {
            let row = self.out_values();
            return self.add_row(row);
        };
        let typed = self.returned_value(value).await?;
        let columns = self.routine.columns.clone();
        match columns.as_slice() {
            [(_, of)] => {
                let value = self.cast_to_result(typed, of).await?;
                // What is put aside is rows: PostgreSQL makes one of nulls of a NULL.
                let row = of.fields.as_ref().or(of.over.as_ref().and_then(|over| over.fields.as_ref()));
                let nulls = || row.map(|fields| row_text(fields.iter().map(|_| None)));
                self.add_row(vec![value.or_else(nulls)])
            }
            _ => Err(PgError::unsupported("RETURN NEXT of a row in a function with several OUT columns")
                .hint("Set the columns and write RETURN NEXT alone.")),
        }
    }

    pub(crate) async fn return_rows(&mut self, answer: Answer) -> Result<()> {
        if !self.routine.is_set {
            return Err(PgError::new(state(b"42804"), "cannot use RETURN QUERY in a non-SETOF function"));
        }
        let columns = answer.columns.unwrap_or_default();
        let expected = self.expected();
        self.check_structure(&columns, &expected).await?;
        self.check_domains(&answer.rows, &expected).await?;
        let as_row = self.routine.columns.len() == 1 && self.routine.columns[0].1.fields.is_some();
        let count = answer.rows.len();
        for row in answer.rows {
            match as_row {
                true => self.add_row(vec![Some(row_text(row.iter().map(Option::as_deref)))])?,
                false => self.add_row(row)?,
            }
        }
        self.row_count = count as u64;
        self.set_found(count > 0);
        Ok(())
    }

    /// The rows of a SQL function's last statement, as the types that it returns.
    pub(crate) async fn sql_result(&mut self, answer: Answer) -> Result<()> {
        if self.routine.columns.is_empty() {
            return Ok(());
        }
        let columns = answer.columns.unwrap_or_default();
        let as_row = match self.routine.columns.as_slice() {
            [(_, of)] => of.fields.is_some() && columns.first().is_some_and(|(_, oid, _)| *oid != of.oid),
            _ => false,
        };
        let expected = if as_row { self.expected() } else { self.column_types() };
        if columns.len() != expected.len() {
            return Err(
                PgError::unsupported("this form of a SQL function's result").hint("Select its columns one by one.")
            );
        }
        let rows_max = if self.routine.is_set { usize::MAX } else { 1 };
        for row in answer.rows.into_iter().take(rows_max) {
            let mut made = Vec::with_capacity(row.len());
            for ((value, (_, oid, modifier)), of) in row.into_iter().zip(&columns).zip(&expected) {
                made.push(self.coerce(Typed { oid: *oid, modifier: *modifier, value }, of).await?);
            }
            let row = if as_row { vec![Some(row_text(made.iter().map(Option::as_deref)))] } else { made };
            self.add_row(row)?;
        }
        if !self.routine.is_set && self.ended.rows.is_empty() {
            self.add_row(vec![None; self.routine.columns.len()])?;
        }
        Ok(())
    }

    fn column_types(&self) -> Vec<Type> {
        self.routine.columns.iter().map(|(_, of)| of.clone()).collect()
    }

    fn expected(&self) -> Vec<Type> {
        match self.routine.columns.as_slice() {
            [(_, Type { fields: Some(fields), .. })] => fields.iter().map(|(_, of)| of.clone()).collect(),
            _ => self.column_types(),
        }
    }

    async fn check_structure(&mut self, columns: &[(String, u32, i32)], expected: &[Type]) -> Result<()> {
        let error = || PgError::new(state(b"42804"), "structure of query does not match function result type");
        if columns.len() != expected.len() {
            return Err(error().detail(format!(
                "Number of returned columns ({}) does not match expected column count ({}).",
                columns.len(),
                expected.len()
            )));
        }
        for (at, ((_, oid, modifier), of)) in columns.iter().zip(expected).enumerate() {
            let base = of.base();
            if *oid != base.oid || (base.modifier >= 0 && base.modifier != *modifier) {
                let [given, expected] = self.shown_types([(*oid, *modifier), (of.oid, of.modifier)]).await?;
                return Err(error().detail(format!(
                    "Returned type {given} does not match expected type {expected} in column {}.",
                    at + 1
                )));
            }
        }
        Ok(())
    }

    /// A query's columns do not say of which domain they are.
    async fn check_domains(&mut self, rows: &[Vec<Option<Bytes>>], expected: &[Type]) -> Result<()> {
        for (at, of) in expected.iter().enumerate().filter(|(_, of)| of.over.is_some() && !rows.is_empty()) {
            let values = rows.iter().map(|row| row.get(at).and_then(Option::as_deref));
            let mut bound = Bound::starting("");
            bound.push(Typed { oid: TEXT, modifier: -1, value: Some(array_text(values)) }, None);
            let sql = format!("SELECT pg_catalog.cardinality(CAST({} AS {}[]))", bound.sql, of.name);
            let context = self.context();
            let checked = self.host.run(&sql, bound.parameters, context).await;
            checked.map_err(|error| error.without(field::POSITION))?;
        }
        Ok(())
    }

    /// Types as PostgreSQL shows them under the search path.
    pub(crate) async fn shown_types<const N: usize>(&mut self, types: [(u32, i32); N]) -> Result<[String; N]> {
        let shown = types.map(|(oid, modifier)| format!("pg_catalog.format_type({oid}, {modifier})"));
        let rows = self.host.ask(format!("SELECT {}", shown.join(", "))).await?;
        let mut texts = rows.into_iter().flatten().map(Option::unwrap_or_default);
        Ok(types.map(|_| String::from_utf8_lossy(&texts.next().unwrap_or_default()).into_owned()))
    }

    fn add_row(&mut self, row: Vec<Option<Bytes>>) -> Result<()> {
        self.bytes += row.iter().flatten().map(Bytes::len).sum::<usize>() + 32 * row.len();
        if self.bytes > RESULT_BYTES_MAX {
            return Err(PgError::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                "the rows that a function gives exceed 256 MiB",
            )
            .hint("Write them to a table."));
        }
        self.ended.rows.push(row);
        Ok(())
    }
}
