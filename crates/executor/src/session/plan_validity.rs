//! What a plan was made from, and whether it still holds.
//!
//! A statement may wait for a schema change of another session, at its datanodes or on the way to them, and then run by a plan
//! that sends rows where the table was before. But every schema change has all coordinators drop their catalogs before it
//! commits. So once the fragments have run, and thereby have their locks, a catalog that is still valid says that
//! none has overtaken them: that is one comparison of epochs. Otherwise the catalog is read anew, which waits for the end of what
//! was announced, and the places of the tables in the statement are compared.
//!
//! ```text
//!  plan ── fragments run ── does it hold? ── Sync or COMMIT
//!                                └─ no: 40001, or a new plan if nothing has gone to the client
//! ```
//!
//! Invariant: nothing is committed outside a block, and no statement of a block succeeds, by a plan that was not found to hold.

use std::sync::Arc;

use catalog::{Catalog, Distribution, Relation};
use pgerror::{PgError, Result, SqlState};
use planner::{ExchangePlan, Plan};
use txn::gtm::CatalogState;

use crate::backend::cancel::CancelSet;
use crate::session::Session;
use crate::session::catalog_load::Loaded;
use crate::session::context::Context;

const MOVED: &str = "the distribution of table";
const RULED: &str = "a rule of";

/// The catalog and the text of the present statement's plan.
pub struct PlanValidity {
    loaded: Arc<Loaded>,
    sql: Box<str>,
}

impl PlanValidity {
    pub(crate) fn new(loaded: &Arc<Loaded>, sql: &str) -> Arc<Self> {
        Arc::new(Self { loaded: loaded.clone(), sql: sql.into() })
    }

    /// What the plan was made with.
    pub(crate) fn catalog(&self) -> &Catalog {
        &self.loaded.catalog
    }

    /// 40001 if a table of the statement has moved; for a plan by the catalog that all sessions share.
    pub(crate) async fn holds(&self, context: &Context, cancel: &CancelSet) -> Result<()> {
        if self.is_untouched(context) {
            return Ok(());
        }
        // Boxed: it is seldom needed, and every statement's future would have room for it.
        let now = Box::pin(cancel.interrupt().or(context.catalog())).await??;
        self.compare(&now.catalog)
    }

    /// Has no schema change been announced since the catalog was read?
    fn is_untouched(&self, context: &Context) -> bool {
        self.loaded.epoch.is_some_and(|epoch| context.gtm.catalog_state() == CatalogState::Valid { epoch })
    }

    fn compare(&self, now: &Catalog) -> Result<()> {
        let then = &self.loaded.catalog;
        let moved = then.relations().filter(|relation| has_moved(relation, now) || has_other_rules(relation, now));
        match moved.map(|relation| relation.as_ref()).find(|relation| planner::may_use(&self.sql, relation, then)) {
            None => Ok(()),
            Some(relation) => Err(PgError::new(
                SqlState::SERIALIZATION_FAILURE,
                format!(
                    "{} {} changed while the statement ran",
                    if has_moved(relation, now) { MOVED } else { RULED },
                    relation.qualified_name()
                ),
            )
            .hint("Run the statement again, or the whole transaction if it was part of one.")),
        }
    }
}

/// Is this the error of a plan that does not hold? The same plan is of no use again.
pub(crate) fn is_outdated(error: &PgError) -> bool {
    let message = error.message();
    error.code() == SqlState::SERIALIZATION_FAILURE && (message.starts_with(MOVED) || message.starts_with(RULED))
}

/// Data exceptions, a sub-select with too many rows, what functions raise, and conditions of domains.
fn is_about_values(error: &PgError) -> bool {
    let code = error.code();
    let is_of = |class: &str| code.as_str().starts_with(class);
    is_of("22") || is_of("21") || is_of("P0") || code == SqlState::CHECK_VIOLATION
}

/// Another table of that name, or none, counts too. Views have no place of their own.
fn has_moved(relation: &Relation, now: &Catalog) -> bool {
    let is_view = matches!(relation.distribution, Distribution::View);
    let is_as_before = |now: &Relation| {
        (&now.schema, &now.name) == (&relation.schema, &relation.name)
            && now.distribution.places_like(&relation.distribution)
    };
    !is_view && !now.relation_by_oid(relation.oid).is_some_and(|now| is_as_before(now))
}

fn has_other_rules(relation: &Relation, now: &Catalog) -> bool {
    now.relation_by_oid(relation.oid).is_some_and(|now| now.rules != relation.rules)
}

impl Session {
    /// What the present plan was made from, for a plan of several statements, which each have a validity of their own.
    pub fn validity_of_all<'t>(&self, texts: impl Iterator<Item = &'t str>) -> Option<Arc<PlanValidity>> {
        let validity = self.validity.as_ref()?;
        let all = texts.fold(validity.sql.to_string(), |all, text| all + "; " + text);
        Some(PlanValidity::new(&validity.loaded, &all))
    }

    /// 40001 if a plan made from this does not hold any more.
    pub async fn all_held(&mut self, validity: Option<Arc<PlanValidity>>) -> Result<()> {
        self.validity = validity;
        self.plan_holds_to_the_end().await
    }

    /// 40001 if the present statement's plan does not hold any more. To be asked when its fragments have run and no answer is on
    /// its way.
    pub(crate) async fn plan_holds(&mut self) -> Result<()> {
        let Some(validity) = self.validity.clone() else { return Ok(()) };
        if !self.block.as_ref().is_some_and(|block| block.schema_changed) {
            return validity.holds(&self.context, &self.cancel).await;
        }
        if validity.is_untouched(&self.context) {
            return Ok(());
        }
        Box::pin(self.own_catalog_holds(&validity)).await
    }

    async fn own_catalog_holds(&mut self, validity: &PlanValidity) -> Result<()> {
        self.cancel.interrupt().or(self.context.schema_settled()).await??;
        if let Some(block) = &mut self.block {
            block.catalog = None;
        }
        let now = self.catalog().await?;
        validity.compare(&now.catalog)
    }

    /// The same before the statement's own transaction commits, after which it is too late to ask.
    pub async fn plan_holds_to_the_end(&mut self) -> Result<()> {
        let holds = self.plan_holds().await;
        self.validity = None;
        holds
    }

    /// The result of a statement, if its plan has held to the end.
    pub(crate) async fn if_plan_held<T>(&mut self, result: Result<T>) -> Result<T> {
        let value = result?;
        self.plan_holds_to_the_end().await?;
        Ok(value)
    }

    /// Ends a statement: the block fails with it, and links that are not needed go back to the pool.
    pub(crate) async fn conclude<T>(&mut self, result: Result<T>) -> Result<T> {
        let result = self.if_plan_held(result).await;
        if result.is_err() {
            self.fail();
        }
        self.release();
        result
    }

    /// A plan that was not run to its end is nobody's business any more.
    pub(crate) fn forget_plan(&mut self) {
        (self.validity, self.must_replan, self.gathers) = (None, false, false);
    }

    /// Notes how a statement ended of which this much has gone to the client.
    pub(crate) fn note_failure(&mut self, error: Option<&PgError>, is_untouched: bool) {
        let may_help = |error: &PgError| is_outdated(error) || self.gathers || self.may_try_again(error);
        self.must_replan = is_untouched && error.is_some_and(may_help);
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
}
