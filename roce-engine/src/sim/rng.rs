//! A small seeded generator: the only source of chance in a simulation.

use core::ops::RangeInclusive;

/// A pseudo-random generator (xoshiro256++, seeded by `SplitMix64`). Equal seeds give equal sequences
/// on every machine.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// Makes a generator from any seed.
    pub fn new(seed: u64) -> Self {
        let mut mix = seed;
        Self {
            state: core::array::from_fn(|_| {
                mix = mix.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut z = mix;
                z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                z ^ (z >> 31)
            }),
        }
    }

    /// Makes an independent generator, so that one consumer's draws don't shift another's.
    pub fn fork(&mut self) -> Self {
        Self::new(self.bits())
    }

    /// Returns 64 random bits.
    pub const fn bits(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Returns a number below `n`; 0 if `n` is 0.
    pub const fn below(&mut self, n: u64) -> u64 {
        // The high half of the product: its bias is below n / 2^64.
        ((self.bits() as u128 * n as u128) >> 64) as u64
    }

    /// Returns a number of the range.
    pub const fn range(&mut self, range: RangeInclusive<u64>) -> u64 {
        let (low, high) = (*range.start(), *range.end());
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// Returns true with this probability (0.0 to 1.0). Draws nothing when the answer is certain.
    pub fn chance(&mut self, probability: f64) -> bool {
        if probability <= 0.0 {
            return false;
        }
        probability >= 1.0 || ((self.bits() >> 11) as f64) < probability * (1_u64 << 53) as f64
    }

    /// Returns one of the items.
    ///
    /// # Panics
    ///
    /// There is none.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize]
    }

    /// Fills `out` with random bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            chunk.copy_from_slice(&self.bits().to_le_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_sequences() {
        let (mut a, mut b) = (Rng::new(7), Rng::new(7));
        assert!((0..100).all(|_| a.bits() == b.bits()));
        assert_ne!(Rng::new(7).bits(), Rng::new(8).bits());
    }

    #[test]
    fn draws_stay_in_their_range_and_reach_its_ends() {
        let mut rng = Rng::new(1);
        let mut seen = [false; 4];
        for _ in 0..200 {
            let n = rng.range(3..=6);
            assert!((3..=6).contains(&n));
            seen[n as usize - 3] = true;
        }
        assert_eq!(seen, [true; 4]);
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.range(9..=9), 9);
    }

    #[test]
    fn chance_is_near_its_probability() {
        let mut rng = Rng::new(2);
        let hits = (0..100_000).filter(|_| rng.chance(0.2)).count();
        assert!((19_000..21_000).contains(&hits), "{hits}");
        assert!(!rng.chance(0.0) && rng.chance(1.0));
    }
}
