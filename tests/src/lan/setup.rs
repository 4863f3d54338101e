//! What hosts and queue pairs are made with.

use core::net::IpAddr;
use core::time::Duration;

use roce_engine::EngineConfig;
use roce_engine::sim::{Faults, SimLinkConfig, World};
use roce_engine::verbs::{
    Access, AddressVector, Backend, Gid, Mtu, Psn, QKey, QpAttr, QpCaps, QpState, Qpn, Region,
    Service,
};

use crate::lan::{Host, every_right};
use crate::rc::{address, all_rights};

/// What all hosts are made with.
#[derive(Clone, Debug)]
pub struct HostSetup {
    /// IPv6 instead of IPv4.
    pub ipv6: bool,
    /// The path MTU of each port: the longest datagram.
    pub port_mtu: Mtu,
    /// The delay of each packet.
    pub latency: Duration,
    /// Bytes of each host's memory.
    pub memory: usize,
    /// Packets that each host may send in a turn.
    pub slots: usize,
    /// Whether receivers see the IPv4 header.
    pub exact_icrc: bool,
    /// Entries of each completion queue.
    pub cq_depth: u32,
    /// The sizes of each queue pair.
    pub caps: QpCaps,
    /// The engines.
    pub engine: EngineConfig,
}

impl Default for HostSetup {
    fn default() -> Self {
        Self {
            ipv6: false,
            port_mtu: Mtu::B4096,
            latency: Duration::from_micros(2),
            memory: 64 * 1024,
            slots: 256,
            exact_icrc: true,
            cq_depth: 256,
            caps: QpCaps {
                max_send_wr: 128,
                max_recv_wr: 128,
                max_send_sge: 4,
                max_recv_sge: 4,
                max_inline: 64,
            },
            engine: EngineConfig {
                max_qp: 64,
                max_cq: 128,
                max_mr: 64,
                max_pd: 8,
                max_srq: 4,
                max_ah: 32,
                ..EngineConfig::default()
            },
        }
    }
}

impl HostSetup {
    /// Returns the link of a host.
    pub fn link(&self, host: usize) -> SimLinkConfig {
        SimLinkConfig {
            mtu: self.port_mtu,
            slots: self.slots,
            exact_icrc: self.exact_icrc,
            faults: Faults::delay(self.latency),
            ..SimLinkConfig::new(address(self.ipv6, host))
        }
    }

    /// Adds a host to the world.
    pub(super) fn host(&self, world: &mut World, host: usize) -> Host {
        let number = world.add_device(&self.link(host), self.engine.clone());
        assert_eq!(number, host, "hosts come before raw ports");
        let device = world.device(host);
        let pd = device.alloc_pd().expect("a protection domain");
        let region = Region::zeroed(self.memory, 4096).expect("memory");
        region.write(0, &pattern(host, self.memory));
        let mr = device.register(pd, &region, every_right());
        let mr = mr.expect("a registration");
        Host { pd, region, mr }
    }
}

/// What a queue pair of a connected service is told.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// The peer's address.
    pub remote: IpAddr,
    /// The peer's queue pair.
    pub dest_qpn: Qpn,
    /// The path MTU.
    pub mtu: Mtu,
    /// The first PSN that it sends and the first that it expects.
    pub psns: [u32; 2],
    /// What the peer may do.
    pub access: Access,
    /// READs and atomics that it may have outstanding.
    pub max_rd_atomic: u8,
    /// READs and atomics that it answers at once.
    pub max_dest_rd_atomic: u8,
    /// The code of its acknowledgement timeout; 10 is 4.2 ms.
    pub timeout: u8,
    /// Its transport retries.
    pub retry_cnt: u8,
    /// Its RNR retries.
    pub rnr_retry: u8,
}

impl Wish {
    /// Makes a wish with all rights and path MTU 1024.
    pub fn new(remote: IpAddr, dest_qpn: Qpn, psns: [u32; 2]) -> Self {
        Self {
            remote,
            dest_qpn,
            mtu: Mtu::B1024,
            psns,
            access: all_rights(),
            max_rd_atomic: 16,
            max_dest_rd_atomic: 16,
            timeout: 10,
            retry_cnt: 7,
            rnr_retry: 7,
        }
    }

    /// Returns the attributes of RESET to INIT, to RTR, to RTS.
    pub fn attributes(&self, service: Service) -> [QpAttr; 3] {
        let reliable = service == Service::Rc;
        let to_init = QpAttr {
            state: Some(QpState::Init),
            pkey_index: Some(0),
            port: Some(1),
            access: Some(self.access),
            ..QpAttr::default()
        };
        let to_rtr = QpAttr {
            state: Some(QpState::Rtr),
            address: Some(AddressVector {
                dgid: Gid::from_ip(self.remote),
                dlid: 0,
                sgid_index: 0,
                hop_limit: 64,
                traffic_class: 0,
                flow_label: 0,
                service_level: 0,
            }),
            path_mtu: Some(self.mtu),
            dest_qpn: Some(self.dest_qpn),
            rq_psn: Some(Psn::new(self.psns[1])),
            max_dest_rd_atomic: reliable.then_some(self.max_dest_rd_atomic),
            min_rnr_timer: reliable.then_some(1),
            ..QpAttr::default()
        };
        let to_rts = QpAttr {
            state: Some(QpState::Rts),
            sq_psn: Some(Psn::new(self.psns[0])),
            timeout: reliable.then_some(self.timeout),
            retry_cnt: reliable.then_some(self.retry_cnt),
            rnr_retry: reliable.then_some(self.rnr_retry),
            max_rd_atomic: reliable.then_some(self.max_rd_atomic),
            ..QpAttr::default()
        };
        [to_init, to_rtr, to_rts]
    }
}

/// Returns the attributes that take a datagram queue pair from RESET to RTS.
pub(super) fn datagram_attributes(qkey: QKey) -> [QpAttr; 3] {
    let to_init = QpAttr {
        state: Some(QpState::Init),
        pkey_index: Some(0),
        port: Some(1),
        qkey: Some(qkey),
        ..QpAttr::default()
    };
    let to_rtr = QpAttr {
        state: Some(QpState::Rtr),
        ..QpAttr::default()
    };
    let to_rts = QpAttr {
        state: Some(QpState::Rts),
        sq_psn: Some(Psn::new(0)),
        ..QpAttr::default()
    };
    [to_init, to_rtr, to_rts]
}

/// Returns the bytes that a host's memory has at first.
pub(super) fn pattern(host: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 29 + (i >> 8) + host) as u8).collect()
}
