//! What one measurement does, worked out from the run's options once.

use roce_engine::verbs::Service;

use super::buffers::Buffers;
use super::flow::{Action, Signal};
use super::warmup;
use crate::spec::{AtomicKind, Op, Spec};

/// What one measurement does.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// What each request is.
    pub action: Action,
    /// Bytes of a message.
    pub size: u32,
    /// Messages per QP; nothing if the clock ends it.
    pub iters: Option<u64>,
    /// Messages of a QP that go ahead of the measurement.
    pub ahead: u64,
    /// Requests of a QP that may be outstanding.
    pub depth: u64,
    /// Receives of a QP that are posted.
    pub rx_depth: u64,
    /// Requests that are posted at once.
    pub list: u64,
    /// Which requests are signaled.
    pub signal: Signal,
    /// This end sends.
    pub sends: bool,
    /// This end receives SENDs.
    pub receives: bool,
    /// This end sends only when something has arrived.
    pub waits: bool,
    /// Each post and completion is stamped.
    pub peak: bool,
    /// Messages may be lost on the way here: the end is not known by their count.
    pub lossy: bool,
    /// Bytes that each receive has room for.
    pub room: u32,
    /// As many receives as the queue holds are kept posted, each with room for any message of the run: what is left
    /// of one measurement serves the next. Otherwise no more than there are messages.
    pub keeps_full: bool,
}

impl Load {
    /// Works out the measurement of messages of `size` bytes.
    pub fn new(spec: &Spec, buffers: &Buffers, size: u64) -> Self {
        let bandwidth = spec.test.is_bandwidth();
        let iters = spec.counted();
        let sends = spec.is_requester();
        let receives = spec.is_receiver();
        let unreliable = spec.service != Service::Rc;
        let keeps_full = unreliable || spec.qp.use_srq;
        let bytes = |size: u64| u32::try_from(size).unwrap_or(u32::MAX);
        let every = if bandwidth {
            u64::from(spec.cq_mod).min(buffers.tx_depth()).max(1)
        } else {
            1
        };
        Self {
            action: match (spec.test.op, spec.atomic) {
                (Op::Write, _) => Action::Write,
                (Op::Read, _) => Action::Read,
                (Op::Send, _) => Action::Send,
                (Op::Atomic, AtomicKind::FetchAdd) => Action::Add,
                (Op::Atomic, AtomicKind::CompareSwap) => Action::Swap,
            },
            size: bytes(size),
            iters,
            ahead: warmup::messages(spec, buffers),
            depth: buffers.tx_depth(),
            rx_depth: if keeps_full {
                buffers.rx_depth()
            } else {
                buffers.rx_depth().min(iters.unwrap_or(u64::MAX))
            },
            list: u64::from(spec.post_list),
            signal: Signal {
                every,
                last: iters.map(|iters| iters.saturating_sub(1)),
            },
            sends,
            receives,
            waits: receives && bandwidth && spec.bidirectional && !spec.is_active(),
            peak: sends && spec.measures_peak(),
            lossy: unreliable && (receives || !bandwidth),
            room: bytes(if keeps_full { spec.size } else { size }),
            keeps_full,
        }
    }

    /// Returns how many requests may be posted to a QP: whole lists, within the depth and the iterations.
    #[inline]
    pub fn room(&self, posted: u64, completed: u64) -> u64 {
        let left = self.iters.map_or(u64::MAX, |iters| iters - posted);
        let room = (self.depth - (posted - completed)).min(left);
        if self.list == 1 {
            room
        } else {
            room - room % self.list
        }
    }

    /// Returns whether a receive that was used is posted again: not beyond the messages that come.
    #[inline]
    pub fn offers_again(&self, offered: u64) -> bool {
        self.keeps_full || self.iters.is_none_or(|iters| offered < iters)
    }
}
