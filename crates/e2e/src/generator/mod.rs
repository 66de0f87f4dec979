//! Random tables and random statements over them, the same for one PostgreSQL and for a cluster.
//!
//! ```text
//! seed ─► World     tables in every role: hash, modulo, replicated, round robin, partitioned, temporary; views
//!    └──► Generator ─► Part   a statement as a tree, from which [`run`] can leave things out
//! ```
//!
//! Invariants: everything follows from the seed; and every statement has *one* right answer. So there is no LIMIT without a
//! total order, no sum of floating point values that depends on their order (all values are multiples of a quarter), no
//! row changed by two others, no error that one order of evaluation meets and another does not.

mod aggregate;
mod change;
pub mod compare;
mod expression;
mod from;
mod kind;
mod part;
mod query;
pub mod run;
mod scope;
mod shrink;
mod world;

pub use part::{Constants, Part, Rendered};
pub use scope::Generator;
pub use world::World;
