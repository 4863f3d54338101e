//! Posting and polling allocate nothing.

use roce_engine::verbs::{
    Backend as _, Completion, Payload, RecvWr, SendFlags, SendOp, SendWr, Service, Sge, Status,
};

use crate::Bed;

/// Messages of one call.
const BATCH: usize = 32;

#[test]
fn messages_allocate_nothing_by_either_call() {
    for mut bed in [
        Bed::new("fake_roce0"),
        Bed::with_old_post_send("fake_roce0"),
    ] {
        let (a, b) = bed.pair(Service::Rc);
        let (addr, rkey) = (bed.mr.addr, bed.mr.rkey);
        // Not where the peer's messages are: the library copies.
        let sges = [Sge {
            addr: addr + 64,
            length: 8,
            lkey: bed.mr.lkey,
        }];
        let pieces = Payload::Sges(&sges);
        let messages = [
            (SendOp::Send, pieces),
            (SendOp::Send, Payload::Inline(b"inline")),
            (SendOp::Write { addr, rkey }, pieces),
            (SendOp::Read { addr, rkey }, pieces),
            (SendOp::FetchAdd { addr, rkey, add: 1 }, pieces),
        ];
        let mut out = [Completion::default(); 2 * BATCH];
        let mut rounds = |count: usize| {
            for (op, payload) in messages.iter().cycle().take(count * messages.len()) {
                let request = SendWr {
                    wr_id: 1,
                    op: *op,
                    payload: *payload,
                    flags: SendFlags::SIGNALED,
                };
                let mut wanted = BATCH;
                if *op == SendOp::Send {
                    let receive = RecvWr {
                        wr_id: 2,
                        sges: &sges,
                    };
                    bed.device.post_recv(b, &[receive; BATCH]).unwrap();
                    wanted *= 2;
                }
                bed.device.post_send(a, &[request; BATCH]).unwrap();
                let taken = bed.device.poll_cq(bed.cq, &mut out).unwrap();
                assert_eq!(taken, wanted, "{op:?}");
                let all_well = |done: &Completion| done.status == Status::Success;
                assert!(out[..taken].iter().all(all_well), "{op:?}");
                assert_eq!(bed.device.poll_cq(bed.cq, &mut out), Ok(0));
            }
        };
        rounds(1);
        let allocated = allocation_counter::measure(|| rounds(4));
        assert_eq!((allocated.count_total, allocated.bytes_total), (0, 0));
    }
}
