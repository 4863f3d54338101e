//! One TCP connection: whole messages, bounded waits, a callback while waiting, and the trace.

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use super::gone::Gone;
use super::stream::{Interest, Stream};
use super::{Idle, OnIdle};

/// How long a peer may be silent during the test, on TCP and RDMA both.
pub const QUIET_BOUND: Duration = Duration::from_secs(60);

/// How many turns with traffic go by between two looks at the socket.
const TURNS_PER_LOOK: u32 = 16;
/// How long a side whose device needs no turns sleeps on the socket: what comes wakes it, a signal, too.
const REST: Duration = Duration::from_millis(10);

/// What is waited for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stage {
    /// The version message.
    Version,
    /// The page size.
    PageSize,
    /// The cache line.
    CacheLine,
    /// The path MTU.
    Mtu,
    /// A line about a QP.
    Handshake {
        /// What the line means at this point.
        round: &'static str,
        /// Which QP, counted from 0.
        qp: u32,
    },
    /// A field of the bandwidth report.
    Report(&'static str),
}

impl Stage {
    /// Rounds of the handshake that come after the QPs are connected.
    const RUNNING: [&'static str; 4] = ["start", "finished", "size done", "close"];

    /// Returns whether the options that decide the exchange are known to fit by then.
    pub(super) fn is_late(self) -> bool {
        match self {
            Self::Handshake { round, .. } => Self::RUNNING.contains(&round),
            Self::Report(_) => true,
            Self::Version | Self::PageSize | Self::CacheLine | Self::Mtu => false,
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version => f.write_str("version"),
            Self::PageSize => f.write_str("page size"),
            Self::CacheLine => f.write_str("cache line"),
            Self::Mtu => f.write_str("MTU"),
            Self::Handshake { round, qp } => write!(f, "QP handshake (round \"{round}\", QP {qp})"),
            Self::Report(field) => write!(f, "bandwidth report ({field})"),
        }
    }
}

/// How long a wait may last.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bound {
    /// From its start.
    Total(Duration),
    /// Since traffic moved.
    Quiet(Duration),
}

/// One connection to a peer.
#[derive(Debug)]
pub(super) struct Channel {
    stream: Box<dyn Stream>,
    trace: bool,
    local: SocketAddr,
    peer: SocketAddr,
    /// Clients come to us.
    server: bool,
}

impl Channel {
    /// Takes a connected stream: no delay (a stock peer wants each message in one piece), no blocking, and probes
    /// so that a host that is gone is noticed.
    pub(super) fn new(stream: TcpStream, trace: bool) -> Result<Self> {
        use rustix::net::sockopt;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, Duration::from_secs(5))?;
        sockopt::set_tcp_keepintvl(&stream, Duration::from_secs(3))?;
        sockopt::set_tcp_keepcnt(&stream, 3)?;
        let local = stream.local_addr()?;
        let peer = stream.peer_addr().context("the peer left at once")?;
        Ok(Self::over(Box::new(stream), [local, peer], trace))
    }

    /// Takes any stream; the addresses are ours and the peer's.
    pub(super) fn over(stream: Box<dyn Stream>, addresses: [SocketAddr; 2], trace: bool) -> Self {
        let [local, peer] =
            addresses.map(|address| SocketAddr::new(address.ip().to_canonical(), address.port()));
        Self {
            stream,
            trace,
            local,
            peer,
            server: false,
        }
    }

    /// Returns the same channel as a server's end of it.
    pub(super) fn at_server(self, server: bool) -> Self {
        Self { server, ..self }
    }

    pub(super) const fn local(&self) -> SocketAddr {
        self.local
    }

    pub(super) const fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Looks whether the peer has closed its end, without taking anything from the stream.
    pub(super) fn peer_closed(&self) -> bool {
        self.stream.at_end()
    }

    /// Looks whether the peer has sent something that was not read yet.
    pub(super) fn peer_spoke(&self) -> bool {
        self.stream.has_bytes()
    }

    /// Sends a message in one write. Messages are far smaller than a socket buffer, so a partial write only happens
    /// to a peer that doesn't read.
    pub(super) fn send(
        &mut self,
        stage: Stage,
        message: &[u8],
        bound: Bound,
        idle: OnIdle<'_>,
    ) -> Result<()> {
        let mut wait = Wait::start(bound);
        let mut sent = 0;
        while sent < message.len() {
            match self.stream.write(&message[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !wait.go_on(&*self.stream, Interest::Write, idle)? {
                        bail!(
                            "sending our {stage}: {} reads nothing for {:?}",
                            self.peer,
                            wait.waited()
                        );
                    }
                }
                Err(error) => return Err(Gone::while_sending(stage, self.peer, &error).into()),
            }
        }
        Ok(())
    }

    /// Receives a whole message. `check` sees each part as it grows and may refuse it early.
    pub(super) fn receive<const N: usize>(
        &mut self,
        stage: Stage,
        check: fn(&[u8]) -> Result<()>,
        bound: Bound,
        idle: OnIdle<'_>,
    ) -> Result<[u8; N]> {
        let mut wait = Wait::start(bound);
        let mut message = [0; N];
        let mut have = 0;
        while have < N {
            match self.stream.read(&mut message[have..]) {
                Ok(0) => {
                    return Err(
                        Gone::while_waiting(stage, self.peer, (have, N), self.server).into(),
                    );
                }
                Ok(count) => {
                    have += count;
                    check(&message[..have])
                        .with_context(|| format!("waiting for the peer's {stage}"))?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let go_on = wait
                        .go_on(&*self.stream, Interest::Read, idle)
                        .with_context(|| format!("while waiting for the peer's {stage}"))?;
                    if !go_on {
                        bail!(
                            "waiting for the peer's {stage}: {have} of {N} bytes from {} in {:.1} s; \
                             it prepares its memory for longer than that (--connect-timeout), hangs, or its \
                             {DIFFERING} differs from ours",
                            self.peer,
                            wait.waited().as_secs_f64()
                        );
                    }
                }
                Err(error) => return Err(Gone::while_reading(stage, self.peer, &error).into()),
            }
        }
        Ok(message)
    }

    /// Says that we send no more, then reads until the peer says the same or `linger` has passed.
    ///
    /// Versions up to 6.16 write a trailer after the last message; reading it keeps their write from failing.
    /// Returns whether the peer closed.
    pub(super) fn close(&mut self, linger: Duration, idle: OnIdle<'_>) -> Result<bool> {
        // A peer that is gone already has said all it will.
        if self.stream.end().is_err() {
            return Ok(true);
        }
        let mut wait = Wait::start(Bound::Total(linger));
        let mut rest = [0; 64];
        loop {
            match self.stream.read(&mut rest) {
                Ok(0) => return Ok(true),
                Ok(count) => self.trace('<', || {
                    format!("trailer \"{}\"", rest[..count].escape_ascii())
                }),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !wait.go_on(&*self.stream, Interest::Read, idle)? {
                        return Ok(false);
                    }
                }
                Err(_) => return Ok(true),
            }
            if wait.waited() >= linger {
                return Ok(false);
            }
        }
    }

    /// Prints one message to stderr if the exchange is traced. `>` is ours, `<` the peer's.
    pub(super) fn trace(&self, direction: char, text: impl FnOnce() -> String) {
        if self.trace {
            eprintln!("exchange {direction} {}", text());
        }
    }
}

/// What changes the order of messages, or their number.
pub(crate) const DIFFERING: &str = "test, -q, -c, -n, -s, -a, -b or -D";

/// A wait in progress.
struct Wait {
    bound: Bound,
    start: Instant,
    last_progress: Instant,
}

impl Wait {
    fn start(bound: Bound) -> Self {
        let start = Instant::now();
        Self {
            bound,
            start,
            last_progress: start,
        }
    }

    fn waited(&self) -> Duration {
        self.start.elapsed()
    }

    /// Turns the caller's device until it is time to look at the socket. Returns false when the bound has passed.
    fn go_on(&mut self, stream: &dyn Stream, interest: Interest, idle: OnIdle<'_>) -> Result<bool> {
        let mut activity = Idle::Progress;
        let mut turns = 0;
        while activity == Idle::Progress && turns < TURNS_PER_LOOK {
            activity = idle()?;
            turns += 1;
        }
        if activity == Idle::Progress || turns > 1 {
            self.last_progress = Instant::now();
        }
        if activity == Idle::Rest {
            stream.wait(interest, REST);
        }
        Ok(match self.bound {
            Bound::Total(bound) => self.start.elapsed() < bound,
            Bound::Quiet(bound) => self.last_progress.elapsed() < bound,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn traffic_prolongs_a_wait_during_the_test() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut channel = Channel::new(stream, false).unwrap();
        let (bound, busy) = (Duration::from_millis(250), Duration::from_millis(1000));
        let stage = Stage::Handshake {
            round: "finished",
            qp: 0,
        };
        let mut wait = |bound| {
            let start = Instant::now();
            let mut idle = || {
                Ok(if start.elapsed() < busy {
                    Idle::Progress
                } else {
                    Idle::Rest
                })
            };
            let end = channel.receive::<108>(stage, |_| Ok(()), bound, &mut idle);
            (end.unwrap_err().to_string(), start.elapsed())
        };
        let (error, quiet) = wait(Bound::Quiet(bound));
        assert!(
            quiet >= busy && error.contains("\"finished\""),
            "{quiet:?} {error}"
        );
        let (_, total) = wait(Bound::Total(bound));
        assert!(total < busy, "{total:?}");
    }
}
