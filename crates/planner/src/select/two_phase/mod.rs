//! ORDER BY, LIMIT, DISTINCT and aggregation on top of rows that the nodes compute on their own: one fragment, one temp
//! table, one final statement.
//!
//! Three ways, cheapest first:
//! - *rows done*: every node's rows are final, only order and limit are left: each node sorts and cuts, the coordinator
//!   merges ([`merged`]) or the home node does it again;
//! - *partial aggregates*: `count`, `sum`, `min`, … are computed per node and combined;
//! - *raw columns*: the columns that the upper part of the query mentions travel, everything above WHERE runs at home: also
//!   functions in the output that give several rows, which are called when the rows are in order.

mod merged;
mod upper;

use catalog::NodeId;
use pg_query::protobuf::{AConst, LimitOption, ResTarget, SelectStmt, SortBy, a_const};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use super::locality::{Analyzer, Body, Split};
use super::names::{names_row, outputs};
use super::shape;
use crate::context::Context;
use crate::plan::{FinalSql, Gather, Input, Merge};
use crate::tree::{self, Ask, Get, Syntax};
use upper::Upper;

/// Name of the only input.
pub(super) const TABLE: &str = "loxo_g1";

/// Plans the upper part of a query; `None` if it cannot be separated from the lower one.
pub(crate) fn separated(
    ctx: &Context<'_>,
    analyzer: &Analyzer<'_>,
    select: &SelectStmt,
    body: &Body,
    split: &Split,
    rows_done: bool,
) -> Result<Option<Planned>> {
    if has_pseudo_types(ctx) {
        return Ok(None);
    }
    // Plain DISTINCT is done on the nodes and again.
    let needs_all_rows =
        shape::is_aggregated(ctx, select)? || !shape::windows(select)?.is_empty() || tree::has_distinct_on(select);
    if !shape::gives_sets_in_order(ctx, select)? && (rows_done || !needs_all_rows) {
        return rows_done_plan(analyzer, select, body, split, rows_done);
    }
    if !shape::sub_links(&upper(select))?.is_empty() {
        return Ok(None);
    }
    let upper = |partial| Upper::new(ctx, analyzer, select, body, split, partial);
    match upper(true)?.plan(select)? {
        Some(planned) => Ok(Some(planned)),
        None => upper(false)?.plan(select),
    }
}

/// Rows that are locked on the way: on one node after the other, as all that lock rows of several nodes do, so an input for each.
pub(crate) fn locked_in_order(gather: Gather) -> Result<Gather> {
    let lost = || PgError::internal("a locking query without its only input");
    let [all] = gather.inputs.as_slice() else { return Err(lost()) };
    let table = |node: &NodeId| format!("{TABLE}_{}", node.0);
    let inputs = all.nodes.iter().map(|node| Input { table: table(node), nodes: vec![*node], ..all.clone() }).collect();
    let parts: Vec<String> = all.nodes.iter().map(|node| format!("SELECT * FROM {}", table(node))).collect();
    let rows = tree::parse_select(&format!("SELECT 1 FROM ({}) AS {TABLE}", parts.join(" UNION ALL ")))?;
    let mut last = tree::parse_select(&gather.final_sql.text)?;
    last.from_clause = rows.from_clause;
    let final_sql = FinalSql { text: tree::deparse_select(&last)?, ..gather.final_sql };
    Ok(Gather { inputs, final_sql, writes: true, merge: None, ..gather })
}

/// ORDER BY and LIMIT over a set operation whose branches are final on every node.
pub(crate) fn finish_set(
    ctx: &Context<'_>,
    select: &SelectStmt,
    inner: &SelectStmt,
    nodes: &[NodeId],
) -> Result<Option<Gather>> {
    if has_pseudo_types(ctx) || tree::leftmost(inner).target_list.iter().filter_map(tree::value_of).any(tree::is_row) {
        return Ok(None);
    }
    let outputs = match ctx.session.describe {
        Some(described) => Some(described.iter().map(|column| column.name.clone()).collect()),
        None => outputs(inner),
    };
    let Some(outputs): Option<Vec<String>> = outputs else { return Ok(None) };
    let names: Vec<Node> = (1..=outputs.len()).map(|i| tree::string(&output(i))).collect();
    let alias = pg_query::protobuf::Alias { aliasname: "loxo_q".to_owned(), colnames: names };
    let all = vec![tree::target(tree::star(None), None)];
    let fragment = tree::select_from(all, vec![tree::sub_select(inner.clone(), alias)]);
    let mut last = over_input(select);
    last.target_list = outputs_as(outputs.iter());
    last.sort_clause = select.sort_clause.clone();
    let planned = Planned { fragment, last, types: Vec::new(), merge: None };
    planned.gather(ctx, nodes.to_vec()).map(Some)
}

/// A query in two parts.
pub(super) struct Planned {
    /// What each node computes of its rows.
    pub fragment: SelectStmt,
    /// The rest, over the rows of all nodes.
    pub last: SelectStmt,
    /// Columns of the input whose types the final text names.
    pub types: Vec<(usize, usize)>,
    /// If the rest is but to put rows in order.
    pub merge: Option<Merge>,
}

impl Planned {
    pub fn gather(self, ctx: &Context<'_>, nodes: Vec<NodeId>) -> Result<Gather> {
        let sql = tree::deparse_select(&self.fragment)?;
        let text = tree::deparse_select(&self.last)?;
        let input = Input { table: TABLE.to_owned(), nodes, sql, indexes: Vec::new(), exchange_plan: None };
        let gather = Gather::new(ctx.home(), vec![input], FinalSql { text, types: self.types });
        Ok(Gather { merge: self.merge.map(Box::new), ..gather })
    }
}

fn output(position: usize) -> String {
    format!("loxo_c{position}")
}

/// The columns of the input under the names of the outputs.
fn outputs_as<'n>(names: impl Iterator<Item = &'n String>) -> Vec<Node> {
    names.enumerate().map(|(i, name)| tree::target(tree::column(&[&output(i + 1)]), Some(name))).collect()
}

/// The final statement's frame: reads the input, keeps LIMIT.
fn over_input(select: &SelectStmt) -> SelectStmt {
    SelectStmt {
        from_clause: vec![tree::node(NodeEnum::RangeVar(tree::table("", TABLE, None)))],
        limit_count: select.limit_count.clone(),
        limit_offset: select.limit_offset.clone(),
        limit_option: select.limit_option,
        ..tree::empty_select()
    }
}

/// The level without FROM and WHERE.
fn upper(select: &SelectStmt) -> SelectStmt {
    SelectStmt { from_clause: Vec::new(), where_clause: None, with_clause: None, ..select.clone() }
}

/// A temp table cannot have a column of type `record` or `void`.
pub(super) fn has_pseudo_types(ctx: &Context<'_>) -> bool {
    const RECORD: u32 = 2249;
    const VOID: u32 = 2278;
    const RECORD_ARRAY: u32 = 2287;
    let described = ctx.session.describe.unwrap_or_default();
    described.iter().any(|c| [RECORD, VOID, RECORD_ARRAY].contains(&c.type_oid))
}

/// Every row of the fragment is an output row: sort, distinct and limit on both sides.
fn rows_done_plan(
    analyzer: &Analyzer<'_>,
    select: &SelectStmt,
    body: &Body,
    split: &Split,
    are_final: bool,
) -> Result<Option<Planned>> {
    let Some(values) = output_values(select) else { return Ok(None) };
    let Some(group) = shape::plain_group(select) else { return Ok(None) };
    let group: Vec<Node> = group.into_iter().cloned().collect();
    let mut fragment = select.clone();
    fragment.group_clause = group;
    fragment.target_list =
        values.iter().enumerate().map(|(i, (v, _))| tree::target(v.clone(), Some(&output(i + 1)))).collect();
    let mut last = over_input(select);
    last.target_list = outputs_as(values.iter().map(|(_, name)| name));
    // Duplicates within a node are gone when the key is in the output; removing them again changes nothing then.
    last.distinct_clause = select.distinct_clause.clone();
    if tree::has_distinct_on(select) {
        return Ok(None);
    }
    let mut sort = Vec::new();
    for item in &select.sort_clause {
        let Some(by) = item.get::<SortBy>() else { return Ok(None) };
        let Some(position) = sort_position(by, &values, &mut fragment, select) else { return Ok(None) };
        sort.push((by.clone(), position));
    }
    let merge = match are_final {
        true => {
            let names = values.iter().map(|(_, name)| name.as_str()).collect();
            let sorted = merged::Sorted { select, rows: &fragment, names, sort: &sort };
            merged::merge(analyzer, body, &split.nodes, &sorted)?
        }
        // What is distinct on each node is not yet so altogether.
        false => None,
    };
    // They may be passed on, but no table holds them.
    if merge.is_none() && values.iter().any(|(value, _)| tree::is_row(value)) {
        return Ok(None);
    }
    fragment.sort_clause = sort.iter().map(|(by, at)| sort_by(by, tree::integer(*at as i64))).collect();
    last.sort_clause = sort.iter().map(|(by, at)| sort_by(by, tree::column(&[&output(*at)]))).collect();
    push_limit(select, &mut fragment);
    Ok(Some(Planned { fragment, last, types: Vec::new(), merge }))
}

/// The 1-based output column an ORDER BY item means, made if need be.
fn sort_position(
    by: &SortBy,
    values: &[(Node, String)],
    fragment: &mut SelectStmt,
    select: &SelectStmt,
) -> Option<usize> {
    let expression = by.node.as_deref()?;
    if let Some(position) = shape::ordinal(expression) {
        return (1..=values.len()).contains(&position).then_some(position);
    }
    if let Some(name) = tree::bare_name(expression)
        && let Some(at) = values.iter().position(|(_, output)| output == name)
    {
        return Some(at + 1);
    }
    if let Some(at) = values.iter().position(|(value, _)| tree::same_expression(value, expression)) {
        return Some(at + 1);
    }
    if !select.distinct_clause.is_empty() || tree::is_row(expression) {
        return None;
    }
    let position = fragment.target_list.len() + 1;
    fragment.target_list.push(tree::target(expression.clone(), Some(&output(position))));
    Some(position)
}

fn sort_by(by: &SortBy, node: Node) -> Node {
    SortBy { node: Some(Box::new(node)), ..by.clone() }.into_node()
}

/// A node need not give more rows than the whole statement skips and returns, in any order but that of their locks.
fn push_limit(select: &SelectStmt, fragment: &mut SelectStmt) {
    let count = fragment.limit_count.take().filter(|_| select.limit_option != LimitOption::WithTies as i32);
    let pushed = count.and_then(|count| match &select.limit_offset {
        None => Some(*count),
        Some(offset) => constant(offset)?.checked_add(constant(&count)?).map(tree::integer),
    });
    if pushed.is_none() && select.locking_clause.is_empty() {
        fragment.sort_clause.clear();
    }
    fragment.limit_option = if pushed.is_some() { LimitOption::Count } else { LimitOption::Default } as i32;
    fragment.limit_count = pushed.map(Box::new);
    fragment.limit_offset = None;
}

fn constant(node: &Node) -> Option<i64> {
    match node.get::<AConst>()?.val.as_ref()? {
        a_const::Val::Ival(i) => Some(i64::from(i.ival)),
        a_const::Val::Fval(f) => f.fval.parse().ok(),
        _ => None,
    }
}

/// The output expressions and their names; `None` if a row is among them, which has no column type of its own, or a star.
fn output_values(select: &SelectStmt) -> Option<Vec<(Node, String)>> {
    let tables: Vec<&str> = select.from_clause.tables().ok()?.into_iter().map(tree::alias_of).collect();
    let value = |entry: &Node| {
        let target = entry.get::<ResTarget>()?;
        let value = target.val.as_deref()?;
        let is_row = match &value.node {
            Some(NodeEnum::ColumnRef(_)) if names_row(value, |name| tables.contains(&name)).ok()? => true,
            Some(NodeEnum::TypeCast(_)) => false,
            _ => tree::is_row(value),
        };
        (!is_row).then(|| (value.clone(), tree::output_name(target)))
    };
    select.target_list.iter().map(value).collect()
}
