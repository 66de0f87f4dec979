//! Tables and charts that all OLTP experiments have.

use super::sides::{self, CLUSTER, DIRECT, PGBOUNCER, TRANSFER, point};
use crate::suite::{Cell, Chart, Samples, Sheet, Table};

/// What was measured, and how it is called.
pub(super) struct Measured<'a> {
    pub(super) samples: &'a Samples,
    /// What labels are: `protocol`, `clients`, …
    pub(super) by: &'a str,
    pub(super) labels: Vec<String>,
    pub(super) sides: Vec<&'static str>,
    /// The figure that counts, in tables and in full.
    pub(super) rate: (&'a str, &'a str, &'a str),
}

impl Measured<'_> {
    /// Rates with the processor time of a transaction, the sums beside, and a chart of the rates.
    pub(super) fn sheet(&self) -> Sheet {
        let (figure, short, unit) = self.rate;
        let values = |label: &str, side: &str| self.samples.values(&point(label, side), figure);
        let title = first_upper(unit);
        let chart = Chart::bars(&title, unit, &self.labels, &self.sides, values);
        let tables = vec![self.rates(figure, short, &title), self.sums()];
        let remark = sides::remark(self.sides.contains(&PGBOUNCER));
        Sheet { findings: self.finding().into_iter().chain(remark).collect(), tables, charts: vec![chart] }
    }

    fn rates(&self, figure: &str, short: &str, title: &str) -> Table {
        let others = || self.sides.iter().filter(|side| **side != CLUSTER);
        let mut columns = vec![self.by.to_owned()];
        columns.extend(self.sides.iter().map(|side| format!("{side} {short}")));
        columns.extend(others().map(|side| format!("cluster / {side}")));
        columns.extend(["CPU µs: stock".to_owned(), "CPU µs: datanodes".to_owned()]);
        let has_pgbouncer = self.sides.contains(&PGBOUNCER);
        columns.extend(has_pgbouncer.then(|| format!("CPU µs: {PGBOUNCER}")));
        columns.extend(["CPU µs: coordinator".to_owned(), "CPU µs: gtm".to_owned()]);
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let mut table = Table::new(format!("{title}, and processor time of a transaction"), &columns);
        for label in &self.labels {
            let cell = |side: &str, figure: &str| self.samples.cell(&point(label, side), figure, 0);
            let mut row = vec![Cell::text(label)];
            row.extend(self.sides.iter().map(|side| cell(side, figure)));
            row.extend(others().map(|side| self.samples.ratio(figure, &point(label, CLUSTER), &point(label, side))));
            row.extend([DIRECT, CLUSTER].map(|side| cell(side, "server_cpu_us")));
            row.extend(has_pgbouncer.then(|| cell(PGBOUNCER, "coordinator_cpu_us")));
            row.extend(["coordinator_cpu_us", "gtm_cpu_us"].map(|figure| cell(CLUSTER, figure)));
            table.push(row);
        }
        table
    }

    /// Mean, median and 99th percentile on each side: a row a label, and a kind of transaction, which has a prefix and a name. A single
    /// kind needs no name.
    pub(super) fn times(&self, title: &str, kinds: &[(&str, &str)]) -> Table {
        let has_names = kinds.len() > 1;
        let mut columns = vec![self.by.to_owned()];
        columns.extend(has_names.then(|| "transaction".to_owned()));
        columns.extend(self.sides.iter().flat_map(|side| ["mean", "50 %", "99 %"].map(|of| format!("{side}: {of}"))));
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let mut table = Table::new(title, &columns);
        for label in &self.labels {
            for (prefix, name) in kinds {
                let of_side = |side: &&str| {
                    let cell = |figure| self.samples.cell(&point(label, side), &format!("{prefix}{figure}"), 2);
                    ["latency_ms", "p50_ms", "p99_ms"].map(cell)
                };
                let mut row = vec![Cell::text(label)];
                row.extend(has_names.then(|| Cell::text(*name)));
                row.extend(self.sides.iter().flat_map(of_side));
                table.push(row);
            }
        }
        table
    }

    fn sums(&self) -> Table {
        let columns = [self.by, "transfers/s", "sums/s", "wrong sums"];
        let mut table = Table::new("Transfer-sum: money moved between datanodes and summed beside the load", &columns);
        for label in &self.labels {
            let cells = [("transfers_per_second", 0), ("sums_per_second", 0), ("wrong_sums", 0)];
            let cells = cells.map(|(figure, decimals)| self.samples.cell(&point(label, TRANSFER), figure, decimals));
            table.push(std::iter::once(Cell::text(label)).chain(cells).collect());
        }
        table
    }

    fn finding(&self) -> Option<String> {
        let all = self.labels.iter().flat_map(|label| self.samples.values(&point(label, TRANSFER), "wrong_sums"));
        let all: Vec<f64> = all.collect();
        let wrong: f64 = all.iter().sum();
        let text = match wrong {
            0.0 => "No sum was wrong while money moved between datanodes beside the load.".to_owned(),
            _ => format!("{wrong:.0} SUMS WERE WRONG while money moved between datanodes beside the load."),
        };
        (!all.is_empty()).then_some(text)
    }
}

fn first_upper(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{Readings, Sample, THIS};

    fn sample(point: &str, figures: &[(&str, f64)]) -> Sample {
        let readings =
            figures.iter().fold(Readings::default(), |readings, (name, value)| readings.figure(name, *value));
        let (point, build) = (point.to_owned(), THIS.to_owned());
        Sample { point, build, round: 1, seconds: 1.0, others_cores: 0.0, readings }
    }

    #[test]
    fn a_row_has_all_sides_and_their_ratio() {
        let samples = [
            sample("8 clients: direct", &[("tps", 200.0), ("p50_ms", 1.0)]),
            sample("8 clients: cluster", &[("tps", 150.0), ("p50_ms", 2.0)]),
            sample("8 clients: transfer-sum", &[("sums_per_second", 10.0), ("wrong_sums", 3.0)]),
        ];
        let samples = Samples::of(&samples, THIS);
        let measured = Measured {
            samples: &samples,
            by: "load",
            labels: vec!["8 clients".to_owned()],
            sides: vec![DIRECT, CLUSTER],
            rate: ("tps", "tps", "transactions/s"),
        };
        let sheet = measured.sheet();
        assert_eq!(sheet.findings[0], "3 SUMS WERE WRONG while money moved between datanodes beside the load.");
        assert!(sheet.findings[1].starts_with("Nothing went through PgBouncer"), "{:?}", sheet.findings);
        let shown: Vec<String> = sheet.tables[0].rows[0].iter().map(Cell::shown).collect();
        assert_eq!(shown[..4], ["8 clients", "200", "150", "0.75"]);
        let times = measured.times("t", &[("", "")]);
        assert_eq!(times.columns[..3], ["load", "direct: mean", "direct: 50 %"]);
        assert_eq!(times.rows[0][5].shown(), "2.00");
        let times = measured.times("t", &[("", "Payment"), ("new_order_", "New-Order")]);
        assert_eq!((times.columns[1].as_str(), times.rows.len()), ("transaction", 1));
    }
}
