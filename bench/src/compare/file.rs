//! The comparison as a file, `compare.json`.

use core::fmt;

use serde::{Deserialize, Serialize};

use super::ceiling::Ceiling;
use super::columns::Column;
use super::plan::Row;
use crate::json::{Environment, Run};

/// A comparison's results.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Comparison {
    /// All runs, in the order in which they were made.
    pub runs: Vec<Round>,
    /// How many times each cell was to run.
    pub rounds: u32,
    /// What the columns of the table are.
    #[serde(default)]
    pub columns: Vec<Column>,
    /// Backends that were left out.
    pub skipped_backends: Vec<SkippedBackend>,
    /// Cells that failed.
    #[serde(default)]
    pub failures: Vec<Failure>,
    /// What the bare paths gave beside them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ceilings: Vec<Ceiling>,
    /// The machine.
    pub environment: Environment,
}

/// A run and its round.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Round {
    /// Which round, from 1.
    pub round: u32,
    /// The run.
    #[serde(flatten)]
    pub run: Run,
}

/// A backend that was left out.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct SkippedBackend {
    /// Its name.
    pub backend: String,
    /// Why.
    pub reason: String,
}

impl fmt::Display for SkippedBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is left out: {}", self.backend, self.reason)
    }
}

/// A cell that failed.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Failure {
    /// The backend.
    pub backend: String,
    /// The test.
    pub test: String,
    /// Bytes of a message.
    pub size_bytes: u64,
    /// Which round, from 1.
    pub round: u32,
    /// The command line that repeats it.
    pub command: String,
    /// What it said.
    pub reason: String,
}

impl Comparison {
    /// Returns the runs of a cell.
    pub fn of<'a>(&'a self, backend: &'a str, row: &'a Row) -> impl Iterator<Item = &'a Run> {
        self.runs.iter().map(|round| &round.run).filter(move |run| {
            run.backend == backend && run.test == row.test.name() && run.size_bytes == row.size
        })
    }

    /// Returns whether a cell has failed.
    pub fn has_failed(&self, backend: &str, row: &Row) -> bool {
        self.failures.iter().any(|failure| {
            failure.backend == backend
                && failure.test == row.test.name()
                && failure.size_bytes == row.size
        })
    }
}
