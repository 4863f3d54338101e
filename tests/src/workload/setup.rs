//! A plan made real: devices, memory, queues and connections.

use roce_engine::EngineConfig;
use roce_engine::sim::{Rng, SimLinkConfig, World};
use roce_engine::verbs::{
    Access, Backend, Cq, Mr, Mtu, Pd, Qp, QpCaps, QpInit, RKey, Region, Service,
};

use crate::oracle::Memory;
use crate::rc::{RcEnd, address, all_rights};
use crate::workload::watched::Watched;
use crate::workload::{End, Piece, Plan};

/// A region and its registration.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) region: Region,
    pub(super) mr: Mr,
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) qp: Qp,
    /// Sources and sinks of its own program.
    pub(super) local: Block,
    /// Where the peer's program works.
    pub(super) target: Block,
    /// Where the peer's messages land.
    pub(super) received: Block,
    pub(super) receives: Vec<Vec<Piece>>,
    /// Keys for the peer to invalidate.
    pub(super) spare: Vec<RKey>,
}

/// One device and its ends.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) shared: Block,
    pub(super) cqs: Vec<Watched>,
    pub(super) endpoints: Vec<Endpoint>,
}

/// Makes the world of a plan, with all connections ready to send.
pub(super) fn build(plan: &Plan, rng: &mut Rng) -> (World, [Side; 2]) {
    let mut world = World::new(rng.bits());
    for side in 0..2 {
        let link = SimLinkConfig {
            exact_icrc: plan.exact_icrc,
            slots: plan.slots[side],
            faults: plan.faults[side],
            mtu: Mtu::B4096,
            ..SimLinkConfig::new(address(plan.ipv6, side))
        };
        world.add_device(&link, config(plan, rng));
    }
    let sides = [0, 1].map(|side| build_side(&mut world, plan, side, rng));
    connect(&mut world, plan, &sides);
    (world, sides)
}

/// Returns the memory of the direction whose requester is on `side`.
pub(super) fn memory(sides: &[Side; 2], side: usize, connection: usize) -> Memory {
    let requester = &sides[side].endpoints[connection];
    let responder = &sides[1 - side].endpoints[connection];
    Memory {
        local: requester.local.region.clone(),
        target: responder.target.region.clone(),
        received: responder.received.region.clone(),
    }
}

fn config(plan: &Plan, rng: &mut Rng) -> EngineConfig {
    EngineConfig {
        seed: rng.bits(),
        max_qp: 24,
        max_cq: 32,
        max_mr: 128,
        max_pd: 4,
        max_srq: 4,
        max_ah: 8,
        window_start: plan.window_start,
        peer_window_max: plan.peer_window,
        quantum: plan.quantum,
        defer_acks: plan.defer_acks,
        ..EngineConfig::default()
    }
}

fn build_side(world: &mut World, plan: &Plan, side: usize, rng: &mut Rng) -> Side {
    let device = world.device(side);
    let pd = device.alloc_pd().expect("a protection domain");
    let shared = block(device, pd, plan.shared_words * 8, all_rights(), rng);
    let mut cqs: Vec<Watched> = Vec::new();
    if plan.one_cq {
        let depth = plan.connections.iter().map(|c| depths(&c.ends[side])).sum();
        cqs.push(Watched::new(device, depth, rng));
    }
    let mut endpoints = Vec::new();
    for connection in &plan.connections {
        let (end, peer) = (&connection.ends[side], &connection.ends[1 - side]);
        let (send_cq, recv_cq) = match cqs.first() {
            Some(cq) if plan.one_cq => (cq.cq(), cq.cq()),
            _ => {
                let both = [end.sq_depth, end.rq_depth];
                let [send, recv] = both.map(|depth| Watched::new(device, depth, rng));
                let names = (send.cq(), recv.cq());
                cqs.extend([send, recv]);
                names
            }
        };
        let (receives, receive_bytes) = place(&end.receives);
        let init = init(pd, end, send_cq, recv_cq);
        let target = block(device, pd, peer.program.layout.target(), all_rights(), rng);
        for (word, value) in peer.program.words.iter().enumerate() {
            target.region.write(word * 8, &value.to_ne_bytes());
        }
        let spares = 0..peer.program.invalidations;
        endpoints.push(Endpoint {
            qp: device.create_qp(&init).expect("a queue pair"),
            local: block(
                device,
                pd,
                end.program.layout.local,
                Access::LOCAL_WRITE,
                rng,
            ),
            target,
            received: block(device, pd, receive_bytes, Access::LOCAL_WRITE, rng),
            receives,
            spare: spares
                .map(|_| block(device, pd, 16, all_rights(), rng).mr.rkey)
                .collect(),
        });
    }
    Side {
        shared,
        cqs,
        endpoints,
    }
}

fn init(pd: Pd, end: &End, send_cq: Cq, recv_cq: Cq) -> QpInit {
    QpInit {
        service: Service::Rc,
        pd,
        send_cq,
        recv_cq,
        caps: QpCaps {
            max_send_wr: end.sq_depth as u32,
            max_recv_wr: end.rq_depth as u32,
            max_send_sge: 4,
            max_recv_sge: 4,
            max_inline: end.max_inline as u32,
        },
        srq: None,
        sq_sig_all: false,
    }
}

fn connect(world: &mut World, plan: &Plan, sides: &[Side; 2]) {
    for (number, connection) in plan.connections.iter().enumerate() {
        for side in 0..2 {
            let peer = sides[1 - side].endpoints[number].qp;
            let peer = world
                .device(1 - side)
                .query_qp(peer)
                .expect("the peer's queue pair");
            let (end, other) = (&connection.ends[side], &connection.ends[1 - side]);
            let attributes = RcEnd {
                mtu: plan.mtu,
                rq_psn: other.first_psn,
                sq_psn: end.first_psn,
                max_dest_rd_atomic: end.max_dest_rd_atomic,
                max_rd_atomic: end.max_rd_atomic,
                min_rnr_timer: end.min_rnr_timer,
                timeout: connection.timeout,
                retry_cnt: connection.retry_cnt,
                rnr_retry: connection.rnr_retry,
                traffic_class: ECT,
                ..RcEnd::new(address(plan.ipv6, 1 - side), peer.qpn)
            };
            let qp = sides[side].endpoints[number].qp;
            attributes
                .connect(world.device(side), qp)
                .expect("legal attributes");
        }
    }
}

pub(super) fn block<B: Backend>(
    device: &mut B,
    pd: Pd,
    len: usize,
    access: Access,
    rng: &mut Rng,
) -> Block {
    let region = Region::zeroed(len, 64).expect("memory");
    let mut bytes = vec![0; len];
    rng.fill(&mut bytes);
    region.write(0, &bytes);
    let mr = device
        .register(pd, &region, access)
        .expect("a registration");
    Block { region, mr }
}

/// Lays receives out one after the other; returns them and the bytes they take.
fn place(receives: &[Vec<(usize, usize)>]) -> (Vec<Vec<Piece>>, usize) {
    let mut end = 0;
    let mut piece = |&(gap, len): &(usize, usize)| {
        let offset = end + gap;
        end = offset + len;
        Piece { offset, len }
    };
    let placed = receives
        .iter()
        .map(|pieces| pieces.iter().map(&mut piece).collect())
        .collect();
    (placed, end + 8)
}

const fn depths(end: &End) -> usize {
    end.sq_depth + end.rq_depth
}

/// ECN-capable, so that marks are seen.
const ECT: u8 = 0b10;
