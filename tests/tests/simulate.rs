//! Random programs over a faulty network: fixed seeds, then fresh ones for a while.
//!
//! - `ROCE_SIM_SEED=…` runs that seed alone and prints its packets if it fails.
//! - `ROCE_SIM_SEEDS=N` runs N fresh seeds instead of a time-boxed batch.
//! - `ROCE_SIM_SECONDS=S` is the time box, 20 by default.
//! - `ROCE_SIM_BASE=…` is the first of the fresh seeds instead of one from the clock.

use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::panic::catch_unwind;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use roce_tests::workload::{Plan, Report, run};

#[test]
fn fixed_seeds_pass() {
    if variable("ROCE_SIM_SEED").is_some() {
        return;
    }
    sweep(0, Some(FIXED), Duration::from_secs(600));
}

#[test]
fn fresh_seeds_pass() {
    if let Some(seed) = variable("ROCE_SIM_SEED") {
        let plan = Plan::from_seed(seed);
        println!("{plan:#?}");
        match run(&plan, TRACE) {
            Ok(report) => println!("seed {seed}: {report:?}"),
            Err(failure) => panic!("{failure}\nseed {seed} ({:?}) failed", plan.mode),
        }
        return;
    }
    let clock = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(1, |time| time.as_nanos());
    let base = variable("ROCE_SIM_BASE").unwrap_or((clock as u64) << 20);
    let seconds = variable("ROCE_SIM_SECONDS").unwrap_or(20);
    match variable("ROCE_SIM_SEEDS") {
        Some(seeds) => sweep(base, Some(seeds), Duration::from_secs(24 * 3600)),
        None => sweep(base, None, Duration::from_secs(seconds)),
    }
}

#[test]
fn a_seed_repeats_exactly() {
    for seed in [3, 4] {
        let run = || run(&Plan::from_seed(seed), 0).unwrap();
        assert_eq!(format!("{:?}", run()), format!("{:?}", run()));
    }
}

/// Runs seeds from `base` on with all cores, until `count` are done or the time is over.
fn sweep(base: u64, count: Option<u64>, time: Duration) {
    let next = AtomicU64::new(0);
    let failed = AtomicU64::new(0);
    let start = Instant::now();
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let worker = || {
        let mut sum = Report::default();
        let mut seeds = 0;
        while start.elapsed() < time && failed.load(Ordering::Relaxed) < MOST_FAILURES {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if count.is_some_and(|count| number >= count) {
                break;
            }
            match attempt(base.wrapping_add(number)) {
                Some(report) => add(&mut sum, &report),
                None => _ = failed.fetch_add(1, Ordering::Relaxed),
            }
            seeds += 1;
        }
        (seeds, sum)
    };
    let (mut seeds, mut sum) = (0, Report::default());
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
        for worker in workers {
            let (ran, report) = worker.join().expect("a worker's panics are caught");
            seeds += ran;
            add(&mut sum, &report);
        }
    });
    let failed = failed.into_inner();
    println!(
        "simulate: {} passed, {failed} failed in {:.1} s: seeds from {base}, {} packets, {} requests done, {} directions ended by exhausted retries",
        seeds - failed,
        start.elapsed().as_secs_f64(),
        sum.packets,
        sum.completed,
        sum.failed
    );
    println!("simulate: {}", sum.services());
    assert_eq!(failed, 0, "the commands above replay the failing seeds");
    assert!(seeds > 0, "no seed was run");
}

/// Runs one seed; on failure prints what replays it.
fn attempt(seed: u64) -> Option<Report> {
    let outcome = catch_unwind(AssertUnwindSafe(|| run(&Plan::from_seed(seed), 0)));
    let what = match outcome {
        Ok(Ok(report)) => return Some(report),
        Ok(Err(failure)) => failure.what,
        Err(_) => "a panic (see above)".to_owned(),
    };
    eprintln!(
        "seed {seed} failed: {what}\n  replay: ROCE_SIM_SEED={seed} cargo test -p roce-tests --test simulate -- --nocapture fresh"
    );
    None
}

fn add(sum: &mut Report, report: &Report) {
    sum.packets += report.packets;
    sum.steps += report.steps;
    sum.time += report.time;
    sum.completed += report.completed;
    sum.failed += report.failed;
    sum.add_services(report);
}

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is not a number")),
    )
}

/// Seeds that every run of the tests begins with.
const FIXED: u64 = 300;

/// Failing seeds after which a sweep ends.
const MOST_FAILURES: u64 = 5;

/// Packets that a replay keeps.
const TRACE: usize = 400;
