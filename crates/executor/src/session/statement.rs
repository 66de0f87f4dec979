//! Whether the present statement's plan still holds: see [`plan_validity`](crate::shared::plan_validity).

use std::sync::Arc;

use pgerror::{PgError, Result, SqlState, field};
use planner::{ExchangePlan, Plan};

use crate::backend::cancel::terminated;
use crate::block::Block;
use crate::block::GlobalSnapshot;
use crate::session::Session;
use crate::shared::catalog_load::Loaded;
use crate::shared::plan_validity::{PlanValidity, is_outdated};

/// Data exceptions, a sub-select with too many rows, what functions raise, and conditions of domains.
fn is_about_values(error: &PgError) -> bool {
    let code = error.code();
    let is_of = |class: &str| code.as_str().starts_with(class);
    is_of("22") || is_of("21") || is_of("P0") || code == SqlState::CHECK_VIOLATION
}

impl Session {
    /// Was the snapshot that the block keeps taken under another catalog? Its rows may lie elsewhere by now.
    pub(crate) fn has_outlived(&self, loaded: &Arc<Loaded>) -> bool {
        let has_snapshot = self.has_kept_snapshot();
        let first = self.block.as_ref().filter(|_| has_snapshot).and_then(|block| block.first_catalog.as_ref());
        first.is_some_and(|first| !Arc::ptr_eq(&first.catalog, &loaded.catalog))
    }

    /// Has the block the snapshot that it keeps? A statement may have been planned that took none (PREPARE, LOCK TABLE).
    fn has_kept_snapshot(&self) -> bool {
        let is_consistent = self.is_consistent();
        self.block.as_ref().filter(|block| block.isolation.keeps_snapshot()).is_some_and(|block| {
            match block.global_snapshot {
                GlobalSnapshot::Taken => true,
                GlobalSnapshot::Pending if is_consistent && block.is_under_snapshot() => false,
                _ => block.has_queried,
            }
        })
    }

    /// What the statement is to be planned with. A snapshot that the block keeps shows rows where they were when it was taken: what
    /// only reads buckets that have moved since is planned with the catalog of then. What writes must not be run by such a plan: it
    /// comes with the error for statements that try. 40001 at once if anything else has become of the statement's tables.
    pub(crate) fn plan_from(&mut self, validity: Arc<PlanValidity>) -> Result<(Arc<Loaded>, Option<PgError>)> {
        let has_snapshot = self.has_kept_snapshot();
        let keeps = |block: &&mut Block| block.isolation.keeps_snapshot() && !block.schema_changed;
        let Some(block) = self.block.as_mut().filter(keeps) else { return Ok((self.planned_from(validity), None)) };
        if !has_snapshot {
            block.first_catalog = None;
        }
        let first = block.first_catalog.get_or_insert_with(|| validity.loaded.clone()).clone();
        if Arc::ptr_eq(&first.catalog, &validity.loaded.catalog) {
            return Ok((self.planned_from(validity), None));
        }
        let of_then = validity.with(&first);
        match of_then.compare(&validity.loaded.catalog) {
            Ok(()) => Ok((self.planned_from(validity), None)),
            Err(error) => {
                let of_then = of_then.under_snapshot();
                of_then.compare(&validity.loaded.catalog)?;
                Ok((self.planned_from(of_then), Some(error)))
            }
        }
    }

    fn planned_from(&mut self, validity: Arc<PlanValidity>) -> Arc<Loaded> {
        let loaded = validity.loaded.clone();
        self.validity = Some(validity);
        loaded
    }

    /// Is a plan likely not to hold that the block's next statement gets, since buckets move? It can be run again behind a savepoint.
    pub fn plans_need_care(&self) -> bool {
        let may_go_back = |block: &Block| {
            !block.isolation.keeps_snapshot() && !block.schema_changed && !block.failed && !block.is_own
        };
        self.block.as_ref().is_some_and(may_go_back) && self.context.rows_move()
    }

    /// What the present plan was made from, for one that is run after other statements: [`Session::judge_by`] wants it then.
    pub fn plan_validity(&self) -> Option<Arc<PlanValidity>> {
        self.validity.clone()
    }

    /// The plan that is run next was made from this.
    pub fn judge_by(&mut self, validity: Option<Arc<PlanValidity>>) {
        self.validity = validity;
    }

    /// What the present plan was made from, for a plan of several statements, which each have a validity of their own.
    pub fn validity_of_all<'t>(&self, texts: impl Iterator<Item = &'t str>) -> Option<Arc<PlanValidity>> {
        let validity = self.validity.as_ref()?;
        let all = texts.fold(validity.sql.to_string(), |all, text| all + "; " + text);
        Some(PlanValidity::new(&validity.loaded, &all, None))
    }

    /// 40001 if a plan made from this does not hold any more.
    pub async fn check_plans(&mut self, validity: Option<Arc<PlanValidity>>) -> Result<()> {
        self.validity = validity;
        self.plan_holds_to_the_end().await
    }

    /// Has no schema change been announced since the present statement was planned? A wait for the locks of one tells.
    pub(crate) fn plan_is_untouched(&self) -> bool {
        self.validity.as_ref().is_some_and(|validity| validity.is_untouched(&self.context))
    }

    /// 40001 if the present statement's plan does not hold any more. To be asked when its fragments have run and no answer is on
    /// its way.
    pub(crate) async fn plan_holds(&mut self) -> Result<()> {
        let Some(validity) = self.validity.clone() else { return Ok(()) };
        if !self.block.as_ref().is_some_and(|block| block.schema_changed) {
            return validity.holds(&self.context, self.links.cancel()).await;
        }
        if validity.is_untouched(&self.context) {
            return Ok(());
        }
        Box::pin(self.own_catalog_holds(&validity)).await
    }

    async fn own_catalog_holds(&mut self, validity: &PlanValidity) -> Result<()> {
        self.links.cancel().interrupt().or(self.context.schema_changes_resolved()).await??;
        if let Some(block) = &mut self.block {
            block.catalog = None;
        }
        let now = self.catalog().await?;
        validity.compare(&now.catalog)
    }

    /// [`Session::plan_holds`], once the statement has locked what it writes and taken its snapshot. Buckets that move from here on
    /// do not matter: those that it writes cannot, and its snapshot shows the rows of all others where they were. Without the locks, or
    /// a snapshot yet, the plan has to hold at the end as well.
    pub(crate) async fn plan_holds_under_locks(&mut self) -> Result<()> {
        self.plan_holds().await?;
        let has_locks = self.block.as_ref().is_some_and(|block| !block.lacks_locks);
        if has_locks && self.has_global_snapshot() {
            self.validity = self.validity.take().map(|validity| validity.under_snapshot());
        }
        Ok(())
    }

    /// [`Session::plan_holds`] before the statement's own transaction commits, after which it is too late to ask.
    pub async fn plan_holds_to_the_end(&mut self) -> Result<()> {
        let holds = self.plan_holds().await;
        self.validity = None;
        holds
    }

    /// The result of a statement, if its plan has held to the end.
    pub(crate) async fn with_checked_plan<T>(&mut self, result: Result<T>) -> Result<T> {
        let value = result?;
        self.plan_holds_to_the_end().await?;
        Ok(value)
    }

    /// Ends a statement: the block fails with it, and links that are not needed go back to the pool.
    pub(crate) async fn conclude<T>(&mut self, result: Result<T>) -> Result<T> {
        let result = self.with_checked_plan(result).await;
        if result.is_err() {
            self.fail();
        }
        self.release();
        result
    }

    /// A plan that was not run to its end is nobody's business any more.
    pub(crate) fn forget_plan(&mut self) {
        (self.validity, self.must_replan, self.gathers) = (None, false, false);
        self.was_overtaken = false;
    }

    /// Notes how a statement ended. If another plan may help, its rows are taken back, as long as the client has got none.
    pub(crate) fn note_failure(&mut self, error: Option<&PgError>, take_back: impl FnOnce() -> bool) {
        let may_help = |error: &PgError| is_outdated(error) || self.gathers || self.may_try_again(error);
        self.must_replan = error.is_some_and(may_help) && take_back();
        self.was_overtaken = self.must_replan && error.is_some_and(is_outdated);
    }

    /// Has an exchange met an error in what it computed ahead, that one PostgreSQL might never have come to (in a branch of CASE,
    /// behind `WHERE false`)? Then the home node runs the statement over gathered rows, and decides what it computes.
    pub(crate) fn was_early(&self, plan: &Plan, error: &PgError, is_untouched: bool) -> bool {
        // A block goes on if nothing has failed in its own sessions.
        let is_alone = |exchange_plan: &ExchangePlan| {
            !self.in_block() || matches!(plan, Plan::ExchangePlan(_)) && exchange_plan.local_copies.is_empty()
        };
        let exchanges = match plan {
            Plan::Ddl(ddl) => ddl.follow_up.is_some() && !self.in_block(),
            _ => plan.exchange_plan().is_some_and(is_alone),
        };
        is_untouched && !self.gathers && exchanges && is_about_values(error)
    }

    /// Is the statement to be planned without exchanges, and run again?
    pub fn gathers(&self) -> bool {
        self.gathers
    }

    /// Has the last statement failed because its plan did not hold, or to break a deadlock, before any of its answer was sent? One
    /// that stands alone can be run again.
    pub fn must_replan(&self) -> bool {
        self.must_replan
    }

    /// Is this version of the schema the newest that is known? Then buckets alone have moved since, and another plan gives the same
    /// columns, if it is made with [the same](Session::schema_version).
    pub fn schema_is(&self, version: u64) -> bool {
        self.context.known_schema_version() == Some(version)
    }

    /// To be called before each statement of the client's: whatever was to stop was an earlier one, and the time counts from now on.
    pub async fn statement_begins(&mut self) {
        self.forget_plan();
        self.leaves = Default::default();
        self.copies_to_lock = Default::default();
        self.scope = Default::default();
        if self.tell_late_timeout().await.is_err() {
            // The statement will tell if a link is lost. The nodes are told before the next one.
            self.release();
        }
        let (limit, is_alone) = (self.statement_timeout(), self.lets_go_of_all());
        self.links.cancel().clone().statement_begins(limit, is_alone).await;
    }

    /// To be called after each statement of the client's, when no more is done for it.
    pub async fn statement_ends(&self) {
        self.links.cancel().statement_ends().await;
    }

    /// A body has caught the error of a cancel: what follows in it is not to stop.
    pub async fn cancel_caught(&self, error: &PgError) {
        self.links.cancel().cancel_caught(error).await;
    }

    /// Does the session hold no lock once a statement has failed? It may have advisory locks in a backend that it keeps.
    fn lets_go_of_all(&self) -> bool {
        !self.in_block() && !self.links.has_pinned()
    }

    /// Can a statement be run again that has failed like this, and of which nothing has gone to the client, because it had to give way?
    pub(crate) fn may_try_again(&self, error: &PgError) -> bool {
        error.code() == SqlState::DEADLOCK_DETECTED && self.lets_go_of_all()
    }

    /// The error of a statement that stands alone: if it had to give way to break a deadlock, it says so, and it may be run again.
    pub(crate) async fn with_deadlock_report(&self, error: PgError) -> PgError {
        if error.code() != SqlState::QUERY_CANCELED {
            return error;
        }
        self.links.cancel().deadlock().await.unwrap_or(error)
    }

    /// The result of a statement, once no cancel of it can be under way any more: of one that had to give way to break a
    /// deadlock, or that took too long, the error says so. To be called after each statement, those of bodies too, before anything else
    /// is sent for the session.
    pub async fn judged<T>(&self, result: Result<T>) -> Result<T> {
        let chosen = self.links.cancel().judge(result.is_err()).await;
        match (result, chosen) {
            // The node says where it was, but not why it was cancelled.
            (Err(error), Some(chosen)) if error.code() == chosen.code() => {
                Err(error.with(field::MESSAGE, chosen.message().into_owned()))
            }
            (Err(error), Some(chosen)) if error.code() == SqlState::QUERY_CANCELED => Err(chosen),
            // It did not take the cancel: the connection was given up, and what it was in the middle of is rolled back.
            (Err(error), Some(chosen))
                if error.code() == SqlState::CONNECTION_FAILURE && chosen.code() == SqlState::QUERY_CANCELED =>
            {
                Err(chosen.detail(error.message().into_owned()))
            }
            (Err(error), None)
                if error.code() == SqlState::QUERY_CANCELED && *self.links.cancel().activity().ending().borrow() =>
            {
                Err(terminated())
            }
            (result, _) => result,
        }
    }
}
