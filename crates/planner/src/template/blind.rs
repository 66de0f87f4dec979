//! INSERTs that look at nothing but the row they bring, and several of them written as one.
//!
//! Where no trigger, rule, foreign key, policy or function of the user's has a say, the row goes in or its unique keys and
//! checks refuse it, whatever else there is. So several of them, one behind the other, leave behind what one of all their
//! rows does:
//!
//! ```text
//!  INSERT INTO t (a, b) VALUES ($1, $2)                       three times
//!  INSERT INTO t (a, b) VALUES ($1, $2), ($3, $4), ($5, $6)   once
//! ```

use std::fmt::Write;

use catalog::{Relation, RelationKind};
use pg_query::protobuf::InsertStmt;
use pg_query::{Node, NodeEnum};

use super::Template;

/// Parameters of a statement that the protocol has room for.
const PARAMETERS_MAX: usize = u16::MAX as usize;

/// See the module's page; for an INSERT of one row.
pub(super) fn is_blind(insert: &InsertStmt, relation: &Relation) -> bool {
    let Some(NodeEnum::SelectStmt(query)) = insert.select_stmt.as_deref().and_then(|node| node.node.as_ref()) else {
        return false;
    };
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
    let Some(NodeEnum::ResTarget(target)) = &target.node else { return false };
    target.val.as_deref().is_some_and(|value| matches!(value.node, Some(NodeEnum::ColumnRef(_))))
}

/// An INSERT of one row of parameters, as one of several rows.
#[derive(Debug, PartialEq, Eq)]
pub struct Repeated {
    /// Up to the row.
    head: String,
    /// The row's parameters, from 1.
    row: Vec<usize>,
}

impl Template {
    /// Do statements of this shape look at nothing but the rows they bring?
    pub fn is_blind(&self) -> bool {
        self.is_blind
    }

    /// The statement, which has the shape this template was learned from, in a form that takes several rows, if it is blind and
    /// its rows are to have no time of their own.
    pub fn repeated(&self, sql: &str) -> Option<Repeated> {
        if self.is_blind && !self.reads_clock { Repeated::of(sql) } else { None }
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
        (is_word && is_each_once).then(|| Self { head: head.to_owned(), row })
    }

    /// May a statement have so many rows?
    pub fn can_have(&self, rows: usize) -> bool {
        rows * self.row.len() <= PARAMETERS_MAX
    }

    /// The text for so many rows; the parameters of each follow those of the one before.
    pub fn text(&self, rows: usize) -> String {
        let mut text = self.head.clone();
        for row in 0..rows {
            text.push_str(if row == 0 { "(" } else { ", (" });
            for (at, number) in self.row.iter().enumerate() {
                let separator = if at == 0 { "" } else { ", " };
                write!(text, "{separator}${}", row * self.row.len() + number).expect("writing to a String cannot fail");
            }
            text.push(')');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_parameters_are_repeated() {
        let text = |sql: &str, rows| Repeated::of(sql).map(|repeated| repeated.text(rows));
        assert_eq!(
            text("INSERT INTO t (b, a) VALUES ($2, $1)", 3).as_deref(),
            Some("INSERT INTO t (b, a) VALUES ($2, $1), ($4, $3), ($6, $5)")
        );
        assert_eq!(text("insert into t(a)values( $1 )", 2).as_deref(), Some("insert into t(a)values($1), ($2)"));
        for other in [
            "INSERT INTO t VALUES ($1, 2)",
            "INSERT INTO t VALUES ($1, $1)",
            "INSERT INTO t VALUES ($1, $3)",
            "INSERT INTO t VALUES ($1::int)",
            "INSERT INTO t VALUES ($1) RETURNING a",
            "INSERT INTO t VALUES ($1) RETURNING (a)",
            "INSERT INTO t SELECT my_values($1)",
        ] {
            assert_eq!(text(other, 2), None, "{other}");
        }
        assert!(!Repeated::of("INSERT INTO t VALUES ($1, $2)").is_some_and(|repeated| repeated.can_have(32_768)));
    }
}
