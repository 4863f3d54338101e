use super::*;

/// Checks an Ethernet frame.
fn check(frame: &[u8]) -> Verdict {
    super::check(inside_ethernet(frame))
}

/// An RC ACK that rxe of Linux 6.12 sent over IPv4, as captured.
const RXE_ACK_V4: &str = "525400070001525400070002080045000030fae4400040112bc80a0700020a070001\
    f61612b7001c00001100ffff0000002b000001001f0000014ca3d56f";
/// An RC WRITE ONLY of 13 bytes that rxe of Linux 6.12 sent over IPv6, as captured.
const RXE_WRITE_V6: &str = "52540007000252540007000186dd6b800000002c1140fd070000000000000000\
    000000000001fd070000000000000000000000000002d5ee12b7002c00000a30ffff0000017c8000010000007f\
    1a781ae000000039c9000000010d000000d8921c07";

#[test]
fn frames_of_the_kernels_rxe_are_good() {
    assert_eq!(check(&bytes(RXE_ACK_V4)), Verdict::Good);
    assert_eq!(check(&bytes(RXE_WRITE_V6)), Verdict::Good);
}

#[test]
fn only_the_fields_that_a_router_may_change_can_change() {
    // Type of service, time to live and header checksum; UDP checksum; the ECN byte of the BTH.
    let may_change = [15, 22, 24, 25, 40, 41, 46];
    let good = bytes(RXE_ACK_V4);
    for at in 18..good.len() {
        // The lengths, the protocol, the port and the fragment bits make it another packet.
        if [20, 21, 23, 36, 37, 38, 39].contains(&at) {
            continue;
        }
        let mut frame = good.clone();
        frame[at] ^= 0x10;
        let still_good = check(&frame) == Verdict::Good;
        assert_eq!(still_good, may_change.contains(&at), "byte {at}");
    }
    let mut routed = bytes(RXE_WRITE_V6);
    // Traffic class, flow label, hop limit.
    for at in [15, 16, 17, 21] {
        routed[at] ^= 0x5a;
    }
    assert_eq!(check(&routed), Verdict::Good);
    routed[67] ^= 1;
    assert!(matches!(check(&routed), Verdict::Bad { .. }));
}

#[test]
fn a_vlan_tag_and_ethernet_padding_are_outside_of_the_crc() {
    let mut frame = bytes(RXE_ACK_V4);
    frame.splice(12..12, [0x81, 0x00, 0x00, 0x64]);
    frame.extend([0; 9]);
    assert_eq!(check(&frame), Verdict::Good);
}

#[test]
fn the_sender_of_either_family_is_read() {
    let v4 = bytes(RXE_ACK_V4);
    let v6 = bytes(RXE_WRITE_V6);
    assert_eq!(
        source(inside_ethernet(&v4)),
        Some("10.7.0.2".parse().unwrap())
    );
    assert_eq!(
        source(inside_ethernet(&v6)),
        Some("fd07::1".parse().unwrap())
    );
    assert_eq!(source(&v4[14..20]), None);
}

#[test]
fn other_traffic_is_not_judged() {
    let mut dns = bytes(RXE_ACK_V4);
    dns[36..38].copy_from_slice(&53u16.to_be_bytes());
    assert_eq!(check(&dns), Verdict::NotRoce);
    let mut tcp = bytes(RXE_ACK_V4);
    tcp[23] = 6;
    assert_eq!(check(&tcp), Verdict::NotRoce);
}

#[test]
fn a_frame_that_cannot_be_checked_is_unsound_and_never_a_panic() {
    let good = bytes(RXE_ACK_V4);
    for length in 0..good.len() {
        assert_ne!(check(&good[..length]), Verdict::Good, "{length} bytes");
    }
    let mut fragment = good.clone();
    fragment[20] |= 0x20;
    assert_eq!(check(&fragment), Verdict::Unsound("an IPv4 fragment"));
    let mut lying = good;
    lying[39] -= 1;
    assert!(matches!(check(&lying), Verdict::Unsound(_)));
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect()
}
