//! What the less common options print.

use roce_engine::verbs::Service;

use super::*;
use crate::spec::Form;

fn report(average: f64, message_rate: f64) -> BwReport {
    BwReport {
        size: 1024,
        iterations: 1000,
        peak: 120.5,
        average,
        message_rate,
    }
}

#[test]
fn datagram_server_with_events_and_a_shared_queue_has_its_banner() {
    let mut server = Spec {
        service: Service::Ud,
        bidirectional: true,
        qps: 2,
        size: 1024,
        ..spec(Op::Send, Metric::Bandwidth, false)
    };
    server.qp.events = true;
    server.qp.use_srq = true;
    server.pace.with_imm = true;
    server.resolve_depths(None, None, None);
    let facts = Facts {
        max_inline: 64,
        ..facts()
    };
    let expected = "\
---------------------------------------------------------------------------------------
                    Send_imm Bidirectional BW Test
 Test with events. Using udp:lo_comp0
 Dual-port       : OFF\t\tDevice         : udp:lo
 Number of qps   : 2\t\tTransport type : IB
 Connection type : UD\t\tUsing SRQ      : ON
 PCIe relax order: Unsupported
 ibv_wr* API     : OFF
 TX depth        : 128
 RX depth        : 1000
 CQ Moderation   : 100
 Mtu             : 1024[B]
 Link type       : Ethernet
 GID index       : 3
 Max inline data : 64[B]
 rdma_cm QPs\t : OFF
 Data ex. method : Ethernet
---------------------------------------------------------------------------------------
";
    assert_eq!(banner(&server, &facts), expected);
}

#[test]
fn writes_with_an_immediate_show_receives_and_no_memory() {
    let mut server = spec(Op::Write, Metric::Bandwidth, false);
    server.service = Service::Uc;
    server.pace.with_imm = true;
    server.resolve_depths(None, Some(64), None);
    let text = banner(&server, &facts());
    assert!(text.contains("                    RDMA_Write_imm BW Test\n"));
    assert!(text.contains("\n Connection type : UC\t\tUsing SRQ      : OFF\n"));
    assert!(text.contains("\n RX depth        : 64\n") && !text.contains("TX depth"));
    let addresses = addresses(&server, &[endpoint(0x11, 4096)], &[]);
    assert!(addresses.contains(" PSN 0x36bcce\n GID"), "{addresses}");
}

#[test]
fn reversed_roles_swap_depths() {
    let mut server = spec(Op::Send, Metric::Bandwidth, false);
    server.pace.reversed = true;
    let text = banner(&server, &facts());
    assert!(text.contains(" TX depth ") && !text.contains(" RX depth "));
    let mut client = spec(Op::Send, Metric::Bandwidth, true);
    client.pace.reversed = true;
    let text = banner(&client, &facts());
    assert!(!text.contains(" TX depth ") && text.contains(" RX depth "));
    assert!(peak_warning(&client).is_some());
}

#[test]
fn peak_that_is_not_wanted_is_not_warned_about() {
    let mut client = spec(Op::Write, Metric::Bandwidth, true);
    client.iters = 20_001;
    client.shown.no_peak = true;
    assert_eq!(peak_warning(&client), None);
    client.shown.no_peak = false;
    client.pace.row_every_s = Some(5);
    client.iters = 0;
    assert!(peak_warning(&client).is_some());
}

#[test]
fn both_directions_have_blocks_of_their_own() {
    let mut run = spec(Op::Write, Metric::Bandwidth, true);
    run.shown.both = true;
    let text = both_directions(&run, &report(100.0, 0.1), &report(90.25, 0.09), None);
    let expected = "\
---------------------------------------------------------------------------------------

 Local results:\x20
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 1024       1000             120.50             100.00 \t\t   0.100000
---------------------------------------------------------------------------------------

 Remote results:\x20
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 1024       1000             120.50             90.25  \t\t   0.090000
";
    assert_eq!(text, expected);
}

#[test]
fn business_of_the_machine_is_a_last_column() {
    let mut run = spec(Op::Write, Metric::Bandwidth, true);
    assert_eq!((busy_column(&run), busy_cell(None)), ("", String::new()));
    run.shown.cpu_util = true;
    assert_eq!(busy_column(&run), "    CPU_Util[%]");
    assert_eq!(busy_cell(Some(7.126)), "\t    7.13");
    assert_eq!(busy_cell(Some(100.0)), "\t    100.00");
    let result = PerftestResult::Bandwidth {
        precision: Precision::Usual,
        report: report(100.0, 0.1),
        busy: Some(7.126),
    };
    let json = perftest_json(&run, &facts(), &result);
    assert!(json.contains("\"CPU_util\": 7.13"), "{json}");
}

#[test]
fn one_figure_has_six_decimals() {
    let found = report(100.0, 0.1);
    for (form, figure) in [
        (Form::Bandwidth, Some("100.000000")),
        (Form::MessageRate, Some("0.100000")),
        (Form::Full, None),
    ] {
        assert_eq!(bandwidth_figure(form, &found).as_deref(), figure);
    }
    assert_eq!(latency_figure(3.5), "3.500000");
}

#[test]
fn one_figure_is_all_that_json_has() {
    let results = |form, result| {
        let mut run = spec(Op::Write, Metric::Bandwidth, true);
        run.shown.form = form;
        run.qp.events = true;
        let text = perftest_json(&run, &facts(), &result);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["test_info"]["Test with events"], "Using_udp:lo_comp0");
        value["results"].to_string()
    };
    let bandwidth = PerftestResult::Bandwidth {
        precision: Precision::Usual,
        report: report(100.5, 0.1),
        busy: None,
    };
    assert_eq!(results(Form::Bandwidth, bandwidth), r#"{"bw_avg":100.5}"#);
    assert_eq!(
        results(Form::MessageRate, bandwidth),
        r#"{"msgRate_avg":0.1}"#
    );
    let latency = PerftestResult::Latency {
        size: 2,
        iterations: 1000,
        row: LatencyRow {
            avg: 3.25,
            ..LatencyRow::default()
        },
    };
    assert_eq!(results(Form::Latency, latency), r#"{"avg_lat":3.25}"#);
}

#[test]
fn limits_are_in_the_units_of_the_table() {
    let mut run = spec(Op::Write, Metric::Bandwidth, true);
    let best = report(100.0, 0.1);
    assert_eq!(missed_limit(&run, &best), None);
    run.shown.least_bandwidth = Some(100.0);
    run.shown.least_rate = Some(0.2);
    assert_eq!(
        missed_limit(&run, &best).as_deref(),
        Some("Msg rate  is below msg_rate limit: 0.100000 of 0.2 Mpps")
    );
    run.report_gbits = true;
    run.shown.least_bandwidth = Some(100.5);
    assert_eq!(
        missed_limit(&run, &best).as_deref(),
        Some("BW result is below bw limit: 100.00 of 100.5 Gb/sec")
    );
}

#[test]
fn lists_in_cycles_say_so() {
    let samples = Samples::in_units(&[0, 1000, 2500, 3000, 4000], false, 0.5);
    let run = Spec {
        unsorted: true,
        ..spec(Op::Read, Metric::Latency, true)
    };
    let mut cycles = run.clone();
    cycles.shown.cycles = true;
    let text = sample_lists(&cycles, &samples);
    assert!(
        text.starts_with("#, cycles\n1, 2000\n2, 3000\n3, 1000\n4, 2000\n"),
        "{text}"
    );
    assert!(sample_lists(&run, &samples).starts_with("#, usec\n"));
}
