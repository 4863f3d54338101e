//! Completion queues and their channels.

use super::sys::*;
use super::*;
use crate::device::waker;
use crate::objects::boxed;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_comp_channel(
    context: *mut ibv_context,
) -> *mut ibv_comp_channel {
    may_fail!("ibv_create_comp_channel", null);
    boxed(ibv_comp_channel {
        context,
        fd: waker(),
        refcnt: 0,
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_comp_channel(_channel: *mut ibv_comp_channel) -> c_int {
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    _vector: c_int,
) -> *mut ibv_cq {
    may_fail!("ibv_create_cq", null);
    let cq = boxed(ibv_cq {
        context,
        channel,
        cq_context,
        handle: 0,
        cqe,
    });
    let state = CqState {
        channel: channel as usize,
        ..CqState::default()
    };
    with(|world| world.cqs.insert(cq as usize, state));
    cq
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_resize_cq(_cq: *mut ibv_cq, _cqe: c_int) -> c_int {
    may_fail!("ibv_resize_cq");
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    may_fail!("ibv_destroy_cq");
    let key = cq as usize;
    with(|world| {
        if world
            .qps
            .values()
            .any(|qp| qp.send_cq == key || qp.recv_cq == key)
        {
            return EBUSY;
        }
        world.cqs.remove(&key).map_or(EINVAL, |_| 0)
    })
}

pub(crate) unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, _solicited: c_int) -> c_int {
    may_fail!("ibv_req_notify_cq");
    with(|world| world.cqs.get_mut(&(cq as usize)).map(|cq| cq.armed = true));
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    _user: *mut *mut c_void,
) -> c_int {
    let told = with(|world| {
        let told = world
            .cqs
            .iter_mut()
            .find(|(_, state)| state.channel == channel as usize && !state.notified.is_empty());
        told.map(|(key, state)| {
            state.notified.pop_front();
            *key
        })
    });
    let Some(key) = told else { return -1 };
    let fd = unsafe { (*channel).fd };
    with(|world| {
        let mut reader = world
            .wakers
            .iter()
            .find(|stream| stream.as_raw_fd() == fd)
            .unwrap();
        reader.read_exact(&mut [0]).unwrap();
    });
    unsafe { cq.write(key as *mut ibv_cq) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_ack_cq_events(_cq: *mut ibv_cq, _count: c_uint) {}

pub(crate) fn complete(world: &mut World, cq: usize, wc: ibv_wc) {
    let Some(state) = world.cqs.get_mut(&cq) else {
        return;
    };
    state.done.push_back(wc);
    if !core::mem::take(&mut state.armed) {
        return;
    }
    state.notified.push_back(());
    let fd = unsafe { (*(state.channel as *mut ibv_comp_channel)).fd };
    let at = world
        .wakers
        .iter()
        .position(|stream| stream.as_raw_fd() == fd)
        .unwrap();
    // The other end of a pair comes first.
    world.wakers[at - 1].write_all(&[1]).unwrap();
}

pub(crate) unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, most: c_int, out: *mut ibv_wc) -> c_int {
    if let Some(errno) = failure("ibv_poll_cq") {
        return -errno;
    }
    with(|world| {
        let Some(state) = world.cqs.get_mut(&(cq as usize)) else {
            return -EINVAL;
        };
        let count = state.done.len().min(most as usize);
        for (index, wc) in state.done.drain(..count).enumerate() {
            unsafe { out.add(index).write(wc) };
        }
        count as c_int
    })
}
