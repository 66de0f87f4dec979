//! What is known of a statement before it is planned: what it reads, changes, calls and leaves behind.
//!
//! * [`functions`], [`builtins`], [`code`]: what functions need, those that a statement names and those that a node calls by
//!   itself; [`definitions`]: what views are made of.
//! * [`used`], [`sized`]: which tables; [`constant`]: which node a constant key lives on; [`numbers`]: which values are exact;
//!   [`clock`]: what reads the clock.
//! * [`effects`], [`setting_calls`]: what is left in backends; [`values_drawn`]: values of sequences that a backend had.
//! * [`references`], [`key_setters`]: names in bodies of functions, and whether a trigger may change a distribution key.
//!
//! Invariant: facts come from PostgreSQL's analysis and catalogs; what they do not tell counts as the worst.

pub(crate) mod builtins;
pub(crate) mod clock;
pub(crate) mod code;
pub(crate) mod constant;
pub(crate) mod definitions;
pub(crate) mod effects;
pub(crate) mod functions;
pub(crate) mod key_setters;
pub(crate) mod numbers;
pub(crate) mod references;
pub(crate) mod setting_calls;
pub(crate) mod sized;
pub(crate) mod used;
pub(crate) mod values_drawn;
