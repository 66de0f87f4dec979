//! The parts that queries and changes of rows have in common.

use pg_query::protobuf::{
    CommonTableExpr, DefElem, FuncCall, List, RangeFunction, RangeVar, ResTarget, ReturningClause, SetToDefault,
    WithClause,
};
use pg_query::{Node, NodeEnum};

use super::{Get, text_of};

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

/// Is it a query or a change of rows?
pub(crate) fn is_about_rows(node: &NodeEnum) -> bool {
    matches!(node, NodeEnum::SelectStmt(_)) || target_of(node).is_some()
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

/// The RETURNING clause of a data change.
pub(crate) fn returning_of(node: &NodeEnum) -> Option<&ReturningClause> {
    match node {
        NodeEnum::InsertStmt(insert) => insert.returning_clause.as_ref(),
        NodeEnum::UpdateStmt(update) => update.returning_clause.as_ref(),
        NodeEnum::DeleteStmt(delete) => delete.returning_clause.as_ref(),
        NodeEnum::MergeStmt(merge) => merge.returning_clause.as_ref(),
        _ => None,
    }
}

/// Its output list.
pub(crate) fn returned_by(node: &NodeEnum) -> &[Node] {
    returning_of(node).map_or(&[], |clause| &clause.exprs)
}

/// Where the RETURNING clause of a data change stands.
pub(crate) fn returning_mut(node: &mut NodeEnum) -> Option<&mut Option<ReturningClause>> {
    match node {
        NodeEnum::InsertStmt(insert) => Some(&mut insert.returning_clause),
        NodeEnum::UpdateStmt(update) => Some(&mut update.returning_clause),
        NodeEnum::DeleteStmt(delete) => Some(&mut delete.returning_clause),
        NodeEnum::MergeStmt(merge) => Some(&mut merge.returning_clause),
        _ => None,
    }
}

/// Is this list of names `*`, or does it end with one?
pub(crate) fn is_star(names: &[Node]) -> bool {
    matches!(names, [.., Node { node: Some(NodeEnum::AStar(_)) }])
}

/// Is an entry of a select list `*` or `t.*`?
pub(crate) fn shows_star(target: &Node) -> bool {
    match value_of(target).and_then(|value| value.node.as_ref()) {
        Some(NodeEnum::ColumnRef(column)) => is_star(&column.fields),
        Some(NodeEnum::AIndirection(part)) => is_star(&part.indirection),
        _ => false,
    }
}

/// The items of a WITH clause.
pub(crate) fn with_items(with: Option<&WithClause>) -> impl Iterator<Item = &CommonTableExpr> {
    with.into_iter().flat_map(|with| &with.ctes).filter_map(|item| item.get::<CommonTableExpr>())
}

/// Does a change of rows look at other tables in FROM or USING?
pub(crate) fn reads_others(node: &NodeEnum) -> bool {
    match node {
        NodeEnum::UpdateStmt(update) => !update.from_clause.is_empty(),
        NodeEnum::DeleteStmt(delete) => !delete.using_clause.is_empty(),
        _ => false,
    }
}

/// The value in an entry of a select list, or of SET.
pub(crate) fn value_of(target: &Node) -> Option<&Node> {
    target.get::<ResTarget>()?.val.as_deref()
}

/// The name that such an entry gives, also one of INSERT's columns.
pub(crate) fn name_of(target: &Node) -> Option<&str> {
    target.get::<ResTarget>().map(|target| target.name.as_str())
}

/// What the rest of the statement calls a table.
pub(crate) fn alias_of(table: &RangeVar) -> &str {
    table.alias.as_ref().map_or(&table.relname, |alias| &alias.aliasname)
}

/// The last of several names: what is named, without its schema or table.
pub(crate) fn last_name(names: &[Node]) -> Option<&str> {
    names.last().and_then(text_of)
}

/// The only function of an item of FROM.
pub(crate) fn only_call(item: &RangeFunction) -> Option<&FuncCall> {
    match item.functions.as_slice() {
        [list] => list.get::<List>()?.items.first()?.get(),
        _ => None,
    }
}

/// The value of an option, as of CREATE FUNCTION and DO.
pub(crate) fn option_of<'n>(options: &'n [Node], name: &str) -> Option<&'n Node> {
    let mut options = options.iter().filter_map(|option| option.get::<DefElem>());
    options.find(|option| option.defname == name)?.arg.as_deref()
}

/// Is it DEFAULT?
pub(crate) fn is_default(value: &Node) -> bool {
    value.get::<SetToDefault>().is_some()
}
