//! INSERTs of many rows of constants: planned as if they had the first row only, then placed row by row.
//!
//! ```text
//!  INSERT INTO t (a, b) VALUES (1, 'x'), (2, NULL), (3, 'z') ON CONFLICT DO NOTHING
//!  └───────── head ──────────┘ └─ row ─┘  └─ row ──┘ └─ row ─┘ └────── tail ──────┘
//! ```
//!
//! Head, first row and tail are a statement that has a [`Shape`] and perhaps a [`Template`]. PostgreSQL coerces each row of an
//! INSERT to the columns by itself (`transformInsertStmt`), so what is true of one row of constants is true of all, but
//! for the node. Rows whose values are anything but numbers, plain strings, parameters, NULL, TRUE and FALSE take the long way.

use std::collections::BTreeMap;
use std::ops::Range;

use catalog::NodeId;

use super::shape::{Literal, LiteralKind, Shape, number, parameter_end, quoted_name_end, string, word_end};
use super::{KeySource, Place, Template, literal};
use crate::facts::constant::Constant;
use crate::plan::{Forward, InsertSplit, Plan};
use crate::session::Parameter;

/// The parts of an INSERT of two and more rows. See the module's page.
#[derive(Debug, Default)]
pub struct ManyRows {
    /// Head, first row and tail.
    one: String,
    rows: Vec<Range<usize>>,
    /// Of all rows, one after the other.
    values: Vec<Value>,
    tail: usize,
}

#[derive(Clone, Debug)]
struct Value {
    range: Range<usize>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Literal(LiteralKind),
    /// From 0.
    Parameter(usize),
    /// NULL, a truth value, a number with a sign.
    Word,
}

impl ManyRows {
    /// Takes one statement (no semicolon, no blanks around it) apart. False if it is no INSERT of several plain rows; what is
    /// in `self` is then meaningless.
    pub fn scan(&mut self, sql: &str) -> bool {
        self.rows.clear();
        self.values.clear();
        self.scan_all(sql).is_some()
    }

    /// The statement with its first row alone.
    pub fn one(&self) -> &str {
        &self.one
    }

    fn scan_all(&mut self, sql: &str) -> Option<()> {
        let bytes = sql.as_bytes();
        let mut at = blanks_end(bytes, head_end(bytes)?);
        loop {
            let start = at;
            at = self.row(sql, at)?;
            self.rows.push(start..at);
            let next = blanks_end(bytes, at);
            if bytes.get(next) != Some(&b',') {
                break;
            }
            at = blanks_end(bytes, next + 1);
        }
        self.tail = at;
        let first = self.rows.first().filter(|_| self.rows.len() > 1)?;
        self.one.clear();
        self.one.push_str(&sql[..first.end]);
        self.one.push_str(&sql[self.tail..]);
        self.values.len().is_multiple_of(self.rows.len()).then_some(())
    }

    /// `(value, …)`; all rows have as many values as the first.
    fn row(&mut self, sql: &str, start: usize) -> Option<usize> {
        let bytes = sql.as_bytes();
        let before = self.values.len();
        let mut at = start;
        if bytes.get(at) != Some(&b'(') {
            return None;
        }
        loop {
            at = blanks_end(bytes, at + 1);
            let value = value(sql, at)?;
            at = blanks_end(bytes, value.range.end);
            self.values.push(value);
            match bytes.get(at)? {
                b',' => {}
                b')' => break,
                _ => return None,
            }
        }
        let width = self.values.len() - before;
        (self.rows.is_empty() || width == self.width_of_first(before)).then_some(at + 1)
    }

    fn width_of_first(&self, values: usize) -> usize {
        values / self.rows.len().max(1)
    }

    /// Which value of a row is each part of the key.
    fn key_positions(&self, template: &Template, shape: &Shape) -> Option<Vec<usize>> {
        let first = self.values.get(..self.values.len() / self.rows.len())?;
        let position = |source: &KeySource| {
            let is_it = |value: &Value| match source {
                KeySource::Literal(index) => {
                    shape.literals().get(*index).is_some_and(|literal| literal.range.start == value.range.start)
                }
                KeySource::Parameter(number) => value.kind == Kind::Parameter(*number),
            };
            let mut found = first.iter().enumerate().filter(|(_, value)| is_it(value)).map(|(position, _)| position);
            // Of a parameter that stands twice in the first row it is not known which of the two is the key.
            found.next().filter(|_| found.next().is_none())
        };
        let Place::Key(key) = &template.place else { return None };
        key.iter().map(position).collect()
    }
}

impl Template {
    /// The plan of an INSERT of many rows whose first row alone has the shape this template was learned from. `None`: plan it
    /// afresh.
    pub fn plan_rows(&self, sql: &str, rows: &ManyRows, shape: &Shape, parameters: &[Parameter<'_>]) -> Option<Plan> {
        let positions = rows.key_positions(self, shape)?;
        let width = rows.values.len() / rows.rows.len();
        let mut by_node: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
        let mut key: Vec<Constant> = Vec::with_capacity(positions.len());
        for (row, values) in rows.values.chunks_exact(width).enumerate() {
            key.clear();
            for position in &positions {
                key.push(values[*position].constant(sql, parameters)?);
            }
            let key: Vec<&Constant> = key.iter().collect();
            by_node.entry(self.node(&key)?).or_default().push(row);
        }
        if by_node.len() == 1 {
            let nodes = by_node.into_keys().collect();
            let (writes, is_snapshot_independent) = (self.writes, self.is_snapshot_independent);
            return Some(Plan::Forward(Forward { nodes, sql: sql.to_owned(), writes, is_snapshot_independent }));
        }
        // Each node has its own time.
        let clauses = self.insert.filter(|_| !self.reads_clock)?;
        let head = &sql[..rows.rows.first()?.start];
        let tail = &sql[rows.tail..];
        let part = |(node, own): (&NodeId, &Vec<usize>)| {
            let own = own.iter().map(|row| rows.rows[*row].clone());
            let bytes: usize = own.clone().map(|row| row.len() + 1).sum();
            let mut text = String::with_capacity(head.len() + bytes + tail.len());
            text.push_str(head);
            for (index, row) in own.enumerate() {
                if index > 0 {
                    text.push(',');
                }
                text.push_str(&sql[row]);
            }
            text.push_str(tail);
            (*node, text)
        };
        let parts = by_node.iter().map(part).collect();
        let places = by_node.values().map(|own| own.iter().map(|row| *row as u64).collect()).collect();
        Some(Plan::InsertSplit(InsertSplit {
            parts,
            places,
            clauses,
            is_snapshot_independent: self.is_snapshot_independent,
        }))
    }
}

impl Value {
    /// As [`Constant::of`] would read it off the tree.
    fn constant(&self, sql: &str, parameters: &[Parameter<'_>]) -> Option<Constant> {
        match self.kind {
            Kind::Literal(kind) => literal(sql, &Literal { range: self.range.clone(), kind }),
            Kind::Parameter(number) => Constant::of_parameter(parameters.get(number)?),
            Kind::Word => None,
        }
    }
}

/// The place behind VALUES in `INSERT INTO names … VALUES`.
fn head_end(bytes: &[u8]) -> Option<usize> {
    const INSERT: &[u8] = b"insert";
    if !bytes.get(..INSERT.len())?.eq_ignore_ascii_case(INSERT) {
        return None;
    }
    let (mut at, mut depth) = (0, 0_usize);
    loop {
        at = match *bytes.get(at)? {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                let end = word_end(bytes, at);
                if depth == 0 && bytes[at..end].eq_ignore_ascii_case(b"values") {
                    return Some(end);
                }
                end
            }
            b'"' => quoted_name_end(bytes, at)?,
            b'(' => {
                depth += 1;
                at + 1
            }
            b')' => {
                depth = depth.checked_sub(1)?;
                at + 1
            }
            b' ' | b'\t' | b'\n' | b'\r' | b',' | b'.' => at + 1,
            _ => return None,
        };
    }
}

fn blanks_end(bytes: &[u8], start: usize) -> usize {
    start + bytes[start..].iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count()
}

fn value(sql: &str, start: usize) -> Option<Value> {
    let bytes = sql.as_bytes();
    let plain = |literal: Literal| Value { range: literal.range, kind: Kind::Literal(literal.kind) };
    match *bytes.get(start)? {
        b'\'' => string(sql, start).map(plain),
        b'0'..=b'9' => number(bytes, start).map(plain),
        // `--` begins a comment.
        b'-' | b'+' if bytes.get(start + 1)?.is_ascii_digit() => {
            Some(Value { range: start..number(bytes, start + 1)?.range.end, kind: Kind::Word })
        }
        b'$' => {
            let end = parameter_end(bytes, start)?;
            let number: usize = sql[start + 1..end].parse().ok()?;
            Some(Value { range: start..end, kind: Kind::Parameter(number.checked_sub(1)?) })
        }
        byte if byte.is_ascii_alphabetic() => {
            let end = word_end(bytes, start);
            let is_known = ["null", "true", "false"].iter().any(|word| sql[start..end].eq_ignore_ascii_case(word));
            is_known.then_some(Value { range: start..end, kind: Kind::Word })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanned(sql: &str) -> Option<(String, Vec<&str>)> {
        let mut rows = ManyRows::default();
        rows.scan(sql).then(|| (rows.one.clone(), rows.rows.iter().map(|row| &sql[row.clone()]).collect()))
    }

    #[test]
    fn rows_are_cut_out() {
        let sql = "Insert into \"A b\".t (x, values) VALUES (1, 'it''s'),\n ( -2.5 , NULL),($1,true)  RETURNING x";
        let (one, rows) = scanned(sql).unwrap();
        assert_eq!(one, "Insert into \"A b\".t (x, values) VALUES (1, 'it''s')  RETURNING x");
        assert_eq!(rows, ["(1, 'it''s')", "( -2.5 , NULL)", "($1,true)"]);
    }

    #[test]
    fn whatever_is_not_plain_takes_the_long_way() {
        for sql in [
            "INSERT INTO t VALUES (1)",
            "INSERT INTO t VALUES (1), (2, 3)",
            "INSERT INTO t VALUES (1, 2), (3)",
            "INSERT INTO t VALUES (1), (DEFAULT)",
            "INSERT INTO t VALUES (1), (now())",
            "INSERT INTO t VALUES (1), ('now')",
            "INSERT INTO t VALUES (1), (E'a')",
            "INSERT INTO t VALUES (1), (date '2020-01-01')",
            "INSERT INTO t VALUES (1), (1 + 1)",
            "INSERT INTO t VALUES (1), (--2)",
            "INSERT INTO t VALUES (1), (1::int)",
            "INSERT INTO t VALUES (1), ()",
            "INSERT INTO t VALUES (1), (2",
            "INSERT INTO t SELECT 1",
            "INSERT INTO t VALUES (1), ('a' 'b')",
            "WITH x AS (SELECT 1) INSERT INTO t VALUES (1), (2)",
            "INSERT INTO t /* x */ VALUES (1), (2)",
        ] {
            assert_eq!(scanned(sql), None, "{sql}");
        }
    }
}
