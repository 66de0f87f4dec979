//! A gather of few rows inside a READ COMMITTED block: [portals](super::bound_portals) that were bound under one global snapshot, in the
//! block's own sessions, and whose rows are [parameters](crate::engine::inlined_rows) of the last step. No temp table is made, and once
//! the fragments are known no session is needed beside the home node.
//!
//! Invariant: the last step reads nothing but its parameters ([`planner::reads_only`]), so the snapshot that it takes is no matter.

use std::sync::Arc;

use pgerror::{Result, SqlState};
use planner::{Gather, Input};

use crate::backend::call::Call;
use crate::backend::portals::Portal;
use crate::block::Mode;
use crate::engine::gather::without_position;
use crate::engine::inlined_rows::{ROWS_MAX, last_step};
use crate::engine::output::Output;
use crate::engine::run::Completion;
use crate::session::Session;
use crate::shared::few_rows::Fragment;

impl Session {
    /// For what [`Session::gathers_beside`]; `None`, and no row given, if it takes temp tables.
    pub(crate) async fn gather_bound_few(
        &mut self,
        gather: &Gather,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Option<Completion>> {
        let may_come_again = call.may_come_again();
        let (inputs, call) = (&gather.inputs, &Call { one_off: true, ..call.clone() });
        if !gather.lent.is_empty() || !self.may_be_inlined(inputs).await? {
            return Ok(None);
        }
        let Some(keys) = self.keys(inputs, call).await? else { return Ok(None) };
        let known = self.context.few_rows.known(&keys, self.schema_version);
        let is_known = known.is_some();
        let fragments = match known {
            Some(known) => known,
            None => match self.ask_beside(inputs, call).await? {
                Some(fragments) => fragments,
                None => return Ok(None),
            },
        };
        if !self.are_few(inputs, &fragments) {
            return Ok(None);
        }
        let keeps = is_known && may_come_again;
        let portal =
            |(number, input): (usize, &Input)| Portal::new(number + 1, &input.nodes, &input.sql, vec![1]).kept(keeps);
        let portals: Vec<Portal> = inputs.iter().enumerate().map(portal).collect();
        self.bind_portals(&portals.iter().collect::<Vec<_>>(), call).await?;
        if is_known && !self.plan_is_untouched() {
            // They have waited, and may have other columns by now.
            self.context.few_rows.forget(&keys);
            return Ok(None);
        }
        self.ask_types(&fragments)?;
        for node in self.gathered_nodes(inputs) {
            let leased = self.links.link(node)?;
            portals
                .iter()
                .filter(|portal| portal.nodes.contains(&node))
                .for_each(|portal| leased.execute_some(&portal.name, ROWS_MAX));
            leased.link.connection.sync();
        }
        let few = self.read_all_few(inputs, &fragments).await.map_err(without_position)?;
        self.note_few(&keys, &fragments, few.as_deref());
        let Some(inlined) = few else { return Ok(None) };
        let (sql, call) = last_step(gather, inlined, &Call { one_off: !keeps, ..call.clone() });
        self.scatter(Mode::InBlock, vec![(self.home, sql)], &call, output).await.map(Some).map_err(without_position)
    }

    /// Asks about the fragments in a session that has no part in the block, which an error would end. `None` if nobody can say.
    async fn ask_beside(&mut self, inputs: &[Input], call: &Call) -> Result<Option<Vec<Arc<Fragment>>>> {
        let may_wait = !self.open_beside_with_locks(inputs).await?;
        let beside = self.beside_home();
        let asked = match may_wait {
            true => Ok(None),
            false => self.ask_of_fragments(beside, inputs, call).await.map(Some),
        };
        self.close_beside().await;
        match asked {
            Err(error) if error.code() != SqlState::QUERY_CANCELED => Ok(None),
            asked => asked,
        }
    }
}
