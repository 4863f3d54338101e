//! Work completions.

use core::fmt;

use roce_wire::{Qpn, RKey};

/// How a work request ended: the values of `enum ibv_wc_status`.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum Status {
    /// Done.
    #[default]
    Success = 0,
    /// A message did not fit the local buffers, or a length was wrong.
    LocLenErr = 1,
    /// An inconsistency of the QP itself.
    LocQpOpErr = 2,
    /// A local SGE names memory that its key does not allow.
    LocProtErr = 4,
    /// The QP went to the error state before this request was done.
    WrFlushErr = 5,
    /// A memory window could not be bound.
    MwBindErr = 6,
    /// The responder answered with something that does not fit the request.
    BadRespErr = 7,
    /// A local access right is missing (receive side).
    LocAccessErr = 8,
    /// The responder found the request invalid (NAK 0x61).
    RemInvReqErr = 9,
    /// The responder's memory does not allow it (NAK 0x62).
    RemAccessErr = 10,
    /// The responder could not do it (NAK 0x63).
    RemOpErr = 11,
    /// The transport retry count was exceeded: no answer within the timeouts.
    RetryExcErr = 12,
    /// The RNR retry count was exceeded: the receiver never posted a receive.
    RnrRetryExcErr = 13,
    /// The responder aborted.
    RemAbortErr = 16,
    /// The device is in a fatal state.
    FatalErr = 19,
    /// A timeout of the response (extended verbs).
    RespTimeoutErr = 20,
    /// Another error.
    GeneralErr = 21,
}

impl Status {
    /// Returns the verbs name, `IBV_WC_…`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "IBV_WC_SUCCESS",
            Self::LocLenErr => "IBV_WC_LOC_LEN_ERR",
            Self::LocQpOpErr => "IBV_WC_LOC_QP_OP_ERR",
            Self::LocProtErr => "IBV_WC_LOC_PROT_ERR",
            Self::WrFlushErr => "IBV_WC_WR_FLUSH_ERR",
            Self::MwBindErr => "IBV_WC_MW_BIND_ERR",
            Self::BadRespErr => "IBV_WC_BAD_RESP_ERR",
            Self::LocAccessErr => "IBV_WC_LOC_ACCESS_ERR",
            Self::RemInvReqErr => "IBV_WC_REM_INV_REQ_ERR",
            Self::RemAccessErr => "IBV_WC_REM_ACCESS_ERR",
            Self::RemOpErr => "IBV_WC_REM_OP_ERR",
            Self::RetryExcErr => "IBV_WC_RETRY_EXC_ERR",
            Self::RnrRetryExcErr => "IBV_WC_RNR_RETRY_EXC_ERR",
            Self::RemAbortErr => "IBV_WC_REM_ABORT_ERR",
            Self::FatalErr => "IBV_WC_FATAL_ERR",
            Self::RespTimeoutErr => "IBV_WC_RESP_TIMEOUT_ERR",
            Self::GeneralErr => "IBV_WC_GENERAL_ERR",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), *self as u8)
    }
}

/// What completed.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum WcOpcode {
    /// A SEND of any kind, at its sender.
    #[default]
    Send,
    /// An RDMA WRITE of any kind, at its initiator.
    Write,
    /// An RDMA READ.
    Read,
    /// A compare and swap.
    CompareSwap,
    /// A fetch and add.
    FetchAdd,
    /// A memory window was bound.
    BindMw,
    /// A key was invalidated by its owner.
    LocalInv,
    /// A SEND at its receiver.
    Recv,
    /// An RDMA WRITE with immediate data at its receiver.
    RecvWriteImm,
}

/// A work completion.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Completion {
    /// The work request's id.
    pub wr_id: u64,
    /// How it ended.
    pub status: Status,
    /// What it was; meaningful on success.
    pub opcode: WcOpcode,
    /// Bytes received or read.
    pub byte_len: u32,
    /// The local QP.
    pub qpn: Qpn,
    /// The peer's QP (datagrams).
    pub src_qpn: Qpn,
    /// Immediate data, opaque, if the message carried it.
    pub imm: Option<[u8; 4]>,
    /// The local key that the message invalidated.
    pub invalidated: Option<RKey>,
    /// The sender asked for a solicited event.
    pub solicited: bool,
}
