//! What `loxo load` says at its end.

use std::fmt::Write;
use std::path::Path;

use cluster::local::{Kind, Layout};
use loader::{Intake, Seen, Summary, Wait};
use pgerror::Result;

/// This share of all processor time counts as busy.
const BUSY: f64 = 0.85;
/// With fewer looks at COPYs nothing is said about them.
const SAMPLES_MIN: u64 = 8;
/// What the COPYs do most of their time holds the load up if it is so much of it.
const MOST: f64 = 0.5;

/// CPU seconds of this program and, of a local cluster, of its processes.
pub struct Cpu {
    client: f64,
    /// Coordinators, datanodes.
    cluster: Option<(f64, f64)>,
    /// Everything on this machine.
    machine: f64,
}

impl Cpu {
    /// Until now.
    pub fn read(dir: &Path, is_local: bool) -> Result<Self> {
        let client = bench::cpu::tree_seconds(&[std::process::id()])?;
        let cluster = match Layout::load(dir)? {
            Some(layout) if is_local => {
                let of = |kind: Kind| {
                    let parts = layout.parts().into_iter().filter(|part| part.kind == kind);
                    let pids: Vec<u32> = parts.filter_map(|part| layout.pid(&part)?.try_into().ok()).collect();
                    bench::cpu::tree_seconds(&pids)
                };
                Some((of(Kind::Coordinator)?, of(Kind::Datanode)?))
            }
            _ => None,
        };
        Ok(Self { client, cluster, machine: bench::cpu::machine_seconds()? })
    }

    /// What was used since.
    pub fn since(&self, before: &Self) -> Self {
        let cluster = self.cluster.zip(before.cluster).map(|(now, then)| (now.0 - then.0, now.1 - then.1));
        Self { client: self.client - before.client, cluster, machine: self.machine - before.machine }
    }
}

/// What a load did, and what held it up.
pub fn text(summary: &Summary, used: &Cpu) -> String {
    let seconds = summary.seconds.max(1e-3);
    let mut text = format!(
        "{} in {:.1} s: {:.0} rows/s, {:.0} MB/s, {} over {}\n",
        rows(summary.rows),
        summary.seconds,
        summary.rows as f64 / seconds,
        summary.bytes as f64 / 1e6 / seconds,
        crate::commands::count(summary.files, "file"),
        crate::commands::count(summary.streams, "stream"),
    );
    // Writing to a String cannot fail.
    if summary.rejected > 0 {
        let _ = writeln!(text, "{} {} refused and left out", rows(summary.rejected), were(summary.rejected));
    }
    if summary.rows_before > 0 {
        let (rows, were) = (rows(summary.rows_before), were(summary.rows_before));
        let _ = writeln!(text, "{rows} of these files {were} loaded before");
    }
    let _ = write!(text, "CPU seconds: this program {:.1}", used.client);
    match used.cluster {
        Some((coordinators, datanodes)) => {
            let _ = writeln!(text, ", coordinators {coordinators:.1}, datanodes {datanodes:.1}");
        }
        None => text.push('\n'),
    }
    if summary.indexes > 0 {
        let _ = writeln!(
            text,
            "{} made again in {:.1} s",
            crate::commands::indexes(summary.indexes),
            summary.index_seconds
        );
    }
    if summary.seen.samples() > 0 {
        let _ = writeln!(text, "COPYs on the datanodes: {}", waits(&summary.seen));
    }
    let rates: Vec<String> = summary.seen.nodes.iter().filter_map(rate).collect();
    if rates.len() > 1 {
        let _ = writeln!(text, "while they copied: into {}", rates.join(", "));
    }
    let _ = writeln!(text, "bottleneck: {}", bottleneck(summary, used));
    text
}

fn rows(number: u64) -> String {
    format!("{number} row{}", if number == 1 { "" } else { "s" })
}

fn were(number: u64) -> &'static str {
    if number == 1 { "was" } else { "were" }
}

fn rate(node: &Intake) -> Option<String> {
    node.rate().map(|rate| format!("{} {rate:.0} MB/s", node.name))
}

const WAITS: [(Wait, &str); 6] = [
    (Wait::Processor, "computing"),
    (Wait::Rows, "waiting for rows"),
    (Wait::Wal, "WAL"),
    (Wait::Disk, "disk"),
    (Wait::Locks, "locks"),
    (Wait::Other, "other"),
];

/// In percent of the COPYs' time.
fn waits(seen: &Seen) -> String {
    let shares = WAITS.iter().map(|(wait, name)| (seen.share(*wait) * 100.0, name));
    let shown = shares.filter(|(percent, _)| *percent >= 0.5).map(|(percent, name)| format!("{name} {percent:.0} %"));
    shown.collect::<Vec<_>>().join(", ")
}

/// As far as it can be told from here.
fn bottleneck(summary: &Summary, used: &Cpu) -> String {
    if summary.seconds < 0.5 {
        return "too short to tell".to_owned();
    }
    let (coordinators, datanodes) = used.cluster.unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let busy = used.machine / ((summary.seconds + summary.index_seconds) * cores);
    let own = used.client + coordinators + datanodes;
    if busy > BUSY && own < used.machine / 2.0 {
        return format!("the processors of this machine, {:.0} % busy, most of it for others", busy.min(1.0) * 100.0);
    }
    if busy > BUSY {
        let parts = [("this program", used.client), ("the coordinators", coordinators), ("the datanodes", datanodes)];
        let most = parts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map_or("", |part| part.0);
        return format!("the processors of this machine, {:.0} % busy, most of it for {most}", busy.min(1.0) * 100.0);
    }
    if summary.starved > MOST {
        return format!("reading the files: the streams waited for them {:.0} % of the time", summary.starved * 100.0);
    }
    let seen = &summary.seen;
    let most = WAITS.iter().find(|(wait, _)| seen.samples() >= SAMPLES_MIN && seen.share(*wait) >= MOST);
    match most.map(|(wait, _)| wait) {
        Some(Wait::Processor) => "the datanodes' processors: one COPY keeps one busy (more --streams may help)",
        Some(Wait::Rows) if used.cluster.is_some() => "the coordinators (more --streams may help)",
        Some(Wait::Rows) => "the network or the coordinators (more --streams, or more coordinators, may help)",
        Some(Wait::Wal) => "the datanodes' WAL",
        Some(Wait::Disk) => "the datanodes' disks",
        Some(Wait::Locks) => "locks on the datanodes",
        Some(Wait::Other) | None => "unknown (more --streams may help)",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(starved: f64, waits: &[(Wait, u64)], used: &Cpu) -> String {
        let seen = Seen { waits: waits.iter().copied().collect(), nodes: Vec::new() };
        let summary = Summary {
            rows: 1,
            rejected: 0,
            rows_before: 0,
            bytes: 1,
            files: 1,
            seconds: 1000.0,
            streams: 1,
            starved,
            seen,
            indexes: 0,
            index_seconds: 0.0,
        };
        bottleneck(&summary, used)
    }

    #[test]
    fn the_bottleneck_is_named_only_if_something_tells_it() {
        let idle = || Cpu { client: 1.0, cluster: None, machine: 5.0 };
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let busy = Cpu { client: 1.0, cluster: Some((2.0, 900.0 * cores)), machine: 990.0 * cores };
        assert!(said(0.9, &[], &busy).ends_with("most of it for the datanodes"));
        let others = Cpu { machine: 990.0 * cores, ..idle() };
        assert!(said(0.9, &[], &others).ends_with("most of it for others"));
        assert!(said(0.9, &[], &idle()).starts_with("reading the files"));
        assert_eq!(said(0.0, &[(Wait::Wal, 6), (Wait::Disk, 4)], &idle()), "the datanodes' WAL");
        assert!(said(0.0, &[(Wait::Rows, 6), (Wait::Disk, 4)], &idle()).starts_with("the network or the coordinators"));
        for few in [&[(Wait::Wal, 4)][..], &[], &[(Wait::Wal, 4), (Wait::Disk, 3), (Wait::Locks, 4)]] {
            assert!(said(0.0, few, &idle()).starts_with("unknown"));
        }
    }
}
