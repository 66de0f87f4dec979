//! Triggers whose functions do more than they did: those that the nodes fire, and cannot any more, become the coordinator's.
//!
//! Which side runs a trigger is found when it is created. Its function may be replaced later, or a function that it calls be made
//! after it. So in the transaction that makes a function such triggers are created again, as they are. One that cannot be the
//! coordinator's stays, and so does one of a table that the user does not own: a change of the table is refused then.

use catalog::{NodeId, Oid};
use pgerror::{Result, SqlState};
use planner::{Effect, Plan};

use crate::backend::call::Call;
use crate::engine::output::Output;
use crate::engine::spool::Spool;
use crate::session::Session;
use crate::shared::catalog_load::text;

impl Session {
    /// To be called when the block's catalog has the function.
    pub(super) async fn judge_triggers(&mut self, primary: NodeId) -> Result<()> {
        let loaded = self.catalog().await?;
        let hindered = planner::hindered_tables(&loaded.catalog, &self.bare_facts());
        if hindered.is_empty() {
            return Ok(());
        }
        for row in self.rows_on(primary, &planner::own_text(&definitions_of(&hindered))?).await? {
            let again = text(&row, 0)?.replacen("CREATE TRIGGER", "CREATE OR REPLACE TRIGGER", 1);
            let plan = match self.plan_text(&again).await {
                Err(error) if error.code() == SqlState::FEATURE_NOT_SUPPORTED => continue,
                plan => plan?,
            };
            if !captures(&plan) {
                continue;
            }
            let mut nothing = Spool::default();
            Box::pin(self.run_plan(&plan, &Call::default(), &mut Output::spool(&mut nothing))).await?;
        }
        Ok(())
    }
}

/// Does it make a trigger the coordinator's, and move no rows for that?
fn captures(plan: &Plan) -> bool {
    let is_tie = |effect: &Effect| matches!(effect, Effect::TieCapture { .. });
    matches!(plan, Plan::Ddl(ddl) if ddl.moves.is_empty() && ddl.effects.iter().any(is_tie))
}

/// Triggers that are switched on, and that nobody captures for: what does so is a function of ours.
fn definitions_of(tables: &[Oid]) -> String {
    let list = tables.iter().map(Oid::to_string).collect::<Vec<_>>().join(", ");
    format!(
        "SELECT pg_catalog.pg_get_triggerdef(t.oid) FROM pg_catalog.pg_trigger t \
         JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid \
         WHERE t.tgrelid IN ({list}) AND NOT t.tgisinternal AND t.tgenabled = 'O' AND t.tgparentid = 0 AND t.tgconstraint = 0 \
         AND p.pronamespace <> 'loxo'::regnamespace AND pg_catalog.pg_has_role(c.relowner, 'USAGE') \
         AND pg_catalog.has_table_privilege(c.oid, 'TRIGGER') AND pg_catalog.has_function_privilege(p.oid, 'EXECUTE') ORDER BY c.oid, t.tgname"
    )
}
