//! What `loxo bench insert` prints.

use std::fmt;

use serde_json::{Value, json};

use super::{InsertOptions, ROWS, Shape, Spread};
use crate::report::{grouped, median, text_table};

/// One entry a round in each list.
#[derive(Clone, Debug, Default)]
pub(super) struct Side {
    pub(super) rows_per_second: Vec<f64>,
    /// Processor time per row.
    pub(super) server_micros: Vec<f64>,
    pub(super) coordinator_micros: Vec<f64>,
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
    pub(super) lines: Vec<Line>,
}

impl InsertReport {
    /// The same facts as the text, plus those of every round.
    pub fn to_json(&self) -> Value {
        let side = |side: &Side| {
            json!({
                "rows_per_second": median(&side.rows_per_second), "rows_per_second_of_rounds": side.rows_per_second,
                "server_cpu_microseconds": median(&side.server_micros),
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
            "server_version": self.version, "lines": self.lines.iter().map(line).collect::<Vec<_>>(),
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

#[cfg(test)]
mod tests {
    use super::*;

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
