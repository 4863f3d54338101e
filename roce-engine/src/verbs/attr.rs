//! Attributes of queue pairs.

use roce_wire::{Gid, Mtu, PKey, Psn, QKey, Qpn};

use super::access::Access;
use super::backend::{Cq, Pd, Srq};
use super::state::QpState;

/// The transport service of a QP.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Service {
    /// Reliable connection.
    #[default]
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
}

/// How much a QP holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct QpCaps {
    /// Outstanding send requests.
    pub max_send_wr: u32,
    /// Outstanding receive requests.
    pub max_recv_wr: u32,
    /// Pieces of a send request.
    pub max_send_sge: u32,
    /// Pieces of a receive request.
    pub max_recv_sge: u32,
    /// Bytes of inline data.
    pub max_inline: u32,
}

/// What a QP is made with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct QpInit {
    /// The service.
    pub service: Service,
    /// The protection domain.
    pub pd: Pd,
    /// Where send completions go.
    pub send_cq: Cq,
    /// Where receive completions go; may be the same.
    pub recv_cq: Cq,
    /// Sizes.
    pub caps: QpCaps,
    /// Where its receives come from, if not from a queue of its own.
    pub srq: Option<Srq>,
    /// Every send request is signaled.
    pub sq_sig_all: bool,
}

/// The way to a peer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AddressVector {
    /// The peer's GID; all zero where it is reached by its LID alone.
    pub dgid: Gid,
    /// The peer's LID on InfiniBand; 0 on Ethernet.
    pub dlid: u16,
    /// The row of the local GID table that packets come from.
    pub sgid_index: u8,
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// The flow label; also makes the UDP source port when not 0.
    pub flow_label: u32,
    /// The service level: a VLAN priority where there is a VLAN.
    pub service_level: u8,
}

/// Attributes of a `modify_qp`; those that are `Some` are modified.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct QpAttr {
    /// The state to go to.
    pub state: Option<QpState>,
    /// The row of the partition table.
    pub pkey_index: Option<u16>,
    /// The port, 1.
    pub port: Option<u8>,
    /// What the peer may do through this QP.
    pub access: Option<Access>,
    /// The datagram key.
    pub qkey: Option<QKey>,
    /// The way to the peer.
    pub address: Option<AddressVector>,
    /// Payload bytes of a full packet.
    pub path_mtu: Option<Mtu>,
    /// The peer's QP.
    pub dest_qpn: Option<Qpn>,
    /// The first PSN that is expected.
    pub rq_psn: Option<Psn>,
    /// The first PSN that is sent.
    pub sq_psn: Option<Psn>,
    /// READs and atomics that this QP answers at once.
    pub max_dest_rd_atomic: Option<u8>,
    /// READs and atomics that this QP may have outstanding.
    pub max_rd_atomic: Option<u8>,
    /// The delay code that an RNR NAK carries (0 to 31).
    pub min_rnr_timer: Option<u8>,
    /// The ack timeout code: 4.096 us * 2^n, 0 is never (0 to 31).
    pub timeout: Option<u8>,
    /// Transport retries, 0 to 7, all finite.
    pub retry_cnt: Option<u8>,
    /// RNR retries, 0 to 6; 7 is for ever.
    pub rnr_retry: Option<u8>,
    /// Asks for an event when the send queue has drained (to SQD).
    pub sqd_event: Option<bool>,
}

impl QpAttr {
    /// Returns these attributes with those of `new` that are `Some` in their place.
    #[must_use]
    pub fn merged(&self, new: &Self) -> Self {
        Self {
            state: new.state.or(self.state),
            pkey_index: new.pkey_index.or(self.pkey_index),
            port: new.port.or(self.port),
            access: new.access.or(self.access),
            qkey: new.qkey.or(self.qkey),
            address: new.address.or(self.address),
            path_mtu: new.path_mtu.or(self.path_mtu),
            dest_qpn: new.dest_qpn.or(self.dest_qpn),
            rq_psn: new.rq_psn.or(self.rq_psn),
            sq_psn: new.sq_psn.or(self.sq_psn),
            max_dest_rd_atomic: new.max_dest_rd_atomic.or(self.max_dest_rd_atomic),
            max_rd_atomic: new.max_rd_atomic.or(self.max_rd_atomic),
            min_rnr_timer: new.min_rnr_timer.or(self.min_rnr_timer),
            timeout: new.timeout.or(self.timeout),
            retry_cnt: new.retry_cnt.or(self.retry_cnt),
            rnr_retry: new.rnr_retry.or(self.rnr_retry),
            sqd_event: new.sqd_event.or(self.sqd_event),
        }
    }
}

/// What a QP is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct QpInfo {
    /// Its number.
    pub qpn: Qpn,
    /// Its state.
    pub state: QpState,
    /// Its sizes.
    pub caps: QpCaps,
    /// Its service.
    pub service: Service,
    /// Its attributes as they are; unset ones are `None`. `sq_psn` and `rq_psn` move with traffic.
    pub attr: QpAttr,
    /// Its partition key.
    pub pkey: PKey,
}
