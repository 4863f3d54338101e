//! What can end a run from outside: a signal, the peer's death, the network's word.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use anyhow::{Result, bail};
use roce_engine::verbs::{AsyncEvent, Backend};

use super::clock::{MILLISECOND, SECOND};

/// How often the outside is looked at: a system call or two.
const INTERVAL: u64 = MILLISECOND;
/// How long the network's complaint may stand while nothing moves: the default ack timeout and retries run out
/// before, and their status says more.
const COMPLAINT_GRACE: u64 = SECOND * 4 / 5;
/// How long an end that only receives waits for what may still be on its way from a peer that left.
const RECEIVER_GRACE: u64 = SECOND / 2;
/// How long a receiver may answer that it is not ready while nothing else moves.
const UNREADY: u64 = 10 * SECOND;
/// How long nothing at all may arrive.
const SILENCE: u64 = 60 * SECOND;

/// What ended a run without end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    /// A signal to this process.
    User,
    /// The peer is done, or gone.
    Peer,
}

/// Looks at the outside now and then.
#[derive(Debug)]
pub struct Watch {
    stop: Arc<AtomicBool>,
    // A signal and the peer's leaving are how the run ends.
    endless: bool,
    next: u64,
    work: u64,
    last_progress: u64,
    closed_at: Option<u64>,
    complaint: Option<(u64, String)>,
    // How long the transport may take to give up on a dead peer.
    grace: u64,
    // RNR NAKs when they were last looked at, and when they are looked at next.
    unready: u64,
    unready_next: u64,
}

impl Watch {
    /// Makes a watch whose signals set `stop`; `qp_timeout` is the coded ack timeout of the QPs.
    pub fn new(stop: Arc<AtomicBool>, qp_timeout: u8) -> Self {
        // Eight attempts, each of up to four times the coded time.
        let transport = (4096_u64 << qp_timeout.min(31)).saturating_mul(8 * 4);
        Self {
            stop,
            endless: false,
            next: 0,
            work: 0,
            last_progress: 0,
            closed_at: None,
            complaint: None,
            grace: transport.clamp(2 * SECOND, 10 * SECOND),
            unready: 0,
            unready_next: 0,
        }
    }

    /// Starts anew before a measurement, in which this end sends or only receives.
    pub const fn begin(&mut self, now: u64, sends: bool) {
        if !sends {
            self.grace = RECEIVER_GRACE;
        }
        self.work = 0;
        self.last_progress = now;
        self.next = now;
    }

    /// From here on a signal and the peer's leaving are no errors: [`Self::end`] tells of them.
    pub const fn expect_end(&mut self) {
        self.endless = true;
    }

    /// Returns what ended a run without end.
    pub fn end(&self) -> Option<End> {
        if self.stop.load(Ordering::Relaxed) {
            return Some(End::User);
        }
        self.closed_at.map(|_| End::Peer)
    }

    /// Returns whether it is time for [`Self::look`].
    #[inline]
    pub const fn is_due(&self, now: u64) -> bool {
        now >= self.next
    }

    /// Looks at signals, the device's events and the peer's connection. `work` grows with all that arrives.
    ///
    /// # Errors
    ///
    /// The run cannot end well any more.
    pub fn look<B: Backend>(
        &mut self,
        now: u64,
        backend: &mut B,
        work: u64,
        closed: impl FnOnce() -> bool,
    ) -> Result<()> {
        self.next = now + INTERVAL;
        if work != self.work {
            self.work = work;
            self.last_progress = now;
        }
        self.events(now, backend)?;
        if self.closed_at.is_none() && closed() {
            self.closed_at = Some(now);
        }
        if self.endless && self.end().is_some() {
            return Ok(());
        }
        let since = |at: u64| now.saturating_sub(at.max(self.last_progress));
        if let Some((_, text)) = self
            .complaint
            .as_ref()
            .filter(|(at, _)| since(*at) > COMPLAINT_GRACE)
        {
            bail!("{text}");
        }
        if self.closed_at.is_some_and(|at| since(at) > self.grace) {
            bail!(
                "the peer closed its TCP connection before the test was done: its process died or gave up"
            );
        }
        let silence = now.saturating_sub(self.last_progress);
        if silence > UNREADY && now >= self.unready_next {
            self.unready_next = now + SECOND;
            self.receiver_is_ready(backend)?;
        }
        if silence > SILENCE {
            bail!(
                "nothing has arrived for {} s: the peer's options may differ from ours (-n, -s, -q, -a, -b, -D)",
                SILENCE / SECOND
            );
        }
        Ok(())
    }

    /// Refuses to wait longer for a receiver whose only answers are that it is not ready: with the retries of
    /// perftest, which are endless, no completion would ever say so.
    fn receiver_is_ready<B: Backend>(&mut self, backend: &B) -> Result<()> {
        let counters = backend.counters();
        let rnr = counters.iter().find(|(name, _)| *name == "rcvd_rnr_err");
        let count = rnr.map_or(0, |(_, count)| *count);
        let before = core::mem::replace(&mut self.unready, count);
        if before > 0 && count > before {
            bail!(
                "the peer has had no receive posted for {} s ({count} RNR NAKs): its -n, -r or test differs from \
                 ours, or it has stopped",
                UNREADY / SECOND
            );
        }
        Ok(())
    }

    /// Takes the device's events and looks for a signal.
    ///
    /// # Errors
    ///
    /// A signal came, or a QP or CQ is broken.
    pub fn events<B: Backend>(&mut self, now: u64, backend: &mut B) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) && !self.endless {
            bail!("interrupted by a signal");
        }
        while let Some(event) = backend.poll_event() {
            self.event(now, event)?;
        }
        Ok(())
    }

    fn event(&mut self, now: u64, event: AsyncEvent) -> Result<()> {
        match event {
            AsyncEvent::PathUnreachable { remote, reason } => {
                self.complain(
                    now,
                    format!("packets to {remote} (UDP 4791) do not arrive: {reason}"),
                );
            }
            AsyncEvent::WrongSource {
                qpn,
                from,
                expected,
            } => self.complain(
                now,
                format!(
                    "packets for QPN {qpn} come from {from}, but the peer's GID is {expected}: there is a NAT \
                     between the two, or the peer took the wrong GID (-x)"
                ),
            ),
            AsyncEvent::QpFatal(qpn) => {
                bail!("QPN {qpn} failed locally");
            }
            AsyncEvent::QpRequestError(qpn) => {
                bail!(
                    "the peer sent an invalid request to QPN {qpn}: its test, -s, -m or -o differs from ours"
                );
            }
            AsyncEvent::QpAccessError(qpn) => {
                bail!(
                    "the peer reached for memory that QPN {qpn} does not allow: its -s or test differs from ours"
                );
            }
            AsyncEvent::CqError(cq) => {
                bail!("completion queue {} overflowed", cq.0);
            }
            AsyncEvent::Notice(text) => eprintln!("roce: {text}"),
            AsyncEvent::CommEstablished(_)
                | AsyncEvent::SqDrained(_)
                | AsyncEvent::SrqLimit(_)
                | AsyncEvent::LastWqeReached(_) => {}
        }
        Ok(())
    }

    fn complain(&mut self, now: u64, text: String) {
        if self.complaint.is_none() {
            self.complaint = Some((now, text));
        }
    }

    /// Returns what is known of the peer and the path, to explain a failure.
    pub fn hints(&self) -> Vec<String> {
        let closed = self
            .closed_at
            .map(|_| String::from("the peer's process is gone: its TCP connection is closed"));
        let complaint = self.complaint.as_ref().map(|(_, text)| text.clone());
        closed.into_iter().chain(complaint).collect()
    }

    /// Notes that the peer's connection is closed.
    pub fn note_closed(&mut self, now: u64) {
        self.closed_at.get_or_insert(now);
    }
}
