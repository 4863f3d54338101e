//! Goodput over a lossy 10 Gb/s path in virtual time: loss × path MTU × depth, printed as one table.
//!
//! The bounds are wide: they catch a recovery that stalls, not a few per cent. The figures are those of
//! the protocol (windows, timers, resends); they say nothing about a machine's speed.

use core::num::NonZeroU64;
use core::time::Duration;

use roce_engine::sim::{Bottleneck, Faults, Loss, PortId};
use roce_engine::verbs::{Backend, Completion, Mtu, SendOp, Status};
use roce_tests::pair::Pair;

/// One way of using the path.
#[derive(Clone, Copy, Debug)]
struct Case {
    read: bool,
    mtu: Mtu,
    depth: usize,
    loss: f64,
}

#[test]
fn goodput_stays_within_its_bounds() {
    let mut wrong = Vec::new();
    println!("goodput in Gb/s of 10, 64 KiB messages, 10 us each way, by loss");
    println!(
        "operation  MTU depth {}",
        LOSSES.map(|loss| format!("{:>8}", percent(loss))).concat()
    );
    for read in [false, true] {
        for mtu in [Mtu::B1024, Mtu::B4096] {
            for depth in [1, 4, 32] {
                let mut line = String::new();
                for (column, loss) in LOSSES.into_iter().enumerate() {
                    let case = Case {
                        read,
                        mtu,
                        depth,
                        loss,
                    };
                    let goodput = goodput(case);
                    line.push_str(&format!("{goodput:8.2}"));
                    if goodput < floor(depth, column) {
                        wrong.push(format!("{case:?}: {goodput:.2} Gb/s"));
                    }
                }
                let operation = if read { "READ" } else { "WRITE" };
                println!("{operation:9} {:4} {depth:5} {line}", mtu.bytes());
            }
        }
    }
    assert!(wrong.is_empty(), "below their bounds: {wrong:#?}");
}

/// Returns the goodput that a case must have at least, in Gb/s.
fn floor(depth: usize, column: usize) -> f64 {
    let deep = [8.5, 7.0, 4.5, 1.3, 0.2];
    let lone = [6.0, 5.0, 3.5, 1.2, 0.2];
    if depth == 1 {
        lone[column]
    } else {
        deep[column]
    }
}

fn goodput(case: Case) -> f64 {
    let mut pair = Pair::with(|setup| {
        setup.mtu = [case.mtu; 2];
        setup.timeout = 8;
        setup.memory = 2 * MESSAGE;
    });
    pair.world.net().trace_packets(0);
    let faults = Faults {
        latency: Duration::from_micros(10),
        loss: Loss::Uniform(case.loss),
        bottleneck: Some(Bottleneck {
            bits_per_second: NonZeroU64::new(10_000_000_000).expect("not zero"),
            queue_bytes: 1 << 20,
            mark_bytes: u64::MAX,
        }),
        ..Faults::default()
    };
    for port in [PortId(0), PortId(1)] {
        pair.world.net().set_faults(port, faults);
    }
    let op = if case.read {
        pair.read_from(0, 0)
    } else {
        pair.write_to(0, 0)
    };
    transfer(&mut pair, op, case.depth);
    let seconds = pair.world.now().as_nanos() as f64 / 1e9;
    (MESSAGES * MESSAGE * 8) as f64 / seconds / 1e9
}

/// Keeps `depth` requests outstanding until all are done.
fn transfer(pair: &mut Pair, op: SendOp, depth: usize) {
    let (mut posted, mut done) = (0, 0);
    while done < MESSAGES {
        while posted < MESSAGES && posted - done < depth {
            pair.post(0, posted as u64, op, (0, MESSAGE as u32));
            posted += 1;
        }
        let cq = pair.ends[0].send_cq;
        let mut completions = Vec::new();
        pair.run_until(|world| {
            let mut out = [Completion::default(); 16];
            let count = world.device(0).poll_cq(cq, &mut out).expect("a healthy CQ");
            completions.extend_from_slice(&out[..count]);
            count > 0
        });
        assert!(
            completions.iter().all(|wc| wc.status == Status::Success),
            "{completions:?}"
        );
        done += completions.len();
    }
}

fn percent(loss: f64) -> String {
    format!("{}%", loss * 100.0)
}

const LOSSES: [f64; 5] = [0.0, 0.0001, 0.001, 0.01, 0.05];
const MESSAGE: usize = 65_536;
const MESSAGES: usize = 256;
