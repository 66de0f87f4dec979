//! Benchmarks, the demonstration that loads TPC-H's lineitem, and the frame that makes reports of what was measured.
//!
//! ```text
//!                        suite: stages and steps, builds by turns, journal, report, comparison
//!                                                   │ runs
//! bulk      rate of loads through 1 to 3 coordinators, on clusters of several sizes           `loxo bench bulk`, `scaling`
//! sustained the same load again and again, past the memory                                     `loxo bench sustained`
//! concurrency  1 to 16 processes that load at once, on one server and on the cluster           `loxo bench concurrency`
//! ticks     1 to 6 datanodes × 1 to 8 loaders, one table with an index                          `loxo bench ticks`
//! plan      the cluster needed for a rate, projected from what a row costs                        `loxo bench plan`
//! load      files through the coordinators, and straight into stock servers (ways: all ways)   `loxo bench load`
//! oltp      many short transactions through a coordinator and straight to one stock server       `loxo bench tpcb`, `sysbench`,
//!                                                                                              `tpcc`, `ch`
//! insert    transactions of 1,000 rows                                                         `loxo bench insert`
//! power     TPC-H's load, queries, streams and refreshes on a cluster and on one stock server  `loxo bench power`
//! tpcds     queries over TPC-DS's tables on a cluster and on one stock server                  `loxo bench tpcds`
//! small     short queries over small tables                                                    `loxo bench small`
//! snapshot  reads with and without a snapshot of all nodes, while others write                 `loxo bench snapshot`
//! grow      money moves, sums and queries while a datanode joins and leaves                    `loxo bench grow`
//! nodes     one cluster after the other, of ever more datanodes                                `loxo bench nodes`
//!                                                   │ with
//! beside    the same tables on a cluster and on one stock server, timed by phase
//! profile   what backends were seen to do: figures, chart, table;  published: what others have measured
//! tools     stock servers, COPY, processor time, wait events;  lineitem: rows;  verify: are they right?
//!
//! demo      what `loxo demo` shows
//! ```
//!
//! Invariants: the same scale factor gives the same rows however they are cut into parts; one part is one COPY and so
//! one transaction; what is compared is measured in one run, in turn, on servers with the same settings.

mod beside;
pub mod bulk;
pub mod concurrency;
pub mod demo;
pub mod grow;
pub mod insert;
pub mod lineitem;
pub mod load;
pub mod nodes;
pub mod oltp;
pub mod plan;
pub mod power;
mod profile;
mod published;
mod report;
pub mod small;
pub mod snapshot;
pub mod suite;
pub mod sustained;
pub mod ticks;
mod tools;
pub mod tpcds;
pub mod verify;
mod ways;

pub use bulk::{Bulk, BulkOptions, Question};
pub use concurrency::{Concurrency, ConcurrencyOptions};
pub use demo::DemoOptions;
pub use grow::{Grow, GrowOptions};
pub use insert::{Insert, InsertOptions};
pub use load::{Load, LoadOptions, Target};
pub use nodes::{Nodes, NodesOptions};
pub use oltp::ch::{Ch, ChOptions};
pub use oltp::sysbench::{Sysbench, SysbenchOptions};
pub use oltp::tpcb::{Tpcb, TpcbOptions};
pub use oltp::tpcc::{Tpcc, TpccOptions};
pub use power::{Power, PowerOptions};
pub use report::{LoadReport, Measured};
pub use small::{Small, SmallOptions};
pub use snapshot::{Snapshot, SnapshotOptions};
pub use sustained::{Sustained, SustainedOptions};
pub use ticks::{Ticks, TicksOptions};
pub use tools::copy_in::Cancel;
pub use tools::cpu;
pub use tpcds::{Tpcds, TpcdsOptions};
