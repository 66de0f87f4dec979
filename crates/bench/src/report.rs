//! Tables for people and JSON for programs.

use std::fmt;

use serde_json::{Value, json};

use crate::lineitem::{Columns, Format};

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
    /// What the rows are.
    pub columns: Columns,
    /// How they are written.
    pub format: Format,
    /// Concurrent COPY streams.
    pub streams: usize,
    /// `file` or `stdin`.
    pub input: &'static str,
    /// `server_version` of the datanodes.
    pub server_version: String,
    /// Table kind (`logged` or `unlogged`), stock servers, cluster.
    pub measured: Vec<(&'static str, Measured, Measured)>,
    /// Table kind, and every way of loading, these two among them; empty unless all were asked for.
    pub ways: Vec<(&'static str, Vec<(String, Measured)>)>,
    /// What the verification said, if it was asked for.
    pub verified: Option<String>,
}

/// The middle value; the mean of the middle two; 0 for none.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

impl LoadReport {
    fn rows_per_second(&self, measured: &Measured) -> f64 {
        self.rows as f64 / median(&measured.seconds).max(1e-9)
    }

    fn per_million(&self, cpu: &[f64]) -> f64 {
        median(cpu) * 1e6 / self.rows.max(1) as f64
    }

    /// Rows a second through the cluster, divided by the stock servers'.
    pub fn ratio(&self, stock: &Measured, cluster: &Measured) -> f64 {
        self.rows_per_second(cluster) / self.rows_per_second(stock)
    }

    /// Processor time of the stock servers, divided by that of the whole cluster.
    pub fn work_ratio(&self, stock: &Measured, cluster: &Measured) -> f64 {
        let cluster = median(&cluster.server_cpu) + median(&cluster.coordinator_cpu);
        median(&stock.server_cpu) / cluster.max(1e-9)
    }

    fn table_of_ways(&self) -> Vec<Vec<String>> {
        let head = ["way", "table", "M rows/s", "CPU s per million rows:", "servers", "coordinators", "loader", "all"];
        let mut table = vec![head.map(str::to_owned).to_vec()];
        for (kind, ways) in &self.ways {
            for (way, measured) in ways {
                let cpu = [&measured.server_cpu, &measured.coordinator_cpu, &measured.loader_cpu];
                let cpu = cpu.map(|seconds| self.per_million(seconds));
                let speed = format!("{:.2}", self.rows_per_second(measured) / 1e6);
                let mut row = vec![way.clone(), (*kind).to_owned(), speed, String::new()];
                row.extend(cpu.iter().chain([&cpu.iter().sum()]).map(|seconds| format!("{seconds:.3}")));
                table.push(row);
            }
        }
        table
    }

    /// The same facts as the text, plus those of every round.
    pub fn to_json(&self) -> Value {
        let side = |m: &Measured| {
            json!({
                "rows_per_second": self.rows_per_second(m),
                "megabytes_per_second": self.bytes as f64 / 1e6 / median(&m.seconds).max(1e-9),
                "server_cpu_seconds_per_million_rows": self.per_million(&m.server_cpu),
                "coordinator_cpu_seconds_per_million_rows": self.per_million(&m.coordinator_cpu),
                "loader_cpu_seconds_per_million_rows": self.per_million(&m.loader_cpu),
                "seconds": m.seconds, "server_cpu_seconds": m.server_cpu, "coordinator_cpu_seconds": m.coordinator_cpu,
                "loader_cpu_seconds": m.loader_cpu,
            })
        };
        let each = |kind: &str, (way, measured): &(String, Measured)| json!({"table": kind, "way": way, "measured": side(measured)});
        let ways: Vec<Value> =
            self.ways.iter().flat_map(|(kind, ways)| ways.iter().map(|way| each(kind, way))).collect();
        let tables: Vec<Value> = self
            .measured
            .iter()
            .map(|(kind, stock, cluster)| {
                json!({
                    "table": kind, "ratio": self.ratio(stock, cluster), "work_ratio": self.work_ratio(stock, cluster),
                    "stock": side(stock), "cluster": side(cluster),
                })
            })
            .collect();
        json!({
            "rows": self.rows, "bytes": self.bytes, "columns": self.columns.count(),
            "kind": self.columns.describe(), "format": self.format.name(), "streams": self.streams, "input": self.input,
            "server_version": self.server_version, "tables": tables, "ways": ways,
            "verified": self.verified,
        })
    }
}

impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { streams, input, server_version, .. } = self;
        let (columns, format) = (self.columns.describe(), self.format.name());
        let (rows, megabytes) = (grouped(self.rows), self.bytes as f64 / 1e6);
        let rounds = self.measured.first().map_or(0, |(_, stock, _)| stock.seconds.len());
        writeln!(
            f,
            "lineitem, {rows} rows, {columns}, {megabytes:.0} MB of {format}, {streams} COPY streams from {input},"
        )?;
        writeln!(f, "PostgreSQL {server_version}; medians of {rounds} rounds, stock servers and cluster in turn")?;
        let head = [
            "table",
            "stock rows/s",
            "cluster rows/s",
            "ratio",
            "CPU s per million rows:",
            "stock",
            "datanodes",
            "coordinators",
            "stock / cluster",
        ];
        let mut table = vec![head.map(str::to_owned).to_vec()];
        for (kind, stock, cluster) in &self.measured {
            table.push(vec![
                (*kind).to_owned(),
                grouped(self.rows_per_second(stock) as u64),
                grouped(self.rows_per_second(cluster) as u64),
                format!("{:.2}", self.ratio(stock, cluster)),
                String::new(),
                format!("{:.3}", self.per_million(&stock.server_cpu)),
                format!("{:.3}", self.per_million(&cluster.server_cpu)),
                format!("{:.3}", self.per_million(&cluster.coordinator_cpu)),
                format!("{:.2}", self.work_ratio(stock, cluster)),
            ]);
        }
        write!(f, "\n{}", text_table(&table))?;
        if !self.ways.is_empty() {
            write!(f, "\n{}", text_table(&self.table_of_ways()))?;
        }
        match &self.verified {
            Some(text) => writeln!(f, "\n{text}"),
            None => Ok(()),
        }
    }
}

/// What one side of the TPC-B benchmark did in one protocol mode; one value a round.
#[derive(Clone, Debug, Default)]
pub struct TpcbMeasured {
    /// Transactions a second, as pgbench says.
    pub tps: Vec<f64>,
    /// Transactions.
    pub transactions: Vec<f64>,
    /// CPU seconds of the datanodes, or of the stock server.
    pub server_cpu: Vec<f64>,
    /// CPU seconds of coordinators and gtm.
    pub coordinator_cpu: Vec<f64>,
}

impl TpcbMeasured {
    /// Median over the rounds of CPU microseconds a transaction.
    fn micros(&self, cpu: &[f64]) -> f64 {
        let each: Vec<f64> = cpu.iter().zip(&self.transactions).map(|(s, count)| s * 1e6 / count.max(1.0)).collect();
        median(&each)
    }
}

/// The outcome of `loxo bench tpcb`.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct TpcbReport {
    pub scale: u32,
    pub clients: u32,
    pub seconds: u32,
    pub select_only: bool,
    pub server_version: String,
    /// Protocol mode, direct, through the coordinator.
    pub measured: Vec<(String, TpcbMeasured, TpcbMeasured)>,
}

impl TpcbReport {
    /// The same facts as the text, plus those of every round.
    pub fn to_json(&self) -> Value {
        let side = |m: &TpcbMeasured| {
            json!({
                "tps": median(&m.tps), "tps_of_rounds": m.tps, "transactions": m.transactions,
                "server_cpu_microseconds": m.micros(&m.server_cpu),
                "coordinator_cpu_microseconds": m.micros(&m.coordinator_cpu),
            })
        };
        let modes: Vec<Value> = self
            .measured
            .iter()
            .map(|(mode, direct, cluster)| {
                let ratio = median(&cluster.tps) / median(&direct.tps).max(1e-9);
                json!({"mode": mode, "ratio": ratio, "direct": side(direct), "cluster": side(cluster)})
            })
            .collect();
        json!({
            "scale": self.scale, "clients": self.clients, "seconds": self.seconds, "select_only": self.select_only,
            "server_version": self.server_version, "modes": modes,
        })
    }
}

impl fmt::Display for TpcbReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scale, clients, seconds, server_version, .. } = self;
        let what = if self.select_only { "reads of an account" } else { "TPC-B-like transactions" };
        let rounds = self.measured.first().map_or(0, |(_, direct, _)| direct.tps.len());
        writeln!(f, "pgbench, {what}, scale {scale}, {clients} clients, PostgreSQL {server_version};")?;
        writeln!(f, "medians of {rounds} rounds of {seconds} s, one stock server and cluster in turn")?;
        let head = [
            "mode",
            "direct tps",
            "cluster tps",
            "ratio",
            "CPU µs a transaction:",
            "stock",
            "datanodes",
            "coordinator",
        ];
        let mut table = vec![head.map(str::to_owned).to_vec()];
        for (mode, direct, cluster) in &self.measured {
            table.push(vec![
                mode.clone(),
                grouped(median(&direct.tps) as u64),
                grouped(median(&cluster.tps) as u64),
                format!("{:.2}", median(&cluster.tps) / median(&direct.tps).max(1e-9)),
                String::new(),
                format!("{:.0}", direct.micros(&direct.server_cpu)),
                format!("{:.0}", cluster.micros(&cluster.server_cpu)),
                format!("{:.0}", cluster.micros(&cluster.coordinator_cpu)),
            ]);
        }
        write!(f, "\n{}", text_table(&table))
    }
}

/// 6001215 as `6,001,215`.
pub(crate) fn grouped(number: u64) -> String {
    indicatif::HumanCount(number).to_string()
}

/// Columns aligned, numbers to the right, a line under the head (the first row).
pub(crate) fn text_table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let is_number = |cell: &str| cell.starts_with(|c: char| c.is_ascii_digit() || c == '-') && !cell.contains("-0");
    let right: Vec<bool> = (0..columns)
        .map(|column| rows.get(1).and_then(|row| row.get(column)).is_some_and(|cell| is_number(cell)))
        .collect();
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let cells = row.iter().enumerate().map(|(i, cell)| match right[i] {
            true => format!("{cell:>width$}", width = widths[i]),
            false => format!("{cell:<width$}", width = widths[i]),
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
        if number == 0 {
            let lines: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
            text.push_str(&lines.join("  "));
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn tables_line_up() {
        let rows = [vec!["name".to_owned(), "rows".to_owned()], vec!["dn1".to_owned(), "12,345".to_owned()]];
        assert_eq!(text_table(&rows), "name    rows\n────  ──────\ndn1   12,345\n");
    }

    /// Nothing measured yet.
    fn of_rows(rows: u64) -> LoadReport {
        LoadReport {
            rows,
            bytes: 1,
            columns: Columns::Seven,
            format: Format::Csv,
            streams: 2,
            input: "file",
            server_version: "15".into(),
            measured: Vec::new(),
            ways: Vec::new(),
            verified: None,
        }
    }

    #[test]
    fn the_ratio_is_of_medians() {
        let side = |seconds: &[f64]| Measured { seconds: seconds.to_vec(), ..Measured::default() };
        let measured = vec![("logged", side(&[2.0, 9.0, 2.0]), side(&[1.0, 1.0, 8.0]))];
        let report = LoadReport { measured, ..of_rows(1_000_000) };
        assert_eq!(report.to_json()["tables"][0]["ratio"], 2.0);
    }

    #[test]
    fn processor_time_of_a_way_is_of_all_who_took_part() {
        let direct =
            Measured { seconds: vec![4.0], server_cpu: vec![1.0], coordinator_cpu: vec![0.25], loader_cpu: vec![0.5] };
        let ways = vec![("unlogged", vec![("a way".to_owned(), direct)])];
        let report = LoadReport { ways, ..of_rows(2_000_000) };
        assert_eq!(report.table_of_ways()[1], ["a way", "unlogged", "0.50", "", "0.500", "0.125", "0.250", "0.875"]);
        let way = &report.to_json()["ways"][0];
        assert_eq!((&way["way"], &way["measured"]["loader_cpu_seconds"]), (&json!("a way"), &json!([0.5])));
    }
}
