//! A connected QP as the loops use it: where its messages are, and how many went and came.

use anyhow::{Context as _, Result, bail};
use roce_engine::verbs::{
    Ah, Backend, Completion, Payload, Psn, QKey, Qp, Qpn, RKey, RecvWr, SendFlags, SendOp, SendWr,
    Sge, Srq,
};

use super::buffers::Lane;
use super::ring::Ring;

/// perftest's datagram key.
pub const QKEY: QKey = QKey(0x1111_1111);
/// What a receive of a datagram has in front of the message: room for its GRH.
pub const GRH: u32 = 40;
/// The longest message that can be posted inline.
pub const MAX_INLINE: usize = 1024;
/// perftest's immediate.
const IMM: [u8; 4] = [0; 4];
/// Requests of one call at most.
const BURST: usize = 16;
/// In a work request's id: this is a receive.
const RECEIVE: u64 = 1 << 63;
const INDEX_SHIFT: u32 = 48;
const NUMBER: u64 = (1 << INDEX_SHIFT) - 1;

/// A work request's id: which flow, which message, and whether it is a receive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WrId {
    /// The flow's index, below 2^15.
    pub flow: usize,
    /// The message's number in this measurement.
    pub number: u64,
    /// A receive.
    pub receive: bool,
}

impl WrId {
    /// Returns the number that a work request carries.
    #[inline]
    pub const fn encode(self) -> u64 {
        (self.flow as u64) << INDEX_SHIFT
            | self.number & NUMBER
            | if self.receive { RECEIVE } else { 0 }
    }

    /// Reads the number of a completion.
    #[inline]
    pub const fn decode(id: u64) -> Self {
        Self {
            flow: ((id & !RECEIVE) >> INDEX_SHIFT) as usize,
            number: id & NUMBER,
            receive: id & RECEIVE != 0,
        }
    }
}

/// What every request of a measurement is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Action {
    /// RDMA WRITE.
    Write,
    /// RDMA READ.
    Read,
    /// SEND.
    Send,
    /// FETCH_AND_ADD of 1.
    Add,
    /// CMP_AND_SWAP, comparing 0 and swapping 0.
    Swap,
}

impl Action {
    #[inline]
    const fn op(self, addr: u64, rkey: RKey) -> SendOp {
        match self {
            Self::Write => SendOp::Write { addr, rkey },
            Self::Read => SendOp::Read { addr, rkey },
            Self::Send => SendOp::Send,
            Self::Add => SendOp::FetchAdd { addr, rkey, add: 1 },
            Self::Swap => SendOp::CompareSwap {
                addr,
                rkey,
                compare: 0,
                swap: 0,
            },
        }
    }
}

/// Which requests are signaled: every `every`-th, and the last.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Signal {
    /// The moderation, at least 1.
    pub every: u64,
    /// The number of the last request, if there is one.
    pub last: Option<u64>,
}

impl Signal {
    #[inline]
    fn flags(self, number: u64) -> SendFlags {
        if (number + 1).is_multiple_of(self.every) || self.last == Some(number) {
            SendFlags::SIGNALED
        } else {
            SendFlags::NONE
        }
    }
}

/// How a flow's messages go, beyond what they are.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Manner {
    /// As datagrams to this QP.
    pub datagram: Option<(Ah, Qpn)>,
    /// With an immediate.
    pub imm: bool,
    /// Copied when they are posted.
    pub inline: bool,
    /// Receives come from this queue, which all flows share; the first flow counts for it.
    pub srq: Option<Srq>,
}

/// A connected QP, in one measurement.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Its place among the flows.
    pub index: usize,
    /// Names the QP to the backend.
    pub qp: Qp,
    /// Our QP.
    pub qpn: Qpn,
    /// The first PSN that we send.
    pub psn: Psn,
    /// Local memory of what is sent or fetched.
    pub tx: Lane,
    /// Local memory of what is received.
    pub rx: Lane,
    /// The peer's memory.
    pub addr: u64,
    /// Its key.
    pub rkey: RKey,
    /// How messages walk through the peer's memory.
    pub walk: Ring,
    /// How its messages go.
    pub manner: Manner,
    /// Messages that it sent in earlier measurements.
    pub before: u64,
    /// Requests posted.
    pub posted: u64,
    /// Requests that are complete.
    pub completed: u64,
    /// Receives posted.
    pub offered: u64,
    /// Receives that messages took.
    pub taken: u64,
    /// Messages received.
    pub received: u64,
}

impl Flow {
    /// Posts the next `count` requests of `size` bytes.
    ///
    /// # Errors
    ///
    /// The device refuses one.
    #[inline]
    pub fn post<B: Backend>(
        &mut self,
        backend: &mut B,
        action: Action,
        size: u32,
        count: u64,
        signal: Signal,
    ) -> Result<()> {
        let mut left = count;
        if self.manner.inline {
            for _ in 0..count {
                self.post_inline(backend, action, size, signal)?;
            }
            return Ok(());
        }
        while left >= BURST as u64 {
            let first = self.posted;
            let sges: [Sge; BURST] = core::array::from_fn(|i| self.tx.sge(first + i as u64, size));
            let requests: [SendWr<'_>; BURST] = core::array::from_fn(|i| {
                let payload = Payload::Sges(&sges[i..=i]);
                self.request(action, first + i as u64, payload, signal)
            });
            self.post_requests(backend, &requests)?;
            left -= BURST as u64;
        }
        while left > 0 {
            let sges = [self.tx.sge(self.posted, size)];
            let request = self.request(action, self.posted, Payload::Sges(&sges), signal);
            self.post_requests(backend, &[request])?;
            left -= 1;
        }
        Ok(())
    }

    fn post_inline<B: Backend>(
        &mut self,
        backend: &mut B,
        action: Action,
        size: u32,
        signal: Signal,
    ) -> Result<()> {
        let mut bytes = [0; MAX_INLINE];
        let message = &mut bytes[..size as usize];
        self.tx.region.read(self.tx.offset(self.posted), message);
        let request = self.request(action, self.posted, Payload::Inline(message), signal);
        self.post_requests(backend, &[request])
    }

    #[inline]
    fn post_requests<B: Backend>(
        &mut self,
        backend: &mut B,
        requests: &[SendWr<'_>],
    ) -> Result<()> {
        let posted = backend.post_send(self.qp, requests);
        posted.with_context(|| {
            let how = if self.manner.inline { "inline " } else { "" };
            format!("post {how}to QPN {}", self.qpn)
        })?;
        self.posted += requests.len() as u64;
        Ok(())
    }

    /// Returns the request of a message.
    #[inline]
    fn request<'m>(
        &self,
        action: Action,
        number: u64,
        payload: Payload<'m>,
        signal: Signal,
    ) -> SendWr<'m> {
        let id = WrId {
            flow: self.index,
            number,
            receive: false,
        };
        SendWr {
            wr_id: id.encode(),
            op: self.op(action, number),
            payload,
            flags: signal.flags(number),
        }
    }

    #[inline]
    const fn op(&self, action: Action, number: u64) -> SendOp {
        let Manner { datagram, imm, .. } = self.manner;
        if let Some((ah, qpn)) = datagram {
            return SendOp::Datagram {
                ah,
                qpn,
                qkey: QKEY,
                imm: if imm { Some(IMM) } else { None },
            };
        }
        let (addr, rkey) = (self.addr + self.walk.offset(number), self.rkey);
        match action {
            Action::Write if imm => SendOp::WriteImm {
                addr,
                rkey,
                imm: IMM,
            },
            Action::Send if imm => SendOp::SendImm(IMM),
            _ => action.op(addr, rkey),
        }
    }

    /// Refuses a received message of another length than `size`.
    ///
    /// # Errors
    ///
    /// The two ends have different options.
    #[inline]
    pub fn check_length(&self, completion: &Completion, size: u32) -> Result<()> {
        let head = if self.manner.datagram.is_some() {
            GRH
        } else {
            0
        };
        let length = completion.byte_len.saturating_sub(head);
        if length != size {
            bail!(
                "QPN {} received a message of {length} bytes where our -s says {size}: give both ends the same -s",
                self.qpn
            );
        }
        Ok(())
    }

    /// Posts the next `count` receives for messages of `size` bytes.
    ///
    /// # Errors
    ///
    /// The device refuses one.
    pub fn offer<B: Backend>(&mut self, backend: &mut B, size: u32, count: u64) -> Result<()> {
        for _ in 0..count {
            let mut sge = self.rx.sge(self.offered, size);
            if self.manner.datagram.is_some() {
                sge.addr -= u64::from(GRH);
                sge.length += GRH;
            }
            let sges = [sge];
            let request = RecvWr {
                wr_id: WrId {
                    flow: self.index,
                    number: self.offered,
                    receive: true,
                }
                .encode(),
                sges: &sges,
            };
            let posted = match self.manner.srq {
                Some(srq) => backend.post_srq_recv(srq, &[request]),
                None => backend.post_recv(self.qp, &[request]),
            };
            posted.with_context(|| format!("post a receive to QPN {}", self.qpn))?;
            self.offered += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_back_whole() {
        for id in [
            WrId {
                flow: 16_383,
                number: NUMBER,
                receive: true,
            },
            WrId {
                flow: 0,
                number: 0,
                receive: false,
            },
            WrId {
                flow: 5,
                number: 1 << 40,
                receive: false,
            },
        ] {
            assert_eq!(WrId::decode(id.encode()), id);
        }
    }

    #[test]
    fn every_nth_and_the_last_are_signaled() {
        let signal = Signal {
            every: 3,
            last: Some(6),
        };
        let signaled: Vec<u64> = (0..7)
            .filter(|number| signal.flags(*number) == SendFlags::SIGNALED)
            .collect();
        assert_eq!(signaled, [2, 5, 6]);
    }
}
