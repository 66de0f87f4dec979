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
//!   finish (or dies) ─────────> settled(id) ───────────────> state Valid, with a new epoch
//! ```
//!
//! A cached catalog counts only while its coordinator holds a **lease**. The coordinator pings; the gtm's pong extends the
//! lease to `lease` after the moment the *ping was sent*, so a pong that lay in a socket buffer while the coordinator was
//! stopped extends nothing. Hence, of a coordinator that does not ack within `lease + MARGIN` its lease is over, and the gtm
//! need not wait for it. The same holds for one whose connection broke, and after a restart of the gtm for all those it
//! cannot know: until `lease + MARGIN` have passed, no invalidation is answered.
//!
//! # The contract with the loader of catalogs
//! A coordinator reads a catalog (on connecting, after each settled) only after it has waited, in share mode, for a lock
//! that every committing DDL transaction holds exclusively (an advisory lock on the primary datanode). So it cannot read, and keep, a catalog that a DDL
//! under way is about to replace, even if the gtm or the DDL's coordinator has died in between: a prepared transaction
//! keeps its locks. That is why the gtm may forget everything, and why the death of a DDL coordinator settles at once.
//! A catalog is kept under the epoch seen *before* it was read.

pub mod client;
mod deadlock;
pub mod message;
pub mod server;

pub use client::{CatalogState, GtmClient, InvalidationGuard};
pub use server::{GtmOptions, serve};

use std::time::Duration;

/// Default of [`GtmOptions::lease`].
pub const LEASE: Duration = Duration::from_secs(2);
/// For clocks that run at different speeds.
pub const MARGIN: Duration = Duration::from_millis(500);
/// A coordinator pings this often.
pub const PING_INTERVAL: Duration = Duration::from_millis(500);
