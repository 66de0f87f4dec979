//! What was found, as text, JSON, CSV and a picture: a column a number of datanodes.

use std::fmt;

use serde_json::{Map, Value, json};

use super::NodesOptions;
use super::clients::Crowd;
use crate::report::{grouped, text_table};

/// One number of datanodes.
#[derive(Clone, Debug, Default)]
pub struct Size {
    pub(crate) datanodes: usize,
    pub(crate) version: String,
    /// From nothing to a cluster that answers.
    pub(crate) up_seconds: f64,
    pub(crate) memory_mib: f64,
    pub(crate) copy_rows_per_second: f64,
    pub(crate) point_ms: f64,
    pub(crate) sum_ms: f64,
    pub(crate) join_ms: f64,
    /// `None` with one datanode.
    pub(crate) commit_two_ms: Option<f64>,
    pub(crate) commit_all_ms: f64,
    pub(crate) ddl_ms: f64,
    /// A sum over all datanodes beside writers.
    pub(crate) local_ms: f64,
    /// The same in a consistent snapshot.
    pub(crate) consistent_ms: f64,
    pub(crate) crowd: Crowd,
    /// How many cores other programs of this machine, and the benchmark, had on average.
    pub(crate) others_cores: f64,
}

/// The outcome.
#[derive(Clone, Debug, Default)]
pub struct NodesReport {
    /// What was measured.
    pub options: NodesOptions,
    /// In the order in which they were measured.
    pub sizes: Vec<Size>,
}

/// A figure: what it is, its name for machines, its value, decimals.
type Figure = (&'static str, &'static str, fn(&Size) -> Option<f64>, usize);

pub(crate) const FIGURES: [Figure; 18] = [
    ("start, s", "up_s", |size| Some(size.up_seconds), 1),
    ("memory after the start, MiB", "memory_mib", |size| Some(size.memory_mib), 0),
    ("COPY, rows/s", "copy_rows_per_s", |size| Some(size.copy_rows_per_second), 0),
    ("read of one row, ms", "point_ms", |size| Some(size.point_ms), 2),
    ("sum over all datanodes, ms", "sum_ms", |size| Some(size.sum_ms), 2),
    ("the same beside 4 writers, local, ms", "local_ms", |size| Some(size.local_ms), 2),
    ("the same beside 4 writers, consistent, ms", "consistent_ms", |size| Some(size.consistent_ms), 2),
    ("what the snapshot adds, ms", "snapshot_ms", |size| Some(size.consistent_ms - size.local_ms), 2),
    ("join that exchanges rows, ms", "join_ms", |size| Some(size.join_ms), 1),
    ("COMMIT of two datanodes, ms", "commit_two_ms", |size| size.commit_two_ms, 2),
    ("COMMIT of all datanodes, ms", "commit_all_ms", |size| Some(size.commit_all_ms), 2),
    ("CREATE TABLE and DROP TABLE, ms", "ddl_ms", |size| Some(size.ddl_ms), 1),
    ("clients: connections to a datanode", "connections", |size| Some(size.crowd.connections as f64), 0),
    ("clients: transactions/s", "transactions_per_s", |size| Some(size.crowd.transactions_per_second), 1),
    ("clients: reads of one row/s", "reads_per_s", |size| Some(size.crowd.reads_per_second), 1),
    ("clients: longest statement, ms", "longest_ms", |size| Some(size.crowd.longest_ms), 0),
    ("clients: memory, MiB", "memory_clients_mib", |size| Some(size.crowd.memory_mib), 0),
    ("cores that other programs had", "others_cores", |size| Some(size.others_cores), 1),
];

impl NodesReport {
    /// The same facts as the text.
    pub fn to_json(&self) -> Value {
        let NodesOptions { rows, rounds, clients, seconds } = self.options;
        let size = |size: &Size| {
            let mut facts = Map::new();
            facts.insert("datanodes".to_owned(), json!(size.datanodes));
            facts.extend(FIGURES.iter().map(|(_, name, value, _)| ((*name).to_owned(), json!(value(size)))));
            Value::Object(facts)
        };
        json!({
            "server_version": self.version(), "rows": rows, "rounds": rounds, "clients": clients, "seconds": seconds,
            "sizes": self.sizes.iter().map(size).collect::<Vec<_>>(),
        })
    }

    /// A line a number of datanodes, with a head.
    pub fn to_csv(&self) -> String {
        let names: Vec<&str> = FIGURES.iter().map(|(_, name, ..)| *name).collect();
        let mut text = format!("datanodes,{}\n", names.join(","));
        for size in &self.sizes {
            text += &size.datanodes.to_string();
            for (_, _, value, decimals) in FIGURES {
                text += &value(size).map_or(",".to_owned(), |value| format!(",{value:.decimals$}"));
            }
            text.push('\n');
        }
        text
    }

    /// The times over the number of datanodes.
    pub fn to_svg(&self) -> String {
        super::chart::svg(&self.sizes)
    }

    fn version(&self) -> &str {
        self.sizes.first().map_or("", |size| &size.version)
    }
}

impl fmt::Display for NodesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NodesOptions { rows, rounds, clients, seconds } = self.options;
        writeln!(
            f,
            "{} rows, medians of {rounds} statements (a fifth of joins and DDL), then {clients} clients for {seconds} s; PostgreSQL {}",
            grouped(rows),
            self.version()
        )?;
        let mut table = vec![vec!["datanodes".to_owned()]];
        table[0].extend(self.sizes.iter().map(|size| size.datanodes.to_string()));
        for (title, _, value, decimals) in FIGURES {
            let cell = |size: &Size| match (value(size), decimals) {
                (None, _) => "–".to_owned(),
                (Some(value), 0) => grouped(value.round() as u64),
                (Some(value), _) => format!("{value:.decimals$}"),
            };
            table.push(std::iter::once(title.to_owned()).chain(self.sizes.iter().map(cell)).collect());
        }
        write!(f, "\n{}", text_table(&table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_has_every_size() {
        let size = |datanodes, commit_two_ms| Size {
            datanodes,
            commit_two_ms,
            local_ms: 1.0,
            consistent_ms: 1.5,
            ..Size::default()
        };
        let report = NodesReport { sizes: vec![size(1, None), size(2, Some(3.0))], ..NodesReport::default() };
        assert_eq!(report.to_json()["sizes"][1]["snapshot_ms"], 0.5);
        let csv = report.to_csv();
        assert_eq!(csv.lines().map(|line| line.split(',').count()).collect::<Vec<_>>(), [FIGURES.len() + 1; 3]);
        assert!(report.to_string().contains("COMMIT of two datanodes"));
    }
}
