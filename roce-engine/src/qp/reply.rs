//! What the responder sends: answers to READs and atomics in PSN order, then NAK or ACK.

use roce_wire::{Aeth, AtomicAckEth, Bth, Ext, Headers, Msn, Opcode, Psn, Syndrome};

use super::Qp;
use super::ack::Nak;
use super::replay::{Kind, Resource};
use super::segment::read_response;
use super::violation::Violation;
use crate::link::{FrameNote, Link};
use crate::mr::Claim;
use crate::shared::Shared;
use crate::verbs::Access;

enum Sent {
    Yes,
    Full,
    /// The memory is not readable any more.
    Denied,
}

impl Qp {
    /// Sends the NAK that is owed, unless answers with lower PSNs go first. False: the link is full.
    pub(super) fn send_nak<L: Link>(&mut self, shared: &mut Shared, link: &mut L) -> bool {
        let Some((nak, psn)) = self.responder.due.nak() else {
            return true;
        };
        if self.responder.replay.is_active() {
            return true;
        }
        if !self.send_aeth(shared, link, nak.syndrome(), psn, self.responder.msn) {
            return false;
        }
        self.responder.due.said();
        match nak {
            Nak::Sequence => shared.counters.sent_seq_err += 1,
            Nak::Rnr { .. } => shared.counters.send_rnr_err += 1,
            Nak::Fatal(_) => shared.counters.sent_fatal_nak += 1,
        }
        true
    }

    /// Sends the ACK that is owed, unless answers go first or it may wait for a request to share its
    /// system call with. False: the link is full.
    pub(super) fn send_ack<L: Link>(
        &mut self,
        shared: &mut Shared,
        link: &mut L,
        force: bool,
    ) -> bool {
        let Some(ack) = self.responder.due.ack() else {
            return true;
        };
        if self.responder.replay.is_active() {
            return true;
        }
        if shared.config.defer_acks && !force && ack.since == shared.turn {
            return true;
        }
        if !self.send_aeth(shared, link, Syndrome::ACK_UNLIMITED, ack.psn, ack.msn) {
            return false;
        }
        self.responder.due.said();
        shared.counters.acks_sent += 1;
        true
    }

    fn send_aeth<L: Link>(
        &self,
        shared: &mut Shared,
        link: &mut L,
        syndrome: Syndrome,
        psn: Psn,
        msn: Msn,
    ) -> bool {
        let aeth = Aeth { syndrome, msn };
        let ext = Ext {
            aeth: Some(aeth),
            ..Ext::NONE
        };
        self.send_response(shared, link, Opcode::RC_ACKNOWLEDGE, ext, psn, &[])
    }

    fn send_response<L: Link>(
        &self,
        shared: &mut Shared,
        link: &mut L,
        opcode: Opcode,
        ext: Ext,
        psn: Psn,
        payload: &[u8],
    ) -> bool {
        // Without a path nothing was ever received; the QP was reset meanwhile.
        let Some(path) = &self.path else { return true };
        let mut bth = Bth::new(opcode, path.dest_qpn, psn);
        bth.pkey = self.pkey;
        let headers = Headers { bth, ext };
        let sent = path
            .route
            .send(link, &headers, payload.len(), FrameNote::default(), |out| {
                out.copy_from_slice(payload);
            });
        shared.counters.sent_pkts += u64::from(sent);
        sent
    }

    /// Sends up to `budget` answers. False: the link is full.
    pub(super) fn send_replies<L: Link>(
        &mut self,
        shared: &mut Shared,
        link: &mut L,
        budget: u32,
    ) -> bool {
        for _ in 0..budget {
            let Some(&mut resource) = self.responder.replay.active() else {
                break;
            };
            let psn = resource.first.add(resource.next);
            let sent = match resource.kind {
                Kind::Read { claim } => self.send_read(shared, link, &resource, claim, psn),
                Kind::Atomic { value, .. } => self.send_atomic(shared, link, value, psn),
            };
            match sent {
                Sent::Full => return false,
                // Who has the answer may have let its memory go: a repetition that the network held back
                // is for nobody (as IBA C9-113, class D). Who still waits for it asks again in vain.
                Sent::Denied if resource.is_answered() => {
                    shared.counters.drop_stale_replay += 1;
                    if let Some(resource) = self.responder.replay.active() {
                        resource.give_up();
                    }
                    continue;
                }
                Sent::Denied => {
                    self.responder.replay.clear();
                    self.refuse(shared, Violation::MemoryRights, psn);
                    break;
                }
                Sent::Yes => {}
            }
            if let Some(resource) = self.responder.replay.active() {
                resource.advance();
            }
            self.responder.due.answered(psn);
        }
        true
    }

    fn send_read<L: Link>(
        &self,
        shared: &mut Shared,
        link: &mut L,
        resource: &Resource,
        claim: Claim,
        psn: Psn,
    ) -> Sent {
        let Some(path) = &self.path else {
            return Sent::Full;
        };
        let offset = resource.next * path.mtu;
        let len = (resource.end_byte - offset).min(path.mtu);
        let piece = Claim {
            addr: claim.addr.wrapping_add(u64::from(offset)),
            len,
            ..claim
        };
        let window = if len == 0 {
            None
        } else {
            let Some(window) =
                shared
                    .memory
                    .remote(self.init.pd, self.qpn, piece, Access::REMOTE_READ)
            else {
                return Sent::Denied;
            };
            Some(window)
        };
        let first = resource.next == resource.start;
        let last = resource.next + 1 == resource.end;
        let aeth = Aeth {
            syndrome: Syndrome::ACK_UNLIMITED,
            msn: self.responder.msn,
        };
        let ext = Ext {
            aeth: (first || last).then_some(aeth),
            ..Ext::NONE
        };
        let mut bth = Bth::new(read_response(first, last), path.dest_qpn, psn);
        bth.pkey = self.pkey;
        let headers = Headers { bth, ext };
        let note = FrameNote::default();
        let sent = path.route.send(link, &headers, len as usize, note, |out| {
            if let Some(window) = window {
                window.copy_out(0, out);
            }
        });
        if !sent {
            return Sent::Full;
        }
        shared.counters.sent_pkts += 1;
        shared.counters.sent_payload_bytes += u64::from(len);
        Sent::Yes
    }

    fn send_atomic<L: Link>(
        &self,
        shared: &mut Shared,
        link: &mut L,
        value: u64,
        psn: Psn,
    ) -> Sent {
        let aeth = Aeth {
            syndrome: Syndrome::ACK_UNLIMITED,
            msn: self.responder.msn,
        };
        let ext = Ext {
            aeth: Some(aeth),
            atomic_ack: Some(AtomicAckEth(value)),
            ..Ext::NONE
        };
        let opcode = Opcode::RC_ATOMIC_ACKNOWLEDGE;
        if self.send_response(shared, link, opcode, ext, psn, &[]) {
            Sent::Yes
        } else {
            Sent::Full
        }
    }
}
