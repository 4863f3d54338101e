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
