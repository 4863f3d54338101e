//! The comparison for a person.

use core::fmt::Write as _;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};

use super::ceiling::has_path;
use super::file::{Comparison, Failure};
use super::plan::{Plan, Row};
use super::summary::{Figure, number};
use crate::json::{Environment, Run};

/// A column of each backend: its name, its unit, and its value in a run.
type Column = (&'static str, &'static str, fn(&Run) -> Option<f64>);

const COLUMNS: [Column; 6] = [
    ("bandwidth", "Gb/s", |run| run.bandwidth_gbps),
    ("rate", "Mpps", |run| run.message_rate_mpps),
    ("t_typical", "us", |run| run.latency_us.map(|us| us.typical)),
    ("99 %", "us", |run| run.latency_us.map(|us| us.p99)),
    ("99.9 %", "us", |run| run.latency_us.map(|us| us.p999)),
    ("CPU", "%", |run| run.cpu_percent),
];

/// Returns what is said before anything runs.
pub(super) fn heading(plan: &Plan, environment: &Environment) -> String {
    let rounds = match plan.rounds {
        1 => "1 round".to_owned(),
        several => format!("{several} rounds"),
    };
    let mut text = format!(
        "{}, both ends on this machine: {rounds} of {} s for each of {} tests\n{}, {} CPUs{}\n",
        plan.backends()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(", "),
        plan.duration.as_secs_f64(),
        plan.rows.len(),
        environment.kernel,
        environment.cpus,
        environment
            .cpu
            .as_ref()
            .map_or_else(String::new, |cpu| format!(", {cpu}")),
    );
    for column in &plan.columns {
        let _infallible = writeln!(text, "{}: {}", column.backend, column.path);
    }
    for skipped in &plan.skipped {
        let _infallible = writeln!(text, "{skipped}");
    }
    text
}

/// Returns the table: tests against backends, with the median of the rounds.
pub(super) fn results(plan: &Plan, comparison: &Comparison) -> String {
    let mut header = vec!["test".to_owned(), "bytes".to_owned()];
    for backend in plan.backends() {
        header.extend(
            COLUMNS
                .iter()
                .map(|(name, unit, _)| format!("{backend}\n{name}\n{unit}")),
        );
    }
    let mut table = new_table(header);
    for row in &plan.rows {
        let mut cells = start(row);
        for backend in plan.backends() {
            if comparison.of(backend, row).next().is_none() {
                cells.push("failed".to_owned());
                cells.extend(vec![String::new(); COLUMNS.len() - 1]);
                continue;
            }
            cells.extend(COLUMNS.iter().map(|(_, _, value)| {
                Figure::of(comparison.of(backend, row), value)
                    .map_or_else(String::new, Figure::text)
            }));
        }
        table.add_row(cells);
    }
    let mut text = table.to_string();
    text.push_str("\nCPU: of the client's process, 100 % is one core.");
    if plan.rounds > 1 {
        text.push_str(" Figures are medians of the rounds, ± half their range.");
    }
    text
}

/// Says how much data was looked at.
pub(super) fn verified(comparison: &Comparison) -> String {
    let checked: Vec<u64> = comparison
        .runs
        .iter()
        .filter_map(|round| round.run.verified_bytes)
        .collect();
    format!(
        "verify: {} of {} runs looked at their data, {} MB, all of it right",
        checked.iter().filter(|bytes| **bytes > 0).count(),
        comparison.runs.len(),
        checked.iter().sum::<u64>() / 1_000_000
    )
}

/// Returns the table of how far the rounds of each cell differ.
pub(super) fn variance(plan: &Plan, comparison: &Comparison) -> String {
    let header = [
        "test", "bytes", "backend", "figure", "rounds", "least", "median", "most", "range",
    ];
    let mut table = new_table(header.map(str::to_owned).to_vec());
    for row in &plan.rows {
        // What the test is about.
        let (name, unit, value) = COLUMNS[if row.test.is_bandwidth() { 0 } else { 2 }];
        for backend in plan.backends() {
            let Some(figure) = Figure::of(comparison.of(backend, row), value) else {
                continue;
            };
            let mut cells = start(row);
            cells.extend([
                backend.clone(),
                format!("{name} {unit}"),
                figure.rounds.to_string(),
                number(figure.least),
                number(figure.median),
                number(figure.most),
                format!("{:.1} %", figure.range_percent()),
            ]);
            table.add_row(cells);
        }
    }
    format!("How far the rounds differ:\n{table}")
}

/// Returns the table of the bare paths, and how much of them the tests reach.
pub(super) fn ceilings(plan: &Plan, comparison: &Comparison) -> String {
    let header = [
        "test",
        "bytes",
        "backend",
        "figure",
        "bare path",
        "the test",
        "share",
    ];
    let mut table = new_table(header.map(str::to_owned).to_vec());
    for row in &plan.rows {
        let bandwidth = row.test.is_bandwidth();
        let (name, unit, value) = COLUMNS[if bandwidth { 0 } else { 2 }];
        for backend in plan.backends() {
            let mut bare: Vec<f64> = comparison
                .ceilings
                .iter()
                .filter(|one| &one.backend == backend && one.test == row.test.name())
                .filter(|one| one.size_bytes == row.size)
                .filter_map(|one| one.path_gbps.or(one.path_half_rtt_us))
                .collect();
            bare.sort_unstable_by(f64::total_cmp);
            let reached = Figure::of(comparison.of(backend, row), value);
            let (Some(bare), Some(reached)) = (bare.get(bare.len() / 2), reached) else {
                continue;
            };
            let share = if bandwidth {
                format!("{:.0} %", reached.median / bare * 100.0)
            } else {
                format!("{:.2} times", reached.median / bare)
            };
            let mut cells = start(row);
            cells.extend([
                backend.clone(),
                format!("{name} {unit}"),
                number(*bare),
                number(reached.median),
                share,
            ]);
            table.add_row(cells);
        }
    }
    let mut text = format!(
        "Bare paths, the same packets with no protocol; for latencies a data packet and an acknowledgement each \
         way:\n{table}"
    );
    for backend in plan.backends().filter(|name| !has_path(name)) {
        let _infallible = write!(
            text,
            "\n{backend} has no bare path that could be measured here."
        );
    }
    text
}

/// Returns what is said about a cell that failed.
pub(super) fn failure(failure: &Failure) -> String {
    format!(
        "{} {} {} B failed in round {}: {}\n  repeat it with: {}",
        failure.backend,
        failure.test,
        failure.size_bytes,
        failure.round,
        failure.reason,
        failure.command
    )
}

fn new_table(header: Vec<String>) -> Table {
    let columns = header.len();
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(header);
    for index in 1..columns {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn start(row: &Row) -> Vec<String> {
    vec![row.test.name().to_owned(), row.size.to_string()]
}
