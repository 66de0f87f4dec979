//! What kind of number an expression is, as far as its text and the types of its columns tell.

use catalog::BuiltinFunction;
use pg_query::protobuf::{AConst, AExprKind, CaseWhen, ColumnRef, FuncCall, a_const};
use pg_query::{Node, NodeEnum};

use crate::context::Context;
use crate::facts::builtins::{INT2, INT4, INT8, NUMERIC, adds_floats};
use crate::tree::{self, Get};

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
        Some(NodeEnum::AExpr(e)) if e.kind == AExprKind::AexprOp as i32 => match tree::own_name(&e.name) {
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
