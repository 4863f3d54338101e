//! The packet buffers, and who owns each of them.
//!
//! A slot is two chunks of the kernel's that lie side by side. To send, both are used, so that a
//! packet larger than a chunk is still contiguous for who writes it and two descriptors for the
//! kernel. To receive, the kernel gets the first chunk alone: when a frame goes on in another
//! buffer, its rest is copied behind the first part, and the frame is contiguous again.
//!
//! A slot is a token that can't be copied. Whoever has it may touch its bytes; giving it to the
//! kernel takes the token away, and only the kernel's answer makes a new one. In builds with debug
//! assertions a ledger watches every change of hands.

use std::io;

use crate::sys::map::Mapping;

/// Bytes of the kernel's unit.
pub(crate) const CHUNK: usize = 4096;

/// Bytes of a slot.
pub(crate) const SLOT: usize = 2 * CHUNK;

/// A slot that this process owns.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Slot(u32);

/// Who owns a slot.
#[cfg(debug_assertions)]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Owner {
    Us,
    Kernel,
}

/// The buffers of a socket.
#[derive(Debug)]
pub(crate) struct Umem {
    map: Mapping,
    /// Slots to receive; those to send are behind them.
    receiving: u32,
    sending: u32,
    /// Slots to send that nobody uses; the last one freed is the next used, as it is in the cache.
    free: Vec<Slot>,
    /// For each slot to send, the descriptors that the kernel still has.
    pending: Vec<u8>,
    #[cfg(debug_assertions)]
    owners: Vec<Owner>,
}

impl Umem {
    /// Maps the buffers; all slots to send are free, and those to receive are in the second value.
    pub(crate) fn new(receiving: u32, sending: u32) -> io::Result<(Self, Vec<Slot>)> {
        let slots = receiving + sending;
        let map = Mapping::anonymous(slots as usize * SLOT)?;
        let umem = Self {
            map,
            receiving,
            sending,
            free: (receiving..slots).rev().map(Slot).collect(),
            pending: vec![0; sending as usize],
            #[cfg(debug_assertions)]
            owners: vec![Owner::Us; slots as usize],
        };
        Ok((umem, (0..receiving).map(Slot).collect()))
    }

    /// Returns where the buffers are and how long they are.
    pub(crate) fn range(&self) -> (u64, u64) {
        (self.map.address(), self.map.len() as u64)
    }

    /// Takes a free slot to send.
    #[inline]
    pub(crate) fn take_free(&mut self) -> Option<Slot> {
        self.free.pop()
    }

    /// Returns how many slots to send are free.
    pub(crate) const fn free(&self) -> usize {
        self.free.len()
    }

    /// Returns bytes of a slot.
    ///
    /// # Panics
    ///
    /// They aren't inside of it.
    #[inline]
    pub(crate) fn bytes(&self, slot: &Slot, at: usize, len: usize) -> &[u8] {
        let at = inside(slot, at, len);
        // SAFETY: who has the token owns the slot: the kernel has it not, and there is no other
        // token of it, so nothing writes to it while the token is borrowed.
        unsafe { self.map.bytes(at, len) }
    }

    /// Returns bytes of a slot to write.
    ///
    /// # Panics
    ///
    /// They aren't inside of it.
    #[inline]
    pub(crate) fn bytes_mut(&mut self, slot: &mut Slot, at: usize, len: usize) -> &mut [u8] {
        let at = inside(slot, at, len);
        // SAFETY: as in `bytes`, and the token is borrowed exclusively.
        unsafe { self.map.bytes_mut(at, len) }
    }

    /// Copies the start of one slot's frame behind the frame of another.
    ///
    /// # Panics
    ///
    /// The ranges aren't inside of the slots.
    pub(crate) fn append(
        &mut self,
        to: &mut Slot,
        to_at: usize,
        from: &Slot,
        from_at: usize,
        len: usize,
    ) {
        debug_assert_ne!(to, from, "two tokens are two slots");
        let source = inside(from, from_at, len);
        let target = inside(to, to_at, len);
        // SAFETY: as in `bytes`.
        let source = unsafe { self.map.bytes(source, len) };
        // SAFETY: as in `bytes_mut`; two tokens are two slots, so the ranges don't overlap.
        let target = unsafe { self.map.bytes_mut(target, len) };
        target.copy_from_slice(source);
    }

    /// Gives a slot to send to the kernel, which will answer for each of `descriptors`. Returns the
    /// address of its first byte.
    #[inline]
    pub(crate) fn send(&mut self, slot: Slot, descriptors: u8) -> u64 {
        self.pass(slot.0, true);
        self.pending[(slot.0 - self.receiving) as usize] = descriptors;
        address(slot)
    }

    /// Takes the kernel's answer for a descriptor that it has sent.
    #[inline]
    pub(crate) fn sent(&mut self, addr: u64) {
        let Some(slot) = self.slot_at(addr).filter(|slot| slot.0 >= self.receiving) else {
            debug_assert!(
                false,
                "the kernel has sent {addr:#x}, which was not to be sent"
            );
            return;
        };
        let left = &mut self.pending[(slot.0 - self.receiving) as usize];
        debug_assert!(*left > 0, "the kernel has sent slot {} twice", slot.0);
        *left = left.saturating_sub(1);
        if *left == 0 {
            self.pass(slot.0, false);
            self.free.push(slot);
        }
    }

    /// Gives a slot to receive to the kernel; returns its address.
    #[inline]
    pub(crate) fn offer(&mut self, slot: Slot) -> u64 {
        debug_assert!(slot.0 < self.receiving, "it is a slot to receive");
        self.pass(slot.0, true);
        address(slot)
    }

    /// Takes the slot that the kernel has filled, and where in it the bytes start. Nothing if the
    /// address is none of a slot to receive.
    #[inline]
    pub(crate) fn filled(&mut self, addr: u64) -> Option<(Slot, usize)> {
        let slot = self.slot_at(addr).filter(|slot| slot.0 < self.receiving);
        debug_assert!(slot.is_some(), "the kernel has filled {addr:#x}");
        let slot = slot?;
        self.pass(slot.0, false);
        Some((slot, addr as usize % SLOT))
    }

    fn slot_at(&self, addr: u64) -> Option<Slot> {
        let number = u32::try_from(addr / SLOT as u64).ok()?;
        (number < self.receiving + self.sending).then_some(Slot(number))
    }

    /// Notes that a slot changes hands.
    #[inline]
    #[cfg_attr(not(debug_assertions), expect(unused_variables, clippy::unused_self))]
    fn pass(&mut self, number: u32, to_kernel: bool) {
        #[cfg(debug_assertions)]
        {
            let (from, to) = if to_kernel {
                (Owner::Us, Owner::Kernel)
            } else {
                (Owner::Kernel, Owner::Us)
            };
            let owner = &mut self.owners[number as usize];
            assert_eq!(*owner, from, "slot {number} changes hands from its owner");
            *owner = to;
        }
    }

    /// Asserts that no slot was lost: each to send is free or the kernel's, each to receive the
    /// kernel's but for those that `held` counts.
    pub(crate) fn account(&self, held: usize) {
        #[cfg(debug_assertions)]
        {
            let (receiving, sending) = self.owners.split_at(self.receiving as usize);
            let ours = |owners: &[Owner]| owners.iter().filter(|one| **one == Owner::Us).count();
            assert_eq!(ours(sending), self.free.len(), "a slot to send was lost");
            assert_eq!(ours(receiving), held, "a slot to receive was lost");
        }
        #[cfg(not(debug_assertions))]
        let _ = held;
    }
}

fn address(slot: Slot) -> u64 {
    u64::from(slot.0) * SLOT as u64
}

#[inline]
fn inside(slot: &Slot, at: usize, len: usize) -> usize {
    assert!(
        at.checked_add(len).is_some_and(|end| end <= SLOT),
        "{len} bytes at {at} are not in a slot"
    );
    slot.0 as usize * SLOT + at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_free_again_when_all_its_descriptors_were_sent() {
        let (mut umem, received) = Umem::new(2, 2).unwrap();
        umem.account(received.len());
        let mut slot = umem.take_free().unwrap();
        umem.bytes_mut(&mut slot, 128, 3).copy_from_slice(b"abc");
        assert_eq!(umem.bytes(&slot, 128, 3), b"abc");
        let addr = umem.send(slot, 2);
        assert_eq!(umem.free(), 1);
        umem.sent(addr + 128);
        assert_eq!(umem.free(), 1);
        umem.sent(addr + CHUNK as u64);
        assert_eq!(umem.free(), 2);
        umem.account(received.len());
    }

    #[test]
    fn a_frame_of_two_buffers_is_put_together() {
        let (mut umem, mut slots) = Umem::new(2, 0).unwrap();
        let second = slots.pop().unwrap();
        let mut first = slots.pop().unwrap();
        umem.bytes_mut(&mut first, CHUNK - 2, 2)
            .copy_from_slice(b"ab");
        let mut second = second;
        umem.bytes_mut(&mut second, 256, 2).copy_from_slice(b"cd");
        umem.append(&mut first, CHUNK, &second, 256, 2);
        assert_eq!(umem.bytes(&first, CHUNK - 2, 4), b"abcd");
        let addresses = [umem.offer(first), umem.offer(second)];
        assert_eq!(addresses, [0, SLOT as u64]);
        umem.account(0);
        let (slot, at) = umem.filled(SLOT as u64 + 256).unwrap();
        assert_eq!((slot, at), (Slot(1), 256));
        umem.account(1);
    }

    #[test]
    #[should_panic(expected = "changes hands from its owner")]
    #[cfg(debug_assertions)]
    fn a_buffer_that_was_not_given_cannot_come_back() {
        let (mut umem, _slots) = Umem::new(1, 1).unwrap();
        umem.filled(0);
    }

    #[test]
    #[should_panic(expected = "a slot to receive was lost")]
    #[cfg(debug_assertions)]
    fn a_lost_slot_is_noticed() {
        let (umem, mut slots) = Umem::new(2, 1).unwrap();
        slots.pop();
        umem.account(slots.len());
    }
}
