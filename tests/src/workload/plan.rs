//! A whole simulated run as data: network, connections and programs, all from one seed.

use core::num::NonZeroU64;
use core::time::Duration;

use roce_engine::sim::{Bottleneck, Faults, Loss, Rng};
use roce_engine::verbs::{Mtu, Psn};

use crate::workload::mixed::MixedPlan;
use crate::workload::program::{Program, Shape, cut};

/// What a run has to show.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// Faults stay on: whatever completes must be right, and the only failures are exhausted retries.
    Safety,
    /// Faults stop after a while: everything must complete with success.
    Liveness,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What it was made from.
    pub seed: u64,
    /// What it has to show.
    pub mode: Mode,
    /// IPv6 addresses instead of IPv4.
    pub ipv6: bool,
    /// Receivers see the IPv4 Identification.
    pub exact_icrc: bool,
    /// The path MTU of all connections.
    pub mtu: Mtu,
    /// What happens to the packets of each side.
    pub faults: [Faults; 2],
    /// When the faults stop in a liveness run.
    pub fault_phase: Duration,
    /// Packets that each side may send in a turn.
    pub slots: [usize; 2],
    /// Packets that a QP may have unacknowledged at first.
    pub window_start: u32,
    /// Packets that all QPs to the peer together may have unacknowledged.
    pub peer_window: u32,
    /// Packets that a QP may send before the next QP's turn.
    pub quantum: u32,
    /// Plain ACKs wait a turn.
    pub defer_acks: bool,
    /// One CQ for everything of a side, instead of two for each connection.
    pub one_cq: bool,
    /// Words for atomics that all connections of a side share.
    pub shared_words: usize,
    /// The connections.
    pub connections: Vec<Connection>,
    /// The queue pairs of other services; half of the runs have none.
    pub mixed: MixedPlan,
}

/// A connection: what its two ends have in common, and the ends.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The code of the acknowledgement timeout.
    pub timeout: u8,
    /// Transport retries.
    pub retry_cnt: u8,
    /// RNR retries; 7 is for ever.
    pub rnr_retry: u8,
    /// The ends.
    pub ends: [End; 2],
}

/// One end of a connection, as requester (its program) and as receiver.
#[derive(Clone, Debug)]
pub struct End {
    /// What it asks of the peer.
    pub program: Program,
    /// The first PSN that it sends.
    pub first_psn: Psn,
    /// Send requests that may be outstanding.
    pub sq_depth: usize,
    /// Receives that may be posted.
    pub rq_depth: usize,
    /// READs and atomics that it may have outstanding.
    pub max_rd_atomic: u8,
    /// READs and atomics that it answers at once.
    pub max_dest_rd_atomic: u8,
    /// The delay code of its RNR NAKs.
    pub min_rnr_timer: u8,
    /// Bytes that may be sent inline.
    pub max_inline: usize,
    /// The pieces of each receive in the order they are posted in: gap before it, then length.
    pub receives: Vec<Vec<(usize, usize)>>,
    /// How long the end waits before it posts more receives.
    pub receive_pause: Duration,
    /// Whether receives are posted before the peer may send.
    pub eager_receives: bool,
}

impl Plan {
    /// Makes the run of a seed. Even seeds are safety runs, odd ones liveness runs.
    pub fn from_seed(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mode = if seed.is_multiple_of(2) {
            Mode::Safety
        } else {
            Mode::Liveness
        };
        let ipv6 = rng.chance(0.3);
        // A receiver that doesn't know the ID checks 16 bits fewer: corruption would come through.
        let exact_icrc = ipv6 || rng.chance(0.7);
        let mtu = rng.pick(&[
            Mtu::B256,
            Mtu::B256,
            Mtu::B512,
            Mtu::B1024,
            Mtu::B2048,
            Mtu::B4096,
        ]);
        let alone = rng.chance(0.5);
        let connections = if alone {
            rng.pick(&[1, 1, 1, 2, 2, 3, 4, 8])
        } else {
            rng.pick(&[1, 1, 2])
        };
        let shared_words = rng.below(3) as usize;
        let mut faults = [random_faults(&mut rng, exact_icrc), Faults::default()];
        faults[1] = if rng.chance(0.6) {
            faults[0]
        } else {
            random_faults(&mut rng, exact_icrc)
        };
        if rng.chance(0.08) {
            faults = faults.map(|faults| Faults::delay(faults.latency));
        }
        let mut mixed = MixedPlan::default();
        if !alone {
            mixed = random_mixed(&mut rng, &mut faults, mtu, mode);
        }
        let budget = Budget::random(&mut rng, connections);
        let load = (&budget, connections, mixed.load(mtu));
        let timeout = timeout_code(&mut rng, &faults, load, mtu, mode);
        mixed.timeout = timeout;
        let make =
            |rng: &mut Rng| Connection::random(rng, mode, timeout, mtu, &budget, shared_words);
        Self {
            seed,
            mode,
            ipv6,
            exact_icrc,
            mtu,
            faults,
            // A NAK and six timeouts use up seven retries, and the seventh timeout fails the request: in
            // this time none is that far, and at least one resend comes after it.
            fault_phase: ack_timeout(timeout) * 4,
            slots: [(); 2].map(|()| rng.pick(&[1, 2, 7, 64, 256])),
            window_start: rng.pick(&[1, 3, 16, 64, 64]),
            peer_window: rng.pick(&[2, 20, 1024, 1024]),
            quantum: rng.pick(&[1, 4, 64, 64]),
            defer_acks: rng.chance(0.7),
            one_cq: rng.chance(0.5),
            shared_words,
            connections: (0..connections).map(|_| make(&mut rng)).collect(),
            mixed,
        }
    }

    /// Returns whether the network only delays, so that nothing may time out.
    pub fn is_calm(&self) -> bool {
        self.mode == Mode::Liveness && self.faults.iter().all(only_delays)
    }
}

fn only_delays(faults: &Faults) -> bool {
    *faults == Faults::delay(faults.latency)
}

/// Makes the links of other services. Over every second network their order and number is exact.
fn random_mixed(rng: &mut Rng, faults: &mut [Faults; 2], mtu: Mtu, mode: Mode) -> MixedPlan {
    if rng.chance(0.5) {
        for faults in faults.iter_mut() {
            (faults.duplicate, faults.reorder) = (0.0, 0.0);
        }
    }
    let repeats = |faults: &Faults| faults.duplicate > 0.0 || faults.reorder > 0.0;
    let repeats = faults.iter().any(repeats);
    let live = mode == Mode::Liveness;
    let calm = live && faults.iter().all(only_delays);
    MixedPlan::random(rng, mtu, calm, !live, repeats)
}

impl Connection {
    fn random(
        rng: &mut Rng,
        mode: Mode,
        timeout: u8,
        mtu: Mtu,
        budget: &Budget,
        shared_words: usize,
    ) -> Self {
        let both = rng.chance(0.6);
        let mut ends =
            [true, both].map(|active| End::random(rng, active, mtu, budget, shared_words));
        for side in 0..2 {
            // A requester may not have more outstanding than the responder answers.
            let limit = ends[1 - side].max_dest_rd_atomic;
            ends[side].max_rd_atomic = rng.range(1..=u64::from(limit)) as u8;
            let lengths = ends[1 - side].program.receive_lengths();
            ends[side].receives = receives(rng, &lengths);
        }
        let live = mode == Mode::Liveness;
        Self {
            timeout,
            retry_cnt: if live { 7 } else { rng.below(8) as u8 },
            rnr_retry: if live || rng.chance(0.8) {
                7
            } else {
                rng.below(7) as u8
            },
            ends,
        }
    }
}

impl End {
    fn random(rng: &mut Rng, active: bool, mtu: Mtu, budget: &Budget, shared_words: usize) -> Self {
        let sq_depth = rng.pick(&[1, 2, 3, 8, 16, 64]);
        let max_inline = rng.pick(&[0, 0, 32, 220, 512]);
        let shape = Shape {
            mtu,
            packets: budget.packets,
            ops: if active { budget.ops } else { 0 },
            longest: budget.longest,
            signal_every: rng.pick(&[1, 1, 2, 5, 100]),
            sq_depth,
            max_inline,
            shared_words,
        };
        let near_wrap = rng.pick(&[0x00ff_ff00, 0x007f_ff00, 0]) + rng.below(256) as u32;
        Self {
            program: Program::random(rng, &shape),
            first_psn: Psn::new(if rng.chance(0.6) {
                near_wrap
            } else {
                rng.bits() as u32
            }),
            sq_depth,
            rq_depth: rng.pick(&[1, 2, 5, 32, 128]),
            max_rd_atomic: 1,
            max_dest_rd_atomic: rng.range(1..=16) as u8,
            min_rnr_timer: rng.range(1..=12) as u8,
            max_inline,
            receives: Vec::new(),
            receive_pause: Duration::from_micros(rng.pick(&[0, 0, 5, 80, 600])),
            eager_receives: rng.chance(0.5),
        }
    }
}

impl Program {
    /// Returns the lengths of the messages that consume a receive, and whether they land in it.
    pub fn receive_lengths(&self) -> Vec<usize> {
        let length = |op: &crate::workload::Op| if op.writes_target() { 0 } else { op.len };
        let consuming = self.ops.iter().filter(|op| op.consumes_receive());
        consuming.map(length).collect()
    }
}

/// How much a run does.
struct Budget {
    ops: usize,
    packets: usize,
    longest: usize,
}

impl Budget {
    fn random(rng: &mut Rng, connections: usize) -> Self {
        // One run in 250 is long: megabytes.
        let (packets, longest) = if rng.chance(0.004) {
            (6000, 3 << 20)
        } else {
            let longest = rng.pick(&[16, 300, 3000, 10_000, 40_000, 160_000]);
            (rng.pick(&[60, 150, 400]), longest)
        };
        Self {
            ops: rng.range(1..=40) as usize,
            packets: (packets / connections).max(20),
            longest,
        }
    }
}

fn random_faults(rng: &mut Rng, exact_icrc: bool) -> Faults {
    let micros = |rng: &mut Rng, most: u64| Duration::from_nanos(rng.below(most * 1000));
    // What is on at all is drawn apart, so that each fault is also met alone.
    let some = |rng: &mut Rng, most: f64| {
        let level = rng.pick(&[0.0, 0.0, 0.02, 0.1, 0.5, 1.0]);
        most * level
    };
    let loss = match rng.below(4) {
        0 => Loss::None,
        1 => Loss::Burst {
            enter: 0.02,
            leave: 0.3,
            loss: 1.0,
        },
        _ => Loss::Uniform(some(rng, 0.2)),
    };
    Faults {
        latency: micros(rng, 20),
        jitter: micros(rng, 10),
        loss,
        duplicate: some(rng, 0.2),
        reorder: some(rng, 0.2),
        reorder_delay: micros(rng, 60),
        corrupt: if exact_icrc { some(rng, 0.1) } else { 0.0 },
        mark: some(rng, 0.2),
        bottleneck: rng.chance(0.2).then(|| Bottleneck {
            bits_per_second: NonZeroU64::new(rng.pick(&[2, 10, 40]) * 1_000_000_000)
                .unwrap_or(NonZeroU64::MIN),
            queue_bytes: rng.range(10_000..=200_000),
            mark_bytes: rng.range(0..=100_000),
        }),
    }
}

/// Returns a timeout that a healthy path never exceeds (or, in some safety runs, one that it does).
fn timeout_code(
    rng: &mut Rng,
    faults: &[Faults; 2],
    (budget, connections, (more_packets, more_bytes)): (&Budget, usize, (usize, usize)),
    mtu: Mtu,
    mode: Mode,
) -> u8 {
    let bytes = (budget.packets + budget.longest / mtu.bytes() + 64) * (mtu.bytes() + 100);
    let bytes = (bytes * connections * 2 + more_bytes) as u64;
    let one_way = |faults: &Faults| {
        let queue = faults
            .bottleneck
            .map_or(Duration::ZERO, |b| b.time_of(bytes));
        faults.latency + faults.jitter + faults.reorder_delay + queue
    };
    // The slowest turns send one packet each: 100 ns of virtual time.
    let turns = Duration::from_nanos(400 * (budget.packets * connections + more_packets) as u64);
    let round_trip = one_way(&faults[0]) + one_way(&faults[1]) + turns;
    let least = (1..31)
        .find(|code| ack_timeout(*code) > round_trip * 2)
        .unwrap_or(31);
    if mode == Mode::Safety && rng.chance(0.1) {
        return (least - 1).max(1);
    }
    least + rng.below(2) as u8
}

fn ack_timeout(code: u8) -> Duration {
    Duration::from_nanos(4096 << code)
}

/// Makes the receives for messages of these lengths: each is at least as long.
fn receives(rng: &mut Rng, lengths: &[usize]) -> Vec<Vec<(usize, usize)>> {
    let exact = rng.chance(0.5);
    let spare = rng.below(3) as usize;
    let lengths = lengths
        .iter()
        .copied()
        .chain(core::iter::repeat_n(16, spare));
    let mut receive = |len: usize| {
        let room = if exact {
            len
        } else {
            len + rng.below(40) as usize
        };
        let gap = |rng: &mut Rng| rng.below(9) as usize;
        cut(rng, room)
            .into_iter()
            .map(|len| (gap(rng), len))
            .collect()
    };
    lengths.map(&mut receive).collect()
}
