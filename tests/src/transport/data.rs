//! What the memory behind a key holds, as far as packets have shown it.

use std::collections::HashMap;

const PAGE: usize = 4096;
/// Descriptions that are kept.
const MOST_FAULTS: usize = 5;

/// Which side's memory or data, and the key.
type Key = (bool, u32);

#[derive(Debug)]
struct Page {
    bytes: Box<[u8; PAGE]>,
    known: Box<[bool; PAGE]>,
}

/// The bytes and counters seen so far.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pages: HashMap<(Key, u64), Page>,
    counters: HashMap<(Key, u64), (u64, u64)>,
    pub(super) faults: Vec<String>,
    pub(super) compared: u64,
}

impl Memory {
    /// Keeps the first few descriptions.
    pub(super) fn fault(&mut self, words: String) {
        if self.faults.len() < MOST_FAULTS {
            self.faults.push(words);
        }
    }

    /// Notes the bytes at an address; those seen before have to be the same.
    pub(super) fn compare(&mut self, key: Key, address: u64, mut bytes: &[u8]) {
        let mut address = address;
        while !bytes.is_empty() {
            let offset = (address % PAGE as u64) as usize;
            let length = bytes.len().min(PAGE - offset);
            let (head, rest) = bytes.split_at(length);
            let page = self
                .pages
                .entry((key, address / PAGE as u64))
                .or_insert_with(|| Page {
                    bytes: Box::new([0; PAGE]),
                    known: Box::new([false; PAGE]),
                });
            let range = offset..offset + length;
            let differs = page.bytes[range.clone()]
                .iter()
                .zip(&page.known[range.clone()])
                .zip(head)
                .position(|((old, known), new)| *known && old != new);
            self.compared += page.known[range.clone()]
                .iter()
                .map(|known| u64::from(*known))
                .sum::<u64>();
            page.bytes[range.clone()].copy_from_slice(head);
            page.known[range].fill(true);
            if let Some(at) = differs {
                self.fault(format!(
                    "the byte at {:#x} (rkey or QPN {:#x}) is not what it was",
                    address + at as u64,
                    key.1
                ));
            }
            address += length as u64;
            bytes = rest;
        }
    }

    /// Notes the value that the atomic operation number `at` found: one more than the last one found if each adds
    /// one, else the same.
    pub(super) fn changed(&mut self, key: Key, address: u64, at: u64, value: u64, adds: bool) {
        match self.counters.insert((key, address), (at, value)) {
            // An answer that was sent again.
            Some((before, found)) if before >= at => {
                self.counters.insert((key, address), (before, found));
            }
            Some((_, found)) => {
                self.compared += 1;
                let wanted = found.wrapping_add(u64::from(adds));
                if value != wanted {
                    self.fault(format!(
                        "an atomic at {address:#x} found {value:#x} in place of {wanted:#x}"
                    ));
                }
            }
            None => {}
        }
    }
}
