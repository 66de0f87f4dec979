//! Lines on stderr for what takes longer than a moment.

use std::time::{Duration, Instant};

/// A step is silent for this long.
const FIRST_LINE_AFTER: Duration = Duration::from_secs(2);
/// Then it reports this often.
const NEXT_LINE_AFTER: Duration = Duration::from_secs(5);

/// Where progress goes: stderr, or nowhere.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    quiet: bool,
}

impl Progress {
    /// Lines on stderr.
    pub fn stderr() -> Self {
        Self { quiet: false }
    }

    /// Says nothing; for tests and embedding.
    pub fn quiet() -> Self {
        Self { quiet: true }
    }

    /// One line at once.
    pub fn line(&self, text: &str) {
        if !self.quiet {
            eprintln!("loxo: {text}");
        }
    }

    /// Awaits `work`; says `label` if that takes longer than two seconds, and the seconds so far every five.
    pub async fn step<T>(&self, label: &str, work: impl Future<Output = T>) -> T {
        let started = Instant::now();
        let mut work = std::pin::pin!(work);
        let mut pause = FIRST_LINE_AFTER;
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = tokio::time::sleep(pause) => {
                    self.line(&format!("{label} ({} s)", started.elapsed().as_secs()));
                    pause = NEXT_LINE_AFTER;
                }
            }
        }
    }
}
