//! The IPv6 header, whose layout the GRH of RoCEv1 shares.

use core::net::Ipv6Addr;

/// Bytes of the header.
pub const LEN: usize = 40;

/// An IPv6 header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ipv6 {
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// The flow label, 20 bits.
    pub flow_label: u32,
    /// Bytes after the header.
    pub payload_len: u16,
    /// What follows.
    pub next_header: u8,
    /// Hops that are left.
    pub hop_limit: u8,
    /// Who sends.
    pub src: Ipv6Addr,
    /// Who receives.
    pub dst: Ipv6Addr,
}

impl Ipv6 {
    /// Reads a header whose version was looked at before.
    #[inline]
    pub fn from_bytes(bytes: &[u8; LEN]) -> Self {
        let (blocks, dst) = bytes.as_chunks::<8>();
        debug_assert!(dst.is_empty());
        let [head, s0, s1, d0, d1] = [0, 1, 2, 3, 4].map(|at| u64::from_be_bytes(blocks[at]));
        Self {
            traffic_class: (head >> 52) as u8,
            flow_label: (head >> 32) as u32 & FLOW_LABEL,
            payload_len: (head >> 16) as u16,
            next_header: (head >> 8) as u8,
            hop_limit: head as u8,
            src: Ipv6Addr::from_bits(u128::from(s0) << 64 | u128::from(s1)),
            dst: Ipv6Addr::from_bits(u128::from(d0) << 64 | u128::from(d1)),
        }
    }

    /// Writes the header. Bits of the flow label above 20 are dropped.
    #[inline]
    pub fn to_bytes(self) -> [u8; LEN] {
        let head = 6 << 60
            | u64::from(self.traffic_class) << 52
            | u64::from(self.flow_label & FLOW_LABEL) << 32
            | u64::from(self.payload_len) << 16
            | u64::from(self.next_header) << 8
            | u64::from(self.hop_limit);
        let mut bytes = [0; LEN];
        bytes[..8].copy_from_slice(&head.to_be_bytes());
        bytes[8..24].copy_from_slice(&self.src.octets());
        bytes[24..].copy_from_slice(&self.dst.octets());
        bytes
    }
}

const FLOW_LABEL: u32 = 0x000f_ffff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_where_the_wire_has_them() {
        let mut bytes = core::array::from_fn(|at| at as u8);
        bytes[0] = 0x6a;
        let header = Ipv6::from_bytes(&bytes);
        assert_eq!((header.traffic_class, header.flow_label), (0xa0, 0x1_0203));
        assert_eq!(
            (header.payload_len, header.next_header, header.hop_limit),
            (0x0405, 6, 7)
        );
        assert_eq!(header.src.octets()[..2], [8, 9]);
        assert_eq!(header.dst.octets()[15], 39);
        assert_eq!(header.to_bytes(), bytes);
    }
}
