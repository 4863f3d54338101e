//! The IPv4 header without options.

use core::net::Ipv4Addr;

use crate::checksum::Sum;

/// Bytes of the header.
pub const LEN: usize = 20;

/// An IPv4 header without options.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ipv4 {
    /// DSCP and ECN.
    pub tos: u8,
    /// Bytes of header and payload.
    pub total_len: u16,
    /// The Identification, which the ICRC covers.
    pub id: u16,
    /// Flags and fragment offset as one word, which the ICRC covers.
    pub flags: u16,
    /// Hops that are left.
    pub ttl: u8,
    /// What follows.
    pub protocol: u8,
    /// The header's checksum as it is on the wire.
    pub checksum: u16,
    /// Who sends.
    pub src: Ipv4Addr,
    /// Who receives.
    pub dst: Ipv4Addr,
}

impl Ipv4 {
    /// Reads a header whose version and length were looked at before.
    #[inline]
    pub const fn from_bytes(bytes: &[u8; LEN]) -> Self {
        let [
            _,
            tos,
            l0,
            l1,
            i0,
            i1,
            f0,
            f1,
            ttl,
            protocol,
            c0,
            c1,
            s0,
            s1,
            s2,
            s3,
            d0,
            d1,
            d2,
            d3,
        ] = *bytes;
        Self {
            tos,
            total_len: u16::from_be_bytes([l0, l1]),
            id: u16::from_be_bytes([i0, i1]),
            flags: u16::from_be_bytes([f0, f1]),
            ttl,
            protocol,
            checksum: u16::from_be_bytes([c0, c1]),
            src: Ipv4Addr::new(s0, s1, s2, s3),
            dst: Ipv4Addr::new(d0, d1, d2, d3),
        }
    }

    /// Writes the header with the checksum that it has.
    #[inline]
    pub const fn to_bytes(self) -> [u8; LEN] {
        let [l0, l1] = self.total_len.to_be_bytes();
        let [i0, i1] = self.id.to_be_bytes();
        let [f0, f1] = self.flags.to_be_bytes();
        let [c0, c1] = self.checksum.to_be_bytes();
        let [s0, s1, s2, s3] = self.src.octets();
        let [d0, d1, d2, d3] = self.dst.octets();
        [
            VERSION_AND_LENGTH,
            self.tos,
            l0,
            l1,
            i0,
            i1,
            f0,
            f1,
            self.ttl,
            self.protocol,
            c0,
            c1,
            s0,
            s1,
            s2,
            s3,
            d0,
            d1,
            d2,
            d3,
        ]
    }

    /// Returns the header with the right checksum.
    #[must_use]
    pub fn with_checksum(mut self) -> Self {
        self.checksum = 0;
        self.checksum = Sum::new().bytes(&self.to_bytes()).checksum();
        self
    }

    /// Returns whether the checksum is right.
    pub fn checksum_is_good(self) -> bool {
        Sum::new().bytes(&self.to_bytes()).checksum() == 0
    }

    /// Returns whether the packet is a part of a fragmented one.
    pub const fn is_fragment(self) -> bool {
        self.flags & 0x3fff != 0
    }
}

/// Version 4, five words.
pub(crate) const VERSION_AND_LENGTH: u8 = 0x45;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_covers_the_header() {
        let header = Ipv4 {
            tos: 0,
            total_len: 0x0073,
            id: 0,
            flags: 0x4000,
            ttl: 0x40,
            protocol: 0x11,
            checksum: 0,
            src: Ipv4Addr::new(192, 168, 0, 1),
            dst: Ipv4Addr::new(192, 168, 0, 199),
        };
        assert!(!header.checksum_is_good());
        let header = header.with_checksum();
        assert_eq!(header.checksum, 0xb861);
        assert!(header.checksum_is_good());
        assert_eq!(Ipv4::from_bytes(&header.to_bytes()), header);
    }

    #[test]
    fn fragments_are_known_by_offset_or_more() {
        let header = Ipv4::from_bytes(&[0; LEN]);
        for (flags, fragment) in [(0, false), (0x4000, false), (0x2000, true), (0x0001, true)] {
            assert_eq!(Ipv4 { flags, ..header }.is_fragment(), fragment);
        }
    }
}
