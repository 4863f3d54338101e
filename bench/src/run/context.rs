//! What every loop of a run needs: the device, the clock, the watch, and how to wait.

use core::time::Duration;

use anyhow::{Result, bail};
use roce_engine::verbs::{Ah, Backend, Completion, Cq, Qp, QpAttr, QpState, Srq, Status};

use super::clock::{MILLISECOND, RunClock};
use super::failure::{Ends, likely_cause};
use super::flow::WrId;
use super::load::Load;
use super::progress::{Goal, Progress};
use super::quiet::Arrivals;
use super::watch::{Standing, Watch, wrong_service};
use crate::exit;
use crate::peer::{Endpoint, GONE, Idle, Session};
use crate::spec::Spec;

/// Completions that one poll takes.
pub const POLL: usize = 64;
/// How long a quiet device is polled before it is slept on.
const SPIN: u64 = 50_000;
/// The longest sleep on a quiet device: the peer's TCP messages are looked at between two.
const SLEEP: Duration = Duration::from_micros(500);

/// The longest that [`Context::drain`] takes.
const DRAIN: u64 = 50 * MILLISECOND;

/// A QP and its peer, for messages.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// Names our QP to the backend.
    pub qp: Qp,
    /// What the peer was told.
    pub local: Endpoint,
    /// What the peer told.
    pub remote: Endpoint,
    /// The way to the peer, for datagrams.
    pub ah: Option<Ah>,
}

/// What every loop of a run needs.
#[derive(Debug)]
pub struct Context<'r, B> {
    /// The device.
    pub backend: &'r mut B,
    /// The run.
    pub spec: &'r Spec,
    /// The completion queue of all QPs.
    pub cq: Cq,
    /// The QPs.
    pub pairs: Vec<Pair>,
    /// The run's time.
    pub clock: RunClock,
    /// What can end the run from outside.
    pub watch: Watch,
    progress: Progress,
    // RNR NAKs sent until all counted messages were here: more than that ask for messages that don't come.
    full: Option<u64>,
    /// The queue that all QPs take receives from (`--use-srq`).
    pub srq: Option<Srq>,
    /// How many receives were posted and taken, where what is left serves the next measurement: per QP.
    pub receives: Vec<(u64, u64)>,
    /// What came of what was sent, where messages may be lost.
    pub arrivals: Arrivals,
    // The CQ will tell of its next completion (`-e`).
    armed: bool,
    activity: u64,
    busy_at: u64,
}

impl<'r, B: Backend> Context<'r, B> {
    /// Makes the context of a run without QPs.
    pub fn new(backend: &'r mut B, spec: &'r Spec, cq: Cq, watch: Watch) -> Self {
        Self {
            backend,
            spec,
            cq,
            pairs: Vec::new(),
            clock: RunClock::start(),
            watch,
            progress: Progress::new(),
            full: None,
            srq: None,
            receives: Vec::new(),
            arrivals: Arrivals::default(),
            armed: false,
            activity: 0,
            busy_at: 0,
        }
    }

    /// Starts a measurement: what happened before it no longer counts.
    pub fn begin(&mut self, load: &Load) -> u64 {
        let now = self.clock.now();
        self.full = None;
        self.watch.begin(now, load.sends);
        let both = u64::from(load.sends) + u64::from(load.receives);
        let goal = match (load.iters, self.spec.duration) {
            (_, Some(span)) => Goal::Nanos(span.total.as_nanos() as u64),
            (Some(iters), None) => Goal::Messages(iters * u64::from(self.spec.qps) * both.max(1)),
            // Its rows say that it goes on.
            (None, None) => return now,
        };
        self.progress.begin(now, goal, load.size);
        now
    }

    /// Ends a measurement.
    pub fn end(&mut self) {
        self.progress.end();
    }

    /// Progresses the device while the peer is waited for on TCP, sleeping when nothing moves.
    ///
    /// # Errors
    ///
    /// The device failed, or something ended the run from outside.
    pub fn idle(&mut self) -> Result<Idle> {
        self.backend.progress()?;
        let now = self.clock.now();
        let moved = self.note_activity(now);
        if self.watch.is_due(now) {
            self.watch.events(now, self.backend)?;
        }
        if moved {
            return Ok(Idle::Progress);
        }
        if self.backend.is_autonomous() {
            return Ok(Idle::Rest);
        }
        self.relax(now)?;
        Ok(Idle::Spin)
    }

    /// Takes in what has reached this end already, for a moment at most: the peer's last word on TCP may have
    /// overtaken packets.
    ///
    /// # Errors
    ///
    /// The device failed.
    pub fn drain(&mut self) -> Result<()> {
        let until = self.clock.now() + DRAIN;
        while self.clock.now() < until {
            self.backend.progress()?;
            let now = self.clock.now();
            if !self.note_activity(now) {
                break;
            }
        }
        Ok(())
    }

    /// Takes completions; `now` is taken right after.
    ///
    /// # Errors
    ///
    /// The CQ or the device failed, or a request did: says which, and why it usually happens.
    #[inline]
    pub fn poll(&mut self, completions: &mut [Completion], session: &Session) -> Result<usize> {
        let count = self.backend.poll_cq(self.cq, completions)?;
        let taken = &completions[..count];
        if let Some(bad) = taken.iter().find(|c| c.status != Status::Success) {
            // The first of a failed QP says why, flushed ones only that something did.
            let cause = taken
                .iter()
                .find(|c| !matches!(c.status, Status::Success | Status::WrFlushErr))
                .unwrap_or(bad);
            return Err(self.failed(*cause, session));
        }
        Ok(count)
    }

    /// Waits a little if the device has been quiet for long enough.
    ///
    /// # Errors
    ///
    /// The device failed.
    #[inline]
    pub fn relax(&mut self, now: u64) -> Result<()> {
        if self.spec.qp.events {
            return self.sleep();
        }
        if self.note_activity(now) || now.saturating_sub(self.busy_at) < SPIN {
            core::hint::spin_loop();
            return Ok(());
        }
        self.backend.wait(SLEEP)?;
        Ok(())
    }

    /// Sleeps until the CQ has told of a completion, or for a moment.
    fn sleep(&mut self) -> Result<()> {
        if !self.armed {
            self.backend.arm_cq(self.cq, false)?;
            self.armed = true;
            // What completed before it was armed is not told of: the caller polls once more.
            return Ok(());
        }
        let mut told = self.backend.take_notification(self.cq);
        if !told {
            self.backend.wait(SLEEP)?;
            told = self.backend.take_notification(self.cq);
        }
        self.armed = !told;
        Ok(())
    }

    /// Looks at the outside, if it is time to.
    ///
    /// # Errors
    ///
    /// The run cannot end well any more.
    #[inline]
    pub fn look(&mut self, now: u64, standing: Standing, session: &Session) -> Result<()> {
        if !self.watch.is_due(now) {
            return Ok(());
        }
        self.progress.tick(now, standing.work);
        self.watch.look(now, self.backend, standing, || {
            session.exchange().peer_word()
        })
    }

    /// Refuses the result of a run by the clock in which this end and its peer did not run at the same time.
    ///
    /// # Errors
    ///
    /// The peer refused all of its second half, or was through in its first three quarters.
    pub fn timed_end(&self, now: u64) -> Result<()> {
        let Some(span) = self.spec.duration else {
            return Ok(());
        };
        let total = u64::try_from(span.total.as_nanos()).unwrap_or(u64::MAX);
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        if let Some(at) = self.watch.spoke_at()
            && now.saturating_sub(at) > total / 4
        {
            bail!(
                "the peer was through {:.1} s before the end of -D {}: its -n or -D differs from ours, and no figure \
                 of this run is right",
                seconds(now - at),
                span.total.as_secs()
            );
        }
        let stalled = now.saturating_sub(self.watch.last_progress());
        if stalled > total / 2 && self.counter("rcvd_rnr_err") > 0 {
            bail!(
                "the peer had no receive posted in the last {:.1} s of -D {}: it was through before, so its -n or -D \
                 differs from ours, and no figure of this run is right",
                seconds(stalled),
                span.total.as_secs()
            );
        }
        Ok(())
    }

    /// Notes that all counted messages are here.
    pub fn note_full(&mut self) {
        self.full = Some(self.counter("send_rnr_err"));
    }

    /// Returns what tells of messages beyond those that were counted, once the peer is done or gone.
    pub fn surplus(&mut self) -> Option<String> {
        let asked = self.counter("send_rnr_err").saturating_sub(self.full?);
        let mut extra = 0;
        let mut completions = [Completion::default(); POLL];
        while let Ok(count @ 1..) = self.backend.poll_cq(self.cq, &mut completions) {
            let received =
                |c: &&Completion| c.status == Status::Success && WrId::decode(c.wr_id).receive;
            extra += completions[..count].iter().filter(received).count();
        }
        (asked > 0 || extra > 0).then(|| {
            format!(
                "the peer sends more messages than our -n {}: its -n or -D differs from ours",
                self.spec.iters
            )
        })
    }

    fn counter(&self, name: &str) -> u64 {
        let counters = self.backend.counters();
        let found = counters.iter().find(|(other, _)| *other == name);
        found.map_or(0, |(_, count)| *count)
    }

    fn note_activity(&mut self, now: u64) -> bool {
        let activity = self.backend.activity();
        let moved = activity != self.activity;
        if moved {
            self.activity = activity;
            self.busy_at = now;
        }
        moved
    }

    /// Explains a failed completion: status, QPN, PSN, GIDs and the likely cause.
    fn failed(&mut self, completion: Completion, session: &Session) -> anyhow::Error {
        let id = WrId::decode(completion.wr_id);
        let what = if id.receive { "receive" } else { "request" };
        let ends = self.pairs.get(id.flow).map_or_else(
            || completion.qpn.to_string(),
            |pair| self.ends(pair).to_string(),
        );
        // The news of a peer's death may be a moment behind.
        let now = self.clock.now();
        let until = now + 50 * MILLISECOND;
        while !session.exchange().peer_closed() && self.clock.now() < until {
            if self.backend.wait(SLEEP).is_err() {
                break;
            }
        }
        if session.exchange().peer_closed() {
            self.watch.note_closed(now);
        }
        let more = self.watch.events(now, self.backend).err();
        if let Some(error) = &more
            && exit::status_of(error) == exit::INTERRUPTED
        {
            return exit::interrupted(error.to_string());
        }
        let text = format!(
            "{what} {} failed with {} on {ends}",
            id.number, completion.status
        );
        // A reason that the peer gave, or this end knows, needs no others; silence does.
        let silent = matches!(completion.status, Status::RetryExcErr | Status::WrFlushErr);
        let mut causes = if silent { self.certain() } else { Vec::new() };
        causes.extend(more.map(|error| error.to_string()));
        if !silent || causes.is_empty() {
            causes.insert(0, likely_cause(completion.status, id.receive).to_owned());
            causes.extend(session.address_note());
        }
        anyhow::Error::msg(format!("{text}: {}", causes.join("; ")))
    }

    /// Explains why a run ended early: the QPs, what was flushed, what is known of the peer and the network.
    pub fn explain(&mut self, error: anyhow::Error, session: &Session) -> anyhow::Error {
        let status = exit::status_of(&error);
        let mut text = format!("{error:#}");
        // What a completion said is explained already, and a signal needs no cause.
        if status == exit::INTERRUPTED || text.contains("IBV_WC_") || text.starts_with("verify") {
            return error;
        }
        let mut notes = Vec::new();
        if let Some(pair) = self.pairs.first() {
            notes.push(format!("on {}", self.ends(pair)));
        }
        if let Some(surplus) = self.surplus() {
            text = format!("{surplus}; {text}");
        }
        let closed = session.exchange().peer_closed();
        let known = self.certain();
        if closed {
            self.watch.note_closed(self.clock.now());
            notes.push(self.flush());
        } else if known.is_empty() {
            notes.extend(session.address_note());
        }
        if known.is_empty() && self.counter("rcvd_pkts") == 0 {
            notes.push(String::from(
                "no packet of the peer's has arrived: a firewall or a NAT may drop UDP 4791",
            ));
        }
        // That the peer has left since is no news about an error of another kind.
        let news = |note: &String| !note.contains(GONE) && !text.contains(note.as_str());
        notes.extend(known.into_iter().filter(news));
        for note in notes {
            text.push_str("; ");
            text.push_str(&note);
        }
        exit::with_status(status, text)
    }

    /// Returns what is certain about why packets don't arrive, or answers: faults of our own making first.
    fn certain(&self) -> Vec<String> {
        let counters = self.backend.counters();
        let broken: u64 = counters
            .iter()
            .filter(|(name, _)| name.starts_with("impair_"))
            .map(|(_, count)| count)
            .sum();
        let ours = (broken > 0).then(|| {
            format!(
                "--impair at this end has dropped, delayed or changed {broken} packets on purpose"
            )
        });
        ours.into_iter()
            .chain(self.watch.hints())
            .chain(wrong_service(self.backend))
            .collect()
    }

    /// Puts the QPs into error and says what became of the requests that they had.
    fn flush(&mut self) -> String {
        let error = QpAttr {
            state: Some(QpState::Err),
            ..QpAttr::default()
        };
        for pair in &self.pairs {
            // A QP that is gone has nothing to flush.
            let _changed = self.backend.modify_qp(pair.qp, &error);
        }
        let mut flushed = 0;
        let mut completions = [Completion::default(); POLL];
        while let Ok(count @ 1..) = self.backend.poll_cq(self.cq, &mut completions) {
            let bad = |c: &&Completion| c.status == Status::WrFlushErr;
            flushed += completions[..count].iter().filter(bad).count();
        }
        if flushed == 0 {
            String::from("no completion status, since no request of ours was outstanding")
        } else {
            format!("{flushed} requests flushed with {}", Status::WrFlushErr)
        }
    }

    fn ends(&self, pair: &Pair) -> Ends {
        let psn = self.backend.query_qp(pair.qp).ok();
        Ends {
            qpn: pair.local.qpn,
            remote_qpn: pair.remote.qpn,
            gid: pair.local.gid,
            remote_gid: pair.remote.gid,
            psn: psn
                .and_then(|info| info.attr.sq_psn)
                .unwrap_or(pair.local.psn),
        }
    }
}
