//! Where a statement that changes rows reads the clock, so that another node's time can stand there.
//!
//! Inside a transaction block `now()` is that of the first node it has touched. A statement that runs on another one gets it as a
//! parameter behind its own, or as a constant where it has none and its constants cannot be parameters: as
//! [`at_one_moment`](crate::at_one_moment) would write it, but without a tree.

use std::ops::Range;

use pg_query::NodeEnum;
use pg_query::protobuf::FuncCall;

use super::parameters::Parameterised;
use crate::facts::clock::{clock_of, constants_in};
use crate::parse::shape::{Shape, word_end};
use crate::session::Moment;
use crate::tree::{self, Ask, Ref};

/// What [`constants_in`] is given for a time, to be found in what it writes.
const TRANSACTION: &str = "T";
const STATEMENT: &str = "S";

/// The places in all statements of a shape.
#[derive(Debug)]
pub(super) struct ClockPlaces(Vec<ClockPlace>);

#[derive(Debug)]
struct ClockPlace {
    /// How many constants stand before it.
    constants: usize,
    /// How far behind the end of the last of them it begins.
    distance: usize,
    length: usize,
    /// What stands before and behind the time.
    around: (String, String),
    is_statement: bool,
}

/// The places in one of them.
pub(super) struct Places<'a> {
    pub(super) sql: &'a str,
    pub(super) shape: &'a Shape,
    pub(super) places: &'a ClockPlaces,
    pub(super) moment: &'a Moment,
    /// The number of the parameter that is the transaction's time, if it is to be one; that of the statement is the next.
    pub(super) parameter: Option<usize>,
}

impl ClockPlaces {
    /// `None` if there is none, or the clock is read in another way too, or in what names a column, or calls may mean functions of
    /// the user's: `is_clock` knows.
    pub(super) fn of(tree: &NodeEnum, sql: &str, shape: &Shape, is_clock: impl Fn(&FuncCall) -> bool) -> Option<Self> {
        let is_other =
            |node: Ref<'_>| matches!(node, Ref::FuncCall(call) if clock_of(call).is_some() && !is_clock(call));
        if matches!(tree, NodeEnum::SelectStmt(_)) || tree::returning_of(tree).is_some() || tree.may_have(is_other) {
            return None;
        }
        let moment = Moment { transaction: TRANSACTION.to_owned(), statement: STATEMENT.to_owned() };
        let mut found = constants_in(tree, &moment)?;
        found.sort_by_key(|(start, _)| *start);
        // Each column of `SET (a, b) = (…)` has the whole row.
        found.dedup_by_key(|(start, _)| *start);
        let places: Vec<ClockPlace> = found
            .iter()
            .map(|(start, constant)| ClockPlace::of(*start, constant, sql, shape))
            .collect::<Option<_>>()?;
        (!places.is_empty()).then_some(Self(places))
    }
}

impl ClockPlace {
    fn of(start: usize, constant: &str, sql: &str, shape: &Shape) -> Option<Self> {
        let end = end_of_call(sql, start)?;
        let before = shape.literals().iter().filter(|literal| literal.range.start < end);
        let (constants, behind) = before.fold((0, 0), |(count, _), literal| (count + 1, literal.range.end));
        let is_statement = constant.contains(&format!("'{STATEMENT}'"));
        let time = format!("'{}'", if is_statement { STATEMENT } else { TRANSACTION });
        let (head, tail) = constant.split_once(&time)?;
        // A constant inside of it is its precision, which may be another in the next statement.
        let distance = start.checked_sub(behind)?;
        Some(Self {
            constants,
            distance,
            length: end - start,
            around: (format!("({head}"), format!("{tail})")),
            is_statement,
        })
    }

    fn range(&self, shape: &Shape) -> Option<Range<usize>> {
        let behind = match self.constants.checked_sub(1) {
            Some(last) => shape.literals().get(last)?.range.end,
            None => 0,
        };
        let start = behind + self.distance;
        Some(start..start + self.length)
    }
}

/// The end of `CURRENT_TIMESTAMP`, `now()`, `pg_catalog.now ( )`; `None` of what is written in another way.
fn end_of_call(sql: &str, start: usize) -> Option<usize> {
    let bytes = sql.as_bytes();
    let word = |start: usize| Some(word_end(bytes, start)).filter(|end| *end > start);
    let mut end = word(start)?;
    while bytes.get(end) == Some(&b'.') {
        end = word(end + 1)?;
    }
    match sql[end..].trim_start() {
        rest if rest.starts_with('.') => None,
        rest => match rest.strip_prefix('(').map(str::trim_start) {
            Some(arguments) => arguments.starts_with(')').then(|| sql.len() - arguments.len() + 1),
            None => Some(end),
        },
    }
}

impl Places<'_> {
    /// Writes those between the constant before this one and it.
    pub(super) fn write(&self, new: &mut Parameterised, at: &mut usize, constant: usize) -> Option<()> {
        for place in self.places.0.iter().filter(|place| place.constants == constant) {
            let range = place.range(self.shape).filter(|range| self.sql.get(range.clone()).is_some())?;
            new.replace(self.sql, at, range, |new| {
                new.sql.push_str(&place.around.0);
                match self.parameter {
                    Some(number) => new.parameter(number + usize::from(place.is_statement)),
                    None => {
                        let Moment { transaction, statement } = self.moment;
                        new.sql.push('\'');
                        new.sql.push_str(if place.is_statement { statement } else { transaction });
                        new.sql.push('\'');
                    }
                }
                new.sql.push_str(&place.around.1);
            });
        }
        Some(())
    }

    /// Nothing else is replaced.
    pub(super) fn apply(&self) -> Option<Parameterised> {
        let mut new = Parameterised::as_long_as(self.sql);
        let mut at = 0;
        for constant in 0..=self.shape.literals().len() {
            self.write(&mut new, &mut at, constant)?;
        }
        new.sql.push_str(&self.sql[at..]);
        Some(new)
    }

    /// The values of the parameters that it has written.
    pub(super) fn moments(&self) -> Vec<String> {
        let Moment { transaction, statement } = self.moment;
        match self.places.0.iter().any(|place| place.is_statement) {
            true => vec![transaction.clone(), statement.clone()],
            false => vec![transaction.clone()],
        }
    }
}
