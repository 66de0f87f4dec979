//! `SELECT pg_stat_reset()` and its kin, which act on a server: all datanodes do it, and the first one's answer is told.

use catalog::{BuiltinFunction, Meaning};
use pg_query::Node;
use pg_query::protobuf::{AConst, ParamRef, SelectStmt};

use crate::context::Context;
use crate::parse::Statement;
use crate::plan::{Plan, Replicate};
use crate::tree::{self, Get};

/// The plan of a statement that is nothing but such a call.
pub(crate) fn plan(ctx: &Context<'_>, statement: &Statement) -> Option<Plan> {
    let call = tree::sole_call(statement.node()?.get::<SelectStmt>()?)?;
    let functions = if ctx.is_builtin(&call.funcname) { ctx.builtin_functions(call) } else { Vec::new() };
    let is_of_servers = |function: &&BuiltinFunction| matches!(function.meaning, Some(Meaning::OfServers(_)));
    let function = functions.into_iter().find(is_of_servers)?;
    let mut arguments = call.args.iter().zip(&function.arguments);
    let is_alike = arguments.all(|(value, of)| match ctx.catalog.builtins().type_of(*of) {
        Some(of) if of.is_object_id => is_name_of_object(ctx, value),
        _ => tree::under_casts(value).get::<AConst>().is_some() || value.get::<ParamRef>().is_some(),
    });
    let everywhere = || ctx.primary_first(ctx.catalog.all_nodes());
    is_alike.then(|| Plan::Replicate(Replicate::of(statement, everywhere())))
}

/// Does a constant name an object that all nodes have? By its number each has another one.
fn is_name_of_object(ctx: &Context<'_>, value: &Node) -> bool {
    let is_temporary = |name: &str| ctx.session.temp_relations.iter().any(|known| name.contains(known));
    tree::named_object(value)
        .is_some_and(|name| !is_temporary(name) && !["pg_temp", "pg_toast"].iter().any(|own| name.contains(own)))
}
