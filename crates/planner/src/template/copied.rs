//! INSERT … SELECT from one table whose rows stay on the node they come from.
//!
//! ```text
//!  INSERT INTO t (a, k) SELECT s.x + 1, s.k FROM s WHERE s.k = 5
//!                 └──────────────────────┘ the key of t is that of s, whatever the constants are
//! ```
//!
//! Then it runs where the query alone would: on the node of the key that WHERE names, or wherever the source has rows.

use catalog::Relation;
use pg_query::protobuf::{ColumnRef, InsertStmt, RangeVar, SelectStmt};
use pg_query::{Node, NodeEnum};

use super::parameters::is_simple;
use super::{Place, Places, given_columns, is_column, only_table};
use crate::tree::{self, Get};

/// See the module's page.
pub(super) struct Copied<'t> {
    insert: &'t InsertStmt,
    query: &'t SelectStmt,
    pub(super) source: &'t RangeVar,
}

impl<'t> Copied<'t> {
    pub(super) fn of(insert: &'t InsertStmt) -> Option<Self> {
        let query = insert.select_stmt.get::<SelectStmt>()?;
        only_table(query).map(|source| Self { insert, query, source })
    }

    /// Is each key column of the target given the same of the source?
    fn keeps_key(&self, target: &Relation, source: &Relation) -> Option<bool> {
        let given = given_columns(self.insert, target)?;
        let alias = tree::alias_of(self.source);
        let is_given = |name: &str, own: &str| {
            let mut positions = given.iter().enumerate().filter(|(_, given)| **given == name).map(|(at, _)| at);
            let position = positions.next().filter(|_| positions.next().is_none());
            position.is_some_and(|position| self.gives(position, alias, own, source))
        };
        let (keys, own_keys) = (target.key_names(), source.key_names());
        Some(keys.len() == own_keys.len() && keys.into_iter().zip(own_keys).all(|(key, own)| is_given(key, own)))
    }

    /// Is this column of the query that column of the source?
    fn gives(&self, position: usize, alias: &str, name: &str, source: &Relation) -> bool {
        if let [only] = self.query.target_list.as_slice()
            && tree::value_of(only).is_some_and(is_star)
        {
            return source.columns.get(position).is_some_and(|column| column.name == name);
        }
        let is_plain = |target: &Node| tree::value_of(target).is_some_and(|value| !is_star(value));
        let value = self.query.target_list.get(position).and_then(tree::value_of);
        self.query.target_list.iter().all(is_plain) && value.is_some_and(|value| is_column(value, alias, name))
    }
}

/// `*` or `t.*`.
fn is_star(value: &Node) -> bool {
    let Some(column) = value.get::<ColumnRef>() else { return false };
    column.fields.last().is_none_or(|last| tree::text_of(last).is_none())
}

impl Places<'_> {
    /// Where an INSERT … SELECT from this table into `target` runs.
    pub(super) fn of_source(&self, copied: &Copied<'_>, target: &Relation, tree: &NodeEnum) -> Option<Place> {
        if !copied.keeps_key(target, self.relation)? || !is_simple(tree, |_| false)? {
            return None;
        }
        let condition = copied.query.where_clause.as_deref();
        match condition.and_then(|condition| self.in_condition(copied.source, condition)) {
            Some(key) => Some(Place::Key(key)),
            None => self.everywhere(condition, tree),
        }
    }
}
