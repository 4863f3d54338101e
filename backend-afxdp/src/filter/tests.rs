use core::net::IpAddr;

use roce_wire::{
    AddressPair, Bth, Ext, FrameSpec, HeaderTemplate, Headers, IPV4_DONT_FRAGMENT, IcrcSeed,
    Opcode, Psn, Qpn, ROCE_PORT,
};

use super::*;

const OWN_MAC: Mac = Mac([2, 0, 0, 0, 0, 2]);

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn filter() -> Filter {
    let own = [
        Own::new(ip("10.0.0.2"), None),
        Own::new(ip("fd00::2"), None),
        Own::new(ip("10.9.0.2"), Some(100)),
    ];
    Filter::new(OWN_MAC, &own, false)
}

/// Packets one after the other, each sealed with the Identification of its place.
fn packets(src: IpAddr, dst: IpAddr, payloads: &[usize]) -> Vec<u8> {
    let seed = IcrcSeed::new(src, dst, 0xc000, ROCE_PORT);
    let mut all = Vec::new();
    for (number, payload) in payloads.iter().enumerate() {
        let headers = Headers {
            bth: Bth::new(Opcode::RC_SEND_ONLY, Qpn::new(9), Psn::new(number as u32)),
            ext: Ext::NONE,
        };
        let mut packet = vec![0; headers.packet_len(*payload)];
        headers.frame(&mut packet, *payload).fill(number as u8);
        seed.seal(number as u16, IPV4_DONT_FRAGMENT, &mut packet);
        all.extend(packet);
    }
    all
}

fn frame(src: &str, dst: &str, vlan_tci: Option<u16>, payloads: &[usize]) -> Vec<u8> {
    let (src, dst) = (ip(src), ip(dst));
    let packet = packets(src, dst, payloads);
    let template = HeaderTemplate::new(&FrameSpec {
        ethernet: Some((Mac([2, 0, 0, 0, 0, 1]), OWN_MAC)),
        vlan_tci,
        addresses: AddressPair::new(src, dst).unwrap(),
        src_port: 0xc000,
        traffic_class: 0x6a,
        hop_limit: 63,
        flow_label: 0,
    });
    let mut frame = vec![0; template.len()];
    template.stamp(&mut frame, packet.len(), 0);
    frame.extend(packet);
    frame
}

/// Sets the UDP checksum of an untagged frame, as a kernel that leaves the rest to its device does.
fn by_a_kernel(mut frame: Vec<u8>) -> Vec<u8> {
    let at = if frame[12] == 0x86 { 14 + 46 } else { 14 + 26 };
    frame[at] = 0x12;
    frame
}

fn taken(filter: &mut Filter, frame: &[u8]) -> Vec<(RxMeta, Vec<u8>)> {
    let mut all = Vec::new();
    filter.frame(frame, &mut |meta, packet| {
        all.push((*meta, packet.to_vec()))
    });
    all
}

#[test]
fn a_packet_comes_with_what_its_headers_say() {
    let mut filter = filter();
    let all = taken(&mut filter, &frame("10.0.0.1", "10.0.0.2", None, &[100]));
    let [(meta, packet)] = all.as_slice() else {
        panic!("{all:?}")
    };
    assert_eq!((meta.remote, meta.local), (ip("10.0.0.1"), ip("10.0.0.2")));
    assert_eq!(
        (meta.source_port, meta.traffic_class, meta.hop_limit),
        (0xc000, 0x6a, 63)
    );
    let flags = IPV4_DONT_FRAGMENT;
    assert_eq!(meta.ipv4_id, Ipv4Id::Known { id: 0, flags });
    assert_eq!(packet, &packets(meta.remote, meta.local, &[100]));
    assert_eq!(
        taken(&mut filter, &frame("fd00::1", "fd00::2", None, &[7])).len(),
        1
    );
    assert_eq!(
        taken(&mut filter, &frame("10.9.0.1", "10.9.0.2", Some(100), &[7])).len(),
        1
    );
    assert_eq!(
        taken(
            &mut filter,
            &frame("10.0.0.1", "10.0.0.2", Some(0xe000), &[7])
        )
        .len(),
        1
    );
}

#[test]
fn each_foreign_or_broken_frame_is_counted() {
    let good = || frame("10.0.0.1", "10.0.0.2", None, &[100]);
    let changed = |at: usize, value: u8| {
        let mut frame = good();
        frame[at] = value;
        frame
    };
    let mut too_short = frame("10.0.0.1", "10.0.0.2", None, &[]);
    let udp = [0, 8];
    too_short[38..40].copy_from_slice(&udp);
    type Counter = fn(&Drops) -> u64;
    let cases: [(&str, Vec<u8>, Counter); 9] = [
        ("another MAC", changed(5, 9), |d| d.other_mac),
        (
            "another address",
            frame("10.0.0.1", "10.0.0.3", None, &[9]),
            |d| d.other_address,
        ),
        (
            "another VLAN",
            frame("10.0.0.1", "10.0.0.2", Some(7), &[9]),
            |d| d.other_vlan,
        ),
        (
            "an address of another VLAN",
            frame("10.0.0.1", "10.0.0.2", Some(100), &[9]),
            |d| d.other_address,
        ),
        ("a wrong header checksum", changed(24, 0xff), |d| {
            d.ip_checksum
        }),
        ("a cut frame", good()[..100].to_vec(), |d| d.truncated),
        ("options", changed(14, 0x46), |d| d.ip_options),
        ("another port", changed(36, 0), |d| d.not_roce),
        ("no packet", too_short, |d| d.too_short),
    ];
    for (what, frame, counter) in cases {
        let mut filter = filter();
        assert!(taken(&mut filter, &frame).is_empty(), "{what}");
        assert_eq!(counter(&filter.drops), 1, "{what}: {:?}", filter.drops);
        assert_eq!(filter.packets, 0, "{what}");
    }
}

#[test]
fn a_batch_of_a_kernel_is_cut_where_the_icrcs_say() {
    for (src, dst) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
        let mut filter = filter();
        for payloads in [&[4096; 15][..], &[64, 64, 8], &[1000, 1000], &[0, 0, 0]] {
            let all = taken(&mut filter, &by_a_kernel(frame(src, dst, None, payloads)));
            assert_eq!(all.len(), payloads.len(), "{payloads:?}");
            for (number, (meta, packet)) in all.iter().enumerate() {
                let (id, flags) = match meta.ipv4_id {
                    Ipv4Id::Known { id, flags } => (id, flags),
                    Ipv4Id::Unknown => (0, 0),
                };
                let seed = IcrcSeed::new(ip(src), ip(dst), 0xc000, ROCE_PORT);
                assert!(
                    seed.verify(id, flags, packet),
                    "packet {number} of {payloads:?}"
                );
            }
        }
        assert_eq!(filter.batches, 4);
    }
}

#[test]
fn nonsense_of_any_length_is_handed_on_or_counted_and_searched_for_a_while_only() {
    let mut filter = filter();
    for round in 0..200 {
        let mut whole = by_a_kernel(frame("10.0.0.1", "10.0.0.2", None, &[4096]));
        whole[70] ^= 1 + round;
        assert_eq!(taken(&mut filter, &whole).len(), 1, "the engine counts it");
        let mut batch = by_a_kernel(frame("10.0.0.1", "10.0.0.2", None, &[4096, 4096]));
        batch[70] ^= 1 + round;
        assert!(taken(&mut filter, &batch).is_empty());
    }
    assert_eq!(filter.drops.too_long, 200);
    // What its opcode suggests is still found, and then all of it.
    assert_eq!(
        taken(
            &mut filter,
            &by_a_kernel(frame("10.0.0.1", "10.0.0.2", None, &[1024; 9]))
        )
        .len(),
        9
    );
    assert_eq!(
        taken(
            &mut filter,
            &by_a_kernel(frame("10.0.0.1", "10.0.0.2", None, &[40; 9]))
        )
        .len(),
        9
    );
}

#[test]
fn an_interface_that_takes_tags_off_leaves_the_address_to_tell_the_vlan() {
    let untagged = frame("10.9.0.1", "10.9.0.2", None, &[100]);
    let other = frame("10.9.0.1", "10.9.0.3", None, &[100]);
    let elsewhere = frame("10.9.0.1", "10.9.0.2", Some(7), &[100]);
    let mut strict = filter();
    assert_eq!(taken(&mut strict, &untagged).len(), 0);
    let mut filter = filter();
    filter.strips_tags = true;
    assert_eq!(taken(&mut filter, &untagged).len(), 1);
    assert_eq!(taken(&mut filter, &other).len(), 0);
    // A tag that is still there counts.
    assert_eq!(taken(&mut filter, &elsewhere).len(), 0);
    assert_eq!(
        (filter.drops.other_address, filter.drops.other_vlan),
        (1, 1)
    );
}
