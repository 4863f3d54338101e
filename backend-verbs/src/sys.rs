//! The part of libibverbs' binary interface that is used: types of `infiniband/verbs.h`, and the functions that are
//! pointers inside of them. `unsafe` is here only in the types of those pointers.
//!
//! Written by hand against the header of rdma-core 44; sizes and offsets are asserted at compile time below, and
//! `tests/layout.rs` has a C compiler compare them with the header of the machine. Structures that later versions
//! made longer (`ibv_port_attr`) grew at their end only, and are handed over with their length.

#![allow(non_camel_case_types)]

use core::ffi::{c_char, c_int, c_uint, c_void};
use core::mem::{offset_of, size_of};

// By its path, so that it is found from wherever this file is a module of.
#[path = "sys/ex.rs"]
pub(crate) mod ex;

pub(crate) const NAME_MAX: usize = 64;
pub(crate) const PATH_MAX: usize = 256;

/// What `abi_compat` of a context holds if a `verbs_context` is around it.
pub(crate) const ABI_EXTENDED: usize = usize::MAX;

#[repr(C)]
pub(crate) struct ibv_device {
    _ops: [*const c_void; 2],
    pub(crate) node_type: c_int,
    pub(crate) transport_type: c_int,
    pub(crate) name: [c_char; NAME_MAX],
    pub(crate) dev_name: [c_char; NAME_MAX],
    pub(crate) dev_path: [c_char; PATH_MAX],
    pub(crate) ibdev_path: [c_char; PATH_MAX],
}

pub(crate) const TRANSPORT_IB: c_int = 0;
pub(crate) const TRANSPORT_IWARP: c_int = 1;

/// A function that nobody calls through the table any more.
pub(crate) type Unused = *const c_void;

#[repr(C)]
pub(crate) struct ibv_context_ops {
    pub(crate) compat_first: [Unused; 7],
    pub(crate) alloc_mw: Option<unsafe extern "C" fn(*mut ibv_pd, c_int) -> *mut ibv_mw>,
    pub(crate) bind_mw: Unused,
    pub(crate) dealloc_mw: Option<unsafe extern "C" fn(*mut ibv_mw) -> c_int>,
    pub(crate) compat_create_cq: Unused,
    pub(crate) poll_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int>,
    pub(crate) req_notify_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int>,
    pub(crate) compat_cq: [Unused; 7],
    pub(crate) post_srq_recv: Option<
        unsafe extern "C" fn(*mut ibv_srq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int,
    >,
    pub(crate) compat_qp: [Unused; 4],
    pub(crate) post_send:
        Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int>,
    pub(crate) post_recv:
        Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int>,
    pub(crate) compat_last: [Unused; 5],
}

/// A `pthread_mutex_t` of glibc or musl, which only the library touches.
#[repr(C)]
pub(crate) struct Mutex {
    #[cfg(target_arch = "aarch64")]
    _opaque: [u64; 6],
    #[cfg(not(target_arch = "aarch64"))]
    _opaque: [u64; 5],
}

#[repr(C)]
pub(crate) struct ibv_context {
    pub(crate) device: *mut ibv_device,
    pub(crate) ops: ibv_context_ops,
    pub(crate) cmd_fd: c_int,
    pub(crate) async_fd: c_int,
    pub(crate) num_comp_vectors: c_int,
    pub(crate) mutex: Mutex,
    pub(crate) abi_compat: usize,
}

/// What is in front of an extended context. It grows at its start, so that only its end has a place: `sz` bytes in
/// all, the context included.
#[repr(C)]
pub(crate) struct verbs_context {
    pub(crate) query_port:
        Option<unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr, usize) -> c_int>,
    pub(crate) others: [Unused; 32],
    pub(crate) create_qp_ex:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ex::ibv_qp_init_attr_ex) -> *mut ibv_qp>,
    pub(crate) oldest: [Unused; 4],
    pub(crate) abi_placeholder3: u64,
    pub(crate) sz: usize,
    pub(crate) context: ibv_context,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct ibv_device_attr {
    pub(crate) fw_ver: [c_char; 64],
    pub(crate) node_guid: u64,
    pub(crate) sys_image_guid: u64,
    pub(crate) max_mr_size: u64,
    pub(crate) page_size_cap: u64,
    pub(crate) vendor_id: u32,
    pub(crate) vendor_part_id: u32,
    pub(crate) hw_ver: u32,
    pub(crate) max_qp: c_int,
    pub(crate) max_qp_wr: c_int,
    pub(crate) device_cap_flags: c_uint,
    pub(crate) max_sge: c_int,
    pub(crate) max_sge_rd: c_int,
    pub(crate) max_cq: c_int,
    pub(crate) max_cqe: c_int,
    pub(crate) max_mr: c_int,
    pub(crate) max_pd: c_int,
    pub(crate) max_qp_rd_atom: c_int,
    pub(crate) max_ee_rd_atom: c_int,
    pub(crate) max_res_rd_atom: c_int,
    pub(crate) max_qp_init_rd_atom: c_int,
    pub(crate) max_ee_init_rd_atom: c_int,
    pub(crate) atomic_cap: c_int,
    pub(crate) max_ee: c_int,
    pub(crate) max_rdd: c_int,
    pub(crate) max_mw: c_int,
    pub(crate) max_raw_ipv6_qp: c_int,
    pub(crate) max_raw_ethy_qp: c_int,
    pub(crate) max_mcast_grp: c_int,
    pub(crate) max_mcast_qp_attach: c_int,
    pub(crate) max_total_mcast_qp_attach: c_int,
    pub(crate) max_ah: c_int,
    pub(crate) max_fmr: c_int,
    pub(crate) max_map_per_fmr: c_int,
    pub(crate) max_srq: c_int,
    pub(crate) max_srq_wr: c_int,
    pub(crate) max_srq_sge: c_int,
    pub(crate) max_pkeys: u16,
    pub(crate) local_ca_ack_delay: u8,
    pub(crate) phys_port_cnt: u8,
}

/// The first 52 bytes are as old as the library; what later versions added behind is read by nobody here.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct ibv_port_attr {
    pub(crate) state: c_int,
    pub(crate) max_mtu: c_int,
    pub(crate) active_mtu: c_int,
    pub(crate) gid_tbl_len: c_int,
    pub(crate) port_cap_flags: u32,
    pub(crate) max_msg_sz: u32,
    pub(crate) bad_pkey_cntr: u32,
    pub(crate) qkey_viol_cntr: u32,
    pub(crate) pkey_tbl_len: u16,
    pub(crate) lid: u16,
    pub(crate) sm_lid: u16,
    pub(crate) lmc: u8,
    pub(crate) max_vl_num: u8,
    pub(crate) sm_sl: u8,
    pub(crate) subnet_timeout: u8,
    pub(crate) init_type_reply: u8,
    pub(crate) active_width: u8,
    pub(crate) active_speed: u8,
    pub(crate) phys_state: u8,
    pub(crate) link_layer: u8,
    pub(crate) flags: u8,
    pub(crate) port_cap_flags2: u16,
}

pub(crate) const LINK_LAYER_INFINIBAND: u8 = 1;
pub(crate) const PORT_ACTIVE: c_int = 4;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct ibv_gid_entry {
    pub(crate) gid: [u64; 2],
    pub(crate) gid_index: u32,
    pub(crate) port_num: u32,
    pub(crate) gid_type: u32,
    pub(crate) ndev_ifindex: u32,
}

pub(crate) const GID_TYPE_ROCE_V2: u32 = 2;

#[repr(C)]
#[derive(Debug)]
pub(crate) struct ibv_pd {
    pub(crate) context: *mut ibv_context,
    pub(crate) handle: u32,
}

#[repr(C)]
#[derive(Debug)]
pub(crate) struct ibv_mr {
    pub(crate) context: *mut ibv_context,
    pub(crate) pd: *mut ibv_pd,
    pub(crate) addr: *mut c_void,
    pub(crate) length: usize,
    pub(crate) handle: u32,
    pub(crate) lkey: u32,
    pub(crate) rkey: u32,
}

#[repr(C)]
#[derive(Debug)]
pub(crate) struct ibv_mw {
    pub(crate) context: *mut ibv_context,
    pub(crate) pd: *mut ibv_pd,
    pub(crate) rkey: u32,
    pub(crate) handle: u32,
    pub(crate) mw_type: c_int,
}

pub(crate) const MW_TYPE_2: c_int = 2;

#[repr(C)]
#[derive(Debug)]
pub(crate) struct ibv_comp_channel {
    pub(crate) context: *mut ibv_context,
    pub(crate) fd: c_int,
    pub(crate) refcnt: c_int,
}

#[repr(C)]
#[derive(Debug)]
pub(crate) struct ibv_cq {
    pub(crate) context: *mut ibv_context,
    pub(crate) channel: *mut ibv_comp_channel,
    pub(crate) cq_context: *mut c_void,
    pub(crate) handle: u32,
    pub(crate) cqe: c_int,
}

#[repr(C)]
#[derive(Debug)]
pub(crate) struct ibv_srq {
    pub(crate) context: *mut ibv_context,
    pub(crate) srq_context: *mut c_void,
    pub(crate) pd: *mut ibv_pd,
    pub(crate) handle: u32,
}

#[repr(C)]
#[derive(Debug)]
pub(crate) struct ibv_qp {
    pub(crate) context: *mut ibv_context,
    pub(crate) qp_context: *mut c_void,
    pub(crate) pd: *mut ibv_pd,
    pub(crate) send_cq: *mut ibv_cq,
    pub(crate) recv_cq: *mut ibv_cq,
    pub(crate) srq: *mut ibv_srq,
    pub(crate) handle: u32,
    pub(crate) qp_num: u32,
    pub(crate) state: c_int,
    pub(crate) qp_type: c_int,
}

#[repr(C)]
#[derive(Debug)]
pub(crate) struct ibv_ah {
    pub(crate) context: *mut ibv_context,
    pub(crate) pd: *mut ibv_pd,
    pub(crate) handle: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ibv_global_route {
    pub(crate) dgid: [u64; 2],
    pub(crate) flow_label: u32,
    pub(crate) sgid_index: u8,
    pub(crate) hop_limit: u8,
    pub(crate) traffic_class: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ibv_ah_attr {
    pub(crate) grh: ibv_global_route,
    pub(crate) dlid: u16,
    pub(crate) sl: u8,
    pub(crate) src_path_bits: u8,
    pub(crate) static_rate: u8,
    pub(crate) is_global: u8,
    pub(crate) port_num: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct ibv_srq_attr {
    pub(crate) max_wr: u32,
    pub(crate) max_sge: u32,
    pub(crate) srq_limit: u32,
}

pub(crate) const SRQ_LIMIT: c_int = 1 << 1;

#[repr(C)]
pub(crate) struct ibv_srq_init_attr {
    pub(crate) srq_context: *mut c_void,
    pub(crate) attr: ibv_srq_attr,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ibv_qp_cap {
    pub(crate) max_send_wr: u32,
    pub(crate) max_recv_wr: u32,
    pub(crate) max_send_sge: u32,
    pub(crate) max_recv_sge: u32,
    pub(crate) max_inline_data: u32,
}

#[repr(C)]
pub(crate) struct ibv_qp_init_attr {
    pub(crate) qp_context: *mut c_void,
    pub(crate) send_cq: *mut ibv_cq,
    pub(crate) recv_cq: *mut ibv_cq,
    pub(crate) srq: *mut ibv_srq,
    pub(crate) cap: ibv_qp_cap,
    pub(crate) qp_type: c_int,
    pub(crate) sq_sig_all: c_int,
}

pub(crate) const QPT_RC: c_int = 2;
pub(crate) const QPT_UC: c_int = 3;
pub(crate) const QPT_UD: c_int = 4;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ibv_qp_attr {
    pub(crate) qp_state: c_int,
    pub(crate) cur_qp_state: c_int,
    pub(crate) path_mtu: c_int,
    pub(crate) path_mig_state: c_int,
    pub(crate) qkey: u32,
    pub(crate) rq_psn: u32,
    pub(crate) sq_psn: u32,
    pub(crate) dest_qp_num: u32,
    pub(crate) qp_access_flags: c_uint,
    pub(crate) cap: ibv_qp_cap,
    pub(crate) ah_attr: ibv_ah_attr,
    pub(crate) alt_ah_attr: ibv_ah_attr,
    pub(crate) pkey_index: u16,
    pub(crate) alt_pkey_index: u16,
    pub(crate) en_sqd_async_notify: u8,
    pub(crate) sq_draining: u8,
    pub(crate) max_rd_atomic: u8,
    pub(crate) max_dest_rd_atomic: u8,
    pub(crate) min_rnr_timer: u8,
    pub(crate) port_num: u8,
    pub(crate) timeout: u8,
    pub(crate) retry_cnt: u8,
    pub(crate) rnr_retry: u8,
    pub(crate) alt_port_num: u8,
    pub(crate) alt_timeout: u8,
    pub(crate) rate_limit: u32,
}

/// Bits of `ibv_modify_qp`'s mask.
pub(crate) mod mask {
    use core::ffi::c_int;

    pub(crate) const STATE: c_int = 1;
    pub(crate) const SQD_NOTIFY: c_int = 1 << 2;
    pub(crate) const ACCESS: c_int = 1 << 3;
    pub(crate) const PKEY_INDEX: c_int = 1 << 4;
    pub(crate) const PORT: c_int = 1 << 5;
    pub(crate) const QKEY: c_int = 1 << 6;
    pub(crate) const AV: c_int = 1 << 7;
    pub(crate) const PATH_MTU: c_int = 1 << 8;
    pub(crate) const TIMEOUT: c_int = 1 << 9;
    pub(crate) const RETRY_CNT: c_int = 1 << 10;
    pub(crate) const RNR_RETRY: c_int = 1 << 11;
    pub(crate) const RQ_PSN: c_int = 1 << 12;
    pub(crate) const MAX_RD_ATOMIC: c_int = 1 << 13;
    pub(crate) const MIN_RNR_TIMER: c_int = 1 << 15;
    pub(crate) const SQ_PSN: c_int = 1 << 16;
    pub(crate) const MAX_DEST_RD_ATOMIC: c_int = 1 << 17;
    pub(crate) const DEST_QPN: c_int = 1 << 20;
}

/// Flags of a send request.
pub(crate) mod send {
    use core::ffi::c_uint;

    pub(crate) const FENCE: c_uint = 1;
    pub(crate) const SIGNALED: c_uint = 1 << 1;
    pub(crate) const SOLICITED: c_uint = 1 << 2;
    pub(crate) const INLINE: c_uint = 1 << 3;
}

/// Opcodes of a send request.
pub(crate) mod wr {
    use core::ffi::c_int;

    pub(crate) const RDMA_WRITE: c_int = 0;
    pub(crate) const RDMA_WRITE_WITH_IMM: c_int = 1;
    pub(crate) const SEND: c_int = 2;
    pub(crate) const SEND_WITH_IMM: c_int = 3;
    pub(crate) const RDMA_READ: c_int = 4;
    pub(crate) const ATOMIC_CMP_AND_SWP: c_int = 5;
    pub(crate) const ATOMIC_FETCH_AND_ADD: c_int = 6;
    pub(crate) const LOCAL_INV: c_int = 7;
    pub(crate) const BIND_MW: c_int = 8;
    pub(crate) const SEND_WITH_INV: c_int = 9;
}

/// Opcodes of a completion.
pub(crate) mod wc {
    use core::ffi::{c_int, c_uint};

    pub(crate) const RDMA_WRITE: c_int = 1;
    pub(crate) const RDMA_READ: c_int = 2;
    pub(crate) const COMP_SWAP: c_int = 3;
    pub(crate) const FETCH_ADD: c_int = 4;
    pub(crate) const BIND_MW: c_int = 5;
    pub(crate) const LOCAL_INV: c_int = 6;
    pub(crate) const RECV: c_int = 128;
    pub(crate) const RECV_RDMA_WITH_IMM: c_int = 129;
    pub(crate) const WITH_IMM: c_uint = 1 << 1;
    pub(crate) const WITH_INV: c_uint = 1 << 3;
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ibv_sge {
    pub(crate) addr: u64,
    pub(crate) length: u32,
    pub(crate) lkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct wr_rdma {
    pub(crate) remote_addr: u64,
    pub(crate) rkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct wr_atomic {
    pub(crate) remote_addr: u64,
    pub(crate) compare_add: u64,
    pub(crate) swap: u64,
    pub(crate) rkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct wr_ud {
    pub(crate) ah: *mut ibv_ah,
    pub(crate) remote_qpn: u32,
    pub(crate) remote_qkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union wr_remote {
    pub(crate) rdma: wr_rdma,
    pub(crate) atomic: wr_atomic,
    pub(crate) ud: wr_ud,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct wr_bind_mw {
    pub(crate) mw: *mut ibv_mw,
    pub(crate) rkey: u32,
    pub(crate) mr: *mut ibv_mr,
    pub(crate) addr: u64,
    pub(crate) length: u64,
    pub(crate) access: c_uint,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ibv_send_wr {
    pub(crate) wr_id: u64,
    pub(crate) next: *mut Self,
    pub(crate) sg_list: *mut ibv_sge,
    pub(crate) num_sge: c_int,
    pub(crate) opcode: c_int,
    pub(crate) send_flags: c_uint,
    /// Immediate data as it is on the wire, or the key that is to be invalidated.
    pub(crate) imm_or_rkey: u32,
    pub(crate) wr: wr_remote,
    pub(crate) xrc_remote_srqn: u32,
    pub(crate) bind_mw: wr_bind_mw,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ibv_recv_wr {
    pub(crate) wr_id: u64,
    pub(crate) next: *mut Self,
    pub(crate) sg_list: *mut ibv_sge,
    pub(crate) num_sge: c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ibv_wc {
    pub(crate) wr_id: u64,
    pub(crate) status: c_int,
    pub(crate) opcode: c_int,
    pub(crate) vendor_err: u32,
    pub(crate) byte_len: u32,
    /// Immediate data as it was on the wire, or the key that was invalidated.
    pub(crate) imm_or_rkey: u32,
    pub(crate) qp_num: u32,
    pub(crate) src_qp: u32,
    pub(crate) wc_flags: c_uint,
    pub(crate) pkey_index: u16,
    pub(crate) slid: u16,
    pub(crate) sl: u8,
    pub(crate) dlid_path_bits: u8,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ibv_async_event {
    /// The CQ, QP or SRQ that it is about; a port's number in the first four bytes otherwise.
    pub(crate) element: *mut c_void,
    pub(crate) event_type: c_int,
}

// The sizes and places of the header, for x86-64 and all other machines with 64-bit pointers that Linux has.
const _: () = {
    assert!(size_of::<ibv_device>() == 664);
    assert!(size_of::<ibv_context_ops>() == 256);
    assert!(offset_of!(ibv_context_ops, alloc_mw) == 56);
    assert!(offset_of!(ibv_context_ops, poll_cq) == 88);
    assert!(offset_of!(ibv_context_ops, post_srq_recv) == 160);
    assert!(offset_of!(ibv_context_ops, post_send) == 200);
    assert!(offset_of!(ibv_context, cmd_fd) == 264);
    assert!(offset_of!(ibv_context, abi_compat) == 280 + size_of::<Mutex>());
    assert!(offset_of!(verbs_context, create_qp_ex) == 264);
    assert!(offset_of!(verbs_context, sz) == 312);
    assert!(offset_of!(verbs_context, context) == 320);
    assert!(offset_of!(ibv_qp, qp_num) == 52);
    assert!(offset_of!(ibv_send_wr, bind_mw) == 80);
    assert!(size_of::<ibv_device_attr>() == 232);
    assert!(size_of::<ibv_port_attr>() == 52);
    assert!(size_of::<ibv_gid_entry>() == 32);
    assert!(size_of::<ibv_mr>() == 48);
    assert!(size_of::<ibv_ah_attr>() == 32);
    assert!(size_of::<ibv_qp_init_attr>() == 64);
    assert!(size_of::<ibv_qp_attr>() == 144);
    assert!(size_of::<ibv_send_wr>() == 128);
    assert!(offset_of!(ibv_send_wr, wr) == 40);
    assert!(size_of::<ibv_recv_wr>() == 32);
    assert!(size_of::<ibv_wc>() == 48);
    assert!(size_of::<ibv_sge>() == 16);
};
