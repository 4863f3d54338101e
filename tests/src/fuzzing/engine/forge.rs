//! Packets of a peer: most are what a peer would send next, some are almost that, a few are anything.

use roce_engine::link::{Ipv4Id, RxMeta};
use roce_wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Ext, Feth, HeaderSet, Headers, IPV4_DONT_FRAGMENT,
    IcrcSeed, Msn, Opcode, PKey, Packet, ParseError, Psn, QKey, Qpn, RKey, ROCE_PORT, Reth,
    Syndrome,
};

use super::bed::{Bed, MTU, PEER_PORT, QKEY};
use super::ledger::Name;
use crate::fuzzing::input::Input;

/// Payload bytes that are never secret: the top bit is clear.
const HARMLESS: u8 = 0x7f;
const HARMLESS_WORD: u64 = 0x7f7f_7f7f_7f7f_7f7f;
/// Packets that can be sent again.
const REMEMBERED: usize = 8;
/// The longest payload that is forged: beyond both path MTUs.
const MAX_PAYLOAD: usize = 600;

/// Where a forged packet is said to come from, and how it is sealed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Envelope {
    /// 0 for the right one; else something about it is wrong.
    fault: u8,
    /// DSCP and ECN.
    traffic_class: u8,
}

impl Envelope {
    pub(super) fn choose(input: &mut Input<'_>) -> Self {
        let bits = input.u8();
        Self {
            fault: if bits >= 0xf0 { bits & 0xf } else { 0 },
            traffic_class: bits & 3,
        }
    }
}

impl Bed {
    /// Returns a remote address and key, mostly ones that exist.
    pub(super) fn place(&self, input: &mut Input<'_>) -> (u64, RKey) {
        let which = input.u8();
        let name = match which & 0xf {
            0..=5 => Name::Open,
            6 | 7 => Name::Readable,
            8 | 9 => Name::Atomic,
            10 | 11 => Name::Bindable,
            12 => Name::Secret,
            13 => Name::Foreign,
            14 => Name::Gone,
            _ => Name::Local,
        };
        let mr = self.ledger.mr(name);
        let rkey = match which >> 4 {
            0..=11 if name == Name::Bindable => self.window.last,
            0..=13 => mr.rkey,
            14 => self.window.last,
            _ => RKey(input.u32()),
        };
        let offset = input.u16();
        let addr = match offset >> 12 {
            0..=7 => mr.addr + u64::from(offset & 0xff) / 8 * 8,
            8..=12 => mr.addr + u64::from(offset) % (mr.length + 1),
            13 => (mr.addr + mr.length).wrapping_sub(u64::from(offset & 0xff)),
            14 => mr.addr.wrapping_sub(u64::from(offset & 0xff)),
            _ => u64::MAX - u64::from(offset & 0x1ff),
        };
        (addr, rkey)
    }

    /// Returns the PSN that a QP expects, or one near it, or one far away.
    pub(super) fn request_psn(&self, n: usize, input: &mut Input<'_>) -> Psn {
        let info = self.engine.query_qp(self.sides[n].qp).expect("it lives");
        near(info.attr.rq_psn.unwrap_or_default(), input)
    }

    /// Sends one request packet with fields of its own choice.
    pub(super) fn lone_request(&mut self, n: usize, input: &mut Input<'_>) {
        let opcode = Opcode::ALL[input.below(Opcode::ALL.len())];
        let psn = self.request_psn(n, input);
        let len = payload_len(input);
        self.lone(n, opcode, psn, len, input);
    }

    /// Sends one response packet with fields of its own choice, about a request that was sent.
    pub(super) fn lone_response(&mut self, n: usize, input: &mut Input<'_>) {
        let opcodes = [
            Opcode::RC_ACKNOWLEDGE,
            Opcode::RC_RDMA_READ_RESPONSE_ONLY,
            Opcode::RC_RDMA_READ_RESPONSE_FIRST,
            Opcode::RC_RDMA_READ_RESPONSE_MIDDLE,
            Opcode::RC_RDMA_READ_RESPONSE_LAST,
            Opcode::RC_ATOMIC_ACKNOWLEDGE,
        ];
        let opcode = opcodes[input.below(opcodes.len())];
        let sent = self.request_sent(n, input).map(|headers| headers.bth.psn);
        let psn = near(sent.unwrap_or_default(), input);
        let has_payload = opcode.info().is_some_and(|info| info.has_payload);
        let len = if has_payload { payload_len(input) } else { 0 };
        self.lone(n, opcode, psn, len, input);
    }

    pub(super) fn lone(
        &mut self,
        n: usize,
        opcode: Opcode,
        psn: Psn,
        len: usize,
        input: &mut Input<'_>,
    ) {
        let info = opcode.info().expect("a defined opcode");
        let len = match opcode {
            Opcode::CNP => 16,
            _ if info.has_payload => len,
            _ => 0,
        };
        let ext = self.ext(info.headers, len, input);
        let mut bth = self.bth(n, opcode, psn);
        let flags = input.u8();
        bth.ack_request = flags & 1 == 0;
        bth.solicited = flags & 2 != 0;
        bth.becn = flags & 4 != 0;
        if flags >= 0xf0 {
            bth.pkey = PKey(input.u16());
            bth.dest_qpn = Qpn::new(bth.dest_qpn.value() ^ 1 << (flags & 0xf));
        }
        let envelope = Envelope::choose(input);
        self.forge(Headers { bth, ext }, len, envelope, input);
    }

    pub(super) fn bth(&self, n: usize, opcode: Opcode, psn: Psn) -> Bth {
        Bth::new(opcode, Qpn::new(self.sides[n].qp.0), psn)
    }

    /// Fills the headers of a set.
    fn ext(&self, set: HeaderSet, len: usize, input: &mut Input<'_>) -> Ext {
        let mut ext = Ext::NONE;
        if set.contains(HeaderSet::DETH) {
            let qkey = if input.rarely(16) {
                QKey(input.u32())
            } else {
                QKEY
            };
            ext.deth = Some(Deth::new(qkey, Qpn::new(input.u32())));
        }
        if set.contains(HeaderSet::FETH) {
            ext.feth = Some(Feth(input.u32()));
        }
        if set.contains(HeaderSet::RETH) {
            let (addr, rkey) = self.place(input);
            let length = match input.u8() {
                0..=0x9f => len as u32,
                0xa0..=0xcf => len as u32 + u32::from(input.u16() & 0x3ff),
                0xd0..=0xef => u32::from(input.u16()),
                _ => input.u32(),
            };
            ext.reth = Some(Reth { addr, rkey, length });
        }
        if set.contains(HeaderSet::ATOMIC) {
            let (addr, rkey) = self.place(input);
            ext.atomic = Some(AtomicEth {
                addr,
                rkey,
                swap_add: input.u64() & HARMLESS_WORD,
                compare: input.u64(),
            });
        }
        if set.contains(HeaderSet::AETH) {
            ext.aeth = Some(Aeth {
                syndrome: syndrome(input),
                msn: Msn::new(input.u16().into()),
            });
        }
        if set.contains(HeaderSet::ATOMIC_ACK) {
            ext.atomic_ack = Some(AtomicAckEth(input.u64() & HARMLESS_WORD));
        }
        if set.contains(HeaderSet::IMM) {
            ext.imm = Some(input.u32().to_be_bytes());
        }
        if set.contains(HeaderSet::IETH) {
            ext.ieth = Some(self.place(input).1);
        }
        ext
    }

    /// Builds, seals and delivers a packet.
    pub(super) fn forge(
        &mut self,
        headers: Headers,
        len: usize,
        envelope: Envelope,
        input: &mut Input<'_>,
    ) {
        let mut bytes = vec![0; headers.packet_len(len)];
        let fill = input.u8() & HARMLESS;
        for (at, byte) in headers.frame(&mut bytes, len).iter_mut().enumerate() {
            *byte = fill.wrapping_add(at as u8) & HARMLESS;
        }
        self.seal(&mut bytes, envelope);
    }

    /// Seals bytes as the peer would and delivers them.
    pub(super) fn seal(&mut self, bytes: &mut [u8], envelope: Envelope) {
        let (meta, id) = self.meta(envelope);
        if bytes.len() >= Bth::LEN + 4 && envelope.fault != 1 {
            let port = if envelope.fault == 2 {
                !meta.source_port
            } else {
                meta.source_port
            };
            let seed = IcrcSeed::new(meta.remote, meta.local, port, ROCE_PORT);
            let flags = if envelope.fault == 3 {
                0
            } else {
                IPV4_DONT_FRAGMENT
            };
            seed.seal(id, flags, bytes);
        }
        self.deliver(meta, bytes);
        if self.history.len() == REMEMBERED {
            self.history.remove(0);
        }
        self.history.push(bytes.to_vec());
    }

    /// Returns what the link says of a packet, and its Identification.
    fn meta(&self, envelope: Envelope) -> (RxMeta, u16) {
        let [mut local, mut remote] = self.addresses;
        match envelope.fault {
            4 => core::mem::swap(&mut local, &mut remote),
            5 => local = remote,
            6 => remote = local,
            _ => {}
        }
        let id = (self.received as u16).wrapping_mul(0x101);
        let ipv4_id = match self.exact_id && local.is_ipv4() {
            true => Ipv4Id::Known {
                id,
                flags: IPV4_DONT_FRAGMENT,
            },
            false => Ipv4Id::Unknown,
        };
        let meta = RxMeta {
            remote,
            local,
            source_port: PEER_PORT ^ u16::from(envelope.fault == 7),
            traffic_class: envelope.traffic_class,
            hop_limit: 64,
            ipv4_id,
        };
        (meta, id)
    }

    /// Hands a packet to the engine.
    fn deliver(&mut self, meta: RxMeta, bytes: &[u8]) {
        self.received += 1;
        if matches!(
            Packet::parse(bytes),
            Err(ParseError::Truncated(_) | ParseError::Malformed(_))
        ) {
            self.malformed += 1;
        }
        self.engine.receive(self.now, &meta, bytes);
    }

    /// Delivers bytes that were never a packet.
    pub(super) fn noise(&mut self, input: &mut Input<'_>) {
        let len = usize::from(input.u8());
        let mut bytes = input.take(len).to_vec();
        // With a QPN that exists, most of the engine's checks are passed.
        if let [_, _, _, _, _, qpn @ .., _, _, _, _] = bytes.as_mut_slice()
            && let Some(qpn) = qpn.first_chunk_mut::<3>()
        {
            qpn.copy_from_slice(&self.sides[0].qp.0.to_be_bytes()[1..]);
        }
        let envelope = Envelope::choose(input);
        for byte in bytes.iter_mut().skip(Bth::LEN) {
            *byte &= HARMLESS;
        }
        self.seal(&mut bytes, envelope);
    }

    /// Delivers an earlier packet again, sealed afresh, with a few of its bytes changed.
    pub(super) fn again(&mut self, input: &mut Input<'_>) {
        if self.history.is_empty() {
            return;
        }
        let back = input.below(self.history.len());
        let mut bytes = self.history[self.history.len() - 1 - back].clone();
        for _ in 0..input.below(3) {
            let at = input.u8().min(63);
            let change = input.u8();
            // Only headers: a payload must stay harmless.
            if usize::from(at) < Bth::LEN
                && let Some(byte) = bytes.get_mut(usize::from(at))
            {
                *byte ^= change;
            }
        }
        if input.rarely(8) {
            let keep = input.below(bytes.len().clamp(1, 256));
            bytes.truncate(keep);
        }
        let envelope = Envelope::choose(input);
        self.seal(&mut bytes, envelope);
    }

    /// Returns the headers of a request that a QP has sent; mostly one of the last.
    pub(super) fn request_sent(&self, n: usize, input: &mut Input<'_>) -> Option<Headers> {
        let dest = self.sides[n].dest_qpn;
        let requests = self.link.headers.iter().filter(|headers| {
            headers.bth.dest_qpn == dest
                && headers
                    .bth
                    .opcode
                    .info()
                    .is_some_and(|info| info.is_request)
        });
        let count = requests.clone().count();
        let back = input.below(count.max(1));
        requests.rev().nth(back).copied()
    }
}

/// Returns a PSN: mostly `psn`, or one near it, or one far away.
pub(super) fn near(psn: Psn, input: &mut Input<'_>) -> Psn {
    let choice = input.u8();
    match choice {
        0..=0xbf => psn,
        0xc0..=0xdf => psn.sub(u32::from(choice & 0x1f)),
        0xe0..=0xef => psn.add(u32::from(choice & 0xf)),
        0xf0..=0xf7 => psn.add(0x7f_fffc + u32::from(choice & 7)),
        _ => Psn::new(input.u32()),
    }
}

/// Returns a payload's length: mostly one at a border of the path MTU.
pub(super) fn payload_len(input: &mut Input<'_>) -> usize {
    let mtu = MTU.bytes();
    match input.u8() {
        0..=0x3f => mtu,
        0x40..=0x7f => input.u8().into(),
        0x80..=0x9f => 0,
        0xa0..=0xbf => mtu - 1 - usize::from(input.u8() & 3),
        0xc0..=0xcf => mtu + 1 + usize::from(input.u8() & 3),
        0xd0..=0xef => usize::from(input.u8() & 7),
        _ => usize::from(input.u16()) % MAX_PAYLOAD,
    }
}

/// Returns a syndrome: mostly an ACK.
pub(super) fn syndrome(input: &mut Input<'_>) -> Syndrome {
    match input.u8() {
        0..=0xbf => Syndrome::ACK_UNLIMITED,
        0xc0..=0xcf => Syndrome::from_raw(0x60),
        0xd0..=0xdf => Syndrome::Rnr {
            timer: input.u8() & 31,
        },
        _ => Syndrome::from_raw(input.u8()),
    }
}
