//! Connecting RC queue pairs by hand, as a benchmark's out-of-band exchange would.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use roce_engine::verbs::{
    Access, AddressVector, Backend, Gid, ModifyError, Mtu, Psn, Qp, QpAttr, QpState, Qpn,
};

/// What one end of a connection is told.
#[derive(Clone, Copy, Debug)]
pub struct RcEnd {
    /// The peer's address.
    pub remote: IpAddr,
    /// The peer's QP.
    pub dest_qpn: Qpn,
    /// The path MTU.
    pub mtu: Mtu,
    /// The first PSN of the peer.
    pub rq_psn: Psn,
    /// The first PSN of this end.
    pub sq_psn: Psn,
    /// READs and atomics that it answers at once.
    pub max_dest_rd_atomic: u8,
    /// READs and atomics that it may have outstanding.
    pub max_rd_atomic: u8,
    /// The delay code of its RNR NAKs.
    pub min_rnr_timer: u8,
    /// The code of its acknowledgement timeout.
    pub timeout: u8,
    /// Its transport retries.
    pub retry_cnt: u8,
    /// Its RNR retries.
    pub rnr_retry: u8,
    /// What the peer may do.
    pub access: Access,
    /// DSCP and ECN.
    pub traffic_class: u8,
}

impl RcEnd {
    /// Makes an end with perftest's timers, all rights, and PSNs that start at 0.
    pub fn new(remote: IpAddr, dest_qpn: Qpn) -> Self {
        Self {
            remote,
            dest_qpn,
            mtu: Mtu::B1024,
            rq_psn: Psn::new(0),
            sq_psn: Psn::new(0),
            max_dest_rd_atomic: 16,
            max_rd_atomic: 16,
            min_rnr_timer: 12,
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 7,
            access: all_rights(),
            traffic_class: 0,
        }
    }

    /// Returns the attributes of RESET to INIT.
    pub fn to_init(&self) -> QpAttr {
        QpAttr {
            state: Some(QpState::Init),
            pkey_index: Some(0),
            port: Some(1),
            access: Some(self.access),
            ..QpAttr::default()
        }
    }

    /// Returns the attributes of INIT to RTR.
    pub fn to_rtr(&self) -> QpAttr {
        QpAttr {
            state: Some(QpState::Rtr),
            address: Some(AddressVector {
                dgid: Gid::from_ip(self.remote),
                dlid: 0,
                sgid_index: 0,
                hop_limit: 64,
                traffic_class: self.traffic_class,
                flow_label: 0,
                service_level: 0,
            }),
            path_mtu: Some(self.mtu),
            dest_qpn: Some(self.dest_qpn),
            rq_psn: Some(self.rq_psn),
            max_dest_rd_atomic: Some(self.max_dest_rd_atomic),
            min_rnr_timer: Some(self.min_rnr_timer),
            ..QpAttr::default()
        }
    }

    /// Returns the attributes of RTR to RTS.
    pub fn to_rts(&self) -> QpAttr {
        QpAttr {
            state: Some(QpState::Rts),
            sq_psn: Some(self.sq_psn),
            timeout: Some(self.timeout),
            retry_cnt: Some(self.retry_cnt),
            rnr_retry: Some(self.rnr_retry),
            max_rd_atomic: Some(self.max_rd_atomic),
            ..QpAttr::default()
        }
    }

    /// Takes a QP from RESET to RTS.
    ///
    /// # Errors
    ///
    /// The device refuses an attribute.
    pub fn connect<B: Backend>(&self, device: &mut B, qp: Qp) -> Result<(), ModifyError> {
        device.modify_qp(qp, &self.to_init())?;
        device.modify_qp(qp, &self.to_rtr())?;
        device.modify_qp(qp, &self.to_rts())
    }
}

/// Returns local write and all remote rights.
pub fn all_rights() -> Access {
    Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC
}

/// Returns the address of a simulated device.
pub fn address(ipv6: bool, number: usize) -> IpAddr {
    let last = number as u8 + 1;
    if ipv6 {
        IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last.into()))
    } else {
        IpAddr::V4(Ipv4Addr::new(10, 9, 0, last))
    }
}
