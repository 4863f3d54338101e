//! Keys and addresses that name memory which was not granted.

use roce_engine::verbs::{Access, AsyncEvent, Backend, Mr, QpState, RKey, SendOp, Service, Status};
use roce_tests::lan::pattern;
use roce_wire::{AtomicEth, Opcode};

use crate::attack::{ACK, Attack, GOOD, MTU, named};

const WRITE: Opcode = Opcode::RC_RDMA_WRITE_ONLY;
const READ: Opcode = Opcode::RC_RDMA_READ_REQUEST;
const ACCESSES: [Opcode; 6] = [
    WRITE,
    Opcode::RC_RDMA_WRITE_FIRST,
    Opcode::RC_RDMA_WRITE_ONLY_WITH_IMM,
    READ,
    Opcode::RC_FETCH_ADD,
    Opcode::RC_CMP_SWAP,
];

/// Sends an access of `length` bytes; a WRITE carries as many as its packet can.
fn access(attack: &mut Attack, opcode: Opcode, addr: u64, rkey: RKey, length: u32) {
    let info = opcode.info().expect("a defined opcode");
    let bytes = if info.has_payload {
        (length as usize).min(MTU)
    } else {
        0
    };
    let ext = named(opcode, addr, rkey, length);
    attack.packet(attack.bth(opcode, 0), ext, &vec![9; bytes]);
}

/// One access is refused with NAK 0x62 and an access event, and its victim's queue pair is in error.
fn expect_denied(opcode: Opcode, claim: impl Fn(&Attack) -> (u64, RKey), what: &str) {
    let mut attack = Attack::new(Service::Rc);
    attack.lan.recv(attack.victim, 1, (16384, 64));
    let (addr, rkey) = claim(&attack);
    let length = if opcode == Opcode::RC_RDMA_WRITE_FIRST {
        MTU as u32 + 8
    } else {
        8
    };
    access(&mut attack, opcode, addr, rkey, length);
    let replies = attack.replies();
    assert_eq!(replies, [(ACK, 200, Some(0x62))], "{opcode} {what}");
    let event = AsyncEvent::QpAccessError(attack.victim.qpn);
    assert_eq!(attack.lan.events(0), [event], "{opcode} {what}");
    attack
        .lan
        .expect_received(attack.victim, &[(1, Status::WrFlushErr)]);
    attack.finish(QpState::Err, &[]);
}

/// Every access with a key of another domain, of memory without the right, of none, or one bit off is
/// refused, whatever its address.
#[test]
fn keys_that_were_not_granted_are_refused() {
    for opcode in ACCESSES {
        let other = |attack: &Attack| (attack.other.1.addr, attack.other.1.rkey);
        expect_denied(opcode, other, "of another domain");
        let private = |attack: &Attack| (attack.private.1.addr, attack.private.1.rkey);
        expect_denied(opcode, private, "without remote rights");
        let mixed = |attack: &Attack| (attack.private.1.addr, attack.mr().rkey);
        expect_denied(opcode, mixed, "for other memory");
        for key in [0, 1, 0xff, 0x100, u32::MAX, 0x8000_0000] {
            let fixed = |attack: &Attack| (attack.mr().addr, RKey(key));
            expect_denied(opcode, fixed, "made up");
        }
        for bit in 0..32 {
            let flipped = |attack: &Attack| (attack.mr().addr, RKey(attack.mr().rkey.0 ^ 1 << bit));
            expect_denied(opcode, flipped, "one bit off");
        }
    }
}

/// Addresses before, behind and across the ends of granted memory, and at the ends of the address space,
/// where sums wrap.
#[test]
fn addresses_that_were_not_granted_are_refused() {
    let end = |attack: &Attack| attack.mr().addr + attack.mr().length;
    for opcode in ACCESSES {
        let atomic = opcode == Opcode::RC_FETCH_ADD || opcode == Opcode::RC_CMP_SWAP;
        let key = |attack: &Attack| attack.mr().rkey;
        for back in [8, 16, 4096] {
            let before = |attack: &Attack| (attack.mr().addr - back, key(attack));
            expect_denied(opcode, before, "before");
        }
        for behind in [0, 8, 4096] {
            let after = |attack: &Attack| (end(attack) + behind, key(attack));
            expect_denied(opcode, after, "behind");
        }
        for addr in [0, 8, u64::MAX - 7, u64::MAX - 4095, 1 << 63, (1 << 63) - 8] {
            let fixed = |_: &Attack| (addr & !7, RKey(0));
            expect_denied(opcode, fixed, "anywhere");
            let keyed = |attack: &Attack| (addr & !7, key(attack));
            expect_denied(opcode, keyed, "at an end of the address space");
        }
        if !atomic {
            for over in 1..8 {
                let across = |attack: &Attack| (end(attack) - 8 + over, key(attack));
                expect_denied(opcode, across, "across the end");
                let across = |attack: &Attack| (attack.mr().addr - over, key(attack));
                expect_denied(opcode, across, "across the start");
            }
            let wrapping = |attack: &Attack| (u64::MAX - 3, key(attack));
            expect_denied(opcode, wrapping, "across 2^64");
        }
    }
}

/// Lengths up to 2^31 that reach beyond are 0x62, longer ones are no request at all: 0x61. None shows or
/// changes a byte.
#[test]
fn lengths_that_reach_beyond_are_refused() {
    for opcode in [READ, Opcode::RC_RDMA_WRITE_FIRST] {
        for (length, syndrome) in [
            (64 * 1024 + 1, 0x62),
            (1 << 30, 0x62),
            (1 << 31, 0x62),
            ((1 << 31) + 1, 0x61),
            (u32::MAX, 0x61),
        ] {
            for addr in [
                |mr: Mr| mr.addr,
                |mr: Mr| mr.addr + mr.length - 8,
                |_| u64::MAX - 7,
            ] {
                let mut attack = Attack::new(Service::Rc);
                let mr = attack.mr();
                access(&mut attack, opcode, addr(mr), mr.rkey, length);
                attack.expect_refusal(syndrome, 0);
                attack.finish(QpState::Err, &[]);
            }
        }
    }
}

/// Every address that is not a multiple of 8 is refused for an atomic with 0x61, with any key; the last
/// eight bytes may be reached, and those across the end not.
#[test]
fn atomics_are_aligned() {
    for opcode in [Opcode::RC_FETCH_ADD, Opcode::RC_CMP_SWAP] {
        for off in 1..8 {
            for base in [0, 64 * 1024 - 8, 64 * 1024 - 16] {
                for good_key in [true, false] {
                    let mut attack = Attack::new(Service::Rc);
                    let mr = attack.mr();
                    let rkey = if good_key { mr.rkey } else { RKey(3) };
                    access(&mut attack, opcode, mr.addr + base + off, rkey, 8);
                    attack.expect_refusal(0x61, 0);
                    attack.finish(QpState::Err, &[]);
                }
            }
        }
        let mut attack = Attack::new(Service::Rc);
        let mr = attack.mr();
        access(&mut attack, opcode, mr.addr + mr.length - 8, mr.rkey, 8);
        assert_eq!(
            attack.replies(),
            [(Opcode::RC_ATOMIC_ACKNOWLEDGE, 200, GOOD)]
        );
        attack.finish(QpState::Rts, &[(64 * 1024 - 8, 8)]);
    }
}

/// A key is dead when its registration ends, and one made later in its place is another.
#[test]
fn stale_keys_are_refused() {
    for opcode in ACCESSES {
        let mut attack = Attack::new(Service::Rc);
        let (region, mr) = attack.lan.register(0, 4096, roce_tests::rc::all_rights());
        let pd = attack.lan.hosts[0].pd;
        let device = attack.lan.world.device(0);
        device.deregister(mr).expect("it exists");
        let rights = roce_tests::rc::all_rights();
        let again = || device.register(pd, &region, rights).ok();
        let keys: Vec<RKey> = core::iter::from_fn(again).map(|mr| mr.rkey).collect();
        assert!(!keys.contains(&mr.rkey));
        assert!(
            keys.iter().any(|key| key.0 >> 8 == mr.rkey.0 >> 8),
            "its place is taken"
        );
        attack.lan.recv(attack.victim, 1, (16384, 64));
        let length = if opcode == Opcode::RC_RDMA_WRITE_FIRST {
            2048
        } else {
            8
        };
        access(&mut attack, opcode, mr.addr, mr.rkey, length);
        attack.expect_refusal(0x62, 0);
        assert!((0..4096).all(|at| region.load(at) == 0));
        attack.lan.expect_state(attack.victim, QpState::Err);
        attack.expect_memory(&[]);
    }
}

/// A registration that ends in the middle of a WRITE ends the WRITE: what comes after is not written.
#[test]
fn a_registration_may_end_in_the_middle_of_a_message() {
    let mut attack = Attack::new(Service::Rc);
    let (region, mr) = attack.lan.register(0, 4096, roce_tests::rc::all_rights());
    let first = Opcode::RC_RDMA_WRITE_FIRST;
    let ext = named(first, mr.addr, mr.rkey, 2048);
    attack.packet(attack.bth(first, 0), ext, &[9; MTU]);
    deregister(&mut attack, mr);
    attack.request(Opcode::RC_RDMA_WRITE_LAST, 1, 0, &[9; MTU]);
    attack.expect_refusal(0x62, 1);
    assert!((MTU..4096).all(|at| region.load(at) == 0));
    attack.finish(QpState::Err, &[]);
}

/// A window that is invalidated in the middle of a WRITE or a READ of its peer ends that too.
#[test]
fn a_window_may_end_in_the_middle_of_a_message() {
    let mut attack = Attack::new(Service::Rc);
    let pd = attack.lan.hosts[0].pd;
    let mw = attack.lan.world.device(0).alloc_mw(pd).expect("a window");
    let mr = attack.mr();
    let bind = SendOp::BindMw {
        mw,
        rkey: RKey(mw.rkey.0 ^ 0x55),
        mr,
        addr: mr.addr + 4096,
        length: 2048,
        access: Access::REMOTE_WRITE,
    };
    attack.post(1, bind, (0, 0));
    attack
        .lan
        .expect_sent(attack.victim, &[(1, Status::Success)]);
    let first = Opcode::RC_RDMA_WRITE_FIRST;
    let ext = named(first, mr.addr + 4096, RKey(mw.rkey.0 ^ 0x55), 2048);
    attack.packet(attack.bth(first, 0), ext, &[9; MTU]);
    attack.post(2, SendOp::LocalInv(RKey(mw.rkey.0 ^ 0x55)), (0, 0));
    attack.request(Opcode::RC_RDMA_WRITE_LAST, 1, 0, &[9; MTU]);
    attack.expect_refusal(0x62, 1);
    attack.finish(QpState::Err, &[(4096, MTU)]);
}

fn deregister(attack: &mut Attack, mr: Mr) {
    let device = attack.lan.world.device(0);
    device.deregister(mr).expect("it exists");
}

/// Ends the registration that a READ of 32 packets is answered from: the packet that can't be read is refused.
fn end_in_the_middle(attack: &mut Attack, mr: Mr) {
    deregister(attack, mr);
    attack.settle();
    let replies = attack.replies();
    let (last, data) = replies.split_last().expect("answers");
    assert!(
        !data.is_empty() && data.len() < 32,
        "{} packets of data",
        data.len()
    );
    assert_eq!(*last, (ACK, 200 + data.len() as u32, Some(0x62)));
}

/// READ memory that ends while its answer is on its way: the rest is a NAK 0x62 at the packet that can't
/// be read.
#[test]
fn a_registration_may_end_in_the_middle_of_an_answer() {
    let mut lan = roce_tests::lan::Lan::with(2, |setup| setup.slots = 1);
    let (_, mr) = lan.register(0, 32768, roce_tests::rc::all_rights());
    let mut attack = Attack::on(lan, Service::Rc, |_| {});
    let bytes = attack.bytes(
        attack.bth(READ, 0),
        named(READ, mr.addr, mr.rkey, 32768),
        &[],
    );
    attack.inject(bytes);
    for _ in 0..6 {
        attack.lan.world.step();
    }
    end_in_the_middle(&mut attack, mr);
    attack.finish(QpState::Err, &[]);
}

/// What was accepted before a refused request is answered before the NAK, also when both came in one
/// burst: a peer whose READ was good gets it.
#[test]
fn what_came_before_a_refusal_is_answered() {
    let mut attack = Attack::new(Service::Rc);
    let mr = attack.mr();
    let read = attack.bytes(attack.bth(READ, 0), attack.ext(READ, 2500), &[]);
    let add = attack.bytes(
        attack.bth(Opcode::RC_FETCH_ADD, 3),
        attack.ext(Opcode::RC_FETCH_ADD, 8),
        &[],
    );
    let bad = named(WRITE, mr.addr, RKey(0), 8);
    let bad = attack.bytes(attack.bth(WRITE, 4), bad, &[9; 8]);
    let late = attack.bytes(attack.bth(WRITE, 5), attack.ext(WRITE, 8), &[9; 8]);
    for bytes in [read, add, bad, late] {
        attack.inject(bytes);
    }
    attack.settle();
    let replies = [
        (Opcode::RC_RDMA_READ_RESPONSE_FIRST, 200, GOOD),
        (Opcode::RC_RDMA_READ_RESPONSE_MIDDLE, 201, None),
        (Opcode::RC_RDMA_READ_RESPONSE_LAST, 202, GOOD),
        (Opcode::RC_ATOMIC_ACKNOWLEDGE, 203, GOOD),
        (ACK, 204, Some(0x62)),
    ];
    assert_eq!(attack.replies(), replies);
    attack.finish(QpState::Err, &[(0, 8)]);
}

/// If such an answer can't be given any more, its own PSN is refused; the queue pair fails once.
#[test]
fn an_answer_before_a_refusal_may_be_refused_itself() {
    let lan = roce_tests::lan::Lan::with(2, |setup| setup.slots = 1);
    let mut attack = Attack::on(lan, Service::Rc, |_| {});
    let (_, mr) = attack.lan.register(0, 32768, roce_tests::rc::all_rights());
    let read = named(READ, mr.addr, mr.rkey, 32768);
    let read = attack.bytes(attack.bth(READ, 0), read, &[]);
    let bad = named(WRITE, mr.addr, RKey(0), 8);
    let bad = attack.bytes(attack.bth(WRITE, 32), bad, &[9; 8]);
    attack.inject(read);
    attack.inject(bad);
    for _ in 0..6 {
        attack.lan.world.step();
    }
    attack.lan.expect_state(attack.victim, QpState::Err);
    end_in_the_middle(&mut attack, mr);
    let event = AsyncEvent::QpAccessError(attack.victim.qpn);
    assert_eq!(attack.lan.events(0), [event]);
    attack.finish(QpState::Err, &[]);
}

/// The requester's side of the same: the good requests succeed, the bad one has its status.
#[test]
fn good_requests_before_a_bad_one_succeed() {
    let mut lan = roce_tests::lan::Lan::new(2);
    let [a, b] = lan.connected(Service::Rc);
    let read = lan.read_from(1, 0);
    let bad = SendOp::Write {
        addr: lan.hosts[1].mr.addr,
        rkey: RKey(0),
    };
    lan.post(a, 1, read, (8192, 30_000));
    lan.post(a, 2, bad, (0, 8));
    lan.post(a, 3, read, (8192, 8));
    lan.run();
    let statuses = [
        (1, Status::Success),
        (2, Status::RemAccessErr),
        (3, Status::WrFlushErr),
    ];
    lan.expect_sent(a, &statuses);
    lan.expect_bytes(0, 8192, &pattern(1, 0, 30_000));
    lan.expect_state(b, QpState::Err);
    lan.expect_untouched_outside(1, &[]);
}

/// An attacker that guesses is stopped by its first wrong guess on RC. On UC it may guess for ever in
/// silence: all keys around, all places and generations of the table, and finds only what it was granted.
#[test]
fn guessing_keys_finds_nothing() {
    let mut attack = Attack::new(Service::Uc);
    let granted = attack.mr().rkey;
    let write = Opcode::UC_RDMA_WRITE_ONLY;
    let (mut after, mut guesses) = (0, 0);
    let places = (0..80_u32).flat_map(|place| (0..256).map(move |tag| place << 8 | tag));
    let wild = (0..512_u32).map(|n| n.wrapping_mul(0x9e37_79b9));
    for key in places.chain(wild) {
        for addr in [attack.private.1.addr, attack.other.1.addr] {
            let ext = named(write, addr, RKey(key), 8);
            let bytes = attack.bytes(attack.bth(write, after), ext, &[9; 8]);
            attack.inject(bytes);
            (after, guesses) = (after + 1, guesses + 1);
        }
        if key & 0xff == 0xff {
            attack.settle();
        }
    }
    attack.settle();
    assert_eq!(attack.counter("drop_unreliable"), guesses);
    assert_eq!(attack.counter("unreliable_gaps"), 0);
    attack.expect_memory(&[]);
    let mr = attack.mr();
    let ext = named(write, mr.addr, granted, 8);
    attack.packet(attack.bth(write, after), ext, &[9; 8]);
    attack.finish(QpState::Rts, &[(0, 8)]);
}

/// Requests of nothing name no memory: any key and address will do, and nothing is read or written. A
/// FIRST of nothing is no request.
#[test]
fn requests_of_nothing_touch_nothing() {
    let garbage = [(0, 0), (u64::MAX, u32::MAX), (1, 0x100), (u64::MAX - 7, 0)];
    for (addr, key) in garbage {
        let mut attack = Attack::new(Service::Rc);
        attack.lan.recv(attack.victim, 1, (16384, 0));
        attack.lan.recv(attack.victim, 2, (16384, 0));
        let imm = Opcode::RC_RDMA_WRITE_ONLY_WITH_IMM;
        for (after, opcode) in [WRITE, READ, imm, Opcode::RC_SEND_ONLY]
            .into_iter()
            .enumerate()
        {
            let ext = named(opcode, addr, RKey(key), 0);
            attack.packet(attack.bth(opcode, after as i32), ext, &[]);
        }
        let only = Opcode::RC_RDMA_READ_RESPONSE_ONLY;
        let replies = [
            (ACK, 200, GOOD),
            (only, 201, GOOD),
            (ACK, 202, GOOD),
            (ACK, 203, GOOD),
        ];
        assert_eq!(attack.replies(), replies);
        let received = [(1, Status::Success), (2, Status::Success)];
        attack.lan.expect_received(attack.victim, &received);
        attack.finish(QpState::Rts, &[]);
        let mut attack = Attack::new(Service::Rc);
        let first = Opcode::RC_RDMA_WRITE_FIRST;
        let ext = named(first, addr, RKey(key), 0);
        attack.packet(attack.bth(first, 0), ext, &[]);
        attack.expect_refusal(0x61, 0);
        attack.finish(QpState::Err, &[]);
    }
}

/// The rights of the queue pair come first: without them the answer is 0x61, whatever the key.
#[test]
fn a_queue_pair_without_rights_grants_nothing() {
    for opcode in ACCESSES {
        let mut attack = Attack::with(Service::Rc, |wish| wish.access = Access::LOCAL_WRITE);
        attack.lan.recv(attack.victim, 1, (16384, 64));
        let mr = attack.mr();
        let length = if opcode == Opcode::RC_RDMA_WRITE_FIRST {
            2048
        } else {
            8
        };
        access(&mut attack, opcode, mr.addr, mr.rkey, length);
        attack.expect_refusal(0x61, 0);
        attack.finish(QpState::Err, &[]);
    }
}

/// What is granted is what it says: a compare and swap swaps on a match only, a fetch and add wraps.
#[test]
fn granted_atomics_do_what_they_say() {
    let mut attack = Attack::new(Service::Rc);
    attack.lan.hosts[0].region.write(0, &u64::MAX.to_ne_bytes());
    let mr = attack.mr();
    let steps = [
        (Opcode::RC_CMP_SWAP, 5, 7, u64::MAX, u64::MAX),
        (
            Opcode::RC_CMP_SWAP,
            u64::MAX,
            u64::MAX - 1,
            u64::MAX,
            u64::MAX - 1,
        ),
        (Opcode::RC_FETCH_ADD, 0, 3, u64::MAX - 1, 1),
    ];
    for (after, (opcode, compare, swap_add, before, now)) in steps.into_iter().enumerate() {
        let mut ext = named(opcode, mr.addr, mr.rkey, 8);
        ext.atomic = Some(AtomicEth {
            addr: mr.addr,
            rkey: mr.rkey,
            swap_add,
            compare,
        });
        attack.packet(attack.bth(opcode, after as i32), ext, &[]);
        let packet = attack.lan.packets(0).pop().expect("an answer");
        assert_eq!(packet.ext.atomic_ack.map(|value| value.0), Some(before));
        attack.lan.expect_bytes(0, 0, &now.to_ne_bytes());
    }
    attack.finish(QpState::Rts, &[(0, 8)]);
}

/// A SEND that invalidates a key it may not is refused and not delivered; the memory keeps its key.
#[test]
fn foreign_keys_are_not_invalidated() {
    for case in 0..3 {
        let mut attack = Attack::new(Service::Rc);
        attack.lan.recv(attack.victim, 1, (16384, 64));
        let key = [attack.other.1.rkey, RKey(0), RKey(attack.mr().rkey.0 ^ 1)][case];
        let opcode = Opcode::RC_SEND_ONLY_WITH_INV;
        let ext = named(opcode, 0, key, 0);
        attack.packet(attack.bth(opcode, 0), ext, &[9; 8]);
        attack.expect_refusal(0x62, 0);
        attack
            .lan
            .expect_received(attack.victim, &[(1, Status::RemAccessErr)]);
        attack.lan.expect_bytes(0, 0, &pattern(0, 0, 64));
        attack.finish(QpState::Err, &[]);
    }
}
