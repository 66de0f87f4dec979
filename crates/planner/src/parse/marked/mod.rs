//! Statements that differ in their constants only are analysed once: with marks in the places of the constants, which are then
//! looked for in what PostgreSQL has printed.
//!
//! Only what PostgreSQL's analysis hands on as it stands can be a mark: numbers, strings whose type keeps any text, and dates and
//! times that every setting reads alike ([`Moment`]). A constant that the analysis uses (`ORDER BY 1`, `numeric(10,2)`,
//! `'[1,2]'::int4range`) stays in the text: it has to be *pinned*, which is found out by trying. Equal constants get the same
//! mark, since whether two expressions are equal decides what a GROUP BY means.

use std::collections::HashMap;

use pg_query::Node;
use pg_query::protobuf::{AConst, Float, Integer, TypeCast, a_const};
use pgerror::{PgError, Result};

use super::analysed::Analysis;
use crate::parse::shape::{LiteralKind, Shape};
use crate::tree::{self, Ask, Get, Ref, Walk};

pub(super) mod moment;

use moment::Moment;

/// Marks are numbers from here on, which must not occur in the statement itself.
const BASE: u32 = 1_986_040_000;

/// The digits that all marks have in common.
const COMMON: &str = "198604";
/// How marks of strings begin: all that is left of one in a constant of type `"char"`.
const FIRST: &str = "l";
/// Likewise of the marks of days.
const FIRST_DIGIT: &str = "1";
/// The longest value of type `name`: longer ones are cut.
const NAME_BYTES_MAX: usize = 63;
/// The digits in a constant of type `bytea`, as PostgreSQL prints it.
const COMMON_IN_HEX: &str = "313938363034";

/// A text with marks in the places of its constants.
#[derive(Clone, Debug)]
pub struct Marked {
    /// What to analyse. Statements with the same text differ in the marked constants only.
    pub text: String,
    constants: Vec<Constant>,
}

/// A constant of the statement, in its order.
#[derive(Clone, Debug)]
struct Constant {
    /// Where its mark stands in [`Marked::text`].
    at: usize,
    /// `None`: pinned.
    mark: Option<Mark>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Mark {
    /// What stands in the tree for it: digits, or the text of a string.
    mark: String,
    value: Value,
}

/// What the statement says in the mark's place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Value {
    Integer(i32),
    Decimal(String),
    Text(String),
    Moment(Moment),
    /// `'3 days'`.
    Days(String),
}

impl Marked {
    /// `None` if there is nothing to mark. `pinned` says for each constant, in order, whether it stays.
    pub fn of(sql: &str, pinned: &[bool]) -> Option<Self> {
        let mut shape = Shape::default();
        if sql.contains(COMMON) || sql.contains(moment::COMMON) || !shape.scan(sql) {
            return None;
        }
        let mut marks: HashMap<Value, Mark> = HashMap::new();
        let (mut text, mut constants, mut copied) = (String::with_capacity(sql.len()), Vec::new(), 0);
        for (at, literal) in shape.literals().iter().enumerate() {
            text.push_str(&sql[copied..literal.range.start]);
            copied = literal.range.end;
            let written = &sql[literal.range.clone()];
            // `-0` is 0, and printed so.
            let is_signed = text.trim_end().ends_with('-') && written.bytes().all(|byte| matches!(byte, b'0' | b'.'));
            let is_pinned = is_signed || pinned.get(at).copied().unwrap_or(false);
            let value = if is_pinned { None } else { value(written, literal.kind) };
            let value = value.filter(|value| !marks.keys().any(|other| value.may_be_equal_to(other)));
            let next = marks.len() as u32;
            let mark = value.map(|value| marks.entry(value.clone()).or_insert_with(|| value.marked(next)).clone());
            constants.push(Constant { at: text.len(), mark: mark.clone() });
            match mark {
                None => text.push_str(written),
                Some(Mark { mark, value: Value::Text(_) | Value::Moment(_) | Value::Days(_) }) => {
                    text.push('\'');
                    text.push_str(&mark);
                    text.push('\'');
                }
                Some(Mark { mark, .. }) => text.push_str(&mark),
            }
        }
        text.push_str(&sql[copied..]);
        constants.iter().any(|constant| constant.mark.is_some()).then_some(Self { text, constants })
    }

    /// The constants that have no mark.
    pub fn pinned(&self) -> Vec<bool> {
        self.constants.iter().map(|constant| constant.mark.is_none()).collect()
    }

    /// PostgreSQL refuses the text at the byte `at`: the constants that are to be pinned so that it may not. `None` if none of them
    /// can be the cause.
    pub fn pinned_at(&self, at: usize) -> Option<Vec<bool>> {
        let mut pinned = self.pinned();
        let cause = self.constants.iter().position(|constant| constant.mark.is_some() && constant.at >= at)?;
        pinned[cause] = true;
        Some(pinned)
    }

    /// The constants that are to be pinned since the analysis does not hand them on; `None` if it does.
    pub fn lost(&self, analysis: &Analysis) -> Result<Option<Vec<bool>>> {
        let (mut found, mut is_cut) = (Vec::new(), false);
        analysis.tree().each(|node| match node {
            Ref::AConst(constant) => found.extend(constant.val.as_ref().and_then(digits_of)),
            Ref::TypeCast(cast) => is_cut |= is_first_byte(cast),
            _ => {}
        })?;
        let mut pinned = self.pinned();
        let is_found =
            |mark: &Mark| found.iter().any(|text| mark.is_printed_as(text, analysis) || is_negative(text, mark));
        for (at, constant) in self.constants.iter().enumerate() {
            pinned[at] |= constant.mark.as_ref().is_some_and(|mark| !is_found(mark));
        }
        if pinned != self.pinned() {
            return Ok(Some(pinned));
        }
        // One mark in several places, of which a type has made something else that nobody would know: `'5'::text, '5'::xid`.
        let is_everywhere = |mark: &Mark| {
            let printed = found.iter().filter(|text| mark.is_printed_as(text, analysis) || is_negative(text, mark));
            let written = self.constants.iter().filter(|constant| constant.mark.as_ref() == Some(mark));
            printed.count() >= written.count()
        };
        if !self.constants.iter().filter_map(|constant| constant.mark.as_ref()).all(is_everywhere) {
            return Ok(Some(vec![true; pinned.len()]));
        }
        // A mark that has become a part of something else is found in the text only.
        let as_is = tree::deparse(self.written_into(analysis)?.node.as_ref().ok_or_else(nothing)?)?;
        let is_left =
            [COMMON, COMMON_IN_HEX, moment::COMMON, moment::COMMON_IN_HEX].iter().any(|of| as_is.contains(of));
        let is_hidden = is_cut || is_left;
        Ok(is_hidden.then(|| vec![true; pinned.len()]))
    }

    /// The analysis of the statement itself, from that of the marked text; `None` if PostgreSQL would cut a constant.
    pub fn filled(&self, analysis: &Analysis) -> Result<Option<Analysis>> {
        if self.is_cut(analysis)? {
            return Ok(None);
        }
        analysis.with_tree(self.written_into(analysis)?.node.ok_or_else(nothing)?).map(Some)
    }

    /// Is there a constant of type `name` that is longer than names are?
    fn is_cut(&self, analysis: &Analysis) -> Result<bool> {
        let marks = self.constants.iter().filter_map(|constant| constant.mark.as_ref());
        let long = |mark: &&Mark| matches!(&mark.value, Value::Text(text) if text.len() > NAME_BYTES_MAX);
        let long: Vec<&str> = marks.filter(long).map(|mark| mark.mark.as_str()).collect();
        let is_long = |cast: &TypeCast| text_as(cast, "name").is_some_and(|text| long.contains(&text));
        if long.is_empty() {
            return Ok(false);
        }
        analysis.tree().any(|node| matches!(node, Ref::TypeCast(cast) if is_long(cast)))
    }

    fn written_into(&self, analysis: &Analysis) -> Result<Node> {
        let marks: HashMap<&str, &Mark> =
            self.constants.iter().filter_map(|c| c.mark.as_ref()).map(|mark| (mark.mark.as_str(), mark)).collect();
        let mut whole = tree::node(analysis.tree().clone());
        whole.rewrite(&mut |node| {
            if let Some(cast) = node.get_mut::<TypeCast>()
                && let Some(Mark { value: Value::Moment(moment), .. }) =
                    text_as(cast, "date").and_then(|text| marks.get(text))
            {
                let date = pg_query::protobuf::String { sval: moment.date().to_owned() };
                if let Some(constant) = cast.arg.get_mut::<AConst>() {
                    constant.val = Some(a_const::Val::Sval(date));
                }
                return Ok(false);
            }
            if let Some(constant) = node.get_mut::<AConst>()
                && let Some(value) = &mut constant.val
            {
                fill(value, &marks, analysis.is_in_utc());
            }
            Ok(true)
        })?;
        Ok(whole)
    }
}

impl Mark {
    /// Is this what PostgreSQL prints for it?
    fn is_printed_as(&self, text: &str, analysis: &Analysis) -> bool {
        match &self.value {
            Value::Moment(_) => moment::printed(text, analysis.is_in_utc()).is_some_and(|(date, _)| date == self.mark),
            _ => text == self.mark,
        }
    }
}

impl Value {
    fn marked(&self, nth: u32) -> Mark {
        let number = BASE + nth;
        let mark = match self {
            Self::Integer(_) => number.to_string(),
            Self::Decimal(_) => format!("{number}.5"),
            Self::Text(_) => format!("loxo{number}"),
            Self::Moment(_) => moment::mark(nth),
            Self::Days(_) => format!("{number} days"),
        };
        Mark { mark, value: self.clone() }
    }

    /// Two texts that some type may read as one value. Equal constants must have equal marks.
    fn may_be_equal_to(&self, other: &Self) -> bool {
        let (Self::Moment(one), Self::Moment(other)) = (self, other) else { return false };
        one != other && one.date() == other.date()
    }

    fn written(&self) -> String {
        match self {
            Self::Integer(number) => number.to_string(),
            Self::Decimal(text) | Self::Text(text) | Self::Days(text) => text.clone(),
            Self::Moment(moment) => moment.text().to_owned(),
        }
    }
}

/// `None`: a constant whose type depends on its value, or that may be read in more than one way.
fn value(written: &str, kind: LiteralKind) -> Option<Value> {
    match kind {
        LiteralKind::Integer => written.parse().ok().map(Value::Integer),
        LiteralKind::Decimal => (!written.ends_with('.')).then(|| Value::Decimal(written.to_owned())),
        LiteralKind::String { .. } => {
            let text = written[1..written.len() - 1].replace("''", "'");
            Some(match Moment::of(&text) {
                Some(moment) => Value::Moment(moment),
                None if is_days(&text) => Value::Days(text),
                None => Value::Text(text),
            })
        }
    }
}

/// `1 day`, `3 days`, as an `interval` is printed.
fn is_days(text: &str) -> bool {
    let number = text.strip_suffix(" days").filter(|number| *number != "1");
    let is_plain = |number: &str| {
        (1..=6).contains(&number.len()) && !number.starts_with('0') && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    text == "1 day" || number.is_some_and(is_plain)
}

/// What a constant is written with: PostgreSQL prints a negative number as a string.
fn digits_of(value: &a_const::Val) -> Option<String> {
    match value {
        a_const::Val::Ival(number) => Some(number.ival.to_string()),
        a_const::Val::Fval(number) => Some(number.fval.clone()),
        a_const::Val::Sval(text) => Some(text.sval.clone()),
        _ => None,
    }
}

/// May the constant be what type `"char"` has taken of a mark?
fn is_first_byte(cast: &TypeCast) -> bool {
    text_as(cast, "char").is_some_and(|text| [FIRST, FIRST_DIGIT, moment::FIRST].contains(&text))
}

/// The text of a constant that is cast to this type of PostgreSQL's.
fn text_as<'c>(cast: &'c TypeCast, of: &str) -> Option<&'c str> {
    cast.arg.get().and_then(tree::quoted).filter(|_| tree::type_of(cast) == Some(of))
}

fn is_negative(text: &str, mark: &Mark) -> bool {
    matches!(mark.value, Value::Integer(_) | Value::Decimal(_)) && text.strip_prefix('-') == Some(mark.mark.as_str())
}

fn fill(constant: &mut a_const::Val, marks: &HashMap<&str, &Mark>, in_utc: bool) {
    let Some(text) = digits_of(constant) else { return };
    if let Some((date, Some(behind))) = moment::printed(&text, in_utc)
        && let Some(Mark { value: Value::Moment(moment), .. }) = marks.get(date)
    {
        *constant = a_const::Val::Sval(pg_query::protobuf::String { sval: format!("{}{behind}", moment.time()) });
        return;
    }
    if let a_const::Val::Sval(string) = constant
        && let Some(mark) = text.strip_prefix('-').and_then(|digits| marks.get(digits))
    {
        string.sval = format!("-{}", mark.value.written());
        return;
    }
    let Some(mark) = marks.get(text.as_str()) else { return };
    *constant = match (&mark.value, &constant) {
        (Value::Integer(number), a_const::Val::Ival(_)) => a_const::Val::Ival(Integer { ival: *number }),
        (Value::Decimal(number), a_const::Val::Fval(_)) => a_const::Val::Fval(Float { fval: number.clone() }),
        (value, _) => a_const::Val::Sval(pg_query::protobuf::String { sval: value.written() }),
    };
}

fn nothing() -> PgError {
    PgError::internal("an analysed statement without a tree")
}
