//! What a peer can do wrong in a request, and the one table of what happens then.

use roce_wire::NakCode;

use crate::verbs::Status;

/// A request that must not be executed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Violation {
    /// A packet that can't follow the one before: MIDDLE after LAST, FIRST inside a message, …
    Successor,
    /// An operation that the responder does not have.
    Unsupported,
    /// The QP does not let peers do this.
    QpRights,
    /// A payload that is too long or too short for its place, or another path MTU.
    Length,
    /// More READs and atomics at once than were agreed.
    ReadDepth,
    /// An atomic whose address is not a multiple of 8.
    Alignment,
    /// Key, domain, rights or bounds do not allow it.
    MemoryRights,
    /// A message longer than the receive that was posted for it.
    ReceiveTooShort,
    /// A receive whose own SGE is not valid.
    ReceiveMemory,
    /// A SEND with invalidate that names a key which it may not.
    Invalidate,
}

/// What a violation leads to. The QP goes to the error state in every case.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Outcome {
    /// What the peer is told.
    pub(crate) nak: NakCode,
    /// How the receive that the message was being written to completes.
    pub(crate) receive: Status,
    /// Whether it was the peer's access (true) or its request (false) that was wrong.
    pub(crate) access: bool,
    /// Whether the fault is ours.
    pub(crate) local: bool,
}

impl Violation {
    /// Returns what happens (IBA 9.7.4.1, 9.7.5.2; rxe differs for long messages: it says 0x63).
    pub(crate) const fn outcome(self) -> Outcome {
        match self {
            Self::Successor
            | Self::Unsupported
            | Self::QpRights
            | Self::Length
            | Self::ReadDepth
            | Self::Alignment => Outcome {
                nak: NakCode::InvalidRequest,
                receive: Status::RemInvReqErr,
                access: false,
                local: false,
            },
            Self::MemoryRights | Self::Invalidate => Outcome {
                nak: NakCode::RemoteAccess,
                receive: Status::RemAccessErr,
                access: true,
                local: false,
            },
            Self::ReceiveTooShort => Outcome {
                nak: NakCode::InvalidRequest,
                receive: Status::LocLenErr,
                access: false,
                local: false,
            },
            Self::ReceiveMemory => Outcome {
                nak: NakCode::RemoteOperational,
                receive: Status::LocProtErr,
                access: false,
                local: true,
            },
        }
    }
}

/// Returns the status of a request that was refused with a fatal NAK.
pub(crate) const fn status_of(nak: NakCode) -> Status {
    match nak {
        NakCode::RemoteAccess => Status::RemAccessErr,
        NakCode::RemoteOperational => Status::RemOpErr,
        _ => Status::RemInvReqErr,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_violation_has_its_nak_and_statuses() {
        let rows = [
            (Violation::Successor, 0x61, Status::RemInvReqErr),
            (Violation::Unsupported, 0x61, Status::RemInvReqErr),
            (Violation::QpRights, 0x61, Status::RemInvReqErr),
            (Violation::Length, 0x61, Status::RemInvReqErr),
            (Violation::ReadDepth, 0x61, Status::RemInvReqErr),
            (Violation::Alignment, 0x61, Status::RemInvReqErr),
            (Violation::MemoryRights, 0x62, Status::RemAccessErr),
            (Violation::Invalidate, 0x62, Status::RemAccessErr),
            (Violation::ReceiveTooShort, 0x61, Status::LocLenErr),
            (Violation::ReceiveMemory, 0x63, Status::LocProtErr),
        ];
        for (violation, syndrome, receive) in rows {
            let outcome = violation.outcome();
            assert_eq!(outcome.nak.to_raw(), syndrome, "{violation:?}");
            assert_eq!(outcome.receive, receive, "{violation:?}");
        }
    }

    #[test]
    fn the_requester_sees_the_matching_status() {
        assert_eq!(status_of(NakCode::InvalidRequest), Status::RemInvReqErr);
        assert_eq!(status_of(NakCode::RemoteAccess), Status::RemAccessErr);
        assert_eq!(status_of(NakCode::RemoteOperational), Status::RemOpErr);
    }
}
