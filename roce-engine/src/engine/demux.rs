//! A received packet → its QP, or a counted drop. The ICRC is checked before any QP state changes.

use roce_wire::{IcrcSeed, OpcodeInfo, Packet, ParseError, Qpn, Transport, Unsupported};

use super::{Engine, GENERATION_MASK, INDEX_BITS};
use crate::link::{Ipv4Id, RxMeta};
use crate::path::ROCE_PORT;
use crate::time::Instant;
use crate::verbs::{AsyncEvent, Service};

/// Congestion experienced, in the low two bits of the traffic class.
const ECN_CE: u8 = 0b11;

impl Engine {
    /// Processes one packet, BTH to ICRC.
    pub fn receive(&mut self, now: Instant, meta: &RxMeta, bytes: &[u8]) {
        self.shared.counters.rcvd_pkts += 1;
        let packet = match Packet::parse(bytes) {
            Ok(packet) => packet,
            Err(error) => {
                self.count_malformed(error);
                return;
            }
        };
        let Some(info) = packet.info() else {
            self.shared.counters.drop_unknown_opcode += 1;
            return;
        };
        let Some(index) = self.addressee(&packet, info, meta) else {
            return;
        };
        if !self.icrc_holds(index, meta, bytes) {
            self.shared.counters.drop_bad_icrc += 1;
            return;
        }
        let Some(qp) = self.qps.at_mut(index) else {
            return;
        };
        let counters = &mut self.shared.counters;
        if info.transport == Transport::Cnp {
            if roce_wire::is_cnp(&packet) {
                counters.rp_cnp_handled += 1;
            } else {
                counters.drop_malformed += 1;
            }
            return;
        }
        counters.rx_ecn_ce += u64::from(meta.traffic_class & ECN_CE == ECN_CE);
        if !packet.bth.pkey.matches(qp.pkey()) {
            counters.drop_bad_pkey += 1;
            return;
        }
        if info.transport == Transport::Ud {
            qp.on_datagram(&mut self.shared, meta, &packet);
        } else {
            qp.on_packet(&mut self.shared, now, &packet, info);
        }
        self.settle_overflow();
    }

    /// Finds the QP that a packet is for; everything that needs no state of it is checked.
    fn addressee(&mut self, packet: &Packet<'_>, info: OpcodeInfo, meta: &RxMeta) -> Option<u32> {
        let counters = &mut self.shared.counters;
        let qpn = packet.bth.dest_qpn;
        if qpn == Qpn::GSI {
            counters.drop_qp1 += 1;
            return None;
        }
        let index = index_of(qpn);
        let Some(qp) = self.qps.at_mut(index).filter(|qp| qp.qpn == qpn) else {
            counters.drop_unknown_qpn += 1;
            return None;
        };
        if !qp.can_receive() {
            counters.drop_qp_state += 1;
            return None;
        }
        if info.transport != Transport::Cnp && !serves(qp.service(), info.transport) {
            counters.drop_wrong_service += 1;
            return None;
        }
        if qp.service() == Service::Ud {
            // Datagrams come from anybody, to any address of ours.
            return Some(index);
        }
        let flow = qp.path()?.route.flow;
        if flow.remote != meta.remote {
            counters.drop_wrong_source += 1;
            if qp.report_source() {
                let (from, expected) = (meta.remote, flow.remote);
                self.shared.event(AsyncEvent::WrongSource {
                    qpn,
                    from,
                    expected,
                });
            }
            return None;
        }
        if flow.local != meta.local {
            counters.drop_wrong_destination += 1;
            return None;
        }
        Some(index)
    }

    fn icrc_holds(&mut self, index: u32, meta: &RxMeta, bytes: &[u8]) -> bool {
        let make = || IcrcSeed::new(meta.remote, meta.local, meta.source_port, ROCE_PORT);
        let seed = match self.qps.at_mut(index) {
            // A connected QP's peer has one address; datagrams come from many.
            Some(qp) if qp.service() != Service::Ud => qp.receive_seed(meta.source_port, make),
            _ => make(),
        };
        let counters = &mut self.shared.counters;
        let exact = meta.remote.is_ipv6();
        match meta.ipv4_id {
            Ipv4Id::Known { id, flags } => {
                let holds = seed.verify(id, flags, bytes);
                counters.icrc_exact += u64::from(holds);
                holds
            }
            Ipv4Id::Unknown => {
                let holds = self.recovery.recover(&seed, bytes).is_some();
                if exact {
                    counters.icrc_exact += u64::from(holds);
                } else {
                    counters.icrc_some_id += u64::from(holds);
                }
                holds
            }
        }
    }

    fn count_malformed(&mut self, error: ParseError) {
        let counters = &mut self.shared.counters;
        match error {
            ParseError::Unsupported(Unsupported::Opcode(_)) => counters.drop_unknown_opcode += 1,
            ParseError::Unsupported(Unsupported::BthVersion(_)) => counters.drop_bad_version += 1,
            _ => counters.drop_malformed += 1,
        }
    }
}

/// Returns the QPN of a name in the QP table.
pub(super) const fn qpn_of(index: u32, generation: u32, parity: u32) -> Qpn {
    // A generation of 0 would give special QPNs: it counts as the one after the largest.
    let generation = match generation & GENERATION_MASK {
        0 => GENERATION_MASK,
        generation => generation,
    };
    Qpn::new(generation << (INDEX_BITS + 1) | index << 1 | parity)
}

/// Returns the index that a QPN names; whether it is that QP's is for the caller to compare.
pub(super) const fn index_of(qpn: Qpn) -> u32 {
    qpn.value() >> 1 & ((1 << INDEX_BITS) - 1)
}

const fn serves(service: Service, transport: Transport) -> bool {
    matches!(
        (service, transport),
        (Service::Rc, Transport::Rc) | (Service::Uc, Transport::Uc) | (Service::Ud, Transport::Ud)
    )
}
