//! The extended query protocol.
//!
//! Statements between two Syncs are one transaction. To spare single statements a BEGIN and a COMMIT on their node, Execute
//! looks at the next message: if it is Sync and nothing came before, the statement runs by itself. (Waiting for that
//! message is safe: a client that wants an answer has to send Sync or Flush.)

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use executor::{Call, Completion, Description, Parameters, Spool};
use pgerror::{PgError, Result, SqlState, field};
use pgproto::backend::{self, Field};
use pgproto::frontend::{self, Target, tag};
use planner::parse::{Fetch, FetchDirection, Statement, StatementKind, Transaction};

use crate::protocol::client::Client;
use crate::protocol::prepared::{DescriptionKey, Portal, Prepared};
use crate::protocol::simple::text;

impl Client {
    /// Answers one message of the extended protocol other than Sync; an error makes the client's further messages be
    /// skipped up to Sync.
    pub(crate) async fn extended(&mut self, message: u8, body: Bytes) -> Result<()> {
        self.session.statement_begins();
        let result = match message {
            tag::PARSE => self.parse(body).await,
            tag::BIND => self.bind(body).await,
            tag::DESCRIBE => self.describe(body).await,
            tag::EXECUTE => self.execute_portal(body).await,
            tag::CLOSE => self.close(body),
            tag::FLUSH => self.writer.flush_stream().await,
            other => {
                return Err(PgError::fatal(
                    SqlState::PROTOCOL_VIOLATION,
                    format!("invalid frontend message type {other}"),
                ));
            }
        };
        match self.session.judged(result).await {
            Ok(()) => Ok(()),
            Err(error) => self.fail_to_sync(error).await,
        }
    }

    /// Sync: the end of an implicit transaction.
    pub(crate) async fn sync(&mut self) -> Result<()> {
        self.skip_to_sync = false;
        if let Err(error) = self.end_implicit_block().await {
            self.send_error(error, 0);
        }
        if !self.session.in_block() {
            self.portals.clear();
        }
        self.deliver_notifications().await?;
        self.ready();
        Ok(())
    }

    async fn parse(&mut self, body: Bytes) -> Result<()> {
        let parse = frontend::decode_parse(body)?;
        text(&parse.name)?;
        let statements = self.parsed(&parse.sql).await?;
        if statements.len() > 1 {
            return Err(PgError::new(
                SqlState::SYNTAX_ERROR,
                "cannot insert multiple commands into a prepared statement",
            ));
        }
        if let Some(statement) = statements.first() {
            self.refuse_in_failed_block(&statement.kind)?;
        }
        let prepared = self.prepare(statements.first().cloned(), parse.parameter_types).await?;
        self.keep_prepared(parse.name, prepared)?;
        backend::bare(self.writer.buffer(), backend::tag::PARSE_COMPLETE);
        Ok(())
    }

    /// Keeps a statement under a name that must be new, unless it is empty. PostgreSQL looks at the statement first.
    pub(crate) fn keep_prepared(&mut self, name: Bytes, prepared: Prepared) -> Result<()> {
        if !name.is_empty() && self.prepared.contains_key(&name) {
            let message = format!("prepared statement \"{}\" already exists", String::from_utf8_lossy(&name));
            return Err(PgError::new(SqlState::DUPLICATE_PREPARED_STATEMENT, message));
        }
        self.prepared.insert(name, Arc::new(prepared));
        Ok(())
    }

    /// Has PostgreSQL analyse a statement, so that its errors come at Parse as they should.
    pub(crate) async fn prepare(&mut self, statement: Option<Statement>, mut types: Vec<u32>) -> Result<Prepared> {
        /// To PostgreSQL, too, a parameter of this type is one without a declared type.
        const UNKNOWN: u32 = 705;
        types.iter_mut().filter(|of| **of == UNKNOWN).for_each(|of| *of = 0);
        let description = match &statement {
            None => Arc::new(Description { parameters: types.clone(), fields: None }),
            Some(statement) => self.describe_statement(statement, &types).await?,
        };
        Ok(Prepared { statement, description, catalog_version: self.session.catalog_version() })
    }

    /// A statement whose result has got other columns since it was prepared is refused, as in PostgreSQL: the client reads rows
    /// by the description it was given.
    pub(crate) async fn refuse_changed_result(&mut self, prepared: &Prepared) -> Result<()> {
        let (Some(statement), Some(fields)) = (&prepared.statement, &prepared.description.fields) else {
            return Ok(());
        };
        if self.session.status() == b'E' {
            return Ok(());
        }
        // The catalog knows nothing of a session's own temp tables.
        let is_current = self.session.catalog().await?.catalog.version() == prepared.catalog_version;
        if is_current && self.session.is_ordinary() {
            return Ok(());
        }
        let now = self.describe_statement(statement, &prepared.description.parameters).await?;
        let shape = |fields: &[Field]| -> Vec<_> {
            fields.iter().map(|field| (field.name.clone(), field.type_oid, field.type_modifier)).collect()
        };
        match now.fields.as_deref().map(shape) == Some(shape(fields)) {
            true => Ok(()),
            // Drivers know by the routine that they may prepare it again.
            false => Err(PgError::new(SqlState::FEATURE_NOT_SUPPORTED, "cached plan must not change result type")
                .with(field::ROUTINE, "RevalidateCachedQuery")),
        }
    }

    async fn describe_statement(&mut self, statement: &Statement, types: &[u32]) -> Result<Arc<Description>> {
        let bare = |fields| Ok(Arc::new(Description { parameters: types.to_vec(), fields }));
        match &statement.kind {
            StatementKind::Select
            | StatementKind::Insert
            | StatementKind::Update
            | StatementKind::Delete
            | StatementKind::Merge
            | StatementKind::Call => {}
            StatementKind::Show { .. } | StatementKind::Explain(_) => {}
            StatementKind::Execute { name, .. } => {
                return bare(self.named_statement(name)?.description.fields.clone());
            }
            // In a failed block its cursor is gone; that the block has failed is said when it is run.
            StatementKind::Fetch(fetch) if !fetch.is_move && self.session.status() != b'E' => {
                return bare(self.cursor_fields(&fetch.cursor).await?);
            }
            _ => return bare(None),
        }
        if self.session.status() == b'E' {
            return Err(PgError::new(
                SqlState::IN_FAILED_SQL_TRANSACTION,
                "current transaction is aborted, commands ignored until end of transaction block",
            ));
        }
        let version = self.session.catalog().await?.catalog.version();
        let key = DescriptionKey {
            sql: statement.sql.clone(),
            types: types.to_vec(),
            user: self.session.identity().user.clone(),
            settings: self.session.settings_mut().fingerprint(),
        };
        // Descriptions of a session's own temp tables, and after DDL of its own, are nobody else's business.
        let shareable = self.session.is_ordinary();
        if let Some(known) = self.shared.descriptions.get(version, &key).filter(|_| shareable) {
            return Ok(known);
        }
        if let StatementKind::Show { name } = &statement.kind
            && let Some(sql) = self.show_own(name)
        {
            return Ok(Arc::new(self.session.describe(&sql, types).await?));
        }
        let description = Arc::new(self.session.describe(&statement.sql, types).await?);
        if shareable {
            self.shared.descriptions.insert(version, key, description.clone());
        }
        Ok(description)
    }

    async fn bind(&mut self, body: Bytes) -> Result<()> {
        let bind = frontend::decode_bind(body)?;
        text(&bind.portal)?;
        text(&bind.statement)?;
        let prepared = self.prepared_statement(&bind.statement)?;
        self.refuse_changed_result(&prepared).await?;
        let expected = prepared.description.parameters.len();
        if bind.parameters.len() != expected {
            return Err(PgError::protocol(format!(
                "bind message supplies {} parameters, but prepared statement \"{}\" requires {expected}",
                bind.parameters.len(),
                String::from_utf8_lossy(&bind.statement)
            )));
        }
        match &prepared.statement {
            // A statement with parameters could call functions for their values.
            Some(statement) if bind.parameters.is_empty() => self.refuse_in_failed_block(&statement.kind)?,
            _ => self.refuse_in_failed_block(&StatementKind::Select)?,
        }
        if !bind.portal.is_empty() && self.portals.contains_key(&bind.portal) {
            let name = String::from_utf8_lossy(&bind.portal).into_owned();
            return Err(PgError::new(SqlState::DUPLICATE_CURSOR, format!("cursor \"{name}\" already exists")));
        }
        let parameters = Parameters {
            types: prepared.description.parameters.clone(),
            formats: bind.parameter_formats,
            values: bind.parameters,
        };
        self.check_encoding(&parameters)?;
        let call =
            Call { parameters: Some(Arc::new(parameters)), result_formats: bind.result_formats, ..Call::default() };
        self.portals.insert(bind.portal, Portal { prepared, call, suspended: None });
        backend::bare(self.writer.buffer(), backend::tag::BIND_COMPLETE);
        Ok(())
    }

    /// Values are hashed in the encoding they come in, so it must be the servers'.
    fn check_encoding(&self, parameters: &Parameters) -> Result<()> {
        let Some(encoding) = self.reported.get("client_encoding").filter(|name| executor::is_foreign_encoding(name))
        else {
            return Ok(());
        };
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
        let (target, name) = frontend::decode_target(body)?;
        text(&name)?;
        if let (Target::Portal, Ok(cursor)) = (target, std::str::from_utf8(&name))
            && !self.portals.contains_key(&name)
            && self.cursors.contains_key(cursor)
        {
            // An SQL cursor is a portal too; psycopg describes those it declares.
            let fields = self.cursor_fields(cursor).await?.unwrap_or_default();
            backend::row_description(self.writer.buffer(), &fields);
            return Ok(());
        }
        let (prepared, formats) = match target {
            Target::Statement => (self.prepared_statement(&name)?, Vec::new()),
            Target::Portal => {
                let portal = self.portal(&name)?;
                (portal.prepared.clone(), portal.call.result_formats.clone())
            }
        };
        if prepared.description.fields.is_some() {
            self.refuse_in_failed_block(&StatementKind::Select)?;
        }
        let out = self.writer.buffer();
        if target == Target::Statement {
            backend::parameter_description(out, &prepared.description.parameters);
        }
        match &prepared.description.fields {
            None => backend::bare(out, backend::tag::NO_DATA),
            Some(fields) => backend::row_description(out, &with_formats(fields, &formats)),
        }
        Ok(())
    }

    fn close(&mut self, body: Bytes) -> Result<()> {
        let (target, name) = frontend::decode_target(body)?;
        text(&name)?;
        match target {
            Target::Statement => drop(self.prepared.remove(&name)),
            Target::Portal => drop(self.portals.remove(&name)),
        }
        backend::bare(self.writer.buffer(), backend::tag::CLOSE_COMPLETE);
        Ok(())
    }

    async fn execute_portal(&mut self, body: Bytes) -> Result<()> {
        let (name, rows_max) = frontend::decode_execute(body)?;
        text(&name)?;
        let rows_max = usize::try_from(rows_max).ok().filter(|max| *max > 0);
        let mut portal = self.portals.remove(&name).ok_or_else(|| no_portal(&name))?;
        let prepared = portal.prepared.clone();
        let Some(statement) = &prepared.statement else {
            backend::bare(self.writer.buffer(), backend::tag::EMPTY_QUERY);
            self.portals.insert(name, portal);
            return Ok(());
        };
        let checked = self.refuse_in_failed_block(&statement.kind).and_then(|()| portal.may_run(&name));
        if let Err(error) = checked {
            self.portals.insert(name, portal);
            return Err(error);
        }
        if portal.suspended.is_none() {
            self.refuse_changed_result(&portal.prepared).await?;
            self.open_implicit_block(statement).await?;
            if rows_max.is_none() && self.wait_for_more(&portal.prepared, &portal.call) {
                if portal.prepared.description.fields.is_none() {
                    portal.suspended = Some((Spool::default(), String::new()));
                }
                self.portals.insert(name, portal);
                return Ok(());
            }
            self.depart().await?;
            if self.skip_to_sync {
                return Ok(());
            }
            let mut spool = Spool::of(self.session.work_mem());
            let wanted = rows_max.is_some().then_some(&mut spool);
            let ended = match self.execute(statement, &portal.call, wanted).await {
                Ok(ended) => ended,
                Err(error) => {
                    self.portals.insert(name, portal);
                    return Err(error);
                }
            };
            match (rows_max, ended) {
                (Some(_), Completion::Tag(tag)) => portal.suspended = Some((spool, tag)),
                (_, ended) => {
                    self.send_completion(&ended);
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

    /// All portals end with their transaction.
    fn keep_portal(&mut self, name: Bytes, portal: Portal) {
        match self.session.in_block() {
            true => drop(self.portals.insert(name, portal)),
            false => self.portals.clear(),
        }
    }

    /// MOVE and CLOSE know a portal that Bind made as a cursor, one that goes forward only.
    pub(crate) async fn move_portal(&mut self, name: &Bytes, fetch: &Fetch) -> Result<Completion> {
        if !fetch.is_move || fetch.count == 0 {
            return Err(PgError::unsupported("FETCH from a portal of the extended protocol")
                .hint("Send Execute for the portal, or use DECLARE."));
        }
        let (FetchDirection::Forward, Ok(rows_max)) = (fetch.direction, usize::try_from(fetch.count)) else {
            let message = "cursor can only scan forward";
            return Err(PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
                .hint("Declare it with SCROLL option to enable backward scan."));
        };
        let mut portal = self.portals.remove(name).ok_or_else(|| no_portal(name))?;
        if portal.suspended.is_none()
            && let Some(statement) = &portal.prepared.clone().statement
        {
            let mut spool = Spool::of(self.session.work_mem());
            if let Completion::Tag(tag) = Box::pin(self.execute(statement, &portal.call, Some(&mut spool))).await? {
                portal.suspended = Some((spool, tag));
            }
        }
        let skipped = portal.suspended.as_mut().map(|(spool, _)| spool.take(rows_max, &mut BytesMut::new()));
        self.portals.insert(name.clone(), portal);
        let (moved, _) = skipped.transpose()?.unwrap_or_default();
        Ok(Completion::Tag(format!("MOVE {moved}")))
    }

    /// Sends the next rows of a portal that is read in pieces. As in PostgreSQL, who gets as many as he asked for is not told that they
    /// were the last.
    fn send_piece(&mut self, portal: &mut Portal, rows_max: Option<usize>) -> Result<()> {
        let gives_rows = portal.prepared.description.fields.is_some();
        let Some((spool, command_tag)) = &mut portal.suspended else { return Ok(()) };
        let (sent, _) = spool.take(rows_max.unwrap_or(usize::MAX), self.writer.buffer())?;
        if rows_max == Some(sent) {
            backend::bare(self.writer.buffer(), backend::tag::PORTAL_SUSPENDED);
            return Ok(());
        }
        let (words, count) = backend::split_command_tag(command_tag);
        let last = match count {
            Some(_) if gives_rows => format!("{words} {sent}"),
            _ => command_tag.clone(),
        };
        backend::command_complete(self.writer.buffer(), &last);
        Ok(())
    }

    /// Opens a block for this statement and those that follow it before Sync, unless there are none.
    async fn open_implicit_block(&mut self, statement: &Statement) -> Result<()> {
        use Transaction::{Begin, CommitPrepared, RollbackPrepared};
        let StatementKind::Transaction(Begin(_) | CommitPrepared { .. } | RollbackPrepared { .. }) = statement.kind
        else {
            return self.open_block_for_several(self.is_serializable_alone(statement)).await;
        };
        Ok(())
    }

    async fn open_block_for_several(&mut self, or_one: bool) -> Result<()> {
        if self.session.in_block() {
            return Ok(());
        }
        while self.reader.peek_tag().is_none() {
            if self.reader.fill().await? == 0 {
                return Err(
                    PgError::connection("the client closed the connection").with(pgerror::field::SEVERITY, "FATAL")
                );
            }
        }
        if or_one || self.reader.peek_tag() != Some(tag::SYNC) {
            self.session.begin(None, "", None);
            self.implicit_block = true;
        }
        Ok(())
    }

    pub(crate) fn prepared_statement(&self, name: &Bytes) -> Result<Arc<Prepared>> {
        self.prepared.get(name).cloned().ok_or_else(|| {
            let name = String::from_utf8_lossy(name).into_owned();
            let message = match name.is_empty() {
                true => "unnamed prepared statement does not exist".to_owned(),
                false => format!("prepared statement \"{name}\" does not exist"),
            };
            PgError::new(SqlState::INVALID_SQL_STATEMENT_NAME, message)
        })
    }

    fn portal(&self, name: &Bytes) -> Result<&Portal> {
        self.portals.get(name).ok_or_else(|| no_portal(name))
    }
}

fn no_portal(name: &[u8]) -> PgError {
    PgError::new(SqlState::INVALID_CURSOR_NAME, format!("portal \"{}\" does not exist", String::from_utf8_lossy(name)))
}

fn with_formats(fields: &[Field], formats: &[i16]) -> Vec<Field> {
    let format = |index: usize| match formats {
        [] => 0,
        [all] => *all,
        each => each.get(index).copied().unwrap_or(0),
    };
    fields.iter().enumerate().map(|(i, field)| Field { format: format(i), ..field.clone() }).collect()
}
