//! Which expressions are surely exact numbers? Only sums of those may be split over nodes, or made by each node for itself:
//! floating-point addition in another order gives other last digits.

use catalog::BuiltinFunction;
use pg_query::Node;
use pg_query::protobuf::{ColumnRef, FuncCall};

use super::locality::{Analyzer, Body};
use super::terms::LeafColumn;
use crate::facts::builtins::{self, Combined};
use crate::facts::numbers::{Number, meant, number};

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

/// [`combined`] if the call may mean several functions: all of them agree.
pub(crate) fn combined_of(meant: &[&BuiltinFunction]) -> Option<Combined> {
    let mut ways = meant.iter().map(|function| builtins::combined(function));
    let first = ways.next()??;
    ways.all(|way| way == Some(first)).then_some(first)
}
