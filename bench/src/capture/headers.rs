//! The IP and UDP headers of a captured packet: as sent, or recovered from what its ICRC says.

use core::net::{IpAddr, Ipv6Addr};

use roce_wire::checksum::Sum;
use roce_wire::ip::PROTOCOL_UDP;
use roce_wire::ipv4::{self, Ipv4};
use roce_wire::ipv6::Ipv6;
use roce_wire::udp::{self, Udp};
use roce_wire::{IPV4_DONT_FRAGMENT, IcrcSeed, IdRecovery};

use super::frames::Head;

/// Puts headers before packets.
#[derive(Debug, Default)]
pub(super) struct Headers {
    recovery: IdRecovery,
}

impl Headers {
    /// Appends a packet with its headers to `out`, from the IP header on.
    ///
    /// A socket does not show the IPv4 Identification. It is the one that makes the ICRC right; where none does,
    /// the packet was damaged and 0 is written. The UDP checksum is computed: a received one is not shown either,
    /// and the ICRC leaves it out.
    pub(super) fn append(&mut self, head: &Head, packet: &[u8], out: &mut Vec<u8>) {
        let udp_len = u16::try_from(udp::LEN + packet.len()).unwrap_or(u16::MAX);
        match (head.src, head.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let (id, flags) = head.ipv4.unwrap_or_else(|| self.recover(head, packet));
                let header = Ipv4 {
                    tos: head.traffic_class,
                    total_len: (ipv4::LEN as u16).saturating_add(udp_len),
                    id,
                    flags,
                    ttl: head.hop_limit,
                    protocol: PROTOCOL_UDP,
                    checksum: 0,
                    src,
                    dst,
                };
                out.extend_from_slice(&header.with_checksum().to_bytes());
                let pseudo = Sum::new().bytes(&src.octets()).bytes(&dst.octets());
                append_udp(head, packet, udp_len, pseudo, out);
            }
            (src, dst) => {
                let (src, dst) = (mapped(src), mapped(dst));
                let header = Ipv6 {
                    traffic_class: head.traffic_class,
                    flow_label: head.flow_label,
                    payload_len: udp_len,
                    next_header: PROTOCOL_UDP,
                    hop_limit: head.hop_limit,
                    src,
                    dst,
                };
                out.extend_from_slice(&header.to_bytes());
                let pseudo = Sum::new().bytes(&src.octets()).bytes(&dst.octets());
                append_udp(head, packet, udp_len, pseudo, out);
            }
        }
    }

    fn recover(&mut self, head: &Head, packet: &[u8]) -> (u16, u16) {
        let seed = IcrcSeed::new(head.src, head.dst, head.src_port, head.dst_port);
        self.recovery
            .recover(&seed, packet)
            .unwrap_or((0, IPV4_DONT_FRAGMENT))
    }
}

fn append_udp(head: &Head, packet: &[u8], len: u16, pseudo: Sum, out: &mut Vec<u8>) {
    let mut header = Udp {
        src_port: head.src_port,
        dst_port: head.dst_port,
        len,
        checksum: 0,
    };
    let sum = pseudo
        .word(PROTOCOL_UDP.into())
        .word(len)
        .bytes(&header.to_bytes())
        .bytes(packet);
    // A sum of 0 would say that there is none.
    header.checksum = match sum.checksum() {
        0 => u16::MAX,
        sum => sum,
    };
    out.extend_from_slice(&header.to_bytes());
    out.extend_from_slice(packet);
}

fn mapped(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}
