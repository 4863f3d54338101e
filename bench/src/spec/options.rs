//! What perftest's less common options ask for, in groups that belong together.

use backend_afxdp::Mode;

/// How a QP is made, beyond its depths.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct QpOptions {
    /// Messages of up to this many bytes are copied when they are posted (`-I`); by the device if not given.
    pub inline_size: Option<u32>,
    /// What the device has copied of this test's messages unless `-I` says otherwise: known once it is open.
    pub inline_default: u32,
    /// Requests go through `ibv_post_send` even where the device has `ibv_wr_*` (`--use_old_post_send`).
    pub old_post_send: bool,
    /// Memory is not opened to relaxed ordering (`--disable_pcie_relaxed`).
    pub strict_ordering: bool,
    /// The service level (`-S`).
    pub service_level: u8,
    /// The row of the partition table (`--pkey_index`).
    pub pkey_index: u16,
    /// How often a lost packet is sent again, and a receiver that is not ready is tried again, where 7 means
    /// without end (`--retry_count`).
    pub retry_count: u8,
    /// Flow labels: QP n has the n-th, counted in turns; 0 without any (`--flow_label`).
    pub flow_labels: Vec<u32>,
    /// All QPs take receives from one queue (`--use-srq`).
    pub use_srq: bool,
    /// Completions are waited for as events instead of being polled for (`-e`).
    pub events: bool,
    /// Each QP has a memory region of its own (`--mr_per_qp`).
    pub mr_per_qp: bool,
    /// Buffers are huge pages (`--use_hugepages`).
    pub hugepages: bool,
}

impl Default for QpOptions {
    fn default() -> Self {
        Self {
            inline_size: None,
            inline_default: 0,
            old_post_send: false,
            strict_ordering: false,
            service_level: 0,
            pkey_index: 0,
            retry_count: 7,
            flow_labels: Vec::new(),
            use_srq: false,
            events: false,
            mr_per_qp: false,
            hugepages: false,
        }
    }
}

impl QpOptions {
    /// Returns up to how many bytes messages are copied when they are posted.
    pub fn inline(&self) -> u32 {
        self.inline_size.unwrap_or(self.inline_default)
    }

    /// Returns the flow label of the QP with this index.
    pub fn flow_label(&self, qp: usize) -> u32 {
        let turns = self.flow_labels.len().max(1);
        self.flow_labels.get(qp % turns).copied().unwrap_or(0)
    }
}

/// How messages follow each other, beyond their number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    /// Carries an immediate: RDMA WRITE with immediate, SEND with immediate (`--write_with_imm`, `--send_with_imm`).
    pub with_imm: bool,
    /// The server sends to the client; who speaks first on TCP stays (`--reversed`).
    pub reversed: bool,
    /// A transmit depth of requests per QP goes ahead of the measurement (`--perform_warm_up`).
    pub warm_up: bool,
    /// Microseconds between two posts of a latency test (`--latency_gap`).
    pub latency_gap_us: u32,
    /// Runs until it is stopped, with a row every so many seconds (`--run_infinitely`, `-D`).
    pub row_every_s: Option<u32>,
    /// What a sender keeps to (`--rate_limit`).
    pub rate: Option<RateLimit>,
}

/// The rate that the software of a sender keeps to, all QPs together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// How much, in `unit`; more than 0.
    pub rate: f64,
    /// Of what.
    pub unit: RateUnit,
    /// Messages that are posted at once before the pause (`--burst_size`).
    pub burst: u32,
}

impl RateLimit {
    /// Returns the nanoseconds from the start of one burst to that of the next, for messages of `size` bytes.
    pub fn nanos_per_burst(&self, size: u64) -> u64 {
        let messages_per_second = match self.unit {
            RateUnit::Mebibytes => self.rate * 1_048_576.0 / size as f64,
            RateUnit::Gigabits => self.rate * 1e9 / 8.0 / size as f64,
            RateUnit::Messages => self.rate,
        };
        let nanos = f64::from(self.burst) * 1e9 / messages_per_second;
        // A cast saturates: a rate too small to be kept waits for ever.
        nanos as u64
    }
}

/// The unit of a rate limit (`--rate_units`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum RateUnit {
    /// 2^20 bytes per second: `M`.
    Mebibytes,
    /// 10^9 bits per second: `g`.
    #[default]
    Gigabits,
    /// Messages per second: `p`.
    Messages,
}

impl RateUnit {
    /// All units.
    pub const ALL: [Self; 3] = [Self::Mebibytes, Self::Gigabits, Self::Messages];

    /// Returns perftest's letter.
    pub const fn letter(self) -> char {
        match self {
            Self::Mebibytes => 'M',
            Self::Gigabits => 'g',
            Self::Messages => 'p',
        }
    }
}

/// What the table shows and what it must reach.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shown {
    /// The table, or one figure (`--output`).
    pub form: Form,
    /// The peak is not measured (`-N`).
    pub no_peak: bool,
    /// Latencies are in cycles of the time stamp counter (`-C`).
    pub cycles: bool,
    /// A bidirectional run shows each direction, too (`--report-both`).
    pub both: bool,
    /// A run by the clock shows how busy the machine was (`--cpu_util`).
    pub cpu_util: bool,
    /// The least average bandwidth, in the unit of the table (`-w`).
    pub least_bandwidth: Option<f64>,
    /// The least message rate, in millions per second (`-y`).
    pub least_rate: Option<f64>,
}

/// How much of a result is printed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Form {
    /// Banner, table and what is below it.
    #[default]
    Full,
    /// The average bandwidth alone.
    Bandwidth,
    /// The message rate alone.
    MessageRate,
    /// The average latency alone.
    Latency,
}

impl Form {
    /// The forms that a user can ask for.
    pub const ALL: [Self; 3] = [Self::Bandwidth, Self::MessageRate, Self::Latency];

    /// Returns perftest's name; nothing for the table.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::Full => None,
            Self::Bandwidth => Some("bandwidth"),
            Self::MessageRate => Some("message_rate"),
            Self::Latency => Some("latency"),
        }
    }
}

/// How an AF_XDP device is opened.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct XdpOptions {
    /// Where the XDP program runs (`--xdp-mode`).
    pub mode: Option<Mode>,
    /// Polls the interface from this process (`--busy-poll`).
    pub busy_poll: bool,
    /// Displaces a program that is in place (`--replace-xdp`).
    pub replace: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_keep_their_rate() {
        let gap = |rate, unit, burst, size| RateLimit { rate, unit, burst }.nanos_per_burst(size);
        // 128 messages of 64 KiB are 67,108,864 bits: 1 Gb/s needs that many nanoseconds.
        assert_eq!(gap(1.0, RateUnit::Gigabits, 128, 65_536), 67_108_864);
        assert_eq!(gap(1.0, RateUnit::Mebibytes, 1, 1 << 20), 1_000_000_000);
        assert_eq!(gap(1e6, RateUnit::Messages, 10, 2), 10_000);
        assert_eq!(gap(1e-300, RateUnit::Messages, 10, 2), u64::MAX);
    }

    #[test]
    fn flow_labels_go_round() {
        let mut options = QpOptions::default();
        assert_eq!(options.flow_label(5), 0);
        options.flow_labels = vec![7, 8];
        assert_eq!([0, 1, 2].map(|qp| options.flow_label(qp)), [7, 8, 7]);
    }
}
