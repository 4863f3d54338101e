//! The verbs seam.

use core::net::IpAddr;
use core::time::Duration;

use alloc::string::String;
use alloc::vec::Vec;

use roce_wire::{Gid, LKey, Qpn, RKey};

use super::access::Access;
use super::attr::{AddressVector, QpAttr, QpInfo, QpInit};
use super::completion::Completion;
use super::device::{DeviceAttr, PortAttr};
use super::error::{CqError, CreateError, DeviceError, ModifyError, PostError, RegisterError};
use super::observe::WriteObserver;
use super::region::Region;
use super::work::{RecvWr, SendWr};

/// Names a protection domain of a backend.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Pd(pub u32);

/// Names a completion queue of a backend.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Cq(pub u32);

/// Names a queue pair of a backend.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Qp(pub u32);

/// Names a shared receive queue of a backend.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Srq(pub u32);

/// Names an address handle of a backend: the way to a peer that datagrams are sent to.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Ah(pub u32);

/// A type 2 memory window: its handle, and the key that it was made with or bound to last.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Mw {
    /// Names it to the backend.
    pub handle: u32,
    /// For the peer, once bound.
    pub rkey: RKey,
}

/// A registered memory region: its handle and keys.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Mr {
    /// Names it to the backend.
    pub handle: u32,
    /// For local work requests.
    pub lkey: LKey,
    /// For the peer.
    pub rkey: RKey,
    /// Where it starts, for both.
    pub addr: u64,
    /// Its bytes.
    pub length: u64,
}

/// Something that happened outside of any completion.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum AsyncEvent {
    /// The first packet arrived at a QP in RTR.
    CommEstablished(Qpn),
    /// The send queue has drained after a transition to SQD.
    SqDrained(Qpn),
    /// The QP went to the error state because of a local fault.
    QpFatal(Qpn),
    /// The peer sent something invalid and the QP went to the error state.
    QpRequestError(Qpn),
    /// The peer's request violated access rights and the QP went to the error state.
    QpAccessError(Qpn),
    /// A CQ overflowed.
    CqError(Cq),
    /// Fewer receives than its limit are left in an SRQ; the limit is off until it is set again.
    SrqLimit(Srq),
    /// A QP in error has taken its last receive from its SRQ.
    LastWqeReached(Qpn),
    /// Packets to this address do not arrive, and the network said why.
    PathUnreachable {
        /// Who was sent to.
        remote: IpAddr,
        /// What the network said.
        reason: String,
    },
    /// A packet for a live QP came from another address than its peer's GID (NAT, or a wrong GID).
    WrongSource {
        /// The QP.
        qpn: Qpn,
        /// Where it came from.
        from: IpAddr,
        /// Where it should have come from.
        expected: IpAddr,
    },
    /// Something that a person should read once.
    Notice(String),
}

/// Why a group can't be joined or sent to.
pub const NO_MULTICAST: &str = "this device has no multicast; send a datagram to each QP instead";

/// A device that speaks verbs: our engine over a link, or hardware.
///
/// Handles are plain numbers into the backend's own tables; a stale one is an error, never undefined.
/// Nothing blocks but `wait`.
pub trait Backend {
    /// Returns the device's limits.
    fn device(&self) -> &DeviceAttr;

    /// Returns the port and its GID table.
    fn port(&self) -> &PortAttr;

    /// Makes a protection domain.
    ///
    /// # Errors
    ///
    /// The device has no more.
    fn alloc_pd(&mut self) -> Result<Pd, CreateError>;

    /// Destroys a protection domain.
    ///
    /// # Errors
    ///
    /// It does not exist or something uses it.
    fn dealloc_pd(&mut self, pd: Pd) -> Result<(), CreateError>;

    /// Registers memory. The region's address space is its own addresses.
    ///
    /// # Errors
    ///
    /// Illegal rights, or a limit.
    fn register(&mut self, pd: Pd, region: &Region, access: Access) -> Result<Mr, RegisterError>;

    /// Takes a registration back: its keys are dead from here on.
    ///
    /// # Errors
    ///
    /// It does not exist.
    fn deregister(&mut self, mr: Mr) -> Result<(), CreateError>;

    /// Makes a completion queue of at least `depth` entries.
    ///
    /// # Errors
    ///
    /// A limit.
    fn create_cq(&mut self, depth: u32) -> Result<Cq, CreateError>;

    /// Destroys a completion queue.
    ///
    /// # Errors
    ///
    /// It does not exist or a QP uses it.
    fn destroy_cq(&mut self, cq: Cq) -> Result<(), CreateError>;

    /// Changes the depth of a completion queue; what waits in it stays.
    ///
    /// # Errors
    ///
    /// It does not exist, a limit, or more completions wait than the new depth holds.
    fn resize_cq(&mut self, cq: Cq, depth: u32) -> Result<(), CreateError>;

    /// Takes the notification of an armed CQ, if there is one.
    fn take_notification(&mut self, cq: Cq) -> bool;

    /// Makes a shared receive queue.
    ///
    /// # Errors
    ///
    /// A limit.
    fn create_srq(&mut self, pd: Pd, max_wr: u32, max_sge: u32) -> Result<Srq, CreateError>;

    /// Asks for one event when fewer than `limit` receives are left; 0 takes it back.
    ///
    /// # Errors
    ///
    /// It does not exist, or the limit is above its size.
    fn arm_srq(&mut self, srq: Srq, limit: u32) -> Result<(), CreateError>;

    /// Destroys a shared receive queue.
    ///
    /// # Errors
    ///
    /// It does not exist or a QP uses it.
    fn destroy_srq(&mut self, srq: Srq) -> Result<(), CreateError>;

    /// Posts receives to a shared receive queue.
    ///
    /// # Errors
    ///
    /// As `post_recv`.
    fn post_srq_recv(&mut self, srq: Srq, requests: &[RecvWr<'_>]) -> Result<(), PostError>;

    /// Makes an address handle.
    ///
    /// # Errors
    ///
    /// A limit, or an address that can't be sent to from the GID that it names.
    fn create_ah(&mut self, pd: Pd, address: &AddressVector) -> Result<Ah, CreateError>;

    /// Destroys an address handle.
    ///
    /// # Errors
    ///
    /// It does not exist.
    fn destroy_ah(&mut self, ah: Ah) -> Result<(), CreateError>;

    /// Joins a multicast group, so that a UD QP receives the datagrams that are sent to it.
    ///
    /// # Errors
    ///
    /// Always, with the reason in words, where the device has no multicast.
    fn attach_mcast(&mut self, qp: Qp, group: Gid) -> Result<(), CreateError> {
        let _unused = (qp, group);
        Err(CreateError::Device(String::from(NO_MULTICAST)))
    }

    /// Makes a type 2 memory window, unbound.
    ///
    /// # Errors
    ///
    /// A limit.
    fn alloc_mw(&mut self, pd: Pd) -> Result<Mw, CreateError>;

    /// Destroys a memory window, bound or not.
    ///
    /// # Errors
    ///
    /// It does not exist.
    fn dealloc_mw(&mut self, mw: Mw) -> Result<(), CreateError>;

    /// Makes a queue pair in state RESET.
    ///
    /// # Errors
    ///
    /// A limit, or a handle that does not exist.
    fn create_qp(&mut self, init: &QpInit) -> Result<Qp, CreateError>;

    /// Destroys a queue pair with all that is posted to it.
    ///
    /// # Errors
    ///
    /// It does not exist.
    fn destroy_qp(&mut self, qp: Qp) -> Result<(), CreateError>;

    /// Changes a queue pair's state and attributes: all of them or, on error, none.
    ///
    /// # Errors
    ///
    /// Names what is missing, forbidden or out of range.
    fn modify_qp(&mut self, qp: Qp, attr: &QpAttr) -> Result<(), ModifyError>;

    /// Returns what a queue pair is.
    ///
    /// # Errors
    ///
    /// It does not exist.
    fn query_qp(&self, qp: Qp) -> Result<QpInfo, CreateError>;

    /// Posts send requests in order.
    ///
    /// # Errors
    ///
    /// The first request that can't be posted; those before it are.
    fn post_send(&mut self, qp: Qp, requests: &[SendWr<'_>]) -> Result<(), PostError>;

    /// Posts receive requests in order.
    ///
    /// # Errors
    ///
    /// As `post_send`.
    fn post_recv(&mut self, qp: Qp, requests: &[RecvWr<'_>]) -> Result<(), PostError>;

    /// Makes progress (one turn of a software device) and takes completions into `out`.
    ///
    /// # Errors
    ///
    /// The CQ overflowed or does not exist, or the device failed.
    fn poll_cq(&mut self, cq: Cq, out: &mut [Completion]) -> Result<usize, CqError>;

    /// Asks for one wake-up of `wait` by the next completion, or the next solicited or failed one.
    ///
    /// # Errors
    ///
    /// The CQ does not exist.
    fn arm_cq(&mut self, cq: Cq, solicited_only: bool) -> Result<(), CqError>;

    /// Makes progress without taking completions. For sides that only wait for their memory to change.
    ///
    /// # Errors
    ///
    /// The device failed.
    fn progress(&mut self) -> Result<(), DeviceError>;

    /// Sleeps until something may have happened or `timeout` has passed, progressing what is due.
    ///
    /// # Errors
    ///
    /// The device failed.
    fn wait(&mut self, timeout: Duration) -> Result<(), DeviceError>;

    /// Says that the device works by itself: requests and the peer's are served without [`Self::progress`], so whoever
    /// waits for something else may sleep on that.
    fn is_autonomous(&self) -> bool {
        false
    }

    /// Takes the next asynchronous event.
    fn poll_event(&mut self) -> Option<AsyncEvent>;

    /// Returns a number that changes when packets arrive, so that a side that only waits can tell a busy
    /// device from a quiet one; 0 where the device does not say.
    fn activity(&self) -> u64 {
        0
    }

    /// Shows each WRITE of a peer to `observer` before the next one is executed. Returns false where the
    /// device can't.
    fn observe_writes(&mut self, observer: Option<WriteObserver>) -> bool {
        let _unused = observer;
        false
    }

    /// Returns counters, name and value: the kernel's `hw_counters` names where they have one.
    fn counters(&self) -> Vec<(&'static str, u64)>;
}
