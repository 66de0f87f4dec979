//! INSERTs of many rows: planned as if they had one row only, once for each kind of row there is, then placed row by row.
//!
//! ```text
//!  INSERT INTO t (a, b) VALUES (1, 'x'), (2, upper('y')), (3, NULL), (4, upper('z')) ON CONFLICT DO NOTHING
//!  └───────── head ──────────┘ └─ 0 ──┘  └────── 1 ─────┘  └── 0 ──┘  └───── 1 ────┘ └────── tail ────────┘
//! ```
//!
//! Rows are of one kind if they differ in their constants only, as statements of one [`Shape`] do; a value that is nothing but
//! a constant may be any other one, NULL or a parameter. Head, one row and tail are a statement that has a shape and perhaps a
//! [`Template`]. PostgreSQL coerces each row of an INSERT to the columns by itself (`transformInsertStmt`), so what is true of one
//! row is true of all of its kind, but for the node. It refuses in many rows what it allows in one (functions that return
//! sets), so the template is learned from the row [written twice](ManyRows::twice). What has no shape takes the long way.

use std::collections::BTreeMap;
use std::ops::Range;

use catalog::NodeId;

use super::{KeySource, Place, Template, literal};
use crate::facts::constant::Constant;
use crate::parse::shape::{
    Literal, LiteralKind, PLAIN_MARK, Shape, number, parameter_end, quoted_name_end, string, word_end,
};
use crate::plan::{Forward, InsertSplit, Plan};
use crate::session::Parameter;

/// Kinds of rows in one statement. Each has to be learned.
const KINDS_MAX: usize = 64;

/// The parts of an INSERT of two and more rows. See the module's page.
#[derive(Debug, Default)]
pub struct ManyRows {
    rows: Vec<Row>,
    kinds: Vec<Kind>,
    /// Behind the last row.
    tail: usize,
    /// Shape of the row that is being read.
    pattern: Shape,
}

/// Byte offsets of a statement, which is shorter than 4 GB: there are many.
#[derive(Clone, Copy, Debug)]
struct Row {
    start: u32,
    end: u32,
    kind: u32,
}

impl Row {
    fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

#[derive(Debug)]
struct Kind {
    /// The row with marks in place of the constants, and without blanks that say nothing.
    pattern: Vec<u8>,
    first: usize,
    width: usize,
}

/// A kind's template, and the shape of [the statement with one row of it](ManyRows::one).
pub type Learned<'t> = (&'t Template, &'t Shape);

#[derive(Clone, Debug)]
struct Value {
    range: Range<usize>,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Literal(LiteralKind),
    /// From 0.
    Parameter(usize),
    /// NULL, a truth value, a number with a sign.
    Word,
    Expression,
}

impl ManyRows {
    /// Takes one statement (no semicolon, no blanks around it) apart. False if it is no INSERT of several rows that have shapes;
    /// what is in `self` is then meaningless.
    pub fn scan(&mut self, sql: &str) -> bool {
        self.rows.clear();
        self.kinds.clear();
        self.scan_all(sql).is_some()
    }

    /// How many kinds of rows there are.
    pub fn kinds(&self) -> usize {
        self.kinds.len()
    }

    /// The statement with one row alone, the first of this kind.
    pub fn one(&self, sql: &str, kind: usize) -> String {
        let row = &sql[self.rows[self.kinds[kind].first].range()];
        [self.head(sql), row, &sql[self.tail..]].concat()
    }

    /// The statement with that row twice.
    pub fn twice(&self, sql: &str, kind: usize) -> String {
        let row = &sql[self.rows[self.kinds[kind].first].range()];
        [self.head(sql), row, ", ", row, &sql[self.tail..]].concat()
    }

    pub(super) fn row_count(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn kind_of(&self, row: usize) -> usize {
        self.rows[row].kind as usize
    }

    pub(super) fn range_of(&self, row: usize) -> Range<usize> {
        self.rows[row].range()
    }

    pub(super) fn first_of(&self, kind: usize) -> usize {
        self.kinds[kind].first
    }

    pub(super) fn ranges_of_values(&self, sql: &str, row: usize) -> Option<Vec<Range<usize>>> {
        let (mut values, mut pattern) = (Values::of_row(sql, row)?, Shape::default());
        std::iter::from_fn(|| values.next(&mut pattern)).map(|value| value.map(|value| value.range)).collect()
    }

    pub(super) fn tail<'s>(&self, sql: &'s str) -> &'s str {
        &sql[self.tail..]
    }

    pub(super) fn head<'s>(&self, sql: &'s str) -> &'s str {
        &sql[..self.rows.first().map_or(0, |row| row.range().start)]
    }

    fn scan_all(&mut self, sql: &str) -> Option<()> {
        let bytes = sql.as_bytes();
        let mut at = blanks_end(bytes, head_end(bytes)?);
        loop {
            at = self.row(sql, at)?;
            let next = blanks_end(bytes, at);
            if bytes.get(next) != Some(&b',') {
                break;
            }
            at = blanks_end(bytes, next + 1);
        }
        self.tail = at;
        let width = self.kinds.first()?.width;
        let is_even = self.kinds.iter().all(|kind| kind.width == width);
        (is_even && self.rows.len() > 1).then_some(())
    }

    /// Adds `(value, …)`; gives the place behind it.
    fn row(&mut self, sql: &str, start: usize) -> Option<usize> {
        self.pattern.clear();
        let mut width = 0;
        let mut values = Values::of_row(sql, start)?;
        while let Some(value) = values.next(&mut self.pattern) {
            value?;
            width += 1;
        }
        let (row, end) = (self.rows.len(), values.at);
        let pattern = self.pattern.text();
        let is_it = |kind: &Kind| kind.pattern == pattern;
        // Mostly that of the row before.
        let last = self.rows.last().map(|row| row.kind as usize).filter(|kind| is_it(&self.kinds[*kind]));
        let kind = match last.or_else(|| self.kinds.iter().position(is_it)) {
            Some(kind) => kind,
            None => {
                self.kinds.push(Kind { pattern: pattern.to_vec(), first: row, width });
                self.kinds.len() - 1
            }
        };
        let offset = |at: usize| u32::try_from(at).ok();
        self.rows.push(Row { start: offset(start)?, end: offset(end)?, kind: offset(kind)? });
        (self.kinds.len() <= KINDS_MAX).then_some(end)
    }

    /// The plan, if every kind of row has a template: those are given in the order of the kinds. `None`: plan it afresh.
    pub fn plan(&self, sql: &str, learned: &[Learned<'_>], parameters: &[Parameter<'_>]) -> Option<Plan> {
        let positions: Vec<Vec<usize>> = self
            .kinds
            .iter()
            .zip(learned)
            .map(|(kind, learned)| self.key_positions(sql, kind, *learned))
            .collect::<Option<_>>()?;
        let reads_clock = learned.iter().any(|(template, _)| template.reads_clock);
        let mut by_node: BTreeMap<NodeId, Vec<u32>> = BTreeMap::new();
        let mut pattern = Shape::default();
        for (number, row) in (0..).zip(&self.rows) {
            let (template, _) = learned.get(row.kind as usize)?;
            pattern.clear();
            let key = key_of(sql, row.range().start, &positions[row.kind as usize], parameters, &mut pattern)?;
            let key: Vec<&Constant> = key.iter().collect();
            by_node.entry(template.node(&key)?).or_default().push(number);
            // Each node has its own time.
            if reads_clock && by_node.len() > 1 {
                return None;
            }
        }
        let is_snapshot_independent = learned.iter().all(|(template, _)| template.is_snapshot_independent);
        let (any, _) = learned.first()?;
        if by_node.len() == 1 {
            let nodes = by_node.into_keys().collect();
            return Some(Plan::Forward(Forward {
                nodes,
                sql: sql.to_owned(),
                writes: any.writes,
                is_snapshot_independent,
            }));
        }
        let clauses = any.insert?;
        let parts = by_node.iter().map(|(node, own)| (*node, self.part(sql, own))).collect();
        let places = by_node.values().map(|own| own.iter().map(|row| u64::from(*row)).collect()).collect();
        Some(Plan::InsertSplit(InsertSplit { parts, places, clauses, is_snapshot_independent }))
    }

    /// The statement with these rows only.
    fn part(&self, sql: &str, own: &[u32]) -> String {
        let rows = own.iter().flat_map(|row| [",", &sql[self.rows[*row as usize].range()]]).skip(1);
        let parts: Vec<&str> = std::iter::once(self.head(sql)).chain(rows).chain([self.tail(sql)]).collect();
        parts.concat()
    }

    /// Which value of a row of this kind is each part of the key.
    fn key_positions(&self, sql: &str, kind: &Kind, (template, shape): Learned<'_>) -> Option<Vec<usize>> {
        let Place::Key(key) = &template.place else { return None };
        // In the statement with this row alone it stands behind the head.
        let start = self.rows[kind.first].range().start;
        let moved = start - self.head(sql).len();
        let mut pattern = Shape::default();
        let mut values = Values::of_row(sql, start)?;
        let values: Vec<Value> = std::iter::from_fn(|| values.next(&mut pattern)).collect::<Option<_>>()?;
        let position = |source: &KeySource| {
            let is_it = |value: &Value| match source {
                KeySource::Literal(index) => {
                    let literal = shape.literals().get(*index);
                    literal.is_some_and(|literal| literal.range.start + moved == value.range.start)
                }
                KeySource::Parameter(number) => value.what == What::Parameter(*number),
            };
            let mut found = values.iter().enumerate().filter(|(_, value)| is_it(value)).map(|(position, _)| position);
            // If a parameter stands twice in the row, it is not known which of the two is the key.
            found.next().filter(|_| found.next().is_none())
        };
        key.iter().map(position).collect()
    }
}

/// The values of a row that stand at these positions.
fn key_of(
    sql: &str,
    row: usize,
    positions: &[usize],
    parameters: &[Parameter<'_>],
    pattern: &mut Shape,
) -> Option<Vec<Constant>> {
    let mut key = vec![None; positions.len()];
    let mut values = Values::of_row(sql, row)?;
    for at in 0..=*positions.iter().max()? {
        let value = values.next(pattern)??;
        for (_, place) in positions.iter().zip(&mut key).filter(|(position, _)| **position == at) {
            *place = Some(value.constant(sql, parameters)?);
        }
    }
    key.into_iter().collect()
}

/// Reads the values of a row.
struct Values<'s> {
    sql: &'s str,
    /// Before the comma or parenthesis that leads to the next value; in the end behind the row.
    at: usize,
    is_end: bool,
}

impl<'s> Values<'s> {
    /// The reader of a row that begins here.
    fn of_row(sql: &'s str, start: usize) -> Option<Self> {
        (sql.as_bytes().get(start) == Some(&b'(')).then_some(Self { sql, at: start, is_end: false })
    }

    /// The next value, which is added to the pattern. `None` behind the last; `Some(None)` if it cannot be read.
    #[allow(clippy::option_option)]
    fn next(&mut self, pattern: &mut Shape) -> Option<Option<Value>> {
        (!self.is_end).then(|| self.read(pattern))
    }

    fn read(&mut self, pattern: &mut Shape) -> Option<Value> {
        let bytes = self.sql.as_bytes();
        let start = blanks_end(bytes, self.at + 1);
        let is_border = |at: usize| matches!(bytes.get(at), Some(b',' | b')'));
        let plain = plain(self.sql, start).filter(|value| is_border(blanks_end(bytes, value.range.end)));
        let value = match plain {
            Some(value) => {
                pattern.mark(PLAIN_MARK);
                value
            }
            None => expression(self.sql, start, pattern)?,
        };
        pattern.mark(b',');
        self.at = blanks_end(bytes, value.range.end);
        if bytes.get(self.at)? == &b')' {
            (self.at, self.is_end) = (self.at + 1, true);
        }
        Some(value)
    }
}

impl Value {
    /// As [`Constant::of`] would read it off the tree.
    fn constant(&self, sql: &str, parameters: &[Parameter<'_>]) -> Option<Constant> {
        match self.what {
            What::Literal(kind) => literal(sql, &Literal { range: self.range.clone(), kind }),
            What::Parameter(number) => Constant::of_parameter(parameters.get(number)?),
            What::Word | What::Expression => None,
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
    start + bytes[start..].iter().take_while(|byte| is_blank(**byte)).count()
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// What goes on to a comma or parenthesis that does not belong to it.
fn expression(sql: &str, start: usize, pattern: &mut Shape) -> Option<Value> {
    let bytes = sql.as_bytes();
    let (mut at, mut end, mut depth) = (start, start, 0_usize);
    loop {
        match *bytes.get(at)? {
            b',' | b')' if depth == 0 => break,
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.checked_sub(1)?,
            byte if is_blank(byte) => {
                at = blanks_end(bytes, at);
                if depth > 0 || !matches!(bytes.get(at), Some(b',' | b')')) {
                    pattern.mark(b' ');
                }
                continue;
            }
            _ => {}
        }
        at = pattern.token(sql, at)?;
        end = at;
    }
    (end > start).then_some(Value { range: start..end, what: What::Expression })
}

fn plain(sql: &str, start: usize) -> Option<Value> {
    let bytes = sql.as_bytes();
    let literal = |literal: Literal| Value { range: literal.range, what: What::Literal(literal.kind) };
    match *bytes.get(start)? {
        b'\'' => string(sql, start).map(literal),
        b'0'..=b'9' => number(bytes, start).map(literal),
        // `--` begins a comment.
        b'-' | b'+' if bytes.get(start + 1)?.is_ascii_digit() => {
            Some(Value { range: start..number(bytes, start + 1)?.range.end, what: What::Word })
        }
        b'$' => {
            let end = parameter_end(bytes, start)?;
            let number: usize = sql[start + 1..end].parse().ok()?;
            Some(Value { range: start..end, what: What::Parameter(number.checked_sub(1)?) })
        }
        byte if byte.is_ascii_alphabetic() => {
            let end = word_end(bytes, start);
            let is_known = ["null", "true", "false"].iter().any(|word| sql[start..end].eq_ignore_ascii_case(word));
            is_known.then_some(Value { range: start..end, what: What::Word })
        }
        _ => None,
    }
}
