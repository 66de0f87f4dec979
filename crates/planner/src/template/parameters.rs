//! A statement with its whole numbers as parameters, so that a datanode parses and plans it once.
//!
//! PostgreSQL gives a whole number of up to nine digits the type `integer`; a parameter declared as `integer` in its place leads to the same
//! operators, casts and results. Not everywhere: `ORDER BY 1` means a column, `a + 1` in GROUP BY must be the same constant as in the output
//! list, `varchar(5)` takes no parameter. So only operands of plain operators, values of an INSERT's row and of SET are replaced, in statements
//! without grouping, ordering, ON CONFLICT, triggers, and functions but PostgreSQL's own that read the clock (a trigger or a function might ask
//! for the text with `current_query()`); all other numbers keep the statement as it is.

use std::ops::Range;

use catalog::{Meaning, Relation, meaning};
use pg_query::protobuf::{AConst, AExprKind, FuncCall, List, SelectStmt, a_const};
use pg_query::{Node, NodeEnum};

use super::clock_places::Places;
use crate::parse::shape::{LiteralKind, Shape};
use crate::tree::{self, Ask, Get, Ref};

/// More digits may be a `bigint`.
const DIGITS_MAX: usize = 9;

/// For each literal of a shape: does the sign before it belong to it? Only for statements all of whose literals can be parameters.
#[derive(Debug)]
pub(super) struct Parameters {
    signed: Vec<bool>,
}

/// A statement's text with `$1`, `$2`, … of type `integer`, and their values as text.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Parameterised {
    /// Valid on a datanode.
    pub sql: String,
    /// In order.
    pub values: Vec<String>,
    /// Parameters of type `timestamptz` behind them: see [`Template::at_one_moment`](super::Template::at_one_moment).
    pub moments: Vec<String>,
    /// Where the text differs: byte offset after the parameter here, and after the number in the user's text.
    moved: Vec<(usize, usize)>,
}

impl Parameterised {
    /// Where in the user's text an error at this character of ours is (both from 1).
    pub fn user_position(&self, position: usize) -> usize {
        match self.moved.iter().rev().find(|(here, _)| *here < position) {
            Some((here, there)) => there + (position - here),
            None => position,
        }
    }

    pub(super) fn as_long_as(sql: &str) -> Self {
        Self { sql: String::with_capacity(sql.len()), ..Self::default() }
    }

    /// Copies the text up to `range`, which gives way to what `put` writes; `at` is how far the text is copied.
    pub(super) fn replace(&mut self, sql: &str, at: &mut usize, range: Range<usize>, put: impl FnOnce(&mut Self)) {
        self.sql.push_str(&sql[*at..range.start]);
        put(self);
        self.moved.push((self.sql.len(), range.end));
        *at = range.end;
    }

    pub(super) fn parameter(&mut self, number: usize) {
        self.sql.push('$');
        self.sql.push_str(&number.to_string());
    }
}

/// Does a default show the text of the statement?
fn asks_text(default: &str) -> bool {
    let is_text =
        |call: &FuncCall| meaning::without_arguments(tree::qualified(&call.funcname).1) == Some(Meaning::Text);
    let asks = |node: Ref<'_>| matches!(node, Ref::FuncCall(call) if is_text(call));
    tree::parse_expression(default).map_or(true, |default| default.may_have(asks))
}

impl Parameters {
    /// `is_clock`: is this a call of PostgreSQL's own that reads the clock?
    pub(super) fn of(
        tree: &NodeEnum,
        sql: &str,
        shape: &Shape,
        relation: &Relation,
        is_clock: impl Fn(&FuncCall) -> bool,
    ) -> Option<Self> {
        let mut defaults = relation.columns.iter().filter_map(|column| column.default.as_deref());
        if relation.has_triggers || defaults.any(asks_text) {
            return None;
        }
        if shape.is_constant_free() || shape.text().contains(&b'$') || !is_simple(tree, is_clock)? {
            return None;
        }
        let places = places(tree)?;
        let signed = |start: usize| {
            let minus = start.checked_sub(1).filter(|at| sql.as_bytes()[*at] == b'-');
            match (places.contains(&start), minus.is_some_and(|at| places.contains(&at))) {
                (true, _) => Some(false),
                (false, true) => Some(true),
                (false, false) => None,
            }
        };
        let literals = shape.literals().iter();
        let all = literals.map(|l| (l.kind == LiteralKind::Integer).then(|| signed(l.range.start)).flatten());
        Some(Self { signed: all.collect::<Option<_>>()? })
    }

    /// `None` if a number may not be an `integer`, or the text is not ASCII (positions count characters). `clock` are the places of
    /// the time, which are written, too.
    pub(super) fn apply(&self, sql: &str, shape: &Shape, clock: Option<&Places<'_>>) -> Option<Parameterised> {
        if !sql.is_ascii() || shape.literals().iter().any(|literal| literal.range.len() > DIGITS_MAX) {
            return None;
        }
        let mut new = Parameterised::as_long_as(sql);
        let mut at = 0;
        for (number, (literal, signed)) in shape.literals().iter().zip(&self.signed).enumerate() {
            if let Some(clock) = clock {
                clock.write(&mut new, &mut at, number)?;
            }
            let start = literal.range.start - usize::from(*signed);
            new.replace(sql, &mut at, start..literal.range.end, |new| new.parameter(number + 1));
            new.values.push(sql[start..literal.range.end].to_owned());
        }
        if let Some(clock) = clock {
            clock.write(&mut new, &mut at, self.signed.len())?;
        }
        new.sql.push_str(&sql[at..]);
        Some(new)
    }
}

/// No clause in which a number may mean something else, and no call of a function but `allowed` ones. `None` if the tree cannot be walked.
pub(super) fn is_simple(tree: &NodeEnum, allowed: impl Fn(&FuncCall) -> bool) -> Option<bool> {
    let is_simple = tree.every(|node| match node {
        Ref::FuncCall(call) => allowed(call),
        Ref::OnConflictClause(_) | Ref::MergeStmt(_) => false,
        Ref::SelectStmt(select) => has_no_clauses(select),
        _ => true,
    });
    is_simple.ok()
}

fn has_no_clauses(select: &SelectStmt) -> bool {
    select.group_clause.is_empty()
        && select.distinct_clause.is_empty()
        && select.window_clause.is_empty()
        && select.having_clause.is_none()
        && !tree::is_ordered(select)
}

/// Byte offsets of the numbers (or their signs) that may be parameters.
fn places(tree: &NodeEnum) -> Option<Vec<usize>> {
    let mut found = Vec::new();
    let mut add = |node: Option<&Node>| found.extend(node.and_then(number_at));
    if let NodeEnum::UpdateStmt(update) = tree {
        update.target_list.iter().for_each(|target| add(tree::value_of(target)));
    }
    tree.each(|node| match node {
        Ref::AExpr(operation) if operation.kind == AExprKind::AexprOp as i32 => {
            add(operation.lexpr.as_deref());
            add(operation.rexpr.as_deref());
        }
        Ref::SelectStmt(select) => {
            let rows = select.values_lists.iter().filter_map(|row| row.get::<List>());
            rows.flat_map(|row| &row.items).for_each(|item| add(Some(item)));
        }
        _ => {}
    })
    .ok()?;
    Some(found)
}

fn number_at(node: &Node) -> Option<usize> {
    match &node.node {
        Some(NodeEnum::AConst(AConst { val: Some(a_const::Val::Ival(_)), location, isnull: false })) => {
            usize::try_from(*location).ok()
        }
        _ => None,
    }
}
