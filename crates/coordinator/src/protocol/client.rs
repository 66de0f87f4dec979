//! One client's connection: the message loop and what both query protocols share.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use executor::{Call, CancelSet, Completion, IDLE_IN_TRANSACTION, IDLE_SESSION, Output, Session};
use pgerror::{PgError, Result, SqlState, field};
use pgproto::frontend::tag;
use pgproto::{FrameReader, FrameWriter, backend};
use planner::Plan;
use planner::parse::{Statement, StatementKind, Transaction};

use crate::protocol::listener::Shared;
use crate::protocol::prepared::{Portal, Prepared};
use crate::protocol::simple::text;
use crate::routines::Wanted;

/// Bytes of a client's further messages read ahead while a statement runs; more wait in the socket.
const READ_AHEAD_BYTES: usize = 1024 * 1024;

/// Plans that a statement gets, one after the other, while schema changes of others make each of them void.
const NEW_PLANS_MAX: usize = 10;

/// A client that has authenticated.
pub(crate) struct Client {
    pub(crate) shared: Arc<Shared>,
    pub(crate) reader: FrameReader,
    pub(crate) writer: FrameWriter,
    pub(crate) session: Box<Session>,
    /// Statements of Parse, by name; the unnamed one has the empty name.
    pub(crate) prepared: HashMap<Bytes, Arc<Prepared>>,
    /// Statements of SQL's PREPARE share PostgreSQL's one name space with those of Parse.
    pub(crate) portals: HashMap<Bytes, Portal>,
    /// SQL cursors: where they live.
    pub(crate) cursors: HashMap<String, crate::session_commands::cursors::Cursor>,
    /// The open block was opened by us, for the statements of one Query or up to the next Sync.
    pub(crate) implicit_block: bool,
    /// After an error in the extended protocol messages are skipped up to Sync.
    pub(crate) skip_to_sync: bool,
    /// True once the coordinator is told to end.
    stopping: tokio::sync::watch::Receiver<bool>,
    /// Executions that wait for more of their kind.
    pub(crate) waiting: crate::protocol::insert_batches::Waiting,
    /// Rows of statements go here, not to the client: they are those of a function's body.
    pub(crate) capture: Option<executor::Spool>,
    /// Functions and blocks that the coordinator runs.
    pub(crate) routines: crate::routines::Routines,
    /// Settings last reported by ParameterStatus.
    pub(crate) reported: HashMap<String, String>,
    /// The client is pg_dump: our own schema is hidden from it.
    is_dump: bool,
    key: (i32, i32),
}

/// 42703 and 42P01 come before the first row does.
fn speaks_of_names(error: &PgError) -> bool {
    [SqlState::UNDEFINED_COLUMN, SqlState::UNDEFINED_TABLE].contains(&error.code())
}

/// Has the client not been told of columns that a table made anew might not have?
pub(crate) fn keeps_columns(statement: &Statement, call: &Call) -> bool {
    call.parameters.is_none() || statement.only_changes()
}

fn is_read_as(sql: &str, is_so: impl Fn(&Statement) -> bool) -> bool {
    planner::parse(sql).is_ok_and(|statements| statements.iter().all(is_so))
}

/// Statements that may be planned by their shape.
fn is_plain(kind: &StatementKind) -> bool {
    use StatementKind::{Delete, Insert, Select, Update};
    matches!(kind, Select | Insert | Update | Delete)
}

/// Does the work while watching the client: when it hangs up, what runs is cancelled and the session ends.
pub(crate) async fn watched<T>(
    reader: &mut FrameReader,
    cancel: &CancelSet,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    tokio::select! {
        biased;
        result = work => result,
        gone = reader.closed(READ_AHEAD_BYTES) => {
            cancel.cancel().await;
            Err(gone.with(field::SEVERITY, "FATAL"))
        }
    }
}

/// The same for what is not to be dropped half-way: its end is waited for.
pub(crate) async fn finished<T>(
    reader: &mut FrameReader,
    cancel: &CancelSet,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    tokio::pin!(work);
    let gone = tokio::select! {
        biased;
        result = &mut work => return result,
        gone = reader.closed(READ_AHEAD_BYTES) => gone,
    };
    cancel.cancel().await;
    let _ = work.await;
    Err(gone.with(field::SEVERITY, "FATAL"))
}

fn stopped() -> PgError {
    PgError::fatal(SqlState::ADMIN_SHUTDOWN, "terminating connection due to administrator command")
}

impl Client {
    pub(crate) fn new(
        shared: Arc<Shared>,
        reader: FrameReader,
        mut writer: FrameWriter,
        session: Box<Session>,
        is_dump: bool,
    ) -> Self {
        let key = shared.register(session.cancel_set(), rand::random());
        backend::backend_key_data(writer.buffer(), key.0, key.1);
        backend::ready_for_query(writer.buffer(), b'I');
        Self {
            stopping: shared.stopping.subscribe(),
            shared,
            reader,
            writer,
            session,
            prepared: HashMap::new(),
            portals: HashMap::new(),
            cursors: HashMap::new(),
            implicit_block: false,
            skip_to_sync: false,
            waiting: Default::default(),
            capture: None,
            routines: Default::default(),
            reported: HashMap::new(),
            is_dump,
            key,
        }
    }

    /// Process id and secret of this session's cancel key.
    pub(crate) fn key(&self) -> (i32, i32) {
        self.key
    }

    /// Serves the client to its end; open transactions are rolled back.
    pub(crate) async fn run(mut self) -> Result<()> {
        let result = self.message_loop().await;
        if let Err(error) = &result {
            // Best effort: the client may be gone.
            backend::error(self.writer.buffer(), error);
            let _ = self.writer.shutdown().await;
        }
        self.session.end().await;
        result
    }

    async fn message_loop(&mut self) -> Result<()> {
        // Has all that was asked for been answered, so that the session is idle until the next message?
        let mut answered = true;
        loop {
            let Some(frame) = self.next_frame(answered).await? else { return Ok(()) };
            if !self.goes_on(&frame) {
                self.depart().await?;
            }
            // After an error of the extended protocol nothing counts until Sync, whatever it is.
            let is_skipped = self.skip_to_sync;
            answered = frame.tag == tag::SYNC || matches!(frame.tag, tag::QUERY | tag::FUNCTION_CALL) && !is_skipped;
            match frame.tag {
                tag::TERMINATE => return Ok(()),
                tag::SYNC => self.sync().await?,
                _ if is_skipped => {}
                tag::QUERY => self.query(frame.body).await?,
                // What is left of a COPY that failed.
                tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL => {}
                tag::FUNCTION_CALL => self.function_call(frame.body).await?,
                other => self.extended(other, frame.body).await?,
            }
        }
    }

    async fn next_frame(&mut self, is_idle: bool) -> Result<Option<pgproto::Frame>> {
        let timeout = if is_idle { self.idle_timeout() } else { None };
        loop {
            if *self.stopping.borrow() {
                return Err(stopped());
            }
            if let Some(frame) = self.reader.try_next()? {
                return Ok(Some(frame));
            }
            if self.session.has_pipeline() {
                // Meanwhile more may have been read.
                self.depart().await?;
                continue;
            }
            self.writer.flush_stream().await?;
            let idle = async {
                match &timeout {
                    Some((limit, error)) => {
                        tokio::time::sleep(*limit).await;
                        error.clone()
                    }
                    None => std::future::pending().await,
                }
            };
            let stopping = &mut self.stopping;
            let told_to_stop = async { drop(stopping.wait_for(|stops| *stops).await) };
            let filled = tokio::select! {
                biased;
                filled = self.reader.fill() => filled,
                notification = self.session.next_notification() => {
                    self.send_frame(&notification?);
                    continue;
                }
                error = idle => return Err(error),
                () = told_to_stop => return Err(stopped()),
            };
            if filled? == 0 {
                return Ok(None);
            }
        }
    }

    /// How long the session may be idle now, and what the client is told then.
    fn idle_timeout(&self) -> Option<(Duration, PgError)> {
        let (name, code, words) = match self.session.status() {
            b'I' => (IDLE_SESSION, SqlState::IDLE_SESSION_TIMEOUT, "idle-session"),
            _ => (IDLE_IN_TRANSACTION, SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT, "idle-in-transaction"),
        };
        let limit = executor::duration(self.session.own_setting(name)?)?;
        Some((limit, PgError::fatal(code, format!("terminating connection due to {words} timeout"))))
    }

    /// Runs one statement in the session's transaction state. The block, if there is one, fails with it.
    pub(crate) async fn execute(
        &mut self,
        statement: &Statement,
        call: &Call,
        mut spool: Option<&mut executor::Spool>,
    ) -> Result<Completion> {
        self.refuse_in_failed_block(&statement.kind)?;
        let result = match self.execute_unguarded(statement, call, spool.as_deref_mut()).await {
            Ok(_) if self.routines.wanted.is_some() => self.run_wanted(spool).await,
            result => result,
        };
        let result = self.all_fired(result);
        let result = self.session.judged(result).await;
        self.after_statement(result.is_err()).await;
        result
    }

    /// No trigger is left that should have run.
    pub(crate) fn all_fired<T>(&mut self, result: Result<T>) -> Result<T> {
        let fired = self.session.no_trigger_events(result.is_err());
        result.and_then(|value| fired.map(|()| value))
    }

    pub(crate) async fn after_statement(&mut self, failed: bool) {
        if failed {
            self.session.fail();
            self.session.release();
            self.session.give_up_locks().await;
        }
        self.ask_left().await;
        self.send_notices();
    }

    pub(crate) fn send_notices(&mut self) {
        for frame in self.session.take_notices() {
            match self.routines.with_context(&frame) {
                Some(frame) => self.send_frame(&frame),
                None => self.send_frame(&frame),
            }
        }
    }

    fn send_frame(&mut self, frame: &pgproto::Frame) {
        pgproto::frame::put_frame(self.writer.buffer(), frame.tag, |out| out.extend_from_slice(&frame.body));
    }

    /// Whatever the statement has left in the backends is seen to. If that fails, they are closed: of the statement there is
    /// nothing to say any more.
    async fn ask_left(&mut self) {
        if let Err(error) = self.session.ask_left().await {
            self.session.fail();
            self.session.notice(&PgError::with_severity("WARNING", error.code(), error.message().into_owned()));
        }
    }

    /// To be called before ReadyForQuery: what others have notified meanwhile, and the session itself.
    pub(crate) async fn deliver_notifications(&mut self) -> Result<()> {
        self.ask_left().await;
        for frame in self.session.notifications().await? {
            self.send_frame(&frame);
        }
        Ok(())
    }

    /// Runs a statement of which one like it was planned before; `None`: it has to take the long way.
    pub(crate) async fn execute_quickly(&mut self, sql: &str, call: &Call) -> Option<Result<Completion>> {
        let quick = match self.session.plan_quickly(sql, call) {
            Some(quick) => quick,
            None => self.session.plan_by_first_row(sql, call).await?,
        };
        let version = self.session.catalog_version();
        let result = self.watch(&quick.plan, quick.call.as_ref().unwrap_or(call), None).await;
        let result = match result {
            Err(error) if is_rewritten(&quick.plan) => Err(self.placed_by_home(sql, &quick.plan, error).await),
            result => result.map_err(|error| quick.place(error)),
        };
        if let Err(error) = &result
            && !self.session.in_block()
            && (quick.is_stale(error)
                || (self.session.must_replan() && is_read_as(sql, |statement| keeps_columns(statement, call)))
                || (speaks_of_names(error) && !self.session.is_current(version)))
        {
            self.session.release();
            return None;
        }
        let result = self.session.judged(result).await;
        self.after_statement(result.is_err()).await;
        Some(result)
    }

    /// A command of the session's own whose rows are to be kept.
    async fn command_into(
        &mut self,
        spool: &mut executor::Spool,
        statement: &Statement,
        call: &Call,
    ) -> Result<Option<Completion>> {
        let before = self.capture.replace(std::mem::take(spool));
        let ended = self.command(statement, call).await;
        *spool = std::mem::replace(&mut self.capture, before).unwrap_or_default();
        ended
    }

    pub(crate) async fn execute_unguarded(
        &mut self,
        statement: &Statement,
        call: &Call,
        mut spool: Option<&mut executor::Spool>,
    ) -> Result<Completion> {
        if changes_rows(&statement.kind) {
            self.rows_may_change();
        }
        if spool.is_none()
            && is_plain(&statement.kind)
            && let Some(result) = self.execute_quickly(&statement.sql, call).await
        {
            return result;
        }
        let ended = match &mut spool {
            Some(spool) => self.command_into(spool, statement, call).await?,
            None => self.command(statement, call).await?,
        };
        if let Some(ended) = ended {
            return Ok(ended);
        }
        let plan = self.plan(statement, call).await?;
        let version = self.session.catalog_version();
        let moves_data = matches!(plan, Plan::CopyFrom(_) | Plan::CopyHome(_) | Plan::CopyTo(_));
        let may_retry = !self.session.in_block() && spool.is_none() && !moves_data;
        match self.run_plan(&plan, statement, call, spool.as_deref_mut()).await {
            // The names in our own texts were those of a catalog that another session has changed meanwhile.
            Err(error) if may_retry && speaks_of_names(&error) => {
                self.session.release();
                let plan = self.session.plan(statement, call, None).await?;
                match self.session.catalog_version() == version {
                    true => Err(error),
                    false => self.run_plan(&plan, statement, call, None).await,
                }
            }
            Err(_) if self.session.gathers() => self.run_anew(statement, call, spool).await,
            Err(_) if may_retry && self.session.must_replan() && keeps_columns(statement, call) => {
                self.run_anew(statement, call, spool).await
            }
            Err(error) if is_rewritten(&plan) => Err(self.placed_by_home(&statement.sql, &plan, error).await),
            result => result,
        }
    }

    /// The error of a statement of which the nodes got other texts, with its place in the user's: PostgreSQL shows it for a
    /// value that is none of its type.
    async fn placed_by_home(&mut self, sql: &str, plan: &Plan, error: PgError) -> PgError {
        let error = if let Plan::InsertSplit(_) = plan { error.without(field::POSITION) } else { error };
        self.placed(sql, error).await
    }

    /// The same for an error whose place, if it has one, is in the user's text.
    pub(crate) async fn placed(&mut self, sql: &str, error: PgError) -> PgError {
        match error.code().as_str().starts_with("22") && !has_place(&error) {
            true => self.session.as_read_by_home(sql, error).await,
            false => error,
        }
    }

    /// Runs a statement by new plans until one holds: schema changes of others may come one after the other.
    pub(crate) async fn run_anew(
        &mut self,
        statement: &Statement,
        call: &Call,
        mut spool: Option<&mut executor::Spool>,
    ) -> Result<Completion> {
        let mut tries = 1;
        loop {
            self.session.release();
            let plan = self.plan(statement, call).await?;
            match self.run_plan(&plan, statement, call, spool.as_deref_mut()).await {
                Err(_) if self.session.must_replan() && tries < NEW_PLANS_MAX => tries += 1,
                ended => return ended,
            }
        }
    }

    async fn plan(&mut self, statement: &Statement, call: &Call) -> Result<Plan> {
        let cancel = self.session.cancel_set();
        watched(&mut self.reader, &cancel, self.session.plan(statement, call, None)).await
    }

    /// Runs a plan while watching the client: one that hangs up has its statement cancelled.
    pub(crate) async fn run_plan(
        &mut self,
        plan: &Plan,
        statement: &Statement,
        call: &Call,
        spool: Option<&mut executor::Spool>,
    ) -> Result<Completion> {
        match plan {
            Plan::CopyFrom(copy) => return self.copy_from(copy, statement).await,
            Plan::CopyHome(copy) => return self.copy_home(copy, statement).await,
            Plan::CopyTo(copy) => return self.copy_to(copy, statement).await,
            Plan::Routine(routine) => {
                self.rows_may_change();
                self.routines.wanted = Some(Wanted::new(routine, statement, call));
                return Ok(Completion::Empty);
            }
            _ => {}
        }
        let makes_temp_table =
            statement.kind == StatementKind::CreateTableAs && matches!(plan, Plan::Forward(_) | Plan::Gather(_));
        if makes_temp_table {
            self.session.keep_temp_objects();
        }
        let completion = self.watch(plan, call, spool).await?;
        if makes_temp_table {
            self.session.keep_temp_objects();
        }
        check_tag(statement, &completion)?;
        Ok(completion)
    }

    async fn watch(&mut self, plan: &Plan, call: &Call, spool: Option<&mut executor::Spool>) -> Result<Completion> {
        let mut output = match spool {
            Some(spool) => Output::spool(spool),
            None => output(&mut self.capture, &mut self.writer),
        };
        let cancel = self.session.cancel_set();
        watched(&mut self.reader, &cancel, self.session.run(plan, call, &mut output)).await
    }

    /// The statements of a text.
    pub(crate) async fn parsed(&mut self, sql: &[u8]) -> Result<Arc<Vec<Statement>>> {
        let sql = text(sql)?;
        let parsed = executor::lengthy(sql.len(), || match self.is_dump {
            true => planner::parse_for_dump(sql).map(Arc::new),
            false => self.shared.statements.parse(sql),
        });
        match parsed {
            Err(error) if error.code() == SqlState::SYNTAX_ERROR => Err(self.session.as_read_by_home(sql, error).await),
            parsed => parsed,
        }
    }

    pub(crate) fn refuse_in_failed_block(&self, kind: &StatementKind) -> Result<()> {
        use Transaction::{Commit, Prepare, Rollback, RollbackTo};
        let ends = matches!(
            kind,
            StatementKind::Transaction(Commit { .. } | Rollback { .. } | RollbackTo { .. } | Prepare { .. })
        );
        if self.session.status() == b'E' && !ends {
            return Err(PgError::new(
                SqlState::IN_FAILED_SQL_TRANSACTION,
                "current transaction is aborted, commands ignored until end of transaction block",
            ));
        }
        Ok(())
    }

    /// Sends the last message of a statement's answer.
    pub(crate) fn send_completion(&mut self, completion: &Completion) {
        match completion {
            Completion::Tag(tag) => backend::command_complete(self.writer.buffer(), tag),
            Completion::Empty => backend::bare(self.writer.buffer(), backend::tag::EMPTY_QUERY),
        }
    }

    /// Sends an error of a statement; a position counts from the start of the whole query string.
    pub(crate) fn send_error(&mut self, error: PgError, offset: usize) {
        let position = error.text(field::POSITION).parse::<usize>().ok();
        let error = match position {
            Some(position) if offset > 0 => error.position(position + offset),
            _ => error,
        };
        backend::error(self.writer.buffer(), &error);
    }

    /// ReadyForQuery, and before it what has changed of the reported settings.
    pub(crate) fn ready(&mut self) {
        backend::ready_for_query(self.writer.buffer(), self.session.status());
    }

    /// COMMIT. A client that hangs up meanwhile ends its waits, not what is decided.
    pub(crate) async fn commit(&mut self) -> Result<&'static str> {
        let cancel = self.session.cancel_set();
        finished(&mut self.reader, &cancel, self.session.commit()).await
    }

    /// Is the statement, standing alone, a SERIALIZABLE transaction over rows? It gets a block.
    pub(crate) fn is_serializable_alone(&self, statement: &Statement) -> bool {
        use StatementKind::{Copy, CreateTableAs, Delete, Execute, Explain, Insert, Merge, Select, Update};
        let has_rows = matches!(
            statement.kind,
            Select | Insert | Update | Delete | Merge | Copy(_) | Explain(_) | Execute { .. } | CreateTableAs
        );
        has_rows && self.session.alone_is_serializable()
    }

    /// Ends the block that we opened ourselves.
    pub(crate) async fn end_implicit_block(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.implicit_block) || !self.session.in_block() {
            return Ok(());
        }
        self.portals.clear();
        if self.session.status() == b'E' {
            self.session.rollback().await;
            self.transaction_ended(false);
            return Ok(());
        }
        self.session.statement_begins();
        let result = self.commit().await.map(|_| ());
        self.transaction_ended(result.is_ok());
        self.session.judged(result).await
    }
}

/// May it change rows by itself?
fn changes_rows(kind: &StatementKind) -> bool {
    use StatementKind::{
        CloseCursor, Deallocate, DeclareCursor, Discard, Execute, Explain, Fetch, Listen, Notify, Prepare,
    };
    use StatementKind::{Constraints, Select, Set, Show, Unlisten};
    match kind {
        Select | Set(_) | Show { .. } | Constraints | Fetch(_) | CloseCursor { .. } | DeclareCursor(_) => false,
        Prepare { .. } | Execute { .. } | Deallocate { .. } | Listen { .. } | Notify { .. } | Unlisten { .. } => false,
        StatementKind::Transaction(modes) => matches!(modes, Transaction::RollbackTo { .. }),
        Explain(explain) => explain.analyze,
        Discard(_) => false,
        _ => true,
    }
}

/// Where rows go.
pub(crate) fn output<'a>(capture: &'a mut Option<executor::Spool>, writer: &'a mut FrameWriter) -> Output<'a> {
    match capture {
        Some(spool) => Output::spool(spool),
        None => Output::client(writer),
    }
}

/// Do the nodes get other texts than the user's?
fn is_rewritten(plan: &Plan) -> bool {
    match plan {
        Plan::FirstCopy(first) => is_rewritten(&first.plan),
        _ => matches!(plan, Plan::InsertSplit(_) | Plan::InsertStaged(_) | Plan::StagedDml(_)),
    }
}

/// Was it this statement that was done, and not what a plan of another kind does? The client has not been told yet.
fn check_tag(statement: &Statement, completion: &Completion) -> Result<()> {
    let Some(word) = statement.kind.row_command() else { return Ok(()) };
    match completion {
        Completion::Tag(tag) if tag.split(' ').next() == Some(word) => Ok(()),
        Completion::Tag(tag) => Err(PgError::internal(format!("{word} was answered with \"{tag}\""))),
        Completion::Empty => Err(PgError::internal(format!("{word} was not answered"))),
    }
}

fn has_place(error: &PgError) -> bool {
    error.get(field::POSITION).is_some() || error.get(field::WHERE).is_some()
}
