//! What the benchmark has found, as text and as JSON.

use std::fmt;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::GrowOptions;
use super::chart::sparkline;
use super::seen::{Figures, Trouble, by_code};
use super::workload::BALANCE;
use crate::report::{grouped, text_table};

/// The outcome.
#[derive(Clone, Debug, Default)]
pub struct GrowReport {
    pub(crate) options: GrowOptions,
    pub(crate) version: String,
    /// Before one is added.
    pub(crate) datanodes: usize,
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
    /// Of lineitem: at first, after the workload, at the end.
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

    /// A line a second, with a head.
    pub fn to_csv(&self) -> String {
        let mut text = "second,state,rows_moved,tps,writers_p50_ms,writers_p99_ms,writers_longest_ms,\
                        reads_per_second,readers_p50_ms,readers_p99_ms,readers_longest_ms\n"
            .to_owned();
        for Second { at, state, rows_moved, writers, readers } in &self.seconds {
            text += &format!("{:.2},{state},{rows_moved}", at.as_secs_f64());
            for seen in [writers, readers] {
                let Figures { per_second, p50_ms, p99_ms, max_ms, .. } = seen;
                text += &format!(",{per_second:.1},{p50_ms:.2},{p99_ms:.2},{max_ms:.2}");
            }
            text.push('\n');
        }
        text
    }

    /// The curves as a picture.
    pub fn to_svg(&self) -> String {
        super::chart::svg(&self.seconds)
    }

    /// The same facts as the text, and every second.
    pub fn to_json(&self) -> Value {
        let errors = |troubles: &mut dyn Iterator<Item = &Trouble>| -> Vec<Value> {
            let counts = by_code(troubles).into_iter();
            counts.map(|((who, code), (count, first))| json!({"session": who, "code": code, "count": count, "first": first})).collect()
        };
        let phase = |phase: &Phase| {
            json!({
                "phase": phase.name, "from_s": phase.from.as_secs_f64(), "to_s": phase.to.as_secs_f64(),
                "rows_moved": phase.rows_moved, "share_moved": phase.rows_moved as f64 / self.rows().max(1) as f64,
                "moving_s": phase.moving_seconds, "writers": phase.writers.to_json(), "readers": phase.readers.to_json(),
                "queries": phase.queries.to_json(), "errors": errors(&mut self.troubles_of(phase)),
            })
        };
        let second = |second: &Second| {
            json!({
                "at_s": second.at.as_secs_f64(), "state": second.state, "rows_moved": second.rows_moved,
                "writers": second.writers.to_json(), "readers": second.readers.to_json(),
            })
        };
        json!({
            "server_version": self.version, "datanodes": self.datanodes, "scale_factor": self.options.scale_factor,
            "sessions": {"writers": self.options.writers, "readers": self.options.readers},
            "lineitem_rows": self.lineitem, "rows": self.rows(),
            "phases": self.phases.iter().map(phase).collect::<Vec<_>>(),
            "alone": {
                "lineitem_rows": self.alone.lineitem, "rows_moved": self.alone.rows_moved, "seconds": self.alone.seconds,
                "lineitem_rows_per_second": self.alone.rows_per_second(),
                "lineitem_rows_per_second_of_steps": self.alone.rows_per_second_of_steps(),
            },
            "commits": self.commits, "unknown_commits": self.unknown, "changes": self.changes, "money": self.money,
            "lineitem_md5": self.md5, "faults": self.faults(),
            "seconds": self.seconds.iter().map(second).collect::<Vec<_>>(),
        })
    }

    fn phase_table(&self) -> String {
        let head = [
            "phase",
            "s",
            "writers: tps",
            "p50",
            "p99",
            "longest pause",
            "readers: /s",
            "p99",
            "longest",
            "queries",
            "wrong",
            "40001",
            "other errors",
            "rows moved",
            "of all rows",
        ];
        let mut table = vec![head.map(str::to_owned).to_vec()];
        for phase in &self.phases {
            let wrong = self.troubles_of(phase).filter(|trouble| trouble.code.is_none()).count();
            let again = self.troubles_of(phase).filter(|trouble| trouble.is_to_be_tried_again()).count();
            let errors = self.troubles_of(phase).count() - wrong - again;
            let ms = |value: f64| format!("{value:.1}");
            let Phase { writers, readers, queries, .. } = phase;
            table.push(vec![
                phase.name.to_owned(),
                format!("{:.0}", (phase.to - phase.from).as_secs_f64()),
                format!("{:.0}", writers.per_second),
                ms(writers.p50_ms),
                ms(writers.p99_ms),
                ms(writers.max_ms),
                format!("{:.0}", readers.per_second),
                ms(readers.p99_ms),
                ms(readers.max_ms),
                queries.count.to_string(),
                wrong.to_string(),
                again.to_string(),
                errors.to_string(),
                grouped(phase.rows_moved),
                format!("{:.2} %", phase.rows_moved as f64 * 100.0 / self.rows().max(1) as f64),
            ]);
        }
        text_table(&table)
    }

    /// The curves of a phase.
    fn chart(&self, phase: &Phase) -> String {
        let highest = |value: fn(&Second) -> f64| self.seconds.iter().map(value).fold(0.0, f64::max);
        let (tps, p99) = (|second: &Second| second.writers.per_second, |second: &Second| second.writers.p99_ms);
        let within = |value: fn(&Second) -> f64| -> Vec<f64> {
            self.seconds.iter().filter(|second| phase.from < second.at && second.at <= phase.to).map(value).collect()
        };
        let line = |value: fn(&Second) -> f64| sparkline(&within(value), highest(value));
        format!("{:<14}  tps {}\n{:<14}  p99 {}\n", phase.name, line(tps), "", line(p99))
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

impl fmt::Display for GrowReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GrowOptions { writers, readers, accounts, .. } = self.options;
        writeln!(
            f,
            "{} datanodes and one more, PostgreSQL {}; lineitem of {} rows (16 columns, primary key) and {} accounts;",
            self.datanodes,
            self.version,
            grouped(self.lineitem),
            grouped(accounts.into())
        )?;
        writeln!(f, "{writers} writers, {readers} readers and a session with TPC-H 1 and 6; milliseconds\n")?;
        writeln!(f, "{}", self.phase_table())?;
        for phase in &self.phases {
            write!(f, "{}", self.chart(phase))?;
        }
        for ((who, code), (count, first)) in by_code(self.troubles.iter()) {
            writeln!(f, "\n{who}: {} times {code}, first: {first}", grouped(count as u64))?;
        }
        if let [alone, others @ ..] = self.phases.as_slice() {
            let ratio = |phase: &Phase| phase.readers.p99_ms / alone.readers.p99_ms.max(1e-9);
            let ratios: Vec<String> =
                others.iter().map(|phase| format!("{:.1} ({})", ratio(phase), phase.name)).collect();
            writeln!(f, "\nreaders' p99 against the one alone: {}", ratios.join(", "))?;
        }
        let Alone { lineitem, rows_moved, seconds, .. } = &self.alone;
        write!(
            f,
            "nothing else running: {} rows of lineitem ({:.2} % of all rows moved) in {seconds:.1} s: {} rows/s",
            grouped(*lineitem),
            *rows_moved as f64 * 100.0 / self.rows().max(1) as f64,
            grouped(self.alone.rows_per_second() as u64)
        )?;
        if let Some(steps) = self.alone.rows_per_second_of_steps() {
            write!(f, ", {} from step to step", grouped(steps as u64))?;
        }
        let md5 = self.md5.first().map_or("", String::as_str);
        match self.faults().as_slice() {
            [] => write!(
                f,
                "\nall rows are there, once: MD5 of lineitem {md5} before and after, {} commits made {} changes of accounts \
                 that hold {}",
                grouped(self.commits),
                grouped(self.changes),
                grouped(self.money)
            ),
            faults => write!(f, "\nWRONG: {}", faults.join("; ")),
        }
    }
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
        let json = report.to_json();
        assert_eq!(json["phases"][0]["errors"].as_array().map(Vec::len), Some(1));
        assert_eq!(json["phases"][1]["errors"][1]["code"], "wrong");
        assert_eq!(report.faults(), ["1 wrong answers"]);
    }
}
