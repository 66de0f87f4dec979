//! What the power run found, as a table and as JSON.

use std::fmt;

use serde_json::{Value, json};

use super::tables::Layout;

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

/// All queries.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct PowerReport {
    pub scale_factor: f64,
    pub layout: Layout,
    pub datanodes: usize,
    pub server_version: String,
    pub queries: Vec<QueryTimes>,
}

/// The same queries on clusters of different sizes.
#[derive(Clone, Debug)]
pub struct Scaling(pub Vec<PowerReport>);

impl Scaling {
    /// For machines.
    pub fn to_json(&self) -> Value {
        self.0.iter().map(PowerReport::to_json).collect()
    }
}

impl fmt::Display for Scaling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<(f64, f64)> = self
            .0
            .iter()
            .map(|report| (report.sum(|query| query.cluster_cpu), report.sum(|query| query.critical_cpu)))
            .collect();
        let Some((first_cpu, first_path)) = all.first().copied() else { return Ok(()) };
        writeln!(
            f,
            "| datanodes | CPU s, all processes | against the first | critical path, CPU s | speed-up | answers |"
        )?;
        writeln!(f, "| --- | --- | --- | --- | --- | --- |")?;
        for (report, (cpu, path)) in self.0.iter().zip(&all) {
            let (more, faster) = (cpu / first_cpu, first_path / path);
            let (nodes, right, of) = (report.datanodes, report.right(), report.queries.len());
            writeln!(f, "| {nodes} | {cpu:.2} | {more:.2} | {path:.2} | {faster:.2} | {right} of {of} right |")?;
        }
        Ok(())
    }
}

impl PowerReport {
    /// Queries whose answer was right.
    pub fn right(&self) -> usize {
        self.queries.iter().filter(|query| query.verdict == Verdict::Right).count()
    }

    /// Sum of the times of one column.
    fn sum(&self, time: impl Fn(&QueryTimes) -> Option<f64>) -> f64 {
        self.queries.iter().filter_map(time).sum()
    }

    /// For machines.
    pub fn to_json(&self) -> Value {
        let queries: Vec<Value> = self
            .queries
            .iter()
            .map(|query| {
                json!({
                    "query": query.number,
                    "stock_seconds": query.stock,
                    "stock_with_workers_seconds": query.stock_with_workers,
                    "cluster_seconds": query.cluster,
                    "cluster_cpu_seconds": query.cluster_cpu,
                    "critical_cpu_seconds": query.critical_cpu,
                    "right": query.verdict == Verdict::Right,
                    "problem": problem(&query.verdict),
                })
            })
            .collect();
        json!({
            "scale_factor": self.scale_factor,
            "layout": layout_name(self.layout),
            "datanodes": self.datanodes,
            "server_version": self.server_version,
            "right": self.right(),
            "queries": queries,
        })
    }
}

fn layout_name(layout: Layout) -> &'static str {
    match layout {
        Layout::Mixed => "mixed",
        Layout::Hash => "hash",
    }
}

fn problem(verdict: &Verdict) -> Option<&str> {
    match verdict {
        Verdict::Right => None,
        Verdict::Wrong(text) | Verdict::Failed(text) => Some(text),
    }
}

fn milliseconds(seconds: Option<f64>) -> String {
    seconds.map_or("-".to_owned(), |seconds| format!("{:.0}", seconds * 1000.0))
}

fn ratio(part: Option<f64>, whole: Option<f64>) -> String {
    match (part, whole) {
        (Some(part), Some(whole)) if whole > 0.0 => format!("{:.2}", part / whole),
        _ => "-".to_owned(),
    }
}

impl fmt::Display for QueryTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answer = match &self.verdict {
            Verdict::Right => "right".to_owned(),
            Verdict::Wrong(text) => format!("WRONG: {text}"),
            Verdict::Failed(text) => format!("failed: {text}"),
        };
        write!(
            f,
            "| {:>5} | {:>8} | {:>8} | {:>8} | {:>6} | {:>8} | {answer} |",
            format!("Q{}", self.number),
            milliseconds(self.stock),
            milliseconds(self.stock_with_workers),
            milliseconds(self.cluster),
            ratio(self.cluster, self.stock),
            milliseconds(self.cluster_cpu),
        )
    }
}

impl fmt::Display for PowerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = self.datanodes;
        writeln!(
            f,
            "TPC-H power run, scale factor {}, {} layout, {nodes} datanodes, PostgreSQL {}; times in milliseconds\n",
            self.scale_factor,
            layout_name(self.layout),
            self.server_version
        )?;
        writeln!(f, "| query | stock | with workers | cluster | cluster / stock | cluster CPU | answer |")?;
        writeln!(f, "| --- | --- | --- | --- | --- | --- | --- |")?;
        for query in &self.queries {
            writeln!(f, "{query}")?;
        }
        let (stock, cluster) = (self.sum(|q| q.stock), self.sum(|q| q.cluster));
        write!(
            f,
            "| sum | {} | {} | {} | {} | {} | {} of {} right |",
            milliseconds(Some(stock)),
            milliseconds(Some(self.sum(|q| q.stock_with_workers))),
            milliseconds(Some(cluster)),
            ratio(Some(cluster), Some(stock)),
            milliseconds(Some(self.sum(|q| q.cluster_cpu))),
            self.right(),
            self.queries.len()
        )
    }
}
