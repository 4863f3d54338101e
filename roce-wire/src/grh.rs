//! The global route header: on the wire in RoCEv1, before the data of a UD receive everywhere.

use crate::ipv4::Ipv4;
use crate::ipv6::{self, Ipv6};

/// Bytes of the header, and of the area that a UD receive gets in front of its data.
pub const LEN: usize = ipv6::LEN;

/// What the next header field says before a BTH.
pub const NEXT_HEADER_BTH: u8 = 0x1b;

/// A global route header: an IPv6 header whose addresses are GIDs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Grh(pub Ipv6);

/// The header that brought a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Network {
    /// RoCEv2 over IPv4.
    V4(Ipv4),
    /// RoCEv2 over IPv6.
    V6(Ipv6),
    /// RoCEv1.
    Grh(Grh),
}

impl Network {
    /// Returns the 40 bytes that a UD receive gets in front of its data.
    ///
    /// An IPv4 header fills the last 20 of them; the first 20 are 0.
    pub fn receive_area(&self) -> [u8; LEN] {
        match self {
            Self::V4(header) => {
                let mut area = [0; LEN];
                area[LEN - crate::ipv4::LEN..].copy_from_slice(&header.to_bytes());
                area
            }
            Self::V6(header) | Self::Grh(Grh(header)) => header.to_bytes(),
        }
    }

    /// Returns the header of a received area: IPv4 if its 21st byte starts such a header.
    ///
    /// Returns nothing for an area that holds neither.
    pub fn from_receive_area(area: &[u8; LEN]) -> Option<Self> {
        let (_, last) = area.split_last_chunk::<{ crate::ipv4::LEN }>()?;
        let v6 = Ipv6::from_bytes(area);
        if area[0] >> 4 == 6 {
            return Some(match v6.next_header {
                NEXT_HEADER_BTH => Self::Grh(Grh(v6)),
                _ => Self::V6(v6),
            });
        }
        (last[0] == crate::ipv4::VERSION_AND_LENGTH).then(|| Self::V4(Ipv4::from_bytes(last)))
    }

    /// Returns TOS or traffic class.
    pub const fn traffic_class(&self) -> u8 {
        match self {
            Self::V4(header) => header.tos,
            Self::V6(header) | Self::Grh(Grh(header)) => header.traffic_class,
        }
    }

    /// Returns TTL or hop limit.
    pub const fn hop_limit(&self) -> u8 {
        match self {
            Self::V4(header) => header.ttl,
            Self::V6(header) | Self::Grh(Grh(header)) => header.hop_limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::PROTOCOL_UDP;
    use core::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn an_ipv4_header_fills_the_last_half_of_the_area() {
        let header = Ipv4 {
            tos: 104,
            total_len: 100,
            id: 7,
            flags: 0x4000,
            ttl: 64,
            protocol: PROTOCOL_UDP,
            checksum: 0,
            src: Ipv4Addr::new(10, 7, 0, 1),
            dst: Ipv4Addr::new(10, 7, 0, 2),
        }
        .with_checksum();
        let area = Network::V4(header).receive_area();
        assert_eq!(area[..21], {
            let mut expected = [0; 21];
            expected[20] = 0x45;
            expected
        });
        assert_eq!(Network::from_receive_area(&area), Some(Network::V4(header)));
    }

    #[test]
    fn ipv6_and_grh_fill_the_whole_area() {
        let header = Ipv6 {
            traffic_class: 104,
            flow_label: 0xabcde,
            payload_len: 100,
            next_header: PROTOCOL_UDP,
            hop_limit: 64,
            src: Ipv6Addr::LOCALHOST,
            dst: Ipv6Addr::LOCALHOST,
        };
        let grh = Grh(Ipv6 {
            next_header: NEXT_HEADER_BTH,
            ..header
        });
        for network in [Network::V6(header), Network::Grh(grh)] {
            let area = network.receive_area();
            assert_eq!(Network::from_receive_area(&area), Some(network));
        }
        assert_eq!(Network::from_receive_area(&[0; LEN]), None);
    }
}
