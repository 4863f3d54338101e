//! What is posted and what completes.

use core::time::Duration;

use roce_engine::verbs::{
    Access, AsyncEvent, Backend as _, Payload, QKey, RKey, RecvWr, SendFlags, SendOp, SendWr,
    Service, Sge, Status, WcOpcode,
};

use crate::{Bed, by_gid, fake};

/// Tests that run with requests by `ibv_wr_*`, without those of windows, and by `ibv_post_send`.
macro_rules! by_each_call {
    ($($name:ident),*) => {
        mod by_wr_api {
            $(#[test]
            fn $name() {
                super::$name(&mut super::Bed::new("fake_roce0"));
                assert!(super::fake::written() > 0);
            })*
        }

        mod by_wr_api_without_windows {
            $(#[test]
            fn $name() {
                super::fake::fail("windows by ibv_wr", 1, 0);
                super::$name(&mut super::Bed::new("fake_roce0"));
            })*
        }

        mod by_post_send {
            $(#[test]
            fn $name() {
                super::$name(&mut super::Bed::with_old_post_send("fake_roce0"));
                assert_eq!(super::fake::written(), 0);
            })*
        }
    };
}

by_each_call!(
    writes_reads_and_atomics_move_memory,
    messages_meet_receives_with_their_immediate_data,
    datagrams_take_receives_of_a_shared_queue_behind_their_grh,
    lists_longer_than_one_call_are_posted_whole,
    an_armed_queue_wakes_a_sleeper_once,
    windows_are_bound_and_end
);

fn request<'a>(wr_id: u64, op: SendOp, payload: Payload<'a>) -> SendWr<'a> {
    SendWr {
        wr_id,
        op,
        payload,
        flags: SendFlags::SIGNALED,
    }
}

fn sge(bed: &Bed, offset: u64, length: u32) -> Sge {
    Sge {
        addr: bed.memory.addr() + offset,
        length,
        lkey: bed.mr.lkey,
    }
}

fn bytes(bed: &Bed, offset: usize, length: usize) -> Vec<u8> {
    let mut out = vec![0; length];
    bed.memory.read(offset, &mut out);
    out
}

fn writes_reads_and_atomics_move_memory(bed: &mut Bed) {
    let (a, _) = bed.pair(Service::Rc);
    let (addr, rkey) = (bed.memory.addr() + 4096, bed.mr.rkey);
    bed.memory.write(0, b"hello, world");
    let pieces = [sge(bed, 0, 5), sge(bed, 7, 5)];
    let write = SendOp::Write { addr, rkey };
    bed.device
        .post_send(a, &[request(1, write, Payload::Sges(&pieces))])
        .unwrap();
    assert_eq!(bytes(bed, 4096, 10), b"helloworld");
    let inline = request(2, write, Payload::Inline(b"inline"));
    let back = [sge(bed, 512, 6)];
    let read = request(3, SendOp::Read { addr, rkey }, Payload::Sges(&back));
    bed.device.post_send(a, &[inline, read]).unwrap();
    assert_eq!(bytes(bed, 512, 6), b"inline");
    bed.memory.write(4096, &7_u64.to_ne_bytes());
    let eight = [sge(bed, 1024, 8)];
    let add = SendOp::FetchAdd { addr, rkey, add: 5 };
    let swap = SendOp::CompareSwap {
        addr,
        rkey,
        compare: 12,
        swap: 99,
    };
    let atomics = [
        request(4, add, Payload::Sges(&eight)),
        request(5, swap, Payload::Sges(&eight)),
    ];
    bed.device.post_send(a, &atomics).unwrap();
    assert_eq!(bytes(bed, 4096, 8), 99_u64.to_ne_bytes());
    assert_eq!(bytes(bed, 1024, 8), 12_u64.to_ne_bytes());
    let done: Vec<_> = bed.poll().iter().map(|wc| (wc.wr_id, wc.opcode)).collect();
    assert_eq!(
        done,
        [
            (1, WcOpcode::Write),
            (2, WcOpcode::Write),
            (3, WcOpcode::Read),
            (4, WcOpcode::FetchAdd),
            (5, WcOpcode::CompareSwap),
        ]
    );
}

fn messages_meet_receives_with_their_immediate_data(bed: &mut Bed) {
    let (a, b) = bed.pair(Service::Rc);
    let room = [sge(bed, 2048, 64)];
    for wr_id in 0..3 {
        let receive = RecvWr { wr_id, sges: &room };
        bed.device.post_recv(b, &[receive]).unwrap();
    }
    let (addr, rkey) = (bed.memory.addr() + 4096, bed.mr.rkey);
    let imm = *b"abcd";
    let from = [sge(bed, 0, 16)];
    let sent = [
        request(10, SendOp::SendImm(imm), Payload::Sges(&from)),
        request(11, SendOp::SendInv(RKey(0x77)), Payload::Sges(&from)),
        request(
            12,
            SendOp::WriteImm { addr, rkey, imm },
            Payload::Sges(&from),
        ),
    ];
    bed.device.post_send(a, &sent).unwrap();
    let received: Vec<_> = bed
        .poll()
        .into_iter()
        .filter(|wc| wc.wr_id < 10)
        .map(|wc| (wc.opcode, wc.byte_len, wc.imm, wc.invalidated))
        .collect();
    assert_eq!(
        received,
        [
            (WcOpcode::Recv, 16, Some(imm), None),
            (WcOpcode::Recv, 16, None, Some(RKey(0x77))),
            (WcOpcode::RecvWriteImm, 16, Some(imm), None),
        ]
    );
}

fn datagrams_take_receives_of_a_shared_queue_behind_their_grh(bed: &mut Bed) {
    let srq = bed.device.create_srq(bed.pd, 16, 2).unwrap();
    let (a, a_qpn) = bed.qp(Service::Ud, None);
    let (b, b_qpn) = bed.qp(Service::Ud, Some(srq));
    bed.connect(a, b_qpn, Service::Ud);
    bed.connect(b, a_qpn, Service::Ud);
    let room = [sge(bed, 2048, 128)];
    let receive = RecvWr {
        wr_id: 1,
        sges: &room,
    };
    bed.device.post_srq_recv(srq, &[receive]).unwrap();
    let ah = bed.device.create_ah(bed.pd, &by_gid(2)).unwrap();
    let datagram = SendOp::Datagram {
        ah,
        qpn: b_qpn,
        qkey: QKey(0x1111_1111),
        imm: None,
    };
    bed.device
        .post_send(a, &[request(2, datagram, Payload::Inline(b"datagram"))])
        .unwrap();
    let taken = bed.poll();
    assert_eq!(taken.len(), 2);
    assert_eq!(
        (taken[0].byte_len, taken[0].src_qpn, taken[0].qpn),
        (48, a_qpn, b_qpn)
    );
    assert_eq!(bytes(bed, 2048 + 40, 8), b"datagram");
}

fn lists_longer_than_one_call_are_posted_whole(bed: &mut Bed) {
    let (a, _) = bed.pair(Service::Rc);
    let (addr, rkey) = (bed.memory.addr() + 4096, bed.mr.rkey);
    let pieces = [sge(bed, 0, 1); 4];
    let all: Vec<_> = (0..100)
        .map(|wr_id| request(wr_id, SendOp::Write { addr, rkey }, Payload::Sges(&pieces)))
        .collect();
    bed.device.post_send(a, &all).unwrap();
    let mut done = bed.poll();
    done.extend(bed.poll());
    let ids: Vec<u64> = done.iter().map(|wc| wc.wr_id).collect();
    assert_eq!(ids, (0..100).collect::<Vec<_>>());
}

fn an_armed_queue_wakes_a_sleeper_once(bed: &mut Bed) {
    let (a, _) = bed.pair(Service::Rc);
    let (addr, rkey) = (bed.memory.addr() + 4096, bed.mr.rkey);
    bed.device.arm_cq(bed.cq, false).unwrap();
    bed.device.wait(Duration::from_millis(1)).unwrap();
    assert!(!bed.device.take_notification(bed.cq));
    let write = SendOp::Write { addr, rkey };
    for wr_id in 0..2 {
        let one = request(wr_id, write, Payload::Inline(b"x"));
        bed.device.post_send(a, &[one]).unwrap();
    }
    bed.device.wait(Duration::from_secs(60)).unwrap();
    assert!(bed.device.take_notification(bed.cq));
    assert!(!bed.device.take_notification(bed.cq));
    assert_eq!(bed.poll().len(), 2);
}

fn windows_are_bound_and_end(bed: &mut Bed) {
    let (a, _) = bed.pair(Service::Rc);
    let mw = bed.device.alloc_mw(bed.pd).unwrap();
    let bind = SendOp::BindMw {
        mw,
        rkey: RKey(mw.rkey.0 + 1),
        mr: bed.mr,
        addr: bed.mr.addr,
        length: 64,
        access: Access::REMOTE_WRITE,
    };
    let none = Payload::Sges(&[]);
    let both = [
        request(1, bind, none),
        request(2, SendOp::LocalInv(mw.rkey), none),
    ];
    bed.device.post_send(a, &both).unwrap();
    let done: Vec<_> = bed.poll().iter().map(|wc| wc.opcode).collect();
    assert_eq!(done, [WcOpcode::BindMw, WcOpcode::LocalInv]);
    bed.device.dealloc_mw(mw).unwrap();
}

#[test]
fn events_name_the_objects_that_they_are_about() {
    let mut bed = Bed::new("fake_roce0");
    let (qp, qpn) = bed.qp(Service::Rc, None);
    let number = qpn.value();
    for kind in [4, 1, 2, 3, 5, 16] {
        fake::event(number, kind);
    }
    let events: Vec<_> = core::iter::from_fn(|| bed.device.poll_event()).collect();
    assert_eq!(
        events,
        [
            AsyncEvent::CommEstablished(qpn),
            AsyncEvent::QpFatal(qpn),
            AsyncEvent::QpRequestError(qpn),
            AsyncEvent::QpAccessError(qpn),
            AsyncEvent::SqDrained(qpn),
            AsyncEvent::LastWqeReached(qpn),
        ]
    );
    for (kind, words) in [
        (
            8,
            "fake_roce0 has failed (IBV_EVENT_DEVICE_FATAL): the kernel log has the reason",
        ),
        (
            10,
            "fake_roce0 port 1 went down: look at its cable, or at its interface",
        ),
        (9, "fake_roce0 port 1 is up"),
    ] {
        fake::event(0, kind);
        assert_eq!(
            bed.device.poll_event(),
            Some(AsyncEvent::Notice(words.to_owned()))
        );
    }
    bed.device.destroy_qp(qp).unwrap();
}

#[test]
fn a_failed_completion_tells_the_vendor_s_code() {
    let mut bed = Bed::new("fake_roce0");
    let (_, qpn) = bed.qp(Service::Rc, None);
    fake::completion(qpn.value(), 12, 0x81);
    let failed = bed.poll()[0];
    assert_eq!((failed.status, failed.qpn), (Status::RetryExcErr, qpn));
    let Some(AsyncEvent::Notice(words)) = bed.device.poll_event() else {
        panic!("no notice");
    };
    assert!(
        words.contains("status 12") && words.contains("vendor's code 0x81"),
        "{words}"
    );
}
