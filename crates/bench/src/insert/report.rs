//! What `loxo bench insert` prints.

use std::fmt;

use serde_json::{Value, json};

use super::{InsertOptions, ROWS, Shape, Spread};
use crate::report::{grouped, median, text_table};

/// One entry a round in each list.
#[derive(Clone, Debug, Default)]
pub(super) struct Side {
    pub(super) rows_per_second: Vec<f64>,
    /// Processor time per row, of all servers together.
    pub(super) server_micros: Vec<f64>,
    /// Of the server with most of it.
    pub(super) busiest_micros: Vec<f64>,
    pub(super) coordinator_micros: Vec<f64>,
}

impl Side {
    /// Those of a round: one entry a process, `servers` of them first, then coordinators and gtm.
    pub(super) fn add_micros(&mut self, processes: &[f64], servers: usize) {
        let (servers, coordinators) = processes.split_at(servers.min(processes.len()));
        self.server_micros.push(servers.iter().sum());
        self.busiest_micros.push(servers.iter().copied().fold(0.0, f64::max));
        self.coordinator_micros.push(coordinators.iter().sum());
    }

    /// Of all processes.
    fn micros(&self) -> f64 {
        median(&self.server_micros) + median(&self.coordinator_micros)
    }

    /// What is left if every datanode has a machine of its own.
    fn critical_micros(&self) -> f64 {
        median(&self.busiest_micros) + median(&self.coordinator_micros)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) shape: Shape,
    pub(super) spread: Spread,
    pub(super) direct: Side,
    pub(super) cluster: Side,
}

impl Line {
    fn ratio(&self) -> f64 {
        median(&self.cluster.rows_per_second) / median(&self.direct.rows_per_second).max(1e-9)
    }

    fn keys(&self) -> &'static str {
        match self.spread {
            Spread::OneKey => "one node",
            Spread::ManyKeys => "all nodes",
        }
    }
}

/// The outcome of `loxo bench insert`.
#[derive(Clone, Debug)]
pub struct InsertReport {
    pub(super) options: InsertOptions,
    pub(super) version: String,
    pub(super) datanodes: usize,
    pub(super) lines: Vec<Line>,
}

/// The same on clusters of different sizes.
#[derive(Clone, Debug)]
pub struct InsertScaling(pub Vec<InsertReport>);

impl InsertReport {
    /// The same facts as the text, plus those of every round.
    pub fn to_json(&self) -> Value {
        let side = |side: &Side| {
            json!({
                "rows_per_second": median(&side.rows_per_second), "rows_per_second_of_rounds": side.rows_per_second,
                "server_cpu_microseconds": median(&side.server_micros),
                "busiest_server_cpu_microseconds": median(&side.busiest_micros),
                "coordinator_cpu_microseconds": median(&side.coordinator_micros),
            })
        };
        let line = |line: &Line| {
            json!({
                "shape": line.shape.name(), "rows_on": line.keys(), "ratio": line.ratio(),
                "direct": side(&line.direct), "cluster": side(&line.cluster),
            })
        };
        json!({
            "clients": self.options.clients, "seconds": self.options.seconds, "rows_of_a_transaction": ROWS,
            "server_version": self.version, "datanodes": self.datanodes, "lines": self.lines.iter().map(line).collect::<Vec<_>>(),
        })
    }
}

impl fmt::Display for InsertReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let InsertOptions { clients, seconds, rounds, .. } = &self.options;
        writeln!(f, "transactions of {ROWS} rows, {clients} clients, PostgreSQL {};", self.version)?;
        writeln!(f, "medians of {rounds} rounds of {seconds} s, one stock server and cluster in turn")?;
        let head = [
            "shape",
            "rows on",
            "direct rows/s",
            "cluster rows/s",
            "ratio",
            "CPU µs a row:",
            "stock",
            "datanodes",
            "coordinator",
        ];
        let mut table = vec![head.map(str::to_owned).to_vec()];
        for line in &self.lines {
            let rows = |side: &Side| grouped(median(&side.rows_per_second) as u64);
            let micros = |list: &[f64]| format!("{:.1}", median(list));
            table.push(vec![
                line.shape.name().to_owned(),
                line.keys().to_owned(),
                rows(&line.direct),
                rows(&line.cluster),
                format!("{:.2}", line.ratio()),
                String::new(),
                micros(&line.direct.server_micros),
                micros(&line.cluster.server_micros),
                micros(&line.cluster.coordinator_micros),
            ]);
        }
        write!(f, "\n{}", text_table(&table))
    }
}

impl InsertScaling {
    /// For machines.
    pub fn to_json(&self) -> Value {
        self.0.iter().map(InsertReport::to_json).collect()
    }

    /// One shape and spread at all sizes; the lines of all reports are alike.
    fn rows(&self, at: usize) -> Vec<Vec<String>> {
        let sizes: Vec<(usize, &Line)> =
            self.0.iter().filter_map(|report| Some((report.datanodes, report.lines.get(at)?))).collect();
        let Some((_, first)) = sizes.first() else { return Vec::new() };
        let row = |(datanodes, line): &(usize, &Line)| {
            let (cpu, path) = (line.cluster.micros(), line.cluster.critical_micros());
            vec![
                line.shape.name().to_owned(),
                line.keys().to_owned(),
                datanodes.to_string(),
                format!("{:.2}", line.ratio()),
                format!("{:.1}", median(&line.direct.server_micros)),
                format!("{cpu:.1}"),
                format!("{:.2}", cpu / first.cluster.micros()),
                format!("{path:.1}"),
                format!("{:.2}", first.cluster.critical_micros() / path),
            ]
        };
        sizes.iter().map(row).collect()
    }
}

impl fmt::Display for InsertScaling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.0.first() else { return Ok(()) };
        let InsertOptions { clients, seconds, rounds, .. } = &first.options;
        writeln!(f, "transactions of {ROWS} rows, {clients} clients, PostgreSQL {};", first.version)?;
        writeln!(
            f,
            "medians of {rounds} rounds of {seconds} s; CPU in µs a row, the critical path is that of the busiest"
        )?;
        writeln!(f, "datanode, coordinators and gtm")?;
        let head = [
            "shape",
            "rows on",
            "datanodes",
            "ratio",
            "stock CPU",
            "CPU, all processes",
            "against the first",
            "critical path",
            "speed-up",
        ];
        let mut table = vec![head.map(str::to_owned).to_vec()];
        table.extend((0..first.lines.len()).flat_map(|at| self.rows(at)));
        write!(f, "\n{}", text_table(&table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_critical_path_is_the_busiest_server_and_what_all_need() {
        let side = |processes: &[f64], servers| {
            let mut side = Side::default();
            side.add_micros(processes, servers);
            side
        };
        let report = |cluster: Side| InsertReport {
            options: InsertOptions { clients: 1, seconds: 1, rounds: 1, shapes: vec![Shape::Values] },
            version: String::new(),
            datanodes: cluster.rows_per_second.len(),
            lines: vec![Line { shape: Shape::Values, spread: Spread::ManyKeys, direct: side(&[3.0], 1), cluster }],
        };
        let scaling = InsertScaling(vec![report(side(&[4.0, 1.0], 1)), report(side(&[2.5, 1.0, 0.5, 0.5], 2))]);
        let last: Vec<Vec<String>> = scaling.rows(0).into_iter().map(|row| row[4..].to_vec()).collect();
        assert_eq!(last, [["3.0", "5.0", "1.00", "5.0", "1.00"], ["3.0", "4.5", "0.90", "3.5", "1.43"]]);
    }

    #[test]
    fn the_ratio_is_of_medians() {
        let side = |rows: [f64; 3]| Side { rows_per_second: rows.to_vec(), ..Side::default() };
        let line = Line {
            shape: Shape::Values,
            spread: Spread::OneKey,
            direct: side([100.0, 1.0, 100.0]),
            cluster: side([80.0, 80.0, 1000.0]),
        };
        assert_eq!(line.ratio(), 0.8);
    }
}
