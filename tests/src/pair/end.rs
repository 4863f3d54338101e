//! One QP with its memory and queues, and what it is made with.

use core::net::IpAddr;
use core::time::Duration;

use roce_engine::EngineConfig;
use roce_engine::sim::{Faults, SimLinkConfig, World};
use roce_engine::verbs::{
    Backend, Completion, Cq, Mr, Mtu, PKey, Pd, Psn, Qp, QpCaps, QpInit, QpState, Qpn, RecvWr,
    Region, Service, Sge,
};

use crate::rc::{RcEnd, address, all_rights};

/// What two ends are made with.
#[derive(Clone, Debug)]
pub struct Setup {
    /// IPv6 instead of IPv4.
    pub ipv6: bool,
    /// The path MTU of each end.
    pub mtu: [Mtu; 2],
    /// The first PSN that each end sends.
    pub psn: [Psn; 2],
    /// READs and atomics that each end may have outstanding.
    pub max_rd_atomic: u8,
    /// READs and atomics that each end answers at once.
    pub max_dest_rd_atomic: u8,
    /// The code of the acknowledgement timeout; 10 is 4.2 ms.
    pub timeout: u8,
    /// Transport retries.
    pub retry_cnt: u8,
    /// RNR retries.
    pub rnr_retry: u8,
    /// The delay code of RNR NAKs.
    pub min_rnr_timer: u8,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Send and receive requests of each queue.
    pub depth: u32,
    /// Entries of each CQ.
    pub cq_depth: u32,
    /// Packets that each end may send in a turn.
    pub slots: usize,
    /// Whether receivers see the IPv4 Identification.
    pub exact_icrc: bool,
    /// The partition table of each end.
    pub pkeys: [Vec<PKey>; 2],
    /// The delay of each packet.
    pub latency: Duration,
    /// Bytes of each end's memory.
    pub memory: usize,
    /// The engines.
    pub engine: EngineConfig,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            ipv6: false,
            mtu: [Mtu::B1024; 2],
            psn: [Psn::new(100), Psn::new(200)],
            max_rd_atomic: 16,
            max_dest_rd_atomic: 16,
            timeout: 10,
            retry_cnt: 7,
            rnr_retry: 7,
            min_rnr_timer: 1,
            traffic_class: 0,
            depth: 128,
            cq_depth: 256,
            slots: 256,
            exact_icrc: true,
            pkeys: [vec![PKey::DEFAULT], vec![PKey::DEFAULT]],
            latency: Duration::from_micros(2),
            memory: 256 * 1024,
            engine: EngineConfig {
                max_qp: 64,
                max_cq: 128,
                max_mr: 64,
                max_pd: 8,
                ..EngineConfig::default()
            },
        }
    }
}

impl Setup {
    /// Returns what an end is told about its peer.
    pub fn attributes(&self, side: usize, remote: IpAddr, dest_qpn: Qpn) -> RcEnd {
        RcEnd {
            mtu: self.mtu[side],
            rq_psn: self.psn[1 - side],
            sq_psn: self.psn[side],
            max_dest_rd_atomic: self.max_dest_rd_atomic,
            max_rd_atomic: self.max_rd_atomic,
            min_rnr_timer: self.min_rnr_timer,
            timeout: self.timeout,
            retry_cnt: self.retry_cnt,
            rnr_retry: self.rnr_retry,
            traffic_class: self.traffic_class,
            ..RcEnd::new(remote, dest_qpn)
        }
    }

    /// Returns the link of an end.
    pub fn link(&self, side: usize) -> SimLinkConfig {
        SimLinkConfig {
            slots: self.slots,
            exact_icrc: self.exact_icrc,
            pkeys: self.pkeys[side].clone(),
            faults: Faults::delay(self.latency),
            ..SimLinkConfig::new(address(self.ipv6, side))
        }
    }
}

/// One end: a QP, a CQ for each direction, and one region whose byte `i` is `31 * i + side`.
#[derive(Debug)]
pub struct End {
    /// Its protection domain.
    pub pd: Pd,
    /// Its QP.
    pub qp: Qp,
    /// Its QP's number.
    pub qpn: Qpn,
    /// Send completions.
    pub send_cq: Cq,
    /// Receive completions.
    pub recv_cq: Cq,
    /// Its memory.
    pub region: Region,
    /// Its memory's registration, with all rights.
    pub mr: Mr,
    side: usize,
}

impl End {
    /// Adds a device to the world, and everything on it up to a QP in RESET.
    pub fn new(world: &mut World, setup: &Setup, side: usize) -> Self {
        let number = world.add_device(&setup.link(side), setup.engine.clone());
        let device = world.device(number);
        let pd = device.alloc_pd().expect("a protection domain");
        let region = Region::zeroed(setup.memory, 4096).expect("memory");
        region.write(0, &pattern(side, 0, setup.memory));
        let mr = device
            .register(pd, &region, all_rights())
            .expect("a registration");
        let send_cq = device
            .create_cq(setup.cq_depth)
            .expect("a completion queue");
        let recv_cq = device
            .create_cq(setup.cq_depth)
            .expect("a completion queue");
        let init = QpInit {
            service: Service::Rc,
            pd,
            send_cq,
            recv_cq,
            caps: QpCaps {
                max_send_wr: setup.depth,
                max_recv_wr: setup.depth,
                max_send_sge: 4,
                max_recv_sge: 4,
                max_inline: 64,
            },
            srq: None,
            sq_sig_all: false,
        };
        let qp = device.create_qp(&init).expect("a queue pair");
        let qpn = device.query_qp(qp).expect("the queue pair").qpn;
        Self {
            pd,
            qp,
            qpn,
            send_cq,
            recv_cq,
            region,
            mr,
            side,
        }
    }

    /// Returns a piece of the memory.
    pub fn sge(&self, offset: usize, length: u32) -> Sge {
        Sge {
            addr: self.mr.addr + offset as u64,
            length,
            lkey: self.mr.lkey,
        }
    }

    /// Returns bytes of the memory as they are.
    pub fn bytes(&self, offset: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.region.read(offset, &mut bytes);
        bytes
    }

    /// Returns what this memory had at first.
    pub fn original(&self, offset: usize, len: usize) -> Vec<u8> {
        pattern(self.side, offset, len)
    }

    /// Returns a word of the memory.
    pub fn word(&self, offset: usize) -> u64 {
        self.bytes(offset, 8)
            .try_into()
            .map_or(0, u64::from_ne_bytes)
    }

    /// Asserts that everything but `changed` (offset and length) is as it was at first.
    pub fn expect_untouched_outside(&self, changed: (usize, usize)) {
        let (offset, len) = changed;
        assert_eq!(
            self.bytes(0, offset),
            self.original(0, offset),
            "before {offset}"
        );
        let end = offset + len;
        let rest = self.region.len() - end;
        assert!(
            self.bytes(end, rest) == self.original(end, rest),
            "after {end}"
        );
    }

    /// Posts a receive of `len` bytes at `offset`.
    pub fn recv(&self, world: &mut World, device: usize, wr_id: u64, at: (usize, u32)) {
        let sges = [self.sge(at.0, at.1)];
        let request = RecvWr { wr_id, sges: &sges };
        let posted = world.device(device).post_recv(self.qp, &[request]);
        posted.expect("room for a receive");
    }

    /// Takes the send completions.
    pub fn poll_sent(&self, world: &mut World, device: usize) -> Vec<Completion> {
        poll(world, device, self.send_cq)
    }

    /// Takes the receive completions.
    pub fn poll_received(&self, world: &mut World, device: usize) -> Vec<Completion> {
        poll(world, device, self.recv_cq)
    }

    /// Returns the state of the QP.
    pub fn state(&self, world: &mut World, device: usize) -> QpState {
        world
            .device(device)
            .query_qp(self.qp)
            .expect("the queue pair")
            .state
    }
}

fn poll(world: &mut World, device: usize, cq: Cq) -> Vec<Completion> {
    let mut all = Vec::new();
    let mut out = [Completion::default(); 32];
    loop {
        let count = world
            .device(device)
            .poll_cq(cq, &mut out)
            .expect("a healthy CQ");
        all.extend_from_slice(&out[..count]);
        if count == 0 {
            return all;
        }
    }
}

fn pattern(side: usize, offset: usize, len: usize) -> Vec<u8> {
    (offset..offset + len)
        .map(|i| (i * 31 + (i >> 8) + side) as u8)
        .collect()
}
