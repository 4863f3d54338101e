//! The four rings between a socket and the kernel, two of each kind.
//!
//! Who produces owns the producer's index and may write entries up to `size` ahead of the
//! consumer's; the other way round for who consumes. Each side keeps the other's index as it last
//! saw it and looks again only when that no longer suffices, so that the shared cache lines are
//! touched once a burst.

use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use rustix::net::xdp::XdpRingOffset;

use crate::sys::map::Mapping;

/// The kernel wants to be called for this ring to move.
const NEED_WAKEUP: u32 = 1;

/// The frame goes on in the next descriptor (`XDP_PKT_CONTD`).
const CONTINUES: u32 = 1;

/// A piece of a frame: where in the buffers it is, and whether another piece follows.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Descriptor {
    /// Bytes from the start of the buffers.
    pub(crate) addr: u64,
    /// Bytes.
    pub(crate) len: u32,
    /// The frame goes on in the next descriptor.
    pub(crate) more: bool,
}

impl Descriptor {
    const BYTES: usize = 16;

    fn words(self) -> (u64, u64) {
        let options = if self.more { CONTINUES } else { 0 };
        let [l0, l1, l2, l3] = self.len.to_ne_bytes();
        let [o0, o1, o2, o3] = options.to_ne_bytes();
        (
            self.addr,
            u64::from_ne_bytes([l0, l1, l2, l3, o0, o1, o2, o3]),
        )
    }

    fn from_words(addr: u64, rest: u64) -> Self {
        let [l0, l1, l2, l3, o0, o1, o2, o3] = rest.to_ne_bytes();
        let options = u32::from_ne_bytes([o0, o1, o2, o3]);
        Self {
            addr,
            len: u32::from_ne_bytes([l0, l1, l2, l3]),
            more: options & CONTINUES != 0,
        }
    }
}

/// Where the parts of a ring are in its mapping.
#[derive(Clone, Copy, Debug)]
struct Layout {
    producer: usize,
    consumer: usize,
    flags: usize,
    entries: usize,
}

/// What both kinds have.
#[derive(Debug)]
struct Ring {
    map: Arc<Mapping>,
    layout: Layout,
    size: u32,
}

impl Ring {
    fn new(map: Arc<Mapping>, offsets: &XdpRingOffset, size: u32) -> Self {
        assert!(
            size.is_power_of_two(),
            "a ring has a power of two of entries"
        );
        Self {
            map,
            layout: Layout {
                producer: offsets.producer as usize,
                consumer: offsets.consumer as usize,
                // Kernels before 5.4 have no flags; bit 0 of an index would say nothing true, so
                // such a ring is one that always wants the call.
                flags: offsets.flags.map_or(usize::MAX, |at| at as usize),
                entries: offsets.desc as usize,
            },
            size,
        }
    }

    fn producer(&self) -> &AtomicU32 {
        self.map.word32(self.layout.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.map.word32(self.layout.consumer)
    }

    fn slot(&self, index: u32, bytes: usize) -> usize {
        self.layout.entries + (index & (self.size - 1)) as usize * bytes
    }

    fn needs_wakeup(&self) -> bool {
        self.layout.flags == usize::MAX
            || self.map.word32(self.layout.flags).load(Ordering::Relaxed) & NEED_WAKEUP != 0
    }
}

/// A ring that this process fills: for sending, and of free buffers.
#[derive(Debug)]
pub(crate) struct Producer {
    ring: Ring,
    /// The next entry to write.
    next: u32,
    /// The kernel's index as last seen.
    taken: u32,
    published: u32,
}

impl Producer {
    pub(crate) fn new(map: Arc<Mapping>, offsets: &XdpRingOffset, size: u32) -> Self {
        let ring = Ring::new(map, offsets, size);
        let next = ring.producer().load(Ordering::Relaxed);
        let taken = ring.consumer().load(Ordering::Acquire);
        Self {
            ring,
            next,
            taken,
            published: next,
        }
    }

    /// Returns whether there is room for `count` entries.
    #[inline]
    pub(crate) fn has_room(&mut self, count: u32) -> bool {
        if self.ring.size - self.next.wrapping_sub(self.taken) >= count {
            return true;
        }
        self.taken = self.ring.consumer().load(Ordering::Acquire);
        self.ring.size - self.next.wrapping_sub(self.taken) >= count
    }

    /// Writes an entry for which there is room.
    #[inline]
    pub(crate) fn push(&mut self, descriptor: Descriptor) {
        let at = self.ring.slot(self.next, Descriptor::BYTES);
        let (first, second) = descriptor.words();
        self.ring.map.word64(at).store(first, Ordering::Relaxed);
        self.ring
            .map
            .word64(at + 8)
            .store(second, Ordering::Relaxed);
        self.advance();
    }

    /// Writes a buffer's address where there is room.
    #[inline]
    pub(crate) fn push_address(&mut self, addr: u64) {
        let at = self.ring.slot(self.next, size_of::<u64>());
        self.ring.map.word64(at).store(addr, Ordering::Relaxed);
        self.advance();
    }

    fn advance(&mut self) {
        debug_assert!(
            self.next.wrapping_sub(self.taken) < self.ring.size,
            "an entry is written where there is room"
        );
        self.next = self.next.wrapping_add(1);
    }

    /// Shows the kernel what was written.
    #[inline]
    pub(crate) fn publish(&mut self) {
        if self.published != self.next {
            self.published = self.next;
            self.ring.producer().store(self.next, Ordering::Release);
        }
    }

    /// Returns whether the kernel has not taken everything yet.
    pub(crate) fn is_busy(&mut self) -> bool {
        if self.taken != self.published {
            self.taken = self.ring.consumer().load(Ordering::Acquire);
        }
        self.taken != self.published
    }

    /// Returns whether the kernel wants to be called.
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }
}

/// A ring that the kernel fills: of what arrived, and of buffers that were sent.
#[derive(Debug)]
pub(crate) struct Consumer {
    ring: Ring,
    /// The next entry to read.
    next: u32,
    /// The kernel's index as last seen.
    filled: u32,
    released: u32,
}

impl Consumer {
    pub(crate) fn new(map: Arc<Mapping>, offsets: &XdpRingOffset, size: u32) -> Self {
        let ring = Ring::new(map, offsets, size);
        let next = ring.consumer().load(Ordering::Relaxed);
        let filled = ring.producer().load(Ordering::Acquire);
        Self {
            ring,
            next,
            filled,
            released: next,
        }
    }

    /// Returns how many entries are there; looks at the kernel's index when none was known.
    #[inline]
    pub(crate) fn available(&mut self) -> u32 {
        if self.filled == self.next {
            self.filled = self.ring.producer().load(Ordering::Acquire);
        }
        // A wrong index of the other side must not lead beyond the ring.
        self.filled.wrapping_sub(self.next).min(self.ring.size)
    }

    /// Looks at the kernel's index again; returns how many entries are there.
    pub(crate) fn refresh(&mut self) -> u32 {
        self.filled = self.ring.producer().load(Ordering::Acquire);
        self.available()
    }

    /// Reads an entry `ahead` of the next one, which has to be there.
    #[inline]
    pub(crate) fn peek(&self, ahead: u32) -> Descriptor {
        let at = self
            .ring
            .slot(self.next.wrapping_add(ahead), Descriptor::BYTES);
        let first = self.ring.map.word64(at).load(Ordering::Relaxed);
        let second = self.ring.map.word64(at + 8).load(Ordering::Relaxed);
        Descriptor::from_words(first, second)
    }

    /// Reads a buffer's address `ahead` of the next one, which has to be there.
    #[inline]
    pub(crate) fn peek_address(&self, ahead: u32) -> u64 {
        let at = self
            .ring
            .slot(self.next.wrapping_add(ahead), size_of::<u64>());
        self.ring.map.word64(at).load(Ordering::Relaxed)
    }

    /// Gives entries up that were read.
    #[inline]
    pub(crate) fn advance(&mut self, count: u32) {
        debug_assert!(count <= self.filled.wrapping_sub(self.next));
        self.next = self.next.wrapping_add(count);
    }

    /// Shows the kernel what was read.
    #[inline]
    pub(crate) fn release(&mut self) {
        if self.released != self.next {
            self.released = self.next;
            self.ring.consumer().store(self.next, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both ends of one ring in memory, with indices that start at `first`.
    fn pair(size: u32, first: u32) -> (Producer, Consumer) {
        let offsets = XdpRingOffset {
            producer: 0,
            consumer: 64,
            desc: 192,
            flags: Some(128),
        };
        let map = Arc::new(Mapping::anonymous(4096).unwrap());
        map.word32(0).store(first, Ordering::Relaxed);
        map.word32(64).store(first, Ordering::Relaxed);
        (
            Producer::new(Arc::clone(&map), &offsets, size),
            Consumer::new(map, &offsets, size),
        )
    }

    fn entry(number: u64) -> Descriptor {
        Descriptor {
            addr: number << 12,
            len: number as u32,
            more: number.is_multiple_of(2),
        }
    }

    #[test]
    fn entries_come_out_as_they_went_in_also_across_the_wrap_of_the_indices() {
        let (mut producer, mut consumer) = pair(8, u32::MAX - 20);
        let mut received = 0;
        for sent in 0..64 {
            assert!(producer.has_room(1));
            producer.push(entry(sent));
            if sent % 3 == 0 {
                producer.publish();
            }
            while consumer.available() > 0 {
                assert_eq!(consumer.peek(0), entry(received));
                consumer.advance(1);
                received += 1;
            }
            consumer.release();
        }
        assert_eq!(received, 64);
        assert!(!producer.is_busy());
    }

    #[test]
    fn a_full_ring_has_no_room_until_entries_are_released() {
        let (mut producer, mut consumer) = pair(4, 7);
        for number in 0..4 {
            assert!(producer.has_room(1));
            producer.push(entry(number));
        }
        assert!(!producer.has_room(1));
        assert_eq!(consumer.available(), 0, "nothing was published");
        producer.publish();
        assert_eq!(consumer.available(), 4);
        assert_eq!(consumer.peek(3), entry(3));
        consumer.advance(2);
        assert!(!producer.has_room(1), "nothing was released");
        assert!(producer.is_busy());
        consumer.release();
        assert!(producer.has_room(2) && !producer.has_room(3));
    }

    #[test]
    fn an_index_beyond_the_ring_is_cut() {
        let (_, mut consumer) = pair(4, 0);
        consumer.ring.producer().store(1 << 30, Ordering::Relaxed);
        assert_eq!(consumer.available(), 4);
    }

    #[test]
    fn the_wakeup_flag_is_read_from_the_ring() {
        let (producer, consumer) = pair(4, 0);
        assert!(!producer.needs_wakeup());
        consumer.ring.map.word32(128).store(1, Ordering::Relaxed);
        assert!(producer.needs_wakeup());
    }
}
