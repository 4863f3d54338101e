//! Virtual time, shared by all devices of a world.

use core::cell::Cell;

use alloc::rc::Rc;

use crate::clock::Clock;
use crate::time::Instant;

/// A clock that stands still until it is set.
#[derive(Clone, Debug, Default)]
pub struct SimClock(Rc<Cell<Instant>>);

impl SimClock {
    /// Moves time to `now`.
    ///
    /// # Panics
    ///
    /// `now` is in the past.
    pub fn set(&self, now: Instant) {
        assert!(now >= self.0.get(), "virtual time never goes backwards");
        self.0.set(now);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Instant {
        self.0.get()
    }
}
