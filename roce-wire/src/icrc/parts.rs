//! What single bytes in front of the packet's body add to the register.

use super::BTH_CONGESTION;
use crate::bth::Bth;

/// Returns what lengths and flags add in an IPv4 header.
#[inline]
pub(super) fn ipv4(len: u16, id: u16, flags: u16) -> u32 {
    let [l0, l1] = len.to_be_bytes();
    let [i0, i1] = id.to_be_bytes();
    let [f0, f1] = flags.to_be_bytes();
    add(&IPV4[0], l0)
        ^ add(&IPV4[1], l1)
        ^ add(&IPV4[2], i0)
        ^ add(&IPV4[3], i1)
        ^ add(&IPV4[4], f0)
        ^ add(&IPV4[5], f1)
}

/// Returns what the payload length adds in an IPv6 header.
#[inline]
pub(super) fn ipv6(len: u16) -> u32 {
    let [l0, l1] = len.to_be_bytes();
    add(&IPV6[0], l0) ^ add(&IPV6[1], l1)
}

/// Returns what the length adds in a UDP header.
#[inline]
pub(super) fn udp(len: u16) -> u32 {
    let [l0, l1] = len.to_be_bytes();
    add(&UDP[0], l0) ^ add(&UDP[1], l1)
}

/// Returns what the BTH adds, without its congestion byte.
#[inline]
pub(super) fn bth(bytes: &[u8; Bth::LEN]) -> u32 {
    let mut sum = 0;
    for (at, byte) in bytes.iter().enumerate() {
        if at != BTH_CONGESTION {
            sum ^= add(&BTH[at], *byte);
        }
    }
    sum
}

/// What each value of a byte adds to the register, for one place of the byte.
type Table = [u32; 256];

#[inline]
fn add(table: &Table, byte: u8) -> u32 {
    table[usize::from(byte)]
}

/// The bytes of the BTH: the last of them has none behind it.
static BTH: [Table; Bth::LEN] = places(Bth::LEN - 1);

/// The UDP length's two bytes, with the checksum and the BTH behind them.
static UDP: [Table; 2] = places(3 + Bth::LEN);

/// Length, Identification, flags; then 12 more bytes of IPv4, UDP and the BTH.
static IPV4: [Table; 6] = places(5 + 12 + 8 + Bth::LEN);

/// The payload length; then 34 more bytes of IPv6, UDP and the BTH.
static IPV6: [Table; 2] = places(1 + 34 + 8 + Bth::LEN);

/// Makes the tables of neighbouring bytes, of which the first has `behind` bytes behind it.
const fn places<const N: usize>(behind: usize) -> [Table; N] {
    let mut tables = [[0; 256]; N];
    let mut at = 0;
    while at < N {
        let mut value = 0;
        while value < 256 {
            let mut register = value as u32;
            let mut bits = (behind - at + 1) * 8;
            while bits > 0 {
                register = super::gf2::times_x(register);
                bits -= 1;
            }
            tables[at][value] = register;
            value += 1;
        }
        at += 1;
    }
    tables
}
