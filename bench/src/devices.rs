//! `roce devices`: the devices of every backend, with their ports and GID tables.

use core::fmt::Write as _;

use anyhow::{Context as _, Result};
use backend_udp::Interface;
use backend_verbs::{DeviceInfo, PortInfo};
use roce_engine::verbs::{Gid, GidEntry, GidKind, LinkLayer, PortAttr};
use serde::Serialize;

use crate::output::say;

/// What is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct DevicesSpec {
    /// Limits, too.
    pub verbose: bool,
    /// As JSON.
    pub json: bool,
}

/// All devices.
#[derive(Debug, Serialize)]
struct Listing {
    devices: Vec<Device>,
    /// What is not there, or has something to be said about it.
    remarks: Vec<Remark>,
}

/// Why a backend or a device is not usable.
#[derive(Debug, Serialize)]
struct Remark {
    device: String,
    reason: String,
}

/// A device, as `-d` takes it.
#[derive(Debug, Serialize)]
struct Device {
    device: String,
    backend: &'static str,
    ports: Vec<Port>,
    #[serde(skip_serializing_if = "Option::is_none")]
    adapter: Option<Adapter>,
}

/// What only hardware, or the kernel's likeness of it, has.
#[derive(Debug, Serialize)]
struct Adapter {
    transport: &'static str,
    firmware: String,
    node_guid: String,
    sys_image_guid: String,
    vendor_id: String,
    vendor_part_id: u32,
    hw_ver: String,
    limits: Vec<(&'static str, u64)>,
}

#[derive(Debug, Serialize)]
struct Port {
    port: u8,
    state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    physical_state: Option<&'static str>,
    link_layer: &'static str,
    active_mtu_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_mtu_bytes: Option<usize>,
    lid: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    sm_lid: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_message_bytes: Option<u32>,
    pkeys: Vec<String>,
    gids: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    index: u8,
    gid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ipv4: Option<String>,
    kind: &'static str,
    netdev: String,
}

/// Prints the devices.
///
/// # Errors
///
/// The system does not tell its interfaces.
pub fn run(spec: DevicesSpec) -> Result<()> {
    let listing = look()?;
    if spec.json {
        let text = serde_json::to_string_pretty(&listing).context("writing JSON")?;
        say(&text);
    } else {
        say(text(&listing, spec.verbose).trim_end());
    }
    Ok(())
}

fn look() -> Result<Listing> {
    let mut listing = Listing {
        devices: Vec::new(),
        remarks: Vec::new(),
    };
    match backend_verbs::devices(None) {
        Ok(all) => {
            for one in all {
                match one {
                    Ok(info) => listing.devices.push(adapter(&info)),
                    Err(error) => listing.remark("verbs", error),
                }
            }
        }
        Err(error) => listing.remark("verbs", error),
    }
    let all = Interface::all().context("listing the network interfaces")?;
    for interface in &all {
        let device = format!("udp:{}", interface.name);
        match interface.port() {
            Ok(port) => listing.devices.push(Device {
                device,
                backend: "udp",
                ports: vec![plain(&port)],
                adapter: None,
            }),
            Err(error) => listing.remark(&device, error),
        }
    }
    for interface in all.iter().filter(|interface| !interface.loopback) {
        let device = format!("afxdp:{}", interface.name);
        let config = backend_afxdp::Config::new(&interface.name);
        match (backend_afxdp::check(&config), interface.port()) {
            (Ok(()), Ok(port)) => listing.devices.push(Device {
                device,
                backend: "afxdp",
                ports: vec![plain(&port)],
                adapter: None,
            }),
            (Err(error), _) => listing.remark(&device, error),
            // Said above.
            (Ok(()), Err(_)) => {}
        }
    }
    if let Some(reason) = crate::backend::kernel_owns_the_port() {
        listing.remark("udp", reason);
    }
    Ok(listing)
}

impl Listing {
    fn remark(&mut self, device: &str, reason: impl core::fmt::Display) {
        self.remarks.push(Remark {
            device: device.to_owned(),
            reason: reason.to_string(),
        });
    }
}

fn adapter(info: &DeviceInfo) -> Device {
    Device {
        device: format!("verbs:{}", info.name),
        backend: "verbs",
        ports: info.ports.iter().map(port).collect(),
        adapter: Some(Adapter {
            transport: info.transport,
            firmware: info.firmware.clone(),
            node_guid: guid(info.node_guid),
            sys_image_guid: guid(info.system_guid),
            vendor_id: format!("{:#06x}", info.vendor_id),
            vendor_part_id: info.part_id,
            hw_ver: format!("{:#x}", info.hardware),
            limits: info.limits.clone(),
        }),
    }
}

/// Returns a GUID as `ibv_devinfo` writes it.
fn guid(value: u64) -> String {
    let [a, b, c, d] = [48, 32, 16, 0].map(|shift| value >> shift & 0xffff);
    format!("{a:04x}:{b:04x}:{c:04x}:{d:04x}")
}

fn port(info: &PortInfo) -> Port {
    Port {
        port: info.number,
        state: info.state.to_owned(),
        physical_state: Some(info.physical_state),
        max_mtu_bytes: Some(info.max_mtu.bytes()),
        sm_lid: Some(info.sm_lid),
        rate: Some(info.rate.clone()),
        max_message_bytes: Some(info.max_message),
        ..plain(&info.attr)
    }
}

fn plain(attr: &PortAttr) -> Port {
    Port {
        port: 1,
        state: if attr.active { "ACTIVE" } else { "DOWN" }.to_owned(),
        physical_state: None,
        link_layer: match attr.link_layer {
            LinkLayer::Ethernet => "Ethernet",
            LinkLayer::InfiniBand => "InfiniBand",
        },
        active_mtu_bytes: attr.active_mtu.bytes(),
        max_mtu_bytes: None,
        lid: attr.lid,
        sm_lid: None,
        rate: None,
        max_message_bytes: None,
        pkeys: attr
            .pkeys
            .iter()
            .map(|key| format!("{:#06x}", key.0))
            .collect(),
        gids: attr
            .gids
            .iter()
            .map(|row| self::row(row, attr.link_layer))
            .collect(),
    }
}

fn row(entry: &GidEntry, layer: LinkLayer) -> Row {
    Row {
        index: entry.index,
        gid: groups(entry.gid),
        ipv4: entry.gid.is_ipv4().then(|| entry.gid.to_ip().to_string()),
        kind: match (entry.kind, layer) {
            (GidKind::RoceV2, _) => "RoCE v2",
            (GidKind::IbOrRoceV1, LinkLayer::Ethernet) => "RoCE v1",
            (GidKind::IbOrRoceV1, LinkLayer::InfiniBand) => "IB",
        },
        netdev: entry.netdev.clone(),
    }
}

/// Returns a GID in eight groups, as `show_gids` writes it.
fn groups(gid: Gid) -> String {
    let groups: Vec<String> = gid
        .0
        .chunks_exact(2)
        .map(|pair| format!("{:02x}{:02x}", pair[0], pair[1]))
        .collect();
    groups.join(":")
}

fn text(listing: &Listing, verbose: bool) -> String {
    let mut text = String::new();
    for device in &listing.devices {
        let _infallible = writeln!(text, "{}", device.device);
        if let Some(adapter) = &device.adapter {
            adapter_lines(&mut text, adapter, verbose);
        }
        for port in &device.ports {
            port_lines(&mut text, port);
        }
        text.push('\n');
    }
    for Remark { device, reason } in &listing.remarks {
        let _infallible = writeln!(text, "{device}: {reason}");
    }
    text
}

fn adapter_lines(text: &mut String, adapter: &Adapter, verbose: bool) {
    let Adapter {
        transport,
        firmware,
        node_guid,
        sys_image_guid,
        vendor_id,
        vendor_part_id,
        hw_ver,
        limits,
    } = adapter;
    let _infallible = writeln!(
        text,
        "  transport {transport}, firmware {}, node GUID {node_guid}",
        if firmware.is_empty() {
            "none"
        } else {
            firmware
        }
    );
    if !verbose {
        return;
    }
    let _infallible = writeln!(
        text,
        "  system image GUID {sys_image_guid}, vendor {vendor_id}, part {vendor_part_id}, hardware {hw_ver}"
    );
    for (name, value) in limits {
        let _infallible = writeln!(text, "  {name:<20} {value}");
    }
}

fn port_lines(text: &mut String, port: &Port) {
    let _infallible = write!(
        text,
        "  port {}: {}, {}, path MTU {}",
        port.port, port.state, port.link_layer, port.active_mtu_bytes
    );
    if let (Some(most), Some(physical), Some(rate)) =
        (port.max_mtu_bytes, port.physical_state, &port.rate)
    {
        let _infallible = write!(text, " of at most {most}, {physical}, {rate}");
    }
    if port.lid != 0 {
        let _infallible = write!(text, ", LID {:#06x}", port.lid);
    }
    text.push('\n');
    for row in &port.gids {
        let _infallible = writeln!(
            text,
            "    GID {:<3} {}  {:<15}  {}  {}",
            row.index,
            row.gid,
            row.ipv4.as_deref().unwrap_or(""),
            row.kind,
            row.netdev
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_written_as_the_stock_tools_do() {
        assert_eq!(guid(0x0002_c903_0012_3456), "0002:c903:0012:3456");
        let mapped = Gid::from_ip("192.0.2.7".parse().unwrap());
        assert_eq!(groups(mapped), "0000:0000:0000:0000:0000:ffff:c000:0207");
    }

    #[test]
    fn loopback_is_listed_and_what_is_missing_is_said() {
        let listing = look().unwrap();
        let lo = listing
            .devices
            .iter()
            .find(|device| device.device == "udp:lo")
            .unwrap();
        assert_eq!(
            (lo.ports[0].state.as_str(), lo.ports[0].active_mtu_bytes),
            ("ACTIVE", 4096)
        );
        assert_eq!(lo.ports[0].gids[0].ipv4.as_deref(), Some("127.0.0.1"));
        let shown = text(&listing, true);
        assert!(
            shown.contains("udp:lo\n  port 1: ACTIVE, Ethernet, path MTU 4096\n"),
            "{shown}"
        );
        let verbs = listing
            .devices
            .iter()
            .any(|device| device.backend == "verbs");
        let said = listing
            .remarks
            .iter()
            .any(|remark| remark.device == "verbs");
        assert!(verbs || said, "{shown}");
    }
}
