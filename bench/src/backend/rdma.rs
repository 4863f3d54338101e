//! RDMA devices: `-d verbs:NAME`.

use core::net::IpAddr;
use std::path::Path;

use anyhow::Result;
use backend_verbs::{Posting, VerbsDevice, kernel_devices};
use roce_engine::verbs::{Backend as _, Gid, GidEntry, GidKind};

use super::Choice;
use super::device::{Device, Kind};
use crate::exit::{environment, usage};
use crate::spec::Spec;

impl Choice {
    /// Chooses an RDMA device: that of `-d`, or the first there is.
    ///
    /// # Errors
    ///
    /// It can't be opened, or its port is down.
    pub(super) fn rdma(device: &Device, spec: &Spec, local: IpAddr) -> Result<Self> {
        let opened = open(device, spec)?;
        let port = opened.port().clone();
        let name = opened.device().name.clone();
        if !port.active {
            return Err(environment(format!(
                "RDMA device {name}: port {} is down: set its interface up, plug its cable in, or choose another (-i)",
                spec.ib_port
            )));
        }
        Ok(Self {
            kind: Kind::Verbs,
            xsk: None,
            rdma: Some(opened),
            how: None,
            limit: format!("port {} of {name}", spec.ib_port),
            name,
            port,
            local,
            why: String::from(match device.interface {
                Some(_) => "-d names it",
                None => "the first RDMA device of this machine",
            }),
        })
    }
}

/// Opens the device that `-d` names, or the first there is.
///
/// # Errors
///
/// The library, the kernel's RDMA or the device is missing: says what to do.
pub(super) fn open(device: &Device, spec: &Spec) -> Result<VerbsDevice> {
    let name = device
        .interface
        .clone()
        .or_else(|| kernel_devices().into_iter().next())
        .unwrap_or_default();
    let posting = match spec.qp.old_post_send {
        true => Posting::PostSend,
        false if std::env::var_os("ROCE_IBV_WR").is_some() => Posting::WrApi,
        false => Posting::AsPerftest,
    };
    VerbsDevice::open(&name, spec.ib_port, posting)
        .map_err(|error| environment(format!("-d verbs:{name}: {error}")))
}

/// Returns what perftest warns of on a machine whose processor does not keep the rules of relaxed ordering (Intel's
/// Haswell and Broadwell, by the PCI devices of their root ports).
pub(crate) fn relaxed_ordering_warning() -> Option<&'static str> {
    let number = |folder: &Path, file: &str| {
        let text = std::fs::read_to_string(folder.join(file)).ok()?;
        u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
    };
    let mut devices = std::fs::read_dir("/sys/bus/pci/devices").ok()?.flatten();
    let bad = devices.any(|device| {
        let folder = device.path();
        is_noncompliant(number(&folder, "vendor"), number(&folder, "device"))
    });
    bad.then_some(
        " WARNING: CPU is not PCIe relaxed ordering compliant.\n \
         WARNING: You should disable PCIe RO with `--disable_pcie_relaxed` for both server and client.",
    )
}

const fn is_noncompliant(vendor: Option<u32>, device: Option<u32>) -> bool {
    matches!(
        (vendor, device),
        (Some(0x8086), Some(0x6f01..=0x6f0e | 0x2f01))
    )
}

/// Returns the row that stands for none: InfiniBand's peers are reached by their LID unless `-x` is given.
pub(super) const fn by_lid() -> GidEntry {
    GidEntry {
        index: 0,
        gid: Gid([0; 16]),
        kind: GidKind::IbOrRoceV1,
        netdev: String::new(),
    }
}

/// Refuses what is done to packets, which a device makes by itself.
///
/// # Errors
///
/// Names the option.
pub(super) fn moves_packets_itself(spec: &Spec) -> Result<()> {
    let asked = [
        ("--pcap", spec.pcap.is_some()),
        ("--impair", spec.impair.is_some()),
        ("--trace packets", spec.trace.packets),
    ];
    match asked.into_iter().find(|(_, asked)| *asked) {
        Some((option, _)) => Err(usage(format!(
            "{option}: an RDMA device makes and takes its packets itself: give it to the end on udp or afxdp"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::is_noncompliant;

    #[test]
    fn root_ports_of_haswell_and_broadwell_are_known() {
        for (vendor, device, bad) in [
            (0x8086, 0x6f01, true),
            (0x8086, 0x6f0e, true),
            (0x8086, 0x6f0f, false),
            (0x8086, 0x2f01, true),
            (0x8086, 0x2f02, false),
            (0x15b3, 0x6f01, false),
        ] {
            assert_eq!(
                is_noncompliant(Some(vendor), Some(device)),
                bad,
                "{device:#x}"
            );
        }
        assert!(!is_noncompliant(None, Some(0x6f01)));
    }
}
