//! The verbs vocabulary and its seam, [`Backend`]: shared by the software device and by real devices.
//!
//! Nothing here imports from the rest of the engine, so that `verbs` could become a crate by `git mv`.

mod access;
mod attr;
mod backend;
mod check;
mod completion;
mod device;
mod error;
mod observe;
mod region;
mod state;
mod work;

pub use access::Access;
pub use attr::{AddressVector, QpAttr, QpCaps, QpInfo, QpInit, Service};
pub use backend::{Ah, AsyncEvent, Backend, Cq, Mr, Mw, NO_MULTICAST, Pd, Qp, Srq};
pub use check::{Limits, check_modify, serves};
pub use completion::{Completion, Status, WcOpcode};
pub use device::{DeviceAttr, GidEntry, GidKind, LatencyInline, LinkLayer, PortAttr};
pub use error::{CqError, CreateError, DeviceError, ModifyError, PostError, RegisterError};
pub use observe::{WriteDone, WriteObserver};
pub use region::{Region, Window};
pub use state::{AttrMask, QpState, Transition, transition};
pub use work::{Payload, RecvWr, SendFlags, SendOp, SendWr, Sge};

pub use roce_wire::{Gid, LKey, Mtu, PKey, Psn, QKey, Qpn, RKey};
