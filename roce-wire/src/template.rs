//! A flow's outer headers, built once and stamped in front of each packet.

use core::net::IpAddr;

use crate::checksum::Sum;
use crate::cursor::Writer;
use crate::ethernet::{EtherType, Ethernet, Mac, VlanTag};
use crate::icrc::IPV4_DONT_FRAGMENT;
use crate::ip::{AddressPair, PROTOCOL_UDP};
use crate::ipv4::{self, Ipv4};
use crate::ipv6::{self, Ipv6};
use crate::udp::{self, Udp};

/// What the outer headers of a flow say.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FrameSpec {
    /// Source and destination MAC, or nothing to start at IP.
    pub ethernet: Option<(Mac, Mac)>,
    /// Priority and VLAN of an 802.1Q tag; needs `ethernet`.
    pub vlan_tci: Option<u16>,
    /// Source and destination address.
    pub addresses: AddressPair,
    /// The UDP source port.
    pub src_port: u16,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// The flow label, 20 bits; ignored over IPv4.
    pub flow_label: u32,
}

/// The longest outer headers: Ethernet, one tag, IPv6 and UDP.
pub const MAX_OUTER: usize = Ethernet::LEN + VlanTag::LEN + ipv6::LEN + udp::LEN;

/// The outer headers of a flow, with the places known that change per packet.
///
/// UDP checksums are left out, over IPv6 too, as all RoCE senders do.
#[derive(Clone, Copy, Debug)]
pub struct HeaderTemplate {
    bytes: [u8; MAX_OUTER],
    len: u8,
    /// Where the network header starts.
    network_at: u8,
    /// The sum of the IPv4 header with length, Identification and checksum 0; nothing over IPv6.
    ipv4_sum: Option<Sum>,
}

#[expect(clippy::len_without_is_empty, reason = "there are always IP and UDP")]
impl HeaderTemplate {
    /// Builds the headers of a flow.
    pub fn new(spec: &FrameSpec) -> Self {
        let mut bytes = [0; MAX_OUTER];
        let mut writer = Writer::new(&mut bytes);
        let inner = match spec.addresses {
            AddressPair::V4 { .. } => EtherType::IPV4,
            AddressPair::V6 { .. } => EtherType::IPV6,
        };
        if let Some((src, dst)) = spec.ethernet {
            let ether_type = spec.vlan_tci.map_or(inner, |_| EtherType::VLAN);
            let header = Ethernet {
                dst,
                src,
                ether_type,
            };
            writer.put(&header.to_bytes());
            if let Some(tci) = spec.vlan_tci {
                let ether_type = inner;
                writer.put(&VlanTag { tci, ether_type }.to_bytes());
            }
        }
        let network_at = MAX_OUTER - writer.room();
        let ipv4_sum = put_network(spec, &mut writer);
        let udp = Udp {
            src_port: spec.src_port,
            dst_port: udp::ROCE_PORT,
            len: 0,
            checksum: 0,
        };
        writer.put(&udp.to_bytes());
        let len = MAX_OUTER - writer.room();
        Self {
            bytes,
            len: len as u8,
            network_at: network_at as u8,
            ipv4_sum,
        }
    }

    /// Returns the bytes of the outer headers.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Writes the outer headers of a packet of `packet_len` bytes (BTH to ICRC).
    ///
    /// `ipv4_id` must be what the packet's ICRC was sealed with, with DF and no other flag.
    ///
    /// # Panics
    ///
    /// `out` is shorter than `len()`, or the packet longer than IP can carry.
    pub fn stamp(&self, out: &mut [u8], packet_len: usize, ipv4_id: u16) {
        let network_at = usize::from(self.network_at);
        let mut header = self.bytes;
        let (_, network) = header[..self.len()].split_at_mut(network_at);
        let ip_len = (network.len() + packet_len) as u32;
        assert!(
            ip_len <= MAX_IP_LEN,
            "a packet of {packet_len} bytes is too long for IP"
        );
        let udp_at = network.len() - udp::LEN;
        let udp_len = ip_len - udp_at as u32;
        match self.ipv4_sum {
            Some(sum) => {
                let total_len = ip_len as u16;
                let checksum = sum.word(total_len).word(ipv4_id).checksum();
                network[2..4].copy_from_slice(&total_len.to_be_bytes());
                network[4..6].copy_from_slice(&ipv4_id.to_be_bytes());
                network[10..12].copy_from_slice(&checksum.to_be_bytes());
            }
            None => network[4..6].copy_from_slice(&(udp_len as u16).to_be_bytes()),
        }
        network[udp_at + 4..udp_at + 6].copy_from_slice(&(udp_len as u16).to_be_bytes());
        Writer::new(out).put(&header[..self.len()]);
    }
}

/// What the length field of IPv4 can say.
const MAX_IP_LEN: u32 = u16::MAX as u32;

fn put_network(spec: &FrameSpec, writer: &mut Writer<'_>) -> Option<Sum> {
    match spec.addresses {
        AddressPair::V4 { src, dst } => {
            let header = Ipv4 {
                tos: spec.traffic_class,
                total_len: 0,
                id: 0,
                flags: IPV4_DONT_FRAGMENT,
                ttl: spec.hop_limit,
                protocol: PROTOCOL_UDP,
                checksum: 0,
                src,
                dst,
            };
            let bytes: [u8; ipv4::LEN] = header.to_bytes();
            writer.put(&bytes);
            Some(Sum::new().bytes(&bytes))
        }
        AddressPair::V6 { src, dst } => {
            let header = Ipv6 {
                traffic_class: spec.traffic_class,
                flow_label: spec.flow_label,
                payload_len: 0,
                next_header: PROTOCOL_UDP,
                hop_limit: spec.hop_limit,
                src,
                dst,
            };
            writer.put(&header.to_bytes());
            None
        }
    }
}

impl FrameSpec {
    /// Describes a flow between two addresses of one family, with nothing else asked for.
    ///
    /// Returns nothing for addresses of two families.
    pub const fn between(src: IpAddr, dst: IpAddr, src_port: u16) -> Option<Self> {
        match AddressPair::new(src, dst) {
            Some(addresses) => Some(Self {
                ethernet: None,
                vlan_tci: None,
                addresses,
                src_port,
                traffic_class: 0,
                hop_limit: 64,
                flow_label: 0,
            }),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests;
