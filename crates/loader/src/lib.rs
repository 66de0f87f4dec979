//! Files into a table: `loxo load`; a query into a file: `loxo unload`.
//!
//! ```text
//!  files, stdin ─▶ input ─▶ cut ─────────▶ queue of pieces ─▶ stream 1 ─▶ a coordinator
//!                  gunzip…  whole rows,    (bounded)       ─▶ stream 2 ─▶ the next one
//!                  threads  positions                      ─▶ …
//! ```
//!
//! In: paths, connection URIs, COPY's options. Out: rows in a table, a [`Summary`], or an error that names file and line.
//!
//! * [`load`](self), [`unload`](self): one run from its [`options`](self) to its summary. [`create`](self): the table that files are for.
//!   [`progress`](self): how far a load is. [`output`](self): a file that is written.
//! * [`files`](self): files as pieces of whole rows; where a row ends is decided by `copyfmt`'s scanner, which is PostgreSQL's own
//!   rule, so a newline in quotes never ends one. [`parquet`](self): a Parquet file is a source for each of its row groups.
//! * [`server`](self): connections, indexes, and what the nodes are seen at.
//! * [`commit`](self): the two ways to commit, the journal that both keep, and rows that the server refuses.
//!
//! Invariants:
//! * Without `batch`, all rows of all files are committed or none: one transaction, or prepared ones under one decision row
//!   ([`commit`](self)).
//! * With `batch`, a batch and its row in `loxo_load_progress` are one transaction and the row's key is unique: whatever dies,
//!   whatever tries again, no row is loaded twice, and none is left out once the load says it is done.
//! * A file that is not what it was when its batches were loaded is noticed by their checksums.
//! * Memory is bounded: `streams × 4` MiB, or `streams + readers + 1` batches of at most [`BATCH_BYTES_MAX`] (with `rejects` a
//!   batch twice, of 8 MiB if there are none), plus a few MiB a reader and the longest row.
//!
//! Absent on purpose: any knowledge of where rows go. Whatever speaks PostgreSQL's protocol can be loaded; datanodes are only
//! looked at ([`server`](self)).

mod commit;
mod create;
mod files;
mod load;
mod options;
mod output;
mod parquet;
mod progress;
mod server;
mod unload;

pub use commit::atomic::finish;
pub use create::create;
pub use load::{Summary, load};
pub use options::{BATCH_BYTES_MAX, Batch, Copy, LoadOptions};
pub use output::Compression;
pub use server::indexes::restore_indexes;
pub use server::monitor::{Intake, Seen, Wait};
pub use unload::{UnloadOptions, Unloaded, unload};
