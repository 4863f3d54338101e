//! Completion queues: a bounded ring; overflow is an error, never a lost completion in silence.

use alloc::collections::VecDeque;

use crate::verbs::{Completion, Status};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Armed {
    No,
    Any,
    Solicited,
}

/// A completion queue.
#[derive(Debug)]
pub(crate) struct CompletionQueue {
    ring: VecDeque<Completion>,
    depth: usize,
    armed: Armed,
    /// A completion came that it was armed for.
    notified: bool,
    overflowed: bool,
    /// QPs that use it, counting one that uses it for both directions twice.
    pub(crate) users: u32,
}

impl CompletionQueue {
    /// Makes an empty queue of at least one entry; its memory is taken here, once.
    pub(crate) fn new(depth: u32) -> Self {
        let depth = depth.max(1) as usize;
        Self {
            ring: VecDeque::with_capacity(depth),
            depth,
            armed: Armed::No,
            notified: false,
            overflowed: false,
            users: 0,
        }
    }

    /// Changes the depth; false if more completions wait than it would hold.
    pub(crate) fn resize(&mut self, depth: u32) -> bool {
        let depth = depth.max(1) as usize;
        if self.ring.len() > depth {
            return false;
        }
        self.ring.reserve(depth - self.ring.len());
        self.depth = depth;
        true
    }

    /// Adds a completion; false if there was no room, which is remembered: what comes behind a lost
    /// completion is lost too, or its reader would not see the gap.
    pub(crate) fn push(&mut self, completion: Completion) -> bool {
        if self.overflowed || self.ring.len() >= self.depth {
            self.overflowed = true;
            return false;
        }
        let wanted = match self.armed {
            Armed::No => false,
            Armed::Any => true,
            Armed::Solicited => completion.solicited || completion.status != Status::Success,
        };
        if wanted {
            self.notified = true;
            self.armed = Armed::No;
        }
        self.ring.push_back(completion);
        true
    }

    /// Takes completions into `out`, oldest first; returns how many.
    pub(crate) fn take(&mut self, out: &mut [Completion]) -> usize {
        let n = out.len().min(self.ring.len());
        for (slot, completion) in out.iter_mut().zip(self.ring.drain(..n)) {
            *slot = completion;
        }
        n
    }

    /// Arms it for the next completion, or the next solicited or failed one. One that is armed for any
    /// stays so (IBA 11.4.2.2).
    pub(crate) const fn arm(&mut self, solicited_only: bool) {
        self.armed = match self.armed {
            Armed::No | Armed::Solicited if solicited_only => Armed::Solicited,
            Armed::No | Armed::Solicited | Armed::Any => Armed::Any,
        };
    }

    /// Takes the notification, if there is one.
    pub(crate) const fn take_notification(&mut self) -> bool {
        core::mem::replace(&mut self.notified, false)
    }

    /// Returns whether completions wait.
    pub(crate) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Returns whether it ever overflowed.
    pub(crate) const fn overflowed(&self) -> bool {
        self.overflowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completion(wr_id: u64, solicited: bool) -> Completion {
        Completion {
            wr_id,
            solicited,
            ..Completion::default()
        }
    }

    #[test]
    fn overflow_is_remembered() {
        let mut cq = CompletionQueue::new(1);
        assert!(cq.push(completion(1, false)));
        assert!(!cq.push(completion(2, false)));
        assert!(cq.overflowed());
        let mut out = [Completion::default(); 4];
        assert_eq!(cq.take(&mut out), 1);
        assert_eq!(out[0].wr_id, 1);
    }

    #[test]
    fn nothing_follows_a_lost_completion() {
        let mut cq = CompletionQueue::new(1);
        assert!(cq.push(completion(1, false)));
        assert!(!cq.push(completion(2, false)));
        let mut out = [Completion::default(); 4];
        assert_eq!(cq.take(&mut out), 1);
        assert!(!cq.push(completion(3, false)), "there is room, and a gap");
        assert!(cq.resize(4) && !cq.push(completion(4, false)));
        assert_eq!(cq.take(&mut out), 0);
    }

    #[test]
    fn a_resize_keeps_what_waits() {
        let mut cq = CompletionQueue::new(2);
        cq.push(completion(1, false));
        cq.push(completion(2, false));
        assert!(!cq.resize(1));
        assert!(cq.resize(2), "exactly what waits");
        assert!(cq.resize(3));
        assert!(!cq.is_empty());
        assert!(cq.push(completion(3, false)));
        assert!(!cq.push(completion(4, false)), "the new depth counts");
        let mut out = [Completion::default(); 4];
        assert_eq!(cq.take(&mut out), 3);
        assert_eq!(out[0].wr_id, 1);
        assert!(cq.is_empty());
    }

    #[test]
    fn solicited_arming_waits_for_a_solicited_or_failed_completion() {
        let mut cq = CompletionQueue::new(4);
        cq.arm(true);
        cq.push(completion(1, false));
        assert!(!cq.take_notification());
        cq.push(completion(2, true));
        assert!(cq.take_notification());
        assert!(!cq.take_notification());
        cq.arm(true);
        cq.push(Completion {
            status: Status::WrFlushErr,
            ..completion(3, false)
        });
        assert!(cq.take_notification());
    }
}
