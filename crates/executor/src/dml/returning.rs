//! RETURNING of an INSERT whose rows go to several nodes, in the order of the rows.
//!
//! PostgreSQL gives one row for each of VALUES, in their order, and programs rely on it: they pair the generated keys with the
//! objects they have sent. So the rows of each node are kept until all nodes have answered, and are passed on in the order of
//! the input. If some rows gave none (ON CONFLICT DO NOTHING, a trigger), which ones is not known, and
//! nobody can pair them: they come node by node.

use bytes::BytesMut;
use pgerror::Result;
use planner::InsertSplit;

use crate::backend::call::Call;
use crate::block::Mode;
use crate::engine::output::Output;
use crate::engine::run::{Completion, Total};
use crate::engine::spool::Spool;
use crate::session::Session;

/// Bytes passed on at once.
const RUN_BYTES: usize = 64 * 1024;

/// What one node has returned, and the places of its rows in the input.
pub(crate) struct Returned<'a> {
    pub(crate) places: &'a [u64],
    pub(crate) rows: Spool,
}

/// Passes the rows on; all are needed for it.
pub(crate) async fn pass_in_order(mut returned: Vec<Returned<'_>>, output: &mut Output<'_>) -> Result<()> {
    if let Some(fields) = returned.iter_mut().find_map(|one| one.rows.take_fields()) {
        output.description(&fields);
    }
    let is_complete = returned.iter().all(|one| one.rows.len() == one.places.len());
    let mut order: Vec<(u64, usize)> = Vec::new();
    for (source, one) in returned.iter().enumerate() {
        match is_complete {
            true => order.extend(one.places.iter().map(|place| (*place, source))),
            false => order.extend(std::iter::repeat_n((0, source), one.rows.len())),
        }
    }
    order.sort_by_key(|(place, _)| *place);
    let (mut run, mut count) = (BytesMut::new(), 0);
    for (_, source) in order {
        count += returned[source].rows.take(1, &mut run)?.0;
        if run.len() >= RUN_BYTES {
            output.rows(run.split().freeze(), std::mem::take(&mut count)).await?;
        }
    }
    if count > 0 {
        output.rows(run.freeze(), count).await?;
    }
    Ok(())
}

impl Session {
    /// Inside a block: each part on its node, one after the other.
    pub(crate) async fn insert_returning(
        &mut self,
        insert: &InsertSplit,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        let mut total = Total::default();
        let mut returned = Vec::with_capacity(insert.parts.len());
        for ((node, sql), places) in insert.parts.iter().zip(&insert.places) {
            let mut rows = Spool::of(self.work_mem()).described();
            let part = vec![(*node, sql.clone())];
            if let Completion::Tag(tag) = self.scatter(Mode::InBlock, part, call, &mut Output::spool(&mut rows)).await?
            {
                total.add(&tag);
            }
            if !insert.clauses.only_inserts() {
                // The next node is not to know less than this one has shown.
                self.statement_finished();
            }
            returned.push(Returned { places, rows });
        }
        pass_in_order(returned, output).await?;
        Ok(total.completion())
    }
}
