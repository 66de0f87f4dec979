//! Questions about one query level: aggregates, windows, grouping, sub-selects. None of them looks into sub-selects, but for
//! aggregates there that belong to the level.

use catalog::Function;
use pg_query::protobuf::{
    self, CoercionForm, FuncCall, FunctionParameter, FunctionParameterMode, JoinExpr, JoinType, RowExpr, SelectStmt,
    SubLink, WindowDef,
};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use super::outer_aggregates;
use crate::context::Context;
use crate::tree::{self, Ask, Get, Ref, Walk};

/// Is this call an aggregate (not a window function)?
pub(crate) fn is_aggregate(ctx: &Context<'_>, call: &FuncCall) -> bool {
    if call.over.is_some() {
        return false;
    }
    let marked = call.agg_star
        || call.agg_distinct
        || call.agg_within_group
        || call.agg_filter.is_some()
        || !call.agg_order.is_empty();
    let of_users = || ctx.user_functions(call).iter().any(|function| function.kind == 'a');
    marked || of_users() || ctx.builtin_functions(call).iter().any(|function| function.kind == 'a')
}

/// All parts of a level that hold expressions.
fn expressions(select: &SelectStmt) -> Vec<&Node> {
    let lists = [
        &select.target_list,
        &select.distinct_clause,
        &select.group_clause,
        &select.window_clause,
        &select.values_lists,
        &select.sort_clause,
        &select.from_clause,
    ];
    let single = [&select.where_clause, &select.having_clause, &select.limit_count, &select.limit_offset];
    lists.into_iter().flatten().chain(single.into_iter().filter_map(|n| n.as_deref())).collect()
}

/// A set operation without what is done with its rows afterwards.
pub(crate) fn below_order(select: &SelectStmt) -> SelectStmt {
    SelectStmt { sort_clause: Vec::new(), limit_count: None, limit_offset: None, with_clause: None, ..select.clone() }
}

/// Walks a level without its sub-selects.
pub(crate) fn walk_level<'a>(select: &'a SelectStmt, visit: &mut dyn FnMut(Ref<'a>)) -> Result<()> {
    for expression in expressions(select) {
        expression.walk(&mut |node| {
            visit(node);
            Ok(!matches!(node, Ref::SelectStmt(_)))
        })?;
    }
    Ok(())
}

/// What there is of the level's nodes, in the order of the walk.
fn collect<'a, T>(select: &'a SelectStmt, of: impl Fn(Ref<'a>) -> Option<T>) -> Result<Vec<T>> {
    let mut found = Vec::new();
    walk_level(select, &mut |node| found.extend(of(node)))?;
    Ok(found)
}

/// Sub-selects in the level's expressions (not those in FROM).
pub(crate) fn sub_links(select: &SelectStmt) -> Result<Vec<&SubLink>> {
    collect(select, |node| if let Ref::SubLink(link) = node { Some(link) } else { None })
}

/// Aggregate calls of the level.
pub(crate) fn aggregates<'a>(ctx: &Context<'_>, select: &'a SelectStmt) -> Result<Vec<&'a FuncCall>> {
    collect(select, |node| match node {
        Ref::FuncCall(call) if is_aggregate(ctx, call) => Some(call),
        _ => None,
    })
}

/// Has the output functions that give several rows, which PostgreSQL calls when the rows are in order? It calls them before if what they
/// give is sorted by, or if rows are told apart by it (`make_sort_input_target` in `planner.c`).
pub(crate) fn gives_sets_in_order(ctx: &Context<'_>, select: &SelectStmt) -> Result<bool> {
    if select.sort_clause.is_empty() || !select.distinct_clause.is_empty() {
        return Ok(false);
    }
    let sets = select.target_list.iter().map(|target| has_set(ctx, target)).collect::<Result<Vec<_>>>()?;
    if !sets.contains(&true) {
        return Ok(false);
    }
    for key in select.sort_clause.iter().filter_map(|item| item.get::<protobuf::SortBy>()?.node.as_deref()) {
        let is_called = |target: &Node, name: &str| {
            target.get::<protobuf::ResTarget>().is_some_and(|target| tree::output_name(target) == name)
        };
        let named = |name| select.target_list.iter().position(|target| is_called(target, name));
        let place = ordinal(key).map(|number| number.wrapping_sub(1)).or_else(|| tree::bare_name(key).and_then(named));
        let is_set = match place {
            Some(at) => sets.get(at).copied().unwrap_or(true),
            None => has_set(ctx, key)?,
        };
        if is_set {
            return Ok(false);
        }
    }
    Ok(true)
}

fn has_set(ctx: &Context<'_>, expression: &Node) -> Result<bool> {
    let mut found = false;
    expression.walk(&mut |node| {
        found |= matches!(node, Ref::FuncCall(call) if gives_set(ctx, call));
        Ok(!matches!(node, Ref::SelectStmt(_)))
    })?;
    Ok(found)
}

/// May a call give several rows?
pub(crate) fn gives_set(ctx: &Context<'_>, call: &FuncCall) -> bool {
    ctx.builtin_functions(call).iter().any(|function| function.returns_set)
        || ctx.user_functions(call).iter().any(|function| function.kind == 'f' && returns_set(function))
}

/// Does PostgreSQL make equal calls of sets once, though each is all of an output column, or may it? It does where another set stands
/// below an expression (`split_pathtarget_at_srfs` in `tlist.c`); which it does where they are sorted is not looked into.
pub(crate) fn merges_sets(ctx: &Context<'_>, targets: &[Node], is_sorted: bool) -> Result<bool> {
    let values = || targets.iter().filter_map(|target| target.get::<protobuf::ResTarget>()?.val.as_deref());
    let set_of = |value: &&Node| value.get::<FuncCall>().is_some_and(|call| gives_set(ctx, call));
    let whole: Vec<&Node> = values().filter(set_of).collect();
    let is_again = |at: usize| whole[..at].iter().any(|other| tree::same_expression(whole[at], other));
    let is_set = |node: Ref<'_>| matches!(node, Ref::FuncCall(call) if gives_set(ctx, call));
    let has_set_below = |value: &Node| match value.get::<FuncCall>() {
        Some(call) => call.args.any(is_set),
        None => value.any(is_set),
    };
    Ok((0..whole.len()).any(is_again) && (is_sorted || crate::try_any(values(), has_set_below)?))
}

/// As its definition says: `RETURNS SETOF` or `RETURNS TABLE`.
fn returns_set(function: &Function) -> bool {
    let Ok(Some(NodeEnum::CreateFunctionStmt(create))) = tree::parse_one(&function.definition) else { return true };
    let is_column = |parameter: &Node| {
        let parameter = parameter.get::<FunctionParameter>();
        parameter.is_some_and(|parameter| parameter.mode() == FunctionParameterMode::FuncParamTable)
    };
    create.return_type.as_ref().is_some_and(|of| of.setof) || create.parameters.iter().any(is_column)
}

/// Does the level group rows?
pub(crate) fn is_aggregated(ctx: &Context<'_>, select: &SelectStmt) -> Result<bool> {
    Ok(!select.group_clause.is_empty()
        || select.having_clause.is_some()
        || !aggregates(ctx, select)?.is_empty()
        || has_json_aggregate(select)?
        || has(select, |node| matches!(node, Ref::GroupingFunc(_)))?
        || outer_aggregates::any(ctx, select)?)
}

/// `JSON_ARRAYAGG` and `JSON_OBJECTAGG` are nodes of their own.
pub(crate) fn has_json_aggregate(select: &SelectStmt) -> Result<bool> {
    has(select, |node| matches!(node, Ref::JsonArrayAgg(_) | Ref::JsonObjectAgg(_)))
}

/// Has the level such a node?
fn has(select: &SelectStmt, is_such: impl Fn(Ref<'_>) -> bool) -> Result<bool> {
    let mut found = false;
    walk_level(select, &mut |node| found |= is_such(node))?;
    Ok(found)
}

/// The grouping expressions with ordinals replaced. `None` with grouping sets.
pub(crate) fn plain_group(select: &SelectStmt) -> Option<Vec<&Node>> {
    if select.group_clause.iter().any(|g| matches!(g.node, Some(NodeEnum::GroupingSet(_)))) {
        return None;
    }
    select.group_clause.iter().map(|item| by_position(select, item)).collect()
}

/// All expressions that some grouping set groups by, with ordinals replaced.
pub(crate) fn grouped_in_sets(select: &SelectStmt) -> Option<Vec<&Node>> {
    let mut found: Vec<&Node> = Vec::new();
    let mut pending: Vec<&Node> = select.group_clause.iter().rev().collect();
    while let Some(item) = pending.pop() {
        match &item.node {
            Some(NodeEnum::GroupingSet(set)) => pending.extend(set.content.iter().rev()),
            Some(NodeEnum::RowExpr(row)) if is_list(row) => pending.extend(row.args.iter().rev()),
            _ => found.push(by_position(select, item)?),
        }
    }
    Some(found)
}

/// `(a, b)` without ROW, which GROUP BY takes for a list.
pub(crate) fn is_list(row: &RowExpr) -> bool {
    row.row_format == CoercionForm::CoerceImplicitCast as i32
}

/// An item of GROUP BY or DISTINCT ON: a number counts output columns; PostgreSQL prints no name of an output there.
fn by_position<'a>(select: &'a SelectStmt, item: &'a Node) -> Option<&'a Node> {
    ordinal(item).map_or(Some(item), |position| target_value(select, position))
}

/// The expression of the n-th output column (1-based); `None` if a star stands before it.
pub(crate) fn target_value(select: &SelectStmt, position: usize) -> Option<&Node> {
    let before = select.target_list.get(..position)?;
    if before.iter().any(tree::shows_star) {
        return None;
    }
    tree::value_of(before.last()?)
}

/// A bare integer constant: the number of an output column.
pub(crate) fn ordinal(node: &Node) -> Option<usize> {
    usize::try_from(tree::integer_of(node)?).ok()
}

/// DISTINCT ON's expressions, or all output expressions for plain DISTINCT.
pub(crate) fn distinct_expressions(select: &SelectStmt) -> Vec<&Node> {
    if tree::has_distinct_on(select) {
        return select.distinct_clause.iter().filter_map(|item| by_position(select, item)).collect();
    }
    (1..=select.target_list.len()).filter_map(|i| target_value(select, i)).collect()
}

/// Are the rows those of FROM, one for each that WHERE lets pass, in any order?
pub(crate) fn only_chooses(select: &SelectStmt) -> bool {
    !tree::is_operation(select)
        && select.distinct_clause.is_empty()
        && select.group_clause.is_empty()
        && select.having_clause.is_none()
        && select.values_lists.is_empty()
        && tree::is_unlimited(select)
        && select.with_clause.is_none()
}

/// The PARTITION BY of every window function of the level; `None` for one we cannot find.
pub(crate) fn windows(select: &SelectStmt) -> Result<Vec<Option<Vec<&Node>>>> {
    collect(select, |node| {
        let over = match node {
            Ref::FuncCall(call) => call.over.as_deref(),
            Ref::JsonAggConstructor(json) => json.over.as_deref(),
            _ => None,
        };
        over.map(|over| partition_of(select, over, 0))
    })
}

fn partition_of<'a>(select: &'a SelectStmt, window: &'a WindowDef, depth: usize) -> Option<Vec<&'a Node>> {
    if !window.partition_clause.is_empty() {
        return Some(window.partition_clause.iter().collect());
    }
    let base = if window.refname.is_empty() { &window.name } else { &window.refname };
    if base.is_empty() || depth > select.window_clause.len() {
        return Some(Vec::new());
    }
    let mut windows = select.window_clause.iter().filter_map(|window| window.get::<WindowDef>());
    let def = windows.find(|def| def.name == *base)?;
    if std::ptr::eq(def, window) { Some(Vec::new()) } else { partition_of(select, def, depth + 1) }
}

/// Conditions that every row of the level fulfils: WHERE and the ON of inner joins that no outer join encloses.
pub(crate) fn inner_conditions(select: &SelectStmt) -> Vec<&Node> {
    let mut conditions = tree::conjuncts(select.where_clause.as_deref());
    let mut stack: Vec<&Node> = select.from_clause.iter().collect();
    while let Some(item) = stack.pop() {
        if let Some(join) = item.get::<JoinExpr>()
            && join.jointype() == JoinType::JoinInner
        {
            conditions.extend(tree::conjuncts(join.quals.as_deref()));
            stack.extend(join.larg.as_deref().into_iter().chain(join.rarg.as_deref()));
        }
    }
    conditions
}
