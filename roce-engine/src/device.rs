//! The software device: engine + link + clock = a [`Backend`].

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::clock::Clock;
use crate::config::EngineConfig;
use crate::engine::Engine;
use crate::link::{Link, LinkError, LinkEvent};
use crate::time::Instant;
use crate::verbs::{
    Access, AddressVector, Ah, AsyncEvent, Backend, Completion, Cq, CqError, CreateError,
    DeviceAttr, DeviceError, LatencyInline, ModifyError, Mr, Mw, Pd, PortAttr, PostError, Qp,
    QpAttr, QpInfo, QpInit, RecvWr, Region, RegisterError, SendWr, Srq, WriteObserver,
};

/// Packets that a turn receives at most: a few full batches.
const RECEIVE_BUDGET: usize = 256;

/// Bursts that are received before a timeout is acted upon: more than a socket buffer holds.
const BURSTS_BEFORE_TIMEOUT: usize = 64;

/// A device made of our engine and a link.
///
/// It progresses only when it is called: `poll_cq`, `progress` and `wait` each run a turn.
#[derive(Debug)]
pub struct SoftDevice<L, C> {
    engine: Engine,
    link: L,
    clock: C,
    attr: DeviceAttr,
}

impl<L: Link, C: Clock> SoftDevice<L, C> {
    /// Makes a device named `name` over a link.
    ///
    /// # Panics
    ///
    /// As `Engine::new`.
    pub fn new(name: &str, link: L, clock: C, config: EngineConfig) -> Self {
        let attr = DeviceAttr {
            name: String::from(name),
            max_qp: config.max_qp,
            max_qp_wr: config.max_qp_wr,
            max_sge: config.max_sge,
            max_cq: config.max_cq,
            max_cqe: config.max_cqe,
            max_mr: config.max_mr,
            max_pd: config.max_pd,
            max_qp_rd_atom: config.max_rd_atomic,
            max_qp_init_rd_atom: config.max_rd_atomic,
            max_inline: config.max_inline,
            max_message: 1 << 31,
            // What is copied later is as near.
            latency_inline: LatencyInline::default(),
            relaxed_ordering: false,
        };
        let parity = link.caps().qpn_parity.unwrap_or(0);
        let engine = Engine::new(config, link.port().clone(), parity);
        Self {
            engine,
            link,
            clock,
            attr,
        }
    }

    /// Returns the engine.
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the link.
    pub const fn link(&self) -> &L {
        &self.link
    }

    /// Returns the link.
    pub const fn link_mut(&mut self) -> &mut L {
        &mut self.link
    }

    /// Returns when the device must be progressed next, if ever, without anything arriving.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        if self.engine.wants_to_send() {
            return Some(self.clock.now());
        }
        self.engine.next_timeout()
    }

    /// Runs one turn.
    ///
    /// # Errors
    ///
    /// The link failed.
    pub fn turn(&mut self) -> Result<(), LinkError> {
        self.engine.begin_turn();
        // What was posted since the last turn goes out before the receive's system call, and takes
        // the ACKs along that waited for it.
        if self.engine.wants_to_send() {
            let now = self.clock.now();
            self.engine.transmit(now, &mut self.link, false);
            self.link.flush()?;
        }
        let now = self.clock.now();
        let mut brought = self.receive(now)?;
        // A process that got no CPU for a while has its answers behind other packets: what has arrived
        // is taken before a peer's silence is believed.
        let mut bursts = 1;
        while self.is_due(now) && brought > 0 && bursts < BURSTS_BEFORE_TIMEOUT {
            brought = self.receive(now)?;
            bursts += 1;
        }
        if self.is_due(now) {
            self.engine.handle_timeout(now);
        }
        if self.engine.wants_to_send() {
            self.engine.transmit(now, &mut self.link, false);
        }
        self.link.flush()?;
        self.take_link_events();
        Ok(())
    }

    fn receive(&mut self, now: Instant) -> Result<usize, LinkError> {
        let engine = &mut self.engine;
        self.link.receive(RECEIVE_BUDGET, |meta, bytes| {
            engine.receive(now, meta, bytes)
        })
    }

    fn is_due(&self, now: Instant) -> bool {
        self.engine.next_timeout().is_some_and(|at| at <= now)
    }

    /// Sends everything that is due, ACKs too that would wait a turn.
    fn push(&mut self) -> Result<(), LinkError> {
        let now = self.clock.now();
        self.engine.transmit(now, &mut self.link, true);
        self.link.flush()
    }

    fn take_link_events(&mut self) {
        while let Some(event) = self.link.next_event() {
            self.engine.report(match event {
                LinkEvent::Unreachable { remote, reason } => {
                    AsyncEvent::PathUnreachable { remote, reason }
                }
                LinkEvent::Notice(text) => AsyncEvent::Notice(text),
            });
        }
    }
}

impl<L: Link, C: Clock> Backend for SoftDevice<L, C> {
    fn device(&self) -> &DeviceAttr {
        &self.attr
    }

    fn port(&self) -> &PortAttr {
        self.engine.port()
    }

    fn alloc_pd(&mut self) -> Result<Pd, CreateError> {
        self.engine.alloc_pd()
    }

    fn dealloc_pd(&mut self, pd: Pd) -> Result<(), CreateError> {
        self.engine.dealloc_pd(pd)
    }

    fn register(&mut self, pd: Pd, region: &Region, access: Access) -> Result<Mr, RegisterError> {
        self.engine.register(pd, region, access)
    }

    fn deregister(&mut self, mr: Mr) -> Result<(), CreateError> {
        self.engine.deregister(mr)
    }

    fn create_cq(&mut self, depth: u32) -> Result<Cq, CreateError> {
        self.engine.create_cq(depth)
    }

    fn destroy_cq(&mut self, cq: Cq) -> Result<(), CreateError> {
        self.engine.destroy_cq(cq)
    }

    fn resize_cq(&mut self, cq: Cq, depth: u32) -> Result<(), CreateError> {
        self.engine.resize_cq(cq, depth)
    }

    fn take_notification(&mut self, cq: Cq) -> bool {
        self.engine.take_notification(cq)
    }

    fn create_srq(&mut self, pd: Pd, max_wr: u32, max_sge: u32) -> Result<Srq, CreateError> {
        self.engine.create_srq(pd, max_wr, max_sge)
    }

    fn arm_srq(&mut self, srq: Srq, limit: u32) -> Result<(), CreateError> {
        self.engine.arm_srq(srq, limit)
    }

    fn destroy_srq(&mut self, srq: Srq) -> Result<(), CreateError> {
        self.engine.destroy_srq(srq)
    }

    fn post_srq_recv(&mut self, srq: Srq, requests: &[RecvWr<'_>]) -> Result<(), PostError> {
        self.engine.post_srq_recv(srq, requests)
    }

    fn create_ah(&mut self, pd: Pd, address: &AddressVector) -> Result<Ah, CreateError> {
        let link = &mut self.link;
        self.engine
            .create_ah(pd, address, |local, wanted| link.source_port(local, wanted))
    }

    fn destroy_ah(&mut self, ah: Ah) -> Result<(), CreateError> {
        self.engine.destroy_ah(ah)
    }

    fn alloc_mw(&mut self, pd: Pd) -> Result<Mw, CreateError> {
        self.engine.alloc_mw(pd)
    }

    fn dealloc_mw(&mut self, mw: Mw) -> Result<(), CreateError> {
        self.engine.dealloc_mw(mw)
    }

    fn create_qp(&mut self, init: &QpInit) -> Result<Qp, CreateError> {
        self.engine.create_qp(init)
    }

    fn destroy_qp(&mut self, qp: Qp) -> Result<(), CreateError> {
        // The last acknowledgement or fatal NAK may still be owed: the peer would wait for it.
        self.push()
            .map_err(|error| CreateError::Device(error.message))?;
        self.engine.destroy_qp(qp)
    }

    fn modify_qp(&mut self, qp: Qp, attr: &QpAttr) -> Result<(), ModifyError> {
        let link = &mut self.link;
        self.engine
            .modify_qp(qp, attr, |local, wanted| link.source_port(local, wanted))
    }

    fn query_qp(&self, qp: Qp) -> Result<QpInfo, CreateError> {
        self.engine.query_qp(qp)
    }

    fn post_send(&mut self, qp: Qp, requests: &[SendWr<'_>]) -> Result<(), PostError> {
        self.engine.post_send(qp, requests)
    }

    fn post_recv(&mut self, qp: Qp, requests: &[RecvWr<'_>]) -> Result<(), PostError> {
        self.engine.post_recv(qp, requests)
    }

    fn poll_cq(&mut self, cq: Cq, out: &mut [Completion]) -> Result<usize, CqError> {
        // What waits already is worth more than a system call.
        if !self.engine.has_completions(cq) {
            self.turn()
                .map_err(|error| CqError::Device(error.message))?;
        }
        self.engine.take_completions(cq, out)
    }

    fn arm_cq(&mut self, cq: Cq, solicited_only: bool) -> Result<(), CqError> {
        self.engine.arm_cq(cq, solicited_only)
    }

    fn progress(&mut self) -> Result<(), DeviceError> {
        self.turn().map_err(|error| DeviceError(error.message))
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), DeviceError> {
        self.push().map_err(|error| DeviceError(error.message))?;
        let now = self.clock.now();
        let due = self
            .engine
            .next_timeout()
            .map_or(timeout, |at| at.since(now).min(timeout));
        self.link
            .wait(Some(due))
            .map_err(|error| DeviceError(error.message))?;
        self.progress()
    }

    fn poll_event(&mut self) -> Option<AsyncEvent> {
        self.engine.poll_event()
    }

    fn activity(&self) -> u64 {
        self.engine.counters().rcvd_pkts
    }

    fn observe_writes(&mut self, observer: Option<WriteObserver>) -> bool {
        self.engine.observe_writes(observer);
        true
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut all = self.engine.counters().to_vec();
        all.extend(self.link.counters());
        all
    }
}
