//! Grouping, DISTINCT and windows over many rows of several nodes: the rows are sent to nodes by the hash of what is grouped,
//! and every node finishes its groups, instead of one node all of them.
//!
//! ```text
//! fragment on each node (partial aggregates, or plain columns)  ─by hash→  last text on each node  ─→  merged, LIMIT once more
//! ```
//!
//! It is the plan of [`finish`] with a table that is distributed in the place of one on the home node. That groups are complete
//! then is for [`locality`](crate::select::locality) to prove; columns whose equal values may hash differently (floats are
//! hashed by value, collations must be deterministic) are never part of the hash.

use std::sync::Arc;

use catalog::{Column, Distribution, FIRST_USER_OID, KeyColumn, MapId};
use pg_query::NodeEnum;
use pg_query::protobuf::{SelectStmt, SetOperation};
use pgerror::Result;
use placement::BucketMap;

use super::blocks::{rename_table, unknown_column};
use super::{Found, Markers, Search, State, exchanged_table};
use crate::context::Context;
use crate::plan::{Exchange, FinalSql, KeySource, Route};
use crate::select::finish::{self, Planned};
use crate::select::locality::{Analyzer, Body, Env, Part};
use crate::select::shape;
use crate::tree;

/// With fewer rows the steps cost more than they save.
pub(super) const ROWS_MIN: f64 = 50_000.0;

impl Search<'_> {
    /// A plan that finishes on all nodes a query whose rows would otherwise be finished on one, if there are many.
    pub(super) fn spread(&self, query: &SelectStmt, state: &State) -> Result<Option<Found>> {
        let ctx = self.context(state);
        let mut analyzer = Analyzer::new(&ctx);
        if query.op != SetOperation::SetopNone as i32 {
            return Ok(None);
        }
        let Ok(env) = analyzer.with_of_query(query, &Env::default()) else { return Ok(None) };
        let Ok(body) = analyzer.body(query, &env) else { return Ok(None) };
        let Part::Split(split) = &body.part else { return Ok(None) };
        if !matches!(analyzer.incomplete(query, &body, split), Ok(Some(_))) {
            return Ok(None);
        }
        let Some(parts) = finish::separated(&ctx, &analyzer, query, &body, split, false)? else { return Ok(None) };
        let columns = columns_of(&analyzer, &body, &parts.fragment);
        let key = self.key_of(&parts.last, &columns)?;
        let Some((map_id, map)) = self.map_of_all().filter(|_| !key.is_empty()) else { return Ok(None) };
        let rows = self.estimated(&parts.fragment)?.map(|rows| rows * split.nodes.len() as f64);
        if rows.is_some_and(|rows| rows < ROWS_MIN) {
            return Ok(None);
        }
        let nodes = split.nodes.clone();
        let mut state = state.clone();
        let exchange = Exchange {
            table: state.next_table(),
            columns: columns.iter().map(|column| column.name.clone()).collect(),
            nodes,
            sql: FinalSql::plain(tree::deparse_select(&parts.fragment)?),
            inputs: Vec::new(),
            route: self.by_hash(&key, &map),
            after_fill: Vec::new(),
        };
        let Planned { mut last, types, .. } = parts;
        rename_table(&mut last, finish::TABLE, &exchange.table)?;
        let markers = Markers { types, inputs: vec![state.exchanges.len()] };
        let distribution = Distribution::Hash { columns: key, map_id, map };
        let table = exchanged_table(None, exchange.table.clone(), columns, distribution);
        state.add(exchange, table);
        if !is_complete(&self.context(&state), &last) {
            return Ok(None);
        }
        Ok(self.local(&last, &state)?.map(|last| Found { state, last, markers }))
    }

    /// The columns that every grouping, DISTINCT and window of the last text has in common and that can be hashed.
    fn key_of(&self, last: &SelectStmt, columns: &[Column]) -> Result<Vec<KeyColumn>> {
        let is_input = |name: &str| columns.iter().any(|column| column.name == name);
        let mut lists = Vec::new();
        if shape::is_aggregated(self.ctx, last)? {
            lists.push(shape::plain_group(last, is_input).unwrap_or_default());
        }
        if !last.distinct_clause.is_empty() {
            lists.push(shape::distinct_expressions(last, is_input));
        }
        for window in shape::windows(last)? {
            lists.push(window.unwrap_or_default());
        }
        let is_common = |column: &&Column| {
            lists.iter().all(|list| list.iter().any(|item| shape::bare_name(item) == Some(&column.name)))
        };
        let key = |column: &Column| {
            let key_type = self.ctx.catalog.key_type(column.type_oid)?;
            Some(KeyColumn { number: column.number, key_type })
        };
        let known = columns.iter().filter(|column| column.deterministic && column.type_oid < FIRST_USER_OID);
        Ok(known.filter(is_common).filter_map(key).collect())
    }

    fn by_hash(&self, key: &[KeyColumn], map: &Arc<BucketMap>) -> Route {
        let source = |column: &KeyColumn| (KeySource::Column(column.number as usize - 1), column.key_type);
        Route::Hash { key: key.iter().map(source).collect(), map: map.clone(), nodes: self.nodes.clone() }
    }

    /// A bucket map over all nodes.
    pub(super) fn map_of_all(&self) -> Option<(MapId, Arc<BucketMap>)> {
        let all = |map: &BucketMap| map.nodes().len() == self.nodes.len();
        self.ctx.catalog.maps().find(|(_, map)| all(map)).map(|(id, map)| (id, map.clone()))
    }
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

/// Does every node have all rows of its groups?
fn is_complete(ctx: &Context<'_>, last: &SelectStmt) -> bool {
    let mut analyzer = Analyzer::new(ctx);
    let Ok(body) = analyzer.body(last, &Env::default()) else { return false };
    match &body.part {
        Part::Split(split) => matches!(analyzer.incomplete(last, &body, split), Ok(None)),
        _ => false,
    }
}
