//! `--lab`: both ends on this machine. The server is a child process of the same program, which dies with its
//! parent, so that a lab run is the two-process path.

mod hosts;
pub mod named;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use std::collections::VecDeque;
use std::io::Read;
use std::net::TcpListener;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use crate::backend::kernel_owns_the_port;
use crate::exit::{self, environment, usage};
use crate::peer::GONE;
use crate::program::{self, Door, Output};
use crate::report::SEPARATOR;
use crate::spec::{Role, Spec, Trace};
use hosts::Hosts;

/// Tells the child that it is one, and who its parent is.
const PARENT: &str = "ROCE_LAB_PARENT";
/// How long the child may take to end after its client.
const CHILD_BOUND: Duration = Duration::from_secs(5);
/// What is kept of the child's words.
const WORDS_BOUND: usize = 64 << 10;

/// Returns the door of a lab's server, if this process is one; it dies when its parent does from here on.
///
/// # Errors
///
/// The parent is gone already, or what it handed over is no socket.
pub fn inherited_door() -> Result<Option<Door>> {
    let Some(parent) = std::env::var_os(PARENT) else {
        return Ok(None);
    };
    set_parent_process_death_signal(Some(Signal::KILL))
        .context("tie this process to its parent")?;
    let parent = parent.to_str().and_then(|text| text.parse().ok());
    if getppid().map(Pid::as_raw_pid) != parent {
        bail!("the lab's client is gone");
    }
    let socket = std::io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .context("take the lab's socket")?;
    Ok(Some(Door::Inherited(TcpListener::from(socket))))
}

/// Runs both ends: a child serves, this process is its client. Returns what the server said below its table.
///
/// # Errors
///
/// As [`program::one_end`], or the child failed.
pub fn run(spec: &Spec, output: &mut impl Output) -> Result<Vec<String>> {
    let ipv6 = spec.ipv6 || spec.ipv6_addr;
    let hosts = if needs_hosts(spec) {
        Some(make_hosts(spec)?)
    } else {
        None
    };
    let ip = match (&hosts, spec.bind_source_ip) {
        (Some(_), _) => Hosts::server_address(ipv6)?,
        (None, Some(ip)) => ip,
        _ if ipv6 => IpAddr::V6(Ipv6Addr::LOCALHOST),
        _ => IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    if let Some(hosts) = &hosts {
        hosts.enter_server()?;
    }
    let listener = TcpListener::bind((ip, 0))
        .map_err(|error| environment(format!("listen on {ip} for the lab's server: {error}")))?;
    let client = Spec {
        role: Role::Client {
            host: ip.to_string(),
        },
        port: listener.local_addr()?.port(),
        lab: false,
        connect_timeout: spec.connect_timeout + preparing(spec),
        ..spec.clone()
    };
    // The child is on the host of the thread that starts it.
    let server = Server::start(&client, listener)?;
    if let Some(hosts) = &hosts {
        hosts.enter_client()?;
    }
    let ours = program::one_end(&client, Door::Options, output);
    let (status, [words, complaints]) = server.finish(ours.is_ok());
    let Err(error) = ours else {
        return match status {
            Some(status) if status.success() => Ok(below_table(&words)),
            status => Err(failed("the lab's server failed", status, &complaints)),
        };
    };
    // The server has nothing to add to a signal, or to a run that went well and missed a limit.
    if exit::status_of(&error) == exit::INTERRUPTED || status.is_some_and(|status| status.success())
    {
        return Err(error);
    }
    if is_consequence(&format!("{error:#}")) && !is_consequence(last_line(&complaints)) {
        return Err(failed("the lab's server failed first", status, &complaints));
    }
    if !is_consequence(&complaints) {
        show(&complaints);
    }
    Err(error)
}

/// Returns whether each end needs a host of its own: AF_XDP an interface, UDP sockets a port 4791 that the kernel's
/// rxe has not taken. Where that one can't be had, the end that opens its socket says so.
fn needs_hosts(spec: &Spec) -> bool {
    match spec.device.as_deref() {
        None | Some("udp") => kernel_owns_the_port().is_some() && hosts::cannot().is_none(),
        Some(device) => device.split(':').next() == Some("afxdp"),
    }
}

/// How long the two ends may take to write to their memory before they meet, beyond what a small run takes.
fn preparing(spec: &Spec) -> Duration {
    Duration::from_secs(spec.size.saturating_mul(u64::from(spec.qps)) >> 25)
}

/// Returns whether an end failed because the other one did.
fn is_consequence(complaint: &str) -> bool {
    complaint.contains(GONE)
}

fn last_line(complaints: &str) -> &str {
    let last = complaints.trim_end().lines().next_back();
    last.unwrap_or_default()
}

/// Tells the server's own reason and keeps its exit status; what it said before goes ahead.
fn failed(what: &str, status: Option<ExitStatus>, complaints: &str) -> anyhow::Error {
    let reason = last_line(complaints);
    if let Some((before, _)) = complaints.trim_end().rsplit_once('\n') {
        show(before);
    }
    let code = status.and_then(|status| status.code());
    let code = code.and_then(|code| u8::try_from(code).ok());
    match reason.strip_prefix("roce: ") {
        Some(reason) => {
            exit::with_status(code.unwrap_or(exit::FAILED), format!("{what}: {reason}"))
        }
        None => exit::with_status(
            exit::FAILED,
            format!("{what}: {}; it said \"{reason}\"", describe(status)),
        ),
    }
}

/// Returns why this process can't make the lab's hosts, if it can't.
#[must_use]
pub fn cannot_make_hosts() -> Option<String> {
    hosts::cannot()
}

/// Opens a bare AF_XDP socket on each of two new hosts; the calling thread stays on one of them.
///
/// # Errors
///
/// Hosts or sockets can't be made.
pub(crate) fn bare_ends() -> Result<[backend_afxdp::Bare; 2]> {
    let open = || {
        backend_afxdp::Bare::open(&backend_afxdp::Config::new(hosts::INTERFACE))
            .map_err(|error| environment(error.to_string()))
    };
    let hosts = Hosts::new()?;
    let near = open()?;
    hosts.enter_server()?;
    Ok([near, open()?])
}

/// Makes two hosts for a device that needs an interface of its own.
fn make_hosts(spec: &Spec) -> Result<Hosts> {
    match spec.device.as_deref() {
        None | Some("afxdp" | "udp") => Hosts::new(),
        Some(device) => Err(usage(format!(
            "--lab -d {device}: the lab makes its own interfaces: use --lab -d afxdp"
        ))),
    }
}

/// Returns what the server said below its table.
fn below_table(words: &str) -> Vec<String> {
    let below = words.rsplit(SEPARATOR).next().unwrap_or_default();
    below
        .lines()
        .map(|line| line.trim().to_owned())
        .filter(|line| !line.is_empty())
        .collect()
}

fn show(words: &str) {
    for line in words.lines().filter(|line| !line.trim().is_empty()) {
        eprintln!("server: {line}");
    }
}

fn describe(status: Option<ExitStatus>) -> String {
    status.map_or_else(
        || format!("it did not end within {} s", CHILD_BOUND.as_secs()),
        |status| status.to_string(),
    )
}

/// The child, killed when dropped.
struct Server {
    child: Child,
    // Of stdout and stderr.
    readers: [Option<JoinHandle<Vec<u8>>>; 2],
}

impl Server {
    fn start(client: &Spec, listener: TcpListener) -> Result<Self> {
        let server = Spec {
            trace: Trace::default(),
            ..client.server_half()
        };
        let program = std::env::current_exe()
            .map_err(|error| environment(format!("find this program's file: {error}")))?;
        // Under its own name: through a link named ib_write_bw it would be that test twice.
        let mut child = Command::new(program)
            .arg0("roce")
            // A terminal's ^C is for the client, whose end is the server's.
            .process_group(0)
            .args(server.args())
            .env(PARENT, std::process::id().to_string())
            .stdin(Stdio::from(OwnedFd::from(listener)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| environment(format!("start the lab's server: {error}")))?;
        let out = child.stdout.take();
        let err = child.stderr.take();
        let readers = [
            out.map(|out| std::thread::spawn(move || drain(out))),
            err.map(|err| std::thread::spawn(move || drain(err))),
        ];
        Ok(Self { child, readers })
    }

    /// Waits for the child's end, not for ever; returns its status and what it said.
    fn finish(mut self, patiently: bool) -> (Option<ExitStatus>, [String; 2]) {
        let bound = if patiently {
            CHILD_BOUND
        } else {
            Duration::from_secs(2)
        };
        let until = Instant::now() + bound;
        let mut status = None;
        while status.is_none() && Instant::now() < until {
            status = self.child.try_wait().ok().flatten();
            if status.is_none() {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        self.end();
        let words = self.readers.each_mut().map(|reader| {
            let bytes = reader.take().and_then(|reader| reader.join().ok());
            String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
        });
        (status, words)
    }

    fn end(&mut self) {
        // Both fail only if the child has ended.
        let _killed = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Reads to the end and keeps the last part: errors are there, and what is below the table.
fn drain(mut from: impl Read) -> Vec<u8> {
    let mut kept = VecDeque::new();
    let mut block = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut block) {
        kept.extend(&block[..count]);
        let excess = kept.len().saturating_sub(WORDS_BOUND);
        kept.drain(..excess);
    }
    kept.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_a_failed_lab_is_the_servers_own() {
        let error = failed("first", None, "roce: a note\nroce: no memory\n");
        assert_eq!(error.to_string(), "first: no memory");
        let error = failed("first", None, "thread 'main' panicked\n");
        assert!(error.to_string().contains("panicked"), "{error}");
        assert_eq!(last_line(""), "");
        assert!(is_consequence(
            "the peer's process is gone: its TCP connection is closed"
        ));
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        let mut long = vec![b'x'; 3 * WORDS_BOUND];
        long.push(b'y');
        let kept = drain(long.as_slice());
        assert_eq!((kept.len(), kept.last()), (WORDS_BOUND, Some(&b'y')));
        assert_eq!(drain(b"abc".as_slice()), b"abc");
    }
}
