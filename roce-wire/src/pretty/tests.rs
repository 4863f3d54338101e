use core::net::{Ipv4Addr, Ipv6Addr};
use std::format;
use std::string::String;

use crate::*;

fn line(headers: Headers, payload: usize) -> String {
    let mut bytes = [0; 256];
    let len = headers.packet_len(payload);
    headers.frame(&mut bytes, payload);
    format!("{}", Packet::parse(&bytes[..len]).unwrap())
}

fn bth(opcode: Opcode) -> Bth {
    Bth::new(opcode, Qpn::new(0x176), Psn::new(0x100))
}

#[test]
fn requests_name_what_they_act_on() {
    let write = Headers {
        bth: Bth {
            ack_request: true,
            ..bth(Opcode::RC_RDMA_WRITE_ONLY_WITH_IMM)
        },
        ext: Ext {
            reth: Some(Reth {
                addr: 0x7f88_40ad_b000,
                rkey: RKey(0x3c82),
                length: 33,
            }),
            imm: Some([0, 0, 1, 2]),
            ..Ext::NONE
        },
    };
    assert_eq!(
        line(write, 33),
        "RC_RDMA_WRITE_ONLY_WITH_IMM qpn 0x000176 psn 0x000100 ackreq, \
         va 0x7f8840adb000 rkey 0x00003c82 len 33, imm 0x00000102, 33 bytes + 3 pad"
    );
    let swap = Headers {
        bth: bth(Opcode::RC_CMP_SWAP),
        ext: Ext {
            atomic: Some(AtomicEth {
                addr: 8,
                rkey: RKey(1),
                swap_add: 2,
                compare: 3,
            }),
            ..Ext::NONE
        },
    };
    assert!(line(swap, 0).ends_with(", va 0x8 rkey 0x00000001 swap/add 0x2 compare 0x3"));
    let flush = Headers {
        bth: bth(Opcode::RC_FLUSH),
        ext: Ext {
            feth: Some(Feth::new(1, 0)),
            reth: Some(Reth {
                addr: 0,
                rkey: RKey(0),
                length: 0,
            }),
            ..Ext::NONE
        },
    };
    assert!(line(flush, 0).contains(", flush to visibility of a range, va 0x0"));
}

#[test]
fn responses_say_why() {
    let answer = |raw: u8| {
        line(
            Headers {
                bth: bth(Opcode::RC_ACKNOWLEDGE),
                ext: Ext {
                    aeth: Some(Aeth {
                        syndrome: Syndrome::from_raw(raw),
                        msn: Msn::new(7),
                    }),
                    ..Ext::NONE
                },
            },
            0,
        )
    };
    assert!(answer(0x1f).ends_with("psn 0x000100, ack msn 7"));
    assert!(answer(5).ends_with(", ack credits 6 msn 7"));
    assert!(answer(0x20 | 25).ends_with(", rnr nak delay 61.44ms msn 7"));
    assert!(answer(0x62).ends_with(", nak 0x62 (remote access error) msn 7"));
    assert!(answer(0x7f).ends_with(", nak 0x7f (unknown reason 0x7f) msn 7"));
    assert!(answer(0x41).ends_with(", reserved syndrome 0x41 msn 7"));
}

#[test]
fn datagrams_name_their_sender() {
    let send = Headers {
        bth: bth(Opcode::UD_SEND_ONLY),
        ext: Ext {
            deth: Some(Deth::new(QKey(0x8001_0000), Qpn::GSI)),
            ..Ext::NONE
        },
    };
    assert!(line(send, 200).ends_with(", qkey 0x80010000 from 0x000001, 200 bytes"));
}

#[test]
fn frames_name_endpoints_and_a_bad_icrc() {
    let mut packet = [0; CNP_LEN];
    emit_cnp(Qpn::new(5), &mut packet);
    let v4 = AddressPair::V4 {
        src: Ipv4Addr::new(10, 7, 0, 1),
        dst: Ipv4Addr::new(10, 7, 0, 2),
    };
    let v6 = AddressPair::V6 {
        src: Ipv6Addr::LOCALHOST,
        dst: Ipv6Addr::LOCALHOST,
    };
    let text = |addresses: AddressPair, keep: usize, flip: u8| {
        let template = HeaderTemplate::new(&FrameSpec {
            ethernet: Some((Mac([2; 6]), Mac([4; 6]))),
            vlan_tci: Some(100),
            addresses,
            src_port: 49152,
            traffic_class: 48 << 2 | 2,
            hop_limit: 64,
            flow_label: 0,
        });
        let mut packet = packet;
        IcrcSeed::new(addresses.src(), addresses.dst(), 49152, ROCE_PORT).seal(
            0,
            IPV4_DONT_FRAGMENT,
            &mut packet,
        );
        packet[20] ^= flip;
        let mut bytes = [0; 256];
        template.stamp(&mut bytes, CNP_LEN, 0);
        bytes[template.len()..][..CNP_LEN].copy_from_slice(&packet);
        format!("{}", Frame::parse(&bytes[..template.len() + keep]).unwrap())
    };
    assert_eq!(
        text(v4, CNP_LEN, 0),
        "vlan 100 10.7.0.1:49152 > 10.7.0.2:4791 dscp 48 ECT(0): CNP qpn 0x000005 psn 0x000000"
    );
    assert_eq!(
        text(v6, CNP_LEN, 1),
        "vlan 100 [::1]:49152 > [::1]:4791 dscp 48 ECT(0): CNP qpn 0x000005 psn 0x000000, BAD ICRC"
    );
    assert_eq!(
        text(v4, 12, 0),
        "vlan 100 10.7.0.1:49152 > 10.7.0.2:4791 dscp 48 ECT(0): CNP qpn 0x000005 psn 0x000000, \
         20 bytes not captured, ICRC not checked"
    );
    assert!(text(v4, 3, 0).contains(": truncated BTH, 29 bytes not captured"));
}
