//! Whole outputs, spelled out.

mod options;

use core::time::Duration;

use roce_engine::verbs::{Gid, LinkLayer, Mtu, Psn, Qpn, RKey};

use super::*;
use crate::peer::{BwReport, Endpoint};
use crate::spec::{AtomicKind, Metric, Op, Role, Span, Spec, Test};
use crate::stats::{LatencyRow, Samples, TimedLatency, Unit};

fn spec(op: Op, metric: Metric, client: bool) -> Spec {
    let mut spec = Spec::new(Test::new(op, metric));
    if client {
        spec.role = Role::Client { host: "h".into() };
    }
    spec
}

fn facts() -> Facts {
    Facts {
        device: "udp:lo".into(),
        mtu: Mtu::B1024,
        gid_index: Some(3),
        link_layer: LinkLayer::Ethernet,
        max_inline: 0,
        outs: 16,
        relaxed_ordering: None,
        wr_api: false,
    }
}

#[test]
fn write_bandwidth_client_prints_perftests_banner() {
    let expected = "\
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : udp:lo
 Number of qps   : 1\t\tTransport type : IB
 Connection type : RC\t\tUsing SRQ      : OFF
 PCIe relax order: Unsupported
 ibv_wr* API     : OFF
 TX depth        : 128
 CQ Moderation   : 1
 Mtu             : 1024[B]
 Link type       : Ethernet
 GID index       : 3
 Max inline data : 0[B]
 rdma_cm QPs\t : OFF
 Data ex. method : Ethernet
---------------------------------------------------------------------------------------
";
    assert_eq!(
        banner(&spec(Op::Write, Metric::Bandwidth, true), &facts()),
        expected
    );
}

#[test]
fn banner_follows_the_test() {
    let send_server = banner(&spec(Op::Send, Metric::Bandwidth, false), &facts());
    assert!(send_server.contains("\n RX depth        : 512\n CQ Moderation   : 1\n"));
    assert!(!send_server.contains("TX depth"));
    let read = banner(&spec(Op::Read, Metric::Latency, true), &facts());
    assert!(read.contains("                    RDMA_Read Latency Test\n"));
    assert!(read.contains("\n TX depth        : 1\n Mtu  "));
    assert!(read.contains("\n Outstand reads  : 16\n") && !read.contains("inline"));
    let atomic = Spec {
        atomic: AtomicKind::CompareSwap,
        bidirectional: true,
        post_list: 4,
        ..spec(Op::Atomic, Metric::Bandwidth, true)
    };
    let atomic = banner(&atomic, &facts());
    assert!(
        atomic
            .contains("                    Atomic CMP_AND_SWAP Bidirectional Post List BW Test\n")
    );
    assert!(atomic.contains("\n TX depth        : 128\n Post List       : 4\n"));
}

#[test]
fn server_waits_aloud() {
    assert_eq!(
        waiting(),
        "\n************************************\n* Waiting for client to connect... *\n************************************\n"
    );
}

fn endpoint(qpn: u32, vaddr: u64) -> Endpoint {
    Endpoint {
        qpn: Qpn::new(qpn),
        psn: Psn::new(0x36_bcce),
        rkey: RKey(0x101),
        vaddr,
        out: 16,
        gid: Gid::from_ip("192.168.1.10".parse().unwrap()),
        ..Endpoint::default()
    }
}

#[test]
fn addresses_are_perftests() {
    let local = [endpoint(0x5c_fb01, 0x7fd5_400b_9000)];
    let remote = [endpoint(0x11, 0)];
    let text = addresses(&spec(Op::Write, Metric::Bandwidth, true), &local, &remote);
    let expected =
        "\x20local address: LID 0000 QPN 0x5cfb01 PSN 0x36bcce RKey 0x000101 VAddr 0x007fd5400b9000
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:192:168:01:10
 remote address: LID 0000 QPN 0x0011 PSN 0x36bcce RKey 0x000101 VAddr 0000000000000000
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:192:168:01:10
---------------------------------------------------------------------------------------
";
    assert_eq!(text, expected);
    let read = addresses(&spec(Op::Read, Metric::Bandwidth, true), &local, &[]);
    assert!(read.contains(" PSN 0x36bcce OUT 0x10 RKey 0x000101 VAddr "));
    let few = Endpoint { out: 4, ..local[0] };
    let read = addresses(&spec(Op::Read, Metric::Bandwidth, true), &[few], &[]);
    assert!(read.contains(" OUT 0x04 "), "{read}");
    let send = addresses(&spec(Op::Send, Metric::Latency, true), &local, &[]);
    assert!(send.contains(" PSN 0x36bcce\n GID"));
}

#[test]
fn bandwidth_rows_line_up() {
    assert_eq!(
        bandwidth_columns(Unit::Mebibytes),
        " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]"
    );
    assert_eq!(
        bandwidth_columns(Unit::Gigabits),
        " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]"
    );
    let report = BwReport {
        size: 65_536,
        iterations: 5000,
        peak: 1234.567,
        average: 987.654,
        message_rate: 0.015_803,
    };
    assert_eq!(
        bandwidth_row(Precision::Usual, &report),
        " 65536      5000             1234.57            987.65 \t\t   0.015803"
    );
    assert_eq!(Precision::of(Unit::Gigabits, 987.654), Precision::Usual);
    let small = BwReport {
        size: 2,
        iterations: 1000,
        peak: 0.0,
        average: 0.056_789_1,
        message_rate: 3.549_320,
    };
    assert_eq!(
        bandwidth_row(Precision::Fine, &small),
        " 2          1000           0.000000            0.056789            3.549320"
    );
    assert_eq!(Precision::of(Unit::Gigabits, 0.056), Precision::Fine);
    assert_eq!(Precision::of(Unit::Mebibytes, 0.056), Precision::Usual);
    assert_eq!(
        bandwidth_row(Precision::Usual, &small),
        " 2          1000             0.00               0.06   \t\t   3.549320"
    );
}

#[test]
fn latency_rows_line_up() {
    let row = LatencyRow {
        min: 3.25,
        max: 41.5,
        typical: 3.5,
        avg: 3.625,
        stdev: 0.5,
        p99: 12.0,
        p999: 41.5,
    };
    assert_eq!(
        latency_row(2, 1000, &row),
        " 2       1000          3.25           41.50        3.50     \t       3.62        \t0.50   \t\t12.00   \t\t41.50  "
    );
    assert_eq!(
        latency_columns(),
        " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] "
    );
    let timed = TimedLatency {
        messages: 250_000,
        avg: 4.0,
        per_second: 125_000.0,
    };
    assert_eq!(
        timed_columns(),
        " #bytes        #iterations       t_avg[usec]    tps average"
    );
    assert_eq!(
        timed_row(2, &timed),
        " 2             250000            4.00           125000.00"
    );
}

/// Rows that stock perftest printed over soft-RoCE.
#[test]
fn rows_are_those_of_a_stock_run() {
    let report = |size, iterations, peak, average, message_rate| BwReport {
        size,
        iterations,
        peak,
        average,
        message_rate,
    };
    assert_eq!(
        bandwidth_row(Precision::Usual, &report(64, 20, 1.98, 0.31, 0.005_045)),
        " 64         20               1.98               0.31   \t\t   0.005045"
    );
    assert_eq!(
        bandwidth_row(
            Precision::Usual,
            &report(65_536, 1578, 0.0, 49.21, 0.000_787)
        ),
        " 65536      1578             0.00               49.21  \t\t   0.000787"
    );
    assert_eq!(
        bandwidth_row(
            Precision::Fine,
            &report(64, 20, 0.011_321, 0.006_123, 0.011_959)
        ),
        " 64         20           0.011321            0.006123            0.011959"
    );
    let row = |min, max, typical, avg, stdev, p99, p999| LatencyRow {
        min,
        max,
        typical,
        avg,
        stdev,
        p99,
        p999,
    };
    assert_eq!(
        latency_row(128, 5, &row(32.33, 76.59, 45.75, 45.75, 13.0, 76.59, 76.59)),
        " 128     5          32.33          76.59        45.75    \t       45.75       \t13.00  \t\t76.59   \t\t76.59  "
    );
    assert_eq!(
        latency_row(
            1 << 20,
            5,
            &row(
                17_777.47, 27_440.97, 17_864.1, 17_864.1, 86.0, 27_440.97, 27_440.97
            )
        ),
        " 1048576 5          17777.47        27440.97      17864.10  \t       17864.10     \t86.00  \t\t27440.97 \t\t27440.97"
    );
    let timed = TimedLatency {
        messages: 9294,
        avg: 107.76,
        per_second: 4640.02,
    };
    assert_eq!(
        timed_row(2, &timed),
        " 2             9294            107.76         4640.02"
    );
}

/// The samples, the lists and the row of a stock `ib_send_lat -n 10 -H -U`.
#[test]
fn statistics_are_those_of_a_stock_run() {
    let micros = [
        441.305, 24.771_8, 12.067_9, 9.969_81, 9.423_99, 9.749_48, 9.504_11, 9.604_26, 9.313_83,
    ];
    let mut stamps = vec![0];
    for sample in micros {
        // Whole nanoseconds: the samples have fewer digits than perftest's, which counts cycles.
        stamps.push(stamps.last().unwrap() + (sample * 2e3_f64).round() as u64);
    }
    let samples = Samples::from_stamps(&stamps, true);
    assert_eq!(
        latency_row(2, 10, &samples.row()),
        " 2       10          9.31           24.77        9.60     \t       9.95        \t0.76   \t\t24.77   \t\t24.77  "
    );
    let run = |histogram, unsorted| Spec {
        histogram,
        unsorted,
        ..spec(Op::Send, Metric::Latency, true)
    };
    assert_eq!(sample_lists(&run(false, false), &samples), "");
    let both = sample_lists(&run(true, true), &samples);
    let lines: Vec<_> = both.lines().collect();
    assert_eq!(
        (lines[0], lines[1], lines[9]),
        ("#, usec", "1, 441.305", "9, 9.314")
    );
    assert_eq!(
        (lines[10], lines[11], lines[17]),
        ("#, usec", "1, 9.314", "7, 12.068")
    );
    assert_eq!(lines[18..], [SEPARATOR, latency_columns()]);
    assert_eq!(
        sample_lists(&run(false, true), &samples).lines().count(),
        12
    );
}

#[test]
fn post_list_without_moderation_is_remarked() {
    let mut list = Spec {
        post_list: 4,
        ..spec(Op::Send, Metric::Bandwidth, true)
    };
    list.resolve_depths(None, None, None);
    let expected = "---------------------------------------------------------------------------------------\nPost List requested - CQ moderation will be the size of the post list\n";
    assert_eq!(post_list_note(&list).as_deref(), Some(expected));
    list.resolve_depths(None, None, Some(2));
    assert_eq!(post_list_note(&list), None);
}

#[test]
fn unmeasured_peak_is_announced_where_perftest_does() {
    let client = spec(Op::Write, Metric::Bandwidth, true);
    assert_eq!(peak_warning(&client), None);
    let many = Spec {
        iters: 20_001,
        ..client.clone()
    };
    assert_eq!(
        peak_warning(&many),
        Some(" WARNING: BW peak won't be measured in this run.\n")
    );
    let span = Span {
        total: Duration::from_secs(4),
        margin: Duration::from_secs(1),
    };
    assert!(
        peak_warning(&Spec {
            duration: Some(span),
            ..client
        })
        .is_some()
    );
    assert!(peak_warning(&spec(Op::Send, Metric::Bandwidth, false)).is_some());
    assert!(peak_warning(&spec(Op::Send, Metric::Latency, false)).is_none());
    assert!(peak_warning(&spec(Op::Write, Metric::Bandwidth, false)).is_none());
}

#[test]
fn json_is_valid_and_keeps_perftests_names() {
    let spec = spec(Op::Write, Metric::Bandwidth, true);
    let report = BwReport {
        size: 64,
        iterations: 5000,
        peak: f64::INFINITY,
        average: 12.345,
        message_rate: 0.123_456_7,
    };
    let text = perftest_json(
        &spec,
        &facts(),
        &PerftestResult::Bandwidth {
            report,
            precision: Precision::Usual,
            busy: None,
        },
    );
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["test_info"]["test"], "RDMA_Write_BW_Test");
    assert_eq!(value["test_info"]["Mtu"], 1024);
    assert_eq!(value["results"]["BW_average"], 12.35);
    assert_eq!(value["results"]["MsgRate"], 0.123_457);
    assert_eq!(value["results"]["BW_peak"], 0.0);
    let order: Vec<_> = [
        "\"test\"",
        "\"Dual_port\"",
        "\"Device\"",
        "\"Mtu\"",
        "\"Data_ex_method\"",
        "\"results\"",
    ]
    .iter()
    .map(|key| text.find(key).unwrap())
    .collect();
    assert!(order.is_sorted(), "{text}");

    let row = LatencyRow::default();
    let latency = PerftestResult::Latency {
        size: 2,
        iterations: 1000,
        row,
    };
    let text = perftest_json(&spec, &facts(), &latency);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["results"]["percentile_99.9"], 0.0);
    let timed = PerftestResult::Timed {
        size: 2,
        row: TimedLatency::default(),
        busy: None,
    };
    let value: serde_json::Value =
        serde_json::from_str(&perftest_json(&spec, &facts(), &timed)).unwrap();
    assert_eq!(value["results"]["tps_average"], 0.0);
}
