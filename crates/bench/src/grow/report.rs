//! What the benchmark has found.

use std::fmt;
use std::time::{Duration, Instant};

use super::seen::{Figures, Trouble, by_code};
use super::{GrowOptions, PHASES, POINT};
use crate::suite::{Axis, Cell, Chart, Mark, Point, Readings, Samples, Series, Sheet, Table};
use crate::tools::stats::grouped;
use crate::tools::transfer::BALANCE;

/// The outcome.
#[derive(Clone, Debug, Default)]
pub struct GrowReport {
    pub(crate) options: GrowOptions,
    /// Rows of lineitem.
    pub(crate) lineitem: u64,
    pub(crate) phases: Vec<Phase>,
    pub(crate) seconds: Vec<Second>,
    pub(crate) troubles: Vec<Trouble>,
    /// Transactions of writers that were committed.
    pub(crate) commits: u64,
    /// COMMITs whose outcome is not known.
    pub(crate) unknown: u64,
    /// What the accounts hold at the end.
    pub(crate) money: u64,
    /// How many UPDATEs they have had.
    pub(crate) changes: u64,
    /// How many there are at the end.
    pub(crate) accounts: u64,
    pub(crate) alone: Alone,
    /// MD5 of lineitem: at first, after the workload, at the end.
    pub(crate) md5: Vec<String>,
}

/// An interval of the workload.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Phase {
    pub(crate) name: &'static str,
    pub(crate) from: Duration,
    pub(crate) to: Duration,
    pub(crate) rows_moved: u64,
    pub(crate) moving_seconds: f64,
    pub(crate) writers: Figures,
    pub(crate) readers: Figures,
    pub(crate) queries: Figures,
}

/// One line of what is shown over time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Second {
    pub(crate) at: Duration,
    pub(crate) state: &'static str,
    /// By the rebalance that runs, or by the last one.
    pub(crate) rows_moved: u64,
    pub(crate) writers: Figures,
    pub(crate) readers: Figures,
}

/// The rebalance without a workload.
#[derive(Clone, Debug, Default)]
pub(crate) struct Alone {
    /// Rows of lineitem that moved.
    pub(crate) lineitem: u64,
    pub(crate) rows_moved: u64,
    /// From the statement to the end, statistics of the tables included.
    pub(crate) seconds: f64,
    /// When how many rows had moved.
    pub(crate) steps: Vec<(Instant, u64)>,
}

impl Alone {
    fn rows_per_second(&self) -> f64 {
        self.lineitem as f64 / self.seconds.max(1e-9)
    }

    /// Between the ends of the first and the last step; `None` if there were fewer than two.
    fn rows_per_second_of_steps(&self) -> Option<f64> {
        let ((began, before), (ended, after)) = (self.steps.first()?, self.steps.last()?);
        let share = self.lineitem as f64 / self.rows_moved.max(1) as f64;
        (after > before).then(|| (after - before) as f64 * share / (*ended - *began).as_secs_f64().max(1e-9))
    }
}

impl GrowReport {
    /// Rows of all tables.
    fn rows(&self) -> u64 {
        self.lineitem + u64::from(self.options.accounts)
    }

    /// `12 wrong sums`, …: rows that are lost, there twice or other ones. Empty if all is well.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let wrong = self.troubles.iter().filter(|trouble| trouble.code.is_none()).count();
        if wrong > 0 {
            faults.push(format!("{wrong} wrong answers"));
        }
        if self.md5.iter().any(|md5| Some(md5) != self.md5.first()) {
            faults.push("lineitem has other rows than before".to_owned());
        }
        let accounts = u64::from(self.options.accounts);
        if (self.accounts, self.money) != (accounts, accounts * BALANCE) {
            faults.push(format!("{} accounts hold {}", self.accounts, self.money));
        }
        if !(2 * self.commits..=2 * (self.commits + self.unknown)).contains(&self.changes) {
            faults.push(format!("{} commits of two UPDATEs have made {} changes", self.commits, self.changes));
        }
        faults
    }

    fn troubles_of<'r>(&'r self, phase: &'r Phase) -> impl Iterator<Item = &'r Trouble> {
        self.troubles.iter().filter(|trouble| phase.from < trouble.at && trouble.at <= phase.to)
    }

    /// All of it, for the report.
    pub(crate) fn readings(&self) -> Readings {
        let mut readings = Readings::default()
            .figure("alone_rows_per_second", self.alone.rows_per_second())
            .figure("lineitem_rows", self.lineitem as f64)
            .figure("rows_moved_alone", self.alone.rows_moved as f64)
            .figure("commits", self.commits as f64)
            .figure("changes", self.changes as f64);
        if let Some(steps) = self.alone.rows_per_second_of_steps() {
            readings = readings.figure("alone_rows_per_second_of_steps", steps);
        }
        for phase in &self.phases {
            readings = self.of_phase(phase, readings);
        }
        let line = |value: fn(&Second) -> f64| -> Vec<(f64, f64)> {
            self.seconds.iter().map(|second| (second.at.as_secs_f64(), value(second))).collect()
        };
        readings = readings
            .line("transactions/s", line(|second| second.writers.per_second))
            .line("writers' p99", line(|second| second.writers.p99_ms))
            .line("readers' p99", line(|second| second.readers.p99_ms));
        for group in self.seconds.chunk_by(|a, b| a.state == b.state) {
            readings = readings.line(&format!("state {}", group[0].state), vec![(group[0].at.as_secs_f64(), 0.0)]);
        }
        let errors = by_code(self.troubles.iter()).into_iter().map(|((who, code), (count, first))| {
            format!("{who}: {} times {code}, first: {first}", grouped(count as u64))
        });
        let errors: Vec<String> = errors.collect();
        readings.word("errors", errors.join("\n")).word("md5", self.md5.first().map_or("", String::as_str))
    }

    fn of_phase(&self, phase: &Phase, readings: Readings) -> Readings {
        let name = |figure: &str| format!("{}: {figure}", phase.name);
        let wrong = self.troubles_of(phase).filter(|trouble| trouble.code.is_none()).count();
        let again = self.troubles_of(phase).filter(|trouble| trouble.is_to_be_tried_again()).count();
        let others = self.troubles_of(phase).count() - wrong - again;
        let Phase { writers, readers, queries, .. } = phase;
        let figures = [
            ("seconds", (phase.to - phase.from).as_secs_f64()),
            ("writers_tps", writers.per_second),
            ("writers_p50_ms", writers.p50_ms),
            ("writers_p99_ms", writers.p99_ms),
            ("writers_longest_ms", writers.max_ms),
            ("readers_per_second", readers.per_second),
            ("readers_p99_ms", readers.p99_ms),
            ("readers_longest_ms", readers.max_ms),
            ("queries", queries.count as f64),
            ("wrong", wrong as f64),
            ("again", again as f64),
            ("other_errors", others as f64),
            ("rows_moved", phase.rows_moved as f64),
            ("share_moved", phase.rows_moved as f64 * 100.0 / self.rows().max(1) as f64),
            ("moving_seconds", phase.moving_seconds),
        ];
        figures.iter().fold(readings, |readings, (figure, value)| readings.figure(&name(figure), *value))
    }
}

impl fmt::Display for Second {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, state, rows_moved, writers, readers } = self;
        write!(
            f,
            "{:>4.0} s  {state:<8}  {:>6.0} tps  p50 {:>6.1}  p99 {:>7.1}  max {:>7.1}    {:>5.0} reads/s  p99 {:>7.1}  max {:>7.1} ms    {} rows moved",
            at.as_secs_f64(),
            writers.per_second,
            writers.p50_ms,
            writers.p99_ms,
            writers.max_ms,
            readers.per_second,
            readers.p99_ms,
            readers.max_ms,
            grouped(*rows_moved),
        )
    }
}

/// The sheet of a sample of the experiment.
pub(super) fn sheet(samples: &Samples) -> Sheet {
    let columns = [
        "phase",
        "s",
        "writers: tps",
        "p50, ms",
        "p99, ms",
        "longest pause, ms",
        "readers: /s",
        "p99, ms",
        "longest, ms",
        "queries",
        "wrong",
        "40001",
        "other errors",
        "rows moved",
        "% of all rows",
    ];
    let cells = [
        ("seconds", 0),
        ("writers_tps", 0),
        ("writers_p50_ms", 1),
        ("writers_p99_ms", 1),
        ("writers_longest_ms", 1),
        ("readers_per_second", 0),
        ("readers_p99_ms", 1),
        ("readers_longest_ms", 1),
        ("queries", 0),
        ("wrong", 0),
        ("again", 0),
        ("other_errors", 0),
        ("rows_moved", 0),
        ("share_moved", 2),
    ];
    let mut table = Table::new("What sessions have seen", &columns);
    for phase in PHASES {
        let cell = |(figure, decimals): &(&str, usize)| samples.cell(POINT, &format!("{phase}: {figure}"), *decimals);
        table.push(std::iter::once(Cell::text(phase)).chain(cells.iter().map(cell)).collect());
    }
    let line = |name: &str| samples.line(POINT, name).map(<[(f64, f64)]>::to_vec).unwrap_or_default();
    let series = |name: &str| Series {
        name: name.to_owned(),
        points: line(name).iter().map(|(x, y)| Point { x: *x, y: *y, range: None }).collect(),
        dashed: false,
    };
    let marks = ["joining", "filling", "emptying"].iter().flat_map(|state| {
        line(&format!("state {state}")).into_iter().map(move |(at, _)| Mark { at, label: format!("{state} begins") })
    });
    let marks: Vec<Mark> = marks.collect();
    let chart = |title: &str, unit: &str, names: &[&str]| Chart {
        title: title.to_owned(),
        x: Axis::linear("seconds"),
        y: Axis::linear(unit),
        series: names.iter().map(|name| series(name)).collect(),
        marks: marks.clone(),
        ..Chart::default()
    };
    let charts = match line("transactions/s").is_empty() {
        true => Vec::new(),
        false => vec![
            chart("Transactions of the writers", "transactions/s", &["transactions/s"]),
            chart("99th percentiles", "ms", &["writers' p99", "readers' p99"]),
        ],
    };
    Sheet { findings: findings(samples), tables: vec![table], charts }
}

fn findings(samples: &Samples) -> Vec<String> {
    let figure = |name: &str| samples.median(POINT, name);
    let p99 = |phase: &str| figure(&format!("{phase}: readers_p99_ms"));
    let ratio = |phase: &str| Some(format!("{:.1} ({phase})", p99(phase)? / p99(PHASES[0])?.max(1e-9)));
    let ratios: Vec<String> = PHASES[1..].iter().filter_map(|phase| ratio(phase)).collect();
    let mut found = Vec::new();
    if !ratios.is_empty() {
        found.push(format!("Readers' 99th percentile against the one without moves: {}.", ratios.join(", ")));
    }
    if let Some(rate) = figure("alone_rows_per_second") {
        let steps = figure("alone_rows_per_second_of_steps");
        let steps = steps.map_or(String::new(), |rate| format!(", {} from step to step", grouped(rate as u64)));
        found.push(format!(
            "With nothing else running a new datanode got {} rows of lineitem a second{steps}.",
            grouped(rate as u64)
        ));
    }
    found.extend(samples.word(POINT, "errors").unwrap_or_default().lines().map(str::to_owned));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> GrowReport {
        let options = GrowOptions { accounts: 10, ..GrowOptions::quick() };
        GrowReport {
            options,
            commits: 5,
            changes: 10,
            accounts: 10,
            money: 10_000,
            md5: vec!["a".to_owned(); 3],
            ..GrowReport::default()
        }
    }

    #[test]
    fn lost_and_doubled_rows_are_faults() {
        assert!(report().faults().is_empty());
        let faulty = [
            GrowReport { money: 9_999, ..report() },
            GrowReport { accounts: 11, ..report() },
            GrowReport { changes: 9, ..report() },
            GrowReport { changes: 11, ..report() },
            GrowReport { changes: 13, unknown: 1, ..report() },
            GrowReport { md5: vec!["a".to_owned(), "a".to_owned(), "b".to_owned()], ..report() },
        ];
        for report in faulty {
            assert_eq!(report.faults().len(), 1, "{report:?}");
        }
        assert!(GrowReport { changes: 12, unknown: 1, ..report() }.faults().is_empty());
    }

    #[test]
    fn the_rate_of_steps_leaves_the_first_one_out() {
        let now = Instant::now();
        let steps = vec![(now, 100), (now + Duration::from_secs(1), 200), (now + Duration::from_secs(2), 300)];
        let mut alone = Alone { lineitem: 300, rows_moved: 300, seconds: 6.0, steps };
        assert_eq!((alone.rows_per_second(), alone.rows_per_second_of_steps()), (50.0, Some(100.0)));
        alone.steps.truncate(1);
        assert_eq!(alone.rows_per_second_of_steps(), None);
    }

    #[test]
    fn a_trouble_belongs_to_the_phase_it_came_in() {
        let phase = |name, from, to| Phase {
            name,
            from: Duration::from_secs(from),
            to: Duration::from_secs(to),
            ..Phase::default()
        };
        let trouble = |at, code: Option<&str>| Trouble {
            at: Duration::from_secs(at),
            who: "reader",
            code: code.map(str::to_owned),
            text: String::new(),
        };
        let report = GrowReport {
            phases: vec![phase("alone", 0, 3), phase("add a datanode", 3, 6)],
            troubles: vec![trouble(3, Some("40001")), trouble(4, None), trouble(5, Some("57014"))],
            ..report()
        };
        let readings = report.readings();
        let errors =
            |phase: &str| ["wrong", "again", "other_errors"].map(|kind| readings.figures[&format!("{phase}: {kind}")]);
        assert_eq!((errors("alone"), errors("add a datanode")), ([0.0, 0.0, 1.0], [1.0, 0.0, 1.0]));
        assert_eq!(report.faults(), ["1 wrong answers"]);
    }
}
