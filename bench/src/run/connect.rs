//! QPs with perftest's attributes, from RESET to where the test needs them.

use anyhow::{Context as _, Result};
use roce_engine::verbs::{
    Access, AddressVector, Backend, Cq, Gid, Mtu, Pd, Psn, Qp, QpAttr, QpCaps, QpInit, QpState,
    Qpn, Service,
};

use super::buffers::Buffers;
use crate::exit::environment;
use crate::peer::Endpoint;
use crate::spec::{Op, Spec};

/// The most READs and atomics at a time that we announce: what mlx5 can be told as an initiator.
const MAX_OUT: u8 = 16;
/// perftest's hop limit.
const HOP_LIMIT: u8 = 255;
/// perftest's delay code of RNR NAKs: 0.64 ms.
const MIN_RNR_TIMER: u8 = 12;
/// perftest's retries. For receivers that are not ready, 7 is for ever.
const RETRIES: u8 = 7;

/// A QP of ours before it is connected.
#[derive(Clone, Copy, Debug)]
pub struct LocalQp {
    /// Names it to the backend.
    pub qp: Qp,
    /// Its number.
    pub qpn: Qpn,
    /// The first PSN that it sends.
    pub psn: Psn,
}

/// What both ends use on the way between them.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// Our GID.
    pub gid: Gid,
    /// Its row.
    pub gid_index: u8,
    /// The path MTU.
    pub mtu: Mtu,
    /// How many READs and atomics we answer at a time.
    pub out: u8,
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
    cq: Cq,
    depths: (u64, u64),
) -> Result<Vec<LocalQp>> {
    let mut rng = fastrand::Rng::new();
    let receives = spec.test.op == Op::Send;
    let init = QpInit {
        service: Service::Rc,
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
            max_inline: 0,
        },
        srq: None,
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
            let qp = backend
                .create_qp(&init)
                .map_err(|error| failed("create", &error))?;
            let info = backend
                .query_qp(qp)
                .map_err(|error| failed("query", &error))?;
            Ok(LocalQp {
                qp,
                qpn: info.qpn,
                psn: Psn::new(rng.u32(..)),
            })
        })
        .collect()
}

/// Returns what the peer is told about QP `index`.
pub fn endpoint(local: &LocalQp, index: usize, path: &Path, buffers: &Buffers) -> Endpoint {
    Endpoint {
        lid: 0,
        out: u16::from(path.out),
        qpn: local.qpn,
        psn: local.psn,
        rkey: buffers.rkey(),
        vaddr: buffers.vaddr(index),
        gid: path.gid,
        srqn: 0,
    }
}

/// Takes a QP to RTR, and to RTS where this end sends; the passive end of a one-way test stays in RTR.
///
/// # Errors
///
/// The device refuses an attribute: the message names the QP, the step and the peer.
pub fn bring_up<B: Backend>(
    backend: &mut B,
    spec: &Spec,
    local: &LocalQp,
    remote: &Endpoint,
    path: &Path,
) -> Result<()> {
    let access = match spec.test.op {
        Op::Write => Access::REMOTE_WRITE,
        Op::Read => Access::REMOTE_READ,
        Op::Atomic => Access::REMOTE_ATOMIC,
        Op::Send => Access::REMOTE_WRITE | Access::LOCAL_WRITE,
    };
    let mut step = |name: &str, attr: &QpAttr| {
        backend.modify_qp(local.qp, attr).with_context(|| {
            format!(
                "QPN {} to {name}, for QPN {} at {} (path MTU {})",
                local.qpn,
                remote.qpn,
                remote.gid.to_ip(),
                path.mtu.bytes()
            )
        })
    };
    step(
        "INIT",
        &QpAttr {
            state: Some(QpState::Init),
            pkey_index: Some(0),
            port: Some(spec.ib_port),
            access: Some(access),
            ..QpAttr::default()
        },
    )?;
    step(
        "RTR",
        &QpAttr {
            state: Some(QpState::Rtr),
            address: Some(AddressVector {
                dgid: remote.gid,
                sgid_index: path.gid_index,
                hop_limit: HOP_LIMIT,
                traffic_class: spec.tclass,
                flow_label: 0,
                service_level: 0,
            }),
            path_mtu: Some(path.mtu),
            dest_qpn: Some(remote.qpn),
            rq_psn: Some(remote.psn),
            max_dest_rd_atomic: Some(path.out),
            min_rnr_timer: Some(MIN_RNR_TIMER),
            ..QpAttr::default()
        },
    )?;
    if !(spec.is_client() || spec.bidirectional || !spec.test.is_bandwidth()) {
        return Ok(());
    }
    let peer_answers = u8::try_from(remote.out).unwrap_or(u8::MAX);
    step(
        "RTS",
        &QpAttr {
            state: Some(QpState::Rts),
            sq_psn: Some(local.psn),
            max_rd_atomic: Some(peer_answers.min(MAX_OUT)),
            timeout: Some(spec.qp_timeout),
            retry_cnt: Some(RETRIES),
            rnr_retry: Some(RETRIES),
            ..QpAttr::default()
        },
    )
}
