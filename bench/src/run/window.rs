//! When a measurement by the clock counts: after its warm-up and before its cool-down.

use super::machine::MachineTime;
use crate::spec::Span;

/// Where a run that ends by the clock is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Phase {
    /// It has not started, or its margin is not over.
    WarmUp,
    /// What happens counts.
    Sample,
    /// What happens no longer counts, but the load goes on.
    CoolDown,
    /// It is over.
    End,
}

/// A run that ends by the clock.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    margin: u64,
    total: u64,
    started: Option<u64>,
    opened: Option<u64>,
    closed: Option<u64>,
    /// What was counted in the sample.
    pub count: u64,
    // The machine's time when the sample opened, and when it closed, if it is looked at.
    machine: Option<[Option<MachineTime>; 2]>,
}

impl Window {
    /// Makes a window whose time does not run yet.
    pub fn new(span: Span) -> Self {
        let nanos = |duration: core::time::Duration| {
            u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4)
        };
        Self {
            margin: nanos(span.margin),
            total: nanos(span.total),
            started: None,
            opened: None,
            closed: None,
            count: 0,
            machine: None,
        }
    }

    /// Looks at the machine's time, too, when the sample opens and when it closes.
    #[must_use]
    pub fn with_machine(mut self, watched: bool) -> Self {
        self.machine = watched.then_some([None; 2]);
        self
    }

    /// Returns how busy the machine was in the sample, in percent, if it was looked at.
    pub fn busy(&self) -> Option<f64> {
        let [opened, closed] = self.machine?;
        closed?.busy_since(opened?)
    }

    /// Starts the time if it does not run yet.
    pub fn start(&mut self, now: u64) {
        self.started.get_or_insert(now);
    }

    /// Returns where the run is at `now`.
    #[inline]
    pub fn phase(&mut self, now: u64) -> Phase {
        let Some(started) = self.started else {
            return Phase::WarmUp;
        };
        let passed = now.saturating_sub(started);
        if passed < self.margin {
            return Phase::WarmUp;
        }
        if passed < self.total - self.margin {
            if self.opened.is_none() {
                self.opened = Some(now);
                self.look(0);
            }
            return Phase::Sample;
        }
        if self.closed.is_none() {
            self.closed = Some(now);
            self.look(1);
        }
        if passed < self.total {
            Phase::CoolDown
        } else {
            Phase::End
        }
    }

    #[cold]
    fn look(&mut self, end: usize) {
        if let Some(times) = &mut self.machine {
            times[end] = MachineTime::read();
        }
    }

    /// Counts what completed between two looks at the clock, if it lies in the sample.
    #[inline]
    pub fn add(&mut self, now: u64, count: u64) {
        // Opening the sample must not count what came before it.
        let was_open = self.opened.is_some();
        if self.phase(now) == Phase::Sample && was_open {
            self.count += count;
        }
    }

    /// Returns how long the sample was, in nanoseconds.
    pub fn length(&self) -> u64 {
        match (self.opened, self.closed) {
            (Some(opened), Some(closed)) => closed - opened,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    #[test]
    fn only_the_middle_counts() {
        let mut window = Window::new(Span {
            total: Duration::from_nanos(100),
            margin: Duration::from_nanos(25),
        });
        assert_eq!(window.phase(5), Phase::WarmUp);
        window.add(6, 1000);
        window.start(10);
        for now in 10..=110 {
            window.add(now, 1);
        }
        assert_eq!(window.phase(111), Phase::End);
        // Opened at 35, closed at 85: what completed in between.
        assert_eq!((window.count, window.length()), (49, 50));
    }
}
