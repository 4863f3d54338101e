//! Counters: the kernel's `hw_counters` names where they have one, and one for each drop reason.

use core::fmt;

use alloc::vec::Vec;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts since the engine was made.
        #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// Returns every counter, name and value.
            pub fn to_vec(&self) -> Vec<(&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].to_vec()
            }
        }
    };
}

counters! {
    /// Packets given to the link.
    sent_pkts,
    /// Packets that the link delivered.
    rcvd_pkts,
    /// Payload bytes of requests and responses that were sent, resent ones too.
    sent_payload_bytes,
    /// Request packets whose PSN was sent before.
    retransmitted_pkts,
    /// Duplicate requests that the responder recognised.
    duplicate_request,
    /// Requests ahead of the expected PSN.
    out_of_seq_request,
    /// Sequence NAKs received.
    rcvd_seq_err,
    /// Sequence NAKs sent.
    sent_seq_err,
    /// RNR NAKs received.
    rcvd_rnr_err,
    /// RNR NAKs sent.
    send_rnr_err,
    /// Fatal NAKs received (0x61 and above).
    rcvd_fatal_nak,
    /// Fatal NAKs sent (0x61 and above).
    sent_fatal_nak,
    /// Responses that skipped a READ or an atomic, which is then asked for again.
    implied_nak_seq_err,
    /// Responses outside of what was outstanding.
    ghost_response,
    /// Responses to what was already complete.
    duplicate_response,
    /// Ack timeouts that caused a retransmission.
    local_ack_timeout_err,
    /// Requests that failed because the transport retries ran out.
    retry_exceeded_err,
    /// Requests that failed because the RNR retries ran out.
    retry_rnr_exceeded_err,
    /// Plain ACKs sent.
    acks_sent,
    /// ACKs that were merged into a later one.
    acks_coalesced,
    /// Packets marked as having met congestion.
    rx_ecn_ce,
    /// Congestion notifications received.
    rp_cnp_handled,
    /// Packets whose ICRC was checked to 32 bits.
    icrc_exact,
    /// Packets whose ICRC holds for some IPv4 Identification (16 bits of proof).
    icrc_some_id,
    /// Drop: the ICRC is wrong.
    drop_bad_icrc,
    /// Drop: too short, or longer than what the opcode allows.
    drop_malformed,
    /// Drop: no such opcode.
    drop_unknown_opcode,
    /// Drop: a transport header version other than 0.
    drop_bad_version,
    /// Drop: no such QP.
    drop_unknown_qpn,
    /// Drop: the QP is not ready to receive, or in error.
    drop_qp_state,
    /// Drop: the opcode belongs to another service than the QP's.
    drop_wrong_service,
    /// Drop: from another address than the QP's peer.
    drop_wrong_source,
    /// Drop: to another address than the QP's own.
    drop_wrong_destination,
    /// Drop: another partition.
    drop_bad_pkey,
    /// Drop: a datagram with another key than the QP's.
    drop_bad_qkey,
    /// Drop: a message without acknowledgement that no receive was posted for.
    drop_no_receive,
    /// Drop: a message without acknowledgement that breaks a rule, or longer than its receive.
    drop_unreliable,
    /// Messages without acknowledgement that lost packets on the way.
    unreliable_gaps,
    /// Drop: connection management, which nothing here serves.
    drop_qp1,
    /// Drop: a packet behind a gap or behind an RNR NAK.
    drop_out_of_sequence,
    /// Drop: a duplicate READ or atomic that is not in the replay table.
    drop_stale_replay,
    /// Asynchronous events that nobody took in time.
    lost_events,
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in self.to_vec() {
            if value != 0 {
                writeln!(f, "{name:28} {value}")?;
            }
        }
        Ok(())
    }
}
