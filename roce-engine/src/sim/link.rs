//! A device's end of the simulated network.

use core::cell::RefCell;
use core::net::IpAddr;
use core::time::Duration;

use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use roce_wire::{Gid, Mtu, PKey};

use crate::link::{Flow, FrameNote, Ipv4Id, Link, LinkCaps, LinkError, RxMeta, Slot};
use crate::sim::faults::Faults;
use crate::sim::net::{Datagram, Net, PortId};
use crate::verbs::{GidEntry, GidKind, LinkLayer, PortAttr};

/// What a simulated link is like.
#[derive(Clone, Debug)]
pub struct SimLinkConfig {
    /// The port's addresses; each is a row of its GID table.
    pub addresses: Vec<IpAddr>,
    /// The path MTU of the port.
    pub mtu: Mtu,
    /// The longest packet, BTH to ICRC.
    pub max_packet: usize,
    /// Packets that one turn may send before `send` says that the ring is full.
    pub slots: usize,
    /// Whether receivers see the IPv4 header, as on a frame link, or not, as on a socket.
    pub exact_icrc: bool,
    /// The partition table.
    pub pkeys: Vec<PKey>,
    /// What happens to the packets that this link sends.
    pub faults: Faults,
}

impl SimLinkConfig {
    /// Makes a perfect link with one address, path MTU 4096 and plenty of slots.
    pub fn new(address: IpAddr) -> Self {
        Self {
            addresses: alloc::vec![address],
            mtu: Mtu::B4096,
            max_packet: Mtu::B4096.bytes() + Mtu::HEADROOM,
            slots: 256,
            exact_icrc: true,
            pkeys: alloc::vec![PKey::DEFAULT],
            faults: Faults::default(),
        }
    }
}

/// A port of a [`Net`] as a [`Link`]: packets leave at `flush`, as many a turn as there are slots.
///
/// IPv4 Identifications are those of a socket with segmentation offload: 0, 1, 2, … through each run
/// of equal-sized packets of one flow.
#[derive(Debug)]
pub struct SimLink {
    net: Rc<RefCell<Net>>,
    port: PortId,
    caps: LinkCaps,
    attr: PortAttr,
    slots: usize,
    filled: Vec<(Datagram, FrameNote)>,
    run: Option<(Flow, usize)>,
    next_id: u16,
    refused: bool,
}

impl SimLink {
    /// Adds a port to the network.
    pub fn new(net: &Rc<RefCell<Net>>, config: &SimLinkConfig) -> Self {
        let row = |(index, address): (usize, &IpAddr)| GidEntry {
            index: index as u8,
            gid: Gid::from_ip(*address),
            kind: GidKind::RoceV2,
            netdev: String::from("sim"),
        };
        Self {
            net: Rc::clone(net),
            port: net.borrow_mut().add_port(&config.addresses, config.faults),
            caps: LinkCaps {
                max_packet: config.max_packet,
                max_batch: 64,
                exact_icrc: config.exact_icrc,
                qpn_parity: None,
            },
            attr: PortAttr {
                active: true,
                link_layer: LinkLayer::Ethernet,
                active_mtu: config.mtu,
                lid: 0,
                pkeys: config.pkeys.clone(),
                gids: config.addresses.iter().enumerate().map(row).collect(),
            },
            slots: config.slots,
            filled: Vec::new(),
            run: None,
            next_id: 0,
            refused: false,
        }
    }

    /// Returns the port's name in the network.
    pub const fn port_id(&self) -> PortId {
        self.port
    }

    /// Changes how many packets a turn may send; 0 stops the link until it is changed again.
    pub const fn set_slots(&mut self, slots: usize) {
        self.slots = slots;
    }

    /// Returns whether packets wait to be received.
    pub fn has_arrivals(&self) -> bool {
        self.net.borrow().has_arrivals(self.port)
    }

    /// Returns whether the last turn found no slot, and forgets it.
    pub const fn take_refused(&mut self) -> bool {
        core::mem::replace(&mut self.refused, false)
    }

    fn id_for(&mut self, flow: &Flow, len: usize) -> u16 {
        if self.run != Some((*flow, len)) {
            self.run = Some((*flow, len));
            self.next_id = 0;
        }
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        id
    }
}

impl Link for SimLink {
    fn caps(&self) -> &LinkCaps {
        &self.caps
    }

    fn port(&self) -> &PortAttr {
        &self.attr
    }

    fn receive<F>(&mut self, budget: usize, mut sink: F) -> Result<usize, LinkError>
    where
        F: FnMut(&RxMeta, &[u8]),
    {
        for count in 0..budget {
            let Some(mut datagram) = self.net.borrow_mut().take(self.port) else {
                return Ok(count);
            };
            if !self.caps.exact_icrc {
                datagram.meta.ipv4_id = Ipv4Id::Unknown;
            }
            sink(&datagram.meta, &datagram.bytes);
            self.net.borrow_mut().recycle(datagram.bytes);
        }
        Ok(budget)
    }

    fn send<F>(&mut self, flow: &Flow, len: usize, note: FrameNote, fill: F) -> bool
    where
        F: FnOnce(&mut Slot<'_>),
    {
        assert!(
            len <= self.caps.max_packet,
            "the device asks for no more than the link carries"
        );
        if self.filled.len() >= self.slots {
            self.refused = true;
            return false;
        }
        let id = self.id_for(flow, len);
        let mut bytes = self.net.borrow_mut().buffer();
        // A byte that the device doesn't write shows.
        bytes.resize(len, 0xa5);
        fill(&mut Slot {
            bytes: &mut bytes,
            ipv4_id: id,
        });
        let ipv4_id = match flow.remote {
            IpAddr::V4(_) => Ipv4Id::Known {
                id,
                flags: DONT_FRAGMENT,
            },
            IpAddr::V6(_) => Ipv4Id::Unknown,
        };
        let meta = RxMeta {
            remote: flow.local,
            local: flow.remote,
            source_port: flow.source_port,
            traffic_class: flow.traffic_class,
            hop_limit: flow.hop_limit,
            ipv4_id,
        };
        self.filled.push((Datagram { meta, bytes }, note));
        true
    }

    fn flush(&mut self) -> Result<(), LinkError> {
        let mut net = self.net.borrow_mut();
        for (datagram, note) in self.filled.drain(..) {
            net.transmit(self.port, datagram, note);
        }
        self.run = None;
        Ok(())
    }

    /// Returns at once: a world moves time, not its links.
    fn wait(&mut self, _timeout: Option<Duration>) -> Result<(), LinkError> {
        Ok(())
    }
}

const DONT_FRAGMENT: u16 = 0x4000;
