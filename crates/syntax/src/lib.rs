//! Trees of PostgreSQL's parser, as `pg_query` gives them: looked at and changed, made, compared, named and printed.
//!
//! A text goes in and becomes a tree ([`parse_one`], [`parse_select`], [`parse_expression`]); [`Walk`] goes through every node of one,
//! [`Ask`] answers what is asked of many, [`Get`] takes a node for what it is, [`given_to_insert`] an INSERT for what it is given; a tree
//! goes out as text ([`deparse`]). Pages `queries`, `bodies`, `ddl` and `ddl_types` say what queries, definitions of functions and DDL are
//! made of. What a name means is the planner's business: nothing here knows a catalog.
//!
//! Invariant: a node that the walk does not know is an error, never passed over.

mod ask;
mod bodies;
mod ddl;
mod ddl_types;
mod get;
mod given;
mod make;
mod names;
mod parts;
mod printed;
mod queries;
mod text;
mod walk;

pub use ask::Ask;
pub use bodies::{function_text, parameter_defaults, signature_types, sql_bodies, sql_statements};
pub use ddl::{is_of_large_object, is_shared, schema_of_new, schemas_changed};
pub use ddl_types::{types_altered, types_in};
pub use get::{Get, Syntax};
pub use given::{given_to_insert, with_apart};
pub use make::*;
pub use names::{name_output, output_name};
pub use parts::*;
pub use printed::{check_meaning, say_plainly};
pub use queries::*;
pub use text::*;
pub use walk::{Ref, Walk};
