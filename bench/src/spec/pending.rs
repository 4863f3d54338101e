//! What the parser reads and the runner does not do.

use super::Spec;

impl Spec {
    /// Returns the options of this run that the runner does not do, by their names. A run that has any must not
    /// start: an option is refused rather than ignored.
    pub fn unsupported_by_runner(&self) -> Vec<&'static str> {
        let (qp, pace) = (&self.qp, &self.pace);
        [
            ("--mr_per_qp", qp.mr_per_qp),
            ("--use_hugepages", qp.hugepages),
            ("--perform_warm_up", pace.warm_up),
            ("--run_infinitely", pace.row_every_s.is_some()),
            ("--rate_limit", pace.rate.is_some()),
        ]
        .into_iter()
        .filter_map(|(name, asked)| asked.then_some(name))
        .collect()
    }
}
