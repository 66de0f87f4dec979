//! Which expressions are surely exact numbers? Only sums of those may be split over nodes: floating-point addition in
//! another order gives other last digits.

use pg_query::protobuf::{AExprKind, a_const};
use pg_query::{Node, NodeEnum};

use super::locality::{Analyzer, Body};
use crate::context::Context;
use crate::tree;

pub(crate) const INT2: u32 = 21;
pub(crate) const INT4: u32 = 23;
pub(crate) const INT8: u32 = 20;
pub(crate) const NUMERIC: u32 = 1700;

/// Is the value of this expression an integer or numeric?
pub(crate) fn is_exact(ctx: &Context<'_>, analyzer: &Analyzer<'_>, body: &Body, node: &Node) -> bool {
    let exact = |n: &Node| is_exact(ctx, analyzer, body, n);
    match node.node.as_ref() {
        Some(NodeEnum::AConst(c)) => c.isnull || matches!(c.val, Some(a_const::Val::Ival(_) | a_const::Val::Fval(_))),
        Some(NodeEnum::ColumnRef(column)) => {
            let Ok(Some((leaf, position))) = super::terms::resolve_here(&analyzer.leaves, &body.scope, column) else {
                return false;
            };
            let column = analyzer.leaves[leaf].columns.as_ref().and_then(|c| c.get(position));
            column.is_some_and(|c| [INT2, INT4, INT8, NUMERIC].contains(&c.type_oid))
        }
        Some(NodeEnum::TypeCast(cast)) => cast.type_name.as_ref().is_some_and(|t| {
            let name = t.names.last().and_then(tree::text_of);
            t.array_bounds.is_empty() && !t.setof && matches!(name, Some("int2" | "int4" | "int8" | "numeric"))
        }),
        Some(NodeEnum::AExpr(e)) if e.kind == AExprKind::AexprOp as i32 => {
            let Some(op) = tree::operator_name(&e.name) else { return false };
            ["+", "-", "*", "/", "%"].contains(&op)
                && !ctx.catalog.has_user_operator(op)
                && e.lexpr.as_deref().is_none_or(exact)
                && e.rexpr.as_deref().is_some_and(exact)
        }
        Some(NodeEnum::CoalesceExpr(c)) => c.args.iter().all(exact),
        Some(NodeEnum::CaseExpr(case)) => {
            let results = case.args.iter().map(|when| match &when.node {
                Some(NodeEnum::CaseWhen(when)) => when.result.as_deref(),
                _ => None,
            });
            results.chain(case.defresult.as_deref().map(Some)).all(|result| result.is_some_and(exact))
        }
        Some(NodeEnum::FuncCall(call)) => {
            let name = call.funcname.last().and_then(tree::text_of).unwrap_or_default();
            let always = ["count", "length", "char_length", "row_number", "rank"].contains(&name);
            let like_argument = ["sum", "avg", "min", "max", "abs", "mod", "round", "trunc"].contains(&name);
            ctx.catalog.functions(name).is_empty() && (always || (like_argument && call.args.iter().all(exact)))
        }
        _ => false,
    }
}
