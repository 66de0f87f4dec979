//! Set operations over many rows of several nodes: the rows of every branch are sent to nodes by the hash of their columns, and
//! each node does the operation for its part.
//!
//! ```text
//! branch 1 on its nodes  ─by hash→  table 1 ┐
//! branch 2 on its nodes  ─by hash→  table 2 ┴ the same operation over these tables, on each node
//! ```
//!
//! Rows that are equal meet on one node, since equal values of one type hash alike; the hash is of those columns whose type is
//! known and the same in all branches. That the result is right is for [`locality`](crate::select::locality) to prove.
//! `UNION ALL` alone needs none of this: no rows have to meet.

use catalog::{Column, Distribution, FIRST_USER_OID, KeyColumn};
use pg_query::protobuf::SelectStmt;
use pgerror::Result;

use super::blocks::with_ctes;
use super::estimate::{ROWS_MIN, STEP, width};
use super::repartitioned_aggregation::rows_at_most;
use super::{Found, Search, State, select_of_table};
use crate::plan::Exchange;
use crate::select::names::{is_closed, outputs};
use crate::select::shape;
use crate::tree;

/// A branch of a set operation that is not one itself.
struct Branch {
    /// With the WITH items that it needs.
    query: SelectStmt,
    names: Vec<String>,
    columns: Vec<Column>,
    /// Rows of one node.
    rows: f64,
}

impl Search<'_> {
    /// A plan that does a set operation on all nodes, if it has many rows that would otherwise come to one node.
    pub(super) fn branches(&self, query: &SelectStmt, state: &State) -> Result<Option<Found>> {
        if !tree::is_operation(query) || self.ctx.has_user_operator("=") {
            return Ok(None);
        }
        let Some(leaves) = tree::leaves(query) else { return Ok(None) };
        let mut branches = Vec::new();
        for leaf in leaves {
            let Some(branch) = self.branch(leaf, query, state)? else { return Ok(None) };
            branches.push(branch);
        }
        let rows: f64 = branches.iter().map(|branch| branch.rows).sum();
        let key = self.common_key(&branches);
        let Some((map_id, map)) = self.map_of_all() else { return Ok(None) };
        if key.is_empty() || rows * (self.nodes.len() as f64) < ROWS_MIN {
            return Ok(None);
        }
        let (mut query, mut state) = (query.clone(), state.clone());
        let mut stand_ins = Vec::new();
        for branch in &branches {
            let Some(found) = self.best(&branch.query, &state, &[])? else { return Ok(None) };
            state = found.state.clone();
            let (nodes, sql, inputs) = self.as_fragment(&found, &mut state)?;
            let next = state.exchange(&branch.columns, nodes, sql, self.by_hash(&key, &map));
            let exchange = Exchange { inputs, ..next };
            state.cost += STEP + branch.rows * width(branch.columns.len());
            stand_ins.push(select_of_table(&branch.names, &branch.columns, &exchange.table));
            let distribution = Distribution::Hash { columns: key.clone(), map_id, map: map.clone() };
            state.add(exchange, branch.columns.clone(), distribution);
        }
        tree::replace_leaves(&mut query, &mut stand_ins.into_iter());
        self.found(&query, &state)
    }

    fn branch(&self, leaf: &SelectStmt, query: &SelectStmt, state: &State) -> Result<Option<Branch>> {
        let ctx = self.context(state);
        if !is_closed(&ctx, leaf)? {
            return Ok(None);
        }
        let (Some(alone), Some(outputs)) = (with_ctes(&ctx, leaf, query)?, outputs(leaf)) else { return Ok(None) };
        let columns = self.columns_shown(&alone, outputs.len(), state)?;
        let is_plain =
            alone.distinct_clause.is_empty() && !tree::is_ordered(&alone) && !shape::is_aggregated(self.ctx, &alone)?;
        let all = self.estimated(&alone)?;
        let once = if is_plain { self.once_if_fewer(&alone)? } else { None };
        let (query, rows) = match once {
            Some(distinct) => distinct,
            None => (alone, all.map_or_else(|| rows_at_most(&ctx, leaf), Ok)?),
        };
        Ok(Some(Branch { query, names: outputs, columns, rows }))
    }

    /// Positions that are of the same type in all branches, and can be hashed.
    fn common_key(&self, branches: &[Branch]) -> Vec<KeyColumn> {
        let [first, others @ ..] = branches else { return Vec::new() };
        let is_common = |(at, column): &(usize, &Column)| {
            let same = |other: &Branch| {
                other.columns.get(*at).is_some_and(|o| o.type_oid == column.type_oid && o.deterministic)
            };
            column.type_oid < FIRST_USER_OID && others.iter().all(same)
        };
        first.columns.iter().enumerate().filter(is_common).filter_map(|(_, column)| self.key(column)).collect()
    }
}
