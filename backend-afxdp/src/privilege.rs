//! What this process may do.

use rustix::thread::CapabilitySet;

use crate::error::OpenError;

/// Refuses a process that lacks a capability that AF_XDP takes.
pub(crate) fn check(interface: &str) -> Result<(), OpenError> {
    let Ok(sets) = rustix::thread::capabilities(None) else {
        // The calls themselves will tell.
        return Ok(());
    };
    let missing = missing(sets.effective);
    if missing.is_empty() {
        return Ok(());
    }
    Err(OpenError::Privilege {
        what: format!("AF_XDP on {interface}"),
        missing: missing.join(" and "),
        name: interface.to_owned(),
    })
}

fn missing(own: CapabilitySet) -> Vec<&'static str> {
    // CAP_SYS_ADMIN contains CAP_BPF, which Linux has had since 5.8.
    let bpf = CapabilitySet::BPF | CapabilitySet::SYS_ADMIN;
    let needed = [
        ("CAP_NET_RAW", CapabilitySet::NET_RAW),
        ("CAP_NET_ADMIN", CapabilitySet::NET_ADMIN),
        ("CAP_BPF", bpf),
    ];
    let lacks = |(name, any)| (!own.intersects(any)).then_some(name);
    needed.into_iter().filter_map(lacks).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_missing_capability_is_named() {
        let all = ["CAP_NET_RAW", "CAP_NET_ADMIN", "CAP_BPF"];
        assert_eq!(missing(CapabilitySet::empty()), all);
        let admin = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN;
        assert_eq!(missing(admin), ["CAP_NET_RAW"]);
        assert!(missing(CapabilitySet::all()).is_empty());
    }
}
