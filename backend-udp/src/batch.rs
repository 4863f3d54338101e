//! Runs of equal-sized packets of one flow, which leave in one message each.
//!
//! All pieces of a `UDP_SEGMENT` message have one length, only the last may be shorter. Batches lie
//! one behind the other in an arena that is empty again after each complete flush, so in steady
//! state the same cached bytes are used over and over.

use core::ops::Range;

use roce_engine::link::Flow;
use roce_wire::icrc::{IPV4_DONT_FRAGMENT, IcrcSeed};

use crate::config::ROCE_PORT;

/// The most UDP payload that one IPv4 message carries; IPv6 has 20 bytes more.
pub(crate) const MAX_PAYLOAD: usize = 65_507;

/// The most segments of one message that every kernel with `UDP_SEGMENT` takes.
pub(crate) const MAX_SEGMENTS: usize = 64;

/// The most batches that wait for a flush.
const MAX_BATCHES: usize = 256;

/// Packets of one flow that leave together.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) flow: Flow,
    /// The send socket.
    pub(crate) socket: usize,
    /// Where its bytes are.
    start: usize,
    len: usize,
    /// The bytes of every packet but the last.
    segment: usize,
    packets: usize,
    /// Packets that have been sent: all or none, unless it goes singly.
    sent: usize,
    /// Whether its packets leave in a message each.
    singly: bool,
}

impl Batch {
    fn takes(&self, flow: &Flow, len: usize, max_packets: usize) -> bool {
        // One that has a shorter last piece is complete.
        let open = self.len == self.packets * self.segment && !self.singly;
        open && len <= self.segment
            && self.packets < max_packets
            && self.len + len <= MAX_PAYLOAD
            && self.flow == *flow
    }

    pub(crate) fn is_done(&self) -> bool {
        self.sent == self.packets
    }

    /// Returns the messages that are still to be sent: byte ranges and the segment size of each, 0
    /// for a packet alone.
    fn messages(&self) -> impl Iterator<Item = (Range<usize>, usize)> + '_ {
        let end = self.start + self.len;
        let (pieces, step, segment) = if self.singly {
            (self.sent..self.packets, self.segment, 0)
        } else {
            let segment = if self.packets > 1 { self.segment } else { 0 };
            let whole = usize::from(!self.is_done());
            (0..whole, self.len, segment)
        };
        pieces.map(move |piece| {
            let from = self.start + piece * step;
            (from..(from + step).min(end), segment)
        })
    }
}

/// One message that is due.
pub(crate) struct Message<'a> {
    pub(crate) flow: &'a Flow,
    pub(crate) bytes: &'a [u8],
    pub(crate) segment: usize,
}

/// The batches that wait for a flush, oldest first.
#[derive(Debug)]
pub(crate) struct Batches {
    arena: Box<[u8]>,
    used: usize,
    list: Vec<Batch>,
}

impl Batches {
    pub(crate) fn new(bytes: usize) -> Self {
        Self {
            arena: vec![0; bytes.max(MAX_PAYLOAD)].into(),
            used: 0,
            list: Vec::with_capacity(MAX_BATCHES),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the send socket of the last batch, if it is of this flow.
    pub(crate) fn socket_of(&self, flow: &Flow) -> Option<usize> {
        let last = self.list.last()?;
        (last.flow == *flow).then_some(last.socket)
    }

    /// Returns room for a packet and its place in its batch, if there is any.
    pub(crate) fn reserve(
        &mut self,
        flow: &Flow,
        socket: usize,
        len: usize,
        max_packets: usize,
    ) -> Option<(&mut [u8], u16)> {
        let start = self.used;
        if start + len > self.arena.len() {
            return None;
        }
        let full = self.list.len() == MAX_BATCHES;
        let place = match self.list.last_mut() {
            Some(last) if last.sent == 0 && last.takes(flow, len, max_packets) => {
                last.packets += 1;
                last.len += len;
                last.packets - 1
            }
            _ if full => return None,
            _ => {
                self.list.push(Batch {
                    flow: *flow,
                    socket,
                    start,
                    len,
                    segment: len,
                    packets: 1,
                    sent: 0,
                    singly: false,
                });
                0
            }
        };
        self.used += len;
        Some((&mut self.arena[start..start + len], place as u16))
    }

    /// Returns the messages that are due at a socket, in order.
    pub(crate) fn due(&self, socket: usize) -> impl Iterator<Item = Message<'_>> {
        let batches = self.list.iter().filter(move |one| one.socket == socket);
        batches.flat_map(|batch| {
            batch.messages().map(|(range, segment)| Message {
                flow: &batch.flow,
                bytes: &self.arena[range],
                segment,
            })
        })
    }

    /// Notes that the first `messages` of those that were due are sent; returns their packets.
    pub(crate) fn sent(&mut self, socket: usize, mut messages: usize) -> usize {
        let mut packets = 0;
        for batch in self.list.iter_mut().filter(|one| one.socket == socket) {
            if messages == 0 {
                break;
            }
            if batch.is_done() {
                continue;
            }
            let (steps, each) = if batch.singly {
                (messages.min(batch.packets - batch.sent), 1)
            } else {
                (1, batch.packets)
            };
            batch.sent += steps * each;
            packets += steps * each;
            messages -= steps;
        }
        packets
    }

    /// Forgets everything once all is sent.
    pub(crate) fn recycle(&mut self) {
        if self.list.iter().all(Batch::is_done) {
            self.list.clear();
            self.used = 0;
        }
    }

    /// Makes the first batch that is due at a socket leave a packet a message; returns whether that
    /// changes anything.
    ///
    /// Every packet has the Identification 0 then, so those of IPv4 are sealed again.
    pub(crate) fn split_first(&mut self, socket: usize) -> bool {
        let due = |one: &&mut Batch| one.socket == socket && !one.is_done();
        let Some(batch) = self.list.iter_mut().find(due) else {
            return false;
        };
        if batch.singly || batch.packets == 1 {
            return false;
        }
        batch.singly = true;
        let flow = &batch.flow;
        if flow.local.is_ipv4() {
            let seed = IcrcSeed::new(flow.local, flow.remote, flow.source_port, ROCE_PORT);
            let bytes = &mut self.arena[batch.start..batch.start + batch.len];
            for packet in bytes.chunks_mut(batch.segment).skip(1) {
                seed.seal(0, IPV4_DONT_FRAGMENT, packet);
            }
        }
        true
    }

    /// Returns whether the first batch that is due at a socket was split.
    pub(crate) fn first_is_split(&self, socket: usize) -> bool {
        let due = |one: &&Batch| one.socket == socket && !one.is_done();
        self.list.iter().find(due).is_some_and(|one| one.singly)
    }
}

#[cfg(test)]
mod tests;
