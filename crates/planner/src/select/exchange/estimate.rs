//! How many rows a fragment has: the home node's estimate if there is one, else a guess.

use std::sync::atomic::Ordering;

use catalog::Relation;
use pg_query::Node;
use pg_query::protobuf::{RangeVar, SelectStmt};
use pgerror::Result;

use super::unit::Unit;
use super::{Search, State, fragments};
use crate::select::gather::{self, Needs};
use crate::select::levels;
use crate::session::{BY_ESTIMATE, CHEAP, Expected};
use crate::tree::{self, Ask};

/// Guessed part of the rows that a condition keeps.
pub(super) const KEPT_BY_CONDITION: f64 = 0.3;
/// Rows of a table that was never analysed.
const ROWS_UNKNOWN: f64 = 1000.0;
/// Part of the rows, up to which it is worth to find out on each node which are distinct.
const DISTINCT_MAX: f64 = 0.5;

/// Rows that a node has of a table.
pub(super) fn rows_in(relation: &Relation) -> f64 {
    if relation.rows > 0.0 { relation.rows } else { ROWS_UNKNOWN }
}

impl Search<'_> {
    /// Rows of all nodes together that fulfil the conditions, and what each pays for its own. The home node's part stands for every node's.
    pub(super) fn rows(
        &self,
        relation: &Relation,
        name: &RangeVar,
        needs: &Needs,
        conditions: &[Node],
    ) -> Result<Expected> {
        // A sub-select in them reads a table of this plan: nobody knows yet what it will hold.
        let mut early = Vec::new();
        for condition in conditions {
            if !condition.has_sub_select()? {
                early.push(condition.clone());
            }
        }
        let nodes = if relation.distribution.is_partitioned() { relation.distribution.nodes().len() } else { 1 };
        let estimated = match self.local_copies.iter().find(|local_copy| local_copy.input.table == relation.name) {
            Some(local_copy) => self.expected(local_copy.input.sql.clone()),
            None => self.expected(tree::deparse_select(&gather::fragment(relation, name, needs, &early))?),
        };
        let cost = estimated.map_or(0.0, |expected| expected.cost);
        let all = rows_in(relation);
        let (rows, unknown) = match estimated.map(|expected| expected.rows) {
            // PostgreSQL never says 0: one row may as well be all that the nodes have together.
            Some(rows) if rows <= 1.0 && !early.is_empty() => (1.0, conditions.len() - early.len()),
            Some(rows) => (rows * nodes as f64, conditions.len() - early.len()),
            None => (all * nodes as f64, conditions.len()),
        };
        Ok(Expected { rows: (rows * KEPT_BY_CONDITION.powi(unknown as i32)).max(1.0), cost })
    }

    /// Is it known that all tables together have so few rows, cheap to find, that one node may as well do all the work? Where whole tables
    /// are read for them, the others' rows may find theirs by an index.
    pub(super) fn has_few_rows(&self, query: &SelectStmt, state: &State) -> Result<bool> {
        if self.ctx.session.few_rows <= 0.0 {
            return Ok(false);
        }
        let levels = levels::levels(&self.context(state), query)?;
        let units = self.units(state, &levels, &Needs::of(query)?)?;
        let is_small = |unit: &Unit| unit.relation.distribution.is_partitioned() || unit.rows_all < ROWS_MIN;
        // Gathered rows have no index for a sub-select that looks some up for each row of another table.
        let looks_up = |unit: &Unit| fragments::correlated_columns(self.ctx, unit, &levels).map_or(1.0, |_| 100.0);
        let rows: f64 = units.iter().map(|unit| unit.rows_filtered * looks_up(unit)).sum();
        let is_cheap = units.iter().map(|unit| unit.cost).sum::<f64>() <= CHEAP;
        let are_few = units.iter().all(is_small) && rows <= self.ctx.session.few_rows;
        Ok(self.wanted.borrow().is_empty() && are_few && is_cheap)
    }

    /// What the home node expects of a text, if that is known; else it is asked for next time.
    pub(super) fn estimated(&self, fragment: &SelectStmt) -> Result<Option<f64>> {
        Ok(self.expected(tree::deparse_select(fragment)?).map(|expected| expected.rows))
    }

    /// The query with equal rows once, and how many a node gives then, if that is known to make them far fewer.
    pub(super) fn once_if_fewer(&self, query: &SelectStmt) -> Result<Option<(SelectStmt, f64)>> {
        let mut once = query.clone();
        tree::make_distinct(&mut once);
        let (all, few) = (self.estimated(query)?, self.estimated(&once)?);
        Ok(all.zip(few).filter(|(all, few)| *few < all * DISTINCT_MAX).map(|(_, few)| (once, few)))
    }

    fn expected(&self, text: String) -> Option<Expected> {
        self.ctx.session.depends.inspect(|on| _ = on.fetch_or(BY_ESTIMATE, Ordering::Relaxed));
        let known = self.ctx.session.estimates.and_then(|known| known.get(&text)).copied();
        if known.is_none() {
            self.wanted.borrow_mut().insert(text);
        }
        known
    }
}

/// What a step costs besides its rows, in rows: a temp table on every node, and some waits.
pub(super) const STEP: f64 = 2000.0;

/// What moving a row of so many columns costs.
pub(super) fn width(columns: usize) -> f64 {
    1.0 + 0.15 * columns as f64
}

/// With fewer rows the steps cost more than they save.
pub(super) const ROWS_MIN: f64 = 50_000.0;
