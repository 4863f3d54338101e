//! Objects of the control path.

use super::sys::*;
use super::*;

pub(crate) fn boxed<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    may_fail!("ibv_alloc_pd", null);
    with(|world| world.pds += 1);
    boxed(ibv_pd { context, handle: 0 })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dealloc_pd(_pd: *mut ibv_pd) -> c_int {
    may_fail!("ibv_dealloc_pd");
    with(|world| world.pds -= 1);
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    assert_eq!(
        access & ex::ACCESS_RELAXED_ORDERING.cast_signed(),
        0,
        "the older call does not know it"
    );
    unsafe { register(pd, addr, length, access.cast_unsigned()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_iova2(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> *mut ibv_mr {
    assert_eq!(addr as u64, iova);
    unsafe { register(pd, addr, length, access) }
}

unsafe fn register(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_uint,
) -> *mut ibv_mr {
    may_fail!("ibv_reg_mr", null);
    with(|world| world.access = access);
    let key = with(World::number);
    let context = unsafe { (*pd).context };
    let mr = boxed(ibv_mr {
        context,
        pd,
        addr,
        length,
        handle: 0,
        lkey: key,
        rkey: key << 8,
    });
    with(|world| world.regions.insert(mr as usize, key));
    mr
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    may_fail!("ibv_dereg_mr");
    match with(|world| world.regions.remove(&(mr as usize))) {
        Some(_) => 0,
        None => EINVAL,
    }
}

pub(crate) unsafe extern "C" fn alloc_mw(pd: *mut ibv_pd, mw_type: c_int) -> *mut ibv_mw {
    may_fail!("ibv_alloc_mw", null);
    let rkey = with(World::number) << 8;
    boxed(ibv_mw {
        context: unsafe { (*pd).context },
        pd,
        rkey,
        handle: 0,
        mw_type,
    })
}

pub(crate) unsafe extern "C" fn dealloc_mw(_mw: *mut ibv_mw) -> c_int {
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_srq(
    pd: *mut ibv_pd,
    init: *mut ibv_srq_init_attr,
) -> *mut ibv_srq {
    may_fail!("ibv_create_srq", null);
    let srq_context = unsafe { (*init).srq_context };
    let srq = boxed(ibv_srq {
        context: unsafe { (*pd).context },
        srq_context,
        pd,
        handle: 0,
    });
    with(|world| world.srqs.insert(srq as usize, VecDeque::new()));
    srq
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_srq(
    _srq: *mut ibv_srq,
    _attr: *mut ibv_srq_attr,
    _mask: c_int,
) -> c_int {
    may_fail!("ibv_modify_srq");
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int {
    with(|world| world.srqs.remove(&(srq as usize)).map_or(EINVAL, |_| 0))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_qp(
    pd: *mut ibv_pd,
    init: *mut ibv_qp_init_attr,
) -> *mut ibv_qp {
    may_fail!("ibv_create_qp", null);
    unsafe { new_qp(pd, &*init) }
}

/// Makes a QP, which is the beginning of an extended one.
pub(crate) unsafe fn new_qp(pd: *mut ibv_pd, init: &ibv_qp_init_attr) -> *mut ibv_qp {
    if init.cap.max_inline_data > with(|world| world.inline).unwrap_or(INLINE) {
        set_errno(EINVAL);
        return null_mut();
    }
    let number = with(World::number);
    let qp = boxed(unsafe { core::mem::zeroed::<ex::ibv_qp_ex>() }).cast::<ibv_qp>();
    let base = ibv_qp {
        context: unsafe { (*pd).context },
        qp_context: null_mut(),
        pd,
        send_cq: init.send_cq,
        recv_cq: init.recv_cq,
        srq: init.srq,
        handle: 0,
        qp_num: number,
        state: 0,
        qp_type: init.qp_type,
    };
    unsafe { qp.write(base) };
    let state = QpState {
        raw: qp as usize,
        state: 0,
        attr: ibv_qp_attr::default(),
        receives: VecDeque::new(),
        srq: init.srq as usize,
        send_cq: init.send_cq as usize,
        recv_cq: init.recv_cq as usize,
        sends: 0,
        max_send_wr: init.cap.max_send_wr,
        batch: None,
    };
    with(|world| world.qps.insert(number, state));
    qp
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    named: c_int,
) -> c_int {
    may_fail!("ibv_modify_qp");
    let (number, attr) = unsafe { ((*qp).qp_num, *attr) };
    with(|world| {
        let state = world.qps.get_mut(&number).unwrap();
        if named & mask::AV != 0 {
            state.attr.ah_attr = attr.ah_attr;
        }
        if named & mask::DEST_QPN != 0 {
            state.attr.dest_qp_num = attr.dest_qp_num;
        }
        if named & mask::QKEY != 0 {
            state.attr.qkey = attr.qkey;
        }
        for (bit, to, from) in [
            (mask::SQ_PSN, &mut state.attr.sq_psn, attr.sq_psn),
            (mask::RQ_PSN, &mut state.attr.rq_psn, attr.rq_psn),
        ] {
            if named & bit != 0 {
                *to = from;
            }
        }
        if named & mask::STATE != 0 {
            state.state = attr.qp_state;
        }
    });
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    _named: c_int,
    _init: *mut ibv_qp_init_attr,
) -> c_int {
    may_fail!("ibv_query_qp");
    let number = unsafe { (*qp).qp_num };
    let answer = with(|world| {
        let state = &world.qps[&number];
        ibv_qp_attr {
            qp_state: state.state,
            ..state.attr
        }
    });
    unsafe { attr.write(answer) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    may_fail!("ibv_destroy_qp");
    let number = unsafe { (*qp).qp_num };
    with(|world| {
        world.extended.remove(&(qp as usize));
        world.qps.remove(&number).map_or(EINVAL, |_| 0)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah(pd: *mut ibv_pd, _attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    may_fail!("ibv_create_ah", null);
    boxed(ibv_ah {
        context: unsafe { (*pd).context },
        pd,
        handle: 0,
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_ah(_ah: *mut ibv_ah) -> c_int {
    0
}
