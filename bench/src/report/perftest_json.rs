//! perftest's JSON (`--out_json`), in the valid form of version 6.20: a file per run that holds its last row.

use serde::Serialize;

use super::bandwidth::Precision;
use super::banner::{Facts, on_off, title};
use crate::peer::BwReport;
use crate::spec::{Form, Spec};
use crate::stats::{LatencyRow, TimedLatency};

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PerftestResult {
    /// Of a bandwidth test, in the run's unit.
    Bandwidth {
        /// The figures.
        report: BwReport,
        /// Their decimals.
        precision: Precision,
        /// How busy the machine was, in percent, if that was asked for.
        busy: Option<f64>,
    },
    /// Of a latency test.
    Latency {
        /// Bytes of a message.
        size: u64,
        /// Messages.
        iterations: u64,
        /// The figures.
        row: LatencyRow,
    },
    /// Of a latency test by the clock.
    Timed {
        /// Bytes of a message.
        size: u64,
        /// The figures.
        row: TimedLatency,
        /// How busy the machine was, in percent, if that was asked for.
        busy: Option<f64>,
    },
}

#[derive(Serialize)]
struct File {
    test_info: Info,
    results: Results,
}

#[derive(Serialize)]
struct Info {
    test: String,
    #[serde(rename = "Test with events", skip_serializing_if = "Option::is_none")]
    events: Option<String>,
    #[serde(rename = "Dual_port")]
    dual_port: &'static str,
    #[serde(rename = "Device")]
    device: String,
    #[serde(rename = "Number_of_qps")]
    qps: u32,
    #[serde(rename = "Transport_type")]
    transport: &'static str,
    #[serde(rename = "Connection_type")]
    connection: &'static str,
    #[serde(rename = "Using_SRQ")]
    srq: &'static str,
    #[serde(rename = "PCIe_relax_order")]
    relaxed: &'static str,
    #[serde(rename = "ibv_wr_API")]
    wr_api: &'static str,
    #[serde(rename = "TX_depth", skip_serializing_if = "Option::is_none")]
    tx_depth: Option<u32>,
    #[serde(rename = "Post_List", skip_serializing_if = "Option::is_none")]
    post_list: Option<u32>,
    #[serde(rename = "RX_depth", skip_serializing_if = "Option::is_none")]
    rx_depth: Option<u32>,
    #[serde(rename = "CQ_Moderation", skip_serializing_if = "Option::is_none")]
    cq_mod: Option<u32>,
    #[serde(rename = "Mtu")]
    mtu: usize,
    #[serde(rename = "Link_type")]
    link: &'static str,
    #[serde(rename = "GID_index", skip_serializing_if = "Option::is_none")]
    gid_index: Option<u8>,
    #[serde(rename = "Max_inline_data", skip_serializing_if = "Option::is_none")]
    max_inline: Option<u32>,
    #[serde(rename = "Outstand_reads", skip_serializing_if = "Option::is_none")]
    outs: Option<u8>,
    #[serde(rename = "rdma_cm_QPs")]
    rdma_cm: &'static str,
    #[serde(rename = "Use_ROCm_memory")]
    rocm: &'static str,
    #[serde(rename = "Data_ex_method")]
    method: &'static str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Results {
    Bandwidth {
        #[serde(rename = "MsgSize")]
        size: u64,
        n_iterations: u64,
        #[serde(rename = "BW_peak")]
        peak: f64,
        #[serde(rename = "BW_average")]
        average: f64,
        #[serde(rename = "MsgRate")]
        rate: f64,
        #[serde(rename = "CPU_util", skip_serializing_if = "Option::is_none")]
        busy: Option<f64>,
    },
    OnlyBandwidth {
        bw_avg: f64,
    },
    OnlyRate {
        #[serde(rename = "msgRate_avg")]
        rate: f64,
    },
    OnlyLatency {
        avg_lat: f64,
    },
    Latency {
        #[serde(rename = "MsgSize")]
        size: u64,
        n_iterations: u64,
        t_min: f64,
        t_max: f64,
        t_typical: f64,
        t_avg: f64,
        t_stdev: f64,
        percentile_99: f64,
        #[serde(rename = "percentile_99.9")]
        percentile_999: f64,
    },
    Timed {
        #[serde(rename = "MsgSize")]
        size: u64,
        n_iterations: u64,
        t_avg: f64,
        tps_average: f64,
        #[serde(rename = "CPU_util", skip_serializing_if = "Option::is_none")]
        busy: Option<f64>,
    },
}

/// Returns the file's text for one row.
pub fn perftest_json(spec: &Spec, facts: &Facts, result: &PerftestResult) -> String {
    let file = File {
        test_info: info(spec, facts),
        results: results(spec, result),
    };
    // A struct of numbers and strings always serialises.
    let mut text = serde_json::to_string_pretty(&file).unwrap_or_default();
    text.push('\n');
    text
}

fn info(spec: &Spec, facts: &Facts) -> Info {
    let fetch = spec.test.is_fetch();
    let receives = spec.posts_receives() && (!spec.is_active() || spec.bidirectional);
    Info {
        test: title(spec).replace(' ', "_"),
        events: spec
            .qp
            .events
            .then(|| format!("Using_{}_comp0", facts.device)),
        dual_port: "OFF",
        device: facts.device.clone(),
        qps: spec.qps,
        transport: "IB",
        connection: spec.service_name(),
        srq: on_off(spec.qp.use_srq),
        relaxed: super::banner::relaxed(facts),
        wr_api: on_off(facts.wr_api),
        tx_depth: (spec.is_active() || spec.bidirectional).then_some(spec.tx_depth),
        post_list: (spec.post_list > 1).then_some(spec.post_list),
        rx_depth: receives.then_some(spec.rx_depth),
        cq_mod: spec.test.is_bandwidth().then_some(spec.cq_mod),
        mtu: facts.mtu.bytes(),
        link: super::banner::link_type(facts.link_layer),
        gid_index: facts.gid_index,
        max_inline: (!fetch).then_some(facts.max_inline),
        outs: fetch.then_some(facts.outs),
        rdma_cm: "OFF",
        rocm: "OFF",
        method: "Ethernet",
    }
}

fn results(spec: &Spec, result: &PerftestResult) -> Results {
    let two = |value: f64| rounded(value, 2);
    if let Some(figure) = only(spec.shown.form, result) {
        return figure;
    }
    match *result {
        PerftestResult::Bandwidth {
            report,
            precision,
            busy,
        } => {
            let decimals = match precision {
                Precision::Fine => 6,
                Precision::Usual => 2,
            };
            Results::Bandwidth {
                size: report.size,
                n_iterations: report.iterations,
                peak: rounded(report.peak, decimals),
                average: rounded(report.average, decimals),
                rate: rounded(report.message_rate, 6),
                busy: busy.map(two),
            }
        }
        PerftestResult::Latency {
            size,
            iterations,
            row,
        } => Results::Latency {
            size,
            n_iterations: iterations,
            t_min: two(row.min),
            t_max: two(row.max),
            t_typical: two(row.typical),
            t_avg: two(row.avg),
            t_stdev: two(row.stdev),
            percentile_99: two(row.p99),
            percentile_999: two(row.p999),
        },
        PerftestResult::Timed { size, row, busy } => Results::Timed {
            size,
            n_iterations: row.messages,
            t_avg: two(row.avg),
            tps_average: two(row.per_second),
            busy: busy.map(two),
        },
    }
}

/// Returns the one figure that `--output` asks for.
fn only(form: Form, result: &PerftestResult) -> Option<Results> {
    let six = |value: f64| rounded(value, 6);
    match (form, result) {
        (Form::Bandwidth, PerftestResult::Bandwidth { report, .. }) => {
            Some(Results::OnlyBandwidth {
                bw_avg: six(report.average),
            })
        }
        (Form::MessageRate, PerftestResult::Bandwidth { report, .. }) => Some(Results::OnlyRate {
            rate: six(report.message_rate),
        }),
        (Form::Latency, PerftestResult::Latency { row, .. }) => Some(Results::OnlyLatency {
            avg_lat: six(row.avg),
        }),
        (Form::Latency, PerftestResult::Timed { row, .. }) => Some(Results::OnlyLatency {
            avg_lat: six(row.avg),
        }),
        _ => None,
    }
}

/// Rounds to decimals. A peer's report may hold any bits, and JSON has no infinity.
fn rounded(value: f64, decimals: i32) -> f64 {
    let scale = 10_f64.powi(decimals);
    let rounded = (value * scale).round() / scale;
    if rounded.is_finite() { rounded } else { 0.0 }
}
