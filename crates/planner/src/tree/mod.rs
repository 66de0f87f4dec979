//! Helpers round pg_query's trees: walking, building, comparing, printing.

mod ask;
mod get;
mod make;
mod names;
mod parts;
mod text;
mod walk;

pub(crate) use ask::Ask;
pub(crate) use get::{Get, Syntax};
pub(crate) use make::*;
pub(crate) use names::{name_output, output_name};
pub(crate) use parts::*;
pub(crate) use text::*;
pub(crate) use walk::{Ref, Walk};
