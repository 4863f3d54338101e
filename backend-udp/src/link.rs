//! The link itself: both halves, and sleeping.

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::io;
use std::os::fd::AsFd;

use roce_engine::link::{
    Flow, FrameNote, Link, LinkCaps, LinkCounters, LinkError, LinkEvent, RxMeta, Slot,
};
use roce_engine::verbs::PortAttr;
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::batch::MAX_PAYLOAD;
use crate::config::{Config, Local};
use crate::error::OpenError;
use crate::events::Events;
use crate::interfaces::Interface;
use crate::receive::{MIN_PACKET, Receiver, Returned};
use crate::share::{self, Bound};
use crate::socket;
use crate::sys;
use crate::transmit::{Reservation, Transmitter};

/// Bytes of IPv6 and UDP headers, the larger of both families.
const HEADERS: usize = 40 + 8;

/// Receive calls without a packet between two looks at the error queues: a link that spins and has
/// nothing more to send must hear of unreachable peers too.
const ERROR_CHECKS: u32 = 4096;

/// The longest sleep while a device's queue is full: nothing tells when it isn't.
const QUEUE_RETRY: Duration = Duration::from_millis(1);

/// RoCEv2 packets over UDP sockets.
pub struct UdpLink {
    receiver: Receiver,
    transmitter: Transmitter,
    events: Events,
    caps: LinkCaps,
    port: PortAttr,
    interface: String,
    udp_port: u16,
    /// Empty receive calls since the last look at the error queues.
    quiet: u32,
    /// An error of a flush inside of `send`, for the next flush to return.
    failed: Option<LinkError>,
    /// Where packets go that no socket can send.
    discard: Vec<u8>,
}

impl fmt::Debug for UdpLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses = self.receiver.sockets.iter().map(|one| one.address);
        f.debug_struct("UdpLink")
            .field("interface", &self.interface)
            .field("udp_port", &self.udp_port)
            .field("addresses", &addresses.collect::<Vec<_>>())
            .field("qpn_parity", &self.caps.qpn_parity)
            .finish_non_exhaustive()
    }
}

impl UdpLink {
    /// Opens a link: binds the port on the addresses, beside another endpoint if there is one.
    ///
    /// # Errors
    ///
    /// There is no such interface or address, or the port is taken; the error says by whom.
    pub fn open(config: Config) -> Result<Self, OpenError> {
        let (interface, addresses) = match &config.local {
            Local::Interface(name) => {
                let interface = Interface::named(name)?;
                let addresses = interface.addresses.clone();
                (interface, addresses)
            }
            Local::Address(address) => {
                let address = address.to_canonical();
                (Interface::with_address(address)?, vec![address])
            }
        };
        if addresses.is_empty() {
            let name = interface.name;
            return Err(OpenError::NoAddress { name });
        }
        let port = interface.port()?;
        let mut events = Events::default();
        let names: Vec<SocketAddr> = addresses
            .iter()
            .map(|ip| socket::scoped(*ip, config.port, interface.index))
            .collect();
        let Bound {
            sockets,
            parity,
            notice,
        } = share::bind(&names, config.role, |address| {
            socket::for_receiving(address, &config, &mut events)
        })?;
        if let Some(notice) = notice {
            events.notice(notice);
        }
        let transmitter = Transmitter::new(&config, interface.index);
        Ok(Self {
            receiver: Receiver::new(sockets),
            caps: LinkCaps {
                max_packet: (interface.mtu - HEADERS).min(MAX_PAYLOAD),
                max_batch: transmitter.max_batch(),
                exact_icrc: false,
                qpn_parity: parity,
            },
            transmitter,
            events,
            port,
            interface: interface.name,
            udp_port: config.port,
            quiet: 0,
            failed: None,
            discard: Vec::new(),
        })
    }

    /// Returns the addresses that can be used: those of the GID table, or the one asked for.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.receiver.sockets.iter().map(|one| one.address)
    }

    fn push(&mut self) -> Result<(), LinkError> {
        let result = self.transmitter.flush(&mut self.events);
        self.caps.max_batch = self.transmitter.max_batch();
        result
    }

    fn sleep(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let mut polled = Vec::with_capacity(32);
        for socket in &self.receiver.sockets {
            polled.push(PollFd::new(socket, PollFlags::IN));
        }
        let receivers = polled.len();
        for (socket, blocked) in self.transmitter.descriptors() {
            // Errors are reported without being asked for.
            let flags = if blocked {
                PollFlags::OUT
            } else {
                PollFlags::empty()
            };
            polled.push(PollFd::new(socket, flags));
        }
        let timeout = timeout.and_then(|time| Timespec::try_from(time).ok());
        match rustix::event::poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let is_error = |one: &PollFd<'_>| one.revents().contains(PollFlags::ERR);
        let errors = polled[receivers..].iter().any(is_error);
        // Any of them may be the one that woke us.
        self.receiver.wake();
        if errors {
            self.transmitter.check_errors(&mut self.events);
        }
        Ok(())
    }
}

impl Link for UdpLink {
    fn caps(&self) -> &LinkCaps {
        &self.caps
    }

    fn port(&self) -> &PortAttr {
        &self.port
    }

    fn source_port(&mut self, local: IpAddr, wanted: u16) -> u16 {
        self.transmitter
            .source_port(local, wanted, &mut self.events)
    }

    fn receive<F>(&mut self, budget: usize, sink: F) -> Result<usize, LinkError>
    where
        F: FnMut(&RxMeta, &[u8]),
    {
        let returned = Returned {
            parity: self.caps.qpn_parity,
            sources: self.transmitter.sources(),
        };
        let taken = self.receiver.receive(budget, returned, sink)?;
        if let Some(address) = self.receiver.take_alone() {
            self.events.nobody_else(address, self.udp_port);
        }
        if taken == 0 {
            self.quiet += 1;
            if self.quiet >= ERROR_CHECKS {
                self.quiet = 0;
                self.transmitter.check_errors(&mut self.events);
            }
        }
        Ok(taken)
    }

    /// Reserves a slot as [`Link::send`] says. When the buffers are full it flushes them first.
    ///
    /// # Panics
    ///
    /// `len` is less than BTH and ICRC take, or more than `caps().max_packet`.
    fn send<F>(&mut self, flow: &Flow, len: usize, _note: FrameNote, fill: F) -> bool
    where
        F: FnOnce(&mut Slot<'_>),
    {
        assert!(
            (MIN_PACKET..=self.caps.max_packet).contains(&len),
            "a packet of {len} bytes can't be sent"
        );
        for attempt in 0..2 {
            match self.transmitter.reserve(flow, len, &mut self.events) {
                Reservation::Room(bytes, ipv4_id) => {
                    fill(&mut Slot { bytes, ipv4_id });
                    return true;
                }
                Reservation::Unsendable => {
                    self.discard.resize(len, 0);
                    fill(&mut Slot {
                        bytes: &mut self.discard,
                        ipv4_id: 0,
                    });
                    return true;
                }
                Reservation::Full if attempt == 0 && self.failed.is_none() => {
                    self.failed = self.push().err();
                }
                Reservation::Full => break,
            }
        }
        self.transmitter.counters.no_room += 1;
        false
    }

    fn flush(&mut self) -> Result<(), LinkError> {
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.push(),
        }
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<(), LinkError> {
        if self.receiver.has_rest() {
            return Ok(());
        }
        let timeout = if self.transmitter.must_retry() {
            Some(timeout.unwrap_or(QUEUE_RETRY).min(QUEUE_RETRY))
        } else {
            timeout
        };
        self.sleep(timeout).map_err(|error| LinkError {
            message: format!("wait for packets on {}: {error}", self.interface),
        })
    }

    fn next_event(&mut self) -> Option<LinkEvent> {
        self.events.pop()
    }

    fn counters(&self) -> LinkCounters {
        let received = &self.receiver.counters;
        let sent = &self.transmitter.counters;
        let drops = self.receiver.sockets.iter();
        let drops = drops.filter_map(|one| sys::drops(one.as_fd())).sum();
        vec![
            ("udp_rx_packets", received.packets),
            ("udp_rx_messages", received.messages),
            ("udp_rx_calls", received.calls),
            ("udp_rx_empty_calls", received.empty_calls),
            ("udp_rx_buffer_drops", drops),
            ("udp_rx_truncated", received.truncated),
            ("udp_rx_too_short", received.too_short),
            ("udp_rx_too_long", received.too_long),
            ("udp_rx_returned", received.returned),
            ("udp_tx_packets", sent.packets),
            ("udp_tx_messages", sent.messages),
            ("udp_tx_calls", sent.calls),
            ("udp_tx_dropped", sent.dropped),
            ("udp_tx_no_room", sent.no_room),
            ("udp_tx_batches_refused", sent.split),
            ("udp_tx_errors", sent.errors),
        ]
    }
}

#[cfg(test)]
mod tests;
