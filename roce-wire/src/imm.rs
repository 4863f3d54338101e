//! Immediate data and the flush header, four bytes each.

/// Immediate data: opaque bytes in the order in which the sender's user gave them.
pub type ImmData = [u8; 4];

/// The flush header. Its reserved bits survive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Feth(pub u32);

impl Feth {
    /// Bytes on the wire.
    pub const LEN: usize = 4;

    /// Makes a header from placement type bits and selectivity level.
    pub const fn new(placement: u8, selectivity: u8) -> Self {
        Self((selectivity as u32 & 3) << 4 | placement as u32 & 0x0f)
    }

    /// Returns whether the memory must become visible to all (placement type bit 0).
    pub const fn global_visibility(self) -> bool {
        self.0 & 1 != 0
    }

    /// Returns whether the memory must survive a power loss (placement type bit 1).
    pub const fn persistence(self) -> bool {
        self.0 & 2 != 0
    }

    /// Returns whether the whole memory region is meant and not just the RETH's range.
    pub const fn whole_region(self) -> bool {
        self.0 >> 4 & 3 == 1
    }

    /// Reads the header.
    pub const fn from_bytes(bytes: &[u8; Self::LEN]) -> Self {
        Self(u32::from_be_bytes(*bytes))
    }

    /// Writes the header.
    pub const fn to_bytes(self) -> [u8; Self::LEN] {
        self.0.to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flush_bits_lie_in_the_low_byte() {
        let feth = Feth::new(2, 1);
        assert_eq!(feth.to_bytes(), [0, 0, 0, 0x12]);
        assert!(feth.persistence() && feth.whole_region() && !feth.global_visibility());
        let reserved = [0xde, 0xad, 0xbe, 0xcf];
        assert_eq!(Feth::from_bytes(&reserved).to_bytes(), reserved);
    }
}
