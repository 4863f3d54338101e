//! QPs with perftest's attributes, from RESET to where the test needs them.

use anyhow::{Context as _, Result};
use roce_engine::verbs::{
    Access, AddressVector, Ah, Backend, Cq, Gid, Mtu, Pd, Psn, Qp, QpAttr, QpCaps, QpInit, QpState,
    Qpn, Service, Srq,
};

use super::buffers::Buffers;
use super::flow::{MAX_INLINE, QKEY};
use crate::exit::environment;
use crate::peer::Endpoint;
use crate::spec::{Op, Spec};

/// The most READs and atomics at a time that we announce: what mlx5 can be told as an initiator.
const MAX_OUT: u8 = 16;
/// perftest's hop limit.
const HOP_LIMIT: u8 = 255;
/// perftest's delay code of RNR NAKs: 0.64 ms.
const MIN_RNR_TIMER: u8 = 12;

/// A QP of ours before it is connected.
#[derive(Clone, Copy, Debug)]
pub struct LocalQp {
    /// Names it to the backend.
    pub qp: Qp,
    /// Its number.
    pub qpn: Qpn,
    /// The first PSN that it sends.
    pub psn: Psn,
    /// Messages of up to this many bytes are copied when they are posted.
    pub inline: u32,
}

/// What both ends use on the way between them.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// Where address handles are made.
    pub pd: Pd,
    /// Our GID.
    pub gid: Gid,
    /// Its row.
    pub gid_index: u8,
    /// The path MTU.
    pub mtu: Mtu,
    /// How many READs and atomics we answer at a time.
    pub out: u8,
    /// Our LID, 0 on Ethernet.
    pub lid: u16,
}

/// Returns how many READs and atomics we answer at a time: `-o`, or what the device can.
///
/// # Errors
///
/// `-o` is more than the device can.
pub fn answered_at_once(device_can: u8, spec: &Spec) -> Result<u8> {
    if !spec.test.is_fetch() {
        return Ok(1);
    }
    let most = device_can.min(MAX_OUT);
    match spec.outs {
        None => Ok(most),
        Some(outs) if outs <= most => Ok(outs),
        Some(outs) => Err(crate::exit::usage(format!(
            "-o {outs}: the device answers {most} READs and atomics at a time"
        ))),
    }
}

/// Makes the QPs of a run.
///
/// # Errors
///
/// The device has no more QPs, or no such depths.
pub fn create<B: Backend>(
    backend: &mut B,
    spec: &Spec,
    pd: Pd,
    (cq, srq): (Cq, Option<Srq>),
    depths: (u64, u64),
) -> Result<Vec<LocalQp>> {
    let mut rng = fastrand::Rng::new();
    let receives = spec.posts_receives() && srq.is_none();
    let most = (backend.device().max_inline as usize).min(MAX_INLINE);
    let inline = spec.qp.inline();
    if inline as usize > most {
        return Err(crate::exit::usage(format!(
            "-I {inline}: the device copies messages of up to {most} bytes inline"
        )));
    }
    let partitions = backend.port().pkeys.len();
    if usize::from(spec.qp.pkey_index) >= partitions {
        return Err(crate::exit::usage(format!(
            "--pkey_index {}: the partition table of the device has {partitions} {}, counted from 0",
            spec.qp.pkey_index,
            if partitions == 1 { "row" } else { "rows" }
        )));
    }
    let init = QpInit {
        service: spec.service,
        pd,
        send_cq: cq,
        recv_cq: cq,
        caps: QpCaps {
            max_send_wr: u32::try_from(depths.0).unwrap_or(u32::MAX),
            max_recv_wr: if receives {
                u32::try_from(depths.1).unwrap_or(u32::MAX)
            } else {
                1
            },
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline: inline,
        },
        srq,
        sq_sig_all: false,
    };
    (0..spec.qps)
        .map(|index| {
            let failed = |what: &str, error: &dyn core::fmt::Display| {
                environment(format!(
                    "{what} QP {} of {} on {}: {error}",
                    index + 1,
                    spec.qps,
                    "the device"
                ))
            };
            let mut made = backend.create_qp(&init);
            if made.is_err() && spec.qp.inline_size.is_none() && inline > 0 {
                // Nobody asked for this much: it is what perftest takes for granted of such a device.
                let mut without = init;
                without.caps.max_inline = 0;
                made = backend.create_qp(&without);
            }
            let qp = made.map_err(|error| failed("create", &error))?;
            let info = backend
                .query_qp(qp)
                .map_err(|error| failed("query", &error))?;
            Ok(LocalQp {
                qp,
                qpn: info.qpn,
                inline: inline.min(info.caps.max_inline),
                psn: Psn::new(rng.u32(..)),
            })
        })
        .collect()
}

/// Returns what the peer is told about QP `index`.
pub fn endpoint(local: &LocalQp, index: usize, path: &Path, buffers: &Buffers) -> Endpoint {
    Endpoint {
        lid: path.lid,
        out: u16::from(path.out),
        qpn: local.qpn,
        psn: local.psn,
        rkey: buffers.rkey(index),
        vaddr: buffers.vaddr(index),
        gid: path.gid,
        srqn: 0,
    }
}

/// Makes the queue that all QPs take receives from, if there is to be one.
///
/// # Errors
///
/// The device has no queue of that depth.
pub fn create_srq<B: Backend>(
    backend: &mut B,
    spec: &Spec,
    pd: Pd,
    depth: u64,
) -> Result<Option<Srq>> {
    if !spec.qp.use_srq {
        return Ok(None);
    }
    let depth = u32::try_from(depth).unwrap_or(u32::MAX);
    let srq = backend.create_srq(pd, depth, 1).map_err(|error| {
        environment(format!(
            "a shared receive queue of {depth} receives (--use-srq, -r): {error}"
        ))
    })?;
    Ok(Some(srq))
}

/// Takes a QP to RTR, and to RTS where this end sends; the passive end of a one-way test stays in RTR. Returns the
/// way to the peer for datagrams.
///
/// # Errors
///
/// The device refuses an attribute: the message names the QP, the step and the peer.
pub fn bring_up<B: Backend>(
    backend: &mut B,
    spec: &Spec,
    (index, local): (usize, &LocalQp),
    remote: &Endpoint,
    path: &Path,
) -> Result<Option<Ah>> {
    let address = AddressVector {
        dgid: remote.gid,
        dlid: remote.lid,
        sgid_index: path.gid_index,
        hop_limit: HOP_LIMIT,
        traffic_class: spec.tclass,
        flow_label: spec.qp.flow_label(index),
        service_level: spec.qp.service_level,
    };
    let [init, rtr, rts] = attributes(spec, local, remote, path, address);
    let sends = spec.is_requester() || !spec.test.is_bandwidth();
    let steps = [("INIT", init), ("RTR", rtr), ("RTS", rts)];
    for (name, attr) in steps.iter().take(if sends { 3 } else { 2 }) {
        backend.modify_qp(local.qp, attr).with_context(|| {
            format!(
                "QPN {} to {name}, for QPN {} at {} (path MTU {})",
                local.qpn,
                remote.qpn,
                remote.gid.to_ip(),
                path.mtu.bytes()
            )
        })?;
    }
    if spec.service != Service::Ud {
        return Ok(None);
    }
    let ah = backend.create_ah(path.pd, &address);
    ah.map(Some)
        .with_context(|| format!("an address handle of {}", remote.gid.to_ip()))
}

/// Returns what takes a QP to INIT, RTR and RTS: each service has its own attributes.
fn attributes(
    spec: &Spec,
    local: &LocalQp,
    remote: &Endpoint,
    path: &Path,
    address: AddressVector,
) -> [QpAttr; 3] {
    let access = match spec.test.op {
        Op::Write => Access::REMOTE_WRITE,
        Op::Read => Access::REMOTE_READ,
        Op::Atomic => Access::REMOTE_ATOMIC,
        Op::Send => Access::REMOTE_WRITE | Access::LOCAL_WRITE,
    };
    let (connected, reliable) = (spec.service != Service::Ud, spec.service == Service::Rc);
    let init = QpAttr {
        state: Some(QpState::Init),
        pkey_index: Some(spec.qp.pkey_index),
        port: Some(spec.ib_port),
        access: connected.then_some(access),
        qkey: (!connected).then_some(QKEY),
        ..QpAttr::default()
    };
    let rtr = QpAttr {
        state: Some(QpState::Rtr),
        address: connected.then_some(address),
        path_mtu: connected.then_some(path.mtu),
        dest_qpn: connected.then_some(remote.qpn),
        rq_psn: connected.then_some(remote.psn),
        max_dest_rd_atomic: reliable.then_some(path.out),
        min_rnr_timer: reliable.then_some(MIN_RNR_TIMER),
        ..QpAttr::default()
    };
    let peer_answers = u8::try_from(remote.out).unwrap_or(u8::MAX);
    let rts = QpAttr {
        state: Some(QpState::Rts),
        sq_psn: Some(local.psn),
        max_rd_atomic: reliable.then_some(peer_answers.min(MAX_OUT)),
        timeout: reliable.then_some(spec.qp_timeout),
        retry_cnt: reliable.then_some(spec.qp.retry_count),
        rnr_retry: reliable.then_some(spec.qp.retry_count),
        ..QpAttr::default()
    };
    [init, rtr, rts]
}
