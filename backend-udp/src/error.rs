//! Why a link could not be opened.

use core::net::IpAddr;
use std::io;

/// An error of [`UdpLink::open`](crate::UdpLink::open) and of the look-ups before it.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No interface has this name.
    #[error("there is no network interface {name:?}; there are: {known}")]
    NoInterface {
        /// The name that was asked for.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// The interface has no address, or none that is ready.
    #[error(
        "interface {name} has no usable IP address: give it one (ip address add ADDRESS/PREFIX dev {name})"
    )]
    NoAddress {
        /// The interface.
        name: String,
    },
    /// No interface of this machine has the address.
    #[error("no network interface of this machine has the address {address}")]
    NotLocal {
        /// The address.
        address: IpAddr,
    },
    /// The interface carries no RoCE packet.
    #[error("the MTU of interface {name} is {mtu}, RoCE needs 336 at least")]
    MtuTooSmall {
        /// The interface.
        name: String,
        /// Its MTU.
        mtu: usize,
    },
    /// Two endpoints share the address already.
    #[error(
        "UDP port {port} of {address} is shared by two endpoints already, {holders}: end one of them \
         or use another address"
    )]
    Shared {
        /// The address.
        address: IpAddr,
        /// The port.
        port: u16,
        /// Which processes hold it.
        holders: String,
    },
    /// Somebody holds the port who does not share it.
    #[error("UDP port {port} of {address} is in use by {holder}")]
    InUse {
        /// The address.
        address: IpAddr,
        /// The port.
        port: u16,
        /// Who holds it, and what can be done.
        holder: String,
    },
    /// Another process is opening a link and doesn't come to an end.
    #[error("waited {seconds} s for {holder}, which is opening a link on UDP port {port}")]
    Busy {
        /// The port.
        port: u16,
        /// Who is at it.
        holder: String,
        /// How long this process waited.
        seconds: u64,
    },
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// What was attempted, on which object.
        what: String,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl OpenError {
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        |source| Self::System { what, source }
    }
}
