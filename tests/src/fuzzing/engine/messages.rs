//! Whole messages and whole answers of a peer, with at most one fault each.

use roce_engine::verbs::Service;
use roce_wire::{
    Aeth, AtomicAckEth, AtomicEth, Ext, Headers, Msn, Opcode, Operation, Psn, Reth, Syndrome,
};

use super::bed::{Bed, MTU};
use super::forge::{Envelope, near, payload_len, syndrome};
use crate::fuzzing::input::Input;

/// The longest message that is forged.
const MAX_MESSAGE: usize = 1100;
/// READ answers that are sent at once.
const MAX_ANSWERS: u32 = 8;

/// What happens to one packet of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fault {
    None,
    Lost(u32),
    Twice(u32),
    /// It and what follows come with another length.
    Length(u32),
}

impl Fault {
    fn choose(input: &mut Input<'_>) -> Self {
        let choice = input.u8();
        let which = u32::from(choice & 3);
        match choice {
            0..=0xcf => Self::None,
            0xd0..=0xdf => Self::Lost(which),
            0xe0..=0xef => Self::Twice(which),
            _ => Self::Length(which),
        }
    }
}

impl Bed {
    /// Sends a message that is legal but for the fault, and perhaps for where it goes.
    pub(super) fn message(&mut self, n: usize, input: &mut Input<'_>) {
        let service = self.sides[n].service;
        let kind = input.below(8);
        match (service, kind) {
            (Service::Ud, _) => self.datagram(n, input),
            (Service::Rc, 5) => self.read(n, input),
            (Service::Rc, 6 | 7) => self.atomic(n, kind == 6, input),
            (Service::Rc | Service::Uc, _) => self.data(n, kind % 5, input),
        }
    }

    fn datagram(&mut self, n: usize, input: &mut Input<'_>) {
        let opcode = match input.u8() & 1 {
            0 => Opcode::UD_SEND_ONLY,
            _ => Opcode::UD_SEND_ONLY_WITH_IMM,
        };
        let len = payload_len(input);
        self.lone(n, opcode, Psn::new(0), len, input);
    }

    /// SEND and WRITE, plain, with immediate data or with invalidation.
    fn data(&mut self, n: usize, kind: usize, input: &mut Input<'_>) {
        let is_rc = self.sides[n].service == Service::Rc;
        let kind = if is_rc || kind != 2 { kind } else { 0 };
        let length = match input.u8() {
            0..=0x5f => payload_len(input),
            0x60..=0x7f => 0,
            _ => usize::from(input.u16()) % MAX_MESSAGE,
        };
        let mtu = MTU.bytes();
        let packets = length.div_ceil(mtu).max(1) as u32;
        let (addr, rkey) = self.place(input);
        let imm = input.u32().to_be_bytes();
        let first_psn = self.request_psn(n, input);
        let fault = Fault::choose(input);
        let envelope = Envelope::choose(input);
        for packet in 0..packets {
            if fault == Fault::Lost(packet) {
                continue;
            }
            let (first, last) = (packet == 0, packet + 1 == packets);
            let opcode = data_opcode(kind, first, last);
            let opcode = if is_rc { opcode } else { opcode.as_uc() };
            let start = packet as usize * mtu;
            let mut len = (length - start).min(mtu);
            if fault == Fault::Length(packet) {
                len = payload_len(input);
            }
            let mut ext = Ext::NONE;
            if kind >= 3 && first {
                let length = length as u32;
                ext.reth = Some(Reth { addr, rkey, length });
            }
            if matches!(kind, 1 | 4) && last {
                ext.imm = Some(imm);
            }
            if kind == 2 && last {
                ext.ieth = Some(rkey);
            }
            let mut bth = self.bth(n, opcode, first_psn.add(packet));
            bth.ack_request = last;
            bth.solicited = last && imm[0] & 1 == 1;
            let headers = Headers { bth, ext };
            self.forge(headers, len, envelope, input);
            if fault == Fault::Twice(packet) {
                self.forge(headers, len, envelope, input);
            }
        }
    }

    fn read(&mut self, n: usize, input: &mut Input<'_>) {
        let (addr, rkey) = self.place(input);
        let length = match input.u8() {
            0..=0x7f => payload_len(input) as u32,
            0x80..=0xef => u32::from(input.u16()) % (MAX_MESSAGE as u32),
            _ => input.u32(),
        };
        let psn = self.request_psn(n, input);
        let ext = Ext {
            reth: Some(Reth { addr, rkey, length }),
            ..Ext::NONE
        };
        let bth = self.bth(n, Opcode::RC_RDMA_READ_REQUEST, psn);
        let envelope = Envelope::choose(input);
        self.forge(Headers { bth, ext }, 0, envelope, input);
    }

    fn atomic(&mut self, n: usize, swap: bool, input: &mut Input<'_>) {
        let opcode = if swap {
            Opcode::RC_CMP_SWAP
        } else {
            Opcode::RC_FETCH_ADD
        };
        let (addr, rkey) = self.place(input);
        let psn = self.request_psn(n, input);
        let ext = Ext {
            atomic: Some(AtomicEth {
                addr,
                rkey,
                swap_add: input.u64() & 0x7f7f_7f7f_7f7f_7f7f,
                compare: 0x1111_1111_1111_1111,
            }),
            ..Ext::NONE
        };
        let bth = self.bth(n, opcode, psn);
        let envelope = Envelope::choose(input);
        self.forge(Headers { bth, ext }, 0, envelope, input);
    }

    /// Answers a request that a QP has sent, as it should be but for the fault.
    pub(super) fn answer(&mut self, n: usize, input: &mut Input<'_>) {
        let Some(request) = self.request_sent(n, input) else {
            return;
        };
        let Some(info) = request.bth.opcode.info() else {
            return;
        };
        let psn = near(request.bth.psn, input);
        let aeth = Aeth {
            syndrome: syndrome(input),
            msn: Msn::new(0),
        };
        let envelope = Envelope::choose(input);
        let ext = Ext {
            aeth: Some(aeth),
            ..Ext::NONE
        };
        match info.operation {
            Operation::ReadRequest if aeth.syndrome == Syndrome::ACK_UNLIMITED => {
                let length = request.ext.reth.map_or(0, |reth| reth.length);
                self.answer_read(n, psn, length, envelope, input);
            }
            Operation::CompareSwap | Operation::FetchAdd
                if aeth.syndrome == Syndrome::ACK_UNLIMITED =>
            {
                let bth = self.bth(n, Opcode::RC_ATOMIC_ACKNOWLEDGE, psn);
                let atomic_ack = Some(AtomicAckEth(0x0102_0304_0506_0708));
                let ext = Ext { atomic_ack, ..ext };
                self.forge(Headers { bth, ext }, 0, envelope, input);
            }
            _ => {
                let bth = self.bth(n, Opcode::RC_ACKNOWLEDGE, psn);
                self.forge(Headers { bth, ext }, 0, envelope, input);
            }
        }
    }

    fn answer_read(
        &mut self,
        n: usize,
        psn: Psn,
        length: u32,
        envelope: Envelope,
        input: &mut Input<'_>,
    ) {
        let mtu = MTU.bytes() as u32;
        let packets = length.div_ceil(mtu).max(1);
        let fault = Fault::choose(input);
        for packet in 0..packets.min(MAX_ANSWERS) {
            if fault == Fault::Lost(packet) {
                continue;
            }
            let (first, last) = (packet == 0, packet + 1 == packets);
            let mut len = (length - packet * mtu).min(mtu) as usize;
            if fault == Fault::Length(packet) {
                len = payload_len(input);
            }
            let aeth = Aeth {
                syndrome: Syndrome::ACK_UNLIMITED,
                msn: Msn::new(0),
            };
            let ext = Ext {
                aeth: (first || last).then_some(aeth),
                ..Ext::NONE
            };
            let opcode = match (first, last) {
                (true, true) => Opcode::RC_RDMA_READ_RESPONSE_ONLY,
                (true, false) => Opcode::RC_RDMA_READ_RESPONSE_FIRST,
                (false, false) => Opcode::RC_RDMA_READ_RESPONSE_MIDDLE,
                (false, true) => Opcode::RC_RDMA_READ_RESPONSE_LAST,
            };
            let headers = Headers {
                bth: self.bth(n, opcode, psn.add(packet)),
                ext,
            };
            self.forge(headers, len, envelope, input);
            if fault == Fault::Twice(packet) {
                self.forge(headers, len, envelope, input);
            }
        }
    }
}

/// Returns the opcode of a packet of kind 0 SEND, 1 with immediate, 2 with invalidate, 3 WRITE, 4 with
/// immediate.
const fn data_opcode(kind: usize, first: bool, last: bool) -> Opcode {
    let is_send = kind < 3;
    match (first, last) {
        (true, false) if is_send => Opcode::RC_SEND_FIRST,
        (true, false) => Opcode::RC_RDMA_WRITE_FIRST,
        (false, false) if is_send => Opcode::RC_SEND_MIDDLE,
        (false, false) => Opcode::RC_RDMA_WRITE_MIDDLE,
        (false, true) => match kind {
            0 => Opcode::RC_SEND_LAST,
            1 => Opcode::RC_SEND_LAST_WITH_IMM,
            2 => Opcode::RC_SEND_LAST_WITH_INV,
            3 => Opcode::RC_RDMA_WRITE_LAST,
            _ => Opcode::RC_RDMA_WRITE_LAST_WITH_IMM,
        },
        (true, true) => match kind {
            0 => Opcode::RC_SEND_ONLY,
            1 => Opcode::RC_SEND_ONLY_WITH_IMM,
            2 => Opcode::RC_SEND_ONLY_WITH_INV,
            3 => Opcode::RC_RDMA_WRITE_ONLY,
            _ => Opcode::RC_RDMA_WRITE_ONLY_WITH_IMM,
        },
    }
}
