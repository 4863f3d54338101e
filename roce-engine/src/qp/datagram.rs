//! UD: every request names its own way, every message is one packet, and nothing is acknowledged.

use roce_wire::grh::{self, Network};
use roce_wire::ipv4::Ipv4;
use roce_wire::ipv6::Ipv6;
use roce_wire::{Bth, Deth, Ext, Headers, IPV4_DONT_FRAGMENT, Opcode, Packet, QKey};

use core::net::IpAddr;

use super::Qp;
use super::send_queue::Source;
use crate::link::{FrameNote, Ipv4Id, Link, RxMeta};
use crate::sge;
use crate::shared::Shared;
use crate::verbs::{QpState, SendFlags, SendOp, Status, WcOpcode};

/// A key with this bit stands for the QP's own (IBA 10.2.5).
const CONTROLLED_QKEY: u32 = 0x8000_0000;

impl Qp {
    /// Sends up to `budget` datagrams; returns how many, and whether the link was full.
    pub(super) fn send_datagrams<L: Link>(
        &mut self,
        shared: &mut Shared,
        link: &mut L,
        budget: u32,
    ) -> (u32, bool) {
        let mut sent = 0;
        while sent < budget && self.may_send_datagram() {
            match self.send_datagram(shared, link) {
                Ok(true) => sent += 1,
                Ok(false) => return (sent, true),
                Err(status) => {
                    self.complete_head(shared, status);
                    self.enter_send_error(shared);
                    break;
                }
            }
        }
        (sent, false)
    }

    /// Returns whether a datagram waits to be sent. In SQD none is started.
    pub(super) fn may_send_datagram(&self) -> bool {
        self.state == QpState::Rts && !self.requester.queue.is_empty()
    }

    fn send_datagram<L: Link>(
        &mut self,
        shared: &mut Shared,
        link: &mut L,
    ) -> Result<bool, Status> {
        let number = self.requester.queue.head();
        let wqe = self.requester.queue.at(number);
        let SendOp::Datagram { ah, qpn, qkey, imm } = wqe.op else {
            return Err(Status::LocQpOpErr);
        };
        let handle = shared.ah(ah).filter(|handle| handle.pd == self.init.pd);
        let route = handle.ok_or(Status::LocQpOpErr)?.route;
        let len = wqe.length as usize;
        let source = self.requester.queue.source(number);
        if let Source::Sges(sges) = source {
            sge::readable(&shared.memory, self.init.pd, sges, 0, len)
                .map_err(|_| Status::LocProtErr)?;
        }
        let own = self.attr.qkey.unwrap_or_default();
        let qkey = if qkey.0 & CONTROLLED_QKEY != 0 {
            own
        } else {
            qkey
        };
        let opcode = match imm {
            Some(_) => Opcode::UD_SEND_ONLY_WITH_IMM,
            None => Opcode::UD_SEND_ONLY,
        };
        let mut bth = Bth::new(opcode, qpn, self.requester.next_psn);
        bth.pkey = self.pkey;
        bth.solicited = wqe.flags.contains(SendFlags::SOLICITED);
        let ext = Ext {
            deth: Some(Deth::new(qkey, self.qpn)),
            imm,
            ..Ext::NONE
        };
        let headers = Headers { bth, ext };
        let (memory, pd) = (&shared.memory, self.init.pd);
        let sent = route.send(
            link,
            &headers,
            len,
            FrameNote::default(),
            |out| match source {
                Source::Inline(bytes) => out.copy_from_slice(bytes),
                Source::Sges(sges) => {
                    let copied = sge::gather(memory, pd, sges, 0, out);
                    assert!(
                        copied.is_ok(),
                        "memory that was readable stays so within a turn"
                    );
                }
            },
        );
        if sent {
            shared.counters.sent_pkts += 1;
            shared.counters.sent_payload_bytes += len as u64;
            let requester = &mut self.requester;
            requester.next_psn = requester.next_psn.next();
            requester.una = requester.next_psn;
            requester.cursor_psn = requester.next_psn;
            requester.cursor = number.wrapping_add(1);
            self.complete_head(shared, Status::Success);
        }
        Ok(sent)
    }

    /// Delivers a datagram behind the 40 bytes of its network header, or drops it with a reason.
    pub(crate) fn on_datagram(&mut self, shared: &mut Shared, meta: &RxMeta, packet: &Packet<'_>) {
        let Some(deth) = packet.ext.deth else { return };
        if deth.qkey != self.attr.qkey.unwrap_or(QKey(0)) {
            shared.counters.drop_bad_qkey += 1;
            return;
        }
        let Some(capacity) = self.next_capacity(shared) else {
            shared.counters.drop_no_receive += 1;
            return;
        };
        let total = grh::LEN + packet.payload.len();
        // Too long for its receive, or for us: dropped, and the receive waits for the next one.
        if total as u64 > capacity || packet.payload.len() > shared.port_mtu as usize {
            shared.counters.drop_unreliable += 1;
            return;
        }
        let Some(wqe) = self.take_receive(shared) else {
            return;
        };
        let area = receive_area(meta, packet);
        let written = self
            .write_receive(shared, &wqe, 0, &area)
            .and_then(|()| self.write_receive(shared, &wqe, grh::LEN as u32, packet.payload));
        match written {
            Ok(()) => self.complete_receive(shared, &wqe, packet, WcOpcode::Recv, total as u32),
            Err(sge::Denied) => {
                self.fail_receive(shared, &wqe, Status::LocProtErr);
                self.enter_error(shared);
            }
        }
    }
}

/// Rebuilds the network header as far as the link knows it.
fn receive_area(meta: &RxMeta, packet: &Packet<'_>) -> [u8; grh::LEN] {
    /// UDP's protocol number and header.
    const UDP: u8 = 17;
    const UDP_LEN: usize = 8;
    let udp_len = (UDP_LEN + packet.len()) as u16;
    match (meta.remote, meta.local) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let (id, flags) = match meta.ipv4_id {
                Ipv4Id::Known { id, flags } => (id, flags),
                Ipv4Id::Unknown => (0, IPV4_DONT_FRAGMENT),
            };
            let header = Ipv4 {
                tos: meta.traffic_class,
                total_len: udp_len + roce_wire::ipv4::LEN as u16,
                id,
                flags,
                ttl: meta.hop_limit,
                protocol: UDP,
                checksum: 0,
                src,
                dst,
            };
            Network::V4(header.with_checksum()).receive_area()
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => Network::V6(Ipv6 {
            traffic_class: meta.traffic_class,
            flow_label: 0,
            payload_len: udp_len,
            next_header: UDP,
            hop_limit: meta.hop_limit,
            src,
            dst,
        })
        .receive_area(),
        // A link delivers both addresses of one family.
        _ => [0; grh::LEN],
    }
}
