//! States, attributes, posting and flushing.

use roce_wire::Gid;

use super::Qp;
use crate::congestion::Window;
use crate::path::{self, Path, Route};
use crate::sge;
use crate::shared::Shared;
use crate::verbs::{
    AsyncEvent, Limits, ModifyError, Payload, PortAttr, PostError, QpAttr, QpInfo, QpState, RecvWr,
    SendWr, Service, Status, check_modify, serves,
};

/// The longest message: 2^31 bytes.
const MAX_MESSAGE: u64 = 1 << 31;

impl Qp {
    /// Returns what the QP is.
    pub(crate) fn info(&self) -> QpInfo {
        let (sq_psn, rq_psn) = self.psns();
        let attr = QpAttr {
            state: Some(self.state),
            sq_psn: self.attr.sq_psn.map(|_| sq_psn),
            rq_psn: self.attr.rq_psn.map(|_| rq_psn),
            ..self.attr
        };
        QpInfo {
            qpn: self.qpn,
            state: self.state,
            caps: *self.caps(),
            service: self.service(),
            attr,
            pkey: self.pkey,
        }
    }

    /// Changes state and attributes, all or nothing. `source_port` turns a wanted port into a real one.
    pub(crate) fn modify(
        &mut self,
        shared: &mut Shared,
        port: &PortAttr,
        attr: &QpAttr,
        source_port: impl FnOnce(core::net::IpAddr, u16) -> u16,
    ) -> Result<(), ModifyError> {
        let from = self.state;
        let to = attr.state.unwrap_or(from);
        let service = self.service();
        let max_rd = shared.config.max_rd_atomic;
        let limits = Limits {
            port,
            ports: 1,
            max_dest_rd_atomic: max_rd,
            max_rd_atomic: max_rd,
        };
        check_modify(from, service, attr, &limits)?;
        if to == QpState::Sqd && from == to && !self.requester.is_drained() {
            return Err(ModifyError::NotDrained);
        }
        let local = match &attr.address {
            Some(address) => Some(path::local_gid(port, address).map_err(ModifyError::Address)?),
            None => None,
        };
        if to == QpState::Reset {
            self.reset(shared);
            return Ok(());
        }
        if to == QpState::Err {
            self.enter_error(shared);
            return Ok(());
        }
        self.attr = self.attr.merged(attr);
        if let Some(index) = attr.pkey_index {
            self.pkey = port.pkeys[usize::from(index)];
        }
        if let Some(local) = local {
            self.set_path(shared, local, source_port);
        }
        self.enter(shared, from, to);
        Ok(())
    }

    fn set_path(
        &mut self,
        shared: &mut Shared,
        local: Gid,
        source_port: impl FnOnce(core::net::IpAddr, u16) -> u16,
    ) {
        let attr = &self.attr;
        let (Some(address), Some(dest_qpn), Some(mtu)) =
            (attr.address, attr.dest_qpn, attr.path_mtu)
        else {
            return;
        };
        self.leave_peer(shared);
        let wanted = path::source_port(address.flow_label, self.qpn, dest_qpn);
        let route = Route::new(local, &address, wanted, source_port);
        let config = &shared.config;
        let window = Window::new(config.window_start * 2, config.peer_window_max);
        let peer = shared.peers.join(route.flow.remote, window);
        let mtu = path::mtu_bytes(mtu);
        self.path = Some(Path {
            route,
            dest_qpn,
            mtu,
            peer,
        });
        self.receive_seed = None;
    }

    fn enter(&mut self, shared: &mut Shared, from: QpState, to: QpState) {
        self.state = to;
        let attr = &self.attr;
        match (from, to) {
            (QpState::Init, QpState::Rtr) => {
                let resources = attr.max_dest_rd_atomic.unwrap_or(0);
                self.responder
                    .start(attr.rq_psn.unwrap_or_default(), resources);
            }
            (QpState::Rtr, QpState::Rts) => {
                let config = &shared.config;
                let max = config.window_max.min(config.window_max_bytes / self.mtu());
                let window = Window::new(config.window_start, max);
                let psn = attr.sq_psn.unwrap_or_default();
                self.requester
                    .start(psn, window, attr.max_rd_atomic.unwrap_or(0));
                self.requester.retries_left = attr.retry_cnt.unwrap_or(0);
                self.requester.rnr_left = attr.rnr_retry.unwrap_or(0);
            }
            (QpState::Sqd, QpState::Sqd) => {
                self.requester.max_rd_atomic = attr.max_rd_atomic.unwrap_or(0);
                self.requester.retries_left = attr.retry_cnt.unwrap_or(0);
                self.requester.rnr_left = attr.rnr_retry.unwrap_or(0);
                self.responder
                    .replay
                    .resize(attr.max_dest_rd_atomic.unwrap_or(0));
            }
            (QpState::Rts, QpState::Sqd) => self.requester.drained = attr.sqd_event != Some(true),
            _ => {}
        }
        self.report_drained(shared);
        self.wake(shared);
    }

    /// Reports once that the send queue has drained, if that was asked for.
    pub(super) fn report_drained(&mut self, shared: &mut Shared) {
        let requester = &mut self.requester;
        if self.state == QpState::Sqd && !requester.drained && requester.is_drained() {
            requester.drained = true;
            shared.event(AsyncEvent::SqDrained(self.qpn));
        }
    }

    fn reset(&mut self, shared: &mut Shared) {
        if let Some((wqe, _)) = self.responder.take_receive() {
            self.release_receive(shared, &wqe);
        }
        self.leave_peer(shared);
        self.timers.clear_all();
        self.requester.queue.clear();
        self.requester
            .start(Default::default(), Window::new(1, 1), 0);
        self.responder = Default::default();
        self.rq.clear();
        self.attr = QpAttr::default();
        self.state = QpState::Reset;
        self.source_reported = false;
    }

    /// Releases what the QP shares, before it is destroyed.
    pub(crate) fn close(&mut self, shared: &mut Shared) {
        self.reset(shared);
    }

    /// Goes to the error state: everything posted completes with a flush error, in order, once.
    pub(crate) fn enter_error(&mut self, shared: &mut Shared) {
        if self.state == QpState::Err {
            return;
        }
        self.state = QpState::Err;
        self.timers.clear_all();
        while !self.requester.queue.is_empty() {
            self.complete_head(shared, Status::WrFlushErr);
        }
        let requester = &mut self.requester;
        requester.una = requester.next_psn;
        requester.rewind();
        self.report_in_flight(shared);
        self.responder.replay.clear();
        self.responder.due.said();
        if let Some((wqe, _)) = self.responder.take_receive() {
            self.fail_receive(shared, &wqe, Status::WrFlushErr);
        }
        if self.init.srq.is_some() {
            // What waits in the SRQ belongs to all its QPs; this one takes no more of it.
            shared.event(AsyncEvent::LastWqeReached(self.qpn));
            return;
        }
        while let Some(wqe) = self.rq.pop() {
            self.fail_receive(shared, &wqe, Status::WrFlushErr);
        }
    }

    /// Goes to SQE: the send queue of an unreliable service is in error, receiving goes on.
    pub(super) fn enter_send_error(&mut self, shared: &mut Shared) {
        self.state = QpState::Sqe;
        while !self.requester.queue.is_empty() {
            self.complete_head(shared, Status::WrFlushErr);
        }
        self.requester.una = self.requester.next_psn;
        self.requester.rewind();
    }

    /// Posts one send request.
    pub(crate) fn post_send(
        &mut self,
        shared: &mut Shared,
        wr: &SendWr<'_>,
    ) -> Result<(), PostError> {
        if !matches!(
            self.state,
            QpState::Rts | QpState::Sqd | QpState::Sqe | QpState::Err
        ) {
            return Err(PostError::State(self.state));
        }
        let length = self.check_send(shared, wr)?;
        if self.requester.queue.room() == 0 {
            return Err(PostError::QueueFull { posted: 0 });
        }
        // Atomics and datagrams are one by their length; nobody asks how many a local request has.
        let packets = path::packets(length, self.mtu());
        self.requester.queue.push(wr, length, packets);
        if matches!(self.state, QpState::Err | QpState::Sqe) {
            self.complete_head(shared, Status::WrFlushErr);
            // It is done with: what is posted after a return to RTS is the next to be sent.
            self.requester.cursor = self.requester.queue.head();
        } else if self.may_request() {
            self.wake(shared);
        }
        Ok(())
    }

    fn check_send(&self, shared: &Shared, wr: &SendWr<'_>) -> Result<u32, PostError> {
        if !serves(self.service(), &wr.op) {
            return Err(PostError::Unsupported);
        }
        let queue = &self.requester.queue;
        let length = match wr.payload {
            Payload::Sges(sges) => {
                if sges.len() > queue.max_sge() as usize {
                    return Err(PostError::TooManySges);
                }
                sge::total(sges)
            }
            Payload::Inline(bytes) => {
                if wr.op.is_fetch() {
                    return Err(PostError::InlineFetch);
                }
                if bytes.len() > queue.max_inline() as usize {
                    return Err(PostError::InlineTooLong);
                }
                bytes.len() as u64
            }
        };
        if length > MAX_MESSAGE {
            return Err(PostError::MessageTooLong);
        }
        if wr.op.is_atomic() && length != 8 {
            return Err(PostError::AtomicLength);
        }
        if self.service() == Service::Ud && length > u64::from(shared.port_mtu) {
            return Err(PostError::DatagramTooLong);
        }
        if wr.op.is_fetch() && self.requester.max_rd_atomic == 0 && self.state != QpState::Err {
            // It would wait for ever: as the kernel does, refuse at once.
            return Err(PostError::Unsupported);
        }
        Ok(length as u32)
    }

    /// Posts one receive request.
    pub(crate) fn post_recv(
        &mut self,
        shared: &mut Shared,
        wr: &RecvWr<'_>,
    ) -> Result<(), PostError> {
        if self.init.srq.is_some() {
            return Err(PostError::UsesSrq);
        }
        if self.state == QpState::Reset {
            return Err(PostError::State(self.state));
        }
        if wr.sges.len() > self.rq.max_sge() as usize {
            return Err(PostError::TooManySges);
        }
        if self.state == QpState::Err {
            self.flush_receive(shared, wr.wr_id, Status::WrFlushErr);
            return Ok(());
        }
        if self.rq.room() == 0 {
            return Err(PostError::QueueFull { posted: 0 });
        }
        self.rq.push(wr.wr_id, wr.sges);
        Ok(())
    }
}
