//! The sending half of a link: a pool of sockets, batches, and what to do when the kernel says no.

use core::net::IpAddr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use roce_engine::link::{Flow, LinkError};

use crate::batch::{Batches, MAX_SEGMENTS, Message};
use crate::config::Config;
use crate::events::{Events, refusal};
use crate::socket;
use crate::sys::{self, Header, Outgoing};

/// Send sockets of each local address: enough source ports for ECMP to spread QPs.
const POOL: usize = 8;

/// The lowest source port of RoCEv2.
const FIRST_PORT: u16 = 0xc000;

/// Ports to try near a wanted one, when others have bound theirs.
const NEARBY: u16 = 64;

/// Attempts at one message without progress until it is dropped. Errors of earlier packets come up
/// at the next send, so the first refusal says nothing of this one.
const ATTEMPTS: u32 = 3;

/// Reports taken from an error queue at a time.
const REPORTS: usize = 64;

/// Why a socket takes no more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Blocked {
    No,
    /// Its buffer is full: `poll` tells when there is room.
    Full,
    /// The device's queue is full, and nothing tells when it isn't.
    Queue,
}

#[derive(Debug)]
struct SendSocket {
    fd: OwnedFd,
    local: IpAddr,
    port: u16,
    pending: bool,
    blocked: Blocked,
}

/// Counters of the sending half.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SendCounters {
    pub(crate) packets: u64,
    pub(crate) messages: u64,
    pub(crate) calls: u64,
    pub(crate) dropped: u64,
    pub(crate) no_room: u64,
    pub(crate) split: u64,
    pub(crate) errors: u64,
}

/// What to do after an error.
enum Next {
    Again,
    Later,
}

/// The sending half.
#[derive(Debug)]
pub(crate) struct Transmitter {
    sockets: Vec<SendSocket>,
    /// The addresses and ports of the sockets.
    sources: Vec<(IpAddr, u16)>,
    batches: Batches,
    config: Config,
    /// The interface, as the scope of link-local addresses.
    index: u32,
    segmentation: bool,
    flow_labels: bool,
    pub(crate) counters: SendCounters,
    /// What the kernel is to say instead of sending.
    #[cfg(test)]
    pub(crate) refusal: Option<i32>,
}

impl Transmitter {
    pub(crate) fn new(config: &Config, index: u32) -> Self {
        Self {
            sockets: Vec::new(),
            sources: Vec::new(),
            batches: Batches::new(config.send_buffer),
            config: config.clone(),
            index,
            segmentation: config.segmentation,
            flow_labels: true,
            counters: SendCounters::default(),
            #[cfg(test)]
            refusal: None,
        }
    }

    /// Returns the packets that share a message now.
    pub(crate) const fn max_batch(&self) -> usize {
        if self.segmentation { MAX_SEGMENTS } else { 1 }
    }

    /// Returns the addresses and ports that packets are sent from.
    pub(crate) fn sources(&self) -> &[(IpAddr, u16)] {
        &self.sources
    }

    /// Returns a source port that packets from `local` can have, near `wanted`.
    pub(crate) fn source_port(&mut self, local: IpAddr, wanted: u16, events: &mut Events) -> u16 {
        let wanted = wanted | FIRST_PORT;
        let pool = self.sockets.iter().filter(|one| one.local == local);
        let ports: Vec<u16> = pool.map(|one| one.port).collect();
        if ports.contains(&wanted) {
            return wanted;
        }
        if ports.len() < POOL {
            match self.open_near(local, wanted, events) {
                Ok(port) => return port,
                Err(error) => events.notice(format!(
                    "no UDP source port near {wanted} could be bound on {local}: {error}"
                )),
            }
        }
        let choice = usize::from(wanted) % ports.len().max(1);
        ports.get(choice).copied().unwrap_or(wanted)
    }

    fn open_near(&mut self, local: IpAddr, wanted: u16, events: &mut Events) -> io::Result<u16> {
        let mut last = io::Error::from(io::ErrorKind::AddrInUse);
        for step in 0..NEARBY {
            let port = wanted.wrapping_add(step) | FIRST_PORT;
            let address = socket::scoped(local, port, self.index);
            match socket::for_sending(address, &self.config, events) {
                Ok(fd) => {
                    if local.is_ipv6() && !socket::allow_flow_labels(fd.as_fd()) {
                        self.flow_labels = false;
                    }
                    self.sources.push((local, port));
                    self.sockets.push(SendSocket {
                        fd,
                        local,
                        port,
                        pending: false,
                        blocked: Blocked::No,
                    });
                    return Ok(port);
                }
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    fn socket_for(&mut self, flow: &Flow, events: &mut Events) -> Option<usize> {
        let find = |sockets: &[SendSocket]| {
            let fits = |one: &SendSocket| one.port == flow.source_port && one.local == flow.local;
            sockets.iter().position(fits)
        };
        if let Some(found) = find(&self.sockets) {
            return Some(found);
        }
        self.source_port(flow.local, flow.source_port, events);
        find(&self.sockets)
    }

    /// Returns room for a packet and its Identification.
    pub(crate) fn reserve(
        &mut self,
        flow: &Flow,
        len: usize,
        events: &mut Events,
    ) -> Reservation<'_> {
        let known = self.batches.socket_of(flow);
        let Some(socket) = known.or_else(|| self.socket_for(flow, events)) else {
            self.counters.dropped += 1;
            events.notice(format!(
                "packets from {} port {} can't be sent: that is no address of this link, or the \
                 port is taken",
                flow.local, flow.source_port
            ));
            return Reservation::Unsendable;
        };
        let max = self.max_batch();
        match self.batches.reserve(flow, socket, len, max) {
            Some((bytes, id)) => {
                self.sockets[socket].pending = true;
                Reservation::Room(bytes, id)
            }
            None => Reservation::Full,
        }
    }

    /// Gives what waits to the kernel, as far as it takes it.
    pub(crate) fn flush(&mut self, events: &mut Events) -> Result<(), LinkError> {
        if self.batches.is_empty() {
            return Ok(());
        }
        for index in 0..self.sockets.len() {
            if self.sockets[index].pending {
                self.push(index, events)?;
            }
        }
        self.batches.recycle();
        Ok(())
    }

    fn push(&mut self, index: usize, events: &mut Events) -> Result<(), LinkError> {
        let mut attempts = 0;
        let mut too_long = false;
        while self.batches.due(index).next().is_some() {
            self.counters.calls += 1;
            match self.give(index) {
                Ok(count) => {
                    if self.segmentation && !too_long && self.batches.first_is_split(index) {
                        self.segmentation = false;
                        events.notice(
                            "the system refuses batches (UDP_SEGMENT) on this path: packets go one \
                             by one, throughput will be lower"
                                .to_owned(),
                        );
                    }
                    self.counters.messages += count as u64;
                    self.counters.packets += self.batches.sent(index, count) as u64;
                    attempts = 0;
                }
                Err(error) => {
                    attempts += 1;
                    let errno = error.raw_os_error().unwrap_or(0);
                    match self.on_error(index, errno, attempts, events)? {
                        (Next::Later, _) => return Ok(()),
                        (Next::Again, true) => {
                            attempts = 0;
                            too_long |= errno == libc::EMSGSIZE;
                        }
                        (Next::Again, false) => {}
                    }
                }
            }
        }
        let socket = &mut self.sockets[index];
        socket.pending = false;
        socket.blocked = Blocked::No;
        Ok(())
    }

    /// Gives the messages that are due at a socket to the kernel; returns how many it took.
    fn give(&self, index: usize) -> io::Result<usize> {
        #[cfg(test)]
        if let Some(errno) = self.refusal {
            return Err(io::Error::from_raw_os_error(errno));
        }
        let (port, scope, labels) = (self.config.port, self.index, self.flow_labels);
        let messages = self.batches.due(index);
        let messages = messages.map(|message| outgoing(&message, port, scope, labels));
        sys::send(self.sockets[index].fd.as_fd(), messages)
    }

    /// Decides after a refusal; the flag says whether something changed for the first message.
    fn on_error(
        &mut self,
        index: usize,
        errno: i32,
        attempts: u32,
        events: &mut Events,
    ) -> Result<(Next, bool), LinkError> {
        match errno {
            libc::EINTR => return Ok((Next::Again, true)),
            libc::EAGAIN => {
                self.sockets[index].blocked = Blocked::Full;
                return Ok((Next::Later, false));
            }
            libc::ENOBUFS | libc::ENOMEM => {
                self.sockets[index].blocked = Blocked::Queue;
                return Ok((Next::Later, false));
            }
            libc::EBADF | libc::ENOTSOCK | libc::EFAULT => {
                let socket = &self.sockets[index];
                let error = io::Error::from_raw_os_error(errno);
                return Err(LinkError {
                    message: format!("send from UDP {}:{}: {error}", socket.local, socket.port),
                });
            }
            _ => {}
        }
        self.counters.errors += 1;
        if self.take_reports(index, events) && attempts < ATTEMPTS {
            return Ok((Next::Again, false));
        }
        let refused = matches!(
            errno,
            libc::EIO | libc::EINVAL | libc::EMSGSIZE | libc::EOPNOTSUPP
        );
        if refused && self.batches.split_first(index) {
            self.counters.split += 1;
            return Ok((Next::Again, true));
        }
        let Some(message) = self.batches.due(index).next() else {
            return Ok((Next::Again, true));
        };
        if errno == libc::EINVAL && self.flow_labels && message.flow.flow_label != 0 {
            self.flow_labels = false;
            events.notice("the system refuses IPv6 flow labels: they are left out".to_owned());
            return Ok((Next::Again, true));
        }
        if attempts < ATTEMPTS {
            return Ok((Next::Again, false));
        }
        let (remote, len) = (message.flow.remote, message.bytes.len());
        events.unreachable(remote, errno, || refusal(errno, remote, len));
        self.counters.dropped += self.batches.sent(index, 1) as u64;
        Ok((Next::Again, true))
    }

    /// Takes what the error queue of a socket says; returns whether it said anything.
    fn take_reports(&self, index: usize, events: &mut Events) -> bool {
        let fd = self.sockets[index].fd.as_fd();
        let mut any = false;
        for _ in 0..REPORTS {
            let Ok(report) = sys::receive_error(fd) else {
                break;
            };
            any = true;
            if matches!(
                report.origin,
                libc::SO_EE_ORIGIN_LOCAL | libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6
            ) {
                events.report(&report);
            }
        }
        if !any {
            // Reading the pending error clears it.
            let pending = sys::option(fd, libc::SOL_SOCKET, libc::SO_ERROR);
            any = pending.is_ok_and(|errno| errno != 0);
        }
        any
    }

    /// Looks at the error queues of all sockets.
    pub(crate) fn check_errors(&mut self, events: &mut Events) {
        for index in 0..self.sockets.len() {
            self.take_reports(index, events);
        }
    }

    /// Returns each socket and whether to wait for room in it.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = (&OwnedFd, bool)> {
        let sockets = self.sockets.iter();
        sockets.map(|one| (&one.fd, one.pending && one.blocked == Blocked::Full))
    }

    /// Returns whether something waits that no descriptor tells about.
    pub(crate) fn must_retry(&self) -> bool {
        let retry = |one: &SendSocket| one.pending && one.blocked != Blocked::Full;
        self.sockets.iter().any(retry)
    }
}

/// What [`Transmitter::reserve`] found.
pub(crate) enum Reservation<'a> {
    /// Bytes for the packet and its Identification.
    Room(&'a mut [u8], u16),
    /// No room before the next flush.
    Full,
    /// No socket can send it.
    Unsendable,
}

fn outgoing<'a>(message: &Message<'a>, port: u16, scope: u32, labels: bool) -> Outgoing<'a> {
    let flow = message.flow;
    Outgoing {
        to: socket::scoped(flow.remote, port, scope),
        flow_label: if labels { flow.flow_label } else { 0 },
        header: Header {
            segment: message.segment,
            traffic_class: flow.traffic_class,
            hop_limit: flow.hop_limit,
        },
        bytes: message.bytes,
    }
}

#[cfg(test)]
impl Transmitter {
    /// Returns the send sockets, for tests that make the kernel refuse things.
    pub(crate) fn raw_sockets(&self) -> impl Iterator<Item = &OwnedFd> {
        self.sockets.iter().map(|one| &one.fd)
    }
}
