use std::format;

use super::*;

#[test]
fn names_follow_the_kernel() {
    assert_eq!(format!("{}", Opcode(0x0a)), "RC_RDMA_WRITE_ONLY");
    assert_eq!(format!("{:?}", Opcode::UD_SEND_ONLY), "UD_SEND_ONLY");
    assert_eq!(format!("{}", Opcode(0x81)), "CNP");
    assert_eq!(format!("{}", Opcode(0xff)), "0xff");
}

#[test]
fn connected_transports_agree_on_their_common_operations() {
    for opcode in Opcode::ALL {
        let info = opcode.info().unwrap();
        if info.transport != Transport::Uc {
            continue;
        }
        let rc = Opcode(opcode.0 & 0x1f).info().unwrap();
        assert_eq!(
            OpcodeInfo {
                transport: Transport::Uc,
                ..rc
            },
            info,
            "{opcode}"
        );
    }
}

#[test]
fn defined_opcodes_are_exactly_the_listed_ones() {
    let defined = (0..=255)
        .map(Opcode)
        .filter(|opcode| opcode.info().is_some());
    assert!(defined.eq(Opcode::ALL.iter().copied()));
    assert_eq!(Opcode::ALL.len(), 25 + 12 + 2 + 1);
}

#[test]
fn headers_follow_from_name_and_position() {
    for opcode in Opcode::ALL {
        let info = opcode.info().unwrap();
        let name = opcode.name().unwrap();
        assert_eq!(
            info.headers.contains(HeaderSet::IMM),
            name.ends_with("WITH_IMM"),
            "{name}"
        );
        assert_eq!(
            info.headers.contains(HeaderSet::IETH),
            name.ends_with("WITH_INV"),
            "{name}"
        );
        assert_eq!(
            info.headers.contains(HeaderSet::RETH),
            info.is_request
                && info.position.is_start()
                && !matches!(
                    info.operation,
                    Operation::Send | Operation::CompareSwap | Operation::FetchAdd
                ),
            "{name}"
        );
        assert_eq!(
            info.headers.contains(HeaderSet::AETH),
            !info.is_request
                && info.position != Position::Middle
                && info.transport == Transport::Rc,
            "{name}"
        );
        assert_eq!(
            name.contains("FIRST"),
            info.position == Position::First,
            "{name}"
        );
        assert_eq!(
            name.contains("MIDDLE"),
            info.position == Position::Middle,
            "{name}"
        );
        assert_eq!(
            name.contains("LAST"),
            info.position == Position::Last,
            "{name}"
        );
    }
}

#[test]
fn header_lengths_add_up() {
    assert_eq!(
        Opcode::RC_RDMA_WRITE_ONLY_WITH_IMM
            .info()
            .unwrap()
            .headers
            .len(),
        20
    );
    assert_eq!(
        Opcode::RC_ATOMIC_ACKNOWLEDGE.info().unwrap().headers.len(),
        12
    );
    assert_eq!(Opcode::RC_FLUSH.info().unwrap().headers.len(), 20);
    assert_eq!(
        Opcode::UD_SEND_ONLY_WITH_IMM.info().unwrap().headers.len(),
        12
    );
    assert!(Opcode::RC_SEND_MIDDLE.info().unwrap().headers.is_empty());
}
