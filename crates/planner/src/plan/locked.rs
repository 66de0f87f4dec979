//! Rows of several nodes that a query locks.

#![allow(missing_docs)]

use std::sync::Arc;

use catalog::{Column, NodeId, Relation};

use super::Plan;

/// See [`Plan::Locked`]. Steps of the executor, again under a new cut as long as a row that it has to lock was changed meanwhile:
/// 1. run `query`, whose last columns, one for each of `targets`, say where the locked rows are; 2. lock rows by that, in order,
///    until there are as many as LIMIT and OFFSET want; 3. pass the rows on, without those columns.
#[derive(Clone, Debug)]
pub struct Locked {
    /// The user's text.
    pub original: String,
    /// The query without locks; with LIMIT it gives a few rows more, for those that are skipped.
    pub query: Plan,
    /// `query` without LIMIT.
    pub all: Option<Plan>,
    /// How many rows more than LIMIT and OFFSET say `query` gives.
    pub spare: usize,
    /// In the order of the columns.
    pub targets: Vec<LockTarget>,
    /// Expressions in SQL.
    pub limit: Option<String>,
    pub offset: Option<String>,
    /// The columns that say where the rows are stay: a cursor keeps them.
    pub keeps_places: bool,
}

/// What an UPDATE or DELETE with WHERE CURRENT OF is about.
#[derive(Clone, Debug)]
pub struct CurrentOf {
    pub relation: Arc<Relation>,
    /// What the statement calls it.
    pub alias: String,
    /// The columns of its primary key.
    pub key: Vec<Column>,
}

/// A table whose rows are locked.
#[derive(Clone, Debug)]
pub struct LockTarget {
    /// Its qualified name, with ONLY if that is said.
    pub table: String,
    /// `UPDATE`, `NO KEY UPDATE`, `SHARE` or `KEY SHARE`.
    pub strength: &'static str,
    /// What becomes of rows that others have locked.
    pub wait: LockWait,
    /// How a row is found.
    pub by: LockedBy,
    /// The table has policies: those of UPDATE may forbid to lock a row that those of SELECT show, which is then left out.
    pub has_policies: bool,
}

/// What becomes of rows that others have locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockWait {
    /// They are waited for.
    Block,
    /// The statement fails.
    Error,
    /// They are left out.
    Skip,
}

/// What the column of a [`LockTarget`] says of a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LockedBy {
    /// Its node, `ctid` and `xmin`, and, where there are several, its table; a blank between them.
    Address {
        /// The table has partitions or children.
        names_table: bool,
    },
    /// A row of a replicated table, by a hash of the row, a blank and the value of the key. It is locked on this copy.
    Key { node: NodeId, column: String, type_name: String },
}

impl LockTarget {
    /// The table's qualified name, without ONLY.
    pub fn name(&self) -> &str {
        self.table.strip_prefix("ONLY ").unwrap_or(&self.table)
    }

    /// Locks the rows of a list, an array of addresses or keys, and says which have been found; `of_table` is its text if rows have one.
    pub fn lock_sql(&self, list: &str, of_table: Option<&str>) -> String {
        let wait = match self.wait {
            LockWait::Block => "",
            LockWait::Error => " NOWAIT",
            LockWait::Skip => " SKIP LOCKED",
        };
        format!("{} FOR {} OF loxo_l{wait}", self.find_sql(list, of_table), self.strength)
    }

    /// Finds the rows of a list as [`Self::lock_sql`] does, without locks.
    pub fn find_sql(&self, list: &str, of_table: Option<&str>) -> String {
        let list = catalog::quote_literal(list);
        match &self.by {
            LockedBy::Address { .. } => {
                let of_table = of_table.map(|table| {
                    format!(" AND loxo_l.tableoid = {}::pg_catalog.regclass", catalog::quote_literal(table))
                });
                format!(
                    "SELECT pg_catalog.concat_ws(' ', loxo_l.ctid, loxo_l.xmin) FROM {} AS loxo_l \
                     WHERE loxo_l.ctid = ANY ({list}::pg_catalog.tid[]){}",
                    self.table,
                    of_table.unwrap_or_default()
                )
            }
            LockedBy::Key { column, type_name, .. } => {
                let column = catalog::quote_identifier(column);
                format!(
                    "SELECT pg_catalog.concat_ws(' ', pg_catalog.md5(loxo_l::pg_catalog.text), loxo_l.{column}) \
                     FROM {} AS loxo_l WHERE loxo_l.{column} = ANY ({list}::{type_name}[])",
                    self.table
                )
            }
        }
    }
}
