//! Parameters of statements that are made of a user's.

use bytes::Bytes;
use executor::{Call, Parameters};
use routine::{Ended, array_text};

/// The call's parameters, `count` of them, each with a type and a format.
pub(super) fn own_parameters(call: &Call, count: usize) -> Parameters {
    let mut parameters = call.parameters.as_deref().cloned().unwrap_or_default();
    let all = match parameters.formats.as_slice() {
        [all] => *all,
        _ => 0,
    };
    if parameters.formats.len() < 2 {
        parameters.formats = vec![all; count];
    }
    parameters.formats.resize(count, 0);
    parameters.types.resize(count, 0);
    parameters.values.resize(count, None);
    parameters
}

/// The statement's parameters and those that a call adds.
pub(super) fn with_values(call: &Call, wanted: planner::Wanted, ended: Ended) -> Parameters {
    let mut parameters = call.parameters.as_deref().cloned().unwrap_or_default();
    let values: Vec<Option<Bytes>> = match wanted {
        planner::Wanted::Nothing => Vec::new(),
        planner::Wanted::Values(columns) => ended.rows.into_iter().next().unwrap_or_else(|| vec![None; columns]),
        planner::Wanted::Arrays(columns) => (0..columns)
            .map(|at| Some(array_text(ended.rows.iter().map(|row| row.get(at).and_then(Option::as_deref)))))
            .collect(),
    };
    parameters.types.extend(values.iter().map(|_| 0));
    parameters.formats.extend(values.iter().map(|_| 0));
    parameters.values.extend(values);
    parameters
}
