//! Sub-selects of which every node has all rows, and yet may make another result: `(SELECT … FROM replicated LIMIT 5)`.

use super::*;
use crate::facts::functions::facts;
use crate::select::names::is_closed;

impl Analyzer<'_> {
    /// One server evaluates a sub-select that refers to nothing outside once, so that all rows of the query see the same result.
    /// Where that depends on the order in which rows are found, nodes must not evaluate it each for its own: one of them does.
    pub(super) fn steady(&self, select: &SelectStmt, block: Block) -> Local<Block> {
        let part = match block.part {
            RowDistribution::Replicated(nodes) if nodes.len() > 1 && self.may_differ(select)? => {
                RowDistribution::Replicated(self.ctx.home_first(nodes)[..1].to_vec())
            }
            other => other,
        };
        Ok(Block { part, ..block })
    }

    fn may_differ(&self, select: &SelectStmt) -> Result<bool, PgError> {
        Ok(depends_on_order(self.ctx, select)? && is_closed(self.ctx, select)?)
    }
}

/// May the result depend on the order in which a node finds its rows?
pub(crate) fn depends_on_order(ctx: &Context<'_>, select: &SelectStmt) -> Result<bool, PgError> {
    Ok(!ctx.is_orderless && facts(ctx, select)?.order_sensitive.is_some())
}
