//! Checks requests in the specification's order and executes them: PSN, sequence, operation, resource,
//! length, memory. The order decides which NAK a peer sees, so it is one straight function a step.

use roce_wire::{Msn, OpcodeInfo, Operation, Packet, Position, Psn, Reth};

use super::Qp;
use super::ack::{Due, Nak};
use super::replay::{Kind, ReplayTable};
use super::violation::Violation;
use crate::mr::Claim;
use crate::recv_queue::RecvWqe;
use crate::shared::Shared;
use crate::verbs::{Access, AsyncEvent, QpState, Service, WcOpcode, WriteDone};

/// The longest message: 2^31 bytes (IBA 9.7.4.1.6).
const MAX_MESSAGE: u32 = 1 << 31;

/// What may come next.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Expect {
    /// The start of a message.
    #[default]
    Start,
    /// The rest of a SEND.
    SendRest,
    /// The rest of a WRITE.
    WriteRest {
        /// What is left of the memory that its RETH named.
        claim: Claim,
        /// The whole message's length.
        length: u32,
    },
}

/// What was said about the expected packet: nothing, or a NAK that is not to be repeated.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Gap {
    #[default]
    None,
    Said,
}

/// The receiving half of a QP.
#[derive(Debug, Default)]
pub(super) struct Responder {
    pub(super) epsn: Psn,
    pub(super) msn: Msn,
    pub(super) expect: Expect,
    pub(super) replay: ReplayTable,
    pub(super) due: Due,
    gap: Gap,
    /// The first request in RTR was reported.
    established: bool,
    /// The receive that a SEND is being written to, and how far.
    receive: Option<(RecvWqe, u32)>,
}

/// A request that can't be executed.
enum Refusal {
    /// No receive is posted.
    NotReady,
    /// The peer, or a receive, broke a rule.
    Violation(Violation),
}

impl From<Violation> for Refusal {
    fn from(violation: Violation) -> Self {
        Self::Violation(violation)
    }
}

impl Responder {
    /// Starts at a PSN.
    pub(super) fn start(&mut self, epsn: Psn, resources: u8) {
        *self = Self {
            epsn,
            replay: ReplayTable::new(resources),
            ..Self::default()
        };
    }

    pub(super) const fn expected_psn(&self) -> Psn {
        self.epsn
    }

    /// Returns whether anything waits to be sent.
    pub(super) fn owes(&self) -> bool {
        self.due.is_any() || self.replay.is_active()
    }

    /// Takes the receive that a message is being written to.
    pub(super) const fn take_receive(&mut self) -> Option<(RecvWqe, u32)> {
        self.receive.take()
    }
}

impl Qp {
    /// Processes a request.
    pub(super) fn on_request(
        &mut self,
        shared: &mut Shared,
        packet: &Packet<'_>,
        info: OpcodeInfo,
    ) {
        match self.service() {
            Service::Rc => {}
            Service::Uc => return self.on_unreliable(shared, packet, info),
            // A datagram has its own way in: it needs the network header.
            Service::Ud => return,
        }
        let distance = packet.bth.psn.distance_from(self.responder.epsn);
        if distance > 0 {
            self.on_gap(shared);
            return;
        }
        if distance < 0 {
            self.on_duplicate(shared, packet, info);
            return;
        }
        match self.execute(shared, packet, info) {
            Ok(psns) => self.accepted(shared, packet, info, psns),
            Err(Refusal::NotReady) => {
                let timer = self.attr.min_rnr_timer.unwrap_or(0);
                self.responder
                    .due
                    .ask_nak(Nak::Rnr { timer }, packet.bth.psn);
                // Whatever follows was sent before the sender could know: dropped without a word.
                self.responder.gap = Gap::Said;
            }
            Err(Refusal::Violation(violation)) => self.refuse(shared, violation, packet.bth.psn),
        }
    }

    fn on_gap(&mut self, shared: &mut Shared) {
        shared.counters.out_of_seq_request += 1;
        if self.responder.gap == Gap::None {
            self.responder.gap = Gap::Said;
            self.responder
                .due
                .ask_nak(Nak::Sequence, self.responder.epsn);
        } else {
            shared.counters.drop_out_of_sequence += 1;
        }
    }

    fn accepted(&mut self, shared: &mut Shared, packet: &Packet<'_>, info: OpcodeInfo, psns: u32) {
        self.report_established(shared);
        let responder = &mut self.responder;
        responder.epsn = responder.epsn.add(psns);
        responder.gap = Gap::None;
        responder.due.progressed();
        if info.position.is_end() {
            responder.msn = responder.msn.next();
        }
        // READ and atomics are acknowledged by their answer.
        let answered = !matches!(info.operation, Operation::Send | Operation::Write);
        if packet.bth.ack_request && !answered {
            let (psn, msn) = (packet.bth.psn, responder.msn);
            if responder.due.ask_ack(shared.turn, psn, msn) {
                shared.counters.acks_coalesced += 1;
            }
        }
    }

    /// Reports once that a peer speaks while the QP is in RTR: connected services only, as in
    /// the kernel's `hfi1/rc.c` and `hfi1/uc.c`.
    fn report_established(&mut self, shared: &mut Shared) {
        if self.state == QpState::Rtr && !self.responder.established {
            self.responder.established = true;
            shared.event(AsyncEvent::CommEstablished(self.qpn));
        }
    }

    /// Processes a packet of UC: what does not fit is dropped in silence, with the rest of its message
    /// (IBA 9.8.3). A receive that a message was cut off from serves the next one.
    fn on_unreliable(&mut self, shared: &mut Shared, packet: &Packet<'_>, info: OpcodeInfo) {
        let responder = &mut self.responder;
        let gap = packet.bth.psn != responder.epsn;
        if gap {
            shared.counters.unreliable_gaps += 1;
        }
        if gap || info.position.is_start() {
            responder.expect = Expect::Start;
        }
        responder.epsn = packet.bth.psn.next();
        if responder.expect == Expect::Start && !info.position.is_start() {
            shared.counters.drop_unreliable += 1;
            return;
        }
        match self.execute(shared, packet, info) {
            Ok(_) => {
                self.report_established(shared);
                if info.position.is_end() {
                    self.responder.msn = self.responder.msn.next();
                }
            }
            Err(refusal) => {
                self.responder.expect = Expect::Start;
                match refusal {
                    Refusal::NotReady => shared.counters.drop_no_receive += 1,
                    // Our own fault: every message that took this receive would be lost.
                    Refusal::Violation(violation) if violation.outcome().local => {
                        self.fail(shared, violation);
                    }
                    Refusal::Violation(_) => shared.counters.drop_unreliable += 1,
                }
            }
        }
    }

    /// Executes the expected request; returns the PSNs that it takes.
    fn execute(
        &mut self,
        shared: &mut Shared,
        packet: &Packet<'_>,
        info: OpcodeInfo,
    ) -> Result<u32, Refusal> {
        let fits = match self.responder.expect {
            Expect::Start => info.position.is_start(),
            Expect::SendRest => info.operation == Operation::Send && !info.position.is_start(),
            Expect::WriteRest { .. } => {
                info.operation == Operation::Write && !info.position.is_start()
            }
        };
        if !fits {
            return Err(Violation::Successor.into());
        }
        match info.operation {
            Operation::Send => self.execute_send(shared, packet, info.position).map(|()| 1),
            Operation::Write => self
                .execute_write(shared, packet, info.position)
                .map(|()| 1),
            Operation::ReadRequest => self.execute_read(shared, packet),
            Operation::CompareSwap | Operation::FetchAdd => {
                self.execute_atomic(shared, packet).map(|()| 1)
            }
            _ => Err(Violation::Unsupported.into()),
        }
    }

    fn execute_send(
        &mut self,
        shared: &mut Shared,
        packet: &Packet<'_>,
        position: Position,
    ) -> Result<(), Refusal> {
        if position.is_start() {
            let wqe = self.oldest_receive(shared).ok_or(Refusal::NotReady)?;
            self.responder.receive = Some((wqe, 0));
        }
        self.check_piece(packet.payload.len(), position)?;
        let Some((wqe, received)) = self.responder.receive else {
            return Err(Violation::Successor.into());
        };
        let len = packet.payload.len();
        let total = u64::from(received) + len as u64;
        if total > wqe.capacity {
            return Err(Violation::ReceiveTooShort.into());
        }
        // SGEs that overlap hold any number of bytes.
        if total > u64::from(MAX_MESSAGE) {
            return Err(Violation::Length.into());
        }
        if let Some(rkey) = packet.ext.ieth
            && !shared.memory.may_invalidate(self.init.pd, self.qpn, rkey)
        {
            return Err(Violation::Invalidate.into());
        }
        self.write_receive(shared, &wqe, received, packet.payload)
            .map_err(|_| Violation::ReceiveMemory)?;
        let received = received + len as u32;
        if position.is_end() {
            if let Some(rkey) = packet.ext.ieth {
                shared.memory.invalidate(self.init.pd, self.qpn, rkey);
            }
            self.responder.expect = Expect::Start;
            self.responder.receive = None;
            self.complete_receive(shared, &wqe, packet, WcOpcode::Recv, received);
        } else {
            self.responder.expect = Expect::SendRest;
            self.responder.receive = Some((wqe, received));
        }
        Ok(())
    }

    /// Takes the receive that is next: on UC that of a message that was cut off, if there is one.
    fn oldest_receive(&mut self, shared: &mut Shared) -> Option<RecvWqe> {
        match self.responder.take_receive() {
            Some((wqe, _)) => Some(wqe),
            None => self.take_receive(shared),
        }
    }

    fn execute_write(
        &mut self,
        shared: &mut Shared,
        packet: &Packet<'_>,
        position: Position,
    ) -> Result<(), Refusal> {
        if !self.allows(Access::REMOTE_WRITE) {
            return Err(Violation::QpRights.into());
        }
        let held = self.responder.receive.is_some();
        if packet.ext.imm.is_some() && !held && self.no_receive(shared) {
            return Err(Refusal::NotReady);
        }
        self.check_piece(packet.payload.len(), position)?;
        let (claim, length) = match (self.responder.expect, packet.ext.reth) {
            (Expect::WriteRest { claim, length }, _) => (claim, length),
            (_, Some(reth)) => (claim_of(&reth), reth.length),
            (_, None) => return Err(Violation::Successor.into()),
        };
        let len = packet.payload.len() as u32;
        let complete = len == claim.len;
        if length > MAX_MESSAGE || len > claim.len || complete != position.is_end() {
            return Err(Violation::Length.into());
        }
        // A zero-length WRITE names no memory, and its key is not looked at. Otherwise all of the
        // message's memory is checked with its first packet, and what is left with each later one:
        // a region may have been deregistered meanwhile.
        if claim.len > 0 {
            let window = shared
                .memory
                .remote(self.init.pd, self.qpn, claim, Access::REMOTE_WRITE)
                .ok_or(Violation::MemoryRights)?;
            window.copy_in(0, packet.payload);
        }
        if position.is_end() {
            self.responder.expect = Expect::Start;
            if let Some(observer) = &mut shared.write_observer {
                observer.tell(WriteDone {
                    qpn: self.qpn,
                    addr: claim.addr.wrapping_sub(u64::from(length - len)),
                    length,
                });
            }
            if packet.ext.imm.is_some()
                && let Some(wqe) = self.oldest_receive(shared)
            {
                self.complete_receive(shared, &wqe, packet, WcOpcode::RecvWriteImm, length);
            }
        } else {
            let left = Claim {
                addr: claim.addr.wrapping_add(u64::from(len)),
                len: claim.len - len,
                ..claim
            };
            self.responder.expect = Expect::WriteRest {
                claim: left,
                length,
            };
        }
        Ok(())
    }

    fn execute_read(&mut self, shared: &Shared, packet: &Packet<'_>) -> Result<u32, Refusal> {
        let reth = packet.ext.reth.ok_or(Violation::Unsupported)?;
        if !self.allows(Access::REMOTE_READ) {
            return Err(Violation::QpRights.into());
        }
        if !self.responder.replay.has_room() {
            return Err(Violation::ReadDepth.into());
        }
        if reth.length > MAX_MESSAGE {
            return Err(Violation::Length.into());
        }
        let claim = claim_of(&reth);
        if claim.len > 0 {
            shared
                .memory
                .remote(self.init.pd, self.qpn, claim, Access::REMOTE_READ)
                .ok_or(Violation::MemoryRights)?;
        }
        let packets = crate::path::packets(reth.length, self.mtu());
        self.responder
            .replay
            .push(packet.bth.psn, packets, Kind::Read { claim });
        Ok(packets)
    }

    fn execute_atomic(&mut self, shared: &Shared, packet: &Packet<'_>) -> Result<(), Refusal> {
        let eth = packet.ext.atomic.ok_or(Violation::Unsupported)?;
        if !self.allows(Access::REMOTE_ATOMIC) {
            return Err(Violation::QpRights.into());
        }
        if !self.responder.replay.has_room() {
            return Err(Violation::ReadDepth.into());
        }
        if !eth.addr.is_multiple_of(8) {
            return Err(Violation::Alignment.into());
        }
        let claim = Claim {
            key: eth.rkey.0,
            addr: eth.addr,
            len: 8,
        };
        let window = shared
            .memory
            .remote(self.init.pd, self.qpn, claim, Access::REMOTE_ATOMIC)
            .ok_or(Violation::MemoryRights)?;
        let opcode = packet.bth.opcode;
        let value = if opcode == roce_wire::Opcode::RC_FETCH_ADD {
            window.fetch_add(eth.swap_add)
        } else {
            window.compare_swap(eth.compare, eth.swap_add)
        };
        self.responder
            .replay
            .push(packet.bth.psn, 1, Kind::Atomic { opcode, value });
        Ok(())
    }

    /// Checks a payload against its position: FIRST and MIDDLE are full, LAST is not empty.
    fn check_piece(&self, len: usize, position: Position) -> Result<(), Refusal> {
        let mtu = self.mtu() as usize;
        let legal = match position {
            Position::First | Position::Middle => len == mtu,
            Position::Last => (1..=mtu).contains(&len),
            Position::Only => len <= mtu,
        };
        if legal {
            Ok(())
        } else {
            Err(Violation::Length.into())
        }
    }

    fn allows(&self, need: Access) -> bool {
        self.attr.access.is_some_and(|access| access.contains(need))
    }

    /// Refuses a request for good: a fatal NAK, the receive it was written to, then all the rest.
    pub(super) fn refuse(&mut self, shared: &mut Shared, violation: Violation, psn: Psn) {
        // An answer that goes before a NAK may be refused itself.
        if self.state != QpState::Err {
            // READs and atomics before it were accepted: their answers still go first.
            let accepted = core::mem::take(&mut self.responder.replay);
            self.fail(shared, violation);
            self.responder.replay = accepted;
        }
        let nak = Nak::Fatal(violation.outcome().nak);
        self.responder.due.ask_nak(nak, psn);
        self.wake(shared);
    }

    /// Fails the receive in progress and the QP with it.
    fn fail(&mut self, shared: &mut Shared, violation: Violation) {
        let outcome = violation.outcome();
        if let Some((wqe, _)) = self.responder.take_receive() {
            self.fail_receive(shared, &wqe, outcome.receive);
        }
        shared.event(if outcome.local {
            AsyncEvent::QpFatal(self.qpn)
        } else if outcome.access {
            AsyncEvent::QpAccessError(self.qpn)
        } else {
            AsyncEvent::QpRequestError(self.qpn)
        });
        self.enter_error(shared);
    }
}

const fn claim_of(reth: &Reth) -> Claim {
    Claim {
        key: reth.rkey.0,
        addr: reth.addr,
        len: reth.length,
    }
}
