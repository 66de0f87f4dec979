//! The parts that queries and changes of rows have in common.

use pg_query::protobuf::{
    CommonTableExpr, DefElem, FuncCall, List, RangeFunction, RangeVar, ResTarget, ReturningClause, SelectStmt,
    SetToDefault, SortBy, WithClause,
};
use pg_query::{Node, NodeEnum};

use super::{Get, text_of};

/// A clause of several kinds of statements, and where it stands.
macro_rules! clause {
    ($what:literal, $of:ident, $mut:ident: $type:ty = $field:ident of $($kind:ident)*) => {
        #[doc = $what]
        pub(crate) fn $of(node: &NodeEnum) -> Option<&$type> {
            match node {
                $(NodeEnum::$kind(statement) => statement.$field.as_ref(),)*
                _ => None,
            }
        }

        #[doc = concat!("Where it stands. ", $what)]
        pub(crate) fn $mut(node: &mut NodeEnum) -> Option<&mut Option<$type>> {
            match node {
                $(NodeEnum::$kind(statement) => Some(&mut statement.$field),)*
                _ => None,
            }
        }
    };
}

clause!("The WITH clause.", with_of, with_mut: WithClause = with_clause of SelectStmt InsertStmt UpdateStmt DeleteStmt MergeStmt);
clause!("The table or view that a data change is about.", target_of, target_mut: RangeVar = relation of InsertStmt UpdateStmt DeleteStmt MergeStmt);
clause!("The RETURNING clause of a data change.", returning_of, returning_mut: ReturningClause = returning_clause of InsertStmt UpdateStmt DeleteStmt MergeStmt);

/// Is it a query or a change of rows?
pub(crate) fn is_about_rows(node: &NodeEnum) -> bool {
    matches!(node, NodeEnum::SelectStmt(_)) || target_of(node).is_some()
}

/// The output list of RETURNING.
pub(crate) fn returned_by(node: &NodeEnum) -> &[Node] {
    returning_of(node).map_or(&[], |clause| &clause.exprs)
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

/// How many columns a query gives, if its text tells.
pub(crate) fn width(query: &SelectStmt) -> Option<usize> {
    if let Some(left) = query.larg.as_deref() {
        return width(left);
    }
    if let Some(row) = query.values_lists.first().and_then(|row| row.get::<List>()) {
        return Some(row.items.len());
    }
    (!query.target_list.iter().any(shows_star)).then_some(query.target_list.len())
}

/// The value that an item of ORDER BY, GROUP BY or DISTINCT ON is about.
pub(crate) fn sorted_mut(item: &mut Node) -> Option<&mut Node> {
    match item.get::<SortBy>() {
        Some(_) => item.get_mut::<SortBy>()?.node.as_deref_mut(),
        None => Some(item),
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

/// Has a call nothing but arguments, one by one?
pub(crate) fn is_plain_call(call: &FuncCall) -> bool {
    call.agg_order.is_empty()
        && call.agg_filter.is_none()
        && call.over.is_none()
        && !call.agg_distinct
        && !call.agg_star
        && !call.func_variadic
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
