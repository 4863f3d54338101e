//! perftest's messages, one by one: the client speaks first in each.

use core::net::SocketAddr;
use core::time::Duration;
use std::net::TcpStream;

use anyhow::{Context as _, Result};

use super::channel::{Bound, Channel, QUIET_BOUND, Stage};
use super::message::{self, BwReport, Version};
use super::stream::Stream;
use super::{Endpoint, OnIdle, Params, Word, handshake};

/// A connection to a perftest peer, and which end of it we are.
#[derive(Debug)]
pub struct Exchange {
    channel: Channel,
    is_client: bool,
    setup: Bound,
    version: Option<Version>,
    /// A handshake of the client that was read before ours was ready.
    early: Option<Endpoint>,
    /// Lines are those of InfiniBand, without a GID.
    by_lid: bool,
}

/// Accepts any part of a message.
fn anything(_: &[u8]) -> Result<()> {
    Ok(())
}

impl Exchange {
    /// Takes a connected stream. `setup` bounds each wait before the test.
    ///
    /// # Errors
    /// Fails if the peer is gone already.
    pub fn new(stream: TcpStream, is_client: bool, setup: Duration, trace: bool) -> Result<Self> {
        let channel = Channel::new(stream, trace)?;
        Ok(Self::with(channel, is_client, setup))
    }

    /// Takes any stream between two addresses, ours and the peer's.
    pub fn over(
        stream: Box<dyn Stream>,
        addresses: [SocketAddr; 2],
        is_client: bool,
        setup: Duration,
    ) -> Self {
        Self::with(Channel::over(stream, addresses, false), is_client, setup)
    }

    fn with(channel: Channel, is_client: bool, setup: Duration) -> Self {
        Self {
            channel: channel.at_server(!is_client),
            is_client,
            setup: Bound::Total(setup),
            version: None,
            early: None,
            by_lid: false,
        }
    }

    /// Returns our address of the connection: on a server, the one that the client reached.
    pub const fn local_addr(&self) -> SocketAddr {
        self.channel.local()
    }

    /// Returns the peer's address of the connection.
    pub const fn peer_addr(&self) -> SocketAddr {
        self.channel.peer()
    }

    /// Takes the form without GIDs from here on, if it is to be.
    pub(super) const fn set_by_lid(&mut self, by_lid: bool) {
        self.by_lid = by_lid;
    }

    /// Returns whether we are the client.
    pub const fn is_client(&self) -> bool {
        self.is_client
    }

    /// Returns whether the peer has closed its end. It may still have sent something before.
    pub fn peer_closed(&self) -> bool {
        self.channel.peer_closed()
    }

    /// Returns whether the peer has sent a message that was not read yet.
    pub fn peer_spoke(&self) -> bool {
        self.channel.peer_spoke()
    }

    /// Returns what the peer has done that was not read yet.
    pub fn peer_word(&self) -> Word {
        if self.peer_spoke() {
            Word::Spoke
        } else if self.peer_closed() {
            Word::Closed
        } else {
            Word::None
        }
    }

    /// Returns the peer's version, once the prefix has been exchanged.
    pub const fn peer_version(&self) -> Option<&Version> {
        self.version.as_ref()
    }

    /// Exchanges versions, page sizes, cache lines and path MTUs. Returns the peer's; a peer without an opinion about
    /// the path MTU has ours.
    ///
    /// # Errors
    /// Names the stage and what the peer did instead.
    pub fn prefix(&mut self, ours: Params, idle: OnIdle<'_>) -> Result<Params> {
        let bound = self.setup;
        let theirs = self.swap(Stage::Version, Version::ours(), anything, bound, idle)?;
        let version = Version::parse(&theirs)?;
        self.channel
            .trace('>', || format!("V version {}", message::OUR_VERSION));
        self.channel.trace('<', || format!("V version {version}"));
        self.version = Some(version);

        let theirs = self.swap(
            Stage::PageSize,
            ours.page.to_be_bytes(),
            anything,
            bound,
            idle,
        )?;
        let page = message::parse_size("page size", theirs, &message::PAGES)?;
        self.channel
            .trace('>', || format!("P page size {}", ours.page));
        self.channel.trace('<', || format!("P page size {page}"));

        let line = ours.cache_line.to_be_bytes();
        let theirs = self.swap(Stage::CacheLine, line, anything, bound, idle)?;
        let cache_line = message::parse_size("cache line", theirs, &message::CACHE_LINES)?;
        self.channel
            .trace('>', || format!("L cache line {}", ours.cache_line));
        self.channel
            .trace('<', || format!("L cache line {cache_line}"));

        let theirs = self.swap(
            Stage::Mtu,
            message::mtu_message(ours.mtu),
            anything,
            bound,
            idle,
        )?;
        let mtu = message::parse_mtu(theirs)?;
        self.channel
            .trace('>', || format!("M path MTU {}", ours.mtu.bytes()));
        self.channel.trace('<', || match mtu {
            Some(mtu) => format!("M path MTU {}", mtu.bytes()),
            None => format!("M path MTU unknown (\"{}\")", theirs.escape_ascii()),
        });
        Ok(Params {
            page,
            cache_line,
            mtu: mtu.unwrap_or(ours.mtu),
        })
    }

    /// Reads the client's next handshake before ours is ready, so that a server can choose its GID by it.
    /// [`Self::handshake`] then answers it. Returns nothing at a client.
    ///
    /// # Errors
    /// As [`Self::handshake`].
    pub fn client_handshake(
        &mut self,
        round: &'static str,
        idle: OnIdle<'_>,
    ) -> Result<Option<Endpoint>> {
        if self.is_client {
            return Ok(None);
        }
        if self.early.is_none() {
            let endpoint =
                self.receive_handshake(Stage::Handshake { round, qp: 0 }, self.setup, idle)?;
            self.early = Some(endpoint);
        }
        Ok(self.early)
    }

    /// Exchanges the line about QP `qp`; `round` says what it means at this point. It is a barrier, too.
    ///
    /// # Errors
    /// Names the round, the QP and what the peer did instead.
    pub fn handshake(
        &mut self,
        round: &'static str,
        qp: u32,
        ours: &Endpoint,
        idle: OnIdle<'_>,
    ) -> Result<Endpoint> {
        self.handshake_within(round, qp, ours, self.setup, idle)
    }

    /// As [`Self::handshake`], bounded by the peer's silence on TCP and RDMA: for the time during and after the run.
    ///
    /// # Errors
    /// As [`Self::handshake`].
    pub fn barrier(
        &mut self,
        round: &'static str,
        ours: &Endpoint,
        idle: OnIdle<'_>,
    ) -> Result<Endpoint> {
        self.handshake_within(round, 0, ours, Bound::Quiet(QUIET_BOUND), idle)
    }

    /// Exchanges bandwidth reports: five messages each.
    ///
    /// # Errors
    /// Names the field and what the peer did instead.
    pub fn bw_report(&mut self, ours: &BwReport, idle: OnIdle<'_>) -> Result<BwReport> {
        let mut theirs = [[0; 8]; 5];
        for ((theirs, ours), field) in theirs
            .iter_mut()
            .zip(ours.to_messages())
            .zip(BwReport::FIELDS)
        {
            let bound = Bound::Quiet(QUIET_BOUND);
            *theirs = self.swap(Stage::Report(field), ours, anything, bound, idle)?;
        }
        let theirs = BwReport::from_messages(theirs);
        self.channel.trace('>', || format!("R {ours}"));
        self.channel.trace('<', || format!("R {theirs}"));
        Ok(theirs)
    }

    /// Says that we are done and waits until the peer says so, too, for at most `linger`. Returns whether it did.
    ///
    /// # Errors
    /// Only those of the callback.
    pub fn finish(&mut self, linger: Duration, idle: OnIdle<'_>) -> Result<bool> {
        self.channel.close(linger, idle)
    }

    fn handshake_within(
        &mut self,
        round: &'static str,
        qp: u32,
        ours: &Endpoint,
        bound: Bound,
        idle: OnIdle<'_>,
    ) -> Result<Endpoint> {
        let stage = Stage::Handshake { round, qp };
        let (long, short) = (handshake::encode(ours), handshake::encode_without_gid(ours));
        let line: &[u8] = if self.by_lid { &short } else { &long };
        if self.is_client {
            self.channel.send(stage, line, bound, idle)?;
            self.trace_handshake('>', round, qp, ours);
            self.receive_handshake(stage, bound, idle)
        } else {
            let theirs = match self.early.take() {
                Some(early) => early,
                None => self.receive_handshake(stage, bound, idle)?,
            };
            self.channel.send(stage, line, bound, idle)?;
            self.trace_handshake('>', round, qp, ours);
            Ok(theirs)
        }
    }

    fn receive_handshake(
        &mut self,
        stage: Stage,
        bound: Bound,
        idle: OnIdle<'_>,
    ) -> Result<Endpoint> {
        let channel = &mut self.channel;
        let endpoint = if self.by_lid {
            let line = channel.receive(stage, handshake::refuse_long_form, bound, idle)?;
            handshake::decode_without_gid(&line)
        } else {
            let line = channel.receive(stage, handshake::refuse_short_form, bound, idle)?;
            handshake::decode(&line)
        };
        let endpoint = endpoint.with_context(|| format!("in the peer's {stage}"))?;
        if let Stage::Handshake { round, qp } = stage {
            self.trace_handshake('<', round, qp, &endpoint);
        }
        Ok(endpoint)
    }

    fn trace_handshake(&self, direction: char, round: &str, qp: u32, endpoint: &Endpoint) {
        self.channel.trace(direction, || {
            format!(
                "H {round} QP {qp}: lid {:#06x} out {} qpn {} psn {:#08x} rkey {:#010x} vaddr {:#018x} gid {} srqn {}",
                endpoint.lid,
                endpoint.out,
                endpoint.qpn,
                endpoint.psn.value(),
                endpoint.rkey.0,
                endpoint.vaddr,
                endpoint.gid.to_ip(),
                endpoint.srqn
            )
        });
    }

    /// Exchanges messages of one size: the client's goes first.
    fn swap<const N: usize>(
        &mut self,
        stage: Stage,
        ours: [u8; N],
        check: fn(&[u8]) -> Result<()>,
        bound: Bound,
        idle: OnIdle<'_>,
    ) -> Result<[u8; N]> {
        if self.is_client {
            self.channel.send(stage, &ours, bound, idle)?;
            self.channel.receive(stage, check, bound, idle)
        } else {
            let theirs = self.channel.receive(stage, check, bound, idle)?;
            self.channel.send(stage, &ours, bound, idle)?;
            Ok(theirs)
        }
    }
}
