//! The ICRC of RoCEv1, over a global route header instead of IP and UDP.

use super::{BTH_CONGESTION, finish};
use crate::bth::Bth;
use crate::packet::ICRC_LEN;

/// Returns the ICRC's value of a RoCEv1 packet (BTH to ICRC), whatever its last four bytes are.
///
/// Traffic class, flow label and hop limit of the GRH are masked. Returns nothing if the packet is
/// shorter than BTH and ICRC.
pub fn icrc_v1(grh: &[u8; 40], packet: &[u8]) -> Option<u32> {
    let (covered, _) = packet.split_last_chunk::<ICRC_LEN>()?;
    let (bth, rest) = covered.split_first_chunk::<{ Bth::LEN }>()?;
    let (mut grh, mut bth) = (*grh, *bth);
    for (byte, mask) in grh.iter_mut().zip(GRH_MASK) {
        *byte |= mask;
    }
    bth[BTH_CONGESTION] = 0xff;
    let mut crc = crc32fast::Hasher::new();
    crc.update(&[0xff; 8]);
    crc.update(&grh);
    crc.update(&bth);
    Some(finish(!crc.finalize(), rest))
}

/// Returns whether a RoCEv1 packet's ICRC is right.
pub fn verify_v1(grh: &[u8; 40], packet: &[u8]) -> bool {
    packet
        .last_chunk::<ICRC_LEN>()
        .is_some_and(|icrc| icrc_v1(grh, packet) == Some(u32::from_le_bytes(*icrc)))
}

/// Traffic class and flow label; hop limit.
const GRH_MASK: [u8; 8] = [0x0f, 0xff, 0xff, 0xff, 0, 0, 0, 0xff];
