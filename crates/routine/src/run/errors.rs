//! RAISE, ASSERT, GET DIAGNOSTICS.

use bytes::Bytes;
use pgerror::{PgError, Result, SqlState, field};

use crate::run::block::state_of;
use crate::run::statements::state;
use crate::run::{Run, with_context};
use crate::value::{INT8, Typed, row_text};
use plpgsql::ast::{Raise, Sql};

impl<'a> Run<'a> {
    pub(crate) async fn raise(&mut self, raise: &Raise) -> Result<()> {
        if raise.is_again() {
            let again = self.caught.last().cloned();
            self.is_traced = again.is_some();
            return Err(again.unwrap_or_else(|| {
                let message = "RAISE without parameters cannot be used outside an exception handler";
                PgError::new(state(b"0Z002"), message)
            }));
        }
        let error = self.raised(raise).await?;
        if raise.level == "EXCEPTION" {
            return Err(error);
        }
        let context = self.context();
        if self.is_told(raise.level).await? {
            self.host.notice(with_context(error, &context));
        }
        Ok(())
    }

    async fn raised(&mut self, raise: &Raise) -> Result<PgError> {
        let mut code = match &raise.condition {
            Some(condition) => Some(state_of(condition)?),
            None => None,
        };
        let mut message = match &raise.message {
            Some(format) => Some(self.formatted(format, &raise.parameters).await?),
            None => None,
        };
        let mut fields = Vec::new();
        let mut named = raise.condition.clone();
        for (option, value) in &raise.options {
            let value = self
                .value(value)
                .await?
                .value
                .ok_or_else(|| PgError::new(state(b"22004"), "RAISE statement option cannot be null"))?;
            let text = String::from_utf8_lossy(&value).into_owned();
            let twice = |is: bool| match is {
                true => Err(PgError::new(SqlState::SYNTAX_ERROR, format!("RAISE option already specified: {option}"))),
                false => Ok(()),
            };
            match option.as_str() {
                "ERRCODE" => {
                    twice(code.is_some())?;
                    code = Some(state_of(&text)?);
                    named = Some(text);
                }
                "MESSAGE" => {
                    twice(message.is_some())?;
                    message = Some(text);
                }
                other => {
                    let field = field_of(other)?;
                    twice(fields.iter().any(|(known, _)| *known == field))?;
                    fields.push((field, text));
                }
            }
        }
        let severity = if raise.level == "EXCEPTION" { "ERROR" } else { raise.level };
        let code = code.unwrap_or(match raise.level {
            "EXCEPTION" => state(b"P0001"),
            "WARNING" => SqlState::WARNING,
            _ => SqlState::SUCCESSFUL_COMPLETION,
        });
        let message = message.or(named).unwrap_or_else(|| code.to_string());
        let error = PgError::with_severity(severity, code, message);
        Ok(fields.into_iter().fold(error, |error, (field, text)| error.with(field, text)))
    }

    /// `%` stands for a parameter, `%%` for itself.
    async fn formatted(&mut self, format: &str, parameters: &[Sql]) -> Result<String> {
        let (mut text, mut parameters) = (String::new(), parameters.iter());
        let mut rest = format.chars().peekable();
        while let Some(next) = rest.next() {
            if next != '%' {
                text.push(next);
            } else if rest.peek() == Some(&'%') {
                text.extend(rest.next());
            } else {
                let parameter = parameters
                    .next()
                    .ok_or_else(|| PgError::new(SqlState::SYNTAX_ERROR, "too few parameters specified for RAISE"))?;
                match self.printed(parameter).await? {
                    Some(value) => text.push_str(&String::from_utf8_lossy(&value)),
                    None => text.push_str("<NULL>"),
                }
            }
        }
        match parameters.next() {
            None => Ok(text),
            Some(_) => Err(PgError::new(SqlState::SYNTAX_ERROR, "too many parameters specified for RAISE")),
        }
    }

    /// What RAISE says of an expression: its text under the user's settings.
    async fn printed(&mut self, sql: &Sql) -> Result<Option<Bytes>> {
        let row = self.look_up(&[sql.text.trim().to_lowercase()]).filter(|spot| spot.field.is_none());
        let row = row.map(|spot| &self.scopes[spot.scope].variables[spot.at]).filter(|variable| !variable.is_null);
        if let Some(cells) = row.and_then(|variable| variable.cells.clone()) {
            let mut values = Vec::with_capacity(cells.len());
            for cell in cells {
                values.push(self.host.printed(cell.typed).await?);
            }
            return Ok(Some(row_text(values.iter().map(Option::as_deref))));
        }
        let typed = self.value(sql).await?;
        self.host.printed(typed).await
    }

    /// Does the client hear of messages of this level?
    pub(crate) async fn is_told(&mut self, level: &str) -> Result<bool> {
        const LEVELS: [&str; 9] =
            ["debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error"];
        if level == "INFO" {
            return Ok(true);
        }
        let level = match level.to_lowercase() {
            level if level == "debug" => "debug1".to_owned(),
            level => level,
        };
        let least = self.setting("client_min_messages").await?;
        let rank = |name: &str| LEVELS.iter().position(|known| *known == name);
        Ok(rank(&level) >= rank(&least))
    }

    async fn setting(&mut self, name: &str) -> Result<String> {
        let context = self.context();
        let sql = format!("SELECT pg_catalog.current_setting('{name}')");
        let answer = self.host.run(&sql, Vec::new(), context).await?;
        let value = answer.rows.into_iter().flatten().flatten().next().unwrap_or_default();
        Ok(String::from_utf8_lossy(&value).into_owned())
    }

    pub(crate) async fn assert(&mut self, condition: &Sql, message: Option<&Sql>) -> Result<()> {
        if self.setting("plpgsql.check_asserts").await? == "off" || self.condition(condition).await? {
            return Ok(());
        }
        let message = match message {
            Some(message) => self.value(message).await?.value,
            None => None,
        };
        let message =
            message.map_or_else(|| "assertion failed".into(), |text| String::from_utf8_lossy(&text).into_owned());
        Err(PgError::new(state(b"P0004"), message))
    }

    pub(crate) async fn diagnostics(&mut self, stacked: bool, items: &[(Vec<String>, String)]) -> Result<()> {
        if stacked && self.caught.is_empty() {
            let message = "GET STACKED DIAGNOSTICS cannot be used outside an exception handler";
            return Err(PgError::new(state(b"0Z002"), message));
        }
        for (target, item) in items {
            let typed = self.diagnostic(item)?;
            self.assign(target, typed).await?;
        }
        Ok(())
    }

    fn diagnostic(&self, item: &str) -> Result<Typed> {
        let of_error = |code: u8| {
            let error = self.caught.last();
            Typed::text(Some(error.map(|error| error.text(code).into_owned()).unwrap_or_default()))
        };
        Ok(match item {
            "row_count" => {
                let count = Typed::text(Some(self.row_count.to_string()));
                Typed { oid: INT8, ..count }
            }
            "pg_context" => Typed::text(Some(self.context())),
            "returned_sqlstate" => of_error(field::CODE),
            "message_text" => of_error(field::MESSAGE),
            "pg_exception_detail" => of_error(field::DETAIL),
            "pg_exception_hint" => of_error(field::HINT),
            "pg_exception_context" => of_error(field::WHERE),
            "column_name" => of_error(field::COLUMN),
            "constraint_name" => of_error(field::CONSTRAINT),
            "pg_datatype_name" => of_error(field::DATATYPE),
            "table_name" => of_error(field::TABLE),
            "schema_name" => of_error(field::SCHEMA),
            other => {
                return Err(PgError::unsupported(format!("GET DIAGNOSTICS {}", other.to_uppercase()))
                    .hint("Ask for ROW_COUNT or PG_CONTEXT."));
            }
        })
    }
}

fn field_of(option: &str) -> Result<u8> {
    Ok(match option {
        "DETAIL" => field::DETAIL,
        "HINT" => field::HINT,
        "COLUMN" => field::COLUMN,
        "CONSTRAINT" => field::CONSTRAINT,
        "DATATYPE" => field::DATATYPE,
        "TABLE" => field::TABLE,
        "SCHEMA" => field::SCHEMA,
        other => {
            return Err(PgError::new(
                SqlState::SYNTAX_ERROR,
                format!("unrecognized RAISE statement option \"{other}\""),
            ));
        }
    })
}
