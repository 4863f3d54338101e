//! What the parser reads and the runner does not do.

use roce_engine::verbs::Service;

use super::{Op, Spec};

impl Spec {
    /// Returns the options of this run that the runner does not do, by their names. A run that has any must not
    /// start: an option is refused rather than ignored.
    pub fn unsupported_by_runner(&self) -> Vec<&'static str> {
        let imm = if self.test.op == Op::Send {
            "--send_with_imm"
        } else {
            "--write_with_imm"
        };
        let (qp, pace) = (&self.qp, &self.pace);
        [
            ("-c UC", self.service == Service::Uc),
            ("-c UD", self.service == Service::Ud),
            ("-I", qp.inline_size != 0),
            ("-S", qp.service_level != 0),
            ("-e", qp.events),
            ("--use-srq", qp.use_srq),
            ("--mr_per_qp", qp.mr_per_qp),
            ("--use_hugepages", qp.hugepages),
            ("--pkey_index", qp.pkey_index != 0),
            ("--retry_count", qp.retry_count != 7),
            ("--flow_label", !qp.flow_labels.is_empty()),
            (imm, pace.with_imm),
            ("--reversed", pace.reversed),
            ("--perform_warm_up", pace.warm_up),
            ("--latency_gap", pace.latency_gap_us != 0),
            ("--run_infinitely", pace.row_every_s.is_some()),
            ("--rate_limit", pace.rate.is_some()),
            ("--cpu_util", self.shown.cpu_util),
        ]
        .into_iter()
        .filter_map(|(name, asked)| asked.then_some(name))
        .collect()
    }
}
