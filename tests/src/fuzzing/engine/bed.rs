//! An engine with two queue pairs, a shared queue, a window and memory of every kind.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use roce_engine::verbs::{
    Access, AddressVector, Ah, Cq, Gid, GidEntry, GidKind, LinkLayer, Mtu, Mw, PKey, Pd, PortAttr,
    Psn, QKey, Qp, QpAttr, QpCaps, QpInit, QpState, Qpn, RKey, Service, Srq,
};
use roce_engine::{Engine, EngineConfig, Instant};

use super::ledger::{Ledger, Name};
use super::link::WatchedLink;
use super::work::Work;
use crate::fuzzing::input::Input;

/// Payload bytes of a full packet of a connection: small, so that messages have several packets.
pub(super) const MTU: Mtu = Mtu::B256;
/// Payload bytes of the longest datagram.
const PORT_MTU: Mtu = Mtu::B512;
/// The key of datagram QPs.
pub(super) const QKEY: QKey = QKey(0x1111_1111);
/// The UDP source port that the peer uses.
pub(super) const PEER_PORT: u16 = 0xd00d;

/// A queue pair under test and what its peer knows of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    pub(super) qp: Qp,
    pub(super) service: Service,
    pub(super) has_srq: bool,
    pub(super) dest_qpn: Qpn,
}

/// The memory window: its last key, and the key of its next binding.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowKeys {
    pub(super) mw: Mw,
    pub(super) last: RKey,
    pub(super) alive: bool,
}

/// Everything that one input works on.
#[derive(Debug)]
pub(super) struct Bed {
    pub(super) engine: Engine,
    pub(super) link: WatchedLink,
    pub(super) now: Instant,
    pub(super) ledger: Ledger,
    pub(super) work: Work,
    pub(super) sides: [Side; 2],
    pub(super) cqs: [Cq; 2],
    pub(super) srq: Srq,
    pub(super) ah: Ah,
    pub(super) pds: [Pd; 2],
    pub(super) window: WindowKeys,
    /// Ours and the peer's.
    pub(super) addresses: [IpAddr; 2],
    /// The link sees IPv4 headers.
    pub(super) exact_id: bool,
    settings: Settings,
    /// Packets given to the engine, and those that no reader could read.
    pub(super) received: u64,
    pub(super) malformed: u64,
    /// The last packets that were given to it.
    pub(super) history: Vec<Vec<u8>>,
}

/// What the first bytes of an input choose for all of it.
#[derive(Clone, Copy, Debug)]
struct Settings {
    access: Access,
    first_psn: Psn,
    timeout: u8,
    retry_cnt: u8,
    rnr_retry: u8,
    read_depth: u8,
    min_rnr_timer: u8,
    sq_sig_all: bool,
}

impl Settings {
    fn choose(input: &mut Input<'_>) -> Self {
        let bits = input.u8();
        let mut access = Access::NONE;
        // A cleared bit grants: most inputs should get past the first check.
        for (bit, right) in [
            (1, Access::REMOTE_WRITE),
            (2, Access::REMOTE_READ),
            (4, Access::REMOTE_ATOMIC),
        ] {
            if bits & bit == 0 || bits & 0x40 == 0 {
                access = access | right;
            }
        }
        let counts = input.u8();
        let psns = [0xff_fffd, 0, 0x7f_fffe, 0x12_3456];
        Self {
            access,
            first_psn: Psn::new(psns[input.below(psns.len())]),
            timeout: input.u8() % 20,
            retry_cnt: counts & 7,
            rnr_retry: counts >> 3 & 7,
            read_depth: 4 - (counts >> 6),
            min_rnr_timer: input.u8() & 31,
            sq_sig_all: bits & 0x80 != 0,
        }
    }
}

impl Bed {
    pub(super) fn new(input: &mut Input<'_>) -> Self {
        let bits = input.u8();
        let services = [
            [Service::Rc, Service::Rc],
            [Service::Rc, Service::Uc],
            [Service::Uc, Service::Ud],
            [Service::Rc, Service::Ud],
        ][usize::from(bits & 3)];
        let addresses = match bits & 4 == 0 {
            true => [1, 2].map(|host| IpAddr::V4(Ipv4Addr::new(10, 0, 0, host))),
            false => [1, 2].map(|host| IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, host))),
        };
        let port = port(addresses[0]);
        let config = config(bits & 8 == 0);
        let mut engine = Engine::new(config, port.clone(), 0);
        let pds = [(); 2].map(|()| engine.alloc_pd().expect("a domain"));
        let mut ledger = Ledger::new(&mut engine, pds[0], pds[1]);
        let settings = Settings::choose(input);
        let depth = if bits & 0x10 == 0 { 96 } else { 3 };
        let cqs = [(); 2].map(|()| engine.create_cq(depth).expect("a queue"));
        let srq = engine.create_srq(pds[0], 6, 2).expect("a queue");
        let srq_users = [bits & 0x20 != 0, bits & 0x40 != 0];
        let peers = [Qpn::new(0x100), Qpn::new(0x101)];
        let sides = [0, 1].map(|n| {
            let side = Side {
                qp: Qp(0),
                service: services[n],
                has_srq: srq_users[n],
                dest_qpn: peers[n],
            };
            let init = init_of(&side, pds[0], cqs, srq, settings.sq_sig_all);
            let qp = engine.create_qp(&init).expect("a queue pair");
            Side { qp, ..side }
        });
        let ah = engine
            .create_ah(pds[0], &address(addresses[1]), |_, wanted| wanted)
            .expect("an address");
        let mw = engine.alloc_mw(pds[0]).expect("a window");
        open(&mut ledger, &settings, services);
        let mut bed = Self {
            engine,
            link: WatchedLink::new(port, addresses, peers.to_vec(), PORT_MTU),
            now: Instant::from_nanos(1_000_000),
            ledger,
            work: Work::default(),
            sides,
            cqs,
            srq,
            ah,
            pds,
            window: WindowKeys {
                mw,
                last: mw.rkey,
                alive: true,
            },
            addresses,
            exact_id: bits & 0x80 != 0,
            settings,
            received: 0,
            malformed: 0,
            history: Vec::new(),
        };
        bed.connect(0);
        bed.connect(1);
        bed
    }

    /// Takes a QP from RESET to RTS.
    pub(super) fn connect(&mut self, n: usize) {
        let side = self.sides[n];
        let connected = side.service != Service::Ud;
        let reliable = side.service == Service::Rc;
        let settings = self.settings;
        let init = QpAttr {
            state: Some(QpState::Init),
            pkey_index: Some(0),
            port: Some(1),
            access: connected.then_some(settings.access),
            qkey: (!connected).then_some(QKEY),
            ..QpAttr::default()
        };
        let rtr = QpAttr {
            state: Some(QpState::Rtr),
            address: connected.then(|| address(self.addresses[1])),
            path_mtu: connected.then_some(MTU),
            dest_qpn: connected.then_some(side.dest_qpn),
            rq_psn: connected.then_some(settings.first_psn),
            max_dest_rd_atomic: reliable.then_some(settings.read_depth),
            min_rnr_timer: reliable.then_some(settings.min_rnr_timer),
            ..QpAttr::default()
        };
        let rts = QpAttr {
            state: Some(QpState::Rts),
            sq_psn: Some(settings.first_psn),
            timeout: reliable.then_some(settings.timeout),
            retry_cnt: reliable.then_some(settings.retry_cnt),
            rnr_retry: reliable.then_some(settings.rnr_retry),
            max_rd_atomic: reliable.then_some(settings.read_depth),
            ..QpAttr::default()
        };
        for attr in [init, rtr, rts] {
            let changed = self.engine.modify_qp(side.qp, &attr, |_, wanted| wanted);
            assert_eq!(changed, Ok(()), "to {:?}", attr.state);
        }
    }

    /// Makes a new QP in place of one that was destroyed.
    pub(super) fn recreate(&mut self, n: usize) {
        let side = &mut self.sides[n];
        let init = init_of(
            side,
            self.pds[0],
            self.cqs,
            self.srq,
            self.settings.sq_sig_all,
        );
        side.qp = self.engine.create_qp(&init).expect("room for a new one");
        self.connect(n);
    }

    /// Returns whether each successful send of a QP has a completion, whatever its flags say.
    pub(super) const fn all_signaled(&self) -> bool {
        self.settings.sq_sig_all
    }
}

/// Grants what the QPs grant.
fn open(ledger: &mut Ledger, settings: &Settings, services: [Service; 2]) {
    let writes = settings.access.contains(Access::REMOTE_WRITE) && services != [Service::Ud; 2];
    let atomics =
        settings.access.contains(Access::REMOTE_ATOMIC) && services.contains(&Service::Rc);
    if writes || atomics {
        ledger.open(Name::Open);
    }
    if atomics {
        ledger.open(Name::Atomic);
    }
}

fn config(defer_acks: bool) -> EngineConfig {
    EngineConfig {
        seed: 7,
        max_qp: 3,
        max_qp_wr: 16,
        max_sge: 2,
        max_cq: 2,
        max_cqe: 128,
        max_mr: 12,
        max_pd: 2,
        max_rd_atomic: 4,
        max_srq: 1,
        max_ah: 1,
        max_inline: 32,
        window_start: 3,
        window_max: 8,
        window_max_bytes: 4096,
        peer_window_max: 6,
        quantum: 3,
        max_events: 8,
        defer_acks,
    }
}

fn port(ip: IpAddr) -> PortAttr {
    PortAttr {
        active: true,
        link_layer: LinkLayer::Ethernet,
        active_mtu: PORT_MTU,
        lid: 0,
        pkeys: vec![PKey::DEFAULT],
        gids: vec![GidEntry {
            index: 0,
            gid: Gid::from_ip(ip),
            kind: GidKind::RoceV2,
            netdev: "fuzz".into(),
        }],
    }
}

fn address(peer: IpAddr) -> AddressVector {
    AddressVector {
        dgid: Gid::from_ip(peer),
        dlid: 0,
        sgid_index: 0,
        hop_limit: 64,
        traffic_class: 0,
        flow_label: 0,
        service_level: 0,
    }
}

fn init_of(side: &Side, pd: Pd, cqs: [Cq; 2], srq: Srq, sq_sig_all: bool) -> QpInit {
    QpInit {
        service: side.service,
        pd,
        send_cq: cqs[0],
        recv_cq: cqs[1],
        caps: QpCaps {
            max_send_wr: 6,
            max_recv_wr: 6,
            max_send_sge: 2,
            max_recv_sge: 2,
            max_inline: 32,
        },
        srq: side.has_srq.then_some(srq),
        sq_sig_all,
    }
}
