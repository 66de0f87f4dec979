//! Moving tables: each one stays, is broadcast, or is repartitioned by a column, so that the query becomes local. The
//! arrangements are tried in the order of their cost, up to that of a good one that is found step by step.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::Arc;

use catalog::{Distribution, FIRST_USER_OID, MapId, Relation};
use pg_query::Node;
use pg_query::protobuf::SelectStmt;
use pgerror::Result;
use placement::BucketMap;

use super::estimate::{STEP, width};
use super::unit::{Choice, Move, Partner, Unit};
use super::{Found, Search, State, exchanged_table, keep_cheaper, partners, predicate_elimination};
use crate::context::Context;
use crate::select::gather::{self, Needs};
use crate::select::levels::{self, Level};
use crate::select::locality::{Analyzer, Env};
use crate::select::shape;
use crate::tree::{self, Ask, Walk};

/// Part of the rows up to which another table's condition is worth a semi-join.
pub(super) const REDUCTION_MAX: f64 = 0.5;
/// Everything on one node is computed by that node alone.
const HOME_WORK: f64 = 1.5;
/// Arrangements tried for one query.
const TRIES_MAX: usize = 200;

/// A query whose tables are to be arranged.
struct Arranging<'q> {
    query: &'q SelectStmt,
    state: &'q State,
    units: &'q [Unit],
    levels: &'q [Level<'q>],
    needs: &'q Needs,
}

impl Search<'_> {
    /// The cheapest arrangement of the query's tables under which it is local.
    pub(super) fn moves(&self, query: &SelectStmt, state: &State) -> Result<Option<Found>> {
        let ctx = self.context(state);
        let levels = levels::levels(&ctx, query)?;
        let needs = Needs::of(query)?;
        let units = self.units(state, &levels, &needs)?;
        if units.is_empty() {
            return Ok(None);
        }
        let of = Arranging { query, state, units: &units, levels: &levels, needs: &needs };
        let mut best = self.home_arrangement(&of)?;
        let stand_ins: HashMap<i32, String> = units.iter().map(|unit| (unit.number, stand_in(unit.number))).collect();
        let renamed = over(query, &stand_ins)?;
        let below = tree::is_operation(&renamed).then(|| shape::below_order(&renamed));
        let is_local = |choice: &[usize]| {
            let tables = choice.iter().zip(&units).map(|(at, unit)| unit.options[*at].table.clone());
            let exchanged: Vec<Arc<Relation>> = state.tables.iter().cloned().chain(tables).collect();
            self.would_be_local(&renamed, below.as_ref(), &exchanged)
        };
        let descended = self.descent(&units, &is_local)?;
        let mut bound = descended.as_ref().map_or(f64::INFINITY, |choice| cost(&units, choice));
        if let Some(best) = &best {
            bound = bound.min(best.state.cost - state.cost);
        }
        let chosen = |choice: &[usize], cost: f64| {
            let moves = choice.iter().zip(&units).map(|(at, unit)| unit.options[*at].what.clone());
            self.arranged(&of, &moves.collect::<Vec<Move>>(), cost)
        };
        let mut arrangements = Arrangements::new(&units);
        let mut cheaper = None;
        for _ in 0..TRIES_MAX {
            let Some((cost, choice)) = arrangements.next(&units).filter(|(cost, _)| *cost < bound) else { break };
            if self.left.get() == 0 {
                break;
            }
            if is_local(&choice)? {
                cheaper = chosen(&choice, cost)?;
                if cheaper.is_some() {
                    break;
                }
            }
        }
        if let (None, Some(choice)) = (&cheaper, &descended) {
            cheaper = chosen(choice, cost(&units, choice))?;
        }
        keep_cheaper(&mut best, cheaper);
        Ok(best)
    }

    /// Starts with all tables on all nodes, then takes for each, the largest first, the cheapest move under which the query stays
    /// local. Where there are too many arrangements to try them all, this one is good: large tables that lie together stay.
    fn descent(&self, units: &[Unit], is_local: &dyn Fn(&[usize]) -> Result<bool>) -> Result<Option<Vec<usize>>> {
        let everywhere = |unit: &Unit| {
            unit.options.iter().position(|option| matches!(option.what, Move::Broadcast)).unwrap_or_default()
        };
        let mut choice: Vec<usize> = units.iter().map(everywhere).collect();
        if !is_local(&choice)? {
            return Ok(None);
        }
        let mut order: Vec<usize> = (0..units.len()).collect();
        let weight = |at: usize| units[at].options[choice[at]].cost;
        order.sort_by(|a, b| weight(*b).total_cmp(&weight(*a)));
        for at in order {
            for option in (0..choice[at]).take_while(|_| self.left.get() > 0) {
                let before = std::mem::replace(&mut choice[at], option);
                if is_local(&choice)? {
                    break;
                }
                choice[at] = before;
            }
        }
        Ok(Some(choice))
    }

    /// All tables come to the home node: always possible, no work is shared.
    fn home_arrangement(&self, of: &Arranging<'_>) -> Result<Option<Found>> {
        let is_at_home = |unit: &Unit| match &unit.relation.distribution {
            Distribution::Replicated { nodes } => nodes.contains(&self.ctx.home()),
            _ => false,
        };
        let moves: Vec<Move> = of.units.iter().map(|u| if is_at_home(u) { Move::Stay } else { Move::Home }).collect();
        let moved = of.units.iter().zip(&moves).filter(|(_, m)| matches!(m, Move::Home));
        let cost: f64 = moved.map(|(unit, _)| STEP + unit.rows * width(unit.columns.len()) * HOME_WORK).sum();
        self.arranged(of, &moves, cost)
    }

    /// A quick look: is the query, or the set operation `below` its ORDER BY, local over such tables, but perhaps for what stands above
    /// its WHERE?
    fn would_be_local(&self, query: &SelectStmt, below: Option<&SelectStmt>, tables: &[Arc<Relation>]) -> Result<bool> {
        self.ctx.session.stop.check()?;
        self.left.set(self.left.get().saturating_sub(1));
        let ctx = Context { exchanged: tables, ..self.ctx.afresh() };
        let mut analyzer = Analyzer::new(&ctx);
        let analysed = analyzer.with_of_query(query, &Env::default()).and_then(|env| match below {
            Some(operation) => analyzer.block(operation, &env).map(|_| ()),
            None => analyzer.body(query, &env).map(|_| ()),
        });
        Ok(analysed.is_ok())
    }

    fn arranged(&self, of: &Arranging<'_>, moves: &[Move], cost: f64) -> Result<Option<Found>> {
        let narrow = self.narrowed(of, moves)?;
        let (query, units, needs) = match &narrow {
            Some((query, units, needs)) => (query, &units[..], needs),
            None => (of.query, of.units, of.needs),
        };
        let mut state = of.state.clone();
        let tables = self.fragments(units, moves, of.levels, needs, &mut state)?;
        let query = over(query, &tables)?;
        state.cost += cost;
        self.found(&query, &state)
    }

    /// The query without the conditions that moved tables' fragments apply, and the units with the columns left to travel.
    fn narrowed(&self, of: &Arranging<'_>, moves: &[Move]) -> Result<Option<(SelectStmt, Vec<Unit>, Needs)>> {
        let own = levels::own_conditions(&self.context(of.state), of.levels);
        let moved = of.units.iter().zip(moves).filter(|(_, what)| !matches!(what, Move::Stay));
        let done: Vec<Node> = moved.filter_map(|(unit, _)| own.get(&unit.number)).flatten().cloned().collect();
        if done.is_empty() {
            return Ok(None);
        }
        let Some(query) = predicate_elimination::without(of.query, &done)? else { return Ok(None) };
        let needs = Needs::of(&query)?;
        let mut units = of.units.to_vec();
        for (unit, what) in units.iter_mut().zip(moves) {
            let needed = needs.columns(&unit.relation, tree::alias_of(&unit.name));
            unit.columns.retain(|column| needed.contains(&column.name.as_str()));
            let has = |number| unit.columns.iter().any(|column| column.number == number);
            let lost = matches!(what, Move::Hash { key, .. } if !has(key.number));
            if lost || unit.columns.len() != needed.len() {
                return Ok(None);
            }
        }
        Ok(Some((query, units, needs)))
    }

    pub(super) fn units(&self, state: &State, levels: &[Level<'_>], needs: &Needs) -> Result<Vec<Unit>> {
        let filters = levels::filters_of(&self.context(state), levels);
        let mut units = Vec::new();
        for (at, level) in levels.iter().enumerate() {
            for table in &level.tables {
                if self.is_made(state, &table.relation) {
                    continue;
                }
                let filter = filters.get(&table.number).cloned().unwrap_or_default();
                let all = self.rows(&table.relation, table.name, needs, &[])?;
                let filtered = match filter.is_empty() {
                    true => all,
                    false => self.rows(&table.relation, table.name, needs, &filter)?,
                };
                let rows_filtered = filtered.rows.min(all.rows);
                let needed = needs.columns(&table.relation, tree::alias_of(table.name));
                units.push(Unit {
                    level: at,
                    number: table.number,
                    name: table.name.clone(),
                    alias: table.alias.clone(),
                    keeps: table.keeps,
                    filter,
                    columns: table
                        .relation
                        .columns
                        .iter()
                        .filter(|c| needed.contains(&c.name.as_str()))
                        .cloned()
                        .collect(),
                    relation: table.relation.clone(),
                    rows_all: all.rows,
                    rows_filtered,
                    cost: filtered.cost,
                    rows: rows_filtered,
                    partners: Vec::new(),
                    options: Vec::new(),
                });
            }
        }
        partners::find(self.ctx, &mut units, levels);
        reduce(&mut units);
        self.find_options(&mut units, levels, needs);
        Ok(units)
    }

    fn find_options(&self, units: &mut [Unit], levels: &[Level<'_>], needs: &Needs) {
        let compared: HashSet<&String> = levels.iter().flat_map(|level| &level.compared).collect();
        let spaces = self.spaces(units);
        let copies = self.nodes.len() as f64;
        for unit in units.iter_mut() {
            let weight = unit.rows * width(unit.columns.len());
            let mut options = vec![(Move::Stay, 0.0)];
            let table_for = |what: &Move| {
                let name = stand_in(unit.number);
                Arc::new(match what.distribution(&self.nodes) {
                    None => Relation { schema: String::new(), name, ..(*unit.relation).clone() },
                    Some(place) => exchanged_table(Some(&unit.relation), name, unit.columns.clone(), place),
                })
            };
            let is_partitioned = unit.relation.distribution.is_partitioned();
            if is_partitioned {
                options.push((Move::Broadcast, STEP + weight * copies));
            }
            let is_looked_up_from = levels.iter().any(|l| l.in_expression && l.parent == Some(unit.level));
            let may_split = is_partitioned || levels[unit.level].has_outer_join || is_looked_up_from;
            let only_builtin = unit.columns.iter().all(|column| column.type_oid < FIRST_USER_OID);
            for column in unit.columns.iter().filter(|_| may_split && only_builtin) {
                let is_wanted = compared.contains(&column.name)
                    || (levels[unit.level].gathers && needs.grouped.contains(&column.name));
                let Some(key) = self.key(column).filter(|_| is_wanted) else { continue };
                for (map_id, map) in &spaces {
                    options.push((Move::Hash { key, map_id: *map_id, map: map.clone() }, STEP + weight * 1.1));
                }
            }
            options.sort_by(|a, b| a.1.total_cmp(&b.1));
            let choice = |(what, cost): (Move, f64)| Choice { table: table_for(&what), what, cost };
            unit.options = options.into_iter().map(choice).collect();
        }
    }

    /// Bucket maps of the query's tables; failing that, one over all nodes.
    fn spaces(&self, units: &[Unit]) -> Vec<(MapId, Arc<BucketMap>)> {
        let mut spaces: Vec<(MapId, Arc<BucketMap>)> = Vec::new();
        for unit in units {
            if let Distribution::Hash { columns, map_id, map } = &unit.relation.distribution
                && columns.len() == 1
                && !spaces.iter().any(|(known, _)| known == map_id)
            {
                spaces.push((*map_id, map.clone()));
            }
        }
        if spaces.is_empty() {
            spaces.extend(self.map_of_all());
        }
        spaces
    }
}

/// The name under which the analysis sees a table that may be moved.
fn stand_in(number: i32) -> String {
    format!("loxo_u{number}")
}

/// The query, or a part of one, with some tables replaced, by number.
pub(super) fn over<T: Walk + Clone>(query: &T, tables: &HashMap<i32, String>) -> Result<T> {
    let mut query = query.clone();
    query.change_tables(|name| {
        if let Some(table) = tables.get(&name.location) {
            *name = gather::replacement(name, table);
        }
        Ok(())
    })?;
    Ok(query)
}

/// Fewer rows first: a table's rows are reduced by those that come before it.
pub(super) fn by_rows(units: &[Unit]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..units.len()).collect();
    order.sort_by(|a, b| units[*a].rows_filtered.total_cmp(&units[*b].rows_filtered).then(a.cmp(b)));
    order
}

fn reduce(units: &mut [Unit]) {
    let order = by_rows(units);
    for (position, at) in order.iter().enumerate() {
        let earlier = units[*at].partners.iter().filter(|partner| order[..position].contains(&partner.unit));
        let kept = earlier.map(|partner| kept_by(units, *at, partner)).fold(1.0, f64::min);
        if kept <= REDUCTION_MAX {
            units[*at].rows = (units[*at].rows_filtered * kept).max(1.0);
        }
    }
}

/// Part of a unit's rows that find a partner: as many as of the partner's own rows, but of rows with a unique key not more
/// than the partner has rows.
pub(super) fn kept_by(units: &[Unit], at: usize, partner: &Partner) -> f64 {
    let (unit, other) = (&units[at], &units[partner.unit]);
    let part = other.rows / other.rows_all;
    let is_unique = unit.relation.unique_keys.iter().any(|key| match key.columns.as_slice() {
        [column] => unit.relation.column_at(*column).is_some_and(|column| column.name == partner.own),
        _ => false,
    });
    if is_unique && part < 1.0 { (other.rows / unit.rows_filtered).min(1.0) } else { part }
}

/// Gives choices of one option for each unit in the order of their summed cost.
struct Arrangements {
    heap: BinaryHeap<Reverse<(u64, Vec<usize>)>>,
}

impl Arrangements {
    fn new(units: &[Unit]) -> Self {
        let first = vec![0; units.len()];
        Self { heap: BinaryHeap::from([Reverse((rank(units, &first), first))]) }
    }

    fn next(&mut self, units: &[Unit]) -> Option<(f64, Vec<usize>)> {
        let Reverse((_, choice)) = self.heap.pop()?;
        // Only the last changed unit and those after it: every choice is reached once.
        let from = choice.iter().rposition(|at| *at > 0).unwrap_or(0);
        for i in from..units.len() {
            if choice[i] + 1 < units[i].options.len() {
                let mut more = choice.clone();
                more[i] += 1;
                self.heap.push(Reverse((rank(units, &more), more)));
            }
        }
        Some((cost(units, &choice), choice))
    }
}

fn cost(units: &[Unit], choice: &[usize]) -> f64 {
    choice.iter().zip(units).map(|(at, unit)| unit.options[*at].cost).sum()
}

/// A cost that can be ordered.
fn rank(units: &[Unit], choice: &[usize]) -> u64 {
    (cost(units, choice) * 16.0).min(u64::MAX as f64) as u64
}

/// A column of the unit's alias.
pub(super) fn column_of(unit: &Unit, name: &str) -> Node {
    tree::column(&[&unit.alias, name])
}
