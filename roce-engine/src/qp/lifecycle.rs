//! States, attributes, posting and flushing.

use roce_wire::{Gid, IcrcSeed};

use super::Qp;
use crate::congestion::Window;
use crate::link::Flow;
use crate::path::{self, Path, ROCE_PORT};
use crate::sge;
use crate::shared::Shared;
use crate::verbs::{
    AsyncEvent, AttrMask, Completion, ModifyError, Payload, PortAttr, PostError, QpAttr, QpInfo,
    QpState, RecvWr, SendWr, Status, WcOpcode, transition,
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
        let rule = transition(from, to, service).ok_or(ModifyError::IllegalTransition {
            from,
            to,
            service,
        })?;
        let given = AttrMask::of(attr);
        let missing = rule.required.minus(given);
        let forbidden = given.minus(rule.required.union(rule.optional));
        if !missing.is_empty() || !forbidden.is_empty() {
            return Err(ModifyError::Attributes {
                from,
                to,
                missing,
                forbidden,
            });
        }
        check_values(shared, port, attr)?;
        if to == QpState::Sqd && from == to && self.requester.una != self.requester.next_psn {
            return Err(ModifyError::NotDrained);
        }
        let local = self.check_address(port, attr)?;
        if to == QpState::Reset {
            self.reset(shared);
            return Ok(());
        }
        if to == QpState::Err {
            self.enter_error(shared);
            return Ok(());
        }
        self.attr = merged(&self.attr, attr);
        if let Some(index) = attr.pkey_index {
            self.pkey = port.pkeys[usize::from(index)];
        }
        if let Some(local) = local {
            self.set_path(shared, local, source_port);
        }
        self.enter(shared, from, to);
        Ok(())
    }

    /// Checks the way to the peer; returns the local GID if it is given.
    fn check_address(&self, port: &PortAttr, attr: &QpAttr) -> Result<Option<Gid>, ModifyError> {
        let Some(address) = attr.address else {
            return Ok(None);
        };
        let row = port.gids.iter().find(|row| row.index == address.sgid_index);
        let Some(row) = row else {
            return Err(ModifyError::Address(alloc::format!(
                "GID index {} is not in the GID table, which has {} rows",
                address.sgid_index,
                port.gids.len()
            )));
        };
        if !path::same_family(row.gid, address.dgid) {
            return Err(ModifyError::Address(alloc::format!(
                "GID {} (index {}) and the peer's GID {} are of different address families: \
                 choose another GID index (-x) on one side",
                row.gid,
                row.index,
                address.dgid
            )));
        }
        Ok(Some(row.gid))
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
        let (local, remote) = (local.to_ip(), address.dgid.to_ip());
        let wanted = path::source_port(address.flow_label, self.qpn, dest_qpn);
        let source_port = source_port(local, wanted);
        let flow = Flow {
            local,
            remote,
            source_port,
            traffic_class: address.traffic_class,
            hop_limit: address.hop_limit,
            flow_label: address.flow_label,
        };
        let config = &shared.config;
        let window = Window::new(config.window_start * 2, config.peer_window_max);
        let peer = shared.peers.join(remote, window);
        let seed = IcrcSeed::new(local, remote, source_port, ROCE_PORT);
        let mtu = path::mtu_bytes(mtu);
        self.path = Some(Path {
            flow,
            seed,
            dest_qpn,
            mtu,
            peer,
        });
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
        if self.state == QpState::Sqd && !requester.drained && requester.una == requester.next_psn {
            requester.drained = true;
            shared.event(AsyncEvent::SqDrained(self.qpn));
        }
    }

    fn reset(&mut self, shared: &mut Shared) {
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
            self.rq.release();
            self.flush_receive(shared, wqe.wr_id, Status::WrFlushErr);
        }
        while let Some(wqe) = self.rq.pop() {
            self.rq.release();
            self.flush_receive(shared, wqe.wr_id, Status::WrFlushErr);
        }
    }

    /// Completes a receive without a message.
    pub(super) fn flush_receive(&self, shared: &mut Shared, wr_id: u64, status: Status) {
        let completion = Completion {
            wr_id,
            status,
            opcode: WcOpcode::Recv,
            qpn: self.qpn,
            ..Completion::default()
        };
        shared.complete(self.init.recv_cq, completion);
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
        let length = self.check_send(wr)?;
        if self.requester.queue.room() == 0 {
            return Err(PostError::QueueFull { posted: 0 });
        }
        let packets = match wr.op.is_atomic() {
            true => 1,
            false => path::packets(length, self.mtu()),
        };
        self.requester.queue.push(wr, length, packets);
        if self.state == QpState::Err {
            self.complete_head(shared, Status::WrFlushErr);
        } else if self.may_request() {
            self.wake(shared);
        }
        Ok(())
    }

    fn check_send(&self, wr: &SendWr<'_>) -> Result<u32, PostError> {
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

fn check_values(shared: &Shared, port: &PortAttr, attr: &QpAttr) -> Result<(), ModifyError> {
    let max_rd = u64::from(shared.config.max_rd_atomic);
    let pkeys = port.pkeys.len().saturating_sub(1) as u64;
    let checks = [
        ("pkey_index", attr.pkey_index.map(u64::from), pkeys),
        ("port", attr.port.map(u64::from), 1),
        (
            "max_dest_rd_atomic",
            attr.max_dest_rd_atomic.map(u64::from),
            max_rd,
        ),
        ("max_rd_atomic", attr.max_rd_atomic.map(u64::from), max_rd),
        ("min_rnr_timer", attr.min_rnr_timer.map(u64::from), 31),
        ("timeout", attr.timeout.map(u64::from), 31),
        ("retry_cnt", attr.retry_cnt.map(u64::from), 7),
        ("rnr_retry", attr.rnr_retry.map(u64::from), 7),
        (
            "path_mtu",
            attr.path_mtu.map(|mtu| mtu.bytes() as u64),
            port.active_mtu.bytes() as u64,
        ),
    ];
    for (what, value, max) in checks {
        if let Some(value) = value.filter(|&value| value > max) {
            return Err(ModifyError::Value { what, value, max });
        }
    }
    Ok(())
}

fn merged(old: &QpAttr, new: &QpAttr) -> QpAttr {
    QpAttr {
        state: new.state.or(old.state),
        pkey_index: new.pkey_index.or(old.pkey_index),
        port: new.port.or(old.port),
        access: new.access.or(old.access),
        qkey: new.qkey.or(old.qkey),
        address: new.address.or(old.address),
        path_mtu: new.path_mtu.or(old.path_mtu),
        dest_qpn: new.dest_qpn.or(old.dest_qpn),
        rq_psn: new.rq_psn.or(old.rq_psn),
        sq_psn: new.sq_psn.or(old.sq_psn),
        max_dest_rd_atomic: new.max_dest_rd_atomic.or(old.max_dest_rd_atomic),
        max_rd_atomic: new.max_rd_atomic.or(old.max_rd_atomic),
        min_rnr_timer: new.min_rnr_timer.or(old.min_rnr_timer),
        timeout: new.timeout.or(old.timeout),
        retry_cnt: new.retry_cnt.or(old.retry_cnt),
        rnr_retry: new.rnr_retry.or(old.rnr_retry),
        sqd_event: new.sqd_event.or(old.sqd_event),
    }
}
