//! The UDP header.

use crate::checksum::Sum;
use crate::ip::{AddressPair, PROTOCOL_UDP};

/// Bytes of the header.
pub const LEN: usize = 8;

/// The destination port of RoCEv2.
pub const ROCE_PORT: u16 = 4791;

/// A UDP header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Udp {
    /// The source port. Senders vary it per flow, some use 0: it is never filtered on.
    pub src_port: u16,
    /// The destination port.
    pub dst_port: u16,
    /// Bytes of header and payload.
    pub len: u16,
    /// The checksum as it is on the wire; 0 stands for none, over IPv6 too.
    pub checksum: u16,
}

impl Udp {
    /// Reads the header.
    #[inline]
    pub const fn from_bytes(bytes: &[u8; LEN]) -> Self {
        let [s0, s1, d0, d1, l0, l1, c0, c1] = *bytes;
        Self {
            src_port: u16::from_be_bytes([s0, s1]),
            dst_port: u16::from_be_bytes([d0, d1]),
            len: u16::from_be_bytes([l0, l1]),
            checksum: u16::from_be_bytes([c0, c1]),
        }
    }

    /// Writes the header.
    #[inline]
    pub const fn to_bytes(self) -> [u8; LEN] {
        let word = (self.src_port as u64) << 48
            | (self.dst_port as u64) << 32
            | (self.len as u64) << 16
            | self.checksum as u64;
        word.to_be_bytes()
    }

    /// Returns whether the checksum is right, or nothing if the sender has left it out.
    ///
    /// The ICRC says more and leaves the checksum out. A frame that was captured on its sender may
    /// have a wrong one, since the hardware fills it in later.
    pub fn checksum_is_good(self, addresses: AddressPair, payload: &[u8]) -> Option<bool> {
        if self.checksum == 0 {
            return None;
        }
        let pseudo = match addresses {
            AddressPair::V4 { src, dst } => Sum::new().bytes(&src.octets()).bytes(&dst.octets()),
            AddressPair::V6 { src, dst } => Sum::new().bytes(&src.octets()).bytes(&dst.octets()),
        };
        let sum = pseudo
            .word(u16::from(PROTOCOL_UDP))
            .word(self.len)
            .bytes(&self.to_bytes())
            .bytes(payload);
        Some(sum.checksum() == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    #[test]
    fn a_checksum_is_checked_where_there_is_one() {
        let addresses = AddressPair::V4 {
            src: Ipv4Addr::new(10, 0, 0, 1),
            dst: Ipv4Addr::new(10, 0, 0, 2),
        };
        let mut udp = Udp::from_bytes(&[0xc0, 0, 0x12, 0xb7, 0, 11, 0, 0]);
        assert_eq!((udp.dst_port, udp.len), (ROCE_PORT, 11));
        assert_eq!(udp.checksum_is_good(addresses, &[1, 2, 3]), None);
        // 0a00+0001+0a00+0002 + 0011+000b + c000+12b7+000b + 0102+0300 = eae3 by hand.
        udp.checksum = !0xeae3;
        assert_eq!(udp.checksum_is_good(addresses, &[1, 2, 3]), Some(true));
        assert_eq!(udp.checksum_is_good(addresses, &[1, 2, 4]), Some(false));
    }
}
