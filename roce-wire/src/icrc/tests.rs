use core::net::{Ipv4Addr, Ipv6Addr};
use std::vec::Vec;

use super::*;

/// The definition, bit by bit, over bytes that are masked one by one.
fn slow(src: IpAddr, dst: IpAddr, ports: [u16; 2], id: u16, flags: u16, covered: &[u8]) -> u32 {
    let udp_len = (covered.len() + 4 + 8) as u16;
    let mut bytes = [0xff; 8].to_vec();
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            bytes.extend([0x45, 0xff]);
            bytes.extend((udp_len + 20).to_be_bytes());
            bytes.extend(id.to_be_bytes());
            bytes.extend(flags.to_be_bytes());
            bytes.extend([0xff, 17, 0xff, 0xff]);
            bytes.extend(src.octets());
            bytes.extend(dst.octets());
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            bytes.extend([0x6f, 0xff, 0xff, 0xff]);
            bytes.extend(udp_len.to_be_bytes());
            bytes.extend([17, 0xff]);
            bytes.extend(src.octets());
            bytes.extend(dst.octets());
        }
        _ => unreachable!("the tests don't mix families"),
    }
    bytes.extend(ports[0].to_be_bytes());
    bytes.extend(ports[1].to_be_bytes());
    bytes.extend(udp_len.to_be_bytes());
    bytes.extend([0xff, 0xff]);
    let bth = bytes.len();
    bytes.extend(covered);
    bytes[bth + 4] = 0xff;
    bitwise(&bytes)
}

fn bitwise(bytes: &[u8]) -> u32 {
    let mut register = u32::MAX;
    for byte in bytes {
        register ^= u32::from(*byte);
        for _ in 0..8 {
            let carry = register & 1;
            register >>= 1;
            if carry == 1 {
                register ^= 0xedb8_8320;
            }
        }
    }
    !register
}

fn flows() -> [(IpAddr, IpAddr, u16); 2] {
    [
        (
            Ipv4Addr::new(10, 7, 0, 1).into(),
            Ipv4Addr::new(10, 7, 0, 2).into(),
            0xcac8,
        ),
        (
            Ipv6Addr::new(0xfd07, 0, 0, 0, 0, 0, 0, 1).into(),
            Ipv6Addr::new(0xfe80, 1, 2, 3, 4, 5, 6, 7).into(),
            0xffff,
        ),
    ]
}

/// A packet of `len` bytes that are all different in a way.
fn packet(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + (i >> 8) + 13) as u8).collect()
}

#[test]
fn the_bitwise_twin_is_crc32() {
    assert_eq!(bitwise(b"123456789"), 0xcbf4_3926);
}

#[test]
fn fast_and_bitwise_agree_at_every_length() {
    for (src, dst, port) in flows() {
        let seed = IcrcSeed::new(src, dst, port, 4791);
        for len in (16..400).chain([1040, 1500, 4128, 4140]) {
            let mut bytes = packet(len);
            let (id, flags) = (len as u16 ^ 0x5a5a, IPV4_DONT_FRAGMENT);
            seed.seal(id, flags, &mut bytes);
            let expected = slow(src, dst, [port, 4791], id, flags, &bytes[..len - 4]);
            assert_eq!(bytes[len - 4..], expected.to_le_bytes(), "length {len}");
            assert!(seed.verify(id, flags, &bytes));
        }
    }
}

#[test]
fn the_congestion_byte_is_free_and_all_other_bits_count() {
    for (src, dst, port) in flows() {
        let seed = IcrcSeed::new(src, dst, port, 4791);
        let mut bytes = packet(64);
        seed.seal(1, 0, &mut bytes);
        for bit in 0..64 * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(seed.verify(1, 0, &bytes), bit / 8 == 4, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        let other_port = IcrcSeed::new(src, dst, port ^ 1, 4791);
        assert!(!other_port.verify(1, 0, &bytes));
        assert_eq!(seed.verify(2, 0, &bytes), src.is_ipv6());
    }
}

#[test]
fn lengths_that_no_packet_has_are_refused() {
    for (src, dst, port) in flows() {
        let seed = IcrcSeed::new(src, dst, port, 4791);
        for len in (0..16).chain([65_536, 100_000]) {
            assert_eq!(seed.compute(0, 0, &packet(len)), None);
            assert!(!seed.verify(0, 0, &packet(len)));
            assert_eq!(seed.recover(&packet(len)), None);
        }
        assert!(seed.compute(0, 0, &packet(65_507)).is_some());
    }
}

#[test]
fn an_unknown_identification_is_recovered() {
    let [(src, dst, port), _] = flows();
    let seed = IcrcSeed::new(src, dst, port, 4791);
    let mut cache = IdRecovery::new();
    for len in [16, 20, 64, 276, 1056, 1040, 4132, 65_504] {
        let mut bytes = packet(len);
        for id in [0, 1, 2, 0xff, 0x100, 0x1234, 0xffff] {
            for flags in [IPV4_DONT_FRAGMENT, 0] {
                seed.seal(id, flags, &mut bytes);
                assert_eq!(seed.recover(&bytes), Some((id, flags)), "length {len}");
                assert_eq!(cache.recover(&seed, &bytes), Some((id, flags)));
            }
        }
        seed.seal(7, 0x2000, &mut bytes);
        assert_eq!(seed.recover(&bytes), None, "a fragment explains nothing");
        assert_eq!(cache.recover(&seed, &bytes), None);
    }
}

#[test]
fn corruption_is_seldom_explained_by_an_identification() {
    let [(src, dst, port), _] = flows();
    let seed = IcrcSeed::new(src, dst, port, 4791);
    let mut cache = IdRecovery::new();
    let mut bytes = packet(276);
    seed.seal(0x1234, IPV4_DONT_FRAGMENT, &mut bytes);
    let mut explained = 0;
    let mut random = 0x9e37_79b9_u32;
    for _ in 0..20_000 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let at = (random >> 8) as usize % 272;
        let mut changed = bytes.clone();
        for byte in &mut changed[at..(at + 40).min(276)] {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *byte ^= (random >> 24) as u8;
        }
        explained += u32::from(cache.recover(&seed, &changed).is_some());
        assert_eq!(seed.recover(&changed), cache.recover(&seed, &changed));
    }
    assert!(
        explained < 10,
        "{explained} of 20,000, where 2^-15 of them are expected"
    );
}

#[test]
fn over_ipv6_recovery_is_exact() {
    let [_, (src, dst, port)] = flows();
    let seed = IcrcSeed::new(src, dst, port, 4791);
    let mut bytes = packet(80);
    seed.seal(0, 0, &mut bytes);
    assert_eq!(seed.recover(&bytes), Some((0, 0)));
    bytes[20] ^= 1;
    assert_eq!(seed.recover(&bytes), None);
}

#[test]
fn version_one_masks_class_label_and_hop_limit() {
    let mut grh = [0; 40];
    for (at, byte) in grh.iter_mut().enumerate() {
        *byte = at as u8 ^ 0x60;
    }
    for len in [16, 20, 64, 1040] {
        let mut bytes = packet(len);
        let mut input = [0xff; 8].to_vec();
        input.extend(grh);
        input[8] |= 0x0f;
        input[9..12].fill(0xff);
        input[15] = 0xff;
        input.extend(&bytes[..len - 4]);
        input[8 + 40 + 4] = 0xff;
        assert_eq!(icrc_v1(&grh, &bytes), Some(bitwise(&input)));
        bytes[len - 4..].copy_from_slice(&bitwise(&input).to_le_bytes());
        assert!(verify_v1(&grh, &bytes));
        let mut other = grh;
        other[1] ^= 0xff;
        other[7] ^= 0xff;
        assert!(verify_v1(&other, &bytes));
        other[20] ^= 1;
        assert!(!verify_v1(&other, &bytes));
    }
    assert_eq!(icrc_v1(&grh, &[0; 15]), None);
}
