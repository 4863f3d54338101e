//! The link under the engine: looks at every packet that goes out, and forgets it.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::VecDeque;

use roce_engine::link::{Flow, FrameNote, Link, LinkCaps, LinkError, RxMeta, Slot};
use roce_engine::verbs::{Mtu, PKey, PortAttr, Qpn};
use roce_wire::{Headers, IPV4_DONT_FRAGMENT, IcrcSeed, Packet, ROCE_PORT};

use super::ledger::{SECRET, SECRET_RUN};

/// Sent packets that an answer can be made for.
const REMEMBERED: usize = 32;

/// A link that is as full as the input says.
#[derive(Debug)]
pub(super) struct WatchedLink {
    caps: LinkCaps,
    port: PortAttr,
    /// Packets that still go in.
    pub(super) room: usize,
    /// Packets that went out.
    pub(super) sent: u64,
    /// The headers of the last ones.
    pub(super) headers: VecDeque<Headers>,
    /// Where packets may come from and go to.
    addresses: [IpAddr; 2],
    peers: Vec<Qpn>,
    mtu: usize,
    bytes: Vec<u8>,
}

impl WatchedLink {
    pub(super) fn new(port: PortAttr, addresses: [IpAddr; 2], peers: Vec<Qpn>, mtu: Mtu) -> Self {
        Self {
            caps: LinkCaps {
                max_packet: 4400,
                max_batch: 1,
                exact_icrc: false,
                qpn_parity: None,
            },
            port,
            room: usize::MAX,
            sent: 0,
            headers: VecDeque::with_capacity(REMEMBERED),
            addresses,
            peers,
            mtu: mtu.bytes(),
            bytes: Vec::new(),
        }
    }

    fn check(&mut self, flow: &Flow, ipv4_id: u16) {
        assert_eq!([flow.local, flow.remote], self.addresses);
        let seed = IcrcSeed::new(flow.local, flow.remote, flow.source_port, ROCE_PORT);
        assert!(
            seed.verify(ipv4_id, IPV4_DONT_FRAGMENT, &self.bytes),
            "the ICRC of what is sent"
        );
        let packet = match Packet::parse(&self.bytes) {
            Ok(packet) => packet,
            Err(error) => panic!("sends what no receiver reads: {error}"),
        };
        assert!(
            self.peers.contains(&packet.bth.dest_qpn),
            "sends to {}",
            packet.bth.dest_qpn
        );
        assert!(packet.payload.len() <= self.mtu, "{packet}");
        assert_eq!(packet.bth.pkey, PKey::DEFAULT);
        assert_eq!(packet.pad_bytes, [0; 3], "{packet}");
        let leaks = packet
            .payload
            .windows(SECRET_RUN.len())
            .any(|run| run == SECRET_RUN);
        let value = packet.ext.atomic_ack.map(|ack| ack.0.to_ne_bytes());
        assert!(
            !leaks && value != Some(SECRET_RUN),
            "{packet} carries memory that its receiver may not see"
        );
        if self.headers.len() == REMEMBERED {
            self.headers.pop_front();
        }
        self.headers.push_back(packet.headers());
    }
}

impl Link for WatchedLink {
    fn caps(&self) -> &LinkCaps {
        &self.caps
    }

    fn port(&self) -> &PortAttr {
        &self.port
    }

    fn receive<F: FnMut(&RxMeta, &[u8])>(&mut self, _: usize, _: F) -> Result<usize, LinkError> {
        Ok(0)
    }

    fn send<F: FnOnce(&mut Slot<'_>)>(
        &mut self,
        flow: &Flow,
        len: usize,
        _: FrameNote,
        fill: F,
    ) -> bool {
        if self.room == 0 {
            return false;
        }
        self.room -= 1;
        self.sent += 1;
        let ipv4_id = self.sent as u16;
        // What the engine leaves unwritten shows as a leak.
        self.bytes.clear();
        self.bytes.resize(len, SECRET);
        fill(&mut Slot {
            bytes: &mut self.bytes,
            ipv4_id,
        });
        self.check(flow, ipv4_id);
        true
    }

    fn flush(&mut self) -> Result<(), LinkError> {
        Ok(())
    }

    fn wait(&mut self, _: Option<Duration>) -> Result<(), LinkError> {
        Ok(())
    }
}
