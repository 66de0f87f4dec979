//! TPC-H: the demonstration that loads lineitem, and the benchmarks: the load, the queries, and pgbench's transactions.
//!
//! ```text
//! lineitem::Blocks ──256 KiB blocks──► copy_in ──► coordinators ──► datanodes
//!                                        │
//!                       progress ◄───────┘                demo::run:  what `loxo demo` shows
//! files of CSV ──► COPY t FROM '/file' ──► cluster and stock servers in turn   load::run: `loxo bench load`
//!                                                 and every other way of loading    ways, for `--all-ways`
//! pgbench ──► coordinator, and straight to one stock server, in turn            tpcb::run:  `loxo bench tpcb`
//! pgbench writes, one client reads with and without a snapshot of all                         snapshot::run: `loxo bench snapshot`
//! transactions of 1,000 rows, in turn                                             insert::run: `loxo bench insert`
//! the 22 TPC-H queries on a cluster and on one stock server                         power::run: `loxo bench power`
//! short queries over small tables, by turns on a cluster and on one stock server   small::run: `loxo bench small`
//! money moves, sums and TPC-H queries while a datanode joins and leaves            grow::run: `loxo bench grow`
//! one cluster after the other, of ever more datanodes                               nodes::run: `loxo bench nodes`
//! verify::run: do the rows, their order-independent whole, and their places agree with one server?
//! ```
//!
//! Invariants: the same scale factor gives the same rows however they are cut into parts; one part is one COPY and so
//! one transaction; what is compared is measured in one run, in turn, on servers with the same settings.

pub mod demo;
pub mod grow;
pub mod insert;
pub mod lineitem;
pub mod load;
pub mod nodes;
pub mod power;
mod report;
pub mod small;
pub mod snapshot;
mod tools;
pub mod tpcb;
pub mod verify;
mod ways;

pub use demo::DemoOptions;
pub use grow::{GrowOptions, GrowReport};
pub use insert::{InsertOptions, InsertReport};
pub use load::{LoadOptions, Target};
pub use nodes::{NodesOptions, NodesReport};
pub use power::PowerOptions;
pub use report::{LoadReport, Measured, TpcbMeasured, TpcbReport};
pub use small::{SmallOptions, SmallReport};
pub use snapshot::{SnapshotOptions, SnapshotReport};
pub use tools::copy_in::Cancel;
pub use tools::cpu;
pub use tpcb::TpcbOptions;
