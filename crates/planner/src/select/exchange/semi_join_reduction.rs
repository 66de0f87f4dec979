//! EXISTS, IN and their opposites about partitioned rows, asked of a table that every node has.
//!
//! Let every node have all rows of R, and its own part of S, of which every row is in one part. Then for each row of R
//! - `EXISTS (… S …)`, `x IN (… S …)`, `NOT x op ALL (… S …)` are true if they are true of some node's part;
//! - `NOT EXISTS`, `NOT IN`, `x op ALL` are true if they are true of every node's part.
//!
//! So each node asks its own part about all rows of R that the other conditions leave, and only those that passed travel. The rows
//! that some node, or every node, has sent then stand for R and the condition; where more of R is wanted than is sensible to send,
//! their keys travel alone, and `R.key IN (keys that some node, or every node, has sent)` stands for the condition.
//!
//! To look through all of R for the rows that the other conditions leave is the same work on every node. Where that is much, one
//! node does it for all, and what it has found goes to the nodes that are asked.
//!
//! When this is right:
//! - The condition is one of those that WHERE joins by AND: that it is not true is all that matters, so NULL counts as false,
//!   and of a union it is NULL or false just when it is so of some part (of every part).
//! - What a node's part says of a row of R must be complete, which the locality analysis shows of the sub-select, with R's row
//!   as a constant: no LIMIT, no grouping but by the key of S.
//! - The key is R's primary key: no NULL, no duplicates, equality by a deterministic collation. A table that the transaction
//!   has changed may break a deferred key for a while; its local copy is never asked.
//! - R is all of FROM. So the other conditions of the level are about R too, they are the same on every node (nothing that is
//!   volatile or depends on the order of rows), and they need not be asked again. Those about a level further out stay where they are.

use std::sync::Arc;

use catalog::{Column, Distribution, NodeId, Relation, quote_identifier};
use pg_query::protobuf::{RangeVar, SelectStmt, SubLink};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use super::blocks::with_ctes;
use super::estimate::{KEPT_BY_CONDITION, STEP, rows_in, width};
use super::{Search, State};
use crate::context::{Context, Named};
use crate::plan::{Exchange, FinalSql, Route};
use crate::select::gather::Needs;
use crate::select::locality::{Analyzer, Env, Not, RowDistribution, depends_on_order};
use crate::select::names::is_closed;
use crate::tree::{self, Ask, Get, Ref, Walk};

/// What it costs a node to look at a row of R and the other conditions, where moving one costs 1.
const LOOK: f64 = 0.1;

/// Most columns of a row that travel. To find the rest of a row by its key again costs about as much.
const COLUMNS_MAX: usize = 8;

/// A condition that nodes can decide row by row.
struct Asked {
    condition: Node,
    /// The rows of R that are asked about.
    candidates: SelectStmt,
    /// The rows that pass on a node.
    passing: SelectStmt,
    nodes: Vec<NodeId>,
    /// It must be true on every node, not just on one.
    of_all: bool,
    /// The name of R in the level.
    alias: String,
    /// Columns of R that travel.
    columns: Vec<Column>,
    /// Are these all that the query can mention, or just the key?
    is_enough: bool,
    /// Conditions of the level that are not part of `passing`.
    rest: Vec<Node>,
    /// Rows of R, and how many of them are asked about.
    all: f64,
    rows: f64,
}

impl Search<'_> {
    /// The query with the first such condition decided, its keys on the home node or on all nodes.
    pub(super) fn semi_join_reductions(&self, query: &SelectStmt, state: &State) -> Result<Vec<(SelectStmt, State)>> {
        if self.ctx.has_user_operator("=") {
            return Ok(Vec::new());
        }
        for level in query.collect(|node| if let Ref::SelectStmt(level) = node { Some(level) } else { None })? {
            if let Some(asked) = self.asked(level, query, state)? {
                return self.decided(query, level, &asked, state);
            }
        }
        Ok(Vec::new())
    }

    fn asked(&self, level: &SelectStmt, query: &SelectStmt, state: &State) -> Result<Option<Asked>> {
        let ctx = self.context(state);
        let Some((table, relation)) = only_table(&ctx, level)? else { return Ok(None) };
        let Some(key) = primary_key(&ctx, &relation) else { return Ok(None) };
        let all = self.all_columns(&relation, &key, query)?;
        let is_enough = all.is_some();
        let columns = all.unwrap_or(key);
        let conditions = tree::conjuncts(level.where_clause.as_deref());
        let alias = tree::alias_of(table);
        for (at, condition) in conditions.iter().enumerate() {
            let Some((link, of_all)) = tree::question(condition) else { continue };
            let mut others = Vec::new();
            let mut rest = Vec::new();
            for (_, other) in conditions.iter().enumerate().filter(|(i, _)| *i != at) {
                let is_closed = is_closed(&ctx, &rows_of(level, alias, &columns, vec![(*other).clone()]))?;
                if is_closed { others.push((*other).clone()) } else { rest.push((*other).clone()) }
            }
            let without = rows_of(level, alias, &columns, others.clone());
            let passing = rows_of(level, alias, &columns, others.into_iter().chain([(*condition).clone()]).collect());
            if !is_closed(&ctx, &passing)? {
                continue;
            }
            let (Some(passing), Some(without)) = (with_ctes(&ctx, &passing, query)?, with_ctes(&ctx, &without, query)?)
            else {
                continue;
            };
            let Ok(nodes) = nodes_asked(&ctx, &without, link) else { continue };
            if depends_on_order(&ctx, &passing)? {
                continue;
            }
            let all = rows_in(&relation);
            let guessed = all * KEPT_BY_CONDITION.powi(tree::conjuncts(without.where_clause.as_deref()).len() as i32);
            let rows = self.estimated(&without)?.unwrap_or(guessed);
            let condition = (*condition).clone();
            return Ok(Some(Asked {
                condition,
                candidates: without,
                passing,
                nodes,
                of_all,
                alias: alias.to_owned(),
                columns,
                is_enough,
                rest,
                all,
                rows,
            }));
        }
        Ok(None)
    }

    /// The columns of R that the query can mention, the key first, if they can be compared and are not too many. A GROUP BY of
    /// the key must find a table that has it.
    fn all_columns(&self, relation: &Relation, key: &[Column], query: &SelectStmt) -> Result<Option<Vec<Column>>> {
        let needs = Needs::of(query)?;
        let mut columns = key.to_vec();
        for name in needs.columns_by_any_name(relation) {
            columns.extend(relation.column(name).filter(|column| !key.iter().any(|k| k.name == column.name)).cloned());
        }
        let can_travel = !needs.has_whole_rows()
            && columns.len() <= COLUMNS_MAX
            && columns.iter().all(|column| self.key(column).is_some())
            && !key.iter().any(|column| needs.grouped.contains(&column.name));
        Ok(can_travel.then_some(columns))
    }

    fn decided(
        &self,
        query: &SelectStmt,
        level: &SelectStmt,
        asked: &Asked,
        state: &State,
    ) -> Result<Vec<(SelectStmt, State)>> {
        let (state, passing) = match self.found_once(query, asked, state)? {
            Some((state, passing)) => (state, passing),
            None => (state.clone(), asked.passing.clone()),
        };
        let home = self.ctx.home();
        let places = [
            (Distribution::Temporary, Route::Single { node: home }, 1.0),
            (
                Distribution::Replicated { nodes: self.nodes.clone() },
                Route::Replicated { nodes: self.nodes.clone() },
                self.nodes.len() as f64,
            ),
        ];
        let mut options = Vec::new();
        for (distribution, route, copies) in places {
            let mut state = state.clone();
            let columns = sent_columns(&asked.columns);
            let sql = FinalSql::plain(tree::deparse_select(&passing)?);
            let exchange = Exchange { is_analysed: false, ..state.exchange(&columns, asked.nodes.clone(), sql, route) };
            let level_after = asked.decided(level, &exchange.table)?;
            state.cost += STEP + asked.rows * asked.nodes.len() as f64 * width(columns.len()) * copies;
            state.add(exchange, columns, distribution);
            options.extend(with_level(query, level, &level_after)?.map(|query| (query, state)));
        }
        Ok(options)
    }

    /// One node's look through R for all, if that is cheaper than every node's own: its candidates on all nodes that are asked,
    /// and what they are asked then.
    fn found_once(&self, query: &SelectStmt, asked: &Asked, state: &State) -> Result<Option<(State, SelectStmt)>> {
        let Some((first, others)) = asked.nodes.split_first() else { return Ok(None) };
        let columns = sent_columns(&asked.columns);
        let cost = STEP + asked.rows * asked.nodes.len() as f64 * width(columns.len());
        if !asked.is_enough || others.len() as f64 * asked.all * LOOK <= cost {
            return Ok(None);
        }
        let mut state = state.clone();
        let sql = FinalSql::plain(tree::deparse_select(&asked.candidates)?);
        let route = Route::Replicated { nodes: asked.nodes.clone() };
        let exchange = Exchange { is_analysed: false, ..state.exchange(&columns, vec![*first], sql, route) };
        let level = SelectStmt { from_clause: vec![asked.rows_sent(&exchange.table, "")?], ..tree::empty_select() };
        let passing = rows_of(&level, &asked.alias, &asked.columns, vec![asked.condition.clone()]);
        let distribution = Distribution::Replicated { nodes: asked.nodes.clone() };
        state.cost += cost;
        state.add(exchange, columns, distribution);
        let passing = with_ctes(&self.context(&state), &passing, query)?;
        Ok(passing.map(|passing| (state, passing)))
    }
}

impl Asked {
    /// The level over the rows that enough nodes have sent.
    fn decided(&self, level: &SelectStmt, table: &str) -> Result<SelectStmt> {
        let mut level = level.clone();
        let mut conditions = self.rest.clone();
        match self.is_enough {
            true => level.from_clause = vec![self.rows_sent(table, &self.sent_by_enough())?],
            false => conditions.push(self.key_passed(table)?),
        }
        level.where_clause = tree::conjunction(conditions).map(Box::new);
        Ok(level)
    }

    /// `(rows that have been sent) AS alias`, by R's names.
    fn rows_sent(&self, table: &str, filter: &str) -> Result<Node> {
        let renamed =
            |(sent, column): (&Column, &Column)| format!("{} AS {}", sent.name, quote_identifier(&column.name));
        let sent = sent_columns(&self.columns);
        let outputs: Vec<String> = sent.iter().zip(&self.columns).map(renamed).collect();
        let rows = tree::parse_select(&format!("SELECT {} FROM {table}{filter}", outputs.join(", ")))?;
        Ok(tree::sub_select(rows, tree::alias(&self.alias)))
    }

    /// `alias.key IN (keys that enough nodes have sent)`.
    fn key_passed(&self, table: &str) -> Result<Node> {
        let own = |column: &Column| format!("{}.{}", quote_identifier(&self.alias), quote_identifier(&column.name));
        let own: Vec<String> = self.columns.iter().map(own).collect();
        let sent = self.sent();
        tree::parse_expression(&format!(
            "({}) IN (SELECT {sent} FROM {table}{})",
            own.join(", "),
            self.sent_by_enough()
        ))
    }

    /// Each row once.
    fn sent_by_enough(&self) -> String {
        let enough = if self.of_all { self.nodes.len() } else { 1 };
        format!(" GROUP BY {} HAVING pg_catalog.count(*) >= {enough}", self.sent())
    }

    fn sent(&self) -> String {
        let names: Vec<String> = sent_columns(&self.columns).into_iter().map(|column| column.name).collect();
        names.join(", ")
    }
}

/// The only table of a level, if every node may have all of it and nothing forbids to look at its rows early.
fn only_table<'l>(ctx: &Context<'_>, level: &'l SelectStmt) -> Result<Option<(&'l RangeVar, Arc<Relation>)>> {
    let [Node { node: Some(NodeEnum::RangeVar(table)) }] = level.from_clause.as_slice() else { return Ok(None) };
    if tree::is_operation(level) || table.alias.as_ref().is_some_and(|a| !a.colnames.is_empty()) {
        return Ok(None);
    }
    let Named::Distributed(relation) = ctx.resolve(table)? else { return Ok(None) };
    let is_base = !ctx.exchanged.iter().any(|made| made.name == relation.name && made.oid == relation.oid);
    let is_plain = is_base && !relation.is_barrier && !relation.has_children;
    let is_whole = matches!(relation.distribution, Distribution::Replicated { .. });
    Ok((is_plain && is_whole).then_some((table, relation)))
}

/// The columns of the primary key, if equality of them is sure to tell rows apart.
fn primary_key(ctx: &Context<'_>, relation: &Relation) -> Option<Vec<Column>> {
    let key = relation.primary_key()?;
    let is_comparable = |column: &&Column| column.deterministic && ctx.catalog.key_type(column.type_oid).is_some();
    key.iter().all(is_comparable).then(|| key.into_iter().cloned().collect())
}

/// `SELECT columns FROM the level's table WHERE conditions`.
fn rows_of(level: &SelectStmt, alias: &str, columns: &[Column], conditions: Vec<Node>) -> SelectStmt {
    let target =
        |(column, made): (&Column, Column)| tree::target(tree::column(&[alias, &column.name]), Some(&made.name));
    SelectStmt {
        target_list: columns.iter().zip(sent_columns(columns)).map(target).collect(),
        from_clause: level.from_clause.clone(),
        where_clause: tree::conjunction(conditions).map(Box::new),
        ..tree::empty_select()
    }
}

/// The columns as the exchange's table has them.
fn sent_columns(columns: &[Column]) -> Vec<Column> {
    let renamed = |(at, column): (usize, &Column)| Column {
        number: at as i16 + 1,
        name: format!("loxo_c{}", at + 1),
        ..column.clone()
    };
    columns.iter().enumerate().map(renamed).collect()
}

/// The nodes among which the sub-select's rows are divided, while each has all rows that are asked about.
fn nodes_asked(ctx: &Context<'_>, without: &SelectStmt, link: &SubLink) -> Result<Vec<NodeId>, Not> {
    let tests_more = link.testexpr.has_sub_select()?;
    let mut analyzer = Analyzer::new(ctx);
    let env = analyzer.with_of_query(without, &Env::default())?;
    let body = analyzer.body(without, &env)?;
    match (analyzer.below(&body, link, &env)?, &body.part) {
        (RowDistribution::Partitioned(split), RowDistribution::Replicated(whole))
            if !tests_more && split.nodes.iter().all(|node| whole.contains(node)) =>
        {
            Ok(split.nodes)
        }
        _ => Err(Not::Local("a condition that nodes cannot decide one by one".to_owned())),
    }
}

/// The query with one of its levels changed; `None` if the level is not found.
pub(super) fn with_level(query: &SelectStmt, level: &SelectStmt, changed: &SelectStmt) -> Result<Option<SelectStmt>> {
    let mut query = query.clone();
    let mut found = put(&mut query, level, changed);
    query.rewrite(&mut |node: &mut Node| {
        if let Some(select) = node.get_mut::<SelectStmt>() {
            found = found || put(select, level, changed);
        }
        Ok(!found)
    })?;
    Ok(found.then_some(query))
}

/// Changes a SELECT if it is the level, or a branch of it that is.
fn put(select: &mut SelectStmt, level: &SelectStmt, changed: &SelectStmt) -> bool {
    if select == level {
        select.clone_from(changed);
        return true;
    }
    [&mut select.larg, &mut select.rarg].into_iter().flatten().any(|branch| put(branch, level, changed))
}
