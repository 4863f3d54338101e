//! Where a device's time comes from.

use crate::time::Instant;

/// A source of time that never goes backwards.
pub trait Clock {
    /// Returns the time.
    fn now(&self) -> Instant;
}

/// A fixed instant is a clock: time stands still.
impl Clock for Instant {
    fn now(&self) -> Instant {
        *self
    }
}
