//! Stock perftest and `roce -d verbs:rxe0` in turn on one device, with the same options.
//!
//! ```text
//! cargo bench -p roce-tests --bench parity [-- ROUNDS]
//! ```
//!
//! Both ends of a run are in the guest of Linux 6.12 and of one kind. A line a test says the medians of all rounds, how
//! far the runs of each kind are apart, and whether the medians differ by less.

use core::time::Duration;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use roce_tests::guest::{Guest, Inside};
use roce_tests::{command, needs, table};

/// A test with its options, and the column that is compared, counted from 0.
const RUNS: [(&str, &str, usize); 9] = [
    ("write_bw", "-s 65536 -n 400", AVERAGE),
    ("write_bw", "-s 64 -n 4000", AVERAGE),
    ("read_bw", "-s 65536 -n 400", AVERAGE),
    ("send_bw", "-s 65536 -n 400", AVERAGE),
    ("send_bw", "-s 64 -n 4000", AVERAGE),
    ("write_lat", "-s 2 -n 2000", TYPICAL),
    ("send_lat", "-s 64 -n 2000", TYPICAL),
    ("read_lat", "-s 2 -n 2000", TYPICAL),
    ("atomic_lat", "-n 2000", TYPICAL),
];
/// Of a bandwidth row: the average in MiB/s.
const AVERAGE: usize = 3;
/// Of a latency row: t_typical in us.
const TYPICAL: usize = 4;

const ROUNDS: usize = 9;
const LIMIT: Duration = Duration::from_secs(120);
/// Runs without figures that are repeated: perftest cannot always calibrate its clock in an emulated machine.
const TRIES: u32 = 10;

fn main() -> ExitCode {
    match compare() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("parity: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn compare() -> Result<()> {
    let rounds = std::env::args().find_map(|word| word.parse().ok());
    let rounds: usize = rounds.unwrap_or(ROUNDS).max(3);
    if let Some(reason) = needs::unavailable(needs::GUEST) {
        bail!("{reason}");
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("..")
        .canonicalize()?;
    let mut inside = Inside::with(command::release(&target)?, "parity", "trixie", &target)?;
    println!(
        "| test | options | | stock: median (least to most) | roce: median (least to most) | difference | spread | |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut port = 20_000;
    let mut apart = 0;
    for (test, options, column) in RUNS {
        let (mut stock, mut ours) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            // Who goes first changes: what a run leaves in caches is shared fairly.
            for first in [round % 2 == 0, round % 2 != 0] {
                let (command, figures) = match first {
                    true => (format!("ib_{test} -d rxe0 -F {options}"), &mut stock),
                    false => {
                        let test = test.replace('_', "-");
                        (format!("roce {test} -d verbs:rxe0 {options}"), &mut ours)
                    }
                };
                figures.push(run(&mut inside.guest, &command, column, &mut port)?);
            }
        }
        let (stock, ours) = (Spread::of(stock), Spread::of(ours));
        let difference = (ours.median - stock.median).abs();
        let spread = stock.width().max(ours.width());
        let within = difference < spread;
        apart += u32::from(!within);
        println!(
            "| {} | `{options}` | {} | {stock} | {ours} | {difference:.2} | {spread:.2} | {} |",
            test.replace('_', "-"),
            if column == AVERAGE { "MiB/s" } else { "us" },
            if within { "within" } else { "apart" },
        );
    }
    println!("{rounds} rounds, {apart} tests are further apart than their runs");
    inside.end()
}

/// Runs both ends of one kind and returns a figure of the client's row.
fn run(guest: &mut Guest, command: &str, column: usize, port: &mut u16) -> Result<f64> {
    for _ in 0..TRIES {
        *port += 1;
        let command = format!("{command} -x 1 -p {port}");
        guest.serve(&command, *port)?;
        let told = guest.run(&format!("{command} 127.0.0.1"), LIMIT)?;
        let served = guest.served(LIMIT)?;
        ensure!(
            told.status == 0 && served.status == 0,
            "{command}:\n{}\n{}",
            told.text,
            served.text
        );
        let rows = table::rows(&told.text);
        let row = rows.first().context("a row")?;
        let figure = *row.numbers.get(column).context("a column")?;
        if figure > 0.0 && !told.text.contains("Correlation coefficient") {
            return Ok(figure);
        }
    }
    bail!("{command}: no figures in {TRIES} runs")
}

/// The runs of one kind.
struct Spread {
    least: f64,
    median: f64,
    most: f64,
}

impl Spread {
    fn of(mut figures: Vec<f64>) -> Self {
        figures.sort_by(f64::total_cmp);
        Self {
            least: figures[0],
            median: figures[figures.len() / 2],
            most: figures[figures.len() - 1],
        }
    }

    fn width(&self) -> f64 {
        self.most - self.least
    }
}

impl core::fmt::Display for Spread {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "{:.2} ({:.2} to {:.2})",
            self.median, self.least, self.most
        )
    }
}
