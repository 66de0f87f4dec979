//! What `loxo bench load` has found.

use std::fmt;

use crate::suite::{Cell, Chart, Sheet, Table};
use crate::tools::stats::median;

/// What one side of the load benchmark did, for one kind of table.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Seconds of each round.
    pub seconds: Vec<f64>,
    /// CPU seconds of each round: datanodes, or the stock servers.
    pub server_cpu: Vec<f64>,
    /// CPU seconds of each round: coordinators (and gtm).
    pub coordinator_cpu: Vec<f64>,
    /// CPU seconds of each round: `loxo load`.
    pub loader_cpu: Vec<f64>,
}

/// The outcome of `loxo bench load`.
#[derive(Clone, Debug)]
pub struct LoadReport {
    /// Rows of one round.
    pub rows: u64,
    /// Bytes of input of one round.
    pub bytes: u64,
    /// Table kind (`logged` or `unlogged`), stock servers, cluster.
    pub measured: Vec<(&'static str, Measured, Measured)>,
    /// Table kind, and every way of loading, these two among them; empty unless all were asked for.
    pub ways: Vec<(&'static str, Vec<(String, Measured)>)>,
}

impl LoadReport {
    fn rows_per_second(&self, measured: &Measured) -> Vec<f64> {
        measured.seconds.iter().map(|seconds| self.rows as f64 / seconds).collect()
    }

    fn per_million(&self, cpu: &[f64]) -> Vec<f64> {
        cpu.iter().map(|seconds| seconds * 1e6 / self.rows.max(1) as f64).collect()
    }

    /// Rows a second through the cluster, divided by the stock servers'; no number if a side was not measured.
    pub fn ratio(&self, stock: &Measured, cluster: &Measured) -> f64 {
        measured_median(&stock.seconds) / measured_median(&cluster.seconds)
    }

    /// Processor time of the stock servers, divided by that of the whole cluster; no number if a side was not measured.
    pub fn work_ratio(&self, stock: &Measured, cluster: &Measured) -> f64 {
        let cluster = measured_median(&cluster.server_cpu) + measured_median(&cluster.coordinator_cpu);
        measured_median(&stock.server_cpu) / cluster
    }

    fn table(&self) -> Table {
        let mut table = Table::new(
            "Rows per second, and processor seconds per million rows",
            &[
                "table",
                "stock rows/s",
                "cluster rows/s",
                "ratio",
                "CPU s: stock",
                "CPU s: datanodes",
                "CPU s: coordinators",
                "stock CPU / cluster CPU",
            ],
        );
        for (kind, stock, cluster) in &self.measured {
            table.push(vec![
                Cell::text(*kind),
                Cell::of(&self.rows_per_second(stock), 0),
                Cell::of(&self.rows_per_second(cluster), 0),
                Cell::number(self.ratio(stock, cluster), 2),
                Cell::of(&self.per_million(&stock.server_cpu), 3),
                Cell::of(&self.per_million(&cluster.server_cpu), 3),
                Cell::of(&self.per_million(&cluster.coordinator_cpu), 3),
                Cell::number(self.work_ratio(stock, cluster), 2),
            ]);
        }
        table
    }

    fn table_of_ways(&self) -> Table {
        let columns =
            ["way", "table", "M rows/s", "CPU s: servers", "CPU s: coordinators", "CPU s: loader", "CPU s: all"];
        let mut table = Table::new("All ways of loading, processor seconds per million rows", &columns);
        for (kind, ways) in &self.ways {
            for (way, measured) in ways {
                let speed: Vec<f64> = self.rows_per_second(measured).iter().map(|rows| rows / 1e6).collect();
                let cpu = [&measured.server_cpu, &measured.coordinator_cpu, &measured.loader_cpu];
                let cpu = cpu.map(|seconds| self.per_million(seconds));
                let all = cpu.iter().map(|seconds| median(seconds)).sum();
                let mut row = vec![Cell::text(way), Cell::text(*kind), Cell::of(&speed, 2)];
                row.extend(cpu.iter().map(|seconds| Cell::of(seconds, 3)));
                row.push(if measured.seconds.is_empty() { Cell::of(&[], 3) } else { Cell::number(all, 3) });
                table.push(row);
            }
        }
        table
    }

    fn chart(&self) -> Chart {
        let names: Vec<String> = self.measured.iter().map(|(kind, ..)| (*kind).to_owned()).collect();
        Chart::bars("Rows per second", "rows/s", &names, &["stock servers", "cluster"], |name, side| {
            let of_kind = self.measured.iter().find(|(kind, ..)| *kind == name);
            of_kind.map_or(Vec::new(), |(_, stock, cluster)| {
                self.rows_per_second(if side == "cluster" { cluster } else { stock })
            })
        })
    }

    /// Tables and a chart.
    pub fn sheet(&self) -> Sheet {
        let ratio = |(kind, stock, cluster): &(&'static str, Measured, Measured)| {
            let (by_time, by_work) = (self.ratio(stock, cluster), self.work_ratio(stock, cluster));
            (by_time.is_finite() && by_work.is_finite()).then(|| {
                format!("{kind}: {by_time:.2} times the stock servers by the clock, {by_work:.2} by processor time.")
            })
        };
        Sheet {
            findings: self.measured.iter().filter_map(ratio).collect(),
            tables: vec![self.table(), self.table_of_ways()],
            charts: vec![self.chart()],
        }
    }
}

fn measured_median(values: &[f64]) -> f64 {
    if values.is_empty() { f64::NAN } else { median(values) }
}

impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sheet().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_rows(rows: u64) -> LoadReport {
        LoadReport { rows, bytes: 1, measured: Vec::new(), ways: Vec::new() }
    }

    #[test]
    fn the_ratio_is_of_medians() {
        let side = |seconds: &[f64]| Measured { seconds: seconds.to_vec(), ..Measured::default() };
        let measured = vec![("logged", side(&[2.0, 9.0, 2.0]), side(&[1.0, 1.0, 8.0]))];
        let report = LoadReport { measured, ..of_rows(1_000_000) };
        assert_eq!(report.table().rows[0][3], Cell::number(2.0, 2));
    }

    #[test]
    fn a_side_that_was_not_measured_has_no_ratio() {
        let stock = Measured { seconds: vec![2.0], server_cpu: vec![1.0], ..Measured::default() };
        let report = LoadReport { measured: vec![("logged", stock, Measured::default())], ..of_rows(1_000_000) };
        let row: Vec<String> = report.table().rows[0].iter().map(Cell::shown).collect();
        assert_eq!((row[3].as_str(), row[7].as_str()), ("–", "–"), "{row:?}");
        assert!(report.sheet().findings.is_empty());
    }

    #[test]
    fn processor_time_of_a_way_is_of_all_who_took_part() {
        let direct =
            Measured { seconds: vec![4.0], server_cpu: vec![1.0], coordinator_cpu: vec![0.25], loader_cpu: vec![0.5] };
        let ways = vec![("unlogged", vec![("a way".to_owned(), direct)])];
        let report = LoadReport { ways, ..of_rows(2_000_000) };
        let row: Vec<String> = report.table_of_ways().rows[0].iter().map(Cell::shown).collect();
        assert_eq!(row, ["a way", "unlogged", "0.50", "0.500", "0.125", "0.250", "0.875"]);
    }
}
