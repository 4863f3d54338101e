//! The headers of CMP_SWAP and FETCH_ADD and of their answer.

use crate::ids::RKey;

/// The atomic request header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AtomicEth {
    /// The virtual address at the responder; a multiple of 8 in a legal request.
    pub addr: u64,
    /// The key of the responder's memory region.
    pub rkey: RKey,
    /// The value to store (CMP_SWAP) or to add (FETCH_ADD).
    pub swap_add: u64,
    /// The value to compare with (CMP_SWAP).
    pub compare: u64,
}

impl AtomicEth {
    /// Bytes on the wire.
    pub const LEN: usize = 28;

    /// Reads the header.
    #[inline]
    pub const fn from_bytes(bytes: &[u8; Self::LEN]) -> Self {
        let [
            a0,
            a1,
            a2,
            a3,
            a4,
            a5,
            a6,
            a7,
            k0,
            k1,
            k2,
            k3,
            s0,
            s1,
            s2,
            s3,
            s4,
            s5,
            s6,
            s7,
            c0,
            c1,
            c2,
            c3,
            c4,
            c5,
            c6,
            c7,
        ] = *bytes;
        Self {
            addr: u64::from_be_bytes([a0, a1, a2, a3, a4, a5, a6, a7]),
            rkey: RKey(u32::from_be_bytes([k0, k1, k2, k3])),
            swap_add: u64::from_be_bytes([s0, s1, s2, s3, s4, s5, s6, s7]),
            compare: u64::from_be_bytes([c0, c1, c2, c3, c4, c5, c6, c7]),
        }
    }

    /// Writes the header.
    #[inline]
    pub const fn to_bytes(self) -> [u8; Self::LEN] {
        let [a0, a1, a2, a3, a4, a5, a6, a7] = self.addr.to_be_bytes();
        let [k0, k1, k2, k3] = self.rkey.0.to_be_bytes();
        let [s0, s1, s2, s3, s4, s5, s6, s7] = self.swap_add.to_be_bytes();
        let [c0, c1, c2, c3, c4, c5, c6, c7] = self.compare.to_be_bytes();
        [
            a0, a1, a2, a3, a4, a5, a6, a7, k0, k1, k2, k3, s0, s1, s2, s3, s4, s5, s6, s7, c0, c1,
            c2, c3, c4, c5, c6, c7,
        ]
    }
}

/// The atomic response header: the value before the operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AtomicAckEth(pub u64);

impl AtomicAckEth {
    /// Bytes on the wire.
    pub const LEN: usize = 8;

    /// Reads the header.
    pub const fn from_bytes(bytes: &[u8; Self::LEN]) -> Self {
        Self(u64::from_be_bytes(*bytes))
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
    fn fields_lie_in_order() {
        let bytes = core::array::from_fn(|i| i as u8 + 1);
        let atomic = AtomicEth::from_bytes(&bytes);
        assert_eq!(atomic.addr, 0x0102_0304_0506_0708);
        assert_eq!(atomic.rkey, RKey(0x090a_0b0c));
        assert_eq!(atomic.swap_add, 0x0d0e_0f10_1112_1314);
        assert_eq!(atomic.compare, 0x1516_1718_191a_1b1c);
        assert_eq!(atomic.to_bytes(), bytes);
        assert_eq!(AtomicAckEth(5).to_bytes(), [0, 0, 0, 0, 0, 0, 0, 5]);
    }
}
