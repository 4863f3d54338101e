//! A run as data: what is asked of both ends, before any device or peer is known.

mod args;
mod impair;
mod options;
mod resolve;

use core::net::IpAddr;
use core::time::Duration;
use std::path::PathBuf;

use roce_engine::verbs::{Mtu, Service};

pub use args::DEFAULT_ROW_EVERY_S;
pub use impair::ImpairSpec;
pub use options::{Form, Pace, QpOptions, RateLimit, RateUnit, Shown, XdpOptions};

/// The TCP port of perftest's exchange.
pub const DEFAULT_PORT: u16 = 18_515;
/// The size of the largest message of `-a`.
pub const LARGEST_OF_ALL: u64 = 1 << 23;
/// Above this iteration count the bandwidth peak is not measured: its cost is quadratic.
pub const PEAK_LIMIT: u64 = 20_000;

/// What a test moves.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Op {
    /// RDMA WRITE.
    Write,
    /// RDMA READ.
    Read,
    /// SEND into posted receives.
    Send,
    /// FETCH_AND_ADD or CMP_AND_SWAP.
    Atomic,
}

/// What a test measures.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Metric {
    /// A window of requests: bytes and messages per second.
    Bandwidth,
    /// One request at a time: microseconds.
    Latency,
}

/// One of the eight tests.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Test {
    /// What it moves.
    pub op: Op,
    /// What it measures.
    pub metric: Metric,
}

impl Test {
    /// The eight tests, in the order of the help.
    pub const ALL: [Self; 8] = [
        Self::new(Op::Write, Metric::Bandwidth),
        Self::new(Op::Write, Metric::Latency),
        Self::new(Op::Read, Metric::Bandwidth),
        Self::new(Op::Read, Metric::Latency),
        Self::new(Op::Send, Metric::Bandwidth),
        Self::new(Op::Send, Metric::Latency),
        Self::new(Op::Atomic, Metric::Bandwidth),
        Self::new(Op::Atomic, Metric::Latency),
    ];

    /// Makes a test of its two halves.
    pub const fn new(op: Op, metric: Metric) -> Self {
        Self { op, metric }
    }

    /// Returns the name of the subcommand, as in `write-bw`.
    pub const fn name(self) -> &'static str {
        match (self.op, self.metric) {
            (Op::Write, Metric::Bandwidth) => "write-bw",
            (Op::Write, Metric::Latency) => "write-lat",
            (Op::Read, Metric::Bandwidth) => "read-bw",
            (Op::Read, Metric::Latency) => "read-lat",
            (Op::Send, Metric::Bandwidth) => "send-bw",
            (Op::Send, Metric::Latency) => "send-lat",
            (Op::Atomic, Metric::Bandwidth) => "atomic-bw",
            (Op::Atomic, Metric::Latency) => "atomic-lat",
        }
    }

    /// Returns the test of a subcommand's name or of perftest's program name (`ib_write_bw`).
    pub fn from_name(name: &str) -> Option<Self> {
        let plain = name
            .strip_prefix("ib_")
            .map_or_else(|| name.to_owned(), |rest| rest.replace('_', "-"));
        Self::ALL.into_iter().find(|test| test.name() == plain)
    }

    /// Returns perftest's name of the test, as in `ib_write_bw`.
    pub fn perftest_name(self) -> String {
        format!("ib_{}", self.name().replace('-', "_"))
    }

    /// Returns whether this is a bandwidth test.
    pub const fn is_bandwidth(self) -> bool {
        matches!(self.metric, Metric::Bandwidth)
    }

    /// Returns whether the initiator reads from its peer: READ and atomics.
    pub const fn is_fetch(self) -> bool {
        matches!(self.op, Op::Read | Op::Atomic)
    }

    /// Returns perftest's default iteration count.
    pub const fn default_iters(self) -> u64 {
        match (self.op, self.metric) {
            (Op::Write, Metric::Bandwidth) => 5000,
            _ => 1000,
        }
    }

    /// Returns perftest's default message size.
    pub const fn default_size(self) -> u64 {
        match (self.op, self.metric) {
            (Op::Atomic, _) => 8,
            (_, Metric::Bandwidth) => 65_536,
            (_, Metric::Latency) => 2,
        }
    }
}

/// Which atomic an atomic test runs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum AtomicKind {
    /// FETCH_AND_ADD of 1.
    #[default]
    FetchAdd,
    /// CMP_AND_SWAP, comparing 0 and swapping 0.
    CompareSwap,
}

impl AtomicKind {
    /// Returns perftest's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FetchAdd => "FETCH_AND_ADD",
            Self::CompareSwap => "CMP_AND_SWAP",
        }
    }
}

/// Which end of the exchange this process is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Role {
    /// Listens for one client.
    Server,
    /// Connects to a server.
    Client {
        /// Its name or address. In the lab a loopback address.
        host: String,
    },
}

/// A run that ends by the clock (`-D`, `-f`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Span {
    /// The whole run, margins included.
    pub total: Duration,
    /// Warm-up before the sample and cool-down behind it.
    pub margin: Duration,
}

impl Span {
    /// Returns how long is measured. Zero if the margins leave nothing.
    pub fn sample(self) -> Duration {
        self.total.saturating_sub(self.margin * 2)
    }
}

/// Where frames are recorded (`--pcap`).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PcapSpec {
    /// The pcapng file.
    pub path: PathBuf,
    /// Bytes kept of each packet, if not all.
    pub snaplen: Option<u32>,
    /// The file's size limit in bytes, if there is one.
    pub limit: Option<u64>,
}

/// What is traced on stderr (`--trace`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Trace {
    /// Each message of the TCP exchange.
    pub exchange: bool,
    /// Each packet.
    pub packets: bool,
}

/// A run as data. Numbers are resolved: defaults and perftest's clamps are in them already.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Which of the eight tests.
    pub test: Test,
    /// The atomic of an atomic test (`-A`).
    pub atomic: AtomicKind,
    /// The transport service.
    pub service: Service,
    /// Server or client.
    pub role: Role,
    /// The text of `-d`.
    pub device: Option<String>,
    /// How an AF_XDP device is opened.
    pub xdp: XdpOptions,
    /// The port of the device (`-i`), always 1.
    pub ib_port: u8,
    /// The row of the GID table (`-x`).
    pub gid_index: Option<u8>,
    /// The path MTU asked for (`-m`).
    pub mtu: Option<Mtu>,
    /// Bytes of a message; the largest with `-a` (`-s`).
    pub size: u64,
    /// The size was asked for: a path that is too narrow for its datagrams is an error.
    pub size_given: bool,
    /// Runs all sizes from 2 to 8 MiB (`-a`).
    pub all_sizes: bool,
    /// Messages per QP, or exchanges; 0 in duration mode (`-n`).
    pub iters: u64,
    /// Both ends send (`-b`).
    pub bidirectional: bool,
    /// Queue pairs (`-q`).
    pub qps: u32,
    /// Ends by the clock instead of by count (`-D`, `-f`).
    pub duration: Option<Span>,
    /// Outstanding requests per QP (`-t`).
    pub tx_depth: u32,
    /// Posted receives per QP (`-r`).
    pub rx_depth: u32,
    /// Every how many requests one is signaled (`-Q`).
    pub cq_mod: u32,
    /// Requests per doorbell (`-l`).
    pub post_list: u32,
    /// Outstanding reads and atomics (`-o`); the device's maximum if absent.
    pub outs: Option<u8>,
    /// How QPs are made.
    pub qp: QpOptions,
    /// How messages follow each other.
    pub pace: Pace,
    /// What the table shows.
    pub shown: Shown,
    /// The TCP port of the exchange (`-p`); 0 lets a server take any.
    pub port: u16,
    /// The coded ack timeout (`-u`).
    pub qp_timeout: u8,
    /// Gb/s instead of MiB/s (`--report_gbits`).
    pub report_gbits: bool,
    /// Lists the samples (`-H`).
    pub histogram: bool,
    /// Lists the samples in time order (`-U`).
    pub unsorted: bool,
    /// The traffic class byte (`--tclass`).
    pub tclass: u8,
    /// Takes an IPv6 GID (`--ipv6`).
    pub ipv6: bool,
    /// IPv6 for the TCP exchange (`--ipv6-addr`).
    pub ipv6_addr: bool,
    /// The local address of the TCP exchange (`--bind_source_ip`).
    pub bind_source_ip: Option<IpAddr>,
    /// Where perftest's JSON goes (`--out_json`, `--out_json_file`).
    pub out_json: Option<PathBuf>,
    /// No warnings about the CPU frequency (`-F`).
    pub cpu_freq: bool,
    /// Both ends run on this machine (`--lab`).
    pub lab: bool,
    /// Checks what arrives (`--verify`).
    pub verify: bool,
    /// Where the result goes in our own schema (`--json`).
    pub json: Option<PathBuf>,
    /// Records frames (`--pcap`).
    pub pcap: Option<PcapSpec>,
    /// Faults between engine and wire (`--impair`).
    pub impair: Option<ImpairSpec>,
    /// What is traced (`--trace`).
    pub trace: Trace,
    /// The bound of each wait for the peer before the test (`--connect-timeout`).
    pub connect_timeout: Duration,
    /// The bound of a server's wait for its client, if one was asked for.
    pub accept_timeout: Option<Duration>,
}

impl Spec {
    /// Returns perftest's defaults for a server's run of `test`.
    pub fn new(test: Test) -> Self {
        let mut spec = Self {
            test,
            atomic: AtomicKind::default(),
            service: Service::Rc,
            role: Role::Server,
            device: None,
            xdp: XdpOptions::default(),
            ib_port: 1,
            gid_index: None,
            mtu: None,
            size: test.default_size(),
            size_given: false,
            all_sizes: false,
            iters: test.default_iters(),
            bidirectional: false,
            qps: 1,
            duration: None,
            tx_depth: 0,
            rx_depth: 0,
            cq_mod: 0,
            post_list: 1,
            outs: None,
            qp: QpOptions::default(),
            pace: Pace::default(),
            shown: Shown::default(),
            port: DEFAULT_PORT,
            qp_timeout: 14,
            report_gbits: false,
            histogram: false,
            unsorted: false,
            tclass: 0,
            ipv6: false,
            ipv6_addr: false,
            bind_source_ip: None,
            out_json: None,
            cpu_freq: false,
            lab: false,
            verify: false,
            json: None,
            pcap: None,
            impair: None,
            trace: Trace::default(),
            connect_timeout: Duration::from_secs(10),
            accept_timeout: None,
        };
        spec.resolve_depths(None, None, None);
        spec
    }

    /// Returns the server's half of a lab run: the same test, without the files that the client writes.
    ///
    /// The port is the client's; the caller sets another, or 0 for any.
    #[must_use]
    pub fn server_half(&self) -> Self {
        let loopback = match &self.role {
            Role::Client { host } => host.parse().ok(),
            Role::Server => None,
        };
        Self {
            role: Role::Server,
            lab: false,
            out_json: None,
            json: None,
            pcap: None,
            shown: Shown {
                no_peak: self.shown.no_peak,
                ..Shown::default()
            },
            bind_source_ip: self.bind_source_ip.or(loopback),
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests;
