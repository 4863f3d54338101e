//! Frames of the kernel's rxe and of another frame library, and bytes of no one.

#![allow(
    clippy::unwrap_used,
    reason = "a fixture that is wrong should fail its test"
)]

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use roce_wire::{
    AddressPair, Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Ext, Feth, Frame, FrameSpec, HeaderSet,
    HeaderTemplate, Headers, ICRC_LEN, IPV4_DONT_FRAGMENT, IcrcCheck, Mac, Msn, Network, NotRoce,
    Opcode, OpcodeInfo, Operation, Packet, ParseError, Psn, QKey, Qpn, RKey, ROCE_PORT, Reth,
    Syndrome,
};

/// A frame from Ethernet on, and its facts.
struct Golden {
    source: String,
    opcode: String,
    dest_qpn: Qpn,
    psn: Psn,
    ack_request: bool,
    pad: u8,
    payload_len: usize,
    aeth: Option<Aeth>,
    icrc_good: bool,
    bytes: Vec<u8>,
}

fn golden() -> Vec<Golden> {
    let frames: Vec<_> = include_str!("vectors/golden.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(read)
        .collect();
    assert!(frames.len() > 30);
    frames
}

fn read(line: &str) -> Golden {
    let fields: Vec<_> = line.split(' ').collect();
    let [
        capture,
        frame,
        opcode,
        qpn,
        psn,
        ack,
        pad,
        len,
        syndrome,
        msn,
        good,
        hex,
    ] = fields[..]
    else {
        panic!("{line} has not twelve fields");
    };
    Golden {
        source: format!("{capture}, frame {frame}"),
        opcode: opcode.to_owned(),
        dest_qpn: Qpn::new(prefixed_hex(qpn)),
        psn: Psn::new(prefixed_hex(psn)),
        ack_request: ack == "1",
        pad: pad.parse().unwrap(),
        payload_len: len.parse().unwrap(),
        aeth: (syndrome != "-").then(|| Aeth {
            syndrome: Syndrome::from_raw(prefixed_hex(syndrome) as u8),
            msn: Msn::new(msn.parse().unwrap()),
        }),
        icrc_good: good == "1",
        bytes: (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
            .collect(),
    }
}

fn prefixed_hex(field: &str) -> u32 {
    u32::from_str_radix(field.strip_prefix("0x").unwrap(), 16).unwrap()
}

#[test]
fn golden_frames_say_what_they_are() {
    for golden in golden() {
        let source = &golden.source;
        let frame = Frame::parse(&golden.bytes).unwrap();
        let packet = Packet::parse(frame.packet).unwrap();
        assert_eq!(packet.bth.opcode.to_string(), golden.opcode, "{source}");
        assert_eq!(packet.bth.dest_qpn, golden.dest_qpn, "{source}");
        assert_eq!(packet.bth.psn, golden.psn, "{source}");
        assert_eq!(packet.bth.ack_request, golden.ack_request, "{source}");
        assert_eq!(packet.bth.pad, golden.pad, "{source}");
        assert_eq!(packet.payload.len(), golden.payload_len, "{source}");
        assert_eq!(packet.ext.aeth, golden.aeth, "{source}");
        let expected = if golden.icrc_good {
            IcrcCheck::Good
        } else {
            IcrcCheck::Bad
        };
        assert_eq!(frame.check_icrc(), expected, "{source}");
    }
}

#[test]
fn golden_frames_are_written_again_byte_by_byte() {
    for golden in golden() {
        let frame = Frame::parse(&golden.bytes).unwrap();
        let packet = Packet::parse(frame.packet).unwrap();
        let ethernet = frame.ethernet.unwrap();
        let template = HeaderTemplate::new(&FrameSpec {
            ethernet: Some((ethernet.src, ethernet.dst)),
            vlan_tci: frame.vlan().map(|tag| tag.tci),
            addresses: frame.addresses(),
            src_port: frame.src_port(),
            traffic_class: frame.traffic_class(),
            hop_limit: frame.hop_limit(),
            flow_label: match frame.network {
                Network::V6(header) => header.flow_label,
                Network::V4(_) | Network::Grh(_) => 0,
            },
        });
        let mut out = vec![0xa5; golden.bytes.len()];
        let (id, _) = frame.ipv4_id().unwrap_or((0, 0));
        template.stamp(&mut out, packet.len(), id);
        packet.emit_into(&mut out[template.len()..]);
        assert_eq!(out, golden.bytes, "{}", golden.source);
        if golden.icrc_good {
            let seed = frame.icrc_seed().unwrap();
            let built = &mut out[template.len()..];
            let payload_len = packet.payload.len();
            built.fill(0xa5);
            packet
                .headers()
                .frame(built, payload_len)
                .copy_from_slice(packet.payload);
            seed.seal(id, IPV4_DONT_FRAGMENT, built);
            assert_eq!(built, frame.packet, "{}", golden.source);
            let recovered = frame.ipv4_id().unwrap_or((0, 0));
            assert_eq!(
                seed.recover(frame.packet),
                Some(recovered),
                "{}",
                golden.source
            );
        }
    }
}

#[test]
fn frames_cut_anywhere_are_truncated_and_never_wrong() {
    for golden in golden() {
        for len in 0..golden.bytes.len() {
            match Frame::parse(&golden.bytes[..len]) {
                Ok(frame) => assert_eq!(frame.check_icrc(), IcrcCheck::Truncated),
                Err(error) => assert!(matches!(error, NotRoce::Truncated(_)), "{error} at {len}"),
            }
        }
        let packet = Frame::parse(&golden.bytes).unwrap().packet;
        let headers = Packet::parse(packet).unwrap().headers().len();
        for len in 0..headers + ICRC_LEN {
            let error = Packet::parse(&packet[..len]).unwrap_err();
            assert!(
                matches!(error, ParseError::Truncated(_)),
                "{error} at {len}"
            );
        }
    }
}

/// Headers of an opcode with every field different from its neighbours.
fn headers_of(opcode: Opcode, info: OpcodeInfo) -> Headers {
    let has = |header| info.headers.contains(header);
    Headers {
        bth: Bth {
            solicited: true,
            ack_request: true,
            ..Bth::new(opcode, Qpn::new(0x01_0203), Psn::new(0xff_fffe))
        },
        ext: Ext {
            deth: has(HeaderSet::DETH).then(|| Deth::new(QKey(0x1111_1111), Qpn::new(0x22_2222))),
            feth: has(HeaderSet::FETH).then(|| Feth::new(3, 1)),
            reth: has(HeaderSet::RETH).then_some(Reth {
                addr: 0x3333_3333_3333_3333,
                rkey: RKey(0x4444_4444),
                length: 0x5555_5555,
            }),
            atomic: has(HeaderSet::ATOMIC).then_some(AtomicEth {
                addr: 0x6666_6666_6666_6666,
                rkey: RKey(0x7777_7777),
                swap_add: 0x8888_8888_8888_8888,
                compare: 0x9999_9999_9999_9999,
            }),
            aeth: has(HeaderSet::AETH).then_some(Aeth {
                syndrome: Syndrome::ACK_UNLIMITED,
                msn: Msn::new(0xaa_aaaa),
            }),
            atomic_ack: has(HeaderSet::ATOMIC_ACK).then_some(AtomicAckEth(0xbbbb_bbbb_bbbb_bbbb)),
            imm: has(HeaderSet::IMM).then_some([0xcc; 4]),
            ieth: has(HeaderSet::IETH).then_some(RKey(0xdddd_dddd)),
        },
    }
}

fn payload_lengths(info: OpcodeInfo) -> Vec<usize> {
    match info.operation {
        Operation::AtomicWrite => vec![8],
        Operation::Cnp => vec![16],
        _ if info.has_payload => (0..=9).chain([255, 256, 257, 1024, 4095, 4096]).collect(),
        _ => vec![0],
    }
}

#[test]
fn every_opcode_survives_with_every_pad() {
    for opcode in (0..=255).map(Opcode) {
        let Some(info) = opcode.info() else {
            let bytes = [opcode.0; 64];
            assert!(matches!(
                Packet::parse(&bytes),
                Err(ParseError::Unsupported(_))
            ));
            continue;
        };
        let headers = headers_of(opcode, info);
        assert_eq!(headers.len(), Bth::LEN + info.headers.len());
        for len in payload_lengths(info) {
            let total = headers.packet_len(len);
            let mut bytes = vec![0xa5; total + 8];
            headers.frame(&mut bytes, len).fill(0x5a);
            bytes[total - ICRC_LEN..total].copy_from_slice(&[1, 2, 3, 4]);
            assert!(bytes[total..].iter().all(|byte| *byte == 0xa5));
            let packet = Packet::parse(&bytes[..total]).unwrap();
            assert_eq!(packet.headers(), headers.padded_for(len), "{opcode}");
            assert!(packet.payload.len() == len && packet.payload.iter().all(|byte| *byte == 0x5a));
            assert_eq!(packet.pad_bytes, [0; 3]);
            let mut again = vec![0xa5; total + 8];
            packet.emit_into(&mut again);
            assert_eq!(again, bytes, "{opcode}");
            assert_eq!(
                Headers::parse(&bytes[..headers.len()]),
                Ok(packet.headers())
            );
        }
    }
}

/// What must hold for any bytes at all; returns whether they are a packet.
fn is_sound(bytes: &[u8]) -> bool {
    let _ = Headers::parse(bytes);
    if let Ok(frame) = Frame::parse(bytes).or_else(|_| Frame::parse_ip(bytes)) {
        assert!(frame.packet.len() <= bytes.len());
        let _ = (frame.check_icrc(), frame.to_string(), frame.vlan());
        if let Some(seed) = frame.icrc_seed() {
            let _ = seed.recover(frame.packet);
        }
    }
    let Ok(packet) = Packet::parse(bytes) else {
        return false;
    };
    let mut again = vec![0xa5; bytes.len()];
    assert_eq!(packet.len(), bytes.len());
    packet.emit_into(&mut again);
    assert_eq!(again, bytes, "{packet}");
    true
}

#[test]
fn no_bytes_panic_and_what_parses_survives() {
    const ROUNDS: usize = 250_000;
    let golden = golden();
    let mut random = fastrand::Rng::with_seed(0x0c0f_fee0);
    let mut packets = 0;
    for round in 0..ROUNDS {
        let mut bytes: Vec<u8>;
        if round % 4 == 0 {
            bytes = (0..random.usize(..160)).map(|_| random.u8(..)).collect();
        } else {
            let frame = &golden[random.usize(..golden.len())].bytes;
            let start = Frame::parse(frame).map_or(0, |found| frame.len() - found.packet.len());
            bytes = frame[if round % 2 == 0 { 0 } else { start }..].to_vec();
            for _ in 0..random.usize(..4) {
                let at = random.usize(..bytes.len());
                bytes[at] = random.u8(..);
            }
            let len = bytes.len() + 4;
            if random.u8(..8) == 0 {
                bytes.resize(random.usize(..len), 0);
            }
        }
        packets += usize::from(is_sound(&bytes));
    }
    assert!(
        packets > ROUNDS / 10,
        "only {packets} of {ROUNDS} inputs were packets"
    );
}

fn specs() -> Vec<FrameSpec> {
    let v4 = AddressPair::V4 {
        src: Ipv4Addr::new(192, 0, 2, 1),
        dst: Ipv4Addr::new(198, 51, 100, 200),
    };
    let v6 = AddressPair::V6 {
        src: Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 2, 3, 4, 5),
        dst: Ipv6Addr::new(0xfe80, 0, 0, 0, 6, 7, 8, 9),
    };
    let mut specs = Vec::new();
    for addresses in [v4, v6] {
        for vlan_tci in [None, Some(0x6064)] {
            specs.push(FrameSpec {
                ethernet: Some((Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]))),
                vlan_tci,
                addresses,
                src_port: 0xc0de,
                traffic_class: 106,
                hop_limit: 77,
                flow_label: 0xa_bcde,
            });
        }
    }
    specs
}

#[test]
fn another_library_reads_what_the_template_writes() {
    for spec in specs() {
        let template = HeaderTemplate::new(&spec);
        let mut bytes = vec![0; template.len() + 1044];
        template.stamp(&mut bytes, 1044, 0xbeef);
        let sliced = SlicedPacket::from_ethernet(&bytes).unwrap();
        match sliced.net.as_ref().unwrap() {
            NetSlice::Ipv4(slice) => {
                let header = slice.header();
                assert_eq!(IpAddr::V4(header.source_addr()), spec.addresses.src());
                assert_eq!(IpAddr::V4(header.destination_addr()), spec.addresses.dst());
                assert_eq!(header.dcp().value() << 2 | header.ecn().value(), 106);
                assert_eq!((header.ttl(), header.identification()), (77, 0xbeef));
                assert!(header.dont_fragment() && !header.more_fragments());
                let computed = header.to_header().calc_header_checksum();
                assert_eq!(header.header_checksum(), computed);
            }
            NetSlice::Ipv6(slice) => {
                let header = slice.header();
                assert_eq!(IpAddr::V6(header.source_addr()), spec.addresses.src());
                assert_eq!(IpAddr::V6(header.destination_addr()), spec.addresses.dst());
                assert_eq!((header.traffic_class(), header.hop_limit()), (106, 77));
                assert_eq!(header.flow_label().value(), 0xa_bcde);
            }
            NetSlice::Arp(_) => panic!("a RoCE frame is no ARP"),
        }
        let Some(TransportSlice::Udp(udp)) = sliced.transport else {
            panic!("the frame is no UDP");
        };
        assert_eq!(
            (udp.source_port(), udp.destination_port()),
            (0xc0de, ROCE_PORT)
        );
        assert_eq!((usize::from(udp.length()), udp.checksum()), (1052, 0));
        assert_eq!(udp.payload().len(), 1044);
    }
}

#[test]
fn frames_of_another_library_are_read() {
    for spec in specs() {
        let link = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let network = match spec.addresses {
            AddressPair::V4 { src, dst } => link.ipv4(src.octets(), dst.octets(), 9),
            AddressPair::V6 { src, dst } => link.ipv6(src.octets(), dst.octets(), 9),
        };
        let mut bytes = Vec::new();
        let payload: Vec<u8> = (0..=255).collect();
        network
            .udp(0xc0de, ROCE_PORT)
            .write(&mut bytes, &payload)
            .unwrap();
        let frame = Frame::parse(&bytes).unwrap();
        assert_eq!(frame.addresses(), spec.addresses);
        assert_eq!((frame.src_port(), frame.hop_limit()), (0xc0de, 9));
        assert_eq!(frame.packet, payload);
        let udp = frame.udp.unwrap();
        assert_eq!(
            udp.checksum_is_good(frame.addresses(), frame.packet),
            Some(true)
        );
    }
}
