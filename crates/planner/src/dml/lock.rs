//! FOR UPDATE in the sub-selects of an UPDATE or DELETE that goes by way of the home node.
//!
//! `… WHERE id = (SELECT id FROM jobs … FOR UPDATE SKIP LOCKED LIMIT 1)` is how queues are read. There nobody else may write
//! the table while the statement runs, so that the rows which its own sub-selects find need no locks: the holder of one writes the
//! table, or is waited for when the row is changed. With SKIP LOCKED other readers of the queue take turns.

use crate::tree::Get;
use catalog::Relation;
use pg_query::protobuf::{LockWaitPolicy, LockingClause, SelectStmt};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use crate::context::{Context, Named};
use crate::tree::Walk;

/// Leaves out FOR UPDATE where only the target is locked.
pub(super) fn unlock(ctx: &Context<'_>, target: &Relation, query: &mut NodeEnum) -> Result<()> {
    query.rewrite(&mut |node: &mut Node| {
        if let Some(select) = node.get_mut::<SelectStmt>()
            && waits(select)
            && reads_only(ctx, target, select)?
        {
            select.locking_clause.clear();
        }
        Ok(true)
    })
}

fn waits(select: &SelectStmt) -> bool {
    select.locking_clause.iter().all(|clause| {
        clause.get::<LockingClause>().is_some_and(|clause| clause.wait_policy() != LockWaitPolicy::LockWaitError)
    })
}

fn reads_only(ctx: &Context<'_>, target: &Relation, select: &SelectStmt) -> Result<bool> {
    let [Node { node: Some(NodeEnum::RangeVar(name)) }] = select.from_clause.as_slice() else { return Ok(false) };
    Ok(matches!(ctx.resolve(name)?, Named::Distributed(relation) if relation.oid == target.oid))
}
