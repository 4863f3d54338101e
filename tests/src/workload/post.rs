//! Work requests from a program's entries.

use roce_engine::verbs::{Backend, Mr, Payload, PostError, RecvWr, SendOp, SendWr, Sge};

use crate::workload::setup::{Endpoint, Side};
use crate::workload::{Kind, Op, Piece};

/// Marks the ids of receives.
pub(super) const RECEIVE: u64 = 1 << 63;

/// Makes the requests of one end.
pub(super) struct Requests<'a> {
    endpoint: &'a Endpoint,
    peer: &'a Side,
    connection: usize,
}

impl<'a> Requests<'a> {
    pub(super) fn new(endpoint: &'a Endpoint, peer: &'a Side, connection: usize) -> Self {
        Self {
            endpoint,
            peer,
            connection,
        }
    }

    /// Posts requests, the first of which is number `first` of the program, in one call.
    pub(super) fn post<B: Backend>(
        &self,
        device: &mut B,
        first: usize,
        ops: &[Op],
    ) -> Result<(), PostError> {
        let sges: Vec<Vec<Sge>> = ops
            .iter()
            .map(|op| sges(&self.endpoint.local.mr, &op.pieces))
            .collect();
        let inline: Vec<Vec<u8>> = ops.iter().map(|op| self.inline_bytes(op)).collect();
        let requests: Vec<SendWr<'_>> = ops
            .iter()
            .enumerate()
            .map(|(at, op)| SendWr {
                wr_id: id(self.connection, first + at),
                op: self.operation(op),
                payload: if op.inline {
                    Payload::Inline(&inline[at])
                } else {
                    Payload::Sges(&sges[at])
                },
                flags: op.flags,
            })
            .collect();
        device.post_send(self.endpoint.qp, &requests)
    }

    /// Posts `count` receives from number `first` on.
    pub(super) fn post_receives<B: Backend>(
        device: &mut B,
        endpoint: &Endpoint,
        connection: usize,
        first: usize,
        count: usize,
    ) -> Result<(), PostError> {
        let receives = &endpoint.receives[first..first + count];
        let sges: Vec<Vec<Sge>> = receives
            .iter()
            .map(|pieces| sges(&endpoint.received.mr, pieces))
            .collect();
        let requests: Vec<RecvWr<'_>> = sges
            .iter()
            .enumerate()
            .map(|(at, sges)| RecvWr {
                wr_id: RECEIVE | id(connection, first + at),
                sges,
            })
            .collect();
        device.post_recv(endpoint.qp, &requests)
    }

    fn operation(&self, op: &Op) -> SendOp {
        let remote = &self.peer.endpoints[self.connection];
        let target = &remote.target.mr;
        let (addr, rkey) = (target.addr + op.remote as u64, target.rkey);
        match op.kind {
            Kind::Send => SendOp::Send,
            Kind::SendImm(imm) => SendOp::SendImm(imm),
            Kind::SendInv(spare) => SendOp::SendInv(remote.spare[spare]),
            Kind::Write => SendOp::Write { addr, rkey },
            Kind::WriteImm(imm) => SendOp::WriteImm { addr, rkey, imm },
            Kind::Read { .. } => SendOp::Read { addr, rkey },
            Kind::CompareSwap { compare, swap, .. } => SendOp::CompareSwap {
                addr,
                rkey,
                compare,
                swap,
            },
            Kind::FetchAdd { add, .. } => SendOp::FetchAdd { addr, rkey, add },
            Kind::SharedAdd { add } => SendOp::FetchAdd {
                addr: self.peer.shared.mr.addr + op.remote as u64 * 8,
                rkey: self.peer.shared.mr.rkey,
                add,
            },
        }
    }

    fn inline_bytes(&self, op: &Op) -> Vec<u8> {
        if !op.inline {
            return Vec::new();
        }
        let mut bytes = Vec::new();
        for piece in &op.pieces {
            let start = bytes.len();
            bytes.resize(start + piece.len, 0);
            self.endpoint
                .local
                .region
                .read(piece.offset, &mut bytes[start..]);
        }
        bytes
    }
}

fn sges(mr: &Mr, pieces: &[Piece]) -> Vec<Sge> {
    let sge = |piece: &Piece| Sge {
        addr: mr.addr + piece.offset as u64,
        length: piece.len as u32,
        lkey: mr.lkey,
    };
    pieces.iter().map(sge).collect()
}

const fn id(connection: usize, index: usize) -> u64 {
    (connection as u64) << 32 | index as u64
}
