//! Sub-selects with calls are run before the statement they are in, as those that lock rows are ([`Lifted`]): each is then a
//! query of its own, whose rows the statement gets.

use pg_query::protobuf::{BoolExprType, CommonTableExpr, SelectStmt, SetOperation};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use crate::context::Context;
use crate::parse::Statement;
use crate::plan::Lifted;
use crate::rewrite::lifted;
use crate::select::{names::is_closed, shape::gives_set};
use crate::tree::{self, Ask, Get, Ref, Walk, is_read_whole, makes_row, only_sub_select};

use super::effects::{called, change_rows, change_tables_read, may_touch, meet, outdate, writers};
use super::returning::see_change;
use super::slots::Draft;

/// `None` if there is no such sub-select, or one that refers to the query around it.
pub(super) fn lifted(ctx: &Context<'_>, statement: &Statement, tree: &NodeEnum) -> Result<Option<Lifted>> {
    let mut draft = Draft::new(ctx, statement.parameters);
    draft.writers = writers(ctx, called(ctx, tree)?)?;
    let mut lift = Lift {
        draft,
        parts: Vec::new(),
        turns: Vec::new(),
        turn: Turn::Unknown,
        only_stable: false,
        fails: see_change(ctx, tree)?,
        reached: matches!(tree, NodeEnum::SelectStmt(select) if makes_row(select)),
    };
    let mut tree = tree.clone();
    lift.below(&mut tree)?;
    match lift.parts.is_empty() || lift.fails || lift.parts_meet(&tree)? {
        true => Ok(None),
        false => lifted::of_parts(lift.parts, &tree, statement.parameters),
    }
}

/// When PostgreSQL comes to a part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// Before all other calls.
    First,
    /// As the text goes, among others of which that is known.
    InText,
    Unknown,
}

struct Lift<'a> {
    draft: Draft<'a>,
    parts: Vec<SelectStmt>,
    /// Of each part.
    turns: Vec<Turn>,
    /// Of what is taken now.
    turn: Turn,
    /// No others are taken now.
    only_stable: bool,
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
                self.reached = makes_row(select);
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
            let only = only_sub_select(select);
            if !is_bare || only.is_none() {
                self.fails |= change_rows(self.draft.ctx, &self.draft.functions_in(&select.from_clause)?)?;
            }
            // What WITH does is for rows of its own.
            let reached = std::mem::replace(&mut self.reached, false);
            let is_whole = is_read_whole(select)?;
            for item in select.with_clause.iter_mut().flat_map(|with| &mut with.ctes) {
                let Some(item) = item.get_mut::<CommonTableExpr>() else { continue };
                let is_only = is_bare && tree::only_table(&select.from_clause) == Some(&item.ctename);
                let query = item.ctequery.get().filter(|_| is_only);
                let is_first = query.map_or(Ok(false), |query| self.gives_one_row(query))?;
                self.turn = if is_first { Turn::First } else { Turn::Unknown };
                // PostgreSQL makes those rows that are asked for.
                let is_read = select.from_clause.tables()?.iter().any(|name| name.relname == item.ctename);
                self.fails |= !(is_read && is_whole) && change_rows(self.draft.ctx, &self.draft.functions_in(item)?)?;
                self.anywhere(item)?;
            }
            self.reached = reached;
            self.turn = Turn::First;
            self.anywhere(&mut select.limit_offset)?;
            self.anywhere(&mut select.limit_count)?;
            if is_bare && only_sub_select(select).map_or(Ok(false), |only| self.gives_one_row(only))? {
                self.anywhere(&mut select.from_clause)?;
            }
            // What STABLE functions read is as it was before the statement.
            for (turn, only_stable) in [(Turn::First, true), (Turn::InText, false)] {
                (self.turn, self.only_stable) = (turn, only_stable);
                self.anywhere(&mut select.target_list)?;
                self.anywhere(&mut select.values_lists)?;
            }
            self.turn = Turn::Unknown;
            return self.anywhere(select);
        }
        self.anywhere(&mut select.with_clause)?;
        let is_cut = select.limit_count.is_some() && select.sort_clause.is_empty();
        self.fails |= is_cut && !self.draft.writers.is_empty();
        self.arms(select, true)?;
        self.arms(select, false)
    }

    /// Those that call nothing and read what others change are read first: their tables are as they were before the statement.
    fn arms(&mut self, select: &mut SelectStmt, reads_first: bool) -> Result<()> {
        let turn = if select.op() == SetOperation::SetopUnion { Turn::InText } else { Turn::Unknown };
        for arm in [&mut select.larg, &mut select.rarg].into_iter().flatten() {
            let is_bare = arm.limit_count.is_none() && arm.sort_clause.is_empty() && arm.with_clause.is_none();
            self.turn = turn;
            match tree::is_operation(arm) && is_bare {
                true => self.arms(arm, reads_first)?,
                false if !reads_first => self.take(arm)?,
                false if self.draft.calls_in(arm)? => {}
                false if change_tables_read(self.draft.ctx, &self.draft.writers, arm)? => self.part(arm)?,
                false => {}
            }
        }
        Ok(())
    }

    /// Is it made of one row, with nothing that would be made while others of it are read?
    fn gives_one_row(&self, select: &SelectStmt) -> Result<bool> {
        let is_bare = select.where_clause.is_none() && tree::is_unlimited(select) && select.values_lists.len() < 2;
        let has_set = select.any(|node| matches!(node, Ref::FuncCall(call) if gives_set(self.draft.ctx, call)))?;
        match only_sub_select(select) {
            _ if !is_bare || has_set || tree::is_operation(select) => Ok(false),
            Some(only) => self.gives_one_row(only),
            None => Ok(makes_row(select)),
        }
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
            // What is compared with the rows PostgreSQL computes when it has these.
            Some(NodeEnum::SubLink(link)) => {
                self.turn = if link.testexpr.is_some() { Turn::Unknown } else { self.turn };
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

    /// May a part change what the rest or another part reads, or the rest what a part reads?
    fn parts_meet(&self, rest: &NodeEnum) -> Result<bool> {
        let (ctx, of_rest) = (self.draft.ctx, called(self.draft.ctx, rest)?);
        for (at, part) in self.parts.iter().enumerate() {
            let of_part = called(ctx, part)?;
            let mut meets = change_tables_read(ctx, &of_part, rest)? || outdate(ctx, &of_part, &of_rest)?;
            meets |= self.turns[at] != Turn::First && meet(ctx, &of_part, &of_rest)?;
            for (other, text) in self.parts.iter().enumerate().skip(at + 1) {
                meets |= change_tables_read(ctx, &of_part, text)? || outdate(ctx, &of_part, &called(ctx, text)?)?;
                let is_ordered =
                    self.turns[at] == Turn::First || [self.turns[at], self.turns[other]] == [Turn::InText; 2];
                meets |= !is_ordered && meet(ctx, &of_part, &called(ctx, text)?)?;
            }
            if meets {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn take(&mut self, select: &mut SelectStmt) -> Result<()> {
        let called = self.draft.functions_in(select)?;
        let is_due = !self.only_stable || called.iter().all(|function| function.volatility != 'v');
        if is_due && !called.is_empty() { self.part(select) } else { Ok(()) }
    }

    fn part(&mut self, select: &mut SelectStmt) -> Result<()> {
        self.fails |= !is_closed(self.draft.ctx, select)?;
        let rows = tree::parse_select(&Lifted::marker(self.parts.len()))?;
        self.parts.push(std::mem::replace(select, rows));
        self.turns.push(self.turn);
        Ok(())
    }
}
