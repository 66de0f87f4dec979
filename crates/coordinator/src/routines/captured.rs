//! Rows of statements that are none of the client's answer, and what gives them as constants.

use bytes::Bytes;
use executor::{Call, Completion, NamedType, Spool};
use pgerror::Result;
use planner::{Statement, StatementKind};
use routine::{Pending, array_text};

use super::runner::Runner;

const UNKNOWN: u32 = 705;
const TEXT: u32 = 25;

impl Runner {
    /// Rows of a text on the home node.
    pub(super) fn asked<'s>(&'s mut self, sql: &'s str) -> Pending<'s, Vec<Vec<Option<Bytes>>>> {
        Box::pin(async move {
            let before = self.rows_into(Some(Spool::default().described()));
            let ended = self.forward_home(sql, &Call::simple()).await;
            let spool = self.rows_into(before).unwrap_or_default();
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

    /// Runs statements as any others of the session; gives their rows.
    pub(super) fn captured_of<'s>(
        &'s mut self,
        statements: &'s [Statement],
        call: &'s Call,
    ) -> Pending<'s, (String, executor::Rows)> {
        Box::pin(async move {
            // Values are kept as text, which the user's settings may round or make ambiguous.
            // SET has none; before SET TRANSACTION nothing may be asked.
            let has_rows = !statements.iter().all(|statement| matches!(statement.kind, StatementKind::Set(_)));
            let is_exact = !has_rows || self.session().prints_exactly().await?;
            let binary = (!is_exact).then(|| in_binary(call));
            let call = binary.as_ref().unwrap_or(call);
            let before = self.rows_into(Some(Spool::default().described()));
            let mut ended = Ok(Completion::Empty);
            for statement in statements.iter() {
                self.rows_into(Some(Spool::default().described()));
                ended = self.execute_inside(statement, call).await;
                if ended.is_err() {
                    break;
                }
            }
            let spool = self.rows_into(before).unwrap_or_default();
            let tag = match ended? {
                Completion::Tag(tag) => tag,
                Completion::Empty => String::new(),
            };
            let (fields, rows) = spool.into_rows()?;
            if is_exact || rows.is_empty() {
                return Ok((tag, (fields, rows)));
            }
            let mut types = Vec::new();
            for field in fields.iter().flatten() {
                types.push(self.named(field.type_oid).await?);
            }
            let what = "a function or block that is run by the coordinator,";
            let rows = self.session().exact_texts(what, &types, rows).await?;
            Ok((tag, (fields, rows)))
        })
    }

    pub(super) async fn named(&mut self, oid: u32) -> Result<NamedType> {
        let is_own = oid >= catalog::FIRST_USER_OID;
        // The text is to be read as a value of it.
        self.session().refuse_users_code_of(oid).await?;
        let name = if is_own { Some(self.find_type(oid, -1).await?.name) } else { None };
        Ok(NamedType { oid, name })
    }

    /// Runs the query with all its steps; gives one that has its rows, with their names and types.
    pub(crate) async fn kept_rows(&mut self, query: &str, call: &Call) -> Result<String> {
        let with = Call { describe: true, result_formats: Vec::new(), ..call.clone() };
        let (_, (fields, rows)) = self.captured(query, &with).await?;
        let fields = fields.unwrap_or_default();
        self.session().refuse_users_code_given(query, call, &fields).await?;
        let mut columns = Vec::new();
        for (at, field) in fields.iter().enumerate() {
            let oid = if field.type_oid == UNKNOWN { TEXT } else { field.type_oid };
            let of = self.find_type(oid, field.type_modifier).await?.name;
            let name = catalog::quote_identifier(&String::from_utf8_lossy(&field.name));
            let values = array_text(rows.iter().map(|row| row.get(at).and_then(Option::as_deref)));
            // They become part of a text, which a coordinator reads in UTF-8.
            columns.push((name, of, catalog::quote_literal(crate::protocol::text(&values)?)));
        }
        Ok(rows_sql(&columns, rows.len()))
    }
}

/// Another form of rows than the call's.
fn in_binary(call: &Call) -> Call {
    Call { parameters: Some(call.parameters.clone().unwrap_or_default()), result_formats: vec![1], ..call.clone() }
}

/// A query that gives rows which are in arrays, one for each column: its name, its type, and what gives the array as text.
pub(super) fn rows_sql(columns: &[(String, String, String)], rows: usize) -> String {
    if columns.is_empty() {
        return format!("SELECT FROM pg_catalog.generate_series(1, {rows})");
    }
    let values = columns.iter().enumerate().map(|(at, (name, of, _))| format!("CAST(v.v{at} AS {of}) AS {name}"));
    let arrays = columns.iter().map(|(_, _, array)| format!("pg_catalog.unnest(CAST({array} AS pg_catalog.text[]))"));
    let names = (0..columns.len()).map(|at| format!("v{at}"));
    let list = |items: Vec<String>| items.join(", ");
    format!(
        "SELECT {} FROM ROWS FROM ({}) AS v ({})",
        list(values.collect()),
        list(arrays.collect()),
        list(names.collect())
    )
}

pub(super) fn text(bytes: Bytes) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}
