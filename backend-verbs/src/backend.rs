//! The verbs seam over a device.

use core::time::Duration;

use roce_engine::verbs::{
    Access, AddressVector, Ah, AsyncEvent, Backend, Completion, Cq, CqError, CreateError,
    DeviceAttr, DeviceError, LKey, ModifyError, Mr, Mw, PKey, Pd, PortAttr, PostError, Psn, Qp,
    QpAttr, QpCaps, QpInfo, QpInit, QpState, Qpn, RKey, RecvWr, Region, RegisterError, SendWr, Srq,
};

use crate::convert;
use crate::device::VerbsDevice;
use crate::error::{Call, sentence};
use crate::flight::Flight;
use crate::objects::{CqEntry, Member, MrEntry, QpEntry, SrqEntry};
use crate::raw::{Destroy as _, Object, QpParts, qp_init};
use crate::sys::{
    SRQ_LIMIT, ibv_ah, ibv_cq, ibv_mr, ibv_mw, ibv_pd, ibv_qp, ibv_qp_cap, ibv_srq, ibv_srq_attr,
    mask,
};

impl VerbsDevice {
    fn create_error(&self, call: Call, what: &str, errno: i32) -> CreateError {
        CreateError::Device(sentence(
            call,
            &format!("{what} on {}", self.attr.name),
            errno,
        ))
    }

    fn check_caps(&self, init: &QpInit) -> Result<(), CreateError> {
        let QpCaps {
            max_send_wr,
            max_recv_wr,
            max_send_sge,
            max_recv_sge,
            max_inline,
        } = init.caps;
        let (wr, sge) = (self.attr.max_qp_wr, self.attr.max_sge);
        for (what, asked, limit) in [
            ("max_send_wr", max_send_wr, wr),
            ("max_recv_wr", max_recv_wr, wr),
            ("max_send_sge", max_send_sge, sge),
            ("max_recv_sge", max_recv_sge, sge),
            ("max_inline", max_inline, self.attr.max_inline),
        ] {
            if asked > limit {
                return Err(CreateError::TooLarge {
                    what,
                    asked: asked.into(),
                    limit: limit.into(),
                });
            }
        }
        Ok(())
    }

    /// Returns whether a QP is made that copies nothing.
    fn makes_qp(&self, init: &QpInit) -> bool {
        let made = self.make_qp(init, 0);
        made.is_ok_and(|made| made.qp.destroy().is_ok())
    }

    fn make_qp(&self, init: &QpInit, max_inline: u32) -> Result<Made, CreateError> {
        let objects = &self.objects;
        let pd = objects.pd(init.pd)?;
        let srq = init.srq.map(|srq| objects.srq(srq)).transpose()?;
        let parts = QpParts {
            send_cq: &objects.cq(init.send_cq)?.raw,
            recv_cq: &objects.cq(init.recv_cq)?.raw,
            srq: srq.map(|entry| &entry.raw),
        };
        let caps = init.caps;
        let cap = ibv_qp_cap {
            max_send_wr: caps.max_send_wr,
            max_recv_wr: if srq.is_some() { 0 } else { caps.max_recv_wr },
            max_send_sge: caps.max_send_sge,
            max_recv_sge: if srq.is_some() { 0 } else { caps.max_recv_sge },
            max_inline_data: max_inline,
        };
        let fresh = || qp_init(init.service, cap, init.sq_sig_all);
        let operations = self.writes[init.service as usize];
        if operations != 0 {
            let mut raw = fresh();
            if let Ok(qp) = Object::<ibv_qp>::create_ex(pd, &parts, &mut raw, operations) {
                return Ok(Made {
                    operations: operations & qp.operations(),
                    qp,
                    caps: raw.cap,
                });
            }
        }
        // Whatever the reason was, it is told by the call that all providers have.
        let mut raw = fresh();
        let made = Object::<ibv_qp>::create(pd, &parts, &mut raw);
        let what = format!("a {:?} QP", init.service);
        let qp = made.map_err(|errno| self.create_error(Call::CreateQp, &what, errno))?;
        Ok(Made {
            operations: 0,
            qp,
            caps: raw.cap,
        })
    }
}

/// A QP that was made.
struct Made {
    qp: Object<ibv_qp>,
    caps: ibv_qp_cap,
    /// What it takes by `ibv_wr_*`.
    operations: u64,
}

impl Backend for VerbsDevice {
    fn device(&self) -> &DeviceAttr {
        &self.attr
    }

    fn port(&self) -> &PortAttr {
        &self.port
    }

    fn alloc_pd(&mut self) -> Result<Pd, CreateError> {
        room(self.objects.pds.has_room(), "PDs")?;
        let raw = Object::<ibv_pd>::alloc(&self.context)
            .map_err(|errno| self.create_error(Call::AllocPd, "a protection domain", errno))?;
        Ok(Pd(self.objects.pds.insert(raw)))
    }

    fn dealloc_pd(&mut self, pd: Pd) -> Result<(), CreateError> {
        self.objects.remove_pd(pd)
    }

    fn register(&mut self, pd: Pd, region: &Region, access: Access) -> Result<Mr, RegisterError> {
        if !access.is_legal() {
            return Err(RegisterError::IllegalAccess);
        }
        room(self.objects.mrs.has_room(), "memory regions")?;
        let bits = convert::region_access(access);
        let raw =
            Object::<ibv_mr>::register(self.objects.pd(pd)?, region, bits).map_err(|errno| {
                let what = format!("{} bytes", region.len());
                self.create_error(Call::RegMr, &what, errno)
            })?;
        let (lkey, rkey) = raw.keys();
        Ok(Mr {
            handle: self.objects.mrs.insert(MrEntry {
                raw,
                pd,
                region: region.clone(),
            }),
            lkey: LKey(lkey),
            rkey: RKey(rkey),
            addr: region.addr(),
            length: region.len() as u64,
        })
    }

    fn deregister(&mut self, mr: Mr) -> Result<(), CreateError> {
        self.objects.remove_mr(mr)
    }

    fn create_cq(&mut self, depth: u32) -> Result<Cq, CreateError> {
        let depth = self.cq_depth(depth)?;
        room(self.objects.cqs.has_room(), "CQs")?;
        let raw =
            Object::<ibv_cq>::create(&self.context, &self.channel, depth).map_err(|errno| {
                let what = format!("a completion queue of {depth} entries");
                self.create_error(Call::CreateCq, &what, errno)
            })?;
        Ok(Cq(self.objects.cqs.insert(CqEntry {
            raw,
            armed: false,
            notified: false,
        })))
    }

    fn destroy_cq(&mut self, cq: Cq) -> Result<(), CreateError> {
        self.objects.remove_cq(cq)
    }

    fn resize_cq(&mut self, cq: Cq, depth: u32) -> Result<(), CreateError> {
        let depth = self.cq_depth(depth)?;
        let resized = self.objects.cq(cq)?.raw.resize(depth);
        resized.map_err(|errno| {
            let what = format!("a completion queue to {depth} entries");
            self.create_error(Call::ResizeCq, &what, errno)
        })
    }

    fn take_notification(&mut self, cq: Cq) -> bool {
        self.collect_notifications();
        let entry = self.objects.cqs.get_mut(cq.0);
        entry.is_some_and(|entry| core::mem::take(&mut entry.notified))
    }

    fn create_srq(&mut self, pd: Pd, max_wr: u32, max_sge: u32) -> Result<Srq, CreateError> {
        room(self.objects.srqs.has_room(), "SRQs")?;
        let attr = ibv_srq_attr {
            max_wr,
            max_sge,
            srq_limit: 0,
        };
        let raw = Object::<ibv_srq>::create(self.objects.pd(pd)?, attr).map_err(|errno| {
            let what = format!("a shared receive queue of {max_wr} receives");
            self.create_error(Call::CreateSrq, &what, errno)
        })?;
        Ok(Srq(self.objects.srqs.insert(SrqEntry { raw, pd, max_sge })))
    }

    fn arm_srq(&mut self, srq: Srq, limit: u32) -> Result<(), CreateError> {
        let attr = ibv_srq_attr {
            max_wr: 0,
            max_sge: 0,
            srq_limit: limit,
        };
        let armed = self.objects.srq(srq)?.raw.modify(attr, SRQ_LIMIT);
        armed.map_err(|errno| {
            let what = format!("a shared receive queue to the limit {limit}");
            self.create_error(Call::ModifySrq, &what, errno)
        })
    }

    fn destroy_srq(&mut self, srq: Srq) -> Result<(), CreateError> {
        self.objects.remove_srq(srq)
    }

    fn post_srq_recv(&mut self, srq: Srq, requests: &[RecvWr<'_>]) -> Result<(), PostError> {
        let entry = self.objects.srqs.get(srq.0).ok_or(PostError::NoSuchSrq)?;
        self.scratch
            .receive(requests, entry.max_sge, |batch| entry.raw.post_recv(batch))
    }

    fn create_ah(&mut self, pd: Pd, address: &AddressVector) -> Result<Ah, CreateError> {
        room(self.objects.ahs.has_room(), "address handles")?;
        let attr = convert::address(address, self.port_number);
        let raw = Object::<ibv_ah>::create(self.objects.pd(pd)?, attr).map_err(|errno| {
            let what = format!("an address handle of {}", self.shown(address));
            self.create_error(Call::CreateAh, &what, errno)
        })?;
        Ok(Ah(self.objects.ahs.insert(Member { raw, pd })))
    }

    fn destroy_ah(&mut self, ah: Ah) -> Result<(), CreateError> {
        self.objects.remove_ah(ah)
    }

    fn alloc_mw(&mut self, pd: Pd) -> Result<Mw, CreateError> {
        room(self.objects.mws.has_room(), "memory windows")?;
        let raw = Object::<ibv_mw>::alloc(self.objects.pd(pd)?)
            .map_err(|errno| self.create_error(Call::AllocMw, "a memory window", errno))?;
        let rkey = RKey(raw.rkey());
        let handle = self.objects.mws.insert(Member { raw, pd });
        Ok(Mw { handle, rkey })
    }

    fn dealloc_mw(&mut self, mw: Mw) -> Result<(), CreateError> {
        self.objects.remove_mw(mw)
    }

    fn create_qp(&mut self, init: &QpInit) -> Result<Qp, CreateError> {
        self.check_caps(init)?;
        room(self.objects.qps.has_room(), "QPs")?;
        let made = match self.make_qp(init, init.caps.max_inline) {
            // Providers do not tell what they can copy: whether it was that is found out by asking for none.
            Err(_) if init.caps.max_inline > 0 && self.makes_qp(init) => {
                return Err(CreateError::Device(format!(
                    "{} makes no QP that copies messages of up to {} bytes (-I), but one that copies none: use a \
                     smaller one",
                    self.attr.name, init.caps.max_inline
                )));
            }
            made => made?,
        };
        let Made {
            qp: raw,
            caps,
            operations,
        } = made;
        let entry = QpEntry {
            qpn: Qpn::new(raw.number() & 0x00ff_ffff),
            operations,
            flight: Flight::new(
                if operations == 0 { 0 } else { caps.max_send_wr },
                init.sq_sig_all,
            ),
            raw,
            init: QpInit {
                caps: QpCaps {
                    max_send_wr: caps.max_send_wr,
                    max_recv_wr: caps.max_recv_wr,
                    max_send_sge: caps.max_send_sge,
                    max_recv_sge: caps.max_recv_sge,
                    max_inline: caps.max_inline_data,
                },
                ..*init
            },
            state: QpState::Reset,
            attr: QpAttr::default(),
            pkey: PKey(0xffff),
        };
        Ok(Qp(self.objects.insert_qp(entry)))
    }

    fn destroy_qp(&mut self, qp: Qp) -> Result<(), CreateError> {
        self.objects.remove_qp(qp)
    }

    fn modify_qp(&mut self, qp: Qp, attr: &QpAttr) -> Result<(), ModifyError> {
        self.modify(qp, attr)
    }

    fn query_qp(&self, qp: Qp) -> Result<QpInfo, CreateError> {
        let entry = self.objects.qp(qp)?;
        let asked = mask::STATE | mask::SQ_PSN | mask::RQ_PSN;
        let now = entry.raw.query(asked).map_err(|errno| {
            let what = format!("QPN {}", entry.qpn);
            self.create_error(Call::QueryQp, &what, errno)
        })?;
        let state = convert::state(now.qp_state).unwrap_or(entry.state);
        Ok(QpInfo {
            qpn: entry.qpn,
            state,
            caps: entry.init.caps,
            service: entry.init.service,
            attr: QpAttr {
                state: Some(state),
                sq_psn: entry.attr.sq_psn.map(|_| Psn::new(now.sq_psn)),
                rq_psn: entry.attr.rq_psn.map(|_| Psn::new(now.rq_psn)),
                ..entry.attr
            },
            pkey: entry.pkey,
        })
    }

    #[inline]
    fn post_send(&mut self, qp: Qp, requests: &[SendWr<'_>]) -> Result<(), PostError> {
        let entry = self.objects.qps.get(qp.0).ok_or(PostError::NoSuchQp)?;
        let most = self.port.active_mtu.bytes() as u32;
        let counts = entry.operations != 0;
        let result = self.scratch.send(&self.objects, entry, requests, most);
        if counts && let Some(entry) = self.objects.qps.get_mut(qp.0) {
            entry.flight.posted(requests, &result);
        }
        result
    }

    #[inline]
    fn post_recv(&mut self, qp: Qp, requests: &[RecvWr<'_>]) -> Result<(), PostError> {
        let entry = self.objects.qps.get(qp.0).ok_or(PostError::NoSuchQp)?;
        if entry.init.srq.is_some() {
            return Err(PostError::UsesSrq);
        }
        if entry.state == QpState::Reset {
            return Err(PostError::State(entry.state));
        }
        let most = entry.init.caps.max_recv_sge;
        self.scratch
            .receive(requests, most, |batch| entry.raw.post_recv(batch))
    }

    #[inline]
    fn poll_cq(&mut self, cq: Cq, out: &mut [Completion]) -> Result<usize, CqError> {
        let entry = self.objects.cqs.get(cq.0).ok_or(CqError::NoSuchCq)?;
        let count = self
            .scratch
            .poll(&entry.raw, &self.attr.name, &mut self.events, out)?;
        self.objects.completed(&out[..count]);
        Ok(count)
    }

    fn arm_cq(&mut self, cq: Cq, solicited_only: bool) -> Result<(), CqError> {
        let entry = self.objects.cqs.get_mut(cq.0).ok_or(CqError::NoSuchCq)?;
        entry
            .raw
            .arm(solicited_only)
            .map_err(|errno| CqError::Device(sentence(Call::ReqNotify, &self.attr.name, errno)))?;
        entry.armed = true;
        Ok(())
    }

    fn progress(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), DeviceError> {
        self.sleep(timeout)
    }

    fn is_autonomous(&self) -> bool {
        true
    }

    fn poll_event(&mut self) -> Option<AsyncEvent> {
        while let Some((element, kind)) = self.context.async_event() {
            self.events
                .note(&self.objects, &self.attr.name, element, kind);
        }
        self.events.take()
    }

    fn activity(&self) -> u64 {
        self.scratch.taken
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.counters.read()
    }
}

/// Refuses one object more than there are numbers for.
fn room(has_room: bool, what: &'static str) -> Result<(), CreateError> {
    if has_room {
        return Ok(());
    }
    Err(CreateError::Exhausted {
        what,
        limit: 0xffff,
    })
}
