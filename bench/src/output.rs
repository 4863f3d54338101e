//! What a run prints: perftest's banner and table, then what perftest does not tell, and the result files.

mod lines;
mod rows;

use core::sync::atomic::{AtomicI32, Ordering};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use anyhow::Result;
use lines::Cost;
use roce_engine::verbs::{Gid, GidEntry};

use crate::backend::Choice;
use crate::exit;
use crate::json::{self, Run};
use crate::peer::{BwReport, Endpoint, Params};
use crate::program::{Means, Output};
use crate::report::{self, Facts, Precision, SEPARATOR};
use crate::run::bandwidth::BandwidthSamples;
use crate::run::measure::{Measured, Samples};
use crate::run::watch::End;
use crate::run::{Observer, Summary};
use crate::spec::{Form, Spec};
use crate::stats::{self, Unit};

/// Prints a run as it goes.
#[derive(Debug)]
pub struct Printer<'s> {
    spec: &'s Spec,
    unit: Unit,
    facts: Option<Facts>,
    peer: String,
    runs: Vec<Run>,
    cost: Cost,
    file_error: Option<anyhow::Error>,
    // The best figures of any row, for the limits.
    best: BwReport,
    // A measurement came out without a single message.
    empty: bool,
    // The nanoseconds of a unit of latency.
    latency_unit: f64,
}

impl<'s> Printer<'s> {
    /// Prints a run's first words.
    ///
    /// # Errors
    ///
    /// Cycles were asked for, and this processor's are not to be had.
    pub fn new(spec: &'s Spec) -> Result<Self> {
        let nanos = if spec.shown.cycles {
            stats::nanos_per_cycle().ok_or_else(|| {
                exit::environment(
                    "-C: this processor has no cycle counter that runs evenly: leave -C out, for microseconds",
                )
            })?
        } else {
            1000.0
        };
        for path in [&spec.json, &spec.out_json].into_iter().flatten() {
            writable(path)?;
        }
        let printer = Self {
            spec,
            unit: Unit::of_option(spec.report_gbits),
            facts: None,
            peer: String::new(),
            runs: Vec::new(),
            cost: Cost::default(),
            file_error: None,
            best: BwReport::default(),
            empty: false,
            latency_unit: nanos,
        };
        if let Some(warning) = report::peak_warning(spec) {
            printer.tell(warning);
        }
        if let Some(note) = report::post_list_note(spec) {
            printer.tell(note.trim_end());
        }
        Ok(printer)
    }

    /// Returns whether this end prints rows: all but the server of a READ or atomic latency test do.
    fn has_table(&self) -> bool {
        self.spec.is_requester() || self.spec.test.is_bandwidth()
    }

    /// Prints a line of the full output.
    fn tell(&self, text: &str) {
        if self.spec.shown.form == Form::Full {
            say(text);
        }
    }
}

impl Observer for Printer<'_> {
    fn connected(&mut self, locals: &[Endpoint], remotes: &[Endpoint]) {
        if let Some(remote) = remotes.first() {
            self.peer = remote.gid.to_ip().to_string();
        }
        self.tell(report::addresses(self.spec, locals, remotes).trim_end());
        if self.has_table() {
            self.tell(&self.columns());
        }
    }

    fn report(&mut self, samples: &BandwidthSamples) -> BwReport {
        self.figures(samples).report(self.unit)
    }

    fn measured(&mut self, measured: &Measured) {
        self.cost.cpu.cpu += measured.cpu.cpu;
        self.cost.cpu.wall += measured.cpu.wall;
        match (&measured.samples, &measured.peer) {
            (Samples::Bandwidth(samples), _) => self.bandwidth(measured, samples),
            (Samples::Latency(samples), _) => self.latency(measured, samples),
            (Samples::Passive, Some(report)) => {
                self.empty |= report.iterations == 0;
                let precision = Precision::of(self.unit, report.average);
                self.bandwidth_row(report, precision, measured.busy);
            }
            (Samples::Passive, None) => {}
        }
    }

    fn interval(&mut self, measured: &Measured) {
        self.cost.cpu.cpu += measured.cpu.cpu;
        self.cost.cpu.wall += measured.cpu.wall;
        // The result file has the last row, however many there were.
        self.runs.clear();
        if let Samples::Bandwidth(samples) = &measured.samples {
            self.bandwidth(measured, samples);
        }
    }

    fn ended(&mut self, end: End) {
        self.tell(report::endless_end(self.spec, end));
    }
}

impl Output for Printer<'_> {
    fn waiting(&mut self) {
        self.tell(report::waiting().trim_end_matches('\n'));
    }

    fn remark(&mut self, words: &str) {
        eprintln!("{words}");
    }

    fn banner(&mut self, choice: &Choice, gid: &GidEntry, agreed: Params, means: &Means) {
        self.tell(&format!(" {}", choice.reason(gid)));
        let facts = Facts {
            device: choice.name(),
            mtu: agreed.mtu,
            gid_index: (gid.gid != Gid::default()).then_some(gid.index),
            link_layer: choice.link_layer(),
            max_inline: means.inline,
            outs: means.outs,
            relaxed_ordering: means.relaxed_ordering,
            wr_api: means.wr_api,
        };
        self.tell(report::banner(self.spec, &facts).trim_end());
        self.facts = Some(facts);
    }

    fn finished(&mut self, summary: &Summary) -> Result<()> {
        // Who has no table has the separator already, below the addresses.
        if self.has_table() {
            self.tell(SEPARATOR);
        }
        for line in lines::below(self.spec, summary, &self.cost) {
            self.tell(&format!(" {line}"));
        }
        if let Some(error) = self.file_error.take() {
            return Err(error);
        }
        if let Some(path) = &self.spec.json {
            for run in &mut self.runs {
                lines::fill(run, summary);
            }
            json::write_runs(path, &self.runs)?;
        }
        if self.empty {
            anyhow::bail!(lines::nothing_measured(self.spec));
        }
        match report::missed_limit(self.spec, &self.best) {
            Some(words) => Err(exit::limit(words)),
            None => Ok(()),
        }
    }
}

/// Finds out before the run whether its result can be written.
fn writable(path: &Path) -> Result<()> {
    let known = path.exists();
    // A pipe or a device is opened once, when there is something to write.
    if known && !path.is_file() {
        return Ok(());
    }
    OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .map_err(|error| exit::environment(format!("writing {}: {error}", path.display())))?;
    if !known {
        // A run that fails leaves nothing behind; what can't be removed is empty.
        let _removed = std::fs::remove_file(path);
    }
    Ok(())
}

/// What became of printing: 0 or the system's number of the first error.
static PRINTING: AtomicI32 = AtomicI32::new(0);

/// Prints a line. An error is kept for [`printed`]: the peer counts on this end to go on.
pub fn say(text: &str) {
    if let Err(error) = writeln!(std::io::stdout(), "{text}") {
        let number = error.raw_os_error().unwrap_or(0);
        let _first = PRINTING.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Tells whether all that was said has been written.
///
/// # Errors
///
/// The standard output took not all of it. Nobody is left to hear about a closed pipe or terminal.
pub fn printed() -> Result<()> {
    let number = match std::io::stdout().flush() {
        Ok(()) => PRINTING.load(Ordering::Relaxed),
        Err(error) => error.raw_os_error().unwrap_or(0),
    };
    let error = std::io::Error::from_raw_os_error(number);
    if number == 0 || error.kind() == std::io::ErrorKind::BrokenPipe {
        return Ok(());
    }
    Err(exit::environment(format!(
        "writing to the standard output: {error}"
    )))
}
