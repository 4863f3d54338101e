//! Limits of attributes and requests: the largest value that is taken, and the next one that is not.

use roce_engine::verbs::{
    Backend, ModifyError, Mtu, Payload, PostError, Psn, QpAttr, QpState, SendFlags, SendOp, SendWr,
    Sge, Status,
};
use roce_tests::pair::Pair;
use roce_tests::rc::{RcEnd, address};

/// Takes a QP of side 0 back to INIT; returns what its peer's attributes would be.
fn fresh(pair: &mut Pair) -> RcEnd {
    let ends = RcEnd::new(address(false, 1), pair.ends[1].qpn);
    let reset = QpAttr {
        state: Some(QpState::Reset),
        ..QpAttr::default()
    };
    for attr in [reset, ends.to_init()] {
        modify(pair, &attr).expect("legal");
    }
    ends
}

fn modify(pair: &mut Pair, attr: &QpAttr) -> Result<(), ModifyError> {
    let qp = pair.ends[0].qp;
    pair.world.device(0).modify_qp(qp, attr)
}

/// Asserts that a value is refused by the name of its attribute, and the state stays.
fn refused(pair: &mut Pair, attr: &QpAttr, name: &str) {
    let before = pair.ends[0].state(&mut pair.world, 0);
    match modify(pair, attr) {
        Err(ModifyError::Value { what, value, max }) => {
            assert_eq!(what, name);
            assert!(value > max, "{name}: {value} is within {max}");
        }
        other => panic!("{name}: {other:?}"),
    }
    assert_eq!(pair.ends[0].state(&mut pair.world, 0), before, "{name}");
}

#[test]
fn attributes_have_their_largest_values() {
    let mut pair = Pair::new();
    let ends = fresh(&mut pair);
    let mut init = ends.to_init();
    init.state = None;
    for (name, attr) in [
        (
            "pkey_index",
            QpAttr {
                pkey_index: Some(1),
                ..init
            },
        ),
        (
            "port",
            QpAttr {
                port: Some(2),
                ..init
            },
        ),
    ] {
        refused(&mut pair, &attr, name);
    }
    let rtr = ends.to_rtr();
    for (name, attr) in [
        (
            "max_dest_rd_atomic",
            QpAttr {
                max_dest_rd_atomic: Some(u8::MAX),
                ..rtr
            },
        ),
        (
            "min_rnr_timer",
            QpAttr {
                min_rnr_timer: Some(32),
                ..rtr
            },
        ),
    ] {
        refused(&mut pair, &attr, name);
    }
    let largest = QpAttr {
        min_rnr_timer: Some(31),
        path_mtu: Some(Mtu::B4096),
        ..rtr
    };
    modify(&mut pair, &largest).expect("31 is a timer, 4096 a path MTU");
    let rts = ends.to_rts();
    let value = |change: fn(&mut QpAttr)| {
        let mut attr = rts;
        change(&mut attr);
        attr
    };
    for (name, attr) in [
        ("max_rd_atomic", value(|a| a.max_rd_atomic = Some(u8::MAX))),
        ("timeout", value(|a| a.timeout = Some(32))),
        ("retry_cnt", value(|a| a.retry_cnt = Some(8))),
        ("rnr_retry", value(|a| a.rnr_retry = Some(8))),
    ] {
        refused(&mut pair, &attr, name);
    }
    let largest = value(|a| {
        (a.timeout, a.retry_cnt, a.rnr_retry) = (Some(31), Some(7), Some(7));
        a.sq_psn = Some(Psn::new(0x00ff_ffff));
    });
    modify(&mut pair, &largest).expect("the largest values");
}

/// Posts a SEND of pieces that nobody has to have registered: that is found when they are read.
fn post(pair: &mut Pair, lengths: &[u32]) -> Result<(), PostError> {
    let sges: Vec<_> = lengths
        .iter()
        .map(|&length| Sge {
            length,
            ..pair.ends[0].sge(0, 0)
        })
        .collect();
    let wr = SendWr {
        wr_id: 1,
        op: SendOp::Send,
        payload: Payload::Sges(&sges),
        flags: SendFlags::SIGNALED,
    };
    let qp = pair.ends[0].qp;
    pair.world.device(0).post_send(qp, &[wr])
}

#[test]
fn a_message_has_two_to_the_31_bytes_and_no_more() {
    let mut pair = Pair::new();
    let half = 1 << 30;
    assert_eq!(post(&mut pair, &[half, half]), Ok(()));
    assert_eq!(
        post(&mut pair, &[half, half, 1]),
        Err(PostError::MessageTooLong)
    );
    assert_eq!(
        post(&mut pair, &[u32::MAX, u32::MAX]),
        Err(PostError::MessageTooLong)
    );
}

/// A READ without `max_rd_atomic` would wait for ever: it is refused when it is posted, except where it is flushed.
#[test]
fn fetches_need_a_read_depth() {
    let mut pair = Pair::with(|setup| setup.max_rd_atomic = 0);
    for op in [pair.read_from(0, 0), pair.add_to(0, 0, 1)] {
        let refused = pair.try_post(0, 1, op, (0, 8), SendFlags::SIGNALED);
        assert_eq!(refused, Err(PostError::Unsupported));
    }
    let error = QpAttr {
        state: Some(QpState::Err),
        ..QpAttr::default()
    };
    modify(&mut pair, &error).expect("legal");
    let read = pair.read_from(0, 0);
    pair.post(0, 2, read, (0, 8));
    pair.expect_sent(0, &[(2, Status::WrFlushErr)]);
}
