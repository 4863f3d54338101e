//! QPs that take requests by `ibv_wr_*`, which are executed when their batch ends.

use super::sys::ex::*;
use super::sys::*;
use super::*;
use crate::data::execute;
use crate::objects::new_qp;

/// A request under construction. Its bytes are copied where it is inline.
pub(crate) struct Written {
    request: ibv_send_wr,
    pieces: Vec<ibv_sge>,
    copied: Vec<u8>,
    /// Whether it was given data, or needs none.
    complete: bool,
}

pub(crate) unsafe extern "C" fn create_qp_ex(
    _context: *mut ibv_context,
    init: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    may_fail!("ibv_create_qp_ex", null);
    let init = unsafe { &mut *init };
    assert_eq!(init.comp_mask, INIT_ATTR_PD | INIT_ATTR_SEND_OPS);
    let plain = ibv_qp_init_attr {
        qp_context: init.qp_context,
        send_cq: init.send_cq,
        recv_cq: init.recv_cq,
        srq: init.srq,
        cap: init.cap,
        qp_type: init.qp_type,
        sq_sig_all: init.sq_sig_all,
    };
    // Some providers lack windows and invalidation.
    let lacking = op::BIND_MW | op::LOCAL_INV | op::SEND_WITH_INV;
    if failure("windows by ibv_wr").is_some() && init.send_ops_flags & lacking != 0 {
        return null_mut();
    }
    let qp = unsafe { new_qp(init.pd, &plain) }.cast::<ibv_qp_ex>();
    if qp.is_null() {
        return null_mut();
    }
    let table = unsafe { &mut *qp };
    let has = |operation| init.send_ops_flags & operation != 0;
    table.wr_atomic_cmp_swp = has(op::ATOMIC_CMP_AND_SWP).then_some(compare_swap);
    table.wr_atomic_fetch_add = has(op::ATOMIC_FETCH_AND_ADD).then_some(fetch_add);
    table.wr_bind_mw = has(op::BIND_MW).then_some(bind);
    table.wr_local_inv = has(op::LOCAL_INV).then_some(invalidate);
    table.wr_rdma_read = has(op::RDMA_READ).then_some(read);
    table.wr_rdma_write = has(op::RDMA_WRITE).then_some(write);
    table.wr_rdma_write_imm = has(op::RDMA_WRITE_WITH_IMM).then_some(write_imm);
    table.wr_send = has(op::SEND).then_some(send_plain);
    table.wr_send_imm = has(op::SEND_WITH_IMM).then_some(send_imm);
    table.wr_send_inv = has(op::SEND_WITH_INV).then_some(send_inv);
    table.wr_set_ud_addr = Some(set_ud_addr);
    table.wr_set_inline_data = Some(set_inline_data);
    table.wr_set_sge = Some(set_sge);
    table.wr_set_sge_list = Some(set_sge_list);
    table.wr_start = Some(start);
    table.wr_complete = Some(complete);
    table.wr_abort = Some(abort);
    with(|world| world.extended.insert(qp as usize));
    qp.cast()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex {
    let known = with(|world| world.extended.contains(&(qp as usize)));
    if known { qp.cast() } else { null_mut() }
}

unsafe fn batch<R>(qp: *mut ibv_qp_ex, work: impl FnOnce(&mut Option<Vec<Written>>) -> R) -> R {
    let number = unsafe { (*qp).qp_base.qp_num };
    with(|world| work(&mut world.qps.get_mut(&number).unwrap().batch))
}

unsafe extern "C" fn start(qp: *mut ibv_qp_ex) {
    unsafe {
        batch(qp, |batch| {
            assert!(batch.is_none(), "a batch within a batch");
            *batch = Some(Vec::new());
        });
    }
}

unsafe extern "C" fn abort(qp: *mut ibv_qp_ex) {
    unsafe { batch(qp, |batch| batch.take().expect("an open batch")) };
}

unsafe extern "C" fn complete(qp: *mut ibv_qp_ex) -> c_int {
    let requests = unsafe { batch(qp, Option::take) }.expect("an open batch");
    if let Some(errno) = failure("wr_complete") {
        return errno;
    }
    let (number, service) = unsafe { ((*qp).qp_base.qp_num, (*qp).qp_base.qp_type) };
    let most = with(|world| world.qps[&number].max_send_wr);
    if requests.len() as u32 > most {
        return ENOMEM;
    }
    for mut written in requests {
        assert!(written.complete, "a request without its data");
        let copied = &written.copied;
        if written.request.send_flags & send::INLINE != 0 {
            written.pieces = vec![ibv_sge {
                addr: copied.as_ptr() as u64,
                length: copied.len() as u32,
                lkey: 0,
            }];
        }
        written.request.sg_list = written.pieces.as_mut_ptr();
        written.request.num_sge = written.pieces.len() as c_int;
        unsafe { execute(number, service, &written.request) };
        with(|world| world.written += 1);
    }
    0
}

unsafe fn begin(qp: *mut ibv_qp_ex, opcode: c_int, imm_or_rkey: u32, wr: Option<wr_remote>) {
    let mut request: ibv_send_wr = unsafe { core::mem::zeroed() };
    request.wr_id = unsafe { (*qp).wr_id };
    request.send_flags = unsafe { (*qp).wr_flags };
    request.opcode = opcode;
    request.imm_or_rkey = imm_or_rkey;
    request.wr = wr.unwrap_or(request.wr);
    let complete = matches!(opcode, wr::BIND_MW | wr::LOCAL_INV);
    let written = Written {
        request,
        pieces: Vec::new(),
        copied: Vec::new(),
        complete,
    };
    unsafe {
        batch(qp, |batch| {
            let batch = batch.as_mut().expect("an open batch");
            batch.push(written);
        });
    }
}

unsafe fn last(qp: *mut ibv_qp_ex, work: impl FnOnce(&mut Written)) {
    unsafe {
        batch(qp, |batch| {
            work(batch.as_mut().unwrap().last_mut().expect("a request"));
        });
    }
}

fn place(rkey: u32, remote_addr: u64) -> Option<wr_remote> {
    Some(wr_remote {
        rdma: wr_rdma { remote_addr, rkey },
    })
}

unsafe extern "C" fn send_plain(qp: *mut ibv_qp_ex) {
    unsafe { begin(qp, wr::SEND, 0, None) };
}

unsafe extern "C" fn send_imm(qp: *mut ibv_qp_ex, imm: u32) {
    unsafe { begin(qp, wr::SEND_WITH_IMM, imm, None) };
}

unsafe extern "C" fn send_inv(qp: *mut ibv_qp_ex, rkey: u32) {
    unsafe { begin(qp, wr::SEND_WITH_INV, rkey, None) };
}

unsafe extern "C" fn invalidate(qp: *mut ibv_qp_ex, rkey: u32) {
    unsafe { begin(qp, wr::LOCAL_INV, rkey, None) };
}

unsafe extern "C" fn write(qp: *mut ibv_qp_ex, rkey: u32, addr: u64) {
    unsafe { begin(qp, wr::RDMA_WRITE, 0, place(rkey, addr)) };
}

unsafe extern "C" fn write_imm(qp: *mut ibv_qp_ex, rkey: u32, addr: u64, imm: u32) {
    unsafe { begin(qp, wr::RDMA_WRITE_WITH_IMM, imm, place(rkey, addr)) };
}

unsafe extern "C" fn read(qp: *mut ibv_qp_ex, rkey: u32, addr: u64) {
    unsafe { begin(qp, wr::RDMA_READ, 0, place(rkey, addr)) };
}

unsafe fn atomic(qp: *mut ibv_qp_ex, opcode: c_int, atomic: wr_atomic) {
    unsafe { begin(qp, opcode, 0, Some(wr_remote { atomic })) };
}

unsafe extern "C" fn compare_swap(
    qp: *mut ibv_qp_ex,
    rkey: u32,
    remote_addr: u64,
    compare_add: u64,
    swap: u64,
) {
    let values = wr_atomic {
        remote_addr,
        compare_add,
        swap,
        rkey,
    };
    unsafe { atomic(qp, wr::ATOMIC_CMP_AND_SWP, values) };
}

unsafe extern "C" fn fetch_add(qp: *mut ibv_qp_ex, rkey: u32, remote_addr: u64, compare_add: u64) {
    let values = wr_atomic {
        remote_addr,
        compare_add,
        swap: 0,
        rkey,
    };
    unsafe { atomic(qp, wr::ATOMIC_FETCH_AND_ADD, values) };
}

unsafe extern "C" fn bind(
    qp: *mut ibv_qp_ex,
    mw: *mut ibv_mw,
    rkey: u32,
    info: *const mw_bind_info,
) {
    unsafe { begin(qp, wr::BIND_MW, 0, None) };
    let info = unsafe { &*info };
    unsafe {
        last(qp, |written| {
            written.request.bind_mw = wr_bind_mw {
                mw,
                rkey,
                mr: info.mr,
                addr: info.addr,
                length: info.length,
                access: info.access,
            };
        });
    }
}

unsafe extern "C" fn set_ud_addr(qp: *mut ibv_qp_ex, ah: *mut ibv_ah, qpn: u32, qkey: u32) {
    let ud = wr_ud {
        ah,
        remote_qpn: qpn,
        remote_qkey: qkey,
    };
    unsafe { last(qp, |written| written.request.wr = wr_remote { ud }) };
}

unsafe extern "C" fn set_inline_data(qp: *mut ibv_qp_ex, start: *mut c_void, length: usize) {
    let bytes = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) };
    unsafe {
        last(qp, |written| {
            assert_ne!(written.request.send_flags & send::INLINE, 0);
            written.copied = bytes.to_vec();
            written.complete = true;
        });
    }
}

unsafe extern "C" fn set_sge(qp: *mut ibv_qp_ex, lkey: u32, addr: u64, length: u32) {
    let piece = ibv_sge { addr, length, lkey };
    unsafe {
        last(qp, |written| {
            written.pieces = vec![piece];
            written.complete = true;
        });
    }
}

unsafe extern "C" fn set_sge_list(qp: *mut ibv_qp_ex, count: usize, list: *const ibv_sge) {
    let pieces = (0..count).map(|at| unsafe { *list.add(at) }).collect();
    unsafe {
        last(qp, |written| {
            written.pieces = pieces;
            written.complete = true;
        });
    }
}
