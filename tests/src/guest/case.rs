//! One interoperability case as data: what runs, between whom, over which path.

use std::fmt;

use super::choice::Choice;
use super::net;

/// The eight tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Test {
    WriteBw,
    WriteLat,
    ReadBw,
    ReadLat,
    SendBw,
    SendLat,
    AtomicBw,
    AtomicLat,
}

impl Test {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::WriteBw,
        Self::WriteLat,
        Self::ReadBw,
        Self::ReadLat,
        Self::SendBw,
        Self::SendLat,
        Self::AtomicBw,
        Self::AtomicLat,
    ];

    /// The word that `roce` takes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::WriteBw => "write-bw",
            Self::WriteLat => "write-lat",
            Self::ReadBw => "read-bw",
            Self::ReadLat => "read-lat",
            Self::SendBw => "send-bw",
            Self::SendLat => "send-lat",
            Self::AtomicBw => "atomic-bw",
            Self::AtomicLat => "atomic-lat",
        }
    }

    /// Whether it measures bandwidth, and so takes the options of bandwidth tests.
    #[must_use]
    pub fn is_bandwidth(self) -> bool {
        self.name().ends_with("-bw")
    }

    /// Whether its message size is a choice.
    #[must_use]
    pub fn has_sizes(self) -> bool {
        !matches!(self, Self::AtomicBw | Self::AtomicLat)
    }

    /// The program of perftest.
    #[must_use]
    pub fn stock_name(self) -> String {
        format!("ib_{}", self.name().replace('-', "_"))
    }

    /// Whether the side without a server name prints a result row too.
    #[must_use]
    pub fn server_prints(self) -> bool {
        !matches!(self, Self::ReadLat | Self::AtomicLat)
    }
}

/// Which side of the TCP exchange is ours; stock perftest is the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// `roce` connects to a stock server in the guest.
    Client,
    /// `roce` waits for a stock client in the guest.
    Server,
}

impl Role {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Client, Self::Server];
}

/// A Debian suite that the guest is made of: its kernel, its rdma-core, its perftest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Peer {
    /// Linux 6.1, rdma-core 44, perftest 4.5 (6.06).
    Bookworm,
    /// Linux 6.12, rdma-core 56, perftest 25.01 (6.24).
    Trixie,
    /// Whatever is newest: no run takes it unless it is told to.
    Sid,
}

impl Peer {
    /// Those that every change has to pass.
    pub const ALL: [Self; 2] = [Self::Bookworm, Self::Trixie];

    /// Those that a run can be told to take, too.
    pub const KNOWN: [Self; 3] = [Self::Bookworm, Self::Trixie, Self::Sid];

    /// The one made of a suite.
    #[must_use]
    pub fn of_suite(name: &str) -> Option<Self> {
        Self::KNOWN.into_iter().find(|peer| peer.suite() == name)
    }

    /// The suite's name in the archive.
    #[must_use]
    pub fn suite(self) -> &'static str {
        match self {
            Self::Bookworm => "bookworm",
            Self::Trixie => "trixie",
            Self::Sid => "sid",
        }
    }

    /// The kernel's series, by which cases and tables name the peer.
    #[must_use]
    pub fn kernel(self) -> &'static str {
        match self {
            Self::Bookworm => "6.1",
            Self::Trixie => "6.12",
            Self::Sid => "sid",
        }
    }

    /// Whether its perftest can make the TCP exchange over IPv6 (23.07 and later).
    #[must_use]
    pub fn exchanges_over_ipv6(self) -> bool {
        self != Self::Bookworm
    }

    /// Whether it ends in the usual way when its client is interrupted in `--run_infinitely` (25.01 and later).
    #[must_use]
    pub fn ends_on_interrupt(self) -> bool {
        self != Self::Bookworm
    }
}

/// The address family of the GIDs and, where the peer can, of the TCP exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// GIDs made of IPv4 addresses.
    V4,
    /// IPv6 GIDs.
    V6,
}

impl Family {
    /// Both.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];
}

/// The path of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Path {
    /// What the guest is made of.
    pub peer: Peer,
    /// MTU of both interfaces.
    pub mtu: u32,
    /// IPv4 or IPv6.
    pub family: Family,
}

/// The interface MTUs of the matrix: path MTU 1024, and path MTU 4096.
pub const MTUS: [u32; 2] = [1500, 4200];

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = match self.family {
            Family::V4 => "v4",
            Family::V6 => "v6",
        };
        write!(f, "{} mtu{} {family}", self.peer.kernel(), self.mtu)
    }
}

/// A run of one test between `roce` and a stock perftest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// What runs.
    pub test: Test,
    /// Who we are.
    pub role: Role,
    /// Our link: what stands before the interface in `-d`. With `-verbs` behind it, as `udp-verbs`, the other end is
    /// no stock perftest but `roce` on the guest's soft-RoCE device.
    pub link: String,
    /// Between whom, over what.
    pub path: Path,
    /// The options under test.
    pub choice: Choice,
}

impl Case {
    /// The value after a flag among the options.
    #[must_use]
    pub fn value(&self, flag: &str) -> Option<u64> {
        self.choice.value(flag)
    }

    /// Whether a flag is among the options.
    #[must_use]
    pub fn has(&self, flag: &str) -> bool {
        self.choice.has(flag)
    }

    /// The path MTU that both ends have to agree on.
    #[must_use]
    pub fn path_mtu(&self) -> u64 {
        self.value("-m")
            .unwrap_or(if self.path.mtu >= 4176 { 4096 } else { 1024 })
    }

    /// The message size of every row, unless it is a sweep.
    #[must_use]
    pub fn size(&self) -> u64 {
        let default = match (self.test.has_sizes(), self.test.is_bandwidth()) {
            (false, _) => 8,
            (true, true) if self.has("UD") => self.path_mtu(),
            (true, true) => 65536,
            (true, false) => 2,
        };
        self.value("-s").unwrap_or(default)
    }

    /// How many sizes the test runs.
    #[must_use]
    pub fn sizes(&self) -> u64 {
        match (self.has("-a"), self.has("UD")) {
            (false, _) => 1,
            (true, false) => 23,
            (true, true) => u64::from(self.path_mtu().ilog2()),
        }
    }

    /// The iterations that a row has to report, where the options fix them.
    #[must_use]
    pub fn expected_iterations(&self) -> Option<u64> {
        Some(self.value("-n")? * self.value("-q").unwrap_or(1))
    }

    /// Whether both ends run in the guest, ours on its soft-RoCE device.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        self.link == "verbs"
    }

    /// Our link without what is behind it.
    #[must_use]
    pub fn own_link(&self) -> &str {
        self.link.split('-').next().unwrap_or_default()
    }

    /// Whether the other end is ours, too: on the device in the guest.
    #[must_use]
    pub fn meets_ours(&self) -> bool {
        self.link.ends_with("-verbs")
    }

    /// Whether our command has to be in the guest.
    #[must_use]
    pub fn needs_roce_inside(&self) -> bool {
        self.is_inside() || self.meets_ours()
    }

    /// What the other end is called.
    #[must_use]
    pub fn their_name(&self) -> &'static str {
        match self.meets_ours() {
            true => "roce on the guest's device",
            false => "stock perftest",
        }
    }

    /// The address at which the client finds the server.
    fn host(&self, words: &[String]) -> String {
        let over_v6 = words.iter().any(|word| word == "--ipv6-addr");
        let [v4, v6] = match (self.is_inside(), self.role) {
            (true, _) => ["127.0.0.1", "::1"],
            (false, Role::Client) => [net::GUEST_V4, net::GUEST_V6],
            (false, Role::Server) => [net::OUR_V4, net::OUR_V6],
        };
        if over_v6 { v6 } else { v4 }.to_owned()
    }

    /// Our arguments, for the device on the tap and a TCP port.
    #[must_use]
    pub fn our_arguments(&self, port: u16) -> Vec<String> {
        let mut words = vec![
            self.test.name().to_owned(),
            "-d".into(),
            match self.is_inside() {
                true => "verbs:rxe0".to_owned(),
                false => format!("{}:{}", self.own_link(), net::TAP),
            },
        ];
        words.extend(self.common_words(port));
        words.extend(self.choice.ours.iter().cloned());
        if !self.choice.is_faulty() {
            // An emulated peer stands still for longer than seven of the default timeouts when the machine is busy.
            words.extend(["-u", "16"].map(str::to_owned));
        }
        if self.role == Role::Client {
            words.push(self.host(&words));
        }
        words
    }

    /// The command line of the other end, in the guest: the stock program, or ours on the device there.
    #[must_use]
    pub fn their_command(&self, port: u16) -> String {
        let start = match self.meets_ours() {
            true => format!("roce {} -d verbs:rxe0", self.test.name()),
            false => format!("{} -d rxe0 -F", self.test.stock_name()),
        };
        let mut words = vec![start];
        words.extend(self.common_words(port));
        words.extend(self.choice.theirs.iter().cloned());
        if self.role == Role::Server {
            words.push(self.host(&words));
        }
        words.join(" ")
    }

    fn common_words(&self, port: u16) -> Vec<String> {
        let mut words = vec!["-p".to_owned(), port.to_string()];
        words.extend(self.choice.words.iter().cloned());
        if self.path.family == Family::V6 {
            if !self.has("-x") {
                // Row 2 of both GID tables is the IPv6 address that is no link-local one.
                words.extend(["-x".to_owned(), "2".to_owned()]);
            }
            if self.path.peer.exchanges_over_ipv6() {
                words.push("--ipv6-addr".to_owned());
            }
        }
        words
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = match (self.role, self.meets_ours()) {
            (Role::Client, false) => "to-stock",
            (Role::Server, false) => "from-stock",
            (Role::Client, true) => "to-roce",
            (Role::Server, true) => "from-roce",
        };
        let (test, link, path, choice) = (self.test.name(), &self.link, self.path, &self.choice);
        write!(f, "{test} {role} {link} {path} {choice}")
    }
}
