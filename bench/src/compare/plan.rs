//! What is compared: rows, backends, rounds.

use core::fmt;
use core::time::Duration;

use anyhow::Result;
use roce_engine::verbs::Mtu;

use super::columns::{self, BACKENDS, Column};
use super::file::SkippedBackend;
use crate::cli::CompareSpec;
use crate::exit;
use crate::spec::{Metric, Op, Role, Span, Spec, Test};

/// A test at a message size.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Row {
    /// The test.
    pub test: Test,
    /// Bytes of a message.
    pub size: u64,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} B", self.test.name(), self.size)
    }
}

const fn row(op: Op, metric: Metric, size: u64) -> Row {
    Row {
        test: Test::new(op, metric),
        size,
    }
}

/// What is compared unless it is chosen.
const DEFAULT_ROWS: [Row; 9] = [
    row(Op::Write, Metric::Bandwidth, 64),
    row(Op::Write, Metric::Bandwidth, 4096),
    row(Op::Write, Metric::Bandwidth, 65_536),
    row(Op::Read, Metric::Bandwidth, 65_536),
    row(Op::Send, Metric::Bandwidth, 65_536),
    row(Op::Write, Metric::Latency, 2),
    row(Op::Send, Metric::Latency, 64),
    row(Op::Read, Metric::Latency, 2),
    row(Op::Atomic, Metric::Latency, 8),
];

/// A comparison, worked out.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The rows, in order.
    pub rows: Vec<Row>,
    /// The path MTU, if one was asked for.
    pub mtu: Option<Mtu>,
    /// The backends, in order, with the path of each.
    pub columns: Vec<Column>,
    /// Backends that are left out.
    pub skipped: Vec<SkippedBackend>,
    /// How many times each cell runs.
    pub rounds: u32,
    /// How long a cell is measured.
    pub duration: Duration,
    /// Whether the bare paths are measured beside them.
    pub ceiling: bool,
    /// Whether what arrives is looked at.
    pub verify: bool,
}

impl Plan {
    /// Works out what to run.
    ///
    /// # Errors
    /// Fails if a backend is unknown, or none is left.
    pub fn new(spec: &CompareSpec) -> Result<Self> {
        let known = |name: &String| BACKENDS.contains(&name.as_str());
        if let Some(unknown) = spec.backends.iter().find(|name| !known(name)) {
            return Err(exit::usage(format!(
                "there is no backend `{unknown}`; there are {}",
                BACKENDS.join(", ")
            )));
        }
        let mut plan = Self {
            rows: rows(&spec.tests, &spec.sizes),
            mtu: spec.mtu,
            columns: Vec::new(),
            skipped: Vec::new(),
            rounds: spec.rounds,
            duration: spec.duration,
            ceiling: spec.ceiling,
            verify: spec.verify,
        };
        for name in BACKENDS {
            if !spec.backends.is_empty() && !spec.backends.iter().any(|chosen| chosen == name) {
                continue;
            }
            for column in columns::of(name) {
                match column {
                    Ok(column) => plan.columns.push(column),
                    Err(skipped) => plan.skipped.push(skipped),
                }
            }
        }
        if plan.columns.is_empty() {
            let reasons: Vec<_> = plan.skipped.iter().map(ToString::to_string).collect();
            return Err(exit::environment(format!(
                "no backend is left: {}",
                reasons.join("; ")
            )));
        }
        Ok(plan)
    }

    /// Returns the names of the backends, in order.
    pub fn backends(&self) -> impl Iterator<Item = &String> {
        self.columns.iter().map(|column| &column.backend)
    }

    /// Returns the run of a cell: in the lab, measured after a quarter of its time as warm-up.
    pub fn spec(&self, row: &Row, backend: &str) -> Spec {
        let margin = self.duration / 4;
        let mut spec = Spec {
            role: Role::Client {
                host: "127.0.0.1".to_owned(),
            },
            lab: true,
            device: Some(backend.to_owned()),
            verify: self.verify,
            size: row.size,
            mtu: self.mtu,
            iters: 0,
            duration: Some(Span {
                total: self.duration + margin * 2,
                margin,
            }),
            ..Spec::new(row.test)
        };
        spec.resolve_depths(None, None, None);
        spec
    }
}

/// Returns the rows of the chosen tests at the chosen sizes.
fn rows(tests: &[Test], sizes: &[u64]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut push = |row: Row| {
        if !rows.contains(&row) {
            rows.push(row);
        }
    };
    let chosen = |test: Test| tests.is_empty() || tests.contains(&test);
    let fixed = |row: Row| Row {
        size: if row.test.op == Op::Atomic {
            8
        } else {
            row.size
        },
        ..row
    };
    for row in DEFAULT_ROWS.into_iter().filter(|row| chosen(row.test)) {
        if sizes.is_empty() {
            push(row);
        }
        for size in sizes {
            push(fixed(Row { size: *size, ..row }));
        }
    }
    // A test that has no default row was asked for.
    for test in tests {
        if DEFAULT_ROWS.iter().any(|row| row.test == *test) {
            continue;
        }
        let own = [test.default_size()];
        for size in if sizes.is_empty() { &own } else { sizes } {
            push(fixed(Row {
                test: *test,
                size: *size,
            }));
        }
    }
    rows
}
