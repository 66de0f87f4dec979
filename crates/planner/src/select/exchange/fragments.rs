//! The fragments that fill moved tables: needed columns, conditions, and semi-joins with tables that keep few rows.

use std::collections::HashMap;

use catalog::{Column, Distribution};
use pg_query::protobuf::{SelectStmt, SubLink, SubLinkType};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use super::estimate::{STEP, width};
use super::moves::{REDUCTION_MAX, by_rows, column_of, kept_by};
use super::unit::{Move, Partner, Unit};
use super::{Search, State, exchanged_table};
use crate::context::Context;
use crate::plan::{Exchange, FinalSql, Index, KeySource, Route};
use crate::select::gather::{self, Needs};
use crate::select::levels::{Found as Owner, Level};
use crate::select::terms;
use crate::tree::{self, Syntax};

/// A list of keys is sent ahead if it costs no more than this part of what it saves.
const KEYS_COST_MAX: f64 = 0.5;

/// What is known while the fragments of one arrangement are made.
struct Progress<'u> {
    units: &'u [Unit],
    moves: &'u [Move],
    needs: &'u Needs,
    /// Tables of units that have been broadcast whole.
    broadcast: HashMap<usize, String>,
    /// Lists of keys that have been broadcast, by unit and column.
    keys: HashMap<(usize, String), String>,
}

/// A unit on its way.
struct Made<'u> {
    unit: &'u Unit,
    m: &'u Move,
    distribution: Distribution,
    levels: &'u [Level<'u>],
    needs: &'u Needs,
}

impl Search<'_> {
    /// Adds the exchanges of an arrangement to `state`; gives the new table of each moved unit, by its number.
    pub(super) fn fragments(
        &self,
        units: &[Unit],
        moves: &[Move],
        levels: &[Level<'_>],
        needs: &Needs,
        state: &mut State,
    ) -> Result<HashMap<i32, String>> {
        let order = by_rows(units);
        let mut progress = Progress { units, moves, needs, broadcast: HashMap::new(), keys: HashMap::new() };
        let mut tables = HashMap::new();
        for (position, at) in order.iter().enumerate() {
            let unit = &units[*at];
            let Some(distribution) = moves[*at].distribution(&self.nodes) else { continue };
            let whole = gather::fragment(&unit.relation, &unit.name, needs, &unit.filter);
            let mut select = whole.clone();
            for condition in self.reductions(*at, &order[..position], &mut progress, state)? {
                add_condition(&mut select, condition);
            }
            // The conditions only spare rows. Each can be checked where the rows are, but all of them perhaps on no node.
            if gather::nodes_of(&self.context(state), &select).is_err() {
                select = whole;
            }
            if counts_once(self, unit, levels) {
                tree::make_distinct(&mut select);
            }
            let made = Made { unit, m: &moves[*at], distribution, levels, needs };
            let table = self.exchange(made, &select, state)?;
            if matches!(moves[*at], Move::Broadcast) {
                progress.broadcast.insert(*at, table.clone());
            }
            tables.insert(unit.number, table);
        }
        Ok(tables)
    }

    /// Adds the exchange that moves one unit.
    fn exchange(&self, made: Made<'_>, select: &SelectStmt, state: &mut State) -> Result<String> {
        let Made { unit, m, distribution, levels, needs } = made;
        let sql = tree::deparse_select(select)?;
        let nodes = gather::nodes_of(&self.context(state), select)?;
        let route = self.route(unit, m);
        let columns: Vec<String> = unit.columns.iter().map(|column| column.name.clone()).collect();
        let names: Vec<&str> = columns.iter().map(String::as_str).collect();
        let key = gather::primary_key(&unit.relation, &names, needs);
        let correlated = correlated_columns(self.ctx, unit, levels).map(|columns| Index { columns, is_key: false });
        let indexes: Vec<Index> = key.into_iter().chain(correlated).collect();
        let is_same = |made: &&Exchange| {
            made.sql.text == sql
                && made.nodes == nodes
                && made.columns == columns
                && made.route.is_same(&route)
                && made.indexes == indexes
        };
        if let Some(made) = state.exchanges.iter().find(is_same) {
            return Ok(made.table.clone());
        }
        let exchange = Exchange { indexes, ..state.exchange(&unit.columns, nodes, FinalSql::plain(sql), route) };
        let made = exchanged_table(Some(&unit.relation), exchange.table.clone(), unit.columns.clone(), distribution);
        Ok(state.add_as(exchange, made).name.clone())
    }

    fn route(&self, unit: &Unit, m: &Move) -> Route {
        match m {
            Move::Hash { key, map, .. } => {
                let at = unit.columns.iter().position(|column| column.number == key.number).unwrap_or(0);
                let mut nodes: Vec<_> = map.nodes().iter().copied().map(catalog::NodeId).collect();
                nodes.sort_unstable();
                Route::Hash { key: vec![(KeySource::Column(at), key.key_type)], map: map.clone(), nodes }
            }
            Move::Home => Route::Single { node: self.ctx.home() },
            Move::Stay | Move::Broadcast => Route::Replicated { nodes: self.nodes.clone() },
        }
    }

    /// Conditions `own IN (keys of a partner with few rows)` for a unit that moves, short lists first: what is left after them
    /// may not be worth another one.
    fn reductions(
        &self,
        at: usize,
        before: &[usize],
        progress: &mut Progress<'_>,
        state: &mut State,
    ) -> Result<Vec<Node>> {
        let units = progress.units;
        let mut partners: Vec<&Partner> = units[at].partners.iter().filter(|p| before.contains(&p.unit)).collect();
        partners.sort_by(|a, b| units[a.unit].rows.total_cmp(&units[b.unit].rows));
        let mut left = units[at].rows_filtered;
        let mut kept_of: HashMap<&str, f64> = HashMap::new();
        let mut conditions = Vec::new();
        for partner in partners {
            let known = kept_of.entry(&partner.own).or_insert(1.0);
            let kept = kept_by(units, at, partner) / *known;
            if kept > REDUCTION_MAX {
                continue;
            }
            let has_column = units[partner.unit].columns.iter().any(|column| column.name == partner.other);
            let keys = match progress.broadcast.get(&partner.unit).filter(|_| has_column) {
                Some(table) => Some(keys_of_table(table, &partner.other)),
                None => self.keys_here_or_sent(at, partner, left * (1.0 - kept), before, progress, state)?,
            };
            if let Some(keys) = keys {
                conditions.push(in_keys(self.ctx, &units[at], &partner.own, keys));
                *known *= kept;
                left *= kept;
            }
        }
        Ok(conditions)
    }

    /// The partner's keys, without which so many more rows would move: read in place if they lie with the unit's rows, else
    /// sent to all nodes if that pays.
    fn keys_here_or_sent(
        &self,
        at: usize,
        partner: &Partner,
        saved: f64,
        before: &[usize],
        progress: &mut Progress<'_>,
        state: &mut State,
    ) -> Result<Option<SelectStmt>> {
        let (units, other) = (progress.units, partner.unit);
        let known = progress.keys.get(&(other, partner.other.clone())).cloned();
        if let Some(table) = known {
            return Ok(Some(keys_of_table(&table, &partner.other)));
        }
        let unit = &units[at];
        let mut keys = key_select(&units[other], &partner.other);
        let mut here = gather::fragment(&unit.relation, &unit.name, progress.needs, &unit.filter);
        add_condition(&mut here, in_keys(self.ctx, unit, &partner.own, keys.clone()));
        let is_here = gather::nodes_of(&self.context(state), &here).is_ok();
        let copies = if matches!(progress.moves[at], Move::Broadcast) { self.nodes.len() as f64 } else { 1.0 };
        let sent = STEP + units[other].rows * self.nodes.len() as f64 * width(1);
        if !is_here && sent > saved * width(unit.columns.len()) * copies * KEYS_COST_MAX {
            return Ok(None);
        }
        let earlier: Vec<usize> = before.iter().copied().take_while(|unit| *unit != other).collect();
        let all_keys = keys.clone();
        for condition in self.reductions(other, &earlier, progress, state)? {
            add_condition(&mut keys, condition);
        }
        if is_here {
            // Fewer keys may be known on fewer nodes than the unit's rows are on.
            let mut here = gather::fragment(&unit.relation, &unit.name, progress.needs, &unit.filter);
            add_condition(&mut here, in_keys(self.ctx, unit, &partner.own, keys.clone()));
            let are_here = gather::nodes_of(&self.context(state), &here).is_ok();
            return Ok(Some(if are_here { keys } else { all_keys }));
        }
        tree::make_distinct(&mut keys);
        let Some(table) = self.send_keys(&units[other], &partner.other, &keys, state)? else { return Ok(None) };
        progress.keys.insert((other, partner.other.clone()), table.clone());
        Ok(Some(keys_of_table(&table, &partner.other)))
    }

    fn send_keys(&self, unit: &Unit, column: &str, keys: &SelectStmt, state: &mut State) -> Result<Option<String>> {
        let Some(key) = unit.relation.column(column).cloned() else { return Ok(None) };
        let Ok(nodes) = gather::nodes_of(&self.context(state), keys) else { return Ok(None) };
        let sql = FinalSql::plain(tree::deparse_select(keys)?);
        let columns = vec![key];
        let exchange = state.exchange(&columns, nodes, sql, Route::Replicated { nodes: self.nodes.clone() });
        let everywhere = Distribution::Replicated { nodes: self.nodes.clone() };
        Ok(Some(state.add(exchange, columns, everywhere).name.clone()))
    }
}

/// `SELECT column FROM unit WHERE its conditions`.
fn key_select(unit: &Unit, column: &str) -> SelectStmt {
    let mut select = gather::fragment(&unit.relation, &unit.name, &Needs::default(), &unit.filter);
    let key = unit.relation.column(column).map(|key| tree::target(column_of(unit, &key.name), None));
    select.target_list = key.into_iter().collect();
    select
}

fn keys_of_table(table: &str, column: &str) -> SelectStmt {
    let from = tree::node(NodeEnum::RangeVar(tree::table("", table, None)));
    tree::select_from(vec![tree::target(tree::column(&[table, column]), None)], vec![from])
}

fn in_keys(ctx: &Context<'_>, unit: &Unit, column: &str, keys: SelectStmt) -> Node {
    let is_taken = ctx.catalog.look_alikes().operators.contains("=");
    SubLink {
        xpr: None,
        sub_link_type: SubLinkType::AnySublink as i32,
        sub_link_id: 0,
        testexpr: Some(Box::new(column_of(unit, column))),
        // None: that of IN.
        oper_name: if is_taken { vec![tree::string("pg_catalog"), tree::string("=")] } else { Vec::new() },
        subselect: keys.into_box(),
        location: -1,
    }
    .into_node()
}

fn add_condition(select: &mut SelectStmt, condition: Node) {
    let mut all: Vec<Node> = tree::conjuncts(select.where_clause.as_deref()).into_iter().cloned().collect();
    all.push(condition);
    select.where_clause = tree::conjunction(all).map(Box::new);
}

/// The only table in the sub-select of EXISTS or IN: equal rows say the same.
fn counts_once(search: &Search<'_>, unit: &Unit, levels: &[Level<'_>]) -> bool {
    let level = &levels[unit.level];
    let is_comparable = |column: &Column| search.key(column).is_some();
    level.counts_once && level.tables.len() == 1 && !level.has_other_items && unit.columns.iter().all(is_comparable)
}

/// Columns by which a correlated sub-select looks rows up, for an index.
pub(super) fn correlated_columns(ctx: &Context<'_>, unit: &Unit, levels: &[Level<'_>]) -> Option<Vec<String>> {
    let level = &levels[unit.level];
    if level.parent.is_none() || level.counts_once {
        return None;
    }
    let own = |side: &Node| match level.owner(ctx, side) {
        Owner::Table(table, column) if level.tables[table].number == unit.number => Some(column),
        _ => None,
    };
    let mut columns: Vec<String> = Vec::new();
    for (left, right) in level.conditions.iter().copied().flat_map(terms::equal_pairs) {
        for (side, other) in [(left, right), (right, left)] {
            if level.owner(ctx, other) == Owner::Nowhere
                && let Some(column) = own(side)
                && !columns.contains(&column)
            {
                columns.push(column);
            }
        }
    }
    (!columns.is_empty()).then_some(columns)
}
