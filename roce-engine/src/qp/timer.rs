//! The timers of a QP.

use crate::time::Instant;

/// Names a timer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Timer {
    /// When to resend what was not acknowledged.
    Retransmit,
    /// When to try again after an RNR NAK.
    Rnr,
}

impl Timer {
    /// All timers.
    pub(crate) const ALL: [Self; 2] = [Self::Retransmit, Self::Rnr];
}

/// When each timer of a QP is due, and what the deadline heap knows of it.
#[derive(Debug, Default)]
pub(crate) struct TimerTable {
    due: [Option<Instant>; 2],
    queued: [Option<Instant>; 2],
}

impl TimerTable {
    /// Starts a timer; returns the time that the heap must be told, if it must.
    #[must_use]
    pub(crate) fn set(&mut self, timer: Timer, at: Instant) -> Option<Instant> {
        self.due[timer as usize] = Some(at);
        self.queue(timer)
    }

    /// Stops a timer.
    pub(crate) const fn clear(&mut self, timer: Timer) {
        self.due[timer as usize] = None;
    }

    /// Stops all timers.
    pub(crate) const fn clear_all(&mut self) {
        self.due = [None; 2];
    }

    /// Returns whether a timer runs.
    pub(crate) const fn is_set(&self, timer: Timer) -> bool {
        self.due[timer as usize].is_some()
    }

    /// Takes a timer that is due, and stops it.
    pub(crate) fn take_due(&mut self, timer: Timer, now: Instant) -> bool {
        let due = self.due[timer as usize].is_some_and(|at| at <= now);
        if due {
            self.due[timer as usize] = None;
        }
        due
    }

    /// Notes that the heap's entries up to `now` are gone.
    pub(crate) fn popped(&mut self, now: Instant) {
        for queued in &mut self.queued {
            if queued.is_some_and(|at| at <= now) {
                *queued = None;
            }
        }
    }

    /// Returns the time that the heap must be told for a running timer it does not know, if any.
    pub(crate) fn queue(&mut self, timer: Timer) -> Option<Instant> {
        let at = self.due[timer as usize]?;
        let queued = &mut self.queued[timer as usize];
        if queued.is_some_and(|known| known <= at) {
            return None;
        }
        *queued = Some(at);
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn a_timer_that_moves_on_needs_no_new_entry() {
        let mut timers = TimerTable::default();
        assert_eq!(timers.set(Timer::Retransmit, at(10)), Some(at(10)));
        assert_eq!(
            timers.set(Timer::Retransmit, at(20)),
            None,
            "the entry at 10 finds out"
        );
        timers.popped(at(10));
        assert!(!timers.take_due(Timer::Retransmit, at(10)));
        assert_eq!(timers.queue(Timer::Retransmit), Some(at(20)));
        timers.popped(at(20));
        assert!(timers.take_due(Timer::Retransmit, at(20)));
        assert!(!timers.is_set(Timer::Retransmit));
        assert_eq!(timers.queue(Timer::Retransmit), None);
    }

    #[test]
    fn an_earlier_deadline_is_told_at_once() {
        let mut timers = TimerTable::default();
        assert_eq!(timers.set(Timer::Rnr, at(100)), Some(at(100)));
        assert_eq!(timers.set(Timer::Rnr, at(50)), Some(at(50)));
        assert_eq!(
            timers.set(Timer::Retransmit, at(70)),
            Some(at(70)),
            "timers are apart"
        );
    }
}
