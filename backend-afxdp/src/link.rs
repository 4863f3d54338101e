//! The link itself: frames of a socket as packets of the engine.

use core::fmt;
use core::net::IpAddr;
use core::time::Duration;
use std::io;
use std::os::fd::AsFd;

use roce_engine::link::{
    Flow, FrameNote, Link, LinkCaps, LinkCounters, LinkError, LinkEvent, RxMeta, Slot,
};
use roce_engine::verbs::PortAttr;
use roce_wire::{Ethernet, HeaderTemplate, Mtu, VlanTag};

use crate::config::{Config, Mode};
use crate::error::OpenError;
use crate::events::Events;
use crate::filter::{Filter, MAX_PACKET, MIN_PACKET};
use crate::holder::Claim;
use crate::opened::Opened;
use crate::program::Attached;
use crate::routes::{Found, Routes};
use crate::xsk::{Kicked, PACKET_AT, Xsk};

/// Receive calls between two looks at what the kernel announces: some milliseconds at most while
/// a device spins, and a system call in so many turns.
const LOOK_EVERY: u32 = 4096;

/// The longest sleep while a neighbour is asked for, so that the wait for it ends in time.
const NEIGHBOUR_WAIT: Duration = Duration::from_millis(20);

/// Counters of what was not sent.
#[derive(Clone, Copy, Debug, Default)]
struct SendDrops {
    unroutable: u64,
    too_long: u64,
    down: u64,
    neighbour_waits: u64,
}

/// RoCEv2 frames over an AF_XDP socket.
pub struct XskLink {
    // Dropped first, so that no frame is given to a socket that is closed.
    attached: Attached,
    xsk: Xsk,
    _claim: Claim,
    routes: Routes,
    filter: Filter,
    events: Events,
    caps: LinkCaps,
    port: PortAttr,
    drops: SendDrops,
    /// Receive calls since the last look at the kernel's announcements.
    calls: u32,
    turn: Turn,
    /// Where packets go that can't be sent.
    discarded: Vec<u8>,
}

/// Where in a device's turn the link is: a turn flushes before it receives and after, and one
/// system call is enough for both.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    /// The kernel was called before this turn's receive.
    called: bool,
    /// This turn's receive is over.
    received: bool,
}

impl fmt::Debug for XskLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("XskLink")
            .field("interface", &self.routes.netdev.name)
            .field("mode", &self.attached.mode)
            .field("zero_copy", &self.xsk.zero_copy)
            .field("multi_buffer", &self.xsk.multi_buffer)
            .finish_non_exhaustive()
    }
}

impl XskLink {
    /// Opens a link on an interface's queue.
    ///
    /// # Errors
    ///
    /// Each case of [`OpenError`], in words that name the interface and what can be done.
    pub fn open(config: &Config) -> Result<Self, OpenError> {
        let Opened {
            netlink,
            netdev,
            claim,
            xsk,
            attached,
        } = Opened::new(config, true)?;
        let limit = if xsk.multi_buffer {
            Mtu::B4096
        } else {
            Mtu::B2048
        };
        let port = netdev.port(limit)?;
        let mut events = Events::default();
        // Generic mode delivers what arrives on a virtual interface on queue 0.
        let spread = attached.mode == Mode::Driver || !netdev.is_virtual();
        if netdev.queues > 1 && spread {
            events.notice(format!(
                "{} has {} queues and this link is on queue {}: packets that the interface puts on \
                 others don't arrive here (ethtool -L {} combined 1 makes it one)",
                netdev.name, netdev.queues, config.queue, netdev.name
            ));
        }
        if Some(port.active_mtu) < Mtu::fitting(netdev.mtu) {
            events.notice(format!(
                "this kernel or driver takes no frames in several buffers (Linux 6.6 does): the \
                 largest path MTU on {} is {}",
                netdev.name,
                port.active_mtu.bytes()
            ));
        }
        let filter = Filter::new(netdev.mac, &netdev.own, netdev.strips_tags);
        let outer = roce_wire::MAX_OUTER - Ethernet::LEN - VlanTag::LEN;
        Ok(Self {
            caps: LinkCaps {
                max_packet: (netdev.mtu - outer).min(MAX_PACKET),
                max_batch: 1,
                exact_icrc: true,
                qpn_parity: None,
            },
            routes: Routes::new(netdev, netlink)
                .map_err(OpenError::system("listen to changes of the network"))?,
            attached,
            xsk,
            _claim: claim,
            filter,
            events,
            port,
            drops: SendDrops::default(),
            calls: 0,
            turn: Turn::default(),
            discarded: vec![0; MAX_PACKET],
        })
    }

    /// Returns how the link runs and why, in one line.
    pub fn describe(&self) -> String {
        let copying = if self.xsk.zero_copy {
            "zero-copy"
        } else {
            "copying, as the driver has no zero-copy"
        };
        let buffers = if self.xsk.multi_buffer {
            "large frames in several buffers"
        } else {
            "no frames in several buffers"
        };
        format!(
            "AF_XDP in {} ({}), {copying}, {buffers}",
            self.attached.mode, self.attached.reason
        )
    }

    /// Returns where the XDP program runs.
    pub const fn mode(&self) -> Mode {
        self.attached.mode
    }

    /// Takes what the kernel has announced.
    fn look_around(&mut self) -> Result<(), LinkError> {
        self.calls = 0;
        let before = self.routes.netdev.mac;
        let addresses = self.routes.follow();
        if addresses || before != self.routes.netdev.mac {
            self.filter.update(&self.routes.netdev);
        }
        if self.routes.gone {
            return Err(self.failed("receive", &"the interface is gone"));
        }
        Ok(())
    }

    fn failed(&self, what: &str, error: &impl fmt::Display) -> LinkError {
        LinkError {
            message: format!("{what} on {}: {error}", self.routes.netdev.name),
        }
    }

    fn io_failed(&mut self, what: &str, error: &io::Error) -> LinkError {
        // The kernel unbinds the socket of an interface that is taken away.
        match self.look_around() {
            Err(gone) => gone,
            Ok(()) => self.failed(what, error),
        }
    }
}

impl Link for XskLink {
    fn caps(&self) -> &LinkCaps {
        &self.caps
    }

    fn port(&self) -> &PortAttr {
        &self.port
    }

    /// Returns a port of RoCEv2's range: a frame may have any.
    fn source_port(&mut self, _local: IpAddr, wanted: u16) -> u16 {
        wanted | 0xc000
    }

    fn receive<F>(&mut self, budget: usize, mut sink: F) -> Result<usize, LinkError>
    where
        F: FnMut(&RxMeta, &[u8]),
    {
        self.turn.received = true;
        self.calls += 1;
        if self.calls >= LOOK_EVERY {
            self.look_around()?;
        }
        let filter = &mut self.filter;
        let before = filter.packets;
        let taken = self
            .xsk
            .receive(budget, |frame| filter.frame(frame, &mut sink));
        let packets = (filter.packets - before) as usize;
        match taken {
            Ok(_) => Ok(packets),
            Err(error) => Err(self.io_failed("receive", &error)),
        }
    }

    /// Reserves a slot as [`Link::send`] says.
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
        let active = self.routes.netdev.active;
        let (template, limit) = match self.routes.find(flow, &mut self.events) {
            Found::Ready(template, limit) => (template, limit),
            Found::Waiting if active => {
                self.drops.neighbour_waits += 1;
                return self.wait_for_neighbour();
            }
            Found::Waiting | Found::Nowhere => {
                self.drops.unroutable += 1;
                return self.discard(len, fill);
            }
        };
        if !active {
            self.drops.down += 1;
            return self.discard(len, fill);
        }
        if ip_len(template, len) > limit {
            self.drops.too_long += 1;
            self.events.unreachable(flow.remote, libc::EMSGSIZE, || {
                format!(
                    "the route to {} carries IP packets of {limit} bytes at most: use a smaller \
                     path MTU (-m)",
                    flow.remote
                )
            });
            return self.discard(len, fill);
        }
        let Some(mut slot) = self.xsk.reserve() else {
            return false;
        };
        let at = PACKET_AT - template.len();
        let frame = self.xsk.bytes_mut(&mut slot, at, template.len() + len);
        let (header, packet) = frame.split_at_mut(template.len());
        // Not fragmented, so the Identification says nothing (RFC 6864).
        fill(&mut Slot {
            bytes: packet,
            ipv4_id: 0,
        });
        template.stamp(header, len, 0);
        self.xsk.send(slot, at, template.len() + len);
        true
    }

    fn flush(&mut self) -> Result<(), LinkError> {
        if core::mem::take(&mut self.turn.received) {
            // What this turn's first call left over goes along with the next turn's.
            if core::mem::take(&mut self.turn.called) {
                return Ok(());
            }
        } else {
            self.turn.called = true;
        }
        match self.xsk.flush() {
            Ok(Kicked::Down) => self.look_around(),
            Ok(Kicked::Done | Kicked::Later) => Ok(()),
            Err(error) => Err(self.io_failed("send", &error)),
        }
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<(), LinkError> {
        self.turn = Turn::default();
        let timeout = if self.routes.is_waiting() {
            Some(timeout.unwrap_or(NEIGHBOUR_WAIT).min(NEIGHBOUR_WAIT))
        } else {
            timeout
        };
        let monitor = self.routes.monitor().as_fd();
        match self.xsk.wait(timeout, Some(monitor)) {
            Ok(()) => self.look_around(),
            Err(error) => Err(self.failed("wait for packets", &error)),
        }
    }

    fn next_event(&mut self) -> Option<LinkEvent> {
        self.events.pop()
    }

    fn counters(&self) -> LinkCounters {
        let (socket, kernel) = (&self.xsk.counters, self.xsk.kernel_drops());
        let dropped = &self.filter.drops;
        vec![
            ("afxdp_rx_frames", socket.received),
            ("afxdp_rx_packets", self.filter.packets),
            ("afxdp_rx_in_pieces", socket.in_pieces),
            ("afxdp_rx_batches", self.filter.batches),
            ("afxdp_rx_buffer_drops", kernel.0),
            ("afxdp_rx_ring_full", kernel.1),
            ("afxdp_rx_oversized", socket.oversized),
            ("afxdp_rx_not_roce", dropped.not_roce),
            ("afxdp_rx_ip_options", dropped.ip_options),
            ("afxdp_rx_ip_checksum", dropped.ip_checksum),
            ("afxdp_rx_other_mac", dropped.other_mac),
            ("afxdp_rx_other_vlan", dropped.other_vlan),
            ("afxdp_rx_other_address", dropped.other_address),
            ("afxdp_rx_truncated", dropped.truncated),
            ("afxdp_rx_too_short", dropped.too_short),
            ("afxdp_rx_too_long", dropped.too_long),
            ("afxdp_tx_packets", socket.sent),
            ("afxdp_tx_no_room", socket.no_room),
            ("afxdp_tx_kernel_busy", socket.refused),
            ("afxdp_tx_unroutable", self.drops.unroutable),
            ("afxdp_tx_too_long", self.drops.too_long),
            ("afxdp_tx_interface_down", self.drops.down),
            ("afxdp_tx_neighbour_waits", self.drops.neighbour_waits),
            ("afxdp_calls", socket.calls),
            ("afxdp_network_changes", self.routes.changes),
        ]
    }
}

impl XskLink {
    /// Says that there is no room while a neighbour is asked for; looks for the answer.
    fn wait_for_neighbour(&mut self) -> bool {
        // An error here is one of receiving, and comes up there again.
        let _gone = self.look_around();
        false
    }

    /// Has a packet written that nobody gets: the engine counts it as sent and lost.
    fn discard(&mut self, len: usize, fill: impl FnOnce(&mut Slot<'_>)) -> bool {
        fill(&mut Slot {
            bytes: &mut self.discarded[..len],
            ipv4_id: 0,
        });
        true
    }
}

impl Drop for XskLink {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.xsk.account();
        }
    }
}

/// Returns the length of the IP packet around a packet.
fn ip_len(template: &HeaderTemplate, len: usize) -> usize {
    template.len() - Ethernet::LEN + len
}

#[cfg(test)]
mod tests;
