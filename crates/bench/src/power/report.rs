//! What the power run found.

use std::fmt;

use super::options::{FAILED, Part, PowerOptions};
use super::parts;
use crate::published;
use crate::suite::{Cell, Chart, Samples, Sheet, Table, WRONG, cores};

/// Are the cluster's rows right?
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Answered {
    /// Those of one server (and the official ones).
    #[default]
    Right,
    /// Others; says how they differ.
    Wrong(String),
    /// An error instead of rows.
    Failed(String),
}

/// One query: shortest times in seconds.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct QueryTimes {
    pub number: usize,
    pub stock: Option<f64>,
    pub stock_with_workers: Option<f64>,
    pub cluster: Option<f64>,
    /// Processor seconds of all the cluster's processes in the last round.
    pub cluster_cpu: Option<f64>,
    /// Processor seconds of the busiest datanode, and of coordinator and gtm.
    pub critical_cpu: Option<f64>,
    pub answered: Answered,
}

/// All queries on a cluster of one size.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct PowerReport {
    pub datanodes: u16,
    pub queries: Vec<QueryTimes>,
}

const COLUMNS: [&str; 8] =
    ["query", "stock", "with workers", "cluster", "cluster / stock", "cluster / with workers", "cluster CPU", "answer"];

impl PowerReport {
    /// The report of those queries that were run.
    pub(super) fn of(options: &PowerOptions, datanodes: u16, samples: &Samples) -> Self {
        let times = |number: &usize| {
            let point = Part::Query(*number).point(datanodes);
            let fastest = |figure| samples.values(&point, figure).into_iter().reduce(f64::min);
            let answered = match (samples.word(&point, WRONG), samples.word(&point, FAILED)) {
                (Some(how), _) => Answered::Wrong(how.to_owned()),
                (None, Some(error)) => Answered::Failed(error.to_owned()),
                (None, None) => Answered::Right,
            };
            QueryTimes {
                number: *number,
                stock: fastest("stock"),
                stock_with_workers: fastest("stock_with_workers"),
                cluster: fastest("cluster"),
                cluster_cpu: fastest("cluster_cpu"),
                critical_cpu: fastest("critical_cpu"),
                answered,
            }
        };
        let queries = options
            .queries
            .iter()
            .map(times)
            .filter(|query| query.stock.is_some() || query.answered != Answered::Right);
        Self { datanodes, queries: queries.collect() }
    }

    /// Queries whose answer was right.
    pub fn right(&self) -> usize {
        self.queries.iter().filter(|query| query.answered == Answered::Right).count()
    }

    /// Numbers of the queries that every side has answered in all rounds.
    fn answered(&self) -> Vec<usize> {
        let is_answered = |query: &&QueryTimes| {
            let has_failed = matches!(query.answered, Answered::Failed(_));
            !has_failed && query.cluster.is_some() && query.stock.is_some() && query.stock_with_workers.is_some()
        };
        self.queries.iter().filter(is_answered).map(|query| query.number).collect()
    }

    /// Sum of one column over some queries.
    fn sum(&self, numbers: &[usize], time: impl Fn(&QueryTimes) -> Option<f64>) -> f64 {
        self.queries.iter().filter(|query| numbers.contains(&query.number)).filter_map(time).sum()
    }

    fn table(&self) -> Table {
        let mut table = Table::new(format!("Milliseconds, {} datanodes", self.datanodes), &COLUMNS);
        // Also those that have failed, and so have no number.
        table.rows.extend(self.queries.iter().map(QueryTimes::cells));
        let answered = self.answered();
        let sums = QueryTimes {
            stock: Some(self.sum(&answered, |query| query.stock)),
            stock_with_workers: Some(self.sum(&answered, |query| query.stock_with_workers)),
            cluster: Some(self.sum(&answered, |query| query.cluster)),
            cluster_cpu: Some(self.sum(&answered, |query| query.cluster_cpu)),
            ..QueryTimes::default()
        };
        let mut cells = sums.cells();
        cells[0] = Cell::text(match self.queries.len() - answered.len() {
            0 => "sum".to_owned(),
            failed => format!("sum without the {failed} that failed"),
        });
        cells[7] = Cell::text(format!("{} of {} right", self.right(), self.queries.len()));
        table.push(cells);
        table
    }

    fn chart(&self) -> Chart {
        let names: Vec<String> = self.queries.iter().map(|query| format!("Q{}", query.number)).collect();
        let title = format!("Time on the cluster of {} datanodes / time on one server", self.datanodes);
        Chart::bars(&title, "ratio", &names, &["without workers", "with workers"], |name, side| {
            let query = self.queries.iter().find(|query| name == format!("Q{}", query.number));
            let ratio = query.and_then(|query| {
                let stock = if side == "with workers" { query.stock_with_workers } else { query.stock };
                Some(query.cluster? / stock?)
            });
            ratio.into_iter().collect()
        })
    }
}

impl QueryTimes {
    fn cells(&self) -> Vec<Cell> {
        let milliseconds = |seconds: Option<f64>| seconds.map_or(Cell::of(&[], 0), |s| Cell::number(s * 1e3, 0));
        let answer = match &self.answered {
            Answered::Right => "right".to_owned(),
            Answered::Wrong(text) => format!("WRONG: {text}"),
            Answered::Failed(text) => format!("failed: {text}"),
        };
        vec![
            Cell::text(format!("Q{}", self.number)),
            milliseconds(self.stock),
            milliseconds(self.stock_with_workers),
            milliseconds(self.cluster),
            Cell::ratio(self.cluster, self.stock),
            Cell::ratio(self.cluster, self.stock_with_workers),
            milliseconds(self.cluster_cpu),
            Cell::text(answer),
        ]
    }
}

/// Clusters of different sizes, and how work grows and the critical path shrinks.
pub(super) fn sheet(options: &PowerOptions, reports: &[PowerReport], samples: &Samples) -> Sheet {
    let measured: Vec<&PowerReport> = reports.iter().filter(|report| !report.queries.is_empty()).collect();
    let finding = |report: &&PowerReport| {
        let (right, all, answered) = (report.right(), report.queries.len(), report.answered());
        let answers = format!("{} datanodes: {right} of {all} answers right", report.datanodes);
        if answered.is_empty() {
            return format!("{answers}.");
        }
        let cluster = report.sum(&answered, |query| query.cluster);
        let stock = report.sum(&answered, |query| query.stock);
        let workers = report.sum(&answered, |query| query.stock_with_workers);
        format!(
            "{answers}; the sum of the times is {:.2} of one server without workers and {:.2} with them.",
            cluster / stock,
            cluster / workers
        )
    };
    let mut sheet = Sheet {
        findings: measured.iter().map(finding).collect(),
        tables: measured.iter().map(|report| report.table()).collect(),
        charts: measured.iter().map(|report| report.chart()).collect(),
    };
    let speed_up = |report: &&PowerReport| {
        let answered = report.answered();
        let sum = |time: fn(&QueryTimes) -> Option<f64>| report.sum(&answered, time);
        (!answered.is_empty()).then(|| (report.datanodes, sum(|query| query.stock) / sum(|query| query.cluster)))
    };
    let speed_ups: Vec<(u16, f64)> = measured.iter().filter_map(speed_up).collect();
    if !speed_ups.is_empty() {
        sheet.tables.push(published::speed_ups(&speed_ups, cores()));
    }
    for report in reports {
        sheet.tables.extend(parts::tables(options, report.datanodes, samples));
        sheet.findings.extend(parts::findings(options, report.datanodes, samples));
        sheet.findings.extend(mean(report, samples));
    }
    if let [first, _, ..] = measured.as_slice() {
        let columns = ["datanodes", "CPU s, all processes", "against the first", "critical path, CPU s", "speed-up"];
        let mut table = Table::new("All queries together", &columns);
        let in_all = |number: &usize| measured.iter().all(|report| report.answered().contains(number));
        let numbers: Vec<usize> = first.answered().into_iter().filter(in_all).collect();
        let both = |report: &PowerReport| {
            (report.sum(&numbers, |query| query.cluster_cpu), report.sum(&numbers, |query| query.critical_cpu))
        };
        let (first_cpu, first_path) = both(first);
        for report in &measured {
            let (cpu, path) = both(report);
            table.push(vec![
                Cell::text(report.datanodes.to_string()),
                Cell::number(cpu, 2),
                Cell::number(cpu / first_cpu, 2),
                Cell::number(path, 2),
                Cell::number(first_path / path, 2),
            ]);
        }
        sheet.tables.push(table);
    }
    sheet
}

/// Queries and refresh functions in one figure, if all of them were answered.
fn mean(report: &PowerReport, samples: &Samples) -> Option<String> {
    let functions = [Part::Insert, Part::Delete].map(|part| part.point(report.datanodes));
    let mean = |of: fn(&QueryTimes) -> Option<f64>, side: &str| {
        let queries = report.queries.iter().map(of);
        let functions = functions.iter().map(|point| samples.median(point, side));
        let logarithms = queries.chain(functions).map(|seconds| seconds.map(f64::ln)).collect::<Option<Vec<_>>>()?;
        Some((logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp() * 1e3)
    };
    let (cluster, stock) = (mean(|query| query.cluster, "cluster")?, mean(|query| query.stock, "stock")?);
    Some(format!(
        "{} datanodes: the geometric mean of queries and refresh functions is {cluster:.0} ms, on one server without workers {stock:.0} ms.",
        report.datanodes
    ))
}

impl fmt::Display for QueryTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cells: Vec<String> = self.cells().iter().map(Cell::shown).collect();
        f.write_str(&cells.join(" | "))
    }
}

impl fmt::Display for PowerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.table().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_that_failed_is_in_no_sum() {
        let times = |number, cluster: Option<f64>, stock| QueryTimes {
            number,
            stock,
            stock_with_workers: stock,
            cluster,
            cluster_cpu: Some(1.0),
            answered: if cluster.is_some() { Answered::Right } else { Answered::Failed("no".to_owned()) },
            ..QueryTimes::default()
        };
        let queries = vec![times(1, Some(1.0), Some(2.0)), times(2, None, Some(100.0)), times(3, None, None)];
        let report = PowerReport { datanodes: 2, queries };
        let rows: Vec<Vec<String>> =
            report.table().rows.iter().map(|row| row.iter().map(Cell::shown).collect()).collect();
        assert_eq!(rows[2], ["Q3", "–", "–", "–", "–", "–", "1,000", "failed: no"]);
        let sum = ["sum without the 2 that failed", "2,000", "2,000", "1,000", "0.50", "0.50", "1,000", "1 of 3 right"];
        assert_eq!(rows[3], sum);
        let options = PowerOptions::quick(super::super::tables::Layout::Mixed);
        let findings = sheet(&options, &[report], &Samples::default()).findings;
        assert!(
            findings[0].contains("1 of 3 answers right") && findings[0].contains("0.50 of one server"),
            "{findings:?}"
        );
    }
}
