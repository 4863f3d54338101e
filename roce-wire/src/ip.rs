//! What IPv4 and IPv6 have in common.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;

/// A source and a destination of one family.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum AddressPair {
    /// Two IPv4 addresses.
    V4 {
        /// Who sends.
        src: Ipv4Addr,
        /// Who receives.
        dst: Ipv4Addr,
    },
    /// Two IPv6 addresses, or two GIDs in RoCEv1.
    V6 {
        /// Who sends.
        src: Ipv6Addr,
        /// Who receives.
        dst: Ipv6Addr,
    },
}

impl AddressPair {
    /// Makes a pair, or nothing of addresses of two families.
    pub const fn new(src: IpAddr, dst: IpAddr) -> Option<Self> {
        match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Some(Self::V4 { src, dst }),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Some(Self::V6 { src, dst }),
            _ => None,
        }
    }

    /// Returns the source.
    pub const fn src(self) -> IpAddr {
        match self {
            Self::V4 { src, .. } => IpAddr::V4(src),
            Self::V6 { src, .. } => IpAddr::V6(src),
        }
    }

    /// Returns the destination.
    pub const fn dst(self) -> IpAddr {
        match self {
            Self::V4 { dst, .. } => IpAddr::V4(dst),
            Self::V6 { dst, .. } => IpAddr::V6(dst),
        }
    }

    /// Returns the pair of the opposite direction.
    #[must_use]
    pub const fn reversed(self) -> Self {
        match self {
            Self::V4 { src, dst } => Self::V4 { src: dst, dst: src },
            Self::V6 { src, dst } => Self::V6 { src: dst, dst: src },
        }
    }
}

/// The two congestion bits, lowest in IPv4's TOS and IPv6's traffic class.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Ecn {
    /// The sender doesn't take part.
    NotEct = 0,
    /// The sender takes part, codepoint 1.
    Ect1 = 1,
    /// The sender takes part, codepoint 0: what RoCE senders set.
    Ect0 = 2,
    /// A router was congested.
    Ce = 3,
}

impl Ecn {
    /// Returns the bits of a traffic class.
    pub const fn of(traffic_class: u8) -> Self {
        match traffic_class & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// Returns a traffic class with these bits.
    pub const fn set_in(self, traffic_class: u8) -> u8 {
        traffic_class & !3 | self as u8
    }
}

impl fmt::Display for Ecn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotEct => "not-ECT",
            Self::Ect1 => "ECT(1)",
            Self::Ect0 => "ECT(0)",
            Self::Ce => "CE",
        })
    }
}

/// Returns the DSCP, the upper six bits of a traffic class.
pub const fn dscp(traffic_class: u8) -> u8 {
    traffic_class >> 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn congestion_bits_are_the_lowest() {
        assert_eq!(Ecn::of(106), Ecn::Ect0);
        assert_eq!(dscp(106), 26);
        assert_eq!(Ecn::Ce.set_in(106), 107);
        for bits in 0..4 {
            assert_eq!(Ecn::of(bits).set_in(0xfc), 0xfc | bits);
        }
    }

    #[test]
    fn pairs_are_of_one_family() {
        let [v4, v6] = ["10.7.0.1", "fd07::1"].map(|ip| ip.parse::<IpAddr>().unwrap());
        assert_eq!(AddressPair::new(v4, v6), None);
        let pair = AddressPair::new(v6, Ipv6Addr::LOCALHOST.into()).unwrap();
        assert_eq!(pair.reversed().dst(), v6);
        assert_eq!(pair.reversed().src(), pair.dst());
    }
}
