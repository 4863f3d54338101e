//! What QPs of a device share and reach through `&mut`: memory, completion queues, counters, lists.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::arena::Arena;
use crate::config::EngineConfig;
use crate::cq::CompletionQueue;
use crate::deadlines::Deadlines;
use crate::mr::MemoryTable;
use crate::path::Route;
use crate::peers::PeerTable;
use crate::srq::SharedReceives;
use crate::stats::Counters;
use crate::verbs::{Ah, AsyncEvent, Completion, Cq, Pd, Srq, WriteObserver};

/// The way to a peer that datagrams are sent to.
#[derive(Debug)]
pub(crate) struct AddressHandle {
    /// Who may use it.
    pub(crate) pd: Pd,
    /// The way.
    pub(crate) route: Route,
}

/// Everything of an engine but its QPs.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: EngineConfig,
    pub(crate) memory: MemoryTable,
    pub(crate) cqs: Arena<CompletionQueue>,
    pub(crate) srqs: Arena<SharedReceives>,
    pub(crate) ahs: Arena<AddressHandle>,
    pub(crate) peers: PeerTable,
    pub(crate) counters: Counters,
    pub(crate) deadlines: Deadlines,
    /// QPs with something to send, oldest first; a QP's own flag keeps it here once at most.
    pub(crate) ready: VecDeque<u32>,
    /// QPs that a peer's window has room for again, not yet in `ready`.
    pub(crate) woken: Vec<u32>,
    /// The port's path MTU in bytes: the longest datagram.
    pub(crate) port_mtu: u32,
    /// Counts turns, so that an acknowledgement knows how long it has waited.
    pub(crate) turn: u64,
    /// A completion queue overflowed and its QPs are not in error yet.
    pub(crate) overflow: bool,
    /// Sees each WRITE of a peer as it ends.
    pub(crate) write_observer: Option<WriteObserver>,
    events: VecDeque<AsyncEvent>,
}

impl Shared {
    pub(crate) fn new(config: EngineConfig, port_mtu: u32) -> Self {
        let seed = config.seed as u32 ^ (config.seed >> 32) as u32;
        Self {
            memory: MemoryTable::new(config.max_pd, config.max_mr, seed),
            cqs: Arena::new(config.max_cq.min(0xffff), 0),
            srqs: Arena::new(config.max_srq.min(0xffff), 0),
            ahs: Arena::new(config.max_ah.min(0xffff), 0),
            peers: PeerTable::default(),
            counters: Counters::default(),
            deadlines: Deadlines::default(),
            ready: VecDeque::new(),
            woken: Vec::new(),
            port_mtu,
            turn: 0,
            overflow: false,
            write_observer: None,
            events: VecDeque::with_capacity(config.max_events),
            config,
        }
    }

    /// Returns a completion queue by its handle.
    pub(crate) fn cq(&mut self, cq: Cq) -> Option<&mut CompletionQueue> {
        self.cqs.named_mut(cq.0 & 0xffff, cq.0 >> 16, 0xffff)
    }

    /// Returns a shared receive queue by its handle.
    pub(crate) fn srq(&self, srq: Srq) -> Option<&SharedReceives> {
        self.srqs.named(srq.0 & 0xffff, srq.0 >> 16, 0xffff)
    }

    /// Returns a shared receive queue by its handle.
    pub(crate) fn srq_mut(&mut self, srq: Srq) -> Option<&mut SharedReceives> {
        self.srqs.named_mut(srq.0 & 0xffff, srq.0 >> 16, 0xffff)
    }

    /// Returns an address handle.
    pub(crate) fn ah(&self, ah: Ah) -> Option<&AddressHandle> {
        self.ahs.named(ah.0 & 0xffff, ah.0 >> 16, 0xffff)
    }

    /// Adds a completion; an overflow is acted on when the engine has its QPs at hand.
    pub(crate) fn complete(&mut self, cq: Cq, completion: Completion) {
        let Some(queue) = self.cq(cq) else { return };
        let before = queue.overflowed();
        if !queue.push(completion) && !before {
            self.overflow = true;
            self.event(AsyncEvent::CqError(cq));
        }
    }

    /// Adds an asynchronous event, or counts it as lost when too many wait.
    pub(crate) fn event(&mut self, event: AsyncEvent) {
        if self.events.len() < self.config.max_events {
            self.events.push_back(event);
        } else {
            self.counters.lost_events += 1;
        }
    }

    /// Takes the oldest event.
    pub(crate) fn take_event(&mut self) -> Option<AsyncEvent> {
        self.events.pop_front()
    }
}
