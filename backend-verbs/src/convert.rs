//! The vocabulary as libibverbs has it, and back.

use core::ffi::{c_int, c_uint};

use roce_engine::verbs::{
    Access, AddressVector, Completion, Gid, Mtu, Psn, QpAttr, QpState, Qpn, RKey, SendFlags,
    SendOp, SendWr, Service, Status, WcOpcode,
};

use crate::sys::ex::{ACCESS_RELAXED_ORDERING, op};
use crate::sys::{
    QPT_RC, QPT_UC, QPT_UD, ibv_ah_attr, ibv_global_route, ibv_qp_attr, ibv_wc, mask, send, wc, wr,
};

/// Returns `enum ibv_access_flags` of a region: rights, and relaxed ordering, which only regions have.
pub(crate) fn region_access(access_of: Access) -> c_uint {
    match access_of.contains(Access::RELAXED_ORDERING) {
        true => access(access_of) | ACCESS_RELAXED_ORDERING,
        false => access(access_of),
    }
}

/// Returns the rights of `enum ibv_access_flags`.
pub(crate) fn access(rights: Access) -> c_uint {
    let bits = [
        (Access::LOCAL_WRITE, 1),
        (Access::REMOTE_WRITE, 2),
        (Access::REMOTE_READ, 4),
        (Access::REMOTE_ATOMIC, 8),
        (Access::MW_BIND, 16),
    ];
    bits.into_iter()
        .filter(|(right, _)| rights.contains(*right))
        .map(|(_, bit)| bit)
        .sum()
}

/// Returns `enum ibv_mtu`.
pub(crate) const fn mtu_code(mtu: Mtu) -> c_int {
    match mtu {
        Mtu::B256 => 1,
        Mtu::B512 => 2,
        Mtu::B1024 => 3,
        Mtu::B2048 => 4,
        Mtu::B4096 => 5,
    }
}

/// Reads `enum ibv_mtu`.
pub(crate) const fn mtu(code: c_int) -> Option<Mtu> {
    Some(match code {
        1 => Mtu::B256,
        2 => Mtu::B512,
        3 => Mtu::B1024,
        4 => Mtu::B2048,
        5 => Mtu::B4096,
        _ => return None,
    })
}

/// Returns `enum ibv_qp_type`.
pub(crate) const fn service(service: Service) -> c_int {
    match service {
        Service::Rc => QPT_RC,
        Service::Uc => QPT_UC,
        Service::Ud => QPT_UD,
    }
}

/// Returns `enum ibv_qp_state`.
pub(crate) const fn state_code(state: QpState) -> c_int {
    match state {
        QpState::Reset => 0,
        QpState::Init => 1,
        QpState::Rtr => 2,
        QpState::Rts => 3,
        QpState::Sqd => 4,
        QpState::Sqe => 5,
        QpState::Err => 6,
    }
}

/// Reads `enum ibv_qp_state`.
pub(crate) const fn state(code: c_int) -> Option<QpState> {
    Some(match code {
        0 => QpState::Reset,
        1 => QpState::Init,
        2 => QpState::Rtr,
        3 => QpState::Rts,
        4 => QpState::Sqd,
        5 => QpState::Sqe,
        6 => QpState::Err,
        _ => return None,
    })
}

/// Returns a GID as the library's union holds it: its bytes as they are on the wire.
pub(crate) fn gid_words(gid: Gid) -> [u64; 2] {
    let half = |from: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&gid.0[from..from + 8]);
        u64::from_ne_bytes(bytes)
    };
    [half(0), half(8)]
}

/// Reads a GID of the library.
pub(crate) fn gid(words: [u64; 2]) -> Gid {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&words[0].to_ne_bytes());
    bytes[8..].copy_from_slice(&words[1].to_ne_bytes());
    Gid(bytes)
}

/// Returns the way to a peer: by GID, or by LID alone where the peer has none.
pub(crate) fn address(address: &AddressVector, port: u8) -> ibv_ah_attr {
    let is_global = address.dgid != Gid::default();
    ibv_ah_attr {
        grh: if is_global {
            ibv_global_route {
                dgid: gid_words(address.dgid),
                flow_label: address.flow_label,
                sgid_index: address.sgid_index,
                hop_limit: address.hop_limit,
                traffic_class: address.traffic_class,
            }
        } else {
            ibv_global_route::default()
        },
        dlid: address.dlid,
        sl: address.service_level,
        src_path_bits: 0,
        static_rate: 0,
        is_global: is_global.into(),
        port_num: port,
    }
}

/// Returns attributes and the mask that names them.
pub(crate) fn qp_attr(attr: &QpAttr, port: u8) -> (ibv_qp_attr, c_int) {
    let mut to = ibv_qp_attr::default();
    let mut named = 0;
    macro_rules! set {
        ($($field:ident = $value:expr, $bit:expr;)*) => {
            $(if let Some(value) = $value {
                to.$field = value;
                named |= $bit;
            })*
        };
    }
    set! {
        qp_state = attr.state.map(state_code), mask::STATE;
        pkey_index = attr.pkey_index, mask::PKEY_INDEX;
        port_num = attr.port, mask::PORT;
        qp_access_flags = attr.access.map(access), mask::ACCESS;
        qkey = attr.qkey.map(|qkey| qkey.0), mask::QKEY;
        ah_attr = attr.address.map(|to| address(&to, port)), mask::AV;
        path_mtu = attr.path_mtu.map(mtu_code), mask::PATH_MTU;
        dest_qp_num = attr.dest_qpn.map(Qpn::value), mask::DEST_QPN;
        rq_psn = attr.rq_psn.map(Psn::value), mask::RQ_PSN;
        sq_psn = attr.sq_psn.map(Psn::value), mask::SQ_PSN;
        max_dest_rd_atomic = attr.max_dest_rd_atomic, mask::MAX_DEST_RD_ATOMIC;
        max_rd_atomic = attr.max_rd_atomic, mask::MAX_RD_ATOMIC;
        min_rnr_timer = attr.min_rnr_timer, mask::MIN_RNR_TIMER;
        timeout = attr.timeout, mask::TIMEOUT;
        retry_cnt = attr.retry_cnt, mask::RETRY_CNT;
        rnr_retry = attr.rnr_retry, mask::RNR_RETRY;
        en_sqd_async_notify = attr.sqd_event.map(u8::from), mask::SQD_NOTIFY;
    }
    (to, named)
}

/// Returns `enum ibv_send_flags`.
#[inline]
pub(crate) const fn send_flags(flags: SendFlags) -> c_uint {
    let mut bits = 0;
    if flags.contains(SendFlags::FENCE) {
        bits |= send::FENCE;
    }
    if flags.contains(SendFlags::SIGNALED) {
        bits |= send::SIGNALED;
    }
    if flags.contains(SendFlags::SOLICITED) {
        bits |= send::SOLICITED;
    }
    bits
}

/// Returns `enum ibv_wr_opcode`, and immediate data or the key to invalidate.
#[inline]
pub(crate) const fn opcode(op: &SendOp) -> (c_int, u32) {
    match op {
        SendOp::Send | SendOp::Datagram { imm: None, .. } => (wr::SEND, 0),
        SendOp::SendImm(imm) | SendOp::Datagram { imm: Some(imm), .. } => {
            (wr::SEND_WITH_IMM, u32::from_ne_bytes(*imm))
        }
        SendOp::SendInv(rkey) => (wr::SEND_WITH_INV, rkey.0),
        SendOp::Write { .. } => (wr::RDMA_WRITE, 0),
        SendOp::WriteImm { imm, .. } => (wr::RDMA_WRITE_WITH_IMM, u32::from_ne_bytes(*imm)),
        SendOp::Read { .. } => (wr::RDMA_READ, 0),
        SendOp::CompareSwap { .. } => (wr::ATOMIC_CMP_AND_SWP, 0),
        SendOp::FetchAdd { .. } => (wr::ATOMIC_FETCH_AND_ADD, 0),
        SendOp::BindMw { .. } => (wr::BIND_MW, 0),
        SendOp::LocalInv(rkey) => (wr::LOCAL_INV, rkey.0),
    }
}

/// Returns the bit of `enum ibv_qp_create_send_ops_flags`.
#[inline]
const fn operation(wanted: &SendOp) -> u64 {
    match wanted {
        SendOp::Send | SendOp::Datagram { imm: None, .. } => op::SEND,
        SendOp::SendImm(_) | SendOp::Datagram { imm: Some(_), .. } => op::SEND_WITH_IMM,
        SendOp::SendInv(_) => op::SEND_WITH_INV,
        SendOp::Write { .. } => op::RDMA_WRITE,
        SendOp::WriteImm { .. } => op::RDMA_WRITE_WITH_IMM,
        SendOp::Read { .. } => op::RDMA_READ,
        SendOp::CompareSwap { .. } => op::ATOMIC_CMP_AND_SWP,
        SendOp::FetchAdd { .. } => op::ATOMIC_FETCH_AND_ADD,
        SendOp::BindMw { .. } => op::BIND_MW,
        SendOp::LocalInv(_) => op::LOCAL_INV,
    }
}

/// Returns whether a QP made for these operations has those of all requests.
#[inline]
pub(crate) fn all_in(requests: &[SendWr<'_>], operations: u64) -> bool {
    operations != 0
        && requests
            .iter()
            .all(|request| operation(&request.op) & !operations == 0)
}

/// Returns the operations that a service has: all, without those of windows and invalidation, and without atomics
/// either, as some providers lack them.
pub(crate) const fn operations(service: Service) -> [u64; 3] {
    let sends = op::SEND | op::SEND_WITH_IMM;
    let writes = op::RDMA_WRITE | op::RDMA_WRITE_WITH_IMM;
    let fetches = op::RDMA_READ | op::ATOMIC_CMP_AND_SWP | op::ATOMIC_FETCH_AND_ADD;
    let keys = op::SEND_WITH_INV | op::LOCAL_INV;
    match service {
        Service::Rc => {
            let plain = sends | writes | fetches;
            [
                plain | keys | op::BIND_MW,
                plain,
                sends | writes | op::RDMA_READ,
            ]
        }
        Service::Uc => [sends | writes | op::BIND_MW, sends | writes, sends | writes],
        Service::Ud => [sends; 3],
    }
}

/// Reads `enum ibv_wc_status`. Those of services and features that nobody has any more are a general error.
#[inline]
pub(crate) const fn status(code: c_int) -> Status {
    match code {
        0 => Status::Success,
        1 => Status::LocLenErr,
        2 => Status::LocQpOpErr,
        4 => Status::LocProtErr,
        5 => Status::WrFlushErr,
        6 => Status::MwBindErr,
        7 => Status::BadRespErr,
        8 => Status::LocAccessErr,
        9 => Status::RemInvReqErr,
        10 => Status::RemAccessErr,
        11 => Status::RemOpErr,
        12 => Status::RetryExcErr,
        13 => Status::RnrRetryExcErr,
        16 => Status::RemAbortErr,
        19 => Status::FatalErr,
        20 => Status::RespTimeoutErr,
        _ => Status::GeneralErr,
    }
}

/// Reads `enum ibv_wc_opcode`; one that we never ask for reads as a SEND.
#[inline]
const fn wc_opcode(code: c_int) -> WcOpcode {
    match code {
        wc::RDMA_WRITE => WcOpcode::Write,
        wc::RDMA_READ => WcOpcode::Read,
        wc::COMP_SWAP => WcOpcode::CompareSwap,
        wc::FETCH_ADD => WcOpcode::FetchAdd,
        wc::BIND_MW => WcOpcode::BindMw,
        wc::LOCAL_INV => WcOpcode::LocalInv,
        wc::RECV => WcOpcode::Recv,
        wc::RECV_RDMA_WITH_IMM => WcOpcode::RecvWriteImm,
        _ => WcOpcode::Send,
    }
}

/// Reads a completion.
#[inline]
pub(crate) fn completion(from: &ibv_wc) -> Completion {
    let carries = |flag: c_uint| from.wc_flags & flag != 0;
    Completion {
        wr_id: from.wr_id,
        status: status(from.status),
        opcode: wc_opcode(from.opcode),
        byte_len: from.byte_len,
        qpn: Qpn::new(from.qp_num & 0x00ff_ffff),
        src_qpn: Qpn::new(from.src_qp & 0x00ff_ffff),
        imm: carries(wc::WITH_IMM).then(|| from.imm_or_rkey.to_ne_bytes()),
        invalidated: carries(wc::WITH_INV).then_some(RKey(from.imm_or_rkey)),
        // The library does not say.
        solicited: false,
    }
}

#[cfg(test)]
mod tests;
