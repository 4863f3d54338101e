//! A frame as a capture or a packet socket has it, walked once down to the BTH.

use core::fmt;

use crate::cursor::Reader;
use crate::error::Part;
use crate::ethernet::{EtherType, Ethernet, VlanTag};
use crate::grh::{self, Grh, Network};
use crate::icrc::{IcrcSeed, verify_v1};
use crate::ip::{AddressPair, Ecn, PROTOCOL_UDP};
use crate::ipv4::{self, Ipv4};
use crate::ipv6::Ipv6;
use crate::udp::{self, Udp};

/// The most VLAN tags of a frame.
pub const MAX_TAGS: usize = 2;

/// The headers around a RoCE packet and the packet's bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Frame<'a> {
    /// The Ethernet header, unless the capture starts at IP.
    pub ethernet: Option<Ethernet>,
    /// The tags, outermost first.
    pub tags: [Option<VlanTag>; MAX_TAGS],
    /// IPv4, IPv6 or GRH.
    pub network: Network,
    /// The UDP header; none in RoCEv1.
    pub udp: Option<Udp>,
    /// BTH to ICRC, without Ethernet padding; fewer bytes if the capture has cut them.
    pub packet: &'a [u8],
    /// The bytes at the packet's end that the capture hasn't kept.
    pub missing: usize,
}

/// Why a frame is not a RoCE packet that can be looked at.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum NotRoce {
    /// The frame ends inside of a header.
    Truncated(Part),
    /// The frame carries something else: ARP, LLDP, …
    EtherType(EtherType),
    /// The frame has more tags than [`MAX_TAGS`].
    TooManyTags,
    /// The network header's version is not the one that was announced.
    Version(u8),
    /// The IPv4 header has options, with which no ICRC is defined.
    Ipv4Options,
    /// The packet is a fragment, and RoCE never fragments.
    Fragment,
    /// The network header carries something else: TCP, an IPv6 extension header, …
    Protocol(u8),
    /// The datagram goes to another port.
    UdpPort(u16),
    /// The lengths of network header and UDP contradict each other.
    Lengths,
}

/// What is known of a packet's ICRC.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum IcrcCheck {
    /// Right.
    Good,
    /// Wrong.
    Bad,
    /// The capture hasn't kept the whole packet.
    Truncated,
}

impl<'a> Frame<'a> {
    /// Walks a frame that starts with its Ethernet header.
    ///
    /// # Errors
    ///
    /// The frame isn't RoCE, or not enough of it is there to tell.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, NotRoce> {
        let mut reader = Reader::new(bytes);
        let ethernet = Ethernet::from_bytes(take(&mut reader, Part::Ethernet)?);
        let mut tags = [None; MAX_TAGS];
        let mut ether_type = ethernet.ether_type;
        for slot in &mut tags {
            if ether_type.is_tag() {
                let tag = VlanTag::from_bytes(take(&mut reader, Part::VlanTag)?);
                ether_type = tag.ether_type;
                *slot = Some(tag);
            }
        }
        let frame = match ether_type {
            EtherType::IPV4 => Self::ipv4(reader),
            EtherType::IPV6 => Self::ipv6(reader),
            EtherType::ROCE_V1 => Self::grh(reader),
            tag if tag.is_tag() => Err(NotRoce::TooManyTags),
            other => Err(NotRoce::EtherType(other)),
        }?;
        Ok(Self {
            ethernet: Some(ethernet),
            tags,
            ..frame
        })
    }

    /// Walks a packet that starts with its IP header, as raw captures have them.
    ///
    /// # Errors
    ///
    /// As `parse`.
    pub fn parse_ip(bytes: &'a [u8]) -> Result<Self, NotRoce> {
        let reader = Reader::new(bytes);
        match bytes.first().map(|byte| byte >> 4) {
            Some(4) => Self::ipv4(reader),
            Some(6) => Self::ipv6(reader),
            Some(version) => Err(NotRoce::Version(version)),
            None => Err(NotRoce::Truncated(Part::Ipv4)),
        }
    }

    fn ipv4(mut reader: Reader<'a>) -> Result<Self, NotRoce> {
        let header = take::<{ ipv4::LEN }>(&mut reader, Part::Ipv4)?;
        match header[0] {
            ipv4::VERSION_AND_LENGTH => {}
            0x46..=0x4f => return Err(NotRoce::Ipv4Options),
            0x40..=0x44 => return Err(NotRoce::Lengths),
            other => return Err(NotRoce::Version(other >> 4)),
        }
        let header = Ipv4::from_bytes(header);
        if header.is_fragment() {
            return Err(NotRoce::Fragment);
        }
        let len = usize::from(header.total_len)
            .checked_sub(ipv4::LEN)
            .ok_or(NotRoce::Lengths)?;
        Self::udp(reader, Network::V4(header), header.protocol, len)
    }

    fn ipv6(mut reader: Reader<'a>) -> Result<Self, NotRoce> {
        let header = ipv6_header(&mut reader, Part::Ipv6)?;
        let len = usize::from(header.payload_len);
        Self::udp(reader, Network::V6(header), header.next_header, len)
    }

    fn grh(mut reader: Reader<'a>) -> Result<Self, NotRoce> {
        let header = ipv6_header(&mut reader, Part::Grh)?;
        if header.next_header != grh::NEXT_HEADER_BTH {
            return Err(NotRoce::Protocol(header.next_header));
        }
        let len = usize::from(header.payload_len);
        Ok(Self::new(reader, Network::Grh(Grh(header)), None, len))
    }

    fn udp(
        mut reader: Reader<'a>,
        network: Network,
        protocol: u8,
        len: usize,
    ) -> Result<Self, NotRoce> {
        if protocol != PROTOCOL_UDP {
            return Err(NotRoce::Protocol(protocol));
        }
        let udp = Udp::from_bytes(take(&mut reader, Part::Udp)?);
        if udp.dst_port != udp::ROCE_PORT {
            return Err(NotRoce::UdpPort(udp.dst_port));
        }
        if usize::from(udp.len) != len {
            return Err(NotRoce::Lengths);
        }
        let len = len.checked_sub(udp::LEN).ok_or(NotRoce::Lengths)?;
        Ok(Self::new(reader, network, Some(udp), len))
    }

    /// Cuts what follows the headers to the packet's length.
    fn new(mut reader: Reader<'a>, network: Network, udp: Option<Udp>, len: usize) -> Self {
        let missing = len.saturating_sub(reader.rest().len());
        reader.cut(len - missing);
        Self {
            ethernet: None,
            tags: [None; MAX_TAGS],
            network,
            udp,
            packet: reader.rest(),
            missing,
        }
    }

    /// Returns source and destination, GIDs in RoCEv1.
    pub const fn addresses(&self) -> AddressPair {
        match self.network {
            Network::V4(Ipv4 { src, dst, .. }) => AddressPair::V4 { src, dst },
            Network::V6(Ipv6 { src, dst, .. }) | Network::Grh(Grh(Ipv6 { src, dst, .. })) => {
                AddressPair::V6 { src, dst }
            }
        }
    }

    /// Returns the UDP source port, or 0 in RoCEv1.
    pub fn src_port(&self) -> u16 {
        self.udp.map_or(0, |udp| udp.src_port)
    }

    /// Returns TOS or traffic class.
    pub const fn traffic_class(&self) -> u8 {
        self.network.traffic_class()
    }

    /// Returns what routers say about congestion.
    pub const fn ecn(&self) -> Ecn {
        Ecn::of(self.traffic_class())
    }

    /// Returns TTL or hop limit.
    pub const fn hop_limit(&self) -> u8 {
        self.network.hop_limit()
    }

    /// Returns Identification and flags word; nothing over IPv6.
    pub const fn ipv4_id(&self) -> Option<(u16, u16)> {
        match self.network {
            Network::V4(header) => Some((header.id, header.flags)),
            Network::V6(_) | Network::Grh(_) => None,
        }
    }

    /// Returns the innermost VLAN.
    pub fn vlan(&self) -> Option<VlanTag> {
        self.tags.iter().rev().find_map(|tag| *tag)
    }

    /// Returns what the ICRC of this flow's packets starts from; nothing in RoCEv1.
    pub fn icrc_seed(&self) -> Option<IcrcSeed> {
        let udp = self.udp?;
        let addresses = self.addresses();
        Some(IcrcSeed::new(
            addresses.src(),
            addresses.dst(),
            udp.src_port,
            udp.dst_port,
        ))
    }

    /// Checks the ICRC of the packet. A caller with many frames of one flow keeps the seed instead.
    pub fn check_icrc(&self) -> IcrcCheck {
        if self.missing != 0 {
            return IcrcCheck::Truncated;
        }
        let good = match (self.network, self.icrc_seed()) {
            (Network::Grh(Grh(header)), _) => verify_v1(&header.to_bytes(), self.packet),
            (_, Some(seed)) => {
                let (id, flags) = self.ipv4_id().unwrap_or((0, 0));
                seed.verify(id, flags, self.packet)
            }
            (_, None) => false,
        };
        if good {
            IcrcCheck::Good
        } else {
            IcrcCheck::Bad
        }
    }
}

fn take<'a, const N: usize>(reader: &mut Reader<'a>, part: Part) -> Result<&'a [u8; N], NotRoce> {
    reader.array(part).map_err(|_| NotRoce::Truncated(part))
}

fn ipv6_header(reader: &mut Reader<'_>, part: Part) -> Result<Ipv6, NotRoce> {
    let header = take(reader, part)?;
    match header[0] >> 4 {
        6 => Ok(Ipv6::from_bytes(header)),
        version => Err(NotRoce::Version(version)),
    }
}

impl fmt::Display for NotRoce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated(part) => write!(f, "truncated {part}"),
            Self::EtherType(other) => write!(f, "EtherType {other:?}"),
            Self::TooManyTags => write!(f, "more than {MAX_TAGS} VLAN tags"),
            Self::Version(version) => write!(f, "IP version {version}"),
            Self::Ipv4Options => f.write_str("IPv4 options"),
            Self::Fragment => f.write_str("IPv4 fragment"),
            Self::Protocol(protocol) => write!(f, "IP protocol {protocol}"),
            Self::UdpPort(port) => write!(f, "UDP port {port}"),
            Self::Lengths => f.write_str("IP and UDP lengths that contradict each other"),
        }
    }
}

impl core::error::Error for NotRoce {}

#[cfg(test)]
mod tests;
