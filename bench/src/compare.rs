//! `roce compare`: the same tests over every backend that this machine can run, as one table.
//!
//! Each cell is a run of this program in the lab, in processes of its own, so that it is what a user would measure
//! by hand. Rounds go through all cells in turn, so that a drift of the machine hits all alike.

mod ceiling;
mod cell;
mod columns;
mod file;
mod plan;
mod rxe;
mod summary;
mod table;

use core::sync::atomic::{AtomicBool, Ordering};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};

pub use ceiling::Ceiling;
pub use columns::Column;
pub use file::{Comparison, Failure, Round, SkippedBackend};
pub use plan::{Plan, Row};

use crate::cli::CompareSpec;
use crate::exit;
use crate::json::{self, Environment};

/// Runs a comparison and prints it. Returns the exit status.
///
/// # Errors
/// Fails if nothing can be run, or if the report can't be written.
pub fn run(spec: &CompareSpec) -> Result<u8> {
    // Signals are taken from here on, so that it is removed after one, too.
    let stop = signals()?;
    let _rxe = match &spec.create_rxe {
        Some(netdev) => Some(rxe::TemporaryRxe::add(netdev)?),
        None => None,
    };
    let plan = Plan::new(spec)?;
    let report = spec.report.as_deref().map(report_folder).transpose()?;
    let environment = Environment::of_this_machine();
    print!("{}", table::heading(&plan, &environment));
    let comparison = measure(&plan, environment, &stop)?;
    println!("{}", table::results(&plan, &comparison));
    if plan.rounds > 1 {
        println!("{}", table::variance(&plan, &comparison));
    }
    if plan.ceiling {
        println!("{}", table::ceilings(&plan, &comparison));
    }
    if plan.verify {
        println!("{}", table::verified(&comparison));
    }
    for failure in &comparison.failures {
        println!("{}", table::failure(failure));
    }
    if let Some(path) = report {
        json::write(&path, &comparison)?;
        println!("report: {}", path.display());
    }
    Ok(if comparison.failures.is_empty() {
        0
    } else {
        exit::FAILED
    })
}

/// Makes the folder of the report before minutes are spent; returns the file's path.
fn report_folder(folder: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(folder).map_err(|error| {
        exit::environment(format!("making the folder {}: {error}", folder.display()))
    })?;
    Ok(folder.join("compare.json"))
}

/// Runs all cells of all rounds. A cell that fails is kept as a failure, and is not run again.
fn measure(plan: &Plan, environment: Environment, stop: &AtomicBool) -> Result<Comparison> {
    let folder = cell::Folder::new()?;
    let program = std::env::current_exe().context("finding this program's file")?;
    let bar = progress(plan);
    let mut comparison = Comparison {
        runs: Vec::new(),
        rounds: plan.rounds,
        columns: plan.columns.clone(),
        skipped_backends: plan.skipped.clone(),
        failures: Vec::new(),
        ceilings: Vec::new(),
        environment,
    };
    for round in 1..=plan.rounds {
        for row in &plan.rows {
            for backend in plan.backends() {
                bar.set_message(format!("round {round}: {backend} {row}"));
                if !comparison.has_failed(backend, row) {
                    let spec = plan.spec(row, backend);
                    match cell::run(&program, &spec, &folder, stop) {
                        Ok(mut run) => {
                            // Two RDMA devices are two columns.
                            run.backend.clone_from(backend);
                            comparison.runs.push(Round { round, run });
                        }
                        Err(error) if stop.load(Ordering::Relaxed) => return Err(error),
                        Err(error) => comparison.failures.push(Failure {
                            backend: backend.clone(),
                            test: row.test.name().to_owned(),
                            size_bytes: row.size,
                            round,
                            command: spec.command_line(),
                            reason: format!("{error:#}"),
                        }),
                    }
                }
                if plan.ceiling && ceiling::has_path(backend) {
                    let bare = ceiling::measure(backend, row, plan.mtu, plan.duration / 2)?;
                    comparison.ceilings.push(Ceiling { round, ..bare });
                }
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    if comparison.runs.is_empty() {
        for failure in &comparison.failures {
            eprintln!("{}", table::failure(failure));
        }
        bail!("no cell could be measured");
    }
    Ok(comparison)
}

/// Returns a progress bar on stderr, hidden where that is not a terminal.
fn progress(plan: &Plan) -> ProgressBar {
    let cells = plan.rows.len() as u64 * plan.columns.len() as u64 * u64::from(plan.rounds);
    let bar = ProgressBar::new(cells);
    if let Ok(style) = ProgressStyle::with_template(" {bar:30} {pos}/{len} {msg} ({eta} left)") {
        bar.set_style(style);
    }
    bar
}

/// The first signal ends the comparison and its child in order.
fn signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .context("installing a signal handler")?;
    }
    Ok(stop)
}

#[cfg(test)]
mod tests;
