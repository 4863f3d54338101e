use core::net::{Ipv4Addr, Ipv6Addr};

use super::*;

fn spec(addresses: AddressPair) -> FrameSpec {
    FrameSpec {
        ethernet: Some((Mac([0x52, 0x54, 0, 7, 0, 1]), Mac([0x52, 0x54, 0, 7, 0, 2]))),
        vlan_tci: None,
        addresses,
        src_port: 0xc0de,
        traffic_class: 104,
        hop_limit: 64,
        flow_label: 0x12345,
    }
}

fn v4() -> AddressPair {
    AddressPair::V4 {
        src: Ipv4Addr::new(10, 7, 0, 1),
        dst: Ipv4Addr::new(10, 7, 0, 2),
    }
}

#[test]
fn stamping_writes_exactly_the_outer_headers() {
    let v6 = AddressPair::V6 {
        src: Ipv6Addr::LOCALHOST,
        dst: Ipv6Addr::UNSPECIFIED,
    };
    for (addresses, vlan_tci, len) in [
        (v4(), None, 42),
        (v4(), Some(5), 46),
        (v6, None, 62),
        (v6, Some(5), MAX_OUTER),
    ] {
        let template = HeaderTemplate::new(&FrameSpec {
            vlan_tci,
            ..spec(addresses)
        });
        assert_eq!(template.len(), len);
        let mut out = [0xa5; 100];
        template.stamp(&mut out, 16, 1);
        assert!(out[len..].iter().all(|byte| *byte == 0xa5));
    }
}

#[test]
fn without_ethernet_the_headers_start_at_ip() {
    let template = HeaderTemplate::new(&FrameSpec {
        ethernet: None,
        vlan_tci: Some(5),
        ..spec(v4())
    });
    let mut out = [0; 28];
    template.stamp(&mut out, 16, 1);
    assert_eq!(out[..4], [0x45, 104, 0, 44]);
}

#[test]
fn ipv4_checksums_are_right_for_every_identification() {
    let template = HeaderTemplate::new(&spec(v4()));
    let mut out = [0; 42];
    for id in 0..=u16::MAX {
        template.stamp(&mut out, usize::from(id) % 5000, id);
        assert_eq!(Sum::new().bytes(&out[14..34]).checksum(), 0);
    }
}

#[test]
#[should_panic(expected = "too long for IP")]
fn a_packet_must_fit_the_length_field() {
    HeaderTemplate::new(&spec(v4())).stamp(&mut [0; 42], 65_508, 0);
}
