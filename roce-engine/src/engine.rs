//! The engine: owns every table and turns frames, verbs calls and time into each other.

mod demux;
mod objects;
mod resources;

use alloc::vec::Vec;

use roce_wire::IdRecovery;

use crate::arena::Arena;
use crate::config::EngineConfig;
use crate::link::Link;
use crate::qp::{Left, Qp};
use crate::shared::Shared;
use crate::stats::Counters;
use crate::time::Instant;
use crate::verbs::{AsyncEvent, PortAttr, QpState, WriteObserver};

/// Bits of a QPN that are the QP's index; above them is its generation, below its parity.
const INDEX_BITS: u32 = 14;
const GENERATION_MASK: u32 = 0x1ff;

/// A RoCEv2 transport engine without IO.
///
/// # One turn
///
/// 1. `receive` for each packet of the burst that the link has.
/// 2. `handle_timeout` if `next_timeout` is not in the future.
/// 3. `transmit`, which fills the link until nothing is left to send or the link is full.
/// 4. The link's `flush`.
///
/// Verbs calls may come between turns. All of them may change what `next_timeout` answers.
#[derive(Debug)]
pub struct Engine {
    shared: Shared,
    qps: Arena<Qp>,
    port: PortAttr,
    qpn_parity: u32,
    recovery: IdRecovery,
    /// QPs that must be put into error after a CQ overflow; kept for its memory.
    doomed: Vec<u32>,
}

impl Engine {
    /// Makes an engine for a port. `qpn_parity` is the low bit of its QPNs.
    ///
    /// # Panics
    ///
    /// The configuration asks for more than 16384 QPs.
    pub fn new(config: EngineConfig, port: PortAttr, qpn_parity: u32) -> Self {
        assert!(
            config.max_qp <= 1 << INDEX_BITS,
            "a QPN has 14 bits of index"
        );
        // A generation of at least 1 keeps QPNs clear of 0 and 1, which are special.
        let generation = 1 + (config.seed % u64::from(GENERATION_MASK - 1)) as u32;
        Self {
            qps: Arena::new(config.max_qp, generation),
            shared: Shared::new(config, port.active_mtu.bytes() as u32),
            port,
            qpn_parity: qpn_parity & 1,
            recovery: IdRecovery::new(),
            doomed: Vec::new(),
        }
    }

    /// Starts a turn: acknowledgements asked for in it may wait until the next.
    pub const fn begin_turn(&mut self) {
        self.shared.turn += 1;
    }

    /// Returns the time at which `handle_timeout` must be called, if any. It may be early.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        self.shared.deadlines.next()
    }

    /// Acts on every timer that is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(index) = self.shared.deadlines.pop_due(now) {
            // A QP that was destroyed leaves its entry behind.
            if let Some(qp) = self.qps.at_mut(index) {
                qp.on_deadline(&mut self.shared, now);
            }
        }
        self.settle_overflow();
    }

    /// Returns whether a `transmit` would find something to send, or an ACK that waits its turn.
    #[must_use]
    pub fn wants_to_send(&self) -> bool {
        !self.shared.ready.is_empty() || !self.shared.woken.is_empty()
    }

    /// Fills the link until nothing is left to send or the link has no room; returns whether it is
    /// full. `force` also sends ACKs that would wait a turn for a request to go with.
    pub fn transmit<L: Link>(&mut self, now: Instant, link: &mut L, force: bool) -> bool {
        self.admit_woken();
        let mut idle_visits = 0;
        while let Some(index) = self.shared.ready.pop_front() {
            let Some(qp) = self.qps.at_mut(index) else {
                continue;
            };
            qp.left_ready();
            let sent = self.shared.counters.sent_pkts;
            match qp.transmit(&mut self.shared, now, link, force) {
                Left::Nothing => continue,
                Left::More => qp.wake(&mut self.shared),
                Left::LinkFull => {
                    qp.wake(&mut self.shared);
                    self.settle_overflow();
                    return true;
                }
            }
            // QPs whose ACK waits for the next turn stay ready: stop when all that is left are those.
            idle_visits = if self.shared.counters.sent_pkts == sent {
                idle_visits + 1
            } else {
                0
            };
            if idle_visits > self.shared.ready.len() {
                break;
            }
        }
        self.settle_overflow();
        false
    }

    fn admit_woken(&mut self) {
        while let Some(index) = self.shared.woken.pop() {
            if let Some(qp) = self.qps.at_mut(index) {
                qp.on_peer_room(&mut self.shared);
            }
        }
    }

    /// Puts the QPs of an overflowed completion queue into error: their completions are lost.
    fn settle_overflow(&mut self) {
        if !core::mem::replace(&mut self.shared.overflow, false) {
            return;
        }
        self.doomed.clear();
        for (index, qp) in self.qps.iter() {
            let lost = [qp.init.send_cq, qp.init.recv_cq].into_iter().any(|cq| {
                self.shared
                    .cqs
                    .named(cq.0 & 0xffff, cq.0 >> 16, 0xffff)
                    .is_some_and(crate::cq::CompletionQueue::overflowed)
            });
            if lost && qp.state != QpState::Reset {
                self.doomed.push(index);
            }
        }
        for index in core::mem::take(&mut self.doomed) {
            if let Some(qp) = self.qps.at_mut(index) {
                qp.enter_error(&mut self.shared);
            }
        }
        self.shared.overflow = false;
    }

    /// Shows each WRITE of a peer to `observer` before the next packet is executed.
    pub fn observe_writes(&mut self, observer: Option<WriteObserver>) {
        self.shared.write_observer = observer;
    }

    /// Returns the counters.
    pub const fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// Returns the port.
    pub const fn port(&self) -> &PortAttr {
        &self.port
    }

    /// Takes the oldest asynchronous event.
    pub fn poll_event(&mut self) -> Option<AsyncEvent> {
        self.shared.take_event()
    }

    /// Adds an event that the link reported.
    pub fn report(&mut self, event: AsyncEvent) {
        self.shared.event(event);
    }
}
