//! The base transport header, first in every packet.

use crate::cursor::u24;
use crate::ids::{PKey, Qpn};
use crate::opcode::Opcode;
use crate::psn::Psn;

/// The base transport header. Every value of its twelve bytes has one value here and back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bth {
    /// What the packet is.
    pub opcode: Opcode,
    /// Whether the receiver should be woken.
    pub solicited: bool,
    /// Path migration state: hardware sends true (migrated), rxe false. Accept both.
    pub migrated: bool,
    /// Bytes, 0 to 3, between payload and ICRC.
    pub pad: u8,
    /// The transport header's version, 4 bits: 0.
    pub version: u8,
    /// The partition.
    pub pkey: PKey,
    /// Forward congestion notification.
    pub fecn: bool,
    /// Backward congestion notification: set in a CNP.
    pub becn: bool,
    /// Six bits that senders leave 0 and the ICRC doesn't cover.
    pub reserved6: u8,
    /// The queue pair that the packet goes to.
    pub dest_qpn: Qpn,
    /// Whether the responder must acknowledge this packet.
    pub ack_request: bool,
    /// Seven bits that senders leave 0.
    pub reserved7: u8,
    /// The packet's sequence number.
    pub psn: Psn,
}

impl Bth {
    /// Bytes on the wire.
    pub const LEN: usize = 12;

    /// Makes the header of a packet as this stack sends it; flags are off and set by the caller.
    pub const fn new(opcode: Opcode, dest_qpn: Qpn, psn: Psn) -> Self {
        Self {
            opcode,
            solicited: false,
            migrated: true,
            pad: 0,
            version: 0,
            pkey: PKey::DEFAULT,
            fecn: false,
            becn: false,
            reserved6: 0,
            dest_qpn,
            ack_request: false,
            reserved7: 0,
            psn,
        }
    }

    /// Reads the header.
    #[inline]
    pub const fn from_bytes(bytes: &[u8; Self::LEN]) -> Self {
        let [
            opcode,
            flags,
            pkey0,
            pkey1,
            congestion,
            q0,
            q1,
            q2,
            ack,
            p0,
            p1,
            p2,
        ] = *bytes;
        Self {
            opcode: Opcode(opcode),
            solicited: flags & 0x80 != 0,
            migrated: flags & 0x40 != 0,
            pad: flags >> 4 & 3,
            version: flags & 0x0f,
            pkey: PKey(u16::from_be_bytes([pkey0, pkey1])),
            fecn: congestion & 0x80 != 0,
            becn: congestion & 0x40 != 0,
            reserved6: congestion & 0x3f,
            dest_qpn: Qpn::new(u24([q0, q1, q2])),
            ack_request: ack & 0x80 != 0,
            reserved7: ack & 0x7f,
            psn: Psn::new(u24([p0, p1, p2])),
        }
    }

    /// Writes the header. Bits that a field has no room for are dropped.
    #[inline]
    pub const fn to_bytes(self) -> [u8; Self::LEN] {
        let flags = (self.solicited as u8) << 7
            | (self.migrated as u8) << 6
            | (self.pad & 3) << 4
            | self.version & 0x0f;
        let congestion = (self.fecn as u8) << 7 | (self.becn as u8) << 6 | self.reserved6 & 0x3f;
        let ack = (self.ack_request as u8) << 7 | self.reserved7 & 0x7f;
        let [pkey0, pkey1] = self.pkey.0.to_be_bytes();
        let [_, q0, q1, q2] = self.dest_qpn.value().to_be_bytes();
        let [_, p0, p1, p2] = self.psn.value().to_be_bytes();
        [
            self.opcode.0,
            flags,
            pkey0,
            pkey1,
            congestion,
            q0,
            q1,
            q2,
            ack,
            p0,
            p1,
            p2,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_of_twelve_bytes_survives() {
        for position in 0..Bth::LEN {
            for value in 0..=255 {
                for background in [0x00, 0xff, 0xa5] {
                    let mut bytes = [background; Bth::LEN];
                    bytes[position] = value;
                    assert_eq!(Bth::from_bytes(&bytes).to_bytes(), bytes);
                }
            }
        }
    }

    #[test]
    fn fields_lie_where_the_wire_has_them() {
        let bth = Bth::from_bytes(&[
            0x04, 0xb0, 0x12, 0x34, 0x40, 0, 1, 2, 0x80, 0xff, 0xff, 0xfe,
        ]);
        assert_eq!(bth.opcode, Opcode::RC_SEND_ONLY);
        assert!(bth.solicited && !bth.migrated && bth.becn && !bth.fecn && bth.ack_request);
        assert_eq!((bth.pad, bth.version, bth.pkey), (3, 0, PKey(0x1234)));
        assert_eq!(
            (bth.dest_qpn, bth.psn),
            (Qpn::new(0x102), Psn::new(0xff_fffe))
        );
    }
}
