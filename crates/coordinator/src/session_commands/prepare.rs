//! PREPARE, DEALLOCATE, and what PostgreSQL says of a statement that is prepared.

use std::sync::Arc;

use bytes::Bytes;
use executor::{Activity, Completion, Description};
use pgerror::{PgError, Result, SqlState};
use pgproto::backend::Field;
use planner::parse::{Statement, StatementKind};

use super::client_session::ClientSession;
use crate::protocol::prepared::Prepared;
use crate::shared::caches::DescriptionKey;

impl ClientSession {
    pub(super) async fn prepare_named(
        &mut self,
        name: &str,
        types: &[String],
        inner: &Statement,
    ) -> Result<Completion> {
        let oids = self.session.type_oids(types).await?;
        let prepared = self.prepare(Some(inner.clone()), oids).await.map_err(|error| error.moved(inner.offset))?;
        self.prepared.keep(Bytes::from(name.to_owned()), prepared)?;
        Ok(Completion::tag("PREPARE"))
    }

    pub(super) fn deallocate(&mut self, name: Option<&str>) -> Result<Completion> {
        match name {
            None => {
                self.prepared.clear();
                Ok(Completion::tag("DEALLOCATE ALL"))
            }
            Some(name) => {
                self.prepared.find(name.as_bytes())?;
                self.prepared.forget(name.as_bytes());
                Ok(Completion::tag("DEALLOCATE"))
            }
        }
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
        let text = statement.as_ref().map_or("", |statement| &statement.sql).as_bytes();
        let text = Activity::beginning(text).into();
        let (schema_version, path) = (self.session.schema_version(), self.session.settings_mut().path_fingerprint());
        let reported = self.session.reported().cloned();
        Ok(Prepared { statement, text, description, schema_version, path, reported })
    }

    /// The prepared statement; with its constants as PostgreSQL read them then, if the session has other settings now.
    pub(crate) async fn find_prepared(&mut self, name: &[u8]) -> Result<Arc<Prepared>> {
        const READ_BY: [&str; 3] = ["TimeZone", "DateStyle", "IntervalStyle"];
        let prepared = self.prepared.find(name)?;
        let (Some(statement), Some(then), Some(now)) =
            (&prepared.statement, &prepared.reported, self.session.reported())
        else {
            return Ok(prepared);
        };
        let is_same = |name: &&str| then.get(*name) == now.get(*name);
        if Arc::ptr_eq(then, now) || READ_BY.iter().all(is_same) || self.session.status() == b'E' {
            return Ok(prepared);
        }
        let settings: Vec<(&str, &str)> =
            READ_BY.iter().filter_map(|name| Some((*name, then.get(*name)?.as_str()))).collect();
        let read = self.session.read_under(statement, &prepared.description.parameters, &settings).await?;
        // Names in it may mean something else next time, or after ROLLBACK.
        Ok(Arc::new(Prepared {
            statement: read.or_else(|| prepared.statement.clone()),
            text: prepared.text.clone(),
            description: prepared.description.clone(),
            reported: None,
            ..*prepared
        }))
    }

    /// A statement's description when its portal is asked for it: the cursor of a FETCH, or the
    /// statement of an EXECUTE, may be there by now.
    pub(crate) async fn described_for_portal(&mut self, prepared: &Prepared) -> Result<Arc<Description>> {
        match &prepared.statement {
            Some(statement) if matches!(statement.kind, StatementKind::Fetch(_) | StatementKind::Execute { .. }) => {
                self.describe_statement(statement, &prepared.description.parameters).await
            }
            _ => Ok(prepared.description.clone()),
        }
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
        if self.is_current(prepared).await? && self.session.is_ordinary() {
            return Ok(());
        }
        let now = self.describe_statement(statement, &prepared.description.parameters).await?;
        let shape = |fields: &[Field]| -> Vec<_> {
            fields.iter().map(|field| (field.name.clone(), field.type_oid, field.type_modifier)).collect()
        };
        match now.fields.as_deref().map(shape) == Some(shape(fields)) {
            true => Ok(()),
            false => Err(executor::changed_result()),
        }
    }

    /// What is wrong with a statement whose formats are refused although they fitted the columns when it was bound.
    pub(crate) async fn as_changed_result(&mut self, error: PgError, prepared: &Prepared) -> PgError {
        // For COPY the error may be about the client's messages.
        let is_refused = error.code() == SqlState::PROTOCOL_VIOLATION && prepared.description.fields.is_some();
        match is_refused && self.is_current(prepared).await.is_ok_and(|is_current| !is_current) {
            true => executor::changed_result(),
            false => error,
        }
    }

    /// Are schema and search path those that a statement was described with?
    async fn is_current(&mut self, prepared: &Prepared) -> Result<bool> {
        let version = self.session.catalog().await?.catalog.schema_version();
        Ok(version == prepared.schema_version && self.session.settings_mut().path_fingerprint() == prepared.path)
    }

    /// A prepared statement's description as a client may have it: not of another schema than there is now.
    pub(crate) async fn described(&mut self, prepared: &Prepared) -> Result<Arc<Description>> {
        if self.session.status() != b'E' && !self.is_current(prepared).await? {
            self.refuse_changed_result(prepared).await?;
        }
        Ok(prepared.description.clone())
    }

    async fn describe_statement(&mut self, statement: &Statement, types: &[u32]) -> Result<Arc<Description>> {
        // PostgreSQL infers no types where it analyses nothing.
        let bare = |fields| match types.iter().position(|of| *of == 0) {
            None => Ok(Arc::new(Description { parameters: types.to_vec(), fields })),
            Some(index) => {
                let message = format!("could not determine data type of parameter ${}", index + 1);
                Err(PgError::new(SqlState::INDETERMINATE_DATATYPE, message))
            }
        };
        match &statement.kind {
            StatementKind::Select
            | StatementKind::Insert
            | StatementKind::Update
            | StatementKind::Delete
            | StatementKind::Merge
            | StatementKind::Call => {}
            StatementKind::Show(_) | StatementKind::Explain(_) => {}
            StatementKind::DeclareCursor(_) | StatementKind::CreateTableAs if statement.parameters > 0 => {}
            StatementKind::Execute { name, .. } => {
                // That there is no such statement is said when it is run.
                return bare(self.prepared.get(name.as_bytes()).and_then(|found| found.description.fields.clone()));
            }
            // In a failed block its cursor is gone; that the block has failed is said when it is run.
            StatementKind::Fetch(fetch) if !fetch.is_move && self.session.status() != b'E' => {
                return match self.cursor_fields(&fetch.cursor).await {
                    // That there is no such cursor is said when it is run.
                    Err(error) if error.code() == SqlState::INVALID_CURSOR_NAME => bare(None),
                    fields => bare(fields?),
                };
            }
            _ => return bare(None),
        }
        if self.session.status() == b'E' {
            return Err(PgError::new(
                SqlState::IN_FAILED_SQL_TRANSACTION,
                "current transaction is aborted, commands ignored until end of transaction block",
            ));
        }
        let version = self.session.catalog().await?.catalog.schema_version();
        let key = DescriptionKey {
            sql: statement.sql.clone(),
            types: types.to_vec(),
            user: self.session.identity().user.clone(),
            settings: self.session.settings_mut().fingerprint(),
        };
        // Descriptions of a session's own temp tables, and after DDL of its own, are nobody else's business.
        let shareable = self.session.is_ordinary();
        if let Some(known) =
            self.shared.descriptions().get(self.session.database_id(), version, &key).filter(|_| shareable)
        {
            return Ok(known);
        }
        if let StatementKind::Show(name) = &statement.kind
            && let Some(sql) = self.show_own(name)
        {
            return Ok(Arc::new(self.session.describe(&sql, types).await?));
        }
        let description = Arc::new(self.session.describe(&statement.sql, types).await?);
        if shareable {
            self.shared.descriptions().insert(self.session.database_id(), version, key, description.clone());
        }
        Ok(description)
    }
}
