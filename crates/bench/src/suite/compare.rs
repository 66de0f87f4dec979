//! Two reports, or two builds in one: what became slower or faster, and what is within the noise.

use std::collections::BTreeSet;
use std::fmt;

use super::result::{AGAINST, Better, Cell, Figure, Outcome, Report, Sample, Samples, THIS, Table};
use crate::tools::stats::{half_range, median};

/// Less than that is never called a change: clocks and schedulers are no better.
const CHANGE_MIN: f64 = 0.03;

/// One figure of one point on two sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Experiment, point and figure.
    pub what: String,
    /// `rows/s`, …
    pub unit: String,
    /// Median before.
    pub before: f64,
    /// Median after.
    pub after: f64,
    /// Spread of both sides together; `None` if neither has two rounds.
    pub noise: Option<f64>,
    /// What it means.
    pub change: Change,
}

/// What became of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The rounds of the two sides do not overlap, and the medians differ by 3 % at least.
    Faster,
    /// No overlap either, and the median of the second side is worse by 3 % at least.
    Slower,
    /// Neither.
    WithinNoise,
    /// There was only one round, so that nobody knows the noise.
    Unknown,
}

impl Change {
    fn name(self) -> &'static str {
        match self {
            Change::Faster => "better",
            Change::Slower => "worse",
            Change::WithinNoise => "within the noise",
            Change::Unknown => "one round: noise unknown",
        }
    }
}

fn line(what: String, figure: &Figure, before: &[f64], after: &[f64]) -> Option<Line> {
    if before.is_empty() || after.is_empty() || figure.better == Better::Neither {
        return None;
    }
    let (first, second) = (median(before), median(after));
    let noise = match (half_range(before), half_range(after)) {
        (Some(a), Some(b)) => Some(a + b),
        (one, other) => one.or(other),
    };
    let by = if first == 0.0 { 0.0 } else { second / first - 1.0 };
    let fold = |values: &[f64], start: f64, with: fn(f64, f64) -> f64| values.iter().copied().fold(start, with);
    let is_apart = fold(before, f64::MAX, f64::min) > fold(after, f64::MIN, f64::max)
        || fold(after, f64::MAX, f64::min) > fold(before, f64::MIN, f64::max);
    let is_better = (by > 0.0) == (figure.better == Better::Higher);
    let change = match (before.len().min(after.len()), is_apart && by.abs() >= CHANGE_MIN) {
        (_, false) => Change::WithinNoise,
        (1, true) => Change::Unknown,
        (_, true) if is_better => Change::Faster,
        (_, true) => Change::Slower,
    };
    Some(Line { what, unit: figure.unit.clone(), before: first, after: second, noise, change })
}

/// Every point and figure that both have.
fn lines(prefix: &str, figures: &[Figure], before: &Samples, after: &Samples, points: &BTreeSet<&str>) -> Vec<Line> {
    let of = |point: &&str| {
        let one = |figure: &Figure| {
            let what = format!("{prefix}{point}: {}", figure.name);
            line(what, figure, &before.values(point, &figure.name), &after.values(point, &figure.name))
        };
        figures.iter().filter_map(one).collect::<Vec<_>>()
    };
    points.iter().flat_map(of).collect()
}

fn points(samples: &[Sample]) -> BTreeSet<&str> {
    samples.iter().map(|sample| sample.point.as_str()).collect()
}

fn table(title: &str, names: [&str; 2], lines: &[Line]) -> Table {
    let [before, after] = names;
    let mut table = Table::new(title, &["what", "unit", before, after, "change, %", "noise, ± %", "it is"]);
    for line in lines {
        let decimals = if line.before.abs() < 100.0 { 3 } else { 0 };
        table.push(vec![
            Cell::text(&line.what),
            Cell::text(&line.unit),
            Cell::number(line.before, decimals),
            Cell::number(line.after, decimals),
            Cell::number((line.after / line.before - 1.0) * 100.0, 1),
            line.noise.map_or(Cell::text("–"), |noise| Cell::number(noise * 100.0, 1)),
            Cell::text(line.change.name()),
        ]);
    }
    table
}

/// The comparison in a run with `--against`.
pub(super) fn builds_table(figures: &[Figure], samples: &[Sample]) -> Table {
    let [before, after] = [AGAINST, THIS].map(|build| Samples::of(samples, build));
    let lines = lines("", figures, &before, &after, &points(samples));
    table("This build against the other one, by turns", ["other build", "this build"], &lines)
}

/// Two reports side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Everything that both have measured.
    pub lines: Vec<Line>,
    /// Why the two may not be comparable.
    pub warnings: Vec<String>,
}

/// What became slower or faster from `before` to `after`.
pub fn compare(before: &Report, after: &Report) -> Comparison {
    let mut found = Comparison { lines: Vec::new(), warnings: Vec::new() };
    let (old, new) = (&before.machine, &after.machine);
    if (&old.processor, old.cores) != (&new.processor, new.cores) {
        let text = format!("other machines: {} × {}, {} × {}", old.cores, old.processor, new.cores, new.processor);
        found.warnings.push(text);
    }
    if before.build.profile != after.build.profile {
        found.warnings.push(format!("a {} and a {} build", before.build.profile, after.build.profile));
    }
    for outcome in &after.experiments {
        let Some(earlier) = before.experiments.iter().find(|earlier| earlier.name == outcome.name) else {
            found.warnings.push(format!("{} is in the second report only", outcome.name));
            continue;
        };
        found.warnings.extend(differences(earlier, outcome));
        let [first, second] = [earlier, outcome].map(|outcome| Samples::of(&outcome.samples, THIS));
        let prefix = format!("{}: ", outcome.name);
        found.lines.extend(lines(&prefix, &outcome.figures, &first, &second, &points(&outcome.samples)));
    }
    let is_gone = |earlier: &&Outcome| !after.experiments.iter().any(|outcome| outcome.name == earlier.name);
    for earlier in before.experiments.iter().filter(is_gone) {
        found.warnings.push(format!("{} is in the first report only", earlier.name));
    }
    found
}

/// Settings and load that are not alike.
fn differences(before: &Outcome, after: &Outcome) -> Vec<String> {
    let name = &after.name;
    let is_new = |setting: &&(String, String)| !before.settings.contains(setting);
    let mut found: Vec<String> = after
        .settings
        .iter()
        .filter(is_new)
        .map(|(setting, value)| {
            let was = before.settings.iter().find(|(other, _)| other == setting);
            format!("{name}: {setting} was {}, is {value}", was.map_or("not set", |(_, value)| value))
        })
        .collect();
    let (was, is) = (before.others_cores.median, after.others_cores.median);
    if (was - is).abs() > 0.2 {
        found.push(format!("{name}: other programs had {was:.1} cores, and {is:.1}"));
    }
    if before.server_version != after.server_version {
        found.push(format!("{name}: PostgreSQL {} and {}", before.server_version, after.server_version));
    }
    found
}

impl Comparison {
    fn of(&self, change: Change) -> Vec<Line> {
        self.lines.iter().filter(|line| line.change == change).cloned().collect()
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for warning in &self.warnings {
            writeln!(f, "NOTE: {warning}")?;
        }
        for (title, change) in
            [("Worse", Change::Slower), ("Better", Change::Faster), ("Noise unknown", Change::Unknown)]
        {
            let lines = self.of(change);
            if !lines.is_empty() {
                writeln!(f, "\n{}", table(title, ["before", "after"], &lines))?;
            }
        }
        let counts = [Change::Slower, Change::Faster, Change::WithinNoise, Change::Unknown].map(|c| self.of(c).len());
        let [slower, faster, within, unknown] = counts;
        write!(f, "{slower} figures worse, {faster} better, {within} within the noise")?;
        if unknown > 0 { writeln!(f, ", {unknown} of one round only") } else { writeln!(f) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::machine::{Load, Machine};
    use super::super::result::{Build, FORMAT, Readings, Spread};
    use super::*;

    fn report(tps: &[f64], ms: &[f64]) -> Report {
        let sample = |(round, (tps, ms)): (usize, (&f64, &f64))| Sample {
            point: "simple".to_owned(),
            build: THIS.to_owned(),
            round: round + 1,
            seconds: 1.0,
            others_cores: 0.0,
            readings: Readings::default().figure("tps", *tps).figure("p99", *ms).figure("rows", 7.0),
        };
        let outcome = Outcome {
            name: "tpcb".to_owned(),
            title: String::new(),
            about: String::new(),
            command: String::new(),
            settings: vec![("clients".to_owned(), tps.len().to_string())],
            server_version: "15".to_owned(),
            begun: String::new(),
            seconds: 1.0,
            complete: true,
            load_before: Load::default(),
            load_after: Load::default(),
            others_cores: Spread::default(),
            findings: Vec::new(),
            figures: vec![Figure::rate("tps", "1/s"), Figure::cost("p99", "ms"), Figure::fact("rows", "")],
            tables: Vec::new(),
            charts: Vec::new(),
            samples: tps.iter().zip(ms).enumerate().map(sample).collect(),
        };
        let text = String::new;
        Report {
            format: FORMAT,
            build: Build { program: text(), version: text(), profile: "release".to_owned(), written: text() },
            against: None,
            begun: text(),
            command: text(),
            machine: Machine::default(),
            experiments: vec![outcome],
        }
    }

    #[test]
    fn a_change_is_what_the_rounds_do_not_explain() {
        let before = report(&[100.0, 104.0, 98.0], &[10.0, 11.0, 10.5]);
        let after = report(&[80.0, 82.0, 79.0], &[10.4, 10.6, 9.0]);
        let found = compare(&before, &after);
        let changes: Vec<(&str, Change)> = found.lines.iter().map(|line| (&*line.what, line.change)).collect();
        assert_eq!(changes, [("tpcb: simple: tps", Change::Slower), ("tpcb: simple: p99", Change::WithinNoise)]);
        assert!((found.lines[0].noise.unwrap() - (0.03 + 1.5 / 80.0)).abs() < 1e-9);
        assert_eq!(found.warnings, [""; 0]);
        assert!(found.to_string().ends_with("1 figures worse, 0 better, 1 within the noise\n"), "{found}");
        let back = compare(&after, &before);
        assert_eq!(back.lines[0].change, Change::Faster);
    }

    #[test]
    fn a_lower_time_is_better_and_one_round_proves_nothing() {
        let found = compare(&report(&[1.0, 1.0], &[10.0, 10.1]), &report(&[1.0, 1.0], &[5.0, 5.1]));
        assert_eq!(found.lines[1].change, Change::Faster);
        let found = compare(&report(&[1.0], &[10.0]), &report(&[1.01], &[5.0]));
        assert_eq!(
            found.lines.iter().map(|line| line.change).collect::<Vec<_>>(),
            [Change::WithinNoise, Change::Unknown]
        );
    }

    #[test]
    fn what_cannot_be_compared_is_said() {
        let mut after = report(&[1.0, 1.0], &[1.0, 1.0]);
        after.build.profile = "debug".to_owned();
        after.machine.cores = 8;
        after.experiments[0].settings[0].1 = "64".to_owned();
        let found = compare(&report(&[1.0, 1.0], &[1.0, 1.0]), &after);
        assert_eq!(found.warnings.len(), 3, "{found}");
        after.experiments[0].name = "other".to_owned();
        let found = compare(&report(&[1.0], &[1.0]), &after);
        assert!(found.lines.is_empty() && found.warnings.len() == 4, "{found}");
    }
}
