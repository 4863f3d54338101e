//! Where a QP's receives come from: a queue of its own, or an SRQ.

use roce_wire::Packet;

use super::Qp;
use crate::recv_queue::RecvWqe;
use crate::sge;
use crate::shared::Shared;
use crate::verbs::{AsyncEvent, Completion, Status, WcOpcode};

impl Qp {
    /// Returns whether no receive waits.
    pub(super) fn no_receive(&self, shared: &Shared) -> bool {
        match self.init.srq {
            Some(srq) => shared.srq(srq).is_none_or(|srq| srq.queue.len() == 0),
            None => self.rq.len() == 0,
        }
    }

    /// Returns the bytes that the oldest receive holds.
    pub(super) fn next_capacity(&self, shared: &Shared) -> Option<u64> {
        let wqe = match self.init.srq {
            Some(srq) => shared.srq(srq)?.queue.peek(),
            None => self.rq.peek(),
        };
        wqe.map(|wqe| wqe.capacity)
    }

    /// Takes the oldest receive; its place stays taken until it completes.
    pub(super) fn take_receive(&mut self, shared: &mut Shared) -> Option<RecvWqe> {
        let Some(handle) = self.init.srq else {
            return self.rq.pop();
        };
        let srq = shared.srq_mut(handle)?;
        let wqe = srq.queue.pop()?;
        if srq.passed_limit() {
            shared.event(AsyncEvent::SrqLimit(handle));
        }
        Some(wqe)
    }

    /// Writes bytes of a message to a receive that was taken.
    pub(super) fn write_receive(
        &self,
        shared: &Shared,
        wqe: &RecvWqe,
        offset: u32,
        data: &[u8],
    ) -> Result<(), sge::Denied> {
        match self.init.srq {
            Some(srq) => {
                let srq = shared.srq(srq).ok_or(sge::Denied)?;
                sge::scatter(&shared.memory, srq.pd, srq.queue.sges(wqe), offset, data)
            }
            None => sge::scatter(
                &shared.memory,
                self.init.pd,
                self.rq.sges(wqe),
                offset,
                data,
            ),
        }
    }

    /// Completes a receive with a message.
    pub(super) fn complete_receive(
        &mut self,
        shared: &mut Shared,
        wqe: &RecvWqe,
        packet: &Packet<'_>,
        opcode: WcOpcode,
        byte_len: u32,
    ) {
        let completion = Completion {
            wr_id: wqe.wr_id,
            status: Status::Success,
            opcode,
            byte_len,
            qpn: self.qpn,
            src_qpn: packet.ext.deth.map(|deth| deth.src_qpn).unwrap_or_default(),
            imm: packet.ext.imm,
            invalidated: packet.ext.ieth,
            solicited: packet.bth.solicited,
        };
        self.release_receive(shared, wqe);
        shared.complete(self.init.recv_cq, completion);
    }

    /// Completes a receive without a message.
    pub(super) fn fail_receive(&mut self, shared: &mut Shared, wqe: &RecvWqe, status: Status) {
        self.release_receive(shared, wqe);
        self.flush_receive(shared, wqe.wr_id, status);
    }

    /// Completes a receive that was posted and never taken, or one that is not posted at all.
    pub(super) fn flush_receive(&self, shared: &mut Shared, wr_id: u64, status: Status) {
        let completion = Completion {
            wr_id,
            status,
            opcode: WcOpcode::Recv,
            qpn: self.qpn,
            ..Completion::default()
        };
        shared.complete(self.init.recv_cq, completion);
    }

    pub(super) fn release_receive(&mut self, shared: &mut Shared, wqe: &RecvWqe) {
        match self.init.srq {
            Some(srq) => {
                if let Some(srq) = shared.srq_mut(srq) {
                    srq.queue.release(wqe);
                }
            }
            None => self.rq.release(wqe),
        }
    }
}
