//! Requests, which are executed when they are posted.

use super::sys::*;
use super::*;
use crate::queues::complete;
use std::ptr::copy_nonoverlapping;

unsafe fn receive_of(wr: *const ibv_recv_wr) -> Receive {
    let wr = unsafe { &*wr };
    let pieces = (0..wr.num_sge as usize).map(|at| unsafe { *wr.sg_list.add(at) });
    Receive {
        wr_id: wr.wr_id,
        pieces: pieces.collect(),
    }
}

pub(crate) unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    mut wr: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    while !wr.is_null() {
        if let Some(errno) = failure("ibv_post_recv") {
            unsafe { bad.write(wr) };
            return errno;
        }
        let receive = unsafe { receive_of(wr) };
        let number = unsafe { (*qp).qp_num };
        with(|world| {
            world
                .qps
                .get_mut(&number)
                .unwrap()
                .receives
                .push_back(receive)
        });
        wr = unsafe { (*wr).next };
    }
    0
}

pub(crate) unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq,
    mut wr: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    while !wr.is_null() {
        if let Some(errno) = failure("ibv_post_srq_recv") {
            unsafe { bad.write(wr) };
            return errno;
        }
        let receive = unsafe { receive_of(wr) };
        with(|world| {
            world
                .srqs
                .get_mut(&(srq as usize))
                .unwrap()
                .push_back(receive)
        });
        wr = unsafe { (*wr).next };
    }
    0
}

pub(crate) unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    mut wr: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    let number = unsafe { (*qp).qp_num };
    while !wr.is_null() {
        let full = with(|world| {
            let state = world.qps.get_mut(&number).unwrap();
            state.sends += 1;
            // Nothing is ever in flight: the queue is full only for a list that is longer than it.
            state.sends > state.max_send_wr
        });
        let errno = if full {
            Some(ENOMEM)
        } else {
            failure("ibv_post_send")
        };
        if let Some(errno) = errno {
            with(|world| world.qps.get_mut(&number).unwrap().sends = 0);
            unsafe { bad.write(wr) };
            return errno;
        }
        unsafe { execute(number, (*qp).qp_type, &*wr) };
        wr = unsafe { (*wr).next };
    }
    with(|world| world.qps.get_mut(&number).unwrap().sends = 0);
    0
}

pub(crate) unsafe fn execute(number: u32, service: c_int, request: &ibv_send_wr) {
    let pieces: Vec<ibv_sge> = (0..request.num_sge as usize)
        .map(|at| unsafe { *request.sg_list.add(at) })
        .collect();
    let length: u32 = pieces.iter().map(|piece| piece.length).sum();
    let gather = || -> Vec<u8> {
        let bytes = |piece: &ibv_sge| unsafe {
            std::slice::from_raw_parts(piece.addr as *const u8, piece.length as usize).to_vec()
        };
        pieces.iter().flat_map(bytes).collect()
    };
    let peer = with(|world| {
        let own = &world.qps[&number];
        let wanted = if service == QPT_UD {
            unsafe { request.wr.ud.remote_qpn }
        } else {
            own.attr.dest_qp_num
        };
        world.qps.contains_key(&wanted).then_some(wanted)
    });
    let imm = matches!(request.opcode, wr::SEND_WITH_IMM | wr::RDMA_WRITE_WITH_IMM);
    let mut opcode = WC_SEND;
    match request.opcode {
        wr::RDMA_WRITE | wr::RDMA_WRITE_WITH_IMM => {
            opcode = wc::RDMA_WRITE;
            let bytes = gather();
            if peer.is_some() {
                let to = unsafe { request.wr.rdma.remote_addr } as *mut u8;
                unsafe { copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
            }
        }
        wr::RDMA_READ => {
            opcode = wc::RDMA_READ;
            let mut from = unsafe { request.wr.rdma.remote_addr } as *const u8;
            for piece in pieces.iter().filter(|_| peer.is_some()) {
                unsafe { copy_nonoverlapping(from, piece.addr as *mut u8, piece.length as usize) };
                from = unsafe { from.add(piece.length as usize) };
            }
        }
        wr::ATOMIC_FETCH_AND_ADD | wr::ATOMIC_CMP_AND_SWP => {
            let atomic = unsafe { request.wr.atomic };
            let swaps = request.opcode == wr::ATOMIC_CMP_AND_SWP;
            opcode = if swaps { wc::COMP_SWAP } else { wc::FETCH_ADD };
            if peer.is_some() {
                let place = atomic.remote_addr as *mut u64;
                let old = unsafe { place.read() };
                let new = match swaps {
                    true if old == atomic.compare_add => atomic.swap,
                    true => old,
                    false => old.wrapping_add(atomic.compare_add),
                };
                unsafe { place.write(new) };
                unsafe { (pieces[0].addr as *mut u64).write(old) };
            }
        }
        wr::BIND_MW => opcode = wc::BIND_MW,
        wr::LOCAL_INV => opcode = wc::LOCAL_INV,
        _ => {}
    }
    let takes = matches!(
        request.opcode,
        wr::SEND | wr::SEND_WITH_IMM | wr::SEND_WITH_INV
    );
    if let Some(peer) = peer.filter(|_| takes || request.opcode == wr::RDMA_WRITE_WITH_IMM) {
        let bytes = if takes { gather() } else { Vec::new() };
        with(|world| {
            deliver(
                world,
                (number, peer),
                service == QPT_UD,
                request,
                (&bytes, length),
                imm,
            )
        });
    }
    if request.send_flags & send::SIGNALED != 0 {
        let wc = ibv_wc {
            wr_id: request.wr_id,
            opcode,
            byte_len: length,
            qp_num: number,
            ..ibv_wc::default()
        };
        with(|world| {
            let cq = world.qps[&number].send_cq;
            complete(world, cq, wc);
        });
    }
}

fn deliver(
    world: &mut World,
    (from, to): (u32, u32),
    datagram: bool,
    request: &ibv_send_wr,
    (bytes, length): (&[u8], u32),
    imm: bool,
) {
    let (srq, cq) = {
        let peer = &world.qps[&to];
        (peer.srq, peer.recv_cq)
    };
    let queue = match world.srqs.get_mut(&srq) {
        Some(queue) => queue,
        None => &mut world.qps.get_mut(&to).unwrap().receives,
    };
    let Some(receive) = queue.pop_front() else {
        return;
    };
    // What is in front of a datagram: its GRH.
    let head = if datagram { vec![0x60; 40] } else { Vec::new() };
    let mut rest = [&head[..], bytes].concat();
    let arrived = rest.len() as u32;
    for piece in receive.pieces {
        let count = rest.len().min(piece.length as usize);
        unsafe { copy_nonoverlapping(rest.as_ptr(), piece.addr as *mut u8, count) };
        rest.drain(..count);
    }
    let takes_imm = if imm { wc::WITH_IMM } else { 0 };
    let inv = request.opcode == wr::SEND_WITH_INV;
    complete(
        world,
        cq,
        ibv_wc {
            wr_id: receive.wr_id,
            opcode: if request.opcode == wr::RDMA_WRITE_WITH_IMM {
                wc::RECV_RDMA_WITH_IMM
            } else {
                wc::RECV
            },
            byte_len: if request.opcode == wr::RDMA_WRITE_WITH_IMM {
                length
            } else {
                arrived
            },
            imm_or_rkey: request.imm_or_rkey,
            qp_num: to,
            src_qp: from,
            wc_flags: takes_imm | if inv { wc::WITH_INV } else { 0 },
            ..ibv_wc::default()
        },
    );
}
