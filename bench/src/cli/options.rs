//! The options of the eight tests as clap reads them.

mod pace;
mod qp;
mod shown;

use core::net::IpAddr;
use core::time::Duration;
use std::path::PathBuf;

use backend_afxdp::Mode;
use clap::Args;
use roce_engine::verbs::Mtu;

pub(super) use pace::{PaceArgs, RateLimiter};
pub(super) use qp::QpArgs;
pub(super) use shown::ShownArgs;

use super::values;
use crate::spec::{AtomicKind, ImpairSpec, Trace};

/// Options of the eight tests. Repeated options are an error.
#[derive(Args, Debug)]
#[command(disable_version_flag = true, next_help_heading = "Test")]
pub(super) struct TestOptions {
    /// Server's name or address; without it, this end is the server
    pub(super) server: Option<String>,

    /// Bytes of a message, K and M suffixes allowed
    #[arg(short = 's', long, value_name = "BYTES", value_parser = values::size)]
    pub(super) size: Option<u64>,
    /// Run sizes from 2 to 2^23
    #[arg(short = 'a', long)]
    pub(super) all: bool,
    /// Number of messages, at least 5
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(5..=1 << 32))]
    pub(super) iters: Option<u64>,
    /// Run for this many seconds instead of a number of messages
    #[arg(short = 'D', long, value_name = "S", value_parser = values::span)]
    pub(super) duration: Option<Duration>,
    /// Seconds left out at start and end of -D [default: a quarter of it, rounded down]
    #[arg(short = 'f', long, value_name = "S", value_parser = values::seconds, requires = "duration")]
    pub(super) margin: Option<Duration>,
    /// Both ends send
    #[arg(short = 'b', long)]
    pub(super) bidirectional: bool,
    /// Queue pairs
    #[arg(short = 'q', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub(super) qp: Option<u32>,
    /// Outstanding requests per QP [default: 128]
    #[arg(short = 't', long = "tx-depth", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=15_000))]
    pub(super) tx_depth: Option<u32>,
    /// Posted receives per QP [default: 512]
    #[arg(short = 'r', long = "rx-depth", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub(super) rx_depth: Option<u32>,
    /// Every how many requests one completes [default: 100, above 8 KiB 1]
    #[arg(short = 'Q', long = "cq-mod", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) cq_mod: Option<u32>,
    /// Requests per doorbell
    #[arg(short = 'l', long = "post_list", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=15_000))]
    pub(super) post_list: Option<u32>,
    /// Outstanding reads or atomics [default: what the device can]
    #[arg(short = 'o', long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub(super) outs: Option<u8>,
    /// Which atomic: FETCH_AND_ADD or CMP_AND_SWAP
    #[arg(short = 'A', long = "atomic_type", value_name = "KIND", value_parser = values::atomic)]
    pub(super) atomic_type: Option<AtomicKind>,

    #[command(flatten)]
    pub(super) qps: QpArgs,
    #[command(flatten)]
    pub(super) pace: PaceArgs,

    /// Device: udp, udp:INTERFACE, afxdp:INTERFACE or afxdp:INTERFACE:QUEUE
    #[arg(
        short = 'd',
        long = "ib-dev",
        value_name = "SPEC",
        help_heading = "Path"
    )]
    pub(super) device: Option<String>,
    /// Where AF_XDP takes packets: driver or generic [default: driver, on virtual interfaces generic]
    #[arg(long = "xdp-mode", value_name = "MODE", help_heading = "Path", value_parser = values::xdp_mode)]
    pub(super) xdp_mode: Option<Mode>,
    /// AF_XDP: poll the interface instead of waiting for its interrupts
    #[arg(long = "busy-poll", help_heading = "Path")]
    pub(super) busy_poll: bool,
    /// AF_XDP: displace an XDP program that is in place
    #[arg(long = "replace-xdp", help_heading = "Path")]
    pub(super) replace_xdp: bool,
    /// Port of the device: 1
    #[arg(short = 'i', long = "ib-port", value_name = "N", help_heading = "Path", value_parser = clap::value_parser!(u8).range(1..=1))]
    pub(super) ib_port: Option<u8>,
    /// Row of the GID table [default: of the address family in use]
    #[arg(short = 'x', long = "gid-index", value_name = "N", help_heading = "Path", value_parser = clap::value_parser!(u8).range(0..=64))]
    pub(super) gid_index: Option<u8>,
    /// Path MTU: 256, 512, 1024, 2048 or 4096 [default: the largest that fits]
    #[arg(short = 'm', long, value_name = "BYTES", help_heading = "Path", value_parser = values::mtu)]
    pub(super) mtu: Option<Mtu>,
    /// TCP port of the exchange; 0 lets a server take any
    #[arg(short = 'p', long, value_name = "PORT", help_heading = "Path", default_value_t = crate::spec::DEFAULT_PORT)]
    pub(super) port: u16,
    /// Ack timeout of 4.096 us x 2^N
    #[arg(short = 'u', long = "qp-timeout", value_name = "N", help_heading = "Path", default_value_t = 14, value_parser = clap::value_parser!(u8).range(0..=31))]
    pub(super) qp_timeout: u8,
    /// Traffic class byte: DSCP and ECN
    #[arg(long, value_name = "BYTE", help_heading = "Path", default_value_t = 0)]
    pub(super) tclass: u8,
    /// Use an IPv6 GID
    #[arg(long, help_heading = "Path")]
    pub(super) ipv6: bool,
    /// Use IPv6 for the TCP exchange
    #[arg(long = "ipv6-addr", help_heading = "Path")]
    pub(super) ipv6_addr: bool,
    /// Local address of the TCP exchange
    #[arg(long = "bind_source_ip", value_name = "IP", help_heading = "Path")]
    pub(super) bind_source_ip: Option<IpAddr>,
    /// Bound on each wait for the peer before the test, in seconds [default: 10, and none for a server's client to come]
    #[arg(long = "connect-timeout", value_name = "S", help_heading = "Path", value_parser = values::span)]
    pub(super) connect_timeout: Option<Duration>,

    #[command(flatten)]
    pub(super) shown: ShownArgs,

    /// Both ends on this machine: starts the server, too
    #[arg(long, help_heading = "Examine", conflicts_with = "server")]
    pub(super) lab: bool,
    /// Check what arrives
    #[arg(long, help_heading = "Examine")]
    pub(super) verify: bool,
    /// Record this end's frames as pcapng
    #[arg(long, value_name = "FILE", help_heading = "Examine", value_parser = values::file)]
    pub(super) pcap: Option<PathBuf>,
    /// Bytes kept of each frame
    #[arg(long = "pcap-snaplen", value_name = "BYTES", help_heading = "Examine", requires = "pcap", value_parser = clap::value_parser!(u32).range(64..=65_535))]
    pub(super) pcap_snaplen: Option<u32>,
    /// Size of the file at which recording stops, K, M and G suffixes allowed
    #[arg(long = "pcap-limit", value_name = "BYTES", help_heading = "Examine", requires = "pcap", value_parser = values::bytes)]
    pub(super) pcap_limit: Option<u64>,
    /// Print to stderr: exchange, packets
    #[arg(long, value_name = "WHAT", help_heading = "Examine", value_parser = values::trace)]
    pub(super) trace: Option<Trace>,
    /// Faults: drop=1%,dup=1%,reorder=1%,corrupt=1%,delay=50us,seed=7
    #[arg(long, value_name = "SPEC", help_heading = "Examine", value_parser = ImpairSpec::parse)]
    pub(super) impair: Option<ImpairSpec>,
}
