//! A link to nowhere, for the tests of links around links.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use roce_wire::icrc::{IPV4_DONT_FRAGMENT, IcrcSeed};
use roce_wire::{Mtu, PKey};

use super::{Flow, FrameNote, Ipv4Id, Link, LinkCaps, LinkError, RxMeta, Slot};
use crate::verbs::{LinkLayer, PortAttr};

const PORT: u16 = 4791;

/// A packet that was sent.
pub(super) struct Kept {
    pub(super) ipv4_id: u16,
    pub(super) note: FrameNote,
    pub(super) bytes: Vec<u8>,
}

/// Keeps what is sent and hands out what is delivered. Identifications count from 0.
pub(super) struct MemoryLink {
    caps: LinkCaps,
    port: PortAttr,
    pub(super) sent: Vec<Kept>,
    pub(super) withheld: Vec<FrameNote>,
    /// Packets that are taken before there is no room.
    pub(super) room: usize,
    /// How long each wait was to be.
    pub(super) waits: Vec<Option<Duration>>,
    arrived: VecDeque<Vec<u8>>,
}

impl MemoryLink {
    pub(super) fn new() -> Self {
        Self {
            caps: LinkCaps {
                max_packet: 4176,
                max_batch: 64,
                exact_icrc: false,
                qpn_parity: None,
            },
            port: PortAttr {
                active: true,
                link_layer: LinkLayer::Ethernet,
                active_mtu: Mtu::B4096,
                lid: 0,
                pkeys: Vec::from([PKey::DEFAULT]),
                gids: Vec::new(),
            },
            sent: Vec::new(),
            withheld: Vec::new(),
            room: usize::MAX,
            waits: Vec::new(),
            arrived: VecDeque::new(),
        }
    }

    pub(super) fn deliver(&mut self, bytes: &[u8]) {
        self.arrived.push_back(bytes.to_vec());
    }

    /// Returns the numbers of the packets that were sent.
    pub(super) fn numbers(&self) -> Vec<u32> {
        let number = |kept: &Kept| u32::from_be_bytes(kept.bytes[8..12].try_into().unwrap());
        self.sent.iter().map(number).collect()
    }

    /// Returns for each packet that was sent whether its ICRC is right.
    pub(super) fn intact(&self) -> Vec<bool> {
        let seed = seed(&flow());
        let intact = |one: &Kept| seed.verify(one.ipv4_id, IPV4_DONT_FRAGMENT, &one.bytes);
        self.sent.iter().map(intact).collect()
    }
}

/// The flow of the tests.
pub(super) fn flow() -> Flow {
    Flow {
        local: IpAddr::V4(Ipv4Addr::new(10, 7, 0, 1)),
        remote: IpAddr::V4(Ipv4Addr::new(10, 7, 0, 2)),
        source_port: 0xc000,
        traffic_class: 0,
        hop_limit: 64,
        flow_label: 0,
    }
}

fn seed(flow: &Flow) -> IcrcSeed {
    IcrcSeed::new(flow.local, flow.remote, flow.source_port, PORT)
}

/// Writes a sealed packet with a number in it.
pub(super) fn packet(slot: &mut Slot<'_>, number: u32) {
    slot.bytes.fill(0x5a);
    slot.bytes[8..12].copy_from_slice(&number.to_be_bytes());
    seed(&flow()).seal(slot.ipv4_id, IPV4_DONT_FRAGMENT, slot.bytes);
}

impl Link for MemoryLink {
    fn caps(&self) -> &LinkCaps {
        &self.caps
    }

    fn port(&self) -> &PortAttr {
        &self.port
    }

    fn receive<F>(&mut self, budget: usize, mut sink: F) -> Result<usize, LinkError>
    where
        F: FnMut(&RxMeta, &[u8]),
    {
        let count = budget.min(self.arrived.len());
        let flow = flow();
        let meta = RxMeta {
            remote: flow.remote,
            local: flow.local,
            source_port: flow.source_port,
            traffic_class: 0,
            hop_limit: 64,
            ipv4_id: Ipv4Id::Unknown,
        };
        for bytes in self.arrived.drain(..count) {
            sink(&meta, &bytes);
        }
        Ok(count)
    }

    fn send<F>(&mut self, _flow: &Flow, len: usize, note: FrameNote, fill: F) -> bool
    where
        F: FnOnce(&mut Slot<'_>),
    {
        if self.room == 0 {
            return false;
        }
        self.room -= 1;
        let mut bytes = Vec::from_iter(core::iter::repeat_n(0, len));
        let ipv4_id = self.sent.len() as u16;
        fill(&mut Slot {
            bytes: &mut bytes,
            ipv4_id,
        });
        self.sent.push(Kept {
            ipv4_id,
            note,
            bytes,
        });
        true
    }

    fn flush(&mut self) -> Result<(), LinkError> {
        Ok(())
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<(), LinkError> {
        self.waits.push(timeout);
        Ok(())
    }

    fn withheld(&mut self, _flow: &Flow, note: FrameNote, _bytes: &[u8]) {
        self.withheld.push(note);
    }
}
