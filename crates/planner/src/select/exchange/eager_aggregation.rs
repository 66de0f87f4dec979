//! Aggregation ahead of a join: where a query joins a table and then adds up its columns, every node adds up those of its own
//! rows first that no join can tell apart, and only the sums travel ("eager aggregation": Yan and Larson, VLDB 1995).
//!
//! ```text
//! SELECT d.name, sum(f.paid), count(*) FROM f JOIN d ON d.id = f.d GROUP BY d.name
//!   f on each node:  SELECT d, sum(paid) AS loxo_p1, count(*) AS loxo_p2 FROM f GROUP BY d      ─by hash of d→  loxo_x1
//!   then:            SELECT d.name, sum(f.loxo_p1), sum(f.loxo_p2) FROM loxo_x1 f JOIN d ON d.id = f.d GROUP BY d.name
//! ```
//!
//! When this is right:
//! - All columns of the table that are mentioned outside its aggregates are grouped by, and equal values of theirs are the same in
//!   every respect. So the rows of a group meet the same rows of other tables, and are kept or dropped together.
//! - An aggregate is over columns of the table alone, and its parts can be combined exactly; or it counts rows; or it does not
//!   care how often a value comes.
//! - What is computed early cannot fail for rows that the join would have dropped.

use std::collections::{HashMap, HashSet};

use catalog::{Column, Distribution, KeyColumn};
use pg_query::protobuf::{AConst, ColumnRef, FuncCall, ResTarget, SelectStmt};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use super::estimate::{STEP, width};
use super::moves::over;
use super::semi_join_reduction::with_level;
use super::unknown_column;
use super::{Search, State, predicate_elimination};
use crate::context::Context;
use crate::facts::builtins::{self, Combined as Way};
use crate::facts::numbers::{self, Number};
use crate::look_alikes::Qualifier;
use crate::plan::FinalSql;
use crate::select::exact;
use crate::select::levels::{self, Found as Owner, Level, LevelTable};
use crate::select::{gather, names::outputs, outer_aggregates, shape};
use crate::tree::{self, Ask, Get, Ref, Syntax, Walk};

/// Types of which equal values are the same in every respect, by oid: "char", int8, int2, int4, oid, bool, text, char(n), varchar,
/// date, timestamp, timestamptz, uuid, name.
const PLAIN_TYPES: [u32; 14] = [18, 20, 21, 23, 26, 16, 25, 1042, 1043, 1082, 1114, 1184, 2950, 19];

/// A table whose rows are added up before they travel.
struct EagerAggregate {
    /// Grouped by.
    keys: Vec<Column>,
    parts: Vec<Part>,
    /// The level, with the parts combined; FROM is as it was.
    level: SelectStmt,
}

/// An aggregate on each node: its text, and the column that it makes.
struct Part {
    call: Node,
    column: Column,
}

impl Search<'_> {
    /// The query with one table's rows added up early and sent by the hash of a column that they are joined by.
    pub(super) fn eager_aggregates(&self, query: &SelectStmt, state: &State) -> Result<Vec<(SelectStmt, State)>> {
        let ctx = self.context(state);
        let levels = levels::levels(&ctx, query)?;
        let may_be_added_up = |table: &&LevelTable<'_>| {
            let is_made = self.is_made(state, &table.relation);
            !is_made && table.may_be_filtered && table.relation.distribution.is_partitioned()
        };
        let gathering = levels.iter().filter(|level| level.gathers && !level.compared.is_empty());
        let tables: Vec<_> = gathering.flat_map(|level| &level.tables).filter(may_be_added_up).collect();
        if tables.is_empty() {
            return Ok(Vec::new());
        }
        let (mut filters, mut own) = (levels::filters_of(&ctx, &levels), levels::own_conditions(&ctx, &levels));
        let mut options = Vec::new();
        for table in tables {
            let [filter, done] = [&mut filters, &mut own].map(|all| all.remove(&table.number).unwrap_or_default());
            options.extend(self.added_up(query, state, table, &filter, &done)?);
        }
        Ok(options)
    }

    fn added_up(
        &self,
        query: &SelectStmt,
        state: &State,
        table: &LevelTable<'_>,
        filter: &[Node],
        done: &[Node],
    ) -> Result<Vec<(SelectStmt, State)>> {
        let ctx = self.context(state);
        let query = predicate_elimination::without(query, done)?.unwrap_or_else(|| query.clone());
        let levels = levels::levels(&ctx, &query)?;
        let Some((select, level)) = level_of(&query, &levels, table.number)? else { return Ok(Vec::new()) };
        let Some(eager) = (Separation { ctx: &ctx, select, level, table }).eager_aggregate()? else {
            return Ok(Vec::new());
        };
        let Some((fragment, rows)) = self.worth_it(&eager, table, filter)? else { return Ok(Vec::new()) };
        let mut options = Vec::new();
        for key in eager.keys.iter().filter(|key| level.compared.contains(&key.name)) {
            options.extend(self.sent(&query, select, &eager, table, &fragment, key, rows, state)?);
        }
        Ok(options)
    }

    /// What each node computes, and how many rows all give together, if those are far fewer than there are.
    fn worth_it(
        &self,
        eager: &EagerAggregate,
        table: &LevelTable<'_>,
        filter: &[Node],
    ) -> Result<Option<(SelectStmt, f64)>> {
        let mut plain = gather::fragment(&table.relation, table.name, &gather::Needs::default(), filter);
        let key = |column: &Column| tree::column(&[&table.alias, &column.name]);
        plain.target_list = eager.keys.iter().map(|column| tree::target(key(column), None)).collect();
        let Some((_, few)) = self.once_if_fewer(&plain)? else { return Ok(None) };
        let mut fragment = plain;
        fragment.group_clause = eager.keys.iter().map(key).collect();
        let parts = eager.parts.iter().map(|part| tree::target(part.call.clone(), Some(&part.column.name)));
        fragment.target_list.extend(parts);
        Ok(Some((fragment, few * table.relation.distribution.nodes().len() as f64)))
    }

    #[allow(clippy::too_many_arguments)]
    fn sent(
        &self,
        query: &SelectStmt,
        select: &SelectStmt,
        eager: &EagerAggregate,
        table: &LevelTable<'_>,
        fragment: &SelectStmt,
        key: &Column,
        rows: f64,
        state: &State,
    ) -> Result<Vec<(SelectStmt, State)>> {
        let Some(key_type) = self.ctx.catalog.key_type(key.type_oid) else { return Ok(Vec::new()) };
        let columns = numbered(eager.keys.iter().chain(eager.parts.iter().map(|part| &part.column)));
        let number = columns.iter().find(|column| column.name == key.name).map_or(0, |column| column.number);
        let key = KeyColumn { number, key_type };
        let mut options = Vec::new();
        for (map_id, map) in self.maps_of_all() {
            let mut state = state.clone();
            let nodes = gather::nodes_of(&self.context(&state), fragment)?;
            let sql = FinalSql::plain(tree::deparse_select(fragment)?);
            let exchange = state.exchange(&columns, nodes, sql, self.by_hash(&[key], &map));
            let replaced = HashMap::from([(table.number, exchange.table.clone())]);
            let level = SelectStmt { from_clause: over(&eager.level.from_clause, &replaced)?, ..eager.level.clone() };
            let place = Distribution::Hash { columns: vec![key], map_id, map: map.clone() };
            state.cost += STEP + rows * width(columns.len()) * 1.1;
            state.add(exchange, columns.clone(), place);
            options.extend(with_level(query, select, &level)?.map(|query| (query, state)));
        }
        Ok(options)
    }
}

/// A level that reads a table, and what has to be known to take the table's aggregates out of it.
struct Separation<'a> {
    ctx: &'a Context<'a>,
    select: &'a SelectStmt,
    level: &'a Level<'a>,
    table: &'a LevelTable<'a>,
}

impl Separation<'_> {
    fn eager_aggregate(&self) -> Result<Option<EagerAggregate>> {
        let is_plain_group = shape::plain_group(self.select).is_some();
        let is_grouped = is_plain_group && shape::windows(self.select)?.is_empty();
        let has_others = shape::has_json_aggregate(self.select)? || outer_aggregates::any(self.ctx, self.select)?;
        if !is_grouped || has_others || !shape::is_aggregated(self.ctx, self.select)? {
            return Ok(None);
        }
        let Some(names) = outputs(self.select) else { return Ok(None) };
        let mut parts = Vec::new();
        let mut level = self.select.clone();
        for list in [&mut level.target_list, &mut level.distinct_clause, &mut level.sort_clause] {
            if !self.combine(list, &mut parts)? {
                return Ok(None);
            }
        }
        let mut having: Vec<Node> = level.having_clause.take().map(|having| *having).into_iter().collect();
        if !self.combine(&mut having, &mut parts)? {
            return Ok(None);
        }
        level.having_clause = having.pop().map(Box::new);
        for (target, name) in level.target_list.iter_mut().zip(names) {
            if let Some(target) = target.get_mut::<ResTarget>() {
                target.name = name;
            }
        }
        let keys = self.keys(&level)?.filter(|keys| !keys.is_empty() && !self.are_unique(keys));
        Ok(keys.filter(|_| !parts.is_empty()).map(|keys| EagerAggregate { keys, parts, level }))
    }

    /// Replaces the level's aggregates by what combines their parts; `false` if there is one that cannot be.
    fn combine(&self, expressions: &mut Vec<Node>, parts: &mut Vec<Part>) -> Result<bool> {
        let mut possible = true;
        expressions.rewrite(&mut |node: &mut Node| {
            let Some(call) = node.get::<FuncCall>() else {
                return Ok(!matches!(node.node, Some(NodeEnum::SelectStmt(_))));
            };
            if !shape::is_aggregate(self.ctx, call) {
                return Ok(true);
            }
            match self.combined(call, parts)? {
                Combined::From(text) => *node = Qualifier(self.ctx.catalog.look_alikes()).own_expression(&text)?,
                Combined::AsItIs => {}
                Combined::Impossible => possible = false,
            }
            Ok(false)
        })?;
        Ok(possible)
    }

    fn combined(&self, call: &FuncCall, parts: &mut Vec<Part>) -> Result<Combined> {
        let (_, name) = tree::qualified(&call.funcname);
        let is_builtin = self.ctx.is_builtin(&call.funcname);
        let functions = self.ctx.builtin_functions(call);
        let ignores_repeats =
            !functions.is_empty() && functions.iter().all(|function| builtins::ignores_repeats(function));
        if is_builtin && (call.agg_distinct || ignores_repeats && self.is_of_others(call)?) && call.agg_order.is_empty()
        {
            return Ok(Combined::AsItIs);
        }
        let is_plain = is_builtin
            && call.agg_filter.is_none()
            && call.agg_order.is_empty()
            && !call.agg_within_group
            && !call.func_variadic;
        let mut add = |name: &str, type_oid: u32| self.part(parts, name, call, type_oid);
        let of_column = |column: &ColumnRef| self.number_of(column);
        let way = exact::combined_of(&numbers::meant(self.ctx, &of_column, call)).filter(|_| is_plain);
        Ok(match (way, call.args.as_slice()) {
            (Some(Way::Count), [] | [Node { node: Some(NodeEnum::AConst(AConst { isnull: false, .. })) }]) => {
                let rows = add(name, builtins::INT8)?;
                // A row that an outer join has made up counts once.
                let rows = if self.table.keeps { rows } else { format!("COALESCE({rows}, 1)") };
                Combined::From(format!("COALESCE(sum({rows}), 0)::bigint"))
            }
            (Some(Way::Count), [value]) if self.own_column(value).is_some() => {
                let counted = add(name, builtins::INT8)?;
                Combined::From(format!("COALESCE(sum({counted}), 0)::bigint"))
            }
            (Some(way @ (Way::Sum | Way::Average)), [value]) => {
                let type_oid = match self.number(value) {
                    Number::Integer => builtins::INT8,
                    Number::Bigint | Number::Numeric => builtins::NUMERIC,
                    Number::Null | Number::Other => return Ok(Combined::Impossible),
                };
                let sum = add("sum", type_oid)?;
                if way == Way::Average {
                    let counted = add("count", builtins::INT8)?;
                    return Ok(Combined::From(format!("sum({sum})::numeric / sum({counted})")));
                }
                let of_integers = type_oid == builtins::INT8;
                Combined::From(format!("sum({sum}){}", if of_integers { "::bigint" } else { "" }))
            }
            (Some(Way::Itself), [value]) => {
                let Some(column) = self.own_column(value) else { return Ok(Combined::Impossible) };
                let made = add(name, column.type_oid)?;
                Combined::From(format!("{name}({made})"))
            }
            _ => Combined::Impossible,
        })
    }

    /// The name of a part, qualified; equal ones are made once.
    fn part(&self, parts: &mut Vec<Part>, name: &str, call: &FuncCall, type_oid: u32) -> Result<String> {
        let mut call = call.clone();
        call.funcname = Qualifier(self.ctx.catalog.look_alikes()).own_function(name);
        let call = call.into_node();
        let at = match parts.iter().position(|part| tree::same_expression(&part.call, &call)) {
            Some(at) => at,
            None => {
                let column = Column { name: format!("loxo_p{}", parts.len() + 1), type_oid, ..unknown_column() };
                parts.push(Part { call, column });
                parts.len() - 1
            }
        };
        let column = tree::column(&[&self.table.alias, &parts[at].column.name]);
        tree::deparse_expression(&column)
    }

    /// A sum of it cannot fail, whatever rows there are: a column, or a product or sum of numerics.
    fn number(&self, value: &Node) -> Number {
        let number = numbers::number(self.ctx, &|column| self.number_of(column), value);
        let is_safe = self.own_column(value).is_some() || number == Number::Numeric && is_product(value);
        if is_safe { number } else { Number::Other }
    }

    fn number_of(&self, column: &ColumnRef) -> Number {
        let column = self.own_column(&tree::node(NodeEnum::ColumnRef(column.clone())));
        column.map_or(Number::Other, |column| Number::of_type(column.type_oid))
    }

    fn own_column(&self, value: &Node) -> Option<&Column> {
        match &value.node {
            Some(NodeEnum::ColumnRef(_)) => match self.level.owner(self.ctx, value) {
                Owner::Table(at, name) if self.level.tables[at].number == self.table.number => {
                    self.table.relation.column(&name)
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Does it mention nothing that may be a column of the table?
    fn is_of_others(&self, call: &FuncCall) -> Result<bool> {
        Ok(!call.any(|node| matches!(node, Ref::ColumnRef(column) if self.may_be_own(column)))?)
    }

    fn may_be_own(&self, column: &ColumnRef) -> bool {
        match tree::last_name(&column.fields) {
            Some(name) => {
                self.table.relation.column(name).is_some()
                    || name == self.table.alias
                    || name == self.table.relation.name
            }
            None => true,
        }
    }

    /// The columns that the rest of the level mentions; `None` if that cannot be told, or if equal values of one may differ.
    fn keys(&self, level: &SelectStmt) -> Result<Option<Vec<Column>>> {
        let level = &SelectStmt { with_clause: None, ..level.clone() };
        let mut direct: HashSet<*const ColumnRef> = HashSet::new();
        let mut names: Option<Vec<String>> = Some(Vec::new());
        let mut add = |name: Option<String>| match (name, &mut names) {
            (Some(name), Some(known)) => known.push(name),
            _ => names = None,
        };
        shape::walk_level(level, &mut |node| match node {
            Ref::ColumnRef(column) => {
                direct.insert(std::ptr::from_ref(column));
                let node = tree::node(NodeEnum::ColumnRef(column.clone()));
                match self.own_column(&node) {
                    Some(own) => add(Some(own.name.clone())),
                    None if self.is_others(&node) => {}
                    None => {
                        let is_part = tree::last_name(&column.fields).is_some_and(|n| n.starts_with("loxo_p"));
                        if !is_part && self.may_be_own(column) {
                            add(None);
                        }
                    }
                }
            }
            Ref::JoinExpr(join) => {
                let merged = tree::names_of(&join.using_clause).into_iter();
                merged.filter(|name| self.table.relation.column(name).is_some()).for_each(|name| add(Some(name)));
            }
            _ => {}
        })?;
        let is_hidden = level.any(
            |node| matches!(node, Ref::ColumnRef(c) if !direct.contains(&std::ptr::from_ref(c)) && self.may_be_own(c)),
        )?;
        let Some(names) = names.filter(|_| !is_hidden) else { return Ok(None) };
        let columns = self.table.relation.columns.iter().filter(|column| names.contains(&column.name));
        let columns: Vec<Column> = columns.cloned().collect();
        let is_plain = |column: &Column| column.deterministic && PLAIN_TYPES.contains(&column.type_oid);
        Ok(columns.iter().all(is_plain).then_some(columns))
    }

    fn is_others(&self, column: &Node) -> bool {
        matches!(self.level.owner(self.ctx, column), Owner::Table(at, _) if self.level.tables[at].number != self.table.number)
    }

    /// No two rows are alike in these columns.
    fn are_unique(&self, columns: &[Column]) -> bool {
        let has = |number: &catalog::AttNum| columns.iter().any(|column| column.number == *number);
        self.table.relation.unique_keys.iter().any(|key| key.columns.iter().all(has))
    }
}

/// Columns and constants, added and multiplied.
fn is_product(value: &Node) -> bool {
    match &value.node {
        Some(NodeEnum::AExpr(e)) => {
            matches!(tree::own_name(&e.name), Some("+" | "-" | "*"))
                && [&e.lexpr, &e.rexpr].into_iter().flatten().all(|side| is_product(side))
        }
        Some(NodeEnum::ColumnRef(_) | NodeEnum::AConst(_)) => true,
        Some(NodeEnum::TypeCast(cast)) => cast.arg.get::<AConst>().is_some(),
        _ => false,
    }
}

enum Combined {
    /// This text, over the parts.
    From(String),
    AsItIs,
    Impossible,
}

/// The SELECT that has a table in its FROM.
fn level_of<'q, 'l>(
    query: &'q SelectStmt,
    levels: &'l [Level<'_>],
    number: i32,
) -> Result<Option<(&'q SelectStmt, &'l Level<'l>)>> {
    let Some(level) = levels.iter().find(|level| level.tables.iter().any(|table| table.number == number)) else {
        return Ok(None);
    };
    let mut found = None;
    query.walk(&mut |node| {
        if let Ref::SelectStmt(select) = node
            && level.is_of(select)
        {
            found = Some(select);
        }
        Ok(found.is_none())
    })?;
    Ok(found.map(|select| (select, level)))
}

fn numbered<'c>(columns: impl Iterator<Item = &'c Column>) -> Vec<Column> {
    columns.zip(1..).map(|(column, number)| Column { number, ..column.clone() }).collect()
}
