//! RETURNING of a change by way of the home node.
//!
//! The nodes have the target's row to compute it from. What it takes from other tables is staged with each row,
//! in columns whose types only the home node knows once those tables are there.

use pg_query::protobuf::{ColumnRef, SelectStmt};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use super::staged_dml::Draft;
use crate::facts::functions::facts;
use crate::plan::RowColumn;
use crate::tree::{self, Ask, Get, Walk};

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
        if draft.command == "MERGE" || !clause.options.is_empty() || clause.exprs.has_sub_select()? {
            return Err(draft.refused("Its RETURNING is more than an expression over the row."));
        }
        let mut list = clause.exprs.clone();
        let facts = facts(draft.ctx, &list)?;
        if facts.home.is_some() || facts.function_nodes.is_some() || facts.system_column.is_some() {
            return Err(draft.refused("Its RETURNING has something that only one node can tell."));
        }
        let mut returning = Self::default();
        for target in &mut list {
            tree::name_output(target);
            target.rewrite(&mut |node: &mut Node| {
                if let Some(column) = node.get_mut::<ColumnRef>() {
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
