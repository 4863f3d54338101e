//! Two engines joined by a wire in memory: every operation end to end, without the simulator.
#![expect(clippy::unwrap_used, reason = "a step that fails ends the test")]

use core::cell::{Cell, RefCell};
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use roce_engine::clock::Clock;
use roce_engine::link::{Flow, FrameNote, Ipv4Id, Link, LinkCaps, LinkError, RxMeta, Slot};
use roce_engine::verbs::{
    Access, AddressVector, Backend, Completion, Cq, Gid, GidEntry, GidKind, LinkLayer, Mr, Mtu,
    PKey, Payload, PortAttr, Psn, Qp, QpAttr, QpCaps, QpInit, QpState, RecvWr, Region, SendFlags,
    SendOp, SendWr, Service, Sge, Status, WcOpcode, WriteObserver,
};
use roce_engine::{EngineConfig, Instant, SoftDevice};

type Wire = Rc<RefCell<VecDeque<(RxMeta, Vec<u8>)>>>;

struct MemoryLink {
    caps: LinkCaps,
    port: PortAttr,
    out: Wire,
    input: Wire,
}

impl Link for MemoryLink {
    fn caps(&self) -> &LinkCaps {
        &self.caps
    }

    fn port(&self) -> &PortAttr {
        &self.port
    }

    fn receive<F: FnMut(&RxMeta, &[u8])>(
        &mut self,
        budget: usize,
        mut sink: F,
    ) -> Result<usize, LinkError> {
        for n in 0..budget {
            let next = self.input.borrow_mut().pop_front();
            let Some((meta, bytes)) = next else {
                return Ok(n);
            };
            sink(&meta, &bytes);
        }
        Ok(budget)
    }

    fn send<F: FnOnce(&mut Slot<'_>)>(
        &mut self,
        flow: &Flow,
        len: usize,
        _: FrameNote,
        fill: F,
    ) -> bool {
        let mut bytes = vec![0xa5; len];
        fill(&mut Slot {
            bytes: &mut bytes,
            ipv4_id: 77,
        });
        let meta = RxMeta {
            remote: flow.local,
            local: flow.remote,
            source_port: flow.source_port,
            traffic_class: flow.traffic_class,
            hop_limit: flow.hop_limit,
            ipv4_id: Ipv4Id::Unknown,
        };
        self.out.borrow_mut().push_back((meta, bytes));
        true
    }

    fn flush(&mut self) -> Result<(), LinkError> {
        Ok(())
    }

    fn wait(&mut self, _: Option<Duration>) -> Result<(), LinkError> {
        Ok(())
    }
}

#[derive(Clone)]
struct Time(Rc<Cell<u64>>);

impl Clock for Time {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.0.get())
    }
}

struct Side {
    device: SoftDevice<MemoryLink, Time>,
    qp: Qp,
    cq: Cq,
    memory: Region,
    mr: Mr,
}

impl Side {
    fn new(host: u8, out: Wire, input: Wire, time: Time) -> Self {
        let gid = Gid::from_ip(IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)));
        let row = GidEntry {
            index: 0,
            gid,
            kind: GidKind::RoceV2,
            netdev: "mem".into(),
        };
        let port = PortAttr {
            active: true,
            link_layer: LinkLayer::Ethernet,
            active_mtu: Mtu::B4096,
            lid: 0,
            pkeys: vec![PKey::DEFAULT],
            gids: vec![row],
        };
        let caps = LinkCaps {
            max_packet: 4400,
            max_batch: 1,
            exact_icrc: false,
            qpn_parity: None,
        };
        let link = MemoryLink {
            caps,
            port,
            out,
            input,
        };
        let config = EngineConfig {
            seed: host.into(),
            ..EngineConfig::default()
        };
        let mut device = SoftDevice::new("mem", link, time, config);
        let pd = device.alloc_pd().unwrap();
        let cq = device.create_cq(64).unwrap();
        let memory = Region::zeroed(1 << 20, 4096).unwrap();
        let access = Access::LOCAL_WRITE
            | Access::REMOTE_WRITE
            | Access::REMOTE_READ
            | Access::REMOTE_ATOMIC;
        let mr = device.register(pd, &memory, access).unwrap();
        let caps = QpCaps {
            max_send_wr: 32,
            max_recv_wr: 32,
            max_send_sge: 4,
            max_recv_sge: 4,
            max_inline: 64,
        };
        let service = Service::Rc;
        let init = QpInit {
            service,
            pd,
            send_cq: cq,
            recv_cq: cq,
            caps,
            srq: None,
            sq_sig_all: false,
        };
        let qp = device.create_qp(&init).unwrap();
        Self {
            device,
            qp,
            cq,
            memory,
            mr,
        }
    }

    fn connect(&mut self, peer: &Self, host: u8, mtu: Mtu) {
        let all = Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
        let init = QpAttr {
            state: Some(QpState::Init),
            pkey_index: Some(0),
            port: Some(1),
            access: Some(all),
            ..QpAttr::default()
        };
        self.device.modify_qp(self.qp, &init).unwrap();
        let address = AddressVector {
            dgid: Gid::from_ip(IpAddr::V4(Ipv4Addr::new(10, 0, 0, host))),
            dlid: 0,
            sgid_index: 0,
            hop_limit: 64,
            traffic_class: 0,
            flow_label: 0,
            service_level: 0,
        };
        let rtr = QpAttr {
            state: Some(QpState::Rtr),
            address: Some(address),
            path_mtu: Some(mtu),
            dest_qpn: Some(peer.device.query_qp(peer.qp).unwrap().qpn),
            rq_psn: Some(Psn::new(0xff_fff0)),
            max_dest_rd_atomic: Some(4),
            min_rnr_timer: Some(1),
            ..QpAttr::default()
        };
        self.device.modify_qp(self.qp, &rtr).unwrap();
        let rts = QpAttr {
            state: Some(QpState::Rts),
            sq_psn: Some(Psn::new(0xff_fff0)),
            max_rd_atomic: Some(4),
            timeout: Some(10),
            retry_cnt: Some(7),
            rnr_retry: Some(7),
            ..QpAttr::default()
        };
        self.device.modify_qp(self.qp, &rts).unwrap();
    }

    fn sge(&self, offset: usize, length: u32) -> Sge {
        Sge {
            addr: self.mr.addr + offset as u64,
            length,
            lkey: self.mr.lkey,
        }
    }

    fn post(&mut self, wr_id: u64, op: SendOp, sges: &[Sge]) {
        let payload = Payload::Sges(sges);
        let wr = SendWr {
            wr_id,
            op,
            payload,
            flags: SendFlags::SIGNALED,
        };
        self.device.post_send(self.qp, &[wr]).unwrap();
    }

    fn poll(&mut self) -> Vec<Completion> {
        let mut out = [Completion::default(); 16];
        let n = self.device.poll_cq(self.cq, &mut out).unwrap();
        out[..n].to_vec()
    }
}

struct Pair {
    a: Side,
    b: Side,
    time: Time,
}

impl Pair {
    fn new(mtu: Mtu) -> Self {
        let (ab, ba) = (Wire::default(), Wire::default());
        let time = Time(Rc::new(Cell::new(1)));
        let mut a = Side::new(1, ab.clone(), ba.clone(), time.clone());
        let mut b = Side::new(2, ba, ab, time.clone());
        a.connect(&b, 2, mtu);
        b.connect(&a, 1, mtu);
        Self { a, b, time }
    }

    /// Turns both sides until `want` completions came; time passes 1 us a round.
    fn run(&mut self, want: usize) -> (Vec<Completion>, Vec<Completion>) {
        let (mut at_a, mut at_b) = (Vec::new(), Vec::new());
        for _ in 0..100_000 {
            at_a.extend(self.a.poll());
            at_b.extend(self.b.poll());
            if at_a.len() + at_b.len() >= want {
                break;
            }
            self.time.0.set(self.time.0.get() + 1000);
        }
        assert_eq!(at_a.len() + at_b.len(), want, "{at_a:?} {at_b:?}");
        (at_a, at_b)
    }
}

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len)
        .map(|i| (i as u8).wrapping_mul(7).wrapping_add(seed) ^ (i >> 8) as u8)
        .collect()
}

#[test]
fn writes_and_reads_of_many_lengths_arrive_byte_for_byte() {
    for mtu in Mtu::ALL {
        let mut pair = Pair::new(mtu);
        for (n, len) in [0, 1, 3, 255, 256, 257, 4096, 4097, 70_001, 300_000]
            .into_iter()
            .enumerate()
        {
            let data = pattern(len, n as u8);
            pair.a.memory.write(5, &data);
            let (addr, rkey) = (pair.b.mr.addr + 9, pair.b.mr.rkey);
            let local = pair.a.sge(5, len as u32);
            pair.a.post(1, SendOp::Write { addr, rkey }, &[local]);
            let back = pair.a.sge(500_000, len as u32);
            pair.a.post(2, SendOp::Read { addr, rkey }, &[back]);
            let (done, _) = pair.run(2);
            assert!(
                done.iter().all(|c| c.status == Status::Success),
                "{mtu:?} {len}: {done:?}"
            );
            assert_eq!(done[1].byte_len as usize, len);
            let mut out = vec![0; len];
            pair.b.memory.read(9, &mut out);
            assert_eq!(out, data, "written");
            pair.a.memory.read(500_000, &mut out);
            assert_eq!(out, data, "read back");
        }
        let counters = pair.a.device.engine().counters();
        assert_eq!(counters.retransmitted_pkts, 0);
        assert_eq!(counters.local_ack_timeout_err, 0);
    }
}

#[test]
fn an_observer_sees_each_write_before_the_next_overwrites_it() {
    let mut pair = Pair::new(Mtu::B256);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (target, shared) = (pair.b.memory.clone(), Arc::clone(&seen));
    let observer = WriteObserver::new(move |done| {
        let first = target.load((done.addr - target.addr()) as usize);
        shared.lock().unwrap().push((done.qpn, done.length, first));
    });
    assert!(pair.b.device.observe_writes(Some(observer)));
    let op = SendOp::Write {
        addr: pair.b.memory.addr() + 64,
        rkey: pair.b.mr.rkey,
    };
    let lengths = [1, 256, 257, 1000];
    for (n, length) in (0..).zip(lengths) {
        pair.a.memory.store(usize::from(n) * 1024, n);
        let sges = [pair.a.sge(usize::from(n) * 1024, length)];
        pair.a.post(n.into(), op, &sges);
    }
    pair.run(lengths.len());
    let qpn = pair.b.device.query_qp(pair.b.qp).unwrap().qpn;
    let expected: Vec<_> = (0..)
        .zip(lengths)
        .map(|(n, length)| (qpn, length, n))
        .collect();
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[test]
fn sends_fill_receives_in_order_and_rnr_is_waited_out() {
    let mut pair = Pair::new(Mtu::B1024);
    let data = pattern(3000, 1);
    pair.a.memory.write(0, &data);
    let sge = pair.a.sge(0, 3000);
    pair.a.post(1, SendOp::SendImm([1, 2, 3, 4]), &[sge]);
    for _ in 0..5 {
        assert!(pair.a.poll().is_empty());
        assert!(pair.b.poll().is_empty());
    }
    assert_eq!(pair.b.device.engine().counters().send_rnr_err, 1);
    let sges = [pair.b.sge(100, 1000), pair.b.sge(5000, 2500)];
    pair.b
        .device
        .post_recv(
            pair.b.qp,
            &[RecvWr {
                wr_id: 9,
                sges: &sges,
            }],
        )
        .unwrap();
    let (at_a, at_b) = pair.run(2);
    assert_eq!(at_a[0].status, Status::Success);
    let got = at_b[0];
    assert_eq!(
        (got.wr_id, got.opcode, got.byte_len),
        (9, WcOpcode::Recv, 3000)
    );
    assert_eq!(got.imm, Some([1, 2, 3, 4]));
    let mut out = vec![0; 1000];
    pair.b.memory.read(100, &mut out);
    assert_eq!(out, data[..1000]);
}

#[test]
fn an_acknowledgement_waits_a_turn_for_company() {
    let mut pair = Pair::new(Mtu::B1024);
    let (addr, rkey) = (pair.b.mr.addr, pair.b.mr.rkey);
    let sges = [pair.a.sge(0, 8)];
    pair.a.post(1, SendOp::Write { addr, rkey }, &sges);
    let back = [pair.b.sge(0, 8)];
    let write = SendOp::Write {
        addr: pair.a.mr.addr,
        rkey: pair.a.mr.rkey,
    };
    assert_eq!(pair.a.poll(), []);
    let replies = |pair: &Pair| pair.a.device.link().input.borrow().len();
    assert_eq!(pair.b.poll(), []);
    assert_eq!(replies(&pair), 0);
    assert_eq!(pair.b.poll(), []);
    assert_eq!(replies(&pair), 1);
    assert_eq!(pair.a.poll().len(), 1);
    // What is posted in that turn takes it along.
    pair.a.post(2, SendOp::Write { addr, rkey }, &sges);
    assert_eq!(pair.a.poll(), []);
    assert_eq!(pair.b.poll(), []);
    pair.b.post(1, write, &back);
    assert_eq!(pair.b.poll(), []);
    assert_eq!(replies(&pair), 2);
    let (done, _) = pair.run(2);
    assert_eq!(done.len(), 1);
}

#[test]
fn an_answer_behind_other_packets_is_taken_before_a_timeout_is_believed() {
    let mut pair = Pair::new(Mtu::B1024);
    let (addr, rkey) = (pair.b.mr.addr, pair.b.mr.rkey);
    let sges = [pair.a.sge(0, 8)];
    pair.a.post(1, SendOp::Write { addr, rkey }, &sges);
    assert_eq!(pair.a.poll(), []);
    let stray = RxMeta {
        remote: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9)),
        local: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
        source_port: 0xc000,
        traffic_class: 0,
        hop_limit: 64,
        ipv4_id: Ipv4Id::Unknown,
    };
    for _ in 0..1000 {
        let input = &pair.a.device.link().input;
        input.borrow_mut().push_back((stray, vec![0; 16]));
    }
    for _ in 0..3 {
        assert_eq!(pair.b.poll(), []);
    }
    assert_eq!(pair.a.device.link().input.borrow().len(), 1001);
    pair.time.0.set(1_000_000_000);
    let done = pair.a.poll();
    assert_eq!(done.len(), 1, "{done:?}");
    let counters = pair.a.device.engine().counters();
    assert_eq!(counters.local_ack_timeout_err, 0);
}

#[test]
fn atomics_return_what_was_there() {
    let mut pair = Pair::new(Mtu::B4096);
    let (addr, rkey) = (pair.b.mr.addr + 64, pair.b.mr.rkey);
    let sges = [pair.a.sge(0, 8), pair.a.sge(8, 8), pair.a.sge(16, 8)];
    pair.a
        .post(1, SendOp::FetchAdd { addr, rkey, add: 5 }, &sges[..1]);
    pair.a.post(
        2,
        SendOp::CompareSwap {
            addr,
            rkey,
            compare: 5,
            swap: 9,
        },
        &sges[1..2],
    );
    pair.a
        .post(3, SendOp::FetchAdd { addr, rkey, add: 1 }, &sges[2..]);
    let (done, _) = pair.run(3);
    assert!(done.iter().all(|c| c.status == Status::Success));
    let mut values = [0; 24];
    pair.a.memory.read(0, &mut values);
    let values: Vec<u64> = values
        .chunks(8)
        .map(|c| u64::from_ne_bytes(c.try_into().unwrap()))
        .collect();
    assert_eq!(values, [0, 5, 9]);
}

#[test]
fn a_bad_key_fails_the_request_and_flushes_the_rest() {
    let mut pair = Pair::new(Mtu::B1024);
    let sge = pair.a.sge(0, 10);
    let bad = SendOp::Write {
        addr: 0,
        rkey: roce_engine::verbs::RKey(0x1234),
    };
    pair.a.post(1, bad, &[sge]);
    pair.a.post(2, SendOp::Send, &[sge]);
    let recv = [pair.b.sge(0, 10)];
    pair.b
        .device
        .post_recv(
            pair.b.qp,
            &[RecvWr {
                wr_id: 3,
                sges: &recv,
            }],
        )
        .unwrap();
    let (at_a, at_b) = pair.run(3);
    let statuses: Vec<_> = at_a.iter().map(|c| (c.wr_id, c.status)).collect();
    assert_eq!(
        statuses,
        [(1, Status::RemAccessErr), (2, Status::WrFlushErr)]
    );
    assert_eq!(at_b[0].status, Status::WrFlushErr);
}
