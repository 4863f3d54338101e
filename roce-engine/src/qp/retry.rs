//! Timeouts, NAKs and RNR: resend or give up.

use core::time::Duration;

use roce_wire::timing;

use super::Qp;
use super::timer::Timer;
use crate::shared::Shared;
use crate::time::Instant;
use crate::verbs::Status;

/// The value of `rnr_retry` that means for ever. There is none for `retry_cnt`: 7 means seven.
const RNR_FOREVER: u8 = 7;

/// Why packets are sent again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Cause {
    /// The responder saw a gap.
    SequenceNak,
    /// A response skipped a READ or an atomic.
    ImpliedNak,
    /// Nothing came back in time.
    Timeout,
}

impl Qp {
    /// Starts the ack timer afresh, if the QP has one.
    pub(super) fn start_retransmit(&mut self, shared: &mut Shared, now: Instant) {
        match self.attr.timeout.and_then(timing::ack_timeout) {
            Some(timeout) => self.start_timer(shared, Timer::Retransmit, now.after(timeout)),
            None => self.timers.clear(Timer::Retransmit),
        }
    }

    /// Acts on an ack timeout.
    pub(super) fn on_timeout(&mut self, shared: &mut Shared, now: Instant) {
        if self.requester.una == self.requester.next_psn {
            return;
        }
        if self.requester.in_flight() == 0 {
            // Everything is to be resent already and the link had no room: not the peer's fault.
            self.start_retransmit(shared, now);
            self.wake(shared);
            return;
        }
        shared.counters.local_ack_timeout_err += 1;
        self.resend(shared, now, Cause::Timeout);
    }

    /// Resends from the oldest packet that is not acknowledged, or fails the request it belongs to.
    pub(super) fn resend(&mut self, shared: &mut Shared, now: Instant, cause: Cause) {
        // One retry a burst: the packets behind a gap each bring the same news.
        if self.requester.in_recovery && cause != Cause::Timeout {
            return;
        }
        if self.requester.retries_left == 0 {
            shared.counters.retry_exceeded_err += 1;
            self.fail_head(shared, Status::RetryExcErr);
            return;
        }
        self.requester.retries_left -= 1;
        self.requester.in_recovery = true;
        self.requester.window.on_loss();
        if let Some(path) = &self.path {
            shared.peers.on_loss(path.peer);
        }
        self.requester.rewind();
        self.report_in_flight(shared);
        self.start_retransmit(shared, now);
        self.wake(shared);
    }

    /// Waits for the coded delay, then resends; or fails the request that no receive was posted for.
    pub(super) fn on_rnr(&mut self, shared: &mut Shared, now: Instant, timer: u8) {
        shared.counters.rcvd_rnr_err += 1;
        if self.timers.is_set(Timer::Rnr) {
            return;
        }
        if self.attr.rnr_retry != Some(RNR_FOREVER) {
            if self.requester.rnr_left == 0 {
                shared.counters.retry_rnr_exceeded_err += 1;
                self.fail_head(shared, Status::RnrRetryExcErr);
                return;
            }
            self.requester.rnr_left -= 1;
        }
        self.requester.in_recovery = true;
        self.requester.rewind();
        self.report_in_flight(shared);
        self.timers.clear(Timer::Retransmit);
        let delay: Duration = timing::rnr_delay(timer);
        self.start_timer(shared, Timer::Rnr, now.after(delay));
    }

    /// Forward progress by `packets`: counters are full again and the timer starts afresh.
    pub(super) fn on_progress(&mut self, shared: &mut Shared, now: Instant, packets: u32) {
        let in_flight = self.requester.in_flight() + packets;
        self.requester.window.on_ack(packets, in_flight);
        if let Some(path) = &self.path {
            shared.peers.on_ack(path.peer, packets);
        }
        self.requester.retries_left = self.attr.retry_cnt.unwrap_or(0);
        self.requester.rnr_left = self.attr.rnr_retry.unwrap_or(0);
        self.requester.in_recovery = false;
        self.report_in_flight(shared);
        if self.requester.una == self.requester.next_psn {
            self.timers.clear(Timer::Retransmit);
        } else if !self.timers.is_set(Timer::Rnr) {
            self.start_retransmit(shared, now);
        }
    }
}
