//! The objects of a device behind handles, and what uses what.

use roce_engine::verbs::{
    Ah, Completion, Cq, CreateError, Mr, Mw, PKey, Pd, Qp, QpAttr, QpInit, QpState, Qpn, Region,
    Srq, Status, WcOpcode,
};

use crate::error::{Call, sentence};
use crate::flight::Flight;
use crate::raw::{Destroy, Object};
use crate::slab::Slab;
use crate::sys::{ibv_ah, ibv_cq, ibv_mr, ibv_mw, ibv_pd, ibv_qp, ibv_srq};

/// A registration; the memory stays as long as it does.
#[derive(Debug)]
pub(crate) struct MrEntry {
    pub(crate) raw: Object<ibv_mr>,
    pub(crate) pd: Pd,
    pub(crate) region: Region,
}

/// A completion queue.
#[derive(Debug)]
pub(crate) struct CqEntry {
    pub(crate) raw: Object<ibv_cq>,
    pub(crate) armed: bool,
    pub(crate) notified: bool,
}

/// A shared receive queue.
#[derive(Debug)]
pub(crate) struct SrqEntry {
    pub(crate) raw: Object<ibv_srq>,
    pub(crate) pd: Pd,
    pub(crate) max_sge: u32,
}

/// An object that only its domain knows.
#[derive(Debug)]
pub(crate) struct Member<T> {
    pub(crate) raw: Object<T>,
    pub(crate) pd: Pd,
}

/// A queue pair.
#[derive(Debug)]
pub(crate) struct QpEntry {
    pub(crate) raw: Object<ibv_qp>,
    pub(crate) qpn: Qpn,
    /// The send requests that it takes by `ibv_wr_*`; none if it was made without.
    pub(crate) operations: u64,
    /// Counted for those only that take requests that way.
    pub(crate) flight: Flight,
    /// With the sizes that it really has.
    pub(crate) init: QpInit,
    /// As far as it was modified; the device may have put it into error since.
    pub(crate) state: QpState,
    pub(crate) attr: QpAttr,
    pub(crate) pkey: PKey,
}

/// All objects of a device.
#[derive(Debug)]
pub(crate) struct Objects {
    pub(crate) pds: Slab<Object<ibv_pd>>,
    pub(crate) mrs: Slab<MrEntry>,
    pub(crate) cqs: Slab<CqEntry>,
    pub(crate) srqs: Slab<SrqEntry>,
    pub(crate) ahs: Slab<Member<ibv_ah>>,
    pub(crate) mws: Slab<Member<ibv_mw>>,
    pub(crate) qps: Slab<QpEntry>,
    /// QPNs with their handles, in order: those whose requests are counted.
    pub(crate) counted: Vec<(Qpn, u32)>,
}

impl Objects {
    pub(crate) const fn new() -> Self {
        Self {
            pds: Slab::new(),
            mrs: Slab::new(),
            cqs: Slab::new(),
            srqs: Slab::new(),
            ahs: Slab::new(),
            mws: Slab::new(),
            qps: Slab::new(),
            counted: Vec::new(),
        }
    }

    /// Keeps a QP; returns its handle.
    pub(crate) fn insert_qp(&mut self, entry: QpEntry) -> u32 {
        let (qpn, counts) = (entry.qpn, entry.operations != 0);
        let handle = self.qps.insert(entry);
        if counts {
            let at = self.counted.partition_point(|(other, _)| *other < qpn);
            self.counted.insert(at, (qpn, handle));
        }
        handle
    }

    /// Notes which counted requests have completed.
    #[inline]
    pub(crate) fn completed(&mut self, completions: &[Completion]) {
        if self.counted.is_empty() {
            return;
        }
        for done in completions {
            let success = done.status == Status::Success;
            if success && matches!(done.opcode, WcOpcode::Recv | WcOpcode::RecvWriteImm) {
                continue;
            }
            let Ok(at) = self
                .counted
                .binary_search_by_key(&done.qpn, |(qpn, _)| *qpn)
            else {
                continue;
            };
            if let Some(entry) = self.qps.get_mut(self.counted[at].1) {
                entry.flight.completed(success);
            }
        }
    }

    pub(crate) fn pd(&self, pd: Pd) -> Result<&Object<ibv_pd>, CreateError> {
        self.pds.get(pd.0).ok_or(CreateError::NoSuchObject("PD"))
    }

    pub(crate) fn cq(&self, cq: Cq) -> Result<&CqEntry, CreateError> {
        self.cqs.get(cq.0).ok_or(CreateError::NoSuchObject("CQ"))
    }

    pub(crate) fn srq(&self, srq: Srq) -> Result<&SrqEntry, CreateError> {
        self.srqs.get(srq.0).ok_or(CreateError::NoSuchObject("SRQ"))
    }

    pub(crate) fn qp(&self, qp: Qp) -> Result<&QpEntry, CreateError> {
        self.qps.get(qp.0).ok_or(CreateError::NoSuchObject("QP"))
    }

    pub(crate) fn qp_mut(&mut self, qp: Qp) -> Result<&mut QpEntry, CreateError> {
        self.qps
            .get_mut(qp.0)
            .ok_or(CreateError::NoSuchObject("QP"))
    }

    pub(crate) fn remove_pd(&mut self, pd: Pd) -> Result<(), CreateError> {
        self.pd(pd)?;
        let users = [
            ("QP", self.qps.iter().any(|(_, qp)| qp.init.pd == pd)),
            ("SRQ", self.srqs.iter().any(|(_, srq)| srq.pd == pd)),
            ("memory region", self.mrs.iter().any(|(_, mr)| mr.pd == pd)),
            ("memory window", self.mws.iter().any(|(_, mw)| mw.pd == pd)),
            ("address handle", self.ahs.iter().any(|(_, ah)| ah.pd == pd)),
        ];
        unused("PD", &users)?;
        destroy(self.pds.remove(pd.0), "PD")
    }

    pub(crate) fn remove_cq(&mut self, cq: Cq) -> Result<(), CreateError> {
        let used = |qp: &QpEntry| qp.init.send_cq == cq || qp.init.recv_cq == cq;
        unused("CQ", &[("QP", self.qps.iter().any(|(_, qp)| used(qp)))])?;
        destroy(self.cqs.remove(cq.0).map(|entry| entry.raw), "CQ")
    }

    pub(crate) fn remove_srq(&mut self, srq: Srq) -> Result<(), CreateError> {
        let used = self.qps.iter().any(|(_, qp)| qp.init.srq == Some(srq));
        unused("SRQ", &[("QP", used)])?;
        destroy(self.srqs.remove(srq.0).map(|entry| entry.raw), "SRQ")
    }

    pub(crate) fn remove_mr(&mut self, mr: Mr) -> Result<(), CreateError> {
        let Some(MrEntry { raw, region, .. }) = self.mrs.remove(mr.handle) else {
            return Err(CreateError::NoSuchObject("memory region"));
        };
        let result = destroy(Some(raw), "memory region");
        if result.is_err() {
            // It is still registered, so that the device may still write there.
            core::mem::forget(region);
        }
        result
    }

    pub(crate) fn remove_mw(&mut self, mw: Mw) -> Result<(), CreateError> {
        destroy(
            self.mws.remove(mw.handle).map(|entry| entry.raw),
            "memory window",
        )
    }

    pub(crate) fn remove_ah(&mut self, ah: Ah) -> Result<(), CreateError> {
        destroy(
            self.ahs.remove(ah.0).map(|entry| entry.raw),
            "address handle",
        )
    }

    pub(crate) fn remove_qp(&mut self, qp: Qp) -> Result<(), CreateError> {
        self.counted.retain(|(_, handle)| *handle != qp.0);
        destroy(self.qps.remove(qp.0).map(|entry| entry.raw), "QP")
    }
}

impl Drop for Objects {
    /// Destroys what is left, users before what they use.
    fn drop(&mut self) {
        for qp in self.qps.drain() {
            let _refused = qp.raw.destroy();
        }
        for srq in self.srqs.drain() {
            let _refused = srq.raw.destroy();
        }
        for ah in self.ahs.drain() {
            let _refused = ah.raw.destroy();
        }
        for mw in self.mws.drain() {
            let _refused = mw.raw.destroy();
        }
        for mr in self.mrs.drain() {
            if mr.raw.destroy().is_err() {
                // The device may still write there.
                core::mem::forget(mr.region);
            }
        }
        for cq in self.cqs.drain() {
            let _refused = cq.raw.destroy();
        }
        for pd in self.pds.drain() {
            let _refused = pd.destroy();
        }
    }
}

/// Refuses to destroy what something uses.
fn unused(what: &'static str, users: &[(&'static str, bool)]) -> Result<(), CreateError> {
    match users.iter().find(|(_, uses)| *uses) {
        Some((by, _)) => Err(CreateError::InUse { what, by }),
        None => Ok(()),
    }
}

/// Destroys an object that was taken out of its table. One that the library keeps is the kernel's to take back.
fn destroy<T>(object: Option<Object<T>>, what: &'static str) -> Result<(), CreateError>
where
    Object<T>: Destroy,
{
    let object = object.ok_or(CreateError::NoSuchObject(what))?;
    object
        .destroy()
        .map_err(|errno| CreateError::Device(sentence(Call::Destroy, what, errno)))
}
