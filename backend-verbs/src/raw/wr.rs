//! Send requests by `ibv_wr_*`: each is written into the provider's queue by a call of its own, between a start and
//! an end, through the pointers in the QP, as the header's inline functions do.
#![expect(
    unsafe_code,
    reason = "the calls through the QP's table, and making such a QP"
)]

use core::ffi::{c_int, c_uint, c_void};
use core::ptr::{NonNull, null_mut};

use roce_engine::verbs::SendOp;

use super::post::{Bound, PIECES};
use super::{Context, Errno, Object, QpParts, last_errno};
use crate::sys::ex::{Bare, ibv_qp_ex, ibv_qp_init_attr_ex, mw_bind_info, op};
use crate::sys::{ibv_ah, ibv_context, ibv_mr, ibv_mw, ibv_qp, ibv_qp_init_attr, ibv_sge};

/// A provider's call that makes a QP for these operations.
type CreateQpEx = unsafe extern "C" fn(*mut ibv_context, *mut ibv_qp_init_attr_ex) -> *mut ibv_qp;

impl Context {
    /// Returns the call of the extended table, in libraries that can hand such a QP out as well.
    fn create_qp_ex(&self) -> Option<CreateQpEx> {
        self.api.ibv_qp_to_qp_ex?;
        let outer = self.extended()?;
        // SAFETY: the table is at least as long as ours, so that it has this entry.
        unsafe { (*outer.as_ptr()).create_qp_ex }
    }
}

impl Object<ibv_qp> {
    /// As [`Self::create`], with send requests by `ibv_wr_*` for these operations.
    pub(crate) fn create_ex(
        pd: &Object<crate::sys::ibv_pd>,
        parts: &QpParts<'_>,
        init: &mut ibv_qp_init_attr,
        operations: u64,
    ) -> Result<Self, Errno> {
        let create = pd.context.create_qp_ex().ok_or(libc::EOPNOTSUPP)?;
        parts.name_in(init);
        let mut extended = ibv_qp_init_attr_ex::of(init, pd.raw.as_ptr(), operations);
        // SAFETY: all objects are alive, `extended` outlives the call.
        let raw = unsafe { create(pd.context.raw.as_ptr(), &raw mut extended) };
        let made = Self::new(&pd.context, raw)?;
        init.cap = extended.cap;
        Ok(made)
    }

    fn extended(&self) -> Option<NonNull<ibv_qp_ex>> {
        let convert = self.api().ibv_qp_to_qp_ex?;
        // SAFETY: the QP is alive; the library returns null for one that was made without operations.
        NonNull::new(unsafe { convert(self.raw.as_ptr()) })
    }

    /// Returns the operations that it has all calls for: none if it was made without, or lacks what all of them need.
    pub(crate) fn operations(&self) -> u64 {
        let Some(qp) = self.extended() else { return 0 };
        // SAFETY: the QP is alive, and nothing changes its table.
        let table = unsafe { qp.as_ref() };
        let batches =
            table.wr_start.is_some() && table.wr_complete.is_some() && table.wr_abort.is_some();
        let data = table.wr_set_sge.is_some()
            && table.wr_set_sge_list.is_some()
            && table.wr_set_inline_data.is_some();
        if !batches || !data {
            return 0;
        }
        [
            (op::RDMA_WRITE, table.wr_rdma_write.is_some()),
            (op::RDMA_WRITE_WITH_IMM, table.wr_rdma_write_imm.is_some()),
            (op::SEND, table.wr_send.is_some()),
            (op::SEND_WITH_IMM, table.wr_send_imm.is_some()),
            (op::RDMA_READ, table.wr_rdma_read.is_some()),
            (op::ATOMIC_CMP_AND_SWP, table.wr_atomic_cmp_swp.is_some()),
            (
                op::ATOMIC_FETCH_AND_ADD,
                table.wr_atomic_fetch_add.is_some(),
            ),
            (op::LOCAL_INV, table.wr_local_inv.is_some()),
            (op::BIND_MW, table.wr_bind_mw.is_some()),
            (op::SEND_WITH_INV, table.wr_send_inv.is_some()),
        ]
        .into_iter()
        .filter(|(_, there)| *there)
        .map(|(bit, _)| bit)
        .sum()
    }

    /// Starts a batch of requests; none if the QP does not take them this way. The batch has the only places for
    /// pieces, so that there is no second one beside it.
    ///
    /// The queue has to have room for all of its requests: a provider that finds it full may have written over others
    /// by then.
    #[inline]
    pub(crate) fn start<'w>(&'w self, places: &'w mut Places) -> Option<Writer<'w>> {
        let qp = self.extended()?;
        // SAFETY: the QP is alive; its table does not change.
        let start = unsafe { (*qp.as_ptr()).wr_start }?;
        // SAFETY: the call is of this QP, and no batch is open: a writer ends when it is dropped, and only one thread
        // has the device.
        unsafe { start(qp.as_ptr()) };
        Some(Writer {
            qp,
            places,
            begun: false,
        })
    }
}

/// Places for the pieces of a request.
pub(crate) type Places = Box<[ibv_sge; PIECES]>;

/// A batch of requests that was started. One that is dropped before its end is taken back.
pub(crate) struct Writer<'w> {
    qp: NonNull<ibv_qp_ex>,
    places: &'w mut Places,
    /// Whether a request was begun, which data is given to.
    begun: bool,
}

/// How a request binds which window to which region.
pub(crate) type Binding<'o> = (&'o Object<ibv_mw>, &'o Object<ibv_mr>, Bound);

/// The QP has no call for an operation that it was not made for.
#[derive(Debug)]
pub(crate) struct NoSuchCall;

impl Writer<'_> {
    fn table(&self) -> &ibv_qp_ex {
        // SAFETY: the QP is alive. The provider changes its part of the structure only inside of its calls, during
        // which no reference from here is alive: the callers copy a pointer out of the table.
        unsafe { self.qp.as_ref() }
    }

    /// Begins a request; `binding` is that of a window.
    #[inline]
    pub(crate) fn request(
        &mut self,
        wr_id: u64,
        flags: c_uint,
        op: &SendOp,
        binding: Option<&Binding<'_>>,
    ) -> Result<(), NoSuchCall> {
        let qp = self.qp.as_ptr();
        // SAFETY: the two fields are the caller's to set between the calls.
        unsafe { (*qp).wr_id = wr_id };
        // SAFETY: as above.
        unsafe { (*qp).wr_flags = flags };
        macro_rules! call {
            ($name:ident $(, $argument:expr)*) => {{
                let call = self.table().$name.ok_or(NoSuchCall)?;
                // SAFETY: the call is of this QP, whose batch is open; objects that are named are alive.
                unsafe { call(qp $(, $argument)*) }
            }};
        }
        match *op {
            SendOp::Send | SendOp::Datagram { imm: None, .. } => call!(wr_send),
            SendOp::SendImm(imm) | SendOp::Datagram { imm: Some(imm), .. } => {
                call!(wr_send_imm, u32::from_ne_bytes(imm));
            }
            SendOp::SendInv(rkey) => call!(wr_send_inv, rkey.0),
            SendOp::Write { addr, rkey } => call!(wr_rdma_write, rkey.0, addr),
            SendOp::WriteImm { addr, rkey, imm } => {
                call!(wr_rdma_write_imm, rkey.0, addr, u32::from_ne_bytes(imm));
            }
            SendOp::Read { addr, rkey } => call!(wr_rdma_read, rkey.0, addr),
            SendOp::CompareSwap {
                addr,
                rkey,
                compare,
                swap,
            } => call!(wr_atomic_cmp_swp, rkey.0, addr, compare, swap),
            SendOp::FetchAdd { addr, rkey, add } => {
                call!(wr_atomic_fetch_add, rkey.0, addr, add);
            }
            SendOp::LocalInv(rkey) => call!(wr_local_inv, rkey.0),
            SendOp::BindMw { .. } => {
                let (window, region, bound) = binding.ok_or(NoSuchCall)?;
                let info = mw_bind_info {
                    mr: region.raw.as_ptr(),
                    addr: bound.addr,
                    length: bound.length,
                    access: bound.access,
                };
                call!(wr_bind_mw, window.raw.as_ptr(), bound.rkey, &raw const info);
            }
        }
        self.begun = true;
        Ok(())
    }

    /// Says where the datagram that was begun goes.
    #[inline]
    pub(crate) fn to(
        &mut self,
        ah: &Object<ibv_ah>,
        qpn: u32,
        qkey: u32,
    ) -> Result<(), NoSuchCall> {
        let call = self.table().wr_set_ud_addr.filter(|_| self.begun);
        let call = call.ok_or(NoSuchCall)?;
        // SAFETY: the QP's batch is open and has a request, the address handle is alive.
        unsafe { call(self.qp.as_ptr(), ah.raw.as_ptr(), qpn, qkey) };
        Ok(())
    }

    /// Gives the request that was begun its pieces of memory, at most [`PIECES`].
    #[inline]
    pub(crate) fn pieces<P>(&mut self, pieces: &[P]) -> Result<(), NoSuchCall>
    where
        for<'p> ibv_sge: From<&'p P>,
    {
        let qp = self.qp.as_ptr();
        if let [piece] = pieces {
            let call = self.table().wr_set_sge.filter(|_| self.begun);
            let call = call.ok_or(NoSuchCall)?;
            let ibv_sge { addr, length, lkey } = piece.into();
            // SAFETY: the QP's batch is open and has a request; keys are the device's to check.
            unsafe { call(qp, lkey, addr, length) };
        } else {
            let call = self.table().wr_set_sge_list.filter(|_| self.begun);
            let call = call.ok_or(NoSuchCall)?;
            let list = self.places.get_mut(..pieces.len()).ok_or(NoSuchCall)?;
            for (to, from) in list.iter_mut().zip(pieces) {
                *to = from.into();
            }
            // SAFETY: the QP's batch is open and has a request; the list is as long as is said, and is read during
            // the call.
            unsafe { call(qp, list.len(), list.as_ptr()) };
        }
        Ok(())
    }

    /// Has bytes copied into the request that was begun.
    #[inline]
    pub(crate) fn copied(&mut self, bytes: &[u8]) -> Result<(), NoSuchCall> {
        let call = self.table().wr_set_inline_data.filter(|_| self.begun);
        let call = call.ok_or(NoSuchCall)?;
        let start = bytes.as_ptr().cast_mut().cast::<c_void>();
        // SAFETY: the QP's batch is open and has a request; the bytes are read during the call, and not written.
        unsafe { call(self.qp.as_ptr(), start, bytes.len()) };
        Ok(())
    }

    /// Posts the batch: all of it or, with an errno, nothing.
    #[inline]
    pub(crate) fn complete(self) -> Result<(), Errno> {
        let qp = self.qp.as_ptr();
        let Some(call) = self.table().wr_complete else {
            return Err(libc::EOPNOTSUPP);
        };
        core::mem::forget(self);
        // SAFETY: the QP's batch is open, and ended here once.
        let code: c_int = unsafe { call(qp) };
        match code {
            0 => Ok(()),
            -1 => Err(last_errno()),
            // Some providers return it negated.
            _ => Err(code.abs()),
        }
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        let abort: Bare = self.table().wr_abort;
        if let Some(abort) = abort {
            // SAFETY: the QP's batch is open, and ended here once.
            unsafe { abort(self.qp.as_ptr()) };
        }
    }
}

impl QpParts<'_> {
    /// Names the queues in the library's structure.
    pub(super) fn name_in(&self, init: &mut ibv_qp_init_attr) {
        init.send_cq = self.send_cq.raw.as_ptr();
        init.recv_cq = self.recv_cq.raw.as_ptr();
        init.srq = self.srq.map_or(null_mut(), |srq| srq.raw.as_ptr());
    }
}
