//! Deadlines across QPs: a heap with lazy deletion that holds at most one entry a timer.
//!
//! A QP's own timer is the truth. The heap knows of one time at or before it; when that time comes
//! and the timer has moved on, the entry is put back. So restarting a timer on every acknowledgement
//! costs nothing, and the heap is never longer than there are timers.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use crate::time::Instant;

/// The heap.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    heap: BinaryHeap<Reverse<(Instant, u32)>>,
}

impl Deadlines {
    /// Adds an entry for the QP at `index`.
    pub(crate) fn push(&mut self, at: Instant, index: u32) {
        self.heap.push(Reverse((at, index)));
    }

    /// Returns the earliest time at which something may be due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes an entry that is due.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<u32> {
        let Reverse((at, index)) = *self.heap.peek()?;
        if at > now {
            return None;
        }
        self.heap.pop();
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_in_time_order_and_not_early() {
        let mut deadlines = Deadlines::default();
        for (at, index) in [(30, 3), (10, 1), (20, 2)] {
            deadlines.push(Instant::from_nanos(at), index);
        }
        assert_eq!(deadlines.next(), Some(Instant::from_nanos(10)));
        let now = Instant::from_nanos(25);
        assert_eq!(deadlines.pop_due(now), Some(1));
        assert_eq!(deadlines.pop_due(now), Some(2));
        assert_eq!(deadlines.pop_due(now), None);
    }
}
