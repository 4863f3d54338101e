//! The invariant CRC: what it covers, and how to compute it in two short runs.
//!
//! The ICRC is a CRC-32 (reflected, all ones before and after) over eight bytes of ones that stand
//! for a local route header, the network headers, and the packet without its last four bytes. What
//! routers change is replaced by ones: TOS, TTL and both checksums in IPv4; traffic class, flow
//! label and hop limit in IPv6; the congestion byte of the BTH. All else counts: lengths, ports,
//! the IPv4 Identification and flags.
//!
//! A flow's masked network header is built once ([`IcrcSeed`]). Per packet the lengths and the
//! Identification are merged into it in registers together with the BTH, since bytes that are
//! stored one by one and then loaded wide cost more than the CRC itself.

use core::net::IpAddr;

use crate::bth::Bth;
use crate::packet::ICRC_LEN;
use crate::udp;

mod gf2;
mod unknown_id;
mod v1;

pub use unknown_id::IdRecovery;
pub use v1::{icrc_v1, verify_v1};

/// The IPv4 flags word of packets that must not be fragmented, as all RoCE senders set it.
pub const IPV4_DONT_FRAGMENT: u16 = 0x4000;

/// The part of the ICRC's input that is the same for all packets between two addresses and ports.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct IcrcSeed(Prefix);

/// Masked bytes from the local route header's last four to the end of UDP.
///
/// CRC-32 started with all ones over eight bytes of ones is CRC-32 started with zeros over four
/// zeros and four ones, and zeros in front change nothing. So there are as many of them as make
/// whole blocks of 16 together with the BTH.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Prefix {
    /// Four zeros, four ones, IPv4 and UDP: with the BTH three blocks.
    V4([u128; 3]),
    /// Four ones, IPv6 and UDP: with the BTH four blocks.
    V6([u128; 4]),
}

impl IcrcSeed {
    /// Makes the seed of a flow; the destination port is 4791 in RoCEv2.
    ///
    /// Addresses of two families are taken as IPv6, IPv4 ones in mapped form.
    pub fn new(src: IpAddr, dst: IpAddr, src_port: u16, dst_port: u16) -> Self {
        let ports = u32::from(src_port) << 16 | u32::from(dst_port);
        Self(match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let addresses = u64::from(src.to_bits()) << 32 | u64::from(dst.to_bits());
                Prefix::V4([
                    // 4 zeros, 4 ones; version and IHL, TOS, length; Identification and flags.
                    0x0000_0000_ffff_ffff_45ff_0000_0000_0000,
                    // TTL, protocol, checksum; addresses; ports.
                    0xff11_ffff << 96 | u128::from(addresses) << 32 | u128::from(ports),
                    UDP_AND_BTH_MASK,
                ])
            }
            (src, dst) => {
                let [src, dst] = [src, dst].map(|ip| match ip {
                    IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
                    IpAddr::V6(v6) => v6.to_bits(),
                });
                Prefix::V6([
                    // 4 ones; version, class, label; length, next header, hop limit; 4 of source.
                    0xffff_ffff_6fff_ffff_0000_11ff << 32 | src >> 96,
                    src << 32 | dst >> 96,
                    dst << 32 | u128::from(ports),
                    UDP_AND_BTH_MASK,
                ])
            }
        })
    }

    /// Returns the ICRC's value of a packet (BTH to ICRC), whatever its last four bytes are.
    ///
    /// `ipv4_id` and `ipv4_flags` (flags and fragment offset) are ignored over IPv6. Returns nothing
    /// if the packet is shorter than BTH and ICRC or longer than UDP can carry.
    #[inline]
    pub fn compute(&self, ipv4_id: u16, ipv4_flags: u16, packet: &[u8]) -> Option<u32> {
        let (covered, _) = packet.split_last_chunk::<ICRC_LEN>()?;
        self.covered(ipv4_id, ipv4_flags, covered)
    }

    /// Writes the ICRC into the last four bytes of a packet that is otherwise finished.
    ///
    /// `ipv4_flags` is the word with flags and fragment offset, usually [`IPV4_DONT_FRAGMENT`].
    ///
    /// # Panics
    ///
    /// The packet is shorter than BTH and ICRC, or longer than UDP can carry.
    #[inline]
    pub fn seal(&self, ipv4_id: u16, ipv4_flags: u16, packet: &mut [u8]) {
        let sealed = packet
            .split_last_chunk_mut::<ICRC_LEN>()
            .and_then(|(covered, icrc)| {
                *icrc = self.covered(ipv4_id, ipv4_flags, covered)?.to_le_bytes();
                Some(())
            });
        assert!(sealed.is_some(), "a packet to seal has the wrong length");
    }

    /// Returns whether a packet's ICRC is right; false for bytes that are no packet by their length.
    #[inline]
    pub fn verify(&self, ipv4_id: u16, ipv4_flags: u16, packet: &[u8]) -> bool {
        packet
            .split_last_chunk::<ICRC_LEN>()
            .is_some_and(|(covered, icrc)| {
                self.covered(ipv4_id, ipv4_flags, covered) == Some(u32::from_le_bytes(*icrc))
            })
    }

    #[inline]
    fn covered(&self, ipv4_id: u16, ipv4_flags: u16, covered: &[u8]) -> Option<u32> {
        let (bth, rest) = covered.split_first_chunk::<{ Bth::LEN }>()?;
        let udp_len = u16::try_from(covered.len() + ICRC_LEN + udp::LEN).ok()?;
        let word = u128::from(udp_len) << 112 | bth_word(bth);
        match self.0 {
            Prefix::V4([first, second, third]) => {
                let variable = u64::from(udp_len.checked_add(IPV4_LEN)?) << 32
                    | u64::from(ipv4_id) << 16
                    | u64::from(ipv4_flags);
                Some(run(
                    [first | u128::from(variable), second, third | word],
                    rest,
                ))
            }
            Prefix::V6([first, second, third, fourth]) => {
                let length = u128::from(udp_len) << 48;
                Some(run([first | length, second, third, fourth | word], rest))
            }
        }
    }
}

/// UDP length (to be filled in), checksum, BTH (to be filled in) with its congestion byte.
const UDP_AND_BTH_MASK: u128 = 0xffff << 96 | 0xff << 56;

const IPV4_LEN: u16 = 20;

#[inline]
fn bth_word(bth: &[u8; Bth::LEN]) -> u128 {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = *bth;
    u128::from_be_bytes([0, 0, 0, 0, a, b, c, d, e, f, g, h, i, j, k, l])
}

/// Runs the CRC with zeros at its start over the prefix's blocks and then the rest.
#[inline]
fn run<const N: usize>(blocks: [u128; N], rest: &[u8]) -> u32 {
    let bytes = blocks.map(u128::to_be_bytes);
    let mut crc = crc32fast::Hasher::new_with_initial(ZERO_STATE);
    crc.update(bytes.as_flattened());
    if !rest.is_empty() {
        crc.update(rest);
    }
    crc.finalize()
}

/// What crc32fast complements to a register of zeros.
const ZERO_STATE: u32 = u32::MAX;

#[cfg(test)]
mod tests;
