//! INSERTs that look at nothing but the row they bring, and several of them written as one.
//!
//! Where no trigger, rule, foreign key, policy or function of the user's has a say, the row goes in or its unique keys and checks refuse it,
//! whatever else there is. So several of them, one behind the other, leave behind what one of all their rows does:
//!
//! ```text
//!  INSERT INTO t (a, b) VALUES ($1, $2)                       three times
//!  INSERT INTO t (a, b) VALUES ($1, $2), ($3, $4), ($5, $6)   once
//! ```

use std::fmt::Write;

use catalog::{Relation, RelationKind};
use pg_query::protobuf::{InsertStmt, ResTarget, SelectStmt};
use pg_query::{Node, NodeEnum};

use super::Template;
use crate::tree::Get;

/// Parameters of a statement that the protocol has room for.
const PARAMETERS_MAX: usize = u16::MAX as usize;

/// See the module's page; for an INSERT of one row.
pub(super) fn is_snapshot_independent(insert: &InsertStmt, relation: &Relation) -> bool {
    let Some(query) = insert.select_stmt.get::<SelectStmt>() else { return false };
    let [Node { node: Some(NodeEnum::List(row)) }] = query.values_lists.as_slice() else { return false };
    insert.on_conflict_clause.is_none()
        && row.items.iter().all(is_given)
        && insert.returning_clause.iter().flat_map(|returning| &returning.exprs).all(is_column)
        && is_passive(relation)
}

/// Does nothing of the user's happen when a row comes in?
fn is_passive(relation: &Relation) -> bool {
    let acts = relation.has_triggers
        || !relation.rules.is_empty()
        || relation.is_barrier
        || relation.code.is_some()
        || !relation.foreign_keys.is_empty();
    relation.kind == RelationKind::Table && !acts
}

fn is_given(value: &Node) -> bool {
    matches!(value.node, Some(NodeEnum::AConst(_) | NodeEnum::ParamRef(_) | NodeEnum::SetToDefault(_)))
}

fn is_column(target: &Node) -> bool {
    let Some(target) = target.get::<ResTarget>() else { return false };
    target.val.as_deref().is_some_and(|value| matches!(value.node, Some(NodeEnum::ColumnRef(_))))
}

/// An INSERT of one row of parameters, as one of several rows.
#[derive(Debug, PartialEq, Eq)]
pub struct Repeated {
    /// Numbers of rows, the largest first, and the text for so many; the parameters of each row follow those of the one before.
    pub texts: Vec<(usize, String)>,
}

/// Few sizes, so that each node soon has them all prepared.
const SIZES: [usize; 3] = [128, 32, 8];

impl Template {
    /// Do statements of this shape look at nothing but the rows they bring?
    pub fn is_snapshot_independent(&self) -> bool {
        self.is_snapshot_independent
    }

    /// The statement, which has the shape this template was learned from, in a form that takes several rows, if it is snapshot-independent and
    /// its rows are to have no time of their own.
    pub fn repeated(&self, sql: &str) -> Option<&Repeated> {
        match self.is_snapshot_independent && !self.reads_clock && self.is_constant_free {
            true => self.repeated.get_or_init(|| Repeated::of(sql)).as_ref(),
            false => None,
        }
    }
}

impl Repeated {
    /// `… VALUES ($1, $2, …)` in any order, nothing behind it, each parameter once.
    fn of(sql: &str) -> Option<Self> {
        let (head, row) = sql.split_at(sql.rfind('(')?);
        let word = head.trim_ascii_end();
        let before = word.len().checked_sub("values".len())?;
        let is_word = word.get(before..)?.eq_ignore_ascii_case("values")
            && word[..before].ends_with(|c: char| c.is_ascii_whitespace() || c == ')');
        let parameter = |value: &str| value.trim_ascii().strip_prefix('$')?.parse::<usize>().ok();
        let row: Vec<usize> =
            row.strip_prefix('(')?.strip_suffix(')')?.split(',').map(parameter).collect::<Option<_>>()?;
        let is_each_once = (1..=row.len()).all(|number| row.contains(&number));
        let fit = SIZES.into_iter().filter(|rows| rows * row.len() <= PARAMETERS_MAX);
        (is_word && is_each_once).then(|| Self { texts: fit.map(|rows| (rows, with_rows(head, &row, rows))).collect() })
    }

    /// The text for so many rows, one of the numbers there are.
    pub fn text(&self, rows: usize) -> &str {
        self.texts.iter().find(|(number, _)| *number == rows).map_or("", |(_, text)| text)
    }
}

/// The text for so many rows of these parameters, counted from 1.
fn with_rows(head: &str, row: &[usize], rows: usize) -> String {
    let mut text = head.to_owned();
    for before in (0..rows).map(|number| number * row.len()) {
        text.push_str(if before == 0 { "(" } else { ", (" });
        for (at, number) in row.iter().enumerate() {
            let separator = if at == 0 { "" } else { ", " };
            write!(text, "{separator}${}", before + number).expect("writing to a String cannot fail");
        }
        text.push(')');
    }
    text
}
