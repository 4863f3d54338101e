//! The command line that repeats a run.

use backend_afxdp::Mode;
use roce_engine::verbs::Service;

use super::{AtomicKind, Op, Role, Spec, Trace};

/// perftest's seconds between two rows of `--run_infinitely`.
pub const DEFAULT_ROW_EVERY_S: u32 = 5;

/// Collects words.
struct Words(Vec<String>);

impl Words {
    fn flag(&mut self, name: &str, set: bool) {
        if set {
            self.0.push(name.to_owned());
        }
    }

    fn value<T: ToString>(&mut self, name: &str, value: Option<T>) {
        if let Some(value) = value {
            self.0.push(name.to_owned());
            self.0.push(value.to_string());
        }
    }

    fn unless<T: ToString + PartialEq>(&mut self, name: &str, value: T, default: T) {
        self.value(name, (value != default).then_some(value));
    }
}

impl Spec {
    /// Returns the arguments of `roce` that repeat this run: the test, then the options that are not defaults.
    pub fn args(&self) -> Vec<String> {
        let mut words = Words(vec![self.test.name().to_owned()]);
        self.test_words(&mut words);
        self.path_words(&mut words);
        self.own_words(&mut words);
        if let (Role::Client { host }, false) = (&self.role, self.lab) {
            words.0.push(host.clone());
        }
        words.0
    }

    /// Returns one line for a shell.
    pub fn command_line(&self) -> String {
        let mut line = String::from("roce");
        for word in self.args() {
            line.push(' ');
            line.push_str(&quoted(&word));
        }
        line
    }

    fn test_words(&self, words: &mut Words) {
        match self.service {
            Service::Rc => {}
            Service::Uc => words.value("-c", Some("UC")),
            Service::Ud => words.value("-c", Some("UD")),
        }
        words.flag("-a", self.all_sizes);
        let size_asked = self.size_given || self.size != self.test.default_size();
        words.value("-s", (size_asked && !self.all_sizes).then_some(self.size));
        self.end_words(words);
        words.flag("-b", self.bidirectional);
        words.unless("-q", self.qps, 1);
        words.unless("-l", self.post_list, 1);
        self.depth_words(words);
        words.value("-o", self.outs);
        if self.atomic != AtomicKind::default() {
            words.value("-A", Some(self.atomic.name()));
        }
        self.pace_words(words);
        self.shown_words(words);
    }

    /// What ends the run.
    fn end_words(&self, words: &mut Words) {
        if let Some(seconds) = self.pace.row_every_s {
            words.flag("--run_infinitely", true);
            words.unless("-D", seconds, DEFAULT_ROW_EVERY_S);
        } else if let Some(span) = self.duration {
            words.value("-D", Some(span.total.as_secs_f64()));
            let default = span.total.as_secs() / 4;
            words.unless("-f", span.margin.as_secs_f64(), default as f64);
        } else {
            words.unless("-n", self.iters, self.test.default_iters());
        }
    }

    fn depth_words(&self, words: &mut Words) {
        // The options that depths depend on.
        let mut plain = Self {
            tx_depth: 0,
            rx_depth: 0,
            cq_mod: 0,
            ..self.clone()
        };
        plain.resolve_depths(None, None, None);
        words.unless("-t", self.tx_depth, plain.tx_depth);
        words.unless("-r", self.rx_depth, plain.rx_depth);
        plain.resolve_depths(Some(self.tx_depth), Some(self.rx_depth), None);
        words.unless("-Q", self.cq_mod, plain.cq_mod);
    }

    fn pace_words(&self, words: &mut Words) {
        let pace = &self.pace;
        if pace.with_imm {
            let send = self.test.op == Op::Send;
            words.flag(
                if send {
                    "--send_with_imm"
                } else {
                    "--write_with_imm"
                },
                true,
            );
        }
        words.flag("--reversed", pace.reversed);
        words.flag("--perform_warm_up", pace.warm_up);
        words.unless("--latency_gap", pace.latency_gap_us, 0);
        if let Some(limit) = pace.rate {
            words.value("--rate_limit", Some(limit.rate));
            words.value("--rate_units", Some(limit.unit.letter()));
            words.unless("--burst_size", limit.burst, self.tx_depth);
        }
    }

    fn shown_words(&self, words: &mut Words) {
        words.flag("-F", self.cpu_freq);
        words.flag("-H", self.histogram);
        words.flag("-U", self.unsorted);
        words.flag("-C", self.shown.cycles);
        words.flag("-N", self.shown.no_peak);
        words.flag("--report_gbits", self.report_gbits);
        words.flag("--report-both", self.shown.both);
        words.flag("--cpu_util", self.shown.cpu_util);
        words.value("--output", self.shown.form.name());
        words.value("-w", self.shown.least_bandwidth);
        words.value("-y", self.shown.least_rate);
    }

    fn path_words(&self, words: &mut Words) {
        words.value("-d", self.device.as_ref());
        words.value("--xdp-mode", self.xdp.mode.map(mode_name));
        words.flag("--busy-poll", self.xdp.busy_poll);
        words.flag("--replace-xdp", self.xdp.replace);
        words.value("-x", self.gid_index);
        words.value("-m", self.mtu.map(|mtu| mtu.bytes()));
        words.unless("-p", self.port, super::DEFAULT_PORT);
        words.unless("-u", self.qp_timeout, 14);
        words.unless("--tclass", self.tclass, 0);
        words.unless("-S", self.qp.service_level, 0);
        words.unless("--pkey_index", self.qp.pkey_index, 0);
        words.unless("--retry_count", self.qp.retry_count, 7);
        let labels: Vec<String> = self.qp.flow_labels.iter().map(u32::to_string).collect();
        words.value(
            "--flow_label",
            (!labels.is_empty()).then(|| labels.join(",")),
        );
        words.value("-I", self.qp.inline_size);
        words.flag("--use_old_post_send", self.qp.old_post_send);
        words.flag("--disable_pcie_relaxed", self.qp.strict_ordering);
        words.flag("-e", self.qp.events);
        words.flag("--use-srq", self.qp.use_srq);
        words.flag("--mr_per_qp", self.qp.mr_per_qp);
        words.flag("--use_hugepages", self.qp.hugepages);
        words.flag("--ipv6", self.ipv6);
        words.flag("--ipv6-addr", self.ipv6_addr);
        words.value("--bind_source_ip", self.bind_source_ip);
    }

    fn own_words(&self, words: &mut Words) {
        if let Some(path) = &self.out_json {
            words.flag("--out_json", true);
            words.value("--out_json_file", Some(path.display()));
        }
        words.flag("--lab", self.lab);
        words.flag("--verify", self.verify);
        words.value("--json", self.json.as_ref().map(|path| path.display()));
        if let Some(pcap) = &self.pcap {
            words.value("--pcap", Some(pcap.path.display()));
            words.value("--pcap-snaplen", pcap.snaplen);
            words.value("--pcap-limit", pcap.limit);
        }
        words.value("--impair", self.impair);
        let Trace { exchange, packets } = self.trace;
        let what: Vec<&str> = [("exchange", exchange), ("packets", packets)]
            .into_iter()
            .filter_map(|(name, set)| set.then_some(name))
            .collect();
        words.value("--trace", (!what.is_empty()).then(|| what.join(",")));
        let timeout = self.connect_timeout;
        let asked =
            self.accept_timeout.is_some() || timeout != Self::new(self.test).connect_timeout;
        words.value("--connect-timeout", asked.then_some(timeout.as_secs_f64()));
    }
}

/// Returns a mode as `--xdp-mode` takes it.
fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Driver => "driver",
        Mode::Generic => "generic",
    }
}

/// Quotes a word for a POSIX shell if it needs that.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
