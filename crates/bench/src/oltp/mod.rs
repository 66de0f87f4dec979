//! Many short transactions: through a coordinator, straight to one stock server, and through PgBouncer to that.
//!
//! ```text
//! tpcb      pgbench's transactions                                     pgbench
//! sysbench  its OLTP scripts                                           sysbench
//! tpcc      TPC-C                                                      go-tpc
//! ch        CH-benCHmark: TPC-C, and 22 analytical queries beside it    go-tpc, queries of our own sessions
//!                     │ with
//! sides     who gets the statements, and what that took;   sheet: what all of them show
//! gotpc     the program go-tpc;   twin: tables of the stock server in the cluster
//! ```
//!
//! Each measures by turns, and beside each load through the coordinator once the transfer-sum: money moves between datanodes and is
//! summed through other coordinators. A wrong sum is a wrong answer, and the run fails.

pub mod ch;
mod ch_report;
mod gotpc;
mod sheet;
mod sides;
pub mod sysbench;
pub mod tpcb;
pub mod tpcc;
mod twin;

pub use crate::tools::pgbouncer::program as pgbouncer;
