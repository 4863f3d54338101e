//! Each fuzz target for a while, on any toolchain: inputs follow from a seed, so a failure replays.
//!
//! `ROCE_FUZZ_RUNS` is how many inputs each target gets; without it each gets `ROCE_FUZZ_SECONDS`, 12.
//! `ROCE_FUZZ_SEED` is the first input's seed. `ROCE_FUZZ_CORPUS` names a folder to which the inputs that the
//! others are made from are written, for libFuzzer.
#![allow(
    clippy::unwrap_used,
    reason = "a setting that can't be read should fail its test"
)]

use core::time::Duration;
use std::fs;
use std::panic::catch_unwind;
use std::path::Path;
use std::time::Instant;

use roce_tests::fuzzing::{TARGETS, Target, mutate};

/// How long each target runs unless it is told a number of inputs.
const SECONDS: u64 = 12;
/// Inputs between two looks at the clock.
const BATCH: u64 = 64;

#[test]
fn any_bytes_are_read_as_a_packet_or_refused() {
    smoke("parse");
}

#[test]
fn packets_come_back_as_they_went() {
    smoke("reparse");
}

#[test]
fn the_engine_keeps_its_promises_whatever_arrives() {
    smoke("receive");
}

#[test]
fn any_bytes_of_a_peer_end_the_exchange_in_a_value_or_an_error() {
    smoke("exchange");
}

fn smoke(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let corpus = (target.seeds)();
    if let Some(folder) = std::env::var_os("ROCE_FUZZ_CORPUS") {
        write_corpus(&Path::new(&folder).join(name), &corpus);
    }
    let runs = setting("ROCE_FUZZ_RUNS");
    let limit = Duration::from_secs(setting("ROCE_FUZZ_SECONDS").unwrap_or(SECONDS));
    let first = setting("ROCE_FUZZ_SEED").unwrap_or(0);
    let start = Instant::now();
    let mut input = Vec::new();
    let mut done: u64 = 0;
    while runs.map_or_else(
        || !done.is_multiple_of(BATCH) || start.elapsed() < limit,
        |runs| done < runs,
    ) {
        let seed = first.wrapping_add(done);
        mutate::input_of(seed, &corpus, target.max_len, &mut input);
        run(target, seed, &input);
        done += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{name}: {done} runs from seed {first} in {seconds:.1} s, {:.0} a second",
        done as f64 / seconds
    );
}

fn run(target: &Target, seed: u64, input: &[u8]) {
    if let Err(panic) = catch_unwind(|| (target.run)(input)) {
        eprintln!(
            "{name} fails on {input:02x?}\nreplay: ROCE_FUZZ_SEED={seed} ROCE_FUZZ_RUNS=1 \
             cargo test -p roce-tests --test fuzz_smoke",
            name = target.name
        );
        std::panic::resume_unwind(panic);
    }
}

fn setting(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name}={value} is no number")),
    )
}

fn write_corpus(folder: &Path, corpus: &[Vec<u8>]) {
    fs::create_dir_all(folder).unwrap();
    for (index, input) in corpus.iter().enumerate() {
        fs::write(folder.join(format!("{index:05}")), input).unwrap();
    }
}
