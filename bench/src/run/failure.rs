//! What a failed completion means, in words for a person.

use core::fmt;

use roce_engine::verbs::{Gid, Psn, Qpn, Status};

/// The two ends of a connection, for messages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ends {
    /// Our QP.
    pub qpn: Qpn,
    /// The peer's QP.
    pub remote_qpn: Qpn,
    /// Our GID.
    pub gid: Gid,
    /// The peer's GID.
    pub remote_gid: Gid,
    /// The PSN of our next request.
    pub psn: Psn,
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "QPN {} (GID {}, next PSN {}) to QPN {} (GID {})",
            self.qpn,
            self.gid.to_ip(),
            self.psn,
            self.remote_qpn,
            self.remote_gid.to_ip()
        )
    }
}

/// Returns what a completion status usually means in such a test, and what to try.
pub const fn likely_cause(status: Status, receive: bool) -> &'static str {
    match status {
        Status::RetryExcErr => {
            "no acknowledgement within the retries: the peer hangs or its -c differs, a firewall or a NAT drops \
             UDP 4791, or packets are too long for the path (try a smaller -m)"
        }
        Status::RnrRetryExcErr => {
            "the peer has no receive posted: it runs another test or stopped receiving"
        }
        Status::RemAccessErr => {
            "the peer's memory does not allow it: its -s, -q or test differs from ours"
        }
        Status::RemInvReqErr => {
            "the peer refuses the request: its test, -s, -m or -o differs from ours"
        }
        Status::RemOpErr => "the peer could not execute the request: see its own messages",
        Status::LocLenErr if receive => "the peer sent a message longer than our -s",
        Status::LocLenErr => "the answer's length does not fit the request",
        Status::LocProtErr | Status::LocAccessErr => {
            "a local buffer is not registered for this: an error of this program"
        }
        Status::WrFlushErr => {
            "the QP went to the error state before this request was done: see the first error"
        }
        Status::BadRespErr => "the peer answered with something that does not fit the request",
        Status::RemAbortErr => "the peer aborted the request",
        _ => "see the status",
    }
}

#[cfg(test)]
mod tests {
    use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use super::*;

    #[test]
    fn both_ends_are_named() {
        let ends = Ends {
            qpn: Qpn::new(0x102),
            remote_qpn: Qpn::new(0x203),
            gid: Gid::from_ip(IpAddr::V4(Ipv4Addr::new(10, 7, 0, 1))),
            remote_gid: Gid::from_ip(IpAddr::V6(Ipv6Addr::LOCALHOST)),
            psn: Psn::new(5),
        };
        assert_eq!(
            ends.to_string(),
            "QPN 0x000102 (GID 10.7.0.1, next PSN 0x000005) to QPN 0x000203 (GID ::1)"
        );
    }

    #[test]
    fn a_long_message_is_the_receivers_size_option() {
        assert!(likely_cause(Status::LocLenErr, true).contains("-s"));
        assert!(!likely_cause(Status::LocLenErr, false).contains("-s"));
    }
}
