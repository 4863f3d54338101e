//! Why a link could not be opened.

use std::io;

/// An error of [`XskLink::open`](crate::XskLink::open) and of the look-ups before it.
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
    /// The interface is down.
    #[error("interface {name} is down: ip link set {name} up")]
    Down {
        /// The interface.
        name: String,
    },
    /// The interface has no Ethernet header.
    #[error(
        "interface {name} has no Ethernet frames, and AF_XDP takes nothing else: use -d udp:{name}"
    )]
    NotEthernet {
        /// The interface.
        name: String,
    },
    /// The interface has no address, or none that is ready.
    #[error(
        "interface {name} has no usable IP address: give it one (ip address add ADDRESS/PREFIX dev {name})"
    )]
    NoAddress {
        /// The interface.
        name: String,
    },
    /// The interface carries no RoCE packet.
    #[error("the MTU of interface {name} is {mtu}, RoCE needs 336 at least")]
    MtuTooSmall {
        /// The interface.
        name: String,
        /// Its MTU.
        mtu: usize,
    },
    /// The interface has fewer queues.
    #[error("interface {name} has no queue {queue}: it has {queues}, counted from 0")]
    NoQueue {
        /// The interface.
        name: String,
        /// The queue that was asked for.
        queue: u32,
        /// How many there are.
        queues: u32,
    },
    /// This process lacks privileges.
    #[error(
        "{what}: this process lacks {missing}: run it as root or give the program these \
         capabilities (setcap cap_net_admin,cap_net_raw,cap_bpf+ep FILE); -d udp:{name} needs none"
    )]
    Privilege {
        /// What was refused.
        what: String,
        /// The capabilities.
        missing: String,
        /// The interface.
        name: String,
    },
    /// Somebody else has the queue.
    #[error("queue {queue} of interface {name} is in use by {holder}: end it or use another queue")]
    Busy {
        /// The interface.
        name: String,
        /// The queue.
        queue: u32,
        /// Who has it.
        holder: String,
    },
    /// Another XDP program is on the interface.
    #[error(
        "interface {name} has the XDP program {program} in place: take it off, or displace it with \
         --replace-xdp"
    )]
    Program {
        /// The interface.
        name: String,
        /// Number and name of the program.
        program: String,
    },
    /// Buffers would exceed the limit of locked memory.
    #[error(
        "{wanted} KiB of packet buffers exceed the limit of locked memory (ulimit -l is {limit} \
         KiB): raise it, or give the program CAP_IPC_LOCK"
    )]
    LockedMemory {
        /// The buffers.
        wanted: u64,
        /// The limit.
        limit: u64,
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
    pub(crate) fn system<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |source| Self::System {
            what,
            source: source.into(),
        }
    }
}
