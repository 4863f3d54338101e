//! Random programs: what one end of a connection asks of the other.

use roce_engine::sim::Rng;
use roce_engine::verbs::{Mtu, SendFlags};

/// One work request, by offsets into the regions of its flow (see [`Layout`]).
#[derive(Clone, Debug)]
pub struct Op {
    /// What it does.
    pub kind: Kind,
    /// Bytes of the message.
    pub len: usize,
    /// Where its bytes are in the requester's local region, at most four pieces.
    pub pieces: Vec<Piece>,
    /// Where it lands in the responder's target region, or which shared word it adds to.
    pub remote: usize,
    /// Its flags.
    pub flags: SendFlags,
    /// Whether its bytes are copied when it is posted.
    pub inline: bool,
}

/// What a work request does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// SEND.
    Send,
    /// SEND with immediate data.
    SendImm([u8; 4]),
    /// SEND that invalidates the n-th spare key of the peer.
    SendInv(usize),
    /// RDMA WRITE.
    Write,
    /// RDMA WRITE with immediate data.
    WriteImm([u8; 4]),
    /// RDMA READ.
    Read {
        /// Whether it reads what nobody writes.
        constant: bool,
    },
    /// Compare and swap on a word of this flow alone; `old` is what it must find.
    CompareSwap {
        /// The comparand.
        compare: u64,
        /// The replacement.
        swap: u64,
        /// The value before.
        old: u64,
    },
    /// Fetch and add on a word of this flow alone.
    FetchAdd {
        /// The addend.
        add: u64,
        /// The value before.
        old: u64,
    },
    /// Fetch and add on a word that all flows to this device share.
    SharedAdd {
        /// The addend, never 0.
        add: u64,
    },
}

/// A piece of a region.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Piece {
    /// Where it starts.
    pub offset: usize,
    /// Its bytes.
    pub len: usize,
}

impl Op {
    /// Returns whether it consumes a receive of the peer.
    pub const fn consumes_receive(&self) -> bool {
        matches!(
            self.kind,
            Kind::Send | Kind::SendImm(_) | Kind::SendInv(_) | Kind::WriteImm(_)
        )
    }

    /// Returns whether its bytes go to the responder's target region.
    pub const fn writes_target(&self) -> bool {
        matches!(self.kind, Kind::Write | Kind::WriteImm(_))
    }

    /// Returns whether its local pieces are written.
    pub const fn fetches(&self) -> bool {
        matches!(
            self.kind,
            Kind::Read { .. }
                | Kind::CompareSwap { .. }
                | Kind::FetchAdd { .. }
                | Kind::SharedAdd { .. }
        )
    }
}

/// The regions of one flow.
///
/// The requester's local region is a constant source followed by a sink for each fetching request.
/// The responder's target region is words for atomics, an area that is written, and one that never is.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Constant bytes at the start of the local region.
    pub source: usize,
    /// Bytes of the local region.
    pub local: usize,
    /// Words at the start of the target region.
    pub words: usize,
    /// Where the written area of the target region starts.
    pub written: Piece,
    /// Where its constant area starts.
    pub constant: Piece,
}

impl Layout {
    /// Returns the bytes of the target region.
    pub const fn target(&self) -> usize {
        self.constant.offset + self.constant.len
    }
}

/// A program and the memory that it works on.
#[derive(Clone, Debug)]
pub struct Program {
    /// The requests in the order they are posted in.
    pub ops: Vec<Op>,
    /// Its memory.
    pub layout: Layout,
    /// The values of the words before.
    pub words: Vec<u64>,
    /// The spare keys that it invalidates.
    pub invalidations: usize,
}

/// What a program is made from.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Payload bytes of a packet.
    pub mtu: Mtu,
    /// Packets that the messages may have in all.
    pub packets: usize,
    /// Work requests, at most.
    pub ops: usize,
    /// The longest message.
    pub longest: usize,
    /// One in this many requests is signaled (1: all).
    pub signal_every: usize,
    /// Requests after which one must be signaled.
    pub sq_depth: usize,
    /// Bytes of inline data.
    pub max_inline: usize,
    /// Shared words of the responder.
    pub shared_words: usize,
}

impl Program {
    /// Makes a random program.
    pub fn random(rng: &mut Rng, shape: &Shape) -> Self {
        let longest = shape.longest.max(8);
        let words = rng.range(1..=3) as usize;
        let written = Piece {
            offset: words * 8,
            len: longest + rng.below(longest as u64 + 1) as usize,
        };
        let constant = Piece {
            offset: written.offset + written.len,
            len: longest,
        };
        let layout = Layout {
            source: longest * 2,
            local: longest * 2,
            words,
            written,
            constant,
        };
        let mut maker = Maker {
            values: (0..words).map(|_| rng.bits()).collect(),
            mix: Mix::random(rng),
            shape: *shape,
            layout,
            unsignaled: 0,
            invalidations: 0,
            copied: None,
        };
        let before = maker.values.clone();
        let mut ops = Vec::new();
        let mut packets = 0;
        while ops.len() < shape.ops && packets < shape.packets {
            let op = maker.op(rng);
            packets += op.len.div_ceil(shape.mtu.bytes()).max(1);
            ops.push(op);
        }
        if let Some(last) = ops.last_mut() {
            last.flags = last.flags | SendFlags::SIGNALED;
        }
        Self {
            ops,
            layout: maker.layout,
            words: before,
            invalidations: maker.invalidations,
        }
    }
}

/// How often each kind is drawn: a program has its own preferences.
struct Mix {
    weights: [u64; 9],
}

impl Mix {
    fn random(rng: &mut Rng) -> Self {
        // A third of the programs do one or two things only, as benchmarks do.
        let narrow = rng.chance(0.33);
        let weights = core::array::from_fn(|_| {
            if narrow && rng.chance(0.75) {
                0
            } else {
                rng.range(1..=10)
            }
        });
        Self { weights }
    }

    fn draw(&self, rng: &mut Rng) -> usize {
        let total: u64 = self.weights.iter().sum();
        let mut point = rng.below(total);
        for (kind, weight) in self.weights.iter().enumerate() {
            if point < *weight {
                return kind;
            }
            point -= weight;
        }
        0
    }
}

struct Maker {
    values: Vec<u64>,
    mix: Mix,
    shape: Shape,
    layout: Layout,
    unsignaled: usize,
    invalidations: usize,
    /// The sink of an earlier READ of constant bytes: what a fenced request may send on.
    copied: Option<Vec<Piece>>,
}

impl Maker {
    fn op(&mut self, rng: &mut Rng) -> Op {
        if rng.chance(0.1)
            && let Some(op) = self.forward(rng)
        {
            return op;
        }
        let kind = self.kind(rng);
        let flags = self.flags(rng);
        let mut op = Op {
            kind,
            len: 0,
            pieces: Vec::new(),
            remote: 0,
            flags,
            inline: false,
        };
        match kind {
            Kind::Read { constant } => self.read(rng, &mut op, constant),
            Kind::CompareSwap { .. } | Kind::FetchAdd { .. } | Kind::SharedAdd { .. } => {
                self.atomic(rng, &mut op);
            }
            Kind::Send | Kind::SendImm(_) | Kind::SendInv(_) | Kind::Write | Kind::WriteImm(_) => {
                self.outgoing(rng, &mut op)
            }
        }
        op
    }

    fn kind(&mut self, rng: &mut Rng) -> Kind {
        let imm = (rng.bits() as u32).to_be_bytes();
        match self.mix.draw(rng) {
            1 => Kind::SendImm(imm),
            2 if self.invalidations < 3 => {
                self.invalidations += 1;
                Kind::SendInv(self.invalidations - 1)
            }
            3 | 4 => Kind::Write,
            5 => Kind::WriteImm(imm),
            6 => Kind::Read {
                constant: rng.chance(0.5),
            },
            7 if self.shape.shared_words > 0 && rng.chance(0.3) => Kind::SharedAdd {
                add: rng.bits() | 1,
            },
            7 => Kind::FetchAdd {
                add: rng.bits(),
                old: 0,
            },
            8 => Kind::CompareSwap {
                compare: rng.bits(),
                swap: rng.bits(),
                old: 0,
            },
            _ => Kind::Send,
        }
    }

    fn flags(&mut self, rng: &mut Rng) -> SendFlags {
        let mut flags = SendFlags::NONE;
        self.unsignaled += 1;
        let due = self.unsignaled >= self.shape.sq_depth;
        if due || rng.below(self.shape.signal_every as u64) == 0 {
            flags = flags | SendFlags::SIGNALED;
            self.unsignaled = 0;
        }
        if rng.chance(0.1) {
            flags = flags | SendFlags::FENCE;
        }
        if rng.chance(0.2) {
            flags = flags | SendFlags::SOLICITED;
        }
        flags
    }

    fn length(&self, rng: &mut Rng) -> usize {
        let mtu = self.shape.mtu.bytes() as u64;
        let longest = self.shape.longest as u64;
        let len = match rng.below(8) {
            0 => 0,
            1 => rng.range(1..=8),
            2 => rng.below(mtu),
            3 | 4 => (rng.range(1..=4) * mtu + rng.below(3)).saturating_sub(1),
            5 => rng.below(4 * mtu),
            _ => rng.below(longest + 1),
        };
        len.min(longest) as usize
    }

    fn outgoing(&mut self, rng: &mut Rng, op: &mut Op) {
        op.len = self.length(rng);
        op.pieces = self.source_pieces(rng, op.len);
        op.inline = op.len <= self.shape.max_inline && rng.chance(0.3);
        op.remote = self.landing(rng, op.len);
    }

    /// Makes a fenced request that sends on what an earlier READ brought.
    fn forward(&mut self, rng: &mut Rng) -> Option<Op> {
        let pieces = self.copied.take()?;
        let len = pieces.iter().map(|piece| piece.len).sum();
        let kind = if rng.chance(0.5) {
            Kind::Send
        } else {
            Kind::Write
        };
        Some(Op {
            kind,
            len,
            remote: self.landing(rng, len),
            pieces,
            flags: self.flags(rng) | SendFlags::FENCE,
            inline: false,
        })
    }

    fn landing(&self, rng: &mut Rng, len: usize) -> usize {
        let area = self.layout.written;
        area.offset + rng.below((area.len - len) as u64 + 1) as usize
    }

    fn read(&mut self, rng: &mut Rng, op: &mut Op, constant: bool) {
        op.len = self.length(rng);
        let area = if constant {
            self.layout.constant
        } else {
            self.layout.written
        };
        op.remote = area.offset + rng.below((area.len - op.len) as u64 + 1) as usize;
        op.pieces = self.sink_pieces(rng, op.len);
        if constant {
            self.copied = Some(op.pieces.clone());
        }
    }

    fn atomic(&mut self, rng: &mut Rng, op: &mut Op) {
        op.len = 8;
        op.pieces = self.sink_pieces(rng, 8);
        if let Kind::SharedAdd { .. } = op.kind {
            op.remote = rng.below(self.shape.shared_words as u64) as usize;
            return;
        }
        let word = rng.below(self.layout.words as u64) as usize;
        op.remote = word * 8;
        let value = &mut self.values[word];
        let found = *value;
        match &mut op.kind {
            Kind::CompareSwap { compare, swap, old } => {
                *old = found;
                if rng.chance(0.7) {
                    *compare = found;
                }
                if *compare == found {
                    *value = *swap;
                }
            }
            Kind::FetchAdd { add, old } => {
                *old = found;
                *value = found.wrapping_add(*add);
            }
            _ => unreachable!("only atomics come here"),
        }
    }

    fn source_pieces(&self, rng: &mut Rng, len: usize) -> Vec<Piece> {
        let place = |rng: &mut Rng, len: usize| Piece {
            offset: rng.below((self.layout.source - len) as u64 + 1) as usize,
            len,
        };
        cut(rng, len)
            .into_iter()
            .map(|len| place(rng, len))
            .collect()
    }

    fn sink_pieces(&mut self, rng: &mut Rng, len: usize) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for len in cut(rng, len) {
            self.layout.local += rng.below(9) as usize;
            pieces.push(Piece {
                offset: self.layout.local,
                len,
            });
            self.layout.local += len;
        }
        pieces
    }
}

/// Cuts a length into at most four parts; a zero length has no part, or an empty one.
pub(super) fn cut(rng: &mut Rng, len: usize) -> Vec<usize> {
    if len == 0 && rng.chance(0.5) {
        return Vec::new();
    }
    let mut parts = Vec::new();
    let mut left = len;
    while parts.len() < 3 && left > 0 && rng.chance(0.3) {
        let part = rng.range(1..=left as u64) as usize;
        parts.push(part);
        left -= part;
    }
    if left > 0 || parts.is_empty() {
        parts.push(left);
    }
    parts
}
