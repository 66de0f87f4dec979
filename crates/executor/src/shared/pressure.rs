//! Do tasks wait for a core on this host? Linux says for how long some did, whoever's they are (`/proc/pressure/cpu`, pressure
//! stall information). Where a system does not say it, nothing is known to wait.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long an answer holds.
const HOLDS: Duration = Duration::from_millis(20);
/// A longer stretch says nothing of the moment.
const STALE: Duration = Duration::from_millis(500);

/// See the module's page.
#[derive(Default)]
pub(crate) struct Pressure {
    latest: Mutex<Option<Sample>>,
}

#[derive(Clone, Copy)]
struct Sample {
    at: Instant,
    /// Stalled time so far.
    stalled: Duration,
    is_high: bool,
}

impl Pressure {
    /// Has a task waited for a core half of the time lately? To be asked again and again: the first answer after a while is yes.
    pub(crate) fn is_high(&self) -> bool {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if let Some(sample) = latest.filter(|sample| now - sample.at < HOLDS) {
            return sample.is_high;
        }
        let text = std::fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
        let Some(stalled) = stalled(&text) else { return false };
        let sample = Sample::after(*latest, now, stalled);
        *latest = Some(sample);
        sample.is_high
    }
}

impl Sample {
    fn after(before: Option<Sample>, at: Instant, stalled: Duration) -> Self {
        let before = before.filter(|before| at - before.at < STALE);
        let is_high = before.is_none_or(|before| stalled.saturating_sub(before.stalled) * 2 > at - before.at);
        Sample { at, stalled, is_high }
    }
}

fn stalled(text: &str) -> Option<Duration> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    let total = line.split(' ').find_map(|word| word.strip_prefix("total="))?;
    Some(Duration::from_micros(total.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_high_where_tasks_waited_half_of_the_time() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let first = Sample::after(None, start, ms(7000));
        let low = Sample::after(Some(first), start + ms(100), ms(7049));
        let high = Sample::after(Some(low), start + ms(200), ms(7100));
        let late = Sample::after(Some(low), start + ms(700), ms(7049));
        assert_eq!([first, low, high, late].map(|sample| sample.is_high), [true, false, true, true]);
    }

    #[test]
    fn the_system_s_words_are_understood() {
        let text = "some avg10=97.45 avg60=97.47 avg300=97.42 total=40897443511\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
        assert_eq!(stalled(text), Some(Duration::from_micros(40_897_443_511)));
        assert_eq!(stalled(""), None);
    }
}
