//! Receive work requests of a QP or an SRQ: memory that is taken once.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use crate::verbs::Sge;

/// A posted receive.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecvWqe {
    /// The caller's id.
    pub(crate) wr_id: u64,
    /// The bytes that its SGEs hold.
    pub(crate) capacity: u64,
    /// Its place, which finds its SGEs.
    place: u32,
    sge_count: u32,
}

/// Receives in the order in which they were posted.
///
/// A receive that was popped keeps its place until it is released: a message is being written to it.
/// From an SRQ several QPs hold receives at once, and release them in any order.
#[derive(Debug)]
pub(crate) struct RecvQueue {
    wqes: Box<[RecvWqe]>,
    sges: Box<[Sge]>,
    max_sge: u32,
    waiting: VecDeque<u32>,
    free: Vec<u32>,
}

impl RecvQueue {
    /// Makes an empty queue.
    pub(crate) fn new(depth: u32, max_sge: u32) -> Self {
        let places = depth as usize;
        Self {
            wqes: vec![RecvWqe::default(); places].into_boxed_slice(),
            sges: vec![Sge::default(); places * max_sge as usize].into_boxed_slice(),
            max_sge,
            waiting: VecDeque::with_capacity(places),
            free: (0..depth).rev().collect(),
        }
    }

    /// Returns how many receives can be posted.
    pub(crate) const fn room(&self) -> u32 {
        self.free.len() as u32
    }

    /// Returns how many receives it holds at most.
    pub(crate) const fn depth(&self) -> u32 {
        self.wqes.len() as u32
    }

    /// Returns how many receives wait.
    pub(crate) fn len(&self) -> u32 {
        self.waiting.len() as u32
    }

    /// Returns the most SGEs of a receive.
    pub(crate) const fn max_sge(&self) -> u32 {
        self.max_sge
    }

    /// Posts a receive; the caller has checked `room` and the number of SGEs.
    pub(crate) fn push(&mut self, wr_id: u64, sges: &[Sge]) {
        assert!(sges.len() <= self.max_sge as usize);
        let place = self
            .free
            .pop()
            .expect("the caller has checked that there is room");
        let start = place as usize * self.max_sge as usize;
        self.sges[start..start + sges.len()].copy_from_slice(sges);
        self.wqes[place as usize] = RecvWqe {
            wr_id,
            capacity: crate::sge::total(sges),
            place,
            sge_count: sges.len() as u32,
        };
        self.waiting.push_back(place);
    }

    /// Returns the oldest receive.
    pub(crate) fn peek(&self) -> Option<&RecvWqe> {
        self.waiting
            .front()
            .map(|&place| &self.wqes[place as usize])
    }

    /// Takes the oldest receive. Its place stays taken until `release`.
    pub(crate) fn pop(&mut self) -> Option<RecvWqe> {
        self.waiting
            .pop_front()
            .map(|place| self.wqes[place as usize])
    }

    /// Frees the place of a receive that was popped.
    pub(crate) fn release(&mut self, wqe: &RecvWqe) {
        debug_assert!(self.free.len() < self.wqes.len(), "released once");
        self.free.push(wqe.place);
    }

    /// Returns the SGEs of a receive that was popped.
    pub(crate) fn sges(&self, wqe: &RecvWqe) -> &[Sge] {
        let start = wqe.place as usize * self.max_sge as usize;
        &self.sges[start..start + wqe.sge_count as usize]
    }

    /// Forgets everything, also what was popped.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
        self.free.clear();
        self.free.extend((0..self.wqes.len() as u32).rev());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::LKey;

    fn sge(addr: u64) -> [Sge; 1] {
        [Sge {
            addr,
            length: 1,
            lkey: LKey(1),
        }]
    }

    #[test]
    fn the_place_of_a_receive_in_progress_is_not_reused() {
        let mut queue = RecvQueue::new(2, 1);
        queue.push(1, &sge(1));
        queue.push(2, &sge(2));
        assert_eq!(queue.room(), 0);
        let first = queue.pop().expect("posted");
        assert_eq!(queue.room(), 0, "it counts until its message is complete");
        assert_eq!(queue.sges(&first)[0].addr, 1);
        queue.release(&first);
        queue.push(3, &sge(3));
        assert_eq!(queue.peek().map(|wqe| wqe.wr_id), Some(2));
        assert_eq!(queue.pop().expect("posted").wr_id, 2);
        assert_eq!(queue.pop().expect("posted").wr_id, 3);
        assert!(queue.pop().is_none());
    }

    #[test]
    fn receives_are_released_in_any_order() {
        let mut queue = RecvQueue::new(2, 1);
        queue.push(1, &sge(1));
        queue.push(2, &sge(2));
        let (a, b) = (queue.pop().expect("posted"), queue.pop().expect("posted"));
        queue.release(&b);
        queue.push(3, &sge(3));
        assert_eq!(queue.sges(&a)[0].addr, 1);
        queue.release(&a);
        assert_eq!(queue.room(), 1);
        queue.clear();
        assert_eq!((queue.room(), queue.len()), (2, 0));
    }
}
