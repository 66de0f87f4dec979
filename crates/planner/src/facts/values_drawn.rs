//! `currval()` and `lastval()` of values that a backend drew which the session does not have any more.
//!
//! PostgreSQL keeps such values in the backend and takes none from outside. So the calls become calls of functions of our own (see
//! `metadata.sql`), which ask the backend first, as later values are there, and know the remembered ones:
//!
//! ```text
//! SELECT currval('s'), lastval()   →   SELECT loxo.value_drawn('s', '{16400}', '{7}'), loxo.last_value_drawn('{16400}', 7)
//! ```

use std::collections::BTreeMap;

use catalog::{Catalog, Meaning, Oid, meaning};
use pg_query::protobuf::{FuncCall, ResTarget};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use crate::parse::{Statement, StatementKind};
use crate::tree::{self, Walk};

const SCHEMA: &str = "loxo";
const OF_SEQUENCE: &str = "value_drawn";
const LAST: &str = "last_value_drawn";

/// The values that a session has drawn last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValuesDrawn {
    /// By sequence.
    pub values: BTreeMap<Oid, i64>,
    /// The last of all.
    pub last: Option<LastDrawn>,
}

/// What `lastval()` gives.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct LastDrawn {
    pub value: i64,
    /// PostgreSQL does not tell from which of these it was drawn.
    pub sequences: Vec<Oid>,
}

impl ValuesDrawn {
    /// Adds later values.
    pub fn add(&mut self, later: Self) {
        self.values.extend(later.values);
        self.last = later.last.or(self.last.take());
    }

    fn call_of_sequence(&self) -> String {
        let (sequences, values) = (list(self.values.keys()), list(self.values.values()));
        format!("{SCHEMA}.{OF_SEQUENCE}(NULL, '{sequences}'::pg_catalog.oid[], '{values}'::pg_catalog.int8[])")
    }

    fn call_of_last(&self) -> String {
        let sequences = self.last.iter().flat_map(|last| &last.sequences);
        let value = self.last.as_ref().map_or(0, |last| last.value);
        let sequences = list(sequences);
        format!("{SCHEMA}.{LAST}('{sequences}'::pg_catalog.oid[], '{value}'::pg_catalog.int8)")
    }
}

fn list(numbers: impl Iterator<Item = impl ToString>) -> String {
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    format!("{{{}}}", numbers.join(","))
}

/// PostgreSQL's function for which one of ours is called.
pub(crate) fn of_sequence(call: &FuncCall) -> Option<&'static str> {
    match tree::qualified(&call.funcname) {
        (Some(SCHEMA), OF_SEQUENCE | LAST) => Some("currval"),
        (Some(SCHEMA), "next_identity") => Some("nextval"),
        _ => None,
    }
}

/// The statement with such calls; `None` if there is no place for one. Calls in bodies, views and defaults stay as they are.
pub fn with_values_drawn(statement: &Statement, catalog: &Catalog, drawn: &ValuesDrawn) -> Result<Option<Statement>> {
    let is_plain = meaning::names(Meaning::LastValue).all(|name| catalog.functions(name).is_empty());
    // Without PostgreSQL's word for it, it may be a function of the user's.
    if statement.analysis.is_none() && !is_plain {
        return Ok(None);
    }
    match &statement.kind {
        StatementKind::Explain(_) | StatementKind::Copy(_) => {
            statement.with_inner(|inner| with_values_drawn(inner, catalog, drawn))
        }
        kind if kind.row_command().is_some() || *kind == StatementKind::CreateTableAs => replaced(statement, drawn),
        _ => Ok(None),
    }
}

fn replaced(statement: &Statement, drawn: &ValuesDrawn) -> Result<Option<Statement>> {
    let Some(tree) = statement.node() else { return Ok(None) };
    let mut whole = tree::node(tree.clone());
    let mut found = false;
    let mut put_in = |node: &mut Node| {
        match &mut node.node {
            Some(NodeEnum::ResTarget(target)) => keep_name(target),
            Some(NodeEnum::FuncCall(call)) => found |= replace(call, drawn)?,
            _ => {}
        }
        Ok(true)
    };
    match &mut whole.node {
        // What EXECUTE runs is planned by itself.
        Some(NodeEnum::CreateTableAsStmt(create)) => match create.query.as_deref_mut() {
            Some(query) if matches!(query.node, Some(NodeEnum::SelectStmt(_))) => query.rewrite(&mut put_in)?,
            _ => return Ok(None),
        },
        _ => whole.rewrite(&mut put_in)?,
    }
    whole.node.filter(|_| found).map(|tree| statement.with_whole_tree(tree)).transpose()
}

/// The column of `SELECT lastval()` is called `lastval`, whatever stands there in its place.
fn keep_name(target: &mut ResTarget) {
    let is_call = |value: &Node| matches!(&value.node, Some(NodeEnum::FuncCall(call)) if meaning_of(call).is_some());
    if target.name.is_empty() && target.val.as_deref().is_some_and(is_call) {
        target.name = tree::output_name(target);
    }
}

/// What a call means in a tree where a bare name is PostgreSQL's own.
fn meaning_of(call: &FuncCall) -> Option<&str> {
    tree::own_name(&call.funcname).filter(|name| meaning::names(Meaning::LastValue).any(|known| known == *name))
}

fn replace(call: &mut FuncCall, drawn: &ValuesDrawn) -> Result<bool> {
    if meaning_of(call).is_none() {
        return Ok(false);
    }
    // One of them is of a sequence, the other of all.
    let text = if call.args.is_empty() { drawn.call_of_last() } else { drawn.call_of_sequence() };
    let Some(NodeEnum::FuncCall(mut ours)) = tree::parse_expression(&text)?.node else {
        return Err(PgError::internal("a remembered value that is no call"));
    };
    if let Some(sequence) = call.args.pop() {
        ours.args[0] = sequence;
    }
    (call.funcname, call.args) = (ours.funcname, ours.args);
    Ok(true)
}
