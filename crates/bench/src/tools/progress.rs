//! How far a load is: a bar on a terminal, a line every few seconds elsewhere.

use std::convert::Infallible;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{HumanCount, ProgressBar, ProgressStyle};

/// Counters that the streams add to.
#[derive(Debug)]
pub(crate) struct Progress {
    rows: AtomicU64,
    bytes: AtomicU64,
    started: Instant,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { rows: AtomicU64::new(0), bytes: AtomicU64::new(0), started: Instant::now() }
    }

    pub(crate) fn add(&self, rows: u64, bytes: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes handed to the sockets.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn megabytes_per_second(&self) -> f64 {
        self.bytes() as f64 / 1e6 / self.elapsed().as_secs_f64().max(1e-3)
    }

    /// Shows the counters until the future is dropped. `rows_expected` is an estimate.
    pub(crate) async fn show(&self, rows_expected: u64) -> Infallible {
        match std::io::stderr().is_terminal() {
            true => self.show_bar(rows_expected).await,
            false => self.show_lines(rows_expected).await,
        }
    }

    async fn show_bar(&self, rows_expected: u64) -> Infallible {
        let bar = Finished(ProgressBar::new(rows_expected));
        let template = "loading  {wide_bar} {human_pos}/{human_len} rows  {msg}  {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.0.set_style(style);
        }
        let mut tick = tokio::time::interval(Duration::from_millis(200));
        loop {
            tick.tick().await;
            // The total is an estimate: a bar must not run over its end.
            bar.0.set_position(self.rows.load(Ordering::Relaxed).min(rows_expected));
            bar.0.set_message(format!("{:.0} MB/s", self.megabytes_per_second()));
        }
    }

    async fn show_lines(&self, rows_expected: u64) -> Infallible {
        let mut tick = tokio::time::interval(Duration::from_secs(2));
        tick.tick().await;
        loop {
            tick.tick().await;
            let rows = self.rows.load(Ordering::Relaxed).min(rows_expected);
            let left = self.elapsed().as_secs_f64() * (rows_expected - rows) as f64 / rows.max(1) as f64;
            let (rows, expected) = (HumanCount(rows), HumanCount(rows_expected));
            eprintln!("{rows} of about {expected} rows, {:.0} MB/s, {left:.0} s left", self.megabytes_per_second());
        }
    }
}

/// Takes the bar off the screen when the future is dropped.
struct Finished(ProgressBar);

impl Drop for Finished {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
