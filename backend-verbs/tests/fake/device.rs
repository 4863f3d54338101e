//! The devices, their ports, and their events.

use super::sys::*;
use super::*;
use crate::data::{post_recv, post_send, post_srq_recv};
use crate::objects::{alloc_mw, dealloc_mw};
use crate::queues::{poll_cq, req_notify_cq};
use crate::writer::create_qp_ex;
use std::mem::{offset_of, zeroed};
use std::os::fd::AsRawFd as _;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    may_fail!("ibv_get_device_list", null);
    let most = with(|world| world.devices).map_or(NAMES.len(), |most| most as usize);
    let mut list: Vec<*mut ibv_device> = NAMES[..most]
        .iter()
        .map(|(name, transport)| {
            let mut device: ibv_device = unsafe { zeroed() };
            device.node_type = 1;
            device.transport_type = *transport;
            for (to, from) in device.name.iter_mut().zip(name.bytes()) {
                *to = from as c_char;
            }
            Box::into_raw(Box::new(device))
        })
        .collect();
    unsafe { *count = most as c_int };
    list.push(null_mut());
    Box::leak(list.into_boxed_slice()).as_mut_ptr()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_free_device_list(_list: *mut *mut ibv_device) {}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    may_fail!("ibv_open_device", null);
    let mut outer: Box<verbs_context> = Box::new(unsafe { zeroed() });
    outer.query_port = Some(query_port);
    outer.create_qp_ex = Some(create_qp_ex);
    outer.sz = size_of::<verbs_context>();
    let context = &mut outer.context;
    context.device = device;
    context.abi_compat = ABI_EXTENDED;
    context.num_comp_vectors = 1;
    context.async_fd = waker();
    context.ops.poll_cq = Some(poll_cq);
    context.ops.req_notify_cq = Some(req_notify_cq);
    context.ops.post_send = Some(post_send);
    context.ops.post_recv = Some(post_recv);
    context.ops.post_srq_recv = Some(post_srq_recv);
    context.ops.alloc_mw = Some(alloc_mw);
    context.ops.dealloc_mw = Some(dealloc_mw);
    let outer = Box::into_raw(outer);
    unsafe { outer.byte_add(offset_of!(verbs_context, context)) }.cast()
}

/// A descriptor that nothing is read from until something is written.
pub(crate) fn waker() -> c_int {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let fd = theirs.as_raw_fd();
    with(|world| world.wakers.extend([ours, theirs]));
    fd
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_close_device(_context: *mut ibv_context) -> c_int {
    0
}

unsafe fn name_of(context: *mut ibv_context) -> String {
    let device = unsafe { (*context).device };
    unsafe { CStr::from_ptr((*device).name.as_ptr()) }
        .to_string_lossy()
        .into_owned()
}

unsafe fn is_ib(context: *mut ibv_context) -> bool {
    unsafe { name_of(context) == "fake_ib0" }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_device(
    _context: *mut ibv_context,
    attr: *mut ibv_device_attr,
) -> c_int {
    may_fail!("ibv_query_device");
    let mut answer: ibv_device_attr = unsafe { zeroed() };
    answer.phys_port_cnt = 1;
    answer.node_guid = 0x0002_c903_0012_3456_u64.to_be();
    (answer.vendor_id, answer.vendor_part_id) =
        with(|world| world.identity).unwrap_or((0x2c9, 0));
    answer.max_qp = 1024;
    answer.max_qp_wr = 8192;
    answer.max_sge = 16;
    answer.max_cq = 1024;
    answer.max_cqe = 1 << 20;
    answer.max_mr = 1024;
    answer.max_pd = 64;
    answer.max_qp_rd_atom = 16;
    answer.max_qp_init_rd_atom = 16;
    answer.max_mr_size = u64::MAX;
    unsafe { attr.write(answer) };
    0
}

unsafe extern "C" fn query_port(
    context: *mut ibv_context,
    _port: u8,
    attr: *mut ibv_port_attr,
    length: usize,
) -> c_int {
    may_fail!("ibv_query_port");
    assert_eq!(length, size_of::<ibv_port_attr>());
    let ib = unsafe { is_ib(context) };
    let mut answer: ibv_port_attr = unsafe { zeroed() };
    answer.state = PORT_ACTIVE;
    answer.max_mtu = 5;
    answer.active_mtu = if ib { 5 } else { 3 };
    answer.gid_tbl_len = 8;
    answer.pkey_tbl_len = 2;
    answer.max_msg_sz = 1 << 31;
    answer.lid = if ib { 0x17 } else { 0 };
    answer.sm_lid = if ib { 1 } else { 0 };
    answer.active_width = 2;
    answer.active_speed = 32;
    answer.phys_state = 5;
    answer.link_layer = if ib { LINK_LAYER_INFINIBAND } else { 2 };
    unsafe { attr.write(answer) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_port(
    _context: *mut ibv_context,
    _port: u8,
    _attr: *mut ibv_port_attr,
) -> c_int {
    panic!("a caller of the header's inline function never comes here");
}

fn gid_rows(ib: bool) -> Vec<([u8; 16], u32)> {
    let mut local = [0; 16];
    local[0] = 0xfe;
    local[1] = 0x80;
    local[15] = 7;
    let mut mapped = [0; 16];
    mapped[10] = 0xff;
    mapped[11] = 0xff;
    // An address of this machine, so that a run over it can begin.
    mapped[12..].copy_from_slice(&[127, 0, 0, 1]);
    if ib {
        vec![(local, 0)]
    } else {
        vec![
            (local, 1),
            (local, GID_TYPE_ROCE_V2),
            (mapped, GID_TYPE_ROCE_V2),
        ]
    }
}

fn words(gid: [u8; 16]) -> [u64; 2] {
    let half = |at: usize| u64::from_ne_bytes(gid[at..at + 8].try_into().unwrap());
    [half(0), half(8)]
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_gid(
    context: *mut ibv_context,
    _port: u8,
    index: c_int,
    gid: *mut [u64; 2],
) -> c_int {
    let rows = gid_rows(unsafe { is_ib(context) });
    let row = rows
        .get(index as usize)
        .map_or([0; 2], |(gid, _)| words(*gid));
    unsafe { gid.write(row) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ibv_query_gid_table(
    context: *mut ibv_context,
    entries: *mut ibv_gid_entry,
    most: usize,
    _flags: u32,
    size: usize,
) -> isize {
    if let Some(errno) = failure("ibv_query_gid_table") {
        return -(errno as isize);
    }
    assert_eq!(size, size_of::<ibv_gid_entry>());
    let rows = gid_rows(unsafe { is_ib(context) });
    assert!(rows.len() <= most);
    for (index, (gid, kind)) in rows.iter().enumerate() {
        let entry = ibv_gid_entry {
            gid: words(*gid),
            gid_index: index as u32,
            port_num: 1,
            gid_type: *kind,
            ndev_ifindex: 1,
        };
        unsafe { entries.add(index).write(entry) };
    }
    rows.len() as isize
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_pkey(
    _context: *mut ibv_context,
    _port: u8,
    index: c_int,
    pkey: *mut u16,
) -> c_int {
    unsafe { pkey.write([0xffff_u16, 0x8001][index as usize].to_be()) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_async_event(
    _context: *mut ibv_context,
    event: *mut ibv_async_event,
) -> c_int {
    match with(|world| world.events.pop_front()) {
        Some(next) => {
            unsafe { event.write(next) };
            0
        }
        None => -1,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_ack_async_event(_event: *mut ibv_async_event) {}
