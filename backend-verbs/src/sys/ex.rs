//! Types of the extended interface: QPs that take send requests by `ibv_wr_*`.
//!
//! `ibv_qp_ex` grew at its end only; what is behind `wr_abort` is used by nobody here.

use core::ffi::{c_int, c_uint, c_void};
use core::mem::{offset_of, size_of};

use super::{
    Mutex, Unused, ibv_ah, ibv_cq, ibv_mr, ibv_mw, ibv_pd, ibv_qp, ibv_qp_cap, ibv_qp_init_attr,
    ibv_sge, ibv_srq,
};

/// Bits of [`ibv_qp_init_attr_ex::comp_mask`].
pub(crate) const INIT_ATTR_PD: u32 = 1;
pub(crate) const INIT_ATTR_SEND_OPS: u32 = 1 << 6;

/// The first of the access rights that a kernel may leave out: relaxed ordering.
pub(crate) const ACCESS_RELAXED_ORDERING: c_uint = 1 << 20;

/// Bits of [`ibv_qp_init_attr_ex::send_ops_flags`].
pub(crate) mod op {
    pub(crate) const RDMA_WRITE: u64 = 1;
    pub(crate) const RDMA_WRITE_WITH_IMM: u64 = 1 << 1;
    pub(crate) const SEND: u64 = 1 << 2;
    pub(crate) const SEND_WITH_IMM: u64 = 1 << 3;
    pub(crate) const RDMA_READ: u64 = 1 << 4;
    pub(crate) const ATOMIC_CMP_AND_SWP: u64 = 1 << 5;
    pub(crate) const ATOMIC_FETCH_AND_ADD: u64 = 1 << 6;
    pub(crate) const LOCAL_INV: u64 = 1 << 7;
    pub(crate) const BIND_MW: u64 = 1 << 8;
    pub(crate) const SEND_WITH_INV: u64 = 1 << 9;
}

#[repr(C)]
pub(crate) struct rx_hash_conf {
    pub(crate) function: u8,
    pub(crate) key_len: u8,
    pub(crate) key: *mut u8,
    pub(crate) fields: u64,
}

#[repr(C)]
pub(crate) struct ibv_qp_init_attr_ex {
    pub(crate) qp_context: *mut c_void,
    pub(crate) send_cq: *mut ibv_cq,
    pub(crate) recv_cq: *mut ibv_cq,
    pub(crate) srq: *mut ibv_srq,
    pub(crate) cap: ibv_qp_cap,
    pub(crate) qp_type: c_int,
    pub(crate) sq_sig_all: c_int,
    pub(crate) comp_mask: u32,
    pub(crate) pd: *mut ibv_pd,
    pub(crate) xrcd: *mut c_void,
    pub(crate) create_flags: u32,
    pub(crate) max_tso_header: u16,
    pub(crate) rwq_ind_tbl: *mut c_void,
    pub(crate) rx_hash_conf: rx_hash_conf,
    pub(crate) source_qpn: u32,
    pub(crate) send_ops_flags: u64,
}

impl ibv_qp_init_attr_ex {
    /// Returns what makes the QP that `plain` makes in a domain, with these operations.
    pub(crate) const fn of(plain: &ibv_qp_init_attr, pd: *mut ibv_pd, send_ops_flags: u64) -> Self {
        let null = core::ptr::null_mut();
        Self {
            qp_context: plain.qp_context,
            send_cq: plain.send_cq,
            recv_cq: plain.recv_cq,
            srq: plain.srq,
            cap: plain.cap,
            qp_type: plain.qp_type,
            sq_sig_all: plain.sq_sig_all,
            comp_mask: INIT_ATTR_PD | INIT_ATTR_SEND_OPS,
            pd,
            xrcd: null,
            create_flags: 0,
            max_tso_header: 0,
            rwq_ind_tbl: null,
            rx_hash_conf: rx_hash_conf {
                function: 0,
                key_len: 0,
                key: core::ptr::null_mut(),
                fields: 0,
            },
            source_qpn: 0,
            send_ops_flags,
        }
    }
}

#[repr(C)]
pub(crate) struct mw_bind_info {
    pub(crate) mr: *mut ibv_mr,
    pub(crate) addr: u64,
    pub(crate) length: u64,
    pub(crate) access: c_uint,
}

/// Starts a request that names a place of the peer.
pub(crate) type Place = Option<unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64)>;
/// Starts a request that names nothing but a key.
pub(crate) type Key = Option<unsafe extern "C" fn(*mut ibv_qp_ex, u32)>;
/// Starts one that names nothing, or begins or drops a batch.
pub(crate) type Bare = Option<unsafe extern "C" fn(*mut ibv_qp_ex)>;
/// Binds a window.
pub(crate) type Bind =
    Option<unsafe extern "C" fn(*mut ibv_qp_ex, *mut ibv_mw, u32, *const mw_bind_info)>;
/// Gives a request its pieces.
pub(crate) type Pieces = Option<unsafe extern "C" fn(*mut ibv_qp_ex, usize, *const ibv_sge)>;

#[repr(C)]
pub(crate) struct ibv_qp_ex {
    pub(crate) qp_base: ibv_qp,
    pub(crate) qp_mutex: Mutex,
    pub(crate) qp_cond: [u64; 6],
    pub(crate) qp_events_completed: u32,
    pub(crate) comp_mask: u64,
    pub(crate) wr_id: u64,
    pub(crate) wr_flags: c_uint,
    pub(crate) wr_atomic_cmp_swp: Option<unsafe extern "C" fn(*mut Self, u32, u64, u64, u64)>,
    pub(crate) wr_atomic_fetch_add: Option<unsafe extern "C" fn(*mut Self, u32, u64, u64)>,
    pub(crate) wr_bind_mw: Bind,
    pub(crate) wr_local_inv: Key,
    pub(crate) wr_rdma_read: Place,
    pub(crate) wr_rdma_write: Place,
    pub(crate) wr_rdma_write_imm: Option<unsafe extern "C" fn(*mut Self, u32, u64, u32)>,
    pub(crate) wr_send: Bare,
    pub(crate) wr_send_imm: Key,
    pub(crate) wr_send_inv: Key,
    pub(crate) wr_send_tso: Unused,
    pub(crate) wr_set_ud_addr: Option<unsafe extern "C" fn(*mut Self, *mut ibv_ah, u32, u32)>,
    pub(crate) wr_set_xrc_srqn: Unused,
    pub(crate) wr_set_inline_data: Option<unsafe extern "C" fn(*mut Self, *mut c_void, usize)>,
    pub(crate) wr_set_inline_data_list: Unused,
    pub(crate) wr_set_sge: Option<unsafe extern "C" fn(*mut Self, u32, u64, u32)>,
    pub(crate) wr_set_sge_list: Pieces,
    pub(crate) wr_start: Bare,
    pub(crate) wr_complete: Option<unsafe extern "C" fn(*mut Self) -> c_int>,
    pub(crate) wr_abort: Bare,
}

const _: () = {
    assert!(size_of::<ibv_qp_init_attr_ex>() == 136);
    assert!(offset_of!(ibv_qp_init_attr_ex, comp_mask) == 60);
    assert!(offset_of!(ibv_qp_init_attr_ex, send_ops_flags) == 128);
    assert!(offset_of!(ibv_qp_ex, comp_mask) == 120 + size_of::<Mutex>());
    assert!(offset_of!(ibv_qp_ex, wr_flags) == 136 + size_of::<Mutex>());
    assert!(offset_of!(ibv_qp_ex, wr_abort) == 296 + size_of::<Mutex>());
    assert!(size_of::<mw_bind_info>() == 32);
};
