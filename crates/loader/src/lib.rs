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
//! * [`input`](self): which files, and their bytes without compression.
//!   [`parquet`](self): a Parquet file is a source for each of its row groups, with rows as text.
//! * [`create`](self): the table that files are for.
//! * [`cut`](self): bytes into pieces of whole rows; where a row ends is decided by `copyfmt`'s scanner, which is
//!   PostgreSQL's own rule, so a newline in quotes never ends one.
//! * [`ranges`](self): a large file in the hands of several readers.
//! * [`lines`](self): a line number of a COPY back to file and line.
//! * [`session`](self): one connection and one COPY on it, which notices an error while it sends.
//! * [`rejects`](self): rows that the server refuses, left out and written to a file.
//! * [`atomic`](self) and [`batches`](self): the two ways to commit. [`journal`](self): the table that both keep.
//! * [`indexes`](self): dropped for the time of a load. [`monitor`](self): what the servers are seen at.
//!
//! Invariants:
//! * Without `batch`, all rows of all files are committed or none: one transaction, or prepared ones under one decision row
//!   ([`atomic`](self)).
//! * With `batch`, a batch and its row in `loxo_load_progress` are one transaction and the row's key is unique: whoever dies,
//!   whoever tries again, no row is loaded twice, and none is left out once the load says it is done.
//! * A file that is not what it was when its batches were loaded is noticed by their checksums.
//! * Memory is bounded: `streams × 4` MiB, or `streams + readers + 1` batches of at most [`BATCH_BYTES_MAX`] (with `rejects` a
//!   batch twice, of 8 MiB if there are none), plus a few MiB a reader and the longest row.
//!
//! Absent on purpose: any knowledge of where rows go. Whatever speaks PostgreSQL's protocol can be loaded; datanodes are only
//! looked at ([`monitor`](self)).

mod atomic;
mod batches;
mod create;
mod cut;
mod indexes;
mod input;
mod journal;
mod lines;
mod load;
mod monitor;
mod options;
mod output;
mod parquet;
mod progress;
mod ranges;
mod readers;
mod rejects;
mod session;
mod unload;

pub use atomic::finish;
pub use create::create;
pub use indexes::restore_indexes;
pub use load::{Summary, load};
pub use monitor::{Intake, Seen, Wait};
pub use options::{BATCH_BYTES_MAX, Batch, Copy, LoadOptions};
pub use output::Compression;
pub use unload::{UnloadOptions, Unloaded, unload};
