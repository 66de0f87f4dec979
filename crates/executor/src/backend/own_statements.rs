//! Statements of ours that every backend has prepared from the start, so that they cost no parsing.

use pgproto::Connection;
use pgproto::frontend::{self, Bind};

/// A statement of ours that every backend has prepared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Own {
    /// `BEGIN` of the commonest kind.
    Begin,
    ReadBarrier,
    /// See [`txn::SNAPSHOT_SQL`].
    Generation,
    /// The node's `now()` and `statement_timestamp()`.
    Moment,
}

/// What [`Own::Begin`] does.
pub(crate) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// The text of `now()` as a `timestamptz`, whatever the session's settings are.
pub(crate) const NOW: &str = "pg_catalog.to_char(pg_catalog.now() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') \
     OPERATOR(pg_catalog.||) '+00'";

/// What [`Own::Moment`] does: each as the text of a `timestamptz`, whatever the session's settings are.
const MOMENT: &str = "SELECT pg_catalog.to_char(pg_catalog.now() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') \
     OPERATOR(pg_catalog.||) '+00', \
     pg_catalog.to_char(pg_catalog.statement_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') \
     OPERATOR(pg_catalog.||) '+00'";

impl Own {
    const ALL: [Own; 4] = [Own::Begin, Own::ReadBarrier, Own::Generation, Own::Moment];

    fn name(self) -> &'static [u8] {
        match self {
            Own::Begin => b"loxo_begin",
            Own::ReadBarrier => b"loxo_read_barrier",
            Own::Generation => b"loxo_generation",
            Own::Moment => b"loxo_moment",
        }
    }

    fn sql(self) -> &'static str {
        match self {
            Own::Begin => BEGIN,
            Own::ReadBarrier => txn::READ_BARRIER_SQL,
            Own::Generation => txn::SNAPSHOT_SQL,
            Own::Moment => MOMENT,
        }
    }

    /// Queues the preparation of all of them.
    pub(crate) fn prepare_all(connection: &mut Connection) {
        for own in Self::ALL {
            frontend::parse(connection.out(), own.name(), own.sql().as_bytes(), &[]);
        }
        connection.sync();
    }

    /// Queues the execution, without a Sync.
    pub(crate) fn queue(self, connection: &mut Connection) {
        let statement = bytes::Bytes::from_static(self.name());
        frontend::bind(connection.out(), &Bind { statement, ..Bind::default() });
        frontend::execute(connection.out(), b"", 0);
    }
}
