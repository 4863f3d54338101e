//! Send requests by `ibv_wr_*`, and what else only some providers have.

use roce_engine::verbs::{
    Access, Backend as _, Payload, PostError, RKey, SendFlags, SendOp, SendWr, Service,
};

use backend_verbs::Posting;

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
    let all = [Service::Rc, Service::Uc, Service::Ud];
    let has = |posting| {
        let device = fake::open_posting("fake_roce0", posting).unwrap();
        all.map(|service| device.has_wr_api(service))
    };
    assert_eq!(has(Posting::WrApi), [true; 3]);
    assert_eq!(has(Posting::PostSend), [false; 3]);
    // Not on a device that perftest does not know, and on a ConnectX-5.
    assert_eq!(has(Posting::AsPerftest), [false; 3]);
    fake::identity(0x2c9, 4119);
    assert_eq!(has(Posting::AsPerftest), [true; 3]);
    // One refused service after the other: connections, and datagrams where all tries of the others were refused.
    fake::fail("ibv_create_qp_ex", libc::EOPNOTSUPP, 0);
    let bed = &mut Bed::new("fake_roce0");
    assert_eq!(
        all.map(|service| bed.device.has_wr_api(service)),
        [false; 3]
    );
    let (a, _) = bed.pair(Service::Rc);
    let write = write(bed);
    bed.device.post_send(a, &[write]).unwrap();
    assert_eq!((bed.poll().len(), fake::written()), (1, 0));
}

#[test]
fn trying_for_the_calls_leaves_nothing_behind() {
    // What can't even be tried is not there; the device opens.
    let open = || fake::open_posting("fake_roce0", Posting::WrApi).unwrap();
    for call in ["ibv_alloc_pd", "ibv_create_cq"] {
        fake::fail(call, libc::ENOMEM, 0);
        assert!(!open().has_wr_api(Service::Rc), "{call}");
        assert_eq!(fake::objects(), 0, "{call}");
        fake::fail(call, 0, u32::MAX);
    }
    assert!(open().has_wr_api(Service::Rc));
    assert_eq!(fake::objects(), 0);
}

#[test]
fn a_batch_goes_only_where_the_queue_surely_has_room() {
    let bed = &mut Bed::new("fake_roce0");
    let (a, _) = bed.pair(Service::Rc);
    let write = write(bed);
    let silent = SendWr {
        flags: SendFlags::NONE,
        ..write
    };
    // The queue has 128 places: 120 are taken, and nothing has been polled for.
    bed.device.post_send(a, &[write; 120]).unwrap();
    assert_eq!(fake::written(), 120);
    fake::fail("ibv_post_send", libc::ENOMEM, 8);
    assert_eq!(
        bed.device.post_send(a, &[write; 9]),
        Err(PostError::QueueFull { posted: 8 })
    );
    assert_eq!(fake::written(), 120, "the list is refused in order");
    assert_eq!(bed.poll().len() + bed.poll().len(), 128);
    // What completes nothing is there until something behind it does.
    bed.device.post_send(a, &[silent; 100]).unwrap();
    assert_eq!((fake::written(), bed.poll().len()), (220, 0));
    fake::fail("ibv_post_send", libc::ENOMEM, 0);
    assert_eq!(
        bed.device.post_send(a, &[write; 29]),
        Err(PostError::QueueFull { posted: 0 })
    );
    bed.device.post_send(a, &[write; 28]).unwrap();
    assert_eq!((fake::written(), bed.poll().len()), (248, 28));
    bed.device.post_send(a, &[write; 128]).unwrap();
    assert_eq!(fake::written(), 376);
}

#[test]
fn a_refused_batch_is_told_and_lists_follow_it_until_a_reset() {
    for (errno, told) in [
        (libc::EINVAL, PostError::Device(libc::EINVAL)),
        // As one provider returns it.
        (-libc::EINVAL, PostError::Device(libc::EINVAL)),
        (libc::ENOSPC, PostError::QueueFull { posted: 0 }),
    ] {
        let bed = &mut Bed::new("fake_roce0");
        let (a, _) = bed.pair(Service::Rc);
        let (write, before) = (write(bed), fake::written());
        fake::fail("wr_complete", errno, 0);
        assert_eq!(bed.device.post_send(a, &[write]), Err(told));
        fake::fail("wr_complete", 0, u32::MAX);
        bed.device.post_send(a, &[write]).unwrap();
        let by_batch = u32::from(errno == libc::ENOSPC);
        assert_eq!((fake::written() - before, bed.poll().len()), (by_batch, 1));
    }
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
    // How many that were is not told, so that a list is taken afterwards, which is refused where the queue is full.
    assert_eq!(fake::written(), 2);
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
