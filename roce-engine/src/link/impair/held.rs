//! Packets that wait: a bounded store whose memory is set aside at the start.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use super::{Fault, Flip, Flow, FrameNote, Instant};

/// One packet that waits, sealed for the IPv4 Identification 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) flow: Flow,
    pub(super) note: FrameNote,
    /// When it leaves, whatever happens.
    pub(super) due: Instant,
    /// The count of passed packets at which it leaves earlier.
    pub(super) after: u64,
    /// What is done to it when it leaves.
    pub(super) flip: Option<Flip>,
    /// Whether it leaves once more.
    pub(super) duplicate: bool,
    /// Which place it has: the store decides.
    pub(super) place: usize,
}

/// The packets that wait, oldest first.
#[derive(Debug)]
pub(super) struct Held {
    arena: Box<[u8]>,
    /// The bytes of each place.
    longest: usize,
    lengths: Vec<usize>,
    free: Vec<usize>,
    waiting: VecDeque<Entry>,
}

impl Held {
    pub(super) fn new(capacity: usize, longest: usize) -> Self {
        Self {
            // Zeroed memory costs nothing until a packet is written to it.
            arena: vec![0; capacity * longest].into(),
            longest,
            lengths: vec![0; capacity],
            free: (0..capacity).rev().collect(),
            waiting: VecDeque::with_capacity(capacity),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes an entry; returns where its packet is to be written, or nothing if all places are taken.
    pub(super) fn add(&mut self, entry: Entry, len: usize) -> Option<&mut [u8]> {
        let place = self.free.pop()?;
        let start = place * self.longest;
        self.waiting.push_back(Entry { place, ..entry });
        self.lengths[place] = len;
        Some(&mut self.arena[start..start + len])
    }

    /// Returns the bytes of a packet that waits.
    pub(super) fn bytes(&self, entry: &Entry) -> &[u8] {
        let start = entry.place * self.longest;
        &self.arena[start..start + self.lengths[entry.place]]
    }

    /// Returns the oldest packet that is to leave.
    pub(super) fn due(&self, now: Instant, passed: u64) -> Option<Entry> {
        let is_due = |entry: &&Entry| entry.due <= now || entry.after <= passed;
        match self.waiting.front() {
            // All wait equally long, so nobody behind the first is due before it.
            Some(first) if first.after == u64::MAX => Some(first).filter(is_due).copied(),
            _ => self.waiting.iter().find(is_due).copied(),
        }
    }

    /// Returns when the first one leaves at the latest.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.waiting.front().map(|first| first.due)
    }

    /// Makes a packet that left a duplicate of itself, which is due at once.
    pub(super) fn make_duplicate(&mut self, entry: &Entry) {
        if let Some(index) = self.position(entry) {
            let entry = &mut self.waiting[index];
            entry.duplicate = false;
            entry.flip = None;
            entry.note.fault = Some(Fault::Duplicated);
        }
    }

    /// Forgets a packet that left.
    pub(super) fn remove(&mut self, entry: &Entry) {
        if let Some(index) = self.position(entry) {
            self.waiting.remove(index);
            self.free.push(entry.place);
        }
    }

    fn position(&self, entry: &Entry) -> Option<usize> {
        self.waiting.iter().position(|one| one.place == entry.place)
    }
}
