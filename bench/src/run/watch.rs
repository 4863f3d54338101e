//! What can end a run from outside: a signal, the peer's death, the network's word.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use anyhow::{Result, bail};
use roce_engine::verbs::{AsyncEvent, Backend};

use super::clock::{MILLISECOND, SECOND};
use crate::exit::interrupted;
use crate::peer::{DIFFERING, GONE, Word};
use crate::spec::{Metric, Op, Spec, Test};

/// How often the outside is looked at: a system call or two.
const INTERVAL: u64 = MILLISECOND;
/// How long the network's complaint may stand where nothing ever moved: the default ack timeout and retries run out
/// before, and their status says more.
const COMPLAINT_GRACE: u64 = SECOND * 4 / 5;
/// How long an end that only receives waits for what may still be on its way from a peer that left.
const RECEIVER_GRACE: u64 = SECOND / 2;
/// How long a receiver may answer that it is not ready while nothing else moves.
const UNREADY: u64 = 10 * SECOND;
/// How long nothing at all may arrive where this end's own pace has pauses.
const PACED_SILENCE: u64 = 60 * SECOND;

/// How far a loop is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Standing {
    /// Grows with all that arrives or completes.
    pub work: u64,
    /// What is missing, unless the clock or a signal ends the loop.
    pub left: Option<u64>,
}

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
    // Packets that had arrived when that was last looked at, and when it was another number.
    packets: u64,
    last_packet: u64,
    // When the peer's next TCP message, which belongs to what comes after the loop, was first seen.
    spoke_at: Option<u64>,
    // How long nothing may arrive.
    silence: u64,
    // The peer says no goodbye: that it is through looks like its death.
    mute: bool,
    closed_at: Option<u64>,
    complaint: Option<(u64, String)>,
    // How long the transport may take to give up on a dead peer.
    transport: u64,
    // How long that is waited for at this end.
    grace: u64,
    // RNR NAKs when they were last looked at, and when they are looked at next.
    unready: u64,
    unready_next: u64,
}

impl Watch {
    /// Makes the watch of a run, whose signals set `stop`.
    pub fn new(stop: Arc<AtomicBool>, spec: &Spec) -> Self {
        // Eight attempts, each of up to four times the coded time.
        let transport = (4096_u64 << spec.qp_timeout.min(31))
            .saturating_mul(8 * 4)
            .clamp(2 * SECOND, 10 * SECOND);
        let bound = u64::try_from(spec.connect_timeout.as_nanos()).unwrap_or(u64::MAX);
        let paced = spec.pace.rate.is_some() || spec.pace.latency_gap_us > 0;
        Self {
            packets: 0,
            last_packet: 0,
            spoke_at: None,
            silence: if paced {
                bound.max(PACED_SILENCE)
            } else {
                bound
            },
            mute: spec.test == Test::new(Op::Write, Metric::Latency),
            stop,
            endless: false,
            next: 0,
            work: 0,
            last_progress: 0,
            closed_at: None,
            complaint: None,
            transport,
            grace: transport,
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
        self.last_packet = now;
        self.spoke_at = None;
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

    /// Returns since when the peer waits for what comes after the loop.
    pub const fn spoke_at(&self) -> Option<u64> {
        self.spoke_at
    }

    /// Returns when something completed last.
    pub const fn last_progress(&self) -> u64 {
        self.last_progress
    }

    /// Looks at signals, the device's events and the peer's connection.
    ///
    /// # Errors
    ///
    /// The run cannot end well any more.
    pub fn look<B: Backend>(
        &mut self,
        now: u64,
        backend: &mut B,
        standing: Standing,
        word: impl FnOnce() -> Word,
    ) -> Result<()> {
        self.next = now + INTERVAL;
        if standing.work != self.work {
            self.work = standing.work;
            self.last_progress = now;
        }
        self.events(now, backend)?;
        if self.closed_at.is_none() && self.spoke_at.is_none() {
            match word() {
                Word::None => {}
                Word::Spoke => self.spoke_at = Some(now),
                Word::Closed => self.closed_at = Some(now),
            }
        }
        if self.endless && self.end().is_some() {
            return Ok(());
        }
        let since = |at: u64| now.saturating_sub(at.max(self.last_progress));
        // A path that worked may come back within the transport's own time, whose status then says more.
        let patience = if self.work > 0 {
            self.transport
        } else {
            COMPLAINT_GRACE
        };
        if let Some((_, text)) = self
            .complaint
            .as_ref()
            .filter(|(at, _)| self.closed_at.is_none() && since(*at) > patience)
        {
            bail!("{text}");
        }
        if self.closed_at.is_some_and(|at| since(at) > self.grace) {
            bail!("{}", self.left(standing));
        }
        let silence = now.saturating_sub(self.last_progress);
        if silence > UNREADY && now >= self.unready_next {
            self.unready_next = now + SECOND;
            self.receiver_is_ready(backend)?;
        }
        if let Some(reason) = self.silence(now, backend.activity(), standing) {
            bail!("{}", wrong_service(backend).unwrap_or(reason));
        }
        Ok(())
    }

    /// Says so if a peer waits for us, or nothing comes from it, for too long. `packets` changes with all that come.
    fn silence(&mut self, now: u64, packets: u64, standing: Standing) -> Option<String> {
        if packets != self.packets {
            (self.packets, self.last_packet) = (packets, now);
        }
        let last = self.last_packet.max(self.last_progress);
        let silence = now.saturating_sub(last.max(self.spoke_at.unwrap_or(0)));
        if self.endless || silence <= self.silence {
            return None;
        }
        let missing = missing(standing);
        Some(if self.spoke_at.is_some() {
            format!(
                "the peer is through with its test, its next TCP message is here, and this end waits for {missing}: \
                 its {DIFFERING} differs from ours"
            )
        } else {
            format!(
                "nothing has arrived for {} s (--connect-timeout) and this end waits for {missing}: the peer hangs, \
                 or its {DIFFERING} differs from ours",
                self.silence.div_ceil(SECOND)
            )
        })
    }

    /// Says that the peer left.
    fn left(&self, standing: Standing) -> String {
        let missing = missing(standing);
        if self.mute {
            format!(
                "the peer is through with its test or its process is gone: {GONE}, and this end waits for {missing}: \
                 give both ends the same -n and -D"
            )
        } else {
            format!("the peer's process is gone: {GONE}, and this end waits for {missing}")
        }
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
            return Err(interrupted("interrupted by a signal"));
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
        // Who is gone does not answer: no word of the network's adds to that.
        if self.closed_at.is_some() {
            return vec![format!("the peer's process is gone: {GONE}")];
        }
        let complaint = self.complaint.as_ref().map(|(_, text)| text.clone());
        complaint.into_iter().collect()
    }

    /// Notes that the peer's connection is closed.
    pub fn note_closed(&mut self, now: u64) {
        self.closed_at.get_or_insert(now);
    }
}

fn missing(standing: Standing) -> String {
    match standing.left {
        None => String::from("its end"),
        Some(1) => String::from("1 more message"),
        Some(left) => format!("{left} more messages"),
    }
}

/// Says so if packets of another service than this end's have been dropped: nothing in the exchange tells of `-c`.
pub fn wrong_service<B: Backend>(backend: &B) -> Option<String> {
    let counters = backend.counters();
    let (_, count) = counters
        .iter()
        .find(|(name, count)| *name == "drop_wrong_service" && *count > 0)?;
    Some(format!(
        "the peer's -c differs from ours: {count} packets of another service than this end's were dropped"
    ))
}

#[cfg(test)]
mod tests;
