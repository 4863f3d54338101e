//! Events of the device, as the vocabulary has them.

use std::collections::VecDeque;

use core::ffi::{c_int, c_void};

use roce_engine::verbs::{AsyncEvent, Cq, Qpn, Srq};

use crate::objects::Objects;
use crate::sys::ibv_wc;

/// Events and notices that wait to be taken, at most.
const WAITING: usize = 64;
/// Failed completions whose vendor code is told.
const VENDOR_NOTICES: u32 = 4;

/// What waits to be taken.
#[derive(Debug, Default)]
pub(crate) struct Events {
    waiting: VecDeque<AsyncEvent>,
    vendor_notices: u32,
}

impl Events {
    pub(crate) fn take(&mut self) -> Option<AsyncEvent> {
        self.waiting.pop_front()
    }

    fn add(&mut self, event: AsyncEvent) {
        if self.waiting.len() < WAITING {
            self.waiting.push_back(event);
        }
    }

    /// Notes an event of the library: an object, or a port's number, and what happened.
    pub(crate) fn note(
        &mut self,
        objects: &Objects,
        device: &str,
        element: *mut c_void,
        kind: c_int,
    ) {
        if let Some(event) = read(objects, device, element, kind) {
            self.add(event);
        }
    }

    /// Tells of a failed completion's vendor code: the maker's documents know it.
    #[cold]
    pub(crate) fn vendor_error(&mut self, device: &str, wc: &ibv_wc) {
        if self.vendor_notices < VENDOR_NOTICES {
            self.vendor_notices += 1;
            self.add(AsyncEvent::Notice(format!(
                "{device}: the failed completion (status {}) of QPN {:#08x} has the vendor's code {:#x}",
                wc.status, wc.qp_num, wc.vendor_err
            )));
        }
    }
}

/// Reads an event: `enum ibv_event_type`. Those that change nothing for us are none.
fn read(objects: &Objects, device: &str, element: *mut c_void, kind: c_int) -> Option<AsyncEvent> {
    let qpn = || {
        let mut all = objects.qps.iter();
        all.find(|(_, qp)| qp.raw.is(element))
            .map_or_else(|| Qpn::new(0), |(_, qp)| qp.qpn)
    };
    let cq = || {
        let mut all = objects.cqs.iter();
        all.find(|(_, cq)| cq.raw.is(element))
            .map_or(Cq(u32::MAX), |(number, _)| Cq(number))
    };
    let srq = || {
        let mut all = objects.srqs.iter();
        all.find(|(_, srq)| srq.raw.is(element))
            .map_or(Srq(u32::MAX), |(number, _)| Srq(number))
    };
    let port = element as usize as u32;
    Some(match kind {
        0 => AsyncEvent::CqError(cq()),
        1 => AsyncEvent::QpFatal(qpn()),
        2 => AsyncEvent::QpRequestError(qpn()),
        3 => AsyncEvent::QpAccessError(qpn()),
        4 => AsyncEvent::CommEstablished(qpn()),
        5 => AsyncEvent::SqDrained(qpn()),
        8 => AsyncEvent::Notice(format!(
            "{device} has failed (IBV_EVENT_DEVICE_FATAL): the kernel log has the reason"
        )),
        9 => AsyncEvent::Notice(format!("{device} port {port} is up")),
        10 => AsyncEvent::Notice(format!(
            "{device} port {port} went down: look at its cable, or at its interface"
        )),
        14 => AsyncEvent::Notice(format!("{device}: a shared receive queue has failed")),
        15 => AsyncEvent::SrqLimit(srq()),
        16 => AsyncEvent::LastWqeReached(qpn()),
        18 => AsyncEvent::Notice(format!(
            "{device} port {port}: the GID table has changed, an address came or went"
        )),
        _ => return None,
    })
}
