//! The gtm: keeps coordinators' cached catalogs honest, runs recovery and watches for deadlocks ([`crate::deadlock`]). It holds soft state only; kill it at will.
//!
//! # Catalog invalidation
//! When a DDL statement is answered, no coordinator may still plan with the catalog from before it.
//!
//! ```text
//!  DDL coordinator            gtm                      every coordinator, the asker too
//!   invalidate ───────────────> pending(id) ──────────────> drops its catalog, state Pending
//!                               (all acks, or leases over) <── ack(id)
//!   <─────────────────── ready
//!   commits on the datanodes
//!   finish (or dies) ─────────> resolved(id) ───────────────> state Valid, with a new epoch
//! ```
//!
//! A cached catalog counts only while its coordinator holds a **lease**. The coordinator pings; the gtm's pong extends the
//! lease to `lease` after the moment the *ping was sent*, so a pong that lay in a socket buffer while the coordinator was
//! stopped extends nothing. Hence, of a coordinator that does not ack within `lease + MARGIN` its lease is over, and the gtm
//! need not wait for it. Leases are given only to coordinators that were told a generation, see below. The same holds for one whose connection broke, and after a restart of the gtm for all those it
//! cannot know: until `lease + MARGIN` have passed, no invalidation is answered.
//!
//! # The contract with the loader of catalogs
//! A coordinator reads a catalog (on connecting, after each Resolved) only after it has waited, in share mode, for a lock
//! that every committing DDL transaction holds exclusively (on `loxo.committing`, on the primary datanode). So it cannot
//! read, and keep, a catalog that a DDL under way is about to replace, even if the gtm or the DDL's coordinator has died in
//! between: a prepared transaction keeps its locks. That is why the gtm may forget everything, and why the death of a DDL coordinator ends its changes at once.
//! A catalog is kept under the epoch seen *before* it was read.
//!
//! # Global snapshots and the fence
//! The gtm shuts the gates of all coordinators for the moment in which a statement takes its snapshots; page [`crate::gate`].
//! Coordinators that it does not know of are shut out by the **fence**: each datanode has a *generation*, a decision is only
//! taken under the generation that the commit point has, and a coordinator knows a generation only from a gtm it was connected to.
//! A gtm raises the generation on all datanodes when it begins to lead and when a coordinator is lost, and then looks for what
//! was decided before and is not finished (page `upkeep`). A commit on a single node has no decision: while the
//! coordinator holds a lease it is not asked, and the gtm grants no global snapshot before the lease of a lost one is over; without a
//! lease it must be under the node's generation too.
//!
//! # Which datanodes there are
//! The configuration tells the primary datanode; which others there are is in `loxo.node`, and may change while a gtm leads (page `members`).
//!
//! # Questions
//! What coordinators ask each other (who has which sessions, end this one) goes through the gtm, which understands none of it
//! (page `questions`).
//!
//! # Several databases
//! Catalogs, snapshots, fences and leases are each database's own, so the gtm serves each database as if it had a gtm of its own (page
//! `databases`). A coordinator has a connection to it for each database that its clients use.
//!
//! # Several gtms
//! One leads (page `leader`); the others answer Hello with Standby and are ready to take over. All of them run recovery.

pub mod client;
pub(crate) mod command;
mod databases;
mod deadlock;
#[doc(hidden)]
pub mod driver;
mod event;
pub mod global_snapshot;
mod global_snapshots;
mod leader;
pub mod message;
mod questions;
pub mod server;
mod upkeep;
mod welcome;

pub use client::{CatalogState, GtmClient, InvalidationGuard};
pub use databases::{drop_database_sql, name_is_back_sql, take_name_back_sql};
pub use global_snapshot::{GlobalSnapshot, READ_BARRIER_SQL, SNAPSHOT_SQL};
pub use server::{GtmOptions, serve};
pub use welcome::{leads, role};

use std::time::Duration;

/// Default of [`GtmOptions::lease`].
pub const LEASE: Duration = Duration::from_secs(2);
/// For clocks that run at different speeds.
pub const MARGIN: Duration = Duration::from_millis(500);
/// A coordinator pings this often.
pub const PING_INTERVAL: Duration = Duration::from_millis(500);
