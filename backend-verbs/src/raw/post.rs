//! The data path: through the pointers in the context's table, as the header's inline functions do, with work
//! requests built in place. Nothing is allocated.
#![expect(unsafe_code, reason = "the calls through the provider's table")]

use core::cell::Cell;
use core::ffi::c_int;
use core::ptr::null_mut;

use super::{Errno, Object, last_errno};
use crate::sys::{
    ibv_ah, ibv_cq, ibv_mr, ibv_mw, ibv_qp, ibv_recv_wr, ibv_send_wr, ibv_sge, ibv_srq, ibv_wc,
    wr_bind_mw, wr_rdma, wr_remote, wr_ud,
};

/// Work requests that one call of the library takes.
pub(crate) const REQUESTS: usize = 64;
/// Pieces of memory of all of them.
pub(crate) const PIECES: usize = 256;
/// Completions that one call of the library brings.
pub(crate) const COMPLETIONS: usize = 64;

/// A request that was refused: how many before it were posted, and why.
pub(crate) struct Refused {
    pub(crate) posted: usize,
    pub(crate) errno: Errno,
}

/// A list of work requests of one kind under construction, with the pieces that they name.
pub(crate) struct Batch<W> {
    // Cells, so that the pointers from one request to the next and to its pieces stay good while others are written.
    requests: Box<[Cell<W>]>,
    pieces: Box<[Cell<ibv_sge>]>,
    used: usize,
    used_pieces: usize,
}

impl<W: Linked> Batch<W> {
    pub(crate) fn new(empty: W) -> Self {
        Self {
            requests: (0..REQUESTS).map(|_| Cell::new(empty)).collect(),
            pieces: (0..PIECES).map(|_| Cell::new(ibv_sge::default())).collect(),
            used: 0,
            used_pieces: 0,
        }
    }

    /// Starts an empty list.
    pub(crate) const fn clear(&mut self) {
        self.used = 0;
        self.used_pieces = 0;
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Returns whether one more request with so many pieces has room.
    pub(crate) const fn has_room(&self, pieces: usize) -> bool {
        self.used < REQUESTS && self.used_pieces + pieces <= PIECES
    }

    /// Adds a piece of the request that comes next.
    #[inline]
    pub(crate) fn piece(&mut self, piece: ibv_sge) {
        self.pieces[self.used_pieces].set(piece);
        self.used_pieces += 1;
    }

    /// Adds a request with the last `count` pieces; `make` is given them and their number.
    #[inline]
    pub(crate) fn push(&mut self, count: usize, make: impl FnOnce(*mut ibv_sge, c_int) -> W) {
        let from = self.used_pieces - count;
        let start = self.pieces[from..].as_ptr().cast_mut().cast::<ibv_sge>();
        let request = &self.requests[self.used];
        request.set(make(start, count as c_int));
        if let Some(before) = self.used.checked_sub(1) {
            let before = &self.requests[before];
            let mut linked = before.get();
            linked.set_next(request.as_ptr());
            before.set(linked);
        }
        self.used += 1;
    }

    fn place_of(&self, bad: *mut W) -> usize {
        let place = |cell: &Cell<W>| cell.as_ptr() == bad;
        // A provider that names no request has taken none.
        self.requests[..self.used]
            .iter()
            .position(place)
            .unwrap_or(0)
    }
}

/// A request of a chained list, which is made as the last of its list.
pub(crate) trait Linked: Copy {
    /// Sets the request that comes after this one.
    fn set_next(&mut self, next: *mut Self);
}

impl Linked for ibv_send_wr {
    fn set_next(&mut self, next: *mut Self) {
        self.next = next;
    }
}

impl Linked for ibv_recv_wr {
    fn set_next(&mut self, next: *mut Self) {
        self.next = next;
    }
}

/// A provider's call that posts a chained list to a `Q`; one that it has not got is `None`.
type Call<Q, W> = Option<unsafe extern "C" fn(*mut Q, *mut W, *mut *mut W) -> c_int>;

impl<Q> Object<Q> {
    /// Posts a list by a call of the provider's table.
    ///
    /// # Safety
    ///
    /// `call` posts to a `Q` of this object's context.
    #[inline]
    unsafe fn post<W: Linked>(&self, call: Call<Q, W>, batch: &Batch<W>) -> Result<(), Refused> {
        let mut bad = null_mut();
        let code = match call {
            None => libc::EOPNOTSUPP,
            Some(call) => {
                let first = batch.requests[0].as_ptr();
                // SAFETY: the object is alive; requests and pieces are linked, and outlive the call.
                unsafe { call(self.raw.as_ptr(), first, &raw mut bad) }
            }
        };
        if code == 0 {
            return Ok(());
        }
        let errno = if code > 0 { code } else { last_errno() };
        Err(Refused {
            posted: batch.place_of(bad),
            errno,
        })
    }
}

impl Object<ibv_qp> {
    /// Posts a list. Inline pieces point at bytes that live during the call.
    #[inline]
    pub(crate) fn post_send(&self, batch: &Batch<ibv_send_wr>) -> Result<(), Refused> {
        // SAFETY: a context's table does not change while it is open.
        let call = unsafe { (*self.context.raw.as_ptr()).ops.post_send };
        // SAFETY: the call is of this QP's context.
        unsafe { self.post(call, batch) }
    }

    /// Posts a list of receives.
    #[inline]
    pub(crate) fn post_recv(&self, batch: &Batch<ibv_recv_wr>) -> Result<(), Refused> {
        // SAFETY: a context's table does not change while it is open.
        let call = unsafe { (*self.context.raw.as_ptr()).ops.post_recv };
        // SAFETY: the call is of this QP's context.
        unsafe { self.post(call, batch) }
    }
}

impl Object<ibv_srq> {
    /// Posts a list of receives.
    #[inline]
    pub(crate) fn post_recv(&self, batch: &Batch<ibv_recv_wr>) -> Result<(), Refused> {
        // SAFETY: a context's table does not change while it is open.
        let call = unsafe { (*self.context.raw.as_ptr()).ops.post_srq_recv };
        // SAFETY: the call is of this SRQ's context.
        unsafe { self.post(call, batch) }
    }
}

impl Object<ibv_cq> {
    /// Takes completions into `out`; returns how many.
    #[inline]
    pub(crate) fn poll(&self, out: &mut [ibv_wc]) -> Result<usize, c_int> {
        // SAFETY: a context's table does not change while it is open.
        let poll = unsafe { (*self.context.raw.as_ptr()).ops.poll_cq };
        let poll = poll.ok_or(-libc::EOPNOTSUPP)?;
        // SAFETY: the CQ is alive; `out` has room for as many as are asked for.
        let count = unsafe { poll(self.raw.as_ptr(), out.len() as c_int, out.as_mut_ptr()) };
        let taken = usize::try_from(count).map_err(|_| count)?;
        Ok(taken.min(out.len()))
    }

    /// Asks for one event by the next completion.
    pub(crate) fn arm(&self, solicited_only: bool) -> Result<(), Errno> {
        // SAFETY: a context's table does not change while it is open.
        let request = unsafe { (*self.context.raw.as_ptr()).ops.req_notify_cq };
        let request = request.ok_or(libc::EOPNOTSUPP)?;
        // SAFETY: the CQ is alive.
        super::check(unsafe { request(self.raw.as_ptr(), solicited_only.into()) })
    }
}

/// Returns a send request with nothing in it.
pub(crate) const fn empty_send() -> ibv_send_wr {
    ibv_send_wr {
        wr_id: 0,
        next: null_mut(),
        sg_list: null_mut(),
        num_sge: 0,
        opcode: 0,
        send_flags: 0,
        imm_or_rkey: 0,
        wr: wr_remote {
            // The longest of the union, so that all of it has a value.
            atomic: crate::sys::wr_atomic {
                remote_addr: 0,
                compare_add: 0,
                swap: 0,
                rkey: 0,
            },
        },
        xrc_remote_srqn: 0,
        bind_mw: wr_bind_mw {
            mw: null_mut(),
            rkey: 0,
            mr: null_mut(),
            addr: 0,
            length: 0,
            access: 0,
        },
    }
}

/// Returns a receive request with nothing in it.
pub(crate) const fn empty_recv() -> ibv_recv_wr {
    ibv_recv_wr {
        wr_id: 0,
        next: null_mut(),
        sg_list: null_mut(),
        num_sge: 0,
    }
}

/// Returns where an RDMA request goes.
pub(crate) const fn rdma(remote_addr: u64, rkey: u32) -> wr_remote {
    wr_remote {
        rdma: wr_rdma { remote_addr, rkey },
    }
}

/// Returns where a datagram goes.
pub(crate) fn datagram(ah: &Object<ibv_ah>, remote_qpn: u32, remote_qkey: u32) -> wr_remote {
    wr_remote {
        ud: wr_ud {
            ah: ah.raw.as_ptr(),
            remote_qpn,
            remote_qkey,
        },
    }
}

/// What of a region a window is bound to.
pub(crate) struct Bound {
    pub(crate) rkey: u32,
    pub(crate) addr: u64,
    pub(crate) length: u64,
    pub(crate) access: u32,
}

/// Returns how a window is bound.
pub(crate) fn bind(mw: &Object<ibv_mw>, mr: &Object<ibv_mr>, bound: &Bound) -> wr_bind_mw {
    wr_bind_mw {
        mw: mw.raw.as_ptr(),
        rkey: bound.rkey,
        mr: mr.raw.as_ptr(),
        addr: bound.addr,
        length: bound.length,
        access: bound.access,
    }
}
