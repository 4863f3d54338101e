//! Shared receive queues and their limit.

use crate::recv_queue::RecvQueue;
use crate::verbs::Pd;

/// A receive queue that several QPs take from.
#[derive(Debug)]
pub(crate) struct SharedReceives {
    /// Whose keys its SGEs name.
    pub(crate) pd: Pd,
    /// The receives.
    pub(crate) queue: RecvQueue,
    /// QPs that take from it.
    pub(crate) users: u32,
    /// Fewer receives than this make one event; 0 is off.
    limit: u32,
}

impl SharedReceives {
    /// Makes an empty queue.
    pub(crate) fn new(pd: Pd, depth: u32, max_sge: u32) -> Self {
        Self {
            pd,
            queue: RecvQueue::new(depth, max_sge),
            users: 0,
            limit: 0,
        }
    }

    /// Sets the limit, once.
    pub(crate) const fn arm(&mut self, limit: u32) {
        self.limit = limit;
    }

    /// Returns whether the limit was just passed, and switches it off.
    pub(crate) fn passed_limit(&mut self) -> bool {
        let passed = self.queue.len() < self.limit;
        if passed {
            self.limit = 0;
        }
        passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_speaks_once() {
        let mut srq = SharedReceives::new(Pd(0), 4, 1);
        for wr_id in 0..3 {
            srq.queue.push(wr_id, &[]);
        }
        srq.arm(2);
        assert!(!srq.passed_limit());
        srq.queue.pop().expect("posted");
        assert!(!srq.passed_limit(), "two are left");
        srq.queue.pop().expect("posted");
        assert!(srq.passed_limit());
        assert!(!srq.passed_limit(), "it must be armed again");
    }
}
