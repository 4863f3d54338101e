//! What is refused, before the device is asked and by it, with the sentence that is printed.

use roce_engine::verbs::{
    Access, Backend as _, Completion, CreateError, Gid, ModifyError, Payload, PostError, QpAttr,
    QpState, Qpn, RecvWr, Region, RegisterError, SendFlags, SendOp, SendWr, Service, Sge,
};

use crate::{Bed, by_gid, fake, steps};

fn sentence<T: core::fmt::Debug, E: core::fmt::Display>(result: Result<T, E>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn every_errno_of_registration_has_its_words() {
    for (errno, words) in [
        (
            libc::ENOMEM,
            "ENOMEM (12), Cannot allocate memory: registered memory is locked: raise the limit (ulimit -l unlimited) \
             or use smaller messages and depths",
        ),
        (
            libc::EFAULT,
            "EFAULT (14), Bad address: a part of this memory is not mapped",
        ),
        (
            libc::EINVAL,
            "EINVAL (22), Invalid argument: the device does not take these access rights or this length",
        ),
        (
            libc::EPERM,
            "EPERM (1), Operation not permitted: this process may not do that: run it as root",
        ),
        (
            libc::EOPNOTSUPP,
            "EOPNOTSUPP (95), Operation not supported: the device cannot register this kind of memory",
        ),
        (
            libc::EAGAIN,
            "EAGAIN (11), Resource temporarily unavailable: the device is out of this for the moment: other processes use it",
        ),
    ] {
        let mut bed = Bed::new("fake_roce0");
        fake::fail("ibv_reg_mr", errno, 0);
        let memory = Region::zeroed(64, 64).unwrap();
        let refused = bed.device.register(bed.pd, &memory, Access::LOCAL_WRITE);
        assert_eq!(
            sentence(refused),
            format!("ibv_reg_mr of 64 bytes on fake_roce0: {words}")
        );
        fake::fail("ibv_reg_mr", 0, u32::MAX);
    }
    let mut bed = Bed::new("fake_roce0");
    let illegal = bed
        .device
        .register(bed.pd, &bed.memory, Access::REMOTE_WRITE);
    assert_eq!(illegal, Err(RegisterError::IllegalAccess));
}

#[test]
fn every_errno_of_the_other_objects_has_its_words() {
    let mut bed = Bed::new("fake_roce0");
    fake::fail("ibv_alloc_pd", libc::ENOSPC, 0);
    assert_eq!(
        sentence(bed.device.alloc_pd()),
        "ibv_alloc_pd of a protection domain on fake_roce0: ENOSPC (28), No space left on device: the device has no \
         more of these"
    );
    fake::fail("ibv_create_cq", libc::EINVAL, 0);
    assert_eq!(
        sentence(bed.device.create_cq(7)),
        "ibv_create_cq of a completion queue of 7 entries on fake_roce0: EINVAL (22), Invalid argument: a size is \
         beyond what the device can"
    );
    fake::fail("ibv_resize_cq", libc::EOPNOTSUPP, 0);
    assert_eq!(
        sentence(bed.device.resize_cq(bed.cq, 9)),
        "ibv_resize_cq of a completion queue to 9 entries on fake_roce0: EOPNOTSUPP (95), Operation not supported: \
         the device or its driver does not have this"
    );
    fake::fail("ibv_create_srq", libc::ENOMEM, 0);
    assert_eq!(
        sentence(bed.device.create_srq(bed.pd, 8, 1)),
        "ibv_create_srq of a shared receive queue of 8 receives on fake_roce0: ENOMEM (12), Cannot allocate memory: \
         the device or the kernel has no memory for it"
    );
    fake::fail("ibv_alloc_mw", libc::EOPNOTSUPP, 0);
    assert!(
        sentence(bed.device.alloc_mw(bed.pd))
            .starts_with("ibv_alloc_mw of a memory window on fake_roce0: ")
    );
    fake::fail("ibv_create_ah", libc::EHOSTUNREACH, 0);
    assert_eq!(
        sentence(bed.device.create_ah(bed.pd, &by_gid(2))),
        "ibv_create_ah of an address handle of 127.0.0.1 on fake_roce0: EHOSTUNREACH (113), No route to host: there \
         is no route from our GID to the peer's: choose the row of another interface (-x)"
    );
    fake::fail("ibv_create_qp_ex", libc::EOPNOTSUPP, 0);
    fake::fail("ibv_create_qp", libc::EOPNOTSUPP, 0);
    let init = bed.init(Service::Uc, None);
    assert_eq!(
        sentence(bed.device.create_qp(&init)),
        "ibv_create_qp of a Uc QP on fake_roce0: EOPNOTSUPP (95), Operation not supported: the device has no such \
         transport service"
    );
}

#[test]
fn every_errno_of_a_connection_has_its_words() {
    for (errno, words) in [
        (
            libc::ETIMEDOUT,
            "ETIMEDOUT (110), Connection timed out: the peer's address was not resolved: nothing answers ARP or \
             neighbour discovery for it on the GID's interface",
        ),
        (
            libc::ENETUNREACH,
            "ENETUNREACH (101), Network is unreachable: there is no route from our GID to the peer's: choose the row \
             of another interface (-x)",
        ),
        (
            libc::ENODATA,
            "ENODATA (61), No data available: our row of the GID table is empty: its address has gone, choose \
             another (-x)",
        ),
        (
            libc::EINVAL,
            "EINVAL (22), Invalid argument: the device refuses a value, most often the GID index (-x) or the peer's \
             GID",
        ),
        (
            libc::ENODEV,
            "ENODEV (19), No such device: the device is gone, or its driver has given it up",
        ),
        (71, "errno 71, Protocol error"),
    ] {
        let mut bed = Bed::new("fake_roce0");
        let (qp, qpn) = bed.qp(Service::Rc, None);
        let [init, rtr, _] = steps(Service::Rc, Qpn::new(5), by_gid(2));
        bed.device.modify_qp(qp, &init).unwrap();
        fake::fail("ibv_modify_qp", errno, 0);
        assert_eq!(
            sentence(bed.device.modify_qp(qp, &rtr)),
            format!(
                "ibv_modify_qp of QPN {qpn} on fake_roce0 from INIT to RTR (address, path_mtu, dest_qpn, rq_psn, \
                 max_dest_rd_atomic, min_rnr_timer), the peer at 127.0.0.1: {words}"
            )
        );
        fake::fail("ibv_modify_qp", 0, u32::MAX);
        // Nothing has changed: the same step goes well when the device lets it.
        bed.device.modify_qp(qp, &rtr).unwrap();
    }
}

#[test]
fn wrong_attributes_have_names_before_the_kernel_says_einval() {
    let mut bed = Bed::new("fake_roce0");
    fake::fail("ibv_modify_qp", libc::EIO, 0);
    let (qp, _) = bed.qp(Service::Rc, None);
    let [_, rtr, rts] = steps(Service::Rc, Qpn::new(5), by_gid(2));
    assert_eq!(
        sentence(bed.device.modify_qp(qp, &rts)),
        "a Rc QP cannot go from RESET to RTS"
    );
    let bare = QpAttr {
        state: Some(QpState::Init),
        sq_psn: rts.sq_psn,
        ..QpAttr::default()
    };
    assert_eq!(
        sentence(bed.device.modify_qp(qp, &bare)),
        "modifying a QP from RESET to INIT: missing attributes: pkey_index, port, access; attributes not allowed: \
         sq_psn"
    );
    fake::fail("ibv_modify_qp", 0, u32::MAX);
    let [init, ..] = steps(Service::Rc, Qpn::new(5), by_gid(2));
    bed.device.modify_qp(qp, &init).unwrap();
    let many = QpAttr {
        max_dest_rd_atomic: Some(17),
        ..rtr
    };
    assert_eq!(
        sentence(bed.device.modify_qp(qp, &many)),
        "max_dest_rd_atomic 17 is out of range (0 to 16)"
    );
    let empty = QpAttr {
        address: Some(by_gid(6)),
        ..rtr
    };
    assert_eq!(
        sentence(bed.device.modify_qp(qp, &empty)),
        "row 6 of the GID table of fake_roce0 is empty"
    );
    let other = QpAttr {
        address: Some(by_gid(1)),
        ..rtr
    };
    assert!(sentence(bed.device.modify_qp(qp, &other)).contains("they are of different families"));
}

#[test]
fn infiniband_is_reached_by_lid_and_ethernet_is_not() {
    let mut by_lid = by_gid(0);
    by_lid.dgid = Gid::default();
    by_lid.dlid = 0x21;
    let mut ib = Bed::new("fake_ib0");
    let (qp, qpn) = ib.qp(Service::Rc, None);
    for attr in steps(Service::Rc, qpn, by_lid) {
        ib.device.modify_qp(qp, &attr).unwrap();
    }
    let (second, _) = ib.qp(Service::Rc, None);
    let [init, rtr, _] = steps(Service::Rc, qpn, by_lid);
    ib.device.modify_qp(second, &init).unwrap();
    let mut nowhere = by_lid;
    nowhere.dlid = 0;
    let rtr_nowhere = QpAttr {
        address: Some(nowhere),
        ..rtr
    };
    assert_eq!(
        sentence(ib.device.modify_qp(second, &rtr_nowhere)),
        "the peer has neither a GID nor a LID: its port has no subnet manager"
    );
    let mut roce = Bed::new("fake_roce0");
    let (qp, _) = roce.qp(Service::Rc, None);
    roce.device.modify_qp(qp, &init).unwrap();
    assert_eq!(
        sentence(roce.device.modify_qp(qp, &rtr)),
        "the peer has no GID, and fake_roce0 is on Ethernet, where one is needed: give the peer -x"
    );
}

#[test]
fn sizes_beyond_the_device_are_named_and_inline_data_is_found_out() {
    let mut bed = Bed::new("fake_roce0");
    let mut init = bed.init(Service::Rc, None);
    init.caps.max_send_wr = 8193;
    assert_eq!(
        sentence(bed.device.create_qp(&init)),
        "max_send_wr 8193 is above the device's limit of 8192"
    );
    init.caps.max_send_wr = 16;
    init.caps.max_inline = 600;
    assert_eq!(
        sentence(bed.device.create_qp(&init)),
        "fake_roce0 makes no QP that copies messages of up to 600 bytes (-I), but one that copies none: use a \
         smaller one"
    );
    assert_eq!(
        sentence(bed.device.create_cq((1 << 20) + 1)),
        "CQ depth 1048577 is above the device's limit of 1048576"
    );
}

#[test]
fn a_qp_that_the_device_has_put_into_error_says_so() {
    let mut bed = Bed::new("fake_roce0");
    let (a, _) = bed.pair(Service::Rc);
    let qpn = bed.device.query_qp(a).unwrap().qpn;
    fake::state(qpn.value(), 6);
    assert_eq!(bed.device.query_qp(a).unwrap().state, QpState::Err);
    fake::fail("ibv_modify_qp", libc::EINVAL, 0);
    let drain = QpAttr {
        state: Some(QpState::Sqd),
        ..QpAttr::default()
    };
    let text = sentence(bed.device.modify_qp(a, &drain));
    assert!(
        text.contains("from RTS to SQD (none), which the device has put into ERR since: EINVAL"),
        "{text}"
    );
}

#[test]
fn a_post_that_fails_late_tells_what_is_posted() {
    let mut bed = Bed::with_old_post_send("fake_roce0");
    let (a, b) = bed.pair(Service::Rc);
    let write = SendWr {
        wr_id: 0,
        op: SendOp::Write {
            addr: bed.memory.addr(),
            rkey: bed.mr.rkey,
        },
        payload: Payload::Inline(b"x"),
        flags: SendFlags::SIGNALED,
    };
    fake::fail("ibv_post_send", libc::ENOMEM, 70);
    assert_eq!(
        bed.device.post_send(a, &[write; 100]),
        Err(PostError::QueueFull { posted: 70 })
    );
    fake::fail("ibv_post_send", libc::EINVAL, 0);
    assert_eq!(
        bed.device.post_send(a, &[write]),
        Err(PostError::Device(libc::EINVAL))
    );
    fake::fail("ibv_post_recv", libc::ENOMEM, 65);
    let receive = RecvWr {
        wr_id: 0,
        sges: &[],
    };
    assert_eq!(
        bed.device.post_recv(b, &[receive; 66]),
        Err(PostError::QueueFull { posted: 65 })
    );
    fake::fail("ibv_poll_cq", libc::EIO, 0);
    let mut out = [Completion::default(); 4];
    let text = sentence(bed.device.poll_cq(bed.cq, &mut out));
    assert!(
        text.starts_with("fake_roce0: its driver cannot poll the completion queue (ibv_poll_cq returned -5, EIO (5)"),
        "{text}"
    );
}

#[test]
fn requests_that_cannot_be_are_refused_as_our_engine_refuses_them() {
    let mut bed = Bed::new("fake_roce0");
    let (a, b) = bed.pair(Service::Uc);
    let (fresh, _) = bed.qp(Service::Rc, None);
    let rkey = bed.mr.rkey;
    let addr = bed.memory.addr();
    let long = Sge {
        addr,
        length: 1 << 31,
        lkey: bed.mr.lkey,
    };
    let (five, two) = ([long; 5], [long; 2]);
    let mut post = |qp, op, payload| {
        let one = SendWr {
            wr_id: 0,
            op,
            payload,
            flags: SendFlags::NONE,
        };
        bed.device.post_send(qp, &[one])
    };
    let write = SendOp::Write { addr, rkey };
    let none = Payload::Sges(&[]);
    assert_eq!(
        post(fresh, write, none),
        Err(PostError::State(QpState::Reset))
    );
    assert_eq!(
        post(a, SendOp::Read { addr, rkey }, none),
        Err(PostError::Unsupported)
    );
    assert_eq!(
        post(a, write, Payload::Sges(&five)),
        Err(PostError::TooManySges)
    );
    assert_eq!(
        post(a, write, Payload::Sges(&two)),
        Err(PostError::MessageTooLong)
    );
    assert_eq!(
        post(a, write, Payload::Inline(&[0; 65])),
        Err(PostError::InlineTooLong)
    );
    let (rc, _) = bed.pair(Service::Rc);
    let add = SendWr {
        wr_id: 0,
        op: SendOp::FetchAdd { addr, rkey, add: 1 },
        payload: none,
        flags: SendFlags::NONE,
    };
    assert_eq!(
        bed.device.post_send(rc, &[add]),
        Err(PostError::AtomicLength)
    );
    let receive = RecvWr {
        wr_id: 0,
        sges: &[long; 5],
    };
    assert_eq!(
        bed.device.post_recv(b, &[receive]),
        Err(PostError::TooManySges)
    );
    assert_eq!(
        bed.device.post_recv(fresh, &[receive]),
        Err(PostError::State(QpState::Reset))
    );
}

#[test]
fn what_is_used_stays_and_what_is_gone_is_named() {
    let mut bed = Bed::new("fake_roce0");
    let (qp, _) = bed.qp(Service::Rc, None);
    assert_eq!(
        sentence(bed.device.destroy_cq(bed.cq)),
        "the CQ is still used by a QP: destroy that first"
    );
    assert_eq!(
        sentence(bed.device.dealloc_pd(bed.pd)),
        "the PD is still used by a QP: destroy that first"
    );
    bed.device.destroy_qp(qp).unwrap();
    assert_eq!(
        bed.device.destroy_qp(qp),
        Err(CreateError::NoSuchObject("QP"))
    );
    assert_eq!(
        bed.device.modify_qp(qp, &QpAttr::default()),
        Err(ModifyError::NoSuchQp)
    );
    bed.device.destroy_cq(bed.cq).unwrap();
    fake::fail("ibv_dereg_mr", libc::EBUSY, 0);
    assert_eq!(
        sentence(bed.device.deregister(bed.mr)),
        "ibv_destroy of memory region: EBUSY (16), Device or resource busy: something else still uses it"
    );
    bed.device.dealloc_pd(bed.pd).unwrap();
}
