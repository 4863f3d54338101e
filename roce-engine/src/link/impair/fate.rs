//! What becomes of a packet, drawn from a seed.

use super::ImpairConfig;

/// Packets that may overtake one, at most.
const MAX_DISTANCE: u64 = 8;

/// The byte of the BTH that the ICRC does not cover.
const NOT_COVERED: usize = 4;

/// A small seeded generator (`SplitMix64`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    const fn below(&mut self, end: u64) -> u64 {
        ((self.bits() as u128 * end as u128) >> 64) as u64
    }

    fn chance(&mut self, probability: f64) -> bool {
        const STEPS: u64 = 1 << 53;
        (self.below(STEPS) as f64) < probability * STEPS as f64
    }
}

/// A bit to flip.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Flip {
    byte: usize,
    mask: u8,
}

impl Flip {
    pub(super) fn apply(self, bytes: &mut [u8]) {
        if let Some(byte) = bytes.get_mut(self.byte) {
            *byte ^= self.mask;
        }
    }
}

/// What becomes of one packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fate {
    pub(super) drop: bool,
    pub(super) duplicate: bool,
    pub(super) reorder: bool,
    /// Later packets that overtake it before it leaves, less one.
    pub(super) distance: u64,
    pub(super) flip: Option<Flip>,
}

impl Fate {
    /// Draws the same count of numbers for every packet, so that changing one rate leaves the other
    /// faults where they were.
    pub(super) fn draw(random: &mut Random, config: &ImpairConfig, len: usize) -> Self {
        let drop = random.chance(config.drop);
        let duplicate = random.chance(config.duplicate);
        let reorder = random.chance(config.reorder);
        let distance = random.below(MAX_DISTANCE);
        let corrupt = random.chance(config.corrupt);
        let bit = random.below(8 * len as u64);
        let byte = (bit / 8) as usize;
        let flip = Flip {
            // A neighbour instead, or the fault would be none.
            byte: if byte == NOT_COVERED { byte + 1 } else { byte },
            mask: 1 << (bit % 8),
        };
        Self {
            drop,
            duplicate,
            reorder,
            distance,
            flip: corrupt.then_some(flip),
        }
    }
}
