//! The Ethernet header and its tags.

use core::fmt;

/// A MAC address.
#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
pub struct Mac(pub [u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What follows an Ethernet header or a tag.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4.
    pub const IPV4: Self = Self(0x0800);
    /// IPv6.
    pub const IPV6: Self = Self(0x86dd);
    /// RoCEv1: a GRH follows.
    pub const ROCE_V1: Self = Self(0x8915);
    /// An 802.1Q tag.
    pub const VLAN: Self = Self(0x8100);
    /// An 802.1ad service tag.
    pub const SERVICE_VLAN: Self = Self(0x88a8);
    /// An outer tag as switches wrote it before 802.1ad.
    pub const OLD_QINQ: Self = Self(0x9100);

    /// Returns whether a tag follows.
    pub const fn is_tag(self) -> bool {
        matches!(self, Self::VLAN | Self::SERVICE_VLAN | Self::OLD_QINQ)
    }

    /// Reads the type.
    pub const fn from_bytes(bytes: [u8; 2]) -> Self {
        Self(u16::from_be_bytes(bytes))
    }
}

impl fmt::Debug for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:04x}", self.0)
    }
}

/// The Ethernet header before its tags.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ethernet {
    /// Who receives.
    pub dst: Mac,
    /// Who sends.
    pub src: Mac,
    /// What follows.
    pub ether_type: EtherType,
}

impl Ethernet {
    /// Bytes on the wire.
    pub const LEN: usize = 14;

    /// Reads the header.
    pub const fn from_bytes(bytes: &[u8; Self::LEN]) -> Self {
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = *bytes;
        Self {
            dst: Mac([d0, d1, d2, d3, d4, d5]),
            src: Mac([s0, s1, s2, s3, s4, s5]),
            ether_type: EtherType::from_bytes([t0, t1]),
        }
    }

    /// Writes the header.
    pub const fn to_bytes(self) -> [u8; Self::LEN] {
        let [d0, d1, d2, d3, d4, d5] = self.dst.0;
        let [s0, s1, s2, s3, s4, s5] = self.src.0;
        let [t0, t1] = self.ether_type.0.to_be_bytes();
        [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1]
    }
}

/// The control information of a tag.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct VlanTag {
    /// Priority, drop-eligible bit and VLAN as one word.
    pub tci: u16,
    /// What follows the tag.
    pub ether_type: EtherType,
}

impl VlanTag {
    /// Bytes on the wire, after the type that announced the tag.
    pub const LEN: usize = 4;

    /// Returns the VLAN, 12 bits.
    pub const fn id(self) -> u16 {
        self.tci & 0x0fff
    }

    /// Returns the priority, 3 bits.
    pub const fn priority(self) -> u8 {
        (self.tci >> 13) as u8
    }

    /// Reads the tag.
    pub const fn from_bytes(bytes: &[u8; Self::LEN]) -> Self {
        let [c0, c1, t0, t1] = *bytes;
        Self {
            tci: u16::from_be_bytes([c0, c1]),
            ether_type: EtherType::from_bytes([t0, t1]),
        }
    }

    /// Writes the tag.
    pub const fn to_bytes(self) -> [u8; Self::LEN] {
        ((self.tci as u32) << 16 | self.ether_type.0 as u32).to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn tags_split_into_priority_and_vlan() {
        let tag = VlanTag::from_bytes(&[0x60, 0x64, 0x08, 0x00]);
        assert_eq!((tag.id(), tag.priority()), (100, 3));
        assert_eq!(tag.ether_type, EtherType::IPV4);
        assert_eq!(tag.to_bytes(), [0x60, 0x64, 0x08, 0x00]);
    }

    #[test]
    fn addresses_print_as_usual() {
        let bytes = core::array::from_fn(|at| at as u8);
        let header = Ethernet::from_bytes(&bytes);
        assert_eq!(format!("{}", header.src), "06:07:08:09:0a:0b");
        assert_eq!(header.to_bytes(), bytes);
    }
}
