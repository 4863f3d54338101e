//! What can be said against a call before a device is asked: the same words for our engine and for hardware.

use super::attr::{QpAttr, Service};
use super::device::PortAttr;
use super::error::ModifyError;
use super::state::{AttrMask, QpState, transition};
use super::work::SendOp;

/// What a device's attributes stay within.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'a> {
    /// The port, with its partition table and its largest path MTU.
    pub port: &'a PortAttr,
    /// The ports that it has.
    pub ports: u8,
    /// READs and atomics that a QP answers at once.
    pub max_dest_rd_atomic: u8,
    /// READs and atomics that a QP may have outstanding.
    pub max_rd_atomic: u8,
}

/// Checks a `modify_qp` of a QP in state `from`.
///
/// # Errors
///
/// The transition does not exist, an attribute is missing or not allowed, or a value is out of range.
pub fn check_modify(
    from: QpState,
    service: Service,
    attr: &QpAttr,
    limits: &Limits<'_>,
) -> Result<(), ModifyError> {
    let to = attr.state.unwrap_or(from);
    let rule = transition(from, to, service).ok_or(ModifyError::IllegalTransition {
        from,
        to,
        service,
    })?;
    let given = AttrMask::of(attr);
    let missing = rule.required.minus(given);
    let forbidden = given.minus(rule.required.union(rule.optional));
    if !missing.is_empty() || !forbidden.is_empty() {
        return Err(ModifyError::Attributes {
            from,
            to,
            missing,
            forbidden,
        });
    }
    check_values(attr, limits)
}

fn check_values(attr: &QpAttr, limits: &Limits<'_>) -> Result<(), ModifyError> {
    let pkeys = limits.port.pkeys.len().saturating_sub(1) as u64;
    let checks = [
        ("pkey_index", attr.pkey_index.map(u64::from), pkeys),
        ("port", attr.port.map(u64::from), limits.ports.into()),
        (
            "max_dest_rd_atomic",
            attr.max_dest_rd_atomic.map(u64::from),
            limits.max_dest_rd_atomic.into(),
        ),
        (
            "max_rd_atomic",
            attr.max_rd_atomic.map(u64::from),
            limits.max_rd_atomic.into(),
        ),
        ("min_rnr_timer", attr.min_rnr_timer.map(u64::from), 31),
        ("timeout", attr.timeout.map(u64::from), 31),
        ("retry_cnt", attr.retry_cnt.map(u64::from), 7),
        ("rnr_retry", attr.rnr_retry.map(u64::from), 7),
        (
            "path_mtu",
            attr.path_mtu.map(|mtu| mtu.bytes() as u64),
            limits.port.active_mtu.bytes() as u64,
        ),
    ];
    for (what, value, max) in checks {
        if let Some(value) = value.filter(|&value| value > max) {
            return Err(ModifyError::Value { what, value, max });
        }
    }
    Ok(())
}

/// Returns whether a service has an operation (IBA table 43, without what RoCE lacks).
pub const fn serves(service: Service, op: &SendOp) -> bool {
    match op {
        SendOp::Send | SendOp::SendImm(_) | SendOp::Write { .. } | SendOp::WriteImm { .. } => {
            !matches!(service, Service::Ud)
        }
        SendOp::BindMw { .. } | SendOp::LocalInv(_) => !matches!(service, Service::Ud),
        SendOp::SendInv(_)
        | SendOp::Read { .. }
        | SendOp::CompareSwap { .. }
        | SendOp::FetchAdd { .. } => matches!(service, Service::Rc),
        SendOp::Datagram { .. } => matches!(service, Service::Ud),
    }
}
