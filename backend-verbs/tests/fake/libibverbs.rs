//! A libibverbs for tests: an InfiniBand, a RoCE and an iWARP device in memory, and failures on demand.
//!
//! It is a library of its own, loaded as the real one is, so that the tests go through the C interface with all its
//! structures and function pointers. Requests are executed when they are posted; those to a QP that is not in this
//! thread of this process succeed and move nothing. State is each thread's own, so that tests run side by side.
//!
//! `fake_fail` makes a function fail from its n-th call on, in the calling thread; the variable `FAKE_IBV`
//! (`ibv_modify_qp=110@1,ibv_reg_mr=12`: errno, and calls that go well before) does so for a whole process, and `identity=VENDOR:PART` says whose devices they are and
//! `inline=BYTES` how much they copy.
#![allow(
    non_snake_case,
    unsafe_op_in_unsafe_fn,
    clippy::missing_safety_doc,
    reason = "C's interface"
)]

#[allow(dead_code, reason = "the product uses what the fake does not")]
#[path = "../../src/sys.rs"]
mod sys;

macro_rules! may_fail {
    ($name:literal, null) => {
        if failure($name).is_some() {
            return null_mut();
        }
    };
    ($name:literal) => {
        if let Some(errno) = failure($name) {
            return errno;
        }
    };
}

mod data;
mod device;
mod objects;
mod queues;
mod writer;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::os::unix::net::UnixStream;
use std::ptr::null_mut;

use queues::complete;
use sys::*;

pub(crate) const NAMES: [(&str, c_int); 3] = [
    ("fake_ib0", TRANSPORT_IB),
    ("fake_roce0", TRANSPORT_IB),
    ("fake_iw0", TRANSPORT_IWARP),
];
pub(crate) const WC_SEND: c_int = 0;
pub(crate) const EINVAL: c_int = 22;
pub(crate) const EBUSY: c_int = 16;
pub(crate) const ENOMEM: c_int = 12;
/// Bytes that a QP copies inline at most.
pub(crate) const INLINE: u32 = 512;

unsafe extern "C" {
    fn __errno_location() -> *mut c_int;
}

#[derive(Default)]
pub(crate) struct World {
    pub(crate) devices: Option<i32>,
    pub(crate) inline: Option<u32>,
    pub(crate) identity: Option<(u32, u32)>,
    pub(crate) failures: HashMap<String, (u32, c_int)>,
    pub(crate) qps: HashMap<u32, QpState>,
    pub(crate) cqs: HashMap<usize, CqState>,
    pub(crate) srqs: HashMap<usize, VecDeque<Receive>>,
    pub(crate) regions: HashMap<usize, u32>,
    /// The access rights of the last registration.
    pub(crate) access: c_uint,
    /// QPs that take requests by `ibv_wr_*`, and how many requests they took.
    pub(crate) extended: HashSet<usize>,
    pub(crate) written: u32,
    pub(crate) pds: usize,
    pub(crate) events: VecDeque<ibv_async_event>,
    pub(crate) wakers: Vec<UnixStream>,
    pub(crate) next: u32,
}

pub(crate) struct QpState {
    pub(crate) raw: usize,
    pub(crate) state: c_int,
    pub(crate) attr: ibv_qp_attr,
    pub(crate) receives: VecDeque<Receive>,
    pub(crate) srq: usize,
    pub(crate) send_cq: usize,
    pub(crate) recv_cq: usize,
    pub(crate) sends: u32,
    pub(crate) max_send_wr: u32,
    /// What is between `wr_start` and `wr_complete`.
    pub(crate) batch: Option<Vec<writer::Written>>,
}

#[derive(Default)]
pub(crate) struct CqState {
    pub(crate) done: VecDeque<ibv_wc>,
    pub(crate) armed: bool,
    pub(crate) channel: usize,
    pub(crate) notified: VecDeque<()>,
}

#[derive(Clone)]
pub(crate) struct Receive {
    pub(crate) wr_id: u64,
    pub(crate) pieces: Vec<ibv_sge>,
}

thread_local! {
    static WORLD: RefCell<World> = RefCell::new(World::fresh());
}

impl World {
    fn fresh() -> Self {
        let mut world = Self {
            // Numbers of two processes differ, or each would take the other's QP for its own.
            next: (std::process::id() & 0xfff) << 12,
            ..Self::default()
        };
        for part in std::env::var("FAKE_IBV").unwrap_or_default().split(',') {
            let Some((name, rest)) = part.split_once('=') else {
                continue;
            };
            if name == "inline" {
                world.inline = rest.parse().ok();
                continue;
            }
            if name == "identity" {
                let (vendor, part) = rest.split_once(':').unwrap();
                world.identity = Some((vendor.parse().unwrap(), part.parse().unwrap()));
                continue;
            }
            let (errno, after) = rest.split_once('@').unwrap_or((rest, "0"));
            if let (Ok(errno), Ok(after)) = (errno.parse(), after.parse()) {
                world.failures.insert(name.to_owned(), (after, errno));
            }
        }
        world
    }

    pub(crate) fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }
}

pub(crate) fn with<R>(work: impl FnOnce(&mut World) -> R) -> R {
    WORLD.with(|world| work(&mut world.borrow_mut()))
}

/// The errno that a function is to fail with now, which is set as well.
pub(crate) fn failure(name: &str) -> Option<c_int> {
    let errno = with(|world| {
        let (after, errno) = world.failures.get_mut(name)?;
        if *after > 0 {
            *after -= 1;
            return None;
        }
        Some(*errno)
    })?;
    set_errno(errno);
    Some(errno)
}

pub(crate) fn set_errno(errno: c_int) {
    unsafe { *__errno_location() = errno }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_fail(name: *const c_char, errno: c_int, after: c_uint) {
    let name = unsafe { CStr::from_ptr(name) }
        .to_string_lossy()
        .into_owned();
    with(|world| world.failures.insert(name, (after, errno)));
}

/// The number of devices there are; all of them otherwise.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_devices(count: c_int) {
    with(|world| world.devices = Some(count));
}

/// An event of the QP with a number, or of port 1 for number 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_event(qpn: u32, kind: c_int) {
    with(|world| {
        let element = world.qps.get(&qpn).map_or(1, |qp| qp.raw);
        world.events.push_back(ibv_async_event {
            element: element as *mut c_void,
            event_type: kind,
        });
    });
}

/// Puts a QP into a state behind its owner's back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_state(qpn: u32, state: c_int) {
    with(|world| {
        if let Some(qp) = world.qps.get_mut(&qpn) {
            qp.state = state;
        }
    });
}

/// How many requests were taken by `ibv_wr_*`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_written() -> c_uint {
    with(|world| world.written)
}

/// How many domains, queues and QPs there are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_objects() -> c_uint {
    with(|world| (world.pds + world.cqs.len() + world.qps.len()) as c_uint)
}

/// The access rights of the last registration.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_access() -> c_uint {
    with(|world| world.access)
}

/// The vendor and the part that all devices are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_identity(vendor: c_uint, part: c_uint) {
    with(|world| world.identity = Some((vendor, part)));
}

/// A failed completion on the send side of a QP.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_completion(qpn: u32, status: c_int, vendor_err: u32) {
    with(|world| {
        let Some(cq) = world.qps.get(&qpn).map(|qp| qp.send_cq) else {
            return;
        };
        complete(
            world,
            cq,
            ibv_wc {
                status,
                vendor_err,
                qp_num: qpn,
                ..ibv_wc::default()
            },
        );
    });
}
