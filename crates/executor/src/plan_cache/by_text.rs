//! Plans of queries over several nodes, by their text: for those that come again, with other values of their parameters.
//!
//! [Templates](super::by_shape) know statements that go to their nodes as they are. What is gathered or merged gets texts of the
//! planner's, and to make these costs a coordinator as much as all the rest that it does for a query of few rows.
//!
//! Invariants: a plan is kept if it was made from nothing but the text and what stands in its key: by no value of a parameter, no
//! clock, no right of the user's, and nothing that only this session sees; one made by estimates is kept for no longer than these.
//! Debug builds plan again and compare.

use std::sync::Arc;

use catalog::Catalog;
use pgerror::Result;
use planner::{Exchanges, Plan, Statement, StatementKind};

use crate::backend::call::Call;
use crate::block::Block;
use crate::session::Session;
use crate::session::describe::Description;
use crate::shared::plan_validity::PlanValidity;
use crate::shared::search_paths::Path;
use crate::shared::templates::{Entry, Holds, KeptPlan, TEXT_BYTES_MAX};

/// Stars and whole rows are written out.
const PLAN_BYTES_MAX: usize = 64 << 10;

impl Session {
    /// The plan of a query that came before. What it was planned from holds for the statement as if it had been planned now.
    pub(crate) async fn kept_plan(
        &mut self,
        statement: &Statement,
        call: &Call,
        known: Option<&Description>,
    ) -> Result<Option<Arc<KeptPlan>>> {
        // What is to be learned of the statement's shape goes first.
        if !self.lessons.is_empty() || !self.may_keep_plan(statement, call, known) {
            return Ok(None);
        }
        let loaded = self.catalog().await?;
        let path = self.search_path(&loaded.catalog).await?;
        if !self.temp_relations().await?.is_empty() {
            return Ok(None);
        }
        let (loaded, _) = self.plan_from(PlanValidity::new(&loaded, &statement.sql, Some(&path)))?;
        let key = self.plan_key(statement, call, &path);
        match self.context.plans.get(loaded.catalog.version(), &key) {
            Some(Entry::Known(kept)) if kept.is_of_use() => {
                self.copies_to_lock = Default::default();
                Ok(Some(kept))
            }
            _ => Ok(None),
        }
    }

    /// Keeps a plan, if it holds for others, that was made without a look at the clock.
    pub(crate) async fn keep_plan(
        &mut self,
        statement: &Statement,
        call: &Call,
        known: Option<&Description>,
        (plan, holds): (&Plan, Holds),
    ) -> Result<()> {
        let is_read = matches!(plan, Plan::Scatter(_) | Plan::Gather(_)) && !plan.facts().writes;
        let is_small = || plan.to_string().len() <= PLAN_BYTES_MAX;
        if !is_read || holds == Holds::Once || !is_small() || !self.may_keep_plan(statement, call, known) {
            return Ok(());
        }
        let Some(loaded) = self.validity.as_ref().map(|validity| validity.loaded.clone()) else { return Ok(()) };
        let (catalog, version): (&Catalog, u64) = (&loaded.catalog, loaded.catalog.version());
        // A transaction may still read by an older one.
        let is_current = self.context.current_catalog().is_some_and(|now| now.catalog.version() == version);
        if !is_current
            || !planner::leavings(statement, catalog).is_nothing()
            || !self.temp_relations().await?.is_empty()
        {
            return Ok(());
        }
        let path = self.search_path(catalog).await?;
        let key = self.plan_key(statement, call, &path);
        let entry = match self.context.plans.get(version, &key) {
            // Debug builds keep at once, so that tests compare as many plans as they can.
            None if !cfg!(debug_assertions) => Entry::Seen,
            _ => Entry::Known(Arc::new(KeptPlan::new(plan, holds))),
        };
        self.context.plans.insert(version, key, entry);
        Ok(())
    }

    /// Would a kept plan be made again? Debug builds ask it.
    pub(crate) async fn must_be_planned_alike(
        &mut self,
        kept: &KeptPlan,
        statement: &Statement,
        call: &Call,
    ) -> Result<()> {
        // A key that is NULL may be known to be so although its type has no places: that plan asks fewer nodes.
        let has_null = call.parameters.as_ref().is_some_and(|given| given.values.contains(&None));
        if cfg!(debug_assertions) && kept.holds == Holds::Always && !has_null {
            let version = |this: &Self| this.validity.as_ref().map(|validity| validity.catalog().version());
            let before = version(self);
            let anew = self.plan_once(statement, call, None, None).await?.plan;
            // A schema change may have come between the two.
            let is_same = version(self) != before || format!("{:?}", kept.plan) == format!("{anew:?}");
            assert!(is_same, "{}: {:?}, not {anew:?}", statement.sql, kept.plan);
        }
        Ok(())
    }

    fn may_keep_plan(&self, statement: &Statement, call: &Call, known: Option<&Description>) -> bool {
        let sees_its_own = |block: &Block| {
            block.schema_changed || block.ran_ddl || block.locked || block.fills_table || block.hides_schema()
        };
        statement.kind == StatementKind::Select
            && statement.is_as_sent()
            && statement.sql.len() <= TEXT_BYTES_MAX
            && known.is_none()
            && call.now.is_none()
            && !statement.names_temporary(&[])
            && !self.block.as_ref().is_some_and(sees_its_own)
    }

    /// All that a plan depends on but the catalog, of what [`SessionFacts`](planner::SessionFacts) and the analysis are made.
    fn plan_key(&self, statement: &Statement, call: &Call, path: &Path) -> Vec<u8> {
        let mut key = statement.sql.as_bytes().to_vec();
        for name in path.iter().chain([&self.identity().user]) {
            key.push(0);
            key.extend_from_slice(name.as_bytes());
        }
        key.push(0);
        let types = call.parameters.iter().flat_map(|parameters| &parameters.types);
        types.for_each(|oid| key.extend_from_slice(&oid.to_be_bytes()));
        key.extend_from_slice(&self.settings_in_force().to_be_bytes());
        key.extend_from_slice(&self.few_rows().to_bits().to_be_bytes());
        key.extend_from_slice(&self.clock().map_or(u32::MAX, |node| node.0.into()).to_be_bytes());
        let exchanges = match self.exchanges() {
            Exchanges::No => 0,
            Exchanges::Seeing => 1,
            Exchanges::SeeingBut(_) => 2,
            Exchanges::SeeingNot(_) => 3,
        };
        key.extend_from_slice(&[exchanges, u8::from(self.in_block())]);
        key
    }
}
