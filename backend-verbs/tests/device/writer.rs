//! Send requests by `ibv_wr_*`, and what else only some providers have.

use roce_engine::verbs::{
    Access, Backend as _, Payload, PostError, RKey, SendFlags, SendOp, SendWr, Service,
};

use crate::{Bed, fake};

/// A WRITE of one byte that is copied.
fn write(bed: &Bed) -> SendWr<'static> {
    SendWr {
        wr_id: 7,
        op: SendOp::Write {
            addr: bed.memory.addr(),
            rkey: bed.mr.rkey,
        },
        payload: Payload::Inline(b"x"),
        flags: SendFlags::SIGNALED,
    }
}

#[test]
fn a_device_says_whether_it_has_the_calls() {
    assert!(fake::open("fake_roce0").unwrap().device().wr_api);
    fake::fail("ibv_create_qp_ex", libc::EOPNOTSUPP, 0);
    let bed = &mut Bed::new("fake_roce0");
    assert!(!bed.device.device().wr_api);
    let (a, _) = bed.pair(Service::Rc);
    let write = write(bed);
    bed.device.post_send(a, &[write]).unwrap();
    assert_eq!((bed.poll().len(), fake::written()), (1, 0));
}

#[test]
fn trying_for_the_calls_leaves_nothing_behind() {
    // What can't even be tried is not there; the device opens.
    for call in ["ibv_alloc_pd", "ibv_create_cq"] {
        fake::fail(call, libc::ENOMEM, 0);
        assert!(!fake::open("fake_roce0").unwrap().device().wr_api, "{call}");
        fake::fail(call, 0, u32::MAX);
    }
    let bed = &mut Bed::new("fake_roce0");
    // A queue that a QP still used could not be destroyed.
    bed.device.destroy_cq(bed.cq).unwrap();
}

#[test]
fn a_refused_batch_is_taken_back_and_goes_as_a_list_where_the_queue_was_full() {
    let bed = &mut Bed::new("fake_roce0");
    let (a, _) = bed.pair(Service::Rc);
    let write = write(bed);
    // The queue has 128 places, of which a list finds 70.
    fake::fail("ibv_post_send", libc::ENOMEM, 70);
    assert_eq!(
        bed.device.post_send(a, &[write; 129]),
        Err(PostError::QueueFull { posted: 70 })
    );
    assert_eq!((fake::written(), bed.poll().len()), (0, 64));
    fake::fail("wr_complete", libc::EINVAL, 0);
    assert_eq!(
        bed.device.post_send(a, &[write]),
        Err(PostError::Device(libc::EINVAL))
    );
    fake::fail("wr_complete", 0, u32::MAX);
    while !bed.poll().is_empty() {}
    bed.device.post_send(a, &[write]).unwrap();
    assert_eq!((fake::written(), bed.poll().len()), (1, 1));
}

#[test]
fn what_comes_before_a_bad_request_is_posted() {
    let bed = &mut Bed::new("fake_roce0");
    let (a, _) = bed.pair(Service::Rc);
    let good = write(bed);
    let long = SendWr {
        payload: Payload::Inline(&[0; 65]),
        ..good
    };
    let alone = SendWr {
        op: SendOp::Read {
            addr: 0,
            rkey: RKey(1),
        },
        ..good
    };
    for (bad, error) in [
        (long, PostError::InlineTooLong),
        (alone, PostError::InlineFetch),
    ] {
        assert_eq!(bed.device.post_send(a, &[good, good, bad]), Err(error));
        assert_eq!(bed.poll().len(), 2);
    }
    assert_eq!(fake::written(), 4);
}

#[test]
fn ordering_is_relaxed_where_it_is_asked_for() {
    const RELAXED: u32 = 1 << 20;
    let bed = &mut Bed::new("fake_roce0");
    assert!(bed.device.device().relaxed_ordering);
    assert_eq!(fake::access() & RELAXED, 0);
    let asked = Access::LOCAL_WRITE | Access::RELAXED_ORDERING;
    bed.device.register(bed.pd, &bed.memory, asked).unwrap();
    assert_eq!(fake::access(), 1 | RELAXED);
}

#[test]
fn a_device_is_known_by_its_vendor_and_part() {
    for (vendor, part, bytes) in [(0x2c9, 4119, 220), (0x1d0f, 61344, 32), (0x2c9, 1, 0)] {
        fake::identity(vendor, part);
        let device = fake::open("fake_roce0").unwrap();
        assert_eq!(device.device().latency_inline.write, bytes);
    }
}
