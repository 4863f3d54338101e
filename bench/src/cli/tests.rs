mod compat;
mod errors;
mod helping;

use core::time::Duration;

use super::*;
use crate::spec::Role;

fn parse_line(line: &str) -> Result<Command, Stop> {
    parse(line.split_whitespace().map(OsString::from))
}

fn spec(line: &str) -> Spec {
    match parse_line(line) {
        Ok(Command::Test { spec, .. }) => *spec,
        other => panic!("{line}: {other:?}"),
    }
}

fn refusal(line: &str) -> String {
    match parse_line(line) {
        Err(stop @ Stop::Usage(_)) => {
            let Stop::Usage(text) = stop else {
                unreachable!()
            };
            text
        }
        Err(Stop::Parser(error)) if error.use_stderr() => error.to_string(),
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn bare_test_is_a_server_with_defaults() {
    for test in Test::ALL {
        assert_eq!(spec(&format!("roce {}", test.name())), Spec::new(test));
        assert_eq!(spec(&test.perftest_name()), Spec::new(test));
        assert_eq!(
            spec(&format!("/usr/bin/{}", test.perftest_name())),
            Spec::new(test)
        );
    }
}

#[test]
fn letters_and_names_mean_the_same() {
    for (letters, names) in [
        (
            "-s 4K -n 100 -q 2 -b",
            "--size=4096 --iters 100 --qp=2 --bidirectional",
        ),
        ("-a", "--all"),
        ("-t 64 -Q 8 -l 8", "--tx-depth=64 --cq-mod=8 --post_list=8"),
        (
            "-d udp:lo -i 1 -x 3 -m 1024 -p 1 -u 9",
            "--ib-dev=udp:lo --ib-port=1 --gid-index=3 --mtu=1024 --port=1 --qp-timeout=9",
        ),
        ("-D 8 -f 1 -F", "--duration=8 --margin=1 --CPU-freq"),
        ("-D8 -f1 -F", "-F -D 8 -f 1"),
    ] {
        assert_eq!(
            spec(&format!("ib_write_bw {letters} h")),
            spec(&format!("ib_write_bw {names} h"))
        );
    }
    let lat = spec("roce send-lat -HU -r 9");
    assert!(lat.histogram && lat.unsorted && lat.rx_depth == 10);
    assert_eq!(
        lat,
        spec("roce send-lat --report-histogrm --report-unsorted --rx-depth=9")
    );
    let atomic = spec("roce atomic-bw -A CMP_AND_SWAP -o 4");
    assert_eq!(
        atomic,
        spec("roce atomic-bw --atomic_type=CMP_AND_SWAP --outs=4")
    );
}

#[test]
fn long_options_of_both_worlds_are_read() {
    let run = spec(
        "roce write-bw --report_gbits --tclass 106 --ipv6 --ipv6-addr --bind_source_ip ::1 --out_json \
         --out_json_file=o.json --verify --json r.json --pcap f --pcap-snaplen 96 --pcap-limit 1M \
         --trace exchange,packets --connect-timeout 2.5 --impair drop=1%,seed=7 ::1",
    );
    assert!(run.report_gbits && run.ipv6 && run.ipv6_addr && run.verify);
    assert_eq!(run.tclass, 106);
    assert_eq!(run.out_json.as_deref(), Some(Path::new("o.json")));
    assert_eq!(run.pcap.as_ref().and_then(|pcap| pcap.limit), Some(1 << 20));
    assert_eq!(run.connect_timeout, Duration::from_millis(2500));
    assert_eq!(run.accept_timeout, Some(run.connect_timeout));
    assert!(run.trace.exchange && run.trace.packets);
    let default = spec("roce write-bw --out_json");
    assert_eq!(
        default.out_json.as_deref(),
        Some(Path::new("perftest_out.json"))
    );
}

#[test]
fn command_line_of_a_run_repeats_it() {
    for line in [
        "roce write-bw",
        "roce write-bw -a --verify -n 200 --lab",
        "roce read-bw -m 256 -s 1025 --verify --lab",
        "roce atomic-bw -A CMP_AND_SWAP -q 4 --lab",
        "roce write-bw -b -D 5 --report_gbits 10.0.0.1",
        "roce write-bw -D 3 -f 0.5 -Q 16 -t 64 h",
        "roce send-bw -n 100 -r 32 -l 4 -d udp:lo -x 1 -p 0 -u 10 --tclass 4",
        "roce send-lat -H -U ::1",
        "roce read-lat --impair drop=1%,delay=50us,seed=7 --trace exchange --connect-timeout 10",
        "roce send-bw -c UD -r 64 -n 100 h",
        "roce send-bw -c UC -s 64 -I 64 -e -S 3 --use-srq -q 4 --mr_per_qp --use_hugepages",
        "roce send-bw -c UD -s 65536 --pkey_index 1 --retry_count 3 --flow_label 1,0xff",
        "roce send-bw -b --report-both -N -w 1.5 -y 0.25 --send_with_imm --output message_rate h",
        "roce write-bw --write_with_imm -r 20 --reversed --perform_warm_up -D 4 --cpu_util",
        "roce write-bw --run_infinitely -D 2 -t 64 -Q 7",
        "roce read-bw --run_infinitely",
        "roce write-bw --rate_limit 2.5 --rate_units M --burst_size 4 --rate_limit_type SW",
        "roce write-bw --rate_limit 1e6 --rate_units p -t 32",
        "roce send-lat -C --latency_gap 50 --output latency",
        "roce write-lat --pcap a --pcap-snaplen 96 --pcap-limit 1M --json j --out_json_file o --lab --ipv6",
    ] {
        let first = spec(line);
        let again = format!("roce {}", first.args().join(" "));
        assert_eq!(spec(&again), first, "{line} became {again}");
    }
}

#[test]
fn ipv6_server_implies_ipv6() {
    let run = spec("roce write-bw fd00::1");
    assert!(run.ipv6 && run.ipv6_addr);
    assert!(!spec("roce write-bw name").ipv6);
    let lab = spec("roce write-bw --lab --ipv6");
    assert_eq!(lab.role, Role::Client { host: "::1".into() });
}

#[test]
fn versions_and_help_are_not_errors() {
    for line in [
        "roce --version",
        "roce -V",
        "ib_write_bw -V",
        "roce write-bw --version",
    ] {
        let Err(Stop::Version(text)) = parse_line(line) else {
            panic!("{line}")
        };
        assert!(text.contains(env!("CARGO_PKG_VERSION")), "{text}");
        assert_eq!(line.contains("write"), text.starts_with("Version: 6.20\n"));
    }
    for line in [
        "roce --help",
        "roce write-bw -h",
        "ib_read_lat --help",
        "roce compare --help",
    ] {
        let Err(Stop::Parser(help)) = parse_line(line) else {
            panic!("{line}")
        };
        assert!(!help.use_stderr());
        assert!(help.to_string().starts_with("Examples"), "{help}");
    }
}

#[test]
fn what_has_no_effect_is_said() {
    for (line, word) in [
        ("roce write-bw -D 5 -n 9", "-n has no effect"),
        ("roce write-bw -a -s 9", "-s has no effect"),
        ("roce write-bw --run_infinitely -n 9", "-n has no effect"),
        (
            "roce write-bw --run_infinitely -D 4 -f 1",
            "-f has no effect",
        ),
        ("roce write-bw --cpu_util", "--cpu_util works only with -D"),
        ("roce write-bw --report-both", "--report-both needs -b"),
        (
            "roce send-bw -b -D 4 --report-both",
            "--report-both needs -b",
        ),
        ("roce write-bw --rate_limit 1", "kept by software"),
        (
            "roce write-lat --report_gbits",
            "--report_gbits has no effect",
        ),
    ] {
        let Ok(Command::Test { notes, .. }) = parse_line(line) else {
            panic!("{line}")
        };
        assert!(
            notes.iter().any(|note| note.contains(word)),
            "{line}: {notes:?}"
        );
    }
}

#[test]
fn comparison_has_defaults() {
    let Ok(Command::Compare(spec)) = parse_line("roce compare") else {
        panic!()
    };
    assert_eq!((spec.rounds, spec.duration), (3, Duration::from_secs(2)));
    let Ok(Command::Compare(spec)) = parse_line(
        "roce compare --quick --tests write-bw,ib_read_lat --sizes 64,4K --backends udp --rounds 2 --report d",
    ) else {
        panic!()
    };
    assert_eq!((spec.rounds, spec.sizes.as_slice()), (2, &[64, 4096][..]));
    assert_eq!(spec.tests.len(), 2);
}
