//! What a run of the tests is told by environment variables.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::Rng;

/// The value of a variable that holds a number.
///
/// # Panics
/// When it holds something else: a run that silently does what nobody asked for proves nothing.
pub fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {text}")))
}

/// The seed of a run: the variable's value, else a fresh one, so that every run tries something new. It is printed as the assignment
/// that repeats the run.
pub fn seed(variable: &str) -> u64 {
    /// Fresh seeds are short enough to be typed.
    const FRESH_MAX: u64 = 1_000_000_000;
    let fresh = || {
        let clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        Rng::new(clock ^ u64::from(std::process::id()) << 32).next_u64() % FRESH_MAX
    };
    let seed = number(variable).unwrap_or_else(fresh);
    eprintln!("{variable}={seed}");
    seed
}
