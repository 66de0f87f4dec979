//! Isolation levels, and the setting `loxo.snapshot`.

use pgerror::{PgError, Result, SqlState};

/// Isolation level of a transaction. READ UNCOMMITTED is READ COMMITTED under another name, as in PostgreSQL.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)]
pub enum Isolation {
    ReadUncommitted,
    #[default]
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl Isolation {
    /// The level named by the words after ISOLATION LEVEL, or by the value of `transaction_isolation`.
    pub fn named(words: &str) -> Self {
        match words.to_ascii_lowercase().as_str() {
            "serializable" => Isolation::Serializable,
            "repeatable read" => Isolation::RepeatableRead,
            "read uncommitted" => Isolation::ReadUncommitted,
            _ => Isolation::ReadCommitted,
        }
    }

    /// `BEGIN` with this level.
    pub(crate) fn begin(self) -> &'static str {
        match self {
            Isolation::ReadUncommitted => "BEGIN ISOLATION LEVEL READ UNCOMMITTED",
            Isolation::ReadCommitted => "BEGIN ISOLATION LEVEL READ COMMITTED",
            Isolation::RepeatableRead => "BEGIN ISOLATION LEVEL REPEATABLE READ",
            Isolation::Serializable => "BEGIN ISOLATION LEVEL SERIALIZABLE",
        }
    }

    /// Does each statement of the transaction have a snapshot of its own?
    pub(crate) fn renews_snapshot(self) -> bool {
        !self.keeps_snapshot()
    }

    /// Does the transaction keep its first snapshot?
    pub(crate) fn keeps_snapshot(self) -> bool {
        matches!(self, Isolation::RepeatableRead | Isolation::Serializable)
    }
}

/// The setting `loxo.snapshot`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SnapshotMode {
    /// One snapshot for all nodes.
    #[default]
    Consistent,
    /// Each node's own: a transaction over several nodes may be seen on some and not yet on others.
    Local,
}

impl SnapshotMode {
    /// The mode that the setting's value names.
    ///
    /// # Errors
    /// 22023 as PostgreSQL words it.
    pub fn named(value: &str) -> Result<Self> {
        match value.to_ascii_lowercase().as_str() {
            "consistent" => Ok(SnapshotMode::Consistent),
            "local" => Ok(SnapshotMode::Local),
            _ => Err(PgError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("invalid value for parameter \"loxo.snapshot\": \"{value}\""),
            )
            .hint("Available values: consistent, local.")),
        }
    }

    /// The setting's value.
    pub fn name(self) -> &'static str {
        match self {
            SnapshotMode::Consistent => "consistent",
            SnapshotMode::Local => "local",
        }
    }
}
