//! Grouping, windows and DISTINCT over rows of several nodes: partial aggregates or plain columns of each node, and the rest of the
//! query over them.

use pg_query::protobuf::{ColumnRef, FuncCall, ResTarget, SelectStmt, SortBy};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use super::{Planned, output, over_input};
use crate::context::Context;
use crate::facts::builtins::Combined;
use crate::look_alikes::Qualifier;
use crate::plan::FinalSql;
use crate::select::locality::{Analyzer, Body, Env, Split};
use crate::select::{exact, shape};
use crate::tree::{self, Ask, Get, Ref, Syntax};

/// Rewrites the part above WHERE to read a temp table.
pub(super) struct Upper<'a> {
    ctx: &'a Context<'a>,
    analyzer: &'a Analyzer<'a>,
    body: &'a Body,
    split: &'a Split,
    /// Aggregate on the nodes, combine at home; else send plain columns.
    partial: bool,
    group: Vec<Node>,
    has_group: bool,
    /// `GROUPING SETS` and the like: groups of the final statement hold several of the fragment's.
    has_sets: bool,
    /// Columns of the fragment.
    columns: Vec<Node>,
    /// How many of them are grouping columns of the fragment; the rest are partial aggregates.
    grouping: Vec<usize>,
    types: Vec<(usize, usize)>,
    impossible: bool,
}

impl<'a> Upper<'a> {
    pub fn new(
        ctx: &'a Context<'a>,
        analyzer: &'a Analyzer<'a>,
        select: &SelectStmt,
        body: &'a Body,
        split: &'a Split,
        partial: bool,
    ) -> Result<Self> {
        let plain = shape::plain_group(select);
        let has_sets = plain.is_none();
        let group = plain.or_else(|| shape::grouped_in_sets(select));
        // Outside the sets that group by it a constant is NULL, and which ones of the query are meant PostgreSQL alone knows.
        let names_column = |item: &Node| item.any(|node| matches!(node, Ref::ColumnRef(_))).unwrap_or(false);
        let has_grouped_constant = has_sets && !group.iter().flatten().all(|item| names_column(item));
        Ok(Self {
            ctx,
            analyzer,
            body,
            split,
            partial,
            has_group: !select.group_clause.is_empty(),
            has_sets,
            impossible: has_grouped_constant
                || partial
                    && (group.is_none()
                        || shape::has_json_aggregate(select)?
                        || shape::aggregates(ctx, select)?.is_empty() && select.group_clause.is_empty()),
            group: group.unwrap_or_default().into_iter().cloned().collect(),
            columns: Vec::new(),
            grouping: Vec::new(),
            types: Vec::new(),
        })
    }

    pub fn plan(mut self, select: &SelectStmt) -> Result<Option<Planned>> {
        if self.impossible || select.target_list.iter().any(tree::shows_star) {
            return Ok(None);
        }
        let mut last = over_input(select);
        last.window_clause = select.window_clause.clone();
        last.having_clause = select.having_clause.clone();
        last.distinct_clause = select.distinct_clause.clone();
        last.group_distinct = select.group_distinct;
        let group = self.group.clone();
        let group_columns: Vec<Node> = group.iter().map(|g| self.carry(g, true)).collect();
        let grouped = self.grouping.len();
        last.target_list = self.targets(select)?;
        last.sort_clause = self.sort(select)?;
        for clause in [&mut last.window_clause, &mut last.distinct_clause] {
            for item in clause.iter_mut().filter(|i| i.node.is_some()) {
                self.upper_item(item)?;
            }
        }
        if let Some(having) = &mut last.having_clause {
            self.expression(having)?;
        }
        last.group_clause = if self.has_sets { self.sets(&select.group_clause)? } else { group_columns };
        if self.impossible {
            return Ok(None);
        }
        if self.partial && self.has_group {
            // Columns that depend on the grouped ones (GROUP BY a primary key) are grouped too: no new groups arise.
            let extra: Vec<Node> = self.grouping.iter().skip(grouped).map(|at| tree::column(&[&output(*at)])).collect();
            if self.has_sets && !extra.is_empty() {
                return Ok(None);
            }
            last.group_clause.extend(extra);
        }
        let fragment = self.fragment(select);
        Ok(Some(Planned { fragment, last, types: self.types, merge: None }))
    }

    fn fragment(&mut self, select: &SelectStmt) -> SelectStmt {
        if self.columns.is_empty() {
            self.columns.push(tree::integer(1));
        }
        let targets = self.columns.iter().enumerate().map(|(i, c)| tree::target(c.clone(), Some(&output(i + 1))));
        SelectStmt {
            target_list: targets.collect(),
            from_clause: select.from_clause.clone(),
            where_clause: select.where_clause.clone(),
            with_clause: select.with_clause.clone(),
            group_clause: if self.partial {
                self.grouping.iter().map(|at| tree::integer(*at as i64)).collect()
            } else {
                Vec::new()
            },
            ..tree::empty_select()
        }
    }

    fn targets(&mut self, select: &SelectStmt) -> Result<Vec<Node>> {
        let mut targets = Vec::new();
        for target in &select.target_list {
            let Some(entry) = target.get::<ResTarget>() else { continue };
            let Some(mut value) = entry.val.as_deref().cloned() else { continue };
            self.expression(&mut value)?;
            targets.push(tree::target(value, Some(&tree::output_name(entry))));
        }
        Ok(targets)
    }

    fn sort(&mut self, select: &SelectStmt) -> Result<Vec<Node>> {
        let name = |target: &Node| target.get().map(tree::output_name).unwrap_or_default();
        let names: Vec<String> = select.target_list.iter().map(name).collect();
        let mut sort = select.sort_clause.clone();
        for item in &mut sort {
            let Some(by) = item.get_mut::<SortBy>() else { continue };
            let Some(node) = by.node.as_deref_mut() else { continue };
            // A number or the name of an output column means the same over the temp table.
            let is_output =
                shape::ordinal(node).is_some() || tree::bare_name(node).is_some_and(|n| names.iter().any(|o| o == n));
            if !is_output {
                self.expression(node)?;
            }
        }
        Ok(sort)
    }

    /// GROUP BY with sets, as it is over the temp table.
    fn sets(&mut self, items: &[Node]) -> Result<Vec<Node>> {
        let mut items = items.to_vec();
        for item in &mut items {
            match &mut item.node {
                Some(NodeEnum::GroupingSet(set)) => set.content = self.sets(&set.content)?,
                Some(NodeEnum::RowExpr(row)) if shape::is_list(row) => row.args = self.sets(&row.args)?,
                _ => self.upper_item(item)?,
            }
        }
        Ok(items)
    }

    /// An item of GROUP BY sets, DISTINCT ON or WINDOW: numbers stay.
    fn upper_item(&mut self, item: &mut Node) -> Result<()> {
        if shape::ordinal(item).is_some() { Ok(()) } else { self.expression(item) }
    }

    /// Replaces what the nodes compute by columns of the temp table.
    fn expression(&mut self, expression: &mut Node) -> Result<()> {
        expression.put(|node| {
            if let Some(grouped) = self.group.iter().find(|g| self.analyzer.same(g, node, self.body)).cloned() {
                return Ok(Some(self.carry(&grouped, true)));
            }
            match &node.node {
                Some(NodeEnum::FuncCall(call)) if shape::is_aggregate(self.ctx, call) => {
                    let replaced = if self.partial { self.combined(call) } else { self.over_columns(call) };
                    return replaced.map(Some);
                }
                Some(NodeEnum::SubLink(_)) => self.impossible = true,
                _ => {}
            }
            Ok(is_column(node).then(|| self.loose_column(node)))
        })?;
        Ok(())
    }

    /// A column outside aggregates and grouping expressions: there is no grouping, or it depends on the grouped columns.
    fn loose_column(&mut self, column: &Node) -> Node {
        let is_loose = self.has_group && !self.group.is_empty();
        if is_loose && !(self.partial && self.analyzer.depends_on(column, &self.group, self.body)) {
            self.impossible = true;
        }
        self.carry(column, self.partial)
    }

    /// Puts an expression into the fragment's output, once; gives the column that holds it.
    fn carry(&mut self, expression: &Node, grouping: bool) -> Node {
        self.impossible |= tree::is_row(expression);
        let at = match self.columns.iter().position(|c| tree::same_expression(c, expression)) {
            Some(at) => at,
            None => {
                self.columns.push(expression.clone());
                self.columns.len() - 1
            }
        };
        if grouping && !self.grouping.contains(&(at + 1)) {
            self.grouping.push(at + 1);
        }
        tree::column(&[&output(at + 1)])
    }

    /// An aggregate as it is, over columns of the temp table.
    fn over_columns(&mut self, call: &FuncCall) -> Result<Node> {
        let mut call = call.clone();
        call.put(|node| {
            self.impossible |= matches!(node.node, Some(NodeEnum::SubLink(_)));
            Ok(is_column(node).then(|| self.carry(node, false)))
        })?;
        Ok(call.into_node())
    }

    /// An aggregate as partial results and the expression that combines them.
    fn combined(&mut self, call: &FuncCall) -> Result<Node> {
        let (_, name) = tree::qualified(&call.funcname);
        let plain = (!call.agg_distinct || !self.has_sets && self.tells_nodes_apart(call))
            && call.agg_order.is_empty()
            && !call.agg_within_group
            && !call.func_variadic
            && self.ctx.is_builtin(&call.funcname)
            && (call.agg_star || call.args.len() == 1);
        let combined = exact::combined(self.analyzer, self.body, call).filter(|_| plain);
        let text = match combined {
            None => None,
            Some(Combined::Count) => {
                let part = self.partial_call(call, name)?;
                Some(format!("COALESCE(sum({part}), 0)::bigint"))
            }
            Some(Combined::Sum) => {
                let part = self.partial_call(call, name)?;
                let column: usize = part.trim_start_matches("loxo_c").parse().unwrap_or(0);
                self.types.push((1, column));
                Some(format!("sum({part})::{}", FinalSql::marker(1, column)))
            }
            Some(Combined::Average) => {
                let (sum, count) = (self.partial_call(call, "sum")?, self.partial_call(call, "count")?);
                Some(format!("(sum({sum})::numeric / sum({count}))"))
            }
            Some(Combined::Itself) => {
                let part = self.partial_call(call, name)?;
                Some(format!("{name}({part})"))
            }
        };
        match text {
            Some(text) => Qualifier(self.ctx.catalog.look_alikes()).own_expression(&text),
            None => {
                self.impossible = true;
                Ok(tree::integer(0))
            }
        }
    }

    /// Is the argument the distribution key, so that no two nodes have the same value of it? What is distinct on each node is
    /// distinct altogether then.
    fn tells_nodes_apart(&self, call: &FuncCall) -> bool {
        let ([argument], [key]) = (call.args.as_slice(), self.split.key.as_slice()) else { return false };
        let term = self.analyzer.term(argument, &self.body.scope, &Env::default());
        term.is_some_and(|term| self.body.equal.same(term, *key))
    }

    /// The call under another name as a column of the fragment; FILTER stays with it.
    fn partial_call(&mut self, call: &FuncCall, name: &str) -> Result<String> {
        let mut call = call.clone();
        call.funcname = Qualifier(self.ctx.catalog.look_alikes()).own_function(name);
        let node = call.into_node();
        let column = self.carry(&node, false);
        Ok(column.get::<ColumnRef>().and_then(|column| tree::last_name(&column.fields)).unwrap_or_default().to_owned())
    }
}

/// A column, or the name of a row's table, which only the row's own node can tell.
fn is_column(node: &Node) -> bool {
    match &node.node {
        Some(NodeEnum::ColumnRef(_)) => true,
        Some(NodeEnum::TypeCast(cast)) => tree::is_table_name(cast),
        _ => false,
    }
}
