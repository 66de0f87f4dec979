//! Sub-selects with calls are run before the statement they are in, as those that lock rows are ([`Lifted`]): each is then a
//! query of its own, whose rows the statement gets.

use pg_query::protobuf::{BoolExprType, SelectStmt};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use crate::context::Context;
use crate::parse::Statement;
use crate::plan::Lifted;
use crate::rewrite::lifted;
use crate::select::names::is_closed;
use crate::tree::{self, Ask, Get, Walk};

use super::effects::{change_rows, change_tables_read, change_what_is_read, may_touch};
use super::slots::Draft;

/// `None` if there is no such sub-select, or one that refers to the query around it.
pub(super) fn lifted(ctx: &Context<'_>, statement: &Statement, tree: &NodeEnum) -> Result<Option<Lifted>> {
    let mut lift = Lift {
        draft: Draft::new(ctx, statement.parameters),
        parts: Vec::new(),
        fails: false,
        reached: matches!(tree, NodeEnum::SelectStmt(select) if is_row(select)),
    };
    let mut tree = tree.clone();
    lift.below(&mut tree)?;
    match lift.parts.is_empty() || lift.fails || lift.parts_meet(&tree)? {
        true => Ok(None),
        false => lifted::of_parts(lift.parts, &tree, statement.parameters),
    }
}

struct Lift<'a> {
    draft: Draft<'a>,
    parts: Vec<SelectStmt>,
    fails: bool,
    /// PostgreSQL computes what stands in expressions, whatever rows there are.
    reached: bool,
}

impl Lift<'_> {
    /// All below the statement itself; what an INSERT takes its rows from belongs to it.
    fn below(&mut self, tree: &mut NodeEnum) -> Result<()> {
        match tree {
            NodeEnum::SelectStmt(select) => self.of_query(select),
            NodeEnum::InsertStmt(insert) => {
                self.anywhere(&mut insert.with_clause)?;
                self.anywhere(&mut insert.on_conflict_clause)?;
                self.anywhere(&mut insert.returning_clause)?;
                let Some(select) = insert.select_stmt.get_mut() else { return Ok(()) };
                self.reached = is_row(select);
                self.of_query(select)
            }
            other => self.anywhere(other),
        }
    }

    /// Arms of a set operation, and all sub-selects.
    fn of_query(&mut self, select: &mut SelectStmt) -> Result<()> {
        if !tree::is_operation(select) {
            // PostgreSQL may make fewer than all rows of a sub-select in FROM.
            let is_bare = select.where_clause.is_none() && tree::is_unlimited(select);
            let is_one = matches!(select.from_clause.as_slice(), [Node { node: Some(NodeEnum::RangeSubselect(_)) }]);
            if !is_bare || !is_one {
                self.fails |= change_rows(self.draft.ctx, &self.draft.functions_in(&select.from_clause)?)?;
            }
            // What WITH does is for rows of its own.
            let reached = std::mem::replace(&mut self.reached, false);
            self.anywhere(&mut select.with_clause)?;
            self.reached = reached;
            return self.anywhere(select);
        }
        self.anywhere(&mut select.with_clause)?;
        for arm in [&mut select.larg, &mut select.rarg].into_iter().flatten() {
            let is_bare = arm.limit_count.is_none() && arm.sort_clause.is_empty() && arm.with_clause.is_none();
            if tree::is_operation(arm) && is_bare { self.of_query(arm)? } else { self.take(arm)? }
        }
        Ok(())
    }

    fn anywhere(&mut self, tree: &mut impl Walk) -> Result<()> {
        tree.rewrite(&mut |node: &mut Node| match &mut node.node {
            Some(NodeEnum::SelectStmt(select)) => {
                self.take(select)?;
                Ok(false)
            }
            // What it takes its rows from sees the rows that it has stored.
            Some(NodeEnum::InsertStmt(insert)) => {
                let called = self.draft.functions_in(&insert.select_stmt)?;
                if let Some(target) = &insert.relation {
                    self.fails |= may_touch(self.draft.ctx, &called, target)?;
                }
                Ok(true)
            }
            Some(NodeEnum::CoalesceExpr(coalesce)) if !coalesce.args.is_empty() => {
                let mut others = coalesce.args.split_off(1);
                self.anywhere(&mut coalesce.args)?;
                let has_calls_below = |one: &Node| Ok(one.has_sub_select()? && self.draft.calls_in(one)?);
                self.fails |= crate::try_any(&others, has_calls_below)?;
                coalesce.args.append(&mut others);
                Ok(false)
            }
            // Where no row is, PostgreSQL never comes to a sub-select in an expression; what it would have written must not be.
            Some(NodeEnum::SubLink(link)) if !self.reached => {
                let called = self.draft.functions_in(&link.subselect)?;
                self.fails |= change_rows(self.draft.ctx, &called)?;
                Ok(true)
            }
            // It stops at the first part that decides.
            Some(NodeEnum::BoolExpr(e)) if e.boolop != BoolExprType::NotExpr as i32 => {
                let called = if e.args.has_sub_select()? { self.draft.functions_in(&e.args)? } else { Vec::new() };
                self.fails |= change_rows(self.draft.ctx, &called)?;
                Ok(true)
            }
            // PostgreSQL may never come to what is in it.
            Some(NodeEnum::CaseExpr(_)) => {
                self.fails |= node.has_sub_select()? && self.draft.calls_in(node)?;
                Ok(true)
            }
            _ => Ok(true),
        })
    }

    /// May a part change what the rest or another part reads?
    fn parts_meet(&self, rest: &NodeEnum) -> Result<bool> {
        for (at, part) in self.parts.iter().enumerate() {
            let called = self.draft.functions_in(part)?;
            let mut meets = change_what_is_read(self.draft.ctx, &called, rest)?;
            for (_, other) in self.parts.iter().enumerate().filter(|(other, _)| *other != at) {
                meets |= change_tables_read(self.draft.ctx, &called, other)?;
            }
            if meets {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn take(&mut self, select: &mut SelectStmt) -> Result<()> {
        if !self.draft.calls_in(select)? {
            return Ok(());
        }
        self.fails |= !is_closed(self.draft.ctx, select)?;
        let rows = tree::parse_select(&Lifted::marker(self.parts.len()))?;
        self.parts.push(std::mem::replace(select, rows));
        Ok(())
    }
}

/// Is an expression of the query computed at least once? It is in one row without FROM, or of VALUES.
fn is_row(select: &SelectStmt) -> bool {
    !tree::is_operation(select)
        && select.from_clause.is_empty()
        && select.where_clause.is_none()
        && tree::is_unlimited(select)
        && select.having_clause.is_none()
}
