//! Unique keys of tables.

use catalog::{AttNum, Column, Relation, UniqueKey};

/// The columns of the primary key.
pub(crate) fn primary(relation: &Relation) -> Option<Vec<&Column>> {
    let key = relation.unique_keys.iter().find(|key| key.primary)?;
    Some(columns(relation, &key.columns))
}

/// The columns by which every row can be found again: those of a key without NULL, the primary one if there is one.
pub(crate) fn of_rows(relation: &Relation) -> Option<Vec<&Column>> {
    let is_known = |number: &AttNum| relation.column_at(*number).is_some_and(|column| column.not_null);
    let is_whole = |key: &&UniqueKey| key.columns.iter().all(is_known);
    let keys = || relation.unique_keys.iter().filter(is_whole);
    let key = keys().find(|key| key.primary).or_else(|| keys().next())?;
    Some(columns(relation, &key.columns))
}

/// Columns by their numbers.
pub(crate) fn columns<'r>(relation: &'r Relation, numbers: &[AttNum]) -> Vec<&'r Column> {
    numbers.iter().filter_map(|number| relation.column_at(*number)).collect()
}

/// Their names.
pub(crate) fn names(columns: Vec<&Column>) -> Vec<String> {
    columns.into_iter().map(|column| column.name.clone()).collect()
}
