//! Transactions over several datanodes: two-phase commit, its recovery, and the gtm (global transaction manager).
//!
//! ```text
//!  session ── commit(participants) ──> datanodes        PREPARE on all writers but one, COMMIT there, COMMIT PREPARED
//!  gtm ────── recovery, every second ─> datanodes        finishes what a dead coordinator left prepared
//!  coordinator ── GtmClient ── TCP ──> gtm               "drop your cached catalogs before I commit this DDL"
//! ```
//!
//! * [`commit`](mod@commit): the commit and the rollback of one transaction.
//! * [`gid`]: the name of a distributed transaction, which says where its outcome is found.
//! * [`decision`]: where the outcome is kept: one row at the commit point, as durable as the commit itself.
//! * [`user_prepared`]: PREPARE TRANSACTION and COMMIT PREPARED of users.
//! * [`recovery`]: resolves in-doubt transactions from the datanodes alone. Its page argues why that is race-free.
//! * [`gate`]: has commits wait for the moment in which a statement takes its snapshots on several nodes.
//! * [`deadlock`]: circles of waits over several datanodes, found by the gtm and broken by a coordinator.
//! * [`identity`]: whether a server that was reached is the datanode it should be.
//! * [`marks`]: what has the last word over snapshots that come too late.
//! * `members`: which datanodes there are now, for the gtm and for recovery.
//! * [`seal`]: how a datanode tells a coordinator's calls from a user's.
//! * [`Interrupt`]: what ends a wait in the coordinator before its time.
//! * [`gtm`]: server and client of the gtm; soft state only.
//!
//! Invariants:
//! * The decision is the commit point's own COMMIT. No other participant is committed before it, and the COMMIT is not
//!   sent before every other writer has said that it is prepared.
//! * A transaction's rows become visible only while its commit is inside the gate, or after the gtm knows where they are not yet.
//! * Nothing is kept on a coordinator's or the gtm's disk; dropping a future of this crate at any await is like the death
//!   of its coordinator, and recovery puts it right.
//! * An outcome is only reported when it is known; otherwise the error is 40003.

mod clock;
pub mod commit;
pub mod control;
mod datanodes;
pub mod deadlock;
pub mod decision;
pub mod figures;
pub mod gate;
pub mod gid;
pub mod gtm;
pub mod identity;
mod interrupt;
pub mod marks;
mod members;
pub mod recovery;
pub mod seal;
pub mod user_prepared;

pub use commit::{CommitTools, Outcome, Participant, commit, rollback};
pub use datanodes::{Database, Datanodes};
pub use gate::{Gate, Pass};
pub use gid::{Gid, GidSource};
pub use gtm::{
    CatalogState, GlobalSnapshot, GtmClient, GtmOptions, InvalidationGuard, READ_BARRIER_SQL, SNAPSHOT_SQL,
    drop_database_sql, name_is_back_sql, take_name_back_sql,
};
pub use identity::Roster;
pub use interrupt::Interrupt;
pub use recovery::{InDoubt, Report, resolve_all};
pub use seal::{SEAL_SQL, Seal};

/// A backend in the middle of a statement, or of a wait, notices that nobody is there any more, and lets go of its locks.
pub const LIVELY: (&str, &str) = ("client_connection_check_interval", "500ms");

/// What connections for statements of our own start with: names and operators mean PostgreSQL's, whatever users have made in schemas
/// that a role's or a database's search path names. Nor does anything else count that the owner of a database may have set for it.
pub fn own_parameters(application_name: &str) -> Vec<(String, String)> {
    const PLAIN: [(&str, &str); 10] = [
        ("search_path", "pg_catalog, pg_temp"),
        ("role", "none"),
        ("client_encoding", "UTF8"),
        ("default_transaction_isolation", "read committed"),
        ("default_transaction_read_only", "off"),
        ("statement_timeout", "0"),
        ("lock_timeout", "0"),
        ("idle_session_timeout", "0"),
        ("idle_in_transaction_session_timeout", "0"),
        LIVELY,
    ];
    std::iter::once(("application_name", application_name))
        .chain(PLAIN)
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}
