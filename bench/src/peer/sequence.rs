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
use roce_engine::verbs::{Gid, LinkLayer};

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
    size: u64,
    // This end sends, and so may the other.
    requester: bool,
    endless: bool,
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
                size: spec.size,
                requester: spec.is_requester(),
                endless: spec.pace.row_every_s.is_some(),
                bidirectional: spec.bidirectional,
                all_sizes: spec.all_sizes,
                timed: spec.duration.is_some() || spec.pace.row_every_s.is_some(),
                with_imm: spec.pace.with_imm,
            },
            local: Vec::new(),
            remote: Vec::new(),
        }
    }

    /// Takes the form of messages that our port's link layer asks for: InfiniBand has no GIDs in them unless a row of
    /// the table was named.
    pub fn set_addressing(&mut self, layer: LinkLayer, gid_index: Option<u8>) {
        let by_lid = layer == LinkLayer::InfiniBand && gid_index.is_none();
        self.exchange.set_by_lid(by_lid);
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
            let theirs = self.exchange.bw_report(ours, idle)?;
            if !shape.endless {
                self.fits(&theirs)?;
            }
            Some(theirs)
        } else {
            None
        };
        if !shape.is_one_sided_bandwidth() && shape.all_sizes && shape.test.op == Op::Send {
            self.barrier("size done", idle)?;
        }
        Ok(theirs)
    }

    /// Refuses a report that the peer can't have measured in the run that ours is.
    fn fits(&self, theirs: &BwReport) -> Result<()> {
        let Shape {
            size,
            requester,
            bidirectional,
            ..
        } = self.shape;
        if requester && !bidirectional {
            // A passive peer sends what is on its stack; one that measured says so in all fields.
            return theirs.is_idle_beside(size);
        }
        theirs.is_possible()
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

    /// One handshake per QP.
    fn all(&mut self, round: &'static str, idle: OnIdle<'_>) -> Result<()> {
        self.remote.resize(self.local.len(), Endpoint::default());
        for index in 0..self.local.len() {
            let qp = u32::try_from(index).unwrap_or(u32::MAX);
            let said = self
                .exchange
                .handshake(round, qp, &self.local[index], idle)?;
            self.heard(round, index, said)?;
        }
        Ok(())
    }

    /// One handshake of QP 0, bounded as those before the test.
    fn first(&mut self, round: &'static str, idle: OnIdle<'_>) -> Result<()> {
        let Some(local) = self.local.first() else {
            return Ok(());
        };
        let said = self.exchange.handshake(round, 0, local, idle)?;
        self.heard(round, 0, said)
    }

    /// One handshake of QP 0, bounded by the peer's silence.
    fn barrier(&mut self, round: &'static str, idle: OnIdle<'_>) -> Result<()> {
        let Some(local) = self.local.first() else {
            return Ok(());
        };
        let said = self.exchange.barrier(round, local, idle)?;
        self.heard(round, 0, said)
    }

    /// Takes what the peer said about its QP `index`. Each round is about the same QPs in the same order, so a line
    /// about another one is out of step: the peer has more of them than we, or fewer.
    fn heard(&mut self, round: &'static str, index: usize, said: Endpoint) -> Result<()> {
        let ours = self.local.len();
        if round == "addresses" {
            if let Some(first) = self.remote[..index]
                .iter()
                .position(|other| other.qpn == said.qpn)
            {
                bail!(
                    "the peer names its QPN {} again after {} QPs, and we have {ours}: give both ends the same -q",
                    said.qpn,
                    index - first
                );
            }
        } else if round != "test" && self.remote[index].qpn != said.qpn {
            bail!(
                "the peer names QPN {} where its QP {index}, QPN {}, was expected (round \"{round}\"): it has more QPs \
                 than our {ours}, give both ends the same -q",
                said.qpn,
                self.remote[index].qpn
            );
        }
        self.remote[index] = said;
        Ok(())
    }
}
