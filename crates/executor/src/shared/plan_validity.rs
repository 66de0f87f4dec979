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
use futures_util::future::BoxFuture;
use pgerror::{PgError, Result, SqlState};
use txn::gtm::CatalogState;

use crate::backend::cancel::CancelSet;
use crate::backend::leased::Condition;
use crate::shared::catalog_load::Loaded;
use crate::shared::context::Context;
use crate::shared::search_paths::Path;

const MOVED: &str = "the distribution of table";

const RULED: &str = "a rule of";

/// The catalog, the text and the search path of the present statement's plan.
pub struct PlanValidity {
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) sql: Box<str>,
    /// Where the text's bare names were looked up; `None`: in any schema.
    path: Option<Path>,
    /// The statement reads nothing but snapshots that were taken while the plan held: buckets that move after them do not matter.
    is_under_snapshot: bool,
}

impl PlanValidity {
    pub(crate) fn new(loaded: &Arc<Loaded>, sql: &str, path: Option<&Path>) -> Arc<Self> {
        Arc::new(Self { loaded: loaded.clone(), sql: sql.into(), path: path.cloned(), is_under_snapshot: false })
    }

    /// With another catalog.
    pub(crate) fn with(&self, loaded: &Arc<Loaded>) -> Arc<Self> {
        Self::new(loaded, &self.sql, self.path.as_ref())
    }

    /// What counts for the rest of a statement whose snapshots were taken before the plan was found to hold.
    pub(crate) fn under_snapshot(&self) -> Arc<Self> {
        let (loaded, path) = (self.loaded.clone(), self.path.clone());
        Arc::new(Self { loaded, sql: self.sql.clone(), path, is_under_snapshot: true })
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
    pub(crate) fn is_untouched(&self, context: &Context) -> bool {
        self.loaded.epoch.is_some_and(|epoch| context.gtm.catalog_state() == CatalogState::Valid { epoch })
    }

    pub(crate) fn compare(&self, now: &Catalog) -> Result<()> {
        let then = &self.loaded.catalog;
        let has_moved = |relation: &Relation| self.has_moved(relation, now);
        let moved = then.relations().filter(|relation| has_moved(relation) || has_other_rules(relation, now));
        let is_used = |relation: &&Relation| planner::may_use(&self.sql, relation, then, self.path.as_deref());
        match moved.map(|relation| relation.as_ref()).find(is_used) {
            None => Ok(()),
            Some(relation) => Err(PgError::new(
                SqlState::SERIALIZATION_FAILURE,
                format!(
                    "{} {} changed while the statement ran",
                    if has_moved(relation) { MOVED } else { RULED },
                    relation.qualified_name()
                ),
            )
            .hint("Run the statement again, or the whole transaction if it was part of one.")),
        }
    }

    /// Tables that the statement may use whose rows lie on several nodes.
    pub(crate) fn partitioned_tables(&self) -> impl Iterator<Item = &Relation> {
        self.tables_in(&self.sql).filter(|relation| relation.distribution.is_partitioned())
    }

    /// Relations that a text may use, whose names mean what they mean in the statement.
    pub(crate) fn tables_in(&self, sql: &str) -> impl Iterator<Item = &Relation> {
        let catalog = &self.loaded.catalog;
        let is_used = move |relation: &&Relation| planner::may_use(sql, relation, catalog, self.path.as_deref());
        catalog.relations().map(|relation| relation.as_ref()).filter(is_used)
    }

    /// Another table of that name, or none, counts too. Views have no place of their own.
    fn has_moved(&self, relation: &Relation, now: &Catalog) -> bool {
        let is_view = matches!(relation.distribution, Distribution::View);
        let is_placed_as_before = self.loaded.catalog.placed_alike(now, relation);
        let is_as_before = |now: &Relation| {
            (&now.schema, &now.name) == (&relation.schema, &relation.name)
                && (is_placed_as_before && now.distribution.places_like(&relation.distribution)
                    || self.is_under_snapshot && now.distribution.differs_in_nodes(&relation.distribution))
        };
        !is_view && !now.relation_by_oid(relation.oid).is_some_and(|now| is_as_before(now))
    }
}

/// Is this the error of a plan that does not hold? The same plan is of no use again.
pub fn is_outdated(error: &PgError) -> bool {
    let message = error.message();
    error.code() == SqlState::SERIALIZATION_FAILURE && (message.starts_with(MOVED) || message.starts_with(RULED))
}

fn has_other_rules(relation: &Relation, now: &Catalog) -> bool {
    now.relation_by_oid(relation.oid).is_some_and(|now| now.rules != relation.rules)
}

/// A plan that has to hold when its statement commits by itself.
pub(crate) struct PlanHolds {
    pub(crate) plan: Arc<PlanValidity>,
    pub(crate) context: Arc<Context>,
}

impl Condition for PlanHolds {
    fn holds<'a>(&'a self, cancel: &'a CancelSet) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.plan.holds(&self.context, cancel))
    }

    fn holds_plainly(&self) -> bool {
        self.plan.is_untouched(&self.context)
    }
}
