//! One error type for each kind of verbs call. All of them are the caller's mistakes or limits.

use core::fmt;

use alloc::string::String;

use super::attr::Service;
use super::state::{AttrMask, QpState};

/// An object could not be made or destroyed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CreateError {
    /// The device has no more of these.
    Exhausted {
        /// What there is no more of.
        what: &'static str,
        /// How many the device has.
        limit: u32,
    },
    /// A size is beyond the device's limit.
    TooLarge {
        /// Which size.
        what: &'static str,
        /// What was asked for.
        asked: u64,
        /// What the device allows.
        limit: u64,
    },
    /// A handle names nothing that exists.
    NoSuchObject(&'static str),
    /// It is still used by another object.
    InUse {
        /// What was to be destroyed.
        what: &'static str,
        /// By what it is used.
        by: &'static str,
    },
    /// The device does not have this service or feature.
    Unsupported(&'static str),
    /// The device's own words.
    Device(String),
}

impl fmt::Display for CreateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exhausted { what, limit } => {
                write!(f, "the device has no more {what} (its limit is {limit})")
            }
            Self::TooLarge { what, asked, limit } => {
                write!(f, "{what} {asked} is above the device's limit of {limit}")
            }
            Self::NoSuchObject(what) => write!(f, "no such {what}: it was destroyed or never made"),
            Self::InUse { what, by } => {
                write!(f, "the {what} is still used by a {by}: destroy that first")
            }
            Self::Unsupported(what) => write!(f, "this device has no {what}"),
            Self::Device(text) => f.write_str(text),
        }
    }
}

impl core::error::Error for CreateError {}

/// A memory region could not be registered.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RegisterError {
    /// Remote write or atomic access without local write.
    IllegalAccess,
    /// As for other objects.
    Create(CreateError),
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IllegalAccess => {
                f.write_str("remote write and remote atomic access need local write access")
            }
            Self::Create(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for RegisterError {}

impl From<CreateError> for RegisterError {
    fn from(error: CreateError) -> Self {
        Self::Create(error)
    }
}

/// A QP could not be modified.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ModifyError {
    /// The transition does not exist for this service.
    IllegalTransition {
        /// The state it is in.
        from: QpState,
        /// The state asked for.
        to: QpState,
        /// The service.
        service: Service,
    },
    /// Attributes are missing, or may not be given in this transition.
    Attributes {
        /// The state it is in.
        from: QpState,
        /// The state asked for.
        to: QpState,
        /// Required and not given.
        missing: AttrMask,
        /// Given and not allowed.
        forbidden: AttrMask,
    },
    /// A value is out of its range.
    Value {
        /// Which attribute.
        what: &'static str,
        /// What was given.
        value: u64,
        /// The largest legal value.
        max: u64,
    },
    /// The GID index names no usable row, or the peer's GID is of another family.
    Address(String),
    /// The send queue of a QP in SQD still has requests on the way.
    NotDrained,
    /// The handle names no QP.
    NoSuchQp,
    /// The device's own words.
    Device(String),
}

impl fmt::Display for ModifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IllegalTransition { from, to, service } => {
                write!(f, "a {service:?} QP cannot go from {from} to {to}")
            }
            Self::Attributes {
                from,
                to,
                missing,
                forbidden,
            } => write!(
                f,
                "modifying a QP from {from} to {to}: missing attributes: {missing}; attributes not allowed: {forbidden}"
            ),
            Self::Value { what, value, max } => {
                write!(f, "{what} {value} is out of range (0 to {max})")
            }
            Self::Address(text) | Self::Device(text) => f.write_str(text),
            Self::NotDrained => f.write_str(
                "the send queue has not drained: wait for the SQ drained event before changing attributes in SQD",
            ),
            Self::NoSuchQp => f.write_str("no such QP: it was destroyed or never made"),
        }
    }
}

impl core::error::Error for ModifyError {}

/// A work request could not be posted. Earlier requests of the same call are posted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PostError {
    /// The queue has no free entry.
    QueueFull {
        /// How many requests of the call were posted.
        posted: usize,
    },
    /// The QP's state does not allow it.
    State(QpState),
    /// More pieces than the QP was made for.
    TooManySges,
    /// More inline data than the QP was made for.
    InlineTooLong,
    /// Inline data on an operation that fetches.
    InlineFetch,
    /// The message is longer than 2^31 bytes.
    MessageTooLong,
    /// An atomic whose SGEs are not 8 bytes long in all.
    AtomicLength,
    /// A datagram longer than the path MTU.
    DatagramTooLong,
    /// The operation does not exist for this service.
    Unsupported,
    /// The handle names no SRQ.
    NoSuchSrq,
    /// The QP takes its receives from an SRQ.
    UsesSrq,
    /// The handle names no QP.
    NoSuchQp,
    /// The device's errno.
    Device(i32),
}

impl fmt::Display for PostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QueueFull { posted } => {
                write!(f, "the queue is full after {posted} requests of this call")
            }
            Self::State(state) => write!(f, "nothing can be posted to this queue in state {state}"),
            Self::TooManySges => {
                f.write_str("more scatter/gather elements than the QP was made with")
            }
            Self::InlineTooLong => f.write_str("more inline data than the QP was made with"),
            Self::InlineFetch => f.write_str("READ and atomics cannot have inline data"),
            Self::MessageTooLong => f.write_str("a message can have at most 2147483648 bytes"),
            Self::AtomicLength => f.write_str("an atomic needs exactly 8 bytes of local memory"),
            Self::DatagramTooLong => {
                f.write_str("a datagram can't be longer than the port's path MTU")
            }
            Self::NoSuchSrq => f.write_str("no such SRQ: it was destroyed or never made"),
            Self::UsesSrq => f.write_str("this QP takes its receives from an SRQ: post them there"),
            Self::Unsupported => f.write_str("this service has no such operation"),
            Self::NoSuchQp => f.write_str("no such QP: it was destroyed or never made"),
            Self::Device(errno) => write!(f, "the device refused the request (errno {errno})"),
        }
    }
}

impl core::error::Error for PostError {}

/// A completion queue can't be polled.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CqError {
    /// It overflowed: completions are lost and every QP that uses it is in error.
    Overflow,
    /// The handle names no CQ.
    NoSuchCq,
    /// The device below failed: the link or the driver's own words.
    Device(String),
}

impl fmt::Display for CqError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overflow => f.write_str(
                "the completion queue overflowed: it was made too small or not polled in time",
            ),
            Self::NoSuchCq => f.write_str("no such CQ: it was destroyed or never made"),
            Self::Device(text) => f.write_str(text),
        }
    }
}

impl core::error::Error for CqError {}

/// The environment below a device failed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DeviceError(pub String);

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for DeviceError {}
