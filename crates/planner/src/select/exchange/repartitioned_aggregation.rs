//! Grouping, DISTINCT and windows over many rows of several nodes: the rows are sent to nodes by the hash of what is grouped,
//! and every node finishes its groups, instead of one node all of them.
//!
//! ```text
//! fragment on each node (partial aggregates, or plain columns)  ─by hash→  last text on each node  ─→  merged, LIMIT once more
//! ```
//!
//! Rows that are only asked which values occur (`count(DISTINCT …)`) come once from each node.
//!
//! It is the plan of [`two_phase`] with a table that is distributed in the place of one on the home node. That groups are complete
//! then is for [`locality`](crate::select::locality) to prove; columns whose equal values may hash differently (floats are
//! hashed by value, collations must be deterministic) are never part of the hash.

use std::sync::Arc;

use catalog::{Column, Distribution, FIRST_USER_OID, KeyColumn, MapId};
use pg_query::NodeEnum;
use pg_query::protobuf::{FuncCall, RangeVar, SelectStmt};
use pgerror::Result;
use placement::{BucketMap, KeyType};

use super::estimate::ROWS_MIN;
use super::unknown_column;
use super::{Found, Markers, Search, State};
use crate::context::Context;
use crate::facts::builtins;
use crate::plan::{FinalSql, KeySource, Plan, Route};
use crate::select::locality::{Analyzer, Body, Env, RowDistribution};
use crate::select::shape;
use crate::select::two_phase::{self, Planned};
use crate::tree::{self, Ask};

/// What it costs to move a row, where finishing it costs 1.
const MOVE_COST: f64 = 0.8;
/// What it costs to finish a row that has to be sorted for it.
const SORT_COST: f64 = 3.0;

impl Search<'_> {
    /// A plan that finishes on all nodes a query whose rows would otherwise be finished on one, if there are many.
    pub(super) fn repartitioned(&self, query: &SelectStmt, state: &State) -> Result<Option<Found>> {
        let ctx = self.context(state);
        let mut analyzer = Analyzer::new(&ctx);
        if tree::is_operation(query) {
            return Ok(None);
        }
        let Ok(env) = analyzer.with_of_query(query, &Env::default()) else { return Ok(None) };
        let Ok(body) = analyzer.body(query, &env) else { return Ok(None) };
        let RowDistribution::Partitioned(split) = &body.part else { return Ok(None) };
        if !matches!(analyzer.incomplete(query, &body, split), Ok(Some(_))) {
            return Ok(None);
        }
        if reads_made(query, state)? {
            return Ok(None);
        }
        let Some(mut parts) = two_phase::separated(&ctx, &analyzer, query, &body, split, false)? else {
            return Ok(None);
        };
        let nodes = split.nodes.clone();
        let columns = columns_of(&analyzer, &body, &parts.fragment);
        let is_shorter = self.drop_duplicates(&mut parts, &columns)?;
        let key = self.key_of(&parts.last, &columns)?;
        let is_worth_it = !key.is_empty() && self.saves_work(query, &parts, &ctx, nodes.len())?;
        let Some((map_id, map)) = self.map_of_all().filter(|_| is_worth_it) else {
            let gathered = is_shorter.then(|| parts.gather(&ctx, nodes)).transpose()?;
            let found =
                |gather| Found { state: state.clone(), last: Plan::Gather(gather), markers: Markers::default() };
            return Ok(gathered.map(found));
        };
        let mut state = state.clone();
        let sql = FinalSql::plain(tree::deparse_select(&parts.fragment)?);
        let exchange = state.exchange(&columns, nodes, sql, self.by_hash(&key, &map));
        let Planned { mut last, types, .. } = parts;
        tree::rename_table(&mut last, two_phase::TABLE, &exchange.table)?;
        let markers = Markers { types, inputs: vec![state.exchanges.len()] };
        let distribution = Distribution::Hash { columns: key, map_id, map };
        state.add(exchange, columns, distribution);
        if !is_complete(&self.context(&state), &last) {
            return Ok(None);
        }
        Ok(self.local(&last, &state)?.map(|last| Found { state, last, markers }))
    }

    /// One node would finish all rows, of which its own need not move; spread, all of them do.
    fn saves_work(&self, query: &SelectStmt, parts: &Planned, ctx: &Context<'_>, sources: usize) -> Result<bool> {
        let rows = match self.estimated(&parts.fragment)? {
            Some(rows) => rows * sources as f64,
            None => rows_at_most(ctx, query)?,
        };
        let part = 1.0 / self.nodes.len() as f64;
        let finish = if sorts(ctx, &parts.last)? { SORT_COST } else { 1.0 };
        Ok(rows * ((1.0 - part) * finish - part * MOVE_COST) >= ROWS_MIN)
    }

    /// Lets nodes send equal rows once, if that makes no difference and leaves far fewer.
    fn drop_duplicates(&self, parts: &mut Planned, columns: &[Column]) -> Result<bool> {
        if !parts.fragment.group_clause.is_empty() || !counts_once(self.ctx, &parts.last, columns)? {
            return Ok(false);
        }
        let Some((distinct, _)) = self.once_if_fewer(&parts.fragment)? else { return Ok(false) };
        parts.fragment = distinct;
        Ok(true)
    }

    /// The columns that every grouping, DISTINCT and window of the last text has in common and that can be hashed.
    fn key_of(&self, last: &SelectStmt, columns: &[Column]) -> Result<Vec<KeyColumn>> {
        let mut lists = Vec::new();
        if shape::is_aggregated(self.ctx, last)? {
            lists.push(shape::plain_group(last).unwrap_or_default());
        }
        if !last.distinct_clause.is_empty() {
            lists.push(shape::distinct_expressions(last));
        }
        lists.extend(shape::windows(last)?.into_iter().map(Option::unwrap_or_default));
        let is_common = |column: &&Column| {
            lists.iter().all(|list| list.iter().any(|item| tree::bare_name(item) == Some(&column.name)))
        };
        let known = columns.iter().filter(|column| column.type_oid < FIRST_USER_OID);
        Ok(known.filter(is_common).filter_map(|column| self.key(column)).collect())
    }

    pub(super) fn by_hash(&self, key: &[KeyColumn], map: &Arc<BucketMap>) -> Route {
        let source = |column: &KeyColumn| (KeySource::Column(column.number as usize - 1), column.key_type);
        Route::Hash { key: key.iter().map(source).collect(), map: map.clone(), nodes: self.nodes.clone() }
    }

    /// A bucket map over all nodes.
    pub(super) fn map_of_all(&self) -> Option<(MapId, Arc<BucketMap>)> {
        self.maps_of_all().next()
    }

    /// All bucket maps over all nodes.
    pub(super) fn maps_of_all(&self) -> impl Iterator<Item = (MapId, Arc<BucketMap>)> {
        let all = |map: &BucketMap| map.nodes().len() == self.nodes.len();
        self.ctx.catalog.maps().filter(move |(_, map)| all(map)).map(|(id, map)| (id, map.clone()))
    }
}

/// Does the query read tables of this plan? Nobody can tell then how many rows it gives.
fn reads_made(query: &SelectStmt, state: &State) -> Result<bool> {
    let is_made = |name: &&RangeVar| state.exchanges.iter().any(|made| made.table == name.relname);
    Ok(query.tables()?.iter().any(is_made))
}

/// Rows of the largest table in a query.
pub(super) fn rows_at_most(ctx: &Context<'_>, query: &SelectStmt) -> Result<f64> {
    Ok(ctx.tables(query)?.iter().map(|table| table.rows).fold(0.0, f64::max))
}

/// The fragment's columns. Only those that show a table's column as it is have a type that is known.
fn columns_of(analyzer: &Analyzer<'_>, body: &Body, fragment: &SelectStmt) -> Vec<Column> {
    let column = |at: usize| {
        let name = format!("loxo_c{at}");
        let value = shape::target_value(fragment, at);
        let value = value.filter(|value| matches!(value.node, Some(NodeEnum::ColumnRef(_))));
        let source = value.and_then(|value| analyzer.column(value, body)).filter(|source| source.key_type.is_some());
        let (type_oid, deterministic) = source.map_or((0, false), |source| (source.type_oid, true));
        Column { number: at as i16, name, type_oid, deterministic, ..unknown_column() }
    };
    (1..=fragment.target_list.len()).map(column).collect()
}

/// Would the last text say the same if equal rows came once? All aggregates are DISTINCT or of a kind that does not count, and
/// values of these types that are equal look alike (unlike 1.0 and 1.00).
fn counts_once(ctx: &Context<'_>, last: &SelectStmt, columns: &[Column]) -> Result<bool> {
    let is_insensitive = |call: &&FuncCall| {
        let functions = ctx.builtin_functions(call);
        let is_known = ctx.is_builtin(&call.funcname) && !functions.is_empty() && !call.agg_within_group;
        is_known && (call.agg_distinct || functions.iter().all(|function| builtins::ignores_repeats(function)))
    };
    let looks_alike = |column: &Column| {
        use KeyType::*;
        let alike = [Bool, Int2, Int4, Int8, Oid, Char, Name, Text, Bpchar, Date, Timestamp, TimestampTz, Uuid];
        column.deterministic && ctx.catalog.key_type(column.type_oid).is_some_and(|kind| alike.contains(&kind))
    };
    Ok(shape::is_aggregated(ctx, last)?
        && !shape::has_json_aggregate(last)?
        && shape::windows(last)?.is_empty()
        && shape::aggregates(ctx, last)?.iter().all(is_insensitive)
        && columns.iter().all(looks_alike))
}

/// Does PostgreSQL sort all rows before it finishes them? It does for windows, and for what DISTINCT or ORDER BY in an aggregate asks of a group.
fn sorts(ctx: &Context<'_>, last: &SelectStmt) -> Result<bool> {
    let orders = |call: &&FuncCall| call.agg_distinct || !call.agg_order.is_empty();
    Ok(!shape::windows(last)?.is_empty() || shape::aggregates(ctx, last)?.iter().any(orders))
}

/// Does every node have all rows of its groups?
fn is_complete(ctx: &Context<'_>, last: &SelectStmt) -> bool {
    let mut analyzer = Analyzer::new(ctx);
    let Ok(body) = analyzer.body(last, &Env::default()) else { return false };
    let RowDistribution::Partitioned(split) = &body.part else { return false };
    matches!(analyzer.incomplete(last, &body, split), Ok(None))
}
