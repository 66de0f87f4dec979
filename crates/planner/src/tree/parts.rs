//! The parts that queries and changes of rows have in common.

use pg_query::protobuf::{RangeVar, WithClause};
use pg_query::{Node, NodeEnum};

/// The WITH clause of a statement.
pub(crate) fn with_of(node: &NodeEnum) -> Option<&WithClause> {
    match node {
        NodeEnum::SelectStmt(select) => select.with_clause.as_ref(),
        NodeEnum::InsertStmt(insert) => insert.with_clause.as_ref(),
        NodeEnum::UpdateStmt(update) => update.with_clause.as_ref(),
        NodeEnum::DeleteStmt(delete) => delete.with_clause.as_ref(),
        NodeEnum::MergeStmt(merge) => merge.with_clause.as_ref(),
        _ => None,
    }
}

/// Where the WITH clause of a statement stands.
pub(crate) fn with_mut(node: &mut NodeEnum) -> Option<&mut Option<WithClause>> {
    match node {
        NodeEnum::SelectStmt(select) => Some(&mut select.with_clause),
        NodeEnum::InsertStmt(insert) => Some(&mut insert.with_clause),
        NodeEnum::UpdateStmt(update) => Some(&mut update.with_clause),
        NodeEnum::DeleteStmt(delete) => Some(&mut delete.with_clause),
        NodeEnum::MergeStmt(merge) => Some(&mut merge.with_clause),
        _ => None,
    }
}

/// The table or view that a data change is about.
pub(crate) fn target_of(node: &NodeEnum) -> Option<&RangeVar> {
    match node {
        NodeEnum::InsertStmt(insert) => insert.relation.as_ref(),
        NodeEnum::UpdateStmt(update) => update.relation.as_ref(),
        NodeEnum::DeleteStmt(delete) => delete.relation.as_ref(),
        NodeEnum::MergeStmt(merge) => merge.relation.as_ref(),
        _ => None,
    }
}

/// The output list of RETURNING.
pub(crate) fn returning_of(node: &NodeEnum) -> &[Node] {
    let clause = match node {
        NodeEnum::InsertStmt(insert) => insert.returning_clause.as_ref(),
        NodeEnum::UpdateStmt(update) => update.returning_clause.as_ref(),
        NodeEnum::DeleteStmt(delete) => delete.returning_clause.as_ref(),
        NodeEnum::MergeStmt(merge) => merge.returning_clause.as_ref(),
        _ => None,
    };
    clause.map_or(&[], |clause| &clause.exprs)
}
