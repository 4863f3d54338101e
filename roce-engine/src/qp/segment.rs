//! Cutting messages into packets: pure functions of operation, length, packet number and path MTU.

use roce_wire::{AtomicEth, Ext, Opcode, Reth};

use crate::verbs::SendOp;

/// One packet of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Segment {
    /// Its opcode.
    pub(crate) opcode: Opcode,
    /// Its extended headers.
    pub(crate) ext: Ext,
    /// Where its payload starts in the message.
    pub(crate) offset: u32,
    /// Its payload's bytes.
    pub(crate) len: u32,
    /// The PSNs that it takes: more than one for a READ request.
    pub(crate) psns: u32,
    /// It ends its message.
    pub(crate) last: bool,
}

/// Cuts packet number `packet` of a message.
///
/// A READ is asked for in pieces that end at multiples of `read_span` packets, wherever it starts, so
/// that a READ that is resumed in its middle has its responses cut as before.
pub(crate) fn cut(op: &SendOp, length: u32, packet: u32, mtu: u32, read_span: u32) -> Segment {
    match *op {
        SendOp::Read { addr, rkey } => {
            let total = crate::path::packets(length, mtu);
            let end = ((packet / read_span + 1) * read_span).min(total);
            let start_byte = packet * mtu;
            let end_byte = (u64::from(end) * u64::from(mtu)).min(u64::from(length)) as u32;
            let reth = Reth {
                addr: addr.wrapping_add(u64::from(start_byte)),
                rkey,
                length: end_byte - start_byte,
            };
            Segment {
                opcode: Opcode::RC_RDMA_READ_REQUEST,
                ext: Ext {
                    reth: Some(reth),
                    ..Ext::NONE
                },
                offset: start_byte,
                len: 0,
                psns: end - packet,
                last: end == total,
            }
        }
        SendOp::CompareSwap {
            addr,
            rkey,
            compare,
            swap,
        } => atomic(
            Opcode::RC_CMP_SWAP,
            AtomicEth {
                addr,
                rkey,
                swap_add: swap,
                compare,
            },
        ),
        SendOp::FetchAdd { addr, rkey, add } => atomic(
            Opcode::RC_FETCH_ADD,
            AtomicEth {
                addr,
                rkey,
                swap_add: add,
                compare: 0,
            },
        ),
        // Local requests and datagrams are not cut; they never come here.
        SendOp::BindMw { .. } | SendOp::LocalInv(_) | SendOp::Datagram { .. } => Segment {
            opcode: Opcode::UD_SEND_ONLY,
            ext: Ext::NONE,
            offset: 0,
            len: length,
            psns: 1,
            last: true,
        },
        SendOp::Send
        | SendOp::SendImm(_)
        | SendOp::SendInv(_)
        | SendOp::Write { .. }
        | SendOp::WriteImm { .. } => data(op, length, packet, mtu),
    }
}

const fn atomic(opcode: Opcode, eth: AtomicEth) -> Segment {
    let ext = Ext {
        atomic: Some(eth),
        ..Ext::NONE
    };
    Segment {
        opcode,
        ext,
        offset: 0,
        len: 0,
        psns: 1,
        last: true,
    }
}

fn data(op: &SendOp, length: u32, packet: u32, mtu: u32) -> Segment {
    let offset = packet * mtu;
    let left = length - offset;
    let first = packet == 0;
    let last = left <= mtu;
    let mut ext = Ext::NONE;
    if first {
        ext.reth = match *op {
            SendOp::Write { addr, rkey } | SendOp::WriteImm { addr, rkey, .. } => {
                Some(Reth { addr, rkey, length })
            }
            _ => None,
        };
    }
    if last {
        match *op {
            SendOp::SendImm(imm) | SendOp::WriteImm { imm, .. } => ext.imm = Some(imm),
            SendOp::SendInv(rkey) => ext.ieth = Some(rkey),
            _ => {}
        }
    }
    Segment {
        opcode: opcode(op, first, last),
        ext,
        offset,
        len: left.min(mtu),
        psns: 1,
        last,
    }
}

const fn opcode(op: &SendOp, first: bool, last: bool) -> Opcode {
    match op {
        SendOp::Write { .. } => match (first, last) {
            (true, true) => Opcode::RC_RDMA_WRITE_ONLY,
            (true, false) => Opcode::RC_RDMA_WRITE_FIRST,
            (false, false) => Opcode::RC_RDMA_WRITE_MIDDLE,
            (false, true) => Opcode::RC_RDMA_WRITE_LAST,
        },
        SendOp::WriteImm { .. } => match (first, last) {
            (true, true) => Opcode::RC_RDMA_WRITE_ONLY_WITH_IMM,
            (true, false) => Opcode::RC_RDMA_WRITE_FIRST,
            (false, false) => Opcode::RC_RDMA_WRITE_MIDDLE,
            (false, true) => Opcode::RC_RDMA_WRITE_LAST_WITH_IMM,
        },
        SendOp::SendImm(_) => match (first, last) {
            (true, true) => Opcode::RC_SEND_ONLY_WITH_IMM,
            (true, false) => Opcode::RC_SEND_FIRST,
            (false, false) => Opcode::RC_SEND_MIDDLE,
            (false, true) => Opcode::RC_SEND_LAST_WITH_IMM,
        },
        SendOp::SendInv(_) => match (first, last) {
            (true, true) => Opcode::RC_SEND_ONLY_WITH_INV,
            (true, false) => Opcode::RC_SEND_FIRST,
            (false, false) => Opcode::RC_SEND_MIDDLE,
            (false, true) => Opcode::RC_SEND_LAST_WITH_INV,
        },
        _ => match (first, last) {
            (true, true) => Opcode::RC_SEND_ONLY,
            (true, false) => Opcode::RC_SEND_FIRST,
            (false, false) => Opcode::RC_SEND_MIDDLE,
            (false, true) => Opcode::RC_SEND_LAST,
        },
    }
}

/// Returns the opcode of a READ response.
pub(crate) const fn read_response(first: bool, last: bool) -> Opcode {
    match (first, last) {
        (true, true) => Opcode::RC_RDMA_READ_RESPONSE_ONLY,
        (true, false) => Opcode::RC_RDMA_READ_RESPONSE_FIRST,
        (false, false) => Opcode::RC_RDMA_READ_RESPONSE_MIDDLE,
        (false, true) => Opcode::RC_RDMA_READ_RESPONSE_LAST,
    }
}

/// Returns how many packets a piece of a READ may span.
///
/// Long READs are cut so that responses are clocked by requests. The first and the last response of a piece
/// carry an AETH and so differ in size from those between, and a link hands the system only runs of frames of
/// one size at once: pieces of 16 packets made a READ of many pieces a fifth slower than pieces of 32. One
/// alone in the air must fill the path by itself.
pub(crate) const fn read_span(max_rd_atomic: u8) -> u32 {
    if max_rd_atomic > 1 { 32 } else { 64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roce_wire::RKey;

    #[test]
    fn a_read_alone_in_the_air_has_the_longer_pieces() {
        assert_eq!([0, 1, 2, 16].map(read_span), [64, 64, 32, 32]);
    }

    const WRITE: SendOp = SendOp::Write {
        addr: 0x1000,
        rkey: RKey(7),
    };
    const READ: SendOp = SendOp::Read {
        addr: 0x1000,
        rkey: RKey(7),
    };

    #[test]
    fn pieces_cover_every_length_exactly() {
        for mtu in [256, 1024, 4096] {
            for length in [0, 1, mtu - 1, mtu, mtu + 1, 2 * mtu, 5 * mtu + 3] {
                let total = crate::path::packets(length, mtu);
                let mut covered = 0;
                for packet in 0..total {
                    let segment = cut(&WRITE, length, packet, mtu, 16);
                    assert_eq!(segment.offset, covered);
                    assert_eq!(segment.last, packet + 1 == total);
                    assert_eq!(segment.ext.reth.is_some(), packet == 0);
                    assert!(segment.last || segment.len == mtu);
                    covered += segment.len;
                }
                assert_eq!(covered, length);
            }
        }
    }

    #[test]
    fn opcodes_follow_the_position() {
        let at = |op: &SendOp, length, packet| cut(op, length, packet, 256, 16).opcode;
        let imm = SendOp::WriteImm {
            addr: 0,
            rkey: RKey(1),
            imm: [1, 2, 3, 4],
        };
        assert_eq!(at(&imm, 512, 0), Opcode::RC_RDMA_WRITE_FIRST);
        assert_eq!(at(&imm, 512, 1), Opcode::RC_RDMA_WRITE_LAST_WITH_IMM);
        assert_eq!(at(&imm, 1, 0), Opcode::RC_RDMA_WRITE_ONLY_WITH_IMM);
        let inv = SendOp::SendInv(RKey(9));
        assert_eq!(at(&inv, 600, 1), Opcode::RC_SEND_MIDDLE);
        assert_eq!(cut(&inv, 600, 2, 256, 16).ext.ieth, Some(RKey(9)));
        assert_eq!(cut(&inv, 600, 1, 256, 16).ext.ieth, None);
    }

    #[test]
    fn a_read_is_asked_for_in_pieces_with_stable_ends() {
        let length = 40 * 256 + 1;
        let first = cut(&READ, length, 0, 256, 16);
        assert_eq!((first.psns, first.last), (16, false));
        assert_eq!(first.ext.reth.map(|reth| reth.length), Some(16 * 256));
        let resumed = cut(&READ, length, 5, 256, 16);
        assert_eq!(resumed.psns, 11);
        assert_eq!(
            resumed.ext.reth.map(|reth| reth.addr),
            Some(0x1000 + 5 * 256)
        );
        let end = cut(&READ, length, 32, 256, 16);
        assert_eq!((end.psns, end.last), (9, true));
        assert_eq!(end.ext.reth.map(|reth| reth.length), Some(8 * 256 + 1));
        assert_eq!(cut(&READ, 0, 0, 256, 16).psns, 1);
    }

    #[test]
    fn the_longest_message_does_not_overflow() {
        let length = 1 << 31;
        let last = (1 << 31) / 256 - 1;
        let segment = cut(&READ, length, last, 256, 16);
        assert_eq!((segment.psns, segment.last), (1, true));
        assert!(cut(&WRITE, length, last, 256, 16).last);
    }
}
