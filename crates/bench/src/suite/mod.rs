//! The frame that every experiment runs in.
//!
//! ```text
//!  Experiment ── stages: clusters, one after the other; steps: what is measured on each ──┐
//!                                                                                         ▼
//!  Clusters::start ─► prepare ─► step, step, … (builds by turns) ─► finish ─► stop      drive
//!                                  │                                                      │
//!                                  └─ Sample ─► journal (on disk at once)                 │
//!                                                                                         ▼
//!                samples ─► Experiment::sheet ─► tables, charts, findings ─► Outcome ─► Report
//!                                                                             JSON, HTML, text; compare
//! ```
//!
//! Invariants: a figure is in the report only as it was measured, with the build, the round and the machine's load beside it; tables
//! and charts are functions of the samples, so an interrupted run shows what it has, and a resumed one cannot tell the difference;
//! whatever happens, a cluster that was started is stopped before `drive` returns.

mod chart;
mod compare;
mod drive;
mod experiment;
mod html;
mod journal;
mod machine;
mod progress;
mod result;
mod text;

pub use compare::{Comparison, compare};
pub use drive::{Run, WRONG, drive, measure_once};
pub use experiment::{Clusters, Experiment, Given, Stage, Step, settings};
pub use journal::Journal;
pub use machine::{Load, Machine, cores, utc};
pub use result::{
    AGAINST, Axis, Better, Build, Cell, Chart, FORMAT, Figure, Kind, Mark, Outcome, Point, Readings, Report, Sample,
    Samples, Series, Sheet, Spread, THIS, Table,
};
