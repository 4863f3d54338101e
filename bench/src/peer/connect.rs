//! Sockets: a server that takes one client, a client that tries every address of a name.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use std::io;
use std::net::{TcpListener, TcpStream, ToSocketAddrs as _};
use std::os::fd::OwnedFd;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::OnIdle;
use crate::exit;
use crate::spec::{Role, Spec};

/// A server that waits for its one client.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
}

impl Listener {
    /// Listens where the run says: on its `--bind_source_ip`, else on all addresses of both families.
    ///
    /// # Errors
    /// Says that the port is taken, or that the address is not ours.
    pub fn bind(spec: &Spec) -> Result<Self> {
        let addresses: &[IpAddr] = match &spec.bind_source_ip {
            Some(ip) => &[*ip],
            None if spec.ipv6_addr => &[IpAddr::V6(Ipv6Addr::UNSPECIFIED)],
            // A kernel without IPv6 has only the second.
            None => &[
                IpAddr::V6(Ipv6Addr::UNSPECIFIED),
                IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            ],
        };
        let mut refused = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for ip in addresses {
            match listen(SocketAddr::new(*ip, spec.port)) {
                Ok(socket) => return Ok(Self { socket }),
                Err(error) => {
                    let family_missing = error.raw_os_error()
                        == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
                        || error.kind() == io::ErrorKind::AddrNotAvailable;
                    refused = error;
                    if !family_missing {
                        break;
                    }
                }
            }
        }
        Err(listen_error(spec, &refused))
    }

    /// Returns the port that the kernel gave, which differs from the one asked for if that was 0.
    ///
    /// # Errors
    /// Fails if the socket is gone.
    pub fn port(&self) -> Result<u16> {
        Ok(self.socket.local_addr()?.port())
    }

    /// Waits for the client and closes the listening socket. Without `bound` it waits as long as it takes.
    ///
    /// # Errors
    /// Fails if nobody comes in time, or if the callback does.
    pub fn accept(self, bound: Option<Duration>, idle: OnIdle<'_>) -> Result<TcpStream> {
        let start = Instant::now();
        self.socket.set_nonblocking(true)?;
        loop {
            match self.socket.accept() {
                Ok((stream, _)) => return Ok(stream),
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock
                            | io::ErrorKind::Interrupted
                            | io::ErrorKind::ConnectionAborted
                    ) => {}
                Err(error) => return Err(error).context("waiting for a client"),
            }
            if bound.is_some_and(|bound| start.elapsed() >= bound) {
                bail!(
                    "waiting for a client on port {}: nobody connected in {:.1} s",
                    self.port()?,
                    start.elapsed().as_secs_f64()
                );
            }
            idle()?;
            // An interrupted poll is a short one.
            let _ready = poll(
                &mut [PollFd::new(&self.socket, PollFlags::IN)],
                Some(&milliseconds(50)),
            );
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = stream_socket(&address, SocketFlags::CLOEXEC)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, 1)?;
    Ok(socket.into())
}

fn listen_error(spec: &Spec, error: &io::Error) -> anyhow::Error {
    let port = spec.port;
    match (error.kind(), spec.bind_source_ip) {
        (io::ErrorKind::AddrInUse, _) => exit::environment(format!(
            "TCP port {port} is taken, perhaps by another server: choose one with -p on both ends"
        )),
        (io::ErrorKind::AddrNotAvailable, Some(ip)) => exit::environment(format!(
            "{ip} (--bind_source_ip) is not an address of this machine"
        )),
        (io::ErrorKind::PermissionDenied, _) => exit::environment(format!(
            "TCP port {port} needs a privilege (CAP_NET_BIND_SERVICE): choose one above 1023 with -p"
        )),
        _ => exit::environment(format!("listening on TCP port {port}: {error}")),
    }
}

/// A connection that is being made.
struct Connecting {
    socket: OwnedFd,
}

/// Connects to the server of a client's run, trying each of its addresses within the run's connect timeout.
///
/// Host names prefer IPv4, as perftest's do; `--ipv6-addr` takes only IPv6.
///
/// # Errors
/// Says which addresses were tried and why each failed.
pub fn connect(spec: &Spec) -> Result<TcpStream> {
    let Role::Client { host } = &spec.role else {
        bail!("a server does not connect");
    };
    let addresses = resolve(host, spec)?;
    let mut failures = Vec::new();
    for address in addresses {
        match Connecting::start(address, source(spec, address.ip()))
            .and_then(|connecting| connecting.finish(spec.connect_timeout))
        {
            Ok(stream) => return Ok(stream),
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
                let ip = spec.bind_source_ip.unwrap_or_else(|| address.ip());
                return Err(exit::environment(format!(
                    "connecting from {ip} to {address}: not an address of this machine (--bind_source_ip)"
                )));
            }
            Err(error) => failures.push(format!("{address}: {}", explain(&error, spec.port))),
        }
    }
    bail!("connecting to {host}: {}", failures.join("; "))
}

/// Returns the address to connect from, where the system's choice is not the one. Towards 127.0.0.2 it takes
/// 127.0.0.1, whose port 4791 others may hold, while all of 127.0.0.0/8 is ours.
fn source(spec: &Spec, to: IpAddr) -> Option<IpAddr> {
    spec.bind_source_ip.or_else(|| match to {
        IpAddr::V4(v4) if v4.is_loopback() && v4 != Ipv4Addr::LOCALHOST => Some(to),
        _ => None,
    })
}

fn resolve(host: &str, spec: &Spec) -> Result<Vec<SocketAddr>> {
    let found = (host, spec.port).to_socket_addrs().map_err(|error| {
        anyhow::anyhow!("`{host}` is neither an address nor a name that resolves: {error}")
    })?;
    let source = spec.bind_source_ip;
    let mut addresses: Vec<_> = found
        .filter(|address| !spec.ipv6_addr || address.is_ipv6())
        .filter(|address| source.is_none_or(|ip| ip.is_ipv6() == address.is_ipv6()))
        .collect();
    addresses.sort_by_key(SocketAddr::is_ipv6);
    addresses.dedup();
    // A name with hundreds of records would otherwise wait the timeout for each.
    addresses.truncate(4);
    if addresses.is_empty() {
        let family = match (spec.ipv6_addr, source) {
            (true, _) => "--ipv6-addr asks for IPv6".to_owned(),
            (false, Some(ip)) => format!("--bind_source_ip {ip} is of the other family"),
            (false, None) => "its name has no address".to_owned(),
        };
        bail!("`{host}` has no address to connect to: {family}");
    }
    Ok(addresses)
}

fn explain(error: &io::Error, port: u16) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => format!(
            "connection refused: no server listens on TCP port {port} there; start it first (same test, same options)"
        ),
        io::ErrorKind::TimedOut => {
            format!("no answer in time: is it up, and does a firewall drop TCP port {port}?")
        }
        _ => error.to_string(),
    }
}

impl Connecting {
    fn start(address: SocketAddr, source: Option<IpAddr>) -> io::Result<Self> {
        let socket = stream_socket(&address, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        if let Some(ip) = source {
            rustix::net::bind(&socket, &SocketAddr::new(ip, 0))?;
        }
        match rustix::net::connect(&socket, &address) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(Self { socket }),
            Err(error) => Err(error.into()),
        }
    }

    fn finish(self, timeout: Duration) -> io::Result<TcpStream> {
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let millis = i64::try_from(left.as_millis())
                .unwrap_or(i64::MAX)
                .min(1000);
            let mut fds = [PollFd::new(&self.socket, PollFlags::OUT)];
            match poll(&mut fds, Some(&milliseconds(millis))) {
                Ok(0) if left.is_zero() => return Err(io::ErrorKind::TimedOut.into()),
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => break,
                Err(error) => return Err(error.into()),
            }
        }
        sockopt::socket_error(&self.socket)??;
        Ok(self.socket.into())
    }
}

fn stream_socket(address: &SocketAddr, flags: SocketFlags) -> io::Result<OwnedFd> {
    let family = if address.is_ipv6() {
        AddressFamily::INET6
    } else {
        AddressFamily::INET
    };
    Ok(rustix::net::socket_with(
        family,
        SocketType::STREAM,
        flags,
        None,
    )?)
}

const fn milliseconds(millis: i64) -> Timespec {
    Timespec {
        tv_sec: millis / 1000,
        tv_nsec: millis % 1000 * 1_000_000,
    }
}
