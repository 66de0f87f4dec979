//! What this crate counts: commits by what became of them, the gate, transactions in doubt.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use metrics::{Counter, Histogram, Page};

use crate::gid::Gid;

pub(crate) static READ_ONLY: Counter = Counter::new();
pub(crate) static ONE_NODE: Counter = Counter::new();
pub(crate) static PREPARED: Counter = Counter::new();
pub(crate) static DECIDED: Counter = Counter::new();
pub(crate) static FINISHED: Counter = Counter::new();
pub(crate) static UNRESOLVED: Counter = Counter::new();

/// How long the gate was shut, and how long commits waited for that.
pub(crate) static GATE_SHUT: Histogram = Histogram::new();
pub(crate) static GATE_WAITS: Histogram = Histogram::new();

/// The gtm's.
pub(crate) static GRANTED: Counter = Counter::new();
pub(crate) static RESOLVED: Counter = Counter::new();
pub(crate) static LEADS: AtomicU64 = AtomicU64::new(0);
pub(crate) static COORDINATORS: AtomicU64 = AtomicU64::new(0);
static IN_DOUBT: Mutex<Option<HashMap<(Gid, u16), Instant>>> = Mutex::new(None);

/// A pass of recovery has left these.
pub(crate) fn note_in_doubt(waiting: impl Iterator<Item = (Gid, u16)>) {
    let mut known = IN_DOUBT.lock().unwrap_or_else(PoisonError::into_inner);
    let before = known.take().unwrap_or_default();
    let now = Instant::now();
    *known = Some(waiting.map(|doubt| (doubt, before.get(&doubt).copied().unwrap_or(now))).collect());
}

/// Writes what a coordinator counts.
pub fn of_coordinator(page: &mut Page) {
    let commits = [
        ("read_only", READ_ONLY.get()),
        ("one_node", ONE_NODE.get()),
        ("prepared", PREPARED.get()),
        ("decided", DECIDED.get()),
        ("finished", FINISHED.get()),
        ("unresolved", UNRESOLVED.get()),
    ];
    page.counters(
        "loxo_commits_total",
        "Ends of transaction blocks; those over several nodes are prepared, decided, and then finished or left to recovery.",
        "phase",
        commits,
    );
    page.histogram("loxo_gate_shut_seconds", "How long the gate was shut for global snapshots.", &GATE_SHUT);
    page.histogram("loxo_gate_wait_seconds", "How long commits waited at the gate; only those that did.", &GATE_WAITS);
}

/// Writes what a gtm counts.
pub fn of_gtm(page: &mut Page) {
    let (count, oldest) = {
        let known = IN_DOUBT.lock().unwrap_or_else(PoisonError::into_inner);
        let since = known.iter().flat_map(|known| known.values());
        (known.as_ref().map_or(0, HashMap::len), since.min().map_or(0.0, |since| since.elapsed().as_secs_f64()))
    };
    page.gauge("loxo_gtm_leads", "1 if this gtm leads.", LEADS.load(Ordering::Relaxed));
    page.gauge(
        "loxo_gtm_coordinators",
        "Connections of coordinators, one of each for each database.",
        COORDINATORS.load(Ordering::Relaxed),
    );
    page.counter("loxo_gtm_snapshots_total", "Barriers under which global snapshots were granted.", GRANTED.get());
    page.counter("loxo_gtm_resolved_total", "Prepared transactions that recovery has finished.", RESOLVED.get());
    page.gauge("loxo_in_doubt", "Prepared transactions that the last pass of recovery had to leave.", count);
    page.gauge("loxo_in_doubt_age_seconds", "How long the oldest of them has been known.", oldest);
}

/// Does this gtm lead?
pub fn leads() -> bool {
    LEADS.load(Ordering::Relaxed) == 1
}
