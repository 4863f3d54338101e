//! Checks the invariant CRC of captured frames, sharing no line with the product's code.
//!
//! Written from IBTA 7.8.1 and annex A17.3.3 alone: a packet is masked into a fresh buffer
//! and run through CRC-32 a byte at a time. Slow and plain on purpose.

use core::net::IpAddr;

/// What one captured packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Not a packet to UDP port 4791.
    NotRoce,
    /// A RoCEv2 packet whose ICRC is right.
    Good,
    /// A RoCEv2 packet whose ICRC is wrong.
    Bad {
        /// What the frame's bytes ask for.
        computed: u32,
        /// What the frame carries.
        carried: u32,
    },
    /// A RoCEv2 packet that can't be checked, which no sound sender produces.
    Unsound(&'static str),
}

/// Checks one IP packet, with anything that follows it in its frame.
#[must_use]
pub fn check(packet: &[u8]) -> Verdict {
    match packet.first().map(|first| first >> 4) {
        Some(4) => check_ipv4(packet),
        Some(6) => check_ipv6(packet),
        Some(_) | None => Verdict::NotRoce,
    }
}

/// Returns the IP packet in an Ethernet frame with any VLAN tags, or nothing.
#[must_use]
pub fn inside_ethernet(frame: &[u8]) -> &[u8] {
    let mut ethertype_at = 12;
    while word(frame, ethertype_at) == Some(0x8100) {
        ethertype_at += 4;
    }
    match word(frame, ethertype_at) {
        Some(0x0800 | 0x86dd) => &frame[ethertype_at + 2..],
        Some(_) | None => &[],
    }
}

/// Returns the source address of an IP packet.
#[must_use]
pub fn source(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(packet.get(12..16)?).ok()?)),
        6 => Some(IpAddr::from(<[u8; 16]>::try_from(packet.get(8..24)?).ok()?)),
        _ => None,
    }
}

fn check_ipv4(packet: &[u8]) -> Verdict {
    const UDP: u8 = 17;
    if packet.len() < 20 || packet[9] != UDP {
        return Verdict::NotRoce;
    }
    let header = usize::from(packet[0] & 0x0f) * 4;
    if word(packet, header + 2) != Some(4791) {
        return Verdict::NotRoce;
    }
    if header != 20 {
        return Verdict::Unsound("IPv4 options");
    }
    // More-fragments or an offset; don't-fragment is the remaining bit.
    if word(packet, 6).is_some_and(|flags| flags & 0xbfff != 0) {
        return Verdict::Unsound("an IPv4 fragment");
    }
    let total = usize::from(word(packet, 2).unwrap_or(0));
    let Some(packet) = packet.get(..total) else {
        return Verdict::Unsound("a cut IPv4 packet");
    };
    let mut masked = packet.to_vec();
    // Type of service, time to live, header checksum.
    for at in [1, 8, 10, 11] {
        masked[at] = 0xff;
    }
    check_masked(masked, header)
}

fn check_ipv6(packet: &[u8]) -> Verdict {
    const UDP: u8 = 17;
    if packet.len() < 48 || packet[6] != UDP || word(packet, 42) != Some(4791) {
        return Verdict::NotRoce;
    }
    let total = 40 + usize::from(word(packet, 4).unwrap_or(0));
    let Some(packet) = packet.get(..total) else {
        return Verdict::Unsound("a cut IPv6 packet");
    };
    let mut masked = packet.to_vec();
    // Traffic class and flow label, hop limit.
    masked[0] |= 0x0f;
    for at in [1, 2, 3, 7] {
        masked[at] = 0xff;
    }
    check_masked(masked, 40)
}

/// Ends the masking from the UDP header on and compares.
fn check_masked(mut packet: Vec<u8>, udp: usize) -> Verdict {
    const UDP_AND_BTH_AND_ICRC: usize = 8 + 12 + 4;
    if packet.len() < udp + UDP_AND_BTH_AND_ICRC {
        return Verdict::Unsound("shorter than a BTH and an ICRC");
    }
    if word(&packet, udp + 4).map(usize::from) != Some(packet.len() - udp) {
        return Verdict::Unsound("a UDP length that differs from the IP length");
    }
    // UDP checksum; the BTH byte with FECN, BECN and reserved bits.
    for at in [udp + 6, udp + 7, udp + 8 + 4] {
        packet[at] = 0xff;
    }
    let covered = packet.len() - 4;
    let carried = u32::from_le_bytes([
        packet[covered],
        packet[covered + 1],
        packet[covered + 2],
        packet[covered + 3],
    ]);
    // Eight bytes of ones stand for the local route header that RoCE doesn't have.
    let computed = crc32(&packet[..covered], crc32_update(!0, &[0xff; 8]));
    if computed == carried {
        Verdict::Good
    } else {
        Verdict::Bad { computed, carried }
    }
}

fn crc32(bytes: &[u8], register: u32) -> u32 {
    !crc32_update(register, bytes)
}

/// The reflected CRC of IEEE 802.3.
fn crc32_update(register: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(register, |register, &byte| {
        TABLE[usize::from(register as u8 ^ byte)] ^ (register >> 8)
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

const TABLE: [u32; 256] = {
    let mut table = [0u32; 256];
    let mut index = 0;
    while index < 256 {
        let mut value = index as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 {
                0xedb8_8320 ^ (value >> 1)
            } else {
                value >> 1
            };
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests;
