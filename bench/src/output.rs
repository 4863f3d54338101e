//! What a run prints: perftest's banner and table, then what perftest does not tell, and the result files.

mod lines;
mod rows;

use std::io::Write as _;

use anyhow::Result;
use lines::Cost;
use roce_engine::verbs::GidEntry;

use crate::backend::Choice;
use crate::exit;
use crate::json::{self, Run};
use crate::peer::{BwReport, Endpoint, Params};
use crate::program::Output;
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
        let printer = Self {
            spec,
            unit: Unit::of_option(spec.report_gbits),
            facts: None,
            peer: String::new(),
            runs: Vec::new(),
            cost: Cost::default(),
            file_error: None,
            best: BwReport::default(),
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
        if self.spec.is_requester() || self.spec.test.is_bandwidth() {
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

    fn banner(&mut self, choice: &Choice, gid: &GidEntry, agreed: Params, outs: u8) {
        self.tell(&format!(" {}", choice.reason(gid)));
        let facts = Facts {
            device: choice.name(),
            mtu: agreed.mtu,
            gid_index: gid.index,
            max_inline: self.spec.qp.inline_size,
            outs,
        };
        self.tell(report::banner(self.spec, &facts).trim_end());
        self.facts = Some(facts);
    }

    fn finished(&mut self, summary: &Summary) -> Result<()> {
        self.tell(SEPARATOR);
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
        match report::missed_limit(self.spec, &self.best) {
            Some(words) => Err(exit::limit(words)),
            None => Ok(()),
        }
    }
}

/// Prints a line. Nobody is left to hear about a closed terminal.
pub fn say(text: &str) {
    let _printed = writeln!(std::io::stdout(), "{text}");
}
