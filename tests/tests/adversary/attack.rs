//! A device with a queue pair that is connected to an attacker, and honest company on the same device.

use core::time::Duration;

use roce_engine::link::{Ipv4Id, Link, RxMeta};
use roce_engine::sim::{Datagram, SimLink};
use roce_engine::verbs::{
    Access, Backend, Mr, QpState, Qpn, RKey, Region, SendFlags, SendOp, Service, Sge, Status,
};
use roce_tests::lan::{Lan, Port, Wish, pattern};
use roce_tests::pair::seal;
use roce_tests::rc::{address, all_rights};
use roce_wire::{Aeth, AtomicEth, Bth, Ext, HeaderSet, Headers, Msn, Opcode, Packet, Psn, Reth};

/// Path MTU of the victim's queue pair.
pub(crate) const MTU: usize = 1024;
/// The first PSN that the victim sends.
pub(crate) const FIRST: u32 = 100;
/// The first PSN that the victim expects.
pub(crate) const EXPECTED: u32 = 200;
/// The attacker's queue pair.
pub(crate) const ATTACKER: Qpn = Qpn::new(0x777);
pub(crate) const ACK: Opcode = Opcode::RC_ACKNOWLEDGE;
/// The syndrome of an acknowledgement without limit.
pub(crate) const GOOD: Option<u8> = Some(0x1f);

/// Host 0 is the victim, host 1 is honest, and the attacker has the third address.
pub(crate) struct Attack {
    pub(crate) lan: Lan,
    /// The victim's queue pair. Host 0's memory is what it grants the attacker.
    pub(crate) victim: Port,
    /// The outer header of the attacker's packets.
    pub(crate) meta: RxMeta,
    /// The first PSN that the victim expects.
    pub(crate) expected: u32,
    /// The first PSN that the victim sends.
    pub(crate) first: u32,
    /// Memory of the victim's domain without remote rights.
    pub(crate) private: (Region, Mr),
    /// Memory of another domain with all rights.
    pub(crate) other: (Region, Mr),
    link: SimLink,
    friends: [Port; 2],
    desk: (Region, Mr),
}

/// What the victim answered: opcode, PSN, syndrome.
pub(crate) type Reply = (Opcode, u32, Option<u8>);

impl Attack {
    pub(crate) fn new(service: Service) -> Self {
        Self::with(service, |_| {})
    }

    pub(crate) fn with(service: Service, change: impl Fn(&mut Wish)) -> Self {
        // Keys and QPNs that are not the first that anybody would try.
        let lan = Lan::with(2, |setup| setup.engine.seed = 0x5_1357);
        Self::on(lan, service, change)
    }

    pub(crate) fn on(mut lan: Lan, service: Service, change: impl Fn(&mut Wish)) -> Self {
        let friends = [1, 0].map(|host| lan.qp(host, Service::Rc));
        lan.connect(friends[0], friends[1]);
        let victim = lan.qp(0, service);
        let mut wish = Wish::new(address(false, 2), ATTACKER, [FIRST, EXPECTED]);
        change(&mut wish);
        if service == Service::Ud {
            lan.open(victim, roce_engine::verbs::QKey(QKEY));
        } else {
            lan.enter(victim, &wish);
        }
        let desk = lan.register(0, 4096, all_rights());
        let private = lan.register(0, 4096, Access::LOCAL_WRITE);
        let other = foreign(&mut lan);
        for region in [&private.0, &other.0, &desk.0] {
            region.fill(0, 4096, SECRET);
        }
        let link = lan.raw_port();
        let meta = RxMeta {
            remote: address(false, 2),
            local: address(false, 0),
            source_port: 0xc123,
            traffic_class: 0,
            hop_limit: 64,
            ipv4_id: Ipv4Id::Known {
                id: 0,
                flags: 0x4000,
            },
        };
        let [first, expected] = wish.psns;
        Self {
            lan,
            victim,
            meta,
            expected,
            first,
            private,
            other,
            link,
            friends,
            desk,
        }
    }

    /// Returns the granted memory's registration.
    pub(crate) fn mr(&self) -> Mr {
        self.lan.hosts[0].mr
    }

    /// Returns a base header `after` packets from the first PSN that the victim expects, which asks for
    /// an acknowledgement where there are any.
    pub(crate) fn bth(&self, opcode: Opcode, after: i32) -> Bth {
        let psn = Psn::new(self.expected.wrapping_add_signed(after) & 0xff_ffff);
        let mut bth = Bth::new(opcode, self.victim.qpn, psn);
        bth.ack_request = self.victim.service == Service::Rc;
        bth
    }

    /// Returns the extended headers of an opcode, on the first `length` bytes of the granted memory.
    pub(crate) fn ext(&self, opcode: Opcode, length: u32) -> Ext {
        let mr = self.mr();
        named(opcode, mr.addr, mr.rkey, length)
    }

    /// Returns a packet's bytes with a right ICRC.
    pub(crate) fn bytes(&self, bth: Bth, ext: Ext, payload: &[u8]) -> Vec<u8> {
        let headers = Headers { bth, ext };
        let mut bytes = vec![0; headers.packet_len(payload.len())];
        headers
            .frame(&mut bytes, payload.len())
            .copy_from_slice(payload);
        seal(&self.meta, &mut bytes);
        bytes
    }

    /// Sends bytes as they are, and does not wait.
    pub(crate) fn inject(&mut self, bytes: Vec<u8>) {
        let meta = self.meta;
        self.lan.world.net().inject(Datagram { meta, bytes });
    }

    /// Sends a request on the granted memory and lets the victim answer.
    pub(crate) fn request(&mut self, opcode: Opcode, after: i32, length: u32, payload: &[u8]) {
        let ext = self.ext(opcode, length);
        self.packet(self.bth(opcode, after), ext, payload);
    }

    /// Sends a packet and lets the victim answer.
    pub(crate) fn packet(&mut self, bth: Bth, ext: Ext, payload: &[u8]) {
        let bytes = self.bytes(bth, ext, payload);
        self.inject(bytes);
        self.settle();
    }

    /// Sends an answer with this syndrome; its PSN counts from the first that the victim sends.
    pub(crate) fn answer(&mut self, syndrome: u8, after: i32) {
        let (bth, ext) = self.answer_headers(ACK, syndrome, after);
        self.packet(bth, ext, &[]);
    }

    /// Returns the headers of an answer.
    pub(crate) fn answer_headers(&self, opcode: Opcode, syndrome: u8, after: i32) -> (Bth, Ext) {
        let psn = Psn::new(self.first.wrapping_add_signed(after) & 0xff_ffff);
        let info = opcode.info().expect("a defined opcode");
        let aeth = Aeth {
            syndrome: roce_wire::Syndrome::from_raw(syndrome),
            msn: Msn::new(0),
        };
        let ext = Ext {
            aeth: info.headers.contains(HeaderSet::AETH).then_some(aeth),
            atomic_ack: info
                .headers
                .contains(HeaderSet::ATOMIC_ACK)
                .then_some(roce_wire::AtomicAckEth(0xbad)),
            ..Ext::NONE
        };
        (Bth::new(opcode, self.victim.qpn, psn), ext)
    }

    /// Gives the victim time to answer, but not to time out.
    pub(crate) fn settle(&mut self) {
        self.lan.run_for(Duration::from_micros(20));
    }

    /// Takes what the victim sent to the attacker.
    pub(crate) fn replies(&mut self) -> Vec<Reply> {
        let mut replies = Vec::new();
        let received = self.link.receive(usize::MAX, |_, bytes| {
            let packet = Packet::parse(bytes).expect("the victim sends packets");
            let syndrome = packet.ext.aeth.map(|aeth| aeth.syndrome.to_raw());
            replies.push((packet.bth.opcode, packet.bth.psn.value(), syndrome));
        });
        received.expect("a simulated link doesn't fail");
        replies
    }

    /// Posts a signaled request of the victim over its granted memory and lets it go out.
    pub(crate) fn post(&mut self, wr_id: u64, op: SendOp, at: (usize, u32)) {
        self.lan.post(self.victim, wr_id, op, at);
        self.settle();
    }

    /// Returns a READ of the victim from the attacker.
    pub(crate) const fn read() -> SendOp {
        SendOp::Read {
            addr: 0x10_0000,
            rkey: RKey(0x1234),
        }
    }

    /// Returns a WRITE of the victim to the attacker.
    pub(crate) const fn write() -> SendOp {
        SendOp::Write {
            addr: 0x10_0000,
            rkey: RKey(0x1234),
        }
    }

    pub(crate) fn counter(&mut self, name: &str) -> u64 {
        self.lan.counter(0, name)
    }

    /// Ends the attack: the victim is in `state`, memory changed only in `changed` pieces of what it
    /// granted, the old connection of the same device works, and so does a new one.
    pub(crate) fn finish(mut self, state: QpState, changed: &[(usize, usize)]) {
        self.lan.expect_state(self.victim, state);
        self.expect_memory(changed);
        self.expect_company();
        self.expect_memory(changed);
    }

    pub(crate) fn expect_memory(&self, changed: &[(usize, usize)]) {
        self.lan.expect_untouched_outside(0, changed);
        for (what, region) in [("private", &self.private.0), ("other", &self.other.0)] {
            let touched = (0..region.len()).find(|&at| region.load(at) != SECRET);
            assert_eq!(touched, None, "{what} memory");
        }
    }

    /// The connection from before the attack works, and a new one.
    pub(crate) fn expect_company(&mut self) {
        self.exercise(self.friends);
        let new = [1, 0].map(|host| self.lan.qp(host, Service::Rc));
        self.lan.connect(new[0], new[1]);
        self.exercise(new);
        for port in new {
            let device = self.lan.world.device(port.host);
            device.destroy_qp(port.qp).expect("it exists");
            for cq in [port.send_cq, port.recv_cq] {
                device.destroy_cq(cq).expect("nothing uses it");
            }
        }
    }

    /// SEND both ways, WRITE, READ and an atomic of an honest peer.
    fn exercise(&mut self, [friend, here]: [Port; 2]) {
        let (region, mr) = self.desk.clone();
        region.fill(0, region.len(), SECRET);
        region.write(3072, &41_u64.to_ne_bytes());
        let sge = |at: u64, length| Sge {
            addr: mr.addr + at,
            length,
            lkey: mr.lkey,
        };
        let (at, rkey) = (|offset: u64| mr.addr + offset, mr.rkey);
        self.lan.recv_into(here, 1, sge(0, 64));
        self.lan.recv(friend, 2, (4096, 2048));
        let ops = [
            (SendOp::Send, 64),
            (SendOp::Write { addr: at(64), rkey }, 1500),
            (
                SendOp::Read {
                    addr: at(2048),
                    rkey,
                },
                1024,
            ),
            (
                SendOp::FetchAdd {
                    addr: at(3072),
                    rkey,
                    add: 1,
                },
                8,
            ),
        ];
        for (id, (op, len)) in ops.into_iter().enumerate() {
            let from = if op.is_fetch() { 8192 * id } else { 0 };
            self.lan.post(friend, id as u64, op, (from, len));
        }
        let sent = self
            .lan
            .post_sge(here, 9, SendOp::Send, sge(0, 2000), SendFlags::SIGNALED);
        sent.expect("legal");
        self.lan.run_for(Duration::from_millis(1));
        let done = [0, 1, 2, 3].map(|id| (id, Status::Success));
        self.lan.expect_sent(friend, &done);
        self.lan.expect_sent(here, &[(9, Status::Success)]);
        self.lan.expect_received(here, &[(1, Status::Success)]);
        self.lan.expect_received(friend, &[(2, Status::Success)]);
        let mut desk = vec![0; 1564];
        region.read(0, &mut desk);
        assert!(desk[..64] == pattern(1, 0, 64) && desk[64..] == pattern(1, 0, 1500));
        self.lan.expect_bytes(1, 16384, &[SECRET; 1024]);
        self.lan.expect_bytes(1, 24576, &41_u64.to_ne_bytes());
    }
}

/// Returns the extended headers of an opcode on a piece of memory.
pub(crate) fn named(opcode: Opcode, addr: u64, rkey: RKey, length: u32) -> Ext {
    let headers = opcode.info().expect("a defined opcode").headers;
    let reth = Reth { addr, rkey, length };
    let atomic = AtomicEth {
        addr,
        rkey,
        swap_add: 2,
        compare: 0,
    };
    let deth = roce_wire::Deth::new(roce_engine::verbs::QKey(QKEY), ATTACKER);
    Ext {
        deth: headers.contains(HeaderSet::DETH).then_some(deth),
        feth: headers
            .contains(HeaderSet::FETH)
            .then_some(roce_wire::Feth::new(1, 0)),
        reth: headers.contains(HeaderSet::RETH).then_some(reth),
        atomic: headers.contains(HeaderSet::ATOMIC).then_some(atomic),
        imm: headers.contains(HeaderSet::IMM).then_some([1, 2, 3, 4]),
        ieth: headers.contains(HeaderSet::IETH).then_some(rkey),
        ..Ext::NONE
    }
}

fn foreign(lan: &mut Lan) -> (Region, Mr) {
    let device = lan.world.device(0);
    let pd = device.alloc_pd().expect("a domain");
    let region = Region::zeroed(4096, 4096).expect("memory");
    let mr = device.register(pd, &region, all_rights());
    (region, mr.expect("a registration"))
}

/// The datagram key of a victim of UD.
pub(crate) const QKEY: u32 = 0x2222_2222;
/// What memory that nobody may touch is filled with.
const SECRET: u8 = 0x5e;
