//! Identifiers that are on the wire, as newtypes that can't be mixed up.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A queue pair number: 24 bits.
#[derive(Clone, Copy, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Qpn(u32);

impl Qpn {
    /// The subnet management interface.
    pub const SMI: Self = Self(0);
    /// The general services interface, where connection management arrives.
    pub const GSI: Self = Self(1);
    /// The destination of multicast packets.
    pub const MULTICAST: Self = Self(0xff_ffff);

    /// Makes a QPN from the low 24 bits of `value`.
    pub const fn new(value: u32) -> Self {
        Self(value & 0x00ff_ffff)
    }

    /// Returns the 24-bit value.
    pub const fn value(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for Qpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:06x}", self.0)
    }
}

impl fmt::Display for Qpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:06x}", self.0)
    }
}

/// A partition key: 15 bits of key and a full-membership bit.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct PKey(pub u16);

impl PKey {
    /// The default partition, full member: the only one that RoCE needs.
    pub const DEFAULT: Self = Self(0xffff);

    /// Returns whether two keys name one partition and at least one side is a full member.
    pub const fn matches(self, other: Self) -> bool {
        (self.0 ^ other.0) & 0x7fff == 0 && (self.0 | other.0) & 0x8000 != 0
    }
}

impl fmt::Debug for PKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:04x}", self.0)
    }
}

/// A queue key of the datagram service.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct QKey(pub u32);

/// A key that a peer uses to name a memory region.
#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
pub struct RKey(pub u32);

impl fmt::Debug for RKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:08x}", self.0)
    }
}

/// A key that local work requests use to name a memory region.
#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
pub struct LKey(pub u32);

impl fmt::Debug for LKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:08x}", self.0)
    }
}

/// A global identifier: an IPv6 address, or an IPv4 address in its mapped form.
#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// Returns the GID that names an IP address.
    pub fn from_ip(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(v4) => Self(v4.to_ipv6_mapped().octets()),
            IpAddr::V6(v6) => Self(v6.octets()),
        }
    }

    /// Returns the IP address that RoCEv2 uses for this GID.
    pub fn to_ip(self) -> IpAddr {
        let v6 = Ipv6Addr::from(self.0);
        v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4)
    }

    /// Returns the IPv4 address of a mapped GID.
    pub fn to_ipv4(self) -> Option<Ipv4Addr> {
        Ipv6Addr::from(self.0).to_ipv4_mapped()
    }

    /// Returns whether this is an IPv4-mapped GID.
    pub fn is_ipv4(self) -> bool {
        self.to_ipv4().is_some()
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Ipv6Addr::from(self.0), f)
    }
}

/// A path MTU: the payload bytes of a full packet.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Mtu {
    /// 256 bytes.
    B256 = 1,
    /// 512 bytes.
    B512 = 2,
    /// 1024 bytes.
    B1024 = 3,
    /// 2048 bytes.
    B2048 = 4,
    /// 4096 bytes.
    B4096 = 5,
}

impl Mtu {
    /// All path MTUs, smallest first.
    pub const ALL: [Self; 5] = [
        Self::B256,
        Self::B512,
        Self::B1024,
        Self::B2048,
        Self::B4096,
    ];

    /// Bytes that a packet may carry beside its payload, as rxe counts them: headers, ICRC, room.
    pub const HEADROOM: usize = 80;

    /// Returns the payload bytes of a full packet.
    pub const fn bytes(self) -> usize {
        128 << self as usize
    }

    /// Returns the path MTU of a byte count, if it is one.
    pub fn from_bytes(bytes: usize) -> Option<Self> {
        Self::ALL.into_iter().find(|mtu| mtu.bytes() == bytes)
    }

    /// Returns the path MTU of its code (1 to 5, as in `IBV_MTU_*` and CM messages).
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|mtu| *mtu as u8 == code)
    }

    /// Returns the largest path MTU that fits a netdev MTU (the IP packet's size).
    pub fn fitting(netdev_mtu: usize) -> Option<Self> {
        Self::ALL
            .into_iter()
            .rev()
            .find(|mtu| mtu.bytes() + Self::HEADROOM <= netdev_mtu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_mtu_fits_the_netdev() {
        assert_eq!(Mtu::fitting(1500), Some(Mtu::B1024));
        assert_eq!(Mtu::fitting(4176), Some(Mtu::B4096));
        assert_eq!(Mtu::fitting(4175), Some(Mtu::B2048));
        assert_eq!(Mtu::fitting(300), None);
        assert_eq!(Mtu::from_code(5).map(Mtu::bytes), Some(4096));
    }

    #[test]
    fn partition_needs_one_full_member() {
        assert!(PKey(0xffff).matches(PKey(0x7fff)));
        assert!(!PKey(0x7fff).matches(PKey(0x7fff)));
        assert!(!PKey(0x8001).matches(PKey(0x8002)));
    }

    #[test]
    fn gids_map_ipv4() {
        let gid = Gid::from_ip(IpAddr::V4(Ipv4Addr::new(10, 7, 0, 1)));
        assert_eq!(&gid.0[10..], &[0xff, 0xff, 10, 7, 0, 1]);
        assert_eq!(gid.to_ip(), IpAddr::V4(Ipv4Addr::new(10, 7, 0, 1)));
    }
}
