//! [`VerbsDevice`] over a libibverbs of the tests' own: `tests/fake/libibverbs.rs`.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod allocations;
mod errors;
mod fake;
mod moves;
mod opening;
mod writer;

use backend_verbs::{Posting, VerbsDevice};
use roce_engine::verbs::{
    Access, AddressVector, Backend, Completion, Cq, Gid, Mr, Mtu, Pd, Psn, QKey, Qp, QpAttr,
    QpCaps, QpInit, QpState, Qpn, Region, Service, Srq,
};

/// A device with a domain, a queue and registered memory.
struct Bed {
    device: VerbsDevice,
    pd: Pd,
    cq: Cq,
    memory: Region,
    mr: Mr,
}

impl Bed {
    fn new(name: &str) -> Self {
        Self::of(fake::open_posting(name, Posting::WrApi).unwrap())
    }

    /// One whose QPs take requests by `ibv_post_send`.
    fn with_old_post_send(name: &str) -> Self {
        Self::of(fake::open_posting(name, Posting::PostSend).unwrap())
    }

    fn of(mut device: VerbsDevice) -> Self {
        let pd = device.alloc_pd().unwrap();
        let cq = device.create_cq(256).unwrap();
        let memory = Region::zeroed(8192, 4096).unwrap();
        let all = Access::LOCAL_WRITE
            | Access::REMOTE_WRITE
            | Access::REMOTE_READ
            | Access::REMOTE_ATOMIC;
        let mr = device.register(pd, &memory, all).unwrap();
        Self {
            device,
            pd,
            cq,
            memory,
            mr,
        }
    }

    fn init(&self, service: Service, srq: Option<Srq>) -> QpInit {
        QpInit {
            service,
            pd: self.pd,
            send_cq: self.cq,
            recv_cq: self.cq,
            caps: QpCaps {
                max_send_wr: 128,
                max_recv_wr: 128,
                max_send_sge: 4,
                max_recv_sge: 4,
                max_inline: 64,
            },
            srq,
            sq_sig_all: false,
        }
    }

    /// Makes a QP and returns its number too.
    fn qp(&mut self, service: Service, srq: Option<Srq>) -> (Qp, Qpn) {
        let init = self.init(service, srq);
        let qp = self.device.create_qp(&init).unwrap();
        (qp, self.device.query_qp(qp).unwrap().qpn)
    }

    /// Takes a QP to RTS.
    fn connect(&mut self, qp: Qp, dest_qpn: Qpn, service: Service) {
        for attr in steps(service, dest_qpn, by_gid(2)) {
            self.device.modify_qp(qp, &attr).unwrap();
        }
    }

    /// Two QPs that are each other's peers.
    fn pair(&mut self, service: Service) -> (Qp, Qp) {
        let ((a, a_qpn), (b, b_qpn)) = (self.qp(service, None), self.qp(service, None));
        self.connect(a, b_qpn, service);
        self.connect(b, a_qpn, service);
        (a, b)
    }

    fn poll(&mut self) -> Vec<Completion> {
        let mut out = [Completion::default(); 64];
        let count = self.device.poll_cq(self.cq, &mut out).unwrap();
        out[..count].to_vec()
    }
}

/// The way to a RoCE peer: this machine's IPv4 loopback, from a row of the table.
fn by_gid(sgid_index: u8) -> AddressVector {
    AddressVector {
        dgid: Gid::from_ip("127.0.0.1".parse().unwrap()),
        dlid: 0,
        sgid_index,
        hop_limit: 64,
        traffic_class: 0,
        flow_label: 0,
        service_level: 0,
    }
}

/// What takes a QP from RESET to RTS.
fn steps(service: Service, dest_qpn: Qpn, address: AddressVector) -> [QpAttr; 3] {
    let (connected, reliable) = (service != Service::Ud, service == Service::Rc);
    [
        QpAttr {
            state: Some(QpState::Init),
            pkey_index: Some(0),
            port: Some(1),
            access: connected.then_some(Access::REMOTE_WRITE),
            qkey: (!connected).then_some(QKey(0x1111_1111)),
            ..QpAttr::default()
        },
        QpAttr {
            state: Some(QpState::Rtr),
            address: connected.then_some(address),
            path_mtu: connected.then_some(Mtu::B1024),
            dest_qpn: connected.then_some(dest_qpn),
            rq_psn: connected.then_some(Psn::new(1)),
            max_dest_rd_atomic: reliable.then_some(4),
            min_rnr_timer: reliable.then_some(12),
            ..QpAttr::default()
        },
        QpAttr {
            state: Some(QpState::Rts),
            sq_psn: Some(Psn::new(1)),
            max_rd_atomic: reliable.then_some(4),
            timeout: reliable.then_some(14),
            retry_cnt: reliable.then_some(7),
            rnr_retry: reliable.then_some(7),
            ..QpAttr::default()
        },
    ]
}
