//! What all sessions of one coordinator share.
//!
//! * [`context`]: the cluster, the catalog, and the rest of this list.
//! * [`catalog_load`]: the catalog read off the home node, by [`catalog_queries`]; [`plan_validity`]: whether a plan made with it
//!   still holds.
//! * [`templates`], [`analyses`], [`estimates`], [`few_rows`], [`search_paths`]: what was found out once and is kept.
//! * [`cores`], [`pressure`]: the host's cores, and which threads have a claim to one.
//!
//! Invariants: nothing here knows a session; whatever depends on the catalog is kept for one version of it, and bounded.

pub(crate) mod analyses;
pub(crate) mod catalog_load;
pub(crate) mod catalog_queries;
pub(crate) mod context;
pub(crate) mod cores;
pub(crate) mod definitions;
pub(crate) mod estimates;
pub(crate) mod few_rows;
pub(crate) mod figures;
pub(crate) mod long_texts;
pub(crate) mod plan_validity;
pub(crate) mod pressure;
pub(crate) mod search_paths;
pub(crate) mod templates;
