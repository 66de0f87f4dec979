//! The extended query protocol.
//!
//! Statements between two Syncs are one transaction. To spare single statements a BEGIN and a COMMIT on their node, Execute
//! looks at the next message: if it is Sync and nothing came before, the statement runs by itself. (Waiting for that
//! message is safe: a client that wants an answer has to send Sync or Flush.)

use std::sync::Arc;

use bytes::Bytes;
use executor::{Call, Completion, Description, Parameters, Spool};
use pgerror::{PgError, Result, SqlState};
use pgproto::backend::{self, Field};
use pgproto::frontend::{self, Bind, Target, tag};
use planner::parse::{CopyEndpoint, Discard, Statement, StatementKind, Transaction};

use super::connection::Client;
use crate::protocol::portals::Portal;
use crate::protocol::prepared::Prepared;
use crate::protocol::text;

impl Client {
    /// Answers one message of the extended protocol other than Sync; an error makes the client's further messages be
    /// skipped up to Sync.
    pub(crate) async fn extended(&mut self, message: u8, body: Bytes) -> Result<()> {
        self.own().session.statement_begins().await;
        let result = match message {
            tag::PARSE => self.parse(body).await,
            tag::BIND => self.bind(body).await,
            tag::DESCRIBE => self.describe(body).await,
            tag::EXECUTE => self.execute_portal(body).await,
            tag::CLOSE => self.close(body),
            tag::FLUSH => self.flush(body).await,
            other => {
                // What waits comes first.
                self.depart().await?;
                return Err(PgError::fatal(
                    SqlState::PROTOCOL_VIOLATION,
                    format!("invalid frontend message type {other}"),
                ));
            }
        };
        let result = self.own().session.judged(result).await;
        self.own().session.statement_ends().await;
        match result {
            Ok(()) => Ok(()),
            Err(error) => self.fail_behind_waiting(error).await,
        }
    }

    /// An error that comes behind what waits, and is not told of when that fails.
    async fn fail_behind_waiting(&mut self, error: PgError) -> Result<()> {
        self.depart().await?;
        if self.skip_to_sync { Ok(()) } else { self.fail_to_sync(error).await }
    }

    /// Sync: the end of an implicit transaction.
    pub(crate) async fn sync(&mut self, body: Bytes) -> Result<()> {
        self.skip_to_sync = false;
        let outcome = match frontend::decode_bare(body) {
            Ok(()) => Ok(()),
            Err(error) => self.not_understood(error).await.map_err(|(error, _)| error),
        };
        let ended = self.own().end_implicit_block().await;
        if let Err(error) = outcome.and(ended) {
            self.own().socket.send_error(error, 0);
        }
        if !self.own().session.in_block() {
            self.own().portals.clear();
        }
        self.statements.deliver_notifications().await?;
        self.ready();
        Ok(())
    }

    async fn flush(&mut self, body: Bytes) -> Result<()> {
        frontend::decode_bare(body)?;
        self.own().socket.flush().await
    }

    async fn parse(&mut self, body: Bytes) -> Result<()> {
        let parse = frontend::decode_parse(body)?;
        self.own().session.activity().works(&parse.sql);
        text(&parse.name)?;
        if parse.name.is_empty() {
            // It is gone, whatever becomes of this one.
            self.own().prepared.forget(&[]);
        }
        let statements = self.statements.parsed(&parse.sql).await?;
        if statements.len() > 1 {
            return Err(PgError::new(
                SqlState::SYNTAX_ERROR,
                "cannot insert multiple commands into a prepared statement",
            ));
        }
        if let Some(statement) = statements.first() {
            self.own().refuse_in_failed_block(&statement.kind)?;
        }
        let mut prepared = self.own().prepare(statements.first().cloned(), parse.parameter_types).await?;
        prepared.text = executor::Activity::beginning(&parse.sql).into();
        self.own().prepared.keep(parse.name, prepared)?;
        backend::bare(self.own().socket.buffer(), backend::tag::PARSE_COMPLETE);
        Ok(())
    }

    async fn bind(&mut self, body: Bytes) -> Result<()> {
        let (portal, name) = frontend::decode_bind_names(body.clone())?;
        text(&portal)?;
        text(&name)?;
        let prepared = self.own().find_prepared(&name).await?;
        self.own().refuse_changed_result(&prepared).await?;
        let (formats, count) = frontend::decode_bind_counts(body.clone())?;
        if formats.len() > 1 && formats.len() != count {
            return Err(PgError::protocol(format!(
                "bind message has {} parameter formats but {count} parameters",
                formats.len()
            )));
        }
        let expected = prepared.description.parameters.len();
        if count != expected {
            return Err(PgError::protocol(format!(
                "bind message supplies {count} parameters, but prepared statement \"{}\" requires {expected}",
                String::from_utf8_lossy(&name)
            )));
        }
        match &prepared.statement {
            // A statement with parameters could call functions for their values.
            Some(statement) if count == 0 => self.own().refuse_in_failed_block(&statement.kind)?,
            _ => self.own().refuse_in_failed_block(&StatementKind::Select)?,
        }
        if !portal.is_empty() && self.own().portals.get(&portal).is_some() {
            let name = String::from_utf8_lossy(&portal).into_owned();
            return Err(PgError::new(SqlState::DUPLICATE_CURSOR, format!("cursor \"{name}\" already exists")));
        }
        let bind = frontend::decode_bind(body)?;
        check_formats(&bind, &prepared.description)?;
        let parameters = Parameters {
            types: prepared.description.parameters.clone(),
            formats: bind.parameter_formats,
            values: bind.parameters,
        };
        self.check_encoding(&parameters)?;
        let types = self.own().session.types_in(prepared.description.fields.as_deref(), &bind.result_formats);
        let call = Call {
            parameters: Some(Arc::new(parameters)),
            result_formats: bind.result_formats,
            types,
            ..Call::default()
        };
        self.own().portals.bind(bind.portal, prepared, call);
        backend::bare(self.own().socket.buffer(), backend::tag::BIND_COMPLETE);
        Ok(())
    }

    /// Values are hashed in the encoding they come in, so it must be the servers'.
    fn check_encoding(&self, parameters: &Parameters) -> Result<()> {
        let Some(encoding) = self.statements.own.session.foreign_encoding() else { return Ok(()) };
        let is_text = |index: usize| match parameters.formats.as_slice() {
            [] => true,
            [all] => *all == 0,
            each => each.get(index) == Some(&0),
        };
        let sends_text = |index: usize| matches!(parameters.types.get(index), Some(18 | 19 | 25 | 1042 | 1043));
        let is_beyond = |(index, value): (usize, &Option<Bytes>)| {
            value.as_ref().is_some_and(|value| !value.is_ascii()) && (is_text(index) || sends_text(index))
        };
        match parameters.values.iter().enumerate().any(is_beyond) {
            true => Err(PgError::unsupported(format!("a parameter beyond ASCII in client encoding \"{encoding}\""))
                .hint("SET client_encoding TO 'UTF8'.")),
            false => Ok(()),
        }
    }

    async fn describe(&mut self, body: Bytes) -> Result<()> {
        let (target, name) = frontend::decode_describe(body)?;
        text(&name)?;
        if let (Target::Portal, Ok(cursor)) = (target, std::str::from_utf8(&name))
            && self.own().portals.get(&name).is_none()
            && self.own().is_declared(cursor)
        {
            // An SQL cursor is a portal too; psycopg describes those it declares.
            let fields = self.own().cursor_fields(cursor).await?.unwrap_or_default();
            backend::row_description(self.own().socket.buffer(), &fields);
            return Ok(());
        }
        let (description, formats) = match target {
            Target::Statement => {
                let prepared = self.own().prepared.find(&name)?;
                (self.own().described(&prepared).await?, Vec::new())
            }
            Target::Portal => {
                let portal = self.own().portals.find(&name)?;
                let (prepared, formats) = (portal.prepared.clone(), portal.call.result_formats.clone());
                (self.own().described_for_portal(&prepared).await?, formats)
            }
        };
        if description.fields.is_some() {
            self.own().refuse_in_failed_block(&StatementKind::Select)?;
        }
        let out = self.own().socket.buffer();
        if target == Target::Statement {
            backend::parameter_description(out, &description.parameters);
        }
        match &description.fields {
            None => backend::bare(out, backend::tag::NO_DATA),
            Some(fields) => backend::row_description(out, &with_formats(fields, &formats)),
        }
        Ok(())
    }

    fn close(&mut self, body: Bytes) -> Result<()> {
        let (target, name) = frontend::decode_close(body)?;
        text(&name)?;
        match target {
            Target::Statement => self.own().prepared.forget(&name),
            Target::Portal => self.own().portals.close(&name),
        }
        backend::bare(self.own().socket.buffer(), backend::tag::CLOSE_COMPLETE);
        Ok(())
    }

    async fn execute_portal(&mut self, body: Bytes) -> Result<()> {
        let (name, rows_max) = frontend::decode_execute(body)?;
        text(&name)?;
        let rows_max = usize::try_from(rows_max).ok().filter(|max| *max > 0);
        let mut portal = self.own().portals.take(&name)?;
        let prepared = portal.prepared.clone();
        self.own().session.activity().works(&prepared.text);
        let Some(statement) = &prepared.statement else {
            backend::bare(self.own().socket.buffer(), backend::tag::EMPTY_QUERY);
            self.own().portals.put(name, portal);
            return Ok(());
        };
        let checked = self.own().refuse_in_failed_block(&statement.kind).and_then(|()| portal.may_run(&name));
        if let Err(error) = checked {
            self.own().portals.put(name, portal);
            return Err(error);
        }
        if portal.suspended.is_none() {
            self.own().refuse_changed_result(&portal.prepared).await?;
            self.open_implicit_block(statement).await?;
            if rows_max.is_none() && self.wait_for_more(&portal.prepared, &portal.call) {
                if portal.prepared.description.fields.is_none() {
                    portal.suspended = Some((Spool::default(), String::new()));
                }
                self.own().portals.put(name, portal);
                return Ok(());
            }
            if self.own().session.has_pipeline() {
                self.depart().await?;
                if self.skip_to_sync {
                    return Ok(());
                }
                // The time of what has departed is none of this statement's.
                self.own().session.statement_begins().await;
            }
            let told = columns_told(&prepared);
            let mut spool = Spool::of(self.own().session.work_mem()).told(told);
            let wanted = rows_max.is_some().then_some(&mut spool);
            self.own().socket.has_told(told);
            let ended = self.statements.execute_for_client(statement, &portal.call, wanted).await;
            self.own().socket.has_told(None);
            let ended = match ended {
                Ok(ended) => ended,
                Err(error) => {
                    self.own().portals.put(name, portal);
                    return Err(self.own().as_changed_result(error, &prepared).await);
                }
            };
            match (rows_max, ended) {
                (Some(_), Completion::Tag(tag)) => portal.suspended = Some((spool, tag)),
                (_, ended) => {
                    self.own().socket.send_completion(&ended);
                    if let Completion::Tag(tag) = ended {
                        portal.suspended = Some((Spool::default(), tag));
                    }
                    self.keep_portal(name, portal);
                    return Ok(());
                }
            }
        }
        let sent = self.send_piece(&mut portal, rows_max);
        self.keep_portal(name, portal);
        sent
    }

    /// All portals end with their transaction, though another may be open by now (AND CHAIN).
    fn keep_portal(&mut self, name: Bytes, portal: Portal) {
        use Transaction::{Commit, Rollback};
        let kind = portal.prepared.statement.as_ref().map(|statement| &statement.kind);
        let has_ended = matches!(kind, Some(StatementKind::Transaction(Commit { .. } | Rollback { .. })));
        match self.own().session.in_block() && !has_ended {
            true => self.own().portals.put(name, portal),
            false => self.own().portals.clear(),
        }
    }

    /// Sends the next rows of a portal that is read in pieces. As in PostgreSQL, a client that gets as many as it asked for is not
    /// told that they were the last.
    fn send_piece(&mut self, portal: &mut Portal, rows_max: Option<usize>) -> Result<()> {
        let gives_rows = portal.prepared.description.fields.is_some();
        let Some((spool, command_tag)) = &mut portal.suspended else { return Ok(()) };
        let (sent, _) = spool.take(rows_max.unwrap_or(usize::MAX), self.own().socket.buffer())?;
        if rows_max == Some(sent) {
            backend::bare(self.own().socket.buffer(), backend::tag::PORTAL_SUSPENDED);
            return Ok(());
        }
        let (words, count) = backend::split_command_tag(command_tag);
        let last = match count {
            Some(_) if gives_rows => format!("{words} {sent}"),
            _ => command_tag.clone(),
        };
        backend::command_complete(self.own().socket.buffer(), &last);
        Ok(())
    }

    /// Opens a block for this statement and those that follow it before Sync, unless there are none.
    async fn open_implicit_block(&mut self, statement: &Statement) -> Result<()> {
        use Transaction::{Begin, CommitPrepared, RollbackPrepared};
        match statement.kind {
            StatementKind::Transaction(Begin(_) | CommitPrepared(_) | RollbackPrepared(_))
            // It would be refused in a block.
            | StatementKind::Discard(Discard::All) => Ok(()),
            // The Sync that follows at once is read as a part of its data: it is not the one that commits.
            StatementKind::Copy(ref copy) if copy.is_from && copy.source == CopyEndpoint::Client => {
                self.open_block_for_several(true).await
            }
            _ => {
                let or_one = self.own().is_serializable_autocommit(statement);
                self.open_block_for_several(or_one).await
            }
        }
    }

    async fn open_block_for_several(&mut self, or_one: bool) -> Result<()> {
        if self.own().session.in_block() {
            return Ok(());
        }
        if or_one || !self.own().socket.sync_is_next().await? {
            self.own().begin_implicit_block();
        }
        Ok(())
    }
}

/// The parameters' formats are known, and the result has as many columns as it has formats.
fn check_formats(bind: &Bind, description: &Description) -> Result<()> {
    let formats = (0..bind.parameters.len()).map(|index| bind.parameter_format(index));
    if let Some(unknown) = formats.into_iter().find(|format| !matches!(format, 0 | 1)) {
        return Err(PgError::new(SqlState::INVALID_PARAMETER_VALUE, format!("unsupported format code: {unknown}")));
    }
    let formats = bind.result_formats.len();
    match &description.fields {
        Some(fields) if formats > 1 && formats != fields.len() => Err(PgError::protocol(format!(
            "bind message has {formats} result formats but query has {} columns",
            fields.len()
        ))),
        _ => Ok(()),
    }
}

fn with_formats(fields: &[Field], formats: &[i16]) -> Vec<Field> {
    let format = |index: usize| match formats {
        [] => 0,
        [all] => *all,
        each => each.get(index).copied().unwrap_or(0),
    };
    fields.iter().enumerate().map(|(i, field)| Field { format: format(i), ..field.clone() }).collect()
}

/// How many columns the client knows of; those of FETCH and EXECUTE are found when the portal is described.
fn columns_told(prepared: &Prepared) -> Option<usize> {
    let statement = prepared.statement.as_ref()?;
    match statement.kind {
        StatementKind::Fetch(_) | StatementKind::Execute { .. } => None,
        _ => prepared.description.fields.as_ref().map(Vec::len),
    }
}
