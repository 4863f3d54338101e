//! The ICRC of RoCEv1, over a global route header instead of IP and UDP.

use super::{bth_word, run};
use crate::bth::Bth;
use crate::packet::ICRC_LEN;

/// Returns the ICRC's value of a RoCEv1 packet (BTH to ICRC), whatever its last four bytes are.
///
/// Traffic class, flow label and hop limit of the GRH are masked. Returns nothing if the packet is
/// shorter than BTH and ICRC.
pub fn icrc_v1(grh: &[u8; 40], packet: &[u8]) -> Option<u32> {
    let (covered, _) = packet.split_last_chunk::<ICRC_LEN>()?;
    let (bth, rest) = covered.split_first_chunk::<{ Bth::LEN }>()?;
    let (head, addresses) = grh.split_first_chunk::<8>()?;
    let (src, dst) = addresses.split_first_chunk::<16>()?;
    let head = u64::from_be_bytes(*head) | 0x0fff_ffff_0000_00ff;
    let src = u128::from_be_bytes(*src);
    let dst = u128::from_be_bytes(*dst.first_chunk::<16>()?);
    // Four ones (see `Prefix`), behind as many zeros as make whole blocks; GRH; BTH.
    let head = u128::from(head);
    let blocks = [
        0xffff_ffff << 32 | head >> 32,
        head << 96 | src >> 32,
        src << 96 | dst >> 32,
        dst << 96 | bth_word(bth) | 0xff << 56,
    ];
    Some(run(blocks, rest))
}

/// Returns whether a RoCEv1 packet's ICRC is right.
pub fn verify_v1(grh: &[u8; 40], packet: &[u8]) -> bool {
    packet
        .last_chunk::<ICRC_LEN>()
        .is_some_and(|icrc| icrc_v1(grh, packet) == Some(u32::from_le_bytes(*icrc)))
}
