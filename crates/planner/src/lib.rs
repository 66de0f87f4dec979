//! The planner: SQL text + catalog snapshot + session facts → plan. Pure: no I/O, no clock, no global state.
//!
//! ```text
//! text ── parse ──> Statement ── plan ──> Plan ── (executor)
//!                     kind       │
//!                                ├─ rules: the statements that rules make of a change
//!                                ├─ inline, views: bodies of functions and views in place of their names
//!                                ├─ select/  locality analysis, partial aggregates, gathering
//!                                ├─ dml/     routing of writes
//!                                ├─ with/    WITH items that change rows
//!                                └─ ddl/     distribution of new tables, what DDL does to the catalog
//! text ── (executor: PostgreSQL's analysis) ──> the same statement with every name, cast and column written out
//! text ── references ──> names that may be variables, for running a function's body statement by statement
//! text ── leavings ──> what the backends may hold afterwards
//! text ── template ──> the same plan as that of an earlier statement that differs in its constants only
//! ```
//!
//! Invariants:
//! - *Correct or refused.* Every analysis is conservative: "local" must be proved, whatever is in doubt is gathered to the
//!   home node, and what cannot be gathered is refused with SQLSTATE 0A000, naming the construct and a way round.
//! - The planner never evaluates SQL. It hashes literal keys only where [`placement::hash_text`] knows the spelling.
//! - Statements are taken to be valid: PostgreSQL has accepted them before the planner sees them. Queries and changes of rows
//!   come as PostgreSQL has understood them ([`Analysis`]): in their trees a bare name of a function, operator or type is
//!   PostgreSQL's own. Schema changes, bodies of functions and templates are read by their words.
//! - A statement that needs no rewriting is passed on as the very text the user wrote.

mod api;
mod context;
mod copy;
mod ddl;
mod distribution;
mod dml;
mod driver;
mod expanded;
mod facts;
mod first_copy;
mod look_alikes;
pub mod parse;
mod plan;
mod questions;
mod rewrite;
mod row_locks;
mod select;
mod session;
mod template;
mod views;
mod with;

use questions::try_any;
use syntax as tree;

pub use api::{
    as_schema_change, changes_current, check_stored, expanded_views, hindered_tables, late_defaults, locked_copies,
    names_in_from, plan, refresh_as, refreshed, runs_apart, views_first, wanted_bodies, with_places,
};
pub use ddl::node_options::{LIMIT_BASE, for_nodes};
pub use dml::temp_placement::Late;
pub use dml::{current_of, identity, sets_default};
pub use expanded::{Expanded, ReadAs};
pub use facts::clock::{
    at_one_moment, bodies_read_clock, reads_clock, some_moment, views_read_clock, with_marked_words, with_typed_words,
    word_at,
};
pub use facts::code::Stored;
pub use facts::effects::leavings;
pub use facts::references::{Place, Reference, References, references};
pub use facts::setting_calls::{SettingCalls, setting_calls};
pub use facts::used::may_use;
pub use facts::values_drawn::{LastDrawn, ValuesDrawn, with_values_drawn};
pub use look_alikes::Qualifier;
pub use parse::bodies::renames_value;
pub use parse::own_text::own_text;
pub use parse::{
    Analysis, Marked, Shape, Statement, StatementKind, Undeclared, Uses, bare_system_views, naming_temporary,
    only_creates, parse, parse_beside, parse_for_dump, stores_expressions, without_constants,
};
pub use plan::*;
pub use rewrite::before::{Condition, trigger_condition};
pub use rewrite::in_trigger::{InTrigger, TransitionTable, in_trigger};
pub use rewrite::inline::WantedBody;
pub use rewrite::owner_reads::OWN_PATH;
pub use rewrite::routine::call_targets;
pub use session::*;
pub use syntax::sql_statements;
pub use template::{Completion, Learned, ManyRows, Parameterised, Repeated, Template};
pub use with::check_cursor;
