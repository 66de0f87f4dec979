//! What sessions of the workload have seen, and figures of an interval of it.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Only writers have blocks.
pub(crate) const WRITER: &str = "writer";

/// A transaction or a query that has succeeded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Since the workload began.
    pub(crate) ended: Duration,
    /// With all that was tried before.
    pub(crate) took: Duration,
}

/// Something that went wrong.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    pub(crate) at: Duration,
    pub(crate) who: &'static str,
    /// SQLSTATE, or `None` for a wrong answer.
    pub(crate) code: Option<String>,
    pub(crate) text: String,
}

/// What sessions of one kind have seen. Samples are in the order of their ends.
#[derive(Debug)]
pub(crate) struct Seen {
    who: &'static str,
    began: Instant,
    samples: Mutex<Vec<Sample>>,
    troubles: Mutex<Vec<Trouble>>,
}

/// Figures of an interval; all 0 if nothing has ended in it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    pub(crate) count: usize,
    pub(crate) per_second: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// Longest pause: a session does nothing but one thing after the other.
    pub(crate) max_ms: f64,
}

impl Trouble {
    /// 40001 in a block, which clients have to expect. In a statement of its own it is an error.
    pub(crate) fn is_to_be_tried_again(&self) -> bool {
        self.who == WRITER && self.code.as_deref() == Some("40001")
    }
}

impl Seen {
    pub(crate) fn new(who: &'static str, began: Instant) -> Self {
        Self { who, began, samples: Mutex::default(), troubles: Mutex::default() }
    }

    pub(crate) fn success(&self, took: Duration) {
        let mut samples = self.samples.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Within the lock: so they are in order.
        samples.push(Sample { ended: self.began.elapsed(), took });
    }

    pub(crate) fn trouble(&self, code: Option<String>, text: String) {
        let mut troubles = self.troubles.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        troubles.push(Trouble { at: self.began.elapsed(), who: self.who, code, text });
    }

    /// Figures of what has ended in this interval.
    pub(crate) fn figures(&self, from: Duration, to: Duration) -> Figures {
        let samples = self.samples.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        figures(&samples, from, to)
    }

    pub(crate) fn troubles(&self) -> Vec<Trouble> {
        self.troubles.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.samples.lock().unwrap_or_else(std::sync::PoisonError::into_inner).len()
    }
}

fn figures(samples: &[Sample], from: Duration, to: Duration) -> Figures {
    let first = samples.partition_point(|sample| sample.ended <= from);
    let behind = samples.partition_point(|sample| sample.ended <= to);
    let mut times: Vec<Duration> = samples[first..behind.max(first)].iter().map(|sample| sample.took).collect();
    times.sort_unstable();
    let ms = |at: usize| times.get(at).map_or(0.0, |took| took.as_secs_f64() * 1000.0);
    Figures {
        count: times.len(),
        per_second: times.len() as f64 / (to - from).as_secs_f64().max(1e-9),
        p50_ms: ms(rank(times.len(), 50)),
        p99_ms: ms(rank(times.len(), 99)),
        max_ms: ms(times.len().saturating_sub(1)),
    }
}

/// Place of the smallest of so many sorted values that at least `percent` of them do not exceed.
fn rank(count: usize, percent: usize) -> usize {
    (count * percent).div_ceil(100).saturating_sub(1)
}

/// How often which error came to whom, with the first text: `("a writer", "40001")`.
pub(crate) fn by_code<'t>(
    troubles: impl Iterator<Item = &'t Trouble>,
) -> BTreeMap<(&'t str, &'t str), (usize, &'t str)> {
    let mut counts = BTreeMap::new();
    for trouble in troubles {
        let code = trouble.code.as_deref().unwrap_or("wrong");
        counts.entry((trouble.who, code)).or_insert((0, trouble.text.as_str())).0 += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(ended_ms: u64, took_ms: u64) -> Sample {
        Sample { ended: Duration::from_millis(ended_ms), took: Duration::from_millis(took_ms) }
    }

    #[test]
    fn an_interval_has_what_ended_in_it() {
        let samples =
            [sample(500, 9), sample(1000, 1), sample(1001, 400), sample(1500, 2), sample(2000, 3), sample(2001, 7)];
        let second = |n: u64| figures(&samples, Duration::from_secs(n), Duration::from_secs(n + 1));
        let seen = second(1);
        assert_eq!((seen.count, seen.per_second, seen.p50_ms, seen.p99_ms, seen.max_ms), (3, 3.0, 3.0, 400.0, 400.0));
        assert_eq!((second(0).count, second(0).max_ms), (2, 9.0));
        assert_eq!(second(5), Figures::default());
    }

    #[test]
    fn the_99th_percentile_of_a_hundred_is_the_99th() {
        let samples: Vec<Sample> = (1..=100).map(|n| sample(n, n)).collect();
        let seen = figures(&samples, Duration::ZERO, Duration::from_secs(1));
        assert_eq!((seen.p50_ms, seen.p99_ms, seen.max_ms), (50.0, 99.0, 100.0));
        assert_eq!([rank(0, 99), rank(1, 99), rank(101, 99)], [0, 0, 99]);
    }

    #[test]
    fn errors_are_counted_by_session_and_code() {
        let trouble = |who, code: Option<&str>, text: &str| Trouble {
            at: Duration::ZERO,
            who,
            code: code.map(str::to_owned),
            text: text.to_owned(),
        };
        let all = [
            trouble("writer", Some("40001"), "a"),
            trouble("reader", None, "9"),
            trouble("writer", Some("40001"), "b"),
            trouble("reader", Some("40001"), "c"),
        ];
        assert_eq!(all.each_ref().map(Trouble::is_to_be_tried_again), [true, false, true, false]);
        let counts: Vec<_> = by_code(all[..3].iter()).into_iter().collect();
        assert_eq!(counts, [(("reader", "wrong"), (1, "9")), (("writer", "40001"), (2, "a"))]);
    }
}
