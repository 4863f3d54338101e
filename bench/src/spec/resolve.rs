//! What follows from a run's options: depths, sizes, and which end does what.

use roce_engine::verbs::{LatencyInline, Mtu, Service};

use super::{Metric, Op, PEAK_LIMIT, Role, Spec};

/// Above this message size every request is signaled, unless `-Q` says otherwise.
const CQ_MODERATION_LIMIT: u64 = 8192;
/// perftest's receive depth of connections, whose senders wait for receivers that are not ready.
const RX_DEPTH: u32 = 512;
/// perftest's bound on the receives of services whose senders do not wait.
const RX_DEPTH_UNRELIABLE: u32 = 16_000;

impl Spec {
    /// Sets depths and CQ moderation from what was asked, as perftest's parser does: the transmit depth is
    /// clamped to the iterations, the receive depth too and then made even (not with `-a`), the moderation to the
    /// depths.
    ///
    /// Call it after service, size, iterations, duration, immediate and post list are known.
    pub fn resolve_depths(&mut self, tx: Option<u32>, rx: Option<u32>, cq_mod: Option<u32>) {
        let counted = self.counted().map(saturated);
        let clamp = |depth: u32| depth.min(counted.unwrap_or(u32::MAX));
        let default_tx = if self.test.is_bandwidth() { 128 } else { 1 };
        self.tx_depth = clamp(tx.unwrap_or(default_tx)).max(1);
        self.rx_depth = 1;
        if self.posts_receives() {
            let waits = self.service == Service::Rc || !self.test.is_bandwidth();
            let default_rx = match counted {
                Some(iters) if !waits => iters.min(RX_DEPTH_UNRELIABLE),
                _ => RX_DEPTH,
            };
            let depth = clamp(rx.unwrap_or(default_rx));
            let even = counted.is_some() && !self.all_sizes;
            self.rx_depth = depth + if even { depth % 2 } else { 0 };
        }
        let always = self.service == Service::Ud || self.all_sizes || self.qp.events;
        let default_mod = if self.post_list > 1 {
            self.post_list
        } else if self.size > CQ_MODERATION_LIMIT && !always {
            1
        } else {
            100
        };
        self.cq_mod = cq_mod.unwrap_or(default_mod).min(self.tx_depth).max(1);
        if self.posts_receives() {
            self.cq_mod = self.cq_mod.min(self.rx_depth);
        }
    }

    /// Returns the number of messages per QP, unless the clock or the user ends the run.
    pub const fn counted(&self) -> Option<u64> {
        if self.duration.is_none() && self.pace.row_every_s.is_none() {
            Some(self.iters)
        } else {
            None
        }
    }

    /// Returns whether messages use up receives: SENDs, and WRITEs with an immediate.
    pub const fn posts_receives(&self) -> bool {
        match self.test.op {
            Op::Send => true,
            Op::Write => self.pace.with_imm,
            Op::Read | Op::Atomic => false,
        }
    }

    /// Returns perftest's name of the transport service.
    pub const fn service_name(&self) -> &'static str {
        match self.service {
            Service::Rc => "RC",
            Service::Uc => "UC",
            Service::Ud => "UD",
        }
    }

    /// Returns whether this end is a client.
    pub const fn is_client(&self) -> bool {
        matches!(self.role, Role::Client { .. })
    }

    /// Returns whether this is the end from which a one-way run's messages go: the client, or with `--reversed` the
    /// server. Who speaks first on TCP is another matter, see [`is_client`](Self::is_client).
    pub const fn is_active(&self) -> bool {
        self.is_client() != self.pace.reversed
    }

    /// Returns up to how many bytes perftest has messages of this test copied on a device with these defaults: in
    /// latency tests only.
    pub const fn usual_inline(&self, by: LatencyInline) -> u32 {
        match (self.test.metric, self.test.op) {
            (Metric::Bandwidth, _) | (_, Op::Read | Op::Atomic) => 0,
            (Metric::Latency, Op::Write) => by.write,
            (Metric::Latency, Op::Send) => match self.service {
                Service::Ud => by.datagram,
                Service::Rc | Service::Uc => by.send,
            },
        }
    }

    /// Returns whether memory may be written in any order by a device: not where the last byte of a WRITE is waited
    /// for.
    pub const fn relaxes_ordering(&self) -> bool {
        let waits_for_a_byte =
            matches!(self.test.metric, Metric::Latency) && matches!(self.test.op, Op::Write);
        !self.qp.strict_ordering && !waits_for_a_byte
    }

    /// Returns whether this end posts requests: everywhere but at the passive end of a one-way bandwidth test,
    /// and at the server of a READ or atomic latency test.
    pub const fn is_requester(&self) -> bool {
        match self.test.metric {
            Metric::Bandwidth => self.is_active() || self.bidirectional,
            Metric::Latency => self.is_client() || !self.test.is_fetch(),
        }
    }

    /// Returns whether this end posts receives.
    pub const fn is_receiver(&self) -> bool {
        self.posts_receives()
            && (!self.is_active() || self.bidirectional || !self.test.is_bandwidth())
    }

    /// Returns the message sizes of the run, in order.
    pub fn sizes(&self) -> Vec<u64> {
        if self.all_sizes {
            (1..=23)
                .map(|power| 1 << power)
                .filter(|size| self.service != Service::Ud || *size <= self.size)
                .collect()
        } else {
            vec![self.size]
        }
    }

    /// Fits datagrams to the path MTU, which bounds their size. Returns perftest's words about the end of `-a`.
    ///
    /// # Errors
    /// A size was asked for that does not fit.
    pub fn fit_path(&mut self, mtu: Mtu) -> Result<Option<String>, String> {
        let most = mtu.bytes() as u64;
        if self.service != Service::Ud || self.size <= most {
            return Ok(None);
        }
        if self.size_given && !self.all_sizes {
            return Err(format!(
                "-s {}: a datagram (-c UD) is one packet, and the path MTU is {most}: use -s {most} or less, or -c UC",
                self.size
            ));
        }
        self.size = most;
        Ok(self
            .all_sizes
            .then(|| format!(" Max msg size in UD is MTU {most}\n Changing to this MTU")))
    }

    /// Returns whether the peak is measured: a counted bandwidth run that is short enough, at an end that sends.
    pub const fn measures_peak(&self) -> bool {
        self.test.is_bandwidth()
            && !self.shown.no_peak
            && self.counted().is_some()
            && self.iters <= PEAK_LIMIT
            && (self.is_requester() || !self.posts_receives())
    }
}

fn saturated(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
