//! PostgreSQL's own functions, sorted by what they need.
//!
//! `pg_proc` and `pg_aggregate` say most of it: what is IMMUTABLE may run anywhere; what is VOLATILE, or STABLE for another reason
//! than its arguments' types, only on the home node. What they do not say is in [`catalog::meaning`].

use catalog::{BuiltinAggregate, BuiltinFunction, BuiltinType, Builtins, Meaning, Oid};

pub(crate) const INT2: Oid = 21;
pub(crate) const INT4: Oid = 23;
pub(crate) const INT8: Oid = 20;
pub(crate) const NUMERIC: Oid = 1700;
const REGCLASS: Oid = 2205;
const TSVECTOR: Oid = 3614;
const TSQUERY: Oid = 3615;
const XML: Oid = 142;

/// What a built-in function needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class<'a> {
    Anywhere,
    Home,
    HomeWrite,
    Volatile,
    /// The time that a constant can stand for.
    Clock,
    VolatileClock,
    OrderSensitive,
    Size,
    Refused(&'static str),
    /// It is what its body in SQL is.
    Body(&'a str),
}

/// What becomes of a call of this function in the plan.
pub(crate) fn class_of<'a>(builtins: &Builtins, function: &'a BuiltinFunction) -> Class<'a> {
    match (function.kind, function.volatility) {
        ('f' | 'p', 'i') => Class::Anywhere,
        ('f' | 'p', _) => match function.meaning {
            Some(Meaning::OfSettings | Meaning::Setting) => Class::Anywhere,
            Some(Meaning::Now | Meaning::StatementTime) => Class::Clock,
            Some(Meaning::Time) => Class::VolatileClock,
            Some(Meaning::Random) => Class::Volatile,
            Some(Meaning::LastValue) => Class::Home,
            Some(Meaning::Refused(hint) | Meaning::OfServers(hint)) => Class::Refused(hint),
            _ => by_facts(builtins, function),
        },
        ('a', _) if function.aggregate.is_some_and(|aggregate| ignores_order(builtins, function, aggregate)) => {
            Class::Anywhere
        }
        _ => Class::OrderSensitive,
    }
}

/// The class of a function that is STABLE or VOLATILE.
fn by_facts<'a>(builtins: &Builtins, function: &'a BuiltinFunction) -> Class<'a> {
    const XML_HINT: &str = "It reads tables by name: write the query in SQL and use query results or XMLAGG.";
    let is_shared = function.parallel == 's';
    let is_of_relation = function.arguments.first() == Some(&REGCLASS);
    match (function.volatility, &function.body) {
        ('v', _) if is_shared && is_of_relation && function.result == INT8 => Class::Size,
        (_, Some(body)) => Class::Body(body),
        _ if function.result == XML && !is_shared => Class::Refused(XML_HINT),
        ('s', _) if is_shared && reads_settings(builtins, function) => Class::Anywhere,
        ('s', _) => Class::Home,
        _ if is_shared => Class::Home,
        // It touches the session, or what only the primary datanode has, as sequences and large objects.
        _ => Class::HomeWrite,
    }
}

/// Is a STABLE function STABLE because of the types that it is given or makes? What a text means there depends on settings alone.
fn reads_settings(builtins: &Builtins, function: &BuiltinFunction) -> bool {
    let known = |oid: &Oid| builtins.type_of(*oid);
    let by_settings = |of: BuiltinType| !of.reads_alike && of.category != 'A' || [TSVECTOR, TSQUERY].contains(&of.oid);
    let arguments = &function.arguments;
    // A pseudo-type stands for any: its values' types decide.
    let by_arguments = arguments.iter().any(|oid| known(oid).is_none_or(by_settings));
    let by_result = !arguments.is_empty() && known(&function.result).is_some_and(by_settings);
    let names_object = arguments.iter().filter_map(known).any(|of| of.is_object_id);
    let is_any = arguments.iter().any(|oid| known(oid).is_none());
    let gives_object = !is_any && known(&function.result).is_some_and(|of| of.is_object_id);
    (by_arguments || by_result) && !names_object && !gives_object
}

/// Does an aggregate give the same in whatever order rows come? One whose parts can be combined does, unless it adds floating
/// point or shows what it has collected.
fn ignores_order(builtins: &Builtins, function: &BuiltinFunction, aggregate: BuiltinAggregate) -> bool {
    let category = builtins.type_of(function.result).map(|of| of.category);
    let is_sum = aggregate.combine != 0 && matches!(category, Some('N' | 'T' | 'B' | 'V'));
    aggregate.is_extreme || is_sum
}

/// How the results of an aggregate over parts of the rows make that over all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Combined {
    /// By the same aggregate.
    Itself,
    /// By adding them; of no rows it is 0.
    Count,
    /// By adding them; the sum has the type of its parts.
    Sum,
    /// The parts' sums by their counts.
    Average,
}

/// `None`: they cannot be combined, or not exactly.
pub(crate) fn combined(function: &BuiltinFunction) -> Option<Combined> {
    let aggregate = function.aggregate.filter(|aggregate| aggregate.combine != 0)?;
    match (aggregate.finish, function.meaning) {
        (0, ..) if aggregate.combine == aggregate.transition => {
            (aggregate.is_extreme || !is_float(aggregate.state)).then_some(Combined::Itself)
        }
        (0, ..) if aggregate.state == INT8 && aggregate.starts_null => Some(Combined::Sum),
        (0, ..) if aggregate.state == INT8 => Some(Combined::Count),
        (_, Some(Meaning::Sum)) => Some(Combined::Sum),
        (_, Some(Meaning::Average)) => Some(Combined::Average),
        _ => None,
    }
}

/// Does a value that comes twice count once? It does for the first or the last in an order; what is not known to be that counts.
pub(crate) fn ignores_repeats(function: &BuiltinFunction) -> bool {
    function.aggregate.is_some_and(|aggregate| aggregate.is_extreme)
}

/// Does it add floating point, so that another order of rows gives other last digits?
pub(crate) fn adds_floats(function: &BuiltinFunction) -> bool {
    function.aggregate.is_some_and(|aggregate| !aggregate.is_extreme && is_float(aggregate.state))
}

/// `float4`, `float8`, and arrays of them, which aggregates keep their sums in.
pub(crate) fn is_float(type_oid: u32) -> bool {
    matches!(type_oid, 700 | 701 | 1021 | 1022)
}
