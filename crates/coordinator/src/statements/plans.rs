//! Plans of a statement, and new ones when a schema change of another session has made them void.

use std::pin::pin;

use executor::{Call, Completion, Quick, Spool};
use pgerror::{PgError, Result, SqlState, field};
use planner::Plan;
use planner::parse::{Statement, StatementKind, Transaction};

use super::{Ran, Statements};
use crate::routines::Wanted;

/// The savepoint before a statement whose plan may not hold.
const CARE: &str = "loxo buckets move";

/// Plans that a statement gets, one after the other, while schema changes of others make each of them void.
pub(super) const NEW_PLANS_MAX: usize = 10;

/// What came of a statement that may have been planned before.
pub(crate) enum Quickly {
    Ended(Result<Completion>),
    /// It has to take the long way.
    NotPlanned,
    /// Buckets have moved meanwhile: it has to take the long way, if the schema is the same there.
    Moved(SameSchema),
}

/// The schema with which a statement must be planned, whose columns the client has been told.
pub(crate) struct SameSchema {
    version: u64,
    /// What is to be said if it is not.
    error: PgError,
}

impl SameSchema {
    pub(super) fn new(version: u64, error: PgError) -> Self {
        Self { version, error }
    }
}

impl Statements {
    /// Runs a statement of which one like it was planned before.
    pub(crate) async fn execute_quickly(&mut self, sql: &str, call: &Call) -> Quickly {
        let planned = match self.own.session.plan_quickly(sql, call) {
            Some(quick) if quick.lacks_moment() => self.at_block_time(quick, sql, call).await,
            Some(quick) => Ok(Some(quick)),
            None => self.plan_by_single_rows(sql, call).await,
        };
        let quick = match planned {
            Ok(Some(quick)) => quick,
            Ok(None) => return Quickly::NotPlanned,
            Err(error) => return Quickly::Ended(self.ended_quickly(Err(error)).await),
        };
        executor::count_plan(false);
        let (version, schema) = (self.own.session.catalog_version(), self.own.session.schema_version());
        let result = self.watch(&quick.plan, quick.call.as_ref().unwrap_or(call), None).await;
        let result = match result {
            Err(error) if quick.is_completed => Err(self.own.session.as_whole_read_by_home(sql, call, error).await),
            Err(error) if quick.plan.facts().is_rewritten => {
                Err(self.placed_by_home(sql, &quick.plan, call, error).await)
            }
            result => result.map_err(|error| quick.place(error)),
        };
        if let Err(error) = &result
            && !self.own.session.in_block()
        {
            let must_replan = self.own.session.must_replan();
            if quick.is_stale(error)
                || (must_replan && is_read_as(sql, |statement| keeps_columns(statement, call)))
                || (speaks_of_names(error) && !self.own.session.is_current(version))
            {
                self.own.session.release();
                return Quickly::NotPlanned;
            }
            if must_replan && self.own.session.schema_is(schema) {
                self.own.session.release();
                return Quickly::Moved(SameSchema::new(schema, error.clone()));
            }
        }
        Quickly::Ended(self.ended_quickly(result).await)
    }

    async fn plan_by_single_rows(&mut self, sql: &str, call: &Call) -> Result<Option<Quick>> {
        let cancel = self.own.session.cancel_set();
        self.own.socket.watch().during(&cancel, pin!(self.own.session.plan_by_single_rows(sql, call))).await
    }

    async fn at_block_time(&mut self, quick: Quick, sql: &str, call: &Call) -> Result<Option<Quick>> {
        let cancel = self.own.session.cancel_set();
        self.own.socket.watch().during(&cancel, pin!(self.own.session.at_block_time(quick, sql, call))).await
    }

    async fn with_moments_read(&mut self, call: &Call) -> Result<Call> {
        let cancel = self.own.session.cancel_set();
        self.own.socket.watch().during(&cancel, pin!(self.own.session.with_moments_read(call))).await
    }

    async fn ended_quickly(&mut self, result: Result<Completion>) -> Result<Completion> {
        let result = self.own.session.judged(result).await;
        self.after_statement(result.is_err()).await;
        result
    }

    /// A command of the session's own whose rows are to be kept.
    async fn command_into(&mut self, spool: &mut Spool, statement: &Statement, call: &Call) -> Result<Option<Ran>> {
        let before = self.own.socket.rows_into(Some(std::mem::take(spool)));
        let ended = self.command(statement, call).await;
        *spool = self.own.socket.rows_into(before).unwrap_or_default();
        ended
    }

    /// Runs a statement, without a look at the block it is in.
    pub(super) async fn execute_unguarded(
        &mut self,
        statement: &Statement,
        call: &Call,
        spool: Option<&mut Spool>,
    ) -> Result<Ran> {
        match statement.kind.row_command().is_some() && self.own.session.plans_need_care() {
            true => Box::pin(self.execute_with_care(statement, call, spool)).await,
            false => self.execute_plainly(statement, call, spool).await,
        }
    }

    /// In a block whose other statements must not be lost: goes back to a savepoint when buckets have moved between the statement's
    /// plan and its locks.
    async fn execute_with_care(
        &mut self,
        statement: &Statement,
        call: &Call,
        mut spool: Option<&mut Spool>,
    ) -> Result<Ran> {
        let mut tries = 1;
        loop {
            self.own.session.savepoint(CARE).await?;
            let ran = self.execute_plainly(statement, call, spool.as_deref_mut()).await;
            match ran {
                Err(_)
                    if tries < NEW_PLANS_MAX
                        && spool.is_none()
                        && self.own.session.must_replan()
                        && keeps_columns(statement, call) =>
                {
                    self.own.session.rollback_to(CARE).await?;
                    self.own.session.release_savepoint(CARE).await?;
                    // What has fired is undone, too.
                    self.own.session.no_trigger_events(true)?;
                    tries += 1;
                }
                Err(error) => return Err(error),
                Ok(ran) => {
                    self.own.session.release_savepoint(CARE).await?;
                    return Ok(ran);
                }
            }
        }
    }

    async fn execute_plainly(
        &mut self,
        statement: &Statement,
        call: &Call,
        mut spool: Option<&mut Spool>,
    ) -> Result<Ran> {
        let by_key = self.own.at_current(statement).await?;
        let statement = by_key.as_ref().unwrap_or(statement);
        if changes_rows(&statement.kind) {
            self.own.rows_may_change();
        }
        let gives_moments = self.own.session.gives_moments(call);
        let in_block = match gives_moments && self.own.session.in_block() {
            true => Some(self.with_moments_read(call).await?),
            false => None,
        };
        let is_one_moment = !gives_moments || in_block.is_some();
        let call = in_block.as_ref().unwrap_or(call);
        let mut wanted = None;
        if spool.is_none() && is_plain(&statement.kind) && is_one_moment {
            match self.execute_quickly(&statement.sql, call).await {
                Quickly::Ended(result) => return result.map(Ran::Done),
                Quickly::Moved(schema) => wanted = Some(schema),
                Quickly::NotPlanned => {}
            }
        }
        let ended = match &mut spool {
            Some(spool) => self.command_into(spool, statement, call).await?,
            None => self.command(statement, call).await?,
        };
        if let Some(ended) = ended {
            return Ok(ended);
        }
        let mut plan = self.plan_with(wanted.as_ref(), statement, call).await?;
        let read;
        let call = match is_one_moment || self.own.session.reads_moments_by(&plan) {
            true => call,
            false => {
                read = self.with_moments_read(call).await?;
                plan = self.plan_with(wanted.as_ref(), statement, &read).await?;
                &read
            }
        };
        let (version, schema) = (self.own.session.catalog_version(), self.own.session.schema_version());
        let moves_data = matches!(plan, Plan::CopyFrom(_) | Plan::CopyHome(_) | Plan::CopyTo(_));
        let stands_alone = !self.own.session.in_block() && spool.is_none();
        let may_retry = stands_alone && !moves_data;
        // Only before the client is asked for rows does a COPY say so.
        let may_begin_anew = stands_alone && matches!(plan, Plan::CopyFrom(_));
        match self.run_plan(&plan, statement, call, spool.as_deref_mut()).await {
            // The names in our own texts were those of a catalog that another session has changed meanwhile.
            Err(error) if may_retry && speaks_of_names(&error) => {
                self.own.session.release();
                let plan = self.own.session.plan(statement, call, None).await?;
                match self.own.session.catalog_version() == version {
                    true => Err(error),
                    false => self.run_plan(&plan, statement, call, None).await,
                }
            }
            Err(_) if self.own.session.gathers() => self.run_anew(statement, call, spool, None).await,
            Err(_)
                if (may_retry && keeps_columns(statement, call) || may_begin_anew)
                    && self.own.session.must_replan() =>
            {
                self.run_anew(statement, call, spool, None).await
            }
            Err(error) if may_retry && self.own.session.must_replan() && self.own.session.schema_is(schema) => {
                self.run_anew(statement, call, spool, Some(SameSchema::new(schema, error))).await
            }
            Err(error) if plan.facts().is_rewritten => {
                Err(self.placed_by_home(&statement.sql, &plan, call, error).await)
            }
            result => result,
        }
    }

    /// The error of a statement of which the nodes got other texts, with its place in the user's: PostgreSQL shows it for a
    /// value that is none of its type.
    async fn placed_by_home(&mut self, sql: &str, plan: &Plan, call: &Call, error: PgError) -> PgError {
        match plan {
            Plan::InsertSplit(_) => self.own.session.as_whole_read_by_home(sql, call, error).await,
            _ => self.placed(sql, error).await,
        }
    }

    /// The error of a text of the user's own, with the place in it that the home node gives.
    pub(super) async fn placed(&mut self, sql: &str, error: PgError) -> PgError {
        match error.code().as_str().starts_with("22") && !has_place(&error) {
            true => self.own.session.as_read_by_home(sql, error).await,
            false => error,
        }
    }

    /// Runs a statement by new plans until one holds: schema changes of others may come one after the other.
    pub(super) async fn run_anew(
        &mut self,
        statement: &Statement,
        call: &Call,
        mut spool: Option<&mut Spool>,
        wanted: Option<SameSchema>,
    ) -> Result<Ran> {
        let mut tries = 1;
        loop {
            self.own.session.release();
            self.own.session.no_trigger_events(true)?;
            let plan = self.plan_with(wanted.as_ref(), statement, call).await?;
            match self.run_plan(&plan, statement, call, spool.as_deref_mut()).await {
                Err(_) if self.own.session.must_replan() && tries < NEW_PLANS_MAX => tries += 1,
                ended => return ended,
            }
        }
    }

    async fn plan_with(&mut self, wanted: Option<&SameSchema>, statement: &Statement, call: &Call) -> Result<Plan> {
        let plan = self.plan(statement, call).await?;
        match wanted {
            Some(wanted) if wanted.version != self.own.session.schema_version() => Err(wanted.error.clone()),
            _ => Ok(plan),
        }
    }

    async fn plan(&mut self, statement: &Statement, call: &Call) -> Result<Plan> {
        let cancel = self.own.session.cancel_set();
        self.own.socket.watch().during(&cancel, pin!(self.own.session.plan(statement, call, None))).await
    }

    /// Runs a plan while watching the client: one that hangs up has its statement cancelled.
    pub(super) async fn run_plan(
        &mut self,
        plan: &Plan,
        statement: &Statement,
        call: &Call,
        spool: Option<&mut Spool>,
    ) -> Result<Ran> {
        if matches!(plan, Plan::CopyFrom(_) | Plan::CopyHome(_) | Plan::CopyTo(_) | Plan::Routine(_)) {
            self.own.session.count_statement(plan);
        }
        match plan {
            Plan::CopyFrom(copy) => return self.own.copy_from(copy, statement).await.map(Ran::Done),
            Plan::CopyHome(copy) => return self.own.copy_home(copy, statement).await.map(Ran::Done),
            Plan::CopyTo(copy) => return self.own.copy_to(copy, statement).await.map(Ran::Done),
            Plan::Routine(routine) => {
                self.own.rows_may_change();
                return Ok(Ran::Wanted(Wanted::new(routine, statement, call)));
            }
            _ => {}
        }
        let makes_temp_table =
            statement.kind == StatementKind::CreateTableAs && matches!(plan, Plan::Forward(_) | Plan::Gather(_));
        if makes_temp_table {
            self.own.session.keep_temp_objects();
        }
        let completion = self.watch(plan, call, spool).await?;
        if makes_temp_table {
            self.own.session.keep_temp_objects();
        }
        check_tag(statement, &completion)?;
        Ok(Ran::Done(completion))
    }

    async fn watch(&mut self, plan: &Plan, call: &Call, spool: Option<&mut Spool>) -> Result<Completion> {
        let cancel = self.own.session.cancel_set();
        let (watch, mut output) = self.own.socket.split(spool);
        watch.during(&cancel, pin!(self.own.session.run(plan, call, &mut output))).await
    }
}

/// 42703 and 42P01 come before the first row does.
fn speaks_of_names(error: &PgError) -> bool {
    [SqlState::UNDEFINED_COLUMN, SqlState::UNDEFINED_TABLE].contains(&error.code())
}

/// Has the client not been told of columns that a table made anew might not have?
pub(super) fn keeps_columns(statement: &Statement, call: &Call) -> bool {
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

/// May its text be shown in `loxo_stat_statements`? Some commands have passwords in them.
pub(super) fn is_shown(kind: &StatementKind) -> bool {
    use StatementKind::{Call, Copy, CreateTableAs, DeclareCursor, Execute, Explain, Fetch, RefreshMaterializedView};
    let runs_query = matches!(kind, Copy(_) | CreateTableAs | DeclareCursor(_) | Explain(_) | Fetch(_));
    runs_query || matches!(kind, Call | Execute { .. } | RefreshMaterializedView) || kind.row_command().is_some()
}

/// May it change rows by itself?
fn changes_rows(kind: &StatementKind) -> bool {
    use StatementKind::{
        CloseCursor, Deallocate, DeclareCursor, Discard, Execute, Explain, Fetch, Listen, Notify, Prepare,
    };
    use StatementKind::{Constraints, Select, Set, Show, Unlisten};
    match kind {
        Select | Set(_) | Show(_) | Constraints | Fetch(_) | CloseCursor(_) | DeclareCursor(_) => false,
        Prepare { .. } | Execute { .. } | Deallocate(_) | Listen(_) | Notify { .. } | Unlisten(_) => false,
        StatementKind::Transaction(modes) => matches!(modes, Transaction::RollbackTo(_)),
        Explain(explain) => explain.analyze,
        Discard(_) => false,
        _ => true,
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
