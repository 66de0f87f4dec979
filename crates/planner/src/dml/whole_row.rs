//! Is a row named as a whole? A bare name that is both a table and a column of some query around it is the column.

use pg_query::protobuf::{ColumnRef, JoinExpr, SelectStmt};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use crate::context::{Context, Named};
use crate::tree::{self, Ref, Walk};

/// The search for uses of one table's row.
pub(super) struct WholeRow<'a> {
    ctx: &'a Context<'a>,
    /// What the table is called.
    name: &'a str,
    pub found: bool,
}

impl<'a> WholeRow<'a> {
    pub fn new(ctx: &'a Context<'a>, name: &'a str) -> Self {
        Self { ctx, name, found: false }
    }

    /// Searches an expression, or an item of FROM. `is_column`: a query around it has a column of the name.
    pub fn look(&mut self, node: &impl Walk, is_column: bool) -> Result<()> {
        node.walk(&mut |node| match node {
            Ref::ColumnRef(column) => {
                self.found |= self.names_row(column, is_column);
                Ok(false)
            }
            Ref::JoinExpr(join) if !is_column && self.is_column_of(&sides(join))? => {
                sides(join).iter().try_for_each(|side| self.look(side, false))?;
                join.quals.iter().try_for_each(|condition| self.look(condition, true))?;
                Ok(false)
            }
            Ref::SelectStmt(select) if !is_column && self.is_column_of(&select.from_clause)? => {
                self.look_inside(select)?;
                Ok(false)
            }
            _ => Ok(!self.found),
        })
    }

    /// A query that has such a column itself. Its FROM and WITH do not see it.
    fn look_inside(&mut self, select: &SelectStmt) -> Result<()> {
        let mut rest = select.clone();
        let with = rest.with_clause.take();
        let from = std::mem::take(&mut rest.from_clause);
        with.iter().try_for_each(|with| self.look(with, false))?;
        from.iter().try_for_each(|item| self.look(item, false))?;
        self.look(&rest, true)
    }

    fn names_row(&self, column: &ColumnRef, is_column: bool) -> bool {
        let names: Vec<Option<&str>> = column.fields.iter().map(tree::text_of).collect();
        match names.as_slice() {
            [Some(name)] => *name == self.name && !is_column,
            [.., Some(name), None] => *name == self.name,
            _ => false,
        }
    }

    /// Has one of these items of FROM, as far as they are tables, a column of the name?
    pub fn is_column_of(&self, from: &[Node]) -> Result<bool> {
        for item in from {
            let has = match &item.node {
                Some(NodeEnum::RangeVar(table))
                    if table.alias.as_ref().is_none_or(|alias| alias.colnames.is_empty()) =>
                {
                    match self.ctx.resolve(table)? {
                        Named::Distributed(relation) | Named::View(relation) | Named::Home(Some(relation)) => {
                            relation.column(self.name).is_some()
                        }
                        Named::Home(None) => false,
                    }
                }
                Some(NodeEnum::JoinExpr(join)) => join.alias.is_none() && self.is_column_of(&sides(join))?,
                _ => false,
            };
            if has {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn sides(join: &JoinExpr) -> Vec<Node> {
    [&join.larg, &join.rarg].into_iter().flatten().map(|side| side.as_ref().clone()).collect()
}
