//! PL/pgSQL text → tree: blocks, declarations, statements. What is SQL in it, expressions and statements, stays text: PostgreSQL
//! reads it.
//!
//! ```text
//! pg_proc.prosrc ── body ──> ast::Body ── Block::walk ──> every declaration, statement and text of SQL
//! ```
//!
//! [`tokens`] is for the planner as well, which reads by them what PostgreSQL's grammar does not have.
//!
//! libpg_query parses PL/pgSQL too, but what it prints has lost the scopes of blocks, the precision of declared types and the
//! variable in `RETURN x`, and is broken JSON for functions of triggers.
//!
//! Invariants: the server has accepted the text already; what is not read here is refused, never guessed. A word counts only
//! where the grammar has a keyword: tokens are those of PostgreSQL's own scanner.

pub mod ast;
pub mod conditions;
mod parse;
mod scan;
pub mod tokens;
mod walk;

pub use parse::{BEFORE_COMPILED, CASE_SUBJECT, body, compile_only, is_string, place_in, sql_body};
pub use walk::Part;
