//! Data that a receiver can compute too, from values that are in the handshake anyway.
//!
//! perftest sends random bytes and nobody checks them. With `--verify` the bytes are a function of the
//! sender's first PSN, which the peer knows, of the message's number and of the offset, so that nothing is
//! added to the exchange. A peer that does not send the pattern is told from one whose data is damaged:
//! not one of its words is right.

use roce_engine::verbs::{Psn, Region};

/// Bytes that are looked at in one piece.
const BLOCK: usize = 4096;
/// What a checked place is overwritten with, so that old data can't pass for new.
const POISON: u8 = 0xa5;

/// What write-lat sends around its counter. perftest sends zeros, which with the padding of a short message
/// make a counter look like an EtherType to packet dissectors, and packets malformed.
pub const FILLER: u8 = 0xff;

/// A stream of bytes that both ends can compute.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Pattern {
    key: u64,
}

/// How data differs from its pattern.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Mismatch {
    /// The first byte that is wrong, from the start of the data.
    pub offset: usize,
    /// What it should be.
    pub expected: u8,
    /// What it is.
    pub found: u8,
    /// Not one 8-byte word is right: this is other data, not damaged data.
    pub nothing_fits: bool,
}

impl Pattern {
    /// Returns the content of message `number` from the QP whose first PSN is `psn`.
    pub const fn message(psn: Psn, number: u64) -> Self {
        Self {
            key: mix(psn.value() as u64 | number.wrapping_add(1) << 24),
        }
    }

    /// Returns the content of memory that the QP whose first PSN is `psn` lets its peer read.
    pub const fn memory(psn: Psn) -> Self {
        Self {
            key: mix(psn.value() as u64),
        }
    }

    /// Writes `len` bytes of the pattern from its byte `first` on to `offset` of `region`.
    ///
    /// # Panics
    ///
    /// `first` is not a multiple of 8 or the range is not inside the region.
    pub fn fill(self, first: u64, region: &Region, offset: usize, len: usize) {
        let mut block = [0; BLOCK];
        for start in (0..len).step_by(BLOCK) {
            let bytes = &mut block[..BLOCK.min(len - start)];
            self.generate(first + start as u64, bytes);
            region.write(offset + start, bytes);
        }
    }

    /// Compares `len` bytes at `offset` of `region` with the pattern from its byte `first` on, then
    /// overwrites them.
    ///
    /// # Errors
    ///
    /// They differ.
    ///
    /// # Panics
    ///
    /// As [`Self::fill`].
    pub fn take(
        self,
        first: u64,
        region: &Region,
        offset: usize,
        len: usize,
    ) -> Result<(), Mismatch> {
        let mut found = [0; BLOCK];
        let mut expected = [0; BLOCK];
        let mut mismatch: Option<Mismatch> = None;
        let mut something_fits = false;
        for start in (0..len).step_by(BLOCK) {
            let n = BLOCK.min(len - start);
            let (found, expected) = (&mut found[..n], &mut expected[..n]);
            region.read(offset + start, found);
            self.generate(first + start as u64, expected);
            if found == expected {
                something_fits = true;
                continue;
            }
            something_fits |= found.chunks(8).zip(expected.chunks(8)).any(|(a, b)| a == b);
            if mismatch.is_none() {
                mismatch = first_difference(expected, found).map(|at| Mismatch {
                    offset: start + at,
                    expected: expected[at],
                    found: found[at],
                    nothing_fits: false,
                });
            }
        }
        poison(region, offset, len);
        match mismatch {
            None => Ok(()),
            Some(mismatch) => Err(Mismatch {
                nothing_fits: !something_fits,
                ..mismatch
            }),
        }
    }

    /// Returns whether the first word of data of `len` bytes at `offset` is that of the pattern.
    ///
    /// # Panics
    ///
    /// The range is not inside the region.
    pub fn starts(self, region: &Region, offset: usize, len: usize) -> bool {
        let mut found = [0; 8];
        let found = &mut found[..len.min(8)];
        region.read(offset, found);
        self.word(0).to_le_bytes().starts_with(found)
    }

    fn generate(self, first: u64, out: &mut [u8]) {
        assert!(first.is_multiple_of(8), "patterns start at whole words");
        let mut index = first / 8;
        let mut words = out.chunks_exact_mut(8);
        for word in &mut words {
            word.copy_from_slice(&self.word(index).to_le_bytes());
            index += 1;
        }
        let rest = words.into_remainder();
        rest.copy_from_slice(&self.word(index).to_le_bytes()[..rest.len()]);
    }

    const fn word(self, index: u64) -> u64 {
        mix(self
            .key
            .wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }
}

/// Compares `len` bytes at `offset` of `region` with those of `twin`: where they differ, what should be there
/// and what is. A peer that starts with a zero has zeros where the twin has [`FILLER`], as perftest does.
pub fn difference(
    region: &Region,
    offset: usize,
    twin: (&Region, usize),
    len: usize,
) -> Option<(usize, u8, u8)> {
    let mut found = [0; BLOCK];
    let mut expected = [0; BLOCK];
    let zeros = len > 0 && region.load(offset) == 0;
    for start in (0..len).step_by(BLOCK) {
        let n = BLOCK.min(len - start);
        let (found, expected) = (&mut found[..n], &mut expected[..n]);
        region.read(offset + start, found);
        twin.0.read(twin.1 + start, expected);
        let differs = |at: &usize| {
            let as_stock = zeros && expected[*at] == FILLER && found[*at] == 0;
            found[*at] != expected[*at] && !as_stock
        };
        if found != expected
            && let Some(at) = (0..n).find(differs)
        {
            return Some((start + at, expected[at], found[at]));
        }
    }
    None
}

/// Overwrites a place, so that old data can't pass for new.
pub fn poison(region: &Region, offset: usize, len: usize) {
    region.fill(offset, len, POISON);
}

fn first_difference(a: &[u8], b: &[u8]) -> Option<usize> {
    a.iter().zip(b).position(|(a, b)| a != b)
}

// A bijection of 64 bits in which each input bit reaches each output bit.
const fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x = (x ^ x >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ x >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region() -> Region {
        Region::zeroed(3 * BLOCK, 64).unwrap()
    }

    #[test]
    fn what_was_filled_is_found_once() {
        let region = region();
        let pattern = Pattern::message(Psn::new(7), 0);
        pattern.fill(64, &region, 128, 2 * BLOCK - 13);
        assert_eq!(pattern.take(64, &region, 128, 2 * BLOCK - 13), Ok(()));
        let again = pattern.take(64, &region, 128, 2 * BLOCK - 13).unwrap_err();
        assert!(again.nothing_fits);
        assert_eq!(again.found, POISON);
    }

    #[test]
    fn one_wrong_bit_is_named() {
        let region = region();
        let pattern = Pattern::memory(Psn::new(0xff_ffff));
        pattern.fill(0, &region, 0, 5000);
        let was = region.load(4999);
        region.store(4999, was ^ 4);
        assert_eq!(
            pattern.take(0, &region, 0, 5000),
            Err(Mismatch {
                offset: 4999,
                expected: was,
                found: was ^ 4,
                nothing_fits: false
            })
        );
    }

    #[test]
    fn messages_offsets_and_senders_differ() {
        let region = region();
        let pattern = Pattern::message(Psn::new(1), 1);
        for other in [
            Pattern::message(Psn::new(1), 2),
            Pattern::message(Psn::new(2), 1),
            Pattern::memory(Psn::new(1)),
        ] {
            other.fill(0, &region, 0, 256);
            assert!(pattern.take(0, &region, 0, 256).unwrap_err().nothing_fits);
        }
        pattern.fill(8, &region, 0, 256);
        assert!(pattern.take(0, &region, 0, 256).unwrap_err().nothing_fits);
    }

    #[test]
    fn a_peers_zeros_stand_for_the_filler_and_for_nothing_else() {
        let (ours, theirs) = (region(), region());
        ours.fill(0, 16, FILLER);
        ours.store(3, 7);
        theirs.store(3, 7);
        let compare = || difference(&theirs, 0, (&ours, 0), 15);
        assert_eq!(compare(), None);
        theirs.store(9, 5);
        assert_eq!(compare(), Some((9, FILLER, 5)));
        // One that sends the filler sends it throughout.
        theirs.fill(0, 16, FILLER);
        theirs.store(3, 7);
        assert_eq!(compare(), None);
        theirs.store(12, 0);
        assert_eq!(compare(), Some((12, FILLER, 0)));
    }
}
