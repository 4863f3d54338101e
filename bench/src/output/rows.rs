//! Rows: from what an end measured to the lines and records of a result.

use crate::exit;
use crate::json::Run;
use crate::peer::BwReport;
use crate::report::{self, PerftestResult, Precision};
use crate::run::bandwidth::BandwidthSamples;
use crate::run::latency::LatencySamples;
use crate::run::measure::Measured;
use crate::spec::{Form, Op};
use crate::stats::{Bandwidth, PeakInput, Samples, TimedLatency, Unit};

use super::{Printer, say};

impl Printer<'_> {
    pub(super) fn figures(&self, samples: &BandwidthSamples) -> Bandwidth {
        let peak = (!samples.posted.is_empty()).then_some(PeakInput {
            posted: &samples.posted,
            completed: &samples.completed,
            step: self.spec.post_list as usize,
        });
        Bandwidth::new(samples.size, samples.messages, samples.nanos, peak)
    }

    pub(super) fn bandwidth(&mut self, measured: &Measured, samples: &BandwidthSamples) {
        let found = self.figures(samples);
        self.empty |= samples.messages == 0 && self.spec.pace.row_every_s.is_none();
        let ours = found.report(self.unit);
        let mut row = ours;
        let mut run = Run::new(self.spec).with_bandwidth(&found);
        // Without an end the peer's figures don't come; perftest takes them to be ours.
        if self.spec.pace.row_every_s.is_some() && self.spec.bidirectional {
            row.average *= 2.0;
            row.message_rate *= 2.0;
        }
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
        let precision = Precision::of(self.unit, ours.average);
        self.bandwidth_row(&row, precision, measured.busy);
        if let Some(theirs) = measured.peer.filter(|_| self.spec.shown.both) {
            let both = report::both_directions(self.spec, &ours, &theirs, measured.busy);
            self.tell(both.trim_end_matches('\n'));
        }
        self.keep(run, measured);
    }

    /// Prints a row: ours, or that of a peer for which this end only held memory.
    pub(super) fn bandwidth_row(
        &mut self,
        row: &BwReport,
        precision: Precision,
        busy: Option<f64>,
    ) {
        let line = report::bandwidth_figure(self.spec.shown.form, row)
            .unwrap_or_else(|| report::bandwidth_row(precision, row) + &report::busy_cell(busy));
        say(&line);
        // perftest's limits are reached if any row reaches them.
        self.best.average = self.best.average.max(row.average);
        self.best.message_rate = self.best.message_rate.max(row.message_rate);
        self.perftest_file(&PerftestResult::Bandwidth {
            report: *row,
            precision,
            busy,
        });
    }

    pub(super) fn latency(&mut self, measured: &Measured, samples: &LatencySamples) {
        let halved = matches!(self.spec.test.op, Op::Send | Op::Write);
        let size = measured.size;
        let run = Run::new(self.spec);
        let run = match samples {
            LatencySamples::Stamps(stamps) => {
                let found = Samples::in_units(stamps, halved, self.latency_unit);
                let iterations = stamps.len() as u64;
                self.empty |= iterations == 0;
                let lists = report::sample_lists(self.spec, &found);
                if !lists.is_empty() {
                    self.tell(lists.trim_end_matches('\n'));
                }
                let row = found.row();
                self.latency_line(row.avg, || report::latency_row(size, iterations, &row));
                self.perftest_file(&PerftestResult::Latency {
                    size,
                    iterations,
                    row,
                });
                let seconds = measured.cpu.wall.as_secs_f64();
                let summary = Samples::from_stamps(stamps, halved).summary();
                run.with_latency(size, iterations, seconds, summary)
            }
            LatencySamples::Sample {
                messages,
                nanos,
                stamps,
                busy,
            } => {
                let unit = self.latency_unit;
                self.empty |= *messages == 0;
                let row = TimedLatency::in_units(*messages, *nanos, halved, unit);
                let busy = *busy;
                self.latency_line(row.avg, || {
                    report::timed_row(size, &row) + &report::busy_cell(busy)
                });
                self.perftest_file(&PerftestResult::Timed { size, row, busy });
                let summary = Samples::from_stamps(stamps, halved).summary();
                run.with_latency(size, *messages, *nanos as f64 / 1e9, summary)
            }
        };
        self.keep(run, measured);
    }

    /// Prints a row, or its average alone.
    fn latency_line(&self, avg: f64, row: impl FnOnce() -> String) {
        if self.spec.shown.form == Form::Latency {
            say(&report::latency_figure(avg));
        } else {
            say(&row());
        }
    }

    pub(super) fn columns(&self) -> String {
        let columns = match (self.spec.test.is_bandwidth(), self.spec.duration) {
            (true, _) => report::bandwidth_columns(self.unit),
            (false, None) => report::latency_columns().to_owned(),
            (false, Some(_)) => report::timed_columns().to_owned(),
        };
        columns + report::busy_column(self.spec)
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
