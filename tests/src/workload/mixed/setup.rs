//! The objects of a mixed plan.

use roce_engine::sim::{Rng, World};
use roce_engine::verbs::{
    Access, AddressVector, Ah, Backend, Cq, Gid, Pd, Qp, QpAttr, QpCaps, QpInit, QpState, Qpn,
    Service, Srq,
};

use crate::lan::Wish;
use crate::oracle::region_bytes;
use crate::rc::address;
use crate::workload::Plan;
use crate::workload::mixed::plan::{INLINE, LinkPlan, MixedPlan, PoolPlan, SOURCE};
use crate::workload::mixed::pool::{Pool, Queue};
use crate::workload::setup::{Block, block};
use crate::workload::watched::Watched;

/// One queue pair.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) side: usize,
    pub(super) link: usize,
    pub(super) service: Service,
    pub(super) qp: Qp,
    pub(super) qpn: Qpn,
    pub(super) init: QpInit,
    pub(super) pool: usize,
    /// What its peer writes, and what that was at first.
    pub(super) target: Block,
    pub(super) before: Vec<u8>,
    /// The way of its datagrams.
    pub(super) vector: AddressVector,
    pub(super) ah: Option<Ah>,
    /// The newest receive that it completed.
    pub(super) newest: Option<u64>,
    /// It was told to fail, or has failed.
    pub(super) closed: bool,
    /// It is destroyed; its memory at that time.
    pub(super) gone: Option<Vec<u8>>,
}

/// What a side has for its queue pairs.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) pd: Pd,
    pub(super) source: Block,
    pub(super) cqs: Vec<Watched>,
    pub(super) pools: Vec<Pool>,
    pub(super) ports: Vec<Port>,
}

/// Makes one side of a plan; its queue pairs are in RESET.
pub(super) fn build_side(world: &mut World, plan: &Plan, side: usize, rng: &mut Rng) -> Side {
    let mixed = &plan.mixed;
    let device = world.device(side);
    let pd = device.alloc_pd().expect("a protection domain");
    let source = block(device, pd, SOURCE, Access::NONE, rng);
    let srqs: Vec<_> = mixed.pools[side]
        .iter()
        .map(|pool| {
            let make = || device.create_srq(pd, pool.depth as u32, 2);
            pool.shared.then(make).map(|srq| srq.expect("an SRQ"))
        })
        .collect();
    let mut cqs = Vec::new();
    let mut ports: Vec<Port> = Vec::new();
    for (number, link) in mixed.links.iter().enumerate() {
        let pool = &mixed.pools[side][link.pools[side]];
        let one = mixed.one_cq && !cqs.is_empty();
        if !one {
            let need = if mixed.one_cq {
                need(mixed, side)
            } else {
                depth(link) + pool.depth
            };
            cqs.push(Watched::new(device, need, rng));
        }
        let cq = cqs.last().map(Watched::cq).expect("one was made");
        let init = init(link, pool, (pd, cq), srqs[link.pools[side]]);
        let qp = device.create_qp(&init).expect("a queue pair");
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let target = block(device, pd, link.targets[side], access, rng);
        ports.push(Port {
            side,
            link: number,
            service: link.service,
            qp,
            qpn: device.query_qp(qp).expect("the queue pair").qpn,
            init,
            pool: link.pools[side],
            before: region_bytes(&target.region, 0..target.region.len()),
            target,
            vector: vector(plan, side, rng),
            ah: None,
            newest: None,
            closed: false,
            gone: None,
        });
    }
    let pools = mixed.pools[side].iter().enumerate().map(|(number, pool)| {
        let memory = block(device, pd, Pool::bytes(pool), Access::LOCAL_WRITE, rng);
        let queue = match srqs[number] {
            Some(srq) => Queue::Shared(srq),
            None => Queue::Own(own_queue(&ports, number)),
        };
        Pool::new(side, number, pool, memory, queue)
    });
    let pools = pools.collect();
    Side {
        pd,
        source,
        cqs,
        pools,
        ports,
    }
}

fn init(link: &LinkPlan, pool: &PoolPlan, (pd, cq): (Pd, Cq), srq: Option<Srq>) -> QpInit {
    QpInit {
        service: link.service,
        pd,
        send_cq: cq,
        recv_cq: cq,
        caps: QpCaps {
            max_send_wr: depth(link) as u32,
            max_recv_wr: pool.depth as u32,
            max_send_sge: 2,
            max_recv_sge: 2,
            max_inline: INLINE as u32,
        },
        srq,
        sq_sig_all: false,
    }
}

fn own_queue(ports: &[Port], pool: usize) -> Qp {
    let user = ports.iter().find(|port| port.pool == pool);
    user.expect("a pool that is not shared has a queue pair").qp
}

/// Takes a queue pair to RTS; a connected one learns its peer.
pub(super) fn open(world: &mut World, plan: &Plan, port: &Port, qp: Qp, peer: Qpn) {
    let link = &plan.mixed.links[port.link];
    let attributes = if port.service == Service::Ud {
        datagram(link, port.side)
    } else {
        let remote = address(plan.ipv6, 1 - port.side);
        let psns = [port.side, 1 - port.side].map(|side| link.first_psn[side].value());
        let wish = Wish {
            mtu: plan.mtu,
            timeout: plan.mixed.timeout,
            ..Wish::new(remote, peer, psns)
        };
        wish.attributes(port.service)
    };
    for attr in attributes {
        let modified = world.device(port.side).modify_qp(qp, &attr);
        modified.expect("legal attributes");
    }
}

/// Returns the requests that a queue pair of a link has outstanding at most.
const fn depth(link: &LinkPlan) -> usize {
    // A bind and an invalidation, and the requests that use the window.
    if link.windows.is_some() {
        8
    } else {
        link.sq_depth
    }
}

fn need(mixed: &MixedPlan, side: usize) -> usize {
    let sends: usize = mixed.links.iter().map(depth).sum();
    let receives: usize = mixed.pools[side].iter().map(|pool| pool.depth).sum();
    sends + receives
}

fn vector(plan: &Plan, side: usize, rng: &mut Rng) -> AddressVector {
    AddressVector {
        dgid: Gid::from_ip(address(plan.ipv6, 1 - side)),
        dlid: 0,
        sgid_index: 0,
        hop_limit: rng.range(1..=255) as u8,
        traffic_class: rng.bits() as u8,
        flow_label: rng.pick(&[0, 0xabcde]),
        service_level: 0,
    }
}

fn datagram(link: &LinkPlan, side: usize) -> [QpAttr; 3] {
    let to_init = QpAttr {
        state: Some(QpState::Init),
        pkey_index: Some(0),
        port: Some(1),
        qkey: Some(link.qkeys[side]),
        ..QpAttr::default()
    };
    let to_rtr = QpAttr {
        state: Some(QpState::Rtr),
        ..QpAttr::default()
    };
    let to_rts = QpAttr {
        state: Some(QpState::Rts),
        sq_psn: Some(link.first_psn[side]),
        ..QpAttr::default()
    };
    [to_init, to_rtr, to_rts]
}
