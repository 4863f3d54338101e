//! RDMA devices: `-d verbs:NAME`.

use core::net::IpAddr;

use anyhow::Result;
use backend_verbs::{VerbsDevice, kernel_devices};
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
    let mut opened = VerbsDevice::open(&name, spec.ib_port)
        .map_err(|error| environment(format!("-d verbs:{name}: {error}")))?;
    if spec.qp.old_post_send {
        opened.use_old_post_send();
    }
    Ok(opened)
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
