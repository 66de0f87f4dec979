//! Sub-selects that lock rows, and views read with their owners' rights, run before their statement: see [`planner::Lifted`].

use std::sync::Arc;

use bytes::Bytes;
use executor::{Call, Parameters};
use pgerror::{PgError, Result, SqlState};
use planner::{Lifted, Statement};
use routine::array_text;

use super::call::own_path;
use super::captured::rows_sql;
use super::parameters::own_parameters;
use super::per_row::refuse_record;
use super::runner::Runner;

impl Runner {
    /// Runs the sub-selects; gives the statement over their rows.
    pub(super) async fn lifted(
        &mut self,
        lifted: &Lifted,
        statement: &Statement,
        call: &Call,
    ) -> Result<(Statement, Call)> {
        let mut parameters = own_parameters(call, lifted.parameters);
        let known = self.session().describe(&statement.sql, &parameters.types).await?.parameters;
        // A part need not mention all of them.
        for (of, known) in parameters.types.iter_mut().zip(known) {
            *of = if *of == 0 { known } else { *of };
        }
        let mut rows: Vec<String> = Vec::with_capacity(lifted.parts.len());
        for part in &lifted.parts {
            let sql = with_rows(part, &rows);
            let with = Call { parameters: Some(Arc::new(parameters.clone())), describe: true, ..Call::default() };
            let (fields, values) = match lifted.of_views {
                true => self.captured_view(&sql).await?,
                false => {
                    self.session().describe(&sql, &parameters.types).await.map_err(outside)?;
                    let rows = self.captured(&sql, &with).await;
                    rows.map_err(|error| if lifted.may_be_unwanted { unwanted(error) } else { error })?.1
                }
            };
            let fields = fields.unwrap_or_default();
            self.session().refuse_users_code_given(&sql, &with, &fields).await?;
            let mut columns = Vec::new();
            for (at, field) in fields.iter().enumerate() {
                refuse_record(field)?;
                let of = self.find_type(field.type_oid, field.type_modifier).await?;
                let name = catalog::quote_identifier(&String::from_utf8_lossy(&field.name));
                let column = values.iter().map(|row| row.get(at).and_then(Option::as_deref));
                add(&mut parameters, array_text(column));
                columns.push((name, of.name, format!("${}", parameters.values.len())));
            }
            rows.push(rows_sql(&columns, values.len()));
        }
        let sql = with_rows(&lifted.rest, &rows);
        let rest = planner::parse(&sql)?.into_iter().next();
        let rest = rest.ok_or_else(|| PgError::internal("a statement is lost with its sub-selects"))?;
        Ok((rest.in_place_of(statement), Call { parameters: Some(Arc::new(parameters)), ..call.clone() }))
    }

    /// The rows of a view, read with the rights of its owner.
    async fn captured_view(&mut self, sql: &str) -> Result<executor::Rows> {
        let prefix = format!("lent_{:032x}", rand::random::<u128>());
        let statements = self.parsed(sql.as_bytes()).await?;
        let statements: Vec<Statement> =
            statements.iter().map(|statement| statement.clone().reading_as_owner(&prefix)).collect();
        let with = Call { describe: true, ..Call::default() };
        let path = self.set_for(&[own_path()]).await?;
        let rows = self.captured_of(&statements, &with).await?.1;
        self.set_for(&path).await?;
        Ok(rows)
    }
}

const TEXT_ARRAY: u32 = 1009;

/// With its type: not every part mentions it.
fn add(parameters: &mut Parameters, value: Bytes) {
    parameters.types.push(TEXT_ARRAY);
    parameters.formats.push(0);
    parameters.values.push(Some(value));
}

/// The text with the rows of the parts so far in their places; the last first, whose number may begin with another's.
fn with_rows(text: &str, rows: &[String]) -> String {
    let each = rows.iter().enumerate().rev();
    each.fold(text.to_owned(), |text, (part, rows)| text.replace(&Lifted::marker(part), rows))
}

/// An error of data that PostgreSQL may never meet.
fn unwanted(error: PgError) -> PgError {
    match error.code().as_bytes() {
        [b'2', b'1' | b'2', ..] => {
            PgError::unsupported("a sub-select in ON CONFLICT or RETURNING that reads rows of several nodes and fails")
                .detail(error.message().into_owned())
                .hint("Run the sub-select first.")
        }
        _ => error,
    }
}

/// By itself the sub-select is not valid: it refers to the statement it is in.
fn outside(error: PgError) -> PgError {
    let refers = matches!(error.code(), SqlState::UNDEFINED_COLUMN | SqlState::UNDEFINED_TABLE);
    match refers {
        true => PgError::unsupported(
            "FOR UPDATE, FOR SHARE or a function called for each row in a sub-select that refers to the query around it",
        )
            .hint("Lock the rows, or make the calls, in a statement of their own first."),
        false => error.without(pgerror::field::POSITION),
    }
}
