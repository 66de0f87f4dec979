//! How far a load is: a bar on a terminal, a line every few seconds elsewhere.

use std::convert::Infallible;
use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressStyle};

use crate::files::counters::Counters;
use crate::server::monitor::Monitor;

/// What there is to show.
pub(crate) struct Progress<'a> {
    pub(crate) counters: &'a Counters,
    pub(crate) monitor: &'a Monitor,
}

impl Progress<'_> {
    fn text(&self) -> String {
        let speed = self.counters.bytes() as f64 / 1e6 / self.counters.elapsed().as_secs_f64().max(1e-3);
        let nodes = self.monitor.rates();
        let nodes = if nodes.is_empty() { nodes } else { format!(" ({nodes})") };
        format!("{} rows, {speed:.0} MB/s{nodes}", HumanCount(self.counters.rows()))
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
            let read = self.counters.bytes_read();
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
            let read = self.counters.bytes_read();
            match total {
                Some(total) if read >= total => eprintln!("all read, {}, waiting for the datanodes", self.text()),
                Some(total) => {
                    // Readers of one file's ranges see a little of it twice.
                    let read = read.min(total);
                    let left = (total - read) as f64 * self.counters.elapsed().as_secs_f64() / read.max(1) as f64;
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
