//! Calls that ask for the size of a table, of which each node has a part.

use std::sync::Arc;

use catalog::{BuiltinFunction, Relation};
use pg_query::Node;
use pg_query::protobuf::FuncCall;

use crate::context::Context;
use crate::facts::builtins::{Class, class_of};
use crate::tree::{self, Get};

/// Does a call ask for the size of a relation?
pub(crate) fn asks_size(ctx: &Context<'_>, call: &FuncCall) -> bool {
    let is_size = |function: &BuiltinFunction| class_of(ctx.catalog.builtins(), function) == Class::Size;
    ctx.is_builtin(&call.funcname) && ctx.builtin_functions(call).into_iter().any(is_size)
}

/// The partitioned table that an argument names as a constant.
pub(crate) fn sized_table(ctx: &Context<'_>, argument: Option<&Node>) -> Option<Arc<Relation>> {
    let name = tree::under_casts(argument?).get().and_then(tree::quoted)?;
    let select = tree::parse_select(&format!("SELECT FROM {name}")).ok()?;
    let relation = ctx.distributed(select.from_clause.first()?.get()?).ok()?;
    relation.filter(|relation| relation.distribution.is_partitioned())
}
