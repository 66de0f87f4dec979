//! What the queries have shown.

use super::queries::Query;
use super::verdict::{Tally, Verdict};
use super::{LOAD, point};
use crate::beside;
use crate::suite::{Cell, Chart, Samples, Sheet, Table};

const COLUMNS: [&str; 9] = [
    "query",
    "stock",
    "with workers",
    "cluster",
    "cluster / stock",
    "cluster / with workers",
    "cluster CPU",
    "rows",
    "answer",
];
/// More are not to be told apart in one chart.
const CHART_QUERIES_MAX: usize = 25;

/// Shortest times in seconds.
struct Times {
    name: String,
    stock: Option<f64>,
    workers: Option<f64>,
    cluster: Option<f64>,
    cpu: Option<f64>,
    rows: Option<f64>,
    answer: String,
}

impl Times {
    /// `None` if it was not measured.
    fn of(query: &Query, samples: &Samples, tally: &mut Tally) -> Option<Self> {
        let point = point(query);
        let answer = Verdict::read(samples, &point, tally)?;
        let fastest = |figure| samples.values(&point, figure).into_iter().reduce(f64::min);
        Some(Self {
            name: query.name.clone(),
            stock: fastest("stock"),
            workers: fastest("stock_with_workers"),
            cluster: fastest("cluster"),
            cpu: fastest("cluster_cpu"),
            rows: samples.median(&point, "rows"),
            answer,
        })
    }

    fn cells(&self) -> Vec<Cell> {
        let milliseconds = |seconds: Option<f64>| seconds.map_or(Cell::of(&[], 0), |s| Cell::number(s * 1e3, 0));
        vec![
            Cell::text(&self.name),
            milliseconds(self.stock),
            milliseconds(self.workers),
            milliseconds(self.cluster),
            Cell::ratio(self.cluster, self.stock),
            Cell::ratio(self.cluster, self.workers),
            milliseconds(self.cpu),
            self.rows.map_or(Cell::of(&[], 0), |rows| Cell::number(rows, 0)),
            Cell::text(&self.answer),
        ]
    }

    fn is_answered(&self) -> bool {
        self.stock.is_some() && self.workers.is_some() && self.cluster.is_some()
    }
}

pub(super) fn sheet(queries: &[Query], samples: &Samples) -> Sheet {
    let mut tally = Tally::default();
    let all: Vec<Times> = queries.iter().filter_map(|query| Times::of(query, samples, &mut tally)).collect();
    let load = beside::load_table_of(samples, LOAD, "Load, all tables together");
    let mut sheet = Sheet::default();
    if !load.rows.is_empty() {
        sheet.tables.push(load);
    }
    if all.is_empty() {
        return sheet;
    }
    sheet.findings = findings(&all, tally);
    let mut table = Table::new("Milliseconds", &COLUMNS);
    // Also those without a number.
    table.rows.extend(all.iter().map(Times::cells));
    sheet.tables.push(table);
    sheet.charts = all.chunks(CHART_QUERIES_MAX).map(chart).collect();
    sheet
}

fn findings(all: &[Times], tally: Tally) -> Vec<String> {
    let Tally { right, wrong, refused, failed, given_up, not_compared } = tally;
    let mut findings = vec![format!(
        "{} queries: {right} answers right, {wrong} wrong, {refused} refused, {failed} errors, {given_up} given up, {not_compared} that \
         one server does not answer.",
        all.len()
    )];
    let empty = all.iter().filter(|times| times.rows == Some(0.0)).count();
    if empty > 0 {
        findings.push(format!(
            "{empty} answers have no rows: of so little data they say less; a greater scale factor has more."
        ));
    }
    let answered: Vec<&Times> = all.iter().filter(|times| times.is_answered()).collect();
    let sum = |of: fn(&Times) -> Option<f64>| answered.iter().filter_map(|times| of(times)).sum::<f64>();
    if !answered.is_empty() {
        let cluster = sum(|times| times.cluster);
        findings.push(format!(
            "Of the {} that all sides have answered, the sum of the times is {:.2} of one server without workers and {:.2} with them.",
            answered.len(),
            cluster / sum(|times| times.stock),
            cluster / sum(|times| times.workers)
        ));
    }
    findings
}

fn chart(all: &[Times]) -> Chart {
    let names: Vec<String> = all.iter().map(|times| times.name.clone()).collect();
    let title = match all {
        [first, .., last] => {
            format!("Time on the cluster / time on one server, queries {} to {}", first.name, last.name)
        }
        _ => "Time on the cluster / time on one server".to_owned(),
    };
    Chart::bars(&title, "ratio", &names, &["without workers", "with workers"], |name, side| {
        let times = all.iter().find(|times| times.name == name);
        let ratio = times.and_then(|times| {
            let stock = if side == "with workers" { times.workers } else { times.stock };
            Some(times.cluster? / stock?)
        });
        ratio.into_iter().collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{Readings, Sample, THIS, WRONG};

    fn sample(point: &str, readings: Readings) -> Sample {
        let (point, build) = (point.to_owned(), THIS.to_owned());
        Sample { point, build, round: 1, seconds: 1.0, others_cores: 0.0, readings }
    }

    #[test]
    fn every_answer_is_counted_once_and_only_whole_ones_are_in_the_sum() {
        let times = |cluster| {
            Readings::default().figure("stock", 2.0).figure("stock_with_workers", 1.0).figure("cluster", cluster)
        };
        let without = Readings::default().figure("stock", 2.0).figure("stock_with_workers", 1.0);
        let samples = [
            sample("load", Readings::default().figure("copy_stock", 2.0).figure("copy_cluster", 3.0)),
            sample("query 1", times(1.0)),
            sample("query 2", times(3.0).word(WRONG, "1 rows, not the 2 of one server")),
            sample("query 3", without.word("refused", "not yet (0A000)")),
        ];
        let query = |name: &str| Query { name: name.to_owned(), sql: String::new() };
        let sheet = sheet(&["1", "2", "3", "4"].map(query), &Samples::of(&samples, THIS));
        assert!(sheet.findings[0].starts_with("3 queries: 1 answers right, 1 wrong, 1 refused, 0 errors"), "{sheet:?}");
        assert!(
            sheet.findings[1].starts_with("Of the 2 that") && sheet.findings[1].contains("1.00 of one"),
            "{sheet:?}"
        );
        let shown = |row: &[Cell]| row.iter().map(Cell::shown).collect::<Vec<_>>();
        let queries = &sheet.tables[1];
        assert_eq!(
            shown(&queries.rows[2]),
            ["3", "2,000", "1,000", "–", "–", "–", "–", "–", "refused: not yet (0A000)"]
        );
        assert_eq!(queries.rows.len(), 3);
        assert_eq!(shown(&sheet.tables[0].rows[0]), ["COPY", "2.00", "3.00", "1.50"]);
    }
}
