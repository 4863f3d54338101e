//! The datagram header.

use crate::cursor::u24;
use crate::ids::{QKey, Qpn};

/// The datagram header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Deth {
    /// What the receiving queue pair compares with its own key.
    pub qkey: QKey,
    /// The eight bits before the source QPN, which senders leave 0.
    pub reserved8: u8,
    /// Who sent the datagram.
    pub src_qpn: Qpn,
}

impl Deth {
    /// Bytes on the wire.
    pub const LEN: usize = 8;

    /// Makes a header.
    pub const fn new(qkey: QKey, src_qpn: Qpn) -> Self {
        Self {
            qkey,
            reserved8: 0,
            src_qpn,
        }
    }

    /// Reads the header.
    pub const fn from_bytes(bytes: &[u8; Self::LEN]) -> Self {
        let [k0, k1, k2, k3, reserved8, q0, q1, q2] = *bytes;
        Self {
            qkey: QKey(u32::from_be_bytes([k0, k1, k2, k3])),
            reserved8,
            src_qpn: Qpn::new(u24([q0, q1, q2])),
        }
    }

    /// Writes the header.
    pub const fn to_bytes(self) -> [u8; Self::LEN] {
        let word = (self.qkey.0 as u64) << 32
            | (self.reserved8 as u64) << 24
            | self.src_qpn.value() as u64;
        word.to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagram_header_is_key_then_source() {
        let deth = Deth::new(QKey(0x8001_0000), Qpn::GSI);
        assert_eq!(deth.to_bytes(), [0x80, 1, 0, 0, 0, 0, 0, 1]);
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(Deth::from_bytes(&bytes).to_bytes(), bytes);
    }
}
