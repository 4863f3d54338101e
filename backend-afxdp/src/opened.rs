//! What links and bare sockets have in common: an interface, the right to a queue of it, a socket
//! there, and the program that fills it.

use crate::config::Config;
use crate::error::OpenError;
use crate::holder::Claim;
use crate::netdev::Netdev;
use crate::netlink::Netlink;
use crate::privilege;
use crate::program::Attached;
use crate::xsk::Xsk;

/// An open queue.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) attached: Attached,
    pub(crate) xsk: Xsk,
    pub(crate) claim: Claim,
    pub(crate) netdev: Netdev,
    pub(crate) netlink: Netlink,
}

impl Opened {
    /// Opens an interface's queue; `addressed` if the interface has to have an address.
    pub(crate) fn new(config: &Config, addressed: bool) -> Result<Self, OpenError> {
        let (netdev, mut netlink) = look_at(config, addressed)?;
        let claim = Claim::take(&netdev, config.queue)?;
        let xsk = Xsk::open(config, &netdev)?;
        let attached = Attached::new(config, &netdev, &mut netlink)?;
        attached.register(config.queue, &xsk, &netdev)?;
        Ok(Self {
            attached,
            xsk,
            claim,
            netdev,
            netlink,
        })
    }
}

/// Says whether a link could be opened, without opening one.
///
/// # Errors
///
/// As [`XskLink::open`](crate::XskLink::open), for what can be seen from outside: the interface and
/// this process's privileges.
pub fn check(config: &Config) -> Result<(), OpenError> {
    look_at(config, true).map(drop)
}

fn look_at(config: &Config, addressed: bool) -> Result<(Netdev, Netlink), OpenError> {
    let mut netlink = Netlink::new().map_err(OpenError::system("open a routing socket"))?;
    let netdev = Netdev::named(&config.interface, &mut netlink)?;
    netdev.check(config, addressed)?;
    privilege::check(&netdev.name)?;
    Ok((netdev, netlink))
}
