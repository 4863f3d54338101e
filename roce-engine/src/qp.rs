//! A queue pair: its state, its queues and the parts that run it.
//!
//! | part | job |
//! |---|---|
//! | `requester` | picks the next packet of the send queue: window, fence, read depth, ack requests |
//! | `completer` | acks, NAKs and responses → completions |
//! | `retry` | timeouts, NAKs and RNR → resend or fail |
//! | `responder` | checks and executes requests, in the specification's order |
//! | `duplicate` | requests seen before |
//! | `reply` | what the responder sends: READ and atomic answers, ACK, NAK |
//! | `receive` | where receives come from: the QP's own queue or an SRQ |
//! | `datagram` | UD, both ways |
//! | `local` | requests that send nothing: bind a window, invalidate a key |
//! | `lifecycle` | states, attributes, flushing |

mod ack;
mod completer;
mod datagram;
mod duplicate;
mod lifecycle;
mod local;
mod receive;
mod replay;
mod reply;
mod requester;
mod responder;
mod retry;
mod segment;
mod send_queue;
mod timer;
mod violation;

use roce_wire::{IcrcSeed, OpcodeInfo, PKey, Packet, Psn, Qpn};

use crate::link::Link;
use crate::path::Path;
use crate::recv_queue::RecvQueue;
use crate::shared::Shared;
use crate::time::Instant;
use crate::verbs::{QpAttr, QpCaps, QpInit, QpState, Service};

use requester::Requester;
use responder::Responder;
use timer::{Timer, TimerTable};

/// A queue pair.
#[derive(Debug)]
pub(crate) struct Qp {
    pub(crate) qpn: Qpn,
    index: u32,
    pub(crate) init: QpInit,
    pub(crate) state: QpState,
    attr: QpAttr,
    pkey: PKey,
    path: Option<Path>,
    rq: RecvQueue,
    requester: Requester,
    responder: Responder,
    timers: TimerTable,
    in_ready: bool,
    /// The CRC state of the peer's headers, with the source port that it sends from.
    receive_seed: Option<(u16, IcrcSeed)>,
    /// A wrong source was reported once.
    source_reported: bool,
}

/// What a QP's turn to send left behind.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Left {
    /// Nothing that could be sent.
    Nothing,
    /// More, for its next turn.
    More,
    /// More, but the link has no room.
    LinkFull,
}

impl Qp {
    /// Makes a queue pair in RESET. `init` was checked.
    pub(crate) fn new(qpn: Qpn, index: u32, init: QpInit) -> Self {
        let caps = &init.caps;
        Self {
            qpn,
            index,
            state: QpState::Reset,
            attr: QpAttr::default(),
            pkey: PKey::DEFAULT,
            path: None,
            rq: RecvQueue::new(caps.max_recv_wr, caps.max_recv_sge),
            requester: Requester::new(caps),
            responder: Responder::default(),
            timers: TimerTable::default(),
            in_ready: false,
            receive_seed: None,
            source_reported: false,
            init,
        }
    }

    /// Returns its sizes.
    pub(crate) const fn caps(&self) -> &QpCaps {
        &self.init.caps
    }

    /// Returns its service.
    pub(crate) const fn service(&self) -> Service {
        self.init.service
    }

    /// Returns its way to the peer, from RTR on.
    pub(crate) const fn path(&self) -> Option<&Path> {
        self.path.as_ref()
    }

    /// Returns its partition key.
    pub(crate) const fn pkey(&self) -> PKey {
        self.pkey
    }

    /// Returns the ICRC seed of packets from the peer's `source_port`, made when the port changes.
    pub(crate) fn receive_seed(
        &mut self,
        source_port: u16,
        make: impl FnOnce() -> IcrcSeed,
    ) -> IcrcSeed {
        match self.receive_seed {
            Some((port, seed)) if port == source_port => seed,
            _ => self.receive_seed.insert((source_port, make())).1,
        }
    }

    /// Returns whether a wrong source address is to be reported: the first time only.
    pub(crate) const fn report_source(&mut self) -> bool {
        !core::mem::replace(&mut self.source_reported, true)
    }

    /// Returns whether packets to it are processed.
    pub(crate) const fn can_receive(&self) -> bool {
        matches!(
            self.state,
            QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe
        )
    }

    /// Processes a packet that passed all checks outside of the QP's own state.
    pub(crate) fn on_packet(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        packet: &Packet<'_>,
        info: OpcodeInfo,
    ) {
        if info.is_request {
            self.on_request(shared, packet, info);
        } else if self.state != QpState::Rtr && self.service() == Service::Rc {
            self.on_response(shared, now, packet, info);
        }
        if self.has_work() {
            self.wake(shared);
        }
    }

    /// Puts the QP on the list of those with something to send.
    pub(crate) fn wake(&mut self, shared: &mut Shared) {
        if !self.in_ready {
            self.in_ready = true;
            shared.ready.push_back(self.index);
        }
    }

    /// Notes that it was taken from that list.
    pub(crate) const fn left_ready(&mut self) {
        self.in_ready = false;
    }

    fn has_work(&self) -> bool {
        self.responder.owes() || self.may_request()
    }

    /// Sends what is due: a NAK, requests, READ and atomic answers, a plain ACK, in this order where
    /// PSN order allows it. `force` sends acknowledgements that would wait a turn.
    pub(crate) fn transmit<L: Link>(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        link: &mut L,
        force: bool,
    ) -> Left {
        if !self.send_nak(shared, link) {
            return Left::LinkFull;
        }
        let quantum = shared.config.quantum;
        let (requests, full) = match self.service() {
            Service::Ud => self.send_datagrams(shared, link, quantum),
            Service::Rc | Service::Uc => self.send_requests(shared, now, link, quantum),
        };
        if full {
            return Left::LinkFull;
        }
        if !self.send_replies(shared, link, quantum) || !self.send_nak(shared, link) {
            return Left::LinkFull;
        }
        if !self.send_ack(shared, link, force || requests > 0) {
            return Left::LinkFull;
        }
        if self.has_work() {
            Left::More
        } else {
            Left::Nothing
        }
    }

    /// Acts on the timers that are due.
    pub(crate) fn on_deadline(&mut self, shared: &mut Shared, now: Instant) {
        self.timers.popped(now);
        if self.timers.take_due(Timer::Rnr, now) {
            self.wake(shared);
        }
        if self.timers.take_due(Timer::Retransmit, now) {
            self.on_timeout(shared, now);
        }
        for timer in Timer::ALL {
            if let Some(at) = self.timers.queue(timer) {
                shared.deadlines.push(at, self.index);
            }
        }
    }

    fn start_timer(&mut self, shared: &mut Shared, timer: Timer, at: Instant) {
        if let Some(at) = self.timers.set(timer, at) {
            shared.deadlines.push(at, self.index);
        }
    }

    fn mtu(&self) -> u32 {
        self.path.as_ref().map_or(256, |path| path.mtu)
    }

    /// Returns the PSNs of the next new request and the next expected one.
    pub(crate) const fn psns(&self) -> (Psn, Psn) {
        (self.requester.next_psn(), self.responder.expected_psn())
    }
}
