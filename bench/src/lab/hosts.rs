//! Two anonymous hosts on one cable: network namespaces that go away with the processes in them.

use core::net::IpAddr;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::process::{Command, Stdio};

use anyhow::Result;
use rustix::thread::{CapabilitySet, LinkNameSpaceType, UnshareFlags};

use crate::exit::environment;

/// The MTU of the cable: path MTU 4096 fits.
const MTU: u32 = 4200;

/// The addresses of both hosts, IPv4 and IPv6.
pub(super) const CLIENT: [&str; 2] = ["192.168.77.1", "fd77::1"];
pub(super) const SERVER: [&str; 2] = ["192.168.77.2", "fd77::2"];

/// The interface of each host.
pub(super) const INTERFACE: &str = "eth0";

/// Two hosts. They live as long as a process is in them, or this value.
#[derive(Debug)]
pub(super) struct Hosts {
    client: File,
    server: File,
}

impl Hosts {
    /// Makes both hosts; the calling thread is in the client's afterwards.
    ///
    /// # Errors
    ///
    /// This process may not make namespaces, or `ip` is missing or refuses something.
    pub(super) fn new() -> Result<Self> {
        let server = new_namespace()?;
        let client = new_namespace()?;
        let peer = format!("/proc/{}/fd/{}", std::process::id(), server.as_raw_fd());
        let hosts = Self { client, server };
        ip(&format!(
            "link add {INTERFACE} numrxqueues 1 numtxqueues 1 type veth \
             peer name {INTERFACE} numrxqueues 1 numtxqueues 1 netns {peer}\n{}",
            commands(CLIENT)
        ))?;
        hosts.enter(&hosts.server)?;
        ip(&commands(SERVER))?;
        hosts.enter_client()?;
        Ok(hosts)
    }

    /// Moves the calling thread to the server's host.
    ///
    /// # Errors
    ///
    /// The system refuses.
    pub(super) fn enter_server(&self) -> Result<()> {
        self.enter(&self.server)
    }

    /// Moves the calling thread to the client's host.
    ///
    /// # Errors
    ///
    /// The system refuses.
    pub(super) fn enter_client(&self) -> Result<()> {
        self.enter(&self.client)
    }

    fn enter(&self, namespace: &File) -> Result<()> {
        rustix::thread::move_into_link_name_space(
            std::os::fd::AsFd::as_fd(namespace),
            Some(LinkNameSpaceType::Network),
        )
        .map_err(|errno| environment(format!("enter a network namespace: {errno}")))
    }

    /// Returns the server's address.
    pub(super) fn server_address(ipv6: bool) -> Result<IpAddr> {
        Ok(SERVER[usize::from(ipv6)].parse()?)
    }
}

/// Returns why hosts can't be made, if they can't.
pub(super) fn cannot() -> Option<String> {
    let own = rustix::thread::capabilities(None).ok()?.effective;
    let needed = [
        ("CAP_SYS_ADMIN", CapabilitySet::SYS_ADMIN),
        ("CAP_NET_ADMIN", CapabilitySet::NET_ADMIN),
        ("CAP_NET_RAW", CapabilitySet::NET_RAW),
    ];
    let missing: Vec<_> = needed
        .into_iter()
        .filter_map(|(name, one)| (!own.contains(one)).then_some(name))
        .collect();
    (!missing.is_empty()).then(|| {
        format!(
            "it takes root, for namespaces and raw frames: this process lacks {}",
            missing.join(", ")
        )
    })
}

/// Returns the commands that set a host up.
fn commands([v4, v6]: [&str; 2]) -> String {
    format!(
        "link set lo up\n\
         addr add {v4}/24 dev {INTERFACE}\n\
         addr add {v6}/64 dev {INTERFACE} nodad\n\
         link set {INTERFACE} mtu {MTU} up\n"
    )
}

/// Moves the calling thread to a new network namespace and returns it.
#[expect(
    unsafe_code,
    reason = "the call can also take a thread's descriptors apart"
)]
fn new_namespace() -> Result<File> {
    // SAFETY: only the network namespace is unshared, not the table of descriptors.
    let unshared = unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) };
    unshared.map_err(|errno| {
        environment(format!(
            "make a network namespace for the lab: {errno}: it takes root; --lab -d udp needs none"
        ))
    })?;
    let path = "/proc/thread-self/ns/net";
    File::open(path).map_err(|error| environment(format!("open {path}: {error}")))
}

/// Runs commands of `ip` in the calling thread's namespace.
fn ip(commands: &str) -> Result<()> {
    let mut child = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| environment(format!("run ip (package iproute2): {error}")))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(commands.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        let words = words.trim();
        return Err(environment(format!("set up the lab with ip: {words}")));
    }
    Ok(())
}
