//! Requests behind the expected PSN: acknowledged or answered again, never executed again.

use roce_wire::{OpcodeInfo, Operation, Packet, Psn};

use super::Qp;
use super::replay::Kind;
use crate::shared::Shared;

impl Qp {
    /// Processes a request that was accepted before.
    pub(super) fn on_duplicate(
        &mut self,
        shared: &mut Shared,
        packet: &Packet<'_>,
        info: OpcodeInfo,
    ) {
        shared.counters.duplicate_request += 1;
        match info.operation {
            // IBA C9-105: acknowledged whether asked to or not.
            Operation::Send | Operation::Write => {
                let (newest, msn) = (self.responder.epsn.prev(), self.responder.msn);
                let asks = packet.bth.ack_request.then_some(packet.bth.psn);
                let due = &mut self.responder.due;
                if due.ask_ack_again(shared.turn, asks, newest, msn) {
                    shared.counters.acks_coalesced += 1;
                }
            }
            Operation::ReadRequest if self.replay_read(packet) => {}
            Operation::CompareSwap | Operation::FetchAdd if self.replay_atomic(packet) => {}
            // IBA C9-113, class D: what is not in the table is dropped in silence.
            _ => shared.counters.drop_stale_replay += 1,
        }
    }

    /// Answers a READ again, or the part of it that is asked for.
    fn replay_read(&mut self, packet: &Packet<'_>) -> bool {
        let Some(reth) = packet.ext.reth else {
            return false;
        };
        let mtu = self.mtu();
        let psn = packet.bth.psn;
        let Some(resource) = self.responder.replay.find(psn) else {
            return false;
        };
        let Kind::Read { claim } = resource.kind else {
            return false;
        };
        let skipped = offset_of(psn, resource.first);
        let start_byte = skipped * mtu;
        let subset = reth.rkey.0 == claim.key
            && reth.addr == claim.addr.wrapping_add(u64::from(start_byte))
            && start_byte <= claim.len
            && reth.length <= claim.len - start_byte;
        if !subset {
            return false;
        }
        resource.start = skipped;
        resource.next = skipped;
        resource.end = skipped + crate::path::packets(reth.length, mtu);
        resource.end_byte = start_byte + reth.length;
        true
    }

    /// Answers an atomic again with the value that was there when it was executed.
    fn replay_atomic(&mut self, packet: &Packet<'_>) -> bool {
        let Some(resource) = self.responder.replay.find(packet.bth.psn) else {
            return false;
        };
        let Kind::Atomic { opcode, .. } = resource.kind else {
            return false;
        };
        if opcode != packet.bth.opcode {
            return false;
        }
        (resource.start, resource.next, resource.end) = (0, 0, 1);
        true
    }
}

/// Returns how many packets `psn` lies behind `first`, which is in the same resource.
const fn offset_of(psn: Psn, first: Psn) -> u32 {
    psn.value().wrapping_sub(first.value()) & 0x00ff_ffff
}
