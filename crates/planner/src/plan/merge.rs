//! Rows that every node sorts for itself and the coordinator merges.

use std::sync::Arc;

use catalog::NodeId;

use super::tables::Tables;
use super::{FinalSql, Gather, Input, Plan, Scatter};

/// How a [`Gather`] that only puts rows in order, or cuts them off, does without its temp table.
#[derive(Clone, Debug)]
pub struct Merge {
    /// At least two.
    pub nodes: Vec<NodeId>,
    /// The order, the most significant first; without any, rows come in whatever order.
    pub keys: Vec<MergeKey>,
    /// How many columns the user sees.
    pub columns: usize,
    /// Rows to skip, of all nodes together.
    pub offset: Option<RowCount>,
    /// Rows to give then. A node gives no more than both.
    pub limit: Option<RowCount>,
    /// What follows the keys in the SELECT of each node: the user's columns, FROM, ORDER BY and LIMIT.
    pub rest: String,
}

/// One item of ORDER BY.
#[derive(Clone, Debug)]
pub struct MergeKey {
    /// An expression over a row's columns that gives a bytea, or NULL.
    pub bytes_sql: String,
    /// What those bytes are.
    pub form: KeyForm,
    /// DESC.
    pub descending: bool,
    /// NULLS FIRST, said or not.
    pub nulls_first: bool,
}

/// How the bytes of a key are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyForm {
    /// A big-endian integer with a sign, of 1, 2, 4 or 8 bytes.
    Integer,
    /// A big-endian IEEE number of 4 or 8 bytes; NaN comes last.
    Float,
    /// What `numeric_send` gives.
    Numeric,
    /// Byte by byte.
    Bytes,
}

/// A number in LIMIT or OFFSET.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowCount {
    /// As written.
    Constant(u64),
    /// The value of `$n`.
    Parameter(usize),
}

impl Merge {
    /// The text for each node, with the keys as the first columns.
    pub fn sql(&self) -> String {
        let keys: Vec<&str> = self.keys.iter().map(|key| key.bytes_sql.as_str()).collect();
        self.with_first(&keys.join(", "))
    }

    /// [`Merge::sql`] on all nodes.
    pub fn scatter(&self) -> Scatter {
        let sql = self.sql();
        let tables = Arc::new(Tables::in_text(&sql).unwrap_or_default());
        Scatter { nodes: self.nodes.clone(), sql, writes: false, tables }
    }

    /// The text with all keys in one, the column [`Merge::PACKED`] in front. Without keys there is no such column.
    pub fn packed_sql(&self) -> String {
        let hex = |key: &MergeKey| format!("COALESCE(pg_catalog.encode({}, 'hex'), '{}')", key.bytes_sql, Self::NULL);
        let keys: Vec<String> = self.keys.iter().map(hex).collect();
        match keys.is_empty() {
            true => self.with_first(""),
            false => {
                let packed = keys.join(&format!(" || '{}' || ", char::from(Self::SEPARATOR)));
                self.with_first(&format!("{packed} AS {}", Self::PACKED))
            }
        }
    }

    fn with_first(&self, keys: &str) -> String {
        let comma = if keys.is_empty() { "" } else { ", " };
        format!("SELECT {keys}{comma}{}", self.rest)
    }

    /// The name of the column with the packed keys, which are hexadecimal digits, [`Merge::NULL`] and [`Merge::SEPARATOR`].
    pub const PACKED: &str = "loxo_keys";
    /// Stands for NULL in a packed key.
    pub const NULL: &str = "n";
    /// Between packed keys.
    pub const SEPARATOR: u8 = b'x';
}

impl Gather {
    /// Rows that come to a node, where a last text reads them.
    pub(crate) fn new(node: NodeId, inputs: Vec<Input>, final_sql: FinalSql) -> Self {
        Self { node, inputs, final_sql, writes: false, merge: None, lent: Vec::new() }
    }

    /// The merge to run in the place of it.
    pub fn merged(&self) -> Option<&Merge> {
        self.merge.as_deref().filter(|_| !self.writes)
    }
}

impl Plan {
    /// This plan for rows that are not passed on as they come.
    pub(crate) fn without_merge(self) -> Plan {
        match self {
            Plan::Gather(gather) => Plan::Gather(Gather { merge: None, ..gather }),
            other => other,
        }
    }
}
