//! Why there is no device, and what an errno of libibverbs means where it came from.

use core::fmt::Write as _;

use thiserror::Error;

/// What the library was asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Call {
    GetDeviceList,
    OpenDevice,
    QueryDevice,
    QueryPort,
    AllocPd,
    RegMr,
    CreateChannel,
    CreateCq,
    ResizeCq,
    ReqNotify,
    CreateSrq,
    ModifySrq,
    CreateQp,
    ModifyQp,
    QueryQp,
    CreateAh,
    AllocMw,
    Destroy,
}

impl Call {
    /// Returns the function's name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::GetDeviceList => "ibv_get_device_list",
            Self::OpenDevice => "ibv_open_device",
            Self::QueryDevice => "ibv_query_device",
            Self::QueryPort => "ibv_query_port",
            Self::AllocPd => "ibv_alloc_pd",
            Self::RegMr => "ibv_reg_mr",
            Self::CreateChannel => "ibv_create_comp_channel",
            Self::CreateCq => "ibv_create_cq",
            Self::ResizeCq => "ibv_resize_cq",
            Self::ReqNotify => "ibv_req_notify_cq",
            Self::CreateSrq => "ibv_create_srq",
            Self::ModifySrq => "ibv_modify_srq",
            Self::CreateQp => "ibv_create_qp",
            Self::ModifyQp => "ibv_modify_qp",
            Self::QueryQp => "ibv_query_qp",
            Self::CreateAh => "ibv_create_ah",
            Self::AllocMw => "ibv_alloc_mw",
            Self::Destroy => "ibv_destroy",
        }
    }

    /// Returns what usually is behind an errno of this call, and what helps.
    const fn hint(self, errno: i32) -> Option<&'static str> {
        use libc as e;
        Some(match (self, errno) {
            (Self::GetDeviceList, e::ENOSYS) => {
                "the kernel has no RDMA: modprobe ib_uverbs (CONFIG_INFINIBAND_USER_ACCESS)"
            }
            (Self::GetDeviceList, e::EPERM) => {
                "this process may not list RDMA devices: run it as root"
            }
            (Self::OpenDevice, e::EACCES | e::EPERM) => {
                "this process may not open /dev/infiniband/uverbs*: run it as root, or give the file to its group"
            }
            (Self::OpenDevice, e::ENOENT | e::ENXIO) => {
                "its file in /dev/infiniband is missing: modprobe ib_uverbs, and see that udev or devtmpfs makes the file"
            }
            (Self::RegMr, e::ENOMEM) => {
                "registered memory is locked: raise the limit (ulimit -l unlimited) or use smaller messages and depths"
            }
            (Self::RegMr, e::EFAULT) => "a part of this memory is not mapped",
            (Self::RegMr, e::EINVAL) => {
                "the device does not take these access rights or this length"
            }
            (Self::RegMr, e::EOPNOTSUPP) => "the device cannot register this kind of memory",
            (Self::CreateCq | Self::ResizeCq | Self::CreateSrq | Self::CreateQp, e::EINVAL) => {
                "a size is beyond what the device can"
            }
            (Self::CreateQp, e::EOPNOTSUPP | e::ENOSYS) => {
                "the device has no such transport service"
            }
            (Self::ModifyQp | Self::CreateAh, e::ETIMEDOUT) => {
                "the peer's address was not resolved: nothing answers ARP or neighbour discovery for it on the GID's interface"
            }
            (Self::ModifyQp | Self::CreateAh, e::ENETUNREACH | e::EHOSTUNREACH) => {
                "there is no route from our GID to the peer's: choose the row of another interface (-x)"
            }
            (Self::ModifyQp | Self::CreateAh, e::ENODATA | e::EADDRNOTAVAIL) => {
                "our row of the GID table is empty: its address has gone, choose another (-x)"
            }
            (Self::ModifyQp, e::EINVAL) => {
                "the device refuses a value, most often the GID index (-x) or the peer's GID"
            }
            (Self::CreateAh, e::EINVAL) => {
                "the device refuses the address, most often the GID index (-x)"
            }
            (_, e::EAGAIN) => "the device is out of this for the moment: other processes use it",
            (_, e::ENOMEM) => "the device or the kernel has no memory for it",
            (_, e::EPERM | e::EACCES) => "this process may not do that: run it as root",
            (_, e::EBUSY) => "something else still uses it",
            (_, e::EOPNOTSUPP | e::ENOSYS) => "the device or its driver does not have this",
            (_, e::ENODEV | e::EIO) => "the device is gone, or its driver has given it up",
            (_, e::ENOSPC) => "the device has no more of these",
            (_, e::EINVAL) => "the device refuses a value",
            _ => return None,
        })
    }
}

/// Returns a sentence: what was asked of what, how it failed, and what that usually means.
pub(crate) fn sentence(call: Call, on: &str, errno: i32) -> String {
    let mut text = format!("{} of {on}: {}", call.name(), errno_words(errno));
    if let Some(hint) = call.hint(errno) {
        let _infallible = write!(text, ": {hint}");
    }
    text
}

/// Returns an errno by name, number and the system's words.
pub(crate) fn errno_words(errno: i32) -> String {
    let system = std::io::Error::from_raw_os_error(errno).to_string();
    let words = system.split(" (os error").next().unwrap_or_default();
    match errno_name(errno) {
        Some(name) => format!("{name} ({errno}), {words}"),
        None => format!("errno {errno}, {words}"),
    }
}

const fn errno_name(errno: i32) -> Option<&'static str> {
    Some(match errno {
        libc::EPERM => "EPERM",
        libc::ENOENT => "ENOENT",
        libc::EIO => "EIO",
        libc::ENXIO => "ENXIO",
        libc::EAGAIN => "EAGAIN",
        libc::ENOMEM => "ENOMEM",
        libc::EACCES => "EACCES",
        libc::EFAULT => "EFAULT",
        libc::EBUSY => "EBUSY",
        libc::ENODEV => "ENODEV",
        libc::EINVAL => "EINVAL",
        libc::EMFILE => "EMFILE",
        libc::ENOSPC => "ENOSPC",
        libc::ENOSYS => "ENOSYS",
        libc::ENODATA => "ENODATA",
        libc::EOPNOTSUPP => "EOPNOTSUPP",
        libc::EADDRNOTAVAIL => "EADDRNOTAVAIL",
        libc::ENETUNREACH => "ENETUNREACH",
        libc::EHOSTUNREACH => "EHOSTUNREACH",
        libc::ETIMEDOUT => "ETIMEDOUT",
        _ => return None,
    })
}

/// Why there is no device.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum OpenError {
    /// The library can't be loaded.
    #[error("libibverbs is not installed: package libibverbs1 (and ibverbs-providers): {reason}")]
    Missing {
        /// The loader's words.
        reason: String,
    },
    /// The library is not what it should be.
    #[error("{library} has no function {name}: it is not libibverbs, or older than version 1.1")]
    Symbol {
        /// Its path.
        library: String,
        /// What it lacks.
        name: &'static str,
    },
    /// A call failed before a device was open.
    #[error("{0}")]
    Call(String),
    /// The kernel has devices, the library none.
    #[error(
        "the kernel has RDMA devices ({devices}) that libibverbs does not know: package ibverbs-providers has their drivers"
    )]
    NoProvider {
        /// Their names.
        devices: String,
    },
    /// There is none at all.
    #[error(
        "there is no RDMA device; how to get one: modprobe rdma_rxe; rdma link add rxe0 type rxe netdev eth0"
    )]
    NoDevice,
    /// There is none of this name.
    #[error("there is no RDMA device {name}; there are: {others}")]
    NoSuchDevice {
        /// The name that was asked for.
        name: String,
        /// Those that are there.
        others: String,
    },
    /// It does not have this port.
    #[error("RDMA device {device} has no port {port}: it has {ports}, counted from 1 (-i)")]
    NoSuchPort {
        /// Its name.
        device: String,
        /// The port that was asked for.
        port: u8,
        /// How many it has.
        ports: u8,
    },
    /// Its transport is another one.
    #[error(
        "RDMA device {device} speaks iWARP, whose connections are made by RDMA-CM only; this program speaks RoCE and InfiniBand"
    )]
    Iwarp {
        /// Its name.
        device: String,
    },
}
