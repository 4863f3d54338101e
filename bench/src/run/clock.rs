//! The time of a run: nanoseconds since its start, for stamps and deadlines.

use rustix::time::{ClockId, clock_gettime};

/// A cheap monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct RunClock {
    start: u64,
}

impl RunClock {
    /// Starts at zero.
    pub fn start() -> Self {
        Self { start: monotonic() }
    }

    /// Returns the nanoseconds since the start.
    #[inline]
    pub fn now(&self) -> u64 {
        monotonic() - self.start
    }
}

#[inline]
fn monotonic() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    // Neither is negative: the clock starts when the machine does.
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}

/// Nanoseconds of a millisecond.
pub const MILLISECOND: u64 = 1_000_000;
/// Nanoseconds of a second.
pub const SECOND: u64 = 1_000_000_000;
