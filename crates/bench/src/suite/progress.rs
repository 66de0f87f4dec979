//! How far a run is, on stderr: a line a step, and on a terminal what is going on, with the time left.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Between two lines, so that many short steps do not fill the screen.
const LINE: Duration = Duration::from_secs(1);

/// Progress of one experiment.
pub(super) struct Progress {
    name: &'static str,
    steps: usize,
    done: usize,
    /// What was expected of all steps, and of those done here.
    expected: f64,
    expected_done: f64,
    began: Instant,
    last_line: Option<Instant>,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// `known` steps of `steps` were measured before; those left take about `expected` seconds.
    pub(super) fn new(name: &'static str, steps: usize, known: usize, expected: f64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}  {elapsed}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Self { name, steps, done: known, expected, expected_done: 0.0, began: Instant::now(), last_line: None, bar }
    }

    /// Seconds left, by what was expected and how long it took.
    fn left(&self) -> f64 {
        let slowness = match self.expected_done > 0.0 {
            true => self.began.elapsed().as_secs_f64() / self.expected_done,
            false => 1.0,
        };
        (self.expected - self.expected_done).max(0.0) * slowness
    }

    /// What goes on now.
    pub(super) fn doing(&self, what: &str) {
        let text = format!("{} {}/{}: {what}, about {} left", self.name, self.done, self.steps, minutes(self.left()));
        match &self.bar {
            Some(bar) => bar.set_message(text),
            None if self.last_line.is_none() => eprintln!("{text}"),
            None => {}
        }
    }

    /// One step more is measured.
    pub(super) fn done(&mut self, step: &str, found: &str, expected: f64) {
        self.done += 1;
        self.expected_done += expected;
        let is_due = self.last_line.is_none_or(|last| last.elapsed() >= LINE) || self.done == self.steps;
        if !is_due {
            return;
        }
        self.last_line = Some(Instant::now());
        let left = minutes(self.left());
        self.line(&format!("{} {}/{}: {step}: {found}; about {left} left", self.name, self.done, self.steps));
    }

    /// Something else to be said.
    pub(super) fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None => eprintln!("{text}"),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn minutes(seconds: f64) -> String {
    match seconds.round() as u64 {
        seconds @ 0..=99 => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_what_was_expected_at_the_pace_so_far() {
        let mut progress = Progress::new("x", 10, 2, 80.0);
        assert_eq!(progress.left(), 80.0);
        progress.began -= Duration::from_secs(20);
        progress.done("a", "1", 10.0);
        let left = progress.left();
        assert!((139.0..400.0).contains(&left), "{left}");
    }

    #[test]
    fn long_times_are_in_minutes() {
        assert_eq!((minutes(7.4).as_str(), minutes(100.0).as_str()), ("7 s", "2 min"));
    }
}
