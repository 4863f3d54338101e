//! Responder resources: the last READs and atomics, answered again when their answers were lost.

use alloc::collections::VecDeque;

use roce_wire::{Opcode, Psn};

use crate::mr::Claim;

/// What a resource answers with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// Memory, read again at each answer.
    Read {
        /// What was asked for.
        claim: Claim,
    },
    /// The value that was there when the atomic was executed, once.
    Atomic {
        /// Which atomic, so that a duplicate can be told from another request.
        opcode: Opcode,
        /// The former value.
        value: u64,
    },
}

/// A READ or an atomic that was accepted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resource {
    /// Its first PSN.
    pub(crate) first: Psn,
    /// Its PSNs.
    pub(crate) packets: u32,
    /// Its answer.
    pub(crate) kind: Kind,
    /// The packet where the answer in progress started.
    pub(crate) start: u32,
    /// The next packet to send.
    pub(crate) next: u32,
    /// Where the answer in progress ends.
    pub(crate) end: u32,
    /// The byte of the memory where the answer in progress ends (READ).
    pub(crate) end_byte: u32,
    /// It was answered to its end at least once.
    answered: bool,
}

impl Resource {
    /// Notes that the next packet was sent.
    pub(crate) const fn advance(&mut self) {
        self.next += 1;
        self.answered |= self.next == self.end;
    }

    /// Returns whether its whole answer, or the rest of it, was sent before.
    pub(crate) const fn is_answered(&self) -> bool {
        self.answered
    }

    /// Ends the answer in progress.
    pub(crate) const fn give_up(&mut self) {
        self.next = self.end;
    }

    /// Returns whether packets of it wait to be sent.
    pub(crate) const fn is_active(&self) -> bool {
        self.next < self.end
    }
}

/// The replay table of a QP: `max_dest_rd_atomic` resources in PSN order.
#[derive(Debug, Default)]
pub(crate) struct ReplayTable {
    resources: VecDeque<Resource>,
    limit: usize,
}

impl ReplayTable {
    /// Makes an empty table.
    pub(crate) fn new(limit: u8) -> Self {
        let limit = usize::from(limit);
        Self {
            resources: VecDeque::with_capacity(limit),
            limit,
        }
    }

    /// Changes how many resources are kept. When there are fewer, the oldest go, as by new ones; what
    /// was not answered yet stays until it is.
    pub(crate) fn resize(&mut self, limit: u8) {
        self.limit = usize::from(limit);
        while self.resources.len() > self.limit && self.oldest_is_answered() {
            self.resources.pop_front();
        }
        let more = self.limit.saturating_sub(self.resources.len());
        self.resources.reserve(more);
    }

    /// Returns whether another resource can be accepted: there is a place, or the oldest is answered.
    ///
    /// The oldest may be on its way again for a duplicate that the network delayed: a peer that asks
    /// for more has its answer, so that the rest of the repetition is for nobody.
    pub(crate) fn has_room(&self) -> bool {
        self.resources.len() < self.limit || self.limit > 0 && self.oldest_is_answered()
    }

    fn oldest_is_answered(&self) -> bool {
        self.resources.front().is_some_and(|oldest| oldest.answered)
    }

    /// Adds a resource whose whole answer is to be sent; the caller has checked `has_room`.
    pub(crate) fn push(&mut self, first: Psn, packets: u32, kind: Kind) {
        while self.resources.len() >= self.limit && self.oldest_is_answered() {
            self.resources.pop_front();
        }
        self.resources.push_back(Resource {
            first,
            packets,
            kind,
            start: 0,
            next: 0,
            end: packets,
            end_byte: match kind {
                Kind::Read { claim } => claim.len,
                Kind::Atomic { .. } => 0,
            },
            answered: false,
        });
    }

    /// Returns the resource that a PSN belongs to.
    pub(crate) fn find(&mut self, psn: Psn) -> Option<&mut Resource> {
        self.resources
            .iter_mut()
            .find(|resource| psn.is_in(resource.first, resource.packets))
    }

    /// Returns the oldest resource that waits to be answered.
    pub(crate) fn active(&mut self) -> Option<&mut Resource> {
        self.resources
            .iter_mut()
            .find(|resource| resource.is_active())
    }

    /// Returns whether any resource waits to be answered.
    pub(crate) fn is_active(&self) -> bool {
        self.resources.iter().any(Resource::is_active)
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.resources.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind = Kind::Atomic {
        opcode: Opcode::RC_FETCH_ADD,
        value: 1,
    };

    #[test]
    fn the_oldest_answered_resource_makes_room() {
        let mut table = ReplayTable::new(2);
        table.push(Psn::new(0xff_ffff), 2, KIND);
        table.push(Psn::new(1), 1, KIND);
        assert!(!table.has_room(), "both wait");
        assert_eq!(
            table.active().map(|resource| resource.first),
            Some(Psn::new(0xff_ffff))
        );
        oldest_of(&mut table).advance();
        assert!(!table.has_room(), "half of it was sent");
        oldest_of(&mut table).advance();
        assert!(table.has_room());
        oldest_of(&mut table).next = 0;
        assert!(table.has_room(), "a repetition keeps nobody out");
        table.push(Psn::new(2), 1, KIND);
        assert!(table.find(Psn::new(0)).is_none(), "it was replaced");
        assert!(!ReplayTable::new(0).has_room());
        table.resize(1);
        let waiting = table.find(Psn::new(1)).expect("it has no answer yet");
        waiting.advance();
        table.resize(1);
        assert_eq!(
            table.find(Psn::new(2)).map(|resource| resource.first),
            Some(Psn::new(2))
        );
        assert!(table.find(Psn::new(1)).is_none());
        let last = table.find(Psn::new(2)).expect("kept");
        last.advance();
        assert!(table.has_room());
        table.resize(1);
        assert!(table.find(Psn::new(2)).is_some(), "as many as before");
        table.resize(0);
        assert!(!table.has_room(), "none is kept, none is served");
        let mut table = ReplayTable::new(1);
        table.push(Psn::new(5), 1, KIND);
        table.resize(0);
        table
            .find(Psn::new(5))
            .expect("it has no answer yet")
            .advance();
        assert!(!table.has_room(), "its place is gone");
    }

    fn oldest_of(table: &mut ReplayTable) -> &mut Resource {
        table.find(Psn::new(0)).expect("spans the wrap")
    }
}
