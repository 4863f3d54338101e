//! Two software devices over UDP sockets of this machine, with and without faults on the way.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use core::time::Duration;
use std::time::Instant;

use backend_udp::{Config, Endpoint, Local, MonotonicClock, UdpLink};
use roce_engine::link::{FrameSink, Impair, ImpairConfig, Ipv4Id, Tap, TappedFrame};
use roce_engine::verbs::{
    Access, AddressVector, AsyncEvent, Backend, Completion, Cq, Mr, Mtu, Payload, Psn, Qp, QpAttr,
    QpCaps, QpInit, QpState, Region, SendFlags, SendOp, SendWr, Service, Sge, Status,
};
use roce_engine::{EngineConfig, SoftDevice};

const LEN: usize = 1 << 20;

/// Counts what passes.
#[derive(Default)]
struct Census {
    sent: u64,
    resent: u64,
    withheld: u64,
    received: u64,
}

impl FrameSink for Census {
    fn frame(&mut self, frame: &TappedFrame<'_>) {
        match frame {
            TappedFrame::Sent { note, .. } => {
                self.sent += 1;
                self.resent += u64::from(note.retransmission);
            }
            TappedFrame::Withheld { .. } => self.withheld += 1,
            TappedFrame::Received { meta, .. } => {
                assert_eq!(meta.ipv4_id, Ipv4Id::Unknown);
                self.received += 1;
            }
        }
    }
}

type Device = SoftDevice<Impair<Tap<UdpLink, Census>, MonotonicClock>, MonotonicClock>;

struct Side {
    device: Device,
    qp: Qp,
    cq: Cq,
    memory: Region,
    mr: Mr,
}

impl Side {
    fn new(port: u16, role: Endpoint, faults: ImpairConfig) -> Self {
        let link = UdpLink::open(Config {
            port,
            ..Config::new(Local::Interface("lo".to_owned()), role)
        })
        .unwrap();
        let clock = MonotonicClock::new();
        let link = Impair::new(Tap::new(link, Census::default()), clock, faults);
        let mut device = SoftDevice::new("udp", link, clock, EngineConfig::default());
        let pd = device.alloc_pd().unwrap();
        let cq = device.create_cq(64).unwrap();
        let memory = Region::zeroed(LEN, 4096).unwrap();
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
        let mr = device.register(pd, &memory, access).unwrap();
        let init = QpInit {
            service: Service::Rc,
            pd,
            send_cq: cq,
            recv_cq: cq,
            caps: QpCaps {
                max_send_wr: 16,
                max_recv_wr: 16,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline: 0,
            },
            srq: None,
            sq_sig_all: true,
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

    fn connect(&mut self, peer: &Self, gid_row: u8) {
        let gid = self.device.port().gids[usize::from(gid_row)].gid;
        let init = QpAttr {
            state: Some(QpState::Init),
            pkey_index: Some(0),
            port: Some(1),
            access: Some(Access::REMOTE_WRITE | Access::REMOTE_READ),
            ..QpAttr::default()
        };
        let rtr = QpAttr {
            state: Some(QpState::Rtr),
            address: Some(AddressVector {
                dgid: gid,
                dlid: 0,
                sgid_index: gid_row,
                hop_limit: 64,
                traffic_class: 0,
                flow_label: 0,
                service_level: 0,
            }),
            path_mtu: Some(Mtu::B4096),
            dest_qpn: Some(peer.device.query_qp(peer.qp).unwrap().qpn),
            rq_psn: Some(Psn::new(0)),
            max_dest_rd_atomic: Some(4),
            min_rnr_timer: Some(1),
            ..QpAttr::default()
        };
        let rts = QpAttr {
            state: Some(QpState::Rts),
            sq_psn: Some(Psn::new(0)),
            max_rd_atomic: Some(4),
            // 4.096 us * 2^11 = 8 ms.
            timeout: Some(11),
            retry_cnt: Some(7),
            rnr_retry: Some(7),
            ..QpAttr::default()
        };
        for attr in [init, rtr, rts] {
            self.device.modify_qp(self.qp, &attr).unwrap();
        }
    }

    fn post(&mut self, op: SendOp) {
        let sges = [Sge {
            addr: self.mr.addr,
            length: LEN as u32,
            lkey: self.mr.lkey,
        }];
        let request = SendWr {
            wr_id: 1,
            op,
            payload: Payload::Sges(&sges),
            flags: SendFlags::SIGNALED,
        };
        self.device.post_send(self.qp, &[request]).unwrap();
    }

    fn poll(&mut self) -> Option<Completion> {
        let mut out = [Completion::default()];
        let count = self.device.poll_cq(self.cq, &mut out).unwrap();
        (count == 1).then(|| out[0])
    }

    fn read(&self) -> Vec<u8> {
        let mut bytes = vec![0; LEN];
        self.memory.read(0, &mut bytes);
        bytes
    }

    fn counter(&self, name: &str) -> u64 {
        let counters = self.device.counters();
        counters.iter().find(|row| row.0 == name).unwrap().1
    }
}

fn pair(port: u16, gid_row: u8, faults: ImpairConfig) -> (Side, Side) {
    let mut server = Side::new(port, Endpoint::Server, faults);
    let mut client = Side::new(port, Endpoint::Client, faults);
    server.connect(&client, gid_row);
    client.connect(&server, gid_row);
    (server, client)
}

/// Posts a request at the client and turns both until it is done.
fn run(server: &mut Side, client: &mut Side, op: SendOp) {
    client.post(op);
    let deadline = Instant::now() + Duration::from_secs(20);
    let done = loop {
        server.device.progress().unwrap();
        if let Some(done) = client.poll() {
            break done;
        }
        assert!(Instant::now() < deadline, "{:?}", client.device.counters());
    };
    assert_eq!(done.status, Status::Success);
}

/// Writes a pattern to the server, reads it back, and compares it at both.
fn write_and_read_back(server: &mut Side, client: &mut Side) {
    let pattern: Vec<u8> = (0..LEN).map(|at| ((at * 31) >> 3) as u8).collect();
    let (addr, rkey) = (server.mr.addr, server.mr.rkey);
    client.memory.write(0, &pattern);
    run(server, client, SendOp::Write { addr, rkey });
    assert!(server.read() == pattern, "written");
    client.memory.fill(0, LEN, 0);
    run(server, client, SendOp::Read { addr, rkey });
    assert!(client.read() == pattern, "read back");
}

#[test]
fn data_arrive_over_both_families_without_a_retransmission() {
    for gid_row in [0, 1] {
        let (mut server, mut client) = pair(24_841, gid_row, ImpairConfig::default());
        write_and_read_back(&mut server, &mut client);
        for side in [&server, &client] {
            assert_eq!(
                side.counter("drop_bad_icrc"),
                0,
                "Identifications are foretold"
            );
            let census = side.device.link().inner().sink();
            assert_eq!((census.resent, census.withheld), (0, 0));
            assert!(census.sent > 0 && census.received > 0);
        }
    }
}

#[test]
fn packets_allocate_nothing() {
    for gid_row in [0, 1] {
        let (mut server, mut client) = pair(24_844, gid_row, ImpairConfig::default());
        // Whatever is made when it is first needed is.
        write_and_read_back(&mut server, &mut client);
        let (addr, rkey) = (server.mr.addr, server.mr.rkey);
        let allocated = allocation_counter::measure(|| {
            for _ in 0..20 {
                run(&mut server, &mut client, SendOp::Write { addr, rkey });
                run(&mut server, &mut client, SendOp::Read { addr, rkey });
            }
        });
        assert_eq!((allocated.count_total, allocated.bytes_total), (0, 0));
    }
}

#[test]
fn data_arrive_whole_through_every_fault() {
    let faults = ImpairConfig {
        seed: 7,
        drop: 0.02,
        duplicate: 0.02,
        reorder: 0.02,
        corrupt: 0.02,
        delay: Duration::ZERO,
    };
    let delayed = ImpairConfig {
        delay: Duration::from_micros(200),
        ..faults
    };
    for faults in [faults, delayed] {
        let (mut server, mut client) = pair(24_842, 0, faults);
        write_and_read_back(&mut server, &mut client);
        let census = client.device.link().inner().sink();
        assert!(census.withheld > 0 && census.resent > 0);
        let bad = client.counter("drop_bad_icrc") + server.counter("drop_bad_icrc");
        assert!(bad > 0, "corrupted packets are found");
    }
}

#[test]
fn a_peer_that_ends_is_named_before_the_retries_are_used_up() {
    for gid_row in [0, 1] {
        let (server, mut client) = pair(24_843, gid_row, ImpairConfig::default());
        let (addr, rkey) = (server.mr.addr, server.mr.rkey);
        drop(server);
        client.post(SendOp::Write { addr, rkey });
        let deadline = Instant::now() + Duration::from_secs(1);
        let reason = loop {
            assert!(client.poll().is_none(), "the cause comes first");
            if let Some(AsyncEvent::PathUnreachable { reason, .. }) = client.device.poll_event() {
                break reason;
            }
            assert!(Instant::now() < deadline);
        };
        let said = reason.contains("nobody else listens on UDP 24843");
        assert!(said, "{reason}");
    }
}
