//! COPY between this client, or a file on this host, and the executor.

use std::path::PathBuf;
use std::pin::pin;

use executor::{Completion, CopySink, CopySource, ServerFiles};
use pgerror::{PgError, Result, SqlState};
use planner::parse::{CopyEndpoint, CopyStatement, CopySubject, Statement, StatementKind};
use planner::{CopyFrom, CopyHome, CopyTo};

use super::client_session::ClientSession;
use crate::protocol::socket::Socket;

impl ClientSession {
    pub(crate) async fn copy_from(&mut self, plan: &CopyFrom, statement: &Statement) -> Result<Completion> {
        let copy = copy_statement(statement)?;
        self.may_copy(copy).await?;
        let source = source(&copy.source, &mut self.socket)?;
        self.session.copy_from(plan, copy, &statement.sql, source).await
    }

    pub(crate) async fn copy_home(&mut self, plan: &CopyHome, statement: &Statement) -> Result<Completion> {
        let copy = copy_statement(statement)?;
        self.may_copy(copy).await?;
        let source = source(&copy.source, &mut self.socket)?;
        self.session.copy_home(plan, copy, &statement.sql, source).await
    }

    /// To be asked before anything else of a COPY is looked at, its table included, and again where it runs: whatever way a statement
    /// has come, its file is not touched without it.
    pub(crate) async fn may_copy(&mut self, copy: &CopyStatement) -> Result<()> {
        let wanted = match (&copy.source, copy.is_from) {
            (CopyEndpoint::Client, _) => return Ok(()),
            (CopyEndpoint::Program(_), _) => ServerFiles::Execute,
            (CopyEndpoint::File(_), true) => ServerFiles::Read,
            (CopyEndpoint::File(_), false) => ServerFiles::Write,
        };
        self.session.may_copy(wanted).await
    }

    /// Before 17, whose MERGE gives no rows, PostgreSQL looks at nothing in one that stands in COPY.
    pub(super) async fn refuse_merge(&mut self, copy: &CopyStatement, statement: &Statement) -> Result<()> {
        const SINCE: u32 = 170_000;
        let is_merge = matches!(&copy.subject, CopySubject::Query(query) if query.kind == StatementKind::Merge);
        if !is_merge || self.session.catalog().await?.catalog.server_version() >= SINCE {
            return Ok(());
        }
        // A clause that it does not know comes first.
        self.session.describe(&statement.sql, &[]).await?;
        Err(PgError::new(SqlState::FEATURE_NOT_SUPPORTED, "MERGE not supported in COPY"))
    }

    pub(crate) async fn copy_to(&mut self, plan: &CopyTo, statement: &Statement) -> Result<Completion> {
        let copy = copy_statement(statement)?;
        self.may_copy(copy).await?;
        let (watch, writer) = self.socket.watched_writer();
        let sink = match &copy.source {
            CopyEndpoint::Client => CopySink::Client(writer),
            CopyEndpoint::File(path) => CopySink::File(checked_path(path)?),
            CopyEndpoint::Program(_) => return Err(no_program()),
        };
        let cancel = self.session.cancel_set();
        watch.during(&cancel, pin!(self.session.copy_to(plan, copy, &statement.sql, sink))).await
    }
}

/// Where the rows of a COPY FROM come from.
fn source<'a>(endpoint: &CopyEndpoint, socket: &'a mut Socket) -> Result<CopySource<'a>> {
    match endpoint {
        CopyEndpoint::Client => {
            let (reader, writer) = socket.ends();
            Ok(CopySource::Client(reader, writer))
        }
        CopyEndpoint::File(path) => Ok(CopySource::File(PathBuf::from(path))),
        CopyEndpoint::Program(_) => Err(no_program()),
    }
}

fn copy_statement(statement: &Statement) -> Result<&CopyStatement> {
    match &statement.kind {
        StatementKind::Copy(copy) => Ok(copy),
        _ => Err(PgError::internal("a COPY plan for another statement")),
    }
}

/// The path of COPY TO, which PostgreSQL wants absolute; COPY FROM finds nothing in the wrong directory.
fn checked_path(path: &str) -> Result<PathBuf> {
    let path = PathBuf::from(path);
    match path.is_absolute() {
        true => Ok(path),
        false => Err(PgError::new(
            SqlState::from_bytes(b"42602").unwrap_or(SqlState::INTERNAL_ERROR),
            "relative path not allowed for COPY to file",
        )),
    }
}

fn no_program() -> PgError {
    PgError::unsupported("COPY … PROGRAM")
        .hint("Run the program on the client and use psql's \\copy … FROM PROGRAM, or a pipe.")
}
