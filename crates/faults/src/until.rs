//! How long a workload goes on.

use std::time::{Duration, Instant};

/// On a machine so slow that the time asked for is too short for anything, or after faults that took it all.
pub(crate) const LONGER_MAX: Duration = Duration::from_secs(60);

/// For the time asked for, and then until enough is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Until {
    /// End of the time asked for: faults come until then.
    pub(crate) end: Instant,
    /// Whatever was done by then.
    pub(crate) latest: Instant,
}

impl Until {
    /// From now on.
    pub(crate) fn new(duration: Duration) -> Self {
        let end = Instant::now() + duration;
        Self { end, latest: end + LONGER_MAX }
    }

    /// May another transaction begin? `enough` says whether the workload has shown what it is for.
    pub(crate) fn goes_on(&self, enough: impl FnOnce() -> bool) -> bool {
        let now = Instant::now();
        now < self.end || now < self.latest && !enough()
    }
}
