//! Receive work requests of a QP: a ring whose memory is taken once.

use alloc::boxed::Box;
use alloc::vec;

use crate::verbs::Sge;

/// A posted receive.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecvWqe {
    /// The caller's id.
    pub(crate) wr_id: u64,
    /// Its place in the ring, which finds its SGEs.
    place: u32,
    sge_count: u32,
    /// The bytes that its SGEs hold.
    pub(crate) capacity: u64,
}

/// A ring of receives.
#[derive(Debug)]
pub(crate) struct RecvQueue {
    ring: Box<[RecvWqe]>,
    sges: Box<[Sge]>,
    max_sge: u32,
    head: u32,
    len: u32,
    /// The receive that a message is being written to: popped, but its place is not reused yet.
    held: bool,
}

impl RecvQueue {
    /// Makes an empty ring.
    pub(crate) fn new(depth: u32, max_sge: u32) -> Self {
        // One more place than receives can wait, for the one that is being filled.
        let places = depth as usize + 1;
        Self {
            ring: vec![RecvWqe::default(); places].into_boxed_slice(),
            sges: vec![Sge::default(); places * max_sge as usize].into_boxed_slice(),
            max_sge,
            head: 0,
            len: 0,
            held: false,
        }
    }

    /// Returns how many receives can be posted.
    pub(crate) fn room(&self) -> u32 {
        self.ring.len() as u32 - 1 - self.len - u32::from(self.held)
    }

    /// Returns the most SGEs of a receive.
    pub(crate) const fn max_sge(&self) -> u32 {
        self.max_sge
    }

    /// Posts a receive; the caller has checked `room` and the number of SGEs.
    pub(crate) fn push(&mut self, wr_id: u64, sges: &[Sge]) {
        assert!(self.room() > 0 && sges.len() <= self.max_sge as usize);
        let place = (self.head + self.len) % self.ring.len() as u32;
        let start = (place * self.max_sge) as usize;
        self.sges[start..start + sges.len()].copy_from_slice(sges);
        self.ring[place as usize] = RecvWqe {
            wr_id,
            place,
            sge_count: sges.len() as u32,
            capacity: crate::sge::total(sges),
        };
        self.len += 1;
    }

    /// Returns whether a receive waits.
    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes the oldest receive. Its place stays taken until `release`.
    pub(crate) fn pop(&mut self) -> Option<RecvWqe> {
        if self.len == 0 {
            return None;
        }
        let wqe = self.ring[self.head as usize];
        self.head = (self.head + 1) % self.ring.len() as u32;
        self.len -= 1;
        self.held = true;
        Some(wqe)
    }

    /// Frees the place of the receive that was popped last.
    pub(crate) const fn release(&mut self) {
        self.held = false;
    }

    /// Returns the SGEs of a receive that was popped.
    pub(crate) fn sges(&self, wqe: &RecvWqe) -> &[Sge] {
        let start = (wqe.place * self.max_sge) as usize;
        &self.sges[start..start + wqe.sge_count as usize]
    }

    /// Forgets everything.
    pub(crate) const fn clear(&mut self) {
        self.head = 0;
        self.len = 0;
        self.held = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::LKey;

    #[test]
    fn the_place_of_a_receive_in_progress_is_not_reused() {
        let mut queue = RecvQueue::new(2, 1);
        let sge = |addr| {
            [Sge {
                addr,
                length: 1,
                lkey: LKey(1),
            }]
        };
        queue.push(1, &sge(1));
        queue.push(2, &sge(2));
        assert_eq!(queue.room(), 0);
        let first = queue.pop().expect("posted");
        assert_eq!(queue.room(), 0, "it counts until its message is complete");
        assert_eq!(queue.sges(&first)[0].addr, 1);
        queue.release();
        queue.push(3, &sge(3));
        assert_eq!(queue.sges(&first)[0].addr, 1);
        assert_eq!(queue.pop().expect("posted").wr_id, 2);
        queue.release();
        assert_eq!(queue.pop().expect("posted").wr_id, 3);
        assert!(queue.pop().is_none());
    }
}
