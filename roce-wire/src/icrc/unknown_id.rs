//! The ICRC of a packet whose IPv4 header a socket has kept to itself.
//!
//! The CRC is linear: an Identification other than 0 changes it by the Identification's own CRC,
//! which is the two bytes run over all that follows them. Running the difference back over as many
//! zeros gives a register whose low half is the Identification and whose high half is the
//! difference of the flags word after it. So a packet is right if the high half is one of the two
//! values that unfragmented packets have; a random corruption passes with probability 2^-15.

use super::{IPV4_DONT_FRAGMENT, IcrcSeed, gf2};
use crate::packet::ICRC_LEN;

impl IcrcSeed {
    /// Finds the Identification and flags word with which the packet's ICRC is right.
    ///
    /// Tries DF with Identification 0, DF with any other, no DF with any. Over IPv6 the ICRC is
    /// checked exactly, and both are 0. Returns nothing if no such pair explains the ICRC.
    pub fn recover(&self, packet: &[u8]) -> Option<(u16, u16)> {
        self.explain(packet, |difference, zeros| {
            gf2::multiply(difference, gf2::over_bytes(zeros))
        })
    }

    /// Returns the Identification and flags that explain the ICRC, with a way to run back.
    #[inline]
    fn explain(&self, packet: &[u8], run_back: impl FnOnce(u32, u16) -> u32) -> Option<(u16, u16)> {
        let (covered, icrc) = packet.split_last_chunk::<ICRC_LEN>()?;
        let computed = self.covered(0, IPV4_DONT_FRAGMENT, covered)?;
        let difference = computed ^ u32::from_le_bytes(*icrc);
        if !self.is_ipv4 {
            return (difference == 0).then_some((0, 0));
        }
        if difference == 0 {
            return Some((0, IPV4_DONT_FRAGMENT));
        }
        // `covered` has accepted the length, so the sum is below the IPv4 packet's length.
        let zeros = u16::try_from(FROM_ID_TO_BTH + covered.len()).ok()?;
        let register = run_back(difference, zeros);
        let id = (register as u16).swap_bytes();
        let flags = ((register >> 16) as u16).swap_bytes() ^ IPV4_DONT_FRAGMENT;
        (flags & !IPV4_DONT_FRAGMENT == 0).then_some((id, flags))
    }
}

/// Bytes from the IPv4 Identification to the end of UDP.
const FROM_ID_TO_BTH: usize = 16 + 8;

/// A cache of what running back needs, for the few packet lengths that a connection has.
///
/// It answers as [`IcrcSeed::recover`] does, some times faster. One serves any number of flows.
#[derive(Clone, Debug)]
pub struct IdRecovery {
    matrices: [Matrix; LENGTHS],
}

const LENGTHS: usize = 16;

/// The map of a register to the register some bytes of zeros earlier.
#[derive(Clone, Debug)]
struct Matrix {
    /// The bytes of zeros; 0 for an unused entry, which no packet has.
    zeros: u16,
    /// The images of the register's bits, lowest first.
    rows: [u32; 32],
}

impl IdRecovery {
    /// Makes an empty cache.
    pub const fn new() -> Self {
        Self {
            matrices: [const {
                Matrix {
                    zeros: 0,
                    rows: [0; 32],
                }
            }; LENGTHS],
        }
    }

    /// Finds the Identification and flags word as [`IcrcSeed::recover`] does.
    #[inline]
    pub fn recover(&mut self, seed: &IcrcSeed, packet: &[u8]) -> Option<(u16, u16)> {
        seed.explain(packet, |difference, zeros| {
            self.matrix(zeros).apply(difference)
        })
    }

    #[inline]
    fn matrix(&mut self, zeros: u16) -> &Matrix {
        // Packets are multiples of four bytes.
        let matrix = &mut self.matrices[usize::from(zeros / 4) % LENGTHS];
        if matrix.zeros != zeros {
            *matrix = Matrix::over(zeros);
        }
        matrix
    }
}

impl Default for IdRecovery {
    fn default() -> Self {
        Self::new()
    }
}

impl Matrix {
    #[cold]
    fn over(zeros: u16) -> Self {
        let mut rows = [0; 32];
        let mut image = gf2::over_bytes(zeros);
        for row in rows.iter_mut().rev() {
            *row = image;
            image = gf2::times_x(image);
        }
        Self { zeros, rows }
    }

    /// Multiplies without branches on the register's bits, so that it becomes vector code.
    #[inline]
    fn apply(&self, register: u32) -> u32 {
        let mut lanes = [0; 4];
        for (index, rows) in self.rows.as_chunks::<4>().0.iter().enumerate() {
            for (lane, row) in rows.iter().enumerate() {
                let bit = 1 << (index * 4 + lane);
                lanes[lane] ^= if register & bit == bit { *row } else { 0 };
            }
        }
        lanes[0] ^ lanes[1] ^ lanes[2] ^ lanes[3]
    }
}
