use roce_engine::verbs::QKey;

use super::*;

#[test]
fn codes_survive_both_ways() {
    for one in QpState::ALL {
        assert_eq!(state(state_code(one)), Some(one));
    }
    for one in [Mtu::B256, Mtu::B512, Mtu::B1024, Mtu::B2048, Mtu::B4096] {
        assert_eq!(mtu(mtu_code(one)), Some(one));
    }
    assert_eq!((state(7), mtu(0), mtu(6)), (None, None, None));
    let mut bytes = [0; 16];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = index as u8;
    }
    assert_eq!(gid(gid_words(Gid(bytes))), Gid(bytes));
}

#[test]
fn every_status_keeps_its_number_or_is_a_general_error() {
    for code in 0..=30 {
        let read = status(code);
        let old_services = [3, 14, 15, 17, 18, 22, 23];
        if old_services.contains(&code) || code > 21 {
            assert_eq!(read, Status::GeneralErr, "{code}");
        } else {
            assert_eq!(c_int::from(read as u8), code);
        }
    }
}

#[test]
fn rights_are_the_header_s_bits() {
    let all = Access::LOCAL_WRITE
        | Access::REMOTE_WRITE
        | Access::REMOTE_READ
        | Access::REMOTE_ATOMIC
        | Access::MW_BIND;
    assert_eq!((access(Access::NONE), access(all)), (0, 31));
    assert_eq!(access(Access::REMOTE_ATOMIC), 8);
}

#[test]
fn an_address_without_a_gid_is_a_lid() {
    let mut to = AddressVector {
        dgid: Gid::default(),
        dlid: 0x17,
        sgid_index: 3,
        hop_limit: 255,
        traffic_class: 104,
        flow_label: 9,
        service_level: 2,
    };
    let by_lid = address(&to, 1);
    assert_eq!(
        (by_lid.is_global, by_lid.dlid, by_lid.sl, by_lid.port_num),
        (0, 0x17, 2, 1)
    );
    assert_eq!((by_lid.grh.hop_limit, by_lid.grh.flow_label), (0, 0));
    to.dgid = Gid([1; 16]);
    let by_gid = address(&to, 2);
    assert_eq!((by_gid.is_global, by_gid.port_num), (1, 2));
    let grh = by_gid.grh;
    assert_eq!(
        (
            grh.sgid_index,
            grh.hop_limit,
            grh.traffic_class,
            grh.flow_label
        ),
        (3, 255, 104, 9)
    );
}

#[test]
fn the_mask_names_what_is_given_and_nothing_else() {
    assert_eq!(qp_attr(&QpAttr::default(), 1).1, 0);
    let (attr, named) = qp_attr(
        &QpAttr {
            state: Some(QpState::Init),
            pkey_index: Some(0),
            port: Some(1),
            qkey: Some(QKey(0x1111_1111)),
            ..QpAttr::default()
        },
        1,
    );
    assert_eq!(
        named,
        mask::STATE | mask::PKEY_INDEX | mask::PORT | mask::QKEY
    );
    assert_eq!((attr.qp_state, attr.qkey), (1, 0x1111_1111));
}

#[test]
fn immediate_data_keeps_its_bytes() {
    let imm = [1, 2, 3, 4];
    let (code, word) = opcode(&SendOp::SendImm(imm));
    assert_eq!((code, word.to_ne_bytes()), (wr::SEND_WITH_IMM, imm));
    let mut arrived = ibv_wc {
        opcode: wc::RECV,
        imm_or_rkey: word,
        wc_flags: wc::WITH_IMM,
        ..ibv_wc::default()
    };
    let read = completion(&arrived);
    assert_eq!(
        (read.imm, read.invalidated, read.opcode),
        (Some(imm), None, WcOpcode::Recv)
    );
    arrived.wc_flags = wc::WITH_INV;
    assert_eq!(completion(&arrived).invalidated, Some(RKey(word)));
}
