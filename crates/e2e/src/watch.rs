//! What the processes of a cluster do while a test goes on: which datanodes are at work, how much memory they need.

use std::time::{Duration, Instant};

use testkit::Cluster;

const COMES_WITHIN: Duration = Duration::from_secs(20);

/// Waits until as many of two datanodes as are `wanted` are at work on `generate_series`.
pub fn until_at_work(cluster: &Cluster, wanted: impl Fn(usize) -> bool) {
    const AT_WORK: &str = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%generate_series%' \
         AND pid <> pg_backend_pid()";
    let since = Instant::now();
    loop {
        let at_work = |node| cluster.connect_datanode(node).and_then(|mut node| node.scalar(AT_WORK)).expect("a count");
        let nodes = (0..2).filter(|node| at_work(*node) != "0").count();
        if wanted(nodes) {
            return;
        }
        assert!(since.elapsed() < COMES_WITHIN, "{nodes} nodes are at work");
    }
}

/// Begins the measurement of a process's highest memory; gives what it has now, in bytes.
pub fn reset_peak(pid: u32) -> u64 {
    std::fs::write(format!("/proc/{pid}/clear_refs"), "5").expect("the peak is reset");
    memory(pid, "VmRSS")
}

/// The highest since [`reset_peak`], in bytes.
pub fn peak(pid: u32) -> u64 {
    memory(pid, "VmHWM")
}

fn memory(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find(|line| line.starts_with(name)).expect("a line of it");
    let kilobytes = line.split_ascii_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok());
    kilobytes.expect("a number") << 10
}
