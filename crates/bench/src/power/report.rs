//! What the power run found.

use std::fmt;

use super::tables::Layout;
use super::{PowerOptions, point};
use crate::suite::{Cell, Chart, Samples, Sheet, Table};

/// Are the cluster's rows right?
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Verdict {
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
    /// Of the busiest datanode, and of coordinator and gtm.
    pub critical_cpu: Option<f64>,
    pub verdict: Verdict,
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
    /// Of those queries that were run.
    pub(super) fn of(options: &PowerOptions, datanodes: u16, samples: &Samples) -> Self {
        let times = |number: &usize| {
            let point = point(datanodes, *number);
            let fastest = |figure| samples.values(&point, figure).into_iter().reduce(f64::min);
            let verdict = match (samples.word(&point, "wrong"), samples.word(&point, "failed")) {
                (Some(how), _) => Verdict::Wrong(how.to_owned()),
                (None, Some(error)) => Verdict::Failed(error.to_owned()),
                (None, None) => Verdict::Right,
            };
            QueryTimes {
                number: *number,
                stock: fastest("stock"),
                stock_with_workers: fastest("stock_with_workers"),
                cluster: fastest("cluster"),
                cluster_cpu: fastest("cluster_cpu"),
                critical_cpu: fastest("critical_cpu"),
                verdict,
            }
        };
        let queries = options.queries.iter().map(times).filter(|query| query.stock.is_some());
        Self { datanodes, queries: queries.collect() }
    }

    /// Queries whose answer was right.
    pub fn right(&self) -> usize {
        self.queries.iter().filter(|query| query.verdict == Verdict::Right).count()
    }

    /// Sum of the times of one column.
    fn sum(&self, time: impl Fn(&QueryTimes) -> Option<f64>) -> f64 {
        self.queries.iter().filter_map(time).sum()
    }

    fn table(&self) -> Table {
        let mut table = Table::new(format!("Milliseconds, {} datanodes", self.datanodes), &COLUMNS);
        self.queries.iter().for_each(|query| table.push(query.cells()));
        let sums = QueryTimes {
            stock: Some(self.sum(|query| query.stock)),
            stock_with_workers: Some(self.sum(|query| query.stock_with_workers)),
            cluster: Some(self.sum(|query| query.cluster)),
            cluster_cpu: Some(self.sum(|query| query.cluster_cpu)),
            ..QueryTimes::default()
        };
        let mut cells = sums.cells();
        cells[0] = Cell::text("sum");
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
        let answer = match &self.verdict {
            Verdict::Right => "right".to_owned(),
            Verdict::Wrong(text) => format!("WRONG: {text}"),
            Verdict::Failed(text) => format!("failed: {text}"),
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

pub(super) fn layout_name(layout: Layout) -> &'static str {
    match layout {
        Layout::Mixed => "mixed",
        Layout::Hash => "hash",
    }
}

/// Clusters of different sizes, and how work grows and the critical path shrinks.
pub(super) fn sheet(reports: &[PowerReport]) -> Sheet {
    let measured: Vec<&PowerReport> = reports.iter().filter(|report| !report.queries.is_empty()).collect();
    let finding = |report: &&PowerReport| {
        let (cluster, stock, workers) = (
            report.sum(|query| query.cluster),
            report.sum(|query| query.stock),
            report.sum(|query| query.stock_with_workers),
        );
        format!(
            "{} datanodes: {} of {} answers right; the sum of the times is {:.2} of one server without workers and {:.2} with them.",
            report.datanodes,
            report.right(),
            report.queries.len(),
            cluster / stock,
            cluster / workers
        )
    };
    let mut sheet = Sheet {
        findings: measured.iter().map(finding).collect(),
        tables: measured.iter().map(|report| report.table()).collect(),
        charts: measured.iter().map(|report| report.chart()).collect(),
    };
    if let [first, _, ..] = measured.as_slice() {
        let columns = ["datanodes", "CPU s, all processes", "against the first", "critical path, CPU s", "speed-up"];
        let mut table = Table::new("All queries together", &columns);
        let both = |report: &PowerReport| (report.sum(|q| q.cluster_cpu), report.sum(|q| q.critical_cpu));
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
