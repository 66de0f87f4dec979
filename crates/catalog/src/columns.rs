//! Columns of tables, and those of their unique keys.

use crate::{AttNum, Column, Relation, UniqueKey};

impl Relation {
    /// Column by name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|c| c.name == name)
    }

    /// Column by `attnum`.
    pub fn column_at(&self, number: AttNum) -> Option<&Column> {
        self.columns.iter().find(|c| c.number == number)
    }

    /// The columns of the primary key.
    pub fn primary_key(&self) -> Option<Vec<&Column>> {
        let key = self.unique_keys.iter().find(|key| key.primary)?;
        Some(self.columns_at(&key.columns))
    }

    /// The columns by which every row can be found again: those of a key without NULL, the primary one if there is one.
    pub fn row_key(&self) -> Option<Vec<&Column>> {
        let is_known = |number: &AttNum| self.column_at(*number).is_some_and(|column| column.not_null);
        let is_whole = |key: &&UniqueKey| key.columns.iter().all(is_known);
        let keys = || self.unique_keys.iter().filter(is_whole);
        let key = keys().find(|key| key.primary).or_else(|| keys().next())?;
        Some(self.columns_at(&key.columns))
    }

    /// Columns by their numbers.
    pub fn columns_at(&self, numbers: &[AttNum]) -> Vec<&Column> {
        numbers.iter().filter_map(|number| self.column_at(*number)).collect()
    }
}

impl Column {
    /// Their names.
    pub fn names(columns: Vec<&Column>) -> Vec<String> {
        columns.into_iter().map(|column| column.name.clone()).collect()
    }
}
