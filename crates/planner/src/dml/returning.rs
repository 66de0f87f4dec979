//! RETURNING of a change by way of the home node.
//!
//! The nodes have the target's row to compute it from. What it takes from other tables goes along with each row of the stage,
//! in columns whose types only the home node knows once those tables are there.

use pg_query::protobuf::{ColumnRef, SelectStmt};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use super::has_sub_link;
use super::staged_dml::Draft;
use crate::context::Named;
use crate::facts::functions::facts;
use crate::plan::RowColumn;
use crate::tree::{self, Walk};

/// The list, taken apart.
#[derive(Default)]
pub(super) struct Returning {
    /// ` RETURNING …` over the target's columns and `loxo_v.loxo_r1`, …; empty without.
    pub text: String,
    /// The columns of other tables, as output of a query.
    pub foreign: Vec<Node>,
}

impl Returning {
    pub fn of(draft: &Draft<'_>, moves: bool) -> Result<Self> {
        let Some(clause) = draft.returning else { return Ok(Self::default()) };
        if draft.command == "MERGE"
            || !clause.options.is_empty()
            || has_sub_link(&clause.exprs.iter().collect::<Vec<_>>())?
        {
            return Err(draft.refused("Its RETURNING is more than an expression over the row."));
        }
        let mut list = expanded(draft, &clause.exprs)?;
        let query = SelectStmt { target_list: list.clone(), ..tree::empty_select() };
        let facts = facts(draft.ctx, &query)?;
        if facts.home.is_some() || facts.function_nodes.is_some() || facts.system_column.is_some() {
            return Err(draft.refused("Its RETURNING has something that only one node can tell."));
        }
        let mut returning = Self::default();
        for target in &mut list {
            if let Some(NodeEnum::ResTarget(target)) = &mut target.node
                && target.name.is_empty()
                && !target.val.as_deref().is_some_and(is_star)
            {
                target.name = tree::output_name(target);
            }
            target.rewrite(&mut |node: &mut Node| {
                if let Some(NodeEnum::ColumnRef(column)) = &mut node.node {
                    returning.column(draft, column)?;
                }
                Ok(true)
            })?;
        }
        if moves && !returning.foreign.is_empty() {
            return Err(draft.refused("Its RETURNING names other columns than those of a row that may move."));
        }
        let text = tree::deparse_select(&SelectStmt { target_list: list, ..tree::empty_select() })?;
        returning.text = format!(" RETURNING {}", text.strip_prefix("SELECT ").unwrap_or(&text));
        Ok(returning)
    }

    /// The target's columns get its name; others are read from the stage.
    fn column(&mut self, draft: &Draft<'_>, column: &mut ColumnRef) -> Result<()> {
        let names: Vec<Option<&str>> = column.fields.iter().map(tree::text_of).collect();
        match names.as_slice() {
            [None] => column.fields.insert(0, tree::string(draft.alias())),
            [Some(name)] if draft.relation.column(name).is_some() => {
                column.fields.insert(0, tree::string(draft.alias()));
            }
            [Some(name)] | [Some(name), _] if *name == draft.alias() => {}
            [Some(_)] | [Some(_), Some(_)] => {
                let value = tree::node(NodeEnum::ColumnRef(column.clone()));
                let known = self.foreign.iter().position(|known| {
                    matches!(&known.node, Some(NodeEnum::ResTarget(known))
                        if known.val.as_deref().is_some_and(|known| tree::same_expression(known, &value)))
                });
                let at = known.unwrap_or_else(|| {
                    self.foreign.push(tree::target(value, Some(&name(self.foreign.len()))));
                    self.foreign.len() - 1
                });
                column.fields = vec![tree::string("loxo_v"), tree::string(&name(at))];
            }
            _ => return Err(draft.refused("Its RETURNING names a column that is not one of a table.")),
        }
        Ok(())
    }

    /// The stage's columns for them; the home node will say the types.
    pub fn columns(&self) -> Vec<RowColumn> {
        let column = |at| RowColumn { name: name(at), type_oid: 0, type_modifier: -1, type_name: String::new() };
        (0..self.foreign.len()).map(column).collect()
    }

    /// Their values in a query that has them as its last output.
    pub fn values<'q>(&self, query: &'q SelectStmt) -> &'q [Node] {
        &query.target_list[query.target_list.len() - self.foreign.len()..]
    }

    /// A query that tells their types; empty if there are none.
    pub fn types_sql(&self, query: &SelectStmt) -> Result<String> {
        if self.foreign.is_empty() {
            return Ok(String::new());
        }
        let target_list = self.values(query).to_vec();
        tree::deparse_select(&SelectStmt { target_list, where_clause: None, ..query.clone() })
    }
}

fn name(at: usize) -> String {
    format!("loxo_r{}", at + 1)
}

fn is_star(value: &Node) -> bool {
    matches!(&value.node, Some(NodeEnum::ColumnRef(column))
        if matches!(column.fields.last().and_then(|field| field.node.as_ref()), Some(NodeEnum::AStar(_))))
}

/// `*` and `other.*` as the columns they stand for; stars of the target stay.
fn expanded(draft: &Draft<'_>, list: &[Node]) -> Result<Vec<Node>> {
    let mut all = Vec::new();
    for item in list {
        let star = match &item.node {
            Some(NodeEnum::ResTarget(target)) => target.val.as_deref().filter(|value| is_star(value)),
            _ => None,
        };
        let Some(Node { node: Some(NodeEnum::ColumnRef(star)) }) = star else {
            all.push(item.clone());
            continue;
        };
        match star.fields.as_slice() {
            [_] if draft.from.len() == 1 => all.push(item.clone()),
            [_] => {
                all.push(tree::target(tree::star(Some(draft.alias())), None));
                for other in &draft.from[1..] {
                    all.extend(columns_of(draft, other, None)?);
                }
            }
            [name, _] if tree::text_of(name) == Some(draft.alias()) => all.push(item.clone()),
            [name, _] => {
                let mut found = Vec::new();
                for other in &draft.from[1..] {
                    found.extend(columns_of(draft, other, tree::text_of(name))?);
                }
                all.extend(found);
            }
            _ => return Err(draft.refused("Its RETURNING has a star over something else than a table.")),
        }
    }
    Ok(all)
}

/// The columns of an item of FROM, or none if it has another name than the one asked for.
fn columns_of(draft: &Draft<'_>, item: &Node, wanted: Option<&str>) -> Result<Vec<Node>> {
    let unknown = || draft.refused("Its RETURNING has a star over something whose columns are not known.");
    let (alias, mut columns) = match &item.node {
        Some(NodeEnum::RangeVar(name)) => {
            let Named::Distributed(relation) = draft.ctx.resolve(name)? else { return Err(unknown()) };
            let names: Vec<String> = relation.columns.iter().map(|column| column.name.clone()).collect();
            (name.alias.clone().unwrap_or_else(|| tree::alias(&name.relname)), Some(names))
        }
        Some(NodeEnum::RangeSubselect(sub)) => {
            (sub.alias.clone().ok_or_else(unknown)?, outputs(sub.subquery.as_deref()))
        }
        _ => return Err(unknown()),
    };
    if wanted.is_some_and(|wanted| wanted != alias.aliasname) {
        return Ok(Vec::new());
    }
    let given = tree::names_of(&alias.colnames);
    match &mut columns {
        Some(columns) => columns.iter_mut().zip(given).for_each(|(column, given)| *column = given),
        None if !given.is_empty() && is_values(item, given.len()) => columns = Some(given),
        None => return Err(unknown()),
    }
    let column = |name: &String| tree::target(tree::column(&[&alias.aliasname, name]), None);
    Ok(columns.iter().flatten().map(column).collect())
}

/// The output names of a sub-select without stars.
fn outputs(query: Option<&Node>) -> Option<Vec<String>> {
    let Some(NodeEnum::SelectStmt(select)) = &query?.node else { return None };
    if select.target_list.is_empty() || select.target_list.iter().any(crate::select::shape::is_star) {
        return None;
    }
    let name = |target: &Node| match &target.node {
        Some(NodeEnum::ResTarget(target)) => Some(tree::output_name(target)),
        _ => None,
    };
    select.target_list.iter().map(name).collect()
}

/// Are these VALUES of so many columns?
fn is_values(item: &Node, width: usize) -> bool {
    let Some(NodeEnum::RangeSubselect(sub)) = &item.node else { return false };
    super::select_of(sub.subquery.as_deref()).is_some_and(|select| super::width(select) == Some(width))
}
