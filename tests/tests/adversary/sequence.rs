//! Opcodes in an order, and payloads of a length, that no requester would send.

use roce_engine::verbs::{Access, AsyncEvent, Backend, Mtu, QpState, RecvWr, Service, Sge, Status};
use roce_tests::lan::Lan;
use roce_wire::{
    Ext, Headers, IPV4_DONT_FRAGMENT, IcrcSeed, Opcode, OpcodeInfo, Operation, Position, ROCE_PORT,
};

use crate::attack::{ACK, Attack, EXPECTED, GOOD, MTU};

/// What the victim is in the middle of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Inside {
    Nothing,
    Send,
    Write,
}

/// Ways into each place: the packets before.
const BEFORE: [(&[Opcode], Inside); 16] = {
    use Opcode as O;
    [
        (&[], Inside::Nothing),
        (&[O::RC_SEND_ONLY], Inside::Nothing),
        (&[O::RC_SEND_ONLY_WITH_IMM], Inside::Nothing),
        (&[O::RC_SEND_FIRST], Inside::Send),
        (&[O::RC_SEND_FIRST, O::RC_SEND_MIDDLE], Inside::Send),
        (&[O::RC_SEND_FIRST, O::RC_SEND_LAST], Inside::Nothing),
        (
            &[O::RC_SEND_FIRST, O::RC_SEND_LAST_WITH_IMM],
            Inside::Nothing,
        ),
        (&[O::RC_RDMA_WRITE_ONLY], Inside::Nothing),
        (&[O::RC_RDMA_WRITE_ONLY_WITH_IMM], Inside::Nothing),
        (&[O::RC_RDMA_WRITE_FIRST], Inside::Write),
        (
            &[O::RC_RDMA_WRITE_FIRST, O::RC_RDMA_WRITE_MIDDLE],
            Inside::Write,
        ),
        (
            &[O::RC_RDMA_WRITE_FIRST, O::RC_RDMA_WRITE_LAST],
            Inside::Nothing,
        ),
        (
            &[O::RC_RDMA_WRITE_FIRST, O::RC_RDMA_WRITE_LAST_WITH_IMM],
            Inside::Nothing,
        ),
        (&[O::RC_RDMA_READ_REQUEST], Inside::Nothing),
        (&[O::RC_CMP_SWAP], Inside::Nothing),
        (&[O::RC_FETCH_ADD], Inside::Nothing),
    ]
};

/// A full packet where there must be one, 8 bytes else, nothing where there is no payload.
fn payload(opcode: Opcode) -> usize {
    let info = opcode.info().expect("a defined opcode");
    match info.position {
        _ if !info.has_payload => 0,
        Position::First | Position::Middle => MTU,
        Position::Last | Position::Only => 8,
    }
}

/// The table: may `next` follow?
fn follows(inside: Inside, info: OpcodeInfo) -> bool {
    let (operation, start) = (info.operation, info.position.is_start());
    match (inside, operation) {
        (_, Operation::AtomicWrite | Operation::Flush) => false,
        (Inside::Nothing, _) => start,
        (Inside::Send, Operation::Send) | (Inside::Write, Operation::Write) => !start,
        _ => false,
    }
}

fn requests(transport: roce_wire::Transport) -> impl Iterator<Item = (Opcode, OpcodeInfo)> {
    let all = Opcode::ALL.iter().copied();
    all.filter_map(|opcode| Some((opcode, opcode.info()?)))
        .filter(move |(_, info)| info.transport == transport && info.is_request)
}

/// Sends the packets of a way; the WRITE's RETH names `length` bytes.
fn walk(attack: &mut Attack, way: &[Opcode], length: u32) -> i32 {
    for (after, opcode) in way.iter().enumerate() {
        attack.request(*opcode, after as i32, length, &vec![7; payload(*opcode)]);
    }
    way.len() as i32
}

/// The pieces of memory that a way's packets change.
fn written_by(way: &[Opcode]) -> [(usize, usize); 1] {
    let sum = way.iter().map(|opcode| payload(*opcode)).sum();
    match way.first().and_then(|first| first.info()) {
        Some(info) if info.operation == Operation::Send => [(16384, sum)],
        Some(info) if info.has_payload => [(0, sum)],
        Some(info) if info.operation != Operation::ReadRequest => [(0, 8)],
        _ => [(0, 0)],
    }
}

/// What the RETH of a way's first packet names: all its bytes, and where its message is open, as many more as make
/// any WRITE packet fit that comes next, one that starts a message, too.
fn length_for(way: &[Opcode], next: Opcode) -> u32 {
    let sum: usize = way.iter().map(|opcode| payload(*opcode)).sum();
    let open = way.last().is_some_and(|last| !ends(*last));
    let info = next.info().expect("a defined opcode");
    let writes = info.operation == Operation::Write;
    let rest = match (open, writes) {
        (false, _) => 0,
        (true, true) if ends(next) => payload(next),
        (true, true) => 2 * MTU,
        (true, false) => MTU,
    };
    (sum + rest) as u32
}

fn ends(opcode: Opcode) -> bool {
    opcode.info().expect("a defined opcode").position.is_end()
}

/// Trap 41, the whole matrix: after each way into each place, each request of RC is either accepted or
/// refused with NAK 0x61, an event and the error state. Nothing beyond what came before is written.
#[test]
fn every_successor_is_accepted_or_refused_by_the_table() {
    let mut cases = 0;
    for (way, inside) in BEFORE {
        for (next, info) in requests(roce_wire::Transport::Rc) {
            let mut attack = Attack::new(Service::Rc);
            for id in 0..3 {
                attack
                    .lan
                    .recv(attack.victim, id, (16384 + id as usize * 4096, 4096));
            }
            let after = walk(&mut attack, way, length_for(way, next));
            assert_eq!(attack.counter("sent_fatal_nak"), 0, "{way:?}");
            attack.replies();
            let mut ext = attack.ext(next, own_length(next));
            if ext.ieth.is_some() {
                // A key that may be invalidated would be: this one may not, and that comes later.
                ext.ieth = Some(attack.other.1.rkey);
            }
            let bth = attack.bth(next, after);
            attack.packet(bth, ext, &vec![9; payload(next)]);
            let good = follows(inside, info);
            let (last, psn) = (attack.replies().pop(), bth.psn.value());
            let (_, at, syndrome) = last.expect("an answer");
            let expected = match (good, ext.ieth.is_some()) {
                (true, false) => 0x1f,
                (true, true) => 0x62,
                (false, _) => 0x61,
            };
            assert_eq!((at, syndrome), (psn, Some(expected)), "{way:?} then {next}");
            let refused = expected != 0x1f;
            assert_eq!(attack.counter("sent_fatal_nak"), u64::from(refused));
            let event = attack.lan.events(0).pop();
            let wanted = match expected {
                0x61 => Some(AsyncEvent::QpRequestError(attack.victim.qpn)),
                0x62 => Some(AsyncEvent::QpAccessError(attack.victim.qpn)),
                _ => None,
            };
            assert_eq!(event, wanted, "{way:?} then {next}");
            let state = if refused { QpState::Err } else { QpState::Rts };
            let all = [(0, 3 * MTU), (16384, 3 * 4096)];
            let before = written_by(way);
            attack.finish(state, if refused { &before } else { &all });
            cases += 1;
        }
    }
    assert_eq!(cases, 16 * 19);
}

/// The length that the RETH of `next` itself names, where it has one.
fn own_length(next: Opcode) -> u32 {
    match next.info().map(|info| (info.operation, info.position)) {
        Some((Operation::Write, Position::First)) => 2 * MTU as u32,
        Some((Operation::ReadRequest, _)) => 16,
        _ => payload(next) as u32,
    }
}

/// The same matrix on UC: what does not follow is dropped, with the rest of its message; the queue pair
/// stays, says nothing, and the next message is served.
#[test]
fn on_uc_a_wrong_successor_is_dropped() {
    for (way, inside) in BEFORE {
        let Some(way) = way
            .iter()
            .map(|opcode| as_uc(*opcode))
            .collect::<Option<Vec<_>>>()
        else {
            continue;
        };
        for (next, info) in requests(roce_wire::Transport::Uc) {
            let mut attack = Attack::new(Service::Uc);
            for id in 0..4 {
                attack
                    .lan
                    .recv(attack.victim, id, (16384 + id as usize * 4096, 4096));
            }
            let after = walk(&mut attack, &way, length_for(&way, next));
            let before = attack.counter("drop_unreliable");
            assert_eq!(before, 0, "{way:?}");
            let length = own_length(next);
            attack.request(next, after, length, &vec![9; payload(next)]);
            // UC starts a new message whenever one starts (IBA 9.8.3).
            let good = info.position.is_start() || follows(inside, info);
            let dropped = attack.counter("drop_unreliable");
            assert_eq!(dropped, u64::from(!good), "{way:?} then {next}");
            attack.lan.received(attack.victim);
            let only = Opcode::UC_SEND_ONLY;
            attack.request(only, after + 1, 0, b"then this");
            let received = attack.lan.received(attack.victim);
            assert_eq!(received.len(), 1, "{way:?} then {next}");
            assert_eq!(received[0].byte_len, 9);
            assert_eq!(attack.replies(), []);
            attack.finish(QpState::Rts, &[(0, 3 * MTU), (16384, 4 * 4096)]);
        }
    }
}

fn as_uc(opcode: Opcode) -> Option<Opcode> {
    let uc = Opcode(opcode.0 | 0x20);
    uc.info().map(|_| uc)
}

/// Trap 42: each position has its lengths. FIRST and MIDDLE are full, LAST has 1 to MTU bytes, ONLY 0 to
/// MTU; anything else is NAK 0x61 and is not written.
#[test]
fn every_position_has_its_lengths() {
    use Opcode as O;
    let lengths = [
        0,
        1,
        3,
        4,
        MTU - 4,
        MTU - 1,
        MTU,
        MTU + 1,
        MTU + 4,
        2 * MTU,
        4096,
    ];
    let positions: [(&[Opcode], Opcode); 8] = [
        (&[], O::RC_SEND_FIRST),
        (&[O::RC_SEND_FIRST], O::RC_SEND_MIDDLE),
        (&[O::RC_SEND_FIRST], O::RC_SEND_LAST),
        (&[], O::RC_SEND_ONLY),
        (&[], O::RC_RDMA_WRITE_FIRST),
        (&[O::RC_RDMA_WRITE_FIRST], O::RC_RDMA_WRITE_MIDDLE),
        (&[O::RC_RDMA_WRITE_FIRST], O::RC_RDMA_WRITE_LAST),
        (&[], O::RC_RDMA_WRITE_ONLY),
    ];
    for (way, next) in positions {
        let position = next.info().expect("a defined opcode").position;
        for length in lengths {
            let mut attack = Attack::new(Service::Rc);
            attack.lan.recv(attack.victim, 1, (16384, 16384));
            let written: usize = way.len() * MTU;
            let more = if position.is_end() { 0 } else { MTU };
            let after = walk(&mut attack, way, (written + length + more) as u32);
            let reth = (length + more) as u32;
            attack.request(next, after, reth, &vec![9; length]);
            let legal = match position {
                Position::First | Position::Middle => length == MTU,
                Position::Last => (1..=MTU).contains(&length),
                Position::Only => length <= MTU,
            };
            let (_, _, syndrome) = attack.replies().pop().expect("an answer");
            let expected = if legal { 0x1f } else { 0x61 };
            assert_eq!(syndrome, Some(expected), "{next} of {length} bytes");
            let fits = if legal { length } else { 0 };
            let changed = match next.info().map(|info| info.operation) {
                Some(Operation::Send) => (16384, written + fits),
                _ => (0, if way.is_empty() { fits } else { written + fits }),
            };
            let state = if legal { QpState::Rts } else { QpState::Err };
            attack.finish(state, &[changed]);
        }
    }
}

/// The RETH's length is the sum of the payloads: one byte less or more, in one packet or at the end of
/// three, is NAK 0x61; so is a length above 2^31.
#[test]
fn a_write_is_as_long_as_it_says() {
    use Opcode as O;
    for claimed in [0, 1, 7, 9, 0x8000_0000, 0x8000_0001, u32::MAX] {
        let mut attack = Attack::new(Service::Rc);
        attack.request(O::RC_RDMA_WRITE_ONLY, 0, claimed, &[9; 8]);
        attack.expect_refusal(0x61, 0);
        attack.finish(QpState::Err, &[]);
    }
    for claimed in [2 * MTU as u32 + 7, 2 * MTU as u32 + 9] {
        let mut attack = Attack::new(Service::Rc);
        attack.request(O::RC_RDMA_WRITE_FIRST, 0, claimed, &[9; MTU]);
        attack.request(O::RC_RDMA_WRITE_MIDDLE, 1, 0, &[9; MTU]);
        attack.request(O::RC_RDMA_WRITE_LAST, 2, 0, &[9; 8]);
        attack.expect_refusal(0x61, 2);
        attack.finish(QpState::Err, &[(0, 2 * MTU)]);
    }
    // A MIDDLE that would be the end, and one beyond it.
    for claimed in [2 * MTU as u32, MTU as u32 + 1] {
        let mut attack = Attack::new(Service::Rc);
        attack.request(O::RC_RDMA_WRITE_FIRST, 0, claimed, &[9; MTU]);
        attack.request(O::RC_RDMA_WRITE_MIDDLE, 1, 0, &[9; MTU]);
        attack.expect_refusal(0x61, 1);
        attack.finish(QpState::Err, &[(0, MTU)]);
    }
}

/// A SEND that grows beyond its receive fails it at the packet that does not fit; what came before is in
/// the receive, nothing is behind it.
#[test]
fn an_endless_send_ends_at_its_receive() {
    let mut attack = Attack::new(Service::Rc);
    attack.lan.recv(attack.victim, 1, (16384, 3000));
    attack.request(Opcode::RC_SEND_FIRST, 0, 0, &[9; MTU]);
    for after in 1..40 {
        attack.request(Opcode::RC_SEND_MIDDLE, after, 0, &[9; MTU]);
    }
    let replies = attack.replies();
    assert_eq!(
        replies,
        [(ACK, 200, GOOD), (ACK, 201, GOOD), (ACK, 202, Some(0x61))]
    );
    attack
        .lan
        .expect_received(attack.victim, &[(1, Status::LocLenErr)]);
    assert_eq!(attack.counter("drop_qp_state"), 37, "it is in error");
    attack.finish(QpState::Err, &[(16384, 2 * MTU)]);
}

/// A message has at most 2^31 bytes also where its receive holds more, as one whose SGEs overlap may:
/// the packet that would be one byte too much is NAK 0x61.
#[test]
fn an_endless_send_ends_at_the_longest_message() {
    const PACKET: usize = 4096;
    const PIECES: usize = 33;
    const PIECE: u32 = 1 << 26;
    let mut lan = Lan::with(2, |setup| {
        setup.engine.max_sge = PIECES as u32;
        setup.caps.max_recv_sge = PIECES as u32;
    });
    let (_, mr) = lan.register(0, PIECE as usize, Access::LOCAL_WRITE);
    lan.world.net().trace_packets(0);
    let mut attack = Attack::on(lan, Service::Rc, |wish| wish.mtu = Mtu::B4096);
    let sge = Sge {
        addr: mr.addr,
        length: PIECE,
        lkey: mr.lkey,
    };
    let request = RecvWr {
        wr_id: 1,
        sges: &[sge; PIECES],
    };
    let device = attack.lan.world.device(0);
    device
        .post_recv(attack.victim.qp, &[request])
        .expect("room");
    let meta = attack.meta;
    let seed = IcrcSeed::new(meta.remote, meta.local, meta.source_port, ROCE_PORT);
    let whole = ((1_u64 << 31) / PACKET as u64) as i32;
    for after in 0..=whole {
        let opcode = if after == 0 {
            Opcode::RC_SEND_FIRST
        } else {
            Opcode::RC_SEND_MIDDLE
        };
        let mut bth = attack.bth(opcode, after);
        bth.ack_request = after % 200 == 199;
        let headers = Headers {
            bth,
            ext: Ext::NONE,
        };
        let mut bytes = vec![9; headers.packet_len(PACKET)];
        headers.frame(&mut bytes, PACKET);
        seed.seal(0, IPV4_DONT_FRAGMENT, &mut bytes);
        attack.inject(bytes);
        if after % 200 == 199 {
            attack.settle();
            assert_eq!(attack.replies(), [(ACK, EXPECTED + after as u32, GOOD)]);
        }
    }
    attack.settle();
    attack.expect_refusal(0x61, whole as u32);
    attack
        .lan
        .expect_received(attack.victim, &[(1, Status::RemInvReqErr)]);
    attack.finish(QpState::Err, &[]);
}

impl Attack {
    /// Asserts that the last answer refuses the packet `after`.
    pub(crate) fn expect_refusal(&mut self, syndrome: u8, after: u32) {
        let last = self.replies().pop();
        assert_eq!(last, Some((ACK, self.expected + after, Some(syndrome))));
        assert_eq!(self.counter("sent_fatal_nak"), 1);
    }
}
