//! Two hosts on one cable: network namespaces joined by a veth pair.

use std::path::Path;

use anyhow::{Context, Result};

use crate::namespace::Namespace;
use crate::process::Process;

/// Two hosts; the interface of both is `eth0`.
#[derive(Debug)]
pub struct Hosts {
    /// The one with `CLIENT_V4` and `CLIENT_V6`.
    pub client: Namespace,
    /// The one with `SERVER_V4` and `SERVER_V6`.
    pub server: Namespace,
}

/// Address of the client's host.
pub const CLIENT_V4: &str = "192.168.78.1";
/// Address of the server's host.
pub const SERVER_V4: &str = "192.168.78.2";
/// Address of the client's host.
pub const CLIENT_V6: &str = "fd78::1";
/// Address of the server's host.
pub const SERVER_V6: &str = "fd78::2";

impl Hosts {
    /// Makes both hosts, with interfaces of `mtu` bytes.
    ///
    /// # Errors
    /// If this process may not make namespaces or interfaces (it takes root).
    pub fn new(mtu: u32) -> Result<Self> {
        let (client, server) = (Namespace::new()?, Namespace::new()?);
        client.shell(&format!(
            "ip link add eth0 type veth peer name eth0 netns {}",
            server.id()
        ))?;
        let sides = [
            (&client, CLIENT_V4, CLIENT_V6),
            (&server, SERVER_V4, SERVER_V6),
        ];
        for (host, v4, v6) in sides {
            host.shell(&format!(
                "ip addr add {v4}/24 dev eth0 && ip addr add {v6}/64 dev eth0 nodad && \
                 ip link set eth0 mtu {mtu} up"
            ))?;
        }
        // The kernel notices that both ends are up a moment later.
        for (host, ..) in sides {
            host.shell(
                "for i in $(seq 100); do grep -q up /sys/class/net/eth0/operstate && exit 0; \
                 sleep 0.05; done; echo eth0 does not come up >&2; exit 1",
            )?;
        }
        Ok(Self { client, server })
    }
}

/// Starts a program on a host, both output streams in the file `log`.
///
/// # Errors
/// If it can't be run.
pub fn start(
    host: &Namespace,
    program: &Path,
    arguments: &[String],
    log: &Path,
) -> Result<Process> {
    let program = program
        .to_str()
        .context("the path of the program is not UTF-8")?;
    Process::start(host.command(program).args(arguments), log)
}
