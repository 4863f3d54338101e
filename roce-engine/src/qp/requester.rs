//! Picks the next packet of the send queue, or says what blocks it.

use alloc::collections::VecDeque;

use roce_wire::{Bth, Headers, Psn};

use super::Qp;
use super::segment::{Segment, cut, read_span};
use super::send_queue::{SendQueue, Source};
use super::timer::Timer;
use crate::congestion::Window;
use crate::link::{FrameNote, Link};
use crate::sge;
use crate::shared::Shared;
use crate::time::Instant;
use crate::verbs::{QpCaps, QpState, SendFlags, Service, Status};

/// Packets after which an acknowledgement is asked for inside a long message, at most.
const ACK_REQUEST_INTERVAL: u32 = 64;

/// A READ request or atomic whose answer has not fully arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadSpan {
    /// The PSN after its last.
    pub(crate) end: Psn,
}

/// The sending half of a QP.
#[derive(Debug)]
pub(crate) struct Requester {
    pub(super) queue: SendQueue,
    /// The oldest PSN that is not acknowledged.
    pub(super) una: Psn,
    /// The first PSN that was never sent.
    pub(super) next_psn: Psn,
    /// The request that the next packet is cut from.
    pub(super) cursor: u32,
    /// The next packet's PSN: behind `next_psn` while resending.
    pub(super) cursor_psn: Psn,
    /// Outstanding READ requests and atomics, oldest first.
    pub(super) reads: VecDeque<ReadSpan>,
    pub(super) window: Window,
    pub(super) max_rd_atomic: u8,
    pub(super) retries_left: u8,
    pub(super) rnr_left: u8,
    /// Resending, without any progress yet: further NAKs of the same burst are ignored.
    pub(super) in_recovery: bool,
    /// The send queue has drained in SQD and that was reported.
    pub(super) drained: bool,
    /// The peer's window is full and the peer table knows that this QP waits.
    awaits_peer: bool,
    since_ack_request: u32,
    /// This QP's share of the peer's packets in flight, as last reported.
    reported_in_flight: u32,
}

/// Why nothing can be sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Blocked {
    /// Nothing is posted; the state does not allow it; an RNR delay runs; a failed request waits for
    /// those before it.
    Idle,
    /// A READ or an atomic is outstanding and the request is fenced.
    Fence,
    /// As many READs and atomics are outstanding as may be.
    ReadDepth,
    /// The QP's own window is full.
    Window,
    /// The window of all QPs to this peer is full.
    PeerWindow,
    /// The request sends nothing: it is executed instead.
    Local,
    /// An SGE of the request is not valid.
    LocalProtection,
}

struct Plan {
    segment: Segment,
    psn: Psn,
    ack_request: bool,
}

impl Requester {
    pub(super) fn new(caps: &QpCaps) -> Self {
        Self {
            queue: SendQueue::new(caps.max_send_wr, caps.max_send_sge, caps.max_inline),
            una: Psn::new(0),
            next_psn: Psn::new(0),
            cursor: 0,
            cursor_psn: Psn::new(0),
            reads: VecDeque::new(),
            window: Window::new(1, 1),
            max_rd_atomic: 0,
            retries_left: 0,
            rnr_left: 0,
            in_recovery: false,
            drained: false,
            awaits_peer: false,
            since_ack_request: 0,
            reported_in_flight: 0,
        }
    }

    /// Starts at a PSN with a fresh window.
    pub(super) fn start(&mut self, psn: Psn, window: Window, max_rd_atomic: u8) {
        self.una = psn;
        self.next_psn = psn;
        self.cursor = self.queue.head();
        self.cursor_psn = psn;
        self.reads = VecDeque::with_capacity(usize::from(max_rd_atomic));
        self.window = window;
        self.max_rd_atomic = max_rd_atomic;
        self.in_recovery = false;
        self.drained = false;
        self.since_ack_request = 0;
    }

    pub(super) const fn next_psn(&self) -> Psn {
        self.next_psn
    }

    /// Returns the packets that were sent since the last rewind and are not acknowledged.
    pub(super) const fn in_flight(&self) -> u32 {
        self.cursor_psn.distance_from(self.una) as u32
    }

    /// Returns whether everything that was begun is complete: what is acknowledged so far may be a part
    /// of a message.
    pub(super) fn is_drained(&self) -> bool {
        let begun = |queue: &SendQueue| queue.at(queue.head()).first_psn.is_some();
        self.una == self.next_psn && (self.queue.is_empty() || !begun(&self.queue))
    }

    /// An acknowledgement overtook the resending of what it acknowledges: goes on behind it.
    pub(super) const fn catch_up(&mut self) {
        if self.cursor_psn.is_before(self.una) {
            self.cursor = self.queue.head();
            self.cursor_psn = self.una;
        }
    }

    /// Goes back to the oldest packet that is not acknowledged.
    pub(super) fn rewind(&mut self) {
        self.cursor = self.queue.head();
        self.cursor_psn = self.una;
        self.reads.clear();
    }
}

impl Qp {
    /// Returns whether the requester may have something to send.
    pub(super) fn may_request(&self) -> bool {
        match self.init.service {
            Service::Ud => self.may_send_datagram(),
            Service::Rc | Service::Uc => {
                !self.requester.awaits_peer && self.next_segment().is_ok() || self.local_is_next()
            }
        }
    }

    /// Returns whether the next request is a local one and may be executed.
    fn local_is_next(&self) -> bool {
        let requester = &self.requester;
        if !matches!(self.state, QpState::Rts | QpState::Sqd)
            || requester.cursor == requester.queue.tail()
            || self.timers.is_set(Timer::Rnr)
        {
            return false;
        }
        let wqe = requester.queue.at(requester.cursor);
        let started = wqe.arrived > 0;
        wqe.op.is_local()
            && wqe.failed.is_none()
            && (started || self.state == QpState::Rts)
            && (!wqe.flags.contains(SendFlags::FENCE) || requester.reads.is_empty())
    }

    /// The peer's window has room again.
    pub(crate) fn on_peer_room(&mut self, shared: &mut Shared) {
        self.requester.awaits_peer = false;
        self.wake(shared);
    }

    /// Sends up to `budget` request packets; returns how many, and whether the link was full.
    pub(super) fn send_requests<L: Link>(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        link: &mut L,
        budget: u32,
    ) -> (u32, bool) {
        let mut sent = 0;
        let mut full = false;
        while sent < budget {
            if self.local_is_next() && self.execute_local(shared) {
                continue;
            }
            match self.plan(shared) {
                Ok(plan) => {
                    if !self.send_planned(shared, now, link, &plan) {
                        full = true;
                        break;
                    }
                    sent += 1;
                }
                Err(Blocked::LocalProtection) => {
                    self.requester.queue.at_mut(self.requester.cursor).failed =
                        Some(Status::LocProtErr);
                    self.settle_failed(shared);
                }
                Err(Blocked::PeerWindow) => {
                    if let Some(path) = &self.path {
                        shared.peers.wait(path.peer, self.index);
                        self.requester.awaits_peer = true;
                    }
                    break;
                }
                Err(_) => break,
            }
        }
        if sent > 0 {
            self.report_in_flight(shared);
        }
        (sent, full)
    }

    /// Cuts the next packet without looking at the peer's window or at memory.
    fn next_segment(&self) -> Result<Segment, Blocked> {
        let requester = &self.requester;
        let number = requester.cursor;
        if !matches!(self.state, QpState::Rts | QpState::Sqd)
            || number == requester.queue.tail()
            || self.timers.is_set(Timer::Rnr)
        {
            return Err(Blocked::Idle);
        }
        let wqe = requester.queue.at(number);
        if wqe.op.is_local() {
            return Err(Blocked::Local);
        }
        if wqe.failed.is_some() || wqe.first_psn.is_none() && self.state == QpState::Sqd {
            return Err(Blocked::Idle);
        }
        if wqe.flags.contains(SendFlags::FENCE) && !requester.reads.is_empty() {
            return Err(Blocked::Fence);
        }
        let packet = wqe.first_psn.map_or(0, |first| {
            requester.cursor_psn.value().wrapping_sub(first.value()) & 0x00ff_ffff
        });
        let span = read_span(requester.max_rd_atomic);
        let segment = cut(&wqe.op, wqe.length, packet, self.mtu(), span);
        let fetch = wqe.op.is_fetch();
        if fetch && requester.reads.len() >= usize::from(requester.max_rd_atomic) {
            return Err(Blocked::ReadDepth);
        }
        if self.init.service != Service::Rc {
            return Ok(segment);
        }
        let in_flight = requester.in_flight();
        // A piece of a READ larger than the window goes alone, or it would never go.
        if in_flight > 0 && in_flight + segment.psns > requester.window.packets() {
            return Err(Blocked::Window);
        }
        Ok(segment)
    }

    fn plan(&self, shared: &Shared) -> Result<Plan, Blocked> {
        let segment = self.next_segment()?;
        let requester = &self.requester;
        let path = self.path.as_ref().ok_or(Blocked::Idle)?;
        let in_flight = requester.in_flight();
        // What this call has sent is not in the peer's figure yet.
        let unreported = in_flight.saturating_sub(requester.reported_in_flight);
        let reliable = self.init.service == Service::Rc;
        let room = shared.peers.room(path.peer);
        let needed = unreported + segment.psns;
        // A QP stops only where an acknowledgement is on its way, or it takes a timeout to go on.
        let asked = requester.since_ack_request == 0;
        if reliable && in_flight > 0 && room < needed && asked {
            return Err(Blocked::PeerWindow);
        }
        if segment.len > 0
            && let Source::Sges(sges) = requester.queue.source(requester.cursor)
        {
            let len = segment.len as usize;
            sge::readable(&shared.memory, self.init.pd, sges, segment.offset, len)
                .map_err(|_| Blocked::LocalProtection)?;
        }
        let window = requester.window.packets();
        let interval = (window / 4).clamp(1, ACK_REQUEST_INTERVAL);
        let wanted = segment.last
            || segment.len == 0
            || requester.since_ack_request + 1 >= interval
            || room <= needed
            || in_flight + 1 >= window;
        // Never on UC: there is nobody to answer.
        let ack_request = reliable && wanted;
        Ok(Plan {
            segment,
            psn: requester.cursor_psn,
            ack_request,
        })
    }

    fn send_planned<L: Link>(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        link: &mut L,
        plan: &Plan,
    ) -> bool {
        let Some(path) = &self.path else { return false };
        let requester = &self.requester;
        let wqe = requester.queue.at(requester.cursor);
        let segment = &plan.segment;
        let opcode = match self.init.service {
            Service::Uc => segment.opcode.as_uc(),
            Service::Rc | Service::Ud => segment.opcode,
        };
        let mut bth = Bth::new(opcode, path.dest_qpn, plan.psn);
        bth.pkey = self.pkey;
        bth.ack_request = plan.ack_request;
        bth.solicited =
            segment.last && wqe.op.takes_receive() && wqe.flags.contains(SendFlags::SOLICITED);
        let headers = Headers {
            bth,
            ext: segment.ext,
        };
        let resent = plan.psn.is_before(requester.next_psn);
        let note = FrameNote {
            retransmission: resent,
            fault: None,
        };
        let source = requester.queue.source(requester.cursor);
        let (memory, pd) = (&shared.memory, self.init.pd);
        let sent = path.route.send(
            link,
            &headers,
            segment.len as usize,
            note,
            |out| match source {
                Source::Inline(bytes) => {
                    let start = segment.offset as usize;
                    out.copy_from_slice(&bytes[start..start + out.len()]);
                }
                // `plan` has checked that the bytes may be read, and nothing changed since.
                Source::Sges(sges) => {
                    let copied = sge::gather(memory, pd, sges, segment.offset, out);
                    assert!(
                        copied.is_ok(),
                        "memory that was readable stays so within a turn"
                    );
                }
            },
        );
        if sent {
            self.commit(shared, now, plan, resent);
        }
        sent
    }

    fn commit(&mut self, shared: &mut Shared, now: Instant, plan: &Plan, resent: bool) {
        let requester = &mut self.requester;
        let segment = &plan.segment;
        let counters = &mut shared.counters;
        counters.sent_pkts += 1;
        counters.sent_payload_bytes += u64::from(segment.len);
        counters.retransmitted_pkts += u64::from(resent);
        requester.since_ack_request = if plan.ack_request {
            0
        } else {
            requester.since_ack_request + 1
        };
        let end = plan.psn.add(segment.psns);
        let wqe = requester.queue.at_mut(requester.cursor);
        wqe.first_psn.get_or_insert(plan.psn);
        if wqe.op.is_fetch() {
            requester.reads.push_back(ReadSpan { end });
        }
        requester.cursor_psn = end;
        if end.is_after(requester.next_psn) {
            requester.next_psn = end;
        }
        if segment.last {
            requester.cursor = requester.cursor.wrapping_add(1);
        }
        if self.init.service == Service::Uc {
            // Sent is done: nothing will be acknowledged.
            self.requester.una = self.requester.next_psn;
            if segment.last {
                self.complete_head(shared, Status::Success);
                self.report_drained(shared);
            }
        } else if !self.timers.is_set(Timer::Retransmit) {
            self.start_retransmit(shared, now);
        }
    }

    /// Tells the peer table what this QP has in flight.
    pub(super) fn report_in_flight(&mut self, shared: &mut Shared) {
        let Some(path) = &self.path else { return };
        let requester = &mut self.requester;
        let in_flight = requester.in_flight();
        shared
            .peers
            .update(path.peer, requester.reported_in_flight, in_flight);
        requester.reported_in_flight = in_flight;
        while let Some(index) = shared.peers.wake(path.peer) {
            shared.woken.push(index);
        }
    }

    /// Leaves the peer table.
    pub(super) fn leave_peer(&mut self, shared: &mut Shared) {
        if let Some(path) = self.path.take() {
            shared
                .peers
                .leave(path.peer, self.requester.reported_in_flight, self.index);
            self.requester.reported_in_flight = 0;
            self.requester.awaits_peer = false;
            while let Some(index) = shared.peers.wake(path.peer) {
                shared.woken.push(index);
            }
        }
    }
}
