//! How far readers and streams are.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What readers and streams have done so far.
#[derive(Debug)]
pub(crate) struct Counters {
    /// Bytes read off the disk.
    read: AtomicU64,
    rows_sent: AtomicU64,
    bytes_sent: AtomicU64,
    /// Microseconds in which a stream had nothing to send.
    starved: AtomicU64,
    committing: AtomicBool,
    started: Instant,
}

impl Counters {
    pub(crate) fn new() -> Self {
        Self {
            read: AtomicU64::new(0),
            rows_sent: AtomicU64::new(0),
            bytes_sent: AtomicU64::new(0),
            starved: AtomicU64::new(0),
            committing: AtomicBool::new(false),
            started: Instant::now(),
        }
    }

    pub(crate) fn read(&self, bytes: u64) {
        self.read.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn sent(&self, rows: u64, bytes: u64) {
        self.rows_sent.fetch_add(rows, Ordering::Relaxed);
        self.bytes_sent.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn starved(&self, time: Duration) {
        self.starved.fetch_add(time.as_micros() as u64, Ordering::Relaxed);
    }

    /// All rows are sent; from now on a load that commits at once must not be left alone.
    pub(crate) fn begin_commit(&self) {
        self.committing.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_committing(&self) -> bool {
        self.committing.load(Ordering::Relaxed)
    }

    /// Bytes read so far.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows_sent.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes_sent.load(Ordering::Relaxed)
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn starved_seconds(&self) -> f64 {
        self.starved.load(Ordering::Relaxed) as f64 / 1e6
    }
}
