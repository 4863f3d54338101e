//! Opening a device and a port of it, and what they are.

use std::path::Path;
use std::rc::Rc;

use roce_engine::verbs::{DeviceAttr, GidEntry, GidKind, LinkLayer, Mtu, PKey, PortAttr, Service};
use rustix::io::ioctl_fionbio;

use crate::convert;
use crate::error::{Call, OpenError, sentence};
use crate::events::Events;
use crate::identity;
use crate::load::{Api, load};
use crate::objects::Objects;
use crate::post::Scratch;
use crate::raw::{Context, Destroy, DeviceList, Object, QpParts, qp_init};
use crate::sys::{
    GID_TYPE_ROCE_V2, LINK_LAYER_INFINIBAND, PORT_ACTIVE, TRANSPORT_IWARP, ibv_comp_channel,
    ibv_cq, ibv_device_attr, ibv_pd, ibv_port_attr, ibv_qp, ibv_qp_cap,
};
use crate::sysfs::{self, Counters};
use crate::wait::Idle;

/// What a work request copies at most: providers do not say what they can, and perftest asks for no more.
const MAX_INLINE: u32 = 1024;

/// By which calls send requests are posted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Posting {
    /// `ibv_post_send`.
    PostSend,
    /// `ibv_wr_*` on the devices on which perftest takes it, where the provider has it; else `ibv_post_send`.
    #[default]
    AsPerftest,
    /// `ibv_wr_*` wherever the provider has it.
    WrApi,
}

/// A port of an RDMA device.
#[derive(Debug)]
pub struct VerbsDevice {
    pub(crate) objects: Objects,
    /// What QPs take by `ibv_wr_*`, by their service.
    pub(crate) writes: [u64; 3],
    pub(crate) scratch: Scratch,
    pub(crate) events: Events,
    pub(crate) idle: Idle,
    // After the objects, whose queues it serves.
    pub(crate) channel: Object<ibv_comp_channel>,
    pub(crate) context: Rc<Context>,
    pub(crate) attr: DeviceAttr,
    pub(crate) ports: u8,
    pub(crate) port_number: u8,
    pub(crate) port: PortAttr,
    pub(crate) counters: Counters,
}

impl VerbsDevice {
    /// Opens a port of the device with this name.
    ///
    /// # Errors
    ///
    /// libibverbs, the kernel's RDMA, a provider or the device is missing; or it may not be opened, or has no such
    /// port, or speaks iWARP.
    pub fn open(name: &str, port: u8, posting: Posting) -> Result<Self, OpenError> {
        Self::open_in(None, name, port, posting)
    }

    /// As [`Self::open`], with the libibverbs at `library`.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn open_with(
        library: &Path,
        name: &str,
        port: u8,
        posting: Posting,
    ) -> Result<Self, OpenError> {
        Self::open_in(Some(library), name, port, posting)
    }

    /// Returns whether send requests of a service go through `ibv_wr_*`.
    pub const fn has_wr_api(&self, service: Service) -> bool {
        self.writes[service as usize] != 0
    }

    fn open_in(
        library: Option<&Path>,
        name: &str,
        port: u8,
        posting: Posting,
    ) -> Result<Self, OpenError> {
        let api = Rc::new(load(library)?);
        let context = open_context(&api, name)?;
        let failed = |call: Call, errno| OpenError::Call(sentence(call, name, errno));
        let raw = context
            .query_device()
            .map_err(|errno| failed(Call::QueryDevice, errno))?;
        if port == 0 || port > raw.phys_port_cnt {
            return Err(OpenError::NoSuchPort {
                device: name.to_owned(),
                port,
                ports: raw.phys_port_cnt,
            });
        }
        let port_raw = context.query_port(port).map_err(|errno| {
            OpenError::Call(sentence(
                Call::QueryPort,
                &format!("{name} port {port}"),
                errno,
            ))
        })?;
        let channel = Object::<ibv_comp_channel>::create(&context)
            .map_err(|errno| failed(Call::CreateChannel, errno))?;
        for fd in [channel.fd(), context.async_fd()] {
            ioctl_fionbio(fd, true).map_err(|error| {
                OpenError::Call(format!("the event file of {name}, not to block: {error}"))
            })?;
        }
        let tries = match posting {
            Posting::PostSend => false,
            Posting::AsPerftest => identity::posts_by_wr_api(raw.vendor_id, raw.vendor_part_id),
            Posting::WrApi => true,
        };
        let writes = match tries {
            true => writes(&context, &channel),
            false => [0; 3],
        };
        Ok(Self {
            objects: Objects::new(),
            writes,
            scratch: Scratch::new(),
            events: Events::default(),
            idle: Idle::new(),
            channel,
            attr: device_attr(&api, name, &raw, &port_raw),
            ports: raw.phys_port_cnt,
            port_number: port,
            port: port_attr(&context, name, port, &port_raw),
            counters: Counters::of(name, port),
            context,
        })
    }
}

/// Returns the operations that QPs of each service take by `ibv_wr_*`, which only trying tells.
fn writes(context: &Rc<Context>, channel: &Object<ibv_comp_channel>) -> [u64; 3] {
    let pd = Object::<ibv_pd>::alloc(context);
    let cq = Object::<ibv_cq>::create(context, channel, 1);
    let mut found = [0; 3];
    if let (Ok(pd), Ok(cq)) = (&pd, &cq) {
        for service in [Service::Rc, Service::Uc, Service::Ud] {
            found[service as usize] = written(service, pd, cq);
        }
    }
    // What can't be destroyed is the kernel's to take back.
    let _refused = (cq.map(Destroy::destroy), pd.map(Destroy::destroy));
    found
}

/// Returns the operations that QPs of a service take by `ibv_wr_*`.
fn written(service: Service, pd: &Object<ibv_pd>, cq: &Object<ibv_cq>) -> u64 {
    let parts = QpParts {
        send_cq: cq,
        recv_cq: cq,
        srq: None,
    };
    let caps = ibv_qp_cap {
        max_send_wr: 1,
        max_recv_wr: 1,
        max_send_sge: 1,
        max_recv_sge: 1,
        max_inline_data: 0,
    };
    for operations in convert::operations(service) {
        let mut init = qp_init(service, caps, false);
        if let Ok(qp) = Object::<ibv_qp>::create_ex(pd, &parts, &mut init, operations) {
            let there = operations & qp.operations();
            let _refused = qp.destroy();
            return there;
        }
    }
    0
}

/// Finds a device by name and opens it.
fn open_context(api: &Rc<Api>, name: &str) -> Result<Rc<Context>, OpenError> {
    let list = list(api)?;
    let Some(found) = list.iter().find(|device| device.name() == name) else {
        let names: Vec<String> = list.iter().map(|device| device.name()).collect();
        return Err(OpenError::NoSuchDevice {
            name: name.to_owned(),
            others: names.join(", "),
        });
    };
    if found.transport() == TRANSPORT_IWARP {
        return Err(OpenError::Iwarp {
            device: name.to_owned(),
        });
    }
    found
        .open()
        .map_err(|errno| OpenError::Call(sentence(Call::OpenDevice, name, errno)))
}

/// Lists the devices; having none is an error with what to do.
pub(crate) fn list(api: &Rc<Api>) -> Result<DeviceList<'_>, OpenError> {
    let list = DeviceList::new(api)
        .map_err(|errno| OpenError::Call(sentence(Call::GetDeviceList, "this machine", errno)))?;
    if list.iter().next().is_some() {
        return Ok(list);
    }
    let known = sysfs::kernel_devices();
    Err(if known.is_empty() {
        OpenError::NoDevice
    } else {
        OpenError::NoProvider {
            devices: known.join(", "),
        }
    })
}

fn count(value: i32) -> u32 {
    u32::try_from(value).unwrap_or(0)
}

fn small(value: i32) -> u8 {
    u8::try_from(value.clamp(0, 255)).unwrap_or(u8::MAX)
}

fn device_attr(api: &Api, name: &str, raw: &ibv_device_attr, port: &ibv_port_attr) -> DeviceAttr {
    DeviceAttr {
        name: name.to_owned(),
        max_qp: count(raw.max_qp),
        max_qp_wr: count(raw.max_qp_wr),
        max_sge: count(raw.max_sge),
        max_cq: count(raw.max_cq),
        max_cqe: count(raw.max_cqe),
        max_mr: count(raw.max_mr),
        max_pd: count(raw.max_pd),
        max_qp_rd_atom: small(raw.max_qp_rd_atom),
        max_qp_init_rd_atom: small(raw.max_qp_init_rd_atom),
        max_inline: MAX_INLINE,
        max_message: port.max_msg_sz,
        latency_inline: identity::latency_inline(raw.vendor_id, raw.vendor_part_id),
        relaxed_ordering: api.ibv_reg_mr_iova2.is_some(),
    }
}

/// Returns what a port is, with its tables.
pub(crate) fn port_attr(
    context: &Context,
    device: &str,
    port: u8,
    raw: &ibv_port_attr,
) -> PortAttr {
    let pkeys = (0..raw.pkey_tbl_len).map_while(|index| context.pkey(port, index).ok());
    PortAttr {
        active: raw.state == PORT_ACTIVE,
        link_layer: if raw.link_layer == LINK_LAYER_INFINIBAND {
            LinkLayer::InfiniBand
        } else {
            LinkLayer::Ethernet
        },
        active_mtu: convert::mtu(raw.active_mtu).unwrap_or(Mtu::B256),
        lid: raw.lid,
        pkeys: pkeys.map(|key| PKey(u16::from_be(key))).collect(),
        gids: gid_table(context, device, port, raw),
    }
}

/// Returns the rows of a port's GID table that hold something. Rows beyond 255 have no number that a QP could take.
fn gid_table(context: &Context, device: &str, port: u8, raw: &ibv_port_attr) -> Vec<GidEntry> {
    let length = usize::try_from(raw.gid_tbl_len).unwrap_or(0);
    // The call is about all ports together; devices have two at most, with tables of one length.
    if let Some(Ok(rows)) = context.gid_table(length.clamp(1, 1 << 12) * 2) {
        let own = rows.iter().filter(|row| row.port_num == u32::from(port));
        return own
            .filter_map(|row| {
                Some(GidEntry {
                    index: u8::try_from(row.gid_index).ok()?,
                    gid: convert::gid(row.gid),
                    kind: if row.gid_type == GID_TYPE_ROCE_V2 {
                        GidKind::RoceV2
                    } else {
                        GidKind::IbOrRoceV1
                    },
                    netdev: sysfs::interface_name(row.ndev_ifindex).unwrap_or_default(),
                })
            })
            .collect();
    }
    (0..length.min(256))
        .filter_map(|index| {
            let index = u8::try_from(index).ok()?;
            let gid = context.gid(port, index).ok().filter(|gid| *gid != [0, 0])?;
            let (v2, netdev) = sysfs::gid_attributes(device, port, index);
            Some(GidEntry {
                index,
                gid: convert::gid(gid),
                kind: if v2 {
                    GidKind::RoceV2
                } else {
                    GidKind::IbOrRoceV1
                },
                netdev,
            })
        })
        .collect()
}
