//! What queries are made of, for who takes them apart.

use std::borrow::Cow;
use std::collections::HashSet;

use pg_query::protobuf::{
    self, AConst, Alias, BoolExprType, ColumnRef, JoinExpr, NullTestType, RangeSubselect, RangeVar, SelectStmt,
    SubLink, SubLinkType,
};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use super::ask::Ask;
use super::get::{Get, Syntax};
use super::walk::{Ref, Walk};
use super::{
    alias_of, and, boolean, case_when, conjuncts, deparse_expression, empty_select, is_operation, is_ordered, is_star,
    is_unlimited, null_test, parse_expression, table, target, text_of, under_casts,
};

/// Is an expression of the query computed at least once? It is in one row without FROM, or of VALUES.
pub fn makes_row(select: &SelectStmt) -> bool {
    !is_operation(select)
        && select.from_clause.is_empty()
        && select.where_clause.is_none()
        && is_unlimited(select)
        && select.having_clause.is_none()
}

/// The sub-select that is all of its FROM.
pub fn only_sub_select(select: &SelectStmt) -> Option<&SelectStmt> {
    match select.from_clause.as_slice() {
        [Node { node: Some(NodeEnum::RangeSubselect(only)) }] => only.subquery.get(),
        _ => None,
    }
}

/// The bare name that is all of FROM.
pub fn only_table(from: &[Node]) -> Option<&String> {
    match from {
        [only] => only.get::<RangeVar>().filter(|name| name.schemaname.is_empty()).map(|name| &name.relname),
        _ => None,
    }
}

/// Names that columns of these items have in front.
pub fn aliases(items: &[Node]) -> Result<HashSet<String>> {
    let mut names = HashSet::new();
    for item in items {
        item.walk(&mut |node| {
            let alias = match node {
                Ref::RangeVar(table) => Some(alias_of(table)),
                Ref::RangeSubselect(query) => query.alias.as_ref().map(|alias| alias.aliasname.as_str()),
                Ref::RangeFunction(function) => function.alias.as_ref().map(|alias| alias.aliasname.as_str()),
                _ => return Ok(true),
            };
            names.extend(alias.map(str::to_owned));
            Ok(false)
        })?;
    }
    Ok(names)
}

/// The name that a column has in front.
pub fn table_of(column: &ColumnRef) -> Option<&str> {
    match column.fields.as_slice() {
        [.., table, _] => text_of(table),
        _ => None,
    }
}

/// Do all columns in it belong to these?
pub fn only_names(tree: &impl Walk, names: &HashSet<String>) -> Result<bool> {
    let is_other = |column: &ColumnRef| !table_of(column).is_some_and(|table| names.contains(table));
    Ok(!tree.any(|node| matches!(node, Ref::ColumnRef(column) if is_other(column)))?)
}

/// Is a condition about these alone? A sub-select in it may have tables of its own.
pub fn is_about(condition: &Node, names: &HashSet<String>, query: &SelectStmt) -> Result<bool> {
    let others: HashSet<String> = aliases(&query.from_clause)?.difference(names).cloned().collect();
    let is_other = |column: &ColumnRef| table_of(column).is_none_or(|table| others.contains(table));
    Ok(!condition.any(|node| matches!(node, Ref::ColumnRef(column) if is_other(column)))?)
}

/// The item so many joins down on the left.
pub fn left_of(item: &mut Node, depth: usize) -> Option<&mut Node> {
    if depth == 0 {
        return Some(item);
    }
    left_of(item.get_mut::<JoinExpr>()?.larg.as_deref_mut()?, depth - 1)
}

/// Does a query read its FROM, whatever its LIMIT? A function there gives all of its rows before the first is taken.
pub fn asks_for_rows(select: &SelectStmt) -> bool {
    match select.limit_count.as_deref().map(|count| &count.node) {
        None => true,
        Some(Some(NodeEnum::AConst(count))) => match &count.val {
            Some(protobuf::a_const::Val::Ival(count)) => count.ival > 0,
            _ => count.isnull,
        },
        Some(_) => false,
    }
}

/// `VALUES (a, b)` as `SELECT a, b`.
pub fn without_values(source: &SelectStmt) -> Cow<'_, SelectStmt> {
    let [Node { node: Some(NodeEnum::List(row)) }] = source.values_lists.as_slice() else {
        return Cow::Borrowed(source);
    };
    if row.items.iter().any(|value| matches!(value.node, Some(NodeEnum::SetToDefault(_)))) {
        return Cow::Borrowed(source);
    }
    let target_list = row.items.iter().map(|value| target(value.clone(), None)).collect();
    Cow::Owned(SelectStmt { target_list, values_lists: Vec::new(), ..source.clone() })
}

/// Is it a condition whose second part is evaluated only if the first is true? With this one the other is never looked at where it is not.
pub fn and_then(first: Option<Node>, second: Node) -> Node {
    let Some(first) = first else { return second };
    case_when(first, second, Some(boolean(false)))
}

/// Is all of the sub-select wanted?
pub fn is_value(link: &SubLink) -> bool {
    matches!(link.sub_link_type(), SubLinkType::ExprSublink | SubLinkType::ArraySublink)
}

/// `t.*` as a value, which a select list would take for all columns.
pub fn is_whole_row(node: &Node) -> bool {
    node.get::<ColumnRef>().is_some_and(|column| is_star(&column.fields))
}

/// A query in FROM that may use the columns of the items before it.
pub fn beside(lateral: bool, query: SelectStmt, alias: Alias) -> Node {
    RangeSubselect { lateral, subquery: query.into_box(), alias: Some(alias) }.into_node()
}

/// A constant or a parameter, under casts.
pub fn is_constant(value: &Node) -> bool {
    matches!(under_casts(value).node, Some(NodeEnum::AConst(_) | NodeEnum::ParamRef(_)))
}

/// A constant that is surely not NULL.
pub fn is_known(value: &Node) -> bool {
    under_casts(value).get::<AConst>().is_some_and(|constant| !constant.isnull)
}

/// `a IS NOT NULL AND b IS NOT NULL`.
pub fn all_known(parameters: Vec<Node>) -> Node {
    let known = |parameter: Node| null_test(parameter, NullTestType::IsNotNull);
    and(parameters.into_iter().map(known).collect())
}

/// `count + offset`: so many rows a LIMIT asks for.
pub fn enough(query: &SelectStmt) -> Result<Node> {
    let count = query.limit_count.as_deref().map(deparse_expression).transpose()?.unwrap_or_default();
    let offset = query.limit_offset.as_deref().map(deparse_expression).transpose()?;
    let text = match offset {
        Some(offset) => format!("({count}) + coalesce({offset}, 0)"),
        None => count,
    };
    parse_expression(&text)
}

/// Does it name a column?
pub fn has_column(part: &impl Walk) -> Result<bool> {
    part.any(|node| matches!(node, Ref::ColumnRef(_)))
}

/// Is all of its FROM read? A condition without a column may spare it, one beside others may spare some of them.
pub fn is_read_whole(select: &SelectStmt) -> Result<bool> {
    let mut is_whole = is_unlimited(select) || !select.sort_clause.is_empty() && asks_for_rows(select);
    for condition in conjuncts(select.where_clause.as_deref()) {
        is_whole = is_whole && select.from_clause.len() == 1 && has_column(condition)?;
    }
    Ok(is_whole)
}

/// A sub-select that asks about other rows, and whether its parts must all say yes.
pub fn question(condition: &Node) -> Option<(&SubLink, bool)> {
    let (condition, negated) = match &condition.node {
        Some(NodeEnum::BoolExpr(not)) if not.boolop == BoolExprType::NotExpr as i32 => (not.args.first()?, true),
        _ => (condition, false),
    };
    let link = condition.get::<SubLink>()?;
    match link.sub_link_type() {
        SubLinkType::ExistsSublink | SubLinkType::AnySublink => Some((link, negated)),
        SubLinkType::AllSublink => Some((link, !negated)),
        _ => None,
    }
}

/// The branches, if all operations compare rows and none of them keeps duplicates.
pub fn leaves(query: &SelectStmt) -> Option<Vec<&SelectStmt>> {
    if !is_operation(query) {
        return Some(vec![query]);
    }
    let has_own_order = |branch: &SelectStmt| is_operation(branch) && is_ordered(branch);
    let (left, right) = (query.larg.as_deref()?, query.rarg.as_deref()?);
    if query.all || has_own_order(left) || has_own_order(right) {
        return None;
    }
    Some([leaves(left)?, leaves(right)?].concat())
}

/// Puts other queries in place of these branches.
pub fn replace_leaves(query: &mut SelectStmt, stand_ins: &mut impl Iterator<Item = SelectStmt>) {
    for branch in [&mut query.larg, &mut query.rarg].into_iter().flatten() {
        match is_operation(branch) {
            true => replace_leaves(branch, stand_ins),
            false => **branch = stand_ins.next().unwrap_or_else(empty_select),
        }
    }
}

/// Marks a select as DISTINCT.
pub fn make_distinct(select: &mut SelectStmt) {
    select.distinct_clause = vec![Node { node: None }];
}

/// Gives a bare name to a table, wherever it is read.
pub fn rename_table(select: &mut SelectStmt, from: &str, to: &str) -> Result<()> {
    select.change_tables(|name| {
        if name.relname == from {
            *name = table("", to, None);
        }
        Ok(())
    })
}

/// Does it compare by an operator `=` that does not stand there: `CASE x WHEN`, `USING`, `IN`, `NULLIF`, `IS DISTINCT FROM`?
pub fn compares_unwritten(node: &Ref<'_>) -> bool {
    use protobuf::AExprKind::{AexprDistinct, AexprNotDistinct, AexprNullif};
    match node {
        Ref::CaseExpr(case) => case.arg.is_some(),
        Ref::JoinExpr(join) => join.is_natural || !join.using_clause.is_empty(),
        Ref::SubLink(link) => link.sub_link_type() == SubLinkType::AnySublink && link.oper_name.is_empty(),
        Ref::AExpr(e) => matches!(e.kind(), AexprDistinct | AexprNotDistinct | AexprNullif),
        _ => false,
    }
}
