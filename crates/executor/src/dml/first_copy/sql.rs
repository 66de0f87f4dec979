//! The texts by which a copy gets rows.
//!
//! Rows are found by the primary key, or another key without NULL; without one by their text and, among equal ones, by a
//! number: they are as good as one another.

use std::fmt::Write;

use bytes::Bytes;
use catalog::{FIRST_USER_OID, Oid, Relation, quote_identifier};

use super::net::{Changed, RowChange, Values};

/// What the texts call the table.
const ALIAS: &str = "loxo_t";

/// Where a row lies, in a view of `loxo.lend_change()`.
const PLACE: &str = "\"loxo:place\"";

/// The texts for one table.
pub(super) struct Texts<'a> {
    table: &'a Relation,
    /// The table's name in SQL, or that of the view that is lent for it.
    target: String,
    place: &'static str,
    /// The columns (0-based) that rows are known by; none if it takes all of them.
    key: Option<Vec<usize>>,
    /// Rows have their new keys already.
    by_new_key: bool,
}

impl<'a> Texts<'a> {
    /// The texts for a changed table. They name the view lent to the user, if there is one, instead of the table.
    pub(super) fn of(changed: &'a Changed) -> Self {
        let table = &*changed.table;
        let places = |numbers: &[i16]| -> Option<Vec<usize>> {
            numbers.iter().map(|number| table.columns.iter().position(|column| column.number == *number)).collect()
        };
        let is_total = |columns: &Vec<usize>| columns.iter().all(|at| table.columns[*at].not_null);
        let mut keys: Vec<_> = table.unique_keys.iter().collect();
        keys.sort_by_key(|key| !key.primary);
        let key = keys.into_iter().filter_map(|key| places(&key.columns)).find(is_total);
        let (target, place) = match &changed.view {
            Some(view) => (format!("loxo.{view}"), PLACE),
            None => (table.qualified_name(), "ctid"),
        };
        Self { table, target, place, key, by_new_key: false }
    }

    pub(super) fn with_new_key(self) -> Self {
        Self { by_new_key: true, ..self }
    }

    /// How many values a row of this kind takes.
    pub(super) fn values_of(&self, row: &RowChange) -> usize {
        let identity = if row.is_new() { 0 } else { self.identity().len() };
        identity + row.columns.len()
    }

    /// The types of these values.
    pub(super) fn types_of(&self, row: &RowChange) -> impl Iterator<Item = Oid> {
        let identity = if row.is_new() { Vec::new() } else { self.identity() };
        identity.into_iter().chain(row.columns.iter().copied()).map(|at| self.table.columns[at].type_oid)
    }

    /// The columns that say which row is meant.
    fn identity(&self) -> Vec<usize> {
        self.key.clone().unwrap_or_else(|| (0..self.table.columns.len()).collect())
    }

    /// The statement for rows of which the same is to be done, and its parameters.
    pub(super) fn statement(&self, rows: &[&RowChange]) -> (String, Vec<Option<Bytes>>) {
        let is_new = rows.iter().all(|row| row.is_new());
        let identity = if is_new { Vec::new() } else { self.identity() };
        let set: Vec<usize> = rows.first().map(|row| row.columns.clone()).unwrap_or_default();
        let mut values = Vec::with_capacity(rows.len() * (identity.len() + set.len()));
        for row in rows {
            let known = if self.by_new_key { row.new.as_ref() } else { row.old.as_ref() };
            values.extend(identity.iter().map(|at| value(known, *at)));
            values.extend(set.iter().map(|at| value(row.new.as_ref(), *at)));
        }
        let columns: Vec<usize> = identity.iter().chain(&set).copied().collect();
        let list = self.values_list(&columns, rows.len());
        let target = &self.target;
        if is_new {
            let names = listed(&set.iter().map(|at| self.name(*at)).collect::<Vec<_>>());
            return (format!("INSERT INTO {target}{names} OVERRIDING SYSTEM VALUE {list}"), values);
        }
        let (source, found) = self.found(&identity, &set, &list);
        let sql = match set.is_empty() {
            true => format!("DELETE FROM ONLY {target} AS {ALIAS} USING {source} WHERE {found}"),
            false => {
                let set = set.iter().enumerate().map(|(i, at)| format!("{} = v.n{i}", self.name(*at)));
                let set: Vec<String> = set.collect();
                format!("UPDATE ONLY {target} AS {ALIAS} SET {} FROM {source} WHERE {found}", set.join(", "))
            }
        };
        (sql, values)
    }

    /// The rows' values `v (k0, …, n0, …)`, and how they name rows of the table.
    fn found(&self, identity: &[usize], set: &[usize], list: &str) -> (String, String) {
        let names = |letter: &str, count: usize| (0..count).map(|i| format!("{letter}{i}")).collect::<Vec<_>>();
        let (keys, news) = (names("k", identity.len()), names("n", set.len()));
        let all: Vec<String> = keys.iter().chain(&news).cloned().collect();
        let source = format!("({list}) AS v{}", listed(&all));
        if self.key.is_some() {
            return (source, self.same_key(identity));
        }
        let news: String = news.iter().map(|name| format!(", {name}")).collect();
        let numbered = "pg_catalog.row_number() OVER (PARTITION BY was";
        let source = format!(
            "(SELECT c.place, w.* FROM (SELECT place, was, {numbered} ORDER BY place) AS nth \
               FROM (SELECT {place}, {row} AS was FROM ONLY {target} AS {ALIAS}) AS c (place, was)) AS c \
             JOIN (SELECT *, {numbered}) AS nth \
               FROM (SELECT ROW({keys})::pg_catalog.text AS was{news} FROM {source}) AS w) AS w \
             ON c.was OPERATOR(pg_catalog.=) w.was AND c.nth OPERATOR(pg_catalog.=) w.nth) AS v",
            place = self.place,
            row = self.row_text(),
            target = self.target,
            keys = keys.join(", "),
        );
        (source, format!("{ALIAS}.{} OPERATOR(pg_catalog.=) v.place", self.place))
    }

    /// All columns of a row of the table as one text.
    fn row_text(&self) -> String {
        let columns = (0..self.table.columns.len()).map(|at| format!("{ALIAS}.{}", self.name(at)));
        format!("ROW({})::pg_catalog.text", columns.collect::<Vec<_>>().join(", "))
    }

    fn same_key(&self, identity: &[usize]) -> String {
        let same = identity.iter().enumerate().map(|(i, at)| self.same(*at, i));
        same.collect::<Vec<_>>().join(" AND ")
    }

    /// A column compared with a value of its own. The operator of PostgreSQL's types is not looked up: another role may have made one
    /// of that name where this session looks for operators.
    fn same(&self, at: usize, value: usize) -> String {
        let is_builtin = self.table.columns[at].type_oid < FIRST_USER_OID;
        if !is_builtin && self.place == PLACE {
            // No code of the user's may run while the view is lent. Copies have the same texts.
            let row = format!("ROW({ALIAS}.{})::pg_catalog.text", self.name(at));
            return format!("{row} OPERATOR(pg_catalog.=) ROW(v.k{value})::pg_catalog.text");
        }
        let equals = if is_builtin { "OPERATOR(pg_catalog.=)" } else { "=" };
        format!("{ALIAS}.{} {equals} v.k{value}", self.name(at))
    }

    /// A query for those of the rows that the copy has not.
    pub(super) fn missing(&self, rows: &[&RowChange]) -> (String, Vec<Option<Bytes>>) {
        let all: Vec<usize> = (0..self.table.columns.len()).collect();
        let values = rows.iter().flat_map(|row| all.iter().map(|at| value(row.new.as_ref(), *at))).collect();
        let names: Vec<String> = all.iter().map(|i| format!("k{i}")).collect();
        let is_same = format!("{} OPERATOR(pg_catalog.=) ROW({})::pg_catalog.text", self.row_text(), names.join(", "));
        let mut found = vec![is_same];
        let key = self.key.iter().flatten();
        found.extend(key.map(|at| self.same(*at, *at)));
        let sql = format!(
            "SELECT FROM ({}) AS v{} WHERE NOT EXISTS (SELECT FROM ONLY {} AS {ALIAS} WHERE {})",
            self.values_list(&all, rows.len()),
            listed(&names),
            self.target,
            found.join(" AND ")
        );
        (sql, values)
    }

    fn name(&self, at: usize) -> String {
        quote_identifier(&self.table.columns[at].name)
    }

    /// `VALUES ($1::int4, …), …`.
    fn values_list(&self, columns: &[usize], rows: usize) -> String {
        if columns.is_empty() {
            return format!("SELECT FROM pg_catalog.generate_series(1, {rows})");
        }
        let mut text = String::from("VALUES ");
        let mut number = 0;
        for row in 0..rows {
            text.push_str(if row == 0 { "(" } else { ", (" });
            for (i, at) in columns.iter().enumerate() {
                number += 1;
                let comma = if i == 0 { "" } else { ", " };
                let written = write!(text, "{comma}${number}::{}", self.table.columns[*at].type_name);
                debug_assert!(written.is_ok(), "a String takes any text");
            }
            text.push(')');
        }
        text
    }
}

/// ` (a, b)`; nothing if there are none, which no list in SQL says.
fn listed(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) }
}

fn value(row: Option<&Values>, at: usize) -> Option<Bytes> {
    row.and_then(|row| row.get(at).cloned().flatten())
}
