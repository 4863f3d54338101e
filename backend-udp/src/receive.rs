//! The receiving half of a link: bursts of buffers, cut into packets.

use core::net::IpAddr;
use std::io;
use std::os::fd::AsFd;

use roce_engine::link::{Ipv4Id, LinkError, RxMeta};
use roce_wire::Mtu;

use crate::share::SharedSocket;
use crate::sys::{self, MAX_MESSAGES, Received};

/// The bytes of a buffer: the longest UDP payload fits.
const BUFFER: usize = 64 << 10;

/// The shortest packet: BTH and ICRC.
pub(crate) const MIN_PACKET: usize = 16;

/// The longest packet of the largest path MTU.
const MAX_PACKET: usize = Mtu::B4096.bytes() + Mtu::HEADROOM;

/// Messages asked for when the last burst was small.
const MIN_BURST: usize = 4;

/// Polls without a packet after which a socket is idle beside a busy one.
const IDLE_POLLS: u32 = 256;

/// One in this many polls looks at an idle socket.
const IDLE_SHARE: u32 = 32;

/// Counters of the receiving half.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReceiveCounters {
    pub(crate) packets: u64,
    pub(crate) messages: u64,
    pub(crate) calls: u64,
    pub(crate) empty_calls: u64,
    pub(crate) truncated: u64,
    pub(crate) too_short: u64,
    pub(crate) too_long: u64,
    pub(crate) returned: u64,
}

/// Tells packets of this endpoint that nobody else took: alone on an address, it gets them itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Returned<'a> {
    /// The low bit of this endpoint's QPNs.
    pub(crate) parity: Option<u32>,
    /// The addresses and ports that it sends from.
    pub(crate) sources: &'a [(IpAddr, u16)],
}

impl Returned<'_> {
    fn is(self, meta: &RxMeta, bytes: &[u8]) -> bool {
        let from_us =
            meta.remote == meta.local && self.sources.contains(&(meta.remote, meta.source_port));
        let Some(&[_, high, middle, low]) = bytes.get(4..8).filter(|_| from_us) else {
            return false;
        };
        let qpn = u32::from_be_bytes([0, high, middle, low]);
        qpn != 1 && self.parity.is_some_and(|own| own != qpn & 1)
    }
}

/// The part of a burst that nobody took yet.
#[derive(Clone, Copy, Debug, Default)]
struct Rest {
    /// The socket that it came from.
    socket: usize,
    /// Messages in the buffers.
    filled: usize,
    /// The next message, and how far it is taken.
    message: usize,
    offset: usize,
}

/// The receiving half.
pub(crate) struct Receiver {
    pub(crate) sockets: Vec<SharedSocket>,
    /// Polls of each socket since it had a packet.
    idle: Vec<u32>,
    buffers: Box<[u8]>,
    received: Vec<Received>,
    rest: Rest,
    /// Messages to ask for.
    burst: usize,
    polls: u32,
    /// The address that has no other endpoint, as a packet showed that came back.
    alone: Option<IpAddr>,
    pub(crate) counters: ReceiveCounters,
}

impl Receiver {
    pub(crate) fn new(sockets: Vec<SharedSocket>) -> Self {
        Self {
            idle: vec![0; sockets.len()],
            sockets,
            buffers: vec![0; BUFFER * MAX_MESSAGES].into(),
            received: vec![Received::EMPTY; MAX_MESSAGES],
            rest: Rest::default(),
            burst: MIN_BURST,
            polls: 0,
            alone: None,
            counters: ReceiveCounters::default(),
        }
    }

    /// Returns whether packets wait in the buffers.
    pub(crate) const fn has_rest(&self) -> bool {
        self.rest.message < self.rest.filled
    }

    /// Returns the address where a packet to another endpoint came back, once.
    pub(crate) const fn take_alone(&mut self) -> Option<IpAddr> {
        self.alone.take()
    }

    /// Makes the next poll look at sockets that were idle, too.
    pub(crate) fn wake(&mut self) {
        self.idle.fill(0);
    }

    /// Hands up to `budget` packets to `sink`, from at most one burst of each kind: what was left,
    /// and what one more system call brings.
    pub(crate) fn receive(
        &mut self,
        budget: usize,
        returned: Returned<'_>,
        mut sink: impl FnMut(&RxMeta, &[u8]),
    ) -> Result<usize, LinkError> {
        let mut taken = self.take(budget, returned, &mut sink);
        if taken < budget && self.poll()? {
            taken += self.take(budget - taken, returned, &mut sink);
        }
        Ok(taken)
    }

    /// Fills the buffers from the first socket that has something.
    fn poll(&mut self) -> Result<bool, LinkError> {
        self.polls = self.polls.wrapping_add(1);
        for step in 0..self.sockets.len() {
            // The busy one first.
            let index = (self.rest.socket + step) % self.sockets.len();
            let idle = step > 0 && self.idle[index] >= IDLE_POLLS;
            if idle && !self.polls.is_multiple_of(IDLE_SHARE) {
                continue;
            }
            if self.poll_socket(index)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn poll_socket(&mut self, index: usize) -> Result<bool, LinkError> {
        self.counters.calls += 1;
        let buffers = self.buffers.chunks_exact_mut(BUFFER).take(self.burst);
        let socket = &self.sockets[index];
        let filled = match sys::receive(socket.as_fd(), &mut self.received, buffers) {
            Ok(filled) => filled,
            // Whatever else is pending on a socket that never sends will not come again.
            Err(error) if is_passing(&error) => 0,
            Err(error) => {
                return Err(LinkError {
                    message: format!("receive at {}: {error}", socket.address),
                });
            }
        };
        if filled == 0 {
            self.counters.empty_calls += 1;
            self.idle[index] = self.idle[index].saturating_add(1);
            return Ok(false);
        }
        self.counters.messages += filled as u64;
        self.idle[index] = 0;
        self.burst = if filled == self.burst {
            (self.burst * 2).min(MAX_MESSAGES)
        } else {
            self.burst.min(filled * 2).max(MIN_BURST)
        };
        self.rest = Rest {
            socket: index,
            filled,
            message: 0,
            offset: 0,
        };
        Ok(true)
    }

    /// Cuts messages into packets until `budget` is reached or none are left.
    fn take(
        &mut self,
        budget: usize,
        returned: Returned<'_>,
        sink: &mut impl FnMut(&RxMeta, &[u8]),
    ) -> usize {
        let mut taken = 0;
        while taken < budget && self.rest.message < self.rest.filled {
            let message = &self.received[self.rest.message];
            let opened = self.open(message);
            let Some((meta, segment)) = opened.filter(|_| !message.truncated) else {
                self.counters.truncated += 1;
                self.rest.message += 1;
                continue;
            };
            let start = self.rest.message * BUFFER;
            let bytes = &self.buffers[start..start + message.len];
            if self.rest.offset == 0 && returned.is(&meta, bytes) {
                self.counters.returned += 1;
                self.alone = Some(meta.local);
                self.rest.message += 1;
                continue;
            }
            while taken < budget && self.rest.offset < bytes.len() {
                let end = (self.rest.offset + segment).min(bytes.len());
                let packet = &bytes[self.rest.offset..end];
                self.rest.offset = end;
                match packet.len() {
                    ..MIN_PACKET => self.counters.too_short += 1,
                    MIN_PACKET..=MAX_PACKET => {
                        taken += 1;
                        sink(&meta, packet);
                    }
                    _ => self.counters.too_long += 1,
                }
            }
            if bytes.is_empty() {
                self.counters.too_short += 1;
            }
            if self.rest.offset == bytes.len() {
                self.rest.message += 1;
                self.rest.offset = 0;
            }
        }
        self.counters.packets += taken as u64;
        taken
    }

    /// Returns what all packets of a message have in common, and their length.
    fn open(&self, message: &Received) -> Option<(RxMeta, usize)> {
        let header = message.header();
        let from = message.from()?;
        let segment = if header.segment == 0 {
            message.len
        } else {
            header.segment
        };
        let meta = RxMeta {
            remote: from.ip(),
            local: self.sockets[self.rest.socket].address,
            source_port: from.port(),
            traffic_class: header.traffic_class,
            hop_limit: header.hop_limit,
            ipv4_id: Ipv4Id::Unknown,
        };
        Some((meta, segment))
    }
}

fn is_passing(error: &io::Error) -> bool {
    !matches!(
        error.raw_os_error(),
        Some(libc::EBADF | libc::ENOTSOCK | libc::EFAULT | libc::EINVAL)
    )
}
