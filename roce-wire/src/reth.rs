//! The RDMA header: what a WRITE, READ, ATOMIC WRITE or FLUSH acts on.

use crate::ids::RKey;

/// The remote memory of an RDMA operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Reth {
    /// The virtual address at the responder.
    pub addr: u64,
    /// The key of the responder's memory region.
    pub rkey: RKey,
    /// The length of the whole message, without pad.
    pub length: u32,
}

impl Reth {
    /// Bytes on the wire.
    pub const LEN: usize = 16;

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
            l0,
            l1,
            l2,
            l3,
        ] = *bytes;
        Self {
            addr: u64::from_be_bytes([a0, a1, a2, a3, a4, a5, a6, a7]),
            rkey: RKey(u32::from_be_bytes([k0, k1, k2, k3])),
            length: u32::from_be_bytes([l0, l1, l2, l3]),
        }
    }

    /// Writes the header.
    #[inline]
    pub const fn to_bytes(self) -> [u8; Self::LEN] {
        let word = (self.addr as u128) << 64 | (self.rkey.0 as u128) << 32 | self.length as u128;
        word.to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_in_order() {
        let reth = Reth {
            addr: 0x0102_0304_0506_0708,
            rkey: RKey(0x090a_0b0c),
            length: 0x0d0e_0f10,
        };
        let bytes = reth.to_bytes();
        assert!(bytes.into_iter().eq(1..=16));
        assert_eq!(Reth::from_bytes(&bytes), reth);
    }
}
