use std::os::fd::AsFd;

use roce_wire::{AddressPair, FrameSpec, HeaderTemplate, Mac};

use super::*;
use crate::sys::bpf;

/// A verdict that stands for the socket.
const REDIRECT: i32 = 4;

/// Runs the program in the kernel; nothing where this process may not.
fn verdict(frame: &[u8]) -> Option<i32> {
    let code = code(Target::Verdict(REDIRECT));
    let program = match bpf::load_xdp("roce_test", &code, true) {
        Ok(program) => program,
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            eprintln!("skipped: no privilege to load an XDP program");
            return None;
        }
        Err(error) => panic!("the verifier refuses the program: {error}"),
    };
    Some(bpf::test_run(program.as_fd(), frame).unwrap().cast_signed())
}

fn expect(what: &str, frame: &[u8], expected: i32) {
    if let Some(found) = verdict(frame) {
        assert_eq!(found, expected, "{what}");
    }
}

fn frame(ipv6: bool, vlan_tci: Option<u16>, payload: usize) -> Vec<u8> {
    let addresses = if ipv6 {
        AddressPair::new("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap())
    } else {
        AddressPair::new("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap())
    };
    let template = HeaderTemplate::new(&FrameSpec {
        ethernet: Some((Mac([2; 6]), Mac([4; 6]))),
        vlan_tci,
        addresses: addresses.unwrap(),
        src_port: 0xc000,
        traffic_class: 0,
        hop_limit: 64,
        flow_label: 0,
    });
    let mut frame = vec![0; template.len() + payload];
    template.stamp(&mut frame, payload, 0);
    frame
}

/// Changes bytes of an untagged IPv4 frame.
fn changed(changes: &[(usize, u8)]) -> Vec<u8> {
    let mut frame = frame(false, None, 32);
    for (at, value) in changes {
        frame[*at] = *value;
    }
    frame
}

#[test]
fn roce_packets_of_both_families_are_picked_with_and_without_a_tag() {
    for ipv6 in [false, true] {
        for tag in [None, Some(100)] {
            expect("RoCE", &frame(ipv6, tag, 32), REDIRECT);
            expect("large", &frame(ipv6, tag, 1040), REDIRECT);
        }
    }
}

#[test]
fn ipv4_options_of_any_length_are_stepped_over() {
    for words in 6..=15_u8 {
        let plain = frame(false, None, 32);
        let mut long = plain[..34].to_vec();
        long.extend(vec![1; usize::from(words - 5) * 4]);
        long.extend(&plain[34..]);
        long[14] = 0x40 | words;
        expect("options", &long, REDIRECT);
        // Without them the port would be among the options.
        long[14] = 0x45;
        expect("options that are data", &long, XDP_PASS);
    }
    expect("a header of four words", &changed(&[(14, 0x44)]), XDP_PASS);
}

#[test]
fn everything_else_is_left_to_the_kernel() {
    let ports = [0x12, 0xb7, 0xc0, 0x00];
    let only_source: Vec<_> = (34..38).zip(ports).collect();
    let cases: [(&str, Vec<u8>); 10] = [
        ("4791 as the source port only", changed(&only_source)),
        ("another port", changed(&[(37, 0xb8)])),
        ("TCP", changed(&[(23, 6)])),
        ("ICMP", changed(&[(23, 1)])),
        ("a first fragment", changed(&[(20, 0x20)])),
        ("a later fragment", changed(&[(20, 0x00), (21, 0x10)])),
        ("ARP", changed(&[(12, 0x08), (13, 0x06)])),
        ("version 5", changed(&[(14, 0x55)])),
        ("a runt", changed(&[])[..41].to_vec()),
        ("Ethernet alone", changed(&[])[..14].to_vec()),
    ];
    for (what, frame) in cases {
        expect(what, &frame, XDP_PASS);
    }
    expect("may be fragmented", &changed(&[(20, 0x00)]), REDIRECT);
    let mut v6 = frame(true, None, 32);
    v6[20] = 58;
    expect("ND", &v6, XDP_PASS);
    v6[20] = 44;
    expect("an IPv6 fragment", &v6, XDP_PASS);
    let mut twice = frame(false, Some(5), 32);
    twice.splice(16..16, [0x81, 0x00, 0x00, 0x07]);
    expect("two tags", &twice, XDP_PASS);
}
