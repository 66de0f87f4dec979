//! Calls in FROM that depend on the items before them: `FROM t, f(t.x) AS a`.
//!
//! What stands before the call gives the rows, as far as the query's conditions are about nothing else. In the rest the rows are
//! in its place, and the arrays that the call gave, unnested, in the call's.

use std::collections::HashSet;

use pg_query::protobuf::{JoinType, List, RangeFunction, RangeSubselect, SelectStmt};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use super::effects::may_touch;
use super::expression::Place;
use super::slots::{Call, Draft, Slot, rows_item};
use crate::tree::{self, Ask, Syntax, Walk, aliases, is_about, left_of, only_names, table_of};

/// The query that gives the rows, and the one over them; `None` if FROM has no such call, or not so.
pub(super) fn split(draft: &mut Draft<'_>, query: &SelectStmt) -> Result<Option<(SelectStmt, SelectStmt)>> {
    if !draft.calls_in(&query.from_clause)? {
        return Ok(None);
    }
    let mut rest = query.clone();
    let calls = rest.from_clause.iter().map(|item| draft.calls_in(item)).collect::<Result<Vec<_>>>()?;
    let Some(at) = calls.iter().position(|calls| *calls) else { return Ok(None) };
    let Some(depth) = depth(draft, &rest.from_clause[at])? else { return Ok(None) };
    let mut before: Vec<Node> = rest.from_clause.drain(..at).collect();
    let Some(item) = left_of(&mut rest.from_clause[0], depth) else { return Ok(None) };
    let call = match &mut item.node {
        Some(NodeEnum::RangeFunction(function)) => function.clone(),
        Some(NodeEnum::JoinExpr(join)) => {
            before.extend(join.larg.take().map(|left| *left));
            match join.rarg.as_deref().and_then(|right| right.node.as_ref()) {
                Some(NodeEnum::RangeFunction(function)) => function.clone(),
                _ => return Ok(None),
            }
        }
        _ => return Ok(None),
    };
    if before.is_empty() {
        return Ok(None);
    }
    let names = aliases(&before)?;
    let Some(unnested) = in_rows(draft, &call, &names)? else { return Ok(None) };
    match left_of(&mut rest.from_clause[0], depth).and_then(|item| item.node.as_mut()) {
        Some(NodeEnum::JoinExpr(join)) => {
            (join.larg, join.rarg) = (Some(Box::new(rows_item())), Some(Box::new(unnested)));
        }
        _ => drop(rest.from_clause.splice(..1, [rows_item(), unnested])),
    }
    let mut early = Vec::new();
    let mut late = Vec::new();
    for condition in tree::conjuncts(query.where_clause.as_deref()) {
        match is_about(condition, &names, query)? && !draft.calls_in(condition)? {
            true => early.push(condition.clone()),
            false => late.push(condition.clone()),
        }
    }
    rest.where_clause = tree::conjunction(late).map(Box::new);
    to_slots(draft, &mut rest, &names, false)?;
    draft.fails |= !query.locking_clause.is_empty() || reads_again(draft, &rest)?;
    rest.with_clause = None;
    let rows = SelectStmt {
        with_clause: query.with_clause.clone(),
        target_list: draft.targets(),
        from_clause: before,
        where_clause: tree::conjunction(early).map(Box::new),
        ..tree::empty_select()
    };
    Ok(Some((rows, rest)))
}

/// How many joins stand above the one whose right side is the first call, in a chain of joins of which the left sides keep all of
/// their rows: `(t JOIN u …) LEFT JOIN LATERAL f(t.x) … JOIN w`. 0 too if there is no join.
fn depth(draft: &Draft<'_>, item: &Node) -> Result<Option<usize>> {
    let join = match &item.node {
        Some(NodeEnum::RangeFunction(_)) => return Ok(Some(0)),
        Some(NodeEnum::JoinExpr(join)) => join,
        _ => return Ok(None),
    };
    let keeps_left = matches!(join.jointype(), JoinType::JoinInner | JoinType::JoinLeft);
    let is_plain = keeps_left && !join.is_natural && join.using_clause.is_empty() && join.alias.is_none();
    match join.larg.as_deref() {
        Some(left) if is_plain && draft.calls_in(left)? => Ok(depth(draft, left)?.map(|depth| depth + 1)),
        Some(_) if is_plain => Ok(Some(0)),
        _ => Ok(None),
    }
}

/// The call becomes part of the draft; gives what unnests its rows.
fn in_rows(draft: &mut Draft<'_>, item: &RangeFunction, names: &HashSet<String>) -> Result<Option<Node>> {
    let Some(call) = tree::only_call(item) else { return Ok(None) };
    let functions = draft.ours(call)?;
    let Some(shape) = draft.shape(&functions).filter(|_| !item.is_rowsfrom && item.coldeflist.is_empty()) else {
        return Ok(None);
    };
    let (Some(alias), false) = (&item.alias, shape.is_void) else { return Ok(None) };
    let Some(columns) = shape.names(draft.ctx, &alias.aliasname) else { return Ok(None) };
    if columns.is_empty() || !only_names(&call.args, names)? || !shape.unnests(draft.ctx, item.ordinality) {
        return Ok(None);
    }
    draft.functions.extend(&functions);
    let mut call = call.clone();
    draft.arguments(&mut call, Place { group: &[], when: None, only_columns: false })?;
    let call = call.into_node();
    let item_of_call = tree::call_in_from(call, tree::alias("loxo_c")).into_node();
    let query = tree::select_from(vec![tree::target(tree::star(None), None)], vec![item_of_call]);
    let first = draft.add(Call { query, when: None, columns: columns.len(), is_set: true, once: false });
    let sets = (first..first + columns.len()).map(|at| Slot::Set(at).node());
    let alias = Some(tree::alias_of_columns(alias.clone(), columns.iter()));
    let functions = |sets| List { items: vec![sets, Node { node: None }] }.into_node();
    Ok(Some(match item.ordinality {
        true => tree::node(NodeEnum::RangeFunction(RangeFunction {
            lateral: true,
            ordinality: true,
            is_rowsfrom: true,
            functions: sets.map(functions).collect(),
            alias,
            coldeflist: Vec::new(),
        })),
        // In FROM unnest() would make columns of the fields of composite values.
        false => {
            let targets = sets.zip(&columns).map(|(set, name)| tree::target(set, Some(name))).collect();
            let subquery = tree::select_from(targets, Vec::new()).into_box();
            tree::node(NodeEnum::RangeSubselect(Box::new(RangeSubselect { lateral: true, subquery, alias })))
        }
    }))
}

/// Columns of the rows become slots, wherever they are; columns without a table in front too, if there is no other table they may
/// belong to. A query of which a sub-select has a table of one of these names is not taken apart.
pub(super) fn to_slots(
    draft: &mut Draft<'_>,
    rest: &mut SelectStmt,
    names: &HashSet<String>,
    with_bare: bool,
) -> Result<()> {
    let mut whole = std::mem::take(rest).into_node();
    let mut seen = 0;
    whole.rewrite(&mut |node| {
        match &node.node {
            Some(NodeEnum::ColumnRef(column)) if Slot::of(node).is_none() => {
                match table_of(column) {
                    Some(table) if names.contains(table) => {
                        draft.fails |= tree::is_star(&column.fields);
                        let value = node.clone();
                        *node = draft.column(&value);
                    }
                    Some(_) => {}
                    None if with_bare => {
                        let value = node.clone();
                        *node = draft.column(&value);
                    }
                    // A merged column of JOIN USING.
                    None => draft.fails = true,
                }
                return Ok(false);
            }
            Some(NodeEnum::SelectStmt(select)) => {
                seen += 1;
                draft.fails |= seen > 1 && !aliases(&select.from_clause)?.is_disjoint(names);
            }
            _ => {}
        }
        Ok(true)
    })?;
    if let Some(NodeEnum::SelectStmt(select)) = whole.node {
        *rest = *select;
    }
    Ok(())
}

/// Does the rest read what the calls may have changed, or a part of WITH that is computed with the rows?
fn reads_again(draft: &Draft<'_>, rest: &SelectStmt) -> Result<bool> {
    let without = SelectStmt { with_clause: None, ..rest.clone() };
    crate::try_any(without.tables()?, |name| {
        Ok(name.schemaname.is_empty() || may_touch(draft.ctx, &draft.functions, name)?)
    })
}
