//! How a statement is to be run: its parameters, the form and the order of its rows; and what is known of types by their ids.

use std::sync::Arc;

use bytes::Bytes;
use catalog::{FIRST_USER_OID, Oid};
use copyfmt::reads_clock;
use planner::{Merge, MergeKey, Moment, RowCount};

use crate::backend::type_ids::TypesOfNodes;

/// Parameters of an execution, as the client bound them.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Parameters {
    /// Types on the home node, 0 where not known.
    pub types: Vec<u32>,
    pub formats: Vec<i16>,
    pub values: Vec<Option<Bytes>>,
}

impl Parameters {
    /// 0 text, 1 binary.
    pub(crate) fn format_of(&self, parameter: usize) -> i16 {
        match self.formats.as_slice() {
            [] => 0,
            [all] => *all,
            each => each.get(parameter).copied().unwrap_or(0),
        }
    }
}

/// How a statement is to be run.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// `None`: by the simple protocol.
    pub parameters: Option<Arc<Parameters>>,
    /// As in Bind.
    pub result_formats: Vec<i16>,
    /// The client wants a RowDescription before the rows (simple protocol).
    pub describe: bool,
    /// The text reads temp tables of the statement: keep no prepared statement of it, other tables will bear their names.
    pub one_off: bool,
    /// Rows of several nodes come merged in this order, and have the keys in front.
    pub order: Option<Arc<Order>>,
    /// Values of the rows may name types by ids, which are to be those of the home node.
    pub types: Option<Arc<dyn TypesOfNodes>>,
    /// When the parameters were read, which is `now()` for the whole statement; `None`: that makes no difference.
    pub now: Option<Arc<Moment>>,
}

impl Call {
    /// By the simple protocol, rows as text, with a description.
    pub fn simple() -> Self {
        Self { describe: true, ..Self::default() }
    }

    /// This call with other result formats, without a description.
    pub(crate) fn with_formats(&self, result_formats: Vec<i16>) -> Self {
        Self {
            parameters: Some(self.parameters.clone().unwrap_or_default()),
            result_formats,
            describe: false,
            one_off: self.one_off,
            order: None,
            types: None,
            now: self.now.clone(),
        }
    }

    /// The user's own parameters, `count` of them, with a format each: values of rows may follow.
    pub(crate) fn own_parameters(&self, count: usize) -> Parameters {
        let mut parameters = self.parameters.as_deref().cloned().unwrap_or_default();
        parameters.formats = (0..count).map(|at| self.format_of(at)).collect();
        parameters.values.resize(count, None);
        parameters.types.resize(count, 0);
        parameters
    }

    /// Types to declare in Parse.
    pub(crate) fn declared_types(&self) -> Vec<u32> {
        let types = self.parameters.as_ref().map(|p| p.types.as_slice()).unwrap_or_default();
        types.iter().map(|oid| declared(*oid)).collect()
    }

    /// May the text come again with other parameters?
    pub(crate) fn may_come_again(&self) -> bool {
        self.parameters.is_some() && !self.one_off
    }

    /// Types to declare for a fragment of the statement. Where it does not mention a parameter whose type is left to be inferred, there
    /// is nothing to infer it from: any type will do that takes the value as it was bound.
    pub(crate) fn fragment_types(&self, fragment: &str) -> Vec<u32> {
        const BYTEA: u32 = 17;
        const TEXT: u32 = 25;
        let mut types = self.declared_types();
        for (at, oid) in types.iter_mut().enumerate().filter(|(_, oid)| **oid == 0) {
            if !mentions_parameter(fragment, at + 1) {
                *oid = if self.format_of(at) == 0 { TEXT } else { BYTEA };
            }
        }
        types
    }

    /// Parameters whose texts PostgreSQL may read the clock for (`now`, `today 04:05`), from 0, and the types they are read as. `below`
    /// gives the type that a user's domain is over.
    pub(crate) fn moments(&self, below: impl Fn(Oid) -> Option<Oid>) -> impl Iterator<Item = (usize, Oid)> {
        let texts = self.parameters.iter().flat_map(|parameters| {
            let values = parameters.values.iter().zip(&parameters.types).enumerate();
            values.filter(|(at, _)| parameters.format_of(*at) == 0)
        });
        texts.filter_map(move |(at, (value, oid))| {
            let may_be = is_node_specific(*oid) || TIMES.contains(oid);
            value.as_deref().filter(|text| may_be && reads_clock(text))?;
            let oid = if is_node_specific(*oid) { below(*oid)? } else { *oid };
            TIMES.contains(&oid).then_some((at, oid))
        })
    }

    fn format_of(&self, parameter: usize) -> i16 {
        self.parameters.as_ref().map_or(0, |parameters| parameters.format_of(parameter))
    }
}

/// Types of points in time, each with its array: date, time, timestamp, timestamptz and timetz; their ranges; their multiranges.
pub(crate) const TIMES: [Oid; 22] = [
    1082, 1182, 1083, 1183, 1114, 1115, 1184, 1185, 1266, 1270, 3908, 3909, 3910, 3911, 3912, 3913, 4533, 6152, 4534,
    6153, 4535, 6155,
];

/// The type to declare for one of the home node's: one of the user's own has another id on each node and is left to be inferred.
pub(crate) fn declared(oid: u32) -> u32 {
    if is_node_specific(oid) { 0 } else { oid }
}

/// Does `$number` stand in the text? Also true of a string that contains it: then its type is left to be inferred.
fn mentions_parameter(sql: &str, number: usize) -> bool {
    let name = format!("${number}");
    let ends = |at: usize| !sql.as_bytes().get(at + name.len()).is_some_and(u8::is_ascii_digit);
    sql.match_indices(&name).any(|(at, _)| ends(at))
}

/// In which order rows are wanted, and how many.
#[derive(Clone, Debug)]
pub struct Order {
    pub(crate) keys: Vec<MergeKey>,
    pub(crate) offset: u64,
    pub(crate) limit: u64,
}

impl Order {
    /// `None` if LIMIT or OFFSET is a parameter that is not plainly a number, or one that PostgreSQL refuses.
    pub(crate) fn of(merge: &Merge, call: &Call) -> Option<Self> {
        let count = |count: Option<RowCount>, if_none: u64| match count {
            None => Some(if_none),
            Some(RowCount::Constant(count)) => Some(count),
            Some(RowCount::Parameter(number)) => match bigint(call.parameters.as_deref()?, number - 1)? {
                None => Some(if_none),
                Some(count) => u64::try_from(count).ok(),
            },
        };
        let (offset, limit) = (count(merge.offset, 0)?, count(merge.limit, u64::MAX)?);
        Some(Self { keys: merge.keys.clone(), offset, limit })
    }
}

/// The value of a parameter that is an integer or NULL.
fn bigint(parameters: &Parameters, at: usize) -> Option<Option<i64>> {
    let Some(value) = parameters.values.get(at)? else { return Some(None) };
    let value = match (parameters.format_of(at), value.as_ref()) {
        (0, text) => std::str::from_utf8(text).ok()?.trim().parse().ok()?,
        (_, [a, b, c, d]) => i64::from(i32::from_be_bytes([*a, *b, *c, *d])),
        (_, [a, b, c, d, e, f, g, h]) => i64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]),
        _ => return None,
    };
    Some(Some(value))
}

/// First object id a user can own, for a look at OIDs that differ between nodes.
pub(crate) fn is_node_specific(oid: Oid) -> bool {
    oid >= FIRST_USER_OID
}

/// Do values of the type mean the same on every node in their binary form? Names of objects are numbers there, and some types
/// have no such form.
pub(crate) fn travels_in_binary(oid: Oid) -> bool {
    const ACLITEM: [Oid; 2] = [1033, 1034];
    // regproc, regprocedure to regtype, regconfig, regdictionary, regnamespace, regrole, regcollation, and their arrays.
    const OBJECTS: [Oid; 22] = [
        24, 2202, 2203, 2204, 2205, 2206, 3734, 3769, 4089, 4096, 4191, 1008, 2207, 2208, 2209, 2210, 2211, 3735, 3770,
        4090, 4097, 4192,
    ];
    !(is_node_specific(oid) || ACLITEM.contains(&oid) || OBJECTS.contains(&oid))
}

#[cfg(test)]
mod tests {
    use super::mentions_parameter;

    #[test]
    fn parameters_are_found_by_their_whole_number() {
        assert!(mentions_parameter("SELECT $1", 1) && mentions_parameter("SELECT $10, $1::int", 1));
        assert!(!mentions_parameter("SELECT $10", 1) && !mentions_parameter("SELECT 1", 1));
    }
}
