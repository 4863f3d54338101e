//! The invariant CRC: what it covers, and how it is computed.
//!
//! The ICRC is a CRC-32 (reflected, all ones before and after) over eight bytes of ones that stand
//! for a local route header, the network headers, and the packet without its last four bytes. What
//! routers change is replaced by ones: TOS, TTL and both checksums in IPv4; traffic class, flow
//! label and hop limit in IPv6; the congestion byte of the BTH. All else counts: lengths, ports,
//! the IPv4 Identification and flags.
//!
//! The CRC is linear: what a byte adds depends on its value and on how many bytes follow, not on
//! the other bytes. So a flow's network header is run once with its variable fields left 0
//! ([`IcrcSeed`]), and per packet the lengths, the Identification and the BTH add their parts from
//! tables, in registers. What follows the BTH is one contiguous run. Nothing is copied: bytes that
//! are stored one by one and then loaded wide cost more than the CRC itself.

use core::net::IpAddr;

use crate::bth::Bth;
use crate::packet::ICRC_LEN;
use crate::{ip, ipv4, udp};

mod gf2;
mod parts;
mod unknown_id;
mod v1;

pub use unknown_id::IdRecovery;
pub use v1::{icrc_v1, verify_v1};

/// The IPv4 flags word of packets that must not be fragmented, as all RoCE senders set it.
pub const IPV4_DONT_FRAGMENT: u16 = 0x4000;

/// The part of the ICRC's input that is the same for all packets between two addresses and ports.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct IcrcSeed {
    /// The register behind the BTH when every field that varies is 0.
    constant: u32,
    is_ipv4: bool,
}

impl IcrcSeed {
    /// Makes the seed of a flow; the destination port is 4791 in RoCEv2.
    ///
    /// Addresses of two families are taken as IPv6, IPv4 ones in mapped form.
    pub fn new(src: IpAddr, dst: IpAddr, src_port: u16, dst_port: u16) -> Self {
        let mut crc = crc32fast::Hasher::new();
        crc.update(&[0xff; 8]);
        let is_ipv4 = match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                crc.update(&[
                    0x45,
                    0xff,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0,
                    0xff,
                    ip::PROTOCOL_UDP,
                    0xff,
                    0xff,
                ]);
                crc.update(&src.octets());
                crc.update(&dst.octets());
                true
            }
            (src, dst) => {
                crc.update(&[0x6f, 0xff, 0xff, 0xff, 0, 0, ip::PROTOCOL_UDP, 0xff]);
                for address in [src, dst] {
                    crc.update(&match address {
                        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
                        IpAddr::V6(v6) => v6.octets(),
                    });
                }
                false
            }
        };
        crc.update(&src_port.to_be_bytes());
        crc.update(&dst_port.to_be_bytes());
        crc.update(&[0, 0, 0xff, 0xff]);
        let mut bth = [0; Bth::LEN];
        bth[BTH_CONGESTION] = 0xff;
        crc.update(&bth);
        Self {
            constant: !crc.finalize(),
            is_ipv4,
        }
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
        let outer = if self.is_ipv4 {
            let ip_len = udp_len.checked_add(ipv4::LEN as u16)?;
            parts::ipv4(ip_len, ipv4_id, ipv4_flags)
        } else {
            parts::ipv6(udp_len)
        };
        let register = self.constant ^ outer ^ parts::udp(udp_len) ^ parts::bth(bth);
        Some(finish(register, rest))
    }
}

/// Where the BTH has FECN, BECN and six reserved bits.
const BTH_CONGESTION: usize = 4;

/// Runs the register over the rest of the input and returns the CRC.
#[inline]
fn finish(register: u32, rest: &[u8]) -> u32 {
    if rest.is_empty() {
        return !register;
    }
    let mut crc = crc32fast::Hasher::new_with_initial(!register);
    crc.update(rest);
    crc.finalize()
}

#[cfg(test)]
mod tests;
