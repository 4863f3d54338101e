//! Taking batches apart that were to be cut by the sender's device.
//!
//! A kernel that sends over an interface without wires may hand over one large UDP datagram instead
//! of many packets, and nothing in it says how long they are. But each has an ICRC, over lengths
//! too: the first one's length is the one with which its ICRC is right.

use roce_wire::{Bth, ICRC_LEN, IcrcSeed, Mtu, Opcode};

use crate::filter::{MAX_PACKET, MIN_PACKET};

/// Searches through all lengths that may fail in a row: a peer that sends nonsense must not make
/// this end compute for ever.
const PATIENCE: u32 = 64;

/// What is remembered of earlier batches.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sizes {
    last: usize,
    /// Searches that failed since one succeeded.
    failed: u32,
}

impl Sizes {
    /// Returns the length of the first packet, which all but the last have, too. Nothing if no
    /// length makes its ICRC right.
    pub(crate) fn of(
        &mut self,
        seed: &IcrcSeed,
        (id, flags): (u16, u16),
        batch: &[u8],
    ) -> Option<usize> {
        let longest = batch.len().min(MAX_PACKET);
        let fits = |len: usize| {
            (MIN_PACKET..=longest).contains(&len) && seed.verify(id, flags, &batch[..len])
        };
        let likely = [batch.len(), self.last].into_iter().chain(likely(batch));
        let mut found = likely.into_iter().find(|len| fits(*len));
        if found.is_none() && self.failed < PATIENCE {
            found = (MIN_PACKET..=longest).step_by(4).find(|len| fits(*len));
            self.failed += 1;
        }
        if let Some(len) = found {
            self.last = len;
            self.failed = 0;
        }
        found
    }
}

/// Returns the lengths that the first packet's opcode suggests: without payload, or full.
fn likely(batch: &[u8]) -> impl Iterator<Item = usize> {
    let opcode = batch.first().and_then(|first| Opcode(*first).info());
    let fixed = opcode.map(|info| Bth::LEN + info.headers.len() + ICRC_LEN);
    let payloads = [0].into_iter().chain(Mtu::ALL.map(Mtu::bytes));
    payloads.filter_map(move |payload| Some(fixed? + payload))
}

/// The packets of a batch, numbered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segments<'a> {
    rest: &'a [u8],
    size: usize,
    number: u16,
}

impl<'a> Segments<'a> {
    pub(crate) const fn new(batch: &'a [u8], size: usize) -> Self {
        Self {
            rest: batch,
            size,
            number: 0,
        }
    }
}

impl<'a> Iterator for Segments<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let (packet, rest) = self.rest.split_at(self.size.min(self.rest.len()));
        self.rest = rest;
        let number = self.number;
        self.number = number.wrapping_add(1);
        Some((number, packet))
    }
}
