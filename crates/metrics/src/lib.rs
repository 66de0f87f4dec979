//! Figures of a process, and the port where Prometheus reads them.
//!
//! A figure is a `static` of the crate that counts it ([`Counter`], [`Histogram`], [`ByLabel`]). Counting is a relaxed addition, per
//! statement or per batch and never per row. A [`Page`] writes them in Prometheus' text format, [`serve`] answers `/metrics` and
//! `/health` over HTTP/1.1.
//!
//! Invariants: nothing waits for a reader of figures; a page tells numbers and names of nodes, nothing of the users' data.

mod page;
mod server;

pub use page::Page;
pub use server::{Source, serve};

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// It only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// From 0.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// One more.
    pub fn count(&self) {
        self.add(1);
    }

    /// Adds to the count.
    pub fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    /// What it has come to.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Upper ends of a histogram's buckets, in µs.
const BOUNDS_US: [u64; 11] =
    [100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000];

/// Times.
#[derive(Debug)]
pub struct Histogram {
    /// By the first bound that is not below; the last one is of those beyond all bounds.
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

impl Histogram {
    /// Without any.
    pub const fn new() -> Self {
        Self { buckets: [const { AtomicU64::new(0) }; BOUNDS_US.len() + 1], sum_us: AtomicU64::new(0) }
    }

    /// One more.
    pub fn observe(&self, time: Duration) {
        let us = time.as_micros() as u64;
        let bucket = BOUNDS_US.partition_point(|bound| *bound < us);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

/// Labels of one figure; what comes after them is counted together.
const LABELS_MAX: usize = 1000;

/// Counters by something of which there are few, for what happens seldom: an error, the end of a COPY.
#[derive(Debug, Default)]
pub struct ByLabel(Mutex<BTreeMap<String, u64>>);

impl ByLabel {
    /// Without any.
    pub const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Adds to the count of a label.
    pub fn add(&self, label: &str, number: u64) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let label = if all.len() < LABELS_MAX || all.contains_key(label) { label } else { "other" };
        match all.get_mut(label) {
            Some(known) => *known += number,
            None => drop(all.insert(label.to_owned(), number)),
        }
    }

    fn all(&self) -> BTreeMap<String, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
