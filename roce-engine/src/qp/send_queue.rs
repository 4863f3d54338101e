//! Send work requests of a QP: a ring whose memory is taken once.
//!
//! RC keeps no packets. A request stays here until it is acknowledged, and the same bytes are cut from
//! it again when they must be resent.

use alloc::boxed::Box;
use alloc::vec;

use roce_wire::Psn;

use crate::verbs::{Payload, SendFlags, SendOp, SendWr, Sge, Status};

/// A posted send request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendWqe {
    /// The caller's id.
    pub(crate) wr_id: u64,
    /// What to do.
    pub(crate) op: SendOp,
    /// How.
    pub(crate) flags: SendFlags,
    /// The message's bytes.
    pub(crate) length: u32,
    /// Where its PSNs start, once its first packet was sent.
    pub(crate) first_psn: Option<Psn>,
    /// How many PSNs it takes.
    pub(crate) packets: u32,
    /// Packets of a READ's data that have arrived; 1 for an atomic whose answer has.
    pub(crate) arrived: u32,
    /// It can't be sent: it completes with this status when all before it are complete.
    pub(crate) failed: Option<Status>,
    sge_count: u32,
    inline: bool,
}

/// Where a request's bytes are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source<'a> {
    /// In registered memory.
    Sges(&'a [Sge]),
    /// In the queue itself.
    Inline(&'a [u8]),
}

/// A ring of send requests, named by numbers that count up and wrap at 2^32.
#[derive(Debug)]
pub(crate) struct SendQueue {
    ring: Box<[SendWqe]>,
    sges: Box<[Sge]>,
    inline: Box<[u8]>,
    depth: u32,
    max_sge: u32,
    max_inline: u32,
    head: u32,
    tail: u32,
}

impl SendQueue {
    /// Makes an empty ring.
    pub(crate) fn new(depth: u32, max_sge: u32, max_inline: u32) -> Self {
        // A power of two, so that places stay right when the numbers wrap.
        let places = depth.max(1).next_power_of_two();
        let empty = SendWqe {
            wr_id: 0,
            op: SendOp::Send,
            flags: SendFlags::NONE,
            length: 0,
            first_psn: None,
            packets: 0,
            arrived: 0,
            failed: None,
            sge_count: 0,
            inline: false,
        };
        Self {
            ring: vec![empty; places as usize].into_boxed_slice(),
            sges: vec![Sge::default(); places as usize * max_sge as usize].into_boxed_slice(),
            inline: vec![0; places as usize * max_inline as usize].into_boxed_slice(),
            depth,
            max_sge,
            max_inline,
            head: 0,
            tail: 0,
        }
    }

    const fn place(&self, number: u32) -> usize {
        number as usize & (self.ring.len() - 1)
    }

    /// Returns the number of the oldest request.
    pub(crate) const fn head(&self) -> u32 {
        self.head
    }

    /// Returns the number that the next request gets.
    pub(crate) const fn tail(&self) -> u32 {
        self.tail
    }

    /// Returns whether nothing is posted.
    pub(crate) const fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Returns how many requests can be posted.
    pub(crate) const fn room(&self) -> u32 {
        self.depth - self.tail.wrapping_sub(self.head)
    }

    /// Returns the most SGEs of a request.
    pub(crate) const fn max_sge(&self) -> u32 {
        self.max_sge
    }

    /// Returns the most inline bytes of a request.
    pub(crate) const fn max_inline(&self) -> u32 {
        self.max_inline
    }

    /// Posts a request that was checked, of `length` bytes in `packets` packets.
    pub(crate) fn push(&mut self, wr: &SendWr<'_>, length: u32, packets: u32) {
        assert!(self.room() > 0);
        let place = self.place(self.tail);
        let (sge_count, inline) = match wr.payload {
            Payload::Sges(sges) => {
                let start = place * self.max_sge as usize;
                self.sges[start..start + sges.len()].copy_from_slice(sges);
                (sges.len() as u32, false)
            }
            Payload::Inline(bytes) => {
                let start = place * self.max_inline as usize;
                self.inline[start..start + bytes.len()].copy_from_slice(bytes);
                (0, true)
            }
        };
        self.ring[place] = SendWqe {
            wr_id: wr.wr_id,
            op: wr.op,
            flags: wr.flags,
            length,
            first_psn: None,
            packets,
            arrived: 0,
            failed: None,
            sge_count,
            inline,
        };
        self.tail = self.tail.wrapping_add(1);
    }

    /// Returns a request.
    pub(crate) const fn at(&self, number: u32) -> &SendWqe {
        &self.ring[self.place(number)]
    }

    /// Returns a request.
    pub(crate) const fn at_mut(&mut self, number: u32) -> &mut SendWqe {
        let place = self.place(number);
        &mut self.ring[place]
    }

    /// Returns where a request's bytes are.
    pub(crate) fn source(&self, number: u32) -> Source<'_> {
        let place = self.place(number);
        let wqe = &self.ring[place];
        if wqe.inline {
            let start = place * self.max_inline as usize;
            Source::Inline(&self.inline[start..start + wqe.length as usize])
        } else {
            let start = place * self.max_sge as usize;
            Source::Sges(&self.sges[start..start + wqe.sge_count as usize])
        }
    }

    /// Takes the oldest request.
    pub(crate) const fn pop(&mut self) -> Option<SendWqe> {
        if self.head == self.tail {
            return None;
        }
        let wqe = *self.at(self.head);
        self.head = self.head.wrapping_add(1);
        Some(wqe)
    }

    /// Forgets everything.
    pub(crate) const fn clear(&mut self) {
        self.head = self.tail;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap_and_room_is_exact() {
        let mut queue = SendQueue::new(3, 1, 4);
        (queue.head, queue.tail) = (u32::MAX - 1, u32::MAX - 1);
        for wr_id in 0..3 {
            let payload = Payload::Inline(&[wr_id as u8; 4]);
            let wr = SendWr {
                wr_id,
                op: SendOp::Send,
                payload,
                flags: SendFlags::NONE,
            };
            queue.push(&wr, 4, 1);
        }
        assert_eq!(queue.room(), 0);
        let Source::Inline(bytes) = queue.source(0) else {
            panic!("inline")
        };
        assert_eq!(bytes, [2; 4]);
        assert_eq!(queue.pop().map(|wqe| wqe.wr_id), Some(0));
        assert_eq!(queue.room(), 1);
        assert_eq!(queue.pop().map(|wqe| wqe.wr_id), Some(1));
        assert_eq!(queue.pop().map(|wqe| wqe.wr_id), Some(2));
        assert!(queue.pop().is_none());
    }
}
