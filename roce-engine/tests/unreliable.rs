//! UC packets made by hand: what a message that was cut off leaves behind.
#![expect(clippy::unwrap_used, reason = "a step that fails ends the test")]

use core::net::{IpAddr, Ipv4Addr};

use roce_engine::link::{Ipv4Id, RxMeta};
use roce_engine::verbs::{
    Access, AddressVector, Completion, Cq, Gid, GidEntry, GidKind, LinkLayer, Mtu, PKey, PortAttr,
    Psn, Qp, QpAttr, QpCaps, QpInit, QpState, Qpn, RKey, RecvWr, Region, Service, Sge, WcOpcode,
};
use roce_engine::{Engine, EngineConfig, Instant};
use roce_wire::{Bth, Ext, Headers, IPV4_DONT_FRAGMENT, IcrcSeed, Opcode, ROCE_PORT, Reth};

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const REMOTE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const PORT: u16 = 0xc000;

struct Receiver {
    engine: Engine,
    qp: Qp,
    cq: Cq,
}

impl Receiver {
    /// Makes a UC QP that expects PSN 0 and has receives of 512 bytes with the ids 1, 2, …
    fn new(receives: u64) -> Self {
        let row = GidEntry {
            index: 0,
            gid: Gid::from_ip(LOCAL),
            kind: GidKind::RoceV2,
            netdev: "mem".into(),
        };
        let port = PortAttr {
            active: true,
            link_layer: LinkLayer::Ethernet,
            active_mtu: Mtu::B256,
            lid: 0,
            pkeys: vec![PKey::DEFAULT],
            gids: vec![row],
        };
        let mut engine = Engine::new(EngineConfig::default(), port, 0);
        let pd = engine.alloc_pd().unwrap();
        let cq = engine.create_cq(16).unwrap();
        let init = QpInit {
            service: Service::Uc,
            pd,
            send_cq: cq,
            recv_cq: cq,
            caps: QpCaps {
                max_send_wr: 1,
                max_recv_wr: 4,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline: 0,
            },
            srq: None,
            sq_sig_all: false,
        };
        let qp = engine.create_qp(&init).unwrap();
        for attr in [to_init(), to_rtr()] {
            engine.modify_qp(qp, &attr, |_, wanted| wanted).unwrap();
        }
        let region = Region::zeroed(512, 8).unwrap();
        let mr = engine.register(pd, &region, Access::LOCAL_WRITE).unwrap();
        let sges = [Sge {
            addr: mr.addr,
            length: 512,
            lkey: mr.lkey,
        }];
        for wr_id in 1..=receives {
            engine
                .post_recv(qp, &[RecvWr { wr_id, sges: &sges }])
                .unwrap();
        }
        Self { engine, qp, cq }
    }

    fn arrive(&mut self, opcode: Opcode, psn: u32, ext: Ext, payload: usize) {
        let bth = Bth::new(opcode, Qpn::new(self.qp.0), Psn::new(psn));
        let headers = Headers { bth, ext };
        let mut bytes = vec![0; headers.packet_len(payload)];
        headers.frame(&mut bytes, payload).fill(7);
        let seed = IcrcSeed::new(REMOTE, LOCAL, PORT, ROCE_PORT);
        seed.seal(0, IPV4_DONT_FRAGMENT, &mut bytes);
        let meta = RxMeta {
            remote: REMOTE,
            local: LOCAL,
            source_port: PORT,
            traffic_class: 0,
            hop_limit: 64,
            ipv4_id: Ipv4Id::Unknown,
        };
        self.engine.receive(Instant::ZERO, &meta, &bytes);
    }

    fn completions(&mut self) -> Vec<(u64, WcOpcode, u32)> {
        let mut out = [Completion::default(); 8];
        let taken = self.engine.take_completions(self.cq, &mut out).unwrap();
        out[..taken]
            .iter()
            .map(|done| (done.wr_id, done.opcode, done.byte_len))
            .collect()
    }
}

fn to_init() -> QpAttr {
    QpAttr {
        state: Some(QpState::Init),
        pkey_index: Some(0),
        port: Some(1),
        access: Some(Access::REMOTE_WRITE),
        ..QpAttr::default()
    }
}

fn to_rtr() -> QpAttr {
    QpAttr {
        state: Some(QpState::Rtr),
        address: Some(AddressVector {
            dgid: Gid::from_ip(REMOTE),
            dlid: 0,
            sgid_index: 0,
            hop_limit: 64,
            traffic_class: 0,
            flow_label: 0,
            service_level: 0,
        }),
        path_mtu: Some(Mtu::B256),
        dest_qpn: Some(Qpn::new(0x99)),
        rq_psn: Some(Psn::new(0)),
        ..QpAttr::default()
    }
}

fn write_of_nothing() -> Ext {
    Ext {
        reth: Some(Reth {
            addr: 0,
            rkey: RKey(0),
            length: 0,
        }),
        imm: Some([1, 2, 3, 4]),
        ..Ext::NONE
    }
}

#[test]
fn a_write_with_immediate_takes_the_receive_of_a_send_that_was_cut_off() {
    let mut receiver = Receiver::new(2);
    receiver.arrive(Opcode::UC_SEND_FIRST, 0, Ext::NONE, 256);
    // The rest is lost.
    let write = Opcode::UC_RDMA_WRITE_ONLY_WITH_IMM;
    receiver.arrive(write, 3, write_of_nothing(), 0);
    receiver.arrive(Opcode::UC_SEND_ONLY, 4, Ext::NONE, 9);
    assert_eq!(
        receiver.completions(),
        [(1, WcOpcode::RecvWriteImm, 0), (2, WcOpcode::Recv, 9)],
        "in the order in which they were posted"
    );
}

#[test]
fn a_receive_that_was_cut_off_counts_as_one_that_waits() {
    let mut receiver = Receiver::new(1);
    receiver.arrive(Opcode::UC_SEND_FIRST, 0, Ext::NONE, 256);
    let write = Opcode::UC_RDMA_WRITE_ONLY_WITH_IMM;
    receiver.arrive(write, 3, write_of_nothing(), 0);
    assert_eq!(receiver.completions(), [(1, WcOpcode::RecvWriteImm, 0)]);
    receiver.arrive(write, 4, write_of_nothing(), 0);
    assert_eq!(receiver.completions(), [], "no receive is left");
    assert_eq!(receiver.engine.counters().drop_no_receive, 1);
}
