//! The rarer objects: shared receive queues, address handles, memory windows.

use core::net::IpAddr;

use super::Engine;
use super::objects::check;
use crate::path::{self, Route};
use crate::shared::AddressHandle;
use crate::srq::SharedReceives;
use crate::verbs::{AddressVector, Ah, Cq, CreateError, Mw, Pd, PostError, Qpn, RecvWr, Srq};

impl Engine {
    /// Changes the depth of a completion queue.
    ///
    /// # Errors
    ///
    /// It does not exist, too deep, or more waits than it would hold.
    pub fn resize_cq(&mut self, cq: Cq, depth: u32) -> Result<(), CreateError> {
        check("CQ depth", depth, self.shared.config.max_cqe)?;
        let queue = self.shared.cq(cq).ok_or(CreateError::NoSuchObject("CQ"))?;
        if queue.resize(depth) {
            return Ok(());
        }
        Err(CreateError::InUse {
            what: "CQ's larger depth",
            by: "completion that waits",
        })
    }

    /// Makes a shared receive queue.
    ///
    /// # Errors
    ///
    /// Too large, an unknown domain, or no more.
    pub fn create_srq(&mut self, pd: Pd, max_wr: u32, max_sge: u32) -> Result<Srq, CreateError> {
        check("max_wr", max_wr, self.shared.config.max_qp_wr)?;
        check("max_sge", max_sge, self.shared.config.max_sge)?;
        let limit = self.shared.srqs.limit();
        self.shared.memory.hold_pd(pd)?;
        match self
            .shared
            .srqs
            .insert(SharedReceives::new(pd, max_wr, max_sge))
        {
            Some((index, generation)) => Ok(Srq(generation << 16 | index)),
            None => {
                self.shared.memory.release_pd(pd);
                Err(CreateError::Exhausted {
                    what: "SRQs",
                    limit,
                })
            }
        }
    }

    /// Asks for an event when fewer than `limit` receives are left.
    ///
    /// # Errors
    ///
    /// It does not exist, or the limit is above its size.
    pub fn arm_srq(&mut self, srq: Srq, limit: u32) -> Result<(), CreateError> {
        let queue = self
            .shared
            .srq_mut(srq)
            .ok_or(CreateError::NoSuchObject("SRQ"))?;
        check("SRQ limit", limit, queue.queue.depth())?;
        queue.arm(limit);
        Ok(())
    }

    /// Destroys a shared receive queue.
    ///
    /// # Errors
    ///
    /// It does not exist or a QP uses it.
    pub fn destroy_srq(&mut self, srq: Srq) -> Result<(), CreateError> {
        let queue = self
            .shared
            .srq(srq)
            .ok_or(CreateError::NoSuchObject("SRQ"))?;
        if queue.users > 0 {
            return Err(CreateError::InUse {
                what: "SRQ",
                by: "QP",
            });
        }
        let pd = queue.pd;
        self.shared.srqs.remove(srq.0 & 0xffff);
        self.shared.memory.release_pd(pd);
        Ok(())
    }

    /// Posts receives to a shared receive queue in order.
    ///
    /// # Errors
    ///
    /// The first that can't be posted; those before it are.
    pub fn post_srq_recv(&mut self, srq: Srq, requests: &[RecvWr<'_>]) -> Result<(), PostError> {
        let queue = self.shared.srq_mut(srq).ok_or(PostError::NoSuchSrq)?;
        for (posted, wr) in requests.iter().enumerate() {
            if wr.sges.len() > queue.queue.max_sge() as usize {
                return Err(PostError::TooManySges);
            }
            if queue.queue.room() == 0 {
                return Err(PostError::QueueFull { posted });
            }
            queue.queue.push(wr.wr_id, wr.sges);
        }
        Ok(())
    }

    /// Makes an address handle. `source_port` is as in `modify_qp`.
    ///
    /// # Errors
    ///
    /// An address that can't be sent to, an unknown domain, or no more.
    pub fn create_ah(
        &mut self,
        pd: Pd,
        address: &AddressVector,
        source_port: impl FnOnce(IpAddr, u16) -> u16,
    ) -> Result<Ah, CreateError> {
        let local = path::local_gid(&self.port, address).map_err(CreateError::Device)?;
        let limit = self.shared.ahs.limit();
        let (index, generation) = self.shared.ahs.vacant().ok_or(CreateError::Exhausted {
            what: "address handles",
            limit,
        })?;
        self.shared.memory.hold_pd(pd)?;
        // Datagrams of one handle keep one port: its number spreads handles over ports.
        let wanted = path::source_port(address.flow_label, Qpn::new(index + 1), Qpn::new(1));
        let route = Route::new(local, address, wanted, source_port);
        self.shared.ahs.insert(AddressHandle { pd, route });
        Ok(Ah(generation << 16 | index))
    }

    /// Destroys an address handle.
    ///
    /// # Errors
    ///
    /// It does not exist.
    pub fn destroy_ah(&mut self, ah: Ah) -> Result<(), CreateError> {
        let pd = self
            .shared
            .ah(ah)
            .ok_or(CreateError::NoSuchObject("address handle"))?
            .pd;
        self.shared.ahs.remove(ah.0 & 0xffff);
        self.shared.memory.release_pd(pd);
        Ok(())
    }

    /// Makes a type 2 memory window.
    ///
    /// # Errors
    ///
    /// An unknown domain, or no more.
    pub fn alloc_mw(&mut self, pd: Pd) -> Result<Mw, CreateError> {
        self.shared.memory.alloc_mw(pd)
    }

    /// Destroys a memory window.
    ///
    /// # Errors
    ///
    /// It does not exist.
    pub fn dealloc_mw(&mut self, mw: Mw) -> Result<(), CreateError> {
        self.shared.memory.dealloc_mw(mw)
    }
}
