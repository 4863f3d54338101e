//! What a run prints: perftest's banner and table, then what perftest does not tell, and the result files.

mod lines;

use std::io::Write as _;

use anyhow::Result;
use lines::Cost;
use roce_engine::verbs::GidEntry;

use crate::backend::Choice;
use crate::exit;
use crate::json::{self, Run};
use crate::peer::{BwReport, Endpoint, Params};
use crate::program::Output;
use crate::report::{self, Facts, PerftestResult, SEPARATOR};
use crate::run::bandwidth::BandwidthSamples;
use crate::run::latency::LatencySamples;
use crate::run::measure::{Measured, Samples};
use crate::run::{Observer, Summary};
use crate::spec::{Op, Spec};
use crate::stats::{self, Bandwidth, PeakInput, TimedLatency, Unit};

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
}

impl<'s> Printer<'s> {
    /// Prints a run's first words.
    pub fn new(spec: &'s Spec) -> Self {
        if let Some(warning) = report::peak_warning(spec) {
            say(warning);
        }
        if let Some(note) = report::post_list_note(spec) {
            say(note.trim_end());
        }
        Self {
            spec,
            unit: Unit::of_option(spec.report_gbits),
            facts: None,
            peer: String::new(),
            runs: Vec::new(),
            cost: Cost::default(),
            file_error: None,
        }
    }

    fn figures(&self, samples: &BandwidthSamples) -> Bandwidth {
        let peak = (!samples.posted.is_empty()).then_some(PeakInput {
            posted: &samples.posted,
            completed: &samples.completed,
            step: self.spec.post_list as usize,
        });
        Bandwidth::new(samples.size, samples.messages, samples.nanos, peak)
    }

    fn bandwidth(&mut self, measured: &Measured, samples: &BandwidthSamples) {
        let found = self.figures(samples);
        let mut row = found.report(self.unit);
        let mut run = Run::new(self.spec).with_bandwidth(&found);
        // Both ends' figures, as perftest adds them.
        if let Some(peer) = measured.peer.filter(|_| self.spec.bidirectional) {
            row.peak += peer.peak;
            row.average += peer.average;
            row.message_rate += peer.message_rate;
            let gigabits = |value: f64| match self.unit {
                Unit::Gigabits => value,
                Unit::Mebibytes => Unit::Gigabits.of(value * 1_048_576.0),
            };
            run.bandwidth_gbps = Some(gigabits(row.average));
            run.bandwidth_peak_gbps = (row.peak > 0.0).then(|| gigabits(row.peak));
            run.message_rate_mpps = Some(row.message_rate);
        }
        self.cost
            .moved(&measured.cpu, samples.nanos, found.size * found.messages);
        self.bandwidth_row(&row);
        self.keep(run, measured);
    }

    fn bandwidth_row(&mut self, row: &BwReport) {
        say(&report::bandwidth_row(self.unit, row));
        self.perftest_file(&PerftestResult::Bandwidth(*row));
    }

    fn latency(&mut self, measured: &Measured, samples: &LatencySamples) {
        let halved = matches!(self.spec.test.op, Op::Send | Op::Write);
        let size = measured.size;
        let run = Run::new(self.spec);
        let run = match samples {
            LatencySamples::Stamps(stamps) => {
                let samples = stats::Samples::from_stamps(stamps, halved);
                let iterations = stamps.len() as u64;
                let lists = report::sample_lists(self.spec, &samples);
                if !lists.is_empty() {
                    say(lists.trim_end_matches('\n'));
                }
                let row = samples.row();
                say(&report::latency_row(size, iterations, &row));
                self.perftest_file(&PerftestResult::Latency {
                    size,
                    iterations,
                    row,
                });
                let seconds = measured.cpu.wall.as_secs_f64();
                run.with_latency(size, iterations, seconds, samples.summary())
            }
            LatencySamples::Sample {
                messages,
                nanos,
                stamps,
            } => {
                let row = TimedLatency::new(*messages, *nanos, halved);
                say(&report::timed_row(size, &row));
                self.perftest_file(&PerftestResult::Timed { size, row });
                let summary = stats::Samples::from_stamps(stamps, halved).summary();
                run.with_latency(size, *messages, *nanos as f64 / 1e9, summary)
            }
        };
        self.keep(run, measured);
    }

    fn columns(&self) -> String {
        match (self.spec.test.is_bandwidth(), self.spec.duration) {
            (true, _) => report::bandwidth_columns(self.unit),
            (false, None) => report::latency_columns().to_owned(),
            (false, Some(_)) => report::timed_columns().to_owned(),
        }
    }

    fn keep(&mut self, mut run: Run, measured: &Measured) {
        if let Some(facts) = &self.facts {
            run.device.clone_from(&facts.device);
            run.path_mtu_bytes = u32::try_from(facts.mtu.bytes()).unwrap_or(0);
        }
        let kind = run.device.split(':').next().unwrap_or_default();
        run.backend = kind.to_owned();
        run.peer.clone_from(&self.peer);
        run.cpu_percent = Some(measured.cpu.percent());
        self.runs.push(run);
    }

    fn perftest_file(&mut self, result: &PerftestResult) {
        let (Some(path), Some(facts)) = (&self.spec.out_json, &self.facts) else {
            return;
        };
        let text = report::perftest_json(self.spec, facts, result);
        if let Err(error) = std::fs::write(path, text) {
            let text = format!("writing {}: {error}", path.display());
            self.file_error
                .get_or_insert_with(|| exit::environment(text));
        }
    }
}

impl Observer for Printer<'_> {
    fn connected(&mut self, locals: &[Endpoint], remotes: &[Endpoint]) {
        if let Some(remote) = remotes.first() {
            self.peer = remote.gid.to_ip().to_string();
        }
        say(report::addresses(self.spec, locals, remotes).trim_end());
        if self.spec.is_requester() || self.spec.test.is_bandwidth() {
            say(&self.columns());
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
            (Samples::Passive, Some(report)) => self.bandwidth_row(report),
            (Samples::Passive, None) => {}
        }
    }
}

impl Output for Printer<'_> {
    fn waiting(&mut self) {
        say(report::waiting().trim_end_matches('\n'));
    }

    fn remark(&mut self, words: &str) {
        say(words);
    }

    fn banner(&mut self, choice: &Choice, gid: &GidEntry, agreed: Params, outs: u8) {
        say(&format!(" {}", choice.reason(gid)));
        let facts = Facts {
            device: choice.name(),
            mtu: agreed.mtu,
            gid_index: gid.index,
            max_inline: self.spec.qp.inline_size,
            outs,
        };
        say(report::banner(self.spec, &facts).trim_end());
        self.facts = Some(facts);
    }

    fn finished(&mut self, summary: &Summary) -> Result<()> {
        say(SEPARATOR);
        for line in lines::below(self.spec, summary, &self.cost) {
            say(&format!(" {line}"));
        }
        if let Some(error) = self.file_error.take() {
            return Err(error);
        }
        let Some(path) = &self.spec.json else {
            return Ok(());
        };
        for run in &mut self.runs {
            lines::fill(run, summary);
        }
        json::write_runs(path, &self.runs)
    }
}

/// Prints a line. Nobody is left to hear about a closed terminal.
pub fn say(text: &str) {
    let _printed = writeln!(std::io::stdout(), "{text}");
}
