//! A device whose peer is played by hand, packet by packet.

use core::time::Duration;

use roce_engine::link::{Ipv4Id, Link, RxMeta};
use roce_engine::sim::{Bound, Datagram, Ended, SimLink, World};
use roce_engine::verbs::{
    Backend, Completion, Payload, Psn, QpState, Qpn, SendFlags, SendOp, SendWr, Status,
};
use roce_wire::{Aeth, Bth, Ext, Headers, Msn, Opcode, Packet, Syndrome};

use crate::pair::packets::{Seen, seal, seen};
use crate::pair::{End, Setup, counter, outcomes};
use crate::rc::address;

/// A QP on device 0 that is connected to a raw port. It expects PSN 200 and sends from PSN 100.
#[derive(Debug)]
pub struct Rogue {
    /// The device and the network.
    pub world: World,
    /// The device's end.
    pub end: End,
    /// The rogue's port.
    pub link: SimLink,
    /// The headers that the rogue's packets carry unless told otherwise.
    pub meta: RxMeta,
}

impl Rogue {
    /// The rogue's QPN.
    pub const QPN: Qpn = Qpn::new(0x777);
    /// The first PSN that the device expects.
    pub const EXPECTED: u32 = 200;
    /// The first PSN that the device sends.
    pub const FIRST: u32 = 100;

    /// Makes a device and its rogue with the defaults of [`Setup`].
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// Makes them after `change` to the defaults.
    pub fn with(change: impl FnOnce(&mut Setup)) -> Self {
        let mut setup = Setup::default();
        change(&mut setup);
        let mut world = World::new(1);
        let end = End::new(&mut world, &setup, 0);
        let link = world.add_raw_port(&setup.link(1));
        let attributes = setup.attributes(0, address(setup.ipv6, 1), Self::QPN);
        attributes
            .connect(world.device(0), end.qp)
            .expect("legal attributes");
        world.net().trace_packets(4000);
        let meta = RxMeta {
            remote: address(setup.ipv6, 1),
            local: address(setup.ipv6, 0),
            source_port: 0xc123,
            traffic_class: setup.traffic_class,
            hop_limit: 64,
            ipv4_id: if setup.ipv6 {
                Ipv4Id::Unknown
            } else {
                Ipv4Id::Known {
                    id: 0,
                    flags: 0x4000,
                }
            },
        };
        Self {
            world,
            end,
            link,
            meta,
        }
    }

    /// Returns a base header to the device, `after` packets from the PSN that it expects first.
    pub fn bth(&self, opcode: Opcode, after: i32) -> Bth {
        let psn = Psn::new(Self::EXPECTED.wrapping_add_signed(after));
        Bth::new(opcode, self.end.qpn, psn)
    }

    /// Sends a request; its PSN counts from the one that the device expects first.
    pub fn request(&mut self, opcode: Opcode, after: i32, ext: Ext, payload: &[u8]) {
        let mut bth = self.bth(opcode, after);
        bth.ack_request = true;
        self.packet(bth, ext, payload);
    }

    /// Sends an ACK, NAK or RNR NAK; its PSN counts from the first that the device sent.
    pub fn answer(&mut self, syndrome: Syndrome, after: u32) {
        let psn = Psn::new(Self::FIRST + after);
        let bth = Bth::new(Opcode::RC_ACKNOWLEDGE, self.end.qpn, psn);
        let aeth = Aeth {
            syndrome,
            msn: Msn::new(0),
        };
        let ext = Ext {
            aeth: Some(aeth),
            ..Ext::NONE
        };
        self.packet(bth, ext, &[]);
    }

    /// Sends a packet with a right ICRC.
    pub fn packet(&mut self, bth: Bth, ext: Ext, payload: &[u8]) {
        let bytes = self.bytes(bth, ext, payload);
        self.raw(bytes);
    }

    /// Returns a packet's bytes with a right ICRC.
    pub fn bytes(&self, bth: Bth, ext: Ext, payload: &[u8]) -> Vec<u8> {
        let headers = Headers { bth, ext };
        let mut bytes = vec![0; headers.packet_len(payload.len())];
        headers
            .frame(&mut bytes, payload.len())
            .copy_from_slice(payload);
        seal(&self.meta, &mut bytes);
        bytes
    }

    /// Sends bytes as they are, and lets the device answer.
    pub fn raw(&mut self, bytes: Vec<u8>) {
        let datagram = Datagram {
            meta: self.meta,
            bytes,
        };
        self.world.net().inject(datagram);
        self.settle();
    }

    /// Gives the device time to answer, but not to time out.
    pub fn settle(&mut self) {
        self.world.run_for(Duration::from_micros(20));
    }

    /// Runs until the device has nothing to do any more.
    ///
    /// # Panics
    ///
    /// It always has, for ten virtual minutes.
    pub fn run(&mut self) {
        let ended = self
            .world
            .run_until(Bound::time(Duration::from_secs(600)), |_| false);
        assert_eq!(ended, Ended::Idle);
    }

    /// Takes what arrived at the rogue's port as opcode, PSN and syndrome.
    pub fn replies(&mut self) -> Vec<(Opcode, u32, Option<u8>)> {
        let mut replies = Vec::new();
        self.link
            .receive(usize::MAX, |_, bytes| {
                let packet = Packet::parse(bytes).expect("the device sends packets");
                let syndrome = packet.ext.aeth.map(|aeth| aeth.syndrome.to_raw());
                replies.push((packet.bth.opcode, packet.bth.psn.value(), syndrome));
            })
            .expect("a simulated link doesn't fail");
        replies
    }

    /// Returns every packet that the device sent so far.
    pub fn packets(&self) -> Vec<Seen> {
        seen(&self.world, 0)
    }

    /// Posts a signaled request of the device.
    pub fn post(&mut self, wr_id: u64, op: SendOp, (offset, len): (usize, u32)) {
        let sges = [self.end.sge(offset, len)];
        let request = SendWr {
            wr_id,
            op,
            payload: Payload::Sges(&sges),
            flags: SendFlags::SIGNALED,
        };
        let posted = self.world.device(0).post_send(self.end.qp, &[request]);
        posted.expect("the request is legal");
        self.settle();
    }

    /// Posts a receive of the device.
    pub fn recv(&mut self, wr_id: u64, at: (usize, u32)) {
        self.end.recv(&mut self.world, 0, wr_id, at);
    }

    /// Takes the device's send completions.
    pub fn sent(&mut self) -> Vec<Completion> {
        self.end.poll_sent(&mut self.world, 0)
    }

    /// Asserts the device's send completions.
    pub fn expect_sent(&mut self, expected: &[(u64, Status)]) {
        assert_eq!(outcomes(&self.sent()), expected, "send completions");
    }

    /// Takes the device's receive completions.
    pub fn received(&mut self) -> Vec<Completion> {
        self.end.poll_received(&mut self.world, 0)
    }

    /// Asserts the device's receive completions.
    pub fn expect_received(&mut self, expected: &[(u64, Status)]) {
        assert_eq!(outcomes(&self.received()), expected, "receive completions");
    }

    /// Asserts what the device answered since the last look.
    pub fn expect_replies(&mut self, expected: &[(Opcode, u32, Option<u8>)]) {
        assert_eq!(self.replies(), expected, "the device's answers");
    }

    /// Asserts that the device's QP is in this state.
    pub fn expect_state(&mut self, state: QpState) {
        assert_eq!(self.end.state(&mut self.world, 0), state);
    }

    /// Returns a counter of the device.
    pub fn counter(&mut self, name: &str) -> u64 {
        counter(&mut self.world, 0, name)
    }
}

impl Default for Rogue {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Rogue {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.world.net().trace());
        }
    }
}
