//! Calls that ask for the size of a table, of which each node has a part.

use std::sync::Arc;

use catalog::{BuiltinFunction, Relation};
use pg_query::protobuf::{FuncCall, a_const};
use pg_query::{Node, NodeEnum};

use crate::context::{Context, Named};
use crate::facts::builtins::{Class, class_of};
use crate::tree;

/// Does a call ask for the size of a relation?
pub(crate) fn asks_size(ctx: &Context<'_>, call: &FuncCall) -> bool {
    let is_size = |function: &BuiltinFunction| class_of(ctx.catalog.builtins(), function) == Class::Size;
    ctx.is_builtin(&call.funcname) && ctx.builtin_functions(call).into_iter().any(is_size)
}

/// The partitioned table that an argument names as a constant.
pub(crate) fn sized_table(ctx: &Context<'_>, argument: Option<&Node>) -> Option<Arc<Relation>> {
    let mut argument = argument?.node.as_ref()?;
    while let NodeEnum::TypeCast(cast) = argument {
        argument = cast.arg.as_deref()?.node.as_ref()?;
    }
    let NodeEnum::AConst(constant) = argument else { return None };
    let Some(a_const::Val::Sval(text)) = &constant.val else { return None };
    let select = tree::parse_select(&format!("SELECT FROM {}", text.sval)).ok()?;
    match &select.from_clause.first()?.node {
        Some(NodeEnum::RangeVar(name)) => match ctx.resolve(name).ok()? {
            Named::Distributed(relation) => Some(relation).filter(|relation| relation.distribution.is_partitioned()),
            _ => None,
        },
        _ => None,
    }
}
