//! One statement on one link: sending it by the simple or the extended protocol, and its answer as a stream of events.

use bytes::Bytes;
use pgerror::{PgError, Result, SqlState, field};
use pgproto::backend::{self, Field, tag};
use pgproto::connection::{Run, unexpected};
use pgproto::frontend::{self, Bind, Target};
use planner::Statement;

use crate::backend::call::{Call, Parameters};
use crate::backend::leased::Gating;
use crate::backend::leased::LeasedConnection;
use crate::backend::pool::StatementKey;
use crate::backend::type_ids::AnswerIds;
use pgproto::frame::HEADER_BYTES;

/// A longer text with constants in quotes is not kept prepared: to look through all of them would cost more than to parse it again.
const KEPT_WITH_QUOTES_BYTES_MAX: usize = 64 * 1024;

/// A step of an answer.
#[derive(Debug)]
pub(crate) enum Event {
    /// RowDescription body.
    Description(Bytes),
    /// Whole DataRow frames and their number.
    Rows(Bytes, usize),
    /// CommandComplete.
    Complete(String),
    /// EmptyQueryResponse.
    Empty,
    /// PortalSuspended: there are more rows than were asked for.
    Suspended,
    /// CopyInResponse, with the number of columns.
    CopyIn(usize),
    /// CopyOutResponse body.
    CopyOut(Bytes),
    /// A run of CopyData frames.
    CopyData(Bytes),
    /// ReadyForQuery: nothing more will come.
    Done,
}

/// The bodies of a run of frames.
pub(crate) fn frame_bodies(run: &Bytes) -> impl Iterator<Item = &[u8]> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let header = run.get(at..at + HEADER_BYTES)?;
        let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
        let body = &run[at + HEADER_BYTES..at + 1 + length];
        at += 1 + length;
        Some(body)
    })
}

/// What PostgreSQL says to a role that may make no temp tables. Once its backend has had one of ours, it says something else, of a
/// schema that the user knows nothing of.
pub(crate) fn said_without_ours(error: PgError, database: &str) -> PgError {
    let is_of_ours = error.code() == SqlState::INSUFFICIENT_PRIVILEGE
        && error.message().starts_with("permission denied for schema pg_temp_");
    match is_of_ours {
        false => error,
        true => error
            .with(field::MESSAGE, format!("permission denied to create temporary tables in database \"{database}\"")),
    }
}

/// Might there be a constant in the statement for which PostgreSQL reads the clock when it parses it (`'now'`)? It would keep the value.
fn may_read_clock_when_parsed(sql: &str) -> bool {
    let has_quotes =
        sql.contains('\'') || sql.as_bytes().windows(2).any(|two| two[0] == b'$' && !two[1].is_ascii_digit());
    let moves = |statements: Vec<Statement>| statements.iter().any(Statement::has_moving_constant);
    has_quotes && (sql.len() > KEPT_WITH_QUOTES_BYTES_MAX || planner::parse(sql).is_ok_and(moves))
}

impl LeasedConnection {
    /// Queues `sql`; `schema_version` guards the prepared statements of this backend.
    pub(crate) fn start(&mut self, sql: &str, call: &Call, schema_version: u64) {
        self.span = self.link.fragment();
        let Some(parameters) = &call.parameters else {
            self.link.connection.query(sql.as_bytes());
            return;
        };
        let bind = self.bind(sql, call, parameters, schema_version);
        let describes = self.describes(call, schema_version);
        let out = self.link.connection.out();
        frontend::bind(out, &bind);
        if describes {
            frontend::describe(out, Target::Portal, b"");
        }
        frontend::execute(out, b"", 0);
        self.link.connection.sync();
    }

    /// For the answer to a call that is about to be sent: must the node describe its rows?
    pub(crate) fn describes(&mut self, call: &Call, schema_version: u64) -> bool {
        let ids = AnswerIds::expected(call, self.link.node(), schema_version);
        let describes = call.describe || ids.is_some();
        self.ids = ids.or(self.ids.take());
        describes
    }

    /// Queues Parse, if it is needed; gives Bind for the unnamed portal.
    pub(crate) fn bind(&mut self, sql: &str, call: &Call, parameters: &Parameters, schema_version: u64) -> Bind {
        let types = call.fragment_types(sql);
        let statement = match call.one_off {
            true => self.parse_unnamed(sql, &types),
            false => self.prepare(sql, &types, schema_version),
        };
        Bind {
            portal: Bytes::new(),
            statement,
            parameter_formats: parameters.formats.clone(),
            parameters: parameters.values.clone(),
            result_formats: call.result_formats.clone(),
        }
    }

    /// Queues `sql` for a transaction of its own that commits only inside the gate: no Sync yet. A text of the simple protocol is
    /// not kept as a prepared statement.
    pub(crate) fn start_gated(&mut self, sql: &str, call: &Call, schema_version: u64, gating: Gating) {
        self.span = self.link.fragment();
        let bind = match &call.parameters {
            Some(parameters) => self.bind(sql, call, parameters, schema_version),
            None => Bind { portal: Bytes::new(), statement: self.parse_unnamed(sql, &[]), ..Bind::default() },
        };
        let describes = self.describes(call, schema_version);
        let out = self.link.connection.out();
        frontend::bind(out, &bind);
        if describes {
            frontend::describe(out, Target::Portal, b"");
        }
        frontend::execute(out, b"", 0);
        frontend::flush(out);
        self.link.connection.owe_sync();
        self.gate = Some(gating);
    }

    /// Sync of [`LeasedConnection::start_gated`]; if the statement is done, not before its plan is found to hold and the gate lets it pass. Without the gtm's lease the
    /// gate is nobody's business any more: the connection is given up, which takes the statement back.
    async fn sync_gated(&mut self, commits: bool) -> Result<()> {
        if let Some(Gating { cancel, cluster, condition }) = self.gate.take() {
            let gtm = &cluster.gtm;
            if let Some(condition) = condition.filter(|condition| commits && !condition.holds_plainly()) {
                condition.holds(&cancel).await.inspect_err(|_| self.link.connection.mark_broken())?;
            }
            if commits {
                let node = [self.link.node().0];
                let entered = cancel.interrupt().or_gate(gtm.enter(&node, || cluster.own_options())).await;
                let entered = entered.and_then(|entered| entered);
                // Without Sync the backend takes the statement back.
                self.pass = Some(entered.inspect_err(|_| self.link.connection.mark_broken())?);
            }
            if commits && !gtm.has_lease() {
                self.pass = None;
                self.link.connection.mark_broken();
                return Err(PgError::new(
                    SqlState::CANNOT_CONNECT_NOW,
                    "the gtm was lost while the statement ran, which was rolled back",
                )
                .hint("Run the statement again."));
            }
            frontend::sync(self.link.connection.out());
            self.committing = commits;
            self.flush().await?;
        }
        Ok(())
    }

    /// An error after which the link is of no use.
    fn lost(&mut self, error: PgError) -> PgError {
        self.pass = None;
        match self.link.connection.is_broken() && std::mem::take(&mut self.committing) {
            true => txn::commit::unknown(self.link.node().0).detail(format!("The last word was: {}.", error.message())),
            false => error,
        }
    }

    /// Queues Parse of a statement that is not kept; gives its name.
    fn parse_unnamed(&mut self, sql: &str, types: &[u32]) -> Bytes {
        frontend::parse(self.link.connection.out(), b"", sql.as_bytes(), types);
        self.parsing.push_back(None);
        Bytes::new()
    }

    /// Queues Parse unless this backend has the statement; gives its name there.
    pub(crate) fn prepare(&mut self, sql: &str, types: &[u32], schema_version: u64) -> Bytes {
        match self.prepare_to_keep(sql, types, schema_version) {
            Some((name, _)) => name,
            None => self.parse_unnamed(sql, types),
        }
    }

    /// [`Self::prepare`] for a statement that can be kept, which not all can: says also whether it was there.
    pub(crate) fn prepare_to_keep(&mut self, sql: &str, types: &[u32], schema_version: u64) -> Option<(Bytes, bool)> {
        let link = &mut self.link;
        for name in link.statements.expire(schema_version) {
            frontend::close(link.connection.out(), Target::Statement, &name);
        }
        if self.has_settings_of_block {
            return None;
        }
        let text = Bytes::copy_from_slice(sql.as_bytes());
        let key = StatementKey { sql: text, types: types.to_vec(), settings: link.applied_settings };
        if let Some(name) = link.statements.get(&key) {
            return Some((name, true));
        }
        if may_read_clock_when_parsed(sql) {
            return None;
        }
        let (name, evicted) = link.statements.insert(key.clone());
        if let Some(old) = evicted {
            frontend::close(link.connection.out(), Target::Statement, &old);
        }
        frontend::parse(link.connection.out(), &name, &key.sql, types);
        self.parsing.push_back(Some(key));
        Some((name, false))
    }

    /// Sends what is queued.
    pub(crate) async fn flush(&mut self) -> Result<()> {
        self.link.connection.flush().await
    }

    /// The next step of the answer. An error is given once everything up to ReadyForQuery is read, so the link is drained
    /// then. Cancel-safe, but for a gated statement: that is only ever given up together with its connection.
    pub(crate) async fn next(&mut self) -> Result<Event> {
        let event = self.read_event().await;
        event.map_err(|error| self.lost(error))
    }

    async fn read_event(&mut self) -> Result<Event> {
        self.skip_preamble().await?;
        loop {
            if let Some(ids) = &mut self.ids {
                // Without them the rest of the answer means nothing to the client.
                ids.learn().await.inspect_err(|_| self.link.connection.mark_broken())?;
            }
            let run_tag = if self.copying_out { tag::COPY_DATA } else { tag::DATA_ROW };
            let frame = match self.link.connection.recv_run(run_tag).await? {
                Run::Frames(..) if self.own_answers > 0 => continue,
                Run::Frames(bytes, count) if run_tag == tag::DATA_ROW => {
                    let rewritten = match &self.ids {
                        Some(ids) => ids.rewritten(bytes).inspect_err(|_| self.link.connection.mark_broken())?,
                        None => bytes,
                    };
                    return Ok(Event::Rows(rewritten, count));
                }
                Run::Frames(bytes, _) => return Ok(Event::CopyData(bytes)),
                Run::Other(frame) => frame,
            };
            match frame.tag {
                tag::ROW_DESCRIPTION => {
                    let for_client = match &mut self.ids {
                        Some(ids) => ids.described(frame.body),
                        None => Some(frame.body),
                    };
                    if let Some(body) = for_client {
                        return Ok(Event::Description(body));
                    }
                }
                tag::COMMAND_COMPLETE if self.own_answers > 0 => {
                    self.own_answers -= 1;
                    if self.own_answers == 0 {
                        self.read_barrier_answered();
                    }
                }
                tag::COMMAND_COMPLETE => {
                    self.sync_gated(true).await?;
                    return Ok(Event::Complete(backend::decode_command_complete(frame.body)?));
                }
                tag::EMPTY_QUERY => {
                    self.sync_gated(true).await?;
                    return Ok(Event::Empty);
                }
                tag::COPY_IN => return Ok(Event::CopyIn(backend::decode_copy_response(frame.body)?.1)),
                tag::COPY_OUT => {
                    self.copying_out = true;
                    return Ok(Event::CopyOut(frame.body));
                }
                tag::COPY_DONE => self.copying_out = false,
                tag::PARSE_COMPLETE => drop(self.parsing.pop_front()),
                tag::BIND_COMPLETE | tag::CLOSE_COMPLETE | tag::NO_DATA | tag::PARAMETER_DESCRIPTION => {}
                tag::PORTAL_SUSPENDED => return Ok(Event::Suspended),
                tag::ERROR => {
                    self.copying_out = false;
                    let error = PgError::decode_body(frame.body);
                    self.link.has_refused(&error);
                    let error = match self.withholds_temp {
                        true => said_without_ours(error, self.link.database()),
                        false => error,
                    };
                    // That a datanode ends its session is no reason to end the client's.
                    let error = match error.is_fatal() {
                        true => error.of_a_statement().detail("A datanode ended the session that worked for this one."),
                        false => error,
                    };
                    self.failure.get_or_insert(error);
                    if self.link.connection.is_broken() {
                        return Err(self.failure.take().unwrap_or_else(|| PgError::connection("the datanode is gone")));
                    }
                    self.sync_gated(false).await?;
                }
                tag::READY_FOR_QUERY => {
                    (self.pass, self.committing) = (None, false);
                    self.span = tracing::Span::none();
                    self.ids = None;
                    self.forget_unanswered();
                    let Some(error) = self.failure.take() else {
                        self.read_barrier_passed();
                        return Ok(Event::Done);
                    };
                    self.read_barrier_failed();
                    self.give_up_without_statements(&error);
                    return Err(error);
                }
                other => return Err(unexpected(other, "a query")),
            }
        }
    }

    /// Reads the rest of an answer, dropping rows; the first error is returned.
    pub(crate) async fn finish(&mut self) -> Result<Option<String>> {
        let mut command_tag = None;
        loop {
            match self.next().await? {
                Event::Done => return Ok(command_tag),
                Event::Complete(tag) => command_tag = Some(tag),
                Event::CopyIn(_) => {
                    frontend::copy_fail(self.link.connection.out(), b"the coordinator gave up");
                    self.flush().await?;
                }
                _ => {}
            }
        }
    }

    /// Queues Parse of a statement before a description, which it fails if PostgreSQL has something against the statement.
    pub(crate) fn start_parse(&mut self, sql: &str, types: &[u32]) {
        frontend::parse(self.link.connection.out(), b"", sql.as_bytes(), types);
    }

    /// Queues Parse and Describe of a statement without keeping it; [`LeasedConnection::read_description`] reads the answer.
    pub(crate) fn start_describe(&mut self, sql: &str, types: &[u32]) {
        self.start_parse(sql, types);
        frontend::describe(self.link.connection.out(), Target::Statement, b"");
        self.link.connection.sync();
    }

    /// Parameter types and result columns (`None` for a statement that gives no rows).
    pub(crate) async fn read_description(&mut self) -> Result<(Vec<u32>, Option<Vec<Field>>)> {
        self.skip_preamble().await?;
        let (mut types, mut fields, mut failure) = (Vec::new(), None, None);
        loop {
            let frame = self.link.connection.recv().await?;
            match frame.tag {
                tag::PARAMETER_DESCRIPTION => types = backend::decode_parameter_description(frame.body)?,
                tag::ROW_DESCRIPTION => fields = Some(backend::decode_row_description(frame.body)?),
                tag::ERROR => {
                    let error = PgError::decode_body(frame.body);
                    self.link.has_refused(&error);
                    failure = Some(error);
                }
                tag::READY_FOR_QUERY => return failure.map_or(Ok((types, fields)), Err),
                tag::PARSE_COMPLETE | tag::NO_DATA => {}
                other => return Err(unexpected(other, "a description")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_does_not_hear_of_schemas_that_are_not_his() {
        let error = |message: &str| PgError::new(SqlState::INSUFFICIENT_PRIVILEGE, message);
        let told = said_without_ours(error("permission denied for schema pg_temp_3"), "db");
        assert_eq!(told.message(), "permission denied to create temporary tables in database \"db\"");
        assert_eq!(
            said_without_ours(error("permission denied for schema s"), "db").message(),
            "permission denied for schema s"
        );
    }
}
