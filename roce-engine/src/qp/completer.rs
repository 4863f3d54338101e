//! Responses → completions: acks, NAKs, READ data, atomic results, and what they imply.

use roce_wire::{NakCode, OpcodeInfo, Operation, Packet, Psn, Syndrome};

use super::Qp;
use super::retry::Cause;
use super::segment::read_span;
use super::send_queue::Source;
use super::timer::Timer;
use super::violation::status_of;
use crate::sge;
use crate::shared::Shared;
use crate::time::Instant;
use crate::verbs::{Completion, SendFlags, SendOp, Service, Status, WcOpcode};

/// A response to a later request came while a READ or an atomic is not answered: its answer was lost.
struct ImpliedNak;

impl Qp {
    /// Processes a response.
    pub(super) fn on_response(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        packet: &Packet<'_>,
        info: OpcodeInfo,
    ) {
        let psn = packet.bth.psn;
        let requester = &self.requester;
        if !psn.is_before(requester.next_psn) {
            shared.counters.ghost_response += 1;
            return;
        }
        if psn.is_before(requester.una) {
            shared.counters.duplicate_response += 1;
            return;
        }
        match info.operation {
            Operation::Acknowledge => self.on_acknowledge(shared, now, packet),
            Operation::ReadResponse => self.on_read_response(shared, now, packet, info),
            Operation::AtomicAcknowledge => self.on_atomic_ack(shared, now, packet),
            _ => shared.counters.drop_malformed += 1,
        }
        // An error has emptied the queue already.
        if self.can_receive() {
            self.settle_failed(shared);
            self.report_drained(shared);
        }
    }

    fn on_acknowledge(&mut self, shared: &mut Shared, now: Instant, packet: &Packet<'_>) {
        let Some(aeth) = packet.ext.aeth else { return };
        let psn = packet.bth.psn;
        match aeth.syndrome {
            Syndrome::Ack { .. } => {
                self.acknowledge(shared, now, psn.next());
            }
            Syndrome::Nak(NakCode::SequenceError) => {
                shared.counters.rcvd_seq_err += 1;
                // rxe sends a sequence NAK behind its RNR NAK: the delay still counts.
                if self.acknowledge(shared, now, psn) && !self.timers.is_set(Timer::Rnr) {
                    self.resend(shared, now, Cause::SequenceNak);
                }
            }
            Syndrome::Rnr { timer } => {
                if self.acknowledge(shared, now, psn) {
                    self.on_rnr(shared, now, timer);
                }
            }
            Syndrome::Nak(code) => {
                shared.counters.rcvd_fatal_nak += 1;
                // If an earlier READ lost its answer it can't be had any more: it gets the status.
                let before = self.requester.una;
                let _ = self.settle(shared, psn);
                self.progressed(shared, now, before);
                self.fail_head(shared, status_of(code));
            }
            Syndrome::Reserved(_) => shared.counters.drop_malformed += 1,
        }
    }

    /// Completes everything before `upto`. False if an answer was lost, which is then asked for again.
    fn acknowledge(&mut self, shared: &mut Shared, now: Instant, upto: Psn) -> bool {
        let before = self.requester.una;
        let settled = self.settle(shared, upto);
        // Progress first: a NAK that moved the window is news even while an earlier one is answered.
        self.progressed(shared, now, before);
        if settled.is_err() {
            shared.counters.implied_nak_seq_err += 1;
            if !self.timers.is_set(Timer::Rnr) {
                self.resend(shared, now, Cause::ImpliedNak);
            }
        }
        settled.is_ok()
    }

    fn progressed(&mut self, shared: &mut Shared, now: Instant, before: Psn) {
        let packets = self.requester.una.distance_from(before);
        if packets > 0 {
            self.on_progress(shared, now, packets as u32);
        }
    }

    /// Completes everything before `upto`; stops at a READ or an atomic without its answer.
    fn settle(&mut self, shared: &mut Shared, upto: Psn) -> Result<(), ImpliedNak> {
        let result = loop {
            let requester = &mut self.requester;
            let ahead = upto.distance_from(requester.una);
            if ahead <= 0 || requester.queue.is_empty() {
                break Ok(());
            }
            let wqe = requester.queue.at(requester.queue.head());
            let Some(first) = wqe.first_psn else {
                break Ok(());
            };
            if wqe.op.is_local() {
                // It was executed in its turn and only waited for those before it.
                self.retire_local(shared);
                continue;
            }
            let done = requester.una.value().wrapping_sub(first.value()) & 0x00ff_ffff;
            if wqe.op.is_fetch() {
                break Err(ImpliedNak);
            }
            if done + ahead as u32 >= wqe.packets {
                requester.una = first.add(wqe.packets);
                self.complete_head(shared, Status::Success);
            } else {
                requester.una = upto;
            }
        };
        self.retire_local(shared);
        self.requester.catch_up();
        result
    }

    fn on_read_response(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        packet: &Packet<'_>,
        info: OpcodeInfo,
    ) {
        if packet
            .ext
            .aeth
            .is_some_and(|aeth| !matches!(aeth.syndrome, Syndrome::Ack { .. }))
        {
            shared.counters.drop_malformed += 1;
            return;
        }
        let psn = packet.bth.psn;
        if !self.acknowledge(shared, now, psn) {
            return;
        }
        let Some((length, arrived, packets)) = self.awaited_read(psn) else {
            shared.counters.ghost_response += 1;
            return;
        };
        let mtu = self.mtu();
        let offset = arrived * mtu;
        let expected = (length - offset).min(mtu) as usize;
        let span = read_span(self.requester.max_rd_atomic);
        let last = arrived + 1 == packets || (arrived + 1).is_multiple_of(span);
        // A piece begins with a start. Inside of it the answer to a repeated request may start anywhere.
        let out_of_place = info.position.is_end() != last
            || arrived.is_multiple_of(span) && !info.position.is_start();
        if packet.payload.len() != expected || out_of_place {
            self.fail_head(shared, Status::BadRespErr);
            return;
        }
        if self.store(shared, offset, packet.payload).is_err() {
            self.fail_head(shared, Status::LocProtErr);
            return;
        }
        self.arrived(shared, now, psn, arrived + 1 == packets);
    }

    /// Returns length, arrived packets and packets of the READ that waits for this PSN.
    fn awaited_read(&self, psn: Psn) -> Option<(u32, u32, u32)> {
        let requester = &self.requester;
        // A late answer from before a rewind is as good: nothing asks that it was requested again.
        if requester.queue.is_empty() || requester.una != psn {
            return None;
        }
        let wqe = requester.queue.at(requester.queue.head());
        wqe.first_psn?;
        matches!(wqe.op, SendOp::Read { .. }).then_some((wqe.length, wqe.arrived, wqe.packets))
    }

    fn on_atomic_ack(&mut self, shared: &mut Shared, now: Instant, packet: &Packet<'_>) {
        let (Some(value), Some(aeth)) = (packet.ext.atomic_ack, packet.ext.aeth) else {
            return;
        };
        if !matches!(aeth.syndrome, Syndrome::Ack { .. }) {
            shared.counters.drop_malformed += 1;
            return;
        }
        let psn = packet.bth.psn;
        if !self.acknowledge(shared, now, psn) {
            return;
        }
        let requester = &self.requester;
        let awaited = !requester.queue.is_empty() && {
            let wqe = requester.queue.at(requester.queue.head());
            wqe.op.is_atomic() && wqe.first_psn == Some(psn)
        };
        if !awaited {
            shared.counters.ghost_response += 1;
            return;
        }
        if self.store(shared, 0, &value.0.to_ne_bytes()).is_err() {
            self.fail_head(shared, Status::LocProtErr);
            return;
        }
        self.arrived(shared, now, psn, true);
    }

    fn store(&self, shared: &Shared, offset: u32, data: &[u8]) -> Result<(), sge::Denied> {
        match self.requester.queue.source(self.requester.queue.head()) {
            Source::Sges(sges) => sge::scatter(&shared.memory, self.init.pd, sges, offset, data),
            // Posting refuses inline data on operations that fetch.
            Source::Inline(_) => Err(sge::Denied),
        }
    }

    /// The packet `psn` of the head's answer has arrived.
    fn arrived(&mut self, shared: &mut Shared, now: Instant, psn: Psn, complete: bool) {
        let requester = &mut self.requester;
        let head = requester.queue.head();
        requester.queue.at_mut(head).arrived += 1;
        requester.una = psn.next();
        while requester
            .reads
            .front()
            .is_some_and(|read| !psn.is_before(read.end.prev()))
        {
            requester.reads.pop_front();
        }
        if complete {
            self.complete_head(shared, Status::Success);
        }
        self.retire_local(shared);
        self.requester.catch_up();
        self.progressed(shared, now, psn);
    }

    /// Takes the oldest request and completes it.
    pub(super) fn complete_head(&mut self, shared: &mut Shared, status: Status) {
        let Some(wqe) = self.requester.queue.pop() else {
            return;
        };
        let wanted = self.init.sq_sig_all || wqe.flags.contains(SendFlags::SIGNALED);
        if status == Status::Success && !wanted {
            return;
        }
        let (opcode, byte_len) = match wqe.op {
            SendOp::Send | SendOp::SendImm(_) | SendOp::SendInv(_) => (WcOpcode::Send, 0),
            SendOp::Write { .. } | SendOp::WriteImm { .. } => (WcOpcode::Write, 0),
            SendOp::Read { .. } => (WcOpcode::Read, wqe.length),
            SendOp::CompareSwap { .. } => (WcOpcode::CompareSwap, 8),
            SendOp::FetchAdd { .. } => (WcOpcode::FetchAdd, 8),
            SendOp::Datagram { .. } => (WcOpcode::Send, 0),
            SendOp::BindMw { .. } => (WcOpcode::BindMw, 0),
            SendOp::LocalInv(_) => (WcOpcode::LocalInv, 0),
        };
        let completion = Completion {
            wr_id: wqe.wr_id,
            status,
            opcode,
            byte_len,
            qpn: self.qpn,
            ..Completion::default()
        };
        shared.complete(self.init.send_cq, completion);
    }

    /// Completes a request that can't be sent, once it is the oldest.
    pub(super) fn settle_failed(&mut self, shared: &mut Shared) {
        let requester = &self.requester;
        if requester.queue.is_empty() {
            return;
        }
        if let Some(status) = requester.queue.at(requester.queue.head()).failed {
            self.fail_head(shared, status);
        }
    }

    /// Fails the oldest request, and with it the QP.
    pub(super) fn fail_head(&mut self, shared: &mut Shared, status: Status) {
        self.complete_head(shared, status);
        match self.service() {
            Service::Rc => self.enter_error(shared),
            // Only the send queue fails: the peer knows nothing and goes on sending.
            Service::Uc | Service::Ud => self.enter_send_error(shared),
        }
    }
}
