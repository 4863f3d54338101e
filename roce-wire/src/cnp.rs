//! The congestion notification packet: a BTH with BECN, 16 reserved bytes, the ICRC.

use crate::bth::Bth;
use crate::ext::Ext;
use crate::ids::Qpn;
use crate::opcode::Opcode;
use crate::packet::{CNP_RESERVED_LEN, Headers, ICRC_LEN, Packet};
use crate::psn::Psn;

/// Bytes of a CNP, BTH to ICRC.
pub const CNP_LEN: usize = Bth::LEN + CNP_RESERVED_LEN + ICRC_LEN;

/// Writes a CNP to the sender of congested packets; the ICRC is still to be sealed.
///
/// `dest_qpn` is the sender's own queue pair. A CNP is outside of the PSN order and never answered.
///
/// # Panics
///
/// `packet` is shorter than [`CNP_LEN`].
pub fn emit_cnp(dest_qpn: Qpn, packet: &mut [u8]) {
    let headers = Headers {
        bth: Bth {
            becn: true,
            ..Bth::new(Opcode::CNP, dest_qpn, Psn::new(0))
        },
        ext: Ext::NONE,
    };
    headers.frame(packet, CNP_RESERVED_LEN).fill(0);
}

/// Returns whether a packet is a CNP. One without BECN is none: it says nothing.
pub const fn is_cnp(packet: &Packet<'_>) -> bool {
    packet.bth.opcode.0 == Opcode::CNP.0 && packet.bth.becn
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Malformed, ParseError};

    #[test]
    fn a_cnp_is_an_empty_packet_with_becn() {
        let mut bytes = [0xa5; CNP_LEN];
        emit_cnp(Qpn::new(0x1234), &mut bytes);
        let packet = Packet::parse(&bytes).unwrap();
        assert!(is_cnp(&packet));
        assert_eq!(
            bytes[..12],
            [0x81, 0x40, 0xff, 0xff, 0x40, 0, 0x12, 0x34, 0, 0, 0, 0]
        );
        assert_eq!(packet.payload, [0; CNP_RESERVED_LEN]);
        bytes[4] = 0;
        assert!(!is_cnp(&Packet::parse(&bytes).unwrap()));
        assert_eq!(
            Packet::parse(&bytes[..CNP_LEN - 4]),
            Err(ParseError::Malformed(Malformed::PayloadLength))
        );
    }
}
