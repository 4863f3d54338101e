//! The order in which each test exchanges its messages: perftest's, so that a stock peer stays in step.
//!
//! | test | before the QPs connect | after | each measurement | at the end |
//! |---|---|---|---|---|
//! | write, read, atomic bandwidth | H of all | H of all, H | (H with `-b`) run | H, R, H |
//! | send bandwidth | H of all | H, H of all | H, run, (R with `-b`) | H |
//! | send latency | H | H, H | H, run | H |
//! | write latency | H, H | H, H | run | nothing |
//! | read, atomic latency | H, H | H, H | run | H |

use core::time::Duration;

use anyhow::{Result, bail};
use roce_engine::verbs::Gid;

use super::message::BwReport;
use super::{Endpoint, Exchange, OnIdle, Params, nat};
use crate::spec::{Metric, Op, Spec, Test};

/// How long the end of the peer's connection is waited for after the last message.
const LINGER: Duration = Duration::from_millis(300);
/// The same where there is no last message: the peer may still want acknowledgements of its last write.
const LINGER_UNANNOUNCED: Duration = Duration::from_secs(1);

/// What of a run decides the order of messages.
#[derive(Clone, Copy, Debug)]
struct Shape {
    test: Test,
    bidirectional: bool,
    all_sizes: bool,
    timed: bool,
    with_imm: bool,
}

impl Shape {
    /// A bandwidth test whose passive end is told by TCP that the run is over.
    fn is_one_sided_bandwidth(self) -> bool {
        self.test.is_bandwidth() && !self.posts_receives()
    }

    /// Messages take receives, which are posted before each measurement.
    fn posts_receives(self) -> bool {
        self.test.op == Op::Send || self.with_imm
    }
}

/// A run's exchange with its peer, from the first handshake to the last.
///
/// Call in this order: [`prefix`](Self::prefix), [`introduce`](Self::introduce), connect the QPs,
/// [`confirm`](Self::confirm), then for each size [`begin`](Self::begin), run, [`end`](Self::end); then
/// [`close`](Self::close).
#[derive(Debug)]
pub struct Session {
    exchange: Exchange,
    shape: Shape,
    local: Vec<Endpoint>,
    remote: Vec<Endpoint>,
}

impl Session {
    /// Starts the session of a run.
    pub const fn new(exchange: Exchange, spec: &Spec) -> Self {
        Self {
            exchange,
            shape: Shape {
                test: spec.test,
                bidirectional: spec.bidirectional,
                all_sizes: spec.all_sizes,
                timed: spec.duration.is_some() || spec.pace.row_every_s.is_some(),
                with_imm: spec.pace.with_imm,
            },
            local: Vec::new(),
            remote: Vec::new(),
        }
    }

    /// Returns the connection.
    pub const fn exchange(&self) -> &Exchange {
        &self.exchange
    }

    /// Returns what the peer said last about each of its QPs.
    pub fn remote(&self) -> &[Endpoint] {
        &self.remote
    }

    /// Returns a remark if the peer's TCP address and its GID don't fit together, for a run that fails.
    pub fn address_note(&self) -> Option<String> {
        let remote = self.remote.first()?;
        nat::address_note(self.exchange.peer_addr().ip(), remote.gid)
    }

    /// Exchanges versions and parameters; returns what both ends use.
    ///
    /// # Errors
    /// Names the stage and what the peer did instead.
    pub fn prefix(&mut self, ours: Params, idle: OnIdle<'_>) -> Result<Params> {
        let theirs = self.exchange.prefix(ours, idle)?;
        Ok(ours.agreed_with(theirs))
    }

    /// Returns the GID of the client before ours is chosen; nothing at a client.
    ///
    /// # Errors
    /// Names the stage and what the peer did instead.
    pub fn client_gid(&mut self, idle: OnIdle<'_>) -> Result<Option<Gid>> {
        let round = if self.extra_first_round() {
            "test"
        } else {
            "addresses"
        };
        let first = self.exchange.client_handshake(round, idle)?;
        Ok(first.map(|endpoint| endpoint.gid))
    }

    /// Exchanges the addresses of all QPs; `local` has ours. Returns the peer's, to connect to.
    ///
    /// # Errors
    /// Names the stage and what the peer did instead, or that the GIDs are of different families.
    pub fn introduce(&mut self, local: Vec<Endpoint>, idle: OnIdle<'_>) -> Result<&[Endpoint]> {
        self.local = local;
        let Some(first) = self.local.first().copied() else {
            bail!("a run needs a QP");
        };
        if self.extra_first_round() {
            self.exchange.handshake("test", 0, &first, idle)?;
        }
        self.all("addresses", idle)?;
        self.refuse_fewer_qps()?;
        for (local, remote) in self.local.iter().zip(&self.remote) {
            nat::check_families(local.gid, remote.gid)?;
        }
        Ok(&self.remote)
    }

    /// Says that our QPs are ready to receive, and waits until the peer's are. What the peer says here about its
    /// memory replaces what it said first.
    ///
    /// # Errors
    /// Names the stage and what the peer did instead.
    pub fn confirm(&mut self, idle: OnIdle<'_>) -> Result<()> {
        if self.shape.test == Test::new(Op::Send, Metric::Bandwidth) {
            self.first("connected", idle)?;
            self.all("ready", idle)
        } else {
            self.all("ready", idle)?;
            self.first("connected", idle)
        }
    }

    /// Waits until both ends may start a measurement: receives are posted before it, where the test has any.
    ///
    /// # Errors
    /// Names the stage and what the peer did instead.
    pub fn begin(&mut self, idle: OnIdle<'_>) -> Result<()> {
        let sync = match self.shape.test.metric {
            Metric::Latency => self.shape.posts_receives(),
            Metric::Bandwidth => self.shape.posts_receives() || self.shape.bidirectional,
        };
        if sync {
            self.barrier("start", idle)
        } else {
            Ok(())
        }
    }

    /// Ends a measurement, `last` if it is the last size. A passive server waits here until the client has finished.
    ///
    /// Returns the peer's report where the two exchange them: the row that the server of a one-way WRITE, READ or
    /// atomic test prints, or the other half of a bidirectional test. A passive end gives a report of zeros.
    ///
    /// # Errors
    /// Names the stage and what the peer did instead.
    pub fn end(
        &mut self,
        last: bool,
        ours: &BwReport,
        idle: OnIdle<'_>,
    ) -> Result<Option<BwReport>> {
        let shape = self.shape;
        if !shape.test.is_bandwidth() {
            return Ok(None);
        }
        let finished = match (
            shape.is_one_sided_bandwidth(),
            shape.bidirectional,
            shape.all_sizes,
        ) {
            // Nobody is told between sizes.
            (true, false, true) if !last => return Ok(None),
            (true, false, _) | (true, true, true) => true,
            (false, _, true) => shape.test.op == Op::Write,
            (true, true, false) | (false, _, false) => false,
        };
        if finished {
            self.barrier("finished", idle)?;
        }
        let reports = if shape.is_one_sided_bandwidth() {
            true
        } else {
            shape.bidirectional && !shape.timed
        };
        let theirs = if reports {
            Some(self.exchange.bw_report(ours, idle)?)
        } else {
            None
        };
        if !shape.is_one_sided_bandwidth() && shape.all_sizes && shape.test.op == Op::Send {
            self.barrier("size done", idle)?;
        }
        Ok(theirs)
    }

    /// Says goodbye: the last handshake where the test has one, then waits for the end of the connection.
    ///
    /// # Errors
    /// Names the stage and what the peer did instead.
    pub fn close(&mut self, idle: OnIdle<'_>) -> Result<()> {
        let announced = self.shape.test != Test::new(Op::Write, Metric::Latency);
        if announced {
            self.barrier("close", idle)?;
        }
        let linger = if announced {
            LINGER
        } else {
            LINGER_UNANNOUNCED
        };
        self.exchange.finish(linger, idle)?;
        Ok(())
    }

    /// Leaves without a word, where the peer is in its loop or gone: waits for the end of its connection.
    ///
    /// # Errors
    /// Only those of the callback.
    pub fn leave(&mut self, idle: OnIdle<'_>) -> Result<()> {
        self.exchange.finish(LINGER, idle)?;
        Ok(())
    }

    fn extra_first_round(&self) -> bool {
        let test = self.shape.test;
        test.metric == Metric::Latency && test.op != Op::Send
    }

    /// Refuses a peer that has begun its next round while we are in this one. The number of QPs is not exchanged: a
    /// peer with fewer says again what it said first.
    fn refuse_fewer_qps(&self) -> Result<()> {
        let Some(first) = self.remote.first() else {
            return Ok(());
        };
        let again = |remote: &Endpoint| remote.qpn == first.qpn;
        if let Some(theirs) = self.remote.iter().skip(1).position(again) {
            bail!(
                "the peer names its QPN {} again after {} QPs, and we have {}: give both ends the same -q",
                first.qpn,
                theirs + 1,
                self.remote.len()
            );
        }
        Ok(())
    }

    /// One handshake per QP.
    fn all(&mut self, round: &'static str, idle: OnIdle<'_>) -> Result<()> {
        self.remote.resize(self.local.len(), Endpoint::default());
        for (qp, (local, remote)) in (0..).zip(self.local.iter().zip(&mut self.remote)) {
            *remote = self.exchange.handshake(round, qp, local, idle)?;
        }
        Ok(())
    }

    /// One handshake of QP 0, bounded as those before the test.
    fn first(&mut self, round: &'static str, idle: OnIdle<'_>) -> Result<()> {
        if let (Some(local), Some(remote)) = (self.local.first(), self.remote.first_mut()) {
            *remote = self.exchange.handshake(round, 0, local, idle)?;
        }
        Ok(())
    }

    /// One handshake of QP 0, bounded by the peer's silence.
    fn barrier(&mut self, round: &'static str, idle: OnIdle<'_>) -> Result<()> {
        if let (Some(local), Some(remote)) = (self.local.first(), self.remote.first_mut()) {
            *remote = self.exchange.barrier(round, local, idle)?;
        }
        Ok(())
    }
}
