//! The verbs calls: objects made, modified, posted to, polled and destroyed.

use core::net::IpAddr;

use roce_wire::Qpn;

use super::Engine;
use super::demux::{index_of, qpn_of};
use crate::cq::CompletionQueue;
use crate::qp::Qp as QueuePair;
use crate::verbs::{
    Access, Completion, Cq, CqError, CreateError, ModifyError, Mr, Pd, PostError, Qp, QpAttr,
    QpInfo, QpInit, RecvWr, Region, RegisterError, SendWr,
};

impl Engine {
    /// Makes a protection domain.
    ///
    /// # Errors
    ///
    /// There are no more.
    pub fn alloc_pd(&mut self) -> Result<Pd, CreateError> {
        self.shared.memory.alloc_pd()
    }

    /// Destroys a protection domain.
    ///
    /// # Errors
    ///
    /// It does not exist or is used.
    pub fn dealloc_pd(&mut self, pd: Pd) -> Result<(), CreateError> {
        self.shared.memory.dealloc_pd(pd)
    }

    /// Registers memory.
    ///
    /// # Errors
    ///
    /// Illegal rights, an unknown domain, or no more regions.
    pub fn register(
        &mut self,
        pd: Pd,
        region: &Region,
        access: Access,
    ) -> Result<Mr, RegisterError> {
        self.shared.memory.register(pd, region, access)
    }

    /// Ends a registration.
    ///
    /// # Errors
    ///
    /// It does not exist.
    pub fn deregister(&mut self, mr: Mr) -> Result<(), CreateError> {
        self.shared.memory.deregister(mr)
    }

    /// Makes a completion queue.
    ///
    /// # Errors
    ///
    /// Too deep, or no more.
    pub fn create_cq(&mut self, depth: u32) -> Result<Cq, CreateError> {
        check("CQ depth", depth, self.shared.config.max_cqe)?;
        let limit = self.shared.cqs.limit();
        let (index, generation) =
            self.shared
                .cqs
                .insert(CompletionQueue::new(depth))
                .ok_or(CreateError::Exhausted {
                    what: "completion queues",
                    limit,
                })?;
        Ok(Cq(generation << 16 | index))
    }

    /// Destroys a completion queue.
    ///
    /// # Errors
    ///
    /// It does not exist or a QP uses it.
    pub fn destroy_cq(&mut self, cq: Cq) -> Result<(), CreateError> {
        let queue = self.shared.cq(cq).ok_or(CreateError::NoSuchObject("CQ"))?;
        if queue.users > 0 {
            return Err(CreateError::InUse {
                what: "CQ",
                by: "QP",
            });
        }
        self.shared.cqs.remove(cq.0 & 0xffff);
        Ok(())
    }

    /// Makes a queue pair in RESET.
    ///
    /// # Errors
    ///
    /// A size above its limit, a handle that does not exist, a service that is not there, no more QPs.
    pub fn create_qp(&mut self, init: &QpInit) -> Result<Qp, CreateError> {
        let config = &self.shared.config;
        let caps = &init.caps;
        check("max_send_wr", caps.max_send_wr, config.max_qp_wr)?;
        check("max_recv_wr", caps.max_recv_wr, config.max_qp_wr)?;
        check("max_send_sge", caps.max_send_sge, config.max_sge)?;
        check("max_recv_sge", caps.max_recv_sge, config.max_sge)?;
        check("max_inline", caps.max_inline, config.max_inline)?;
        for cq in [init.send_cq, init.recv_cq] {
            self.shared.cq(cq).ok_or(CreateError::NoSuchObject("CQ"))?;
        }
        if let Some(srq) = init.srq {
            self.shared
                .srq(srq)
                .ok_or(CreateError::NoSuchObject("SRQ"))?;
        }
        let limit = self.qps.limit();
        let (index, generation) = self
            .qps
            .vacant()
            .ok_or(CreateError::Exhausted { what: "QPs", limit })?;
        self.shared.memory.hold_pd(init.pd)?;
        for cq in [init.send_cq, init.recv_cq] {
            if let Some(queue) = self.shared.cq(cq) {
                queue.users += 1;
            }
        }
        if let Some(srq) = init.srq.and_then(|srq| self.shared.srq_mut(srq)) {
            srq.users += 1;
        }
        let qpn = qpn_of(index, generation, self.qpn_parity);
        self.qps.insert(QueuePair::new(qpn, index, *init));
        // Room for every QP to be ready is taken here, so that no turn allocates.
        self.shared.ready.reserve(self.qps.index_bound() as usize);
        self.shared.woken.reserve(self.qps.index_bound() as usize);
        Ok(Qp(qpn.value()))
    }

    /// Destroys a queue pair with all that is posted to it.
    ///
    /// # Errors
    ///
    /// It does not exist.
    pub fn destroy_qp(&mut self, qp: Qp) -> Result<(), CreateError> {
        let index = self.index(qp).ok_or(CreateError::NoSuchObject("QP"))?;
        let Some(mut queue_pair) = self.qps.remove(index) else {
            return Ok(());
        };
        queue_pair.close(&mut self.shared);
        self.shared.ready.retain(|&ready| ready != index);
        self.shared.woken.retain(|&woken| woken != index);
        let init = queue_pair.init;
        self.shared.memory.release_pd(init.pd);
        if let Some(srq) = init.srq.and_then(|srq| self.shared.srq_mut(srq)) {
            srq.users -= 1;
        }
        for cq in [init.send_cq, init.recv_cq] {
            if let Some(queue) = self.shared.cq(cq) {
                queue.users -= 1;
            }
        }
        Ok(())
    }

    /// Changes a queue pair. `source_port` turns (local address, wanted port) into a port that the
    /// link can send from.
    ///
    /// # Errors
    ///
    /// Names what is missing, forbidden or out of range; nothing was changed.
    pub fn modify_qp(
        &mut self,
        qp: Qp,
        attr: &QpAttr,
        source_port: impl FnOnce(IpAddr, u16) -> u16,
    ) -> Result<(), ModifyError> {
        let index = self.index(qp).ok_or(ModifyError::NoSuchQp)?;
        let queue_pair = self.qps.at_mut(index).ok_or(ModifyError::NoSuchQp)?;
        let result = queue_pair.modify(&mut self.shared, &self.port, attr, source_port);
        self.settle_overflow();
        result
    }

    /// Returns what a queue pair is.
    ///
    /// # Errors
    ///
    /// It does not exist.
    pub fn query_qp(&self, qp: Qp) -> Result<QpInfo, CreateError> {
        let index = self.index(qp).ok_or(CreateError::NoSuchObject("QP"))?;
        let queue_pair = self.qps.at(index).ok_or(CreateError::NoSuchObject("QP"))?;
        Ok(queue_pair.info())
    }

    /// Posts send requests in order.
    ///
    /// # Errors
    ///
    /// The first that can't be posted; those before it are.
    pub fn post_send(&mut self, qp: Qp, requests: &[SendWr<'_>]) -> Result<(), PostError> {
        let index = self.index(qp).ok_or(PostError::NoSuchQp)?;
        let queue_pair = self.qps.at_mut(index).ok_or(PostError::NoSuchQp)?;
        for (posted, wr) in requests.iter().enumerate() {
            queue_pair
                .post_send(&mut self.shared, wr)
                .map_err(|error| count(error, posted))?;
        }
        self.settle_overflow();
        Ok(())
    }

    /// Posts receive requests in order.
    ///
    /// # Errors
    ///
    /// The first that can't be posted; those before it are.
    pub fn post_recv(&mut self, qp: Qp, requests: &[RecvWr<'_>]) -> Result<(), PostError> {
        let index = self.index(qp).ok_or(PostError::NoSuchQp)?;
        let queue_pair = self.qps.at_mut(index).ok_or(PostError::NoSuchQp)?;
        for (posted, wr) in requests.iter().enumerate() {
            queue_pair
                .post_recv(&mut self.shared, wr)
                .map_err(|error| count(error, posted))?;
        }
        self.settle_overflow();
        Ok(())
    }

    /// Takes completions.
    ///
    /// # Errors
    ///
    /// The CQ does not exist, or has overflowed and everything before the overflow was taken.
    pub fn take_completions(&mut self, cq: Cq, out: &mut [Completion]) -> Result<usize, CqError> {
        let queue = self.shared.cq(cq).ok_or(CqError::NoSuchCq)?;
        let taken = queue.take(out);
        if taken == 0 && queue.overflowed() && !out.is_empty() {
            return Err(CqError::Overflow);
        }
        Ok(taken)
    }

    /// Returns whether completions wait in a CQ.
    pub fn has_completions(&mut self, cq: Cq) -> bool {
        self.shared.cq(cq).is_some_and(|queue| !queue.is_empty())
    }

    /// Arms a CQ.
    ///
    /// # Errors
    ///
    /// It does not exist.
    pub fn arm_cq(&mut self, cq: Cq, solicited_only: bool) -> Result<(), CqError> {
        self.shared
            .cq(cq)
            .ok_or(CqError::NoSuchCq)?
            .arm(solicited_only);
        Ok(())
    }

    /// Takes the notification of an armed CQ; false if nothing came that it was armed for.
    pub fn take_notification(&mut self, cq: Cq) -> bool {
        self.shared
            .cq(cq)
            .is_some_and(CompletionQueue::take_notification)
    }

    fn index(&self, qp: Qp) -> Option<u32> {
        let index = index_of(Qpn::new(qp.0));
        self.qps
            .at(index)
            .filter(|found| found.qpn.value() == qp.0)
            .map(|_| index)
    }
}

pub(super) fn check(what: &'static str, asked: u32, limit: u32) -> Result<(), CreateError> {
    if asked > limit {
        return Err(CreateError::TooLarge {
            what,
            asked: asked.into(),
            limit: limit.into(),
        });
    }
    Ok(())
}

/// Puts the number of posted requests into an error of the call.
const fn count(error: PostError, posted: usize) -> PostError {
    match error {
        PostError::QueueFull { .. } => PostError::QueueFull { posted },
        other => other,
    }
}
