//! The internet checksum, whole and in parts.

/// A ones' complement sum in the making.
///
/// Parts may be added in any order as long as each starts at an even offset of the whole.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sum(u64);

impl Sum {
    /// Starts with nothing.
    pub const fn new() -> Self {
        Self(0)
    }

    /// Adds a 16-bit field.
    #[must_use]
    #[inline]
    pub const fn word(self, value: u16) -> Self {
        Self(self.0 + value as u64)
    }

    /// Adds bytes; an odd last one counts as if a zero byte followed.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let (words, odd) = bytes.as_chunks::<2>();
        let whole = words
            .iter()
            .map(|word| u64::from(u16::from_be_bytes(*word)))
            .sum::<u64>();
        let last = odd.first().map_or(0, |byte| u64::from(*byte) << 8);
        Self(self.0 + whole + last)
    }

    /// Returns the checksum to be written: over a part that contains a right one, that is 0.
    #[inline]
    pub const fn checksum(self) -> u16 {
        let mut sum = self.0;
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071_holds() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::new().bytes(&bytes).checksum(), !0xddf2);
        let in_parts = Sum::new().bytes(&bytes[4..]).word(0x0001).word(0xf203);
        assert_eq!(in_parts.checksum(), !0xddf2);
    }

    #[test]
    fn a_sum_over_its_own_checksum_is_zero() {
        let sum = Sum::new().bytes(&[0xff, 0xff, 0x12, 0x34, 0x56]);
        assert_eq!(sum.word(sum.checksum()).checksum(), 0);
    }
}
