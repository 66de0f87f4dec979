//! What an experiment gives: the same types are the JSON, the page and the text on the terminal.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::machine::{Load, Machine};
use crate::tools::stats::{half_range, median};

/// Raised when a reader of the JSON would misunderstand it.
pub const FORMAT: u32 = 1;

/// One run of `loxo bench` with one experiment or several.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: u32,
    /// The build that was measured.
    pub build: Build,
    /// With `--against`, the other one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<Build>,
    /// When it was begun, UTC.
    pub begun: String,
    /// As it was typed.
    pub command: String,
    /// Where it ran.
    pub machine: Machine,
    /// In the order in which they ran.
    pub experiments: Vec<Outcome>,
}

/// A program that ran as coordinator and gtm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// Its file.
    pub program: String,
    /// What `loxo --version` says.
    pub version: String,
    /// `release` or `debug`.
    pub profile: String,
    /// When its file was written, UTC: two builds of one version differ in that.
    pub written: String,
}

/// What one experiment has found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// As the command line calls it.
    pub name: String,
    /// A heading.
    pub title: String,
    /// What was done, and how to read it.
    pub about: String,
    /// The command that repeats it.
    pub command: String,
    /// Name and value.
    pub settings: Vec<(String, String)>,
    /// `server_version` of the datanodes.
    pub server_version: String,
    /// When it was begun, UTC.
    pub begun: String,
    /// How long it took.
    pub seconds: f64,
    /// All of it was measured.
    pub complete: bool,
    /// Load of the machine, before the first cluster was started.
    pub load_before: Load,
    /// After the last one was gone.
    pub load_after: Load,
    /// Cores that other programs had during the steps.
    pub others_cores: Spread,
    /// What it comes to, in words.
    pub findings: Vec<String>,
    /// What the figures of the samples are.
    pub figures: Vec<Figure>,
    /// Made of the samples.
    pub tables: Vec<Table>,
    /// Made of the samples.
    pub charts: Vec<Chart>,
    /// Everything that was measured.
    pub samples: Vec<Sample>,
}

/// A name of [`Readings::figures`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figure {
    /// The key in the samples.
    pub name: String,
    /// `rows/s`, `ms`, …
    pub unit: String,
    /// Which way is up.
    pub better: Better,
}

/// Is more of it better?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Rates.
    Higher,
    /// Times and costs.
    Lower,
    /// Says nothing by itself.
    Neither,
}

impl Figure {
    /// A rate.
    pub fn rate(name: &str, unit: &str) -> Self {
        Self { name: name.to_owned(), unit: unit.to_owned(), better: Better::Higher }
    }

    /// A time or another cost.
    pub fn cost(name: &str, unit: &str) -> Self {
        Self { better: Better::Lower, ..Self::rate(name, unit) }
    }

    /// Neither.
    pub fn fact(name: &str, unit: &str) -> Self {
        Self { better: Better::Neither, ..Self::rate(name, unit) }
    }
}

/// What one step has measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Readings {
    /// By their names.
    pub figures: BTreeMap<String, f64>,
    /// Lines over time or over something else.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lines: BTreeMap<String, Vec<(f64, f64)>>,
    /// What is no number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub words: BTreeMap<String, String>,
}

impl Readings {
    /// With one more figure. JSON knows no infinite ones.
    pub fn figure(mut self, name: &str, value: f64) -> Self {
        if value.is_finite() {
            self.figures.insert(name.to_owned(), without_sign_of_zero(value));
        }
        self
    }

    /// With one more word.
    pub fn word(mut self, name: &str, value: impl Into<String>) -> Self {
        self.words.insert(name.to_owned(), value.into());
        self
    }

    /// With one more line.
    pub fn line(mut self, name: &str, points: Vec<(f64, f64)>) -> Self {
        self.lines.insert(name.to_owned(), points);
        self
    }
}

/// The sum of no numbers is -0, which nobody wants to read.
fn without_sign_of_zero(value: f64) -> f64 {
    value + 0.0
}

/// Readings, and what they are of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// What was measured.
    pub point: String,
    /// The build that was measured: [`THIS`] or [`AGAINST`].
    pub build: String,
    /// Beginning with 1.
    pub round: usize,
    /// How long the step took, with all it needs.
    pub seconds: f64,
    /// Cores that other programs had meanwhile.
    pub others_cores: f64,
    /// What it has measured.
    #[serde(flatten)]
    pub readings: Readings,
}

/// The build that runs the benchmark.
pub const THIS: &str = "this";
/// The one of `--against`.
pub const AGAINST: &str = "against";

/// Samples of one build.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<Sample>);

impl Samples {
    /// Those of `build` among all.
    pub fn of(all: &[Sample], build: &str) -> Self {
        Self(all.iter().filter(|sample| sample.build == build).cloned().collect())
    }

    /// The samples of a point, by round.
    pub fn at<'s>(&'s self, point: &str) -> impl Iterator<Item = &'s Sample> {
        self.0.iter().filter(move |sample| sample.point == point)
    }

    /// One value a round.
    pub fn values(&self, point: &str, figure: &str) -> Vec<f64> {
        self.at(point).filter_map(|sample| sample.readings.figures.get(figure).copied()).collect()
    }

    /// `None` if there is none.
    pub fn median(&self, point: &str, figure: &str) -> Option<f64> {
        let values = self.values(point, figure);
        (!values.is_empty()).then(|| median(&values))
    }

    /// A word that the last round gave.
    pub fn word(&self, point: &str, name: &str) -> Option<&str> {
        self.at(point).filter_map(|sample| sample.readings.words.get(name)).last().map(String::as_str)
    }

    /// A line that the last round gave.
    pub fn line(&self, point: &str, name: &str) -> Option<&[(f64, f64)]> {
        self.at(point).filter_map(|sample| sample.readings.lines.get(name)).last().map(Vec::as_slice)
    }

    /// A cell with the median and the spread.
    pub fn cell(&self, point: &str, figure: &str, decimals: usize) -> Cell {
        Cell::of(&self.values(point, figure), decimals)
    }

    /// A cell with median of one point divided by that of another.
    pub fn ratio(&self, figure: &str, of: &str, to: &str) -> Cell {
        Cell::ratio(self.median(of, figure), self.median(to, figure))
    }
}

/// Several values in short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle one.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// All 0 for none.
    pub fn of(values: &[f64]) -> Self {
        let fold = |start: f64, with: fn(f64, f64) -> f64| values.iter().copied().fold(start, with);
        match values.is_empty() {
            true => Self::default(),
            false => Self { median: median(values), min: fold(f64::MAX, f64::min), max: fold(f64::MIN, f64::max) },
        }
    }
}

/// Rows under a head.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// A name a column.
    pub columns: Vec<String>,
    /// As many cells as columns.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Without rows.
    pub fn new(title: impl Into<String>, columns: &[&str]) -> Self {
        Self { title: title.into(), columns: columns.iter().map(|name| (*name).to_owned()).collect(), rows: Vec::new() }
    }

    /// One more row; left out if it has no number at all, as after an interruption.
    pub fn push(&mut self, row: Vec<Cell>) {
        debug_assert_eq!(row.len(), self.columns.len(), "{}", self.title);
        if row.iter().any(|cell| matches!(cell, Cell::Number { .. })) {
            self.rows.push(row);
        }
    }
}

/// A number keeps its value; how many decimals are shown is beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// A number.
    Number {
        /// All of it.
        value: f64,
        /// How many are shown.
        decimals: usize,
        /// Half of the range of all rounds, as a share of the value; `None` with one round.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spread: Option<f64>,
    },
    /// A name, or nothing.
    Text(String),
}

impl Cell {
    /// A name.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// One number.
    pub fn number(value: f64, decimals: usize) -> Self {
        match value.is_finite() {
            true => Self::Number { value: without_sign_of_zero(value), decimals, spread: None },
            false => Self::Text("–".to_owned()),
        }
    }

    /// Median and spread of all rounds; a dash for none.
    pub fn of(values: &[f64], decimals: usize) -> Self {
        match (values, Self::number(median(values), decimals)) {
            ([], _) => Self::Text("–".to_owned()),
            ([_, _, ..], Self::Number { value, .. }) => Self::Number { value, decimals, spread: half_range(values) },
            (_, cell) => cell,
        }
    }

    /// A dash if one of them is not there.
    pub fn ratio(part: Option<f64>, whole: Option<f64>) -> Self {
        match (part, whole) {
            (Some(part), Some(whole)) if whole != 0.0 => Self::number(part / whole, 2),
            _ => Self::Text("–".to_owned()),
        }
    }

    /// As it is shown: `1,234.5`.
    pub fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number { value, decimals, .. } => {
                let text = format!("{:.decimals$}", value.abs());
                let (whole, rest) = text.find('.').map_or((text.as_str(), ""), |dot| text.split_at(dot));
                let groups: Vec<&str> =
                    whole.as_bytes().rchunks(3).rev().filter_map(|digits| std::str::from_utf8(digits).ok()).collect();
                let is_zero = text.bytes().all(|byte| matches!(byte, b'0' | b'.'));
                let sign = if *value < 0.0 && !is_zero { "-" } else { "" };
                format!("{sign}{}{rest}", groups.join(","))
            }
        }
    }

    /// `±3 %`; empty where there is none.
    pub fn spread_shown(&self) -> String {
        match self {
            Self::Number { spread: Some(spread), .. } => format!("±{:.0} %", spread * 100.0),
            _ => String::new(),
        }
    }
}

/// A picture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// How.
    pub kind: Kind,
    /// What lies below.
    pub x: Axis,
    /// What lies beside.
    pub y: Axis,
    /// Curves, or bars of one colour.
    pub series: Vec<Series>,
    /// Horizontal lines, at a height that comes from elsewhere.
    pub references: Vec<Mark>,
    /// Vertical lines, at an instant.
    pub marks: Vec<Mark>,
}

impl Chart {
    /// A group of bars a name, a colour a side.
    pub fn bars(
        title: &str,
        unit: &str,
        names: &[String],
        sides: &[&str],
        values: impl Fn(&str, &str) -> Vec<f64>,
    ) -> Self {
        let of_side = |side: &&str| {
            let points = names.iter().enumerate().filter_map(|(at, name)| Point::of(at as f64, &values(name, side)));
            Series { name: (*side).to_owned(), points: points.collect(), dashed: false }
        };
        Self {
            title: title.to_owned(),
            kind: Kind::Bars,
            x: Axis::categories(names.iter().cloned()),
            y: Axis::linear(unit),
            series: sides.iter().map(of_side).collect(),
            ..Self::default()
        }
    }
}

/// How points are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Connected by lines.
    #[default]
    Lines,
    /// Bars beside each other; x is the number of a category.
    Bars,
    /// Bars on top of each other; x is the number of a category.
    Stacked,
}

/// One of two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// What is counted, with its unit.
    pub label: String,
    /// Each step is ten (y) or two (x) times the one before.
    pub logarithmic: bool,
    /// Names of the bars.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<String>,
}

/// One colour.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// In the legend.
    pub name: String,
    /// From left to right.
    pub points: Vec<Point>,
    /// Computed, not measured.
    pub dashed: bool,
}

/// A median, and from where to where the rounds went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// To the right.
    pub x: f64,
    /// Upwards.
    pub y: f64,
    /// Smallest and greatest of all rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<(f64, f64)>,
}

/// A line across the picture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// Where.
    pub at: f64,
    /// What it is.
    pub label: String,
}

impl Point {
    /// `None` without values.
    pub fn of(x: f64, values: &[f64]) -> Option<Self> {
        let Spread { median, min, max } = Spread::of(values);
        (!values.is_empty()).then_some(Self { x, y: median, range: (values.len() > 1).then_some((min, max)) })
    }
}

impl Axis {
    /// Linear.
    pub fn linear(label: &str) -> Self {
        Self { label: label.to_owned(), ..Self::default() }
    }

    /// Logarithmic.
    pub fn logarithmic(label: &str) -> Self {
        Self { logarithmic: true, ..Self::linear(label) }
    }

    /// A bar, or a group of bars, each.
    pub fn categories(names: impl IntoIterator<Item = String>) -> Self {
        Self { categories: names.into_iter().collect(), ..Self::default() }
    }
}

/// What is made of the samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sheet {
    /// Sentences.
    pub findings: Vec<String>,
    /// Numbers.
    pub tables: Vec<Table>,
    /// Pictures.
    pub charts: Vec<Chart>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_in_groups() {
        let shown = |value, decimals| Cell::number(value, decimals).shown();
        assert_eq!(shown(1_234_567.89, 1), "1,234,567.9");
        assert_eq!(
            (shown(0.5, 2), shown(-1234.0, 0), shown(-0.001, 1)),
            ("0.50".into(), "-1,234".into(), "0.0".into())
        );
        assert_eq!(shown(f64::NAN, 1), "–");
    }

    #[test]
    fn a_cell_has_the_median_and_how_far_the_rounds_are_from_it() {
        let cell = Cell::of(&[90.0, 100.0, 120.0], 0);
        assert_eq!((cell.shown(), cell.spread_shown()), ("100".to_owned(), "±15 %".to_owned()));
        assert_eq!(Cell::of(&[7.0], 0).spread_shown(), "");
        assert_eq!(Cell::of(&[], 0), Cell::text("–"));
    }

    #[test]
    fn nothing_is_no_negative_number() {
        let none: f64 = [0.0; 0].iter().sum();
        assert!(none.is_sign_negative());
        let json = serde_json::to_string(&(Readings::default().figure("x", none), Cell::number(none, 0))).unwrap();
        assert!(json.contains("0.0") && !json.contains("-0"), "{json}");
    }

    #[test]
    fn a_row_without_a_number_was_not_measured() {
        let mut table = Table::new("t", &["a", "b"]);
        table.push(vec![Cell::text("x"), Cell::of(&[], 1)]);
        table.push(vec![Cell::text("y"), Cell::of(&[1.0], 1)]);
        assert_eq!(table.rows.len(), 1);
    }
}
