//! The devices of this machine, for who wants to see them all.

use core::ffi::{c_char, c_int};
use std::path::Path;
use std::rc::Rc;

use roce_engine::verbs::{Mtu, PortAttr};

use crate::convert;
use crate::device::{list, port_attr};
use crate::error::{Call, OpenError, sentence};
use crate::load::{Api, load};
use crate::raw::{Context, Listed};
use crate::sys::{TRANSPORT_IB, TRANSPORT_IWARP, ibv_device_attr};

/// A device as `ibv_devinfo` would show it.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// Its name.
    pub name: String,
    /// `InfiniBand` (RoCE too), `iWARP` or another transport.
    pub transport: &'static str,
    /// The firmware's version, as the device writes it.
    pub firmware: String,
    /// The node's GUID.
    pub node_guid: u64,
    /// The GUID of the system image.
    pub system_guid: u64,
    /// The maker.
    pub vendor_id: u32,
    /// The maker's number of the part.
    pub part_id: u32,
    /// The hardware's version.
    pub hardware: u32,
    /// Limits by the names of `ibv_query_device(3)`.
    pub limits: Vec<(&'static str, u64)>,
    /// Its ports.
    pub ports: Vec<PortInfo>,
}

/// A port of a device.
#[derive(Clone, Debug)]
pub struct PortInfo {
    /// Counted from 1.
    pub number: u8,
    /// The state's name.
    pub state: &'static str,
    /// The state of the wire below it.
    pub physical_state: &'static str,
    /// The largest path MTU that the port could have.
    pub max_mtu: Mtu,
    /// The LID of the subnet manager.
    pub sm_lid: u16,
    /// Bits of the LID that a path may vary.
    pub lmc: u8,
    /// The longest message.
    pub max_message: u32,
    /// Lanes, and the rate of each: `4X 25.0 Gbps`.
    pub rate: String,
    /// What every backend has.
    pub attr: PortAttr,
}

/// Returns the devices of this machine.
///
/// # Errors
///
/// libibverbs, the kernel's RDMA, a provider or a device is missing. A device that can't be opened is an error in
/// its place.
pub fn devices(library: Option<&Path>) -> Result<Vec<Result<DeviceInfo, OpenError>>, OpenError> {
    let api: Rc<Api> = Rc::new(load(library)?);
    let list = list(&api)?;
    Ok(list.iter().map(|device| describe(&device)).collect())
}

fn describe(device: &Listed<'_>) -> Result<DeviceInfo, OpenError> {
    let name = device.name();
    let failed = |call, errno| OpenError::Call(sentence(call, &name, errno));
    let context = device
        .open()
        .map_err(|errno| failed(Call::OpenDevice, errno))?;
    let attr = context
        .query_device()
        .map_err(|errno| failed(Call::QueryDevice, errno))?;
    let ports = (1..=attr.phys_port_cnt)
        .map(|number| port(&context, &name, number))
        .collect::<Result<_, _>>()?;
    Ok(DeviceInfo {
        transport: match device.transport() {
            TRANSPORT_IB => "InfiniBand",
            TRANSPORT_IWARP => "iWARP",
            _ => "another one",
        },
        firmware: characters(&attr.fw_ver),
        node_guid: u64::from_be(attr.node_guid),
        system_guid: u64::from_be(attr.sys_image_guid),
        vendor_id: attr.vendor_id,
        part_id: attr.vendor_part_id,
        hardware: attr.hw_ver,
        limits: limits(&attr),
        ports,
        name,
    })
}

fn port(context: &Context, device: &str, number: u8) -> Result<PortInfo, OpenError> {
    let raw = context.query_port(number).map_err(|errno| {
        let on = format!("{device} port {number}");
        OpenError::Call(sentence(Call::QueryPort, &on, errno))
    })?;
    Ok(PortInfo {
        number,
        state: state(raw.state),
        physical_state: physical_state(raw.phys_state),
        max_mtu: convert::mtu(raw.max_mtu).unwrap_or(Mtu::B256),
        sm_lid: raw.sm_lid,
        lmc: raw.lmc,
        max_message: raw.max_msg_sz,
        rate: format!("{} {}", width(raw.active_width), speed(raw.active_speed)),
        attr: port_attr(context, device, number, &raw),
    })
}

/// Reads characters that end with a NUL or with their array.
fn characters(from: &[c_char]) -> String {
    let bytes: Vec<u8> = from
        .iter()
        .map(|character| character.cast_unsigned())
        .take_while(|byte| *byte != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn limits(attr: &ibv_device_attr) -> Vec<(&'static str, u64)> {
    let count = |value: c_int| u64::try_from(value).unwrap_or(0);
    vec![
        ("max_mr_size", attr.max_mr_size),
        ("page_size_cap", attr.page_size_cap),
        ("max_qp", count(attr.max_qp)),
        ("max_qp_wr", count(attr.max_qp_wr)),
        ("device_cap_flags", attr.device_cap_flags.into()),
        ("max_sge", count(attr.max_sge)),
        ("max_sge_rd", count(attr.max_sge_rd)),
        ("max_cq", count(attr.max_cq)),
        ("max_cqe", count(attr.max_cqe)),
        ("max_mr", count(attr.max_mr)),
        ("max_pd", count(attr.max_pd)),
        ("max_qp_rd_atom", count(attr.max_qp_rd_atom)),
        ("max_res_rd_atom", count(attr.max_res_rd_atom)),
        ("max_qp_init_rd_atom", count(attr.max_qp_init_rd_atom)),
        ("max_mw", count(attr.max_mw)),
        ("max_ah", count(attr.max_ah)),
        ("max_srq", count(attr.max_srq)),
        ("max_srq_wr", count(attr.max_srq_wr)),
        ("max_srq_sge", count(attr.max_srq_sge)),
        ("max_pkeys", attr.max_pkeys.into()),
        ("local_ca_ack_delay", attr.local_ca_ack_delay.into()),
    ]
}

const fn state(code: c_int) -> &'static str {
    match code {
        1 => "DOWN",
        2 => "INIT",
        3 => "ARMED",
        4 => "ACTIVE",
        5 => "ACTIVE_DEFER",
        _ => "NOP",
    }
}

const fn physical_state(code: u8) -> &'static str {
    match code {
        1 => "SLEEP",
        2 => "POLLING",
        3 => "DISABLED",
        4 => "PORT_CONFIGURATION_TRAINING",
        5 => "LINK_UP",
        6 => "LINK_ERROR_RECOVERY",
        7 => "PHY_TEST",
        _ => "UNKNOWN",
    }
}

const fn width(code: u8) -> &'static str {
    match code {
        1 => "1X",
        2 => "4X",
        4 => "8X",
        8 => "12X",
        16 => "2X",
        _ => "?X",
    }
}

const fn speed(code: u8) -> &'static str {
    match code {
        1 => "2.5 Gbps",
        2 => "5.0 Gbps",
        4 | 8 => "10.0 Gbps",
        16 => "14.0 Gbps",
        32 => "25.0 Gbps",
        64 => "50.0 Gbps",
        128 => "100.0 Gbps",
        _ => "? Gbps",
    }
}
