use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::vec::Vec;

use super::*;
use crate::bth::Bth;
use crate::ethernet::Mac;
use crate::ids::Qpn;
use crate::ipv6;
use crate::opcode::Opcode;
use crate::psn::Psn;
use crate::template::{FrameSpec, HeaderTemplate};

const PACKET_LEN: usize = 16 + 4;

fn spec(ipv6: bool, vlan_tci: Option<u16>) -> FrameSpec {
    let [src, dst] = [1, 2].map(|host| match ipv6 {
        false => IpAddr::V4(Ipv4Addr::new(10, 7, 0, host)),
        true => IpAddr::V6(Ipv6Addr::new(0xfd07, 0, 0, 0, 0, 0, 0, host.into())),
    });
    FrameSpec {
        ethernet: Some((Mac([2; 6]), Mac([4; 6]))),
        vlan_tci,
        traffic_class: 107,
        hop_limit: 33,
        flow_label: 0xabcde,
        ..FrameSpec::between(src, dst, 0xcafe).unwrap()
    }
}

/// A SEND ONLY of four bytes in its frame.
fn frame_bytes(spec: &FrameSpec) -> Vec<u8> {
    let template = HeaderTemplate::new(spec);
    let mut bytes = std::vec![0; template.len() + PACKET_LEN];
    template.stamp(&mut bytes, PACKET_LEN, 0x1234);
    let packet = &mut bytes[template.len()..];
    packet[..12]
        .copy_from_slice(&Bth::new(Opcode::RC_SEND_ONLY, Qpn::new(5), Psn::new(9)).to_bytes());
    packet[12..16].copy_from_slice(&[1, 2, 3, 4]);
    let seed = IcrcSeed::new(
        spec.addresses.src(),
        spec.addresses.dst(),
        spec.src_port,
        4791,
    );
    seed.seal(0x1234, 0x4000, packet);
    bytes
}

#[test]
fn a_frame_gives_back_what_its_template_was_told() {
    for ipv6 in [false, true] {
        for vlan_tci in [None, Some(0x6064)] {
            let spec = spec(ipv6, vlan_tci);
            let bytes = frame_bytes(&spec);
            let frame = Frame::parse(&bytes).unwrap();
            assert_eq!(frame.addresses(), spec.addresses);
            assert_eq!(frame.src_port(), 0xcafe);
            assert_eq!((frame.traffic_class(), frame.ecn()), (107, Ecn::Ce));
            assert_eq!(frame.hop_limit(), 33);
            assert_eq!(frame.vlan().map(|tag| tag.tci), vlan_tci);
            assert_eq!(frame.ipv4_id(), (!ipv6).then_some((0x1234, 0x4000)));
            assert_eq!(frame.ethernet.map(|header| header.src), Some(Mac([2; 6])));
            assert_eq!(frame.packet.len(), PACKET_LEN);
            assert_eq!(frame.check_icrc(), IcrcCheck::Good);
            let from_ip = Frame::parse_ip(&bytes[14 + if vlan_tci.is_some() { 4 } else { 0 }..]);
            assert_eq!(
                from_ip,
                Ok(Frame {
                    ethernet: None,
                    tags: [None; MAX_TAGS],
                    ..frame
                })
            );
        }
    }
}

#[test]
fn ethernet_padding_is_cut_off() {
    let mut bytes = frame_bytes(&spec(false, None));
    bytes.extend([0; 9]);
    let frame = Frame::parse(&bytes).unwrap();
    assert_eq!(frame.packet.len(), PACKET_LEN);
    assert_eq!(frame.check_icrc(), IcrcCheck::Good);
}

#[test]
fn a_cut_capture_is_no_bad_icrc() {
    for ipv6 in [false, true] {
        let bytes = frame_bytes(&spec(ipv6, Some(7)));
        let headers = bytes.len() - PACKET_LEN;
        for len in 0..bytes.len() {
            match Frame::parse(&bytes[..len]) {
                Ok(frame) => {
                    assert!(len >= headers);
                    assert_eq!(frame.missing, bytes.len() - len);
                    assert_eq!(frame.check_icrc(), IcrcCheck::Truncated);
                }
                Err(NotRoce::Truncated(_)) => assert!(len < headers),
                Err(other) => panic!("{other} at {len}"),
            }
        }
    }
}

#[test]
fn what_is_not_roce_has_a_reason() {
    let good = frame_bytes(&spec(false, None));
    let changed = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        Frame::parse(&bytes).err()
    };
    assert_eq!(
        changed(13, 0x06),
        Some(NotRoce::EtherType(EtherType(0x0806)))
    );
    assert_eq!(changed(14, 0x46), Some(NotRoce::Ipv4Options));
    assert_eq!(changed(14, 0x44), Some(NotRoce::Lengths));
    assert_eq!(changed(14, 0x65), Some(NotRoce::Version(6)));
    assert_eq!(changed(17, 19), Some(NotRoce::Lengths));
    assert_eq!(changed(20, 0x20), Some(NotRoce::Fragment));
    assert_eq!(changed(21, 1), Some(NotRoce::Fragment));
    assert_eq!(changed(23, 6), Some(NotRoce::Protocol(6)));
    assert_eq!(changed(37, 0xb6), Some(NotRoce::UdpPort(4790)));
    assert_eq!(changed(39, 27), Some(NotRoce::Lengths));
    assert_eq!(
        changed(25, 0),
        None,
        "the header's checksum is the kernel's business"
    );
    let v6 = frame_bytes(&spec(true, None));
    assert_eq!(Frame::parse_ip(&v6[14..]).map(|frame| frame.missing), Ok(0));
    assert_eq!(Frame::parse_ip(&[0x55]), Err(NotRoce::Version(5)));
    assert_eq!(Frame::parse_ip(&[]), Err(NotRoce::Truncated(Part::Ipv4)));
}

#[test]
fn two_tags_are_read_and_three_refused() {
    let plain = frame_bytes(&spec(false, Some(100)));
    let mut bytes = plain[..12].to_vec();
    bytes.extend([0x88, 0xa8, 0x00, 0xc8]);
    bytes.extend(&plain[12..]);
    let frame = Frame::parse(&bytes).unwrap();
    assert_eq!(
        frame.tags.map(|tag| tag.map(VlanTag::id)),
        [Some(200), Some(100)]
    );
    assert_eq!(frame.vlan().map(VlanTag::id), Some(100));
    let mut deep = plain[..12].to_vec();
    deep.extend([0x91, 0x00, 0x00, 0x01, 0x88, 0xa8, 0x00, 0xc8]);
    deep.extend(&plain[12..]);
    assert_eq!(Frame::parse(&deep), Err(NotRoce::TooManyTags));
}

#[test]
fn version_one_has_a_grh_instead_of_ip_and_udp() {
    let grh = Ipv6 {
        traffic_class: 0,
        flow_label: 0,
        payload_len: PACKET_LEN as u16,
        next_header: grh::NEXT_HEADER_BTH,
        hop_limit: 1,
        src: Ipv6Addr::LOCALHOST,
        dst: Ipv6Addr::LOCALHOST,
    }
    .to_bytes();
    let mut bytes = [[2; 6], [4; 6]].concat();
    bytes.extend([0x89, 0x15]);
    bytes.extend(grh);
    let v4 = frame_bytes(&spec(false, None));
    bytes.extend(&v4[v4.len() - PACKET_LEN..]);
    assert_eq!(bytes.len(), 14 + ipv6::LEN + PACKET_LEN);
    let frame = Frame::parse(&bytes).unwrap();
    assert_eq!(frame.udp, None);
    assert_eq!(frame.icrc_seed(), None);
    assert_eq!(
        frame.check_icrc(),
        IcrcCheck::Bad,
        "its ICRC is the one of IPv4"
    );
    let icrc = crate::icrc_v1(&grh, frame.packet).unwrap();
    let end = bytes.len() - 4;
    bytes[end..].copy_from_slice(&icrc.to_le_bytes());
    assert_eq!(Frame::parse(&bytes).unwrap().check_icrc(), IcrcCheck::Good);
    bytes[14 + 6] = 17;
    assert_eq!(Frame::parse(&bytes), Err(NotRoce::Protocol(17)));
}
