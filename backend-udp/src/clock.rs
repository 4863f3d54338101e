//! The clock of a device over sockets.

use roce_engine::Instant;
use roce_engine::clock::Clock;

/// The system's monotonic clock, in nanoseconds since this value was made.
///
/// Copies of one value share its epoch.
#[derive(Clone, Copy, Debug)]
pub struct MonotonicClock {
    start: std::time::Instant,
}

impl MonotonicClock {
    /// Starts a clock at zero.
    pub fn new() -> Self {
        Self {
            start: std::time::Instant::now(),
        }
    }
}

impl Default for MonotonicClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for MonotonicClock {
    fn now(&self) -> Instant {
        Instant::ZERO.after(self.start.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_share_an_epoch_and_time_goes_on() {
        let clock = MonotonicClock::new();
        let copy = clock;
        let first = clock.now();
        std::thread::sleep(core::time::Duration::from_millis(2));
        assert!(copy.now().since(first) >= core::time::Duration::from_millis(2));
    }
}
