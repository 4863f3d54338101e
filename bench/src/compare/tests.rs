use core::time::Duration;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::json::{LatencyUs, Run};
use crate::spec::{Spec, Test};

fn chosen() -> CompareSpec {
    CompareSpec {
        tests: vec![],
        sizes: vec![],
        mtu: None,
        backends: vec![],
        rounds: 3,
        duration: Duration::from_secs(2),
        ceiling: false,
        verify: false,
        create_rxe: None,
        report: None,
    }
}

fn names(plan: &Plan) -> Vec<String> {
    plan.rows.iter().map(ToString::to_string).collect()
}

fn test(name: &str) -> Test {
    Test::from_name(name).unwrap()
}

#[test]
fn default_plan_fits_three_minutes() {
    let plan = Plan::new(&chosen()).unwrap();
    assert_eq!(plan.rows.len(), 9);
    // Whether AF_XDP can be run depends on who runs this test.
    let skipped = plan.skipped.iter().map(|skip| &skip.backend);
    let mut all: Vec<_> = plan.backends().chain(skipped).collect();
    all.sort();
    assert_eq!(all, ["afxdp", "udp", "verbs"]);
    assert_eq!(plan.columns[0].backend, "udp");
    let spec = plan.spec(&plan.rows[0], "udp");
    assert_eq!(
        spec.command_line(),
        "roce write-bw -s 64 -D 3 -f 0.5 -d udp --lab"
    );
    let all: Duration = plan
        .rows
        .iter()
        .map(|row| plan.spec(row, "udp").duration.unwrap().total * plan.rounds)
        .sum();
    assert!(all < Duration::from_secs(100), "{all:?}");
}

#[test]
fn tests_and_sizes_narrow_the_rows() {
    let narrow = |tests: &[&str], sizes: &[u64]| {
        let tests = tests.iter().map(|name| test(name)).collect();
        let spec = CompareSpec {
            tests,
            sizes: sizes.to_vec(),
            ..chosen()
        };
        names(&Plan::new(&spec).unwrap())
    };
    assert_eq!(
        narrow(&["write-bw"], &[]),
        ["write-bw 64 B", "write-bw 4096 B", "write-bw 65536 B"]
    );
    assert_eq!(
        narrow(&["write-bw"], &[1, 2]),
        ["write-bw 1 B", "write-bw 2 B"]
    );
    assert_eq!(narrow(&["atomic-bw"], &[]), ["atomic-bw 8 B"]);
    assert_eq!(
        narrow(&["atomic-bw", "atomic-lat"], &[64]),
        ["atomic-lat 8 B", "atomic-bw 8 B"]
    );
    assert_eq!(narrow(&[], &[512]).len(), 7);
}

#[test]
fn backends_are_checked() {
    let with = |backends: &[&str]| {
        Plan::new(&CompareSpec {
            backends: backends.iter().map(|name| (*name).to_owned()).collect(),
            ..chosen()
        })
    };
    assert_eq!(exit::status_of(&with(&["tcp"]).unwrap_err()), exit::USAGE);
    let error = with(&["verbs"]).unwrap_err();
    assert_eq!(exit::status_of(&error), exit::ENVIRONMENT);
    assert!(error.to_string().contains("verbs is left out"), "{error}");
    assert!(with(&["udp"]).unwrap().skipped.is_empty());
}

fn measured(row: &Row, gbps: Option<f64>, typical: Option<f64>) -> Run {
    Run {
        backend: "udp".into(),
        test: row.test.name().into(),
        size_bytes: row.size,
        bandwidth_gbps: gbps,
        message_rate_mpps: gbps.map(|gbps| gbps / 8.0),
        latency_us: typical.map(|typical| LatencyUs {
            typical,
            p99: typical * 2.0,
            p999: typical * 3.0,
            ..LatencyUs::default()
        }),
        cpu_percent: Some(99.0),
        ..Run::default()
    }
}

#[test]
fn table_has_medians_and_spread() {
    let spec = CompareSpec {
        tests: vec![test("write-bw"), test("read-lat"), test("atomic-lat")],
        sizes: vec![64],
        backends: vec!["udp".to_owned()],
        ..chosen()
    };
    let mut plan = Plan::new(&spec).unwrap();
    plan.skipped = vec![SkippedBackend {
        backend: "verbs".to_owned(),
        reason: "no device".to_owned(),
    }];
    let mut comparison = Comparison::default();
    for (round, gbps) in (1..).zip([8.0, 10.0, 12.0]) {
        let bandwidth = measured(&plan.rows[0], Some(gbps), None);
        let latency = measured(&plan.rows[1], None, Some(gbps / 2.0));
        comparison
            .runs
            .extend([bandwidth, latency].map(|run| Round { round, run }));
    }
    let text = table::results(&plan, &comparison);
    let line = |name: &str| {
        text.lines()
            .find(|line| line.contains(name))
            .unwrap()
            .to_owned()
    };
    let words = |name: &str| {
        line(name)
            .replace(['│', '┆'], " ")
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        words("write-bw"),
        [
            "write-bw", "64", "10.0", "±20%", "1.25", "±20%", "99.0", "±0%"
        ]
    );
    assert_eq!(
        words("read-lat"),
        [
            "read-lat", "64", "5.00", "±20%", "10.0", "±20%", "15.0", "±20%", "99.0", "±0%"
        ]
    );
    assert_eq!(words("atomic-lat"), ["atomic-lat", "8", "failed"]);
    let variance = table::variance(&plan, &comparison);
    assert!(
        variance.contains("40.0 %") && variance.contains("8.00") && variance.contains("12.0"),
        "{variance}"
    );
    let heading = table::heading(&plan, &Environment::default());
    assert!(
        heading.contains("udp, both ends on this machine: 3 rounds of 2 s for each of 3 tests")
    );
    assert!(heading.contains("verbs is left out: "), "{heading}");
}

#[test]
fn file_holds_runs_with_their_round() {
    let plan = Plan::new(&chosen()).unwrap();
    let run = measured(&plan.rows[0], Some(1.0), None);
    let comparison = Comparison {
        runs: vec![Round { round: 2, run }],
        rounds: 3,
        skipped_backends: plan.skipped,
        ..Comparison::default()
    };
    let value = serde_json::to_value(&comparison).unwrap();
    assert_eq!(value["runs"][0]["round"], 2);
    assert_eq!(value["runs"][0]["test"], "write-bw");
    let skipped = value["skipped_backends"].as_array().unwrap();
    assert!(skipped.iter().any(|one| one["backend"] == "verbs"));
    assert_eq!(
        serde_json::from_value::<Comparison>(value).unwrap(),
        comparison
    );
}

/// Runs a cell with a script in place of this program.
fn run_script(script: &str, stop: bool) -> Result<Run> {
    let folder = cell::Folder::new().unwrap();
    let program = folder.path().join("script");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let plan = Plan::new(&chosen()).unwrap();
    let spec: Spec = plan.spec(&plan.rows[0], "udp");
    cell::run(&program, &spec, &folder, &AtomicBool::new(stop))
}

#[test]
fn cell_reads_what_its_process_wrote() {
    let json = serde_json::to_string(&Run {
        backend: "udp".into(),
        ..Run::default()
    })
    .unwrap();
    let script = format!("while [ \"$1\" != --json ]; do shift; done; echo '{json}' > \"$2\"");
    let run = run_script(&script, false).unwrap();
    assert_eq!(run.backend, "udp");
    assert_eq!(run.command, "roce write-bw -s 64 -D 3 -f 0.5 -d udp --lab");
}

#[test]
fn cell_that_fails_says_why() {
    let error = run_script("echo first >&2; echo no device >&2; exit 3", false).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("exit status: 3") && text.contains("first | no device"),
        "{text}"
    );
    let error = run_script("exit 1", false).unwrap_err().to_string();
    assert!(error.contains("it said nothing"), "{error}");
    let error = run_script("exit 0", false).unwrap_err().to_string();
    assert!(error.contains("reading the result"), "{error}");
    let error = run_script("sleep 60", true).unwrap_err().to_string();
    assert!(error.contains("interrupted"), "{error}");
}
