//! How far a load is: a bar on a terminal, a line every few seconds elsewhere.

use std::convert::Infallible;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{HumanCount, ProgressBar, ProgressStyle};

use crate::monitor::Monitor;

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
    pub(crate) monitor: Monitor,
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
            monitor: Monitor::default(),
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

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes_sent.load(Ordering::Relaxed)
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn starved_seconds(&self) -> f64 {
        self.starved.load(Ordering::Relaxed) as f64 / 1e6
    }

    fn text(&self) -> String {
        let speed = self.bytes() as f64 / 1e6 / self.elapsed().as_secs_f64().max(1e-3);
        let nodes = self.monitor.rates();
        let nodes = if nodes.is_empty() { nodes } else { format!(" ({nodes})") };
        format!("{} rows, {speed:.0} MB/s{nodes}", HumanCount(self.rows_sent.load(Ordering::Relaxed)))
    }

    /// Shows the counters until the future is dropped. `total` is what there is to read, if that is known.
    pub(crate) async fn show(&self, total: Option<u64>) -> Infallible {
        match std::io::stderr().is_terminal() {
            true => self.show_bar(total).await,
            false => self.show_lines(total).await,
        }
    }

    async fn show_bar(&self, total: Option<u64>) -> Infallible {
        let bar = total.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
        let template = match total {
            Some(_) => "loading  {wide_bar} {percent}%  {msg}  {eta} left",
            None => "loading  {spinner}  {msg}  {elapsed}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        let bar = Finished(bar);
        let mut tick = tokio::time::interval(Duration::from_millis(200));
        loop {
            tick.tick().await;
            let read = self.read.load(Ordering::Relaxed);
            bar.0.set_position(total.map_or(read, |total| read.min(total)));
            // What is read may still be on its way, be committed, or indexed: how long that takes nobody knows.
            let done = if total.is_some_and(|total| read >= total) { ", waiting for the datanodes" } else { "" };
            if !done.is_empty()
                && let Ok(style) = ProgressStyle::with_template("loading  {wide_bar}  {msg}  {elapsed}")
            {
                bar.0.set_style(style);
            }
            bar.0.set_message(format!("{}{done}", self.text()));
        }
    }

    async fn show_lines(&self, total: Option<u64>) -> Infallible {
        let mut tick = tokio::time::interval(Duration::from_secs(5));
        tick.tick().await;
        loop {
            tick.tick().await;
            let read = self.read.load(Ordering::Relaxed);
            match total {
                Some(total) if read >= total => eprintln!("all read, {}, waiting for the datanodes", self.text()),
                Some(total) => {
                    // Readers of one file's ranges see a little of it twice.
                    let read = read.min(total);
                    let left = (total - read) as f64 * self.elapsed().as_secs_f64() / read.max(1) as f64;
                    let percent = 100.0 * read as f64 / total.max(1) as f64;
                    eprintln!("{percent:.0}%, {}, {left:.0} s left", self.text());
                }
                None => eprintln!("{}", self.text()),
            }
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
