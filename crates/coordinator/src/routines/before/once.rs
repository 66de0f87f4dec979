//! Triggers BEFORE … FOR EACH STATEMENT.

use std::sync::Arc;

use executor::PlanValidity;
use pgerror::Result;
use planner::{OfStatement, Statement};

use crate::routines::runner::Runner;

impl Runner {
    /// Runs them before their statement, whose plan was made from `validity`. 0A000 if it would see what they have changed.
    pub(in crate::routines) async fn fire_before(
        &mut self,
        before: &[OfStatement],
        statement: &Statement,
        validity: Option<Arc<PlanValidity>>,
    ) -> Result<()> {
        let read = match before.is_empty() {
            true => None,
            false => self.session().rows_read(statement).await?,
        };
        for one in before {
            self.once(one).await?;
        }
        self.session().judge_by(validity);
        match &read {
            Some(read) => self.session().refuse_newer_rows(read).await,
            None => Ok(()),
        }
    }
}
