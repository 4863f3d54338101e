//! Queue pair states and what each transition needs.
//!
//! The table is that of `ibv_modify_qp(3)` and IBA 11.2.5.2. Both backends check with it before the
//! device is asked, so that a wrong attribute has a name rather than EINVAL.

use core::fmt;

use super::attr::{QpAttr, Service};

/// The state of a queue pair.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum QpState {
    /// Made, or reset: nothing may be posted.
    #[default]
    Reset,
    /// Receives may be posted.
    Init,
    /// Ready to receive.
    Rtr,
    /// Ready to send.
    Rts,
    /// The send queue drains: nothing new is started.
    Sqd,
    /// The send queue is in error (unreliable services).
    Sqe,
    /// In error: everything posted is flushed.
    Err,
}

impl QpState {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Reset,
        Self::Init,
        Self::Rtr,
        Self::Rts,
        Self::Sqd,
        Self::Sqe,
        Self::Err,
    ];
}

impl fmt::Display for QpState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reset => "RESET",
            Self::Init => "INIT",
            Self::Rtr => "RTR",
            Self::Rts => "RTS",
            Self::Sqd => "SQD",
            Self::Sqe => "SQE",
            Self::Err => "ERR",
        })
    }
}

/// A set of QP attributes.
#[derive(Clone, Copy, Default, Eq, PartialEq)]
pub struct AttrMask(u32);

const NAMES: [&str; 16] = [
    "pkey_index",
    "port",
    "access",
    "qkey",
    "address",
    "path_mtu",
    "dest_qpn",
    "rq_psn",
    "sq_psn",
    "max_dest_rd_atomic",
    "max_rd_atomic",
    "min_rnr_timer",
    "timeout",
    "retry_cnt",
    "rnr_retry",
    "sqd_event",
];

const PKEY: u32 = 1 << 0;
const PORT: u32 = 1 << 1;
const ACCESS: u32 = 1 << 2;
const QKEY: u32 = 1 << 3;
const AV: u32 = 1 << 4;
const MTU: u32 = 1 << 5;
const DEST: u32 = 1 << 6;
const RQ_PSN: u32 = 1 << 7;
const SQ_PSN: u32 = 1 << 8;
const DEST_RD: u32 = 1 << 9;
const RD: u32 = 1 << 10;
const MIN_RNR: u32 = 1 << 11;
const TIMEOUT: u32 = 1 << 12;
const RETRY: u32 = 1 << 13;
const RNR: u32 = 1 << 14;
const SQD_EVENT: u32 = 1 << 15;

impl AttrMask {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// Returns the set of attributes that `attr` names (its state apart).
    pub const fn of(attr: &QpAttr) -> Self {
        let mut mask = 0;
        let present = [
            attr.pkey_index.is_some(),
            attr.port.is_some(),
            attr.access.is_some(),
            attr.qkey.is_some(),
            attr.address.is_some(),
            attr.path_mtu.is_some(),
            attr.dest_qpn.is_some(),
            attr.rq_psn.is_some(),
            attr.sq_psn.is_some(),
            attr.max_dest_rd_atomic.is_some(),
            attr.max_rd_atomic.is_some(),
            attr.min_rnr_timer.is_some(),
            attr.timeout.is_some(),
            attr.retry_cnt.is_some(),
            attr.rnr_retry.is_some(),
            attr.sqd_event.is_some(),
        ];
        let mut bit = 0;
        while bit < present.len() {
            if present[bit] {
                mask |= 1 << bit;
            }
            bit += 1;
        }
        Self(mask)
    }

    /// Returns the members of this set that are not in `other`.
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns the members of either set.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether the set has no member.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for AttrMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for (bit, name) in NAMES.iter().enumerate() {
            if self.0 & (1 << bit) != 0 {
                if !first {
                    f.write_str(", ")?;
                }
                f.write_str(name)?;
                first = false;
            }
        }
        if first { f.write_str("none") } else { Ok(()) }
    }
}

impl fmt::Debug for AttrMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

/// What a legal transition needs and allows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Transition {
    /// Attributes that must be given.
    pub required: AttrMask,
    /// Attributes that may be given too.
    pub optional: AttrMask,
}

/// Returns what the transition needs, or `None` if it is not legal for the service.
pub const fn transition(from: QpState, to: QpState, service: Service) -> Option<Transition> {
    use QpState as S;
    let (required, optional) = match (from, to) {
        (S::Reset, S::Err) => return None,
        (_, S::Reset | S::Err) => (0, 0),
        (S::Reset, S::Init) => match service {
            Service::Rc | Service::Uc => (PKEY | PORT | ACCESS, 0),
            Service::Ud => (PKEY | PORT | QKEY, 0),
        },
        (S::Init, S::Init) => match service {
            Service::Rc | Service::Uc => (0, PKEY | PORT | ACCESS),
            Service::Ud => (0, PKEY | PORT | QKEY),
        },
        (S::Init, S::Rtr) => match service {
            Service::Rc => (AV | MTU | DEST | RQ_PSN | DEST_RD | MIN_RNR, ACCESS | PKEY),
            Service::Uc => (AV | MTU | DEST | RQ_PSN, ACCESS | PKEY),
            Service::Ud => (0, PKEY | QKEY),
        },
        (S::Rtr, S::Rts) => match service {
            Service::Rc => (SQ_PSN | TIMEOUT | RETRY | RNR | RD, ACCESS | MIN_RNR),
            Service::Uc => (SQ_PSN, ACCESS),
            Service::Ud => (SQ_PSN, QKEY),
        },
        (S::Rts, S::Rts) => match service {
            Service::Rc => (0, ACCESS | MIN_RNR),
            Service::Uc => (0, ACCESS),
            Service::Ud => (0, QKEY),
        },
        (S::Rts, S::Sqd) => (0, SQD_EVENT),
        (S::Sqd, S::Rts) => match service {
            Service::Rc => (0, ACCESS | MIN_RNR),
            Service::Uc => (0, ACCESS),
            Service::Ud => (0, QKEY),
        },
        (S::Sqd, S::Sqd) => match service {
            Service::Rc => (
                0,
                PKEY | PORT | ACCESS | AV | RD | DEST_RD | MIN_RNR | TIMEOUT | RETRY | RNR,
            ),
            Service::Uc => (0, PKEY | ACCESS | AV),
            Service::Ud => (0, PKEY | QKEY),
        },
        (S::Sqe, S::Rts) => match service {
            Service::Rc => return None,
            Service::Uc => (0, ACCESS),
            Service::Ud => (0, QKEY),
        },
        _ => return None,
    };
    Some(Transition {
        required: AttrMask(required),
        optional: AttrMask(optional),
    })
}

#[cfg(test)]
mod tests;
