use super::*;
use crate::ids::{Qpn, RKey};
use crate::opcode::Opcode;
use crate::psn::Psn;
use crate::reth::Reth;

fn write_only(length: u32) -> Headers {
    Headers {
        bth: Bth::new(Opcode::RC_RDMA_WRITE_ONLY, Qpn::new(0x176), Psn::new(0x100)),
        ext: Ext {
            reth: Some(Reth {
                addr: 0x7f88_40ad_b000,
                rkey: RKey(0x3c82),
                length,
            }),
            ..Ext::NONE
        },
    }
}

fn build<'b>(headers: &Headers, payload: &[u8], buffer: &'b mut [u8; 256]) -> &'b [u8] {
    buffer.fill(0xa5);
    let len = headers.packet_len(payload.len());
    headers
        .frame(&mut buffer[..len], payload.len())
        .copy_from_slice(payload);
    buffer[len - ICRC_LEN..len].copy_from_slice(&[1, 2, 3, 4]);
    assert!(buffer[len..].iter().all(|byte| *byte == 0xa5));
    &buffer[..len]
}

#[test]
fn payloads_are_padded_to_four_bytes() {
    for len in 0..=9 {
        let payload = &[0x11; 9][..len];
        let mut buffer = [0; 256];
        let bytes = build(&write_only(len as u32), payload, &mut buffer);
        assert!(bytes.len().is_multiple_of(4));
        let packet = Packet::parse(bytes).unwrap();
        assert_eq!(packet.payload, payload);
        assert_eq!(usize::from(packet.bth.pad), [0, 3, 2, 1][len % 4]);
        assert_eq!(packet.pad_bytes, [0; 3]);
        assert_eq!(packet.icrc, [1, 2, 3, 4]);
        assert_eq!(packet.len(), bytes.len());
        assert_eq!(packet.headers(), write_only(len as u32).padded_for(len));
    }
}

#[test]
fn foreign_pad_bytes_survive() {
    let mut buffer = [0; 256];
    let len = build(&write_only(1), &[9], &mut buffer).len();
    buffer[len - 7..len - 4].copy_from_slice(&[7, 8, 9]);
    let packet = Packet::parse(&buffer[..len]).unwrap();
    let mut again = [0xa5; 256];
    packet.emit_into(&mut again);
    assert_eq!(again[..len], buffer[..len]);
    assert_eq!(again[len], 0xa5);
}

#[test]
fn an_undefined_opcode_is_told_before_any_length() {
    let mut bytes = [0; 12];
    bytes[0] = 0xff;
    bytes[1] = 0x30;
    assert_eq!(
        Packet::parse(&bytes),
        Err(ParseError::Unsupported(Unsupported::Opcode(Opcode(0xff))))
    );
}

#[test]
fn contradictions_have_names() {
    let mut buffer = [0; 256];
    let len = build(&write_only(0), &[], &mut buffer).len();
    buffer[1] |= 0x10;
    assert_eq!(
        Packet::parse(&buffer[..len]),
        Err(ParseError::Malformed(Malformed::PadBeyondPayload))
    );
    buffer[1] &= 0xcf;
    assert_eq!(
        Packet::parse(&buffer[..len + 2]),
        Err(ParseError::Malformed(Malformed::Unaligned))
    );
    buffer[1] |= 1;
    assert_eq!(
        Packet::parse(&buffer[..len]),
        Err(ParseError::Unsupported(Unsupported::BthVersion(1)))
    );
    buffer[1] &= 0xf0;
    buffer[0] = Opcode::RC_RDMA_READ_REQUEST.0;
    assert!(Packet::parse(&buffer[..len]).is_ok());
    assert_eq!(
        Packet::parse(&buffer[..len + 4]),
        Err(ParseError::Malformed(Malformed::UnexpectedPayload))
    );
    buffer[0] = Opcode::RC_ATOMIC_WRITE.0;
    assert_eq!(
        Packet::parse(&buffer[..len]),
        Err(ParseError::Malformed(Malformed::PayloadLength))
    );
    assert!(Packet::parse(&buffer[..len + 8]).is_ok());
}

#[test]
#[should_panic(expected = "no room for the ICRC")]
fn framing_needs_room_for_the_icrc() {
    write_only(4).frame(&mut [0; 32], 4);
}
