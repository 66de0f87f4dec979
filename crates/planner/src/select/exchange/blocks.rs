//! Sub-selects that refer to nothing outside themselves: computed on their own, and their rows put where they are needed.

use std::collections::HashSet;
use std::sync::Arc;

use catalog::{Column, Distribution, Relation};
use pg_query::protobuf::{CommonTableExpr, FuncCall, SelectStmt, SubLinkType, WithClause};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use super::estimate::{STEP, width};
use super::unknown_column;
use super::{Found, Markers, Search, State, exchanged_table, select_of_table};
use crate::context::{Context, Named};
use crate::facts::builtins::{self, Combined};
use crate::plan::{Exchange, FinalSql, Plan, Route};
use crate::select::locality::depends_on_order;
use crate::select::names::{is_closed, outputs};
use crate::select::{exact, levels, shape};
use crate::tree::{self, Ask, Get, Ref, Syntax, Walk};

/// More than these in one query are left where they are, but for those of one row.
pub(super) const BLOCKS_MAX: usize = 5;
/// Guessed rows of a sub-select.
const ROWS_UNKNOWN: f64 = 1000.0;

/// A sub-select that stands alone.
pub(super) struct Block {
    /// As it stands in the query; more than once where an expression is repeated by ORDER BY, DISTINCT ON and the like: these are to
    /// stay the same expression.
    originals: Vec<NodeEnum>,
    /// With the WITH items it needs.
    query: SelectStmt,
    pub text: String,
    names: Vec<String>,
}

impl Search<'_> {
    /// The candidates in a query, outer ones first.
    pub(super) fn blocks(&self, query: &SelectStmt, state: &State) -> Result<Vec<Block>> {
        let ctx = self.context(state);
        let mut found: Vec<&Node> = Vec::new();
        query.each(|node| {
            found.extend(match node {
                Ref::SubLink(link) => link.subselect.as_deref(),
                Ref::RangeSubselect(sub) => sub.subquery.as_deref(),
                Ref::CommonTableExpr(cte) => cte.ctequery.as_deref(),
                _ => None,
            })
        })?;
        let mut blocks: Vec<Block> = Vec::new();
        for node in found {
            let Some(select) = node.get::<SelectStmt>() else { continue };
            let is_moved = reads_partitioned(&ctx, select, query)? || depends_on_order(&ctx, select)?;
            if !is_moved || !is_closed(&ctx, select)? {
                continue;
            }
            let Some(alone) = with_ctes(&ctx, select, query)? else { continue };
            let Some(output) = outputs(select) else { continue };
            let is_row = |target: &Node| tree::value_of(target).is_none_or(tree::is_row);
            if output.is_empty() || select.target_list.iter().any(is_row) {
                continue;
            }
            let text = tree::deparse_select(&alone)?;
            let original = select.clone().into_tree();
            match blocks.iter_mut().find(|block| block.text == text && block.names == output) {
                Some(block) => block.originals.push(original),
                None => blocks.push(Block { originals: vec![original], query: alone, text, names: output }),
            }
        }
        Ok(blocks)
    }

    /// The query with all sub-selects of one row computed first, since there is no better way with those: on the home node, or
    /// on all nodes if there are partitioned rows left to compare them with.
    pub(super) fn with_singles(
        &self,
        query: &SelectStmt,
        blocks: &[Block],
        state: &State,
    ) -> Result<Option<(SelectStmt, State)>> {
        let mut singles = Vec::new();
        let mut rest = query.clone();
        for block in blocks {
            // A WITH item is better computed once for all its readers.
            let is_whole =
                |original: &NodeEnum| matches!(original, NodeEnum::SelectStmt(select) if **select == block.query);
            let stands_alone = block.originals.iter().any(is_whole);
            if stands_alone && self.is_single(block)? && put(&mut rest, block, &tree::empty_select())? {
                singles.push(block);
            }
        }
        let everywhere = reads_partitioned(&self.context(state), &rest, &rest)?;
        let (mut query, mut state, mut changed) = (query.clone(), state.clone(), false);
        for block in singles {
            let mut options = self.replaced(&query, block, &state)?;
            let option = if everywhere { options.pop() } else { options.into_iter().next() };
            let Some(option) = option else { continue };
            (query, state) = option;
            changed = true;
        }
        Ok(changed.then_some((query, state)))
    }

    /// The query over a table that holds the block's rows, on the home node or on all nodes.
    pub(super) fn replaced(
        &self,
        query: &SelectStmt,
        block: &Block,
        state: &State,
    ) -> Result<Vec<(SelectStmt, State)>> {
        if let Some((_, table)) = state.made.iter().find(|(text, _)| *text == block.text) {
            return Ok(vec![(replace(query, block, table)?, state.clone())]);
        }
        let Some(mut found) = self.best(&block.query, state, &[])? else { return Ok(Vec::new()) };
        let (mut text, mut rows) = (block.text.clone(), self.block_rows(block, &found)?);
        if found.state.exchanges.len() == state.exchanges.len()
            && let Plan::Scatter(scatter) = &mut found.last
            && let Some((once, few)) = self.once(query, block, state)?
        {
            (text, rows) = (once, few * scatter.nodes.len() as f64);
            scatter.sql.clone_from(&text);
        }
        let home = vec![self.ctx.home()];
        let everywhere = Distribution::Replicated { nodes: self.nodes.clone() };
        let mut options = Vec::new();
        for distribution in [Distribution::Temporary, everywhere] {
            let mut state = found.state.clone();
            let (nodes, sql, inputs) = self.as_fragment(&found, &mut state)?;
            let weight = rows * width(block.names.len());
            let (route, copies) = match &distribution {
                Distribution::Temporary if nodes == home => (Route::Single { node: home[0] }, 0.1),
                Distribution::Temporary => (Route::Single { node: home[0] }, 1.0),
                _ => (Route::Replicated { nodes: self.nodes.clone() }, self.nodes.len() as f64),
            };
            state.cost += STEP + weight * copies;
            let columns = self.columns_shown(&block.query, block.names.len(), &state)?;
            let exchange = Exchange { inputs, ..state.exchange(&columns, nodes, sql, route) };
            let is_single = self.is_single(block)?;
            let table = exchanged_table(None, exchange.table.clone(), columns, distribution);
            let table = state.add_as(exchange, Relation { rows: if is_single { 1.0 } else { 0.0 }, ..table });
            state.made.push((text.clone(), table.clone()));
            options.push((replace(query, block, &table)?, state));
        }
        Ok(options)
    }

    /// The text of a block that gives each of its rows once, and how many a node gives then: if nobody asks how often one occurs,
    /// and that makes them far fewer.
    fn once(&self, query: &SelectStmt, block: &Block, state: &State) -> Result<Option<(String, f64)>> {
        let columns = self.columns_shown(&block.query, block.names.len(), state)?;
        let reads_made = state.exchanges.iter().any(|exchange| block.text.contains(&exchange.table));
        if reads_made
            || !columns.iter().all(|column| self.key(column).is_some())
            || !shape::only_chooses(&block.query)
            || !block.query.sort_clause.is_empty()
            || shape::is_aggregated(self.ctx, &block.query)?
            || !is_only_asked(query, block)?
        {
            return Ok(None);
        }
        let once = self.once_if_fewer(&block.query)?;
        once.map(|(once, few)| Ok((tree::deparse_select(&once)?, few))).transpose()
    }

    /// A plan's rows as a text and the nodes to run it on; what must be gathered for it becomes exchanges of its own.
    pub(super) fn as_fragment(
        &self,
        found: &Found,
        state: &mut State,
    ) -> Result<(Vec<catalog::NodeId>, FinalSql, Vec<usize>)> {
        let Markers { types, inputs } = found.markers.clone();
        let marked = |sql: &str| FinalSql { text: sql.to_owned(), types: types.clone() };
        let gather = match &found.last {
            Plan::Forward(forward) => return Ok((forward.nodes[..1].to_vec(), marked(&forward.sql), inputs)),
            Plan::Scatter(scatter) => return Ok((scatter.nodes.clone(), marked(&scatter.sql), inputs)),
            Plan::Gather(gather) => gather,
            _ => return Err(PgError::internal("a query without rows")),
        };
        let mut last = tree::parse_select(&gather.final_sql.text)?;
        let mut gathered = Vec::new();
        for input in &gather.inputs {
            let next =
                state.exchange(&[], input.nodes.clone(), marked(&input.sql), Route::Single { node: gather.node });
            gathered.push(state.exchanges.len());
            tree::rename_table(&mut last, &input.table, &next.table)?;
            state.add(Exchange { inputs: inputs.clone(), ..next }, Vec::new(), Distribution::Temporary);
            state.cost += STEP;
        }
        let sql = FinalSql { text: tree::deparse_select(&last)?, types: gather.final_sql.types.clone() };
        Ok((vec![gather.node], sql, gathered))
    }

    /// Does it give one row, or none?
    fn is_single(&self, block: &Block) -> Result<bool> {
        let select = &block.query;
        Ok(!tree::is_operation(select) && select.group_clause.is_empty() && shape::is_aggregated(self.ctx, select)?)
    }

    fn block_rows(&self, block: &Block, found: &Found) -> Result<f64> {
        let select = &block.query;
        if self.is_single(block)? {
            return Ok(1.0);
        }
        // What an exchange of this plan holds no server can estimate yet.
        if found.state.exchanges.iter().any(|exchange| block.text.contains(&exchange.table)) {
            return Ok(ROWS_UNKNOWN);
        }
        let copies = if matches!(found.last, Plan::Forward(_)) { 1.0 } else { self.nodes.len() as f64 };
        Ok(self.estimated(select)?.map_or(ROWS_UNKNOWN, |rows| rows * copies))
    }

    /// Columns `loxo_c1`, …, with the types that are known for sure.
    pub(super) fn columns_shown(&self, query: &SelectStmt, count: usize, state: &State) -> Result<Vec<Column>> {
        let ctx = self.context(state);
        let levels = levels::levels(&ctx, query)?;
        let own = levels.first();
        let is_plain = !tree::is_operation(query)
            && query.target_list.len() == count
            && !query.target_list.iter().any(tree::shows_star);
        let mut columns = Vec::new();
        for at in 0..count {
            let value = query.target_list.get(at).filter(|_| is_plain).and_then(tree::value_of);
            let source = own.zip(value).and_then(|(level, value)| level.source(&ctx, value));
            let mut column = source.cloned().unwrap_or_else(unknown_column);
            if source.is_none() && value.is_some_and(|value| counts_rows(&ctx, value)) {
                column.type_oid = builtins::NUMERIC;
            }
            column.name = format!("loxo_c{}", at + 1);
            column.number = at as i16 + 1;
            columns.push(column);
        }
        Ok(columns)
    }
}

/// `count(…)` is a whole number, whatever it counts.
fn counts_rows(ctx: &Context<'_>, value: &Node) -> bool {
    let Some(call) = value.get::<FuncCall>() else { return false };
    ctx.is_builtin(&call.funcname) && exact::combined_of(&ctx.builtin_functions(call)) == Some(Combined::Count)
}

/// Is every place of the block in IN, ANY or ALL? How often a row occurs does not matter there.
fn is_only_asked(query: &SelectStmt, block: &Block) -> Result<bool> {
    let (mut places, mut asked) = (0, 0);
    let is_block = |node: &Node| node.node.as_ref().is_some_and(|node| block.originals.contains(node));
    query.walk(&mut |node| {
        match node {
            Ref::SelectStmt(select) => {
                let is_select = |original: &NodeEnum| matches!(original, NodeEnum::SelectStmt(b) if **b == *select);
                places += usize::from(block.originals.iter().any(is_select));
            }
            Ref::SubLink(link) if link.subselect.as_deref().is_some_and(is_block) => {
                asked += usize::from(matches!(link.sub_link_type(), SubLinkType::AnySublink | SubLinkType::AllSublink));
            }
            _ => {}
        }
        Ok(true)
    })?;
    Ok(asked > 0 && asked == places)
}

/// Does it read a table that no node has all of?
fn reads_partitioned(ctx: &Context<'_>, select: &SelectStmt, query: &SelectStmt) -> Result<bool> {
    let mut found = false;
    let mut pending: Vec<SelectStmt> = vec![select.clone()];
    let mut seen: HashSet<String> = HashSet::new();
    while let Some(next) = pending.pop() {
        let mut mentioned = Vec::new();
        next.walk(&mut |node| {
            if let Ref::RangeVar(name) = node {
                match ctx.resolve(name)? {
                    Named::Distributed(relation) => found |= relation.distribution.is_partitioned(),
                    _ => mentioned.push(name.relname.clone()),
                }
            }
            Ok(!found)
        })?;
        for name in mentioned {
            if seen.insert(name.clone())
                && let Some(cte) = cte_query(query.with_clause.as_ref(), &name)
            {
                pending.push(cte.clone());
            }
        }
    }
    Ok(found)
}

fn cte_query<'a>(with: Option<&'a WithClause>, name: &str) -> Option<&'a SelectStmt> {
    let mut items = with?.ctes.iter().filter_map(|item| item.get::<CommonTableExpr>());
    items.find(|cte| cte.ctename == name)?.ctequery.get()
}

/// The sub-select with those of the query's WITH items that it reads; `None` if it reads some that are not the query's own.
pub(super) fn with_ctes(ctx: &Context<'_>, select: &SelectStmt, query: &SelectStmt) -> Result<Option<SelectStmt>> {
    let own = select.with_names()?;
    let mut wanted: Vec<String> = Vec::new();
    let mut pending = vec![select.clone()];
    while let Some(next) = pending.pop() {
        let mut names = Vec::new();
        next.walk(&mut |node| {
            if let Ref::RangeVar(name) = node
                && matches!(ctx.resolve(name)?, Named::Home(None))
                && name.schemaname.is_empty()
                && !own.contains(&name.relname)
            {
                names.push(name.relname.clone());
            }
            Ok(true)
        })?;
        for name in names.into_iter().filter(|name| !wanted.contains(name)).collect::<HashSet<_>>() {
            let Some(cte) = cte_query(query.with_clause.as_ref(), &name) else { return Ok(None) };
            pending.push(cte.clone());
            wanted.push(name);
        }
    }
    if wanted.is_empty() {
        return Ok(Some(select.clone()));
    }
    if select.with_clause.is_some() {
        return Ok(None);
    }
    let mut alone = select.clone();
    let mut with = query.with_clause.clone().unwrap_or_default();
    with.ctes.retain(|item| item.get::<CommonTableExpr>().is_some_and(|cte| wanted.contains(&cte.ctename)));
    alone.with_clause = Some(with);
    Ok(Some(alone))
}

/// The query with `SELECT … FROM table` in the block's place.
fn replace(query: &SelectStmt, block: &Block, table: &Arc<Relation>) -> Result<SelectStmt> {
    let mut query = query.clone();
    put(&mut query, block, &select_of_table(&block.names, &table.columns, &table.name))?;
    Ok(query)
}

/// Puts something in the block's place, if the query has it.
fn put(query: &mut SelectStmt, block: &Block, stand_in: &SelectStmt) -> Result<bool> {
    let is_block = |node: &Node| node.node.as_ref().is_some_and(|node| block.originals.contains(node));
    query.put(|node| Ok(is_block(node).then(|| stand_in.clone().into_node())))
}
