//! Deadlocks that span datanodes: what one PostgreSQL cannot see because each server knows only its own waits.
//!
//! ```text
//!  gtm, every 0.5 s ── look ──> every datanode         who waits, since when, for whom          (look.rs)
//!  gtm ── Who(backends) ──────> every coordinator      which sessions do these work for?        (word.rs)
//!  gtm <─ Owners ───────────────
//!  gtm: waits + owners = graph over sessions; a circle in two looks running is a deadlock       (graph.rs)
//!  gtm ── Break(chosen) ─────> the coordinator of the youngest transaction in the circle
//!                               cancels the waiting backend, if it is still in that very wait;
//!                               the client gets 40P01 instead of 57014
//! ```
//!
//! # Why a circle in two looks is a deadlock
//! A look is not a snapshot: nodes are asked one beside the other and coordinators after them. But a wait has an identity,
//! its backend and the time it began, so one that is in two looks has lasted from the end of the first to the start of the
//! second. If that holds for every wait of a circle, all were on at one moment; and as each session of the circle is stuck in
//! its statement all that time, none has given up a lock or a backend in between. Nothing but a cancel can end such a circle:
//! there are no phantoms, whatever the delays.
//!
//! # What a vertex is
//! A session depends on all its backends, and a waiter for a lock of its transaction waits for the session. An
//! exception: a statement that runs on a backend in autocommit gives its locks up by itself when it is done there. Such a
//! backend is a vertex of its own, which depends on nothing but its own wait. (Advisory locks may belong to the backend's
//! session and always count for ours.)
//!
//! A prepared transaction is nobody's vertex: it waits for nothing. One of a user's ends when the user says so; one of ours is
//! in the middle of a commit, which waits for no lock, because the session has run its deferred constraints *before* anyone
//! was prepared (`SET CONSTRAINTS ALL IMMEDIATE`; they may wait for rows like any statement).
//!
//! Circles in which every session is entered and left by the same backend lie within one server and are left to its own
//! detector.
//!
//! Invariants: a lock wait that is in no circle is never broken; the cancel is sent while the session can neither start
//! its next statement nor give the backend away, so no other statement can be hit.

pub(crate) mod graph;
pub(crate) mod look;
pub mod word;

pub use look::cancel_if_waiting;

/// A server process of a datanode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Backend {
    /// Node id of the datanode.
    pub node: u16,
    /// Its process id there.
    pub pid: i32,
}

/// A session and those of its backends that were asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owner {
    /// Unique within its coordinator process.
    pub session: u64,
    /// When its transaction began, in µs since 1970 by the coordinator's clock.
    pub began_us: u64,
    /// With each, whether the session's transaction is open on it (rather than a statement in autocommit).
    pub backends: Vec<(Backend, bool)>,
}

/// Whom to cancel, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadlockVictim {
    /// The victim, by its coordinator's number.
    pub session: u64,
    /// Its backend that waits.
    pub backend: Backend,
    /// The process whose wait it is: the backend itself, or a parallel worker of it.
    pub waiter: i32,
    /// When the wait began, in µs since 1970 by the datanode's clock: together with the process, which wait it is.
    pub since_us: i64,
    /// Who waits for whom, for the client.
    pub detail: String,
}

/// What a coordinator knows of its sessions.
pub trait Sessions: Send + Sync {
    /// The owners of those backends that are this coordinator's.
    fn owners(&self, backends: &[Backend]) -> Vec<Owner>;

    /// Cancels the victim if it is still in the wait that the chosen names. Must not block.
    fn carry_out(&self, chosen: DeadlockVictim);

    /// The answer to a question of a coordinator's ([`GtmClient::ask_all`](crate::GtmClient::ask_all)). Must not block.
    fn answer(&self, question: &[u8]) -> bytes::Bytes;
}
