//! Which expressions are surely exact numbers? Only sums of those may be split over nodes, or made by each node for itself:
//! floating-point addition in another order gives other last digits.

use catalog::BuiltinFunction;
use pg_query::protobuf::{AConst, AExprKind, CaseWhen, ColumnRef, FuncCall, a_const};
use pg_query::{Node, NodeEnum};

use super::locality::{Analyzer, Body};
use super::terms::LeafColumn;
use crate::context::Context;
use crate::facts::builtins::{self, Combined, adds_floats};
use crate::tree::{self, Get};

pub(crate) const INT2: u32 = 21;
pub(crate) const INT4: u32 = 23;
pub(crate) const INT8: u32 = 20;
pub(crate) const NUMERIC: u32 = 1700;

/// `float4`, `float8`, and arrays of them, which aggregates keep their sums in.
pub(crate) fn is_float(type_oid: u32) -> bool {
    matches!(type_oid, 700 | 701 | 1021 | 1022)
}

/// What kind of number an expression is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    /// int2 or int4.
    Integer,
    Bigint,
    Numeric,
    /// NULL, which takes the type of what stands beside it.
    Null,
    /// It may be floating point, or no number.
    Other,
}

impl Number {
    pub(crate) fn of_type(type_oid: u32) -> Self {
        match type_oid {
            INT2 | INT4 => Number::Integer,
            INT8 => Number::Bigint,
            NUMERIC => Number::Numeric,
            _ => Number::Other,
        }
    }

    /// What an operator makes of two, or COALESCE of its arguments.
    fn with(self, other: Self) -> Self {
        match (self, other) {
            (Number::Other, _) | (_, Number::Other) => Number::Other,
            (Number::Null, number) | (number, Number::Null) => number,
            (Number::Numeric, _) | (_, Number::Numeric) => Number::Numeric,
            (Number::Bigint, _) | (_, Number::Bigint) => Number::Bigint,
            (Number::Integer, Number::Integer) => Number::Integer,
        }
    }

    fn of_all(numbers: impl Iterator<Item = Self>) -> Self {
        numbers.reduce(Self::with).unwrap_or(Number::Other)
    }
}

/// Is the value of this expression an integer or numeric?
pub(crate) fn is_exact(analyzer: &Analyzer<'_>, body: &Body, node: &Node) -> bool {
    !matches!(of_expression(analyzer, body, node), Number::Null | Number::Other)
}

/// What kind of number an expression is. A numeric may also be an integer.
pub(crate) fn of_expression(analyzer: &Analyzer<'_>, body: &Body, node: &Node) -> Number {
    number(analyzer.ctx, &|column| of_leaf(analyzer, body, column), node)
}

/// A column of the level's own FROM.
pub(crate) fn column_here<'a>(analyzer: &'a Analyzer<'_>, body: &Body, column: &ColumnRef) -> Option<&'a LeafColumn> {
    let (leaf, position) = super::terms::resolve_here(&analyzer.leaves, &body.scope, column).ok()??;
    analyzer.leaves[leaf].columns.as_ref()?.get(position)
}

fn of_leaf(analyzer: &Analyzer<'_>, body: &Body, column: &ColumnRef) -> Number {
    let column = column_here(analyzer, body, column);
    column.map_or(Number::Other, |column| Number::of_type(column.type_oid))
}

/// How results of an aggregate of PostgreSQL's own over parts of the level's rows are combined, if that is sure and exact.
pub(crate) fn combined(analyzer: &Analyzer<'_>, body: &Body, call: &FuncCall) -> Option<Combined> {
    combined_of(&meant(analyzer.ctx, &|column| of_leaf(analyzer, body, column), call))
}

/// The same for whatever of these functions it is.
pub(crate) fn combined_of(meant: &[&BuiltinFunction]) -> Option<Combined> {
    let mut ways = meant.iter().map(|function| builtins::combined(function));
    let first = ways.next()??;
    ways.all(|way| way == Some(first)).then_some(first)
}

/// What kind of number an expression is, if that of each column is known.
pub(crate) fn number(ctx: &Context<'_>, of_column: &dyn Fn(&ColumnRef) -> Number, node: &Node) -> Number {
    let number = |n: &Node| number(ctx, of_column, n);
    match node.node.as_ref() {
        Some(NodeEnum::AConst(constant)) => of_constant(constant),
        Some(NodeEnum::ColumnRef(column)) => of_column(column),
        Some(NodeEnum::TypeCast(cast)) => {
            let of = cast.type_name.as_ref().and_then(|of| ctx.builtin_type(of));
            of.map_or(Number::Other, |of| Number::of_type(of.oid))
        }
        Some(NodeEnum::AExpr(e)) if e.kind == AExprKind::AexprOp as i32 => match tree::operator_name(&e.name) {
            Some(op) if ["+", "-", "*", "/", "%"].contains(&op) && !ctx.has_user_operator(op) => {
                Number::of_all([&e.lexpr, &e.rexpr].into_iter().flatten().map(|side| number(side)))
            }
            _ => Number::Other,
        },
        Some(NodeEnum::CoalesceExpr(c)) => Number::of_all(c.args.iter().map(number)),
        Some(NodeEnum::CaseExpr(case)) => {
            let results = case.args.iter().map(|when| when.get::<CaseWhen>()?.result.as_deref());
            let results = results.map(|result| result.map_or(Number::Other, number));
            Number::of_all(results.chain(case.defresult.as_deref().map(number)))
        }
        Some(NodeEnum::FuncCall(call)) if ctx.is_builtin(&call.funcname) => {
            Number::of_all(meant(ctx, of_column, call).iter().map(|function| Number::of_type(function.result)))
        }
        _ => Number::Other,
    }
}

fn of_constant(constant: &AConst) -> Number {
    match constant.val {
        _ if constant.isnull => Number::Null,
        Some(a_const::Val::Ival(_)) => Number::Integer,
        Some(a_const::Val::Fval(_)) => Number::Numeric,
        _ => Number::Other,
    }
}

/// Those of PostgreSQL's own functions of that name that take such arguments, if the types of columns are known as far as
/// `of_column` tells. A number that has to be cast first is taken by none.
pub(crate) fn meant<'a>(
    ctx: &Context<'a>,
    of_column: &dyn Fn(&ColumnRef) -> Number,
    call: &FuncCall,
) -> Vec<&'a BuiltinFunction> {
    let numbers: Vec<Number> = call.args.iter().map(|argument| number(ctx, of_column, argument)).collect();
    let takes = |(number, type_oid): (&Number, &u32)| match (number, Number::of_type(*type_oid)) {
        (Number::Other | Number::Null, _) => true,
        // It may be an integer in truth.
        (Number::Numeric, taken) => taken != Number::Other || is_any(ctx, *type_oid),
        (number, taken) => *number == taken || is_any(ctx, *type_oid),
    };
    let mut functions = ctx.builtin_functions(call);
    functions.retain(|function| numbers.iter().zip(&function.arguments).all(takes));
    functions
}

fn is_any(ctx: &Context<'_>, type_oid: u32) -> bool {
    ctx.catalog.builtins().type_of(type_oid).is_none()
}

/// An aggregate or window function whose last digits may depend on the order in which rows are found. What is not known to be
/// exact may be floating point.
pub(crate) fn adds_in_any_order(ctx: &Context<'_>, call: &FuncCall) -> bool {
    ctx.builtin_functions(call).into_iter().any(adds_floats)
        && meant(ctx, &|_| Number::Other, call).into_iter().any(adds_floats)
}
