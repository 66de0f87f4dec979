//! The clock that leases and global snapshots are measured by. It goes on while the machine sleeps or is suspended, which the monotonic clock of the
//! standard library does not: what was to be over in a second is over when the machine wakes.

use std::time::Duration;

/// Time since the machine was started.
pub(crate) fn now() -> Duration {
    #[cfg(target_os = "linux")]
    const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;
    let time = rustix::time::clock_gettime(CLOCK);
    // Neither is ever negative.
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
